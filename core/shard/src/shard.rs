//! The shard itself: dispatch, timers, the group table.

use crate::effect::{Effect, Event};
use crate::group_table::{self, GroupTable};
use crate::member::Io;
use crate::metadata_group::MetadataGroup;
use crate::notice::{Notice, Severity};
use crate::partition_group::{Answer, Applied, Condition, Context, Listed, PartitionGroup, Parts, Work};
use crate::peers::Peers;
use crate::request::{Refusal, Reply, Request, RequestTicket};
use crate::tickets::{METADATA_SLOT, Owner};
use crate::vote_log::{self, VoteLog, Votes};
use std::collections::{BTreeMap, BTreeSet};

mod cluster;
use whippet_log::{Durability, Log, LogConfig, PreviousEnd, RecoveryError, Verdict, recover};
use whippet_metadata::command::GroupChange;
use whippet_metadata::state::PartitionSettings;
use whippet_partition::record::BATCH;
use whippet_partition::{Control, PartitionState};
use whippet_protocol::ErrorCode;
use whippet_storage::{FileName, GroupDirectory, RecoverySource, StorageCompletion, StorageOp, StorageTicket};
use whippet_vsr::{
    ClusterId, DurableState, EntryId, GroupId, HEADER_SIZE, Mutant, Now, OpNumber, PIPELINE_MAX, Replica,
    ReplicaConfig, ReplicaId, ViewNumber,
};

/// What a shard is told about itself.
#[derive(Clone, Copy, Debug)]
pub struct ShardConfig {
    /// The cluster.
    pub cluster: ClusterId,
    /// This node in the roster.
    pub replica: ReplicaId,
    /// Size of the roster.
    pub replica_count: u8,
    /// Index of this shard.
    pub shard: u32,
    /// Number of shards of this process.
    pub shard_count: u32,
    /// Number of this process start, greater than all before.
    pub run: u64,
    /// 128 random bits: no other start of any process has the same.
    pub incarnation: u128,
    /// How the process before ended.
    pub previous_end: PreviousEnd,
    /// Longest time that a written record of a `replicated` topic stays without fsync, in nanoseconds.
    pub sync_interval_ns: u64,
    /// Uuid of the data directory.
    pub disk: u128,
    /// Entries of a group that may be in flight, at most [`PIPELINE_MAX`].
    pub pipeline: usize,
    /// Size at which a segment of the metadata log is sealed, in bytes; [`crate::METADATA_SEGMENT_SIZE`].
    pub metadata_segment_size: u64,
    /// Bytes at which the vote log is written anew; [`crate::VOTES_COMPACT_AT`].
    pub votes_compact_at: u64,
    /// A deliberate mistake for tests of the tests.
    pub mutant: Mutant,
}

impl ShardConfig {
    /// Whose vote log it is.
    pub fn vote_owner(&self) -> vote_log::Owner {
        vote_log::Owner { cluster: self.cluster, disk: self.disk }
    }

    pub(crate) fn replica_config(&self, group: GroupId) -> ReplicaConfig {
        ReplicaConfig {
            cluster: self.cluster,
            group,
            replica: self.replica,
            replica_count: self.replica_count,
            incarnation: self.incarnation,
            pipeline: self.pipeline.min(PIPELINE_MAX),
            mutant: self.mutant,
        }
    }
}

/// The shard that hosts a group: a hash of its number, so that it does not change with the group's life.
pub fn shard_of(group: GroupId, shard_count: u32) -> u32 {
    if group.number == 0 { 0 } else { ((group.number - 1) % u64::from(shard_count)) as u32 }
}

/// What the disk says.
#[derive(Clone, Copy)]
struct Found<'a> {
    table: &'a GroupTable,
    votes: &'a Votes,
    source: &'a dyn RecoverySource,
}

/// The group table's part that is being written.
#[derive(Debug)]
enum Listing {
    Writing(Vec<GroupId>),
    Syncing(Vec<GroupId>),
}

