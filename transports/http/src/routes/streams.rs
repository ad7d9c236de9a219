//! Streams.

use crate::error::ApiError;
use crate::extract::{Authenticated, Json, Query, ReadQuery, StreamPath};
use crate::json::stream::{CreateStream, Stream, StreamDetails, UpdateStream};
use crate::routes::{name, no_stream, to_its_end};
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
        .routes(routes!(get_streams, create_stream))
        .routes(routes!(get_stream, update_stream, delete_stream))
        .routes(routes!(purge_stream))
}

/// Lists all streams, by id.
#[utoipa::path(
    get,
    path = "/streams",
    tag = "streams",
    params(ReadQuery),
    responses((status = 200, description = "All streams", body = Vec<Stream>)),
    security(("bearer" = []))
)]
async fn get_streams(
    State(app): State<App>,
    asked: Authenticated,
    _: Query<ReadQuery>,
) -> Result<Answer<Vec<Stream>>, ApiError> {
    let streams = app.gateway().get_streams(&asked.caller).await.map_err(ApiError::of_read)?;
    Ok(Answer(streams.iter().map(Stream::from).collect()))
}

/// Shows a stream and its topics.
#[utoipa::path(
    get,
    path = "/streams/{stream}",
    tag = "streams",
    params(("stream" = String, Path, description = "Number or name of the stream"), ReadQuery),
    responses((status = 200, description = "The stream", body = StreamDetails)),
    security(("bearer" = []))
)]
async fn get_stream(
    State(app): State<App>,
    asked: Authenticated,
    path: StreamPath,
    _: Query<ReadQuery>,
) -> Result<Answer<StreamDetails>, ApiError> {
    match app.gateway().get_stream(&asked.caller, &path.stream).await.map_err(ApiError::of_read)? {
        Some(details) => Ok(Answer(StreamDetails::from(&details))),
        None => Err(no_stream(&path)),
    }
}

/// Creates a stream.
#[utoipa::path(
    post,
    path = "/streams",
    tag = "streams",
    request_body = CreateStream,
    responses((status = 200, description = "The new stream", body = StreamDetails)),
    security(("bearer" = []))
)]
async fn create_stream(
    State(app): State<App>,
    asked: Authenticated,
    Json(body): Json<CreateStream>,
) -> Result<Answer<StreamDetails>, ApiError> {
    let name = name(body.name, ErrorCode::InvalidStreamName)?;
    to_its_end(async move {
        let details = app.gateway().create_stream(&asked.caller, name).await?;
        Ok(Answer(StreamDetails::from(&details)))
    })
    .await
}

/// Renames a stream.
#[utoipa::path(
    put,
    path = "/streams/{stream}",
    tag = "streams",
    params(("stream" = String, Path, description = "Number or name of the stream")),
    request_body = UpdateStream,
    responses((status = 204, description = "Renamed")),
    security(("bearer" = []))
)]
async fn update_stream(
    State(app): State<App>,
    asked: Authenticated,
    path: StreamPath,
    Json(body): Json<UpdateStream>,
) -> Result<StatusCode, ApiError> {
    if let Some(key) = body.options.iter().flatten().map(|(key, _)| key).next() {
        let shown: String = key.chars().take(64).collect();
        let reason = format!("a stream has no option `{shown}` that can be changed");
        return Err(ApiError::coded(ErrorCode::UnsupportedOptionKey, reason).on("options"));
    }
    let name = name(body.name, ErrorCode::InvalidStreamName)?;
    to_its_end(async move {
        app.gateway().update_stream(&asked.caller, path.stream, name).await?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

/// Deletes a stream with all its topics and messages.
#[utoipa::path(
    delete,
    path = "/streams/{stream}",
    tag = "streams",
    params(("stream" = String, Path, description = "Number or name of the stream")),
    responses((status = 204, description = "Deleted")),
    security(("bearer" = []))
)]
async fn delete_stream(State(app): State<App>, asked: Authenticated, path: StreamPath) -> Result<StatusCode, ApiError> {
    to_its_end(async move {
        app.gateway().delete_stream(&asked.caller, path.stream).await?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

/// Deletes all messages of a stream; its topics stay.
#[utoipa::path(
    delete,
    path = "/streams/{stream}/purge",
    tag = "streams",
    params(("stream" = String, Path, description = "Number or name of the stream")),
    responses((status = 204, description = "Emptied")),
    security(("bearer" = []))
)]
async fn purge_stream(State(app): State<App>, asked: Authenticated, path: StreamPath) -> Result<StatusCode, ApiError> {
    to_its_end(async move {
        app.gateway().purge_stream(&asked.caller, path.stream).await?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}
