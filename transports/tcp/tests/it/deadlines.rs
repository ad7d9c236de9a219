//! How long the server waits, and how many connections it takes.

use crate::client::{poll, send};
use crate::node::Node;
use std::time::{Duration, Instant};
use whippet_protocol::operation::{NON_REPLICATED, SEND_MESSAGES};

const SHORT: Duration = Duration::from_millis(200);

#[test]
fn a_connection_must_log_in_in_time() {
    let node = Node::start_with(|_, tcp| tcp.login_timeout = SHORT);
    let started = Instant::now();
    let mut silent = node.anonymous();
    assert!(silent.is_closed());
    assert!(started.elapsed() >= SHORT);
    let mut slow = node.anonymous();
    let frame = slow.frame(NON_REPLICATED, 1, &[]);
    slow.write(&frame[..100]).expect("write");
    assert!(slow.is_closed(), "half a frame is no login");
    node.stop();
}

#[test]
fn a_frame_that_has_started_must_end_in_time() {
    let node = Node::start_with(|_, tcp| tcp.frame_timeout = SHORT);
    let mut client = node.client();
    client.create_topic(1);
    for length in [1, 255, 256, 1000] {
        let mut client = node.client();
        let body = send(0, &[&[1; 10_000]]);
        let frame = client.frame(SEND_MESSAGES, 0, &body);
        let started = Instant::now();
        client.write(&frame[..length]).expect("write");
        assert!(client.is_closed(), "{length} bytes of a frame");
        assert!(started.elapsed() >= SHORT);
    }
    node.stop();
}

#[test]
fn who_is_logged_in_may_be_silent_for_as_long_as_he_likes() {
    let node = Node::start_with(|_, tcp| (tcp.frame_timeout, tcp.login_timeout) = (SHORT, SHORT));
    let mut clients: Vec<_> = (0..3).map(|_| node.client()).collect();
    clients[0].create_topic(1);
    // Frames with and without a body, small and large: none may leave a deadline behind.
    clients[0].ping();
    assert_eq!(clients[1].send(0, &[b"small"]), 0);
    assert_eq!(clients[2].send(0, &[&[1; 100_000]]), 1);
    std::thread::sleep(3 * SHORT);
    for client in &mut clients {
        client.ping();
    }
    node.stop();
}

#[test]
fn a_peer_that_takes_no_answers_is_let_go() {
    let node = Node::start_with(|_, tcp| tcp.write_timeout = SHORT);
    let mut client = node.client();
    client.create_topic(1);
    for _ in 0..8 {
        client.send(0, &[&[5; 4 << 20]]);
    }
    let mut deaf = node.client();
    let connections = |node: &Node| node.gateway.clients_count();
    assert_eq!(connections(&node), 2);
    // 32 MiB are more than the buffers of a socket take.
    let frame = deaf.frame(NON_REPLICATED, 100, &poll(0, 0, 8));
    deaf.write(&frame).expect("write");
    let started = Instant::now();
    while connections(&node) != 1 {
        assert!(started.elapsed() < crate::node::PATIENCE, "the connection stays");
        std::thread::yield_now();
    }
    assert!(started.elapsed() >= SHORT);
    client.ping();
    node.stop();
}

#[test]
fn connections_over_the_limit_are_closed_at_once() {
    let node = Node::start_with(|settings, _| settings.connections_max = 2);
    let (mut one, mut two) = (node.client(), node.anonymous());
    two.ping();
    let mut three = node.anonymous();
    assert!(three.is_closed());
    drop(one.stream);
    // The place is given back once the server has seen the end of the connection.
    let started = Instant::now();
    while node.gateway.clients_count() != 1 {
        assert!(started.elapsed() < crate::node::PATIENCE, "the connection stays");
        std::thread::yield_now();
    }
    one = node.client();
    one.ping();
    two.ping();
    node.stop();
}
