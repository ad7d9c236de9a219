//! The cluster, its time, and the order in which things happen.

use crate::check::{Checker, Violation, violation};
use crate::client::{Client, Sent};
use crate::fault::{Fault, FaultKind};
use crate::network::Network;
use crate::node::Node;
use crate::profile::{Profile, Scale};
use crate::random::Random;
use crate::run::Counters;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use twox_hash::XxHash3_64;
use whippet_metadata::command::{Command, Done, Envelope, PasswordHash};
use whippet_metadata::options::Purpose;
use whippet_metadata::{TopicDefaults, TopicOptionsPatch};
use whippet_protocol::{Identifier, Name};
use whippet_shard::{Effect, Event, Frame, Reply, Request, Severity};
use whippet_storage::{Crash, FileName, StorageHost, StorageOp};
use whippet_vsr::{GroupId, Message, MessageBody, Mutant, Status};

const MS: u64 = 1_000_000;
/// Who asks in the name of the one who sets the cluster up.
const ADMIN: u32 = u32::MAX;
/// Who asks to look at the end.
const READER: u32 = u32::MAX - 1;
/// Storage operations that one disk event completes.
const COMPLETIONS: usize = 4;

#[derive(Debug)]
enum Happening {
    Frame { from: u8, to: u8, frame: Box<Frame> },
    Disk { node: u8 },
    Timer { node: u8 },
    Client { id: u32 },
    Fault { at: usize },
    Start { node: u8 },
    Admin,
}

struct Queued(u64, u64, Happening);

impl PartialEq for Queued {
    fn eq(&self, other: &Queued) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}

impl Eq for Queued {}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Queued) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Queued) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// What is known of the emptying of a partition.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Purge {
    /// When the last one was asked for.
    pub(crate) asked_ns: u64,
    /// When the last one that was answered was asked for, and when it was answered.
    pub(crate) done: Option<(u64, u64)>,
    /// Asked for and not answered.
    pub(crate) open: bool,
}

/// A cluster from a seed.
pub struct World {
    profile: Profile,
    pub(crate) now_ns: u64,
    queue: BinaryHeap<Reverse<Queued>>,
    queued: u64,
    pub(crate) nodes: Vec<Node>,
    network: Network,
    disk_random: Random,
    faults: Vec<Fault>,
    pub(crate) clients: Vec<Client>,
    pub(crate) history: Vec<Sent>,
    pub(crate) groups: Vec<GroupId>,
    /// Partitions that were emptied: when it was asked for, and when it was said to be done.
    pub(crate) purges: BTreeMap<GroupId, Purge>,
    purging: Option<(u64, Vec<GroupId>)>,
    /// Times that topics were asked to be emptied and it is not known whether they were.
    purges_open: u32,
    pub(crate) checker: Checker,
    pub(crate) counters: Counters,
    read: Option<Reply>,
    steps: u64,
    hash: u64,
    trace: bool,
    /// What each node sent of other things than beats since this was last looked at.
    pub(crate) busy: u64,
}

impl World {
    /// What `seed` draws, without the faults in `without`.
    pub fn new(seed: u64, profile: &Profile, without: &BTreeSet<u32>) -> World {
        let mut world = World {
            profile: profile.clone(),
            now_ns: MS,
            queue: BinaryHeap::new(),
            queued: 0,
            nodes: (0..profile.nodes).map(|id| Node::new(id, seed)).collect(),
            network: Network::new(seed, profile),
            disk_random: Random::new(seed, "disks"),
            faults: crate::fault::draw(seed, profile),
            clients: (0..profile.clients).map(|id| Client::new(id, seed, profile.nodes)).collect(),
            history: Vec::new(),
            groups: Vec::new(),
            purges: BTreeMap::new(),
            purging: None,
            purges_open: 0,
            checker: Checker::default(),
            counters: Counters::default(),
            read: None,
            steps: 0,
            hash: 0,
            trace: std::env::var_os("WHIPPET_TRACE").is_some(),
            busy: 0,
        };
        for node in 0..profile.nodes {
            world.push(0, Happening::Start { node });
        }
        world.push(MS, Happening::Admin);
        for id in 0..profile.clients {
            world.push(u64::from(id) * MS, Happening::Client { id });
        }
        for at in 0..world.faults.len() {
            if !without.contains(&world.faults[at].id) {
                // The cluster is set up before things go wrong.
                let delay = world.faults[at].at_ns + 200 * MS;
                world.push(delay, Happening::Fault { at });
            }
        }
        world
    }

