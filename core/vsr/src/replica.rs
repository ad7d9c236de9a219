//! One replica of one group: the normal case (VRR §4.1).

use crate::entry::{Draft, Entry, Placement};
use crate::id::{ClusterId, EntryId, GroupId, OpNumber, Quorums, ReplicaId, ViewNumber, primary};
use crate::message::{Envelope, Ignored, Message, MessageBody, Target};
use std::collections::VecDeque;

/// Entries that a primary may have prepared and not yet committed, at most.
pub const PIPELINE_MAX: usize = 1024;
/// Bytes of those entries, at most. One entry is always let in.
pub const PIPELINE_BYTES_MAX: usize = 256 * 1024 * 1024;

/// What a replica is told about itself and its group; the same for the whole life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaConfig {
    /// The cluster.
    pub cluster: ClusterId,
    /// The group, in its present life.
    pub group: GroupId,
    /// Index of this replica in the roster.
    pub replica: ReplicaId,
    /// Size of the roster.
    pub replica_count: u8,
}

/// What a replica was when its process ended, as recovery of its log and vote record tells.
#[derive(Clone, Debug)]
pub struct DurableState {
    /// Highest view promised.
    pub view: ViewNumber,
    /// Last view whose log this replica holds.
    pub log_view: ViewNumber,
    /// Last op of the log.
    pub head: OpNumber,
    /// Its identity.
    pub head_id: EntryId,
    /// Its timestamp; new entries get greater ones.
    pub head_timestamp: u64,
    /// Highest op known to be committed. A group of one has committed all that it holds.
    pub commit: OpNumber,
}

impl DurableState {
    /// A group that never held anything.
    pub fn empty() -> DurableState {
        DurableState {
            view: ViewNumber(0),
            log_view: ViewNumber(0),
            head: OpNumber::ZERO,
            head_id: EntryId::NONE,
            head_timestamp: 0,
            commit: OpNumber::ZERO,
        }
    }
}

/// Where a replica is in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Takes part.
    Normal,
    /// Holds a log, but may not speak for it yet (restart in a group of several).
    Recovering,
}

/// What a replica wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Put the entry at the end of the log, then report with [`Replica::handle_durable`] once the group's durability holds.
    /// Entries come in op order.
    Write(Entry),
    /// Transmit whenever you like: what the message vouches for already holds here.
    Send(Target, Message),
    /// The entry is committed: execute it. Entries come in op order, each once.
    Apply(Entry),
}

/// Why a request was not given an op. Nothing of it is in any log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAccepted {
    /// Another replica is the primary of this view.
    #[error("replica {} is the primary of view {}", primary.0, view.0)]
    NotPrimary {
        /// Who is.
        primary: ReplicaId,
        /// Of which view.
        view: ViewNumber,
    },
    /// As much as is allowed is prepared and waits for its quorum.
    #[error("{in_flight} entries wait for their quorum")]
    PipelineFull {
        /// How many.
        in_flight: usize,
    },
    /// The replica does not take part yet.
    #[error("the replica has not recovered yet")]
    NotNormal,
}

/// An entry that is held here and not yet committed.
#[derive(Clone, Debug)]
struct InFlight {
    entry: Entry,
    /// Bit r is set when replica r is known to hold the entry.
    holders: u8,
}

/// One replica of one consensus group. Owns no socket, file, task or clock, and knows no message, stream or partition.
///
/// - `handle_*` and `propose`: something happened. They run to completion.
/// - [`Replica::poll_effect`]: what to do now. Drain it after every call of the former.
/// - Same inputs, same outputs, byte for byte.
#[derive(Debug)]
pub struct Replica {
    config: ReplicaConfig,
    quorums: Quorums,
    status: Status,
    view: ViewNumber,
    /// Invariant: `log_view <= view`.
    log_view: ViewNumber,
    /// Last op of the log. Invariant: `commit_min <= commit_max`, `commit_min <= head`.
    head: OpNumber,
    head_id: EntryId,
    head_timestamp: u64,
    /// Last op handed out by [`Effect::Apply`].
    commit_min: OpNumber,
    /// Highest op known to be committed somewhere; may be above `head` on a backup that lags.
    commit_max: OpNumber,
    /// Every entry of this log and `head_id` below it is durable here up to this op.
    durable: OpNumber,
    /// Entries `commit_min + 1 ..= head`, in op order.
    in_flight: VecDeque<InFlight>,
    in_flight_bytes: usize,
    effects: VecDeque<Effect>,
}

