//! Hosts shards: one pinned thread each, with a tokio `current_thread` runtime, a disk engine, a bounded mailbox, and the
//! connections that were handed to it.
//!
//! Thin on purpose: what a shard decides, it decides in `whippet-shard`; here effects become disk operations, channel sends
//! and log lines. Shard 0's thread is the single writer of the metadata that every thread reads without locks.

mod clock;
mod host;
mod mail;
mod readiness;
mod runtime;

pub use clock::now;
pub use mail::{CallError, RuntimeHandle, ThreadSpawner};
pub use runtime::{Runtime, RuntimeSettings, StartError};
