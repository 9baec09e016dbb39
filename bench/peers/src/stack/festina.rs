//! Festina's own core.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use festina_sctp::{
    Association, AssociationState, ClosedReason, Config, Context, Direction, Event, Incoming, Listener,
    Message as Outgoing, Ports, SendError as Refusal, SendErrorKind, Stats, StreamId,
};
use festina_units::{EcnCodepoint, Instant};

use crate::peer::{AbortUnsupported, InReturn, Message, PartiallyReliable, Peer, Policy, SendError, Settings, Stack};

/// Where the other endpoint seems to be; there is no network here.
const ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9899));
/// The port that WebRTC stacks have fixed.
const PORTS: Ports = Ports { local: 5000, peer: 5000 };
/// This many packets are written one behind the other into one buffer, as a driver does for segmentation offload.
const PACKETS_PER_BUFFER: usize = 9;
/// Cause codes of an ABORT that the application asked for (RFC 9260 section 3.3.10.12), and of the one without cause that answers
/// a stray packet and may overtake it (section 8.4).
const CAUSES_OF_ABORT: [u16; 2] = [12, 0];
/// Limit on a handshake or a graceful end, for associations that must survive any loss.
const PATIENCE: Duration = Duration::from_secs(24 * 3_600);

/// Factory of Festina associations.
pub struct Festina {
    context: Arc<Context>,
    listener: Arc<Listener>,
    buffers: Rc<RefCell<Buffers>>,
    associations: u64,
}

impl Stack for Festina {
    type Peer = FestinaPeer;

    const NAME: &'static str = "festina";
    const ANSWERS_STRAYS: bool = true;
    const LATE_ABORT_IS_ERROR: bool = false;
    const SHUTDOWN_DRAINS: bool = true;
    const CAN_ABORT: bool = true;

    fn new(settings: &Settings) -> Self {
        Festina::with_config(Festina::config(settings))
    }

    fn client(&mut self, now: Duration) -> FestinaPeer {
        self.associations += 1;
        let association = Association::connect(Instant::ZERO + now, &self.context, ADDRESS, PORTS, self.associations);
        self.peer(Some(Box::new(association)))
    }

    fn server(&mut self, _now: Duration) -> FestinaPeer {
        self.peer(None)
    }
}

impl Festina {
    fn peer(&self, association: Option<Box<Association>>) -> FestinaPeer {
        FestinaPeer {
            listener: Arc::clone(&self.listener),
            buffers: Rc::clone(&self.buffers),
            association,
            replies: Vec::new(),
            written: Written::default(),
            failure: None,
            resets: [0; 2],
        }
    }
}

impl Festina {
    /// What these limits are in Festina's own terms.
    #[must_use]
    pub fn config(settings: &Settings) -> Config {
        let mut config = Config::default();
        config.limits.packet_bytes_max = settings.packet_bytes_max as usize;
        config.limits.message_bytes_max = settings.message_bytes_max as usize;
        config.limits.receive_buffer_bytes = settings.receive_window_bytes as usize;
        config.limits.send_buffer_bytes = settings.send_buffer_bytes;
        config.limits.send_low_water_bytes = settings.send_buffer_bytes / 2;
        if settings.persistent {
            config.retries.init_max = u32::MAX;
            config.retries.association_max = u32::MAX;
            config.timers.cookie_lifetime = PATIENCE;
            config.timers.shutdown_guard = Some(PATIENCE);
            config.timers.shutdown_stall = PATIENCE;
            config.peer_timeout = None;
        }
        config
    }

    /// A factory whose associations use `config`.
    ///
    /// # Panics
    /// If a setting lies outside of Festina's limits.
    #[must_use]
    pub fn with_config(config: Config) -> Self {
        let packet_bytes_max = config.limits.packet_bytes_max;
        let context = Context::new(config, [0x46; 16]).expect("the settings lie within Festina's limits");
        let mut listener = Listener::new(&context);
        listener.listen(PORTS.local);
        let buffers = Buffers::new(PACKETS_PER_BUFFER * packet_bytes_max);
        Festina { context, listener: Arc::new(listener), buffers: Rc::new(RefCell::new(buffers)), associations: 0 }
    }
}

/// How an association ended other than gracefully, in words.
enum Failure {
    /// By an ABORT that one of the applications asked for.
    Abort(Box<str>),
    Other(Box<str>),
}

