//! Accepts connections and hands them to the shards' threads.

use crate::connection;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use whippet_gateway::{Gateway, Transport};
use whippet_runtime::{RuntimeHandle, ThreadSpawner};

/// Pause after an accept that failed for want of descriptors or memory.
const TROUBLE_PAUSE: Duration = Duration::from_millis(100);
/// At most one log line about failing accepts in this time.
const TROUBLE_LINES: Duration = Duration::from_secs(1);
/// After this silence the kernel asks whether the peer is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// Between two such questions.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Questions without an answer until the connection is given up.
const KEEPALIVE_QUESTIONS: u32 = 4;

/// Deadlines of connections.
#[derive(Clone, Copy, Debug)]
pub struct TcpSettings {
    /// From the connection, or the end of a login that was refused, to the end of the next frame while nobody is logged in.
    pub login_timeout: Duration,
    /// From the first byte of a frame to its last.
    pub frame_timeout: Duration,
    /// How long the peer may take less than 64 KiB of an answer.
    pub write_timeout: Duration,
    /// How long a request that was read may still take once the server begins to stop.
    pub stop_timeout: Duration,
}

impl Default for TcpSettings {
    fn default() -> TcpSettings {
        TcpSettings {
            login_timeout: Duration::from_secs(10),
            frame_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            stop_timeout: Duration::from_secs(3),
        }
    }
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The listener can't be used.
    #[error("serve TCP: {0}")]
    Io(#[from] std::io::Error),
    /// The shards are stopping already.
    #[error("serve TCP: the server is stopping")]
    Stopping,
}

/// A listener that serves.
pub struct TcpServer {
    address: SocketAddr,
    connections: mpsc::Receiver<()>,
}

impl TcpServer {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Resolves when the listener and all its connections have ended, some time after the runtime began to stop: each
    /// connection finishes the request that it is at.
    pub async fn ended(mut self) {
        while self.connections.recv().await.is_some() {}
    }
}

/// Serves connections until the runtime stops.
///
/// # Errors
/// [`ServeError`]; nothing runs then.
pub fn serve(
    listener: TcpListener,
    gateway: Gateway,
    runtime: RuntimeHandle,
    settings: TcpSettings,
) -> Result<TcpServer, ServeError> {
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let (alive, connections) = mpsc::channel(1);
    let spawners = runtime.spawners().to_vec();
    let first = spawners.first().cloned().ok_or(ServeError::Stopping)?;
    first
        .spawn(move || accept(listener, gateway, runtime, spawners, settings, alive))
        .map_err(|_| ServeError::Stopping)?;
    Ok(TcpServer { address, connections })
}

async fn accept(
    listener: TcpListener,
    gateway: Gateway,
    runtime: RuntimeHandle,
    spawners: Vec<ThreadSpawner>,
    settings: TcpSettings,
    alive: mpsc::Sender<()>,
) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "the TCP listener can't be watched for connections");
            return;
        }
    };
    let mut stopping = std::pin::pin!(runtime.stopping());
    let mut next = 0;
    let mut last_line: Option<Instant> = None;
    loop {
        let accepted = tokio::select! {
            biased;
            () = stopping.as_mut() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted.and_then(|(socket, peer)| Ok((socket.into_std()?, peer))) {
            Ok((socket, peer)) => {
                hand_over(socket, peer, &gateway, &runtime, &spawners[next], settings, alive.clone());
                next = (next + 1) % spawners.len();
            }
            Err(error) if concerns_one_connection(&error) => {}
            Err(error) => {
                if last_line.is_none_or(|at| at.elapsed() >= TROUBLE_LINES) {
                    tracing::warn!(%error, "TCP connections can't be accepted now; trying again");
                    last_line = Some(Instant::now());
                }
                tokio::select! {
                    () = stopping.as_mut() => return,
                    () = tokio::time::sleep(TROUBLE_PAUSE) => {}
                }
            }
        }
    }
}

/// The peer went away while it was being accepted: nobody's problem.
fn concerns_one_connection(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

fn hand_over(
    socket: TcpStream,
    peer: SocketAddr,
    gateway: &Gateway,
    runtime: &RuntimeHandle,
    thread: &ThreadSpawner,
    settings: TcpSettings,
    alive: mpsc::Sender<()>,
) {
    let (gateway, runtime) = (gateway.clone(), runtime.clone());
    let handed_over = thread.spawn(move || async move {
        let _alive = alive;
        let registered = match gateway.connect(Transport::Tcp, peer) {
            Ok(registered) => registered,
            Err(refused) => {
                tracing::debug!(%peer, %refused, "a TCP connection was refused");
                return;
            }
        };
        if let Err(error) = prepare(&socket) {
            tracing::debug!(%peer, %error, "a TCP connection was lost as it came");
            return;
        }
        match tokio::net::TcpStream::from_std(socket) {
            Ok(socket) => connection::serve(socket, gateway, registered, &runtime, settings).await,
            Err(error) => tracing::debug!(%peer, %error, "a TCP connection can't be watched"),
        }
    });
    if let Err(error) = handed_over {
        // The socket is closed with the closure that was not taken.
        tracing::debug!(%peer, %error, "a TCP connection was dropped");
    }
}

fn prepare(socket: &TcpStream) -> std::io::Result<()> {
    use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl};
    // Answers are written whole; waiting for more to send would only delay them.
    socket.set_nodelay(true)?;
    // Clients may be silent for as long as they like, so a peer that vanished would keep its connection for ever.
    set_socket_keepalive(socket, true)?;
    set_tcp_keepidle(socket, KEEPALIVE_IDLE)?;
    set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL)?;
    set_tcp_keepcnt(socket, KEEPALIVE_QUESTIONS)?;
    Ok(())
}
