//! The only module that talks to io_uring: owns every buffer, piece list and file that the kernel may still use.
//!
//! Safe to use from outside: an [`Operation`] is given away with [`Ring::push`] and comes back only when its completion has
//! been taken from the ring. If the ring goes earlier, it waits for what the kernel still does.

#![allow(unsafe_code, reason = "submission entries carry raw pointers to buffers; each block says why they stay valid")]

use bytes::{Buf, Bytes, BytesMut};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Entries of the submission queue. The completion queue has twice as many, which bounds what the kernel has at a time.
const ENTRIES: u32 = 256;
/// Pieces of one write, as the kernel allows.
const PIECES_MAX: usize = crate::task::PIECES_MAX;
/// How often an operation is tried again that the kernel could not begin for want of memory.
const ATTEMPTS_MAX: u32 = 64;

/// A piece of a write, laid out like the kernel's `iovec`.
#[repr(C)]
struct Piece {
    base: *const u8,
    length: usize,
}

/// What the kernel is to do, with all that it needs.
pub(crate) enum Operation {
    /// Writes all of `chunks` from `position` on.
    Write { file: Arc<File>, position: u64, chunks: VecDeque<Bytes> },
    /// Reads into `buffer` until it is full; `filled` bytes are there.
    Read { file: Arc<File>, position: u64, buffer: BytesMut, filled: usize },
    /// Syncs the content and the length.
    Sync { file: Arc<File> },
    /// Reserves `length` bytes from `position` on.
    Allocate { file: Arc<File>, position: u64, length: u64 },
}

struct Slot {
    token: u64,
    operation: Operation,
    /// The pieces of the write that the kernel was given.
    pieces: Vec<Piece>,
    attempts: u32,
}

enum Progress {
    Again,
    Done(io::Result<Bytes>),
}

/// See the module documentation.
pub(crate) struct Ring {
    ring: IoUring,
    event: OwnedFd,
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    /// Slots that the kernel was not given yet.
    backlog: VecDeque<usize>,
    /// Entries that were put into the submission queue and whose completion was not taken.
    given: usize,
    /// The thread's ring stays on its thread: the kernel takes entries from that one only.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("given", &self.given).field("backlog", &self.backlog.len()).finish_non_exhaustive()
    }
}

