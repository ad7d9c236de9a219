//! What all hosts on real disks share: order, open files, adjacent writes made one, and the fsync gate.
//!
//! A [`Device`] carries tasks out. What is particular to system calls or to io_uring is there, nothing of it here.

use crate::files::{Files, SyncScope};
use crate::order::{Claim, Order, total};
use crate::task::{PIECES_MAX, Task, TaskResult};
use crate::{
    FileName, StorageCompletion, StorageEffect, StorageError, StorageErrorKind, StorageHost, StorageOp, StorageTicket,
};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

/// Bytes of one system call: larger ones keep the thread from its connections for too long.
const RUN_MAX: u64 = 4 * 1024 * 1024;

/// Carries out tasks.
pub(crate) trait Device {
    /// Begins a task. `Some` when it has ended already; otherwise [`Device::poll`] gives its result under `token`.
    fn start(&mut self, token: u64, task: Task) -> Option<TaskResult>;
    /// Called after a batch of [`Device::start`].
    fn launch(&mut self);
    /// A task that has ended.
    fn poll(&mut self) -> Option<(u64, TaskResult)>;
}

/// Adjacent writes to one file, made by one call.
#[derive(Debug)]
struct Run {
    position: u64,
    end: u64,
    chunks: Vec<Bytes>,
    tickets: Vec<StorageTicket>,
    claims: Vec<Claim>,
}

/// What has to be done when a task has ended.
#[derive(Debug)]
enum After {
    Nothing,
    Release(FileName),
    Written(FileName),
    Synced(FileName, SyncScope),
    Replaced(FileName),
}

#[derive(Debug)]
struct Running {
    tickets: Vec<StorageTicket>,
    claims: Vec<Claim>,
    after: After,
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct DiskHost<D> {
    device: D,
    files: Files,
    order: Order,
    /// Files whose sync failed: nothing that a later sync says is trusted.
    gated: BTreeSet<FileName>,
    queued: VecDeque<StorageEffect>,
    /// Let through by the order, not begun yet.
    ready: VecDeque<StorageEffect>,
    /// Writes that wait for adjacent ones, until the end of the batch or another operation on the file.
    runs: BTreeMap<FileName, Run>,
    running: BTreeMap<u64, Running>,
    next_token: u64,
    completed: VecDeque<StorageCompletion>,
    outstanding: usize,
}

impl<D: Device> DiskHost<D> {
    /// A host for the data directory at `root` that keeps at most `open_files` unused files open.
    pub(crate) fn new(root: &Path, open_files: usize, device: D) -> DiskHost<D> {
        DiskHost {
            device,
            files: Files::new(root, open_files),
            order: Order::default(),
            gated: BTreeSet::new(),
            queued: VecDeque::new(),
            ready: VecDeque::new(),
            runs: BTreeMap::new(),
            running: BTreeMap::new(),
            next_token: 0,
            completed: VecDeque::new(),
            outstanding: 0,
        }
    }

    pub(crate) fn device(&self) -> &D {
        &self.device
    }

    /// Begins everything that may run.
    fn drive(&mut self) {
        loop {
            while let Some(effect) = self.ready.pop_front() {
                self.begin(effect);
            }
            // Runs are made last, so that they take in as many writes as possible. Their end may let others through.
            if self.runs.is_empty() {
                break;
            }
            for (file, run) in std::mem::take(&mut self.runs) {
                self.write(file, run);
            }
        }
        self.device.launch();
    }

    fn begin(&mut self, effect: StorageEffect) {
        let claim = Claim::of(&effect.op);
        let StorageEffect { ticket, op } = effect;
        let (file, group) = match op {
            StorageOp::Write { file, position, chunks } => return self.join(file, position, chunks, ticket, claim),
            StorageOp::Sync { file }
            | StorageOp::Read { file, .. }
            | StorageOp::Replace { file, .. }
            | StorageOp::Allocate { file, .. }
            | StorageOp::Truncate { file, .. }
            | StorageOp::Remove { file } => (Some(file), None),
            StorageOp::RemoveGroup { group } => (None, Some(group)),
        };
        if let Some(file) = file
            && let Some(run) = self.runs.remove(&file)
        {
            self.write(file, run);
        }
        if let Some(group) = group {
            self.files.forget_group(group);
        }
        let running = |after| Running { tickets: vec![ticket], claims: vec![claim], after };
        match self.prepare(op) {
            Ok((task, after)) => self.start(task, running(after)),
            Err(error) => self.end(running(After::Nothing), Err(error)),
        }
    }

