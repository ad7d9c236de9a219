//! One replica of one group: its state, and the normal case (VRR §4.1).

use crate::entry::{Draft, Entry, EntryHeader, Placement};
use crate::id::{ClusterId, EntryId, GroupId, OpNumber, Quorums, ReplicaId, ViewNumber, primary};
use crate::interface::{
    DurableState, Effect, NotAccepted, PIPELINE_BYTES_MAX, PIPELINE_MAX, REPLICAS_MAX, ReplicaConfig, Status,
};
use crate::message::{Envelope, Ignored, Message, MessageBody, SnapshotInfo, Suffix, Target, Vote, VoteRecord};
use crate::mutant::Mutant;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};

mod catch_up;
mod change;
mod timers;

/// An entry that is held here and not yet applied.
#[derive(Clone, Debug)]
struct InFlight {
    entry: Entry,
    /// Bit r is set when replica r is known to hold the entry in this view.
    holders: u8,
}

/// One replica of one consensus group. Owns no socket, file, task or clock, and knows no message, stream or partition.
///
/// - `handle_*` and `propose`: something happened. They run to completion.
/// - [`Replica::poll_effect`]: what to do now. Drain it after every call of the former.
/// - [`Replica::deadline_ns`]: when to call [`Replica::handle_tick`] although nothing happened.
/// - Same inputs, same outputs, byte for byte.
#[derive(Debug)]
pub struct Replica {
    config: ReplicaConfig,
    quorums: Quorums,
    status: Status,
    /// Invariant: `log_view <= view`.
    view: ViewNumber,
    /// Last view whose whole log was held here; durable before it is raised.
    log_view: ViewNumber,
    /// What the vote log holds for certain; `None` before the first record. Nothing that binds leaves for a later view.
    durable_view: Option<ViewNumber>,
    durable_log_view: Option<ViewNumber>,
    /// What it acknowledged or promised is not known and can't be learned from an answer: it says nothing before it is replaced.
    mute: bool,
    /// The vote log does not say that memory was lost and not made up for.
    durable_sound: bool,
    /// Newest promise that was handed out to be made durable.
    asked: Option<(ViewNumber, ViewNumber, bool)>,
    /// Last op of the log. Invariant: `applied <= commit_max`, `applied <= head`.
    head: OpNumber,
    head_id: EntryId,
    head_timestamp: u64,
    /// Last op handed out by [`Effect::Apply`], with its identity.
    applied: OpNumber,
    applied_id: EntryId,
    applied_timestamp: u64,
    /// Highest op known to be committed somewhere; may be above `head` on a replica that lags.
    commit_max: OpNumber,
    /// Every entry of this log up to here is durable.
    durable: OpNumber,
    /// See [`DurableState::unknown_to`].
    unknown_to: OpNumber,
    /// Entries `applied + 1 ..= head`, in op order.
    in_flight: VecDeque<InFlight>,
    in_flight_bytes: usize,
    /// The log is being cut; nothing is written meanwhile.
    truncating: bool,
    /// A snapshot is being installed; nothing is written meanwhile.
    installing: bool,
    /// Head of the log with which the present view began. A primary serves once it is applied.
    view_head: OpNumber,
    change: change::Change,
    catch_up: catch_up::CatchUp,
    timers: timers::Timers,
    /// What each replica reported to have applied in this view; of the primary's interest.
    applied_by: [OpNumber; REPLICAS_MAX],
    /// Bit r: replica r does not answer; the group may rest without it.
    away: u8,
    effects: VecDeque<Effect>,
}

