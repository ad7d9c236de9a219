//! Bounds the memory of poll replies that wait for slow readers.
//!
//! Message bytes of a reply count from the read until the transport has dropped the last of them. The more is held, the less
//! a new poll may ask for: nobody is refused, everybody gets smaller replies, and at the bound a poll still gets
//! [`ALLOWANCE_MIN`] bytes or one message, so that consumers go on while a few connections do not read.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use whippet_protocol::limits::POLL_REPLY_MAX;

/// Message bytes that all replies together hold before polls get the least allowance.
const HELD_MAX: usize = 512 * 1024 * 1024;
/// What a poll may always ask for.
const ALLOWANCE_MIN: usize = 64 * 1024;

/// Counts the bytes of replies under way.
#[derive(Debug, Default)]
pub(crate) struct HeldReplies {
    bytes: Arc<AtomicUsize>,
}

impl HeldReplies {
    /// Bytes that the next poll may ask for: a quarter of what is free, within its own bounds.
    pub(crate) fn allowance(&self) -> u32 {
        let free = HELD_MAX.saturating_sub(self.bytes.load(Ordering::Relaxed));
        // At most the largest frame, so it fits.
        (free / 4).clamp(ALLOWANCE_MIN, POLL_REPLY_MAX) as u32
    }

    /// Counts `chunk` until its last clone is dropped.
    pub(crate) fn hold(&self, chunk: Bytes) -> Bytes {
        self.bytes.fetch_add(chunk.len(), Ordering::Relaxed);
        Bytes::from_owner(Held { chunk, bytes: Arc::clone(&self.bytes) })
    }
}

struct Held {
    chunk: Bytes,
    bytes: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.chunk
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.bytes.fetch_sub(self.chunk.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_until_the_last_clone_is_dropped() {
        let held = HeldReplies::default();
        let chunk = held.hold(Bytes::from_static(b"0123456789"));
        assert_eq!(&chunk[..], b"0123456789");
        let part = chunk.slice(2..4);
        drop(chunk);
        assert_eq!(held.bytes.load(Ordering::Relaxed), 10);
        assert_eq!(&part[..], b"23");
        drop(part);
        assert_eq!(held.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn allowance_shrinks_with_what_is_held_and_comes_back() {
        let held = HeldReplies::default();
        assert_eq!(held.allowance() as usize, POLL_REPLY_MAX);
        let half = held.hold(Bytes::from(vec![0; HELD_MAX / 2]));
        assert_eq!(held.allowance() as usize, POLL_REPLY_MAX);
        let quarter = held.hold(Bytes::from(vec![0; HELD_MAX / 4]));
        assert_eq!(held.allowance() as usize, HELD_MAX / 16);
        let rest = held.hold(Bytes::from(vec![0; HELD_MAX / 2]));
        assert_eq!(held.allowance() as usize, ALLOWANCE_MIN);
        drop((half, quarter, rest));
        assert_eq!(held.allowance() as usize, POLL_REPLY_MAX);
    }
}
