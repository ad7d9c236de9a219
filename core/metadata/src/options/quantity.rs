//! Durations and byte sizes as people write them in settings, on command lines and in option values.

/// A text that is no duration or no byte size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct InvalidQuantity {
    /// The first 64 characters of the text.
    pub text: String,
    /// What was asked for, with an example.
    pub expected: &'static str,
}

impl InvalidQuantity {
    fn new(text: &str, expected: &'static str) -> Self {
        Self { text: text.chars().take(64).collect(), expected }
    }
}

/// Reads a duration: one or more numbers with a unit, such as `7 days`, `1h 30m`, `15days 2min 2s` or `1.5h`, or a number
/// alone, which counts microseconds. Units are those of systemd-like settings from nanoseconds to years (a month is 30.44
/// days, a year 365.25); their case is ignored, except that `M` is a month and `m` a minute. Parts of a microsecond are
/// dropped.
///
/// # Errors
/// When the text is anything else, or the duration has no place in 64 bits of microseconds.
pub fn duration_us(text: &str) -> Result<u64, InvalidQuantity> {
    let invalid = || InvalidQuantity::new(text, "a duration such as `7 days`, `1h 30m` or `500ms`");
    let mut rest = text.trim();
    if let Some(microseconds) = digits_alone(rest) {
        return Ok(microseconds);
    }
    let mut nanoseconds = 0u128;
    while !rest.is_empty() {
        let (number, after_number) = Number::read(rest).ok_or_else(invalid)?;
        let after_number = after_number.trim_start();
        let unit_end = after_number.find(|c: char| !c.is_alphabetic()).unwrap_or(after_number.len());
        let (unit, after_unit) = after_number.split_at(unit_end);
        let span = number.times(nanoseconds_of(unit).ok_or_else(invalid)?, Rounding::Down).ok_or_else(invalid)?;
        nanoseconds = nanoseconds.checked_add(span).ok_or_else(invalid)?;
        rest = after_unit.trim_start();
    }
    if text.trim().is_empty() { Err(invalid()) } else { u64::try_from(nanoseconds / 1000).map_err(|_| invalid()) }
}

/// Reads a byte size: a number, then perhaps a unit, such as `128MiB`, `2 GB`, `1.5 TiB` or `4096`. `K`, `M`, `G`, `T` and
/// `P` are powers of 1000, with an `i` powers of 1024; a `B` may follow; case is ignored. Parts of a byte are rounded up.
///
/// # Errors
/// When the text is anything else, or the size has no place in 64 bits.
pub fn byte_size(text: &str) -> Result<u64, InvalidQuantity> {
    let invalid = || InvalidQuantity::new(text, "a size such as `128MiB`, `2GB` or `4096`");
    let (number, unit) = Number::read(text.trim()).ok_or_else(invalid)?;
    let unit = bytes_of(unit.trim_start()).ok_or_else(invalid)?;
    let bytes = number.times(unit, Rounding::Up).ok_or_else(invalid)?;
    u64::try_from(bytes).map_err(|_| invalid())
}

fn digits_alone(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

fn nanoseconds_of(unit: &str) -> Option<u128> {
    const SECOND: u128 = 1_000_000_000;
    const DAY: u128 = 86_400 * SECOND;
    const MONTH: u128 = 2_630_016 * SECOND;
    if unit == "M" {
        return Some(MONTH);
    }
    Some(match unit.to_lowercase().as_str() {
        "ns" | "nsec" | "nanos" => 1,
        "us" | "µs" | "usec" | "micros" => 1000,
        "ms" | "msec" | "millis" => 1_000_000,
        "s" | "sec" | "secs" | "second" | "seconds" => SECOND,
        "m" | "min" | "mins" | "minute" | "minutes" => 60 * SECOND,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600 * SECOND,
        "d" | "day" | "days" => DAY,
        "w" | "wk" | "wks" | "week" | "weeks" => 7 * DAY,
        "month" | "months" => MONTH,
        "y" | "yr" | "yrs" | "year" | "years" => 31_557_600 * SECOND,
        _ => return None,
    })
}

fn bytes_of(unit: &str) -> Option<u128> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1000,
        "ki" | "kib" => 1 << 10,
        "m" | "mb" => 1_000_000,
        "mi" | "mib" => 1 << 20,
        "g" | "gb" => 1_000_000_000,
        "gi" | "gib" => 1 << 30,
        "t" | "tb" => 1_000_000_000_000,
        "ti" | "tib" => 1 << 40,
        "p" | "pb" => 1_000_000_000_000_000,
        "pi" | "pib" => 1 << 50,
        _ => return None,
    })
}

#[derive(Clone, Copy)]
enum Rounding {
    Down,
    Up,
}

