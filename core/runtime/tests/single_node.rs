//! One node, no sockets: requests go through the real shards, the real log and the real disk.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use whippet_metadata::command::{Command, Done, Envelope, PasswordHash};
use whippet_metadata::{TopicDefaults, TopicOptionsPatch};
use whippet_protocol::batch::{BatchBuilder, batches, messages};
use whippet_protocol::{ErrorCode, Identifier, Name};
use whippet_runtime::{Runtime, RuntimeHandle, RuntimeSettings};
use whippet_shard::{Consumer, Identity, Polled, Reply, Request, Strategy};
use whippet_storage::{DataDirectory, Engine};
use whippet_vsr::{ClusterId, GroupId, ReplicaId};

fn start(path: &Path, shards: u32) -> Runtime {
    let cluster = ClusterId::from_name("test");
    let identity = whippet_storage::Identity { cluster_id: cluster.0, replica_id: 0, replica_count: 1, disk: 1 };
    let directory = DataDirectory::open(path, identity).expect("data directory");
    let settings = RuntimeSettings {
        cluster,
        replica: ReplicaId(0),
        replica_count: 1,
        shards,
        pin_threads: false,
        engine: if shards == 2 { Engine::Portable } else { Engine::Auto },
        sync_interval: Duration::from_millis(100),
    };
    Runtime::start(settings, directory).expect("starts")
}

fn block<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("runtime").block_on(future)
}

fn name(text: &str) -> Name {
    Name::new(text).expect("valid")
}

async fn command(handle: &RuntimeHandle, command: Command) -> Done {
    let envelope = Envelope { client: 0, session: 0, request: 0, checksum: 0, user: 0, command };
    match handle.call(Request::Metadata(Arc::new(envelope))).await.expect("answered") {
        Reply::Metadata { outcome, .. } => outcome.expect("accepted"),
        other => panic!("{other:?}"),
    }
}

