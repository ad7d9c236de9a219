//! The two small files that say whose a data directory is and how its last process ended.
//!
//! | file | layout, little-endian |
//! | --- | --- |
//! | identity | magic 8, version u32, replica u8, replica count u8, reserved 2, cluster u128, disk u128, checksum u64 |
//! | run | magic 8, start number u64, boot u128, clean u8, settled u8, reserved 6, lost first u64, lost last u64, checksum u64 |
//!
//! The checksum is XXH3-64 of what is before it.

use bytes::{Buf, BufMut};
use twox_hash::XxHash3_64;

/// Version of the layout that this program writes.
pub const FORMAT_VERSION: u32 = 1;

const IDENTITY_MAGIC: &[u8; 8] = b"whippet\0";
const RUN_MAGIC: &[u8; 8] = b"whiprun\0";
const IDENTITY_LENGTH: usize = 48;
const RUN_LENGTH: usize = 56;
/// Length of the first layout, which ended before `lost` and had 0 for `settled`: nothing was noted as lost then.
const RUN_LENGTH_1: usize = 40;

/// Whose data a directory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Hash of the cluster's name.
    pub cluster_id: u128,
    /// Index of the node in the roster.
    pub replica_id: u8,
    /// Size of the roster.
    pub replica_count: u8,
    /// A random number for a directory that is new; an old one keeps its own.
    pub disk: u128,
}

/// Why a stamp can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Damaged(&'static str),
    /// Written by a program that knows a later format, this one.
    Newer(u32),
}

/// How a process began, and whether it ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start_number: u64,
    pub(crate) boot: u128,
    pub(crate) clean: bool,
    /// Every log that may have lost something has been read back and has gone on, durably.
    pub(crate) settled: bool,
    /// First and last start whose unsynced writes a stop of the machine may have lost; 0 and 0 for none.
    pub(crate) lost: (u64, u64),
}

fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.put_u64_le(XxHash3_64::oneshot(&bytes));
    bytes
}

fn unseal(bytes: &[u8]) -> Option<&[u8]> {
    let (content, mut checksum) = bytes.split_at_checked(bytes.len().checked_sub(8)?)?;
    (XxHash3_64::oneshot(content) == checksum.get_u64_le()).then_some(content)
}

pub(crate) fn encode_identity(identity: &Identity) -> Vec<u8> {
    let mut bytes = IDENTITY_MAGIC.to_vec();
    bytes.put_u32_le(FORMAT_VERSION);
    bytes.extend_from_slice(&[identity.replica_id, identity.replica_count, 0, 0]);
    bytes.put_u128_le(identity.cluster_id);
    bytes.put_u128_le(identity.disk);
    seal(bytes)
}

pub(crate) fn decode_identity(bytes: &[u8]) -> Result<Identity, Refused> {
    let Some(mut rest) = bytes.strip_prefix(IDENTITY_MAGIC) else {
        return Err(Refused::Damaged("it is no identity file of whippet"));
    };
    // Later formats keep magic and version where they are, and may change everything else.
    let version = rest.try_get_u32_le().map_err(|_| Refused::Damaged("it is too short"))?;
    if version > FORMAT_VERSION {
        return Err(Refused::Newer(version));
    }
    let content = unseal(bytes).ok_or(Refused::Damaged("it does not match its checksum"))?;
    if content.len() != IDENTITY_LENGTH {
        return Err(Refused::Damaged("its length is wrong"));
    }
    let mut rest = &content[IDENTITY_MAGIC.len() + size_of::<u32>()..];
    let (replica_id, replica_count) = (rest.get_u8(), rest.get_u8());
    rest.advance(2);
    Ok(Identity { cluster_id: rest.get_u128_le(), replica_id, replica_count, disk: rest.get_u128_le() })
}

pub(crate) fn encode_run(run: &Run) -> Vec<u8> {
    let mut bytes = RUN_MAGIC.to_vec();
    bytes.put_u64_le(run.start_number);
    bytes.put_u128_le(run.boot);
    bytes.extend_from_slice(&[u8::from(run.clean), u8::from(run.settled), 0, 0, 0, 0, 0, 0]);
    bytes.put_u64_le(run.lost.0);
    bytes.put_u64_le(run.lost.1);
    seal(bytes)
}

pub(crate) fn decode_run(bytes: &[u8]) -> Option<Run> {
    let content = unseal(bytes)?;
    let first_layout = content.len() == RUN_LENGTH_1;
    let mut rest = content.strip_prefix(RUN_MAGIC).filter(|_| first_layout || content.len() == RUN_LENGTH)?;
    let (start_number, boot) = (rest.get_u64_le(), rest.get_u128_le());
    let (clean, settled) = (rest.get_u8() == 1, rest.get_u8() == 1);
    rest.advance(6);
    if first_layout {
        return Some(Run { start_number, boot, clean, settled: true, lost: (0, 0) });
    }
    Some(Run { start_number, boot, clean, settled, lost: (rest.get_u64_le(), rest.get_u64_le()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IDENTITY: Identity = Identity { cluster_id: 7 << 64 | 5, replica_id: 2, replica_count: 3, disk: 99 };

    #[test]
    fn the_first_layout_of_a_run_is_read() {
        let mut bytes = RUN_MAGIC.to_vec();
        bytes.put_u64_le(7);
        bytes.put_u128_le(9);
        bytes.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0]);
        let run = Run { start_number: 7, boot: 9, clean: true, settled: true, lost: (0, 0) };
        assert_eq!(decode_run(&seal(bytes)), Some(run));
    }

    #[test]
    fn a_later_format_is_told_from_damage() {
        let mut bytes = encode_identity(&IDENTITY);
        bytes[8] = 2;
        bytes.truncate(20);
        assert_eq!(decode_identity(&bytes), Err(Refused::Newer(2)));
        assert_eq!(decode_identity(b"whippet\0"), Err(Refused::Damaged("it is too short")));
        assert_eq!(decode_identity(b""), Err(Refused::Damaged("it is no identity file of whippet")));
    }

    proptest! {
        #[test]
        fn stamps_round_trip_and_any_changed_bit_is_seen(
            cluster_id: u128, replica_id: u8, replica_count: u8, disk: u128, start_number: u64, boot: u128, clean: bool,
            settled: bool, lost: (u64, u64), at in 0usize..1000, bit in 0u8..8,
        ) {
            let identity = Identity { cluster_id, replica_id, replica_count, disk };
            let mut bytes = encode_identity(&identity);
            prop_assert_eq!(decode_identity(&bytes), Ok(identity));
            let at_byte = at % bytes.len();
            bytes[at_byte] ^= 1 << bit;
            prop_assert!(decode_identity(&bytes).is_err());
            let run = Run { start_number, boot, clean, settled, lost };
            let mut bytes = encode_run(&run);
            prop_assert_eq!(decode_run(&bytes), Some(run));
            let at_byte = at % bytes.len();
            bytes[at_byte] ^= 1 << bit;
            prop_assert_eq!(decode_run(&bytes), None);
        }

        #[test]
        fn garbage_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(decode_identity(&bytes).is_err());
            prop_assert_eq!(decode_run(&bytes), None);
        }
    }
}
