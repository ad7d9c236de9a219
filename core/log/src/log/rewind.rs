//! Taking records back: a view change cuts an uncommitted tail, and a replica that lags too far gives its log up for a
//! snapshot.
//!
//! In memory both happen at once. On disk, in this order, each step after the one before has completed:
//!
//! 1. What was issued before ends, so that no write of a cut record lands behind a new one, and no completion of before
//!    vouches for what comes after.
//! 2. For a snapshot: the snapshot file, which from then on voids the log and the frontiers of before.
//! 3. A frontier that names the new end, fsynced, so that no older one calls the shorter log damaged.
//! 4. The segment is cut, later ones and their indexes are removed.
//!
//! A crash before 4 has completed may leave records that were to go; whoever asked for it asks again. Nothing is appended
//! meanwhile.

use super::{Fatal, Issue, Log, Mark, SnapshotStep};
use crate::snapshot::{SnapshotHeader, encode_snapshot};
use whippet_storage::{FileName, GroupDirectory, StorageError, StorageErrorKind, StorageOp, StorageTicket};
use whippet_vsr::{EntryHeader, EntryId, OpNumber};

/// The last record that stays, or the op before the first one of an empty log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// Its op.
    pub op: OpNumber,
    /// Its identity.
    pub id: EntryId,
    /// Its timestamp.
    pub timestamp: u64,
    /// Offset of the next message.
    pub next_offset: u64,
}

/// A snapshot of a peer that takes the place of the log.
#[derive(Clone, Debug)]
pub struct Replacement {
    /// The last op that is in it.
    pub end: LogEnd,
    /// Generation of the log.
    pub generation: u32,
    /// The state.
    pub state: Vec<u8>,
    /// First ops of all snapshot files that are on disk.
    pub older_snapshots: Vec<u64>,
}

#[derive(Debug)]
enum Step {
    /// Waits for what was issued before.
    Draining,
    Snapshot(StorageTicket),
    Frontier(StorageTicket),
    /// `None`: to be issued.
    Sync(Option<StorageTicket>),
    /// What is still to be done, last first, and what is being done.
    Cutting(Vec<StorageOp>, Option<StorageTicket>),
}

/// Records being taken back.
#[derive(Debug)]
pub(super) struct Rewind {
    end: Mark,
    replacement: Option<Replacement>,
    /// Operations of before whose completions mean nothing any more.
    outstanding: Vec<StorageTicket>,
    /// Segments to remove, by first op.
    remove: Vec<u64>,
    /// Segment to cut, and to which length.
    cut: Option<(u64, u64)>,
    step: Step,
    snapshot_done: bool,
}

impl Rewind {
    /// The files to cut and remove, the first to be done last: from the end of the log to its beginning, so that a crash never
    /// leaves a gap.
    fn cuts(&self, group: GroupDirectory) -> Vec<StorageOp> {
        let mut ops = Vec::new();
        let kept = self.end.op.0 + 1;
        for first_op in self.replacement.iter().flat_map(|replacement| &replacement.older_snapshots) {
            if *first_op != kept {
                ops.push(StorageOp::Remove { file: FileName::Snapshot { group, first_op: *first_op } });
            }
        }
        if let Some((first_op, length)) = self.cut {
            ops.push(StorageOp::Truncate { file: FileName::Segment { group, first_op }, length });
            // It may have been sealed.
            ops.push(StorageOp::Remove { file: FileName::Index { group, first_op } });
        }
        for first_op in self.remove.iter().copied() {
            ops.push(StorageOp::Remove { file: FileName::Segment { group, first_op } });
            ops.push(StorageOp::Remove { file: FileName::Index { group, first_op } });
        }
        ops
    }
}

impl Log {
    /// Whether records are being taken back. Meanwhile nothing may be appended.
    pub fn is_rewinding(&self) -> bool {
        self.rewind.is_some()
    }

