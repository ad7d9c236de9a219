//! What operations return: plain values that each front end writes in its own form.

use crate::settings::Endpoints;
use bytes::{Bytes, BytesMut};
use std::net::SocketAddr;
use std::ops::Range;
use whippet_metadata::TopicOptions;
use whippet_metadata::options::Durability;
use whippet_protocol::{Identifier, Name};
use whippet_shard::Strategy;

/// A stream. Sizes and counts are sums over its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamView {
    /// Id, from 0 on.
    pub id: u32,
    /// Unique name.
    pub name: Name,
    /// Microseconds since 1970.
    pub created_at: u64,
    /// Bytes of batches.
    pub size_bytes: u64,
    /// Messages.
    pub messages: u64,
    /// Topics.
    pub topics_count: u32,
}

/// A stream with its topics.
#[derive(Clone, Debug)]
pub struct StreamDetails {
    /// The stream.
    pub stream: StreamView,
    /// Its topics, by id.
    pub topics: Vec<TopicView>,
}

/// A topic.
#[derive(Clone, Debug)]
pub struct TopicView {
    /// Id within the stream, from 0 on.
    pub id: u32,
    /// Unique name within the stream.
    pub name: Name,
    /// Microseconds since 1970.
    pub created_at: u64,
    /// Bytes of batches.
    pub size_bytes: u64,
    /// Messages.
    pub messages: u64,
    /// Partitions.
    pub partitions_count: u32,
    /// Effective options with their provenance.
    pub options: TopicOptions,
}

/// A topic with its partitions.
#[derive(Clone, Debug)]
pub struct TopicDetails {
    /// The topic.
    pub topic: TopicView,
    /// Its partitions, by id.
    pub partitions: Vec<PartitionView>,
}

/// A partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionView {
    /// Id within the topic, from 0 on without gaps.
    pub id: u32,
    /// Microseconds since 1970.
    pub created_at: u64,
    /// Segments, at least 1.
    pub segments: u32,
    /// Offset of the last message, 0 when there is none.
    pub current_offset: u64,
    /// Bytes of batches.
    pub size_bytes: u64,
    /// Messages.
    pub messages: u64,
}

/// How a producer names the partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Partitioning {
    /// The server spreads batches evenly.
    Balanced,
    /// This partition.
    Partition(u32),
    /// The partition that the key's hash names; 1 to 255 bytes.
    Key(Vec<u8>),
}

/// A batch to append.
#[derive(Debug)]
pub struct SendArgs {
    /// The stream.
    pub stream: Identifier,
    /// The topic.
    pub topic: Identifier,
    /// The partition.
    pub partitioning: Partitioning,
    /// A buffer in which the batch lies, with at least 192 bytes before it.
    pub buffer: BytesMut,
    /// Where the batch lies; it ends where the buffer ends.
    pub batch: Range<usize>,
    /// Messages in the batch.
    pub count: u32,
}

/// Where a batch was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmation {
    /// The stream.
    pub stream_id: u32,
    /// The topic.
    pub topic_id: u32,
    /// The partition.
    pub partition_id: u32,
    /// Offset of the first message.
    pub base_offset: u64,
    /// What was waited for.
    pub durability: Durability,
}

/// Whose position is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsumerRef {
    /// A plain consumer.
    Single(Identifier),
    /// A consumer group.
    Group(Identifier),
}

/// What to read.
#[derive(Clone, Debug)]
pub struct PollArgs {
    /// For whom.
    pub consumer: ConsumerRef,
    /// The stream.
    pub stream: Identifier,
    /// The topic.
    pub topic: Identifier,
    /// The partition; a plain consumer that names none means 0.
    pub partition: Option<u32>,
    /// From where on.
    pub strategy: Strategy,
    /// At most this many messages.
    pub count: u32,
    /// Store the offset of the last returned message.
    pub auto_commit: bool,
}

/// What was read.
#[derive(Clone, Debug, Default)]
pub struct PollResult {
    /// The partition.
    pub partition_id: u32,
    /// Offset of its last message, 0 when there is none.
    pub current_offset: u64,
    /// Messages in the chunks.
    pub count: u32,
    /// Whole batches, when concatenated.
    pub chunks: Vec<Bytes>,
}

