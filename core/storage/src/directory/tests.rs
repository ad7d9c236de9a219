//! Opening directories of every kind.

use super::*;
use std::os::unix::fs::PermissionsExt;

fn identity() -> Identity {
    Identity { cluster_id: 7 << 64, replica_id: 0, replica_count: 1, disk: 99 }
}

fn sentence(path: &Path, identity: Identity) -> String {
    DataDirectory::open(path, identity).expect_err("refused").to_string()
}

#[test]
fn times_are_written_as_people_read_them() {
    for (seconds, text) in [
        (0, "1970-01-01T00:00:00Z"),
        (951_782_399, "2000-02-28T23:59:59Z"),
        (951_782_400, "2000-02-29T00:00:00Z"),
        (1_735_689_599, "2024-12-31T23:59:59Z"),
        (1_798_720_496, "2026-12-31T12:34:56Z"),
        (4_107_542_400, "2100-03-01T00:00:00Z"),
    ] {
        assert_eq!(utc(Duration::from_secs(seconds)), text);
    }
}

#[test]
fn a_missing_directory_is_made_with_those_above_it_for_this_user_alone() {
    let temp = tempfile::tempdir().expect("temp");
    let path = temp.path().join("var/lib/whippet");
    let directory = DataDirectory::open(&path, identity()).expect("made");
    assert_eq!(directory.root(), path.canonicalize().expect("there"));
    assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o700);
    let space = directory.space().expect("space");
    assert!(space.free > 0 && space.free <= space.total, "{space:?}");
}

#[test]
fn a_second_open_is_refused_and_names_the_process() {
    let temp = tempfile::tempdir().expect("temp");
    let first = DataDirectory::open(temp.path(), identity()).expect("first");
    assert_eq!((first.previous_stop(), first.start_number()), (PreviousStop::FirstStart, 1));
    let refused = sentence(temp.path(), identity());
    assert!(refused.contains(&format!("process {} (whippet), started 20", std::process::id())), "{refused}");
    drop(first);
    let second = DataDirectory::open(temp.path(), identity()).expect("free again");
    assert_eq!((second.previous_stop(), second.start_number()), (PreviousStop::UncleanSameBoot, 2));
    second.mark_clean().expect("clean");
    drop(second);
    let third = DataDirectory::open(temp.path(), Identity { disk: 1, ..identity() }).expect("again");
    assert_eq!((third.previous_stop(), third.start_number(), third.identity().disk), (PreviousStop::Clean, 3, 99));
    drop(third);
    let fourth = DataDirectory::open(temp.path(), identity()).expect("again");
    assert_eq!(fourth.previous_stop(), PreviousStop::UncleanSameBoot, "the note of a clean stop holds for one start");
}

#[test]
fn another_boot_is_told_from_this_one() {
    let temp = tempfile::tempdir().expect("temp");
    drop(DataDirectory::open(temp.path(), identity()).expect("first"));
    let run = Run { start_number: 41, boot: boot_id() ^ 1, clean: false, settled: true, lost: (0, 0) };
    std::fs::write(temp.path().join(RUN), encode_run(&run)).expect("write");
    let directory = DataDirectory::open(temp.path(), identity()).expect("again");
    assert_eq!((directory.previous_stop(), directory.start_number()), (PreviousStop::UncleanOtherBoot, 42));
}

#[test]
fn other_clusters_and_replicas_are_refused_with_both_names() {
    let temp = tempfile::tempdir().expect("temp");
    drop(DataDirectory::open(temp.path(), identity()).expect("first"));
    let other = sentence(temp.path(), Identity { cluster_id: 8 << 64, ..identity() });
    let path = temp.path().canonicalize().expect("there").display().to_string();
    for part in [path.as_str(), "00000000000000070000000000000000", "00000000000000080000000000000000", "cluster.name"]
    {
        assert!(other.contains(part), "{other}");
    }
    let other = sentence(temp.path(), Identity { replica_id: 1, replica_count: 3, ..identity() });
    assert!(other.contains("replica 0 of 1") && other.contains("replica 1 of 3"), "{other}");
    let run = decode_run(&std::fs::read(temp.path().join(RUN)).expect("read"));
    assert_eq!(run.map(|run| run.start_number), Some(1), "a refused start is no start");
}

