//! One partition: its replica, its log and its state machine, and what waits for them.
//!
//! A write walks: `waiting` → admitted ([`PartitionGroup::admit`]) → proposed → written to the log → durable → committed →
//! applied → answered. What must hold before a write gets an op: the group is in the group table, offsets are reserved
//! durably, the disk has room, the pipeline has room, and no purge is under way.

use crate::effect::Effect;
use crate::notice::{Notice, Severity};
use crate::request::{Identity, OffsetInfo, PartitionStats, Polled, Refusal, Reply, RequestTicket, Strategy};
use crate::tickets::{Issuer, Owner, Tickets};
use bytes::{Buf, Bytes, BytesMut};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use whippet_log::{Damage, Fatal, Log, RESERVATION, Space};
use whippet_metadata::state::PartitionSettings;
use whippet_partition::dedup::{Effect as Remembered, Known};
use whippet_partition::poll::{Hint, Poll, ReadLimit, Start, Step};
use whippet_partition::record::{BATCH, control_hash};
use whippet_partition::{Consumer, Control, OffsetRefused, PartitionState};
use whippet_protocol::{ErrorCode, batch};
use whippet_storage::{StorageCompletion, StorageOp};
use whippet_vsr::{self as vsr, Draft, Entry, EntryId, GroupId, HEADER_SIZE, NotAccepted, Now, OpNumber, Replica};

/// Writes that may wait for admission.
pub(crate) const WAITING_MAX: usize = 8192;
/// Bytes of those writes.
pub(crate) const WAITING_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Polls of one partition that may be under way.
const POLLS_MAX: usize = 4096;
/// How long a write that found no room waits before it is tried again.
const RETRY_NS: u64 = 100_000_000;
/// Places that are remembered for readers that go on.
const HINTS: usize = 8;

/// A write that has no op yet.
#[derive(Debug)]
pub(crate) enum Work {
    Send { identity: Identity, buffer: BytesMut, batch: Range<usize>, count: u32 },
    Control { identity: Identity, control: Control },
}

/// What to answer once an op is applied.
#[derive(Debug)]
pub(crate) enum Answer {
    Nobody,
    Sent(RequestTicket),
    Done(RequestTicket),
    /// A poll that stores its offset first.
    Polled(RequestTicket, Polled),
}

#[derive(Debug)]
struct Waiting {
    work: Work,
    answer: Answer,
}

#[derive(Debug)]
struct ActivePoll {
    poll: Poll,
    ticket: RequestTicket,
    consumer: Consumer,
    auto_commit: bool,
    identity: Identity,
}

/// Whether the group's data can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Fine,
    /// What lies before the damage can be read; nothing is written.
    Damaged(Damage),
    /// The group held data and its files are gone.
    Missing,
}

/// Whether the group is in the group table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    No,
    /// The entry is on its way to the disk.
    Soon,
    Yes,
}

/// The last applied record.
#[derive(Clone, Copy, Debug)]
struct Applied {
    op: OpNumber,
    id: EntryId,
    timestamp: u64,
}

#[derive(Debug)]
pub(crate) struct PartitionGroup {
    pub(crate) settings: PartitionSettings,
    group: GroupId,
    slot: u32,
    replica: Replica,
    log: Log,
    state: PartitionState,
    applied: Applied,
    pub(crate) condition: Condition,
    pub(crate) listed: Listed,
    /// Offset of the next batch that is proposed. Ahead of the state's by what is in flight.
    next_offset: u64,
    /// A purge is in flight: nothing is proposed until it is applied.
    barrier: bool,
    limit: Option<ReadLimit>,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    /// In op order.
    in_flight: VecDeque<(OpNumber, Vec<Answer>)>,
    in_flight_requests: BTreeMap<(u128, u64), OpNumber>,
    polls: BTreeMap<u64, ActivePoll>,
    next_poll: u64,
    hints: [Option<Hint>; HINTS],
    next_hint: usize,
    snapshots: Vec<u64>,
    /// The group table could not be written: what waits is refused.
    disk_full: bool,
    /// When the shard must look at the group although nothing happened.
    pub(crate) deadline_ns: Option<u64>,
}

