//! What the measured server's process has used, from `/proc`.

use super::failure::BenchError;

/// A reading of one process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// Processor time in user mode, seconds.
    pub user: f64,
    /// Processor time in the kernel, seconds.
    pub system: f64,
    /// Resident memory, bytes.
    pub resident: u64,
}

impl Usage {
    /// Reads it.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn of(pid: u32) -> Result<Usage, BenchError> {
        let path = format!("/proc/{pid}/stat");
        let text = std::fs::read_to_string(&path).map_err(|error| BenchError::io(format!("read {path}"), error))?;
        let ticks = rustix::param::clock_ticks_per_second();
        let page = rustix::param::page_size() as u64;
        parse(&text, ticks, page).ok_or(BenchError::Arguments(format!("{path} is not understood")))
    }
}

/// Fields 14, 15 (ticks) and 24 (pages); they are counted behind the name, which may hold anything in its parentheses.
fn parse(stat: &str, ticks_per_second: u64, page_size: u64) -> Option<Usage> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let seconds = |ticks: u64| ticks as f64 / ticks_per_second as f64;
    Some(Usage { user: seconds(number(14)?), system: seconds(number(15)?), resident: number(24)? * page_size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_any_name() {
        let stat =
            "7 (a) b) (c) S 1 7 7 0 -1 4194560 900 0 0 0 150 250 0 0 20 0 4 0 100 200000 512 18446744073709551615 1";
        assert_eq!(parse(stat, 100, 4096), Some(Usage { user: 1.5, system: 2.5, resident: 512 * 4096 }));
        assert_eq!(parse("7 (a) S 1", 100, 4096), None);
    }

    #[test]
    fn this_process_can_be_read() {
        let usage = Usage::of(std::process::id()).expect("this process exists");
        assert!(usage.resident > 100_000);
    }
}
