use crate::driver::{EPOCH, Log, create_stream, named, server};
use std::sync::Arc;
use std::time::{Duration, Instant};
use whippet_metadata::{Command, LogEntry, MetadataReader, MetadataWriter};

fn entry(op: u64, command: Command) -> LogEntry {
    LogEntry { op, timestamp: EPOCH + op, envelope: Arc::new(server(command)) }
}

fn streams(reader: &MetadataReader) -> Vec<String> {
    reader.read(|state| state.streams().map(|stream| stream.name.to_string()).collect())
}

#[test]
fn readers_see_the_recovered_state_and_what_was_published_since() {
    let mut log = Log::started();
    log.ok(create_stream("recovered"));
    let mut writer = MetadataWriter::new(log.state.clone());
    let reader = writer.reader();
    assert_eq!(streams(&reader), ["recovered"]);
    writer.publish([entry(3, create_stream("a")), entry(4, create_stream("b"))]);
    assert_eq!(streams(&reader), ["recovered", "a", "b"]);
    writer.publish([]);
    writer.publish([entry(5, Command::DeleteStream { stream: named("a") })]);
    assert_eq!(streams(&reader), ["recovered", "b"]);
}

#[test]
fn both_copies_equal_the_state_that_the_log_gives() {
    let mut log = Log::started();
    let mut writer = MetadataWriter::new(log.state.clone());
    let reader = writer.reader();
    for number in 0..20 {
        let command = match number % 4 {
            3 => Command::DeleteStream { stream: named(&(number - 2).to_string()) },
            _ => create_stream(&number.to_string()),
        };
        let op = log.next_op();
        log.ok(command.clone());
        writer.publish([entry(op, command)]);
        // Each publication shows the other copy.
        assert_eq!(reader.read(whippet_metadata::MetadataState::digest), log.state.digest(), "after op {op}");
    }
}

#[test]
fn an_installed_state_replaces_the_old_one() {
    let mut writer = MetadataWriter::new(Log::started().state);
    writer.publish([entry(2, create_stream("old"))]);
    let mut other = Log::started();
    other.ok(create_stream("new"));
    other.ok(create_stream("newer"));
    writer.install(other.state.clone());
    assert_eq!(streams(&writer.reader()), ["new", "newer"]);
    for (op, text) in [(4, "x"), (5, "y"), (6, "z")] {
        writer.publish([entry(op, create_stream(text))]);
    }
    assert_eq!(streams(&writer.reader()), ["new", "newer", "x", "y", "z"]);
}

#[test]
fn threads_see_whole_states_in_order() {
    const LAST: u64 = 400;
    let mut writer = MetadataWriter::new(Log::started().state);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let reader = writer.reader();
            scope.spawn(move || {
                let (mut seen, start) = (0, Instant::now());
                while seen < LAST {
                    // Op 1 is the bootstrap, every later one a stream.
                    let (applied, count) = reader.read(|state| (state.applied(), state.streams().len() as u64));
                    assert_eq!(count, applied - 1);
                    assert!(applied >= seen, "went back from {seen} to {applied}");
                    assert!(start.elapsed() < Duration::from_secs(60), "op {LAST} never came");
                    seen = applied;
                    std::thread::yield_now();
                }
            });
        }
        for op in 2..=LAST {
            writer.publish([entry(op, create_stream(&op.to_string()))]);
        }
    });
    assert_eq!(writer.reader().read(|state| state.applied()), LAST);
}

#[test]
fn readers_keep_the_last_state_when_the_writer_is_gone() {
    let mut writer = MetadataWriter::new(Log::started().state);
    let reader = writer.reader();
    assert_eq!(streams(&reader), Vec::<String>::new());
    writer.publish([entry(2, create_stream("last"))]);
    drop(writer);
    assert_eq!(streams(&reader), ["last"]);
    let elsewhere = std::thread::spawn(move || streams(&reader)).join().unwrap();
    assert_eq!(elsewhere, ["last"]);
}

#[test]
fn reads_of_one_or_of_two_sides_may_be_nested() {
    let mut one = MetadataWriter::new(Log::started().state);
    let mut two = MetadataWriter::new(Log::started().state);
    one.publish([entry(2, create_stream("one"))]);
    let (first, second) = (one.reader(), two.reader());
    let counts = first.read(|outer| {
        // Another side may move on meanwhile.
        two.publish([entry(2, create_stream("two")), entry(3, create_stream("three"))]);
        second.read(|middle| (outer.streams().len(), middle.streams().len(), streams(&first)))
    });
    assert_eq!(counts, (1, 2, vec!["one".to_owned()]));
}

#[test]
fn a_panicking_read_leaves_the_side_usable() {
    let mut writer = MetadataWriter::new(Log::started().state);
    let reader = writer.reader();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| reader.read(|_| panic!("in a read"))));
    assert!(panicked.is_err());
    writer.publish([entry(2, create_stream("a"))]);
    writer.publish([entry(3, create_stream("b"))]);
    assert_eq!(streams(&reader), ["a", "b"]);
}

#[test]
#[should_panic(expected = "published from inside a read of the same thread")]
fn publishing_from_inside_a_read_is_refused_instead_of_hanging() {
    let mut writer = MetadataWriter::new(Log::started().state);
    let reader = writer.reader();
    reader.read(|_| writer.publish([entry(2, create_stream("a"))]));
}

#[test]
fn a_reader_can_be_shared_and_a_writer_sent() {
    fn shared<T: Clone + Send + Sync + 'static>() {}
    fn sent<T: Send + 'static>() {}
    shared::<MetadataReader>();
    sent::<MetadataWriter>();
}
