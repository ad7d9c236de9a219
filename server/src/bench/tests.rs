//! The benchmark against a server that is made for it: it checks what it is sent and confirms or serves it.

use super::*;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use whippet_protocol::batch::{self, BatchBuilder};
use whippet_protocol::frame::{ReplyFields, RequestHeader, encode_reply, result_error};
use whippet_protocol::login::{Login, encode_login_reply};
use whippet_protocol::operation::{Asked, classify};
use whippet_protocol::send::{PollMessages, PollStart, SendMessages, poll_reply_head};
use whippet_protocol::{Command, ErrorCode};

/// What the server has seen.
#[derive(Debug, Default)]
struct Seen {
    sends: u64,
    polls: u64,
    names_taken: u64,
    deleted: u64,
    request_numbers: Vec<u64>,
}

/// Messages of the one partition that it serves, in batches of this many, with this payload.
const STORED: u64 = 30;
const STORED_BATCH: u32 = 10;
const STORED_PAYLOAD: usize = 40;

fn serve() -> (SocketAddr, Arc<Mutex<Seen>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = listener.local_addr().expect("address");
    let seen = Arc::new(Mutex::new(Seen::default()));
    let shared = Arc::clone(&seen);
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let seen = Arc::clone(&shared);
            std::thread::spawn(move || answer_all(stream, &seen));
        }
    });
    (address, seen)
}

fn answer_all(mut stream: TcpStream, seen: &Mutex<Seen>) {
    loop {
        let mut header = [0; FRAME_HEADER_SIZE];
        if stream.read_exact(&mut header).is_err() {
            return;
        }
        let request = RequestHeader::parse(&header, FRAME_SIZE_MAX).expect("a request");
        let mut body = vec![0; request.body_len()];
        stream.read_exact(&mut body).expect("the body follows");
        let answer = answer(&request, &body, &mut seen.lock().expect("no panic while locked"));
        let (status, answer) = match answer {
            Ok(answer) => (0, answer),
            Err(code) => (code.code(), Vec::new()),
        };
        let fields = ReplyFields { body_len: answer.len(), status, ..ReplyFields::default() };
        let frame = [&encode_reply(&request, &fields)[..], &answer].concat();
        if stream.write_all(&frame).is_err() {
            return;
        }
    }
}

fn answer(request: &RequestHeader, body: &[u8], seen: &mut Seen) -> Result<Vec<u8>, ErrorCode> {
    match classify(request.operation, request.code) {
        Asked::Register => {
            Login::parse(body).expect("a login");
            let mut out = bytes::BytesMut::new();
            encode_login_reply(&mut out, 0, 5, "t");
            Ok(out.to_vec())
        }
        Asked::Command(Command::CreateStream | Command::CreateTopic) => {
            // Everything is there already.
            seen.names_taken += 1;
            let code = if request.operation == 128 {
                ErrorCode::StreamNameAlreadyExists
            } else {
                ErrorCode::TopicNameAlreadyExists
            };
            Ok(result_error(code.code()).to_vec())
        }
        Asked::Command(Command::DeleteStream) => {
            seen.deleted += 1;
            Ok(vec![0; 4])
        }
        Asked::Command(Command::SendMessages) => {
            assert_eq!(request.session, 5);
            let send = SendMessages::parse(body).expect("a send");
            let info = batch::verify(&body[send.batch_start..], send.count).expect("checksums are right");
            assert_eq!(info.count, send.count);
            seen.sends += 1;
            seen.request_numbers.push(request.request);
            Ok([&1u32.to_le_bytes()[..], &[0; 20]].concat())
        }
        Asked::Command(Command::PollMessages) => {
            seen.polls += 1;
            let poll = PollMessages::parse(body).expect("a poll");
            if poll.partition != Some(0) {
                return Err(ErrorCode::PartitionNotFound);
            }
            let PollStart::Offset(offset) = poll.start else { panic!("polls are by offset") };
            Ok(stored_from(offset))
        }
        other => panic!("not expected: {other:?}"),
    }
}

/// The batch that starts at `offset`, or nothing behind the last one.
fn stored_from(offset: u64) -> Vec<u8> {
    assert_eq!(offset % u64::from(STORED_BATCH), 0, "a consumer follows what it was given");
    if offset >= STORED {
        return poll_reply_head(0, STORED - 1, 0).to_vec();
    }
    let mut builder = BatchBuilder::new(0, 1, 1024);
    for _ in 0..STORED_BATCH {
        builder.push(0, 1, &[7; STORED_PAYLOAD], &[]);
    }
    let (batch, _) = builder.finish();
    [&poll_reply_head(0, STORED - 1, STORED_BATCH)[..], &batch].concat()
}

