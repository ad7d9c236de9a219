//! The log against a disk in memory: what is durable when, what survives, and what damage does.

mod disk;
mod rewind;

use bytes::BytesMut;
use disk::Disk;
use proptest::prelude::*;
use twox_hash::XxHash3_64;
use whippet_log::{Durability, Log, LogConfig, PreviousEnd, Recovered, Replay, Space, Verdict, recover};
use whippet_storage::{FileName, GroupDirectory, StorageOp};
use whippet_vsr::{ClusterId, Draft, Entry, EntryId, GroupId, HEADER_SIZE, Now, OpNumber, Placement, ViewNumber};

const GROUP: GroupId = GroupId { number: 7, life: 21 };
const DIRECTORY: GroupDirectory = GroupDirectory { number: 7, life: 21 };
const CLUSTER: ClusterId = ClusterId(5);
const BATCH: u8 = 1;
const NOW: Now = Now { monotonic_ns: 1_000, wall_us: 1_000 };

fn config(durability: Durability, run: u64) -> LogConfig {
    LogConfig {
        cluster: CLUSTER,
        group: GROUP,
        segment_size: 4096,
        durability,
        batch_kind: BATCH,
        run,
        sync_interval_ns: 1_000_000,
        preallocate: false,
        solo: true,
    }
}

/// A state machine that keeps the bodies: (op, body).
#[derive(Default, Clone, Debug, PartialEq, Eq)]
struct Bodies {
    seen: Vec<(u64, Vec<u8>)>,
    next_offset: u64,
}

impl Replay for Bodies {
    fn restore(&mut self, state: &[u8]) -> Result<(), String> {
        let ops = u64::from_le_bytes(state[..8].try_into().map_err(|_| "short")?);
        self.next_offset = u64::from_le_bytes(state[8..16].try_into().map_err(|_| "short")?);
        self.seen = (1..=ops).map(|op| (op, Vec::new())).collect();
        Ok(())
    }

    fn replay(&mut self, entry: &Entry) -> Result<(), String> {
        self.seen.push((entry.op().0, entry.body().to_vec()));
        self.next_offset = entry.header().base_offset + u64::from(entry.header().count);
        Ok(())
    }

    fn body_is_intact(&self, entry: &Entry) -> bool {
        XxHash3_64::oneshot(&entry.body()) == entry.header().body_hash
    }

    fn next_offset(&self) -> u64 {
        self.next_offset
    }

    fn log_starts_by(&self) -> u64 {
        u64::MAX
    }
}

/// The same, of a group whose records are served.
#[derive(Default)]
struct Served(Bodies);

impl Replay for Served {
    fn restore(&mut self, state: &[u8]) -> Result<(), String> {
        self.0.restore(state)
    }

    fn replay(&mut self, entry: &Entry) -> Result<(), String> {
        self.0.replay(entry)
    }

    fn body_is_intact(&self, entry: &Entry) -> bool {
        self.0.body_is_intact(entry)
    }

    fn next_offset(&self) -> u64 {
        self.0.next_offset
    }

    fn log_starts_by(&self) -> u64 {
        1
    }
}

/// A log with what its replica and state machine would know.
struct Fixture {
    disk: Disk,
    log: Log,
    head_id: EntryId,
    timestamp: u64,
    next_offset: u64,
    view: u32,
}

impl Fixture {
    fn new(durability: Durability) -> Fixture {
        Fixture {
            disk: Disk::default(),
            log: Log::empty(config(durability, 1)),
            head_id: EntryId::NONE,
            timestamp: 0,
            next_offset: 0,
            view: 0,
        }
    }

    fn reopen(disk: Disk, durability: Durability, run: u64, previous: PreviousEnd) -> (Fixture, Bodies, Recovered2) {
        let mut bodies = Bodies::default();
        let recovered = recover(&disk, config(durability, run), previous, &mut bodies).expect("readable");
        let Recovered { log, verdict, remarks, applied, applied_id, applied_timestamp, view, snapshots, .. } =
            recovered;
        let fixture = Fixture {
            disk,
            log,
            head_id: applied_id,
            timestamp: applied_timestamp,
            next_offset: bodies.next_offset,
            view: view + 1,
        };
        (fixture, bodies, Recovered2 { verdict, remarks: remarks.len(), head: applied.0, snapshots })
    }

