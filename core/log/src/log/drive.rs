//! What a log does on its own: syncing, evidence, sealing, snapshots, removal. The order of these is the order of durability.

use super::{Durability, Issue, Log, Mark, SnapshotStep, SyncRound};
use crate::frontier::{self, Frontier};
use whippet_storage::{FileName, StorageOp, StorageTicket};
use whippet_vsr::{Now, OpNumber};

impl Log {
    /// Starts whatever the events since the last call made possible: syncs, evidence, snapshots, sealing, removal.
    pub fn drive(&mut self, now: Now, issue: &mut dyn Issue) {
        self.drive_sync(now, issue);
        self.drive_rewind_steps(issue);
        self.drive_rewind(issue);
        self.drive_frontier(issue);
        self.drive_sealing(issue);
        self.drive_snapshot(issue);
    }

    fn drive_sync(&mut self, now: Now, issue: &mut dyn Issue) {
        if self.sync.is_some() || self.written.op == self.synced.op {
            if self.synced.op == self.head {
                self.unsynced_since_ns = None;
            }
            return;
        }
        let due = self.unsynced_since_ns.is_some_and(|since| now.monotonic_ns >= since + self.config.sync_interval_ns);
        let waited_for =
            self.flushing || self.rewind.is_some() || self.snapshot.is_some() || !self.unindexed.is_empty();
        if self.config.durability == Durability::Replicated && !due && !waited_for {
            return;
        }
        let target = self.written;
        let (from, to) = (self.synced.op.0, target.op.0);
        let directory = self.config.directory();
        let outstanding = self
            .segments
            .iter()
            .filter(|segment| segment.sums.first_op <= to && segment.sums.last_op > from)
            .map(|segment| {
                issue.issue(StorageOp::Sync {
                    file: FileName::Segment { group: directory, first_op: segment.sums.first_op },
                })
            })
            .collect::<Vec<_>>();
        assert!(!outstanding.is_empty(), "written records lie in a segment");
        self.sync = Some(SyncRound { target, outstanding });
        self.unsynced_since_ns = if self.written.op == self.head { None } else { Some(now.monotonic_ns) };
    }

    fn drive_frontier(&mut self, issue: &mut dyn Issue) {
        let file = FileName::Frontier { group: self.config.directory() };
        if self.rewind.is_some() {
            // It writes a frontier of its own.
            return;
        }
        if self.frontier_write.is_none() {
            let held = match self.config.durability {
                Durability::Replicated => self.written,
                Durability::Persisted => self.synced,
            };
            let unreserved =
                self.frontier.run != self.config.run || self.frontier.reserved_offset < self.reservation_wanted;
            if held.op > self.frontier.op || (self.reservation_wanted > 0 && unreserved) {
                self.frontier_write = Some(self.write_frontier(held, issue));
                return;
            }
        }
        let wanted = self.reservation_wanted > 0 && self.reserved < self.frontier_written_reservation;
        if self.frontier_sync.is_none() && wanted {
            let ticket = issue.issue(StorageOp::Sync { file });
            self.frontier_sync = Some((ticket, self.frontier_written_reservation, self.frontier_slot));
        }
    }

    /// Writes evidence of a log that ends with `end`.
    pub(super) fn write_frontier(&mut self, end: Mark, issue: &mut dyn Issue) -> StorageTicket {
        self.frontier = Frontier {
            sequence: self.frontier.sequence + 1,
            op: end.op,
            id: end.id,
            segment: end.segment,
            end: end.end,
            next_offset: end.next_offset,
            reserved_offset: self.frontier.reserved_offset.max(self.reservation_wanted),
            run: self.config.run,
            generation: self.frontier.generation,
        };
        let chunks = vec![self.frontier.encode(self.config.cluster, self.config.group)];
        // While a sync is under way, neither what it makes durable nor what was durable before may be touched.
        let other = self.frontier_sync.map_or(self.frontier_slot, |(_, _, slot)| slot);
        self.frontier_slot = frontier::next_slot(self.durable_slot, other);
        let position = frontier::position(self.frontier_slot);
        issue.issue(StorageOp::Write { file: FileName::Frontier { group: self.config.directory() }, position, chunks })
    }

    fn drive_sealing(&mut self, issue: &mut dyn Issue) {
        let directory = self.config.directory();
        while let Some(first_op) = self.unindexed.front().copied() {
            let Some(segment) = self.segments.iter_mut().find(|segment| segment.sums.first_op == first_op) else {
                self.unindexed.pop_front();
                continue;
            };
            if segment.sums.last_op > self.synced.op.0 {
                break;
            }
            self.unindexed.pop_front();
            let length = segment.sums.length;
            if segment.allocated > length {
                let file = FileName::Segment { group: directory, first_op };
                issue.issue(StorageOp::Truncate { file, length });
                segment.allocated = length;
            }
            let data = segment.index.encode(&segment.sums);
            issue.issue(StorageOp::Replace { file: FileName::Index { group: directory, first_op }, data });
        }
    }

    fn drive_snapshot(&mut self, issue: &mut dyn Issue) {
        if let Some(job) = &mut self.snapshot
            && matches!(job.step, SnapshotStep::WaitingForSync)
            && !self.retry
            && self.synced.op.0 + 1 >= job.first_op
        {
            let file = FileName::Snapshot { group: self.config.directory(), first_op: job.first_op };
            job.step = SnapshotStep::Writing(issue.issue(StorageOp::Replace { file, data: job.bytes.clone() }));
        }
    }

    /// Deletes what the newest durable snapshot made superfluous: `older` snapshots (as recovery or [`Log::snapshot_op`]
    /// before told) and purged segments.
    pub fn remove_superseded(&mut self, older_snapshots: &mut Vec<u64>, issue: &mut dyn Issue) {
        let directory = self.config.directory();
        let snapshot_op = self.snapshot_op;
        let start = self.first_live_op();
        older_snapshots.retain(|first_op| {
            // The snapshot with which the log begins stays: a replica that lags too far starts from it.
            if *first_op >= snapshot_op || *first_op == start {
                return true;
            }
            issue.issue(StorageOp::Remove { file: FileName::Snapshot { group: directory, first_op: *first_op } });
            false
        });
        while let Some(first) = self.segments.front().filter(|first| first.dead && first.dead_by < snapshot_op) {
            let first_op = first.sums.first_op;
            for file in
                [FileName::Segment { group: directory, first_op }, FileName::Index { group: directory, first_op }]
            {
                issue.issue(StorageOp::Remove { file });
            }
            self.segments.pop_front();
        }
    }

    /// Deletes whole segments that hold nothing but entries up to `op`, which a durable snapshot must cover.
    ///
    /// # Panics
    /// When the newest snapshot does not cover `op`.
    pub fn remove_up_to(&mut self, op: OpNumber, issue: &mut dyn Issue) {
        assert!(op.0 < self.snapshot_op, "only what a snapshot covers may go");
        for segment in self.segments.iter_mut().filter(|segment| segment.sealed && segment.sums.last_op <= op.0) {
            segment.dead = true;
            segment.dead_by = op.0;
        }
        self.remove_superseded(&mut Vec::new(), issue);
    }
}
