//! Associations that peers set up, on their way to the application.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use festina_sctp as sctp;

use super::requests::RequestQueue;
use super::{ListenOptions, lock};
use crate::association::{Association, Waiters};
use crate::error::ListenError;

/// The ports listened on: the core's stateless part and the queues.
pub(crate) struct Accepting {
    pub(crate) core: sctp::Listener,
    queues: HashMap<u16, Arc<AcceptQueue>>,
    /// Associations that may wait per port.
    queue_max: usize,
    closed: bool,
}

impl Accepting {
    pub(crate) fn new(core: sctp::Listener, queue_max: usize) -> Self {
        Self { core, queues: HashMap::new(), queue_max, closed: false }
    }

    pub(crate) fn listen(&mut self, port: u16, options: ListenOptions) -> Result<Arc<AcceptQueue>, ListenError> {
        if port == 0 {
            return Err(ListenError::PortZero);
        }
        if self.closed {
            return Err(ListenError::EndpointClosed);
        }
        if self.queues.contains_key(&port) {
            return Err(ListenError::PortInUse(port));
        }
        self.core.listen(port);
        let (associations_max, requests) = (self.queue_max, RequestQueue::new(self.queue_max));
        let queue = Arc::new(AcceptQueue { associations_max, options, requests, state: Mutex::default() });
        self.queues.insert(port, queue.clone());
        Ok(queue)
    }

    /// Stops listening. The caller closes the queued associations without the lock.
    pub(crate) fn stop(&mut self, port: u16) -> Option<Arc<AcceptQueue>> {
        self.core.stop(port);
        self.queues.remove(&port)
    }

    /// Stops listening on all ports for good.
    pub(crate) fn stop_all(&mut self) -> Vec<Arc<AcceptQueue>> {
        self.closed = true;
        let queues = std::mem::take(&mut self.queues);
        queues
            .into_iter()
            .map(|(port, queue)| {
                self.core.stop(port);
                queue
            })
            .collect()
    }

    pub(crate) fn queue(&self, port: u16) -> Option<&Arc<AcceptQueue>> {
        self.queues.get(&port)
    }
}

impl fmt::Debug for Accepting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Accepting").field("queues", &self.queues.len()).finish_non_exhaustive()
    }
}

/// Associations that wait to be accepted on one port.
#[derive(Debug)]
pub(crate) struct AcceptQueue {
    associations_max: usize,
    /// The options of the listener.
    pub(super) options: ListenOptions,
    /// Requests that wait for a decision, if the options say so.
    pub(crate) requests: RequestQueue,
    state: Mutex<QueueState>,
}

#[derive(Debug, Default)]
struct QueueState {
    associations: VecDeque<Association>,
    waiters: Waiters,
    waiter_keys: u64,
    closed: bool,
}

impl AcceptQueue {
    pub(crate) fn is_full(&self) -> bool {
        lock(&self.state).associations.len() >= self.associations_max
    }

    /// Adds an association; after the end it is dropped, and thereby shut down.
    pub(crate) fn push(&self, association: Association) {
        let mut state = lock(&self.state);
        if !state.closed {
            state.associations.push_back(association);
            let waiters = state.waiters.take();
            drop(state);
            waiters.wake();
        }
    }

    /// The next association if one waits.
    pub(crate) fn try_accept(&self) -> Option<Association> {
        lock(&self.state).associations.pop_front()
    }

    /// The next association; `None` after the end.
    pub(crate) fn poll_accept(&self, context: &mut Context<'_>, key: &mut Option<u64>) -> Poll<Option<Association>> {
        let mut state = lock(&self.state);
        if let Some(association) = state.associations.pop_front() {
            return Poll::Ready(Some(association));
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

    /// Closes the queue: drops unaccepted associations and wakes all waiters.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        let (associations, waiters) = (std::mem::take(&mut state.associations), state.waiters.take());
        drop(state);
        waiters.wake();
        self.requests.close();
        drop(associations);
    }
}
