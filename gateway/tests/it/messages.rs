//! Sends, polls and stored offsets, as the official clients write and read them.

use crate::node::{Answer, Node, Peer, with_node};
use bytes::BytesMut;
use twox_hash::XxHash32;
use whippet_protocol::Command;
use whippet_protocol::batch::{batches, check_stored, messages};
use whippet_protocol::wire::primitives::ack_level::AckLevel;
use whippet_protocol::wire::requests::consumer_offsets::{
    DeleteConsumerOffsetRequest, GetConsumerOffsetRequest, StoreConsumerOffsetRequest,
};
use whippet_protocol::wire::requests::messages::{PollMessagesRequest, RawMessage, SendMessagesEncoder};
use whippet_protocol::wire::responses::consumer_offsets::get_consumer_offset::ConsumerOffsetResponse;
use whippet_protocol::wire::{
    WireConsumer, WireDecode, WireEncode, WireIdentifier, WirePartitioning, WirePollingStrategy, requests,
};

fn id(id: u32) -> WireIdentifier {
    WireIdentifier::Numeric(id)
}

fn named(name: &str) -> WireIdentifier {
    WireIdentifier::named(name).expect("1 to 255 bytes")
}

/// A peer, and topic 0 of stream 0.
async fn prepared(node: &Node, partitions: u32) -> Peer {
    let mut peer = node.peer().await;
    peer.create_stream("stream").await.payload();
    peer.create_topic("topic", partitions).await.payload();
    peer
}

fn batch(topic: &WireIdentifier, partitioning: &WirePartitioning, payloads: &[&str]) -> BytesMut {
    let raw: Vec<RawMessage<'_>> = payloads
        .iter()
        .map(|payload| RawMessage { id: 7, origin_timestamp: 50, headers: None, payload: payload.as_bytes() })
        .collect();
    let mut body = BytesMut::new();
    SendMessagesEncoder::encode(&mut body, &named("stream"), topic, partitioning, &raw).expect("encodes");
    body
}

/// Sends; partition and first offset, or the code of the refusal.
async fn send(peer: &mut Peer, partitioning: WirePartitioning, payloads: &[&str]) -> Result<(u32, u64), i64> {
    let answer = peer.call(Command::SendMessages, &batch(&id(0), &partitioning, payloads)).await;
    if answer.code() != 0 {
        return Err(answer.code());
    }
    let body = answer.payload();
    assert_eq!((body.len(), &body[..12]), (24, &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..]), "one confirmation");
    let partition = u32::from_le_bytes(body[12..16].try_into().expect("four bytes"));
    Ok((partition, u64::from_le_bytes(body[16..].try_into().expect("eight bytes"))))
}

fn poll_of(partition: u32, strategy: WirePollingStrategy, count: u32) -> PollMessagesRequest {
    PollMessagesRequest {
        consumer: WireConsumer::consumer(id(1)),
        stream_id: id(0),
        topic_id: id(0),
        partition_id: Some(partition),
        strategy,
        count,
        auto_commit: false,
    }
}

/// Current offset, offsets and payloads.
fn polled(answer: &Answer) -> (u64, Vec<(u64, String)>) {
    let body = answer.payload();
    for batch in batches(&body[16..]) {
        check_stored(batch).expect("every checksum is right");
    }
    let found: Vec<_> = batches(&body[16..])
        .flat_map(messages)
        .map(|message| {
            assert_eq!((message.id, message.origin_timestamp), (7, 50));
            (message.offset, String::from_utf8(message.payload.to_vec()).expect("text"))
        })
        .collect();
    assert_eq!(body[12..16], (found.len() as u32).to_le_bytes());
    (u64::from_le_bytes(body[4..12].try_into().expect("eight bytes")), found)
}

async fn poll(peer: &mut Peer, request: &PollMessagesRequest) -> Vec<(u64, String)> {
    polled(&peer.ask(Command::PollMessages, request).await).1
}

fn expected(from: u64, texts: &[&str]) -> Vec<(u64, String)> {
    (from..).zip(texts.iter().map(|text| (*text).to_owned())).collect()
}