/// What a group needs of its shard while it works.
pub(crate) struct Context<'a> {
    pub(crate) tickets: &'a mut Tickets,
    pub(crate) effects: &'a mut VecDeque<Effect>,
    pub(crate) now: Now,
    /// Groups that must be entered in the group table.
    pub(crate) to_list: &'a mut Vec<GroupId>,
}

impl Context<'_> {
    fn reply(&mut self, ticket: RequestTicket, reply: Reply) {
        self.effects.push_back(Effect::Reply { ticket, reply });
    }

    fn issuer(&mut self, owner: Owner) -> Issuer<'_> {
        Issuer { tickets: self.tickets, effects: self.effects, owner }
    }
}

/// What recovery or creation gives a group to start from.
pub(crate) struct Parts {
    pub(crate) settings: PartitionSettings,
    pub(crate) slot: u32,
    pub(crate) replica: Replica,
    pub(crate) log: Log,
    pub(crate) state: PartitionState,
    pub(crate) head_id: EntryId,
    pub(crate) head_timestamp: u64,
    pub(crate) condition: Condition,
    pub(crate) listed: Listed,
    pub(crate) snapshots: Vec<u64>,
}

impl PartitionGroup {
    pub(crate) fn new(parts: Parts) -> PartitionGroup {
        let Parts { settings, slot, replica, log, state, head_id, head_timestamp, condition, listed, snapshots } =
            parts;
        let head = log.head();
        let limit = log.end().map(|(segment, end)| ReadLimit { op: head, segment, end });
        PartitionGroup {
            group: GroupId { number: settings.group.number, life: settings.group.life },
            settings,
            slot,
            next_offset: state.next_offset,
            applied: Applied { op: head, id: head_id, timestamp: head_timestamp },
            replica,
            log,
            state,
            condition,
            listed,
            barrier: false,
            limit,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            in_flight: VecDeque::new(),
            in_flight_requests: BTreeMap::new(),
            polls: BTreeMap::new(),
            next_poll: 0,
            hints: [None; HINTS],
            next_hint: 0,
            snapshots,
            disk_full: false,
            deadline_ns: None,
        }
    }

    pub(crate) fn id(&self) -> GroupId {
        self.group
    }

    fn owner(&self) -> Owner {
        Owner::Partition { slot: self.slot, group: self.group }
    }

    /// After recovery: cut a torn tail, number on behind a declared loss, finish a purge.
    pub(crate) fn finish_recovery(&mut self, torn: bool, lost: Option<u64>, cx: &mut Context<'_>) {
        let owner = self.owner();
        if torn {
            self.log.cut_tail(&mut cx.issuer(owner));
        }
        if let Some(next_offset) = lost {
            let control = Control::Loss { next_offset };
            self.push(Work::Control { identity: Identity::default(), control }, Answer::Nobody, cx);
        }
        if self.state.purge_op > 0 && self.log.first_op() <= self.state.purge_op {
            self.log.purge_up_to(OpNumber(self.state.purge_op));
            self.take_snapshot();
        }
    }

    /// Refuses a write, or lets it wait for admission.
    pub(crate) fn push(&mut self, work: Work, answer: Answer, cx: &mut Context<'_>) {
        let bytes = work.bytes();
        if self.waiting.len() >= WAITING_MAX || self.waiting_bytes + bytes > WAITING_BYTES_MAX {
            let refusal =
                Refusal::because(ErrorCode::TransientNotAccepted, "too many writes wait for this partition; try again");
            return refuse(answer, refusal, cx);
        }
        self.waiting_bytes += bytes;
        self.waiting.push_back(Waiting { work, answer });
    }

    /// Does all that can be done now.
    pub(crate) fn run(&mut self, cx: &mut Context<'_>) {
        let owner = self.owner();
        if self.deadline_ns.is_some_and(|deadline| deadline <= cx.now.monotonic_ns) && self.log.needs_retry() {
            self.log.retry(&mut cx.issuer(owner));
        }
        loop {
            self.admit(cx);
            let now = cx.now;
            self.log.drive(now, &mut cx.issuer(owner));
            self.replica.handle_durable(self.log.durable());
            if !self.drain_replica(cx) {
                break;
            }
        }
        if self.log.wants_snapshot() {
            self.take_snapshot();
            let now = cx.now;
            self.log.drive(now, &mut cx.issuer(owner));
        }
        self.log.remove_superseded(&mut self.snapshots, &mut cx.issuer(owner));
        self.deadline_ns = if self.log.needs_retry() {
            Some(retry_at(self.deadline_ns, cx.now.monotonic_ns))
        } else {
            self.log.timeout_ns()
        };
    }

