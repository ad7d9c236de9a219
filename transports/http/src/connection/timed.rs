//! A socket with deadlines: for a request head, for idleness, for a peer that takes no bytes, for the last words.
//!
//! The HTTP library has one timer, which punishes idle connections like dribbling ones and does not run before it knows
//! the protocol. So the deadlines live here, where every byte passes.

use crate::connection::activity::Activity;
use crate::settings::HttpSettings;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// After the answer to a request whose body was not read, this much of the body is taken off the socket, for at most
/// [`LINGER_TIME`]: closing with unread bytes would reset the connection, and the peer could lose the answer.
const LINGER_BYTES: usize = 16 * 1024 * 1024;
/// See [`LINGER_BYTES`].
const LINGER_TIME: Duration = Duration::from_secs(2);
/// What an HTTP/2 connection begins with.
const H2_PREFACE: &[u8] = b"PRI * HTTP/2";

/// Deadlines of a connection, from the settings.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    head: Duration,
    silent: Duration,
    idle: Duration,
    write: Duration,
}

impl From<&HttpSettings> for Deadlines {
    fn from(settings: &HttpSettings) -> Self {
        Self {
            head: settings.head_timeout,
            silent: settings.silent_timeout,
            idle: settings.idle_timeout,
            write: settings.write_timeout,
        }
    }
}

/// The wrapper around one socket.
pub struct TimedSocket<S> {
    socket: S,
    activity: Arc<Activity>,
    deadlines: Deadlines,
    /// First bytes of the connection, until the protocol is known.
    beginning: Vec<u8>,
    protocol: Protocol,
    /// When the first byte of a request head came that is not complete yet.
    head_since: Option<Instant>,
    /// `Activity::begun` when `head_since` was set.
    begun_at_head: u64,
    read_timer: Timer,
    write_timer: Timer,
    linger: Linger,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Unknown,
    Http1,
    Http2,
}

enum Linger {
    NotYet,
    Until(Instant, usize),
    Over,
}

impl<S> TimedSocket<S> {
    /// Wraps a socket of the connection that `activity` describes.
    pub fn new(socket: S, activity: Arc<Activity>, deadlines: Deadlines) -> Self {
        Self {
            socket,
            activity,
            deadlines,
            beginning: Vec::new(),
            protocol: Protocol::Unknown,
            head_since: None,
            begun_at_head: 0,
            read_timer: Timer::default(),
            write_timer: Timer::default(),
            linger: Linger::NotYet,
        }
    }

    fn note_read(&mut self, bytes: &[u8]) {
        if self.protocol == Protocol::Unknown {
            let wanted = H2_PREFACE.len() - self.beginning.len();
            self.beginning.extend_from_slice(&bytes[..wanted.min(bytes.len())]);
            if !H2_PREFACE.starts_with(&self.beginning) {
                self.protocol = Protocol::Http1;
            } else if self.beginning.len() == H2_PREFACE.len() {
                self.protocol = Protocol::Http2;
                self.head_since = None;
            }
        }
        // An idle HTTP/2 connection exchanges pings and window updates, so a byte there begins no request.
        if self.protocol != Protocol::Http2 && self.activity.is_idle() && self.head_since.is_none() {
            self.head_since = Some(Instant::now());
            self.begun_at_head = self.activity.begun();
        }
    }

