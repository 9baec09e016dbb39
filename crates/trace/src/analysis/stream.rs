//! One direction of a conversation: the data of its sender and the acknowledgements of its receiver.

mod repair;
mod segments;

use std::collections::VecDeque;

use festina_units::{Duration, Instant};

use super::Sink;
use super::cause::{Cause, Confidence};
use super::estimate::{RoundTrips, Unwrap, ns_between};
use super::order::Departure;
use super::outstanding::{Copy, Outstanding, RANGES_FEW, Range, reserve_first, shrink};
use super::receiver::Deliveries;
use super::report::{OutOfOrder, Retransmission, StreamReport, Write};
use super::thin::ThinClock;

use crate::protocol::Protocol;

pub(super) use segments::SegmentSize;

/// Maximum number of undecided retransmissions; beyond that the oldest are judged by the evidence so far.
const PENDING_MAX: usize = 256;
/// A proof that a retransmission was spurious is not awaited longer than this.
const PENDING_TIME: Duration = Duration::from_secs(10);
/// Maximum number of copies of a range, from the latest on, that are judged by the time of its acknowledgement.
const COPIES_JUDGED_MAX: usize = 16;
/// Ranges remembered after their acknowledgement, for later copies of them.
const SETTLED_MAX: usize = 8;
/// Maximum number of ranges for which reports of later arrivals are counted.
const REPORTS_MAX: usize = 64;
/// A segment sent within this time after a full one continues the same write.
const WRITE_GAP: Duration = Duration::from_millis(1);
/// Segments shorter than this are not full ones, with any maximum of the stream.
const FULL_BYTES_MIN: u32 = 500;

/// A part of a packet with data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) copy: Copy,
    /// Its place in the sending order, by its number in IPv4.
    pub(super) departure: Option<Departure>,
    /// Unwrapped, the end exclusive.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) bytes: u32,
    /// There is new data in the same packet.
    pub(super) is_with_new_data: bool,
    /// In SCTP, whether a message begins and ends here; in TCP `None`.
    pub(super) framing: Option<(bool, bool)>,
}

/// An acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ack<'a> {
    pub(super) at: Instant,
    pub(super) packet: u64,
    /// All below has arrived.
    pub(super) through: u64,
    /// So has the data between these.
    pub(super) blocks: &'a [(u64, u64)],
    /// These were reported as duplicates.
    pub(super) duplicates: &'a [(u64, u64)],
    /// TSecr.
    pub(super) echo: Option<u32>,
    /// Nothing else is in the packet.
    pub(super) is_pure: bool,
}

/// The state of a stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) report: StreamReport,
    pub(super) unwrap: Unwrap,
    outstanding: Outstanding,
    settled: VecDeque<Range>,
    pub(super) round_trips: RoundTrips,
    base: u64,
    highest: u64,
    announced_at: Option<Instant>,
    /// The end of the latest probe of a closed window, whose byte the receiver may have taken.
    probe_end: Option<u64>,
    acknowledged: Option<u64>,
    feedback: Feedback,
    repair: Repair,
    thin: ThinClock,
    segment_size: SegmentSize,
    pub(super) deliveries: Option<Deliveries>,
}

/// The receiver's latest packets.
#[derive(Debug, Default)]
struct Feedback {
    at: Option<Instant>,
    /// When the latest new data was acknowledged.
    advanced_at: Option<Instant>,
    duplicate_acks: u32,
}

/// The observed features of this sender's loss recovery.
#[derive(Debug, Default)]
pub(super) struct Repair {
    pending: VecDeque<Pending>,
    after_timer: Option<AfterTimer>,
    /// The packet that carried the latest of the arrived data.
    arrived_packet: Option<u64>,
    /// There was a probe, and no round-trip time was measured since.
    has_probed: bool,
    /// The end of the sent data at the time of the latest probe, until the episode of the probe ends.
    probe_end: Option<u64>,
    /// The receiver has reported a duplicate.
    reports_duplicates: bool,
    /// Bundled copies that count as losses if the receiver reports duplicates.
    bundled_unreported: u64,
    /// The number at which fast recovery ends.
    recovery: Option<u64>,
    /// The packet that carried the latest retransmission, and its cause.
    latest: Option<(u64, Cause)>,
    pub(super) probes: Option<bool>,
    sent_at: Option<Instant>,
}

/// The repair that a timer began.
#[derive(Clone, Copy, Debug)]
struct AfterTimer {
    cause: Cause,
    packet: u64,
    /// The number at which it ends.
    until: u64,
}

