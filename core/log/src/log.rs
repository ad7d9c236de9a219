//! The log of one group: appends, durability, sealing and removal.

use crate::frontier::Frontier;
use crate::segment::Segment;
use crate::snapshot::{SnapshotHeader, encode_snapshot};
use bytes::Bytes;
use std::collections::VecDeque;
use whippet_storage::{
    FileName, GroupDirectory, StorageCompletion, StorageError, StorageErrorKind, StorageOp, StorageTicket,
};
use whippet_vsr::{ClusterId, Entry, EntryHeader, EntryId, GroupId, Now, OpNumber};

mod drive;
mod rewind;

pub use rewind::{LogEnd, Replacement};

/// Offsets that one durable reservation covers, at least.
pub const RESERVATION: u64 = 65_536;
/// First piece of space that an active segment takes.
const EXTENT_MIN: u64 = 64 * 1024;
/// Largest piece of space that an active segment takes at once.
const EXTENT_MAX: u64 = 64 * 1024 * 1024;

/// When an entry counts as durable here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Once the operating system has taken it; fsynced soon after.
    Replicated,
    /// Once it is fsynced.
    Persisted,
}

/// What a log is told about itself.
#[derive(Clone, Copy, Debug)]
pub struct LogConfig {
    /// The cluster.
    pub cluster: ClusterId,
    /// The group.
    pub group: GroupId,
    /// Size at which a segment is sealed, in bytes. It may be exceeded by one record.
    pub segment_size: u64,
    /// When an entry counts as durable.
    pub durability: Durability,
    /// Kind of the entries that are message batches.
    pub batch_kind: u8,
    /// Number of this process start, greater than all before.
    pub run: u64,
    /// Longest time that a written record stays without fsync, in nanoseconds.
    pub sync_interval_ns: u64,
    /// Take the space of a whole segment at once.
    pub preallocate: bool,
    /// The group has one replica: everything that its log holds is committed.
    pub solo: bool,
}

impl LogConfig {
    pub(crate) fn directory(&self) -> GroupDirectory {
        GroupDirectory { number: self.group.number, life: self.group.life }
    }
}

/// Hands a storage operation to whoever carries it out, and returns the ticket under which it will complete.
pub trait Issue {
    /// Issues `op`.
    fn issue(&mut self, op: StorageOp) -> StorageTicket;
}

/// Where the next record goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// First op of the segment.
    pub segment: u64,
    /// Byte position in it.
    pub position: u64,
}

/// Whether there is room for the next record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// It can be appended.
    Ready,
    /// Space is being taken; ask again after the next completion.
    Waiting,
    /// The disk is full.
    Full,
}

/// A record of the log, by what must be known of it once it is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    op: OpNumber,
    id: EntryId,
    segment: u64,
    end: u64,
    next_offset: u64,
}

#[derive(Debug)]
struct PendingWrite {
    ticket: StorageTicket,
    mark: Mark,
    position: u64,
    bytes: Bytes,
    /// It was issued and has not completed.
    in_flight: bool,
    done: bool,
}

#[derive(Debug)]
struct SyncRound {
    target: Mark,
    outstanding: Vec<StorageTicket>,
}

#[derive(Debug)]
enum SnapshotStep {
    WaitingForSync,
    Writing(StorageTicket),
}

#[derive(Debug)]
struct SnapshotJob {
    first_op: u64,
    bytes: Bytes,
    step: SnapshotStep,
}

/// The storage can no longer be trusted or used; the process must end and recover from its disk.
#[derive(Clone, Debug, thiserror::Error)]
#[error("group {group}: {error}")]
pub struct Fatal {
    /// Whose log.
    pub group: GroupId,
    /// What happened.
    pub error: StorageError,
}

