//! JSON request bodies: content type, size limit, read deadline, syntax, shape.

use crate::error::ApiError;
use crate::extract::plain;
use crate::settings::HttpSettings;
use axum::body::Body;
use axum::extract::{FromRef, FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// A body that was read whole and parsed.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<T, S> FromRequest<S> for Json<T>
where
    T: DeserializeOwned,
    S: Send + Sync,
    Arc<HttpSettings>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let RawJson(bytes) = RawJson::from_request(request, state).await?;
        parse(&bytes).map(Json)
    }
}

/// A JSON body that was read whole, for handlers that parse it without copying.
#[derive(Debug)]
pub struct RawJson(pub Bytes);

impl<S> FromRequest<S> for RawJson
where
    S: Send + Sync,
    Arc<HttpSettings>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        check_content_type(&parts.headers)?;
        read(&parts.headers, body, &Arc::from_ref(state)).await.map(RawJson)
    }
}

fn check_content_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let named = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = named.and_then(|value| value.split(';').next()).map(|value| value.trim().to_ascii_lowercase());
    match essence.as_deref() {
        Some("application/json") => Ok(()),
        Some(kind) if kind.starts_with("application/") && kind.ends_with("+json") => Ok(()),
        _ => Err(ApiError::http(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "the body has to be JSON, announced by the header `Content-Type: application/json`",
        )),
    }
}

/// Reads a body of at most `settings.max_request_size` bytes.
///
/// Nothing is read of a body that announces more: a caller that waits for `100 Continue` then gets its answer without
/// having sent a byte. The rest of a body that turns out to be too large is taken off the socket when the connection
/// closes.
async fn read(headers: &HeaderMap, mut body: Body, settings: &HttpSettings) -> Result<Bytes, ApiError> {
    let limit = settings.max_request_size;
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > limit as u64) {
        return Err(ApiError::too_large(limit));
    }
    let whole_by = Instant::now() + settings.body_timeout;
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    let mut length = 0;
    loop {
        let next_by = whole_by.min(Instant::now() + settings.body_idle_timeout);
        let frame = match timeout_at(next_by, body.frame()).await {
            Ok(None) => break,
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(_))) => {
                let mut error =
                    ApiError::http(StatusCode::BAD_REQUEST, "incomplete_body", "the body ended before its end");
                error.close = true;
                return Err(error);
            }
            Err(_) => return Err(too_slow(settings.body_timeout)),
        };
        let Ok(data) = frame.into_data() else { continue };
        length += data.len();
        if length > limit {
            return Err(ApiError::too_large(limit));
        }
        match &first {
            None => first = Some(data),
            Some(begin) => {
                if rest.is_empty() {
                    rest.extend_from_slice(begin);
                }
                rest.extend_from_slice(&data);
            }
        }
    }
    Ok(if rest.is_empty() { first.unwrap_or_default() } else { rest.freeze() })
}

fn too_slow(limit: Duration) -> ApiError {
    let mut error = ApiError::http(
        StatusCode::REQUEST_TIMEOUT,
        "request_timeout",
        format!("the body did not arrive in time; a whole body may take {} s", limit.as_secs()),
    );
    error.close = true;
    error
}

