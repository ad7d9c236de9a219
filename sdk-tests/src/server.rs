//! One running `whippet` process: start, stop, kill, restart, and what it wrote.

use crate::log_watch::{LogWatch, is_alarming};
use crate::{binary, process};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest time from start to the ready line that a test accepts.
pub const START_DEADLINE: Duration = Duration::from_secs(20);

/// Longest time from SIGTERM to the end of the process that the server promises.
pub const STOP_DEADLINE: Duration = Duration::from_secs(5);

/// Environment variable that keeps the data directory of a failed test.
pub const KEEP_VARIABLE: &str = "WHIPPET_TEST_KEEP";

/// How a server is started.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    allowed: Vec<String>,
    deadline: Duration,
}

impl Default for ServerOptions {
    /// `--dev` (root user iggy / iggy, loopback only) on free ports; no alarming log line is allowed.
    fn default() -> Self {
        Self {
            arguments: vec!["--dev".into()],
            environment: vec![
                ("WHIPPET_TCP_ADDRESS".into(), "127.0.0.1:0".into()),
                ("WHIPPET_HTTP_ADDRESS".into(), "127.0.0.1:0".into()),
            ],
            allowed: Vec::new(),
            deadline: START_DEADLINE,
        }
    }
}

impl ServerOptions {
    /// Adds an environment variable of the server process.
    #[must_use]
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Allows WARN and ERROR lines that contain `text`; an empty text allows all of them.
    #[must_use]
    pub fn allow(mut self, text: &str) -> Self {
        self.allowed.push(text.to_owned());
        self
    }

    /// Changes the longest accepted time until the ready line.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Starts a server in a fresh temporary data directory that goes away with it.
    ///
    /// # Panics
    /// When the server does not become ready.
    #[must_use]
    #[track_caller]
    pub fn start(self) -> Server {
        let directory =
            TempDir::with_prefix("whippet-test-").unwrap_or_else(|error| panic!("temporary folder: {error}"));
        let data = directory.path().join("data");
        let mut server = self.start_at(&data);
        server.directory = Some(directory);
        server
    }

    /// Starts a server on the data directory `data`, which stays when the server goes.
    ///
    /// # Panics
    /// When the server does not become ready.
    #[must_use]
    #[track_caller]
    pub fn start_at(self, data: &Path) -> Server {
        match self.try_start_at(data) {
            Ok(server) => server,
            Err(failure) => panic!("the server did not start: {failure}"),
        }
    }

    /// Starts a server on the data directory `data` and tells how it failed if it did.
    ///
    /// # Errors
    /// The process ended, or printed no ready line in time (it is killed then).
    pub fn try_start_at(self, data: &Path) -> Result<Server, StartFailure> {
        let running = Running::spawn(&self, data)?;
        Ok(Server {
            running: Some(running),
            options: self,
            data: data.to_owned(),
            directory: None,
            log: LogWatch::default(),
        }
        .remember_log())
    }
}

/// Why a start failed.
#[derive(Debug, thiserror::Error)]
#[error("{} after {} ms\n{}", self.ending(), .took.as_millis(), .output.join("\n"))]
pub struct StartFailure {
    /// Exit status; absent when the deadline passed and the harness killed the process.
    pub status: Option<ExitStatus>,
    /// Everything that the process wrote to its two output streams.
    pub output: Vec<String>,
    /// Time from the start of the process to the failure.
    pub took: Duration,
}

impl StartFailure {
    fn ending(&self) -> String {
        self.status.map_or_else(|| "not ready".to_owned(), |status| status.to_string())
    }

    /// The output as one text.
    #[must_use]
    pub fn text(&self) -> String {
        self.output.join("\n")
    }
}

/// What the start-up lines of the process say.
enum Announcement {
    Tcp(SocketAddr),
    Http(SocketAddr),
    Ready,
}

struct Running {
    child: Child,
    tcp: SocketAddr,
    http: SocketAddr,
    log: LogWatch,
    readers: Vec<JoinHandle<()>>,
}

impl Running {
    fn spawn(options: &ServerOptions, data: &Path) -> Result<Self, StartFailure> {
        // Closed output means that the process is about to end: give it the moment that it needs.
        Self::spawn_for(options, data, Duration::from_secs(1))
    }

