//! An association of the core, plain or below a protected channel.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use bytes::BytesMut;
use festina_sctp::wire::Packet;
use festina_sctp::{self as sctp, Event, Message, ReceivedMessage, Transmit};
use festina_secure::parameters::ResetToken;
use festina_secure::{OVERHEAD_BYTES, Path, SecureAssociation};
use festina_units::{EcnCodepoint, Instant};

use crate::demux::{Key, Name, Origin};
use crate::request::Request;

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handled {
    /// It had no effect.
    Dropped,
    /// Accepted, but unauthenticated, as an INIT is.
    Unproved,
    /// Its sender is the peer.
    Proof,
}

/// One association and the layer that its packets pass, which may protect them. A further kind is a file with an implementation, and a line in the
/// list of [`Core`]'s kinds.
pub trait Channel {
    /// The association of the core.
    fn core(&self) -> &sctp::Association;
    /// The association of the core.
    fn core_mut(&mut self) -> &mut sctp::Association;
    /// By what its packets are found now.
    fn name(&self) -> Name;
    /// Handles a packet of its peer.
    fn handle_packet(&mut self, now: Instant, path: Path, ecn: EcnCodepoint, packet: BytesMut) -> Handled;
    /// Appends the next packet to `buffer`.
    fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit>;
    /// Returns whether the association is over and will answer no packet any more.
    fn is_over(&self, _now: Instant) -> bool {
        self.core().is_closed()
    }
    /// A deadline has passed.
    #[inline]
    fn handle_timeout(&mut self, now: Instant) {
        self.core_mut().handle_timeout(now);
    }
    /// Packets leave from another own address from now on on some paths: as [`sctp::Association::rebind`].
    fn rebind(&mut self, now: Instant, is_other_network: impl FnMut(IpAddr) -> Option<bool>) {
        self.core_mut().rebind(now, is_other_network);
    }
    /// The endpoint has other addresses from now on: as [`sctp::Association::use_addresses`].
    fn use_addresses(&mut self, _now: Instant, (before, after): (&Arc<sctp::Context>, &Arc<sctp::Context>)) {
        self.core_mut().use_addresses(before, after);
    }
    /// When [`handle_timeout`](Self::handle_timeout) is to be called.
    #[inline]
    fn poll_deadline(&self) -> Option<Instant> {
        self.core().poll_deadline()
    }
    /// The next event.
    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        self.core_mut().poll_event()
    }
    /// The next message.
    #[inline]
    fn poll_message(&mut self) -> Option<ReceivedMessage> {
        self.core_mut().poll_message()
    }
    /// The end of datagrams by which its server resets it.
    fn reset_token(&self) -> Option<ResetToken> {
        None
    }
    /// The connection ID that a client chose for this side, and the address from which its hellos come.
    fn origin(&self) -> Option<Origin> {
        None
    }
    /// The own address to send the latest packet from, if the socket has several. `latest` is the one at which a packet of the peer arrived last.
    fn source(&self, latest: Option<IpAddr>) -> Option<IpAddr> {
        latest
    }
    /// Bytes that it adds to a packet, at most.
    fn overhead_bytes(&self) -> usize {
        0
    }
    /// The TLS 1.3 association, if it is one.
    fn secure(&self) -> Option<&Secure> {
        None
    }
    /// The TLS 1.3 association, if it is one.
    fn secure_mut(&mut self) -> Option<&mut Secure> {
        None
    }
}