    /// Waits for space and appends; the write is issued, not done.
    fn append(&mut self, body: &[u8]) -> u64 {
        let length = (HEADER_SIZE + body.len()) as u64;
        for _ in 0..4 {
            match self.log.ensure_space(length, &mut self.disk) {
                Space::Ready => break,
                Space::Waiting => {
                    let allocate = self
                        .disk
                        .queue
                        .iter()
                        .rposition(|effect| matches!(effect.op, StorageOp::Allocate { .. }))
                        .expect("space is being taken");
                    let effect = self.disk.queue.remove(allocate).expect("there");
                    self.disk.queue.push_front(effect);
                    self.disk.step(&mut self.log).expect("allocates");
                }
                Space::Full => panic!("the disk is full"),
            }
        }
        let place = self.log.place();
        let mut bytes = BytesMut::zeroed(HEADER_SIZE);
        bytes.extend_from_slice(body);
        let draft = Draft {
            kind: BATCH,
            client: 0,
            session: 0,
            request: 0,
            user: 0,
            body_hash: XxHash3_64::oneshot(body),
            timestamp: self.timestamp + 1,
            base_offset: self.next_offset,
            count: 1,
            generation: 0,
            segment: place.segment,
            position: place.position,
            bytes,
        };
        let placement = Placement {
            cluster: CLUSTER,
            group: GROUP,
            op: self.log.head().next(),
            view: ViewNumber(self.view),
            parent: self.head_id,
            commit: OpNumber::ZERO,
        };
        let entry = Entry::seal(draft, placement);
        self.head_id = entry.id();
        self.timestamp += 1;
        self.next_offset += 1;
        self.log.append(&entry, NOW, &mut self.disk);
        entry.op().0
    }

    fn drive_at(&mut self, monotonic_ns: u64) {
        self.log.drive(Now { monotonic_ns, wall_us: 0 }, &mut self.disk);
    }

