//! A client that speaks frames, well or badly.

use crate::node::PATIENCE;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use whippet_protocol::batch::{BatchBuilder, batches, messages};
use whippet_protocol::frame::{RequestHeader, ServerFrame};
use whippet_protocol::limits::FRAME_HEADER_SIZE;
use whippet_protocol::operation::{NON_REPLICATED, REGISTER, SEND_MESSAGES};

pub const CREATE_STREAM: u8 = 128;
pub const CREATE_TOPIC: u8 = 132;

/// An answer that was read whole.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub frame: ServerFrame,
    pub body: Vec<u8>,
}

impl Answer {
    /// Status of a reply.
    pub fn status(&self) -> u32 {
        match self.frame {
            ServerFrame::Reply { status, .. } => status,
            ServerFrame::Eviction { .. } => panic!("not a reply: {self:?}"),
        }
    }

    /// Request number of a reply.
    pub fn request(&self) -> u64 {
        match self.frame {
            ServerFrame::Reply { request, .. } => request,
            ServerFrame::Eviction { .. } => panic!("not a reply: {self:?}"),
        }
    }
}

/// One connection.
pub struct Client {
    pub stream: TcpStream,
    pub id: u128,
    pub session: u64,
    pub last_request: u64,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).expect("connect");
        stream.set_nodelay(true).expect("a socket option");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket option");
        let port = stream.local_addr().expect("an address").port();
        Client { stream, id: u128::from(port), session: 0, last_request: 0 }
    }

    /// A frame; replicated operations take the next request number.
    pub fn frame(&mut self, operation: u8, code: u32, body: &[u8]) -> Vec<u8> {
        if operation > 3 {
            self.last_request += 1;
        }
        let header = RequestHeader {
            size: (FRAME_HEADER_SIZE + body.len()) as u32,
            client: self.id,
            request_checksum: 0,
            request: if operation == REGISTER { 0 } else { self.last_request },
            operation,
            session: if operation == REGISTER { 0 } else { self.session },
            code,
        };
        [&header.encode()[..], body].concat()
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    pub fn answer(&mut self) -> io::Result<Answer> {
        let mut header = [0; FRAME_HEADER_SIZE];
        self.stream.read_exact(&mut header)?;
        let frame = ServerFrame::parse(&header).expect("a frame of a server");
        let size = match frame {
            ServerFrame::Reply { size, .. } => size as usize,
            ServerFrame::Eviction { .. } => FRAME_HEADER_SIZE,
        };
        let mut body = vec![0; size - FRAME_HEADER_SIZE];
        self.stream.read_exact(&mut body)?;
        Ok(Answer { frame, body })
    }

    #[track_caller]
    pub fn call(&mut self, operation: u8, code: u32, body: &[u8]) -> Answer {
        let frame = self.frame(operation, code, body);
        self.write(&frame).expect("write");
        self.answer().expect("an answer")
    }

    #[track_caller]
    pub fn ping(&mut self) {
        let answer = self.call(NON_REPLICATED, 1, &[]);
        assert_eq!((answer.status(), answer.body), (0, vec![]));
    }

    #[track_caller]
    pub fn login(&mut self) {
        let answer = self.call(REGISTER, 0, &login("iggy", "secret"));
        assert_eq!(answer.status(), 0, "{answer:?}");
        self.session = u64::from_le_bytes(answer.body[8..16].try_into().expect("eight bytes"));
        assert!(self.session > 0);
    }

    /// Creates stream 0 with topic 0 and these partitions.
    #[track_caller]
    pub fn create_topic(&mut self, partitions: u32) {
        let answer = self.call(CREATE_STREAM, 0, b"\x06stream");
        assert_eq!((answer.status(), &answer.body[..4]), (0, &[0; 4][..]));
        let answer = self.call(CREATE_TOPIC, 0, &[&id(0)[..], &partitions.to_le_bytes(), b"\x05topic"].concat());
        assert_eq!((answer.status(), &answer.body[..4]), (0, &[0; 4][..]));
    }

    /// Appends to stream 0, topic 0; the offset of the first message.
    #[track_caller]
    pub fn send(&mut self, partition: u32, payloads: &[&[u8]]) -> u64 {
        let answer = self.call(SEND_MESSAGES, 0, &send(partition, payloads));
        assert_eq!((answer.status(), answer.body.len()), (0, 24), "{answer:?}");
        u64::from_le_bytes(answer.body[16..].try_into().expect("eight bytes"))
    }

    /// Offsets and payloads from `offset` on.
    #[track_caller]
    pub fn poll(&mut self, partition: u32, offset: u64, count: u32) -> Vec<(u64, Vec<u8>)> {
        let answer = self.call(NON_REPLICATED, 100, &poll(partition, offset, count));
        assert_eq!(answer.status(), 0, "{answer:?}");
        let found: Vec<_> = batches(&answer.body[16..])
            .flat_map(messages)
            .map(|message| (message.offset, message.payload.to_vec()))
            .collect();
        assert_eq!(found.len() as u32, u32::from_le_bytes(answer.body[12..16].try_into().expect("four bytes")));
        found
    }

    /// Whether the server has closed the connection, waiting for it to do so.
    pub fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => rest.is_empty(),
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }
}

/// A numeric identifier.
fn id(id: u32) -> [u8; 6] {
    let [a, b, c, d] = id.to_le_bytes();
    [1, 4, a, b, c, d]
}

pub fn login(username: &str, password: &str) -> Vec<u8> {
    let mut body = (11u32 << 10).to_le_bytes().to_vec();
    for text in ["test-sdk", "0.11.0", username, password] {
        body.push(text.len() as u8);
        body.extend_from_slice(text.as_bytes());
    }
    body.extend_from_slice(&[0; 4]);
    body
}

/// The body of a send to stream 0, topic 0.
pub fn send(partition: u32, payloads: &[&[u8]]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(0, 1, 0);
    for (payload, number) in payloads.iter().zip(1..) {
        builder.push(number, 1, payload, &[]);
    }
    let (batch, _) = builder.finish();
    let target =
        [&id(0)[..], &id(0), &[2, 4], &partition.to_le_bytes(), &(payloads.len() as u32).to_le_bytes()].concat();
    [&(target.len() as u32).to_le_bytes()[..], &target, &batch].concat()
}

/// The body of a poll of stream 0, topic 0.
pub fn poll(partition: u32, offset: u64, count: u32) -> Vec<u8> {
    let mut body = [&[1][..], &id(1), &id(0), &id(0), &[1], &partition.to_le_bytes(), &[1]].concat();
    body.extend_from_slice(&offset.to_le_bytes());
    body.extend_from_slice(&count.to_le_bytes());
    body.push(0);
    body
}
