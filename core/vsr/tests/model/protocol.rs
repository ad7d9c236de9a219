//! What can happen next: the rules of votes and recovery, each with the ways in which it can be broken.
//!
//! Steps that nothing could tell apart are one step: a durable promise and the vote that rests on it, a log that is held
//! and its acknowledgement. A crash and the restart are one step too: a replica that is down does nothing, and neither
//! does one that is up and to which nothing is delivered.

use crate::logs::{EMPTY, LogId, Logs};
use crate::message::{Message, Messages, ReplicaId, Universe, primary};
use crate::rules::{Broken, Config, Level, Suspicion};
use crate::state::{NEVER, Replica, State, Status};

/// A replica, and what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    pub by: ReplicaId,
    pub deed: Deed,
}

/// What a replica does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Loses what is not durable, and is another incarnation.
    Crash,
    /// Comes back with an empty disk.
    Replace,
    /// Says that it would go to the next view.
    Suspect,
    /// Goes to a view.
    Move { view: u8 },
    /// Votes for its view.
    Vote,
    /// Makes its view durable.
    Persist,
    /// As the primary, appends a new entry and sends it.
    Propose,
    /// As the primary, has its log on disk and counts itself.
    Flush,
    /// As the primary of the view that is to begin, with its own vote and that of `with`.
    Begin { with: ReplicaId },
    /// Notes the view as that of its log, whatever it holds.
    RaiseLogView,
    /// Takes over the first entries of a log.
    TakePart { of: u8 },
    /// Tells a recovering replica the view and its log.
    Answer { to: ReplicaId },
    /// Paper's recovery: tells a recovering replica the view.
    Witness { to: ReplicaId },
    /// Appends what the primary of its view sent, and acknowledges.
    Append,
    /// Takes over the whole log of a view, takes part in that view and acknowledges.
    Adopt { view: u8 },
    /// The same, on an answer to its question.
    Recover { view: u8 },
}

/// What can be done and the state after it.
pub type Step = (Action, State);

/// A protocol within bounds.
pub struct Model {
    pub config: Config,
    pub logs: Logs,
    pub universe: Universe,
}

impl Model {
    /// Numbers the logs and messages there can be. Panics if they do not fit into a state.
    pub fn new(config: Config) -> Model {
        // Only a primary that resumes a view without its log proposes twice for one slot.
        let proposals = if config.is(Broken::ResumePrimary) { 2 } else { 1 };
        let logs = Logs::new(config.views, config.slots, proposals);
        let universe = Universe::new(&config, &logs);
        Model { config, logs, universe }
    }

    /// Where everything starts: view 0 began, with nothing in it.
    pub fn initial(&self) -> State {
        let mut state = State::initial();
        self.send(&mut state, Message::Lead { view: 0, log: EMPTY });
        self.suspect_eagerly(&mut state);
        state
    }

    /// Replaces what is in `steps` by all that can happen in `state`. Steps that change nothing may be among them.
    pub fn expand(&self, state: &State, steps: &mut Vec<Step>) {
        steps.clear();
        for by in 0..3 {
            self.restart(state, by, false, steps);
            self.restart(state, by, true, steps);
            if state.replica(by).status != Status::Recovering {
                self.suspect(state, by, steps);
                self.change_view(state, by, steps);
            }
            if state.replica(by).status == Status::Normal {
                self.lead(state, by, steps);
                self.answer(state, by, steps);
            }
        }
        let mut bit = 0;
        while let Some(found) = state.sent.next(&self.universe.deliveries, bit) {
            match self.universe.message(found) {
                Message::Lead { view, log } => {
                    for to in 0..3 {
                        if to != primary(view) {
                            self.on_lead(state, to, view, log, steps);
                        }
                    }
                }
                Message::Answer { to, view, log } => self.on_answer(state, to, view, log, steps),
                _ => unreachable!("only leads and answers are delivered one by one"),
            }
            bit = found + 1;
        }
    }

    /// From now on `message` may arrive.
    pub fn send(&self, state: &mut State, message: Message) {
        state.sent.insert(self.universe.bit(message));
    }