/// The log of one group.
///
/// The caller appends sealed entries, passes completions in, calls [`Log::drive`] after a round of events, and reads
/// [`Log::durable`]. The log decides what is written, synced, sealed and removed, and in which order.
#[derive(Debug)]
pub struct Log {
    config: LogConfig,
    /// In op order. The last one that is not dead is appended to.
    segments: VecDeque<Segment>,
    head: OpNumber,
    next_offset: u64,
    /// The next record starts a new segment whatever the size of the last one.
    roll: bool,
    writes: VecDeque<PendingWrite>,
    /// Writes that failed for want of room and are repeated.
    retry: bool,
    /// Every record up to here is with the operating system.
    written: Mark,
    /// Every record up to here is fsynced. Invariant: `synced.op <= written.op`.
    synced: Mark,
    sync: Option<SyncRound>,
    /// Since when there are written records that are not fsynced.
    unsynced_since_ns: Option<u64>,
    /// What the frontier file says or is about to say.
    frontier: Frontier,
    frontier_write: Option<StorageTicket>,
    /// Slot of the frontier file that was written last.
    frontier_slot: u8,
    /// Slot that was synced last, and is not written over before another one is.
    durable_slot: u8,
    /// Reservation that the frontier file holds in this run, synced or not.
    frontier_written_reservation: u64,
    /// A sync of the frontier file under way, and the reservation that it makes durable.
    frontier_sync: Option<(StorageTicket, u64, u8)>,
    /// The frontier is written up to this op. Acknowledgements may not be ahead of it.
    evident: OpNumber,
    reservation_wanted: u64,
    /// Durable reservation of this run; 0 until the first one.
    reserved: u64,
    /// Space being taken: ticket, segment, length.
    allocation: Option<(StorageTicket, u64, u64)>,
    /// Space taken for a segment that does not exist yet: segment, length.
    allocated_ahead: (u64, u64),
    full: bool,
    minimal_extents: bool,
    snapshot: Option<SnapshotJob>,
    /// First op after the newest durable snapshot.
    snapshot_op: u64,
    /// A segment was sealed since the last snapshot.
    snapshot_due: bool,
    /// Sealed segments whose index is not written yet.
    unindexed: VecDeque<u64>,
    /// Sync as soon as there is something to sync, as before a stop.
    flushing: bool,
    /// Segments to remove together with a torn tail.
    cut: Vec<u64>,
    /// Records that are being taken back.
    rewind: Option<rewind::Rewind>,
}

/// What recovery found; see [`crate::recovery`].
pub(crate) struct LogParts {
    pub(crate) segments: VecDeque<Segment>,
    pub(crate) head: OpNumber,
    pub(crate) head_id: EntryId,
    pub(crate) next_offset: u64,
    pub(crate) frontier: Frontier,
    /// Slot of the frontier file in which it lies.
    pub(crate) frontier_slot: u8,
    /// Segments behind the end of the log that hold nothing that was promised.
    pub(crate) cut: Vec<u64>,
    /// Sealed segments whose index must be written.
    pub(crate) unindexed: Vec<u64>,
    pub(crate) snapshot_op: u64,
}

impl Log {
    /// A log that holds nothing.
    pub fn empty(config: LogConfig) -> Log {
        Log::from_parts(
            config,
            LogParts {
                segments: VecDeque::new(),
                head: OpNumber::ZERO,
                head_id: EntryId::NONE,
                next_offset: 0,
                frontier: Frontier::empty(),
                frontier_slot: 0,
                cut: Vec::new(),
                unindexed: Vec::new(),
                snapshot_op: 1,
            },
        )
    }

    pub(crate) fn from_parts(config: LogConfig, parts: LogParts) -> Log {
        let (segment, end) =
            parts.segments.back().map_or((parts.head.0 + 1, 0), |last| (last.sums.first_op, last.sums.length));
        let mark = Mark { op: parts.head, id: parts.head_id, segment, end, next_offset: parts.next_offset };
        Log {
            config,
            segments: parts.segments,
            head: parts.head,
            next_offset: parts.next_offset,
            roll: false,
            writes: VecDeque::new(),
            retry: false,
            written: mark,
            synced: mark,
            sync: None,
            unsynced_since_ns: None,
            frontier: parts.frontier,
            frontier_write: None,
            frontier_slot: parts.frontier_slot,
            durable_slot: parts.frontier_slot,
            frontier_written_reservation: 0,
            frontier_sync: None,
            evident: parts.head,
            reservation_wanted: 0,
            reserved: 0,
            allocation: None,
            allocated_ahead: (0, 0),
            full: false,
            minimal_extents: false,
            snapshot: None,
            snapshot_op: parts.snapshot_op,
            snapshot_due: false,
            unindexed: parts.unindexed.into(),
            flushing: false,
            cut: parts.cut,
            rewind: None,
        }
    }

