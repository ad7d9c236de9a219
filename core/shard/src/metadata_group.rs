//! The metadata group: its replica, its log and the metadata state machine. Always `persisted`.

use crate::effect::Effect;
use crate::member::{Happened, Io, Member, retry_at};
use crate::notice::{Notice, Severity};
use crate::request::{Refusal, Reply, RequestTicket};
use crate::shard::ShardConfig;
use crate::tickets::Owner;
use crate::vote_log::Votes;
use bytes::{Bytes, BytesMut};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use twox_hash::XxHash3_64;
use whippet_log::{Durability, Fatal, LogConfig, LogEnd, RecoveryError, Replay, Space, Verdict, recover};
use whippet_metadata::command::{Command, Envelope, GroupChange};
use whippet_metadata::{LogEntry, MetadataState, PartitionSettings, Preflight};
use whippet_protocol::ErrorCode;
use whippet_storage::{RecoverySource, StorageCompletion};
use whippet_vsr::{
    self as vsr, Draft, DurableState, Entry, EntryId, GroupId, HEADER_SIZE, Ignored, Message, NotAccepted, Now,
    OpNumber, Replica, SnapshotInfo, ViewNumber,
};

/// Kind of the one sort of record in the metadata log: a postcard-encoded [`Envelope`].
pub const COMMAND: u8 = 1;
/// Kind that no record of the metadata log has: it holds no batches.
const NO_BATCH: u8 = 255;
/// Size at which a segment of the metadata log is sealed and a snapshot taken, in bytes, unless a test wants less.
pub const METADATA_SEGMENT_SIZE: u64 = 8 * 1024 * 1024;
/// Commands that may wait for admission.
const WAITING_MAX: usize = 8192;
/// Largest encoded command, in bytes.
const COMMAND_BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug)]
struct InFlight {
    op: OpNumber,
    envelope: Arc<Envelope>,
    tickets: Vec<RequestTicket>,
}

/// The metadata group of a node.
#[derive(Debug)]
pub struct MetadataGroup {
    member: Member,
    state: MetadataState,
    /// Partitions as they will be if the tail of the log turns out to be committed.
    foreseen: Vec<PartitionSettings>,
    applied_op: OpNumber,
    applied_id: EntryId,
    applied_timestamp: u64,
    waiting: VecDeque<(RequestTicket, Arc<Envelope>)>,
    in_flight: VecDeque<InFlight>,
    torn: bool,
    notices: Vec<Notice>,
    pub(crate) deadline_ns: Option<u64>,
}

/// Why a node can't start from its metadata log.
#[derive(Debug, thiserror::Error)]
pub enum MetadataUnusable {
    /// The log could not be read.
    #[error("the metadata log can't be read: {0}")]
    Recovery(#[from] RecoveryError),
    /// The log is damaged.
    #[error(
        "{0}. Nothing was changed. The metadata log names every stream and topic, so the server does not start without it: \
         restore the file from a backup, or start with another data directory"
    )]
    Damaged(String),
}

struct Replayed(MetadataState);

impl Replay for Replayed {
    fn restore(&mut self, state: &[u8]) -> Result<(), String> {
        self.0 = MetadataState::restore(state).map_err(|error| error.to_string())?;
        Ok(())
    }

    fn replay(&mut self, entry: &Entry) -> Result<(), String> {
        let envelope = decode(entry)?;
        self.0.apply(entry.op().0, entry.header().timestamp, &envelope);
        Ok(())
    }

    fn body_is_intact(&self, entry: &Entry) -> bool {
        is_intact(entry)
    }

    fn next_offset(&self) -> u64 {
        0
    }

    fn log_starts_by(&self) -> u64 {
        u64::MAX
    }
}

fn is_intact(entry: &Entry) -> bool {
    XxHash3_64::oneshot(&entry.body()) == entry.header().body_hash
}

