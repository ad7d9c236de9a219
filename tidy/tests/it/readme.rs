//! What the README tells people to run is what the continuous integration runs.

use whippet_tidy::{fenced_lines, read};

/// The part of a document under the heading `title`, up to the next heading of the same level.
fn section<'a>(text: &'a str, title: &str) -> &'a str {
    let start = text.find(&format!("\n{title}\n")).unwrap_or_else(|| panic!("the README has no section `{title}`"));
    let body = &text[start + title.len() + 2..];
    body.split("\n## ").next().unwrap_or(body)
}

#[test]
fn the_commands_for_tests_are_those_of_ci() {
    let readme = read("README.md");
    let ci = read(".ci/run");
    let called: Vec<&str> = ci.lines().map(str::trim).collect();
    let commands: Vec<&str> =
        fenced_lines(section(&readme, "## Tests"), "sh").into_iter().filter(|line| !line.is_empty()).collect();
    assert!(!commands.is_empty(), "the section says how to run the tests");
    for command in commands {
        assert!(called.contains(&command), "the README says `{command}`, and .ci/run does not call it");
    }
}

#[test]
fn ci_stops_at_the_first_failure() {
    let ci = read(".ci/run");
    assert!(ci.starts_with("#!"), ".ci/run is a script");
    assert!(ci.lines().any(|line| line == "set -euo pipefail"));
}
