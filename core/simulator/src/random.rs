//! Random streams that do not disturb each other: leaving a fault out does not shift the draws of a link.

/// A stream of random numbers (SplitMix64: its output is fixed for all time).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of this name under a seed.
    pub fn new(seed: u64, name: &str) -> Random {
        Random(seed ^ twox_hash::XxHash3_64::oneshot(name.as_bytes()))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.number() % n
    }

    /// A number in `from ..= to`.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// True in so many of a thousand cases.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
