//! Writes answers to a socket.

use bytes::{Bytes, BytesMut};
use std::io::{self, IoSlice};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use whippet_gateway::binary::FrameAnswer;

/// Below this average size pieces are copied together: one large write costs less than many small pieces.
const PIECE_MIN: usize = 4096;
/// Pieces of one system call, as the kernel allows.
const PIECES_MAX: usize = 1024;
/// What a peer must take of an answer within the deadline for it to start anew.
const PROGRESS_MIN: usize = 64 * 1024;

/// Why an answer was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    /// The peer takes nothing, or too little.
    #[error("the peer took less than {PROGRESS_MIN} bytes of an answer in {0:?}")]
    Slow(Duration),
    /// The connection broke.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Writes an answer whole. Within each `wait` the peer must take [`PROGRESS_MIN`] bytes, or the rest.
///
/// # Errors
/// [`WriteError`]; the connection can't be used any more.
pub(crate) async fn write(socket: &TcpStream, answer: FrameAnswer, wait: Duration) -> Result<(), WriteError> {
    let FrameAnswer { head, chunks, .. } = answer;
    let total: usize = chunks.iter().map(Bytes::len).sum();
    if total < PIECE_MIN * chunks.len().max(1) {
        let whole = join(head, &chunks, total);
        return write_pieces(socket, &mut [IoSlice::new(&whole)], wait).await;
    }
    let head = IoSlice::new(&head);
    let mut pieces: Vec<IoSlice<'_>> =
        std::iter::once(head).chain(chunks.iter().map(|chunk| IoSlice::new(chunk))).collect();
    write_pieces(socket, &mut pieces, wait).await
}

fn join(mut head: BytesMut, chunks: &[Bytes], total: usize) -> BytesMut {
    head.reserve(total);
    for chunk in chunks {
        head.extend_from_slice(chunk);
    }
    head
}

async fn write_pieces(socket: &TcpStream, pieces: &mut [IoSlice<'_>], wait: Duration) -> Result<(), WriteError> {
    let mut rest = pieces;
    let mut taken = 0;
    // The socket usually takes everything at once: no time is read and no timer set then.
    let mut deadline = None;
    while !rest.is_empty() {
        let count = rest.len().min(PIECES_MAX);
        match socket.try_write_vectored(&rest[..count]) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
            Ok(written) => {
                IoSlice::advance_slices(&mut rest, written);
                taken += written;
                if taken >= PROGRESS_MIN {
                    (taken, deadline) = (0, None);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let at = *deadline.get_or_insert_with(|| Instant::now() + wait);
                timeout_at(at, socket.writable()).await.map_err(|_| WriteError::Slow(wait))??;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
