//! The data directory: whose it is, that only one process uses it, and how the last one ended.
//!
//! | file | content |
//! | --- | --- |
//! | `whippet.lock` | locked while a process serves the directory; names its pid and start |
//! | `whippet.identity` | cluster, replica, disk and format version; written once |
//! | `whippet.run` | number of process starts, boot id, whether the last stop was clean |
//! | `metadata/`, `partitions/`, `groups/` | see [`crate::FileName`] |

use crate::StorageError;
use crate::files::{failure, make_directory, sync_directory};
use crate::listing::FOLDERS;
use crate::stamp::{FORMAT_VERSION, Identity, Refused, Run, decode_identity, decode_run, encode_identity, encode_run};
use crate::task::replace;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) const LOCK: &str = "whippet.lock";
pub(crate) const IDENTITY: &str = "whippet.identity";
pub(crate) const RUN: &str = "whippet.run";
/// Longest of the small files that are read whole.
const SMALL_MAX: u64 = 4096;

/// How the process before ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreviousStop {
    /// There was none.
    FirstStart,
    /// Everything was synced.
    Clean,
    /// It was killed or crashed; the machine has run on since, so its page cache was kept. All of it has been synced by now.
    UncleanSameBoot,
    /// The machine itself stopped, or the kernel has lost writes since: what was not synced may be gone.
    UncleanOtherBoot,
}

