//! sctp-proto, the sans-IO SCTP of str0m.
//!
//! `PayloadQueue::push` (`queue/payload_queue.rs`) sorts the TSNs of all chunks in flight each time one is added, so the
//! cost of a message grows with the window.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::sctp_proto::{
    Association, AssociationError, AssociationHandle, ClientConfig, DatagramEvent, Endpoint, EndpointConfig, Event,
    Payload, PayloadProtocolIdentifier, ReliabilityType, ServerConfig, StreamEvent, TransportConfig,
};
use bytes::Bytes;

use super::{is_shutdown_complete, virtual_epoch};
use crate::peer::{AbortUnsupported, Message, Peer, SendError, Settings, Stack};

/// The endpoint tells associations apart by their tags alone, so one address serves for all.
const ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 5000));
/// Common header and DATA chunk header, in bytes.
const HEADER_BYTES: u32 = 12 + 16;

/// Factory of sctp-proto associations: one endpoint for those that connect, one for those that accept.
pub struct SctpProto {
    connecting: Rc<RefCell<Endpoint>>,
    accepting: Rc<RefCell<Endpoint>>,
    transport: Arc<TransportConfig>,
    settings: Settings,
}

impl Stack for SctpProto {
    type Peer = SctpProtoPeer;

    const NAME: &'static str = "sctp-proto 0.10.8";
    const ANSWERS_STRAYS: bool = false;
    // `shutdown` looks only at what is in flight, not at what is still queued.
    const SHUTDOWN_DRAINS: bool = false;
    const CAN_ABORT: bool = false;

    fn new(settings: &Settings) -> Self {
        let transport = || {
            let limits = TransportConfig::default()
                .with_max_receive_buffer_size(settings.receive_window_bytes)
                .with_max_send_message_size(settings.message_bytes_max)
                .with_max_receive_message_size(settings.message_bytes_max);
            if settings.persistent { limits.with_max_init_retransmits(None) } else { limits }
        };
        let mut config = EndpointConfig::new();
        // A multiple of four, so that the padding stays inside the packet.
        config.max_payload_size((settings.packet_bytes_max - HEADER_BYTES) & !3);
        let config = Arc::new(config);
        let mut server = ServerConfig::new();
        server.transport = Arc::new(transport());
        let server = Arc::new(server);
        let endpoint = |server| Rc::new(RefCell::new(Endpoint::new(Arc::clone(&config), server)));
        SctpProto {
            connecting: endpoint(None),
            accepting: endpoint(Some(server)),
            transport: Arc::new(transport()),
            settings: settings.clone(),
        }
    }

    fn client(&mut self, now: Duration) -> SctpProtoPeer {
        let mut peer = SctpProtoPeer::new(&self.connecting, &self.settings, now);
        let mut config = ClientConfig::new();
        config.transport = Arc::clone(&self.transport);
        let connected = self.connecting.borrow_mut().connect(config, ADDRESS);
        match connected {
            Ok(association) => peer.current = Some(association),
            Err(error) => peer.error = Some(error.to_string()),
        }
        peer
    }

    fn server(&mut self, now: Duration) -> SctpProtoPeer {
        SctpProtoPeer::new(&self.accepting, &self.settings, now)
    }
}

/// One sctp-proto association.
pub struct SctpProtoPeer {
    endpoint: Rc<RefCell<Endpoint>>,
    epoch: Instant,
    send_buffer_bytes: usize,
    current: Option<(AssociationHandle, Association)>,
    packets: std::vec::IntoIter<Bytes>,
    /// The stream and mode last sent on: the reliability of a stream is set only when it changes.
    sending: Option<(u16, bool)>,
    reading: Option<u16>,
    /// The side that has begun a shutdown never reaches the closed state, so its end is read off the wire.
    shutdown_complete: bool,
    error: Option<String>,
}

impl SctpProtoPeer {
    fn new(endpoint: &Rc<RefCell<Endpoint>>, settings: &Settings, now: Duration) -> Self {
        SctpProtoPeer {
            endpoint: Rc::clone(endpoint),
            epoch: virtual_epoch(now),
            send_buffer_bytes: settings.send_buffer_bytes,
            current: None,
            packets: Vec::new().into_iter(),
            sending: None,
            reading: None,
            shutdown_complete: false,
            error: None,
        }
    }

