//! What a shard's disk effects mean, and the two hosts that carry them out.
//!
//! A shard never touches a file. It emits [`StorageEffect`]s and is told their [`StorageCompletion`]s; the simulator, the
//! portable host and the io_uring host all keep the same contract, and one conformance suite (`conformance`, with the feature
//! `test-util`) checks it:
//!
//! - A ticket completes exactly once. Tickets may complete in any order.
//! - A completed [`StorageOp::Write`] has been taken by the operating system: it survives SIGKILL of the process and is seen
//!   by every later read. It survives power loss only once a later [`StorageOp::Sync`] of that file has completed.
//! - A [`StorageOp::Sync`] covers every write to that file *completed before the sync was submitted*, the file's length
//!   and its directory entry included, and nothing later.
//! - A write past the end makes the file longer; the gap reads as zeros. A write to a missing file creates it.
//! - A failed write may have written any part of its bytes. After a failed sync nothing that it covered is trusted, and
//!   later syncs of that file fail too until the process restarts ("fsync gate").
//! - A short write is an error ([`StorageErrorKind::NoSpace`] when the disk is full).
//!
//! This crate knows no message, no group logic and no async runtime.

#[cfg(feature = "test-util")]
pub mod conformance;
mod directory;
mod disk;
mod files;
mod host;
mod listing;
#[cfg(feature = "test-util")]
mod memory;
mod order;
mod portable;
mod ring;
mod stamp;
mod task;
mod uring;
mod worker;

pub use directory::{DataDirectory, DataDirectoryError, PreviousStop, Space};
pub use files::OPEN_FILES_MAX;
pub use host::{Engine, EngineReport, Host, HostSettings, StorageHost};
pub use listing::is_missing;
#[cfg(feature = "test-util")]
pub use memory::{CompletionOrder, Crash, MemoryHost};
pub use portable::PortableHost;
pub use stamp::{FORMAT_VERSION, Identity};
pub use uring::{UringHost, Writes};

use bytes::Bytes;
use std::fmt;

/// Names one outstanding storage operation; chosen by the shard, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StorageTicket(pub u64);

/// The directory of one consensus group: its number and its life (`g#i`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupDirectory {
    /// The group's number; 0 is the metadata group.
    pub number: u64,
    /// The op of the metadata log that created this life of the group.
    pub life: u64,
}

/// One file of a data directory, by meaning instead of by path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileName {
    /// A part of the log of a group; `first_op` is the op of its first record.
    Segment {
        /// Whose log.
        group: GroupDirectory,
        /// Op of the first record.
        first_op: u64,
    },
    /// The sparse index of a sealed segment. Can be rebuilt from the segment.
    Index {
        /// Whose log.
        group: GroupDirectory,
        /// Op of the first record of the segment that it describes.
        first_op: u64,
    },
    /// The state of a group as of just before the record `first_op`.
    Snapshot {
        /// Whose state.
        group: GroupDirectory,
        /// First op that is *not* in the snapshot.
        first_op: u64,
    },
    /// Evidence of how long the group's log is, kept outside the log.
    Frontier {
        /// Whose log.
        group: GroupDirectory,
    },
    /// The node-level table of groups that hold data, one part a shard.
    GroupTable {
        /// The part.
        part: u32,
    },
    /// The node-level log of promises that replicas made, one part a shard, each part twice.
    VoteLog {
        /// The part.
        part: u32,
        /// Which of the two copies: 0 or 1.
        mirror: u8,
    },
}

impl FileName {
    /// The group whose directory holds the file; `None` for node-level files.
    pub fn group(&self) -> Option<GroupDirectory> {
        match *self {
            FileName::Segment { group, .. }
            | FileName::Index { group, .. }
            | FileName::Snapshot { group, .. }
            | FileName::Frontier { group } => Some(group),
            FileName::GroupTable { .. } | FileName::VoteLog { .. } => None,
        }
    }
}

impl fmt::Display for GroupDirectory {
    /// The path relative to the data directory: `metadata`, or `partitions/<number>-<life>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.number == 0 {
            f.write_str("metadata")
        } else {
            write!(f, "partitions/{:010}-{:010}", self.number, self.life)
        }
    }
}

impl fmt::Display for FileName {
    /// The path relative to the data directory.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileName::Segment { group, first_op } => write!(f, "{group}/{first_op:020}.log"),
            FileName::Index { group, first_op } => write!(f, "{group}/{first_op:020}.index"),
            FileName::Snapshot { group, first_op } => write!(f, "{group}/{first_op:020}.snapshot"),
            FileName::Frontier { group } => write!(f, "{group}/frontier"),
            FileName::GroupTable { part } => write!(f, "groups/{part:04}.table"),
            FileName::VoteLog { part, mirror } => write!(f, "groups/{part:04}-{mirror}.votes"),
        }
    }
}

