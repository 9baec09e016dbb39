//! Accepting associations.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use crate::association::Association;
use crate::endpoint::{AcceptQueue, Endpoint};

/// Accepts associations on one SCTP port of an endpoint. Also a [`Stream`] of them.
///
/// Dropping it stops listening and shuts down associations that were not accepted. While too many of those wait, new handshakes get no answer, so
/// that the peers repeat them.
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
        let mut place = Place { queue: &self.queue, key: None };
        poll_fn(|context| self.queue.poll_accept(context, &mut place.key)).await
    }

    /// Returns the next association that a peer set up, if one is available. `None` in any other case, and after the endpoint was closed.
    pub fn try_accept(&self) -> Option<Association> {
        self.queue.try_accept()
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
        this.queue.poll_accept(context, &mut this.stream_key)
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

/// The place of one `accept` among the waiters.
struct Place<'a> {
    queue: &'a AcceptQueue,
    key: Option<u64>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.queue.forget(key);
        }
    }
}
