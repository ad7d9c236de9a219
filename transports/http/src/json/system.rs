//! The server, its cluster, its clients.

use crate::json::size::size_text;
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// What answers at the root.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Welcome {
    /// Name of the product.
    #[schema(example = "whippet")]
    pub name: String,
    /// Version of the server.
    pub version: String,
    /// Where to go from here: paths by what they are.
    pub links: BTreeMap<String, String>,
}

/// Numbers of the server and its process.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Stats {
    /// Id of the process.
    #[schema(format = Int64, minimum = 0)]
    pub process_id: u32,
    /// CPU time of the process, in percent of one core.
    pub cpu_usage: f32,
    /// CPU time of the machine, in percent.
    pub total_cpu_usage: f32,
    /// Memory of the process.
    #[schema(example = "42 MiB")]
    pub memory_usage: String,
    /// Memory of the machine or of the limit that holds for the process.
    #[schema(example = "16 GiB")]
    pub total_memory: String,
    /// Memory that is free for use.
    #[schema(example = "8 GiB")]
    pub available_memory: String,
    /// Microseconds since the server started.
    pub run_time: u64,
    /// When the server started, in microseconds since 1970.
    pub start_time: u64,
    /// Bytes that the process has read.
    #[schema(example = "1 MB")]
    pub read_bytes: String,
    /// Bytes that the process has written.
    #[schema(example = "1 MB")]
    pub written_bytes: String,
    /// Bytes of all messages.
    #[schema(example = "1 MB")]
    pub messages_size_bytes: String,
    /// Streams.
    #[schema(format = Int64, minimum = 0)]
    pub streams_count: u32,
    /// Topics.
    #[schema(format = Int64, minimum = 0)]
    pub topics_count: u32,
    /// Partitions.
    #[schema(format = Int64, minimum = 0)]
    pub partitions_count: u32,
    /// Segments.
    #[schema(format = Int64, minimum = 0)]
    pub segments_count: u32,
    /// Messages.
    pub messages_count: u64,
    /// Connected clients.
    #[schema(format = Int64, minimum = 0)]
    pub clients_count: u32,
    /// Consumer groups.
    #[schema(format = Int64, minimum = 0)]
    pub consumer_groups_count: u32,
    /// Name of the machine.
    pub hostname: String,
    /// Name of the operating system.
    pub os_name: String,
    /// Version of the operating system.
    pub os_version: String,
    /// Version of the kernel.
    pub kernel_version: String,
    /// Version of the server.
    pub iggy_server_version: String,
    /// The same as a number: 1.2.3 is 1002003.
    #[schema(required, format = Int64, minimum = 0)]
    pub iggy_server_semver: Option<u32>,
    /// Cache hits and misses, by `stream-topic-partition`.
    pub cache_metrics: BTreeMap<String, CacheMetrics>,
    /// Threads of the process.
    #[schema(format = Int64, minimum = 0)]
    pub threads_count: u32,
    /// Free space where the data lies.
    #[schema(example = "10 GB")]
    pub free_disk_space: String,
    /// Whole space where the data lies.
    #[schema(example = "10 GB")]
    pub total_disk_space: String,
}

impl From<&whippet_gateway::Stats> for Stats {
    fn from(stats: &whippet_gateway::Stats) -> Self {
        Self {
            process_id: stats.process_id,
            cpu_usage: stats.cpu_usage,
            total_cpu_usage: stats.total_cpu_usage,
            memory_usage: size_text(stats.memory_usage),
            total_memory: size_text(stats.total_memory),
            available_memory: size_text(stats.available_memory),
            run_time: stats.run_time,
            start_time: stats.start_time,
            read_bytes: size_text(stats.read_bytes),
            written_bytes: size_text(stats.written_bytes),
            messages_size_bytes: size_text(stats.messages_size_bytes),
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
            cache_metrics: BTreeMap::new(),
            threads_count: stats.threads_count,
            free_disk_space: size_text(stats.free_disk_space),
            total_disk_space: size_text(stats.total_disk_space),
        }
    }
}

/// Cache hits and misses of a partition.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct CacheMetrics {
    /// Hits.
    pub hits: u64,
    /// Misses.
    pub misses: u64,
    /// Hits of all look-ups, 0 to 1.
    pub hit_ratio: f32,
}

