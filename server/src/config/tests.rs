//! Checks of whole configurations.

use super::raw::{Inputs, Source};
use super::*;
use secrecy::ExposeSecret;

fn load(dev: bool, variables: &[(&str, &str)]) -> Result<Config, Vec<String>> {
    let environment = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
    match Config::load(&Inputs { dev, environment, file: None }) {
        Ok((config, _)) => Ok(config),
        Err(refused) => Err(refused.0.iter().map(ToString::to_string).collect()),
    }
}

#[track_caller]
fn refuses(dev: bool, variables: &[(&str, &str)], expected: &[&str]) {
    assert_eq!(load(dev, variables).map(|_| ()).unwrap_err(), expected);
}

#[test]
fn the_defaults_are_a_good_configuration() {
    let config = load(false, &[]).expect("good");
    assert_eq!(config.data_dir, PathBuf::from("data"));
    assert!(config.root.is_none() && !config.dev);
    assert_eq!(config.tcp, Some("127.0.0.1:8090".parse().expect("an address")));
    let http = config.http.expect("on");
    assert_eq!(http.address, "127.0.0.1:3000".parse().expect("an address"));
    assert_eq!((http.max_request_size, http.jwt_expiry), (2_000_000, Duration::from_secs(3600)));
    assert_eq!(config.limits.frame_size_max, whippet_protocol::limits::FRAME_SIZE_MAX);
    assert_eq!(config.storage.engine, Engine::Auto);
    assert_eq!(config.storage.sync_interval, Duration::from_millis(100));
    assert_eq!(config.topic.segment_size, whippet_metadata::TopicDefaults::default().segment_size);
    assert_eq!(config.runtime.shards, None);
    assert_eq!(config.warnings, Vec::<String>::new());
}

#[test]
fn dev_brings_a_known_root_user_and_no_half_of_it() {
    let root = |variables: &[(&str, &str)]| {
        let root = load(true, variables).expect("good").root.expect("a root user");
        (root.username, root.password.expose_secret().to_owned())
    };
    assert_eq!(root(&[]), ("iggy".into(), "iggy".into()));
    let own = [("WHIPPET_ROOT_USERNAME", "admin"), ("WHIPPET_ROOT_PASSWORD", "long enough")];
    assert_eq!(root(&own), ("admin".into(), "long enough".into()));
    refuses(
        true,
        &own[..1],
        &[
            "root.username (environment variable WHIPPET_ROOT_USERNAME): it is set without root.password (WHIPPET_ROOT_PASSWORD); set both or neither",
        ],
    );
}

#[test]
fn dev_refuses_everything_but_loopback() {
    for address in ["127.0.0.1:0", "127.9.9.9:1", "[::1]:1", "localhost:1"] {
        assert!(load(true, &[("WHIPPET_TCP_ADDRESS", address)]).is_ok(), "{address}");
    }
    refuses(
        true,
        &[("WHIPPET_TCP_ADDRESS", "0.0.0.0:8090"), ("WHIPPET_HTTP_ADDRESS", "[::]:3000")],
        &[
            "tcp.address (environment variable WHIPPET_TCP_ADDRESS): --dev serves this machine only, and 0.0.0.0:8090 is reachable from others; use a loopback address, or start without --dev",
            "http.address (environment variable WHIPPET_HTTP_ADDRESS): --dev serves this machine only, and [::]:3000 is reachable from others; use a loopback address, or start without --dev",
        ],
    );
    let off = [("WHIPPET_HTTP_ADDRESS", "0.0.0.0:3000"), ("WHIPPET_HTTP_ENABLED", "false")];
    assert!(load(true, &off).is_ok(), "a listener that is off is reachable from nowhere");
    assert!(load(false, &[("WHIPPET_TCP_ADDRESS", "0.0.0.0:8090")]).is_ok());
}

#[test]
fn lengths_of_credentials_are_checked() {
    refuses(
        false,
        &[("WHIPPET_ROOT_USERNAME", "ab"), ("WHIPPET_ROOT_PASSWORD", "cd"), ("WHIPPET_HTTP_JWT_SECRET", "short")],
        &[
            "root.username (environment variable WHIPPET_ROOT_USERNAME): it must have 3 to 50 bytes, and has 2",
            "root.password (environment variable WHIPPET_ROOT_PASSWORD): it must have 3 to 100 bytes, and has 2",
            "http.jwt.secret (environment variable WHIPPET_HTTP_JWT_SECRET): it must have at least 16 bytes, and has 5",
        ],
    );
}

#[test]
fn what_does_not_go_together_is_refused() {
    refuses(
        false,
        &[("WHIPPET_TCP_ENABLED", "false"), ("WHIPPET_HTTP_ENABLED", "false")],
        &[
            "tcp.enabled (environment variable WHIPPET_TCP_ENABLED): with http.enabled also false there is nothing to serve; enable one of the two",
        ],
    );
    refuses(
        false,
        &[("WHIPPET_TOPIC_SEGMENT_SIZE", "1048577")],
        &["topic.segment_size (environment variable WHIPPET_TOPIC_SEGMENT_SIZE): 1048577 bytes are no multiple of 512"],
    );
    refuses(
        false,
        &[("WHIPPET_HTTP_CORS_ALLOWED_ORIGINS", "https://a.example,*")],
        &[
            "http.cors.allowed_origins (environment variable WHIPPET_HTTP_CORS_ALLOWED_ORIGINS): `*` allows all origins and must stand alone",
        ],
    );
    let problems = load(false, &[("WHIPPET_LOG_LEVEL", "loud=very")]).map(|_| ()).unwrap_err();
    assert!(problems[0].contains("`loud=very` is no level such as `info`"), "{problems:?}");
}

#[test]
fn listeners_that_do_not_exist_yet_are_warned_about() {
    let config = load(false, &[("WHIPPET_QUIC_ADDRESS", "127.0.0.1:8080")]).expect("good");
    assert_eq!(
        config.warnings,
        [
            "quic.address (environment variable WHIPPET_QUIC_ADDRESS) is set, but this version does not serve QUIC yet; nothing listens there"
        ]
    );
}

#[test]
fn secrets_do_not_show_in_debug() {
    let config = load(
        false,
        &[
            ("WHIPPET_ROOT_USERNAME", "admin"),
            ("WHIPPET_ROOT_PASSWORD", "hunter2-password"),
            ("WHIPPET_HTTP_JWT_SECRET", "hunter2-token-key-of-some-length"),
        ],
    );
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn the_environment_wins_over_the_file_and_the_file_over_dev() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("w.toml");
    let content = "root.username = \"filed\"\nroot.password = \"filed\"\ndata_dir = \"from-file\"\ncluster.name = \"from-file\"\n";
    std::fs::write(&path, content).expect("write");
    let inputs = Inputs {
        dev: true,
        file: Some(path),
        environment: vec![("WHIPPET_DATA_DIR".into(), "from-environment".into())],
    };
    let (config, raw) = Config::load(&inputs).expect("good");
    assert_eq!(config.data_dir, PathBuf::from("from-environment"));
    assert_eq!(config.cluster.name, "from-file");
    assert_eq!(config.root.map(|root| root.username), Some("filed".to_owned()));
    assert_eq!(raw.entry("data_dir").source, Source::Environment("WHIPPET_DATA_DIR".into()));
}
