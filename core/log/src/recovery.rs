//! How a log is read back after its process ended.
//!
//! The newest snapshot that checks out gives the state; the records behind it are replayed. Sealed segments before it are
//! not read: their index files tell what they hold, and where one is missing or damaged it is rebuilt from the segment.
//!
//! What a record that does not check out means:
//!
//! | frontier | verdict |
//! | --- | --- |
//! | names that op or one behind it | damage; after a machine crash of a `replicated` log: declared loss |
//! | names an op before it | writes that nobody was promised (they complete in any order): cut from there on, also where a whole file is missing and none behind it was fsynced |
//! | missing or damaged, nothing but that record was ever written | as before: cut |
//! | missing or damaged otherwise | damage: what was promised is not known |
//!
//! Whatever the frontier says, a log that ends before the op of its snapshot, or starts behind the op that its state still
//! serves, is damaged.
//!
//! Damage is never repaired here and nothing is overwritten: what lies before it can be read, nothing can be appended.

use crate::frontier::Frontier;
use crate::index::SparseIndex;
use crate::log::{Log, LogConfig, LogParts};
use crate::segment::Segment;
use crate::snapshot::{SnapshotHeader, decode_snapshot};
use bytes::Bytes;
use std::collections::VecDeque;
use whippet_storage::{FileName, RecoverySource, StorageError};
use whippet_vsr::{Entry, EntryHeader, EntryId, HEADER_SIZE, InvalidHeader, MAGIC, OpNumber};

/// Bytes that are read at once.
const CHUNK: usize = 4 * 1024 * 1024;

/// Damage that was found: which file, where, what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: FileName,
    /// Byte position.
    pub position: u64,
    /// What is wrong there.
    pub reason: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is damaged at byte {}: {}", self.file, self.position, self.reason)
    }
}

/// How the log ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// With its last record.
    Whole,
    /// With a torn write that nobody was promised; it is cut.
    TornTail {
        /// Which file.
        file: FileName,
        /// Where the log ends now.
        position: u64,
    },
    /// With less than may have been acknowledged: the machine lost what was not fsynced. Only in a `replicated` log after
    /// another boot of the machine.
    Lost {
        /// Last op that may have been acknowledged.
        acknowledged: OpNumber,
        /// Where numbering must go on.
        reserved_offset: u64,
    },
    /// Damaged: what lies before can be read.
    Damaged(Damage),
}

/// Something that a person may want to know although nothing is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// An index file was missing or did not check out, and was rebuilt from its segment.
    IndexRebuilt(FileName),
    /// A slot of the frontier did not check out.
    FrontierSlotDamaged(FileName),
    /// A snapshot did not check out; an older one and the log behind it were used.
    SnapshotSkipped(FileName, &'static str),
}

impl std::fmt::Display for Remark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Remark::IndexRebuilt(file) => write!(f, "{file} is missing or damaged; it was rebuilt from its segment"),
            Remark::FrontierSlotDamaged(file) => {
                write!(f, "one of the slots of {file} is damaged; another one is used")
            }
            Remark::SnapshotSkipped(file, reason) => {
                write!(f, "{file} is not used: {reason}; an older snapshot and the log are")
            }
        }
    }
}

/// Why a log could not be read at all.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// The operating system did not let us.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The state machine does not accept an entry of its own log, or its snapshot.
    #[error("{file}: {reason}")]
    State {
        /// In which file.
        file: FileName,
        /// Why.
        reason: String,
    },
}

/// What the state machine does with a log that is read back.
pub trait Replay {
    /// Starts from a snapshot's state.
    ///
    /// # Errors
    /// A phrase that says what is wrong with it.
    fn restore(&mut self, state: &[u8]) -> Result<(), String>;
    /// Executes an entry.
    ///
    /// # Errors
    /// A phrase that says what is wrong with it.
    fn replay(&mut self, entry: &Entry) -> Result<(), String>;
    /// Whether the body of an entry is what its header says.
    fn body_is_intact(&self, entry: &Entry) -> bool;
    /// Offset of the next message, as of what was replayed so far.
    fn next_offset(&self) -> u64;
    /// The op by which the log must start, as of what was replayed so far: a log that starts behind it has lost its
    /// beginning. `u64::MAX` when the state alone is served, and a log may start anywhere up to its snapshot.
    fn log_starts_by(&self) -> u64;
}

