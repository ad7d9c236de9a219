//! No room: under a limit on the size of files, which works for every user, and on a small file system where one can be
//! mounted.

use crate::disk::{identity, kinds, open};
use std::path::Path;
use std::process::{Command, Stdio};
use whippet_storage::conformance::{self, Bench};
use whippet_storage::{DataDirectory, DataDirectoryError, PreviousStop};

const IN_CHILD: &str = "WHIPPET_TEST_FULL_DISK";

fn check(path: &Path) {
    for (index, settings) in kinds().into_iter().enumerate() {
        let directory = DataDirectory::open(&path.join(index.to_string()), identity()).expect("open");
        let Some((mut host, mut waiting)) = open(&directory, settings) else { continue };
        let mut wait = |longest| waiting.wait(longest);
        conformance::a_full_disk_refuses_writes_and_recovers(&mut Bench::new(&mut host, 1, &mut wait), |_| false);
        drop(host);
        std::fs::remove_dir_all(directory.root()).expect("remove");
    }
}

/// Runs one test of this program under `prepare`, a shell's commands.
fn in_child(test: &str, prepare: &str) {
    let program = std::env::current_exe().expect("own path");
    let output = Command::new("sh")
        .args(["-c", &format!("{prepare}; exec \"$0\" --exact {test} --nocapture --test-threads=1")])
        .arg(program)
        .env(IN_CHILD, "1")
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn a_limit_on_the_size_of_files_is_want_of_room() {
    if std::env::var_os(IN_CHILD).is_none() {
        // The signal that comes with the limit must not end the process. 256 blocks of 512 or 1024 bytes.
        return in_child("full::a_limit_on_the_size_of_files_is_want_of_room", "trap '' XFSZ; ulimit -f 256");
    }
    let temp = tempfile::tempdir().expect("temp");
    check(temp.path());
}

#[test]
fn a_full_file_system_is_want_of_room() {
    let temp = tempfile::tempdir().expect("temp");
    let mount =
        |arguments: &[&str]| Command::new("mount").args(arguments).arg(temp.path()).stderr(Stdio::null()).status();
    if !mount(&["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).is_ok_and(|status| status.success()) {
        // Only root may mount; the limit above checks the same for everybody.
        return;
    }
    let result = std::panic::catch_unwind(|| {
        check(temp.path());
        // A directory on a full disk can still be opened: reads go on there.
        let path = temp.path().join("full");
        drop(DataDirectory::open(&path, identity()).expect("first"));
        let filler = std::fs::File::create(path.join("metadata/filler")).expect("create");
        while std::io::Write::write(&mut &filler, &[0; 4096]).is_ok_and(|written| written == 4096) {}
        let directory = DataDirectory::open(&path, identity()).expect("again");
        assert_eq!((directory.previous_stop(), directory.start_number()), (PreviousStop::UncleanSameBoot, 2));
        assert_eq!(directory.space().expect("space").free, 0);
        directory.mark_clean().expect("in place");
        drop(directory);
        assert_eq!(DataDirectory::open(&path, identity()).expect("again").previous_stop(), PreviousStop::Clean);
        drop(filler);
        assert!(mount(&["-o", "remount,ro"]).expect("mount").success());
        for path in [path, temp.path().join("new")] {
            match DataDirectory::open(&path, identity()) {
                Err(error @ DataDirectoryError::ReadOnly { .. }) => {
                    assert!(error.to_string().contains("mounted read-only"), "{error}")
                }
                other => panic!("{other:?}"),
            }
        }
    });
    let unmounted = Command::new("umount").arg(temp.path()).status().expect("umount");
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
    assert!(unmounted.success(), "no file of it is open any more");
}
