//! Festina's core over its protected channel: TLS 1.3 by rustls and ring, whose handshake carries the INITs.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use festina_sctp::{
    ClosedReason, Config, Context, Event, Message as Outgoing, Ports, SendError as Refusal, SendErrorKind,
};
use festina_secure::{Connect, HalfOpenLimits, Incoming, Listener, OVERHEAD_BYTES, SecureAssociation};
use festina_units::{EcnCodepoint, Instant};
use rustls::pki_types::ServerName;

use super::quic::{SERVER_NAME, credentials, meet};
use crate::peer::{AbortUnsupported, Message, Peer, SendError};

/// Where the other endpoint seems to be; there is no network here.
const ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9899));
const PORTS: Ports = Ports { local: 5_000, peer: 5_000 };

/// Makes pairs of a client and a server that know each other by a fresh certificate, of the type that the QUIC stacks have here.
#[derive(Debug)]
pub struct SecureFestina {
    context: Arc<Context>,
    client: Arc<rustls::ClientConfig>,
    listener: Rc<RefCell<Listener>>,
    resumes: bool,
}

impl SecureFestina {
    /// A factory with the default settings. With `resumes`, each client has been connected before, and sends its first message as an early one.
    #[must_use]
    pub fn new(resumes: bool) -> Self {
        let mut config = Config::default();
        config.limits.packet_bytes_max -= OVERHEAD_BYTES;
        let context = Context::new(config, [0x46; 16]).expect("the default settings are in range");
        let (client, server) = credentials(resumes);
        // All connections begin in the same virtual second. With limits, those from the 257th on would have to prove their address.
        let listener = Listener::new(&context, Arc::new(server), [0x53; 32], HalfOpenLimits::UNLIMITED);
        let listener = Rc::new(RefCell::new(listener.expect("the settings are those of TLS 1.3")));
        Self { context, client: Arc::new(client), listener, resumes }
    }

    /// A client that connects, and its server.
    pub fn pair(&self, seed: u64) -> [Box<dyn Peer>; 2] {
        if self.resumes {
            meet(self.ends(!seed));
        }
        self.ends(seed).map(|end| Box::new(end) as Box<dyn Peer>)
    }

    fn ends(&self, seed: u64) -> [SecurePeer; 2] {
        let mut random = [0; 16];
        random[..8].copy_from_slice(&seed.to_be_bytes());
        random[8..].copy_from_slice(&(!seed).to_le_bytes());
        let request = Connect {
            tls: &self.client,
            resumption: None,
            server_name: ServerName::try_from(SERVER_NAME).expect("it is a host name"),
            remote: ADDRESS,
            ports: PORTS,
            token: &[],
            random,
            known: None,
        };
        let client = SecureAssociation::connect(Instant::ZERO, &self.context, request);
        let client = Box::new(client.expect("the settings are those of TLS 1.3"));
        [Some(client), None].map(|association| SecurePeer {
            listener: Rc::clone(&self.listener),
            association,
            replies: VecDeque::new(),
            failure: None,
        })
    }
}

/// One end of an encrypted association.
pub struct SecurePeer {
    listener: Rc<RefCell<Listener>>,
    association: Option<Box<SecureAssociation>>,
    /// Answers of the listener.
    replies: VecDeque<Bytes>,
    failure: Option<String>,
}

impl SecurePeer {
    fn association(&mut self) -> Option<&mut SecureAssociation> {
        self.association.as_deref_mut()
    }

    /// Admits a client whose hello is complete, and takes the events.
    fn attend(&mut self, now: Duration) {
        let Some(association) = self.association.as_deref_mut() else { return };
        if association.hello().is_some() {
            association.admit(Instant::ZERO + now);
        }
        let events = std::iter::from_fn(|| association.poll_event());
        let reasons = events.filter_map(|event| match event {
            Event::Closed(ClosedReason::Shutdown) => None,
            Event::Closed(reason) => Some(reason.to_string()),
            _ => None,
        });
        if let Some(reason) = reasons.last() {
            let handshake = association.failure().map(ToString::to_string);
            self.failure = Some(handshake.unwrap_or(reason));
        }
    }
}

impl Peer for SecurePeer {
    fn handle_packet(&mut self, now: Duration, packet: Bytes) {
        // The simulation keeps no other handle of it.
        let packet = packet.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        let at = Instant::ZERO + now;
        match &mut self.association {
            Some(association) => {
                // The core and the channel count dropped packets themselves.
                let _ = association.handle_datagram(at, ADDRESS, EcnCodepoint::NotCapable, packet);
            }
            None => {
                let mut reply = Vec::new();
                match self.listener.borrow_mut().handle_datagram(at, ADDRESS, packet, 0, &mut reply) {
                    Incoming::Reply => self.replies.push_back(Bytes::from(reply)),
                    Incoming::HalfOpen(association) => self.association = Some(association),
                    _ => {}
                }
            }
        }
        self.attend(now);
    }

    fn poll_packet(&mut self, now: Duration) -> Option<Bytes> {
        if let Some(reply) = self.replies.pop_front() {
            return Some(reply);
        }
        let mut packet = Vec::new();
        let written = self.association()?.poll_transmit(Instant::ZERO + now, &mut packet);
        self.attend(now);
        written.map(|_| Bytes::from(packet))
    }

    fn deadline(&self) -> Option<Duration> {
        Some(self.association.as_deref()?.poll_deadline()? - Instant::ZERO)
    }

    fn handle_timeout(&mut self, now: Duration) {
        if let Some(association) = self.association() {
            association.handle_timeout(Instant::ZERO + now);
        }
        self.attend(now);
    }

    fn send(&mut self, now: Duration, message: &Message) -> Result<(), SendError> {
        let association = self.association().ok_or(SendError::WouldBlock)?;
        let outgoing = Outgoing::new(message.payload.clone()).on_stream(message.stream).with_ppid(message.ppid);
        let outgoing = outgoing.unordered_if(message.unordered);
        let Err(outgoing) = association.send_early(outgoing) else { return Ok(()) };
        match association.send(Instant::ZERO + now, outgoing) {
            Ok(_) => Ok(()),
            Err(Refusal { kind: SendErrorKind::BufferFull, .. }) => Err(SendError::WouldBlock),
            Err(refusal) => Err(SendError::Refused(refusal.to_string())),
        }
    }

    fn receive(&mut self, _now: Duration) -> Option<Message> {
        let association = self.association()?;
        if let Some(early) = association.poll_early() {
            return Some(Message {
                stream: early.stream().0,
                ppid: early.ppid(),
                unordered: early.is_unordered(),
                payload: early.into_payload(),
            });
        }
        let message = association.poll_message()?;
        Some(Message {
            stream: message.stream().0,
            ppid: message.ppid(),
            unordered: message.is_unordered(),
            payload: message.into_payload(),
        })
    }

    fn shutdown(&mut self, now: Duration) {
        if let Some(association) = self.association() {
            association.shutdown(Instant::ZERO + now);
        }
    }

    fn abort(&mut self, _now: Duration) -> Result<(), AbortUnsupported> {
        if let Some(association) = self.association() {
            association.abort(b"asked to");
        }
        Ok(())
    }

    fn is_connected(&self) -> bool {
        self.association.as_deref().is_some_and(SecureAssociation::is_established)
    }

    fn is_closed(&self) -> bool {
        let core = self.association.as_deref().and_then(SecureAssociation::association);
        self.failure.is_some() || core.is_some_and(festina_sctp::Association::is_closed)
    }

    fn error(&self) -> Option<String> {
        self.failure.clone()
    }
}
