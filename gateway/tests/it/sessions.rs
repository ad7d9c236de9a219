//! Logins, logouts, and which requests belong to the session of a connection.

use crate::node::{VERSION, login, with_node};
use whippet_protocol::Command;
use whippet_protocol::operation::{LOGOUT, REGISTER};

#[test]
fn before_a_login_only_ping_works() {
    with_node(async |node| {
        let mut peer = node.anonymous();
        assert_eq!(peer.call(Command::Ping, &[]).await.code(), 0);
        assert!(!peer.connection.is_logged_in());
        for command in Command::ALL.iter().filter(|command| **command != Command::Ping) {
            let expected = if command.operation().is_some() { -1 } else { 40 };
            assert_eq!(peer.call(*command, &[]).await.code(), expected, "{command:?}");
        }
        assert_eq!(peer.logout().await.code(), 0, "a logout without a login does nothing");
        peer.login().await;
        assert!(peer.connection.is_logged_in());
        assert_eq!(peer.call(Command::GetMe, &[]).await.code(), 0);
        node
    });
}

#[test]
fn refused_logins_say_why_and_leave_the_connection_usable() {
    with_node(async |node| {
        let mut peer = node.anonymous();
        let long = "x".repeat(101);
        let cases: &[(&str, Vec<u8>, i64)] = &[
            ("wrong password", login(VERSION, "iggy", "Secret"), -9),
            ("unknown user", login(VERSION, "nobody", "secret"), -9),
            ("short name", login(VERSION, "ig", "secret"), -9),
            ("long password", login(VERSION, "iggy", &long), -9),
            ("too new, which is looked at first", login(12 << 10 | 2, "iggy", "wrong"), -14),
            ("too old", login(10 << 10 | 9, "iggy", "secret"), -14),
            ("no version", vec![1, 2], -15),
            ("no name", [&VERSION.to_le_bytes()[..], &[0, 0]].concat(), -15),
            ("nothing behind the versions", login(VERSION, "a", "b")[..20].to_vec(), -15),
            ("a token", [&login(VERSION, "", "")[..20], b"\x05token\0\0\0\0"].concat(), -10),
        ];
        for (what, body, expected) in cases {
            assert_eq!(peer.register(body).await.code(), *expected, "{what}");
            assert!(!peer.connection.is_logged_in(), "{what}");
        }
        let window = peer.register(&login(12 << 10 | 2, "iggy", "secret")).await;
        assert_eq!(window.header[144..152], [VERSION.to_le_bytes(), VERSION.to_le_bytes()].concat());
        let patch = peer.register(&login(VERSION + 3, "iggy", "secret")).await;
        assert_eq!(patch.code(), 0, "patch releases are compatible");
        node
    });
}

#[test]
fn the_same_client_gets_its_session_again_and_another_a_new_one() {
    with_node(async |node| {
        let mut peer = node.peer().await;
        let (client, session) = (peer.client, peer.session);
        peer.login().await;
        assert_eq!(peer.session, session);
        assert_eq!(peer.create_stream("one").await.code(), 0);

        peer.client += 1;
        peer.login().await;
        assert!(peer.session > session);
        let ended = move |gateway: &whippet_gateway::Gateway| {
            gateway.runtime().metadata().read(|state| state.session(client).is_none())
        };
        node.until("the session before is ended", ended).await;
        assert_eq!(peer.create_stream("two").await.code(), 0);

        assert_eq!(peer.register(&login(VERSION, "iggy", "wrong")).await.code(), -9);
        assert_eq!(peer.create_stream("three").await.code(), 0, "a login that fails leaves the one before");
        node
    });
}

#[test]
fn a_session_that_the_client_table_lost_is_made_anew() {
    with_node(async |node| {
        let mut peer = node.peer().await;
        // Another connection that knows client id and session can end it.
        let mut twin = node.anonymous();
        (twin.client, twin.session, twin.request) = (peer.client, peer.session, 100);
        twin.login().await;
        assert!(twin.session > peer.session, "another connection: another session");
        assert_eq!(peer.create_stream("late").await.code(), -1, "the newer session fences the older one");
        assert!(!peer.connection.is_logged_in());
        assert_eq!(twin.create_stream("mine").await.code(), 0);
        let before = peer.session;
        peer.login().await;
        assert!(peer.session > before);
        node
    });
}