/// Why a directory can't be used. Nothing that was in it has been changed.
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
    #[error(
        "{action} {path}: {error} (running as uid {uid}; the directory must be readable and writable for it, mode 0700)"
    )]
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
    /// Its file system takes no writes.
    #[error(
        "{action} {path}: the file system is mounted read-only; mount it for writing, or set another data_dir (running as uid {uid}; the directory needs mode 0700)"
    )]
    ReadOnly {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// As whom.
        uid: u32,
    },
    /// There is something else in its place.
    #[error("{path} is a file; data_dir must name a directory (mode 0700 for uid {uid}) or nothing that exists yet")]
    NotADirectory {
        /// Where.
        path: PathBuf,
        /// As whom.
        uid: u32,
    },
    /// It belongs to another cluster or node, or to a newer program.
    #[error(
        "the data directory {path} belongs to {found}, this node is {expected}; set another data_dir, or start what it belongs to"
    )]
    Foreign {
        /// Where.
        path: PathBuf,
        /// Whose it is.
        found: String,
        /// Who we are.
        expected: String,
    },
    /// It holds things that are not ours.
    #[error(
        "{path} is no data directory of whippet: it holds `{entry}` and no {IDENTITY}; nothing was changed. Set data_dir to an empty or new directory"
    )]
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
    lost: Option<(u64, u64)>,
    settled: AtomicBool,
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
    /// Opens the directory, or makes it: takes its lock, checks whose it is and notes durably that it is in use.
    ///
    /// After an unclean stop under the same boot everything that the process before had written is synced first, which takes
    /// as long as the device needs for it.
    ///
    /// # Errors
    /// [`DataDirectoryError`] with a sentence for people.
    pub fn open(path: &Path, expected: Identity) -> Result<DataDirectory, DataDirectoryError> {
        make_root(path)?;
        let root = path.canonicalize().map_err(|error| denied("look at", path, error))?;
        let identity_path = root.join(IDENTITY);
        let known = identity_path.try_exists().map_err(|error| denied("look at", &identity_path, error))?;
        if !known && let Some(entry) = foreign_entry(&root).map_err(|error| denied("read", &root, error))? {
            return Err(DataDirectoryError::NotOurs { path: root, entry });
        }
        let lock = lock(&root)?;
        let identity = match read_small(&identity_path)? {
            Some(bytes) => {
                let found = decode_identity(&bytes);
                check_identity(&root, &identity_path, found, expected)?
            }
            None => {
                replace(&root, &identity_path, &encode_identity(&expected))
                    .map_err(|error| denied("write", &identity_path, error))?;
                expected
            }
        };
        let run_path = root.join(RUN);
        let boot = boot_id();
        let (mut previous, start_number, before) = match read_small(&run_path)? {
            None => (PreviousStop::FirstStart, 1, None),
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
                (previous, run.start_number.saturating_add(1), Some(run))
            }
        };
        make_folders(&root)?;
        if previous == PreviousStop::UncleanSameBoot && sync_file_system(&root).is_err() {
            // The kernel could not write back what the process before had written: as good as a power cut.
            previous = PreviousStop::UncleanOtherBoot;
        }
        // What a start that did not get far had not made up for is still to be made up for.
        let open = before.filter(|run| !run.settled && run.lost != (0, 0)).map(|run| run.lost);
        let last = start_number - 1;
        let lost = match (previous, open) {
            // It may have written evidence of its own before it had made up for anything.
            (_, Some((first, _))) => Some((first, last)),
            (PreviousStop::UncleanOtherBoot, None) => Some((last, last)),
            (_, None) => None,
        };
        let settled = AtomicBool::new(lost.is_none());
        let directory = DataDirectory { root, identity, previous, start_number, boot, lost, settled, _lock: lock };
        directory.note_run(false).map_err(|error| denied("write", &run_path, error))?;
        Ok(directory)
    }

    fn note_run(&self, clean: bool) -> io::Result<()> {
        let run = Run {
            start_number: self.start_number,
            boot: self.boot,
            clean,
            settled: self.settled.load(Ordering::Acquire),
            lost: self.lost.unwrap_or((0, 0)),
        };
        let path = self.root.join(RUN);
        let bytes = encode_run(&run);
        match replace(&self.root, &path, &bytes) {
            // On a full disk the old file is written in place: it is smaller than a sector.
            Err(error) if is_full(&error) && path.exists() => {
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

    /// First and last start whose unsynced writes may be gone because the machine stopped.
    pub fn lost_runs(&self) -> Option<(u64, u64)> {
        self.lost
    }

    /// Notes durably that every log that may have lost something has been read back and has gone on. Until then later starts
    /// are told of the same loss.
    ///
    /// # Errors
    /// When the note can't be written; nothing is lost by that.
    pub fn mark_settled(&self) -> Result<(), StorageError> {
        if self.settled.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.note_run(false).map_err(|error| failure("write", &RUN, &error))
    }

    /// Number of this process start, from 1 on.
    pub fn start_number(&self) -> u64 {
        self.start_number
    }

    /// Notes durably that everything is synced and nothing more will be written.
    ///
    /// # Errors
    /// When the note can't be written; the next start then takes this stop for an unclean one.
    pub fn mark_clean(&self) -> Result<(), StorageError> {
        self.settled.store(true, Ordering::Release);
        self.note_run(true).map_err(|error| failure("write", &RUN, &error))
    }

    /// Room on the device.
    ///
    /// # Errors
    /// What the operating system reports.
    pub fn space(&self) -> Result<Space, StorageError> {
        let stat = rustix::fs::statvfs(&self.root).map_err(|error| failure("look at", &".", &error.into()))?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Ok(Space { free: bytes(stat.f_bavail), total: bytes(stat.f_blocks) })
    }
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn denied(action: &'static str, path: &Path, error: io::Error) -> DataDirectoryError {
    let (path, uid) = (path.to_path_buf(), uid());
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => DataDirectoryError::ReadOnly { action, path, uid },
        io::ErrorKind::NotADirectory => DataDirectoryError::NotADirectory { path, uid },
        _ => DataDirectoryError::Denied { action, path, error, uid },
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Makes the directory and those above it, as far as they are missing, durably.
fn make_root(path: &Path) -> Result<(), DataDirectoryError> {
    let absolute = std::path::absolute(path).map_err(|error| denied("look at", path, error))?;
    let missing = absolute.ancestors().take_while(|above| matches!(above.try_exists(), Ok(false))).count();
    match make_directory(path) {
        // A file of that name, or something in its place further up.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(DataDirectoryError::NotADirectory { path: path.to_path_buf(), uid: uid() });
        }
        other => other.map_err(|error| denied("create the directory", path, error))?,
    }
    for above in absolute.ancestors().skip(1).take(missing) {
        match sync_directory(above) {
            // Who may make entries in a directory need not be allowed to open it.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            other => other.map_err(|error| denied("sync", above, error))?,
        }
    }
    Ok(())
}

/// Makes the folders for groups, so that hosts need not keep in mind which of them made one.
fn make_folders(root: &Path) -> Result<(), DataDirectoryError> {
    let mut made = false;
    for folder in FOLDERS {
        let path = root.join(folder);
        if !path.try_exists().map_err(|error| denied("look at", &path, error))? {
            match make_directory(&path) {
                // On a full disk the hosts make them when they are needed.
                Err(error) if is_full(&error) => continue,
                other => other.map_err(|error| denied("create the directory", &path, error))?,
            }
            made = true;
        }
    }
    if made { sync_directory(root).map_err(|error| denied("sync", root, error)) } else { Ok(()) }
}

fn sync_file_system(root: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(root)?)?)
}

/// Takes the lock, which the kernel gives back however the process ends, and notes in it who holds it.
fn lock(root: &Path) -> Result<File, DataDirectoryError> {
    let path = root.join(LOCK);
    let mut lock = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|error| denied("open", &path, error))?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let mut by = String::new();
            // Whoever holds it may not have written its note yet.
            let _ = (&mut lock).take(SMALL_MAX).read_to_string(&mut by);
            let by = if by.trim().is_empty() { "another process".to_string() } else { by.trim().to_string() };
            return Err(DataDirectoryError::InUse { path: root.to_path_buf(), by });
        }
        Err(error) => return Err(denied("lock", &path, error.into())),
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let note = format!("process {} (whippet), started {}\n", std::process::id(), utc(since));
    match lock.set_len(0).and_then(|()| lock.write_all_at(note.as_bytes(), 0)) {
        // The lock is held all the same.
        Err(error) if is_full(&error) => {}
        other => other.map_err(|error| denied("write", &path, error))?,
    }
    Ok(lock)
}

