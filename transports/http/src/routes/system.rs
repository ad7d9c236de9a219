//! The server, its cluster, its clients, its options.

use crate::error::ApiError;
use crate::extract::path::{number, segments};
use crate::extract::{Authenticated, Query, ReadQuery};
use crate::json::options::OptionDescription;
use crate::json::system::{ClientInfo, ClientInfoDetails, ClusterMetadata, Stats, Welcome};
use crate::state::App;
use axum::Json as Answer;
use axum::extract::{Request, State};
use std::collections::BTreeMap;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use whippet_protocol::ErrorCode;

/// The routes.
pub fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(get_root))
        .routes(routes!(ping))
        .routes(routes!(get_stats))
        .routes(routes!(get_cluster_metadata))
        .routes(routes!(get_clients))
        .routes(routes!(get_client))
        .routes(routes!(describe_options))
}

/// Says what answers here, and where the rest is.
#[utoipa::path(
    get,
    path = "/",
    tag = "system",
    responses((status = 200, description = "Name, version and links", body = Welcome))
)]
async fn get_root(State(app): State<App>) -> Answer<Welcome> {
    let mut links = BTreeMap::from([("openapi", "/openapi.json"), ("login", "/users/login"), ("ping", "/ping")]);
    if app.settings().docs {
        links.insert("docs", "/docs");
    }
    Answer(Welcome {
        name: "whippet".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        links: links.into_iter().map(|(name, path)| (name.to_owned(), path.to_owned())).collect(),
    })
}

/// Answers `pong`.
#[utoipa::path(
    get,
    path = "/ping",
    tag = "system",
    responses((status = 200, description = "`pong`", body = inline(String), content_type = "text/plain"))
)]
async fn ping() -> &'static str {
    "pong"
}

/// Shows numbers of the server and its process.
#[utoipa::path(
    get,
    path = "/stats",
    tag = "system",
    responses((status = 200, description = "The numbers", body = Stats)),
    security(("bearer" = []))
)]
async fn get_stats(State(app): State<App>, asked: Authenticated) -> Result<Answer<Stats>, ApiError> {
    let stats = app.gateway().stats(&asked.caller).await.map_err(ApiError::of_read)?;
    Ok(Answer(Stats::from(&stats)))
}

/// Shows the nodes of the cluster and who leads.
#[utoipa::path(
    get,
    path = "/cluster/metadata",
    tag = "system",
    params(ReadQuery),
    responses((status = 200, description = "The nodes", body = ClusterMetadata)),
    security(("bearer" = []))
)]
async fn get_cluster_metadata(
    State(app): State<App>,
    _: Authenticated,
    _: Query<ReadQuery>,
) -> Answer<ClusterMetadata> {
    Answer(ClusterMetadata::from(&app.gateway().cluster_metadata()))
}

/// Lists the clients that are connected to this node.
#[utoipa::path(
    get,
    path = "/clients",
    tag = "system",
    responses((status = 200, description = "The clients, by number", body = Vec<ClientInfo>)),
    security(("bearer" = []))
)]
async fn get_clients(State(app): State<App>, asked: Authenticated) -> Result<Answer<Vec<ClientInfo>>, ApiError> {
    Ok(Answer(app.gateway().clients(&asked.caller)?.iter().map(ClientInfo::from).collect()))
}

/// Shows a client that is connected to this node.
#[utoipa::path(
    get,
    path = "/clients/{client}",
    tag = "system",
    params(("client" = i64, Path, description = "Number of the client")),
    responses((status = 200, description = "The client", body = ClientInfoDetails)),
    security(("bearer" = []))
)]
async fn get_client(
    State(app): State<App>,
    asked: Authenticated,
    request: Request,
) -> Result<Answer<ClientInfoDetails>, ApiError> {
    let (mut parts, _) = request.into_parts();
    let (client,): (String,) = segments(&mut parts, &app).await?;
    let client = number(&client, "client_id")?;
    match app.gateway().client(&asked.caller, client)? {
        Some(info) => Ok(Answer(ClientInfoDetails::from(&info))),
        None => {
            Err(ApiError::missing(ErrorCode::ClientNotFound, format!("client {client} is not connected to this node")))
        }
    }
}

/// Lists the options that a resource can be created with.
#[utoipa::path(
    get,
    path = "/options/{scope}",
    tag = "system",
    params(("scope" = String, Path, description = "`topic`, `stream` or `user`", example = "topic")),
    responses((status = 200, description = "The options", body = Vec<OptionDescription>)),
    security(("bearer" = []))
)]
async fn describe_options(
    State(app): State<App>,
    _: Authenticated,
    request: Request,
) -> Result<Answer<Vec<OptionDescription>>, ApiError> {
    let (mut parts, _) = request.into_parts();
    let (scope,): (String,) = segments(&mut parts, &app).await?;
    match scope.as_str() {
        "topic" => Ok(Answer(whippet_metadata::options::TOPIC_OPTIONS.iter().map(OptionDescription::from).collect())),
        "stream" | "user" => Ok(Answer(Vec::new())),
        _ => Err(ApiError::coded(ErrorCode::InvalidFormat, "the path has to end in `topic`, `stream` or `user`")),
    }
}
