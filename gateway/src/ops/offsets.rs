//! Stored offsets of consumers.

use super::messages::{borrowed, missing};
use crate::caller::Caller;
use crate::error::GatewayError;
use crate::gateway::{Gateway, unexpected};
use crate::ops::Target;
use crate::views::{ConsumerOffset, ConsumerRef};
use whippet_protocol::send::consumer_key;
use whippet_protocol::{ErrorCode, Identifier};
use whippet_shard::{Consumer, Reply, Request};

impl Gateway {
    fn position(
        &self,
        consumer: &ConsumerRef,
        stream: &Identifier,
        topic: &Identifier,
        partition: Option<u32>,
    ) -> Result<(Target, Option<Consumer>), GatewayError> {
        let target =
            self.source(borrowed(stream), borrowed(topic), partition).map_err(|code| missing(code, stream, topic))?;
        let consumer = match consumer {
            ConsumerRef::Single(id) => Some(Consumer::Single(consumer_key(borrowed(id)))),
            ConsumerRef::Group(_) => None,
        };
        Ok((target, consumer))
    }

    /// A stored offset, `None` when nothing is stored for that consumer.
    ///
    /// # Errors
    /// 1009, 2010, 3007.
    pub async fn get_consumer_offset(
        &self,
        _caller: &Caller,
        consumer: &ConsumerRef,
        stream: &Identifier,
        topic: &Identifier,
        partition: Option<u32>,
    ) -> Result<Option<ConsumerOffset>, GatewayError> {
        let (target, consumer) = self.position(consumer, stream, topic, partition)?;
        let Some(consumer) = consumer else { return Ok(None) };
        match self.call(Request::GetOffset { group: target.group, consumer }).await? {
            Reply::Offset(info) => Ok(info.stored_offset.map(|stored_offset| ConsumerOffset {
                partition_id: target.partition_id,
                current_offset: info.current_offset,
                stored_offset,
            })),
            other => Err(unexpected(&other)),
        }
    }

    /// Stores the offset of the last message that a consumer has handled. It may go back.
    ///
    /// # Errors
    /// 1009, 2010, 3007, 5000 for a consumer group, 4100 for an offset behind the last message, 3024 when the partition
    /// keeps as many as it may.
    pub async fn store_consumer_offset(
        &self,
        caller: &Caller,
        consumer: &ConsumerRef,
        stream: &Identifier,
        topic: &Identifier,
        partition: Option<u32>,
        offset: u64,
    ) -> Result<(), GatewayError> {
        let (target, consumer) = self.position(consumer, stream, topic, partition)?;
        let consumer = consumer.ok_or(ErrorCode::ConsumerGroupIdNotFound)?;
        let identity = self.identity(caller);
        match self.call(Request::StoreOffset { group: target.group, consumer, offset, identity }).await? {
            Reply::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Forgets a stored offset.
    ///
    /// # Errors
    /// 1009, 2010, 3007, 5000 for a consumer group, 3021 when nothing is stored.
    pub async fn delete_consumer_offset(
        &self,
        caller: &Caller,
        consumer: &ConsumerRef,
        stream: &Identifier,
        topic: &Identifier,
        partition: Option<u32>,
    ) -> Result<(), GatewayError> {
        let (target, consumer) = self.position(consumer, stream, topic, partition)?;
        let consumer = consumer.ok_or(ErrorCode::ConsumerGroupIdNotFound)?;
        let identity = self.identity(caller);
        match self.call(Request::DeleteOffset { group: target.group, consumer, identity }).await? {
            Reply::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }
}