/// A log that was read back.
#[derive(Debug)]
pub struct Recovered {
    /// The log, ready to be appended to (unless damaged).
    pub log: Log,
    /// How it ended.
    pub verdict: Verdict,
    /// What else was noticed.
    pub remarks: Vec<Remark>,
    /// Last op that was executed: in a group of one the last op of the log, otherwise the last one that is known to be
    /// committed.
    pub applied: OpNumber,
    /// Its identity.
    pub applied_id: EntryId,
    /// Its timestamp.
    pub applied_timestamp: u64,
    /// The entries behind it, in op order; empty in a group of one.
    pub tail: Vec<Entry>,
    /// Greatest view of any entry that was read.
    pub view: u32,
    /// First ops of all snapshot files that are on disk.
    pub snapshots: Vec<u64>,
}

/// How the process that wrote the log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreviousEnd {
    /// All that was written is on disk or in the page cache of this boot.
    PageCacheKept,
    /// The machine itself stopped: what was not fsynced may be gone. It may have stopped again, or the process may have ended,
    /// before every log was read back and went on, so this concerns a range of process starts.
    MachineStopped {
        /// The first start whose writes may be gone.
        first: u64,
        /// The last one.
        last: u64,
    },
}

impl PreviousEnd {
    /// The machine stopped under the process before start number `run`.
    pub fn machine_stopped(run: u64) -> PreviousEnd {
        PreviousEnd::MachineStopped { first: run.saturating_sub(1), last: run.saturating_sub(1) }
    }

    fn stopped_in(self, run: u64) -> bool {
        matches!(self, PreviousEnd::MachineStopped { first, last } if first <= run && run <= last)
    }
}

/// Entries that were read and are not known to be committed.
struct Pending {
    solo: bool,
    /// Greatest commit number of any entry that was read.
    commit: OpNumber,
    queue: VecDeque<Entry>,
    /// Where the state machine stands.
    applied: Cursor,
    /// Offset of the next message behind everything that was read.
    next_offset: u64,
}

impl Pending {
    fn push(
        &mut self,
        entry: Entry,
        file: FileName,
        batch_kind: u8,
        machine: &mut dyn Replay,
    ) -> Result<(), RecoveryError> {
        let header = *entry.header();
        self.commit = if self.solo { header.op } else { self.commit.max(header.commit) };
        if header.kind == batch_kind {
            self.next_offset = header.base_offset + u64::from(header.count);
        }
        self.queue.push_back(entry);
        while let Some(entry) = self.queue.pop_front_if(|entry| entry.op() <= self.commit) {
            machine.replay(&entry).map_err(|reason| RecoveryError::State { file, reason })?;
            self.applied = self.applied.then(&entry);
        }
        if self.queue.is_empty() {
            self.next_offset = machine.next_offset();
        }
        Ok(())
    }
}

struct Scan<'a> {
    source: &'a dyn RecoverySource,
    config: LogConfig,
}

/// What is wrong at the place where a scan stopped.
struct Stop {
    position: u64,
    reason: String,
    /// Nothing but zeros, or nothing at all, where the next record would be.
    empty: bool,
    /// A whole record is there, of another log.
    foreign: bool,
}

/// What the frontier file is worth.
#[derive(Clone, Copy)]
struct Evidence {
    /// What lies behind the op that it names was not acknowledged, or checks out by itself.
    trusted: bool,
    /// A slot does not check out, and no machine crash explains it.
    broken: bool,
}

