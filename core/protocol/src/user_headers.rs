//! The user headers of a message: entries of a key and a value, each with a kind and a length.

use crate::error_code::ErrorCode;

/// Checks an encoded block.
///
/// # Errors
/// 4040 unknown kind, 4018 key or 4019 value of a length that is not 1 to 255 or that does not fit its kind.
pub fn validate(bytes: &[u8]) -> Result<(), ErrorCode> {
    iggy_binary_protocol::validate_user_headers(bytes).map_err(|_| ErrorCode::InvalidHeaderValue)?;
    Ok(())
}
