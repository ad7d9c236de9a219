//! Every setting of the server, in one table.
//!
//! The table is the only place that knows a setting's name, default, range and meaning. The commented default file, the
//! page of all settings, the names of environment variables and the checks of what an operator wrote all come from it.

use super::kind::{Kind, Literal};

/// Prefix of the environment variables that set something.
pub const ENVIRONMENT_PREFIX: &str = "WHIPPET_";

/// Whether the nodes of one cluster must agree on a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Must be the same on all nodes of a cluster.
    Cluster,
    /// Each node may have its own.
    Node,
}

impl Scope {
    /// One word for documents.
    pub fn word(self) -> &'static str {
        match self {
            Scope::Cluster => "cluster",
            Scope::Node => "node",
        }
    }
}

/// Whether a value may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privacy {
    /// Shown everywhere.
    Public,
    /// Shown as `…` everywhere.
    Secret,
}

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// Name in the configuration file: table names and key joined by points.
    pub key: &'static str,
    /// Type and range.
    pub kind: Kind,
    /// What holds where nothing is set, as it would be written in the file.
    pub default: Literal,
    /// What it is, in sentences.
    pub what: &'static str,
    /// What another value changes, in sentences; may be empty.
    pub effect: &'static str,
    /// Who must agree on it.
    pub scope: Scope,
    /// Whether it may be shown.
    pub privacy: Privacy,
}

impl Setting {
    /// Name of the environment variable that sets it.
    pub fn environment_name(&self) -> String {
        let path = self.key.replace('.', "_").to_ascii_uppercase();
        format!("{ENVIRONMENT_PREFIX}{path}")
    }

    /// The table of the configuration file that holds it, empty for the top level, and its key there.
    pub fn table_and_key(&self) -> (&'static str, &'static str) {
        self.key.rsplit_once('.').unwrap_or(("", self.key))
    }
}

/// The setting of that name.
pub fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

/// What the tables of the configuration file are about, in their order.
pub const TABLES: &[(&str, &str)] = &[
    ("", "The node"),
    ("root", "The first user, who may do everything"),
    ("cluster", "How this node presents itself to clients"),
    ("tcp", "The TCP listener: official SDKs and their command-line client"),
    ("http", "The HTTP listener: REST and JSON"),
    ("http.jwt", "Access tokens of the HTTP listener"),
    ("http.cors", "Which web pages of other origins may call the HTTP listener from a browser"),
    ("quic", "The QUIC listener; not yet served by this version"),
    ("websocket", "The WebSocket listener; not yet served by this version"),
    ("limits", "What one node takes at most"),
    ("runtime", "Threads"),
    ("storage", "How data gets to the disk"),
    ("topic", "Defaults for topics that are created from now on"),
    ("log", "The log lines on standard error"),
];

const MIB: u64 = 1 << 20;
const SECOND_US: u64 = 1_000_000;

const fn node(key: &'static str, kind: Kind, default: Literal, what: &'static str, effect: &'static str) -> Setting {
    Setting { key, kind, default, what, effect, scope: Scope::Node, privacy: Privacy::Public }
}

const fn cluster(key: &'static str, kind: Kind, default: Literal, what: &'static str, effect: &'static str) -> Setting {
    Setting { key, kind, default, what, effect, scope: Scope::Cluster, privacy: Privacy::Public }
}

const fn secret(key: &'static str, kind: Kind, what: &'static str, effect: &'static str, scope: Scope) -> Setting {
    Setting { key, kind, default: Literal::Text(""), what, effect, scope, privacy: Privacy::Secret }
}

