//! The 256-byte frame headers of protocol 0.11.0, written and read by offset.

use twox_hash::XxHash3_64;

/// Length of every frame header, bytes.
pub const HEADER_SIZE: usize = 256;

/// Largest frame, header included, that an official client may send, bytes.
pub const FRAME_SIZE_MAX: u32 = 64 * 1024 * 1024;

/// Command byte of a request.
pub const COMMAND_REQUEST: u8 = 5;
/// Command byte of a reply.
pub const COMMAND_REPLY: u8 = 8;
/// Command byte of an eviction.
pub const COMMAND_EVICTION: u8 = 13;

/// Operation byte of a login.
pub const OPERATION_REGISTER: u8 = 1;
/// Operation byte of every command that is not replicated; its code is in the header.
pub const OPERATION_NON_REPLICATED: u8 = 2;
/// Operation byte of a logout.
pub const OPERATION_LOGOUT: u8 = 3;
/// Operation byte of "delete segments", the one metadata operation whose own number is not result-framed.
pub const OPERATION_DELETE_SEGMENTS: u8 = 138;
/// Operation byte of "send messages".
pub const OPERATION_SEND: u8 = 160;
/// Operation byte of "store consumer offset".
pub const OPERATION_STORE_OFFSET: u8 = 161;

/// What a request header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestHead {
    /// Client number, not 0.
    pub client: u128,
    /// Hash of the body for metadata operations; 0 = not stamped.
    pub checksum: u128,
    /// Request number.
    pub request: u64,
    /// Operation byte.
    pub operation: u8,
    /// Session number; 0 before the login.
    pub session: u64,
    /// Command code, used when the operation is [`OPERATION_NON_REPLICATED`].
    pub code: u32,
}

impl RequestHead {
    /// The header of a frame whose body has `body` bytes.
    ///
    /// # Panics
    /// When the frame would be longer than a u32 can say.
    #[must_use]
    pub fn encode(&self, body: usize) -> [u8; HEADER_SIZE] {
        let size = u32::try_from(HEADER_SIZE + body).expect("test frames are far below 4 GiB");
        let mut header = [0; HEADER_SIZE];
        header[48..52].copy_from_slice(&size.to_le_bytes());
        header[60] = COMMAND_REQUEST;
        header[128..144].copy_from_slice(&self.client.to_le_bytes());
        header[144..160].copy_from_slice(&self.checksum.to_le_bytes());
        header[168..176].copy_from_slice(&self.request.to_le_bytes());
        header[176] = self.operation;
        header[184..192].copy_from_slice(&self.session.to_le_bytes());
        if self.operation == OPERATION_NON_REPLICATED {
            header[196..200].copy_from_slice(&self.code.to_le_bytes());
        }
        header
    }

    /// Header and body as one piece of bytes.
    #[must_use]
    pub fn frame(&self, body: &[u8]) -> Vec<u8> {
        let mut frame = self.encode(body.len()).to_vec();
        frame.extend_from_slice(body);
        frame
    }
}

/// The request checksum of `body`, as clients stamp it on metadata operations, logins and logouts.
#[must_use]
pub fn body_checksum(body: &[u8]) -> u128 {
    u128::from(XxHash3_64::oneshot(body))
}

/// Whether replies to `operation` carry a result section before their payload.
#[must_use]
pub fn is_result_framed(operation: u8, body: &[u8]) -> bool {
    match operation {
        OPERATION_REGISTER => !body.is_empty(),
        OPERATION_DELETE_SEGMENTS | OPERATION_SEND => false,
        64..=149 | 161 | 162 => true,
        _ => false,
    }
}

/// One frame from the server.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    /// The header as received.
    pub header: [u8; HEADER_SIZE],
    /// The body as received.
    pub body: Vec<u8>,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Answer")
            .field("command", &self.command())
            .field("operation", &self.operation())
            .field("status", &self.status())
            .field("request", &self.request())
            .field("reason", &self.reason())
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

impl Answer {
    /// Command byte.
    #[must_use]
    pub fn command(&self) -> u8 {
        self.header[60]
    }

    /// Status of a reply; 0 = success.
    #[must_use]
    pub fn status(&self) -> u32 {
        self.u32_at(216)
    }

    /// Operation byte of a reply.
    #[must_use]
    pub fn operation(&self) -> u8 {
        self.header[208]
    }

    /// Request number that a reply echoes.
    #[must_use]
    pub fn request(&self) -> u64 {
        self.u64_at(200)
    }