fn decode(entry: &Entry) -> Result<Envelope, String> {
    if entry.header().kind != COMMAND {
        return Err(format!("op {} has the unknown kind {}", entry.op(), entry.header().kind));
    }
    postcard::from_bytes(&entry.body())
        .map_err(|error| format!("the command of op {} can't be read: {error}", entry.op()))
}

impl MetadataGroup {
    /// Reads the metadata log of a data directory back; an empty directory gives an empty group.
    ///
    /// # Errors
    /// [`MetadataUnusable`] when the log is damaged or can't be read. Nothing on disk is changed.
    pub fn recover(
        shard: &ShardConfig,
        source: &dyn RecoverySource,
        votes: &Votes,
        now: Now,
    ) -> Result<MetadataGroup, MetadataUnusable> {
        let ShardConfig { cluster, run, previous_end, .. } = *shard;
        let config = LogConfig {
            cluster,
            group: GroupId::METADATA,
            segment_size: shard.metadata_segment_size,
            durability: Durability::Persisted,
            batch_kind: NO_BATCH,
            run,
            sync_interval_ns: 0,
            preallocate: false,
            solo: shard.replica_count == 1,
        };
        let mut replayed = Replayed(MetadataState::new());
        let recovered = recover(source, config, previous_end, &mut replayed)?;
        let mut notices: Vec<Notice> = recovered
            .remarks
            .iter()
            .map(|remark| Notice::new(Severity::Warning, GroupId::METADATA, format!("{remark}")))
            .collect();
        let torn = match recovered.verdict {
            Verdict::Whole => false,
            Verdict::TornTail { file, position } => {
                let text =
                    format!("{file} ends in a torn write that nobody was promised; it is cut at byte {position}");
                notices.push(Notice::new(Severity::Info, GroupId::METADATA, text));
                true
            }
            Verdict::Damaged(damage) => return Err(MetadataUnusable::Damaged(damage.to_string())),
            Verdict::Lost { .. } => unreachable!("a persisted log is never judged to have lost its tail"),
        };
        let mut ahead = replayed.0.clone();
        for entry in &recovered.tail {
            if let Ok(envelope) = decode(entry) {
                ahead.apply(entry.op().0, entry.header().timestamp, &envelope);
            }
        }
        let durable = DurableState {
            // Alone, every start of the process is a view of its own.
            view: ViewNumber(recovered.view.max(u32::try_from(run - 1).unwrap_or(u32::MAX - 1))),
            applied: recovered.applied,
            applied_id: recovered.applied_id,
            applied_timestamp: recovered.applied_timestamp,
            tail: recovered.tail,
            vote: votes.get(GroupId::METADATA),
            votes_lost: votes.in_doubt(),
            ..DurableState::empty()
        };
        let replica = Replica::new(shard.replica_config(GroupId::METADATA), durable, now.monotonic_ns);
        let mut member = Member::new(replica, recovered.log, Owner::Metadata, recovered.snapshots);
        member.offer_base(source, GroupId::METADATA).map_err(RecoveryError::from)?;
        Ok(MetadataGroup {
            member,
            foreseen: ahead.all_partitions().collect(),
            state: replayed.0,
            applied_op: recovered.applied,
            applied_id: recovered.applied_id,
            applied_timestamp: recovered.applied_timestamp,
            waiting: VecDeque::new(),
            in_flight: VecDeque::new(),
            torn,
            notices,
            deadline_ns: None,
        })
    }

    /// Partitions of which this node may hold data: those of the committed state, and those that the end of the log creates.
    pub fn foreseen(&self) -> &[PartitionSettings] {
        &self.foreseen
    }

    /// This node's replica.
    pub fn replica(&self) -> &Replica {
        &self.member.replica
    }

    /// The committed metadata.
    pub fn state(&self) -> &MetadataState {
        &self.state
    }

    /// Committed op.
    pub fn commit(&self) -> u64 {
        self.member.replica.applied().0
    }

