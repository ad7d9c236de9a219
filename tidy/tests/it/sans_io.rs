//! The state machines see no clock, no randomness, no thread, no lock, no file, no socket and no `async`, and iterate in a
//! defined order: what a simulator breaks is what runs in production.

use super::arrows::SANS_IO;
use whippet_tidy::{files, product_lines};

/// What may not occur in their product code.
const BANNED: &[(&str, &str)] = &[
    ("tokio", "a host runs the state machine"),
    ("async ", "completions are events"),
    (".await", "completions are events"),
    ("std::time", "the time comes with the event"),
    ("Instant::now", "the time comes with the event"),
    ("SystemTime", "the time comes with the event"),
    ("std::fs", "disk operations are effects"),
    ("std::net", "frames are effects"),
    ("std::env", "settings are arguments"),
    ("std::process", "settings are arguments"),
    ("std::thread", "a shard is one value on one thread"),
    ("thread::spawn", "a shard is one value on one thread"),
    ("thread_local!", "state belongs to the value"),
    ("Mutex", "state has one owner"),
    ("RwLock", "state has one owner"),
    ("Atomic", "state has one owner"),
    ("RefCell", "state has one owner"),
    ("HashMap", "iteration order must be defined: take a BTreeMap or a Vec"),
    ("HashSet", "iteration order must be defined: take a BTreeSet or a Vec"),
    ("RandomState", "randomness comes with the event"),
    ("rand::", "randomness comes with the event"),
    ("println!", "effects are returned"),
    ("tracing", "what happened is returned; a host logs it"),
];

/// Files that are not part of a state machine although they lie beside one, and why.
const EXCEPTIONS: &[(&str, &str)] =
    &[("core/metadata/src/read_side.rs", "every thread reads committed metadata through it, without locks")];

#[test]
fn state_machines_touch_nothing_outside() {
    for name in SANS_IO {
        for file in files(&format!("core/{name}/src")) {
            let is_test = file.path.ends_with("_tests.rs") || file.path.ends_with("/tests.rs");
            if file.extension() != "rs" || is_test || EXCEPTIONS.iter().any(|(path, _)| *path == file.path) {
                continue;
            }
            for (number, line) in product_lines(&file.text) {
                for (word, instead) in BANNED {
                    assert!(
                        !line.contains(word),
                        "{}:{number}: `{word}` is not for state machines: {instead}\n{line}",
                        file.path
                    );
                }
            }
        }
    }
}

#[test]
fn exceptions_exist_and_need_to_be_exceptions() {
    for (path, _) in EXCEPTIONS {
        let text = whippet_tidy::read(path);
        let needed = product_lines(&text).any(|(_, line)| BANNED.iter().any(|(word, _)| line.contains(word)));
        assert!(needed, "{path} keeps to the rules; take it off the list");
    }
}