    /// Last op that was appended.
    pub fn head(&self) -> OpNumber {
        self.head
    }

    /// Every entry up to here is as durable as the group promises, and the evidence of it is outside the log.
    pub fn durable(&self) -> OpNumber {
        self.evident
    }

    /// First offset that no durable reservation of this run covers.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// First offset that no run ever reserved: where numbering goes on after a loss.
    pub fn reserved_ever(&self) -> u64 {
        self.frontier.reserved_offset
    }

    /// First op of the last segment that holds records to be served, and where they end; `None` when there is none.
    pub fn end(&self) -> Option<(u64, u64)> {
        // The last segment may be one that got its space and no record before a crash.
        let last = self.segments.iter().rev().find(|segment| !segment.dead && !segment.is_empty())?;
        Some((last.sums.first_op, last.sums.length))
    }

    /// First op of the records that are to be served; the next op when there are none.
    pub fn first_live_op(&self) -> u64 {
        self.segments.iter().find(|segment| !segment.dead).map_or(self.head.0 + 1, |segment| segment.sums.first_op)
    }

    /// First op of the log that is on disk; the next op when nothing is.
    pub fn first_op(&self) -> u64 {
        self.segments.front().map_or(self.head.0 + 1, |segment| segment.sums.first_op)
    }

    pub(crate) fn segments(&self) -> &VecDeque<Segment> {
        &self.segments
    }

    /// The group whose log this is.
    pub fn group(&self) -> GroupId {
        self.config.group
    }

    /// Segments, bytes of batches, messages, and the first retained offset.
    pub fn sums(&self) -> LogSums {
        let live = self.segments.iter().filter(|segment| !segment.dead);
        let mut sums = LogSums { first_offset: self.next_offset, ..LogSums::default() };
        let mut first = true;
        for segment in live {
            sums.segments += 1;
            sums.bytes += segment.sums.bytes;
            sums.messages += segment.sums.messages;
            sums.log_bytes += segment.sums.length;
            if first {
                sums.first_offset = segment.sums.first_offset;
                first = false;
            }
        }
        sums.segments = sums.segments.max(1);
        sums
    }

    /// Where the next record goes. Follows from the log alone, so it is the same on every replica.
    pub fn place(&self) -> Place {
        match self.active() {
            Some(active) => Place { segment: active.sums.first_op, position: active.sums.length },
            None => Place { segment: self.head.0 + 1, position: 0 },
        }
    }

    /// The segment that the next record joins; `None` when it starts one.
    fn active(&self) -> Option<&Segment> {
        let last = self.segments.back()?;
        let full = last.sums.length >= self.config.segment_size;
        if last.sealed || last.dead || full || self.roll { None } else { Some(last) }
    }

    /// The primary put this record at the start of a segment, so it does here, too.
    pub fn follow(&mut self, header: &EntryHeader) {
        let starts = header.segment == header.op.0;
        self.roll |= starts && header.op == self.head.next() && self.active().is_some_and(|active| !active.is_empty());
    }

    /// Where the record before this one ends: its segment and the position. `None` when there is none.
    pub fn end_before(&self, header: &EntryHeader) -> Option<(u64, u64)> {
        if header.position > 0 {
            return Some((header.segment, header.position));
        }
        let before =
            self.segments.iter().find(|segment| !segment.is_empty() && segment.sums.last_op + 1 == header.op.0)?;
        Some((before.sums.first_op, before.sums.length))
    }

