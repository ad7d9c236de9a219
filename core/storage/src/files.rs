//! Open files of a host: opened on demand, closed when many are open, never while something depends on them.

use crate::{FileName, GroupDirectory, StorageError, StorageErrorKind};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files that a host keeps open although nobody uses them, unless told otherwise.
pub const OPEN_FILES_MAX: usize = 512;

#[derive(Debug)]
struct Open {
    file: Arc<File>,
    /// Operations that use it now.
    users: usize,
    /// Counts the beginnings and ends of writes.
    changes: u64,
    /// What `changes` was when the newest successful sync was started. While it differs the file stays open, since Linux
    /// reports lost writes to descriptors that were open when they were made, and to no other.
    synced: u64,
    /// Place in [`Files::idle`].
    idle: Option<u64>,
}

/// What a sync covers once it has succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyncScope {
    changes: u64,
    /// Directories that must be synced too, in this order: they have new entries.
    pub(crate) directories: Vec<PathBuf>,
}

/// The files of one host.
#[derive(Debug)]
pub(crate) struct Files {
    root: PathBuf,
    limit: usize,
    open: BTreeMap<FileName, Open>,
    /// Files that may be closed, the one longest unused first.
    idle: BTreeMap<u64, FileName>,
    uses: u64,
    /// Files whose directory entry may not survive power loss yet.
    new_files: BTreeSet<FileName>,
    /// The same for directories of groups.
    new_directories: BTreeSet<GroupDirectory>,
}

/// Turns an operating system's error into ours.
pub(crate) fn failure(action: impl Into<String>, file: &impl ToString, error: &io::Error) -> StorageError {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => StorageErrorKind::NotFound,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            StorageErrorKind::NoSpace
        }
        io::ErrorKind::UnexpectedEof => StorageErrorKind::ShortRead,
        _ => StorageErrorKind::Io,
    };
    StorageError { kind, action: action.into(), path: file.to_string(), detail: error.to_string() }
}

impl Files {
    /// Files below `root`, of which at most `limit` stay open unused.
    pub(crate) fn new(root: &Path, limit: usize) -> Files {
        Files {
            root: root.to_path_buf(),
            limit,
            open: BTreeMap::new(),
            idle: BTreeMap::new(),
            uses: 0,
            new_files: BTreeSet::new(),
            new_directories: BTreeSet::new(),
        }
    }

    pub(crate) fn path(&self, file: FileName) -> PathBuf {
        self.root.join(file.to_string())
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The file for one operation, until [`Files::release`]; it must exist.
    pub(crate) fn existing(&mut self, name: FileName) -> Result<Arc<File>, StorageError> {
        self.acquire(name, false)
    }

    /// The file for one operation, until [`Files::release`]; it and its directory are made when they are missing.
    pub(crate) fn writable(&mut self, name: FileName) -> Result<Arc<File>, StorageError> {
        self.acquire(name, true)
    }

    fn acquire(&mut self, name: FileName, create: bool) -> Result<Arc<File>, StorageError> {
        if let Some(open) = self.open.get_mut(&name) {
            open.users += 1;
            if let Some(place) = open.idle.take() {
                self.idle.remove(&place);
            }
            return Ok(open.file.clone());
        }
        let file = match self.open(name, create) {
            // The process has no descriptor left: those of idle files are the ones to give up.
            Err(error) if out_of_descriptors(&error) && !self.idle.is_empty() => {
                self.close_idle(0);
                self.open(name, create)
            }
            other => other,
        };
        let file = Arc::new(file.map_err(|error| failure("open", &name, &error))?);
        self.close_idle(self.limit.saturating_sub(1));
        self.open.insert(name, Open { file: file.clone(), users: 1, changes: 0, synced: 0, idle: None });
        Ok(file)
    }

    fn open(&mut self, name: FileName, create: bool) -> io::Result<File> {
        let path = self.path(name);
        let options = || {
            let mut options = OpenOptions::new();
            options.read(true).write(true);
            options
        };
        match options().open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && create => {}
            other => return other,
        }
        let make = || options().create(true).truncate(false).open(&path);
        let made = match make() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(parent) = path.parent() {
                    make_directory(parent)?;
                }
                self.new_directories.extend(name.group());
                make()?
            }
            other => other?,
        };
        self.new_files.insert(name);
        Ok(made)
    }

    /// Notes that a write to the file begins or has ended.
    pub(crate) fn changed(&mut self, name: FileName) {
        if let Some(open) = self.open.get_mut(&name) {
            open.changes += 1;
        }
    }

    /// Ends one use of the file.
    pub(crate) fn release(&mut self, name: FileName) {
        let Some(open) = self.open.get_mut(&name) else { return };
        open.users -= 1;
        if open.users == 0 && open.changes == open.synced {
            self.uses += 1;
            open.idle = Some(self.uses);
            self.idle.insert(self.uses, name);
            self.close_idle(self.limit);
        }
    }

    /// Closes idle files until at most `keep` files are open, as far as there are idle ones.
    fn close_idle(&mut self, keep: usize) {
        while self.open.len() > keep {
            let Some((_, name)) = self.idle.pop_first() else { return };
            self.open.remove(&name);
        }
    }

    /// What a sync that starts now covers.
    pub(crate) fn sync_scope(&self, name: FileName) -> SyncScope {
        let mut directories = Vec::new();
        let path = self.path(name);
        if self.new_files.contains(&name)
            && let Some(directory) = path.parent()
        {
            directories.push(directory.to_path_buf());
            if name.group().is_some_and(|group| self.new_directories.contains(&group)) {
                directories.extend(
                    directory
                        .ancestors()
                        .skip(1)
                        .take_while(|above| above.starts_with(&self.root))
                        .map(Path::to_path_buf),
                );
            }
        }
        SyncScope { changes: self.open.get(&name).map_or(0, |open| open.changes), directories }
    }

    /// Notes that a sync has succeeded.
    pub(crate) fn synced(&mut self, name: FileName, scope: &SyncScope) {
        if let Some(open) = self.open.get_mut(&name) {
            open.synced = open.synced.max(scope.changes);
        }
        if !scope.directories.is_empty() {
            self.entry_is_durable(name, scope.directories.len() > 1);
        }
    }

    /// Notes that the file's directory entry, and with `above` that of its directory, survives power loss.
    pub(crate) fn entry_is_durable(&mut self, name: FileName, above: bool) {
        self.new_files.remove(&name);
        if above && let Some(group) = name.group() {
            self.new_directories.remove(&group);
        }
    }

    /// Forgets the open file: another one takes its place, or none.
    pub(crate) fn forget(&mut self, name: FileName) {
        if let Some(place) = self.open.remove(&name).and_then(|open| open.idle) {
            self.idle.remove(&place);
        }
    }

    /// Forgets the file and that its entry was new.
    pub(crate) fn forget_removed(&mut self, name: FileName) {
        self.forget(name);
        self.new_files.remove(&name);
    }

    /// Forgets all files of a group, and the group.
    pub(crate) fn forget_group(&mut self, group: GroupDirectory) {
        let names: Vec<FileName> = self.open.keys().filter(|name| name.group() == Some(group)).copied().collect();
        for name in names {
            self.forget(name);
        }
        self.new_files.retain(|name| name.group() != Some(group));
        self.new_directories.remove(&group);
    }
}

