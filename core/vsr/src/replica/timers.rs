//! What a replica does because time passes. In a group at rest nothing: then there is no deadline.

use super::{Replica, Status};
use crate::id::{OpNumber, ReplicaId};
use crate::message::{MessageBody, Target};

const MS: u64 = 1_000_000;
/// After a commit, how long the primary waits for a prepare to carry the news before it sends it alone.
pub(super) const COMMIT_NS: u64 = 10 * MS;
/// How often what is not acknowledged is said again.
pub(super) const RESEND_NS: u64 = 100 * MS;
/// How often missing entries are asked for again.
pub(super) const FETCH_NS: u64 = 50 * MS;
/// How often a suspicion is said again.
pub(super) const SUSPECT_NS: u64 = 300 * MS;
/// How long a replica waits to be told about a newer view before it suspects that nobody leads it.
pub(super) const NEWER_NS: u64 = 500 * MS;
/// How often the present view is asked for, at most.
const PROBE_NS: u64 = 50 * MS;
/// How long a replica waits for a view to begin, at least.
const PATIENCE_NS: u64 = 400 * MS;
/// How long a primary goes on that has entries in flight and hears of no progress.
const ABDICATE_NS: u64 = 2_000 * MS;
/// A view that lasted so long ends the growth of patience.
const CALM_NS: u64 = 10_000 * MS;

/// When what is due.
#[derive(Debug)]
pub(super) struct Timers {
    pub(super) now_ns: u64,
    pub(super) deadline_ns: Option<u64>,
    /// Since when this replica is in its view.
    pub(super) view_since_ns: u64,
    /// When the primary last saw an op committed.
    pub(super) progress_ns: u64,
    /// When the primary last heard an acknowledgement.
    pub(super) heard_ns: u64,
    probed_ns: Option<u64>,
    spoken_ns: u64,
}

impl Timers {
    pub(super) fn new(now_ns: u64) -> Timers {
        Timers {
            now_ns,
            deadline_ns: None,
            view_since_ns: now_ns,
            progress_ns: now_ns,
            heard_ns: now_ns,
            probed_ns: None,
            spoken_ns: now_ns,
        }
    }
}

impl Replica {
    /// When [`Replica::handle_tick`] has something to do although nothing happened, in nanoseconds of the host's clock.
    pub fn deadline_ns(&self) -> Option<u64> {
        self.timers.deadline_ns
    }

    /// See to it that a tick comes within `ns`.
    pub(super) fn wake_timer(&mut self, ns: u64) {
        if self.config.replica_count == 1 || self.mute {
            // There is nobody to wait for and nobody to hand over to, or nothing to say.
            return;
        }
        let at = self.timers.now_ns + ns;
        self.timers.deadline_ns = Some(self.timers.deadline_ns.map_or(at, |deadline| deadline.min(at)));
    }

    /// Asks everybody which view it is, unless that was done just now.
    pub(super) fn probe(&mut self) {
        let now = self.timers.now_ns;
        if self.timers.probed_ns.is_none_or(|at| now >= at + PROBE_NS) {
            self.timers.probed_ns = Some(now);
            self.send(Target::Others, MessageBody::Probe { incarnation: self.config.incarnation });
        }
        self.wake_timer(RESEND_NS);
    }

    /// Replicas in this set (bit r for replica r) do not answer: the group may rest without them.
    pub fn set_away(&mut self, away: u8, now_ns: u64) {
        self.timers.now_ns = self.timers.now_ns.max(now_ns);
        let returned = self.away & !away;
        self.away = away;
        if returned != 0 && self.is_primary() && self.is_unsettled() {
            self.wake_timer(COMMIT_NS);
        }
    }

    /// Whether somebody who answers has not applied all that this primary has, or something is not committed.
    fn is_unsettled(&self) -> bool {
        !self.in_flight.is_empty() || self.others().any(|other| self.lags(other))
    }

