//! Query strings.

use crate::error::ApiError;
use crate::extract::plain;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, Uri};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::{IntoParams, ToSchema};

/// How fresh a read of metadata has to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Consistency {
    /// What the node that was asked has committed.
    #[default]
    Serializable,
    /// All that was committed before the request.
    Linearizable,
}

/// The parameter of all reads of metadata.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ReadQuery {
    /// How fresh the answer has to be.
    #[serde(default)]
    #[param(inline)]
    #[allow(dead_code, reason = "reading it checks it; on one node both levels are the same")]
    pub consistency: Consistency,
}

/// The parameters of the query string; unknown ones are ignored.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
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
        ApiError::http(
            StatusCode::BAD_REQUEST,
            "invalid_query",
            format!("the query string is not understood: {complaint}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn consistency_is_one_of_two_words() {
        let read = |uri: &str| parse::<ReadQuery>(&uri.parse().unwrap()).map(|query| query.consistency);
        assert_eq!(read("/x"), Ok(Consistency::Serializable));
        assert_eq!(read("/x?consistency=linearizable"), Ok(Consistency::Linearizable));
        for wrong in ["Linearizable", "strong", ""] {
            let error = read(&format!("/x?consistency={wrong}")).unwrap_err();
            assert_eq!(error.status, 400);
            assert!(error.reason.contains("linearizable"), "{}", error.reason);
        }
    }

    #[test]
    fn what_is_wrong_is_named_without_types() {
        assert_eq!(read("/x"), Err("the query string is not understood: missing field `count`".into()));
        for uri in [
            "/x?count=a",
            "/x?count=-1",
            "/x?count=4294967296",
            "/x?count=1&commit=1",
            "/x?count=1&count=2",
            "/x?count=",
        ] {
            let reason = read(uri).unwrap_err();
            assert!(reason.contains("count") || reason.contains("commit"), "{uri}: {reason}");
            assert!(!reason.contains("u32") && !reason.contains("Sample"), "{uri}: {reason}");
        }
    }
}
