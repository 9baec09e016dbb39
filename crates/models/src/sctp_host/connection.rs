//! One association of a host with the application on top of it.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use festina_netsim::NodeId;
use festina_sctp::wire::{self, Chunk};
use festina_sctp::{
    Association, Context, Event, PathKnowledge, Ports, ProtocolEvent, RetransmissionCause, SendError, SendErrorKind,
    Stats, StreamId,
};
use festina_units::{Duration, EcnCodepoint, Instant};

use super::delivery::Deliveries;
use super::{COMPANION_STREAM, address};
use crate::packet::{Packet, Payload};
use crate::record::RttRecord;
use crate::record::log::{Log, Transmission, Written};
use crate::workload::{Source, Trigger};

/// PPID of the first message; later ones count up. No dissector takes these numbers for a known protocol.
const PPID_FIRST: u32 = 0x1000_0000;
/// The same for the second application; the two ranges do not overlap.
const COMPANION_PPID_FIRST: u32 = 0x2000_0000;

/// Priority or weight of the first application's stream if there is a second one, whose stream keeps the default. By
/// priority, the second application is sent first; by weight, both are equal.
const BEHIND_COMPANION: u16 = 1;

/// Messages received over an association.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Received {
    /// Whole messages.
    pub messages: u64,
    /// Their payload.
    pub bytes: u64,
}

/// An association, before and after its handshake begins, and its application.
#[derive(Debug)]
pub(super) struct Connection {
    peer: NodeId,
    ports: Ports,
    state: State,
    traffic: Option<Traffic>,
    pub(super) companion: Option<Companion>,
    pub(super) knows_from: Option<usize>,
    received: Received,
    /// Delivery times of the messages of the peer's second application.
    companion_delivered: Vec<Instant>,
    log: Option<Log>,
    /// TSN of the first DATA chunk sent.
    first_tsn: Option<u32>,
    packets_sent: u64,
    /// Reused for every packet.
    buffer: Vec<u8>,
    /// The reason for the contents of the packet that was just written.
    causes: Vec<(u32, RetransmissionCause)>,
    /// The deadline in the host's agenda.
    deadline: Option<Instant>,
}

#[derive(Debug)]
enum State {
    ToBegin { at: Instant },
    Begun(Box<Association>),
}

/// The application that writes.
#[derive(Debug)]
pub(super) struct Traffic {
    source: Source,
    /// The payload of the largest message.
    zeros: Bytes,
    deliveries: Deliveries,
    /// Due writes that were not handed over: they wait for more data, or for room. The rest of a partial write comes
    /// first.
    pending: VecDeque<Pending>,
    /// Number of these that need not wait for more data.
    released: usize,
    held: Held,
    messages_sent: u32,
}

/// The rest of a write.
#[derive(Debug, Clone, Copy)]
struct Pending {
    due_at: Instant,
    bytes: u64,
    /// Lifetime of the next message.
    lifetime: Option<Duration>,
}

/// The event for which the application waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    No,
    /// The send buffer is full.
    UntilWritable,
    /// The next transfer begins when this one is acknowledged.
    UntilDrained,
}

impl Connection {
    pub(super) fn to_begin(peer: NodeId, ports: Ports, at: Instant, traffic: Traffic, is_logging: bool) -> Self {
        Self::new(peer, ports, State::ToBegin { at }, Some(traffic), is_logging)
    }

    pub(super) fn accepted(peer: NodeId, association: Box<Association>, is_logging: bool) -> Self {
        Self::new(peer, association.ports(), State::Begun(association), None, is_logging)
    }

    fn new(peer: NodeId, ports: Ports, state: State, traffic: Option<Traffic>, is_logging: bool) -> Self {
        Self {
            peer,
            ports,
            state,
            traffic,
            companion: None,
            knows_from: None,
            received: Received::default(),
            companion_delivered: Vec::new(),
            log: is_logging.then(Log::default),
            first_tsn: None,
            packets_sent: 0,
            buffer: Vec::new(),
            causes: Vec::new(),
            deadline: None,
        }
    }

    pub(super) fn peer(&self) -> NodeId {
        self.peer
    }

    pub(super) fn ports(&self) -> Ports {
        self.ports
    }

    pub(super) fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    pub(super) fn received(&self) -> Received {
        self.received
    }

    pub(super) fn companion_delivered(&self) -> &[Instant] {
        &self.companion_delivered
    }

    pub(super) fn sends(&self) -> bool {
        self.traffic.is_some()
    }

    pub(super) fn stats(&self) -> Option<Stats> {
        self.association().map(Association::stats)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.association().is_some_and(Association::is_closed)
    }

    pub(super) fn path_knowledge(&self, now: Instant) -> Option<PathKnowledge> {
        self.association()?.path_knowledge(now)
    }

    fn association(&self) -> Option<&Association> {
        match &self.state {
            State::ToBegin { .. } => None,
            State::Begun(association) => Some(association),
        }
    }

