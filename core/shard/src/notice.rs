//! What a shard wants a person to know. The host turns notices into log lines and counters.

use whippet_vsr::GroupId;

/// How much attention a notice asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Part of normal life.
    Info,
    /// Unexpected, but the server goes on by itself.
    Warning,
    /// A person must act.
    Error,
}

/// Something worth a log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// How much attention it asks for.
    pub severity: Severity,
    /// Which group it concerns.
    pub group: GroupId,
    /// What happened and what to do, for people.
    pub text: String,
}

impl Notice {
    /// A notice about a group.
    pub fn new(severity: Severity, group: GroupId, text: impl Into<String>) -> Notice {
        Notice { severity, group, text: text.into() }
    }
}