/// Many groups, their timers and their storage, as one value.
///
/// - [`Shard::handle`]: something happened. It is noted, and groups that it concerns are marked.
/// - [`Shard::settle`]: after a round of events, do all that they made possible. Then drain [`Shard::poll_effect`].
/// - [`Shard::timeout_ns`]: when to call [`Shard::settle`] although nothing happened.
/// - `now` never decreases between calls. Same inputs, same outputs.
#[derive(Debug)]
pub struct Shard {
    config: ShardConfig,
    metadata: Option<MetadataGroup>,
    metadata_touched: bool,
    slots: Vec<Option<PartitionGroup>>,
    free_slots: Vec<u32>,
    by_group: BTreeMap<GroupId, u32>,
    touched: BTreeSet<u32>,
    timers: BTreeSet<(u64, u32)>,
    io: Io,
    votes: VoteLog,
    votes_deadline_ns: Option<u64>,
    peers: Peers,
    /// Backups that nobody covers, by slot ([`METADATA_SLOT`] for the metadata group), and since when.
    uncovered: BTreeMap<u32, u64>,
    /// Groups of which the disk holds data and whose creation is not known to be committed.
    dormant: BTreeMap<GroupId, u32>,
    listing: Option<Listing>,
    /// Where the next entry of this shard's part of the group table goes.
    table_end: u64,
    flushing: bool,
}

impl Shard {
    /// A shard that hosts no partition yet. Shard 0 hosts the metadata group.
    ///
    /// # Panics
    /// When another shard than 0 is given the metadata group, or shard 0 is not.
    pub fn new(
        config: ShardConfig,
        metadata: Option<MetadataGroup>,
        table: &GroupTable,
        votes: &Votes,
        now: Now,
    ) -> Shard {
        assert_eq!(metadata.is_some(), config.shard == 0, "shard 0 hosts the metadata group");
        let mut shard = Shard {
            metadata_touched: metadata.is_some(),
            metadata,
            slots: Vec::new(),
            free_slots: Vec::new(),
            by_group: BTreeMap::new(),
            touched: BTreeSet::new(),
            timers: BTreeSet::new(),
            io: Io::default(),
            votes: VoteLog::new(
                config.vote_owner(),
                config.shard,
                votes,
                |group| shard_of(group, config.shard_count) == config.shard,
                config.votes_compact_at,
            ),
            votes_deadline_ns: None,
            peers: Peers::new(config.replica, config.replica_count, config.incarnation, now.monotonic_ns),
            uncovered: BTreeMap::new(),
            dormant: BTreeMap::new(),
            listing: None,
            table_end: table.part_end(config.shard),
            flushing: false,
            config,
        };
        if let Some(metadata) = &mut shard.metadata {
            metadata.finish_recovery(&mut shard.io);
        }
        shard
    }

