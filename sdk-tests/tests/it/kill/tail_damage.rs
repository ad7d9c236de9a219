//! A log with a damaged end: cut at a byte, or with one wrong bit.
//!
//! The test does not know the layout of the files. It copies the data directory before and after the last two sends; the
//! file that holds their payloads is the log, and the bytes that differ between the copies are the last two records. Each
//! case damages one of these bytes in a copy, starts a server on it, and accepts exactly one of three outcomes:
//!
//! - complete: everything that was acknowledged is served;
//! - refused: the server ends at the start, or the partition answers with an error, and the log names file, offset, reason;
//! - declared: everything before the damage is served, the log names file, offset and reason, and no acknowledged offset is
//!   ever given to another message.
//!
//! Serving less than what was acknowledged without a word is the failure.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use whippet_sdk_tests::body::Target;
use whippet_sdk_tests::log_watch::is_alarming;
use whippet_sdk_tests::payload::{Label, build};
use whippet_sdk_tests::{Failure, RawClient, Server, ServerOptions, tree};

/// Environment variable that asks for every position instead of a selection.
const ALL_VARIABLE: &str = "WHIPPET_TAIL_ALL";

/// Time for one kind of damage to one log, unless every position is asked for.
const BUDGET: Duration = Duration::from_secs(12);

/// Messages before the last two.
const BEFORE: u64 = 10;

/// Payload bytes of every message, chosen so that a record is longer than its headers.
const PAYLOAD: usize = 300;

/// A data directory after `kill -9`, and where the last two records are in it.
struct Specimen {
    directory: TempDir,
    log: PathBuf,
    tail: Range<usize>,
    target: Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Complete,
    Refused,
    Declared,
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    /// The file ends before this position.
    Cut(usize),
    /// One bit of the byte at this position is wrong.
    Flip(usize),
}

fn content(sequence: u64) -> Vec<u8> {
    build(Label { producer: 1, sequence }, PAYLOAD)
}

fn specimen(durability: &str) -> Specimen {
    let directory = TempDir::with_prefix("whippet-tail-").expect("temporary folder");
    let data = directory.path().join("data");
    let mut server = ServerOptions::default().start_at(&data);
    let mut client = RawClient::logged_in(server.tcp()).expect("root logs in");
    let stream = client.create_stream("tail").expect("create stream");
    let options = [("durability", durability), ("segment_size", "1MiB")];
    let topic = client.create_topic(stream, "tail", 1, &options).expect("create topic");
    let target = Target { stream, topic, partition: 0 };
    for sequence in 0..BEFORE {
        assert_eq!(client.send(target, &[content(sequence)]).expect("send"), sequence);
    }
    let before = directory.path().join("before");
    tree::copy(&data, &before);
    for sequence in BEFORE..BEFORE + 2 {
        assert_eq!(client.send(target, &[content(sequence)]).expect("send"), sequence);
    }
    server.kill9();

    let holders = tree::files_with(&data, &content(BEFORE + 1));
    assert_eq!(holders.len(), 1, "one file holds the last message: {holders:?}");
    let log = holders.into_iter().next().unwrap_or_default();
    let (old, new) = (tree::read(&before.join(&log)), tree::read(&data.join(&log)));
    let tail = tree::difference(&old, &new).expect("two sends change the log");
    let (first, last) = (tree::find(&new, &content(BEFORE)), tree::find(&new, &content(BEFORE + 1)));
    assert!(first.is_some_and(|at| tail.contains(&at)) && last.is_some_and(|at| tail.contains(&at)));
    assert!(tail.len() >= 2 * PAYLOAD && tail.len() < 64 * 1024, "two records of {PAYLOAD} bytes in {tail:?}");
    Specimen { directory, log, tail, target }
}

impl Specimen {
    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Damages a copy, starts a server on it and judges what it does.
    fn judge(&self, damage: Damage) -> Result<Outcome, String> {
        let scratch = TempDir::with_prefix("whippet-tail-case-").expect("temporary folder");
        let data = scratch.path().join("data");
        tree::copy(&self.data(), &data);
        match damage {
            Damage::Cut(position) => tree::truncate(&data.join(&self.log), position as u64),
            Damage::Flip(position) => tree::flip(&data.join(&self.log), position, 1 << (position % 8)),
        }
        let options = ServerOptions::default().allow("");
        match options.try_start_at(&data) {
            Err(failure) if failure.status.is_some_and(|status| !status.success()) => {
                self.assert_named(&failure.output)?;
                Ok(Outcome::Refused)
            }
            Err(failure) => Err(format!("the server neither starts nor refuses: {failure}")),
            Ok(mut server) => {
                let outcome = self.look(&server);
                let log = server.log().lines();
                server.kill9();
                match outcome? {
                    Outcome::Complete => Ok(Outcome::Complete),
                    other => self.assert_named(&log).map(|()| other),
                }
            }
        }
    }