impl Replica {
    /// A replica that continues from what its disk says.
    ///
    /// A group of one moves to a new view at once, so that no op is ever proposed twice in one view. In a group of several a
    /// replica that never promised anything starts in view 0; one that did asks its peers, and never leads the view it wakes
    /// in; one that lost memory is [`Status::Recovering`].
    ///
    /// # Panics
    /// When the configuration names no member, or more replicas than the protocol's bit sets hold.
    pub fn new(config: ReplicaConfig, durable: DurableState, now_ns: u64) -> Replica {
        assert!((1..=REPLICAS_MAX).contains(&usize::from(config.replica_count)), "a group has 1 to 7 replicas");
        assert!(config.replica.0 < config.replica_count, "this replica is a member");
        assert!((1..=PIPELINE_MAX).contains(&config.pipeline));
        let DurableState {
            applied,
            applied_id,
            applied_timestamp,
            tail,
            view,
            vote,
            unknown_to,
            memory_lost,
            votes_lost,
        } = durable;
        let solo = config.replica_count == 1;
        let empty = applied == OpNumber::ZERO && tail.is_empty();
        let vote = vote.filter(|_| !config.mutant.is(Mutant::ForgetPromises));
        // Without a promise nothing that binds was ever sent, whatever the log holds and the machine forgot.
        let fresh = !solo && vote.is_none() && !votes_lost;
        let mut replica = Replica {
            quorums: Quorums::of(config.replica_count),
            status: Status::Normal,
            view: ViewNumber(0),
            log_view: ViewNumber(0),
            durable_view: None,
            durable_log_view: None,
            mute: false,
            durable_sound: true,
            asked: None,
            head: applied,
            head_id: applied_id,
            head_timestamp: applied_timestamp,
            applied,
            applied_id,
            applied_timestamp,
            commit_max: applied,
            durable: applied,
            unknown_to,
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
            truncating: false,
            installing: false,
            view_head: OpNumber::ZERO,
            change: change::Change::default(),
            catch_up: catch_up::CatchUp::default(),
            timers: timers::Timers::new(now_ns),
            applied_by: [OpNumber::ZERO; REPLICAS_MAX],
            away: 0,
            effects: VecDeque::new(),
            config,
        };
        for entry in tail {
            assert_eq!(entry.op(), replica.head.next(), "the tail continues what was applied");
            replica.hold(entry);
        }
        replica.durable = replica.head;
        if solo {
            assert!(replica.in_flight.is_empty(), "a group of one has committed all that it holds");
            replica.view = if empty && view == ViewNumber(0) { view } else { ViewNumber(view.0 + 1) };
            replica.log_view = replica.view;
            replica.durable_view = Some(replica.view);
            replica.durable_log_view = Some(replica.view);
        } else if fresh {
            replica.persist(ViewNumber(0), ViewNumber(0), true);
        } else {
            replica.wake(vote, memory_lost, votes_lost);
        }
        replica
    }

    /// The group.
    pub fn group(&self) -> GroupId {
        self.config.group
    }

    /// The cluster.
    pub fn cluster(&self) -> ClusterId {
        self.config.cluster
    }

    /// Whether the group has no other replica.
    pub fn is_alone(&self) -> bool {
        self.config.replica_count == 1
    }

    /// Where the replica is in the protocol.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The present view.
    pub fn view(&self) -> ViewNumber {
        self.view
    }

    /// Last view whose log this replica holds.
    pub fn log_view(&self) -> ViewNumber {
        self.log_view
    }

    /// Last op of the log.
    pub fn head(&self) -> OpNumber {
        self.head
    }

    /// Identity of the head.
    pub fn head_id(&self) -> EntryId {
        self.head_id
    }

    /// Timestamp of the head: a new entry must have a greater one.
    pub fn head_timestamp(&self) -> u64 {
        self.head_timestamp
    }

    /// Last op that was handed out for execution.
    pub fn applied(&self) -> OpNumber {
        self.applied
    }

    /// Identity of the last op that was handed out for execution.
    pub fn applied_id(&self) -> EntryId {
        self.applied_id
    }

    /// Highest op known to be committed.
    pub fn commit_max(&self) -> OpNumber {
        self.commit_max
    }

    /// Last op that is as durable here as the group promises.
    pub fn durable(&self) -> OpNumber {
        self.durable
    }

