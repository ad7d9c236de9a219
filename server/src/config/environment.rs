//! The environment as a layer.

use super::problem::{Problem, nearest};
use super::raw::{RawConfig, Source};
use super::schema::{ENVIRONMENT_PREFIX, Privacy, SETTINGS, Setting};
use std::ffi::{OsStr, OsString};

/// Names the configuration file; read with the command line.
pub const CONFIG_VARIABLE: &str = "WHIPPET_CONFIG";

/// Variables that users of the protocol have in their scripts, and what they set.
const ALIASES: &[(&str, &str)] = &[("IGGY_ROOT_USERNAME", "root.username"), ("IGGY_ROOT_PASSWORD", "root.password")];

const ORIGIN: &str = "environment";

/// Sets what the variables set, and reports every one that is wrong.
pub(super) fn overlay(raw: &mut RawConfig, environment: &[(OsString, OsString)], problems: &mut Vec<Problem>) {
    for (name, value) in environment {
        let Some(name) = name.to_str() else { continue };
        if let Some((_, key)) = ALIASES.iter().find(|(alias, _)| *alias == name) {
            let setting = SETTINGS.iter().find(|setting| setting.key == *key);
            apply(raw, setting.expect("aliases name settings"), name, value, problems);
        } else if name.starts_with(ENVIRONMENT_PREFIX) && !is_of_an_orchestrator(name, value) {
            match SETTINGS.iter().find(|setting| setting.environment_name() == name) {
                Some(setting) => apply(raw, setting, name, value, problems),
                None if name == CONFIG_VARIABLE && !value.is_empty() => {}
                None if name == CONFIG_VARIABLE => problems.push(empty(name)),
                None => {
                    let nearest = nearest(name, SETTINGS.iter().map(Setting::environment_name));
                    let sentence = format!("it sets nothing that this version knows; did you mean {nearest}?");
                    problems.push(Problem::new(name, ORIGIN, sentence));
                }
            }
        }
    }
}

fn empty(name: &str) -> Problem {
    Problem::new(name, ORIGIN, "it is set but empty; give it a value or unset it")
}

fn apply(raw: &mut RawConfig, setting: &Setting, name: &str, value: &OsStr, problems: &mut Vec<Problem>) {
    if value.is_empty() {
        problems.push(empty(name));
        return;
    }
    let read = value.to_str().and_then(|text| setting.kind.read_text(text));
    let Some(read) = read else {
        let found = match (setting.privacy, value.to_str()) {
            (Privacy::Secret, _) => "a value that is kept secret".to_owned(),
            (_, None) => "a value that is not UTF-8".to_owned(),
            (_, Some(text)) => format!("`{}`", text.chars().take(64).collect::<String>()),
        };
        let sentence = format!("expected {}, found {found}", setting.kind.expected());
        problems.push(Problem::new(name, ORIGIN, sentence));
        return;
    };
    let before = raw.entry(setting.key);
    if let Source::Environment(other) = &before.source
        && before.value != read
    {
        problems.push(Problem::new(name, ORIGIN, format!("it contradicts {other}; unset one of them")));
        return;
    }
    raw.set(setting.key, read, Source::Environment(name.to_owned()));
}

