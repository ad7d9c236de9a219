//! Small clusters of bare replicas on disks and links that a seed makes fail: agreement, nothing committed is lost, and after
//! the faults end everybody is in one view with one log.

#![allow(clippy::print_stdout, reason = "how much a run saw is worth a line in its output")]

use bytes::BytesMut;
use std::collections::{BTreeMap, VecDeque};
use whippet_vsr::{
    ClusterId, Draft, DurableState, Effect, Entry, EntryId, GroupId, HEADER_SIZE, Message, Mutant, OpNumber, Replica,
    ReplicaConfig, ReplicaId, SnapshotInfo, Status, Target, ViewNumber, VoteRecord,
};

const CLUSTER: ClusterId = ClusterId(7);
const GROUP: GroupId = GroupId { number: 3, life: 2 };
const MS: u64 = 1_000_000;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

enum Work {
    Write(Entry),
    Truncate(OpNumber),
    Install(SnapshotInfo),
    Persist(VoteRecord),
}

/// What survives a crash, and what is still on its way there.
#[derive(Default)]
struct Disk {
    /// First op of the log: what is before it is in a snapshot.
    base: u64,
    base_id: Option<(EntryId, u64)>,
    log: Vec<Entry>,
    /// Entries of the log that survive power loss.
    synced: usize,
    vote: Option<VoteRecord>,
    queue: VecDeque<Work>,
}

struct Node {
    disk: Disk,
    replica: Option<Replica>,
    applied: Vec<EntryId>,
    starts: u32,
    down_until: u64,
    /// The machine stopped since this replica last took part; what the host remembers across restarts until then.
    lost: bool,
}

struct World {
    n: u8,
    persisted: bool,
    random: Random,
    now: u64,
    nodes: Vec<Node>,
    net: Vec<(u64, ReplicaId, Message)>,
    loss: u64,
    cut: Vec<(u8, u8)>,
    /// Ghost: what was applied anywhere, by op.
    committed: BTreeMap<u64, EntryId>,
    memory_losses: u32,
    proposed: u64,
    mutant: Mutant,
    faults: bool,
    counts: BTreeMap<&'static str, u64>,
}

type Broken = String;

impl World {
    fn new(seed: u64, n: u8, persisted: bool, mutant: Mutant) -> World {
        let mut random = Random(seed);
        let loss = [0, 2, 10, 30][random.below(4) as usize];
        let mut world = World {
            n,
            persisted,
            random,
            now: 0,
            nodes: Vec::new(),
            net: Vec::new(),
            loss,
            cut: Vec::new(),
            committed: BTreeMap::new(),
            memory_losses: 0,
            proposed: 0,
            mutant,
            faults: true,
            counts: BTreeMap::new(),
        };
        for _ in 0..n {
            world.nodes.push(Node {
                disk: Disk::default(),
                replica: None,
                applied: Vec::new(),
                starts: 0,
                down_until: 0,
                lost: false,
            });
        }
        for at in 0..n {
            world.start(at, false);
        }
        world
    }

