use crate::driver::{EPOCH, Log, create_stream, create_topic, created, id, name, named, texts};
use std::collections::BTreeSet;
use whippet_metadata::options::Purpose;
use whippet_metadata::{
    Command, Done, GroupChange, Partition, PartitionGroup, PartitionSettings, Topic, TopicOptions, TopicOptionsPatch,
};
use whippet_protocol::{ErrorCode, Identifier, limits};

fn log_with_stream() -> Log {
    let mut log = Log::started();
    log.ok(create_stream("s"));
    log
}

fn with_options(text: &str, partitions: u32, options: &[(&str, &str)]) -> Command {
    let options = texts(Purpose::Create, options).unwrap();
    Command::CreateTopic { stream: id(0), name: name(text), partitions, options }
}

fn update(topic: u32, text: &str, options: TopicOptionsPatch) -> Command {
    Command::UpdateTopic { stream: id(0), topic: id(topic), name: name(text), options }
}

fn create_partitions(count: u32) -> Command {
    Command::CreatePartitions { stream: id(0), topic: id(0), count }
}

fn delete_partitions(count: u32) -> Command {
    Command::DeletePartitions { stream: id(0), topic: id(0), count }
}

/// Every command that names a topic.
fn on_topic(stream: Identifier, topic: Identifier) -> [Command; 5] {
    [
        Command::UpdateTopic {
            stream: stream.clone(),
            topic: topic.clone(),
            name: name("x"),
            options: TopicOptionsPatch::default(),
        },
        Command::DeleteTopic { stream: stream.clone(), topic: topic.clone() },
        Command::PurgeTopic { stream: stream.clone(), topic: topic.clone() },
        Command::CreatePartitions { stream: stream.clone(), topic: topic.clone(), count: 1 },
        Command::DeletePartitions { stream, topic, count: 1 },
    ]
}

#[test]
fn a_created_topic_has_partitions_in_groups_of_their_own() {
    let mut log = log_with_stream();
    let applied = log.server(create_topic(0, "t", 2));
    let group = |number| PartitionGroup { number, life: 3 };
    let partition = |number| Partition { group: group(number), created_at: EPOCH + 3 };
    let topic = Topic {
        id: 0,
        name: name("t"),
        created_at: EPOCH + 3,
        options: TopicOptions::default(),
        partitions: vec![partition(1), partition(2)],
        purged_by: 0,
    };
    let settings = |partition: u32| PartitionSettings {
        group: group(u64::from(partition) + 1),
        stream: 0,
        topic: 0,
        partition,
        segment_size: 1 << 30,
        persisted: false,
        offsets_persisted: false,
        preallocate: false,
        purged_by: 0,
    };
    assert_eq!(applied.outcome, Ok(Done::TopicCreated { stream: 0, topic: topic.clone() }));
    assert_eq!(applied.changes, [GroupChange::Created(settings(0)), GroupChange::Created(settings(1))]);
    for (stream, name) in [(id(0), id(0)), (named("s"), named("t"))] {
        assert_eq!(log.state.topic(&stream, &name).unwrap().1, &topic);
        assert_eq!(log.state.partition(&stream, &name, 1), Ok(settings(1)));
        assert_eq!(log.state.partition(&stream, &name, 2), Err(ErrorCode::PartitionNotFound));
    }
    assert_eq!(log.state.all_partitions().collect::<Vec<_>>(), [settings(0), settings(1)]);
}

#[test]
fn settings_of_a_partition_follow_the_options() {
    let mut log = log_with_stream();
    let options = [("segment_size", "2MiB"), ("durability", "persisted")];
    let settings = created(&log.ok(with_options("t", 1, &options)));
    assert_eq!(
        (settings[0].segment_size, settings[0].persisted, settings[0].offsets_persisted),
        (2 << 20, true, false)
    );
    let settings = created(&log.ok(with_options("u", 1, &[("consumer_offset_durability", "Persisted")])));
    assert_eq!(
        (settings[0].segment_size, settings[0].persisted, settings[0].offsets_persisted),
        (1 << 30, false, true)
    );
}

