//! The bodies of the two hot requests, read without a copy: `send messages` and `poll messages`.

use crate::batch::u32_at;
use crate::error_code::ErrorCode;
use crate::identifier::{Identifier, Name};
use crate::limits::BATCH_HEADER_SIZE;
use twox_hash::XxHash32;

/// An identifier that borrows from the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentifierRef<'a> {
    /// The numeric id.
    Id(u32),
    /// The name, 1 to 255 bytes.
    Name(&'a str),
}

impl IdentifierRef<'_> {
    /// The same, owned.
    pub fn to_identifier(self) -> Identifier {
        match self {
            IdentifierRef::Id(id) => Identifier::Id(id),
            IdentifierRef::Name(name) => {
                Identifier::Name(Name::new(name).expect("names of requests have 1 to 255 bytes"))
            }
        }
    }
}

/// How a producer names the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitioningRef<'a> {
    /// The server spreads batches evenly.
    Balanced,
    /// This partition.
    Partition(u32),
    /// The partition that the key's hash names.
    Key(&'a [u8]),
}

/// Reads a body from its start.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], ErrorCode> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(ErrorCode::InvalidCommand)?;
        self.rest = rest;
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8, ErrorCode> {
        Ok(self.take(1)?[0])
    }

    fn u32(&mut self) -> Result<u32, ErrorCode> {
        Ok(u32_at(self.take(4)?, 0))
    }

    fn u64(&mut self) -> Result<u64, ErrorCode> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().map_err(|_| ErrorCode::InvalidCommand)?))
    }

    fn identifier(&mut self) -> Result<IdentifierRef<'a>, ErrorCode> {
        let (kind, length) = (self.u8()?, self.u8()?);
        let value = self.take(usize::from(length))?;
        match (kind, length) {
            (1, 4) => Ok(IdentifierRef::Id(u32_at(value, 0))),
            (2, 1..) => std::str::from_utf8(value).map(IdentifierRef::Name).map_err(|_| ErrorCode::InvalidCommand),
            _ => Err(ErrorCode::InvalidCommand),
        }
    }

    fn partitioning(&mut self) -> Result<PartitioningRef<'a>, ErrorCode> {
        let (kind, length) = (self.u8()?, self.u8()?);
        let value = self.take(usize::from(length))?;
        match (kind, length) {
            (1, 0) => Ok(PartitioningRef::Balanced),
            (2, 4) => Ok(PartitioningRef::Partition(u32_at(value, 0))),
            (3, 1..) => Ok(PartitioningRef::Key(value)),
            (3, 0) => Err(ErrorCode::InvalidKeyValueLength),
            _ => Err(ErrorCode::InvalidCommand),
        }
    }
}

/// The body of `send messages`: `[length u32][stream][topic][partitioning][count u32][batch]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendMessages<'a> {
    /// The stream.
    pub stream: IdentifierRef<'a>,
    /// The topic.
    pub topic: IdentifierRef<'a>,
    /// The partition.
    pub partitioning: PartitioningRef<'a>,
    /// Messages in the batch, as the routing part says.
    pub count: u32,
    /// Where the batch starts in the body; it ends where the body ends.
    pub batch_start: usize,
}

