//! Sending: ids, headers, payload sizes, batch sizes and the choice of the partition.

use crate::support::{Context, Transport, assert_code, consumer, id, message, messages, numbered, offsets, texts};
use iggy::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use whippet_sdk_tests::random::Random;

over_both_transports!(
    keeps_payloads_of_every_size,
    keeps_batches_of_every_size,
    keeps_ids_and_makes_missing_ones,
    keeps_headers_of_every_kind,
    stamps_messages,
    spreads_balanced_messages,
    sends_equal_keys_to_one_partition,
    refuses_unknown_targets,
    cuts_nothing_at_the_largest_header_block,
);
over_tcp!(keeps_the_largest_legal_payload);

async fn keeps_payloads_of_every_size(context: &Context) {
    context.create("s", "t", 1).await;
    let mut sizes = vec![1, 2, 255, 256, 1024, 4095, 4096, 4097, 65_536, 1 << 20];
    if context.transport == Transport::Tcp {
        // Over HTTP the body limit of 2 MB, base64 included, comes first.
        sizes.push(4_000_000);
    }
    let mut random = Random::new(1);
    let payloads: Vec<Vec<u8>> = sizes.iter().map(|&size| random.bytes(size)).collect();
    for (offset, payload) in payloads.iter().enumerate() {
        assert_eq!(context.send("s", "t", 0, &mut [message(payload)]).await, offset as u64);
    }
    for (offset, payload) in payloads.iter().enumerate() {
        let polled = context.poll("s", "t", 0, PollingStrategy::offset(offset as u64), 1).await;
        assert_eq!(offsets(&polled), [offset as u64]);
        assert!(polled.messages[0].payload == payload[..], "payload of {} bytes came back changed", payload.len());
    }
    let all = context.poll("s", "t", 0, PollingStrategy::first(), 100).await;
    assert_eq!(all.count as usize, payloads.len());
    if context.transport == Transport::Http {
        let send = context
            .client
            .send_messages(&id("s"), &id("t"), &Partitioning::partition_id(0), &mut [message(&random.bytes(2_500_000))])
            .await;
        assert!(matches!(&send, Err(IggyError::HttpResponseError(413, _))), "{send:?}");
    }
    assert!(IggyMessage::builder().payload(Vec::new().into()).build().is_err(), "the SDK refuses empty payloads");
}

async fn keeps_the_largest_legal_payload(context: &Context) {
    context.create("s", "t", 1).await;
    let payload = Random::new(2).bytes(MAX_PAYLOAD_SIZE as usize);
    assert_eq!(context.send("s", "t", 0, &mut [message(&payload)]).await, 0);
    let polled = context.poll("s", "t", 0, PollingStrategy::first(), 1).await;
    assert!(polled.messages[0].payload == payload[..], "64 MB came back changed");
    assert_eq!(context.send("s", "t", 0, &mut [message(b"after")]).await, 1);
}

async fn keeps_batches_of_every_size(context: &Context) {
    context.create("s", "t", 1).await;
    let mut next = 0;
    for size in [1usize, 1_000, 10_000] {
        let base = context.send("s", "t", 0, &mut messages(numbered(next, size))).await;
        assert_eq!(base, next as u64, "the batch of {size} starts where the last one ended");
        let polled = context.poll("s", "t", 0, PollingStrategy::offset(base), 20_000).await;
        assert_eq!(polled.count as usize, size);
        assert_eq!(offsets(&polled), (base..base + size as u64).collect::<Vec<_>>());
        assert!(texts(&polled) == numbered(next, size), "the batch of {size} came back changed");
        next += size;
    }
    let topic = context.client.get_topic(&id("s"), &id("t")).await.expect("get").expect("exists");
    assert_eq!(topic.messages_count, 11_001);
    assert_eq!(topic.partitions[0].current_offset, 11_000);
    let none = context.client.send_messages(&id("s"), &id("t"), &Partitioning::partition_id(0), &mut []).await;
    assert!(none.is_err(), "an empty batch is refused");
}

