use crate::driver::{EPOCH, Log, bootstrap, create_stream, create_topic, created, id, name, named, server};
use whippet_metadata::{Command, Done, GroupChange, MetadataState, PartitionGroup, PasswordHash};
use whippet_protocol::{ErrorCode, limits};

#[test]
fn a_cluster_begins_with_its_root_user() {
    let log = Log::started();
    assert_eq!(log.state.cluster(), "meadow");
    let root = log.state.user_by_name("iggy").unwrap();
    assert_eq!((root.id, root.created_at, root.active), (0, EPOCH + 1, true));
    assert_eq!(log.state.user(0), Some(root));
    assert_eq!(log.state.user(1), None);
    assert_eq!(log.state.user_by_name("Iggy"), None);
    assert!(!format!("{:?}", log.state).contains("argon2"), "a hash is not for logs");
}

#[test]
fn a_cluster_begins_once() {
    let mut log = Log::started();
    log.fails(bootstrap(), ErrorCode::UserAlreadyExists);
}

#[test]
fn the_name_of_the_root_user_has_3_to_50_bytes() {
    for (text, allowed) in [("ab", false), ("abc", true), (&*"x".repeat(50), true), (&*"x".repeat(51), false)] {
        let root = name(text);
        let command = Command::Bootstrap { cluster: "c".into(), root, password_hash: PasswordHash("h".into()) };
        let outcome = MetadataState::new().apply(1, EPOCH, &server(command)).outcome;
        assert_eq!(outcome, if allowed { Ok(Done::Empty) } else { Err(ErrorCode::InvalidUsername) }, "{text}");
    }
}

#[test]
fn a_created_stream_is_found_by_number_and_by_name() {
    let mut log = Log::started();
    let applied = log.server(create_stream("orders"));
    assert_eq!(applied.outcome, Ok(Done::StreamCreated { id: 0, created_at: EPOCH + 2, name: name("orders") }));
    assert_eq!(applied.changes, []);
    let stream = log.state.stream(&id(0)).unwrap();
    assert_eq!((stream.id, stream.name.as_str(), stream.created_at), (0, "orders", EPOCH + 2));
    assert_eq!(log.state.stream(&named("orders")), Ok(stream));
    assert_eq!(log.state.stream(&id(1)), Err(ErrorCode::StreamIdNotFound));
    assert_eq!(log.state.stream(&named("Orders")), Err(ErrorCode::StreamIdNotFound));
}

#[test]
fn stream_names_are_unique() {
    let mut log = Log::started();
    log.ok(create_stream("a"));
    log.ok(create_stream("b"));
    log.fails(create_stream("a"), ErrorCode::StreamNameAlreadyExists);
    log.fails(Command::UpdateStream { stream: id(1), name: name("a") }, ErrorCode::StreamNameAlreadyExists);
    log.ok(Command::UpdateStream { stream: id(1), name: name("b") });
    log.ok(Command::UpdateStream { stream: named("b"), name: name("c") });
    assert_eq!(log.state.stream(&named("c")).unwrap().id, 1);
    assert_eq!(log.state.stream(&named("b")), Err(ErrorCode::StreamIdNotFound));
    log.ok(create_stream("b"));
}

#[test]
fn the_lowest_free_stream_id_is_reused() {
    let mut log = Log::started();
    for text in ["a", "b", "c", "d"] {
        log.ok(create_stream(text));
    }
    log.ok(Command::DeleteStream { stream: named("c") });
    log.ok(Command::DeleteStream { stream: id(0) });
    for (text, expected) in [("e", 0), ("f", 2), ("g", 4)] {
        log.ok(create_stream(text));
        assert_eq!(log.state.stream(&named(text)).unwrap().id, expected);
    }
    assert_eq!(log.state.streams().map(|stream| stream.name.as_str()).collect::<Vec<_>>(), ["e", "b", "f", "d", "g"]);
}

#[test]
fn commands_on_a_missing_stream_fail() {
    let mut log = Log::started();
    log.ok(create_stream("a"));
    for stream in [id(1), named("b")] {
        log.fails(Command::UpdateStream { stream: stream.clone(), name: name("x") }, ErrorCode::StreamIdNotFound);
        log.fails(Command::DeleteStream { stream: stream.clone() }, ErrorCode::StreamIdNotFound);
        log.fails(Command::PurgeStream { stream }, ErrorCode::StreamIdNotFound);
    }
}

#[test]
fn deleting_a_stream_deletes_every_group_in_it() {
    let mut log = Log::started();
    log.ok(create_stream("a"));
    log.ok(create_stream("b"));
    let mut groups = created(&log.ok(create_topic(0, "t", 2)));
    log.ok(create_topic(1, "t", 1));
    groups.extend(created(&log.ok(create_topic(0, "u", 1))));
    let deleted = log.ok(Command::DeleteStream { stream: id(0) });
    assert_eq!(deleted, groups.iter().map(|settings| GroupChange::Deleted(settings.group)).collect::<Vec<_>>());
    assert_eq!(log.state.all_partitions().map(|settings| settings.stream).collect::<Vec<_>>(), [1]);
}

#[test]
fn purging_a_stream_purges_every_group_in_it() {
    let mut log = Log::started();
    log.ok(create_stream("a"));
    log.ok(create_topic(0, "t", 2));
    log.ok(create_topic(0, "u", 1));
    let intent = log.next_op();
    let applied = log.server(Command::PurgeStream { stream: id(0) });
    let groups = vec![
        PartitionGroup { number: 1, life: 3 },
        PartitionGroup { number: 2, life: 3 },
        PartitionGroup { number: 3, life: 4 },
    ];
    assert_eq!(applied.changes, groups.iter().map(|&group| GroupChange::Purged { group, intent }).collect::<Vec<_>>());
    assert_eq!(applied.outcome, Ok(Done::Purged { groups, intent }));
    assert!(log.state.all_partitions().all(|settings| settings.purged_by == intent));
}

#[test]
fn a_server_has_room_for_so_many_streams() {
    let mut log = Log::started();
    for number in 0..limits::STREAMS_MAX {
        log.ok(create_stream(&number.to_string()));
    }
    assert_eq!(log.server(create_stream("one more")).outcome, Err(ErrorCode::TooManyStreams));
    log.ok(Command::DeleteStream { stream: id(4711) });
    log.ok(create_stream("one more"));
    assert_eq!(log.state.stream(&named("one more")).unwrap().id, 4711);
}

#[test]
fn time_never_goes_back() {
    let mut log = Log::started();
    log.state.apply(2, EPOCH + 1000, &server(create_stream("a")));
    log.state.apply(3, EPOCH, &server(create_stream("b")));
    assert_eq!(log.state.stream(&named("b")).unwrap().created_at, EPOCH + 1000);
    assert_eq!(log.state.timestamp(), EPOCH + 1000);
}

#[test]
#[should_panic(expected = "metadata records are applied once and in order")]
fn an_op_cannot_be_applied_twice() {
    let mut log = Log::started();
    log.state.apply(1, EPOCH, &server(create_stream("a")));
}

#[test]
#[should_panic(expected = "metadata records are applied once and in order")]
fn an_op_cannot_be_left_out() {
    let mut log = Log::started();
    log.state.apply(3, EPOCH, &server(create_stream("a")));
}
