//! One request body for each command, as the official client encodes it, and how the server reads it.

use bytes::BytesMut;
use iggy_binary_protocol::primitives::permissions::{
    WireGlobalPermissions, WirePermissions, WireStreamPermissions, WireTopicPermissions,
};
use iggy_binary_protocol::requests::consumer_groups::*;
use iggy_binary_protocol::requests::consumer_offsets::*;
use iggy_binary_protocol::requests::messages::{FlushUnsavedBufferRequest, PollMessagesRequest, SendMessagesHeader};
use iggy_binary_protocol::requests::partitions::{CreatePartitionsRequest, DeletePartitionsRequest};
use iggy_binary_protocol::requests::personal_access_tokens::*;
use iggy_binary_protocol::requests::segments::DeleteSegmentsRequest;
use iggy_binary_protocol::requests::streams::*;
use iggy_binary_protocol::requests::system::*;
use iggy_binary_protocol::requests::topics::*;
use iggy_binary_protocol::requests::users::*;
use iggy_binary_protocol::{
    AckLevel, WireConsumer, WireDecode, WireEncode, WireIdentifier, WireName, WireOptions, WirePartitioning,
    WirePollingStrategy, encode_user_headers,
};
use whippet_protocol::send::{ConsumerRef, IdentifierRef, PartitioningRef, PollMessages, PollStart, SendMessages};
use whippet_protocol::{Command, ErrorCode, wire};

/// Reads a body as the server does and encodes what was read as the official client would.
pub type Read = fn(&[u8]) -> Result<Vec<u8>, ErrorCode>;

/// A request.
pub struct Example {
    /// What it asks for.
    pub command: Command,
    /// Its body.
    pub body: Vec<u8>,
    /// The server's side.
    pub read: Read,
    /// Bytes at the end that are options: without them the body is a whole request too.
    pub options: usize,
}

fn example<T: WireEncode + WireDecode>(command: Command, request: &T) -> Example {
    Example { command, body: request.to_bytes().to_vec(), read: reread::<T>, options: 0 }
}

fn example_with_options<T: WireEncode + WireDecode>(command: Command, request: &T) -> Example {
    Example { options: options().as_bytes().len(), ..example(command, request) }
}

fn reread<T: WireEncode + WireDecode>(body: &[u8]) -> Result<Vec<u8>, ErrorCode> {
    wire::decode::<T>(body).map(|request| request.to_bytes().to_vec())
}

fn wire_identifier(identifier: IdentifierRef<'_>) -> WireIdentifier {
    match identifier {
        IdentifierRef::Id(id) => WireIdentifier::numeric(id),
        IdentifierRef::Name(name) => WireIdentifier::named(name).expect("names that were read are valid"),
    }
}

fn reread_poll(body: &[u8]) -> Result<Vec<u8>, ErrorCode> {
    PollMessages::parse(body).map(|poll| official_poll(&poll).to_bytes().to_vec())
}

/// The official client's form of a poll that we have read.
pub fn official_poll(poll: &PollMessages<'_>) -> PollMessagesRequest {
    PollMessagesRequest {
        consumer: match poll.consumer {
            ConsumerRef::Single(id) => WireConsumer::consumer(wire_identifier(id)),
            ConsumerRef::Group(id) => WireConsumer::consumer_group(wire_identifier(id)),
        },
        stream_id: wire_identifier(poll.stream),
        topic_id: wire_identifier(poll.topic),
        partition_id: poll.partition,
        strategy: match poll.start {
            PollStart::Offset(offset) => WirePollingStrategy::offset(offset),
            PollStart::Timestamp(timestamp) => WirePollingStrategy::timestamp(timestamp),
            PollStart::First => WirePollingStrategy::first(),
            PollStart::Last => WirePollingStrategy::last(),
            PollStart::Next => WirePollingStrategy::next(),
        },
        count: poll.count,
        auto_commit: poll.auto_commit,
    }
}

/// The official client's form of the routing part of a send that we have read.
pub fn official_routing(send: &SendMessages<'_>) -> SendMessagesHeader {
    SendMessagesHeader {
        stream_id: wire_identifier(send.stream),
        topic_id: wire_identifier(send.topic),
        partitioning: match send.partitioning {
            PartitioningRef::Balanced => WirePartitioning::Balanced,
            PartitioningRef::Partition(id) => WirePartitioning::PartitionId(id),
            PartitioningRef::Key(key) => WirePartitioning::messages_key(key.to_vec()).expect("keys that were read fit"),
        },
        messages_count: send.count,
    }
}

fn reread_send(body: &[u8]) -> Result<Vec<u8>, ErrorCode> {
    let send = SendMessages::parse(body)?;
    whippet_protocol::batch::verify(&body[send.batch_start..], send.count)?;
    let routing = official_routing(&send).to_bytes();
    let length = u32::try_from(routing.len()).expect("a routing part is small").to_le_bytes();
    Ok([&length, &routing[..], &body[send.batch_start..]].concat())
}

