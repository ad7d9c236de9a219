//! The SDK's own producer and consumer on top of the plain calls.

use crate::support::{Context, consumer as numbered_consumer, id, messages, numbered};
use futures_util::StreamExt;
use iggy::prelude::*;
use std::time::Duration;

over_both_transports!(the_producer_feeds_the_consumer, the_consumer_goes_on_where_it_stopped);

async fn produce(context: &Context, first: usize, count: usize) {
    let producer = context
        .client
        .producer("s", "t")
        .expect("valid names")
        .direct(DirectConfig::builder().batch_length(100).build())
        .partitioning(Partitioning::partition_id(0))
        .create_stream_if_not_exists()
        .create_topic_if_not_exists(1, IggyExpiry::NeverExpire, MaxTopicSize::Unlimited)
        .build();
    producer.init().await.expect("the producer makes stream and topic");
    producer.send(messages(numbered(first, count))).await.expect("send");
    producer.shutdown().await;
}

/// Reads `count` messages with a consumer called `name` and asserts that they are the messages from `first` on.
async fn consume(context: &Context, name: &str, first: usize, count: usize) {
    let mut consumer = context
        .client
        .consumer(name, "s", "t", 0)
        .expect("valid names")
        .auto_commit(AutoCommit::When(AutoCommitWhen::PollingMessages))
        .polling_strategy(PollingStrategy::next())
        .batch_length(100)
        .poll_interval(IggyDuration::from(1_000))
        .build();
    consumer.init().await.expect("the consumer finds stream and topic");
    for number in first..first + count {
        let next = tokio::time::timeout(Duration::from_secs(10), consumer.next()).await;
        let received = next.expect("a message within 10 s").expect("the consumer goes on").expect("poll");
        assert_eq!(received.message.header.offset, number as u64);
        assert_eq!(received.message.payload, format!("message {number}").as_bytes());
        assert_eq!(received.partition_id, 0);
    }
    consumer.shutdown().await.expect("shutdown");
}

async fn the_producer_feeds_the_consumer(context: &Context) {
    produce(context, 0, 2_500).await;
    let topic = context.client.get_topic(&id("s"), &id("t")).await.expect("get").expect("exists");
    assert_eq!((topic.messages_count, topic.partitions[0].current_offset), (2_500, 2_499));
    consume(context, "app", 0, 2_500).await;
    let me = Consumer::new(id("app"));
    let stored = context.client.get_consumer_offset(&me, &id("s"), &id("t"), Some(0)).await.expect("get offset");
    assert_eq!(stored.expect("committed while polling").stored_offset, 2_499);
}

async fn the_consumer_goes_on_where_it_stopped(context: &Context) {
    produce(context, 0, 300).await;
    consume(context, "app", 0, 300).await;
    produce(context, 300, 200).await;
    consume(context, "app", 300, 200).await;
    consume(context, "other", 0, 500).await;
    let none =
        context.client.get_consumer_offset(&numbered_consumer(1), &id("s"), &id("t"), Some(0)).await.expect("get");
    assert!(none.is_none());
}
