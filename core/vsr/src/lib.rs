//! Viewstamped Replication for one consensus group, as a sans-IO state machine.
//!
//! A [`Replica`] is a value: it is handed requests, messages of its peers and completions of its log, and hands back
//! [`Effect`]s. It knows no message batch, stream, partition, socket, file, clock or thread, and draws no random number.
//! Entries ([`Entry`]) are opaque bodies behind a fixed header whose chain of parent ids makes a log's identity.
//!
//! Section numbers `VRR §` refer to *Viewstamped Replication Revisited* (Liskov and Cowling, 2012).
//!
//! What is here: the normal case (VRR §4.1) for groups of 1 to 7, with pipelining, identity-checked acknowledgements and
//! durability before acknowledgement. A group of one is a group of several with a quorum of one: it walks the same path.
//! View change, recovery of a member of several, repair and state transfer come with the cluster; the types carry what they
//! need (view and log view, roster epoch, group life, three quorums).
//!
//! What must be durable before what leaves a replica:
//!
//! | leaves | durable first |
//! | --- | --- |
//! | `PrepareOk(op)` | every entry up to `op`: written to the operating system (`replicated`) or fsynced (`persisted`) |
//! | an answer to a client | nothing more: it follows from the acknowledgements |

mod entry;
mod id;
mod message;
mod replica;

pub use entry::{
    Draft, ENTRY_SIZE_MAX, Entry, EntryHeader, FORMAT_VERSION, HEADER_SIZE, InvalidHeader, MAGIC, Placement,
};
pub use id::{ClusterId, EntryId, GroupId, Now, OpNumber, Quorums, ReplicaId, ViewNumber, primary};
pub use message::{Envelope, Ignored, Message, MessageBody, Target};
pub use replica::{
    DurableState, Effect, NotAccepted, PIPELINE_BYTES_MAX, PIPELINE_MAX, Replica, ReplicaConfig, Status,
};
