//! Topics.

use crate::error::ApiError;
use crate::extract::{Authenticated, Json, Query, ReadQuery, StreamPath, TopicPath};
use crate::json::topic::{CreateTopic, Topic, TopicDetails, UpdateTopic};
use crate::routes::{name, no_stream, no_topic, to_its_end};
use crate::state::App;
use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use whippet_protocol::ErrorCode;

/// The routes.
pub fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(get_topics, create_topic))
        .routes(routes!(get_topic, update_topic, delete_topic))
        .routes(routes!(purge_topic))
}

/// Lists the topics of a stream, by id.
#[utoipa::path(
    get,
    path = "/streams/{stream}/topics",
    tag = "topics",
    params(("stream" = String, Path, description = "Number or name of the stream"), ReadQuery),
    responses((status = 200, description = "All topics of the stream", body = Vec<Topic>)),
    security(("bearer" = []))
)]
async fn get_topics(
    State(app): State<App>,
    asked: Authenticated,
    path: StreamPath,
    _: Query<ReadQuery>,
) -> Result<Answer<Vec<Topic>>, ApiError> {
    // Not `Gateway::get_topics`, for which a missing stream has no topics: a path that names it is 404.
    match app.gateway().get_stream(&asked.caller, &path.stream).await.map_err(ApiError::of_read)? {
        Some(details) => Ok(Answer(details.topics.iter().map(Topic::from).collect())),
        None => Err(no_stream(&path)),
    }
}

/// Shows a topic and its partitions.
#[utoipa::path(
    get,
    path = "/streams/{stream}/topics/{topic}",
    tag = "topics",
    params(
        ("stream" = String, Path, description = "Number or name of the stream"),
        ("topic" = String, Path, description = "Number or name of the topic"),
        ReadQuery
    ),
    responses((status = 200, description = "The topic", body = TopicDetails)),
    security(("bearer" = []))
)]
async fn get_topic(
    State(app): State<App>,
    asked: Authenticated,
    path: TopicPath,
    _: Query<ReadQuery>,
) -> Result<Answer<TopicDetails>, ApiError> {
    match app.gateway().get_topic(&asked.caller, &path.stream, &path.topic).await.map_err(ApiError::of_read)? {
        Some(details) => Ok(Answer(TopicDetails::from(&details))),
        None => Err(no_topic(&path)),
    }
}

/// Creates a topic with its partitions.
#[utoipa::path(
    post,
    path = "/streams/{stream}/topics",
    tag = "topics",
    params(("stream" = String, Path, description = "Number or name of the stream")),
    request_body = CreateTopic,
    responses((status = 200, description = "The new topic", body = TopicDetails)),
    security(("bearer" = []))
)]
async fn create_topic(
    State(app): State<App>,
    asked: Authenticated,
    path: StreamPath,
    Json(body): Json<CreateTopic>,
) -> Result<Answer<TopicDetails>, ApiError> {
    let options = body.patch()?;
    let name = name(body.name, ErrorCode::InvalidTopicName)?;
    let partitions = body.partitions_count;
    to_its_end(async move {
        let details = app.gateway().create_topic(&asked.caller, path.stream, name, partitions, options).await?;
        Ok(Answer(TopicDetails::from(&details)))
    })
    .await
}

/// Renames a topic and changes its options.
#[utoipa::path(
    put,
    path = "/streams/{stream}/topics/{topic}",
    tag = "topics",
    params(
        ("stream" = String, Path, description = "Number or name of the stream"),
        ("topic" = String, Path, description = "Number or name of the topic")
    ),
    request_body = UpdateTopic,
    responses((status = 204, description = "Changed")),
    security(("bearer" = []))
)]
async fn update_topic(
    State(app): State<App>,
    asked: Authenticated,
    path: TopicPath,
    Json(body): Json<UpdateTopic>,
) -> Result<StatusCode, ApiError> {
    let options = body.patch()?;
    let name = name(body.name, ErrorCode::InvalidTopicName)?;
    to_its_end(async move {
        app.gateway().update_topic(&asked.caller, path.stream, path.topic, name, options).await?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

/// Deletes a topic with all its messages.
#[utoipa::path(
    delete,
    path = "/streams/{stream}/topics/{topic}",
    tag = "topics",
    params(
        ("stream" = String, Path, description = "Number or name of the stream"),
        ("topic" = String, Path, description = "Number or name of the topic")
    ),
    responses((status = 204, description = "Deleted")),
    security(("bearer" = []))
)]
async fn delete_topic(State(app): State<App>, asked: Authenticated, path: TopicPath) -> Result<StatusCode, ApiError> {
    to_its_end(async move {
        app.gateway().delete_topic(&asked.caller, path.stream, path.topic).await?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

/// Deletes all messages of a topic; its partitions stay.
#[utoipa::path(
    delete,
    path = "/streams/{stream}/topics/{topic}/purge",
    tag = "topics",
    params(
        ("stream" = String, Path, description = "Number or name of the stream"),
        ("topic" = String, Path, description = "Number or name of the topic")
    ),
    responses((status = 204, description = "Emptied")),
    security(("bearer" = []))
)]
async fn purge_topic(State(app): State<App>, asked: Authenticated, path: TopicPath) -> Result<StatusCode, ApiError> {
    to_its_end(async move {
        app.gateway().purge_topic(&asked.caller, path.stream, path.topic).await?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}
