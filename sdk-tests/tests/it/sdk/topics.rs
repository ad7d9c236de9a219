//! Create, list, change, purge and delete topics, and their options.

use crate::support::{Context, assert_code, id, messages, numbered};
use iggy::prelude::*;
use std::collections::BTreeMap;
use std::str::FromStr;

over_both_transports!(
    creates_topics_with_defaults,
    keeps_chosen_options,
    refuses_impossible_topics,
    lists_and_finds_topics,
    updates_only_what_is_given,
    deletes_topics,
    purges_topics,
);

/// The value of an option as text, and whether the client chose it.
#[track_caller]
fn option(options: &ResourceOptions, key: &str) -> (String, bool) {
    let key = HeaderKey::try_from(key).expect("option keys are short");
    let option = options.get(&key).unwrap_or_else(|| panic!("no option {key} in {options:?}"));
    (option.value.to_string_value(), option.explicit)
}

fn with_raw(key: &str, value: &str) -> TopicCreateOptions {
    TopicCreateOptions { raw: BTreeMap::from([(key.to_owned(), value.to_owned())]), ..TopicCreateOptions::default() }
}

async fn creates_topics_with_defaults(context: &Context) {
    context.client.create_stream("s").await.expect("create stream");
    let created = context.create_topic("s", "t", 3).await;
    let read = context.client.get_topic(&id("s"), &id("t")).await.expect("get").expect("exists");
    for topic in [created, read] {
        assert_eq!((topic.id, topic.name.as_str(), topic.partitions_count), (0, "t", 3));
        assert_eq!((topic.messages_count, topic.size.as_bytes_u64()), (0, 0));
        assert_eq!(topic.message_expiry, IggyExpiry::NeverExpire);
        assert_eq!(topic.max_topic_size, MaxTopicSize::Unlimited);
        assert_eq!(topic.compression_algorithm, CompressionAlgorithm::None);
        let partitions: Vec<_> = topic
            .partitions
            .iter()
            .map(|it| (it.id, it.segments_count, it.current_offset, it.size.as_bytes_u64(), it.messages_count))
            .collect();
        assert_eq!(partitions, [(0, 1, 0, 0, 0), (1, 1, 0, 0, 0), (2, 1, 0, 0, 0)]);
        assert_eq!(option(&topic.options, "durability").0, "replicated");
        assert_eq!(option(&topic.options, "consumer_offset_durability").0, "replicated");
        assert_eq!(option(&topic.options, "segment_size"), ("1073741824".to_owned(), false));
        assert_eq!(option(&topic.options, "messages_required_to_save"), ("1024".to_owned(), false));
        assert_eq!(option(&topic.options, "preallocate_segments"), ("false".to_owned(), false));
    }
}

async fn keeps_chosen_options(context: &Context) {
    context.client.create_stream("s").await.expect("create stream");
    let hour = IggyDuration::from_str("1h").expect("a duration");
    let options = TopicCreateOptions {
        partitions_count: Some(2),
        compression_algorithm: Some(CompressionAlgorithm::Gzip),
        message_expiry: Some(IggyExpiry::ExpireDuration(hour)),
        max_topic_size: Some(MaxTopicSize::Custom(IggyByteSize::from(64 << 20))),
        segment_size: Some(IggyByteSize::from(1 << 20)),
        durability: Durability::Persisted,
        consumer_offset_durability: Durability::Persisted,
        messages_required_to_save: Some(32),
        size_of_messages_required_to_save: Some(IggyByteSize::from(4096)),
        preallocate_segments: Some(true),
        raw: BTreeMap::new(),
    };
    context.client.create_topic(&id("s"), "t", &options).await.expect("create topic");
    let topic = context.client.get_topic(&id("s"), &id("t")).await.expect("get").expect("exists");
    assert_eq!(topic.message_expiry, IggyExpiry::ExpireDuration(hour));
    assert_eq!(topic.max_topic_size, MaxTopicSize::Custom(IggyByteSize::from(64 << 20)));
    assert_eq!(topic.compression_algorithm, CompressionAlgorithm::Gzip);
    let expected = [
        ("compression_algorithm", "gzip"),
        ("consumer_offset_durability", "persisted"),
        ("durability", "persisted"),
        ("max_topic_size", "67108864"),
        ("message_expiry", "3600000000"),
        ("messages_required_to_save", "32"),
        ("preallocate_segments", "true"),
        ("segment_size", "1048576"),
        ("size_of_messages_required_to_save", "4096"),
    ];
    for (key, value) in expected {
        assert_eq!(option(&topic.options, key), (value.to_owned(), true), "{key}");
    }
    context.send("s", "t", 1, &mut messages(["one"])).await;
    assert_eq!(context.poll("s", "t", 1, PollingStrategy::first(), 5).await.count, 1);

    let text = context.client.create_topic(&id("s"), "texts", &with_raw("segment_size", "2 MiB")).await;
    text.expect("options may be given as texts");
    let topic = context.client.get_topic(&id("s"), &id("texts")).await.expect("get").expect("exists");
    assert_eq!(option(&topic.options, "segment_size"), ("2097152".to_owned(), true));
}

