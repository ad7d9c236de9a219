//! User headers of a message: typed keys and values, in JSON and in the bytes that the log keeps.
//!
//! In the bytes an entry is key kind (1 byte), key length (4 bytes, little-endian), key, value kind, value length, value.
//! A producer may encrypt the whole block; it is then carried as base64 text in both directions.

use crate::error::ApiError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use utoipa::ToSchema;
use whippet_protocol::ErrorCode;
use whippet_protocol::limits::MESSAGE_USER_HEADERS_MAX;

/// What the bytes of a header key or value mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum HeaderKind {
    /// Bytes.
    Raw = 1,
    /// UTF-8 text.
    String = 2,
    /// One byte, 0 or 1.
    Bool = 3,
    /// Signed, 1 byte.
    Int8 = 4,
    /// Signed, 2 bytes, little-endian.
    Int16 = 5,
    /// Signed, 4 bytes.
    Int32 = 6,
    /// Signed, 8 bytes.
    Int64 = 7,
    /// Signed, 16 bytes.
    Int128 = 8,
    /// Unsigned, 1 byte.
    Uint8 = 9,
    /// Unsigned, 2 bytes.
    Uint16 = 10,
    /// Unsigned, 4 bytes.
    Uint32 = 11,
    /// Unsigned, 8 bytes.
    Uint64 = 12,
    /// Unsigned, 16 bytes.
    Uint128 = 13,
    /// IEEE 754, 4 bytes.
    Float32 = 14,
    /// IEEE 754, 8 bytes.
    Float64 = 15,
}

impl HeaderKind {
    const ALL: [Self; 15] = [
        Self::Raw,
        Self::String,
        Self::Bool,
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Int128,
        Self::Uint8,
        Self::Uint16,
        Self::Uint32,
        Self::Uint64,
        Self::Uint128,
        Self::Float32,
        Self::Float64,
    ];

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == code)
    }

    /// Whether a value of this kind can have this many bytes.
    fn allows(self, length: usize) -> bool {
        match self {
            Self::Raw | Self::String => (1..=255).contains(&length),
            Self::Bool | Self::Int8 | Self::Uint8 => length == 1,
            Self::Int16 | Self::Uint16 => length == 2,
            Self::Int32 | Self::Uint32 | Self::Float32 => length == 4,
            Self::Int64 | Self::Uint64 | Self::Float64 => length == 8,
            Self::Int128 | Self::Uint128 => length == 16,
        }
    }
}

/// A key or a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
pub struct HeaderField {
    /// What the bytes mean.
    pub kind: HeaderKind,
    /// The bytes, 1 to 255 of them; numbers are little-endian.
    #[schema(value_type = String, format = Byte)]
    pub value: String,
}

/// One user header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
pub struct HeaderEntry {
    /// The key.
    pub key: HeaderField,
    /// The value.
    pub value: HeaderField,
}

/// User headers of a message: a list of entries, or base64 of a block that only producer and consumer can read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum UserHeaders {
    /// Entries; none when the message has no headers.
    Entries(Vec<HeaderEntry>),
    /// Base64 of a block that is not in this form.
    #[schema(value_type = String, format = Byte)]
    Block(String),
}

