//! Bytes of a [`Message`], as they travel between nodes. All integers are little-endian.
//!
//! ```text
//!  0 checksum u64   XXH3-64 of the rest         48 view u32, config_epoch u32
//!  8 magic u32, version u8, kind u8, from u8, 0 56 body, as its kind has it
//! 16 cluster u128
//! 32 group number u64, group life u64
//! ```
//!
//! | kind | body |
//! | --- | --- |
//! | 1 prepare | commit u64, entry to the end |
//! | 2 prepare ok | op u64, id u128, applied u64 |
//! | 3 commit | commit u64, id u128, head u64, head_id u128 |
//! | 4 suspect | target u32 |
//! | 5 vote | log_view u32, head u64, head_id u128, unknown_to u64, commit u64, suffix |
//! | 6 start view | head u64, head_id u128, commit u64, answers u8 and u128, suffix |
//! | 7 probe | incarnation u128 |
//! | 8 fetch | from u64, to u64, to_id u128 |
//! | 9 entry | entry to the end |
//! | 10 fetch snapshot | first_op u64, position u64 |
//! | 11 snapshot | first_op u64, parent u128, timestamp u64, length u64, checksum u128, position u64, chunk to the end |
//!
//! A suffix is floor u64, count u32, and so many ids u128.

use crate::entry::Entry;
use crate::id::{ClusterId, EntryId, GroupId, OpNumber, ReplicaId, ViewNumber};
use crate::message::{
    CHUNK_MAX, Envelope, Message, MessageBody, SNAPSHOT_MAX, SUFFIX_MAX, SnapshotInfo, StartView, Suffix, Vote,
};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use twox_hash::XxHash3_64;

const MAGIC: u32 = 0x6d56_5357;
/// Version of the messages that this program speaks.
pub const MESSAGE_VERSION: u8 = 1;
const HEADER: usize = 56;

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMessage {
    /// Fewer bytes than it says or needs.
    #[error("the message is cut off")]
    Short,
    /// Not a message, or changed on the way.
    #[error("the message does not match its checksum")]
    Checksum,
    /// From a program that speaks another version.
    #[error("message version {0}, this program speaks {MESSAGE_VERSION}")]
    Version(u8),
    /// Of no kind that this program knows.
    #[error("message kind {0} is not known")]
    Kind(u8),
    /// A number that no message has.
    #[error("the message holds a number that is out of range")]
    Range,
    /// More bytes than its kind has.
    #[error("{0} bytes follow the message")]
    Rest(usize),
}

