//! The facade: handshake, and the glue between sender and receiver.

use festina_units::{Duration, EcnCodepoint, Instant};

use super::{
    config::TcpConfig,
    event::TcpEvent,
    receiver::Receiver,
    segment::{Flags, Segment, SynOptions, Timestamps},
    sender::{Acknowledgement, Outgoing, Sender, TcpCounters},
};

/// Retransmissions of a SYN or SYN-ACK after which the connection fails (Linux).
const SYN_RETRIES_MAX: u32 = 6;

/// One end of a TCP connection, without clock, sockets or payload.
///
/// Call [`Self::handle_segment`], [`Self::handle_timeout`], [`Self::write`], [`Self::read`] or
/// [`Self::close`]; then drain [`Self::poll_transmit`] and [`Self::poll_event`]; then wait until
/// [`Self::poll_deadline`]. `now` must not go backwards.
#[derive(Clone, Debug)]
pub struct TcpConnection {
    state: State,
    sender: Sender,
    receiver: Receiver,
    closed_was_told: bool,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum State {
    /// A server before the SYN.
    Listening,
    /// A client before the SYN-ACK.
    SynSent(Handshake),
    /// A server before the ACK of its SYN-ACK.
    SynReceived(Handshake),
    Established,
    Failed,
}

/// A SYN or SYN-ACK that waits for its answer.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
struct Handshake {
    is_due: bool,
    first_sent: Option<Instant>,
    retries: u32,
    resend_at: Option<Instant>,
}

impl TcpConnection {
    /// The end that opens: its SYN leaves with the first [`Self::poll_transmit`].
    #[must_use]
    pub fn client(config: TcpConfig) -> Self {
        Self::in_state(config, State::SynSent(Handshake { is_due: true, ..Handshake::default() }))
    }

    /// The end that waits for a SYN.
    #[must_use]
    pub fn server(config: TcpConfig) -> Self {
        Self::in_state(config, State::Listening)
    }

    fn in_state(config: TcpConfig, state: State) -> Self {
        Self { state, receiver: Receiver::new(&config), sender: Sender::new(config), closed_was_told: false }
    }

    /// A segment of the peer arrived.
    pub fn handle_segment(&mut self, now: Instant, segment: &Segment) {
        // A SYN-ACK and a bare ACK differ in this pair of bits.
        let (syn, ack) = (segment.flags.syn, segment.flags.ack);
        match self.state {
            State::Failed => return,
            State::Listening if syn && !ack => {
                self.negotiate(segment);
                self.receiver.handle(now, segment, &self.sender.config, &mut self.sender.events);
                self.state = State::SynReceived(Handshake { is_due: true, ..Handshake::default() });
                return;
            }
            State::SynReceived(mut handshake) if syn => {
                handshake.is_due = true;
                self.state = State::SynReceived(handshake);
                return;
            }
            State::SynReceived(handshake) if ack => self.establish(now, segment, handshake),
            State::SynSent(handshake) if syn && ack => {
                self.negotiate(segment);
                self.establish(now, segment, handshake);
                self.receiver.acknowledge_now();
            }
            // Our ACK of the SYN-ACK was lost.
            State::Established if syn => {
                self.receiver.acknowledge_now();
                return;
            }
            State::Established => {}
            State::Listening | State::SynSent(_) | State::SynReceived(_) => return,
        }
        if ack {
            self.sender.handle_ack(now, &Acknowledgement::of(segment));
        }
        self.receiver.handle(now, segment, &self.sender.config, &mut self.sender.events);
        self.tell_closed();
    }

    /// Applies the options that both ends support.
    fn negotiate(&mut self, segment: &Segment) {
        let config = &mut self.sender.config;
        if let Some(options) = segment.syn_options {
            config.mss_bytes = config.mss_bytes.min(options.mss_bytes).max(1);
            config.sack &= options.sack_permitted;
        }
        config.timestamps &= segment.timestamps.is_some();
        config.ecn &= segment.flags.ece;
    }

    fn establish(&mut self, now: Instant, segment: &Segment, handshake: Handshake) {
        let rtt = handshake
            .first_sent
            .filter(|_| handshake.retries == 0)
            .map(|first_sent| now.saturating_duration_since(first_sent));
        self.sender.open(segment.window_bytes, rtt);
        self.state = State::Established;
        self.sender.events.push(TcpEvent::Connected);
    }

    fn tell_closed(&mut self) {
        if !self.closed_was_told && self.sender.finished() && self.receiver.finished() {
            self.closed_was_told = true;
            self.sender.events.push(TcpEvent::Closed);
        }
    }

    /// Handles the timers that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        let rto = self.sender.config.rto;
        match &mut self.state {
            State::SynSent(handshake) | State::SynReceived(handshake) => {
                if handshake.resend_at.is_some_and(|at| at <= now) {
                    handshake.retries += 1;
                    handshake.is_due = true;
                    handshake.resend_at = None;
                    if handshake.retries > SYN_RETRIES_MAX.min(rto.retries_max) {
                        self.fail();
                    }
                }
            }
            State::Established => {
                self.receiver.handle_timeout(now);
                if !self.sender.handle_timeout(now) {
                    self.fail();
                }
            }
            State::Listening | State::Failed => {}
        }
    }

    fn fail(&mut self) {
        self.state = State::Failed;
        self.sender.events.push(TcpEvent::Failed);
    }