    /// Completes everything, also what becomes due on the way.
    fn finish(&mut self) {
        loop {
            self.drive_at(u64::MAX / 2);
            if !self.disk.step(&mut self.log).expect("no storage failure") {
                break;
            }
            while self.disk.step(&mut self.log).expect("no storage failure") {}
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Recovered2 {
    verdict: Verdict,
    remarks: usize,
    head: u64,
    snapshots: Vec<u64>,
}

fn segment(first_op: u64) -> FileName {
    FileName::Segment { group: DIRECTORY, first_op }
}

#[test]
fn replicated_is_durable_with_the_evidence_and_persisted_only_after_the_sync() {
    let mut log = Fixture::new(Durability::Replicated);
    log.append(b"one");
    assert_eq!(log.log.durable(), OpNumber(0));
    log.disk.step(&mut log.log).expect("write");
    log.drive_at(1_000);
    assert_eq!(log.log.durable(), OpNumber(0), "no evidence yet");
    assert!(matches!(
        log.disk.queue.front().map(|e| &e.op),
        Some(StorageOp::Write { file: FileName::Frontier { .. }, .. })
    ));
    log.disk.step(&mut log.log).expect("frontier");
    assert_eq!(log.log.durable(), OpNumber(1));
    assert!(log.disk.queue.is_empty(), "no sync before its time");
    log.drive_at(1_001_000);
    assert!(matches!(log.disk.queue.front().map(|e| &e.op), Some(StorageOp::Sync { .. })));

    let mut log = Fixture::new(Durability::Persisted);
    log.append(b"one");
    log.disk.step(&mut log.log).expect("write");
    log.drive_at(1_000);
    assert!(matches!(log.disk.queue.front().map(|e| &e.op), Some(StorageOp::Sync { .. })));
    log.disk.step(&mut log.log).expect("sync");
    log.drive_at(1_000);
    assert_eq!(log.log.durable(), OpNumber(0), "no evidence yet");
    log.disk.step(&mut log.log).expect("frontier");
    assert_eq!(log.log.durable(), OpNumber(1));
}

#[test]
fn a_write_that_completes_early_does_not_vouch_for_the_one_before() {
    let mut log = Fixture::new(Durability::Replicated);
    log.append(b"one");
    log.append(b"two");
    log.disk.queue.swap(0, 1);
    log.disk.step(&mut log.log).expect("second write");
    log.drive_at(1_000);
    assert_eq!(log.disk.queue.len(), 1, "nothing to be evidenced");
    log.disk.step(&mut log.log).expect("first write");
    log.drive_at(1_000);
    log.disk.step(&mut log.log).expect("frontier");
    assert_eq!(log.log.durable(), OpNumber(2));
}

#[test]
fn a_full_disk_is_noticed_before_an_op_is_given_and_forgotten_when_there_is_room() {
    let mut log = Fixture::new(Durability::Replicated);
    log.disk.full = true;
    let mut answers = Vec::new();
    for _ in 0..6 {
        answers.push(log.log.ensure_space(1000, &mut log.disk));
        while log.disk.step(&mut log.log).expect("want of room is not fatal") {}
    }
    assert!(answers.contains(&Space::Full), "{answers:?}");
    assert_eq!(log.log.head(), OpNumber(0));
    log.disk.full = false;
    while log.log.ensure_space(1000, &mut log.disk) != Space::Ready {
        while log.disk.step(&mut log.log).expect("room again") {}
    }
    log.append(b"fits");
    log.finish();
    assert_eq!(log.log.durable(), OpNumber(1));
}

#[test]
fn a_reservation_that_found_no_room_is_made_when_there_is_room() {
    let mut log = Fixture::new(Durability::Replicated);
    log.disk.full = true;
    log.log.reserve(1);
    log.drive_at(0);
    while log.disk.step(&mut log.log).expect("want of room is not fatal") {}
    assert!(log.log.needs_retry() && log.log.reserved() == 0);
    log.disk.full = false;
    log.log.retry(&mut log.disk);
    log.finish();
    assert!(log.log.reserved() > 0);
}

#[test]
fn segments_roll_get_an_index_and_what_was_written_is_read_back() {
    let mut log = Fixture::new(Durability::Persisted);
    for n in 0..40u32 {
        log.append(&vec![n as u8; 300]);
        log.finish();
    }
    let sums = log.log.sums();
    assert_eq!((sums.messages, sums.bytes, sums.first_offset), (40, 12_000, 0));
    assert_eq!(sums.segments, 5);
    let indexes = log.disk.files.keys().filter(|file| matches!(file, FileName::Index { .. })).count();
    assert_eq!(indexes, 4, "one a sealed segment");
    let found = log.log.find_offset(13).expect("there");
    assert_eq!(found.segment, 10, "nine records of 492 bytes fill a segment of 4096");
    assert_eq!(log.log.find_timestamp(14).expect("there").segment, 10);

    let (reopened, bodies, recovered) = Fixture::reopen(log.disk, Durability::Persisted, 2, PreviousEnd::PageCacheKept);
    assert_eq!(recovered.verdict, Verdict::Whole);
    assert_eq!((recovered.head, recovered.remarks), (40, 0));
    assert_eq!(bodies.seen.len(), 40);
    assert_eq!(bodies.seen[39], (40, vec![39; 300]));
    assert_eq!(reopened.log.sums(), sums);
}

#[test]
fn a_snapshot_shortens_recovery_and_is_written_only_behind_the_sync() {
    let mut log = Fixture::new(Durability::Replicated);
    for n in 0..20u32 {
        log.append(&vec![n as u8; 300]);
    }
    while log.disk.step(&mut log.log).expect("writes") {}
    assert!(log.log.wants_snapshot());
    let mut state = 20u64.to_le_bytes().to_vec();
    state.extend_from_slice(&20u64.to_le_bytes());
    log.log.take_snapshot(OpNumber(20), log.head_id, log.timestamp, 0, &state);
    log.drive_at(1_000);
    assert!(!log.disk.queue.iter().any(|e| matches!(e.op, StorageOp::Replace { file: FileName::Snapshot { .. }, .. })));
    log.finish();
    assert_eq!(log.log.snapshot_op(), 21);
    log.append(b"behind");
    log.finish();
    // Nothing before the last segment is needed any more.
    log.log.remove_up_to(OpNumber(18), &mut log.disk);
    log.finish();
    let (_, bodies, recovered) = Fixture::reopen(log.disk, Durability::Replicated, 2, PreviousEnd::PageCacheKept);
    assert_eq!((recovered.verdict, recovered.head, recovered.snapshots), (Verdict::Whole, 21, vec![21]));
    assert_eq!(bodies.seen.last(), Some(&(21, b"behind".to_vec())));
    assert_eq!(bodies.seen.len(), 21);
}

#[test]
fn a_missing_or_damaged_index_is_rebuilt() {
    let mut log = Fixture::new(Durability::Persisted);
    for n in 0..40u32 {
        log.append(&vec![n as u8; 300]);
    }
    log.finish();
    let mut state = 40u64.to_le_bytes().to_vec();
    state.extend_from_slice(&40u64.to_le_bytes());
    log.log.take_snapshot(OpNumber(40), log.head_id, log.timestamp, 0, &state);
    log.finish();
    let sums = log.log.sums();
    let mut disk = log.disk;
    disk.files.remove(&FileName::Index { group: DIRECTORY, first_op: 1 });
    disk.files.get_mut(&FileName::Index { group: DIRECTORY, first_op: 10 }).expect("there")[40] ^= 1;
    let (reopened, _, recovered) = Fixture::reopen(disk, Durability::Persisted, 2, PreviousEnd::PageCacheKept);
    assert_eq!((recovered.verdict, recovered.remarks), (Verdict::Whole, 2));
    assert_eq!(reopened.log.sums(), sums);
}

#[test]
fn purged_segments_go_only_after_the_snapshot_is_durable() {
    let mut log = Fixture::new(Durability::Replicated);
    for n in 0..12u32 {
        log.append(&vec![n as u8; 300]);
    }
    log.finish();
    log.log.purge_up_to(OpNumber(12));
    log.log.set_next_offset(0);
    log.next_offset = 0;
    let mut state = 12u64.to_le_bytes().to_vec();
    state.extend_from_slice(&0u64.to_le_bytes());
    log.log.take_snapshot(OpNumber(12), log.head_id, log.timestamp, 1, &state);
    assert_eq!(log.log.sums().messages, 0);
    log.log.remove_superseded(&mut Vec::new(), &mut log.disk);
    assert!(log.disk.queue.is_empty(), "the snapshot is not durable yet");
    log.append(b"after");
    log.finish();
    log.log.remove_superseded(&mut Vec::new(), &mut log.disk);
    log.finish();
    let segments: Vec<_> = log.disk.files.keys().filter(|file| matches!(file, FileName::Segment { .. })).collect();
    assert_eq!(segments, [&segment(13)]);
    let (_, bodies, recovered) = Fixture::reopen(log.disk, Durability::Replicated, 2, PreviousEnd::PageCacheKept);
    assert_eq!((recovered.verdict, recovered.head), (Verdict::Whole, 13));
    assert_eq!(bodies.next_offset, 1);
}

#[test]
fn purged_segments_stay_while_only_a_snapshot_of_before_the_purge_covers_them() {
    let mut log = in_a_snapshot_log();
    let purge = log.append(b"the purge");
    log.finish();
    log.log.purge_up_to(OpNumber(purge));
    log.log.remove_superseded(&mut vec![25], &mut log.disk);
    assert!(log.disk.queue.is_empty(), "the durable snapshot does not know of the purge");
    let state: Vec<u8> = [purge, 0].iter().flat_map(|number| number.to_le_bytes()).collect();
    log.log.take_snapshot(OpNumber(purge), log.head_id, log.timestamp, 1, &state);
    log.finish();
    log.log.remove_superseded(&mut vec![25, purge + 1], &mut log.disk);
    log.finish();
    assert_eq!(log.disk.files.keys().filter(|file| matches!(file, FileName::Segment { .. })).count(), 0);
}

/// A log of 6 records whose frontier names all of them, and the position where the last two start.
fn acknowledged() -> (Disk, usize, usize) {
    let mut log = Fixture::new(Durability::Replicated);
    for n in 0..6u32 {
        log.append(&[n as u8 + 1; 40]);
    }
    log.finish();
    assert_eq!(log.log.durable(), OpNumber(6));
    let record = HEADER_SIZE + 40;
    (log.disk, 4 * record, 6 * record)
}

/// 24 records in three segments (9, 9 and 6), all of them in a snapshot: the state needs no record any more, readers do.
fn in_a_snapshot() -> Disk {
    in_a_snapshot_log().disk
}

fn in_a_snapshot_log() -> Fixture {
    let mut log = Fixture::new(Durability::Replicated);
    for n in 0..24u32 {
        log.append(&[n as u8 + 1; 300]);
    }
    log.finish();
    let mut state = 24u64.to_le_bytes().to_vec();
    state.extend_from_slice(&24u64.to_le_bytes());
    log.log.take_snapshot(OpNumber(24), log.head_id, log.timestamp, 0, &state);
    log.finish();
    assert_eq!((log.log.snapshot_op(), log.log.durable()), (25, OpNumber(24)));
    log
}

#[test]
fn records_that_a_snapshot_covers_are_still_missed_when_they_are_damaged_or_gone() {
    let disk = in_a_snapshot();
    let record = HEADER_SIZE + 300;
    for previous in [PreviousEnd::PageCacheKept, PreviousEnd::machine_stopped(2)] {
        for at in 0..6 {
            for flip in [true, false] {
                let mut damaged = copy(&disk);
                let content = damaged.files.get_mut(&segment(19)).expect("there");
                let position = at * record + if flip { 77 } else { 0 };
                if flip {
                    content[position] ^= 4;
                } else {
                    content.truncate(position);
                }
                let (reopened, _, recovered) = Fixture::reopen(damaged, Durability::Replicated, 2, previous);
                let Verdict::Damaged(damage) = &recovered.verdict else {
                    panic!("record {at}, flipped {flip}: {:?}", recovered.verdict)
                };
                assert_eq!((damage.file, damage.position), (segment(19), (at * record) as u64));
                assert!(reopened.disk.queue.is_empty(), "nothing is cut");
            }
        }
    }
}

#[test]
fn a_log_that_lost_its_beginning_is_damaged_where_its_records_are_served() {
    let disk = in_a_snapshot();
    for lost in [vec![1], vec![1, 10], vec![1, 10, 19]] {
        let mut damaged = copy(&disk);
        for first_op in &lost {
            damaged.files.remove(&segment(*first_op));
        }
        let config = config(Durability::Replicated, 2);
        let recovered =
            recover(&damaged, config, PreviousEnd::PageCacheKept, &mut Served::default()).expect("readable");
        let Verdict::Damaged(damage) = &recovered.verdict else { panic!("{lost:?}: {:?}", recovered.verdict) };
        assert_eq!((damage.file, damage.position), (segment(1), 0), "{lost:?}");
    }
    let whole = recover(&disk, config(Durability::Replicated, 2), PreviousEnd::PageCacheKept, &mut Served::default());
    assert_eq!(whole.expect("readable").verdict, Verdict::Whole);
}

fn copy(disk: &Disk) -> Disk {
    Disk { files: disk.files.clone(), ..Disk::default() }
}

#[test]
fn acknowledged_records_that_are_damaged_or_cut_are_damage_never_a_torn_tail() {
    let (disk, from, to) = acknowledged();
    for position in from..to {
        for flip in [true, false] {
            let mut damaged = copy(&disk);
            let content = damaged.files.get_mut(&segment(1)).expect("there");
            if flip {
                content[position] ^= 1 << (position % 8);
            } else {
                content.truncate(position);
            }
            let (_, bodies, recovered) =
                Fixture::reopen(damaged, Durability::Replicated, 2, PreviousEnd::PageCacheKept);
            let Verdict::Damaged(damage) = &recovered.verdict else {
                panic!("position {position}, flipped {flip}: {:?}", recovered.verdict)
            };
            assert_eq!(damage.file, segment(1));
            assert!(damage.position <= position as u64, "{damage}");
            assert!(bodies.seen.len() >= 4 && bodies.seen.len() < 6);
            for (op, body) in &bodies.seen {
                assert_eq!(*body, vec![*op as u8; 40]);
            }
        }
    }
}

#[test]
fn a_torn_record_that_nobody_was_promised_is_cut() {
    let (disk, _, end) = acknowledged();
    let mut log = Fixture::reopen(copy(&disk), Durability::Replicated, 2, PreviousEnd::PageCacheKept).0;
    log.append(b"not acknowledged");
    log.disk.step(&mut log.log).expect("the record, but no frontier");
    let whole = log.disk.files[&segment(1)].clone();
    for cut in end + 1..end + HEADER_SIZE + 16 {
        let mut torn = copy(&log.disk);
        let mut content = whole.clone();
        content[cut..].fill(0);
        torn.files.insert(segment(1), content);
        let (mut reopened, bodies, recovered) =
            Fixture::reopen(torn, Durability::Replicated, 3, PreviousEnd::PageCacheKept);
        assert_eq!(recovered.verdict, Verdict::TornTail { file: segment(1), position: end as u64 }, "cut at {cut}");
        assert_eq!(bodies.seen.len(), 6);
        reopened.log.cut_tail(&mut reopened.disk);
        reopened.append(b"next");
        reopened.finish();
        let (_, bodies, recovered) =
            Fixture::reopen(reopened.disk, Durability::Replicated, 4, PreviousEnd::PageCacheKept);
        assert_eq!((recovered.verdict, bodies.seen.last()), (Verdict::Whole, Some(&(7, b"next".to_vec()))));
    }
}

#[test]
fn damage_before_a_whole_record_is_damage_even_without_evidence() {
    let (mut disk, from, _) = acknowledged();
    disk.files.remove(&FileName::Frontier { group: DIRECTORY });
    disk.files.get_mut(&segment(1)).expect("there")[from + 3] ^= 1;
    let (_, _, recovered) = Fixture::reopen(disk, Durability::Replicated, 2, PreviousEnd::PageCacheKept);
    assert!(matches!(recovered.verdict, Verdict::Damaged(_)), "{:?}", recovered.verdict);
}

#[test]
fn an_empty_or_missing_segment_that_held_acknowledged_records_is_damage() {
    let (disk, ..) = acknowledged();
    for missing in [true, false] {
        let mut damaged = copy(&disk);
        if missing {
            damaged.files.remove(&segment(1));
        } else {
            damaged.files.insert(segment(1), Vec::new());
        }
        let (_, bodies, recovered) = Fixture::reopen(damaged, Durability::Replicated, 2, PreviousEnd::PageCacheKept);
        assert!(matches!(recovered.verdict, Verdict::Damaged(_)), "{:?}", recovered.verdict);
        assert!(bodies.seen.is_empty());
    }
}

#[test]
fn a_machine_crash_of_a_replicated_log_is_a_declared_loss_and_no_offset_is_used_twice() {
    let mut log = Fixture::new(Durability::Replicated);
    log.log.reserve(0);
    log.finish();
    assert_eq!(log.log.reserved(), whippet_log::RESERVATION);
    for _ in 0..6 {
        log.append(&[9; 40]);
    }
    log.finish();
    let mut disk = log.disk;
    disk.files.get_mut(&segment(1)).expect("there").truncate(3 * (HEADER_SIZE + 40) + 10);
    let (_, bodies, recovered) =
        Fixture::reopen(copy(&disk), Durability::Replicated, 2, PreviousEnd::machine_stopped(2));
    assert_eq!(bodies.seen.len(), 3);
    assert_eq!(
        recovered.verdict,
        Verdict::Lost { acknowledged: OpNumber(6), reserved_offset: whippet_log::RESERVATION }
    );
    // A run in between that did not write here lost nothing here.
    let (_, _, recovered) = Fixture::reopen(copy(&disk), Durability::Replicated, 3, PreviousEnd::machine_stopped(3));
    assert!(matches!(recovered.verdict, Verdict::Damaged(_)));
    let (_, _, recovered) = Fixture::reopen(disk, Durability::Persisted, 2, PreviousEnd::machine_stopped(2));
    assert!(matches!(recovered.verdict, Verdict::Damaged(_)), "a persisted log never loses an acknowledged record");
}

#[test]
fn a_log_of_another_group_or_cluster_is_not_taken_for_this_one() {
    let (disk, ..) = acknowledged();
    let mut other = Disk::default();
    for (file, content) in &disk.files {
        let file = match *file {
            FileName::Segment { first_op, .. } => {
                FileName::Segment { group: GroupDirectory { number: 8, life: 21 }, first_op }
            }
            FileName::Frontier { .. } => FileName::Frontier { group: GroupDirectory { number: 8, life: 21 } },
            other => other,
        };
        other.files.insert(file, content.clone());
    }
    let mut config = config(Durability::Replicated, 2);
    config.group.number = 8;
    let mut bodies = Bodies::default();
    let recovered = recover(&other, config, PreviousEnd::PageCacheKept, &mut bodies).expect("readable");
    assert!(bodies.seen.is_empty());
    assert!(matches!(recovered.verdict, Verdict::Damaged(_)), "{:?}", recovered.verdict);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the bytes of the files are, recovery ends with a verdict and never with a panic.
    #[test]
    fn arbitrary_files_never_panic(
        segment_bytes in proptest::collection::vec(any::<u8>(), 0..2000),
        frontier in proptest::collection::vec(any::<u8>(), 0..300),
        snapshot in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut disk = Disk::default();
        disk.files.insert(segment(1), segment_bytes);
        disk.files.insert(FileName::Frontier { group: DIRECTORY }, frontier);
        disk.files.insert(FileName::Snapshot { group: DIRECTORY, first_op: 5 }, snapshot.clone());
        disk.files.insert(FileName::Index { group: DIRECTORY, first_op: 1 }, snapshot);
        let mut bodies = Bodies::default();
        let _ = recover(&disk, config(Durability::Replicated, 2), PreviousEnd::PageCacheKept, &mut bodies);
        prop_assert!(bodies.seen.is_empty());
    }

    /// A write cut off by a crash anywhere: what was acknowledged is there, in order, unchanged.
    #[test]
    fn a_crash_at_any_point_keeps_what_was_durable(steps in 0usize..120, sizes in proptest::collection::vec(1usize..600, 1..30)) {
        let mut log = Fixture::new(Durability::Replicated);
        let mut written = Vec::new();
        let mut left = steps;
        for (n, size) in sizes.iter().enumerate() {
            let body = vec![n as u8 + 1; *size];
            log.append(&body);
            written.push(body);
            log.drive_at(2_000_000 * n as u64);
            if left == 0 { break; }
            left -= 1;
            if n % 3 != 2 {
                log.disk.step(&mut log.log).expect("no failure");
                log.drive_at(2_000_000 * n as u64);
            }
        }
        let durable = log.log.durable().0 as usize;
        let (_, bodies, recovered) = Fixture::reopen(copy(&log.disk), Durability::Replicated, 2, PreviousEnd::PageCacheKept);
        prop_assert!(!matches!(recovered.verdict, Verdict::Damaged(_)), "{:?}", recovered.verdict);
        prop_assert!(bodies.seen.len() >= durable, "{} of {durable}", bodies.seen.len());
        for (n, (op, body)) in bodies.seen.iter().enumerate() {
            prop_assert_eq!(*op, n as u64 + 1);
            prop_assert_eq!(body, &written[n]);
        }
    }
}

#[test]
fn reading_exactly_nothing_is_fine() {
    let (_, bodies, recovered) =
        Fixture::reopen(Disk::default(), Durability::Replicated, 1, PreviousEnd::PageCacheKept);
    assert_eq!((recovered.verdict, recovered.head), (Verdict::Whole, 0));
    assert!(bodies.seen.is_empty());
}
