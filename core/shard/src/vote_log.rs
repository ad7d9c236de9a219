//! The node's log of promises: one record a group and promise, of all groups of a shard together, so that the promises of a
//! thousand groups become durable with one sync.
//!
//! A promise that is forgotten is worse than data that is lost: the replica would vote twice. So the log lies on the disk
//! twice, at equal positions, and the read rule never yields an older promise than one that was reported durable: where one
//! copy is damaged the other one answers, and where both are, everything is in [`doubt`](Votes::in_doubt). A torn end is no
//! doubt: it was not reported durable.
//!
//! A copy is a sequence of 160-byte records, all integers little-endian; the first one is a header that names the copy's
//! generation. When the log has grown it is written anew, first copy 0 and then copy 1, each replaced as a whole, with the
//! newest record of each group; in between the copies differ in generation and hold the same.
//!
//! ```text
//!   0 checksum u128   XXH3-128 of the rest          64 head u64, 72 head_id u128
//!  16 magic u32, version u32                        88 commit u64, 96 unknown_to u64, 104 floor u64
//!  24 cluster u64 (low half)                       112 disk u128        uuid of the data directory
//!  32 sequence u64    in a header: the generation  128 config_epoch u32, flags u32 (1 memory lost, 2 header)
//!  40 group number u64, 48 life u64                136 reserved
//!  56 view u32, 60 log_view u32
//! ```

use bytes::{BufMut, Bytes, BytesMut};
use std::collections::{BTreeMap, BTreeSet};
use twox_hash::XxHash3_128;
use whippet_log::Issue;
use whippet_storage::{
    FileName, RecoverySource, StorageCompletion, StorageError, StorageErrorKind, StorageOp, StorageTicket,
};
use whippet_vsr::{ClusterId, EntryId, GroupId, OpNumber, ViewNumber, VoteRecord};

const MAGIC: u32 = 0x746f_5657;
const VERSION: u32 = 1;
/// Bytes of a record.
pub const RECORD: usize = 160;
/// Bytes at which a copy is written anew.
pub const COMPACT_AT: u64 = 4 * 1024 * 1024;
const MEMORY_LOST: u32 = 1;
const HEADER: u32 = 2;
const MIRRORS: [u8; 2] = [0, 1];

/// Whose log it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The cluster.
    pub cluster: ClusterId,
    /// Uuid of the data directory.
    pub disk: u128,
}

enum Read {
    Header(u64),
    Vote(u64, VoteRecord),
}

fn encode(owner: Owner, sequence: u64, vote: Option<&VoteRecord>) -> Bytes {
    let mut out = BytesMut::with_capacity(RECORD);
    let none = VoteRecord {
        group: GroupId { number: 0, life: 0 },
        view: ViewNumber(0),
        log_view: ViewNumber(0),
        head: OpNumber(0),
        head_id: EntryId::NONE,
        commit: OpNumber(0),
        unknown_to: OpNumber(0),
        floor: OpNumber(0),
        memory_lost: false,
    };
    let record = vote.unwrap_or(&none);
    out.put_u128_le(0);
    out.put_u32_le(MAGIC);
    out.put_u32_le(VERSION);
    out.put_u64_le(owner.cluster.0 as u64);
    out.put_u64_le(sequence);
    out.put_u64_le(record.group.number);
    out.put_u64_le(record.group.life);
    out.put_u32_le(record.view.0);
    out.put_u32_le(record.log_view.0);
    out.put_u64_le(record.head.0);
    out.put_u128_le(record.head_id.0);
    out.put_u64_le(record.commit.0);
    out.put_u64_le(record.unknown_to.0);
    out.put_u64_le(record.floor.0);
    out.put_u128_le(owner.disk);
    out.put_u32_le(0);
    out.put_u32_le(if vote.is_none() { HEADER } else { u32::from(record.memory_lost) * MEMORY_LOST });
    out.resize(RECORD, 0);
    let checksum = XxHash3_128::oneshot(&out[16..]);
    out[..16].copy_from_slice(&checksum.to_le_bytes());
    out.freeze()
}

