//! One node on a disk in memory: a shard, a clock that the test moves, and crashes.

use bytes::BytesMut;
use std::collections::BTreeMap;
use std::sync::Arc;
use whippet_log::PreviousEnd;
use whippet_metadata::command::{Command, Done, Envelope, PasswordHash};
use whippet_metadata::options::Purpose;
use whippet_metadata::{PartitionSettings, TopicDefaults, TopicOptionsPatch};
use whippet_protocol::batch::{BatchBuilder, batches, messages};
use whippet_protocol::{Identifier, Name};
use whippet_shard::{
    Consumer, Effect, Event, GroupTable, Identity, METADATA_SEGMENT_SIZE, MetadataGroup, Notice, Reply, Request,
    RequestTicket, Severity, Shard, ShardConfig, Strategy, VOTES_COMPACT_AT, Votes,
};
use whippet_storage::{
    CompletionOrder, Crash, MemoryHost, RecoverySource, StorageEffect, StorageHost, StorageOp, StorageTicket,
};
use whippet_vsr::{ClusterId, GroupId, Mutant, Now, PIPELINE_MAX, ReplicaId};

pub const CLUSTER: ClusterId = ClusterId(42);

pub struct Node {
    pub host: MemoryHost,
    shard: Option<Shard>,
    pub notices: Vec<Notice>,
    pub replies: BTreeMap<RequestTicket, Reply>,
    run: u64,
    /// Starts whose unsynced writes a stop of the machine may have lost, until that is made up for.
    lost: Option<(u64, u64)>,
    clock_us: u64,
    asked: u64,
}

pub fn name(text: &str) -> Name {
    Name::new(text).expect("valid")
}

impl Node {
    /// A first start on an empty disk.
    pub fn new(order: CompletionOrder) -> Node {
        let mut node = Node {
            host: MemoryHost::new(order),
            shard: None,
            notices: Vec::new(),
            replies: BTreeMap::new(),
            run: 0,
            lost: None,
            clock_us: 1_000_000,
            asked: 0,
        };
        node.start(usize::MAX);
        node.command(Command::Bootstrap {
            cluster: "test".into(),
            root: name("root"),
            password_hash: PasswordHash("x".into()),
        });
        node.command(Command::CreateStream { name: name("s") });
        node
    }

    pub fn now(&self) -> Now {
        Now { monotonic_ns: self.clock_us * 1000, wall_us: self.clock_us }
    }

    /// Reads the disk back and serves, for so many storage operations at first.
    pub fn start(&mut self, completions: usize) {
        self.run += 1;
        let previous_end = match self.lost {
            Some((first, _)) => PreviousEnd::MachineStopped { first, last: self.run - 1 },
            None => PreviousEnd::PageCacheKept,
        };
        self.clock_us += 1_000;
        let table = GroupTable::read(&self.host, CLUSTER).expect("readable");
        let config = ShardConfig {
            cluster: CLUSTER,
            replica: ReplicaId(0),
            replica_count: 1,
            shard: 0,
            shard_count: 1,
            run: self.run,
            incarnation: u128::from(self.run),
            previous_end,
            sync_interval_ns: 100_000_000,
            disk: 1,
            pipeline: PIPELINE_MAX,
            metadata_segment_size: METADATA_SEGMENT_SIZE,
            votes_compact_at: VOTES_COMPACT_AT,
            mutant: Mutant::None,
        };
        let votes = Votes::read(&self.host, config.vote_owner()).expect("readable");
        let metadata =
            MetadataGroup::recover(&config, &self.host, &votes, self.now()).expect("the metadata log is whole");
        let partitions: Vec<PartitionSettings> = metadata.state().all_partitions().collect();
        let mut shard = Shard::new(config, Some(metadata), &table, &votes, self.now());
        let now = self.now();
        shard.recover_partitions(partitions.iter(), &[], &table, &votes, &self.host, now).expect("readable");
        self.shard = Some(shard);
        self.pump(completions);
    }

    /// The process or its machine ends here and now, and starts again.
    pub fn crash(&mut self, crash: Crash) {
        self.crash_and_run(crash, usize::MAX);
    }

    /// The same, but of the work that follows only so many storage operations complete.
    pub fn crash_and_run(&mut self, crash: Crash, completions: usize) {
        self.shard = None;
        self.host.crash(crash);
        if matches!(crash, Crash::KeepUnsynced) {
            self.sync_everything();
        }
        let machine = !matches!(crash, Crash::KeepUnsynced);
        if machine {
            self.lost = Some((self.lost.map_or(self.run, |(first, _)| first), self.run));
        }
        self.start(completions);
    }

    /// What opening a data directory does after a process was killed: nothing of the run before stays unsynced.
    fn sync_everything(&mut self) {
        let mut files = self.host.node_files().expect("readable");
        for group in self.host.groups().expect("readable") {
            files.extend(self.host.files(group).expect("readable"));
        }
        for (at, (file, _)) in files.into_iter().enumerate() {
            self.host
                .submit(StorageEffect { ticket: StorageTicket(u64::MAX - at as u64), op: StorageOp::Sync { file } });
        }
        self.host.flush();
        while self.host.poll_completion().is_some() {}
    }