fn arguments(address: SocketAddr) -> RunArguments {
    RunArguments {
        address: address.to_string(),
        username: "iggy".into(),
        password: "iggy".into(),
        streams: 2,
        partitions: 1,
        durability: None,
        duration: None,
        warmup: Duration::ZERO,
        threads: 1,
        pid: Some(std::process::id()),
        cleanup: false,
        json: false,
    }
}

fn produce(run: &RunArguments, total_bytes: u64) -> Job<'_> {
    Job {
        run,
        title: "t".into(),
        connections: 3,
        messages: 10,
        message_size: Some(100),
        total_bytes: Some(total_bytes),
        rate: None,
    }
}

fn figures(report: &Report) -> serde_json::Value {
    serde_json::from_str(&report.json()).expect("JSON")
}

#[test]
fn producers_send_the_whole_amount_with_rising_request_numbers() {
    let (address, seen) = serve();
    let run = RunArguments { threads: 2, cleanup: true, ..arguments(address) };
    let report = produce(&run, 30_000).measure().expect("runs");
    let figures = figures(&report);
    assert_eq!((&figures["requests"], &figures["payload_bytes"]), (&30.into(), &30_000.into()));
    assert!(figures["server"]["resident_bytes"].as_u64() > Some(0));
    let seen = seen.lock().expect("no panic");
    assert_eq!((seen.sends, seen.names_taken, seen.deleted), (30, 4, 2));
    let mut numbers = seen.request_numbers.clone();
    numbers.sort_unstable();
    let expected: Vec<u64> = (1..=10).flat_map(|number| [number; 3]).collect();
    assert_eq!(numbers, expected, "each connection counts from 1");
}

#[test]
fn large_batches_go_through_small_socket_buffers() {
    let (address, seen) = serve();
    let run = arguments(address);
    let job = Job { messages: 40, message_size: Some(200_000), total_bytes: Some(48_000_000), ..produce(&run, 0) };
    let report = job.measure().expect("runs");
    assert_eq!(figures(&report)["payload_bytes"], 48_000_000);
    assert_eq!(seen.lock().expect("no panic").sends, 6);
}

#[test]
fn a_pace_is_kept() {
    let (address, _) = serve();
    let run = arguments(address);
    // 3 connections × 1000 B every 30 ms are 100 kB/s: 10 requests each take at least 9 intervals.
    let job = Job { rate: Some(100_000), ..produce(&run, 30_000) };
    let report = job.measure().expect("runs");
    let figures = figures(&report);
    assert_eq!(figures["requests"], 30);
    assert!(figures["seconds"].as_f64() >= Some(0.27), "{figures}");
    assert!(figures["latency_from_due_us"]["max"].as_u64() >= figures["latency_us"]["p50"].as_u64());
}

#[test]
fn consumers_read_to_the_end_and_begin_again() {
    let (address, seen) = serve();
    let run = RunArguments { duration: Some(Duration::from_millis(300)), ..arguments(address) };
    let job = Job { message_size: None, total_bytes: None, ..produce(&run, 0) };
    let report = job.measure().expect("runs");
    let figures = figures(&report);
    let messages = figures["messages"].as_u64().expect("a number");
    assert!(messages > 3 * STORED, "{figures}");
    assert_eq!(figures["payload_bytes"], messages * STORED_PAYLOAD as u64);
    assert_eq!(seen.lock().expect("no panic").names_taken, 0, "consumers create nothing");
}

#[test]
fn a_refusal_ends_the_run_with_its_words() {
    let (address, _) = serve();
    let run = RunArguments { streams: 1, partitions: 3, ..arguments(address) };
    let job = Job { message_size: None, total_bytes: None, ..produce(&run, 0) };
    let error = job.measure().map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("the server answered with error 3007 ("), "{error}");
}

#[test]
fn nobody_listening_is_said() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = listener.local_addr().expect("address");
    drop(listener);
    let run = arguments(address);
    let error = produce(&run, 1).measure().map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with(&format!("connect to {address}: Connection refused")), "{error}");
}

#[test]
fn batches_that_fit_no_frame_are_refused_before_anything_is_sent() {
    let run = arguments("127.0.0.1:1".parse().expect("an address"));
    let job = Job { messages: 100, message_size: Some(1_000_000), ..produce(&run, 1) };
    let error = job.measure().map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("take smaller batches"), "{error}");
}

#[test]
fn amounts_are_read_as_people_write_them() {
    assert_eq!((size("4GB"), rate("200MB/s"), rate("1MiB")), (Ok(4_000_000_000), Ok(200_000_000), Ok(1 << 20)));
    assert_eq!(duration("10s"), Ok(Duration::from_secs(10)));
    assert!(size("0").is_err() && duration("10").is_err() && rate("fast").is_err());
}
