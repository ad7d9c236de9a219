//! A request that is sent again with the same client, session and number is applied once and answered the same.

use super::with_partition;
use iggy_binary_protocol::WirePollingStrategy;
use whippet_sdk_tests::client::{checked, confirmation};
use whippet_sdk_tests::frame::{OPERATION_SEND, RequestHead};
use whippet_sdk_tests::{RawClient, Server, body};

#[test]
fn a_repeated_send_is_stored_once_at_the_same_offset() {
    let server = Server::start();
    let (mut client, target) = with_partition(&server);
    client.send(target, &[b"before".to_vec()]).expect("send");
    let body = body::send(target, 9, &[b"one".to_vec(), b"two".to_vec()]);
    let frame = client.head(OPERATION_SEND, 101, &body).frame(&body);
    for attempt in 0..3 {
        let answer = client.exchange(&frame).expect("an answer");
        let reply = checked(&answer).expect("a repeated send succeeds");
        assert_eq!(confirmation(target, &reply).expect("a confirmation"), 1, "attempt {attempt}");
    }
    assert_eq!(client.send(target, &[b"after".to_vec()]).expect("send"), 3);
    let late = client.exchange(&frame).expect("an answer");
    assert_eq!(
        confirmation(target, &checked(&late).expect("succeeds")).expect("a confirmation"),
        1,
        "after a newer request"
    );
    let polled = client.poll_from(target, 0, 100).expect("poll");
    let seen: Vec<_> = polled.messages.iter().map(|message| (message.offset, message.payload.as_slice())).collect();
    assert_eq!(seen, [(0, &b"before"[..]), (1, b"one"), (2, b"two"), (3, b"after")]);
}

#[test]
fn repeated_sends_are_told_apart_by_number_and_partition() {
    let server = Server::start();
    let (mut client, target) = with_partition(&server);
    let other = body::Target { partition: 1, ..target };
    for number in 0..5 {
        let payload = [b"same".to_vec()];
        assert_eq!(client.send(target, &payload).expect("send"), number, "equal content under new numbers is new");
    }
    let body = body::send(other, 1, &[b"x".to_vec()]);
    let frame = client.head(OPERATION_SEND, 101, &body).frame(&body);
    for _ in 0..2 {
        let answer = client.exchange(&frame).expect("an answer");
        assert_eq!(confirmation(other, &checked(&answer).expect("succeeds")).expect("a confirmation"), 0);
    }
    assert_eq!(client.poll_from(other, 0, 10).expect("poll").messages.len(), 1);
}

#[test]
fn repeated_sends_are_recognised_after_a_crash() {
    let mut server = Server::start();
    let (mut client, target) = with_partition(&server);
    client.send(target, &[b"first".to_vec()]).expect("send");
    let polled = client.poll(target, 5, WirePollingStrategy::next(), 10, true).expect("poll");
    assert_eq!(polled.messages.len(), 1);
    server.kill9();
    server.start_again();
    let mut client = RawClient::logged_in(server.tcp()).expect("root logs in");
    assert_eq!(client.get_offset(target, 5).expect("get offset").expect("committed").stored_offset, 0);
    let body = body::send(target, 1, &[b"second".to_vec()]);
    let frame = client.head(OPERATION_SEND, 101, &body).frame(&body);
    for _ in 0..2 {
        let answer = client.exchange(&frame).expect("an answer");
        assert_eq!(confirmation(target, &checked(&answer).expect("succeeds")).expect("a confirmation"), 1);
    }
    assert_eq!(client.poll_from(target, 0, 10).expect("poll").messages.len(), 2);
}

#[test]
fn a_repeated_creation_gets_the_same_reply() {
    let server = Server::start();
    let (mut client, _) = with_partition(&server);
    let body = body::create_stream("once");
    let head = client.head(128, 202, &body);
    let first = client.exchange(&head.frame(&body)).expect("an answer");
    let second = client.exchange(&head.frame(&body)).expect("an answer");
    assert_eq!(checked(&first).expect("created"), checked(&second).expect("answered from memory"));
    let again = client.call(128, 202, &body).expect_err("a new request with that name");
    assert_eq!(again.code(), Some(1012));

    let other = body::create_stream("another");
    let reused = RequestHead { checksum: whippet_sdk_tests::frame::body_checksum(&other), ..head };
    let refused = client.exchange(&reused.frame(&other)).expect("an answer");
    assert!(checked(&refused).is_err(), "a number used again for other arguments is refused: {refused:?}");
    let streams = client.read(201, &[]).expect("list");
    assert!(whippet_sdk_tests::tree::find(&streams, b"another").is_none());
}
