//! Topic options: the catalogue, its defaults, parsing, validation and provenance.
//!
//! A request sets some options ([`TopicOptionsPatch`]). The node that admits a creation fills in the rest from its own
//! configuration ([`TopicOptionsPatch::for_creation`]) and replicates the result, so that every replica stores the same
//! [`TopicOptions`] whatever its own configuration says.

pub mod catalogue;
pub mod patch;
pub mod quantity;

pub use catalogue::{Compression, Durability, OptionEntry, OptionKind, OptionSpec, OptionValue, TOPIC_OPTIONS};
pub use patch::{Purpose, Setting, TopicOptionsPatch};

use catalogue::keys;
use serde::{Deserialize, Serialize};
use whippet_protocol::ErrorCode;

/// Defaults of one node for the topics whose creation it admits. Part of its configuration, never replicated as such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicDefaults {
    /// Bytes, 1 MiB to 1 GiB, a multiple of 512.
    pub segment_size: u64,
    /// Microseconds; 0 and `u64::MAX` mean never.
    pub message_expiry: u64,
    /// Bytes, at least one segment; 0 and `u64::MAX` mean unlimited.
    pub max_topic_size: u64,
    /// Whether every topic is created with `durability` `persisted`, whatever the request says. Consumer offsets keep
    /// the durability of their own option.
    pub durability_forced_persisted: bool,
}

impl Default for TopicDefaults {
    fn default() -> Self {
        Self {
            segment_size: catalogue::SEGMENT_SIZE_DEFAULT,
            message_expiry: catalogue::UNLIMITED,
            max_topic_size: catalogue::UNLIMITED,
            durability_forced_persisted: false,
        }
    }
}

/// Options of a topic: an effective value for each key of the catalogue, and whether a client chose it. The default value
/// of this type has the catalogue's defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicOptions {
    compression: Setting<Compression>,
    message_expiry_us: Setting<u64>,
    max_topic_size: Setting<u64>,
    segment_size: Setting<u64>,
    durability: Setting<Durability>,
    consumer_offset_durability: Setting<Durability>,
    messages_required_to_save: Setting<u32>,
    size_of_messages_required_to_save: Setting<u64>,
    preallocate_segments: Setting<bool>,
}

impl Default for TopicOptions {
    fn default() -> Self {
        Self::from_patch(&TopicOptionsPatch::default())
    }
}

impl TopicOptions {
    /// The options of a topic that is created with `patch`. What it leaves out takes the catalogue's default.
    pub fn from_patch(patch: &TopicOptionsPatch) -> Self {
        fn or<T: Copy>(chosen: Option<Setting<T>>, default: T) -> Setting<T> {
            chosen.unwrap_or(Setting::derived(default))
        }
        Self {
            compression: or(patch.compression, Compression::None),
            message_expiry_us: or(patch.message_expiry_us, catalogue::UNLIMITED),
            max_topic_size: or(patch.max_topic_size, catalogue::UNLIMITED),
            segment_size: or(patch.segment_size, catalogue::SEGMENT_SIZE_DEFAULT),
            durability: or(patch.durability, Durability::Replicated),
            consumer_offset_durability: or(patch.consumer_offset_durability, Durability::Replicated),
            messages_required_to_save: or(
                patch.messages_required_to_save,
                catalogue::MESSAGES_REQUIRED_TO_SAVE_DEFAULT,
            ),
            size_of_messages_required_to_save: or(
                patch.size_of_messages_required_to_save,
                catalogue::SIZE_REQUIRED_TO_SAVE_DEFAULT,
            ),
            preallocate_segments: or(patch.preallocate_segments, false),
        }
    }

    /// The options after an update with `patch`: what it leaves out stays.
    ///
    /// # Errors
    /// [`ErrorCode::UnsupportedOptionKey`] when it sets an option that an update may not change;
    /// [`ErrorCode::InvalidTopicSize`] when the size limit does not hold one segment;
    /// [`ErrorCode::InvalidOptionValue`] for a value outside its limits.
    pub fn updated(&self, patch: &TopicOptionsPatch) -> Result<Self, ErrorCode> {
        if patch.sets_create_only() {
            return Err(ErrorCode::UnsupportedOptionKey);
        }
        let mut options = self.clone();
        options.compression = patch.compression.unwrap_or(self.compression);
        options.message_expiry_us = patch.message_expiry_us.unwrap_or(self.message_expiry_us);
        options.max_topic_size = patch.max_topic_size.unwrap_or(self.max_topic_size);
        options.check_values()?;
        Ok(options)
    }

    /// Whether the values go together, in a topic with this many partitions.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidOptionValue`] for a value outside its limits, or when preallocated segments would take more
    /// than [`catalogue::PREALLOCATED_BYTES_MAX`]; [`ErrorCode::InvalidTopicSize`] when the size limit does not hold one
    /// segment.
    pub fn check(&self, partitions: u32) -> Result<(), ErrorCode> {
        self.check_values()?;
        if self.preallocation_fits(partitions) { Ok(()) } else { Err(ErrorCode::InvalidOptionValue) }
    }

    /// Whether the segments of this many partitions may all be preallocated; always true of a topic that does not.
    pub fn preallocation_fits(&self, partitions: u32) -> bool {
        !self.preallocate_segments()
            || self.segment_size().saturating_mul(u64::from(partitions)) <= catalogue::PREALLOCATED_BYTES_MAX
    }

