//! Producers and a consumer that work until the server is killed under them.

use super::ledger::SentBatch;
use iggy_binary_protocol::WirePollingStrategy;
use std::net::SocketAddr;
use std::thread::JoinHandle;
use whippet_sdk_tests::batch::Message;
use whippet_sdk_tests::body::Target;
use whippet_sdk_tests::payload::{Label, PAYLOAD_SIZE_MIN, build};
use whippet_sdk_tests::random::Random;
use whippet_sdk_tests::{Failure, RawClient};

/// Consumer number whose position is stored and must survive.
pub const CONSUMER: u32 = 11;

/// Payload bytes that one producer sends at most between two kills, so that many rounds stay small.
const ROUND_BYTES_MAX: usize = 3 << 20;

/// What one producer did until the server went away.
pub struct Produced {
    pub batches: Vec<SentBatch>,
    /// The sequence number to go on with.
    pub next_sequence: u64,
}

/// What the consumer saw and stored until the server went away.
pub struct Consumed {
    pub shown: Vec<Message>,
    /// Last position whose storing was acknowledged.
    pub stored: Option<u64>,
    /// A position whose storing was not answered.
    pub unanswered: Option<u64>,
}

/// Starts a producer that sends numbered batches of random sizes until the connection breaks or its budget is used up.
pub fn produce(
    address: SocketAddr,
    target: Target,
    producer: u32,
    first: u64,
    mut random: Random,
) -> JoinHandle<Produced> {
    std::thread::spawn(move || {
        let mut done = Produced { batches: Vec::new(), next_sequence: first };
        // The kill may come before the login is through; then nothing was sent.
        let Ok(mut client) = RawClient::logged_in(address) else { return done };
        let mut sent_bytes = 0;
        while sent_bytes < ROUND_BYTES_MAX {
            let count = if random.between(0, 39) == 0 { random.between(50, 400) } else { random.between(1, 12) };
            let sequences = done.next_sequence..done.next_sequence + count;
            let payloads: Vec<Vec<u8>> = sequences
                .clone()
                .map(|sequence| {
                    build(Label { producer, sequence }, random.between(PAYLOAD_SIZE_MIN as u64, 400) as usize)
                })
                .collect();
            sent_bytes += payloads.iter().map(Vec::len).sum::<usize>();
            done.next_sequence = sequences.end;
            let base_offset = match client.send(target, &payloads) {
                Ok(base) => Some(base),
                Err(Failure::Connection(_)) => None,
                Err(other) => panic!("producer {producer}: {other}"),
            };
            done.batches.push(SentBatch { producer, sequences, base_offset });
            if base_offset.is_none() {
                break;
            }
        }
        done
    })
}

/// Starts a consumer that polls from `next` on and stores a position every now and then, until the connection breaks.
pub fn consume(address: SocketAddr, target: Target, mut next: u64, mut random: Random) -> JoinHandle<Consumed> {
    std::thread::spawn(move || {
        let mut done = Consumed { shown: Vec::new(), stored: None, unanswered: None };
        let Ok(mut client) = RawClient::logged_in(address) else { return done };
        loop {
            let count = random.between(1, 300) as u32;
            let polled = match client.poll(target, 1, WirePollingStrategy::offset(next), count, false) {
                Ok(polled) => polled,
                Err(Failure::Connection(_)) => return done,
                Err(other) => panic!("consumer: {other}"),
            };
            let Some(last) = polled.messages.last().map(|message| message.offset) else { continue };
            let expected: Vec<u64> = (next..=last).collect();
            let seen: Vec<u64> = polled.messages.iter().map(|message| message.offset).collect();
            assert_eq!(seen, expected, "a poll from {next} shows consecutive offsets");
            done.shown.extend(polled.messages);
            next = last + 1;
            match client.store_offset(target, CONSUMER, last) {
                Ok(()) => done.stored = Some(last),
                Err(Failure::Connection(_)) => {
                    done.unanswered = Some(last);
                    return done;
                }
                Err(other) => panic!("consumer: {other}"),
            }
        }
    })
}
