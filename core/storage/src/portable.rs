//! The portable host: plain system calls, for wherever io_uring is missing or forbidden.
//!
//! Writes are made on the calling thread: the page cache takes them, and no thread has to be woken. Reads are tried there
//! too, without waiting for the device. What waits for the device (syncs, cold reads, replacements, removals) goes to a few
//! threads.

use crate::files::{Files, failure};
use crate::worker::{Job, Workers};
use crate::{FileName, GroupDirectory, StorageCompletion, StorageEffect, StorageError, StorageErrorKind, StorageHost, StorageOp, StorageTicket};
use bytes::{Bytes, BytesMut};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

/// Pieces of one system call, as the kernel allows.
const PIECES_MAX: usize = 1024;
/// Bytes of one system call: larger ones keep the thread from its connections for too long.
const WRITE_MAX: usize = 4 * 1024 * 1024;
/// Threads that wait for the device.
const WORKERS: usize = 2;

/// Adjacent writes to one file, made by one system call.
#[derive(Debug)]
struct Run {
    file: FileName,
    position: u64,
    end: u64,
    chunks: Vec<Bytes>,
    tickets: Vec<StorageTicket>,
}

/// See the module documentation.
#[derive(Debug)]
pub struct PortableHost {
    files: Files,
    queued: VecDeque<StorageEffect>,
    completed: VecDeque<StorageCompletion>,
    workers: Workers,
    /// What a worker does for a ticket: operations on that file or group wait until it has ended.
    busy: BTreeMap<StorageTicket, Busy>,
    /// Files whose sync failed: nothing that a later sync says is trusted.
    gated: BTreeSet<FileName>,
    /// Operations behind one that must end first, in order.
    waiting: VecDeque<StorageEffect>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Busy {
    /// Others may go on meanwhile.
    Sync(FileName),
    Read,
    /// Later operations on the file wait.
    File(FileName),
    /// Later operations on the group wait.
    Group(GroupDirectory),
}

impl PortableHost {
    /// A host for the data directory at `root`. `wake` is called from other threads when a completion has come.
    ///
    /// # Errors
    /// When threads can't be started.
    pub fn new(root: &Path, wake: &Arc<dyn Fn() + Send + Sync>) -> std::io::Result<PortableHost> {
        Ok(PortableHost {
            files: Files::new(root),
            queued: VecDeque::new(),
            completed: VecDeque::new(),
            workers: Workers::start(root, WORKERS, wake)?,
            busy: BTreeMap::new(),
            gated: BTreeSet::new(),
            waiting: VecDeque::new(),
        })
    }

    fn complete(&mut self, ticket: StorageTicket, result: Result<Bytes, StorageError>) {
        self.completed.push_back(StorageCompletion { ticket, result });
    }

    fn work(&mut self, ticket: StorageTicket, busy: Busy, job: Job) {
        self.busy.insert(ticket, busy);
        self.workers.submit(ticket, job);
    }

    /// Whether an operation must wait for one that is under way or waits itself.
    fn must_wait(&self, op: &StorageOp) -> bool {
        let (file, group) = target(op);
        let blocks = |busy: &Busy| match *busy {
            Busy::File(name) => file == Some(name) || (group.is_some() && file.is_none() && name.group() == group),
            Busy::Group(name) => group == Some(name),
            Busy::Sync(name) => matches!(op, StorageOp::Replace { .. } | StorageOp::Remove { .. } | StorageOp::RemoveGroup { .. } | StorageOp::Truncate { .. })
                && (file == Some(name) || (file.is_none() && name.group() == group)),
            Busy::Read => false,
        };
        self.busy.values().any(blocks)
            || self.waiting.iter().any(|other| {
                let (other_file, other_group) = target(&other.op);
                (file.is_some() && file == other_file)
                    || (group.is_some() && group == other_group && (file.is_none() || other_file.is_none()))
            })
    }

