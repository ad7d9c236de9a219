//! Message batches: what a producer sends, a partition stores and a poll returns, byte for byte.
//!
//! ```text
//! batch header, 256 bytes                       message, 48 bytes + payload + user headers
//!  0 partition_id u64   (server)                 0 checksum u64   XXH3-64 of the rest of the message
//!  8 base_offset u64    (server)                 8 id u128
//! 16 base_timestamp u64 (server, µs)            24 offset_delta u32
//! 24 origin_timestamp u64 (producer, µs)        28 timestamp_delta u32
//! 32 batch_length u64   header and messages     32 user_headers_length u32
//! 40 batch_checksum u64                         36 payload_length u32
//! 48 message_count u32                          40 reserved u64 (0)
//! 52 reserved (0)                               48 payload, then user headers
//! ```
//!
//! The batch checksum is XXH3-64 over partition id, base offset, base timestamp, origin timestamp, batch length and message
//! count, then the checksum of each message in order. So stamping a batch does not touch its messages, and the batch checksum
//! covers every byte through theirs.

use crate::error_code::ErrorCode;
use crate::limits::{BATCH_HEADER_SIZE, MESSAGE_HEADER_SIZE, MESSAGE_PAYLOAD_MAX, MESSAGE_USER_HEADERS_MAX};
use std::hash::Hasher;
use std::ops::Range;
use twox_hash::XxHash3_64;
use twox_hash::xxhash3_64::{DEFAULT_SECRET_LENGTH, RawHasher, SecretBuffer};

const CHECKSUM_AT: usize = 40;
const COUNT_AT: usize = 48;
const RESERVED_AT: usize = 52;

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

pub(crate) fn u128_at(bytes: &[u8], at: usize) -> u128 {
    u128::from_le_bytes(bytes[at..at + 16].try_into().expect("sixteen bytes"))
}

/// What a batch that checks out says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchInfo {
    /// Partition id, 0 from a producer.
    pub partition_id: u64,
    /// Offset of the first message, 0 from a producer.
    pub base_offset: u64,
    /// Append time in µs, 0 from a producer.
    pub base_timestamp: u64,
    /// Smallest message timestamp in µs, as the producer says.
    pub origin_timestamp: u64,
    /// Messages, at least 1.
    pub count: u32,
    /// The batch checksum.
    pub checksum: u64,
}

fn header(batch: &[u8]) -> BatchInfo {
    BatchInfo {
        partition_id: u64_at(batch, 0),
        base_offset: u64_at(batch, 8),
        base_timestamp: u64_at(batch, 16),
        origin_timestamp: u64_at(batch, 24),
        count: u32_at(batch, COUNT_AT),
        checksum: u64_at(batch, CHECKSUM_AT),
    }
}

/// Computes a batch checksum from the header fields that it covers and the checksums of the messages, which are gathered so
/// that the hash takes many at once. A batch whose checksums fit is hashed in one go; either way nothing is allocated.
struct BatchHasher {
    /// Set once `gathered` was full: what was gathered before has gone in here.
    streaming: Option<RawHasher<[u8; DEFAULT_SECRET_LENGTH]>>,
    gathered: [u8; GATHERED],
    length: usize,
}

/// Bytes of header fields and checksums that are hashed at once; whole checksums fit.
const GATHERED: usize = 2048 + COVERED;
/// Bytes of the header fields that the batch checksum covers.
const COVERED: usize = CHECKSUM_AT + RESERVED_AT - COUNT_AT;

impl BatchHasher {
    fn new(batch_header: &[u8]) -> BatchHasher {
        let mut gathered = [0; GATHERED];
        gathered[..CHECKSUM_AT].copy_from_slice(&batch_header[..CHECKSUM_AT]);
        gathered[CHECKSUM_AT..COVERED].copy_from_slice(&batch_header[COUNT_AT..RESERVED_AT]);
        BatchHasher { streaming: None, gathered, length: COVERED }
    }

    /// Takes the checksum at the start of a message.
    fn add(&mut self, message: &[u8]) {
        if self.length + 8 > GATHERED {
            self.flush();
        }
        self.gathered[self.length..self.length + 8].copy_from_slice(&message[..8]);
        self.length += 8;
    }

    #[cold]
    fn flush(&mut self) {
        self.streaming.get_or_insert_with(streaming_hasher).write(&self.gathered[..self.length]);
        self.length = 0;
    }

