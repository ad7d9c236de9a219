//! Taking records back, with the process or the machine ending at every point of it.

use crate::{BATCH, CLUSTER, DIRECTORY, GROUP};
use bytes::BytesMut;
use twox_hash::XxHash3_64;
use whippet_log::{
    Durability, Issue, Log, LogConfig, LogEnd, PreviousEnd, Recovered, Replacement, Replay, Space, Verdict, recover,
};
use whippet_storage::{
    CompletionOrder, Crash, FileName, MemoryHost, RecoverySource, StorageEffect, StorageHost, StorageOp, StorageTicket,
};
use whippet_vsr::{Draft, Entry, EntryHeader, EntryId, HEADER_SIZE, Now, OpNumber, Placement, ViewNumber};

const BODY: usize = 300;

/// The same log, of a group of several.
fn config(durability: Durability, run: u64) -> LogConfig {
    LogConfig { solo: false, ..crate::config(durability, run) }
}

/// What a member of several has executed, and what it would if it were committed.
#[derive(Default)]
struct Executed(Vec<EntryId>, u64);

impl Replay for Executed {
    fn restore(&mut self, state: &[u8]) -> Result<(), String> {
        let ops = u64::from_le_bytes(state.try_into().map_err(|_| "eight bytes")?);
        self.0 = vec![EntryId::NONE; ops as usize];
        self.1 = ops;
        Ok(())
    }

    fn replay(&mut self, entry: &Entry) -> Result<(), String> {
        self.0.push(entry.id());
        self.1 = entry.header().base_offset + 1;
        Ok(())
    }

    fn body_is_intact(&self, entry: &Entry) -> bool {
        XxHash3_64::oneshot(&entry.body()) == entry.header().body_hash
    }

    fn next_offset(&self) -> u64 {
        self.1
    }

    fn log_starts_by(&self) -> u64 {
        u64::MAX
    }
}

struct Host {
    host: MemoryHost,
    issued: u64,
}

impl Issue for Host {
    fn issue(&mut self, op: StorageOp) -> StorageTicket {
        self.issued += 1;
        let ticket = StorageTicket(self.issued);
        self.host.submit(StorageEffect { ticket, op });
        ticket
    }
}

struct Member {
    host: Host,
    log: Log,
    entries: Vec<Entry>,
    /// Identity and timestamp of the op before the first entry.
    base: (u64, EntryId),
    clock: u64,
}

impl Member {
    fn new(order: CompletionOrder, durability: Durability) -> Member {
        Member {
            host: Host { host: MemoryHost::new(order), issued: 0 },
            log: Log::empty(config(durability, 1)),
            entries: Vec::new(),
            base: (0, EntryId::NONE),
            clock: 0,
        }
    }

    /// Completes one operation; whether there was one.
    fn step(&mut self) -> bool {
        self.clock += 10_000_000;
        self.log.drive(Now { monotonic_ns: self.clock, wall_us: 0 }, &mut self.host);
        self.host.host.flush();
        let Some(completion) = self.host.host.poll_completion() else { return false };
        self.log.handle_completion(completion).expect("no storage failure");
        true
    }

    fn finish(&mut self) {
        while self.step() {}
    }

    fn entry(&self, view: u32, commit: u64) -> Entry {
        let place = self.log.place();
        let op = self.base.0 + self.entries.len() as u64 + 1;
        let mut bytes = BytesMut::zeroed(HEADER_SIZE);
        bytes.resize(HEADER_SIZE + BODY, op as u8);
        let draft = Draft {
            kind: BATCH,
            client: 0,
            session: 0,
            request: 0,
            user: 0,
            body_hash: XxHash3_64::oneshot(&bytes[HEADER_SIZE..]),
            timestamp: op * 10 + u64::from(view),
            base_offset: op - 1,
            count: 1,
            generation: 0,
            segment: place.segment,
            position: place.position,
            bytes,
        };
        let parent = self.entries.last().map_or(self.base.1, Entry::id);
        Entry::seal(
            draft,
            Placement {
                cluster: CLUSTER,
                group: GROUP,
                op: OpNumber(op),
                view: ViewNumber(view),
                parent,
                commit: OpNumber(commit),
            },
        )
    }

