//! Which files a data directory holds, and what recovery reads of them.

use crate::directory::{DataDirectory, IDENTITY, LOCK, RUN};
use crate::files::failure;
use crate::task::STAGED;
use crate::{FileName, GroupDirectory, RecoverySource, StorageError, StorageErrorKind};
use bytes::{Bytes, BytesMut};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Folders of a data directory.
pub(crate) const FOLDERS: [&str; 3] = ["metadata", "partitions", "groups"];

impl DataDirectory {
    /// Entries of the directory and its folders that are none of ours, as paths relative to it, in order. They are left alone.
    ///
    /// # Errors
    /// What the operating system reports.
    pub fn strays(&self) -> Result<Vec<String>, StorageError> {
        let mut strays = Vec::new();
        for name in self.names("")? {
            let own = [LOCK, IDENTITY, RUN].contains(&unstaged(&name))
                || FOLDERS.contains(&name.as_str())
                || name == "lost+found";
            if !own {
                strays.push(name);
            }
        }
        let mut folders = vec!["groups".to_string(), "metadata".to_string()];
        for folder in self.names("partitions")? {
            let path = format!("partitions/{folder}");
            if parse_group(&path).is_some() { folders.push(path) } else { strays.push(path) }
        }
        for folder in folders {
            for name in self.names(&folder)? {
                let path = format!("{folder}/{name}");
                if parse_file(unstaged(&path)).is_none() {
                    strays.push(path);
                }
            }
        }
        strays.sort();
        Ok(strays)
    }

