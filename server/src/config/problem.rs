//! What is wrong with a configuration, in sentences for the operator.

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
pub(crate) fn nearest(unknown: &str, known: impl Iterator<Item = String>) -> String {
    let last = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    let distance = |name: &String| {
        // The right key in the wrong table is nearer than any key that merely looks alike.
        let other_key = last(name) != last(unknown);
        (other_key, strsim::damerau_levenshtein(name, unknown))
    };
    known.min_by_key(distance).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::schema::{SETTINGS, Setting};

    #[test]
    fn the_nearest_name_is_found() {
        let key = |unknown| nearest(unknown, SETTINGS.iter().map(|setting| setting.key.to_owned()));
        assert_eq!(key("tcp.adress"), "tcp.address");
        assert_eq!(key("segment_size"), "topic.segment_size");
        assert_eq!(key("htpp.max_request_size"), "http.max_request_size");
        let variable = nearest("WHIPPET_DATADIR", SETTINGS.iter().map(Setting::environment_name));
        assert_eq!(variable, "WHIPPET_DATA_DIR");
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