fn id(number: u32) -> WireIdentifier {
    WireIdentifier::numeric(number)
}

fn named(text: &str) -> WireIdentifier {
    WireIdentifier::named(text).expect("a valid name")
}

fn name(text: &str) -> WireName {
    WireName::new(text).expect("a valid name")
}

/// One option, a text under a text.
fn options() -> WireOptions {
    let mut bytes = BytesMut::new();
    encode_user_headers(&[(2, b"durability", 2, b"persisted")], &mut bytes);
    WireOptions::from_bytes(bytes.freeze()).expect("valid options")
}

fn permissions() -> WirePermissions {
    let topic = |topic_id| WireTopicPermissions {
        topic_id,
        manage_topic: false,
        read_topic: true,
        poll_messages: true,
        send_messages: false,
    };
    let stream = |stream_id, topics| WireStreamPermissions {
        stream_id,
        manage_stream: false,
        read_stream: true,
        manage_topics: false,
        read_topics: true,
        poll_messages: false,
        send_messages: true,
        topics,
    };
    WirePermissions {
        global: WireGlobalPermissions {
            manage_servers: false,
            read_servers: true,
            manage_users: false,
            read_users: true,
            manage_streams: false,
            read_streams: false,
            manage_topics: false,
            read_topics: false,
            poll_messages: true,
            send_messages: false,
        },
        streams: vec![stream(1, vec![topic(3), topic(4)]), stream(2, vec![])],
    }
}

fn poll(partition_id: Option<u32>, auto_commit: bool) -> PollMessagesRequest {
    PollMessagesRequest {
        consumer: WireConsumer::consumer_group(named("readers")),
        stream_id: id(4),
        topic_id: named("orders"),
        partition_id,
        strategy: WirePollingStrategy::offset(500),
        count: 10,
        auto_commit,
    }
}

fn get_offset() -> GetConsumerOffsetRequest {
    GetConsumerOffsetRequest {
        consumer: WireConsumer::consumer(id(9)),
        stream_id: named("shop"),
        topic_id: id(2),
        partition_id: Some(6),
    }
}

