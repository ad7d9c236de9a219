//! Reading messages: polls walk the log in steps, from committed state only.

use super::{Condition, Context, HINTS, POLLS_MAX, PartitionGroup, Work};
use crate::effect::Effect;
use crate::notice::{Notice, Severity};
use crate::partition_group::Answer;
use crate::request::{Identity, Polled, Refusal, Reply, RequestTicket, Strategy};
use crate::tickets::Owner;
use bytes::Bytes;
use whippet_partition::poll::{Hint, Poll, Start, Step};
use whippet_partition::{Consumer, Control};
use whippet_protocol::ErrorCode;
use whippet_storage::{StorageCompletion, StorageOp};

#[derive(Debug)]
pub(super) struct ActivePoll {
    poll: Poll,
    pub(super) ticket: RequestTicket,
    consumer: Consumer,
    auto_commit: bool,
    identity: Identity,
}

impl PartitionGroup {
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
        let poll = Poll::new(&self.member.log, start, count, u64::from(max_bytes), limit, &hints);
        let id = self.next_poll;
        self.next_poll += 1;
        self.polls.insert(id, ActivePoll { poll, ticket, consumer, auto_commit, identity });
        self.step_poll(id, cx);
    }

    /// Bytes for a poll have arrived.
    pub(crate) fn handle_read(&mut self, id: u64, completion: StorageCompletion, cx: &mut Context<'_>) {
        let Some(active) = self.polls.get_mut(&id) else { return };
        let failed = match completion.result {
            Ok(bytes) => active.poll.handle_bytes(&self.member.log, &bytes).err().map(|damage| damage.to_string()),
            // A purge or a deletion took the segment away under the read: what was found until then is the answer.
            Err(_) if active.poll.segment().is_some_and(|at| self.member.log.segment_end(at).is_none()) => {
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
                cx.io.effects.push_back(Effect::Notice(Notice::new(Severity::Error, self.group, text.clone())));
                cx.reply(active.ticket, Reply::Refused(Refusal::because(ErrorCode::TopicFull, text)));
            }
        }
    }

    pub(super) fn step_poll(&mut self, id: u64, cx: &mut Context<'_>) {
        let active = self.polls.get_mut(&id).expect("the poll is under way");
        match active.poll.step(&self.member.log) {
            Step::Read { file, position, length } => {
                let owner = Owner::Poll { slot: self.slot, group: self.group, poll: id };
                whippet_log::Issue::issue(&mut cx.io.issuer(owner), StorageOp::Read { file, position, length });
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

    pub(super) fn remember(&mut self, hint: Hint) {
        if let Some(known) = self.hints.iter_mut().flatten().find(|known| known.offset == hint.offset) {
            *known = hint;
            return;
        }
        self.hints[self.next_hint] = Some(hint);
        self.next_hint = (self.next_hint + 1) % HINTS;
    }

    pub(super) fn polled(&self, chunks: Vec<Bytes>, count: u32) -> Polled {
        Polled { current_offset: self.state.current_offset(), first_offset: self.stats().first_offset, count, chunks }
    }

    /// Whether a poll would skip messages because the files in which the log begins are gone.
    pub(super) fn lost_at_start(&self, start: Start) -> bool {
        let lost =
            matches!(self.condition, Condition::Damaged(_)) && self.member.log.first_op() > self.state.purge_op + 1;
        lost && match start {
            Start::Offset(offset) => offset < self.member.log.sums().first_offset,
            Start::Timestamp(_) => true,
        }
    }
}