/// Reads the log of a group back.
///
/// # Errors
/// [`RecoveryError`]; damage is a [`Verdict`], not an error.
pub fn recover(
    source: &dyn RecoverySource,
    config: LogConfig,
    previous: PreviousEnd,
    machine: &mut dyn Replay,
) -> Result<Recovered, RecoveryError> {
    let directory = config.directory();
    let files = source.files(directory)?;
    let mut remarks = Vec::new();
    let (frontier, broken_slots) = read_frontier(source, &config)?;
    if broken_slots > 0 {
        remarks.push(Remark::FrontierSlotDamaged(FileName::Frontier { group: directory }));
    }
    // After a machine crash slots that were not synced may be torn or gone; the one that was synced is there, and behind the
    // op that it names there is nothing that was promised and does not check out by itself.
    let machine_stopped = matches!(previous, PreviousEnd::MachineStopped { .. });
    let evidence = Evidence {
        trusted: machine_stopped || (frontier.is_some() && broken_slots == 0),
        broken: broken_slots > 0 && !machine_stopped,
    };
    let (mut frontier, frontier_slot) = frontier.unwrap_or_else(|| (Frontier::empty(), 0));
    let mut evidence = evidence;

    let mut snapshots: Vec<u64> = files
        .iter()
        .filter_map(|(file, _)| if let FileName::Snapshot { first_op, .. } = file { Some(*first_op) } else { None })
        .collect();
    snapshots.sort_unstable();
    let mut segment_ops: Vec<(u64, u64)> = files
        .iter()
        .filter_map(
            |(file, length)| {
                if let FileName::Segment { first_op, .. } = file { Some((*first_op, *length)) } else { None }
            },
        )
        .collect();

    let mut damage: Option<Damage> = None;
    let snapshot = read_newest_snapshot(source, &config, &snapshots, &files, &mut remarks, &mut damage)?;
    let mut cursor = Cursor::after(&snapshot);
    if let Some((header, state)) = &snapshot {
        let file = FileName::Snapshot { group: directory, first_op: header.first_op };
        machine.restore(state).map_err(|reason| RecoveryError::State { file, reason })?;
    }

    let mut cut: Vec<u64> = Vec::new();
    if let Some((SnapshotHeader { first_op, voids: Some(sequence), .. }, _)) = &snapshot {
        // The log before it was given up for it; the process may have ended before all of it was gone.
        if frontier.sequence <= *sequence {
            frontier = Frontier { op: OpNumber::ZERO, id: EntryId::NONE, ..frontier };
            evidence = Evidence { trusted: true, broken: false };
        }
        let begun = segment_ops.iter().any(|(op, _)| op == first_op);
        let void = |op: u64| op < *first_op || !begun;
        cut.extend(segment_ops.iter().map(|(op, _)| *op).filter(|op| void(*op)));
        segment_ops.retain(|(op, _)| !void(*op));
    }
    let scan = Scan { source, config };
    let mut pending = Pending {
        solo: config.solo,
        commit: cursor.head,
        queue: VecDeque::new(),
        applied: cursor,
        next_offset: machine.next_offset(),
    };
    let mut segments: VecDeque<Segment> = VecDeque::new();
    // The first segment that must be read: the last one that starts at or before the first op to replay.
    let start = segment_ops.iter().rposition(|(first_op, _)| *first_op <= cursor.head.0 + 1);
    let mut stop: Option<Stop> = None;
    let mut unindexed: Vec<u64> = Vec::new();
    for (at, (first_op, length)) in segment_ops.iter().enumerate() {
        let file = FileName::Segment { group: directory, first_op: *first_op };
        if damage.is_some() {
            break;
        }
        if start.is_some_and(|start| at < start) {
            let next_first_op = segment_ops[at + 1].0;
            match scan.sealed(*first_op, next_first_op, &mut remarks)? {
                Ok((segment, rebuilt)) => {
                    unindexed.extend(rebuilt.then_some(*first_op));
                    segments.push_back(segment);
                }
                Err(reason) => damage = Some(reason),
            }
            continue;
        }
        if start.is_none() || (segments.back().is_some_and(|last| last.sums.last_op + 1 != *first_op)) {
            let expected = segments.back().map_or(cursor.head.0 + 1, |last| last.sums.last_op + 1);
            // Files whose entries no sync had made durable vanish in any order when the machine stops. A segment with an index
            // was fsynced, and so was every one before it.
            let synced =
                files.iter().any(|(file, _)| matches!(file, FileName::Index { first_op: op, .. } if op >= first_op));
            if evidence.trusted && frontier.op <= cursor.head && !synced {
                cut.extend(segment_ops[at..].iter().map(|(first_op, _)| *first_op));
                break;
            }
            damage = Some(Damage {
                file,
                position: 0,
                reason: format!(
                    "the log continues with op {expected}, but this file starts with op {first_op}: a file before it is missing"
                ),
            });
            break;
        }
        let mut segment = Segment::new(*first_op, pending.next_offset, *length);
        let (stopped, next) = scan.replay(&mut segment, *length, cursor, &mut pending, machine)?;
        cursor = next;
        let behind = segment_ops.get(at + 1);
        let goes_on = behind.is_some_and(|(next, _)| *next == segment.sums.last_op + 1);
        if behind.is_some() && goes_on && (stopped.position == *length || stopped.empty) {
            segment.seal();
            // Its index may not have been written before the process ended; writing it again costs next to nothing.
            unindexed.push(*first_op);
            segments.push_back(segment);
            continue;
        }
        // Here the log ends. Whatever lies behind was never acknowledged, or this is damage: `judge` decides.
        segments.push_back(segment);
        cut.extend(segment_ops[at + 1..].iter().map(|(first_op, _)| *first_op));
        stop = Some(stopped);
        break;
    }

    // A snapshot is written only once the log is fsynced up to its op. A log that ends before it is damaged, whatever the
    // frontier says and however the machine stopped: the state is whole, and the records from which reads are served are not.
    let end_of_log = segments.back().map(|segment| segment.sums.last_op);
    let mut certain = None;
    if let (Some(end), None) = (end_of_log, &damage)
        && end < cursor.head.0
    {
        let first_op = segments.back().map_or(1, |segment| segment.sums.first_op);
        let (position, found) = stop.as_ref().map_or((0, "nothing"), |stop| (stop.position, stop.reason.as_str()));
        let reason = format!("a snapshot holds op {}, and op {} belongs here: {found}", cursor.head, end + 1);
        certain = Some(Damage { file: scan.file(first_op), position, reason });
    }
    let starts_by = machine.log_starts_by();
    let first_op = segment_ops.first().map_or(cursor.head.0 + 1, |(first_op, _)| *first_op);
    if certain.is_none() && damage.is_none() && first_op > starts_by && cursor.head.0 >= starts_by {
        let reason =
            format!("the file is missing: the log must start with op {starts_by}, and starts with op {first_op}");
        certain = Some(Damage { file: scan.file(starts_by), position: 0, reason });
    }

    if let (Some(stopped), false) = (&stop, evidence.trusted)
        && !stopped.empty
        && cursor.head != OpNumber::ZERO
        && damage.is_none()
    {
        let first_op = segments.back().map_or(1, |segment| segment.sums.first_op);
        let length = segment_ops.iter().find(|(op, _)| *op == first_op).map_or(0, |(_, length)| *length);
        let follows = match scan.later_record(first_op, stopped.position + 1, length, cursor.head)? {
            Some((position, op)) => format!(", and op {op} follows at byte {position}"),
            None => String::new(),
        };
        let reason = format!(
            "{}{follows}; the frontier that would tell whether it was acknowledged is missing or damaged",
            stopped.reason
        );
        damage =
            Some(Damage { file: FileName::Segment { group: directory, first_op }, position: stopped.position, reason });
    }
    let verdict = match certain {
        Some(damage) => Verdict::Damaged(damage),
        None => judge(
            &config,
            &frontier,
            evidence,
            previous,
            (cursor.head, cursor.head_id),
            damage,
            stop,
            &segments,
            !cut.is_empty(),
        ),
    };
    let parts = LogParts {
        segments,
        head: cursor.head,
        head_id: cursor.head_id,
        next_offset: pending.next_offset,
        frontier,
        frontier_slot,
        cut: if matches!(verdict, Verdict::Damaged(_)) { Vec::new() } else { cut },
        unindexed: if matches!(verdict, Verdict::Damaged(_)) { Vec::new() } else { unindexed },
        snapshot_op: snapshot.map_or(1, |(header, _)| header.first_op),
    };
    Ok(Recovered {
        log: Log::from_parts(config, parts),
        verdict,
        remarks,
        applied: pending.applied.head,
        applied_id: pending.applied.head_id,
        applied_timestamp: pending.applied.timestamp,
        tail: pending.queue.into(),
        view: cursor.view,
        snapshots,
    })
}

