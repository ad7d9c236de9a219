//! Rounds of traffic, `kill -9`, restart and a look at everything.

use super::ledger::Ledger;
use super::traffic::{CONSUMER, consume, produce};
use std::time::{Duration, Instant};
use whippet_sdk_tests::batch::Message;
use whippet_sdk_tests::body::Target;
use whippet_sdk_tests::random::Random;
use whippet_sdk_tests::{RawClient, Server, ServerOptions};

/// Environment variable with the number of rounds; the default keeps the suite short.
const ROUNDS_VARIABLE: &str = "WHIPPET_KILL_ROUNDS";

/// Environment variable with the seed of the random moments, sizes and counts.
const SEED_VARIABLE: &str = "WHIPPET_KILL_SEED";

/// Messages before the end of what was acknowledged that every round reads again; the last round reads all of them.
const CHECKED_AGAIN: u64 = 10_000;

/// One partition under test.
struct Subject {
    target: Target,
    ledger: Ledger,
    /// Producers by number, each with its next sequence number.
    producers: Vec<(u32, u64)>,
    /// Last position whose storing was acknowledged, or that was found after a crash.
    stored: Option<u64>,
    /// A later position whose storing was not answered: it may have been applied.
    unanswered: Option<u64>,
}

#[test]
fn nothing_acknowledged_is_lost_by_kill_9() {
    let seed = Random::seed_from(SEED_VARIABLE);
    let rounds: u64 = match std::env::var(ROUNDS_VARIABLE) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{ROUNDS_VARIABLE} must be a number, not {text:?}")),
        Err(_) => 8,
    };
    eprintln!("{SEED_VARIABLE}={seed} {ROUNDS_VARIABLE}={rounds}");
    let mut random = Random::new(seed);
    // An index is written after its segment is full; a kill in between leaves it to be rebuilt, which is worth a warning.
    let mut server = ServerOptions::default().allow(".index is missing or damaged").start();
    let mut subjects = create_subjects(&server);
    for round in 0..rounds {
        let whole = round + 1 == rounds;
        round_of_traffic(&mut server, &mut subjects, &mut random);
        if random.between(0, 2) == 0 {
            kill_during_start(&mut server, &mut random);
        }
        server.start_again();
        let mut client = RawClient::logged_in(server.tcp()).expect("root logs in after a crash");
        for subject in &mut subjects {
            check(&mut client, subject, whole);
        }
    }
    for subject in &subjects {
        let acknowledged = subject.ledger.acknowledged_end();
        eprintln!(
            "{:?}: acknowledged up to {acknowledged}, shown up to {}",
            subject.target,
            subject.ledger.shown_end()
        );
        assert!(acknowledged > 0, "the kills came before anything was acknowledged: give the test more rounds");
    }
}

fn create_subjects(server: &Server) -> Vec<Subject> {
    let mut client = RawClient::logged_in(server.tcp()).expect("root logs in");
    let stream = client.create_stream("kill").expect("create stream");
    let mut subjects = Vec::new();
    for (number, durability) in (0..).zip(["replicated", "persisted"]) {
        let options =
            [("durability", durability), ("consumer_offset_durability", durability), ("segment_size", "1MiB")];
        let topic = client.create_topic(stream, durability, 1, &options).expect("create topic");
        let producers = vec![(number * 10, 0), (number * 10 + 1, 0)];
        let target = Target { stream, topic, partition: 0 };
        subjects.push(Subject { target, ledger: Ledger::default(), producers, stored: None, unanswered: None });
    }
    subjects
}

/// Lets everybody work, kills the server at a random moment, and writes down what was promised and shown.
fn round_of_traffic(server: &mut Server, subjects: &mut [Subject], random: &mut Random) {
    let address = server.tcp();
    let mut working = Vec::new();
    for subject in subjects.iter_mut() {
        let producers: Vec<_> = subject
            .producers
            .iter()
            .map(|&(producer, first)| produce(address, subject.target, producer, first, Random::new(random.next_u64())))
            .collect();
        let from = subject.ledger.shown_end().saturating_sub(random.between(0, 50));
        let consumer = consume(address, subject.target, from, Random::new(random.next_u64()));
        working.push((subject, producers, consumer));
    }
    // The moment of the kill is the point of the test: anywhere from the logins to the middle of the traffic.
    std::thread::sleep(Duration::from_millis(random.between(40, 500)));
    server.kill9();
    for (subject, producers, consumer) in working {
        for (producer, slot) in producers.into_iter().zip(&mut subject.producers) {
            let produced = producer.join().expect("a producer fails only by losing its connection");
            slot.1 = produced.next_sequence;
            for batch in produced.batches {
                subject.ledger.note_sent(batch);
            }
        }
        let consumed = consumer.join().expect("a consumer fails only by losing its connection");
        for message in &consumed.shown {
            subject.ledger.note_shown(message);
        }
        subject.stored = consumed.stored.or(subject.stored);
        subject.unanswered = consumed.unanswered;
    }
}

/// Starts the server and kills it again before it is ready, several times at random moments.
fn kill_during_start(server: &mut Server, random: &mut Random) {
    for _ in 0..random.between(1, 3) {
        let moment = Duration::from_millis(random.between(1, 60));
        server.start_and_kill_after(moment);
    }
}

/// All messages from `first` to the end of the partition.
fn read_to_end(client: &mut RawClient, target: Target, first: u64) -> Vec<Message> {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut messages: Vec<Message> = Vec::new();
    loop {
        assert!(Instant::now() < deadline, "reading {target:?} takes more than a minute");
        let next = messages.last().map_or(first, |message| message.offset + 1);
        let polled = client
            .poll_from(target, next, 5_000)
            .unwrap_or_else(|failure| panic!("{target:?}: a poll from {next} after a crash: {failure}"));
        if polled.messages.is_empty() {
            let end = if next == 0 { 0 } else { polled.current_offset + 1 };
            assert_eq!(
                end, next,
                "{target:?}: a poll from {next} is empty although the last offset is {}",
                polled.current_offset
            );
            return messages;
        }
        messages.extend(polled.messages);
    }
}

fn check(client: &mut RawClient, subject: &mut Subject, whole: bool) {
    let first = if whole { 0 } else { subject.ledger.acknowledged_end().saturating_sub(CHECKED_AGAIN) };
    let messages = read_to_end(client, subject.target, first);
    subject.ledger.check(first, &messages);

    let found = client.get_offset(subject.target, CONSUMER).expect("get offset after a crash");
    let found = found.map(|found| found.stored_offset);
    let unanswered = subject.unanswered.take();
    let legal = found == subject.stored || (unanswered.is_some() && found == unanswered);
    assert!(legal, "{:?}: position {found:?}, stored {:?}, unanswered {unanswered:?}", subject.target, subject.stored);
    subject.stored = found;
}