/// Parses one JSON value and nothing after it.
///
/// # Errors
/// 400 `malformed_json` when the bytes are not JSON, 422 `invalid_body` when they are, but not what is wanted.
pub(crate) fn parse<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, ApiError> {
    if bytes.is_empty() {
        return Err(ApiError::http(
            StatusCode::BAD_REQUEST,
            "malformed_json",
            "the body is empty; a JSON object is expected",
        ));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let mut track = serde_path_to_error::Track::new();
    let value = T::deserialize(serde_path_to_error::Deserializer::new(&mut deserializer, &mut track))
        .map_err(|error| refused(&error, &track.path().to_string()))?;
    deserializer.end().map_err(|error| refused(&error, "."))?;
    Ok(value)
}

fn refused(error: &serde_json::Error, path: &str) -> ApiError {
    let complaint = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    let complaint = complaint.strip_suffix(&position).unwrap_or(&complaint);
    if error.classify() == Category::Data {
        let place = if path == "." { String::new() } else { format!("`{path}`: ") };
        let reason = format!("{place}{} (line {}, column {})", plain(complaint), error.line(), error.column());
        return ApiError::http(StatusCode::UNPROCESSABLE_ENTITY, "invalid_body", reason);
    }
    let reason = format!("the body is not JSON: {complaint} (line {}, column {})", error.line(), error.column());
    ApiError::http(StatusCode::BAD_REQUEST, "malformed_json", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Sample {
        name: String,
        #[serde(default)]
        count: u32,
    }

    fn refusal(text: &str) -> (u16, String, String) {
        let error = parse::<Sample>(text.as_bytes()).unwrap_err();
        (error.status.as_u16(), error.code.to_string(), error.reason.to_string())
    }

    #[test]
    fn what_is_wanted_is_parsed_and_unknown_members_are_ignored() {
        assert_eq!(
            parse::<Sample>(br#"{"name":"a","other":[1,{"x":null}]}"#).unwrap(),
            Sample { name: "a".into(), count: 0 }
        );
    }

    #[test]
    fn what_is_not_json_is_400() {
        for text in ["", "{", "{\"name\"", "\u{feff}{}", "{\"name\":\"a\"}x", "{\"name\":\"a\"} {}", "nul"] {
            let (status, code, _) = refusal(text);
            assert_eq!((status, code.as_str()), (400, "malformed_json"), "{text}");
        }
        assert_eq!(parse::<Sample>(b"{\"name\":\"\xff\"}").unwrap_err().status, 400);
    }

    #[test]
    fn deep_nesting_in_ignored_and_in_free_members_ends_in_an_answer() {
        let ignored = format!("{{\"name\":\"a\",\"x\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(parse::<Sample>(ignored.as_bytes()).unwrap().name, "a");
        let instead_of_text = format!("{{\"name\":{}", "[".repeat(100_000));
        assert_eq!(refusal(&instead_of_text).0, 422);
        let free = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert_eq!(parse::<serde_json::Value>(free.as_bytes()).unwrap_err().status, 400);
    }

    #[test]
    fn what_has_the_wrong_shape_is_422_with_its_place() {
        assert_eq!(
            refusal(r#"{"name":"a","count":"tank"}"#),
            (
                422,
                "invalid_body".into(),
                "`count`: invalid type: string \"tank\", expected a whole number that is not negative and fits (line 1, column 26)"
                    .into()
            )
        );
        for text in [
            "null",
            "[]",
            "{}",
            r#"{"name":null}"#,
            r#"{"name":1}"#,
            r#"{"name":"a","name":"b"}"#,
            r#"{"name":"a","count":-1}"#,
            r#"{"name":"a","count":1.5}"#,
            r#"{"name":"a","count":18446744073709551616}"#,
            r#"{"name":"a","count":99999999999999999999999999999999999999999999999999}"#,
        ] {
            let (status, _, reason) = refusal(text);
            assert!(status == 422 || status == 400, "{text}: {status}");
            for name in ["u32", "u64", "struct", "Sample", "serde"] {
                assert!(!reason.contains(name), "{text}: {reason}");
            }
        }
    }

    #[test]
    fn only_json_content_types_pass() {
        let check = |value: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(header::CONTENT_TYPE, axum::http::HeaderValue::from_static(value));
            }
            check_content_type(&headers).map_err(|error| error.status.as_u16())
        };
        assert_eq!(check(Some("application/json")), Ok(()));
        assert_eq!(check(Some("Application/JSON; charset=utf-8")), Ok(()));
        assert_eq!(check(Some("application/vnd.x+json")), Ok(()));
        assert_eq!(check(Some("text/plain")), Err(415));
        assert_eq!(check(None), Err(415));
    }

    fn settings() -> HttpSettings {
        HttpSettings { max_request_size: 10, ..HttpSettings::for_tests() }
    }

    #[tokio::test]
    async fn the_limit_is_exact_and_also_holds_for_bodies_without_a_length() {
        let body = |size: usize| Body::from(vec![b'x'; size]);
        let chunked = |size: usize| {
            let chunks = (0..size).map(|_| Ok::<_, std::io::Error>(Bytes::from_static(b"x")));
            Body::from_stream(futures_util::stream::iter(chunks))
        };
        let headers = HeaderMap::new();
        for make in [&body as &dyn Fn(usize) -> Body, &chunked] {
            assert_eq!(read(&headers, make(10), &settings()).await.unwrap().len(), 10);
            let error = read(&headers, make(11), &settings()).await.unwrap_err();
            assert_eq!((error.status.as_u16(), error.close), (413, true));
            assert!(error.reason.contains("10 bytes"), "{}", error.reason);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_dribbles_is_given_up() {
        let chunks = futures_util::stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(b"")), ()))
        });
        let started = Instant::now();
        let error = read(&HeaderMap::new(), Body::from_stream(chunks), &settings()).await.unwrap_err();
        assert_eq!((error.status.as_u16(), error.close), (408, true));
        assert_eq!(started.elapsed().as_secs(), settings().body_timeout.as_secs());
    }
}
