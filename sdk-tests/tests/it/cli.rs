//! The official command-line client 0.14.0 as a user types it.
//!
//! It is looked for at `IGGY_CLI`, in the folder where `install-cli.sh` puts it, and on the search path. Building it takes
//! minutes, so the tests say "not run" where it is missing instead of building it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;
use whippet_sdk_tests::Server;

/// Version that speaks protocol 0.11.0; later ones do not.
const VERSION: &str = "0.14.0";

/// The client program, if there is one of the right version.
fn program() -> Option<PathBuf> {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/cli/bin/iggy");
    let given = std::env::var_os("IGGY_CLI").map(PathBuf::from);
    let candidates = [given, Some(installed), Some(PathBuf::from("iggy"))];
    candidates.into_iter().flatten().find(|candidate| {
        let output = Command::new(candidate).arg("--version").stdin(Stdio::null()).output();
        output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(VERSION))
    })
}

struct Cli {
    program: PathBuf,
    server: Server,
    home: TempDir,
    transport: &'static str,
}

impl Cli {
    /// Runs one command and returns whether it succeeded, and everything it printed.
    fn run(&self, arguments: &[&str]) -> (bool, String) {
        let output = Command::new(&self.program)
            .args(["--transport", self.transport])
            .args(["--tcp-server-address", &self.server.tcp().to_string()])
            .args(["--http-api-url", &format!("http://{}", self.server.http())])
            .args(["--tcp-reconnection-max-retries", "1"])
            .args(["--username", "iggy", "--password", "iggy"])
            .args(arguments)
            .env("IGGY_HOME", self.home.path())
            .env("HOME", self.home.path())
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| panic!("run {}: {error}", self.program.display()));
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        (output.status.success(), text)
    }

    /// Runs one command that must succeed and print each of the `expected` texts.
    #[track_caller]
    fn prints(&self, arguments: &[&str], expected: &[&str]) {
        let (success, text) = self.run(arguments);
        assert!(success, "iggy {arguments:?} failed:\n{text}");
        for expected in expected {
            assert!(text.contains(expected), "iggy {arguments:?} does not print {expected:?}:\n{text}");
        }
    }

    /// Runs one command that must fail.
    #[track_caller]
    fn fails(&self, arguments: &[&str]) {
        let (success, text) = self.run(arguments);
        assert!(!success, "iggy {arguments:?} succeeded:\n{text}");
    }
}

fn with_cli(transport: &'static str, test: impl Fn(&Cli)) {
    let Some(program) = program() else {
        eprintln!(
            "not run: no iggy {VERSION} at IGGY_CLI, in target/cli/bin or on PATH (sdk-tests/install-cli.sh installs it)"
        );
        return;
    };
    let home = TempDir::with_prefix("whippet-cli-").unwrap_or_else(|error| panic!("temporary folder: {error}"));
    test(&Cli { program, server: Server::start(), home, transport });
}

fn streams_and_topics(cli: &Cli) {
    cli.prints(&["stream", "list"], &["No streams found"]);
    cli.prints(&["stream", "create", "orders"], &["Stream with name: orders"]);
    cli.fails(&["stream", "create", "orders"]);
    cli.prints(&["stream", "get", "orders"], &["orders", "topics count"]);
    cli.prints(&["stream", "list"], &["orders"]);
    cli.prints(&["stream", "update", "orders", "sales"], &["updated name: sales"]);
    cli.prints(&["topic", "create", "sales", "new", "3", "none"], &["Topic with name: new, partitions count: 3"]);
    cli.prints(&["topic", "create", "sales", "kept", "1", "gzip", "1day", "--durability", "persisted"], &["kept"]);
    cli.prints(&["topic", "get", "sales", "new"], &["new", "3"]);
    cli.prints(&["topic", "get", "sales", "kept"], &["gzip", "1day"]);
    cli.prints(&["topic", "list", "sales"], &["new", "kept"]);
    cli.prints(&["topic", "update", "sales", "new", "newer", "none", "2days"], &["updated name: newer"]);
    cli.prints(&["partition", "create", "sales", "newer", "2"], &["2"]);
    cli.prints(&["topic", "get", "sales", "newer"], &["2days", "5"]);
    cli.prints(&["partition", "delete", "sales", "newer", "4"], &["4"]);
    cli.prints(&["options", "topic"], &["segment_size", "durability", "message_expiry"]);
    cli.fails(&["topic", "create", "sales", "x", "1", "none", "--set", "enforce_fsync=true"]);
    cli.prints(&["topic", "create", "sales", "small", "1", "none", "--set", "segment_size=1MiB"], &["small"]);
    cli.prints(&["topic", "delete", "sales", "kept"], &["deleted"]);
    cli.prints(&["stream", "purge", "sales"], &["purged"]);
    cli.prints(&["stream", "delete", "sales"], &["deleted"]);
    cli.prints(&["stream", "list"], &["No streams found"]);
}

