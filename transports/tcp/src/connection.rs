//! One connection: frames in, answers out, one at a time.

use crate::listener::TcpSettings;
use bytes::{BufMut, Bytes, BytesMut};
use std::io::{self, IoSlice};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use whippet_gateway::binary::{BinaryConnection, FrameAnswer};
use whippet_gateway::{Connection, Gateway};
use whippet_protocol::frame::RequestHeader;
use whippet_protocol::limits::FRAME_HEADER_SIZE;
use whippet_runtime::RuntimeHandle;

/// Bytes that are set aside at once for a frame that was announced and has not come.
const STEP: usize = 1024 * 1024;
/// Below this average size pieces are copied together: one large write costs less than many small pieces.
const PIECE_MIN: usize = 4096;
/// Pieces of one system call, as the kernel allows.
const PIECES_MAX: usize = 1024;

/// Why a connection ends.
enum End {
    /// The peer closed it between two frames, or the server stops.
    Quiet,
    /// It broke, or the peer did not keep to the protocol or to a deadline.
    Because(String),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        End::Because(error.to_string())
    }
}

/// Serves a connection until it ends.
pub(crate) async fn serve(mut socket: TcpStream, gateway: Gateway, registered: Connection, runtime: &RuntimeHandle, settings: TcpSettings) {
    let peer = registered.address();
    let mut connection = BinaryConnection::new(gateway, registered);
    let mut stopping = std::pin::pin!(runtime.stopping());
    loop {
        // Only between two frames does a stop end the connection: a request that was read is answered.
        let frame = tokio::select! {
            biased;
            frame = read_frame(&mut socket, &connection, settings) => frame,
            () = stopping.as_mut() => Err(End::Quiet),
        };
        let result = match frame {
            Ok((header, frame)) => {
                let answer = connection.handle_frame(header, frame).await;
                let close = answer.close;
                write_answer(&mut socket, answer, settings.write_timeout).await.map(|()| close)
            }
            Err(end) => Err(end),
        };
        match result {
            Ok(false) => {}
            Ok(true) | Err(End::Quiet) => break,
            Err(End::Because(reason)) => {
                tracing::debug!(%peer, reason, "a TCP connection ended");
                break;
            }
        }
    }
    let _ = timeout(Duration::from_secs(1), socket.shutdown()).await;
}

/// Reads the next frame, header included, into one buffer.
async fn read_frame(socket: &mut TcpStream, connection: &BinaryConnection, settings: TcpSettings) -> Result<(RequestHeader, BytesMut), End> {
    let logged_in = connection.is_logged_in();
    let first_byte = async {
        socket.readable().await?;
        Ok::<_, io::Error>(())
    };
    let started = Instant::now();
    if logged_in {
        first_byte.await?;
    } else {
        timeout_at(started + settings.login_timeout, first_byte).await.map_err(|_| End::Because("nothing came in time to log in".into()))??;
    }
    let deadline = if logged_in { Instant::now() + settings.frame_timeout } else { started + settings.login_timeout };
    let read = async {
        let mut head = [0u8; FRAME_HEADER_SIZE];
        let mut have = 0;
        while have < FRAME_HEADER_SIZE {
            match socket.read(&mut head[have..]).await? {
                0 if have == 0 => return Err(End::Quiet),
                0 => return Err(End::Because("the peer closed within a frame header".into())),
                read => have += read,
            }
        }
        let header = RequestHeader::parse(&head, connection.frame_size_max()).map_err(|error| End::Because(error.to_string()))?;
        let size = header.size as usize;
        let mut frame = BytesMut::with_capacity(size.min(STEP));
        frame.put_slice(&head);
        while frame.len() < size {
            let missing = size - frame.len();
            if frame.capacity() == frame.len() {
                // Double what has come, in steps, up to what is missing.
                frame.reserve(missing.min(frame.len().max(STEP)));
            }
            if socket.read_buf(&mut (&mut frame).limit(missing)).await? == 0 {
                return Err(End::Because("the peer closed within a frame".into()));
            }
        }
        Ok((header, frame))
    };
    match timeout_at(deadline, read).await {
        Ok(read) => read,
        Err(_) => Err(End::Because("a frame did not come to its end in time".into())),
    }
}

/// Writes an answer. The deadline starts anew whenever the peer has taken something.
async fn write_answer(socket: &mut TcpStream, answer: FrameAnswer, wait: Duration) -> Result<(), End> {
    let FrameAnswer { head, chunks, .. } = answer;
    let total: usize = chunks.iter().map(Bytes::len).sum();
    if chunks.is_empty() || total / chunks.len() < PIECE_MIN {
        let mut whole = head;
        whole.reserve(total);
        for chunk in &chunks {
            whole.put_slice(chunk);
        }
        return write_pieces(socket, &mut [IoSlice::new(&whole)], wait).await;
    }
    let mut pieces: Vec<IoSlice<'_>> = std::iter::once(IoSlice::new(&head)).chain(chunks.iter().map(|chunk| IoSlice::new(chunk))).collect();
    write_pieces(socket, &mut pieces, wait).await
}

async fn write_pieces(socket: &mut TcpStream, pieces: &mut [IoSlice<'_>], wait: Duration) -> Result<(), End> {
    let mut rest = pieces;
    while !rest.is_empty() {
        let count = rest.len().min(PIECES_MAX);
        // The socket usually takes it at once: no timer is set then.
        let written = match socket.try_write_vectored(&rest[..count]) {
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                match timeout(wait, socket.writable()).await {
                    Ok(ready) => ready?,
                    Err(_) => return Err(End::Because("the peer takes no answers".into())),
                }
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        if written == 0 {
            return Err(End::Because("the peer takes no answers".into()));
        }
        IoSlice::advance_slices(&mut rest, written);
    }
    Ok(())
}
