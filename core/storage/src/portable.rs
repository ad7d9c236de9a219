//! The portable host: plain system calls, for wherever io_uring is missing or forbidden.
//!
//! Writes are made on the calling thread: the page cache takes them, and no thread has to be woken. Reads are tried there
//! too, without waiting for the device. What waits for the device (syncs, cold reads, cuts, replacements, removals) goes to a
//! few threads.

use crate::disk::{Device, DiskHost};
use crate::task::{Task, TaskResult, read_cached};
use crate::worker::{Wake, Workers};
use crate::{StorageCompletion, StorageEffect, StorageHost};
use std::path::Path;

/// Threads that wait for the device.
const WORKERS: usize = 2;

/// Carries tasks out by system calls, here or on a thread.
#[derive(Debug)]
struct Calls {
    workers: Workers,
}

impl Device for Calls {
    fn start(&mut self, token: u64, task: Task) -> Option<TaskResult> {
        match &task {
            Task::Write { .. } | Task::Allocate { .. } => return Some(task.carry_out()),
            Task::Read { file, position, length, .. } => {
                if let Some(bytes) = read_cached(file, *position, *length) {
                    return Some(Ok(bytes));
                }
            }
            Task::Sync { .. }
            | Task::Truncate { .. }
            | Task::Replace { .. }
            | Task::Remove { .. }
            | Task::RemoveGroup { .. } => {}
        }
        self.workers.submit(token, task);
        None
    }

    fn launch(&mut self) {}

    fn poll(&mut self) -> Option<(u64, TaskResult)> {
        self.workers.poll()
    }
}

/// See the module documentation.
#[derive(Debug)]
pub struct PortableHost {
    disk: DiskHost<Calls>,
}

impl PortableHost {
    /// A host for the data directory at `root` that keeps at most `open_files` unused files open. `wake` is called from other
    /// threads when a completion has come.
    ///
    /// # Errors
    /// When threads can't be started.
    pub fn new(root: &Path, open_files: usize, wake: &Wake) -> std::io::Result<PortableHost> {
        Ok(PortableHost { disk: DiskHost::new(root, open_files, Calls { workers: Workers::start(WORKERS, wake)? }) })
    }
}

impl StorageHost for PortableHost {
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
