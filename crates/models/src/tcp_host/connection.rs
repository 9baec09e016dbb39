//! One connection of a host with the application on top of it.

use festina_netsim::NodeId;
use festina_sctp::RetransmissionCause;
use festina_units::{Duration, Instant};

use super::PortPair;
use crate::packet::{Packet, Payload, TcpPacket};
use crate::record::log::{Log, Transmission, Written};
use crate::tcp::{Cause, Segment, TcpConfig, TcpConnection, TcpCounters, TcpEvent};
use crate::workload::Source;

/// A connection and its application.
#[derive(Debug)]
pub(super) struct Connection {
    peer: NodeId,
    ports: PortPair,
    tcp: TcpConnection,
    traffic: Option<Traffic>,
    log: Option<Log>,
    /// The RTO after each segment of the peer, if there is a log.
    rtos: Vec<(Instant, Duration)>,
    /// Offsets up to which the stream could be read, each with the time.
    readable: Vec<(u64, Instant)>,
    /// Where in the stream each message ends.
    ends: Vec<u64>,
    segments_sent: u64,
    bytes_received: u64,
    has_failed: bool,
    /// The retransmitted parts of the segment that was just written: start, end, cause.
    resent: Vec<(u64, u64, RetransmissionCause)>,
    /// The deadline in the host's agenda.
    deadline: Option<Instant>,
}

/// The application that writes.
#[derive(Debug)]
pub(super) struct Traffic {
    source: Option<Source>,
    /// A write that the send buffer has not accepted completely: when it was due, its size, and the rest.
    pending: Option<(Instant, u64, u64)>,
    is_held: bool,
    /// Time from a wake-up to the write.
    wake_up: Duration,
    resumes_at: Option<Instant>,
    ending: Ending,
}

/// The action when all is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The connection stays.
    Stay,
    /// It is closed.
    Close,
    /// It is closed, and then a flow may begin its next transfer.
    CloseThenNext { flow: usize },
}

impl Traffic {
    /// All writes of a source over one connection that stays.
    pub(super) fn from_source(source: Source, wake_up: Duration) -> Self {
        Self { source: Some(source), wake_up, ending: Ending::Stay, ..Self::idle() }
    }

    /// A single write.
    pub(super) fn transfer(due_at: Instant, bytes: u64, ending: Ending) -> Self {
        Self { pending: Some((due_at, bytes, bytes)), ending, ..Self::idle() }
    }

    fn idle() -> Self {
        let (wake_up, resumes_at) = (Duration::ZERO, None);
        Self { source: None, pending: None, is_held: false, wake_up, resumes_at, ending: Ending::Stay }
    }

    /// There is room in the send buffer.
    fn wake(&mut self, now: Instant) {
        if self.wake_up.is_zero() {
            self.is_held = false;
        } else {
            self.resumes_at.get_or_insert(now + self.wake_up);
        }
    }

    /// The application runs again if its time has come.
    fn resume(&mut self, now: Instant) {
        if self.resumes_at.is_some_and(|at| at <= now) {
            self.resumes_at = None;
            self.is_held = false;
        }
    }

    fn next_at(&self) -> Option<Instant> {
        if self.is_held { self.resumes_at } else { self.source.as_ref()?.next_at() }
    }
}

impl Connection {
    pub(super) fn client(peer: NodeId, ports: PortPair, config: TcpConfig, traffic: Traffic, is_logging: bool) -> Self {
        Self::new(peer, ports, TcpConnection::client(config), Some(traffic), is_logging)
    }

    pub(super) fn server(peer: NodeId, ports: PortPair, config: TcpConfig, is_logging: bool) -> Self {
        Self::new(peer, ports, TcpConnection::server(config), None, is_logging)
    }

    fn new(peer: NodeId, ports: PortPair, tcp: TcpConnection, traffic: Option<Traffic>, is_logging: bool) -> Self {
        Self {
            peer,
            ports,
            tcp,
            traffic,
            log: is_logging.then(Log::default),
            rtos: Vec::new(),
            readable: Vec::new(),
            ends: Vec::new(),
            segments_sent: 0,
            bytes_received: 0,
            has_failed: false,
            resent: Vec::new(),
            deadline: None,
        }
    }

    pub(super) fn peer(&self) -> NodeId {
        self.peer
    }

    pub(super) fn ports(&self) -> PortPair {
        self.ports
    }

    pub(super) fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    pub(super) fn rtos(&self) -> &[(Instant, Duration)] {
        &self.rtos
    }

    pub(super) fn ends(&self) -> &[u64] {
        &self.ends
    }

    pub(super) fn readable(&self) -> &[(u64, Instant)] {
        &self.readable
    }

    pub(super) fn counters(&self) -> TcpCounters {
        self.tcp.counters()
    }

