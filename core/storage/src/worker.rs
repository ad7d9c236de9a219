//! Threads for operations that wait for the device.

use crate::files::{failure, sync_parents};
use crate::{FileName, GroupDirectory, StorageCompletion, StorageError, StorageErrorKind, StorageTicket};
use bytes::{Bytes, BytesMut};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// Something that a worker does.
#[derive(Debug)]
pub(crate) enum Job {
    Sync { name: FileName, file: Arc<File>, path: PathBuf, created: bool },
    Read { name: FileName, file: Arc<File>, position: u64, length: u32 },
    Replace { name: FileName, path: PathBuf, data: Bytes },
    Remove { name: FileName, path: PathBuf },
    RemoveGroup { group: GroupDirectory, path: PathBuf },
}

/// A few threads behind one queue.
#[derive(Debug)]
pub(crate) struct Workers {
    jobs: Option<Sender<(StorageTicket, Job)>>,
    done: Receiver<StorageCompletion>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Workers {
    pub(crate) fn start(root: &Path, count: usize, wake: &Arc<dyn Fn() + Send + Sync>) -> io::Result<Workers> {
        let (jobs, queue) = channel::<(StorageTicket, Job)>();
        let (report, done) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let mut threads = Vec::new();
        for index in 0..count {
            let (queue, report, wake, root) = (queue.clone(), report.clone(), wake.clone(), root.to_path_buf());
            threads.push(std::thread::Builder::new().name(format!("disk-{index}")).spawn(move || {
                loop {
                    let job = match queue.lock() {
                        Ok(queue) => queue.recv(),
                        Err(_) => return,
                    };
                    let Ok((ticket, job)) = job else { return };
                    let result = carry_out(&root, job);
                    if report.send(StorageCompletion { ticket, result }).is_err() {
                        return;
                    }
                    wake();
                }
            })?);
        }
        Ok(Workers { jobs: Some(jobs), done, threads })
    }

    pub(crate) fn submit(&self, ticket: StorageTicket, job: Job) {
        // The threads end only when the queue is closed, which happens when this value goes.
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send((ticket, job)).is_ok());
        assert!(sent, "disk threads live as long as their host");
    }

    pub(crate) fn poll(&self) -> Option<StorageCompletion> {
        self.done.try_recv().ok()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A panic of a disk thread has been printed; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

fn carry_out(root: &Path, job: Job) -> Result<Bytes, StorageError> {
    match job {
        Job::Sync { name, file, path, created } => {
            file.sync_data().map_err(|error| failure("sync", &name, &error))?;
            if created {
                sync_parents(root, &path).map_err(|error| failure("sync the directory of", &name, &error))?;
            }
            Ok(Bytes::new())
        }
        Job::Read { name, file, position, length } => read_exact(&file, name, position, length),
        Job::Replace { name, path, data } => {
            replace(root, &path, &data).map_err(|error| failure(format!("write {} bytes to", data.len()), &name, &error))?;
            Ok(Bytes::new())
        }
        Job::Remove { name, path } => match std::fs::remove_file(&path) {
            Ok(()) => Ok(Bytes::new()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Bytes::new()),
            Err(error) => Err(failure("remove", &name, &error)),
        },
        Job::RemoveGroup { group, path } => match std::fs::remove_dir_all(&path) {
            Ok(()) => Ok(Bytes::new()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Bytes::new()),
            Err(error) => Err(failure("remove", &group, &error)),
        },
    }
}

/// Reads exactly `length` bytes.
pub(crate) fn read_exact(file: &File, name: FileName, position: u64, length: u32) -> Result<Bytes, StorageError> {
    let mut bytes = BytesMut::zeroed(length as usize);
    match file.read_exact_at(&mut bytes, position) {
        Ok(()) => Ok(bytes.freeze()),
        Err(error) => {
            let mut failed = failure(format!("read {length} bytes at {position} from"), &name, &error);
            if error.kind() == io::ErrorKind::UnexpectedEof {
                failed.kind = StorageErrorKind::ShortRead;
                failed.detail = "the file ends before".into();
            }
            Err(failed)
        }
    }
}

/// Replaces a file as a whole: new content under another name, synced, then renamed over the old one.
pub(crate) fn replace(root: &Path, path: &Path, data: &[u8]) -> io::Result<()> {
    let staged = path.with_extension(format!("{}.new", path.extension().and_then(|e| e.to_str()).unwrap_or_default()));
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let result = (|| {
        let mut file = File::create(&staged)?;
        file.write_all(data)?;
        file.sync_all()?;
        std::fs::rename(&staged, path)?;
        sync_parents(root, path)
    })();
    if result.is_err() {
        // Leave no half-written file behind; the error that counts is the first one.
        let _ = std::fs::remove_file(&staged);
    }
    result
}