    /// The faults of the run.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Running hash of everything that happened.
    pub fn trace_hash(&self) -> u64 {
        self.hash
    }

    fn push(&mut self, delay_ns: u64, what: Happening) {
        self.queued += 1;
        self.queue.push(Reverse(Queued(self.now_ns + delay_ns, self.queued, what)));
    }

    fn note(&mut self, parts: [u64; 4]) {
        let mut bytes = [0; 40];
        for (at, part) in [self.hash, parts[0], parts[1], parts[2], parts[3]].iter().enumerate() {
            bytes[at * 8..at * 8 + 8].copy_from_slice(&part.to_le_bytes());
        }
        self.hash = XxHash3_64::oneshot(&bytes);
    }

    /// Lets so much virtual time pass.
    pub(crate) fn run_for(&mut self, ns: u64) -> Result<(), Violation> {
        let until = self.now_ns + ns;
        while self.queue.peek().is_some_and(|Reverse(next)| next.0 <= until) {
            self.step()?;
        }
        self.now_ns = until;
        Ok(())
    }

    fn step(&mut self) -> Result<(), Violation> {
        let Some(Reverse(Queued(at, _, what))) = self.queue.pop() else { return Ok(()) };
        self.now_ns = self.now_ns.max(at);
        self.steps += 1;
        let touched = match what {
            Happening::Frame { from, to, frame } => {
                if !self.nodes[usize::from(to)].is_up(self.now_ns) {
                    return self.put_off(to, Happening::Frame { from, to, frame });
                }
                self.note([1, self.now_ns, u64::from(from), u64::from(to)]);
                let now = self.nodes[usize::from(to)].now(self.now_ns);
                if let Some(shard) = &mut self.nodes[usize::from(to)].shard {
                    shard.handle(Event::Peer { from: whippet_vsr::ReplicaId(from), frame: *frame }, now);
                }
                Some(to)
            }
            Happening::Disk { node } => {
                if !self.nodes[usize::from(node)].is_up(self.now_ns) {
                    return self.put_off(node, Happening::Disk { node });
                }
                self.disk(node);
                Some(node)
            }
            Happening::Timer { node } => {
                if self.nodes[usize::from(node)].timer_ns != Some(at) {
                    return Ok(());
                }
                if !self.nodes[usize::from(node)].is_up(self.now_ns) {
                    let until = self.nodes[usize::from(node)].paused_until_ns;
                    if self.nodes[usize::from(node)].shard.is_some() {
                        self.nodes[usize::from(node)].timer_ns = Some(until);
                        self.push(until - self.now_ns, Happening::Timer { node });
                    }
                    return Ok(());
                }
                self.nodes[usize::from(node)].timer_ns = None;
                self.note([2, self.now_ns, u64::from(node), 0]);
                Some(node)
            }
            Happening::Client { id } => self.client(id),
            Happening::Fault { at } => {
                self.fault(at);
                None
            }
            Happening::Start { node } => {
                let this = &mut self.nodes[usize::from(node)];
                if this.shard.is_some() || this.down_until_ns > self.now_ns {
                    return Ok(());
                }
                if let Err(text) = this.start(&self.profile, self.now_ns) {
                    return violation("recovery", text);
                }
                self.counters.starts += 1;
                self.note([3, self.now_ns, u64::from(node), 0]);
                Some(node)
            }
            Happening::Admin => self.admin(),
        };
        match touched {
            Some(node) => self.settle(node),
            None => Ok(()),
        }
    }