/// Variables that Kubernetes and container links put into each process for a service whose name begins with `whippet`.
/// They tell addresses and set nothing here: without this, a service of that name would keep the server from starting.
fn is_of_an_orchestrator(name: &str, value: &OsStr) -> bool {
    let is_link =
        value.to_str().is_some_and(|value| ["tcp://", "udp://", "sctp://"].iter().any(|p| value.starts_with(p)));
    if name.ends_with("_PORT") && is_link || name.ends_with("_SERVICE_HOST") || name.contains("_SERVICE_PORT") {
        return true;
    }
    // …_PORT_8090_TCP, …_PORT_8090_TCP_ADDR and the like.
    name.match_indices("_PORT_").any(|(at, port)| {
        let (digits, rest) = name[at + port.len()..].split_once('_').unwrap_or_default();
        let protocol = rest.split('_').next().unwrap_or_default();
        !digits.is_empty()
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && ["TCP", "UDP", "SCTP"].contains(&protocol)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::raw::Inputs;

    fn load(variables: &[(&str, &str)]) -> Result<RawConfig, Vec<String>> {
        let environment = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        RawConfig::load(&Inputs { environment, ..Inputs::default() })
            .map_err(|refused| refused.0.iter().map(ToString::to_string).collect())
    }

    #[track_caller]
    fn refuses(variables: &[(&str, &str)], expected: &[&str]) {
        assert_eq!(load(variables).map(|_| ()).unwrap_err(), expected);
    }

    #[test]
    fn every_setting_has_a_variable() {
        for entry in RawConfig::defaults().entries() {
            let name = entry.setting.environment_name();
            let text = match entry.setting.kind.read_literal(&entry.setting.default) {
                Ok(crate::config::kind::Value::List(items)) => items.join(","),
                _ => match entry.setting.default {
                    super::super::kind::Literal::Switch(on) => on.to_string(),
                    super::super::kind::Literal::Number(number) => number.to_string(),
                    super::super::kind::Literal::Text("") => continue,
                    super::super::kind::Literal::Text(text) => text.to_owned(),
                    super::super::kind::Literal::List(_) => unreachable!("read above"),
                },
            };
            let raw = load(&[(&name, &text)]).unwrap_or_else(|problems| panic!("{name}: {problems:?}"));
            assert_eq!(raw.entry(entry.setting.key).source, Source::Environment(name));
            assert_eq!(raw.entry(entry.setting.key).value, entry.value);
        }
    }

    #[test]
    fn foreign_variables_are_none_of_our_business() {
        let raw = load(&[("PATH", "/bin"), ("IGGY_USERNAME", "x"), ("WHIPPETS", "2"), ("WHIPPET_CONFIG", "a.toml")]);
        assert!(raw.expect("good").entries().iter().all(|entry| entry.source == Source::Default));
    }

    #[test]
    fn unknown_and_empty_variables_are_refused() {
        refuses(
            &[("WHIPPET_TCP_ADRESS", "127.0.0.1:1"), ("WHIPPET_DATA_DIR", ""), ("WHIPPET_CONFIG", "")],
            &[
                "WHIPPET_TCP_ADRESS (environment): it sets nothing that this version knows; did you mean WHIPPET_TCP_ADDRESS?",
                "WHIPPET_DATA_DIR (environment): it is set but empty; give it a value or unset it",
                "WHIPPET_CONFIG (environment): it is set but empty; give it a value or unset it",
            ],
        );
        refuses(
            &[("WHIPPET_TCP_PORT", "8090")],
            &[
                "WHIPPET_TCP_PORT (environment): it sets nothing that this version knows; did you mean WHIPPET_TCP_ADDRESS?",
            ],
        );
    }

    #[test]
    fn wrong_values_are_refused_and_secrets_not_repeated() {
        refuses(
            &[("WHIPPET_TCP_ADDRESS", "8090"), ("IGGY_ROOT_PASSWORD", &"p".repeat(101))],
            &[
                "WHIPPET_TCP_ADDRESS (environment): expected an IP address and a port, such as `127.0.0.1:8090`, found `8090`",
                "IGGY_ROOT_PASSWORD (environment): expected a text of at most 100 bytes, found a value that is kept secret",
            ],
        );
    }

    #[test]
    fn both_names_of_the_root_user_work_and_must_agree() {
        let raw = load(&[("IGGY_ROOT_USERNAME", "admin"), ("WHIPPET_ROOT_PASSWORD", "secret")]).expect("good");
        assert_eq!((raw.text("root.username"), raw.text("root.password")), ("admin", "secret"));
        assert!(load(&[("IGGY_ROOT_USERNAME", "admin"), ("WHIPPET_ROOT_USERNAME", "admin")]).is_ok());
        refuses(
            &[("IGGY_ROOT_USERNAME", "admin"), ("WHIPPET_ROOT_USERNAME", "other")],
            &["WHIPPET_ROOT_USERNAME (environment): it contradicts IGGY_ROOT_USERNAME; unset one of them"],
        );
    }

    #[test]
    fn variables_of_an_orchestrator_are_passed_over() {
        let variables = [
            ("WHIPPET_SERVICE_HOST", "10.0.0.1"),
            ("WHIPPET_SERVICE_PORT", "8090"),
            ("WHIPPET_SERVICE_PORT_HTTP", "3000"),
            ("WHIPPET_PORT", "tcp://10.0.0.1:8090"),
            ("WHIPPET_TCP_PORT", "tcp://10.0.0.1:8090"),
            ("WHIPPET_PORT_8090_TCP", "tcp://10.0.0.1:8090"),
            ("WHIPPET_0_PORT_8090_TCP_ADDR", "10.0.0.1"),
            ("WHIPPET_PORT_8090_TCP_PROTO", "tcp"),
        ];
        assert!(load(&variables).is_ok(), "{:?}", load(&variables).map(|_| ()));
        assert!(load(&[("WHIPPET_PORT_X_TCP", "1")]).is_err());
    }
}
