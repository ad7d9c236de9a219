//! Finding batches in a log.

use crate::log::Log;
use crate::segment::Segment;

/// A place to start reading: the batch that is looked for lies at or behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// First op of the segment.
    pub segment: u64,
    /// Position of a record in it.
    pub position: u64,
    /// Where the segment's records end.
    pub end: u64,
}

impl Log {
    /// Where to look for the message at `offset`, or for the first one after it; `None` when nothing is retained.
    pub fn find_offset(&self, offset: u64) -> Option<Found> {
        let live = || self.segments().iter().filter(|segment| !segment.dead && !segment.is_empty());
        let segment =
            live().take_while(|segment| segment.sums.first_offset <= offset).last().or_else(|| live().next())?;
        Some(found(segment, segment.index.at_offset(offset).map_or(0, |entry| entry.position)))
    }

    /// Where to look for the first batch that was appended at or after `timestamp`; `None` when nothing is retained.
    pub fn find_timestamp(&self, timestamp: u64) -> Option<Found> {
        let mut live = self.segments().iter().filter(|segment| !segment.dead && !segment.is_empty());
        let segment = live.find(|segment| segment.sums.max_timestamp >= timestamp)?;
        Some(found(segment, segment.index.before_timestamp(timestamp).map_or(0, |entry| entry.position)))
    }

    /// Where to look for the record of an op, also in a segment that is purged and not yet gone; `None` when it is not here.
    pub fn find_op(&self, op: u64) -> Option<Found> {
        let holds = |segment: &&Segment| segment.sums.first_op <= op && op <= segment.sums.last_op;
        let segment = self.segments().iter().find(holds)?;
        Some(found(segment, segment.index.at_op(op).map_or(0, |entry| entry.position)))
    }

    /// The segment behind this one.
    pub fn after_segment(&self, first_op: u64) -> Option<Found> {
        let segment = self
            .segments()
            .iter()
            .find(|segment| !segment.dead && segment.sums.first_op > first_op && !segment.is_empty())?;
        Some(found(segment, 0))
    }

    /// A position in the segment at which, as the index knows, only messages behind `offset` start; its end when the index
    /// knows none.
    pub fn position_after(&self, first_op: u64, offset: u64) -> Option<u64> {
        let segment = self.segments().iter().find(|segment| !segment.dead && segment.sums.first_op == first_op)?;
        Some(segment.index.position_after(offset).unwrap_or(segment.sums.length))
    }

    /// The segment with this first op as it is now.
    pub fn segment_end(&self, first_op: u64) -> Option<u64> {
        self.segments()
            .iter()
            .find(|segment| !segment.dead && segment.sums.first_op == first_op)
            .map(|segment| segment.sums.length)
    }
}

fn found(segment: &Segment, position: u64) -> Found {
    Found { segment: segment.sums.first_op, position, end: segment.sums.length }
}
