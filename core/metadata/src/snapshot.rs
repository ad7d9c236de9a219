//! Snapshots: the whole state as bytes, and back.
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 8 | magic `WHPMETA\0` |
//! | 8 | 4 | format version, little-endian |
//! | 12 | 8 | length of the body, little-endian |
//! | 20 | 8 | XxHash3-64 of the body, little-endian |
//! | 28 | | body: the state in postcard form |
//!
//! Equal states have equal snapshots. Nothing that can be recomputed is stored, and nothing that is read is believed: a
//! body whose parts contradict each other is refused.

use crate::client_table::{ClientTable, ClientTableRecord};
use crate::free_ids::FreeIds;
use crate::state::{MetadataState, Stream, Topic, User};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use twox_hash::XxHash3_64;
use whippet_protocol::{Name, limits};

/// First bytes of a snapshot.
pub const MAGIC: [u8; 8] = *b"WHPMETA\0";
/// Version of the format, which a reader must know exactly.
pub const VERSION: u32 = 1;
/// Bytes before the body.
pub const HEADER_SIZE: usize = 28;

/// Bound of ops and group numbers that a snapshot may hold, far above any real one and far from overflow.
const NUMBER_MAX: u64 = 1 << 62;

/// Why bytes are no snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// They do not start as one.
    #[error("the bytes are not a metadata snapshot")]
    NotASnapshot,
    /// They were written by another version.
    #[error("the metadata snapshot has format version {found}, this server reads version {VERSION}")]
    Version {
        /// Version of the bytes.
        found: u32,
    },
    /// There are more or fewer bytes than the header says.
    #[error("the body of the metadata snapshot has {found} bytes instead of {expected}: it is cut off or mixed up")]
    Length {
        /// Bytes that the header announces.
        expected: u64,
        /// Bytes that are there.
        found: u64,
    },
    /// The body was damaged.
    #[error("the checksum of the metadata snapshot does not match: it is damaged")]
    Checksum,
    /// The body cannot be decoded.
    #[error("the metadata snapshot cannot be decoded: {0}")]
    Encoding(postcard::Error),
    /// The body contradicts itself.
    #[error("the metadata snapshot contradicts itself: {0}")]
    Inconsistent(Inconsistent),
}

/// What is contradictory in a decoded state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Inconsistent(&'static str);

impl MetadataState {
    /// The state as bytes, in the format of this module.
    pub fn snapshot(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_SIZE];
        bytes = postcard::to_extend(self, bytes).expect("a state has no part that postcard cannot encode");
        let (header, body) = bytes.split_at_mut(HEADER_SIZE);
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[12..20].copy_from_slice(&(body.len() as u64).to_le_bytes());
        header[20..28].copy_from_slice(&XxHash3_64::oneshot(body).to_le_bytes());
        bytes
    }

    /// The state that [`MetadataState::snapshot`] wrote.
    ///
    /// # Errors
    /// [`SnapshotError`] for all other bytes, also hostile ones.
    pub fn restore(bytes: &[u8]) -> Result<MetadataState, SnapshotError> {
        let (magic, rest) = bytes.split_first_chunk::<8>().ok_or(SnapshotError::NotASnapshot)?;
        if *magic != MAGIC {
            return Err(SnapshotError::NotASnapshot);
        }
        let (version, rest) = rest.split_first_chunk().ok_or(SnapshotError::NotASnapshot)?;
        let found = u32::from_le_bytes(*version);
        if found != VERSION {
            return Err(SnapshotError::Version { found });
        }
        let (length, rest) = rest.split_first_chunk().ok_or(SnapshotError::NotASnapshot)?;
        let (checksum, body) = rest.split_first_chunk().ok_or(SnapshotError::NotASnapshot)?;
        let (expected, found) = (u64::from_le_bytes(*length), body.len() as u64);
        if expected != found {
            return Err(SnapshotError::Length { expected, found });
        }
        if XxHash3_64::oneshot(body) != u64::from_le_bytes(*checksum) {
            return Err(SnapshotError::Checksum);
        }
        let (record, rest) = postcard::take_from_bytes::<Record>(body).map_err(SnapshotError::Encoding)?;
        if !rest.is_empty() {
            return Err(SnapshotError::Inconsistent(Inconsistent("there are bytes after the state")));
        }
        MetadataState::try_from(record).map_err(SnapshotError::Inconsistent)
    }

    /// Hash of the snapshot: equal states have equal digests.
    pub fn digest(&self) -> u64 {
        XxHash3_64::oneshot(&self.snapshot())
    }
}