#[test]
fn a_missing_stream_is_said_before_a_missing_topic() {
    let mut log = log_with_stream();
    log.ok(create_topic(0, "t", 1));
    for command in on_topic(id(1), id(0)).into_iter().chain(on_topic(named("x"), named("t"))) {
        log.fails(command, ErrorCode::StreamIdNotFound);
    }
    for command in on_topic(id(0), id(1)).into_iter().chain(on_topic(named("s"), named("x"))) {
        log.fails(command, ErrorCode::TopicIdNotFound);
    }
    log.fails(create_topic(1, "t", 1), ErrorCode::StreamIdNotFound);
    let missing = log.state.topic(&id(0), &named("T"));
    assert_eq!(missing, Err(ErrorCode::TopicIdNotFound));
    assert_eq!(log.state.partition(&id(7), &id(0), 0), Err(ErrorCode::StreamIdNotFound));
    assert_eq!(log.state.partition(&id(0), &id(7), 0), Err(ErrorCode::TopicIdNotFound));
}

#[test]
fn topic_names_are_unique_within_their_stream() {
    let mut log = log_with_stream();
    log.ok(create_stream("other"));
    log.ok(create_topic(0, "t", 1));
    log.ok(create_topic(1, "t", 1));
    log.ok(create_topic(0, "u", 1));
    log.fails(create_topic(0, "t", 1), ErrorCode::TopicNameAlreadyExists);
    log.fails(update(1, "t", TopicOptionsPatch::default()), ErrorCode::TopicNameAlreadyExists);
    log.ok(update(1, "u", TopicOptionsPatch::default()));
    log.ok(update(1, "v", TopicOptionsPatch::default()));
    assert_eq!(log.state.topic(&id(0), &named("v")).unwrap().1.id, 1);
    assert_eq!(log.state.topic(&id(0), &named("u")), Err(ErrorCode::TopicIdNotFound));
    log.ok(create_topic(0, "u", 1));
}

#[test]
fn the_lowest_free_topic_id_is_reused_and_its_groups_are_not() {
    let mut log = log_with_stream();
    let mut seen = BTreeSet::new();
    for text in ["a", "b", "c"] {
        seen.extend(created(&log.ok(create_topic(0, text, 2))).iter().map(|settings| settings.group.number));
    }
    let deleted = log.ok(Command::DeleteTopic { stream: id(0), topic: named("b") });
    let group = |number| GroupChange::Deleted(PartitionGroup { number, life: 4 });
    assert_eq!(deleted, [group(3), group(4)]);

    let life = log.next_op();
    let settings = created(&log.ok(create_topic(0, "b", 2)));
    assert_eq!(settings.iter().map(|settings| settings.topic).collect::<Vec<_>>(), [1, 1]);
    assert!(settings.iter().all(|settings| settings.group.life == life && seen.insert(settings.group.number)));

    log.ok(Command::DeleteStream { stream: id(0) });
    log.ok(create_stream("s"));
    let settings = created(&log.ok(create_topic(0, "a", 1)));
    assert_eq!(settings[0].group.number, 9);
}

#[test]
fn a_topic_has_at_most_1000_partitions_at_creation() {
    let mut log = log_with_stream();
    log.fails(create_topic(0, "t", 1001), ErrorCode::TooManyPartitions);
    assert_eq!(log.ok(create_topic(0, "none", 0)), []);
    assert_eq!(log.ok(create_topic(0, "full", 1000)).len(), 1000);
}

#[test]
fn a_stream_has_room_for_4096_topics() {
    let mut log = log_with_stream();
    for number in 0..limits::TOPICS_PER_STREAM_MAX {
        log.ok(create_topic(0, &format!("t{number}"), 0));
    }
    log.fails(create_topic(0, "one more", 0), ErrorCode::TooManyTopics);
    log.ok(Command::DeleteTopic { stream: id(0), topic: id(1234) });
    log.ok(create_topic(0, "one more", 0));
    assert_eq!(log.state.topic(&id(0), &named("one more")).unwrap().1.id, 1234);
}

#[test]
fn partitions_are_added_and_removed_at_the_end() {
    let mut log = log_with_stream();
    log.ok(create_topic(0, "t", 2));
    let grown = created(&log.ok(create_partitions(2)));
    let seen: Vec<_> = grown.iter().map(|settings| (settings.partition, settings.group.number)).collect();
    assert_eq!(seen, [(2, 3), (3, 4)]);
    assert!(grown.iter().all(|settings| settings.group.life == 4));

    let shrunk = log.ok(delete_partitions(3));
    let group = |number, life| GroupChange::Deleted(PartitionGroup { number, life });
    assert_eq!(shrunk, [group(2, 3), group(3, 4), group(4, 4)]);
    let grown = created(&log.ok(create_partitions(1)));
    assert_eq!((grown[0].partition, grown[0].group), (1, PartitionGroup { number: 5, life: 6 }));
}

