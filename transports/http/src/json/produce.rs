//! Messages to append.

use crate::error::ApiError;
use crate::json::user_headers::UserHeaders;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use utoipa::{IntoParams, ToSchema};
use whippet_protocol::ErrorCode;

/// Messages to append, all to one partition.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct SendMessages<'a> {
    /// How the partition is chosen.
    #[serde(borrow)]
    pub partitioning: Partitioning<'a>,
    /// The messages, at least one.
    #[serde(borrow)]
    #[schema(min_items = 1)]
    pub messages: Vec<NewMessage<'a>>,
}

/// How the partition is chosen.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
pub struct Partitioning<'a> {
    /// The way.
    pub kind: PartitioningKind,
    /// What the way needs, in base64: nothing for `balanced`, the partition's number as 4 bytes, little-endian, for
    /// `partition_id` (0 is `AAAAAA==`), 1 to 255 bytes for `messages_key`.
    #[serde(borrow, default)]
    #[schema(value_type = String, format = Byte, example = "AAAAAA==")]
    pub value: Cow<'a, str>,
}

/// A way to choose the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartitioningKind {
    /// One after the other.
    Balanced,
    /// The one with this number.
    PartitionId,
    /// The one that the hash of this key falls on: equal keys stay in order.
    MessagesKey,
}

/// Where a batch goes, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One partition after the other.
    Balanced,
    /// This partition.
    Partition(u32),
    /// The partition that the hash of these 1 to 255 bytes falls on.
    Key(Vec<u8>),
}

impl Partitioning<'_> {
    /// Decodes the value.
    ///
    /// # Errors
    /// 400: not base64, or of a length that the way does not allow.
    pub fn target(&self) -> Result<Target, ApiError> {
        let refuse =
            |reason: &'static str| ApiError::coded(ErrorCode::InvalidKeyValueLength, reason).on("partitioning");
        let bytes = STANDARD.decode(self.value.as_bytes()).map_err(|_| refuse("`partitioning.value` is not base64"))?;
        match self.kind {
            PartitioningKind::Balanced => Ok(Target::Balanced),
            PartitioningKind::PartitionId => match <[u8; 4]>::try_from(bytes.as_slice()) {
                Ok(number) => Ok(Target::Partition(u32::from_le_bytes(number))),
                Err(_) => Err(refuse(
                    "`partitioning.value` has to be the base64 of 4 bytes, the partition's number in little-endian",
                )),
            },
            PartitioningKind::MessagesKey if (1..=255).contains(&bytes.len()) => Ok(Target::Key(bytes)),
            PartitioningKind::MessagesKey => {
                Err(refuse("`partitioning.value` has to be the base64 of a key of 1 to 255 bytes"))
            }
        }
    }
}

/// A message to append.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
pub struct NewMessage<'a> {
    /// Id: a decimal number, or 32 hex digits with or without dashes, as text; a JSON number is taken too. When absent,
    /// null or 0 the server makes a random one.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub id: Value,
    /// The payload, at least 1 byte.
    #[serde(borrow)]
    #[schema(value_type = String, format = Byte)]
    pub payload: Cow<'a, str>,
    /// User headers.
    #[serde(default)]
    pub user_headers: Option<UserHeaders>,
}

/// A message to append, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Id, never 0.
    pub id: u128,
    /// Payload, at least 1 byte.
    pub payload: Vec<u8>,
    /// User headers as the log keeps them, at most 100000 bytes; empty for none.
    pub user_headers: Vec<u8>,
}

impl NewMessage<'_> {
    /// Decodes the message; one without an id gets one from `random_id`.
    ///
    /// # Errors
    /// 400 or 422, with `index` in the reason.
    pub fn decode(&self, index: usize, random_id: impl FnOnce() -> u128) -> Result<Decoded, ApiError> {
        let id = match id_of(&self.id).ok_or_else(|| {
            ApiError::coded(
                ErrorCode::InvalidFormat,
                format!(
                    "`messages[{index}].id` has to be a whole number below 2^128, as number or text, or 32 hex digits"
                ),
            )
        })? {
            0 => random_id(),
            id => id,
        };
        let payload = STANDARD.decode(self.payload.as_bytes()).map_err(|_| {
            ApiError::coded(
                ErrorCode::InvalidFormat,
                format!("`messages[{index}].payload` is not base64 (standard alphabet, padded)"),
            )
        })?;
        if payload.is_empty() {
            return Err(ApiError::coded(
                ErrorCode::EmptyMessagePayload,
                format!("`messages[{index}].payload` is empty; a message has at least one byte"),
            ));
        }
        let user_headers = match &self.user_headers {
            None => Vec::new(),
            Some(headers) => headers.to_block().map_err(|mut error| {
                error.reason = format!("`messages[{index}]`: {}", error.reason).into();
                error
            })?,
        };
        Ok(Decoded { id, payload, user_headers })
    }
}

fn id_of(value: &Value) -> Option<u128> {
    match value {
        Value::Null => Some(0),
        Value::Number(number) => number.to_string().parse().ok(),
        Value::String(text) => {
            if text.bytes().all(|byte| byte.is_ascii_digit())
                && let Ok(id) = text.parse()
            {
                return Some(id);
            }
            let digits: String = text.chars().filter(|&c| c != '-').collect();
            let is_hex = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_hex.then(|| u128::from_str_radix(&digits, 16).ok()).flatten()
        }
        _ => None,
    }
}

/// What an append waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ack {
    /// For what the topic's durability says.
    #[default]
    Replicated,
    /// For nothing: the answer is 202, and the messages may get lost.
    None,
}