    fn names(&self, folder: &str) -> Result<Vec<String>, StorageError> {
        let entries = match std::fs::read_dir(self.root().join(folder)) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            Err(error) => return Err(failure("list", &folder, &error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            names.push(
                entry.map_err(|error| failure("list", &folder, &error))?.file_name().to_string_lossy().into_owned(),
            );
        }
        names.sort();
        Ok(names)
    }

    fn files_in(&self, folder: &str) -> Result<Vec<(FileName, u64)>, StorageError> {
        let mut files = Vec::new();
        for name in self.names(folder)? {
            let path = format!("{folder}/{name}");
            if let Some(file) = parse_file(&path) {
                let metadata =
                    std::fs::metadata(self.root().join(&path)).map_err(|error| failure("look at", &path, &error))?;
                files.push((file, metadata.len()));
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
        let opened = File::open(self.root().join(file.to_string())).map_err(|error| failure("open", &file, &error))?;
        let size = opened.metadata().map_err(|error| failure("look at", &file, &error))?.len();
        let length = length.min(usize::try_from(size.saturating_sub(position)).unwrap_or(usize::MAX));
        let mut bytes = BytesMut::zeroed(length);
        let mut at = 0;
        while at < length {
            match opened.read_at(&mut bytes[at..], position + at as u64) {
                Ok(0) => break,
                Ok(read) => at += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failure(format!("read {length} bytes at {position} from"), &file, &error)),
            }
        }
        bytes.truncate(at);
        Ok(bytes.freeze())
    }
}

/// The name of the file whose place a half-made one was to take. A crash may leave such files; the next replacement takes
/// them over.
fn unstaged(name: &str) -> &str {
    name.strip_suffix(STAGED).unwrap_or(name)
}

pub(crate) fn parse_group(path: &str) -> Option<GroupDirectory> {
    if path == "metadata" {
        return Some(GroupDirectory { number: 0, life: 0 });
    }
    let (number, life) = path.strip_prefix("partitions/")?.split_once('-')?;
    let group = GroupDirectory { number: number.parse().ok()?, life: life.parse().ok()? };
    (group.number > 0 && group.to_string() == path).then_some(group)
}

pub(crate) fn parse_file(path: &str) -> Option<FileName> {
    let (folder, name) = path.rsplit_once('/')?;
    let file = if folder == "groups" {
        match name.strip_suffix(".votes") {
            Some(stem) => {
                let (part, mirror) = stem.split_once('-')?;
                FileName::VoteLog { part: part.parse().ok()?, mirror: mirror.parse().ok()? }
            }
            None => FileName::GroupTable { part: name.strip_suffix(".table")?.parse().ok()? },
        }
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
    // Other spellings of the same numbers are not ours.
    (file.to_string() == path).then_some(file)
}

/// Says that a file was not found, for callers for whom that is no failure.
pub fn is_missing(error: &StorageError) -> bool {
    error.kind == StorageErrorKind::NotFound
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Identity;
    use proptest::prelude::*;

    fn directory(temp: &tempfile::TempDir) -> DataDirectory {
        DataDirectory::open(temp.path(), Identity { cluster_id: 7, replica_id: 0, replica_count: 1, disk: 9 })
            .expect("open")
    }

    proptest! {
        #[test]
        fn names_round_trip(number in 1u64.., life: u64, first_op: u64, part: u32) {
            let group = GroupDirectory { number, life };
            let metadata = GroupDirectory { number: 0, life: 0 };
            for file in [
                FileName::Segment { group, first_op },
                FileName::Index { group, first_op },
                FileName::Snapshot { group: metadata, first_op },
                FileName::Frontier { group },
                FileName::GroupTable { part },
                FileName::VoteLog { part, mirror: 0 },
                FileName::VoteLog { part, mirror: 1 },
            ] {
                prop_assert_eq!(parse_file(&file.to_string()), Some(file));
            }
        }

        #[test]
        fn any_path_is_parsed_or_refused(path in "(metadata|groups|partitions/[0-9]{1,12}-[0-9]{1,12})/[0-9a-z.+-]{0,30}") {
            if let Some(file) = parse_file(&path) {
                prop_assert_eq!(file.to_string(), path);
            }
        }
    }

    #[test]
    fn other_names_are_not_ours() {
        for stray in [
            "metadata/1.log",
            "partitions/x/frontier",
            "partitions/1-1/frontier",
            "groups/0001.table.new",
            "metadata/a.log",
            "frontier",
        ] {
            assert_eq!(parse_file(stray), None, "{stray}");
        }
    }

    #[test]
    fn strays_are_named_and_left_alone() {
        let temp = tempfile::tempdir().expect("temp");
        let directory = directory(&temp);
        assert_eq!(directory.strays().expect("list"), [] as [&str; 0]);
        std::fs::create_dir_all(temp.path().join("partitions/0000000001-0000000002")).expect("dir");
        let strays = ["notes.txt", "partitions/0000000001-0000000002/core.1234", "partitions/odd"];
        for path in strays.iter().chain(&["partitions/0000000001-0000000002/frontier.new", "whippet.run.new"]) {
            std::fs::write(temp.path().join(path), "x").expect("write");
        }
        assert_eq!(directory.strays().expect("list"), strays);
        let group = GroupDirectory { number: 1, life: 2 };
        assert_eq!(directory.groups().expect("list"), [group]);
        assert_eq!(directory.files(group).expect("list"), []);
        assert_eq!(std::fs::read(temp.path().join("notes.txt")).expect("kept"), b"x");
    }

    #[test]
    fn files_are_listed_with_their_lengths_and_read_up_to_their_end() {
        let temp = tempfile::tempdir().expect("temp");
        let directory = directory(&temp);
        let metadata = GroupDirectory { number: 0, life: 0 };
        assert_eq!(directory.groups().expect("list"), [], "an empty folder is no group");
        let (first, second) =
            (FileName::Segment { group: metadata, first_op: 1 }, FileName::Segment { group: metadata, first_op: 20 });
        std::fs::write(temp.path().join(second.to_string()), "hello").expect("write");
        std::fs::write(temp.path().join(first.to_string()), "").expect("write");
        let table = FileName::GroupTable { part: 1 };
        std::fs::write(temp.path().join(table.to_string()), "abc").expect("write");
        assert_eq!(directory.groups().expect("list"), [metadata]);
        assert_eq!(directory.files(metadata).expect("list"), [(first, 0), (second, 5)]);
        assert_eq!(directory.node_files().expect("list"), [(table, 3)]);
        assert_eq!(directory.files(GroupDirectory { number: 8, life: 8 }).expect("missing is empty"), []);
        assert_eq!(directory.read(second, 1, 100).expect("read"), "ello");
        assert_eq!(directory.read(second, 1, 2).expect("read"), "el");
        assert_eq!(directory.read(second, 9, 2).expect("read"), "");
        assert_eq!(
            directory.read(FileName::Frontier { group: metadata }, 0, 1).expect_err("missing").kind,
            StorageErrorKind::NotFound
        );
    }
}
