//! Appending and reading messages: the hot path.

use crate::caller::Caller;
use crate::error::GatewayError;
use crate::gateway::{Gateway, unexpected};
use crate::views::{Confirmation, ConsumerRef, Partitioning, PollArgs, PollResult, SendArgs};
use bytes::BytesMut;
use std::ops::Range;
use whippet_metadata::MetadataState;
use whippet_metadata::options::Durability;
use whippet_protocol::send::{IdentifierRef, PartitioningRef, consumer_key, partition_for_key};
use whippet_protocol::{ErrorCode, Identifier, Name};
use whippet_shard::{Consumer, Reply, Request, Strategy};
use whippet_vsr::GroupId;

/// The partition that a request means, resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) stream_id: u32,
    pub(crate) topic_id: u32,
    pub(crate) partition_id: u32,
    pub(crate) group: GroupId,
    pub(crate) durability: Durability,
}

/// An identifier as the hot path takes it.
pub(crate) fn borrowed(identifier: &Identifier) -> IdentifierRef<'_> {
    match identifier {
        Identifier::Id(id) => IdentifierRef::Id(*id),
        Identifier::Name(name) => IdentifierRef::Name(name.as_str()),
    }
}

/// An identifier as look-ups take it. Allocates only for a name.
fn owned(identifier: IdentifierRef<'_>) -> Result<Identifier, ErrorCode> {
    match identifier {
        IdentifierRef::Id(id) => Ok(Identifier::Id(id)),
        IdentifierRef::Name(name) => Name::new(name).map(Identifier::Name).map_err(|_| ErrorCode::InvalidCommand),
    }
}

fn locate(
    state: &MetadataState,
    stream: &Identifier,
    topic: &Identifier,
    choose: impl FnOnce(u32, u64) -> Option<u32>,
) -> Result<Target, ErrorCode> {
    let (stream, topic) = state.topic(stream, topic)?;
    let count = topic.partitions.len() as u32;
    let first = topic.partitions.first().map_or(0, |partition| partition.group.number);
    let partition_id = choose(count, first).ok_or(ErrorCode::NoPartitions)?;
    let partition = topic.partitions.get(partition_id as usize).ok_or(ErrorCode::PartitionNotFound)?;
    Ok(Target {
        stream_id: stream.id,
        topic_id: topic.id,
        partition_id,
        group: GroupId { number: partition.group.number, life: partition.group.life },
        durability: topic.options.durability(),
    })
}

impl Gateway {
    /// The partition that a producer means.
    ///
    /// # Errors
    /// 1009, 2010, 3007; 3008 for a topic without partitions.
    pub(crate) fn target(
        &self,
        stream: IdentifierRef<'_>,
        topic: IdentifierRef<'_>,
        partitioning: PartitioningRef<'_>,
    ) -> Result<Target, ErrorCode> {
        let (stream, topic) = (owned(stream)?, owned(topic)?);
        self.metadata(|state| {
            locate(state, &stream, &topic, |count, first| match partitioning {
                PartitioningRef::Partition(id) => Some(id),
                PartitioningRef::Balanced => (count > 0).then(|| self.next_balanced(first) % count),
                PartitioningRef::Key(key) => partition_for_key(key, count),
            })
        })
    }

    /// The partition that a consumer means; none means 0.
    ///
    /// # Errors
    /// 1009, 2010, 3007.
    pub(crate) fn source(
        &self,
        stream: IdentifierRef<'_>,
        topic: IdentifierRef<'_>,
        partition: Option<u32>,
    ) -> Result<Target, ErrorCode> {
        let (stream, topic) = (owned(stream)?, owned(topic)?);
        self.metadata(|state| locate(state, &stream, &topic, |_, _| Some(partition.unwrap_or(0))))
    }

