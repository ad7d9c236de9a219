//! Connections that send half frames, garbage, or the announcement of more than they send: others are served meanwhile,
//! and memory does not grow with what was only announced.

use super::{assert_serves, with_partition};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};
use whippet_sdk_tests::frame::{
    FRAME_SIZE_MAX, OPERATION_NON_REPLICATED, OPERATION_REGISTER, OPERATION_SEND, RequestHead, body_checksum,
};
use whippet_sdk_tests::random::Random;
use whippet_sdk_tests::{RawClient, Server, body};

/// Resident memory that hostile connections may cost while they are open, bytes.
const GROWTH_MAX: u64 = 30 << 20;

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.tcp()).expect("connect");
    stream.set_write_timeout(Some(Duration::from_secs(5))).expect("socket option");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("socket option");
    stream
}

/// Writes as much as the server takes; it may close at any time.
fn write(stream: &mut TcpStream, bytes: &[u8]) {
    drop(stream.write_all(bytes));
}

fn login_frame() -> Vec<u8> {
    let body = body::login(body::PROTOCOL_VERSION, "iggy", "not the password");
    let head = RequestHead {
        client: 77,
        checksum: body_checksum(&body),
        operation: OPERATION_REGISTER,
        ..RequestHead::default()
    };
    head.frame(&body)
}

#[test]
fn every_prefix_of_a_frame_is_survived() {
    let mut server = Server::start();
    let (mut client, target) = with_partition(&server);
    let before = server.resident_bytes();
    let frame = login_frame();
    let mut open = Vec::new();
    for length in 0..frame.len() {
        let mut stream = connect(&server);
        write(&mut stream, &frame[..length]);
        if length % 3 == 0 {
            open.push(stream);
        } else if length % 3 == 1 {
            drop(stream.shutdown(Shutdown::Write));
        }
        if length % 32 == 0 {
            client.send(target, &[b"meanwhile".to_vec()]).expect("another client is served");
        }
    }
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < GROWTH_MAX, "{} half frames cost {grown} bytes", open.len());
    drop(open);
    assert_serves(&mut server);
}

#[test]
fn garbage_is_survived() {
    let mut server = Server::start();
    let (mut client, target) = with_partition(&server);
    let before = server.resident_bytes();
    let mut random = Random::new(3);
    for round in 0..300u64 {
        let mut stream = connect(&server);
        let length = random.between(1, 4_096) as usize;
        write(&mut stream, &random.bytes(length));
        if round % 20 == 0 {
            client.send(target, &[b"meanwhile".to_vec()]).expect("another client is served");
        }
    }
    for bytes in [&b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..], b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", &[0; 4]] {
        let mut stream = connect(&server);
        write(&mut stream, &bytes.repeat(100));
        drop(stream.shutdown(Shutdown::Write));
        let mut rest = Vec::new();
        drop(stream.read_to_end(&mut rest));
    }
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < GROWTH_MAX, "garbage cost {grown} bytes");
    assert_serves(&mut server);
}

#[test]
fn every_altered_header_byte_is_survived() {
    let mut server = Server::start();
    let (mut client, target) = with_partition(&server);
    let frame = login_frame();
    for position in 0..256 {
        for mask in [0x01, 0x80, 0xff] {
            let mut altered = frame.clone();
            altered[position] ^= mask;
            write(&mut connect(&server), &altered);
        }
        if position % 16 == 0 {
            client.send(target, &[b"meanwhile".to_vec()]).expect("another client is served");
        }
    }
    assert_serves(&mut server);
}