/// A time since 1970 as `2026-01-31T23:59:59Z`.
fn utc(since: Duration) -> String {
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Years are counted from March on, so that the leap day is the last one of a year: 146097 days are 400 years.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
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

fn read_small(path: &Path) -> Result<Option<Vec<u8>>, DataDirectoryError> {
    let mut bytes = Vec::new();
    match File::open(path).and_then(|file| file.take(SMALL_MAX).read_to_end(&mut bytes)) {
        Ok(_) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(denied("read", path, error)),
    }
}

fn check_identity(
    root: &Path,
    path: &Path,
    found: Result<Identity, Refused>,
    expected: Identity,
) -> Result<Identity, DataDirectoryError> {
    let foreign = |found: String, expected: String| {
        Err(DataDirectoryError::Foreign { path: root.to_path_buf(), found, expected })
    };
    let found = match found {
        Ok(found) => found,
        Err(Refused::Damaged(reason)) => return Err(DataDirectoryError::Damaged { path: path.to_path_buf(), reason }),
        Err(Refused::Newer(version)) => {
            return foreign(
                format!("a newer program (format {version})"),
                format!("one that knows format {FORMAT_VERSION}"),
            );
        }
    };
    if found.cluster_id != expected.cluster_id {
        let name = |identity: Identity| format!("a node of the cluster with id {:032x}", identity.cluster_id);
        return foreign(name(found), name(expected) + " (its name is the setting cluster.name)");
    }
    if (found.replica_id, found.replica_count) != (expected.replica_id, expected.replica_count) {
        let name = |identity: Identity| format!("replica {} of {}", identity.replica_id, identity.replica_count);
        return foreign(name(found), name(expected));
    }
    Ok(found)
}

/// Changes whenever the machine starts. Where the kernel does not tell, every start counts as another boot.
fn boot_id() -> u128 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).unwrap_or_else(|_| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(1, |since| since.as_nanos())
    })
}

#[cfg(test)]
mod tests;
