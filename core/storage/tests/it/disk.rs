//! The portable host and the io_uring host on real files.

use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use whippet_storage::conformance::{self, Bench};
use whippet_storage::{
    DataDirectory, Engine, FileName, GroupDirectory, Host, HostSettings, Identity, PreviousStop, RecoverySource,
    StorageHost, StorageOp, Writes,
};

/// How a test waits for its host: on the descriptor or for the call that the host promises, and on nothing else.
pub enum Waiting {
    Descriptor(OwnedFd),
    Call(Receiver<()>),
}

impl Waiting {
    pub fn wait(&mut self, longest: Duration) {
        match self {
            Waiting::Call(called) => {
                called.recv_timeout(longest).expect("the host calls when a completion has come");
            }
            Waiting::Descriptor(fd) => {
                let timeout = Timespec { tv_sec: i64::try_from(longest.as_secs()).expect("short"), tv_nsec: 0 };
                let ready = loop {
                    match poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&timeout)) {
                        // The kernel interrupts the thread to complete operations on it.
                        Err(rustix::io::Errno::INTR) => {}
                        other => break other.expect("poll"),
                    }
                };
                assert_eq!(ready, 1, "the descriptor becomes readable when a completion has come");
                let mut counter = [0; 8];
                assert_eq!(rustix::io::read(fd, &mut counter), Ok(8));
            }
        }
    }
}

pub fn identity() -> Identity {
    Identity { cluster_id: 7, replica_id: 0, replica_count: 1, disk: 99 }
}

/// A host of that kind, or `None` where the kernel forbids io_uring; then the reason was checked.
pub fn open(directory: &DataDirectory, settings: HostSettings) -> Option<(Host, Waiting)> {
    let (called, calls) = channel();
    let wake = move || {
        // A test that has ended listens no more.
        let _ = called.send(());
    };
    let (host, report) = Host::open_with(directory, settings, Arc::new(wake)).expect("opens");
    if settings.engine == Engine::Portable {
        assert_eq!((report.engine, report.fallback), ("the portable host", None));
        return Some((host, Waiting::Call(calls)));
    }
    match host.event_fd() {
        Some(fd) => {
            assert_eq!((report.engine, report.fallback), ("io_uring", None));
            let fd = fd.as_fd().try_clone_to_owned().expect("a copy");
            Some((host, Waiting::Descriptor(fd)))
        }
        None => {
            assert_eq!(report.engine, "the portable host");
            assert!(report.fallback.is_some_and(|reason| reason.contains("io_uring")));
            None
        }
    }
}

/// All kinds of hosts, with few open files so that files are closed and opened again.
pub fn kinds() -> [HostSettings; 3] {
    let few = |engine, writes| HostSettings { engine, writes, open_files: 4 };
    [few(Engine::Portable, Writes::Inline), few(Engine::Auto, Writes::Ring), few(Engine::Auto, Writes::Inline)]
}

