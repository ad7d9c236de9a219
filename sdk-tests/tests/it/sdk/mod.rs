//! The official Rust SDK, every test over TCP and over HTTP where HTTP has the operation.

mod concurrency;
mod high_level;
mod messages;
mod offsets;
mod partitions;
mod poll;
mod session;
mod streams;
mod system;
mod topics;
