//! Evidence of a log's length, kept outside the log.
//!
//! A record that does not check out at the end of a log may be a torn write that nobody was promised, or an acknowledged
//! record that was damaged; the log alone cannot tell. The frontier names the last record that may have been acknowledged:
//! below it damage is damage, above it a torn tail is cut. It is written *before* an acknowledgement leaves and *after* the
//! record that it names has been written. It also reserves offsets ahead, durably, so that no offset is ever handed out twice
//! even if the machine loses what was not fsynced.
//!
//! Three slots, 4096 bytes apart. What was synced last is never written over before something newer is synced: the other two
//! are written in turn, so that whatever a crash does to them, the durable one stays.
//!
//! ```text
//!  0 checksum u128   XXH3-128 of the rest of the slot      56 op u64            104 reserved_offset u64
//! 16 magic u32, version u32                                64 id u128           112 run u64
//! 24 group number u64                                      80 segment u64       120 generation u32, reserved u32
//! 32 group life u64                                        88 end u64
//! 40 cluster hash u64, 48 sequence u64                     96 next_offset u64
//! ```

use bytes::{BufMut, Bytes, BytesMut};
use twox_hash::XxHash3_128;
use whippet_vsr::{ClusterId, EntryId, GroupId, OpNumber};

const MAGIC: u32 = 0x746e_6657;
const VERSION: u32 = 1;
/// Bytes of a slot.
pub const SLOT_SIZE: usize = 128;
/// Distance of the slots in the file.
pub const SLOT_STRIDE: u64 = 4096;
/// Slots of the file.
pub const SLOTS: u8 = 3;

/// What the frontier says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frontier {
    /// Grows with every write of the file.
    pub sequence: u64,
    /// Last op that may have been acknowledged.
    pub op: OpNumber,
    /// Its identity.
    pub id: EntryId,
    /// First op of the segment in which it lies.
    pub segment: u64,
    /// Where its record ends in that segment.
    pub end: u64,
    /// Offset after it.
    pub next_offset: u64,
    /// No offset from here on was ever given out.
    pub reserved_offset: u64,
    /// Number of the process start that wrote it.
    pub run: u64,
    /// Generation of the log.
    pub generation: u32,
}

impl Frontier {
    /// A log that holds nothing and has reserved nothing.
    pub fn empty() -> Frontier {
        Frontier {
            sequence: 0,
            op: OpNumber::ZERO,
            id: EntryId::NONE,
            segment: 1,
            end: 0,
            next_offset: 0,
            reserved_offset: 0,
            run: 0,
            generation: 0,
        }
    }

    /// The bytes of the slot.
    pub fn encode(&self, cluster: ClusterId, group: GroupId) -> Bytes {
        let mut out = BytesMut::with_capacity(SLOT_SIZE);
        out.put_u128_le(0);
        out.put_u32_le(MAGIC);
        out.put_u32_le(VERSION);
        out.put_u64_le(group.number);
        out.put_u64_le(group.life);
        out.put_u64_le(cluster.0 as u64);
        out.put_u64_le(self.sequence);
        out.put_u64_le(self.op.0);
        out.put_u128_le(self.id.0);
        out.put_u64_le(self.segment);
        out.put_u64_le(self.end);
        out.put_u64_le(self.next_offset);
        out.put_u64_le(self.reserved_offset);
        out.put_u64_le(self.run);
        out.put_u32_le(self.generation);
        out.put_u32_le(0);
        debug_assert_eq!(out.len(), SLOT_SIZE);
        let checksum = XxHash3_128::oneshot(&out[16..]);
        out[..16].copy_from_slice(&checksum.to_le_bytes());
        out.freeze()
    }

