//! What the kernel tells about a process.

/// Resident memory of the process `pid`, bytes.
///
/// # Panics
/// When the process is gone or the kernel reports no resident size for it.
#[must_use]
pub fn resident_bytes(pid: u32) -> u64 {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {path}: {error}"));
    resident_in(&status).unwrap_or_else(|| panic!("{path} has no resident size"))
}

fn resident_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// Whether this process has the rights of root, which mounting and permission tests need to know.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_resident_size() {
        assert_eq!(resident_in("Name:\tx\nVmRSS:\t    2048 kB\nThreads:\t1\n"), Some(2 * 1024 * 1024));
        assert_eq!(resident_in("Name:\tx\n"), None);
        assert!(resident_bytes(std::process::id()) > 100_000);
    }
}