    fn finish(mut self) -> u64 {
        let rest = &self.gathered[..self.length];
        match &mut self.streaming {
            None => XxHash3_64::oneshot(rest),
            Some(hasher) => {
                hasher.write(rest);
                hasher.finish()
            }
        }
    }
}

/// The hash that takes its input in parts, with the secret on the stack: the usual constructor allocates.
fn streaming_hasher() -> RawHasher<[u8; DEFAULT_SECRET_LENGTH]> {
    let secret = SecretBuffer::with_seed(0, [0; DEFAULT_SECRET_LENGTH]);
    RawHasher::new(secret.expect("the buffer has the length that the hash asks for"))
}

/// Bytes of the message that starts at `at`, if its header and body lie within `bytes`.
fn message_length(bytes: &[u8], at: usize) -> Option<usize> {
    let head = bytes.get(at..at.checked_add(MESSAGE_HEADER_SIZE)?)?;
    let length = MESSAGE_HEADER_SIZE.checked_add(u32_at(head, 32) as usize)?.checked_add(u32_at(head, 36) as usize)?;
    (bytes.len() - at >= length).then_some(length)
}

/// Checks a batch as a producer sends it: `batch` must be exactly the batch, `expected` the count of the routing part.
///
/// Every byte is hashed once.
///
/// # Errors
/// The protocol's code: 4009 count, 4101 reserved or server-owned field set, 4029 lengths that do not add up, 4024 empty
/// payload, 4022 payload too large, 4017 headers too large, 4027 message checksum, 4039 batch checksum, 3 offset deltas.
pub fn verify(batch: &[u8], expected: u32) -> Result<BatchInfo, ErrorCode> {
    let info = check(batch, Strictness::Admission)?;
    if info.count != expected {
        return Err(ErrorCode::InvalidMessagesCount);
    }
    Ok(info)
}

/// Checks a batch as it was stored: every checksum, every length.
///
/// # Errors
/// As [`verify`], without the rules that only concern producers; 4100 when the offsets do not fit 64 bits.
pub fn check_stored(batch: &[u8]) -> Result<BatchInfo, ErrorCode> {
    check(batch, Strictness::Stored)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Strictness {
    Admission,
    Stored,
}

fn check(batch: &[u8], strictness: Strictness) -> Result<BatchInfo, ErrorCode> {
    if batch.len() < BATCH_HEADER_SIZE {
        return Err(ErrorCode::CommandLengthError);
    }
    let info = header(batch);
    if u64_at(batch, 32) != batch.len() as u64 {
        return Err(ErrorCode::CommandLengthError);
    }
    if batch[RESERVED_AT..BATCH_HEADER_SIZE].iter().any(|byte| *byte != 0) {
        return Err(ErrorCode::InvalidReservedField);
    }
    if info.count == 0 {
        return Err(ErrorCode::InvalidMessagesCount);
    }
    if info.base_offset.checked_add(u64::from(info.count)).is_none() {
        return Err(ErrorCode::InvalidOffset);
    }
    if strictness == Strictness::Admission && (info.partition_id, info.base_offset, info.base_timestamp) != (0, 0, 0) {
        return Err(ErrorCode::InvalidReservedField);
    }
    let mut hasher = BatchHasher::new(batch);
    let mut at = BATCH_HEADER_SIZE;
    let mut count = 0u32;
    while at < batch.len() {
        let length = message_length(batch, at).ok_or(ErrorCode::CommandLengthError)?;
        let message = &batch[at..at + length];
        if u64_at(message, 40) != 0 {
            return Err(ErrorCode::InvalidReservedField);
        }
        if XxHash3_64::oneshot(&message[8..]) != u64_at(message, 0) {
            return Err(ErrorCode::InvalidMessageChecksum);
        }
        if strictness == Strictness::Admission {
            admit(message, count)?;
        }
        hasher.add(message);
        count = count.checked_add(1).ok_or(ErrorCode::InvalidMessagesCount)?;
        at += length;
    }
    if count != info.count {
        return Err(ErrorCode::InvalidMessagesCount);
    }
    if hasher.finish() != info.checksum {
        return Err(ErrorCode::InvalidBatchChecksum);
    }
    Ok(info)
}

/// What a producer must keep to in each message.
fn admit(message: &[u8], index: u32) -> Result<(), ErrorCode> {
    if u32_at(message, 24) != index {
        return Err(ErrorCode::InvalidCommand);
    }
    let (headers, payload) = (u32_at(message, 32) as usize, u32_at(message, 36) as usize);
    if payload == 0 {
        return Err(ErrorCode::EmptyMessagePayload);
    }
    if payload > MESSAGE_PAYLOAD_MAX {
        return Err(ErrorCode::TooBigMessagePayload);
    }
    if headers > MESSAGE_USER_HEADERS_MAX {
        return Err(ErrorCode::TooBigUserHeaders);
    }
    // What is in the header block is the producer's business: clients that encrypt make it opaque.
    Ok(())
}

/// Gives a verified batch its place: writes partition, offset and time, and the new batch checksum, which is returned.
///
/// # Panics
/// When `batch` has not passed [`verify`].
pub fn stamp(batch: &mut [u8], partition_id: u64, base_offset: u64, base_timestamp: u64) -> u64 {
    batch[0..8].copy_from_slice(&partition_id.to_le_bytes());
    batch[8..16].copy_from_slice(&base_offset.to_le_bytes());
    batch[16..24].copy_from_slice(&base_timestamp.to_le_bytes());
    let checksum = checksum_of(batch);
    batch[CHECKSUM_AT..COUNT_AT].copy_from_slice(&checksum.to_le_bytes());
    checksum
}

/// The batch checksum, from the header fields and the message checksums as they stand.
fn checksum_of(batch: &[u8]) -> u64 {
    let mut hasher = BatchHasher::new(batch);
    let mut at = BATCH_HEADER_SIZE;
    while at < batch.len() {
        hasher.add(&batch[at..]);
        at += message_length(batch, at).expect("a verified batch is well-formed");
    }
    hasher.finish()
}

/// A part of a batch that is a batch again once the header stands before the frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchSlice {
    /// The header of the part, `None` when the part is the whole batch.
    pub header: Option<[u8; BATCH_HEADER_SIZE]>,
    /// Where the messages lie in the batch.
    pub frames: Range<usize>,
    /// Messages.
    pub count: u32,
    /// Offset of the last one.
    pub last_offset: u64,
}

