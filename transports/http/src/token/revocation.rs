//! Tokens that were given up before their time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

/// Most tokens that are remembered. Above it the one that ends soonest is forgotten.
pub const REVOKED_MAX: usize = 65_536;

/// A bounded set of token ids, each kept until its token ends by itself.
#[derive(Default)]
pub struct Revoked {
    entries: RwLock<Entries>,
    /// Number of entries, so that the common case of none takes no lock.
    count: AtomicUsize,
}

#[derive(Default)]
struct Entries {
    expiry_of: BTreeMap<Box<str>, u64>,
    /// The same entries, soonest end first.
    by_expiry: BTreeSet<(u64, Box<str>)>,
}

impl Revoked {
    /// Whether the token with this id was given up.
    pub fn contains(&self, id: &str) -> bool {
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        self.entries.read().unwrap_or_else(PoisonError::into_inner).expiry_of.contains_key(id)
    }

    /// Remembers the token until `expiry`, and forgets those that have ended by `now`; both in seconds since 1970.
    pub fn insert(&self, id: &str, expiry: u64, now: u64) {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        while entries.by_expiry.first().is_some_and(|(end, _)| *end < now) {
            entries.pop_soonest();
        }
        if !entries.expiry_of.contains_key(id) {
            entries.expiry_of.insert(id.into(), expiry);
            entries.by_expiry.insert((expiry, id.into()));
        }
        while entries.by_expiry.len() > REVOKED_MAX {
            entries.pop_soonest();
        }
        self.count.store(entries.by_expiry.len(), Ordering::Release);
    }
}

impl Entries {
    fn pop_soonest(&mut self) {
        if let Some((_, id)) = self.by_expiry.pop_first() {
            self.expiry_of.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_stays_until_its_token_has_ended() {
        let revoked = Revoked::default();
        assert!(!revoked.contains("a"));
        revoked.insert("a", 100, 50);
        assert!(revoked.contains("a") && !revoked.contains("b"));
        revoked.insert("b", 200, 100);
        assert!(revoked.contains("a"));
        revoked.insert("c", 200, 101);
        assert!(!revoked.contains("a") && revoked.contains("b") && revoked.contains("c"));
    }

    #[test]
    fn the_set_is_bounded_and_forgets_the_soonest_end() {
        let revoked = Revoked::default();
        for number in 0..=REVOKED_MAX as u64 {
            revoked.insert(&number.to_string(), 1000 + number, 0);
        }
        assert!(!revoked.contains("0") && revoked.contains("1") && revoked.contains(&REVOKED_MAX.to_string()));
        assert_eq!(revoked.count.load(Ordering::Acquire), REVOKED_MAX);
    }
}
