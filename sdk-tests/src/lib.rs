//! Black-box harness for the `whippet` binary: starts it, talks to it, kills it, damages its files, and looks at what is left.
//!
//! What it knows: the command line, the start-up lines on standard output, the wire protocol 0.11.0 (through its own small
//! [`client::RawClient`], encoded by the public protocol crate and by hand), and that a data directory is a tree of files.
//! What it deliberately does not know: any crate of the server, the layout of any file on disk, and the official SDK (the
//! integration tests use that one). Code shared with the server would share its mistakes.
//!
//! The harness panics where a test must fail (the server did not start, logged an unexpected warning, died by itself) and
//! returns errors where a test wants to look at them (a refused request, a refused start).

pub mod batch;
pub mod binary;
pub mod body;
pub mod client;
pub mod frame;
pub mod http;
pub mod log_watch;
pub mod payload;
pub mod process;
pub mod random;
pub mod server;
pub mod tmpfs;
pub mod tree;

pub use client::{Failure, RawClient};
pub use server::{Server, ServerOptions, StartFailure};
