//! Deliberate mistakes: each must be caught within its number of seeds, or the simulator is too weak.
//!
//! `cargo test --release -p whippet-simulator --features mutants --test mutants -- --nocapture` prints after how many.

#![allow(clippy::print_stdout, reason = "the table of docs/simulator.md comes from here")]

use std::collections::BTreeSet;
use whippet_simulator::{Profile, Scale, run};
use whippet_vsr::Mutant;

/// Mistakes that take a schedule which seeds do not find soon, or that other defences make harmless; scripts and unit tests of
/// `whippet-vsr` catch them.
const SCRIPTED: [Mutant; 5] = [
    Mutant::AckByNumber,
    Mutant::AckInOlderView,
    Mutant::AnyAnswerRecovers,
    Mutant::SilenceIsNack,
    Mutant::OneSuspicionIsEnough,
];

#[test]
fn every_mutant_is_killed() {
    let limit: u64 = std::env::var("WHIPPET_MUTANT_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut alive = Vec::new();
    for mutant in Mutant::ALL {
        if SCRIPTED.contains(&mutant) {
            continue;
        }
        let found = (1..=limit).find_map(|seed| {
            let profile = Profile { mutant, nodes: 3, ..Profile::draw(seed, Scale::Deep) };
            run(seed, &profile, &BTreeSet::new()).violation.map(|violation| (seed, violation))
        });
        match found {
            Some((seed, violation)) => {
                let text: String = violation.to_string().chars().take(110).collect();
                println!("| {mutant:?} | {seed} | {text} |");
            }
            None => alive.push(mutant),
        }
    }
    std::panic::set_hook(hook);
    assert!(alive.is_empty(), "not noticed in {limit} seeds: {alive:?}");
}
