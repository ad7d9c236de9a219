//! The lines that a server process writes, and which of them a test did not expect.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Collects lines from the output streams of one process.
///
/// Cloning shares the lines. A line counts as *alarming* when its level is WARN or ERROR, or when it reports a panic.
#[derive(Clone, Default)]
pub struct LogWatch {
    lines: Arc<Mutex<Vec<String>>>,
}

impl LogWatch {
    /// Starts a thread that collects every line of `source` until its end, and hands each one to `on_line` first.
    pub fn follow(
        &self,
        source: impl Read + Send + 'static,
        mut on_line: impl FnMut(&str) + Send + 'static,
    ) -> JoinHandle<()> {
        let lines = Arc::clone(&self.lines);
        std::thread::spawn(move || {
            let mut reader = BufReader::new(source);
            let mut raw = Vec::new();
            loop {
                raw.clear();
                match reader.read_until(b'\n', &mut raw) {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
                let line = without_colours(String::from_utf8_lossy(&raw).trim_end());
                on_line(&line);
                lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        })
    }

    /// Everything collected so far, oldest first.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lines collected after the first `count` ones.
    #[must_use]
    pub fn lines_after(&self, count: usize) -> Vec<String> {
        self.lines().split_off(count.min(self.len()))
    }

    /// Number of lines collected so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether nothing was collected yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Alarming lines that contain none of the `allowed` texts.
    #[must_use]
    pub fn unexpected(&self, allowed: &[String]) -> Vec<String> {
        let mut lines = self.lines();
        lines.retain(|line| is_alarming(line) && !allowed.iter().any(|text| line.contains(text.as_str())));
        lines
    }
}

/// Whether a log line carries level WARN or ERROR, or reports a panic.
#[must_use]
pub fn is_alarming(line: &str) -> bool {
    let is_level = |word: &str| matches!(word.trim_end_matches(':'), "WARN" | "ERROR");
    line.contains("panicked at") || line.split_whitespace().take(4).any(is_level)
}

/// `line` without terminal colour sequences.
fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            characters.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(character);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_found_near_the_start_only() {
        assert!(is_alarming("2026-01-01T00:00:00Z  WARN whippet: index rebuilt"));
        assert!(is_alarming("ERROR: cannot start"));
        assert!(is_alarming("thread 'shard-0' panicked at core/x.rs:1:1:"));
        assert!(!is_alarming("2026-01-01T00:00:00Z  INFO whippet: level of the log is set to WARN"));
        assert!(!is_alarming("listening        tcp  127.0.0.1:8090"));
    }

    #[test]
    fn colours_are_removed() {
        assert_eq!(without_colours("\u{1b}[33m WARN\u{1b}[0m x"), " WARN x");
    }

    #[test]
    fn unexpected_leaves_out_what_was_allowed() {
        let watch = LogWatch::default();
        let text: &[u8] = b"a WARN index rebuilt\na ERROR disk full\na INFO fine\n";
        watch.follow(text, |_| {}).join().expect("the reader does not panic");
        assert_eq!(watch.len(), 3);
        assert_eq!(watch.lines_after(2), vec!["a INFO fine"]);
        assert_eq!(watch.unexpected(&["rebuilt".to_owned()]), vec!["a ERROR disk full"]);
    }
}