#[allow(clippy::too_many_arguments, reason = "one decision over everything that recovery found")]
fn judge(
    config: &LogConfig,
    frontier: &Frontier,
    evidence: Evidence,
    previous: PreviousEnd,
    (head, head_id): (OpNumber, EntryId),
    damage: Option<Damage>,
    stop: Option<Stop>,
    segments: &VecDeque<Segment>,
    more_files: bool,
) -> Verdict {
    let directory = config.directory();
    let last = segments.back().map_or(1, |segment| segment.sums.first_op);
    let file = FileName::Segment { group: directory, first_op: last };
    let position = stop.as_ref().map_or(0, |stop| stop.position);
    let replicated = config.durability == crate::log::Durability::Replicated;
    // A machine that stops writes pages back in any order: a hole in the last segment is a loss, elsewhere it is damage.
    // Which groups wrote in those runs is known from the run number in the frontier: those that did not lost nothing.
    let may_have_lost = replicated && previous.stopped_in(frontier.run);
    if let Some(damage) = damage
        && (damage.file != file || !may_have_lost)
    {
        return Verdict::Damaged(damage);
    }
    if may_have_lost {
        return Verdict::Lost { acknowledged: frontier.op, reserved_offset: frontier.reserved_offset };
    }
    if frontier.op > head {
        let found = stop.map_or_else(|| "nothing".to_string(), |stop| stop.reason);
        let reason = format!("the log must go on to op {}, here is op {}: {found}", frontier.op, head.next());
        return Verdict::Damaged(Damage { file, position, reason });
    }
    if frontier.op == head && head != OpNumber::ZERO && frontier.id != head_id {
        let reason = format!("op {head} is another record than the one that was acknowledged");
        return Verdict::Damaged(Damage { file, position, reason });
    }
    match stop {
        Some(stop) if stop.foreign || (!stop.empty && evidence.broken) => {
            Verdict::Damaged(Damage { file, position: stop.position, reason: stop.reason })
        }
        Some(stop) if !stop.empty || more_files => Verdict::TornTail { file, position: stop.position },
        None if more_files => {
            Verdict::TornTail { file, position: segments.back().map_or(0, |segment| segment.sums.length) }
        }
        _ => Verdict::Whole,
    }
}