#[test]
fn counts_of_partitions_have_limits() {
    let mut log = log_with_stream();
    log.ok(create_topic(0, "t", 3));
    for count in [0, 1001] {
        log.fails(create_partitions(count), ErrorCode::TooManyPartitions);
        log.fails(delete_partitions(count), ErrorCode::TooManyPartitions);
    }
    log.fails(delete_partitions(4), ErrorCode::InvalidPartitionsCount);
    log.ok(delete_partitions(3));
    log.fails(delete_partitions(1), ErrorCode::InvalidPartitionsCount);
}

#[test]
fn a_topic_has_at_most_a_million_partitions() {
    let mut log = log_with_stream();
    log.ok(create_topic(0, "t", 1));
    for _ in 0..999 {
        log.ok(create_partitions(1000));
    }
    assert_eq!(log.server(create_partitions(1000)).outcome, Err(ErrorCode::PartitionIdSpaceExhausted));
    log.ok(create_partitions(999));
    assert_eq!(log.server(create_partitions(1)).outcome, Err(ErrorCode::PartitionIdSpaceExhausted));
}

#[test]
fn a_purge_names_its_groups_and_leaves_its_op() {
    let mut log = log_with_stream();
    log.ok(create_topic(0, "t", 2));
    log.ok(create_topic(0, "u", 1));
    let intent = log.next_op();
    let applied = log.server(Command::PurgeTopic { stream: id(0), topic: id(0) });
    let groups = vec![PartitionGroup { number: 1, life: 3 }, PartitionGroup { number: 2, life: 3 }];
    assert_eq!(applied.changes, groups.iter().map(|&group| GroupChange::Purged { group, intent }).collect::<Vec<_>>());
    assert_eq!(applied.outcome, Ok(Done::Purged { groups, intent }));
    assert_eq!(log.state.partition(&id(0), &id(0), 1).unwrap().purged_by, intent);
    assert_eq!(log.state.partition(&id(0), &id(1), 0).unwrap().purged_by, 0);
}

#[test]
fn an_update_changes_updatable_options_only() {
    let mut log = log_with_stream();
    log.ok(with_options("t", 1, &[("message_expiry", "1h"), ("segment_size", "1MiB")]));
    log.ok(update(0, "t", texts(Purpose::Update, &[("max_topic_size", "1MiB")]).unwrap()));
    let options = log.state.topic(&id(0), &id(0)).unwrap().1.options.clone();
    assert_eq!((options.message_expiry_us(), options.max_topic_size()), (3_600_000_000, 1 << 20));

    // The check before replication does not let this through; a log may still hold it.
    let create_only = texts(Purpose::Create, &[("durability", "persisted")]).unwrap();
    log.fails(update(0, "t", create_only), ErrorCode::UnsupportedOptionKey);
    let too_small = texts(Purpose::Update, &[("max_topic_size", "1048575")]).unwrap();
    log.fails(update(0, "renamed", too_small), ErrorCode::InvalidTopicSize);
}

#[test]
fn an_update_with_server_defaults_keeps_what_is_set() {
    let mut log = log_with_stream();
    log.ok(with_options("t", 1, &[("message_expiry", "1h"), ("compression_algorithm", "gzip")]));
    let before = log.state.topic(&id(0), &id(0)).unwrap().1.options.clone();
    let patch = texts(Purpose::Update, &[("message_expiry", "server_default"), ("max_topic_size", "0")]).unwrap();
    log.ok(update(0, "t", patch));
    assert_eq!(log.state.topic(&id(0), &id(0)).unwrap().1.options, before);
}

#[test]
fn the_size_limit_of_a_topic_holds_a_segment() {
    let mut log = log_with_stream();
    let options = [("segment_size", "2MiB"), ("max_topic_size", "1MiB")];
    log.fails(with_options("t", 1, &options), ErrorCode::InvalidTopicSize);
    log.fails(with_options("t", 1, &[("max_topic_size", "1000MiB")]), ErrorCode::InvalidTopicSize);
    log.ok(with_options("t", 1, &[("segment_size", "2MiB"), ("max_topic_size", "2MiB")]));
}

#[test]
fn preallocated_segments_have_a_limit_for_the_whole_topic() {
    let mut log = log_with_stream();
    let options = [("preallocate_segments", "true")];
    log.fails(with_options("t", 65, &options), ErrorCode::InvalidOptionValue);
    log.ok(with_options("t", 63, &options));
    log.ok(create_partitions(1));
    log.fails(create_partitions(1), ErrorCode::InvalidPartitionsCount);
}
