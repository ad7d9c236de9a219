//! Messages over sockets: contents, sizes, and the time that small frames take.

use crate::client::send;
use crate::node::Node;
use std::io::Write;
use std::time::{Duration, Instant};
use whippet_protocol::operation::SEND_MESSAGES;

#[test]
fn what_is_sent_is_polled() {
    let node = Node::start();
    let mut producer = node.client();
    producer.create_topic(2);
    assert_eq!(producer.send(0, &[b"a", b"b"]), 0);
    assert_eq!(producer.send(0, &[b"c"]), 2);
    assert_eq!(producer.send(1, &[b"other"]), 0);
    let mut consumer = node.client();
    let expected: Vec<(u64, Vec<u8>)> = vec![(0, b"a".to_vec()), (1, b"b".to_vec()), (2, b"c".to_vec())];
    assert_eq!(consumer.poll(0, 0, 10), expected);
    assert_eq!(consumer.poll(0, 1, 1), expected[1..2]);
    assert_eq!(consumer.poll(1, 0, 10), [(0, b"other".to_vec())]);
    assert_eq!(consumer.poll(1, 1, 10), []);
    node.stop();
}

#[test]
fn large_batches_come_back_whole_in_large_and_in_small_pieces() {
    let node = Node::start();
    let mut client = node.client();
    client.create_topic(2);
    let payload: Vec<u8> = (0..5 << 20).map(|at: u32| at.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    assert_eq!(client.send(0, &[&payload]), 0);
    assert_eq!(client.send(0, &[&payload[..3 << 20], b"end"]), 1);
    let polled = client.poll(0, 0, 10);
    assert_eq!(
        polled.iter().map(|(offset, payload)| (*offset, payload.len())).collect::<Vec<_>>(),
        [(0, 5 << 20), (1, 3 << 20), (2, 3)]
    );
    assert!(polled[0].1 == payload && polled[1].1 == payload[..3 << 20]);
    // Hundreds of small batches in one reply.
    for number in 0..300u64 {
        assert_eq!(client.send(1, &[&number.to_le_bytes()]), number);
    }
    let polled = client.poll(1, 0, 1000);
    assert!(polled.iter().zip(0u64..).all(|((offset, payload), n)| *offset == n && *payload == n.to_le_bytes()));
    assert_eq!(polled.len(), 300);
    node.stop();
}

/// Official clients leave the kernel's delay of small segments on, and write header and body of a request of more than
/// some KiB one after the other. The end of such a request waits for the acknowledgement of its start.
#[test]
fn a_request_in_two_writes_does_not_wait_for_a_delayed_acknowledgement() {
    const ROUNDS: u32 = 50;
    let node = Node::start();
    let mut client = node.client();
    client.create_topic(1);
    client.stream.set_nodelay(false).expect("a socket option");
    let body = send(0, &[&[1; 12_000]]);
    let started = Instant::now();
    for _ in 0..ROUNDS {
        let frame = client.frame(SEND_MESSAGES, 0, &body);
        client.stream.write_all(&frame[..256]).expect("write");
        client.stream.write_all(&frame[256..]).expect("write");
        assert_eq!(client.answer().expect("an answer").status(), 0);
    }
    // A delayed acknowledgement takes 40 ms.
    assert!(started.elapsed() < Duration::from_millis(20) * ROUNDS, "{ROUNDS} sends took {:?}", started.elapsed());
    node.stop();
}
