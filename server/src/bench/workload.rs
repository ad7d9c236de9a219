//! What one connection does again and again: the request, ready to be sent, and what to make of its reply.

use super::body;
use super::failure::BenchError;
use super::session::Session;
use bytes::BytesMut;
use std::time::{SystemTime, UNIX_EPOCH};
use whippet_protocol::Command;
use whippet_protocol::batch::{BatchBuilder, batches};
use whippet_protocol::limits::{BATCH_HEADER_SIZE, FRAME_HEADER_SIZE, MESSAGE_HEADER_SIZE};

/// Where the request number stands in a frame.
const REQUEST_NUMBER_AT: usize = 168;
/// Bytes of a poll reply before its batches.
const POLL_HEAD: usize = 16;

/// What a reply was worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Messages.
    pub messages: u64,
    /// Payload bytes of these messages.
    pub payload_bytes: u64,
}

/// The work of one connection.
#[derive(Debug)]
pub enum Workload {
    /// Sends one prepared batch again and again.
    Produce(Produce),
    /// Polls a partition from its start to its end, and again from its start.
    Consume(Consume),
}

impl Workload {
    /// The frame to send next.
    pub fn frame(&self) -> &[u8] {
        match self {
            Workload::Produce(produce) => &produce.frame,
            Workload::Consume(consume) => &consume.frame,
        }
    }

    /// Takes the body of a successful reply and prepares the next frame.
    ///
    /// # Errors
    /// When the body is not what the protocol has there, or there is nothing to consume.
    pub fn take(&mut self, body: &[u8]) -> Result<Carried, BenchError> {
        match self {
            Workload::Produce(produce) => produce.take(body),
            Workload::Consume(consume) => consume.take(body),
        }
    }
}

/// Which partition, and how much of it a request moves.
#[derive(Clone, Debug)]
pub struct Target {
    /// Name of the stream.
    pub stream: String,
    /// Name of the topic.
    pub topic: String,
    /// The partition.
    pub partition: u32,
    /// Messages a request.
    pub messages: u32,
    /// Payload bytes of each message that is sent.
    pub message_size: usize,
}

/// See [`Workload::Produce`].
#[derive(Debug)]
pub struct Produce {
    frame: BytesMut,
    request: u64,
    carried: Carried,
}

impl Produce {
    /// Prepares the frame: checksums are computed this once, so that the client's work does not hide the server's.
    pub fn new(session: &Session, target: &Target) -> Self {
        let routing = body::send_routing(&target.stream, &target.topic, target.partition, target.messages);
        let headroom = FRAME_HEADER_SIZE + routing.len();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
        let capacity = target.messages as usize * (MESSAGE_HEADER_SIZE + target.message_size);
        let mut builder = BatchBuilder::new(headroom, now, capacity);
        for index in 0..target.messages {
            let payload: Vec<u8> =
                (0..target.message_size).map(|at| (at as u32).wrapping_mul(31).wrapping_add(index) as u8).collect();
            builder.push(0, now, &payload, &[]);
        }
        let (mut frame, _) = builder.finish();
        let header = session.hot_header(Command::SendMessages, frame.len() - FRAME_HEADER_SIZE);
        frame[..FRAME_HEADER_SIZE].copy_from_slice(&header.encode());
        frame[FRAME_HEADER_SIZE..headroom].copy_from_slice(&routing);
        let carried = Carried {
            messages: target.messages.into(),
            payload_bytes: u64::from(target.messages) * target.message_size as u64,
        };
        let mut produce = Self { frame, request: header.request, carried };
        produce.number_next();
        produce
    }

    fn number_next(&mut self) {
        self.request += 1;
        self.frame[REQUEST_NUMBER_AT..REQUEST_NUMBER_AT + 8].copy_from_slice(&self.request.to_le_bytes());
    }

    fn take(&mut self, body: &[u8]) -> Result<Carried, BenchError> {
        // A count, then stream, topic, partition and base offset of each batch.
        if body.len() != 24 || body[..4] != 1u32.to_le_bytes() {
            return Err(BenchError::Protocol("the reply to a send confirms no batch"));
        }
        self.number_next();
        Ok(self.carried)
    }
}

/// See [`Workload::Consume`].
#[derive(Debug)]
pub struct Consume {
    frame: Vec<u8>,
    offset_at: usize,
    offset: u64,
    place: String,
}

impl Consume {
    /// Starts at offset 0.
    pub fn new(session: &Session, target: &Target) -> Self {
        let (body, offset_at) = body::poll(&target.stream, &target.topic, target.partition, target.messages);
        let header = session.hot_header(Command::PollMessages, body.len());
        Self {
            frame: [&header.encode()[..], &body].concat(),
            offset_at: FRAME_HEADER_SIZE + offset_at,
            offset: 0,
            place: format!("partition {} of {}/{}", target.partition, target.stream, target.topic),
        }
    }

    fn take(&mut self, body: &[u8]) -> Result<Carried, BenchError> {
        let Some((head, batches_part)) = body.split_at_checked(POLL_HEAD) else {
            return Err(BenchError::Protocol("the reply to a poll is shorter than its head"));
        };
        let count = u32::from_le_bytes([head[12], head[13], head[14], head[15]]);
        let (mut batch_count, mut batch_bytes) = (0usize, 0usize);
        for batch in batches(batches_part) {
            batch_count += 1;
            batch_bytes += batch.len();
        }
        let overhead = batch_count * BATCH_HEADER_SIZE + count as usize * MESSAGE_HEADER_SIZE;
        if batch_bytes != batches_part.len() || overhead > batch_bytes {
            return Err(BenchError::Protocol("the batches of a poll reply do not fill it"));
        }
        if count == 0 && self.offset == 0 {
            return Err(BenchError::Empty(self.place.clone()));
        }
        self.offset = if count == 0 { 0 } else { self.offset + u64::from(count) };
        self.frame[self.offset_at..self.offset_at + 8].copy_from_slice(&self.offset.to_le_bytes());
        Ok(Carried { messages: count.into(), payload_bytes: (batch_bytes - overhead) as u64 })
    }
}
