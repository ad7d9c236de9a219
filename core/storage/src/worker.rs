//! Threads for operations that wait for the device.

use crate::task::{Task, TaskResult};
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// Tells the owner of a host, from another thread, that a completion has come.
pub(crate) type Wake = Arc<dyn Fn() + Send + Sync>;

/// A few threads behind one queue. The queue holds at most what the shard has in flight, one entry a ticket.
#[derive(Debug)]
pub(crate) struct Workers {
    jobs: Option<Sender<(u64, Task)>>,
    done: Receiver<(u64, TaskResult)>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Workers {
    /// Starts `count` threads, which call `wake` after each task.
    pub(crate) fn start(count: usize, wake: &Wake) -> io::Result<Workers> {
        let (jobs, queue) = channel::<(u64, Task)>();
        let (report, done) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let mut workers = Workers { jobs: Some(jobs), done, threads: Vec::new() };
        for index in 0..count {
            let (queue, report, wake) = (queue.clone(), report.clone(), wake.clone());
            workers.threads.push(std::thread::Builder::new().name(format!("disk-{index}")).spawn(move || {
                loop {
                    let job = match queue.lock() {
                        Ok(queue) => queue.recv(),
                        Err(_) => return,
                    };
                    let Ok((token, task)) = job else { return };
                    if report.send((token, task.carry_out())).is_err() {
                        return;
                    }
                    wake();
                }
            })?);
        }
        Ok(workers)
    }

    pub(crate) fn submit(&self, token: u64, task: Task) {
        // The threads end only when the queue is closed, which happens when this value goes.
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send((token, task)).is_ok());
        assert!(sent, "disk threads live as long as their host");
    }

    pub(crate) fn poll(&self) -> Option<(u64, TaskResult)> {
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
