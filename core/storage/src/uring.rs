//! The io_uring host: syncs, cold reads and allocations, and writes where that pays, go to the kernel in one call a batch.
//!
//! What is rare and has no ring operation of its own, or needs several steps (the first sync of a new file, cuts,
//! replacements, removals), goes to a thread. Both ways make the same eventfd readable.

use crate::disk::{Device, DiskHost};
use crate::files::failure;
use crate::ring::{Operation, Ring};
use crate::task::{
    Task, TaskResult, allocate_failed, cannot_allocate, read_cached, read_failed, sync_failed, write_failed,
};
use crate::worker::{Wake, Workers};
use crate::{FileName, StorageCompletion, StorageEffect, StorageError, StorageHost};
use bytes::{Bytes, BytesMut};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

/// Who makes buffered writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// The calling thread, by plain system calls; everything else goes through the ring. The page cache takes a write sooner
    /// than a ring's completion comes back.
    Inline,
    /// The ring. File systems that can't promise a buffered write without waiting (ext4 is one) have a kernel thread make it,
    /// which costs two changes of thread a write, but keeps the calling thread free when the page cache is congested.
    Ring,
}

/// What a ring operation was for, to say so when it fails.
#[derive(Debug)]
enum Purpose {
    Write { name: FileName, position: u64, chunks: Vec<Bytes> },
    Read { name: FileName, position: u64, length: u32 },
    Sync { name: FileName },
    Allocate { name: FileName, length: u64 },
}

/// Carries tasks out by a ring, or on a thread.
#[derive(Debug)]
struct RingDevice {
    ring: Ring,
    writes: Writes,
    purposes: BTreeMap<u64, Purpose>,
    workers: Workers,
    /// Ended without the ring, to be given by `poll`.
    ended: VecDeque<(u64, TaskResult)>,
    /// The ring takes nothing more; why.
    broken: Option<String>,
}

impl RingDevice {
    fn push(&mut self, token: u64, purpose: Purpose, operation: Operation) -> Option<TaskResult> {
        if let Some(detail) = &self.broken {
            return Some(Err(purpose.failed(&io::Error::other(detail.clone()))));
        }
        self.purposes.insert(token, purpose);
        self.ring.push(token, operation);
        None
    }

    /// Submits, and copes with a kernel that does not want to take more. Whether it has taken something.
    fn submit(&mut self) -> bool {
        if self.broken.is_some() {
            return false;
        }
        let error = match self.ring.submit() {
            Ok(taken) => return taken,
            Err(error) => error,
        };
        use rustix::io::Errno;
        if matches!(Errno::from_io_error(&error), Some(Errno::AGAIN | Errno::BUSY | Errno::NOMEM)) {
            // Short of memory: the entries stay queued. The owner is asked to come again.
            signal(self.ring.event_fd());
            return false;
        }
        // What the kernel has may still be written to, so it stays with the ring; its tickets end here.
        self.broken = Some(format!("io_uring takes no more operations: {error}"));
        let error = io::Error::other(format!("io_uring takes no more operations: {error}"));
        self.ended.extend(
            std::mem::take(&mut self.purposes).into_iter().map(|(token, purpose)| (token, Err(purpose.failed(&error)))),
        );
        signal(self.ring.event_fd());
        false
    }
}

impl Purpose {
    fn failed(&self, error: &io::Error) -> StorageError {
        match self {
            Purpose::Write { name, position, chunks } => write_failed(*name, *position, chunks, error),
            Purpose::Read { name, position, length } => read_failed(*name, *position, *length, error),
            Purpose::Sync { name } => sync_failed(*name, error),
            Purpose::Allocate { name, length } => allocate_failed(*name, *length, error),
        }
    }

    fn ended(&self, result: io::Result<Bytes>) -> TaskResult {
        match (self, result) {
            (Purpose::Allocate { .. }, Err(error)) if cannot_allocate(&error) => Ok(Bytes::new()),
            (_, result) => result.map_err(|error| self.failed(&error)),
        }
    }
}

