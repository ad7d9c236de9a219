//! The data directory: whose it is, that only one process uses it, and how the last one ended.
//!
//! | file | content |
//! | --- | --- |
//! | `whippet.lock` | locked while a process serves the directory; names its pid |
//! | `whippet.identity` | cluster, replica, disk and format version; written once |
//! | `whippet.run` | number of process starts, boot id, whether the last stop was clean |
//! | `metadata/`, `partitions/`, `groups/` | see [`crate::FileName`] |

use crate::files::failure;
use crate::worker::replace;
use crate::{FileName, GroupDirectory, RecoverySource, StorageError, StorageErrorKind};
use bytes::{Bytes, BytesMut};
use rustix::fs::{FlockOperation, flock};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_64;

/// Version of the layout that this program writes.
pub const FORMAT_VERSION: u32 = 1;

const LOCK: &str = "whippet.lock";
const IDENTITY: &str = "whippet.identity";
const RUN: &str = "whippet.run";
const IDENTITY_MAGIC: &[u8; 8] = b"whippet\0";
const RUN_MAGIC: &[u8; 8] = b"whiprun\0";

/// Whose data a directory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Hash of the cluster's name.
    pub cluster_id: u128,
    /// Index of the node in the roster.
    pub replica_id: u8,
    /// Size of the roster.
    pub replica_count: u8,
    /// A random number for a directory that is new; an old one keeps its own.
    pub disk: u128,
}

/// How the process before ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreviousStop {
    /// There was none.
    FirstStart,
    /// Everything was synced.
    Clean,
    /// It was killed or crashed; the machine has run on since, so its page cache was kept.
    UncleanSameBoot,
    /// The machine itself stopped: what was not synced may be gone.
    UncleanOtherBoot,
}

/// Why a directory can't be used. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum DataDirectoryError {
    /// Another process serves it.
    #[error("the data directory {path} is in use by {by}; stop that process, or set another data_dir")]
    InUse {
        /// Where.
        path: PathBuf,
        /// By which process, as far as known.
        by: String,
    },
    /// The operating system does not let us.
    #[error("{action} {path}: {error} (running as uid {uid}; the directory must be readable and writable for it, mode 0700)")]
    Denied {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What came of it.
        error: io::Error,
        /// As whom.
        uid: u32,
    },
    /// It belongs to another cluster or node, or to a newer program.
    #[error("the data directory {path} belongs to {found}, this node is {expected}; set another data_dir, or start the node to which it belongs")]
    Foreign {
        /// Where.
        path: PathBuf,
        /// Whose it is.
        found: String,
        /// Who we are.
        expected: String,
    },
    /// It holds things that are not ours.
    #[error("{path} is no data directory of whippet: it holds `{entry}` and no {IDENTITY}; nothing was changed. Set data_dir to an empty or new directory")]
    NotOurs {
        /// Where.
        path: PathBuf,
        /// One of the things in it.
        entry: String,
    },
    /// One of its own files is damaged.
    #[error("{path} is damaged: {reason}; nothing was changed. Restore it from a backup, or set another data_dir")]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        reason: &'static str,
    },
}

/// An open data directory. The lock is held until it goes.
#[derive(Debug)]
pub struct DataDirectory {
    root: PathBuf,
    identity: Identity,
    previous: PreviousStop,
    start_number: u64,
    boot: u128,
    _lock: File,
}

/// Room on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes that may still be written.
    pub free: u64,
    /// Bytes of the file system.
    pub total: u64,
}