/// A retransmission whose fate is not known yet.
#[derive(Debug)]
struct Pending {
    copy: Retransmission,
    segments: u64,
    /// The receiver has reported this one as a duplicate.
    is_reported: bool,
}

impl Stream {
    pub(super) fn new(
        report: StreamReport,
        unwrap: Unwrap,
        start: u64,
        probes: Option<bool>,
        segment_size: SegmentSize,
    ) -> Self {
        Self {
            report,
            unwrap,
            outstanding: Outstanding::default(),
            settled: VecDeque::new(),
            round_trips: RoundTrips::default(),
            base: start,
            highest: start,
            announced_at: None,
            probe_end: None,
            acknowledged: None,
            feedback: Feedback::default(),
            repair: Repair { probes, ..Repair::default() },
            thin: ThinClock::default(),
            segment_size,
            deliveries: None,
        }
    }

    pub(super) fn highest(&self) -> u64 {
        self.highest
    }

    /// Returns whether TCP or SCTP sent data, and no acknowledgement was seen.
    pub(super) fn is_one_way(&self) -> bool {
        self.acknowledged.is_none() && self.report.protocol != Protocol::Udp
    }

    /// Returns the number of list entries for which memory is allocated.
    pub(super) fn held(&self) -> usize {
        self.outstanding.held() + self.repair.pending.capacity()
    }

    /// Sets whether all streams together have room for more entries.
    pub(super) fn may_grow(&mut self, may_grow: bool) {
        self.outstanding.may_grow = may_grow;
    }

    /// The sender has abandoned the messages with this data.
    pub(super) fn abandoned(&mut self, start: u64, end: u64) {
        self.outstanding.abandon(start, end);
    }

    fn segments(&self, sent: &Sent, bytes: u64) -> u64 {
        if sent.framing.is_some() { 1 } else { self.segment_size.segments(bytes) }
    }

    /// A segment without data shows that everything below this sequence number was sent.
    pub(super) fn announced(&mut self, sequence: u32, at: Instant) {
        if let Some(until) = self.unwrap.near(sequence).filter(|until| *until > self.highest) {
            (self.highest, self.announced_at) = (until, Some(at));
        }
    }

    /// Returns whether the receiver has reported later data as received and this as missing.
    pub(super) fn is_reported_missing(&mut self, start: u64) -> bool {
        let index = self.outstanding.within(start, start + 1).start;
        self.outstanding.get_mut(index).is_some_and(|range| range.start == start && range.reports > 0)
    }

    /// Counts a keep-alive: a segment of one byte that repeats the last byte before the next new one, which has arrived. Returns whether it
    /// is one.
    pub(super) fn keep_alive(&mut self, sequence: u32) -> bool {
        let is_keepalive = self.outstanding.len() == 0 && self.unwrap.near(sequence) == self.highest.checked_sub(1);
        self.report.traffic.probes += u64::from(is_keepalive);
        is_keepalive
    }

    /// A segment of one byte probed the receiver's closed window.
    pub(super) fn window_probe(&mut self, sequence: u32) {
        self.report.traffic.probes += 1;
        self.probe_end = self.unwrap.near(sequence).map(|start| start + 1);
    }

    /// A packet with data was sent; calls for its parts follow.
    pub(super) fn packet(&mut self, at: Instant, payload_bytes: u32, transport_bytes: u64) {
        let traffic = &mut self.report.traffic;
        if traffic.payload_bytes.count() > 0 {
            traffic.gaps_ns.record(ns_between(traffic.last_at, at));
        }
        traffic.payload_bytes.record(u64::from(payload_bytes));
        traffic.bytes += transport_bytes;
        traffic.last_at = traffic.last_at.max(at);
    }

    /// Data was sent.
    pub(super) fn sent(&mut self, sent: &Sent, sink: &mut Sink) {
        self.settle_pending(sent.copy.at, sink);
        let old_end = sent.end.min(self.highest);
        if sent.start < old_end {
            let pending_max = if self.outstanding.may_grow { PENDING_MAX } else { RANGES_FEW };
            if self.repair.pending.len() >= pending_max {
                self.settle_first(sink);
            }
            self.sent_again(sent, old_end, sink);
        }
        if sent.end > self.highest {
            self.sent_first(&Sent { start: sent.start.max(self.highest), ..*sent });
        }
        self.repair.sent_at = Some(sent.copy.at);
        let loss = self.report.repair.loss();
        let thinness = self.acknowledged.is_some().then_some(&mut self.report.thinness);
        self.thin.sent(sent.copy.at, self.outstanding.in_flight(), loss, thinness);
    }

