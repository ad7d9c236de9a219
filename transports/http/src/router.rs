//! All routes, and the layers around them.

use crate::context::{self, View};
use crate::openapi;
use crate::routes;
use crate::settings::CorsSettings;
use crate::state::App;
use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, Method, header};
use axum::middleware;
use std::sync::Arc;
use std::time::Duration;
use tower_http::cors::{AllowOrigin, CorsLayer};
use utoipa_axum::router::OpenApiRouter;

/// How long a browser may remember the answer to a preflight.
const PREFLIGHT_MAX_AGE: Duration = Duration::from_secs(600);

/// A cross-origin rule that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("`{entry}` in {setting} is not a valid {what}")]
pub struct InvalidCors {
    entry: String,
    setting: &'static str,
    what: &'static str,
}

/// The whole API.
///
/// # Errors
/// [`InvalidCors`].
pub fn build(app: App) -> Result<Router, InvalidCors> {
    let (documented, _) = documented().split_for_parts();
    let mut router = documented.merge(routes::later::router()).merge(routes::document::router());
    if app.settings().docs {
        router = router.merge(routes::document::page());
    }
    let view = app.clone();
    surround(router.with_state(app.clone()), &app.settings().cors, Arc::new(move || view.view()))
}

/// Puts around routes what all of them need.
///
/// Cross-origin rules are the outermost layer: a preflight needs no token, and errors carry the headers too. Within it
/// `context::complete` gives every response its id and every error its body.
///
/// # Errors
/// [`InvalidCors`].
pub(crate) fn surround(router: Router, rules: &CorsSettings, view: View) -> Result<Router, InvalidCors> {
    let router = router
        .fallback(|request: Request| async move { context::no_route(request.uri()) })
        .layer(middleware::from_fn_with_state(view, context::complete));
    Ok(if rules.enabled { router.layer(cors(rules)?) } else { router })
}

/// The routes that the OpenAPI document describes.
pub(crate) fn documented() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(openapi::base())
        .merge(routes::system::router())
        .merge(routes::users::router())
        .merge(routes::streams::router())
        .merge(routes::topics::router())
        .merge(routes::partitions::router())
        .merge(routes::messages::router())
        .merge(routes::offsets::router())
}

fn cors(settings: &CorsSettings) -> Result<CorsLayer, InvalidCors> {
    fn all<T: std::str::FromStr>(
        entries: &[String],
        setting: &'static str,
        what: &'static str,
    ) -> Result<Vec<T>, InvalidCors> {
        entries
            .iter()
            .map(|entry| entry.parse().map_err(|_| InvalidCors { entry: entry.clone(), setting, what }))
            .collect()
    }
    let origins = if settings.allowed_origins == ["*"] {
        AllowOrigin::any()
    } else {
        if let Some(entry) = settings.allowed_origins.iter().find(|entry| !is_origin(entry)) {
            return Err(InvalidCors {
                entry: entry.clone(),
                setting: "allowed_origins",
                what: "origin such as https://app.example; `*` has to stand alone",
            });
        }
        AllowOrigin::list(all::<HeaderValue>(&settings.allowed_origins, "allowed_origins", "origin")?)
    };
    Ok(CorsLayer::new()
        .allow_origin(origins)
        .allow_methods(all::<Method>(&settings.allowed_methods, "allowed_methods", "method")?)
        .allow_headers(all::<HeaderName>(&settings.allowed_headers, "allowed_headers", "header name")?)
        .expose_headers(all::<HeaderName>(&settings.exposed_headers, "exposed_headers", "header name")?)
        .vary([header::ORIGIN])
        .max_age(PREFLIGHT_MAX_AGE))
}

fn is_origin(entry: &str) -> bool {
    entry.split_once("://").is_some_and(|(scheme, host)| {
        !scheme.is_empty() && !host.is_empty() && !host.contains(['/', '*', ' ', '?', '#'])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: impl FnOnce(&mut CorsSettings)) -> Result<(), String> {
        let mut settings = CorsSettings::default();
        change(&mut settings);
        cors(&settings).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn rules_that_cannot_be_used_are_refused_at_the_start() {
        assert_eq!(with(|_| {}), Ok(()));
        assert_eq!(
            with(|s| s.allowed_origins = vec!["https://a.example".into(), "http://localhost:8080".into()]),
            Ok(())
        );
        for origins in [&["*", "https://a.example"][..], &["a.example"], &["https://a.example/path"]] {
            let error = with(|s| s.allowed_origins = origins.iter().map(|&o| o.to_owned()).collect()).unwrap_err();
            assert!(error.contains("allowed_origins"), "{error}");
        }
        let error = with(|s| s.exposed_headers.push("no header".into())).unwrap_err();
        assert_eq!(error, "`no header` in exposed_headers is not a valid header name");
    }
}
