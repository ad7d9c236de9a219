//! Frames that official clients send, in ways in which they never would.

mod checksums;
mod commands;
mod hostile;
mod replays;

use whippet_sdk_tests::body::Target;
use whippet_sdk_tests::{RawClient, Server};

/// A logged-in client, and partition 0 of a new topic.
fn with_partition(server: &Server) -> (RawClient, Target) {
    let mut client = RawClient::logged_in(server.tcp()).expect("root logs in");
    let stream = client.create_stream("raw").expect("create stream");
    let topic = client.create_topic(stream, "raw", 2, &[]).expect("create topic");
    (client, Target { stream, topic, partition: 0 })
}

/// Asserts that the server is alive and serves a new client.
#[track_caller]
fn assert_serves(server: &mut Server) {
    assert!(server.is_alive(), "the server ended:\n{}", server.log().lines().join("\n"));
    let mut client = RawClient::logged_in(server.tcp()).expect("a new client logs in");
    client.ping().expect("ping");
}
