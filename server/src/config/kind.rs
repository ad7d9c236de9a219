//! Types of settings: what may be written, and what it comes to.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use toml::de::DeValue;
use whippet_metadata::options::quantity;

/// A value as it stands in the configuration file or in the table of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Literal {
    /// `true` or `false`.
    Switch(bool),
    /// A whole number.
    Number(u64),
    /// A text, also for sizes and durations.
    Text(&'static str),
    /// Several texts.
    List(&'static [&'static str]),
}

/// Type and range of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Switch,
    /// A whole number.
    Number {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
        /// What is counted.
        unit: &'static str,
    },
    /// Bytes: a number, or a text such as `64 MiB`.
    Size {
        /// Smallest, in bytes.
        min: u64,
        /// Largest, in bytes.
        max: u64,
    },
    /// A time span with its unit, such as `90s`.
    Duration {
        /// Shortest, in microseconds.
        min_us: u64,
        /// Longest, in microseconds.
        max_us: u64,
    },
    /// Any text of so many bytes.
    Text {
        /// Fewest bytes.
        bytes_min: usize,
        /// Most bytes.
        bytes_max: usize,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// An IP address (or `localhost`) and a port.
    Address {
        /// Whether an empty text is allowed, for "none".
        may_be_empty: bool,
    },
    /// Several texts; in an environment variable separated by commas.
    List {
        /// Most entries.
        items_max: usize,
    },
}

/// A value that fits its setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of a [`Kind::Switch`].
    Switch(bool),
    /// Of a [`Kind::Number`]; bytes of a [`Kind::Size`]; microseconds of a [`Kind::Duration`].
    Number(u64),
    /// Of a [`Kind::Text`] or [`Kind::Choice`].
    Text(String),
    /// Of a [`Kind::Address`]; `None` for the empty text.
    Address(Option<SocketAddr>),
    /// Of a [`Kind::List`].
    List(Vec<String>),
}

impl Kind {
    /// What may be written, for error messages and documents.
    pub fn expected(&self) -> String {
        match *self {
            Kind::Switch => "`true` or `false`".to_owned(),
            Kind::Number { min, max, unit } => format!("a whole number from {min} to {max} ({unit})"),
            Kind::Size { min, max } => format!("a size from {} to {}, such as `4 MiB`", size(min), size(max)),
            Kind::Duration { min_us, max_us } => {
                format!("a time span from {} to {}, such as `90s` or `1h 30m`", span(min_us), span(max_us))
            }
            Kind::Text { bytes_min: 0, bytes_max } => format!("a text of at most {bytes_max} bytes"),
            Kind::Text { bytes_min, bytes_max } => format!("a text of {bytes_min} to {bytes_max} bytes"),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            Kind::Address { may_be_empty: false } => "an IP address and a port, such as `127.0.0.1:8090`".to_owned(),
            Kind::Address { may_be_empty: true } => {
                "an IP address and a port, such as `127.0.0.1:8090`, or an empty text".to_owned()
            }
            Kind::List { items_max } => format!("a list of at most {items_max} texts"),
        }
    }

    /// Reads a value of the configuration file. `None`: it is not what [`Kind::expected`] says.
    pub fn read_toml(&self, value: &DeValue<'_>) -> Option<Value> {
        match (self, value) {
            (Kind::Switch, DeValue::Boolean(on)) => Some(Value::Switch(*on)),
            (Kind::Number { .. } | Kind::Size { .. }, DeValue::Integer(number)) => {
                let number = u64::from_str_radix(number.as_str(), number.radix()).ok()?;
                self.admit(Value::Number(number))
            }
            (Kind::Switch | Kind::Number { .. } | Kind::List { .. }, DeValue::String(_)) => None,
            (_, DeValue::String(text)) => self.read_text(text),
            (Kind::List { .. }, DeValue::Array(items)) => {
                let items = items.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
                self.admit(Value::List(items.collect::<Option<_>>()?))
            }
            _ => None,
        }
    }

