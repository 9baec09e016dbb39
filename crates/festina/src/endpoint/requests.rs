//! Requests of clients that wait for the application's decision.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};

use festina_secure::REFUSED;
use festina_secure::wire::ConnectionId;

use super::lock;
use super::options::Request;
use super::secure::Verdict;
use super::shared::Shared;
use crate::association::Waiters;

/// A client's request for an encrypted association that waits for a decision: see [`ListenOptions::hold_requests`](crate::ListenOptions::hold_requests).
///
/// Dropping it sends no answer, and the client asks again until its time limit. Deciding on a client that has given up has no effect.
pub struct PendingRequest(Arc<Held>);

/// A request, shared by its half-open handshake and the application.
#[derive(Debug)]
pub(super) struct Held {
    id: ConnectionId,
    request: Request,
    verdict: Mutex<Verdict>,
    shared: Weak<Shared>,
}

impl Held {
    pub(super) fn verdict(&self) -> Verdict {
        *lock(&self.verdict)
    }

    fn decide(&self, verdict: Verdict) {
        let mut decided = lock(&self.verdict);
        if *decided != Verdict::Hold {
            return;
        }
        *decided = verdict;
        drop(decided);
        if let Some(shared) = self.shared.upgrade() {
            shared.note_decision(self.id);
        }
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
#[derive(Debug)]
pub(crate) struct RequestQueue {
    requests_max: usize,
    state: Mutex<QueueState>,
}

#[derive(Debug, Default)]
struct QueueState {
    requests: VecDeque<Weak<Held>>,
    waiters: Waiters,
    waiter_keys: u64,
    closed: bool,
}

impl RequestQueue {
    pub(super) fn new(requests_max: usize) -> Self {
        Self { requests_max, state: Mutex::default() }
    }

    /// Adds a request, unless the queue is full or closed.
    pub(super) fn hold(&self, id: ConnectionId, request: Request, shared: &Arc<Shared>) -> Option<Arc<Held>> {
        let mut state = lock(&self.state);
        if state.requests.len() >= self.requests_max {
            state.requests.retain(|held| held.strong_count() > 0);
        }
        if state.closed || state.requests.len() >= self.requests_max {
            return None;
        }
        let held = Held { id, request, verdict: Mutex::new(Verdict::Hold), shared: Arc::downgrade(shared) };
        let held = Arc::new(held);
        state.requests.push_back(Arc::downgrade(&held));
        let waiters = state.waiters.take();
        drop(state);
        waiters.wake();
        Some(held)
    }

    /// The next request; `None` after the end.
    pub(crate) fn poll_request(
        &self,
        context: &mut Context<'_>,
        key: &mut Option<u64>,
    ) -> Poll<Option<PendingRequest>> {
        let mut state = lock(&self.state);
        while let Some(held) = state.requests.pop_front() {
            if let Some(held) = held.upgrade() {
                return Poll::Ready(Some(PendingRequest(held)));
            }
        }
        if state.closed {
            return Poll::Ready(None);
        }
        let key = *key.get_or_insert_with(|| {
            state.waiter_keys += 1;
            state.waiter_keys
        });
        let replaced = state.waiters.register(key, context.waker());
        drop(state);
        drop(replaced);
        Poll::Pending
    }

    /// Removes a waiter.
    pub(crate) fn forget(&self, key: u64) {
        let removed = lock(&self.state).waiters.remove(key);
        drop(removed);
    }

    /// Wakes all waiters, and takes no more requests.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        let waiters = state.waiters.take();
        drop(state);
        waiters.wake();
    }
}
