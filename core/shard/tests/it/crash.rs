//! Crashes at any point: what was acknowledged is there, unchanged, and no offset ever means two things.

use crate::node::{Node, send};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use whippet_metadata::command::{Command, Done};
use whippet_protocol::Identifier;
use whippet_shard::{Consumer, Identity, Reply, Request, RequestTicket};
use whippet_storage::{CompletionOrder, Crash};
use whippet_vsr::GroupId;

#[derive(Clone, Debug)]
enum Step {
    /// Send so many messages of so many bytes to topic 0 (replicated) or 1 (persisted).
    Send {
        topic: usize,
        count: usize,
        size: usize,
    },
    /// Store the offset of the last acknowledged message.
    Store {
        topic: usize,
    },
    Purge {
        topic: usize,
    },
    /// Let so many storage operations complete.
    Work(usize),
    /// Let time pass, in ms.
    Wait(u64),
    Kill,
    PowerLoss(u64),
    /// Power is lost, and the process that starts then is killed after so many storage operations.
    PowerLossAndKill(u64, usize),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..2usize, 1..4usize, prop_oneof![Just(30usize), Just(3_000), Just(400_000)])
            .prop_map(|(topic, count, size)| Step::Send { topic, count, size }),
        2 => (0..2usize).prop_map(|topic| Step::Store { topic }),
        1 => (0..2usize).prop_map(|topic| Step::Purge { topic }),
        6 => (0..12usize).prop_map(Step::Work),
        2 => (1..300u64).prop_map(Step::Wait),
        2 => Just(Step::Kill),
        1 => any::<u64>().prop_map(Step::PowerLoss),
        1 => (any::<u64>(), 0..12usize).prop_map(|(seed, work)| Step::PowerLossAndKill(seed, work)),
        1 => Just(Step::Restart),
    ]
}

/// What the outside knows of a topic.
#[derive(Default)]
struct Known {
    group: Option<GroupId>,
    /// Acknowledged, by offset, since the last purge.
    acknowledged: BTreeMap<u64, Vec<u8>>,
    /// Acknowledged or not: everything that was ever sent.
    sent: BTreeSet<Vec<u8>>,
    /// Every offset that was ever acknowledged since the last purge, with its payload, also if declared lost since.
    ever: BTreeMap<u64, Vec<u8>>,
    stored: Option<u64>,
}

struct World {
    node: Node,
    topics: Vec<Known>,
    /// Sends under way: topic and payloads.
    open: BTreeMap<RequestTicket, (usize, Vec<Vec<u8>>)>,
    stores: BTreeMap<RequestTicket, (usize, u64)>,
    next: u32,
}

impl World {
    fn new(order: CompletionOrder) -> World {
        let mut node = Node::new(order);
        let groups = [node.topic("replicated", "replicated"), node.topic("persisted", "persisted")];
        let topics = groups.into_iter().map(|group| Known { group: Some(group), ..Known::default() }).collect();
        World { node, topics, open: BTreeMap::new(), stores: BTreeMap::new(), next: 0 }
    }

    fn group(&self, topic: usize) -> GroupId {
        self.topics[topic].group.expect("made at the start")
    }

    fn send(&mut self, topic: usize, count: usize, size: usize) {
        let payloads: Vec<Vec<u8>> = (0..count)
            .map(|_| {
                self.next += 1;
                let mut payload = vec![self.next as u8; size];
                payload[..4].copy_from_slice(&self.next.to_le_bytes());
                payload
            })
            .collect();
        self.topics[topic].sent.extend(payloads.iter().cloned());
        let identity = Identity { client: 5, session: 1, request: u64::from(self.next), user: 0 };
        let ticket = self.node.ask(send(self.group(topic), identity, &payloads));
        self.open.insert(ticket, (topic, payloads));
    }

    /// Takes note of what was acknowledged.
    fn collect(&mut self) {
        for (ticket, reply) in std::mem::take(&mut self.node.replies) {
            if let Some((topic, payloads)) = self.open.remove(&ticket) {
                let Reply::Sent { base_offset, duplicate: false } = reply else { panic!("{reply:?}") };
                let known = &mut self.topics[topic];
                for (offset, payload) in (base_offset..).zip(payloads) {
                    if let Some(before) = known.ever.insert(offset, payload.clone()) {
                        assert!(before == payload, "offset {offset} was given out twice");
                    }
                    known.acknowledged.insert(offset, payload);
                }
            } else if let Some((topic, offset)) = self.stores.remove(&ticket) {
                assert!(matches!(reply, Reply::Done), "{reply:?}");
                self.topics[topic].stored = Some(offset);
            }
        }
    }