    /// What comes for a paused process waits; for a stopped one it is lost.
    fn put_off(&mut self, node: u8, what: Happening) -> Result<(), Violation> {
        let this = &self.nodes[usize::from(node)];
        if this.shard.is_some() {
            let delay = this.paused_until_ns - self.now_ns;
            self.push(delay, what);
        }
        Ok(())
    }

    fn disk(&mut self, node: u8) {
        let this = &mut self.nodes[usize::from(node)];
        this.disk_event = false;
        let full = this.full_until_ns > self.now_ns;
        this.disk.set_capacity(if full { 0 } else { u64::MAX });
        let now = this.now(self.now_ns);
        let mut done = 0;
        while done < COMPLETIONS {
            let Some(completion) = this.disk.poll_completion() else { break };
            done += 1;
            if let Some(shard) = &mut this.shard {
                shard.handle(Event::Storage(completion), now);
            }
        }
        self.note([4, self.now_ns, u64::from(node), done as u64]);
        if done > 0 {
            self.wake_disk(node);
        }
    }

    fn wake_disk(&mut self, node: u8) {
        let this = &mut self.nodes[usize::from(node)];
        if this.disk_event {
            return;
        }
        this.disk_event = true;
        let slow = if this.slow_until_ns > self.now_ns { 100 } else { 1 };
        let delay = self.disk_random.between(self.profile.disk_us / 2, self.profile.disk_us * 2) * 1000 * slow;
        self.push(delay.max(1000), Happening::Disk { node });
    }

    /// Lets a node do what it can, and carries out what it wants.
    fn settle(&mut self, node: u8) -> Result<(), Violation> {
        let at = usize::from(node);
        let mut worked = false;
        loop {
            let now = self.nodes[at].now(self.now_ns);
            let Some(shard) = &mut self.nodes[at].shard else { return Ok(()) };
            shard.settle(now);
            let mut any = false;
            loop {
                let Some(shard) = &mut self.nodes[at].shard else { return Ok(()) };
                let Some(effect) = shard.poll_effect() else { break };
                (any, worked) = (true, true);
                self.carry_out(node, effect)?;
            }
            self.nodes[at].disk.flush();
            let Some(shard) = &self.nodes[at].shard else { return Ok(()) };
            if !any && !shard.needs_settling() {
                break;
            }
        }
        self.nodes[at].look();
        let Some(shard) = &self.nodes[at].shard else { return Ok(()) };
        if let Some(due) = shard.timeout_ns() {
            let due = due.max(self.now_ns + 1000);
            if self.nodes[at].timer_ns.is_none_or(|known| due < known) {
                self.nodes[at].timer_ns = Some(due);
                self.push(due - self.now_ns, Happening::Timer { node });
            }
        }
        // Many groups are looked at now and then, few at every step.
        if worked && (self.profile.scale == Scale::Deep || self.steps.is_multiple_of(512)) {
            self.checker.check(&self.nodes[at])?;
        }
        Ok(())
    }

