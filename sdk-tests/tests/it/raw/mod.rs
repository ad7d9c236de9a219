//! Frames that official clients send, in ways in which they never would.

mod checksums;
mod commands;
mod hostile;
mod replays;

use std::time::{Duration, Instant};
use whippet_sdk_tests::body::Target;
use whippet_sdk_tests::{Failure, RawClient, Server};

/// Longest time for which a new client is told to try its login again; official clients give up after 30 s.
const LOGIN_DEADLINE: Duration = Duration::from_secs(15);

/// A logged-in client, and partition 0 of a new topic.
fn with_partition(server: &Server) -> (RawClient, Target) {
    let mut client = RawClient::logged_in(server.tcp()).expect("root logs in");
    let stream = client.create_stream("raw").expect("create stream");
    let topic = client.create_topic(stream, "raw", 2, &[]).expect("create topic");
    (client, Target { stream, topic, partition: 0 })
}

/// Asserts that the server is alive and serves a new client; a login may have to wait for those that hostile clients began.
#[track_caller]
fn assert_serves(server: &mut Server) {
    assert!(server.is_alive(), "the server ended:\n{}", server.log().lines().join("\n"));
    let deadline = Instant::now() + LOGIN_DEADLINE;
    let mut client = loop {
        match RawClient::logged_in(server.tcp()) {
            Ok(client) => break client,
            Err(Failure::Code(58)) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(50)),
            Err(failure) => panic!("a new client cannot log in: {failure}"),
        }
    };
    client.ping().expect("ping");
}
