//! Query strings.

use crate::error::ApiError;
use crate::extract::plain;
use crate::state::App;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, Uri};
use serde::de::DeserializeOwned;

/// The parameters of the query string; unknown ones are ignored.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        parse(&parts.uri).map(Query)
    }
}

/// # Errors
/// 400 `invalid_query`.
pub(crate) fn parse<T: DeserializeOwned>(uri: &Uri) -> Result<T, ApiError> {
    const PREFIX: &str = "Failed to deserialize query string: ";
    axum::extract::Query::<T>::try_from_uri(uri).map(|query| query.0).map_err(|rejection| {
        let text = rejection.body_text();
        let complaint = plain(text.strip_prefix(PREFIX).unwrap_or(&text));
        ApiError::http(StatusCode::BAD_REQUEST, "invalid_query", format!("the query string is not understood: {complaint}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Sample {
        count: u32,
        #[serde(default)]
        commit: bool,
    }

    fn read(uri: &str) -> Result<Sample, String> {
        parse(&uri.parse::<Uri>().unwrap()).map_err(|error| {
            assert_eq!(error.status, 400);
            error.reason.to_string()
        })
    }

    #[test]
    fn parameters_are_read() {
        assert_eq!(read("/x?count=3&commit=true&other=1"), Ok(Sample { count: 3, commit: true }));
    }

    #[test]
    fn what_is_wrong_is_named_without_types() {
        assert_eq!(read("/x"), Err("the query string is not understood: missing field `count`".into()));
        for uri in ["/x?count=a", "/x?count=-1", "/x?count=4294967296", "/x?count=1&commit=1", "/x?count=1&count=2", "/x?count="] {
            let reason = read(uri).unwrap_err();
            assert!(reason.contains("count") || reason.contains("commit"), "{uri}: {reason}");
            assert!(!reason.contains("u32") && !reason.contains("Sample"), "{uri}: {reason}");
        }
    }
}
