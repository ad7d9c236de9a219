//! Which log a view begins with: a pure function of the votes.
//!
//! Every vote's log is one unbroken chain, so the merge chooses a whole log and never mixes two. Votes without a damaged
//! record decide alone if they are enough: any view-change quorum of them meets every replication quorum. Of the votes that
//! count, those with the greatest log view are eligible, and among these the greatest head wins. What the chosen log does not
//! hold is dropped, and that takes proof:
//!
//! | an op above the chosen head, by the votes | verdict |
//! | --- | --- |
//! | an eligible vote *has* it | cannot be: its head would have been chosen |
//! | a nack quorum of votes *never* had it: neither readable nor damaged | dropped |
//! | otherwise (some vote's slot is *unknown*) | wait for more votes |

use crate::id::{EntryId, OpNumber, Quorums, ReplicaId, ViewNumber};
use crate::message::Vote;
use crate::mutant::Mutant;
use std::collections::BTreeMap;

/// The log that a view begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Whose vote holds it.
    pub source: ReplicaId,
    /// Its log view.
    pub log_view: ViewNumber,
    /// Its last op.
    pub head: OpNumber,
    /// Identity of the last op.
    pub head_id: EntryId,
    /// Highest commit number of any vote; at most `head`.
    pub commit: OpNumber,
}

/// Why no log can be chosen yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecided {
    /// Fewer votes than a view change needs.
    Votes {
        /// How many more.
        missing: u8,
    },
    /// An op may have been acknowledged by a voter that can't read it any more, and too few others deny it.
    Unknown {
        /// The op.
        op: OpNumber,
    },
    /// No vote reaches the commit number of another one.
    Commit {
        /// The commit number.
        commit: OpNumber,
    },
}

