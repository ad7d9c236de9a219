//! A value for every setting, and where it comes from, before the values are checked against each other.
//!
//! Layers, each over the one before: the default, `--dev`, the configuration file, the environment.

use super::kind::Value;
use super::problem::{Problem, Refused};
use super::schema::{SETTINGS, Setting};
use super::{environment, file};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nobody set it.
    Default,
    /// The switch `--dev`.
    Dev,
    /// The configuration file.
    File {
        /// The file as it was named.
        path: PathBuf,
        /// Line, from 1 on.
        line: usize,
    },
    /// An environment variable.
    Environment(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => f.write_str("default"),
            Source::Dev => f.write_str("--dev"),
            Source::File { path, line } => write!(f, "{}, line {line}", path.display()),
            Source::Environment(name) => write!(f, "environment variable {name}"),
        }
    }
}

/// One setting with its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The setting.
    pub setting: &'static Setting,
    /// Its value, of its kind and within its range.
    pub value: Value,
    /// Where that was set.
    pub source: Source,
}

impl Entry {
    /// Whether somebody set it to something. An empty text counts as not set.
    pub fn is_set(&self) -> bool {
        self.source != Source::Default && self.value != Value::Text(String::new()) && self.value != Value::Address(None)
    }
}

/// What a configuration is read from.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// Whether `--dev` was given.
    pub dev: bool,
    /// The configuration file, if one was named.
    pub file: Option<PathBuf>,
    /// The environment of the process.
    pub environment: Vec<(OsString, OsString)>,
}

/// A value for every setting, in the order of the table of settings.
#[derive(Clone, Debug)]
pub struct RawConfig {
    entries: Vec<Entry>,
}

/// User name and password of the root user under `--dev`.
const DEV_ROOT: &str = "iggy";

impl RawConfig {
    /// The defaults.
    pub fn defaults() -> Self {
        let entry = |setting: &'static Setting| Entry {
            setting,
            value: setting.kind.read_literal(&setting.default).expect("a test checks every default"),
            source: Source::Default,
        };
        Self { entries: SETTINGS.iter().map(entry).collect() }
    }

    /// Reads all layers.
    ///
    /// # Errors
    /// Everything that is wrong: an unreadable file, unknown names, wrong types, values out of range.
    pub fn load(inputs: &Inputs) -> Result<Self, Refused> {
        let mut raw = Self::defaults();
        let mut problems = Vec::new();
        if let Some(path) = &inputs.file {
            file::overlay(&mut raw, path, &mut problems);
        }
        environment::overlay(&mut raw, &inputs.environment, &mut problems);
        if inputs.dev {
            raw.overlay_dev();
        }
        if problems.is_empty() { Ok(raw) } else { Err(Refused(problems)) }
    }

    /// The root user of `--dev`, unless there is another one: half of one and half of the other would be neither.
    fn overlay_dev(&mut self) {
        let root = ["root.username", "root.password"];
        if root.iter().any(|key| self.entry(key).is_set()) {
            return;
        }
        for key in root {
            self.set(key, Value::Text(DEV_ROOT.to_owned()), Source::Dev);
        }
    }

    /// All entries.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry of the setting `key`.
    ///
    /// # Panics
    /// When there is no such setting.
    pub fn entry(&self, key: &str) -> &Entry {
        self.entries.iter().find(|entry| entry.setting.key == key).unwrap_or_else(|| panic!("{key} is no setting"))
    }

    pub(super) fn set(&mut self, key: &str, value: Value, source: Source) {
        let entry = self.entries.iter_mut().find(|entry| entry.setting.key == key);
        let entry = entry.unwrap_or_else(|| panic!("{key} is no setting"));
        entry.value = value;
        entry.source = source;
    }

    pub(crate) fn problem(&self, key: &str, sentence: impl Into<String>) -> Problem {
        Problem::new(key, self.entry(key).source.to_string(), sentence)
    }

    /// The value of a [`super::kind::Kind::Switch`].
    pub(super) fn switch(&self, key: &str) -> bool {
        let Value::Switch(on) = self.entry(key).value else { panic!("{key} is no switch") };
        on
    }

    /// The value of a number, a size in bytes or a duration in microseconds.
    pub(super) fn number(&self, key: &str) -> u64 {
        let Value::Number(number) = self.entry(key).value else { panic!("{key} is no number") };
        number
    }

    /// The value of a text.
    pub(super) fn text(&self, key: &str) -> &str {
        let Value::Text(text) = &self.entry(key).value else { panic!("{key} is no text") };
        text
    }

    /// The value of an address.
    pub(super) fn address(&self, key: &str) -> Option<std::net::SocketAddr> {
        let Value::Address(address) = self.entry(key).value else { panic!("{key} is no address") };
        address
    }

    /// The value of a list.
    pub(super) fn list(&self, key: &str) -> &[String] {
        let Value::List(items) = &self.entry(key).value else { panic!("{key} is no list") };
        items
    }
}
