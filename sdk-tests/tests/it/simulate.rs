//! The seeds that must pass, with the optimised program, and what the command says.

use std::process::{Command, Output};

fn simulate(arguments: &[&str]) -> Output {
    let mut command = Command::new(whippet_sdk_tests::binary::path());
    command.arg("simulate").args(arguments).output().expect("the program starts")
}

fn run(arguments: &[&str]) -> String {
    let output = simulate(arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}: {:?}\n{text}", output.status);
    text
}

fn count(name: &str, default: u32) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_string())
}

#[test]
fn small_clusters_with_many_faults() {
    let seeds = count("WHIPPET_DEEP_SEEDS", 200);
    let text = run(&["--seeds", &seeds]);
    assert!(text.contains(&format!("{seeds} seeds from 1 (Deep): no rule broken")), "{text}");
}

#[test]
fn a_thousand_partitions() {
    let text = run(&["--profile", "wide", "--seeds", &count("WHIPPET_WIDE_SEEDS", 10)]);
    assert!(text.contains("(Wide): no rule broken"), "{text}");
}

#[test]
fn the_same_seed_says_the_same() {
    let arguments = ["--seed", "700", "--seeds", "20", "--verbose"];
    let [one, other] = [run(&arguments), run(&arguments)].map(|text| {
        let lines: Vec<String> =
            text.lines().filter(|line| !line.contains("min virtual time")).map(str::to_owned).collect();
        lines
    });
    assert_eq!(one.iter().filter(|line| line.contains("trace ")).count(), 20);
    assert_eq!(one, other);
}

#[test]
fn a_wrong_argument_is_explained() {
    let output = simulate(&["--profile", "flat"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("possible values: deep, wide"));
}