    /// Cuts every record behind `end` off; `removed` are their headers, in op order.
    ///
    /// # Panics
    /// When `removed` is not the end of the log, or a snapshot covers it: mistakes of ours.
    pub fn truncate(&mut self, end: LogEnd, removed: &[EntryHeader]) {
        assert!(self.rewind.is_none() && !removed.is_empty());
        assert_eq!(removed.last().map(|header| header.op), Some(self.head), "the tail is cut");
        assert_eq!(removed[0].op, end.op.next());
        assert!(self.snapshot_op <= removed[0].op.0, "what a snapshot covers is committed");
        let mut remove = Vec::new();
        let mut left = removed;
        while let Some(last) = left.last() {
            let from = left.partition_point(|header| header.segment < last.segment);
            let segment = self.segments.back_mut().expect("the records lie in segments");
            assert_eq!(segment.sums.first_op, last.segment);
            if from == 0 && segment.sums.first_op <= end.op.0 {
                segment.take_back(&left[from..], self.config.batch_kind, end.timestamp, end.next_offset);
            } else {
                remove.push(segment.sums.first_op);
                self.segments.pop_back();
            }
            left = &left[..from];
        }
        if let Some(last) = self.segments.back_mut().filter(|last| !last.dead) {
            last.sealed = false;
        }
        let (segment, length) =
            self.segments.back().map_or((end.op.0 + 1, 0), |last| (last.sums.first_op, last.sums.length));
        let cut = self.segments.back().filter(|last| !last.dead).map(|_| (segment, length));
        if let Some(last) = self.segments.back_mut() {
            last.allocated = length;
        }
        self.unindexed.retain(|first_op| *first_op < segment);
        let mark = Mark { op: end.op, id: end.id, segment, end: length, next_offset: end.next_offset };
        self.rewind(mark, None, remove, cut);
    }

    /// What recovery found is all there is, although more may have been acknowledged: the evidence is made to say so, and a
    /// torn tail is cut.
    pub fn accept_loss(&mut self) {
        assert!(self.rewind.is_none() && self.writes.is_empty());
        let remove = std::mem::take(&mut self.cut);
        let end = self.written;
        let cut = self.segments.back().filter(|last| !last.dead).map(|last| (last.sums.first_op, last.sums.length));
        if let Some(last) = self.segments.back_mut() {
            last.allocated = last.sums.length;
        }
        self.rewind(end, None, remove, cut);
    }

    /// Replaces the log and every snapshot by a snapshot that a peer sent.
    pub fn replace(&mut self, replacement: Replacement) {
        assert!(self.rewind.is_none());
        let end = replacement.end;
        let mut remove: Vec<u64> = self.segments.iter().map(|segment| segment.sums.first_op).collect();
        remove.append(&mut self.cut);
        self.segments.clear();
        self.unindexed.clear();
        self.snapshot_due = false;
        let mark = Mark { op: end.op, id: end.id, segment: end.op.0 + 1, end: 0, next_offset: end.next_offset };
        self.rewind(mark, Some(replacement), remove, None);
        if let Some(job) = self.snapshot.take()
            && let SnapshotStep::Writing(ticket) = job.step
            && let Some(rewind) = &mut self.rewind
        {
            rewind.outstanding.push(ticket);
        }
    }

    fn rewind(&mut self, end: Mark, replacement: Option<Replacement>, mut remove: Vec<u64>, cut: Option<(u64, u64)>) {
        let mut outstanding = Vec::new();
        let gone = replacement.is_some();
        self.writes.retain(|write| {
            let stays = !gone && write.mark.op <= end.op;
            if !stays && write.in_flight {
                outstanding.push(write.ticket);
            }
            stays
        });
        if let Some(round) = self.sync.take_if(|round| gone || round.target.op > end.op) {
            outstanding.extend(round.outstanding);
        }
        if let Some((ticket, ..)) = self.allocation.take() {
            outstanding.push(ticket);
        }
        if self.allocated_ahead.0 > 0 {
            remove.push(self.allocated_ahead.0);
            self.allocated_ahead = (0, 0);
        }
        // Also a segment whose space was being taken and that does not exist yet.
        remove.push(end.op.0 + 1);
        remove.sort_unstable();
        remove.dedup();
        if let Some((kept, _)) = cut {
            remove.retain(|first_op| *first_op != kept);
        }
        self.head = end.op;
        self.next_offset = end.next_offset;
        self.roll = self.segments.back().is_some_and(|last| last.dead);
        for mark in [&mut self.written, &mut self.synced] {
            if gone || mark.op > end.op {
                *mark = end;
            }
        }
        self.evident = self.evident.min(end.op);
        self.rewind =
            Some(Rewind { end, replacement, outstanding, remove, cut, step: Step::Draining, snapshot_done: false });
    }