    fn start(&mut self, effect: StorageEffect) {
        let StorageEffect { ticket, op } = effect;
        match op {
            StorageOp::Write { file, position, chunks } => {
                let end = position + chunks.iter().map(|chunk| chunk.len() as u64).sum::<u64>();
                self.write(Run { file, position, end, chunks, tickets: vec![ticket] });
            }
            StorageOp::Sync { file } => {
                if self.gated.contains(&file) {
                    let detail = "an earlier sync of it failed".to_string();
                    let error = StorageError { kind: StorageErrorKind::SyncFailedBefore, action: "sync".into(), path: file.to_string(), detail };
                    return self.complete(ticket, Err(error));
                }
                match self.files.for_sync(file) {
                    Ok((handle, created)) => {
                        let path = self.files.path(file);
                        self.work(ticket, Busy::Sync(file), Job::Sync { name: file, file: handle, path, created });
                    }
                    Err(error) => self.complete(ticket, Err(error)),
                }
            }
            StorageOp::Read { file, position, length } => match self.files.existing(file) {
                Ok(handle) => match read_cached(&handle, position, length) {
                    Some(bytes) => self.complete(ticket, Ok(bytes)),
                    None => self.work(ticket, Busy::Read, Job::Read { name: file, file: handle, position, length }),
                },
                Err(error) => self.complete(ticket, Err(error)),
            },
            StorageOp::Replace { file, data } => {
                self.files.forget(file);
                let path = self.files.path(file);
                self.work(ticket, Busy::File(file), Job::Replace { name: file, path, data });
            }
            StorageOp::Allocate { file, length } => {
                let result = self.allocate(file, length);
                self.complete(ticket, result);
            }
            StorageOp::Truncate { file, length } => {
                let result = self.files.writable(file).and_then(|handle| {
                    handle.set_len(length).map_err(|error| failure(format!("cut to {length} bytes"), &file, &error))
                });
                match result.and_then(|()| self.files.for_sync(file)) {
                    Ok((handle, created)) => {
                        let path = self.files.path(file);
                        self.work(ticket, Busy::Sync(file), Job::Sync { name: file, file: handle, path, created });
                    }
                    Err(error) => self.complete(ticket, Err(error)),
                }
            }
            StorageOp::Remove { file } => {
                self.files.forget(file);
                self.gated.remove(&file);
                let path = self.files.path(file);
                self.work(ticket, Busy::File(file), Job::Remove { name: file, path });
            }
            StorageOp::RemoveGroup { group } => {
                self.files.forget_group(group);
                self.gated.retain(|file| file.group() != Some(group));
                let path = self.files.root().join(group.to_string());
                self.work(ticket, Busy::Group(group), Job::RemoveGroup { group, path });
            }
        }
    }

    fn allocate(&mut self, file: FileName, length: u64) -> Result<Bytes, StorageError> {
        let handle = self.files.writable(file)?;
        let have = handle.metadata().map_err(|error| failure("look at", &file, &error))?.len();
        if have >= length {
            return Ok(Bytes::new());
        }
        match rustix::fs::fallocate(&*handle, rustix::fs::FallocateFlags::empty(), have, length - have) {
            Ok(()) => Ok(Bytes::new()),
            // The file system can't: writes will take space as they come.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(Bytes::new()),
            Err(error) => Err(failure(format!("take {} bytes of space for", length - have), &file, &error.into())),
        }
    }

    /// Makes one run of adjacent writes.
    fn write(&mut self, run: Run) {
        let length = run.end - run.position;
        let result = self.files.writable(run.file).and_then(|file| {
            write_all(&file, run.position, &run.chunks).map_err(|error| failure(format!("write {length} bytes at {} to", run.position), &run.file, &error))
        });
        for ticket in run.tickets {
            self.complete(ticket, result.clone().map(|()| Bytes::new()));
        }
    }

    fn collect(&mut self) {
        while let Some(completion) = self.workers.poll() {
            if let (Some(Busy::Sync(file)), Err(_)) = (self.busy.remove(&completion.ticket), &completion.result) {
                self.gated.insert(file);
            }
            self.completed.push_back(completion);
        }
    }