/// A decimal number, kept exact.
struct Number {
    whole: u64,
    fraction: u64,
    /// Power of ten under `fraction`, at most 10^18.
    denominator: u64,
}

impl Number {
    const FRACTION_DIGITS_MAX: usize = 18;

    /// Reads `12` or `12.5` off the front and hands back what follows. A point wants digits on both sides.
    fn read(text: &str) -> Option<(Self, &str)> {
        let (whole, rest) = split_digits(text);
        let whole = whole.parse().ok()?;
        let Some(after_point) = rest.strip_prefix('.') else {
            return Some((Self { whole, fraction: 0, denominator: 1 }, rest));
        };
        let (digits, rest) = split_digits(after_point);
        if digits.len() > Self::FRACTION_DIGITS_MAX {
            return None;
        }
        let denominator = digits.bytes().fold(1, |power, _| power * 10);
        Some((Self { whole, fraction: digits.parse().ok()?, denominator }, rest))
    }

    fn times(&self, unit: u128, rounding: Rounding) -> Option<u128> {
        let part = u128::from(self.fraction).checked_mul(unit)?;
        let denominator = u128::from(self.denominator);
        let part = match rounding {
            Rounding::Down => part / denominator,
            Rounding::Up => part.div_ceil(denominator),
        };
        u128::from(self.whole).checked_mul(unit)?.checked_add(part)
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;
    const DAY: u64 = 86_400 * SECOND;

    #[test]
    fn durations_are_read() {
        let cases = [
            ("0", 0),
            ("604800000000", 7 * DAY),
            ("7 days", 7 * DAY),
            ("7days", 7 * DAY),
            ("1day", DAY),
            ("1 Day", DAY),
            ("2d", 2 * DAY),
            ("2w", 14 * DAY),
            ("3 weeks", 21 * DAY),
            ("1h 30m", 5400 * SECOND),
            ("1h30m", 5400 * SECOND),
            ("15days 2min 2s", 15 * DAY + 122 * SECOND),
            ("1.5h", 5400 * SECOND),
            ("0.5 days", DAY / 2),
            ("250ms", 250_000),
            ("12us", 12),
            ("12µs", 12),
            ("1999ns", 1),
            ("1ns", 0),
            ("1M", 2_630_016 * SECOND),
            ("1m", 60 * SECOND),
            ("1 month", 2_630_016 * SECOND),
            ("1year", 31_557_600 * SECOND),
            ("  5s  ", 5 * SECOND),
            ("1day 2h 3m 4s 5ms 6us", DAY + 7200 * SECOND + 184 * SECOND + 5006),
        ];
        for (text, microseconds) in cases {
            assert_eq!(duration_us(text), Ok(microseconds), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in [
            "",
            " ",
            "s",
            "7 dayz",
            "days 7",
            "-1s",
            "1..5s",
            "1.s",
            ".5s",
            "1,5s",
            "1s 2",
            "1e3s",
            "never",
            "18446744073709551616",
            "600000years",
            "9999999999999999999999s",
            "1.0000000000000000001s",
        ] {
            assert!(duration_us(text).is_err(), "{text:?}");
        }
        assert_eq!(
            duration_us("7 dayz").unwrap_err().to_string(),
            "`7 dayz` is not a duration such as `7 days`, `1h 30m` or `500ms`"
        );
        assert_eq!(duration_us(&"x".repeat(1000)).unwrap_err().text.len(), 64);
    }

    #[test]
    fn byte_sizes_are_read() {
        let cases = [
            ("0", 0),
            ("4096", 4096),
            ("10B", 10),
            ("10 b", 10),
            ("1K", 1000),
            ("1KB", 1000),
            ("1kb", 1000),
            ("1KiB", 1024),
            ("4 KiB", 4096),
            ("2MB", 2_000_000),
            ("128MiB", 128 << 20),
            ("128mib", 128 << 20),
            ("1Gi", 1 << 30),
            ("2GB", 2_000_000_000),
            ("568.00 MB", 568_000_000),
            ("1.5 GiB", 3 << 29),
            ("1TB", 1_000_000_000_000),
            ("1TiB", 1 << 40),
            ("1PiB", 1 << 50),
            ("0.3 B", 1),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, bytes) in cases {
            assert_eq!(byte_size(text), Ok(bytes), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_byte_size_is_refused() {
        for text in [
            "",
            "MiB",
            "-1",
            "1 XB",
            "1MiBs",
            "1.MiB",
            ".5MiB",
            "1 Mi B",
            "1,5GB",
            "18446744073709551616",
            "99999999PiB",
        ] {
            assert!(byte_size(text).is_err(), "{text:?}");
        }
    }
}
