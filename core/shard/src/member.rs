//! This node's member of one group: its replica and its log, and what goes between the two.
//!
//! The replica decides, the log keeps. What a replica wants written waits here until the log has room and the group is in
//! the group table; what it wants cut or replaced is reported back when it has happened on disk; what peers want read is read
//! and sent.

use crate::effect::Effect;
use crate::tickets::{Issuer, METADATA_SLOT, Owner, Tickets};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use twox_hash::XxHash3_128;
use whippet_log::snapshot::decode_snapshot;
use whippet_log::{Issue, Log, LogEnd, Replacement, Space};
use whippet_storage::{FileName, GroupDirectory, RecoverySource, StorageCompletion, StorageError, StorageOp};
use whippet_vsr::{
    self as vsr, CHUNK_MAX, Entry, EntryHeader, EntryId, GroupId, HEADER_SIZE, Message, Now, OpNumber, Replica,
    ReplicaId, SnapshotInfo, Target, VoteRecord,
};

/// Reads for peers that a group has under way, at most.
const SERVINGS_MAX: usize = 4;
/// Bytes that are read at once for a peer, unless one entry is larger.
const SERVE_BYTES: u64 = 1024 * 1024;
/// How long what found no room waits before it is tried again.
const RETRY_NS: u64 = 100_000_000;

/// When to try again a write that found no room: at the time that was set before, which traffic must not put off.
pub(crate) fn retry_at(deadline_ns: Option<u64>, now_ns: u64) -> u64 {
    deadline_ns.filter(|deadline| *deadline > now_ns).unwrap_or(now_ns + RETRY_NS)
}

/// What all groups of a shard share while they work.
#[derive(Debug, Default)]
pub(crate) struct Io {
    pub(crate) tickets: Tickets,
    pub(crate) effects: VecDeque<Effect>,
    /// Groups that must be entered in the group table.
    pub(crate) to_list: Vec<GroupId>,
    /// Promises that must become durable.
    pub(crate) votes: Vec<VoteRecord>,
    /// Messages for peers.
    pub(crate) outbox: Vec<(Target, Message)>,
}

impl Io {
    pub(crate) fn issuer(&mut self, owner: Owner) -> Issuer<'_> {
        Issuer { tickets: &mut self.tickets, effects: &mut self.effects, owner }
    }
}

/// Something of the replica that concerns the state machine.
#[derive(Debug)]
pub(crate) enum Happened {
    /// Execute it.
    Apply(Entry),
    /// The state is replaced; [`Member::replace`] is to be called with what the new state says.
    Install(SnapshotInfo, Bytes),
    /// What was asked for and is not applied has an unknown outcome.
    Left,
    /// A view has begun.
    Began,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rewinding {
    Truncation,
    Installation,
}

#[derive(Debug)]
enum Deferred {
    Truncate(LogEnd, Vec<EntryHeader>),
    Replace(Replacement),
}

#[derive(Debug)]
struct Serving {
    to: ReplicaId,
    from: OpNumber,
    up_to: OpNumber,
    segment: u64,
    position: u64,
    end: u64,
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) replica: Replica,
    pub(crate) log: Log,
    owner: Owner,
    /// Entries that the replica holds and the log does not have yet.
    unwritten: VecDeque<Entry>,
    rewinding: Option<Rewinding>,
    /// To be done to the log once what is being done to it has ended.
    deferred: Option<Deferred>,
    servings: BTreeMap<u64, Serving>,
    next_serving: u64,
    /// The snapshot from which a peer that lags too far starts.
    pub(crate) offer: Option<(SnapshotInfo, Bytes)>,
    /// First ops of the snapshot files on disk that are not known to be superfluous.
    pub(crate) snapshots: Vec<u64>,
    /// Nothing was written for want of room at this time.
    full_at_ns: Option<u64>,
}

impl Member {
    pub(crate) fn new(replica: Replica, log: Log, owner: Owner, snapshots: Vec<u64>) -> Member {
        Member {
            replica,
            log,
            owner,
            unwritten: VecDeque::new(),
            rewinding: None,
            deferred: None,
            servings: BTreeMap::new(),
            next_serving: 0,
            offer: None,
            snapshots,
            full_at_ns: None,
        }
    }

    /// Moves what can be moved between replica and log. `may_write` tells whether records may be written at all yet.
    pub(crate) fn advance(&mut self, may_write: bool, reserve: bool, io: &mut Io, now: Now) {
        self.write(may_write, reserve, io, now);
        self.log.drive(now, &mut io.issuer(self.owner));
        if self.log.is_rewinding() {
            return;
        }
        match self.deferred.take() {
            Some(Deferred::Truncate(end, removed)) => self.log.truncate(end, &removed),
            Some(Deferred::Replace(replacement)) => self.log.replace(replacement),
            None => {}
        }
        if self.log.is_rewinding() {
            self.log.drive(now, &mut io.issuer(self.owner));
            return;
        }
        match self.rewinding.take() {
            Some(Rewinding::Truncation) => self.replica.handle_truncated(),
            Some(Rewinding::Installation) => self.replica.handle_installed(),
            None => {}
        }
        // What the replica has just taken back, the log does not know yet.
        self.replica.handle_durable(self.log.durable().min(self.replica.head()));
    }