    pub(super) fn cwnd_bytes(&self) -> u64 {
        self.tcp.cwnd_bytes()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Returns whether the host may forget it. A connection that carries a whole flow is always kept.
    pub(super) fn is_over(&self) -> bool {
        let carries_flow = self.traffic.as_ref().is_some_and(|traffic| traffic.ending == Ending::Stay);
        !carries_flow && self.tcp.is_closed()
    }

    /// The flow that may begin its next transfer when this one is over.
    pub(super) fn next_transfer_of(&self) -> Option<usize> {
        match self.traffic.as_ref()?.ending {
            Ending::CloseThenNext { flow } => Some(flow),
            Ending::Stay | Ending::Close => None,
        }
    }

    /// Bytes that arrived in order since the last call.
    pub(super) fn take_received(&mut self) -> u64 {
        let total = self.tcp.bytes_delivered();
        total - std::mem::replace(&mut self.bytes_received, total)
    }

    pub(super) fn handle_segment(&mut self, now: Instant, serial: u64, segment: &Segment) {
        if let Some(log) = &mut self.log {
            log.arrived(now, serial);
        }
        self.tcp.handle_segment(now, segment);
        if self.log.is_some() {
            self.rtos.push((now, self.tcp.rto()));
        }
        self.digest(now);
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.deadline = None;
        self.tcp.handle_timeout(now);
        self.digest(now);
    }

    /// Processes the connection's events, and lets the application react.
    fn digest(&mut self, now: Instant) {
        while let Some(event) = self.tcp.poll_event() {
            match event {
                TcpEvent::Retransmitted { sequence, length_bytes, cause, .. } => {
                    self.resent.push((sequence, sequence + u64::from(length_bytes), common_cause(cause)));
                }
                TcpEvent::Delivered { through } if self.log.is_some() => self.readable.push((through, now)),
                TcpEvent::Writable => {
                    if let Some(traffic) = &mut self.traffic {
                        traffic.wake(now);
                    }
                }
                TcpEvent::PeerFinished => self.tcp.close(),
                TcpEvent::Failed => self.has_failed = true,
                _ => {}
            }
        }
        self.write_due(now);
    }

    fn write_due(&mut self, now: Instant) {
        let Some(traffic) = &mut self.traffic else { return };
        traffic.resume(now);
        while !traffic.is_held && !self.has_failed {
            let due = traffic.pending.take().or_else(|| {
                let (at, write) = traffic.source.as_mut()?.take_due(now)?;
                Some((at, write.size.bytes(), write.size.bytes()))
            });
            let Some((due_at, bytes, left)) = due else { break };
            let taken = self.tcp.write(left);
            if taken < left {
                traffic.pending = Some((due_at, bytes, left - taken));
                traffic.is_held = true;
                return;
            }
            if let Some(log) = &mut self.log {
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                log.written.push(Written { due_at, sent_at: now, bytes, lifetime: None });
                self.ends.push(self.tcp.bytes_written());
            }
        }
        if traffic.ending != Ending::Stay && traffic.pending.is_none() {
            self.tcp.close();
        }
    }

    pub(super) fn poll_transmit(&mut self, now: Instant, node: NodeId) -> Option<Packet> {
        // A connection that was just opened has not got its writes yet.
        self.write_due(now);
        let segment = self.tcp.poll_transmit(now)?;
        let serial = self.segments_sent;
        self.segments_sent += 1;
        self.resent.clear();
        self.digest(now);
        self.note_departure(now, serial, &segment);
        Some(packet(node, self.peer, self.ports, serial, segment))
    }

    /// Notes the messages whose last byte is in the segment.
    fn note_departure(&mut self, now: Instant, serial: u64, segment: &Segment) {
        let Some(log) = &mut self.log else { return };
        log.departed(now, serial);
        let end = segment.sequence + u64::from(segment.length_bytes);
        let first = self.ends.partition_point(|&message_end| message_end <= segment.sequence);
        for (index, &message_end) in self.ends.iter().enumerate().skip(first).take_while(|&(_, &at)| at <= end) {
            let Ok(sequence) = u32::try_from(index) else { return };
            let resent = self.resent.iter().find(|&&(from, to, _)| from < message_end && message_end <= to);
            let cause = resent.map(|&(_, _, cause)| cause);
            log.transmissions.push(Transmission { chunk: sequence, sequence, at: now, serial, cause });
        }
    }

    /// Returns the deadline in the host's agenda and the new one.
    pub(super) fn move_deadline(&mut self) -> (Option<Instant>, Option<Instant>) {
        let write = self.traffic.as_ref().filter(|_| !self.has_failed).and_then(Traffic::next_at);
        let new = Instant::earliest([self.tcp.poll_deadline(), write]);
        (std::mem::replace(&mut self.deadline, new), new)
    }
}

/// Returns the corresponding cause of SCTP. Segments that a timeout declared lost count as retransmitted by the
/// timeout.
fn common_cause(cause: Cause) -> RetransmissionCause {
    match cause {
        Cause::Timeout | Cause::AfterTimeout => RetransmissionCause::Timeout,
        Cause::Fast => RetransmissionCause::Fast,
        Cause::Probe => RetransmissionCause::Probe,
    }
}

/// Returns a packet with a segment from one host to another; `ports` are those of the sending one.
pub(super) fn packet(source: NodeId, destination: NodeId, ports: PortPair, serial: u64, segment: Segment) -> Packet {
    let (source_port, destination_port) = ports;
    Packet {
        source,
        destination,
        flow: u64::from(source.0) << 32 | u64::from(source_port) << 16 | u64::from(destination_port),
        serial,
        ecn: segment.ecn,
        payload: Payload::Tcp(Box::new(TcpPacket { segment, source_port, destination_port, is_corrupted: false })),
    }
}