    pub(crate) fn finish_recovery(&mut self, io: &mut Io) {
        io.effects.extend(self.notices.drain(..).map(Effect::Notice));
        if std::mem::take(&mut self.torn) {
            self.member.log.cut_tail(&mut io.issuer(Owner::Metadata));
        }
    }

    pub(crate) fn push(&mut self, ticket: RequestTicket, envelope: Arc<Envelope>, effects: &mut VecDeque<Effect>) {
        if self.waiting.len() >= WAITING_MAX {
            let refusal =
                Refusal::because(ErrorCode::TransientNotAccepted, "too many metadata commands wait; try again");
            effects.push_back(Effect::Reply { ticket, reply: Reply::Refused(refusal) });
            return;
        }
        self.waiting.push_back((ticket, envelope));
    }

    pub(crate) fn run(&mut self, io: &mut Io, now: Now) {
        if self.deadline_ns.is_some_and(|deadline| deadline <= now.monotonic_ns) && self.member.log.needs_retry() {
            self.member.log.retry(&mut io.issuer(Owner::Metadata));
        }
        self.member.replica.handle_tick(now.monotonic_ns);
        loop {
            self.admit(io, now);
            self.member.advance(true, false, io, now);
            if !self.drain(io) {
                break;
            }
        }
        if !self.member.log.is_rewinding() {
            let mut issuer = io.issuer(Owner::Metadata);
            self.member.log.remove_superseded(&mut self.member.snapshots, &mut issuer);
            let covered = self.member.log.snapshot_op().saturating_sub(1);
            if covered > 0 {
                // What a durable snapshot covers is not needed any more: nobody reads old metadata commands.
                self.member.log.remove_up_to(OpNumber(covered), &mut issuer);
            }
        }
        let log = if self.member.log.needs_retry() {
            Some(retry_at(self.deadline_ns, now.monotonic_ns))
        } else {
            self.member.log.timeout_ns()
        };
        self.deadline_ns =
            [log, self.member.retry_at_ns(), self.member.replica.deadline_ns()].into_iter().flatten().min();
    }

    fn drain(&mut self, io: &mut Io) -> bool {
        let mut any = false;
        loop {
            let applied =
                LogEnd { op: self.applied_op, id: self.applied_id, timestamp: self.applied_timestamp, next_offset: 0 };
            let Some(happened) = self.member.poll(applied, io) else { return any };
            any = true;
            match happened {
                Happened::Apply(entry) => self.apply(&entry, &mut io.effects),
                Happened::Install(info, bytes) => self.install(info, &bytes, io),
                Happened::Left => self.leave(&mut io.effects),
                Happened::Began => {}
            }
        }
    }

    /// The state is that of a peer's snapshot from now on; what became of the partitions follows from the difference.
    fn install(&mut self, info: SnapshotInfo, bytes: &Bytes, io: &mut Io) {
        let state = match MetadataState::restore(bytes) {
            Ok(state) => state,
            Err(error) => {
                let text = format!("the metadata snapshot that a peer sent can't be used: {error}");
                return io.effects.push_back(Effect::Fatal(text));
            }
        };
        self.member.replace(info, bytes, 0, 0);
        (self.applied_op, self.applied_id) = (OpNumber(info.first_op.0 - 1), info.parent);
        self.applied_timestamp = info.timestamp;
        let before = std::mem::replace(&mut self.state, state);
        let known: BTreeMap<_, _> = before.all_partitions().map(|settings| (settings.group, settings)).collect();
        let mut changes = Vec::new();
        let mut left: BTreeSet<_> = known.keys().copied().collect();
        for settings in self.state.all_partitions() {
            left.remove(&settings.group);
            match known.get(&settings.group) {
                None => changes.push(GroupChange::Created(settings)),
                Some(known) if known.purged_by < settings.purged_by => {
                    changes.push(GroupChange::Purged { group: settings.group, intent: settings.purged_by });
                }
                Some(_) => {}
            }
        }
        changes.extend(left.into_iter().map(GroupChange::Deleted));
        io.effects.push_back(Effect::Restored(Box::new(self.state.clone())));
        if !changes.is_empty() {
            io.effects.push_back(Effect::Groups(changes));
        }
    }

