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

use std::borrow::Cow;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

/// Schema of a whole number that may be larger than signed integers of 64 bits hold. It has no format, since generators
/// take numbers without one for their widest kind.
pub(crate) struct WideNumber;

impl PartialSchema for WideNumber {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::new(Type::Number))
            .minimum(Some(0))
            .description(Some("A whole number that may need more than 63 bits."))
            .into()
    }
}

impl ToSchema for WideNumber {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("WideNumber")
    }
}