    /// Makes sure that a record of `length` bytes has room, before it gets an op.
    pub fn ensure_space(&mut self, length: u64, issue: &mut dyn Issue) -> Space {
        if self.rewind.is_some() {
            return Space::Waiting;
        }
        let place = self.place();
        let needed = place.position + length;
        let allocated = match self.active() {
            Some(active) => active.allocated,
            None if self.allocated_ahead.0 == place.segment => self.allocated_ahead.1,
            None => 0,
        };
        if needed <= allocated {
            return Space::Ready;
        }
        if self.allocation.is_some() {
            return Space::Waiting;
        }
        if std::mem::take(&mut self.full) {
            return Space::Full;
        }
        let rounded = needed.next_multiple_of(4096);
        let wanted = if self.minimal_extents {
            rounded
        } else if self.config.preallocate {
            rounded.max(self.config.segment_size)
        } else {
            let extent = allocated.clamp(EXTENT_MIN, EXTENT_MAX);
            rounded.max((allocated + extent).min(self.config.segment_size.next_multiple_of(4096)))
        };
        let file = self.segment_file(place.segment);
        let ticket = issue.issue(StorageOp::Allocate { file, length: wanted });
        self.allocation = Some((ticket, place.segment, wanted));
        Space::Waiting
    }

    /// Asks for a durable reservation of all offsets below `up_to`; [`Log::reserved`] tells when it holds.
    pub fn reserve(&mut self, up_to: u64) {
        self.reservation_wanted = self.reservation_wanted.max(up_to + RESERVATION);
    }

    /// Puts a sealed entry at the end of the log.
    ///
    /// # Panics
    /// When the entry is not the next one, was sealed for another place, or there is no room ([`Log::ensure_space`]).
    pub fn append(&mut self, entry: &Entry, now: Now, issue: &mut dyn Issue) {
        let header = entry.header();
        let place = self.place();
        assert!(self.rewind.is_none(), "nothing is appended while records are taken back");
        assert_eq!(header.op, self.head.next());
        assert_eq!(
            (header.segment, header.position),
            (place.segment, place.position),
            "op {} of {} belongs elsewhere; roll {}, last {:?}",
            header.op,
            self.config.group,
            self.roll,
            self.segments.back().map(|last| (last.sums, last.sealed, last.dead))
        );
        if self.active().is_none() {
            self.start_segment(place.segment, header.base_offset);
        }
        let segment = self.segments.back_mut().expect("a segment was started");
        segment.push(header, self.config.batch_kind);
        assert!(segment.sums.length <= segment.allocated, "space was taken before the op was given");
        self.head = header.op;
        if header.kind == self.config.batch_kind {
            self.next_offset = header.base_offset + u64::from(header.count);
        }
        let mark = Mark {
            op: header.op,
            id: entry.id(),
            segment: place.segment,
            end: segment.sums.length,
            next_offset: self.next_offset,
        };
        let op = StorageOp::Write {
            file: self.segment_file(place.segment),
            position: place.position,
            chunks: vec![entry.bytes().clone()],
        };
        let ticket = issue.issue(op);
        self.writes.push_back(PendingWrite {
            ticket,
            mark,
            position: place.position,
            bytes: entry.bytes().clone(),
            in_flight: true,
            done: false,
        });
        self.unsynced_since_ns.get_or_insert(now.monotonic_ns);
    }

    fn start_segment(&mut self, first_op: u64, first_offset: u64) {
        if let Some(last) = self.segments.back_mut().filter(|last| !last.sealed) {
            last.seal();
            if !last.dead {
                self.unindexed.push_back(last.sums.first_op);
                self.snapshot_due = true;
            }
        }
        self.roll = false;
        let allocated = if self.allocated_ahead.0 == first_op { self.allocated_ahead.1 } else { 0 };
        self.segments.push_back(Segment::new(first_op, first_offset, allocated));
    }

    /// Tells the log that numbering goes on at `offset` (after a purge or a declared loss).
    pub fn set_next_offset(&mut self, offset: u64) {
        self.next_offset = offset;
    }

    /// Everything up to `op` is purged: it is no longer served, the next record starts a new segment, and the files go once
    /// the next snapshot is durable. The caller must then take that snapshot.
    pub fn purge_up_to(&mut self, op: OpNumber) {
        for segment in self.segments.iter_mut().filter(|segment| segment.sums.last_op <= op.0) {
            segment.dead = true;
            segment.dead_by = op.0;
            segment.sealed = true;
        }
        self.unindexed.retain(|first_op| *first_op > op.0);
        self.roll = self.segments.back().is_some_and(|last| last.dead);
    }

