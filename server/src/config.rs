//! The configuration: what an operator writes ([`raw::RawConfig`]), checked into what the server runs on ([`Config`]).
//!
//! Nothing past start-up sees an unchecked value. [`schema::SETTINGS`] says what there is to set; a test keeps
//! `configs/whippet.toml` and `docs/configuration.md` equal to it.

pub mod document;
pub mod environment;
mod file;
pub mod kind;
pub mod problem;
pub mod raw;
pub mod schema;

use crate::logging;
use problem::{Problem, Refused};
use raw::{Inputs, RawConfig};
use secrecy::SecretString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use whippet_metadata::options::catalogue::SEGMENT_SIZE_STEP;
use whippet_protocol::limits::{PASSWORD_LENGTH, USERNAME_LENGTH};
use whippet_storage::Engine;

/// Fewest bytes of a configured token key. Shorter ones can be guessed from one token.
const JWT_SECRET_MIN: usize = 16;

/// A configuration that a server can run on.
#[derive(Clone, Debug)]
pub struct Config {
    /// Whether this is a server for trying things out: known password, loopback only.
    pub dev: bool,
    /// Folder of all stored data, as it was written.
    pub data_dir: PathBuf,
    /// The root user to create at the first start; `None`: `iggy` with a password that is made up.
    pub root: Option<RootConfig>,
    /// How this node presents itself.
    pub cluster: ClusterConfig,
    /// Where to listen for TCP, `None` for not at all.
    pub tcp: Option<SocketAddr>,
    /// The HTTP listener, `None` for none. At least one of the two is there.
    pub http: Option<HttpConfig>,
    /// Bounds.
    pub limits: LimitsConfig,
    /// Threads.
    pub runtime: RuntimeConfig,
    /// The disk.
    pub storage: StorageConfig,
    /// Defaults for new topics.
    pub topic: TopicConfig,
    /// Log lines.
    pub log: LogConfig,
    /// Settings that are accepted and do nothing yet, with what to tell about them.
    pub warnings: Vec<String>,
}

/// The root user as configured.
#[derive(Clone, Debug)]
pub struct RootConfig {
    /// Name, 3 to 50 bytes.
    pub username: String,
    /// Password, 3 to 100 bytes.
    pub password: SecretString,
}

/// See the table `cluster`.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// Name of the cluster, 1 to 255 bytes.
    pub name: String,
    /// Name of this node, 1 to 255 bytes.
    pub node_name: String,
    /// Host name or IP address for clients; `None`: that of the TCP listener.
    pub advertised_address: Option<String>,
}

/// See the tables `http`, `http.jwt` and `http.cors`.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// Where to listen.
    pub address: SocketAddr,
    /// Largest request body in bytes.
    pub max_request_size: usize,
    /// Key of access tokens, at least 16 bytes; `None`: made up at each start.
    pub jwt_secret: Option<SecretString>,
    /// How long an access token is valid.
    pub jwt_expiry: Duration,
    /// Cross-origin rules.
    pub cors: CorsConfig,
}

/// See the table `http.cors`.
#[derive(Clone, Debug)]
pub struct CorsConfig {
    /// Whether cross-origin calls are answered.
    pub enabled: bool,
    /// Origins.
    pub allowed_origins: Vec<String>,
    /// Methods.
    pub allowed_methods: Vec<String>,
    /// Request headers.
    pub allowed_headers: Vec<String>,
    /// Response headers.
    pub exposed_headers: Vec<String>,
}

/// See the table `limits`.
#[derive(Clone, Copy, Debug)]
pub struct LimitsConfig {
    /// Open connections, all listeners together.
    pub connections_max: usize,
    /// Open connections of one client address.
    pub connections_per_address_max: usize,
    /// Bytes of a request frame, at most what the protocol allows.
    pub frame_size_max: usize,
}

