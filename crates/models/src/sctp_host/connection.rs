//! One association of a host with the application on top of it.

use std::sync::Arc;

use bytes::Bytes;
use festina_netsim::NodeId;
use festina_sctp::wire::{self, Chunk};
use festina_sctp::{Association, Context, Event, Message, Ports, RetransmissionCause, SendError, Stats};
use festina_units::Instant;

use super::address;
use crate::packet::{EcnCodepoint, Packet, Payload};
use crate::record::RttRecord;
use crate::record::log::{Log, Transmission};
use crate::workload::{Source, Trigger};

/// Messages are numbered by their PPID, from one on that belongs to no protocol that a capture's reader would expect.
const PPID_FIRST: u32 = 0x1000_0000;

/// What arrived over an association.
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
    received: Received,
    log: Option<Log>,
    /// The TSN of the first DATA chunk that left.
    first_tsn: Option<u32>,
    packets_sent: u64,
    /// Reused for every packet.
    buffer: Vec<u8>,
    /// Why the packet that was just written carries what it does.
    causes: Vec<(u32, RetransmissionCause)>,
    /// As it stands on the host's agenda.
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
    /// What is left of a write, and when it was due.
    pending: Option<(Instant, u64)>,
    held: Held,
    messages_sent: u32,
}

/// What the application waits for.
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
            received: Received::default(),
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

    pub(super) fn sends(&self) -> bool {
        self.traffic.is_some()
    }

    pub(super) fn stats(&self) -> Option<Stats> {
        self.association().map(Association::stats)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.association().is_some_and(Association::is_closed)
    }

    fn association(&self) -> Option<&Association> {
        match &self.state {
            State::ToBegin { .. } => None,
            State::Begun(association) => Some(association),
        }
    }

    /// Takes in a packet; one that the core refuses (damaged) has not arrived.
    pub(super) fn handle_packet(&mut self, now: Instant, serial: Option<u64>, bytes: &Bytes) {
        let State::Begun(association) = &mut self.state else { return };
        if association.handle_packet(now, address(self.peer), bytes).is_ok()
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

    /// Does what is due, now that the host has taken the deadline off its agenda. Returns the local tag if the association begins only now.
    pub(super) fn handle_timeout(&mut self, now: Instant, context: &Arc<Context>, index: usize) -> Option<u32> {
        self.deadline = None;
        let mut begun = None;
        match &mut self.state {
            State::ToBegin { at } if *at <= now => {
                let association = Association::connect(now, context, address(self.peer), self.ports, index as u64);
                begun = Some(association.local_tag());
                self.state = State::Begun(Box::new(association));
            }
            State::ToBegin { .. } => {}
            State::Begun(association) => association.handle_timeout(now),
        }
        self.digest(now);
        begun
    }

    /// Takes in what the core has to tell, and lets the application act on it.
    pub(super) fn digest(&mut self, now: Instant) {
        let State::Begun(association) = &mut self.state else { return };
        while let Some(event) = association.poll_event() {
            match (event, &mut self.traffic) {
                (Event::Retransmitted { tsn, cause, .. }, _) => self.causes.push((tsn, cause)),
                (Event::RoundTripMeasured { at, rtt, srtt, rto }, _) => {
                    if let Some(log) = &mut self.log {
                        log.round_trips.push(RttRecord { at, sample: rtt, srtt, rto });
                    }
                }
                (Event::Writable, Some(traffic)) => traffic.release(Held::UntilWritable),
                (Event::Drained, Some(traffic)) => traffic.release(Held::UntilDrained),
                (Event::Closed(_), Some(traffic)) => traffic.stop(),
                _ => {}
            }
        }
        while let Some(message) = association.poll_message() {
            self.received.messages += 1;
            self.received.bytes += message.payload.len() as u64;
            if let Some(log) = &mut self.log {
                log.delivered(now, message.ppid.wrapping_sub(PPID_FIRST));
            }
        }
        if let Some(traffic) = &mut self.traffic {
            traffic.write_due(now, association, self.log.as_mut());
        }
    }

    pub(super) fn poll_transmit(&mut self, now: Instant, node: NodeId) -> Option<Packet> {
        self.buffer.clear();
        let State::Begun(association) = &mut self.state else { return None };
        association.poll_transmit(now, &mut self.buffer)?;
        let serial = self.packets_sent;
        self.packets_sent += 1;
        self.causes.clear();
        self.digest(now);
        self.note_departure(now, serial);
        Some(Packet {
            source: node,
            destination: self.peer,
            flow: u64::from(node.0) << 32 | u64::from(self.ports.local) << 16 | u64::from(self.ports.peer),
            serial,
            ecn: EcnCodepoint::NotCapable,
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

    /// The deadline that the host knows of and the one that holds from now on.
    pub(super) fn move_deadline(&mut self) -> (Option<Instant>, Option<Instant>) {
        let new = match &self.state {
            State::ToBegin { at } => Some(*at),
            State::Begun(association) => {
                let write = self.traffic.as_ref().and_then(Traffic::next_at);
                [association.poll_deadline(), write].into_iter().flatten().min()
            }
        };
        (std::mem::replace(&mut self.deadline, new), new)
    }
}

impl Traffic {
    pub(super) fn new(source: Source, zeros: Bytes) -> Self {
        Self { source, zeros, pending: None, held: Held::No, messages_sent: 0 }
    }

    fn next_at(&self) -> Option<Instant> {
        if self.held == Held::No { self.source.next_at() } else { None }
    }

    fn release(&mut self, held: Held) {
        if self.held == held {
            self.held = Held::No;
        }
    }

    /// The association is over: nothing more is written.
    fn stop(&mut self) {
        self.held = Held::UntilDrained;
        self.pending = None;
    }

    fn write_due(&mut self, now: Instant, association: &mut Association, mut log: Option<&mut Log>) {
        while self.held == Held::No {
            let due = self.pending.take().or_else(|| {
                let (at, write) = self.source.take_due(now)?;
                Some((at, write.size.bytes()))
            });
            let Some((due_at, bytes)) = due else { return };
            let part = usize::try_from(bytes).unwrap_or(usize::MAX).min(self.zeros.len());
            let message = Message::new(self.zeros.slice(..part)).with_ppid(PPID_FIRST.wrapping_add(self.messages_sent));
            match association.send(now, message) {
                Ok(_) => {}
                Err(SendError::BufferFull(_)) => {
                    self.pending = Some((due_at, bytes));
                    self.held = Held::UntilWritable;
                    return;
                }
                Err(_) => return self.stop(),
            }
            self.messages_sent += 1;
            if let Some(log) = &mut log {
                log.written(due_at, now, part);
            }
            let left = bytes.saturating_sub(part as u64);
            if left > 0 {
                self.pending = Some((due_at, left));
            } else if self.source.trigger() == Trigger::Drained {
                self.held = Held::UntilDrained;
            }
        }
    }
}
