//! Every command code is answered, whatever its body; sessions and operations are checked.

use super::{assert_serves, with_partition};
use iggy_binary_protocol::COMMAND_TABLE;
use std::time::{Duration, Instant};
use whippet_sdk_tests::client::checked;
use whippet_sdk_tests::frame::{
    COMMAND_EVICTION, COMMAND_REPLY, OPERATION_LOGOUT, OPERATION_NON_REPLICATED, OPERATION_REGISTER, OPERATION_SEND,
    RequestHead, body_checksum,
};
use whippet_sdk_tests::{Failure, RawClient, Server, body};

/// Longest wait for the answer to any command.
const ANSWER: Duration = Duration::from_secs(2);

/// Sends one frame on a fresh connection of a logged-in client and asserts that some answer comes in time.
#[track_caller]
fn assert_answered(client: &mut RawClient, what: &str, operation: u8, code: u32, body: &[u8]) {
    let head = client.head(operation, code, body);
    let asked = Instant::now();
    match client.exchange(&head.frame(body)) {
        Ok(answer) if answer.command() == COMMAND_REPLY => {
            assert_eq!(
                (answer.client(), answer.request()),
                (head.client, head.request),
                "{what}: the reply echoes the request"
            );
        }
        Ok(answer) => assert_eq!(answer.command(), COMMAND_EVICTION, "{what}"),
        Err(failure) => panic!("{what}: {failure} after {:?}", asked.elapsed()),
    }
    assert!(asked.elapsed() < ANSWER, "{what}: answered after {:?}", asked.elapsed());
}

/// The server may end the session over a bad request; then a new one is made.
fn keep_logged_in(client: &mut RawClient, server: &Server) {
    if client.ping().is_err() || client.read(20, &[]).is_err() {
        *client = RawClient::logged_in(server.tcp()).expect("root logs in");
        client.set_answer_deadline(ANSWER).expect("socket option");
    }
}

#[test]
fn every_command_is_answered_whatever_its_body() {
    let mut server = Server::start();
    let (mut client, target) = with_partition(&server);
    client.send(target, &[b"one".to_vec()]).expect("send");
    client.set_answer_deadline(ANSWER).expect("socket option");
    let bodies = [Vec::new(), vec![0; 1], vec![0xff; 64], vec![0; 300], body::numeric(0), body::numeric(77)];
    assert_eq!(COMMAND_TABLE.len(), 55);
    for command in COMMAND_TABLE {
        for body in &bodies {
            // Some of the bodies are well-formed requests to log out, to delete a stream or a user; that is fine here.
            let what = format!("{} ({}) with {} bytes", command.name, command.code, body.len());
            assert_answered(
                &mut client,
                &format!("{what}, not replicated"),
                OPERATION_NON_REPLICATED,
                command.code,
                body,
            );
            keep_logged_in(&mut client, &server);
            if let Some(operation) = command.operation {
                assert_answered(&mut client, &what, operation as u8, 0, body);
                keep_logged_in(&mut client, &server);
            }
        }
    }
    for code in [0, 2, 9, 999, u32::MAX] {
        assert_eq!(client.read(code, &[]).unwrap_err().code(), Some(3), "unknown command code {code}");
    }
    client.ping().expect("the connection is still usable");
    assert_serves(&mut server);
}

#[test]
fn every_operation_byte_is_answered_or_closed() {
    let mut server = Server::start();
    for operation in 0..=u8::MAX {
        let mut client = RawClient::connect(server.tcp()).expect("connect");
        client.set_answer_deadline(ANSWER).expect("socket option");
        let body = [0xee; 20];
        let head =
            RequestHead { client: client.client(), request: 1, operation, session: 12_345, ..RequestHead::default() };
        match client.exchange(&head.frame(&body)) {
            Ok(answer) => {
                assert!(checked(&answer).is_err() || operation == OPERATION_LOGOUT, "operation {operation}: {answer:?}")
            }
            Err(Failure::Connection(error)) => {
                let timed_out = matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
                assert!(!timed_out, "operation {operation}: neither answered nor closed within {ANSWER:?}");
            }
            Err(failure) => panic!("operation {operation}: {failure}"),
        }
    }
    assert_serves(&mut server);
}