    /// Whether a snapshot of the state should be taken now: a segment was sealed and no snapshot is under way.
    pub fn wants_snapshot(&self) -> bool {
        self.snapshot_due && self.snapshot.is_none()
    }

    /// Keeps `state` as the state up to and including `op`. It is written once the log is fsynced up to there, and makes
    /// older snapshots and purged segments superfluous.
    pub fn take_snapshot(&mut self, op: OpNumber, id: EntryId, timestamp: u64, generation: u32, state: &[u8]) {
        let header = SnapshotHeader {
            cluster: self.config.cluster,
            group: self.config.group,
            first_op: op.0 + 1,
            parent: id,
            timestamp,
            generation,
            voids: None,
        };
        self.snapshot_due = false;
        self.snapshot = Some(SnapshotJob {
            first_op: op.0 + 1,
            bytes: encode_snapshot(&header, state),
            step: SnapshotStep::WaitingForSync,
        });
    }

    /// A storage operation of this log has ended.
    ///
    /// # Errors
    /// [`Fatal`] when a write or a sync failed for another reason than want of room.
    pub fn handle_completion(&mut self, completion: StorageCompletion) -> Result<(), Fatal> {
        let StorageCompletion { ticket, result } = completion;
        if let Some(outcome) = self.rewind_completion(ticket, &result) {
            return outcome;
        }
        if let Some(write) = self.writes.iter_mut().find(|write| write.ticket == ticket && !write.done) {
            write.in_flight = false;
            return match result {
                Ok(_) => {
                    write.done = true;
                    self.advance_written();
                    Ok(())
                }
                Err(error) if error.kind == StorageErrorKind::NoSpace => {
                    self.retry = true;
                    Ok(())
                }
                Err(error) => Err(self.fatal(error)),
            };
        }
        if let Some(round) = &mut self.sync
            && let Some(at) = round.outstanding.iter().position(|other| *other == ticket)
        {
            round.outstanding.swap_remove(at);
            result.map_err(|error| Fatal { group: self.config.group, error })?;
            if round.outstanding.is_empty() {
                self.synced = round.target;
                self.sync = None;
            }
            return Ok(());
        }
        if let Some((allocating, segment, length)) = self.allocation.filter(|allocation| allocation.0 == ticket) {
            debug_assert_eq!(allocating, ticket);
            self.allocation = None;
            return match result {
                Ok(_) => {
                    self.note_allocated(segment, length);
                    Ok(())
                }
                Err(error) if error.kind == StorageErrorKind::NoSpace => {
                    // A large extent may not fit where the record alone does.
                    self.full = self.minimal_extents;
                    self.minimal_extents = true;
                    Ok(())
                }
                Err(error) => Err(self.fatal(error)),
            };
        }
        if self.frontier_write == Some(ticket) {
            self.frontier_write = None;
            return match result {
                Ok(_) => {
                    // While records are taken back the frontier may still name one of them.
                    if self.rewind.is_none() {
                        self.evident = self.evident.max(self.frontier.op);
                    }
                    self.frontier_written_reservation = self.frontier.reserved_offset;
                    Ok(())
                }
                Err(error) if error.kind == StorageErrorKind::NoSpace => {
                    // What it was to say is on no disk: neither the op nor the reservation of this run.
                    self.frontier.op = self.evident;
                    self.frontier.run = 0;
                    self.retry = true;
                    Ok(())
                }
                Err(error) => Err(self.fatal(error)),
            };
        }
        if let Some((_, reserved, slot)) = self.frontier_sync.filter(|sync| sync.0 == ticket) {
            self.frontier_sync = None;
            result.map_err(|error| self.fatal(error))?;
            self.reserved = reserved;
            self.durable_slot = slot;
            return Ok(());
        }
        if let Some(job) = &mut self.snapshot
            && matches!(job.step, SnapshotStep::Writing(writing) if writing == ticket)
        {
            match result {
                Ok(_) => {
                    self.snapshot_op = job.first_op;
                    self.snapshot = None;
                }
                Err(error) if error.kind == StorageErrorKind::NoSpace => {
                    job.step = SnapshotStep::WaitingForSync;
                    self.retry = true;
                }
                Err(error) => return Err(self.fatal(error)),
            }
            return Ok(());
        }
        // Indexes, removals, truncations: derived or repeated later; nothing depends on them.
        Ok(())
    }