    /// Reads the text of an environment variable. `None`: it is not what [`Kind::expected`] says.
    pub fn read_text(&self, text: &str) -> Option<Value> {
        let value = match self {
            Kind::Switch => Value::Switch(text.parse().ok()?),
            Kind::Number { .. } => Value::Number(text.parse().ok()?),
            Kind::Size { .. } => Value::Number(quantity::byte_size(text).ok()?),
            // A number alone would leave open whether seconds or milliseconds were meant.
            Kind::Duration { .. } if text.trim().bytes().all(|byte| byte.is_ascii_digit()) => return None,
            Kind::Duration { .. } => Value::Number(quantity::duration_us(text).ok()?),
            Kind::Text { .. } | Kind::Choice(_) => Value::Text(text.to_owned()),
            Kind::Address { .. } if text.is_empty() => Value::Address(None),
            Kind::Address { .. } => Value::Address(Some(address(text)?)),
            Kind::List { .. } => Value::List(text.split(',').map(|item| item.trim().to_owned()).collect()),
        };
        self.admit(value)
    }

    /// Reads a default of the table of settings.
    ///
    /// # Errors
    /// What was expected, when the table contradicts itself.
    pub fn read_literal(&self, literal: &Literal) -> Result<Value, String> {
        let value = match literal {
            Literal::Switch(on) => self.admit(Value::Switch(*on)),
            Literal::Number(number) => self.admit(Value::Number(*number)),
            Literal::Text(text) => self.read_text(text),
            Literal::List(items) => self.admit(Value::List(items.iter().map(|&item| item.to_owned()).collect())),
        };
        value.ok_or_else(|| self.expected())
    }

    /// `value`, if it is of this kind and within the range.
    fn admit(&self, value: Value) -> Option<Value> {
        let fits = match (self, &value) {
            (Kind::Switch, Value::Switch(_)) => true,
            (Kind::Number { min, max, .. } | Kind::Size { min, max }, Value::Number(number)) => {
                (min..=max).contains(&number)
            }
            (Kind::Duration { min_us, max_us }, Value::Number(number)) => (min_us..=max_us).contains(&number),
            (Kind::Text { bytes_min, bytes_max }, Value::Text(text)) => {
                (*bytes_min..=*bytes_max).contains(&text.len()) && !text.contains('\0')
            }
            (Kind::Choice(words), Value::Text(text)) => words.contains(&text.as_str()),
            (Kind::Address { may_be_empty }, Value::Address(address)) => address.is_some() || *may_be_empty,
            (Kind::List { items_max }, Value::List(items)) => {
                items.len() <= *items_max && items.iter().all(|item| !item.is_empty() && item.len() <= 1024)
            }
            _ => false,
        };
        fits.then_some(value)
    }
}

/// `127.0.0.1:80`, `[::1]:80` or `localhost:80`.
fn address(text: &str) -> Option<SocketAddr> {
    if let Some(port) = text.strip_prefix("localhost:") {
        return Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port.parse().ok()?));
    }
    text.parse().ok()
}

/// A size as people write it, exact.
pub fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 6] =
        [(1 << 30, "GiB"), (1_000_000_000, "GB"), (1 << 20, "MiB"), (1_000_000, "MB"), (1 << 10, "KiB"), (1000, "KB")];
    match UNITS.iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => format!("{bytes} B"),
    }
}