    /// A clean stop and a start.
    pub fn restart(&mut self) {
        let now = self.now();
        self.shard.as_mut().expect("serves").handle(Event::Flush, now);
        self.pump(usize::MAX);
        assert!(self.shard.as_ref().expect("serves").is_idle(), "a flushed shard becomes idle");
        self.shard = None;
        self.host.crash(Crash::DropUnsynced);
        self.start(usize::MAX);
    }

    pub fn advance(&mut self, us: u64) {
        self.clock_us += us;
        self.pump(usize::MAX);
    }

    /// Asks without waiting for the answer.
    pub fn ask(&mut self, request: Request) -> RequestTicket {
        self.asked += 1;
        let ticket = RequestTicket(self.asked);
        let now = self.now();
        self.shard.as_mut().expect("serves").handle(Event::Request { ticket, request }, now);
        ticket
    }

    /// Does at most `completions` storage operations' worth of work.
    pub fn pump(&mut self, completions: usize) {
        self.work(completions);
        // As the host does: from then on later starts are not told of the loss.
        if self.shard.as_ref().is_some_and(Shard::has_recovered) {
            self.lost = None;
        }
    }

    fn work(&mut self, completions: usize) {
        let now = self.now();
        let Some(shard) = &mut self.shard else { return };
        let mut left = completions;
        loop {
            shard.settle(now);
            let mut any = false;
            while let Some(effect) = shard.poll_effect() {
                any = true;
                match effect {
                    Effect::Storage(effect) => self.host.submit(effect),
                    Effect::Reply { ticket, reply } => {
                        assert!(self.replies.insert(ticket, reply).is_none(), "answered twice")
                    }
                    Effect::Groups(changes) => shard.handle(Event::Groups(changes), now),
                    Effect::Publish(_) => {}
                    Effect::Notice(notice) => self.notices.push(notice),
                    Effect::Fatal(reason) => panic!("{reason}"),
                    other @ (Effect::Peer { .. } | Effect::Restored(_)) => panic!("a node of its own: {other:?}"),
                }
            }
            self.host.flush();
            if left == 0 {
                return;
            }
            match self.host.poll_completion() {
                Some(completion) => {
                    left -= 1;
                    shard.handle(Event::Storage(completion), now);
                }
                None if !any && !shard.needs_settling() => return,
                None => {}
            }
        }
    }

    /// Asks and waits.
    pub fn call(&mut self, request: Request) -> Reply {
        let ticket = self.ask(request);
        self.pump(usize::MAX);
        self.replies.remove(&ticket).expect("answered without time passing")
    }

    pub fn command(&mut self, command: Command) -> Done {
        let envelope = Envelope { client: 0, session: 0, request: 0, checksum: 0, user: 0, command };
        match self.call(Request::Metadata(Arc::new(envelope))) {
            Reply::Metadata { outcome, .. } => outcome.expect("accepted"),
            other => panic!("{other:?}"),
        }
    }

    /// A topic with one partition.
    pub fn topic(&mut self, topic: &str, durability: &str) -> GroupId {
        let options =
            TopicOptionsPatch::from_text_map([("segment_size", "1MiB"), ("durability", durability)], Purpose::Create)
                .and_then(|options| options.for_creation(&TopicDefaults::default(), 1))
                .expect("valid");
        let stream = Identifier::Name(name("s"));
        match self.command(Command::CreateTopic { stream, name: name(topic), partitions: 1, options }) {
            Done::TopicCreated { topic, .. } => {
                let group = topic.partitions[0].group;
                GroupId { number: group.number, life: group.life }
            }
            other => panic!("{other:?}"),
        }
    }

    /// All messages from `offset` on: offset and payload.
    pub fn read(&mut self, group: GroupId, offset: u64) -> Vec<(u64, Vec<u8>)> {
        let mut found = Vec::new();
        let mut next = offset;
        loop {
            let request = Request::Poll {
                group,
                consumer: Consumer::Single(0),
                strategy: Strategy::Offset(next),
                count: 7,
                max_bytes: 4 << 20,
                auto_commit: false,
                identity: Identity::default(),
            };
            match self.call(request) {
                Reply::Polled(polled) if polled.count == 0 => return found,
                Reply::Polled(polled) => {
                    let bytes: Vec<u8> = polled.chunks.iter().flat_map(|chunk| chunk.to_vec()).collect();
                    let before = found.len();
                    found.extend(batches(&bytes).flat_map(messages).map(|m| (m.offset, m.payload.to_vec())));
                    assert_eq!(found.len() - before, polled.count as usize);
                    next = found.last().expect("at least one").0 + 1;
                }
                other => panic!("{other:?}"),
            }
        }
    }

    pub fn errors(&self) -> Vec<&str> {
        self.notices
            .iter()
            .filter(|notice| notice.severity == Severity::Error)
            .map(|notice| notice.text.as_str())
            .collect()
    }
}

/// A batch of these payloads.
pub fn send(group: GroupId, identity: Identity, payloads: &[Vec<u8>]) -> Request {
    let mut builder = BatchBuilder::new(256, 5, 0);
    for payload in payloads {
        builder.push(1, 5, payload, &[]);
    }
    let (buffer, batch): (BytesMut, _) = builder.finish();
    Request::Send { group, identity, buffer, batch, count: payloads.len() as u32 }
}
