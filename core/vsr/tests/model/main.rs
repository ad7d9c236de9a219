//! A small model of votes and recovery, all states of which are looked at.
//!
//! Three replicas, a log of one or two entries, a few views and a few crashes; messages that are never lost for good and
//! that may arrive any number of times, at any time, in any order. In every state what was committed must still stand. The
//! model is written from the rules, not from the replica's code: it says whether the rules are right, and what each is for,
//! since without it the search finds the way to lose an entry. It knows whole logs only: no slots of which a replica can't
//! say what they held, no snapshots, no clients.
//!
//! `WHIPPET_MODEL_DEEP=1` also searches larger bounds: about ten minutes, and up to two gigabytes of memory.

#![allow(clippy::print_stdout, reason = "how much a search saw, and the way to a violation, are what one reads here")]

mod delivery;
mod logs;
mod message;
mod protocol;
mod rules;
mod safety;
mod search;
mod state;

use message::primary;
use protocol::{Deed, Model};
use rules::{Broken, Config, Level, Suspicion};
use search::{Outcome, Violation, search};
use state::{State, Status};
use std::collections::BTreeSet;
use std::time::Instant;

/// States of one search in the bounds that always run.
const MOST: usize = 1_500_000;
const MOST_DEEP: usize = 120_000_000;

/// What happened in some state.
#[derive(Default)]
struct Coverage {
    deeds: Vec<std::mem::Discriminant<Deed>>,
    /// An entry committed in this view, all slots committed, and a view begun after that.
    committed_in: [bool; 4],
    full: bool,
    led_after_commit: bool,
}

impl Coverage {
    fn see(&mut self, model: &Model, deed: Deed, state: &State) {
        let deed = std::mem::discriminant(&deed);
        if !self.deeds.contains(&deed) {
            self.deeds.push(deed);
        }
        let committed = model.logs.len(state.committed);
        if committed == 0 {
            return;
        }
        self.committed_in[usize::from(state.commit_views[0])] = true;
        self.full |= committed == model.config.slots;
        self.led_after_commit |= (0..3).any(|id| {
            let replica = state.replica(id);
            replica.status == Status::Normal && primary(replica.view) == id && replica.view > state.commit_views[0]
        });
    }

    fn saw(&self, deed: Deed) -> bool {
        self.deeds.contains(&std::mem::discriminant(&deed))
    }
}

fn deep() -> bool {
    std::env::var("WHIPPET_MODEL_DEEP").is_ok_and(|value| value == "1")
}

fn run(config: Config, most: usize) -> (Outcome, Coverage) {
    let model = Model::new(config);
    let mut coverage = Coverage::default();
    let start = Instant::now();
    let outcome = search(&model, most, |deed, state| coverage.see(&model, deed, state));
    let seconds = start.elapsed().as_secs_f64();
    println!("{config:?}\n  {} states, {} steps deep, {seconds:.1} s", outcome.states, outcome.depth);
    (outcome, coverage)
}

/// Looks at all states and finds nothing wrong in at least `floor` of them.
fn exhaust(config: Config, floor: usize, most: usize) {
    let (outcome, coverage) = run(config, most);
    if let Some(Violation { what, trace, .. }) = outcome.violation {
        panic!("{what}\n{trace}");
    }
    assert!(outcome.states >= floor, "only {} states: the model does less than it did", outcome.states);
    for view in 0..config.views {
        assert!(coverage.committed_in[usize::from(view)], "nothing was ever committed in view {view}");
    }
    assert!(coverage.full && coverage.led_after_commit, "no full log, or no view after a commit");
    assert_eq!(coverage.saw(Deed::Crash), config.crashes > 0);
    assert_eq!(coverage.saw(Deed::Replace), config.replacements > 0);
    let asks = config.replacements > 0 || (config.crashes > 0 && config.level == Level::Replicated);
    assert_eq!(coverage.saw(Deed::Recover { view: 0 }), asks);
    assert_eq!(coverage.saw(Deed::Flush), config.level == Level::Persisted);
    for deed in [Deed::Vote, Deed::Propose, Deed::Begin { with: 0 }, Deed::Append, Deed::Adopt { view: 0 }] {
        assert!(coverage.saw(deed), "{deed:?} never happened");
    }
    assert_eq!(coverage.saw(Deed::TakePart { of: 0 }), config.piecewise);
}