/// All settings, in the order of the configuration file.
pub const SETTINGS: &[Setting] = &[
    node(
        "data_dir",
        Kind::Text { bytes_min: 1, bytes_max: 4096 },
        Literal::Text("data"),
        "Folder that holds everything the server stores. A relative path counts from the working directory of the process.",
        "It is made when it is missing. One server uses it at a time.",
    ),
    cluster(
        "root.username",
        Kind::Text { bytes_min: 0, bytes_max: 50 },
        Literal::Text(""),
        "Name of the root user, 3 to 50 bytes. Also read from IGGY_ROOT_USERNAME.",
        "Used once, at the first start on a data directory. Without it the root user is `iggy`, and a password is made up and shown once.",
    ),
    secret(
        "root.password",
        Kind::Text { bytes_min: 0, bytes_max: 100 },
        "Password of the root user, 3 to 100 bytes; set both or neither. Also read from IGGY_ROOT_PASSWORD.",
        "Used once, at the first start on a data directory. Only a hash of it is stored.",
        Scope::Cluster,
    ),
    cluster(
        "cluster.name",
        Kind::Text { bytes_min: 1, bytes_max: 255 },
        Literal::Text("single-node"),
        "Name of the cluster, as clients are told it.",
        "Becomes part of the identity of the data at the first start and must stay the same from then on.",
    ),
    node(
        "cluster.node_name",
        Kind::Text { bytes_min: 1, bytes_max: 255 },
        Literal::Text("whippet-1"),
        "Name of this node, as clients are told it.",
        "",
    ),
    node(
        "cluster.advertised_address",
        Kind::Text { bytes_min: 0, bytes_max: 255 },
        Literal::Text(""),
        "Host name or IP address, without a port, under which clients reach this node.",
        "Set it where clients reach the node under another address than the one that it listens on, as behind NAT or in containers. Empty: the address of the TCP listener.",
    ),
    node("tcp.enabled", Kind::Switch, Literal::Switch(true), "Whether there is a TCP listener.", ""),
    node(
        "tcp.address",
        Kind::Address { may_be_empty: false },
        Literal::Text("127.0.0.1:8090"),
        "Where it listens. Port 0 takes a free one, which the start-up lines tell.",
        "Connections are not encrypted: bind another address than loopback only in a network that you trust.",
    ),
    node("http.enabled", Kind::Switch, Literal::Switch(true), "Whether there is an HTTP listener.", ""),
    node(
        "http.address",
        Kind::Address { may_be_empty: false },
        Literal::Text("127.0.0.1:3000"),
        "Where it listens. Port 0 takes a free one, which the start-up lines tell.",
        "Connections are not encrypted: bind another address than loopback only in a network that you trust.",
    ),
    node(
        "http.max_request_size",
        Kind::Size { min: 1024, max: 64 * MIB },
        Literal::Text("2 MB"),
        "Largest request body, as it comes over the socket, base64 included. A larger one is answered with 413.",
        "A larger value lets each request hold more memory.",
    ),
    secret(
        "http.jwt.secret",
        Kind::Text { bytes_min: 0, bytes_max: 1024 },
        "Key that access tokens are signed with, at least 16 bytes. Empty: a random one at each start.",
        "With a random one all access tokens end with the process. Whoever knows the key can make tokens for any user.",
        Scope::Cluster,
    ),
    cluster(
        "http.jwt.expiry",
        Kind::Duration { min_us: SECOND_US, max_us: 366 * 86_400 * SECOND_US },
        Literal::Text("1 hour"),
        "How long an access token is valid.",
        "Longer means fewer logins, and more time for whoever got hold of a token.",
    ),
    node(
        "http.cors.enabled",
        Kind::Switch,
        Literal::Switch(true),
        "Whether cross-origin calls are answered at all.",
        "",
    ),
    node(
        "http.cors.allowed_origins",
        Kind::List { items_max: 64 },
        Literal::List(&["*"]),
        "Origins such as `https://app.example`; the single entry `*` allows all.",
        "A call still needs an access token, which a foreign page does not have.",
    ),
    node(
        "http.cors.allowed_methods",
        Kind::List { items_max: 64 },
        Literal::List(&["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"]),
        "Methods that a page may use.",
        "",
    ),
    node(
        "http.cors.allowed_headers",
        Kind::List { items_max: 64 },
        Literal::List(&["content-type", "authorization", "idempotency-key", "x-request-id", "traceparent"]),
        "Request headers that a page may send.",
        "",
    ),
    node(
        "http.cors.exposed_headers",
        Kind::List { items_max: 64 },
        Literal::List(&["iggy-durability", "iggy-view", "retry-after", "location", "x-request-id"]),
        "Response headers that a page may read.",
        "",
    ),
    node(
        "quic.address",
        Kind::Address { may_be_empty: true },
        Literal::Text(""),
        "Reserved for the QUIC listener, which this version does not have yet. Setting it only logs a warning.",
        "",
    ),
    node(
        "websocket.address",
        Kind::Address { may_be_empty: true },
        Literal::Text(""),
        "Reserved for the WebSocket listener, which this version does not have yet. Setting it only logs a warning.",
        "",
    ),
    node(
        "limits.connections_max",
        Kind::Number { min: 1, max: 1_000_000, unit: "connections" },
        Literal::Number(10_000),
        "Connections that may be open at a time, over all listeners. More are refused.",
        "Each open connection takes a file descriptor: raise `ulimit -n` with it.",
    ),
    node(
        "limits.connections_per_address_max",
        Kind::Number { min: 1, max: 1_000_000, unit: "connections" },
        Literal::Number(2_000),
        "Connections that one client address may have open at a time. More are refused.",
        "A lower value keeps one client from taking all connections; a higher one helps where many clients share an address.",
    ),
    node(
        "limits.frame_size_max",
        Kind::Size { min: MIB, max: 64 * MIB },
        Literal::Text("64 MiB"),
        "Largest request frame over TCP. A connection that announces a larger one is closed.",
        "A lower value bounds the memory of a connection, and the size of a batch of messages.",
    ),
    node(
        "runtime.shards",
        Kind::Number { min: 0, max: 256, unit: "threads" },
        Literal::Number(0),
        "Threads that partitions and connections are spread over. 0: one a processor core.",
        "More threads than cores cost speed.",
    ),
    node(
        "runtime.pin_threads",
        Kind::Switch,
        Literal::Switch(true),
        "Whether each of these threads stays on one core.",
        "Switch it off where other busy programs share the machine.",
    ),
    node(
        "storage.engine",
        Kind::Choice(&["auto", "io_uring", "portable"]),
        Literal::Text("auto"),
        "How the disk is used: `io_uring`, `portable` (plain system calls on helper threads), or `auto`, which takes io_uring where the kernel allows it and says so once where it does not.",
        "With `io_uring` the server does not start where the kernel forbids it.",
    ),
    cluster(
        "storage.force_persisted",
        Kind::Switch,
        Literal::Switch(false),
        "Whether every topic that is created from now on is `persisted`, whatever its creator asked for: a message is acknowledged only once it is synced to the disk.",
        "Nothing that was acknowledged is lost in a power cut then; sends take the time of a sync.",
    ),
    node(
        "storage.sync_interval_ms",
        Kind::Number { min: 1, max: 1000, unit: "ms" },
        Literal::Number(100),
        "Longest time that a message of a `replicated` topic stays without being synced to the disk.",
        "What a power cut of a single node can take of such topics. A crash of the process takes nothing.",
    ),
    cluster(
        "topic.segment_size",
        Kind::Size { min: MIB, max: 1024 * MIB },
        Literal::Text("1 GiB"),
        "Size at which a segment file of a partition is complete and the next one begins, a multiple of 512 bytes, for topics whose creator does not say.",
        "Data is deleted in whole segments: smaller ones free room sooner and make more files.",
    ),
    node(
        "log.level",
        Kind::Text { bytes_min: 1, bytes_max: 1024 },
        Literal::Text("info"),
        "What is logged: `error`, `warn`, `info`, `debug`, `trace` or `off`, also by module, as in `info,whippet_http=debug`.",
        "`debug` and `trace` log single requests and cost speed.",
    ),
    node(
        "log.format",
        Kind::Choice(&["text", "json"]),
        Literal::Text("text"),
        "`text` for people, `json` (one object a line) for programs.",
        "",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_also_as_environment_variables() {
        let keys: BTreeSet<_> = SETTINGS.iter().map(|setting| setting.key).collect();
        let variables: BTreeSet<_> = SETTINGS.iter().map(Setting::environment_name).collect();
        assert_eq!((keys.len(), variables.len()), (SETTINGS.len(), SETTINGS.len()));
        assert!(variables.contains("WHIPPET_DATA_DIR") && variables.contains("WHIPPET_TCP_ADDRESS"));
        assert!(variables.contains("WHIPPET_HTTP_CORS_ALLOWED_ORIGINS"));
    }

    #[test]
    fn settings_stand_in_the_order_of_the_tables_and_each_table_has_some() {
        let order: Vec<_> = SETTINGS
            .iter()
            .map(|setting| {
                let table = setting.table_and_key().0;
                TABLES.iter().position(|(name, _)| *name == table).unwrap_or_else(|| panic!("{table} is no table"))
            })
            .collect();
        assert!(order.is_sorted());
        assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), TABLES.len());
    }

    #[test]
    fn every_default_is_in_its_own_range() {
        for setting in SETTINGS {
            let value = setting.kind.read_literal(&setting.default);
            assert!(value.is_ok(), "{}: {value:?}", setting.key);
        }
    }

    #[test]
    fn explanations_are_sentences() {
        for setting in SETTINGS {
            assert!(setting.what.ends_with('.'), "{}", setting.key);
            assert!(setting.effect.is_empty() || setting.effect.ends_with('.'), "{}", setting.key);
        }
    }
}
