//! Which nodes live, and who leads which group: per node, not per group.
//!
//! Every pair of nodes exchanges beats. A node that leads a group claims it once; a backup is covered as long as the primary of
//! its very view lives and claims that view. Beats carry a digest of all claims, so a lost or outdated claim shows within one
//! beat. Nothing here decides who leads: being wrong costs a view change, never data.

use crate::frame::{Beat, digest};
use std::collections::BTreeMap;
use whippet_vsr::{GroupId, REPLICAS_MAX, ReplicaId, ViewNumber};

/// Time between two beats, in nanoseconds.
pub(crate) const BEAT_NS: u64 = 100_000_000;
/// Silence after which a node is suspected, in nanoseconds.
pub(crate) const SUSPECT_NS: u64 = 1_000_000_000;
/// How long a backup that nobody covers waits before it suspects, in nanoseconds.
pub(crate) const UNCOVERED_NS: u64 = 1_200_000_000;
/// A gap of one's own after which nobody else is blamed for silence, in nanoseconds.
const STALL_NS: u64 = 500_000_000;

#[derive(Debug, Default)]
struct Peer {
    heard_ns: u64,
    incarnation: u128,
    suspected: bool,
    /// What it claims to lead.
    led: BTreeMap<GroupId, ViewNumber>,
    digest: u64,
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Peers {
    me: ReplicaId,
    count: u8,
    incarnation: u128,
    peers: Vec<Peer>,
    /// What this node leads.
    led: BTreeMap<GroupId, ViewNumber>,
    digest: u64,
    /// Claims that were not sent yet.
    fresh: Vec<(GroupId, ViewNumber)>,
    next_beat_ns: u64,
    looked_ns: u64,
}

/// What a look at the clock found.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// It is time for a beat.
    pub(crate) beat: bool,
    /// Nodes whose silence has become too long, or that are heard again.
    pub(crate) changed: Vec<ReplicaId>,
}

impl Peers {
    pub(crate) fn new(me: ReplicaId, count: u8, incarnation: u128, now_ns: u64) -> Peers {
        let peers = (0..count).map(|_| Peer { heard_ns: now_ns, ..Peer::default() }).collect();
        Peers {
            me,
            count,
            incarnation,
            peers,
            led: BTreeMap::new(),
            digest: 0,
            fresh: Vec::new(),
            next_beat_ns: now_ns,
            looked_ns: now_ns,
        }
    }

    pub(crate) fn others(&self) -> impl Iterator<Item = ReplicaId> + use<> {
        let me = self.me;
        (0..self.count).map(ReplicaId).filter(move |other| *other != me)
    }

    pub(crate) fn timeout_ns(&self) -> Option<u64> {
        (self.count > 1).then_some(self.next_beat_ns)
    }

    pub(crate) fn beat(&self) -> Beat {
        Beat { incarnation: self.incarnation, led: self.led.len() as u32, digest: self.digest }
    }

    pub(crate) fn incarnation(&self) -> u128 {
        self.incarnation
    }

    /// Takes note of the time.
    pub(crate) fn look(&mut self, now_ns: u64) -> Look {
        let mut look = Look::default();
        if self.count == 1 || now_ns < self.next_beat_ns {
            return look;
        }
        if now_ns >= self.looked_ns + STALL_NS {
            // This node itself stood still: what came meanwhile has not been read.
            for peer in &mut self.peers {
                peer.heard_ns = now_ns;
            }
        }
        self.looked_ns = now_ns;
        self.next_beat_ns = now_ns + BEAT_NS;
        look.beat = true;
        for other in self.others() {
            let peer = &mut self.peers[usize::from(other.0)];
            if !peer.suspected && now_ns >= peer.heard_ns + SUSPECT_NS {
                peer.suspected = true;
                look.changed.push(other);
            }
        }
        look
    }

    /// A frame of this node came in; whether the node had been suspected.
    pub(crate) fn heard(&mut self, from: ReplicaId, now_ns: u64) -> bool {
        let peer = &mut self.peers[usize::from(from.0)];
        peer.heard_ns = now_ns;
        std::mem::take(&mut peer.suspected)
    }

    pub(crate) fn is_suspected(&self, other: ReplicaId) -> bool {
        self.peers.get(usize::from(other.0)).is_some_and(|peer| peer.suspected)
    }

    /// Bit r: replica r is suspected.
    pub(crate) fn away(&self) -> u8 {
        self.others().filter(|other| self.is_suspected(*other)).fold(0, |bits, other| bits | 1 << other.0)
    }

    /// Whether the beat fits what is known of the sender's claims; they are forgotten when it has restarted.
    pub(crate) fn check(&mut self, from: ReplicaId, beat: Beat) -> bool {
        let peer = &mut self.peers[usize::from(from.0)];
        if peer.incarnation != beat.incarnation {
            peer.incarnation = beat.incarnation;
            peer.led.clear();
            peer.digest = 0;
        }
        peer.led.len() as u32 == beat.led && peer.digest == beat.digest
    }

    /// A node claims groups; which of them changed.
    pub(crate) fn claimed(
        &mut self,
        from: ReplicaId,
        incarnation: u128,
        all: bool,
        led: Vec<(GroupId, ViewNumber)>,
    ) -> Vec<GroupId> {
        let peer = &mut self.peers[usize::from(from.0)];
        let mut changed = Vec::new();
        if peer.incarnation != incarnation || all {
            peer.incarnation = incarnation;
            changed.extend(std::mem::take(&mut peer.led).into_keys());
            peer.digest = 0;
        }
        for (group, view) in led {
            if let Some(before) = peer.led.insert(group, view) {
                peer.digest ^= digest(group, before);
            }
            peer.digest ^= digest(group, view);
            changed.push(group);
        }
        changed
    }

    /// Whether a node lives and claims to lead this view of the group.
    pub(crate) fn covers(&self, other: ReplicaId, group: GroupId, view: ViewNumber) -> bool {
        let Some(peer) = self.peers.get(usize::from(other.0)) else { return false };
        !peer.suspected && peer.led.get(&group) == Some(&view)
    }

    /// This node leads a view of the group from now on, or none.
    pub(crate) fn lead(&mut self, group: GroupId, view: Option<ViewNumber>) {
        let before = match view {
            Some(view) => self.led.insert(group, view),
            None => self.led.remove(&group),
        };
        if before == view {
            return;
        }
        if let Some(before) = before {
            self.digest ^= digest(group, before);
        }
        if let Some(view) = view {
            self.digest ^= digest(group, view);
            self.fresh.push((group, view));
        }
    }

    pub(crate) fn take_fresh(&mut self) -> Vec<(GroupId, ViewNumber)> {
        let led = &self.led;
        let mut fresh = std::mem::take(&mut self.fresh);
        fresh.retain(|(group, view)| led.get(group) == Some(view));
        fresh
    }

    pub(crate) fn all_led(&self) -> Vec<(GroupId, ViewNumber)> {
        self.led.iter().map(|(group, view)| (*group, *view)).collect()
    }
}

/// A wait of a group on a node that differs from those of others, so that they do not all speak at once.
pub(crate) fn digest_jitter(me: ReplicaId, slot: u32) -> u64 {
    let seed = (u64::from(me.0) << 40) ^ u64::from(slot);
    (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 34) % 400_000_000
}

/// Replicas fit the bit sets.
const _: () = assert!(REPLICAS_MAX <= 8);
