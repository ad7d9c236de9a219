//! How a log is taken over: what a replica does when the log of a view reaches it.

use crate::logs::LogId;
use crate::message::{Message, ReplicaId, primary};
use crate::protocol::{Deed, Model, Step};
use crate::rules::Broken;
use crate::state::{NEVER, State, Status};

impl Model {
    /// Holds `log` as that of `view`, takes part in the view, and acknowledges. All of it is durable first.
    pub fn adopt(&self, state: &mut State, by: ReplicaId, view: u8, log: LogId) {
        if state.replica(by).status == Status::Recovering {
            self.forget_answers(state, by);
        }
        let replica = state.replica_mut(by);
        replica.status = Status::Normal;
        replica.view = view;
        if !self.config.is(Broken::PaperRecovery) {
            replica.durable_view = view;
        }
        replica.log_view = view;
        replica.log = log;
        replica.unsynced = 0;
        if replica.voter_from == NEVER {
            // The lost disk may have held votes for this view and the next; none beyond, for it was not in the next.
            replica.voter_from = view + 2;
        }
        if view >= replica.voter_from {
            self.acknowledge(state, view, by, log);
        }
    }

    /// `log` of `view` reaches `to`, which had not asked for it.
    pub fn on_lead(&self, state: &State, to: ReplicaId, view: u8, log: LogId, steps: &mut Vec<Step>) {
        let replica = state.replica(to);
        match replica.status {
            Status::Normal if replica.view == view => {
                if log != replica.log && self.logs.is_prefix(replica.log, log) {
                    let mut next = *state;
                    self.adopt(&mut next, to, view, log);
                    self.done(to, Deed::Append, next, steps);
                }
                return;
            }
            Status::Recovering => {
                if replica.voter_from == NEVER {
                    return;
                }
                let promised = replica.durable_view;
                let newer = view > promised || (view == promised && replica.log_view < view);
                let stale = self.config.is(Broken::StaleStartView) && view == promised;
                if self.config.is(Broken::PaperRecovery) || !(newer || stale) {
                    return;
                }
            }
            _ if view < replica.view => return,
            _ => {}
        }
        let held = replica.status != Status::Recovering && replica.log_view == view;
        let log = if held && self.logs.is_prefix(log, replica.log) { replica.log } else { log };
        if held && !self.logs.is_prefix(replica.log, log) {
            return;
        }
        if replica.status != Status::Recovering {
            self.take_parts(state, to, view, log, steps);
        }
        let mut next = *state;
        self.adopt(&mut next, to, view, log);
        self.done(to, Deed::Adopt { view }, next, steps);
    }

    /// A log is taken over where it differs, entry by entry, after the view is durable and without a change of the log view.
    pub fn take_parts(&self, state: &State, by: ReplicaId, view: u8, log: LogId, steps: &mut Vec<Step>) {
        let replica = state.replica(by);
        if !self.config.piecewise || replica.log_view == view {
            return;
        }
        for len in self.logs.common(replica.log, log)..self.logs.len(log) {
            let part = self.logs.cut(log, len);
            if part != replica.log {
                let mut next = *state;
                let taker = next.replica_mut(by);
                if taker.view != view || taker.status != Status::Voted {
                    taker.status = Status::Abstaining;
                }
                taker.view = view;
                taker.durable_view = view;
                taker.log = part;
                taker.unsynced = 0;
                self.done(by, Deed::TakePart { of: view }, next, steps);
            }
        }
    }

    /// An answer to the question of `to` reaches it. One is enough, since views are durable.
    pub fn on_answer(&self, state: &State, to: ReplicaId, view: u8, log: LogId, steps: &mut Vec<Step>) {
        let replica = state.replica(to);
        if replica.status != Status::Recovering || view < replica.durable_view || primary(view) == to {
            return;
        }
        // The paper wants answers of a quorum, and takes that of the primary of the newest view among them.
        let second = |from: ReplicaId| {
            from != to
                && (0..=view).any(|of| {
                    let leads = primary(of) == from && of < view;
                    self.was_sent(state, Message::Witness { to, from, view: of })
                        || (leads && state.sent.next(&self.answers_of(to, of), 0).is_some())
                })
        };
        if self.config.is(Broken::PaperRecovery) && !(0..3).any(|from| from != primary(view) && second(from)) {
            return;
        }
        let mut next = *state;
        self.adopt(&mut next, to, view, log);
        self.done(to, Deed::Recover { view }, next, steps);
    }
}
