//! Leaving a view and beginning the next one (VRR §4.2).
//!
//! Suspicion binds nobody: a replica goes to another view only when a view-change quorum suspects, or when it sees proof that
//! one did (a vote, or the promised view of a replica that probes). The promise not to speak in earlier views any more is
//! durable before the vote that rests on it leaves. A vote is frozen: whoever restarts abstains in the view it wakes in.

use super::{Effect, REPLICAS_MAX, Replica, Status, Votes, timers};
use crate::id::{OpNumber, ReplicaId, ViewNumber, primary};
use crate::merge::{Undecided, choose};
use crate::message::{Ignored, MessageBody, StartView, Target, Vote, VoteRecord};
use crate::mutant::Mutant;

/// How long somebody's suspicion counts.
const SUSPICION_NS: u64 = 2_000_000_000;

/// What is volatile of a view change.
#[derive(Debug, Default)]
pub(super) struct Change {
    /// This replica says nothing in the present view's change: it woke in it, or has taken part in it already.
    abstains: bool,
    /// Its own vote, from the moment when the promise was handed out to be made durable.
    cast: Option<Vote>,
    /// At the primary of the view: what came in, its own included.
    votes: Votes,
    /// To which view each replica would go, and since when.
    targets: [Option<(ViewNumber, u64)>; REPLICAS_MAX],
    /// Whether this replica suspects the primary of its view, or that the view will not begin.
    pub(super) suspects: bool,
    /// A view beyond its own of which this replica has heard, and since when.
    pub(super) newer: Option<(ViewNumber, u64)>,
    /// View changes since a view last stayed for a while.
    pub(super) attempts: u32,
    /// Why the primary of the view can't begin it yet.
    undecided: Option<Undecided>,
}

impl Change {
    pub(super) fn cast(&self) -> Option<&Vote> {
        self.cast.as_ref()
    }
}

impl Replica {
    /// Continues after a restart: in no view before it is told which one it is.
    pub(super) fn wake(&mut self, vote: Option<VoteRecord>, memory_lost: bool, mute: bool) {
        if let Some(vote) = &vote {
            self.view = vote.view;
            self.log_view = vote.log_view;
            self.durable_view = Some(vote.view);
            self.durable_log_view = Some(vote.log_view);
            self.asked = Some((vote.view, vote.log_view, !vote.memory_lost));
        }
        let lost = memory_lost || vote.is_none_or(|vote| vote.memory_lost);
        self.mute = mute;
        self.status = if lost || mute { Status::Recovering } else { Status::ViewChange };
        self.change.abstains = true;
        self.durable_sound = !lost;
        if lost && let Some(vote) = vote.filter(|vote| !vote.memory_lost) {
            // The next start may not see any more that this one found memory lost.
            self.asked = None;
            self.persist(vote.view, vote.log_view, false);
        }
        let mutant = self.config.mutant;
        if mutant.is(Mutant::ForgetPromises) || (mutant.is(Mutant::RecoveringVotes) && lost) {
            self.status = Status::ViewChange;
        }
        if mutant.is(Mutant::ResumePrimary) && self.log_view == self.view && self.primary() == self.config.replica {
            self.status = Status::Normal;
        }
        if !mute {
            self.probe();
        }
    }

    /// The host finds that the primary's node does not answer, or nobody claims to lead this group.
    pub fn suspect(&mut self, now_ns: u64) {
        self.timers.now_ns = self.timers.now_ns.max(now_ns);
        if self.config.replica_count > 1 && self.status != Status::Recovering && !self.change.suspects {
            self.change.suspects = true;
            self.speak_suspicion();
        }
    }

    /// The host finds that the primary's node answers after all.
    pub fn trust(&mut self) {
        if self.status == Status::Normal && self.change.suspects {
            self.change.suspects = false;
            self.change.targets[usize::from(self.config.replica.0)] = None;
        }
    }

    /// Says to which view this replica would go, and goes there if enough others would.
    pub(super) fn speak_suspicion(&mut self) {
        let newer = self.change.newer.map_or(self.view, |(view, _)| view.max(self.view));
        let target = ViewNumber(newer.0 + 1);
        self.change.targets[usize::from(self.config.replica.0)] = Some((target, self.timers.now_ns));
        self.send(Target::Others, MessageBody::Suspect { target });
        self.wake_timer(timers::SUSPECT_NS);
        self.consider();
    }

