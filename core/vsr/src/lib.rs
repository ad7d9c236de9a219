//! Viewstamped Replication for one consensus group, as a sans-IO state machine.
//!
//! A [`Replica`] is a value: it is handed requests, messages of its peers and completions of its log, and hands back
//! [`Effect`]s. It knows no message batch, stream, partition, socket, file, clock or thread, and draws no random number.
//! Entries ([`Entry`]) are opaque bodies behind a fixed header whose chain of parent ids makes a log's identity.
//!
//! Section numbers `VRR §` refer to *Viewstamped Replication Revisited* (Liskov and Cowling, 2012).
//!
//! A group of one is a group of several with a quorum of one: it walks the same path. Groups of three and five change views
//! ([`Status`]), recover and repair themselves by entry identity, and replace a log that lags too far by a snapshot.
//!
//! How a replica that restarts goes on, by what its disk says:
//!
//! | promise | log | memory | it |
//! | --- | --- | --- | --- |
//! | none | any | any | starts in view 0: it never said anything that binds |
//! | not known, or records are damaged | any | any | is mute until it is replaced or its disk is mended |
//! | view v, log view v | any | kept | asks; resumes as a backup of v, or takes over the log of a later view; never leads v |
//! | view v, log view < v | any | kept | asks; abstains in v; takes over the log of v or a later view, or votes in a later one |
//! | any | any | lost | is mute until a primary of a view ≥ v answers this start, or a view begins that it can't have spoken in |
//!
//! What must be durable before what leaves a replica:
//!
//! | leaves | durable first |
//! | --- | --- |
//! | suspicions, probes, requests for entries | nothing: they bind nobody |
//! | a vote for view v | the promise of v; every entry that the vote names |
//! | the start of view v, prepares, commit numbers | the promise of v with log view v, which follows the whole log of v |
//! | an acknowledgement up to op k in view v | log view v; every entry up to k: written to the operating system (`replicated`) or fsynced (`persisted`) |
//! | an answer to a client | nothing more: it follows from the acknowledgements |

mod codec;
mod entry;
mod id;
mod interface;
mod merge;
mod message;
mod mutant;
mod replica;

pub use codec::{InvalidMessage, MESSAGE_VERSION};
pub use entry::{
    Draft, ENTRY_SIZE_MAX, Entry, EntryHeader, FORMAT_VERSION, HEADER_SIZE, InvalidHeader, MAGIC, Placement,
};
pub use id::{ClusterId, EntryId, GroupId, Now, OpNumber, Quorums, ReplicaId, ViewNumber, primary};
pub use interface::{
    DurableState, Effect, NotAccepted, PIPELINE_BYTES_MAX, PIPELINE_MAX, REPLICAS_MAX, ReplicaConfig, Status,
};
pub use merge::{Chosen, Undecided, choose};
pub use message::{
    CHUNK_MAX, Envelope, Ignored, Message, MessageBody, SNAPSHOT_MAX, SUFFIX_MAX, SnapshotInfo, StartView, Suffix,
    Target, Vote, VoteRecord,
};
pub use mutant::Mutant;
pub use replica::Replica;
