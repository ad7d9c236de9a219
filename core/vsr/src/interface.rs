//! What a replica is given and what it gives back.

use crate::entry::{Entry, EntryHeader};
use crate::id::{ClusterId, EntryId, GroupId, OpNumber, ReplicaId, ViewNumber};
use crate::message::{Message, SnapshotInfo, Target, VoteRecord};
use crate::mutant::Mutant;
use bytes::Bytes;

/// Entries that a primary may have prepared and not yet committed, at most.
pub const PIPELINE_MAX: usize = 1024;
/// Bytes of those entries, at most. One entry is always let in.
pub const PIPELINE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Replicas that a group may have, at most.
pub const REPLICAS_MAX: usize = 7;

/// What a replica is told about itself and its group; the same for the whole life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaConfig {
    /// The cluster.
    pub cluster: ClusterId,
    /// The group, in its present life.
    pub group: GroupId,
    /// Index of this replica in the roster.
    pub replica: ReplicaId,
    /// Size of the roster.
    pub replica_count: u8,
    /// Number of this process start that no other start ever has: 128 random bits, drawn by the host.
    pub incarnation: u128,
    /// Entries that may be in flight, at most [`PIPELINE_MAX`].
    pub pipeline: usize,
    /// A deliberate mistake, see [`Mutant`].
    pub mutant: Mutant,
}

/// What a replica was when its process ended, as recovery of its log and the vote log tell.
#[derive(Clone, Debug)]
pub struct DurableState {
    /// Last op that the state machine has executed, from a snapshot or again.
    pub applied: OpNumber,
    /// Its identity.
    pub applied_id: EntryId,
    /// Its timestamp; new entries get greater ones.
    pub applied_timestamp: u64,
    /// The entries behind it, in op order. Empty in a group of one, which has committed all that it holds.
    pub tail: Vec<Entry>,
    /// Greatest view of any entry of the log; what a group of one goes by.
    pub view: ViewNumber,
    /// The last promise. `None` when none was ever made: then nothing was ever sent that binds.
    pub vote: Option<VoteRecord>,
    /// Ops behind the head up to this one may have been acknowledged, and their records can't be read. At most the head when
    /// nothing is damaged.
    pub unknown_to: OpNumber,
    /// What was acknowledged may have been lost without a trace: the machine stopped, and the group does not fsync before it
    /// acknowledges.
    pub memory_lost: bool,
    /// What was promised or acknowledged is not known, and no answer of a peer can tell: the vote log can't be trusted, or
    /// records of the log are damaged or gone.
    pub votes_lost: bool,
}

impl DurableState {
    /// A group that never held anything.
    pub fn empty() -> DurableState {
        DurableState {
            applied: OpNumber::ZERO,
            applied_id: EntryId::NONE,
            applied_timestamp: 0,
            tail: Vec::new(),
            view: ViewNumber(0),
            vote: None,
            unknown_to: OpNumber::ZERO,
            memory_lost: false,
            votes_lost: false,
        }
    }
}

/// Where a replica is in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Takes part in the view.
    Normal,
    /// Has left all earlier views and waits for the present one to begin, or has restarted and asks which one it is.
    ViewChange,
    /// Has lost memory: says nothing that binds until a primary has answered it.
    Recovering,
}

/// What a replica wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    clippy::large_enum_variant,
    reason = "most effects are writes and messages with an entry; a box would cost an allocation each"
)]
pub enum Effect {
    /// Put the entry at the end of the log, then report with [`Replica::handle_durable`] once the group's durability holds.
    /// Entries come in op order.
    Write(Entry),
    /// Cut everything behind `to` off the log, then report with [`Replica::handle_truncated`]. Nothing is written in between.
    Truncate {
        /// The new head; at least the last op that was applied.
        to: OpNumber,
        /// Headers of what is cut, in op order.
        removed: Vec<EntryHeader>,
    },
    /// Replace log and state by this snapshot, then report with [`Replica::handle_installed`].
    Install(SnapshotInfo, Bytes),
    /// Make the promise durable, then report with [`Replica::handle_persisted`]. Later records hold more.
    Persist(VoteRecord),
    /// Transmit whenever you like: what the message vouches for already holds here.
    Send(Target, Message),
    /// Read these entries from the log and send them with [`Replica::entry_message`], as many as are there and seem good; when
    /// the log starts behind `from`, send the beginning of the snapshot from which it starts instead.
    Serve {
        /// To whom.
        to: ReplicaId,
        /// First op.
        from: OpNumber,
        /// Last op.
        up_to: OpNumber,
    },
    /// Read a part of a snapshot and send it with [`Replica::snapshot_message`].
    ServeSnapshot {
        /// To whom.
        to: ReplicaId,
        /// Which one.
        first_op: OpNumber,
        /// First byte.
        position: u64,
    },
    /// The entry is committed: execute it. Entries come in op order, each once.
    Apply(Entry),
    /// The replica has left a view: what was asked of it and has no answer yet has an unknown outcome.
    Left,
    /// A view has begun here.
    Began,
}

/// Why a request was not given an op. Nothing of it is in any log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAccepted {
    /// Another replica is the primary of this view.
    #[error("replica {} is the primary of view {}", primary.0, view.0)]
    NotPrimary {
        /// Who is.
        primary: ReplicaId,
        /// Of which view.
        view: ViewNumber,
    },
    /// As much as is allowed is prepared and waits for its quorum.
    #[error("{in_flight} entries wait for their quorum")]
    PipelineFull {
        /// How many.
        in_flight: usize,
    },
    /// The view has not begun, or what it inherited is not committed yet.
    #[error("a new primary is being found")]
    NotNormal,
}