    /// Starts a process; when it is not ready in time, it has `grace` to end by itself before it is killed.
    fn spawn_for(options: &ServerOptions, data: &Path, grace: Duration) -> Result<Self, StartFailure> {
        // Finding the binary may mean building it, which is not the server's time.
        let program = binary::path();
        let started = Instant::now();
        let mut command = Command::new(program);
        // The server reads its settings from variables of these names, and refuses those that it does not know.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("WHIPPET_") || text.starts_with("IGGY_") {
                command.env_remove(&name);
            }
        }
        let mut child = command
            .args(&options.arguments)
            .env("WHIPPET_DATA_DIR", data)
            .envs(options.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("run {}: {error}", program.display()));
        let log = LogWatch::default();
        let (announce, announced) = channel();
        let readers = [
            child.stdout.take().map(|stdout| log.follow(stdout, move |line| tell(&announce, line))),
            child.stderr.take().map(|stderr| log.follow(stderr, |_| {})),
        ];
        let readers = readers.into_iter().flatten().collect();
        match wait_until_ready(&announced, started + options.deadline) {
            Some((tcp, http)) => Ok(Self { child, tcp, http, log, readers }),
            None => Err(failure(child, &log, readers, started, grace)),
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits for the readers, so that the log is complete; the process must have ended.
    fn join_readers(&mut self) {
        for reader in self.readers.drain(..) {
            drop(reader.join());
        }
    }
}

fn tell(announce: &Sender<Announcement>, line: &str) {
    let mut words = line.split_whitespace();
    let announcement = match (words.next(), words.next(), words.next()) {
        (Some("listening"), Some("tcp"), Some(address)) => address.parse().ok().map(Announcement::Tcp),
        (Some("listening"), Some("http"), Some(address)) => {
            address.trim_start_matches("http://").trim_end_matches('/').parse().ok().map(Announcement::Http)
        }
        (Some("ready"), Some("in"), Some(_)) => Some(Announcement::Ready),
        _ => None,
    };
    if let Some(announcement) = announcement {
        // The receiver is gone once the server was declared ready or failed; later lines are only collected.
        drop(announce.send(announcement));
    }
}

/// The two addresses, once both and the ready line were seen; `None` when the output ended or `deadline` passed.
fn wait_until_ready(announced: &Receiver<Announcement>, deadline: Instant) -> Option<(SocketAddr, SocketAddr)> {
    let (mut tcp, mut http) = (None, None);
    loop {
        match announced.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Announcement::Tcp(address)) => tcp = Some(address),
            Ok(Announcement::Http(address)) => http = Some(address),
            Ok(Announcement::Ready) => return tcp.zip(http),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
        }
    }
}

fn failure(
    mut child: Child,
    log: &LogWatch,
    readers: Vec<JoinHandle<()>>,
    started: Instant,
    grace: Duration,
) -> StartFailure {
    let took = started.elapsed();
    let status = wait_for_exit(&mut child, grace);
    if status.is_none() {
        drop(child.kill());
        drop(child.wait());
    }
    for reader in readers {
        drop(reader.join());
    }
    StartFailure { status, output: log.lines(), took }
}

fn wait_for_exit(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) | Err(_) => return None,
        }
    }
}

/// A server process with its data directory. Dropping it kills the process and fails the test on alarming log lines that
/// were not allowed, and on a process that ended by itself.
pub struct Server {
    running: Option<Running>,
    options: ServerOptions,
    data: PathBuf,
    directory: Option<TempDir>,
    log: LogWatch,
}