    fn take_snapshot(&mut self) {
        let Applied { op, id, timestamp } = self.applied;
        self.log.take_snapshot(op, id, timestamp, self.state.generation, &self.state.snapshot());
        self.snapshots.push(op.0 + 1);
    }

    /// Carries out what the replica wants; whether there was anything.
    fn drain_replica(&mut self, cx: &mut Context<'_>) -> bool {
        let mut any = false;
        while let Some(effect) = self.replica.poll_effect() {
            any = true;
            match effect {
                vsr::Effect::Write(entry) => {
                    let (owner, now) = (self.owner(), cx.now);
                    self.log.append(&entry, now, &mut cx.issuer(owner));
                }
                vsr::Effect::Apply(entry) => self.apply(&entry, cx),
                vsr::Effect::Left | vsr::Effect::Began => {}
                other => unreachable!("a group of one has no peers: {other:?}"),
            }
        }
        any
    }

    fn admit(&mut self, cx: &mut Context<'_>) {
        while let Some(front) = self.waiting.front() {
            if let Some(refusal) = self.unusable() {
                self.refuse_waiting(refusal, cx);
                return;
            }
            if self.barrier {
                return;
            }
            let identity = front.work.identity();
            if let Some(op) = self.in_flight_requests.get(&(identity.client, identity.request)).copied() {
                // The same request is in flight already: it is answered together with the first.
                let answer = self.pop_waiting().answer;
                let at =
                    self.in_flight.binary_search_by_key(&op, |held| held.0).expect("requests in flight are in flight");
                self.in_flight[at].1.push(answer);
                continue;
            }
            match self.state.dedup.look_up(identity.client, identity.request) {
                Known::New => {}
                Known::Done(effect) => {
                    let answer = self.pop_waiting().answer;
                    answer_known(answer, effect, cx);
                    continue;
                }
                Known::TooOld => {
                    // Whether it was carried out is not known any more; carrying it out again might duplicate it.
                    let answer = self.pop_waiting().answer;
                    refuse(answer, Refusal::of(ErrorCode::RequestAlreadyApplied), cx);
                    continue;
                }
            }
            let front = self.waiting.front().expect("looked at it");
            if let Work::Control { control, .. } = front.work
                && let Some(answered) = self.refused_or_done(control)
            {
                let answer = self.pop_waiting().answer;
                match answered {
                    Ok(()) => answer_known(answer, Remembered::Offset, cx),
                    Err(refusal) => refuse(answer, refusal, cx),
                }
                continue;
            }
            match self.ready(cx) {
                Ok(true) => {}
                Ok(false) => return,
                Err(refusal) => {
                    self.refuse_waiting(refusal, cx);
                    return;
                }
            }
            let Waiting { work, answer } = self.pop_waiting();
            self.propose(work, answer, cx);
            self.drain_replica(cx);
        }
    }

    /// Whether the write at the front may get an op now; `Err` when it and all behind it are to be refused.
    fn ready(&mut self, cx: &mut Context<'_>) -> Result<bool, Refusal> {
        let front = self.waiting.front().expect("called with a write waiting");
        let (count, bytes, purge) = match &front.work {
            Work::Send { batch, count, .. } => (u64::from(*count), HEADER_SIZE + batch.len(), false),
            Work::Control { control, .. } => (0, HEADER_SIZE + 16, matches!(control, Control::Purge { .. })),
        };
        // Nothing new is taken while a write waits for room: it would only wait behind it.
        if std::mem::take(&mut self.disk_full) || self.log.needs_retry() {
            return Err(disk_full());
        }
        let reserved = self.log.reserved();
        if reserved == 0 || self.next_offset + count > reserved {
            self.log.reserve(self.next_offset + count);
            return Ok(false);
        }
        // Only now, when the group has a file that survives anything: a group that is listed and has none has lost it.
        match self.listed {
            Listed::Yes => {}
            Listed::Soon => return Ok(false),
            Listed::No => {
                self.listed = Listed::Soon;
                cx.to_list.push(self.group);
                return Ok(false);
            }
        }
        if reserved - self.next_offset < RESERVATION / 2 {
            self.log.reserve(self.next_offset + count);
        }
        if purge && !self.replica.is_quiet() {
            return Ok(false);
        }
        match self.replica.admits(bytes) {
            Ok(()) => {}
            Err(NotAccepted::PipelineFull { .. }) => return Ok(false),
            Err(other) => return Err(Refusal::because(ErrorCode::TransientNotAccepted, other.to_string())),
        }
        let owner = self.owner();
        match self.log.ensure_space(bytes as u64, &mut cx.issuer(owner)) {
            Space::Ready => Ok(true),
            Space::Waiting => Ok(false),
            Space::Full => Err(disk_full()),
        }
    }

