//! Streams.

use crate::json::options::OptionSettings;
use crate::json::size::size_text;
use crate::json::topic::Topic;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use whippet_gateway::{StreamDetails as GatewayStreamDetails, StreamView};

/// A stream: a named set of topics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Stream {
    /// Number of the stream, from 0 on.
    #[schema(format = Int64, minimum = 0)]
    pub id: u32,
    /// Microseconds since 1970.
    pub created_at: u64,
    /// Unique name.
    pub name: String,
    /// Bytes of all messages, in the largest unit that is exact.
    #[schema(example = "1.5 KB")]
    pub size: String,
    /// Messages in all topics.
    pub messages_count: u64,
    /// Topics.
    #[schema(format = Int64, minimum = 0)]
    pub topics_count: u32,
    /// Options of the stream; there are none yet.
    #[schema(value_type = BTreeMap<String, crate::json::options::OptionSetting>)]
    pub options: OptionSettings,
}

impl From<&StreamView> for Stream {
    fn from(view: &StreamView) -> Self {
        Self {
            id: view.id,
            created_at: view.created_at,
            name: view.name.to_string(),
            size: size_text(view.size_bytes),
            messages_count: view.messages,
            topics_count: view.topics_count,
            options: BTreeMap::new(),
        }
    }
}

/// A stream with its topics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct StreamDetails {
    /// Number of the stream, from 0 on.
    #[schema(format = Int64, minimum = 0)]
    pub id: u32,
    /// Microseconds since 1970.
    pub created_at: u64,
    /// Unique name.
    pub name: String,
    /// Bytes of all messages, in the largest unit that is exact.
    #[schema(example = "1.5 KB")]
    pub size: String,
    /// Messages in all topics.
    pub messages_count: u64,
    /// Topics.
    #[schema(format = Int64, minimum = 0)]
    pub topics_count: u32,
    /// Options of the stream; there are none yet.
    #[schema(value_type = BTreeMap<String, crate::json::options::OptionSetting>)]
    pub options: OptionSettings,
    /// The topics, in the order of their ids.
    pub topics: Vec<Topic>,
}

impl From<&GatewayStreamDetails> for StreamDetails {
    fn from(details: &GatewayStreamDetails) -> Self {
        let Stream { id, created_at, name, size, messages_count, topics_count, options } =
            Stream::from(&details.stream);
        let topics = details.topics.iter().map(Topic::from).collect();
        Self { id, created_at, name, size, messages_count, topics_count, options, topics }
    }
}

/// What a new stream needs.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
pub struct CreateStream {
    /// Unique name, 1 to 255 bytes.
    #[schema(min_length = 1, max_length = 255)]
    pub name: String,
}

/// What changes in a stream.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
pub struct UpdateStream {
    /// New name, 1 to 255 bytes; the present one is allowed.
    #[schema(min_length = 1, max_length = 255)]
    pub name: String,
    /// Options to change. A stream has none that can change, so any name in here is refused.
    #[serde(default)]
    pub options: Option<BTreeMap<String, String>>,
}
