//! Starts and stops the shards' threads.

use crate::clock;
use crate::host::{Ended, PendingReplies, ShardHost};
use crate::mail::{MAILBOX_MAX, Mail, RuntimeHandle, ThreadSpawner};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot, watch};
use whippet_log::{PreviousEnd, RecoveryError};
use whippet_metadata::MetadataWriter;
use whippet_metadata::state::PartitionSettings;
use whippet_shard::{
    GroupTable, METADATA_SEGMENT_SIZE, MetadataGroup, MetadataUnusable, Shard, ShardConfig, VOTES_COMPACT_AT, Votes,
};
use whippet_storage::{DataDirectory, Engine, GroupDirectory, Host, RecoverySource, StorageError};
use whippet_vsr::{ClusterId, GroupId, Mutant, PIPELINE_MAX, ReplicaId};

/// How the shards are to run.
#[derive(Clone, Debug)]
pub struct RuntimeSettings {
    /// Identity of the cluster, from its name.
    pub cluster: ClusterId,
    /// This node in the roster.
    pub replica: ReplicaId,
    /// Size of the roster.
    pub replica_count: u8,
    /// Number of shards, each with a thread of its own; at least 1.
    pub shards: u32,
    /// Whether each thread stays on one core.
    pub pin_threads: bool,
    /// How disk operations are carried out.
    pub engine: Engine,
    /// Longest time that a written record of a `replicated` topic stays without fsync.
    pub sync_interval: Duration,
}

/// Why the shards can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The metadata log is unusable.
    #[error(transparent)]
    Metadata(#[from] MetadataUnusable),
    /// A partition's log holds what this program does not understand, or can't be read.
    #[error("a partition can't be read back: {0}")]
    Partition(#[from] RecoveryError),
    /// The data directory can't be read.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// There are partitions but no metadata log that names them.
    #[error(
        "the data directory holds partitions but no metadata log that names them; nothing was changed. \
         Restore its `metadata` folder from a backup, or start with another data directory"
    )]
    MetadataMissing,
    /// A thread could not be started or the disk engine could not be opened.
    #[error("start shard {shard}: {reason}")]
    Thread {
        /// Which shard.
        shard: u32,
        /// Why.
        reason: String,
    },
}

/// The running shards.
pub struct Runtime {
    handle: RuntimeHandle,
    mailboxes: Vec<flume::Sender<Mail>>,
    threads: Vec<JoinHandle<()>>,
    ended: Vec<oneshot::Receiver<Ended>>,
    stopping: watch::Sender<bool>,
    directory: Arc<DataDirectory>,
    fatal: watch::Receiver<Option<String>>,
}

struct Seat {
    index: u32,
    settings: RuntimeSettings,
    config: ShardConfig,
    metadata: Option<MetadataGroup>,
    writer: Option<MetadataWriter>,
    partitions: Arc<Vec<PartitionSettings>>,
    foreseen: Arc<Vec<PartitionSettings>>,
    votes: Arc<Votes>,
    table: Arc<GroupTable>,
    leftovers: Arc<Vec<GroupDirectory>>,
    next_group: u64,
    directory: Arc<DataDirectory>,
    mailbox: flume::Receiver<Mail>,
    others: Vec<flume::Sender<Mail>>,
    commit: Arc<AtomicU64>,
    /// Shards that have not finished what recovery found to do.
    unsettled: Arc<AtomicUsize>,
}