    /// Starts what waited for operations that have ended.
    fn start_waiting(&mut self) {
        for effect in std::mem::take(&mut self.waiting) {
            if self.must_wait(&effect.op) { self.waiting.push_back(effect) } else { self.start(effect) }
        }
    }
}

impl StorageHost for PortableHost {
    fn submit(&mut self, effect: StorageEffect) {
        self.queued.push_back(effect);
    }

    fn flush(&mut self) {
        self.collect();
        if !self.waiting.is_empty() {
            self.start_waiting();
        }
        let mut run: Option<Run> = None;
        while let Some(effect) = self.queued.pop_front() {
            let held_back = !(self.busy.is_empty() && self.waiting.is_empty()) && self.must_wait(&effect.op);
            if held_back {
                self.waiting.push_back(effect);
                continue;
            }
            match effect {
                StorageEffect { ticket, op: StorageOp::Write { file, position, chunks } } => {
                    let bytes: u64 = chunks.iter().map(|chunk| chunk.len() as u64).sum();
                    match &mut run {
                        Some(open)
                            if open.file == file
                                && open.end == position
                                && open.chunks.len() + chunks.len() <= PIECES_MAX
                                && (open.end - open.position + bytes) as usize <= WRITE_MAX =>
                        {
                            open.end += bytes;
                            open.chunks.extend(chunks);
                            open.tickets.push(ticket);
                        }
                        _ => {
                            let next = Run { file, position, end: position + bytes, chunks, tickets: vec![ticket] };
                            if let Some(full) = run.replace(next) {
                                self.write(full);
                            }
                        }
                    }
                }
                other => {
                    if let Some(full) = run.take() {
                        self.write(full);
                    }
                    self.start(other);
                }
            }
        }
        if let Some(full) = run.take() {
            self.write(full);
        }
    }

    fn poll_completion(&mut self) -> Option<StorageCompletion> {
        if self.completed.is_empty() && !self.busy.is_empty() {
            self.collect();
            if !self.waiting.is_empty() {
                self.start_waiting();
            }
        }
        self.completed.pop_front()
    }

    fn in_flight(&self) -> usize {
        self.queued.len() + self.completed.len() + self.busy.len() + self.waiting.len()
    }
}

fn target(op: &StorageOp) -> (Option<FileName>, Option<GroupDirectory>) {
    match op {
        StorageOp::Write { file, .. }
        | StorageOp::Sync { file }
        | StorageOp::Read { file, .. }
        | StorageOp::Replace { file, .. }
        | StorageOp::Allocate { file, .. }
        | StorageOp::Truncate { file, .. }
        | StorageOp::Remove { file } => (Some(*file), file.group()),
        StorageOp::RemoveGroup { group } => (None, Some(*group)),
    }
}

fn write_all(file: &std::fs::File, mut position: u64, chunks: &[Bytes]) -> std::io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = chunks.iter().map(|chunk| IoSlice::new(chunk)).collect();
    let mut rest: &mut [IoSlice<'_>] = &mut slices;
    while !rest.is_empty() {
        let pieces = rest.len().min(PIECES_MAX);
        let written = match rustix::io::pwritev(file, &rest[..pieces], position) {
            Ok(0) => return Err(std::io::ErrorKind::StorageFull.into()),
            Ok(written) => written,
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        position += written as u64;
        IoSlice::advance_slices(&mut rest, written);
    }
    Ok(())
}

/// Reads from the page cache; `None` when the device would have to be asked, or at the end of the file.
fn read_cached(file: &std::fs::File, position: u64, length: u32) -> Option<Bytes> {
    let mut bytes = BytesMut::with_capacity(length as usize);
    while bytes.len() < length as usize {
        let at = bytes.len();
        bytes.resize(length as usize, 0);
        let mut target = [std::io::IoSliceMut::new(&mut bytes[at..])];
        match rustix::io::preadv2(file, &mut target, position + at as u64, rustix::io::ReadWriteFlags::NOWAIT) {
            Ok(0) => return None,
            Ok(read) => bytes.truncate(at + read),
            Err(rustix::io::Errno::INTR) => bytes.truncate(at),
            Err(_) => return None,
        }
    }
    Some(bytes.freeze())
}