/// See the table `runtime`.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeConfig {
    /// Number of shard threads; `None`: one a core.
    pub shards: Option<u32>,
    /// Whether they stay on one core each.
    pub pin_threads: bool,
}

/// See the table `storage`.
#[derive(Clone, Copy, Debug)]
pub struct StorageConfig {
    /// How the disk is used.
    pub engine: Engine,
    /// Whether every new topic is `persisted`.
    pub force_persisted: bool,
    /// Longest time without sync, 1 to 1000 ms.
    pub sync_interval: Duration,
}

/// See the table `topic`.
#[derive(Clone, Copy, Debug)]
pub struct TopicConfig {
    /// Bytes, 1 MiB to 1 GiB, a multiple of 512.
    pub segment_size: u64,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One object a line.
    Json,
}

/// See the table `log`.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// Filter that is known to parse.
    pub level: String,
    /// Shape of the lines.
    pub format: LogFormat,
}

impl Config {
    /// Reads and checks everything.
    ///
    /// # Errors
    /// All that is wrong with the inputs.
    pub fn load(inputs: &Inputs) -> Result<(Config, RawConfig), Refused> {
        let raw = RawConfig::load(inputs)?;
        let config = Self::check(&raw, inputs.dev)?;
        Ok((config, raw))
    }

    /// Checks the values against each other.
    ///
    /// # Errors
    /// All that does not go together.
    pub fn check(raw: &RawConfig, dev: bool) -> Result<Config, Refused> {
        let mut problems = Vec::new();
        let root = root(raw, &mut problems);
        let tcp = raw.switch("tcp.enabled").then(|| required_address(raw, "tcp.address"));
        let http = raw.switch("http.enabled").then(|| http(raw, &mut problems));
        if tcp.is_none() && http.is_none() {
            problems.push(raw.problem(
                "tcp.enabled",
                "with http.enabled also false there is nothing to serve; enable one of the two",
            ));
        }
        if dev {
            check_loopback(raw, &mut problems);
        }
        let segment_size = raw.number("topic.segment_size");
        if !segment_size.is_multiple_of(SEGMENT_SIZE_STEP) {
            let sentence = format!("{segment_size} bytes are no multiple of {SEGMENT_SIZE_STEP}");
            problems.push(raw.problem("topic.segment_size", sentence));
        }
        let level = raw.text("log.level").to_owned();
        if let Err(reason) = logging::check_filter(&level) {
            let sentence = format!("`{level}` is no level such as `info` or `info,whippet_http=debug`: {reason}");
            problems.push(raw.problem("log.level", sentence));
        }
        if !problems.is_empty() {
            return Err(Refused(problems));
        }
        Ok(Config {
            dev,
            data_dir: raw.text("data_dir").into(),
            root,
            cluster: ClusterConfig {
                name: raw.text("cluster.name").to_owned(),
                node_name: raw.text("cluster.node_name").to_owned(),
                advertised_address: not_empty(raw.text("cluster.advertised_address")).map(str::to_owned),
            },
            tcp,
            http,
            limits: LimitsConfig {
                connections_max: raw.number("limits.connections_max") as usize,
                connections_per_address_max: raw.number("limits.connections_per_address_max") as usize,
                frame_size_max: raw.number("limits.frame_size_max") as usize,
            },
            runtime: RuntimeConfig {
                shards: match raw.number("runtime.shards") {
                    0 => None,
                    shards => Some(shards as u32),
                },
                pin_threads: raw.switch("runtime.pin_threads"),
            },
            storage: StorageConfig {
                engine: match raw.text("storage.engine") {
                    "io_uring" => Engine::IoUring,
                    "portable" => Engine::Portable,
                    _ => Engine::Auto,
                },
                force_persisted: raw.switch("storage.force_persisted"),
                sync_interval: Duration::from_millis(raw.number("storage.sync_interval_ms")),
            },
            topic: TopicConfig { segment_size },
            log: LogConfig {
                level,
                format: if raw.text("log.format") == "json" { LogFormat::Json } else { LogFormat::Text },
            },
            warnings: warnings(raw),
        })
    }
}

