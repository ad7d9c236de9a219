//! Views as the wire has them. Cold path: the types of the protocol crate do the work.

use crate::views::{
    ClientInfo, ClusterMetadata, ConsumerOffset, NodeView, PartitionView, Stats, StreamDetails, StreamView,
    TopicDetails, TopicView,
};
use bytes::{BufMut, Bytes, BytesMut};
use whippet_metadata::TopicOptions;
use whippet_metadata::options::{Compression, TOPIC_OPTIONS};
use whippet_protocol::wire::responses::clients::client_response::ClientResponse;
use whippet_protocol::wire::responses::consumer_offsets::get_consumer_offset::ConsumerOffsetResponse;
use whippet_protocol::wire::responses::streams::{StreamResponse, TopicHeader};
use whippet_protocol::wire::responses::system::describe_options::{DescribeOptionsResponse, OptionDescriptor};
use whippet_protocol::wire::responses::system::get_cluster_metadata::{ClusterMetadataResponse, ClusterNodeResponse};
use whippet_protocol::wire::responses::system::get_stats::StatsResponse;
use whippet_protocol::wire::responses::topics::get_topic::PartitionResponse;
use whippet_protocol::wire::{WireEncode, WireName, WireOptions};
use whippet_protocol::{ErrorCode, Name};

/// Not logged in, in client records.
const NO_USER: u32 = u32::MAX;

fn wire_name(name: &Name) -> WireName {
    WireName::new(name.as_str()).expect("names have 1 to 255 bytes")
}

/// Options that are (or are not) explicit, as a block.
fn options(options: &TopicOptions, explicit: bool) -> WireOptions {
    let mut block = BytesMut::new();
    for entry in options.entries().into_iter().filter(|entry| entry.explicit == explicit) {
        let value = entry.value.wire_bytes();
        block.put_u8(2);
        block.put_u32_le(entry.key.len() as u32);
        block.put_slice(entry.key.as_bytes());
        block.put_u8(entry.kind as u8);
        block.put_u32_le(value.len() as u32);
        block.put_slice(&value);
    }
    WireOptions::from_bytes(block.freeze()).expect("the catalogue is a valid block")
}

pub(super) fn stream(out: &mut BytesMut, view: &StreamView) {
    StreamResponse {
        id: view.id,
        created_at: view.created_at,
        topics_count: view.topics_count,
        size_bytes: view.size_bytes,
        messages_count: view.messages,
        name: wire_name(&view.name),
        options: WireOptions::from_bytes(Bytes::new()).expect("no options are a valid block"),
    }
    .encode(out);
}

pub(super) fn stream_details(out: &mut BytesMut, details: &StreamDetails) {
    stream(out, &details.stream);
    for view in &details.topics {
        topic(out, view);
    }
}

pub(super) fn topic(out: &mut BytesMut, view: &TopicView) {
    TopicHeader {
        id: view.id,
        created_at: view.created_at,
        partitions_count: view.partitions_count,
        message_expiry: view.options.message_expiry_us(),
        compression_algorithm: match view.options.compression() {
            Compression::None => 1,
            Compression::Gzip => 2,
        },
        max_topic_size: view.options.max_topic_size(),
        size_bytes: view.size_bytes,
        messages_count: view.messages,
        name: wire_name(&view.name),
        options: options(&view.options, true),
        derived_options: options(&view.options, false),
    }
    .encode(out);
}

fn partition(out: &mut BytesMut, view: &PartitionView) {
    PartitionResponse {
        id: view.id,
        created_at: view.created_at,
        segments_count: view.segments,
        current_offset: view.current_offset,
        size_bytes: view.size_bytes,
        messages_count: view.messages,
    }
    .encode(out);
}

pub(super) fn topic_details(out: &mut BytesMut, details: &TopicDetails) {
    topic(out, &details.topic);
    for view in &details.partitions {
        partition(out, view);
    }
}

pub(super) fn topics(out: &mut BytesMut, views: &[TopicView]) {
    out.put_u32_le(views.len() as u32);
    for view in views {
        topic(out, view);
    }
}

pub(super) fn offset(out: &mut BytesMut, offset: &ConsumerOffset) {
    ConsumerOffsetResponse {
        partition_id: offset.partition_id,
        current_offset: offset.current_offset,
        stored_offset: offset.stored_offset,
    }
    .encode(out);
}

pub(super) fn client(out: &mut BytesMut, info: &ClientInfo) {
    ClientResponse {
        client_id: info.client_id,
        user_id: info.user_id.unwrap_or(NO_USER),
        transport: info.transport as u8,
        address: info.address.to_string(),
        consumer_groups_count: info.consumer_groups_count,
    }
    .encode(out);
}

fn node_response(node: &NodeView) -> ClusterNodeResponse {
    ClusterNodeResponse {
        name: node.name.clone(),
        ip: node.ip.clone(),
        tcp_port: node.endpoints.tcp,
        quic_port: node.endpoints.quic,
        http_port: node.endpoints.http,
        websocket_port: node.endpoints.websocket,
        role: node.role as u8,
        status: node.status as u8,
    }
}

pub(super) fn node(out: &mut BytesMut, node: &NodeView) {
    node_response(node).encode(out);
}

pub(super) fn cluster(out: &mut BytesMut, cluster: &ClusterMetadata) {
    let nodes = cluster.nodes.iter().map(node_response).collect();
    ClusterMetadataResponse { name: cluster.name.clone(), nodes }.encode(out);
}

/// The options of a scope: 1 topics, 2 streams, 3 users.
///
/// # Errors
/// 3 for another scope.
pub(super) fn describe_options(out: &mut BytesMut, scope: u8) -> Result<(), ErrorCode> {
    let entries = match scope {
        1 => TOPIC_OPTIONS
            .iter()
            .map(|spec| OptionDescriptor {
                key: WireName::new(spec.key).expect("option keys are short"),
                kind: spec.kind as u8,
                default_value: Bytes::from(spec.default.wire_bytes().to_vec()),
                description: spec.description.to_owned(),
            })
            .collect(),
        2 | 3 => Vec::new(),
        _ => return Err(ErrorCode::InvalidCommand),
    };
    DescribeOptionsResponse { entries }.encode(out);
    Ok(())
}

pub(super) fn stats(out: &mut BytesMut, stats: &Stats) {
    StatsResponse {
        process_id: stats.process_id,
        cpu_usage: stats.cpu_usage,
        total_cpu_usage: stats.total_cpu_usage,
        memory_usage: stats.memory_usage,
        total_memory: stats.total_memory,
        available_memory: stats.available_memory,
        run_time: stats.run_time,
        start_time: stats.start_time,
        read_bytes: stats.read_bytes,
        written_bytes: stats.written_bytes,
        messages_size_bytes: stats.messages_size_bytes,
        streams_count: stats.streams_count,
        topics_count: stats.topics_count,
        partitions_count: stats.partitions_count,
        segments_count: stats.segments_count,
        messages_count: stats.messages_count,
        clients_count: stats.clients_count,
        consumer_groups_count: stats.consumer_groups_count,
        hostname: stats.hostname.clone(),
        os_name: stats.os_name.clone(),
        os_version: stats.os_version.clone(),
        kernel_version: stats.kernel_version.clone(),
        iggy_server_version: stats.server_version.clone(),
        iggy_server_semver: stats.server_semver,
        cache_metrics: Vec::new(),
        threads_count: stats.threads_count,
        free_disk_space: stats.free_disk_space,
        total_disk_space: stats.total_disk_space,
    }
    .encode(out);
}
