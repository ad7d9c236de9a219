//! Topics.

use crate::error::ApiError;
use crate::json::WideNumber;
use crate::json::options::{OptionSetting, OptionSettings, topic_options};
use crate::json::partition::Partition;
use crate::json::size::size_text;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use whippet_gateway::{TopicDetails as GatewayTopicDetails, TopicView};
use whippet_metadata::options::{Compression, Purpose, TopicOptionsPatch};
use whippet_protocol::ErrorCode;

/// A topic: messages of one kind, spread over partitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Topic {
    /// Number of the topic within its stream, from 0 on.
    #[schema(format = Int64, minimum = 0)]
    pub id: u32,
    /// Microseconds since 1970.
    pub created_at: u64,
    /// Unique name within the stream.
    pub name: String,
    /// Bytes of all messages, in the largest unit that is exact.
    #[schema(example = "1.5 KB")]
    pub size: String,
    /// Microseconds after which messages may go; 18446744073709551615 for never.
    #[schema(value_type = WideNumber)]
    pub message_expiry: u64,
    /// Compression that producers are expected to use.
    #[schema(example = "none")]
    pub compression_algorithm: String,
    /// Bytes above which the oldest messages go; 18446744073709551615 for unlimited.
    #[schema(value_type = WideNumber)]
    pub max_topic_size: u64,
    /// Messages in all partitions.
    pub messages_count: u64,
    /// Partitions.
    #[schema(format = Int64, minimum = 0)]
    pub partitions_count: u32,
    /// Every option with the value that is in effect; `durability` says what an acknowledgement waits for.
    #[schema(value_type = BTreeMap<String, OptionSetting>)]
    pub options: OptionSettings,
}

impl From<&TopicView> for Topic {
    fn from(view: &TopicView) -> Self {
        Self {
            id: view.id,
            created_at: view.created_at,
            name: view.name.to_string(),
            size: size_text(view.size_bytes),
            message_expiry: view.options.message_expiry_us(),
            compression_algorithm: view.options.compression().as_str().to_owned(),
            max_topic_size: view.options.max_topic_size(),
            messages_count: view.messages,
            partitions_count: view.partitions_count,
            options: topic_options(&view.options),
        }
    }
}

/// A topic with its partitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct TopicDetails {
    /// Number of the topic within its stream, from 0 on.
    #[schema(format = Int64, minimum = 0)]
    pub id: u32,
    /// Microseconds since 1970.
    pub created_at: u64,
    /// Unique name within the stream.
    pub name: String,
    /// Bytes of all messages, in the largest unit that is exact.
    #[schema(example = "1.5 KB")]
    pub size: String,
    /// Microseconds after which messages may go; 18446744073709551615 for never.
    #[schema(value_type = WideNumber)]
    pub message_expiry: u64,
    /// Compression that producers are expected to use.
    #[schema(example = "none")]
    pub compression_algorithm: String,
    /// Bytes above which the oldest messages go; 18446744073709551615 for unlimited.
    #[schema(value_type = WideNumber)]
    pub max_topic_size: u64,
    /// Messages in all partitions.
    pub messages_count: u64,
    /// Partitions.
    #[schema(format = Int64, minimum = 0)]
    pub partitions_count: u32,
    /// Every option with the value that is in effect; `durability` says what an acknowledgement waits for.
    #[schema(value_type = BTreeMap<String, OptionSetting>)]
    pub options: OptionSettings,
    /// The partitions, in the order of their ids.
    pub partitions: Vec<Partition>,
}

impl From<&GatewayTopicDetails> for TopicDetails {
    fn from(details: &GatewayTopicDetails) -> Self {
        let topic = Topic::from(&details.topic);
        Self {
            id: topic.id,
            created_at: topic.created_at,
            name: topic.name,
            size: topic.size,
            message_expiry: topic.message_expiry,
            compression_algorithm: topic.compression_algorithm,
            max_topic_size: topic.max_topic_size,
            messages_count: topic.messages_count,
            partitions_count: topic.partitions_count,
            options: topic.options,
            partitions: details.partitions.iter().map(Partition::from).collect(),
        }
    }
}

