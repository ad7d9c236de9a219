//! Who may use a data directory.

use super::{assert_content, client, fill, topic};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use whippet_sdk_tests::process::is_root;
use whippet_sdk_tests::{Server, ServerOptions, StartFailure, tmpfs::Tmpfs, tree};

/// Starts a server on `data`, which must end by itself with an error in a short time.
#[track_caller]
fn refused(data: &Path) -> StartFailure {
    let options = ServerOptions::default().deadline(Duration::from_secs(10));
    let Err(failure) = options.try_start_at(data) else { panic!("a server started on {}", data.display()) };
    assert!(failure.status.is_some_and(|status| !status.success()), "{failure}");
    assert!(failure.took < Duration::from_secs(3), "refusing took {:?}", failure.took);
    failure
}

#[test]
fn a_second_server_is_refused_and_told_the_first() {
    let server = Server::start();
    let mut connection = client(&server);
    let stream = connection.create_stream("s").expect("create stream");
    let target = topic(&mut connection, stream, "t", &[]);
    fill(&mut connection, target, 0..5, 100);
    let failure = refused(server.data());
    assert!(
        failure.text().contains(&server.pid().to_string()),
        "the message names process {}: {failure}",
        server.pid()
    );
    fill(&mut connection, target, 5..8, 100);
    assert_content(&mut connection, target, 8, 100);
}

#[test]
fn a_crash_leaves_no_lock_behind() {
    let mut server = Server::start();
    let first = server.pid();
    server.kill9();
    server.start_again();
    assert_ne!(server.pid(), first);
    client(&server).ping().expect("ping");
}

#[test]
fn a_missing_parent_is_made_or_named() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let data = folder.path().join("x/y/data");
    match ServerOptions::default().try_start_at(&data) {
        Ok(mut server) => {
            client(&server).ping().expect("ping");
            server.terminate();
            assert!(!tree::files(&data).is_empty(), "the data is where it was asked for");
        }
        Err(failure) => assert!(failure.text().contains("x/y"), "the message names the folder: {failure}"),
    }
}

#[test]
fn a_file_in_the_place_of_the_directory_is_named() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let data = folder.path().join("data");
    std::fs::write(&data, b"a file").expect("write");
    let failure = refused(&data);
    assert!(failure.text().contains(&*data.to_string_lossy()), "the message names the path: {failure}");
    assert_eq!(tree::read(&data), b"a file");
}

#[test]
fn a_directory_without_write_permission_is_named() {
    if is_root() {
        eprintln!("not run: root may write everywhere; the read-only file system below covers this case");
        return;
    }
    let folder = tempfile::tempdir().expect("temporary folder");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("create folder");
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o500)).expect("permissions");
    let failure = refused(&data);
    assert!(failure.text().contains(&*data.to_string_lossy()), "the message names the path: {failure}");
}

#[test]
fn a_read_only_file_system_is_named() {
    if !is_root() {
        eprintln!("not run: mounting needs root");
        return;
    }
    let tmpfs = match Tmpfs::mount(64) {
        Ok(tmpfs) => tmpfs,
        Err(reason) => {
            eprintln!("not run: {reason}");
            return;
        }
    };
    let data = tmpfs.data();
    std::fs::create_dir(&data).expect("create folder");
    tmpfs.make_read_only();
    let failure = refused(&data);
    assert!(failure.text().contains(&*data.to_string_lossy()), "the message names the path: {failure}");
}
