//! What strays and handshakes ask of the owner of the associations.

use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::BytesMut;
use festina_sctp::{self as sctp, Message, Transmit};
use festina_secure::wire::ConnectionId;
use festina_units::{EcnCodepoint, Instant, Preview};

use crate::channel::Secure;
use crate::demux::{Demux, Origin};
use crate::request::{PlainVerdict, Request, Verdict};

/// A received datagram and where it came from.
pub struct Datagram {
    /// Its sender.
    pub from: SocketAddr,
    /// The own address at which it arrived and that answers come from, if the socket has several.
    pub source: Option<IpAddr>,
    /// The ECN field of its IP header.
    pub ecn: EcnCodepoint,
    /// The UDP payload. Encrypted packets are decrypted in place.
    pub packet: BytesMut,
}

impl fmt::Debug for Datagram {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, source, ecn, packet } = self;
        formatter
            .debug_struct("Datagram")
            .field("from", from)
            .field("source", source)
            .field("ecn", ecn)
            .field("packet", &Preview(packet))
            .finish()
    }
}

/// Owns the associations and knows the application's wishes.
pub trait Owner {
    /// A handle of an association.
    type Association: Clone;
    /// A request that waits for the application's decision.
    type Held: fmt::Debug;
    /// A place in an accept queue, kept for the association of a handshake that is not complete.
    type Place: fmt::Debug;

    /// Looks something up.
    fn demux<R>(&mut self, look: impl FnOnce(&Demux<Self::Association>) -> R) -> R;
    /// Hands a datagram to its association. Returns the number of datagrams that had no effect.
    fn deliver(&mut self, now: Instant, association: &Self::Association, datagram: Datagram) -> usize;
    /// Has `write` append an answer to a stranger, which is sent if it returns one. Returns whether it did. `source` is the own address to send
    /// it from.
    fn answer(&mut self, source: Option<IpAddr>, write: impl FnOnce(&mut Vec<u8>) -> Option<Transmit>) -> bool;

    /// Decides on the INIT or COOKIE ECHO of a peer for a port.
    fn judge_plain(&mut self, peer: SocketAddr, port: u16) -> PlainVerdict;
    /// As [`answer`](Self::answer), by the listener for plain packets and a test whether a verification tag is in use.
    fn answer_plain(
        &mut self,
        source: Option<IpAddr>,
        write: impl FnOnce(&sctp::Listener, &dyn Fn(u32) -> bool, &mut Vec<u8>) -> Option<Transmit>,
    ) -> bool;
    /// Adds a plain association that a peer set up. Returns whether it was wanted.
    fn adopt_plain(&mut self, association: sctp::Association, source: Option<IpAddr>) -> bool;

    /// Decides on the request of an encrypted client for a port. `is_held` tells that the application has accepted it before.
    fn judge(&mut self, request: &Request, port: u16, is_held: bool) -> Verdict;
    /// Keeps a place in the accept queue of a port. Half of it is for clients that have proved their addresses.
    fn keep_place(&mut self, port: u16, is_address_proved: bool) -> Option<Self::Place>;
    /// Leaves a request to the application. `None` if too many wait.
    fn hold(&mut self, id: ConnectionId, request: Request, port: u16) -> Option<Self::Held>;
    /// The application's decision.
    fn verdict(held: &Self::Held) -> Verdict;
    /// Adds the handshakes whose requests the application has decided on.
    fn take_decided(&mut self, decided: &mut VecDeque<ConnectionId>);
    /// Returns whether a listener has ended since the last call.
    fn take_withdrawal(&mut self) -> bool;
    /// Returns the endpoint's settings with its addresses, if they have changed since the last call.
    fn take_readdressed(&mut self) -> Option<Arc<sctp::Context>> {
        None
    }
    /// Offers an early message to the listener, of a client that is not authenticated yet. `origin` is the connection ID that the client chose, and its
    /// address. Returns the message if it is not taken.
    fn offer_early(
        &mut self,
        request: &Request,
        origin: Option<Origin>,
        port: u16,
        message: Message,
    ) -> Option<Message>;
    /// Adds a protected association whose client is authenticated.
    fn adopt(&mut self, association: Box<Secure>, port: u16, place: &Self::Place);
    /// A half-open handshake of this client makes room for another client's.
    fn note_forgotten(&mut self, _client: SocketAddr) {}
}
