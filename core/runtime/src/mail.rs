//! What crosses into a shard's thread, and the handle that sends it.

use crate::clock;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use whippet_metadata::MetadataReader;
use whippet_metadata::command::GroupChange;
use whippet_shard::{PartitionStats, Reply, Request, shard_of};
use whippet_vsr::GroupId;

/// Requests that may wait in a shard's mailbox.
pub(crate) const MAILBOX_MAX: usize = 4096;
/// How long a request waits for room in a full mailbox before it is refused.
const MAILBOX_WAIT: Duration = Duration::from_secs(3);
/// How long a request that was taken waits for its reply before its outcome is called unknown.
const REPLY_WAIT: Duration = Duration::from_secs(20);

type Spawned = Pin<Box<dyn Future<Output = ()>>>;

pub(crate) enum Mail {
    Request {
        request: Request,
        reply: oneshot::Sender<Reply>,
    },
    Groups(Vec<GroupChange>),
    /// Makes a future on the shard's thread, where it then lives.
    Spawn(Box<dyn FnOnce() -> Spawned + Send>),
    /// Sync everything and end.
    Stop,
}

/// Why a call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The server is stopping; the request was certainly not taken.
    #[error("the server is stopping")]
    Stopping,
    /// The mailbox stayed full; the request was certainly not taken.
    #[error("the server is overloaded")]
    Overloaded,
    /// The request was taken and its outcome is not known.
    #[error("no answer in time; whether the request was carried out is not known")]
    Deadline,
}

/// Runs futures on one shard's thread.
#[derive(Clone)]
pub struct ThreadSpawner {
    pub(crate) mailbox: flume::Sender<Mail>,
}

impl ThreadSpawner {
    /// Makes a future on the thread and runs it there. The closure crosses threads, the future need not.
    ///
    /// # Errors
    /// [`CallError::Stopping`] when the thread has ended, [`CallError::Overloaded`] when its mailbox is full.
    pub fn spawn<F, Fut>(&self, make: F) -> Result<(), CallError>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let mail = Mail::Spawn(Box::new(move || Box::pin(make())));
        self.mailbox.try_send(mail).map_err(|error| match error {
            flume::TrySendError::Full(_) => CallError::Overloaded,
            flume::TrySendError::Disconnected(_) => CallError::Stopping,
        })
    }
}

/// The way into the shards, from any thread. Cheap to clone.
#[derive(Clone)]
pub struct RuntimeHandle {
    pub(crate) spawners: Arc<[ThreadSpawner]>,
    pub(crate) metadata: MetadataReader,
    pub(crate) commit: Arc<AtomicU64>,
    pub(crate) stopping: watch::Receiver<bool>,
}

impl RuntimeHandle {
    /// Carries a request to the shard that hosts its group and waits for the answer.
    ///
    /// # Errors
    /// [`CallError`]; only [`CallError::Deadline`] leaves open whether the request was carried out.
    pub async fn call(&self, request: Request) -> Result<Reply, CallError> {
        let shard = self.shard_for(&request);
        self.call_shard(shard, request).await
    }

    fn shard_for(&self, request: &Request) -> usize {
        let group = match request {
            Request::Metadata(_) => GroupId::METADATA,
            Request::Send { group, .. }
            | Request::Poll { group, .. }
            | Request::GetOffset { group, .. }
            | Request::StoreOffset { group, .. }
            | Request::DeleteOffset { group, .. }
            | Request::Purge { group, .. } => *group,
            Request::Stats { groups } => groups.first().copied().unwrap_or(GroupId::METADATA),
        };
        self.shard_index(group)
    }

    fn shard_index(&self, group: GroupId) -> usize {
        shard_of(group, self.spawners.len() as u32) as usize
    }

    async fn call_shard(&self, shard: usize, request: Request) -> Result<Reply, CallError> {
        let mailbox = &self.spawners[shard].mailbox;
        let (reply, answer) = oneshot::channel();
        match mailbox.try_send(Mail::Request { request, reply }) {
            Ok(()) => {}
            Err(flume::TrySendError::Disconnected(_)) => return Err(CallError::Stopping),
            Err(flume::TrySendError::Full(mail)) => {
                match tokio::time::timeout(MAILBOX_WAIT, mailbox.send_async(mail)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return Err(CallError::Stopping),
                    Err(_) => return Err(CallError::Overloaded),
                }
            }
        }
        match tokio::time::timeout(REPLY_WAIT, answer).await {
            Ok(Ok(reply)) => Ok(reply),
            // The shard ended with the request in hand: it may have been written.
            Ok(Err(_)) | Err(_) => Err(CallError::Deadline),
        }
    }

    /// Numbers of many partitions, gathered from all shards, in the order of the question; `None` for unknown ones.
    ///
    /// # Errors
    /// As [`RuntimeHandle::call`].
    pub async fn stats(&self, groups: &[GroupId]) -> Result<Vec<Option<PartitionStats>>, CallError> {
        let mut result = vec![None; groups.len()];
        for shard in 0..self.spawners.len() {
            let here: Vec<usize> = (0..groups.len()).filter(|at| self.shard_index(groups[*at]) == shard).collect();
            if here.is_empty() {
                continue;
            }
            let asked = here.iter().map(|at| groups[*at]).collect();
            if let Reply::Stats(stats) = self.call_shard(shard, Request::Stats { groups: asked }).await? {
                for (at, stats) in here.into_iter().zip(stats) {
                    result[at] = stats;
                }
            }
        }
        Ok(result)
    }

    /// Committed metadata, readable from every thread without locks.
    pub fn metadata(&self) -> &MetadataReader {
        &self.metadata
    }

    /// Committed op of the metadata log, as far as readers see it.
    pub fn commit_number(&self) -> u64 {
        self.commit.load(Ordering::Acquire)
    }

    /// Number of shards.
    pub fn shard_count(&self) -> usize {
        self.spawners.len()
    }

    /// Microseconds since 1970.
    pub fn now_us(&self) -> u64 {
        clock::wall_us()
    }

    /// Ways to run futures on the shards' threads, one a thread.
    pub fn spawners(&self) -> &[ThreadSpawner] {
        &self.spawners
    }

    /// Whether the server is stopping.
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Resolves when the server begins to stop.
    pub fn stopping(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stopping = self.stopping.clone();
        async move {
            // An error means that the runtime is gone, which is a stop too.
            let _ = stopping.wait_for(|stopping| *stopping).await;
        }
    }
}
