//! What a connection is doing, as its socket wrapper has to know it: requests under way, bodies left unread.

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// Shared by the socket wrapper and the requests of one connection. One thread drives them all; the atomics are there
/// because request futures have to be `Send`.
#[derive(Debug)]
pub struct Activity {
    opened: Instant,
    begun: AtomicU64,
    ended: AtomicU64,
    /// When the last request ended, in milliseconds since `opened`.
    idle_since_ms: AtomicU64,
    body_left_unread: AtomicBool,
}

impl Activity {
    /// A connection that was just opened.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            opened: Instant::now(),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            idle_since_ms: AtomicU64::new(0),
            body_left_unread: AtomicBool::new(false),
        })
    }

    /// A request has begun; it ends when the guard is dropped.
    pub fn begin(self: &Arc<Self>) -> RequestGuard {
        self.begun.fetch_add(1, Ordering::Relaxed);
        RequestGuard(Arc::clone(self))
    }

    /// Requests that have begun so far.
    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Whether no request is under way.
    pub fn is_idle(&self) -> bool {
        self.begun() == self.ended.load(Ordering::Relaxed)
    }

    /// Since when no request is under way, given that none is.
    pub fn idle_since(&self) -> Instant {
        self.opened + Duration::from_millis(self.idle_since_ms.load(Ordering::Relaxed))
    }

    /// Whether a request was answered before its body had been read to the end.
    pub fn body_left_unread(&self) -> bool {
        self.body_left_unread.load(Ordering::Relaxed)
    }
}

/// Ends a request when dropped.
#[derive(Debug)]
pub struct RequestGuard(Arc<Activity>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let now = u64::try_from(self.0.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.idle_since_ms.store(now, Ordering::Relaxed);
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// A request body that tells when it is dropped before its end.
pub struct RequestBody<B: Body> {
    inner: B,
    activity: Arc<Activity>,
    ended: bool,
}

impl<B: Body> RequestBody<B> {
    /// Wraps the body of a request on this connection.
    pub fn new(inner: B, activity: &Arc<Activity>) -> Self {
        let ended = inner.is_end_stream();
        Self { inner, activity: Arc::clone(activity), ended }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for RequestBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = Pin::new(&mut self.inner).poll_frame(cx);
        self.ended |= matches!(frame, Poll::Ready(None)) || self.inner.is_end_stream();
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B: Body> Drop for RequestBody<B> {
    fn drop(&mut self) {
        if !self.ended {
            self.activity.body_left_unread.store(true, Ordering::Relaxed);
        }
    }
}

/// A response body that keeps its request under way until it is written or given up.
pub struct ResponseBody<B> {
    inner: B,
    _guard: RequestGuard,
}

impl<B> ResponseBody<B> {
    /// Wraps the body of the answer to the request of `guard`.
    pub fn new(inner: B, guard: RequestGuard) -> Self {
        Self { inner, _guard: guard }
    }
}

impl<B: Body + Unpin> Body for ResponseBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt, Full};

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_from_the_end_of_its_last_request() {
        let activity = Activity::new();
        assert!(activity.is_idle());
        let (first, second) = (activity.begin(), activity.begin());
        drop(first);
        assert!(!activity.is_idle());
        tokio::time::advance(Duration::from_secs(3)).await;
        drop(second);
        assert!(activity.is_idle());
        assert_eq!(activity.idle_since(), Instant::now());
        assert_eq!(activity.begun(), 2);
    }

    #[tokio::test]
    async fn a_body_that_nobody_read_is_noticed() {
        let activity = Activity::new();
        let read = RequestBody::new(Full::new(Bytes::from_static(b"x")), &activity).collect().await.unwrap();
        assert_eq!(read.to_bytes(), "x");
        drop(RequestBody::new(Full::new(Bytes::new()), &activity));
        assert!(!activity.body_left_unread());
        drop(RequestBody::new(Full::new(Bytes::from_static(b"x")), &activity));
        assert!(activity.body_left_unread());
    }
}