    fn decode_slot(bytes: &[u8], cluster: ClusterId, group: GroupId) -> Option<Frontier> {
        let bytes = bytes.get(..SLOT_SIZE)?;
        let u64_at = |at: usize| bytes[at..at + 8].try_into().ok().map(u64::from_le_bytes);
        let u128_at = |at: usize| bytes[at..at + 16].try_into().ok().map(u128::from_le_bytes);
        let u32_at = |at: usize| bytes[at..at + 4].try_into().ok().map(u32::from_le_bytes);
        let sealed = u128_at(0)? == XxHash3_128::oneshot(&bytes[16..]);
        let ours = u32_at(16)? == MAGIC
            && u32_at(20)? == VERSION
            && (GroupId { number: u64_at(24)?, life: u64_at(32)? }) == group
            && u64_at(40)? == cluster.0 as u64;
        if !sealed || !ours {
            return None;
        }
        Some(Frontier {
            sequence: u64_at(48)?,
            op: OpNumber(u64_at(56)?),
            id: EntryId(u128_at(64)?),
            segment: u64_at(80)?,
            end: u64_at(88)?,
            next_offset: u64_at(96)?,
            reserved_offset: u64_at(104)?,
            run: u64_at(112)?,
            generation: u32_at(120)?,
        })
    }

    /// Reads the file: the newest of the slots that check out with its number, and how many do not although they are not
    /// empty.
    pub fn decode(bytes: &[u8], cluster: ClusterId, group: GroupId) -> (Option<(Frontier, u8)>, u32) {
        let mut newest: Option<(Frontier, u8)> = None;
        let mut damaged = 0;
        for slot in 0..SLOTS {
            let content = bytes.get(position(slot) as usize..).unwrap_or_default();
            match Frontier::decode_slot(content, cluster, group) {
                Some(frontier) if newest.is_none_or(|(known, _)| frontier.sequence > known.sequence) => {
                    newest = Some((frontier, slot));
                }
                Some(_) => {}
                None => damaged += u32::from(content.iter().take(SLOT_SIZE).any(|byte| *byte != 0)),
            }
        }
        (newest, damaged)
    }
}

/// Where a slot lies in the file.
pub fn position(slot: u8) -> u64 {
    u64::from(slot) * SLOT_STRIDE
}

/// The slot to write next: neither the one that is durable nor the one that was written last.
pub fn next_slot(durable: u8, last: u8) -> u8 {
    (0..SLOTS).find(|slot| *slot != durable && *slot != last).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: ClusterId = ClusterId(77);
    const GROUP: GroupId = GroupId { number: 3, life: 8 };

    fn file(frontiers: &[Frontier]) -> Vec<u8> {
        let mut file = vec![0; 2 * SLOT_STRIDE as usize + SLOT_SIZE];
        for (slot, frontier) in (0..).zip(frontiers) {
            let at = position(slot) as usize;
            file[at..at + SLOT_SIZE].copy_from_slice(&frontier.encode(CLUSTER, GROUP));
        }
        file
    }

    #[test]
    fn the_newer_slot_wins_and_a_damaged_one_leaves_the_older() {
        let one = Frontier { sequence: 1, op: OpNumber(10), reserved_offset: 65_536, ..Frontier::empty() };
        let two = Frontier { sequence: 2, op: OpNumber(11), id: EntryId(5), end: 300, ..one };
        let bytes = file(&[one, two]);
        assert_eq!(Frontier::decode(&bytes, CLUSTER, GROUP), (Some((two, 1)), 0));
        for bit in 0..SLOT_SIZE * 8 {
            let mut damaged = bytes.clone();
            damaged[SLOT_STRIDE as usize + bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Frontier::decode(&damaged, CLUSTER, GROUP), (Some((one, 0)), 1), "bit {bit}");
        }
    }

    #[test]
    fn the_durable_slot_is_never_the_next_one() {
        for durable in 0..SLOTS {
            for last in 0..SLOTS {
                let next = next_slot(durable, last);
                assert!(next < SLOTS && next != durable && next != last);
            }
        }
    }

    #[test]
    fn short_foreign_and_empty_files_say_nothing() {
        let one = Frontier { sequence: 1, ..Frontier::empty() };
        assert_eq!(Frontier::decode(&[], CLUSTER, GROUP), (None, 0));
        assert_eq!(Frontier::decode(&file(&[]), CLUSTER, GROUP), (None, 0));
        let other = GroupId { number: 3, life: 9 };
        assert_eq!(Frontier::decode(&file(&[one]), CLUSTER, other), (None, 1));
    }
}
