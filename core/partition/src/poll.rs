//! Reads messages out of a partition's log.
//!
//! A [`Poll`] is a small state machine: [`Poll::step`] says which bytes it needs, [`Poll::handle_bytes`] takes them. It reads
//! committed records only, checks every batch that it returns, and returns slices of what was read: message bytes are not
//! copied.

use crate::record::BATCH;
use bytes::Bytes;
use whippet_log::{Found, Log};
use whippet_protocol::batch;
use whippet_storage::FileName;
use whippet_vsr::{EntryHeader, HEADER_SIZE, OpNumber};

/// Bytes that are read at once, unless one record is larger.
const READ_MAX: u64 = 4 * 1024 * 1024;
/// Bytes that are read at first when it is not known how many are needed.
const READ_GUESS: u64 = 128 * 1024;

/// Where a poll starts, after stored positions were looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At this offset, or the first one after it.
    Offset(u64),
    /// At the first batch that was appended at or after this time.
    Timestamp(u64),
}

/// Up to where the log is committed and may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimit {
    /// Last op that was applied.
    pub op: OpNumber,
    /// First op of the segment in which it lies.
    pub segment: u64,
    /// Where its record ends in that segment.
    pub end: u64,
}

/// What a poll needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// These bytes, for [`Poll::handle_bytes`].
    Read {
        /// Where from.
        file: FileName,
        /// First byte.
        position: u64,
        /// How many.
        length: u32,
    },
    /// Nothing: it is done.
    Done,
}

/// A place in the log right after (or within) the last batch that a poll returned: where a reader that goes on will start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The next offset.
    pub offset: u64,
    /// Segment of the record that holds it, or of the one before.
    pub segment: u64,
    /// Position of a record at or before it.
    pub position: u64,
}

/// The log has bytes that are not what was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file} is damaged at byte {position}: {reason}")]
pub struct ReadDamage {
    /// The file.
    pub file: FileName,
    /// Where.
    pub position: u64,
    /// What is wrong.
    pub reason: String,
}

/// A poll under way.
#[derive(Debug)]
pub struct Poll {
    start: Start,
    count_left: u32,
    bytes_left: u64,
    limit: ReadLimit,
    at: Option<Found>,
    chunks: Vec<Bytes>,
    count: u32,
    last_offset: Option<u64>,
    hint: Option<Hint>,
    reading: Option<(u64, u64, u32)>,
}

impl Poll {
    /// A poll of at most `count` messages and about `max_bytes` bytes; one message is returned whatever its size.
    pub fn new(log: &Log, start: Start, count: u32, max_bytes: u64, limit: ReadLimit, hints: &[Hint]) -> Poll {
        let at = match start {
            _ if count == 0 => None,
            Start::Offset(offset) => match hints.iter().find(|hint| hint.offset == offset) {
                Some(hint) => log
                    .segment_end(hint.segment)
                    .map(|end| Found { segment: hint.segment, position: hint.position, end })
                    .or_else(|| log.find_offset(offset)),
                None => log.find_offset(offset),
            },
            Start::Timestamp(timestamp) => log.find_timestamp(timestamp),
        };
        Poll {
            start,
            count_left: count,
            bytes_left: max_bytes,
            limit,
            at,
            chunks: Vec::new(),
            count: 0,
            last_offset: None,
            hint: None,
            reading: None,
        }
    }

    /// The segment that it is at; none when it is done.
    pub fn segment(&self) -> Option<u64> {
        self.at.map(|at| at.segment)
    }

    /// Ends it with what was found so far.
    pub fn stop(&mut self) {
        self.at = None;
    }

    /// What is needed next.
    pub fn step(&mut self, log: &Log) -> Step {
        loop {
            let Some(at) = self.at.filter(|_| self.count_left > 0) else { return Step::Done };
            let end = match at.segment.cmp(&self.limit.segment) {
                std::cmp::Ordering::Less => at.end,
                std::cmp::Ordering::Equal => self.limit.end,
                std::cmp::Ordering::Greater => return Step::Done,
            };
            if at.position >= end {
                self.at = log.after_segment(at.segment);
                continue;
            }
            let left = end - at.position;
            let wanted = match self.reading.take() {
                // A record was cut off: `reading` says how long it is.
                Some((segment, position, length)) if segment == at.segment && position == at.position => {
                    u64::from(length)
                }
                _ => self.guess(log, at),
            };
            let length = wanted.clamp(HEADER_SIZE as u64, u64::from(u32::MAX)).min(left);
            return Step::Read { file: log.segment_file(at.segment), position: at.position, length: length as u32 };
        }
    }

