//! One partition: its replica, its log and its state machine, and what waits for them.
//!
//! A write walks: `waiting` → admitted ([`PartitionGroup::admit`]) → proposed → written to the log → durable → committed →
//! applied → answered. What must hold before a write gets an op: the group is in the group table, offsets are reserved
//! durably, the disk has room, the pipeline has room, and no purge is under way.

use crate::effect::Effect;
use crate::member::{Happened, Io, Member, retry_at};
use crate::request::{Identity, OffsetInfo, PartitionStats, Polled, Refusal, Reply, RequestTicket};
use crate::tickets::Owner;
use bytes::{Buf, BytesMut};
use polls::ActivePoll;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use whippet_log::{Damage, Fatal, Log, LogEnd, RESERVATION, Space};
use whippet_metadata::state::PartitionSettings;
use whippet_partition::dedup::{Effect as Remembered, Known};
use whippet_partition::poll::{Hint, ReadLimit};
use whippet_partition::record::{BATCH, control_hash};
use whippet_partition::{Consumer, Control, OffsetRefused, PartitionState};
use whippet_protocol::{ErrorCode, batch};
use whippet_storage::{GroupDirectory, StorageCompletion};
use whippet_vsr::{Draft, Entry, EntryId, GroupId, HEADER_SIZE, NotAccepted, Now, OpNumber, Replica};

mod polls;
mod replication;

/// Writes that may wait for admission.
pub(crate) const WAITING_MAX: usize = 8192;
/// Bytes of those writes.
pub(crate) const WAITING_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Polls of one partition that may be under way.
const POLLS_MAX: usize = 4096;
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
pub(crate) struct Applied {
    pub(crate) op: OpNumber,
    pub(crate) id: EntryId,
    pub(crate) timestamp: u64,
}

#[derive(Debug)]
pub(crate) struct PartitionGroup {
    pub(crate) settings: PartitionSettings,
    group: GroupId,
    slot: u32,
    pub(crate) member: Member,
    state: PartitionState,
    applied: Applied,
    pub(crate) condition: Condition,
    pub(crate) listed: Listed,
    /// Offset of the next batch that is proposed. Ahead of the state's by what is in flight.
    next_offset: u64,
    /// A view has begun, and `next_offset` is not known before what it inherited is applied.
    renumber: bool,
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
    /// A declared loss is not in the log yet.
    loss_pending: bool,
    /// The group table could not be written: what waits is refused.
    disk_full: bool,
    /// When the shard must look at the group although nothing happened.
    pub(crate) deadline_ns: Option<u64>,
}

/// What a group needs of its shard while it works.
pub(crate) struct Context<'a> {
    pub(crate) io: &'a mut Io,
    pub(crate) now: Now,
}

impl Context<'_> {
    fn reply(&mut self, ticket: RequestTicket, reply: Reply) {
        self.io.effects.push_back(Effect::Reply { ticket, reply });
    }
}

/// What recovery or creation gives a group to start from.
pub(crate) struct Parts {
    pub(crate) settings: PartitionSettings,
    pub(crate) slot: u32,
    pub(crate) replica: Replica,
    pub(crate) log: Log,
    pub(crate) state: PartitionState,
    pub(crate) applied: Applied,
    pub(crate) condition: Condition,
    pub(crate) listed: Listed,
    pub(crate) snapshots: Vec<u64>,
}

