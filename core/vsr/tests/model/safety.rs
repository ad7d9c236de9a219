//! What must hold in every state: nothing that was committed is replaced.

use crate::logs::LogId;
use crate::message::{Message, ReplicaId, primary};
use crate::protocol::Model;
use crate::state::{State, Status};

impl Model {
    /// `from` holds `log` in `view`. What a quorum holds in one view is committed.
    pub fn acknowledge(&self, state: &mut State, view: u8, from: ReplicaId, log: LogId) {
        if self.is_settled(state, view, log) {
            return;
        }
        let acks = &self.universe.acks_of[view as usize];
        let mut bit = 0;
        while let Some(found) = state.sent.next(&acks[from as usize], bit) {
            let earlier = self.acknowledged(found);
            if self.logs.is_prefix(log, earlier) {
                return;
            }
            if self.config.forget && self.logs.is_prefix(earlier, log) {
                state.sent.remove(found);
            }
            bit = found + 1;
        }
        state.sent.insert(self.universe.bit(Message::Ack { view, from, log }));
        let leader = *state.replica(primary(view));
        let leads = leader.status == Status::Normal && leader.view == view;
        for other in (0..3).filter(|other| *other != from) {
            let mut bit = 0;
            while let Some(found) = state.sent.next(&acks[other as usize], bit) {
                let both = self.logs.common(log, self.acknowledged(found));
                let held = self.logs.cut(log, both);
                if both > 0 && (!self.config.told || (leads && self.logs.is_prefix(held, leader.log))) {
                    self.commit(state, view, held);
                }
                bit = found + 1;
            }
        }
    }

    fn acknowledged(&self, bit: usize) -> LogId {
        match self.universe.message(bit) {
            Message::Ack { log, .. } => log,
            other => unreachable!("{other:?} among the acknowledgements"),
        }
    }

    /// Whether `log` is committed in `view` or before: to acknowledge it there has no effect any more.
    fn is_settled(&self, state: &State, view: u8, log: LogId) -> bool {
        let len = self.logs.len(log);
        self.logs.is_prefix(log, state.committed) && (0..len).all(|slot| state.commit_views[slot as usize] <= view)
    }

    fn commit(&self, state: &mut State, view: u8, log: LogId) {
        if !self.logs.is_prefix(log, state.committed) && !self.logs.is_prefix(state.committed, log) {
            state.conflict = true;
            return;
        }
        let known = self.logs.len(state.committed);
        for slot in 0..self.logs.len(log) {
            let lowest = &mut state.commit_views[slot as usize];
            *lowest = if slot < known { view.min(*lowest) } else { view };
        }
        if self.logs.len(log) > known {
            state.committed = log;
        }
        if !self.config.forget {
            return;
        }
        for view in 0..self.config.views {
            for acks in &self.universe.acks_of[view as usize] {
                let mut bit = 0;
                while let Some(found) = state.sent.next(acks, bit) {
                    if self.is_settled(state, view, self.acknowledged(found)) {
                        state.sent.remove(found);
                    }
                    bit = found + 1;
                }
            }
        }
    }

    /// What is wrong in `state`.
    pub fn violation(&self, state: &State) -> Option<String> {
        if state.conflict {
            return Some(format!("another entry is committed where {} was", self.logs.show(state.committed)));
        }
        for id in 0..3 {
            let replica = state.replica(id);
            if replica.status != Status::Normal || primary(replica.view) != id {
                continue;
            }
            let committed = self.logs.len(state.committed);
            let mut due = 0;
            while due < committed && state.commit_views[due as usize] <= replica.view {
                due += 1;
            }
            let due = self.logs.cut(state.committed, due);
            if !self.logs.is_prefix(due, replica.log) {
                let (name, due, log) = (name(id), self.logs.show(due), self.logs.show(replica.log));
                return Some(format!("{name} leads view {} with {log}, but {due} is committed", replica.view));
            }
        }
        None
    }
}

/// A, B or C.
pub fn name(id: ReplicaId) -> char {
    char::from(b'A' + id)
}
