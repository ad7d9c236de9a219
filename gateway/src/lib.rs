//! Sessions, authentication, admission, request numbering and routing: what lies between transports and shards.
//!
//! Every front end calls the typed operations of [`Gateway`]; binary transports do so through [`binary`], which knows
//! frames but no socket. The gateway knows no file, no log and no group logic; transports know no group.

pub mod binary;
mod caller;
mod connections;
mod error;
mod gateway;
mod ops;
mod passwords;
mod process;
mod replies;
mod settings;
mod views;

pub use caller::Caller;
pub use connections::{Connection, Refused};
pub use error::{GatewayError, WriteOutcome};
pub use gateway::Gateway;
pub use settings::{Endpoints, Settings};
pub use views::{
    ClientInfo, ClusterMetadata, Confirmation, ConsumerOffset, ConsumerRef, NodeRole, NodeStatus, NodeView,
    PartitionView, Partitioning, PollArgs, PollResult, SendArgs, Stats, StreamDetails, StreamView, TopicDetails,
    TopicView, Transport,
};
