//! Breadth-first search through all states, so that the first violation found is one of the shortest.

use crate::message::Message;
use crate::protocol::{Action, Deed, Model};
use crate::safety::name;
use crate::state::State;
use std::fmt::Write;

/// What a search came to.
pub struct Outcome {
    /// Different states reached.
    pub states: usize,
    /// Steps from the first state to the farthest, or to the violation.
    pub depth: usize,
    /// The first violation, and the way to it for people.
    pub violation: Option<Violation>,
}

/// What went wrong, and how it comes to it.
pub struct Violation {
    pub what: String,
    pub steps: usize,
    pub trace: String,
}

/// The fingerprints of all states that were reached: open addressing, never more than half full; 0 is free.
struct Seen {
    slots: Vec<u64>,
    count: usize,
}

impl Seen {
    fn new() -> Seen {
        Seen { slots: vec![0; 1 << 16], count: 0 }
    }

    /// Whether `fingerprint` was not there yet.
    fn insert(&mut self, fingerprint: u64) -> bool {
        if self.count * 2 >= self.slots.len() {
            let old = std::mem::take(&mut self.slots);
            self.slots = vec![0; old.len() * 2];
            for kept in old.into_iter().filter(|kept| *kept != 0) {
                let at = self.place(kept);
                self.slots[at] = kept;
            }
        }
        let at = self.place(fingerprint);
        if self.slots[at] == fingerprint {
            return false;
        }
        self.slots[at] = fingerprint;
        self.count += 1;
        true
    }

    fn place(&self, fingerprint: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = fingerprint as usize & mask;
        while self.slots[at] != 0 && self.slots[at] != fingerprint {
            at = (at + 1) & mask;
        }
        at
    }
}

/// How each state was reached first: from which one, by which of its steps.
#[derive(Default)]
struct Ways {
    from: Vec<u32>,
    step: Vec<u16>,
}

impl Ways {
    fn push(&mut self, from: usize, step: usize) -> usize {
        self.from.push(u32::try_from(from).expect("fewer than 2^32 states"));
        self.step.push(u16::try_from(step).expect("fewer than 2^16 steps from one state"));
        self.from.len() - 1
    }

    /// The steps from the first state to `state`.
    fn to(&self, mut state: usize) -> Vec<u16> {
        let mut steps = Vec::new();
        while state != 0 {
            steps.push(self.step[state]);
            state = self.from[state] as usize;
        }
        steps.reverse();
        steps
    }
}

/// Looks at every state that `model` can reach, until one is wrong. Panics beyond `most` states: the bounds were chosen
/// badly.
///
/// `observe` sees every new state, and what led to it first.
pub fn search(model: &Model, most: usize, mut observe: impl FnMut(Deed, &State)) -> Outcome {
    let mut seen = Seen::new();
    let mut ways = Ways::default();
    let initial = model.initial();
    seen.insert(initial.fingerprint());
    let mut level = vec![(ways.push(0, 0), initial)];
    let mut following = Vec::new();
    let mut steps = Vec::new();
    let mut depth = 0;
    while !level.is_empty() {
        for (at, state) in &level {
            model.expand(state, &mut steps);
            for (nth, (action, next)) in steps.iter().enumerate() {
                if !seen.insert(next.fingerprint()) {
                    continue;
                }
                observe(action.deed, next);
                let reached = ways.push(*at, nth);
                if let Some(what) = model.violation(next) {
                    let way = ways.to(reached);
                    let violation = Violation { what, steps: way.len(), trace: trace(model, &way) };
                    return Outcome { states: seen.count, depth: depth + 1, violation: Some(violation) };
                }
                following.push((reached, *next));
            }
        }
        assert!(seen.count <= most, "more than {most} states, at depth {depth}: {:?}", model.config);
        level.clear();
        std::mem::swap(&mut level, &mut following);
        if !level.is_empty() {
            depth += 1;
        }
    }
    Outcome { states: seen.count, depth, violation: None }
}

/// Goes the way again and tells each step in a line.
fn trace(model: &Model, way: &[u16]) -> String {
    let mut text = String::new();
    let mut state = model.initial();
    let mut steps = Vec::new();
    for (nth, step) in way.iter().enumerate() {
        model.expand(&state, &mut steps);
        let (action, next) = steps[usize::from(*step)];
        let deed = tell(model, &state, &next, action);
        let after = next.replica(action.by).show(&model.logs);
        let _ = write!(text, "{:>4}. {deed:<58} {}: {after}", nth + 1, name(action.by));
        if next.committed != state.committed {
            let _ = write!(text, "; {} is committed", model.logs.show(next.committed));
        }
        text.push('\n');
        state = next;
    }
    text
}

fn tell(model: &Model, before: &State, after: &State, action: Action) -> String {
    let Action { by, deed } = action;
    let me = name(by);
    let replica = after.replica(by);
    let (view, log) = (replica.view, model.logs.show(replica.log));
    match deed {
        Deed::Crash => format!("{me} crashes and restarts"),
        Deed::Replace => format!("{me} crashes and restarts with an empty disk"),
        Deed::Suspect => format!("{me} would go to view {}, and says so", view + 1),
        Deed::Move { view } => format!("{me} goes to view {view}"),
        Deed::Vote => format!("{me} votes for view {view} with {log} of view {}", replica.log_view),
        Deed::Persist => format!("{me} makes view {view} durable"),
        Deed::Propose => format!("{me} proposes, and sends {log} in view {view}"),
        Deed::Flush => format!("{me} has {log} on disk"),
        Deed::Begin { with } => {
            let votes = &model.universe.votes_for[view as usize];
            let mut bit = 0;
            let mut counted = String::new();
            while let Some(found) = before.sent.next(votes, bit) {
                if let Message::Vote { from, log_view, log, .. } = model.universe.message(found)
                    && (from == with || from == by)
                {
                    let gap = if counted.is_empty() { "" } else { ", " };
                    let _ = write!(counted, "{gap}{}: {} of {log_view}", name(from), model.logs.show(log));
                }
                bit = found + 1;
            }
            format!("{me} begins view {view} on the votes {counted}")
        }
        Deed::RaiseLogView => format!("{me} notes log view {view} before it holds the log"),
        Deed::TakePart { of } => format!("{me} takes over a part of the log of view {of}"),
        Deed::Answer { to } => format!("{me} answers {}: view {view}, {log}", name(to)),
        Deed::Witness { to } => format!("{me} says to {}'s question that it is in view {view}", name(to)),
        Deed::Append => format!("{me} receives {log} in view {view}, and acknowledges"),
        Deed::Adopt { view } => format!("{me} receives {log} of view {view}, takes part, acknowledges"),
        Deed::Recover { view } => format!("{me} takes an answer: view {view}, {log}"),
    }
}