    fn lags(&self, other: ReplicaId) -> bool {
        self.away & (1 << other.0) == 0 && self.applied_by[usize::from(other.0)] < self.applied
    }

    fn others(&self) -> impl Iterator<Item = ReplicaId> + use<> {
        let me = self.config.replica.0;
        (0..self.config.replica_count).filter(move |other| *other != me).map(ReplicaId)
    }

    /// Time has passed.
    pub fn handle_tick(&mut self, now_ns: u64) {
        self.timers.now_ns = self.timers.now_ns.max(now_ns);
        if self.timers.deadline_ns.is_none_or(|deadline| deadline > self.timers.now_ns) {
            return;
        }
        self.timers.deadline_ns = None;
        match self.status {
            Status::Normal if self.is_primary() => self.primary_tick(),
            Status::Normal => {
                if self.catch_up.is_busy() {
                    self.fetch_again();
                    self.wake_timer(FETCH_NS);
                }
            }
            Status::ViewChange => {
                self.try_cast();
                self.speak_vote();
                self.fetch_again();
                if !self.catch_up.is_adopting() {
                    self.probe();
                }
                self.wake_timer(RESEND_NS);
                if self.timers.now_ns >= self.timers.view_since_ns + self.patience() {
                    self.change.suspects = true;
                }
            }
            Status::Recovering => {
                self.fetch_again();
                if !self.catch_up.is_adopting() {
                    self.probe();
                }
                self.wake_timer(RESEND_NS);
            }
        }
        if let Some((view, since)) = self.change.newer
            && self.status != Status::Recovering
        {
            if view <= self.view {
                self.change.newer = None;
            } else if self.timers.now_ns >= since + NEWER_NS {
                self.change.suspects = true;
            } else {
                self.wake_timer(NEWER_NS);
            }
        }
        if self.change.suspects {
            if self.timers.now_ns >= self.timers.spoken_ns + SUSPECT_NS {
                self.timers.spoken_ns = self.timers.now_ns;
                self.speak_suspicion();
            }
            self.wake_timer(SUSPECT_NS);
        }
    }

    fn primary_tick(&mut self) {
        let now = self.timers.now_ns;
        if now >= self.timers.view_since_ns + CALM_NS {
            self.change.attempts = 0;
        }
        if !self.is_unsettled() {
            return;
        }
        self.wake_timer(RESEND_NS);
        if self.durable_log_view < Some(self.view) {
            return;
        }
        let waiting = self.in_flight.is_empty();
        let targets: Vec<ReplicaId> = self.others().filter(|other| !waiting || self.lags(*other)).collect();
        let commit = self.applied;
        for other in targets {
            let body = MessageBody::Commit { commit, id: self.applied_id, head: self.head, head_id: self.head_id };
            self.send(Target::Replica(other), body);
        }
        if self.in_flight.is_empty() {
            self.timers.progress_ns = now;
        } else if now >= self.timers.progress_ns.max(self.timers.heard_ns) + ABDICATE_NS && !self.change.suspects {
            // It speaks and nobody answers: another one should lead.
            self.change.suspects = true;
        }
    }

    /// How long to wait for a view to begin. Grows with every attempt; the jitter differs between replicas, groups and views,
    /// so that they do not step on each other's feet for ever.
    fn patience(&self) -> u64 {
        let attempts = u64::from(self.change.attempts.min(8));
        let seed = (u64::from(self.config.replica.0) << 56)
            ^ self.config.group.number.rotate_left(17)
            ^ u64::from(self.view.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let jitter = (seed.wrapping_mul(0xd134_2543_de82_ef95) >> 33) % (200 * MS);
        PATIENCE_NS + attempts * 150 * MS + jitter
    }

    /// The op that this primary knows a backup to have applied in this view; for people and tests.
    pub fn applied_at(&self, other: ReplicaId) -> OpNumber {
        self.applied_by.get(usize::from(other.0)).copied().unwrap_or(OpNumber::ZERO)
    }
}
