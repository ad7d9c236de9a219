//! [`TopicOptionsPatch`]: the options that one request sets, read from the wire or from text.

use super::catalogue::{self, Compression, Durability, keys};
use super::quantity::{byte_size, duration_us};
use super::{TopicDefaults, TopicOptions};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use whippet_protocol::ErrorCode;

/// What the options of a request are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A topic is created: every key of the catalogue may be set.
    Create,
    /// A topic is updated: only updatable keys may be set.
    Update,
}

/// Value of an option and where it comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Whether a client chose it; otherwise it follows from a default.
    pub explicit: bool,
}

impl<T> Setting<T> {
    /// A value that a client chose.
    pub const fn explicit(value: T) -> Self {
        Self { value, explicit: true }
    }

    /// A value that follows from a default.
    pub const fn derived(value: T) -> Self {
        Self { value, explicit: false }
    }
}

/// Options as a request set them. Absent ones stay as they are in an update, and take their default in a creation.
///
/// Values that ask for the server's default (0 and the word `server_default`) count as absent. So a creation takes the
/// default, and an update keeps the present value, which is what clients document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicOptionsPatch {
    pub(super) compression: Option<Setting<Compression>>,
    pub(super) message_expiry_us: Option<Setting<u64>>,
    pub(super) max_topic_size: Option<Setting<u64>>,
    pub(super) segment_size: Option<Setting<u64>>,
    pub(super) durability: Option<Setting<Durability>>,
    pub(super) consumer_offset_durability: Option<Setting<Durability>>,
    pub(super) messages_required_to_save: Option<Setting<u32>>,
    pub(super) size_of_messages_required_to_save: Option<Setting<u64>>,
    pub(super) preallocate_segments: Option<Setting<bool>>,
}

