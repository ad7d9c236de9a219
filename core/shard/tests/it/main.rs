//! The shard on a disk in memory: the production state machines, recovery included, with crashes wherever the test likes.

mod crash;
mod groups;
mod node;