    /// Processes a packet. One that the core refuses as damaged does not count as received.
    pub(super) fn handle_packet(&mut self, now: Instant, serial: Option<u64>, ecn: EcnCodepoint, bytes: &Bytes) {
        let State::Begun(association) = &mut self.state else { return };
        if association.handle_packet(now, address(self.peer), ecn, bytes).is_ok()
            && let Some(serial) = serial
        {
            self.note_arrival(now, serial);
        }
        self.digest(now);
    }

    pub(super) fn note_arrival(&mut self, now: Instant, serial: u64) {
        if let Some(log) = &mut self.log {
            log.arrived(now, serial);
        }
    }

    /// Performs the due work, now that the host has taken the deadline off its agenda. Returns the local tag if the
    /// association starts only now. A new association takes over the path state in `known`.
    pub(super) fn handle_timeout(
        &mut self,
        now: Instant,
        context: &Arc<Context>,
        index: usize,
        known: Option<&PathKnowledge>,
    ) -> Option<u32> {
        self.deadline = None;
        let mut begun = None;
        match &mut self.state {
            State::ToBegin { at } if *at <= now => {
                let remote = address(self.peer);
                let mut association =
                    Association::connect_knowing(now, context, remote, self.ports, index as u64, known);
                if self.companion.is_some() {
                    association.set_stream_value(StreamId(0), BEHIND_COMPANION);
                }
                begun = Some(association.local_tag());
                self.state = State::Begun(Box::new(association));
            }
            State::ToBegin { .. } => {}
            State::Begun(association) => association.handle_timeout(now),
        }
        self.digest(now);
        begun
    }

    /// Processes the core's events, and lets the application react.
    pub(super) fn digest(&mut self, now: Instant) {
        let State::Begun(association) = &mut self.state else { return };
        while let Some(event) = association.poll_event() {
            match event {
                Event::Protocol(ProtocolEvent::Retransmitted { tsn, cause, .. }) => self.causes.push((tsn, cause)),
                Event::Protocol(ProtocolEvent::RoundTripMeasured { at, rtt, srtt, rto, .. }) => {
                    if let Some(log) = &mut self.log {
                        log.round_trips.push(RttRecord { at, sample: rtt, srtt, rto });
                    }
                }
                event => {
                    let second = self.companion.as_mut().map(|companion| &mut companion.traffic);
                    self.traffic.iter_mut().chain(second).for_each(|traffic| traffic.note(&event));
                }
            }
        }
        while let Some(message) = association.poll_message() {
            self.received.messages += 1;
            self.received.bytes += message.payload().len() as u64;
            if message.stream().0 == COMPANION_STREAM {
                self.companion_delivered.push(now);
            } else if let Some(log) = &mut self.log {
                log.delivered(now, message.ppid().wrapping_sub(PPID_FIRST));
            }
        }
        if let Some(companion) = &mut self.companion {
            companion.write_due(now, association);
        }
        if let Some(traffic) = &mut self.traffic {
            let log = &mut self.log;
            traffic.write_due(now, association, PPID_FIRST, 0, |written| {
                if let Some(log) = log {
                    log.written.push(written);
                }
            });
        }
    }

    pub(super) fn poll_transmit(&mut self, now: Instant, node: NodeId) -> Option<Packet> {
        self.buffer.clear();
        let State::Begun(association) = &mut self.state else { return None };
        let transmit = association.poll_transmit(now, &mut self.buffer)?;
        let serial = self.packets_sent;
        self.packets_sent += 1;
        self.causes.clear();
        self.digest(now);
        self.note_departure(now, serial);
        if let Some(companion) = &mut self.companion {
            companion.note_departure(now, &self.buffer);
        }
        Some(Packet {
            source: node,
            destination: self.peer,
            flow: u64::from(node.0) << 32 | u64::from(self.ports.local) << 16 | u64::from(self.ports.peer),
            serial,
            ecn: transmit.ecn,
            payload: Payload::Sctp(Bytes::copy_from_slice(&self.buffer)),
        })
    }

    /// Notes the DATA chunks of the packet in the buffer.
    fn note_departure(&mut self, now: Instant, serial: u64) {
        let Some(log) = &mut self.log else { return };
        log.departed(now, serial);
        let packet = wire::Packet::parse_unverified(&self.buffer).expect("the core writes whole headers");
        for chunk in packet.chunks() {
            let Ok(Chunk::Data(data)) = chunk else { continue };
            let tsn = data.tsn.0;
            log.transmissions.push(Transmission {
                chunk: tsn.wrapping_sub(*self.first_tsn.get_or_insert(tsn)),
                sequence: data.ppid.wrapping_sub(PPID_FIRST),
                at: now,
                serial,
                cause: self.causes.iter().find(|(resent, _)| *resent == tsn).map(|&(_, cause)| cause),
            });
        }
    }

    /// Returns the deadline in the host's agenda and the new one.
    pub(super) fn move_deadline(&mut self) -> (Option<Instant>, Option<Instant>) {
        let new = match &self.state {
            State::ToBegin { at } => Some(*at),
            State::Begun(association) => {
                let second = self.companion.as_ref().and_then(|companion| companion.traffic.next_at());
                let write = self.traffic.as_ref().and_then(Traffic::next_at);
                Instant::earliest([association.poll_deadline(), write, second])
            }
        };
        (std::mem::replace(&mut self.deadline, new), new)
    }
}