/// Finds the shortest way to lose an entry, which takes `steps` steps.
fn caught(config: Config, steps: usize, most: usize) {
    let (outcome, _) = run(config, most);
    let Violation { what, steps: found, trace } =
        outcome.violation.expect("the broken rule is not missed by any state");
    println!("{trace}  {what}\n");
    assert_eq!(found, steps, "the shortest way is another one now");
}

#[test]
fn replicated_log_never_loses_what_was_committed() {
    let sound = |suspicion, views, slots, crashes| Config::sound(Level::Replicated, suspicion, views, slots, crashes);
    exhaust(sound(Suspicion::Any, 3, 1, 3), 60_000, MOST);
    exhaust(sound(Suspicion::Any, 4, 1, 2), 280_000, MOST);
    exhaust(sound(Suspicion::Any, 3, 2, 2), 160_000, MOST);
    exhaust(sound(Suspicion::Quorum, 3, 1, 1), 140_000, MOST);
    if deep() {
        exhaust(sound(Suspicion::Any, 4, 1, 6), 1_000_000, MOST_DEEP);
        exhaust(sound(Suspicion::Any, 3, 2, 4), 400_000, MOST_DEEP);
        exhaust(sound(Suspicion::Quorum, 3, 1, 3), 650_000, MOST_DEEP);
        exhaust(sound(Suspicion::Eager, 4, 1, 2), 1_000_000, MOST_DEEP);
    }
}

#[test]
fn persisted_log_never_loses_what_was_committed() {
    let sound = |suspicion, views, slots, crashes| Config::sound(Level::Persisted, suspicion, views, slots, crashes);
    exhaust(sound(Suspicion::Any, 3, 1, 3), 80_000, MOST);
    exhaust(sound(Suspicion::Any, 4, 1, 1), 200_000, MOST);
    exhaust(sound(Suspicion::Any, 3, 2, 1), 140_000, MOST);
    exhaust(sound(Suspicion::Quorum, 3, 1, 1), 230_000, MOST);
    if deep() {
        exhaust(sound(Suspicion::Any, 4, 1, 3), 700_000, MOST_DEEP);
        exhaust(sound(Suspicion::Any, 3, 2, 3), 500_000, MOST_DEEP);
        exhaust(sound(Suspicion::Any, 4, 2, 1), 1_000_000, MOST_DEEP);
        exhaust(sound(Suspicion::Quorum, 3, 1, 3), 900_000, MOST_DEEP);
        exhaust(sound(Suspicion::Eager, 4, 1, 2), 1_600_000, MOST_DEEP);
    }
}

/// A replica whose disk was replaced may have voted for any view that a quorum had suspected. Two others that are in view v
/// vouch for it that this is v + 1 at most, but only if nobody suspects from a view that a crash could make it forget.
#[test]
fn replaced_disk_loses_nothing_if_a_quorum_proves_the_view() {
    for (level, floor) in [(Level::Replicated, 200_000), (Level::Persisted, 440_000)] {
        let sound = |views, crashes| Config::sound(level, Suspicion::Durable, views, 1, crashes).replacing(1);
        exhaust(sound(3, 1), floor, MOST);
        if deep() {
            exhaust(sound(4, 1), 3_000_000, MOST_DEEP);
        }
    }
}

