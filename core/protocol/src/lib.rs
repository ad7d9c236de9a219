//! The client-facing wire of protocol 0.11: frames, commands, error codes, batches.
//!
//! Thin on purpose. Cold-path requests and replies are the types of the crate `iggy_binary_protocol`; what every produced
//! or polled byte passes through (frame headers, send metadata, batch checks, stamping and slicing) is ours, works on
//! borrowed bytes and allocates nothing. This crate does no I/O and knows no session, no group and no socket.

pub mod batch;
pub mod error_code;
pub mod frame;
pub mod identifier;
pub mod limits;
pub mod login;
pub mod operation;
pub mod send;
pub mod wire;

pub use error_code::ErrorCode;
pub use identifier::{Identifier, Name};
pub use operation::Command;
