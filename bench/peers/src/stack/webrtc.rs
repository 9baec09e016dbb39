//! What `rtc-sctp` and `sctp-proto`, two descendants of webrtc-rs, have in common.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::epoch::Epoch;
use crate::peer::{AbortUnsupported, InReturn, Message, PartiallyReliable, Peer, Policy, SendError, Settings};

/// The endpoints tell associations apart by their tags alone, so one address serves for all.
pub(super) const ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 5000));

/// The operations on an association that both libraries share. Errors are the library's words.
pub trait WebRtcAssociation: Sized {
    /// The library's endpoint, which makes associations and knows which one a packet is for.
    type Endpoint;
    /// The endpoint's handle of an association.
    type Handle: Copy + PartialEq;
    /// The endpoint's result for a packet.
    type Routed;
    /// The endpoint's input for a known association.
    type Input;

    /// How it reacts when the other side has reset a stream.
    const IN_RETURN: InReturn;

    /// Gives a packet to the endpoint, which names the association that it is for.
    fn route(endpoint: &mut Self::Endpoint, at: Instant, packet: Bytes) -> Option<(Self::Handle, Self::Routed)>;
    /// Returns the destination, which tells whether the association is new.
    fn sort(routed: Self::Routed) -> Option<Destination<Self>>;
    /// Makes the endpoint forget an association.
    fn forget(endpoint: &mut Self::Endpoint, handle: Self::Handle);
    /// Passes the endpoint's input to this association.
    fn take_input(&mut self, input: Self::Input);
    /// The next packets to send.
    fn next_packets(&mut self, at: Instant) -> Option<Vec<Bytes>>;
    /// When [`WebRtcAssociation::run_timers`] is due.
    fn next_timer(&self) -> Option<Instant>;
    /// Runs the timers that are due.
    fn run_timers(&mut self, at: Instant);
    /// The next thing that the association has to tell.
    fn next_news(&mut self) -> Option<News>;
    /// Returns the phase of the association.
    fn phase(&self) -> Phase;
    /// Makes sure that the message's stream exists, and is as reliable and ordered as the message.
    fn prepare_stream(&mut self, message: &Message, policy: Policy) -> Result<(), String>;
    /// Sends a message on a stream that is prepared for it, unless that has `buffer_bytes` to send already.
    fn write(&mut self, at: Instant, message: &Message, buffer_bytes: usize) -> Result<(), SendError>;
    /// Closes a stream like a data channel: resets this side's half.
    fn close_stream(&mut self, at: Instant, stream: u16) -> Result<(), String>;
    /// The next message of a stream.
    fn read(&mut self, stream: u16) -> Option<Message>;
    /// Starts a graceful shutdown.
    fn begin_shutdown(&mut self) -> Result<(), String>;
    /// Ends the association with an ABORT and says how that went, if the library can do so at all.
    fn send_abort(&mut self) -> Result<Result<(), String>, AbortUnsupported>;
}

