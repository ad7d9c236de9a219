//! The one shape in which every error leaves this listener.
//!
//! Two vocabularies share the object: `id`, `code`, `reason` and `field`, which clients of this API have always read, and
//! the members of problem details (RFC 9457), which tools know. `retryable` and `outcome` answer the two questions that
//! a caller has after a failed write.

use crate::status::{field_of, status_of};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::borrow::Cow;
use std::sync::Arc;
use utoipa::ToSchema;
use whippet_gateway::{GatewayError, WriteOutcome};
use whippet_protocol::ErrorCode;

/// An error on its way to the caller. As a response it is empty and carries itself in the extensions;
/// `context::finish`, through which every response passes, writes the body, because only there the request id and the
/// accepted content type are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// HTTP status, 400 to 599.
    pub status: StatusCode,
    /// Error number of the client protocol, or the status when the error is one of HTTP alone.
    pub id: u32,
    /// Snake-case name.
    pub code: Cow<'static, str>,
    /// What failed, on what, what to do.
    pub reason: Cow<'static, str>,
    /// Which request value is meant.
    pub field: Option<&'static str>,
    /// Whether anything happened.
    pub outcome: WriteOutcome,
    /// Whether the connection cannot be used further, since part of the request was left unread. HTTP/1 only.
    pub close: bool,
    /// Methods that the path has, for 405.
    pub allow: Option<HeaderValue>,
}

impl ApiError {
    /// An error of the client protocol, with a text of its own.
    pub fn coded(code: ErrorCode, reason: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status: status_of(code, WriteOutcome::NotApplied),
            id: code.code(),
            code: Cow::Borrowed(code.name()),
            reason: reason.into(),
            field: field_of(code),
            outcome: WriteOutcome::NotApplied,
            close: false,
            allow: None,
        }
    }

    /// An error that the client protocol has no number for; `id` is the status.
    pub fn http(status: StatusCode, code: &'static str, reason: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            id: u32::from(status.as_u16()),
            code: Cow::Borrowed(code),
            reason: reason.into(),
            field: None,
            outcome: WriteOutcome::NotApplied,
            close: false,
            allow: None,
        }
    }

    /// Names the request value that is meant.
    pub fn on(mut self, field: &'static str) -> Self {
        self.field = Some(field);
        self
    }

    /// 401: who asks is not known.
    pub fn unauthenticated(reason: &'static str) -> Self {
        Self::coded(ErrorCode::Unauthenticated, reason)
    }

    /// 404 for a thing that the server does not have.
    pub fn missing(code: ErrorCode, reason: impl Into<Cow<'static, str>>) -> Self {
        let error = Self::coded(code, reason);
        debug_assert_eq!(error.status, StatusCode::NOT_FOUND);
        error
    }

    /// 413: the body is larger than `limit` bytes.
    pub fn too_large(limit: usize) -> Self {
        let mut error = Self::http(
            StatusCode::PAYLOAD_TOO_LARGE,
            "payload_too_large",
            format!("the request body is larger than the limit of {limit} bytes; send it in smaller parts"),
        );
        error.close = true;
        error
    }

    /// 500 without details: something of ours broke.
    pub fn internal(outcome: WriteOutcome) -> Self {
        let mut error = Self::http(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal_error",
            "the server failed while it handled the request; its log has the request id",
        );
        error.outcome = outcome;
        error
    }

    /// The error of an operation that only reads: whatever happened, nothing was changed.
    pub fn of_read(error: GatewayError) -> Self {
        let mut error = Self::from(error);
        error.outcome = WriteOutcome::NotApplied;
        error
    }

    /// Whether the same request may succeed later without anything having been done twice.
    pub fn retryable(&self) -> bool {
        self.outcome == WriteOutcome::NotApplied
            && matches!(
                self.status,
                StatusCode::REQUEST_TIMEOUT
                    | StatusCode::TOO_MANY_REQUESTS
                    | StatusCode::SERVICE_UNAVAILABLE
                    | StatusCode::GATEWAY_TIMEOUT
            )
    }

    /// The body, for the request with this id.
    pub fn body(&self, request_id: &str) -> ErrorBody {
        ErrorBody {
            id: self.id,
            code: self.code.to_string(),
            reason: self.reason.to_string(),
            field: self.field.map(str::to_owned),
            kind: format!("urn:whippet:error:{}", self.code),
            title: self.status.canonical_reason().unwrap_or("Error").to_owned(),
            status: self.status.as_u16(),
            detail: self.reason.to_string(),
            request_id: request_id.to_owned(),
            retryable: self.retryable(),
            outcome: match self.outcome {
                WriteOutcome::NotApplied => ErrorOutcome::NotApplied,
                WriteOutcome::Applied => ErrorOutcome::Applied,
                WriteOutcome::Unknown => ErrorOutcome::Unknown,
            },
        }
    }
}