#[test]
fn replicated_requests_must_name_the_session_of_their_connection() {
    with_node(async |node| {
        let mut peer = node.peer().await;
        let older = peer.session - 1;
        let body = b"\x06stream";
        let check = [
            ("another client", peer.client + 1, peer.session, 1, -1),
            ("no session", peer.client, 0, 1, -1),
            ("a session to come", peer.client, peer.session + 1, 1, -1),
            ("an older session", peer.client, older, 1, -7),
            ("no number", peer.client, peer.session, 0, 3),
            ("no client", 0, peer.session, 1, 101),
        ];
        for (what, client, session, request, expected) in check {
            let header =
                whippet_protocol::frame::RequestHeader { client, session, request, ..peer.header(128, 0, body) };
            assert_eq!(peer.hand_over(header, body).await.code(), expected, "{what}");
        }
        let header = whippet_protocol::frame::RequestHeader { session: older, ..peer.header(LOGOUT, 39, &[]) };
        assert_eq!(peer.hand_over(header, &[]).await.code(), -7, "logouts, too");
        assert!(peer.connection.is_logged_in());
        // Reads may carry whatever number is current.
        let header = whippet_protocol::frame::RequestHeader { session: 0, request: 0, ..peer.header(2, 201, &[]) };
        assert_eq!(peer.hand_over(header, &[]).await.payload(), b"", "nothing was created");
        node
    });
}

#[test]
fn a_wrong_checksum_is_refused_and_none_is_fine() {
    with_node(async |node| {
        let mut peer = node.peer().await;
        let body = b"\x06stream";
        peer.request = 1;
        let right = peer.header(128, 0, body);
        let wrong = whippet_protocol::frame::RequestHeader { request_checksum: right.request_checksum ^ 1, ..right };
        assert_eq!(peer.hand_over(wrong, body).await.code(), 4);
        let huge =
            whippet_protocol::frame::RequestHeader { request_checksum: right.request_checksum | 1 << 100, ..right };
        assert_eq!(peer.hand_over(huge, body).await.code(), 4);
        let none = whippet_protocol::frame::RequestHeader { request_checksum: 0, ..right };
        assert_eq!(peer.hand_over(none, body).await.code(), 0);
        let mut other = node.anonymous();
        let body = login(VERSION, "iggy", "secret");
        let right = other.header(REGISTER, 0, &body);
        let wrong = whippet_protocol::frame::RequestHeader { request_checksum: right.request_checksum ^ 1, ..right };
        assert_eq!(other.hand_over(wrong, &body).await.code(), 4);
        node
    });
}

#[test]
fn after_a_logout_the_connection_logs_in_again() {
    with_node(async |node| {
        let mut peer = node.peer().await;
        let before = peer.session;
        assert_eq!(peer.logout().await.code(), 0);
        assert!(!peer.connection.is_logged_in());
        let known = |client| node.gateway.runtime().metadata().read(|state| state.session(client).is_some());
        assert!(!known(peer.client), "the session is gone");
        assert_eq!(peer.call(Command::GetStreams, &[]).await.code(), 40);
        assert_eq!(peer.create_stream("never").await.code(), -1);
        peer.login().await;
        assert!(peer.session > before);
        assert_eq!(peer.create_stream("now").await.code(), 0);
        node
    });
}

#[test]
fn a_lost_connection_ends_its_session() {
    with_node(async |node| {
        let mut clients = Vec::new();
        for _ in 0..5 {
            let peer = node.peer().await;
            clients.push(peer.client);
        }
        let gone = |gateway: &whippet_gateway::Gateway| {
            gateway.runtime().metadata().read(|state| clients.iter().all(|client| state.session(*client).is_none()))
        };
        node.until("all sessions are ended", gone).await;
        assert_eq!(node.gateway.clients_count(), 0);
        node
    });
}