/// How to append.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SendQuery {
    /// What the answer waits for.
    #[serde(default)]
    #[param(inline)]
    pub ack: Ack,
}

/// Where the messages are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SendConfirmations {
    /// One entry for each partition that was written.
    pub confirmations: Vec<SendConfirmation>,
}

/// Where messages of one partition are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SendConfirmation {
    /// The stream.
    #[schema(format = Int64, minimum = 0)]
    pub stream_id: u32,
    /// The topic.
    #[schema(format = Int64, minimum = 0)]
    pub topic_id: u32,
    /// The partition.
    #[schema(format = Int64, minimum = 0)]
    pub partition_id: u32,
    /// Offset of the first message; the others follow without a gap.
    pub base_offset: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &str) -> Result<SendMessages<'_>, ApiError> {
        crate::extract::body::parse(text.as_bytes())
    }

    fn message(json: &str) -> Result<Decoded, ApiError> {
        let text = format!(r#"{{"partitioning":{{"kind":"balanced","value":""}},"messages":[{json}]}}"#);
        body(&text).and_then(|body| body.messages[0].decode(0, || 99))
    }

    fn target(kind: &str, value: &str) -> Result<Target, u32> {
        let text = format!(r#"{{"partitioning":{{"kind":"{kind}","value":"{value}"}},"messages":[]}}"#);
        body(&text).and_then(|body| body.partitioning.target()).map_err(|error| error.id)
    }

    #[test]
    fn ids_come_in_many_forms() {
        let id = |json: &str| {
            message(&format!(r#"{{"id":{json},"payload":"eA=="}}"#)).map(|message| message.id).map_err(|e| e.id)
        };
        let cases = [
            ("0", 99),
            ("null", 99),
            (r#""0""#, 99),
            ("7", 7),
            ("18446744073709551615", u128::from(u64::MAX)),
            ("340282366920938463463374607431768211455", u128::MAX),
            (r#""340282366920938463463374607431768211455""#, u128::MAX),
            (r#""0198c1f0-7b1c-7000-8000-00000000002a""#, 0x0198_c1f0_7b1c_7000_8000_0000_0000_002a),
            (r#""0198C1F07B1C7000800000000000002A""#, 0x0198_c1f0_7b1c_7000_8000_0000_0000_002a),
        ];
        for (json, expected) in cases {
            assert_eq!(id(json), Ok(expected), "{json}");
        }
        for wrong in [
            "-1",
            "1.5",
            "1e3",
            "340282366920938463463374607431768211456",
            r#""x""#,
            r#""""#,
            r#""+5""#,
            "true",
            "[]",
            "{}",
        ] {
            assert_eq!(id(wrong), Err(4), "{wrong}");
        }
        assert_eq!(
            message(r#"{"payload":"eA=="}"#).unwrap(),
            Decoded { id: 99, payload: b"x".to_vec(), user_headers: vec![] }
        );
    }

    #[test]
    fn payloads_are_base64_and_not_empty() {
        let refusal = |payload: &str| message(&format!(r#"{{"payload":"{payload}"}}"#)).unwrap_err().id;
        assert_eq!(refusal(""), 4024);
        assert_eq!(refusal("eA"), 4);
        assert_eq!(refusal("%"), 4);
        assert_eq!(message(r#"{"payload":"\u0065A=="}"#).unwrap().payload, b"x");
        assert_eq!(message(r#"{"id":1}"#).unwrap_err().status, 422);
    }

    #[test]
    fn user_headers_may_be_absent_null_entries_or_a_block() {
        let headers =
            |json: &str| message(&format!(r#"{{"payload":"eA==","user_headers":{json}}}"#)).map(|m| m.user_headers);
        assert_eq!(headers("null").unwrap(), b"");
        assert_eq!(headers("[]").unwrap(), b"");
        assert_eq!(headers(r#""CQkJ""#).unwrap(), [9, 9, 9]);
        let entry = r#"[{"key":{"kind":"string","value":"YQ=="},"value":{"kind":"bool","value":"AQ=="}}]"#;
        assert_eq!(headers(entry).unwrap(), [2, 1, 0, 0, 0, b'a', 3, 1, 0, 0, 0, 1]);
        let error =
            headers(r#"[{"key":{"kind":"string","value":""},"value":{"kind":"bool","value":"AQ=="}}]"#).unwrap_err();
        assert_eq!(error.id, 4018);
        assert!(error.reason.starts_with("`messages[0]`: "), "{}", error.reason);
        assert_eq!(headers("7").unwrap_err().status, 422);
    }

    #[test]
    fn the_partition_is_chosen_in_three_ways() {
        assert_eq!(target("balanced", ""), Ok(Target::Balanced));
        assert_eq!(target("partition_id", "AAAAAA=="), Ok(Target::Partition(0)));
        assert_eq!(target("partition_id", "AgEAAA=="), Ok(Target::Partition(258)));
        assert_eq!(target("messages_key", "a2V5"), Ok(Target::Key(b"key".to_vec())));
        assert_eq!(target("partition_id", "AAAA"), Err(4028));
        assert_eq!(target("messages_key", ""), Err(4028));
        assert_eq!(target("messages_key", "%"), Err(4028));
        assert_eq!(target("somehow", ""), Err(422));
    }

    #[test]
    fn an_unknown_member_beside_the_messages_is_refused() {
        let error = body(r#"{"partitioning":{"kind":"balanced","value":""},"messages":[],"ttl":1}"#).unwrap_err();
        assert_eq!(error.status, 422);
        assert!(error.reason.contains("ttl"), "{}", error.reason);
    }
}
