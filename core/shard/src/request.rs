//! What a shard is asked, and what it answers. Plain values: the runtime carries them between threads.

use bytes::{Bytes, BytesMut};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use whippet_metadata::command::{Envelope, Outcome};
pub use whippet_partition::Consumer;
use whippet_protocol::ErrorCode;
use whippet_vsr::GroupId;

/// Names one outstanding request; chosen by the host, answered exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestTicket(pub u64);

/// Who asks: what makes a repeated write recognisable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Client id; 0 when nothing can repeat the request (it is then never taken for a duplicate).
    pub client: u128,
    /// Session number.
    pub session: u64,
    /// Request number, from 1 on; 0 together with client 0.
    pub request: u64,
    /// Acting user.
    pub user: u32,
}

/// Where a poll starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// At this offset; below the first retained one it starts there, past the end it is empty.
    Offset(u64),
    /// At the first message whose batch was appended at or after this time (µs since 1970).
    Timestamp(u64),
    /// At the first retained message.
    First,
    /// So that the last `count` messages are returned.
    Last,
    /// After the consumer's stored offset, or at the first message when none is stored.
    Next,
}

/// Something that a shard is asked to do.
#[derive(Debug)]
pub enum Request {
    /// A command for the metadata log. Shard 0 only.
    Metadata(Arc<Envelope>),
    /// Append a batch.
    Send {
        /// To which partition.
        group: GroupId,
        /// By whom.
        identity: Identity,
        /// A whole buffer in which the batch lies at `batch`, with at least 192 bytes before it: the record header is
        /// written there, so the bytes that came from the socket are the bytes that go to disk.
        buffer: BytesMut,
        /// Where in `buffer` the batch lies; it must end where the buffer ends. Must have passed
        /// `whippet_protocol::batch::verify`.
        batch: Range<usize>,
        /// Messages in the batch, at least 1.
        count: u32,
    },
    /// Read messages.
    Poll {
        /// From which partition.
        group: GroupId,
        /// For whom (next, auto-commit).
        consumer: Consumer,
        /// From where on.
        strategy: Strategy,
        /// At most this many messages.
        count: u32,
        /// At most this many bytes of batches; one batch or message is returned even if it alone is larger.
        max_bytes: u32,
        /// Store the offset of the last returned message for the consumer before replying.
        auto_commit: bool,
        /// By whom.
        identity: Identity,
    },
    /// Read a stored offset.
    GetOffset {
        /// In which partition.
        group: GroupId,
        /// Whose.
        consumer: Consumer,
    },
    /// Store an offset.
    StoreOffset {
        /// In which partition.
        group: GroupId,
        /// Whose.
        consumer: Consumer,
        /// The offset of the last message that was handled.
        offset: u64,
        /// By whom.
        identity: Identity,
    },
    /// Forget a stored offset.
    DeleteOffset {
        /// In which partition.
        group: GroupId,
        /// Whose.
        consumer: Consumer,
        /// By whom.
        identity: Identity,
    },
    /// Empty the partition; repeating an intent does nothing.
    Purge {
        /// Which partition.
        group: GroupId,
        /// Op of the metadata command.
        intent: u64,
    },
    /// Sizes and counts of partitions that this shard hosts; unknown ones give `None`.
    Stats {
        /// Which partitions.
        groups: Vec<GroupId>,
    },
}

/// Numbers of one partition as of its committed state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionStats {
    /// Bytes of retained batches, as producers count them (batch header and messages).
    pub size_bytes: u64,
    /// Retained messages.
    pub messages: u64,
    /// Segments, at least 1.
    pub segments: u32,
    /// Offset of the last message, 0 when there never was one.
    pub current_offset: u64,
    /// Offset of the first retained message; equals the next offset when nothing is retained.
    pub first_offset: u64,
    /// Offset that the next message will get.
    pub next_offset: u64,
}

/// A stored offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetInfo {
    /// Offset of the partition's last message.
    pub current_offset: u64,
    /// What is stored, if anything.
    pub stored_offset: Option<u64>,
}

/// Messages as a poll returns them.
#[derive(Clone, Debug, Default)]
pub struct Polled {
    /// Offset of the partition's last committed message, 0 when there is none.
    pub current_offset: u64,
    /// Offset of the first retained message.
    pub first_offset: u64,
    /// Messages in all chunks together.
    pub count: u32,
    /// Batches, header and frames, ready for the wire; concatenated they are whole batch records.
    pub chunks: Vec<Bytes>,
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The protocol's number.
    pub code: ErrorCode,
    /// What a person should know: what failed, on what, what to do.
    pub reason: Cow<'static, str>,
}

impl Refusal {
    /// A refusal with the code's own text.
    pub fn of(code: ErrorCode) -> Refusal {
        Refusal { code, reason: Cow::Borrowed(code.text()) }
    }

    /// A refusal with a text of its own.
    pub fn because(code: ErrorCode, reason: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { code, reason: reason.into() }
    }
}

/// The answer to a [`Request`].
#[derive(Debug)]
pub enum Reply {
    /// To [`Request::Metadata`]: the command is committed, this is what it did.
    Metadata {
        /// Its op; for a replayed outcome the op of the first time is not kept, this is the present commit number then.
        op: u64,
        /// What it did.
        outcome: Outcome,
    },
    /// To [`Request::Metadata`]: the client table does not let the request in.
    MetadataRefused(whippet_metadata::client_table::Refusal),
    /// To [`Request::Send`].
    Sent {
        /// Offset of the first message.
        base_offset: u64,
        /// Whether the batch was appended by an earlier attempt with the same number.
        duplicate: bool,
    },
    /// To [`Request::Poll`].
    Polled(Polled),
    /// To [`Request::GetOffset`].
    Offset(OffsetInfo),
    /// To [`Request::StoreOffset`], [`Request::DeleteOffset`], [`Request::Purge`].
    Done,
    /// To [`Request::Stats`], in the order of the question.
    Stats(Vec<Option<PartitionStats>>),
    /// Not carried out, and certainly not logged.
    Refused(Refusal),
}