    /// Whether `message` was sent, and can still have an effect.
    pub fn was_sent(&self, state: &State, message: Message) -> bool {
        state.sent.has(self.universe.bit(message))
    }

    /// Adds the step that leads to `state`.
    pub fn done(&self, by: ReplicaId, deed: Deed, mut state: State, steps: &mut Vec<Step>) {
        self.suspect_eagerly(&mut state);
        self.forget_dead_messages(&mut state);
        steps.push((Action { by, deed }, state));
    }

    fn restart(&self, state: &State, by: ReplicaId, new_disk: bool, steps: &mut Vec<Step>) {
        let down = |id: ReplicaId| id != by && state.replica(id).status == Status::Recovering;
        let spent = if new_disk {
            state.replacements == self.config.replacements
        } else {
            state.crashes == self.config.crashes
        };
        if spent || (self.config.one_down && (0..3).any(down)) {
            return;
        }
        let mut next = *state;
        let replica = next.replica_mut(by);
        match self.config.level {
            // Who was not let in with its new disk still is not.
            _ if replica.voter_from == NEVER => {}
            Level::Replicated => {
                replica.log = EMPTY;
                replica.status = Status::Recovering;
            }
            Level::Persisted => {
                replica.log = self.logs.cut(replica.log, self.logs.len(replica.log) - replica.unsynced);
                replica.status = Status::Abstaining;
            }
        }
        replica.unsynced = 0;
        match self.config.broken {
            Broken::PaperRecovery => {
                replica.durable_view = 0;
                replica.log_view = 0;
            }
            Broken::RecoveringVotes => replica.status = Status::Abstaining,
            Broken::ResumePrimary
                if primary(replica.durable_view) == by && replica.log_view == replica.durable_view =>
            {
                replica.status = Status::Normal;
            }
            _ => {}
        }
        if new_disk {
            replica.durable_view = 0;
            replica.log_view = 0;
            replica.log = EMPTY;
            replica.status = Status::Recovering;
            replica.voter_from = if self.config.is(Broken::EmptyDisk) { 0 } else { NEVER };
        }
        replica.view = replica.durable_view;
        if next.replica(by) == state.replica(by) {
            // It would only have used up a crash.
            return;
        }
        next.crashes += u8::from(!new_disk);
        next.replacements += u8::from(new_disk);
        self.forget_answers(&mut next, by);
        self.done(by, if new_disk { Deed::Replace } else { Deed::Crash }, next, steps);
    }

    fn suspects(&self, state: &State, view: u8) -> usize {
        (0..3).filter(|from| self.was_sent(state, Message::Suspect { view, from: *from })).count()
    }

    /// Suspicion as a message of its own, which binds nobody. In the paper it is part of the move.
    fn suspect(&self, state: &State, by: ReplicaId, steps: &mut Vec<Step>) {
        let view = state.replica(by).view + 1;
        let suspicion = Message::Suspect { view, from: by };
        if self.config.suspicion != Suspicion::Quorum || view == self.config.views || self.was_sent(state, suspicion) {
            return;
        }
        let mut next = *state;
        self.send(&mut next, suspicion);
        self.done(by, Deed::Suspect, next, steps);
    }

    fn suspect_eagerly(&self, state: &mut State) {
        let durable_first = match self.config.suspicion {
            Suspicion::Eager => false,
            Suspicion::Durable => true,
            _ => return,
        };
        for from in 0..3 {
            let &Replica { status, view, durable_view, .. } = state.replica(from);
            let may = !durable_first || view == durable_view;
            if may && status != Status::Recovering && view + 1 < self.config.views {
                self.send(state, Message::Suspect { view: view + 1, from });
            }
        }
    }