    fn start(&mut self, at: u8, memory_lost: bool) {
        let node = &mut self.nodes[usize::from(at)];
        node.starts += 1;
        let config = ReplicaConfig {
            cluster: CLUSTER,
            group: GROUP,
            replica: ReplicaId(at),
            replica_count: self.n,
            incarnation: u128::from(at) << 64 | u128::from(node.starts),
            pipeline: 8,
            mutant: self.mutant,
        };
        // Executed again: what is provably committed.
        let (base_id, base_time) = node.disk.base_id.unwrap_or((EntryId::NONE, 0));
        let commit = node.disk.log.iter().map(|entry| entry.header().commit.0).max().unwrap_or(0).max(node.disk.base);
        let keep = (commit - node.disk.base).min(node.disk.log.len() as u64) as usize;
        node.applied.truncate(node.disk.base as usize);
        node.applied.extend(node.disk.log[..keep].iter().map(Entry::id));
        let last = node.disk.log[..keep].last();
        let durable = DurableState {
            applied: OpNumber(node.disk.base + keep as u64),
            applied_id: last.map_or(base_id, Entry::id),
            applied_timestamp: last.map_or(base_time, |entry| entry.header().timestamp),
            tail: node.disk.log[keep..].to_vec(),
            view: ViewNumber(0),
            vote: node.disk.vote,
            unknown_to: OpNumber(0),
            memory_lost,
            votes_lost: false,
        };
        node.replica = Some(Replica::new(config, durable, self.now));
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn crash(&mut self, at: u8, power: bool) {
        let down = self.now + self.random.below(1_500) * MS;
        let drops = self.random.next();
        let node = &mut self.nodes[usize::from(at)];
        node.replica = None;
        node.down_until = down;
        // Operations that did not complete took effect or did not, in order.
        let done = drops as usize % (node.disk.queue.len() + 1);
        let queue = std::mem::take(&mut node.disk.queue);
        for work in queue.into_iter().take(done) {
            let _ = complete(&mut node.disk, work);
        }
        if power {
            let unsynced = node.disk.log.len() - node.disk.synced.min(node.disk.log.len());
            let lost = if self.persisted { 0 } else { drops as usize % (unsynced + 1) };
            let length = node.disk.log.len() - lost;
            node.disk.log.truncate(length);
        }
        self.count(if power { "power losses" } else { "kills" });
        if power && !self.persisted {
            self.memory_losses += 1;
            self.nodes[usize::from(at)].lost = true;
        }
    }

    fn step(&mut self) -> Result<(), Broken> {
        self.now += self.random.below(3) * MS;
        for at in 0..self.n {
            let node = &mut self.nodes[usize::from(at)];
            if node.replica.is_none() && self.now >= node.down_until {
                let lost = node.lost;
                self.start(at, lost);
            } else if node.replica.as_ref().is_some_and(|replica| replica.status() == Status::Normal) {
                node.lost = false;
            }
        }
        let n = u64::from(self.n);
        match self.random.below(100) {
            0..=44 => {
                // However much is under way, the links keep up.
                for _ in 0..=self.net.len() / 16 {
                    self.deliver()?;
                }
            }
            45..=69 => {
                let at = self.random.below(n) as usize;
                if let Some(work) = self.nodes[at].disk.queue.pop_front() {
                    let node = &mut self.nodes[at];
                    let done = complete(&mut node.disk, work);
                    if self.persisted || self.random.chance(20) {
                        node.disk.synced = node.disk.log.len();
                    }
                    if let Some(replica) = &mut node.replica {
                        match done {
                            Done::Written(op) => replica.handle_durable(op),
                            Done::Truncated => replica.handle_truncated(),
                            Done::Installed => replica.handle_installed(),
                            Done::Persisted(record) => replica.handle_persisted(&record),
                        }
                    }
                }
            }
            70..=84 => {
                let at = self.random.below(n) as usize;
                self.propose(at);
            }
            85..=96 => {
                let at = self.random.below(n) as usize;
                let now = self.now;
                let suspect = self.suspects(at);
                if let Some(replica) = &mut self.nodes[at].replica {
                    if suspect {
                        replica.suspect(now);
                    } else {
                        replica.trust();
                    }
                    replica.handle_tick(now);
                }
            }
            _ if self.faults => self.fault(),
            _ => {}
        }
        for at in 0..usize::from(self.n) {
            self.drain(at)?;
        }
        Ok(())
    }

    /// What a node-level detector would say: the primary's node is down, cut off, or leads another view.
    fn suspects(&mut self, at: usize) -> bool {
        let Some(replica) = &self.nodes[at].replica else { return false };
        let primary = replica.primary().0;
        let me = at as u8;
        if primary == me {
            return false;
        }
        // It is up and does not claim to lead this view of the group.
        let view = replica.view();
        let claims =
            self.nodes[usize::from(primary)].replica.as_ref().is_some_and(|r| r.is_primary() && r.view() == view);
        !claims || self.cut.contains(&(primary, me)) || (self.faults && self.random.chance(1))
    }

    fn fault(&mut self) {
        let at = self.random.below(u64::from(self.n)) as u8;
        match self.random.below(12) {
            0 => self.crash(at, false),
            1 => {
                let lost = self.nodes.iter().filter(|node| node.lost).count();
                if self.persisted || lost < usize::from((self.n - 1) / 2) {
                    self.crash(at, true);
                }
            }
            2..=4 => {
                let other = self.random.below(u64::from(self.n)) as u8;
                if at != other {
                    self.cut.push((at, other));
                    if self.random.chance(60) {
                        self.cut.push((other, at));
                    }
                }
            }
            5..=8 => self.cut.clear(),
            9 => {
                // A snapshot, and the log before it goes.
                let node = &mut self.nodes[usize::from(at)];
                if let Some(replica) = &node.replica {
                    let applied = replica.applied().0;
                    let keep = applied.saturating_sub(node.disk.base) as usize;
                    if node.disk.queue.is_empty() && keep > 3 && keep <= node.disk.log.len() {
                        let last = node.disk.log[keep - 1].clone();
                        node.disk.base_id = Some((last.id(), last.header().timestamp));
                        node.disk.log.drain(..keep);
                        node.disk.synced = node.disk.log.len();
                        node.disk.base = applied;
                        self.count("trims");
                    }
                }
            }
            _ => {}
        }
    }

    fn propose(&mut self, at: usize) {
        self.proposed += 1;
        let number = self.proposed;
        let Some(replica) = &mut self.nodes[at].replica else { return };
        let mut bytes = BytesMut::zeroed(HEADER_SIZE);
        bytes.extend_from_slice(&number.to_le_bytes());
        let draft = Draft {
            kind: 1,
            client: 0,
            session: 0,
            request: number,
            user: 0,
            body_hash: number,
            timestamp: replica.head_timestamp() + 1,
            base_offset: 0,
            count: 0,
            generation: 0,
            segment: 1,
            position: 0,
            bytes,
        };
        if replica.propose(draft).is_ok() {
            self.count("proposals");
        }
    }

    fn deliver(&mut self) -> Result<(), Broken> {
        if self.net.is_empty() {
            return Ok(());
        }
        let at = self.random.below(self.net.len() as u64) as usize;
        let (_, to, message) =
            if self.faults && self.random.chance(5) { self.net[at].clone() } else { self.net.swap_remove(at) };
        let now = self.now;
        let from = message.envelope.from.0;
        if self.cut.contains(&(from, to.0)) || (self.faults && self.random.chance(self.loss)) {
            return Ok(());
        }
        if let Some(replica) = &mut self.nodes[usize::from(to.0)].replica {
            let result = replica.handle_message(message, now);
            if result == Err(whippet_vsr::Ignored::Equivocation) {
                return Err("two votes of one replica in one view".into());
            }
        }
        Ok(())
    }

    fn drain(&mut self, at: usize) -> Result<(), Broken> {
        loop {
            let Some(replica) = &mut self.nodes[at].replica else { return Ok(()) };
            let Some(effect) = replica.poll_effect() else { return Ok(()) };
            match effect {
                Effect::Write(entry) => self.nodes[at].disk.queue.push_back(Work::Write(entry)),
                Effect::Truncate { to, .. } => {
                    // Writes of what is cut still complete before the cut.
                    self.nodes[at].disk.queue.push_back(Work::Truncate(to));
                    self.count("truncations");
                }
                Effect::Install(info, _) => {
                    self.nodes[at].disk.queue.push_back(Work::Install(info));
                    self.count("installs");
                    let applied: Vec<EntryId> = (1..info.first_op.0)
                        .map(|op| self.committed.get(&op).copied().unwrap_or(EntryId::NONE))
                        .collect();
                    self.nodes[at].applied = applied;
                }
                Effect::Persist(record) => self.nodes[at].disk.queue.push_back(Work::Persist(record)),
                Effect::Send(target, message) => {
                    let others: Vec<ReplicaId> = match target {
                        Target::Others => (0..self.n).map(ReplicaId).filter(|id| usize::from(id.0) != at).collect(),
                        Target::Replica(id) => vec![id],
                    };
                    for to in others {
                        self.net.push((self.now, to, message.clone()));
                    }
                }
                Effect::Serve { to, from, up_to } => self.serve(at, to, from.0, up_to.0),
                Effect::ServeSnapshot { to, first_op, position } => {
                    if position == 0 {
                        self.send_snapshot(at, to, first_op.0);
                    }
                }
                Effect::Apply(entry) => self.apply(at, &entry)?,
                Effect::Left => self.count("views left"),
                Effect::Began => self.count("views begun"),
            }
        }
    }

    fn serve(&mut self, at: usize, to: ReplicaId, from: u64, up_to: u64) {
        let base = self.nodes[at].disk.base;
        if from <= base {
            self.send_snapshot(at, to, base + 1);
            return;
        }
        let node = &self.nodes[at];
        let first = (from - base - 1) as usize;
        let last = (up_to - base) as usize;
        let replica = node.replica.as_ref().expect("it asked");
        let messages: Vec<Message> = node
            .disk
            .log
            .get(first..last.min(node.disk.log.len()))
            .unwrap_or_default()
            .iter()
            .map(|entry| replica.entry_message(entry.clone()))
            .collect();
        for message in messages {
            self.net.push((self.now, to, message));
        }
    }

    fn send_snapshot(&mut self, at: usize, to: ReplicaId, first_op: u64) {
        let node = &self.nodes[at];
        if node.disk.base + 1 != first_op {
            return;
        }
        let (parent, timestamp) = node.disk.base_id.expect("a trimmed log has a base");
        let bytes = bytes::Bytes::copy_from_slice(&first_op.to_le_bytes());
        let info = SnapshotInfo {
            first_op: OpNumber(first_op),
            parent,
            timestamp,
            length: bytes.len() as u64,
            checksum: twox_hash::XxHash3_128::oneshot(&bytes),
        };
        let message = node.replica.as_ref().expect("it asked").snapshot_message(info, 0, bytes);
        self.net.push((self.now, to, message));
    }

    fn apply(&mut self, at: usize, entry: &Entry) -> Result<(), Broken> {
        let op = entry.op().0;
        match self.committed.get(&op) {
            Some(id) if *id != entry.id() => {
                return Err(format!("replica {at} executes another op {op} than was committed"));
            }
            Some(_) => {}
            None => {
                self.committed.insert(op, entry.id());
            }
        }
        let node = &mut self.nodes[at];
        if node.applied.len() as u64 + 1 != op {
            return Err(format!("replica {at} executes op {op} after {} others", node.applied.len()));
        }
        node.applied.push(entry.id());
        Ok(())
    }

    /// No faults any more: everybody ends up in one view with everything applied.
    fn heal(&mut self) -> Result<(), Broken> {
        self.faults = false;
        self.cut.clear();
        for node in &mut self.nodes {
            node.down_until = 0;
        }
        let started = self.now;
        let mut calm = 0;
        while self.now < started + 60_000 * MS {
            self.step()?;
            let settled = self.nodes.iter().all(|node| {
                node.replica.as_ref().is_some_and(|replica| {
                    replica.status() == Status::Normal
                        && replica.view() == self.nodes[0].replica.as_ref().map_or(ViewNumber(0), Replica::view)
                        && replica.applied().0 > 0
                })
            });
            calm = if settled { calm + 1 } else { 0 };
            if calm > 3_000 {
                // Nothing that was committed may be missing at the end.
                let most = *self.committed.keys().last().expect("something is committed");
                for (at, node) in self.nodes.iter().enumerate() {
                    let applied = node.applied.len() as u64;
                    if applied + 200 < most {
                        return Err(format!("replica {at} has applied {applied} of {most}"));
                    }
                }
                return Ok(());
            }
        }
        let states: Vec<String> = self
            .nodes
            .iter()
            .map(|node| {
                node.replica
                    .as_ref()
                    .map_or("down".into(), |r| format!("{} {:?} {:?}", r.describe(), r.undecided(), r.promised()))
            })
            .collect();
        Err(format!("no view stays after the faults have ended:\n{}", states.join("\n")))
    }
}

enum Done {
    Written(OpNumber),
    Truncated,
    Installed,
    Persisted(VoteRecord),
}

fn complete(disk: &mut Disk, work: Work) -> Done {
    match work {
        Work::Write(entry) => {
            let op = entry.op();
            assert_eq!(disk.base + disk.log.len() as u64 + 1, op.0, "a log has no gap");
            disk.log.push(entry);
            Done::Written(op)
        }
        Work::Truncate(to) => {
            disk.log.truncate((to.0 - disk.base) as usize);
            disk.synced = disk.synced.min(disk.log.len());
            Done::Truncated
        }
        Work::Install(info) => {
            disk.base = info.first_op.0 - 1;
            disk.base_id = Some((info.parent, info.timestamp));
            disk.log.clear();
            disk.synced = 0;
            Done::Installed
        }
        Work::Persist(record) => {
            disk.vote = Some(record);
            Done::Persisted(record)
        }
    }
}

fn run(seed: u64, n: u8, persisted: bool, mutant: Mutant, steps: u32) -> Result<BTreeMap<&'static str, u64>, Broken> {
    let mut world = World::new(seed, n, persisted, mutant);
    for _ in 0..steps {
        world.step()?;
    }
    world.heal()?;
    Ok(world.counts)
}

