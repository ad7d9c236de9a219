//! Seeds that run in CI.

#![allow(clippy::print_stdout, reason = "how much a run saw is worth a line in its output")]

use std::collections::BTreeSet;
use whippet_simulator::{Counters, Profile, Scale, run};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn run_seeds(first: u64, count: u64, scale: Scale) -> Counters {
    let mut total = Counters::default();
    for seed in first..first + count {
        let profile = Profile::draw(seed, scale);
        let outcome = run(seed, &profile, &BTreeSet::new());
        if let Some(violation) = outcome.violation {
            panic!("seed {seed} {scale:?}: {violation}\n{}\n{profile:?}", outcome.status);
        }
        total.add(&outcome.counters);
    }
    total
}

#[test]
fn deep_seeds_break_no_rule() {
    let total = run_seeds(number("WHIPPET_FIRST_SEED", 1), number("WHIPPET_DEEP_SEEDS", 200), Scale::Deep);
    println!("{total:?}");
}

#[test]
fn one_seed() {
    let Some(seed) = std::env::var("WHIPPET_SEED").ok().and_then(|text| text.parse().ok()) else { return };
    let outcome = run(seed, &Profile::draw(seed, Scale::Deep), &BTreeSet::new());
    for fault in &outcome.faults {
        println!("{fault}");
    }
    println!("{:?}\n{}\n{:?}", outcome.violation, outcome.status, outcome.counters);
}
