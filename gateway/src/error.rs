//! Errors of the gateway, and the one place that maps them to the wire of binary transports.

use std::borrow::Cow;
use whippet_metadata::Refusal as TableRefusal;
use whippet_protocol::ErrorCode;
use whippet_protocol::frame::EvictionReason;
use whippet_protocol::operation::{NON_REPLICATED, REGISTER, is_result_framed};
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
        ErrorCode::StreamNameAlreadyExists
        | ErrorCode::TopicNameAlreadyExists
        | ErrorCode::InvalidStreamName
        | ErrorCode::InvalidTopicName => Some("name"),
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

/// A write whose effect is committed, but whose consequences or reply could not be had: trying the same request again on
/// this node is safe and finishes it, another request would do it twice.
pub(crate) fn after_commit(error: GatewayError) -> GatewayError {
    GatewayError {
        code: ErrorCode::TransientNotCommitted,
        reason: format!("the change is made, but not finished yet: {}", error.reason).into(),
        field: None,
        outcome: WriteOutcome::Applied,
    }
}

/// The protocol has one number for everything that a send can't find.
pub(crate) fn of_send_target(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::StreamIdNotFound
        | ErrorCode::TopicIdNotFound
        | ErrorCode::PartitionNotFound
        | ErrorCode::NoPartitions => ErrorCode::ResourceNotFound,
        other => other,
    }
}

/// How an error goes to the client of a binary transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnTheWire {
    /// A reply without a body, with the number in its header.
    Status(ErrorCode),
    /// A reply with the number in the result section of its body.
    ResultSection(ErrorCode),
    /// No reply, but the news that there is no session.
    Eviction(EvictionReason),
}

