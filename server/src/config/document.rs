//! Configurations as text: the effective one, the commented default file, the page of all settings.

use super::kind::{Kind, Value, size, span};
use super::raw::{Entry, RawConfig};
use super::schema::{Privacy, SETTINGS, Setting, TABLES};
use std::fmt::Write;

/// What stands in the place of a secret.
const MASK: &str = "…";
/// Longest comment line of the default file, in characters.
const COMMENT_WIDTH: usize = 110;

/// The effective configuration as TOML: each value with its source as a comment, secrets masked.
pub fn effective(raw: &RawConfig) -> String {
    let mut text = format!("# Effective configuration of whippet {}.\n", env!("CARGO_PKG_VERSION"));
    for (table, _) in TABLES {
        let lines: Vec<(String, String)> = raw
            .entries()
            .iter()
            .filter(|entry| entry.setting.table_and_key().0 == *table)
            .map(|entry| (assignment(entry), entry.source.to_string()))
            .collect();
        let width = lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or(0).min(50);
        if !table.is_empty() {
            let _ = write!(text, "\n[{table}]\n");
        }
        for (line, source) in lines {
            let _ = writeln!(text, "{line:width$}  # {source}");
        }
    }
    text
}

fn assignment(entry: &Entry) -> String {
    let masked = Value::Text(MASK.to_owned());
    let value = match entry.setting.privacy {
        Privacy::Secret if entry.is_set() => &masked,
        _ => &entry.value,
    };
    format!("{} = {}", entry.setting.table_and_key().1, toml_value(&entry.setting.kind, value))
}

/// A value as TOML has it.
fn toml_value(kind: &Kind, value: &Value) -> String {
    let text = |text: &str| toml::Value::String(text.to_owned()).to_string();
    match (kind, value) {
        (_, Value::Switch(on)) => on.to_string(),
        (Kind::Size { .. }, Value::Number(bytes)) => text(&size(*bytes)),
        (Kind::Duration { .. }, Value::Number(microseconds)) => text(&span(*microseconds)),
        (_, Value::Number(number)) => number.to_string(),
        (_, Value::Text(value)) => text(value),
        (_, Value::Address(address)) => text(&address.map(|address| address.to_string()).unwrap_or_default()),
        (_, Value::List(items)) => {
            let items: Vec<_> = items.iter().map(|item| text(item)).collect();
            format!("[{}]", items.join(", "))
        }
    }
}

fn default_of(setting: &Setting) -> String {
    let value = setting.kind.read_literal(&setting.default).expect("a test checks every default");
    toml_value(&setting.kind, &value)
}

/// The commented default configuration file.
pub fn default_file() -> String {
    let mut text = String::from(
        "# Every setting of Whippet with its default. Give it to the server with `whippet --config whippet.toml`.\n\
         #\n\
         # A setting can also come from an environment variable: WHIPPET_ and its path in upper case, joined by\n\
         # underscores, such as WHIPPET_TCP_ADDRESS. The environment wins over this file. `whippet --print-config`\n\
         # shows what holds, and where each value comes from.\n\
         #\n\
         # Sizes are numbers of bytes or texts such as \"64 MiB\" (1024-based) and \"2 MB\" (1000-based). Time spans have\n\
         # a unit: \"500ms\", \"90s\", \"1h 30m\". Settings marked \"cluster\" must be the same on all nodes of a cluster.\n",
    );
    for (table, title) in TABLES {
        let _ = write!(text, "\n# {title}.\n");
        if !table.is_empty() {
            let _ = writeln!(text, "[{table}]");
        }
        for setting in SETTINGS.iter().filter(|setting| setting.table_and_key().0 == *table) {
            text.push('\n');
            comment(&mut text, setting.what);
            comment(&mut text, setting.effect);
            comment(
                &mut text,
                &format!(
                    "Takes {}. {}, {}.",
                    setting.kind.expected(),
                    setting.environment_name(),
                    setting.scope.word()
                ),
            );
            let _ = writeln!(text, "{} = {}", setting.table_and_key().1, default_of(setting));
        }
    }
    text
}

fn comment(text: &mut String, sentences: &str) {
    let mut line = String::new();
    for word in sentences.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > COMMENT_WIDTH - 2 {
            let _ = writeln!(text, "# {line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        let _ = writeln!(text, "# {line}");
    }
}

/// The table of all settings in Markdown.
pub fn markdown_table() -> String {
    let mut text = String::from(
        "| setting | environment variable | default | takes | scope | what it is, and what another value changes |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    for setting in SETTINGS {
        let row = format!(
            "| `{}` | `{}` | `{}` | {} | {} | {} |",
            setting.key,
            setting.environment_name(),
            default_of(setting),
            setting.kind.expected().replace('|', "\\|"),
            setting.scope.word(),
            format!("{} {}", setting.what, setting.effect).trim_end().replace('|', "\\|"),
        );
        let _ = writeln!(text, "{row}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::config::raw::Inputs;

    #[test]
    fn the_effective_configuration_names_sources_and_masks_secrets() {
        let environment =
            [("WHIPPET_ROOT_USERNAME", "admin"), ("IGGY_ROOT_PASSWORD", "hunter2"), ("WHIPPET_DATA_DIR", "/d \"x\"")];
        let environment = environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let (_, raw) = Config::load(&Inputs { environment, ..Inputs::default() }).expect("good");
        let text = effective(&raw);
        assert!(text.contains("data_dir = '/d \"x\"'  # environment variable WHIPPET_DATA_DIR\n"), "{text}");
        assert!(
            text.contains("\n[root]\nusername = \"admin\"  # environment variable WHIPPET_ROOT_USERNAME\n"),
            "{text}"
        );
        assert!(text.contains("password = \"…\"      # environment variable IGGY_ROOT_PASSWORD\n"), "{text}");
        assert!(text.contains("max_request_size = \"2 MB\""), "{text}");
        assert!(text.contains("\nsecret = \"\"        # default\n"), "a secret that is not set shows as such: {text}");
        assert!(!text.contains("hunter2"));
    }

    #[test]
    fn the_effective_configuration_is_a_configuration_file() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("w.toml");
        std::fs::write(&path, effective(&RawConfig::defaults())).expect("write");
        let (_, raw) = Config::load(&Inputs { file: Some(path), ..Inputs::default() }).expect("good");
        for (entry, default) in raw.entries().iter().zip(RawConfig::defaults().entries()) {
            assert_eq!(entry.value, default.value, "{}", entry.setting.key);
        }
    }

    #[test]
    fn comments_are_wrapped_between_words() {
        let mut text = String::new();
        comment(&mut text, &"word ".repeat(40));
        assert_eq!(text.lines().count(), 2);
        assert!(text.lines().all(|line| line.len() <= COMMENT_WIDTH && line.starts_with("# word")), "{text}");
        assert_eq!(text.matches("word").count(), 40);
    }
}