impl From<GatewayError> for ApiError {
    fn from(error: GatewayError) -> Self {
        Self {
            status: status_of(error.code, error.outcome),
            id: error.code.code(),
            code: Cow::Borrowed(error.code.name()),
            reason: error.reason,
            field: error.field.or(field_of(error.code)),
            outcome: error.outcome,
            close: false,
            allow: None,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(Pending(Arc::new(self)));
        response
    }
}

/// The error of a response whose body is not written yet.
#[derive(Clone)]
pub struct Pending(pub Arc<ApiError>);

/// Headers that belong to an error whatever its body is.
pub fn headers_of(error: &ApiError) -> Vec<(HeaderName, HeaderValue)> {
    let mut headers = Vec::new();
    match error.status {
        StatusCode::UNAUTHORIZED => {
            headers.push((header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            headers.push((header::RETRY_AFTER, HeaderValue::from_static("1")));
        }
        _ => {}
    }
    if let Some(allow) = &error.allow {
        headers.push((header::ALLOW, allow.clone()));
    }
    headers
}

/// Whether a failed request changed anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorOutcome {
    /// Certainly not.
    NotApplied,
    /// Yes; only the answer is an error.
    Applied,
    /// The server does not know. Look before repeating the request.
    Unknown,
}

/// Every error of this API has this shape, with `Content-Type: application/json`; a caller that names
/// `application/problem+json` in `Accept` gets the same object under that type.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ApiError)]
pub struct ErrorBody {
    /// Error number of the client protocol, or the HTTP status when the error is one of HTTP alone.
    #[schema(format = Int64, minimum = 0)]
    pub id: u32,
    /// Snake-case name of the error.
    #[schema(example = "stream_id_not_found")]
    pub code: String,
    /// What failed, on what, and what to do.
    pub reason: String,
    /// Request value that is meant, if one is.
    #[schema(required)]
    pub field: Option<String>,
    /// Stable identifier of the kind of error.
    #[serde(rename = "type")]
    #[schema(example = "urn:whippet:error:stream_id_not_found")]
    pub kind: String,
    /// Name of the HTTP status.
    pub title: String,
    /// The HTTP status.
    #[schema(format = Int32, minimum = 400, maximum = 599)]
    pub status: u16,
    /// Same text as `reason`.
    pub detail: String,
    /// Id under which the server logged the request; also in the header `x-request-id`.
    pub request_id: String,
    /// Whether repeating the same request may succeed and cannot do anything twice.
    pub retryable: bool,
    /// Whether anything was changed.
    pub outcome: ErrorOutcome,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_has_both_vocabularies() {
        let error = ApiError::missing(ErrorCode::StreamIdNotFound, "stream 7 does not exist");
        let body = serde_json::to_value(error.body("r-1")).unwrap();
        assert_eq!(
            body,
            serde_json::json!({
                "id": 1009, "code": "stream_id_not_found", "reason": "stream 7 does not exist", "field": "stream_id",
                "type": "urn:whippet:error:stream_id_not_found", "title": "Not Found", "status": 404,
                "detail": "stream 7 does not exist", "request_id": "r-1", "retryable": false, "outcome": "not_applied",
            })
        );
    }

    #[test]
    fn a_field_that_is_not_known_is_null_and_not_left_out() {
        let body = serde_json::to_value(ApiError::unauthenticated("no bearer token").body("r")).unwrap();
        assert_eq!(body["field"], serde_json::Value::Null);
        assert_eq!(body["id"], 40);
        assert_eq!(body["status"], 401);
    }

    #[test]
    fn a_write_of_unknown_outcome_is_not_called_retryable() {
        let error = |outcome| {
            ApiError::from(GatewayError {
                code: ErrorCode::TransientNotCommitted,
                reason: "the partition did not answer in time".into(),
                field: None,
                outcome,
            })
        };
        assert_eq!(error(WriteOutcome::Unknown).status, StatusCode::GATEWAY_TIMEOUT);
        assert!(!error(WriteOutcome::Unknown).retryable());
        assert_eq!(error(WriteOutcome::NotApplied).status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(error(WriteOutcome::NotApplied).retryable());
    }

    #[test]
    fn a_read_that_timed_out_may_be_repeated() {
        let error = ApiError::of_read(GatewayError {
            outcome: WriteOutcome::Unknown,
            ..GatewayError::of(ErrorCode::TransientNotCommitted)
        });
        assert_eq!((error.status, error.outcome), (StatusCode::GATEWAY_TIMEOUT, WriteOutcome::NotApplied));
        assert!(error.retryable());
    }

    #[test]
    fn busy_answers_say_when_to_come_back() {
        let busy = ApiError::coded(ErrorCode::TransientNotAccepted, "busy");
        assert_eq!(headers_of(&busy), [(header::RETRY_AFTER, HeaderValue::from_static("1"))]);
        assert_eq!(headers_of(&ApiError::too_large(10)), []);
    }
}