#[test]
fn every_strategy_finds_its_messages() {
    with_node(async |node| {
        let mut peer = prepared(&node, 1).await;
        let here = WirePartitioning::PartitionId(0);
        assert_eq!(send(&mut peer, here.clone(), &["a", "b", "c"]).await, Ok((0, 0)));
        assert_eq!(send(&mut peer, here, &["d", "e"]).await, Ok((0, 3)));
        let all = ["a", "b", "c", "d", "e"];
        let answer = peer.ask(Command::PollMessages, &poll_of(0, WirePollingStrategy::first(), 100)).await;
        assert_eq!(polled(&answer), (4, expected(0, &all)));
        let table = [
            (WirePollingStrategy::offset(1), 3, expected(1, &all[1..4])),
            (WirePollingStrategy::offset(5), 3, vec![]),
            (WirePollingStrategy::offset(u64::MAX), 3, vec![]),
            (WirePollingStrategy::last(), 2, expected(3, &all[3..])),
            (WirePollingStrategy::timestamp(0), 1, expected(0, &all[..1])),
            (WirePollingStrategy::timestamp(u64::MAX), 1, vec![]),
            (WirePollingStrategy::next(), 2, expected(0, &all[..2])),
        ];
        for (strategy, count, found) in table {
            assert_eq!(poll(&mut peer, &poll_of(0, strategy.clone(), count)).await, found, "{strategy:?}");
        }
        // On the primary: here, where else.
        let answer = peer.ask(Command::PollMessagesOnPrimary, &poll_of(0, WirePollingStrategy::offset(4), 9)).await;
        assert_eq!(polled(&answer).1, expected(4, &["e"]));
        node
    });
}

#[test]
fn committed_positions_move_on_and_are_kept_by_consumer() {
    with_node(async |node| {
        let mut peer = prepared(&node, 1).await;
        send(&mut peer, WirePartitioning::PartitionId(0), &["a", "b", "c", "d"]).await.expect("stored");
        let next = PollMessagesRequest { auto_commit: true, ..poll_of(0, WirePollingStrategy::next(), 2) };
        assert_eq!(poll(&mut peer, &next).await, expected(0, &["a", "b"]));
        assert_eq!(poll(&mut peer, &next).await, expected(2, &["c", "d"]));
        assert_eq!(poll(&mut peer, &next).await, []);
        let first = PollMessagesRequest { auto_commit: true, ..poll_of(0, WirePollingStrategy::first(), 1) };
        assert_eq!(poll(&mut peer, &first).await, expected(0, &["a"]));
        assert_eq!(poll(&mut peer, &next).await, [], "an automatic commit never goes back");

        let get = |consumer: WireConsumer| GetConsumerOffsetRequest {
            consumer,
            stream_id: id(0),
            topic_id: id(0),
            partition_id: None,
        };
        let answer = peer.ask(Command::GetConsumerOffset, &get(WireConsumer::consumer(id(1)))).await;
        let stored = ConsumerOffsetResponse::decode_from(answer.payload()).expect("readable");
        assert_eq!((stored.partition_id, stored.current_offset, stored.stored_offset), (0, 3, 3));

        let store = |consumer: WireConsumer, offset: u64| StoreConsumerOffsetRequest {
            consumer,
            stream_id: id(0),
            topic_id: id(0),
            partition_id: Some(0),
            offset,
            ack: AckLevel::Quorum,
        };
        let mine = WireConsumer::consumer(named("mine"));
        assert_eq!(peer.ask(Command::GetConsumerOffset, &get(mine.clone())).await.payload(), b"", "nothing yet");
        assert_eq!(peer.ask(Command::StoreConsumerOffset, &store(mine.clone(), 2)).await.payload(), b"");
        assert_eq!(peer.ask(Command::StoreConsumerOffset, &store(mine.clone(), 4)).await.code(), 4100);
        assert_eq!(peer.ask(Command::StoreConsumerOffset, &store(mine.clone(), 0)).await.code(), 0, "it may go back");
        let number = WireConsumer::consumer(id(XxHash32::oneshot(0, b"mine")));
        let answer = peer.ask(Command::GetConsumerOffset, &get(number)).await;
        let stored = ConsumerOffsetResponse::decode_from(answer.payload()).expect("a name is the number of its hash");
        assert_eq!(stored.stored_offset, 0);

        let delete = DeleteConsumerOffsetRequest {
            consumer: mine.clone(),
            stream_id: id(0),
            topic_id: id(0),
            partition_id: Some(0),
            ack: AckLevel::Quorum,
        };
        assert_eq!(peer.ask(Command::DeleteConsumerOffset, &delete).await.payload(), b"");
        assert_eq!(peer.ask(Command::DeleteConsumerOffset, &delete).await.code(), 3021);

        let purge = requests::topics::PurgeTopicRequest { stream_id: id(0), topic_id: id(0) };
        assert_eq!(peer.ask(Command::PurgeTopic, &purge).await.code(), 0);
        assert_eq!(poll(&mut peer, &poll_of(0, WirePollingStrategy::first(), 10)).await, []);
        let answer = peer.ask(Command::GetConsumerOffset, &get(WireConsumer::consumer(id(1)))).await;
        assert_eq!(answer.payload(), b"", "a purge forgets stored offsets");
        assert_eq!(send(&mut peer, WirePartitioning::PartitionId(0), &["again"]).await, Ok((0, 0)));
        node
    });
}