    fn propose(&mut self, work: Work, answer: Answer, cx: &mut Context<'_>) {
        let place = self.log.place();
        let timestamp = cx.now.wall_us.max(self.replica.head_timestamp() + 1);
        let generation = self.state.generation;
        let (draft, purge) = match work {
            Work::Send { identity, mut buffer, batch, count } => {
                // The record header is written over the bytes before the batch, which nobody needs any more.
                buffer.advance(batch.start - HEADER_SIZE);
                let body_hash = batch::stamp(
                    &mut buffer[HEADER_SIZE..],
                    u64::from(self.settings.partition),
                    self.next_offset,
                    timestamp,
                );
                let base_offset = self.next_offset;
                self.next_offset += u64::from(count);
                (
                    self.draft(BATCH, identity, body_hash, timestamp, (base_offset, count), place, generation, buffer),
                    false,
                )
            }
            Work::Control { identity, control } => {
                let body = control.encode();
                let mut buffer = BytesMut::zeroed(HEADER_SIZE);
                buffer.extend_from_slice(&body);
                let draft = self.draft(
                    control.kind(),
                    identity,
                    control_hash(&body),
                    timestamp,
                    (self.next_offset, 0),
                    place,
                    generation,
                    buffer,
                );
                if let Control::Loss { next_offset } = control {
                    self.next_offset = self.next_offset.max(next_offset);
                }
                (draft, matches!(control, Control::Purge { .. }))
            }
        };
        let key = (draft.client, draft.request);
        let op = self.replica.propose(draft).expect("admission was checked just before");
        self.barrier = purge;
        if key.0 != 0 {
            self.in_flight_requests.insert(key, op);
        }
        self.in_flight.push_back((op, vec![answer]));
    }

    #[allow(clippy::too_many_arguments, reason = "one constructor of a plain record, used twice above")]
    fn draft(
        &self,
        kind: u8,
        identity: Identity,
        body_hash: u64,
        timestamp: u64,
        (base_offset, count): (u64, u32),
        place: whippet_log::Place,
        generation: u32,
        bytes: BytesMut,
    ) -> Draft {
        Draft {
            kind,
            client: identity.client,
            session: identity.session,
            request: identity.request,
            user: identity.user,
            body_hash,
            timestamp,
            base_offset,
            count,
            generation,
            segment: place.segment,
            position: place.position,
            bytes,
        }
    }

    fn apply(&mut self, entry: &Entry, cx: &mut Context<'_>) {
        let header = *entry.header();
        self.state.apply(entry).expect("only records of known kinds are proposed");
        self.applied = Applied { op: header.op, id: header.id, timestamp: header.timestamp };
        self.limit =
            Some(ReadLimit { op: header.op, segment: header.segment, end: header.position + u64::from(header.length) });
        if self.state.purge_op == header.op.0 {
            self.barrier = false;
            self.next_offset = 0;
            self.hints = [None; HINTS];
            self.log.purge_up_to(header.op);
            self.log.set_next_offset(0);
            self.take_snapshot();
        } else if header.kind != BATCH {
            self.log.set_next_offset(self.next_offset);
        }
        if header.client != 0 {
            self.in_flight_requests.remove(&(header.client, header.request));
        }
        let Some((op, answers)) = self.in_flight.pop_front() else { return };
        assert_eq!(op, header.op, "ops are applied in the order in which they were proposed");
        for answer in answers {
            let remembered =
                if header.kind == BATCH { Remembered::Appended(header.base_offset) } else { Remembered::Offset };
            answer_applied(answer, remembered, cx);
        }
    }