impl TopicOptionsPatch {
    /// Reads the entries of an options block: key, kind byte and value bytes of each. Every value may also come as text
    /// (kind 2), which is read like a setting: `7 days`, `128MiB`, `true`.
    ///
    /// # Errors
    /// [`ErrorCode::UnsupportedOptionKey`] for a key that the catalogue does not have, or that an update may not change;
    /// [`ErrorCode::InvalidOptionValue`] for a value of another kind, outside its limits or not readable, and for a key
    /// that comes twice.
    pub fn from_entries<'a>(
        entries: impl IntoIterator<Item = (&'a str, u8, &'a [u8])>,
        purpose: Purpose,
    ) -> Result<Self, ErrorCode> {
        let mut patch = Self::default();
        let mut seen = BTreeSet::new();
        for (key, kind, bytes) in entries {
            check_key(key, purpose)?;
            if !seen.insert(key) {
                return Err(ErrorCode::InvalidOptionValue);
            }
            patch.put(key, RawValue::from_wire(kind, bytes)?)?;
        }
        Ok(patch)
    }

    /// Reads options that are all text, as HTTP bodies carry them.
    ///
    /// # Errors
    /// As [`TopicOptionsPatch::from_entries`].
    pub fn from_text_map<'a>(
        entries: impl IntoIterator<Item = (&'a str, &'a str)>,
        purpose: Purpose,
    ) -> Result<Self, ErrorCode> {
        const TEXT: u8 = catalogue::OptionKind::String.code();
        Self::from_entries(entries.into_iter().map(|(key, text)| (key, TEXT, text.as_bytes())), purpose)
    }

    /// Sets the compression from a request field of its own.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidOptionValue`] when the option is set already, to another value.
    pub fn set_compression(&mut self, compression: Compression) -> Result<(), ErrorCode> {
        set_once(&mut self.compression, compression)
    }

    /// Sets the expiry from a request field of its own: microseconds, 0 for the server's default, `u64::MAX` for never.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidOptionValue`] when the option is set already, to another value.
    pub fn set_message_expiry(&mut self, microseconds: u64) -> Result<(), ErrorCode> {
        if microseconds == 0 { Ok(()) } else { set_once(&mut self.message_expiry_us, microseconds) }
    }

    /// Sets the size limit from a request field of its own: bytes, 0 for the server's default, `u64::MAX` for unlimited.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidOptionValue`] when the option is set already, to another value.
    pub fn set_max_topic_size(&mut self, bytes: u64) -> Result<(), ErrorCode> {
        if bytes == 0 { Ok(()) } else { set_once(&mut self.max_topic_size, bytes) }
    }

    /// Fills in every absent option from the defaults of the node that admits the creation, and checks the whole. What
    /// is replicated is the result: replicas never look at their own defaults.
    ///
    /// A server that forces `persisted` overrides what the request says about `durability`.
    ///
    /// # Errors
    /// As [`TopicOptions::check`].
    pub fn for_creation(&self, defaults: &TopicDefaults, partitions: u32) -> Result<Self, ErrorCode> {
        let mut patch = self.clone();
        patch.message_expiry_us.get_or_insert(Setting::derived(or_unlimited(defaults.message_expiry)));
        patch.max_topic_size.get_or_insert(Setting::derived(or_unlimited(defaults.max_topic_size)));
        patch.segment_size.get_or_insert(Setting::derived(defaults.segment_size));
        if defaults.durability_forced_persisted && patch.durability != Some(Setting::explicit(Durability::Persisted)) {
            patch.durability = Some(Setting::derived(Durability::Persisted));
        }
        let options = TopicOptions::from_patch(&patch);
        options.check(partitions)?;
        Ok(options.into_patch())
    }

    /// Whether an option is set that an update may not change.
    pub fn sets_create_only(&self) -> bool {
        // Named one by one, so that a new option cannot be forgotten here.
        let Self {
            compression: _,
            message_expiry_us: _,
            max_topic_size: _,
            segment_size,
            durability,
            consumer_offset_durability,
            messages_required_to_save,
            size_of_messages_required_to_save,
            preallocate_segments,
        } = self;
        segment_size.is_some()
            || durability.is_some()
            || consumer_offset_durability.is_some()
            || messages_required_to_save.is_some()
            || size_of_messages_required_to_save.is_some()
            || preallocate_segments.is_some()
    }

    fn put(&mut self, key: &str, raw: RawValue<'_>) -> Result<(), ErrorCode> {
        match key {
            keys::COMPRESSION_ALGORITHM => self.compression = Some(Setting::explicit(raw.compression()?)),
            keys::MESSAGE_EXPIRY => self.message_expiry_us = explicit_unless_0(raw.duration_us()?),
            keys::MAX_TOPIC_SIZE => self.max_topic_size = explicit_unless_0(raw.limit()?),
            keys::SEGMENT_SIZE => {
                self.segment_size = explicit_unless_0(raw.size()?);
                super::check_segment_size(self.segment_size.map(|setting| setting.value))?;
            }
            keys::DURABILITY => self.durability = Some(Setting::explicit(raw.durability()?)),
            keys::CONSUMER_OFFSET_DURABILITY => {
                self.consumer_offset_durability = Some(Setting::explicit(raw.durability()?));
            }
            keys::MESSAGES_REQUIRED_TO_SAVE => {
                let messages = raw.count()?;
                super::check_messages_required_to_save(messages)?;
                self.messages_required_to_save = Some(Setting::explicit(messages));
            }
            keys::SIZE_OF_MESSAGES_REQUIRED_TO_SAVE => {
                let bytes = raw.size()?;
                super::check_size_required_to_save(bytes)?;
                self.size_of_messages_required_to_save = explicit_unless_0(bytes);
            }
            keys::PREALLOCATE_SEGMENTS => self.preallocate_segments = Some(Setting::explicit(raw.switch()?)),
            _ => return Err(ErrorCode::UnsupportedOptionKey),
        }
        Ok(())
    }
}

fn check_key(key: &str, purpose: Purpose) -> Result<(), ErrorCode> {
    match catalogue::topic_option(key) {
        Some(spec) if purpose == Purpose::Create || spec.updatable => Ok(()),
        _ => Err(ErrorCode::UnsupportedOptionKey),
    }
}

/// One setting must not have two homes in one request, unless they agree.
fn set_once<T: PartialEq>(slot: &mut Option<Setting<T>>, value: T) -> Result<(), ErrorCode> {
    match slot {
        Some(present) if present.value != value => Err(ErrorCode::InvalidOptionValue),
        _ => {
            *slot = Some(Setting::explicit(value));
            Ok(())
        }
    }
}

