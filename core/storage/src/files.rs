//! Open files of a host: opened on demand, closed when many are open, never while something depends on them.

use crate::{FileName, StorageError, StorageErrorKind};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files that a host keeps open although nobody uses them.
pub const OPEN_FILES_MAX: usize = 512;

#[derive(Debug)]
struct Open {
    file: Arc<File>,
    last_use: u64,
    /// Written and not synced since. Linux reports write-back errors to open descriptors only, so it stays open.
    dirty: bool,
    /// Its directory entry was made and not synced yet.
    created: bool,
}

/// The files of one host.
#[derive(Debug)]
pub(crate) struct Files {
    root: PathBuf,
    open: BTreeMap<FileName, Open>,
    uses: u64,
}

/// Turns an operating system's error into ours.
pub(crate) fn failure(action: impl Into<String>, file: &impl ToString, error: &io::Error) -> StorageError {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => StorageErrorKind::NotFound,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => StorageErrorKind::NoSpace,
        io::ErrorKind::UnexpectedEof => StorageErrorKind::ShortRead,
        _ => StorageErrorKind::Io,
    };
    StorageError { kind, action: action.into(), path: file.to_string(), detail: error.to_string() }
}

impl Files {
    pub(crate) fn new(root: &Path) -> Files {
        Files { root: root.to_path_buf(), open: BTreeMap::new(), uses: 0 }
    }

    pub(crate) fn path(&self, file: FileName) -> PathBuf {
        self.root.join(file.to_string())
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The file for reading; it must exist.
    pub(crate) fn existing(&mut self, name: FileName) -> Result<Arc<File>, StorageError> {
        self.get(name, false)
    }

    /// The file for writing; it and its directory are made when they are missing.
    pub(crate) fn writable(&mut self, name: FileName) -> Result<Arc<File>, StorageError> {
        let file = self.get(name, true)?;
        if let Some(open) = self.open.get_mut(&name) {
            open.dirty = true;
        }
        Ok(file)
    }

    fn get(&mut self, name: FileName, create: bool) -> Result<Arc<File>, StorageError> {
        self.uses += 1;
        if let Some(open) = self.open.get_mut(&name) {
            open.last_use = self.uses;
            return Ok(open.file.clone());
        }
        let path = self.path(name);
        let mut created = false;
        let opened = match OpenOptions::new().read(true).write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && create => {
                created = true;
                make(&path)
            }
            other => other,
        };
        let file = Arc::new(opened.map_err(|error| failure("open", &name, &error))?);
        self.make_room();
        self.open.insert(name, Open { file: file.clone(), last_use: self.uses, dirty: false, created });
        Ok(file)
    }

    /// Closes the file that was not used for the longest time, if too many are open.
    fn make_room(&mut self) {
        if self.open.len() < OPEN_FILES_MAX {
            return;
        }
        let idle = self.open.iter().filter(|(_, open)| !open.dirty && Arc::strong_count(&open.file) == 1);
        if let Some(name) = idle.min_by_key(|(_, open)| open.last_use).map(|(name, _)| *name) {
            self.open.remove(&name);
        }
    }

    /// What a sync of the file must do: sync it, and its directory too if it was just made.
    pub(crate) fn for_sync(&mut self, name: FileName) -> Result<(Arc<File>, bool), StorageError> {
        let file = self.existing(name)?;
        let Some(open) = self.open.get_mut(&name) else { return Ok((file, false)) };
        open.dirty = false;
        Ok((file, std::mem::take(&mut open.created)))
    }

    /// Forgets the file: it was removed or replaced.
    pub(crate) fn forget(&mut self, name: FileName) {
        self.open.remove(&name);
    }

    /// Forgets all files of a group.
    pub(crate) fn forget_group(&mut self, group: crate::GroupDirectory) {
        self.open.retain(|name, _| name.group() != Some(group));
    }
}

fn make(path: &Path) -> io::Result<File> {
    let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            open()
        }
        other => other,
    }
}

/// Syncs a directory, so that entries made or removed in it survive power loss.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Syncs the directory of a file and the one above it, up to the data directory.
pub(crate) fn sync_parents(root: &Path, path: &Path) -> io::Result<()> {
    let mut at = path.parent();
    while let Some(directory) = at {
        sync_directory(directory)?;
        if directory == root {
            break;
        }
        at = directory.parent();
    }
    Ok(())
}
