//! Each kind of frame as bytes, written with one side and read with the other.

use bytes::BytesMut;
use iggy_binary_protocol::requests::consumer_offsets::StoreConsumerOffsetRequest;
use iggy_binary_protocol::requests::messages::PollMessagesRequest;
use iggy_binary_protocol::requests::streams::CreateStreamRequest;
use iggy_binary_protocol::requests::users::{LoginRegisterRequest, LoginRegisterWithPatRequest};
use iggy_binary_protocol::responses::messages::SendMessagesResponse;
use iggy_binary_protocol::responses::users::LoginRegisterResponse;
use iggy_binary_protocol::{
    AckLevel, ClientVersionInfo, ConsensusHeader, EvictionHeader, IGGY_PROTOCOL_VERSION, Operation, ReplyHeader,
    WireConsumer, WireDecode, WireEncode, WireIdentifier, WireName, WireOptions, WirePollingStrategy, read_size_field,
    result_code, result_section_len,
};
use secrecy::SecretString;
use whippet_protocol::frame::{
    EvictionReason, FrameError, RESULT_OK, ReplyFields, RequestHeader, ServerFrame, encode_eviction, encode_reply,
    result_error,
};
use whippet_protocol::login::{Credentials, Login, PROTOCOL_VERSION, encode_login_reply, is_compatible};
use whippet_protocol::send::{ConsumerRef, IdentifierRef, PollMessages, PollStart, consumer_key, partition_for_key};
use whippet_protocol::wire;

/// Sixteen-byte alignment, which the official header types ask for.
#[repr(align(16))]
struct Aligned([u8; 256]);

fn request(operation: u8) -> RequestHeader {
    RequestHeader { size: 300, client: 0xAABB, request_checksum: 0x1122, request: 7, operation, session: 9, code: 201 }
}

#[test]
fn a_request_header_is_read_by_both_sides_alike() {
    let ours = request(2);
    let bytes = Aligned(ours.encode());
    let theirs = bytemuck::checked::from_bytes::<iggy_binary_protocol::RequestHeader>(&bytes.0);
    assert_eq!((theirs.size, theirs.client, theirs.request, theirs.session), (300, 0xAABB, 7, 9));
    assert_eq!(theirs.request_checksum, 0x1122);
    assert_eq!(theirs.operation, Operation::NonReplicated);
    assert_eq!(RequestHeader::parse(&bytes.0, 1024), Ok(ours));
    assert_eq!(read_size_field(&bytes.0), Some(300));
    assert_eq!(RequestHeader::parse(&bytes.0, 299), Err(FrameError::TooLarge { size: 300, max: 299 }));
    let mut other = bytes.0;
    other[60] = 1;
    assert_eq!(RequestHeader::parse(&other, 1024), Err(FrameError::NotARequest(1)));
    other[48..52].copy_from_slice(&255u32.to_le_bytes());
    assert_eq!(RequestHeader::parse(&other, 1024), Err(FrameError::TooSmall(255)));
}

#[test]
fn a_reply_header_is_what_the_official_reader_expects() {
    let fields = ReplyFields { body_len: 44, status: 1009, op: 5, commit: 6, timestamp: 8 };
    let bytes = Aligned(encode_reply(&request(160), &fields));
    let theirs = bytemuck::checked::from_bytes::<ReplyHeader>(&bytes.0);
    assert_eq!((theirs.size, theirs.op, theirs.commit, theirs.timestamp, theirs.request), (300, 5, 6, 8, 7));
    assert_eq!((theirs.client, theirs.request_checksum, theirs.status), (0xAABB, 0x1122, 1009));
    assert_eq!(theirs.operation, Operation::SendMessages);
    let read = ServerFrame::parse(&bytes.0);
    assert_eq!(read, Some(ServerFrame::Reply { size: 300, operation: 160, request: 7, status: 1009, commit: 6 }));
}

#[test]
fn an_eviction_is_what_the_official_reader_expects() {
    for (reason, window) in [
        (iggy_binary_protocol::EvictionReason::NoSession, None),
        (iggy_binary_protocol::EvictionReason::IncompatibleProtocol, Some((PROTOCOL_VERSION, PROTOCOL_VERSION))),
    ] {
        let ours = match reason {
            iggy_binary_protocol::EvictionReason::NoSession => EvictionReason::NoSession,
            _ => EvictionReason::IncompatibleProtocol,
        };
        let bytes = Aligned(encode_eviction(5, ours, window));
        let theirs = bytemuck::checked::from_bytes::<EvictionHeader>(&bytes.0);
        assert!(theirs.validate().is_ok(), "{reason:?}");
        assert_eq!((theirs.client, theirs.reason), (5, reason));
        assert_eq!(ServerFrame::parse(&bytes.0), Some(ServerFrame::Eviction { reason: reason as u8 }));
    }
}

#[test]
fn result_sections_are_read_back() {
    let failed = result_error(1012);
    assert_eq!(result_code(&failed), Some(1012));
    assert_eq!(result_section_len(&failed), Some(12));
    assert_eq!(result_code(&RESULT_OK), Some(0));
    assert_eq!(result_section_len(&RESULT_OK), Some(4));
}

fn version() -> ClientVersionInfo {
    ClientVersionInfo {
        protocol_version: IGGY_PROTOCOL_VERSION,
        sdk_name: WireName::new("rust").expect("valid"),
        sdk_version: WireName::new("0.11.0").expect("valid"),
    }
}

