//! In which order operations on one file may run.
//!
//! Writes, reads, allocations and syncs of a file may overlap, with two exceptions: a write waits for a running write to the
//! same bytes, and a file has one running sync at a time (the kernel reports a lost write to one of them only). Truncate,
//! replace and remove have the file to themselves, and removing a group has the whole group. What has to wait keeps its
//! place: nothing that was submitted later on the same file overtakes it, except that a waiting sync holds up nobody but
//! those that want the file to themselves.

use crate::{FileName, GroupDirectory, StorageEffect, StorageOp};
use std::collections::{BTreeMap, VecDeque};

/// What an operation occupies while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Reads and allocations.
    Shared(FileName),
    /// The bytes from the first number up to the second.
    Write(FileName, u64, u64),
    Sync(FileName),
    /// The file for itself.
    Whole(FileName),
    /// All files of the group.
    Group(GroupDirectory),
}

impl Claim {
    pub(crate) fn of(op: &StorageOp) -> Claim {
        match *op {
            StorageOp::Write { file, position, ref chunks } => {
                Claim::Write(file, position, position.saturating_add(total(chunks)))
            }
            StorageOp::Sync { file } => Claim::Sync(file),
            StorageOp::Read { file, .. } | StorageOp::Allocate { file, .. } => Claim::Shared(file),
            StorageOp::Replace { file, .. } | StorageOp::Truncate { file, .. } | StorageOp::Remove { file } => {
                Claim::Whole(file)
            }
            StorageOp::RemoveGroup { group } => Claim::Group(group),
        }
    }

    fn file(&self) -> Option<FileName> {
        match *self {
            Claim::Shared(file) | Claim::Write(file, ..) | Claim::Sync(file) | Claim::Whole(file) => Some(file),
            Claim::Group(_) => None,
        }
    }
}

/// Bytes of all chunks.
pub(crate) fn total(chunks: &[bytes::Bytes]) -> u64 {
    chunks.iter().map(|chunk| chunk.len() as u64).sum()
}

/// Running and waiting operations of one file.
#[derive(Debug, Default)]
struct Lane {
    /// Running reads, allocations and writes.
    shared: usize,
    syncing: bool,
    whole: bool,
    /// Ranges of running writes.
    writes: Vec<(u64, u64)>,
    /// Syncs that wait for the running one.
    syncs: VecDeque<StorageEffect>,
    /// Everything behind an operation that has to wait, in order of submission.
    queue: VecDeque<StorageEffect>,
}

impl Lane {
    fn is_idle(&self) -> bool {
        self.shared == 0 && !self.syncing && !self.whole && self.syncs.is_empty() && self.queue.is_empty()
    }

    fn may_start(&self, claim: &Claim) -> bool {
        !self.whole
            && match *claim {
                Claim::Shared(_) => true,
                Claim::Write(_, start, end) => !self.writes.iter().any(|&(from, to)| start < to && from < end),
                Claim::Sync(_) => !self.syncing,
                Claim::Whole(_) => self.shared == 0 && !self.syncing && self.syncs.is_empty(),
                Claim::Group(_) => unreachable!("groups have no lane"),
            }
    }

    fn occupy(&mut self, claim: &Claim) {
        match *claim {
            Claim::Shared(_) => self.shared += 1,
            Claim::Write(_, start, end) => {
                self.shared += 1;
                self.writes.push((start, end));
            }
            Claim::Sync(_) => self.syncing = true,
            Claim::Whole(_) => self.whole = true,
            Claim::Group(_) => unreachable!("groups have no lane"),
        }
    }

    fn vacate(&mut self, claim: &Claim) {
        match *claim {
            Claim::Shared(_) => self.shared -= 1,
            Claim::Write(_, start, end) => {
                self.shared -= 1;
                let at = self
                    .writes
                    .iter()
                    .position(|range| *range == (start, end))
                    .expect("a running write has its range here");
                self.writes.swap_remove(at);
            }
            Claim::Sync(_) => self.syncing = false,
            Claim::Whole(_) => self.whole = false,
            Claim::Group(_) => unreachable!("groups have no lane"),
        }
    }

