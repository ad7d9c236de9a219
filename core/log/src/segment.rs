//! One segment of a log as the process knows it.

use crate::index::{IndexEntry, STRIDE_ACTIVE, STRIDE_SEALED, SegmentSums, SparseIndex};
use whippet_vsr::EntryHeader;

/// A part of a log that lies in one file.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) sums: SegmentSums,
    pub(crate) index: SparseIndex,
    /// Bytes of the file that are known to have room behind them.
    pub(crate) allocated: u64,
    /// Nothing is appended any more.
    pub(crate) sealed: bool,
    /// Emptied by a purge: not served, and removed once a snapshot that knows of the purge is durable.
    pub(crate) dead: bool,
    /// The op that emptied it; an older snapshot covers its records and does not know that they are gone.
    pub(crate) dead_by: u64,
}

impl Segment {
    pub(crate) fn new(first_op: u64, next_offset: u64, allocated: u64) -> Segment {
        let sums = SegmentSums {
            first_op,
            last_op: first_op - 1,
            first_offset: next_offset,
            next_offset,
            ..SegmentSums::default()
        };
        Segment { sums, index: SparseIndex::default(), allocated, sealed: false, dead: false, dead_by: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sums.length == 0
    }

    /// Accounts for a record at the end.
    pub(crate) fn push(&mut self, header: &EntryHeader, batch_kind: u8) {
        assert_eq!(header.op.0, self.sums.last_op + 1, "records of a segment are consecutive");
        assert_eq!(header.position, self.sums.length, "records of a segment leave no gap");
        self.sums.last_op = header.op.0;
        self.sums.max_timestamp = header.timestamp;
        if header.kind == batch_kind {
            let op = header.op.0;
            let entry =
                IndexEntry { op, offset: header.base_offset, timestamp: header.timestamp, position: header.position };
            self.index.note(entry, STRIDE_ACTIVE);
            self.sums.next_offset = header.base_offset + u64::from(header.count);
            self.sums.messages += u64::from(header.count);
            self.sums.bytes += u64::from(header.length) - whippet_vsr::HEADER_SIZE as u64;
        }
        self.sums.length += u64::from(header.length);
    }

    /// Takes the last records back: `removed` are their headers, `timestamp` and `next_offset` those of the record before.
    pub(crate) fn take_back(&mut self, removed: &[EntryHeader], batch_kind: u8, timestamp: u64, next_offset: u64) {
        for header in removed.iter().rev() {
            assert_eq!((header.op.0, header.segment), (self.sums.last_op, self.sums.first_op));
            self.sums.last_op -= 1;
            self.sums.length = header.position;
            if header.kind == batch_kind {
                self.sums.messages -= u64::from(header.count);
                self.sums.bytes -= u64::from(header.length) - whippet_vsr::HEADER_SIZE as u64;
            }
        }
        self.sums.max_timestamp = if self.is_empty() { 0 } else { timestamp };
        self.sums.next_offset = next_offset;
        self.index.cut(self.sums.length);
        self.sealed = false;
    }

    pub(crate) fn seal(&mut self) {
        self.sealed = true;
        self.index = self.index.coarsened(STRIDE_SEALED);
    }
}