async fn keeps_ids_and_makes_missing_ones(context: &Context) {
    context.create("s", "t", 1).await;
    // The SDK's HTTP client cannot write ids above 64 bits.
    let largest = if context.transport == Transport::Tcp { u128::MAX } else { u128::from(u64::MAX) };
    let given = [1, 42, u128::from(u64::MAX) - 1, largest, 42];
    let mut sent: Vec<IggyMessage> =
        given.iter().map(|&id| IggyMessage::builder().id(id).payload("x".into()).build().expect("legal")).collect();
    sent.extend(messages(["without id", "without id"]));
    context.send("s", "t", 0, &mut sent).await;
    let polled = context.poll("s", "t", 0, PollingStrategy::first(), 100).await;
    let ids: Vec<u128> = polled.messages.iter().map(|message| message.header.id).collect();
    assert_eq!(ids[..given.len()], given, "given ids stay, also when one is used twice");
    let made: BTreeSet<u128> = ids[given.len()..].iter().copied().collect();
    assert!(made.len() == 2 && !made.contains(&0), "missing ids are made and differ: {made:?}");
}

async fn keeps_headers_of_every_kind(context: &Context) {
    context.create("s", "t", 1).await;
    let headers: BTreeMap<HeaderKey, HeaderValue> = BTreeMap::from([
        (HeaderKey::try_from("raw").expect("key"), HeaderValue::try_from(&[0u8, 255, 1][..]).expect("value")),
        (HeaderKey::try_from("text").expect("key"), HeaderValue::try_from("häder").expect("value")),
        (HeaderKey::try_from("bool").expect("key"), true.into()),
        (HeaderKey::try_from("i8").expect("key"), i8::MIN.into()),
        (HeaderKey::try_from("i16").expect("key"), i16::MIN.into()),
        (HeaderKey::try_from("i32").expect("key"), i32::MIN.into()),
        (HeaderKey::try_from("i64").expect("key"), i64::MIN.into()),
        (HeaderKey::try_from("i128").expect("key"), i128::MIN.into()),
        (HeaderKey::try_from("u8").expect("key"), u8::MAX.into()),
        (HeaderKey::try_from("u16").expect("key"), u16::MAX.into()),
        (HeaderKey::try_from("u32").expect("key"), u32::MAX.into()),
        (HeaderKey::try_from("u64").expect("key"), u64::MAX.into()),
        (HeaderKey::try_from("u128").expect("key"), u128::MAX.into()),
        (HeaderKey::try_from("f32").expect("key"), f32::MIN_POSITIVE.into()),
        (HeaderKey::try_from("f64").expect("key"), f64::MAX.into()),
        (7u32.into(), HeaderValue::try_from("a key need not be text").expect("value")),
        (
            HeaderKey::try_from("k".repeat(255).as_str()).expect("key"),
            HeaderValue::try_from("v".repeat(255).as_str()).expect("value"),
        ),
    ]);
    let kinds: BTreeSet<u8> = headers.values().map(|value| value.kind().as_code()).collect();
    assert_eq!(kinds, (1..=15).collect(), "every kind of value is sent");
    let with = IggyMessage::builder().payload("with".into()).user_headers(headers.clone()).build().expect("legal");
    context.send("s", "t", 0, &mut [message(b"without"), with]).await;
    let polled = context.poll("s", "t", 0, PollingStrategy::first(), 10).await;
    assert_eq!(texts(&polled), ["without", "with"]);
    let read = |index: usize| polled.messages[index].user_headers_map().expect("headers are well-formed");
    assert!(read(0).is_none_or(|headers| headers.is_empty()));
    assert_eq!(read(1).expect("headers came back"), headers);
}

