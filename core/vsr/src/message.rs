//! What replicas of one group say to each other. Message catalogue:
//!
//! | message | from → to | says | durable at the sender first |
//! | --- | --- | --- | --- |
//! | [`MessageBody::Prepare`] | primary → backups | append this entry | view and log view |
//! | [`MessageBody::PrepareOk`] | backup → primary | I hold every entry up to this one, and this is its id in *my* log | log view; the entries, as the group's durability asks |
//! | [`MessageBody::Commit`] | primary → backups | everything up to this op is committed | view and log view |
//! | [`MessageBody::Suspect`] | any → all | I would go to this view; binds me to nothing | nothing |
//! | [`MessageBody::Vote`] | voter → primary of the view | I left all earlier views, and this is my log | view, and all of the log that the vote names |
//! | [`MessageBody::StartView`] | primary → backups, or → a replica that probed | the view has begun, and this is its log | view and log view |
//! | [`MessageBody::Probe`] | restarted or lagging → all | which view is it? | nothing |
//! | [`MessageBody::Fetch`] | lagging → holder | send me these entries | nothing |
//! | [`MessageBody::Entry`] | holder → lagging | one of them | nothing: the receiver knows the identity that it wants |
//! | [`MessageBody::FetchSnapshot`] | lagging → holder | send me this part of your snapshot | nothing |
//! | [`MessageBody::Snapshot`] | holder → lagging | a part; also the answer to a fetch of entries that are gone | the snapshot |
//!
//! *Viewstamped Replication Revisited* calls `Suspect` StartViewChange and `Vote` DoViewChange. Every message carries the
//! sender's cluster, group life, view and roster epoch in its [`Envelope`]; what does not fit is ignored with a reason
//! ([`Ignored`]), and ignoring is always safe.

use crate::entry::Entry;
use crate::id::{ClusterId, EntryId, GroupId, OpNumber, ReplicaId, ViewNumber};
use bytes::Bytes;

/// Ids that a [`Suffix`] may hold: what a primary may have in flight, and some more.
pub const SUFFIX_MAX: usize = 4096;
/// Bytes of a snapshot in one message, at most.
pub const CHUNK_MAX: usize = 256 * 1024;
/// Bytes of a snapshot, at most.
pub const SNAPSHOT_MAX: u64 = 256 * 1024 * 1024;

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

/// The end of a log by identity: the ids of the ops after `floor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suffix {
    /// The op before the first id. Committed, so equal in every log that goes that far.
    pub floor: OpNumber,
    /// Ids of `floor + 1`, `floor + 2`, …; at most [`SUFFIX_MAX`].
    pub ids: Vec<EntryId>,
}

impl Suffix {
    /// The id of an op, if the suffix names it.
    pub fn id(&self, op: OpNumber) -> Option<EntryId> {
        let at = op.0.checked_sub(self.floor.0)?.checked_sub(1)?;
        self.ids.get(usize::try_from(at).ok()?).copied()
    }
}

/// A log as its replica presents it in a view change. The same for the whole of one view, also after a restart.
///
/// Every op is in one of three states: up to `head` the voter *has* it with the identity that the log gives it; after
/// `unknown_to` it was *never* acknowledged here, and this can be proved; between the two it is *unknown* (a record there is
/// damaged) and the vote counts neither for it nor against it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vote {
    /// Last view whose log this is.
    pub log_view: ViewNumber,
    /// Last op that is held.
    pub head: OpNumber,
    /// Its identity.
    pub head_id: EntryId,
    /// Ops after `head` up to this one may have been acknowledged here. Equals `head` when nothing is damaged.
    pub unknown_to: OpNumber,
    /// Highest op known to be committed; may be above `head`.
    pub commit: OpNumber,
    /// The end of the log, above what is applied here.
    pub suffix: Suffix,
}

