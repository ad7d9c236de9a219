//! The contract of this crate as checks that any [`StorageHost`] has to pass. They panic where it does not.
//!
//! Each check uses files of its own group, so that all of them can run on one host, in any order and more than once.

use crate::{FileName, GroupDirectory, StorageEffect, StorageErrorKind, StorageHost, StorageOp, StorageTicket};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long one operation may take before a check gives up on it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How an operation ended: bytes for reads, or the kind of failure.
pub type Outcome = Result<Bytes, StorageErrorKind>;

/// A host under test.
pub struct Bench<'a, H> {
    host: &'a mut H,
    /// Waits until a completion may have come; told how long at most.
    wait: &'a mut dyn FnMut(Duration),
    tickets: u64,
    groups: u64,
    ended: BTreeMap<StorageTicket, Outcome>,
}

impl<H: std::fmt::Debug> std::fmt::Debug for Bench<'_, H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench").field("host", &self.host).field("tickets", &self.tickets).finish_non_exhaustive()
    }
}

impl<'a, H: StorageHost> Bench<'a, H> {
    /// A bench for a host with nothing in flight. Groups from `first_group` on must be unused.
    pub fn new(host: &'a mut H, first_group: u64, wait: &'a mut dyn FnMut(Duration)) -> Bench<'a, H> {
        Bench { host, wait, tickets: first_group << 32, groups: first_group, ended: BTreeMap::new() }
    }

    /// A group that no other check uses.
    pub fn group(&mut self) -> GroupDirectory {
        self.groups += 1;
        GroupDirectory { number: self.groups, life: 1 }
    }

    fn segment(&mut self) -> FileName {
        FileName::Segment { group: self.group(), first_op: 1 }
    }

    /// Submits without starting.
    pub fn submit(&mut self, op: StorageOp) -> StorageTicket {
        self.tickets += 1;
        let ticket = StorageTicket(self.tickets);
        self.host.submit(StorageEffect { ticket, op });
        ticket
    }

    /// Starts what was submitted and waits until all of it has ended.
    pub fn settle(&mut self) {
        self.host.flush();
        let deadline = Instant::now() + PATIENCE;
        loop {
            while let Some(completion) = self.host.poll_completion() {
                let outcome = completion.result.map_err(|error| error.kind);
                assert!(
                    self.ended.insert(completion.ticket, outcome).is_none(),
                    "{:?} completed twice",
                    completion.ticket
                );
            }
            if self.host.in_flight() == 0 {
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{} operations did not complete", self.host.in_flight());
            (self.wait)(left);
        }
    }

    /// How an operation that has ended did so.
    ///
    /// # Panics
    /// When it has not, or was asked for before.
    pub fn outcome(&mut self, ticket: StorageTicket) -> Outcome {
        self.ended.remove(&ticket).expect("the operation has completed")
    }

    /// One operation on its own.
    pub fn run(&mut self, op: StorageOp) -> Outcome {
        let ticket = self.submit(op);
        self.settle();
        self.outcome(ticket)
    }

    fn done(&mut self, op: StorageOp) {
        let what = format!("{op:?}");
        assert_eq!(self.run(op), Ok(Bytes::new()), "{what}");
    }

    fn content(&mut self, file: FileName, position: u64, length: u32) -> Vec<u8> {
        self.run(StorageOp::Read { file, position, length }).expect("read").to_vec()
    }
}

fn write(file: FileName, position: u64, bytes: &[u8]) -> StorageOp {
    StorageOp::Write { file, position, chunks: vec![Bytes::copy_from_slice(bytes)] }
}

fn read(file: FileName, position: u64, length: u32) -> StorageOp {
    StorageOp::Read { file, position, length }
}