fn read_frontier(
    source: &dyn RecoverySource,
    config: &LogConfig,
) -> Result<(Option<(Frontier, u8)>, u32), RecoveryError> {
    let file = FileName::Frontier { group: config.directory() };
    match source.read(file, 0, crate::frontier::position(crate::frontier::SLOTS) as usize) {
        Ok(bytes) => Ok(Frontier::decode(&bytes, config.cluster, config.group)),
        Err(error) if error.kind == whippet_storage::StorageErrorKind::NotFound => Ok((None, 0)),
        Err(error) => Err(error.into()),
    }
}

type Snapshot = (SnapshotHeader, Bytes);

fn read_newest_snapshot(
    source: &dyn RecoverySource,
    config: &LogConfig,
    snapshots: &[u64],
    files: &[(FileName, u64)],
    remarks: &mut Vec<Remark>,
    damage: &mut Option<Damage>,
) -> Result<Option<Snapshot>, RecoveryError> {
    let group = config.directory();
    let mut broken = None;
    for first_op in snapshots.iter().rev() {
        let file = FileName::Snapshot { group, first_op: *first_op };
        let length = files.iter().find(|(name, _)| *name == file).map_or(0, |(_, length)| *length);
        let bytes = source.read(file, 0, length as usize)?;
        match decode_snapshot(&bytes, config.cluster, config.group) {
            Ok(snapshot) if snapshot.0.first_op == *first_op => return Ok(Some(snapshot)),
            Ok(_) => broken = Some((file, "was written for another op")),
            Err(reason) => broken = Some((file, reason)),
        }
        if let Some((file, reason)) = broken {
            remarks.push(Remark::SnapshotSkipped(file, reason));
        }
    }
    // Without a snapshot the log must go back to op 1.
    let whole = files.iter().any(|(file, _)| matches!(file, FileName::Segment { first_op: 1, .. }));
    if let (Some((file, reason)), false) = (broken, whole) {
        *damage = Some(Damage { file, position: 0, reason: reason.to_string() });
    }
    Ok(None)
}