/// Where an error goes in answer to `operation`.
///
/// Clients see the same number in a status and in a result section. Denials before replication (malformed, not allowed,
/// not offered) go into the status, what the replicated state decided into the result section of operations that have
/// one. A login that fails, and a replicated request without a session, are answered with an eviction.
pub(crate) fn on_the_wire(operation: u8, code: ErrorCode) -> OnTheWire {
    use ErrorCode as Code;
    match (operation, code) {
        (REGISTER, Code::InvalidCredentials) => return OnTheWire::Eviction(EvictionReason::InvalidCredentials),
        (REGISTER, Code::InvalidPersonalAccessToken | Code::PersonalAccessTokenExpired) => {
            return OnTheWire::Eviction(EvictionReason::InvalidToken);
        }
        // The user went away, or was made inactive, between the check of the password and the log.
        (REGISTER, Code::Unauthenticated | Code::UserInactive) => {
            return OnTheWire::Eviction(EvictionReason::UserInactive);
        }
        (REGISTER, Code::InvalidClientId) => return OnTheWire::Eviction(EvictionReason::SessionError),
        (NON_REPLICATED, _) => return OnTheWire::Status(code),
        (_, Code::Unauthenticated) => return OnTheWire::Eviction(EvictionReason::NoSession),
        _ => {}
    }
    let denial = matches!(
        code,
        Code::InvalidCommand
            | Code::InvalidFormat
            | Code::FeatureUnavailable
            | Code::Unauthorized
            | Code::InvalidClientId
            | Code::UnsupportedOptionKey
            | Code::InvalidOptionValue
            | Code::TooManyPartitions
    );
    if is_result_framed(operation) && !denial { OnTheWire::ResultSection(code) } else { OnTheWire::Status(code) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use OnTheWire::{Eviction, ResultSection, Status};

    #[test]
    fn only_an_unanswered_call_leaves_the_outcome_open() {
        let seen = |call: CallError| {
            let error = GatewayError::from(call);
            (error.code, error.outcome)
        };
        assert_eq!(seen(CallError::Deadline), (ErrorCode::TransientNotCommitted, WriteOutcome::Unknown));
        for call in [CallError::Stopping, CallError::Overloaded] {
            assert_eq!(seen(call), (ErrorCode::TransientNotAccepted, WriteOutcome::NotApplied));
        }
    }

    #[test]
    fn what_is_committed_is_never_called_not_accepted() {
        let late = after_commit(CallError::Overloaded.into());
        assert_eq!((late.code, late.outcome), (ErrorCode::TransientNotCommitted, WriteOutcome::Applied));
        assert!(late.reason.starts_with("the change is made"), "{late}");
    }

    #[test]
    fn refusals_of_the_client_table() {
        let seen = |refusal: TableRefusal| {
            let error = GatewayError::from(refusal);
            (error.code.code(), error.outcome)
        };
        assert_eq!(seen(TableRefusal::NoSession), (40, WriteOutcome::NotApplied));
        assert_eq!(seen(TableRefusal::StaleSession), (40, WriteOutcome::NotApplied));
        assert_eq!(seen(TableRefusal::SessionAhead), (58, WriteOutcome::NotApplied));
        assert_eq!(seen(TableRefusal::AlreadyApplied), (59, WriteOutcome::Applied));
        assert_eq!(seen(TableRefusal::Mismatch), (59, WriteOutcome::NotApplied));
        assert_eq!(seen(TableRefusal::ClientOwnedByOther), (101, WriteOutcome::NotApplied));
    }

    #[test]
    fn errors_name_the_request_value() {
        assert_eq!(GatewayError::of(ErrorCode::TopicIdNotFound).field, Some("topic_id"));
        assert_eq!(GatewayError::of(ErrorCode::TransientNotAccepted).field, None);
    }

    /// Operation, code, where it goes.
    const TABLE: &[(u8, ErrorCode, OnTheWire)] = &[
        (REGISTER, ErrorCode::InvalidCredentials, Eviction(EvictionReason::InvalidCredentials)),
        (REGISTER, ErrorCode::InvalidPersonalAccessToken, Eviction(EvictionReason::InvalidToken)),
        (REGISTER, ErrorCode::PersonalAccessTokenExpired, Eviction(EvictionReason::InvalidToken)),
        (REGISTER, ErrorCode::Unauthenticated, Eviction(EvictionReason::UserInactive)),
        (REGISTER, ErrorCode::InvalidClientId, Eviction(EvictionReason::SessionError)),
        (REGISTER, ErrorCode::TransientNotAccepted, ResultSection(ErrorCode::TransientNotAccepted)),
        (REGISTER, ErrorCode::TransientNotCommitted, ResultSection(ErrorCode::TransientNotCommitted)),
        (REGISTER, ErrorCode::InvalidFormat, Status(ErrorCode::InvalidFormat)),
        // Reads without a login: a status, so that the connection goes on.
        (2, ErrorCode::Unauthenticated, Status(ErrorCode::Unauthenticated)),
        (2, ErrorCode::StreamIdNotFound, Status(ErrorCode::StreamIdNotFound)),
        // Writes without a session.
        (128, ErrorCode::Unauthenticated, Eviction(EvictionReason::NoSession)),
        (138, ErrorCode::Unauthenticated, Eviction(EvictionReason::NoSession)),
        (160, ErrorCode::Unauthenticated, Eviction(EvictionReason::NoSession)),
        // What the state decided.
        (128, ErrorCode::StreamNameAlreadyExists, ResultSection(ErrorCode::StreamNameAlreadyExists)),
        (161, ErrorCode::InvalidOffset, ResultSection(ErrorCode::InvalidOffset)),
        (162, ErrorCode::ConsumerOffsetNotFound, ResultSection(ErrorCode::ConsumerOffsetNotFound)),
        (136, ErrorCode::TransientNotAccepted, ResultSection(ErrorCode::TransientNotAccepted)),
        // Denials before it.
        (128, ErrorCode::Unauthorized, Status(ErrorCode::Unauthorized)),
        (132, ErrorCode::InvalidOptionValue, Status(ErrorCode::InvalidOptionValue)),
        (133, ErrorCode::UnsupportedOptionKey, Status(ErrorCode::UnsupportedOptionKey)),
        (161, ErrorCode::InvalidCommand, Status(ErrorCode::InvalidCommand)),
        (141, ErrorCode::FeatureUnavailable, Status(ErrorCode::FeatureUnavailable)),
        // Operations whose replies have no result section.
        (138, ErrorCode::StreamIdNotFound, Status(ErrorCode::StreamIdNotFound)),
        (160, ErrorCode::ResourceNotFound, Status(ErrorCode::ResourceNotFound)),
        (160, ErrorCode::TransientNotAccepted, Status(ErrorCode::TransientNotAccepted)),
    ];

    #[test]
    fn every_error_goes_where_its_reader_looks() {
        for (operation, code, expected) in TABLE {
            assert_eq!(on_the_wire(*operation, *code), *expected, "{code:?} in answer to operation {operation}");
        }
    }

    #[test]
    fn a_status_is_never_hidden_in_a_body_that_is_not_split() {
        for operation in (0..=u8::MAX).filter(|operation| !is_result_framed(*operation)) {
            for code in ErrorCode::ALL {
                assert!(!matches!(on_the_wire(operation, *code), ResultSection(_)), "{code:?}, operation {operation}");
            }
        }
    }

    #[test]
    fn a_send_that_finds_nothing_has_one_number() {
        for code in [
            ErrorCode::StreamIdNotFound,
            ErrorCode::TopicIdNotFound,
            ErrorCode::PartitionNotFound,
            ErrorCode::NoPartitions,
        ] {
            assert_eq!(of_send_target(code).code(), 20);
        }
        assert_eq!(of_send_target(ErrorCode::InvalidCommand).code(), 3);
    }
}