fn out_of_descriptors(error: &io::Error) -> bool {
    matches!(rustix::io::Errno::from_io_error(error), Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE))
}

/// Makes a directory, and those above it, for this user alone.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Syncs a directory, so that entries made or removed in it survive power loss.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Syncs the directory of a file and those above it, up to `root`.
pub(crate) fn sync_parents(root: &Path, path: &Path) -> io::Result<()> {
    for directory in path.ancestors().skip(1).take_while(|above| above.starts_with(root)) {
        sync_directory(directory)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(number: u64) -> FileName {
        FileName::Segment { group: GroupDirectory { number, life: 1 }, first_op: 1 }
    }

    fn use_once(files: &mut Files, name: FileName) {
        files.writable(name).expect("open");
        files.release(name);
    }

    #[test]
    fn the_file_longest_unused_is_closed_first() {
        let temp = tempfile::tempdir().expect("temp");
        let mut files = Files::new(temp.path(), 2);
        use_once(&mut files, segment(1));
        use_once(&mut files, segment(2));
        use_once(&mut files, segment(1));
        use_once(&mut files, segment(3));
        assert_eq!(files.open.keys().copied().collect::<Vec<_>>(), [segment(1), segment(3)]);
    }

    #[test]
    fn files_in_use_or_with_unsynced_writes_stay_open() {
        let temp = tempfile::tempdir().expect("temp");
        let mut files = Files::new(temp.path(), 1);
        files.writable(segment(1)).expect("in use");
        files.writable(segment(2)).expect("written");
        files.changed(segment(2));
        files.release(segment(2));
        use_once(&mut files, segment(3));
        assert_eq!(files.open.keys().copied().collect::<Vec<_>>(), [segment(1), segment(2)]);

        // A write that ends after the sync began is not covered by it.
        files.existing(segment(2)).expect("sync");
        let scope = files.sync_scope(segment(2));
        files.changed(segment(2));
        files.synced(segment(2), &scope);
        files.release(segment(2));
        use_once(&mut files, segment(3));
        assert!(files.open.contains_key(&segment(2)), "a write is not synced");

        files.existing(segment(2)).expect("sync");
        let scope = files.sync_scope(segment(2));
        files.synced(segment(2), &scope);
        files.release(segment(2));
        assert_eq!(files.open.keys().copied().collect::<Vec<_>>(), [segment(1)]);
    }

    #[test]
    fn the_first_sync_of_a_new_file_covers_its_directories() {
        let temp = tempfile::tempdir().expect("temp");
        let mut files = Files::new(temp.path(), 8);
        let (first, second) = (segment(5), FileName::Frontier { group: GroupDirectory { number: 5, life: 1 } });
        use_once(&mut files, first);
        use_once(&mut files, second);
        let directory = temp.path().join("partitions/0000000005-0000000001");
        let all = [directory.clone(), temp.path().join("partitions"), temp.path().to_path_buf()];
        let scope = files.sync_scope(second);
        assert_eq!(scope.directories, all);
        // Until one sync has succeeded every sync must do the same.
        assert_eq!(files.sync_scope(first).directories, all);
        files.synced(second, &scope);
        assert_eq!(files.sync_scope(second).directories, [] as [PathBuf; 0]);
        assert_eq!(files.sync_scope(first).directories, [directory]);
        // A file that is closed meanwhile keeps the debt.
        files.close_idle(0);
        files.existing(first).expect("again");
        assert_eq!(files.sync_scope(first).directories.len(), 1);
    }

    #[test]
    fn a_missing_file_is_not_made_for_reading() {
        let temp = tempfile::tempdir().expect("temp");
        let mut files = Files::new(temp.path(), 8);
        assert_eq!(files.existing(segment(1)).expect_err("missing").kind, StorageErrorKind::NotFound);
        assert_eq!(std::fs::read_dir(temp.path()).expect("list").count(), 0);
    }
}
