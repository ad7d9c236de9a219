//! Hosts one shard: turns its effects into storage operations, channel sends and log lines, and back.

use crate::clock;
use crate::mail::Mail;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};
use whippet_metadata::command::GroupChange;
use whippet_metadata::{LogEntry, MetadataWriter};
use whippet_shard::{Effect, Event, Notice, Reply, RequestTicket, Severity, Shard, shard_of};
use whippet_storage::{Host, StorageHost};
use whippet_vsr::GroupId;

/// Mails that are taken before the shard settles.
const MAILS_PER_ROUND: usize = 512;
/// How long a stopping shard waits for its disk.
const STOP_WAIT: Duration = Duration::from_secs(3);

/// Requests that were taken and not answered.
#[derive(Default)]
struct Pending {
    slots: Vec<Option<(u64, oneshot::Sender<Reply>)>>,
    free: Vec<usize>,
    issued: u64,
}

const SLOT_BITS: u32 = 24;

impl Pending {
    fn add(&mut self, reply: oneshot::Sender<Reply>) -> RequestTicket {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        assert!(slot < 1 << SLOT_BITS, "mailboxes and queues bound the requests in flight");
        self.issued += 1;
        let ticket = self.issued << SLOT_BITS | slot as u64;
        self.slots[slot] = Some((ticket, reply));
        RequestTicket(ticket)
    }

    fn take(&mut self, ticket: RequestTicket) -> oneshot::Sender<Reply> {
        let slot = ticket.0 as usize & ((1 << SLOT_BITS) - 1);
        let (known, reply) = self.slots[slot].take().expect("a request is answered once");
        assert_eq!(known, ticket.0, "a request is answered once");
        self.free.push(slot);
        reply
    }
}

/// One shard with all that it needs on its thread.
pub(crate) struct ShardHost {
    pub(crate) shard: Shard,
    pub(crate) index: u32,
    pub(crate) storage: Host,
    pub(crate) storage_ready: Arc<Notify>,
    pub(crate) mailbox: flume::Receiver<Mail>,
    pub(crate) others: Vec<flume::Sender<Mail>>,
    /// Only shard 0 has it: the single writer of what all threads read.
    pub(crate) writer: Option<MetadataWriter>,
    pub(crate) commit: Arc<AtomicU64>,
    pub(crate) pending_replies: PendingReplies,
    /// To be called once, when everything that a stop of the machine took is made up for; only after such a stop.
    pub(crate) settled: Option<Box<dyn FnOnce() + Send>>,
}

/// Replies that wait until metadata is published.
#[derive(Default)]
pub(crate) struct PendingReplies {
    pending: Pending,
    publish: Vec<LogEntry>,
    groups: Vec<GroupChange>,
    replies: Vec<(RequestTicket, Reply)>,
}

/// Mail that was taken in.
struct Taken {
    any: bool,
    stop: bool,
}

/// Why a shard's thread ended.
pub(crate) enum Ended {
    /// It was told to; whether everything is on disk.
    Stopped { clean: bool },
    /// The storage can't be trusted any more.
    Fatal(String),
}

impl ShardHost {
    /// Runs until it is told to stop.
    pub(crate) async fn run(mut self) -> Ended {
        let event_fd = match self.storage.event_fd() {
            Some(fd) => match crate::readiness::Readiness::new(fd) {
                Ok(ready) => Some(ready),
                Err(error) => return Ended::Fatal(format!("wait for io_uring completions: {error}")),
            },
            None => None,
        };
        let mut stopping: Option<Instant> = None;
        loop {
            let worked = match self.round() {
                Ok(worked) => worked,
                Err(reason) => return Ended::Fatal(reason),
            };
            let mail = self.deliver().await;
            if mail.stop {
                stopping.get_or_insert_with(Instant::now);
            }
            if self.settled.is_some() && self.shard.has_recovered() {
                self.settled.take().into_iter().for_each(|settled| settled());
            }
            if let Some(since) = stopping {
                if self.shard.is_idle() {
                    return Ended::Stopped { clean: true };
                }
                if since.elapsed() > STOP_WAIT {
                    return Ended::Stopped { clean: false };
                }
            }
            if worked || mail.any {
                // Let the connections that were just answered go on before looking for more work.
                tokio::task::yield_now().await;
                continue;
            }
            let now = clock::now();
            let timeout = match (self.shard.timeout_ns(), stopping) {
                (Some(at), None) => Some(Duration::from_nanos(at.saturating_sub(now.monotonic_ns))),
                (None, None) => None,
                (_, Some(_)) => Some(Duration::from_millis(5)),
            };
            let mail = tokio::select! {
                biased;
                mail = self.mailbox.recv_async() => match mail {
                    Ok(mail) => Some(mail),
                    Err(flume::RecvError::Disconnected) => return Ended::Stopped { clean: self.shard.is_idle() },
                },
                () = self.storage_ready.notified() => None,
                () = crate::readiness::readable(event_fd.as_ref()) => None,
                () = sleep(timeout) => None,
            };
            if let Some(mail) = mail
                && self.take(mail)
            {
                stopping.get_or_insert_with(Instant::now);
            }
        }
    }

