//! The disk in memory: the contract, and what a crash leaves.

use bytes::Bytes;
use std::time::Duration;
use whippet_storage::conformance::{self, Bench};
use whippet_storage::{
    CompletionOrder, Crash, FileName, GroupDirectory, MemoryHost, RecoverySource, StorageEffect, StorageErrorKind,
    StorageHost, StorageOp, StorageTicket,
};

const GROUP: GroupDirectory = GroupDirectory { number: 1, life: 1 };
const FILE: FileName = FileName::Segment { group: GROUP, first_op: 1 };

fn no_wait(_: Duration) {
    panic!("a disk in memory never has to be waited for");
}

fn run(host: &mut MemoryHost, op: StorageOp) -> conformance::Outcome {
    Bench::new(host, 1, &mut no_wait).run(op)
}

fn write(position: u64, bytes: &'static str) -> StorageOp {
    StorageOp::Write { file: FILE, position, chunks: vec![Bytes::from_static(bytes.as_bytes())] }
}

fn content(host: &MemoryHost) -> Option<Bytes> {
    host.read(FILE, 0, 1000).ok()
}

#[test]
fn the_contract_holds_in_every_order() {
    let orders =
        [CompletionOrder::Submission, CompletionOrder::Reverse, CompletionOrder::Seeded(1), CompletionOrder::Seeded(2)];
    for order in orders {
        let mut host = MemoryHost::new(order);
        conformance::all(&mut Bench::new(&mut host, 1, &mut no_wait));
        assert_eq!(host.in_flight(), 0);
        let mut small = MemoryHost::new(order);
        small.set_capacity(512 << 10);
        conformance::a_full_disk_refuses_writes_and_recovers(&mut Bench::new(&mut small, 1, &mut no_wait), |host| {
            host.set_capacity(u64::MAX);
            true
        });
    }
}

#[test]
fn power_loss_takes_what_no_sync_covers() {
    let mut host = MemoryHost::new(CompletionOrder::Submission);
    assert_eq!(run(&mut host, write(0, "synced")), Ok(Bytes::new()));
    assert_eq!(run(&mut host, StorageOp::Sync { file: FILE }), Ok(Bytes::new()));
    assert_eq!(run(&mut host, write(6, " and not")), Ok(Bytes::new()));
    host.crash(Crash::KeepUnsynced);
    assert_eq!(content(&host).expect("there"), "synced and not");
    host.crash(Crash::DropUnsynced);
    assert_eq!(content(&host).expect("there"), "synced");
    let mut new = MemoryHost::new(CompletionOrder::Submission);
    assert_eq!(run(&mut new, write(0, "never synced")), Ok(Bytes::new()));
    new.crash(Crash::DropUnsynced);
    assert_eq!(content(&new), None, "the entry was not synced either");
}

#[test]
fn a_sync_covers_only_what_had_completed_when_it_was_submitted() {
    let mut host = MemoryHost::new(CompletionOrder::Submission);
    assert_eq!(run(&mut host, write(0, "before")), Ok(Bytes::new()));
    let mut wait = no_wait;
    let mut bench = Bench::new(&mut host, 1, &mut wait);
    let written = bench.submit(write(6, " beside"));
    let synced = bench.submit(StorageOp::Sync { file: FILE });
    bench.settle();
    assert_eq!((bench.outcome(written), bench.outcome(synced)), (Ok(Bytes::new()), Ok(Bytes::new())));
    host.crash(Crash::DropUnsynced);
    assert_eq!(content(&host).expect("there"), "before");
}

#[test]
fn what_is_in_flight_is_lost_with_the_process() {
    let mut host = MemoryHost::new(CompletionOrder::Submission);
    host.set_paused(true);
    host.submit(StorageEffect { ticket: StorageTicket(1), op: write(0, "lost") });
    host.flush();
    assert!(host.poll_completion().is_none());
    assert_eq!(host.in_flight(), 1);
    host.crash(Crash::KeepUnsynced);
    host.set_paused(false);
    assert_eq!(host.in_flight(), 0);
    assert!(host.poll_completion().is_none());
    assert_eq!(content(&host), None);
}

#[test]
fn a_torn_crash_keeps_pieces_of_unsynced_writes_and_all_that_was_synced() {
    let mut kept = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let mut host = MemoryHost::new(CompletionOrder::Submission);
        assert_eq!(run(&mut host, write(0, "synced")), Ok(Bytes::new()));
        assert_eq!(run(&mut host, StorageOp::Sync { file: FILE }), Ok(Bytes::new()));
        assert_eq!(run(&mut host, write(6, "12")), Ok(Bytes::new()));
        assert_eq!(run(&mut host, write(8, "34")), Ok(Bytes::new()));
        host.crash(Crash::KeepSome(seed));
        let left = content(&host).expect("there");
        assert_eq!(left[..6], *b"synced");
        kept.insert(left.slice(6..));
    }
    for possible in ["", "1", "12", "123", "1234", "\0\x0034"] {
        assert!(kept.contains(possible.as_bytes()), "{possible:?} in {kept:?}");
    }
}

#[test]
fn a_failed_sync_makes_later_ones_fail_until_the_process_starts_again() {
    let mut host = MemoryHost::new(CompletionOrder::Submission);
    assert_eq!(run(&mut host, write(0, "x")), Ok(Bytes::new()));
    host.fail_sync(FILE);
    assert_eq!(run(&mut host, StorageOp::Sync { file: FILE }), Err(StorageErrorKind::Io));
    assert_eq!(run(&mut host, StorageOp::Sync { file: FILE }), Err(StorageErrorKind::SyncFailedBefore));
    host.crash(Crash::DropUnsynced);
    assert_eq!(content(&host), None);
    assert_eq!(run(&mut host, write(0, "y")), Ok(Bytes::new()));
    assert_eq!(run(&mut host, StorageOp::Sync { file: FILE }), Ok(Bytes::new()));
}
