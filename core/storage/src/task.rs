//! One file operation with everything that it needs, ready to be carried out anywhere.

use crate::files::{failure, make_directory, sync_directory, sync_parents};
use crate::{FileName, GroupDirectory, StorageError, StorageErrorKind};
use bytes::{Bytes, BytesMut};
use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Pieces of one system call, as the kernel allows.
pub(crate) const PIECES_MAX: usize = 1024;

/// How a task ended: the bytes read, none for everything but reads.
pub(crate) type TaskResult = Result<Bytes, StorageError>;

/// See the module documentation.
#[derive(Debug)]
pub(crate) enum Task {
    Write {
        name: FileName,
        file: Arc<File>,
        position: u64,
        chunks: Vec<Bytes>,
    },
    Read {
        name: FileName,
        file: Arc<File>,
        position: u64,
        length: u32,
    },
    /// Syncs the content, then the directories.
    Sync {
        name: FileName,
        file: Arc<File>,
        directories: Vec<PathBuf>,
    },
    Allocate {
        name: FileName,
        file: Arc<File>,
        length: u64,
    },
    Truncate {
        name: FileName,
        file: Arc<File>,
        length: u64,
        directories: Vec<PathBuf>,
    },
    Replace {
        name: FileName,
        root: PathBuf,
        path: PathBuf,
        data: Bytes,
    },
    Remove {
        name: FileName,
        path: PathBuf,
    },
    RemoveGroup {
        group: GroupDirectory,
        path: PathBuf,
    },
}

impl Task {
    /// Carries the task out on this thread.
    pub(crate) fn carry_out(self) -> TaskResult {
        match self {
            Task::Write { name, file, position, chunks } => {
                write_all(&file, position, &chunks).map_err(|error| write_failed(name, position, &chunks, &error))?;
            }
            Task::Read { name, file, position, length } => return read_exact(&file, name, position, length),
            Task::Sync { name, file, directories } => {
                file.sync_data().and_then(|()| sync_all(&directories)).map_err(|error| sync_failed(name, &error))?;
            }
            Task::Allocate { name, file, length } => {
                allocate(&file, length).map_err(|error| allocate_failed(name, length, &error))?
            }
            Task::Truncate { name, file, length, directories } => {
                file.set_len(length).map_err(|error| failure(format!("cut to {length} bytes"), &name, &error))?;
                file.sync_all().and_then(|()| sync_all(&directories)).map_err(|error| sync_failed(name, &error))?;
            }
            Task::Replace { name, root, path, data } => {
                replace(&root, &path, &data)
                    .map_err(|error| failure(format!("write {} bytes to", data.len()), &name, &error))?;
            }
            Task::Remove { name, path } => {
                remove(&path, |path| std::fs::remove_file(path)).map_err(|error| failure("remove", &name, &error))?
            }
            Task::RemoveGroup { group, path } => {
                remove(&path, |path| std::fs::remove_dir_all(path))
                    .map_err(|error| failure("remove", &group, &error))?;
            }
        }
        Ok(Bytes::new())
    }
}

pub(crate) fn write_failed(name: FileName, position: u64, chunks: &[Bytes], error: &io::Error) -> StorageError {
    failure(format!("write {} bytes at {position} to", crate::order::total(chunks)), &name, error)
}

pub(crate) fn read_failed(name: FileName, position: u64, length: u32, error: &io::Error) -> StorageError {
    let mut failed = failure(format!("read {length} bytes at {position} from"), &name, error);
    if failed.kind == StorageErrorKind::ShortRead {
        failed.detail = "the file ends before".into();
    }
    failed
}

/// A failed sync has lost data, whatever the reason: it is never reported as mere want of room.
pub(crate) fn sync_failed(name: FileName, error: &io::Error) -> StorageError {
    StorageError { kind: StorageErrorKind::Io, ..failure("sync", &name, error) }
}

pub(crate) fn allocate_failed(name: FileName, length: u64, error: &io::Error) -> StorageError {
    failure(format!("take space up to {length} bytes for"), &name, error)
}

/// Whether the file system can't reserve space at all: writes will take it as they come.
pub(crate) fn cannot_allocate(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::OPNOTSUPP | Errno::NOSYS))
}

fn sync_all(directories: &[PathBuf]) -> io::Result<()> {
    directories.iter().try_for_each(|directory| sync_directory(directory))
}

fn allocate(file: &File, length: u64) -> io::Result<()> {
    let have = file.metadata()?.len();
    if have >= length {
        return Ok(());
    }
    loop {
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), have, length - have)
            .map_err(io::Error::from)
        {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if cannot_allocate(&error) => return Ok(()),
            other => return other,
        }
    }
}

/// Writes all chunks, one after the other.
fn write_all(file: &File, mut position: u64, chunks: &[Bytes]) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> =
        chunks.iter().filter(|chunk| !chunk.is_empty()).map(|chunk| IoSlice::new(chunk)).collect();
    let mut rest: &mut [IoSlice<'_>] = &mut slices;
    while !rest.is_empty() {
        let pieces = rest.len().min(PIECES_MAX);
        let written = match rustix::io::pwritev(file, &rest[..pieces], position) {
            Ok(0) => return Err(io::ErrorKind::StorageFull.into()),
            Ok(written) => written,
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        position = position.saturating_add(written as u64);
        IoSlice::advance_slices(&mut rest, written);
    }
    Ok(())
}

fn read_exact(file: &File, name: FileName, position: u64, length: u32) -> TaskResult {
    let mut bytes = BytesMut::zeroed(length as usize);
    file.read_exact_at(&mut bytes, position).map_err(|error| read_failed(name, position, length, &error))?;
    Ok(bytes.freeze())
}

/// Reads from the page cache; `None` when the device would have to be asked, or when it can't be told.
pub(crate) fn read_cached(file: &File, position: u64, length: u32) -> Option<Bytes> {
    let mut bytes = BytesMut::zeroed(length as usize);
    let mut at = 0;
    while at < bytes.len() {
        let target = &mut [io::IoSliceMut::new(&mut bytes[at..])];
        match rustix::io::preadv2(file, target, position.checked_add(at as u64)?, rustix::io::ReadWriteFlags::NOWAIT) {
            Ok(0) => return None,
            Ok(read) => at += read,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    Some(bytes.freeze())
}

/// Removes a file or directory durably; a missing one is no error.
fn remove(path: &Path, how: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    match how(path) {
        // Another start may have removed it and stopped before that was durable, so the directory is synced either way.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => other?,
    }
    match path.parent().map(sync_directory) {
        Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Some(result) => result,
        None => Ok(()),
    }
}

/// Ending of a file that is to take another one's place.
pub(crate) const STAGED: &str = ".new";

/// Replaces a file as a whole: new content under another name, synced, then renamed over the old one.
pub(crate) fn replace(root: &Path, path: &Path, data: &[u8]) -> io::Result<()> {
    let mut staged = path.as_os_str().to_os_string();
    staged.push(STAGED);
    let staged = PathBuf::from(staged);
    if let Some(parent) = path.parent() {
        make_directory(parent)?;
    }
    let written = (|| {
        let mut file = File::create(&staged)?;
        file.write_all(data)?;
        file.sync_all()?;
        std::fs::rename(&staged, path)
    })();
    if written.is_err() {
        // Leave no half-written file behind; the error that counts is the first one.
        let _ = std::fs::remove_file(&staged);
    }
    written.and_then(|()| sync_parents(root, path))
}