/// The three ways in which a replaced disk loses an entry. For the last, B and C suspect view 2 from a view 1 that no disk
/// knows; after C's crash a quorum is in view 0 again, and proves it, while B's lost disk held a vote for view 3.
#[test]
fn replaced_disk_loses_an_entry_without_each_part_of_the_proof() {
    for (level, empty, unproven) in [(Level::Replicated, 11, 15), (Level::Persisted, 12, 16)] {
        caught(Config::broken(Broken::EmptyDisk, level, 2, 1, 0).replacing(1), empty, MOST);
        let eager = |config| Config { suspicion: Suspicion::Eager, ..config };
        caught(eager(Config::broken(Broken::UnprovenView, level, 3, 1, 0).replacing(1)), unproven, MOST);
        if deep() {
            caught(eager(Config::broken(Broken::Nothing, level, 4, 1, 1).replacing(1)), 22, MOST_DEEP);
        }
    }
}

#[test]
fn recovery_of_the_paper_loses_an_entry() {
    caught(Config::broken(Broken::PaperRecovery, Level::Replicated, 2, 1, 2), 15, MOST);
}

#[test]
fn answer_to_an_earlier_incarnation_loses_an_entry() {
    caught(Config::broken(Broken::AnyAnswerRecovers, Level::Replicated, 2, 1, 2), 14, MOST);
}

#[test]
fn start_view_from_before_the_restart_loses_an_entry() {
    caught(Config::broken(Broken::StaleStartView, Level::Replicated, 2, 1, 1), 11, MOST);
}

#[test]
fn vote_without_memory_loses_an_entry() {
    caught(Config::broken(Broken::RecoveringVotes, Level::Replicated, 2, 1, 1), 10, MOST);
}

#[test]
fn vote_before_its_promise_is_durable_loses_an_entry() {
    caught(Config::broken(Broken::VoteBeforeDurable, Level::Replicated, 2, 1, 1), 11, MOST);
    caught(Config::broken(Broken::VoteBeforeDurable, Level::Persisted, 2, 1, 1), 11, MOST);
}

#[test]
fn log_view_raised_before_the_log_is_held_loses_an_entry() {
    caught(Config::broken(Broken::LogViewEarly, Level::Replicated, 3, 1, 0), 16, MOST);
    caught(Config::broken(Broken::LogViewEarly, Level::Persisted, 3, 1, 0), 17, MOST);
}

#[test]
fn primary_that_resumes_its_view_loses_an_entry() {
    caught(Config::broken(Broken::ResumePrimary, Level::Replicated, 2, 1, 1), 3, MOST);
    caught(Config::broken(Broken::ResumePrimary, Level::Persisted, 2, 1, 1), 4, MOST);
}

#[test]
fn longest_log_whatever_its_view_loses_an_entry() {
    caught(Config::broken(Broken::LongestLogWins, Level::Replicated, 3, 2, 0), 18, MOST);
    caught(Config::broken(Broken::LongestLogWins, Level::Persisted, 3, 2, 0), 19, MOST);
}

/// All that can be seen of the replicas and of what is committed, in any state.
fn visible(config: Config) -> BTreeSet<u64> {
    let model = Model::new(config);
    let mut all = BTreeSet::from([model.initial().visible()]);
    let outcome = search(&model, MOST, |_, state| {
        all.insert(state.visible());
    });
    assert!(outcome.violation.is_none());
    println!("{config:?}\n  {} states, {} of them differ visibly", outcome.states, all.len());
    all
}

#[test]
fn messages_left_out_of_states_had_no_effect() {
    for level in [Level::Replicated, Level::Persisted] {
        for (views, slots, crashes) in [(3, 1, 1), (2, 2, 2)] {
            let config = Config::sound(level, Suspicion::Any, views, slots, crashes);
            let short = visible(config);
            assert!(short.len() > 500);
            assert!(short == visible(Config { forget: false, ..config }), "{config:?}");
        }
    }
}

#[test]
fn rules_of_suspicion_allow_no_more_than_was_said_of_them() {
    for level in [Level::Replicated, Level::Persisted] {
        let of = |suspicion| visible(Config::sound(level, suspicion, 3, 1, 1));
        let quorum = of(Suspicion::Quorum);
        assert!(quorum == of(Suspicion::Eager));
        assert!(of(Suspicion::Durable).is_subset(&quorum));
        assert!(quorum.is_subset(&of(Suspicion::Any)));
    }
}
