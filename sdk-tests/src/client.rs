//! A small blocking client that shows every byte of the conversation.

use crate::batch::Polled;
use crate::body::{self, Target};
use crate::frame::{
    Answer, COMMAND_EVICTION, COMMAND_REPLY, FRAME_SIZE_MAX, HEADER_SIZE, OPERATION_LOGOUT, OPERATION_NON_REPLICATED,
    OPERATION_REGISTER, OPERATION_SEND, OPERATION_STORE_OFFSET, RequestHead, body_checksum, u32_in, u64_in,
};
use crate::random::{Random, clock_seed};
use iggy_binary_protocol::WirePollingStrategy;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Longest wait for one answer unless a test sets another one.
pub const ANSWER_DEADLINE: Duration = Duration::from_secs(15);

/// Why a request did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The server answered with an error code (status or result section).
    #[error("the server answered with error code {0}")]
    Code(u32),
    /// The server ended the session.
    #[error("the server evicted the client, reason {0}")]
    Evicted(u8),
    /// The connection broke, or no answer came in time: whether the request was applied is unknown.
    #[error("no answer: {0}")]
    Connection(#[from] io::Error),
    /// The answer breaks the protocol.
    #[error("malformed answer: {0}")]
    Malformed(String),
}

impl Failure {
    /// The error code, if the server answered with one.
    #[must_use]
    pub fn code(&self) -> Option<u32> {
        match self {
            Self::Code(code) => Some(*code),
            Self::Evicted(_) | Self::Connection(_) | Self::Malformed(_) => None,
        }
    }
}

/// A stored consumer offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredOffset {
    /// Offset of the last committed message.
    pub current_offset: u64,
    /// The offset that was stored.
    pub stored_offset: u64,
}

/// One TCP connection with its client number, session and request counter.
pub struct RawClient {
    stream: TcpStream,
    client: u128,
    session: u64,
    next_request: u64,
}