async fn topic(handle: &RuntimeHandle, topic: &str, partitions: u32) -> Vec<GroupId> {
    if handle.metadata().read(|state| state.user(0).is_none()) {
        let bootstrap =
            Command::Bootstrap { cluster: "test".into(), root: name("root"), password_hash: PasswordHash("x".into()) };
        command(handle, bootstrap).await;
        command(handle, Command::CreateStream { name: name("s") }).await;
    }
    let options =
        TopicOptionsPatch::from_text_map([("segment_size", "1MiB")], whippet_metadata::options::Purpose::Create)
            .expect("valid")
            .for_creation(&TopicDefaults::default(), partitions)
            .expect("valid");
    let stream = Identifier::Name(name("s"));
    match command(handle, Command::CreateTopic { stream, name: name(topic), partitions, options }).await {
        Done::TopicCreated { topic, .. } => {
            topic.partitions.iter().map(|p| GroupId { number: p.group.number, life: p.group.life }).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn send(group: GroupId, identity: Identity, payloads: &[&[u8]]) -> Request {
    let mut builder = BatchBuilder::new(256, 5, 0);
    for (n, payload) in payloads.iter().enumerate() {
        builder.push(n as u128 + 1, 5, payload, &[]);
    }
    let (buffer, batch) = builder.finish();
    Request::Send { group, identity, buffer, batch, count: payloads.len() as u32 }
}

async fn sent(handle: &RuntimeHandle, request: Request) -> (u64, bool) {
    match handle.call(request).await.expect("answered") {
        Reply::Sent { base_offset, duplicate } => (base_offset, duplicate),
        other => panic!("{other:?}"),
    }
}

async fn poll(handle: &RuntimeHandle, group: GroupId, strategy: Strategy, count: u32) -> (Polled, Vec<(u64, Vec<u8>)>) {
    let request = Request::Poll {
        group,
        consumer: Consumer::Single(1),
        strategy,
        count,
        max_bytes: 32 * 1024 * 1024,
        auto_commit: false,
        identity: Identity::default(),
    };
    match handle.call(request).await.expect("answered") {
        Reply::Polled(polled) => {
            let bytes: Vec<u8> = polled.chunks.iter().flat_map(|chunk| chunk.to_vec()).collect();
            let found: Vec<_> = batches(&bytes).flat_map(messages).map(|m| (m.offset, m.payload.to_vec())).collect();
            assert_eq!(found.len(), polled.count as usize);
            (polled, found)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_sent_is_polled_and_survives_a_clean_and_an_unclean_stop() {
    let temp = tempfile::tempdir().expect("temp");
    let runtime = start(temp.path(), 2);
    let groups = block(async {
        let handle = runtime.handle();
        let groups = topic(handle, "t", 3).await;
        assert_eq!(groups.len(), 3);
        for (n, group) in groups.iter().enumerate() {
            for batch in 0..10u64 {
                let payload = format!("{n}-{batch}").into_bytes();
                let (base, duplicate) = sent(handle, send(*group, Identity::default(), &[&payload, b"second"])).await;
                assert_eq!((base, duplicate), (batch * 2, false));
            }
        }
        groups
    });
    assert!(runtime.stop(Duration::from_secs(5)), "a clean stop");
    for (round, shards) in [1, 2, 3].into_iter().enumerate() {
        let runtime = start(temp.path(), shards);
        block(async {
            let handle = runtime.handle();
            for (n, group) in groups.iter().enumerate() {
                let (polled, found) = poll(handle, *group, Strategy::First, 1000).await;
                assert_eq!(found.len(), 20 + round);
                assert_eq!(polled.current_offset, 19 + round as u64);
                assert_eq!(found[4], (4, format!("{n}-2").into_bytes()));
                let (_, found) = poll(handle, *group, Strategy::Offset(7), 2).await;
                assert_eq!(found, [(7, b"second".to_vec()), (8, format!("{n}-4").into_bytes())]);
                let (_, found) = poll(handle, *group, Strategy::Last, 1).await;
                assert_eq!(found[0].0, 19 + round as u64);
                let (base, _) = sent(handle, send(*group, Identity::default(), &[b"more"])).await;
                assert_eq!(base, 20 + round as u64);
            }
        });
        // Dropping without a stop is what a kill looks like to the files, but for the lock, which must go first.
        assert!(runtime.stop(Duration::from_secs(5)));
    }
}

#[test]
fn retries_offsets_purge_and_refusals() {
    let temp = tempfile::tempdir().expect("temp");
    let runtime = start(temp.path(), 2);
    block(async {
        let handle = runtime.handle();
        let group = topic(handle, "t", 1).await[0];
        let (polled, _) = poll(handle, group, Strategy::First, 10).await;
        assert_eq!((polled.count, polled.current_offset), (0, 0));
        let numbered = |request| Identity { client: 9, session: 3, request, user: 0 };
        assert_eq!(sent(handle, send(group, numbered(1), &[b"a", b"b"])).await, (0, false));
        assert_eq!(sent(handle, send(group, numbered(1), &[b"a", b"b"])).await, (0, true));
        assert_eq!(sent(handle, send(group, numbered(2), &[b"c"])).await, (2, false));

        let consumer = Consumer::Single(4);
        let store = |offset, request| Request::StoreOffset { group, consumer, offset, identity: numbered(request) };
        assert!(matches!(handle.call(store(2, 3)).await, Ok(Reply::Done)));
        let refused = handle.call(store(3, 4)).await;
        assert!(
            matches!(&refused, Ok(Reply::Refused(refusal)) if refusal.code == ErrorCode::InvalidOffset),
            "{refused:?}"
        );
        let offset = handle.call(Request::GetOffset { group, consumer }).await;
        assert!(
            matches!(&offset, Ok(Reply::Offset(info)) if info.stored_offset == Some(2) && info.current_offset == 2),
            "{offset:?}"
        );
        let delete = |request| Request::DeleteOffset { group, consumer, identity: numbered(request) };
        assert!(matches!(handle.call(delete(5)).await, Ok(Reply::Done)));
        let refused = handle.call(delete(6)).await;
        assert!(
            matches!(&refused, Ok(Reply::Refused(refusal)) if refusal.code == ErrorCode::ConsumerOffsetNotFound),
            "{refused:?}"
        );

        let request = Request::Poll {
            group,
            consumer,
            strategy: Strategy::Next,
            count: 2,
            max_bytes: 1 << 20,
            auto_commit: true,
            identity: Identity::default(),
        };
        assert!(matches!(handle.call(request).await, Ok(Reply::Polled(polled)) if polled.count == 2));
        let offset = handle.call(Request::GetOffset { group, consumer }).await;
        assert!(matches!(&offset, Ok(Reply::Offset(info)) if info.stored_offset == Some(1)), "{offset:?}");

        let (stream, topic) = (Identifier::Id(0), Identifier::Id(0));
        let Done::Purged { groups, intent } = command(handle, Command::PurgeTopic { stream, topic }).await else {
            panic!("purged")
        };
        assert_eq!(groups.len(), 1);
        assert!(matches!(handle.call(Request::Purge { group, intent }).await, Ok(Reply::Done)));
        let (polled, _) = poll(handle, group, Strategy::First, 10).await;
        assert_eq!((polled.count, polled.current_offset), (0, 0));
        let offset = handle.call(Request::GetOffset { group, consumer }).await;
        assert!(matches!(&offset, Ok(Reply::Offset(info)) if info.stored_offset.is_none()), "{offset:?}");
        assert_eq!(sent(handle, send(group, numbered(7), &[b"new"])).await, (0, false));
        let stats = handle.stats(&[group, GroupId { number: 99, life: 1 }]).await.expect("answered");
        assert_eq!(stats[0].map(|s| (s.messages, s.segments, s.next_offset)), Some((1, 1, 1)));
        assert_eq!(stats[1], None);
        let gone = handle.call(send(GroupId { number: 99, life: 1 }, numbered(8), &[b"x"])).await;
        assert!(
            matches!(&gone, Ok(Reply::Refused(refusal)) if refusal.code == ErrorCode::PartitionNotFound),
            "{gone:?}"
        );
    });
    assert!(runtime.stop(Duration::from_secs(5)));
    let runtime = start(temp.path(), 2);
    block(async {
        let handle = runtime.handle();
        let group = handle.metadata().read(|state| {
            state.all_partitions().next().map(|p| GroupId { number: p.group.number, life: p.group.life })
        });
        let (_, found) = poll(handle, group.expect("there"), Strategy::First, 10).await;
        assert_eq!(found, [(0, b"new".to_vec())]);
    });
    assert!(runtime.stop(Duration::from_secs(5)));
}

#[test]
fn segments_roll_and_a_reader_crosses_them() {
    let temp = tempfile::tempdir().expect("temp");
    let runtime = start(temp.path(), 1);
    let payload = vec![7u8; 100_000];
    block(async {
        let handle = runtime.handle();
        let group = topic(handle, "t", 1).await[0];
        for n in 0..60u64 {
            assert_eq!(sent(handle, send(group, Identity::default(), &[&payload])).await.0, n);
        }
        let (polled, found) = poll(handle, group, Strategy::First, 60).await;
        assert_eq!((found.len(), polled.first_offset), (60, 0));
        let mut next = 0;
        while next < 60 {
            let (_, found) = poll(handle, group, Strategy::Offset(next), 7).await;
            assert_eq!(found[0].0, next);
            next += found.len() as u64;
        }
        let stats = handle.stats(&[group]).await.expect("answered")[0].expect("known");
        assert_eq!((stats.messages, stats.segments), (60, 6));
    });
    assert!(runtime.stop(Duration::from_secs(5)));
    let runtime = start(temp.path(), 1);
    block(async {
        let group = GroupId { number: 1, life: 3 };
        let (_, found) = poll(runtime.handle(), group, Strategy::First, 100).await;
        assert_eq!(found.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), (0..60).collect::<Vec<_>>());
        assert!(found.iter().all(|(_, body)| *body == payload));
    });
    assert!(runtime.stop(Duration::from_secs(5)));
}
