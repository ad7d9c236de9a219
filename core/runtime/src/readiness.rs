//! Waits for an eventfd on the thread's tokio runtime.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// An eventfd that tokio watches.
pub(crate) struct Readiness {
    fd: AsyncFd<Watched>,
}

struct Watched(OwnedFd);

impl AsRawFd for Watched {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Readiness {
    /// Watches a duplicate of `fd`.
    pub(crate) fn new(fd: BorrowedFd<'_>) -> std::io::Result<Readiness> {
        let owned = fd.as_fd().try_clone_to_owned()?;
        // SAFETY: `Watched` owns its descriptor: it stays open, and `as_raw_fd` returns the same number, for as long as the
        // `AsyncFd` lives.
        #[allow(unsafe_code, reason = "tokio offers no safe way to watch a foreign descriptor; argument above")]
        let fd = unsafe { AsyncFd::register_with_interest(Watched(owned), Interest::READABLE) }?;
        Ok(Readiness { fd })
    }

    async fn wait(&self) {
        match self.fd.readable().await {
            Ok(mut guard) => {
                let mut counter = [0u8; 8];
                // The counter says nothing: completions are looked for after every wake-up.
                let _ = rustix::io::read(&self.fd.get_ref().0, &mut counter);
                guard.clear_ready();
            }
            Err(_) => std::future::pending().await,
        }
    }
}

/// Resolves when the descriptor is readable; never without one.
pub(crate) async fn readable(readiness: Option<&Readiness>) {
    match readiness {
        Some(readiness) => readiness.wait().await,
        None => std::future::pending().await,
    }
}
