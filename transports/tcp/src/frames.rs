//! Reads frames off a socket.
//!
//! A small frame takes one read: up to [`READ_AHEAD`] bytes are taken at once and copied into a buffer of just the right
//! size, and a read that did not fill its buffer also tells that nothing more has come, which spares the next look. Of a
//! large frame everything behind those first bytes is read straight into the buffer that the gateway gets.

use bytes::{BufMut, BytesMut};
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::ready;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use whippet_protocol::frame::{FrameError, RequestHeader};
use whippet_protocol::limits::FRAME_HEADER_SIZE;

/// Bytes that are read before the size of the next frame is known.
const READ_AHEAD: usize = 4096;
/// Bytes that are set aside at once for a frame that was announced and has not come.
const STEP: usize = 1024 * 1024;

const _: () = assert!(READ_AHEAD > FRAME_HEADER_SIZE, "a header must fit, and leave room for a small body");

/// Why there is no next frame.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The peer closed the connection between two frames.
    #[error("the peer closed the connection")]
    Closed,
    /// The peer closed it in the middle.
    #[error("the peer closed the connection after {have} bytes of a frame")]
    Truncated {
        /// Bytes that have come.
        have: usize,
    },
    /// Not what clients send, or too large for now.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// It did not come, or did not end, in time.
    #[error("no whole frame came in time: {have} bytes after {waited:?}")]
    Late {
        /// Bytes that have come.
        have: usize,
        /// How long they took.
        waited: Duration,
    },
    /// The connection broke.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// How long a frame may take.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// From now to its last byte.
    FromNow(Duration),
    /// From its first byte to its last; the first one may come at any time.
    FromFirstByte(Duration),
}

/// The frames of one connection.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// The start of the next frame, which came together with the last one. Invariant: shorter than [`READ_AHEAD`].
    ahead: BytesMut,
}

impl Frames {
    /// Reads the next frame, header included, into one buffer that ends with it; it may have up to `size_max` bytes. When
    /// the future is dropped halfway the connection can't be used any more.
    ///
    /// # Errors
    /// [`ReadError`]; the connection can't be used any more, since where the next frame starts is not known.
    pub(crate) async fn next(
        &mut self,
        socket: &mut TcpStream,
        size_max: usize,
        patience: Patience,
    ) -> Result<(RequestHeader, BytesMut), ReadError> {
        let mut frame = std::mem::take(&mut self.ahead);
        let mut started = Instant::now();
        let (limit, read) = match patience {
            Patience::FromNow(limit) => (limit, self.finish(&mut frame, socket, size_max)),
            Patience::FromFirstByte(limit) => {
                if frame.is_empty() {
                    if read_ahead(socket, &mut frame).await? == 0 {
                        return Err(ReadError::Closed);
                    }
                    started = Instant::now();
                }
                (limit, self.finish(&mut frame, socket, size_max))
            }
        };
        match timeout_at(started + limit, read).await {
            Ok(header) => Ok((header?, frame)),
            Err(_) => Err(ReadError::Late { have: frame.len(), waited: started.elapsed() }),
        }
    }

    /// Reads what is missing of a frame.
    async fn finish(
        &mut self,
        frame: &mut BytesMut,
        socket: &mut TcpStream,
        size_max: usize,
    ) -> Result<RequestHeader, ReadError> {
        let header = loop {
            if let Some(head) = frame.first_chunk() {
                break RequestHeader::parse(head, size_max)?;
            }
            if read_ahead(socket, frame).await? == 0 {
                return Err(if frame.is_empty() {
                    ReadError::Closed
                } else {
                    ReadError::Truncated { have: frame.len() }
                });
            }
        };
        let size = header.size as usize;
        if frame.len() > size {
            self.ahead = BytesMut::from(&frame[size..]);
            frame.truncate(size);
        }
        if frame.len() < size {
            // A peer that delays small segments (as official clients do) holds back the end of the frame until what came
            // before is acknowledged, and the kernel would delay that for up to 40 ms.
            rustix::net::sockopt::set_tcp_quickack(&*socket, true).map_err(io::Error::from)?;
            frame.reserve((size - frame.len()).min(STEP));
        }
        while frame.len() < size {
            let missing = size - frame.len();
            if frame.capacity() == frame.len() {
                // Memory follows what has come, and at most doubles.
                frame.reserve(missing.min(frame.len().max(STEP)));
            }
            if socket.read_buf(&mut (&mut *frame).limit(missing)).await? == 0 {
                return Err(ReadError::Truncated { have: frame.len() });
            }
        }
        Ok(header)
    }
}

/// Appends what has come, up to [`READ_AHEAD`] bytes together with what is there; 0 when the peer closed the connection.
async fn read_ahead(socket: &mut TcpStream, frame: &mut BytesMut) -> io::Result<usize> {
    poll_fn(|cx| {
        let mut scratch = [const { MaybeUninit::uninit() }; READ_AHEAD];
        let room = READ_AHEAD - frame.len();
        let mut read = ReadBuf::uninit(&mut scratch[..room]);
        ready!(Pin::new(&mut *socket).poll_read(cx, &mut read))?;
        frame.extend_from_slice(read.filled());
        Ok(read.filled().len()).into()
    })
    .await
}
