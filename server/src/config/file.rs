//! The configuration file as a layer.

use super::problem::{Problem, nearest};
use super::raw::{RawConfig, Source};
use super::schema::{self, Privacy, SETTINGS, Setting, TABLES};
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Largest file that is read, in bytes; the commented default has about 10 KB.
const FILE_SIZE_MAX: u64 = 1 << 20;

/// Sets what the file at `path` sets, and reports everything in it that is wrong.
pub(super) fn overlay(raw: &mut RawConfig, path: &Path, problems: &mut Vec<Problem>) {
    let text = match read(path) {
        Ok(text) => text,
        Err(sentence) => {
            problems.push(Problem::new("", path.display().to_string(), sentence));
            return;
        }
    };
    let (table, errors) = DeTable::parse_recoverable(&text);
    if !errors.is_empty() {
        problems.extend(errors.iter().map(|error| {
            let line = error.span().map_or(String::new(), |span| format!(", line {}", line_of(&text, span.start)));
            Problem::new("", format!("{}{line}", path.display()), format!("this is no TOML: {}", error.message()))
        }));
        return;
    }
    let mut found = Vec::new();
    Walk { raw, path, text: &text, problems: &mut found }.table("", table.get_ref());
    // In the order in which a person reads the file; the table is in alphabetical order.
    found.sort_by_key(|(line, _)| *line);
    problems.extend(found.into_iter().map(|(_, problem)| problem));
}

fn read(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("the configuration file cannot be read: {error}");
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if metadata.len() > FILE_SIZE_MAX {
        return Err(format!(
            "this is no configuration file: it has {} bytes, more than {FILE_SIZE_MAX}",
            metadata.len()
        ));
    }
    std::fs::read_to_string(path).map_err(unreadable)
}

fn line_of(text: &str, position: usize) -> usize {
    text.as_bytes().iter().take(position).filter(|&&byte| byte == b'\n').count() + 1
}

struct Walk<'a> {
    raw: &'a mut RawConfig,
    path: &'a Path,
    text: &'a str,
    problems: &'a mut Vec<(usize, Problem)>,
}

impl Walk<'_> {
    fn table(&mut self, prefix: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let name =
                if prefix.is_empty() { key.get_ref().to_string() } else { format!("{prefix}.{}", key.get_ref()) };
            self.item(&name, key, value);
        }
    }

    fn item(&mut self, name: &str, key: &Spanned<std::borrow::Cow<'_, str>>, value: &Spanned<DeValue<'_>>) {
        let line = line_of(self.text, key.span().start);
        let is_table = TABLES.iter().any(|(table, _)| *table == name);
        // A point inside a quoted key is not the point between table and key.
        let setting = if key.get_ref().contains('.') { None } else { schema::find(name) };
        match (setting, value.get_ref()) {
            (None, DeValue::Table(table)) if is_table => self.table(name, table),
            (None, _) if is_table => self.report(name, line, format!("this is a table of settings; write [{name}]")),
            (None, DeValue::Table(_)) => {
                let nearest = nearest(name, TABLES.iter().map(|(table, _)| (*table).to_owned()));
                self.report(name, line, format!("there is no such table of settings; did you mean [{nearest}]?"));
            }
            (None, _) => {
                let nearest = nearest(name, SETTINGS.iter().map(|setting| setting.key.to_owned()));
                self.report(name, line, format!("there is no such setting; did you mean {nearest}?"));
            }
            (Some(setting), found) => match setting.kind.read_toml(found) {
                Some(value) => {
                    let source = Source::File { path: self.path.to_owned(), line };
                    self.raw.set(setting.key, value, source);
                }
                None => {
                    let expected = setting.kind.expected();
                    self.report(name, line, format!("expected {expected}, found {}", describe(setting, found)));
                }
            },
        }
    }

    fn report(&mut self, name: &str, line: usize, sentence: String) {
        self.problems.push((line, Problem::new(name, format!("{}, line {line}", self.path.display()), sentence)));
    }
}