/// Something that a shard wants from its disk.
#[derive(Clone, Debug)]
pub enum StorageOp {
    /// Write `chunks`, one after the other, from `position` on.
    Write {
        /// Where to.
        file: FileName,
        /// First byte to write.
        position: u64,
        /// Contiguous pieces; the host must not copy them more than the kernel needs.
        chunks: Vec<Bytes>,
    },
    /// Make every completed write to the file, and the file itself, survive power loss.
    Sync {
        /// Which file.
        file: FileName,
    },
    /// Read exactly `length` bytes. Reading past the end is an error ([`StorageErrorKind::ShortRead`]).
    Read {
        /// Where from.
        file: FileName,
        /// First byte.
        position: u64,
        /// How many.
        length: u32,
    },
    /// Replace the whole file by `data`, durably and all at once: after a crash either the old or the new content is there.
    Replace {
        /// Which file.
        file: FileName,
        /// Its new content.
        data: Bytes,
    },
    /// Make sure that the file has `length` bytes of space (zeros where nothing was written), so that writes below do not
    /// fail for want of room and need no metadata flush. Where the file system can't, it succeeds without effect.
    Allocate {
        /// Which file.
        file: FileName,
        /// Length of the file afterwards, at least.
        length: u64,
    },
    /// Cut the file to `length` bytes, durably.
    Truncate {
        /// Which file.
        file: FileName,
        /// Length of the file afterwards.
        length: u64,
    },
    /// Delete the file. A missing file is no error. Never needs free space.
    Remove {
        /// Which file.
        file: FileName,
    },
    /// Delete the group's directory and all that is in it. A missing directory is no error.
    RemoveGroup {
        /// Whose.
        group: GroupDirectory,
    },
}

/// A [`StorageOp`] with the ticket under which its completion is reported.
#[derive(Clone, Debug)]
pub struct StorageEffect {
    /// Reported back with the completion.
    pub ticket: StorageTicket,
    /// What to do.
    pub op: StorageOp,
}

/// The end of a [`StorageEffect`].
#[derive(Clone, Debug)]
pub struct StorageCompletion {
    /// Which effect.
    pub ticket: StorageTicket,
    /// `Bytes` read, empty for everything but reads.
    pub result: Result<Bytes, StorageError>,
}

/// What kind of failure a storage operation met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageErrorKind {
    /// No room on the device, a quota or file-size limit; nothing else is wrong.
    NoSpace,
    /// The file does not exist.
    NotFound,
    /// The file ends before the bytes that were asked for.
    ShortRead,
    /// Anything else that the operating system reported.
    Io,
    /// An earlier sync of this file failed, so later ones prove nothing.
    SyncFailedBefore,
}

/// Why a storage operation failed: what, on which file, and what the operating system said.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{action} {path}: {detail}")]
pub struct StorageError {
    /// The kind, which decides what the shard does about it.
    pub kind: StorageErrorKind,
    /// Verb phrase, such as `write 4096 bytes at 8192 to`.
    pub action: String,
    /// Path relative to the data directory.
    pub path: String,
    /// The operating system's words.
    pub detail: String,
}

/// A data directory as recovery reads it: before a shard serves, and never afterwards.
///
/// The simulator gives its disk through the same trait, so recovery is the same code there.
pub trait RecoverySource {
    /// Directories of all groups on the disk, in ascending order. Names that are no group's are not listed.
    ///
    /// # Errors
    /// What the operating system reports.
    fn groups(&self) -> Result<Vec<GroupDirectory>, StorageError>;
    /// Files of one group with their lengths, in ascending order. Names that are no file of ours are not listed.
    ///
    /// # Errors
    /// What the operating system reports; a missing directory is an empty list.
    fn files(&self, group: GroupDirectory) -> Result<Vec<(FileName, u64)>, StorageError>;
    /// All node-level files with their lengths.
    ///
    /// # Errors
    /// What the operating system reports.
    fn node_files(&self) -> Result<Vec<(FileName, u64)>, StorageError>;
    /// Reads up to `length` bytes from `position`; fewer only at the end of the file.
    ///
    /// # Errors
    /// What the operating system reports.
    fn read(&self, file: FileName, position: u64, length: usize) -> Result<Bytes, StorageError>;
}
