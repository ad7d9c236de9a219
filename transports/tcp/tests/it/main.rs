//! A whole node in this process, asked over real sockets.

mod client;
mod deadlines;
mod framing;
mod messages;
mod node;
mod stopping;
