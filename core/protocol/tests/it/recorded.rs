//! Bytes kept in files: what was once on the wire must be read for ever.
//!
//! The files below `tests/golden` hold what the official encoder made. A test encodes the same again and compares; another
//! reads the recorded bytes with our side alone. `UPDATE_GOLDEN=1 cargo test -p whippet-protocol` writes the files anew,
//! which is right only when an entry is added.

use super::examples::examples;
use bytes::BytesMut;
use iggy_binary_protocol::batch::BatchHeader;
use iggy_binary_protocol::consensus::Command as FrameCommand;
use iggy_binary_protocol::requests::users::{LoginRegisterRequest, LoginRegisterWithPatRequest};
use iggy_binary_protocol::responses::messages::poll_messages::PollMessagesResponseHeader;
use iggy_binary_protocol::responses::users::LoginRegisterResponse;
use iggy_binary_protocol::{
    ClientVersionInfo, EvictionHeader, EvictionReason as TheirReason, Operation, ReplyHeader,
    RequestHeader as TheirRequest, WireEncode, WireName,
};
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use whippet_protocol::batch::{BatchBuilder, BatchInfo, check_stored, messages, stamp};
use whippet_protocol::frame::{
    EvictionReason, HeaderBytes, ReplyFields, RequestHeader, ServerFrame, encode_eviction, encode_reply,
};
use whippet_protocol::login::{Credentials, Login, PROTOCOL_VERSION, encode_login_reply};
use whippet_protocol::send::poll_reply_head;

/// Bytes on one line of a file.
const LINE: usize = 32;

fn path(file: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "golden", file].iter().collect()
}

/// A line with the name of each entry, then its bytes in hexadecimal, then an empty line.
fn render(entries: &[(String, Vec<u8>)]) -> String {
    let mut text = String::new();
    for (name, bytes) in entries {
        writeln!(text, "{name}, {} bytes", bytes.len()).expect("a string takes all");
        for line in bytes.chunks(LINE) {
            let hex: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(text, "  {hex}").expect("a string takes all");
        }
        text.push('\n');
    }
    text
}

fn recorded(file: &str) -> BTreeMap<String, Vec<u8>> {
    let path = path(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
    let mut entries = BTreeMap::new();
    for entry in text.split_terminator("\n\n") {
        let (title, lines) = entry.split_once('\n').unwrap_or((entry, ""));
        let (name, length) = title.rsplit_once(", ").expect("a title has a length");
        let digits: String = lines.split_whitespace().collect();
        let bytes: Vec<u8> = (0..digits.len() / 2)
            .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("hexadecimal digits"))
            .collect();
        assert_eq!(length, format!("{} bytes", bytes.len()), "{file}: {name}");
        entries.insert(name.to_owned(), bytes);
    }
    entries
}

#[track_caller]
fn compare(file: &str, entries: &[(String, Vec<u8>)]) {
    let (path, text) = (path(file), render(entries));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
    assert!(kept == text, "{} differs from what the official encoder makes now:\n{text}", path.display());
}

fn header(bytes: &[u8]) -> HeaderBytes {
    bytes.try_into().expect("a header has 256 bytes")
}

fn official_request() -> TheirRequest {
    TheirRequest {
        command: FrameCommand::Request,
        size: 300,
        client: 0x0102_0304_0506_0708_090A_0B0C_0D0E_0F10,
        request_checksum: 0x1122_3344_5566_7788,
        request: 7,
        operation: Operation::CreateStream,
        session: 9,
        ..TheirRequest::default()
    }
}

fn our_request() -> RequestHeader {
    RequestHeader {
        size: 300,
        client: 0x0102_0304_0506_0708_090A_0B0C_0D0E_0F10,
        request_checksum: 0x1122_3344_5566_7788,
        request: 7,
        operation: 128,
        session: 9,
        code: 0,
    }
}