    /// A storage operation of the log has ended.
    pub(crate) fn handle_completion(&mut self, completion: StorageCompletion) -> Result<(), Fatal> {
        self.log.handle_completion(completion)
    }

    /// The group's entry in the group table is durable.
    pub(crate) fn handle_listed(&mut self) {
        self.listed = Listed::Yes;
    }

    /// The entry could not be written for want of room.
    pub(crate) fn handle_listing_failed(&mut self) {
        self.listed = Listed::No;
        self.disk_full = true;
    }

    pub(crate) fn flush(&mut self) {
        self.log.flush();
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_empty() && self.log.is_idle()
    }

    /// What the committed state says about a control record before it is proposed: refuse it, or that it is done already.
    fn refused_or_done(&self, control: Control) -> Option<Result<(), Refusal>> {
        match control {
            Control::StoreOffset { consumer, offset, forward_only } => {
                if forward_only && self.state.offsets.get(&consumer).is_some_and(|stored| *stored >= offset) {
                    return Some(Ok(()));
                }
                match self.state.may_store(consumer, offset) {
                    Ok(()) => None,
                    Err(OffsetRefused::TooMany) => Some(Err(Refusal::of(ErrorCode::TooManyConsumerOffsets))),
                    Err(_) => Some(Err(Refusal::because(
                        ErrorCode::InvalidOffset,
                        format!("offset {offset} is behind the last message of the partition"),
                    ))),
                }
            }
            Control::DeleteOffset { consumer } if !self.state.offsets.contains_key(&consumer) => {
                Some(Err(Refusal::of(ErrorCode::ConsumerOffsetNotFound)))
            }
            Control::Purge { intent } if intent <= self.state.purge_intent => Some(Ok(())),
            _ => None,
        }
    }

    /// Why nothing can be written, if so.
    fn unusable(&self) -> Option<Refusal> {
        match &self.condition {
            Condition::Fine => None,
            Condition::Damaged(damage) => Some(Refusal::because(
                ErrorCode::TopicFull,
                format!("{damage}; the partition takes no writes. Restore the file from a backup, or delete the topic"),
            )),
            Condition::Missing => Some(Refusal::because(
                ErrorCode::TopicFull,
                format!(
                    "the data of partition {} is missing from the data directory ({}). Restore it from a backup, or delete the topic",
                    self.settings.partition,
                    whippet_storage::GroupDirectory { number: self.group.number, life: self.group.life }
                ),
            )),
        }
    }

    /// Whether a poll would skip messages because the files in which the log begins are gone.
    fn lost_at_start(&self, start: Start) -> bool {
        let lost = matches!(self.condition, Condition::Damaged(_)) && self.log.first_op() > self.state.purge_op + 1;
        lost && match start {
            Start::Offset(offset) => offset < self.log.sums().first_offset,
            Start::Timestamp(_) => true,
        }
    }

    fn pop_waiting(&mut self) -> Waiting {
        let waiting = self.waiting.pop_front().expect("a write waits");
        self.waiting_bytes -= waiting.work.bytes();
        waiting
    }

    fn refuse_waiting(&mut self, refusal: Refusal, cx: &mut Context<'_>) {
        while !self.waiting.is_empty() {
            let waiting = self.pop_waiting();
            refuse(waiting.answer, refusal.clone(), cx);
        }
    }

    /// Everything that waits gets this answer: the group is going away.
    pub(crate) fn close(&mut self, cx: &mut Context<'_>) {
        let refusal = Refusal::because(ErrorCode::PartitionNotFound, "the partition was deleted");
        self.refuse_waiting(refusal.clone(), cx);
        for (_, answers) in std::mem::take(&mut self.in_flight) {
            for answer in answers {
                refuse(answer, refusal.clone(), cx);
            }
        }
        for (_, poll) in std::mem::take(&mut self.polls) {
            cx.reply(poll.ticket, Reply::Refused(refusal.clone()));
        }
    }

    pub(crate) fn stats(&self) -> PartitionStats {
        let sums = self.log.sums();
        let fresh = self.state.last_offset.is_none() && self.state.next_offset == 0;
        PartitionStats {
            size_bytes: sums.bytes,
            messages: sums.messages,
            segments: sums.segments,
            current_offset: self.state.current_offset(),
            first_offset: if fresh { 0 } else { sums.first_offset },
            next_offset: self.state.next_offset,
        }
    }