/// Chooses the log for a view, or tells what is missing. `me` wins ties, then the smallest replica.
///
/// # Errors
/// [`Undecided`]; more votes may help.
pub fn choose(
    votes: &BTreeMap<ReplicaId, Vote>,
    replica_count: u8,
    me: ReplicaId,
    mutant: Mutant,
) -> Result<Chosen, Undecided> {
    let quorums = Quorums::of(replica_count);
    if votes.len() < usize::from(quorums.view_change) {
        return Err(Undecided::Votes { missing: quorums.view_change - votes.len() as u8 });
    }
    let clean: BTreeMap<ReplicaId, &Vote> =
        votes.iter().filter(|(_, vote)| vote.unknown_to == vote.head).map(|(replica, vote)| (*replica, vote)).collect();
    let counted = if clean.len() >= usize::from(quorums.view_change) {
        clean
    } else {
        votes.iter().map(|(replica, vote)| (*replica, vote)).collect()
    };
    let greatest = counted.values().map(|vote| vote.log_view).max().expect("a quorum is not empty");
    let eligible = |vote: &Vote| mutant.is(Mutant::LongestLogWins) || vote.log_view == greatest;
    let head = counted.values().filter(|vote| eligible(vote)).map(|vote| vote.head).max().expect("one is eligible");
    let commit = votes.values().map(|vote| vote.commit).max().expect("a quorum is not empty");
    let (source, vote) = counted
        .iter()
        .filter(|(_, vote)| eligible(vote) && vote.head == head)
        .min_by_key(|(replica, _)| (**replica != me, **replica))
        .expect("one has the greatest head");
    let doubted = counted.values().any(|vote| vote.unknown_to > vote.head && vote.unknown_to > head);
    if doubted && !mutant.is(Mutant::SilenceIsNack) {
        let denials = counted.values().filter(|vote| vote.head <= head && vote.unknown_to <= head).count();
        if denials < usize::from(quorums.nack) {
            return Err(Undecided::Unknown { op: head.next() });
        }
    }
    if commit > head {
        return Err(Undecided::Commit { commit });
    }
    Ok(Chosen { source: *source, log_view: vote.log_view, head, head_id: vote.head_id, commit })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Suffix;

    fn vote(log_view: u32, head: u64, unknown: u64, commit: u64) -> Vote {
        Vote {
            log_view: ViewNumber(log_view),
            head: OpNumber(head),
            head_id: EntryId(u128::from(log_view) << 64 | u128::from(head)),
            unknown_to: OpNumber(head + unknown),
            commit: OpNumber(commit),
            suffix: Suffix { floor: OpNumber(head), ids: Vec::new() },
        }
    }

    fn pick(votes: &[(u8, Vote)], n: u8) -> Result<Chosen, Undecided> {
        choose(&votes.iter().map(|(r, v)| (ReplicaId(*r), v.clone())).collect(), n, ReplicaId(1), Mutant::None)
    }

    #[test]
    fn the_greatest_log_view_wins_over_the_longest_log() {
        let chosen = pick(&[(0, vote(1, 9, 0, 3)), (1, vote(2, 5, 0, 4))], 3).expect("decided");
        assert_eq!((chosen.source, chosen.head, chosen.commit), (ReplicaId(1), OpNumber(5), OpNumber(4)));
        assert_eq!(pick(&[(0, vote(1, 9, 0, 3))], 3), Err(Undecided::Votes { missing: 1 }));
    }

    #[test]
    fn an_op_that_a_voter_may_have_acknowledged_is_dropped_only_by_a_nack_quorum() {
        let damaged = vote(1, 4, 1, 3);
        assert_eq!(
            pick(&[(0, damaged.clone()), (1, vote(1, 4, 0, 3))], 3),
            Err(Undecided::Unknown { op: OpNumber(5) })
        );
        let decided =
            pick(&[(0, damaged.clone()), (1, vote(1, 4, 0, 3)), (2, vote(1, 4, 0, 3))], 3).expect("two deny it");
        assert_eq!(decided.head, OpNumber(4));
        let held = pick(&[(0, damaged), (2, vote(1, 5, 0, 3))], 3).expect("another one has it");
        assert_eq!((held.source, held.head), (ReplicaId(2), OpNumber(5)));
    }

    /// What really happened in a group of three, by brute force: which ops of a log of up to three were acknowledged by whom
    /// in the last view, and what each replica still holds. Every choice from every set of truthful votes keeps what a quorum
    /// acknowledged.
    #[test]
    fn no_choice_from_truthful_votes_drops_what_was_committed() {
        let (mut decided, mut waited) = (0u32, 0u32);
        // Per replica: log view 1 or 2, acknowledged up to 0..=3, and of that readable up to 0..=acknowledged.
        let states: Vec<(u32, u64, u64)> = (1..=2u32)
            .flat_map(|view| (0..=3u64).flat_map(move |acked| (0..=acked).map(move |held| (view, acked, held))))
            .collect();
        for a in &states {
            for b in &states {
                for c in &states {
                    let replicas = [a, b, c];
                    let greatest = replicas.iter().map(|r| r.0).max().expect("three");
                    // Committed in the greatest log view: acknowledged there by two.
                    let mut acked: Vec<u64> = replicas.iter().filter(|r| r.0 == greatest).map(|r| r.1).collect();
                    acked.sort_unstable_by(|x, y| y.cmp(x));
                    let committed = acked.get(1).copied().unwrap_or(0);
                    for set in [[0, 1].as_slice(), &[0, 2], &[1, 2], &[0, 1, 2]] {
                        let votes: BTreeMap<ReplicaId, Vote> = set
                            .iter()
                            .map(|at| {
                                let (view, acked, held) = *replicas[*at];
                                (ReplicaId(*at as u8), vote(view, held, acked - held, 0))
                            })
                            .collect();
                        let top = votes.values().map(|vote| vote.log_view.0).max().expect("votes");
                        match choose(&votes, 3, ReplicaId(0), Mutant::None) {
                            Ok(chosen) if top == greatest => {
                                decided += 1;
                                assert!(chosen.head.0 >= committed, "{replicas:?} {set:?}: {chosen:?}");
                            }
                            // No vote of the view in which it was acknowledged: then it was acknowledged by one at most.
                            Ok(_) => assert_eq!(committed, 0, "{replicas:?} {set:?}"),
                            Err(_) => waited += 1,
                        }
                    }
                }
            }
        }
        assert!(decided > 8_000 && waited > 1_000, "{decided} decided, {waited} waited");
    }

    #[test]
    fn counting_silence_as_denial_is_caught_by_the_rule_above() {
        let votes: BTreeMap<ReplicaId, Vote> =
            [(ReplicaId(0), vote(1, 4, 1, 3)), (ReplicaId(1), vote(1, 4, 0, 3))].into_iter().collect();
        let chosen = choose(&votes, 3, ReplicaId(1), Mutant::SilenceIsNack);
        assert_eq!(chosen.is_ok(), cfg!(feature = "mutants"), "the switch works only in builds that are made for it");
    }
}