    fn carry_out(&mut self, node: u8, effect: Effect) -> Result<(), Violation> {
        match effect {
            Effect::Storage(mut effect) => {
                self.counters.storage += 1;
                if self.profile.mutant.is(Mutant::SkipFlush)
                    && let StorageOp::Sync { file: file @ FileName::Segment { .. } } = effect.op
                {
                    // It completes, and nothing is on the disk for that.
                    effect.op = StorageOp::Read { file, position: 0, length: 0 };
                }
                self.note([5, effect.ticket.0, u64::from(node), 0]);
                self.nodes[usize::from(node)].disk.submit(effect);
                self.wake_disk(node);
            }
            Effect::Peer { to, frame } => {
                self.count_frame(&frame);
                let frame = self.through_bytes(frame)?;
                let delays = self.network.send(node, to.0, self.now_ns);
                self.note([6, u64::from(node), u64::from(to.0), delays.len() as u64]);
                if self.trace && !matches!(frame, Frame::Beat(_)) {
                    self.print(node, &format!("to {}: {}", to.0, brief(&frame)));
                }
                for delay in delays {
                    self.push(delay, Happening::Frame { from: node, to: to.0, frame: Box::new(frame.clone()) });
                }
            }
            Effect::Reply { ticket, reply } => {
                self.note([7, u64::from(node), ticket.0, 0]);
                let asked = self.nodes[usize::from(node)].asks.remove(&ticket);
                let Some((client, number)) = asked else { return Ok(()) };
                if client == READER {
                    self.read = Some(reply);
                } else if client == ADMIN {
                    self.answer_admin(number, reply);
                } else if let Some(wrong) =
                    self.clients[client as usize].answer(number, reply, &mut self.history, self.now_ns)
                {
                    return violation("H3 answers", wrong);
                }
            }
            Effect::Groups(changes) => {
                let now = self.nodes[usize::from(node)].now(self.now_ns);
                if let Some(shard) = &mut self.nodes[usize::from(node)].shard {
                    shard.handle(Event::Groups(changes), now);
                }
            }
            Effect::Publish(_) | Effect::Restored(_) => {}
            Effect::Notice(notice) => {
                if self.trace {
                    self.print(node, &format!("{:?} {}: {}", notice.severity, notice.group, notice.text));
                }
                if notice.severity == Severity::Error {
                    return violation("S9 damage", format!("node {node}: {}", notice.text));
                }
            }
            Effect::Fatal(reason) => return violation("fatal", format!("node {node}: {reason}")),
        }
        Ok(())
    }

    /// What a peer gets is what the bytes say.
    fn through_bytes(&self, frame: Frame) -> Result<Frame, Violation> {
        let Frame::Groups(messages) = frame else { return Ok(frame) };
        let mut read = Vec::with_capacity(messages.len());
        for message in messages {
            let mut bytes = bytes::BytesMut::new();
            message.encode(&mut bytes);
            match Message::decode(bytes.freeze()) {
                Ok(decoded) if decoded == message => read.push(decoded),
                other => return violation("codec", format!("{message:?} was read as {other:?}")),
            }
        }
        Ok(Frame::Groups(read))
    }

    fn count_frame(&mut self, frame: &Frame) {
        match frame {
            Frame::Beat(_) => self.counters.beats += 1,
            Frame::Claims { .. } | Frame::ClaimsWanted => self.busy += 1,
            Frame::Groups(messages) => {
                self.busy += 1;
                for message in messages {
                    match &message.body {
                        MessageBody::StartView(_) => self.counters.start_views += 1,
                        MessageBody::Vote(_) => self.counters.votes += 1,
                        MessageBody::Snapshot { .. } => self.counters.snapshots += 1,
                        MessageBody::Fetch { .. } => self.counters.fetches += 1,
                        _ => {}
                    }
                }
            }
        }
    }

    #[allow(clippy::print_stderr, reason = "the readable trace that was asked for")]
    fn print(&self, node: u8, text: &str) {
        eprintln!("{:>9.3} ms  {node}  {text}", self.now_ns as f64 / 1e6);
    }

    fn client(&mut self, id: u32) -> Option<u8> {
        let (ask, next) = self.clients[id as usize].wake(&self.groups, &mut self.history, self.now_ns);
        self.push(next - self.now_ns, Happening::Client { id });
        let (node, request) = ask?;
        let number = self.clients[id as usize].number();
        self.ask(node, id, number, request)
    }

    fn ask(&mut self, node: u8, client: u32, number: u64, request: Request) -> Option<u8> {
        let this = &mut self.nodes[usize::from(node)];
        if !this.is_up(self.now_ns) {
            return None;
        }
        let ticket = this.ticket(client, number);
        let now = this.now(self.now_ns);
        this.shard.as_mut()?.handle(Event::Request { ticket, request }, now);
        Some(node)
    }

