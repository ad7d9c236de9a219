//! Bodies of the requests that the harness itself sends, encoded by the public protocol crate where it has an encoder.

use bytes::BytesMut;
use iggy_binary_protocol::requests::consumer_offsets::{GetConsumerOffsetRequest, StoreConsumerOffsetRequest};
use iggy_binary_protocol::requests::messages::{PollMessagesRequest, RawMessage, SendMessagesEncoder};
use iggy_binary_protocol::{AckLevel, WireConsumer, WireEncode, WireIdentifier, WirePartitioning, WirePollingStrategy};

/// Packed protocol version 0.11.0.
pub const PROTOCOL_VERSION: u32 = 11 << 10;

/// One partition, addressed by numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Stream number.
    pub stream: u32,
    /// Topic number in the stream.
    pub topic: u32,
    /// Partition number in the topic.
    pub partition: u32,
}

/// A login by password, announcing `version`.
///
/// # Panics
/// When a text is longer than 255 bytes.
#[must_use]
pub fn login(version: u32, username: &str, password: &str) -> Vec<u8> {
    let mut body = version.to_le_bytes().to_vec();
    for text in ["harness", "0.0.0", username, password] {
        body.push(u8::try_from(text.len()).expect("login texts are short"));
        body.extend_from_slice(text.as_bytes());
    }
    body.extend_from_slice(&0u32.to_le_bytes());
    body
}

/// "Create stream" without options.
///
/// # Panics
/// When the name is longer than 255 bytes.
#[must_use]
pub fn create_stream(name: &str) -> Vec<u8> {
    let mut body = vec![u8::try_from(name.len()).expect("names are short")];
    body.extend_from_slice(name.as_bytes());
    body
}

/// "Create topic" with options given as texts.
///
/// # Panics
/// When the name, a key or a value is longer than 255 bytes.
#[must_use]
pub fn create_topic(stream: u32, name: &str, partitions: u32, options: &[(&str, &str)]) -> Vec<u8> {
    let mut body = numeric(stream);
    body.extend_from_slice(&partitions.to_le_bytes());
    body.extend_from_slice(&create_stream(name));
    for (key, value) in options {
        for text in [key, value] {
            body.push(2);
            body.extend_from_slice(&u32::try_from(text.len()).expect("option texts are short").to_le_bytes());
            body.extend_from_slice(text.as_bytes());
        }
    }
    body
}

/// An identifier by number.
#[must_use]
pub fn numeric(id: u32) -> Vec<u8> {
    let mut bytes = vec![1, 4];
    bytes.extend_from_slice(&id.to_le_bytes());
    bytes
}

/// "Send messages" to one partition, one message a payload; the ids are `first_id`, `first_id` + 1, …
///
/// # Panics
/// When there is no payload.
#[must_use]
pub fn send(target: Target, first_id: u128, payloads: &[Vec<u8>]) -> Vec<u8> {
    let messages: Vec<RawMessage<'_>> = payloads
        .iter()
        .zip(first_id..)
        .map(|(payload, id)| RawMessage { id, origin_timestamp: 1_700_000_000_000_000, headers: None, payload })
        .collect();
    let mut body = BytesMut::new();
    SendMessagesEncoder::encode(
        &mut body,
        &WireIdentifier::numeric(target.stream),
        &WireIdentifier::numeric(target.topic),
        &WirePartitioning::PartitionId(target.partition),
        &messages,
    )
    .expect("the harness sends well-formed batches");
    body.to_vec()
}

/// Where the batch starts inside a body made by [`send`]: two numeric identifiers, a partition id and the count precede it.
pub const SEND_BATCH_START: usize = 4 + 6 + 6 + 6 + 4;

/// "Poll messages" of a plain consumer.
#[must_use]
pub fn poll(target: Target, consumer: u32, strategy: WirePollingStrategy, count: u32, auto_commit: bool) -> Vec<u8> {
    let request = PollMessagesRequest {
        consumer: WireConsumer::consumer(WireIdentifier::numeric(consumer)),
        stream_id: WireIdentifier::numeric(target.stream),
        topic_id: WireIdentifier::numeric(target.topic),
        partition_id: Some(target.partition),
        strategy,
        count,
        auto_commit,
    };
    request.to_bytes().to_vec()
}

/// "Store consumer offset" of a plain consumer.
#[must_use]
pub fn store_offset(target: Target, consumer: u32, offset: u64) -> Vec<u8> {
    let request = StoreConsumerOffsetRequest {
        consumer: WireConsumer::consumer(WireIdentifier::numeric(consumer)),
        stream_id: WireIdentifier::numeric(target.stream),
        topic_id: WireIdentifier::numeric(target.topic),
        partition_id: Some(target.partition),
        offset,
        ack: AckLevel::Quorum,
    };
    request.to_bytes().to_vec()
}

/// "Get consumer offset" of a plain consumer.
#[must_use]
pub fn get_offset(target: Target, consumer: u32) -> Vec<u8> {
    let request = GetConsumerOffsetRequest {
        consumer: WireConsumer::consumer(WireIdentifier::numeric(consumer)),
        stream_id: WireIdentifier::numeric(target.stream),
        topic_id: WireIdentifier::numeric(target.topic),
        partition_id: Some(target.partition),
    };
    request.to_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iggy_binary_protocol::WireDecode;
    use iggy_binary_protocol::requests::streams::CreateStreamRequest;
    use iggy_binary_protocol::requests::topics::CreateTopicRequest;

    #[test]
    fn own_encodings_are_read_by_the_public_crate() {
        let stream = CreateStreamRequest::decode_from(&create_stream("logs")).expect("well-formed");
        assert_eq!(stream.name.as_str(), "logs");
        let body = create_topic(7, "t", 3, &[("segment_size", "1MiB")]);
        let (topic, used) = CreateTopicRequest::decode(&body).expect("well-formed");
        assert_eq!((topic.partitions_count, topic.name.as_str(), used), (3, "t", body.len()));
        assert_eq!(topic.options.iter().count(), 1);
    }

    #[test]
    fn the_batch_starts_where_the_constant_says() {
        let body = send(Target { stream: 1, topic: 2, partition: 3 }, 9, &[b"x".to_vec()]);
        let batch = iggy_binary_protocol::batch::decode_batch_slice(&body[SEND_BATCH_START..]).expect("a whole batch");
        assert_eq!(batch.message_count(), 1);
        assert_eq!(body.len(), SEND_BATCH_START + 256 + 48 + 1);
    }
}
