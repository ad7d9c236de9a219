//! The replicated metadata: streams, topics, partitions, users and client sessions.

use crate::client_table::{CLIENTS_MAX, ClientTable, Preflight, SessionView};
use crate::command::{Envelope, PartitionGroup, PasswordHash};
use crate::free_ids::FreeIds;
use crate::options::{Durability, TopicOptions};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use whippet_protocol::{ErrorCode, Identifier, Name};

/// Id of the root user, who is created with the cluster.
pub const ROOT_USER: u32 = 0;

/// A stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stream {
    /// Its id, from 0 on; the lowest free one is reused after a delete.
    pub id: u32,
    /// Its name, unique.
    pub name: Name,
    /// Microseconds since 1970.
    pub created_at: u64,
    /// Topics by id.
    pub topics: BTreeMap<u32, Topic>,
    /// Ids of `topics` by name.
    #[serde(skip)]
    pub(crate) topic_names: BTreeMap<Box<str>, u32>,
    /// What is not in `topics`.
    #[serde(skip)]
    pub(crate) free_topics: FreeIds,
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topic {
    /// Its id within the stream, from 0 on; the lowest free one is reused after a delete.
    pub id: u32,
    /// Its name, unique within the stream.
    pub name: Name,
    /// Microseconds since 1970.
    pub created_at: u64,
    /// What was set and what follows from defaults.
    pub options: TopicOptions,
    /// Partitions; the index is the partition id.
    pub partitions: Vec<Partition>,
    /// Op of the last purge, 0 for never.
    pub purged_by: u64,
}

/// A partition of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// Its consensus group.
    pub group: PartitionGroup,
    /// Microseconds since 1970.
    pub created_at: u64,
}

/// All that a shard must know to host a partition's group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionSettings {
    /// Identity of the group.
    pub group: PartitionGroup,
    /// Stream id, as replies show it.
    pub stream: u32,
    /// Topic id, as replies show it.
    pub topic: u32,
    /// Partition id within the topic.
    pub partition: u32,
    /// Size at which a segment is sealed, in bytes.
    pub segment_size: u64,
    /// Whether an acknowledgement waits for fsync.
    pub persisted: bool,
    /// Whether a stored consumer offset waits for fsync.
    pub offsets_persisted: bool,
    /// Whether segments take all their space at once.
    pub preallocate: bool,
    /// Op of the last purge of the topic, 0 for never.
    pub purged_by: u64,
}

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Id, from 0 on; 0 is the root user.
    pub id: u32,
    /// Name of 3 to 50 bytes, unique.
    pub name: Name,
    /// Microseconds since 1970.
    pub created_at: u64,
    /// Whether the user may log in.
    pub active: bool,
    /// What a password is compared with.
    pub password_hash: PasswordHash,
}

/// The metadata of a cluster as of one op. See the crate's page for what it promises.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "crate::snapshot::Record")]
pub struct MetadataState {
    pub(crate) cluster: Box<str>,
    pub(crate) streams: BTreeMap<u32, Stream>,
    /// Ids of `streams` by name.
    pub(crate) stream_names: BTreeMap<Box<str>, u32>,
    /// What is not in `streams`.
    pub(crate) free_streams: FreeIds,
    pub(crate) users: BTreeMap<u32, User>,
    /// Ids of `users` by name.
    pub(crate) user_names: BTreeMap<Box<str>, u32>,
    pub(crate) clients: ClientTable,
    /// Number of the next partition group, above every number ever given out.
    pub(crate) next_group: u64,
    /// Op of the last applied command, 0 before the first.
    pub(crate) applied: u64,
    /// Microseconds since 1970; the highest that any applied command carried.
    pub(crate) timestamp: u64,
}

impl Default for MetadataState {
    fn default() -> Self {
        Self::new()
    }
}

impl MetadataState {
    /// The state before the first command, with room for [`CLIENTS_MAX`] client sessions.
    pub fn new() -> Self {
        Self::with_client_capacity(CLIENTS_MAX)
    }

    /// The state before the first command, with room for `clients` sessions. The capacity is part of the state: all
    /// replicas of a cluster must start with the same one.
    ///
    /// # Panics
    /// When `clients` is 0 or above [`CLIENTS_MAX`].
    pub fn with_client_capacity(clients: u32) -> Self {
        Self {
            cluster: "".into(),
            streams: BTreeMap::new(),
            stream_names: BTreeMap::new(),
            free_streams: FreeIds::default(),
            users: BTreeMap::new(),
            user_names: BTreeMap::new(),
            clients: ClientTable::new(clients),
            next_group: 1,
            applied: 0,
            timestamp: 0,
        }
    }