/// All checks that need no particular disk.
pub fn all<H: StorageHost>(bench: &mut Bench<'_, H>) {
    written_bytes_are_read(bench);
    a_gap_reads_as_zeros(bench);
    adjacent_writes_keep_their_order(bench);
    later_writes_to_the_same_bytes_win(bench);
    empty_writes_make_the_file(bench);
    many_pieces_arrive_in_order(bench);
    a_short_read_is_an_error(bench);
    missing_files_are_not_found(bench);
    syncs_succeed_alone_and_together(bench);
    replacing_gives_the_new_content_whole(bench);
    allocated_space_reads_as_zeros_and_loses_no_write(bench);
    a_cut_takes_effect_before_later_writes(bench);
    a_removed_file_is_gone_and_can_come_back(bench);
    a_removed_group_is_gone_and_can_come_back(bench);
    many_operations_complete_once_each(bench, 7);
}

/// What was written is read, in one piece or in several.
pub fn written_bytes_are_read<H: StorageHost>(bench: &mut Bench<'_, H>) {
    let file = bench.segment();
    let chunks = vec![Bytes::from_static(b"one "), Bytes::from_static(b"two "), Bytes::from_static(b"three")];
    bench.done(StorageOp::Write { file, position: 0, chunks });
    assert_eq!(bench.content(file, 0, 13), b"one two three");
    assert_eq!(bench.content(file, 4, 3), b"two");
    assert_eq!(bench.content(file, 13, 0), b"");
}

/// A write past the end makes the file longer.
pub fn a_gap_reads_as_zeros<H: StorageHost>(bench: &mut Bench<'_, H>) {
    let file = bench.segment();
    bench.done(write(file, 10_000, b"x"));
    let content = bench.content(file, 0, 10_001);
    assert_eq!(content.iter().position(|byte| *byte != 0), Some(10_000));
    assert_eq!(content[10_000], b'x');
}

/// Writes that a host may join arrive as if it had not.
pub fn adjacent_writes_keep_their_order<H: StorageHost>(bench: &mut Bench<'_, H>) {
    let (one, two) = (bench.segment(), bench.segment());
    let mut expected = (Vec::new(), Vec::new());
    for number in 0..500u32 {
        for (file, expected) in [(one, &mut expected.0), (two, &mut expected.1)] {
            let bytes = format!("{number}-{};", file.group().map_or(0, |group| group.number)).into_bytes();
            bench.submit(write(file, expected.len() as u64, &bytes));
            expected.extend(bytes);
        }
    }
    bench.settle();
    let length = |bytes: &Vec<u8>| u32::try_from(bytes.len()).expect("small");
    assert_eq!(bench.content(one, 0, length(&expected.0)), expected.0);
    assert_eq!(bench.content(two, 0, length(&expected.1)), expected.1);
}

/// Of writes to the same bytes in one batch the last one counts.
pub fn later_writes_to_the_same_bytes_win<H: StorageHost>(bench: &mut Bench<'_, H>) {
    let file = bench.segment();
    for number in 0..=40u8 {
        bench.submit(write(file, 0, &[number; 5000]));
        bench.submit(write(file, 5000, &[number; 10]));
    }
    bench.submit(write(file, 4999, b"!!"));
    bench.settle();
    let content = bench.content(file, 0, 5010);
    let expected: Vec<u8> = (0..5010).map(|at| if at == 4999 || at == 5000 { b'!' } else { 40 }).collect();
    assert_eq!(content, expected);
}

/// A write of nothing makes the file, and no more.
pub fn empty_writes_make_the_file<H: StorageHost>(bench: &mut Bench<'_, H>) {
    let file = bench.segment();
    bench.done(StorageOp::Write { file, position: 0, chunks: Vec::new() });
    bench.done(StorageOp::Write { file, position: 0, chunks: vec![Bytes::new(), Bytes::new()] });
    assert_eq!(bench.content(file, 0, 0), b"");
    assert_eq!(bench.run(read(file, 0, 1)), Err(StorageErrorKind::ShortRead));
}

