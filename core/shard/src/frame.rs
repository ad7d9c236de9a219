//! What shards of different nodes say to each other: messages of groups, many at a time, and what concerns whole nodes.

use whippet_vsr::{GroupId, Message, ViewNumber};

/// A frame between the shards of two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The sender lives. Sent at a fixed rate, whatever else is sent.
    Beat(Beat),
    /// Groups that the sender leads, in addition to those that it claimed before.
    Claims {
        /// Of the sender's process start.
        incarnation: u128,
        /// These are all; others that it claimed before it does not lead any more.
        all: bool,
        /// Group and view.
        led: Vec<(GroupId, ViewNumber)>,
    },
    /// The receiver's claims as the sender knows them differ from what the receiver's beat says.
    ClaimsWanted,
    /// Messages of groups.
    Groups(Vec<Message>),
}

/// What a beat says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Of the sender's process start.
    pub incarnation: u128,
    /// Number of groups that it leads.
    pub led: u32,
    /// Hash of groups and views that it leads, whatever their order.
    pub digest: u64,
}

/// The part of a group and a view in the digest of claims.
pub(crate) fn digest(group: GroupId, view: ViewNumber) -> u64 {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&group.number.to_le_bytes());
    bytes[8..16].copy_from_slice(&group.life.to_le_bytes());
    bytes[16..].copy_from_slice(&view.0.to_le_bytes());
    twox_hash::XxHash3_64::oneshot(&bytes)
}
