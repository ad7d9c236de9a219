//! What the metadata state machine promises, told from outside.

mod determinism;
mod driver;
mod options;
mod read_side;
mod sessions;
mod snapshots;
mod streams;
mod topics;
