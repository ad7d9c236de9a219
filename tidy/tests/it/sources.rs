//! Size and contents of source files.

use whippet_tidy::{SourceFile, files, product_lines};

/// Longest source file, in lines.
const LINES_MAX: usize = 800;

/// Longer files, and why each is better in one piece.
const LONGER: &[(&str, &str)] = &[];

/// Names that hold anything and therefore say nothing.
const EMPTY_NAMES: &[&str] = &["common", "helper", "helpers", "impls", "misc", "util", "utils"];

fn sources() -> Vec<SourceFile> {
    files("")
        .into_iter()
        .filter(|file| ["rs", "toml", "sh", "md", "yml"].contains(&file.extension()) || file.path == ".ci/run")
        .collect()
}

#[test]
fn files_fit_a_head() {
    for file in sources().iter().filter(|file| file.extension() == "rs") {
        let lines = file.text.lines().count();
        let excused = LONGER.iter().any(|(path, _)| *path == file.path);
        assert!(lines <= LINES_MAX || excused, "{} has {lines} lines, more than {LINES_MAX}", file.path);
        assert!(lines > LINES_MAX || !excused, "{} is short again; take it off the list", file.path);
    }
}

#[test]
fn nothing_is_left_for_later() {
    // Put together here, so that this file is not its own finding.
    let words = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("to", "do!("),
        concat!("unimple", "mented!("),
        concat!("#[ig", "nore"),
    ];
    for file in sources() {
        for (index, line) in file.text.lines().enumerate() {
            for word in words {
                assert!(!line.contains(word), "{}:{}: {word}\n{line}", file.path, index + 1);
            }
        }
    }
}

#[test]
fn product_code_does_not_debug() {
    for file in sources().iter().filter(|file| file.path.contains("/src/") && file.extension() == "rs") {
        for (number, line) in product_lines(&file.text) {
            assert!(!line.contains(concat!("db", "g!(")), "{}:{number}: {line}", file.path);
        }
    }
}

#[test]
fn files_are_named_by_what_is_in_them() {
    for file in sources().iter().filter(|file| file.extension() == "rs") {
        let words = file.path.trim_end_matches(".rs").split(['/', '_', '-']);
        for word in words {
            assert!(!EMPTY_NAMES.contains(&word), "{}: `{word}` says nothing", file.path);
        }
    }
}

#[test]
fn unsafe_code_states_its_contract() {
    for file in sources().iter().filter(|file| file.extension() == "rs") {
        let lines: Vec<&str> = file.text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if !code.contains(concat!("unsafe", " {")) && !code.contains(concat!("unsafe", " impl")) {
                continue;
            }
            let stated = lines[index.saturating_sub(8)..=index].iter().any(|line| line.contains("SAFETY:"));
            assert!(stated, "{}:{}: unsafe code without a `SAFETY:` comment", file.path, index + 1);
        }
    }
}
