//! Streams, topics and partitions, as the official clients write and read them.

use crate::node::{Peer, name, no_options, with_node};
use bytes::BufMut;
use bytes::BytesMut;
use whippet_protocol::Command;
use whippet_protocol::wire::responses::streams::{GetStreamResponse, GetStreamsResponse};
use whippet_protocol::wire::responses::topics::get_topic::GetTopicResponse;
use whippet_protocol::wire::{WireDecode, WireIdentifier, WireOptions, requests};

fn id(id: u32) -> WireIdentifier {
    WireIdentifier::Numeric(id)
}

fn named(name: &str) -> WireIdentifier {
    WireIdentifier::named(name).expect("1 to 255 bytes")
}

/// An options block of texts.
fn options(entries: &[(&str, &str)]) -> WireOptions {
    let mut block = BytesMut::new();
    for text in entries.iter().flat_map(|(key, value)| [key, value]) {
        block.put_u8(2);
        block.put_u32_le(text.len() as u32);
        block.put_slice(text.as_bytes());
    }
    WireOptions::from_slice(&block).expect("a valid block")
}

async fn streams(peer: &mut Peer) -> Vec<(u32, String)> {
    let answer = peer.call(Command::GetStreams, &[]).await;
    let response = GetStreamsResponse::decode_from(answer.payload()).expect("readable");
    response.streams.into_iter().map(|stream| (stream.id, stream.name.as_str().to_owned())).collect()
}

async fn topic(peer: &mut Peer, topic_id: WireIdentifier) -> Option<GetTopicResponse> {
    let request = requests::topics::GetTopicRequest { stream_id: id(0), topic_id };
    let answer = peer.ask(Command::GetTopic, &request).await;
    let payload = answer.payload();
    (!payload.is_empty()).then(|| GetTopicResponse::decode_from(payload).expect("readable"))
}

#[test]
fn streams_live_and_die() {
    with_node(async |node| {
        let mut peer = node.peer().await;
        assert_eq!(streams(&mut peer).await, []);
        let created = peer.create_stream("orders").await;
        assert!(created.commit() > peer.session, "a write moves the log on");
        assert_eq!(peer.create_stream("orders").await.code(), 1012);
        assert_eq!(peer.create_stream("events").await.code(), 0);
        let with_options =
            requests::streams::CreateStreamRequest { name: name("x"), options: options(&[("segment_size", "1MiB")]) };
        assert_eq!(peer.ask(Command::CreateStream, &with_options).await.code(), 4041, "streams have no options");

        let rename = requests::streams::UpdateStreamRequest {
            stream_id: named("events"),
            name: name("audit"),
            options: no_options(),
        };
        assert_eq!(peer.ask(Command::UpdateStream, &rename).await.code(), 0);
        assert_eq!(peer.ask(Command::UpdateStream, &rename).await.code(), 1009, "it has another name now");
        assert_eq!(streams(&mut peer).await, [(0, "orders".into()), (1, "audit".into())]);

        assert_eq!(peer.create_topic("t", 3).await.code(), 0);
        let get = requests::streams::GetStreamRequest { stream_id: named("orders") };
        let answer = peer.ask(Command::GetStream, &get).await;
        let found = GetStreamResponse::decode_from(answer.payload()).expect("readable");
        assert_eq!((found.stream.id, found.stream.topics_count, found.topics.len()), (0, 1, 1));
        assert_eq!((found.topics[0].name.as_str(), found.topics[0].partitions_count), ("t", 3));

        let delete = requests::streams::DeleteStreamRequest { stream_id: id(0) };
        assert_eq!(peer.ask(Command::DeleteStream, &delete).await.code(), 0);
        assert_eq!(peer.ask(Command::DeleteStream, &delete).await.code(), 1009);
        assert_eq!(peer.ask(Command::GetStream, &get).await.payload(), b"", "gone means an empty reply");
        assert_eq!(streams(&mut peer).await, [(1, "audit".into())]);
        node
    });
}

