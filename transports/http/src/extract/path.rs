//! What paths name: streams, topics, partitions, consumers.

use crate::error::ApiError;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use whippet_protocol::{ErrorCode, Identifier};

/// `/streams/{stream}…`
#[derive(Debug)]
pub struct StreamPath {
    /// The stream.
    pub stream: Identifier,
}

/// `/streams/{stream}/topics/{topic}…`
#[derive(Debug)]
pub struct TopicPath {
    /// The stream.
    pub stream: Identifier,
    /// The topic.
    pub topic: Identifier,
}

/// `/streams/{stream}/topics/{topic}/consumer-offsets/{consumer}`
#[derive(Debug)]
pub struct ConsumerPath {
    /// The stream.
    pub stream: Identifier,
    /// The topic.
    pub topic: Identifier,
    /// The consumer.
    pub consumer: Identifier,
}

impl<S: Send + Sync> FromRequestParts<S> for StreamPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let (stream,): (String,) = segments(parts, state).await?;
        Ok(Self { stream: identifier(&stream, "stream_id")? })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for TopicPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let (stream, topic): (String, String) = segments(parts, state).await?;
        Ok(Self { stream: identifier(&stream, "stream_id")?, topic: identifier(&topic, "topic_id")? })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ConsumerPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let (stream, topic, consumer): (String, String, String) = segments(parts, state).await?;
        Ok(Self {
            stream: identifier(&stream, "stream_id")?,
            topic: identifier(&topic, "topic_id")?,
            consumer: identifier(&consumer, "consumer_id")?,
        })
    }
}

/// The decoded segments that the route leaves open, in order.
///
/// # Errors
/// 400 `invalid_path` when one of them is not UTF-8 after decoding.
pub(crate) async fn segments<T, S>(parts: &mut Parts, state: &S) -> Result<T, ApiError>
where
    T: DeserializeOwned + Send,
    S: Send + Sync,
{
    axum::extract::Path::<T>::from_request_parts(parts, state).await.map(|path| path.0).map_err(|_| {
        ApiError::http(
            StatusCode::BAD_REQUEST,
            "invalid_path",
            "the path is not understood: its names have to be percent-encoded UTF-8",
        )
    })
}

/// A number or a name. Text that is a number below 2^32 is always an id.
///
/// # Errors
/// 400, invalid identifier, when it is no number and not 1 to 255 bytes long.
pub(crate) fn identifier(text: &str, field: &'static str) -> Result<Identifier, ApiError> {
    Identifier::from_text(text)
        .map_err(|error| ApiError::coded(ErrorCode::InvalidIdentifier, error.to_string()).on(field))
}

/// A number that the path has to have.
///
/// # Errors
/// 400, invalid identifier.
pub(crate) fn number(text: &str, field: &'static str) -> Result<u32, ApiError> {
    text.parse().map_err(|_| {
        let shown: String = text.chars().take(40).collect();
        ApiError::coded(ErrorCode::InvalidIdentifier, format!("`{shown}` is not a number below 2^32")).on(field)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_ids_and_all_else_is_a_name() {
        assert_eq!(identifier("7", "stream_id").unwrap(), Identifier::Id(7));
        assert_eq!(identifier("4294967295", "stream_id").unwrap(), Identifier::Id(u32::MAX));
        assert!(matches!(identifier("4294967296", "stream_id").unwrap(), Identifier::Name(_)));
        assert!(matches!(identifier("a/b", "stream_id").unwrap(), Identifier::Name(_)));
        let error = identifier(&"x".repeat(256), "topic_id").unwrap_err();
        assert_eq!((error.status.as_u16(), error.id, error.field), (400, 6, Some("topic_id")));
    }

    #[test]
    fn a_partition_is_a_number() {
        assert_eq!(number("0", "partition_id").unwrap(), 0);
        for text in ["", "x", "-1", "4294967296", "1.0"] {
            assert_eq!(number(text, "partition_id").unwrap_err().id, 6, "{text:?}");
        }
    }
}
