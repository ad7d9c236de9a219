//! The OpenAPI document and the page that explores it. Both are anonymous.

use crate::openapi;
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
pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route("/openapi.json", get(document))
}

/// `GET /docs`, with everything that the page loads.
pub fn page<S: Clone + Send + Sync + 'static>() -> Router<S> {
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
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    async fn get(path: &str) -> (StatusCode, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = router().merge(page()).oneshot(request).await.unwrap();
        let status = response.status();
        (status, String::from_utf8_lossy(&response.into_body().collect().await.unwrap().to_bytes()).into_owned())
    }

    #[tokio::test]
    async fn the_page_loads_nothing_from_elsewhere() {
        let (status, html) = get("/docs/").await;
        assert_eq!(status, 200);
        let loaded: Vec<_> = html
            .split(['"', '\''])
            .filter(|text| text.ends_with(".js") || text.ends_with(".css") || text.ends_with(".png"))
            .collect();
        assert!(loaded.len() >= 4, "{html}");
        for path in loaded {
            assert!(!path.contains("//"), "{path}");
            let (status, content) = get(&format!("/docs/{}", path.trim_start_matches("./"))).await;
            assert_eq!((status, content.is_empty()), (StatusCode::OK, false), "{path}");
        }
        assert!(get("/docs/swagger-initializer.js").await.1.contains("/openapi.json"));
    }

    #[tokio::test]
    async fn the_document_is_served_as_it_is_checked_in() {
        assert_eq!(get("/openapi.json").await, (StatusCode::OK, openapi::text()));
    }

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