fn decode(bytes: &[u8], owner: Owner) -> Option<Read> {
    let bytes: &[u8; RECORD] = bytes.try_into().ok()?;
    let u32_at = |at: usize| bytes[at..at + 4].try_into().ok().map(u32::from_le_bytes);
    let u64_at = |at: usize| bytes[at..at + 8].try_into().ok().map(u64::from_le_bytes);
    let u128_at = |at: usize| bytes[at..at + 16].try_into().ok().map(u128::from_le_bytes);
    let ours = u128_at(0)? == XxHash3_128::oneshot(&bytes[16..])
        && u32_at(16)? == MAGIC
        && u32_at(20)? == VERSION
        && u64_at(24)? == owner.cluster.0 as u64
        && u128_at(112)? == owner.disk;
    if !ours {
        return None;
    }
    let (sequence, flags) = (u64_at(32)?, u32_at(132)?);
    if flags & HEADER != 0 {
        return Some(Read::Header(sequence));
    }
    let record = VoteRecord {
        group: GroupId { number: u64_at(40)?, life: u64_at(48)? },
        view: ViewNumber(u32_at(56)?),
        log_view: ViewNumber(u32_at(60)?),
        head: OpNumber(u64_at(64)?),
        head_id: EntryId(u128_at(72)?),
        commit: OpNumber(u64_at(88)?),
        unknown_to: OpNumber(u64_at(96)?),
        floor: OpNumber(u64_at(104)?),
        memory_lost: flags & MEMORY_LOST != 0,
    };
    (record.log_view <= record.view).then_some(Read::Vote(sequence, record))
}

/// What one copy holds, record by record; `None` where nothing checks out.
#[derive(Default)]
struct Copy {
    exists: bool,
    generation: Option<u64>,
    records: Vec<Option<(u64, VoteRecord)>>,
}

impl Copy {
    fn read(source: &dyn RecoverySource, file: FileName, length: u64, owner: Owner) -> Result<Copy, StorageError> {
        let bytes = match source.read(file, 0, usize::try_from(length).unwrap_or(usize::MAX)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind == StorageErrorKind::NotFound => return Ok(Copy::default()),
            Err(error) => return Err(error),
        };
        let mut copy = Copy { exists: !bytes.is_empty(), ..Copy::default() };
        for (at, chunk) in bytes.chunks(RECORD).enumerate() {
            match decode(chunk, owner) {
                Some(Read::Header(generation)) if at == 0 => copy.generation = Some(generation),
                Some(Read::Vote(sequence, record)) if at > 0 => copy.records.push(Some((sequence, record))),
                _ if at > 0 => copy.records.push(None),
                _ => {}
            }
        }
        Ok(copy)
    }

    /// A record that does not check out before one that does.
    fn has_hole(&self) -> bool {
        let last = self.records.iter().rposition(Option::is_some).map_or(0, |at| at + 1);
        self.records[..last].iter().any(Option::is_none)
    }
}

/// The promises of all groups as the disk holds them.
#[derive(Clone, Debug, Default)]
pub struct Votes {
    newest: BTreeMap<GroupId, (u64, VoteRecord)>,
    generation: u64,
    doubt: bool,
}

impl Votes {
    /// Reads all parts.
    ///
    /// # Errors
    /// What the operating system reports.
    pub fn read(source: &dyn RecoverySource, owner: Owner) -> Result<Votes, StorageError> {
        let mut votes = Votes::default();
        let files = source.node_files()?;
        let mut parts: Vec<u32> = files
            .iter()
            .filter_map(|(file, _)| if let FileName::VoteLog { part, .. } = file { Some(*part) } else { None })
            .collect();
        parts.sort_unstable();
        parts.dedup();
        for part in parts {
            let [a, b] = MIRRORS.map(|mirror| {
                let file = FileName::VoteLog { part, mirror };
                let length = files.iter().find(|(name, _)| *name == file).map_or(0, |(_, length)| *length);
                Copy::read(source, file, length, owner)
            });
            votes.take(&a?, &b?);
        }
        Ok(votes)
    }

    fn take(&mut self, a: &Copy, b: &Copy) {
        self.doubt |= match (a.generation, b.generation) {
            (None, None) => a.exists || b.exists,
            (Some(one), Some(other)) if one == other => {
                let at = |copy: &Copy, at: usize| copy.records.get(at).copied().flatten().is_some();
                let length = a.records.len().max(b.records.len());
                let last = (0..length).rev().find(|i| at(a, *i) || at(b, *i)).map_or(0, |i| i + 1);
                (0..last).any(|i| !at(a, i) && !at(b, i))
            }
            (Some(_), Some(_)) => a.has_hole() && b.has_hole(),
            (Some(_), None) => a.has_hole(),
            (None, Some(_)) => b.has_hole(),
        };
        self.generation = self.generation.max(a.generation.unwrap_or(0)).max(b.generation.unwrap_or(0));
        for (sequence, record) in a.records.iter().chain(&b.records).flatten() {
            match self.newest.get(&record.group) {
                Some((known, _)) if known >= sequence => {}
                _ => {
                    self.newest.insert(record.group, (*sequence, *record));
                }
            }
        }
    }

