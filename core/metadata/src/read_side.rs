//! The read side: a state that one thread advances and every thread reads without locks.
//!
//! Two copies of the state exist. Readers enter one, the writer brings the other up to date and swaps them; then it does
//! the same to the one that the readers left. Both copies apply the same records, so they stay equal.
//!
//! This is the only part of the crate that knows of threads.

use crate::command::Envelope;
use crate::state::MetadataState;
use left_right::{Absorb, ReadHandle, ReadHandleFactory, WriteHandle};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A committed record of the metadata log, on its way to the readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Its op.
    pub op: u64,
    /// Its time, in microseconds since 1970.
    pub timestamp: u64,
    /// What it holds.
    pub envelope: Arc<Envelope>,
}

/// One step of both copies.
enum Step {
    Apply(LogEntry),
    Install(Arc<MetadataState>),
}

impl Absorb<Step> for MetadataState {
    fn absorb_first(&mut self, step: &mut Step, _: &Self) {
        match step {
            Step::Apply(entry) => {
                self.apply(entry.op, entry.timestamp, &entry.envelope);
            }
            Step::Install(state) => self.clone_from(state),
        }
    }

    fn sync_with(&mut self, first: &Self) {
        self.clone_from(first);
    }
}

/// The writing end. There is one of a state, on the thread that applies the metadata log.
pub struct MetadataWriter {
    handle: WriteHandle<MetadataState, Step>,
    reader: MetadataReader,
}

impl MetadataWriter {
    /// Shows `state`, which the log or a snapshot gave, to readers.
    pub fn new(state: MetadataState) -> Self {
        static NEXT_SIDE: AtomicU64 = AtomicU64::new(0);
        let (mut handle, reader) = left_right::new_from_empty(state);
        // The second swap copies the whole state once more; better now than in the middle of the first commands.
        handle.publish();
        handle.publish();
        let source = Source {
            side: NEXT_SIDE.fetch_add(1, Ordering::Relaxed),
            handles: reader.factory(),
            last: OnceLock::new(),
        };
        Self { handle, reader: MetadataReader { source: Arc::new(source) } }
    }

    /// Applies committed records in order and shows the result. Returns once every later read sees it. Waits for reads
    /// of the copy that is to change, so reads must be short.
    ///
    /// # Panics
    /// When a record is not the one after the last, or when this thread is inside [`MetadataReader::read`].
    pub fn publish(&mut self, entries: impl IntoIterator<Item = LogEntry>) {
        self.step(entries.into_iter().map(Step::Apply));
    }

    /// Replaces the state by one from elsewhere, as after a transfer from another node.
    ///
    /// # Panics
    /// When this thread is inside [`MetadataReader::read`].
    pub fn install(&mut self, state: MetadataState) {
        self.step([Step::Install(Arc::new(state))].into_iter());
    }

    /// A reading end.
    pub fn reader(&self) -> MetadataReader {
        self.reader.clone()
    }

    fn step(&mut self, steps: impl Iterator<Item = Step>) {
        // The writer waits for readers to leave: for itself it would wait for ever.
        assert!(!self.reader.is_reading(), "published from inside a read of the same thread");
        self.handle.extend(steps);
        self.handle.flush();
    }
}

impl Drop for MetadataWriter {
    /// Readers outlive the writer: they keep the last state.
    fn drop(&mut self) {
        if let Some(state) = self.handle.enter() {
            // Set once, here only.
            let _ = self.reader.source.last.set(state.clone());
        }
    }
}

/// A reading end. Cheap to clone, to send and to share.
#[derive(Clone)]
pub struct MetadataReader {
    source: Arc<Source>,
}

struct Source {
    /// Which read side of the process this is; never used twice.
    side: u64,
    handles: ReadHandleFactory<MetadataState>,
    /// The state at the time when the writer went away.
    last: OnceLock<MetadataState>,
}

/// A thread's own handle of one read side.
struct Local {
    side: u64,
    handle: ReadHandle<MetadataState>,
    /// Reads that are under way on this thread.
    depth: Cell<u32>,
}

thread_local! {
    static LOCALS: RefCell<Vec<Rc<Local>>> = const { RefCell::new(Vec::new()) };
}

impl MetadataReader {
    /// Runs `read` on the state that was published last. Does not block, and may be nested. While it runs the writer may
    /// have to wait: look up what is needed, take a copy and leave.
    pub fn read<R>(&self, read: impl FnOnce(&MetadataState) -> R) -> R {
        let local = self.local();
        let _inside = Inside::enter(&local.depth);
        if let Some(state) = local.handle.enter() {
            return read(&state);
        }
        let last = self.source.last.get().expect("the writer leaves its last state before it goes");
        read(last)
    }

    fn local(&self) -> Rc<Local> {
        let cached = LOCALS.try_with(|locals| {
            let mut locals = locals.borrow_mut();
            if let Some(local) = locals.iter().find(|local| local.side == self.source.side) {
                return Rc::clone(local);
            }
            // A good time to let go of sides whose writers are gone.
            locals.retain(|local| !local.handle.was_dropped());
            let local = self.fresh_local();
            locals.push(Rc::clone(&local));
            local
        });
        // A thread that is ending has no cache any more.
        cached.unwrap_or_else(|_| self.fresh_local())
    }

    fn fresh_local(&self) -> Rc<Local> {
        Rc::new(Local { side: self.source.side, handle: self.source.handles.handle(), depth: Cell::new(0) })
    }

    fn is_reading(&self) -> bool {
        let depth_of = |locals: &RefCell<Vec<Rc<Local>>>| {
            locals.borrow().iter().any(|local| local.side == self.source.side && local.depth.get() > 0)
        };
        LOCALS.try_with(depth_of).unwrap_or(false)
    }
}

/// Counts a read of this thread while it lasts, also when it panics.
struct Inside<'a>(&'a Cell<u32>);

impl<'a> Inside<'a> {
    fn enter(depth: &'a Cell<u32>) -> Self {
        depth.set(depth.get() + 1);
        Self(depth)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