impl Failure {
    fn of(reason: &ClosedReason) -> Self {
        let text = reason.to_string().into();
        match reason {
            ClosedReason::AbortedLocally => Failure::Abort(text),
            ClosedReason::AbortedByPeer { code, .. } if CAUSES_OF_ABORT.contains(code) => Failure::Abort(text),
            _ => Failure::Other(text),
        }
    }
}

/// One Festina association with the listener that it may come from.
pub struct FestinaPeer {
    listener: Arc<Listener>,
    buffers: Rc<RefCell<Buffers>>,
    association: Option<Box<Association>>,
    /// Answers of the listener.
    replies: Vec<Bytes>,
    written: Written,
    failure: Option<Failure>,
    /// Outbound and inbound streams that were reset.
    resets: [u64; 2],
}

/// Packets that wait to be polled.
#[derive(Default)]
struct Written {
    /// One behind the other, without those that have been polled.
    packets: Bytes,
    /// Their lengths in bytes, those that have been polled included.
    lengths: [u16; PACKETS_PER_BUFFER],
    count: u8,
    polled: u8,
}

impl Written {
    fn pop(&mut self) -> Option<Bytes> {
        if self.polled == self.count {
            return None;
        }
        let length = self.lengths[usize::from(self.polled)];
        self.polled += 1;
        // Hand out the rest whole: an empty remainder would keep the buffer from being reused.
        if self.polled == self.count {
            return Some(std::mem::take(&mut self.packets));
        }
        Some(self.packets.split_to(length.into()))
    }

    /// Writes the next packets once all have been polled.
    fn refill(&mut self, now: Instant, association: &mut Association, buffers: &mut Buffers) {
        (self.count, self.polled) = (0, 0);
        for length in &mut self.lengths {
            let Some(transmit) = association.poll_transmit(now, &mut buffers.empty) else { break };
            *length = u16::try_from(transmit.len).expect("no packet is longer than 65,480 bytes");
            self.count += 1;
        }
        if self.count > 0 {
            self.packets = buffers.freeze();
        }
    }
}

/// The buffers of an endpoint. A wire keeps packets, so that one is not enough; each is used again once all of its packets are gone,
/// as a driver's is.
struct Buffers {
    /// The next packets are written into this one.
    empty: Vec<u8>,
    /// The others, the oldest first: slices without bytes, which keep their buffers.
    used: VecDeque<Bytes>,
    capacity: usize,
}

impl Buffers {
    fn new(capacity: usize) -> Self {
        Buffers { empty: Vec::with_capacity(capacity), used: VecDeque::new(), capacity }
    }

    /// Returns the written bytes and takes the next buffer.
    fn freeze(&mut self) -> Bytes {
        let next = match self.used.pop_front() {
            Some(used) if used.is_unique() => Vec::from(used),
            _ => Vec::with_capacity(self.capacity),
        };
        let written = Bytes::from(std::mem::replace(&mut self.empty, next));
        let mut kept = written.clone();
        kept.truncate(0);
        self.used.push_back(kept);
        written
    }
}

impl FestinaPeer {
    /// The core's counters, once there is an association.
    #[must_use]
    pub fn stats(&self) -> Option<Stats> {
        self.association.as_deref().map(Association::stats)
    }

    /// Returns how many outbound and inbound streams were reset.
    #[must_use]
    pub fn resets(&self) -> [u64; 2] {
        self.resets
    }

    /// Gives a packet that belongs to no association to the listener.
    fn handle_stray(&mut self, now: Duration, packet: &Bytes) {
        let own_tag =
            self.association.as_ref().filter(|association| !association.is_closed()).map(|own| own.local_tag());
        let mut reply = Vec::new();
        match self.listener.handle_packet(Instant::ZERO + now, ADDRESS, packet, &|tag| Some(tag) == own_tag, &mut reply)
        {
            Incoming::Reply => self.replies.push(Bytes::from(reply)),
            Incoming::Accepted(association) if self.association.is_none() => self.association = Some(association),
            _ => {}
        }
    }

