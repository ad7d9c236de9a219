//! Stored positions of plain consumers.

use crate::support::{Context, assert_code, consumer, id, messages, numbered};
use iggy::prelude::*;

over_both_transports!(
    stores_reads_and_deletes_positions,
    refuses_positions_beyond_the_end,
    uses_partition_zero_by_default,
    purging_forgets_positions,
    positions_follow_the_life_of_the_topic,
);

async fn stored(context: &Context, consumer: &Consumer, partition: Option<u32>) -> Option<u64> {
    let found = context.client.get_consumer_offset(consumer, &id("s"), &id("t"), partition).await.expect("get offset");
    found.map(|found| found.stored_offset)
}

async fn store(context: &Context, consumer: &Consumer, partition: Option<u32>, offset: u64) -> Result<(), IggyError> {
    context.client.store_consumer_offset(consumer, &id("s"), &id("t"), partition, offset).await
}

async fn delete(context: &Context, consumer: &Consumer, partition: Option<u32>) -> Result<(), IggyError> {
    context.client.delete_consumer_offset(consumer, &id("s"), &id("t"), partition).await
}

async fn ten_messages(context: &Context) {
    context.create("s", "t", 2).await;
    context.send("s", "t", 0, &mut messages(numbered(0, 10))).await;
    context.send("s", "t", 1, &mut messages(numbered(0, 10))).await;
}

async fn stores_reads_and_deletes_positions(context: &Context) {
    ten_messages(context).await;
    for me in [consumer(1), Consumer::new(id("billing"))] {
        assert_eq!(stored(context, &me, Some(1)).await, None);
        store(context, &me, Some(1), 4).await.expect("store");
        assert_eq!(stored(context, &me, Some(1)).await, Some(4));
        assert_eq!(stored(context, &me, Some(0)).await, None, "every partition has its own position");
        store(context, &me, Some(1), 9).await.expect("the last message");
        store(context, &me, Some(1), 2).await.expect("an explicit store may go back");
        assert_eq!(stored(context, &me, Some(1)).await, Some(2));
        let info =
            context.client.get_consumer_offset(&me, &id("s"), &id("t"), Some(1)).await.expect("get").expect("stored");
        assert_eq!((info.partition_id, info.current_offset), (1, 9));
        delete(context, &me, Some(1)).await.expect("delete");
        assert_eq!(stored(context, &me, Some(1)).await, None);
        assert_code(delete(context, &me, Some(1)).await, &[3021]);
    }
}

async fn refuses_positions_beyond_the_end(context: &Context) {
    ten_messages(context).await;
    context.create_topic("s", "empty", 1).await;
    for beyond in [10, 11, u64::MAX] {
        assert_code(store(context, &consumer(1), Some(0), beyond).await, &[4100]);
    }
    assert_eq!(stored(context, &consumer(1), Some(0)).await, None);
    let on_empty = context.client.store_consumer_offset(&consumer(1), &id("s"), &id("empty"), Some(0), 0).await;
    assert_code(on_empty, &[4100]);
    assert_code(store(context, &consumer(1), Some(5), 0).await, &[3007]);
    let missing = context.client.store_consumer_offset(&consumer(1), &id("s"), &id("missing"), Some(0), 0).await;
    assert_code(missing, &[2010]);
}

async fn uses_partition_zero_by_default(context: &Context) {
    ten_messages(context).await;
    store(context, &consumer(1), None, 3).await.expect("store");
    assert_eq!(stored(context, &consumer(1), Some(0)).await, Some(3));
    assert_eq!(stored(context, &consumer(1), None).await, Some(3));
    assert_eq!(stored(context, &consumer(1), Some(1)).await, None);
    delete(context, &consumer(1), None).await.expect("delete");
    assert_eq!(stored(context, &consumer(1), Some(0)).await, None);
}

async fn purging_forgets_positions(context: &Context) {
    ten_messages(context).await;
    store(context, &consumer(1), Some(0), 9).await.expect("store");
    store(context, &consumer(2), Some(1), 5).await.expect("store");
    context.client.purge_topic(&id("s"), &id("t")).await.expect("purge");
    assert_eq!(stored(context, &consumer(1), Some(0)).await, None);
    assert_eq!(stored(context, &consumer(2), Some(1)).await, None);
    assert_code(store(context, &consumer(1), Some(0), 0).await, &[4100]);
    context.send("s", "t", 0, &mut messages(numbered(0, 3))).await;
    let polled = context
        .client
        .poll_messages(&id("s"), &id("t"), Some(0), &consumer(1), &PollingStrategy::next(), 10, true)
        .await
        .expect("poll");
    assert_eq!(polled.count, 3, "reading starts at the first new message");
    assert_eq!(stored(context, &consumer(1), Some(0)).await, Some(2));
}

async fn positions_follow_the_life_of_the_topic(context: &Context) {
    ten_messages(context).await;
    store(context, &consumer(1), Some(0), 9).await.expect("store");
    context.client.delete_topic(&id("s"), &id("t")).await.expect("delete topic");
    context.create_topic("s", "t", 2).await;
    assert_eq!(
        stored(context, &consumer(1), Some(0)).await,
        None,
        "a new topic of the same name starts without positions"
    );
    context.send("s", "t", 0, &mut messages(numbered(0, 3))).await;
    let polled = context
        .client
        .poll_messages(&id("s"), &id("t"), Some(0), &consumer(1), &PollingStrategy::next(), 10, false)
        .await
        .expect("poll");
    assert_eq!(polled.count, 3);
}
