//! The binary protocol without sockets: a frame in, an answer out. TCP, QUIC and WebSocket all use it.

mod connection;
mod encode;
mod handlers;
mod table;

pub use connection::BinaryConnection;
pub use table::{Offered, Row, TABLE};

use crate::error::{OnTheWire, on_the_wire};
use bytes::{BufMut, Bytes, BytesMut};
use whippet_protocol::ErrorCode;
use whippet_protocol::frame::{
    EvictionReason, ReplyFields, RequestHeader, encode_eviction, encode_reply, result_error,
};
use whippet_protocol::limits::FRAME_HEADER_SIZE;

/// Bytes of a result section that reports one failure.
const RESULT_ERROR_SIZE: usize = 12;

/// What goes back for a frame, ready for a vectored write: `head`, then `chunks`.
#[derive(Debug)]
pub struct FrameAnswer {
    /// The frame header and the start of the body.
    pub head: BytesMut,
    /// The rest of the body.
    pub chunks: Vec<Bytes>,
    /// Close the connection once this is written.
    pub close: bool,
}

/// The body of a successful reply.
#[derive(Debug, Default)]
pub(crate) struct Body {
    /// Its start, behind room for the frame header.
    head: BytesMut,
    chunks: Vec<Bytes>,
    /// What the `op` field of the header shows.
    op: u64,
}

impl Body {
    /// A body that starts with what `write` puts there.
    pub(crate) fn new(capacity: usize, write: impl FnOnce(&mut BytesMut)) -> Body {
        let mut head = BytesMut::with_capacity(FRAME_HEADER_SIZE + capacity);
        head.put_bytes(0, FRAME_HEADER_SIZE);
        write(&mut head);
        Body { head, chunks: Vec::new(), op: 0 }
    }

    pub(crate) fn empty() -> Body {
        Body::new(4, |_| {})
    }

    pub(crate) fn with_chunks(mut self, chunks: Vec<Bytes>) -> Body {
        self.chunks = chunks;
        self
    }

    pub(crate) fn with_op(mut self, op: u64) -> Body {
        self.op = op;
        self
    }

    fn into_answer(self, request: &RequestHeader, commit: u64, timestamp: u64) -> FrameAnswer {
        let Body { mut head, chunks, op } = self;
        let body_len = head.len() - FRAME_HEADER_SIZE + chunks.iter().map(Bytes::len).sum::<usize>();
        let header = encode_reply(request, &ReplyFields { body_len, status: 0, op, commit, timestamp });
        head[..FRAME_HEADER_SIZE].copy_from_slice(&header);
        FrameAnswer { head, chunks, close: false }
    }
}

/// The answer to a request that was refused.
fn error_answer(request: &RequestHeader, code: ErrorCode, commit: u64, timestamp: u64) -> FrameAnswer {
    let (body_len, status) = match on_the_wire(request.operation, code) {
        OnTheWire::Eviction(reason) => return eviction(request.client, reason, None),
        OnTheWire::Status(code) => (0, code.code()),
        OnTheWire::ResultSection(_) => (RESULT_ERROR_SIZE, 0),
    };
    let mut head = BytesMut::with_capacity(FRAME_HEADER_SIZE + body_len);
    head.put_slice(&encode_reply(request, &ReplyFields { body_len, status, op: 0, commit, timestamp }));
    if body_len != 0 {
        head.put_slice(&result_error(code.code()));
    }
    FrameAnswer { head, chunks: Vec::new(), close: false }
}

/// Tells the client that its session is over. The connection stays: it may log in again.
fn eviction(client: u128, reason: EvictionReason, window: Option<(u32, u32)>) -> FrameAnswer {
    FrameAnswer { head: BytesMut::from(&encode_eviction(client, reason, window)[..]), chunks: Vec::new(), close: false }
}