impl Server {
    /// Starts a server with default options in a fresh data directory.
    ///
    /// # Panics
    /// When the server does not become ready.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        ServerOptions::default().start()
    }

    fn remember_log(mut self) -> Self {
        self.log = self.running().log.clone();
        self
    }

    #[track_caller]
    fn running(&self) -> &Running {
        self.running.as_ref().unwrap_or_else(|| panic!("the test stopped this server before"))
    }

    /// Address of the TCP listener.
    #[must_use]
    pub fn tcp(&self) -> SocketAddr {
        self.running().tcp
    }

    /// Address of the HTTP listener.
    #[must_use]
    pub fn http(&self) -> SocketAddr {
        self.running().http
    }

    /// Process number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.running().child.id()
    }

    /// Resident memory of the process, bytes.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        process::resident_bytes(self.pid())
    }

    /// The data directory.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Lines written by the latest process of this server.
    #[must_use]
    pub fn log(&self) -> &LogWatch {
        &self.log
    }

    /// Allows further WARN and ERROR lines that contain `text`.
    pub fn allow(&mut self, text: &str) {
        self.options.allowed.push(text.to_owned());
    }

    /// Whether the process is alive.
    #[must_use]
    pub fn is_alive(&mut self) -> bool {
        self.running.as_mut().is_some_and(|running| matches!(running.child.try_wait(), Ok(None)))
    }

    /// Ends the process with SIGKILL and waits until it is gone.
    ///
    /// # Panics
    /// When the process had ended before, or had logged an alarming line that was not allowed.
    #[track_caller]
    pub fn kill9(&mut self) {
        let Some(mut running) = self.running.take() else { panic!("the test stopped this server before") };
        let ended = matches!(running.child.try_wait(), Ok(Some(_)));
        drop(running.child.kill());
        drop(running.child.wait());
        running.join_readers();
        assert!(!ended, "the server ended by itself:\n{}", last_lines(&self.log));
        self.check_log();
    }

    /// Ends the process with SIGTERM and tells how long it took.
    ///
    /// # Panics
    /// When it does not end within [`STOP_DEADLINE`] with exit code 0, or logged an alarming line that was not allowed.
    #[track_caller]
    pub fn terminate(&mut self) -> Duration {
        let Some(mut running) = self.running.take() else { panic!("the test stopped this server before") };
        let asked = Instant::now();
        kill_process(running.pid(), Signal::TERM).unwrap_or_else(|error| panic!("send SIGTERM: {error}"));
        let status = wait_for_exit(&mut running.child, STOP_DEADLINE);
        let took = asked.elapsed();
        if status.is_none() {
            drop(running.child.kill());
            drop(running.child.wait());
        }
        running.join_readers();
        let log = last_lines(&self.log);
        let status = status.unwrap_or_else(|| panic!("SIGTERM did not stop the server in {STOP_DEADLINE:?}\n{log}"));
        assert!(status.success(), "after SIGTERM the server ended with {status}\n{log}");
        self.check_log();
        took
    }

    /// Starts the server again on its data directory, on new ports, after `kill9` or `terminate`.
    ///
    /// # Panics
    /// When it is running, or does not become ready.
    #[track_caller]
    pub fn start_again(&mut self) {
        if let Err(failure) = self.try_start_again() {
            panic!("the server did not start again: {failure}");
        }
    }

    /// Starts the server again on its data directory and tells how it failed if it did.
    ///
    /// # Errors
    /// The process ended, or printed no ready line in time.
    ///
    /// # Panics
    /// When it is running.
    #[track_caller]
    pub fn try_start_again(&mut self) -> Result<(), StartFailure> {
        assert!(self.running.is_none(), "the server is still running");
        let running = Running::spawn(&self.options, &self.data)?;
        self.log = running.log.clone();
        self.running = Some(running);
        Ok(())
    }

    /// Starts a process on the data directory and kills it `moment` later, ready or not; `kill9` or `terminate` came before.
    ///
    /// # Panics
    /// When it is running, or logged an alarming line that was not allowed.
    #[track_caller]
    pub fn start_and_kill_after(&mut self, moment: Duration) {
        assert!(self.running.is_none(), "the server is still running");
        let options = self.options.clone().deadline(moment);
        match Running::spawn_for(&options, &self.data, Duration::ZERO) {
            Ok(running) => {
                self.log = running.log.clone();
                self.running = Some(running);
                self.kill9();
            }
            Err(failure) => {
                assert!(failure.status.is_none(), "the server refused to start: {failure}");
                let allowed = |line: &String| self.options.allowed.iter().any(|text| line.contains(text.as_str()));
                let unexpected = failure.output.iter().find(|line| is_alarming(line) && !allowed(line));
                assert_eq!(unexpected, None, "logged while starting");
            }
        }
    }

    /// SIGTERM and start again.
    #[track_caller]
    pub fn restart(&mut self) {
        self.terminate();
        self.start_again();
    }

    #[track_caller]
    fn check_log(&self) {
        let unexpected = self.log.unexpected(&self.options.allowed);
        assert!(unexpected.is_empty(), "the server logged what this test did not allow:\n{}", unexpected.join("\n"));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        let ended = running.child.try_wait().ok().flatten();
        drop(running.child.kill());
        drop(running.child.wait());
        running.join_readers();
        if std::thread::panicking() {
            eprintln!("last lines of the server:\n{}", last_lines(&self.log));
            if std::env::var_os(KEEP_VARIABLE).is_some()
                && let Some(directory) = self.directory.take()
            {
                eprintln!("kept: {}", directory.keep().display());
            }
            return;
        }
        assert!(ended.is_none(), "the server ended by itself: {ended:?}\n{}", last_lines(&self.log));
        self.check_log();
    }
}

fn last_lines(log: &LogWatch) -> String {
    let lines = log.lines();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
