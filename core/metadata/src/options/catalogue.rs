//! The catalogue of topic options: keys, kinds, defaults, limits and what each one means.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Names of the topic options, as requests and replies spell them.
pub mod keys {
    /// Compression that producers are expected to use.
    pub const COMPRESSION_ALGORITHM: &str = "compression_algorithm";
    /// Age at which a sealed segment may go.
    pub const MESSAGE_EXPIRY: &str = "message_expiry";
    /// Bytes above which the oldest sealed segments go.
    pub const MAX_TOPIC_SIZE: &str = "max_topic_size";
    /// Size at which a segment is sealed.
    pub const SEGMENT_SIZE: &str = "segment_size";
    /// When a send is acknowledged.
    pub const DURABILITY: &str = "durability";
    /// When a stored consumer offset is acknowledged.
    pub const CONSUMER_OFFSET_DURABILITY: &str = "consumer_offset_durability";
    /// Messages after which buffered data is written.
    pub const MESSAGES_REQUIRED_TO_SAVE: &str = "messages_required_to_save";
    /// Bytes after which buffered data is written.
    pub const SIZE_OF_MESSAGES_REQUIRED_TO_SAVE: &str = "size_of_messages_required_to_save";
    /// Whether a segment reserves its whole size at once.
    pub const PREALLOCATE_SEGMENTS: &str = "preallocate_segments";
}

/// `message_expiry` for "never", `max_topic_size` for "unlimited".
pub const UNLIMITED: u64 = u64::MAX;
/// Smallest `segment_size`, in bytes.
pub const SEGMENT_SIZE_MIN: u64 = 1024 * 1024;
/// Largest `segment_size`, in bytes.
pub const SEGMENT_SIZE_MAX: u64 = 1024 * 1024 * 1024;
/// `segment_size` is a multiple of this many bytes.
pub const SEGMENT_SIZE_STEP: u64 = 512;
/// Default of `segment_size`, in bytes.
pub const SEGMENT_SIZE_DEFAULT: u64 = SEGMENT_SIZE_MAX;
/// Default of `messages_required_to_save`.
pub const MESSAGES_REQUIRED_TO_SAVE_DEFAULT: u32 = 1024;
/// Largest `messages_required_to_save`; the smallest is 1.
pub const MESSAGES_REQUIRED_TO_SAVE_MAX: u32 = 16 * 1024 * 1024;
/// Default of `size_of_messages_required_to_save`, in bytes.
pub const SIZE_REQUIRED_TO_SAVE_DEFAULT: u64 = 1024 * 1024;
/// Largest `size_of_messages_required_to_save`, in bytes: a larger threshold could never be reached within one segment.
pub const SIZE_REQUIRED_TO_SAVE_MAX: u64 = SEGMENT_SIZE_MAX;
/// Most bytes that a topic with `preallocate_segments` may reserve, all its partitions together.
pub const PREALLOCATED_BYTES_MAX: u64 = 64 * 1024 * 1024 * 1024;

const _: () = {
    assert!(SEGMENT_SIZE_MIN.is_multiple_of(SEGMENT_SIZE_STEP) && SEGMENT_SIZE_MAX.is_multiple_of(SEGMENT_SIZE_STEP));
    assert!(SEGMENT_SIZE_MIN <= SEGMENT_SIZE_DEFAULT && SEGMENT_SIZE_DEFAULT <= SEGMENT_SIZE_MAX);
    assert!(MESSAGES_REQUIRED_TO_SAVE_DEFAULT <= MESSAGES_REQUIRED_TO_SAVE_MAX);
    assert!(SIZE_REQUIRED_TO_SAVE_DEFAULT <= SIZE_REQUIRED_TO_SAVE_MAX);
};

/// Compression that the producers of a topic are expected to use. The server stores batches as they come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// Gzip.
    Gzip,
}

impl Compression {
    /// The byte of the topic header: 1 none, 2 gzip.
    pub const fn code(self) -> u8 {
        match self {
            Compression::None => 1,
            Compression::Gzip => 2,
        }
    }

    /// The algorithm with this byte.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Compression::None),
            2 => Some(Compression::Gzip),
            _ => None,
        }
    }

    /// The name in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
        }
    }

    /// The algorithm with this name, in any case.
    pub fn from_text(text: &str) -> Option<Self> {
        [Compression::None, Compression::Gzip].into_iter().find(|known| known.as_str().eq_ignore_ascii_case(text))
    }
}

/// What an acknowledgement of a topic waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Durability {
    /// A quorum holds the data.
    #[default]
    Replicated,
    /// A quorum has synced the data to disk.
    Persisted,
}

impl Durability {
    /// The name in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Durability::Replicated => "replicated",
            Durability::Persisted => "persisted",
        }
    }

    /// The level with this name, in any case.
    pub fn from_text(text: &str) -> Option<Self> {
        [Durability::Replicated, Durability::Persisted]
            .into_iter()
            .find(|known| known.as_str().eq_ignore_ascii_case(text))
    }
}

/// Kind of an option value on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum OptionKind {
    /// UTF-8 text.
    String = 2,
    /// One byte, 0 or 1.
    Bool = 3,
    /// Little-endian, 4 bytes.
    Uint32 = 11,
    /// Little-endian, 8 bytes.
    Uint64 = 12,
}