    /// This replica leads no more, or no view at all.
    fn leave(&mut self, effects: &mut VecDeque<Effect>) {
        for held in std::mem::take(&mut self.in_flight) {
            for ticket in held.tickets {
                let reply = Reply::Refused(Refusal::of(ErrorCode::TransientNotCommitted));
                effects.push_back(Effect::Reply { ticket, reply });
            }
        }
    }

    /// A peer said something; bodies are checked before anything else looks at them.
    pub(crate) fn handle_message(&mut self, message: Message, now: Now) -> Result<(), Ignored> {
        if let vsr::MessageBody::Prepare { entry, .. } | vsr::MessageBody::Entry(entry) = &message.body
            && (!is_intact(entry) || decode(entry).is_err())
        {
            return Err(Ignored::Malformed);
        }
        self.member.replica.handle_message(message, now.monotonic_ns)
    }

    pub(crate) fn replica_mut(&mut self) -> &mut Replica {
        &mut self.member.replica
    }

    /// Bytes for a peer have been read.
    pub(crate) fn handle_served(&mut self, serving: u64, completion: StorageCompletion, io: &mut Io) {
        self.member.handle_served(serving, completion, is_intact, io);
    }

    fn admit(&mut self, io: &mut Io, now: Now) {
        while let Some((ticket, envelope)) = self.waiting.front() {
            let (ticket, envelope) = (*ticket, envelope.clone());
            if let Err(reason @ (NotAccepted::NotPrimary { .. } | NotAccepted::NotNormal)) =
                self.member.replica.admits(0)
            {
                // What was carried out is known for certain only to a primary that has caught up.
                for (ticket, _) in self.waiting.drain(..) {
                    let refusal = Refusal::because(ErrorCode::TransientNotAccepted, format!("{reason}; try again"));
                    io.effects.push_back(Effect::Reply { ticket, reply: Reply::Refused(refusal) });
                }
                return;
            }
            let numbered = envelope.client != 0 && !matches!(envelope.command, Command::Register);
            let same = self.in_flight.iter_mut().find(|held| {
                numbered
                    && held.envelope.client == envelope.client
                    && held.envelope.request == envelope.request
                    && held.envelope.request != 0
            });
            if let Some(same) = same {
                if *same.envelope == *envelope {
                    same.tickets.push(ticket);
                } else {
                    let reply = Reply::MetadataRefused(whippet_metadata::Refusal::Mismatch);
                    io.effects.push_back(Effect::Reply { ticket, reply });
                }
                self.waiting.pop_front();
                continue;
            }
            if self.member.has_unwritten() {
                return;
            }
            match self.state.preflight(&envelope) {
                Preflight::Execute => {}
                Preflight::Replay(outcome) => {
                    self.waiting.pop_front();
                    let reply = Reply::Metadata { op: self.member.replica.applied().0, outcome };
                    io.effects.push_back(Effect::Reply { ticket, reply });
                    continue;
                }
                Preflight::Refuse(refusal) => {
                    self.waiting.pop_front();
                    io.effects.push_back(Effect::Reply { ticket, reply: Reply::MetadataRefused(refusal) });
                    continue;
                }
            }
            let body = postcard::to_allocvec(&*envelope).expect("a command has nothing that can't be encoded");
            if body.len() > COMMAND_BYTES_MAX {
                self.waiting.pop_front();
                let refusal = Refusal::because(
                    ErrorCode::InvalidCommand,
                    format!("a metadata command of {} bytes is larger than {COMMAND_BYTES_MAX}", body.len()),
                );
                io.effects.push_back(Effect::Reply { ticket, reply: Reply::Refused(refusal) });
                continue;
            }
            let length = HEADER_SIZE + body.len();
            let refusal = match self.member.replica.admits(length) {
                Ok(()) => match self.member.log.ensure_space(length as u64, &mut io.issuer(Owner::Metadata)) {
                    Space::Ready => None,
                    Space::Waiting => return,
                    Space::Full => Some("the disk is full: free space, then try again; reads go on".to_string()),
                },
                Err(NotAccepted::PipelineFull { .. }) => return,
                Err(other) => Some(other.to_string()),
            };
            if let Some(reason) = refusal {
                for (ticket, _) in self.waiting.drain(..) {
                    let refusal = Refusal::because(ErrorCode::TransientNotAccepted, reason.clone());
                    io.effects.push_back(Effect::Reply { ticket, reply: Reply::Refused(refusal) });
                }
                return;
            }
            self.waiting.pop_front();
            let place = self.member.log.place();
            let mut bytes = BytesMut::zeroed(HEADER_SIZE);
            bytes.extend_from_slice(&body);
            let draft = Draft {
                kind: COMMAND,
                client: envelope.client,
                session: envelope.session,
                request: envelope.request,
                user: envelope.user,
                body_hash: XxHash3_64::oneshot(&body),
                timestamp: now.wall_us.max(self.member.replica.head_timestamp() + 1),
                base_offset: 0,
                count: 0,
                generation: 0,
                segment: place.segment,
                position: place.position,
                bytes,
            };
            let op = self.member.replica.propose(draft).expect("admission was checked just before");
            self.in_flight.push_back(InFlight { op, envelope, tickets: vec![ticket] });
            self.drain(io);
            // The place of the next record follows from the log.
            self.member.write(true, false, io, now);
        }
    }