    /// Takes a mail in; whether it says to stop.
    fn take(&mut self, mail: Mail) -> bool {
        let now = clock::now();
        match mail {
            Mail::Request { request, reply } => {
                let ticket = self.pending_replies.pending.add(reply);
                self.shard.handle(Event::Request { ticket, request }, now);
            }
            Mail::Groups(changes) => self.shard.handle(Event::Groups(changes), now),
            Mail::Spawn(make) => {
                tokio::task::spawn_local(make());
            }
            Mail::Stop => {
                self.shard.handle(Event::Flush, now);
                return true;
            }
        }
        false
    }

    /// One round: everything that can be done now, without waiting. Whether anything was done.
    fn round(&mut self) -> Result<bool, String> {
        let mut any = false;
        loop {
            while let Some(completion) = self.storage.poll_completion() {
                any = true;
                self.shard.handle(Event::Storage(completion), clock::now());
            }
            let due = self.shard.timeout_ns().is_some_and(|at| at <= clock::now().monotonic_ns);
            if !due && !self.shard.needs_settling() && !self.drain_effects()? {
                return Ok(any);
            }
            any = true;
            self.shard.settle(clock::now());
            self.drain_effects()?;
            self.storage.flush();
        }
    }

    fn drain_effects(&mut self) -> Result<bool, String> {
        let mut any = false;
        while let Some(effect) = self.shard.poll_effect() {
            any = true;
            match effect {
                Effect::Storage(effect) => self.storage.submit(effect),
                Effect::Reply { ticket, reply } => self.pending_replies.replies.push((ticket, reply)),
                Effect::Publish(entry) => self.pending_replies.publish.push(entry),
                Effect::Groups(changes) => self.pending_replies.groups.extend(changes),
                Effect::Notice(notice) => log(&notice),
                other @ (Effect::Peer { .. } | Effect::Restored(_)) => {
                    return Err(format!("a node of its own has no peers, but: {other:?}"));
                }
                Effect::Fatal(reason) => return Err(reason),
            }
        }
        Ok(any)
    }

    /// Publishes metadata, tells the other shards, then answers, in this order. Then takes the mail that has come.
    async fn deliver(&mut self) -> Taken {
        let publish = std::mem::take(&mut self.pending_replies.publish);
        if let (Some(last), Some(writer)) = (publish.last(), &mut self.writer) {
            let op = last.op;
            writer.publish(publish);
            self.commit.store(op, Ordering::Release);
        }
        if !self.pending_replies.groups.is_empty() {
            let changes = std::mem::take(&mut self.pending_replies.groups);
            self.spread(changes).await;
        }
        for (ticket, reply) in std::mem::take(&mut self.pending_replies.replies) {
            // The asker may have gone away.
            let _ = self.pending_replies.pending.take(ticket).send(reply);
        }
        let mut taken = Taken { any: false, stop: false };
        for _ in 0..MAILS_PER_ROUND {
            let Ok(mail) = self.mailbox.try_recv() else { break };
            taken.any = true;
            taken.stop |= self.take(mail);
        }
        taken
    }

    /// Tells every shard of the partitions that it hosts.
    async fn spread(&mut self, changes: Vec<GroupChange>) {
        let shards = self.others.len() as u32;
        let mut by_shard: Vec<Vec<GroupChange>> = vec![Vec::new(); self.others.len()];
        for change in changes {
            let group = match &change {
                GroupChange::Created(settings) => settings.group,
                GroupChange::Deleted(group) | GroupChange::Purged { group, .. } => *group,
            };
            by_shard[shard_of(GroupId { number: group.number, life: group.life }, shards) as usize].push(change);
        }
        for (shard, changes) in by_shard.into_iter().enumerate().filter(|(_, changes)| !changes.is_empty()) {
            if shard as u32 == self.index {
                self.shard.handle(Event::Groups(changes), clock::now());
            } else {
                // Only a stopping shard does not take it, and then nobody will ask it.
                let _ = self.others[shard].send_async(Mail::Groups(changes)).await;
            }
        }
    }
}

async fn sleep(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

fn log(notice: &Notice) {
    let group = notice.group;
    match notice.severity {
        Severity::Info => tracing::info!(%group, "{}", notice.text),
        Severity::Warning => tracing::warn!(%group, "{}", notice.text),
        Severity::Error => tracing::error!(%group, "{}", notice.text),
    }
}
