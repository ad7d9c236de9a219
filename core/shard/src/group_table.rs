//! The node's own list of groups that hold data.
//!
//! Whether a group is new is decided by this table and the metadata log, never by an empty directory: a group that is listed
//! here and whose files are gone has lost data, it has not just been born. An entry is durable before the group's first
//! record is acknowledged. Each shard appends to a part of its own; all parts together are the table, so the number of
//! shards may change between starts.
//!
//! A part is a sequence of 64-byte entries, all integers little-endian:
//!
//! ```text
//!  0 checksum u128  XXH3-128 of the rest      24 cluster u64 (low half)     48 reserved
//! 16 magic u32, version u32                   32 group number u64, 40 life u64
//! ```

use bytes::{BufMut, Bytes, BytesMut};
use std::collections::BTreeSet;
use twox_hash::XxHash3_128;
use whippet_storage::{FileName, RecoverySource, StorageError};
use whippet_vsr::{ClusterId, GroupId};

const MAGIC: u32 = 0x6274_4757;
const VERSION: u32 = 1;
/// Bytes of an entry.
pub(crate) const ENTRY: usize = 64;

/// Groups that hold data, as all parts of the table say.
#[derive(Clone, Debug, Default)]
pub struct GroupTable {
    groups: BTreeSet<GroupId>,
    /// Length of each part up to its last valid entry.
    parts: Vec<(u32, u64)>,
    /// Entries that did not check out.
    damaged: u32,
}

impl GroupTable {
    /// Reads all parts. Entries that do not check out are skipped and counted.
    ///
    /// # Errors
    /// What the operating system reports.
    pub fn read(source: &dyn RecoverySource, cluster: ClusterId) -> Result<GroupTable, StorageError> {
        let mut table = GroupTable::default();
        for (file, length) in source.node_files()? {
            let FileName::GroupTable { part } = file else { continue };
            let bytes = source.read(file, 0, usize::try_from(length).unwrap_or(usize::MAX))?;
            let mut end = 0;
            for (at, entry) in bytes.chunks(ENTRY).enumerate() {
                match decode(entry, cluster) {
                    Some(group) => {
                        table.groups.insert(group);
                        end = (at + 1) * ENTRY;
                    }
                    None => table.damaged += u32::from(entry.iter().any(|byte| *byte != 0)),
                }
            }
            table.parts.push((part, end as u64));
        }
        Ok(table)
    }

    /// Whether the group holds data, or did.
    pub fn holds(&self, group: GroupId) -> bool {
        self.groups.contains(&group)
    }

    /// Whether no group ever held data.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Entries that did not check out.
    pub fn damaged(&self) -> u32 {
        self.damaged
    }

    pub(crate) fn part_end(&self, part: u32) -> u64 {
        self.parts.iter().find(|(known, _)| *known == part).map_or(0, |(_, end)| *end)
    }
}

pub(crate) fn encode(group: GroupId, cluster: ClusterId) -> Bytes {
    let mut out = BytesMut::with_capacity(ENTRY);
    out.put_u128_le(0);
    out.put_u32_le(MAGIC);
    out.put_u32_le(VERSION);
    out.put_u64_le(cluster.0 as u64);
    out.put_u64_le(group.number);
    out.put_u64_le(group.life);
    out.resize(ENTRY, 0);
    let checksum = XxHash3_128::oneshot(&out[16..]);
    out[..16].copy_from_slice(&checksum.to_le_bytes());
    out.freeze()
}

fn decode(bytes: &[u8], cluster: ClusterId) -> Option<GroupId> {
    let bytes: &[u8; ENTRY] = bytes.try_into().ok()?;
    let u64_at = |at: usize| bytes[at..at + 8].try_into().ok().map(u64::from_le_bytes);
    let checksum = u128::from_le_bytes(bytes[..16].try_into().ok()?);
    let kind = u64_at(16)?;
    let valid = checksum == XxHash3_128::oneshot(&bytes[16..])
        && kind == (u64::from(VERSION) << 32 | u64::from(MAGIC))
        && u64_at(24)? == cluster.0 as u64;
    if valid { Some(GroupId { number: u64_at(32)?, life: u64_at(40)? }) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_round_trips_and_every_flipped_bit_is_seen() {
        let group = GroupId { number: 12, life: 345 };
        let bytes = encode(group, ClusterId(9));
        assert_eq!(decode(&bytes, ClusterId(9)), Some(group));
        assert_eq!(decode(&bytes, ClusterId(8)), None);
        for bit in 0..ENTRY * 8 {
            let mut damaged = bytes.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&damaged, ClusterId(9)), None);
        }
        assert_eq!(decode(&bytes[..63], ClusterId(9)), None);
    }
}