    /// Starts an operation that is at the front, or keeps it.
    fn admit(&mut self, effect: StorageEffect) -> Option<StorageEffect> {
        let claim = Claim::of(&effect.op);
        if self.queue.is_empty() && self.may_start(&claim) {
            self.occupy(&claim);
            return Some(effect);
        }
        if self.queue.is_empty() && !self.whole && matches!(claim, Claim::Sync(_)) {
            self.syncs.push_back(effect);
        } else {
            self.queue.push_back(effect);
        }
        None
    }

    /// Moves what may run now to `released`.
    fn release(&mut self, released: &mut VecDeque<StorageEffect>) {
        loop {
            if !self.syncing
                && !self.whole
                && let Some(sync) = self.syncs.pop_front()
            {
                self.syncing = true;
                released.push_back(sync);
            }
            let Some(front) = self.queue.front() else { return };
            let claim = Claim::of(&front.op);
            let starts = self.may_start(&claim);
            let steps_aside = !self.whole && matches!(claim, Claim::Sync(_));
            if !starts && !steps_aside {
                return;
            }
            let Some(front) = self.queue.pop_front() else { return };
            if starts {
                self.occupy(&claim);
                released.push_back(front);
            } else {
                self.syncs.push_back(front);
            }
        }
    }
}

/// Operations of one group's files, and the removal of the group among them.
#[derive(Debug, Default)]
struct GroupLane {
    /// Operations that were let through to their file's lane and have not ended.
    inside: usize,
    removing: bool,
    /// A removal that waits, and everything behind it.
    behind: VecDeque<StorageEffect>,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Order {
    lanes: BTreeMap<FileName, Lane>,
    groups: BTreeMap<GroupDirectory, GroupLane>,
}

impl Order {
    /// Takes an operation in. Returned, it runs from now on, until [`Order::finish`]; otherwise it waits.
    pub(crate) fn admit(&mut self, effect: StorageEffect) -> Option<StorageEffect> {
        match Claim::of(&effect.op) {
            Claim::Group(group) => {
                let lane = self.groups.entry(group).or_default();
                if lane.inside == 0 && !lane.removing && lane.behind.is_empty() {
                    lane.removing = true;
                    return Some(effect);
                }
                lane.behind.push_back(effect);
                None
            }
            Claim::Shared(file) | Claim::Write(file, ..) | Claim::Sync(file) | Claim::Whole(file) => {
                if let Some(group) = file.group() {
                    let lane = self.groups.entry(group).or_default();
                    if lane.removing || !lane.behind.is_empty() {
                        lane.behind.push_back(effect);
                        return None;
                    }
                    lane.inside += 1;
                }
                self.lanes.entry(file).or_default().admit(effect)
            }
        }
    }

    /// Ends a running operation; what may run now is added to `released` and counts as running.
    pub(crate) fn finish(&mut self, claim: &Claim, released: &mut VecDeque<StorageEffect>) {
        let group = match claim {
            Claim::Group(group) => {
                self.groups.get_mut(group).expect("a running removal has a lane").removing = false;
                Some(*group)
            }
            _ => {
                let file = claim.file().expect("all but removals of groups have a file");
                let lane = self.lanes.get_mut(&file).expect("a running operation has a lane");
                lane.vacate(claim);
                lane.release(released);
                if lane.is_idle() {
                    self.lanes.remove(&file);
                }
                if let Some(group) = file.group() {
                    self.groups.get_mut(&group).expect("a running operation has its group's lane").inside -= 1;
                }
                file.group()
            }
        };
        if let Some(group) = group {
            self.release_group(group, released);
        }
    }

    /// Operations that wait.
    #[cfg(feature = "test-util")]
    pub(crate) fn waiting(&self) -> usize {
        let in_lanes: usize = self.lanes.values().map(|lane| lane.syncs.len() + lane.queue.len()).sum();
        in_lanes + self.groups.values().map(|group| group.behind.len()).sum::<usize>()
    }