/// A body for every command.
pub fn examples() -> Vec<Example> {
    let (stream_id, topic_id) = (named("shop"), id(2));
    let group_id = named("readers");
    let reading = |command, body: PollMessagesRequest| Example {
        command,
        body: body.to_bytes().to_vec(),
        read: reread_poll,
        options: 0,
    };
    vec![
        example(Command::Ping, &PingRequest),
        example(Command::GetStats, &GetStatsRequest),
        example(Command::GetSnapshot, &GetSnapshotRequest { compression: 2, snapshot_types: vec![1, 100] }),
        example(Command::GetClusterMetadata, &GetClusterMetadataRequest),
        example(Command::DescribeOptions, &DescribeOptionsRequest { scope: 1 }),
        example(
            Command::AttachConsumerSession,
            &AttachConsumerSessionRequest { client_id: 0xAABB, session: 7, metadata_watermark: 9 },
        ),
        example(Command::GetMe, &GetMeRequest),
        example(Command::GetClient, &GetClientRequest { client_id: 5 }),
        example(Command::GetClients, &GetClientsRequest),
        example(Command::GetUser, &GetUserRequest { user_id: named("alice") }),
        example(Command::GetUsers, &GetUsersRequest),
        example_with_options(
            Command::CreateUser,
            &CreateUserRequest {
                username: name("alice"),
                password: "correct horse".into(),
                status: 1,
                permissions: Some(permissions()),
                options: options(),
            },
        ),
        example(Command::DeleteUser, &DeleteUserRequest { user_id: id(3) }),
        example_with_options(
            Command::UpdateUser,
            &UpdateUserRequest { user_id: id(3), username: Some(name("bob")), status: Some(2), options: options() },
        ),
        example(
            Command::UpdatePermissions,
            &UpdatePermissionsRequest { user_id: id(3), permissions: Some(permissions()) },
        ),
        example(
            Command::ChangePassword,
            &ChangePasswordRequest { user_id: id(3), current_password: "old one".into(), new_password: "newer".into() },
        ),
        example(Command::GetPersonalAccessTokens, &GetPersonalAccessTokensRequest),
        example(
            Command::CreatePersonalAccessToken,
            &CreatePersonalAccessTokenRequest { name: name("ci"), expiry: 3_600_000_000 },
        ),
        example(Command::DeletePersonalAccessToken, &DeletePersonalAccessTokenRequest { name: name("ci") }),
        reading(Command::PollMessages, poll(None, false)),
        Example {
            command: Command::SendMessages,
            body: super::batches::official_body(&[
                (1, b"first".to_vec(), vec![]),
                (2, b"second".to_vec(), vec![9; 12]),
            ]),
            read: reread_send,
            options: 0,
        },
        example(
            Command::FlushUnsavedBuffer,
            &FlushUnsavedBufferRequest {
                stream_id: stream_id.clone(),
                topic_id: topic_id.clone(),
                partition_id: 6,
                fsync: true,
            },
        ),
        reading(Command::GetPollRouting, poll(Some(6), true)),
        reading(Command::PollMessagesOnPrimary, poll(Some(6), true)),
        example(Command::GetConsumerOffset, &get_offset()),
        example(
            Command::StoreConsumerOffset,
            &StoreConsumerOffsetRequest {
                consumer: WireConsumer::consumer(named("reader")),
                stream_id: stream_id.clone(),
                topic_id: topic_id.clone(),
                partition_id: None,
                offset: 77,
                ack: AckLevel::Quorum,
            },
        ),
        example(
            Command::DeleteConsumerOffset,
            &DeleteConsumerOffsetRequest {
                consumer: WireConsumer::consumer_group(id(1)),
                stream_id: stream_id.clone(),
                topic_id: topic_id.clone(),
                partition_id: Some(6),
                ack: AckLevel::NoAck,
            },
        ),
        example(Command::GetConsumerOffsetRouting, &get_offset()),
        example(Command::GetStream, &GetStreamRequest { stream_id: stream_id.clone() }),
        example(Command::GetStreams, &GetStreamsRequest),
        example_with_options(Command::CreateStream, &CreateStreamRequest { name: name("shop"), options: options() }),
        example(Command::DeleteStream, &DeleteStreamRequest { stream_id: id(1) }),
        example_with_options(
            Command::UpdateStream,
            &UpdateStreamRequest { stream_id: id(1), name: name("store"), options: options() },
        ),
        example(Command::PurgeStream, &PurgeStreamRequest { stream_id: stream_id.clone() }),
        example(Command::GetTopic, &GetTopicRequest { stream_id: stream_id.clone(), topic_id: named("orders") }),
        example(Command::GetTopics, &GetTopicsRequest { stream_id: stream_id.clone() }),
        example_with_options(
            Command::CreateTopic,
            &CreateTopicRequest {
                stream_id: stream_id.clone(),
                partitions_count: 8,
                name: name("orders"),
                options: options(),
            },
        ),
        example(Command::DeleteTopic, &DeleteTopicRequest { stream_id: stream_id.clone(), topic_id: topic_id.clone() }),
        example_with_options(
            Command::UpdateTopic,
            &UpdateTopicRequest {
                stream_id: stream_id.clone(),
                topic_id: topic_id.clone(),
                name: name("orders"),
                options: options(),
            },
        ),
        example(Command::PurgeTopic, &PurgeTopicRequest { stream_id: stream_id.clone(), topic_id: topic_id.clone() }),
        example(
            Command::CreatePartitions,
            &CreatePartitionsRequest { stream_id: stream_id.clone(), topic_id: topic_id.clone(), partitions_count: 3 },
        ),
        example(
            Command::DeletePartitions,
            &DeletePartitionsRequest {
                stream_id: stream_id.clone(),
                topic_id: topic_id.clone(),
                partitions_count: 1000,
            },
        ),
        example(
            Command::DeleteSegments,
            &DeleteSegmentsRequest {
                stream_id: stream_id.clone(),
                topic_id: topic_id.clone(),
                partition_id: 6,
                segments_count: 2,
            },
        ),
        example(
            Command::GetConsumerGroup,
            &GetConsumerGroupRequest {
                stream_id: stream_id.clone(),
                topic_id: topic_id.clone(),
                group_id: group_id.clone(),
            },
        ),
        example(
            Command::GetConsumerGroups,
            &GetConsumerGroupsRequest { stream_id: stream_id.clone(), topic_id: topic_id.clone() },
        ),
        example(
            Command::CreateConsumerGroup,
            &CreateConsumerGroupRequest {
                stream_id: stream_id.clone(),
                topic_id: topic_id.clone(),
                name: name("readers"),
            },
        ),
        example(
            Command::DeleteConsumerGroup,
            &DeleteConsumerGroupRequest { stream_id: stream_id.clone(), topic_id: topic_id.clone(), group_id: id(0) },
        ),
        example(
            Command::JoinConsumerGroup,
            &JoinConsumerGroupRequest {
                stream_id: stream_id.clone(),
                topic_id: topic_id.clone(),
                group_id: group_id.clone(),
            },
        ),
        example(
            Command::LeaveConsumerGroup,
            &LeaveConsumerGroupRequest {
                stream_id: stream_id.clone(),
                topic_id: topic_id.clone(),
                group_id: group_id.clone(),
            },
        ),
        example(Command::SyncConsumerGroup, &SyncConsumerGroupRequest { stream_id, topic_id, group_id }),
    ]
}
