//! Numbers about this process and its machine, from `/proc`.

use crate::views::Stats;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

/// What was read when it was asked for the last time: processor use is a difference.
struct Sample {
    at: Instant,
    process_ticks: u64,
    busy_ticks: u64,
    all_ticks: u64,
}

/// See the module documentation.
pub(crate) struct Process {
    started: Instant,
    start_us: u64,
    last: Mutex<Option<Sample>>,
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The number behind `key` in a text of `key value` lines.
fn number(text: &str, key: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|rest| rest.trim_start_matches(':').split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// A text that is never empty.
fn text(value: &str) -> String {
    if value.trim().is_empty() { "unknown".into() } else { value.trim().into() }
}

impl Process {
    pub(crate) fn new(start_us: u64) -> Process {
        Process { started: Instant::now(), start_us, last: Mutex::new(None) }
    }

    /// Fills in everything that is about the process and the machine.
    pub(crate) fn fill(&self, stats: &mut Stats, data_dir: &Path, version: &'static str) {
        let status = read("/proc/self/status");
        let memory = read("/proc/meminfo");
        let io = read("/proc/self/io");
        let release = read("/etc/os-release");
        let field = |key: &str| {
            release.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default().trim_matches('"').to_owned()
        };
        stats.process_id = std::process::id();
        stats.memory_usage = number(&status, "VmRSS") * 1024;
        stats.threads_count = u32::try_from(number(&status, "Threads")).unwrap_or(0);
        stats.total_memory = number(&memory, "MemTotal") * 1024;
        stats.available_memory = number(&memory, "MemAvailable") * 1024;
        stats.read_bytes = number(&io, "read_bytes");
        stats.written_bytes = number(&io, "write_bytes");
        stats.run_time = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        stats.start_time = self.start_us;
        stats.hostname = text(&read("/proc/sys/kernel/hostname"));
        stats.os_name = text(&field("NAME="));
        stats.os_version = text(&field("VERSION_ID="));
        stats.kernel_version = text(&read("/proc/sys/kernel/osrelease"));
        stats.server_version = version.to_owned();
        stats.server_semver = semver(version);
        if let Ok(space) = rustix::fs::statvfs(data_dir) {
            stats.free_disk_space = space.f_bavail * space.f_frsize;
            stats.total_disk_space = space.f_blocks * space.f_frsize;
        }
        self.processor(stats);
    }

    fn processor(&self, stats: &mut Stats) {
        // Behind the name in parentheses: state is field 3, user and system ticks are fields 14 and 15.
        let own = read("/proc/self/stat");
        let fields: Vec<u64> = own
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .skip(1)
            .map(|f| f.parse().unwrap_or(0))
            .collect();
        let process_ticks = fields.get(10).unwrap_or(&0) + fields.get(11).unwrap_or(&0);
        let all = read("/proc/stat");
        let columns: Vec<u64> =
            all.lines().next().unwrap_or_default().split_whitespace().skip(1).map(|f| f.parse().unwrap_or(0)).collect();
        let all_ticks: u64 = columns.iter().sum();
        let idle = columns.get(3).unwrap_or(&0) + columns.get(4).unwrap_or(&0);
        let now = Sample { at: Instant::now(), process_ticks, busy_ticks: all_ticks.saturating_sub(idle), all_ticks };
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (since, before_process, before_busy, before_all) = match &*last {
            Some(last) => (last.at, last.process_ticks, last.busy_ticks, last.all_ticks),
            None => (self.started, 0, 0, 0),
        };
        let seconds = now.at.duration_since(since).as_secs_f32().max(0.001);
        // The kernel's clock ticks a hundred times a second on every Linux that this runs on.
        stats.cpu_usage = now.process_ticks.saturating_sub(before_process) as f32 / seconds;
        let all = now.all_ticks.saturating_sub(before_all).max(1) as f32;
        stats.total_cpu_usage = 100.0 * now.busy_ticks.saturating_sub(before_busy) as f32 / all;
        *last = Some(now);
    }
}

/// A version as one number: major, then minor and patch as three digits each.
fn semver(version: &str) -> Option<u32> {
    let mut parts = version.split(['.', '-', '+']).map(|part| part.parse::<u32>().ok());
    let (major, minor, patch) = (parts.next()??, parts.next()??, parts.next()??);
    Some(major * 1_000_000 + minor * 1000 + patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_numbers() {
        assert_eq!(semver("0.1.0"), Some(1000));
        assert_eq!(semver("1.2.3"), Some(1_002_003));
        assert_eq!(semver("x"), None);
    }

    #[test]
    fn every_text_says_something_and_memory_is_real() {
        let mut stats = Stats::default();
        Process::new(5).fill(&mut stats, Path::new("/"), "0.1.0");
        for text in [&stats.hostname, &stats.os_name, &stats.os_version, &stats.kernel_version] {
            assert!(!text.is_empty());
        }
        assert!(stats.memory_usage > 100_000 && stats.total_memory > stats.memory_usage, "{stats:?}");
        assert!(stats.threads_count >= 1 && stats.total_disk_space > 0);
        assert_eq!((stats.process_id, stats.start_time), (std::process::id(), 5));
    }
}