/// The parts of a state that are stored, in order. Must mirror [`Record`].
#[derive(Serialize)]
struct RecordRef<'a> {
    cluster: &'a str,
    streams: &'a BTreeMap<u32, Stream>,
    users: &'a BTreeMap<u32, User>,
    clients: &'a ClientTable,
    next_group: u64,
    applied: u64,
    timestamp: u64,
}

impl Serialize for MetadataState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RecordRef {
            cluster: &self.cluster,
            streams: &self.streams,
            users: &self.users,
            clients: &self.clients,
            next_group: self.next_group,
            applied: self.applied,
            timestamp: self.timestamp,
        }
        .serialize(serializer)
    }
}

/// A stored state before it is known to be consistent.
#[derive(Deserialize)]
pub(crate) struct Record {
    cluster: Box<str>,
    streams: BTreeMap<u32, StreamRecord>,
    users: BTreeMap<u32, User>,
    clients: ClientTableRecord,
    next_group: u64,
    applied: u64,
    timestamp: u64,
}

#[derive(Deserialize)]
struct StreamRecord {
    id: u32,
    name: Name,
    created_at: u64,
    topics: BTreeMap<u32, Topic>,
}

impl TryFrom<Record> for MetadataState {
    type Error = Inconsistent;

    fn try_from(record: Record) -> Result<Self, Inconsistent> {
        ensure(record.applied <= NUMBER_MAX && record.next_group <= NUMBER_MAX, "a number is out of range")?;
        ensure(record.next_group > 0, "group numbers start at 1")?;
        ensure(record.streams.len() <= limits::STREAMS_MAX as usize, "there are too many streams")?;
        ensure(record.streams.keys().all(|&id| id < limits::STREAMS_MAX), "a stream id is out of range")?;

        let mut groups = BTreeSet::new();
        let mut streams = BTreeMap::new();
        for (id, stream) in record.streams {
            ensure(id == stream.id, "a stream is stored under the id of another")?;
            for topic in stream.topics.values() {
                check_groups(topic, &mut groups, record.next_group, record.applied)?;
            }
            streams.insert(id, stream.index()?);
        }
        for (&id, user) in &record.users {
            ensure(id == user.id, "a user is stored under the id of another")?;
        }
        let stream_names = names(streams.values().map(|stream| (&stream.name, stream.id)))?;
        let user_names = names(record.users.values().map(|user| (&user.name, user.id)))?;
        Ok(Self {
            cluster: record.cluster,
            free_streams: FreeIds::without(streams.keys().copied()),
            streams,
            stream_names,
            users: record.users,
            user_names,
            clients: record.clients.check(record.applied).map_err(Inconsistent)?,
            next_group: record.next_group,
            applied: record.applied,
            timestamp: record.timestamp,
        })
    }
}

impl StreamRecord {
    fn index(self) -> Result<Stream, Inconsistent> {
        ensure(self.topics.keys().all(|&id| id < limits::TOPICS_PER_STREAM_MAX), "a topic id is out of range")?;
        for (&id, topic) in &self.topics {
            ensure(id == topic.id, "a topic is stored under the id of another")?;
        }
        Ok(Stream {
            id: self.id,
            name: self.name,
            created_at: self.created_at,
            topic_names: names(self.topics.values().map(|topic| (&topic.name, topic.id)))?,
            free_topics: FreeIds::without(self.topics.keys().copied()),
            topics: self.topics,
        })
    }
}

fn check_groups(topic: &Topic, groups: &mut BTreeSet<u64>, next: u64, applied: u64) -> Result<(), Inconsistent> {
    ensure(topic.partitions.len() <= limits::PARTITIONS_PER_TOPIC_MAX as usize, "a topic has too many partitions")?;
    ensure(topic.purged_by <= applied, "a topic was purged by an op that is not applied")?;
    let options = topic.options.check(topic.partitions.len() as u32);
    ensure(options.is_ok(), "the options of a topic are outside their limits")?;
    for partition in &topic.partitions {
        let group = partition.group;
        ensure((1..next).contains(&group.number), "a group number was never given out")?;
        ensure((1..=applied).contains(&group.life), "a group was created by an op that is not applied")?;
        ensure(groups.insert(group.number), "two partitions share a group")?;
    }
    Ok(())
}