impl Runtime {
    /// Reads the data directory back and starts all shards; returns once all of them serve.
    ///
    /// # Errors
    /// [`StartError`]; nothing on disk is changed by a refused start.
    ///
    /// # Panics
    /// When the settings ask for no shard.
    pub fn start(settings: RuntimeSettings, directory: DataDirectory) -> Result<Runtime, StartError> {
        assert!(settings.shards > 0, "at least one shard");
        let directory = Arc::new(directory);
        let run = directory.start_number();
        let table = Arc::new(GroupTable::read(&*directory, settings.cluster)?);
        if table.damaged() > 0 {
            tracing::warn!(
                entries = table.damaged(),
                "entries of the group table are damaged; the log of each group decides"
            );
        }
        let previous_end = match directory.lost_runs() {
            Some((first, last)) => PreviousEnd::MachineStopped { first, last },
            None => PreviousEnd::PageCacheKept,
        };
        let shard_config = |shard| ShardConfig {
            cluster: settings.cluster,
            replica: settings.replica,
            replica_count: settings.replica_count,
            shard,
            shard_count: settings.shards,
            run,
            // The start number is durable before anything is sent, so no two starts of a disk have the same.
            incarnation: directory.identity().disk.wrapping_add(u128::from(run)),
            previous_end,
            sync_interval_ns: u64::try_from(settings.sync_interval.as_nanos()).unwrap_or(u64::MAX),
            disk: directory.identity().disk,
            pipeline: PIPELINE_MAX,
            metadata_segment_size: METADATA_SEGMENT_SIZE,
            votes_compact_at: VOTES_COMPACT_AT,
            mutant: Mutant::None,
        };
        let votes = Arc::new(Votes::read(&*directory, shard_config(0).vote_owner())?);
        let metadata = MetadataGroup::recover(&shard_config(0), &*directory, &votes, clock::now())?;
        let foreseen: Arc<Vec<PartitionSettings>> = Arc::new(metadata.foreseen().to_vec());
        let on_disk = directory.groups()?;
        let partitions_on_disk = on_disk.iter().any(|group| group.number != 0);
        if metadata.state().applied() == 0 && (partitions_on_disk || !table.is_empty()) {
            return Err(StartError::MetadataMissing);
        }
        let partitions: Arc<Vec<PartitionSettings>> = Arc::new(metadata.state().all_partitions().collect());
        let next_group = metadata.state().next_group_number();
        let commit = Arc::new(AtomicU64::new(metadata.commit()));
        let writer = MetadataWriter::new(metadata.state().clone());
        let reader = writer.reader();
        let (stopping, stopping_seen) = watch::channel(false);
        let (fatal, fatal_seen) = watch::channel(None);
        let fatal = Arc::new(fatal);
        let channels: Vec<_> = (0..settings.shards).map(|_| flume::bounded(MAILBOX_MAX)).collect();
        let mailboxes: Vec<flume::Sender<Mail>> = channels.iter().map(|(sender, _)| sender.clone()).collect();
        let handle = RuntimeHandle {
            spawners: mailboxes.iter().map(|mailbox| ThreadSpawner { mailbox: mailbox.clone() }).collect(),
            metadata: reader,
            commit: commit.clone(),
            stopping: stopping_seen,
        };
        let leftovers = Arc::new(on_disk);
        let (mut metadata, mut writer) = (Some(metadata), Some(writer));
        let unsettled = Arc::new(AtomicUsize::new(settings.shards as usize));
        let (mut threads, mut ended, mut ready) = (Vec::new(), Vec::new(), Vec::new());
        for (index, (_, receiver)) in channels.into_iter().enumerate() {
            let index = index as u32;
            let seat = Seat {
                index,
                settings: settings.clone(),
                config: shard_config(index),
                metadata: metadata.take(),
                writer: writer.take(),
                partitions: partitions.clone(),
                foreseen: foreseen.clone(),
                votes: votes.clone(),
                table: table.clone(),
                leftovers: leftovers.clone(),
                next_group,
                directory: directory.clone(),
                mailbox: receiver,
                others: mailboxes.clone(),
                commit: commit.clone(),
                unsettled: unsettled.clone(),
            };
            let (ready_sender, ready_receiver) = oneshot::channel();
            let (ended_sender, ended_receiver) = oneshot::channel();
            let fatal = fatal.clone();
            let thread = std::thread::Builder::new()
                .name(format!("shard-{index}"))
                .spawn(move || {
                    let result = catch_unwind(AssertUnwindSafe(|| sit(seat, ready_sender)));
                    let end = result
                        .unwrap_or_else(|_| Ended::Fatal(format!("shard {index} panicked; see the log line before")));
                    if let Ended::Fatal(reason) = &end {
                        fatal.send_replace(Some(reason.clone()));
                    }
                    let _ = ended_sender.send(end);
                })
                .map_err(|error| StartError::Thread { shard: index, reason: error.to_string() })?;
            threads.push(thread);
            ended.push(ended_receiver);
            ready.push(ready_receiver);
        }
        let runtime = Runtime { handle, mailboxes, threads, ended, stopping, directory, fatal: fatal_seen };
        for (index, ready) in ready.into_iter().enumerate() {
            match ready.blocking_recv() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(error),
                Err(_) => {
                    let reason = runtime.fatal.borrow().clone().unwrap_or_else(|| "its thread ended".into());
                    return Err(StartError::Thread { shard: index as u32, reason });
                }
            }
        }
        Ok(runtime)
    }

    /// The way into the shards.
    pub fn handle(&self) -> &RuntimeHandle {
        &self.handle
    }

    /// The data directory.
    pub fn directory(&self) -> &Arc<DataDirectory> {
        &self.directory
    }

    /// Tells everyone who asked ([`RuntimeHandle::stopping`]) that the server begins to stop. Shards go on serving.
    pub fn begin_stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Resolves with the reason when the process must end because its storage can't be trusted or a shard broke down.
    pub async fn fatal(&self) -> String {
        let mut fatal = self.fatal.clone();
        loop {
            if let Some(reason) = fatal.borrow_and_update().clone() {
                return reason;
            }
            if fatal.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Syncs everything and ends the threads, within `wait`; whether everything is on disk. A clean stop is noted in the data
    /// directory, so that the next start knows that nothing can be missing.
    pub fn stop(mut self, wait: Duration) -> bool {
        self.begin_stop();
        for mailbox in &self.mailboxes {
            let _ = mailbox.send_timeout(Mail::Stop, wait);
        }
        let deadline = Instant::now() + wait;
        let mut clean = true;
        for ended in &mut self.ended {
            loop {
                match ended.try_recv() {
                    Ok(Ended::Stopped { clean: all }) => {
                        clean &= all;
                        break;
                    }
                    Ok(Ended::Fatal(_)) | Err(oneshot::error::TryRecvError::Closed) => {
                        clean = false;
                        break;
                    }
                    Err(oneshot::error::TryRecvError::Empty) if Instant::now() >= deadline => {
                        clean = false;
                        break;
                    }
                    Err(oneshot::error::TryRecvError::Empty) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        }
        if clean {
            for thread in self.threads.drain(..) {
                clean &= thread.join().is_ok();
            }
            if let Err(error) = self.directory.mark_clean() {
                tracing::warn!("{error}; the next start takes this stop for an unclean one");
                clean = false;
            }
        }
        clean
    }
}

/// What a shard's thread does.
fn sit(seat: Seat, ready: oneshot::Sender<Result<(), StartError>>) -> Ended {
    let Seat {
        index,
        settings,
        config,
        metadata,
        writer,
        partitions,
        foreseen,
        votes,
        table,
        leftovers,
        next_group,
        directory,
        mailbox,
        others,
        commit,
        unsettled,
    } = seat;
    if settings.pin_threads {
        pin(index);
    }
    let refuse = |reason: String, ready: oneshot::Sender<Result<(), StartError>>| {
        let _ = ready.send(Err(StartError::Thread { shard: index, reason }));
        Ended::Stopped { clean: false }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default())
    {
        Ok(runtime) => runtime,
        Err(error) => return refuse(error.to_string(), ready),
    };
    let storage_ready = Arc::new(Notify::new());
    let wake = {
        let storage_ready = storage_ready.clone();
        Arc::new(move || storage_ready.notify_one())
    };
    let storage = match Host::open(&directory, settings.engine, wake) {
        Ok((host, report)) => {
            if index == 0 {
                match &report.fallback {
                    Some(reason) => {
                        tracing::warn!("io_uring is not used: {reason}; disk operations take the portable way")
                    }
                    None => tracing::info!("disk operations go through {}", report.engine),
                }
            }
            host
        }
        Err(error) => return refuse(error.to_string(), ready),
    };
    let mut shard = Shard::new(config, metadata, &table, &votes, clock::now());
    let recovered = shard.recover_partitions(partitions.iter(), &foreseen, &table, &votes, &*directory, clock::now());
    if let Err(error) = recovered {
        let _ = ready.send(Err(error.into()));
        return Ended::Stopped { clean: false };
    }
    let live: BTreeSet<GroupId> = partitions
        .iter()
        .map(|settings| GroupId { number: settings.group.number, life: settings.group.life })
        .collect();
    shard.remove_leftovers(&leftovers, &live, next_group);
    let host = ShardHost {
        shard,
        index,
        storage,
        storage_ready,
        mailbox,
        others,
        writer,
        commit: commit.clone(),
        pending_replies: PendingReplies::default(),
        settled: directory.lost_runs().map(|_| -> Box<dyn FnOnce() + Send> {
            Box::new(move || {
                if unsettled.fetch_sub(1, Ordering::AcqRel) == 1
                    && let Err(error) = directory.mark_settled()
                {
                    tracing::warn!("{error}; the next start looks for lost messages again");
                }
            })
        }),
    };
    let _ = ready.send(Ok(()));
    runtime.block_on(host.run())
}

fn pin(index: u32) {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut set = rustix::thread::CpuSet::new();
    set.set(index as usize % cores);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        tracing::debug!(shard = index, "the thread is not pinned: {error}");
    }
}
