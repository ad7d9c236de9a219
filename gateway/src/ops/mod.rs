//! What callers can do. One file a family of operations; every front end calls these and nothing else.

mod messages;
mod offsets;
mod partitions;
mod streams;
mod system;
mod topics;

pub(crate) use messages::{Target, borrowed};
pub(crate) use streams::wrong;

use crate::error::GatewayError;
use crate::gateway::Gateway;
use crate::views::{PartitionView, TopicView};
use whippet_metadata::state::Topic;
use whippet_shard::PartitionStats;
use whippet_vsr::GroupId;

pub(crate) fn groups_of(topic: &Topic) -> impl Iterator<Item = GroupId> + '_ {
    topic.partitions.iter().map(|partition| GroupId { number: partition.group.number, life: partition.group.life })
}

impl Gateway {
    /// Numbers of partitions; those that are gone meanwhile count as empty.
    pub(crate) async fn partition_stats(&self, groups: &[GroupId]) -> Result<Vec<PartitionStats>, GatewayError> {
        let stats = self.runtime().stats(groups).await?;
        Ok(stats
            .into_iter()
            .map(|stats| stats.unwrap_or(PartitionStats { segments: 1, ..PartitionStats::default() }))
            .collect())
    }
}

pub(crate) fn topic_view(topic: &Topic, stats: &[PartitionStats]) -> TopicView {
    TopicView {
        id: topic.id,
        name: topic.name.clone(),
        created_at: topic.created_at,
        size_bytes: stats.iter().map(|stats| stats.size_bytes).sum(),
        messages: stats.iter().map(|stats| stats.messages).sum(),
        partitions_count: topic.partitions.len() as u32,
        options: topic.options.clone(),
    }
}

pub(crate) fn partition_views(topic: &Topic, stats: &[PartitionStats]) -> Vec<PartitionView> {
    let numbered = topic.partitions.iter().zip(stats).zip(0u32..);
    numbered
        .map(|((partition, stats), id)| PartitionView {
            id,
            created_at: partition.created_at,
            segments: stats.segments,
            current_offset: stats.current_offset,
            size_bytes: stats.size_bytes,
            messages: stats.messages,
        })
        .collect()
}
