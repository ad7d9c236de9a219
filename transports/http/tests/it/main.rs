//! The HTTP API in front of a real gateway and real shards, over loopback sockets.

mod accounts;
mod errors;
mod messages;
mod node;
mod resources;