/// Cuts a stored batch to the messages from `first_offset` on, at most `max_count` of them and at most `max_bytes` with the
/// header; `None` when that leaves nothing. Messages keep their bytes and their offset deltas.
///
/// # Panics
/// When `batch` has not passed [`check_stored`].
pub fn slice(batch: &[u8], first_offset: u64, max_count: u32, max_bytes: usize) -> Option<BatchSlice> {
    let info = header(batch);
    let last = info.base_offset + u64::from(info.count) - 1;
    if first_offset <= info.base_offset && info.count <= max_count && batch.len() <= max_bytes {
        return Some(BatchSlice {
            header: None,
            frames: BATCH_HEADER_SIZE..batch.len(),
            count: info.count,
            last_offset: last,
        });
    }
    let skip = first_offset.saturating_sub(info.base_offset);
    let mut at = BATCH_HEADER_SIZE;
    for _ in 0..skip.min(u64::from(info.count)) {
        at += message_length(batch, at).expect("a stored batch is well-formed");
    }
    let start = at;
    let mut count = 0u32;
    while at < batch.len() && count < max_count {
        let length = message_length(batch, at).expect("a stored batch is well-formed");
        if BATCH_HEADER_SIZE + (at - start) + length > max_bytes {
            break;
        }
        at += length;
        count += 1;
    }
    if count == 0 {
        return None;
    }
    let mut head: [u8; BATCH_HEADER_SIZE] = batch[..BATCH_HEADER_SIZE].try_into().expect("a batch has a header");
    head[32..40].copy_from_slice(&((BATCH_HEADER_SIZE + at - start) as u64).to_le_bytes());
    head[COUNT_AT..RESERVED_AT].copy_from_slice(&count.to_le_bytes());
    let mut hasher = BatchHasher::new(&head);
    let mut message = start;
    while message < at {
        hasher.add(&batch[message..]);
        message += message_length(batch, message).expect("a stored batch is well-formed");
    }
    head[CHECKSUM_AT..COUNT_AT].copy_from_slice(&hasher.finish().to_le_bytes());
    Some(BatchSlice {
        header: Some(head),
        frames: start..at,
        count,
        last_offset: info.base_offset + skip + u64::from(count) - 1,
    })
}

