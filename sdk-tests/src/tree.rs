//! Data directories as trees of files: copy, list, compare, find.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Copies the tree `from` to `to`, keeping holes in files as holes; `to` must not exist.
///
/// # Panics
/// When the copy fails.
pub fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp")
        .args(["--archive", "--sparse=always", "--reflink=auto"])
        .arg(from)
        .arg(to)
        .status()
        .unwrap_or_else(|error| panic!("run cp: {error}"));
    assert!(status.success(), "copy {} to {}: {status}", from.display(), to.display());
}

/// All files below `root`, relative to it, in order, with their lengths in bytes.
///
/// # Panics
/// When a folder cannot be listed.
#[must_use]
pub fn files(root: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("list {}: {error}", folder.display()));
        for entry in entries {
            let entry = entry.unwrap_or_else(|error| panic!("list {}: {error}", folder.display()));
            let kind = entry.file_type().unwrap_or_else(|error| panic!("look at {}: {error}", entry.path().display()));
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                let length = entry.metadata().map(|metadata| metadata.len()).unwrap_or_default();
                let relative = entry.path().strip_prefix(root).map(Path::to_owned).unwrap_or_default();
                found.insert(relative, length);
            }
        }
    }
    found
}

/// Files below `root` that contain `needle`, relative to it, in order.
///
/// # Panics
/// When a file cannot be read.
#[must_use]
pub fn files_with(root: &Path, needle: &[u8]) -> Vec<PathBuf> {
    assert!(!needle.is_empty(), "every file contains the empty text");
    let mut holders = Vec::new();
    for (relative, _) in files(root) {
        if find(&read(&root.join(&relative)), needle).is_some() {
            holders.push(relative);
        }
    }
    holders
}

/// Position of the first `needle` in `haystack`.
#[must_use]
pub fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let mut from = 0;
    while let Some(step) = haystack[from..].iter().position(|&byte| byte == first) {
        let at = from + step;
        if haystack[at..].starts_with(needle) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

/// The range of positions at which two versions of a file differ, `start..end`; bytes beyond the shorter one count as
/// different unless they are zero. `None` when they are the same.
#[must_use]
pub fn difference(before: &[u8], after: &[u8]) -> Option<std::ops::Range<usize>> {
    let byte = |bytes: &[u8], at: usize| bytes.get(at).copied().unwrap_or_default();
    let differs = |&at: &usize| byte(before, at) != byte(after, at);
    let length = before.len().max(after.len());
    let start = (0..length).find(differs)?;
    let last = (start..length).rev().find(differs)?;
    Some(start..last + 1)
}

/// The content of a file.
///
/// # Panics
/// When it cannot be read.
#[must_use]
pub fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
}

/// Cuts a file to `length` bytes.
///
/// # Panics
/// When it cannot be changed.
pub fn truncate(path: &Path, length: u64) {
    let file = std::fs::OpenOptions::new().write(true).open(path);
    let result = file.and_then(|file| file.set_len(length));
    result.unwrap_or_else(|error| panic!("cut {} to {length} bytes: {error}", path.display()));
}

/// Inverts the bits `mask` of the byte at `position`.
///
/// # Panics
/// When the file cannot be changed or is shorter.
pub fn flip(path: &Path, position: usize, mask: u8) {
    let mut content = read(path);
    content[position] ^= mask;
    std::fs::write(path, content).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_ignore_trailing_zeros_only() {
        assert_eq!(difference(b"abc", b"abc\0\0"), None);
        assert_eq!(difference(b"abc", b"aXc"), Some(1..2));
        assert_eq!(difference(b"ab\0\0\0", b"abZ\0Y"), Some(2..5));
    }

    #[test]
    fn trees_are_listed_copied_and_searched() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let root = folder.path().join("a");
        std::fs::create_dir_all(root.join("x/y")).expect("folders");
        std::fs::write(root.join("x/y/f"), b"..needle..").expect("file");
        std::fs::write(root.join("g"), b"nothing").expect("file");
        let copied = folder.path().join("b");
        copy(&root, &copied);
        assert_eq!(files(&copied), files(&root));
        assert_eq!(files_with(&copied, b"needle"), vec![PathBuf::from("x/y/f")]);
        flip(&copied.join("g"), 0, 1);
        truncate(&copied.join("x/y/f"), 3);
        assert_eq!(read(&copied.join("g")), b"oothing");
        assert_eq!(read(&copied.join("x/y/f")), b"..n");
        assert_eq!(find(b"aab", b"ab"), Some(1));
    }
}