impl DataDirectory {
    /// Opens the directory, or makes it: takes its lock, checks whose it is and notes that it is in use.
    ///
    /// # Errors
    /// [`DataDirectoryError`] with a sentence for people.
    pub fn open(path: &Path, expected: Identity) -> Result<DataDirectory, DataDirectoryError> {
        let denied = |action: &'static str, path: &Path| {
            let path = path.to_path_buf();
            move |error| DataDirectoryError::Denied { action, path, error, uid: rustix::process::geteuid().as_raw() }
        };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(denied("create the directory", path))?;
        let root = path.canonicalize().map_err(denied("look at", path))?;
        let known = root.join(IDENTITY).exists();
        if !known && let Some(entry) = foreign_entry(&root).map_err(denied("read", &root))? {
            return Err(DataDirectoryError::NotOurs { path: root, entry });
        }
        let lock_path = root.join(LOCK);
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock_path)
            .map_err(denied("open", &lock_path))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut by = String::new();
            let _ = lock.read_to_string(&mut by);
            let by = if by.trim().is_empty() { "another process".to_string() } else { by.trim().to_string() };
            return Err(DataDirectoryError::InUse { path: root, by });
        }
        let note = format!("process {} (whippet)\n", std::process::id());
        lock.set_len(0).and_then(|()| lock.write_all_at(note.as_bytes(), 0)).map_err(denied("write", &lock_path))?;

        let identity_path = root.join(IDENTITY);
        let identity = match read_small(&identity_path).map_err(denied("read", &identity_path))? {
            Some(bytes) => {
                let found = decode_identity(&bytes).map_err(|reason| DataDirectoryError::Damaged { path: identity_path.clone(), reason })?;
                check_identity(&root, found, expected)?
            }
            None => {
                replace(&root, &identity_path, &encode_identity(&expected)).map_err(denied("write", &identity_path))?;
                expected
            }
        };
        let run_path = root.join(RUN);
        let boot = boot_id();
        let (previous, start_number) = match read_small(&run_path).map_err(denied("read", &run_path))? {
            None => (PreviousStop::FirstStart, 1),
            Some(bytes) => {
                let run = decode_run(&bytes).ok_or_else(|| DataDirectoryError::Damaged {
                    path: run_path.clone(),
                    reason: "it does not match its checksum",
                })?;
                let previous = match (run.clean, run.boot == boot) {
                    (true, _) => PreviousStop::Clean,
                    (false, true) => PreviousStop::UncleanSameBoot,
                    (false, false) => PreviousStop::UncleanOtherBoot,
                };
                (previous, run.start_number + 1)
            }
        };
        let directory = DataDirectory { root, identity, previous, start_number, boot, _lock: lock };
        directory.note_run(false).map_err(denied("write", &run_path))?;
        Ok(directory)
    }

    fn note_run(&self, clean: bool) -> io::Result<()> {
        let run = Run { start_number: self.start_number, boot: self.boot, clean };
        let path = self.root.join(RUN);
        let bytes = encode_run(&run);
        match replace(&self.root, &path, &bytes) {
            // On a full disk the old file is written in place: it is smaller than a sector.
            Err(error) if error.kind() == io::ErrorKind::StorageFull && path.exists() => {
                let file = OpenOptions::new().write(true).open(&path)?;
                file.write_all_at(&bytes, 0)?;
                file.sync_all()
            }
            other => other,
        }
    }

    /// Where it is, absolute.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whose it is.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// How the process before ended.
    pub fn previous_stop(&self) -> PreviousStop {
        self.previous
    }

    /// Number of this process start, from 1 on.
    pub fn start_number(&self) -> u64 {
        self.start_number
    }

    /// Notes that everything is synced and nothing more will be written.
    ///
    /// # Errors
    /// When the note can't be written; the next start then takes this stop for an unclean one.
    pub fn mark_clean(&self) -> Result<(), StorageError> {
        self.note_run(true).map_err(|error| failure("write", &RUN, &error))
    }

    /// Room on the device.
    ///
    /// # Errors
    /// What the operating system reports.
    pub fn space(&self) -> Result<Space, StorageError> {
        let stat = rustix::fs::statvfs(&self.root).map_err(|error| failure("look at", &".", &error.into()))?;
        Ok(Space { free: stat.f_bavail * stat.f_frsize, total: stat.f_blocks * stat.f_frsize })
    }

    /// Entries of the directory and its folders that are none of ours. They are left alone.
    ///
    /// # Errors
    /// What the operating system reports.
    pub fn strays(&self) -> Result<Vec<String>, StorageError> {
        let mut strays = Vec::new();
        for name in self.names("")? {
            if ![LOCK, IDENTITY, RUN, "metadata", "partitions", "groups"].contains(&name.as_str()) {
                strays.push(name);
            }
        }
        for folder in ["metadata", "groups"] {
            for name in self.names(folder)? {
                let path = format!("{folder}/{name}");
                if parse_file(&path).is_none() {
                    strays.push(path);
                }
            }
        }
        for folder in self.names("partitions")? {
            let path = format!("partitions/{folder}");
            if parse_group(&path).is_none() {
                strays.push(path);
                continue;
            }
            for name in self.names(&path)? {
                let path = format!("{path}/{name}");
                if parse_file(&path).is_none() {
                    strays.push(path);
                }
            }
        }
        Ok(strays)
    }

    fn names(&self, folder: &str) -> Result<Vec<String>, StorageError> {
        let entries = match std::fs::read_dir(self.root.join(folder)) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(Vec::new()),
            Err(error) => return Err(failure("list", &folder, &error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry.map_err(|error| failure("list", &folder, &error))?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    fn files_in(&self, folder: &str) -> Result<Vec<(FileName, u64)>, StorageError> {
        let mut files = Vec::new();
        for name in self.names(folder)? {
            let path = format!("{folder}/{name}");
            if let Some(file) = parse_file(&path) {
                let length = std::fs::metadata(self.root.join(&path)).map_err(|error| failure("look at", &path, &error))?.size();
                files.push((file, length));
            }
        }
        files.sort();
        Ok(files)
    }
}

impl RecoverySource for DataDirectory {
    fn groups(&self) -> Result<Vec<GroupDirectory>, StorageError> {
        let mut groups: Vec<GroupDirectory> =
            self.names("partitions")?.iter().filter_map(|name| parse_group(&format!("partitions/{name}"))).collect();
        if !self.names("metadata")?.is_empty() {
            groups.push(GroupDirectory { number: 0, life: 0 });
        }
        groups.sort();
        Ok(groups)
    }

    fn files(&self, group: GroupDirectory) -> Result<Vec<(FileName, u64)>, StorageError> {
        self.files_in(&group.to_string())
    }

    fn node_files(&self) -> Result<Vec<(FileName, u64)>, StorageError> {
        self.files_in("groups")
    }

    fn read(&self, file: FileName, position: u64, length: usize) -> Result<Bytes, StorageError> {
        let action = || format!("read {length} bytes at {position} from");
        let opened = File::open(self.root.join(file.to_string())).map_err(|error| failure("open", &file, &error))?;
        let size = opened.metadata().map_err(|error| failure("look at", &file, &error))?.len();
        let length = length.min(usize::try_from(size.saturating_sub(position)).unwrap_or(usize::MAX));
        let mut bytes = BytesMut::zeroed(length);
        let mut at = 0;
        while at < length {
            match opened.read_at(&mut bytes[at..], position + at as u64) {
                Ok(0) => break,
                Ok(read) => at += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failure(action(), &file, &error)),
            }
        }
        bytes.truncate(at);
        Ok(bytes.freeze())
    }
}

/// Something in a directory without a stamp that is not ours; what a first start left behind half-way is ours.
fn foreign_entry(root: &Path) -> io::Result<Option<String>> {
    for entry in std::fs::read_dir(root)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let ours = name == LOCK || name == "lost+found" || name.starts_with(IDENTITY);
        if !ours {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn read_small(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match File::open(path) {
        Ok(file) => {
            let mut bytes = Vec::new();
            file.take(4096).read_to_end(&mut bytes)?;
            Ok(Some(bytes))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = XxHash3_64::oneshot(&bytes);
    let _ = bytes.write_all(&checksum.to_le_bytes());
    bytes
}

fn unseal(bytes: &[u8]) -> Option<&[u8]> {
    let (content, checksum) = bytes.split_at_checked(bytes.len().checked_sub(8)?)?;
    (XxHash3_64::oneshot(content).to_le_bytes() == checksum).then_some(content)
}

/// `magic 8, version u32, replica u8, count u8, reserved u16, cluster u128, disk u128, checksum u64`.
fn encode_identity(identity: &Identity) -> Vec<u8> {
    let mut bytes = IDENTITY_MAGIC.to_vec();
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&[identity.replica_id, identity.replica_count, 0, 0]);
    bytes.extend_from_slice(&identity.cluster_id.to_le_bytes());
    bytes.extend_from_slice(&identity.disk.to_le_bytes());
    seal(bytes)
}

fn decode_identity(bytes: &[u8]) -> Result<(u32, Identity), &'static str> {
    let content = unseal(bytes).ok_or("it does not match its checksum")?;
    if content.len() != 48 || &content[..8] != IDENTITY_MAGIC {
        return Err("it is no identity file of whippet");
    }
    let version = u32::from_le_bytes(content[8..12].try_into().expect("four bytes"));
    let u128_at = |at: usize| u128::from_le_bytes(content[at..at + 16].try_into().expect("sixteen bytes"));
    Ok((version, Identity { cluster_id: u128_at(16), replica_id: content[12], replica_count: content[13], disk: u128_at(32) }))
}

fn check_identity(root: &Path, (version, found): (u32, Identity), expected: Identity) -> Result<Identity, DataDirectoryError> {
    let foreign = |found: String, expected: String| DataDirectoryError::Foreign { path: root.to_path_buf(), found, expected };
    if version > FORMAT_VERSION {
        return Err(foreign(format!("a newer program (format {version})"), format!("one that knows format {FORMAT_VERSION}")));
    }
    if found.cluster_id != expected.cluster_id {
        let name = |identity: Identity| format!("a cluster with id {:016x}", identity.cluster_id >> 64);
        return Err(foreign(name(found), name(expected) + " (its name is the setting cluster.name)"));
    }
    if (found.replica_id, found.replica_count) != (expected.replica_id, expected.replica_count) {
        let name = |identity: Identity| format!("replica {} of {}", identity.replica_id, identity.replica_count);
        return Err(foreign(name(found), name(expected)));
    }
    Ok(found)
}

struct Run {
    start_number: u64,
    boot: u128,
    clean: bool,
}

/// `magic 8, start number u64, boot u128, clean u8, reserved 7, checksum u64`.
fn encode_run(run: &Run) -> Vec<u8> {
    let mut bytes = RUN_MAGIC.to_vec();
    bytes.extend_from_slice(&run.start_number.to_le_bytes());
    bytes.extend_from_slice(&run.boot.to_le_bytes());
    bytes.extend_from_slice(&[u8::from(run.clean), 0, 0, 0, 0, 0, 0, 0]);
    seal(bytes)
}

fn decode_run(bytes: &[u8]) -> Option<Run> {
    let content = unseal(bytes)?;
    if content.len() != 40 || &content[..8] != RUN_MAGIC {
        return None;
    }
    Some(Run {
        start_number: u64::from_le_bytes(content[8..16].try_into().ok()?),
        boot: u128::from_le_bytes(content[16..32].try_into().ok()?),
        clean: content[32] == 1,
    })
}

/// Changes whenever the machine starts. Where the kernel does not tell, every start counts as another boot.
fn boot_id() -> u128 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).unwrap_or_else(|_| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(1, |since| since.as_nanos())
    })
}

