//! Errors of the gateway, and the one place that maps them to the wire of binary transports.

use std::borrow::Cow;
use whippet_metadata::Refusal as TableRefusal;
use whippet_protocol::ErrorCode;
use whippet_runtime::CallError;
use whippet_shard::Refusal;

/// What is known of a write that was not answered with success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It certainly did nothing.
    NotApplied,
    /// It was carried out.
    Applied,
    /// It may have been carried out, or may still be.
    Unknown,
}

/// Why an operation gave no result: the protocol's number, a text for people, the request value that is meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} ({})", code.code())]
pub struct GatewayError {
    /// The protocol's number.
    pub code: ErrorCode,
    /// What failed, on what, what to do.
    pub reason: Cow<'static, str>,
    /// Which request value is meant.
    pub field: Option<&'static str>,
    /// Whether anything happened.
    pub outcome: WriteOutcome,
}

impl GatewayError {
    /// An error with the code's own text.
    pub fn of(code: ErrorCode) -> GatewayError {
        GatewayError::because(code, code.text())
    }

    /// An error with a text of its own.
    pub fn because(code: ErrorCode, reason: impl Into<Cow<'static, str>>) -> GatewayError {
        GatewayError { code, reason: reason.into(), field: field_of(code), outcome: WriteOutcome::NotApplied }
    }
}

/// The request value that a code is about.
fn field_of(code: ErrorCode) -> Option<&'static str> {
    match code {
        ErrorCode::StreamIdNotFound | ErrorCode::InvalidStreamId => Some("stream_id"),
        ErrorCode::TopicIdNotFound | ErrorCode::InvalidTopicId => Some("topic_id"),
        ErrorCode::PartitionNotFound => Some("partition_id"),
        ErrorCode::StreamNameAlreadyExists | ErrorCode::TopicNameAlreadyExists | ErrorCode::InvalidStreamName | ErrorCode::InvalidTopicName => {
            Some("name")
        }
        ErrorCode::InvalidOffset => Some("offset"),
        ErrorCode::InvalidUsername | ErrorCode::UserAlreadyExists => Some("username"),
        ErrorCode::InvalidPassword => Some("password"),
        _ => None,
    }
}

impl From<ErrorCode> for GatewayError {
    fn from(code: ErrorCode) -> GatewayError {
        GatewayError::of(code)
    }
}

impl From<Refusal> for GatewayError {
    fn from(refusal: Refusal) -> GatewayError {
        GatewayError::because(refusal.code, refusal.reason)
    }
}

impl From<CallError> for GatewayError {
    fn from(error: CallError) -> GatewayError {
        match error {
            CallError::Stopping | CallError::Overloaded => {
                GatewayError::because(ErrorCode::TransientNotAccepted, format!("{error}; the request was not taken"))
            }
            CallError::Deadline => GatewayError {
                outcome: WriteOutcome::Unknown,
                ..GatewayError::because(ErrorCode::TransientNotCommitted, error.to_string())
            },
        }
    }
}

impl From<TableRefusal> for GatewayError {
    fn from(refusal: TableRefusal) -> GatewayError {
        let outcome = match refusal {
            TableRefusal::AlreadyApplied => WriteOutcome::Applied,
            _ => WriteOutcome::NotApplied,
        };
        GatewayError { outcome, ..GatewayError::of(refusal.code()) }
    }
}

/// Where a binary reply carries an error: in the result section of its body, or in the status of its header.
///
/// Clients see the same number either way. Denials before replication (malformed, not allowed, not offered) go into the
/// status, what the replicated state decided into the result section of operations that have one.
pub(crate) fn goes_into_result_section(operation: u8, code: ErrorCode) -> bool {
    let denial = matches!(
        code,
        ErrorCode::InvalidCommand
            | ErrorCode::InvalidFormat
            | ErrorCode::FeatureUnavailable
            | ErrorCode::Unauthenticated
            | ErrorCode::Unauthorized
            | ErrorCode::UnsupportedOptionKey
            | ErrorCode::InvalidOptionValue
            | ErrorCode::TooManyPartitions
    );
    whippet_protocol::operation::is_result_framed(operation) && !denial
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unanswered_call_leaves_the_outcome_open() {
        let error = |call: CallError| GatewayError::from(call);
        assert_eq!((error(CallError::Deadline).code, error(CallError::Deadline).outcome), (ErrorCode::TransientNotCommitted, WriteOutcome::Unknown));
        for call in [CallError::Stopping, CallError::Overloaded] {
            assert_eq!((error(call).code, error(call).outcome), (ErrorCode::TransientNotAccepted, WriteOutcome::NotApplied));
        }
    }

    #[test]
    fn a_missing_permission_is_never_a_missing_login() {
        assert_ne!(GatewayError::of(ErrorCode::Unauthorized).code.code(), 40);
        assert!(!goes_into_result_section(128, ErrorCode::Unauthorized));
        assert!(goes_into_result_section(128, ErrorCode::StreamNameAlreadyExists));
        assert!(!goes_into_result_section(138, ErrorCode::StreamIdNotFound), "replies to 138 are not framed");
        assert!(!goes_into_result_section(160, ErrorCode::ResourceNotFound));
    }
}
