//! The replicated state of a partition beside its messages: stored offsets, dedup, numbering.

use crate::dedup::{DedupTable, Effect};
use crate::record::{BATCH, Consumer, Control, control_hash};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use whippet_log::Replay;
use whippet_protocol::batch;
use whippet_vsr::{Entry, OpNumber};

/// Stored offsets that a partition keeps, at most.
pub const STORED_OFFSETS_MAX: usize = 65_536;

/// What a partition knows as of the last record that was applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionState {
    /// Offset of the next message. Offsets below were given out.
    pub next_offset: u64,
    /// Offset of the last message, `None` when there never was one since the last purge.
    pub last_offset: Option<u64>,
    /// Where consumers stand: offset of the last message that each has handled.
    pub offsets: BTreeMap<Consumer, u64>,
    /// Repeated writes.
    pub dedup: DedupTable,
    /// Op of the metadata command of the last purge, 0 for never.
    pub purge_intent: u64,
    /// Op of the partition's own log that emptied it last, 0 for never.
    pub purge_op: u64,
    /// Grows with every declared loss.
    pub generation: u32,
}

/// Why a control record would change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetRefused {
    /// Behind the last message, or there is none.
    BehindTheEnd,
    /// No offset is stored for that consumer.
    NotStored,
    /// The partition keeps as many as it may.
    TooMany,
}

impl PartitionState {
    /// A partition that never held anything.
    pub fn empty() -> PartitionState {
        PartitionState {
            next_offset: 0,
            last_offset: None,
            offsets: BTreeMap::new(),
            dedup: DedupTable::default(),
            purge_intent: 0,
            purge_op: 0,
            generation: 0,
        }
    }

    /// Offset of the last message, 0 when there is none, as replies show it.
    pub fn current_offset(&self) -> u64 {
        self.last_offset.unwrap_or(0)
    }

    /// Whether an offset may be stored now.
    ///
    /// # Errors
    /// [`OffsetRefused`].
    pub fn may_store(&self, consumer: Consumer, offset: u64) -> Result<(), OffsetRefused> {
        if self.last_offset.is_none_or(|last| offset > last) {
            return Err(OffsetRefused::BehindTheEnd);
        }
        if self.offsets.len() >= STORED_OFFSETS_MAX && !self.offsets.contains_key(&consumer) {
            return Err(OffsetRefused::TooMany);
        }
        Ok(())
    }

    /// Applies a committed record. What a control record refers to may have changed since it was admitted; it then does
    /// nothing, on every replica alike.
    ///
    /// # Errors
    /// A phrase, for a record that is of no kind that this program knows.
    pub fn apply(&mut self, entry: &Entry) -> Result<(), String> {
        let header = entry.header();
        if header.kind == BATCH {
            self.next_offset = header.base_offset + u64::from(header.count);
            self.last_offset = Some(self.next_offset - 1);
            self.dedup.remember(header.client, header.request, header.op.0, Effect::Appended(header.base_offset));
            return Ok(());
        }
        let control = Control::decode(header.kind, &entry.body())
            .ok_or_else(|| format!("op {} has the unknown kind {} or a malformed body", header.op, header.kind))?;
        match control {
            Control::StoreOffset { consumer, offset, forward_only } => {
                if self.may_store(consumer, offset).is_ok() {
                    let stored = self.offsets.entry(consumer).or_insert(offset);
                    if offset > *stored || !forward_only {
                        *stored = offset;
                    }
                }
                self.dedup.remember(header.client, header.request, header.op.0, Effect::Offset);
            }
            Control::DeleteOffset { consumer } => {
                self.offsets.remove(&consumer);
                self.dedup.remember(header.client, header.request, header.op.0, Effect::Offset);
            }
            Control::Purge { intent } => {
                let generation = self.generation + 1;
                *self = PartitionState {
                    purge_intent: intent,
                    purge_op: header.op.0,
                    generation,
                    ..PartitionState::empty()
                };
            }
            Control::Loss { next_offset } => {
                self.generation += 1;
                self.next_offset = self.next_offset.max(next_offset);
                // A position behind the messages that are still there would wait for offsets that never come.
                let last = self.last_offset;
                self.offsets.retain(|_, offset| {
                    last.is_some_and(|last| {
                        *offset = (*offset).min(last);
                        true
                    })
                });
            }
        }
        Ok(())
    }

    /// The state as bytes, for a snapshot.
    pub fn snapshot(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("the state has nothing that can't be encoded")
    }

    /// Reads a snapshot back.
    ///
    /// # Errors
    /// A phrase that says what is wrong.
    pub fn restore(bytes: &[u8]) -> Result<PartitionState, String> {
        postcard::from_bytes(bytes).map_err(|error| format!("the partition's state can't be read: {error}"))
    }

    /// Last op that emptied the partition.
    pub fn purged_up_to(&self) -> Option<OpNumber> {
        (self.purge_op > 0).then_some(OpNumber(self.purge_op))
    }
}

impl Replay for PartitionState {
    fn restore(&mut self, state: &[u8]) -> Result<(), String> {
        *self = PartitionState::restore(state)?;
        Ok(())
    }

    fn replay(&mut self, entry: &Entry) -> Result<(), String> {
        self.apply(entry)
    }

    fn body_is_intact(&self, entry: &Entry) -> bool {
        body_is_intact(entry)
    }

    fn next_offset(&self) -> u64 {
        self.next_offset
    }

    fn log_starts_by(&self) -> u64 {
        self.purge_op + 1
    }
}

/// Whether the body of a partition's record is what its header says.
pub fn body_is_intact(entry: &Entry) -> bool {
    let (header, body) = (entry.header(), entry.body());
    if header.kind == BATCH {
        batch::check_stored(&body).is_ok_and(|info| {
            info.checksum == header.body_hash && info.base_offset == header.base_offset && info.count == header.count
        })
    } else {
        control_hash(&body) == header.body_hash
    }
}
