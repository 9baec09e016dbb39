//! The parts of an association that only a protected one has.

use std::sync::Arc;

use festina_endpoint::{Channel, Secure};
use festina_sctp::Message;
use festina_secure::HandshakeError;
use festina_units::Instant;

use super::Inner;
use super::state::{Place, State};
use crate::endpoint::Request;
use crate::locks::lock;
use crate::security::{PeerIdentity, SecurityFailure};

impl Inner {
    /// Returns whether an association that is closed stays in the endpoint, to answer a peer that has missed the end.
    pub(super) fn lingers(&self, state: &mut State, now: Instant) -> bool {
        if state.place == Place::Gone || state.core.is_over(now) || self.shared.is_gone() {
            return false;
        }
        if state.place == Place::Living && self.shared.linger(now, state.key, state.core.path_knowledge(now)) {
            state.place = Place::Lingering;
        }
        state.place == Place::Lingering
    }

    /// Returns whether an association without any readers so far has ended and brought no data. `false` while its lock is held.
    pub(crate) fn is_spent(&self) -> bool {
        let Ok(state) = self.state.try_lock() else { return false };
        let has_early = state.core.secure().is_some_and(Secure::has_early);
        state.core.is_closed() && !has_early && state.core.stats().received.chunks == 0
    }

    fn secure<R>(&self, read: impl FnOnce(&Secure) -> Option<R>) -> Option<R> {
        lock(&self.state).core.secure().and_then(read)
    }

    /// Why the handshake or the protected channel failed.
    pub(crate) fn channel_error(&self) -> Option<HandshakeError> {
        self.secure(|secure| secure.channel().failure().cloned())
    }

    /// Another protocol that answered the hello.
    pub(crate) fn foreign(&self) -> Option<SecurityFailure> {
        self.secure(|secure| secure.channel().foreign().map(SecurityFailure::OtherProtocol))
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.secure(|_| Some(())).is_some()
    }

    pub(crate) fn is_resumed(&self) -> bool {
        self.secure(|secure| Some(secure.channel().is_resumed())) == Some(true)
    }

    pub(crate) fn peer_identity(&self) -> Option<PeerIdentity> {
        self.secure(|secure| PeerIdentity::new(secure.channel().peer_identity()?))
    }

    pub(crate) fn alpn(&self) -> Option<Vec<u8>> {
        self.secure(|secure| secure.channel().alpn().map(<[u8]>::to_vec))
    }

    pub(crate) fn request(&self) -> Option<Request> {
        self.secure(|secure| secure.request().cloned())
    }

    pub(crate) fn next_early(&self) -> Option<Message> {
        lock(&self.state).core.secure_mut()?.next_early()
    }

    /// Begins to use the next keys. Returns whether that was possible.
    pub(crate) fn update_keys(self: &Arc<Self>) -> bool {
        self.change(|state, _| state.core.secure_mut().is_some_and(|secure| secure.channel_mut().update_keys()))
    }
}
