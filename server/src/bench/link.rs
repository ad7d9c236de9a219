//! One connection with one request in flight, advanced as far as its socket allows.

use super::failure::BenchError;
use super::session::{Session, reply_size};
use super::workload::{Carried, Workload};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;
use whippet_protocol::limits::FRAME_HEADER_SIZE;

/// First size of the receive buffer; replies that are larger make it grow once.
const RECEIVE_BUFFER: usize = 64 * 1024;

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Nothing in flight.
    Idle,
    /// So many bytes of the frame are written.
    Sending(usize),
    /// So many bytes of the reply are read.
    Receiving(usize),
}

/// A finished exchange.
#[derive(Clone, Copy, Debug)]
pub struct Exchanged {
    /// When the request began to be written.
    pub sent_at: Instant,
    /// What it carried.
    pub carried: Carried,
}

/// One connection.
pub struct Link {
    stream: TcpStream,
    workload: Workload,
    phase: Phase,
    sent_at: Instant,
    reply: Vec<u8>,
}

impl Link {
    /// Takes over a connection whose preparations are done.
    ///
    /// # Errors
    /// When the socket cannot be made non-blocking.
    pub fn new(session: Session, workload: Workload) -> Result<Link, BenchError> {
        let (stream, _) = session.into_parts();
        stream.set_nonblocking(true).map_err(|error| BenchError::io("prepare the connection", error))?;
        Ok(Link { stream, workload, phase: Phase::Idle, sent_at: Instant::now(), reply: vec![0; RECEIVE_BUFFER] })
    }

    /// The socket.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether nothing is in flight.
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Sends the next request, as far as the socket takes it at once.
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn start(&mut self, now: Instant) -> Result<(), BenchError> {
        debug_assert!(self.is_idle());
        self.sent_at = now;
        self.phase = Phase::Sending(0);
        self.advance().map(|_| ())
    }

    /// Writes and reads what the socket allows; the exchange, once its reply is complete.
    ///
    /// # Errors
    /// When the connection breaks or the server refuses.
    pub fn advance(&mut self) -> Result<Option<Exchanged>, BenchError> {
        if let Phase::Sending(mut written) = self.phase {
            let frame = self.workload.frame();
            while written < frame.len() {
                match self.stream.write(&frame[written..]) {
                    Ok(taken) => written += taken,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        self.phase = Phase::Sending(written);
                        return Ok(None);
                    }
                    Err(error) => return Err(BenchError::io("send a request", error)),
                }
            }
            // The reply cannot be there yet; the socket tells when it is.
            self.phase = Phase::Receiving(0);
            return Ok(None);
        }
        let Phase::Receiving(mut read) = self.phase else { return Ok(None) };
        loop {
            let room = self.reply.len() - read;
            match self.stream.read(&mut self.reply[read..]) {
                Ok(0) => return Err(BenchError::Protocol("the server closed the connection before its answer")),
                Ok(taken) => {
                    read += taken;
                    if let Some(size) = self.size_of_reply(read)? {
                        if read > size {
                            return Err(BenchError::Protocol("bytes follow the reply"));
                        }
                        if read == size {
                            let carried = self.workload.take(&self.reply[FRAME_HEADER_SIZE..size])?;
                            self.phase = Phase::Idle;
                            return Ok(Some(Exchanged { sent_at: self.sent_at, carried }));
                        }
                        if size > self.reply.len() {
                            self.reply.resize(size, 0);
                        }
                    }
                    self.phase = Phase::Receiving(read);
                    if taken < room {
                        // The socket is empty, and tells when it is not any more.
                        return Ok(None);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.phase = Phase::Receiving(read);
                    return Ok(None);
                }
                Err(error) => return Err(BenchError::io("read a reply", error)),
            }
        }
    }

    fn size_of_reply(&self, read: usize) -> Result<Option<usize>, BenchError> {
        match self.reply[..read].first_chunk() {
            Some(header) => reply_size(header).map(Some),
            None => Ok(None),
        }
    }
}
