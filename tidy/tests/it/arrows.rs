//! Which crate may use which: transports → gateway → runtime → shard → {partition, metadata, log, vsr} → {protocol,
//! storage}. Arrows go down only, and a front end knows no file and no consensus.

use std::collections::BTreeSet;
use toml::{Table, Value};
use whippet_tidy::{read, root};

/// Member, and what of the workspace it may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("core/protocol", &[]),
    ("core/storage", &[]),
    ("core/vsr", &[]),
    ("core/log", &["storage", "vsr"]),
    ("core/metadata", &["protocol"]),
    ("core/partition", &["log", "protocol", "storage", "vsr"]),
    ("core/shard", &["log", "metadata", "partition", "protocol", "storage", "vsr"]),
    ("core/runtime", &["log", "metadata", "partition", "protocol", "shard", "storage", "vsr"]),
    // Another host of the same shards.
    ("core/simulator", &["log", "metadata", "partition", "protocol", "shard", "storage", "vsr"]),
    // Requests and replies of a shard are its vocabulary; groups are named by `vsr::GroupId`.
    ("gateway", &["metadata", "protocol", "runtime", "shard", "vsr"]),
    ("transports/tcp", &["gateway", "protocol", "runtime"]),
    ("transports/http", &["gateway", "metadata", "protocol", "runtime", "shard"]),
    // The program puts the others together.
    ("server", &["gateway", "http", "metadata", "protocol", "runtime", "simulator", "storage", "tcp", "vsr"]),
    // Tests that see the product as a user does, and tests that see it as text.
    ("sdk-tests", &[]),
    ("tidy", &[]),
];

/// Crates from outside that the state machines may use: encoding, hashing, buffers, error types, and the one lock-free map.
const SANS_IO_DEPENDENCIES: &[&str] =
    &["bytes", "iggy_binary_protocol", "left-right", "postcard", "serde", "thiserror", "twox-hash"];

/// The state machines, by their folder below `core`.
pub const SANS_IO: &[&str] = &["protocol", "vsr", "log", "metadata", "partition", "shard"];

fn manifest(member: &str) -> Table {
    let path = format!("{member}/Cargo.toml");
    read(&path).parse().unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn members() -> Vec<String> {
    let workspace: Table = read("Cargo.toml").parse().unwrap_or_else(|error| panic!("Cargo.toml: {error}"));
    let members = workspace["workspace"]["members"].as_array().cloned().unwrap_or_default();
    members.iter().filter_map(|member| member.as_str().map(str::to_owned)).collect()
}

/// Names in one table of dependencies of a manifest.
fn names(manifest: &Table, table: &str) -> Vec<String> {
    manifest.get(table).and_then(Value::as_table).map(|table| table.keys().cloned().collect()).unwrap_or_default()
}

#[test]
fn arrows_go_down_only() {
    let members = members();
    let known: BTreeSet<&str> = ALLOWED.iter().map(|(member, _)| *member).collect();
    assert_eq!(known, members.iter().map(String::as_str).collect(), "every member of the workspace has its rule here");
    for (member, allowed) in ALLOWED {
        let manifest = manifest(member);
        let ours = |table: &str| {
            let strip = |name: String| {
                name.strip_prefix("whippet-").map(str::to_owned).or((name == "whippet").then(|| "server".to_owned()))
            };
            names(&manifest, table).into_iter().filter_map(strip).collect::<Vec<_>>()
        };
        for table in ["dependencies", "build-dependencies"] {
            for name in ours(table) {
                assert!(allowed.contains(&name.as_str()), "{member} may not use {name} ({table})");
            }
        }
        // A test may start a whole node below what it tests, and a crate may test itself with a feature switched on.
        let place = |wanted: &str| ALLOWED.iter().position(|(other, _)| other.rsplit('/').next() == Some(wanted));
        for name in ours("dev-dependencies") {
            let own = place(member.rsplit('/').next().unwrap_or_default());
            assert!(place(&name) <= own, "{member} may not use {name} in its tests");
        }
    }
}

#[test]
fn the_rules_themselves_have_no_circle() {
    // Every crate stands in the list behind all that it may use.
    for (index, (member, allowed)) in ALLOWED.iter().enumerate() {
        for name in *allowed {
            let place = ALLOWED.iter().position(|(other, _)| other.rsplit('/').next() == Some(name));
            assert!(
                place.is_some_and(|place| place < index),
                "{member} may use {name}, which does not stand before it"
            );
        }
    }
}

#[test]
fn state_machines_use_few_crates_from_outside() {
    for name in SANS_IO {
        let member = format!("core/{name}");
        for dependency in names(&manifest(&member), "dependencies") {
            let allowed = dependency.starts_with("whippet-") || SANS_IO_DEPENDENCIES.contains(&dependency.as_str());
            assert!(allowed, "{member} may not use {dependency}; it is a state machine without I/O");
        }
    }
}

#[test]
fn manifests_follow_the_workspace() {
    for member in members() {
        let manifest = manifest(&member);
        let inherits = |table: &str, key: &str| {
            manifest.get(table).and_then(|table| table.get(key)).is_some_and(|value| {
                value.as_bool() == Some(true) || value.get("workspace").and_then(Value::as_bool) == Some(true)
            })
        };
        assert!(inherits("lints", "workspace"), "{member}: [lints] workspace = true is missing");
        for key in ["version", "edition", "rust-version", "license", "publish"] {
            assert!(inherits("package", key), "{member}: {key}.workspace = true is missing");
        }
        let name = manifest["package"]["name"].as_str().unwrap_or_default();
        let folder = member.rsplit('/').next().unwrap_or_default();
        let expected = if member == "server" { "whippet".to_owned() } else { format!("whippet-{folder}") };
        assert_eq!(name, expected, "a package is named after its folder");
        assert!(root().join(&member).join("src/lib.rs").is_file(), "{member} has no src/lib.rs");
    }
}

#[test]
fn every_crate_says_first_what_it_is() {
    for member in members() {
        let text = read(&format!("{member}/src/lib.rs"));
        let essay = text.lines().take_while(|line| line.starts_with("//!")).count();
        assert!(essay >= 3, "{member}/src/lib.rs begins with {essay} lines of documentation");
    }
}
