//! A disk in memory for tests of shards: the contract of this crate, with the freedom that it leaves drawn from a seed.
//!
//! Operations take effect when they complete, not before. What a crash may lose (completed writes that no completed sync
//! covers, entries of new files) can be lost with [`MemoryHost::crash`].

use crate::order::{Claim, Order, total};
use crate::{
    FileName, GroupDirectory, RecoverySource, StorageCompletion, StorageEffect, StorageError, StorageErrorKind,
    StorageHost, StorageOp, StorageTicket,
};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// In which order operations that run at the same time complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionOrder {
    /// As they were submitted.
    Submission,
    /// The newest first.
    Reverse,
    /// Any, drawn from this seed.
    Seeded(u64),
}

/// What a crash leaves of writes that no completed sync covers. Operations that have not completed are lost in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// All of them: the process was killed, the machine ran on.
    KeepUnsynced,
    /// None of them: power was lost.
    DropUnsynced,
    /// Some of them, and of some only their beginning, drawn from this seed: power was lost in the middle of things.
    KeepSome(u64),
}

#[derive(Clone, Debug)]
enum Change {
    Write { position: u64, bytes: Bytes },
    Extend { length: u64 },
}

#[derive(Clone, Debug, Default)]
struct MemoryFile {
    content: Vec<u8>,
    /// What is on stable storage; `None` while the file's entry is not.
    durable: Option<Vec<u8>>,
    /// Changes since, each with its number.
    unsynced: VecDeque<(u64, Change)>,
}

fn apply(content: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { position, bytes } => {
            let (start, end) = (*position as usize, *position as usize + bytes.len());
            content.resize(content.len().max(end), 0);
            content[start..end].copy_from_slice(bytes);
        }
        Change::Extend { length } => content.resize(content.len().max(*length as usize), 0),
    }
}

/// See the module documentation.
#[derive(Debug)]
pub struct MemoryHost {
    files: BTreeMap<FileName, MemoryFile>,
    changes: u64,
    order: Order,
    completion_order: CompletionOrder,
    random: u64,
    queued: VecDeque<StorageEffect>,
    running: VecDeque<StorageEffect>,
    /// For each sync that was submitted: the newest change that it covers.
    covers: BTreeMap<StorageTicket, u64>,
    capacity: u64,
    paused: bool,
    failing: BTreeSet<FileName>,
    gated: BTreeSet<FileName>,
}

fn error(kind: StorageErrorKind, action: &str, path: impl ToString) -> StorageError {
    StorageError {
        kind,
        action: action.into(),
        path: path.to_string(),
        detail: format!("{kind:?} on a disk in memory"),
    }
}

impl MemoryHost {
    /// An empty disk without limit.
    pub fn new(completion_order: CompletionOrder) -> MemoryHost {
        let random = if let CompletionOrder::Seeded(seed) = completion_order { seed } else { 0 };
        MemoryHost {
            files: BTreeMap::new(),
            changes: 0,
            order: Order::default(),
            completion_order,
            random,
            queued: VecDeque::new(),
            running: VecDeque::new(),
            covers: BTreeMap::new(),
            capacity: u64::MAX,
            paused: false,
            failing: BTreeSet::new(),
            gated: BTreeSet::new(),
        }
    }

    /// From now on all files together have at most `bytes` bytes; what needs more fails for want of room.
    pub fn set_capacity(&mut self, bytes: u64) {
        self.capacity = bytes;
    }

    /// While paused nothing completes.
    pub fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// The next sync of the file fails, and with it every later one until the process "restarts" with [`MemoryHost::crash`].
    pub fn fail_sync(&mut self, file: FileName) {
        self.failing.insert(file);
    }

    /// The process ends, or the machine: everything in flight is forgotten, and unsynced writes as `crash` says.
    pub fn crash(&mut self, crash: Crash) {
        if let Crash::KeepSome(seed) = crash {
            self.random = seed;
        }
        self.queued.clear();
        self.running.clear();
        self.covers.clear();
        self.failing.clear();
        self.gated.clear();
        self.order = Order::default();
        if crash == Crash::KeepUnsynced {
            return;
        }
        for (name, mut file) in std::mem::take(&mut self.files) {
            // Which bytes, which length and which entry reach the device is up to it, each on its own.
            let survivors: Vec<Change> = match crash {
                Crash::KeepSome(_) => file.unsynced.drain(..).filter_map(|(_, change)| self.torn(change)).collect(),
                Crash::DropUnsynced | Crash::KeepUnsynced => Vec::new(),
            };
            let Some(mut content) = file.durable.or_else(|| (!survivors.is_empty()).then(Vec::new)) else { continue };
            survivors.iter().for_each(|change| apply(&mut content, change));
            self.files.insert(name, MemoryFile { durable: Some(content.clone()), content, unsynced: VecDeque::new() });
        }
    }

    /// All of a change, its beginning, or nothing of it.
    fn torn(&mut self, change: Change) -> Option<Change> {
        match (self.draw(3), change) {
            (0, _) => None,
            (1, Change::Write { position, bytes }) if !bytes.is_empty() => {
                let length = self.draw(bytes.len());
                Some(Change::Write { position, bytes: bytes.slice(..length) })
            }
            (_, change) => Some(change),
        }
    }

