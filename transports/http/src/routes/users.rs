//! Logins, token renewal, logout.

use crate::error::ApiError;
use crate::extract::{Authenticated, Json};
use crate::json::user::{IdentityInfo, LoginUser, RefreshToken, TokenInfo};
use crate::state::App;
use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use secrecy::ExposeSecret;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes.
pub fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(login_user)).routes(routes!(refresh_token)).routes(routes!(logout_user))
}

/// Logs a user in with name and password.
#[utoipa::path(
    post,
    path = "/users/login",
    tag = "users",
    request_body = LoginUser,
    responses((status = 200, description = "Who is logged in, with an access token", body = IdentityInfo))
)]
async fn login_user(State(app): State<App>, Json(login): Json<LoginUser>) -> Result<Answer<IdentityInfo>, ApiError> {
    let user = app.gateway().verify_password(&login.username, login.password.expose_secret()).await?;
    tracing::debug!(user, version = ?login.version, context = ?login.context, "a user logged in over HTTP");
    identity(&app, user)
}

/// Renews an access token. The old one stays valid until its end.
#[utoipa::path(
    post,
    path = "/users/refresh-token",
    tag = "users",
    request_body = RefreshToken,
    responses((status = 200, description = "A new access token for the same user", body = IdentityInfo))
)]
async fn refresh_token(
    State(app): State<App>,
    Json(refresh): Json<RefreshToken>,
) -> Result<Answer<IdentityInfo>, ApiError> {
    let token = app.tokens().verify(refresh.token.expose_secret())?;
    identity(&app, token.user)
}

/// Ends the session of the access token, which this node then does not accept any more.
#[utoipa::path(
    delete,
    path = "/users/logout",
    tag = "users",
    responses((status = 204, description = "Logged out")),
    security(("bearer" = []))
)]
async fn logout_user(State(app): State<App>, asked: Authenticated) -> StatusCode {
    app.tokens().revoke(&asked.token, app.now_seconds());
    app.gateway().http_logout(&asked.token.token_id);
    StatusCode::NO_CONTENT
}

fn identity(app: &App, user: u32) -> Result<Answer<IdentityInfo>, ApiError> {
    let issued = app.tokens().issue(user, app.now_seconds())?;
    let access_token = Some(TokenInfo { token: issued.token, expiry: issued.expiry });
    Ok(Answer(IdentityInfo { user_id: user, access_token }))
}
