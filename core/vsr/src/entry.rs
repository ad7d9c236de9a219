//! A log entry: a fixed header and a body, contiguous, exactly as they lie on disk and travel between replicas.
//!
//! ```text
//!   0 id u128            hash of bytes 16..192           112 session u64
//!  16 parent u128        id of the entry before          120 request u64
//!  32 cluster u128                                       128 body_hash u64
//!  48 group number u64                                   136 base_offset u64   (batches)
//!  56 group life u64                                     144 segment u64       first op of the segment that holds it
//!  64 op u64                                             152 position u64      byte position in that segment
//!  72 view u32           view that first proposed it     160 commit u64        primary's commit number at that time
//!  76 kind u8                                            168 generation u32    generation of the log (lossy restarts)
//!  77 version u8         1                               172 count u32         messages in the batch
//!  78 reserved u16       0                               176 user u32
//!  80 length u32         header and body                 180 config_epoch u32  0 until the roster can change
//!  84 magic u32                                          184 reserved u64      0
//!  88 timestamp u64      µs, grows strictly              192 body
//!  96 client u128
//! ```
//!
//! All integers are little-endian. The id covers every other byte of the header, the body through `body_hash`, the group's
//! life and the view that proposed the entry; re-proposing an entry in a later view keeps it as it is. An all-zero header is
//! invalid (the magic is not zero), so is an id of zero. The position makes a misplaced record visible.

use crate::id::{ClusterId, EntryId, GroupId, OpNumber, ViewNumber};
use bytes::{Bytes, BytesMut};
use twox_hash::XxHash3_128;

/// Bytes of the header.
pub const HEADER_SIZE: usize = 192;
/// Version of the record format.
pub const FORMAT_VERSION: u8 = 1;
/// What marks the header of a record.
pub const MAGIC: u32 = 0x7072_6857;
/// Largest entry, header included: the largest client frame fits.
pub const ENTRY_SIZE_MAX: usize = 64 * 1024 * 1024 + 4096;

/// The fixed part of an entry; see the module documentation for the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryHeader {
    /// Identity; everything else in here is covered by it.
    pub id: EntryId,
    /// Identity of the entry before, [`EntryId::NONE`] for op 1.
    pub parent: EntryId,
    /// Whose entry.
    pub cluster: ClusterId,
    /// Of which group, in which life.
    pub group: GroupId,
    /// Position in the group's log.
    pub op: OpNumber,
    /// View that first proposed it.
    pub view: ViewNumber,
    /// What the state machine makes of the body; 0 is no kind.
    pub kind: u8,
    /// Header and body, in bytes.
    pub length: u32,
    /// Microseconds since 1970, greater than that of the entry before.
    pub timestamp: u64,
    /// Client that asked, 0 for the server itself.
    pub client: u128,
    /// Its session, 0 for the server itself.
    pub session: u64,
    /// Its request number, 0 for the server itself.
    pub request: u64,
    /// Hash of the body as its kind defines it.
    pub body_hash: u64,
    /// Offset of the first message, for batches.
    pub base_offset: u64,
    /// First op of the segment that holds the record.
    pub segment: u64,
    /// Byte position within that segment.
    pub position: u64,
    /// The primary's commit number when it proposed the entry. Always trails.
    pub commit: OpNumber,
    /// Generation of the log: grows by one with every declared loss.
    pub generation: u32,
    /// Messages in the batch, for batches.
    pub count: u32,
    /// Acting user.
    pub user: u32,
    /// Epoch of the roster.
    pub config_epoch: u32,
}

/// Why bytes are no entry header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHeader {
    /// Fewer bytes than a header has.
    #[error("record header cut off: {0} of {HEADER_SIZE} bytes")]
    Short(usize),
    /// Nothing was ever written here.
    #[error("nothing written here (zeros)")]
    Zero,
    /// The marker is missing.
    #[error("no record header here (marker is {0:08x})")]
    Magic(u32),
    /// Written by a newer program.
    #[error("record format version {0}, this program knows {FORMAT_VERSION}")]
    Version(u8),
    /// The header does not hash to its id.
    #[error("record header does not match its checksum")]
    Id,
    /// A length that no record has.
    #[error("record length {0} out of range")]
    Length(u32),
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn u128_at(bytes: &[u8], at: usize) -> u128 {
    u128::from_le_bytes(bytes[at..at + 16].try_into().expect("sixteen bytes"))
}

