//! Frame headers: 256 bytes before every body, requests and replies alike. Read and written by offset.
//!
//! ```text
//!            request (command 5)              reply (command 8)                  eviction (command 13)
//!  48 u32    size, header included            size                               256
//!  60 u8     command                          command                            command
//! 128 u128   client id                        request checksum (echo)            client id
//! 144 u128   request checksum                 0                                  144 u32 version, 148 u32 minimum
//! 160        timestamp u64: 0                 client id u128
//! 168 u64    request number
//! 176        operation u8                     op u64
//! 184 u64    session                          commit u64
//! 192        user u32: 0                      timestamp u64
//! 196 u32    command code (operation 2)
//! 200                                         request number u64 (echo)
//! 208                                         operation u8 (echo)
//! 216                                         status u32
//! 255                                                                            reason u8
//! ```

use crate::batch::{u32_at, u64_at, u128_at};
use crate::limits::FRAME_HEADER_SIZE;

/// Command byte of a request.
pub const COMMAND_REQUEST: u8 = 5;
/// Command byte of a reply.
pub const COMMAND_REPLY: u8 = 8;
/// Command byte of an eviction.
pub const COMMAND_EVICTION: u8 = 13;

/// The bytes of a frame header.
pub type HeaderBytes = [u8; FRAME_HEADER_SIZE];

/// What a request says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// Bytes of the frame, header included.
    pub size: u32,
    /// Client id; 0 is refused.
    pub client: u128,
    /// XXH3-64 of the body, or 0 for unstamped.
    pub request_checksum: u128,
    /// Request number.
    pub request: u64,
    /// Operation byte, known or not.
    pub operation: u8,
    /// Session number.
    pub session: u64,
    /// Command code, meaningful for operation 2.
    pub code: u32,
}

/// Why bytes are no request frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A frame has at least its header.
    #[error("a frame of {0} bytes is smaller than its header")]
    TooSmall(u32),
    /// Larger than allowed now.
    #[error("a frame of {size} bytes is larger than the limit of {max}")]
    TooLarge {
        /// Announced.
        size: u32,
        /// Allowed.
        max: usize,
    },
    /// Only requests come from clients.
    #[error("command {0} does not come from a client")]
    NotARequest(u8),
}

impl RequestHeader {
    /// Reads a request header; a frame may have up to `max` bytes.
    ///
    /// # Errors
    /// [`FrameError`]; the connection can't be used any more, since where the next frame starts is not known.
    pub fn parse(bytes: &HeaderBytes, max: usize) -> Result<RequestHeader, FrameError> {
        let size = u32_at(bytes, 48);
        if (size as usize) < FRAME_HEADER_SIZE {
            return Err(FrameError::TooSmall(size));
        }
        if size as usize > max {
            return Err(FrameError::TooLarge { size, max });
        }
        if bytes[60] != COMMAND_REQUEST {
            return Err(FrameError::NotARequest(bytes[60]));
        }
        Ok(RequestHeader {
            size,
            client: u128_at(bytes, 128),
            request_checksum: u128_at(bytes, 144),
            request: u64_at(bytes, 168),
            operation: bytes[176],
            session: u64_at(bytes, 184),
            code: u32_at(bytes, 196),
        })
    }

    /// Writes a request header, as a client does.
    pub fn encode(&self) -> HeaderBytes {
        let mut bytes = [0; FRAME_HEADER_SIZE];
        bytes[48..52].copy_from_slice(&self.size.to_le_bytes());
        bytes[60] = COMMAND_REQUEST;
        bytes[128..144].copy_from_slice(&self.client.to_le_bytes());
        bytes[144..160].copy_from_slice(&self.request_checksum.to_le_bytes());
        bytes[168..176].copy_from_slice(&self.request.to_le_bytes());
        bytes[176] = self.operation;
        bytes[184..192].copy_from_slice(&self.session.to_le_bytes());
        bytes[196..200].copy_from_slice(&self.code.to_le_bytes());
        bytes
    }

    /// Bytes of the body.
    pub fn body_len(&self) -> usize {
        self.size as usize - FRAME_HEADER_SIZE
    }
}

/// What a reply says beside its body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyFields {
    /// Bytes of the body.
    pub body_len: usize,
    /// 0, or an error number and then no body.
    pub status: u32,
    /// Log position of the operation, or the session.
    pub op: u64,
    /// Committed position of the metadata log.
    pub commit: u64,
    /// Microseconds since 1970.
    pub timestamp: u64,
}

