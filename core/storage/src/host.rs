//! The hosts behind one face.

use crate::files::OPEN_FILES_MAX;
use crate::portable::PortableHost;
use crate::uring::{UringHost, Writes};
use crate::{DataDirectory, StorageCompletion, StorageEffect};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

/// Carries out storage effects. See the crate documentation for the contract.
pub trait StorageHost {
    /// Takes an effect; nothing is started before [`StorageHost::flush`].
    fn submit(&mut self, effect: StorageEffect);
    /// Starts everything that was submitted. What ends at once is reported by [`StorageHost::poll_completion`] right away.
    fn flush(&mut self);
    /// The next completion, if there is one. Call it until there is none after every flush and every wake-up: it also starts
    /// what waited for an operation that has ended.
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

/// How a host works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSettings {
    /// Which host.
    pub engine: Engine,
    /// Files that stay open although nobody uses them, at least 1. Files in use and files with unsynced writes come on top.
    pub open_files: usize,
    /// Who makes the writes of the io_uring host.
    pub writes: Writes,
}

impl HostSettings {
    /// The settings for an engine where nobody asks for others.
    pub fn new(engine: Engine) -> HostSettings {
        HostSettings { engine, open_files: OPEN_FILES_MAX, writes: Writes::Inline }
    }
}

/// Which host was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineReport {
    /// `io_uring` or `the portable host`.
    pub engine: &'static str,
    /// Why io_uring was wanted and is not used.
    pub fallback: Option<String>,
}

/// One of the hosts. It stays on the thread that opened it.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one host a thread")]
pub enum Host {
    /// Plain system calls.
    Portable(PortableHost),
    /// A ring of the kernel.
    IoUring(UringHost),
}

impl Host {
    /// Opens a host for the directory, on the thread that will use it. `wake` is called from other threads when a completion
    /// has come, by hosts that have no [`Host::event_fd`].
    ///
    /// # Errors
    /// When the operating system refuses threads, or io_uring that was asked for by name.
    pub fn open(
        directory: &DataDirectory,
        engine: Engine,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> io::Result<(Host, EngineReport)> {
        Host::open_with(directory, HostSettings::new(engine), wake)
    }

    /// Like [`Host::open`], with all settings.
    ///
    /// # Errors
    /// As for [`Host::open`].
    pub fn open_with(
        directory: &DataDirectory,
        settings: HostSettings,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> io::Result<(Host, EngineReport)> {
        let ring = |root: &Path| UringHost::new(root, settings.open_files, settings.writes);
        Host::choose(directory.root(), settings, &wake, ring)
    }

    fn choose(
        root: &Path,
        settings: HostSettings,
        wake: &Arc<dyn Fn() + Send + Sync>,
        ring: impl FnOnce(&Path) -> Result<UringHost, String>,
    ) -> io::Result<(Host, EngineReport)> {
        let fallback = match settings.engine {
            Engine::Portable => None,
            Engine::Auto | Engine::IoUring => match ring(root) {
                Ok(host) => return Ok((Host::IoUring(host), EngineReport { engine: "io_uring", fallback: None })),
                Err(reason) if settings.engine == Engine::IoUring => {
                    return Err(io::Error::new(
                        io::ErrorKind::Unsupported,
                        format!("io_uring was asked for and can't be used: {reason}; or let the engine be chosen"),
                    ));
                }
                Err(reason) => Some(reason),
            },
        };
        let host = PortableHost::new(root, settings.open_files, wake)?;
        Ok((Host::Portable(host), EngineReport { engine: "the portable host", fallback }))
    }

    /// A descriptor that becomes readable when a completion has come, for hosts that have one.
    pub fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Host::Portable(_) => None,
            Host::IoUring(host) => Some(host.event_fd()),
        }
    }
}

impl StorageHost for Host {
    fn submit(&mut self, effect: StorageEffect) {
        match self {
            Host::Portable(host) => host.submit(effect),
            Host::IoUring(host) => host.submit(effect),
        }
    }

    fn flush(&mut self) {
        match self {
            Host::Portable(host) => host.flush(),
            Host::IoUring(host) => host.flush(),
        }
    }

    fn poll_completion(&mut self) -> Option<StorageCompletion> {
        match self {
            Host::Portable(host) => host.poll_completion(),
            Host::IoUring(host) => host.poll_completion(),
        }
    }

    fn in_flight(&self) -> usize {
        match self {
            Host::Portable(host) => host.in_flight(),
            Host::IoUring(host) => host.in_flight(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_io_uring_is_refused_the_portable_host_takes_over_and_says_why() {
        let temp = tempfile::tempdir().expect("temp");
        let wake: Arc<dyn Fn() + Send + Sync> = Arc::new(|| {});
        let refuse = |_: &Path| Err("it is forbidden here".to_string());
        let (host, report) =
            Host::choose(temp.path(), HostSettings::new(Engine::Auto), &wake, refuse).expect("falls back");
        assert!(matches!(host, Host::Portable(_)) && host.event_fd().is_none());
        assert_eq!(report, EngineReport { engine: "the portable host", fallback: Some("it is forbidden here".into()) });
        let error = Host::choose(temp.path(), HostSettings::new(Engine::IoUring), &wake, refuse).expect_err("by name");
        assert!(error.to_string().contains("it is forbidden here"), "{error}");
        let (_, report) =
            Host::choose(temp.path(), HostSettings::new(Engine::Portable), &wake, refuse).expect("portable");
        assert_eq!(report.fallback, None);
    }
}