    fn sent_first(&mut self, sent: &Sent) {
        let is_full = |range: &Range, largest| range.bytes >= FULL_BYTES_MIN && u64::from(range.bytes) >= largest;
        let largest = self.report.traffic.payload_bytes.max().unwrap_or(0);
        let before = self.outstanding.last_mut().filter(|before| before.end == sent.start);
        let mut write = sent.copy;
        match (sent.framing, before) {
            (Some((false, _)), Some(before)) => write = before.write,
            (None, Some(before))
                if is_full(before, largest) && ns_between(before.first.at, sent.copy.at) <= nanos(WRITE_GAP) =>
            {
                before.ends_write = false;
                write = before.write;
            }
            _ => {}
        }
        let segments = self.segments(sent, sent.end - sent.start);
        self.outstanding.insert(Range {
            start: sent.start,
            end: sent.end,
            first: sent.copy,
            latest: sent.copy,
            copies: 1,
            reports: 0,
            is_reported: false,
            is_abandoned: false,
            write,
            ends_write: sent.framing.is_none_or(|(_, is_end)| is_end),
            bytes: u32::try_from(sent.end - sent.start)
                .unwrap_or(u32::MAX)
                .min(sent.bytes)
                .max(if sent.framing.is_some() { sent.bytes } else { 0 }),
            segments,
        });
        self.highest = sent.end;
        self.report.repair.first_copies += segments;
        self.report.slow_start.sent(sent.bytes);
    }

    /// Handles data that was sent before, or should have been: up to `end`.
    fn sent_again(&mut self, sent: &Sent, end: u64, sink: &mut Sink) {
        let is_tcp = sent.framing.is_none();
        self.segment_size.repaired(end - sent.start);
        let segments = self.segments(sent, end - sent.start);
        let within = self.outstanding.within(sent.start, end);
        let circumstances = self.circumstances(sent, &within);
        let mut retransmission = Retransmission {
            stream: self.report.id,
            start: sent.start.saturating_sub(self.base),
            end: end.saturating_sub(self.base),
            ordinal: 1,
            first_at: None,
            previous_at: None,
            at: sent.copy.at,
            packet: sent.copy.packet,
            cause: Cause::Unknown,
            confidence: Confidence::Guess,
            is_spurious: false,
        };
        if within.is_empty() {
            let is_late = self.is_late(sent, end);
            let is_acknowledged = self.is_acknowledged(end);
            let settled = self.settled.iter_mut().find(|range| range.start < end && range.end > sent.start);
            match settled {
                Some(range) => {
                    (retransmission.first_at, retransmission.previous_at) =
                        (Some(range.first.at), Some(range.latest.at));
                    retransmission.ordinal = range.copies;
                    retransmission.is_spurious = true;
                    range.copies += 1;
                    range.latest = sent.copy;
                }
                None if is_late => {
                    self.report.repair.out_of_order += 1;
                    self.report.repair.first_copies += segments;
                    let Retransmission { stream, start, end: until, at, packet, .. } = retransmission;
                    sink.out_of_order(OutOfOrder { stream, start, end: until, at, packet });
                    if is_acknowledged {
                        let unseen = &mut self.report.traffic.unseen_bytes;
                        *unseen = unseen.saturating_sub(end - sent.start);
                    } else {
                        self.fill(sent, end, 1);
                    }
                    return;
                }
                None if is_acknowledged => retransmission.is_spurious = true,
                None => self.fill(sent, end, 2),
            }
        }
        for index in within {
            let Some(range) = self.outstanding.get_mut(index) else { continue };
            retransmission.ordinal = retransmission.ordinal.max(range.copies);
            retransmission.first_at.get_or_insert(range.first.at);
            retransmission.previous_at = retransmission.previous_at.max(Some(range.latest.at));
            // The receiver has it already.
            retransmission.is_spurious |= range.is_reported;
            range.copies += 1;
            range.reports = 0;
            range.latest = sent.copy;
        }
        self.attribute(&mut retransmission, &circumstances, is_tcp, segments);
        self.report.slow_start.sent_again();
        self.repair.pending.push_back(Pending { copy: retransmission, segments, is_reported: false });
        self.report.repair.count(retransmission.cause, segments);
    }

    /// Fills the gap with data that was not seen before.
    fn fill(&mut self, sent: &Sent, end: u64, copies: u32) {
        let segments = self.segments(sent, end - sent.start);
        self.outstanding.insert(Range {
            start: sent.start,
            end,
            first: sent.copy,
            latest: sent.copy,
            copies,
            reports: 0,
            is_reported: false,
            is_abandoned: false,
            write: sent.copy,
            // The sending time of a write is unknown if its first copy is not in the capture.
            ends_write: copies == 1,
            bytes: sent.bytes,
            segments,
        });
    }