/// Defines an association that is one of several kinds.
macro_rules! kinds {
    ($(#[$whole:meta])* $visibility:vis $name:ident { $($(#[$attribute:meta])* $kind:ident($channel:ty),)* }) => {
        $(#[$whole])*
        $visibility enum $name {
            $($(#[$attribute])* $kind($channel),)*
        }

        impl Channel for $name {
            #[inline]
            fn core(&self) -> &sctp::Association {
                match self { $(Self::$kind(channel) => channel.core(),)* }
            }
            #[inline]
            fn core_mut(&mut self) -> &mut sctp::Association {
                match self { $(Self::$kind(channel) => channel.core_mut(),)* }
            }
            fn name(&self) -> Name {
                match self { $(Self::$kind(channel) => channel.name(),)* }
            }
            fn is_over(&self, now: Instant) -> bool {
                match self { $(Self::$kind(channel) => channel.is_over(now),)* }
            }
            #[inline]
            fn handle_packet(&mut self, now: Instant, path: Path, ecn: EcnCodepoint, packet: BytesMut) -> Handled {
                match self { $(Self::$kind(channel) => channel.handle_packet(now, path, ecn, packet),)* }
            }
            #[inline]
            fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
                match self { $(Self::$kind(channel) => channel.poll_transmit(now, buffer),)* }
            }
            #[inline]
            fn handle_timeout(&mut self, now: Instant) {
                match self { $(Self::$kind(channel) => channel.handle_timeout(now),)* }
            }
            fn rebind(&mut self, now: Instant, is_other_network: impl FnMut(IpAddr) -> Option<bool>) {
                match self { $(Self::$kind(channel) => channel.rebind(now, is_other_network),)* }
            }
            fn use_addresses(&mut self, now: Instant, contexts: (&Arc<sctp::Context>, &Arc<sctp::Context>)) {
                match self { $(Self::$kind(channel) => channel.use_addresses(now, contexts),)* }
            }
            #[inline]
            fn poll_deadline(&self) -> Option<Instant> {
                match self { $(Self::$kind(channel) => channel.poll_deadline(),)* }
            }
            #[inline]
            fn poll_event(&mut self) -> Option<Event> {
                match self { $(Self::$kind(channel) => channel.poll_event(),)* }
            }
            #[inline]
            fn poll_message(&mut self) -> Option<ReceivedMessage> {
                match self { $(Self::$kind(channel) => channel.poll_message(),)* }
            }
            fn reset_token(&self) -> Option<ResetToken> {
                match self { $(Self::$kind(channel) => channel.reset_token(),)* }
            }
            fn origin(&self) -> Option<Origin> {
                match self { $(Self::$kind(channel) => channel.origin(),)* }
            }
            fn source(&self, latest: Option<IpAddr>) -> Option<IpAddr> {
                match self { $(Self::$kind(channel) => channel.source(latest),)* }
            }
            fn overhead_bytes(&self) -> usize {
                match self { $(Self::$kind(channel) => channel.overhead_bytes(),)* }
            }
            fn secure(&self) -> Option<&Secure> {
                match self { $(Self::$kind(channel) => channel.secure(),)* }
            }
            fn secure_mut(&mut self) -> Option<&mut Secure> {
                match self { $(Self::$kind(channel) => channel.secure_mut(),)* }
            }
        }
    };
}

kinds! {
    /// An association. Settings and counters are those of the association of the core, to which it dereferences; packets, events and timers pass the
    /// channel.
    #[expect(clippy::large_enum_variant, reason = "the common variant is stored inline, so that it costs no indirection")]
    pub Core {
        /// Plain SCTP.
        Plain(Plain),
        /// Below TLS 1.3.
        Secure(Box<Secure>),
    }
}

impl Core {
    /// By what the endpoint finds the association now.
    pub fn key(&self) -> Key {
        let (reset_token, moved_id) =
            (self.reset_token(), self.secure().and_then(|secure| secure.channel().moved_id()));
        Key { remote: self.remote(), ports: self.ports(), name: self.name(), reset_token, moved_id }
    }

    /// Limits datagrams to this size.
    pub fn limit_datagram_bytes(&mut self, bytes: usize) {
        let overhead = self.overhead_bytes();
        self.limit_packet_bytes(bytes.saturating_sub(overhead));
    }
}

impl Deref for Core {
    type Target = sctp::Association;

    #[inline]
    fn deref(&self) -> &sctp::Association {
        self.core()
    }
}

impl DerefMut for Core {
    #[inline]
    fn deref_mut(&mut self) -> &mut sctp::Association {
        self.core_mut()
    }
}

/// A plain association.
pub struct Plain(pub sctp::Association);

impl Channel for Plain {
    #[inline]
    fn core(&self) -> &sctp::Association {
        &self.0
    }

    #[inline]
    fn core_mut(&mut self) -> &mut sctp::Association {
        &mut self.0
    }

    fn name(&self) -> Name {
        Name::Tag(self.0.local_tag())
    }

    #[inline]
    fn handle_packet(&mut self, now: Instant, path: Path, ecn: EcnCodepoint, packet: BytesMut) -> Handled {
        if self.0.forbids_source(path.remote, false) {
            return Handled::Dropped;
        }
        let packet = packet.freeze();
        let is_handled = self.0.handle_packet(now, path.remote, ecn, &packet).is_ok();
        handled(is_handled, || Packet::peek(&packet).is_ok_and(|header| header.verification_tag != 0))
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.0.poll_transmit(now, buffer)
    }
}

/// A protected association that is past its half-open state.
pub struct Secure {
    association: SecureAssociation,
    /// The hello of a client that was admitted.
    request: Option<Box<Request>>,
    /// Messages that came with it.
    early: VecDeque<Message>,
}

impl Secure {
    /// `None` if the association is half-open.
    pub fn new(
        association: SecureAssociation,
        request: Option<Box<Request>>,
        early: VecDeque<Message>,
    ) -> Option<Self> {
        association.association()?;
        Some(Self { association, request, early })
    }

    /// The protected association.
    pub fn channel(&self) -> &SecureAssociation {
        &self.association
    }

    /// The protected association.
    pub fn channel_mut(&mut self) -> &mut SecureAssociation {
        &mut self.association
    }

    /// The hello of the client, on a server.
    pub fn request(&self) -> Option<&Request> {
        self.request.as_deref()
    }

    /// Whether early messages are left.
    pub fn has_early(&self) -> bool {
        !self.early.is_empty()
    }

    /// The next early message.
    pub fn next_early(&mut self) -> Option<Message> {
        self.early.pop_front()
    }
}

/// Why the core of a protected association is there.
const NOT_HALF_OPEN: &str = "half-open associations are kept elsewhere";

impl Channel for Secure {
    #[inline]
    fn core(&self) -> &sctp::Association {
        self.association.association().expect(NOT_HALF_OPEN)
    }

    #[inline]
    fn core_mut(&mut self) -> &mut sctp::Association {
        self.association.association_mut().expect(NOT_HALF_OPEN)
    }

    fn name(&self) -> Name {
        Name::Id(self.association.id())
    }

    fn is_over(&self, now: Instant) -> bool {
        self.association.is_finished(now)
    }

    #[inline]
    fn handle_packet(&mut self, now: Instant, path: Path, ecn: EcnCodepoint, packet: BytesMut) -> Handled {
        if self.core().forbids_source(path.remote, true) {
            return Handled::Dropped;
        }
        let is_handled = self.association.handle_datagram(now, path, ecn, packet).is_ok();
        handled(is_handled, || self.association.is_established())
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.association.poll_transmit(now, buffer)
    }

    #[inline]
    fn handle_timeout(&mut self, now: Instant) {
        self.association.handle_timeout(now);
    }

    fn rebind(&mut self, now: Instant, is_other_network: impl FnMut(IpAddr) -> Option<bool>) {
        self.association.rebind(now, is_other_network);
    }

    fn use_addresses(&mut self, now: Instant, contexts: (&Arc<sctp::Context>, &Arc<sctp::Context>)) {
        self.association.use_addresses(now, contexts);
    }

    #[inline]
    fn poll_deadline(&self) -> Option<Instant> {
        self.association.poll_deadline()
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        self.association.poll_event()
    }

    #[inline]
    fn poll_message(&mut self) -> Option<ReceivedMessage> {
        self.association.poll_message()
    }

    fn reset_token(&self) -> Option<ResetToken> {
        self.association.reset_token()
    }

    fn origin(&self) -> Option<Origin> {
        self.association.origin()
    }

    fn source(&self, latest: Option<IpAddr>) -> Option<IpAddr> {
        self.association.source().or(latest.filter(|_| self.association.chooses_sources()))
    }

    fn overhead_bytes(&self) -> usize {
        OVERHEAD_BYTES
    }

    fn secure(&self) -> Option<&Secure> {
        Some(self)
    }

    fn secure_mut(&mut self) -> Option<&mut Secure> {
        Some(self)
    }
}

#[inline]
fn handled(is_handled: bool, is_proof: impl FnOnce() -> bool) -> Handled {
    match is_handled {
        false => Handled::Dropped,
        true if is_proof() => Handled::Proof,
        true => Handled::Unproved,
    }
}

#[cfg(test)]
mod tests;
