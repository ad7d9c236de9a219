//! TCP: sockets and framing in front of the gateway. Knows frames by their size, and nothing of what is in them.
//!
//! One task accepts and hands sockets to the shards' threads in turn; each connection then lives on its thread. A frame is
//! read into one buffer that holds its header too, and that buffer is what the gateway gets: message bytes are not copied
//! again on their way to the disk (but for up to 4 KiB that are read before the size of a frame is known). Memory follows the bytes that have come, not the bytes that were announced.

mod answers;
mod connection;
mod frames;
mod listener;

pub use listener::{ServeError, TcpServer, TcpSettings, serve};
