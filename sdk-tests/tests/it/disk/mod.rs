//! Data directories in unusual states: restarts, stray and missing files, no permission, no space.

mod empty_segments;
mod full;
mod missing_files;
mod ownership;
mod restarts;

use whippet_sdk_tests::body::Target;
use whippet_sdk_tests::payload::{Label, build};
use whippet_sdk_tests::{RawClient, Server};

/// The payload of the message with this number.
fn content(number: u64, length: usize) -> Vec<u8> {
    build(Label { producer: 1, sequence: number }, length)
}

/// A logged-in client of the running server.
#[track_caller]
fn client(server: &Server) -> RawClient {
    RawClient::logged_in(server.tcp()).expect("root logs in")
}

/// Creates a topic of one partition in an existing stream.
#[track_caller]
fn topic(client: &mut RawClient, stream: u32, name: &str, options: &[(&str, &str)]) -> Target {
    let topic = client.create_topic(stream, name, 1, options).expect("create topic");
    Target { stream, topic, partition: 0 }
}

/// Sends messages `from..to` of `length` bytes, one a batch.
#[track_caller]
fn fill(client: &mut RawClient, target: Target, numbers: std::ops::Range<u64>, length: usize) {
    for number in numbers {
        assert_eq!(client.send(target, &[content(number, length)]).expect("send"), number);
    }
}

/// Asserts that the partition serves exactly messages `0..count` of `length` bytes.
#[track_caller]
fn assert_content(client: &mut RawClient, target: Target, count: u64, length: usize) {
    let mut next = 0;
    while next < count {
        let polled = client.poll_from(target, next, 1_000).expect("poll");
        assert!(!polled.messages.is_empty(), "{target:?} ends at {next}, {count} messages were acknowledged");
        for message in polled.messages {
            assert_eq!(message.offset, next);
            assert!(message.payload == content(next, length), "{target:?}: offset {next} has another payload");
            next += 1;
        }
    }
    assert_eq!(next, count);
    assert!(client.poll_from(target, count, 1).expect("poll").messages.is_empty(), "{target:?} goes on after {count}");
}