#[test]
fn batches_go_where_their_partitioning_says() {
    with_node(async |node| {
        let mut peer = prepared(&node, 3).await;
        for (key, _) in [(&b"customer-1"[..], 0), (b"customer-2", 0), (b"x", 0)] {
            let partition = XxHash32::oneshot(0, key) % 3;
            let by_key = || WirePartitioning::messages_key(key.to_vec()).expect("a key");
            for _ in 0..2 {
                assert_eq!(send(&mut peer, by_key(), &["m"]).await.map(|sent| sent.0), Ok(partition));
            }
        }
        let mut seen = Vec::new();
        for _ in 0..6 {
            seen.push(send(&mut peer, WirePartitioning::Balanced, &["m"]).await.expect("stored").0);
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 0, 1, 1, 2, 2], "in turn");

        assert_eq!(send(&mut peer, WirePartitioning::PartitionId(3), &["m"]).await, Err(20));
        let elsewhere = batch(&named("nowhere"), &WirePartitioning::Balanced, &["m"]);
        assert_eq!(peer.call(Command::SendMessages, &elsewhere).await.code(), 20);
        peer.create_topic("empty", 0).await.payload();
        let empty = batch(&id(1), &WirePartitioning::Balanced, &["m"]);
        assert_eq!(peer.call(Command::SendMessages, &empty).await.code(), 20, "no partition to send to");
        node
    });
}

#[test]
fn a_repeated_send_is_stored_once() {
    with_node(async |node| {
        let mut peer = prepared(&node, 1).await;
        let body = batch(&id(0), &WirePartitioning::PartitionId(0), &["a", "b"]);
        let first = peer.call(Command::SendMessages, &body).await;
        let again = peer.header(160, 0, &body);
        send(&mut peer, WirePartitioning::PartitionId(0), &["c"]).await.expect("stored");
        assert_eq!(peer.hand_over(again, &body).await.payload(), first.payload(), "the offsets of the first time");
        let found = poll(&mut peer, &poll_of(0, WirePollingStrategy::first(), 10)).await;
        assert_eq!(found, expected(0, &["a", "b", "c"]));
        node
    });
}

#[test]
fn what_does_not_check_out_is_refused_and_not_stored() {
    with_node(async |node| {
        let mut peer = prepared(&node, 1).await;
        let body = batch(&id(0), &WirePartitioning::PartitionId(0), &["hello", "world"]);
        for length in 0..body.len() {
            let code = peer.call(Command::SendMessages, &body[..length]).await.code();
            assert!(code > 0 && !matches!(code, 57 | 58), "cut after {length} bytes: {code}");
        }
        let mut payload = body.clone();
        *payload.last_mut().expect("not empty") ^= 1;
        assert_eq!(peer.call(Command::SendMessages, &payload).await.code(), 4027);
        let start = body.len() - (256 + 2 * (48 + 5));
        let mut header = body.clone();
        header[start + 40] ^= 1;
        assert_eq!(peer.call(Command::SendMessages, &header).await.code(), 4039);
        assert_eq!(poll(&mut peer, &poll_of(0, WirePollingStrategy::first(), 10)).await, []);
        node
    });
}

