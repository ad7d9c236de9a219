//! The listener: accepts connections whatever happens, and hands them round robin to the shard threads.

use crate::connection::{self, timed::Deadlines};
use crate::error::ApiError;
use crate::router;
use crate::settings::HttpSettings;
use crate::state::App;
use crate::token::UnusableSecret;
use axum::http::StatusCode;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use whippet_gateway::{Gateway, Transport};
use whippet_runtime::{RuntimeHandle, ThreadSpawner};

/// Pause after the first of several failed accepts in a row; doubles up to [`ACCEPT_PAUSE_MAX`].
const ACCEPT_PAUSE_MIN: Duration = Duration::from_millis(10);
/// See [`ACCEPT_PAUSE_MIN`].
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Failed accepts are logged at most once in this time.
const ACCEPT_LOG_INTERVAL: Duration = Duration::from_secs(1);
/// Why the listener could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The socket does not do what it has to.
    #[error("the HTTP listener cannot be used: {0}")]
    Listener(#[from] io::Error),
    /// The secret of access tokens is empty.
    #[error(transparent)]
    Secret(#[from] UnusableSecret),
    /// A cross-origin rule is no header value or method.
    #[error("http.cors: {0}")]
    Cors(#[from] router::InvalidCors),
    /// There is no thread to serve on, because the runtime is stopping.
    #[error("the runtime is stopping")]
    Stopping,
}

/// A listener that runs until the runtime stops.
pub struct HttpServer {
    address: SocketAddr,
    connections: mpsc::Receiver<()>,
}

impl HttpServer {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Resolves when the listener and all its connections have ended, which takes at most
    /// `HttpSettings::shutdown_timeout` and some milliseconds after the runtime has begun to stop.
    pub async fn ended(mut self) {
        while self.connections.recv().await.is_some() {}
    }
}

/// Serves the HTTP API on `listener` until the runtime stops.
///
/// # Errors
/// [`ServeError`]; nothing runs then.
pub fn serve(
    listener: TcpListener,
    gateway: Gateway,
    runtime: RuntimeHandle,
    settings: HttpSettings,
) -> Result<HttpServer, ServeError> {
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let deadlines = Deadlines::from(&settings);
    let shutdown_timeout = settings.shutdown_timeout;
    let clock = runtime.clone();
    let app = App::new(gateway.clone(), settings, Arc::new(move || clock.now_us()))?;
    let router = router::build(app)?;
    let (alive, connections) = mpsc::channel(1);

    let spawners = runtime.spawners().to_vec();
    let first = spawners.first().cloned().ok_or(ServeError::Stopping)?;
    let acceptor = Acceptor { gateway, runtime, router, deadlines, shutdown_timeout, spawners, alive };
    first.spawn(move || acceptor.run(listener)).map_err(|_| ServeError::Stopping)?;
    Ok(HttpServer { address, connections })
}

struct Acceptor {
    gateway: Gateway,
    runtime: RuntimeHandle,
    router: axum::Router,
    deadlines: Deadlines,
    shutdown_timeout: Duration,
    spawners: Vec<ThreadSpawner>,
    /// Dropped by the listener and by each connection when it ends.
    alive: mpsc::Sender<()>,
}

impl Acceptor {
    async fn run(self, listener: TcpListener) {
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(%error, "the HTTP listener cannot be watched for connections");
                return;
            }
        };
        let (stop, stopping) = watch::channel(false);
        let mut runtime_stops = std::pin::pin!(self.runtime.stopping());
        let mut trouble = Trouble::default();
        let mut next = 0;
        loop {
            let accepted = tokio::select! {
                biased;
                _ = runtime_stops.as_mut() => break,
                accepted = listener.accept() => accepted,
            };
            match accepted.and_then(|(socket, peer)| Ok((socket.into_std()?, peer))) {
                Ok((socket, peer)) => {
                    trouble.over();
                    self.hand_over(socket, peer, next, stopping.clone());
                    next = (next + 1) % self.spawners.len();
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    let pause = trouble.again(&error, Instant::now());
                    tokio::select! {
                        _ = runtime_stops.as_mut() => break,
                        () = tokio::time::sleep(pause) => {}
                    }
                }
            }
        }
        // New connections are refused from here on; those that are open learn of the stop.
        drop(listener);
        stop.send_replace(true);
    }

    fn hand_over(&self, socket: TcpStream, peer: SocketAddr, thread: usize, mut stopping: watch::Receiver<bool>) {
        let gateway = self.gateway.clone();
        let router = self.router.clone();
        let (deadlines, shutdown_timeout) = (self.deadlines, self.shutdown_timeout);
        let alive = self.alive.clone();
        let handed_over = self.spawners[thread].spawn(move || async move {
            let _alive = alive;
            let Ok(socket) = tokio::net::TcpStream::from_std(socket) else { return };
            let _registered = match gateway.connect(Transport::Http, peer) {
                Ok(connection) => connection,
                Err(_) => return refuse(&socket),
            };
            // Answers are written whole; waiting for more to send would only delay them.
            let _ = socket.set_nodelay(true);
            let stop = async move {
                let _ = stopping.wait_for(|stop| *stop).await;
            };
            connection::serve(socket, router, deadlines, shutdown_timeout, stop).await;
        });
        if let Err(error) = handed_over {
            // The socket is closed with the future that was not taken.
            tracing::debug!(%error, %peer, "an HTTP connection was dropped");
        }
    }
}