#[test]
fn a_newer_format_is_refused_as_such() {
    let temp = tempfile::tempdir().expect("temp");
    drop(DataDirectory::open(temp.path(), identity()).expect("first"));
    let path = temp.path().join(IDENTITY);
    let mut bytes = std::fs::read(&path).expect("read");
    bytes[8] = 9;
    std::fs::write(&path, &bytes).expect("write");
    let refused = sentence(temp.path(), identity());
    assert!(refused.contains("a newer program (format 9)"), "{refused}");
}

#[test]
fn a_directory_of_someone_else_is_left_as_it_was() {
    let temp = tempfile::tempdir().expect("temp");
    std::fs::write(temp.path().join("thesis.txt"), "years of work").expect("write");
    let refused = sentence(temp.path(), identity());
    assert!(refused.contains("`thesis.txt`"), "{refused}");
    assert_eq!(std::fs::read_dir(temp.path()).expect("list").count(), 1, "nothing was added");
}

#[test]
fn what_a_first_start_left_half_way_is_taken_over() {
    let temp = tempfile::tempdir().expect("temp");
    std::fs::write(temp.path().join(LOCK), "process 1 (whippet)\n").expect("write");
    std::fs::write(temp.path().join("whippet.identity.new"), "half").expect("write");
    let directory = DataDirectory::open(temp.path(), identity()).expect("taken over");
    assert_eq!(directory.previous_stop(), PreviousStop::FirstStart);
    assert!(!temp.path().join("whippet.identity.new").exists());
}

#[test]
fn damaged_stamps_are_refused_by_name() {
    let temp = tempfile::tempdir().expect("temp");
    drop(DataDirectory::open(temp.path(), identity()).expect("first"));
    for name in [IDENTITY, RUN] {
        let path = temp.path().join(name);
        let good = std::fs::read(&path).expect("read");
        let mut bytes = good.clone();
        bytes[20] ^= 1;
        std::fs::write(&path, &bytes).expect("write");
        let refused = sentence(temp.path(), identity());
        assert!(refused.contains(&format!("{name} is damaged: it does not match its checksum")), "{refused}");
        assert_eq!(std::fs::read(&path).expect("read"), bytes, "nothing was changed");
        std::fs::write(&path, good).expect("write");
    }
}

#[test]
fn a_file_in_its_place_and_above_it_is_named() {
    let temp = tempfile::tempdir().expect("temp");
    let path = temp.path().join("data");
    std::fs::write(&path, "x").expect("write");
    for refused in [sentence(&path, identity()), sentence(&path.join("below"), identity())] {
        assert!(refused.contains("data") && refused.contains("is a file; data_dir must name a directory"), "{refused}");
    }
}

#[test]
fn refusals_of_the_system_name_path_user_and_mode() {
    let path = Path::new("/srv/whippet");
    let refused = denied("open", path, io::ErrorKind::PermissionDenied.into()).to_string();
    let user = format!("uid {}", uid());
    for part in ["open /srv/whippet", user.as_str(), "mode 0700"] {
        assert!(refused.contains(part), "{refused}");
    }
    let refused = denied("write", path, io::ErrorKind::ReadOnlyFilesystem.into()).to_string();
    for part in ["/srv/whippet", "mounted read-only", user.as_str(), "mode 0700"] {
        assert!(refused.contains(part), "{refused}");
    }
}

#[test]
fn a_loss_is_told_until_it_has_been_made_up_for() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let open = || DataDirectory::open(folder.path(), identity()).expect("opens");
    assert_eq!(open().lost_runs(), None);
    let stop_machine = |settled: bool, lost: (u64, u64), start_number: u64| {
        let run = Run { start_number, boot: boot_id() ^ 1, clean: false, settled, lost };
        std::fs::write(folder.path().join(RUN), encode_run(&run)).expect("writes");
    };
    stop_machine(true, (0, 0), 5);
    let sixth = open();
    assert_eq!((sixth.start_number(), sixth.lost_runs()), (6, Some((5, 5))));
    drop(sixth);
    let seventh = open();
    assert_eq!(seventh.lost_runs(), Some((5, 6)), "the sixth did not get far");
    drop(seventh);
    stop_machine(false, (5, 5), 7);
    let eighth = open();
    assert_eq!(eighth.lost_runs(), Some((5, 7)), "the machine stopped again");
    eighth.mark_settled().expect("writes");
    drop(eighth);
    assert_eq!(open().lost_runs(), None);
}