    /// Until when the peer has to send something; `None` while a request is under way, which has its own deadlines.
    fn read_deadline(&mut self) -> Option<Instant> {
        if self.activity.begun() != self.begun_at_head {
            self.begun_at_head = self.activity.begun();
            self.head_since = None;
        }
        if !self.activity.is_idle() {
            return None;
        }
        Some(match self.head_since {
            Some(since) => since + self.deadlines.head,
            None if self.activity.begun() == 0 => self.activity.idle_since() + self.deadlines.silent,
            None => self.activity.idle_since() + self.deadlines.idle,
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedSocket<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        if let Poll::Ready(result) = Pin::new(&mut this.socket).poll_read(cx, buf) {
            if buf.filled().len() > before {
                this.note_read(&buf.filled()[before..]);
            }
            return Poll::Ready(result);
        }
        let Some(deadline) = this.read_deadline() else { return Poll::Pending };
        ready!(this.read_timer.poll(deadline, cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer sent no complete request in time")))
    }
}

impl<S: AsyncWrite + Unpin> TimedSocket<S> {
    fn limit_write(&mut self, progress: Poll<io::Result<usize>>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if progress.is_ready() {
            self.write_timer.disarm();
            return progress;
        }
        let deadline = self.write_timer.deadline().unwrap_or_else(|| Instant::now() + self.deadlines.write);
        ready!(self.write_timer.poll(deadline, cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer took no byte of an answer in time")))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TimedSocket<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let progress = Pin::new(&mut this.socket).poll_write(cx, bytes);
        this.limit_write(progress, cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let progress = Pin::new(&mut this.socket).poll_write_vectored(cx, slices);
        this.limit_write(progress, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if matches!(this.linger, Linger::NotYet) {
            ready!(Pin::new(&mut this.socket).poll_shutdown(cx))?;
            this.linger = if this.activity.body_left_unread() {
                Linger::Until(Instant::now() + LINGER_TIME, LINGER_BYTES)
            } else {
                Linger::Over
            };
        }
        while let Linger::Until(deadline, left) = this.linger {
            let mut space = [0; 16 * 1024];
            let mut buf = ReadBuf::new(&mut space);
            match Pin::new(&mut this.socket).poll_read(cx, &mut buf) {
                Poll::Ready(Ok(())) if (1..left).contains(&buf.filled().len()) => {
                    this.linger = Linger::Until(deadline, left - buf.filled().len());
                }
                Poll::Ready(_) => this.linger = Linger::Over,
                Poll::Pending => {
                    ready!(this.read_timer.poll(deadline, cx));
                    this.linger = Linger::Over;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// One timer, made when it is first needed and moved when the deadline moves.
#[derive(Default)]
struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    armed: bool,
}

impl Timer {
    fn deadline(&self) -> Option<Instant> {
        self.sleep.as_ref().filter(|_| self.armed).map(|sleep| sleep.deadline())
    }

    fn disarm(&mut self) {
        self.armed = false;
    }

    fn poll(&mut self, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if sleep.deadline() != deadline {
            sleep.as_mut().reset(deadline);
        }
        self.armed = true;
        sleep.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    const DEADLINES: Deadlines = Deadlines {
        head: Duration::from_secs(10),
        silent: Duration::from_secs(30),
        idle: Duration::from_secs(75),
        write: Duration::from_secs(20),
    };

    fn pair(capacity: usize) -> (TimedSocket<DuplexStream>, DuplexStream, Arc<Activity>) {
        let (near, far) = duplex(capacity);
        let activity = Activity::new();
        (TimedSocket::new(near, Arc::clone(&activity), DEADLINES), far, activity)
    }

    /// Reads until the deadline strikes and says after how many seconds it did.
    async fn seconds_until_cut(socket: &mut TimedSocket<DuplexStream>) -> u64 {
        let started = Instant::now();
        let mut space = [0; 64];
        loop {
            match socket.read(&mut space).await {
                Ok(0) => panic!("end of stream"),
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
                    return started.elapsed().as_secs();
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_says_nothing_is_cut() {
        let (mut socket, _far, _activity) = pair(64);
        assert_eq!(seconds_until_cut(&mut socket).await, 30);
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_dribbles_is_cut_however_often_a_byte_comes() {
        let (mut socket, mut far, _activity) = pair(64);
        let dribble = async {
            for byte in b"GET /ping HTTP/1.1\r\n" {
                tokio::time::sleep(Duration::from_secs(3)).await;
                if far.write_all(&[*byte]).await.is_err() {
                    break;
                }
            }
        };
        let seconds =
            tokio::select! { seconds = seconds_until_cut(&mut socket) => seconds, () = dribble => unreachable!() };
        assert_eq!(seconds, 13);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_request_the_connection_may_idle_longer() {
        let (mut socket, mut far, activity) = pair(64);
        far.write_all(b"GET").await.unwrap();
        socket.read_exact(&mut [0; 3]).await.unwrap();
        let request = activity.begin();
        let waited = tokio::time::timeout(Duration::from_secs(1000), socket.read(&mut [0; 1])).await;
        assert!(waited.is_err(), "while a request is under way nothing is cut");
        drop(request);
        assert_eq!(seconds_until_cut(&mut socket).await, 75);
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_head_has_its_own_deadline() {
        let (mut socket, mut far, activity) = pair(64);
        drop(activity.begin());
        assert!(tokio::time::timeout(Duration::from_secs(60), socket.read(&mut [0; 1])).await.is_err());
        far.write_all(b"G").await.unwrap();
        assert_eq!(seconds_until_cut(&mut socket).await, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_http2_connection_may_ping_without_starting_a_head() {
        let (mut socket, mut far, activity) = pair(64);
        far.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        socket.read_exact(&mut [0; 24]).await.unwrap();
        drop(activity.begin());
        assert!(tokio::time::timeout(Duration::from_secs(40), socket.read(&mut [0; 1])).await.is_err());
        far.write_all(b"ping").await.unwrap();
        socket.read_exact(&mut [0; 4]).await.unwrap();
        assert_eq!(seconds_until_cut(&mut socket).await, 35);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_cut_and_a_slow_one_is_not() {
        let (mut socket, mut far, _activity) = pair(8);
        socket.write_all(&[1; 8]).await.unwrap();
        let started = Instant::now();
        let error = socket.write_all(&[2; 8]).await.unwrap_err();
        assert_eq!((error.kind(), started.elapsed().as_secs()), (io::ErrorKind::TimedOut, 20));

        let (mut socket, mut slow, _activity) = pair(8);
        let drain = async {
            for _ in 0..5 {
                tokio::time::sleep(Duration::from_secs(15)).await;
                slow.read_exact(&mut [0; 8]).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(socket.write_all(&[3; 40]), drain);
        written.unwrap();
        far.read_exact(&mut [0; 8]).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_unread_body_is_taken_off_before_the_socket_closes() {
        let (mut socket, mut far, activity) = pair(8);
        drop(crate::connection::activity::RequestBody::new(
            http_body_util::Full::new(bytes::Bytes::from_static(b"x")),
            &activity,
        ));
        let started = Instant::now();
        let upload = async {
            far.write_all(&[9; 4096]).await.unwrap();
            far.shutdown().await.unwrap();
        };
        let (closed, ()) = tokio::join!(socket.shutdown(), upload);
        closed.unwrap();
        assert_eq!(started.elapsed().as_secs(), 0);

        let (mut socket, _silent, activity) = pair(8);
        drop(crate::connection::activity::RequestBody::new(
            http_body_util::Full::new(bytes::Bytes::from_static(b"x")),
            &activity,
        ));
        let started = Instant::now();
        socket.shutdown().await.unwrap();
        assert_eq!(started.elapsed(), LINGER_TIME);
    }
}
