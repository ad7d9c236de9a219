//! What the gateway is told by the configuration.

use std::path::PathBuf;
use std::time::Duration;
use whippet_metadata::TopicDefaults;

/// Ports under which a transport is reachable; 0 for one that is not offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// TCP.
    pub tcp: u16,
    /// QUIC (UDP).
    pub quic: u16,
    /// HTTP.
    pub http: u16,
    /// WebSocket.
    pub websocket: u16,
}

/// Settings of the gateway.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the cluster, as cluster metadata shows it.
    pub cluster_name: String,
    /// Name of this node.
    pub node_name: String,
    /// Address under which clients reach this node.
    pub advertised_address: String,
    /// Ports under which clients reach this node.
    pub endpoints: Endpoints,
    /// Connections of all transports together, at most.
    pub connections_max: usize,
    /// Connections from one address, at most.
    pub connections_per_address_max: usize,
    /// Largest frame after login, in bytes.
    pub frame_size_max: usize,
    /// Password checks at the same time; each takes some 20 MiB and some 30 ms of a core.
    pub logins_at_once: usize,
    /// Longest time that a login waits for its turn.
    pub login_wait: Duration,
    /// Values of topic options that a creation does not set.
    pub topic_defaults: TopicDefaults,
    /// Where the data lies, for the statistics.
    pub data_dir: PathBuf,
    /// Version of the server, such as `0.1.0`.
    pub version: &'static str,
}
