//! Everything is there again after a restart, clean or not.

use super::{assert_content, client, content, fill, topic};
use std::time::Duration;
use whippet_sdk_tests::body::{self, Target};
use whippet_sdk_tests::frame::u32_in;
use whippet_sdk_tests::{RawClient, Server};

/// Ways to end a server.
const ENDINGS: [fn(&mut Server); 2] = [terminate, Server::kill9];

fn terminate(server: &mut Server) {
    server.terminate();
}

#[test]
fn metadata_messages_and_positions_survive() {
    for end in ENDINGS {
        let mut server = Server::start();
        let mut connection = client(&server);
        for name in ["a", "b", "c"] {
            let stream = connection.create_stream(name).expect("create stream");
            let target = topic(&mut connection, stream, "t", &[("durability", "persisted")]);
            fill(&mut connection, target, 0..20, 100);
            connection.store_offset(target, 4, 7).expect("store offset");
        }
        connection.call(130, 203, &body::numeric(1)).expect("delete stream b");
        end(&mut server);
        server.start_again();

        let mut connection = client(&server);
        let (first, third) =
            (Target { stream: 0, topic: 0, partition: 0 }, Target { stream: 2, topic: 0, partition: 0 });
        for target in [first, third] {
            assert_content(&mut connection, target, 20, 100);
            assert_eq!(connection.get_offset(target, 4).expect("get").expect("stored").stored_offset, 7);
        }
        let gone = connection.poll_from(Target { stream: 1, ..first }, 0, 1).expect_err("stream b is gone");
        assert_eq!(gone.code(), Some(1009));
        assert_eq!(connection.create_stream("d").expect("create stream"), 1, "the lowest free number");
        let fresh = topic(&mut connection, 1, "t", &[]);
        assert!(connection.poll_from(fresh, 0, 10).expect("poll").messages.is_empty(), "without old messages");
        fill(&mut connection, fresh, 0..3, 50);
        fill(&mut connection, third, 20..25, 100);

        end(&mut server);
        server.start_again();
        let mut connection = client(&server);
        assert_content(&mut connection, fresh, 3, 50);
        assert_content(&mut connection, third, 25, 100);
    }
}

#[test]
fn offsets_are_never_given_twice_over_several_crashes() {
    let mut server = Server::start();
    let mut connection = client(&server);
    let stream = connection.create_stream("s").expect("create stream");
    let target = topic(&mut connection, stream, "t", &[]);
    fill(&mut connection, target, 0..10, 30);
    connection.store_offset(target, 1, 9).expect("store offset");
    server.kill9();
    server.start_again();
    fill(&mut client(&server), target, 10..20, 30);
    server.kill9();
    server.start_again();
    server.kill9();
    server.start_again();
    let mut connection = client(&server);
    assert_eq!(connection.send(target, &[content(20, 30)]).expect("send"), 20);
    assert_content(&mut connection, target, 21, 30);
    assert_eq!(connection.get_offset(target, 1).expect("get").expect("stored").stored_offset, 9);
}

#[test]
fn rolled_segments_survive() {
    for end in ENDINGS {
        let mut server = Server::start();
        let mut connection = client(&server);
        let stream = connection.create_stream("s").expect("create stream");
        let target = topic(&mut connection, stream, "t", &[("segment_size", "1MiB")]);
        fill(&mut connection, target, 0..60, 60_000);
        end(&mut server);
        server.start_again();
        let mut connection = client(&server);
        assert_content(&mut connection, target, 60, 60_000);
        fill(&mut connection, target, 60..80, 60_000);
        assert_content(&mut connection, target, 80, 60_000);
    }
}

#[test]
fn purged_topics_stay_purged() {
    for end in ENDINGS {
        let mut server = Server::start();
        let mut connection = client(&server);
        let stream = connection.create_stream("s").expect("create stream");
        let target = topic(&mut connection, stream, "t", &[]);
        fill(&mut connection, target, 0..10, 100);
        connection.store_offset(target, 1, 5).expect("store offset");
        let mut body = body::numeric(target.stream);
        body.extend(body::numeric(target.topic));
        connection.call(135, 305, &body).expect("purge topic");
        fill(&mut connection, target, 0..4, 77);
        end(&mut server);
        server.start_again();
        let mut connection = client(&server);
        assert_content(&mut connection, target, 4, 77);
        assert_eq!(connection.get_offset(target, 1).expect("get"), None);
    }
}

#[test]
fn stopping_is_quick_with_clients_connected() {
    let mut server = Server::start();
    let mut connection = client(&server);
    let stream = connection.create_stream("s").expect("create stream");
    let target = topic(&mut connection, stream, "t", &[]);
    fill(&mut connection, target, 0..5, 100);
    let idle: Vec<RawClient> = (0..20).map(|_| RawClient::connect(server.tcp()).expect("connect")).collect();
    let took = server.terminate();
    assert!(took < Duration::from_secs(5), "stopping took {took:?} with {} idle clients", idle.len());
    server.start_again();
    assert_content(&mut client(&server), target, 5, 100);
}

#[test]
fn sessions_and_settings_do_not_stand_in_the_way_of_a_start() {
    let mut server = Server::start();
    for round in 0..6u32 {
        let mut connection = client(&server);
        let name = format!("round {round}");
        assert_eq!(connection.create_stream(&name).expect("create stream"), round);
        let target = topic(&mut connection, round, "t", &[]);
        fill(&mut connection, target, 0..2, 40);
        ENDINGS[round as usize % 2](&mut server);
        server.start_again();
    }
    let streams = client(&server).read(201, &[]).expect("list streams");
    assert_eq!(u32_in(&streams, 0), Some(0));
    for round in 0..6 {
        assert_content(&mut client(&server), Target { stream: round, topic: 0, partition: 0 }, 2, 40);
    }
}