    fn apply(&mut self, entry: &Entry, effects: &mut VecDeque<Effect>) {
        let header = entry.header();
        if header.position == 0 && self.applied_op > OpNumber::ZERO {
            self.keep_snapshot();
        }
        let held = self.in_flight.pop_front_if(|held| held.op == header.op);
        let (envelope, waiting) = match held {
            Some(held) => (held.envelope, held.tickets),
            None => (
                Arc::new(decode(entry).expect("only commands are proposed, and those of peers are checked")),
                Vec::new(),
            ),
        };
        let applied = self.state.apply(header.op.0, header.timestamp, &envelope);
        (self.applied_op, self.applied_id, self.applied_timestamp) = (header.op, header.id, header.timestamp);
        effects.push_back(Effect::Publish(LogEntry { op: header.op.0, timestamp: header.timestamp, envelope }));
        let groups: Vec<GroupChange> = applied.changes;
        if !groups.is_empty() {
            effects.push_back(Effect::Groups(groups));
        }
        for ticket in waiting {
            let reply = match applied.refused {
                Some(refusal) => Reply::MetadataRefused(refusal),
                None => Reply::Metadata { op: header.op.0, outcome: applied.outcome.clone() },
            };
            effects.push_back(Effect::Reply { ticket, reply });
        }
    }

    /// A segment begins with the next entry. The log before it is not needed any more once the state is kept, and a peer that
    /// lags too far begins where a segment does: its records must lie where everybody else's do.
    fn keep_snapshot(&mut self) {
        let (op, id, timestamp) = (self.applied_op, self.applied_id, self.applied_timestamp);
        let state = self.state.snapshot();
        if self.member.log.wants_snapshot() && !self.member.log.is_rewinding() {
            self.member.log.take_snapshot(op, id, timestamp, 0, &state);
            self.member.snapshots.push(op.0 + 1);
        }
        self.member.set_offer(op.next(), id, timestamp, state.into());
    }

    pub(crate) fn handle_completion(&mut self, completion: StorageCompletion) -> Result<(), Fatal> {
        self.member.log.handle_completion(completion)
    }

    pub(crate) fn flush(&mut self) {
        self.member.log.flush();
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
            && self.in_flight.is_empty()
            && !self.member.has_unwritten()
            && self.member.log.is_idle()
    }
}
