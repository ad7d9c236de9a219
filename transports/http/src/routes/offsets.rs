//! Stored consumer offsets.

use crate::error::ApiError;
use crate::extract::path::identifier;
use crate::extract::{Authenticated, ConsumerPath, Json, Query, TopicPath};
use crate::json::offset::{ConsumerOffsetInfo, OffsetQuery, PartitionQuery, StoreConsumerOffset};
use crate::routes::to_its_end;
use crate::state::App;
use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use whippet_gateway::ConsumerRef;
use whippet_protocol::ErrorCode;

/// The routes.
pub fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(get_consumer_offset, store_consumer_offset))
        .routes(routes!(delete_consumer_offset))
}

/// Shows how far a consumer has come in a partition.
#[utoipa::path(
    get,
    path = "/streams/{stream}/topics/{topic}/consumer-offsets",
    tag = "consumer-offsets",
    params(
        ("stream" = String, Path, description = "Number or name of the stream"),
        ("topic" = String, Path, description = "Number or name of the topic"),
        OffsetQuery
    ),
    responses((status = 200, description = "The stored offset and the partition's last one", body = ConsumerOffsetInfo)),
    security(("bearer" = []))
)]
async fn get_consumer_offset(
    State(app): State<App>,
    asked: Authenticated,
    path: TopicPath,
    Query(query): Query<OffsetQuery>,
) -> Result<Answer<ConsumerOffsetInfo>, ApiError> {
    let consumer = ConsumerRef::Single(identifier(&query.consumer_id, "consumer_id")?);
    let found = app
        .gateway()
        .get_consumer_offset(&asked.caller, &consumer, &path.stream, &path.topic, Some(query.partition_id))
        .await
        .map_err(ApiError::of_read)?;
    match found {
        Some(offset) => Ok(Answer(ConsumerOffsetInfo {
            partition_id: offset.partition_id,
            current_offset: offset.current_offset,
            stored_offset: offset.stored_offset,
        })),
        None => Err(ApiError::missing(
            ErrorCode::ConsumerOffsetNotFound,
            format!("consumer `{}` has stored no offset in partition {}", query.consumer_id, query.partition_id),
        )),
    }
}

/// Stores how far a consumer has come in a partition.
#[utoipa::path(
    put,
    path = "/streams/{stream}/topics/{topic}/consumer-offsets",
    tag = "consumer-offsets",
    params(
        ("stream" = String, Path, description = "Number or name of the stream"),
        ("topic" = String, Path, description = "Number or name of the topic")
    ),
    request_body = StoreConsumerOffset,
    responses((status = 204, description = "Stored")),
    security(("bearer" = []))
)]
async fn store_consumer_offset(
    State(app): State<App>,
    asked: Authenticated,
    path: TopicPath,
    Json(body): Json<StoreConsumerOffset>,
) -> Result<StatusCode, ApiError> {
    let consumer = ConsumerRef::Single(body.consumer()?);
    let partition = Some(body.partition_id.unwrap_or_default());
    to_its_end(async move {
        app.gateway()
            .store_consumer_offset(&asked.caller, &consumer, &path.stream, &path.topic, partition, body.offset)
            .await?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

/// Forgets how far a consumer has come in a partition.
#[utoipa::path(
    delete,
    path = "/streams/{stream}/topics/{topic}/consumer-offsets/{consumer}",
    tag = "consumer-offsets",
    params(
        ("stream" = String, Path, description = "Number or name of the stream"),
        ("topic" = String, Path, description = "Number or name of the topic"),
        ("consumer" = String, Path, description = "Number or name of the consumer"),
        PartitionQuery
    ),
    responses((status = 204, description = "Forgotten")),
    security(("bearer" = []))
)]
async fn delete_consumer_offset(
    State(app): State<App>,
    asked: Authenticated,
    path: ConsumerPath,
    Query(query): Query<PartitionQuery>,
) -> Result<StatusCode, ApiError> {
    let consumer = ConsumerRef::Single(path.consumer);
    to_its_end(async move {
        app.gateway()
            .delete_consumer_offset(&asked.caller, &consumer, &path.stream, &path.topic, Some(query.partition_id))
            .await?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}
