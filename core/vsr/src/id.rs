//! The numbers of the protocol, each its own type so that none is taken for another.

use std::fmt;

/// Identity of one consensus group in one of its lives, `g#i`: a number that the metadata log allocated and the op that
/// created this life. Neither is ever used twice, also when a stream, topic or partition number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId {
    /// Number of the group; 0 is the metadata group.
    pub number: u64,
    /// Op of the metadata log that created this life; 0 for the metadata group.
    pub life: u64,
}

impl GroupId {
    /// The group that holds streams, topics, users and sessions.
    pub const METADATA: GroupId = GroupId { number: 0, life: 0 };
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.number, self.life)
    }
}

/// Identity of a cluster: the hash of its name. In every record, file header and handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub u128);

impl ClusterId {
    /// The identity of the cluster with this name.
    pub fn from_name(name: &str) -> ClusterId {
        ClusterId(twox_hash::XxHash3_128::oneshot(name.as_bytes()))
    }
}

/// Index of a replica in the roster, from 0 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(pub u8);

/// Number of a view. The primary of a view follows from it, see [`primary`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewNumber(pub u32);

/// Position in a group's log. The first entry is op 1; op 0 stands for the empty log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpNumber(pub u64);

impl OpNumber {
    /// The empty log.
    pub const ZERO: OpNumber = OpNumber(0);

    /// The op after this one.
    ///
    /// # Panics
    /// After 2^64 ops, which no group reaches.
    #[must_use]
    pub fn next(self) -> OpNumber {
        OpNumber(self.0.checked_add(1).expect("op numbers do not run out"))
    }
}

impl fmt::Display for OpNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identity of an entry: hash of everything in its header, which covers the body by its hash. Zero is no entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub u128);

impl EntryId {
    /// The parent of op 1.
    pub const NONE: EntryId = EntryId(0);
}

impl fmt::Debug for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The time, as the host hands it in. Never goes back between calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now {
    /// Nanoseconds of a clock that only moves forward; for timers.
    pub monotonic_ns: u64,
    /// Microseconds since 1970; for timestamps that people see. No safety rule depends on it.
    pub wall_us: u64,
}

/// The primary of `view` among `replica_count` replicas.
///
/// All groups start in view 0, so their primaries sit together on replica 0. The group is an argument so that a setting can
/// spread them later; this is the one place that decides it.
///
/// # Panics
/// When `replica_count` is 0.
pub fn primary(_group: GroupId, view: ViewNumber, replica_count: u8) -> ReplicaId {
    assert!(replica_count > 0, "a group has at least one replica");
    ReplicaId((view.0 % u32::from(replica_count)) as u8)
}

/// Sizes of quorums for a group of `n` replicas (plain majorities; see the crate documentation).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quorums {
    /// Replicas that must hold an op before it commits, the primary included.
    pub replication: u8,
    /// Replicas that must take part in a view change.
    pub view_change: u8,
    /// Replicas that must prove that they never acknowledged an op before it may be cut. Never lowered.
    pub nack: u8,
}

impl Quorums {
    /// Quorums for 1 to 7 replicas.
    ///
    /// # Panics
    /// When `n` is 0.
    pub fn of(n: u8) -> Quorums {
        assert!(n > 0, "a group has at least one replica");
        let majority = n / 2 + 1;
        Quorums { replication: majority, view_change: majority, nack: n - majority + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quorums_intersect() {
        for n in 1..=7 {
            let q = Quorums::of(n);
            assert!(q.replication + q.view_change > n, "a view change must see every committed op (n={n})");
            assert!(q.nack + q.replication > n, "a committed op can never be nacked away (n={n})");
        }
        assert_eq!(Quorums::of(3), Quorums { replication: 2, view_change: 2, nack: 2 });
        assert_eq!(Quorums::of(5), Quorums { replication: 3, view_change: 3, nack: 3 });
    }

    #[test]
    fn primaries_rotate_with_the_view() {
        let group = GroupId { number: 7, life: 3 };
        let of = |view| primary(group, ViewNumber(view), 3).0;
        assert_eq!([of(0), of(1), of(2), of(3)], [0, 1, 2, 0]);
    }
}