    /// Entries that are held and not applied, in op order.
    pub fn uncommitted(&self) -> impl Iterator<Item = &Entry> {
        self.in_flight.iter().map(|held| &held.entry)
    }

    /// Whether this replica orders requests in its view.
    pub fn is_primary(&self) -> bool {
        self.status == Status::Normal && self.primary() == self.config.replica
    }

    /// The primary of the present view, begun or not.
    pub fn primary(&self) -> ReplicaId {
        primary(self.config.group, self.view, self.config.replica_count)
    }

    /// Whether everything that was proposed is committed and applied.
    pub fn is_quiet(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Whether this replica has nothing to do until something happens: no timer of it runs.
    pub fn is_asleep(&self) -> bool {
        self.timers.deadline_ns.is_none()
    }

    /// Whether [`Replica::propose`] would take an entry of `bytes` bytes now.
    ///
    /// # Errors
    /// As [`Replica::propose`].
    pub fn admits(&self, bytes: usize) -> Result<(), NotAccepted> {
        if self.status != Status::Normal || self.durable_log_view != Some(self.view) {
            return Err(NotAccepted::NotNormal);
        }
        if self.primary() != self.config.replica {
            return Err(NotAccepted::NotPrimary { primary: self.primary(), view: self.view });
        }
        // A retry of what a former primary committed must find it done, so what was inherited comes first.
        if self.applied < self.view_head && !self.config.mutant.is(Mutant::ServeBeforeSuffix) {
            return Err(NotAccepted::NotNormal);
        }
        let in_flight = self.in_flight.len();
        if in_flight >= self.config.pipeline || (in_flight > 0 && self.in_flight_bytes + bytes > PIPELINE_BYTES_MAX) {
            return Err(NotAccepted::PipelineFull { in_flight });
        }
        Ok(())
    }

    /// VRR §4.1 step 3: gives the draft the next op, writes it here and sends it to the backups.
    ///
    /// # Errors
    /// [`NotAccepted`]: the draft has no op and is in no log.
    ///
    /// # Panics
    /// When the draft's timestamp does not exceed the head's: a mistake of ours.
    pub fn propose(&mut self, draft: Draft) -> Result<OpNumber, NotAccepted> {
        self.admits(draft.bytes.len())?;
        assert!(draft.timestamp > self.head_timestamp, "timestamps grow along the log");
        let entry = Entry::seal(
            draft,
            Placement {
                cluster: self.config.cluster,
                group: self.config.group,
                op: self.head.next(),
                view: self.view,
                parent: self.head_id,
                commit: self.applied,
            },
        );
        let op = entry.op();
        if self.config.replica_count > 1 {
            let body = MessageBody::Prepare { entry: entry.clone(), commit: self.applied };
            self.send(Target::Others, body);
        }
        self.append(entry);
        self.wake_timer(timers::RESEND_NS);
        Ok(op)
    }

    /// Everything up to `op` is durable here, as the group's durability defines it. Spurious and repeated calls do no harm.
    ///
    /// # Panics
    /// When `op` is beyond the log: a mistake of ours.
    pub fn handle_durable(&mut self, op: OpNumber) {
        assert!(op <= self.head || self.installing, "durable op {op} beyond the head {}", self.head);
        if op <= self.durable || self.truncating || self.installing {
            return;
        }
        self.durable = op;
        match self.status {
            Status::Normal if self.is_primary() => self.count(self.config.replica, op),
            Status::Normal => {
                self.apply_committed();
                self.acknowledge();
            }
            Status::ViewChange | Status::Recovering => {
                self.apply_committed();
                self.try_cast();
                self.advance_adoption();
            }
        }
    }

    /// A peer said something.
    ///
    /// # Errors
    /// [`Ignored`] with the reason when the message changes nothing.
    pub fn handle_message(&mut self, message: Message, now_ns: u64) -> Result<(), Ignored> {
        self.timers.now_ns = self.timers.now_ns.max(now_ns);
        let Envelope { cluster, group, view, from, config_epoch } = message.envelope;
        if cluster != self.config.cluster || group != self.config.group || config_epoch != 0 {
            return Err(Ignored::Foreign);
        }
        if from.0 >= self.config.replica_count || from == self.config.replica {
            return Err(Ignored::Sender);
        }
        if self.mute {
            return Err(Ignored::Status);
        }
        match message.body {
            MessageBody::Prepare { entry, commit } => {
                self.in_this_view(view)?;
                self.on_prepare(from, entry, commit)
            }
            MessageBody::PrepareOk { op, id, applied } => {
                if view >= self.view || !self.config.mutant.is(Mutant::AckInOlderView) {
                    self.in_this_view(view)?;
                }
                self.on_prepare_ok(from, op, id, applied)
            }
            MessageBody::Commit { commit, id, head, head_id } => {
                self.in_this_view(view)?;
                self.on_commit(from, commit, id, head, head_id)
            }
            MessageBody::Suspect { target } => self.on_suspect(from, view, target),
            MessageBody::Vote(vote) => self.on_vote(from, view, vote),
            MessageBody::StartView(start) => self.on_start_view(from, view, start),
            MessageBody::Probe { incarnation } => self.on_probe(from, view, incarnation),
            MessageBody::Fetch { from: first, to, to_id } => self.on_fetch(from, first, to, to_id),
            MessageBody::Entry(entry) => self.on_entry(from, view, entry),
            MessageBody::FetchSnapshot { first_op, position } => self.on_fetch_snapshot(from, first_op, position),
            MessageBody::Snapshot { info, position, chunk } => self.on_snapshot(from, view, info, position, &chunk),
        }
    }

    /// Messages of the normal case count only between replicas that are in the same view, which has begun here.
    fn in_this_view(&mut self, view: ViewNumber) -> Result<(), Ignored> {
        if view < self.view {
            return Err(Ignored::OlderView);
        }
        if view > self.view {
            self.note_newer(view);
            return Err(Ignored::NewerView);
        }
        if self.status != Status::Normal {
            // The view has begun elsewhere: ask for what was missed.
            self.probe();
            return Err(Ignored::Status);
        }
        Ok(())
    }

    /// What to do next; `None` when there is nothing left to do.
    #[must_use]
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// VRR §4.1 step 4. Deviation: the acknowledgement leaves from `handle_durable`, once the entry is as durable as the
    /// group promises; the paper keeps the log in memory.
    fn on_prepare(&mut self, from: ReplicaId, entry: Entry, commit: OpNumber) -> Result<(), Ignored> {
        if from != self.primary() {
            return Err(Ignored::Role);
        }
        let header = entry.header();
        if header.cluster != self.config.cluster || header.group != self.config.group || header.view > self.view {
            return Err(Ignored::Foreign);
        }
        if entry.op() <= self.head {
            // A resend: the acknowledgement may have been lost. Say again what holds.
            let held = self.entry_id(entry.op());
            if held.is_some_and(|id| id != entry.id()) {
                return Err(Ignored::Identity);
            }
            self.learn_commit(commit);
            self.acknowledge();
            return Err(Ignored::Duplicate);
        }
        if entry.op() > self.head.next() {
            if self.config.mutant.is(Mutant::CutAtGap) && !self.in_flight.is_empty() && !self.truncating {
                self.truncate(self.applied);
            }
            self.learn_commit(commit);
            self.want(entry.op(), entry.id());
            return Err(Ignored::Gap);
        }
        if self.truncating || self.installing {
            return Err(Ignored::Status);
        }
        if header.parent != self.head_id || header.timestamp <= self.head_timestamp {
            return Err(Ignored::Chain);
        }
        self.append(entry);
        self.learn_commit(commit);
        Ok(())
    }

    /// VRR §4.1 step 5. An acknowledgement counts only when it is for the entry in this primary's own log.
    fn on_prepare_ok(&mut self, from: ReplicaId, op: OpNumber, id: EntryId, applied: OpNumber) -> Result<(), Ignored> {
        if !self.is_primary() {
            return Err(Ignored::Role);
        }
        if applied > op || op > self.head {
            return Err(Ignored::Malformed);
        }
        let at = usize::from(from.0);
        self.applied_by[at] = self.applied_by[at].max(applied);
        self.timers.heard_ns = self.timers.now_ns;
        if op <= self.applied {
            return Err(Ignored::Duplicate);
        }
        if self.entry_id(op) != Some(id) && !self.config.mutant.is(Mutant::AckByNumber) {
            return Err(Ignored::Identity);
        }
        self.count(from, op);
        Ok(())
    }

    /// VRR §4.1 step 7.
    fn on_commit(
        &mut self,
        from: ReplicaId,
        commit: OpNumber,
        id: EntryId,
        head: OpNumber,
        head_id: EntryId,
    ) -> Result<(), Ignored> {
        if from != self.primary() {
            return Err(Ignored::Role);
        }
        if commit > head {
            return Err(Ignored::Malformed);
        }
        if self.entry_id(commit).is_some_and(|held| held != id) {
            return Err(Ignored::Identity);
        }
        self.learn_commit(commit);
        if head > self.head {
            self.want(head, head_id);
            return Err(Ignored::Gap);
        }
        self.acknowledge();
        Ok(())
    }

    /// Identity of an entry between the last applied one and the head, both included.
    fn entry_id(&self, op: OpNumber) -> Option<EntryId> {
        if op == self.applied {
            return Some(self.applied_id);
        }
        let index = op.0.checked_sub(self.applied.0)?.checked_sub(1)?;
        self.in_flight.get(usize::try_from(index).ok()?).map(|held| held.entry.id())
    }

    /// The ids of everything that is not applied.
    fn suffix(&self) -> Suffix {
        let first = self.in_flight.len().saturating_sub(crate::message::SUFFIX_MAX);
        Suffix {
            floor: OpNumber(self.applied.0 + first as u64),
            ids: self.in_flight.iter().skip(first).map(|held| held.entry.id()).collect(),
        }
    }

    fn hold(&mut self, entry: Entry) {
        assert_eq!(entry.header().parent, self.head_id, "an entry continues the log");
        self.head = entry.op();
        self.head_id = entry.id();
        self.head_timestamp = entry.header().timestamp;
        self.in_flight_bytes += entry.bytes().len();
        self.in_flight.push_back(InFlight { entry, holders: 0 });
    }

    fn append(&mut self, entry: Entry) {
        assert_eq!(entry.op(), self.head.next());
        assert!(!self.truncating && !self.installing);
        self.effects.push_back(Effect::Write(entry.clone()));
        self.hold(entry);
        self.catch_up.reached(self.head);
        self.unknown_to = self.unknown_to.max(self.head);
        if self.config.mutant.is(Mutant::ApplyUncommitted) {
            self.commit_max = self.commit_max.max(self.head);
        }
        if self.config.mutant.is(Mutant::AckBeforeDurable) && self.status == Status::Normal && !self.is_primary() {
            self.durable = self.head;
            self.acknowledge();
        }
    }

    /// Drops every entry behind `to` from the log.
    fn truncate(&mut self, to: OpNumber) {
        assert!(to >= self.applied, "what was applied is committed and stays");
        assert!(to < self.head && !self.truncating && !self.installing);
        let keep = usize::try_from(to.0 - self.applied.0).expect("entries in memory");
        let removed: Vec<EntryHeader> = self.in_flight.drain(keep..).map(|held| *held.entry.header()).collect();
        self.in_flight_bytes -= removed.iter().map(|header| header.length as usize).sum::<usize>();
        let first = removed.first().expect("something is cut");
        (self.head, self.head_id) = (to, first.parent);
        self.head_timestamp = match self.in_flight.back() {
            Some(held) => held.entry.header().timestamp,
            None => self.applied_timestamp,
        };
        self.durable = self.durable.min(to);
        self.unknown_to = to;
        self.truncating = true;
        self.effects.push_back(Effect::Truncate { to, removed });
    }

    /// What [`Effect::Truncate`] asked for is done.
    pub fn handle_truncated(&mut self) {
        assert!(self.truncating);
        self.truncating = false;
        self.try_cast();
        self.advance_adoption();
    }

    /// Replica `from` holds every entry up to `op`.
    fn count(&mut self, from: ReplicaId, op: OpNumber) {
        let me = 1 << self.config.replica.0;
        for held in &mut self.in_flight {
            if held.entry.op() > op {
                break;
            }
            held.holders |= 1 << from.0;
        }
        let alone = self.config.mutant.is(Mutant::CommitWithoutQuorum);
        let quorum = if alone { 1 } else { u32::from(self.quorums.replication) };
        // Its own copy always counts among the quorum: a primary that restarts must find what it answered for.
        let committed = self
            .in_flight
            .iter()
            .take_while(|held| held.holders & me != 0 && held.holders.count_ones() >= quorum)
            .last()
            .map(|held| held.entry.op());
        let Some(commit) = committed else { return };
        if commit > self.commit_max {
            self.timers.progress_ns = self.timers.now_ns;
            self.commit_max = commit;
            if self.config.replica_count > 1 {
                self.wake_timer(timers::COMMIT_NS);
            }
        }
        self.apply_committed();
    }

    fn learn_commit(&mut self, commit: OpNumber) {
        self.commit_max = self.commit_max.max(commit);
        self.apply_committed();
    }

    /// Executes what is committed, durable here, and certainly part of the log that was committed.
    fn apply_committed(&mut self) {
        let certain = match self.status {
            Status::Normal => self.head,
            Status::ViewChange | Status::Recovering => self.catch_up.proven(),
        };
        let until = self.commit_max.min(self.durable).min(certain);
        while let Some(held) = self.in_flight.front() {
            if held.entry.op() > until {
                break;
            }
            let held = self.in_flight.pop_front().expect("looked at it");
            assert_eq!(held.entry.op(), self.applied.next());
            self.in_flight_bytes -= held.entry.bytes().len();
            self.applied = held.entry.op();
            self.applied_id = held.entry.id();
            self.applied_timestamp = held.entry.header().timestamp;
            self.effects.push_back(Effect::Apply(held.entry));
        }
        assert!(self.applied <= self.head);
    }

    /// Tells the primary up to where this backup's log is durable.
    fn acknowledge(&mut self) {
        let op = self.durable;
        let promised = self.durable_log_view == Some(self.view) && self.log_view == self.view;
        if self.status != Status::Normal || !promised || self.is_primary() || self.installing || op == OpNumber::ZERO {
            return;
        }
        if let Some(id) = self.entry_id(op) {
            let to = Target::Replica(self.primary());
            self.send(to, MessageBody::PrepareOk { op, id, applied: self.applied });
        }
    }

    /// Hands a promise out to be made durable. `sound` is false while a replica has not made up for its lost memory.
    fn persist(&mut self, view: ViewNumber, log_view: ViewNumber, sound: bool) {
        assert!(log_view <= view);
        if self.asked >= Some((view, log_view, sound)) {
            return;
        }
        self.asked = Some((view, log_view, sound));
        let vote = self.change.cast();
        self.effects.push_back(Effect::Persist(VoteRecord {
            group: self.config.group,
            view,
            log_view,
            head: vote.map_or(self.head, |vote| vote.head),
            head_id: vote.map_or(self.head_id, |vote| vote.head_id),
            commit: vote.map_or(self.commit_max, |vote| vote.commit),
            unknown_to: vote.map_or(self.unknown_to, |vote| vote.unknown_to),
            floor: vote.map_or(self.applied, |vote| vote.suffix.floor),
            memory_lost: !sound,
        }));
        if self.config.mutant.is(Mutant::VoteBeforeDurable) {
            self.persisted(view, log_view, sound);
        }
    }

    /// The vote log holds this record, or a later one of this group.
    pub fn handle_persisted(&mut self, record: &VoteRecord) {
        if record.group == self.config.group {
            self.persisted(record.view, record.log_view, !record.memory_lost);
        }
    }

    fn persisted(&mut self, view: ViewNumber, log_view: ViewNumber, sound: bool) {
        self.durable_sound = sound;
        self.durable_view = self.durable_view.max(Some(view));
        self.durable_log_view = self.durable_log_view.max(Some(log_view));
        self.speak_vote();
        self.advance_adoption();
        if self.status == Status::Normal {
            self.acknowledge();
            if self.is_primary() {
                self.count(self.config.replica, self.durable);
            }
        }
    }

    /// The one way out for messages. What binds leaves only for a view that is durably promised, and, where it speaks for the
    /// view's log, only once that log is durably held.
    fn send(&mut self, target: Target, body: MessageBody) {
        if self.config.replica_count == 1 {
            return;
        }
        let (promised, held) = (self.durable_view >= Some(self.view), self.durable_log_view >= Some(self.view));
        match &body {
            MessageBody::Vote(_) => assert!(promised, "a vote is durable before it leaves"),
            MessageBody::Prepare { .. }
            | MessageBody::PrepareOk { .. }
            | MessageBody::Commit { .. }
            | MessageBody::StartView(_) => {
                assert!(promised && held, "the view's log is durable before it is spoken for")
            }
            MessageBody::Suspect { .. }
            | MessageBody::Probe { .. }
            | MessageBody::Fetch { .. }
            | MessageBody::Entry(_)
            | MessageBody::FetchSnapshot { .. }
            | MessageBody::Snapshot { .. } => {}
        }
        let envelope = self.envelope(&body);
        self.effects.push_back(Effect::Send(target, Message { envelope, body }));
    }

    fn envelope(&self, body: &MessageBody) -> Envelope {
        // What binds nobody may name the view that is only held in memory; a probe tells the promised one, which its hearers
        // may take for proof that a quorum left the views before.
        let view = match body {
            MessageBody::Probe { .. } | MessageBody::Suspect { .. } => self.durable_view.unwrap_or(ViewNumber(0)),
            _ => self.view,
        };
        Envelope {
            cluster: self.config.cluster,
            group: self.config.group,
            view,
            from: self.config.replica,
            config_epoch: 0,
        }
    }

    /// An entry in answer to [`Effect::Serve`].
    pub fn entry_message(&self, entry: Entry) -> Message {
        let body = MessageBody::Entry(entry);
        Message { envelope: self.envelope(&body), body }
    }

    /// A part of a snapshot, in answer to [`Effect::Serve`] or [`Effect::ServeSnapshot`].
    pub fn snapshot_message(&self, info: SnapshotInfo, position: u64, chunk: Bytes) -> Message {
        let body = MessageBody::Snapshot { info, position, chunk };
        Message { envelope: self.envelope(&body), body }
    }

    /// One line that a person can read and two lines of which can be compared.
    pub fn describe(&self) -> String {
        let role = match self.status {
            Status::Normal if self.is_primary() => "primary",
            Status::Normal => "backup ",
            Status::ViewChange => "change ",
            Status::Recovering => "recover",
        };
        format!(
            "{}/{} {role} view {}/{} head {} commit {} applied {} durable {}",
            self.config.group,
            self.config.replica.0,
            self.view.0,
            self.log_view.0,
            self.head,
            self.commit_max,
            self.applied,
            self.durable
        )
    }
}

/// Votes of a view change, by voter.
type Votes = BTreeMap<ReplicaId, Vote>;

#[cfg(test)]
#[path = "replica_tests.rs"]
mod tests;
