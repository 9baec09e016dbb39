//! Associations that peers set up, on their way to the application.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use festina_endpoint::allowance::Allowance;
use festina_sctp as sctp;

use super::ListenOptions;
use super::lock;
use super::queue::Queue;
use super::requests::RequestQueue;
use crate::association::Association;
use crate::clock;
use crate::error::ListenError;

/// Searches of a full queue for associations that have ended. Each looks at all of them, and every stranger's packet may ask for one.
const SEARCHES_PER_SECOND: u32 = 100;

/// The ports listened on: the core's stateless part and the queues.
pub(crate) struct Accepting {
    pub(crate) core: sctp::Listener,
    /// The settings of associations that begin now, if the addresses have changed.
    pub(crate) readdressed: Option<Arc<sctp::Context>>,
    queues: HashMap<u16, Arc<AcceptQueue>>,
    /// Associations that may wait per port.
    queue_max: usize,
    pub(super) can_listen: bool,
    closed: bool,
}

impl Accepting {
    pub(crate) fn new(core: sctp::Listener, queue_max: usize, can_listen: bool) -> Self {
        Self { core, readdressed: None, queues: HashMap::new(), queue_max, can_listen, closed: false }
    }

    pub(crate) fn listen(&mut self, port: u16, options: ListenOptions) -> Result<Arc<AcceptQueue>, ListenError> {
        if !self.can_listen {
            return Err(ListenError::Client);
        }
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
        let (associations, requests) = (Queue::new(self.queue_max), Arc::new(RequestQueue::new(self.queue_max)));
        let queue = Arc::new(AcceptQueue {
            options,
            associations,
            requests,
            searches: Mutex::new(Allowance::new(SEARCHES_PER_SECOND)),
        });
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

/// What comes for the listener of one port.
#[derive(Debug)]
pub(crate) struct AcceptQueue {
    /// The options of the listener.
    pub(super) options: ListenOptions,
    /// Associations that wait to be accepted, with a [`Place`] for each that is on its way. One that comes after the end is dropped, and thereby shut down.
    pub(crate) associations: Queue<Association>,
    /// Requests that wait for a decision, if the options say so.
    pub(crate) requests: Arc<RequestQueue>,
    searches: Mutex<Allowance>,
}

impl AcceptQueue {
    /// Drops unaccepted associations and wakes all waiters. Called without a lock. Undecided requests are refused when the driver
    /// hears of it.
    pub(crate) fn close(&self) {
        drop(self.associations.close());
        drop(self.requests.close());
    }

    /// Returns whether no other association may wait. Those that have ended and brought nothing are removed first.
    pub(super) fn is_full(&self) -> bool {
        self.associations.is_full() && {
            self.forget_ended();
            self.associations.is_full()
        }
    }

    /// Returns whether the queue was searched.
    fn forget_ended(&self) -> bool {
        let may_search = lock(&self.searches).take(clock::now());
        if may_search {
            drop(self.associations.remove_ended(|association| association.inner().is_spent()));
        }
        may_search
    }
}

/// A place in the queue for the association of an encrypted handshake that was admitted and is not complete.
#[derive(Debug)]
pub(super) struct Place(Arc<AcceptQueue>);

impl Place {
    /// `None` if this part of the queue, such as 2 for half of it, is taken.
    pub(super) fn keep(queue: Arc<AcceptQueue>, part: usize) -> Option<Self> {
        let is_kept = queue.associations.reserve(part) || {
            queue.forget_ended();
            queue.associations.reserve(part)
        };
        is_kept.then_some(queue).map(Self)
    }

    /// Returns whether this is a place in that queue.
    pub(super) fn is_in(&self, queue: &Arc<AcceptQueue>) -> bool {
        Arc::ptr_eq(&self.0, queue)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.associations.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Transport;

    #[test]
    fn strangers_have_a_full_queue_searched_a_hundred_times_a_second() {
        let plain = sctp::Context::new(Transport::default().into_core(), [1; 16]).unwrap();
        let mut accepting = Accepting::new(sctp::Listener::new(&plain), 4, true);
        let queue = accepting.listen(5_000, ListenOptions::default()).unwrap();
        let started = clock::now();
        let searches = (0..10_000).filter(|_| queue.forget_ended()).count();
        let most = 12 + clock::now().saturating_duration_since(started).as_nanos() / 10_000_000;
        assert!((1..=most).contains(&(searches as u128)), "{searches} of {most}");
    }
}
