//! Recognises a repeated write of a client, and remembers what the first one did.
//!
//! Replicated state: it is changed only when a record is applied, so every replica answers a retry alike, also after a
//! view change, a restart or a state transfer. SDKs number all their replicated requests from one counter, so a partition
//! sees any subset of the numbers, in any order within a window.
//!
//! The promise: within one session, while its entry is in the table, a numbered write takes effect once, and a retry is told
//! the offset of the first.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Numbers that are remembered for a client.
pub const WINDOW: usize = 128;
/// Clients that are remembered for a partition. The one whose last write is the oldest goes first.
pub const CLIENTS_MAX: usize = 1024;

/// What a remembered write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// It appended a batch whose first message has this offset.
    Appended(u64),
    /// It changed a stored offset.
    Offset,
}

/// What is known of a numbered write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing: carry it out.
    New,
    /// It was carried out.
    Done(Effect),
    /// It is older than the window reaches: whether it was carried out is not known any more.
    TooOld,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Window {
    last_op: u64,
    /// In ascending order of the number.
    entries: VecDeque<(u64, Effect)>,
}

/// The table of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DedupTable {
    clients: BTreeMap<u128, Window>,
}

impl DedupTable {
    /// What is known of request `request` of `client`. Client 0 has no memory.
    pub fn look_up(&self, client: u128, request: u64) -> Known {
        let Some(window) = self.clients.get(&client).filter(|_| client != 0) else { return Known::New };
        match window.entries.binary_search_by_key(&request, |entry| entry.0) {
            Ok(at) => Known::Done(window.entries[at].1),
            Err(0) if window.entries.len() >= WINDOW => Known::TooOld,
            Err(_) => Known::New,
        }
    }

    /// Remembers what request `request` of `client`, applied as `op`, did.
    pub fn remember(&mut self, client: u128, request: u64, op: u64, effect: Effect) {
        if client == 0 {
            return;
        }
        if !self.clients.contains_key(&client) && self.clients.len() >= CLIENTS_MAX {
            let oldest = self.clients.iter().min_by_key(|(_, window)| window.last_op).map(|(client, _)| *client);
            self.clients.remove(&oldest.expect("the table is not empty"));
        }
        let window = self.clients.entry(client).or_insert_with(|| Window { last_op: op, entries: VecDeque::new() });
        window.last_op = op;
        if let Err(at) = window.entries.binary_search_by_key(&request, |entry| entry.0) {
            window.entries.insert(at, (request, effect));
            if window.entries.len() > WINDOW {
                window.entries.pop_front();
            }
        }
    }

    /// Number of clients that are remembered.
    pub fn len(&self) -> usize {
        self.clients.len()
    }

    /// Whether no client is remembered.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Forgets everything: the history to which it belongs is gone.
    pub fn clear(&mut self) {
        self.clients.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_number_gets_the_first_effect_and_gaps_are_new() {
        let mut table = DedupTable::default();
        table.remember(5, 1, 10, Effect::Appended(100));
        table.remember(5, 9, 11, Effect::Offset);
        assert_eq!(table.look_up(5, 1), Known::Done(Effect::Appended(100)));
        assert_eq!(table.look_up(5, 9), Known::Done(Effect::Offset));
        assert_eq!(table.look_up(5, 4), Known::New);
        assert_eq!(table.look_up(6, 1), Known::New);
        table.remember(5, 1, 12, Effect::Appended(999));
        assert_eq!(table.look_up(5, 1), Known::Done(Effect::Appended(100)), "the first effect stays");
    }

    #[test]
    fn numbers_below_a_full_window_are_too_old() {
        let mut table = DedupTable::default();
        for request in 1..=WINDOW as u64 + 1 {
            table.remember(5, request, request, Effect::Appended(request));
        }
        assert_eq!(table.look_up(5, 1), Known::TooOld);
        assert_eq!(table.look_up(5, 2), Known::Done(Effect::Appended(2)));
    }

    #[test]
    fn the_client_with_the_oldest_write_is_forgotten_first() {
        let mut table = DedupTable::default();
        for client in 1..=CLIENTS_MAX as u128 {
            table.remember(client, 1, client as u64, Effect::Offset);
        }
        table.remember(1, 2, 5000, Effect::Offset);
        table.remember(9999, 1, 5001, Effect::Offset);
        assert_eq!(table.len(), CLIENTS_MAX);
        assert_eq!(table.look_up(2, 1), Known::New, "client 2 was the oldest");
        assert_eq!(table.look_up(1, 1), Known::Done(Effect::Offset));
    }

    #[test]
    fn client_zero_is_never_a_duplicate() {
        let mut table = DedupTable::default();
        table.remember(0, 0, 1, Effect::Appended(1));
        assert_eq!(table.look_up(0, 0), Known::New);
        assert!(table.is_empty());
    }
}
