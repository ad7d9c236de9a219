//! Partitions.

use crate::error::ApiError;
use crate::extract::{Authenticated, Json, Query, TopicPath};
use crate::json::partition::{CreatePartitions, DeletePartitions};
use crate::routes::to_its_end;
use crate::state::App;
use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes.
pub fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(create_partitions, delete_partitions))
}

/// Adds partitions to a topic.
#[utoipa::path(
    post,
    path = "/streams/{stream}/topics/{topic}/partitions",
    tag = "partitions",
    params(
        ("stream" = String, Path, description = "Number or name of the stream"),
        ("topic" = String, Path, description = "Number or name of the topic")
    ),
    request_body = CreatePartitions,
    responses((status = 200, description = "Added; the body is empty")),
    security(("bearer" = []))
)]
async fn create_partitions(
    State(app): State<App>,
    asked: Authenticated,
    path: TopicPath,
    Json(body): Json<CreatePartitions>,
) -> Result<StatusCode, ApiError> {
    to_its_end(async move {
        app.gateway().create_partitions(&asked.caller, path.stream, path.topic, body.partitions_count).await?;
        Ok(StatusCode::OK)
    })
    .await
}

/// Removes the partitions with the highest ids, together with their messages.
#[utoipa::path(
    delete,
    path = "/streams/{stream}/topics/{topic}/partitions",
    tag = "partitions",
    params(
        ("stream" = String, Path, description = "Number or name of the stream"),
        ("topic" = String, Path, description = "Number or name of the topic"),
        DeletePartitions
    ),
    responses((status = 204, description = "Removed")),
    security(("bearer" = []))
)]
async fn delete_partitions(
    State(app): State<App>,
    asked: Authenticated,
    path: TopicPath,
    Query(query): Query<DeletePartitions>,
) -> Result<StatusCode, ApiError> {
    to_its_end(async move {
        app.gateway().delete_partitions(&asked.caller, path.stream, path.topic, query.partitions_count).await?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}