impl Traffic {
    pub(super) fn new(source: Source, zeros: Bytes, deliveries: Deliveries) -> Self {
        Self { source, zeros, deliveries, pending: VecDeque::new(), released: 0, held: Held::No, messages_sent: 0 }
    }

    fn next_at(&self) -> Option<Instant> {
        if self.held == Held::No { self.source.next_at() } else { None }
    }

    /// Processes an event that may end the application's wait.
    fn note(&mut self, event: &Event) {
        match event {
            Event::Writable if self.held == Held::UntilWritable => self.held = Held::No,
            Event::Drained if self.held == Held::UntilDrained => self.held = Held::No,
            Event::Closed(_) => self.stop(),
            _ => {}
        }
    }

    /// The association is over: nothing more is written.
    fn stop(&mut self) {
        self.held = Held::UntilDrained;
        self.pending.clear();
    }

    /// The next write to hand over, if it need not wait.
    fn due(&mut self, now: Instant, association: &Association) -> Option<&Pending> {
        // While a write waits only for room, the application does not take its next one.
        let gathers = self.deliveries.gathers();
        while (gathers || self.pending.is_empty())
            && let Some((due_at, write)) = self.source.take_due(now)
        {
            let lifetime = self.deliveries.next_lifetime();
            self.pending.push_back(Pending { due_at, bytes: write.size.bytes(), lifetime });
        }
        if self.released == 0 {
            let outstanding = || association.stats().path.in_flight_bytes > 0;
            self.released = self.deliveries.released(self.pending.iter().map(|pending| pending.bytes), outstanding);
        }
        self.pending.front().filter(|_| self.released > 0)
    }

    /// Performs the due writes on `stream`, with messages numbered by PPIDs from `ppid_first` on, and passes each
    /// message that the core accepted to `note`.
    fn write_due(
        &mut self,
        now: Instant,
        association: &mut Association,
        ppid_first: u32,
        stream: u16,
        mut note: impl FnMut(Written),
    ) {
        while self.held == Held::No {
            let Some(&pending @ Pending { due_at, bytes, lifetime }) = self.due(now, association) else { return };
            let part = usize::try_from(bytes).unwrap_or(usize::MAX).min(self.zeros.len());
            let ppid = ppid_first.wrapping_add(self.messages_sent);
            let message = self.deliveries.message(self.zeros.slice(..part), due_at, lifetime);
            match association.send(now, message.with_ppid(ppid).on_stream(stream)) {
                Ok(_) => {}
                Err(SendError { kind: SendErrorKind::BufferFull, .. }) => {
                    self.held = Held::UntilWritable;
                    return;
                }
                Err(_) => return self.stop(),
            }
            self.messages_sent += 1;
            note(Written { due_at, sent_at: now, bytes: part, lifetime });
            let left = bytes.saturating_sub(part as u64);
            if left > 0 {
                let lifetime = self.deliveries.next_lifetime();
                self.pending[0] = Pending { bytes: left, lifetime, ..pending };
                continue;
            }
            self.pending.pop_front();
            self.released -= 1;
            if self.source.trigger() == Trigger::Drained {
                self.held = Held::UntilDrained;
            }
        }
    }
}

/// The second application that writes.
#[derive(Debug)]
pub(super) struct Companion {
    traffic: Traffic,
    /// For each message that the core accepted, when it was due and when its first chunk was sent.
    written: Vec<(Instant, Option<Instant>)>,
}

impl Companion {
    pub(super) fn new(traffic: Traffic) -> Self {
        Self { traffic, written: Vec::new() }
    }

    /// Returns for each message when it was due and when its first chunk was sent, including one that waits for room.
    pub(super) fn messages(&self) -> impl Iterator<Item = (Instant, Option<Instant>)> {
        let waiting = self.traffic.pending.iter().map(|pending| (pending.due_at, None));
        self.written.iter().copied().chain(waiting)
    }

    fn write_due(&mut self, now: Instant, association: &mut Association) {
        let Self { traffic, written } = self;
        traffic.write_due(now, association, COMPANION_PPID_FIRST, COMPANION_STREAM, |message| {
            written.push((message.due_at, None));
        });
    }

    /// Logs the messages whose first chunk is in a packet.
    fn note_departure(&mut self, now: Instant, packet: &[u8]) {
        let packet = wire::Packet::parse_unverified(packet).expect("the core writes whole headers");
        let numbers = packet.chunks().flatten().filter_map(|chunk| match chunk {
            Chunk::Data(data) if data.stream.0 == COMPANION_STREAM && data.beginning => {
                Some(data.ppid.wrapping_sub(COMPANION_PPID_FIRST))
            }
            // Ordered messages are numbered from zero.
            Chunk::IData(data) if data.stream.0 == COMPANION_STREAM && data.beginning => Some(data.mid.0),
            _ => None,
        });
        for number in numbers {
            if let Some((_, left_at)) = self.written.get_mut(number as usize) {
                left_at.get_or_insert(now);
            }
        }
    }
}
