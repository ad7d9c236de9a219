//! A disk in memory: operations complete when the test says so.

use bytes::{Bytes, BytesMut};
use std::collections::{BTreeMap, VecDeque};
use whippet_log::{Fatal, Issue, Log};
use whippet_storage::{
    FileName, GroupDirectory, RecoverySource, StorageCompletion, StorageEffect, StorageError, StorageErrorKind,
    StorageOp, StorageTicket,
};

#[derive(Default)]
pub struct Disk {
    pub files: BTreeMap<FileName, Vec<u8>>,
    pub queue: VecDeque<StorageEffect>,
    pub full: bool,
    pub issued: u64,
}

impl Issue for Disk {
    fn issue(&mut self, op: StorageOp) -> StorageTicket {
        self.issued += 1;
        let ticket = StorageTicket(self.issued);
        self.queue.push_back(StorageEffect { ticket, op });
        ticket
    }
}

fn error(kind: StorageErrorKind, file: FileName) -> StorageError {
    StorageError { kind, action: "use".into(), path: file.to_string(), detail: "as the test wants it".into() }
}

impl Disk {
    /// Carries out the oldest operation and tells the log; whether there was one.
    pub fn step(&mut self, log: &mut Log) -> Result<bool, Fatal> {
        let Some(StorageEffect { ticket, op }) = self.queue.pop_front() else { return Ok(false) };
        let result = self.carry_out(op);
        log.handle_completion(StorageCompletion { ticket, result })?;
        Ok(true)
    }

    fn carry_out(&mut self, op: StorageOp) -> Result<Bytes, StorageError> {
        match op {
            StorageOp::Write { file, position, chunks } => {
                if self.full {
                    return Err(error(StorageErrorKind::NoSpace, file));
                }
                let content = self.files.entry(file).or_default();
                let mut at = position as usize;
                for chunk in chunks {
                    if content.len() < at + chunk.len() {
                        content.resize(at + chunk.len(), 0);
                    }
                    content[at..at + chunk.len()].copy_from_slice(&chunk);
                    at += chunk.len();
                }
            }
            StorageOp::Allocate { file, length } => {
                if self.full {
                    return Err(error(StorageErrorKind::NoSpace, file));
                }
                let content = self.files.entry(file).or_default();
                let length = content.len().max(length as usize);
                content.resize(length, 0);
            }
            StorageOp::Truncate { file, length } => self.files.entry(file).or_default().truncate(length as usize),
            StorageOp::Replace { file, data } => {
                self.files.insert(file, data.to_vec());
            }
            StorageOp::Remove { file } => {
                self.files.remove(&file);
            }
            StorageOp::RemoveGroup { group } => self.files.retain(|file, _| file.group() != Some(group)),
            StorageOp::Read { file, position, length } => {
                return self.read(file, position, length as usize);
            }
            StorageOp::Sync { .. } => {}
        }
        Ok(Bytes::new())
    }
}

impl RecoverySource for Disk {
    fn groups(&self) -> Result<Vec<GroupDirectory>, StorageError> {
        let mut groups: Vec<GroupDirectory> = self.files.keys().filter_map(FileName::group).collect();
        groups.dedup();
        Ok(groups)
    }

    fn files(&self, group: GroupDirectory) -> Result<Vec<(FileName, u64)>, StorageError> {
        Ok(self
            .files
            .iter()
            .filter(|(file, _)| file.group() == Some(group))
            .map(|(file, content)| (*file, content.len() as u64))
            .collect())
    }

    fn node_files(&self) -> Result<Vec<(FileName, u64)>, StorageError> {
        Ok(self
            .files
            .iter()
            .filter(|(file, _)| file.group().is_none())
            .map(|(file, content)| (*file, content.len() as u64))
            .collect())
    }

    fn read(&self, file: FileName, position: u64, length: usize) -> Result<Bytes, StorageError> {
        let content = self.files.get(&file).ok_or_else(|| error(StorageErrorKind::NotFound, file))?;
        let start = (position as usize).min(content.len());
        let end = (start + length).min(content.len());
        Ok(BytesMut::from(&content[start..end]).freeze())
    }
}