impl Ring {
    /// Opens a ring for this thread and makes sure that the kernel does all that is needed.
    ///
    /// # Errors
    /// A sentence that says why there is none.
    pub(crate) fn open() -> Result<Ring, String> {
        let ring = build().map_err(|error| refusal("io_uring_setup", &error))?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe).map_err(|error| refusal("io_uring_register", &error))?;
        let needed = [
            ("writev", opcode::Writev::CODE),
            ("read", opcode::Read::CODE),
            ("fsync", opcode::Fsync::CODE),
            ("fallocate", opcode::Fallocate::CODE),
        ];
        if let Some((name, _)) = needed.iter().find(|(_, code)| !probe.is_supported(*code)) {
            return Err(format!("this kernel's io_uring has no {name}; use a kernel from 5.6 on"));
        }
        let event =
            rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK)
                .map_err(|error| refusal("eventfd", &error.into()))?;
        // Not `register_eventfd_async`, which would spare the signals for what ends while it is being submitted: that signals
        // only from kernel workers, but failed reads and writes and reads that waited for a page are completed on the
        // submitting thread, and the one who waits would never hear of them.
        ring.submitter().register_eventfd(event.as_raw_fd()).map_err(|error| refusal("io_uring_register", &error))?;
        let mut ring = Ring {
            ring,
            event,
            slots: Vec::new(),
            free: Vec::new(),
            backlog: VecDeque::new(),
            given: 0,
            _not_send: std::marker::PhantomData,
        };
        ring.try_out().map_err(|error| refusal("io_uring_enter", &error))?;
        Ok(ring)
    }

    /// Has the kernel do nothing, once: some sandboxes allow the set-up of a ring and forbid its use.
    fn try_out(&mut self) -> io::Result<()> {
        // SAFETY: the entry refers to no memory.
        unsafe { self.ring.submission().push(&opcode::Nop::new().build()) }
            .map_err(|_| io::Error::from(io::ErrorKind::StorageFull))?;
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        match self.ring.completion().next() {
            Some(entry) if entry.result() == 0 => Ok(()),
            Some(entry) => Err(io::Error::from_raw_os_error(-entry.result())),
            None => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Becomes readable when an operation has ended.
    pub(crate) fn event_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Takes an operation; the kernel gets it with the next [`Ring::submit`].
    pub(crate) fn push(&mut self, token: u64, operation: Operation) {
        let slot = Slot { token, operation, pieces: Vec::new(), attempts: 0 };
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index] = Some(slot);
                index
            }
            None => {
                self.slots.push(Some(slot));
                self.slots.len() - 1
            }
        };
        self.backlog.push_back(index);
    }

    /// Gives the kernel what it can take: one system call a queue's length, none when there is nothing to give. Whether the
    /// kernel has got something.
    ///
    /// # Errors
    /// What the kernel says; the operations stay and are submitted with the next call.
    pub(crate) fn submit(&mut self) -> io::Result<bool> {
        let mut any = false;
        let room = self.ring.params().cq_entries() as usize;
        loop {
            while self.given < room
                && !self.ring.submission().is_full()
                && let Some(index) = self.backlog.pop_front()
            {
                let slot = self.slots[index].as_mut().expect("slots in the backlog are filled");
                let entry = slot.entry().user_data(index as u64);
                // SAFETY: the entry points into the heap buffers and the piece list of the slot, and names the descriptor of
                // its file. The slot keeps all of them, unchanged and in place, until `next` takes the completion; `drop`
                // waits for completions or leaks the slots. Moving a slot does not move what is on the heap.
                if unsafe { self.ring.submission().push(&entry) }.is_err() {
                    self.backlog.push_front(index);
                    break;
                }
                self.given += 1;
            }
            if self.ring.submission().is_empty() {
                return Ok(any);
            }
            match self.ring.submit() {
                Ok(taken) => any |= taken > 0,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// An operation that has ended: its token and the bytes read, or what went wrong.
    ///
    /// Operations that the kernel ended early go on, which needs another [`Ring::submit`].
    pub(crate) fn next(&mut self) -> Option<(u64, io::Result<Bytes>)> {
        loop {
            let entry: cqueue::Entry = self.ring.completion().next()?;
            self.given -= 1;
            let index = entry.user_data() as usize;
            let slot = self.slots[index].as_mut().expect("completions belong to filled slots");
            match slot.absorb(entry.result()) {
                Progress::Again => self.backlog.push_back(index),
                Progress::Done(result) => {
                    let token = slot.token;
                    self.slots[index] = None;
                    self.free.push(index);
                    return Some((token, result));
                }
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        while self.given > 0 {
            match self.ring.submit_and_wait(1) {
                Ok(_) => self.given -= self.ring.completion().count(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    // The kernel may still write to the buffers, so they are never freed.
                    std::mem::forget(std::mem::take(&mut self.slots));
                    return;
                }
            }
        }
    }
}

impl Slot {
    /// The next step of the operation.
    fn entry(&mut self) -> squeue::Entry {
        match &mut self.operation {
            Operation::Write { file, position, chunks } => {
                self.pieces.clear();
                self.pieces.extend(
                    chunks.iter().take(PIECES_MAX).map(|chunk| Piece { base: chunk.as_ptr(), length: chunk.len() }),
                );
                let count = u32::try_from(self.pieces.len()).expect("pieces are bounded");
                opcode::Writev::new(types::Fd(file.as_raw_fd()), self.pieces.as_ptr().cast(), count)
                    .offset(*position)
                    .build()
            }
            Operation::Read { file, position, buffer, filled } => {
                let rest = &mut buffer[*filled..];
                // One call reads less than 2 GiB anyway.
                let length = u32::try_from(rest.len()).unwrap_or(u32::MAX);
                opcode::Read::new(types::Fd(file.as_raw_fd()), rest.as_mut_ptr(), length)
                    .offset(position.saturating_add(*filled as u64))
                    .build()
            }
            Operation::Sync { file } => {
                opcode::Fsync::new(types::Fd(file.as_raw_fd())).flags(types::FsyncFlags::DATASYNC).build()
            }
            Operation::Allocate { file, position, length } => {
                opcode::Fallocate::new(types::Fd(file.as_raw_fd()), *length).offset(*position).build()
            }
        }
    }

    /// Takes in what the kernel said.
    fn absorb(&mut self, result: i32) -> Progress {
        let count = match usize::try_from(result) {
            Ok(count) => count,
            Err(_) => {
                let error = io::Error::from_raw_os_error(result.saturating_neg());
                self.attempts += 1;
                let passing = matches!(Errno::from_io_error(&error), Some(Errno::INTR | Errno::AGAIN));
                return if passing && self.attempts < ATTEMPTS_MAX {
                    Progress::Again
                } else {
                    Progress::Done(Err(error))
                };
            }
        };
        match &mut self.operation {
            Operation::Write { position, chunks, .. } => {
                if count == 0 {
                    return Progress::Done(Err(io::ErrorKind::StorageFull.into()));
                }
                *position = position.saturating_add(count as u64);
                let mut rest = count;
                while rest > 0
                    && let Some(front) = chunks.front_mut()
                {
                    let taken = rest.min(front.len());
                    front.advance(taken);
                    rest -= taken;
                    if front.is_empty() {
                        chunks.pop_front();
                    }
                }
                if chunks.is_empty() { Progress::Done(Ok(Bytes::new())) } else { Progress::Again }
            }
            Operation::Read { buffer, filled, .. } => {
                if count == 0 {
                    return Progress::Done(Err(io::ErrorKind::UnexpectedEof.into()));
                }
                *filled += count;
                if *filled < buffer.len() {
                    Progress::Again
                } else {
                    Progress::Done(Ok(std::mem::take(buffer).freeze()))
                }
            }
            Operation::Sync { .. } | Operation::Allocate { .. } => Progress::Done(Ok(Bytes::new())),
        }
    }
}

/// A ring with as much of what we would like as the kernel knows.
fn build() -> io::Result<IoUring> {
    let full = IoUring::builder().setup_clamp().setup_coop_taskrun().setup_single_issuer().build(ENTRIES);
    match full {
        // Kernels before 6.0 do not know all of the flags.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => {
            IoUring::builder().setup_clamp().build(ENTRIES)
        }
        other => other,
    }
}

/// Says why there is no ring, and what can be done about it.
fn refusal(call: &str, error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::ACCESS) => format!(
            "it is forbidden here ({call}: {error}); see the sysctl kernel.io_uring_disabled, and in a container its seccomp profile"
        ),
        Some(Errno::NOSYS) => format!("this kernel has none ({call}: {error})"),
        Some(Errno::NOMEM) => {
            format!("there is no memory for it ({call}: {error}); raise the limit on locked memory (ulimit -l)")
        }
        _ => format!("{call}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(operation: Operation) -> Slot {
        Slot { token: 1, operation, pieces: Vec::new(), attempts: 0 }
    }

    fn file() -> Arc<File> {
        Arc::new(tempfile::tempfile().expect("temp"))
    }

    #[test]
    fn a_short_write_goes_on_where_it_ended() {
        let chunks = VecDeque::from([Bytes::from_static(b"abc"), Bytes::from_static(b"defg")]);
        let mut slot = slot(Operation::Write { file: file(), position: 10, chunks });
        assert!(matches!(slot.absorb(4), Progress::Again));
        let Operation::Write { position, chunks, .. } = &slot.operation else { panic!("still a write") };
        assert_eq!((*position, chunks.clone()), (14, VecDeque::from([Bytes::from_static(b"efg")])));
        assert!(matches!(slot.absorb(3), Progress::Done(Ok(_))));
    }

    #[test]
    fn a_write_that_writes_nothing_means_a_full_disk() {
        let mut slot =
            slot(Operation::Write { file: file(), position: 0, chunks: VecDeque::from([Bytes::from_static(b"abc")]) });
        let Progress::Done(Err(error)) = slot.absorb(0) else { panic!("an error") };
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn passing_errors_are_tried_again_for_a_while() {
        let mut slot = slot(Operation::Sync { file: file() });
        let again = -Errno::AGAIN.raw_os_error();
        for _ in 1..ATTEMPTS_MAX {
            assert!(matches!(slot.absorb(again), Progress::Again));
        }
        assert!(matches!(slot.absorb(again), Progress::Done(Err(_))));
        let mut failing = super::tests::slot(Operation::Sync { file: file() });
        assert!(matches!(failing.absorb(-Errno::IO.raw_os_error()), Progress::Done(Err(_))));
    }

    #[test]
    fn refusals_say_what_to_do() {
        let forbidden = refusal("io_uring_setup", &Errno::PERM.into());
        assert!(forbidden.contains("kernel.io_uring_disabled") && forbidden.contains("seccomp"), "{forbidden}");
        assert!(refusal("io_uring_setup", &Errno::NOSYS.into()).contains("this kernel has none"));
    }

    #[test]
    fn more_than_the_queues_hold_and_a_drop_while_busy() {
        let Ok(mut ring) = Ring::open() else { return };
        let file = file();
        let many = 3000u64;
        for token in 0..many {
            let chunks = VecDeque::from([Bytes::from(token.to_le_bytes().to_vec())]);
            ring.push(token, Operation::Write { file: file.clone(), position: token * 8, chunks });
        }
        ring.submit().expect("submit");
        let mut seen = vec![false; many as usize];
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while seen.iter().any(|seen| !seen) {
            assert!(std::time::Instant::now() < deadline, "completions are missing");
            while let Some((token, result)) = ring.next() {
                result.expect("write");
                assert!(!std::mem::replace(&mut seen[token as usize], true), "{token} twice");
            }
            ring.submit().expect("submit");
            std::thread::yield_now();
        }
        let mut content = vec![0; many as usize * 8];
        std::os::unix::fs::FileExt::read_exact_at(&*file, &mut content, 0).expect("read");
        assert!(content.chunks(8).enumerate().all(|(token, bytes)| bytes == (token as u64).to_le_bytes()));
        for token in 0..100 {
            ring.push(
                token,
                Operation::Read { file: file.clone(), position: 0, buffer: BytesMut::zeroed(8192), filled: 0 },
            );
            ring.push(token, Operation::Sync { file: file.clone() });
        }
        ring.submit().expect("submit");
        drop(ring);
        assert_eq!(Arc::strong_count(&file), 1, "all files were given back");
    }
}