    /// Opens what the operation needs.
    fn prepare(&mut self, op: StorageOp) -> Result<(Task, After), StorageError> {
        Ok(match op {
            StorageOp::Write { .. } => unreachable!("writes are joined to runs"),
            StorageOp::Sync { file: name } => {
                self.pass_gate(name)?;
                let file = self.files.existing(name)?;
                let scope = self.files.sync_scope(name);
                (Task::Sync { name, file, directories: scope.directories.clone() }, After::Synced(name, scope))
            }
            StorageOp::Read { file: name, position, length } => {
                let file = self.files.existing(name)?;
                (Task::Read { name, file, position, length }, After::Release(name))
            }
            StorageOp::Allocate { file: name, length } => {
                let file = self.files.writable(name)?;
                (Task::Allocate { name, file, length }, After::Release(name))
            }
            StorageOp::Truncate { file: name, length } => {
                self.pass_gate(name)?;
                let file = self.files.writable(name)?;
                let scope = self.files.sync_scope(name);
                (
                    Task::Truncate { name, file, length, directories: scope.directories.clone() },
                    After::Synced(name, scope),
                )
            }
            StorageOp::Replace { file: name, data } => {
                self.files.forget(name);
                let task =
                    Task::Replace { name, root: self.files.root().to_path_buf(), path: self.files.path(name), data };
                (task, After::Replaced(name))
            }
            StorageOp::Remove { file: name } => {
                self.files.forget_removed(name);
                (Task::Remove { name, path: self.files.path(name) }, After::Nothing)
            }
            StorageOp::RemoveGroup { group } => {
                (Task::RemoveGroup { group, path: self.files.root().join(group.to_string()) }, After::Nothing)
            }
        })
    }

    fn pass_gate(&self, file: FileName) -> Result<(), StorageError> {
        if !self.gated.contains(&file) {
            return Ok(());
        }
        Err(StorageError {
            kind: StorageErrorKind::SyncFailedBefore,
            action: "sync".into(),
            path: file.to_string(),
            detail:
                "an earlier sync of it failed, so that what it holds is not known; the process must be started again"
                    .into(),
        })
    }

    /// Puts a write to the adjacent ones before it.
    fn join(&mut self, file: FileName, position: u64, chunks: Vec<Bytes>, ticket: StorageTicket, claim: Claim) {
        let bytes = total(&chunks);
        let end = position.saturating_add(bytes);
        if let Some(run) = self.runs.get_mut(&file)
            && run.end == position
            && run.chunks.len() + chunks.len() <= PIECES_MAX
            && run.end - run.position + bytes <= RUN_MAX
        {
            run.end = end;
            run.chunks.extend(chunks);
            run.tickets.push(ticket);
            run.claims.push(claim);
            return;
        }
        let run = Run { position, end, chunks, tickets: vec![ticket], claims: vec![claim] };
        if let Some(before) = self.runs.insert(file, run) {
            self.write(file, before);
        }
    }

    fn write(&mut self, name: FileName, run: Run) {
        let Run { position, chunks, tickets, claims, .. } = run;
        match self.files.writable(name) {
            Ok(file) => {
                self.files.changed(name);
                self.start(
                    Task::Write { name, file, position, chunks },
                    Running { tickets, claims, after: After::Written(name) },
                );
            }
            Err(error) => self.end(Running { tickets, claims, after: After::Nothing }, Err(error)),
        }
    }

    fn start(&mut self, task: Task, running: Running) {
        self.next_token += 1;
        match self.device.start(self.next_token, task) {
            Some(result) => self.end(running, result),
            None => {
                self.running.insert(self.next_token, running);
            }
        }
    }

    fn end(&mut self, running: Running, result: TaskResult) {
        match running.after {
            After::Nothing => {}
            After::Release(file) => self.files.release(file),
            After::Written(file) => {
                self.files.changed(file);
                self.files.release(file);
            }
            After::Synced(file, scope) => {
                match &result {
                    Ok(_) => self.files.synced(file, &scope),
                    // A sync fails with this kind only; a cut that found no room has lost nothing.
                    Err(error) if error.kind == StorageErrorKind::Io => {
                        self.gated.insert(file);
                    }
                    Err(_) => {}
                }
                self.files.release(file);
            }
            After::Replaced(file) => {
                if result.is_ok() {
                    self.files.entry_is_durable(file, true);
                }
            }
        }
        for ticket in running.tickets {
            self.completed.push_back(StorageCompletion { ticket, result: result.clone() });
        }
        for claim in &running.claims {
            self.order.finish(claim, &mut self.ready);
        }
    }

    /// Takes in what has ended on the device, and begins what waited for it, until nothing more has ended.
    fn collect(&mut self) {
        loop {
            let mut any = false;
            while let Some((token, result)) = self.device.poll() {
                any = true;
                let running =
                    self.running.remove(&token).expect("a device gives back the tokens that it was given, once each");
                self.end(running, result);
            }
            if !any {
                return;
            }
            self.drive();
        }
    }
}

impl<D: Device> StorageHost for DiskHost<D> {
    fn submit(&mut self, effect: StorageEffect) {
        self.outstanding += 1;
        self.queued.push_back(effect);
    }

    fn flush(&mut self) {
        // What waits takes its turn first: the effects that come now were submitted later.
        self.collect();
        while let Some(effect) = self.queued.pop_front() {
            self.ready.extend(self.order.admit(effect));
        }
        self.drive();
    }

