//! One node: a disk that survives, a process that does not.

use crate::profile::Profile;
use std::collections::BTreeMap;
use whippet_log::PreviousEnd;
use whippet_metadata::PartitionSettings;
use whippet_shard::{GroupTable, MetadataGroup, RequestTicket, Shard, ShardConfig, Votes};
use whippet_storage::{
    CompletionOrder, Crash, MemoryHost, RecoverySource, StorageEffect, StorageHost, StorageOp, StorageTicket,
};
use whippet_vsr::{ClusterId, GroupId, Now, ReplicaId, Status};

/// The cluster of every run.
pub(crate) const CLUSTER: ClusterId = ClusterId(0x77_6869_7070_6574);

/// See the module documentation.
pub(crate) struct Node {
    pub(crate) id: u8,
    pub(crate) disk: MemoryHost,
    pub(crate) shard: Option<Shard>,
    run: u64,
    lost: Option<(u64, u64)>,
    /// The machine stopped since every group took part; what the budget of faults counts.
    pub(crate) forgetful: bool,
    pub(crate) wall_offset_us: i64,
    pub(crate) down_until_ns: u64,
    pub(crate) paused_until_ns: u64,
    pub(crate) slow_until_ns: u64,
    pub(crate) full_until_ns: u64,
    /// A disk event is under way.
    pub(crate) disk_event: bool,
    /// The next timer event.
    pub(crate) timer_ns: Option<u64>,
    /// Who waits for which reply, to which of its requests.
    pub(crate) asks: BTreeMap<RequestTicket, (u32, u64)>,
    asked: u64,
}

impl Node {
    pub(crate) fn new(id: u8, seed: u64) -> Node {
        Node {
            id,
            disk: MemoryHost::new(CompletionOrder::Seeded(seed ^ u64::from(id))),
            shard: None,
            run: 0,
            lost: None,
            forgetful: false,
            wall_offset_us: 0,
            down_until_ns: 0,
            paused_until_ns: 0,
            slow_until_ns: 0,
            full_until_ns: 0,
            disk_event: false,
            timer_ns: None,
            asks: BTreeMap::new(),
            asked: 0,
        }
    }

    pub(crate) fn now(&self, now_ns: u64) -> Now {
        let wall = 1_700_000_000_000_000_i64 + (now_ns / 1000) as i64 + self.wall_offset_us;
        Now { monotonic_ns: now_ns, wall_us: wall as u64 }
    }

    pub(crate) fn is_up(&self, now_ns: u64) -> bool {
        self.shard.is_some() && self.paused_until_ns <= now_ns
    }

    pub(crate) fn ticket(&mut self, client: u32, number: u64) -> RequestTicket {
        self.asked += 1;
        let ticket = RequestTicket(self.asked);
        self.asks.insert(ticket, (client, number));
        ticket
    }

    /// Reads the disk back and serves.
    pub(crate) fn start(&mut self, profile: &Profile, now_ns: u64) -> Result<(), String> {
        self.run += 1;
        let previous_end = match self.lost {
            Some((first, _)) => PreviousEnd::MachineStopped { first, last: self.run - 1 },
            None => PreviousEnd::PageCacheKept,
        };
        let config = ShardConfig {
            cluster: CLUSTER,
            replica: ReplicaId(self.id),
            replica_count: profile.nodes,
            shard: 0,
            shard_count: 1,
            run: self.run,
            incarnation: u128::from(self.id) << 64 | u128::from(self.run),
            previous_end,
            sync_interval_ns: 100_000_000,
            disk: u128::from(self.id) + 1,
            pipeline: profile.pipeline,
            metadata_segment_size: 8 * 1024,
            votes_compact_at: 4 * 1024,
            mutant: profile.mutant,
        };
        let now = self.now(now_ns);
        let text = |error: &dyn std::fmt::Display| format!("node {} does not start: {error}", self.id);
        let table = GroupTable::read(&self.disk, CLUSTER).map_err(|error| text(&error))?;
        let votes = Votes::read(&self.disk, config.vote_owner()).map_err(|error| text(&error))?;
        if votes.in_doubt() {
            return Err(text(&"its vote log is in doubt"));
        }
        let metadata = MetadataGroup::recover(&config, &self.disk, &votes, now).map_err(|error| text(&error))?;
        let partitions: Vec<PartitionSettings> = metadata.state().all_partitions().collect();
        let foreseen = metadata.foreseen().to_vec();
        let mut shard = Shard::new(config, Some(metadata), &table, &votes, now);
        shard
            .recover_partitions(partitions.iter(), &foreseen, &table, &votes, &self.disk, now)
            .map_err(|error| text(&error))?;
        self.shard = Some(shard);
        Ok(())
    }

    /// The process ends, or its machine.
    pub(crate) fn stop(&mut self, crash: Crash) {
        self.shard = None;
        self.asks.clear();
        self.disk_event = false;
        self.timer_ns = None;
        self.paused_until_ns = 0;
        self.disk.crash(crash);
        self.disk.set_capacity(u64::MAX);
        if crash == Crash::KeepUnsynced {
            self.sync_everything();
        } else {
            self.lost = Some((self.lost.map_or(self.run, |(first, _)| first), self.run));
            self.forgetful = true;
        }
    }

    /// What opening a data directory does after a kill: nothing of the process before stays unsynced.
    fn sync_everything(&mut self) {
        let mut files = self.disk.node_files().unwrap_or_default();
        for group in self.disk.groups().unwrap_or_default() {
            files.extend(self.disk.files(group).unwrap_or_default());
        }
        for (at, (file, _)) in files.into_iter().enumerate() {
            self.disk
                .submit(StorageEffect { ticket: StorageTicket(u64::MAX - at as u64), op: StorageOp::Sync { file } });
        }
        self.disk.flush();
        while self.disk.poll_completion().is_some() {}
    }

    /// Takes note of what recovery has made up for.
    pub(crate) fn look(&mut self) {
        let Some(shard) = &self.shard else { return };
        if self.lost.is_some() && shard.has_recovered() {
            self.lost = None;
        }
        if self.forgetful {
            let normal = |group: GroupId| shard.replica(group).is_some_and(|r| r.status() == Status::Normal);
            self.forgetful = self.lost.is_some() || !shard.groups().all(normal);
        }
    }
}