fn parse_group(path: &str) -> Option<GroupDirectory> {
    if path == "metadata" {
        return Some(GroupDirectory { number: 0, life: 0 });
    }
    let (number, life) = path.strip_prefix("partitions/")?.split_once('-')?;
    let group = GroupDirectory { number: number.parse().ok()?, life: life.parse().ok()? };
    (group.number > 0 && group.to_string() == path).then_some(group)
}

fn parse_file(path: &str) -> Option<FileName> {
    let (folder, name) = path.rsplit_once('/')?;
    let file = if folder == "groups" {
        FileName::GroupTable { part: name.strip_suffix(".table")?.parse().ok()? }
    } else {
        let group = parse_group(folder)?;
        if name == "frontier" {
            FileName::Frontier { group }
        } else {
            let (first_op, kind) = name.split_once('.')?;
            let first_op = first_op.parse().ok()?;
            match kind {
                "log" => FileName::Segment { group, first_op },
                "index" => FileName::Index { group, first_op },
                "snapshot" => FileName::Snapshot { group, first_op },
                _ => return None,
            }
        }
    };
    (file.to_string() == path).then_some(file)
}

/// Says that a file was not found, for callers for whom that is no failure.
pub fn is_missing(error: &StorageError) -> bool {
    error.kind == StorageErrorKind::NotFound
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity { cluster_id: 7 << 64, replica_id: 0, replica_count: 1, disk: 99 }
    }

    #[test]
    fn names_round_trip_and_others_are_not_ours() {
        let group = GroupDirectory { number: 12, life: 340 };
        for file in [
            FileName::Segment { group, first_op: 1 },
            FileName::Index { group, first_op: u64::MAX },
            FileName::Snapshot { group: GroupDirectory { number: 0, life: 0 }, first_op: 5 },
            FileName::Frontier { group },
            FileName::GroupTable { part: 3 },
        ] {
            assert_eq!(parse_file(&file.to_string()), Some(file));
        }
        for stray in ["metadata/1.log", "partitions/x/frontier", "partitions/1-1/frontier", "groups/0001.table.new", "metadata/a.log"] {
            assert_eq!(parse_file(stray), None, "{stray}");
        }
    }

    #[test]
    fn a_second_open_is_refused_and_names_the_process() {
        let temp = tempfile::tempdir().expect("temp");
        let first = DataDirectory::open(temp.path(), identity()).expect("first");
        assert_eq!((first.previous_stop(), first.start_number()), (PreviousStop::FirstStart, 1));
        let refused = DataDirectory::open(temp.path(), identity()).expect_err("locked").to_string();
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        drop(first);
        let second = DataDirectory::open(temp.path(), identity()).expect("free again");
        assert_eq!((second.previous_stop(), second.start_number()), (PreviousStop::UncleanSameBoot, 2));
        second.mark_clean().expect("clean");
        drop(second);
        let third = DataDirectory::open(temp.path(), Identity { disk: 1, ..identity() }).expect("again");
        assert_eq!((third.previous_stop(), third.start_number(), third.identity().disk), (PreviousStop::Clean, 3, 99));
    }

    #[test]
    fn other_clusters_replicas_and_directories_are_refused() {
        let temp = tempfile::tempdir().expect("temp");
        drop(DataDirectory::open(temp.path(), identity()).expect("first"));
        let other = DataDirectory::open(temp.path(), Identity { cluster_id: 8 << 64, ..identity() });
        assert!(matches!(other, Err(DataDirectoryError::Foreign { .. })));
        let other = DataDirectory::open(temp.path(), Identity { replica_id: 1, replica_count: 3, ..identity() });
        assert!(matches!(other, Err(DataDirectoryError::Foreign { .. })));
        let foreign = tempfile::tempdir().expect("temp");
        std::fs::write(foreign.path().join("thesis.txt"), "years of work").expect("write");
        let refused = DataDirectory::open(foreign.path(), identity()).expect_err("not ours").to_string();
        assert!(refused.contains("thesis.txt"), "{refused}");
        assert_eq!(std::fs::read_dir(foreign.path()).expect("list").count(), 1, "nothing was added");
    }

    #[test]
    fn a_damaged_stamp_is_refused_by_name() {
        let temp = tempfile::tempdir().expect("temp");
        drop(DataDirectory::open(temp.path(), identity()).expect("first"));
        let path = temp.path().join(IDENTITY);
        let mut bytes = std::fs::read(&path).expect("read");
        bytes[20] ^= 1;
        std::fs::write(&path, &bytes).expect("write");
        let refused = DataDirectory::open(temp.path(), identity()).expect_err("damaged").to_string();
        assert!(refused.contains("whippet.identity"), "{refused}");
    }

    #[test]
    fn strays_are_named_and_left_alone() {
        let temp = tempfile::tempdir().expect("temp");
        let directory = DataDirectory::open(temp.path(), identity()).expect("first");
        std::fs::create_dir_all(temp.path().join("partitions/0000000001-0000000002")).expect("dir");
        for stray in ["notes.txt", "partitions/0000000001-0000000002/core.1234"] {
            std::fs::write(temp.path().join(stray), "x").expect("write");
        }
        assert_eq!(directory.strays().expect("list"), ["notes.txt", "partitions/0000000001-0000000002/core.1234"]);
        let group = GroupDirectory { number: 1, life: 2 };
        assert_eq!(directory.groups().expect("list"), [group]);
        assert_eq!(directory.files(group).expect("list"), []);
    }
}