    fn poll_completion(&mut self) -> Option<StorageCompletion> {
        if self.completed.is_empty() && !self.running.is_empty() {
            self.collect();
        }
        let completion = self.completed.pop_front()?;
        self.outstanding -= 1;
        Some(completion)
    }

    fn in_flight(&self) -> usize {
        self.outstanding
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that ends tasks as the test says.
    #[derive(Default)]
    struct Faulty {
        tasks: Vec<(u64, Task)>,
        results: VecDeque<(u64, TaskResult)>,
    }

    impl Device for Faulty {
        fn start(&mut self, token: u64, task: Task) -> Option<TaskResult> {
            self.tasks.push((token, task));
            None
        }
        fn launch(&mut self) {}
        fn poll(&mut self) -> Option<(u64, TaskResult)> {
            self.results.pop_front()
        }
    }

    const FILE: FileName = FileName::GroupTable { part: 0 };

    fn host(root: &Path) -> DiskHost<Faulty> {
        DiskHost::new(root, 4, Faulty::default())
    }

    fn submit(host: &mut DiskHost<Faulty>, ticket: u64, op: StorageOp) {
        host.submit(StorageEffect { ticket: StorageTicket(ticket), op });
    }

    fn write(position: u64, bytes: &'static [u8]) -> StorageOp {
        StorageOp::Write { file: FILE, position, chunks: vec![Bytes::from_static(bytes)] }
    }

    #[test]
    fn adjacent_writes_are_one_task_and_others_are_not() {
        let temp = tempfile::tempdir().expect("temp");
        let mut host = host(temp.path());
        submit(&mut host, 1, write(0, b"ab"));
        submit(&mut host, 2, write(2, b"cd"));
        submit(&mut host, 3, write(9, b"x"));
        submit(&mut host, 4, StorageOp::Sync { file: FILE });
        submit(&mut host, 5, write(10, b"y"));
        host.flush();
        let shapes: Vec<String> = host
            .device
            .tasks
            .iter()
            .map(|(_, task)| match task {
                Task::Write { position, chunks, .. } => format!("{position}:{}", chunks.concat().len()),
                Task::Sync { .. } => "sync".into(),
                other => format!("{other:?}"),
            })
            .collect();
        assert_eq!(shapes, ["0:4", "9:1", "sync", "10:1"]);
        let token = host.device.tasks[0].0;
        host.device.results.push_back((token, Ok(Bytes::new())));
        assert_eq!(host.in_flight(), 5);
        let tickets: Vec<u64> = std::iter::from_fn(|| host.poll_completion()).map(|done| done.ticket.0).collect();
        assert_eq!(tickets, [1, 2]);
        assert_eq!(host.in_flight(), 3);
    }

    #[test]
    fn after_a_failed_sync_later_ones_fail_and_so_do_those_that_wait() {
        let temp = tempfile::tempdir().expect("temp");
        std::fs::create_dir_all(temp.path().join("groups")).expect("dir");
        let mut host = host(temp.path());
        submit(&mut host, 1, write(0, b"ab"));
        host.flush();
        let token = host.device.tasks[0].0;
        host.device.results.push_back((token, Ok(Bytes::new())));
        assert_eq!(host.poll_completion().map(|done| done.ticket.0), Some(1));
        submit(&mut host, 2, StorageOp::Sync { file: FILE });
        submit(&mut host, 3, StorageOp::Sync { file: FILE });
        host.flush();
        assert_eq!(host.device.tasks.len(), 2, "one sync of a file at a time");
        let lost = crate::task::sync_failed(FILE, &std::io::ErrorKind::StorageFull.into());
        assert_eq!(lost.kind, StorageErrorKind::Io, "lost data is not mere want of room");
        host.device.results.push_back((host.device.tasks[1].0, Err(lost)));
        let kind = |host: &mut DiskHost<Faulty>| {
            host.poll_completion().map(|done| (done.ticket.0, done.result.map_err(|error| error.kind)))
        };
        assert_eq!(kind(&mut host), Some((2, Err(StorageErrorKind::Io))));
        assert_eq!(kind(&mut host), Some((3, Err(StorageErrorKind::SyncFailedBefore))));
        submit(&mut host, 4, StorageOp::Sync { file: FILE });
        submit(&mut host, 5, StorageOp::Truncate { file: FILE, length: 0 });
        host.flush();
        assert_eq!(kind(&mut host), Some((4, Err(StorageErrorKind::SyncFailedBefore))));
        assert_eq!(kind(&mut host), Some((5, Err(StorageErrorKind::SyncFailedBefore))));
        assert_eq!(kind(&mut host), None);
        let read = StorageOp::Read { file: FILE, position: 0, length: 2 };
        submit(&mut host, 6, read);
        host.flush();
        assert_eq!(host.device.tasks.len(), 3, "reads go on");
    }
}