    /// Appends a batch that was checked, to a partition that was found.
    pub(crate) async fn append(
        &self,
        caller: &Caller,
        target: Target,
        buffer: BytesMut,
        batch: Range<usize>,
        count: u32,
    ) -> Result<Confirmation, GatewayError> {
        let request = Request::Send { group: target.group, identity: self.identity(caller), buffer, batch, count };
        match self.call(request).await? {
            Reply::Sent { base_offset, .. } => Ok(Confirmation {
                stream_id: target.stream_id,
                topic_id: target.topic_id,
                partition_id: target.partition_id,
                base_offset,
                durability: target.durability,
            }),
            other => Err(unexpected(&other)),
        }
    }

    /// Appends a batch and waits for the durability of the topic.
    ///
    /// # Errors
    /// 1009, 2010, 3007, 3008 for what does not exist; the codes of [`whippet_protocol::batch::verify`] for a batch that
    /// does not check out; 58 when nothing was appended and it may be tried again, 57 when that is not known.
    pub async fn send_messages(&self, caller: &Caller, send: SendArgs) -> Result<Confirmation, GatewayError> {
        let SendArgs { stream, topic, partitioning, buffer, batch, count } = send;
        let partitioning = match &partitioning {
            Partitioning::Balanced => PartitioningRef::Balanced,
            Partitioning::Partition(id) => PartitioningRef::Partition(*id),
            Partitioning::Key(key) if (1..=255).contains(&key.len()) => PartitioningRef::Key(key),
            Partitioning::Key(_) => {
                return Err(GatewayError::because(ErrorCode::InvalidKeyValueLength, "a key has 1 to 255 bytes"));
            }
        };
        let target = self
            .target(borrowed(&stream), borrowed(&topic), partitioning)
            .map_err(|code| missing(code, &stream, &topic))?;
        whippet_protocol::batch::verify(&buffer[batch.clone()], count)?;
        self.append(caller, target, buffer, batch, count).await
    }

    /// Reads messages.
    ///
    /// # Errors
    /// 1009, 2010, 3007 for what does not exist, 5000 for a consumer group, 3009 for a partition whose data is damaged.
    pub async fn poll_messages(&self, caller: &Caller, poll: PollArgs) -> Result<PollResult, GatewayError> {
        let consumer = match &poll.consumer {
            ConsumerRef::Single(id) => Consumer::Single(consumer_key(borrowed(id))),
            ConsumerRef::Group(_) => return Err(ErrorCode::ConsumerGroupIdNotFound.into()),
        };
        let target = self
            .source(borrowed(&poll.stream), borrowed(&poll.topic), poll.partition)
            .map_err(|code| missing(code, &poll.stream, &poll.topic))?;
        self.read(caller, target, consumer, poll.strategy, poll.count, poll.auto_commit).await
    }

    /// Reads messages of a partition that was found.
    pub(crate) async fn read(
        &self,
        caller: &Caller,
        target: Target,
        consumer: Consumer,
        strategy: Strategy,
        count: u32,
        auto_commit: bool,
    ) -> Result<PollResult, GatewayError> {
        let identity = if auto_commit { self.identity(caller) } else { whippet_shard::Identity::default() };
        let max_bytes = self.replies().allowance();
        let request =
            Request::Poll { group: target.group, consumer, strategy, count, max_bytes, auto_commit, identity };
        match self.call(request).await? {
            Reply::Polled(polled) => Ok(PollResult {
                partition_id: target.partition_id,
                current_offset: polled.current_offset,
                count: polled.count,
                chunks: polled.chunks.into_iter().map(|chunk| self.replies().hold(chunk)).collect(),
            }),
            other => Err(unexpected(&other)),
        }
    }
}

/// Says what it is that does not exist.
pub(crate) fn missing(code: ErrorCode, stream: &Identifier, topic: &Identifier) -> GatewayError {
    let reason = match code {
        ErrorCode::StreamIdNotFound => format!("stream `{stream}` does not exist"),
        ErrorCode::TopicIdNotFound => format!("topic `{topic}` does not exist in stream `{stream}`"),
        ErrorCode::PartitionNotFound => format!("topic `{topic}` of stream `{stream}` has no such partition"),
        ErrorCode::NoPartitions => format!("topic `{topic}` of stream `{stream}` has no partitions"),
        other => return other.into(),
    };
    GatewayError::because(code, reason)
}