fn names<'a>(named: impl Iterator<Item = (&'a Name, u32)>) -> Result<BTreeMap<Box<str>, u32>, Inconsistent> {
    let mut index = BTreeMap::new();
    for (name, id) in named {
        ensure(index.insert(name.as_str().into(), id).is_none(), "a name is used twice")?;
    }
    Ok(index)
}

fn ensure(holds: bool, what: &'static str) -> Result<(), Inconsistent> {
    if holds { Ok(()) } else { Err(Inconsistent(what)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, Envelope, PasswordHash};
    use whippet_protocol::Identifier;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    /// Two streams, the second with two topics of one partition each.
    fn record() -> Record {
        let topic = |text| Command::CreateTopic {
            stream: Identifier::Id(1),
            name: name(text),
            partitions: 1,
            options: Default::default(),
        };
        let commands = [
            Command::Bootstrap { cluster: "c".into(), root: name("root"), password_hash: PasswordHash("h".into()) },
            Command::CreateStream { name: name("a") },
            Command::CreateStream { name: name("b") },
            topic("t"),
            topic("u"),
        ];
        let mut state = MetadataState::new();
        for (op, command) in (1..).zip(commands) {
            let envelope = Envelope { client: 0, session: 0, request: 0, checksum: 0, user: 0, command };
            assert!(state.apply(op, op, &envelope).outcome.is_ok());
        }
        postcard::from_bytes(&state.snapshot()[HEADER_SIZE..]).unwrap()
    }

    fn topic(record: &mut Record, id: u32) -> &mut Topic {
        record.streams.get_mut(&1).unwrap().topics.get_mut(&id).unwrap()
    }

    #[test]
    fn a_state_that_contradicts_itself_is_refused() {
        type Damage = fn(&mut Record);
        let cases: &[(Damage, &str)] = &[
            (|r| r.applied = u64::MAX, "a number is out of range"),
            (|r| r.next_group = u64::MAX, "a number is out of range"),
            (|r| r.next_group = 0, "group numbers start at 1"),
            (|r| r.next_group = 2, "a group number was never given out"),
            (|r| r.applied = 4, "a group was created by an op that is not applied"),
            (|r| topic(r, 1).partitions[0].group.life = 0, "a group was created by an op that is not applied"),
            (|r| topic(r, 1).partitions[0].group.number = 1, "two partitions share a group"),
            (|r| topic(r, 1).partitions[0].group.number = 0, "a group number was never given out"),
            (|r| topic(r, 0).purged_by = 6, "a topic was purged by an op that is not applied"),
            (|r| topic(r, 0).id = 1, "a topic is stored under the id of another"),
            (|r| topic(r, 0).name = name("u"), "a name is used twice"),
            (|r| r.streams.get_mut(&0).unwrap().id = 1, "a stream is stored under the id of another"),
            (|r| r.streams.get_mut(&0).unwrap().name = name("b"), "a name is used twice"),
            (|r| r.users.get_mut(&0).unwrap().id = 1, "a user is stored under the id of another"),
            (
                |r| {
                    let stream = r.streams.remove(&0).unwrap();
                    r.streams.insert(limits::STREAMS_MAX, StreamRecord { id: limits::STREAMS_MAX, ..stream });
                },
                "a stream id is out of range",
            ),
            (
                |r| {
                    let id = limits::TOPICS_PER_STREAM_MAX;
                    let moved = Topic { id, ..topic(r, 0).clone() };
                    let topics = &mut r.streams.get_mut(&1).unwrap().topics;
                    topics.remove(&0);
                    topics.insert(id, moved);
                },
                "a topic id is out of range",
            ),
            (
                |r| {
                    let topic = topic(r, 0);
                    topic.partitions = vec![topic.partitions[0]; limits::PARTITIONS_PER_TOPIC_MAX as usize + 1];
                },
                "a topic has too many partitions",
            ),
        ];
        assert!(MetadataState::try_from(record()).is_ok());
        for (number, (damage, expected)) in cases.iter().enumerate() {
            let mut record = record();
            damage(&mut record);
            assert_eq!(MetadataState::try_from(record), Err(Inconsistent(expected)), "case {number}");
        }
    }
}