    pub(crate) fn offset(&self, consumer: Consumer) -> OffsetInfo {
        OffsetInfo {
            current_offset: self.state.current_offset(),
            stored_offset: self.state.offsets.get(&consumer).copied(),
        }
    }

    /// Starts a poll; it may be answered at once.
    #[allow(clippy::too_many_arguments, reason = "the fields of one request")]
    pub(crate) fn start_poll(
        &mut self,
        ticket: RequestTicket,
        consumer: Consumer,
        strategy: Strategy,
        count: u32,
        max_bytes: u32,
        auto_commit: bool,
        identity: Identity,
        cx: &mut Context<'_>,
    ) {
        if self.condition == Condition::Missing {
            let refusal = self.unusable().expect("missing data is unusable");
            return cx.reply(ticket, Reply::Refused(refusal));
        }
        let start = match strategy {
            Strategy::Offset(offset) => Start::Offset(offset),
            Strategy::Timestamp(timestamp) => Start::Timestamp(timestamp),
            Strategy::First => Start::Offset(0),
            Strategy::Last => Start::Offset((self.state.current_offset() + 1).saturating_sub(u64::from(count))),
            Strategy::Next => {
                Start::Offset(self.state.offsets.get(&consumer).map_or(0, |stored| stored.saturating_add(1)))
            }
        };
        if let (true, Some(refusal)) = (self.lost_at_start(start), self.unusable()) {
            return cx.reply(ticket, Reply::Refused(refusal));
        }
        let past_the_end = match start {
            Start::Offset(offset) => self.state.last_offset.is_none_or(|last| offset > last),
            Start::Timestamp(_) => self.state.last_offset.is_none(),
        };
        let Some(limit) = self.limit.filter(|_| !past_the_end && count > 0) else {
            if let (Condition::Damaged(_), Some(refusal)) = (&self.condition, self.unusable()) {
                return cx.reply(ticket, Reply::Refused(refusal));
            }
            return cx.reply(ticket, Reply::Polled(self.polled(Vec::new(), 0)));
        };
        if self.polls.len() >= POLLS_MAX {
            let refusal = Refusal::because(
                ErrorCode::TransientNotAccepted,
                "too many polls of this partition are under way; try again",
            );
            return cx.reply(ticket, Reply::Refused(refusal));
        }
        let hints: Vec<Hint> = self.hints.iter().flatten().copied().collect();
        let poll = Poll::new(&self.log, start, count, u64::from(max_bytes), limit, &hints);
        let id = self.next_poll;
        self.next_poll += 1;
        self.polls.insert(id, ActivePoll { poll, ticket, consumer, auto_commit, identity });
        self.step_poll(id, cx);
    }

    /// Bytes for a poll have arrived.
    pub(crate) fn handle_read(&mut self, id: u64, completion: StorageCompletion, cx: &mut Context<'_>) {
        let Some(active) = self.polls.get_mut(&id) else { return };
        let failed = match completion.result {
            Ok(bytes) => active.poll.handle_bytes(&self.log, &bytes).err().map(|damage| damage.to_string()),
            // A purge or a deletion took the segment away under the read: what was found until then is the answer.
            Err(_) if active.poll.segment().is_some_and(|at| self.log.segment_end(at).is_none()) => {
                active.poll.stop();
                None
            }
            Err(error) => Some(error.to_string()),
        };
        match failed {
            None => self.step_poll(id, cx),
            Some(reason) => {
                let active = self.polls.remove(&id).expect("looked at it");
                let text = format!("{reason}. Messages there can't be served; restore the file from a backup");
                cx.effects.push_back(Effect::Notice(Notice::new(Severity::Error, self.group, text.clone())));
                cx.reply(active.ticket, Reply::Refused(Refusal::because(ErrorCode::TopicFull, text)));
            }
        }
    }