/// A time span as people write it, exact.
pub fn span(microseconds: u64) -> String {
    const UNITS: [(u64, &str); 5] =
        [(86_400_000_000, "days"), (3_600_000_000, "hours"), (60_000_000, "minutes"), (1_000_000, "s"), (1000, "ms")];
    match UNITS.iter().find(|(unit, _)| microseconds > 0 && microseconds.is_multiple_of(*unit)) {
        Some((unit, name)) if microseconds == *unit => {
            format!("1 {}", name.strip_suffix('s').filter(|n| n.len() > 1).unwrap_or(name))
        }
        Some((unit, name)) => format!("{} {name}", microseconds / unit),
        None => format!("{microseconds} us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Kind = Kind::Size { min: 1024, max: 1 << 30 };
    const DURATION: Kind = Kind::Duration { min_us: 1_000_000, max_us: 3_600_000_000 };

    fn toml(kind: Kind, text: &str) -> Option<Value> {
        let value = DeValue::parse(text).expect("a TOML value");
        kind.read_toml(value.get_ref())
    }

    #[test]
    fn values_of_the_file_have_their_toml_types() {
        assert_eq!(toml(Kind::Switch, "true"), Some(Value::Switch(true)));
        assert_eq!(toml(Kind::Switch, "\"true\""), None);
        let number = Kind::Number { min: 1, max: 1000, unit: "ms" };
        assert_eq!(toml(number, "1_000"), Some(Value::Number(1000)));
        assert_eq!(toml(number, "0x10"), Some(Value::Number(16)));
        for refused in ["0", "1001", "-1", "1.0", "\"5\"", "true", "[]"] {
            assert_eq!(toml(number, refused), None, "{refused}");
        }
        assert_eq!(toml(SIZE, "4096"), Some(Value::Number(4096)));
        assert_eq!(toml(SIZE, "\"4 KiB\""), Some(Value::Number(4096)));
        assert_eq!(toml(SIZE, "\"2 GiB\""), None);
        assert_eq!(toml(DURATION, "\"1h\""), Some(Value::Number(3_600_000_000)));
        assert_eq!(toml(DURATION, "3600"), None);
        assert_eq!(toml(DURATION, "\"3600\""), None, "a unit is wanted");
        let list = Kind::List { items_max: 2 };
        assert_eq!(toml(list, "['a', 'b']"), Some(Value::List(vec!["a".into(), "b".into()])));
        assert_eq!(toml(list, "[]"), Some(Value::List(vec![])));
        for refused in ["['a', 1]", "['']", "['a', 'b', 'c']", "\"a,b\""] {
            assert_eq!(toml(list, refused), None, "{refused}");
        }
    }

    #[test]
    fn values_of_the_environment_are_texts() {
        assert_eq!(Kind::Switch.read_text("false"), Some(Value::Switch(false)));
        assert_eq!(Kind::Switch.read_text("1"), None);
        assert_eq!(SIZE.read_text("1MiB"), Some(Value::Number(1 << 20)));
        let list = Kind::List { items_max: 3 };
        assert_eq!(list.read_text("a, b"), Some(Value::List(vec!["a".into(), "b".into()])));
        assert_eq!(list.read_text("a,,b"), None);
        let choice = Kind::Choice(&["text", "json"]);
        assert_eq!(choice.read_text("json"), Some(Value::Text("json".into())));
        assert_eq!(choice.read_text("JSON"), None);
        let text = Kind::Text { bytes_min: 1, bytes_max: 3 };
        assert_eq!((text.read_text(""), text.read_text("abcd"), text.read_text("a\0")), (None, None, None));
    }

    #[test]
    fn addresses_have_an_ip_and_a_port() {
        let kind = Kind::Address { may_be_empty: false };
        let read = |text| kind.read_text(text);
        let of = |text: &str| Some(Value::Address(Some(text.parse().expect("an address"))));
        assert_eq!(read("127.0.0.1:0"), of("127.0.0.1:0"));
        assert_eq!(read("[::]:8090"), of("[::]:8090"));
        assert_eq!(read("localhost:1"), of("127.0.0.1:1"));
        for refused in ["", "127.0.0.1", "8090", "example.org:80", "127.0.0.1:65536", "localhost:"] {
            assert_eq!(read(refused), None, "{refused}");
        }
        assert_eq!(Kind::Address { may_be_empty: true }.read_text(""), Some(Value::Address(None)));
    }

    #[test]
    fn sizes_and_spans_are_written_exactly_and_read_back() {
        for (bytes, text) in [
            (0, "0 B"),
            (1, "1 B"),
            (1024, "1 KiB"),
            (2_000_000, "2 MB"),
            (64 << 20, "64 MiB"),
            (1 << 30, "1 GiB"),
            (1_048_577, "1048577 B"),
        ] {
            assert_eq!(size(bytes), text);
            assert_eq!(quantity::byte_size(text), Ok(bytes));
        }
        for (us, text) in [
            (1_000_000, "1 s"),
            (3_600_000_000, "1 hour"),
            (5_400_000_000, "90 minutes"),
            (1500, "1500 us"),
            (2000, "2 ms"),
        ] {
            assert_eq!(span(us), text);
            assert_eq!(quantity::duration_us(text), Ok(us));
        }
    }

    #[test]
    fn expectations_name_the_range() {
        assert_eq!(SIZE.expected(), "a size from 1 KiB to 1 GiB, such as `4 MiB`");
        assert_eq!(Kind::Number { min: 1, max: 9, unit: "ms" }.expected(), "a whole number from 1 to 9 (ms)");
    }
}
