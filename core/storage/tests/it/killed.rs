//! A process that is killed gives its data directory back.

use crate::disk::identity;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use whippet_storage::{DataDirectory, DataDirectoryError, PreviousStop};

const IN_CHILD: &str = "WHIPPET_TEST_HOLD_DIRECTORY";

#[test]
fn the_lock_names_its_holder_and_goes_with_it() {
    if let Some(path) = std::env::var_os(IN_CHILD) {
        let _directory = DataDirectory::open(Path::new(&path), identity()).expect("open");
        eprintln!("directory is open");
        // Until the parent kills this process, or goes itself.
        let _ = std::io::stdin().read_line(&mut String::new());
        return;
    }
    let temp = tempfile::tempdir().expect("temp");
    let mut child = Command::new(std::env::current_exe().expect("own path"))
        .args(["--exact", "killed::the_lock_names_its_holder_and_goes_with_it", "--nocapture"])
        .env(IN_CHILD, temp.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a second process");
    let said = BufReader::new(child.stderr.take().expect("piped")).lines();
    assert!(said.map_while(Result::ok).any(|line| line == "directory is open"), "the child opens the directory");
    match DataDirectory::open(temp.path(), identity()) {
        Err(DataDirectoryError::InUse { by, .. }) => {
            assert!(by.starts_with(&format!("process {} (whippet), started ", child.id())), "{by}");
        }
        other => panic!("{other:?}"),
    }
    child.kill().expect("SIGKILL");
    child.wait().expect("ended");
    let directory = DataDirectory::open(temp.path(), identity()).expect("free again");
    assert_eq!((directory.previous_stop(), directory.start_number()), (PreviousStop::UncleanSameBoot, 2));
}
