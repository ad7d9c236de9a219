//! Paths of this API that the server does not serve yet. They answer that the feature is not available, which clients
//! tell apart from a thing that does not exist.

use crate::error::ApiError;
use crate::extract::Authenticated;
use crate::state::App;
use axum::Router;
use axum::routing::{delete, get, post, put};
use whippet_protocol::ErrorCode;

pub(super) const TOPIC: &str = "/streams/{stream}/topics/{topic}";

/// The routes; not part of the OpenAPI document.
pub fn router() -> Router<App> {
    let under_topic = |path: &str| format!("{TOPIC}{path}");
    Router::new()
        .route("/users", get(unavailable).post(unavailable))
        .route("/users/{user}", get(unavailable).put(unavailable).delete(unavailable))
        .route("/users/{user}/permissions", put(unavailable))
        .route("/users/{user}/password", put(unavailable))
        .route("/personal-access-tokens", get(unavailable).post(unavailable))
        .route("/personal-access-tokens/login", post(|| async { feature_unavailable() }))
        .route("/personal-access-tokens/{name}", delete(unavailable))
        .route(&under_topic("/partitions/{partition}"), delete(unavailable))
        .route(&under_topic("/consumer-groups"), get(unavailable).post(unavailable))
        .route(&under_topic("/consumer-groups/{group}"), get(unavailable).delete(unavailable))
        .route("/snapshot", post(unavailable))
        .route("/metrics", get(unavailable))
}

async fn unavailable(_: Authenticated) -> ApiError {
    feature_unavailable()
}

fn feature_unavailable() -> ApiError {
    ApiError::coded(ErrorCode::FeatureUnavailable, "this server does not offer this operation")
}
