//! Whole clusters of the production shards on simulated disks, networks, clocks and clients, from one seed.
//!
//! A seed draws everything: how many nodes, which faults at what time, how fast disks and links are, what clients do. The same
//! seed gives the same run, event by event, so a failure is replayed by its seed, and shrunk by leaving faults out
//! ([`shrink`]). What runs is what production runs: shards with their sessions, logs, recovery, vote log and client tables;
//! only the hosts are simulated.
//!
//! ```text
//! Profile + seed ──► World: nodes (disk image + shard), links, faults, clients
//!                      │ every step: Checker (agreement, one primary a view, promises, numbering)
//!                      ▼
//!                    heal: no faults any more ──► everybody in one view, everything applied, nobody awake
//!                      ▼
//!                    history: what clients were told against what every replica holds
//! ```

mod check;
mod client;
mod fault;
mod network;
mod node;
mod profile;
mod random;
mod run;
mod world;

pub use check::Violation;
pub use fault::{Fault, FaultKind};
pub use profile::{Profile, Scale};
pub use random::Random;
pub use run::{Counters, Outcome, run, shrink};
pub use world::World;
