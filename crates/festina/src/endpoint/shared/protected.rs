//! The encrypted side: admission of clients, requests that wait for a decision, associations whose clients are authenticated.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use festina_endpoint::demux::Side;
use festina_endpoint::{Channel as _, Core, Key, Protocols, Request, Secure, Verdict};
use festina_sctp::{Message, PathKnowledge};
use festina_secure::wire::ConnectionId;
use festina_secure::{FULL, NO_SUCH_PORT, REFUSED};
use festina_units::Instant;

use super::{Shared, warn_of};
use crate::association::{Association, Inner};
use crate::endpoint::accept::{AcceptQueue, Place};
use crate::endpoint::options::Answer;
use crate::endpoint::requests::Held;
use crate::locks::lock;

impl Shared {
    /// Whether the next connection reads the roots of the operating system.
    pub(in crate::endpoint) fn lacks_platform_roots(&self) -> bool {
        self.secure.as_ref().is_some_and(|secure| secure.lacks_platform_roots())
    }

    /// Whether the endpoint encrypts all its associations.
    pub(in crate::endpoint) fn is_encrypted(&self) -> bool {
        self.secure.is_some()
    }

    /// The protocols of the endpoint's packets.
    pub(in crate::endpoint) fn protocols(&self) -> Protocols {
        match &self.secure {
            None => Protocols::Plain,
            Some(secure) if secure.plain_clients => Protocols::Both,
            Some(_) => Protocols::Encrypted,
        }
    }

    /// Decides on a client's request for an SCTP port. The application's code runs without any lock.
    pub(in crate::endpoint) fn judge(&self, request: &Request, port: u16) -> Verdict {
        let queue = match self.queue_with_room(request.remote.ip(), port) {
            Ok(queue) => queue,
            Err(verdict) => return verdict,
        };
        match queue.options.answer(request) {
            Answer::Accept if queue.options.holds() => Verdict::Hold,
            Answer::Accept => Verdict::Admit,
            Answer::Refuse => Verdict::Refuse(REFUSED),
            Answer::Ignore => Verdict::Ignore,
        }
    }

    /// Decides on a request that the application has accepted: the limits may have been reached while it waited.
    pub(in crate::endpoint) fn judge_accepted(&self, request: &Request, port: u16) -> Verdict {
        self.queue_with_room(request.remote.ip(), port).map_or_else(|verdict| verdict, |_| Verdict::Admit)
    }

    /// Keeps a place in the accept queue for a client that was admitted. `None` if the queue is closed or full. For clients that have not proved
    /// their addresses it is full when half of it is taken, because hellos in others' names could take all places.
    pub(in crate::endpoint) fn keep_place(&self, port: u16, is_address_proved: bool) -> Option<Place> {
        let queue = lock(&self.accepting).queue(port).cloned();
        Place::keep(queue?, if is_address_proved { 1 } else { 2 })
    }

    fn queue_with_room(&self, peer: IpAddr, port: u16) -> Result<Arc<AcceptQueue>, Verdict> {
        let queue = lock(&self.accepting).queue(port).cloned();
        let queue = queue.ok_or(Verdict::Refuse(NO_SUCH_PORT))?;
        if self.is_full(&queue) {
            return Err(Verdict::Full);
        }
        if !self.admits(peer) {
            return Err(Verdict::Refuse(FULL));
        }
        Ok(queue)
    }

    /// Leaves a request to the application. `None` if too many wait.
    pub(in crate::endpoint) fn hold(
        self: &Arc<Self>,
        id: ConnectionId,
        request: Request,
        port: u16,
    ) -> Option<Arc<Held>> {
        let queue = lock(&self.accepting).queue(port).cloned();
        let shared = Arc::downgrade(self);
        let on_decision = move |id| {
            if let Some(shared) = shared.upgrade() {
                shared.note_decision(id);
            }
        };
        let held = queue?.requests.hold(id, request, Box::new(on_decision));
        if held.is_none() {
            warn_of(
                &self.counters.accept_queue_overflows,
                "too many requests wait for a decision: one is left to be repeated",
            );
        }
        held
    }

    /// The application has decided on a request: its handshake goes on.
    fn note_decision(&self, id: ConnectionId) {
        if let Some(secure) = &self.secure {
            lock(&secure.decided).push(id);
            self.wake_driver();
        }
    }

    /// A listener has ended: its requests are to be refused.
    pub(in crate::endpoint) fn note_withdrawal(&self) {
        if let Some(secure) = &self.secure {
            secure.is_withdrawn.store(true, Ordering::Release);
            self.wake_driver();
        }
    }

    /// Whether a listener has ended since the last call.
    pub(in crate::endpoint) fn take_withdrawal(&self) -> bool {
        self.secure.as_ref().is_some_and(|secure| secure.is_withdrawn.swap(false, Ordering::AcqRel))
    }

    /// The addresses have changed: clients that come now are to learn the new ones.
    pub(in crate::endpoint) fn note_readdressed(&self, context: &Arc<festina_sctp::Context>) {
        if let Some(secure) = &self.secure {
            *lock(&secure.readdressed) = Some(Arc::clone(context));
        }
    }

    /// The settings with the present addresses, if these have changed since the last call.
    pub(in crate::endpoint) fn take_readdressed(&self) -> Option<Arc<festina_sctp::Context>> {
        lock(&self.secure.as_ref()?.readdressed).take()
    }

    /// The handshakes whose requests were decided on since the last call.
    pub(in crate::endpoint) fn take_decided(&self, decided: &mut VecDeque<ConnectionId>) {
        if let Some(secure) = &self.secure {
            decided.extend(lock(&secure.decided).drain(..));
        }
    }

    /// Hands an early message to the listener's handler, or returns it if there is none.
    pub(in crate::endpoint) fn offer_early(&self, request: &Request, port: u16, message: Message) -> Option<Message> {
        let queue = lock(&self.accepting).queue(port).cloned();
        queue?.options.take_early(request, message)
    }

    /// Adds a protected association whose client is authenticated, to the queue in which it has a place.
    pub(in crate::endpoint) fn adopt_protected(self: &Arc<Self>, secure: Box<Secure>, (port, place): (u16, &Place)) {
        let source = secure.channel().source();
        let core = Core::Secure(secure);
        let (key, origin) = (core.key(), core.origin());
        let inner = Inner::new(self.clone(), self.next_id(), core, source);
        let queue = lock(&self.accepting).queue(port).filter(|queue| place.is_in(queue)).cloned();
        let Some(queue) = queue else { return inner.abort(b"nothing listens any more") };
        let inserted = lock(&self.demux).insert(key, origin, &inner, Side::Peer);
        match inserted {
            Ok(()) => {
                let association = Association::new(inner);
                association.inner().start(None);
                association.inner().catch_up();
                queue.associations.push(association);
            }
            Err(_) => inner.abort(b"there is no room for another association"),
        }
    }

    /// Keeps an association that is over in the endpoint, to answer a peer that has missed the end. Returns `false` if that cannot be.
    pub(crate) fn linger(&self, now: Instant, key: Key, learned: Option<PathKnowledge>) -> bool {
        let mut demux = lock(&self.demux);
        let is_own = demux.side(key) == Some(Side::Own);
        let stays = demux.linger(key);
        let last = demux.is_empty();
        drop(demux);
        if stays {
            self.note_end(now, key, learned.filter(|_| is_own), last);
        }
        stays
    }
}
