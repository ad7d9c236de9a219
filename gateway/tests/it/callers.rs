//! Typed operations, for callers whose requests the server numbers.

use crate::node::with_node;
use futures_util::future::join_all;
use whippet_gateway::{ConsumerRef, GatewayError, Partitioning, PollArgs, SendArgs, WriteOutcome};
use whippet_metadata::TopicOptionsPatch;
use whippet_protocol::batch::BatchBuilder;
use whippet_protocol::{ErrorCode, Identifier, Name};
use whippet_shard::Strategy;

fn name(text: &str) -> Name {
    Name::new(text).expect("1 to 255 bytes")
}

fn send() -> SendArgs {
    let mut builder = BatchBuilder::new(256, 1, 0);
    builder.push(1, 1, b"payload", &[]);
    let (buffer, batch) = builder.finish();
    let (stream, topic) = (Identifier::Id(0), Identifier::Id(0));
    SendArgs { stream, topic, partitioning: Partitioning::Partition(0), buffer, batch, count: 1 }
}

#[test]
fn passwords_are_checked() {
    with_node(async |node| {
        assert_eq!(node.gateway.verify_password("iggy", "secret").await, Ok(0));
        for (username, password) in [("iggy", "wrong"), ("nobody", "secret"), ("", ""), ("iggy", "x")] {
            let error = node.gateway.verify_password(username, password).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidCredentials, "{username}");
        }
        let error = node.gateway.http_caller("token", 7).map(|_| ()).unwrap_err();
        assert_eq!(error.code, ErrorCode::Unauthenticated, "there is no user 7");
        let again = node.gateway.bootstrap("other", "secret").await.unwrap_err();
        assert_eq!((again.code, again.outcome), (ErrorCode::UserAlreadyExists, WriteOutcome::NotApplied));
        node
    });
}

#[test]
fn many_writes_of_one_credential_at_the_same_time_are_all_carried_out() {
    with_node(async |node| {
        let caller = node.gateway.http_caller("token", 0).expect("root");
        let streams = join_all((0..20).map(|n| node.gateway.create_stream(&caller, name(&format!("s{n}"))))).await;
        let mut ids: Vec<u32> = streams.into_iter().map(|made| made.expect("created").stream.id).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..20).collect::<Vec<_>>());
        let taken = node.gateway.create_stream(&caller, name("s3")).await.unwrap_err();
        assert_eq!(
            taken,
            GatewayError {
                code: ErrorCode::StreamNameAlreadyExists,
                reason: "the name `s3` is already used".into(),
                field: Some("name"),
                outcome: WriteOutcome::NotApplied,
            }
        );

        let stream = Identifier::Id(0);
        node.gateway
            .create_topic(&caller, stream.clone(), name("t"), 1, TopicOptionsPatch::default())
            .await
            .expect("created");
        // More than a partition remembers of one client: none may be taken for an old one.
        let sent = join_all((0..500).map(|_| node.gateway.send_messages(&caller, send()))).await;
        let mut offsets: Vec<u64> = sent.into_iter().map(|sent| sent.expect("stored").base_offset).collect();
        offsets.sort_unstable();
        assert_eq!(offsets, (0..500).collect::<Vec<_>>());

        let poll = PollArgs {
            consumer: ConsumerRef::Single(Identifier::Id(1)),
            stream,
            topic: Identifier::Name(name("t")),
            partition: None,
            strategy: Strategy::First,
            count: 1000,
            auto_commit: false,
        };
        let polled = node.gateway.poll_messages(&caller, poll.clone()).await.expect("polled");
        assert_eq!((polled.count, polled.current_offset), (500, 499));
        let group = PollArgs { consumer: ConsumerRef::Group(Identifier::Id(1)), ..poll };
        let error = node.gateway.poll_messages(&caller, group).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::ConsumerGroupIdNotFound, "there are no groups yet");
        node
    });
}

#[test]
fn a_credential_gets_a_new_session_after_its_own_was_ended() {
    with_node(async |node| {
        let caller = node.gateway.http_caller("token", 0).expect("root");
        node.gateway.create_stream(&caller, name("before")).await.expect("created");
        let sessions = |gateway: &whippet_gateway::Gateway| gateway.runtime().metadata().read(|s| s.sessions());
        assert_eq!(sessions(&node.gateway), 1);
        node.gateway.http_logout("token");
        node.until("the session is ended", |gateway| sessions(gateway) == 0).await;
        // The caller made before still works: its session is opened anew.
        node.gateway.create_stream(&caller, name("after")).await.expect("created");
        assert_eq!(sessions(&node.gateway), 1);
        node
    });
}

#[test]
fn errors_say_what_is_missing() {
    with_node(async |node| {
        let caller = node.gateway.http_caller("token", 0).expect("root");
        let error = node.gateway.send_messages(&caller, send()).await.unwrap_err();
        assert_eq!((error.code, error.field), (ErrorCode::StreamIdNotFound, Some("stream_id")));
        assert_eq!(error.reason, "stream `0` does not exist");
        let (stream, topic) = (Identifier::Name(name("a")), Identifier::Id(3));
        node.gateway.create_stream(&caller, name("a")).await.expect("created");
        let consumer = ConsumerRef::Single(Identifier::Id(1));
        let error = node.gateway.get_consumer_offset(&caller, &consumer, &stream, &topic, None).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::TopicIdNotFound);
        assert_eq!(error.reason, "topic `3` does not exist in stream `a`");
        assert!(node.gateway.get_topic(&caller, &stream, &topic).await.expect("answered").is_none());
        node
    });
}
