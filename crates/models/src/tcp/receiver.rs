//! The receiving half: reassembly, windows, SACK blocks and delayed acknowledgements.

use festina_units::{Duration, EcnCodepoint, Instant};

use super::{
    config::{DelayedAck, TcpConfig},
    event::{EventQueue, TcpEvent},
    segment::{SackBlocks, Segment},
};

/// Maximum number of ranges out of order; a segment that would add one more is dropped.
const RANGES_MAX: usize = 4096;

/// When an acknowledgement is due.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum AckDue {
    Not,
    At(Instant),
    Now,
}

/// Linux's view of the peer's and the application's pace, for delayed acknowledgements that adapt.
#[derive(Clone, Debug)]
struct AckPace {
    /// The delay: it follows the gaps between segments.
    gap: Duration,
    arrived: Option<Instant>,
    /// The application answers what arrives, so that its next write will carry the acknowledgement.
    answers: bool,
}

/// The least delay of an acknowledgement that adapts, and the one it begins with.
const ADAPTED_DELAY_MIN: Duration = Duration::from_millis(40);

impl Default for AckPace {
    fn default() -> Self {
        Self { gap: ADAPTED_DELAY_MIN, arrived: None, answers: false }
    }
}

impl AckPace {
    /// Updates the delay when data arrives at `now`: half of the old delay plus the gap since the last segment, which
    /// counts for at least 20 ms, or for nothing if it is longer than the delay.
    fn arrived(&mut self, now: Instant, config: &DelayedAck) {
        if let Some(before) = self.arrived {
            let gap = now.saturating_duration_since(before);
            if gap < self.gap {
                self.gap = (self.gap / 2 + gap.max(ADAPTED_DELAY_MIN / 2)).min(config.delay);
            }
        }
        self.arrived = Some(now);
    }

    /// Data was sent at `now`: soon after data arrived, it is an answer.
    fn sent(&mut self, now: Instant) {
        self.answers |= self.arrived.is_some_and(|arrived| now.saturating_duration_since(arrived) < self.gap);
    }
}

/// The receiving half of a connection.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    /// Next byte in order.
    next: u64,
    /// Bytes that the application has read.
    read: u64,
    /// Ranges received out of order: disjoint, ascending, not touching.
    ranges: Vec<(u64, u64)>,
    /// Where the latest segments out of order lie, latest first (RFC 2018 §4).
    recent: [u64; 3],
    /// Reported once in the next SACK (RFC 2883).
    duplicate: Option<(u64, u64)>,
    /// The peer's FIN, as the sequence number that it takes.
    fin: Option<u64>,
    due: AckDue,
    /// Data segments since the last acknowledgement.
    unacked_segments: u32,
    quick_acks_left: u32,
    pace: AckPace,
    /// The right edge of the window as last announced.
    announced_edge: u64,
    /// A mark was received, and the sender has not confirmed it (RFC 3168 §6.1.3).
    echo_congestion: bool,
    /// Timestamp to echo (RFC 7323 §4.3).
    timestamp: Option<Instant>,
}

impl Receiver {
    pub(super) fn new(config: &TcpConfig) -> Self {
        Self {
            next: 0,
            read: 0,
            ranges: Vec::new(),
            recent: [0; 3],
            duplicate: None,
            fin: None,
            due: AckDue::Not,
            unacked_segments: 0,
            quick_acks_left: config.delayed_ack.quick_acks,
            pace: AckPace::default(),
            announced_edge: config.receive_buffer_bytes,
            echo_congestion: false,
            timestamp: None,
        }
    }

