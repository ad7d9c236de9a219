//! The clock that hosts hand to the state machines.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use whippet_vsr::Now;

static START: OnceLock<Instant> = OnceLock::new();

/// The present time. The monotonic part starts near 0 with the process.
pub fn now() -> Now {
    let monotonic_ns = u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX);
    Now { monotonic_ns, wall_us: wall_us() }
}

/// Microseconds since 1970, 0 when the machine's clock is set to before that.
pub fn wall_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}
