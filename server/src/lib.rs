//! The program `whippet`: command line, configuration, start-up lines, signals, and the order of starting and stopping.
//!
//! `whippet` serves; `whippet bench` measures a server; `whippet simulate` runs clusters from a seed. This crate puts the
//! others together and decides nothing that they decide: it knows no message, no group and no frame beyond what the
//! benchmark sends.

pub mod announce;
pub mod bench;
pub mod cli;
pub mod config;
pub mod logging;
pub mod serve;
pub mod signals;
pub mod simulate;