async fn cuts_nothing_at_the_largest_header_block(context: &Context) {
    context.create("s", "t", 1).await;
    let entry = |number: u32| {
        let key = HeaderKey::try_from(format!("{number:0>100}").as_str()).expect("key");
        (key, HeaderValue::try_from("v".repeat(200).as_str()).expect("value"))
    };
    // 310 bytes an entry on the wire: 322 entries stay below the limit of 100,000 bytes, 323 exceed it.
    let headers: BTreeMap<HeaderKey, HeaderValue> = (0..322).map(entry).collect();
    let large = IggyMessage::builder().payload("x".into()).user_headers(headers.clone()).build().expect("legal");
    context.send("s", "t", 0, &mut [large]).await;
    let polled = context.poll("s", "t", 0, PollingStrategy::first(), 1).await;
    assert_eq!(polled.messages[0].user_headers_map().expect("well-formed").expect("came back"), headers);
    let headers: BTreeMap<HeaderKey, HeaderValue> = (0..323).map(entry).collect();
    assert!(IggyMessage::builder().payload("x".into()).user_headers(headers).build().is_err());
}

async fn stamps_messages(context: &Context) {
    context.create("s", "t", 1).await;
    let mut last = 0;
    for batch in 0..5 {
        let before = IggyTimestamp::now().as_micros();
        context.send("s", "t", 0, &mut messages(numbered(0, 3))).await;
        let after = IggyTimestamp::now().as_micros();
        let polled = context.poll("s", "t", 0, PollingStrategy::offset(batch * 3), 3).await;
        for message in &polled.messages {
            let header = &message.header;
            assert!((before..=after).contains(&header.timestamp), "{} is not in {before}..={after}", header.timestamp);
            assert!(header.origin_timestamp <= after && header.origin_timestamp + 60_000_000 > before);
            assert!(header.timestamp >= last, "append times never go back");
            assert_ne!(header.checksum, 0);
            assert_eq!(header.payload_length as usize, message.payload.len());
            last = header.timestamp;
        }
    }
}

async fn counts(context: &Context) -> Vec<u64> {
    let topic = context.client.get_topic(&id("s"), &id("t")).await.expect("get").expect("exists");
    topic.partitions.iter().map(|partition| partition.messages_count).collect()
}

async fn spreads_balanced_messages(context: &Context) {
    context.create("s", "t", 3).await;
    for number in 0..9 {
        let sent = context
            .client
            .send_messages(&id("s"), &id("t"), &Partitioning::balanced(), &mut messages(numbered(number, 2)))
            .await
            .expect("send");
        assert_eq!(sent.confirmations.len(), 1);
    }
    assert_eq!(counts(context).await, [6, 6, 6], "nine balanced batches of two over three partitions");
}

async fn sends_equal_keys_to_one_partition(context: &Context) {
    context.create("s", "t", 4).await;
    let mut expected = vec![0; 4];
    for number in 0..40u32 {
        let key = format!("customer {}", number % 10);
        // The public rule: XxHash32 with seed 0 of the key bytes, modulo the number of partitions.
        let partition = twox_hash::XxHash32::oneshot(0, key.as_bytes()) % 4;
        expected[partition as usize] += 1;
        let partitioning = Partitioning::messages_key_str(&key).expect("a legal key");
        let sent = context
            .client
            .send_messages(&id("s"), &id("t"), &partitioning, &mut messages([key.as_bytes()]))
            .await
            .expect("send");
        assert_eq!(sent.confirmations[0].partition_id, partition, "{key}");
    }
    assert_eq!(counts(context).await, expected);
}

async fn refuses_unknown_targets(context: &Context) {
    context.create("s", "t", 1).await;
    let send = async |stream: &str, topic: &str, partition: u32| {
        let target = Partitioning::partition_id(partition);
        context.client.send_messages(&id(stream), &id(topic), &target, &mut [message(b"x")]).await.map(drop)
    };
    assert_code(send("missing", "t", 0).await, &[20, 1009]);
    assert_code(send("s", "missing", 0).await, &[20, 2010]);
    assert_code(send("s", "t", 1).await, &[20, 3007]);
    let poll = async |stream: &str, topic: &str, partition: u32| {
        let strategy = PollingStrategy::first();
        context
            .client
            .poll_messages(&id(stream), &id(topic), Some(partition), &consumer(1), &strategy, 1, false)
            .await
            .map(drop)
    };
    assert_code(poll("missing", "t", 0).await, &[1009]);
    assert_code(poll("s", "missing", 0).await, &[2010]);
    assert_code(poll("s", "t", 1).await, &[3007]);
    assert_eq!(counts(context).await, [0]);
}
