//! A shard: many consensus groups, their timers, their logs and the group table, as one sans-IO state machine.
//!
//! Everything that happens to a [`Shard`] is an [`Event`], everything that it wants is an [`Effect`]. It reads no clock,
//! draws no random number, spawns, awaits and locks nothing and touches no file; iteration orders are defined. So whatever
//! hosts it (a pinned thread, or a simulator) runs the same code.
//!
//! A shard knows no connection, session state machine or transport: a request arrives with the identity that the gateway
//! checked.

mod effect;
mod frame;
mod group_table;
mod member;
mod metadata_group;
mod notice;
mod partition_group;
mod peers;
mod request;
mod shard;
mod tickets;
mod vote_log;

pub use effect::{Effect, Event};
pub use frame::{Beat, Frame};
pub use group_table::GroupTable;
pub use metadata_group::{METADATA_SEGMENT_SIZE, MetadataGroup, MetadataUnusable};
pub use notice::{Notice, Severity};
pub use request::{
    Consumer, Identity, OffsetInfo, PartitionStats, Polled, Refusal, Reply, Request, RequestTicket, Strategy,
};
pub use shard::{Shard, ShardConfig, shard_of};
pub use vote_log::{COMPACT_AT as VOTES_COMPACT_AT, Owner as VoteOwner, Votes};
