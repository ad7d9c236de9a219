//! One logged-in connection of the benchmark, used blocking for the few requests that prepare a run.

use super::body;
use super::failure::BenchError;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use twox_hash::XxHash3_64;
use whippet_protocol::frame::{HeaderBytes, RequestHeader, ServerFrame};
use whippet_protocol::limits::{FRAME_HEADER_SIZE, FRAME_SIZE_MAX};
use whippet_protocol::operation::{NON_REPLICATED, REGISTER, is_result_framed};
use whippet_protocol::{Command, ErrorCode};

/// Longest wait for a connection or an answer; beyond it the server counts as hanging.
pub const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// A logged-in connection.
pub struct Session {
    stream: TcpStream,
    client: u128,
    session: u64,
    request: u64,
}

impl Session {
    /// Connects and logs in.
    ///
    /// # Errors
    /// What hinders that.
    pub fn open(address: SocketAddr, username: &str, password: &str) -> Result<Session, BenchError> {
        let connect = |error| BenchError::io(format!("connect to {address}"), error);
        let stream = TcpStream::connect_timeout(&address, ANSWER_WAIT).map_err(connect)?;
        stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(ANSWER_WAIT)))
            .and_then(|()| stream.set_write_timeout(Some(ANSWER_WAIT)))
            .map_err(connect)?;
        let mut session = Session { stream, client: uuid::Uuid::new_v4().as_u128(), session: 0, request: 0 };
        let login = session.exchange(REGISTER, 0, &body::login(username, password))?;
        // user u32, session u64, versions.
        let number = login.get(4..12).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
        session.session =
            number.filter(|number| *number > 0).ok_or(BenchError::Protocol("the login has no session"))?;
        Ok(session)
    }

    /// Carries out a replicated command; what follows the result of its reply.
    ///
    /// # Errors
    /// What the server answers, or what happens to the connection.
    pub fn replicated(&mut self, command: Command, body: &[u8]) -> Result<Vec<u8>, BenchError> {
        let operation = command.operation().ok_or(BenchError::Protocol("the command is not replicated"))?;
        self.request += 1;
        self.exchange(operation, 0, body)
    }

    fn exchange(&mut self, operation: u8, code: u32, body: &[u8]) -> Result<Vec<u8>, BenchError> {
        let checksum = if operation == NON_REPLICATED { 0 } else { XxHash3_64::oneshot(body) };
        let header = RequestHeader { request_checksum: checksum.into(), ..self.header(operation, code, body.len()) };
        let io = |error| BenchError::io("talk to the server", error);
        self.stream.write_all(&[&header.encode()[..], body].concat()).map_err(io)?;
        let mut header: HeaderBytes = [0; FRAME_HEADER_SIZE];
        self.stream.read_exact(&mut header).map_err(io)?;
        let size = reply_size(&header)?;
        let mut reply = vec![0; size - FRAME_HEADER_SIZE];
        self.stream.read_exact(&mut reply).map_err(io)?;
        if !is_result_framed(operation) {
            return Ok(reply);
        }
        match reply.split_at_checked(4) {
            Some((count, payload)) if count == [0; 4] => Ok(payload.to_vec()),
            Some((_, results)) => {
                let code = results.get(4..8).and_then(|bytes| bytes.try_into().ok()).map_or(1, u32::from_le_bytes);
                Err(BenchError::Refused(code))
            }
            None => Err(BenchError::Protocol("a reply is shorter than its result")),
        }
    }

    fn header(&self, operation: u8, code: u32, body_len: usize) -> RequestHeader {
        RequestHeader {
            size: (FRAME_HEADER_SIZE + body_len) as u32,
            client: self.client,
            request_checksum: 0,
            request: self.request,
            operation,
            session: self.session,
            code,
        }
    }

    /// The header of hot requests: their bodies carry no checksum of the request.
    pub fn hot_header(&self, command: Command, body_len: usize) -> RequestHeader {
        let operation = command.operation().unwrap_or(NON_REPLICATED);
        let code = if operation == NON_REPLICATED { command.code() } else { 0 };
        self.header(operation, code, body_len)
    }

    /// The connection, and the number of the last request on it.
    pub fn into_parts(self) -> (TcpStream, u64) {
        (self.stream, self.request)
    }
}

/// Bytes of the frame of a successful reply.
///
/// # Errors
/// The status of the reply, or that this is none.
pub fn reply_size(header: &HeaderBytes) -> Result<usize, BenchError> {
    match ServerFrame::parse(header) {
        Some(ServerFrame::Reply { size, status: 0, .. }) if size as usize <= FRAME_SIZE_MAX => Ok(size as usize),
        Some(ServerFrame::Reply { status: 0, .. }) => {
            Err(BenchError::Protocol("a reply is larger than a frame may be"))
        }
        Some(ServerFrame::Reply { status, .. }) => Err(BenchError::Refused(status)),
        Some(ServerFrame::Eviction { reason }) => Err(BenchError::Evicted(reason)),
        None => Err(BenchError::Protocol("what the server sends is no frame of protocol 0.11")),
    }
}

/// Whether the server says that a thing of that name is there already.
pub fn is_already_there(error: &BenchError) -> bool {
    let codes = [ErrorCode::StreamNameAlreadyExists, ErrorCode::TopicNameAlreadyExists];
    matches!(error, BenchError::Refused(code) if codes.iter().any(|known| known.code() == *code))
}