/// The part of [`WebRtcAssociation`] that reads the same in both libraries, though no type is shared between them.
macro_rules! what_both_libraries_call_alike {
    () => {
        type Endpoint = Endpoint;
        type Handle = AssociationHandle;
        type Routed = DatagramEvent;
        type Input = AssociationEvent;

        fn sort(routed: DatagramEvent) -> Option<Destination<Self>> {
            if let DatagramEvent::AssociationEvent(input) = routed {
                return Some(Destination::Known(input));
            }
            // Only one of the libraries reserves the right to add more.
            let DatagramEvent::NewAssociation(association) = routed else { return None };
            Some(Destination::New(association))
        }

        fn forget(endpoint: &mut Endpoint, handle: AssociationHandle) {
            endpoint.handle_event(handle, EndpointEvent::drained());
        }

        fn take_input(&mut self, input: AssociationEvent) {
            self.handle_event(input);
        }

        fn next_timer(&self) -> Option<Instant> {
            self.poll_timeout()
        }

        fn run_timers(&mut self, at: Instant) {
            self.handle_timeout(at);
        }

        fn next_news(&mut self) -> Option<News> {
            Some(match self.poll()? {
                Event::Stream(StreamEvent::Readable { id } | StreamEvent::Opened { id }) => News::Readable(id),
                Event::Stream(StreamEvent::Finished { .. }) => News::Reset,
                // Also reported after a graceful shutdown.
                Event::AssociationLost { reason: AssociationError::AssociationClosed, .. } => News::Other,
                // One of them says so of a stream that was reset.
                Event::AssociationLost { reason: AssociationError::Reset, .. } if !self.is_closed() => News::Reset,
                Event::AssociationLost { reason, .. } | Event::HandshakeFailed { reason, .. } => {
                    News::Failed(reason.to_string())
                }
                _ => News::Other,
            })
        }

        fn phase(&self) -> Phase {
            match (self.is_handshaking(), self.is_closed()) {
                // A server's association is in the closed state also before the handshake.
                (true, _) => Phase::Handshaking,
                (false, false) => Phase::Open,
                (false, true) => Phase::Closed,
            }
        }

        fn prepare_stream(&mut self, message: &Message, policy: Policy) -> Result<(), String> {
            let (kind, value) = match policy {
                Policy::Reliable => (ReliabilityType::Reliable, 0),
                Policy::Lifetime(lifetime) => {
                    (ReliabilityType::Timed, u32::try_from(lifetime.as_millis()).unwrap_or(u32::MAX))
                }
                Policy::Retransmissions(count) => (ReliabilityType::Rexmit, u32::from(count)),
                Policy::Priority(_) | Policy::Replacing(_) => (ReliabilityType::Rexmit, 0),
            };
            let ppid = message.ppid.into();
            // Fails when the peer has opened the stream first; then it exists, which is all that is needed.
            let _ = self.open_stream(message.stream, ppid);
            let mut stream = self.stream(message.stream).map_err(|error| error.to_string())?;
            stream
                .set_default_payload_type(ppid)
                .and_then(|()| stream.set_reliability_params(message.unordered, kind, value))
                .map_err(|error| error.to_string())
        }

        fn begin_shutdown(&mut self) -> Result<(), String> {
            self.shutdown().map_err(|error| error.to_string())
        }
    };
}
pub(super) use what_both_libraries_call_alike;

/// A refusal in the library's words.
pub(super) fn refused(error: &impl Display) -> SendError {
    SendError::Refused(error.to_string())
}

/// Which association a packet goes to.
pub enum Destination<A: WebRtcAssociation> {
    /// One that the endpoint knows.
    Known(A::Input),
    /// A new one.
    New(A),
}

/// News of an association.
pub enum News {
    /// The stream may have messages to read.
    Readable(u16),
    /// A stream was reset, and has to be opened again.
    Reset,
    /// It has ended, and not gracefully.
    Failed(String),
    /// Nothing of interest here.
    Other,
}

/// The phase of an association.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Not yet established.
    Handshaking,
    /// Established, or shutting down.
    Open,
    /// Ended.
    Closed,
}

/// What all peers of a factory share: one endpoint for those that connect, one for those that accept.
pub(super) struct Endpoints<A: WebRtcAssociation> {
    connecting: Rc<Shared<A>>,
    accepting: Rc<Shared<A>>,
}

struct Shared<A: WebRtcAssociation> {
    endpoint: RefCell<A::Endpoint>,
    epoch: Cell<Epoch>,
    send_buffer_bytes: usize,
}

impl<A: WebRtcAssociation> Shared<A> {
    fn at(&self, now: Duration) -> Instant {
        self.epoch.get().at(now)
    }
}

impl<A: WebRtcAssociation> Endpoints<A> {
    pub(super) fn new(connecting: A::Endpoint, accepting: A::Endpoint, settings: &Settings) -> Self {
        let epoch = Cell::new(Epoch::new());
        let shared = |endpoint| {
            let send_buffer_bytes = settings.send_buffer_bytes;
            Rc::new(Shared { endpoint: RefCell::new(endpoint), epoch: epoch.clone(), send_buffer_bytes })
        };
        Endpoints { connecting: shared(connecting), accepting: shared(accepting) }
    }

    /// A peer that connects, by way of `connect`.
    pub(super) fn client(
        &self,
        now: Duration,
        connect: impl FnOnce(&mut A::Endpoint, Instant) -> Result<(A::Handle, A), String>,
    ) -> WebRtcPeer<A> {
        let mut peer = WebRtcPeer::new(&self.connecting);
        match connect(&mut self.connecting.endpoint.borrow_mut(), self.connecting.at(now)) {
            Ok((handle, association)) => peer.current = Some(Candidate { handle, association }),
            Err(error) => peer.error = Some(error),
        }
        peer
    }