/// Says why as far as the socket takes it at once; there is no room for waiting either.
fn refuse(socket: &tokio::net::TcpStream) {
    let _ = socket.try_write(&refusal());
}

fn refusal() -> Vec<u8> {
    let error = ApiError::http(
        StatusCode::SERVICE_UNAVAILABLE,
        "too_many_connections",
        "the server has no room for another connection; close some, or raise the limit",
    );
    let body = serde_json::to_vec(&error.body(&uuid::Uuid::new_v4().simple().to_string())).unwrap_or_default();
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Retry-After: 1\r\nConnection: close\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body].concat()
}

/// Errors of accepting that concern a connection which is gone, not the listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::*;
    matches!(error.kind(), ConnectionAborted | ConnectionReset | ConnectionRefused | Interrupted | WouldBlock)
}

/// Accepting fails again and again, mostly for want of file descriptors: pause longer each time, say so now and then.
#[derive(Default)]
struct Trouble {
    failures: u32,
    logged_at: Option<Instant>,
    unlogged: u32,
}

impl Trouble {
    fn again(&mut self, error: &io::Error, now: Instant) -> Duration {
        let pause = ACCEPT_PAUSE_MIN.saturating_mul(1 << self.failures.min(10)).min(ACCEPT_PAUSE_MAX);
        self.failures = self.failures.saturating_add(1);
        if self.logged_at.is_none_or(|at| now.duration_since(at) >= ACCEPT_LOG_INTERVAL) {
            tracing::warn!(%error, failures = self.unlogged + 1, "HTTP connections cannot be accepted; trying on (is the limit of open files too low?)");
            self.logged_at = Some(now);
            self.unlogged = 0;
        } else {
            self.unlogged += 1;
        }
        pause
    }

    fn over(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn trouble_pauses_longer_each_time_and_is_logged_once_a_second() {
        let mut trouble = Trouble::default();
        let error = io::Error::from_raw_os_error(24);
        let pauses: Vec<_> = (0..9).map(|_| trouble.again(&error, Instant::now()).as_millis()).collect();
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert_eq!((trouble.logged_at, trouble.unlogged), (Some(Instant::now()), 8));
        tokio::time::advance(Duration::from_secs(1)).await;
        trouble.over();
        assert_eq!(trouble.again(&error, Instant::now()).as_millis(), 10);
        assert_eq!(trouble.unlogged, 0);
    }

    #[test]
    fn a_refused_connection_gets_a_whole_answer_in_the_shape_of_all_errors() {
        let refusal = String::from_utf8(refusal()).unwrap();
        let (head, body) = refusal.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 503 "));
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!((&body["code"], &body["retryable"]), (&"too_many_connections".into(), &true.into()));
    }

    #[test]
    fn only_errors_of_one_connection_are_passed_over() {
        assert!(is_of_one_connection(&io::ErrorKind::ConnectionAborted.into()));
        assert!(!is_of_one_connection(&io::Error::from_raw_os_error(24)));
        assert!(!is_of_one_connection(&io::Error::from_raw_os_error(23)));
    }
}