    /// Compression that producers are expected to use.
    pub fn compression(&self) -> Compression {
        self.compression.value
    }

    /// Age at which messages may go, in microseconds; `u64::MAX` for never, not 0.
    pub fn message_expiry_us(&self) -> u64 {
        self.message_expiry_us.value
    }

    /// Limit in bytes; `u64::MAX` for unlimited, otherwise at least [`TopicOptions::segment_size`].
    pub fn max_topic_size(&self) -> u64 {
        self.max_topic_size.value
    }

    /// Size at which a segment is sealed: 1 MiB to 1 GiB, a multiple of 512.
    pub fn segment_size(&self) -> u64 {
        self.segment_size.value
    }

    /// When a send is acknowledged.
    pub fn durability(&self) -> Durability {
        self.durability.value
    }

    /// When a stored consumer offset is acknowledged.
    pub fn consumer_offset_durability(&self) -> Durability {
        self.consumer_offset_durability.value
    }

    /// Messages after which buffered data is written, 1 to 16777216.
    pub fn messages_required_to_save(&self) -> u32 {
        self.messages_required_to_save.value
    }

    /// Bytes after which buffered data is written, 1 to 1 GiB.
    pub fn size_of_messages_required_to_save(&self) -> u64 {
        self.size_of_messages_required_to_save.value
    }

    /// Whether a segment reserves its whole size at once.
    pub fn preallocate_segments(&self) -> bool {
        self.preallocate_segments.value
    }

    /// Every option with its value, in the order of the catalogue.
    pub fn entries(&self) -> Vec<OptionEntry> {
        fn entry(key: &'static str, value: OptionValue, explicit: bool) -> OptionEntry {
            OptionEntry { key, kind: value.kind(), value, explicit }
        }
        let text = |key, value: &'static str, explicit| entry(key, OptionValue::Text(value), explicit);
        let number = |key, setting: Setting<u64>| entry(key, OptionValue::Uint64(setting.value), setting.explicit);
        vec![
            text(keys::COMPRESSION_ALGORITHM, self.compression.value.as_str(), self.compression.explicit),
            number(keys::MESSAGE_EXPIRY, self.message_expiry_us),
            number(keys::MAX_TOPIC_SIZE, self.max_topic_size),
            number(keys::SEGMENT_SIZE, self.segment_size),
            text(keys::DURABILITY, self.durability.value.as_str(), self.durability.explicit),
            text(
                keys::CONSUMER_OFFSET_DURABILITY,
                self.consumer_offset_durability.value.as_str(),
                self.consumer_offset_durability.explicit,
            ),
            entry(
                keys::MESSAGES_REQUIRED_TO_SAVE,
                OptionValue::Uint32(self.messages_required_to_save.value),
                self.messages_required_to_save.explicit,
            ),
            number(keys::SIZE_OF_MESSAGES_REQUIRED_TO_SAVE, self.size_of_messages_required_to_save),
            entry(
                keys::PREALLOCATE_SEGMENTS,
                OptionValue::Bool(self.preallocate_segments.value),
                self.preallocate_segments.explicit,
            ),
        ]
    }

    /// A patch that sets everything, and so gives these options whatever the defaults are.
    fn into_patch(self) -> TopicOptionsPatch {
        TopicOptionsPatch {
            compression: Some(self.compression),
            message_expiry_us: Some(self.message_expiry_us),
            max_topic_size: Some(self.max_topic_size),
            segment_size: Some(self.segment_size),
            durability: Some(self.durability),
            consumer_offset_durability: Some(self.consumer_offset_durability),
            messages_required_to_save: Some(self.messages_required_to_save),
            size_of_messages_required_to_save: Some(self.size_of_messages_required_to_save),
            preallocate_segments: Some(self.preallocate_segments),
        }
    }

    fn check_values(&self) -> Result<(), ErrorCode> {
        check_segment_size(Some(self.segment_size()))?;
        check_messages_required_to_save(self.messages_required_to_save())?;
        check_size_required_to_save(self.size_of_messages_required_to_save())?;
        if self.message_expiry_us() == 0 || self.size_of_messages_required_to_save() == 0 {
            return Err(ErrorCode::InvalidOptionValue);
        }
        if self.max_topic_size() < self.segment_size() { Err(ErrorCode::InvalidTopicSize) } else { Ok(()) }
    }
}

fn check_segment_size(bytes: Option<u64>) -> Result<(), ErrorCode> {
    let fits = bytes.is_none_or(|bytes| {
        (catalogue::SEGMENT_SIZE_MIN..=catalogue::SEGMENT_SIZE_MAX).contains(&bytes)
            && bytes.is_multiple_of(catalogue::SEGMENT_SIZE_STEP)
    });
    if fits { Ok(()) } else { Err(ErrorCode::InvalidOptionValue) }
}

fn check_messages_required_to_save(messages: u32) -> Result<(), ErrorCode> {
    if (1..=catalogue::MESSAGES_REQUIRED_TO_SAVE_MAX).contains(&messages) {
        Ok(())
    } else {
        Err(ErrorCode::InvalidOptionValue)
    }
}

fn check_size_required_to_save(bytes: u64) -> Result<(), ErrorCode> {
    if bytes <= catalogue::SIZE_REQUIRED_TO_SAVE_MAX { Ok(()) } else { Err(ErrorCode::InvalidOptionValue) }
}