/// More pieces than one system call takes, in one write and over several.
pub fn many_pieces_arrive_in_order<H: StorageHost>(bench: &mut Bench<'_, H>) {
    let file = bench.segment();
    let piece = |number: u32| Bytes::from(number.to_le_bytes().to_vec());
    let total = 5000u32;
    bench.submit(StorageOp::Write { file, position: 0, chunks: (0..3000).map(piece).collect() });
    bench.submit(StorageOp::Write { file, position: 12_000, chunks: (3000..total).map(piece).collect() });
    bench.settle();
    let content = bench.content(file, 0, total * 4);
    let expected: Vec<u8> = (0..total).flat_map(u32::to_le_bytes).collect();
    assert!(content == expected, "pieces are lost or in another order");
    let large = vec![9u8; 9 << 20];
    bench.submit(write(file, 0, &large));
    bench.submit(write(file, large.len() as u64, b"end"));
    bench.settle();
    assert_eq!(bench.content(file, large.len() as u64 - 1, 4), b"\x09end");
}

/// Reading past the end.
pub fn a_short_read_is_an_error<H: StorageHost>(bench: &mut Bench<'_, H>) {
    let file = bench.segment();
    bench.done(write(file, 0, b"12345"));
    for (position, length) in [(0, 6), (3, 3), (5, 1), (1 << 40, 1)] {
        assert_eq!(bench.run(read(file, position, length)), Err(StorageErrorKind::ShortRead), "{length} at {position}");
    }
}

/// Reads and syncs of files that do not exist, and removals, which do not mind.
pub fn missing_files_are_not_found<H: StorageHost>(bench: &mut Bench<'_, H>) {
    let file = bench.segment();
    assert_eq!(bench.run(read(file, 0, 1)), Err(StorageErrorKind::NotFound));
    assert_eq!(bench.run(StorageOp::Sync { file }), Err(StorageErrorKind::NotFound));
    bench.done(StorageOp::Remove { file });
    let group = bench.group();
    bench.done(StorageOp::RemoveGroup { group });
    // A sync that found nothing to sync is no failed sync.
    bench.done(write(file, 0, b"x"));
    bench.done(StorageOp::Sync { file });
}

/// Syncs of new files and old ones, of several files in one batch and of one file several times.
pub fn syncs_succeed_alone_and_together<H: StorageHost>(bench: &mut Bench<'_, H>) {
    let files: Vec<FileName> = (0..8).map(|_| bench.segment()).collect();
    for round in 0..3u64 {
        let mut tickets = Vec::new();
        for file in &files {
            tickets.push(bench.submit(write(*file, round * 3, b"abc")));
            tickets.push(bench.submit(StorageOp::Sync { file: *file }));
            tickets.push(bench.submit(StorageOp::Sync { file: *file }));
        }
        bench.settle();
        if round == 0 {
            // A file that the same batch makes may or may not be there yet.
            bench.ended.clear();
        } else {
            for ticket in tickets {
                assert_eq!(bench.outcome(ticket), Ok(Bytes::new()));
            }
        }
    }
    for file in files {
        assert_eq!(bench.content(file, 0, 9), b"abcabcabc");
    }
}

/// Old content, longer or shorter, is gone.
pub fn replacing_gives_the_new_content_whole<H: StorageHost>(bench: &mut Bench<'_, H>) {
    let group = bench.group();
    for file in [FileName::Snapshot { group, first_op: 3 }, FileName::Frontier { group }] {
        bench.done(StorageOp::Replace { file, data: Bytes::from_static(b"first content") });
        assert_eq!(bench.content(file, 0, 13), b"first content");
        bench.submit(write(file, 13, b", longer"));
        bench.submit(StorageOp::Replace { file, data: Bytes::from_static(b"second") });
        let after = bench.submit(read(file, 0, 6));
        let beyond = bench.submit(read(file, 0, 7));
        let later = bench.submit(write(file, 6, b"!"));
        bench.settle();
        assert_eq!(bench.outcome(after), Ok(Bytes::from_static(b"second")));
        assert!(
            matches!(bench.outcome(beyond), Err(StorageErrorKind::ShortRead) | Ok(_)),
            "the write after it may come first"
        );
        assert_eq!(bench.outcome(later), Ok(Bytes::new()));
        assert_eq!(bench.content(file, 0, 7), b"second!");
        bench.done(StorageOp::Sync { file });
    }
}

