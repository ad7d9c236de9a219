//! A full disk: writes fail with an answer that invites a retry, reads go on, and room makes writes work again.

use super::{assert_content, client, content, topic};
use std::time::{Duration, Instant};
use whippet_sdk_tests::body::Target;
use whippet_sdk_tests::process::is_root;
use whippet_sdk_tests::tmpfs::Tmpfs;
use whippet_sdk_tests::{Failure, RawClient, Server, ServerOptions, http};

const LENGTH: usize = 64 * 1024;

/// Longest time from new room on the disk to the first send that works.
const RECOVERY: Duration = Duration::from_secs(10);

/// Sends until the server says that it cannot; returns the number of acknowledged messages.
#[track_caller]
fn fill_up(client: &mut RawClient, target: Target, from: u64) -> u64 {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut next = from;
    loop {
        assert!(Instant::now() < deadline, "64 MB are not full after a minute and {next} messages");
        match client.send(target, &[content(next, LENGTH)]) {
            Ok(base) => assert_eq!(base, next),
            Err(Failure::Code(58)) => return next,
            Err(failure) => panic!("message {next} on a full disk: {failure}, expected error code 58"),
        }
        next += 1;
    }
}

/// Sends one message until it is accepted; returns its offset.
#[track_caller]
fn send_when_possible(client: &mut RawClient, target: Target, number: u64) -> u64 {
    let deadline = Instant::now() + RECOVERY;
    loop {
        match client.send(target, &[content(number, LENGTH)]) {
            Ok(base) => return base,
            Err(Failure::Code(58)) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(50)),
            Err(failure) => panic!("{RECOVERY:?} after there is room again: {failure}"),
        }
    }
}

fn start_on(tmpfs: &Tmpfs) -> Server {
    ServerOptions::default().allow("").start_at(&tmpfs.data())
}

#[test]
fn a_full_disk_stops_writes_only_and_recovers() {
    if !is_root() {
        eprintln!("not run: mounting needs root");
        return;
    }
    let tmpfs = match Tmpfs::mount(64) {
        Ok(tmpfs) => tmpfs,
        Err(reason) => {
            eprintln!("not run: {reason}");
            return;
        }
    };
    let mut server = start_on(&tmpfs);
    let mut connection = client(&server);
    let stream = connection.create_stream("s").expect("create stream");
    let target = topic(&mut connection, stream, "t", &[("segment_size", "4MiB")]);
    let count = fill_up(&mut connection, target, 0);
    assert!(count as usize * LENGTH > 20 << 20, "only {count} messages of 64 KiB fit into 64 MB");

    assert_content(&mut connection, target, count, LENGTH);
    let token = http::login(server.http(), "iggy", "iggy");
    if let Ok(token) = &token {
        let path = "/streams/s/topics/t/messages";
        let body = serde_json::json!({
            "partitioning": { "kind": "partition_id", "value": "AAAAAA==" },
            "messages": [{ "payload": "A".repeat(LENGTH / 3 * 4) }],
        });
        let sent =
            http::request(server.http(), "POST", path, Some(token), Some(&body.to_string())).expect("a response");
        assert_eq!(sent.status, 503, "{}", sent.body);
        assert_eq!(sent.json()["id"], 58);
        assert!(sent.header("retry-after").is_some(), "{sent:?}");
        let query = format!("{path}?partition_id=0&kind=offset&value=3&count=2");
        let polled = http::request(server.http(), "GET", &query, Some(token), None).expect("a response");
        assert_eq!((polled.status, polled.json()["count"].as_u64()), (200, Some(2)));
    }
    // A session that needs room to be remembered may have to wait as well; refusing it must be a plain answer.
    if let Err(failure) = &token {
        eprintln!("no HTTP login on the full disk: {failure}");
    }

    tmpfs.resize(256);
    let base = send_when_possible(&mut connection, target, count);
    assert_eq!(base, count, "no offset was used up by refused sends");
    assert_content(&mut connection, target, count + 1, LENGTH);
    assert!(server.is_alive());
    server.terminate();
}

#[test]
fn a_full_disk_does_not_keep_the_server_from_starting() {
    if !is_root() {
        eprintln!("not run: mounting needs root");
        return;
    }
    let tmpfs = match Tmpfs::mount(64) {
        Ok(tmpfs) => tmpfs,
        Err(reason) => {
            eprintln!("not run: {reason}");
            return;
        }
    };
    let mut server = start_on(&tmpfs);
    let mut connection = client(&server);
    let stream = connection.create_stream("s").expect("create stream");
    let target = topic(&mut connection, stream, "t", &[("segment_size", "4MiB")]);
    let count = fill_up(&mut connection, target, 0);
    for attempt in 0..3 {
        server.kill9();
        match server.try_start_again() {
            Ok(()) => {
                // Reading works if the login does; the login may need room.
                match RawClient::logged_in(server.tcp()) {
                    Ok(mut connection) => assert_content(&mut connection, target, count, LENGTH),
                    Err(Failure::Code(58)) => eprintln!("attempt {attempt}: logins wait for room"),
                    Err(failure) => panic!("attempt {attempt}: {failure}"),
                }
            }
            Err(failure) => panic!("attempt {attempt}: the server does not start on a full disk: {failure}"),
        }
    }
    tmpfs.resize(256);
    server.kill9();
    server.start_again();
    let mut connection = client(&server);
    assert_content(&mut connection, target, count, LENGTH);
    assert_eq!(send_when_possible(&mut connection, target, count), count);
    assert_content(&mut connection, target, count + 1, LENGTH);
    server.terminate();
}