impl Replica {
    /// A replica that continues from what its disk says.
    ///
    /// A group of one moves to a new view at once, so that no op is ever proposed twice in one view. In a group of several
    /// a replica with a log is [`Status::Recovering`] until the cluster protocol lets it take part again; one of an empty
    /// group starts in view 0.
    ///
    /// # Panics
    /// When the configuration names no member, or more replicas than the protocol's bit sets hold (7).
    pub fn new(config: ReplicaConfig, durable: DurableState) -> Replica {
        assert!(config.replica_count >= 1 && config.replica_count <= 7, "a group has 1 to 7 replicas");
        assert!(config.replica.0 < config.replica_count, "this replica is a member");
        assert!(durable.log_view <= durable.view);
        assert!(durable.commit <= durable.head);
        let fresh = durable.head == OpNumber::ZERO && durable.view == ViewNumber(0);
        let solo = config.replica_count == 1;
        let view = if solo && !fresh { ViewNumber(durable.view.0 + 1) } else { durable.view };
        Replica {
            quorums: Quorums::of(config.replica_count),
            status: if solo || fresh { Status::Normal } else { Status::Recovering },
            view,
            log_view: if solo { view } else { durable.log_view },
            head: durable.head,
            head_id: durable.head_id,
            head_timestamp: durable.head_timestamp,
            commit_min: durable.commit,
            commit_max: durable.commit,
            durable: durable.head,
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
            effects: VecDeque::new(),
            config,
        }
    }

    /// The group.
    pub fn group(&self) -> GroupId {
        self.config.group
    }

    /// Where the replica is in the protocol.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The present view.
    pub fn view(&self) -> ViewNumber {
        self.view
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
    pub fn commit_min(&self) -> OpNumber {
        self.commit_min
    }

    /// Highest op known to be committed.
    pub fn commit_max(&self) -> OpNumber {
        self.commit_max
    }

    /// Whether this replica orders requests now.
    pub fn is_primary(&self) -> bool {
        self.status == Status::Normal && self.primary() == self.config.replica
    }

    fn primary(&self) -> ReplicaId {
        primary(self.config.group, self.view, self.config.replica_count)
    }

    /// Whether everything that was proposed is committed and applied.
    pub fn is_quiet(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Whether [`Replica::propose`] would take an entry of `bytes` bytes now.
    ///
    /// # Errors
    /// As [`Replica::propose`].
    pub fn admits(&self, bytes: usize) -> Result<(), NotAccepted> {
        if self.status != Status::Normal {
            return Err(NotAccepted::NotNormal);
        }
        if self.primary() != self.config.replica {
            return Err(NotAccepted::NotPrimary { primary: self.primary(), view: self.view });
        }
        let in_flight = self.in_flight.len();
        if in_flight >= PIPELINE_MAX || (in_flight > 0 && self.in_flight_bytes + bytes > PIPELINE_BYTES_MAX) {
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
                commit: self.commit_min,
            },
        );
        let op = entry.op();
        if self.config.replica_count > 1 {
            let body = MessageBody::Prepare { entry: entry.clone(), commit: self.commit_min };
            self.send(Target::Backups, body);
        }
        self.append(entry);
        Ok(op)
    }

    /// Everything up to `op` is durable here, as the group's durability defines it. Spurious and repeated calls do no harm.
    ///
    /// # Panics
    /// When `op` is beyond the log: a mistake of ours.
    pub fn handle_durable(&mut self, op: OpNumber) {
        assert!(op <= self.head, "durable op {op} beyond the head {}", self.head);
        if op <= self.durable {
            return;
        }
        self.durable = op;
        if self.is_primary() {
            self.count(self.config.replica, op);
        } else if self.status == Status::Normal {
            self.acknowledge();
        }
    }

    /// A peer said something.
    ///
    /// # Errors
    /// [`Ignored`] with the reason when the message changes nothing.
    pub fn handle_message(&mut self, message: Message) -> Result<(), Ignored> {
        let Envelope { cluster, group, view, from, config_epoch } = message.envelope;
        if cluster != self.config.cluster || group != self.config.group || config_epoch != 0 {
            return Err(Ignored::Foreign);
        }
        if from.0 >= self.config.replica_count || from == self.config.replica {
            return Err(Ignored::Sender);
        }
        if view < self.view {
            return Err(Ignored::OlderView);
        }
        if view > self.view {
            return Err(Ignored::NewerView);
        }
        if self.status != Status::Normal {
            return Err(Ignored::NotNormal);
        }
        match message.body {
            MessageBody::Prepare { entry, commit } => self.on_prepare(from, entry, commit),
            MessageBody::PrepareOk { op, id } => self.on_prepare_ok(from, op, id),
            MessageBody::Commit { commit, id } => self.on_commit(from, commit, id),
        }
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
            self.learn_commit(commit);
            return Err(Ignored::Gap);
        }
        if header.parent != self.head_id || header.timestamp <= self.head_timestamp {
            return Err(Ignored::Chain);
        }
        self.append(entry);
        self.learn_commit(commit);
        Ok(())
    }