    /// Takes the events in until one says that a stream can be read.
    fn next_readable(&mut self) -> Option<u16> {
        let (_, association) = self.current.as_mut()?;
        while let Some(event) = association.poll() {
            match event {
                Event::Stream(StreamEvent::Readable { id } | StreamEvent::Opened { id }) => return Some(id),
                // Also told after a graceful shutdown.
                Event::AssociationLost { reason: AssociationError::AssociationClosed } => {}
                Event::AssociationLost { reason } | Event::HandshakeFailed { reason } => {
                    self.error = Some(reason.to_string());
                }
                _ => {}
            }
        }
        None
    }
}

impl Peer for SctpProtoPeer {
    fn handle_packet(&mut self, now: Duration, packet: Bytes) {
        let routed = self.endpoint.borrow_mut().handle(self.epoch + now, ADDRESS, None, None, packet);
        match routed {
            Some((handle, DatagramEvent::AssociationEvent(event))) => {
                if let Some((known, association)) = self.current.as_mut()
                    && *known == handle
                {
                    association.handle_event(event);
                }
            }
            Some((handle, DatagramEvent::NewAssociation(association))) if self.current.is_none() => {
                self.current = Some((handle, association));
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
            let (_, association) = self.current.as_mut()?;
            if let Payload::RawEncode(packets) = association.poll_transmit(self.epoch + now)?.payload {
                self.packets = packets.into_iter();
            }
        }
    }

    fn deadline(&self) -> Option<Duration> {
        if self.shutdown_complete {
            return None;
        }
        let (_, association) = self.current.as_ref()?;
        association.poll_timeout().map(|at| at.saturating_duration_since(self.epoch))
    }

    fn handle_timeout(&mut self, now: Duration) {
        if let Some((_, association)) = self.current.as_mut() {
            association.handle_timeout(self.epoch + now);
        }
    }

    fn send(&mut self, _now: Duration, message: &Message) -> Result<(), SendError> {
        let refused = |error: &dyn std::fmt::Display| SendError::Refused(error.to_string());
        let Some((_, association)) = self.current.as_mut() else {
            return Err(SendError::WouldBlock);
        };
        if self.sending != Some((message.stream, message.unordered)) {
            let ppid = PayloadProtocolIdentifier::from(message.ppid);
            // Fails when the peer has opened the stream first; then it exists, which is all that is needed.
            let _ = association.open_stream(message.stream, ppid);
            let mut stream = association.stream(message.stream).map_err(|error| refused(&error))?;
            stream.set_default_payload_type(ppid).map_err(|error| refused(&error))?;
            stream
                .set_reliability_params(message.unordered, ReliabilityType::Reliable, 0)
                .map_err(|error| refused(&error))?;
            self.sending = Some((message.stream, message.unordered));
        }
        let mut stream = association.stream(message.stream).map_err(|error| refused(&error))?;
        if stream.buffered_amount().map_err(|error| refused(&error))? >= self.send_buffer_bytes {
            return Err(SendError::WouldBlock);
        }
        // The only call that does not copy the message.
        match stream.write_chunks(&mut [message.payload.clone()]) {
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
            let mut stream = self.current.as_mut()?.1.stream(id).ok()?;
            let Ok(Some(mut chunks)) = stream.read_sctp() else {
                self.reading = None;
                continue;
            };
            self.reading = Some(id);
            let ppid = chunks.ppi as u32;
            // The fragments are private, so even a message of one fragment is copied once.
            let payload = chunks.next(chunks.len())?.bytes;
            return Some(Message { stream: id, ppid, unordered: false, payload });
        }
    }

    fn shutdown(&mut self, _now: Duration) {
        if let Some((_, association)) = self.current.as_mut()
            && let Err(error) = association.shutdown()
        {
            self.error = Some(error.to_string());
        }
    }

    fn abort(&mut self, _now: Duration) -> Result<(), AbortUnsupported> {
        Err(AbortUnsupported)
    }

    fn is_connected(&self) -> bool {
        self.current.as_ref().is_some_and(|(_, association)| !association.is_handshaking() && !association.is_closed())
    }

    fn is_closed(&self) -> bool {
        // A server's association is in the closed state also before the handshake.
        self.shutdown_complete
            || self
                .current
                .as_ref()
                .is_some_and(|(_, association)| !association.is_handshaking() && association.is_closed())
    }

    fn error(&self) -> Option<String> {
        self.error.clone()
    }
}