    fn change_view(&self, state: &State, by: ReplicaId, steps: &mut Vec<Step>) {
        let replica = state.replica(by);
        for view in replica.view + 1..self.config.views {
            let voted = || primary(view) == by && state.sent.next(&self.universe.votes_for[view as usize], 0).is_some();
            let may = match self.config.suspicion {
                Suspicion::Any => true,
                Suspicion::Quorum | Suspicion::Eager | Suspicion::Durable => self.suspects(state, view) >= 2 || voted(),
                Suspicion::Paper => view == replica.view + 1 || self.suspects(state, view) > 0,
            };
            if may {
                let mut next = *state;
                next.replica_mut(by).view = view;
                next.replica_mut(by).status = Status::Deciding;
                if self.config.suspicion == Suspicion::Paper {
                    self.send(&mut next, Message::Suspect { view, from: by });
                }
                self.done(by, Deed::Move { view }, next, steps);
            }
        }
        let told = self.config.suspicion != Suspicion::Paper || self.suspects(state, replica.view) >= 2;
        if replica.status == Status::Deciding && told && replica.view >= replica.voter_from {
            let mut next = *state;
            let voter = next.replica_mut(by);
            voter.status = Status::Voted;
            voter.unsynced = 0;
            if !self.config.is(Broken::PaperRecovery) && !self.config.is(Broken::VoteBeforeDurable) {
                voter.durable_view = voter.view;
            }
            let (view, log_view, log) = (voter.view, voter.log_view, voter.log);
            self.send(&mut next, Message::Vote { view, from: by, log_view, log });
            self.done(by, Deed::Vote, next, steps);
        }
        if self.config.is(Broken::VoteBeforeDurable) && replica.durable_view < replica.view {
            let mut next = *state;
            next.replica_mut(by).durable_view = replica.view;
            self.done(by, Deed::Persist, next, steps);
        }
        if replica.status == Status::Voted && primary(replica.view) == by {
            self.begin(state, by, steps);
        }
    }

    /// Whether the first vote's log is to be chosen rather than the other's.
    fn better(&self, first: (u8, LogId), other: (u8, LogId)) -> bool {
        let (first_len, other_len) = (self.logs.len(first.1), self.logs.len(other.1));
        if self.config.is(Broken::LongestLogWins) {
            first_len > other_len
        } else {
            (first.0, first_len) > (other.0, other_len)
        }
    }

    /// The best of three votes is also the best of the primary's own and one of the others': two are enough to look at.
    fn begin(&self, state: &State, by: ReplicaId, steps: &mut Vec<Step>) {
        let view = state.replica(by).view;
        let votes = &self.universe.votes_for[view as usize];
        let mut own_bit = 0;
        while let Some(own) = state.sent.next(votes, own_bit) {
            own_bit = own + 1;
            let Message::Vote { from, log_view, log, .. } = self.universe.message(own) else { continue };
            if from != by {
                continue;
            }
            let mut other_bit = 0;
            while let Some(other) = state.sent.next(votes, other_bit) {
                other_bit = other + 1;
                let Message::Vote { from: with, log_view: others_view, log: others, .. } = self.universe.message(other)
                else {
                    continue;
                };
                if with != by {
                    let taken = self.better((others_view, others), (log_view, log));
                    self.begin_with(state, by, with, if taken { others } else { log }, steps);
                }
            }
        }
    }

    fn begin_with(&self, state: &State, by: ReplicaId, with: ReplicaId, chosen: LogId, steps: &mut Vec<Step>) {
        let replica = state.replica(by);
        let view = replica.view;
        if self.config.is(Broken::LogViewEarly) && replica.log_view < view && replica.log != chosen {
            let mut next = *state;
            next.replica_mut(by).log_view = view;
            self.done(by, Deed::RaiseLogView, next, steps);
        }
        self.take_parts(state, by, view, chosen, steps);
        let mut next = *state;
        self.adopt(&mut next, by, view, chosen);
        self.send(&mut next, Message::Lead { view, log: chosen });
        self.done(by, Deed::Begin { with }, next, steps);
    }