impl Message {
    /// Appends the message's bytes.
    pub fn encode(&self, out: &mut BytesMut) {
        let start = out.len();
        let Envelope { cluster, group, view, from, config_epoch } = self.envelope;
        out.put_u64_le(0);
        out.put_u32_le(MAGIC);
        out.put_slice(&[MESSAGE_VERSION, kind(&self.body), from.0, 0]);
        out.put_u128_le(cluster.0);
        out.put_u64_le(group.number);
        out.put_u64_le(group.life);
        out.put_u32_le(view.0);
        out.put_u32_le(config_epoch);
        debug_assert_eq!(out.len() - start, HEADER);
        encode_body(&self.body, out);
        let checksum = XxHash3_64::oneshot(&out[start + 8..]);
        out[start..start + 8].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Reads a message whose bytes are exactly `bytes`. Entries and chunks share them.
    ///
    /// # Errors
    /// [`InvalidMessage`]. Memory beyond `bytes` is taken only for ids that are there.
    pub fn decode(bytes: Bytes) -> Result<Message, InvalidMessage> {
        if bytes.len() < HEADER {
            return Err(InvalidMessage::Short);
        }
        let mut rest = bytes.clone();
        let checksum = rest.get_u64_le();
        if checksum != XxHash3_64::oneshot(&bytes[8..]) || rest.get_u32_le() != MAGIC {
            return Err(InvalidMessage::Checksum);
        }
        let (version, kind, from, reserved) = (rest.get_u8(), rest.get_u8(), rest.get_u8(), rest.get_u8());
        if version != MESSAGE_VERSION {
            return Err(InvalidMessage::Version(version));
        }
        if reserved != 0 {
            return Err(InvalidMessage::Range);
        }
        let envelope = Envelope {
            cluster: ClusterId(rest.get_u128_le()),
            group: GroupId { number: rest.get_u64_le(), life: rest.get_u64_le() },
            view: ViewNumber(rest.get_u32_le()),
            from: ReplicaId(from),
            config_epoch: rest.get_u32_le(),
        };
        let body = decode_body(kind, &mut rest)?;
        if rest.has_remaining() {
            return Err(InvalidMessage::Rest(rest.remaining()));
        }
        Ok(Message { envelope, body })
    }
}

fn kind(body: &MessageBody) -> u8 {
    match body {
        MessageBody::Prepare { .. } => 1,
        MessageBody::PrepareOk { .. } => 2,
        MessageBody::Commit { .. } => 3,
        MessageBody::Suspect { .. } => 4,
        MessageBody::Vote(_) => 5,
        MessageBody::StartView(_) => 6,
        MessageBody::Probe { .. } => 7,
        MessageBody::Fetch { .. } => 8,
        MessageBody::Entry(_) => 9,
        MessageBody::FetchSnapshot { .. } => 10,
        MessageBody::Snapshot { .. } => 11,
    }
}

fn encode_body(body: &MessageBody, out: &mut BytesMut) {
    match body {
        MessageBody::Prepare { entry, commit } => {
            out.put_u64_le(commit.0);
            out.put_slice(entry.bytes());
        }
        MessageBody::PrepareOk { op, id, applied } => {
            out.put_u64_le(op.0);
            out.put_u128_le(id.0);
            out.put_u64_le(applied.0);
        }
        MessageBody::Commit { commit, id, head, head_id } => {
            out.put_u64_le(commit.0);
            out.put_u128_le(id.0);
            out.put_u64_le(head.0);
            out.put_u128_le(head_id.0);
        }
        MessageBody::Suspect { target } => out.put_u32_le(target.0),
        MessageBody::Vote(vote) => {
            out.put_u32_le(vote.log_view.0);
            out.put_u64_le(vote.head.0);
            out.put_u128_le(vote.head_id.0);
            out.put_u64_le(vote.unknown_to.0);
            out.put_u64_le(vote.commit.0);
            encode_suffix(&vote.suffix, out);
        }
        MessageBody::StartView(start) => {
            out.put_u64_le(start.head.0);
            out.put_u128_le(start.head_id.0);
            out.put_u64_le(start.commit.0);
            out.put_u8(u8::from(start.answers.is_some()));
            out.put_u128_le(start.answers.unwrap_or(0));
            encode_suffix(&start.suffix, out);
        }
        MessageBody::Probe { incarnation } => out.put_u128_le(*incarnation),
        MessageBody::Fetch { from, to, to_id } => {
            out.put_u64_le(from.0);
            out.put_u64_le(to.0);
            out.put_u128_le(to_id.0);
        }
        MessageBody::Entry(entry) => out.put_slice(entry.bytes()),
        MessageBody::FetchSnapshot { first_op, position } => {
            out.put_u64_le(first_op.0);
            out.put_u64_le(*position);
        }
        MessageBody::Snapshot { info, position, chunk } => {
            out.put_u64_le(info.first_op.0);
            out.put_u128_le(info.parent.0);
            out.put_u64_le(info.timestamp);
            out.put_u64_le(info.length);
            out.put_u128_le(info.checksum);
            out.put_u64_le(*position);
            out.put_slice(chunk);
        }
    }
}

fn encode_suffix(suffix: &Suffix, out: &mut BytesMut) {
    out.put_u64_le(suffix.floor.0);
    out.put_u32_le(suffix.ids.len() as u32);
    for id in &suffix.ids {
        out.put_u128_le(id.0);
    }
}

fn u8(rest: &mut Bytes) -> Result<u8, InvalidMessage> {
    rest.try_get_u8().map_err(|_| InvalidMessage::Short)
}

fn u32(rest: &mut Bytes) -> Result<u32, InvalidMessage> {
    rest.try_get_u32_le().map_err(|_| InvalidMessage::Short)
}

fn u64(rest: &mut Bytes) -> Result<u64, InvalidMessage> {
    rest.try_get_u64_le().map_err(|_| InvalidMessage::Short)
}

fn u128(rest: &mut Bytes) -> Result<u128, InvalidMessage> {
    rest.try_get_u128_le().map_err(|_| InvalidMessage::Short)
}

fn op(rest: &mut Bytes) -> Result<OpNumber, InvalidMessage> {
    u64(rest).map(OpNumber)
}

fn id(rest: &mut Bytes) -> Result<EntryId, InvalidMessage> {
    u128(rest).map(EntryId)
}

fn view(rest: &mut Bytes) -> Result<ViewNumber, InvalidMessage> {
    u32(rest).map(ViewNumber)
}

fn entry(rest: &mut Bytes) -> Result<Entry, InvalidMessage> {
    Entry::decode(rest.split_off(0)).map_err(|_| InvalidMessage::Range)
}

fn suffix(rest: &mut Bytes) -> Result<Suffix, InvalidMessage> {
    let (floor, count) = (op(rest)?, u32(rest)? as usize);
    if count > SUFFIX_MAX {
        return Err(InvalidMessage::Range);
    }
    if rest.remaining() < count * 16 {
        return Err(InvalidMessage::Short);
    }
    let ids = (0..count).map(|_| id(rest)).collect::<Result<_, _>>()?;
    Ok(Suffix { floor, ids })
}

fn decode_body(kind: u8, rest: &mut Bytes) -> Result<MessageBody, InvalidMessage> {
    Ok(match kind {
        1 => {
            let commit = op(rest)?;
            MessageBody::Prepare { entry: entry(rest)?, commit }
        }
        2 => MessageBody::PrepareOk { op: op(rest)?, id: id(rest)?, applied: op(rest)? },
        3 => MessageBody::Commit { commit: op(rest)?, id: id(rest)?, head: op(rest)?, head_id: id(rest)? },
        4 => MessageBody::Suspect { target: view(rest)? },
        5 => MessageBody::Vote(Vote {
            log_view: view(rest)?,
            head: op(rest)?,
            head_id: id(rest)?,
            unknown_to: op(rest)?,
            commit: op(rest)?,
            suffix: suffix(rest)?,
        }),
        6 => {
            let (head, head_id, commit) = (op(rest)?, id(rest)?, op(rest)?);
            let (answered, incarnation) = (u8(rest)?, u128(rest)?);
            let answers = match answered {
                0 if incarnation == 0 => None,
                1 => Some(incarnation),
                _ => return Err(InvalidMessage::Range),
            };
            MessageBody::StartView(StartView { head, head_id, commit, suffix: suffix(rest)?, answers })
        }
        7 => MessageBody::Probe { incarnation: u128(rest)? },
        8 => MessageBody::Fetch { from: op(rest)?, to: op(rest)?, to_id: id(rest)? },
        9 => MessageBody::Entry(entry(rest)?),
        10 => MessageBody::FetchSnapshot { first_op: op(rest)?, position: u64(rest)? },
        11 => {
            let info = SnapshotInfo {
                first_op: op(rest)?,
                parent: id(rest)?,
                timestamp: u64(rest)?,
                length: u64(rest)?,
                checksum: u128(rest)?,
            };
            let position = u64(rest)?;
            // Whether the part lies within the whole, the receiver checks with the rest of the numbers.
            if rest.remaining() > CHUNK_MAX || info.length > SNAPSHOT_MAX {
                return Err(InvalidMessage::Range);
            }
            MessageBody::Snapshot { info, position, chunk: rest.split_off(0) }
        }
        other => return Err(InvalidMessage::Kind(other)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Draft, HEADER_SIZE, Placement};
    use proptest::prelude::*;

    fn sealed(op: u64, body: &[u8]) -> Entry {
        let mut bytes = BytesMut::zeroed(HEADER_SIZE);
        bytes.extend_from_slice(body);
        let draft = Draft {
            kind: 1,
            client: 1,
            session: 2,
            request: 3,
            user: 4,
            body_hash: 5,
            timestamp: 6,
            base_offset: 7,
            count: 8,
            generation: 9,
            segment: 1,
            position: 0,
            bytes,
        };
        let placement = Placement {
            cluster: ClusterId(1),
            group: GroupId { number: 2, life: 3 },
            op: OpNumber(op),
            view: ViewNumber(4),
            parent: EntryId(5),
            commit: OpNumber(0),
        };
        Entry::seal(draft, placement)
    }

    fn bodies() -> impl Strategy<Value = MessageBody> {
        let suffix = (any::<u64>(), prop::collection::vec(any::<u128>(), 0..20))
            .prop_map(|(floor, ids)| Suffix { floor: OpNumber(floor), ids: ids.into_iter().map(EntryId).collect() });
        let entry = (1..u64::MAX, prop::collection::vec(any::<u8>(), 0..300)).prop_map(|(op, body)| sealed(op, &body));
        let op = || any::<u64>().prop_map(OpNumber);
        let id = || any::<u128>().prop_map(EntryId);
        let view = || any::<u32>().prop_map(ViewNumber);
        prop_oneof![
            (entry.clone(), op()).prop_map(|(entry, commit)| MessageBody::Prepare { entry, commit }),
            (op(), id(), op()).prop_map(|(op, id, applied)| MessageBody::PrepareOk { op, id, applied }),
            (op(), id(), op(), id()).prop_map(|(commit, id, head, head_id)| MessageBody::Commit {
                commit,
                id,
                head,
                head_id
            }),
            view().prop_map(|target| MessageBody::Suspect { target }),
            (view(), op(), id(), op(), op(), suffix.clone()).prop_map(
                |(log_view, head, head_id, unknown_to, commit, suffix)| {
                    MessageBody::Vote(Vote { log_view, head, head_id, unknown_to, commit, suffix })
                }
            ),
            (op(), id(), op(), suffix, any::<Option<u128>>()).prop_map(|(head, head_id, commit, suffix, answers)| {
                MessageBody::StartView(StartView { head, head_id, commit, suffix, answers })
            }),
            any::<u128>().prop_map(|incarnation| MessageBody::Probe { incarnation }),
            (op(), op(), id()).prop_map(|(from, to, to_id)| MessageBody::Fetch { from, to, to_id }),
            entry.prop_map(MessageBody::Entry),
            (op(), any::<u64>()).prop_map(|(first_op, position)| MessageBody::FetchSnapshot { first_op, position }),
            (op(), id(), 0..=SNAPSHOT_MAX, any::<u64>(), prop::collection::vec(any::<u8>(), 0..300)).prop_map(
                |(first_op, parent, length, position, chunk)| MessageBody::Snapshot {
                    info: SnapshotInfo { first_op, parent, timestamp: position, length, checksum: parent.0 },
                    position,
                    chunk: chunk.into(),
                }
            ),
        ]
    }

    fn message(body: MessageBody) -> Message {
        let envelope = Envelope {
            cluster: ClusterId(77),
            group: GroupId { number: 8, life: 9 },
            view: ViewNumber(10),
            from: ReplicaId(2),
            config_epoch: 11,
        };
        Message { envelope, body }
    }

    proptest! {
        #[test]
        fn every_kind_round_trips_and_any_flipped_bit_or_cut_is_seen(body in bodies(), bit: usize, cut: usize) {
            let sent = message(body);
            let mut out = BytesMut::new();
            sent.encode(&mut out);
            prop_assert_eq!(Message::decode(out.clone().freeze()), Ok(sent));
            let length = out.len();
            prop_assert!(Message::decode(out.clone().freeze().slice(..cut % length)).is_err());
            let bit = bit % (length * 8);
            out[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Message::decode(out.freeze()).is_err());
        }

        /// The checksum is right, the rest is anything: refused or read, never a panic, and read means written the same.
        #[test]
        fn garbage_is_refused_or_read(kind in 0u8..14, rest in prop::collection::vec(any::<u8>(), 0..600)) {
            let mut out = BytesMut::new();
            message(MessageBody::Suspect { target: ViewNumber(1) }).encode(&mut out);
            out.truncate(HEADER);
            out[13] = kind;
            out.extend_from_slice(&rest);
            let checksum = XxHash3_64::oneshot(&out[8..]);
            out[..8].copy_from_slice(&checksum.to_le_bytes());
            if let Ok(read) = Message::decode(out.clone().freeze()) {
                let mut again = BytesMut::new();
                read.encode(&mut again);
                prop_assert_eq!(again, out);
            }
        }

        #[test]
        fn bytes_of_anything_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Message::decode(bytes.into()).is_err());
        }
    }
}