    /// A number below `bound` (splitmix64).
    fn draw(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn change(&mut self, name: FileName, change: Change) {
        self.changes += 1;
        let file = self.files.entry(name).or_default();
        apply(&mut file.content, &change);
        file.unsynced.push_back((self.changes, change));
    }

    /// Bytes that the file may still grow by if the others stay as they are.
    fn room(&self, name: FileName) -> u64 {
        let used: u64 =
            self.files.iter().filter(|(other, _)| **other != name).map(|(_, file)| file.content.len() as u64).sum();
        self.capacity.saturating_sub(used)
    }

    fn carry_out(&mut self, ticket: StorageTicket, op: StorageOp) -> Result<Bytes, StorageError> {
        match op {
            StorageOp::Write { file, position, chunks } => {
                let bytes = Bytes::from(chunks.concat());
                let length = self.files.get(&file).map_or(0, |file| file.content.len() as u64);
                let room = self.room(file).max(length);
                let fits = (room.saturating_sub(position)).min(total(&chunks));
                let full = fits < total(&chunks);
                if !full || fits > 0 {
                    self.change(file, Change::Write { position, bytes: bytes.slice(..fits as usize) });
                }
                if full {
                    return Err(error(StorageErrorKind::NoSpace, "write to", file));
                }
            }
            StorageOp::Sync { file } => {
                let covers = self.covers.remove(&ticket).unwrap_or(0);
                if self.gated.contains(&file) {
                    return Err(error(StorageErrorKind::SyncFailedBefore, "sync", file));
                }
                let Some(content) = self.files.get_mut(&file) else {
                    return Err(error(StorageErrorKind::NotFound, "sync", file));
                };
                if self.failing.remove(&file) {
                    self.gated.insert(file);
                    return Err(error(StorageErrorKind::Io, "sync", file));
                }
                let durable = content.durable.get_or_insert_default();
                while let Some((_, change)) = content.unsynced.pop_front_if(|(number, _)| *number <= covers) {
                    apply(durable, &change);
                }
            }
            StorageOp::Read { file, position, length } => {
                let bytes = RecoverySource::read(self, file, position, length as usize)?;
                if bytes.len() < length as usize {
                    return Err(error(StorageErrorKind::ShortRead, "read from", file));
                }
                return Ok(bytes);
            }
            StorageOp::Replace { file, data } => {
                if data.len() as u64 > self.room(file) {
                    return Err(error(StorageErrorKind::NoSpace, "replace", file));
                }
                let content = data.to_vec();
                self.files
                    .insert(file, MemoryFile { durable: Some(content.clone()), content, unsynced: VecDeque::new() });
            }
            StorageOp::Allocate { file, length } => {
                if length > self.room(file) {
                    return Err(error(StorageErrorKind::NoSpace, "take space for", file));
                }
                self.change(file, Change::Extend { length });
            }
            StorageOp::Truncate { file, length } => {
                let file = self.files.entry(file).or_default();
                file.content.resize(length as usize, 0);
                file.durable = Some(file.content.clone());
                file.unsynced.clear();
            }
            StorageOp::Remove { file } => {
                self.files.remove(&file);
            }
            StorageOp::RemoveGroup { group } => self.files.retain(|file, _| file.group() != Some(group)),
        }
        Ok(Bytes::new())
    }
}

impl StorageHost for MemoryHost {
    fn submit(&mut self, effect: StorageEffect) {
        if matches!(effect.op, StorageOp::Sync { .. }) {
            self.covers.insert(effect.ticket, self.changes);
        }
        self.queued.push_back(effect);
    }

    fn flush(&mut self) {
        while let Some(effect) = self.queued.pop_front() {
            self.running.extend(self.order.admit(effect));
        }
    }

    fn poll_completion(&mut self) -> Option<StorageCompletion> {
        if self.paused || self.running.is_empty() {
            return None;
        }
        let index = match self.completion_order {
            CompletionOrder::Submission => 0,
            CompletionOrder::Reverse => self.running.len() - 1,
            CompletionOrder::Seeded(_) => self.draw(self.running.len()),
        };
        let StorageEffect { ticket, op } = self.running.remove(index)?;
        let claim = Claim::of(&op);
        let result = self.carry_out(ticket, op);
        self.order.finish(&claim, &mut self.running);
        Some(StorageCompletion { ticket, result })
    }

    fn in_flight(&self) -> usize {
        self.queued.len() + self.running.len() + self.order.waiting()
    }
}

impl RecoverySource for MemoryHost {
    fn groups(&self) -> Result<Vec<GroupDirectory>, StorageError> {
        let groups: BTreeSet<GroupDirectory> = self.files.keys().filter_map(FileName::group).collect();
        Ok(groups.into_iter().collect())
    }

    fn files(&self, group: GroupDirectory) -> Result<Vec<(FileName, u64)>, StorageError> {
        let files = self.files.iter().filter(|(name, _)| name.group() == Some(group));
        Ok(files.map(|(name, file)| (*name, file.content.len() as u64)).collect())
    }

    fn node_files(&self) -> Result<Vec<(FileName, u64)>, StorageError> {
        let files = self.files.iter().filter(|(name, _)| name.group().is_none());
        Ok(files.map(|(name, file)| (*name, file.content.len() as u64)).collect())
    }

    fn read(&self, file: FileName, position: u64, length: usize) -> Result<Bytes, StorageError> {
        let content = &self.files.get(&file).ok_or_else(|| error(StorageErrorKind::NotFound, "open", file))?.content;
        let start = usize::try_from(position).unwrap_or(usize::MAX).min(content.len());
        Ok(Bytes::copy_from_slice(&content[start..content.len().min(start.saturating_add(length))]))
    }
}
