//! Appending and reading messages.

use crate::error::ApiError;
use crate::extract::body::parse;
use crate::extract::path::{identifier, number, segments};
use crate::extract::{Authenticated, Query, RawJson, TopicPath};
use crate::json::message::{PollQuery, PolledMessages};
use crate::json::produce::{Ack, SendConfirmation, SendConfirmations, SendMessages, SendQuery, Target};
use crate::routes::{no_topic, to_its_end};
use crate::state::App;
use axum::Json as Answer;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use whippet_gateway::{ConsumerRef, Partitioning, PollArgs, SendArgs};
use whippet_protocol::ErrorCode;
use whippet_protocol::batch::BatchBuilder;

/// What an acknowledged append has waited for: `replicated` or `persisted`.
const DURABILITY: HeaderName = HeaderName::from_static("iggy-durability");
/// Free bytes before a batch, where the record header of the log goes.
const HEAD_ROOM: usize = 256;

/// The routes.
pub fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(send_messages, poll_messages)).routes(routes!(flush_messages))
}

/// Appends messages to one partition of a topic, all or none of them.
#[utoipa::path(
    post,
    path = "/streams/{stream}/topics/{topic}/messages",
    tag = "messages",
    params(
        ("stream" = String, Path, description = "Number or name of the stream"),
        ("topic" = String, Path, description = "Number or name of the topic"),
        SendQuery
    ),
    request_body = SendMessages,
    responses(
        (
            status = 201,
            description = "Appended, with the durability of the topic",
            body = SendConfirmations,
            headers(("iggy-durability" = String, description = "What was waited for: `replicated` or `persisted`"))
        ),
        (status = 202, description = "Taken, with `ack=none`; nobody waits for the outcome")
    ),
    security(("bearer" = []))
)]
async fn send_messages(
    State(app): State<App>,
    asked: Authenticated,
    path: TopicPath,
    Query(query): Query<SendQuery>,
    RawJson(bytes): RawJson,
) -> Result<Response, ApiError> {
    let send = send_args(&path, &bytes, app.now_us())?;
    drop(bytes);
    if query.ack == Ack::None {
        return send_unacknowledged(app, asked, send, &path).await;
    }
    to_its_end(async move {
        let sent = app.gateway().send_messages(&asked.caller, send).await?;
        let confirmation = SendConfirmation {
            stream_id: sent.stream_id,
            topic_id: sent.topic_id,
            partition_id: sent.partition_id,
            base_offset: sent.base_offset,
        };
        let durability = HeaderValue::from_static(sent.durability.as_str());
        let body = Answer(SendConfirmations { confirmations: vec![confirmation] });
        Ok((StatusCode::CREATED, [(DURABILITY, durability)], body).into_response())
    })
    .await
}

/// Starts an append that nobody waits for. What can be refused at once is.
async fn send_unacknowledged(
    app: App,
    asked: Authenticated,
    send: SendArgs,
    path: &TopicPath,
) -> Result<Response, ApiError> {
    if app.gateway().get_topic(&asked.caller, &path.stream, &path.topic).await.map_err(ApiError::of_read)?.is_none() {
        return Err(no_topic(path));
    }
    let Ok(room) = Arc::clone(app.unacknowledged()).try_acquire_owned() else {
        return Err(ApiError::http(
            StatusCode::SERVICE_UNAVAILABLE,
            "server_busy",
            "too many appends are under way that nobody waits for; try again, or leave out `ack=none`",
        ));
    };
    tokio::spawn(async move {
        let _room = room;
        if let Err(error) = app.gateway().send_messages(&asked.caller, send).await {
            tracing::debug!(code = error.code.name(), reason = %error.reason, "an append with ack=none failed");
        }
    });
    Ok(StatusCode::ACCEPTED.into_response())
}