    /// Whether an alarming line names the damaged file and a position in it.
    fn assert_named(&self, lines: &[String]) -> Result<(), String> {
        let name = self.log.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // "offset 4096", "position=4096", "at byte 4096": the word, and a number soon after it.
        let place = |line: &str, word: &str| {
            let after = line.split(word).nth(1).unwrap_or_default();
            after.chars().take(20).any(|character| character.is_ascii_digit())
        };
        let named = |line: &str| {
            let line = line.to_lowercase();
            line.contains(&name.to_lowercase()) && ["offset", "position", "byte"].iter().any(|word| place(&line, word))
        };
        if lines.iter().filter(|line| is_alarming(line) || line.starts_with("whippet: ")).any(|line| named(line)) {
            return Ok(());
        }
        Err(format!("no warning or error names {name} and an offset:\n{}", lines.join("\n")))
    }

    fn look(&self, server: &Server) -> Result<Outcome, String> {
        let mut client = RawClient::logged_in(server.tcp()).map_err(|failure| format!("login: {failure}"))?;
        client.set_answer_deadline(Duration::from_secs(5)).map_err(|error| error.to_string())?;
        let polled = match client.poll_from(self.target, 0, 1_000) {
            Ok(polled) => polled,
            Err(Failure::Code(_)) => return Ok(Outcome::Refused),
            Err(failure) => return Err(format!("poll: {failure}")),
        };
        for (expected, message) in (0..).zip(&polled.messages) {
            if message.offset != expected || message.payload != content(expected) {
                return Err(format!(
                    "offset {} is served instead of {expected}, or with another payload",
                    message.offset
                ));
            }
        }
        let served = polled.messages.len() as u64;
        if served < BEFORE {
            return Err(format!("only {served} messages are served, the {BEFORE} before the damage are whole"));
        }
        let complete = served == BEFORE + 2;
        match client.send(self.target, &[content(99)]) {
            Ok(base) if base < BEFORE + 2 => Err(format!("offset {base} was acknowledged before and is given again")),
            Ok(_) | Err(Failure::Code(_)) => Ok(if complete { Outcome::Complete } else { Outcome::Declared }),
            Err(failure) => Err(format!("send: {failure}")),
        }
    }
}

/// Judges a selection of positions (or all of them) and asserts that no case was a silent loss.
fn judge_all(durability: &str, kind: &str, damage: impl Fn(usize) -> Damage, edges: &dyn Fn(&Specimen) -> Vec<usize>) {
    let specimen = specimen(durability);
    let started = Instant::now();
    // The very last byte comes first: it also tells how long a case takes.
    let mut failures = judge_one(&specimen, damage(specimen.tail.end - 1)).err().into_iter().collect::<Vec<_>>();
    let case = started.elapsed().max(Duration::from_millis(1));
    let all = std::env::var_os(ALL_VARIABLE).is_some();
    let affordable = (BUDGET.as_millis() / case.as_millis().max(1)).max(8) as usize;
    let step = if all { 1 } else { specimen.tail.len().div_ceil(affordable).max(1) };
    let mut positions: Vec<usize> = specimen.tail.clone().step_by(step).chain(edges(&specimen)).collect();
    positions.sort_unstable();
    positions.dedup();
    let mut outcomes: BTreeMap<Outcome, usize> = BTreeMap::new();
    for &position in &positions {
        match judge_one(&specimen, damage(position)) {
            Ok(outcome) => *outcomes.entry(outcome).or_default() += 1,
            Err(failure) => failures.push(failure),
        }
    }
    eprintln!("{durability}, {kind}: {} of {} positions, {outcomes:?}", positions.len(), specimen.tail.len());
    let shown = failures.iter().take(5).map(String::as_str).collect::<Vec<_>>().join("\n---\n");
    assert!(failures.is_empty(), "{} of {} cases failed, the first ones:\n{shown}", failures.len(), positions.len());
}

fn judge_one(specimen: &Specimen, damage: Damage) -> Result<Outcome, String> {
    specimen.judge(damage).map_err(|reason| format!("{damage:?} in {}: {reason}", shown(&specimen.log)))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Positions around the ends of the two last records, as far as the payloads tell them.
fn record_edges(specimen: &Specimen) -> Vec<usize> {
    let log = tree::read(&specimen.data().join(&specimen.log));
    let mut edges = vec![specimen.tail.start, specimen.tail.start + 1];
    for sequence in [BEFORE, BEFORE + 1] {
        let start = tree::find(&log, &content(sequence)).expect("the payload is there");
        edges.extend([start, start + PAYLOAD - 1, start + PAYLOAD]);
    }
    edges.retain(|position| specimen.tail.contains(position));
    edges
}

#[test]
fn a_cut_replicated_log_loses_nothing_in_silence() {
    judge_all("replicated", "cut", Damage::Cut, &record_edges);
}

#[test]
fn a_cut_persisted_log_loses_nothing_in_silence() {
    judge_all("persisted", "cut", Damage::Cut, &record_edges);
}

#[test]
fn a_wrong_bit_in_a_replicated_log_loses_nothing_in_silence() {
    judge_all("replicated", "wrong bit", Damage::Flip, &record_edges);
}

#[test]
fn a_wrong_bit_in_a_persisted_log_loses_nothing_in_silence() {
    judge_all("persisted", "wrong bit", Damage::Flip, &record_edges);
}

#[test]
fn an_undamaged_copy_is_complete() {
    let specimen = specimen("replicated");
    let end = tree::read(&specimen.data().join(&specimen.log)).len();
    assert_eq!(
        specimen.judge(Damage::Cut(end)),
        Ok(Outcome::Complete),
        "cutting at the end of the file changes nothing"
    );
}