async fn refuses_impossible_topics(context: &Context) {
    context.client.create_stream("s").await.expect("create stream");
    let create = async |name: &str, options: TopicCreateOptions| {
        context.client.create_topic(&id("s"), name, &options).await.map(drop)
    };
    create("t", TopicCreateOptions::default()).await.expect("create topic");
    assert_code(create("t", TopicCreateOptions::default()).await, &[2013]);
    let too_many = TopicCreateOptions { partitions_count: Some(1001), ..TopicCreateOptions::default() };
    assert_code(create("x", too_many).await, &[2015]);
    assert_code(create("x", with_raw("enforce_fsync", "true")).await, &[4041]);
    assert_code(create("x", with_raw("segment_size", "1000")).await, &[4042]);
    assert_code(create("x", with_raw("durability", "sometimes")).await, &[4042]);
    let capped = TopicCreateOptions {
        max_topic_size: Some(MaxTopicSize::Custom(IggyByteSize::from(1 << 20))),
        segment_size: Some(IggyByteSize::from(2 << 20)),
        ..TopicCreateOptions::default()
    };
    assert_code(create("x", capped).await, &[1019]);
    let missing = context.client.create_topic(&id("missing"), "t", &TopicCreateOptions::default()).await;
    assert_code(missing, &[1009]);
    assert_eq!(context.client.get_topics(&id("s")).await.expect("list").len(), 1, "nothing else was created");
    let none = TopicCreateOptions { partitions_count: Some(0), ..TopicCreateOptions::default() };
    create("empty", none).await.expect("a topic may start without partitions");
    let empty = context.client.get_topic(&id("s"), &id("empty")).await.expect("get").expect("exists");
    assert_eq!((empty.partitions_count, empty.partitions.len()), (0, 0));
}

async fn lists_and_finds_topics(context: &Context) {
    context.create("s", "t0", 1).await;
    context.create_topic("s", "t1", 2).await;
    context.send("s", "t1", 1, &mut messages(numbered(0, 6))).await;
    let listed = context.client.get_topics(&id("s")).await.expect("list");
    let listed: Vec<_> =
        listed.iter().map(|it| (it.id, it.name.as_str(), it.partitions_count, it.messages_count)).collect();
    assert_eq!(listed, [(0, "t0", 1, 0), (1, "t1", 2, 6)]);
    let (stream, topic) = (Identifier::numeric(0).expect("number"), Identifier::numeric(1).expect("number"));
    let topic = context.client.get_topic(&stream, &topic).await.expect("get").expect("exists");
    assert_eq!((topic.name.as_str(), topic.messages_count), ("t1", 6));
    let second = &topic.partitions[1];
    assert_eq!((second.messages_count, second.current_offset, second.segments_count), (6, 5, 1));
    assert_eq!(second.size, topic.size);
    assert_eq!((topic.partitions[0].messages_count, topic.partitions[0].current_offset), (0, 0));
    assert!(context.client.get_topic(&id("s"), &id("t2")).await.expect("get").is_none());
    assert!(context.client.get_topic(&id("missing"), &id("t0")).await.expect("get").is_none());
}

