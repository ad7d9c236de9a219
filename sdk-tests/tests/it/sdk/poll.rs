//! Polling by offset, time, first, last and next, at every edge.

use crate::support::{Context, consumer, id, messages, numbered, offsets, texts};
use iggy::prelude::*;

over_both_transports!(
    polls_by_offset,
    polls_first_and_last,
    polls_by_time,
    polls_next_and_commits,
    keeps_consumers_apart,
    answers_an_empty_partition,
    polls_across_rolled_segments,
);

/// Batches of 10, 20 and 30 messages: offsets 0..60.
async fn three_batches(context: &Context) {
    context.create("s", "t", 2).await;
    for (first, count) in [(0, 10), (10, 20), (30, 30)] {
        assert_eq!(context.send("s", "t", 0, &mut messages(numbered(first, count))).await, first as u64);
    }
}

#[track_caller]
fn assert_range(polled: &PolledMessages, expected: std::ops::Range<u64>) {
    assert_eq!(offsets(polled), expected.clone().collect::<Vec<_>>());
    assert_eq!(polled.count as usize, polled.messages.len());
    let first = usize::try_from(expected.start).expect("test offsets are small");
    assert_eq!(texts(polled), numbered(first, polled.messages.len()));
}

async fn polls_by_offset(context: &Context) {
    three_batches(context).await;
    // (first offset, count, expected range); the batches end at 10, 30 and 60.
    let cases = [
        (0, 60, 0..60),
        (0, 1, 0..1),
        (0, 10, 0..10),
        (0, 11, 0..11),
        (5, 10, 5..15),
        (9, 1, 9..10),
        (9, 2, 9..11),
        (10, 20, 10..30),
        (15, 30, 15..45),
        (29, 3, 29..32),
        (59, 1, 59..60),
        (59, 100, 59..60),
        (3, 1_000, 3..60),
        (0, u32::MAX, 0..60),
    ];
    for (offset, count, expected) in cases {
        let polled = context.poll("s", "t", 0, PollingStrategy::offset(offset), count).await;
        assert_range(&polled, expected);
        assert_eq!((polled.partition_id, polled.current_offset), (0, 59));
    }
    for beyond in [60, 61, 1_000_000, u64::MAX] {
        let polled = context.poll("s", "t", 0, PollingStrategy::offset(beyond), 10).await;
        assert_eq!((polled.count, polled.messages.len(), polled.current_offset), (0, 0, 59), "offset {beyond}");
    }
}

async fn polls_first_and_last(context: &Context) {
    three_batches(context).await;
    for (count, expected) in [(1, 0..1), (15, 0..15), (60, 0..60), (1_000, 0..60)] {
        assert_range(&context.poll("s", "t", 0, PollingStrategy::first(), count).await, expected);
    }
    for (count, expected) in [(1, 59..60), (30, 30..60), (35, 25..60), (60, 0..60), (1_000, 0..60)] {
        assert_range(&context.poll("s", "t", 0, PollingStrategy::last(), count).await, expected);
    }
}

async fn polls_by_time(context: &Context) {
    three_batches(context).await;
    let all = context.poll("s", "t", 0, PollingStrategy::first(), 60).await;
    let at = |offset: usize| all.messages[offset].header.timestamp;
    assert!(at(0) < at(10) && at(10) < at(30), "the batches of this test have different append times");
    let cases = [(1, 0), (at(0), 0), (at(0) + 1, 10), (at(10), 10), (at(10) + 1, 30), (at(30), 30)];
    for (time, first) in cases {
        let polled = context.poll("s", "t", 0, PollingStrategy::timestamp(IggyTimestamp::from(time)), 5).await;
        assert_range(&polled, first..first + 5);
    }
    for future in [at(59) + 1, at(59) + 3_600_000_000] {
        let polled = context.poll("s", "t", 0, PollingStrategy::timestamp(IggyTimestamp::from(future)), 5).await;
        assert_eq!((polled.count, polled.current_offset), (0, 59));
    }
}

async fn next(context: &Context, consumer: &Consumer, count: u32, commit: bool) -> PolledMessages {
    context
        .client
        .poll_messages(&id("s"), &id("t"), Some(0), consumer, &PollingStrategy::next(), count, commit)
        .await
        .expect("poll")
}