    /// Sets the cluster up: asks whoever will take it for what is not there yet.
    fn admin(&mut self) -> Option<u8> {
        let node = self.disk_random.below(u64::from(self.profile.nodes)) as u8;
        if self.groups.len() == self.profile.partitions as usize {
            return self.churn(node);
        }
        let most = self.nodes.iter().filter_map(|node| {
            let groups = node.shard.as_ref()?.committed_partitions();
            Some(groups)
        });
        let groups = most.max_by_key(Vec::len).unwrap_or_default();
        if groups.len() == self.profile.partitions as usize {
            self.groups = groups;
            return self.churn(node);
        }
        self.push(30 * MS, Happening::Admin);
        let persisted = self.profile.persisted;
        let replicated = self.profile.partitions - persisted;
        let name = |text: &str| Name::new(text).expect("a valid name");
        let stream = Identifier::Name(name("s"));
        let topic = |topic: &str, durability: &str, partitions: u32| {
            let options = TopicOptionsPatch::from_text_map(
                [("segment_size", "1MiB"), ("durability", durability)],
                Purpose::Create,
            )
            .and_then(|options| options.for_creation(&TopicDefaults::default(), partitions))
            .expect("valid options");
            Command::CreateTopic { stream: stream.clone(), name: name(topic), partitions, options }
        };
        // Each step is harmless when it was done before.
        let command = match self.disk_random.below(4) {
            0 => Command::Bootstrap {
                cluster: "sim".into(),
                root: name("root"),
                password_hash: PasswordHash("x".into()),
            },
            1 => Command::CreateStream { name: name("s") },
            2 if persisted > 0 => topic("p", "persisted", persisted),
            _ if replicated > 0 => topic("r", "replicated", replicated),
            _ => return None,
        };
        let envelope = Envelope { client: 0, session: 0, request: 0, checksum: 0, user: 0, command };
        self.ask(node, ADMIN, 0, Request::Metadata(Arc::new(envelope)))
    }

    /// Goes on changing metadata, and empties topics now and then.
    fn churn(&mut self, node: u8) -> Option<u8> {
        if self.network.calm && self.purging.is_none() {
            return None;
        }
        let pause = self.disk_random.between(10, 60) * MS;
        self.push(pause, Happening::Admin);
        if let Some((intent, left)) = &self.purging
            && let Some(group) = left.last().copied()
        {
            let intent = *intent;
            // An answer counts for the group that it was asked about: one question may get several.
            let number = self.purge_number(left.len());
            return self.ask(node, ADMIN, number, Request::Purge { group, intent });
        }
        let name = |text: &str| Name::new(text).expect("a valid name");
        let deep = self.profile.scale == Scale::Deep;
        let command = if deep && self.disk_random.chance(8) {
            for group in self.groups.clone() {
                let purge = self.purges.entry(group).or_default();
                // It is not known which of several attempts was the one.
                if !purge.open {
                    purge.asked_ns = self.now_ns;
                }
                purge.open = true;
            }
            self.purges_open += 1;
            Command::PurgeStream { stream: Identifier::Name(name("s")) }
        } else {
            let other = name(&format!("x{}", self.disk_random.below(6)));
            match self.disk_random.below(2) {
                0 => Command::CreateStream { name: other },
                _ => Command::DeleteStream { stream: Identifier::Name(other) },
            }
        };
        let number = if matches!(command, Command::PurgeStream { .. }) { 1 } else { 0 };
        let envelope = Envelope { client: 0, session: 0, request: 0, checksum: 0, user: 0, command };
        self.ask(node, ADMIN, number, Request::Metadata(Arc::new(envelope)))
    }

    /// Under which it is asked whether the last of so many partitions has been emptied, in this round.
    fn purge_number(&self, left: usize) -> u64 {
        ((self.counters.purges + 1) << 32) + left as u64
    }