fn official_frames() -> Vec<(String, Vec<u8>)> {
    let mut by_code = official_request();
    by_code.operation = Operation::NonReplicated;
    by_code.reserved[..4].copy_from_slice(&201u32.to_le_bytes());
    let reply = ReplyHeader {
        command: FrameCommand::Reply,
        size: 268,
        request_checksum: by_code.request_checksum,
        client: by_code.client,
        op: 41,
        commit: 42,
        timestamp: 1_700_000_000_000_000,
        request: 7,
        operation: Operation::CreateStream,
        status: 0,
        ..ReplyHeader::default()
    };
    let refused = ReplyHeader { size: 256, status: 41, ..reply };
    let evicted = EvictionHeader::new(0, 0, 0, by_code.client, TheirReason::InvalidCredentials);
    let window = EvictionHeader::incompatible_protocol(0, 0, 0, by_code.client, PROTOCOL_VERSION, PROTOCOL_VERSION);
    vec![
        ("request".into(), bytemuck::bytes_of(&official_request()).to_vec()),
        ("request by code".into(), bytemuck::bytes_of(&by_code).to_vec()),
        ("reply".into(), bytemuck::bytes_of(&reply).to_vec()),
        ("refusing reply".into(), bytemuck::bytes_of(&refused).to_vec()),
        ("eviction".into(), bytemuck::bytes_of(&evicted).to_vec()),
        ("eviction with a window".into(), bytemuck::bytes_of(&window).to_vec()),
    ]
}

#[test]
fn frames_are_those_of_the_official_encoder() {
    compare("frames.hex", &official_frames());
}

#[test]
fn recorded_frames_are_read_and_written() {
    let recorded = recorded("frames.hex");
    let by_code = RequestHeader { operation: 2, code: 201, ..our_request() };
    assert_eq!(RequestHeader::parse(&header(&recorded["request"]), 300), Ok(our_request()));
    assert_eq!(RequestHeader::parse(&header(&recorded["request by code"]), 300), Ok(by_code));
    assert_eq!(our_request().encode()[..], recorded["request"]);
    assert_eq!(by_code.encode()[..], recorded["request by code"]);
    let fields = ReplyFields { body_len: 12, status: 0, op: 41, commit: 42, timestamp: 1_700_000_000_000_000 };
    assert_eq!(encode_reply(&our_request(), &fields)[..], recorded["reply"]);
    let refused = ReplyFields { body_len: 0, status: 41, ..fields };
    assert_eq!(encode_reply(&our_request(), &refused)[..], recorded["refusing reply"]);
    let read = ServerFrame::Reply { size: 256, operation: 128, request: 7, status: 41, commit: 42 };
    assert_eq!(ServerFrame::parse(&header(&recorded["refusing reply"])), Some(read));
    let client = our_request().client;
    assert_eq!(encode_eviction(client, EvictionReason::InvalidCredentials, None)[..], recorded["eviction"]);
    assert_eq!(ServerFrame::parse(&header(&recorded["eviction"])), Some(ServerFrame::Eviction { reason: 9 }));
    let window = Some((PROTOCOL_VERSION, PROTOCOL_VERSION));
    let evicted = encode_eviction(client, EvictionReason::IncompatibleProtocol, window);
    assert_eq!(evicted[..], recorded["eviction with a window"]);
}

fn official_bodies() -> Vec<(String, Vec<u8>)> {
    examples()
        .into_iter()
        .map(|example| (format!("{} {:?}", example.command.code(), example.command), example.body))
        .collect()
}

#[test]
fn bodies_are_those_of_the_official_encoder() {
    compare("requests.hex", &official_bodies());
}

#[test]
fn recorded_bodies_are_read() {
    let recorded = recorded("requests.hex");
    assert_eq!(recorded.len(), examples().len());
    for example in examples() {
        let body = &recorded[&format!("{} {:?}", example.command.code(), example.command)];
        assert_eq!((example.read)(body).as_ref(), Ok(body), "{:?}", example.command);
    }
}

