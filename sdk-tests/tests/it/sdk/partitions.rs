//! Add and remove partitions.

use crate::support::{Context, assert_code, id, message, messages, numbered};
use iggy::prelude::*;

over_both_transports!(adds_and_removes_partitions, refuses_impossible_counts, forgets_removed_partitions);

async fn count(context: &Context) -> Vec<u32> {
    let topic = context.client.get_topic(&id("s"), &id("t")).await.expect("get").expect("exists");
    assert_eq!(topic.partitions_count as usize, topic.partitions.len());
    topic.partitions.iter().map(|partition| partition.id).collect()
}

async fn adds_and_removes_partitions(context: &Context) {
    context.create("s", "t", 2).await;
    context.client.create_partitions(&id("s"), &id("t"), 3).await.expect("create partitions");
    assert_eq!(count(context).await, [0, 1, 2, 3, 4]);
    context.send("s", "t", 4, &mut messages(numbered(0, 3))).await;
    assert_eq!(context.poll("s", "t", 4, PollingStrategy::first(), 10).await.count, 3);
    context.client.delete_partitions(&id("s"), &id("t"), 4).await.expect("delete partitions");
    assert_eq!(count(context).await, [0]);
}

async fn refuses_impossible_counts(context: &Context) {
    context.create("s", "t", 2).await;
    assert_code(context.client.create_partitions(&id("s"), &id("t"), 1001).await, &[2015]);
    assert_code(context.client.create_partitions(&id("s"), &id("t"), 0).await, &[2015]);
    assert_code(context.client.delete_partitions(&id("s"), &id("t"), 0).await, &[2015]);
    assert_code(context.client.delete_partitions(&id("s"), &id("t"), 3).await, &[2019]);
    assert_code(context.client.create_partitions(&id("s"), &id("missing"), 1).await, &[2010]);
    assert_code(context.client.delete_partitions(&id("missing"), &id("t"), 1).await, &[1009]);
    assert_eq!(count(context).await, [0, 1]);
}

async fn forgets_removed_partitions(context: &Context) {
    context.create("s", "t", 2).await;
    context.send("s", "t", 1, &mut messages(numbered(0, 3))).await;
    context.client.delete_partitions(&id("s"), &id("t"), 1).await.expect("delete partitions");
    let target = Partitioning::partition_id(1);
    let send = context.client.send_messages(&id("s"), &id("t"), &target, &mut [message(b"x")]).await;
    assert_code(send, &[20, 3007]);
    let poll = context
        .client
        .poll_messages(&id("s"), &id("t"), Some(1), &crate::support::consumer(1), &PollingStrategy::first(), 1, false)
        .await;
    assert_code(poll, &[3007]);
    context.client.create_partitions(&id("s"), &id("t"), 1).await.expect("create partitions");
    let polled = context.poll("s", "t", 1, PollingStrategy::first(), 10).await;
    assert_eq!((polled.count, polled.current_offset), (0, 0), "a number used again brings no old messages");
    assert_eq!(context.send("s", "t", 1, &mut messages(["new"])).await, 0);
}
