//! Seeds, a few without optimisation and more with it. The many that must pass before a change is taken run with the optimised
//! program, in `sdk-tests`.

#![allow(clippy::print_stdout, reason = "how much a run saw is worth a line in its output")]

use std::collections::BTreeSet;
use whippet_simulator::{Counters, Profile, Scale, run};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Unoptimised runs take some ten times as long.
fn scaled(optimised: u64, unoptimised: u64) -> u64 {
    if cfg!(debug_assertions) { unoptimised } else { optimised }
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
    let total = run_seeds(number("WHIPPET_FIRST_SEED", 1), number("WHIPPET_DEEP_SEEDS", scaled(200, 6)), Scale::Deep);
    println!("{total:?}");
}

#[test]
fn wide_seeds_break_no_rule() {
    let total =
        run_seeds(number("WHIPPET_FIRST_SEED", 1), number("WHIPPET_WIDE_SEEDS", scaled(2, 1)), Scale::Wide(1000));
    println!("{total:?}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 500..500 + number("WHIPPET_TWICE_SEEDS", scaled(20, 2)) {
        let profile = Profile::draw(seed, Scale::Deep);
        let [one, other] = [(); 2].map(|()| run(seed, &profile, &BTreeSet::new()));
        assert_eq!(one.trace_hash, other.trace_hash, "seed {seed}");
        assert_eq!(
            (one.counters, one.time_ns, one.status),
            (other.counters, other.time_ns, other.status),
            "seed {seed}"
        );
    }
    let hashes: BTreeSet<u64> =
        (500..505).map(|seed| run(seed, &Profile::draw(seed, Scale::Deep), &BTreeSet::new()).trace_hash).collect();
    assert_eq!(hashes.len(), 5, "other seeds are other runs");
}