    fn fatal(&self, error: StorageError) -> Fatal {
        Fatal { group: self.config.group, error }
    }

    fn note_allocated(&mut self, segment: u64, length: u64) {
        self.full = false;
        if length > EXTENT_MIN {
            self.minimal_extents = false;
        }
        match self.segments.back_mut().filter(|last| last.sums.first_op == segment) {
            Some(last) => last.allocated = last.allocated.max(length),
            None => self.allocated_ahead = (segment, length),
        }
    }

    fn advance_written(&mut self) {
        while let Some(write) = self.writes.front().filter(|write| write.done) {
            self.written = write.mark;
            self.writes.pop_front();
        }
        assert!(self.synced.op <= self.written.op);
    }

    /// Whether completions or time still have something to do here.
    pub fn is_idle(&self) -> bool {
        self.writes.is_empty()
            && self.sync.is_none()
            && self.synced.op == self.head
            && self.evident == self.head
            && self.frontier_write.is_none()
            && self.frontier_sync.is_none()
            && self.snapshot.is_none()
            && self.allocation.is_none()
            && self.unindexed.is_empty()
            && !self.retry
            && self.rewind.is_none()
    }

    /// From now on everything is synced as soon as it is written: the process is about to stop.
    pub fn flush(&mut self) {
        self.flushing = true;
    }

    /// When [`Log::drive`] has something to do although nothing happened, in monotonic nanoseconds.
    pub fn timeout_ns(&self) -> Option<u64> {
        if self.sync.is_some() {
            return None;
        }
        self.unsynced_since_ns.map(|since| since + self.config.sync_interval_ns)
    }

    /// Whether something failed for want of room and [`Log::retry`] is to be called in a while.
    pub fn needs_retry(&self) -> bool {
        self.retry
    }

    /// Repeats what failed for want of room. Called now and then by whoever keeps the time.
    pub fn retry(&mut self, issue: &mut dyn Issue) {
        if !std::mem::take(&mut self.retry) {
            return;
        }
        let directory = self.config.directory();
        for write in self.writes.iter_mut().filter(|write| !write.done && !write.in_flight) {
            write.in_flight = true;
            let file = FileName::Segment { group: directory, first_op: write.mark.segment };
            write.ticket =
                issue.issue(StorageOp::Write { file, position: write.position, chunks: vec![write.bytes.clone()] });
        }
    }

    /// First op after the newest durable snapshot, 1 when there is none.
    pub fn snapshot_op(&self) -> u64 {
        self.snapshot_op
    }

    /// The file of a segment.
    pub fn segment_file(&self, first_op: u64) -> FileName {
        FileName::Segment { group: self.config.directory(), first_op }
    }

    /// The file cut to what is known of it, as the first thing after recovery found a torn tail.
    pub fn cut_tail(&mut self, issue: &mut dyn Issue) {
        for first_op in std::mem::take(&mut self.cut) {
            let file = self.segment_file(first_op);
            issue.issue(StorageOp::Remove { file });
        }
        if let Some(last) = self.segments.back_mut() {
            last.allocated = last.sums.length;
            let (first_op, length) = (last.sums.first_op, last.sums.length);
            let file = self.segment_file(first_op);
            issue.issue(StorageOp::Truncate { file, length });
        }
    }
}

/// Sums over the live segments of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSums {
    /// Segments, at least 1.
    pub segments: u32,
    /// Bytes of batches.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
    /// Bytes of records, headers included.
    pub log_bytes: u64,
    /// Offset of the first retained message, or the next offset.
    pub first_offset: u64,
}
