//! Several clients at once, over one transport and across both.

use crate::support::{Context, Transport, connect, consumer, id, messages, numbered, offsets, texts};
use iggy::prelude::*;
use std::collections::BTreeMap;

over_both_transports!(one_client_reads_while_another_writes, producers_share_a_partition, many_clients_work_at_once);
over_tcp!(both_transports_show_the_same_data, large_transfers_do_not_hold_up_others);

async fn one_client_reads_while_another_writes(context: &Context) {
    context.create("s", "t", 1).await;
    let writer = context.another().await;
    let write = async {
        for number in 0..200 {
            let mut batch = messages(numbered(number * 5, 5));
            let target = Partitioning::partition_id(0);
            writer.send_messages(&id("s"), &id("t"), &target, &mut batch).await.expect("send");
        }
    };
    let read = async {
        let mut seen = 0;
        while seen < 1_000 {
            let polled = context
                .client
                .poll_messages(&id("s"), &id("t"), Some(0), &consumer(1), &PollingStrategy::next(), 50, true)
                .await
                .expect("poll");
            let expected: Vec<u64> = (seen..seen + u64::from(polled.count)).collect();
            assert_eq!(offsets(&polled), expected);
            assert_eq!(texts(&polled), numbered(seen as usize, polled.count as usize));
            seen += u64::from(polled.count);
        }
    };
    tokio::join!(write, read);
}

async fn producers_share_a_partition(context: &Context) {
    const PRODUCERS: u64 = 6;
    const BATCHES: u64 = 30;
    context.create("s", "t", 1).await;
    let mut producers = tokio::task::JoinSet::new();
    for producer in 0..PRODUCERS {
        let client = connect(&context.server, context.transport).await;
        producers.spawn(async move {
            for batch in 0..BATCHES {
                let mut two = messages([format!("{producer} {}", batch * 2), format!("{producer} {}", batch * 2 + 1)]);
                let sent = client
                    .send_messages(&id("s"), &id("t"), &Partitioning::partition_id(0), &mut two)
                    .await
                    .expect("send");
                assert_eq!(sent.confirmations.len(), 1);
            }
        });
    }
    while let Some(done) = producers.join_next().await {
        done.expect("no producer fails");
    }
    let polled = context.poll("s", "t", 0, PollingStrategy::first(), 10_000).await;
    assert_eq!(offsets(&polled), (0..PRODUCERS * BATCHES * 2).collect::<Vec<_>>());
    let mut next: BTreeMap<String, u64> = BTreeMap::new();
    for text in texts(&polled) {
        let (producer, number) = text.split_once(' ').expect("two words");
        let expected = next.entry(producer.to_owned()).or_default();
        assert_eq!(number, expected.to_string(), "producer {producer} keeps its order, nothing is missing or doubled");
        *expected += 1;
    }
}

async fn many_clients_work_at_once(context: &Context) {
    const CLIENTS: usize = 24;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(context.another().await);
    }
    let mut work = tokio::task::JoinSet::new();
    for (number, client) in clients.into_iter().enumerate() {
        work.spawn(async move {
            let name = format!("stream {number}");
            client.create_stream(&name).await.expect("create stream");
            client.create_topic(&id(&name), "t", &TopicCreateOptions::default()).await.expect("create topic");
            for batch in 0..10 {
                let mut batch = messages(numbered(batch * 3, 3));
                client
                    .send_messages(&id(&name), &id("t"), &Partitioning::partition_id(0), &mut batch)
                    .await
                    .expect("send");
            }
            let polled = client
                .poll_messages(&id(&name), &id("t"), Some(0), &consumer(1), &PollingStrategy::first(), 100, true)
                .await
                .expect("poll");
            assert_eq!(texts(&polled), numbered(0, 30));
            client
        });
    }
    let mut still_connected = Vec::new();
    while let Some(done) = work.join_next().await {
        still_connected.push(done.expect("no client fails"));
    }
    let stats = context.client.get_stats().await.expect("stats");
    assert_eq!((stats.streams_count, stats.topics_count, stats.messages_count), (24, 24, 720));
    if context.transport == Transport::Tcp {
        assert_eq!(stats.clients_count as usize, CLIENTS + 1);
    }
    drop(still_connected);
}

async fn both_transports_show_the_same_data(context: &Context) {
    let over_http = connect(&context.server, Transport::Http).await;
    let mut header = BTreeMap::new();
    header.insert(HeaderKey::try_from("k").expect("key"), HeaderValue::try_from("v").expect("value"));
    context.create("s", "t", 1).await;
    let one =
        IggyMessage::builder().id(u128::MAX - 1).payload("tcp".into()).user_headers(header).build().expect("legal");
    context.send("s", "t", 0, &mut [one]).await;
    let mut two = messages(["http"]);
    over_http.send_messages(&id("s"), &id("t"), &Partitioning::partition_id(0), &mut two).await.expect("send");
    over_http.store_consumer_offset(&consumer(3), &id("s"), &id("t"), Some(0), 1).await.expect("store");

    let by_tcp = context.poll("s", "t", 0, PollingStrategy::first(), 10).await;
    let by_http = over_http
        .poll_messages(&id("s"), &id("t"), Some(0), &consumer(1), &PollingStrategy::first(), 10, false)
        .await
        .expect("poll");
    assert_eq!(texts(&by_tcp), ["tcp", "http"]);
    for (tcp, http) in by_tcp.messages.iter().zip(&by_http.messages) {
        assert_eq!((&tcp.header, &tcp.payload), (&http.header, &http.payload));
        let headers =
            |message: &IggyMessage| message.user_headers_map().expect("well-formed headers").unwrap_or_default();
        assert_eq!(headers(tcp), headers(http));
    }
    assert_eq!(by_http.messages.len(), 2);
    let stored =
        context.client.get_consumer_offset(&consumer(3), &id("s"), &id("t"), Some(0)).await.expect("get offset");
    assert_eq!(stored.expect("stored over HTTP").stored_offset, 1);
}

async fn large_transfers_do_not_hold_up_others(context: &Context) {
    context.create("s", "large", 1).await;
    context.create_topic("s", "small", 1).await;
    let payload = vec![7; 8 << 20];
    let heavy = connect(&context.server, Transport::Tcp).await;
    let large = async {
        for _ in 0..6 {
            let mut message = messages([&payload]);
            heavy
                .send_messages(&id("s"), &id("large"), &Partitioning::partition_id(0), &mut message)
                .await
                .expect("send");
            let polled = heavy
                .poll_messages(&id("s"), &id("large"), Some(0), &consumer(1), &PollingStrategy::last(), 1, false)
                .await
                .expect("poll");
            assert_eq!(polled.messages[0].payload.len(), payload.len());
        }
    };
    let small = async {
        for number in 0..100 {
            let mut message = messages(["x"]);
            let sent = context.send("s", "small", 0, &mut message);
            let offset = tokio::time::timeout(std::time::Duration::from_secs(5), sent).await;
            assert_eq!(offset.expect("a small send waits at most 5 s behind large ones"), number);
        }
    };
    tokio::join!(large, small);
}
