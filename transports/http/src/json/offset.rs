//! Stored consumer offsets.

use crate::error::ApiError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use whippet_protocol::{ErrorCode, Identifier};

/// How far a consumer has come in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ConsumerOffsetInfo {
    /// The partition.
    #[schema(format = Int64, minimum = 0)]
    pub partition_id: u32,
    /// Offset of the partition's last message.
    pub current_offset: u64,
    /// Offset that the consumer stored.
    pub stored_offset: u64,
}

/// Whose offset is meant.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct OffsetQuery {
    /// Number or name of the consumer.
    #[serde(default = "first_consumer")]
    #[param(default = "1")]
    pub consumer_id: String,
    /// The partition.
    #[serde(default)]
    #[param(format = Int64, minimum = 0, default = 0)]
    pub partition_id: u32,
}

/// In which partition.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PartitionQuery {
    /// The partition.
    #[serde(default)]
    #[param(format = Int64, minimum = 0, default = 0)]
    pub partition_id: u32,
}

/// The consumer that is meant when none is named.
pub(crate) fn first_consumer() -> String {
    "1".to_owned()
}

/// An offset to store.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
pub struct StoreConsumerOffset {
    /// Number or name of the consumer, as text; a JSON number is taken too.
    #[schema(value_type = String)]
    pub consumer_id: Value,
    /// The partition; 0 when absent or null.
    #[serde(default)]
    #[schema(format = Int64, minimum = 0)]
    pub partition_id: Option<u32>,
    /// Offset of the last message that was handled.
    pub offset: u64,
}

impl StoreConsumerOffset {
    /// The consumer.
    ///
    /// # Errors
    /// 400, invalid identifier.
    pub fn consumer(&self) -> Result<Identifier, ApiError> {
        match &self.consumer_id {
            Value::String(text) => crate::extract::path::identifier(text, "consumer_id"),
            Value::Number(number) => {
                crate::extract::path::number(&number.to_string(), "consumer_id").map(Identifier::Id)
            }
            _ => Err(ApiError::coded(ErrorCode::InvalidIdentifier, "`consumer_id` has to be text or a number")
                .on("consumer_id")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn consumer(json: &str) -> Result<Identifier, u32> {
        let body: StoreConsumerOffset = crate::extract::body::parse(json.as_bytes()).unwrap();
        body.consumer().map_err(|error| error.id)
    }

    #[test]
    fn a_consumer_is_a_number_or_a_name() {
        assert_eq!(consumer(r#"{"consumer_id":"7","offset":1}"#), Ok(Identifier::Id(7)));
        assert_eq!(consumer(r#"{"consumer_id":7,"offset":1,"partition_id":null}"#), Ok(Identifier::Id(7)));
        assert_eq!(consumer(r#"{"consumer_id":"seven","offset":1}"#), Ok(Identifier::from_text("seven").unwrap()));
        for wrong in [r#""""#, "-1", "1.5", "4294967296", "true", "[]", "null"] {
            assert_eq!(consumer(&format!(r#"{{"consumer_id":{wrong},"offset":1}}"#)), Err(6), "{wrong}");
        }
    }
}