impl RawClient {
    /// Connects without logging in.
    ///
    /// # Errors
    /// The connection was refused.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
        let stream = TcpStream::connect_timeout(&address, ANSWER_DEADLINE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_DEADLINE))?;
        stream.set_write_timeout(Some(ANSWER_DEADLINE))?;
        let salt = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        let client = Random::new(clock_seed() ^ (salt << 48)).next_u128() | 1;
        Ok(Self { stream, client, session: 0, next_request: 1 })
    }

    /// Connects and logs in as iggy / iggy.
    ///
    /// # Errors
    /// See [`RawClient::connect`] and [`RawClient::login`].
    pub fn logged_in(address: SocketAddr) -> Result<Self, Failure> {
        let mut client = Self::connect(address)?;
        client.login("iggy", "iggy")?;
        Ok(client)
    }

    /// Changes the longest wait for one answer.
    ///
    /// # Errors
    /// The socket refused it.
    pub fn set_answer_deadline(&self, deadline: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(deadline))
    }

    /// The socket, for tests that send what no client would.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// The client number.
    #[must_use]
    pub fn client(&self) -> u128 {
        self.client
    }

    /// The session number; 0 before the login.
    #[must_use]
    pub fn session(&self) -> u64 {
        self.session
    }

    /// Logs in by password and remembers the session.
    ///
    /// # Errors
    /// The login was refused, or the connection broke.
    pub fn login(&mut self, username: &str, password: &str) -> Result<u32, Failure> {
        let body = body::login(body::PROTOCOL_VERSION, username, password);
        let head = RequestHead {
            client: self.client,
            checksum: body_checksum(&body),
            operation: OPERATION_REGISTER,
            ..RequestHead::default()
        };
        let answer = self.exchange(&head.frame(&body))?;
        let payload = checked(&answer)?;
        let (Some(user), Some(session)) = (u32_in(&payload, 0), u64_in(&payload, 4)) else {
            return Err(Failure::Malformed(format!("login reply of {} bytes", payload.len())));
        };
        if session == 0 {
            return Err(Failure::Malformed("session number 0".to_owned()));
        }
        self.session = session;
        Ok(user)
    }

    /// The header of the next request with `operation`; replicated ones take the next request number.
    pub fn head(&mut self, operation: u8, code: u32, body: &[u8]) -> RequestHead {
        let replicated = operation != OPERATION_NON_REPLICATED;
        let request = if replicated { self.next_request } else { self.next_request - 1 };
        self.next_request += u64::from(replicated);
        let stamped = matches!(operation, OPERATION_LOGOUT | 128..=149);
        RequestHead {
            client: self.client,
            checksum: if stamped { body_checksum(body) } else { 0 },
            request,
            operation,
            session: self.session,
            code,
        }
    }

    /// Writes bytes as they are and reads one frame.
    ///
    /// # Errors
    /// The connection broke, no answer came in time, or the answer is no frame of this protocol.
    pub fn exchange(&mut self, frame: &[u8]) -> Result<Answer, Failure> {
        self.stream.write_all(frame)?;
        self.read_answer()
    }

    /// Reads one frame.
    ///
    /// # Errors
    /// The connection broke, no answer came in time, or the answer is no frame of this protocol.
    pub fn read_answer(&mut self) -> Result<Answer, Failure> {
        let mut header = [0; HEADER_SIZE];
        self.stream.read_exact(&mut header)?;
        let size = u32_in(&header, 48).unwrap_or_default();
        if !(HEADER_SIZE as u32..=4 * FRAME_SIZE_MAX).contains(&size) {
            return Err(Failure::Malformed(format!("frame of {size} bytes")));
        }
        let mut body = vec![0; size as usize - HEADER_SIZE];
        self.stream.read_exact(&mut body)?;
        let answer = Answer { header, body };
        match answer.command() {
            COMMAND_REPLY if answer.status() != 0 && !answer.body.is_empty() => {
                Err(Failure::Malformed(format!("status {} with a body", answer.status())))
            }
            COMMAND_REPLY | COMMAND_EVICTION => Ok(answer),
            other => Err(Failure::Malformed(format!("command {other}"))),
        }
    }

    /// Sends one request and returns the payload of its reply; checks that the reply echoes the request.
    ///
    /// # Errors
    /// The server refused it, or the connection broke.
    pub fn call(&mut self, operation: u8, code: u32, body: &[u8]) -> Result<Vec<u8>, Failure> {
        let head = self.head(operation, code, body);
        let answer = self.exchange(&head.frame(body))?;
        if answer.command() == COMMAND_REPLY {
            let echo = (answer.client(), answer.request(), answer.checksum());
            let sent = (head.client, head.request, head.checksum);
            if echo != sent {
                return Err(Failure::Malformed(format!("reply echoes {echo:?}, the request was {sent:?}")));
            }
        }
        checked(&answer)
    }

    /// Sends one request that is not replicated.
    ///
    /// # Errors
    /// See [`RawClient::call`].
    pub fn read(&mut self, code: u32, body: &[u8]) -> Result<Vec<u8>, Failure> {
        self.call(OPERATION_NON_REPLICATED, code, body)
    }

    /// Ping.
    ///
    /// # Errors
    /// See [`RawClient::call`].
    pub fn ping(&mut self) -> Result<(), Failure> {
        self.read(1, &[]).map(drop)
    }

    /// Creates a stream and returns its number.
    ///
    /// # Errors
    /// See [`RawClient::call`].
    pub fn create_stream(&mut self, name: &str) -> Result<u32, Failure> {
        first_number(&self.call(128, 202, &body::create_stream(name))?)
    }

    /// Creates a topic and returns its number.
    ///
    /// # Errors
    /// See [`RawClient::call`].
    pub fn create_topic(
        &mut self,
        stream: u32,
        name: &str,
        partitions: u32,
        options: &[(&str, &str)],
    ) -> Result<u32, Failure> {
        first_number(&self.call(132, 302, &body::create_topic(stream, name, partitions, options))?)
    }

    /// Sends one batch and returns the offset of its first message.
    ///
    /// # Errors
    /// See [`RawClient::call`]; [`Failure::Malformed`] also when the reply names another partition or no offset.
    pub fn send(&mut self, target: Target, payloads: &[Vec<u8>]) -> Result<u64, Failure> {
        let body = body::send(target, 1, payloads);
        confirmation(target, &self.call(OPERATION_SEND, 101, &body)?)
    }

    /// Polls as a plain consumer.
    ///
    /// # Errors
    /// See [`RawClient::call`]; [`Failure::Malformed`] also when a checksum in the reply is wrong.
    pub fn poll(
        &mut self,
        target: Target,
        consumer: u32,
        strategy: WirePollingStrategy,
        count: u32,
        auto_commit: bool,
    ) -> Result<Polled, Failure> {
        let reply = self.read(100, &body::poll(target, consumer, strategy, count, auto_commit))?;
        Polled::decode(&reply).map_err(Failure::Malformed)
    }

    /// Polls at most `count` messages from `offset` on.
    ///
    /// # Errors
    /// See [`RawClient::poll`].
    pub fn poll_from(&mut self, target: Target, offset: u64, count: u32) -> Result<Polled, Failure> {
        self.poll(target, 1, WirePollingStrategy::offset(offset), count, false)
    }

    /// Stores the offset of a plain consumer.
    ///
    /// # Errors
    /// See [`RawClient::call`].
    pub fn store_offset(&mut self, target: Target, consumer: u32, offset: u64) -> Result<(), Failure> {
        self.call(OPERATION_STORE_OFFSET, 121, &body::store_offset(target, consumer, offset)).map(drop)
    }

    /// The stored offset of a plain consumer, if there is one.
    ///
    /// # Errors
    /// See [`RawClient::call`].
    pub fn get_offset(&mut self, target: Target, consumer: u32) -> Result<Option<StoredOffset>, Failure> {
        let reply = self.read(120, &body::get_offset(target, consumer))?;
        if reply.is_empty() {
            return Ok(None);
        }
        match (u32_in(&reply, 0), u64_in(&reply, 4), u64_in(&reply, 12)) {
            (Some(partition), Some(current_offset), Some(stored_offset)) if partition == target.partition => {
                Ok(Some(StoredOffset { current_offset, stored_offset }))
            }
            _ => Err(Failure::Malformed(format!("offset reply {reply:?}"))),
        }
    }
}