    /// An answer to what set the cluster up or changes it.
    fn answer_admin(&mut self, number: u64, reply: Reply) {
        match (number, reply) {
            (1, Reply::Metadata { outcome: Ok(Done::Purged { intent, .. }), .. }) => {
                self.purges_open -= 1;
                self.purging = Some((intent, self.groups.clone()));
            }
            (1, Reply::Refused(refusal)) if refusal.code == whippet_protocol::ErrorCode::TransientNotAccepted => {
                self.purges_open -= 1;
            }
            (number, Reply::Done) => {
                let left = self.purging.as_ref().map(|(_, left)| left.len());
                if left.is_none_or(|left| self.purge_number(left) != number) {
                    return;
                }
                let Some((_, left)) = &mut self.purging else { return };
                if let Some(group) = left.pop() {
                    let purge = self.purges.entry(group).or_default();
                    (purge.done, purge.open) = (Some((purge.asked_ns, self.now_ns)), self.purges_open > 0);
                }
                if left.is_empty() {
                    self.purging = None;
                    self.counters.purges += 1;
                }
            }
            _ => {}
        }
    }

    fn fault(&mut self, at: usize) {
        let Fault { lasts_ns, kind, draw, .. } = self.faults[at];
        let until = self.now_ns + lasts_ns;
        if self.network.calm {
            return;
        }
        if self.trace {
            self.print(0, &format!("fault {}", self.faults[at]));
        }
        let nodes: Vec<u8> = (0..self.profile.nodes).collect();
        match kind {
            FaultKind::Kill { node } => self.stop(node, Crash::KeepUnsynced, until),
            FaultKind::PowerLoss { node } => {
                if self.may_forget(&[node]) {
                    self.stop(node, power(draw), until);
                }
            }
            FaultKind::Blackout => {
                if self.may_forget(&nodes) {
                    for node in nodes {
                        self.stop(node, power(draw ^ u64::from(node)), until);
                    }
                }
            }
            FaultKind::CutOneWay { from, to } => self.network.cut(from, to, until),
            FaultKind::Cut { one, other } => {
                self.network.cut(one, other, until);
                self.network.cut(other, one, until);
            }
            FaultKind::Deaf { node } => nodes.iter().for_each(|other| self.network.cut(*other, node, until)),
            FaultKind::Mute { node } => nodes.iter().for_each(|other| self.network.cut(node, *other, until)),
            FaultKind::Isolate { node } => nodes.iter().for_each(|other| {
                self.network.cut(node, *other, until);
                self.network.cut(*other, node, until);
            }),
            FaultKind::Pause { node } => self.nodes[usize::from(node)].paused_until_ns = until,
            FaultKind::SlowDisk { node } => self.nodes[usize::from(node)].slow_until_ns = until,
            FaultKind::FullDisk { node } => self.nodes[usize::from(node)].full_until_ns = until,
            FaultKind::ClockStep { node, seconds } => {
                self.nodes[usize::from(node)].wall_offset_us += i64::from(seconds) * 1_000_000;
            }
        }
        self.counters.faults += 1;
    }

    /// A `replicated` group bears no more machines that stop than it can spare; `persisted` ones bear any number.
    fn may_forget(&self, which: &[u8]) -> bool {
        if self.profile.persisted == self.profile.partitions {
            return true;
        }
        let forgetful = self.nodes.iter().filter(|node| node.forgetful || which.contains(&node.id)).count();
        self.profile.nodes > 1 && forgetful <= usize::from((self.profile.nodes - 1) / 2)
    }

    fn stop(&mut self, node: u8, crash: Crash, until_ns: u64) {
        let this = &mut self.nodes[usize::from(node)];
        if this.shard.is_none() {
            return;
        }
        this.stop(crash);
        this.down_until_ns = until_ns;
        if crash == Crash::KeepUnsynced {
            self.counters.kills += 1;
        } else {
            self.counters.power_losses += 1;
        }
        self.note([8, u64::from(node), until_ns, 0]);
        self.push(until_ns - self.now_ns, Happening::Start { node });
    }

