//! What a run came to, in figures.

use super::failure::BenchError;
use super::link::Exchanged;
use super::server_process::Usage;
use hdrhistogram::Histogram;
use serde_json::json;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Latencies are kept in microseconds up to this, with three digits.
const LATENCY_MAX_US: u64 = 120_000_000;

fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(LATENCY_MAX_US, 3).expect("the bounds are constants that the histogram takes")
}

/// What the connections of one thread, or of all, did.
#[derive(Debug)]
pub struct Tally {
    /// Exchanges that ended before are not in here.
    count_from: Instant,
    /// End of the last exchange.
    last: Instant,
    requests: u64,
    messages: u64,
    payload_bytes: u64,
    /// From the first byte written to the last byte read, µs.
    latency: Histogram<u64>,
    /// From the moment when the request was due to the last byte read, µs; empty without a pace.
    lateness: Histogram<u64>,
}

impl Tally {
    /// Nothing yet.
    pub fn new(count_from: Instant) -> Self {
        Self {
            count_from,
            last: count_from,
            requests: 0,
            messages: 0,
            payload_bytes: 0,
            latency: histogram(),
            lateness: histogram(),
        }
    }

    /// Counts an exchange that ended at `ended`.
    pub fn count(&mut self, ended: Instant, exchanged: &Exchanged, due: Option<Instant>) {
        if ended < self.count_from {
            return;
        }
        let since = |from: Instant| ended.saturating_duration_since(from).as_micros() as u64;
        self.last = self.last.max(ended);
        self.requests += 1;
        self.messages += exchanged.carried.messages;
        self.payload_bytes += exchanged.carried.payload_bytes;
        self.latency.saturating_record(since(exchanged.sent_at));
        if let Some(due) = due {
            self.lateness.saturating_record(since(due));
        }
    }

    /// Adds what another thread did in the same run.
    ///
    /// # Errors
    /// When the histograms do not fit each other, which equal ones do.
    pub fn add(&mut self, other: &Tally) -> Result<(), BenchError> {
        self.last = self.last.max(other.last);
        self.requests += other.requests;
        self.messages += other.messages;
        self.payload_bytes += other.payload_bytes;
        let unequal = |_| BenchError::Protocol("latencies of two threads cannot be added");
        self.latency.add(&other.latency).map_err(unequal)?;
        self.lateness.add(&other.lateness).map_err(unequal)
    }
}

/// A finished run.
#[derive(Debug)]
pub struct Report {
    /// What was run, in words.
    pub title: String,
    /// What was measured.
    pub tally: Tally,
    /// The pace that was asked for, in bytes a second.
    pub rate: Option<u64>,
    /// The server's process before and after.
    pub server: Option<(Usage, Usage)>,
}

impl Report {
    fn elapsed(&self) -> Duration {
        self.tally.last.duration_since(self.tally.count_from)
    }

    fn per_second(&self, amount: u64) -> f64 {
        let seconds = self.elapsed().as_secs_f64();
        if seconds > 0.0 { amount as f64 / seconds } else { 0.0 }
    }

    /// Processor seconds per 10^9 bytes of payload: user, system.
    fn cpu_per_gb(&self) -> Option<(f64, f64)> {
        let (before, after) = self.server?;
        let gigabytes = self.tally.payload_bytes as f64 / 1e9;
        (gigabytes > 0.0).then(|| ((after.user - before.user) / gigabytes, (after.system - before.system) / gigabytes))
    }

    /// Processor milliseconds per 1000 requests: user, system.
    fn cpu_per_1000_requests(&self) -> Option<(f64, f64)> {
        let (before, after) = self.server?;
        let thousands = self.tally.requests as f64 / 1000.0;
        (thousands > 0.0).then(|| {
            ((after.user - before.user) * 1000.0 / thousands, (after.system - before.system) * 1000.0 / thousands)
        })
    }

    /// For people.
    pub fn text(&self) -> String {
        let tally = &self.tally;
        let mut text = format!("{}\n", self.title);
        let _ = writeln!(
            text,
            "throughput   {:.1} MB/s · {:.0} requests/s · {:.0} messages/s",
            self.per_second(tally.payload_bytes) / 1e6,
            self.per_second(tally.requests),
            self.per_second(tally.messages),
        );
        let _ = writeln!(
            text,
            "amount       {:.1} MB in {} requests in {:.2} s",
            tally.payload_bytes as f64 / 1e6,
            tally.requests,
            self.elapsed().as_secs_f64()
        );
        if let Some(rate) = self.rate {
            let _ = writeln!(text, "pace         {:.1} MB/s asked for", rate as f64 / 1e6);
        }
        let _ = writeln!(text, "latency ms   {}", percentiles_text(&tally.latency));
        if self.rate.is_some() {
            let _ = writeln!(text, "from due ms  {}", percentiles_text(&tally.lateness));
        }
        if let (Some((before, after)), Some((user, system)), Some((request_user, request_system))) =
            (self.server, self.cpu_per_gb(), self.cpu_per_1000_requests())
        {
            let _ = writeln!(
                text,
                "server CPU   {:.3} s/GB (user {user:.3}, system {system:.3}) · {:.1} ms per 1000 requests",
                user + system,
                request_user + request_system
            );
            let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            let _ =
                writeln!(text, "server RSS   {:.1} MiB, {:.1} MiB before", mib(after.resident), mib(before.resident));
        }
        text
    }