    fn step_poll(&mut self, id: u64, cx: &mut Context<'_>) {
        let active = self.polls.get_mut(&id).expect("the poll is under way");
        match active.poll.step(&self.log) {
            Step::Read { file, position, length } => {
                let owner = Owner::Poll { slot: self.slot, group: self.group, poll: id };
                whippet_log::Issue::issue(&mut cx.issuer(owner), StorageOp::Read { file, position, length });
            }
            Step::Done => {
                let ActivePoll { poll, ticket, consumer, auto_commit, identity } =
                    self.polls.remove(&id).expect("looked at it");
                let (chunks, count, last_offset, hint) = poll.finish();
                if let (0, Condition::Damaged(_), Some(refusal)) = (count, &self.condition, self.unusable()) {
                    // What was asked for lies at the damage or behind it: nothing is not the answer.
                    return cx.reply(ticket, Reply::Refused(refusal));
                }
                if let Some(hint) = hint {
                    self.remember(hint);
                }
                let polled = self.polled(chunks, count);
                match last_offset {
                    Some(offset) if auto_commit => {
                        let control = Control::StoreOffset { consumer, offset, forward_only: true };
                        // Not numbered: SDKs do not number polls, and storing the same offset again changes nothing.
                        let identity = Identity { client: 0, request: 0, ..identity };
                        self.push(Work::Control { identity, control }, Answer::Polled(ticket, polled), cx);
                    }
                    _ => cx.reply(ticket, Reply::Polled(polled)),
                }
            }
        }
    }

    fn remember(&mut self, hint: Hint) {
        if let Some(known) = self.hints.iter_mut().flatten().find(|known| known.offset == hint.offset) {
            *known = hint;
            return;
        }
        self.hints[self.next_hint] = Some(hint);
        self.next_hint = (self.next_hint + 1) % HINTS;
    }

    fn polled(&self, chunks: Vec<Bytes>, count: u32) -> Polled {
        Polled { current_offset: self.state.current_offset(), first_offset: self.stats().first_offset, count, chunks }
    }
}

impl Work {
    fn bytes(&self) -> usize {
        match self {
            Work::Send { buffer, .. } => buffer.len(),
            Work::Control { .. } => 64,
        }
    }

    fn identity(&self) -> Identity {
        match self {
            Work::Send { identity, .. } | Work::Control { identity, .. } => *identity,
        }
    }
}

/// When to try again a write that found no room: at the time that was set before, which traffic must not put off.
pub(crate) fn retry_at(deadline_ns: Option<u64>, now_ns: u64) -> u64 {
    deadline_ns.filter(|deadline| *deadline > now_ns).unwrap_or(now_ns + RETRY_NS)
}

fn disk_full() -> Refusal {
    Refusal::because(
        ErrorCode::TransientNotAccepted,
        "the disk is full: free space or delete topics, then try again; reads go on",
    )
}

fn refuse(answer: Answer, refusal: Refusal, cx: &mut Context<'_>) {
    match answer {
        Answer::Nobody => {}
        Answer::Sent(ticket) | Answer::Done(ticket) | Answer::Polled(ticket, _) => {
            cx.reply(ticket, Reply::Refused(refusal))
        }
    }
}

/// Answers a request whose effect was remembered from an earlier attempt.
fn answer_known(answer: Answer, remembered: Remembered, cx: &mut Context<'_>) {
    match (answer, remembered) {
        (Answer::Sent(ticket), Remembered::Appended(base_offset)) => {
            cx.reply(ticket, Reply::Sent { base_offset, duplicate: true });
        }
        (Answer::Sent(ticket) | Answer::Done(ticket), _) if matches!(remembered, Remembered::Appended(_)) => {
            // The number was used for another kind of request before.
            cx.reply(ticket, Reply::Refused(Refusal::of(ErrorCode::RequestAlreadyApplied)));
        }
        (other, remembered) => answer_applied(other, remembered, cx),
    }
}

fn answer_applied(answer: Answer, remembered: Remembered, cx: &mut Context<'_>) {
    match (answer, remembered) {
        (Answer::Nobody, _) => {}
        (Answer::Sent(ticket), Remembered::Appended(base_offset)) => {
            cx.reply(ticket, Reply::Sent { base_offset, duplicate: false });
        }
        (Answer::Sent(ticket), Remembered::Offset) => {
            cx.reply(ticket, Reply::Refused(Refusal::of(ErrorCode::RequestAlreadyApplied)));
        }
        (Answer::Done(ticket), _) => cx.reply(ticket, Reply::Done),
        (Answer::Polled(ticket, polled), _) => cx.reply(ticket, Reply::Polled(polled)),
    }
}