    /// From now on nothing goes wrong any more.
    pub(crate) fn heal(&mut self) {
        self.network.heal();
        for node in 0..self.profile.nodes {
            let this = &mut self.nodes[usize::from(node)];
            this.down_until_ns = 0;
            this.paused_until_ns = 0;
            this.slow_until_ns = 0;
            this.full_until_ns = 0;
            self.push(0, Happening::Start { node });
            self.push(MS, Happening::Disk { node });
        }
    }

    /// Why the cluster has not come to rest, if so.
    pub(crate) fn unsettled(&self) -> Option<String> {
        if self.groups.len() != self.profile.partitions as usize {
            return Some("the cluster is not set up".into());
        }
        if let Some(client) = self.clients.iter().find(|client| client.is_busy()) {
            return Some(format!("client {} waits for an answer", client.id));
        }
        for group in std::iter::once(GroupId::METADATA).chain(self.groups.iter().copied()) {
            let mut views = BTreeSet::new();
            let mut heads = BTreeSet::new();
            for node in &self.nodes {
                let Some(replica) = node.shard.as_ref().and_then(|shard| shard.replica(group)) else {
                    return Some(format!("group {group} is not on node {}", node.id));
                };
                views.insert(replica.view());
                heads.insert((replica.applied(), replica.head(), replica.applied_id()));
                let awake = !replica.is_asleep();
                if replica.status() != Status::Normal || replica.applied() != replica.head() || awake {
                    return Some(format!("{}{}", replica.describe(), if awake { ", awake" } else { "" }));
                }
            }
            if views.len() != 1 || heads.len() != 1 {
                return Some(format!("group {group}: views {views:?}, ends {heads:?}"));
            }
        }
        None
    }

    /// Asks a node and waits for the answer, without anything else being looked at.
    pub(crate) fn call(&mut self, node: u8, request: Request) -> Result<Option<Reply>, Violation> {
        self.read = None;
        if self.ask(node, READER, 0, request).is_none() {
            return Ok(None);
        }
        self.settle(node)?;
        for _ in 0..100_000 {
            if self.read.is_some() {
                break;
            }
            self.step()?;
        }
        Ok(self.read.take())
    }

    /// One line a replica.
    pub fn status(&self) -> String {
        let mut lines = Vec::new();
        for node in &self.nodes {
            let Some(shard) = &node.shard else {
                lines.push(format!("node {} is down", node.id));
                continue;
            };
            for group in shard.groups().take(8) {
                lines.extend(shard.replica(group).map(|replica| replica.describe()));
            }
        }
        lines.join("\n")
    }

    pub(crate) fn links(&self) -> (u64, u64) {
        (self.network.delivered, self.network.lost)
    }
}

fn power(draw: u64) -> Crash {
    if draw.is_multiple_of(3) { Crash::DropUnsynced } else { Crash::KeepSome(draw) }
}

fn brief(frame: &Frame) -> String {
    match frame {
        Frame::Groups(messages) => {
            let texts = messages.iter().map(|message| {
                let text = match &message.body {
                    MessageBody::Prepare { entry, commit } => format!("prepare {} commit {commit}", entry.op()),
                    MessageBody::Entry(entry) => format!("entry {}", entry.op()),
                    MessageBody::Snapshot { info, position, .. } => format!("snapshot {} at {position}", info.first_op),
                    MessageBody::Vote(vote) => format!("vote {}/{}", vote.log_view.0, vote.head),
                    MessageBody::StartView(start) => format!("start {} {:?}", start.head, start.answers),
                    other => format!("{other:?}"),
                };
                format!("[{} v{}] {text}", message.envelope.group, message.envelope.view.0)
            });
            texts.collect::<Vec<_>>().join(", ")
        }
        other => format!("{other:?}"),
    }
}