async fn updates_only_what_is_given(context: &Context) {
    context.client.create_stream("s").await.expect("create stream");
    context.client.create_topic(&id("s"), "t", &with_raw("segment_size", "1MiB")).await.expect("create topic");
    context.create_topic("s", "other", 1).await;
    let day = IggyDuration::from_str("1day").expect("a duration");
    let expiry =
        TopicUpdateOptions { message_expiry: Some(IggyExpiry::ExpireDuration(day)), ..TopicUpdateOptions::default() };
    context.client.update_topic(&id("s"), &id("t"), "renamed", &expiry).await.expect("update");
    assert!(context.client.get_topic(&id("s"), &id("t")).await.expect("get").is_none());
    let topic = context.client.get_topic(&id("s"), &id("renamed")).await.expect("get").expect("exists");
    assert_eq!((topic.id, topic.message_expiry), (0, IggyExpiry::ExpireDuration(day)));
    assert_eq!(topic.max_topic_size, MaxTopicSize::Unlimited, "what was not given stays");
    assert_eq!(option(&topic.options, "segment_size"), ("1048576".to_owned(), true));

    let none = TopicUpdateOptions::default();
    context.client.update_topic(&id("s"), &id("renamed"), "renamed", &none).await.expect("the same name again");
    assert_code(context.client.update_topic(&id("s"), &id("renamed"), "other", &none).await, &[2013]);
    assert_code(context.client.update_topic(&id("s"), &id("t"), "x", &none).await, &[2010]);
    let fixed = TopicUpdateOptions {
        raw: BTreeMap::from([("segment_size".to_owned(), "2MiB".to_owned())]),
        ..TopicUpdateOptions::default()
    };
    assert_code(context.client.update_topic(&id("s"), &id("renamed"), "renamed", &fixed).await, &[4041]);
}

async fn deletes_topics(context: &Context) {
    context.create("s", "a", 1).await;
    context.create_topic("s", "b", 1).await;
    context.send("s", "a", 0, &mut messages(numbered(0, 5))).await;
    context.client.delete_topic(&id("s"), &id("a")).await.expect("delete");
    assert!(context.client.get_topic(&id("s"), &id("a")).await.expect("get").is_none());
    assert_code(context.client.delete_topic(&id("s"), &id("a")).await, &[2010]);
    assert_code(context.client.delete_topic(&id("missing"), &id("b")).await, &[1009]);
    let again = context.create_topic("s", "a", 1).await;
    assert_eq!(again.id, 0, "the lowest free number is used again");
    assert_eq!(context.poll("s", "a", 0, PollingStrategy::first(), 10).await.count, 0, "without the old messages");
    assert_eq!(context.send("s", "a", 0, &mut messages(["x"])).await, 0);
}

async fn purges_topics(context: &Context) {
    context.create("s", "a", 2).await;
    context.create_topic("s", "b", 1).await;
    for (topic, partition) in [("a", 0), ("a", 1), ("b", 0)] {
        context.send("s", topic, partition, &mut messages(numbered(0, 5))).await;
    }
    context.client.purge_topic(&id("s"), &id("a")).await.expect("purge");
    let topic = context.client.get_topic(&id("s"), &id("a")).await.expect("get").expect("the topic stays");
    assert_eq!((topic.messages_count, topic.size.as_bytes_u64(), topic.partitions_count), (0, 0, 2));
    let partitions: Vec<_> = topic.partitions.iter().map(|it| (it.current_offset, it.messages_count)).collect();
    assert_eq!(partitions, [(0, 0), (0, 0)]);
    for partition in [0, 1] {
        assert_eq!(context.poll("s", "a", partition, PollingStrategy::first(), 10).await.count, 0);
        assert_eq!(context.send("s", "a", partition, &mut messages(["x"])).await, 0, "offsets start again");
    }
    let stream = context.client.get_stream(&id("s")).await.expect("get").expect("exists");
    assert_eq!(stream.messages_count, 7, "the other topic keeps its five, the purged one has two new ones");
    assert_code(context.client.purge_topic(&id("s"), &id("missing")).await, &[2010]);
}
