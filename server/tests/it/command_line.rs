//! Help, version, the effective configuration, and refusals.

use crate::program::{command, run};

#[test]
fn help_teaches() {
    let help = run(&mut command(&["--help"]));
    assert_eq!(help.code, Some(0));
    for part in [
        "--dev",
        "--config",
        "--print-config",
        "bench",
        "WHIPPET_DATA_DIR",
        "WHIPPET_TCP_ADDRESS",
        "Examples:",
        "IGGY_ROOT_PASSWORD",
    ] {
        assert!(help.out.contains(part), "{part} is missing in:\n{}", help.out);
    }
    let bench = run(&mut command(&["bench", "produce", "--help"]));
    assert_eq!(bench.code, Some(0));
    for part in ["--producers", "--total-bytes", "--rate", "--pid", "--json", "--cleanup"] {
        assert!(bench.out.contains(part), "{part} is missing in:\n{}", bench.out);
    }
}

#[test]
fn the_version_is_the_packages() {
    let version = run(&mut command(&["--version"]));
    assert_eq!((version.code, version.out.as_str()), (Some(0), concat!("whippet ", env!("CARGO_PKG_VERSION"), "\n")));
}

#[test]
fn the_effective_configuration_is_printed_without_secrets() {
    let printed = run(command(&["--dev", "--print-config"]).env("WHIPPET_HTTP_JWT_SECRET", "hunter2-hunter2-hunter2"));
    assert_eq!((printed.code, printed.err.as_str()), (Some(0), ""));
    assert!(printed.out.contains("username = \"iggy\"  # --dev\n"), "{}", printed.out);
    assert!(printed.out.contains("# environment variable WHIPPET_HTTP_JWT_SECRET"), "{}", printed.out);
    assert!(printed.out.contains("address = \"127.0.0.1:8090\""), "{}", printed.out);
    assert!(!printed.out.contains("hunter2"));
}

#[test]
fn a_bad_configuration_starts_nothing() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let data = folder.path().join("data");
    let refused = run(command(&["--dev"]).env("WHIPPET_DATA_DIR", &data).env("WHIPPET_TCP_ADRESS", "127.0.0.1:0"));
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""));
    assert_eq!(
        refused.err,
        "whippet: the configuration is not usable; nothing was started\n  \
         WHIPPET_TCP_ADRESS (environment): it sets nothing that this version knows; did you mean WHIPPET_TCP_ADDRESS?\n"
    );
    assert!(!data.exists());
}

#[test]
fn dev_does_not_listen_for_other_machines() {
    let refused = run(command(&["--dev"]).env("WHIPPET_TCP_ADDRESS", "0.0.0.0:0"));
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.err.contains("--dev serves this machine only, and 0.0.0.0:0 is reachable from others"),
        "{}",
        refused.err
    );
}

#[test]
fn the_file_can_be_named_by_the_environment() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("w.toml");
    std::fs::write(&path, "[cluster]\nname = \"from-file\"\n").expect("write");
    let printed = run(command(&["--print-config"]).env("WHIPPET_CONFIG", &path));
    assert_eq!(printed.code, Some(0));
    assert!(printed.out.contains("name = \"from-file\""), "{}", printed.out);
    let missing = run(&mut command(&["--config", "/nonexistent/w.toml", "--print-config"]));
    assert_eq!(missing.code, Some(1));
    assert!(missing.err.contains("/nonexistent/w.toml: the configuration file cannot be read"), "{}", missing.err);
}

#[test]
fn the_benchmark_says_when_nobody_listens() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    drop(listener);
    let failed = run(&mut command(&["bench", "small", "--address", &address, "--duration", "1s"]));
    assert_eq!(failed.code, Some(1));
    assert!(failed.err.starts_with(&format!("whippet: connect to {address}: ")), "{}", failed.err);
}