    /// Sets the clock by a client that has just connected, for a library that reads the time itself then: its first timer is due
    /// `after` virtual time zero.
    pub(super) fn set_clock_by(&self, client: &WebRtcPeer<A>, after: Duration) {
        let first_timer = client.current.as_ref().and_then(|current| current.association.next_timer());
        if let Some(epoch) = first_timer.and_then(|deadline| Epoch::before(deadline, after)) {
            self.connecting.epoch.set(epoch);
        }
    }

    /// A peer that accepts.
    pub(super) fn server(&self) -> WebRtcPeer<A> {
        WebRtcPeer::new(&self.accepting)
    }
}

struct Candidate<A: WebRtcAssociation> {
    handle: A::Handle,
    association: A,
}

/// One association of either library.
pub struct WebRtcPeer<A: WebRtcAssociation> {
    shared: Rc<Shared<A>>,
    current: Option<Candidate<A>>,
    /// The endpoint of `rtc-sctp` makes a new association for every INIT, so also for a duplicated or retransmitted one. The
    /// first that is established wins, and the others are dropped.
    rivals: Vec<Candidate<A>>,
    packets: std::vec::IntoIter<Bytes>,
    /// The stream, mode and policy last sent with: a stream is prepared only when one changes.
    sending: Option<(u16, bool, Policy)>,
    has_reset: bool,
    reading: Option<u16>,
    /// The side that has begun a shutdown never reaches the closed state, so its end is read off the wire.
    shutdown_complete: bool,
    error: Option<String>,
}

impl<A: WebRtcAssociation> WebRtcPeer<A> {
    fn new(shared: &Rc<Shared<A>>) -> Self {
        WebRtcPeer {
            shared: Rc::clone(shared),
            current: None,
            rivals: Vec::new(),
            packets: Vec::new().into_iter(),
            sending: None,
            has_reset: false,
            reading: None,
            shutdown_complete: false,
            error: None,
        }
    }

    fn phase(&self) -> Option<Phase> {
        self.current.as_ref().map(|current| current.association.phase())
    }

    /// Takes the news in until one says that a stream can be read.
    fn next_readable(&mut self) -> Option<u16> {
        let association = &mut self.current.as_mut()?.association;
        while let Some(news) = association.next_news() {
            match news {
                News::Readable(stream) => return Some(stream),
                News::Reset => (self.sending, self.has_reset) = (None, true),
                News::Failed(error) => self.error = Some(error),
                News::Other => {}
            }
        }
        None
    }

    fn settle_rivals(&mut self) {
        if self.rivals.is_empty() {
            return;
        }
        if self.phase() == Some(Phase::Handshaking)
            && let Some(index) = self.rivals.iter().position(|rival| rival.association.phase() != Phase::Handshaking)
        {
            let winner = self.rivals.swap_remove(index);
            self.rivals.extend(self.current.replace(winner));
        }
        if self.phase().is_some_and(|phase| phase != Phase::Handshaking) {
            for rival in std::mem::take(&mut self.rivals) {
                A::forget(&mut self.shared.endpoint.borrow_mut(), rival.handle);
            }
        }
    }
}

impl<A: WebRtcAssociation> Peer for WebRtcPeer<A> {
    fn handle_packet(&mut self, now: Duration, packet: Bytes) {
        let routed = A::route(&mut self.shared.endpoint.borrow_mut(), self.shared.at(now), packet);
        let Some((handle, routed)) = routed else { return };
        match A::sort(routed) {
            Some(Destination::Known(input)) => {
                let mut candidates = self.current.iter_mut().chain(&mut self.rivals);
                if let Some(known) = candidates.find(|candidate| candidate.handle == handle) {
                    known.association.take_input(input);
                }
            }
            Some(Destination::New(association)) => {
                let candidate = Candidate { handle, association };
                if self.current.is_none() {
                    self.current = Some(candidate);
                } else {
                    self.rivals.push(candidate);
                }
            }
            None => {}
        }
        self.settle_rivals();
    }

