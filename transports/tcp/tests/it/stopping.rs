//! The end of the server.

use crate::node::Node;
use std::net::TcpStream;
use std::time::{Duration, Instant};
use whippet_protocol::operation::NON_REPLICATED;

#[test]
fn a_stop_ends_idle_connections_and_the_listener() {
    let node = Node::start();
    let mut clients: Vec<_> = (0..4).map(|_| node.client()).collect();
    clients.push(node.anonymous());
    // Half a frame is no request.
    let frame = clients[0].frame(NON_REPLICATED, 1, &[]);
    clients[0].write(&frame[..17]).expect("write");
    let address = node.address();
    let started = Instant::now();
    node.stop();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    for client in &mut clients {
        assert!(client.is_closed());
    }
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}

#[test]
fn a_peer_that_never_pauses_does_not_hold_up_a_stop() {
    let node = Node::start();
    let mut client = node.client();
    let frame = client.frame(NON_REPLICATED, 1, &[]);
    let mut writer = client.stream.try_clone().expect("a second handle");
    let flood = std::thread::spawn(move || {
        let many = frame.repeat(100);
        while std::io::Write::write_all(&mut writer, &many).is_ok() {}
    });
    let reader = std::thread::spawn(move || {
        let mut answers = 0u64;
        while client.answer().is_ok() {
            answers += 1;
        }
        answers
    });
    node.client().ping();
    let started = Instant::now();
    node.begin_stop();
    node.stop();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    flood.join().expect("no panic");
    assert!(reader.join().expect("no panic") > 0);
}