fn messages(cli: &Cli) {
    cli.prints(&["stream", "create", "s"], &["created"]);
    cli.prints(&["topic", "create", "s", "t", "2", "none"], &["created"]);
    let send = ["message", "send", "-p", "1", "s", "t", "first text", "second text", "third text"];
    cli.prints(&send, &["Sent messages to topic with ID: t and stream with ID: s"]);
    cli.prints(&["message", "send", "-p", "1", "-H", "kind:string:test", "s", "t", "with header"], &["Sent messages"]);
    cli.prints(&["message", "poll", "-f", "-m", "2", "s", "t", "1"], &["first text", "second text", "Polled"]);
    cli.prints(&["message", "poll", "-o", "2", "-m", "1", "s", "t", "1"], &["third text"]);
    cli.prints(&["message", "poll", "-l", "-m", "1", "-s", "s", "t", "1"], &["with header", "kind"]);
    cli.prints(&["message", "poll", "-n", "-a", "-m", "1", "-c", "app", "s", "t", "1"], &["first text"]);
    cli.prints(&["message", "poll", "-n", "-a", "-m", "1", "-c", "app", "s", "t", "1"], &["second text"]);
    cli.prints(&["consumer-offset", "get", "app", "s", "t", "1"], &["1"]);
    cli.prints(&["consumer-offset", "set", "app", "s", "t", "1", "0"], &["0"]);
    cli.prints(&["message", "poll", "-n", "-m", "1", "-c", "app", "s", "t", "1"], &["second text"]);
    cli.prints(&["message", "send", "-m", "key", "s", "t", "by key"], &["Sent messages"]);
    cli.prints(&["topic", "purge", "s", "t"], &["purged"]);
    let (_, text) = cli.run(&["message", "poll", "-f", "-m", "5", "s", "t", "1"]);
    assert!(!text.contains("first text"), "purged messages are gone:\n{text}");
    cli.fails(&["message", "poll", "-f", "-m", "1", "s", "missing", "0"]);
}

#[test]
fn ping_me_stats_and_cluster() {
    with_cli("tcp", |cli| {
        cli.prints(&["ping", "-c", "2"], &["Ping statistics for 2 ping commands"]);
        cli.prints(&["me"], &["TCP", "127.0.0.1"]);
        cli.prints(&["stats"], &["Server PID", &cli.server.pid().to_string()]);
        cli.prints(&["client", "list"], &["TCP", "127.0.0.1"]);
        cli.prints(&["cluster", "metadata"], &["127.0.0.1", &cli.server.tcp().port().to_string()]);
    });
}

#[test]
fn streams_and_topics_over_tcp() {
    with_cli("tcp", streams_and_topics);
}

#[test]
fn streams_and_topics_over_http() {
    with_cli("http", streams_and_topics);
}

#[test]
fn messages_over_tcp() {
    with_cli("tcp", messages);
}

#[test]
fn messages_over_http() {
    with_cli("http", messages);
}