#[test]
fn topics_show_their_options_and_partitions() {
    with_node(async |node| {
        let mut peer = node.peer().await;
        peer.create_stream("s").await.payload();
        let create =
            |text: &str, partitions_count: u32, entries: &[(&str, &str)]| requests::topics::CreateTopicRequest {
                stream_id: id(0),
                partitions_count,
                name: name(text),
                options: options(entries),
            };
        let request = create("t", 2, &[("message_expiry", "7 days"), ("durability", "persisted")]);
        let answer = peer.ask(Command::CreateTopic, &request).await;
        let made = GetTopicResponse::decode_from(answer.payload()).expect("readable");
        assert_eq!(made.topic.message_expiry, 7 * 24 * 3600 * 1_000_000);
        assert_eq!(made.topic.max_topic_size, u64::MAX);
        let partitions: Vec<_> = made
            .partitions
            .iter()
            .map(|p| (p.id, p.segments_count, p.current_offset, p.size_bytes, p.messages_count))
            .collect();
        assert_eq!(partitions, [(0, 1, 0, 0, 0), (1, 1, 0, 0, 0)]);
        assert_eq!(topic(&mut peer, named("t")).await.map(|found| found.topic), Some(made.topic));

        assert_eq!(peer.ask(Command::CreateTopic, &request).await.code(), 2013);
        assert_eq!(peer.ask(Command::CreateTopic, &create("u", 1001, &[])).await.code(), 2015);
        assert_eq!(peer.ask(Command::CreateTopic, &create("u", 1, &[("speed", "high")])).await.code(), 4041);
        assert_eq!(peer.ask(Command::CreateTopic, &create("u", 1, &[("durability", "none")])).await.code(), 4042);
        assert_eq!(peer.ask(Command::CreateTopic, &create("u", 0, &[])).await.code(), 0, "no partitions at first");

        let update = requests::topics::UpdateTopicRequest {
            stream_id: id(0),
            topic_id: id(0),
            name: name("t2"),
            options: options(&[("message_expiry", "1 day")]),
        };
        assert_eq!(peer.ask(Command::UpdateTopic, &update).await.code(), 0);
        let found = topic(&mut peer, named("t2")).await.expect("renamed");
        assert_eq!(found.topic.message_expiry, 24 * 3600 * 1_000_000);
        let update =
            requests::topics::UpdateTopicRequest { options: options(&[("durability", "replicated")]), ..update };
        assert_eq!(peer.ask(Command::UpdateTopic, &update).await.code(), 4041, "fixed when it was created");

        let count = |partitions_count: u32| requests::partitions::CreatePartitionsRequest {
            stream_id: id(0),
            topic_id: id(0),
            partitions_count,
        };
        assert_eq!(peer.ask(Command::CreatePartitions, &count(3)).await.code(), 0);
        assert_eq!(peer.ask(Command::CreatePartitions, &count(0)).await.code(), 2015);
        assert_eq!(topic(&mut peer, id(0)).await.expect("there").partitions.len(), 5);
        let fewer = |partitions_count: u32| requests::partitions::DeletePartitionsRequest {
            stream_id: id(0),
            topic_id: id(0),
            partitions_count,
        };
        assert_eq!(peer.ask(Command::DeletePartitions, &fewer(6)).await.code(), 2019);
        assert_eq!(peer.ask(Command::DeletePartitions, &fewer(4)).await.code(), 0);
        assert_eq!(topic(&mut peer, id(0)).await.expect("there").partitions.len(), 1);

        let list = requests::topics::GetTopicsRequest { stream_id: id(0) };
        assert_eq!(peer.ask(Command::GetTopics, &list).await.payload()[..4], 2u32.to_le_bytes());
        let list = requests::topics::GetTopicsRequest { stream_id: id(7) };
        assert_eq!(peer.ask(Command::GetTopics, &list).await.payload(), [0; 4], "a missing stream has no topics");

        let delete = requests::topics::DeleteTopicRequest { stream_id: id(0), topic_id: named("t2") };
        assert_eq!(peer.ask(Command::DeleteTopic, &delete).await.code(), 0);
        assert_eq!(peer.ask(Command::DeleteTopic, &delete).await.code(), 2010);
        assert_eq!(topic(&mut peer, id(0)).await, None);
        node
    });
}

#[test]
fn a_repeated_write_gets_the_reply_of_the_first() {
    with_node(async |node| {
        let mut peer = node.peer().await;
        let first = peer.create_stream("once").await;
        let again = peer.header(128, 0, b"\x04once");
        let second = peer.hand_over(again, b"\x04once").await;
        assert_eq!(second.payload(), first.payload());
        let other = peer.header(128, 0, b"\x05other");
        assert_eq!(peer.hand_over(other, b"\x05other").await.code(), 59, "the number was used for something else");
        assert_eq!(streams(&mut peer).await, [(0, "once".into())]);
        for number in 0..5 {
            peer.create_stream(&format!("s{number}")).await.payload();
        }
        assert_eq!(peer.hand_over(again, b"\x04once").await.code(), 59, "its reply is forgotten, but not that it was");
        node
    });
}
