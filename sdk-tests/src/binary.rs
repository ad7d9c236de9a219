//! Where the binary under test comes from.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Environment variable that names a ready binary; nothing is built when it is set.
pub const BINARY_VARIABLE: &str = "WHIPPET_BINARY";

/// Environment variable that selects the cargo profile to build (`release` or `dev`).
pub const PROFILE_VARIABLE: &str = "WHIPPET_TEST_PROFILE";

/// Path of the binary under test, found or built once per test process.
///
/// Without [`BINARY_VARIABLE`] the package `whippet` is built by the cargo that built the tests, into the same target
/// directory. The default profile is `release`: payloads of tens of megabytes and hundreds of restarts are part of the
/// suite, and the optimised build (which keeps its overflow checks) is the one that users run.
///
/// # Panics
/// When the variable names no file, or when the build fails.
pub fn path() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(find_or_build)
}

fn find_or_build() -> PathBuf {
    if let Some(given) = std::env::var_os(BINARY_VARIABLE) {
        let given = PathBuf::from(given);
        assert!(given.is_file(), "{BINARY_VARIABLE} names {}, which is no file", given.display());
        return given;
    }
    build()
}

fn build() -> PathBuf {
    let profile = std::env::var(PROFILE_VARIABLE).unwrap_or_else(|_| "release".to_owned());
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args(["build", "--package", "whippet", "--bin", "whippet", "--message-format", "json-render-diagnostics"])
        .args(["--profile", &profile, "--manifest-path"])
        .arg(&manifest)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .unwrap_or_else(|error| panic!("run {}: {error}", env!("CARGO")));
    assert!(output.status.success(), "building the package whippet (profile {profile}): {}", output.status);
    executable_in(&output.stdout)
        .unwrap_or_else(|| panic!("cargo built the package whippet but reported no executable named whippet"))
}

/// The executable that cargo's JSON messages report for the target `whippet`.
fn executable_in(messages: &[u8]) -> Option<PathBuf> {
    messages
        .split(|&byte| byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<serde_json::Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact" && message["target"]["name"] == "whippet")
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .next_back()
}

#[cfg(test)]
mod tests {
    use super::executable_in;
    use std::path::PathBuf;

    #[test]
    fn takes_the_executable_of_the_binary_target_only() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"other"},"executable":"/t/other"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"whippet"},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"whippet"},"executable":"/t/release/whippet"}"#,
            "\nnot json\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        assert_eq!(executable_in(messages.as_bytes()), Some(PathBuf::from("/t/release/whippet")));
        assert_eq!(executable_in(b"{}\n"), None);
    }
}