fn many(first: u64, seeds: u64, n: u8, persisted: bool) {
    let mut total: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in first..first + seeds {
        match run(seed, n, persisted, Mutant::None, 4_000) {
            Ok(counts) => counts.into_iter().for_each(|(what, count)| *total.entry(what).or_default() += count),
            Err(broken) => panic!("seed {seed}, {n} replicas, persisted {persisted}: {broken}"),
        }
    }
    println!("{n} replicas, persisted {persisted}, {seeds} seeds: {total:?}");
    for what in ["proposals", "views begun", "truncations", "kills", "power losses", "installs"] {
        assert!(total.get(what).copied().unwrap_or(0) > 0, "no run saw any {what}: {total:?}");
    }
}

fn seeds() -> u64 {
    std::env::var("WHIPPET_VSR_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

#[test]
fn three_replicas_that_acknowledge_what_is_fsynced() {
    many(1, seeds(), 3, true);
}

#[test]
fn three_replicas_that_acknowledge_what_is_written() {
    many(100_000, seeds(), 3, false);
}

#[test]
fn five_replicas() {
    many(200_000, seeds() / 2, 5, true);
    many(300_000, seeds() / 2, 5, false);
}

#[test]
fn one_seed() {
    let Ok(text) = std::env::var("WHIPPET_VSR_SEED") else { return };
    let parts: Vec<u64> = text.split(',').map(|part| part.parse().expect("a number")).collect();
    let result = run(parts[0], parts[1] as u8, parts[2] == 1, Mutant::None, 4_000);
    println!("{result:?}");
}