/// What a new topic needs.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
pub struct CreateTopic {
    /// Unique name within the stream, 1 to 255 bytes.
    #[schema(min_length = 1, max_length = 255)]
    pub name: String,
    /// Partitions, 0 to 1000.
    #[schema(format = Int64, minimum = 0, maximum = 1000)]
    pub partitions_count: u32,
    /// `none` or `gzip`.
    #[schema(example = "none")]
    pub compression_algorithm: String,
    /// Microseconds after which messages may go; 0 for the server's default, 18446744073709551615 for never.
    #[schema(value_type = WideNumber)]
    pub message_expiry: u64,
    /// Bytes above which the oldest messages go; 0 for the server's default, 18446744073709551615 for unlimited.
    #[schema(value_type = WideNumber)]
    pub max_topic_size: u64,
    /// Further options as text, for example `durability`: `persisted`. `GET /options/topic` lists them.
    #[serde(default)]
    pub options: Option<BTreeMap<String, String>>,
}

impl CreateTopic {
    /// The options that the body sets, in all its places.
    ///
    /// # Errors
    /// 400: an unknown option, a value that cannot be, or two different values for one option.
    pub fn patch(&self) -> Result<TopicOptionsPatch, ApiError> {
        patch(
            self.options.as_ref(),
            Purpose::Create,
            Some(&self.compression_algorithm),
            Some(self.message_expiry),
            Some(self.max_topic_size),
        )
    }
}

/// What changes in a topic. What is left out or null stays as it is.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
pub struct UpdateTopic {
    /// New name, 1 to 255 bytes; the present one is allowed.
    #[schema(min_length = 1, max_length = 255)]
    pub name: String,
    /// `none` or `gzip`.
    #[serde(default)]
    pub compression_algorithm: Option<String>,
    /// Microseconds after which messages may go; 18446744073709551615 for never.
    #[serde(default)]
    #[schema(value_type = Option<WideNumber>)]
    pub message_expiry: Option<u64>,
    /// Bytes above which the oldest messages go; 18446744073709551615 for unlimited.
    #[serde(default)]
    #[schema(value_type = Option<WideNumber>)]
    pub max_topic_size: Option<u64>,
    /// Further options as text; those that may change are the three above.
    #[serde(default)]
    pub options: Option<BTreeMap<String, String>>,
}

impl UpdateTopic {
    /// As [`CreateTopic::patch`].
    ///
    /// # Errors
    /// As [`CreateTopic::patch`].
    pub fn patch(&self) -> Result<TopicOptionsPatch, ApiError> {
        patch(
            self.options.as_ref(),
            Purpose::Update,
            self.compression_algorithm.as_deref(),
            self.message_expiry,
            self.max_topic_size,
        )
    }
}

fn patch(
    options: Option<&BTreeMap<String, String>>,
    purpose: Purpose,
    compression: Option<&str>,
    message_expiry: Option<u64>,
    max_topic_size: Option<u64>,
) -> Result<TopicOptionsPatch, ApiError> {
    let entries = options.into_iter().flatten();
    let mut patch =
        TopicOptionsPatch::from_text_map(entries.map(|(key, value)| (key.as_str(), value.as_str())), purpose)
            .map_err(|code| ApiError::coded(code, options_reason(code, options, purpose)).on("options"))?;
    let twice = |field: &'static str| {
        move |code| {
            ApiError::coded(code, format!("`{field}` and the entry of that name in `options` disagree")).on(field)
        }
    };
    if let Some(text) = compression {
        let compression = Compression::from_text(text).ok_or_else(|| {
            ApiError::coded(ErrorCode::InvalidOptionValue, "`compression_algorithm` has to be none or gzip")
                .on("compression_algorithm")
        })?;
        patch.set_compression(compression).map_err(twice("compression_algorithm"))?;
    }
    if let Some(microseconds) = message_expiry {
        patch.set_message_expiry(microseconds).map_err(twice("message_expiry"))?;
    }
    if let Some(bytes) = max_topic_size {
        patch.set_max_topic_size(bytes).map_err(twice("max_topic_size"))?;
    }
    Ok(patch)
}