/// Writes the header of the reply to `request`, whose number, client, checksum and operation it repeats.
///
/// # Panics
/// When the body does not fit a frame's size field.
pub fn encode_reply(request: &RequestHeader, reply: &ReplyFields) -> HeaderBytes {
    let size = u32::try_from(FRAME_HEADER_SIZE + reply.body_len).expect("replies are cut to the frame limit");
    let mut bytes = [0; FRAME_HEADER_SIZE];
    bytes[48..52].copy_from_slice(&size.to_le_bytes());
    bytes[60] = COMMAND_REPLY;
    bytes[128..144].copy_from_slice(&request.request_checksum.to_le_bytes());
    bytes[160..176].copy_from_slice(&request.client.to_le_bytes());
    bytes[176..184].copy_from_slice(&reply.op.to_le_bytes());
    bytes[184..192].copy_from_slice(&reply.commit.to_le_bytes());
    bytes[192..200].copy_from_slice(&reply.timestamp.to_le_bytes());
    bytes[200..208].copy_from_slice(&request.request.to_le_bytes());
    bytes[208] = request.operation;
    bytes[216..220].copy_from_slice(&reply.status.to_le_bytes());
    bytes
}

/// Why a session ends; the number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EvictionReason {
    /// The client has no session.
    NoSession = 1,
    /// The operation byte means nothing.
    InvalidOperation = 4,
    /// The session is older than the client's present one.
    SessionTooLow = 7,
    /// Wrong user name or password, or the user is inactive.
    InvalidCredentials = 9,
    /// Unknown or expired token.
    InvalidToken = 10,
    /// The token's user is inactive.
    UserInactive = 11,
    /// The client id belongs to another user, or similar.
    SessionError = 12,
    /// The client was silent for too long.
    StaleClient = 13,
    /// The client's protocol version is outside the window.
    IncompatibleProtocol = 14,
    /// A login that can't be read.
    MalformedLogin = 15,
}

/// Writes an eviction. `window` is the server's protocol version and the minimum that it accepts, for reason 14 only.
pub fn encode_eviction(client: u128, reason: EvictionReason, window: Option<(u32, u32)>) -> HeaderBytes {
    let mut bytes = [0; FRAME_HEADER_SIZE];
    bytes[48..52].copy_from_slice(&(FRAME_HEADER_SIZE as u32).to_le_bytes());
    bytes[60] = COMMAND_EVICTION;
    // A client id of zero makes an eviction invalid for its reader.
    bytes[128..144].copy_from_slice(&client.max(1).to_le_bytes());
    if let (EvictionReason::IncompatibleProtocol, Some((version, minimum))) = (reason, window) {
        bytes[144..148].copy_from_slice(&version.to_le_bytes());
        bytes[148..152].copy_from_slice(&minimum.to_le_bytes());
    }
    bytes[255] = reason as u8;
    bytes
}

/// What a client reads from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerFrame {
    /// A reply.
    Reply {
        /// Bytes of the frame.
        size: u32,
        /// Operation of the request.
        operation: u8,
        /// Number of the request.
        request: u64,
        /// 0, or an error number.
        status: u32,
        /// Committed position of the metadata log.
        commit: u64,
    },
    /// The session is over.
    Eviction {
        /// Why, as the number on the wire.
        reason: u8,
    },
}

impl ServerFrame {
    /// Reads a header from the server; `None` when it is none.
    pub fn parse(bytes: &HeaderBytes) -> Option<ServerFrame> {
        let size = u32_at(bytes, 48);
        match bytes[60] {
            COMMAND_REPLY if size as usize >= FRAME_HEADER_SIZE => Some(ServerFrame::Reply {
                size,
                operation: bytes[208],
                request: u64_at(bytes, 200),
                status: u32_at(bytes, 216),
                commit: u64_at(bytes, 184),
            }),
            COMMAND_EVICTION => Some(ServerFrame::Eviction { reason: bytes[255] }),
            _ => None,
        }
    }
}

/// Body of a result-framed reply that reports success and holds nothing else; payloads follow these bytes.
pub const RESULT_OK: [u8; 4] = [0; 4];

/// Body of a result-framed reply that reports a failure: one result, index 0, the error number.
pub fn result_error(code: u32) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&1u32.to_le_bytes());
    bytes[8..].copy_from_slice(&code.to_le_bytes());
    bytes
}
