//! rtc-sctp, the SCTP of the WebRTC.rs project in its sans-IO edition.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::rtc_sctp::{
    Association, AssociationError, AssociationHandle, ClientConfig, DatagramEvent, Endpoint, EndpointConfig,
    EndpointEvent, Event, Payload, PayloadProtocolIdentifier, ReliabilityType, ServerConfig, StreamEvent, TimerConfig,
    TransportConfig, max_payload_size_for_mtu,
};
use bytes::Bytes;

use super::{is_shutdown_complete, virtual_epoch};
use crate::peer::{AbortUnsupported, Message, Peer, SendError, Settings, Stack};

/// The endpoint tells associations apart by their tags alone, so one address serves for all.
const ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 5000));

/// Factory of rtc-sctp associations: one endpoint for those that connect, one for those that accept.
pub struct RtcSctp {
    connecting: Rc<RefCell<Endpoint>>,
    accepting: Rc<RefCell<Endpoint>>,
    transport: Arc<TransportConfig>,
    settings: Settings,
}

impl Stack for RtcSctp {
    type Peer = RtcSctpPeer;

    const NAME: &'static str = "rtc-sctp 0.21.1";
    const ANSWERS_STRAYS: bool = false;
    // `shutdown` looks only at what is in flight, not at what is still queued.
    const SHUTDOWN_DRAINS: bool = false;
    const CAN_ABORT: bool = true;

    fn new(settings: &Settings) -> Self {
        let mut timers = TimerConfig::default();
        if settings.persistent {
            timers.max_t1_init_retrans = usize::MAX;
            timers.max_t1_cookie_retrans = usize::MAX;
            timers.max_t3_rtx_retrans = usize::MAX;
        }
        let transport = TransportConfig::default()
            .with_max_receive_buffer_size(settings.receive_window_bytes)
            .with_max_message_size(settings.message_bytes_max)
            .with_timer_config(timers);
        let mut config = EndpointConfig::new();
        config.max_payload_size(max_payload_size_for_mtu(settings.packet_bytes_max));
        let config = Arc::new(config);
        let server = Arc::new(ServerConfig::new(transport.clone()));
        let endpoint =
            |server| Rc::new(RefCell::new(Endpoint::new(ADDRESS, Default::default(), Arc::clone(&config), server)));
        RtcSctp {
            connecting: endpoint(None),
            accepting: endpoint(Some(server)),
            transport: Arc::new(transport),
            settings: settings.clone(),
        }
    }

    fn client(&mut self, now: Duration) -> RtcSctpPeer {
        let mut peer = RtcSctpPeer::new(&self.connecting, &self.settings, now);
        let config = ClientConfig { transport: Arc::clone(&self.transport) };
        let connected = self.connecting.borrow_mut().connect(peer.epoch + now, config, ADDRESS);
        match connected {
            Ok((handle, association)) => peer.current = Some(Candidate { handle, association }),
            Err(error) => peer.error = Some(error.to_string()),
        }
        peer
    }

    fn server(&mut self, now: Duration) -> RtcSctpPeer {
        RtcSctpPeer::new(&self.accepting, &self.settings, now)
    }
}

struct Candidate {
    handle: AssociationHandle,
    association: Association,
}

/// One rtc-sctp association.
pub struct RtcSctpPeer {
    endpoint: Rc<RefCell<Endpoint>>,
    epoch: Instant,
    send_buffer_bytes: usize,
    current: Option<Candidate>,
    /// The endpoint makes a new association for every INIT, so also for a duplicated or retransmitted one. The first that
    /// is established wins, and the others are dropped.
    rivals: Vec<Candidate>,
    packets: std::vec::IntoIter<Bytes>,
    /// The stream and mode last sent on: the reliability of a stream is set only when it changes.
    sending: Option<(u16, bool)>,
    reading: Option<u16>,
    /// The side that has begun a shutdown never reaches the closed state, so its end is read off the wire.
    shutdown_complete: bool,
    error: Option<String>,
}

impl RtcSctpPeer {
    fn new(endpoint: &Rc<RefCell<Endpoint>>, settings: &Settings, now: Duration) -> Self {
        RtcSctpPeer {
            endpoint: Rc::clone(endpoint),
            epoch: virtual_epoch(now),
            send_buffer_bytes: settings.send_buffer_bytes,
            current: None,
            rivals: Vec::new(),
            packets: Vec::new().into_iter(),
            sending: None,
            reading: None,
            shutdown_complete: false,
            error: None,
        }
    }

    /// Takes the events in until one says that a stream can be read.
    fn next_readable(&mut self) -> Option<u16> {
        let association = &mut self.current.as_mut()?.association;
        while let Some(event) = association.poll() {
            match event {
                Event::Stream(StreamEvent::Readable { id } | StreamEvent::Opened { id }) => return Some(id),
                // Also told after a graceful shutdown.
                Event::AssociationLost { reason: AssociationError::AssociationClosed, .. } => {}
                Event::AssociationLost { reason, .. } | Event::HandshakeFailed { reason } => {
                    self.error = Some(reason.to_string());
                }
                _ => {}
            }
        }
        None
    }

