//! Where frames start and end, and what is no frame.

use crate::client::{Client, login, poll, send};
use crate::node::Node;
use std::net::Shutdown;
use whippet_protocol::frame::ServerFrame;
use whippet_protocol::operation::{NON_REPLICATED, REGISTER, SEND_MESSAGES};

#[test]
fn a_frame_may_come_in_any_pieces() {
    let node = Node::start();
    let mut client = node.client();
    client.create_topic(1);
    let payload = vec![7; 20_000];
    for piece in [1, 100, 255, 256, 257, 4095, 4096, 4097, 20_000] {
        let body = send(0, &[&payload[..piece.max(900)]]);
        let frame = client.frame(SEND_MESSAGES, 0, &body);
        for piece in frame.chunks(piece) {
            client.write(piece).expect("write");
        }
        assert_eq!(client.answer().expect("an answer").status(), 0, "pieces of {piece} bytes");
    }
    let lengths: Vec<usize> = client.poll(0, 0, 100).into_iter().map(|(_, payload)| payload.len()).collect();
    assert_eq!(lengths, [900, 900, 900, 900, 900, 4095, 4096, 4097, 20_000]);
    node.stop();
}

#[test]
fn frames_that_come_together_are_answered_one_after_the_other() {
    let node = Node::start();
    let mut client = node.client();
    client.create_topic(1);
    let mut bytes = Vec::new();
    let (small, large) = (send(0, &[b"small"]), send(0, &[&[9; 10_000]]));
    for round in 0..50 {
        bytes.extend(client.frame(NON_REPLICATED, 1, &[]));
        bytes.extend(client.frame(SEND_MESSAGES, 0, if round % 2 == 0 { &small } else { &large }));
        bytes.extend(client.frame(NON_REPLICATED, 100, &poll(0, round, 1)));
    }
    let last = client.last_request;
    client.write(&bytes).expect("write");
    for round in 0..50u64 {
        let number = last - 49 + round;
        let ping = client.answer().expect("an answer");
        assert_eq!((ping.status(), ping.request(), ping.body.len()), (0, number - 1, 0));
        let sent = client.answer().expect("an answer");
        assert_eq!((sent.status(), sent.request()), (0, number));
        assert_eq!(sent.body[16..24], round.to_le_bytes(), "the offset");
        let polled = client.answer().expect("an answer");
        assert_eq!((polled.status(), polled.request()), (0, number));
        assert_eq!(polled.body[12..16], 1u32.to_le_bytes(), "round {round} polls what it has sent");
    }
    node.stop();
}

#[test]
fn a_frame_that_is_cut_off_ends_its_connection_alone() {
    let node = Node::start();
    let mut other = node.client();
    other.create_topic(1);
    let whole = {
        let mut client = node.client();
        let body = send(0, &[b"never"]);
        client.frame(SEND_MESSAGES, 0, &body)
    };
    for length in [1, 48, 255, 256, 300, whole.len() - 1] {
        let mut client = node.client();
        client.write(&whole[..length]).expect("write");
        client.stream.shutdown(Shutdown::Write).expect("shutdown");
        assert!(client.is_closed(), "cut after {length} bytes");
        other.ping();
    }
    assert_eq!(other.poll(0, 0, 10), [], "nothing that was cut off is stored");
    node.stop();
}

#[test]
fn sizes_that_no_frame_has_close_the_connection() {
    let node = Node::start_with(|settings, _| settings.frame_size_max = 1 << 20);
    let announce = |client: &mut Client, size: u32| {
        let mut frame = client.frame(NON_REPLICATED, 1, &[]);
        frame[48..52].copy_from_slice(&size.to_le_bytes());
        client.write(&frame).expect("write");
    };
    for size in [0, 255, (1 << 20) + 1, u32::MAX] {
        let mut client = node.client();
        announce(&mut client, size);
        assert!(client.is_closed(), "a frame of {size} bytes");
    }
    let mut client = node.anonymous();
    announce(&mut client, 64 * 1024 + 1);
    assert!(client.is_closed(), "a login has at most 64 KiB");
    let mut client = node.client();
    let ping = client.call(NON_REPLICATED, 1, &vec![0; (1 << 20) - 256]);
    assert_eq!(ping.status(), 3, "the largest frame is read; a ping has no body");
    client.ping();
    node.stop();
}

#[test]
fn only_requests_come_from_clients() {
    let node = Node::start();
    for command in [0, 4, 6, 8, 13, 255] {
        let mut client = node.client();
        let mut frame = client.frame(NON_REPLICATED, 1, &[]);
        frame[60] = command;
        client.write(&frame).expect("write");
        assert!(client.is_closed(), "command {command}");
    }
    node.stop();
}

#[test]
fn a_refused_login_leaves_the_connection_usable() {
    let node = Node::start();
    let mut client = node.anonymous();
    client.ping();
    let refused = client.call(REGISTER, 0, &login("iggy", "wrong"));
    assert_eq!(refused.frame, ServerFrame::Eviction { reason: 9 });
    let unknown = client.call(NON_REPLICATED, 4711, &[]);
    assert_eq!(unknown.status(), 40);
    client.login();
    assert_eq!(client.call(NON_REPLICATED, 4711, &[]).status(), 3);
    client.ping();
    node.stop();
}