    fn guess(&self, log: &Log, at: Found) -> u64 {
        let from = match (self.last_offset, self.start) {
            (Some(last), _) => last + 1,
            (None, Start::Offset(offset)) => offset,
            (None, Start::Timestamp(_)) => return READ_GUESS,
        };
        let last = from.saturating_add(u64::from(self.count_left) - 1);
        let to = log.position_after(at.segment, last).unwrap_or(at.end);
        to.saturating_sub(at.position).min(READ_MAX).min(self.bytes_left.saturating_add(READ_GUESS))
    }

    /// The bytes that [`Poll::step`] asked for.
    ///
    /// # Errors
    /// [`ReadDamage`] when they are not what was written.
    pub fn handle_bytes(&mut self, log: &Log, bytes: &Bytes) -> Result<(), ReadDamage> {
        let Some(mut at) = self.at else { return Ok(()) };
        let mut position = 0usize;
        let damage = |at: Found, reason: String| ReadDamage {
            file: log.segment_file(at.segment),
            position: at.position,
            reason,
        };
        while self.count_left > 0 {
            let rest = &bytes[position..];
            if rest.len() < HEADER_SIZE {
                self.reading = Some((at.segment, at.position, HEADER_SIZE as u32 + READ_GUESS as u32));
                break;
            }
            let header = EntryHeader::decode(rest).map_err(|error| damage(at, error.to_string()))?;
            if header.position != at.position || header.segment != at.segment {
                return Err(damage(at, format!("op {} was written for another place", header.op)));
            }
            if header.op > self.limit.op {
                self.at = None;
                return Ok(());
            }
            let length = header.length as usize;
            if header.kind != BATCH || !self.wants(&header) {
                at.position += length as u64;
                position += length;
                if position >= bytes.len() {
                    break;
                }
                continue;
            }
            if rest.len() < length {
                self.reading = Some((at.segment, at.position, header.length));
                break;
            }
            let body = bytes.slice(position + HEADER_SIZE..position + length);
            let whole = self.take(&header, &body).map_err(|reason| damage(at, reason))?;
            if !whole {
                self.hint =
                    self.last_offset.map(|last| Hint { offset: last + 1, segment: at.segment, position: at.position });
                self.count_left = 0;
                break;
            }
            at.position += length as u64;
            position += length;
            self.hint =
                self.last_offset.map(|last| Hint { offset: last + 1, segment: at.segment, position: at.position });
            if position == bytes.len() {
                break;
            }
        }
        self.at = Some(at);
        Ok(())
    }

    fn wants(&self, header: &EntryHeader) -> bool {
        match self.start {
            Start::Offset(offset) => header.base_offset + u64::from(header.count) > offset,
            Start::Timestamp(timestamp) => header.timestamp >= timestamp,
        }
    }

    /// Takes what is wanted of a batch; whether that was all of it from the first wanted message on.
    fn take(&mut self, header: &EntryHeader, body: &Bytes) -> Result<bool, String> {
        let info = batch::check_stored(body).map_err(|code| format!("the batch of op {}: {code}", header.op))?;
        if info.checksum != header.body_hash {
            return Err(format!("the batch of op {} is not the one that was written", header.op));
        }
        let first = match self.start {
            Start::Offset(offset) => offset.max(header.base_offset),
            Start::Timestamp(_) => header.base_offset,
        };
        let limit = usize::try_from(self.bytes_left).unwrap_or(usize::MAX);
        let slice = match batch::slice(body, first, self.count_left, limit) {
            Some(slice) => slice,
            None if self.count > 0 => return Ok(false),
            // Not even one message fits: return one all the same, or the reader would never get past it.
            None => match batch::slice(body, first, 1, usize::MAX) {
                Some(slice) => slice,
                None => return Err(format!("the batch of op {} lacks offset {first}", header.op)),
            },
        };
        let mut taken = slice.frames.len() as u64;
        match slice.header {
            Some(head) => {
                taken += head.len() as u64;
                self.chunks.push(Bytes::copy_from_slice(&head));
                self.chunks.push(body.slice(slice.frames));
            }
            None => {
                taken = body.len() as u64;
                self.chunks.push(body.clone());
            }
        }
        self.count += slice.count;
        self.count_left -= slice.count;
        self.bytes_left = self.bytes_left.saturating_sub(taken);
        self.last_offset = Some(slice.last_offset);
        let whole = slice.last_offset + 1 == header.base_offset + u64::from(header.count);
        if whole && self.bytes_left == 0 {
            self.count_left = 0;
        }
        Ok(whole)
    }

    /// What was read: batches for the wire, how many messages they hold, and the offset of the last one.
    pub fn finish(self) -> (Vec<Bytes>, u32, Option<u64>, Option<Hint>) {
        (self.chunks, self.count, self.last_offset, self.hint)
    }
}