    fn settle_rivals(&mut self) {
        if self.rivals.is_empty() {
            return;
        }
        if self.current.as_ref().is_some_and(|current| current.association.is_handshaking())
            && let Some(index) = self.rivals.iter().position(|rival| !rival.association.is_handshaking())
        {
            let winner = self.rivals.swap_remove(index);
            self.rivals.extend(self.current.replace(winner));
        }
        if self.current.as_ref().is_some_and(|current| !current.association.is_handshaking()) {
            for rival in self.rivals.drain(..) {
                self.endpoint.borrow_mut().handle_event(rival.handle, EndpointEvent::drained());
            }
            self.rivals = Vec::new();
        }
    }
}

impl Peer for RtcSctpPeer {
    fn handle_packet(&mut self, now: Duration, packet: Bytes) {
        let routed = self.endpoint.borrow_mut().handle(self.epoch + now, ADDRESS, None, packet);
        match routed {
            Some((handle, DatagramEvent::AssociationEvent(event))) => {
                if let Some(known) =
                    self.current.iter_mut().chain(&mut self.rivals).find(|candidate| candidate.handle == handle)
                {
                    known.association.handle_event(event);
                }
                self.settle_rivals();
            }
            Some((handle, DatagramEvent::NewAssociation(association))) => {
                let candidate = Candidate { handle, association };
                if self.current.is_none() {
                    self.current = Some(candidate);
                } else {
                    self.rivals.push(candidate);
                    self.settle_rivals();
                }
            }
            _ => {}
        }
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
            let at = self.epoch + now;
            let transmit = self
                .current
                .iter_mut()
                .chain(&mut self.rivals)
                .find_map(|candidate| candidate.association.poll_transmit(at))?;
            if let Payload::RawEncode(packets) = transmit.message {
                self.packets = packets.into_iter();
            }
        }
    }

    fn deadline(&self) -> Option<Duration> {
        if self.shutdown_complete {
            return None;
        }
        self.current
            .iter()
            .chain(&self.rivals)
            .filter_map(|candidate| candidate.association.poll_timeout())
            .min()
            .map(|at| at.saturating_duration_since(self.epoch))
    }

    fn handle_timeout(&mut self, now: Duration) {
        let at = self.epoch + now;
        for candidate in self.current.iter_mut().chain(&mut self.rivals) {
            candidate.association.handle_timeout(at);
        }
    }

    fn send(&mut self, now: Duration, message: &Message) -> Result<(), SendError> {
        let refused = |error: &dyn std::fmt::Display| SendError::Refused(error.to_string());
        let Some(current) = self.current.as_mut() else {
            return Err(SendError::WouldBlock);
        };
        let ppid = PayloadProtocolIdentifier::from(message.ppid);
        if self.sending != Some((message.stream, message.unordered)) {
            // Fails when the peer has opened the stream first; then it exists, which is all that is needed.
            let _ = current.association.open_stream(message.stream, ppid);
            let mut stream = current.association.stream(message.stream).map_err(|error| refused(&error))?;
            stream
                .set_reliability_params(message.unordered, ReliabilityType::Reliable, 0)
                .map_err(|error| refused(&error))?;
            self.sending = Some((message.stream, message.unordered));
        }
        let mut stream = current.association.stream(message.stream).map_err(|error| refused(&error))?;
        if stream.buffered_amount().map_err(|error| refused(&error))? >= self.send_buffer_bytes {
            return Err(SendError::WouldBlock);
        }
        match stream.write_chunk_with_ppi(self.epoch + now, &message.payload, ppid) {
            Ok(_) => Ok(()),
            Err(error) => Err(refused(&error)),
        }
    }

    fn receive(&mut self, _now: Duration) -> Option<Message> {
        loop {
            let id = match self.reading {
                Some(id) => id,
                None => self.next_readable()?,
            };
            let mut stream = self.current.as_mut()?.association.stream(id).ok()?;
            let Ok(Some(chunks)) = stream.read_sctp() else {
                self.reading = None;
                continue;
            };
            self.reading = Some(id);
            let ppid = chunks.ppi as u32;
            // The fragments are private, so even a message of one fragment is copied once.
            let payload = chunks.to_payload(usize::MAX).ok()?.freeze();
            return Some(Message { stream: id, ppid, unordered: false, payload });
        }
    }

    fn shutdown(&mut self, _now: Duration) {
        if let Some(current) = self.current.as_mut()
            && let Err(error) = current.association.shutdown()
        {
            self.error = Some(error.to_string());
        }
    }

    fn abort(&mut self, _now: Duration) -> Result<(), AbortUnsupported> {
        if let Some(current) = self.current.as_mut()
            && let Err(error) = current.association.abort()
        {
            self.error = Some(error.to_string());
        }
        Ok(())
    }

    fn is_connected(&self) -> bool {
        self.current
            .as_ref()
            .is_some_and(|current| !current.association.is_handshaking() && !current.association.is_closed())
    }

    fn is_closed(&self) -> bool {
        // A server's association is in the closed state also before the handshake.
        self.shutdown_complete
            || self
                .current
                .as_ref()
                .is_some_and(|current| !current.association.is_handshaking() && current.association.is_closed())
    }

    fn error(&self) -> Option<String> {
        self.error.clone()
    }
}