    fn lead(&self, state: &State, by: ReplicaId, steps: &mut Vec<Step>) {
        let replica = state.replica(by);
        let view = replica.view;
        if primary(view) != by {
            return;
        }
        let unused = (0..self.logs.proposals()).find(|nth| {
            self.logs
                .child(replica.log, view, *nth)
                .is_some_and(|log| !self.was_sent(state, Message::Lead { view, log }))
        });
        if let Some(log) = unused.and_then(|nth| self.logs.child(replica.log, view, nth)) {
            let mut next = *state;
            let leader = next.replica_mut(by);
            leader.log = log;
            match self.config.level {
                Level::Persisted => leader.unsynced += 1,
                Level::Replicated => self.acknowledge(&mut next, view, by, log),
            }
            self.send(&mut next, Message::Lead { view, log });
            self.done(by, Deed::Propose, next, steps);
        }
        if replica.unsynced > 0 {
            let mut next = *state;
            next.replica_mut(by).unsynced = 0;
            self.acknowledge(&mut next, view, by, replica.log);
            self.done(by, Deed::Flush, next, steps);
        }
    }

    /// Whoever recovers asks again and again; that question is not a message here, since it may come at any time. A replica
    /// with a new disk may have voted for any view: it is answered once the other two are seen to be in the same view.
    fn answer(&self, state: &State, by: ReplicaId, steps: &mut Vec<Step>) {
        let &Replica { view, log, .. } = state.replica(by);
        for to in 0..3 {
            let asks = state.replica(to).status == Status::Recovering && state.replica(to).durable_view <= view;
            if !asks || to == by {
                continue;
            }
            let third = 3 - to - by;
            let newcomer = state.replica(to).voter_from == NEVER && !self.config.is(Broken::UnprovenView);
            let (message, deed) = if primary(view) == by {
                if newcomer && !self.was_sent(state, Message::Witness { to, from: third, view }) {
                    continue;
                }
                (Message::Answer { to, view, log }, Deed::Answer { to })
            } else if self.config.is(Broken::PaperRecovery) || (newcomer && view >= state.replica(by).voter_from) {
                (Message::Witness { to, from: by, view }, Deed::Witness { to })
            } else {
                continue;
            };
            if !self.was_sent(state, message) {
                let mut next = *state;
                self.send(&mut next, message);
                self.done(by, deed, next, steps);
            }
        }
    }

    /// What was said about `view` to the present incarnation of `to`.
    pub fn answers_of(&self, to: ReplicaId, view: u8) -> Messages {
        self.universe.answers_to[to as usize][view as usize]
    }

    /// What was said to an incarnation that does not ask any more.
    pub fn forget_answers(&self, state: &mut State, to: ReplicaId) {
        if !self.config.is(Broken::AnyAnswerRecovers) {
            for view in 0..self.config.views {
                state.sent.remove_all(&self.answers_of(to, view));
            }
        }
    }

    /// Leaves out messages that nobody will ever act upon: states that differ only in those are the same.
    fn forget_dead_messages(&self, state: &mut State) {
        if !self.config.forget || state.replacements < self.config.replacements {
            // A promise that a lost disk held keeps nobody from acting any more.
            return;
        }
        let durable = [state.replicas[0].durable_view, state.replicas[1].durable_view, state.replicas[2].durable_view];
        let lowest = durable[0].min(durable[1]).min(durable[2]);
        for view in 0..self.config.views {
            let of = view as usize;
            if view < lowest {
                state.sent.remove_all(&self.universe.leads_of[of]);
            }
            if view <= lowest {
                state.sent.remove_all(&self.universe.suspects_of[of]);
            }
            // An elect counts votes only in the life in which it cast its own.
            let elect = state.replica(primary(view));
            let counting = elect.view == view && matches!(elect.status, Status::Deciding | Status::Voted);
            if elect.durable_view > view || (elect.durable_view == view && !counting) {
                state.sent.remove_all(&self.universe.votes_for[of]);
            }
            for from in 0..3 {
                if durable[from] > view {
                    state.sent.remove_all(&self.universe.answers_to[from][of]);
                }
                // Nobody else can acknowledge the same any more.
                if durable[(from + 1) % 3] > view && durable[(from + 2) % 3] > view {
                    state.sent.remove_all(&self.universe.acks_of[of][from]);
                }
            }
        }
    }
}