#[derive(Clone, Copy)]
struct Cursor {
    head: OpNumber,
    head_id: EntryId,
    timestamp: u64,
    view: u32,
}

impl Cursor {
    fn then(self, entry: &Entry) -> Cursor {
        let header = entry.header();
        let view = self.view.max(header.view.0);
        Cursor { head: header.op, head_id: header.id, timestamp: header.timestamp, view }
    }

    fn after(snapshot: &Option<Snapshot>) -> Cursor {
        match snapshot {
            Some((header, _)) => Cursor {
                head: OpNumber(header.first_op - 1),
                head_id: header.parent,
                timestamp: header.timestamp,
                view: 0,
            },
            None => Cursor { head: OpNumber::ZERO, head_id: EntryId::NONE, timestamp: 0, view: 0 },
        }
    }
}

impl Scan<'_> {
    fn file(&self, first_op: u64) -> FileName {
        FileName::Segment { group: self.config.directory(), first_op }
    }

    /// What a sealed segment holds, from its index or by walking its record headers, and whether it was the latter.
    fn sealed(
        &self,
        first_op: u64,
        next_first_op: u64,
        remarks: &mut Vec<Remark>,
    ) -> Result<Result<(Segment, bool), Damage>, RecoveryError> {
        let index_file = FileName::Index { group: self.config.directory(), first_op };
        let known = match self.source.read(index_file, 0, 64 * 1024 * 1024) {
            Ok(bytes) => SparseIndex::decode(&bytes),
            Err(error) if error.kind == whippet_storage::StorageErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        let (length, mut segment) = (self.length(first_op)?, Segment::new(first_op, 0, 0));
        if let Some((sums, index)) = known
            && sums.first_op == first_op
            && sums.last_op + 1 == next_first_op
            && sums.length <= length
        {
            segment.sums = sums;
            segment.index = index;
            segment.sealed = true;
            segment.allocated = sums.length;
            return Ok(Ok((segment, false)));
        }
        remarks.push(Remark::IndexRebuilt(index_file));
        let mut first = true;
        let mut position = 0;
        let mut reason = String::from("the segment ends early");
        while segment.sums.last_op + 1 < next_first_op {
            let bytes = self.source.read(self.file(first_op), position, HEADER_SIZE)?;
            let header = match EntryHeader::decode(&bytes) {
                Ok(header)
                    if header.op.0 == segment.sums.last_op + 1
                        && header.position == position
                        && header.segment == first_op =>
                {
                    header
                }
                Ok(header) => {
                    reason = format!("op {} where op {} belongs", header.op, segment.sums.last_op + 1);
                    break;
                }
                Err(error) => {
                    reason = error.to_string();
                    break;
                }
            };
            if first && header.kind == self.config.batch_kind {
                segment.sums.first_offset = header.base_offset;
                first = false;
            }
            segment.push(&header, self.config.batch_kind);
            position = segment.sums.length;
        }
        if segment.sums.last_op + 1 != next_first_op || segment.sums.length > length {
            return Ok(Err(Damage { file: self.file(first_op), position, reason }));
        }
        segment.seal();
        segment.allocated = segment.sums.length;
        Ok(Ok((segment, true)))
    }

    fn length(&self, first_op: u64) -> Result<u64, RecoveryError> {
        let file = self.file(first_op);
        Ok(self
            .source
            .files(self.config.directory())?
            .into_iter()
            .find(|(name, _)| *name == file)
            .map_or(0, |(_, length)| length))
    }

    /// Walks a segment record by record, verifies each, and replays those behind the cursor.
    fn replay(
        &self,
        segment: &mut Segment,
        length: u64,
        mut cursor: Cursor,
        pending: &mut Pending,
        machine: &mut dyn Replay,
    ) -> Result<(Stop, Cursor), RecoveryError> {
        let file = self.file(segment.sums.first_op);
        let mut window = Window { source: self.source, file, length, start: 0, bytes: Bytes::new() };
        let mut first = true;
        loop {
            let position = segment.sums.length;
            let stop = |reason: String, empty: bool| Ok((Stop { position, reason, empty, foreign: false }, cursor));
            if position == length {
                return stop("the file ends here".into(), true);
            }
            let header = match EntryHeader::decode(&window.get(position, HEADER_SIZE)?) {
                Ok(header) => header,
                Err(InvalidHeader::Zero) => {
                    return stop(InvalidHeader::Zero.to_string(), window.rest_is_zero(position)?);
                }
                Err(InvalidHeader::Short(_)) => {
                    return stop("the file ends within a record header".into(), window.rest_is_zero(position)?);
                }
                Err(error) => return stop(error.to_string(), false),
            };
            let expected = segment.sums.last_op + 1;
            if header.cluster != self.config.cluster || header.group != self.config.group {
                let reason = format!("a record of group {} of another cluster or group", header.group);
                return Ok((Stop { position, reason, empty: false, foreign: true }, cursor));
            }
            if header.op.0 != expected || header.segment != segment.sums.first_op || header.position != position {
                return stop(format!("op {} where op {expected} belongs", header.op), false);
            }
            let bytes = window.get(position, header.length as usize)?;
            let Ok(entry) = Entry::decode(bytes) else {
                return stop("the file ends within a record".into(), false);
            };
            if !machine.body_is_intact(&entry) {
                return stop(format!("the body of op {} does not match its checksum", header.op), false);
            }
            if header.op == cursor.head.next() {
                if header.parent != cursor.head_id || header.timestamp <= cursor.timestamp {
                    return stop(format!("op {} does not continue the log before it", header.op), false);
                }
                cursor = cursor.then(&entry);
                pending.push(entry, file, self.config.batch_kind, machine)?;
            } else if header.op > cursor.head {
                return stop(format!("op {} where op {} belongs", header.op, cursor.head.next()), false);
            }
            if first && header.kind == self.config.batch_kind {
                segment.sums.first_offset = header.base_offset;
                first = false;
            }
            segment.push(&header, self.config.batch_kind);
        }
    }

    /// Looks for a whole record of this log behind a place where there is none: its position and op.
    fn later_record(
        &self,
        first_op: u64,
        from: u64,
        length: u64,
        head: OpNumber,
    ) -> Result<Option<(u64, OpNumber)>, RecoveryError> {
        let magic = MAGIC.to_le_bytes();
        let mut position = from;
        while position + (HEADER_SIZE as u64) <= length {
            let bytes = self.source.read(self.file(first_op), position, CHUNK)?;
            if bytes.len() < HEADER_SIZE {
                break;
            }
            for at in 84..=bytes.len() - 4 {
                if bytes[at..at + 4] != magic {
                    continue;
                }
                let start = at - 84;
                if let Ok(header) = EntryHeader::decode(&bytes[start..])
                    && header.group == self.config.group
                    && header.op > head
                    && header.segment == first_op
                    && header.position == position + start as u64
                    && header.position + u64::from(header.length) <= length
                {
                    return Ok(Some((header.position, header.op)));
                }
            }
            if bytes.len() < CHUNK {
                break;
            }
            position += (CHUNK - HEADER_SIZE) as u64;
        }
        Ok(None)
    }
}

/// A part of a file that was read ahead.
struct Window<'a> {
    source: &'a dyn RecoverySource,
    file: FileName,
    length: u64,
    start: u64,
    bytes: Bytes,
}

impl Window<'_> {
    /// `count` bytes from `position`, fewer at the end of the file.
    fn get(&mut self, position: u64, count: usize) -> Result<Bytes, StorageError> {
        let count = count.min(usize::try_from(self.length - position).unwrap_or(usize::MAX));
        let within = position >= self.start && position + count as u64 <= self.start + self.bytes.len() as u64;
        if !within {
            self.bytes = self.source.read(self.file, position, count.max(CHUNK))?;
            self.start = position;
        }
        let at = (position - self.start) as usize;
        Ok(self.bytes.slice(at.min(self.bytes.len())..(at + count).min(self.bytes.len())))
    }

    fn rest_is_zero(&mut self, position: u64) -> Result<bool, StorageError> {
        let mut at = position;
        while at < self.length {
            let bytes = self.source.read(self.file, at, CHUNK)?;
            if bytes.is_empty() {
                break;
            }
            if bytes.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            at += bytes.len() as u64;
        }
        Ok(true)
    }
}
