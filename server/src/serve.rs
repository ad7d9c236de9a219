//! Starting in order, waiting, stopping in reverse order.
//!
//! Start: data directory (whose lock keeps a second server away), listeners, shards (which read everything back), root
//! user, front ends. Listeners are bound early, so that an address in use is known before a long recovery, and served
//! last: a client that comes in between waits instead of being refused.

mod failure;
mod listener;
mod root;

pub use failure::ServeError;

use crate::announce::{self, Line};
use crate::config::{Config, HttpConfig};
use crate::logging;
use crate::signals::Signals;
use secrecy::{ExposeSecret, SecretSlice};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};
use whippet_gateway::{Endpoints, Gateway, Settings};
use whippet_http::{CorsSettings, HttpServer, HttpSettings, JwtSettings};
use whippet_metadata::TopicDefaults;
use whippet_runtime::{Runtime, RuntimeSettings};
use whippet_storage::{DataDirectory, Identity};
use whippet_tcp::{TcpServer, TcpSettings};
use whippet_vsr::{ClusterId, ReplicaId};

/// Password checks at the same time. Each takes some 20 MiB and a core for some 30 ms, which serving should not feel.
const LOGINS_AT_ONCE: usize = 2;
/// How long a login waits for its turn; official clients give up after 30 s.
const LOGIN_WAIT: Duration = Duration::from_secs(10);
/// How long requests that are under way may take to end once the server stops.
const REQUESTS_END_WITHIN: Duration = Duration::from_secs(3);
/// From the request to stop to the end of all syncs; the signal thread ends the process a little later.
const STOP_WITHIN: Duration = Duration::from_millis(4700);
/// Least time for the last syncs, also when connections took longer to end than they may.
const SYNC_WITHIN_MIN: Duration = Duration::from_millis(500);
/// Time for healthy shards to sync when another one has broken down.
const FATAL_STOP_WITHIN: Duration = Duration::from_secs(2);
/// Bytes of a token key that is made up.
const JWT_SECRET_LENGTH: usize = 32;

/// Serves until a signal asks to stop.
///
/// # Errors
/// Why the server could not start, or why it ended by itself.
pub fn serve(config: &Config, started: Instant) -> Result<(), ServeError> {
    logging::start(&config.log);
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let signals = Signals::take().map_err(ServeError::Signals)?;
    raise_open_files();
    announce::line(&Line::Program);
    Server::start(config, started, &signals)?.run(signals)
}

struct Server<'a> {
    config: &'a Config,
    /// Drives start, waiting and stop on the main thread; shards have their own.
    main: tokio::runtime::Runtime,
    runtime: Runtime,
    gateway: Gateway,
    root_is_new: bool,
    tcp: Option<TcpServer>,
    http: Option<HttpServer>,
}

impl<'a> Server<'a> {
    fn start(config: &'a Config, started: Instant, signals: &Signals) -> Result<Self, ServeError> {
        let cluster = ClusterId::from_name(&config.cluster.name);
        let identity = Identity { cluster_id: cluster.0, replica_id: 0, replica_count: 1, disk: rand::random() };
        let directory = DataDirectory::open(&config.data_dir, identity)?;
        let data_dir = directory.root().to_owned();
        announce::line(&Line::DataDirectory(&data_dir));

        let tcp = config.tcp.map(|address| listener::bind("tcp.address", address)).transpose()?;
        let http = config.http.as_ref().map(|http| listener::bind("http.address", http.address)).transpose()?;
        let endpoints = [&tcp, &http].map(|bound| bound.as_ref().map(|(_, address)| *address));
        let [tcp_address, http_address] = endpoints;

        let main = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ServeError::Threads)?;
        let runtime = Runtime::start(runtime_settings(config, cluster), directory)?;
        // From here on there is something to stop, and a signal waits for it.
        signals.serving();
        let gateway = Gateway::new(gateway_settings(config, endpoints, data_dir), runtime.handle().clone());

        tcp_address.iter().for_each(|address| announce::line(&Line::Tcp(*address)));
        http_address.iter().for_each(|address| announce::line(&Line::Http(*address)));
        let root_is_new = gateway.needs_bootstrap();
        main.block_on(root::ensure(&gateway, config.root.as_ref()))?;

