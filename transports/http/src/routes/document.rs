//! The OpenAPI document and the page that explores it. Both are anonymous.

use crate::openapi;
use crate::state::App;
use axum::Router;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::sync::LazyLock;
use utoipa_swagger_ui::{Config, SwaggerUi};

/// The document as bytes, and the ETag that goes with it. The same for as long as the process runs.
static DOCUMENT: LazyLock<(String, HeaderValue)> = LazyLock::new(|| {
    let text = openapi::text();
    let tag = format!("\"{}\"", &blake3::hash(text.as_bytes()).to_hex()[..32]);
    // Hex digits and quotes: a valid header value.
    let tag = HeaderValue::from_str(&tag).unwrap_or(HeaderValue::from_static("\"0\""));
    (text, tag)
});

/// `GET /openapi.json`.
pub fn router() -> Router<App> {
    Router::new().route("/openapi.json", get(document))
}

/// `GET /docs`, with everything that the page loads.
pub fn page() -> Router<App> {
    SwaggerUi::new("/docs").config(Config::from("/openapi.json").try_it_out_enabled(true)).into()
}

async fn document(headers: HeaderMap) -> Response {
    let (text, tag) = &*DOCUMENT;
    let caching = [(header::ETAG, tag.clone()), (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))];
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut known = known.flat_map(|value| value.split(',')).map(|known| known.trim().trim_start_matches("W/"));
    if known.any(|known| known == "*" || known.as_bytes() == tag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, caching).into_response();
    }
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    (caching, kind, text.as_str()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reader_that_has_the_document_gets_none() {
        let whole = document(HeaderMap::new()).await;
        assert_eq!(whole.status(), 200);
        let tag = whole.headers()[header::ETAG].clone();
        assert_eq!(tag.len(), 34);
        for value in [tag.to_str().unwrap().to_owned(), format!("\"x\", W/{}", tag.to_str().unwrap()), "*".into()] {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, HeaderValue::from_str(&value).unwrap());
            assert_eq!(document(headers).await.status(), 304, "{value}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static("\"other\""));
        assert_eq!(document(headers).await.status(), 200);
    }
}
