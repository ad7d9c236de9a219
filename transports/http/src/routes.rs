//! The handlers, one file a family. A handler takes the request apart, calls the gateway once, and puts the answer
//! together; what an operation means is decided behind the gateway.

pub mod document;
pub mod later;
pub mod messages;
pub mod offsets;
pub mod partitions;
pub mod streams;
pub mod system;
pub mod topics;
pub mod users;

use crate::error::ApiError;
use crate::extract::{StreamPath, TopicPath};
use std::future::Future;
use whippet_gateway::WriteOutcome;
use whippet_protocol::{ErrorCode, Name};

/// Runs a write to its end also when the caller goes away meanwhile: whether it happens must not hang on a socket.
///
/// # Errors
/// Those of the write; 500 with an unknown outcome when it panicked.
pub(crate) async fn to_its_end<T, F>(write: F) -> Result<T, ApiError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, ApiError>> + Send + 'static,
{
    match tokio::spawn(write).await {
        Ok(result) => result,
        Err(error) => {
            tracing::error!(%error, "a write did not run to its end");
            Err(ApiError::internal(WriteOutcome::Unknown))
        }
    }
}

/// A name out of a body.
///
/// # Errors
/// 400 with `code` when it is empty or longer than 255 bytes.
pub(crate) fn name(text: String, code: ErrorCode) -> Result<Name, ApiError> {
    Name::new(text).map_err(|error| ApiError::coded(code, error.to_string()))
}

/// 404: the stream is not there.
pub(crate) fn no_stream(path: &StreamPath) -> ApiError {
    ApiError::missing(ErrorCode::StreamIdNotFound, format!("stream `{}` does not exist", path.stream))
}

/// 404: the stream or its topic is not there.
pub(crate) fn no_topic(path: &TopicPath) -> ApiError {
    ApiError::missing(
        ErrorCode::TopicIdNotFound,
        format!("topic `{}` of stream `{}` does not exist", path.topic, path.stream),
    )
}
