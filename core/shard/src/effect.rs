//! What happens to a shard, and what it wants.

use crate::notice::Notice;
use crate::request::{Reply, Request, RequestTicket};
use whippet_metadata::LogEntry;
use whippet_metadata::command::GroupChange;
use whippet_storage::{StorageCompletion, StorageEffect};

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
    /// Make committed metadata visible to readers, before any later reply is delivered.
    Publish(LogEntry),
    /// Tell the shards that host these partitions, before any later reply is delivered.
    Groups(Vec<GroupChange>),
    /// Tell a person.
    Notice(Notice),
    /// The storage can't be trusted any more: end the process, it recovers from its disk at the next start.
    Fatal(String),
}