    /// The last promise of a group.
    pub fn get(&self, group: GroupId) -> Option<VoteRecord> {
        self.newest.get(&group).map(|(_, record)| *record)
    }

    /// Whether a promise may have been lost: then no group of this node knows what it promised.
    pub fn in_doubt(&self) -> bool {
        self.doubt
    }
}

#[derive(Debug)]
enum Step {
    Idle,
    Replacing(u8, StorageTicket),
    Writing(Vec<StorageTicket>),
    Syncing(Vec<StorageTicket>),
}

/// The part of the log that one shard appends to.
///
/// Push promises, call [`VoteLog::drive`] after a round of events, pass completions in, and take what became durable.
#[derive(Debug)]
pub struct VoteLog {
    owner: Owner,
    part: u32,
    newest: BTreeMap<GroupId, (u64, VoteRecord)>,
    sequence: u64,
    generation: u64,
    compact_at: u64,
    /// Where the next record goes; 0 before the copies have been written anew in this run.
    end: u64,
    waiting: Vec<VoteRecord>,
    batch: Vec<VoteRecord>,
    /// Groups whose life ended while a promise of theirs was on its way to the disk.
    gone: BTreeSet<GroupId>,
    durable: Vec<VoteRecord>,
    step: Step,
    no_room: bool,
}

impl VoteLog {
    /// Goes on behind what was read. Groups that `mine` does not hold for belong to other parts, or exist no more.
    pub fn new(owner: Owner, part: u32, votes: &Votes, mine: impl Fn(GroupId) -> bool, compact_at: u64) -> VoteLog {
        VoteLog {
            owner,
            part,
            newest: votes.newest.iter().filter(|(group, _)| mine(**group)).map(|(g, r)| (*g, *r)).collect(),
            sequence: votes.newest.values().map(|(sequence, _)| *sequence).max().unwrap_or(0),
            generation: votes.generation,
            compact_at,
            end: 0,
            waiting: Vec::new(),
            batch: Vec::new(),
            gone: BTreeSet::new(),
            durable: Vec::new(),
            step: Step::Idle,
            no_room: false,
        }
    }

    /// Makes a promise durable, together with all others that come before the next write.
    pub fn push(&mut self, record: VoteRecord) {
        self.waiting.push(record);
    }

    /// The group's life has ended: its promises may go.
    pub fn forget(&mut self, group: GroupId) {
        self.newest.remove(&group);
        self.waiting.retain(|record| record.group != group);
        if self.batch.iter().any(|record| record.group == group) {
            self.gone.insert(group);
        }
    }

    /// Starts whatever can be started.
    pub fn drive(&mut self, issue: &mut dyn Issue) {
        if !matches!(self.step, Step::Idle) || self.no_room || (self.waiting.is_empty() && self.batch.is_empty()) {
            return;
        }
        if self.end == 0 || self.end >= self.compact_at.max(2 * (self.newest.len() as u64 + 1) * RECORD as u64) {
            self.generation += 1;
            self.replace(MIRRORS[0], issue);
            return;
        }
        if self.batch.is_empty() {
            self.batch = std::mem::take(&mut self.waiting);
        }
        let chunks: Vec<Bytes> =
            (self.sequence + 1..).zip(&self.batch).map(|(at, record)| encode(self.owner, at, Some(record))).collect();
        let tickets = MIRRORS
            .map(|mirror| {
                let file = FileName::VoteLog { part: self.part, mirror };
                issue.issue(StorageOp::Write { file, position: self.end, chunks: chunks.clone() })
            })
            .to_vec();
        self.step = Step::Writing(tickets);
    }

    fn replace(&mut self, mirror: u8, issue: &mut dyn Issue) {
        let mut data = BytesMut::new();
        data.extend_from_slice(&encode(self.owner, self.generation, None));
        for (sequence, record) in self.newest.values() {
            data.extend_from_slice(&encode(self.owner, *sequence, Some(record)));
        }
        self.end = data.len() as u64;
        let file = FileName::VoteLog { part: self.part, mirror };
        self.step = Step::Replacing(mirror, issue.issue(StorageOp::Replace { file, data: data.freeze() }));
    }

