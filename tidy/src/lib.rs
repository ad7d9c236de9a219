//! What the tests of this package read: the files of the workspace, as text.
//!
//! The tests hold what reviewers would otherwise have to remember: which crate may use which, what the state machines may
//! not touch, that documents name things that exist. This crate knows no other crate of the workspace.

use std::path::{Path, PathBuf};

/// Folders that hold nothing of ours.
const SKIPPED: &[&str] = &["target", ".git", "data", "data-dev", "node_modules"];

/// Root of the workspace.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// A file of the workspace.
#[derive(Debug)]
pub struct SourceFile {
    /// Path from the root, with slashes.
    pub path: String,
    /// Content.
    pub text: String,
}

impl SourceFile {
    /// The part of the path behind the last point.
    pub fn extension(&self) -> &str {
        self.path.rsplit_once('.').map_or("", |(_, extension)| extension)
    }
}

/// All text files below `folder` (a path from the root; empty for all), in the order of their paths.
///
/// # Panics
/// When a folder cannot be read.
pub fn files(folder: &str) -> Vec<SourceFile> {
    let mut files = Vec::new();
    collect(&root(), &root().join(folder), &mut files);
    files.sort_by(|one: &SourceFile, other: &SourceFile| one.path.cmp(&other.path));
    files
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<SourceFile>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("read {}: {error}", folder.display()));
    for entry in entries {
        let path = entry.unwrap_or_else(|error| panic!("read {}: {error}", folder.display())).path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                collect(root, &path, files);
            }
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            let path = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            files.push(SourceFile { path, text });
        }
    }
}

/// One file by its path from the root.
///
/// # Panics
/// When it cannot be read.
pub fn read(path: &str) -> String {
    let full = root().join(path);
    std::fs::read_to_string(&full).unwrap_or_else(|error| panic!("read {}: {error}", full.display()))
}

/// The product code of a Rust file with its line numbers: without comment lines, and without what follows
/// `#[cfg(test)]`, since tests stand last.
pub fn product_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .take_while(|(_, line)| line.trim() != "#[cfg(test)]")
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Texts between single backticks in Markdown, outside of fenced blocks.
pub fn backticked(markdown: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut fenced = false;
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if !fenced {
            found.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    found
}

/// Lines of the fenced blocks with this language in Markdown.
pub fn fenced_lines<'a>(markdown: &'a str, language: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    let mut inside = None;
    for line in markdown.lines() {
        match (inside, line.trim_start().strip_prefix("```")) {
            (None, Some(name)) => inside = Some(name.trim()),
            (Some(_), Some(_)) => inside = None,
            (Some(name), None) if name == language => found.push(line),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn product_lines_leave_out_comments_and_tests() {
        let text = "use a;\n// use b;\n    /// doc\nfn c() {}\n#[cfg(test)]\nmod tests;\n";
        assert_eq!(product_lines(text).collect::<Vec<_>>(), [(1, "use a;"), (4, "fn c() {}")]);
    }

    #[test]
    fn markdown_is_taken_apart() {
        let text = "see `a/b` and `C`\n```sh\nrun `x`\n```\n```rust\nlet y;\n```\n`d`\n";
        assert_eq!(backticked(text), ["a/b", "C", "d"]);
        assert_eq!(fenced_lines(text, "sh"), ["run `x`"]);
    }

    #[test]
    fn files_are_found_with_paths_from_the_root() {
        let files = files("tidy");
        assert!(files.iter().any(|file| file.path == "tidy/src/lib.rs" && file.extension() == "rs"));
    }
}
