//! The log of one consensus group on disk: it is the journal too, so message bytes are written once per replica.
//!
//! A [`Log`] is sans-IO: it hands storage operations to an [`Issue`] and is told their completions. It knows records (the
//! entries of `whippet-vsr`), not messages; what a batch is it learns from one kind number and four header fields.
//!
//! Files of a group, see the modules for their layouts:
//!
//! | file | content | rebuilt from |
//! | --- | --- | --- |
//! | `<first op>.log` | records back to back ([`whippet_vsr::EntryHeader`]) | peers |
//! | `<first op>.snapshot` | the state just before that op ([`snapshot`]) | an older snapshot and the log |
//! | `<first op>.index` | sparse index of a sealed segment ([`index`]) | the segment |
//! | `frontier` | evidence of the log's length, reserved offsets ([`frontier`]) | nothing: that is why there are three slots |

pub mod frontier;
pub mod index;
mod log;
mod lookup;
mod recovery;
mod segment;
pub mod snapshot;

pub use log::{Durability, Fatal, Issue, Log, LogConfig, LogEnd, LogSums, Place, RESERVATION, Replacement, Space};
pub use lookup::Found;
pub use recovery::{Damage, PreviousEnd, Recovered, RecoveryError, Remark, Replay, Verdict, recover};
