//! A whole node in this process, asked by frames and by typed operations, without sockets.

mod callers;
mod commands;
mod messages;
mod metadata;
mod node;
mod sessions;
mod system;