/// A message of a batch, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageView<'a> {
    /// XXH3-64 of the message behind this field.
    pub checksum: u64,
    /// Id; 0 means that the producer gave none.
    pub id: u128,
    /// Offset in the partition.
    pub offset: u64,
    /// Append time of its batch, µs.
    pub timestamp: u64,
    /// Time at the producer, µs.
    pub origin_timestamp: u64,
    /// The payload.
    pub payload: &'a [u8],
    /// The encoded user headers, empty when there are none.
    pub user_headers: &'a [u8],
}

/// The messages of a stored batch. Stops at the first byte that is no message; check the batch first.
pub fn messages(batch: &[u8]) -> impl Iterator<Item = MessageView<'_>> {
    let info = if batch.len() >= BATCH_HEADER_SIZE { Some(header(batch)) } else { None };
    let mut at = BATCH_HEADER_SIZE;
    std::iter::from_fn(move || {
        let info = info?;
        let length = message_length(batch, at)?;
        let message = &batch[at..at + length];
        at += length;
        let payload = u32_at(message, 36) as usize;
        let (payload, user_headers) = message[MESSAGE_HEADER_SIZE..].split_at(payload);
        Some(MessageView {
            checksum: u64_at(message, 0),
            id: u128_at(message, 8),
            offset: info.base_offset.saturating_add(u64::from(u32_at(message, 24))),
            timestamp: info.base_timestamp,
            origin_timestamp: info.origin_timestamp.saturating_add(u64::from(u32_at(message, 28))),
            payload,
            user_headers,
        })
    })
}

/// The batches in a row of bytes, as a poll reply holds them. Stops at the first byte that is no batch.
pub fn batches(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.len() < BATCH_HEADER_SIZE {
            return None;
        }
        let length = usize::try_from(u64_at(rest, 32))
            .ok()
            .filter(|length| (BATCH_HEADER_SIZE..=rest.len()).contains(length))?;
        let (batch, behind) = rest.split_at(length);
        rest = behind;
        Some(batch)
    })
}

/// Makes a batch as a producer does.
#[derive(Debug)]
pub struct BatchBuilder {
    bytes: bytes::BytesMut,
    start: usize,
    origin: u64,
    count: u32,
}

impl BatchBuilder {
    /// A builder whose batch starts behind `headroom` zero bytes. `origin_timestamp` is the smallest message time, in µs.
    pub fn new(headroom: usize, origin_timestamp: u64, capacity: usize) -> BatchBuilder {
        let mut bytes = bytes::BytesMut::with_capacity(headroom + BATCH_HEADER_SIZE + capacity);
        bytes.resize(headroom + BATCH_HEADER_SIZE, 0);
        BatchBuilder { bytes, start: headroom, origin: origin_timestamp, count: 0 }
    }

    /// Adds a message. `timestamp` is its time in µs; it is kept within 2^32 µs behind the origin.
    pub fn push(&mut self, id: u128, timestamp: u64, payload: &[u8], user_headers: &[u8]) {
        let at = self.bytes.len();
        let delta = u32::try_from(timestamp.saturating_sub(self.origin)).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(&[0; 8]);
        self.bytes.extend_from_slice(&id.to_le_bytes());
        self.bytes.extend_from_slice(&self.count.to_le_bytes());
        self.bytes.extend_from_slice(&delta.to_le_bytes());
        self.bytes.extend_from_slice(&(user_headers.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(&[0; 8]);
        self.bytes.extend_from_slice(payload);
        self.bytes.extend_from_slice(user_headers);
        let checksum = XxHash3_64::oneshot(&self.bytes[at + 8..]);
        self.bytes[at..at + 8].copy_from_slice(&checksum.to_le_bytes());
        self.count += 1;
    }

    /// Messages so far.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The bytes, headroom included, and where the batch lies in them.
    pub fn finish(mut self) -> (bytes::BytesMut, Range<usize>) {
        let start = self.start;
        let length = (self.bytes.len() - start) as u64;
        let batch = &mut self.bytes[start..];
        batch[24..32].copy_from_slice(&self.origin.to_le_bytes());
        batch[32..40].copy_from_slice(&length.to_le_bytes());
        batch[COUNT_AT..RESERVED_AT].copy_from_slice(&self.count.to_le_bytes());
        let checksum = checksum_of(batch);
        batch[CHECKSUM_AT..COUNT_AT].copy_from_slice(&checksum.to_le_bytes());
        let end = self.bytes.len();
        (self.bytes, start..end)
    }
}