    /// Name of the cluster, empty before its bootstrap.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Op of the last applied command, 0 before the first.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// The highest timestamp that an applied command carried, in microseconds since 1970.
    pub fn timestamp(&self) -> u64 {
        self.timestamp
    }

    /// Streams in the order of their ids.
    pub fn streams(&self) -> impl ExactSizeIterator<Item = &Stream> {
        self.streams.values()
    }

    /// Users in the order of their ids.
    pub fn users(&self) -> impl ExactSizeIterator<Item = &User> {
        self.users.values()
    }

    /// The stream that is named so.
    ///
    /// # Errors
    /// [`ErrorCode::StreamIdNotFound`] when there is none.
    pub fn stream(&self, stream: &Identifier) -> Result<&Stream, ErrorCode> {
        match stream {
            Identifier::Id(id) => self.streams.get(id),
            Identifier::Name(name) => self.stream_names.get(name.as_str()).and_then(|id| self.streams.get(id)),
        }
        .ok_or(ErrorCode::StreamIdNotFound)
    }

    /// The topic that is named so, with its stream.
    ///
    /// # Errors
    /// [`ErrorCode::StreamIdNotFound`] or [`ErrorCode::TopicIdNotFound`] when there is none.
    pub fn topic(&self, stream: &Identifier, topic: &Identifier) -> Result<(&Stream, &Topic), ErrorCode> {
        let stream = self.stream(stream)?;
        Ok((stream, stream.topic(topic)?))
    }

    /// What a shard must know of the partition that is named so.
    ///
    /// # Errors
    /// [`ErrorCode::StreamIdNotFound`], [`ErrorCode::TopicIdNotFound`] or [`ErrorCode::PartitionNotFound`].
    pub fn partition(
        &self,
        stream: &Identifier,
        topic: &Identifier,
        partition: u32,
    ) -> Result<PartitionSettings, ErrorCode> {
        let (stream, topic) = self.topic(stream, topic)?;
        topic.partition_settings(stream.id, partition).ok_or(ErrorCode::PartitionNotFound)
    }

    /// What shards must know of every partition, in the order of stream, topic and partition ids.
    pub fn all_partitions(&self) -> impl Iterator<Item = PartitionSettings> {
        self.streams.values().flat_map(|stream| {
            stream.topics.values().flat_map(|topic| {
                let ids = 0..topic.partitions.len() as u32;
                ids.filter_map(|partition| topic.partition_settings(stream.id, partition))
            })
        })
    }

    /// The user with this id.
    pub fn user(&self, id: u32) -> Option<&User> {
        self.users.get(&id)
    }

    /// The user with this name.
    pub fn user_by_name(&self, name: &str) -> Option<&User> {
        self.user_names.get(name).and_then(|id| self.users.get(id))
    }

    /// The session of this client, if it has one.
    pub fn session(&self, client: u128) -> Option<SessionView> {
        self.clients.session(client)
    }

    /// Number that the next partition group will get; every smaller one was given out once.
    pub fn next_group_number(&self) -> u64 {
        self.next_group
    }

    /// Number of client sessions.
    pub fn sessions(&self) -> usize {
        self.clients.len()
    }

    /// Whether `envelope` is new, a retry or not acceptable, as far as this state knows. A primary asks before it
    /// proposes, once everything that it inherited is applied; `apply` asks again.
    pub fn preflight(&self, envelope: &Envelope) -> Preflight {
        self.clients.preflight(envelope)
    }
}

impl Stream {
    /// The topic that is named so.
    ///
    /// # Errors
    /// [`ErrorCode::TopicIdNotFound`] when there is none.
    pub fn topic(&self, topic: &Identifier) -> Result<&Topic, ErrorCode> {
        match topic {
            Identifier::Id(id) => self.topics.get(id),
            Identifier::Name(name) => self.topic_names.get(name.as_str()).and_then(|id| self.topics.get(id)),
        }
        .ok_or(ErrorCode::TopicIdNotFound)
    }
}

impl Topic {
    /// What a shard must know of one partition of this topic, which is in stream `stream`. `None` past the last partition.
    pub fn partition_settings(&self, stream: u32, partition: u32) -> Option<PartitionSettings> {
        let group = self.partitions.get(partition as usize)?.group;
        Some(PartitionSettings {
            group,
            stream,
            topic: self.id,
            partition,
            segment_size: self.options.segment_size(),
            persisted: self.options.durability() == Durability::Persisted,
            offsets_persisted: self.options.consumer_offset_durability() == Durability::Persisted,
            preallocate: self.options.preallocate_segments(),
            purged_by: self.purged_by,
        })
    }
}
