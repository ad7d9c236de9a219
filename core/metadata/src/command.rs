//! What the metadata log holds: one [`Envelope`] a record.

use crate::options::TopicOptionsPatch;
use serde::{Deserialize, Serialize};
use whippet_protocol::{ErrorCode, Identifier, Name};

/// A command together with who asked for it; the body of a metadata log record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The client's id; 0 for the server's own commands, which no retry can repeat.
    pub client: u128,
    /// Session number that the client was given by `Register`; 0 for `Register` itself and for the server's own commands.
    pub session: u64,
    /// The client's request number; 0 for `Register` and for the server's own commands.
    pub request: u64,
    /// Hash of the request body, 0 when the front end has none: a repeated number with another hash is refused.
    pub checksum: u64,
    /// Acting user.
    pub user: u32,
    /// What to do.
    pub command: Command,
}

/// A change of the metadata. Entities are named as the client named them and resolved when the command is applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// The first command of a cluster: its name and the root user. Refused when there already is a root user.
    Bootstrap {
        /// Name of the cluster.
        cluster: Box<str>,
        /// Name of the root user.
        root: Name,
        /// Argon2id hash in PHC form.
        password_hash: PasswordHash,
    },
    /// Opens a session for `Envelope::client`, owned by `Envelope::user`. The op of this command is the session number.
    Register,
    /// Ends the session of `Envelope::client`.
    Logout,
    /// Creates a stream.
    CreateStream {
        /// Unique name.
        name: Name,
    },
    /// Renames a stream.
    UpdateStream {
        /// Which.
        stream: Identifier,
        /// New name; the present one is allowed.
        name: Name,
    },
    /// Deletes a stream with all its topics.
    DeleteStream {
        /// Which.
        stream: Identifier,
    },
    /// Empties every partition of every topic of the stream.
    PurgeStream {
        /// Which.
        stream: Identifier,
    },
    /// Creates a topic with its partitions.
    CreateTopic {
        /// In which stream.
        stream: Identifier,
        /// Unique name within the stream.
        name: Name,
        /// Number of partitions, 0 to 1000.
        partitions: u32,
        /// Options that were set; validated before replication.
        options: TopicOptionsPatch,
    },
    /// Renames a topic and changes its updatable options; absent options stay.
    UpdateTopic {
        /// In which stream.
        stream: Identifier,
        /// Which.
        topic: Identifier,
        /// New name; the present one is allowed.
        name: Name,
        /// Options to change.
        options: TopicOptionsPatch,
    },
    /// Deletes a topic.
    DeleteTopic {
        /// In which stream.
        stream: Identifier,
        /// Which.
        topic: Identifier,
    },
    /// Empties every partition of the topic.
    PurgeTopic {
        /// In which stream.
        stream: Identifier,
        /// Which.
        topic: Identifier,
    },
    /// Adds partitions at the end.
    CreatePartitions {
        /// In which stream.
        stream: Identifier,
        /// Which topic.
        topic: Identifier,
        /// How many, 1 to 1000.
        count: u32,
    },
    /// Removes the partitions with the highest ids.
    DeletePartitions {
        /// In which stream.
        stream: Identifier,
        /// Which topic.
        topic: Identifier,
        /// How many, 1 to 1000.
        count: u32,
    },
}

/// An Argon2id hash in PHC text form. Never shown by `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasswordHash(pub Box<str>);

impl std::fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}

/// Identity of one life of a partition's consensus group: a number that the metadata log allocated, and the op that did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PartitionGroup {
    /// Number of the group, from 1 on, never reused.
    pub number: u64,
    /// Op of the metadata command that created it.
    pub life: u64,
}

/// What a command did, as its client is told and as the client table remembers it for retries.
pub type Outcome = Result<Done, ErrorCode>;

/// The success side of an [`Outcome`]. Holds all that a reply needs, so that a retry is answered with the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Done {
    /// Nothing to report beyond success.
    Empty,
    /// A session was opened.
    Registered {
        /// Its number.
        session: u64,
    },
    /// A stream was created.
    StreamCreated {
        /// Its id.
        id: u32,
        /// Microseconds since 1970.
        created_at: u64,
        /// Its name.
        name: Name,
    },
    /// A topic was created.
    TopicCreated {
        /// Id of its stream.
        stream: u32,
        /// The topic as it was created.
        topic: crate::state::Topic,
    },
    /// Partitions were emptied by metadata, and must now be emptied by their own logs.
    Purged {
        /// Groups to purge.
        groups: Vec<PartitionGroup>,
        /// Op of the purge: what makes repeating it harmless.
        intent: u64,
    },
}

/// A consequence of a command for the partition groups, in the order in which it happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupChange {
    /// A partition came to life.
    Created(crate::state::PartitionSettings),
    /// A partition is gone: nothing is acknowledged any more and its files go.
    Deleted(PartitionGroup),
    /// A partition must be emptied.
    Purged {
        /// Which.
        group: PartitionGroup,
        /// Op of the purge.
        intent: u64,
    },
}