    /// One of this log's operations has ended.
    ///
    /// # Errors
    /// When the log can't be trusted any more. Want of room is none: [`VoteLog::retry`] tries again.
    pub fn handle_completion(
        &mut self,
        completion: StorageCompletion,
        issue: &mut dyn Issue,
    ) -> Result<(), StorageError> {
        let StorageCompletion { ticket, result } = completion;
        let mut room = true;
        if let Err(error) = result {
            // A sync that fails for want of room has failed like any other: what it covered is not known to be there.
            if error.kind != StorageErrorKind::NoSpace || matches!(self.step, Step::Syncing(_)) {
                return Err(error);
            }
            room = false;
        }
        self.no_room |= !room;
        match std::mem::replace(&mut self.step, Step::Idle) {
            Step::Replacing(mirror, expected) => {
                assert_eq!(ticket, expected);
                if !room {
                    // The copies hold the same as before; the next attempt writes both anew.
                    self.end = 0;
                } else if mirror == MIRRORS[0] {
                    self.replace(MIRRORS[1], issue);
                }
            }
            Step::Writing(mut tickets) => {
                tickets.retain(|other| *other != ticket);
                if !tickets.is_empty() {
                    self.step = Step::Writing(tickets);
                } else if !self.no_room {
                    let tickets = MIRRORS
                        .map(|mirror| {
                            issue.issue(StorageOp::Sync { file: FileName::VoteLog { part: self.part, mirror } })
                        })
                        .to_vec();
                    self.step = Step::Syncing(tickets);
                }
            }
            Step::Syncing(mut tickets) => {
                tickets.retain(|other| *other != ticket);
                if !tickets.is_empty() {
                    self.step = Step::Syncing(tickets);
                    return Ok(());
                }
                for record in std::mem::take(&mut self.batch) {
                    self.sequence += 1;
                    self.end += RECORD as u64;
                    if !self.gone.contains(&record.group) {
                        self.newest.insert(record.group, (self.sequence, record));
                    }
                    self.durable.push(record);
                }
                self.gone.clear();
            }
            Step::Idle => unreachable!("an operation of the vote log ended that was not under way"),
        }
        Ok(())
    }

    /// The last durable promise of a group.
    pub fn get(&self, group: GroupId) -> Option<VoteRecord> {
        self.newest.get(&group).map(|(_, record)| *record)
    }

    /// Whether [`VoteLog::take_durable`] has something.
    pub fn has_durable(&self) -> bool {
        !self.durable.is_empty()
    }

    /// Promises that have become durable, in the order in which they were pushed.
    pub fn take_durable(&mut self) -> Vec<VoteRecord> {
        std::mem::take(&mut self.durable)
    }

    /// Whether something failed for want of room and [`VoteLog::retry`] is to be called in a while.
    pub fn needs_retry(&self) -> bool {
        self.no_room
    }

    /// Tries again what found no room.
    pub fn retry(&mut self) {
        self.no_room = false;
    }

