//! Everything that was ever promised or shown for one partition, over all lives of the server.

use std::collections::BTreeMap;
use twox_hash::XxHash3_64;
use whippet_sdk_tests::batch::Message;
use whippet_sdk_tests::payload::{self, Label};

/// A batch that was sent.
#[derive(Clone, Debug)]
pub struct SentBatch {
    pub producer: u32,
    /// Sequence numbers of its messages, without a gap.
    pub sequences: std::ops::Range<u64>,
    /// Offset of the first message; `None` when no acknowledgement came.
    pub base_offset: Option<u64>,
}

/// The history of one partition.
#[derive(Default)]
pub struct Ledger {
    /// Acknowledged offsets and who must be there.
    acknowledged: BTreeMap<u64, Label>,
    /// Batches without an acknowledgement: each may be there as a whole or not at all.
    uncertain: Vec<SentBatch>,
    /// Every offset that was ever shown, with a hash of its payload and its append time.
    shown: BTreeMap<u64, (u64, u64)>,
}

impl Ledger {
    /// Notes what came of one batch.
    pub fn note_sent(&mut self, batch: SentBatch) {
        let Some(base) = batch.base_offset else {
            self.uncertain.push(batch);
            return;
        };
        for (offset, sequence) in (base..).zip(batch.sequences.clone()) {
            let label = Label { producer: batch.producer, sequence };
            let earlier = self.acknowledged.insert(offset, label);
            assert_eq!(earlier, None, "offset {offset} was acknowledged twice, now for {label:?}");
        }
    }

    /// Notes one polled message and asserts that its offset never showed another content or append time.
    pub fn note_shown(&mut self, message: &Message) {
        let now = (XxHash3_64::oneshot(&message.payload), message.timestamp);
        let first = *self.shown.entry(message.offset).or_insert(now);
        assert_eq!(first, now, "offset {} showed two contents or append times", message.offset);
    }

    /// First offset that was never acknowledged.
    #[must_use]
    pub fn acknowledged_end(&self) -> u64 {
        self.acknowledged.last_key_value().map_or(0, |(offset, _)| offset + 1)
    }

    /// First offset that was never shown.
    #[must_use]
    pub fn shown_end(&self) -> u64 {
        self.shown.last_key_value().map_or(0, |(offset, _)| offset + 1)
    }

    /// Checks the content of the partition from `first` to its end, as a quiet server shows it.
    ///
    /// `messages` are all messages with offsets from `first` on. Everything before was checked in an earlier round.
    pub fn check(&mut self, first: u64, messages: &[Message]) {
        for (expected, message) in (first..).zip(messages) {
            assert_eq!(message.offset, expected, "a gap in the offsets");
            self.note_shown(message);
        }
        let end = first + messages.len() as u64;
        assert!(end >= self.acknowledged_end(), "acknowledged up to {}, readable up to {end}", self.acknowledged_end());
        assert!(end >= self.shown_end(), "shown up to {} before, readable up to {end} now", self.shown_end());

        let mut last: BTreeMap<u32, u64> = BTreeMap::new();
        let mut present: BTreeMap<Label, u64> = BTreeMap::new();
        for message in messages {
            let label =
                payload::read(&message.payload).unwrap_or_else(|reason| panic!("offset {}: {reason}", message.offset));
            if let Some(expected) = self.acknowledged.get(&message.offset) {
                assert_eq!(label, *expected, "offset {} was acknowledged for another message", message.offset);
            }
            if let Some(before) = last.insert(label.producer, label.sequence) {
                assert!(before < label.sequence, "{label:?} at offset {} follows number {before}", message.offset);
            }
            present.insert(label, message.offset);
        }
        for batch in &self.uncertain {
            let found: Vec<u64> = batch
                .sequences
                .clone()
                .filter_map(|sequence| present.get(&Label { producer: batch.producer, sequence }).copied())
                .collect();
            let whole = found.len() as u64 == batch.sequences.end - batch.sequences.start;
            assert!(found.is_empty() || whole, "a batch without an answer is there in part: {batch:?} at {found:?}");
        }
        // What could still appear had to appear now: the server is quiet. Keep the list short.
        self.uncertain.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{Ledger, SentBatch};
    use whippet_sdk_tests::batch::Message;
    use whippet_sdk_tests::payload::{Label, build};

    fn message(offset: u64, sequence: u64) -> Message {
        Message { offset, id: 1, timestamp: 5, payload: build(Label { producer: 1, sequence }, 30) }
    }

    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        ledger.note_sent(SentBatch { producer: 1, sequences: 0..2, base_offset: Some(0) });
        ledger.note_sent(SentBatch { producer: 1, sequences: 2..4, base_offset: None });
        ledger
    }

    #[test]
    fn accepts_uncertain_batches_as_a_whole_or_not_at_all() {
        ledger().check(0, &[message(0, 0), message(1, 1)]);
        ledger().check(0, &[message(0, 0), message(1, 1), message(2, 2), message(3, 3)]);
    }

    #[test]
    #[should_panic(expected = "in part")]
    fn notices_half_a_batch() {
        ledger().check(0, &[message(0, 0), message(1, 1), message(2, 2)]);
    }

    #[test]
    #[should_panic(expected = "readable up to 1")]
    fn notices_a_lost_message() {
        ledger().check(0, &[message(0, 0)]);
    }

    #[test]
    #[should_panic(expected = "showed two contents")]
    fn notices_a_reused_offset() {
        let mut ledger = ledger();
        ledger.note_shown(&message(4, 9));
        ledger.note_shown(&message(4, 10));
    }

    #[test]
    #[should_panic(expected = "another message")]
    fn notices_a_changed_message() {
        ledger().check(0, &[message(0, 1), message(1, 2)]);
    }
}