    /// The next segment that leaves now, if any. Call until it returns `None`.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Segment> {
        match &mut self.state {
            State::Listening | State::Failed => None,
            State::SynSent(handshake) | State::SynReceived(handshake) => {
                if !core::mem::take(&mut handshake.is_due) {
                    return None;
                }
                handshake.first_sent.get_or_insert(now);
                let backoff = 2_u32.saturating_pow(handshake.retries);
                handshake.resend_at = Some(now + self.sender.config.rto.initial.saturating_mul(backoff));
                let is_answer = matches!(self.state, State::SynReceived(_));
                Some(self.syn(now, is_answer))
            }
            State::Established => {
                let outgoing = self.sender.poll_persist().or_else(|| self.sender.poll(now));
                if let Some(outgoing) = outgoing {
                    return Some(self.segment(now, &outgoing));
                }
                self.receiver.ack_is_due().then(|| {
                    let sequence = self.sender.next_sequence();
                    let bare =
                        Outgoing { sequence, length_bytes: 0, fin: false, is_new: false, confirms_reduction: false };
                    self.segment(now, &bare)
                })
            }
        }
    }

    fn syn(&self, now: Instant, is_answer: bool) -> Segment {
        let config = &self.sender.config;
        Segment {
            sequence: 0,
            length_bytes: 0,
            flags: Flags { syn: true, ack: is_answer, fin: false, ece: config.ecn, cwr: config.ecn && !is_answer },
            ack: 0,
            window_bytes: config.receive_buffer_bytes,
            sack: Default::default(),
            timestamps: self.timestamps(now),
            syn_options: Some(SynOptions { mss_bytes: config.mss_bytes, sack_permitted: config.sack }),
            ecn: EcnCodepoint::NotCapable,
        }
    }

    fn segment(&mut self, now: Instant, outgoing: &Outgoing) -> Segment {
        let config = self.sender.config;
        let capable = config.ecn && outgoing.is_new && outgoing.length_bytes > 0;
        let mut segment = Segment {
            sequence: outgoing.sequence,
            length_bytes: outgoing.length_bytes,
            flags: Flags { fin: outgoing.fin, cwr: outgoing.confirms_reduction, ..Flags::default() },
            ack: 0,
            window_bytes: 0,
            sack: Default::default(),
            timestamps: self.timestamps(now),
            syn_options: None,
            ecn: if capable { EcnCodepoint::Capable } else { EcnCodepoint::NotCapable },
        };
        self.receiver.fill(now, &mut segment, &config);
        segment
    }

    fn timestamps(&self, now: Instant) -> Option<Timestamps> {
        let echo = self.receiver.timestamp();
        self.sender.config.timestamps.then_some(Timestamps { value: now, echo })
    }

    /// Returns the time for the next call of [`Self::handle_timeout`], unless something else happens first.
    #[must_use]
    pub fn poll_deadline(&self) -> Option<Instant> {
        match self.state {
            State::Listening | State::Failed => None,
            State::SynSent(handshake) | State::SynReceived(handshake) => handshake.resend_at,
            State::Established => Instant::earliest([self.sender.deadline(), self.receiver.deadline()]),
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<TcpEvent> {
        self.sender.events.pop()
    }

    /// Puts up to `bytes` into the send buffer and returns how many it took. If it took fewer, a [`TcpEvent::Writable`]
    /// follows. Data is accepted even before the handshake is complete, but not after [`Self::close`].
    pub fn write(&mut self, bytes: u64) -> u64 {
        self.sender.write(bytes)
    }

    /// Ends the outgoing stream: a FIN follows the written data.
    pub fn close(&mut self) {
        self.sender.close();
    }

    /// Reads at most `bytes_max` and returns how many bytes there were (without
    /// [`TcpConfig::reads_at_once`]).
    pub fn read(&mut self, bytes_max: u64) -> u64 {
        self.receiver.read(bytes_max, &self.sender.config)
    }

    /// Bytes that can be read.
    #[must_use]
    pub fn readable_bytes(&self) -> u64 {
        self.receiver.readable()
    }

    /// Bytes that [`Self::write`] would take now.
    #[must_use]
    pub fn writable_bytes(&self) -> u64 {
        self.sender.room()
    }

    /// Returns whether the handshake is complete and the connection has not failed.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.state == State::Established
    }

    /// Returns whether both streams have ended, or the connection has failed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed_was_told || self.state == State::Failed
    }

    /// Bytes that the application wrote so far.
    #[must_use]
    pub fn bytes_written(&self) -> u64 {
        self.sender.written()
    }

    /// Bytes that were sent at least once.
    #[must_use]
    pub fn bytes_sent(&self) -> u64 {
        self.sender.sent()
    }

    /// Bytes received from the peer in order.
    #[must_use]
    pub fn bytes_delivered(&self) -> u64 {
        self.receiver.delivered()
    }

    /// Bytes in the send buffer, sent or not.
    #[must_use]
    pub fn buffered_bytes(&self) -> u64 {
        self.sender.buffered()
    }

    /// cwnd in segments.
    #[must_use]
    pub fn cwnd_segments(&self) -> u32 {
        self.sender.congestion.cwnd()
    }

    /// ssthresh in segments, once there was a loss.
    #[must_use]
    pub fn ssthresh_segments(&self) -> Option<u64> {
        self.sender.congestion.ssthresh()
    }

    /// Segments above the cumulative acknowledgement that the peer has SACKed.
    #[must_use]
    pub fn sacked_segments(&self) -> u32 {
        self.sender.sacked()
    }

    /// The smoothed round-trip time, once there is a sample.
    #[must_use]
    pub fn srtt(&self) -> Option<Duration> {
        self.sender.timers.rtt.srtt()
    }

    /// The congestion window in bytes.
    #[must_use]
    pub fn cwnd_bytes(&self) -> u64 {
        self.sender.cwnd_bytes()
    }

    /// Returns the retransmission timeout without backoff.
    #[must_use]
    pub fn rto(&self) -> Duration {
        self.sender.rto()
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> TcpCounters {
        self.sender.counters
    }
}