    /// Whether there is nothing to do and nothing under way.
    pub fn is_idle(&self) -> bool {
        matches!(self.step, Step::Idle) && self.waiting.is_empty() && self.batch.is_empty() && self.durable.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use whippet_storage::{CompletionOrder, Crash, MemoryHost, StorageEffect, StorageHost};

    const OWNER: Owner = Owner { cluster: ClusterId(9), disk: 77 };

    struct Host(MemoryHost, u64);

    impl Issue for Host {
        fn issue(&mut self, op: StorageOp) -> StorageTicket {
            self.1 += 1;
            self.0.submit(StorageEffect { ticket: StorageTicket(self.1), op });
            StorageTicket(self.1)
        }
    }

    fn vote(group: u64, view: u32) -> VoteRecord {
        VoteRecord {
            group: GroupId { number: group, life: 1 },
            view: ViewNumber(view),
            log_view: ViewNumber(view / 2),
            head: OpNumber(5),
            head_id: EntryId(6),
            commit: OpNumber(4),
            unknown_to: OpNumber(5),
            floor: OpNumber(4),
            memory_lost: view % 2 == 1,
        }
    }

    fn step(log: &mut VoteLog, host: &mut Host) -> bool {
        log.drive(host);
        host.0.flush();
        let Some(completion) = host.0.poll_completion() else { return false };
        log.handle_completion(completion, host).expect("no failure");
        true
    }

    #[test]
    fn a_batch_is_one_write_and_one_sync_a_copy() {
        let mut host = Host(MemoryHost::new(CompletionOrder::Submission), 0);
        let mut log = VoteLog::new(OWNER, 0, &Votes::default(), |_| true, COMPACT_AT);
        log.push(vote(1, 0));
        while step(&mut log, &mut host) {}
        assert_eq!(log.take_durable(), [vote(1, 0)]);
        let before = host.1;
        for group in 0..1000 {
            log.push(vote(group, 4));
        }
        while step(&mut log, &mut host) {}
        assert_eq!(host.1 - before, 4);
        assert_eq!(log.take_durable().len(), 1000);
        let votes = Votes::read(&host.0, OWNER).expect("readable");
        assert!(!votes.in_doubt());
        assert_eq!(votes.get(GroupId { number: 7, life: 1 }), Some(vote(7, 4)));
        assert_eq!(Votes::read(&host.0, Owner { disk: 78, ..OWNER }).expect("readable").get(vote(7, 4).group), None);
    }

    #[test]
    fn a_group_whose_life_ended_leaves_nothing_behind() {
        let mut host = Host(MemoryHost::new(CompletionOrder::Submission), 0);
        let mut log = VoteLog::new(OWNER, 0, &Votes::default(), |_| true, COMPACT_AT);
        log.push(vote(1, 2));
        log.push(vote(2, 2));
        while !matches!(log.step, Step::Writing(_)) {
            assert!(step(&mut log, &mut host));
            log.drive(&mut host);
        }
        log.forget(vote(1, 2).group);
        while step(&mut log, &mut host) {}
        assert_eq!((log.get(vote(1, 2).group), log.get(vote(2, 2).group)), (None, Some(vote(2, 2))));
    }

    #[test]
    fn one_damaged_copy_loses_nothing_and_two_are_noticed() {
        let mut host = Host(MemoryHost::new(CompletionOrder::Submission), 0);
        let mut log = VoteLog::new(OWNER, 0, &Votes::default(), |_| true, COMPACT_AT);
        for view in 0..4 {
            log.push(vote(1, view));
            while step(&mut log, &mut host) {}
        }
        let file = |mirror| FileName::VoteLog { part: 0, mirror };
        let whole = host.0.read(file(0), 0, 10_000).expect("readable").to_vec();
        assert_eq!(whole.len(), 5 * RECORD);
        let damage = |damaged: &[(u8, usize)]| {
            let mut other = Host(MemoryHost::new(CompletionOrder::Submission), 0);
            for mirror in MIRRORS {
                let mut content = whole.clone();
                damaged.iter().filter(|(at, _)| *at == mirror).for_each(|(_, position)| content[*position] ^= 1);
                other.issue(StorageOp::Replace { file: file(mirror), data: content.into() });
            }
            other.0.flush();
            while other.0.poll_completion().is_some() {}
            Votes::read(&other.0, OWNER).expect("readable")
        };
        for position in 0..whole.len() {
            for mirror in MIRRORS {
                let votes = damage(&[(mirror, position)]);
                assert!(!votes.in_doubt(), "copy {mirror}, byte {position}");
                assert_eq!(votes.get(vote(1, 3).group), Some(vote(1, 3)), "copy {mirror}, byte {position}");
            }
            // The last record of both is as a torn end, which was never reported durable.
            if position < 4 * RECORD {
                assert!(damage(&[(0, position), (1, position)]).in_doubt(), "both copies, byte {position}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_was_reported_durable_or_something_later_is_read_after_any_crash(
            seed: u64,
            rounds in prop::collection::vec((prop::collection::vec((0..3u64, 1..4u32), 0..4), 0..9usize, 0..4u8), 1..20),
        ) {
            let mut host = Host(MemoryHost::new(CompletionOrder::Seeded(seed)), 0);
            let mut votes = Votes::default();
            let mut log = VoteLog::new(OWNER, 0, &votes, |_| true, 6 * RECORD as u64);
            let mut promised: BTreeMap<GroupId, u32> = BTreeMap::new();
            let mut asked: BTreeMap<GroupId, u32> = BTreeMap::new();
            for (pushes, steps, crash) in rounds {
                for (group, more) in pushes {
                    let view = asked.entry(GroupId { number: group, life: 1 }).or_default();
                    *view += more;
                    log.push(vote(group, *view));
                }
                for _ in 0..steps {
                    step(&mut log, &mut host);
                    for record in log.take_durable() {
                        promised.insert(record.group, record.view.0);
                    }
                }
                let crash = match crash {
                    0 => Crash::KeepUnsynced,
                    1 => Crash::DropUnsynced,
                    2 => Crash::KeepSome(seed),
                    _ => continue,
                };
                host.0.crash(crash);
                votes = Votes::read(&host.0, OWNER).expect("readable");
                prop_assert!(!votes.in_doubt());
                for (group, view) in &promised {
                    let read = votes.get(*group).expect("a durable promise is there").view.0;
                    prop_assert!(read >= *view && read <= asked[group], "{group}: {read}, promised {view}");
                }
                log = VoteLog::new(OWNER, 0, &votes, |_| true, 6 * RECORD as u64);
            }
        }

        #[test]
        fn garbage_is_no_vote(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            prop_assert!(bytes.chunks(RECORD).all(|chunk| decode(chunk, OWNER).is_none()));
        }
    }
}