    /// Takes the data of a segment.
    pub(super) fn handle(&mut self, now: Instant, segment: &Segment, config: &TcpConfig, events: &mut EventQueue) {
        let (start, end) = (segment.sequence, segment.end());
        if let Some(timestamps) = segment.timestamps
            && start <= self.next
        {
            // RFC 7323 §4.3: with a delayed ACK the earliest unacknowledged segment is echoed.
            if self.unacked_segments == 0 || self.timestamp.is_none() {
                self.timestamp = Some(timestamps.value);
            }
        }
        if config.ecn && start < end {
            self.echo_congestion &= !segment.flags.cwr;
            self.echo_congestion |= segment.ecn == EcnCodepoint::CongestionExperienced;
        }
        if start == end {
            // A zero-window probe is below the expected sequence number and requires an answer (RFC 9293 §3.8.6.1).
            if start < self.next || (self.announced_edge <= self.next && segment.flags.ack && start == self.next) {
                self.due = AckDue::Now;
            }
            return;
        }
        if segment.flags.fin {
            self.fin = Some(end - 1);
        }
        let in_order = start <= self.next && self.ranges.is_empty();
        if !self.store(start, end, events) {
            self.due = AckDue::Now;
            if config.delayed_ack.adapts && end <= self.next {
                self.quick_acks_left = config.delayed_ack.quick_acks;
                self.pace = AckPace::default();
            }
            return;
        }
        self.advance(config, events);
        self.unacked_segments += 1;
        let is_plain = in_order && self.duplicate.is_none() && !segment.flags.fin;
        let waits = if config.delayed_ack.adapts {
            self.pace.arrived(now, &config.delayed_ack);
            let is_small = segment.length_bytes < config.mss_bytes;
            is_plain && !(is_small && config.reads_at_once && !self.pace.answers)
        } else {
            is_plain
        };
        self.schedule(now, waits, config);
    }

    /// Stores `[start, end)`; returns whether it was new. Data that was already stored is reported.
    fn store(&mut self, start: u64, end: u64, events: &mut EventQueue) -> bool {
        if start < self.next {
            let known_end = end.min(self.next);
            self.tell_duplicate(start, known_end, events);
            if end <= self.next {
                return false;
            }
        }
        let start = start.max(self.next);
        if end > self.announced_edge + 1 {
            return false;
        }
        let first = self.ranges.partition_point(|&(_, range_end)| range_end < start);
        let after = self.ranges.partition_point(|&(range_start, _)| range_start <= end);
        let (mut merged_start, mut merged_end) = (start, end);
        if let Some(overlapping) = self.ranges.get(first..after) {
            if let Some(&(known_start, _)) =
                overlapping.iter().find(|&&(known_start, known_end)| known_start <= start && end <= known_end)
            {
                self.recall(known_start);
                self.tell_duplicate(start, end, events);
                return false;
            }
            for &(known_start, known_end) in overlapping {
                merged_start = merged_start.min(known_start);
                merged_end = merged_end.max(known_end);
            }
        }
        if first == after && self.ranges.len() >= RANGES_MAX {
            return false;
        }
        self.ranges.splice(first..after, [(merged_start, merged_end)]);
        self.recall(merged_start);
        true
    }

    fn tell_duplicate(&mut self, start: u64, end: u64, events: &mut EventQueue) {
        self.duplicate = Some((start, end));
        events.push(TcpEvent::DuplicateReceived { sequence: start, length_bytes: end - start });
    }

    /// The block that holds `start` is reported first.
    fn recall(&mut self, start: u64) {
        let [latest, before, _] = self.recent;
        if latest != start {
            self.recent = [start, latest, before];
        }
    }

    /// Moves in-order data to the application.
    fn advance(&mut self, config: &TcpConfig, events: &mut EventQueue) {
        let Some(&(start, end)) = self.ranges.first() else { return };
        if start > self.next {
            return;
        }
        self.ranges.remove(0);
        self.next = end;
        if config.reads_at_once {
            self.read = self.delivered();
        }
        events.push(TcpEvent::Delivered { through: self.delivered() });
        if self.finished() {
            events.push(TcpEvent::PeerFinished);
        }
    }

