//! What replicas of one group say to each other. Message catalogue of the normal case:
//!
//! | message | from → to | says | durable at the sender first |
//! | --- | --- | --- | --- |
//! | [`Message::Prepare`] | primary → backups | append this entry | the view |
//! | [`Message::PrepareOk`] | backup → primary | I hold every entry up to this one, and this is its id in *my* log | the entries, as the group's durability asks |
//! | [`Message::Commit`] | primary → backups | everything up to this op is committed | the view |
//!
//! Every message carries the sender's cluster, group life, view and roster epoch in its [`Envelope`]; what does not fit is
//! ignored with a reason ([`Ignored`]).

use crate::entry::Entry;
use crate::id::{ClusterId, EntryId, GroupId, OpNumber, ReplicaId, ViewNumber};

/// Who speaks, about which group, in which view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The sender's cluster.
    pub cluster: ClusterId,
    /// The group and its life.
    pub group: GroupId,
    /// The sender's view.
    pub view: ViewNumber,
    /// The sender.
    pub from: ReplicaId,
    /// Epoch of the roster; 0 until the roster can change.
    pub config_epoch: u32,
}

/// A message between two replicas of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who speaks.
    pub envelope: Envelope,
    /// What is said.
    pub body: MessageBody,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "most messages are prepares; a box would cost an allocation each")]
pub enum MessageBody {
    /// Append this entry.
    Prepare {
        /// The entry; its own view may be an older one.
        entry: Entry,
        /// The primary's commit number.
        commit: OpNumber,
    },
    /// Every entry up to `op` is held here; `id` is the id of `op` in the sender's own log.
    PrepareOk {
        /// The highest op held.
        op: OpNumber,
        /// Its identity at the sender.
        id: EntryId,
    },
    /// Everything up to `commit` is committed.
    Commit {
        /// The primary's commit number.
        commit: OpNumber,
        /// Identity of that op.
        id: EntryId,
    },
}

/// Why a message was ignored. For logs and counters; ignoring is always safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ignored {
    /// From another cluster, another group or another life of this one.
    Foreign,
    /// The sender is no member, or claims to be this replica.
    Sender,
    /// From an older view.
    OlderView,
    /// From a newer view: this replica must catch up first.
    NewerView,
    /// This replica is not in normal operation.
    NotNormal,
    /// Only the primary may say that, or be told that.
    Role,
    /// Already held.
    Duplicate,
    /// An entry before it is missing here.
    Gap,
    /// The entry does not continue this replica's log.
    Chain,
    /// The acknowledged entry is not the one in this replica's log.
    Identity,
}

/// To whom a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Every other replica of the group.
    Backups,
    /// One replica.
    Replica(ReplicaId),
}