/// Finds the entry that was refused by trying them one by one.
fn options_reason(code: ErrorCode, options: Option<&BTreeMap<String, String>>, purpose: Purpose) -> String {
    let refused = options
        .into_iter()
        .flatten()
        .find(|(key, value)| TopicOptionsPatch::from_text_map([(key.as_str(), value.as_str())], purpose).is_err());
    let Some((key, value)) = refused else { return code.text().to_owned() };
    let shown = |text: &str| text.chars().take(64).collect::<String>();
    if code == ErrorCode::UnsupportedOptionKey {
        let when = if purpose == Purpose::Update { "changed" } else { "set" };
        return format!("option `{}` does not exist or cannot be {when}; GET /options/topic lists them", shown(key));
    }
    format!("option `{}` cannot be `{}`; GET /options/topic describes it", shown(key), shown(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use whippet_metadata::options::{Durability, TopicOptions};

    fn create(json: serde_json::Value) -> Result<TopicOptions, ApiError> {
        let body: CreateTopic = crate::extract::body::parse(json.to_string().as_bytes())?;
        body.patch().map(|patch| TopicOptions::from_patch(&patch))
    }

    #[test]
    fn a_topic_is_created_from_fields_and_options() {
        let options = create(serde_json::json!({
            "name": "t", "partitions_count": 3, "compression_algorithm": "Gzip", "message_expiry": 18446744073709551615u64,
            "max_topic_size": 0, "options": {"durability": "persisted", "segment_size": "128MiB", "message_expiry": "never"}
        }))
        .unwrap();
        assert_eq!(options.compression(), Compression::Gzip);
        assert_eq!(options.message_expiry_us(), u64::MAX);
        assert_eq!(options.max_topic_size(), u64::MAX);
        assert_eq!(options.durability(), Durability::Persisted);
        assert_eq!(options.segment_size(), 128 << 20);
    }

    #[test]
    fn wrong_options_are_named() {
        let with = |options: serde_json::Value| {
            let error = create(serde_json::json!({
                "name": "t", "partitions_count": 1, "compression_algorithm": "none", "message_expiry": 1000,
                "max_topic_size": 0, "options": options
            }))
            .unwrap_err();
            (error.status.as_u16(), error.id, error.reason.to_string())
        };
        let (status, id, reason) = with(serde_json::json!({"durability": "replicated", "colour": "red"}));
        assert_eq!((status, id), (400, 4041));
        assert_eq!(reason, "option `colour` does not exist or cannot be set; GET /options/topic lists them");
        let (status, id, reason) = with(serde_json::json!({"durability": "maybe"}));
        assert_eq!((status, id), (400, 4042));
        assert_eq!(reason, "option `durability` cannot be `maybe`; GET /options/topic describes it");
        let (_, id, reason) = with(serde_json::json!({"message_expiry": "1s"}));
        assert_eq!(id, 4042);
        assert_eq!(reason, "`message_expiry` and the entry of that name in `options` disagree");
    }

    #[test]
    fn an_update_leaves_out_what_is_null() {
        let body: UpdateTopic = crate::extract::body::parse(
            br#"{"name":"n","compression_algorithm":null,"message_expiry":null,"max_topic_size":0}"#,
        )
        .unwrap();
        assert_eq!(body.patch().unwrap(), TopicOptionsPatch::default());
        let body: UpdateTopic =
            crate::extract::body::parse(br#"{"name":"n","options":{"durability":"persisted"}}"#).unwrap();
        assert_eq!(body.patch().unwrap_err().id, 4041);
    }

    #[test]
    fn all_five_fields_of_a_creation_are_wanted() {
        let body = serde_json::json!({
            "name": "t", "partitions_count": 1, "compression_algorithm": "none", "message_expiry": 0, "max_topic_size": 0
        });
        assert!(create(body.clone()).is_ok());
        for field in ["name", "partitions_count", "compression_algorithm", "message_expiry", "max_topic_size"] {
            let mut body = body.clone();
            body.as_object_mut().unwrap().remove(field);
            let error = create(body).unwrap_err();
            assert_eq!(error.status, 422);
            assert!(error.reason.contains(field), "{}", error.reason);
        }
    }
}