    fn is_acknowledged(&self, end: u64) -> bool {
        self.acknowledged.is_some_and(|acknowledged| end <= acknowledged)
    }

    /// Returns whether new data came behind later data because the path in front of the capture changed their order.
    /// Its number shows that or, if the sender does not count, it arrived sooner than a retransmission could.
    fn is_late(&self, sent: &Sent, end: u64) -> bool {
        let is_soon = |after: Option<Instant>| {
            let since = after.map_or(Duration::MAX, |at| sent.copy.at.saturating_duration_since(at));
            since < Duration::from_nanos(self.round_trips.path_ns() / 5 * 4)
        };
        if self.is_acknowledged(end) {
            // The capture contains it behind its acknowledgement: interfaces and queues are not always merged in order.
            return sent.departure == Some(Departure::Earlier) || is_soon(self.feedback.advanced_at);
        }
        if sent.departure.is_some() {
            return sent.departure == Some(Departure::Earlier);
        }
        let is_reported = self.feedback.duplicate_acks >= 3;
        let gap_at = self.outstanding.earliest_above(end).or(self.announced_at).or(self.repair.sent_at);
        !is_reported && is_soon(gap_at)
    }

    /// An acknowledgement was seen.
    pub(super) fn acknowledged(&mut self, ack: &Ack<'_>, sink: &mut Sink) {
        self.settle_pending(ack.at, sink);
        for &(start, end) in ack.duplicates {
            self.repair.received_twice(
                start.saturating_sub(self.base),
                end.saturating_sub(self.base),
                ack.at,
                self.round_trips.min_ns(),
            );
        }
        let latest_reported = self.report_blocks(ack);
        let before = self.acknowledged.unwrap_or(ack.through.min(self.base));
        if self.acknowledged.is_none() {
            self.report.thinness = self.thin.take_early();
        }
        let advances = ack.through > before;
        if advances || self.acknowledged.is_none() {
            self.advance(before, ack, sink);
        } else if ack.is_pure && self.outstanding.len() > 0 && ack.through == before {
            self.feedback.duplicate_acks += 1;
        }
        if advances {
            (self.feedback.duplicate_acks, self.feedback.advanced_at) = (0, Some(ack.at));
            // With timestamps every acknowledgement measures a round trip.
            self.repair.has_probed &= ack.echo.is_none();
            self.repair.after_timer = self.repair.after_timer.filter(|timer| ack.through < timer.until);
            self.repair.recovery = self.repair.recovery.filter(|until| ack.through < *until);
        }
        self.repair.end_probe(ack, advances || latest_reported.is_some());
        if let Some(latest) = latest_reported {
            for range in self.outstanding.iter_mut().filter(|range| !range.is_reported).take(REPORTS_MAX) {
                range.reports += u32::from(range.latest.at < latest);
            }
        }
        self.feedback.at = Some(ack.at);
        let loss = self.report.repair.loss();
        self.thin.acknowledged(ack.at, self.outstanding.in_flight(), loss);
    }

    /// Marks the data that gap ack blocks report. Returns the sending time of the latest part that was not reported
    /// before.
    fn report_blocks(&mut self, ack: &Ack<'_>) -> Option<Instant> {
        let mut newly: Vec<Range> = Vec::new();
        for &(start, end) in ack.blocks {
            self.outstanding.report(start, end, |range| newly.push(*range));
        }
        // Data out of order is acknowledged at once.
        if let Some(last) = newly.last().filter(|last| last.copies == 1) {
            self.round_trips.record_prompt(last.first.at, ack.at);
        }
        for range in newly.iter().filter(|range| range.copies == 1) {
            self.repair.arrived_packet = self.repair.arrived_packet.max(Some(range.first.packet));
        }
        for range in &newly {
            // TSecr answers the last segment in order, not this one.
            self.arrived(range, &Ack { echo: None, ..*ack });
        }
        newly.iter().map(|range| range.latest.at).max()
    }