    /// For programs: one object, times in microseconds.
    pub fn json(&self) -> String {
        let tally = &self.tally;
        let mut object = json!({
            "title": self.title,
            "seconds": self.elapsed().as_secs_f64(),
            "requests": tally.requests,
            "messages": tally.messages,
            "payload_bytes": tally.payload_bytes,
            "megabytes_per_second": self.per_second(tally.payload_bytes) / 1e6,
            "requests_per_second": self.per_second(tally.requests),
            "messages_per_second": self.per_second(tally.messages),
            "latency_us": percentiles_json(&tally.latency),
        });
        if let Some(rate) = self.rate {
            object["rate_bytes_per_second"] = rate.into();
            object["latency_from_due_us"] = percentiles_json(&tally.lateness);
        }
        if let (Some((before, after)), Some((user, system))) = (self.server, self.cpu_per_gb()) {
            object["server"] = json!({
                "user_seconds": after.user - before.user,
                "system_seconds": after.system - before.system,
                "user_seconds_per_gb": user,
                "system_seconds_per_gb": system,
                "resident_bytes": after.resident,
                "resident_bytes_before": before.resident,
            });
        }
        format!("{object}\n")
    }
}

const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];

fn percentiles_text(histogram: &Histogram<u64>) -> String {
    let milliseconds = |microseconds: u64| microseconds as f64 / 1000.0;
    let mut text = String::new();
    for (name, quantile) in PERCENTILES {
        let _ = write!(text, "{name} {:.2} · ", milliseconds(histogram.value_at_quantile(quantile)));
    }
    let _ = write!(text, "max {:.2}", milliseconds(histogram.max()));
    text
}

fn percentiles_json(histogram: &Histogram<u64>) -> serde_json::Value {
    let mut object = json!({ "max": histogram.max(), "mean": histogram.mean() });
    for (name, quantile) in PERCENTILES {
        object[name] = histogram.value_at_quantile(quantile).into();
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::workload::Carried;

    /// 1000 requests of 1 MB that take 1 to 1000 ms and end evenly over two seconds.
    fn report() -> Report {
        let begin = Instant::now();
        let mut tally = Tally::new(begin);
        let mut other = Tally::new(begin);
        for index in 1..=1000u64 {
            let ended = begin + Duration::from_millis(index * 2);
            let sent_at = ended.checked_sub(Duration::from_millis(index)).expect("later than the start");
            let exchanged = Exchanged { sent_at, carried: Carried { messages: 10, payload_bytes: 1_000_000 } };
            let half = if index % 2 == 0 { &mut tally } else { &mut other };
            half.count(ended, &exchanged, Some(begin));
        }
        tally.add(&other).expect("equal histograms");
        let before = Usage { user: 1.0, system: 2.0, resident: 10 << 20 };
        let after = Usage { user: 1.5, system: 3.0, resident: 20 << 20 };
        Report { title: "t".into(), tally, rate: Some(500_000_000), server: Some((before, after)) }
    }

    #[test]
    fn figures_are_those_of_the_run() {
        let value: serde_json::Value = serde_json::from_str(&report().json()).expect("JSON");
        let figure = |pointer: &str| value.pointer(pointer).and_then(serde_json::Value::as_f64).unwrap_or(f64::NAN);
        assert_eq!(figure("/requests"), 1000.0);
        assert_eq!(figure("/messages"), 10_000.0);
        assert_eq!(figure("/megabytes_per_second"), 500.0);
        assert_eq!(figure("/requests_per_second"), 500.0);
        assert_eq!((figure("/server/user_seconds_per_gb"), figure("/server/system_seconds_per_gb")), (0.5, 1.0));
        assert!((figure("/latency_us/p50") - 500_000.0).abs() < 1000.0, "{value}");
        assert!((figure("/latency_us/p99") - 990_000.0).abs() < 1000.0, "{value}");
        assert!((figure("/latency_us/max") - 1_000_000.0).abs() < 1000.0, "{value}");
        assert!((figure("/latency_from_due_us/p50") - 1_000_000.0).abs() < 2000.0, "{value}");
    }

    #[test]
    fn people_get_the_same_figures() {
        let text = report().text();
        for part in [
            "500.0 MB/s · 500 requests/s · 5000 messages/s",
            "1.500 s/GB (user 0.500, system 1.000)",
            "20.0 MiB, 10.0 MiB before",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn what_ended_before_counting_began_is_left_out() {
        let now = Instant::now();
        let mut tally = Tally::new(now + Duration::from_secs(1));
        let exchanged = Exchanged { sent_at: now, carried: Carried { messages: 1, payload_bytes: 1 } };
        tally.count(now, &exchanged, None);
        assert_eq!(tally.requests, 0);
    }
}
