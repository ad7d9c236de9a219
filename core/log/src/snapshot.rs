//! A snapshot: the whole state of a group as of one op, in one file that is replaced as a whole.
//!
//! ```text
//!  0 checksum u128   XXH3-128 of everything behind it     56 first_op u64     first op that is not in it
//! 16 magic u32       20 version u32                       64 parent u128      id of the op before
//! 24 cluster u128                                         80 timestamp u64    of the op before
//! 40 group number u64, 48 group life u64                  88 generation u32, config epoch u32
//!                                                         96 length u64       of the state
//! 104 voids u64      0, or 1 + the sequence of the newest frontier that belongs to the log before
//! 112 state
//! ```
//!
//! A snapshot that came from a peer replaces the log that was there: it `voids` every segment before it and every frontier up
//! to that sequence, from the moment in which it is durable. Version 1 has no field `voids` and its state at 104.

use bytes::{BufMut, Bytes, BytesMut};
use twox_hash::XxHash3_128;
use whippet_vsr::{ClusterId, EntryId, GroupId};

const MAGIC: u32 = 0x706e_5357;
const VERSION: u32 = 2;
const HEADER: usize = 112;
const HEADER_1: usize = 104;

/// What a snapshot says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// The cluster.
    pub cluster: ClusterId,
    /// The group.
    pub group: GroupId,
    /// First op that is not in the state.
    pub first_op: u64,
    /// Identity of the op before it.
    pub parent: EntryId,
    /// Timestamp of the op before it.
    pub timestamp: u64,
    /// Generation of the log.
    pub generation: u32,
    /// Sequence of the newest frontier of the log that this snapshot replaced, if it came from a peer.
    pub voids: Option<u64>,
}

/// The content of a snapshot file.
pub fn encode_snapshot(header: &SnapshotHeader, state: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(HEADER + state.len());
    out.put_u128_le(0);
    out.put_u32_le(MAGIC);
    out.put_u32_le(VERSION);
    out.put_u128_le(header.cluster.0);
    out.put_u64_le(header.group.number);
    out.put_u64_le(header.group.life);
    out.put_u64_le(header.first_op);
    out.put_u128_le(header.parent.0);
    out.put_u64_le(header.timestamp);
    out.put_u32_le(header.generation);
    out.put_u32_le(0);
    out.put_u64_le(state.len() as u64);
    out.put_u64_le(header.voids.map_or(0, |sequence| sequence + 1));
    debug_assert_eq!(out.len(), HEADER);
    out.put_slice(state);
    let checksum = XxHash3_128::oneshot(&out[16..]);
    out[..16].copy_from_slice(&checksum.to_le_bytes());
    out.freeze()
}

/// Reads a snapshot file of this group.
///
/// # Errors
/// A phrase that says what is wrong with it.
pub fn decode_snapshot(
    bytes: &Bytes,
    cluster: ClusterId,
    group: GroupId,
) -> Result<(SnapshotHeader, Bytes), &'static str> {
    if bytes.len() < HEADER_1 {
        return Err("shorter than its header");
    }
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let u128_at = |at: usize| u128::from_le_bytes(bytes[at..at + 16].try_into().expect("sixteen bytes"));
    if u32_at(16) != MAGIC {
        return Err("not a snapshot");
    }
    if u128_at(0) != XxHash3_128::oneshot(&bytes[16..]) {
        return Err("content does not match its checksum");
    }
    let start = match u32_at(20) {
        1 => HEADER_1,
        VERSION if bytes.len() >= HEADER => HEADER,
        _ => return Err("written in a format that this program does not know"),
    };
    let header = SnapshotHeader {
        cluster: ClusterId(u128_at(24)),
        group: GroupId { number: u64_at(40), life: u64_at(48) },
        first_op: u64_at(56),
        parent: EntryId(u128_at(64)),
        timestamp: u64_at(80),
        generation: u32_at(88),
        voids: if start == HEADER { u64_at(104).checked_sub(1) } else { None },
    };
    if header.cluster != cluster || header.group != group {
        return Err("belongs to another group or cluster");
    }
    if u64_at(96) != (bytes.len() - start) as u64 {
        return Err("has another length than it says");
    }
    Ok((header, bytes.slice(start..)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_every_damage_is_seen() {
        let group = GroupId { number: 2, life: 3 };
        let header = SnapshotHeader {
            cluster: ClusterId(1),
            group,
            first_op: 9,
            parent: EntryId(4),
            timestamp: 5,
            generation: 6,
            voids: Some(0),
        };
        let bytes = encode_snapshot(&header, b"state");
        let (read, state) = decode_snapshot(&bytes, ClusterId(1), group).expect("valid");
        assert_eq!((read, state.as_ref()), (header, b"state".as_ref()));
        assert!(decode_snapshot(&bytes, ClusterId(2), group).is_err());
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_snapshot(&Bytes::from(damaged), ClusterId(1), group).is_err(), "bit {bit}");
        }
        for cut in 0..bytes.len() {
            assert!(decode_snapshot(&bytes.slice(..cut), ClusterId(1), group).is_err());
        }
    }
}