    fn consider(&mut self) {
        let now = self.timers.now_ns;
        let mut targets: Vec<ViewNumber> = self
            .change
            .targets
            .iter()
            .flatten()
            .filter(|(_, since)| now.saturating_sub(*since) < SUSPICION_NS)
            .map(|(target, _)| *target)
            .collect();
        targets.sort_unstable_by(|a, b| b.cmp(a));
        let one = self.config.mutant.is(Mutant::OneSuspicionIsEnough);
        let quorum = if one { 1 } else { usize::from(self.quorums.view_change) };
        if let Some(target) = targets.get(quorum - 1)
            && *target > self.view
            && self.status != Status::Recovering
        {
            self.move_to(*target);
        }
    }

    pub(super) fn on_suspect(&mut self, from: ReplicaId, view: ViewNumber, target: ViewNumber) -> Result<(), Ignored> {
        if view > self.view {
            self.note_newer(view);
        }
        if target <= self.view {
            self.tell_view(from, None);
            return Err(Ignored::OlderView);
        }
        self.change.targets[usize::from(from.0)] = Some((target, self.timers.now_ns));
        // A primary that suspects itself has given up: it can send, but nothing comes back to it.
        if from == self.primary() && view == self.view && self.status == Status::Normal && !self.change.suspects {
            self.change.suspects = true;
            self.speak_suspicion();
        }
        self.consider();
        Ok(())
    }

    /// There is a view beyond this replica's own: ask which one, and if nobody tells, change it.
    pub(super) fn note_newer(&mut self, view: ViewNumber) {
        if self.change.newer.is_none_or(|(known, _)| known < view) {
            let since = self.change.newer.map_or(self.timers.now_ns, |(_, since)| since);
            self.change.newer = Some((view, since));
        }
        self.probe();
        self.wake_timer(timers::NEWER_NS);
    }

    pub(super) fn on_probe(&mut self, from: ReplicaId, view: ViewNumber, incarnation: u128) -> Result<(), Ignored> {
        if view > self.view {
            self.note_newer(view);
        }
        self.tell_view(from, Some(incarnation));
        Ok(())
    }

    /// Tells a replica that is behind which view it is, if this is the one who may say so.
    fn tell_view(&mut self, to: ReplicaId, answers: Option<u128>) {
        if self.is_primary() && self.durable_log_view >= Some(self.view) {
            let start = self.start_view(answers);
            self.send(Target::Replica(to), MessageBody::StartView(start));
            // It will have to catch up, and the group may not rest before it has.
            self.applied_by[usize::from(to.0)] = OpNumber::ZERO;
            self.wake_timer(timers::RESEND_NS);
        }
    }

    fn start_view(&self, answers: Option<u128>) -> StartView {
        StartView {
            head: self.head,
            head_id: self.head_id,
            commit: self.commit_max.min(self.head),
            suffix: self.suffix(),
            answers,
        }
    }

    /// Leaves all views before `view`.
    pub(super) fn move_to(&mut self, view: ViewNumber) {
        assert!(view > self.view && self.status != Status::Recovering);
        self.leave();
        self.status = Status::ViewChange;
        self.view = view;
        self.change.abstains = false;
        self.change.attempts = (self.change.attempts + 1).min(16);
        self.timers.view_since_ns = self.timers.now_ns;
        self.wake_timer(timers::RESEND_NS);
        self.try_cast();
    }

    /// Forgets everything that belonged to the present view.
    pub(super) fn leave(&mut self) {
        if self.status == Status::Normal {
            self.effects.push_back(Effect::Left);
        }
        if self.asked.is_some_and(|(_, log_view, _)| log_view == self.view) {
            // The whole log of this view is held, durably; only the word of it is still on its way to the vote log.
            self.log_view = self.view;
        }
        self.catch_up.clear();
        self.change.cast = None;
        self.change.votes.clear();
        self.change.undecided = None;
        self.change.suspects = false;
        for held in &mut self.in_flight {
            held.holders = 0;
        }
        self.applied_by = [OpNumber::ZERO; REPLICAS_MAX];
    }

    /// Goes to `view` in order to take over its log, not to vote.
    pub(super) fn join(&mut self, view: ViewNumber) {
        self.leave();
        if self.status == Status::Normal {
            self.status = Status::ViewChange;
        }
        self.view = view;
        self.change.abstains = true;
        self.timers.view_since_ns = self.timers.now_ns;
    }