    fn append(&mut self, view: u32, commit: u64) {
        while self.log.ensure_space((HEADER_SIZE + BODY) as u64, &mut self.host) != Space::Ready {
            assert!(self.step(), "space comes");
        }
        let entry = self.entry(view, commit);
        self.log.append(&entry, Now { monotonic_ns: self.clock, wall_us: 0 }, &mut self.host);
        self.entries.push(entry);
    }

    fn end(&self, op: u64) -> LogEnd {
        let at = (op - self.base.0) as usize;
        let last = at.checked_sub(1).map(|at| &self.entries[at]);
        LogEnd {
            op: OpNumber(op),
            id: last.map_or(self.base.1, Entry::id),
            timestamp: last.map_or(0, |entry| entry.header().timestamp),
            next_offset: op,
        }
    }

    fn truncate(&mut self, op: u64) {
        let at = (op - self.base.0) as usize;
        let removed: Vec<EntryHeader> = self.entries[at..].iter().map(|entry| *entry.header()).collect();
        let end = self.end(op);
        self.log.truncate(end, &removed);
        self.entries.truncate(at);
    }

    /// Ends the process or the machine, and reads back. What is read has the ids of `before` or is a part of it.
    fn crash(self, crash: Crash, durability: Durability, run: u64) -> (Host, Recovered) {
        let mut host = self.host;
        host.host.crash(crash);
        let previous =
            if crash == Crash::KeepUnsynced { PreviousEnd::PageCacheKept } else { PreviousEnd::machine_stopped(run) };
        let recovered =
            recover(&host.host, config(durability, run), previous, &mut Executed::default()).expect("readable");
        (host, recovered)
    }
}

const CRASHES: [Crash; 4] = [Crash::KeepUnsynced, Crash::DropUnsynced, Crash::KeepSome(3), Crash::KeepSome(17)];
const ORDERS: [CompletionOrder; 3] =
    [CompletionOrder::Submission, CompletionOrder::Reverse, CompletionOrder::Seeded(5)];

#[test]
fn a_tail_is_not_executed_before_it_is_known_to_be_committed() {
    let mut member = Member::new(CompletionOrder::Submission, Durability::Persisted);
    for op in 0..7 {
        member.append(1, if op < 4 { 0 } else { 3 });
    }
    member.finish();
    let ids: Vec<EntryId> = member.entries.iter().map(Entry::id).collect();
    let (_, recovered) = member.crash(Crash::KeepUnsynced, Durability::Persisted, 2);
    assert_eq!(recovered.verdict, Verdict::Whole);
    assert_eq!((recovered.applied, recovered.applied_id), (OpNumber(3), ids[2]));
    let tail: Vec<EntryId> = recovered.tail.iter().map(Entry::id).collect();
    assert_eq!(tail, ids[3..]);
}