impl OptionKind {
    /// The kind byte of an options block.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// Value of an option as replies show it. `Display` gives the text of HTTP bodies: plain decimal numbers, `true`, words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// One of the words that the option knows.
    Text(&'static str),
    /// A switch.
    Bool(bool),
    /// A count.
    Uint32(u32),
    /// A size in bytes or a duration in microseconds.
    Uint64(u64),
}

impl OptionValue {
    /// Kind on the wire.
    pub const fn kind(self) -> OptionKind {
        match self {
            OptionValue::Text(_) => OptionKind::String,
            OptionValue::Bool(_) => OptionKind::Bool,
            OptionValue::Uint32(_) => OptionKind::Uint32,
            OptionValue::Uint64(_) => OptionKind::Uint64,
        }
    }

    /// The value bytes of an options block, without kind and length; 1 to 10 bytes.
    pub fn wire_bytes(self) -> Vec<u8> {
        match self {
            OptionValue::Text(text) => text.as_bytes().to_vec(),
            OptionValue::Bool(on) => vec![u8::from(on)],
            OptionValue::Uint32(number) => number.to_le_bytes().to_vec(),
            OptionValue::Uint64(number) => number.to_le_bytes().to_vec(),
        }
    }
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionValue::Text(text) => f.write_str(text),
            OptionValue::Bool(on) => write!(f, "{on}"),
            OptionValue::Uint32(number) => write!(f, "{number}"),
            OptionValue::Uint64(number) => write!(f, "{number}"),
        }
    }
}

/// One option of a topic, as replies list it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionEntry {
    /// Name of the option.
    pub key: &'static str,
    /// Kind on the wire, always that of `value`.
    pub kind: OptionKind,
    /// Effective value.
    pub value: OptionValue,
    /// Whether a client chose it; otherwise it follows from a default.
    pub explicit: bool,
}

/// One row of the catalogue, as "describe options" shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionSpec {
    /// Name of the option.
    pub key: &'static str,
    /// Kind under which values are reported; requests may send text instead.
    pub kind: OptionKind,
    /// Value of a topic that does not set it, before any default of the server.
    pub default: OptionValue,
    /// Whether an update may change it.
    pub updatable: bool,
    /// One line for people.
    pub description: &'static str,
}

impl OptionSpec {
    const fn new(key: &'static str, default: OptionValue, updatable: bool, description: &'static str) -> Self {
        Self { key, kind: default.kind(), default, updatable, description }
    }
}

/// Every topic option, in the order in which replies list them. Streams and users have no options.
pub const TOPIC_OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        keys::COMPRESSION_ALGORITHM,
        OptionValue::Text(Compression::None.as_str()),
        true,
        "Compression of message payloads that producers should use: none or gzip.",
    ),
    OptionSpec::new(
        keys::MESSAGE_EXPIRY,
        OptionValue::Uint64(UNLIMITED),
        true,
        "Age in microseconds after which messages may be deleted, or text such as \"7 days\" or \"never\"; 0 takes the server's default.",
    ),
    OptionSpec::new(
        keys::MAX_TOPIC_SIZE,
        OptionValue::Uint64(UNLIMITED),
        true,
        "Bytes above which the oldest segments are deleted, or text such as \"10GiB\" or \"unlimited\"; 0 takes the server's default. At least one segment.",
    ),
    OptionSpec::new(
        keys::SEGMENT_SIZE,
        OptionValue::Uint64(SEGMENT_SIZE_DEFAULT),
        false,
        "Bytes at which a segment is sealed, or text such as \"128MiB\": 1 MiB to 1 GiB, a multiple of 512.",
    ),
    OptionSpec::new(
        keys::DURABILITY,
        OptionValue::Text(Durability::Replicated.as_str()),
        false,
        "When a send is acknowledged: replicated (a quorum holds it) or persisted (a quorum has synced it to disk).",
    ),
    OptionSpec::new(
        keys::CONSUMER_OFFSET_DURABILITY,
        OptionValue::Text(Durability::Replicated.as_str()),
        false,
        "When a stored consumer offset is acknowledged: replicated or persisted.",
    ),
    OptionSpec::new(
        keys::MESSAGES_REQUIRED_TO_SAVE,
        OptionValue::Uint32(MESSAGES_REQUIRED_TO_SAVE_DEFAULT),
        false,
        "Messages after which buffered data is written, 1 to 16777216.",
    ),
    OptionSpec::new(
        keys::SIZE_OF_MESSAGES_REQUIRED_TO_SAVE,
        OptionValue::Uint64(SIZE_REQUIRED_TO_SAVE_DEFAULT),
        false,
        "Bytes after which buffered data is written, or text such as \"4KiB\"; at most 1 GiB, 0 takes the default.",
    ),
    OptionSpec::new(
        keys::PREALLOCATE_SEGMENTS,
        OptionValue::Bool(false),
        false,
        "Whether each segment reserves its whole size at once; segment size times partitions is then at most 64 GiB.",
    ),
];

/// The catalogue row with this name.
pub fn topic_option(key: &str) -> Option<&'static OptionSpec> {
    TOPIC_OPTIONS.iter().find(|spec| spec.key == key)
}
