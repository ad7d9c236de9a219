//! Every command and every operation byte gets an answer.

use crate::node::{Peer, with_node};
use whippet_gateway::binary::{Offered, TABLE};
use whippet_protocol::Command;
use whippet_protocol::operation::{LOGOUT, NON_REPLICATED, Plane, REGISTER};

/// Logs in again when a request ended the session.
async fn keep_logged_in(peer: &mut Peer) {
    if !peer.connection.is_logged_in() {
        peer.login().await;
    }
}

#[test]
fn what_is_offered_works_and_the_rest_says_that_it_does_not() {
    with_node(async |node| {
        let mut peer = node.peer().await;
        for row in TABLE {
            for body in [&[][..], &[0; 3], &[0xff; 40]] {
                keep_logged_in(&mut peer).await;
                let code = peer.call(row.command, body).await.code();
                match row.offered {
                    Offered::Yes => assert_ne!(code, 5, "{:?} is offered", row.command),
                    Offered::NotYet | Offered::Never => assert_eq!(code, 5, "{:?} is not offered", row.command),
                }
                if row.command.plane() != Plane::Local && row.offered == Offered::Yes {
                    assert!(code > 0, "{:?} with {} bytes was carried out", row.command, body.len());
                }
            }
        }
        node
    });
}

#[test]
fn every_operation_byte_is_answered() {
    with_node(async |node| {
        let mut peer = node.peer().await;
        for operation in 0..=u8::MAX {
            keep_logged_in(&mut peer).await;
            peer.request += 1;
            let header = peer.header(operation, 4711, &[1, 2, 3]);
            let code = peer.hand_over(header, &[1, 2, 3]).await.code();
            match operation {
                REGISTER => assert_eq!(code, -15),
                LOGOUT => assert_eq!(code, 0),
                NON_REPLICATED => assert_eq!(code, 3, "an unknown command code"),
                _ if Command::from_operation(operation).is_some() => assert!(code > 0, "{operation}: {code}"),
                _ => assert_eq!(code, 3, "operation {operation} is none of a client's"),
            }
        }
        assert_eq!(peer.call(Command::Ping, &[]).await.code(), 0);
        node
    });
}

#[test]
fn codes_that_are_no_reads_are_told_apart() {
    with_node(async |node| {
        let mut peer = node.peer().await;
        for command in Command::ALL.iter().filter(|command| command.operation().is_some()) {
            let header = peer.header(NON_REPLICATED, command.code(), &[]);
            assert_eq!(peer.hand_over(header, &[]).await.code(), 5, "{command:?} is replicated");
        }
        for old in [38, 44] {
            let header = peer.header(NON_REPLICATED, old, &[]);
            assert_eq!(peer.hand_over(header, &[]).await.code(), -15, "the login of an older protocol ({old})");
        }
        for unknown in [0, 2, 99, 607, 9999, u32::MAX] {
            let header = peer.header(NON_REPLICATED, unknown, &[]);
            assert_eq!(peer.hand_over(header, &[]).await.code(), 3, "code {unknown}");
        }
        assert!(peer.connection.is_logged_in());
        node
    });
}

#[test]
fn bytes_behind_a_body_are_refused() {
    with_node(async |node| {
        let mut peer = node.peer().await;
        for command in [Command::Ping, Command::GetStats, Command::GetStreams, Command::GetMe, Command::GetClients] {
            assert_eq!(peer.call(command, &[]).await.code(), 0, "{command:?}");
            assert_eq!(peer.call(command, &[0]).await.code(), 3, "{command:?}");
        }
        assert_eq!(peer.call(Command::GetStream, &[1, 4, 0, 0, 0, 0]).await.code(), 0);
        assert_eq!(peer.call(Command::GetStream, &[1, 4, 0, 0, 0, 0, 0]).await.code(), 3);
        node
    });
}