#[test]
fn impossible_sizes_close_the_connection() {
    let mut server = Server::start();
    for size in [0, 1, 255, FRAME_SIZE_MAX + 1, u32::MAX] {
        let mut client = RawClient::logged_in(server.tcp()).expect("root logs in");
        let mut header = client.head(OPERATION_NON_REPLICATED, 1, &[]).encode(0);
        header[48..52].copy_from_slice(&size.to_le_bytes());
        client.stream().write_all(&header).expect("write");
        client.set_answer_deadline(Duration::from_secs(3)).expect("socket option");
        let asked = Instant::now();
        let mut rest = Vec::new();
        let end = client.stream().read_to_end(&mut rest);
        assert!(asked.elapsed() < Duration::from_secs(2), "size {size}: the connection stays open ({end:?})");
    }
    assert_serves(&mut server);
}

/// Opens `count` connections that announce the largest frame and send nothing of it.
fn announce(server: &Server, count: usize, logged_in: bool) -> Vec<RawClient> {
    let mut open = Vec::new();
    for _ in 0..count {
        let mut client = if logged_in {
            RawClient::logged_in(server.tcp()).expect("root logs in")
        } else {
            RawClient::connect(server.tcp()).expect("connect")
        };
        let operation = if logged_in { OPERATION_SEND } else { OPERATION_REGISTER };
        let mut header = client.head(operation, 0, &[]).encode(0);
        header[48..52].copy_from_slice(&FRAME_SIZE_MAX.to_le_bytes());
        if client.stream().write_all(&header).is_ok() {
            open.push(client);
        }
    }
    open
}

/// Logs clients in at once, so that the memory for checking passwords is not counted as that of what follows.
fn warm_up(server: &Server) {
    let address = server.tcp();
    let logins: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || {
                for _ in 0..8 {
                    drop(RawClient::logged_in(address));
                }
            })
        })
        .collect();
    for login in logins {
        login.join().expect("logging in does not panic");
    }
}

#[test]
fn announced_bytes_cost_no_memory() {
    let mut server = Server::start();
    let (mut client, target) = with_partition(&server);
    client.send(target, &[vec![1; 1 << 20]]).expect("send");
    warm_up(&server);
    let before = server.resident_bytes();
    let anonymous = announce(&server, 200, false);
    let logged_in = announce(&server, 20, true);
    let asked = Instant::now();
    for _ in 0..50 {
        client.send(target, &[b"meanwhile".to_vec()]).expect("another client is served");
    }
    assert!(asked.elapsed() < Duration::from_secs(5), "50 sends took {:?}", asked.elapsed());
    assert_serves(&mut server);
    let grown = server.resident_bytes().saturating_sub(before);
    let announced = anonymous.len() + logged_in.len();
    assert!(announced >= 20, "the logged-in connections are open");
    assert!(grown < GROWTH_MAX, "{announced} announcements of 64 MiB cost {grown} bytes");
}

#[test]
fn a_client_that_does_not_read_does_not_hold_up_others() {
    let mut server = Server::start();
    let (mut client, target) = with_partition(&server);
    for _ in 0..8 {
        client.send(target, &[vec![9; 4 << 20]]).expect("send");
    }
    let before = server.resident_bytes();
    let poll = body::poll(target, 1, iggy_binary_protocol::WirePollingStrategy::first(), 8, false);
    let mut silent = Vec::new();
    for _ in 0..8 {
        let mut reader = RawClient::logged_in(server.tcp()).expect("root logs in");
        let frame = reader.head(OPERATION_NON_REPLICATED, 100, &poll).frame(&poll);
        reader.stream().write_all(&frame).expect("write");
        silent.push(reader);
    }
    let asked = Instant::now();
    for _ in 0..20 {
        client.send(target, &[b"meanwhile".to_vec()]).expect("another client is served");
    }
    assert!(asked.elapsed() < Duration::from_secs(5), "20 sends took {:?}", asked.elapsed());
    let grown = server.resident_bytes().saturating_sub(before);
    // Eight replies of at most the frame limit each may be in memory, and no more than that.
    assert!(grown < 8 * u64::from(FRAME_SIZE_MAX), "8 unread replies cost {grown} bytes");
    drop(silent);
    assert_serves(&mut server);
}