#[test]
fn logins_are_read_in_both_shapes_and_their_secrets_stay_out_of_debug() {
    let password = LoginRegisterRequest {
        version_info: version(),
        username: WireName::new("iggy").expect("valid"),
        password: SecretString::from("hunter2"),
        client_context: None,
    };
    let bytes = password.to_bytes();
    let login = Login::parse(&bytes).expect("parses");
    assert!(is_compatible(login.version));
    assert_eq!(login.credentials, Ok(Credentials::Password { username: "iggy", password: "hunter2" }));
    assert!(!format!("{login:?}").contains("hunter2"));
    let token = LoginRegisterWithPatRequest {
        version_info: version(),
        token: SecretString::from("a-token"),
        client_context: None,
    };
    let bytes = token.to_bytes();
    let login = Login::parse(&bytes).expect("parses");
    assert_eq!(login.credentials, Ok(Credentials::Token { token: "a-token" }));
    assert!(!format!("{login:?}").contains("a-token"));
    for cut in 0..bytes.len() {
        assert!(
            Login::parse(&bytes[..cut]).is_err() || Login::parse(&bytes[..cut]).is_ok_and(|l| l.credentials.is_err()),
            "{cut}"
        );
    }
}

#[test]
fn versions_inside_the_window_only() {
    assert_eq!(PROTOCOL_VERSION, 11_264);
    for (version, fits) in
        [(11_263, false), (11_264, true), (11_265, true), (12 << 10, false), (1 << 20, false), (0, false)]
    {
        assert_eq!(is_compatible(version), fits, "{version}");
    }
}

#[test]
fn a_login_reply_is_read_by_the_official_decoder() {
    let mut body = BytesMut::new();
    encode_login_reply(&mut body, 3, 77, "0.1.0");
    assert_eq!(body[..4], RESULT_OK);
    let (reply, used) = LoginRegisterResponse::decode(&body[4..]).expect("decodes");
    assert_eq!(used, body.len() - 4);
    assert_eq!((reply.user_id, reply.session), (3, 77));
}

#[test]
fn polls_are_read_without_a_copy() {
    let official = PollMessagesRequest {
        consumer: WireConsumer::consumer_group(WireIdentifier::named("readers").expect("valid")),
        stream_id: WireIdentifier::numeric(4),
        topic_id: WireIdentifier::named("t").expect("valid"),
        partition_id: Some(9),
        strategy: WirePollingStrategy::timestamp(55),
        count: 10,
        auto_commit: true,
    };
    let bytes = official.to_bytes();
    let poll = PollMessages::parse(&bytes).expect("parses");
    let expected = PollMessages {
        consumer: ConsumerRef::Group(IdentifierRef::Name("readers")),
        stream: IdentifierRef::Id(4),
        topic: IdentifierRef::Name("t"),
        partition: Some(9),
        start: PollStart::Timestamp(55),
        count: 10,
        auto_commit: true,
    };
    assert_eq!(poll, expected);
    for cut in 0..bytes.len() {
        assert!(PollMessages::parse(&bytes[..cut]).is_err(), "{cut}");
    }
    let mut longer = bytes.to_vec();
    longer.push(0);
    assert!(PollMessages::parse(&longer).is_err(), "bytes behind the body");
}

#[test]
fn cold_bodies_are_read_whole_or_not_at_all() {
    let offset = StoreConsumerOffsetRequest {
        consumer: WireConsumer::consumer(WireIdentifier::numeric(1)),
        stream_id: WireIdentifier::numeric(2),
        topic_id: WireIdentifier::numeric(3),
        partition_id: None,
        offset: 5,
        ack: AckLevel::Quorum,
    };
    let mut bytes = offset.to_bytes().to_vec();
    assert_eq!(wire::decode::<StoreConsumerOffsetRequest>(&bytes), Ok(offset));
    bytes.push(0);
    assert!(wire::decode::<StoreConsumerOffsetRequest>(&bytes).is_err());
    let create = CreateStreamRequest {
        name: WireName::new("s").expect("valid"),
        options: WireOptions::from_slice(&[]).expect("valid"),
    };
    assert_eq!(wire::decode::<CreateStreamRequest>(&create.to_bytes()), Ok(create));
}

#[test]
fn a_send_confirmation_has_the_official_shape() {
    let mut body = Vec::new();
    for number in [1u32, 2, 3, 4] {
        body.extend_from_slice(&number.to_le_bytes());
    }
    body.extend_from_slice(&5u64.to_le_bytes());
    let (reply, used) = SendMessagesResponse::decode(&body).expect("decodes");
    assert_eq!(used, body.len());
    let sent = &reply.confirmations[0];
    assert_eq!((sent.stream_id, sent.topic_id, sent.partition_id, sent.base_offset), (2, 3, 4, 5));
}

#[test]
fn keys_name_the_partition_that_the_official_client_computes() {
    // XxHash32 with seed 0 of the key, modulo the number of partitions; the values are the algorithm's published ones.
    assert_eq!(partition_for_key(b"", 1 << 31), Some(0x02CC_5D05));
    assert_eq!(partition_for_key(b"abc", 1 << 31), Some(0x32D1_53FF));
    assert_eq!(partition_for_key(b"abc", 10), Some(0x32D1_53FF % 10));
    assert_eq!(partition_for_key(b"abc", 0), None);
    assert_eq!(consumer_key(IdentifierRef::Id(7)), 7);
    assert_eq!(consumer_key(IdentifierRef::Name("abc")), 0x32D1_53FF);
}
