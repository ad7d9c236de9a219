//! The JSON forms of what goes in and out, and their schemas.
//!
//! Numbers that may need the whole range of 64 or 128 bits are described as plain numbers and written as such: clients
//! of this API expect it.

pub mod message;
pub mod offset;
pub mod options;
pub mod partition;
pub mod produce;
pub mod size;
pub mod stream;
pub mod system;
pub mod topic;
pub mod user;
pub mod user_headers;

use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};

/// A whole number that may be larger than what 64-bit signed integers hold.
pub(crate) fn wide_number() -> Schema {
    ObjectBuilder::new().schema_type(SchemaType::new(Type::Number)).minimum(Some(0)).build().into()
}

/// As [`wide_number`], or null.
pub(crate) fn wide_number_or_null() -> Schema {
    ObjectBuilder::new().schema_type(SchemaType::from_iter([Type::Number, Type::Null])).minimum(Some(0)).build().into()
}
