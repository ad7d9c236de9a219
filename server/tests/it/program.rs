//! Running the program.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The program without any of its variables from the environment of the tests.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whippet"));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("WHIPPET_") || name.starts_with("IGGY_")) {
            command.env_remove(name);
        }
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

/// What a program that has ended left.
#[derive(Debug)]
pub struct Finished {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

/// Runs the program to its end.
pub fn run(command: &mut Command) -> Finished {
    let output = command.output().expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Finished { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Longest wait for a start or an end.
const WAIT: Duration = Duration::from_secs(20);

/// A serving program. Dropping it kills it.
pub struct Serving {
    child: Child,
    /// The start-up lines.
    pub lines: Vec<String>,
}

impl Serving {
    /// Starts a server on free ports and waits for its ready line.
    #[track_caller]
    pub fn start(command: &mut Command) -> Serving {
        command.env("WHIPPET_TCP_ADDRESS", "127.0.0.1:0").env("WHIPPET_HTTP_ADDRESS", "127.0.0.1:0");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
        let out = child.stdout.take().expect("piped");
        let mut lines = Vec::new();
        for line in BufReader::new(out).lines() {
            let line = line.expect("UTF-8");
            let ready = line.starts_with("ready in ");
            lines.push(line);
            if ready {
                return Serving { child, lines };
            }
        }
        let mut err = String::new();
        let _ = child.stderr.take().expect("piped").read_to_string(&mut err);
        let _ = child.kill();
        let _ = child.wait();
        panic!("the server did not become ready: {lines:?}\n{err}");
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The address in the start-up line of this listener, `tcp` or `http`.
    #[track_caller]
    pub fn address(&self, listener: &str) -> String {
        let line = self.lines.iter().find(|line| line.split_whitespace().nth(1) == Some(listener));
        let address = line.and_then(|line| line.split_whitespace().nth(2)).expect("a line for the listener");
        address.trim_start_matches("http://").to_owned()
    }

    /// Sends a signal by name, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    /// Waits for the end; the status, how long it took and what stood on standard error.
    #[track_caller]
    pub fn wait(mut self) -> (ExitStatus, Duration, String) {
        let asked = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("the process can be waited for") {
                let mut err = String::new();
                let _ = self.child.stderr.take().expect("piped").read_to_string(&mut err);
                return (status, asked.elapsed(), err);
            }
            assert!(asked.elapsed() < WAIT, "the server did not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
