//! Requests of clients that wait for the application's decision.

use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, ready};

use festina_endpoint::{Request, Verdict};
use festina_secure::wire::ConnectionId;
use festina_secure::{NO_SUCH_PORT, REFUSED};

use super::lock;
use super::queue::Queue;

/// A client's request for an encrypted association that waits for a decision: see [`ListenOptions::hold_requests`](crate::ListenOptions::hold_requests).
///
/// Dropping it sends no answer, and the client asks again until its time limit. A request that is kept for 30 s is refused, and so is one whose listener or
/// endpoint ends. Deciding on a client that has given up has no effect.
pub struct PendingRequest(Arc<Held>);

/// A request, shared by its half-open handshake and the application.
pub(crate) struct Held {
    id: ConnectionId,
    request: Request,
    verdict: Mutex<Verdict>,
    queue: Arc<RequestQueue>,
    on_decision: OnDecision,
}

/// Notifies the driver of a decision on the handshake with this connection ID.
pub(super) type OnDecision = Box<dyn Fn(ConnectionId) + Send + Sync>;

impl Held {
    /// The decision. Without one, the end of the listener refuses the client, also if the application has taken the request.
    pub(super) fn verdict(&self) -> Verdict {
        match *lock(&self.verdict) {
            Verdict::Hold if self.queue.is_closed() => Verdict::Refuse(NO_SUCH_PORT),
            verdict => verdict,
        }
    }

    fn decide(&self, verdict: Verdict) {
        let mut decided = lock(&self.verdict);
        if *decided != Verdict::Hold {
            return;
        }
        *decided = verdict;
        drop(decided);
        (self.on_decision)(self.id);
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Held").field("request", &self.request).finish_non_exhaustive()
    }
}

impl PendingRequest {
    /// Returns the request. Nothing in it is authentic yet.
    pub fn request(&self) -> &Request {
        &self.0.request
    }

    /// Continues the handshake. The listener returns the association once the client is authenticated.
    pub fn accept(self) {
        self.0.decide(Verdict::Admit);
    }

    /// Refuses the client, which gets an error.
    pub fn refuse(self) {
        self.0.decide(Verdict::Refuse(REFUSED));
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        self.0.decide(Verdict::Ignore);
    }
}

impl fmt::Debug for PendingRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("PendingRequest").field(&self.0.request).finish()
    }
}

/// Requests that the application has not taken yet. Handshakes that end meanwhile take their requests with them.
pub(crate) type RequestQueue = Queue<Weak<Held>>;

impl RequestQueue {
    /// Leaves a request to the application, unless the queue of requests is full or closed.
    pub(super) fn hold(
        self: &Arc<Self>,
        id: ConnectionId,
        request: Request,
        on_decision: OnDecision,
    ) -> Option<Arc<Held>> {
        if self.is_full() {
            drop(self.remove_ended(|held| held.strong_count() == 0));
        }
        if self.is_full() {
            return None;
        }
        let verdict = Mutex::new(Verdict::Hold);
        let held = Arc::new(Held { id, request, verdict, queue: Arc::clone(self), on_decision });
        self.push(Arc::downgrade(&held)).then_some(held)
    }

    /// The next request if one waits.
    pub(crate) fn try_request(&self) -> Option<PendingRequest> {
        std::iter::from_fn(|| self.try_pop()).find_map(|held| held.upgrade()).map(PendingRequest)
    }

    /// The next request; `None` after the end.
    pub(crate) fn poll_request(
        &self,
        context: &mut Context<'_>,
        key: &mut Option<u64>,
    ) -> Poll<Option<PendingRequest>> {
        loop {
            match ready!(self.poll_pop(context, key)).map(|held| held.upgrade()) {
                Some(None) => {}
                Some(Some(held)) => return Poll::Ready(Some(PendingRequest(held))),
                None => return Poll::Ready(None),
            }
        }
    }
}
