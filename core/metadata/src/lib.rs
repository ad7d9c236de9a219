//! The metadata state machine: streams, topics, partitions, users and client sessions of a cluster.
//!
//! A [`MetadataState`] is a value. Its only way forward is [`MetadataState::apply`]: one committed record of the metadata
//! log in, an outcome and the consequences for partition groups out. Equal states that apply equal records stay equal,
//! byte for byte of their snapshots; the time comes with the record. [`MetadataState::preflight`] asks beforehand whether
//! a request is new, a retry or not acceptable. [`read_side`] shows the state to other threads without locks.
//!
//! What this crate deliberately does not know: how records are replicated and stored, what a request looked like on the
//! wire, who is connected, what is in a partition, and the configuration of the node that it runs on.

mod apply;
pub mod client_table;
pub mod command;
mod free_ids;
pub mod options;
pub mod read_side;
pub mod snapshot;
pub mod state;
mod streams;
mod topics;

pub use apply::Applied;
pub use client_table::{Preflight, Refusal, SessionView};
pub use command::{Command, Done, Envelope, GroupChange, Outcome, PartitionGroup, PasswordHash};
pub use options::{TopicDefaults, TopicOptions, TopicOptionsPatch};
pub use read_side::{LogEntry, MetadataReader, MetadataWriter};
pub use snapshot::SnapshotError;
pub use state::{MetadataState, Partition, PartitionSettings, Stream, Topic, User};
