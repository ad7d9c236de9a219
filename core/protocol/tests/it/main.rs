//! The wire against the crate that the official clients encode and decode with.

mod batches;
mod golden;
mod hostile;
