//! Files that are too many, too few or empty. The test finds files by what they contain and how they change, not by name.

use super::{assert_content, client, content, fill, topic};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use whippet_sdk_tests::body::Target;
use whippet_sdk_tests::log_watch::is_alarming;
use whippet_sdk_tests::{Failure, Server, ServerOptions, tree};

const LENGTH: usize = 2_000;

/// A stopped server with two topics of 20 messages each.
fn stopped_with_two_topics() -> (Server, Target, Target) {
    let mut server = Server::start();
    let mut connection = client(&server);
    let stream = connection.create_stream("s").expect("create stream");
    let first = topic(&mut connection, stream, "first", &[("segment_size", "1MiB")]);
    let second = topic(&mut connection, stream, "second", &[("segment_size", "1MiB")]);
    fill(&mut connection, first, 0..20, LENGTH);
    fill(&mut connection, second, 0..20, LENGTH + 1);
    server.terminate();
    (server, first, second)
}

/// The files of the log of the topic whose messages have `length` bytes, relative to the data directory.
fn log_files(data: &Path, length: usize) -> BTreeSet<PathBuf> {
    let files: BTreeSet<PathBuf> =
        (0..20).flat_map(|number| tree::files_with(data, &content(number, length))).collect();
    assert!(!files.is_empty(), "the messages are in files");
    files
}

/// The innermost folder that holds all of these files.
fn common_folder(files: &BTreeSet<PathBuf>) -> PathBuf {
    let mut folder = files.first().and_then(|file| file.parent()).map(Path::to_owned).unwrap_or_default();
    while !files.iter().all(|file| file.starts_with(&folder)) {
        folder.pop();
    }
    folder
}

#[test]
fn stray_files_are_ignored_or_refused_by_name() {
    let (mut server, first, second) = stopped_with_two_topics();
    server.allow("stray-file");
    server.allow("stray-folder");
    let folder = server.data().join(common_folder(&log_files(server.data(), LENGTH)));
    let mut strays = BTreeSet::new();
    for place in [server.data().to_owned(), folder] {
        std::fs::create_dir_all(place.join("stray-folder/inner")).expect("create folder");
        for name in ["stray-file.tmp", "stray-file", "stray-folder/inner/stray-file"] {
            std::fs::write(place.join(name), b"not ours").expect("write");
            strays.insert(place.join(name));
        }
    }
    match server.try_start_again() {
        Ok(()) => {
            let mut connection = client(&server);
            assert_content(&mut connection, first, 20, LENGTH);
            assert_content(&mut connection, second, 20, LENGTH + 1);
            fill(&mut connection, first, 20..22, LENGTH);
            assert!(strays.iter().all(|stray| stray.is_file()), "a server does not delete what is not its own");
        }
        Err(failure) => {
            assert!(failure.status.is_some_and(|status| !status.success()), "{failure}");
            assert!(failure.text().contains("stray-"), "the refusal names the stray file: {failure}");
        }
    }
}

/// Ways to damage an index file.
const DAMAGES: [fn(&Path); 5] = [
    |file| std::fs::remove_file(file).expect("remove"),
    |file| tree::truncate(file, 0),
    |file| tree::truncate(file, tree::read(file).len().saturating_sub(3) as u64),
    |file| std::fs::write(file, vec![0xff; tree::read(file).len()]).expect("write"),
    |file| std::fs::write(file, [tree::read(file), vec![0; 100]].concat()).expect("write"),
];

/// The index files, of which there are at least two after a moment: an index is written some time after its segment is full.
fn wait_for_indexes(data: &Path) -> Vec<PathBuf> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let is_index = |file: &PathBuf| file.extension().is_some_and(|kind| kind == "index");
        let indexes: Vec<PathBuf> = tree::files(data).into_keys().filter(is_index).collect();
        if indexes.len() >= 2 {
            return indexes;
        }
        assert!(Instant::now() < deadline, "3.6 MB in segments of 1 MiB have only the indexes {indexes:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn damaged_indexes_are_rebuilt() {
    const COUNT: u64 = 60;
    const LARGE: usize = 60_000;
    let mut server = Server::start();
    let mut connection = client(&server);
    let stream = connection.create_stream("s").expect("create stream");
    let target = topic(&mut connection, stream, "t", &[("segment_size", "1MiB")]);
    fill(&mut connection, target, 0..COUNT, LARGE);
    let indexes = wait_for_indexes(server.data());
    server.terminate();
    for damage in DAMAGES {
        let scratch = tempfile::tempdir().expect("temporary folder");
        let data = scratch.path().join("data");
        tree::copy(server.data(), &data);
        for index in &indexes {
            damage(&data.join(index));
        }
        let mut damaged = ServerOptions::default().allow(".index").start_at(&data);
        let mut connection = client(&damaged);
        assert_content(&mut connection, target, COUNT, LARGE);
        let time = connection.poll_from(target, 12, 1).expect("poll").messages[0].timestamp;
        let strategy = iggy_binary_protocol::WirePollingStrategy::timestamp(time);
        let polled = connection.poll(target, 1, strategy, 3, false).expect("poll");
        assert_eq!(polled.messages.iter().map(|message| message.offset).collect::<Vec<_>>(), [12, 13, 14]);
        let log = damaged.log().lines();
        for index in &indexes {
            let name = index.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let warnings = log.iter().filter(|line| is_alarming(line) && line.contains(&name)).count();
            assert!(warnings <= 1, "{warnings} warnings about {name}:\n{}", log.join("\n"));
        }
        damaged.terminate();
    }
}

#[test]
fn an_empty_log_file_is_never_taken_for_an_empty_partition() {
    let (mut server, first, second) = stopped_with_two_topics();
    server.allow("");
    for file in log_files(server.data(), LENGTH) {
        tree::truncate(&server.data().join(file), 0);
    }
    assert_data_missing(&mut server, first, second);
}

#[test]
fn a_removed_partition_says_that_its_data_is_missing() {
    let (mut server, first, second) = stopped_with_two_topics();
    server.allow("");
    let folder = common_folder(&log_files(server.data(), LENGTH));
    let other = common_folder(&log_files(server.data(), LENGTH + 1));
    assert!(!other.starts_with(&folder), "each partition has a folder of its own: {folder:?}, {other:?}");
    std::fs::remove_dir_all(server.data().join(folder)).expect("remove");
    assert_data_missing(&mut server, first, second);
}

/// The partition `lost` answers with an error, or the server refuses to start; the partition `whole` is served.
fn assert_data_missing(server: &mut Server, lost: Target, whole: Target) {
    if let Err(failure) = server.try_start_again() {
        panic!("one lost partition must not keep the others from being served: {failure}");
    }
    let mut connection = client(server);
    connection.set_answer_deadline(Duration::from_secs(5)).expect("socket option");
    assert_content(&mut connection, whole, 20, LENGTH + 1);
    fill(&mut connection, whole, 20..23, LENGTH + 1);
    let poll = connection.poll_from(lost, 0, 10);
    assert!(matches!(poll, Err(Failure::Code(_))), "a poll of the lost partition: {poll:?}");
    let send = connection.send(lost, &[content(20, LENGTH)]);
    assert!(!matches!(send, Ok(base) if base < 20), "an acknowledged offset was given again: {send:?}");
    let log = server.log().lines();
    let alarmed = log.iter().any(|line| is_alarming(line));
    assert!(alarmed, "the log says what is missing:\n{}", log.join("\n"));
}