    fn check(&mut self) {
        self.node.pump(usize::MAX);
        self.collect();
        for topic in 0..self.topics.len() {
            let found = self.node.read(self.group(topic), 0);
            let known = &self.topics[topic];
            let seen: BTreeMap<u64, Vec<u8>> = found.iter().cloned().collect();
            assert_eq!(seen.len(), found.len(), "an offset came twice");
            for (offset, payload) in &known.acknowledged {
                assert!(
                    seen.get(offset) == Some(payload),
                    "topic {topic}: acknowledged offset {offset} is missing or changed"
                );
            }
            for (offset, payload) in &seen {
                assert!(known.sent.contains(payload), "topic {topic}: offset {offset} holds what nobody sent");
                if let Some(before) = known.ever.get(offset) {
                    assert!(before == payload, "topic {topic}: offset {offset} has two payloads");
                }
            }
            let offset = self.node.call(Request::GetOffset { group: self.group(topic), consumer: Consumer::Single(1) });
            let Reply::Offset(info) = offset else { panic!("{offset:?}") };
            if let (Some(stored), Some(last)) = (info.stored_offset, found.last()) {
                assert!(stored <= last.0, "a stored offset is behind the end of the log");
            }
            assert!(info.stored_offset >= self.topics[topic].stored, "a stored offset went back");
        }
    }

    fn crash(&mut self, crash: Crash) {
        self.forget(crash);
        self.node.crash(crash);
        self.check();
    }

    /// What a crash may take away from what the outside knows.
    fn forget(&mut self, crash: Crash) {
        self.collect();
        let open = std::mem::take(&mut self.open);
        self.stores.clear();
        if !matches!(crash, Crash::KeepUnsynced) {
            // A replicated topic may lose what was not synced; it then says so and goes on behind all that was given out.
            let known = &mut self.topics[0];
            known.acknowledged.clear();
            known.stored = None;
        }
        drop(open);
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Send { topic, count, size } => self.send(topic, count, size),
            Step::Store { topic } => {
                if let Some((offset, _)) = self.topics[topic].acknowledged.last_key_value() {
                    let offset = *offset;
                    let consumer = Consumer::Single(1);
                    let request = Request::StoreOffset {
                        group: self.group(topic),
                        consumer,
                        offset,
                        identity: Identity::default(),
                    };
                    let ticket = self.node.ask(request);
                    self.stores.insert(ticket, (topic, offset));
                }
            }
            Step::Purge { topic } => {
                self.node.pump(usize::MAX);
                self.collect();
                let (stream, id) = (Identifier::Id(0), Identifier::Id(topic as u32));
                let Done::Purged { intent, .. } = self.node.command(Command::PurgeTopic { stream, topic: id }) else {
                    panic!("purges")
                };
                assert!(matches!(self.node.call(Request::Purge { group: self.group(topic), intent }), Reply::Done));
                let known = &mut self.topics[topic];
                known.acknowledged.clear();
                known.ever.clear();
                known.sent.clear();
                known.stored = None;
            }
            Step::Work(operations) => self.node.pump(operations),
            Step::Wait(ms) => self.node.advance(ms * 1000),
            Step::Kill => self.crash(Crash::KeepUnsynced),
            Step::PowerLoss(seed) => {
                self.crash(if seed % 2 == 0 { Crash::DropUnsynced } else { Crash::KeepSome(seed) })
            }
            Step::PowerLossAndKill(seed, work) => {
                let crash = if seed % 2 == 0 { Crash::DropUnsynced } else { Crash::KeepSome(seed) };
                self.forget(crash);
                self.node.crash_and_run(crash, work);
                self.crash(Crash::KeepUnsynced);
            }
            Step::Restart => {
                self.node.pump(usize::MAX);
                self.collect();
                self.node.restart();
                self.check();
            }
        }
        self.collect();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn acknowledged_messages_survive_any_crash(seed in any::<u64>(), steps in prop::collection::vec(step(), 1..40)) {
        let mut world = World::new(CompletionOrder::Seeded(seed));
        for step in steps {
            world.run(step);
        }
        world.check();
        world.crash(Crash::KeepUnsynced);
    }
}