impl PartitionGroup {
    pub(crate) fn new(parts: Parts) -> PartitionGroup {
        let Parts { settings, slot, replica, log, state, applied, condition, listed, snapshots } = parts;
        let limit = limit(&replica, &log, applied.op);
        let group = GroupId { number: settings.group.number, life: settings.group.life };
        let owner = Owner::Partition { slot, group };
        PartitionGroup {
            group,
            settings,
            slot,
            next_offset: state.next_offset,
            applied,
            member: Member::new(replica, log, owner, snapshots),
            state,
            condition,
            listed,
            renumber: false,
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
            loss_pending: false,
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
    pub(crate) fn finish_recovery(&mut self, torn: bool, lost: Option<u64>, mute: bool, cx: &mut Context<'_>) {
        let owner = self.owner();
        if mute {
            // Its peers know more. The next start must not take what is missing for damage.
            self.member.log.accept_loss();
        } else if torn {
            self.member.log.cut_tail(&mut cx.io.issuer(owner));
        }
        if let Some(next_offset) = lost {
            let control = Control::Loss { next_offset };
            self.loss_pending = true;
            self.push(Work::Control { identity: Identity::default(), control }, Answer::Nobody, cx);
        }
        if self.state.purge_op > 0 && self.member.log.first_op() <= self.state.purge_op {
            self.member.log.purge_up_to(OpNumber(self.state.purge_op));
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
        let now_ns = cx.now.monotonic_ns;
        if self.deadline_ns.is_some_and(|deadline| deadline <= now_ns) && self.member.log.needs_retry() {
            self.member.log.retry(&mut cx.io.issuer(owner));
        }
        self.member.replica.handle_tick(now_ns);
        loop {
            self.admit(cx);
            self.advance(cx);
            if !self.drain_replica(cx) {
                break;
            }
        }
        if self.member.log.wants_snapshot() {
            self.take_snapshot();
            let now = cx.now;
            self.member.log.drive(now, &mut cx.io.issuer(owner));
        }
        if !self.member.log.is_rewinding() {
            self.member.log.remove_superseded(&mut self.member.snapshots, &mut cx.io.issuer(owner));
        }
        let log = if self.member.log.needs_retry() {
            Some(retry_at(self.deadline_ns, now_ns))
        } else {
            self.member.log.timeout_ns()
        };
        self.deadline_ns =
            [log, self.member.retry_at_ns(), self.member.replica.deadline_ns()].into_iter().flatten().min();
    }

    fn advance(&mut self, cx: &mut Context<'_>) {
        // An entry in the group table says that a group without files has lost them, so it comes before the first record, and
        // after the first file that survives anything.
        if self.member.has_unwritten() && self.listed == Listed::No {
            if self.member.log.reserved() == 0 {
                self.member.log.reserve(0);
            } else {
                self.listed = Listed::Soon;
                cx.io.to_list.push(self.group);
            }
        }
        let now = cx.now;
        self.member.advance(self.listed == Listed::Yes, true, cx.io, now);
    }

    fn take_snapshot(&mut self) {
        let Applied { op, id, timestamp } = self.applied;
        let state = self.state.snapshot();
        self.member.log.take_snapshot(op, id, timestamp, self.state.generation, &state);
        self.member.snapshots.push(op.0 + 1);
        if self.state.purge_op == op.0 {
            // The log begins behind it, so a peer that lags too far begins with it.
            self.member.set_offer(op.next(), id, timestamp, state.into());
        }
    }

    /// Where the state machine stands.
    fn applied_end(&self) -> LogEnd {
        let Applied { op, id, timestamp } = self.applied;
        LogEnd { op, id, timestamp, next_offset: self.state.next_offset }
    }

    /// Carries out what the replica wants; whether there was anything.
    fn drain_replica(&mut self, cx: &mut Context<'_>) -> bool {
        let mut any = false;
        while let Some(happened) = self.member.poll(self.applied_end(), cx.io) {
            any = true;
            match happened {
                Happened::Apply(entry) => self.apply(&entry, cx),
                Happened::Install(info, bytes) => self.install(info, &bytes, cx),
                Happened::Left => self.leave(cx),
                Happened::Began => self.begin(cx),
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
            match self.member.replica.admits(0) {
                Ok(()) | Err(NotAccepted::PipelineFull { .. }) => {}
                // What was carried out is known for certain only to a primary that has caught up.
                Err(NotAccepted::NotPrimary { .. } | NotAccepted::NotNormal) => {
                    self.refuse_waiting(not_primary(), cx);
                    return;
                }
            }
            if self.renumber {
                if self.applied.op != self.member.replica.applied() {
                    return;
                }
                self.renumber = false;
                self.next_offset = self.state.next_offset;
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
            // The place of the next record follows from the log.
            let now = cx.now;
            self.member.write(true, true, cx.io, now);
        }
    }

    /// Whether the write at the front may get an op now; `Err` when it and all behind it are to be refused.
    fn ready(&mut self, cx: &mut Context<'_>) -> Result<bool, Refusal> {
        let front = self.waiting.front().expect("called with a write waiting");
        let (count, bytes, purge) = match &front.work {
            Work::Send { batch, count, .. } => (u64::from(*count), HEADER_SIZE + batch.len(), false),
            Work::Control { control, .. } => (0, HEADER_SIZE + 16, matches!(control, Control::Purge { .. })),
        };
        if self.member.has_unwritten() {
            return Ok(false);
        }
        // Nothing new is taken while a write waits for room: it would only wait behind it.
        if std::mem::take(&mut self.disk_full) || self.member.log.needs_retry() {
            return Err(disk_full());
        }
        let reserved = self.member.log.reserved();
        if reserved == 0 || self.next_offset + count > reserved {
            self.member.log.reserve(self.next_offset + count);
            return Ok(false);
        }
        // Only now, when the group has a file that survives anything: a group that is listed and has none has lost it.
        match self.listed {
            Listed::Yes => {}
            Listed::Soon => return Ok(false),
            Listed::No => {
                self.listed = Listed::Soon;
                cx.io.to_list.push(self.group);
                return Ok(false);
            }
        }
        if reserved - self.next_offset < RESERVATION / 2 {
            self.member.log.reserve(self.next_offset + count);
        }
        if purge && !self.member.replica.is_quiet() {
            return Ok(false);
        }
        match self.member.replica.admits(bytes) {
            Ok(()) => {}
            Err(NotAccepted::PipelineFull { .. }) => return Ok(false),
            Err(other) => return Err(Refusal::because(ErrorCode::TransientNotAccepted, other.to_string())),
        }
        let owner = self.owner();
        match self.member.log.ensure_space(bytes as u64, &mut cx.io.issuer(owner)) {
            Space::Ready => Ok(true),
            Space::Waiting => Ok(false),
            Space::Full => Err(disk_full()),
        }
    }

    fn propose(&mut self, work: Work, answer: Answer, cx: &mut Context<'_>) {
        let place = self.member.log.place();
        let timestamp = cx.now.wall_us.max(self.member.replica.head_timestamp() + 1);
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
        let op = self.member.replica.propose(draft).expect("admission was checked just before");
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
            self.settings.purged_by = self.settings.purged_by.max(self.state.purge_intent);
            self.hints = [None; HINTS];
            self.member.log.purge_up_to(header.op);
            self.take_snapshot();
        }
        // The record of the loss is the first one after recovery.
        self.loss_pending = false;
        if header.kind != BATCH && self.member.log.head() == header.op {
            self.member.log.set_next_offset(self.state.next_offset);
        }
        if header.client != 0 {
            self.in_flight_requests.remove(&(header.client, header.request));
        }
        let Some((_, answers)) = self.in_flight.pop_front_if(|(op, _)| *op == header.op) else { return };
        for answer in answers {
            let remembered =
                if header.kind == BATCH { Remembered::Appended(header.base_offset) } else { Remembered::Offset };
            answer_applied(answer, remembered, cx);
        }
    }

    /// A storage operation of the log has ended.
    pub(crate) fn handle_completion(&mut self, completion: StorageCompletion) -> Result<(), Fatal> {
        self.member.log.handle_completion(completion)
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
        self.member.log.flush();
    }

    /// Whether later starts must still be told that the machine stopped, because what that means here is not on disk yet: the
    /// record of a loss, or the evidence of a log that ends earlier.
    pub(crate) fn owes(&self) -> bool {
        self.loss_pending || self.member.log.is_rewinding()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
            && self.in_flight.is_empty()
            && !self.member.has_unwritten()
            && self.member.log.is_idle()
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
                    GroupDirectory { number: self.group.number, life: self.group.life }
                ),
            )),
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
        let sums = self.member.log.sums();
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
}

/// Up to where the log may be read: what is not applied is not shown.
fn limit(replica: &Replica, log: &Log, applied: OpNumber) -> Option<ReadLimit> {
    let (segment, end) = match replica.uncommitted().next() {
        Some(next) => log.end_before(next.header())?,
        None => log.end()?,
    };
    Some(ReadLimit { op: applied, segment, end })
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

fn not_primary() -> Refusal {
    Refusal::because(ErrorCode::TransientNotAccepted, "this node does not lead the partition at the moment; try again")
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
