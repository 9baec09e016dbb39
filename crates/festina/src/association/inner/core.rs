//! The association of the core behind the handles: plain, or below a protected channel.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};

use bytes::BytesMut;
use festina_sctp::wire::Packet;
use festina_sctp::{self as sctp, Event, Message, ReceivedMessage, Transmit};
use festina_secure::{OVERHEAD_BYTES, Path, SecureAssociation};
use festina_units::{EcnCodepoint, Instant};

use crate::endpoint::{Key, Origin, Request};

/// An association. Settings and counters are those of the association of the core; packets, events and timers pass the protected channel, if there
/// is one.
#[expect(clippy::large_enum_variant, reason = "the common variant is stored inline, so that it costs no indirection")]
pub(crate) enum Core {
    Plain(sctp::Association),
    Secure(Box<Secure>),
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handled {
    /// It had no effect.
    Dropped,
    /// It had an effect, but anybody may have sent it, as an INIT.
    Unproved,
    /// Its sender is the peer.
    Proof,
}

/// A protected association that is past its half-open state.
pub(crate) struct Secure {
    association: SecureAssociation,
    /// The hello of a client that was admitted.
    request: Option<Box<Request>>,
    /// Messages that came with it.
    early: VecDeque<Message>,
}

impl Secure {
    /// `None` if the association is half-open.
    pub(crate) fn new(
        association: SecureAssociation,
        request: Option<Box<Request>>,
        early: VecDeque<Message>,
    ) -> Option<Self> {
        association.association()?;
        Some(Self { association, request, early })
    }

    /// The protected association.
    pub(crate) fn channel(&self) -> &SecureAssociation {
        &self.association
    }

    pub(crate) fn channel_mut(&mut self) -> &mut SecureAssociation {
        &mut self.association
    }

    /// The hello of the client, on a server.
    pub(crate) fn request(&self) -> Option<&Request> {
        self.request.as_deref()
    }

    pub(crate) fn has_early(&self) -> bool {
        !self.early.is_empty()
    }

    pub(crate) fn next_early(&mut self) -> Option<Message> {
        self.early.pop_front()
    }

    fn core(&self) -> &sctp::Association {
        self.association.association().expect("half-open associations are kept elsewhere")
    }
}

impl Core {
    /// By what the endpoint finds the association now.
    pub(crate) fn key(&self) -> Key {
        let name = match self {
            Self::Plain(core) => core.local_tag().into(),
            Self::Secure(secure) => u64::from_be_bytes(secure.association.id().0),
        };
        let reset_token = self.secure().and_then(|secure| secure.association.reset_token());
        Key { remote: self.remote(), ports: self.ports(), name, reset_token }
    }

    /// The connection ID that a client chose for this side, and the address from which its hellos come.
    pub(crate) fn origin(&self) -> Option<Origin> {
        self.secure().and_then(|secure| secure.association.origin())
    }

    /// Returns the own address to send the latest packet from, if the socket has several. `plain` is that of a plain association.
    pub(crate) fn source(&self, plain: Option<IpAddr>) -> Option<IpAddr> {
        match self {
            Self::Plain(_) => plain,
            Self::Secure(secure) => secure.association.source(),
        }
    }

    pub(crate) fn secure(&self) -> Option<&Secure> {
        match self {
            Self::Plain(_) => None,
            Self::Secure(secure) => Some(secure),
        }
    }

    pub(crate) fn secure_mut(&mut self) -> Option<&mut Secure> {
        match self {
            Self::Plain(_) => None,
            Self::Secure(secure) => Some(secure),
        }
    }

    /// Returns whether the association is over and will answer no packet any more.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        match self {
            Self::Plain(core) => core.is_closed(),
            Self::Secure(secure) => secure.association.is_finished(now),
        }
    }

    #[inline]
    pub(crate) fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        match self {
            Self::Plain(core) => core.poll_transmit(now, buffer),
            Self::Secure(secure) => secure.association.poll_transmit(now, buffer),
        }
    }

    /// Returns what became of a packet.
    #[inline]
    pub(crate) fn handle_packet(&mut self, now: Instant, path: Path, ecn: EcnCodepoint, packet: BytesMut) -> Handled {
        let (is_handled, is_proof) = match self {
            Self::Plain(core) => {
                let packet = packet.freeze();
                let is_handled = core.handle_packet(now, path.remote, ecn, &packet).is_ok();
                (is_handled, Packet::peek(&packet).is_ok_and(|header| header.verification_tag != 0))
            }
            Self::Secure(secure) => {
                let is_handled = secure.association.handle_datagram(now, path, ecn, packet).is_ok();
                (is_handled, secure.association.is_established())
            }
        };
        match (is_handled, is_proof) {
            (false, _) => Handled::Dropped,
            (true, false) => Handled::Unproved,
            (true, true) => Handled::Proof,
        }
    }

    #[inline]
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        match self {
            Self::Plain(core) => core.handle_timeout(now),
            Self::Secure(secure) => secure.association.handle_timeout(now),
        }
    }

    #[inline]
    pub(crate) fn poll_deadline(&self) -> Option<Instant> {
        match self {
            Self::Plain(core) => core.poll_deadline(),
            Self::Secure(secure) => secure.association.poll_deadline(),
        }
    }

    #[inline]
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        match self {
            Self::Plain(core) => core.poll_event(),
            Self::Secure(secure) => secure.association.poll_event(),
        }
    }

    #[inline]
    pub(crate) fn poll_message(&mut self) -> Option<ReceivedMessage> {
        match self {
            Self::Plain(core) => core.poll_message(),
            Self::Secure(secure) => secure.association.poll_message(),
        }
    }

    /// Limits datagrams to this size.
    pub(crate) fn limit_datagram_bytes(&mut self, bytes: usize) {
        let overhead = if self.secure().is_some() { OVERHEAD_BYTES } else { 0 };
        self.limit_packet_bytes(bytes.saturating_sub(overhead));
    }
}

impl Deref for Core {
    type Target = sctp::Association;

    #[inline]
    fn deref(&self) -> &sctp::Association {
        match self {
            Self::Plain(core) => core,
            Self::Secure(secure) => secure.core(),
        }
    }
}

impl DerefMut for Core {
    #[inline]
    fn deref_mut(&mut self) -> &mut sctp::Association {
        match self {
            Self::Plain(core) => core,
            Self::Secure(secure) => {
                secure.association.association_mut().expect("half-open associations are kept elsewhere")
            }
        }
    }
}