/// Allocation before, after and together with writes.
pub fn allocated_space_reads_as_zeros_and_loses_no_write<H: StorageHost>(bench: &mut Bench<'_, H>) {
    let file = bench.segment();
    bench.submit(StorageOp::Allocate { file, length: 100_000 });
    bench.submit(write(file, 0, b"head"));
    bench.submit(write(file, 50_000, b"middle"));
    bench.settle();
    assert_eq!(bench.content(file, 0, 5), b"head\0");
    assert_eq!(bench.content(file, 49_999, 8), b"\0middle\0");
    bench.submit(StorageOp::Allocate { file, length: 50 });
    bench.submit(StorageOp::Allocate { file, length: 200_000 });
    bench.submit(write(file, 250_000, b"end"));
    bench.settle();
    assert_eq!(bench.content(file, 0, 5), b"head\0", "less is no cut");
    assert_eq!(bench.content(file, 50_000, 6), b"middle");
    assert_eq!(bench.content(file, 249_999, 4), b"\0end");
}

/// Writes before the cut are cut, writes after it are not.
pub fn a_cut_takes_effect_before_later_writes<H: StorageHost>(bench: &mut Bench<'_, H>) {
    let file = bench.segment();
    bench.done(write(file, 0, &[1; 10_000]));
    for round in 0..20u64 {
        let length = 5000 + round;
        bench.submit(write(file, length, &[2; 3000]));
        bench.submit(StorageOp::Truncate { file, length });
        let short = bench.submit(read(file, 0, 5000 + 1 + round as u32));
        bench.settle();
        assert_eq!(bench.outcome(short), Err(StorageErrorKind::ShortRead));
        bench.submit(StorageOp::Truncate { file, length });
        let written = bench.submit(write(file, length, b"3"));
        bench.settle();
        assert_eq!(bench.outcome(written), Ok(Bytes::new()));
        assert_eq!(bench.content(file, 4999, 1), [1]);
        assert_eq!(bench.content(file, length, 1), b"3");
        assert_eq!(bench.run(read(file, length, 2)), Err(StorageErrorKind::ShortRead));
    }
    bench.done(StorageOp::Sync { file });
}

/// Removal, and a new file under the old name.
pub fn a_removed_file_is_gone_and_can_come_back<H: StorageHost>(bench: &mut Bench<'_, H>) {
    let file = bench.segment();
    bench.done(write(file, 0, b"old content"));
    bench.submit(StorageOp::Remove { file });
    let gone = bench.submit(read(file, 0, 1));
    bench.settle();
    assert_eq!(bench.outcome(gone), Err(StorageErrorKind::NotFound));
    bench.submit(write(file, 0, b"more"));
    bench.submit(StorageOp::Remove { file });
    bench.submit(write(file, 0, b"new"));
    bench.settle();
    assert_eq!(bench.content(file, 0, 3), b"new");
    assert_eq!(bench.run(read(file, 0, 4)), Err(StorageErrorKind::ShortRead));
    bench.done(StorageOp::Sync { file });
}

/// Removal of a group among operations on its files and those of others.
pub fn a_removed_group_is_gone_and_can_come_back<H: StorageHost>(bench: &mut Bench<'_, H>) {
    let (group, other) = (bench.group(), bench.segment());
    let files = [
        FileName::Segment { group, first_op: 1 },
        FileName::Index { group, first_op: 1 },
        FileName::Frontier { group },
    ];
    bench.done(write(other, 0, b"stays"));
    for file in files {
        bench.submit(write(file, 0, b"content"));
    }
    bench.submit(StorageOp::RemoveGroup { group });
    let tickets = files.map(|file| bench.submit(read(file, 0, 1)));
    bench.settle();
    for ticket in tickets {
        assert_eq!(bench.outcome(ticket), Err(StorageErrorKind::NotFound));
    }
    assert_eq!(bench.content(other, 0, 5), b"stays");
    bench.done(write(files[0], 0, b"again"));
    bench.done(StorageOp::Sync { file: files[0] });
    assert_eq!(bench.content(files[0], 0, 5), b"again");
}