/// The log with which a view begins, or which it has reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartView {
    /// Last op.
    pub head: OpNumber,
    /// Its identity.
    pub head_id: EntryId,
    /// Committed up to here.
    pub commit: OpNumber,
    /// The end of the log, above what is applied at the primary.
    pub suffix: Suffix,
    /// Set in the answer to a probe: the incarnation that asked. Nobody else may take it for an answer.
    pub answers: Option<u128>,
}

/// What is known of a snapshot before its bytes are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// First op that is not in it.
    pub first_op: OpNumber,
    /// Identity of the op before.
    pub parent: EntryId,
    /// Timestamp of the op before.
    pub timestamp: u64,
    /// Bytes of the whole; at most [`SNAPSHOT_MAX`].
    pub length: u64,
    /// XXH3-128 of the whole.
    pub checksum: u128,
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
        /// Last op that the sender has executed.
        applied: OpNumber,
    },
    /// Everything up to `commit` is committed, and the primary's log goes to `head`. Asks for an acknowledgement.
    Commit {
        /// The primary's commit number.
        commit: OpNumber,
        /// Identity of that op.
        id: EntryId,
        /// Last op of the primary's log.
        head: OpNumber,
        /// Its identity.
        head_id: EntryId,
    },
    /// The sender would go to `target`, which is greater than its view.
    Suspect {
        /// Where to.
        target: ViewNumber,
    },
    /// The sender left all views before the envelope's.
    Vote(Vote),
    /// The envelope's view has begun.
    StartView(StartView),
    /// The sender asks for the present view.
    Probe {
        /// Of this start of its process.
        incarnation: u128,
    },
    /// The sender wants the entries `from ..= to` of the log in which `to` has this id.
    Fetch {
        /// First op wanted.
        from: OpNumber,
        /// Last op wanted; the answer may end earlier.
        to: OpNumber,
        /// Identity of `to`.
        to_id: EntryId,
    },
    /// An entry that was asked for.
    Entry(Entry),
    /// The sender wants the snapshot's bytes from `position` on.
    FetchSnapshot {
        /// Which snapshot.
        first_op: OpNumber,
        /// First byte.
        position: u64,
    },
    /// A part of a snapshot.
    Snapshot {
        /// Of which.
        info: SnapshotInfo,
        /// First byte.
        position: u64,
        /// At most [`CHUNK_MAX`] bytes.
        chunk: Bytes,
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
    /// From a newer view: this replica asks which one it is.
    NewerView,
    /// This replica is not in a state in which that means something.
    Status,
    /// Only the primary may say that, or be told that.
    Role,
    /// Already held.
    Duplicate,
    /// An entry before it is missing here; it was asked for.
    Gap,
    /// The entry does not continue this replica's log.
    Chain,
    /// The acknowledged entry is not the one in this replica's log.
    Identity,
    /// A second vote of the same replica in the same view, and another one: one of the two is broken.
    Equivocation,
    /// Numbers that no correct replica sends.
    Malformed,
}

/// To whom a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Every other replica of the group.
    Others,
    /// One replica.
    Replica(ReplicaId),
}

/// What must survive a crash of a replica besides its log: its promises. One record a group in the node's vote log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoteRecord {
    /// The group and its life.
    pub group: GroupId,
    /// No message that binds leaves for an earlier view.
    pub view: ViewNumber,
    /// Last view whose log is held; at most `view`.
    pub log_view: ViewNumber,
    /// Head of the log when the vote for `view` was cast; meaningless once `log_view` equals `view`.
    pub head: OpNumber,
    /// Its identity.
    pub head_id: EntryId,
    /// Commit number of the vote.
    pub commit: OpNumber,
    /// First op of the vote's unknown range is `head + 1`, this is the last one.
    pub unknown_to: OpNumber,
    /// The op before the first id of the vote's suffix.
    pub floor: OpNumber,
    /// The replica has lost memory and has not taken over a log since: it stays mute after further restarts, too.
    pub memory_lost: bool,
}