/// A value as an error message shows it.
fn describe(setting: &Setting, value: &DeValue<'_>) -> String {
    match value {
        _ if setting.privacy == Privacy::Secret => format!("a value that is kept secret (type: {})", value.type_str()),
        DeValue::String(text) => format!("the text `{}`", text.chars().take(64).collect::<String>()),
        DeValue::Integer(number) => format!("`{number}`"),
        DeValue::Float(number) => format!("`{number}`"),
        DeValue::Boolean(on) => format!("`{on}`"),
        other => format!("a value of type {}", other.type_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::kind::Value;
    use crate::config::raw::Inputs;

    /// Loads a file with this content; the problems are shown without its path.
    fn load(content: &str) -> Result<RawConfig, Vec<String>> {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("w.toml");
        std::fs::write(&path, content).expect("write");
        let prefix = format!("{}/", folder.path().display());
        RawConfig::load(&Inputs { file: Some(path), ..Inputs::default() })
            .map_err(|refused| refused.0.iter().map(|problem| problem.to_string().replace(&prefix, "")).collect())
    }

    #[track_caller]
    fn refuses(content: &str, expected: &[&str]) {
        assert_eq!(load(content).map(|_| ()).unwrap_err(), expected);
    }

    #[test]
    fn values_and_lines_are_taken() {
        let raw = load("data_dir = \"/d\"\n\n[http]\naddress = \"127.0.0.1:1\"\njwt.expiry = \"2h\"\n[http.cors]\nenabled = false\n")
            .expect("a good file");
        assert_eq!(raw.text("data_dir"), "/d");
        assert_eq!(raw.number("http.jwt.expiry"), 7_200_000_000);
        assert!(!raw.switch("http.cors.enabled"));
        let Source::File { line, .. } = raw.entry("http.cors.enabled").source else { panic!("from the file") };
        assert_eq!(line, 7);
        assert_eq!(raw.entry("tcp.address").source, Source::Default);
        assert_eq!(raw.entry("tcp.address").value, Value::Address(Some("127.0.0.1:8090".parse().expect("an address"))));
    }

    #[test]
    fn an_empty_file_leaves_the_defaults() {
        assert!(load("").expect("good").entries().iter().all(|entry| entry.source == Source::Default));
    }

    #[test]
    fn unknown_names_are_refused_with_the_nearest_known_one() {
        refuses(
            "[tcp]\nadress = \"127.0.0.1:1\"\n",
            &["tcp.adress (w.toml, line 2): there is no such setting; did you mean tcp.address?"],
        );
        refuses("[htpp]\n", &["htpp (w.toml, line 1): there is no such table of settings; did you mean [http]?"]);
        refuses(
            "\"tcp.address\" = 1\n",
            &["tcp.address (w.toml, line 1): there is no such setting; did you mean tcp.address?"],
        );
        refuses("tcp = 1\n", &["tcp (w.toml, line 1): this is a table of settings; write [tcp]"]);
    }

    #[test]
    fn wrong_types_and_ranges_are_refused_all_at_once() {
        refuses(
            "[storage]\nsync_interval_ms = 5000\nforce_persisted = \"yes\"\n[log]\nformat = \"xml\"\n",
            &[
                "storage.sync_interval_ms (w.toml, line 2): expected a whole number from 1 to 1000 (ms), found `5000`",
                "storage.force_persisted (w.toml, line 3): expected `true` or `false`, found the text `yes`",
                "log.format (w.toml, line 5): expected one of text, json, found the text `xml`",
            ],
        );
    }

    #[test]
    fn a_secret_is_not_repeated() {
        refuses(
            "root.password = 271828\n",
            &[
                "root.password (w.toml, line 1): expected a text of at most 100 bytes, found a value that is kept secret (type: integer)",
            ],
        );
    }

    #[test]
    fn what_is_no_toml_is_refused_with_its_line() {
        let problems = load("[tcp]\naddress = \n").map(|_| ()).unwrap_err();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with("w.toml, line 2: this is no TOML: "), "{problems:?}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let inputs = Inputs { file: Some("/nonexistent/w.toml".into()), ..Inputs::default() };
        let refused = RawConfig::load(&inputs).map(|_| ()).unwrap_err();
        assert_eq!(
            refused.0[0].to_string(),
            "/nonexistent/w.toml: the configuration file cannot be read: No such file or directory (os error 2)"
        );
    }
}