    pub(super) fn drive_rewind(&mut self, issue: &mut dyn Issue) {
        let busy = self.frontier_write.is_some() || self.frontier_sync.is_some() || self.retry;
        let Some(rewind) = &mut self.rewind else { return };
        let directory = self.config.directory();
        if !matches!(rewind.step, Step::Draining) || busy || !rewind.outstanding.is_empty() {
            return;
        }
        if let (Some(replacement), false) = (&rewind.replacement, rewind.snapshot_done) {
            let first_op = replacement.end.op.0 + 1;
            let header = SnapshotHeader {
                cluster: self.config.cluster,
                group: self.config.group,
                first_op,
                parent: replacement.end.id,
                timestamp: replacement.end.timestamp,
                generation: replacement.generation,
                voids: Some(self.frontier.sequence),
            };
            let data = encode_snapshot(&header, &replacement.state);
            let file = FileName::Snapshot { group: directory, first_op };
            rewind.step = Step::Snapshot(issue.issue(StorageOp::Replace { file, data }));
            return;
        }
        // The frontier says what must be there, so what it says is there first.
        if !self.writes.is_empty() || self.synced.op != rewind.end.op {
            return;
        }
        let end = rewind.end;
        let ticket = self.write_frontier(end, issue);
        if let Some(rewind) = &mut self.rewind {
            rewind.step = Step::Frontier(ticket);
        }
    }

    /// A completion that belongs to what is being taken back; `None` when it does not.
    pub(super) fn rewind_completion(
        &mut self,
        ticket: StorageTicket,
        result: &Result<bytes::Bytes, StorageError>,
    ) -> Option<Result<(), Fatal>> {
        let group = self.config.group;
        let rewind = self.rewind.as_mut()?;
        let fatal = |error: &StorageError| Err(Fatal { group, error: error.clone() });
        if let Some(at) = rewind.outstanding.iter().position(|other| *other == ticket) {
            rewind.outstanding.swap_remove(at);
            return Some(match result {
                Err(error) if error.kind != StorageErrorKind::NoSpace => fatal(error),
                _ => Ok(()),
            });
        }
        match &mut rewind.step {
            Step::Snapshot(step) if *step == ticket => {
                rewind.step = Step::Draining;
                match result {
                    Ok(_) => {
                        rewind.snapshot_done = true;
                        self.snapshot_op = rewind.end.op.0 + 1;
                    }
                    Err(error) if error.kind == StorageErrorKind::NoSpace => self.retry = true,
                    Err(error) => return Some(fatal(error)),
                }
                Some(Ok(()))
            }
            Step::Frontier(step) if *step == ticket => {
                match result {
                    Ok(_) => rewind.step = Step::Sync(None),
                    Err(error) if error.kind == StorageErrorKind::NoSpace => {
                        rewind.step = Step::Draining;
                        self.retry = true;
                    }
                    Err(error) => return Some(fatal(error)),
                }
                Some(Ok(()))
            }
            Step::Sync(step) if *step == Some(ticket) => {
                if let Err(error) = result {
                    return Some(fatal(error));
                }
                self.durable_slot = self.frontier_slot;
                self.frontier_written_reservation = self.frontier.reserved_offset;
                self.reserved = self.frontier.reserved_offset;
                rewind.step = Step::Cutting(rewind.cuts(self.config.directory()), None);
                Some(Ok(()))
            }
            Step::Cutting(left, step) if *step == Some(ticket) => {
                *step = None;
                if let Err(error) = result {
                    return Some(fatal(error));
                }
                if left.is_empty() {
                    self.evident = rewind.end.op;
                    self.unsynced_since_ns = None;
                    self.rewind = None;
                }
                Some(Ok(()))
            }
            _ => None,
        }
    }

    /// Issues the steps that follow a completion.
    pub(super) fn drive_rewind_steps(&mut self, issue: &mut dyn Issue) {
        let file = FileName::Frontier { group: self.config.directory() };
        let Some(rewind) = &mut self.rewind else { return };
        match &mut rewind.step {
            Step::Sync(None) => {
                rewind.step = Step::Sync(Some(issue.issue(StorageOp::Sync { file })));
            }
            Step::Cutting(left, step @ None) => {
                if let Some(op) = left.pop() {
                    *step = Some(issue.issue(op));
                }
            }
            _ => {}
        }
    }
}
