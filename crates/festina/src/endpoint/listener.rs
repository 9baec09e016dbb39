//! Accepting associations.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::Endpoint;
use super::accept::AcceptQueue;
use super::queue::Queue;
use super::requests::PendingRequest;
use crate::association::Association;

/// Accepts associations on one SCTP port of an endpoint. Also a [`Stream`] of them.
///
/// Dropping it stops listening, shuts down associations that were not accepted, and refuses requests that were not decided on. While too many associations
/// wait, new handshakes get no answer, so that the peers repeat them. Those that have ended without any data then make room for newcomers.
pub struct Listener {
    endpoint: Endpoint,
    port: u16,
    queue: Arc<AcceptQueue>,
    /// The place of `poll_next` among the waiters.
    stream_key: Option<u64>,
}

impl Listener {
    pub(crate) fn new(endpoint: Endpoint, port: u16, queue: Arc<AcceptQueue>) -> Self {
        Self { endpoint, port, queue, stream_key: None }
    }

    /// Waits for the next association that a peer set up; `None` after the endpoint was closed.
    ///
    /// Dropping the future before it is ready loses no association.
    pub async fn accept(&self) -> Option<Association> {
        let mut place = Place { queue: &self.queue.associations, key: None };
        poll_fn(|context| place.queue.poll_pop(context, &mut place.key)).await
    }

    /// Returns the next association that a peer set up, if one is available. `None` in any other case, and after the endpoint was closed.
    pub fn try_accept(&self) -> Option<Association> {
        self.queue.associations.try_pop()
    }

    /// Waits for the next request of a client for an encrypted association, which waits for a decision:
    /// [`ListenOptions::hold_requests`](crate::ListenOptions::hold_requests). `None` after the endpoint was closed.
    ///
    /// Dropping the future before it is ready loses no request.
    ///
    /// ```
    /// # async fn serve(listener: festina::Listener, is_valid: impl AsyncFn(&[u8]) -> bool) {
    /// while let Some(pending) = listener.request().await {
    ///     match is_valid(&pending.request().token).await {
    ///         true => pending.accept(),
    ///         false => pending.refuse(),
    ///     }
    /// }
    /// # }
    /// ```
    pub async fn request(&self) -> Option<PendingRequest> {
        let mut place = Place { queue: &self.queue.requests, key: None };
        poll_fn(|context| place.queue.poll_request(context, &mut place.key)).await
    }

    /// Returns the next request that waits for a decision, if one is available.
    pub fn try_request(&self) -> Option<PendingRequest> {
        self.queue.requests.try_request()
    }

    /// Returns the requests that wait for a decision as a [`Stream`].
    pub fn requests(&self) -> Requests {
        Requests { queue: self.queue.clone(), key: None }
    }

    /// Returns the SCTP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

impl Stream for Listener {
    type Item = Association;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Association>> {
        let this = &mut *self;
        this.queue.associations.poll_pop(context, &mut this.stream_key)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.endpoint.shared().stop_listening(self.port, &self.queue);
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Listener").field("port", &self.port).finish_non_exhaustive()
    }
}

/// The requests of clients that wait for a decision, as a [`Stream`]: [`Listener::requests`].
#[derive(Debug)]
pub struct Requests {
    queue: Arc<AcceptQueue>,
    /// The place among the waiters.
    key: Option<u64>,
}

impl Stream for Requests {
    type Item = PendingRequest;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<PendingRequest>> {
        let this = &mut *self;
        this.queue.requests.poll_request(context, &mut this.key)
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.queue.requests.forget(key);
        }
    }
}

/// The place of one `accept` or `request` among the waiters.
struct Place<'a, T> {
    queue: &'a Queue<T>,
    key: Option<u64>,
}

impl<T> Drop for Place<'_, T> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.queue.forget(key);
        }
    }
}
