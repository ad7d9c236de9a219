//! What every request passes on its way in and out: the request id, the body of errors, the view header, panics.

use crate::error::{ApiError, ErrorBody, Pending, headers_of};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, Version, header};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use whippet_gateway::WriteOutcome;

/// Names one request in answers and logs.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// View of the metadata group, on every success.
pub const VIEW: HeaderName = HeaderName::from_static("iggy-view");

/// Longest request id that is taken over from the caller, in bytes.
const REQUEST_ID_MAX: usize = 128;
/// The liveness probe is free of headers that say something about the cluster.
const PING: &str = "/ping";

/// Tells the view of the metadata group.
pub type View = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Runs a request and completes its response.
pub async fn complete(State(view): State<View>, request: Request, next: Next) -> Response {
    let request_id = request_id(request.headers());
    let problem_wanted = wants_problem(request.headers());
    let version = request.version();
    let uri = request.uri().clone();
    let method = request.method().clone();

    let mut response = match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(_) => {
            tracing::error!(request_id = ?request_id, %method, path = uri.path(), "a request handler panicked");
            axum::response::IntoResponse::into_response(ApiError::internal(WriteOutcome::Unknown))
        }
    };

    let status = response.status();
    if status.is_client_error() || status.is_server_error() {
        let error = error_of(&mut response, &uri);
        if status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE {
            tracing::warn!(request_id = ?request_id, %method, path = uri.path(), id = error.id, reason = %error.reason, "request failed");
        }
        write_error(&mut response, &error, &request_id, problem_wanted, version);
    } else if uri.path() != PING {
        response.headers_mut().insert(VIEW, HeaderValue::from(view()));
    }
    response.headers_mut().insert(REQUEST_ID, request_id);
    response
}

/// The error that a response stands for. Responses that no handler of ours made (wrong method, wrong path in a merged
/// router) have only a status.
fn error_of(response: &mut Response, uri: &Uri) -> Arc<ApiError> {
    if let Some(Pending(error)) = response.extensions_mut().remove::<Pending>() {
        return error;
    }
    let status = response.status();
    Arc::new(match status {
        StatusCode::METHOD_NOT_ALLOWED => {
            let allow = response.headers().get(header::ALLOW).cloned();
            let methods = allow.as_ref().and_then(|allow| allow.to_str().ok()).unwrap_or_default();
            let mut error = ApiError::http(
                status,
                "method_not_allowed",
                format!("{} has no such method; it has {methods}", uri.path()),
            );
            error.allow = allow;
            error
        }
        StatusCode::NOT_FOUND => no_route(uri),
        _ => ApiError::http(status, "http_error", status.canonical_reason().unwrap_or("the request failed")),
    })
}

/// 404 for a path that no route has, with a hint where the cause is a common one.
pub fn no_route(uri: &Uri) -> ApiError {
    let path = uri.path();
    let hint = if path.len() > 1 && path.ends_with('/') {
        "; leave out the slash at the end"
    } else if path.contains("//") {
        "; it has two slashes in a row, so a name in it may be empty"
    } else {
        "; GET /openapi.json lists the paths, and a slash within a name has to be written %2F"
    };
    ApiError::http(StatusCode::NOT_FOUND, "not_found", format!("there is nothing at {path}{hint}"))
}

fn write_error(response: &mut Response, error: &ApiError, id: &HeaderValue, problem_wanted: bool, version: Version) {
    let body: ErrorBody = error.body(id.to_str().unwrap_or_default());
    // Strings and numbers only: this cannot fail.
    let bytes = serde_json::to_vec(&body).unwrap_or_default();
    let headers = response.headers_mut();
    let content_type = if problem_wanted { "application/problem+json" } else { "application/json" };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes.len()));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for (name, value) in headers_of(error) {
        headers.insert(name, value);
    }
    if error.close && version <= Version::HTTP_11 {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    *response.body_mut() = Body::from(bytes);
}

/// The caller's own id when it is one that can be logged and sent back, else a random one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let acceptable = |value: &&HeaderValue| {
        (1..=REQUEST_ID_MAX).contains(&value.len()) && value.as_bytes().iter().all(u8::is_ascii_graphic)
    };
    headers.get(REQUEST_ID).filter(acceptable).cloned().unwrap_or_else(|| {
        let text = uuid::Uuid::new_v4().simple().to_string();
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("unknown"))
    })
}

fn wants_problem(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|range| {
            range.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/problem+json"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callers_request_id_is_kept_when_it_is_harmless() {
        let id = |value: &'static [u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_bytes(value).unwrap());
            request_id(&headers)
        };
        assert_eq!(id(b"abc-123"), "abc-123");
        assert_ne!(id(b"with space"), "with space");
        assert_ne!(id(b"\xc3\xa9"), HeaderValue::from_bytes(b"\xc3\xa9").unwrap());
        assert_eq!(id(&[b'x'; 129]).len(), 32);
        assert_eq!(request_id(&HeaderMap::new()).len(), 32);
    }

    #[test]
    fn problem_details_are_sent_only_to_those_who_name_them() {
        let wanted = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(value));
            wants_problem(&headers)
        };
        assert!(wanted("application/problem+json"));
        assert!(wanted("application/json, Application/Problem+JSON;q=0.5"));
        assert!(!wanted("*/*"));
        assert!(!wanted("application/json"));
    }

    #[test]
    fn a_trailing_slash_is_explained() {
        let reason = |path: &'static str| no_route(&Uri::from_static(path)).reason;
        assert_eq!(reason("/streams/"), "there is nothing at /streams/; leave out the slash at the end");
        assert!(reason("/streams//topics").contains("two slashes"));
    }
}
