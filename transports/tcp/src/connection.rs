//! One connection: frames in, answers out, one at a time.

use crate::answers;
use crate::frames::{Frames, Patience, ReadError};
use crate::listener::TcpSettings;
use bytes::BytesMut;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use whippet_gateway::binary::BinaryConnection;
use whippet_gateway::{Connection, Gateway};
use whippet_protocol::frame::RequestHeader;
use whippet_runtime::RuntimeHandle;

/// How long telling the peer that the connection ends may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
enum End {
    /// The gateway wants it, or the server stops.
    #[error("it is not needed any more")]
    Wanted,
    /// A stopping server does not wait for this request any more.
    #[error("the server stopped before the request was answered")]
    CutOff,
    /// No next frame.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// An answer could not be written.
    #[error(transparent)]
    Write(#[from] answers::WriteError),
}

/// Serves a connection until it ends.
pub(crate) async fn serve(
    mut socket: TcpStream,
    gateway: Gateway,
    registered: Connection,
    runtime: &RuntimeHandle,
    settings: TcpSettings,
) {
    let peer = registered.address();
    let connection = BinaryConnection::new(gateway, registered);
    match exchange(&mut socket, connection, runtime, settings).await {
        End::Wanted | End::Read(ReadError::Closed) => {}
        end => tracing::debug!(%peer, reason = %end, "a TCP connection ended"),
    }
    let _ = timeout(FAREWELL, socket.shutdown()).await;
}

async fn exchange(
    socket: &mut TcpStream,
    mut connection: BinaryConnection,
    runtime: &RuntimeHandle,
    settings: TcpSettings,
) -> End {
    let mut frames = Frames::default();
    let mut stopping = std::pin::pin!(runtime.stopping());
    let stopped = runtime.stopping();
    let mut cut_off = std::pin::pin!(async {
        stopped.await;
        sleep(settings.stop_timeout).await;
    });
    // A stop ends the connection between two frames: a request that was read whole is answered first. The check is for
    // peers whose next frame is always there already.
    while !runtime.is_stopping() {
        let patience = match connection.is_logged_in() {
            true => Patience::FromFirstByte(settings.frame_timeout),
            false => Patience::FromNow(settings.login_timeout),
        };
        let next = tokio::select! {
            biased;
            next = frames.next(socket, connection.frame_size_max(), patience) => next,
            () = stopping.as_mut() => return End::Wanted,
        };
        let (header, frame) = match next {
            Ok(next) => next,
            Err(error) => return error.into(),
        };
        let answered = tokio::select! {
            biased;
            answered = answer(&mut connection, socket, header, frame, settings.write_timeout) => answered,
            () = cut_off.as_mut() => Err(End::CutOff),
        };
        if let Err(end) = answered {
            return end;
        }
    }
    End::Wanted
}

/// Has a frame answered, and writes the answer.
async fn answer(
    connection: &mut BinaryConnection,
    socket: &TcpStream,
    header: RequestHeader,
    frame: BytesMut,
    write_timeout: Duration,
) -> Result<(), End> {
    let answer = connection.handle_frame(header, frame).await;
    let close = answer.close;
    answers::write(socket, answer, write_timeout).await?;
    if close { Err(End::Wanted) } else { Ok(()) }
}