        let tcp = tcp.map(|(listener, _)| {
            whippet_tcp::serve(listener, gateway.clone(), runtime.handle().clone(), TcpSettings::default())
        });
        let tcp = tcp.transpose()?;
        let http = http.zip(config.http.as_ref());
        let http = http.map(|((listener, _), http)| serve_http(http, listener, &gateway, &runtime)).transpose()?;
        announce::line(&Line::Ready(started.elapsed()));
        Ok(Self { config, main, runtime, gateway, root_is_new, tcp, http })
    }

    /// Waits for a signal or for the end of trust, and stops.
    fn run(self, mut signals: Signals) -> Result<(), ServeError> {
        let fatal = self.main.block_on(async {
            let hint = async {
                if !self.root_is_new
                    && let Some(root) = &self.config.root
                {
                    root::warn_if_other(&self.gateway, root).await;
                }
                std::future::pending().await
            };
            tokio::select! {
                reason = self.runtime.fatal() => Some(reason),
                () = signals.stop() => None,
                () = hint => None,
            }
        });
        match fatal {
            Some(reason) => {
                tracing::error!("the server cannot go on: {reason}");
                self.runtime.stop(FATAL_STOP_WITHIN);
                Err(ServeError::Fatal(reason))
            }
            None => self.stop(),
        }
    }

    fn stop(self) -> Result<(), ServeError> {
        let asked = Instant::now();
        self.runtime.begin_stop();
        let (tcp, http) = (self.tcp, self.http);
        let connections = async {
            if let Some(tcp) = tcp {
                tcp.ended().await;
            }
            if let Some(http) = http {
                http.ended().await;
            }
        };
        // The timer belongs to the runtime, so it is made inside it.
        let ended =
            self.main.block_on(async { tokio::time::timeout(STOP_WITHIN - SYNC_WITHIN_MIN, connections).await });
        if ended.is_err() {
            tracing::warn!("connections did not end in time; they are cut off");
        }
        let left = STOP_WITHIN.saturating_sub(asked.elapsed()).max(SYNC_WITHIN_MIN);
        if !self.runtime.stop(left) {
            return Err(ServeError::UncleanStop);
        }
        tracing::info!(milliseconds = asked.elapsed().as_millis() as u64, "stopped");
        Ok(())
    }
}

fn runtime_settings(config: &Config, cluster: ClusterId) -> RuntimeSettings {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    RuntimeSettings {
        cluster,
        replica: ReplicaId(0),
        replica_count: 1,
        shards: config.runtime.shards.unwrap_or(cores as u32),
        pin_threads: config.runtime.pin_threads,
        engine: config.storage.engine,
        sync_interval: config.storage.sync_interval,
    }
}

fn gateway_settings(config: &Config, [tcp, http]: [Option<SocketAddr>; 2], data_dir: std::path::PathBuf) -> Settings {
    let port = |address: Option<SocketAddr>| address.map_or(0, |address| address.port());
    let advertised = config.cluster.advertised_address.clone();
    Settings {
        cluster_name: config.cluster.name.clone(),
        node_name: config.cluster.node_name.clone(),
        advertised_address: advertised.unwrap_or_else(|| listener::reachable(tcp.or(http))),
        endpoints: Endpoints { tcp: port(tcp), http: port(http), ..Endpoints::default() },
        connections_max: config.limits.connections_max,
        connections_per_address_max: config.limits.connections_per_address_max,
        frame_size_max: config.limits.frame_size_max,
        logins_at_once: LOGINS_AT_ONCE,
        login_wait: LOGIN_WAIT,
        topic_defaults: TopicDefaults {
            segment_size: config.topic.segment_size,
            durability_forced_persisted: config.storage.force_persisted,
            ..TopicDefaults::default()
        },
        data_dir,
        version: env!("CARGO_PKG_VERSION"),
    }
}

fn serve_http(
    config: &HttpConfig,
    listener: TcpListener,
    gateway: &Gateway,
    runtime: &Runtime,
) -> Result<HttpServer, ServeError> {
    let secret = match &config.jwt_secret {
        Some(secret) => secret.expose_secret().as_bytes().to_vec(),
        None => rand::random::<[u8; JWT_SECRET_LENGTH]>().to_vec(),
    };
    let jwt = JwtSettings { expiry: config.jwt_expiry, ..JwtSettings::new(SecretSlice::from(secret)) };
    let settings = HttpSettings {
        max_request_size: config.max_request_size,
        shutdown_timeout: REQUESTS_END_WITHIN,
        cors: CorsSettings {
            enabled: config.cors.enabled,
            allowed_origins: config.cors.allowed_origins.clone(),
            allowed_methods: config.cors.allowed_methods.clone(),
            allowed_headers: config.cors.allowed_headers.clone(),
            exposed_headers: config.cors.exposed_headers.clone(),
        },
        ..HttpSettings::new(jwt)
    };
    Ok(whippet_http::serve(listener, gateway.clone(), runtime.handle().clone(), settings)?)
}

/// As many open files as the hard limit allows: partitions and connections take descriptors, and the soft limit is
/// often 1024 for the sake of programs that use `select`.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
    {
        tracing::debug!("the limit of open files stays at {:?}: {error}", limit.current);
    }
}