/// A stored offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerOffset {
    /// The partition.
    pub partition_id: u32,
    /// Offset of its last message.
    pub current_offset: u64,
    /// What is stored.
    pub stored_offset: u64,
}

/// How a connection came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Transport {
    /// TCP, binary.
    Tcp = 1,
    /// QUIC, binary.
    Quic = 2,
    /// HTTP.
    Http = 3,
    /// WebSocket.
    WebSocket = 4,
}

impl Transport {
    /// The name that replies show.
    pub const fn as_str(self) -> &'static str {
        match self {
            Transport::Tcp => "TCP",
            Transport::Quic => "QUIC",
            Transport::Http => "HTTP",
            Transport::WebSocket => "WebSocket",
        }
    }
}

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientInfo {
    /// Number of the connection on this node, from 1 on.
    pub client_id: u32,
    /// The user, once logged in.
    pub user_id: Option<u32>,
    /// From where.
    pub address: SocketAddr,
    /// How.
    pub transport: Transport,
    /// Consumer groups that it is a member of.
    pub consumer_groups_count: u32,
}

/// What a node does in the cluster, as clients see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NodeRole {
    /// Takes writes of the metadata.
    Leader = 0,
    /// Follows.
    Follower = 1,
}

impl NodeRole {
    /// The name that replies show.
    pub const fn as_str(self) -> &'static str {
        match self {
            NodeRole::Leader => "leader",
            NodeRole::Follower => "follower",
        }
    }
}

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NodeStatus {
    /// Serves.
    Healthy = 0,
    /// Is starting.
    Starting = 1,
    /// Is stopping.
    Stopping = 2,
    /// Does not answer its peers.
    Unreachable = 3,
}

impl NodeStatus {
    /// The name that replies show.
    pub const fn as_str(self) -> &'static str {
        match self {
            NodeStatus::Healthy => "healthy",
            NodeStatus::Starting => "starting",
            NodeStatus::Stopping => "stopping",
            NodeStatus::Unreachable => "unreachable",
        }
    }
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// Address for clients.
    pub ip: String,
    /// Ports for clients.
    pub endpoints: Endpoints,
    /// Its role.
    pub role: NodeRole,
    /// How it is.
    pub status: NodeStatus,
}

/// The cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMetadata {
    /// Its name.
    pub name: String,
    /// Its nodes.
    pub nodes: Vec<NodeView>,
}

/// Numbers about the process, the machine and the data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Pid of the server.
    pub process_id: u32,
    /// Cores that the process used since the question before, in percent of one core.
    pub cpu_usage: f32,
    /// The same for the whole machine, in percent of all cores.
    pub total_cpu_usage: f32,
    /// Resident memory of the process, bytes.
    pub memory_usage: u64,
    /// Memory of the machine, bytes.
    pub total_memory: u64,
    /// Memory that is available, bytes.
    pub available_memory: u64,
    /// Time since the start, microseconds.
    pub run_time: u64,
    /// Time of the start, microseconds since 1970.
    pub start_time: u64,
    /// Bytes that the process read from storage.
    pub read_bytes: u64,
    /// Bytes that the process wrote to storage.
    pub written_bytes: u64,
    /// Bytes of batches in all partitions.
    pub messages_size_bytes: u64,
    /// Streams.
    pub streams_count: u32,
    /// Topics.
    pub topics_count: u32,
    /// Partitions.
    pub partitions_count: u32,
    /// Segments.
    pub segments_count: u32,
    /// Messages.
    pub messages_count: u64,
    /// Connections of all transports.
    pub clients_count: u32,
    /// Consumer groups.
    pub consumer_groups_count: u32,
    /// Name of the machine.
    pub hostname: String,
    /// Name of the operating system.
    pub os_name: String,
    /// Its version.
    pub os_version: String,
    /// Version of the kernel.
    pub kernel_version: String,
    /// Version of the server.
    pub server_version: String,
    /// The same as a number: 1.2.3 is 1002003.
    pub server_semver: Option<u32>,
    /// Threads of the process.
    pub threads_count: u32,
    /// Free space where the data lies, bytes.
    pub free_disk_space: u64,
    /// Space where the data lies, bytes.
    pub total_disk_space: u64,
}