/// The cluster.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ClusterMetadata {
    /// Name of the cluster.
    pub name: String,
    /// Its nodes.
    pub nodes: Vec<ClusterNode>,
}

/// A node of the cluster.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ClusterNode {
    /// Name of the node.
    pub name: String,
    /// Address at which clients reach it.
    pub ip: String,
    /// Ports at that address; 0 where nothing listens.
    pub endpoints: Endpoints,
    /// `leader` or `follower`.
    #[schema(example = "leader")]
    pub role: String,
    /// `healthy`, `starting`, `stopping`, `unreachable`, `maintenance` or `unknown`.
    #[schema(example = "healthy")]
    pub status: String,
}

impl From<&whippet_gateway::ClusterMetadata> for ClusterMetadata {
    fn from(cluster: &whippet_gateway::ClusterMetadata) -> Self {
        let nodes = cluster.nodes.iter().map(|node| ClusterNode {
            name: node.name.clone(),
            ip: node.ip.clone(),
            endpoints: Endpoints {
                tcp: node.endpoints.tcp,
                quic: node.endpoints.quic,
                http: node.endpoints.http,
                websocket: node.endpoints.websocket,
            },
            role: node.role.as_str().to_owned(),
            status: node.status.as_str().to_owned(),
        });
        Self { name: cluster.name.clone(), nodes: nodes.collect() }
    }
}

/// Ports of a node.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct Endpoints {
    /// TCP.
    #[schema(format = Int64, minimum = 0, maximum = 65535)]
    pub tcp: u16,
    /// QUIC.
    #[schema(format = Int64, minimum = 0, maximum = 65535)]
    pub quic: u16,
    /// HTTP.
    #[schema(format = Int64, minimum = 0, maximum = 65535)]
    pub http: u16,
    /// WebSocket.
    #[schema(format = Int64, minimum = 0, maximum = 65535)]
    pub websocket: u16,
}

/// A connected client.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ClientInfo {
    /// Number of the client on this node.
    #[schema(format = Int64, minimum = 0)]
    pub client_id: u32,
    /// The user, once the client has logged in.
    #[schema(required, format = Int64, minimum = 0)]
    pub user_id: Option<u32>,
    /// Where it comes from.
    pub address: String,
    /// What it speaks.
    #[schema(example = "TCP")]
    pub transport: String,
    /// Consumer groups that it is a member of.
    #[schema(format = Int64, minimum = 0)]
    pub consumer_groups_count: u32,
}

/// A connected client with its consumer groups.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ClientInfoDetails {
    /// Number of the client on this node.
    #[schema(format = Int64, minimum = 0)]
    pub client_id: u32,
    /// The user, once the client has logged in.
    #[schema(required, format = Int64, minimum = 0)]
    pub user_id: Option<u32>,
    /// Where it comes from.
    pub address: String,
    /// What it speaks.
    #[schema(example = "TCP")]
    pub transport: String,
    /// Consumer groups that it is a member of.
    #[schema(format = Int64, minimum = 0)]
    pub consumer_groups_count: u32,
    /// The groups.
    pub consumer_groups: Vec<ConsumerGroupMembership>,
}

impl From<&whippet_gateway::ClientInfo> for ClientInfo {
    fn from(client: &whippet_gateway::ClientInfo) -> Self {
        Self {
            client_id: client.client_id,
            user_id: client.user_id,
            address: client.address.to_string(),
            transport: client.transport.as_str().to_owned(),
            consumer_groups_count: client.consumer_groups_count,
        }
    }
}

impl From<&whippet_gateway::ClientInfo> for ClientInfoDetails {
    fn from(client: &whippet_gateway::ClientInfo) -> Self {
        let ClientInfo { client_id, user_id, address, transport, consumer_groups_count } = client.into();
        Self { client_id, user_id, address, transport, consumer_groups_count, consumer_groups: Vec::new() }
    }
}

/// A consumer group that a client is a member of.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct ConsumerGroupMembership {
    /// The stream.
    #[schema(format = Int64, minimum = 0)]
    pub stream_id: u32,
    /// The topic.
    #[schema(format = Int64, minimum = 0)]
    pub topic_id: u32,
    /// The group.
    #[schema(format = Int64, minimum = 0)]
    pub group_id: u32,
}
