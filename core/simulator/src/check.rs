//! What must hold after every step, whatever happened. What is compared against is kept outside the replicas.

use crate::node::Node;
use std::collections::BTreeMap;
use std::fmt;
use whippet_vsr::{EntryId, GroupId, Status};

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its name in docs/simulator.md.
    pub rule: &'static str,
    /// What was seen.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.text)
    }
}

pub(crate) fn violation<T>(rule: &'static str, text: impl Into<String>) -> Result<T, Violation> {
    Err(Violation { rule, text: text.into() })
}

/// What is known of a group from outside.
#[derive(Debug, Default)]
struct Ghost {
    /// Identity of each op that any replica executed.
    committed: BTreeMap<u64, EntryId>,
    /// Who led which view.
    primaries: BTreeMap<u32, u8>,
    /// Greatest promise of each node that its disk holds, and what it has executed since it started.
    promised: BTreeMap<u8, (u32, u32)>,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    groups: BTreeMap<GroupId, Ghost>,
    /// Ops that two replicas executed alike.
    pub(crate) compared: u64,
    pub(crate) views: u64,
}

impl Checker {
    /// Looks at every group of a node.
    pub(crate) fn check(&mut self, node: &Node) -> Result<(), Violation> {
        let Some(shard) = &node.shard else { return Ok(()) };
        for group in shard.groups() {
            let Some(replica) = shard.replica(group) else { continue };
            let ghost = self.groups.entry(group).or_default();
            let line = || replica.describe();
            // S1, S2: the identity of an op covers, by the chain of parents, everything before it.
            let (op, id) = (replica.applied().0, replica.applied_id());
            if op > 0 {
                match ghost.committed.get(&op) {
                    Some(known) if *known != id => {
                        return violation(
                            "S1 agreement",
                            format!("{} has executed another op {op} than others", line()),
                        );
                    }
                    Some(_) => self.compared += 1,
                    None => {
                        ghost.committed.insert(op, id);
                    }
                }
            }
            if replica.commit_max() > replica.head() && replica.is_primary() {
                return violation("S12 window", format!("{} leads and lacks committed entries", line()));
            }
            // S7: one primary a view.
            if replica.is_primary() {
                let view = replica.view().0;
                let first = *ghost.primaries.entry(view).or_insert_with(|| {
                    self.views += u64::from(view > 0);
                    node.id
                });
                if first != node.id {
                    return violation("S7 equivocation", format!("{}, and node {first} led that view before", line()));
                }
                // S8: it holds whatever was executed anywhere.
                let most = ghost.committed.last_key_value().map_or(0, |(op, _)| *op);
                let newest = ghost.primaries.last_key_value().is_some_and(|(newest, _)| *newest == view);
                if newest && replica.head().0 < most {
                    return violation("S8 leader completeness", format!("{}, and op {most} was executed", line()));
                }
            }
            // S6: promises only grow, across restarts.
            if let Some((view, log_view)) = replica.promised() {
                let known = ghost.promised.entry(node.id).or_insert((0, 0));
                if view.0 < known.0 || log_view.0 < known.1 {
                    return violation("S6 monotone", format!("{} had promised {known:?} before", line()));
                }
                *known = (view.0, log_view.0);
            }
            if replica.status() == Status::Recovering && replica.is_primary() {
                return violation("S10 silence", line());
            }
        }
        Ok(())
    }
}