    /// Casts this replica's vote once its whole log is durable. From then on the log does not change before the view begins.
    pub(super) fn try_cast(&mut self) {
        let busy = self.truncating || self.installing || self.durable != self.head;
        if self.status != Status::ViewChange || self.change.abstains || self.change.cast.is_some() || busy {
            return;
        }
        self.change.cast = Some(Vote {
            log_view: self.log_view,
            head: self.head,
            head_id: self.head_id,
            unknown_to: self.unknown_to.max(self.head),
            commit: self.commit_max,
            suffix: self.suffix(),
        });
        self.persist(self.view, self.log_view, true);
        self.speak_vote();
    }

    /// Sends the vote, or counts it here, once the promise is durable; also again.
    pub(super) fn speak_vote(&mut self) {
        if self.status != Status::ViewChange || self.durable_view < Some(self.view) {
            return;
        }
        let Some(vote) = self.change.cast.clone() else { return };
        let to = self.primary();
        if to == self.config.replica {
            self.change.votes.insert(to, vote);
            self.try_choose();
        } else {
            self.send(Target::Replica(to), MessageBody::Vote(vote));
        }
    }

    pub(super) fn on_vote(&mut self, from: ReplicaId, view: ViewNumber, vote: Vote) -> Result<(), Ignored> {
        if view < self.view {
            self.tell_view(from, None);
            return Err(Ignored::OlderView);
        }
        if self.status == Status::Recovering {
            return Err(Ignored::Status);
        }
        let ends = vote.suffix.floor.0.checked_add(vote.suffix.ids.len() as u64);
        let named = vote.suffix.ids.last().is_none_or(|id| *id == vote.head_id);
        if vote.log_view >= view || ends != Some(vote.head.0) || vote.unknown_to < vote.head || !named {
            return Err(Ignored::Malformed);
        }
        if view > self.view {
            // A vote proves that a quorum suspected.
            self.move_to(view);
        }
        if primary(self.config.group, view, self.config.replica_count) != self.config.replica {
            return Err(Ignored::Role);
        }
        if self.status == Status::Normal {
            self.tell_view(from, None);
            return Err(Ignored::Duplicate);
        }
        if let Some(known) = self.change.votes.get(&from) {
            return if *known == vote { Err(Ignored::Duplicate) } else { Err(Ignored::Equivocation) };
        }
        self.change.votes.insert(from, vote);
        self.try_choose();
        Ok(())
    }

    /// VRR §4.2 step 3, at the primary of the view that is to begin.
    fn try_choose(&mut self) {
        let me = self.config.replica;
        if self.change.abstains || !self.change.votes.contains_key(&me) || self.catch_up.is_adopting() {
            return;
        }
        match choose(&self.change.votes, self.config.replica_count, me, self.config.mutant) {
            Ok(chosen) => {
                self.change.undecided = None;
                let suffix = self.change.votes[&chosen.source].suffix.clone();
                self.adopt(chosen.source, chosen.head, chosen.head_id, chosen.commit, suffix);
            }
            Err(undecided) => self.change.undecided = Some(undecided),
        }
    }

    /// Why the view can't begin although a quorum wants it, for people.
    pub fn undecided(&self) -> Option<Undecided> {
        self.change.undecided
    }

    /// The view's whole log is held and the promise is durable: the view begins here.
    pub(super) fn begin(&mut self) {
        self.status = Status::Normal;
        self.log_view = self.view;
        self.view_head = self.head;
        self.unknown_to = self.head;
        self.change.abstains = true;
        self.change.cast = None;
        self.change.votes.clear();
        self.change.suspects = false;
        self.change.undecided = None;
        if self.change.newer.is_some_and(|(view, _)| view <= self.view) {
            self.change.newer = None;
        }
        for target in &mut self.change.targets {
            *target = target.filter(|(view, _)| *view > self.view);
        }
        self.timers.view_since_ns = self.timers.now_ns;
        self.timers.progress_ns = self.timers.now_ns;
        self.timers.heard_ns = self.timers.now_ns;
        self.effects.push_back(Effect::Began);
        self.apply_committed();
        if self.is_primary() {
            let start = self.start_view(None);
            self.send(Target::Others, MessageBody::StartView(start));
            self.count(self.config.replica, self.durable);
            self.wake_timer(timers::RESEND_NS);
        } else {
            self.acknowledge();
        }
    }
}
