//! The metadata group: its replica, its log and the metadata state machine. Always `persisted`.

use crate::effect::Effect;
use crate::notice::{Notice, Severity};
use crate::request::{Refusal, Reply, RequestTicket};
use crate::shard::ShardConfig;
use crate::tickets::{Issuer, Owner, Tickets};
use bytes::BytesMut;
use std::collections::VecDeque;
use std::sync::Arc;
use twox_hash::XxHash3_64;
use whippet_log::{Durability, Fatal, Log, LogConfig, RecoveryError, Replay, Space, Verdict, recover};
use whippet_metadata::command::{Command, Envelope, GroupChange};
use whippet_metadata::{LogEntry, MetadataState, Preflight};
use whippet_protocol::ErrorCode;
use whippet_storage::{RecoverySource, StorageCompletion};
use whippet_vsr::{
    self as vsr, Draft, DurableState, Entry, EntryId, GroupId, HEADER_SIZE, NotAccepted, Now, OpNumber, Replica,
    ViewNumber,
};

/// Kind of the one sort of record in the metadata log: a postcard-encoded [`Envelope`].
pub const COMMAND: u8 = 1;
/// Kind that no record of the metadata log has: it holds no batches.
const NO_BATCH: u8 = 255;
/// Size at which a segment of the metadata log is sealed and a snapshot taken, in bytes.
const SEGMENT_SIZE: u64 = 8 * 1024 * 1024;
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
    replica: Replica,
    log: Log,
    state: MetadataState,
    applied_id: EntryId,
    applied_timestamp: u64,
    waiting: VecDeque<(RequestTicket, Arc<Envelope>)>,
    in_flight: VecDeque<InFlight>,
    snapshots: Vec<u64>,
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
        XxHash3_64::oneshot(&entry.body()) == entry.header().body_hash
    }

    fn next_offset(&self) -> u64 {
        0
    }

    fn log_starts_by(&self) -> u64 {
        u64::MAX
    }
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
        now: Now,
    ) -> Result<MetadataGroup, MetadataUnusable> {
        let ShardConfig { cluster, run, previous_end, .. } = *shard;
        let config = LogConfig {
            cluster,
            group: GroupId::METADATA,
            segment_size: SEGMENT_SIZE,
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
        let durable = DurableState {
            view: ViewNumber(recovered.view),
            applied: recovered.applied,
            applied_id: recovered.applied_id,
            applied_timestamp: recovered.applied_timestamp,
            ..DurableState::empty()
        };
        let replica = Replica::new(shard.replica_config(GroupId::METADATA), durable, now.monotonic_ns);
        Ok(MetadataGroup {
            replica,
            log: recovered.log,
            state: replayed.0,
            applied_id: recovered.applied_id,
            applied_timestamp: recovered.applied_timestamp,
            waiting: VecDeque::new(),
            in_flight: VecDeque::new(),
            snapshots: recovered.snapshots,
            torn,
            notices,
            deadline_ns: None,
        })
    }

    /// The committed metadata.
    pub fn state(&self) -> &MetadataState {
        &self.state
    }

    /// Committed op.
    pub fn commit(&self) -> u64 {
        self.replica.applied().0
    }

    pub(crate) fn finish_recovery(&mut self, tickets: &mut Tickets, effects: &mut VecDeque<Effect>) {
        effects.extend(self.notices.drain(..).map(Effect::Notice));
        if std::mem::take(&mut self.torn) {
            self.log.cut_tail(&mut Issuer { tickets, effects, owner: Owner::Metadata });
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

    pub(crate) fn run(&mut self, tickets: &mut Tickets, effects: &mut VecDeque<Effect>, now: Now) {
        if self.deadline_ns.is_some_and(|deadline| deadline <= now.monotonic_ns) && self.log.needs_retry() {
            self.log.retry(&mut Issuer { tickets, effects, owner: Owner::Metadata });
        }
        loop {
            self.admit(tickets, effects, now);
            self.log.drive(now, &mut Issuer { tickets, effects, owner: Owner::Metadata });
            self.replica.handle_durable(self.log.durable());
            if !self.drain(tickets, effects, now) {
                break;
            }
        }
        if self.log.wants_snapshot() {
            let op = self.replica.applied();
            self.log.take_snapshot(op, self.applied_id, self.applied_timestamp, 0, &self.state.snapshot());
            self.snapshots.push(op.0 + 1);
            self.log.drive(now, &mut Issuer { tickets, effects, owner: Owner::Metadata });
        }
        let mut issuer = Issuer { tickets, effects, owner: Owner::Metadata };
        self.log.remove_superseded(&mut self.snapshots, &mut issuer);
        let covered = self.log.snapshot_op().saturating_sub(1);
        if covered > 0 {
            // What a durable snapshot covers is not needed any more: nobody reads old metadata commands.
            self.log.remove_up_to(OpNumber(covered), &mut issuer);
        }
        self.deadline_ns = if self.log.needs_retry() {
            Some(crate::partition_group::retry_at(self.deadline_ns, now.monotonic_ns))
        } else {
            self.log.timeout_ns()
        };
    }

    fn drain(&mut self, tickets: &mut Tickets, effects: &mut VecDeque<Effect>, now: Now) -> bool {
        let mut any = false;
        while let Some(effect) = self.replica.poll_effect() {
            any = true;
            match effect {
                vsr::Effect::Write(entry) => {
                    self.log.append(&entry, now, &mut Issuer { tickets, effects, owner: Owner::Metadata });
                }
                vsr::Effect::Apply(entry) => self.apply(&entry, effects),
                vsr::Effect::Left | vsr::Effect::Began => {}
                other => unreachable!("a group of one has no peers: {other:?}"),
            }
        }
        any
    }

    fn admit(&mut self, tickets: &mut Tickets, effects: &mut VecDeque<Effect>, now: Now) {
        while let Some((ticket, envelope)) = self.waiting.front() {
            let (ticket, envelope) = (*ticket, envelope.clone());
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
                    effects.push_back(Effect::Reply { ticket, reply });
                }
                self.waiting.pop_front();
                continue;
            }
            match self.state.preflight(&envelope) {
                Preflight::Execute => {}
                Preflight::Replay(outcome) => {
                    self.waiting.pop_front();
                    let reply = Reply::Metadata { op: self.replica.applied().0, outcome };
                    effects.push_back(Effect::Reply { ticket, reply });
                    continue;
                }
                Preflight::Refuse(refusal) => {
                    self.waiting.pop_front();
                    effects.push_back(Effect::Reply { ticket, reply: Reply::MetadataRefused(refusal) });
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
                effects.push_back(Effect::Reply { ticket, reply: Reply::Refused(refusal) });
                continue;
            }
            let length = HEADER_SIZE + body.len();
            let refusal = match self.replica.admits(length) {
                Ok(()) => {
                    match self.log.ensure_space(length as u64, &mut Issuer { tickets, effects, owner: Owner::Metadata })
                    {
                        Space::Ready => None,
                        Space::Waiting => return,
                        Space::Full => Some("the disk is full: free space, then try again; reads go on".to_string()),
                    }
                }
                Err(NotAccepted::PipelineFull { .. }) => return,
                Err(other) => Some(other.to_string()),
            };
            if let Some(reason) = refusal {
                for (ticket, _) in self.waiting.drain(..) {
                    let refusal = Refusal::because(ErrorCode::TransientNotAccepted, reason.clone());
                    effects.push_back(Effect::Reply { ticket, reply: Reply::Refused(refusal) });
                }
                return;
            }
            self.waiting.pop_front();
            let place = self.log.place();
            let mut bytes = BytesMut::zeroed(HEADER_SIZE);
            bytes.extend_from_slice(&body);
            let draft = Draft {
                kind: COMMAND,
                client: envelope.client,
                session: envelope.session,
                request: envelope.request,
                user: envelope.user,
                body_hash: XxHash3_64::oneshot(&body),
                timestamp: now.wall_us.max(self.replica.head_timestamp() + 1),
                base_offset: 0,
                count: 0,
                generation: 0,
                segment: place.segment,
                position: place.position,
                bytes,
            };
            let op = self.replica.propose(draft).expect("admission was checked just before");
            self.in_flight.push_back(InFlight { op, envelope, tickets: vec![ticket] });
            self.drain(tickets, effects, now);
        }
    }

    fn apply(&mut self, entry: &Entry, effects: &mut VecDeque<Effect>) {
        let header = entry.header();
        let held = self.in_flight.pop_front().filter(|held| held.op == header.op);
        let (envelope, waiting) = match held {
            Some(held) => (held.envelope, held.tickets),
            None => (Arc::new(decode(entry).expect("only commands are proposed")), Vec::new()),
        };
        let applied = self.state.apply(header.op.0, header.timestamp, &envelope);
        self.applied_id = header.id;
        self.applied_timestamp = header.timestamp;
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

    pub(crate) fn handle_completion(&mut self, completion: StorageCompletion) -> Result<(), Fatal> {
        self.log.handle_completion(completion)
    }

    pub(crate) fn flush(&mut self) {
        self.log.flush();
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_empty() && self.log.is_idle()
    }
}
