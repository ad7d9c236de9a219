//! Who asks: the bearer token of a request.

use crate::error::ApiError;
use crate::state::App;
use crate::token::Verified;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use whippet_gateway::Caller;

/// The requester, known by a valid access token. Handlers that do not ask for it never look at the header: clients send
/// an empty one before they have logged in.
pub struct Authenticated {
    /// In whose name the gateway acts.
    pub caller: Caller,
    /// The token that proved it.
    pub token: Verified,
}

impl FromRequestParts<App> for Authenticated {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let token = app.tokens().verify(bearer(&parts.headers)?)?;
        let caller = app.gateway().http_caller(&token.token_id, token.user)?;
        Ok(Self { caller, token })
    }
}

/// The token of the header `Authorization: Bearer <token>`.
///
/// # Errors
/// 401 when it is not there, of another scheme or empty.
fn bearer(headers: &HeaderMap) -> Result<&str, ApiError> {
    const MISSING: &str =
        "this path needs the header `Authorization: Bearer <access token>`; POST /users/login gives one";
    let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let (scheme, token) = value.and_then(|value| value.split_once(' ')).ok_or(ApiError::unauthenticated(MISSING))?;
    let token = token.trim();
    if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() {
        return Err(ApiError::unauthenticated(MISSING));
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn only_a_bearer_token_counts() {
        let read = |value: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(header::AUTHORIZATION, HeaderValue::from_static(value));
            }
            bearer(&headers).map(str::to_owned).map_err(|error| (error.status.as_u16(), error.id))
        };
        assert_eq!(read(Some("Bearer a.b.c")), Ok("a.b.c".into()));
        assert_eq!(read(Some("bearer  a.b.c ")), Ok("a.b.c".into()));
        for wrong in [None, Some(""), Some("Bearer"), Some("Bearer "), Some("Basic YTpi"), Some("a.b.c")] {
            assert_eq!(read(wrong), Err((401, 40)), "{wrong:?}");
        }
    }
}