/// Thousands of operations of all kinds in flight at once, drawn from `seed`, against a model.
pub fn many_operations_complete_once_each<H: StorageHost>(bench: &mut Bench<'_, H>, seed: u64) {
    let files: Vec<FileName> = (0..20).map(|_| bench.segment()).collect();
    let mut model: BTreeMap<FileName, Vec<u8>> = BTreeMap::new();
    let mut state = seed;
    let mut draw = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let (mut submitted, before) = (0, bench.ended.len());
    for _ in 0..4 {
        for _ in 0..600 {
            let file = files[draw(files.len() as u64) as usize];
            let content = model.entry(file).or_default();
            submitted += 1;
            match draw(20) {
                0 => {
                    let length = draw(3000);
                    content.resize(length as usize, 0);
                    bench.submit(StorageOp::Truncate { file, length });
                }
                1 => {
                    *content = vec![draw(256) as u8; draw(2000) as usize];
                    bench.submit(StorageOp::Replace { file, data: Bytes::from(content.clone()) });
                }
                2..5 => {
                    bench.submit(StorageOp::Sync { file });
                }
                5..7 => {
                    let length = draw(4000);
                    content.resize(content.len().max(length as usize), 0);
                    bench.submit(StorageOp::Allocate { file, length });
                }
                7..9 => {
                    bench.submit(read(file, draw(2000), draw(2000) as u32));
                }
                _ => {
                    let at = if draw(2) == 0 { content.len() } else { draw(3000) as usize };
                    let bytes = vec![draw(256) as u8; draw(900) as usize];
                    content.resize(content.len().max(at + bytes.len()), 0);
                    content[at..at + bytes.len()].copy_from_slice(&bytes);
                    bench.submit(StorageOp::Write { file, position: at as u64, chunks: vec![Bytes::from(bytes)] });
                }
            }
        }
        bench.settle();
    }
    assert_eq!(bench.ended.len() - before, submitted, "every ticket completes");
    bench.ended.clear();
    for (file, content) in model {
        assert_eq!(bench.content(file, 0, content.len() as u32), content, "{file}");
        let beyond = read(file, 0, content.len() as u32 + 1);
        assert_eq!(bench.run(beyond), Err(StorageErrorKind::ShortRead), "{file} has grown");
    }
}

/// On a disk or under a limit with room for 64 to 1000 KiB: a write that does not fit fails for want of room, what was
/// there is kept and read, and when there is room again writes succeed. `make_room` raises the limit, or gives `false`
/// where that can't be done; then room is made by removing the file.
pub fn a_full_disk_refuses_writes_and_recovers<H: StorageHost>(
    bench: &mut Bench<'_, H>,
    make_room: impl FnOnce(&mut H) -> bool,
) {
    let (kept, growing) = (bench.segment(), bench.segment());
    bench.done(write(kept, 0, b"kept"));
    bench.done(StorageOp::Sync { file: kept });
    let large = vec![5u8; 2 << 20];
    assert_eq!(bench.run(write(growing, 0, &large)), Err(StorageErrorKind::NoSpace));
    assert_eq!(
        bench.run(StorageOp::Allocate { file: growing, length: large.len() as u64 }),
        Err(StorageErrorKind::NoSpace)
    );
    let group = bench.group();
    let snapshot = FileName::Snapshot { group, first_op: 1 };
    assert_eq!(
        bench.run(StorageOp::Replace { file: snapshot, data: Bytes::from(large.clone()) }),
        Err(StorageErrorKind::NoSpace)
    );
    assert_eq!(bench.run(read(snapshot, 0, 1)), Err(StorageErrorKind::NotFound), "nothing half-made is left");
    assert_eq!(bench.content(kept, 0, 4), b"kept");
    bench.done(StorageOp::Remove { file: growing });
    bench.done(write(growing, 0, &large[..32 << 10]));
    bench.done(StorageOp::Sync { file: growing });
    if make_room(bench.host) {
        bench.done(write(growing, 0, &large));
        assert_eq!(bench.content(growing, large.len() as u64 - 2, 2), [5, 5]);
    }
}
