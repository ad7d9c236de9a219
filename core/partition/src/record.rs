//! Kinds of records in a partition's log, and the bodies of the small ones.

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

/// A message batch, exactly as the wire has it. Its body hash is the batch checksum, which covers the checksums of all its
/// messages and so every byte.
pub const BATCH: u8 = 1;
/// A stored consumer offset, see [`Control::StoreOffset`].
pub const STORE_OFFSET: u8 = 2;
/// A forgotten consumer offset.
pub const DELETE_OFFSET: u8 = 3;
/// The partition was emptied.
pub const PURGE: u8 = 4;
/// The partition may have lost messages when its machine stopped.
pub const LOSS: u8 = 5;

/// Whose position in a partition is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Consumer {
    /// A plain consumer: its number, or the hash of its name.
    Single(u32),
    /// A consumer group: its id.
    Group(u32),
}

/// A record that is no batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// A consumer has handled everything up to `offset`.
    StoreOffset {
        /// Who.
        consumer: Consumer,
        /// Offset of the last handled message.
        offset: u64,
        /// Leave a greater stored offset as it is (auto-commit).
        forward_only: bool,
    },
    /// A consumer's offset is forgotten.
    DeleteOffset {
        /// Whose.
        consumer: Consumer,
    },
    /// Everything before is gone, numbering starts at 0 again, stored offsets are forgotten.
    Purge {
        /// Op of the metadata command; repeating it does nothing.
        intent: u64,
    },
    /// Messages may be missing before this place; numbering goes on at `next_offset`, behind all that was ever given out.
    Loss {
        /// Offset of the next message.
        next_offset: u64,
    },
}

const CONSUMER_BYTES: usize = 5;

fn put_consumer(out: &mut Vec<u8>, consumer: Consumer) {
    let (kind, id) = match consumer {
        Consumer::Single(id) => (1, id),
        Consumer::Group(id) => (2, id),
    };
    out.push(kind);
    out.extend_from_slice(&id.to_le_bytes());
}

fn consumer_at(bytes: &[u8]) -> Option<Consumer> {
    let id = u32::from_le_bytes(bytes.get(1..CONSUMER_BYTES)?.try_into().ok()?);
    match bytes[0] {
        1 => Some(Consumer::Single(id)),
        2 => Some(Consumer::Group(id)),
        _ => None,
    }
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

impl Control {
    /// Kind of the record.
    pub fn kind(&self) -> u8 {
        match self {
            Control::StoreOffset { .. } => STORE_OFFSET,
            Control::DeleteOffset { .. } => DELETE_OFFSET,
            Control::Purge { .. } => PURGE,
            Control::Loss { .. } => LOSS,
        }
    }

    /// Body of the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16);
        match *self {
            Control::StoreOffset { consumer, offset, forward_only } => {
                put_consumer(&mut out, consumer);
                out.extend_from_slice(&offset.to_le_bytes());
                out.push(u8::from(forward_only));
            }
            Control::DeleteOffset { consumer } => put_consumer(&mut out, consumer),
            Control::Purge { intent: number } | Control::Loss { next_offset: number } => {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        out
    }

    /// Reads a body; `None` when it is none of that kind.
    pub fn decode(kind: u8, body: &[u8]) -> Option<Control> {
        match (kind, body.len()) {
            (STORE_OFFSET, 14) if body[13] <= 1 => Some(Control::StoreOffset {
                consumer: consumer_at(body)?,
                offset: u64_at(body, CONSUMER_BYTES)?,
                forward_only: body[13] == 1,
            }),
            (DELETE_OFFSET, CONSUMER_BYTES) => Some(Control::DeleteOffset { consumer: consumer_at(body)? }),
            (PURGE, 8) => Some(Control::Purge { intent: u64_at(body, 0)? }),
            (LOSS, 8) => Some(Control::Loss { next_offset: u64_at(body, 0)? }),
            _ => None,
        }
    }
}

/// Body hash of a record that is no batch.
pub fn control_hash(body: &[u8]) -> u64 {
    XxHash3_64::oneshot(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_round_trip() {
        let controls = [
            Control::StoreOffset { consumer: Consumer::Single(7), offset: u64::MAX, forward_only: true },
            Control::StoreOffset { consumer: Consumer::Group(0), offset: 0, forward_only: false },
            Control::DeleteOffset { consumer: Consumer::Group(u32::MAX) },
            Control::Purge { intent: 9 },
            Control::Loss { next_offset: 65_536 },
        ];
        for control in controls {
            let body = control.encode();
            assert_eq!(Control::decode(control.kind(), &body), Some(control));
            for cut in 0..body.len() {
                assert_eq!(Control::decode(control.kind(), &body[..cut]), None);
            }
        }
        assert_eq!(Control::decode(STORE_OFFSET, &[3; 14]), None);
        assert_eq!(Control::decode(99, &[0; 8]), None);
    }
}