fn official_logins() -> Vec<(String, Vec<u8>)> {
    let version_info = ClientVersionInfo {
        protocol_version: PROTOCOL_VERSION,
        sdk_name: WireName::new("rust").expect("valid"),
        sdk_version: WireName::new("0.11.0").expect("valid"),
    };
    let password = LoginRegisterRequest {
        version_info: version_info.clone(),
        username: WireName::new("iggy").expect("valid"),
        password: SecretString::from("correct horse"),
        client_context: None,
    };
    let token = LoginRegisterWithPatRequest {
        version_info,
        token: SecretString::from("a-token-of-some-length"),
        client_context: Some("somewhere".into()),
    };
    let reply = LoginRegisterResponse {
        user_id: 3,
        session: 77,
        server_protocol_version: PROTOCOL_VERSION,
        server_version: WireName::new("0.1.0").expect("valid"),
    };
    vec![
        ("password".into(), password.to_bytes().to_vec()),
        ("token, with a context".into(), token.to_bytes().to_vec()),
        ("reply".into(), [&[0; 4], &reply.to_bytes()[..]].concat()),
    ]
}

#[test]
fn logins_are_those_of_the_official_encoder() {
    compare("logins.hex", &official_logins());
}

#[test]
fn recorded_logins_are_read() {
    let recorded = recorded("logins.hex");
    let password = Login::parse(&recorded["password"]).expect("parses");
    assert_eq!((password.version, password.sdk_name, password.sdk_version), (PROTOCOL_VERSION, "rust", "0.11.0"));
    assert_eq!(password.credentials, Ok(Credentials::Password { username: "iggy", password: "correct horse" }));
    let token = Login::parse(&recorded["token, with a context"]).expect("parses");
    assert_eq!(token.credentials, Ok(Credentials::Token { token: "a-token-of-some-length" }));
    let mut reply = BytesMut::new();
    encode_login_reply(&mut reply, 3, 77, "0.1.0");
    assert_eq!(reply[..], recorded["reply"]);
}

/// Two messages at offset 100 of partition 3, stamped by the official code.
fn official_batch() -> Vec<u8> {
    let plain = [(1, b"first".to_vec(), vec![]), (u128::MAX, b"second".to_vec(), vec![9; 12])];
    let body = super::batches::official_body(&plain);
    let start = 4 + u32::from_le_bytes(body[..4].try_into().expect("four bytes")) as usize;
    let mut batch = body[start..].to_vec();
    let mut header = BatchHeader::decode(&batch).expect("decodes");
    (header.partition_id, header.base_offset, header.base_timestamp) = (3, 100, 5_000);
    header.batch_checksum = iggy_binary_protocol::batch::calculate_batch_checksum(&header, &batch[256..]);
    header.encode_into(&mut batch[..256]);
    batch
}

fn official_batches() -> Vec<(String, Vec<u8>)> {
    let head = PollMessagesResponseHeader { partition_id: 3, current_offset: 101, messages_count: 2 };
    vec![
        ("stamped batch".into(), official_batch()),
        ("poll reply".into(), [&head.to_bytes()[..], &official_batch()].concat()),
    ]
}

#[test]
fn batches_are_those_of_the_official_encoder() {
    compare("batches.hex", &official_batches());
}

#[test]
fn recorded_batches_are_read_and_made() {
    let recorded = recorded("batches.hex");
    let batch = &recorded["stamped batch"];
    let expected = BatchInfo {
        partition_id: 3,
        base_offset: 100,
        base_timestamp: 5_000,
        origin_timestamp: 1_000,
        count: 2,
        checksum: u64::from_le_bytes(batch[40..48].try_into().expect("eight bytes")),
    };
    assert_eq!(check_stored(batch), Ok(expected));
    let read: Vec<_> = messages(batch).map(|m| (m.offset, m.id, m.payload, m.user_headers)).collect();
    assert_eq!(read, [(100, 1, &b"first"[..], &[][..]), (101, u128::MAX, b"second", &[9; 12])]);
    let mut builder = BatchBuilder::new(0, 1_000, 0);
    builder.push(1, 1_000, b"first", &[]);
    builder.push(u128::MAX, 1_001, b"second", &[9; 12]);
    let (mut made, range) = builder.finish();
    assert_eq!(stamp(&mut made[range], 3, 100, 5_000), expected.checksum);
    assert_eq!(made[..], batch[..]);
    assert_eq!(recorded["poll reply"][..16], poll_reply_head(3, 101, 2));
    assert_eq!(recorded["poll reply"][16..], batch[..]);
}