impl Device for RingDevice {
    fn start(&mut self, token: u64, task: Task) -> Option<TaskResult> {
        match task {
            Task::Write { .. } if self.writes == Writes::Inline => Some(task.carry_out()),
            Task::Write { name, file, position, chunks } => {
                let pieces: VecDeque<Bytes> = chunks.iter().filter(|chunk| !chunk.is_empty()).cloned().collect();
                if pieces.is_empty() {
                    return Some(Ok(Bytes::new()));
                }
                self.push(
                    token,
                    Purpose::Write { name, position, chunks },
                    Operation::Write { file, position, chunks: pieces },
                )
            }
            Task::Read { name, file, position, length } => {
                if let Some(bytes) = read_cached(&file, position, length) {
                    return Some(Ok(bytes));
                }
                let buffer = BytesMut::zeroed(length as usize);
                self.push(
                    token,
                    Purpose::Read { name, position, length },
                    Operation::Read { file, position, buffer, filled: 0 },
                )
            }
            Task::Sync { name, file, directories } if directories.is_empty() => {
                self.push(token, Purpose::Sync { name }, Operation::Sync { file })
            }
            Task::Allocate { name, file, length } => {
                let have = match file.metadata() {
                    Ok(metadata) => metadata.len(),
                    Err(error) => return Some(Err(failure("look at", &name, &error))),
                };
                if have >= length {
                    return Some(Ok(Bytes::new()));
                }
                let operation = Operation::Allocate { file, position: have, length: length - have };
                self.push(token, Purpose::Allocate { name, length }, operation)
            }
            task @ (Task::Sync { .. }
            | Task::Truncate { .. }
            | Task::Replace { .. }
            | Task::Remove { .. }
            | Task::RemoveGroup { .. }) => {
                self.workers.submit(token, task);
                None
            }
        }
    }

    fn launch(&mut self) {
        self.submit();
    }

    fn poll(&mut self) -> Option<(u64, TaskResult)> {
        if let Some(ended) = self.ended.pop_front() {
            return Some(ended);
        }
        loop {
            while let Some((token, result)) = self.ring.next() {
                // A broken ring's operations were reported as failed, once.
                if let Some(purpose) = self.purposes.remove(&token) {
                    return Some((token, purpose.ended(result)));
                }
            }
            // Operations that go on, and those for which there was no room. They may end at once.
            if !self.submit() {
                break;
            }
        }
        self.workers.poll()
    }
}

fn signal(event: impl std::os::fd::AsFd) {
    // It fails only when the counter is full, and then the descriptor is readable already.
    let _ = rustix::io::write(event, &1u64.to_ne_bytes());
}

/// See the module documentation. It stays on the thread that made it.
#[derive(Debug)]
pub struct UringHost {
    disk: DiskHost<RingDevice>,
}

impl UringHost {
    /// A host for the data directory at `root` that keeps at most `open_files` unused files open.
    ///
    /// # Errors
    /// A sentence that says why io_uring can't be used.
    pub fn new(root: &Path, open_files: usize, writes: Writes) -> Result<UringHost, String> {
        let ring = Ring::open()?;
        let event = ring.event_fd().try_clone_to_owned().map_err(|error| format!("a descriptor: {error}"))?;
        let wake: Wake = Arc::new(move || signal(&event));
        let workers = Workers::start(1, &wake).map_err(|error| format!("a thread: {error}"))?;
        let device =
            RingDevice { ring, writes, purposes: BTreeMap::new(), workers, ended: VecDeque::new(), broken: None };
        Ok(UringHost { disk: DiskHost::new(root, open_files, device) })
    }

    /// Becomes readable when a completion has come; at times also when it was there right after [`StorageHost::flush`].
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        self.disk.device().ring.event_fd()
    }
}

impl StorageHost for UringHost {
    fn submit(&mut self, effect: StorageEffect) {
        self.disk.submit(effect);
    }

    fn flush(&mut self) {
        self.disk.flush();
    }

    fn poll_completion(&mut self) -> Option<StorageCompletion> {
        self.disk.poll_completion()
    }

    fn in_flight(&self) -> usize {
        self.disk.in_flight()
    }
}
