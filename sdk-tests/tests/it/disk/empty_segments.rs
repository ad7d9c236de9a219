//! Segments that became empty: whatever is lost is said, and nothing is skipped without a word.

use super::{client, content, fill, topic};
use std::path::PathBuf;
use std::time::Duration;
use whippet_sdk_tests::body::Target;
use whippet_sdk_tests::log_watch::is_alarming;
use whippet_sdk_tests::{Failure, RawClient, Server, ServerOptions, tree};

const LENGTH: usize = 60_000;
const COUNT: u64 = 60;

/// Reads from the first message on until the server answers with an error; every reply must go on where the last one
/// ended. Returns the number of messages read, and the error code if there was one.
fn read_in_order(client: &mut RawClient, target: Target) -> (u64, Option<u32>) {
    let mut next = 0;
    loop {
        match client.poll_from(target, next, 10) {
            Ok(polled) if polled.messages.is_empty() => return (next, None),
            Ok(polled) => {
                for message in polled.messages {
                    assert_eq!(message.offset, next, "offset {next} was skipped without a word");
                    assert!(message.payload == content(next, LENGTH), "offset {next} has another payload");
                    next += 1;
                }
            }
            Err(Failure::Code(code)) => return (next, Some(code)),
            Err(failure) => panic!("poll from {next}: {failure}"),
        }
    }
}

/// The files that hold the messages, in the order of the messages.
fn segments(server: &Server) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for number in 0..COUNT {
        for file in tree::files_with(server.data(), &content(number, LENGTH)) {
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    files
}

#[test]
fn an_empty_or_missing_segment_is_never_skipped_in_silence() {
    let mut server = Server::start();
    let mut connection = client(&server);
    let stream = connection.create_stream("s").expect("create stream");
    let target = topic(&mut connection, stream, "t", &[("segment_size", "1MiB")]);
    fill(&mut connection, target, 0..COUNT, LENGTH);
    server.terminate();
    let segments = segments(&server);
    assert!(segments.len() >= 3, "3.6 MB in segments of 1 MiB are in {segments:?}");
    let (first, middle, last) = (&segments[0], &segments[segments.len() / 2], &segments[segments.len() - 1]);
    let cases = [first, middle, last].into_iter().flat_map(|file| [(file, true), (file, false)]);
    for (file, empty) in cases {
        let what = format!("{} {}", file.display(), if empty { "empty" } else { "removed" });
        let scratch = tempfile::tempdir().expect("temporary folder");
        let data = scratch.path().join("data");
        tree::copy(server.data(), &data);
        if empty {
            tree::truncate(&data.join(file), 0);
        } else {
            std::fs::remove_file(data.join(file)).expect("remove");
        }
        let mut damaged = ServerOptions::default().allow("").start_at(&data);
        let mut connection = client(&damaged);
        connection.set_answer_deadline(Duration::from_secs(5)).expect("socket option");
        let (read, error) = read_in_order(&mut connection, target);
        let log = damaged.log().lines();
        let said = log.iter().any(|line| is_alarming(line));
        eprintln!("{what}: {read} messages, then {error:?}");
        assert!(read < COUNT, "{what}: the messages of an empty file are read");
        assert!(said, "{what}: the log does not say what is lost:\n{}", log.join("\n"));
        let send = connection.send(target, &[content(99, LENGTH)]);
        assert!(!matches!(send, Ok(base) if base < COUNT), "{what}: an acknowledged offset was given again: {send:?}");
        assert!(error.is_some() || send.is_ok_and(|base| base >= COUNT), "{what}: data is missing without an error");
        damaged.kill9();
    }
}
