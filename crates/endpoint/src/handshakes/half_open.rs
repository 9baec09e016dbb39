//! A handshake that has begun: its request is decided on before TLS reads the hello.

use std::collections::VecDeque;

use festina_sctp::Message;
use festina_secure::SecureAssociation;
use festina_secure::wire::ConnectionId;
use festina_units::Instant;

use super::Network;
use crate::channel::Secure;
use crate::demux::Origin;
use crate::owner::Owner;
use crate::request::{Request, Verdict};

/// A handshake that has begun.
pub(super) struct HalfOpen<O: Owner> {
    pub(super) association: SecureAssociation,
    pub(super) origin: Option<Origin>,
    /// The client's networks, if the client has proved its address.
    pub(super) networks: Option<[Network; 2]>,
    /// The request that waits for the application's decision.
    held: Option<O::Held>,
    admitted: Option<Admitted<O::Place>>,
    early: VecDeque<Message>,
    pub(super) begun_at: Instant,
    pub(super) deadline: Instant,
    /// Datagrams handled.
    pub(super) datagrams: u16,
}

/// A request that was admitted.
struct Admitted<P> {
    request: Box<Request>,
    /// The SCTP port.
    port: u16,
    /// For the association, once it is complete.
    place: P,
}

/// What becomes of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Keep,
    Forget,
    /// The accept queue of this port is full.
    Place(u16),
}

impl<O: Owner> HalfOpen<O> {
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
        self.is_held() && self.held.as_ref().is_some_and(|held| O::verdict(held) != Verdict::Hold)
    }

    /// Sends what the handshake has to send.
    pub(super) fn send(&mut self, now: Instant, owner: &mut O) {
        while owner.answer(self.association.source(), |buffer| self.association.poll_transmit(now, buffer)) {}
    }

    /// Whether a place in the accept queue of a port is kept for it.
    pub(super) fn has_place(&self, port: u16) -> bool {
        self.admitted.as_ref().is_some_and(|admitted| admitted.port == port)
    }

    /// Decides on the client's request once it is there, and takes its early messages.
    pub(super) fn decide(&mut self, now: Instant, id: ConnectionId, owner: &mut O) -> Wish {
        let held = self.held.as_ref().map(|held| O::verdict(held));
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
                is_encrypted: true,
            });
            let verdict = match held {
                None => owner.judge(&request, port, false),
                Some(Verdict::Admit) => owner.judge(&request, port, true),
                Some(verdict) => verdict,
            };
            match verdict {
                Verdict::Admit => match owner.keep_place(port, is_address_proved) {
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
                    self.held = owner.hold(id, *request, port);
                    return if self.held.is_some() { Wish::Keep } else { Wish::Forget };
                }
            }
        }
        let Some(Admitted { request, port, .. }) = &self.admitted else { return Wish::Keep };
        while let Some(message) = self.association.poll_early() {
            self.early.extend(owner.offer_early(request, self.origin, *port, message));
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
    pub(super) fn adopt(self, owner: &mut O) {
        let Self { association, admitted, early, .. } = self;
        let Some(Admitted { request, port, place }) = admitted else { return };
        if let Some(secure) = Secure::new(association, Some(request), early) {
            owner.adopt(Box::new(secure), port, &place);
        }
    }
}