    /// Hands to the log what has room.
    pub(crate) fn write(&mut self, may_write: bool, reserve: bool, io: &mut Io, now: Now) {
        while let Some(entry) = self.unwritten.front() {
            if !may_write || self.deferred.is_some() || self.log.is_rewinding() || self.log.needs_retry() {
                return;
            }
            let header = *entry.header();
            self.log.follow(&header);
            let next = header.base_offset + u64::from(header.count);
            if reserve && (self.log.reserved() == 0 || next > self.log.reserved()) {
                self.log.reserve(next);
                return;
            }
            match self.log.ensure_space(u64::from(header.length), &mut io.issuer(self.owner)) {
                Space::Ready => {}
                Space::Waiting => {
                    self.full_at_ns = None;
                    return;
                }
                Space::Full => {
                    // Nothing may be left out, so it waits; the group goes on without this member.
                    self.full_at_ns = Some(now.monotonic_ns);
                    return;
                }
            }
            self.full_at_ns = None;
            let entry = self.unwritten.pop_front().expect("looked at it");
            self.log.append(&entry, now, &mut io.issuer(self.owner));
        }
    }

    /// Whether entries wait to be written.
    pub(crate) fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// Whether entries wait for room on the disk.
    pub(crate) fn retry_at_ns(&self) -> Option<u64> {
        self.full_at_ns.map(|at| at + RETRY_NS)
    }

    /// Carries out what the replica wants, up to the next thing that concerns the state machine. `applied` is where that
    /// stands.
    pub(crate) fn poll(&mut self, applied: LogEnd, io: &mut Io) -> Option<Happened> {
        loop {
            match self.replica.poll_effect()? {
                vsr::Effect::Write(entry) => self.unwritten.push_back(entry),
                vsr::Effect::Truncate { to, removed } => self.truncate(to, &removed, applied),
                vsr::Effect::Install(info, bytes) => return Some(Happened::Install(info, bytes)),
                vsr::Effect::Persist(record) => io.votes.push(record),
                vsr::Effect::Send(target, message) => io.outbox.push((target, message)),
                vsr::Effect::Serve { to, from, up_to } => self.serve(to, from, up_to, io),
                vsr::Effect::ServeSnapshot { to, first_op, position } => {
                    self.offer_to(to, Some((first_op, position)), io)
                }
                vsr::Effect::Apply(entry) => return Some(Happened::Apply(entry)),
                vsr::Effect::Left => return Some(Happened::Left),
                vsr::Effect::Began => return Some(Happened::Began),
            }
        }
    }

    fn truncate(&mut self, to: OpNumber, removed: &[EntryHeader], applied: LogEnd) {
        self.unwritten.retain(|entry| entry.op() <= to);
        let written = removed.partition_point(|header| header.op <= self.log.head());
        if written == 0 {
            // None of it has reached the log.
            self.replica.handle_truncated();
            return;
        }
        let mut end = applied;
        for entry in self.replica.uncommitted() {
            let header = entry.header();
            let next_offset =
                if header.count > 0 { header.base_offset + u64::from(header.count) } else { end.next_offset };
            end = LogEnd { op: header.op, id: header.id, timestamp: header.timestamp, next_offset };
        }
        assert_eq!(end.op, to, "what stays of the log is held in memory");
        self.deferred = Some(Deferred::Truncate(end, removed[..written].to_vec()));
        self.rewinding = Some(Rewinding::Truncation);
    }

    /// Gives the log up for a snapshot whose state says `next_offset` and `generation`.
    pub(crate) fn replace(&mut self, info: SnapshotInfo, bytes: &Bytes, next_offset: u64, generation: u32) {
        self.unwritten.clear();
        self.servings.clear();
        let end = LogEnd { op: OpNumber(info.first_op.0 - 1), id: info.parent, timestamp: info.timestamp, next_offset };
        let older_snapshots = std::mem::replace(&mut self.snapshots, vec![info.first_op.0]);
        self.deferred =
            Some(Deferred::Replace(Replacement { end, generation, state: bytes.to_vec(), older_snapshots }));
        self.rewinding = Some(Rewinding::Installation);
        self.offer = Some((info, bytes.clone()));
    }

