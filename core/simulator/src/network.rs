//! Links between nodes: delay, loss, duplication, reordering, replays much later, cuts.

use crate::profile::Profile;
use crate::random::Random;
use std::collections::BTreeMap;

const US: u64 = 1_000;
/// How late a replayed frame may come, in nanoseconds.
const REPLAY_NS: u64 = 30_000_000_000;

/// All links.
#[derive(Debug)]
pub(crate) struct Network {
    loss: u64,
    duplicates: u64,
    replays: u64,
    delay_us: u64,
    links: BTreeMap<(u8, u8), Random>,
    /// Links that are cut, and until when.
    cuts: Vec<(u8, u8, u64)>,
    /// Faults are over.
    pub(crate) calm: bool,
    pub(crate) lost: u64,
    pub(crate) delivered: u64,
}

impl Network {
    pub(crate) fn new(seed: u64, profile: &Profile) -> Network {
        let nodes = profile.nodes;
        let links = (0..nodes)
            .flat_map(|from| (0..nodes).map(move |to| (from, to)))
            .map(|(from, to)| ((from, to), Random::new(seed, &format!("link {from} {to}"))))
            .collect();
        Network {
            loss: profile.loss,
            duplicates: profile.duplicates,
            replays: profile.replays,
            delay_us: profile.delay_us,
            links,
            cuts: Vec::new(),
            calm: false,
            lost: 0,
            delivered: 0,
        }
    }

    pub(crate) fn cut(&mut self, from: u8, to: u8, until_ns: u64) {
        self.cuts.push((from, to, until_ns));
    }

    pub(crate) fn heal(&mut self) {
        self.cuts.clear();
        self.calm = true;
    }

    /// Delays after which a frame sent now arrives; none when it is lost.
    pub(crate) fn send(&mut self, from: u8, to: u8, now_ns: u64) -> Vec<u64> {
        self.cuts.retain(|(_, _, until)| *until > now_ns);
        if self.cuts.iter().any(|(a, b, _)| (*a, *b) == (from, to)) {
            self.lost += 1;
            return Vec::new();
        }
        let link = self.links.get_mut(&(from, to)).expect("every pair of nodes has a link");
        let usual = if self.calm { self.delay_us.min(1_000) } else { self.delay_us };
        let mut delay = || US * (50 + link.below(usual) * (1 + link.below(3)) / 3);
        if self.calm {
            self.delivered += 1;
            return vec![delay()];
        }
        let mut delays = vec![delay()];
        let again = delay();
        if link.chance(self.duplicates) {
            delays.push(again);
        }
        if link.chance(self.replays) {
            delays.push(link.below(REPLAY_NS));
        }
        if link.chance(self.loss) {
            self.lost += 1;
            delays.remove(0);
        }
        self.delivered += delays.len() as u64;
        delays
    }
}