impl<'de> Deserialize<'de> for UserHeaders {
    /// Not derived: a derived reader tries one form after the other and then reports neither.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = UserHeaders;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list of headers or base64 text")
            }
            fn visit_str<E>(self, text: &str) -> Result<UserHeaders, E> {
                Ok(UserHeaders::Block(text.to_owned()))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<UserHeaders, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = list.next_element()? {
                    entries.push(entry);
                }
                Ok(UserHeaders::Entries(entries))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl UserHeaders {
    /// The JSON form of a block of bytes; an empty block is an empty list.
    pub fn from_block(block: &[u8]) -> Self {
        match read_entries(block) {
            Some(entries) => Self::Entries(entries),
            None => Self::Block(STANDARD.encode(block)),
        }
    }

    /// The block of bytes, at most 100000 of them. Of two entries with the same key the last one counts; entries are in
    /// the order of their keys, so that equal headers are equal bytes.
    ///
    /// # Errors
    /// 400: a key or value is not base64, has a length that its kind does not allow, or the block is too big.
    pub fn to_block(&self) -> Result<Vec<u8>, ApiError> {
        let block = match self {
            Self::Block(text) => STANDARD
                .decode(text)
                .map_err(|_| ApiError::coded(ErrorCode::InvalidHeaderValue, "user_headers is text, but not base64"))?,
            Self::Entries(entries) => write_entries(entries)?,
        };
        if block.len() > MESSAGE_USER_HEADERS_MAX {
            return Err(ApiError::coded(
                ErrorCode::TooBigUserHeaders,
                format!(
                    "the user headers of a message have {} bytes, at most {MESSAGE_USER_HEADERS_MAX} are allowed",
                    block.len()
                ),
            ));
        }
        Ok(block)
    }
}

fn write_entries(entries: &[HeaderEntry]) -> Result<Vec<u8>, ApiError> {
    let mut ordered = BTreeMap::new();
    for entry in entries {
        let key = field_bytes(&entry.key, ErrorCode::InvalidHeaderKey)?;
        let value = field_bytes(&entry.value, ErrorCode::InvalidHeaderValue)?;
        ordered.insert((entry.key.kind, key), (entry.value.kind, value));
    }
    let mut block = Vec::new();
    let mut put = |kind: HeaderKind, bytes: &[u8]| {
        block.push(kind as u8);
        // At most 255.
        block.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        block.extend_from_slice(bytes);
    };
    for ((key_kind, key), (value_kind, value)) in &ordered {
        put(*key_kind, key);
        put(*value_kind, value);
    }
    Ok(block)
}

fn field_bytes(field: &HeaderField, code: ErrorCode) -> Result<Vec<u8>, ApiError> {
    let what = if code == ErrorCode::InvalidHeaderKey { "key" } else { "value" };
    let refuse = |why: Cow<'static, str>| ApiError::coded(code, format!("a user header {what} {why}"));
    let bytes = STANDARD.decode(&field.value).map_err(|_| refuse("is not base64".into()))?;
    if !field.kind.allows(bytes.len()) {
        return Err(refuse(format!("has {} bytes, which its kind does not allow", bytes.len()).into()));
    }
    if field.kind == HeaderKind::String && std::str::from_utf8(&bytes).is_err() {
        return Err(refuse("of kind string is not UTF-8".into()));
    }
    Ok(bytes)
}

/// `None` when the bytes are not entries to their very end.
fn read_entries(mut block: &[u8]) -> Option<Vec<HeaderEntry>> {
    let mut entries = Vec::new();
    while !block.is_empty() {
        let (key, rest) = read_field(block)?;
        let (value, rest) = read_field(rest)?;
        entries.push(HeaderEntry { key, value });
        block = rest;
    }
    Some(entries)
}

fn read_field(block: &[u8]) -> Option<(HeaderField, &[u8])> {
    let (&code, rest) = block.split_first()?;
    let kind = HeaderKind::from_code(code)?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    if !kind.allows(length) {
        return None;
    }
    let (bytes, rest) = rest.split_at_checked(length)?;
    Some((HeaderField { kind, value: STANDARD.encode(bytes) }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(json: serde_json::Value) -> UserHeaders {
        serde_json::from_str(&json.to_string()).unwrap()
    }

    #[test]
    fn entries_become_the_bytes_of_the_log_and_come_back() {
        let headers = entries(serde_json::json!([
            {"key": {"kind": "string", "value": "Yg=="}, "value": {"kind": "int32", "value": "AQAAAA=="}},
            {"key": {"kind": "string", "value": "YQ=="}, "value": {"kind": "raw", "value": "/w=="}},
        ]));
        let block = headers.to_block().unwrap();
        let expected =
            [&[2, 1, 0, 0, 0, b'a', 1, 1, 0, 0, 0, 0xff][..], &[2, 1, 0, 0, 0, b'b', 6, 4, 0, 0, 0, 1, 0, 0, 0][..]]
                .concat();
        assert_eq!(block, expected);
        let read = UserHeaders::from_block(&block);
        let UserHeaders::Entries(list) = &read else { panic!("{read:?}") };
        assert_eq!(list.len(), 2);
        assert_eq!(list[1].value, HeaderField { kind: HeaderKind::Int32, value: "AQAAAA==".into() });
        assert_eq!(read.to_block().unwrap(), block);
    }

    #[test]
    fn no_headers_are_an_empty_list() {
        assert_eq!(serde_json::to_string(&UserHeaders::from_block(&[])).unwrap(), "[]");
    }

    #[test]
    fn a_block_that_is_not_entries_is_base64_both_ways() {
        for block in [
            &[9u8, 9, 9][..],
            &[2, 1, 0, 0, 0, b'a'],
            &[2, 0, 0, 0, 0],
            &[16, 1, 0, 0, 0, 1],
            &[2, 255, 255, 255, 255, 1],
        ] {
            let headers = UserHeaders::from_block(block);
            assert_eq!(headers, UserHeaders::Block(STANDARD.encode(block)));
            let json = serde_json::to_string(&headers).unwrap();
            assert_eq!(serde_json::from_str::<UserHeaders>(&json).unwrap().to_block().unwrap(), block);
        }
    }

    #[test]
    fn keys_and_values_are_checked() {
        let refusal = |key: (&str, &str), value: (&str, &str)| {
            let error = entries(serde_json::json!([
                {"key": {"kind": key.0, "value": key.1}, "value": {"kind": value.0, "value": value.1}}
            ]))
            .to_block()
            .unwrap_err();
            (error.status.as_u16(), error.id)
        };
        let long = STANDARD.encode([1u8; 256]);
        let good = ("string", "YQ==");
        assert_eq!(refusal(("string", ""), good), (400, 4018));
        assert_eq!(refusal(("string", "%%"), good), (400, 4018));
        assert_eq!(refusal(("string", "/w=="), good), (400, 4018));
        assert_eq!(refusal(good, ("raw", &long)), (400, 4019));
        assert_eq!(refusal(good, ("int32", "AQ==")), (400, 4019));
        assert_eq!(UserHeaders::Block(STANDARD.encode(vec![1; 100_001])).to_block().unwrap_err().id, 4017);
        assert!(serde_json::from_str::<UserHeaders>(r#"[{"key":{"kind":"text","value":"YQ=="}}]"#).is_err());
        assert!(serde_json::from_str::<UserHeaders>("7").is_err());
    }

    #[test]
    fn kinds_have_the_names_and_numbers_of_the_protocol() {
        let names: Vec<_> = HeaderKind::ALL.iter().map(|kind| serde_json::to_value(kind).unwrap()).collect();
        assert_eq!(
            names,
            [
                "raw", "string", "bool", "int8", "int16", "int32", "int64", "int128", "uint8", "uint16", "uint32",
                "uint64", "uint128", "float32", "float64"
            ]
        );
        for (index, kind) in HeaderKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index + 1);
            assert_eq!(HeaderKind::from_code(kind as u8), Some(kind));
        }
    }
}
