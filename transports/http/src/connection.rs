//! One connection: HTTP/1.1 or HTTP/2 on a plain socket, until it ends, times out or the server stops.

pub mod activity;
#[cfg(test)]
mod tests;
pub mod timed;

use activity::{Activity, RequestBody, ResponseBody};
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use timed::{Deadlines, TimedSocket};
use tokio::io::{AsyncRead, AsyncWrite};
use tower::ServiceExt;

/// Most requests of one HTTP/2 connection at the same time.
const H2_STREAMS_MAX: u32 = 128;
/// Most bytes of a request head.
const HEAD_SIZE_MAX: usize = 64 * 1024;

/// Serves requests on `socket` with `router`. Ends when the peer is done, when a deadline strikes, or after `stop` has
/// resolved: then an idle connection closes at once, and a request under way has `shutdown_timeout` to end.
pub async fn serve<S>(
    socket: S,
    router: axum::Router,
    deadlines: Deadlines,
    shutdown_timeout: Duration,
    stop: impl Future<Output = ()>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = Activity::new();
    let socket = TokioIo::new(TimedSocket::new(socket, Arc::clone(&activity), deadlines));
    let service = service_fn(move |request: Request<Incoming>| {
        let guard = activity.begin();
        let request = request.map(|body| Body::new(RequestBody::new(body, &activity)));
        let answer = router.clone().oneshot(request);
        async move { Ok::<_, Infallible>(answer.await?.map(|body| ResponseBody::new(body, guard))) }
    });

    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().keep_alive(true).half_close(false).header_read_timeout(None).max_buf_size(HEAD_SIZE_MAX);
    builder.http2().max_concurrent_streams(H2_STREAMS_MAX).max_header_list_size(HEAD_SIZE_MAX as u32);
    let mut connection = pin!(builder.serve_connection(socket, service));
    let mut stop = pin!(stop);

    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.as_mut() => {
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(shutdown_timeout, connection.as_mut()).await {
                Ok(ended) => ended,
                Err(_) => {
                    tracing::warn!("a request was still under way when the time to stop was over; its connection is cut");
                    return;
                }
            }
        }
    };
    if let Err(error) = ended {
        // The peer's doing: it left, dribbled, or does not speak HTTP.
        tracing::debug!(%error, "an HTTP connection ended early");
    }
}