impl EntryHeader {
    /// Reads and verifies the header at the start of `bytes`.
    ///
    /// # Errors
    /// [`InvalidHeader`]; the body is not looked at.
    pub fn decode(bytes: &[u8]) -> Result<EntryHeader, InvalidHeader> {
        let Some(bytes) = bytes.get(..HEADER_SIZE) else { return Err(InvalidHeader::Short(bytes.len())) };
        let magic = u32_at(bytes, 84);
        if magic != MAGIC {
            return Err(if bytes.iter().all(|byte| *byte == 0) {
                InvalidHeader::Zero
            } else {
                InvalidHeader::Magic(magic)
            });
        }
        let id = u128_at(bytes, 0);
        if id == 0 || id != XxHash3_128::oneshot(&bytes[16..]) {
            return Err(InvalidHeader::Id);
        }
        if bytes[77] != FORMAT_VERSION {
            return Err(InvalidHeader::Version(bytes[77]));
        }
        let length = u32_at(bytes, 80);
        if (length as usize) < HEADER_SIZE || length as usize > ENTRY_SIZE_MAX {
            return Err(InvalidHeader::Length(length));
        }
        Ok(EntryHeader {
            id: EntryId(id),
            parent: EntryId(u128_at(bytes, 16)),
            cluster: ClusterId(u128_at(bytes, 32)),
            group: GroupId { number: u64_at(bytes, 48), life: u64_at(bytes, 56) },
            op: OpNumber(u64_at(bytes, 64)),
            view: ViewNumber(u32_at(bytes, 72)),
            kind: bytes[76],
            length,
            timestamp: u64_at(bytes, 88),
            client: u128_at(bytes, 96),
            session: u64_at(bytes, 112),
            request: u64_at(bytes, 120),
            body_hash: u64_at(bytes, 128),
            base_offset: u64_at(bytes, 136),
            segment: u64_at(bytes, 144),
            position: u64_at(bytes, 152),
            commit: OpNumber(u64_at(bytes, 160)),
            generation: u32_at(bytes, 168),
            count: u32_at(bytes, 172),
            user: u32_at(bytes, 176),
            config_epoch: u32_at(bytes, 180),
        })
    }

    /// Writes the header into the first [`HEADER_SIZE`] bytes of `bytes`, computes the id and returns it.
    fn seal(&mut self, bytes: &mut [u8]) {
        let out = &mut bytes[..HEADER_SIZE];
        out.fill(0);
        out[16..32].copy_from_slice(&self.parent.0.to_le_bytes());
        out[32..48].copy_from_slice(&self.cluster.0.to_le_bytes());
        out[48..56].copy_from_slice(&self.group.number.to_le_bytes());
        out[56..64].copy_from_slice(&self.group.life.to_le_bytes());
        out[64..72].copy_from_slice(&self.op.0.to_le_bytes());
        out[72..76].copy_from_slice(&self.view.0.to_le_bytes());
        out[76] = self.kind;
        out[77] = FORMAT_VERSION;
        out[80..84].copy_from_slice(&self.length.to_le_bytes());
        out[84..88].copy_from_slice(&MAGIC.to_le_bytes());
        out[88..96].copy_from_slice(&self.timestamp.to_le_bytes());
        out[96..112].copy_from_slice(&self.client.to_le_bytes());
        out[112..120].copy_from_slice(&self.session.to_le_bytes());
        out[120..128].copy_from_slice(&self.request.to_le_bytes());
        out[128..136].copy_from_slice(&self.body_hash.to_le_bytes());
        out[136..144].copy_from_slice(&self.base_offset.to_le_bytes());
        out[144..152].copy_from_slice(&self.segment.to_le_bytes());
        out[152..160].copy_from_slice(&self.position.to_le_bytes());
        out[160..168].copy_from_slice(&self.commit.0.to_le_bytes());
        out[168..172].copy_from_slice(&self.generation.to_le_bytes());
        out[172..176].copy_from_slice(&self.count.to_le_bytes());
        out[176..180].copy_from_slice(&self.user.to_le_bytes());
        out[180..184].copy_from_slice(&self.config_epoch.to_le_bytes());
        self.id = EntryId(XxHash3_128::oneshot(&out[16..]));
        out[..16].copy_from_slice(&self.id.0.to_le_bytes());
    }
}

/// What is to become an entry: everything but the numbers that ordering gives it.
#[derive(Debug)]
pub struct Draft {
    /// What the state machine makes of the body; not 0.
    pub kind: u8,
    /// Client that asked, 0 for the server itself.
    pub client: u128,
    /// Its session.
    pub session: u64,
    /// Its request number.
    pub request: u64,
    /// Acting user.
    pub user: u32,
    /// Hash of the body.
    pub body_hash: u64,
    /// Microseconds since 1970; must be greater than that of the head.
    pub timestamp: u64,
    /// Offset of the first message, for batches.
    pub base_offset: u64,
    /// Messages in the batch, for batches.
    pub count: u32,
    /// Generation of the log.
    pub generation: u32,
    /// First op of the segment where it will lie.
    pub segment: u64,
    /// Byte position in that segment.
    pub position: u64,
    /// [`HEADER_SIZE`] bytes of any content, then the body.
    pub bytes: BytesMut,
}

