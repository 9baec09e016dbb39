//! A handshake that has begun: its request is decided on before TLS reads the hello.

use std::collections::VecDeque;
use std::sync::Arc;

use festina_sctp::Message;
use festina_secure::SecureAssociation;
use festina_secure::wire::ConnectionId;
use festina_units::Instant;

use super::Network;
use crate::association::Secure;
use crate::endpoint::accept::Place;
use crate::endpoint::demux::Origin;
use crate::endpoint::options::Request;
use crate::endpoint::outbox::Outbox;
use crate::endpoint::requests::Held;
use crate::endpoint::secure::Verdict;
use crate::endpoint::shared::Shared;
use crate::endpoint::socket::Socket;

/// A handshake that has begun.
#[derive(Debug)]
pub(super) struct HalfOpen {
    pub(super) association: SecureAssociation,
    pub(super) origin: Option<Origin>,
    /// The client's networks, if the client has proved its address.
    pub(super) networks: Option<[Network; 2]>,
    /// The request that waits for the application's decision.
    held: Option<Arc<Held>>,
    admitted: Option<Admitted>,
    early: VecDeque<Message>,
    pub(super) begun_at: Instant,
    pub(super) deadline: Instant,
    /// Datagrams handled.
    pub(super) datagrams: u16,
}

/// A request that was admitted.
#[derive(Debug)]
struct Admitted {
    request: Box<Request>,
    /// The SCTP port.
    port: u16,
    /// For the association, once it is complete.
    place: Place,
}

/// What becomes of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Keep,
    Forget,
    /// The accept queue of this port is full.
    Place(u16),
}

impl HalfOpen {
    pub(super) fn new(now: Instant, association: SecureAssociation) -> Self {
        Self {
            origin: association.origin(),
            association,
            networks: None,
            held: None,
            admitted: None,
            early: VecDeque::new(),
            begun_at: now,
            deadline: Instant::MAX,
            datagrams: 1,
        }
    }

    /// Whether the application has not decided yet.
    pub(super) fn is_held(&self) -> bool {
        self.held.is_some() && self.admitted.is_none()
    }

    /// Whether the listener has ended although the application has not decided.
    pub(super) fn is_withdrawn(&self) -> bool {
        self.is_held() && self.held.as_ref().is_some_and(|held| held.verdict() != Verdict::Hold)
    }

    /// Sends what the handshake has to send.
    pub(super) fn send(&mut self, now: Instant, answers: &mut Outbox, socket: &Socket) {
        while let Some(transmit) = self.association.poll_transmit(now, answers.buffer()) {
            answers.push(&transmit, self.association.source(), socket.segments_max());
        }
    }

    /// Whether a place in the accept queue of a port is kept for it.
    pub(super) fn has_place(&self, port: u16) -> bool {
        self.admitted.as_ref().is_some_and(|admitted| admitted.port == port)
    }

    /// Decides on the client's request once it is there, and takes its early messages.
    pub(super) fn decide(&mut self, now: Instant, id: ConnectionId, shared: &Arc<Shared>) -> Wish {
        let held = self.held.as_ref().map(|held| held.verdict());
        if held == Some(Verdict::Hold) {
            return Wish::Keep;
        }
        if let Some(hello) = self.association.hello() {
            let port = hello.ports.local;
            let is_address_proved = self.association.is_address_proved();
            let request = Box::new(Request {
                remote: self.association.remote(),
                token: hello.token.clone(),
                server_name: hello.server_name.clone(),
                alpn: hello.alpn.clone(),
                is_address_proved,
            });
            let verdict = match held {
                None => shared.judge(&request, port),
                Some(Verdict::Admit) => shared.judge_accepted(&request, port),
                Some(verdict) => verdict,
            };
            match verdict {
                Verdict::Admit => match shared.keep_place(port, is_address_proved) {
                    Some(place) => {
                        self.admitted = Some(Admitted { request, port, place });
                        self.association.admit(now);
                    }
                    None => return self.wait_for_place(now, port),
                },
                Verdict::Refuse(code) => self.association.refuse(code),
                Verdict::Full => return self.wait_for_place(now, port),
                Verdict::Ignore => return Wish::Forget,
                Verdict::Hold => {
                    self.held = shared.hold(id, *request, port);
                    return if self.held.is_some() { Wish::Keep } else { Wish::Forget };
                }
            }
        }
        let Some(Admitted { request, port, .. }) = &self.admitted else { return Wish::Keep };
        while let Some(message) = self.association.poll_early() {
            self.early.extend(shared.offer_early(request, *port, message));
        }
        Wish::Keep
    }

    /// The accept queue has no place for the client: half of it is for those that prove their addresses.
    fn wait_for_place(&mut self, now: Instant, port: u16) -> Wish {
        if self.association.is_address_proved() {
            return Wish::Place(port);
        }
        self.association.demand_proof(now);
        Wish::Keep
    }

    /// Passes the association on if it is complete.
    pub(super) fn adopt(self, shared: &Arc<Shared>) {
        let Self { association, admitted, early, .. } = self;
        let Some(Admitted { request, port, place }) = admitted else { return };
        if let Some(secure) = Secure::new(association, Some(request), early) {
            shared.adopt_protected(secure, (port, &place));
        }
    }
}