/// The payload of a reply, or why there is none.
///
/// # Errors
/// The error code of a reply, or the reason of an eviction.
pub fn checked(answer: &Answer) -> Result<Vec<u8>, Failure> {
    if answer.command() == COMMAND_EVICTION {
        return Err(Failure::Evicted(answer.reason()));
    }
    answer.outcome().map(<[u8]>::to_vec).map_err(Failure::Code)
}

/// The base offset in the reply to a send that went to `target`.
///
/// # Errors
/// [`Failure::Malformed`] when the reply is not exactly one confirmation of that partition.
pub fn confirmation(target: Target, reply: &[u8]) -> Result<u64, Failure> {
    let fields =
        (reply.len(), u32_in(reply, 0), u32_in(reply, 4), u32_in(reply, 8), u32_in(reply, 12), u64_in(reply, 16));
    match fields {
        (24, Some(1), Some(stream), Some(topic), Some(partition), Some(base_offset))
            if (Target { stream, topic, partition }) == target =>
        {
            Ok(base_offset)
        }
        _ => Err(Failure::Malformed(format!("confirmation of a send to {target:?}: {reply:?}"))),
    }
}

fn first_number(reply: &[u8]) -> Result<u32, Failure> {
    u32_in(reply, 0).ok_or_else(|| Failure::Malformed(format!("reply of {} bytes", reply.len())))
}
