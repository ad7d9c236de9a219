//! A memory file system of a chosen size, to fill up. Needs the rights of root.

use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A mounted memory file system; dropping it unmounts it.
pub struct Tmpfs {
    directory: TempDir,
}

impl Tmpfs {
    /// Mounts a new one with room for `mebibytes`.
    ///
    /// # Errors
    /// What `mount` said, for instance that this is not allowed here.
    ///
    /// # Panics
    /// When no temporary folder can be made.
    pub fn mount(mebibytes: u32) -> Result<Self, String> {
        let directory =
            TempDir::with_prefix("whippet-tmpfs-").unwrap_or_else(|error| panic!("temporary folder: {error}"));
        let options = format!("size={mebibytes}m");
        run("mount", &["-t", "tmpfs", "-o", &options, "tmpfs"], directory.path())?;
        Ok(Self { directory })
    }

    /// Gives it room for `mebibytes` while it is in use.
    ///
    /// # Panics
    /// When `mount` refuses.
    pub fn resize(&self, mebibytes: u32) {
        let options = format!("remount,size={mebibytes}m");
        run("mount", &["-o", &options], self.directory.path()).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Refuses all further writes to it.
    ///
    /// # Panics
    /// When `mount` refuses.
    pub fn make_read_only(&self) {
        run("mount", &["-o", "remount,ro"], self.directory.path()).unwrap_or_else(|error| panic!("{error}"));
    }

    /// A folder inside, to be made by its user.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // Lazy: a process that is still dying must not keep the mount.
        if let Err(error) = run("umount", &["-l"], self.directory.path()) {
            eprintln!("{error}");
        }
    }
}

fn run(program: &str, arguments: &[&str], path: &Path) -> Result<(), String> {
    let output =
        Command::new(program).args(arguments).arg(path).output().map_err(|error| format!("run {program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program} {}: {}", path.display(), String::from_utf8_lossy(&output.stderr).trim()))
}
