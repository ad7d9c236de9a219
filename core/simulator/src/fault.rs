//! Faults: drawn before the run, each with a number, so that a run can be repeated without some of them.

use crate::profile::Profile;
use crate::random::Random;
use std::fmt;

const MS: u64 = 1_000_000;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The process is killed; the page cache stays.
    Kill {
        /// Whose.
        node: u8,
    },
    /// The machine loses power; what was not fsynced is lost, or some of it.
    PowerLoss {
        /// Whose.
        node: u8,
    },
    /// Frames from one node to another are lost.
    CutOneWay {
        /// From.
        from: u8,
        /// To.
        to: u8,
    },
    /// Two nodes do not hear each other.
    Cut {
        /// One.
        one: u8,
        /// The other.
        other: u8,
    },
    /// A node hears nobody.
    Deaf {
        /// Which.
        node: u8,
    },
    /// Nobody hears a node.
    Mute {
        /// Which.
        node: u8,
    },
    /// A node and all others do not hear each other.
    Isolate {
        /// Which.
        node: u8,
    },
    /// A process stands still while its clock goes on.
    Pause {
        /// Whose.
        node: u8,
    },
    /// A disk takes a hundred times as long.
    SlowDisk {
        /// Whose.
        node: u8,
    },
    /// A disk has no room.
    FullDisk {
        /// Whose.
        node: u8,
    },
    /// A wall clock jumps.
    ClockStep {
        /// Whose.
        node: u8,
        /// By how much, in seconds.
        seconds: i16,
    },
    /// Every node loses power at once.
    Blackout,
}

/// A fault with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Number in the run.
    pub id: u32,
    /// When it begins, in nanoseconds of virtual time.
    pub at_ns: u64,
    /// How long it lasts, or how long the node is down.
    pub lasts_ns: u64,
    /// What.
    pub kind: FaultKind,
    /// Decides what of the unsynced writes is left.
    pub draw: u64,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} at {} ms for {} ms: {:?}", self.id, self.at_ns / MS, self.lasts_ns / MS, self.kind)
    }
}

/// The faults of a run, in the order of their times.
pub(crate) fn draw(seed: u64, profile: &Profile) -> Vec<Fault> {
    let mut random = Random::new(seed, "faults");
    let mut faults = Vec::new();
    let nodes = u64::from(profile.nodes);
    for _ in 0..profile.faults {
        let at_ns = random.below(profile.duration_ms) * MS;
        let lasts_ns = random.pick(&[20, 300, 1_500, 4_000]) * random.between(1, 3) * MS / 2;
        let node = random.below(nodes) as u8;
        let other = ((u64::from(node) + 1 + random.below((nodes - 1).max(1))) % nodes) as u8;
        let kinds = [
            FaultKind::Kill { node },
            FaultKind::PowerLoss { node },
            FaultKind::CutOneWay { from: node, to: other },
            FaultKind::Cut { one: node, other },
            FaultKind::Deaf { node },
            FaultKind::Mute { node },
            FaultKind::Isolate { node },
            FaultKind::Pause { node },
            FaultKind::SlowDisk { node },
            FaultKind::FullDisk { node },
            FaultKind::ClockStep { node, seconds: random.between(0, 14_400) as i16 - 7_200 },
            FaultKind::Blackout,
        ];
        let at = random.below(kinds.len() as u64) as usize;
        // Blackouts are rare, and a kind that this seed does not have becomes a kill, which all have.
        let rare = matches!(kinds[at], FaultKind::Blackout) && !random.chance(150);
        let kind = if profile.kinds & (1 << at) == 0 || rare { kinds[0] } else { kinds[at] };
        faults.push(Fault { id: 0, at_ns, lasts_ns, kind, draw: random.number() });
    }
    faults.sort_by_key(|fault| fault.at_ns);
    for (id, fault) in (1..).zip(&mut faults) {
        fault.id = id;
    }
    faults
}
