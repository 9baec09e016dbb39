//! Encryption and identity of an association.

use festina_sctp::Message;

use super::Association;
use crate::endpoint::Request;
use crate::security::PeerIdentity;

impl Association {
    /// Returns whether the association is encrypted: whether its endpoint has [security settings](crate::security). Only listeners that [accept
    /// plain clients](crate::security::ServerSecurity::with_plain_clients) return both kinds.
    pub fn is_encrypted(&self) -> bool {
        self.inner().is_encrypted()
    }

    /// Returns the certificates or the raw public key by which the peer has identified itself. `None` for a client without, and on a plain
    /// association.
    pub fn peer_identity(&self) -> Option<PeerIdentity> {
        self.inner().peer_identity()
    }

    /// Returns the application protocol that both sides have agreed on (ALPN).
    pub fn alpn(&self) -> Option<Vec<u8>> {
        self.inner().alpn()
    }

    /// Returns the request of the client, as the listener saw it before it accepted, with the client's token. `None` on the client's side.
    pub fn request(&self) -> Option<Request> {
        self.inner().request()
    }

    /// Returns whether an earlier session was resumed.
    pub fn is_resumed(&self) -> bool {
        self.inner().is_resumed()
    }

    /// Returns the next early message of the client, which came with its first packet. Such a message may be a copy that somebody else has sent
    /// again: act on it only if acting twice does no harm. All of them are here when the association is accepted.
    pub fn try_recv_early(&self) -> Option<Message> {
        self.inner().next_early()
    }

    /// Begins to use new keys (RFC 9001 §6), as happens by itself after 2^22 packets. Returns `false`, without effect, on a plain association and
    /// while the peer has not confirmed the present keys.
    pub fn update_keys(&self) -> bool {
        self.inner().update_keys()
    }
}
