//! Lowest free number first: the ids of streams and of topics.

use std::collections::BTreeSet;

/// Which numbers from 0 on are free. Follows from the set of used ones, so it is rebuilt and not stored; equal sets give
/// equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FreeIds {
    /// One above the highest used number.
    next: u32,
    /// Free numbers below `next`, so never `next - 1`.
    holes: BTreeSet<u32>,
}

impl FreeIds {
    /// All but `used`, which ascend. Takes memory for every hole: the caller bounds the highest number.
    pub(crate) fn without(used: impl Iterator<Item = u32>) -> Self {
        let mut free = Self::default();
        for id in used {
            free.holes.extend(free.next..id);
            free.next = id + 1;
        }
        free
    }

    /// Takes the lowest free number.
    pub(crate) fn take(&mut self) -> u32 {
        self.holes.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    /// Gives a used number back.
    pub(crate) fn release(&mut self, id: u32) {
        assert!(id < self.next && !self.holes.contains(&id), "id {id} was not in use");
        self.holes.insert(id);
        while self.next > 0 && self.holes.remove(&(self.next - 1)) {
            self.next -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_number_comes_first() {
        let mut free = FreeIds::default();
        assert_eq!([free.take(), free.take(), free.take(), free.take()], [0, 1, 2, 3]);
        free.release(2);
        free.release(0);
        assert_eq!([free.take(), free.take(), free.take()], [0, 2, 4]);
    }

    #[test]
    fn any_order_of_releases_equals_a_rebuild() {
        let mut free = FreeIds::default();
        for _ in 0..6 {
            free.take();
        }
        for id in [4, 1, 5, 3] {
            free.release(id);
        }
        assert_eq!(free, FreeIds::without([0, 2].into_iter()));
        free.release(2);
        free.release(0);
        assert_eq!(free, FreeIds::default());
    }

    #[test]
    #[should_panic(expected = "id 7 was not in use")]
    fn a_free_number_cannot_be_released() {
        FreeIds::without([0, 1].into_iter()).release(7);
    }
}