/// Decodes a body into a batch with free space before it, and where it goes.
fn send_args(path: &TopicPath, bytes: &[u8], now_us: u64) -> Result<SendArgs, ApiError> {
    let body: SendMessages<'_> = parse(bytes)?;
    let partitioning = match body.partitioning.target()? {
        Target::Balanced => Partitioning::Balanced,
        Target::Partition(id) => Partitioning::Partition(id),
        Target::Key(key) => Partitioning::Key(key),
    };
    if body.messages.is_empty() {
        return Err(ApiError::coded(
            ErrorCode::InvalidMessagesCount,
            "`messages` is empty; there is nothing to append",
        ));
    }
    let mut builder = BatchBuilder::new(HEAD_ROOM, now_us, bytes.len());
    for (index, message) in body.messages.iter().enumerate() {
        let message = message.decode(index, random_id)?;
        builder.push(message.id, now_us, &message.payload, &message.user_headers);
    }
    let count = builder.count();
    let (buffer, batch) = builder.finish();
    Ok(SendArgs { stream: path.stream.clone(), topic: path.topic.clone(), partitioning, buffer, batch, count })
}

/// A version 4 UUID: 122 random bits, never 0.
fn random_id() -> u128 {
    uuid::Uuid::new_v4().as_u128()
}

/// Reads messages of a partition from the node that is asked. Answers at once, also when there are none.
#[utoipa::path(
    get,
    path = "/streams/{stream}/topics/{topic}/messages",
    tag = "messages",
    params(
        ("stream" = String, Path, description = "Number or name of the stream"),
        ("topic" = String, Path, description = "Number or name of the topic"),
        PollQuery
    ),
    responses((status = 200, description = "The messages, none when there are none", body = PolledMessages)),
    security(("bearer" = []))
)]
async fn poll_messages(
    State(app): State<App>,
    asked: Authenticated,
    path: TopicPath,
    Query(query): Query<PollQuery>,
) -> Result<Answer<PolledMessages>, ApiError> {
    let args = PollArgs {
        consumer: ConsumerRef::Single(identifier(&query.consumer_id, "consumer_id")?),
        stream: path.stream,
        topic: path.topic,
        partition: Some(query.partition_id),
        strategy: query.strategy(),
        count: query.count,
        auto_commit: query.auto_commit,
    };
    let polled = if query.auto_commit {
        to_its_end(async move { Ok(app.gateway().poll_messages(&asked.caller, args).await?) }).await?
    } else {
        app.gateway().poll_messages(&asked.caller, args).await.map_err(ApiError::of_read)?
    };
    Ok(Answer(PolledMessages::from_poll(&polled)))
}

/// Does nothing but look whether the partition is there: an acknowledged append already has the durability of its topic.
#[utoipa::path(
    get,
    path = "/streams/{stream}/topics/{topic}/messages/flush/{partition}/{fsync}",
    tag = "messages",
    params(
        ("stream" = String, Path, description = "Number or name of the stream"),
        ("topic" = String, Path, description = "Number or name of the topic"),
        ("partition" = String, Path, description = "Number of the partition"),
        ("fsync" = String, Path, description = "`fsync=true` or `fsync=false`", example = "fsync=true")
    ),
    responses((status = 204, description = "The partition is there")),
    security(("bearer" = []))
)]
async fn flush_messages(
    State(app): State<App>,
    asked: Authenticated,
    request: Request,
) -> Result<StatusCode, ApiError> {
    let (mut parts, _) = request.into_parts();
    let (stream, topic, partition, fsync): (String, String, String, String) = segments(&mut parts, &app).await?;
    let path = TopicPath { stream: identifier(&stream, "stream_id")?, topic: identifier(&topic, "topic_id")? };
    let partition = number(&partition, "partition_id")?;
    if !matches!(fsync.as_str(), "fsync=true" | "fsync=false") {
        return Err(ApiError::coded(
            ErrorCode::InvalidBooleanValue,
            "the path has to end in `fsync=true` or `fsync=false`",
        ));
    }
    let details = app
        .gateway()
        .get_topic(&asked.caller, &path.stream, &path.topic)
        .await
        .map_err(ApiError::of_read)?
        .ok_or_else(|| no_topic(&path))?;
    if !details.partitions.iter().any(|known| known.id == partition) {
        let reason = format!("topic `{}` has no partition {partition}", path.topic);
        return Err(ApiError::missing(ErrorCode::PartitionNotFound, reason));
    }
    Ok(StatusCode::NO_CONTENT)
}