impl<'a> SendMessages<'a> {
    /// Reads the routing part. The batch is checked by [`crate::batch::verify`].
    ///
    /// # Errors
    /// 3 for a body that can't be read, 4028 for a key of a length that is not 1 to 255, 4029 when the batch is cut off,
    /// 4009 for a count of 0.
    pub fn parse(body: &'a [u8]) -> Result<SendMessages<'a>, ErrorCode> {
        let mut reader = Reader { rest: body };
        let length = reader.u32()? as usize;
        let mut routing = Reader { rest: reader.take(length)? };
        let parsed = SendMessages {
            stream: routing.identifier()?,
            topic: routing.identifier()?,
            partitioning: routing.partitioning()?,
            count: routing.u32()?,
            batch_start: 4 + length,
        };
        if !routing.rest.is_empty() {
            return Err(ErrorCode::InvalidCommand);
        }
        if parsed.count == 0 {
            return Err(ErrorCode::InvalidMessagesCount);
        }
        if reader.rest.len() < BATCH_HEADER_SIZE {
            return Err(ErrorCode::CommandLengthError);
        }
        Ok(parsed)
    }
}

/// Who polls or stores an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerRef<'a> {
    /// A plain consumer.
    Single(IdentifierRef<'a>),
    /// A consumer group.
    Group(IdentifierRef<'a>),
}

/// Where a poll starts, as the wire has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollStart {
    /// At an offset.
    Offset(u64),
    /// At a time in µs.
    Timestamp(u64),
    /// At the first message.
    First,
    /// So that the last messages are returned.
    Last,
    /// Behind the stored offset.
    Next,
}

/// The body of `poll messages`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollMessages<'a> {
    /// For whom.
    pub consumer: ConsumerRef<'a>,
    /// The stream.
    pub stream: IdentifierRef<'a>,
    /// The topic.
    pub topic: IdentifierRef<'a>,
    /// The partition, if one is named.
    pub partition: Option<u32>,
    /// From where on.
    pub start: PollStart,
    /// At most this many messages.
    pub count: u32,
    /// Store the offset of the last returned message.
    pub auto_commit: bool,
}

impl<'a> PollMessages<'a> {
    /// Reads the whole body.
    ///
    /// # Errors
    /// 3 for a body that can't be read or has bytes behind it.
    pub fn parse(body: &'a [u8]) -> Result<PollMessages<'a>, ErrorCode> {
        let mut reader = Reader { rest: body };
        let consumer = match (reader.u8()?, reader.identifier()?) {
            (1, id) => ConsumerRef::Single(id),
            (2, id) => ConsumerRef::Group(id),
            _ => return Err(ErrorCode::InvalidCommand),
        };
        let (stream, topic) = (reader.identifier()?, reader.identifier()?);
        let partition = match (reader.u8()?, reader.u32()?) {
            (0, _) => None,
            (1, partition) => Some(partition),
            _ => return Err(ErrorCode::InvalidCommand),
        };
        let start = match (reader.u8()?, reader.u64()?) {
            (1, offset) => PollStart::Offset(offset),
            (2, timestamp) => PollStart::Timestamp(timestamp),
            (3, _) => PollStart::First,
            (4, _) => PollStart::Last,
            (5, _) => PollStart::Next,
            _ => return Err(ErrorCode::InvalidCommand),
        };
        let count = reader.u32()?;
        let auto_commit = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return Err(ErrorCode::InvalidCommand),
        };
        if !reader.rest.is_empty() {
            return Err(ErrorCode::InvalidCommand);
        }
        Ok(PollMessages { consumer, stream, topic, partition, start, count, auto_commit })
    }
}

/// Bytes before the batches of a poll reply: partition, current offset, number of messages.
pub fn poll_reply_head(partition: u32, current_offset: u64, count: u32) -> [u8; 16] {
    let mut head = [0; 16];
    head[..4].copy_from_slice(&partition.to_le_bytes());
    head[4..12].copy_from_slice(&current_offset.to_le_bytes());
    head[12..].copy_from_slice(&count.to_le_bytes());
    head
}

/// The partition that a key names, as the official clients compute it themselves; `None` for a topic without partitions.
pub fn partition_for_key(key: &[u8], partitions: u32) -> Option<u32> {
    (partitions > 0).then(|| XxHash32::oneshot(0, key) % partitions)
}

/// The number under which the offset of a named consumer is stored. Numbers and names share one space, as in the protocol.
pub fn consumer_key(consumer: IdentifierRef<'_>) -> u32 {
    match consumer {
        IdentifierRef::Id(id) => id,
        IdentifierRef::Name(name) => XxHash32::oneshot(0, name.as_bytes()),
    }
}
