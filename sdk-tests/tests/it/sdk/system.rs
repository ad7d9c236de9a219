//! Clients, statistics, the roster and the option catalogue.

use crate::support::{Context, Transport, id, messages, numbered};
use iggy::prelude::*;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

over_both_transports!(reports_one_healthy_leader, counts_what_was_done, describes_the_topic_options);
over_tcp!(tells_a_client_about_itself, lists_connected_clients);

async fn reports_one_healthy_leader(context: &Context) {
    let metadata = context.client.get_cluster_metadata().await.expect("cluster metadata");
    assert_eq!(metadata.nodes.len(), 1, "{metadata:?}");
    let node = &metadata.nodes[0];
    assert!(!metadata.name.is_empty() && !node.name.is_empty(), "{metadata:?}");
    assert_eq!((node.role, node.status), (ClusterNodeRole::Leader, ClusterNodeStatus::Healthy));
    assert_eq!(node.ip, "127.0.0.1");
    assert_eq!(node.endpoints.tcp, context.server.tcp().port());
    assert_eq!(node.endpoints.http, context.server.http().port());
}

async fn counts_what_was_done(context: &Context) {
    let started = IggyTimestamp::now().as_micros();
    let empty = context.client.get_stats().await.expect("stats");
    let counts =
        (empty.streams_count, empty.topics_count, empty.partitions_count, empty.segments_count, empty.messages_count);
    assert_eq!(counts, (0, 0, 0, 0, 0));

    context.create("a", "t1", 1).await;
    context.create_topic("a", "t2", 2).await;
    context.create("b", "t3", 3).await;
    context.send("a", "t2", 1, &mut messages(numbered(0, 7))).await;
    context.send("b", "t3", 2, &mut messages(numbered(7, 5))).await;

    let stats = context.client.get_stats().await.expect("stats");
    let counts = (stats.streams_count, stats.topics_count, stats.partitions_count, stats.segments_count);
    assert_eq!(counts, (2, 3, 6, 6));
    assert_eq!(stats.messages_count, 12);
    let streams = context.client.get_streams().await.expect("streams");
    let bytes: u64 = streams.iter().map(|stream| stream.size.as_bytes_u64()).sum();
    let payloads: usize = numbered(0, 12).iter().map(String::len).sum();
    assert_eq!(stats.messages_size_bytes.as_bytes_u64(), bytes);
    assert!(bytes >= (payloads + 12 * 48) as u64, "{bytes} bytes cannot hold 12 messages of {payloads} bytes");
    assert_eq!(stats.consumer_groups_count, 0);
    if context.transport == Transport::Tcp {
        assert_eq!(stats.clients_count, 1);
    }
    assert_eq!(stats.process_id, context.server.pid());
    assert!(stats.memory_usage.as_bytes_u64() > 0 && stats.total_memory > stats.memory_usage);
    assert!(stats.available_memory.as_bytes_u64() > 0);
    assert!(stats.threads_count > 0);
    assert!(stats.total_disk_space >= stats.free_disk_space && stats.free_disk_space.as_bytes_u64() > 0);
    assert!(stats.start_time.as_micros() <= started && stats.start_time.as_micros() > started - 60_000_000);
    assert!(stats.run_time.as_micros() > 0 && stats.run_time.as_micros() < 120_000_000);
    let texts = [&stats.hostname, &stats.os_name, &stats.os_version, &stats.kernel_version, &stats.iggy_server_version];
    assert!(texts.iter().all(|text| !text.is_empty()), "{texts:?}");
    assert!(stats.iggy_server_semver.is_some_and(|version| version > 0), "{:?}", stats.iggy_server_semver);

    context.client.delete_stream(&id("b")).await.expect("delete stream");
    let after = context.client.get_stats().await.expect("stats");
    assert_eq!((after.streams_count, after.topics_count, after.partitions_count, after.messages_count), (1, 2, 3, 7));
}

async fn describes_the_topic_options(context: &Context) {
    let mut catalogue = context.client.describe_options(OptionsScope::Topic).await.expect("describe topic options");
    catalogue.sort_by(|a, b| a.key.cmp(&b.key));
    let entry = |key: &str, kind, default: &[u8]| (key.to_owned(), kind, default.to_vec());
    let expected = [
        entry("compression_algorithm", HeaderKind::String, b"none"),
        entry("consumer_offset_durability", HeaderKind::String, b"replicated"),
        entry("durability", HeaderKind::String, b"replicated"),
        entry("max_topic_size", HeaderKind::Uint64, &u64::MAX.to_le_bytes()),
        entry("message_expiry", HeaderKind::Uint64, &u64::MAX.to_le_bytes()),
        entry("messages_required_to_save", HeaderKind::Uint32, &1024u32.to_le_bytes()),
        entry("preallocate_segments", HeaderKind::Bool, &[0]),
        entry("segment_size", HeaderKind::Uint64, &(1u64 << 30).to_le_bytes()),
        entry("size_of_messages_required_to_save", HeaderKind::Uint64, &(1u64 << 20).to_le_bytes()),
    ];
    let seen: Vec<_> = catalogue.iter().map(|spec| (spec.key.clone(), spec.kind, spec.default_value.clone())).collect();
    assert_eq!(seen, expected);
    assert!(catalogue.iter().all(|spec| !spec.description.is_empty()), "every option says what it does");
    for scope in [OptionsScope::Stream, OptionsScope::User] {
        assert!(context.client.describe_options(scope).await.expect("describe").is_empty(), "{scope:?}");
    }
}

async fn tells_a_client_about_itself(context: &Context) {
    let me = context.client.get_me().await.expect("get me");
    assert_eq!(me.user_id, Some(0));
    assert_eq!(me.transport, "TCP");
    assert!(me.client_id > 0);
    assert!(me.address.starts_with("127.0.0.1:"), "{}", me.address);
    assert_eq!(me.consumer_groups_count, 0);
    let same = context.client.get_client(me.client_id).await.expect("get client").expect("this client is connected");
    assert_eq!((same.client_id, same.address, same.user_id), (me.client_id, me.address, me.user_id));
    assert!(context.client.get_client(me.client_id.wrapping_add(1_000_000)).await.expect("get client").is_none());
}

async fn lists_connected_clients(context: &Context) {
    let other = context.another().await;
    let listed = context.client.get_clients().await.expect("list clients");
    let mut expected = BTreeSet::from([context.client.get_me().await.expect("me").client_id]);
    expected.insert(other.get_me().await.expect("me").client_id);
    assert_eq!(expected.len(), 2, "two clients have two numbers");
    assert_eq!(listed.iter().map(|client| client.client_id).collect::<BTreeSet<_>>(), expected);
    assert!(listed.iter().all(|client| client.user_id == Some(0) && client.transport == "TCP"), "{listed:?}");

    other.shutdown().await.expect("shutdown");
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let left = context.client.get_clients().await.expect("list clients").len();
        if left == 1 {
            return;
        }
        assert!(Instant::now() < deadline, "{left} clients are listed 5 s after one of two left");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