    /// Reads the logs of the partitions back that this shard hosts, out of all that the metadata names. Damage to one
    /// partition does not keep the others from being served.
    ///
    /// # Errors
    /// When the operating system does not let us read, or a log holds what this program does not understand.
    pub fn recover_partitions<'a>(
        &mut self,
        partitions: impl Iterator<Item = &'a PartitionSettings>,
        foreseen: &[PartitionSettings],
        table: &GroupTable,
        votes: &Votes,
        source: &dyn RecoverySource,
        now: Now,
    ) -> Result<(), RecoveryError> {
        let found = Found { table, votes, source };
        for settings in partitions {
            let group = GroupId { number: settings.group.number, life: settings.group.life };
            if shard_of(group, self.config.shard_count) == self.config.shard {
                self.recover_partition(settings.clone(), &found, now)?;
            }
        }
        for settings in foreseen {
            let group = GroupId { number: settings.group.number, life: settings.group.life };
            let held = table.holds(group) || votes.get(group).is_some();
            let mine = shard_of(group, self.config.shard_count) == self.config.shard;
            if mine && held && !self.by_group.contains_key(&group) {
                self.recover_partition(settings.clone(), &found, now)?;
                if let Some(slot) = self.by_group.remove(&group) {
                    // It serves nobody and answers no peer before the metadata log says that it exists.
                    self.touched.remove(&slot);
                    self.dormant.insert(group, slot);
                }
            }
        }
        Ok(())
    }

    fn log_config(&self, settings: &PartitionSettings) -> LogConfig {
        LogConfig {
            cluster: self.config.cluster,
            group: GroupId { number: settings.group.number, life: settings.group.life },
            segment_size: settings.segment_size,
            // One log has one rule: what vouches for an offset vouches for every record before it.
            durability: if settings.persisted || settings.offsets_persisted {
                Durability::Persisted
            } else {
                Durability::Replicated
            },
            batch_kind: BATCH,
            run: self.config.run,
            sync_interval_ns: self.config.sync_interval_ns,
            preallocate: settings.preallocate,
            solo: self.config.replica_count == 1,
        }
    }

    fn recover_partition(
        &mut self,
        settings: PartitionSettings,
        found: &Found<'_>,
        now: Now,
    ) -> Result<(), RecoveryError> {
        let Found { table, votes, source } = *found;
        let config = self.log_config(&settings);
        let group = config.group;
        let mut state = PartitionState::empty();
        let recovered = recover(source, config, self.config.previous_end, &mut state)?;
        for remark in &recovered.remarks {
            self.notice(Severity::Warning, group, remark.to_string());
        }
        let listed = table.holds(group);
        let (mut torn, mut lost) = (false, None);
        let mut condition = Condition::Fine;
        let mut memory_lost = false;
        match recovered.verdict {
            Verdict::Whole => {}
            Verdict::TornTail { file, position } => {
                self.notice(
                    Severity::Info,
                    group,
                    format!("{file} ends in a torn write that nobody was promised; it is cut at byte {position}"),
                );
                torn = true;
            }
            Verdict::Lost { .. } if self.config.replica_count > 1 => {
                let text = "the machine stopped before everything was fsynced: this replica of a `replicated` partition \
                            takes no part before its peers have told it what it may have lost";
                self.notice(Severity::Warning, group, text);
                memory_lost = true;
            }
            Verdict::Lost { acknowledged, reserved_offset } => {
                let text = format!(
                    "the machine stopped before everything was fsynced: messages of this `replicated` partition behind op {} (up to op {acknowledged} was acknowledged) may be lost. \
                     Numbering goes on at offset {reserved_offset}, so no offset is given out twice",
                    recovered.log.head()
                );
                self.notice(Severity::Error, group, text);
                (torn, lost) = (true, Some(reserved_offset));
            }
            Verdict::Damaged(damage) => condition = Condition::Damaged(damage),
        }
        if listed && recovered.log.head() == OpNumber::ZERO && source.files(config_directory(group))?.is_empty() {
            condition = Condition::Missing;
        }
        match &condition {
            Condition::Fine => {}
            Condition::Damaged(damage) => {
                let text = format!(
                    "{damage}. What lies before it is served, writes are refused. Restore the file from a backup, or delete the topic"
                );
                self.notice(Severity::Error, group, text);
            }
            Condition::Missing => {
                let text = format!(
                    "the directory {} is gone although it held data. The partition is not served; restore it from a backup, or delete the topic",
                    config_directory(group)
                );
                self.notice(Severity::Error, group, text);
            }
        }
        let durable = DurableState {
            // Alone, every start of the process is a view of its own.
            view: ViewNumber(recovered.view.max(u32::try_from(self.config.run - 1).unwrap_or(u32::MAX - 1))),
            applied: recovered.applied,
            applied_id: recovered.applied_id,
            applied_timestamp: recovered.applied_timestamp,
            tail: recovered.tail,
            vote: votes.get(group),
            memory_lost,
            // A replica whose records are damaged or gone does not know what it acknowledged.
            votes_lost: votes.in_doubt() || condition != Condition::Fine,
            ..DurableState::empty()
        };
        let slot = self.open_slot();
        let intent = settings.purged_by;
        let mut partition = PartitionGroup::new(Parts {
            replica: Replica::new(self.config.replica_config(group), durable, now.monotonic_ns),
            settings,
            slot,
            log: recovered.log,
            state,
            applied: Applied {
                op: recovered.applied,
                id: recovered.applied_id,
                timestamp: recovered.applied_timestamp,
            },
            condition,
            listed: if listed { Listed::Yes } else { Listed::No },
            snapshots: recovered.snapshots,
        });
        let mut cx = Context { io: &mut self.io, now };
        partition.finish_recovery(torn, lost, memory_lost, &mut cx);
        partition.offer_base(source)?;
        if intent > 0 && self.config.replica_count == 1 {
            // The metadata log emptied the topic; if the partition's own log does not know yet, it learns it now.
            partition.push(
                Work::Control { identity: Default::default(), control: Control::Purge { intent } },
                Answer::Nobody,
                &mut cx,
            );
        }
        self.by_group.insert(group, slot);
        self.slots[slot as usize] = Some(partition);
        self.touched.insert(slot);
        Ok(())
    }

    fn open_slot(&mut self) -> u32 {
        self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        })
    }

    fn notice(&mut self, severity: Severity, group: GroupId, text: impl Into<String>) {
        self.io.effects.push_back(Effect::Notice(Notice::new(severity, group, text)));
    }

    /// Something happened. Call [`Shard::settle`] after a round of events.
    pub fn handle(&mut self, event: Event, now: Now) {
        match event {
            Event::Request { ticket, request } => self.handle_request(ticket, request, now),
            Event::Storage(completion) => self.handle_completion(completion, now),
            Event::Peer { from, frame } => self.handle_frame(from, frame, now),
            Event::Groups(changes) => {
                for change in changes {
                    self.handle_change(change, now);
                }
            }
            Event::Flush => {
                self.flushing = true;
                if let Some(metadata) = &mut self.metadata {
                    metadata.flush();
                    self.metadata_touched = true;
                }
                for (slot, group) in self.slots.iter_mut().enumerate() {
                    if let Some(group) = group {
                        group.flush();
                        self.touched.insert(slot as u32);
                    }
                }
            }
        }
    }

    fn handle_request(&mut self, ticket: RequestTicket, request: Request, now: Now) {
        match request {
            Request::Metadata(envelope) => match &mut self.metadata {
                Some(metadata) => {
                    metadata.push(ticket, envelope, &mut self.io.effects);
                    self.metadata_touched = true;
                }
                None => self.refuse(
                    ticket,
                    Refusal::because(ErrorCode::TransientNotAccepted, "this shard does not host the metadata"),
                ),
            },
            Request::Stats { groups } => {
                let stats = groups.iter().map(|group| self.partition(*group).map(PartitionGroup::stats)).collect();
                self.io.effects.push_back(Effect::Reply { ticket, reply: Reply::Stats(stats) });
            }
            Request::GetOffset { group, consumer } => {
                let reply = match self.partition(group) {
                    Some(partition) => Reply::Offset(partition.offset(consumer)),
                    None => gone(),
                };
                self.io.effects.push_back(Effect::Reply { ticket, reply });
            }
            Request::Poll { group, consumer, strategy, count, max_bytes, auto_commit, identity } => {
                self.with_partition(group, ticket, now, |partition, cx| {
                    partition.start_poll(ticket, consumer, strategy, count, max_bytes, auto_commit, identity, cx);
                });
            }
            Request::Send { group, identity, buffer, batch, count } => {
                assert!(
                    batch.start >= HEADER_SIZE && batch.end == buffer.len() && count > 0,
                    "the gateway leaves room for the record header"
                );
                self.push(group, ticket, now, Work::Send { identity, buffer, batch, count }, Answer::Sent(ticket));
            }
            Request::StoreOffset { group, consumer, offset, identity } => {
                let control = Control::StoreOffset { consumer, offset, forward_only: false };
                self.push(group, ticket, now, Work::Control { identity, control }, Answer::Done(ticket));
            }
            Request::DeleteOffset { group, consumer, identity } => {
                let control = Control::DeleteOffset { consumer };
                self.push(group, ticket, now, Work::Control { identity, control }, Answer::Done(ticket));
            }
            Request::Purge { group, intent } => {
                let control = Control::Purge { intent };
                self.push(
                    group,
                    ticket,
                    now,
                    Work::Control { identity: Default::default(), control },
                    Answer::Done(ticket),
                );
            }
        }
    }

    fn push(&mut self, group: GroupId, ticket: RequestTicket, now: Now, work: Work, answer: Answer) {
        self.with_partition(group, ticket, now, |partition, cx| partition.push(work, answer, cx));
    }

    fn partition(&self, group: GroupId) -> Option<&PartitionGroup> {
        let slot = *self.by_group.get(&group)?;
        self.slots[slot as usize].as_ref()
    }

    fn with_partition(
        &mut self,
        group: GroupId,
        ticket: RequestTicket,
        now: Now,
        act: impl FnOnce(&mut PartitionGroup, &mut Context<'_>),
    ) {
        let Some(slot) = self.by_group.get(&group).copied() else {
            self.io.effects.push_back(Effect::Reply { ticket, reply: gone() });
            return;
        };
        let partition = self.slots[slot as usize].as_mut().expect("a known group has a slot");
        let mut cx = Context { io: &mut self.io, now };
        act(partition, &mut cx);
        self.touched.insert(slot);
    }

    fn refuse(&mut self, ticket: RequestTicket, refusal: Refusal) {
        self.io.effects.push_back(Effect::Reply { ticket, reply: Reply::Refused(refusal) });
    }

    fn handle_completion(&mut self, completion: StorageCompletion, now: Now) {
        let outcome = match self.io.tickets.complete(completion.ticket) {
            Owner::Metadata => {
                self.metadata_touched = true;
                self.metadata.as_mut().map_or(Ok(()), |metadata| metadata.handle_completion(completion))
            }
            Owner::Partition { slot, group } => {
                match self.slots[slot as usize].as_mut().filter(|held| held.id() == group) {
                    Some(partition) => {
                        self.touched.insert(slot);
                        partition.handle_completion(completion)
                    }
                    None => Ok(()),
                }
            }
            Owner::Poll { slot, group, poll } => {
                if let Some(partition) = self.slots[slot as usize].as_mut().filter(|held| held.id() == group) {
                    let mut cx = Context { io: &mut self.io, now };
                    partition.handle_read(poll, completion, &mut cx);
                    self.touched.insert(slot);
                }
                Ok(())
            }
            Owner::Serve { slot: METADATA_SLOT, serving, .. } => {
                if let Some(metadata) = &mut self.metadata {
                    metadata.handle_served(serving, completion, &mut self.io);
                }
                Ok(())
            }
            Owner::Serve { slot, group, serving } => {
                if let Some(partition) = self.slots[slot as usize].as_mut().filter(|held| held.id() == group) {
                    partition.handle_served(serving, completion, &mut Context { io: &mut self.io, now });
                }
                Ok(())
            }
            Owner::Votes => {
                if let Err(error) = self.votes.handle_completion(completion, &mut self.io.issuer(Owner::Votes)) {
                    self.io.effects.push_back(Effect::Fatal(format!(
                        "{error}. What this node promised is not known for certain any more, so this process ends"
                    )));
                }
                Ok(())
            }
            Owner::GroupTable => {
                self.handle_listing(completion);
                Ok(())
            }
            Owner::Nobody => Ok(()),
        };
        if let Err(fatal) = outcome {
            self.io.effects.push_back(Effect::Fatal(format!(
                "{fatal}. What the disk holds is not known any more, so this process ends; the next start reads back what is there"
            )));
        }
    }

    fn handle_change(&mut self, change: GroupChange, now: Now) {
        match change {
            GroupChange::Created(settings) => {
                let group = GroupId { number: settings.group.number, life: settings.group.life };
                if shard_of(group, self.config.shard_count) != self.config.shard || self.by_group.contains_key(&group) {
                    return;
                }
                if let Some(slot) = self.dormant.remove(&group) {
                    self.by_group.insert(group, slot);
                    self.touched.insert(slot);
                    return;
                }
                let slot = self.open_slot();
                let durable = DurableState { vote: self.votes.get(group), ..DurableState::empty() };
                self.touched.insert(slot);
                let partition = PartitionGroup::new(Parts {
                    replica: Replica::new(self.config.replica_config(group), durable, now.monotonic_ns),
                    slot,
                    log: Log::empty(self.log_config(&settings)),
                    settings,
                    state: PartitionState::empty(),
                    applied: Applied { op: OpNumber::ZERO, id: EntryId::NONE, timestamp: 0 },
                    condition: Condition::Fine,
                    listed: Listed::No,
                    snapshots: Vec::new(),
                });
                self.by_group.insert(group, slot);
                self.slots[slot as usize] = Some(partition);
            }
            GroupChange::Deleted(group) => {
                let group = GroupId { number: group.number, life: group.life };
                let Some(slot) = self.by_group.remove(&group) else { return };
                let Some(mut partition) = self.slots[slot as usize].take() else { return };
                if let Some(deadline) = partition.deadline_ns {
                    self.timers.remove(&(deadline, slot));
                }
                let mut cx = Context { io: &mut self.io, now };
                partition.close(&mut cx);
                self.votes.forget(group);
                self.peers.lead(group, None);
                self.uncovered.remove(&slot);
                self.touched.remove(&slot);
                self.free_slots.push(slot);
                self.issue(StorageOp::RemoveGroup { group: config_directory(group) }, Owner::Nobody);
            }
            GroupChange::Purged { group, intent } => {
                let group = GroupId { number: group.number, life: group.life };
                let Some(slot) = self.by_group.get(&group).copied() else { return };
                let Some(partition) = self.slots[slot as usize].as_mut() else { return };
                let mut cx = Context { io: &mut self.io, now };
                partition.purge(intent, &mut cx);
                self.touched.insert(slot);
            }
        }
    }

    fn issue(&mut self, op: StorageOp, owner: Owner) -> StorageTicket {
        whippet_log::Issue::issue(&mut self.io.issuer(owner), op)
    }

    /// Does all that the events since the last call made possible, and what time has made due.
    pub fn settle(&mut self, now: Now) {
        while let Some((deadline, slot)) =
            self.timers.first().copied().filter(|(deadline, _)| *deadline <= now.monotonic_ns)
        {
            self.timers.remove(&(deadline, slot));
            self.touched.insert(slot);
        }
        self.look_at_peers(now);
        self.take_promises();
        if let Some(metadata) = &mut self.metadata {
            let due = metadata.deadline_ns.is_some_and(|deadline| deadline <= now.monotonic_ns);
            if std::mem::take(&mut self.metadata_touched) || due {
                metadata.run(&mut self.io, now);
                self.check_cover(METADATA_SLOT, now);
            }
        }
        while let Some(slot) = self.touched.pop_first() {
            let Some(partition) = self.slots[slot as usize].as_mut() else { continue };
            if self.dormant.values().any(|dormant| *dormant == slot) {
                continue;
            }
            if self.flushing {
                partition.flush();
            }
            let before = partition.deadline_ns;
            partition.run(&mut Context { io: &mut self.io, now });
            if let Some(deadline) = before.filter(|_| partition.deadline_ns != before) {
                self.timers.remove(&(deadline, slot));
            }
            if let Some(deadline) = partition.deadline_ns {
                self.timers.insert((deadline, slot));
            }
            self.check_cover(slot, now);
        }
        self.make_promises(now);
        self.send_messages();
        self.start_listing();
    }

    /// Enters groups in the group table: one write and one sync for all that came together.
    fn start_listing(&mut self) {
        if self.listing.is_some() || self.io.to_list.is_empty() {
            return;
        }
        let groups = std::mem::take(&mut self.io.to_list);
        let cluster = self.config.cluster;
        let chunks = groups.iter().map(|group| group_table::encode(*group, cluster)).collect();
        let (file, position) = (FileName::GroupTable { part: self.config.shard }, self.table_end);
        self.issue(StorageOp::Write { file, position, chunks }, Owner::GroupTable);
        self.listing = Some(Listing::Writing(groups));
    }

    fn handle_listing(&mut self, completion: StorageCompletion) {
        let Some(listing) = self.listing.take() else { return };
        let file = FileName::GroupTable { part: self.config.shard };
        let (Listing::Writing(groups) | Listing::Syncing(groups)) = &listing;
        if let Err(error) = completion.result {
            if error.kind == whippet_storage::StorageErrorKind::NoSpace {
                // The groups ask again with their next write.
                for group in groups {
                    if let Some(slot) = self.by_group.get(group).copied()
                        && let Some(partition) = self.slots[slot as usize].as_mut()
                    {
                        partition.handle_listing_failed();
                        self.touched.insert(slot);
                    }
                }
                return;
            }
            self.io.effects.push_back(Effect::Fatal(format!(
                "{error}. The table of groups can't be written, so this process ends"
            )));
            return;
        }
        match listing {
            Listing::Writing(groups) => {
                self.issue(StorageOp::Sync { file }, Owner::GroupTable);
                self.listing = Some(Listing::Syncing(groups));
            }
            Listing::Syncing(groups) => {
                self.table_end += (groups.len() * group_table::ENTRY) as u64;
                for group in groups {
                    if let Some(slot) = self.by_group.get(&group).copied()
                        && let Some(partition) = self.slots[slot as usize].as_mut()
                    {
                        partition.handle_listed();
                        self.touched.insert(slot);
                    }
                }
            }
        }
    }

    /// What to do next; `None` when there is nothing left to do.
    #[must_use]
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.io.effects.pop_front()
    }

    /// When to call [`Shard::settle`] although nothing happened, in monotonic nanoseconds.
    pub fn timeout_ns(&self) -> Option<u64> {
        let partitions = self.timers.first().map(|(deadline, _)| *deadline);
        let metadata = self.metadata.as_ref().and_then(|metadata| metadata.deadline_ns);
        [partitions, metadata, self.votes_deadline_ns, self.peers_timeout_ns()].into_iter().flatten().min()
    }

    /// Whether [`Shard::settle`] has something to do now.
    pub fn needs_settling(&self) -> bool {
        !self.touched.is_empty()
            || self.metadata_touched
            || !self.io.outbox.is_empty()
            || !self.io.votes.is_empty()
            || self.votes.has_durable()
            || (!self.io.to_list.is_empty() && self.listing.is_none())
    }

    /// Whether everything that was asked is answered and everything that was written is synced.
    pub fn is_idle(&self) -> bool {
        self.io.tickets.outstanding() == 0
            && !self.needs_settling()
            && self.metadata.as_ref().is_none_or(MetadataGroup::is_idle)
            && self.votes.is_idle()
            && self.slots.iter().flatten().all(PartitionGroup::is_idle)
    }

    /// Whether everything that recovery found lost has been made up for on disk, so that later starts need not be told.
    pub fn has_recovered(&self) -> bool {
        !self.needs_settling() && self.votes.is_idle() && !self.slots.iter().flatten().any(PartitionGroup::owes)
    }

    /// Committed op of the metadata log, on the shard that hosts it.
    pub fn metadata_commit(&self) -> Option<u64> {
        self.metadata.as_ref().map(MetadataGroup::commit)
    }

    /// Deletes directories of groups that the metadata log created and deleted: the crash came before the files were gone.
    /// `live` names all groups that exist, `next_number` the next number that the metadata log will give out. Directories
    /// that it never gave out are left alone and reported.
    pub fn remove_leftovers(&mut self, directories: &[GroupDirectory], live: &BTreeSet<GroupId>, next_number: u64) {
        for directory in directories {
            let group = GroupId { number: directory.number, life: directory.life };
            if group.number == 0
                || live.contains(&group)
                || shard_of(group, self.config.shard_count) != self.config.shard
            {
                continue;
            }
            if group.number < next_number {
                self.issue(StorageOp::RemoveGroup { group: *directory }, Owner::Nobody);
            } else {
                self.notice(
                    Severity::Warning,
                    group,
                    format!("{directory} belongs to no partition that the metadata knows; it is left alone"),
                );
            }
        }
    }
}

fn gone() -> Reply {
    Reply::Refused(Refusal::because(ErrorCode::PartitionNotFound, "the partition does not exist"))
}

fn config_directory(group: GroupId) -> GroupDirectory {
    GroupDirectory { number: group.number, life: group.life }
}
