//! The sparse index of one segment: from an offset or a time to a byte position at or before it.
//!
//! An index is derived data: it is rebuilt from the log whenever it is missing or does not check out, and is never
//! evidence about the log. On disk (`*.index`, written once when a segment is sealed):
//!
//! ```text
//!  0 checksum u128   XXH3-128 of everything behind it
//! 16 magic u32       24 first_op u64      48 next_offset u64      72 bytes u64
//! 20 version u32     32 last_op u64       56 length u64           80 max_timestamp u64
//!                    40 first_offset u64  64 messages u64         88 entries u32, reserved u32
//! 96 entries: op u64, offset u64, timestamp u64, position u64
//! ```

use bytes::{BufMut, Bytes, BytesMut};
use twox_hash::XxHash3_128;

const MAGIC: u32 = 0x7864_6957;
const VERSION: u32 = 2;
const HEADER: usize = 96;
const ENTRY: usize = 32;

/// Bytes of log between two entries of an active segment.
pub const STRIDE_ACTIVE: u64 = 64 * 1024;
/// Bytes of log between two entries of a sealed segment.
pub const STRIDE_SEALED: u64 = 256 * 1024;

/// A batch that the index knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// Op of its record.
    pub op: u64,
    /// Offset of the batch's first message.
    pub offset: u64,
    /// Append time of the batch.
    pub timestamp: u64,
    /// Position of its record in the segment.
    pub position: u64,
}

/// Sums over the batches of one segment, kept with its index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentSums {
    /// First op of the segment.
    pub first_op: u64,
    /// Last op of the segment; `first_op - 1` while it is empty.
    pub last_op: u64,
    /// Offset that the first message at or after the start of the segment has.
    pub first_offset: u64,
    /// Offset after the last message.
    pub next_offset: u64,
    /// Bytes of records.
    pub length: u64,
    /// Messages.
    pub messages: u64,
    /// Bytes of batches, without record headers.
    pub bytes: u64,
    /// Timestamp of the last record.
    pub max_timestamp: u64,
}

/// Entries in ascending order of offset, timestamp and position alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SparseIndex {
    entries: Vec<IndexEntry>,
}

impl SparseIndex {
    /// Notes a batch if it lies at least `stride` bytes after the last one that is known.
    pub fn note(&mut self, entry: IndexEntry, stride: u64) {
        if self.entries.last().is_none_or(|last| entry.position >= last.position + stride) {
            self.entries.push(entry);
        }
    }

    /// The last known batch at or before `offset`.
    pub fn at_offset(&self, offset: u64) -> Option<IndexEntry> {
        let after = self.entries.partition_point(|entry| entry.offset <= offset);
        after.checked_sub(1).map(|at| self.entries[at])
    }

    /// The last known batch that was appended strictly before `timestamp`.
    pub fn before_timestamp(&self, timestamp: u64) -> Option<IndexEntry> {
        let after = self.entries.partition_point(|entry| entry.timestamp < timestamp);
        after.checked_sub(1).map(|at| self.entries[at])
    }

    /// The last known batch whose record is `op` or one before it.
    pub fn at_op(&self, op: u64) -> Option<IndexEntry> {
        let after = self.entries.partition_point(|entry| entry.op <= op);
        after.checked_sub(1).map(|at| self.entries[at])
    }

    /// Forgets everything at and behind `position`.
    pub fn cut(&mut self, position: u64) {
        self.entries.retain(|entry| entry.position < position);
    }

    /// Position of the first known batch that starts after `offset`.
    pub fn position_after(&self, offset: u64) -> Option<u64> {
        let after = self.entries.partition_point(|entry| entry.offset <= offset);
        self.entries.get(after).map(|entry| entry.position)
    }

