//! What is wrong with a configuration, in sentences for the operator.

use super::schema::SETTINGS;
use std::fmt;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The setting or variable that it is about; empty when it is about the whole file.
    pub name: String,
    /// Where that was written.
    pub origin: String,
    /// What is wrong and what to do.
    pub sentence: String,
}

impl Problem {
    pub(crate) fn new(name: impl Into<String>, origin: impl Into<String>, sentence: impl Into<String>) -> Self {
        Self { name: name.into(), origin: origin.into(), sentence: sentence.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name.as_str(), self.origin.as_str()) {
            ("", origin) => write!(f, "{origin}: {}", self.sentence),
            (name, "") => write!(f, "{name}: {}", self.sentence),
            (name, origin) => write!(f, "{name} ({origin}): {}", self.sentence),
        }
    }
}

/// All that is wrong with a configuration. A server is not started with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub Vec<Problem>);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration is not usable; nothing was started")?;
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for Refused {}

/// The known name that `unknown` was probably meant to be.
pub(crate) fn nearest(unknown: &str, known: impl Fn(&'static super::schema::Setting) -> String) -> String {
    let last = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    let distance = |name: &String| {
        // The right key in the wrong table is nearer than any key that merely looks alike.
        let same_key = last(name) == last(unknown);
        (!same_key, strsim::damerau_levenshtein(name, unknown))
    };
    SETTINGS.iter().map(known).min_by_key(distance).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::schema::Setting;

    #[test]
    fn the_nearest_name_is_found() {
        let key = |setting: &'static Setting| setting.key.to_owned();
        assert_eq!(nearest("tcp.adress", key), "tcp.address");
        assert_eq!(nearest("segment_size", key), "topic.segment_size");
        assert_eq!(nearest("htpp.max_request_size", key), "http.max_request_size");
        assert_eq!(nearest("WHIPPET_DATADIR", Setting::environment_name), "WHIPPET_DATA_DIR");
    }

    #[test]
    fn a_problem_names_what_it_is_about_and_where_it_was_written() {
        let problem = Problem::new("tcp.address", "a.toml, line 3", "no");
        assert_eq!(problem.to_string(), "tcp.address (a.toml, line 3): no");
        let refused = Refused(vec![problem, Problem::new("", "a.toml", "unreadable")]);
        assert_eq!(
            refused.to_string(),
            "the configuration is not usable; nothing was started\n  tcp.address (a.toml, line 3): no\n  a.toml: unreadable"
        );
    }
}