#[test]
fn missing_things_have_their_own_numbers() {
    with_node(async |node| {
        let mut peer = prepared(&node, 1).await;
        let request = poll_of(0, WirePollingStrategy::first(), 1);
        let table = [
            (PollMessagesRequest { stream_id: id(9), ..request.clone() }, 1009),
            (PollMessagesRequest { topic_id: named("nowhere"), ..request.clone() }, 2010),
            (PollMessagesRequest { partition_id: Some(1), ..request.clone() }, 3007),
            (
                PollMessagesRequest {
                    consumer: WireConsumer::consumer_group(id(1)),
                    partition_id: None,
                    ..request.clone()
                },
                6,
            ),
        ];
        for (request, code) in table {
            assert_eq!(peer.ask(Command::PollMessages, &request).await.code(), code, "{request:?}");
        }
        // There are no groups yet: nobody is a member.
        let group = WireConsumer::consumer_group(id(1));
        let fenced = PollMessagesRequest { consumer: group.clone(), ..request.clone() };
        let answer = peer.ask(Command::PollMessages, &fenced).await;
        assert_eq!(answer.payload(), [&[0xff; 4][..], &[0; 12]].concat());
        let store = StoreConsumerOffsetRequest {
            consumer: group,
            stream_id: id(0),
            topic_id: id(0),
            partition_id: Some(0),
            offset: 0,
            ack: AckLevel::Quorum,
        };
        assert_eq!(peer.ask(Command::StoreConsumerOffset, &store).await.code(), 5000);
        node
    });
}

#[test]
fn a_single_node_routes_everything_to_itself() {
    with_node(async |node| {
        let mut peer = prepared(&node, 1).await;
        let commit_poll = PollMessagesRequest { auto_commit: true, ..poll_of(0, WirePollingStrategy::next(), 1) };
        let answer = peer.ask(Command::GetPollRouting, &commit_poll).await;
        let offset = GetConsumerOffsetRequest {
            consumer: WireConsumer::consumer(id(1)),
            stream_id: id(0),
            topic_id: id(0),
            partition_id: Some(0),
        };
        assert_eq!(peer.ask(Command::GetConsumerOffsetRouting, &offset).await.payload(), answer.payload());
        let body = answer.payload().to_vec();
        assert_eq!(body[..24], [&peer.client.to_le_bytes()[..], &peer.session.to_le_bytes()].concat());
        assert_eq!(body[24..32], answer.commit().to_le_bytes());
        assert!(body[32..].windows(8).any(|window| window == b"10.1.2.3"), "the address of this node");
        let plain = poll_of(0, WirePollingStrategy::next(), 1);
        assert_eq!(peer.ask(Command::GetPollRouting, &plain).await.code(), 3, "only polls that commit are routed");
        let elsewhere = GetConsumerOffsetRequest { partition_id: Some(5), ..offset };
        assert_eq!(peer.ask(Command::GetConsumerOffsetRouting, &elsewhere).await.code(), 3007);

        // The data connection says whose session it works for.
        let mut data = node.peer().await;
        let attach = |client_id, session, metadata_watermark| {
            requests::system::attach_consumer_session::AttachConsumerSessionRequest {
                client_id,
                session,
                metadata_watermark,
            }
        };
        let (client, session) = (peer.client, peer.session);
        let right = attach(client, session, answer.commit());
        assert_eq!(data.ask(Command::AttachConsumerSession, &right).await.payload(), b"");
        let future = attach(client, session, answer.commit() + 1000);
        assert_eq!(data.ask(Command::AttachConsumerSession, &future).await.code(), 58);
        assert_eq!(data.ask(Command::AttachConsumerSession, &attach(client, session + 1, 0)).await.code(), 30);
        assert_eq!(data.ask(Command::AttachConsumerSession, &attach(12345, session, 0)).await.code(), 30);
        assert!(right.to_bytes().len() == 32);
        node
    });
}