    /// Client number that a reply echoes.
    #[must_use]
    pub fn client(&self) -> u128 {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.header[160..176]);
        u128::from_le_bytes(bytes)
    }

    /// Request checksum that a reply echoes.
    #[must_use]
    pub fn checksum(&self) -> u128 {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.header[128..144]);
        u128::from_le_bytes(bytes)
    }

    /// Metadata commit number of a reply.
    #[must_use]
    pub fn commit(&self) -> u64 {
        self.u64_at(184)
    }

    /// Reason of an eviction.
    #[must_use]
    pub fn reason(&self) -> u8 {
        self.header[255]
    }

    /// The outcome of a reply: its payload, or the error code from the status or the result section.
    ///
    /// # Errors
    /// The error code; [`u32::MAX`] when the result section is malformed, which no server may send.
    pub fn outcome(&self) -> Result<&[u8], u32> {
        if self.status() != 0 {
            return Err(self.status());
        }
        if !is_result_framed(self.operation(), &self.body) {
            return Ok(&self.body);
        }
        match u32_in(&self.body, 0) {
            Some(0) => Ok(&self.body[4..]),
            Some(_) => Err(u32_in(&self.body, 8).unwrap_or(u32::MAX)),
            None => Err(u32::MAX),
        }
    }

    fn u32_at(&self, offset: usize) -> u32 {
        u32_in(&self.header, offset).unwrap_or_default()
    }

    fn u64_at(&self, offset: usize) -> u64 {
        u64_in(&self.header, offset).unwrap_or_default()
    }
}

/// The little-endian u32 at `offset`, if the bytes reach that far.
#[must_use]
pub fn u32_in(bytes: &[u8], offset: usize) -> Option<u32> {
    let bytes = bytes.get(offset..offset + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// The little-endian u64 at `offset`, if the bytes reach that far.
#[must_use]
pub fn u64_in(bytes: &[u8], offset: usize) -> Option<u64> {
    let bytes = bytes.get(offset..offset + 8)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iggy_binary_protocol::consensus::{Command, Operation, ReplyHeader, RequestHeader};
    use std::mem::offset_of;

    #[test]
    fn offsets_agree_with_the_public_protocol_crate() {
        assert_eq!(offset_of!(RequestHeader, size), 48);
        assert_eq!(offset_of!(RequestHeader, command), 60);
        assert_eq!(offset_of!(RequestHeader, client), 128);
        assert_eq!(offset_of!(RequestHeader, request_checksum), 144);
        assert_eq!(offset_of!(RequestHeader, request), 168);
        assert_eq!(offset_of!(RequestHeader, operation), 176);
        assert_eq!(offset_of!(RequestHeader, session), 184);
        assert_eq!(offset_of!(RequestHeader, reserved), 196);
        assert_eq!(offset_of!(ReplyHeader, request_checksum), 128);
        assert_eq!(offset_of!(ReplyHeader, client), 160);
        assert_eq!(offset_of!(ReplyHeader, commit), 184);
        assert_eq!(offset_of!(ReplyHeader, request), 200);
        assert_eq!(offset_of!(ReplyHeader, operation), 208);
        assert_eq!(offset_of!(ReplyHeader, status), 216);
        assert_eq!(
            (Command::Request as u8, Command::Reply as u8, Command::Eviction as u8),
            (COMMAND_REQUEST, COMMAND_REPLY, COMMAND_EVICTION)
        );
        assert_eq!(Operation::SendMessages as u8, OPERATION_SEND);
        assert_eq!(Operation::DeleteSegments as u8, OPERATION_DELETE_SEGMENTS);
    }

    #[test]
    fn outcome_reads_both_error_channels() {
        let mut answer = Answer { header: [0; HEADER_SIZE], body: Vec::new() };
        answer.header[208] = 128;
        answer.body = vec![0, 0, 0, 0, 9];
        assert_eq!(answer.outcome(), Ok(&[9][..]));
        answer.body = [1u32, 0, 1012].iter().flat_map(|number| number.to_le_bytes()).collect();
        assert_eq!(answer.outcome(), Err(1012));
        answer.body = vec![1, 0, 0, 0];
        assert_eq!(answer.outcome(), Err(u32::MAX));
        answer.header[216..220].copy_from_slice(&41u32.to_le_bytes());
        assert_eq!(answer.outcome(), Err(41));
    }
}