async fn polls_next_and_commits(context: &Context) {
    three_batches(context).await;
    let me = consumer(7);
    assert_range(&next(context, &me, 4, false).await, 0..4);
    assert_range(&next(context, &me, 4, false).await, 0..4);
    assert_range(&next(context, &me, 4, true).await, 0..4);
    let stored = async || {
        let stored = context.client.get_consumer_offset(&me, &id("s"), &id("t"), Some(0)).await.expect("get offset");
        stored.map(|stored| (stored.stored_offset, stored.current_offset))
    };
    assert_eq!(stored().await, Some((3, 59)));
    assert_range(&next(context, &me, 30, true).await, 4..34);
    assert_eq!(stored().await, Some((33, 59)));
    assert_range(&next(context, &me, 1_000, true).await, 34..60);
    let end = next(context, &me, 10, true).await;
    assert_eq!((end.count, end.current_offset), (0, 59));
    assert_eq!(stored().await, Some((59, 59)), "an empty poll commits nothing");
    context.send("s", "t", 0, &mut messages(numbered(60, 2))).await;
    assert_range(&next(context, &me, 10, true).await, 60..62);

    let back = context
        .client
        .poll_messages(&id("s"), &id("t"), Some(0), &me, &PollingStrategy::offset(5), 3, true)
        .await
        .expect("poll");
    assert_range(&back, 5..8);
    assert_eq!(stored().await, Some((61, 61)), "committing by a poll never moves the position back");
}

async fn keeps_consumers_apart(context: &Context) {
    three_batches(context).await;
    let named = Consumer::new(id("billing"));
    assert_range(&next(context, &consumer(1), 10, true).await, 0..10);
    assert_range(&next(context, &named, 5, true).await, 0..5);
    assert_range(&next(context, &consumer(2), 3, true).await, 0..3);
    assert_range(&next(context, &named, 5, true).await, 5..10);
    assert_range(&next(context, &consumer(1), 10, true).await, 10..20);
    let other = context
        .client
        .poll_messages(&id("s"), &id("t"), Some(1), &consumer(1), &PollingStrategy::next(), 10, true)
        .await
        .expect("poll");
    assert_eq!((other.partition_id, other.count), (1, 0), "every partition has its own position");
}

async fn answers_an_empty_partition(context: &Context) {
    context.create("s", "t", 2).await;
    let strategies = [
        PollingStrategy::offset(0),
        PollingStrategy::offset(10),
        PollingStrategy::first(),
        PollingStrategy::last(),
        PollingStrategy::next(),
        PollingStrategy::timestamp(IggyTimestamp::now()),
    ];
    for strategy in strategies {
        for commit in [false, true] {
            let polled = context
                .client
                .poll_messages(&id("s"), &id("t"), Some(1), &consumer(1), &strategy, 10, commit)
                .await
                .expect("an empty partition is no error");
            assert_eq!((polled.partition_id, polled.current_offset, polled.count), (1, 0, 0), "{strategy:?}");
        }
    }
    let none = context.client.get_consumer_offset(&consumer(1), &id("s"), &id("t"), Some(1)).await.expect("get offset");
    assert!(none.is_none(), "nothing was committed");
}

async fn polls_across_rolled_segments(context: &Context) {
    context.client.create_stream("s").await.expect("create stream");
    let options =
        TopicCreateOptions { segment_size: Some(IggyByteSize::from(1 << 20)), ..TopicCreateOptions::default() };
    context.client.create_topic(&id("s"), "t", &options).await.expect("create topic");
    let payload = |number: usize| format!("{number:0>10000}");
    for batch in 0..12 {
        let texts: Vec<String> = (batch * 50..(batch + 1) * 50).map(payload).collect();
        assert_eq!(context.send("s", "t", 0, &mut messages(texts)).await, batch as u64 * 50);
    }
    let topic = context.client.get_topic(&id("s"), &id("t")).await.expect("get").expect("exists");
    let segments = topic.partitions[0].segments_count;
    assert!(segments >= 4, "6 MB in segments of 1 MiB are in {segments} segments");
    for first in (0..600).step_by(37) {
        let polled = context.poll("s", "t", 0, PollingStrategy::offset(first), 60).await;
        let expected: Vec<u64> = (first..(first + 60).min(600)).collect();
        assert_eq!(offsets(&polled), expected);
        assert!(texts(&polled).iter().zip(&expected).all(|(text, &offset)| *text == payload(offset as usize)));
    }
    let middle = context.poll("s", "t", 0, PollingStrategy::offset(300), 1).await.messages[0].header.timestamp;
    let polled = context.poll("s", "t", 0, PollingStrategy::timestamp(IggyTimestamp::from(middle)), 3).await;
    assert_eq!(offsets(&polled), [300, 301, 302]);
}