fn explicit_unless_0(value: u64) -> Option<Setting<u64>> {
    (value != 0).then(|| Setting::explicit(value))
}

fn or_unlimited(value: u64) -> u64 {
    if value == 0 { catalogue::UNLIMITED } else { value }
}

/// A value as the request has it, before the option gives it a meaning.
#[derive(Clone, Copy)]
enum RawValue<'a> {
    Text(&'a str),
    Bool(bool),
    Uint8(u8),
    Uint32(u32),
    Uint64(u64),
}

impl<'a> RawValue<'a> {
    fn from_wire(kind: u8, bytes: &'a [u8]) -> Result<Self, ErrorCode> {
        const INVALID: ErrorCode = ErrorCode::InvalidOptionValue;
        match (kind, bytes) {
            (2, text) => std::str::from_utf8(text).map(RawValue::Text).map_err(|_| INVALID),
            (3, [0]) => Ok(RawValue::Bool(false)),
            (3, [1]) => Ok(RawValue::Bool(true)),
            (9, [byte]) => Ok(RawValue::Uint8(*byte)),
            (11, number) => number.try_into().map(u32::from_le_bytes).map(RawValue::Uint32).map_err(|_| INVALID),
            (12, number) => number.try_into().map(u64::from_le_bytes).map(RawValue::Uint64).map_err(|_| INVALID),
            _ => Err(INVALID),
        }
    }

    fn compression(self) -> Result<Compression, ErrorCode> {
        match self {
            RawValue::Text(text) => Compression::from_text(text.trim()),
            RawValue::Uint8(code) => Compression::from_code(code),
            _ => None,
        }
        .ok_or(ErrorCode::InvalidOptionValue)
    }

    fn durability(self) -> Result<Durability, ErrorCode> {
        match self {
            RawValue::Text(text) => Durability::from_text(text.trim()),
            _ => None,
        }
        .ok_or(ErrorCode::InvalidOptionValue)
    }

    fn switch(self) -> Result<bool, ErrorCode> {
        match self {
            RawValue::Bool(on) => Some(on),
            RawValue::Text(text) => text.trim().to_ascii_lowercase().parse().ok(),
            _ => None,
        }
        .ok_or(ErrorCode::InvalidOptionValue)
    }

    fn count(self) -> Result<u32, ErrorCode> {
        match self {
            RawValue::Uint32(count) => Some(count),
            RawValue::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
        .ok_or(ErrorCode::InvalidOptionValue)
    }

    /// Bytes; 0 for the default.
    fn size(self) -> Result<u64, ErrorCode> {
        match self {
            RawValue::Uint64(bytes) => Some(bytes),
            RawValue::Text(text) if is_default_word(text) => Some(0),
            RawValue::Text(text) => byte_size(text).ok(),
            _ => None,
        }
        .ok_or(ErrorCode::InvalidOptionValue)
    }

    /// Bytes; 0 for the default, [`catalogue::UNLIMITED`] for no limit.
    fn limit(self) -> Result<u64, ErrorCode> {
        match self {
            RawValue::Text(text) if is_no_limit_word(text) => Ok(catalogue::UNLIMITED),
            other => other.size(),
        }
    }

    /// Microseconds; 0 for the default, [`catalogue::UNLIMITED`] for never.
    fn duration_us(self) -> Result<u64, ErrorCode> {
        match self {
            RawValue::Uint64(microseconds) => Some(microseconds),
            RawValue::Text(text) if is_no_limit_word(text) => Some(catalogue::UNLIMITED),
            RawValue::Text(text) if is_default_word(text) => Some(0),
            RawValue::Text(text) => duration_us(text).ok(),
            _ => None,
        }
        .ok_or(ErrorCode::InvalidOptionValue)
    }
}

fn is_no_limit_word(text: &str) -> bool {
    ["never", "never_expire", "unlimited", "none"].iter().any(|word| word.eq_ignore_ascii_case(text.trim()))
}

fn is_default_word(text: &str) -> bool {
    ["default", "server_default"].iter().any(|word| word.eq_ignore_ascii_case(text.trim()))
}
