//! ENet, the reliable protocol of many games, in the Rust edition of the crate `rusty_enet`.
//!
//! It reports no deadline: a driver calls its `service` repeatedly, and for each received packet.

use std::cell::Cell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use rusty_enet::{Event, Host, HostSettings, MTU_MAX, Packet, PacketReceived, PeerID, Socket};

use crate::peer::{AbortUnsupported, Message, Peer, SendError};

/// ENet takes a time of zero for no time.
const START: Duration = Duration::from_secs(1);
/// The channel that carries the messages.
const CHANNEL: u8 = 0;

/// Settings of ENet, and how the driver calls it.
#[derive(Clone, Copy, Debug)]
pub struct EnetSettings {
    /// Time between two calls of `service` when nothing comes.
    pub service_interval: Duration,
    /// Flushes as soon as the application writes, and not at the next call of `service`.
    pub flushes_at_once: bool,
    /// Neither pings while there is nothing to send, nor gives up within half a minute without an answer.
    pub is_patient: bool,
}

impl EnetSettings {
    /// A client that connects, and its server. The seed determines the stack's random numbers.
    ///
    /// # Panics
    /// If the hosts cannot be created, which is a fault of this file.
    #[must_use]
    pub fn pair(&self, seed: u64) -> [EnetPeer; 2] {
        let mut client = EnetPeer::new(*self, seed);
        client.host.connect((), 1, 0).expect("the one peer is free");
        client.service();
        [client, EnetPeer::new(*self, !seed)]
    }
}

/// What ENet takes for a socket.
#[derive(Debug, Default)]
struct Queues {
    incoming: VecDeque<Bytes>,
    outgoing: VecDeque<Bytes>,
}

impl Socket for Queues {
    type Address = ();
    type Error = Infallible;

    fn send(&mut self, _address: (), packet: &[u8]) -> Result<usize, Infallible> {
        self.outgoing.push_back(Bytes::copy_from_slice(packet));
        Ok(packet.len())
    }

    fn receive(&mut self, buffer: &mut [u8; MTU_MAX]) -> Result<Option<((), PacketReceived)>, Infallible> {
        let Some(packet) = self.incoming.pop_front() else { return Ok(None) };
        let Some(room) = buffer.get_mut(..packet.len()) else { return Ok(None) };
        room.copy_from_slice(&packet);
        Ok(Some(((), PacketReceived::Complete(packet.len()))))
    }
}

/// An ENet host with its one peer.
pub struct EnetPeer {
    host: Host<Queues>,
    settings: EnetSettings,
    clock: Rc<Cell<Duration>>,
    next_service: Duration,
    received: VecDeque<Bytes>,
    is_connected: bool,
    has_ended: bool,
}

impl EnetPeer {
    fn new(settings: EnetSettings, seed: u64) -> Self {
        let clock = Rc::new(Cell::new(START));
        let time = Rc::clone(&clock);
        let settings_of_host = HostSettings {
            peer_limit: 1,
            channel_limit: 1,
            time: Box::new(move || time.get()),
            // The upper half is left out: any seed will do.
            seed: u32::try_from(seed & u64::from(u32::MAX)).ok(),
            ..HostSettings::default()
        };
        EnetPeer {
            host: Host::new(Queues::default(), settings_of_host).expect("the limits are sound"),
            settings,
            clock,
            next_service: settings.service_interval,
            received: VecDeque::new(),
            is_connected: false,
            has_ended: false,
        }
    }

    fn advance(&self, now: Duration) {
        self.clock.set(START + now);
    }

    fn service(&mut self) {
        let Ok(mut event) = self.host.service();
        while let Some(happened) = event {
            match happened {
                Event::Connect { peer, .. } => {
                    self.is_connected = true;
                    if self.settings.is_patient {
                        peer.set_ping_interval(u32::MAX >> 1);
                        peer.set_timeout(u32::MAX >> 1, 0, u32::MAX >> 1);
                    }
                }
                Event::Disconnect { .. } => self.has_ended = true,
                Event::Receive { packet, .. } => self.received.push_back(Bytes::copy_from_slice(packet.data())),
            }
            let Ok(next) = self.host.service();
            event = next;
        }
    }
}

impl Peer for EnetPeer {
    fn handle_packet(&mut self, now: Duration, packet: Bytes) {
        self.advance(now);
        self.host.socket_mut().incoming.push_back(packet);
        self.service();
    }

    fn poll_packet(&mut self, _now: Duration) -> Option<Bytes> {
        self.host.socket_mut().outgoing.pop_front()
    }

    fn deadline(&self) -> Option<Duration> {
        Some(self.next_service)
    }

    fn handle_timeout(&mut self, now: Duration) {
        self.advance(now);
        self.service();
        self.next_service = now + self.settings.service_interval;
    }

    fn send(&mut self, now: Duration, message: &Message) -> Result<(), SendError> {
        if !self.is_connected {
            return Err(SendError::WouldBlock);
        }
        self.advance(now);
        let packet = Packet::reliable(&message.payload[..]);
        let sent = self.host.peer_mut(PeerID(0)).send(CHANNEL, &packet);
        sent.map_err(|error| SendError::Refused(format!("{error:?}")))?;
        if self.settings.flushes_at_once {
            self.host.flush();
        }
        Ok(())
    }

    fn receive(&mut self, _now: Duration) -> Option<Message> {
        let payload = self.received.pop_front()?;
        Some(Message { stream: 0, ppid: 53, unordered: false, payload })
    }

    fn shutdown(&mut self, now: Duration) {
        self.advance(now);
        self.host.peer_mut(PeerID(0)).disconnect_later(0);
    }

    fn abort(&mut self, _now: Duration) -> Result<(), AbortUnsupported> {
        Err(AbortUnsupported)
    }

    fn is_connected(&self) -> bool {
        self.is_connected && !self.has_ended
    }

    fn is_closed(&self) -> bool {
        self.has_ended
    }

    fn error(&self) -> Option<String> {
        self.has_ended.then(|| "the other side was given up".to_owned())
    }
}
