//! The server about itself.

use super::groups_of;
use crate::caller::Caller;
use crate::error::GatewayError;
use crate::gateway::Gateway;
use crate::views::{ClientInfo, ClusterMetadata, NodeRole, NodeStatus, NodeView, Stats};
use whippet_vsr::GroupId;

impl Gateway {
    /// Numbers about the process, the machine and the data.
    ///
    /// # Errors
    /// 58 when the server is too busy.
    pub async fn stats(&self, _caller: &Caller) -> Result<Stats, GatewayError> {
        let (streams_count, topics_count, groups) = self.metadata(|state| {
            let topics = state.streams().map(|stream| stream.topics.len() as u32).sum::<u32>();
            let groups: Vec<GroupId> =
                state.streams().flat_map(|stream| stream.topics.values().flat_map(groups_of)).collect();
            (state.streams().len() as u32, topics, groups)
        });
        let mut stats =
            Stats { streams_count, topics_count, partitions_count: groups.len() as u32, ..Stats::default() };
        for partition in self.partition_stats(&groups).await? {
            stats.messages_size_bytes += partition.size_bytes;
            stats.messages_count += partition.messages;
            stats.segments_count += partition.segments;
        }
        stats.clients_count = self.connections().count() as u32;
        self.process().fill(&mut stats, &self.settings().data_dir, self.settings().version);
        Ok(stats)
    }

    /// The nodes, as clients reach them.
    pub fn cluster_metadata(&self) -> ClusterMetadata {
        let settings = self.settings();
        let status = if self.runtime().is_stopping() { NodeStatus::Stopping } else { NodeStatus::Healthy };
        let node = NodeView {
            name: settings.node_name.clone(),
            ip: settings.advertised_address.clone(),
            endpoints: settings.endpoints,
            role: NodeRole::Leader,
            status,
        };
        ClusterMetadata { name: settings.cluster_name.clone(), nodes: vec![node] }
    }

    /// Number of connections of all transports.
    pub fn clients_count(&self) -> usize {
        self.connections().count()
    }

    /// All connections, by number.
    ///
    /// # Errors
    /// None yet.
    pub fn clients(&self, _caller: &Caller) -> Result<Vec<ClientInfo>, GatewayError> {
        Ok(self.connections().all())
    }

    /// One connection, `None` when there is none with that number.
    ///
    /// # Errors
    /// None yet.
    pub fn client(&self, _caller: &Caller, id: u32) -> Result<Option<ClientInfo>, GatewayError> {
        Ok(self.connections().get(id))
    }
}