/// 20 records in three segments, cut back to each op from 20 down, with a crash after each storage operation.
#[test]
fn a_cut_tail_is_gone_or_whole_wherever_the_crash_comes() {
    for durability in [Durability::Persisted, Durability::Replicated] {
        for (to, order, finish) in [
            (0, ORDERS[0], true),
            (5, ORDERS[1], false),
            (9, ORDERS[2], true),
            (12, ORDERS[0], false),
            (19, ORDERS[1], true),
        ] {
            for crash in CRASHES {
                for stop_after in 0.. {
                    let mut member = Member::new(order, durability);
                    for _ in 0..20 {
                        member.append(1, 0);
                    }
                    if finish {
                        member.finish();
                    }
                    let kept: Vec<EntryId> = member.entries[..to].iter().map(Entry::id).collect();
                    let all: Vec<EntryId> = member.entries.iter().map(Entry::id).collect();
                    member.truncate(to as u64);
                    assert!(member.log.is_rewinding());
                    assert_eq!(member.log.head(), OpNumber(to as u64));
                    let mut steps = 0;
                    while steps < stop_after && member.log.is_rewinding() && member.step() {
                        assert!(member.log.durable() <= member.log.head());
                        steps += 1;
                    }
                    let done = !member.log.is_rewinding();
                    if done {
                        assert_eq!(member.log.durable(), OpNumber(to as u64));
                        // Another record takes the place of the first one that was cut.
                        member.append(2, 0);
                        member.finish();
                        assert_eq!(member.log.durable(), OpNumber(to as u64 + 1));
                        assert_eq!(member.log.sums().messages, to as u64 + 1);
                        assert_eq!(member.log.find_op(to as u64 + 2), None);
                    }
                    let ours: Vec<EntryId> = member.entries.iter().map(Entry::id).collect();
                    let (_, recovered) = member.crash(crash, durability, 2);
                    let what = format!("{durability:?} to {to} {order:?} {crash:?} after {steps}");
                    assert!(!matches!(recovered.verdict, Verdict::Damaged(_)), "{what}: {:?}", recovered.verdict);
                    let read: Vec<EntryId> = recovered.tail.iter().map(Entry::id).collect();
                    if done {
                        assert_eq!(read, ours, "{what}");
                    } else {
                        assert!(all.starts_with(&read), "{what}");
                        let lossy = durability == Durability::Replicated && crash != Crash::KeepUnsynced;
                        if finish && !lossy {
                            assert!(read.starts_with(&kept), "{what}: {} of {} are left", read.len(), kept.len());
                        }
                    }
                    if done {
                        break;
                    }
                }
            }
        }
    }
}

#[test]
fn a_replaced_log_is_the_old_or_the_new_one_wherever_the_crash_comes() {
    for durability in [Durability::Persisted, Durability::Replicated] {
        for (base, order) in [(30, ORDERS[0]), (12, ORDERS[1]), (19, ORDERS[2])] {
            for crash in CRASHES {
                for stop_after in 0.. {
                    let mut member = Member::new(order, durability);
                    for _ in 0..20 {
                        member.append(1, 0);
                    }
                    member.finish();
                    let all: Vec<EntryId> = member.entries.iter().map(Entry::id).collect();
                    let end =
                        LogEnd { op: OpNumber(base), id: EntryId(99), timestamp: base * 10 + 1, next_offset: base };
                    member.log.replace(Replacement {
                        end,
                        generation: 4,
                        state: base.to_le_bytes().to_vec(),
                        older_snapshots: Vec::new(),
                    });
                    member.entries.clear();
                    member.base = (base, EntryId(99));
                    let mut steps = 0;
                    while steps < stop_after && member.log.is_rewinding() && member.step() {
                        steps += 1;
                    }
                    let done = !member.log.is_rewinding();
                    if done {
                        assert_eq!((member.log.head(), member.log.durable()), (OpNumber(base), OpNumber(base)));
                        for _ in 0..12 {
                            member.append(60, 0);
                        }
                        member.finish();
                        assert_eq!(member.log.durable(), OpNumber(base + 12));
                    }
                    let ours: Vec<EntryId> = member.entries.iter().map(Entry::id).collect();
                    let (host, recovered) = member.crash(crash, durability, 2);
                    let what = format!("{durability:?} base {base} {order:?} {crash:?} after {steps}");
                    assert!(!matches!(recovered.verdict, Verdict::Damaged(_)), "{what}: {:?}", recovered.verdict);
                    let read: Vec<EntryId> = recovered.tail.iter().map(Entry::id).collect();
                    if recovered.applied == OpNumber(0) {
                        assert!(!done, "{what}");
                        assert_eq!(read, all, "{what}: the old log is whole as long as it counts");
                    } else {
                        assert_eq!((recovered.applied, recovered.applied_id), (OpNumber(base), EntryId(99)), "{what}");
                        assert_eq!(read, ours, "{what}");
                    }
                    if done {
                        let files = host.host.files(DIRECTORY).expect("readable");
                        let segments =
                            files.iter().filter(|(file, _)| matches!(file, FileName::Segment { .. })).count();
                        assert_eq!(segments, 2, "{what}: nothing of the old log is left: {files:?}");
                        break;
                    }
                }
            }
        }
    }
}