fn on_each_host(check: impl Fn(&Path, &mut Bench<'_, Host>)) {
    for settings in kinds() {
        let temp = tempfile::tempdir().expect("temp");
        let directory = DataDirectory::open(temp.path(), identity()).expect("open");
        let Some((mut host, mut waiting)) = open(&directory, settings) else { continue };
        check(temp.path(), &mut Bench::new(&mut host, 1, &mut |longest| waiting.wait(longest)));
        assert_eq!(host.in_flight(), 0, "{settings:?}");
    }
}

const GROUP: GroupDirectory = GroupDirectory { number: 900, life: 3 };
const SEGMENT: FileName = FileName::Segment { group: GROUP, first_op: 1 };

#[test]
fn the_contract_holds() {
    on_each_host(|_, bench| {
        conformance::all(bench);
        for seed in 0..2 {
            conformance::many_operations_complete_once_each(bench, seed);
        }
    });
}

#[test]
fn cold_reads_complete_and_wake() {
    on_each_host(|path, bench| {
        let content: Vec<u8> = (0..1 << 20).map(|at: u32| (at >> 8) as u8).collect();
        let write = StorageOp::Write { file: SEGMENT, position: 0, chunks: vec![Bytes::from(content.clone())] };
        assert_eq!(bench.run(write), Ok(Bytes::new()));
        assert_eq!(bench.run(StorageOp::Sync { file: SEGMENT }), Ok(Bytes::new()));
        for round in 0..20u64 {
            let file = std::fs::File::open(path.join(SEGMENT.to_string())).expect("open");
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("forget the cached pages");
            let position = round * 50_000;
            let read = StorageOp::Read { file: SEGMENT, position, length: 40_000 };
            assert_eq!(bench.run(read).expect("read"), content[position as usize..][..40_000]);
        }
    });
}

#[test]
fn recovery_reads_what_a_host_wrote_and_no_half_made_files() {
    let temp = tempfile::tempdir().expect("temp");
    for settings in kinds() {
        let directory = DataDirectory::open(temp.path(), identity()).expect("open");
        let Some((mut host, mut waiting)) = open(&directory, settings) else { continue };
        let mut wait = |longest| waiting.wait(longest);
        let mut bench = Bench::new(&mut host, 1, &mut wait);
        let snapshot = FileName::Snapshot { group: GROUP, first_op: 7 };
        let table = FileName::GroupTable { part: 2 };
        for (file, bytes) in [(SEGMENT, "records"), (table, "entries")] {
            let write = StorageOp::Write { file, position: 0, chunks: vec![Bytes::from_static(bytes.as_bytes())] };
            assert_eq!(bench.run(write), Ok(Bytes::new()));
        }
        assert_eq!(
            bench.run(StorageOp::Replace { file: snapshot, data: Bytes::from_static(b"state") }),
            Ok(Bytes::new())
        );
        assert_eq!(directory.groups().expect("list"), [GROUP]);
        assert_eq!(directory.files(GROUP).expect("list"), [(SEGMENT, 7), (snapshot, 5)]);
        assert_eq!(directory.node_files().expect("list"), [(table, 7)]);
        assert_eq!(directory.read(snapshot, 0, 10).expect("read"), "state");
        assert_eq!(directory.strays().expect("list"), [] as [&str; 0]);
        assert_eq!(bench.run(StorageOp::RemoveGroup { group: GROUP }), Ok(Bytes::new()));
        assert_eq!(directory.groups().expect("list"), []);
    }
}

#[test]
fn the_number_of_open_files_is_bounded() {
    on_each_host(|path, bench| {
        let open_now = || {
            let root = path.canonicalize().expect("there");
            let links = std::fs::read_dir("/proc/self/fd")
                .expect("list")
                .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
            links.filter(|target| target.starts_with(root.join("partitions"))).count()
        };
        let file = |number| FileName::Segment { group: GroupDirectory { number, life: 1 }, first_op: 1 };
        let write =
            |number| StorageOp::Write { file: file(number), position: 0, chunks: vec![Bytes::from_static(b"x")] };
        let tickets: Vec<_> = (1..=40).map(|number| bench.submit(write(number))).collect();
        bench.settle();
        for ticket in tickets {
            assert_eq!(bench.outcome(ticket), Ok(Bytes::new()));
        }
        assert_eq!(open_now(), 40, "files with unsynced writes stay open");
        let tickets: Vec<_> = (1..=40).map(|number| bench.submit(StorageOp::Sync { file: file(number) })).collect();
        bench.settle();
        for ticket in tickets {
            assert_eq!(bench.outcome(ticket), Ok(Bytes::new()));
        }
        assert_eq!(open_now(), 4);
        let read = |number| StorageOp::Read { file: file(number), position: 0, length: 1 };
        for number in 1..=40 {
            assert_eq!(bench.run(read(number)), Ok(Bytes::from_static(b"x")));
        }
        assert_eq!(open_now(), 4);
    });
}

#[test]
fn a_host_that_goes_waits_for_what_it_has_begun() {
    for settings in kinds() {
        let temp = tempfile::tempdir().expect("temp");
        let directory = DataDirectory::open(temp.path(), identity()).expect("open");
        let Some((mut host, _)) = open(&directory, settings) else { continue };
        for number in 0..300u64 {
            let file = FileName::Segment { group: GROUP, first_op: number % 7 };
            let chunks = vec![Bytes::from(vec![1; 100_000])];
            for op in [StorageOp::Write { file, position: number * 50_000, chunks }, StorageOp::Sync { file }] {
                host.submit(whippet_storage::StorageEffect { ticket: whippet_storage::StorageTicket(number), op });
            }
        }
        host.flush();
        drop(host);
        drop(directory);
        let directory = DataDirectory::open(temp.path(), identity()).expect("again");
        assert_eq!(directory.previous_stop(), PreviousStop::UncleanSameBoot);
        assert!(directory.files(GROUP).expect("list").iter().all(|(_, length)| length % 50_000 == 0));
    }
}
