//! What happens to a shard, and what it wants.

use crate::frame::Frame;
use crate::notice::Notice;
use crate::request::{Reply, Request, RequestTicket};
use whippet_metadata::command::GroupChange;
use whippet_metadata::{LogEntry, MetadataState};
use whippet_storage::{StorageCompletion, StorageEffect};
use whippet_vsr::ReplicaId;

/// Something that happened.
#[derive(Debug)]
pub enum Event {
    /// Somebody asks for something.
    Request {
        /// Under which the reply is reported.
        ticket: RequestTicket,
        /// For what.
        request: Request,
    },
    /// A storage operation has ended.
    Storage(StorageCompletion),
    /// The metadata log created, emptied or deleted partitions of this shard.
    Groups(Vec<GroupChange>),
    /// A frame of the same shard of another node. Its bytes have been checked.
    Peer {
        /// Whose.
        from: ReplicaId,
        /// What.
        frame: Frame,
    },
    /// The process is about to stop: sync everything as soon as it is written.
    Flush,
}

/// Something that the shard wants.
#[derive(Debug)]
pub enum Effect {
    /// Carry out a storage operation and report its completion.
    Storage(StorageEffect),
    /// Answer a request.
    Reply {
        /// Which.
        ticket: RequestTicket,
        /// With what.
        reply: Reply,
    },
    /// Send a frame to the same shard of another node; it may get lost, come late or twice.
    Peer {
        /// To whom.
        to: ReplicaId,
        /// What.
        frame: Frame,
    },
    /// Make committed metadata visible to readers, before any later reply is delivered.
    Publish(LogEntry),
    /// Make this metadata visible to readers instead of what was: it came from a peer's snapshot.
    Restored(Box<MetadataState>),
    /// Tell the shards that host these partitions, before any later reply is delivered.
    Groups(Vec<GroupChange>),
    /// Tell a person.
    Notice(Notice),
    /// The storage can't be trusted any more: end the process, it recovers from its disk at the next start.
    Fatal(String),
}