    fn release_group(&mut self, group: GroupDirectory, released: &mut VecDeque<StorageEffect>) {
        let Some(lane) = self.groups.get_mut(&group) else { return };
        if lane.inside > 0 || lane.removing {
            return;
        }
        if lane.behind.is_empty() {
            self.groups.remove(&group);
            return;
        }
        // Admitting again stops by itself at the next removal: the rest lines up behind it as before.
        for effect in std::mem::take(&mut lane.behind) {
            released.extend(self.admit(effect));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StorageTicket;
    use bytes::Bytes;

    const GROUP: GroupDirectory = GroupDirectory { number: 3, life: 9 };
    const FILE: FileName = FileName::Segment { group: GROUP, first_op: 1 };
    const OTHER: FileName = FileName::Frontier { group: GROUP };

    struct Story {
        order: Order,
        released: VecDeque<StorageEffect>,
        claims: BTreeMap<u64, Claim>,
    }

    impl Story {
        fn new() -> Story {
            Story { order: Order::default(), released: VecDeque::new(), claims: BTreeMap::new() }
        }

        /// Whether the operation runs at once.
        fn submit(&mut self, ticket: u64, op: StorageOp) -> bool {
            self.claims.insert(ticket, Claim::of(&op));
            self.order.admit(StorageEffect { ticket: StorageTicket(ticket), op }).is_some()
        }

        /// Ends an operation; which ones run from now on.
        fn end(&mut self, ticket: u64) -> Vec<u64> {
            self.order.finish(&self.claims[&ticket], &mut self.released);
            self.released.drain(..).map(|effect| effect.ticket.0).collect()
        }
    }

    fn write(file: FileName, position: u64, length: usize) -> StorageOp {
        StorageOp::Write { file, position, chunks: vec![Bytes::from(vec![0; length])] }
    }

    #[test]
    fn writes_to_other_bytes_run_together_and_to_the_same_bytes_one_by_one() {
        let mut story = Story::new();
        assert!(story.submit(1, write(FILE, 0, 10)));
        assert!(story.submit(2, write(FILE, 10, 10)));
        assert!(!story.submit(3, write(FILE, 9, 2)));
        assert!(!story.submit(4, write(FILE, 50, 1)), "nothing overtakes on one file");
        assert_eq!(story.end(1), []);
        assert_eq!(story.end(2), [3, 4]);
        assert_eq!(story.end(3), []);
        assert_eq!(story.end(4), []);
        assert!(story.order.lanes.is_empty() && story.order.groups.is_empty());
    }

    #[test]
    fn a_waiting_sync_holds_up_no_write() {
        let mut story = Story::new();
        assert!(story.submit(1, StorageOp::Sync { file: FILE }));
        assert!(!story.submit(2, StorageOp::Sync { file: FILE }));
        assert!(story.submit(3, write(FILE, 0, 1)));
        assert!(!story.submit(4, StorageOp::Truncate { file: FILE, length: 0 }));
        assert!(!story.submit(5, StorageOp::Sync { file: FILE }));
        assert_eq!(story.end(3), []);
        assert_eq!(story.end(1), [2]);
        assert_eq!(story.end(2), [4], "the cut has the file to itself");
        assert_eq!(story.end(4), [5]);
    }

    #[test]
    fn a_cut_waits_for_what_runs_and_holds_up_what_follows() {
        let mut story = Story::new();
        assert!(story.submit(1, write(FILE, 0, 1)));
        assert!(!story.submit(2, StorageOp::Truncate { file: FILE, length: 0 }));
        assert!(!story.submit(3, write(FILE, 5, 1)));
        assert!(story.submit(4, write(OTHER, 0, 1)), "another file goes on");
        assert_eq!(story.end(1), [2]);
        assert_eq!(story.end(2), [3]);
    }

    #[test]
    fn removing_a_group_waits_for_all_its_files_and_holds_them_up() {
        let mut story = Story::new();
        assert!(story.submit(1, write(FILE, 0, 1)));
        assert!(story.submit(2, write(OTHER, 0, 1)));
        assert!(!story.submit(3, StorageOp::RemoveGroup { group: GROUP }));
        assert!(!story.submit(4, write(FILE, 0, 1)));
        assert!(!story.submit(5, StorageOp::RemoveGroup { group: GROUP }));
        assert!(!story.submit(6, write(FILE, 0, 1)));
        assert_eq!(story.end(1), []);
        assert_eq!(story.end(2), [3]);
        assert_eq!(story.end(3), [4]);
        assert_eq!(story.end(4), [5]);
        assert_eq!(story.end(5), [6]);
        assert_eq!(story.end(6), []);
        assert!(story.order.lanes.is_empty() && story.order.groups.is_empty());
    }
}