    /// The index with entries at least `stride` bytes apart.
    #[must_use]
    pub fn coarsened(&self, stride: u64) -> SparseIndex {
        let mut coarse = SparseIndex::default();
        for entry in &self.entries {
            coarse.note(*entry, stride);
        }
        coarse.entries.shrink_to_fit();
        coarse
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The content of the index file.
    pub fn encode(&self, sums: &SegmentSums) -> Bytes {
        let mut out = BytesMut::with_capacity(HEADER + ENTRY * self.entries.len());
        out.put_u128_le(0);
        out.put_u32_le(MAGIC);
        out.put_u32_le(VERSION);
        for number in [
            sums.first_op,
            sums.last_op,
            sums.first_offset,
            sums.next_offset,
            sums.length,
            sums.messages,
            sums.bytes,
            sums.max_timestamp,
        ] {
            out.put_u64_le(number);
        }
        out.put_u32_le(self.entries.len() as u32);
        out.put_u32_le(0);
        for entry in &self.entries {
            out.put_u64_le(entry.op);
            out.put_u64_le(entry.offset);
            out.put_u64_le(entry.timestamp);
            out.put_u64_le(entry.position);
        }
        let checksum = XxHash3_128::oneshot(&out[16..]);
        out[..16].copy_from_slice(&checksum.to_le_bytes());
        out.freeze()
    }

    /// Reads an index file; `None` when it does not check out in every respect.
    pub fn decode(bytes: &[u8]) -> Option<(SegmentSums, SparseIndex)> {
        let u64_at = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let u32_at = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let checksum = u128::from_le_bytes(bytes.get(..16)?.try_into().ok()?);
        if checksum != XxHash3_128::oneshot(&bytes[16..]) || u32_at(16)? != MAGIC || u32_at(20)? != VERSION {
            return None;
        }
        let count = u32_at(88)? as usize;
        if bytes.len() != HEADER + ENTRY * count {
            return None;
        }
        let sums = SegmentSums {
            first_op: u64_at(24)?,
            last_op: u64_at(32)?,
            first_offset: u64_at(40)?,
            next_offset: u64_at(48)?,
            length: u64_at(56)?,
            messages: u64_at(64)?,
            bytes: u64_at(72)?,
            max_timestamp: u64_at(80)?,
        };
        let mut entries = Vec::with_capacity(count);
        for at in (HEADER..bytes.len()).step_by(ENTRY) {
            entries.push(IndexEntry {
                op: u64_at(at)?,
                offset: u64_at(at + 8)?,
                timestamp: u64_at(at + 16)?,
                position: u64_at(at + 24)?,
            });
        }
        let ascending =
            entries.windows(2).all(|pair| pair[0].offset < pair[1].offset && pair[0].position < pair[1].position);
        (ascending && entries.iter().all(|entry| entry.position < sums.length))
            .then_some((sums, SparseIndex { entries }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> SparseIndex {
        let mut index = SparseIndex::default();
        for n in 0..10u64 {
            index.note(IndexEntry { op: n + 1, offset: n * 10, timestamp: 1000 + n, position: n * 100 }, 200);
        }
        index
    }

    #[test]
    fn keeps_entries_a_stride_apart_and_finds_the_one_before() {
        let index = index();
        assert_eq!(index.len(), 5);
        assert_eq!(
            (index.at_op(2).map(|e| e.op), index.at_op(3).map(|e| e.op), index.at_op(0)),
            (Some(1), Some(3), None)
        );
        assert_eq!(index.at_offset(39).map(|e| e.position), Some(200));
        assert_eq!(index.at_offset(40).map(|e| e.position), Some(400));
        assert_eq!(index.position_after(40), Some(600));
        assert_eq!(index.position_after(80), None);
        assert_eq!(index.before_timestamp(1002).map(|e| e.position), Some(0));
        assert_eq!(index.before_timestamp(1000), None);
        assert_eq!(index.coarsened(400).len(), 3);
    }

    #[test]
    fn file_round_trip_and_every_flipped_bit_is_seen() {
        let sums = SegmentSums {
            first_op: 1,
            last_op: 10,
            first_offset: 0,
            next_offset: 100,
            length: 1000,
            messages: 100,
            bytes: 900,
            max_timestamp: 1009,
        };
        let bytes = index().encode(&sums);
        assert_eq!(SparseIndex::decode(&bytes), Some((sums, index())));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SparseIndex::decode(&damaged), None, "bit {bit}");
        }
        for cut in 0..bytes.len() {
            assert_eq!(SparseIndex::decode(&bytes[..cut]), None);
        }
    }
}