    /// What went wrong first counts.
    fn failed(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    fn fill_packets(&mut self, now: Duration) {
        let Some(association) = self.association.as_deref_mut() else { return };
        self.written.refill(Instant::ZERO + now, association, &mut self.buffers.borrow_mut());
        while let Some(event) = self.association.as_deref_mut().and_then(Association::poll_event) {
            match event {
                Event::Closed(ClosedReason::Shutdown) => {}
                Event::Closed(reason) => self.failed(Failure::of(&reason)),
                Event::PeerRestarted => self.failed(Failure::Other("the peer restarted".into())),
                Event::StreamsReset { direction, streams } => {
                    self.resets[usize::from(direction == Direction::Inbound)] += streams.len() as u64;
                }
                Event::StreamRequestFailed { request, result } => {
                    self.failed(Failure::Other(format!("{request:?}: {result:?}").into()));
                }
                _ => {}
            }
        }
    }
}

impl Peer for FestinaPeer {
    fn handle_packet(&mut self, now: Duration, packet: Bytes) {
        match self.association.as_deref_mut() {
            Some(association) if !association.is_closed() => {
                // The association counts dropped packets itself.
                let _ = association.handle_packet(Instant::ZERO + now, ADDRESS, EcnCodepoint::NotCapable, &packet);
            }
            _ => self.handle_stray(now, &packet),
        }
    }

    fn poll_packet(&mut self, now: Duration) -> Option<Bytes> {
        if let Some(packet) = self.written.pop() {
            return Some(packet);
        }
        if let Some(reply) = self.replies.pop() {
            return Some(reply);
        }
        self.fill_packets(now);
        self.written.pop()
    }

    fn deadline(&self) -> Option<Duration> {
        let at = self.association.as_ref()?.poll_deadline()?;
        Some(at - Instant::ZERO)
    }

    fn handle_timeout(&mut self, now: Duration) {
        if let Some(association) = self.association.as_deref_mut() {
            association.handle_timeout(Instant::ZERO + now);
        }
    }

    fn send(&mut self, now: Duration, message: &Message) -> Result<(), SendError> {
        self.send_with(now, message, Policy::Reliable)
    }

    fn receive(&mut self, _now: Duration) -> Option<Message> {
        let message = self.association.as_deref_mut()?.poll_message()?;
        Some(Message {
            stream: message.stream().0,
            ppid: message.ppid(),
            unordered: message.is_unordered(),
            payload: message.into_payload(),
        })
    }

    fn shutdown(&mut self, now: Duration) {
        if let Some(association) = self.association.as_deref_mut() {
            association.shutdown(Instant::ZERO + now);
        }
    }

    fn abort(&mut self, _now: Duration) -> Result<(), AbortUnsupported> {
        if let Some(association) = self.association.as_deref_mut() {
            association.abort(b"asked to");
        }
        Ok(())
    }

    fn is_connected(&self) -> bool {
        self.association.as_ref().is_some_and(|association| association.state() == AssociationState::Established)
    }

    fn is_closed(&self) -> bool {
        self.association.as_ref().is_some_and(|association| association.is_closed())
    }

    fn error(&self) -> Option<String> {
        self.failure.as_ref().map(|(Failure::Abort(text) | Failure::Other(text))| text.to_string())
    }

    fn was_aborted(&self) -> Option<bool> {
        Some(matches!(self.failure, Some(Failure::Abort(_))))
    }
}

impl PartiallyReliable for FestinaPeer {
    const IN_RETURN: InReturn = InReturn::Nothing;
    const EXPIRES_BETWEEN_FRAGMENTS: bool = true;

    fn send_with(&mut self, now: Duration, message: &Message, policy: Policy) -> Result<(), SendError> {
        let Some(association) = self.association.as_deref_mut() else {
            return Err(SendError::WouldBlock);
        };
        let outgoing = Outgoing::new(message.payload.clone()).on_stream(message.stream).with_ppid(message.ppid);
        let outgoing = outgoing.unordered_if(message.unordered);
        let outgoing = match policy {
            Policy::Reliable => outgoing,
            Policy::Lifetime(lifetime) => outgoing.with_lifetime(lifetime),
            Policy::Retransmissions(count) => outgoing.with_max_retransmissions(count),
            Policy::Priority(priority) => outgoing.with_priority(priority),
            Policy::Replacing(key) => outgoing.replacing(key),
        };
        match association.send(Instant::ZERO + now, outgoing) {
            Ok(_) => Ok(()),
            Err(Refusal { kind: SendErrorKind::BufferFull, .. }) => Err(SendError::WouldBlock),
            Err(refusal) => Err(SendError::Refused(refusal.to_string())),
        }
    }

    fn reset(&mut self, now: Duration, streams: &[u16]) -> Result<(), String> {
        let association = self.association.as_deref_mut().ok_or("there is no association")?;
        let streams: Vec<_> = streams.iter().map(|&stream| StreamId(stream)).collect();
        association.reset_streams(Instant::ZERO + now, &streams).map_err(|error| error.to_string())
    }
}
