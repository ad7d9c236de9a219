//! The state machine of one partition: what its records mean, what it remembers, and how it is read.
//!
//! Knows batches by the functions of `whippet-protocol` and the log by `whippet-log`; knows no stream, topic or name, no
//! session, no socket and no clock. Replication and the order of things are the shard's.

pub mod dedup;
pub mod poll;
pub mod record;
mod state;

pub use record::{Consumer, Control};
pub use state::{OffsetRefused, PartitionState, STORED_OFFSETS_MAX, body_is_intact};