    fn poll_packet(&mut self, now: Duration) -> Option<Bytes> {
        loop {
            if let Some(packet) = self.packets.next() {
                self.shutdown_complete |= is_shutdown_complete(&packet);
                return Some(packet);
            }
            if self.shutdown_complete {
                return None;
            }
            let at = self.shared.at(now);
            let mut candidates = self.current.iter_mut().chain(&mut self.rivals);
            self.packets = candidates.find_map(|candidate| candidate.association.next_packets(at))?.into_iter();
        }
    }

    fn deadline(&self) -> Option<Duration> {
        if self.shutdown_complete {
            return None;
        }
        let candidates = self.current.iter().chain(&self.rivals);
        let at = candidates.filter_map(|candidate| candidate.association.next_timer()).min()?;
        Some(self.shared.epoch.get().since(at))
    }

    fn handle_timeout(&mut self, now: Duration) {
        let at = self.shared.at(now);
        for candidate in self.current.iter_mut().chain(&mut self.rivals) {
            candidate.association.run_timers(at);
        }
    }

    fn send(&mut self, now: Duration, message: &Message) -> Result<(), SendError> {
        self.send_with(now, message, Policy::Reliable)
    }

    fn receive(&mut self, _now: Duration) -> Option<Message> {
        loop {
            let stream = match self.reading {
                Some(stream) => stream,
                None => self.next_readable()?,
            };
            let message = self.current.as_mut()?.association.read(stream);
            self.reading = message.as_ref().map(|_| stream);
            if message.is_some() {
                return message;
            }
        }
    }

    fn shutdown(&mut self, _now: Duration) {
        if let Some(current) = self.current.as_mut() {
            let begun = current.association.begin_shutdown();
            self.error = begun.err().or_else(|| self.error.take());
        }
    }

    fn abort(&mut self, _now: Duration) -> Result<(), AbortUnsupported> {
        if let Some(current) = self.current.as_mut() {
            let sent = current.association.send_abort()?;
            self.error = sent.err().or_else(|| self.error.take());
        }
        Ok(())
    }

    fn is_connected(&self) -> bool {
        self.phase() == Some(Phase::Open)
    }

    fn is_closed(&self) -> bool {
        self.shutdown_complete || self.phase() == Some(Phase::Closed)
    }

    fn error(&self) -> Option<String> {
        self.error.clone()
    }
}

impl<A: WebRtcAssociation> PartiallyReliable for WebRtcPeer<A> {
    const IN_RETURN: InReturn = A::IN_RETURN;
    const EXPIRES_BETWEEN_FRAGMENTS: bool = true;

    fn send_with(&mut self, now: Duration, message: &Message, policy: Policy) -> Result<(), SendError> {
        // `sctp-proto` never sends data written during the handshake.
        let Some(Candidate { association, .. }) =
            self.current.as_mut().filter(|own| own.association.phase() != Phase::Handshaking)
        else {
            return Err(SendError::WouldBlock);
        };
        let sending = Some((message.stream, message.unordered, policy));
        let mut write = || {
            if self.sending != sending {
                association.prepare_stream(message, policy).map_err(SendError::Refused)?;
                self.sending = sending;
            }
            association.write(self.shared.at(now), message, self.shared.send_buffer_bytes)
        };
        match write() {
            // A stream that was reset can be opened again once the other side has answered.
            Err(SendError::Refused(_)) if self.has_reset => {
                self.sending = None;
                Err(SendError::WouldBlock)
            }
            written => written,
        }
    }

    fn reset(&mut self, now: Duration, streams: &[u16]) -> Result<(), String> {
        let at = self.shared.at(now);
        let association = &mut self.current.as_mut().ok_or("there is no association")?.association;
        // Each is opened again with the next message.
        self.sending = None;
        self.has_reset = true;
        streams.iter().try_for_each(|&stream| association.close_stream(at, stream))
    }
}

/// Whether a packet consists of a SHUTDOWN COMPLETE chunk (RFC 9260 section 3.3.13): it is never bundled.
fn is_shutdown_complete(packet: &[u8]) -> bool {
    const COMMON_HEADER_BYTES: usize = 12;
    const SHUTDOWN_COMPLETE: u8 = 14;
    packet.get(COMMON_HEADER_BYTES) == Some(&SHUTDOWN_COMPLETE)
}
