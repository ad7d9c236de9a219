//! SIGINT, SIGTERM and SIGHUP: stop cleanly, within a time; the second one ends the process at once.
//!
//! A thread of its own takes them, so that they work from the first moment on (also while a long recovery keeps the main
//! thread), whatever hangs, and as process 1 of a container, where a signal without a handler does nothing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// From the first signal to the end of the process, however much hangs.
pub const STOP_TIME_MAX: Duration = Duration::from_millis(4900);

/// The signal for a file that grows beyond its limit. Once it has a handler, the write fails and the process lives.
const SIGXFSZ: i32 = 25;

/// Exit code when the second signal ends the process, or when stopping takes too long.
const CUT_SHORT: i32 = 1;

/// The way in which the rest of the process learns of signals.
pub struct Signals {
    serving: Arc<AtomicBool>,
    asked: watch::Receiver<bool>,
}

impl Signals {
    /// Takes the signals from now on. Until [`Signals::serving`] is called the first one ends the process at once with
    /// exit code 0: nobody was served yet, and what is on disk survives that like any crash.
    ///
    /// # Errors
    /// When the operating system gives no thread or no handler.
    pub fn take() -> io::Result<Signals> {
        let serving = Arc::new(AtomicBool::new(false));
        let (ask, asked) = watch::channel(false);
        let (report, ready) = std::sync::mpsc::sync_channel(1);
        let thread_serving = serving.clone();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let handlers = tokio::runtime::Builder::new_current_thread().enable_all().build().and_then(|runtime| {
                let _inside = runtime.enter();
                let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
                let [interrupt, terminate, hangup] = kinds.map(signal);
                // A limit on the size of files then shows as a full disk instead of ending the process.
                let _file_size = signal(SignalKind::from_raw(SIGXFSZ))?;
                Ok((Handlers { interrupt: interrupt?, terminate: terminate?, hangup: hangup? }, runtime))
            });
            match handlers {
                Ok((handlers, runtime)) => {
                    let _ = report.send(Ok(()));
                    runtime.block_on(watch_over(handlers, &thread_serving, &ask));
                }
                Err(error) => {
                    let _ = report.send(Err(error));
                }
            }
        })?;
        ready.recv().map_err(|_| io::Error::other("the thread that takes signals ended"))??;
        Ok(Signals { serving, asked })
    }

    /// From now on there is something to stop.
    pub fn serving(&self) {
        self.serving.store(true, Ordering::Release);
    }

    /// Resolves when the process was asked to stop.
    pub async fn stop(&mut self) {
        if self.asked.wait_for(|asked| *asked).await.is_err() {
            // The thread ends with the process only.
            std::future::pending::<()>().await;
        }
    }
}

struct Handlers {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Handlers {
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hangup.recv() => "SIGHUP",
        }
    }
}

async fn watch_over(mut handlers: Handlers, serving: &AtomicBool, ask: &watch::Sender<bool>) {
    let first = handlers.next().await;
    if !serving.load(Ordering::Acquire) {
        tracing::info!(signal = first, "stopped before the server was ready");
        std::process::exit(0);
    }
    tracing::info!(signal = first, "stopping; a second signal ends the process at once");
    ask.send_replace(true);
    match tokio::time::timeout(STOP_TIME_MAX, handlers.next()).await {
        Ok(second) => tracing::warn!(signal = second, "ended at once; the next start takes this stop for a crash"),
        Err(_) => tracing::error!(
            "stopping took longer than {} ms and was cut short; the next start takes it for a crash",
            STOP_TIME_MAX.as_millis()
        ),
    }
    std::process::exit(CUT_SHORT);
}