    /// VRR §4.1 step 5. An acknowledgement counts only when it is for the entry in this primary's own log.
    fn on_prepare_ok(&mut self, from: ReplicaId, op: OpNumber, id: EntryId) -> Result<(), Ignored> {
        if !self.is_primary() {
            return Err(Ignored::Role);
        }
        if op <= self.commit_min {
            return Err(Ignored::Duplicate);
        }
        if self.entry_id(op) != Some(id) {
            return Err(Ignored::Identity);
        }
        self.count(from, op);
        Ok(())
    }

    /// VRR §4.1 step 7.
    fn on_commit(&mut self, from: ReplicaId, commit: OpNumber, id: EntryId) -> Result<(), Ignored> {
        if from != self.primary() {
            return Err(Ignored::Role);
        }
        if commit <= self.commit_min {
            return Err(Ignored::Duplicate);
        }
        if self.entry_id(commit).is_some_and(|held| held != id) {
            return Err(Ignored::Identity);
        }
        self.learn_commit(commit);
        Ok(())
    }

    /// Identity of an entry between `commit_min` and `head`.
    fn entry_id(&self, op: OpNumber) -> Option<EntryId> {
        let index = op.0.checked_sub(self.commit_min.0)?.checked_sub(1)?;
        self.in_flight.get(usize::try_from(index).ok()?).map(|held| held.entry.id())
    }

    fn append(&mut self, entry: Entry) {
        assert_eq!(entry.op(), self.head.next());
        assert_eq!(entry.header().parent, self.head_id);
        self.head = entry.op();
        self.head_id = entry.id();
        self.head_timestamp = entry.header().timestamp;
        self.in_flight_bytes += entry.bytes().len();
        self.effects.push_back(Effect::Write(entry.clone()));
        self.in_flight.push_back(InFlight { entry, holders: 0 });
    }

    /// Replica `from` holds every entry up to `op`.
    fn count(&mut self, from: ReplicaId, op: OpNumber) {
        for held in &mut self.in_flight {
            if held.entry.op() > op {
                break;
            }
            held.holders |= 1 << from.0;
        }
        let committed = self
            .in_flight
            .iter()
            .take_while(|held| held.holders.count_ones() >= u32::from(self.quorums.replication))
            .last()
            .map(|held| (held.entry.op(), held.entry.id()));
        let Some((commit, id)) = committed else { return };
        self.commit_max = self.commit_max.max(commit);
        if self.config.replica_count > 1 {
            self.send(Target::Backups, MessageBody::Commit { commit, id });
        }
        self.apply_committed();
    }

    fn learn_commit(&mut self, commit: OpNumber) {
        self.commit_max = self.commit_max.max(commit);
        self.apply_committed();
    }

    fn apply_committed(&mut self) {
        while let Some(held) = self.in_flight.front() {
            if held.entry.op() > self.commit_max {
                break;
            }
            let held = self.in_flight.pop_front().expect("looked at it");
            assert_eq!(held.entry.op(), self.commit_min.next());
            self.in_flight_bytes -= held.entry.bytes().len();
            self.commit_min = held.entry.op();
            self.effects.push_back(Effect::Apply(held.entry));
        }
        assert!(self.commit_min <= self.commit_max);
        assert!(self.commit_min <= self.head);
    }

    /// Tells the primary up to where this backup's log is durable.
    fn acknowledge(&mut self) {
        let op = self.durable;
        let id = if op == self.head { Some(self.head_id) } else { self.entry_id(op) };
        // An op that is applied here already is committed: nobody waits for its acknowledgement.
        if let Some(id) = id {
            let to = Target::Replica(self.primary());
            self.send(to, MessageBody::PrepareOk { op, id });
        }
    }

    fn send(&mut self, target: Target, body: MessageBody) {
        assert!(self.log_view <= self.view);
        let envelope = Envelope {
            cluster: self.config.cluster,
            group: self.config.group,
            view: self.view,
            from: self.config.replica,
            config_epoch: 0,
        };
        self.effects.push_back(Effect::Send(target, Message { envelope, body }));
    }
}

#[cfg(test)]
#[path = "replica_tests.rs"]
mod tests;