    /// All below `ack.through` is acknowledged.
    fn advance(&mut self, before: u64, ack: &Ack<'_>, sink: &mut Sink) {
        let mut seen = 0;
        let mut latest: Option<Range> = None;
        let mut packets = PacketsAcknowledged::default();
        while let Some(range) = self.outstanding.pop_below(ack.through) {
            seen += range.end - range.start;
            packets.add(&range);
            if !range.is_reported && !range.is_abandoned {
                self.arrived(&range, ack);
                self.repair.arrived_packet = self.repair.arrived_packet.max(Some(range.answered_copy(ack.echo).packet));
                latest = Some(range);
            }
            self.report.repair.ended(&range);
            if range.ends_write && ack.through >= range.end && !range.is_abandoned {
                self.written(&range, ack, sink);
            }
            if self.settled.len() == SETTLED_MAX {
                self.settled.pop_front();
            }
            reserve_first(&mut self.settled);
            self.settled.push_back(range);
        }
        if let Some(range) =
            latest.filter(|range| packets.is_prompt() || self.repair.is_answer_to(range, ack, self.base))
        {
            self.round_trips.record_prompt(range.first.at, ack.at);
        }
        if let Some(range) = latest.filter(|range| range.copies == 1) {
            self.round_trips.record(range.first.at, ack.at);
            self.repair.has_probed = false;
        }
        if self.acknowledged.is_some() {
            // A FIN takes a number too.
            let unseen = (ack.through - before).saturating_sub(seen);
            let is_probe = self.probe_end.is_some_and(|end| before < end && end <= ack.through && end > self.highest);
            let is_known = is_probe || ack.through == self.highest + 1;
            self.report.traffic.unseen_bytes += unseen.saturating_sub(u64::from(is_known));
        }
        self.highest = self.highest.max(ack.through);
        self.acknowledged = Some(ack.through);
        self.report.slow_start.acknowledged(ack.through, self.highest);
    }

    /// A range has arrived at the receiver.
    fn arrived(&mut self, range: &Range, ack: &Ack<'_>) {
        if range.copies < 2 {
            return;
        }
        let too_soon_ns = self.round_trips.too_soon_ns();
        let is_too_soon = |at: Instant| too_soon_ns.is_some_and(|too_soon| ns_between(at, ack.at) < too_soon);
        let echoes_first = ack.echo.is_some_and(|echo| {
            range.first.tsval != 0
                && range.latest.tsval != range.first.tsval
                && echo.wrapping_sub(range.latest.tsval).cast_signed() < 0
        });
        let (start, end) = (range.start.saturating_sub(self.base), range.end.saturating_sub(self.base));
        let copies = self.repair.pending.iter_mut().map(|pending| &mut pending.copy).rev();
        let copies = copies.filter(|copy| copy.start < end && copy.end > start);
        for (index, copy) in copies.take(COPIES_JUDGED_MAX).enumerate() {
            // A copy sent too late to be the answered one was unnecessary, whether it is the latest copy or an earlier one.
            copy.is_spurious |= is_too_soon(copy.at) || (index == 0 && echoes_first);
        }
    }

    fn written(&mut self, range: &Range, ack: &Ack<'_>, sink: &mut Sink) {
        let delivered_at = self.deliveries.as_mut().and_then(|deliveries| deliveries.of(range.end));
        let write = Write {
            stream: self.report.id,
            end: range.end.saturating_sub(self.base),
            bytes: range.bytes,
            sent_at: range.write.at,
            sent_packet: range.write.packet,
            copies: range.copies,
            acknowledged_at: ack.at,
            acknowledged_packet: ack.packet,
            delivered_at,
        };
        self.report.delays.record(write);
        sink.write(&write);
    }

    fn settle_pending(&mut self, now: Instant, sink: &mut Sink) {
        while let Some(first) = self.repair.pending.front()
            && now.saturating_duration_since(first.copy.at) > PENDING_TIME
        {
            self.settle_first(sink);
        }
    }

    fn settle_first(&mut self, sink: &mut Sink) {
        if let Some(pending) = self.repair.pending.pop_front() {
            self.judge(&pending);
            let retransmission = pending.copy;
            shrink(&mut self.repair.pending);
            sink.retransmission(&retransmission);
        }
    }

    /// Ends the stream.
    pub(super) fn finish(mut self, sink: &mut Sink) {
        while !self.repair.pending.is_empty() {
            self.settle_first(sink);
        }
        for range in self.outstanding.iter_mut() {
            self.report.repair.ended(range);
        }
        self.report.slow_start.finish();
        self.report.rtt_ns = self.round_trips.samples_ns;
        sink.stream(self.report);
    }
}

/// The packets covered by a cumulative acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
struct PacketsAcknowledged {
    count: u32,
    latest: Option<u64>,
    has_other: bool,
}

impl PacketsAcknowledged {
    fn add(&mut self, range: &Range) {
        self.count += u32::from(self.latest != Some(range.first.packet));
        self.latest = Some(range.first.packet);
        self.has_other |= range.copies > 1 || range.is_reported;
    }

    /// Returns whether the acknowledgement was not delayed, as it answers every second packet and fills no gap.
    fn is_prompt(self) -> bool {
        self.count >= 2 && !self.has_other
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
