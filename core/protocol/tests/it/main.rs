//! The wire against the crate that the official clients encode and decode with.

mod batches;
mod bodies;
mod examples;
mod golden;
mod hostile;
mod recorded;
