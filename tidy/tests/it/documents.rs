//! Documents name files and symbols that exist.

use std::collections::BTreeSet;
use whippet_tidy::{SourceFile, backticked, files, root};

/// First parts of paths that documents name.
const FOLDERS: &[&str] =
    &["core", "gateway", "transports", "server", "sdk-tests", "tidy", "fuzz", "configs", "docs", "openapi", ".ci"];

fn documents() -> Vec<SourceFile> {
    let is_document =
        |file: &SourceFile| file.extension() == "md" && (!file.path.contains('/') || file.path.starts_with("docs/"));
    files("").into_iter().filter(is_document).collect()
}

#[test]
fn paths_in_documents_exist() {
    let mut checked = 0;
    for document in documents() {
        for text in backticked(&document.text) {
            let first = text.split('/').next().unwrap_or_default();
            let is_path = !text.contains([' ', '*', '{', '<'])
                && (FOLDERS.contains(&first) && text.contains('/') || is_root_file(&text));
            if is_path {
                checked += 1;
                assert!(
                    root().join(text.trim_end_matches('/')).exists(),
                    "{} names {text}, which does not exist",
                    document.path
                );
            }
        }
    }
    assert!(checked > 20, "only {checked} paths were found: are they still in backticks?");
}

fn is_root_file(text: &str) -> bool {
    let known =
        ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "LICENSE", "deny.toml", "clippy.toml", "rustfmt.toml"];
    known.contains(&text)
}

#[test]
fn symbols_in_the_architecture_exist() {
    let words: BTreeSet<String> = files("")
        .iter()
        .filter(|file| file.extension() == "rs")
        .flat_map(|file| {
            file.text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    let mut checked = 0;
    for text in backticked(&whippet_tidy::read("ARCHITECTURE.md")) {
        for name in symbol_parts(&text) {
            checked += 1;
            assert!(words.contains(name), "ARCHITECTURE.md names `{text}`, but no source has `{name}`");
        }
    }
    assert!(checked > 30, "only {checked} symbols were found: are they still in backticks?");
}

/// The identifiers of `Type`, `Type::member`, `function`, `function()`; nothing for paths, commands and values.
fn symbol_parts(text: &str) -> Vec<&str> {
    let text = text.trim_end_matches("()");
    let parts: Vec<&str> = text.split("::").collect();
    let is_name = |part: &&str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if parts.iter().all(is_name) { parts } else { Vec::new() }
}

#[test]
fn symbols_are_told_from_other_texts() {
    assert_eq!(symbol_parts("Shard::handle"), ["Shard", "handle"]);
    assert_eq!(symbol_parts("serve()"), ["serve"]);
    assert_eq!(symbol_parts("core/vsr"), Vec::<&str>::new());
    assert_eq!(symbol_parts("cargo run"), Vec::<&str>::new());
}

#[test]
fn links_between_documents_lead_somewhere() {
    for document in documents() {
        let folder = root().join(&document.path);
        let folder = folder.parent().map(std::path::Path::to_owned).unwrap_or_default();
        for target in document.text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = target.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains("://") {
                continue;
            }
            assert!(folder.join(path).exists(), "{} links to {target}, which does not exist", document.path);
        }
    }
}