fn not_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn required_address(raw: &RawConfig, key: &str) -> SocketAddr {
    raw.address(key).unwrap_or_else(|| panic!("{key} may not be empty"))
}

fn root(raw: &RawConfig, problems: &mut Vec<Problem>) -> Option<RootConfig> {
    let (username, password) = (raw.text("root.username"), raw.text("root.password"));
    match (not_empty(username), not_empty(password)) {
        (None, None) => return None,
        (Some(_), None) => {
            let sentence = "it is set without root.password (WHIPPET_ROOT_PASSWORD); set both or neither";
            problems.push(raw.problem("root.username", sentence));
        }
        (None, Some(_)) => {
            let sentence = "it is set without root.username (WHIPPET_ROOT_USERNAME); set both or neither";
            problems.push(raw.problem("root.password", sentence));
        }
        (Some(_), Some(_)) => {
            for (key, text, lengths) in
                [("root.username", username, USERNAME_LENGTH), ("root.password", password, PASSWORD_LENGTH)]
            {
                if !lengths.contains(&text.len()) {
                    let (least, most, has) = (lengths.start(), lengths.end(), text.len());
                    problems.push(raw.problem(key, format!("it must have {least} to {most} bytes, and has {has}")));
                }
            }
        }
    }
    Some(RootConfig { username: username.to_owned(), password: password.into() })
}

fn http(raw: &RawConfig, problems: &mut Vec<Problem>) -> HttpConfig {
    let secret = not_empty(raw.text("http.jwt.secret"));
    if let Some(secret) = secret
        && secret.len() < JWT_SECRET_MIN
    {
        let sentence = format!("it must have at least {JWT_SECRET_MIN} bytes, and has {}", secret.len());
        problems.push(raw.problem("http.jwt.secret", sentence));
    }
    let origins = raw.list("http.cors.allowed_origins");
    if origins.len() > 1 && origins.iter().any(|origin| origin == "*") {
        problems.push(raw.problem("http.cors.allowed_origins", "`*` allows all origins and must stand alone"));
    }
    HttpConfig {
        address: required_address(raw, "http.address"),
        max_request_size: raw.number("http.max_request_size") as usize,
        jwt_secret: secret.map(Into::into),
        jwt_expiry: Duration::from_micros(raw.number("http.jwt.expiry")),
        cors: CorsConfig {
            enabled: raw.switch("http.cors.enabled"),
            allowed_origins: origins.to_vec(),
            allowed_methods: raw.list("http.cors.allowed_methods").to_vec(),
            allowed_headers: raw.list("http.cors.allowed_headers").to_vec(),
            exposed_headers: raw.list("http.cors.exposed_headers").to_vec(),
        },
    }
}

/// With `--dev` the password is known to everyone who has read the manual.
fn check_loopback(raw: &RawConfig, problems: &mut Vec<Problem>) {
    for (enabled, key) in [("tcp.enabled", "tcp.address"), ("http.enabled", "http.address")] {
        let address = required_address(raw, key);
        if raw.switch(enabled) && !address.ip().is_loopback() {
            let sentence = format!(
                "--dev serves this machine only, and {address} is reachable from others; \
                 use a loopback address, or start without --dev"
            );
            problems.push(raw.problem(key, sentence));
        }
    }
}

fn warnings(raw: &RawConfig) -> Vec<String> {
    [("quic.address", "QUIC"), ("websocket.address", "WebSocket")]
        .iter()
        .filter(|(key, _)| raw.address(key).is_some())
        .map(|(key, name)| {
            format!(
                "{key} ({}) is set, but this version does not serve {name} yet; nothing listens there",
                raw.entry(key).source
            )
        })
        .collect()
}

#[cfg(test)]
mod tests;
