//! What the server says about itself.

use crate::node::with_node;
use std::net::SocketAddr;
use whippet_gateway::{Refused, Transport};
use whippet_protocol::Command;
use whippet_protocol::wire::responses::clients::get_client::ClientDetailsResponse;
use whippet_protocol::wire::responses::clients::get_clients::GetClientsResponse;
use whippet_protocol::wire::responses::system::describe_options::DescribeOptionsResponse;
use whippet_protocol::wire::responses::system::get_cluster_metadata::ClusterMetadataResponse;
use whippet_protocol::wire::responses::system::get_stats::StatsResponse;
use whippet_protocol::wire::{WireDecode, requests};

#[test]
fn stats_count_what_there_is() {
    with_node(async |node| {
        let mut peer = node.peer().await;
        let _other = node.anonymous();
        peer.create_stream("s").await.payload();
        peer.create_topic("t", 3).await.payload();
        let answer = peer.call(Command::GetStats, &[]).await;
        let stats = StatsResponse::decode_from(answer.payload()).expect("readable");
        assert_eq!((stats.streams_count, stats.topics_count, stats.partitions_count), (1, 1, 3));
        assert_eq!((stats.segments_count, stats.messages_count, stats.messages_size_bytes), (3, 0, 0));
        assert_eq!((stats.clients_count, stats.process_id), (2, std::process::id()));
        assert_eq!((stats.iggy_server_version.as_str(), stats.iggy_server_semver), ("0.1.0", Some(1000)));
        assert!(stats.memory_usage > 0 && stats.total_memory > stats.memory_usage && stats.total_disk_space > 0);
        assert!(stats.run_time > 0 && stats.start_time > 1_600_000_000_000_000 && stats.threads_count >= 3);
        for text in [&stats.hostname, &stats.os_name, &stats.os_version, &stats.kernel_version] {
            assert!(!text.is_empty(), "{stats:?}");
        }
        node
    });
}

#[test]
fn the_roster_has_one_healthy_leader_with_the_advertised_address() {
    with_node(async |node| {
        let mut peer = node.peer().await;
        let answer = peer.call(Command::GetClusterMetadata, &[]).await;
        let cluster = ClusterMetadataResponse::decode_from(answer.payload()).expect("readable");
        assert_eq!((cluster.name.as_str(), cluster.nodes.len()), ("single-node", 1));
        let here = &cluster.nodes[0];
        assert_eq!((here.name.as_str(), here.ip.as_str()), ("whippet-node", "10.1.2.3"));
        assert_eq!((here.tcp_port, here.quic_port, here.http_port, here.websocket_port), (8090, 0, 3000, 0));
        assert_eq!((here.role, here.status), (0, 0));
        node
    });
}

#[test]
fn options_are_described_by_scope() {
    with_node(async |node| {
        let mut peer = node.peer().await;
        let answer = peer.call(Command::DescribeOptions, &[1]).await;
        let topics = DescribeOptionsResponse::decode_from(answer.payload()).expect("readable");
        let keys: Vec<&str> = topics.entries.iter().map(|entry| entry.key.as_str()).collect();
        assert!(keys.contains(&"durability") && keys.contains(&"segment_size"), "{keys:?}");
        assert_eq!(keys.len(), 9, "{keys:?}");
        for scope in [2, 3] {
            assert_eq!(peer.call(Command::DescribeOptions, &[scope]).await.payload(), [0; 4], "scope {scope}");
        }
        for body in [&[0][..], &[4], &[], &[1, 1]] {
            assert_eq!(peer.call(Command::DescribeOptions, body).await.code(), 3, "{body:?}");
        }
        node
    });
}

#[test]
fn clients_are_listed_also_before_they_log_in() {
    with_node(async |node| {
        let mut peer = node.peer().await;
        let silent = node.anonymous();
        let answer = peer.call(Command::GetMe, &[]).await;
        let me = ClientDetailsResponse::decode_from(answer.payload()).expect("readable").client;
        assert!(me.client_id > 0);
        assert_eq!((me.client_id, me.user_id, me.transport), (peer.number, 0, 1));
        assert_eq!(me.address, peer.address.to_string());

        let answer = peer.call(Command::GetClients, &[]).await;
        let all = GetClientsResponse::decode_from(answer.payload()).expect("readable").clients;
        let seen: Vec<(u32, u32)> = all.iter().map(|client| (client.client_id, client.user_id)).collect();
        assert_eq!(seen, [(peer.number, 0), (silent.number, u32::MAX)]);

        let get = |client_id| requests::system::get_client::GetClientRequest { client_id };
        let answer = peer.ask(Command::GetClient, &get(silent.number)).await;
        let found = ClientDetailsResponse::decode_from(answer.payload()).expect("readable").client;
        assert_eq!((found.client_id, found.user_id), (silent.number, u32::MAX));
        let number = silent.number;
        drop(silent);
        assert_eq!(peer.ask(Command::GetClient, &get(number)).await.payload(), b"", "gone");
        node
    });
}

#[test]
fn connections_have_a_limit() {
    with_node(async |node| {
        let address = |port: u16| SocketAddr::from(([192, 0, 2, 1], port));
        let all: Vec<_> =
            (0..1000).map(|port| node.gateway.connect(Transport::Http, address(port)).expect("room")).collect();
        assert_eq!(node.gateway.connect(Transport::Tcp, address(2000)).err(), Some(Refused::Total(1000)));
        drop(all);
        assert!(node.gateway.connect(Transport::Tcp, address(2000)).is_ok());
        node
    });
}
