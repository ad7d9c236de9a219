//! Cold-path requests and replies: the types of the crate that the official clients use, and the few conversions to ours.

pub use iggy_binary_protocol::{
    WireConsumer, WireDecode, WireEncode, WireIdentifier, WireName, WireOptions, WirePartitioning, WirePollingStrategy,
    codec, primitives, requests, responses,
};

use crate::error_code::ErrorCode;
use crate::identifier::{Identifier, Name};

/// Reads a whole body.
///
/// # Errors
/// 3 when it can't be read or has bytes behind it.
pub fn decode<T: WireDecode>(body: &[u8]) -> Result<T, ErrorCode> {
    match T::decode(body) {
        Ok((value, consumed)) if consumed == body.len() => Ok(value),
        _ => Err(ErrorCode::InvalidCommand),
    }
}

/// Our form of an identifier.
pub fn identifier(wire: &WireIdentifier) -> Identifier {
    match wire {
        WireIdentifier::Numeric(id) => Identifier::Id(*id),
        WireIdentifier::String(text) => Identifier::Name(name(text)),
    }
}

/// Our form of a name.
pub fn name(wire: &WireName) -> Name {
    Name::new(wire.as_str()).expect("wire names have 1 to 255 bytes")
}
