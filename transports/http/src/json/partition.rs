//! Partitions.

use crate::json::size::size_text;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use whippet_gateway::PartitionView;

/// A partition: one ordered log of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Partition {
    /// Number of the partition within its topic, from 0 on.
    #[schema(format = Int64, minimum = 0)]
    pub id: u32,
    /// Microseconds since 1970.
    pub created_at: u64,
    /// Files that the messages lie in, at least 1.
    #[schema(format = Int64, minimum = 0)]
    pub segments_count: u32,
    /// Offset of the last message; 0 when there was none yet.
    pub current_offset: u64,
    /// Bytes of all messages, in the largest unit that is exact.
    #[schema(example = "1.5 KB")]
    pub size: String,
    /// Messages that can be read.
    pub messages_count: u64,
}

impl From<&PartitionView> for Partition {
    fn from(view: &PartitionView) -> Self {
        Self {
            id: view.id,
            created_at: view.created_at,
            segments_count: view.segments,
            current_offset: view.current_offset,
            size: size_text(view.size_bytes),
            messages_count: view.messages,
        }
    }
}

/// How many partitions to add.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
pub struct CreatePartitions {
    /// Partitions to add at the end, 1 to 1000.
    #[schema(format = Int64, minimum = 1, maximum = 1000)]
    pub partitions_count: u32,
}

/// How many partitions to remove.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DeletePartitions {
    /// Partitions to remove, 1 to 1000, those with the highest ids, together with their messages.
    #[param(format = Int64, minimum = 1, maximum = 1000)]
    pub partitions_count: u32,
}