    /// A snapshot that peers may start from.
    pub(crate) fn set_offer(&mut self, first_op: OpNumber, parent: EntryId, timestamp: u64, bytes: Bytes) {
        if self.replica.is_alone() {
            return;
        }
        let checksum = XxHash3_128::oneshot(&bytes);
        let info = SnapshotInfo { first_op, parent, timestamp, length: bytes.len() as u64, checksum };
        self.offer = Some((info, bytes));
    }

    /// Reads the snapshot with which the log begins, for peers that lag too far.
    pub(crate) fn offer_base(&mut self, source: &dyn RecoverySource, group: GroupId) -> Result<(), StorageError> {
        let first_op = self.log.first_live_op();
        if first_op == 1 || self.replica.is_alone() {
            return Ok(());
        }
        let directory = GroupDirectory { number: group.number, life: group.life };
        let file = FileName::Snapshot { group: directory, first_op };
        let files = source.files(directory)?;
        // It may be on its way to the disk only; then it is on offer already.
        let Some(length) = files.iter().find(|(name, _)| *name == file).map(|(_, length)| *length) else {
            return Ok(());
        };
        let bytes = source.read(file, 0, usize::try_from(length).unwrap_or(usize::MAX))?;
        if let Ok((header, state)) = decode_snapshot(&bytes, self.replica.cluster(), group) {
            self.set_offer(OpNumber(first_op), header.parent, header.timestamp, state);
        }
        Ok(())
    }

    fn serve(&mut self, to: ReplicaId, from: OpNumber, up_to: OpNumber, io: &mut Io) {
        // What is purged may go at any moment, so a peer starts behind it.
        let found = if from.0 < self.log.first_live_op() { None } else { self.log.find_op(from.0) };
        let Some(found) = found else { return self.offer_to(to, None, io) };
        if self.servings.len() >= SERVINGS_MAX {
            // It asks again.
            return;
        }
        let serving = Serving { to, from, up_to, segment: found.segment, position: found.position, end: found.end };
        self.read(serving, SERVE_BYTES, io);
    }

    fn read(&mut self, serving: Serving, bytes: u64, io: &mut Io) {
        let length = bytes.min(serving.end - serving.position);
        let id = self.next_serving;
        self.next_serving += 1;
        let (slot, group) = match self.owner {
            Owner::Partition { slot, group } => (slot, group),
            _ => (METADATA_SLOT, GroupId::METADATA),
        };
        let op = StorageOp::Read {
            file: self.log.segment_file(serving.segment),
            position: serving.position,
            length: u32::try_from(length).unwrap_or(u32::MAX),
        };
        io.issuer(Owner::Serve { slot, group, serving: id }).issue(op);
        self.servings.insert(id, serving);
    }

    /// Bytes for a peer have been read: sends the whole entries among them that it wants.
    pub(crate) fn handle_served(
        &mut self,
        id: u64,
        completion: StorageCompletion,
        intact: impl Fn(&Entry) -> bool,
        io: &mut Io,
    ) {
        let Some(mut serving) = self.servings.remove(&id) else { return };
        // What can't be read is not served; the peer asks another time, or another one.
        let Ok(bytes) = completion.result else { return };
        let (mut at, mut sent) = (0, false);
        while let Some(header) = bytes.get(at..).and_then(|rest| EntryHeader::decode(rest).ok()) {
            let length = header.length as usize;
            if bytes.len() - at < length {
                if !sent && serving.from.0 >= header.op.0 {
                    // The entry is larger than what was read.
                    serving.position += at as u64;
                    self.read(serving, length as u64, io);
                }
                return;
            }
            if header.op > serving.up_to {
                return;
            }
            if header.op >= serving.from {
                let Ok(entry) = Entry::decode(bytes.slice(at..at + length)) else { return };
                if !intact(&entry) {
                    return;
                }
                io.outbox.push((Target::Replica(serving.to), self.replica.entry_message(entry)));
                sent = true;
            }
            at += length;
        }
        let more = serving.position + (at as u64) < serving.end;
        if !sent && more && at >= HEADER_SIZE {
            serving.position += at as u64;
            self.read(serving, SERVE_BYTES, io);
        }
    }

    /// Sends a part of the snapshot on offer: the one that was asked for, or the first one.
    fn offer_to(&mut self, to: ReplicaId, asked: Option<(OpNumber, u64)>, io: &mut Io) {
        let Some((info, bytes)) = &self.offer else { return };
        let position = asked.filter(|(first_op, _)| *first_op == info.first_op).map_or(0, |(_, position)| position);
        let Ok(start) = usize::try_from(position) else { return };
        if start >= bytes.len() && start > 0 {
            return;
        }
        let chunk = bytes.slice(start..bytes.len().min(start + CHUNK_MAX));
        let message = self.replica.snapshot_message(*info, position, chunk);
        io.outbox.push((Target::Replica(to), message));
    }
}
