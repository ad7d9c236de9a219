//! Create, list, rename, purge and delete streams.

use crate::support::{Context, assert_code, id, messages, numbered};
use iggy::prelude::*;

over_both_transports!(
    creates_and_lists_streams,
    finds_streams_by_number_and_by_name,
    refuses_a_used_name,
    renames_streams,
    deletes_streams_and_reuses_their_numbers,
    purges_streams,
    accepts_every_legal_name,
);

async fn creates_and_lists_streams(context: &Context) {
    let before = IggyTimestamp::now().as_micros();
    let first = context.client.create_stream("orders").await.expect("create");
    let second = context.client.create_stream("payments").await.expect("create");
    assert_eq!((first.id, first.name.as_str(), first.topics_count, first.messages_count), (0, "orders", 0, 0));
    assert_eq!((second.id, second.size.as_bytes_u64(), second.topics.len()), (1, 0, 0));
    assert!(first.created_at.as_micros() >= before - 1_000_000 && first.created_at.as_micros() <= before + 10_000_000);
    let listed = context.client.get_streams().await.expect("list");
    let listed: Vec<_> = listed.iter().map(|stream| (stream.id, stream.name.as_str(), stream.topics_count)).collect();
    assert_eq!(listed, [(0, "orders", 0), (1, "payments", 0)]);
}

async fn finds_streams_by_number_and_by_name(context: &Context) {
    context.create("orders", "new", 2).await;
    context.send("orders", "new", 1, &mut messages(numbered(0, 3))).await;
    for key in [id("orders"), Identifier::numeric(0).expect("a number")] {
        let stream = context.client.get_stream(&key).await.expect("get").expect("it exists");
        assert_eq!((stream.id, stream.name.as_str(), stream.topics_count, stream.messages_count), (0, "orders", 1, 3));
        let topic = &stream.topics[0];
        assert_eq!((topic.id, topic.name.as_str(), topic.partitions_count, topic.messages_count), (0, "new", 2, 3));
        assert_eq!(stream.size, topic.size);
    }
    for key in [id("order"), id("Orders"), Identifier::numeric(1).expect("a number")] {
        assert!(context.client.get_stream(&key).await.expect("get").is_none(), "{key:?} does not exist");
    }
}

async fn refuses_a_used_name(context: &Context) {
    context.client.create_stream("orders").await.expect("create");
    assert_code(context.client.create_stream("orders").await, &[1012]);
    context.client.create_stream("Orders").await.expect("names differ by case");
    assert_eq!(context.client.get_streams().await.expect("list").len(), 2);
}

async fn renames_streams(context: &Context) {
    let options = StreamUpdateOptions::default();
    context.client.create_stream("old").await.expect("create");
    context.client.create_stream("other").await.expect("create");
    context.client.update_stream(&id("old"), "new", &options).await.expect("rename");
    assert!(context.client.get_stream(&id("old")).await.expect("get").is_none());
    assert_eq!(context.client.get_stream(&id("new")).await.expect("get").expect("renamed").id, 0);
    context.client.update_stream(&id("new"), "new", &options).await.expect("the same name again");
    assert_code(context.client.update_stream(&id("new"), "other", &options).await, &[1012]);
    assert_code(context.client.update_stream(&id("old"), "x", &options).await, &[1009]);
}

async fn deletes_streams_and_reuses_their_numbers(context: &Context) {
    for name in ["a", "b", "c"] {
        context.create(name, "t", 1).await;
        context.send(name, "t", 0, &mut messages(numbered(0, 2))).await;
    }
    context.client.delete_stream(&id("b")).await.expect("delete");
    assert!(context.client.get_stream(&id("b")).await.expect("get").is_none());
    assert_code(context.client.delete_stream(&id("b")).await, &[1009]);
    let next = context.client.create_stream("d").await.expect("create");
    assert_eq!(next.id, 1, "the lowest free number is used again");
    context.create_topic("d", "t", 1).await;
    let polled = context.poll("d", "t", 0, PollingStrategy::first(), 10).await;
    assert_eq!((polled.count, polled.current_offset), (0, 0), "a number used again brings no old messages");
    assert_eq!(context.poll("c", "t", 0, PollingStrategy::first(), 10).await.count, 2);
}

async fn purges_streams(context: &Context) {
    context.create("s", "t1", 1).await;
    context.create_topic("s", "t2", 2).await;
    context.create("other", "t", 1).await;
    context.send("s", "t1", 0, &mut messages(numbered(0, 4))).await;
    context.send("s", "t2", 1, &mut messages(numbered(0, 4))).await;
    context.send("other", "t", 0, &mut messages(numbered(0, 4))).await;
    context.client.purge_stream(&id("s")).await.expect("purge");
    let stream = context.client.get_stream(&id("s")).await.expect("get").expect("the stream stays");
    assert_eq!((stream.messages_count, stream.size.as_bytes_u64(), stream.topics_count), (0, 0, 2));
    assert_eq!(context.poll("s", "t2", 1, PollingStrategy::first(), 10).await.count, 0);
    assert_eq!(context.send("s", "t1", 0, &mut messages(["x"])).await, 0, "offsets start again");
    let other = context.client.get_stream(&id("other")).await.expect("get").expect("exists");
    assert_eq!(other.messages_count, 4, "other streams are left alone");
    assert_code(context.client.purge_stream(&id("missing")).await, &[1009]);
}

async fn accepts_every_legal_name(context: &Context) {
    let longest = "n".repeat(255);
    for name in [longest.as_str(), "名前", "with space", "1e3", "a.b-c_d"] {
        let created = context.client.create_stream(name).await.expect("create");
        assert_eq!(created.name, name);
        let found = context.client.get_stream(&Identifier::numeric(created.id).expect("number")).await.expect("get");
        assert_eq!(found.expect("exists").name, name);
    }
    assert!(context.client.create_stream(&"n".repeat(256)).await.is_err());
    assert!(context.client.create_stream("").await.is_err());
}
