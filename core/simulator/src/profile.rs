//! What a seed draws before a run starts: each seed its own subset of faults, with its own intensities.

use crate::random::Random;
use whippet_vsr::Mutant;

/// Few groups of which everything wraps and evicts soon, or many groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// 1 to 4 partitions, tiny pipelines and segments, many faults.
    Deep,
    /// This many partitions, few faults.
    Wide(u32),
}

/// One run's shape.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Few groups or many.
    pub scale: Scale,
    /// Nodes: 1, 3 or 5.
    pub nodes: u8,
    /// Partitions in all.
    pub partitions: u32,
    /// Of them acknowledged after fsync; the others once they are written.
    pub persisted: u32,
    /// Producers.
    pub clients: u32,
    /// Virtual time with faults, in milliseconds.
    pub duration_ms: u64,
    /// Faults in that time.
    pub faults: u32,
    /// Kinds of faults that this seed has (bit set over [`crate::FaultKind`]'s order).
    pub kinds: u32,
    /// Frames lost, in a thousand.
    pub loss: u64,
    /// Frames sent twice, in a thousand.
    pub duplicates: u64,
    /// Frames that come again much later, in a thousand.
    pub replays: u64,
    /// Greatest usual delay of a frame, in microseconds.
    pub delay_us: u64,
    /// Usual time of a disk operation, in microseconds.
    pub disk_us: u64,
    /// Entries of a group in flight.
    pub pipeline: usize,
    /// A deliberate mistake.
    pub mutant: Mutant,
}

impl Profile {
    /// What `seed` draws.
    pub fn draw(seed: u64, scale: Scale) -> Profile {
        let mut random = Random::new(seed, "profile");
        let wide = matches!(scale, Scale::Wide(_));
        let partitions = match scale {
            Scale::Deep => random.between(1, 4) as u32,
            Scale::Wide(groups) => groups,
        };
        Profile {
            scale,
            nodes: if wide { 3 } else { random.pick(&[1, 3, 3, 3, 5]) },
            partitions,
            persisted: if wide { partitions / 2 } else { random.between(0, u64::from(partitions)) as u32 },
            clients: if wide { 20 } else { random.between(1, 6) as u32 },
            duration_ms: if wide { 15_000 } else { random.between(3_000, 20_000) },
            faults: if wide { random.between(1, 6) as u32 } else { random.between(0, 60) as u32 },
            kinds: random.number() as u32 | random.number() as u32,
            loss: random.pick(&[0, 0, 5, 30, 150]),
            duplicates: random.pick(&[0, 10, 100]),
            replays: random.pick(&[0, 0, 5]),
            delay_us: random.pick(&[300, 2_000, 20_000]),
            disk_us: random.pick(&[50, 500, 3_000]),
            pipeline: random.pick(&[1, 2, 4, 16]),
            mutant: Mutant::None,
        }
    }
}