/// An entry with its bytes. Cheap to clone. The only ways to make one are sealing a [`Draft`] and [`Entry::decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    header: EntryHeader,
    bytes: Bytes,
}

/// The numbers that ordering gives an entry.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// Whose log.
    pub cluster: ClusterId,
    /// Whose log.
    pub group: GroupId,
    /// The next op.
    pub op: OpNumber,
    /// The present view.
    pub view: ViewNumber,
    /// Identity of the head.
    pub parent: EntryId,
    /// The present commit number.
    pub commit: OpNumber,
}

impl Entry {
    /// Gives a draft its place in the log and its identity.
    ///
    /// # Panics
    /// When the draft has no room for a header, no kind, or is larger than an entry may be: mistakes of ours.
    pub fn seal(draft: Draft, placement: Placement) -> Entry {
        let Draft {
            kind,
            client,
            session,
            request,
            user,
            body_hash,
            timestamp,
            base_offset,
            count,
            generation,
            segment,
            position,
            mut bytes,
        } = draft;
        assert!(kind != 0, "an entry has a kind");
        assert!(bytes.len() >= HEADER_SIZE && bytes.len() <= ENTRY_SIZE_MAX, "draft of {} bytes", bytes.len());
        let mut header = EntryHeader {
            id: EntryId::NONE,
            parent: placement.parent,
            cluster: placement.cluster,
            group: placement.group,
            op: placement.op,
            view: placement.view,
            kind,
            length: bytes.len() as u32,
            timestamp,
            client,
            session,
            request,
            body_hash,
            base_offset,
            segment,
            position,
            commit: placement.commit,
            generation,
            count,
            user,
            config_epoch: 0,
        };
        header.seal(&mut bytes);
        Entry { header, bytes: bytes.freeze() }
    }

    /// Reads an entry whose bytes are exactly `bytes`. The header is verified, the body is not: its hash depends on the kind.
    ///
    /// # Errors
    /// [`InvalidHeader`], [`InvalidHeader::Length`] also when `bytes` has another length than the header says.
    pub fn decode(bytes: Bytes) -> Result<Entry, InvalidHeader> {
        let header = EntryHeader::decode(&bytes)?;
        if header.length as usize != bytes.len() {
            return Err(InvalidHeader::Length(header.length));
        }
        Ok(Entry { header, bytes })
    }

    /// The fixed part.
    pub fn header(&self) -> &EntryHeader {
        &self.header
    }

    /// Header and body.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The body.
    pub fn body(&self) -> Bytes {
        self.bytes.slice(HEADER_SIZE..)
    }

    /// Position in the group's log.
    pub fn op(&self) -> OpNumber {
        self.header.op
    }

    /// Identity.
    pub fn id(&self) -> EntryId {
        self.header.id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(body: &[u8]) -> Entry {
        let mut bytes = BytesMut::zeroed(HEADER_SIZE);
        bytes.extend_from_slice(body);
        let draft = Draft {
            kind: 1,
            client: 0x1234,
            session: 5,
            request: 6,
            user: 7,
            body_hash: 8,
            timestamp: 9,
            base_offset: 10,
            count: 11,
            generation: 12,
            segment: 13,
            position: 14,
            bytes,
        };
        Entry::seal(
            draft,
            Placement {
                cluster: ClusterId(15),
                group: GroupId { number: 16, life: 17 },
                op: OpNumber(18),
                view: ViewNumber(19),
                parent: EntryId(20),
                commit: OpNumber(3),
            },
        )
    }

    #[test]
    fn round_trip() {
        let sealed = entry(b"body");
        let read = Entry::decode(sealed.bytes().clone()).expect("valid");
        assert_eq!(read, sealed);
        assert_eq!(read.body().as_ref(), b"body");
        assert_eq!(read.header().length as usize, HEADER_SIZE + 4);
        assert_ne!(read.id(), EntryId::NONE);
    }

    #[test]
    fn every_flipped_bit_of_the_header_is_seen() {
        let sealed = entry(b"body");
        for bit in 0..HEADER_SIZE * 8 {
            let mut bytes = sealed.bytes().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(EntryHeader::decode(&bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn zeros_and_short_input_are_no_header() {
        assert_eq!(EntryHeader::decode(&[0; 192]), Err(InvalidHeader::Zero));
        assert_eq!(EntryHeader::decode(&[1; 191]), Err(InvalidHeader::Short(191)));
    }
}