#[test]
fn anonymous_connections_may_only_ping_and_log_in() {
    let server = Server::start();
    let mut client = RawClient::connect(server.tcp()).expect("connect");
    client.ping().expect("ping needs no login");
    for code in [10, 12, 13, 20, 22, 100, 120, 200, 201, 300] {
        assert_eq!(client.read(code, &[]).unwrap_err().code(), Some(40), "code {code}");
    }
    let refused = client.call(128, 202, &body::create_stream("x")).unwrap_err();
    assert!(matches!(refused, Failure::Evicted(1)), "{refused}");

    let mut client = RawClient::connect(server.tcp()).expect("connect");
    client.call(OPERATION_LOGOUT, 39, &[]).expect("a logout without a login does nothing");
    let refused = client.login("iggy", "wrong password").unwrap_err();
    assert!(matches!(refused, Failure::Evicted(9)), "{refused}");
    let refused = client.login("someone else", "iggy").unwrap_err();
    assert!(matches!(refused, Failure::Evicted(9)), "{refused}");
    assert_eq!(client.login("iggy", "iggy").expect("the connection stays usable"), 0);
    let streams = client.read(201, &[]).expect("list streams");
    assert!(streams.is_empty(), "nothing was created: {streams:?}");
}

#[test]
fn the_protocol_window_is_checked_before_the_password() {
    let server = Server::start();
    let login = |version: u32| {
        let mut client = RawClient::connect(server.tcp()).expect("connect");
        let body = body::login(version, "iggy", "wrong password");
        let head = RequestHead {
            client: client.client(),
            checksum: body_checksum(&body),
            operation: OPERATION_REGISTER,
            ..RequestHead::default()
        };
        let answer = client.exchange(&head.frame(&body)).expect("an answer");
        assert_eq!(answer.command(), COMMAND_EVICTION);
        let window = [144, 148].map(|at| whippet_sdk_tests::frame::u32_in(&answer.header, at).unwrap_or_default());
        (answer.reason(), window)
    };
    let current = body::PROTOCOL_VERSION;
    assert_eq!(login((12 << 10) | 2), (14, [current, current]), "0.12.2 is too new");
    assert_eq!(login((10 << 10) | 9), (14, [current, current]), "0.10.9 is too old");
    assert_eq!(login(current).0, 9);
    assert_eq!(login(current + 3).0, 9, "patch releases are compatible");

    let mut client = RawClient::connect(server.tcp()).expect("connect");
    let head = RequestHead { client: client.client(), operation: OPERATION_REGISTER, ..RequestHead::default() };
    let answer = client.exchange(&head.frame(&[1, 2])).expect("an answer");
    assert_eq!((answer.command(), answer.reason()), (COMMAND_EVICTION, 15), "a login that cannot be read");
}

#[test]
fn foreign_and_old_sessions_are_refused() {
    let server = Server::start();
    let (mut client, target) = with_partition(&server);
    let body = body::send(target, 1, &[b"x".to_vec()]);
    for session in [client.session() + 1_000, 0] {
        let mut stranger = RawClient::connect(server.tcp()).expect("connect");
        let head = RequestHead {
            client: client.client(),
            request: 50,
            operation: OPERATION_SEND,
            session,
            ..RequestHead::default()
        };
        let refused = stranger.exchange(&head.frame(&body)).map(|answer| checked(&answer));
        assert!(!matches!(refused, Ok(Ok(_))), "session {session} of another connection was accepted");
    }
    let old = client.session();
    client.login("iggy", "iggy").expect("log in again");
    assert!(client.session() >= old);
    client.send(target, &[b"mine".to_vec()]).expect("send");
    assert_eq!(client.poll_from(target, 0, 10).expect("poll").messages.len(), 1, "only the own message was stored");
}

#[test]
fn truncated_and_altered_bodies_get_an_error_on_a_usable_connection() {
    let mut server = Server::start();
    let (mut client, target) = with_partition(&server);
    client.set_answer_deadline(ANSWER).expect("socket option");
    let body = body::send(target, 1, &[b"payload one".to_vec(), b"payload two".to_vec()]);
    for length in 0..body.len() {
        let refused = client.call(OPERATION_SEND, 101, &body[..length]);
        let code = refused.expect_err("a cut body is refused").code();
        assert!(code.is_some_and(|code| code != 58 && code != 57), "cut after {length} bytes: {code:?}");
    }
    let mut longer = body.clone();
    longer.push(0);
    assert!(client.call(OPERATION_SEND, 101, &longer).expect_err("surplus bytes are refused").code().is_some());
    let mut stored = 0;
    for position in 0..body.len() {
        let mut altered = body.clone();
        altered[position] ^= 0x40;
        match client.call(OPERATION_SEND, 101, &altered) {
            Ok(_) => stored += 1,
            Err(failure) => assert!(failure.code().is_some(), "byte {position} altered: {failure}"),
        }
    }
    assert_eq!(stored, 0, "every byte of a send is covered by a checksum or a check");
    let poll = body::poll(target, 1, iggy_binary_protocol::WirePollingStrategy::first(), 10, false);
    for length in 0..poll.len() {
        assert_eq!(
            client.read(100, &poll[..length]).expect_err("a cut poll is refused").code(),
            Some(3),
            "{length} bytes"
        );
    }
    assert_eq!(client.send(target, &[b"whole".to_vec()]).expect("the connection is usable"), 0);
    assert_serves(&mut server);
}