    /// Decides when to acknowledge (RFC 5681 §4.2).
    fn schedule(&mut self, now: Instant, may_wait: bool, config: &TcpConfig) {
        if self.quick_acks_left > 0 {
            self.quick_acks_left -= 1;
            self.due = AckDue::Now;
        } else if !may_wait || self.unacked_segments >= config.delayed_ack.every_segments {
            self.due = AckDue::Now;
        } else if self.due == AckDue::Not {
            let adapted = self.pace.gap.min(config.delayed_ack.delay);
            self.due = AckDue::At(now + if config.delayed_ack.adapts { adapted } else { config.delayed_ack.delay });
        }
    }

    /// Bytes delivered to the application's side, without the FIN.
    pub(super) fn delivered(&self) -> u64 {
        if self.finished() { self.next - 1 } else { self.next }
    }

    /// Returns whether all data of the peer was received, including its FIN.
    pub(super) fn finished(&self) -> bool {
        self.fin.is_some_and(|fin| self.next > fin)
    }

    /// Bytes that can be read.
    pub(super) fn readable(&self) -> u64 {
        self.delivered() - self.read
    }

    /// Reads at most `bytes_max`; a window that opens far enough is announced (RFC 9293 §3.8.6.2.2).
    pub(super) fn read(&mut self, bytes_max: u64, config: &TcpConfig) -> u64 {
        let bytes = self.readable().min(bytes_max);
        self.read += bytes;
        let opens = self.edge(config).saturating_sub(self.announced_edge);
        if bytes > 0 && opens >= (2 * u64::from(config.mss_bytes)).min(config.receive_buffer_bytes / 2) {
            self.due = AckDue::Now;
        }
        bytes
    }

    fn edge(&self, config: &TcpConfig) -> u64 {
        self.read + config.receive_buffer_bytes
    }

    /// An acknowledgement must be sent at once.
    pub(super) fn acknowledge_now(&mut self) {
        self.due = AckDue::Now;
    }

    /// The time for a delayed acknowledgement.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.due {
            AckDue::At(at) => Some(at),
            AckDue::Not | AckDue::Now => None,
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if let AckDue::At(at) = self.due
            && at <= now
        {
            self.due = AckDue::Now;
        }
    }

    /// Returns whether a segment must be sent to carry an acknowledgement.
    pub(super) fn ack_is_due(&self) -> bool {
        self.due == AckDue::Now
    }

    pub(super) fn timestamp(&self) -> Option<Instant> {
        self.timestamp
    }

    /// Fills in the acknowledgement of a segment that is sent now.
    pub(super) fn fill(&mut self, now: Instant, segment: &mut Segment, config: &TcpConfig) {
        if segment.length_bytes > 0 {
            self.pace.sent(now);
        }
        let edge = self.edge(config).max(self.announced_edge);
        segment.flags.ack = true;
        segment.ack = self.next;
        segment.window_bytes = edge.saturating_sub(self.next);
        segment.flags.ece = segment.flags.ece || (config.ecn && self.echo_congestion);
        if config.sack && (self.duplicate.is_some() || !self.ranges.is_empty()) {
            segment.sack = self.sack_blocks();
        }
        self.announced_edge = edge;
        self.duplicate = None;
        self.unacked_segments = 0;
        self.due = AckDue::Not;
    }

    fn sack_blocks(&self) -> SackBlocks {
        let mut sack = SackBlocks::default();
        if let Some((start, end)) = self.duplicate {
            sack.push(start, end);
        }
        let mut told: [Option<usize>; 3] = [None; 3];
        for (slot, &start) in self.recent.iter().enumerate() {
            let after = self.ranges.partition_point(|&(range_start, _)| range_start <= start);
            let Some(index) = after.checked_sub(1) else { continue };
            if let Some(&(range_start, range_end)) = self.ranges.get(index)
                && start < range_end
                && !told.contains(&Some(index))
            {
                sack.push(range_start, range_end);
                if let Some(slot) = told.get_mut(slot) {
                    *slot = Some(index);
                }
            }
        }
        sack
    }
}
