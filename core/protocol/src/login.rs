//! Logins: who, how proved, and with which version of the protocol.

use crate::error_code::ErrorCode;
use bytes::{BufMut, BytesMut};
use std::fmt;

/// The protocol version that this server speaks, as the wire packs it: 0.11.0.
pub const PROTOCOL_VERSION: u32 = pack(0, 11, 0);
/// The oldest protocol version that it accepts.
pub const PROTOCOL_VERSION_MIN: u32 = pack(0, 11, 0);

const fn pack(major: u32, minor: u32, patch: u32) -> u32 {
    major << 20 | minor << 10 | patch
}

/// Whether a client of this version may log in: not older than the minimum, not newer than ours but for the patch.
pub const fn is_compatible(version: u32) -> bool {
    version >= PROTOCOL_VERSION_MIN && version >> 10 <= PROTOCOL_VERSION >> 10
}

/// How a client proves who it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Credentials<'a> {
    /// By user name and password.
    Password {
        /// The user's name.
        username: &'a str,
        /// The password.
        password: &'a str,
    },
    /// By a personal access token.
    Token {
        /// The raw token.
        token: &'a str,
    },
}

impl fmt::Debug for Credentials<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Credentials::Password { username, .. } => write!(f, "Password({username:?}, …)"),
            Credentials::Token { .. } => f.write_str("Token(…)"),
        }
    }
}

/// The body of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login<'a> {
    /// Protocol version of the client.
    pub version: u32,
    /// Name of its library.
    pub sdk_name: &'a str,
    /// Version of its library.
    pub sdk_version: &'a str,
    /// The proof. `Err(3)` when it can't be read although the version could.
    pub credentials: Result<Credentials<'a>, ErrorCode>,
}

fn text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let (length, rest) = bytes.split_first()?;
    let (value, rest) = rest.split_at_checked(usize::from(*length))?;
    *bytes = rest;
    std::str::from_utf8(value).ok()
}

/// `[length u32][that many bytes]`, and nothing behind.
fn is_context(bytes: &[u8]) -> bool {
    match bytes.split_at_checked(4) {
        Some((length, rest)) => u32::from_le_bytes(length.try_into().unwrap_or_default()) as usize == rest.len(),
        None => false,
    }
}

impl<'a> Login<'a> {
    /// Reads a login: `[version u32][name][version text]`, then `[username][password]` or `[token]`, then a context that is
    /// ignored. The shape with a password is tried first; both must match to the last byte.
    ///
    /// # Errors
    /// 4 when not even the version can be read.
    pub fn parse(body: &'a [u8]) -> Result<Login<'a>, ErrorCode> {
        let (version, mut rest) = body.split_at_checked(4).ok_or(ErrorCode::InvalidFormat)?;
        let version = u32::from_le_bytes(version.try_into().map_err(|_| ErrorCode::InvalidFormat)?);
        let sdk_name = text(&mut rest).filter(|name| !name.is_empty()).ok_or(ErrorCode::InvalidFormat)?;
        let sdk_version = text(&mut rest).filter(|version| !version.is_empty()).ok_or(ErrorCode::InvalidFormat)?;
        let password = {
            let mut at = rest;
            match (text(&mut at), text(&mut at)) {
                (Some(username), Some(password)) if is_context(at) => {
                    Some(Credentials::Password { username, password })
                }
                _ => None,
            }
        };
        let token = {
            let mut at = rest;
            text(&mut at).filter(|token| !token.is_empty() && is_context(at)).map(|token| Credentials::Token { token })
        };
        Ok(Login { version, sdk_name, sdk_version, credentials: password.or(token).ok_or(ErrorCode::InvalidCommand) })
    }
}

/// The body of the reply to a login: success, user, session, protocol version, server version.
pub fn encode_login_reply(out: &mut BytesMut, user: u32, session: u64, server_version: &str) {
    let version = &server_version.as_bytes()[..server_version.len().min(255)];
    out.put_slice(&crate::frame::RESULT_OK);
    out.put_u32_le(user);
    out.put_u64_le(session);
    out.put_u32_le(PROTOCOL_VERSION);
    out.put_u8(version.len() as u8);
    out.put_slice(version);
}
