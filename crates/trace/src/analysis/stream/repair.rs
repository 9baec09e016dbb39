//! The repair of a sender: its state at a retransmission, and conclusions from acknowledgements.

use std::ops::Range as IndexRange;

use festina_units::{Duration, Instant};

use super::super::cause::{Cause, Circumstances, Probes};
use super::super::estimate::ns_between;
use super::super::outstanding::Range;
use super::super::report::Retransmission;
use super::{Ack, AfterTimer, COPIES_JUDGED_MAX, Pending, Repair, Sent, Stream};

impl Stream {
    /// Describes the sender's state at the retransmission of the ranges `within`.
    pub(super) fn circumstances(&mut self, sent: &Sent, within: &IndexRange<usize>) -> Circumstances {
        let at = sent.copy.at;
        let since = |earlier: Instant| at.saturating_duration_since(earlier);
        let mut settled = self.settled.iter().filter(|range| range.start < sent.end && range.end > sent.start);
        let range =
            if within.is_empty() { settled.next() } else { self.outstanding.get_mut(within.start).map(|r| &*r) };
        let range = range.copied();
        let is_before =
            |packet: Option<u64>| range.zip(packet).is_some_and(|(range, packet)| range.latest.packet < packet);
        Circumstances {
            is_with_new_data: sent.is_with_new_data || sent.end > self.highest,
            reports: range.map_or(0, |range| range.reports),
            duplicate_acks: self.feedback.duplicate_acks,
            since_heard: self.feedback.at.map(since),
            since_copy: range.map_or(Duration::MAX, |range| since(range.latest.at)),
            is_overtaken: is_before(self.repair.arrived_packet),
            is_last: sent.end >= self.highest && within.len() <= 1,
            after_timer: self.repair.after_timer.map(|timer| timer.cause),
            was_sent_since_timer: !is_before(self.repair.after_timer.map(|timer| timer.packet)),
            timers: self.round_trips.timers(sent.framing.is_none()),
            probes: Probes {
                are_sent: self.repair.probes,
                may_follow: !self.repair.has_probed && self.repair.probe_end.is_none(),
            },
            in_recovery: self.repair.recovery.is_some(),
            bundled_with: self.repair.latest.filter(|(packet, _)| *packet == sent.copy.packet).map(|(_, cause)| cause),
            copies: range.map_or(1, |range| range.copies),
            is_by_another_path: range.is_some_and(|range| range.latest.path != sent.copy.path),
        }
    }

    /// Sets the cause of a retransmission, if the capture shows it, and learns from it for later ones.
    pub(super) fn attribute(
        &mut self,
        copy: &mut Retransmission,
        circumstances: &Circumstances,
        is_tcp: bool,
        segments: u64,
    ) {
        let (cause, confidence) = if is_tcp { circumstances.tcp() } else { circumstances.sctp() };
        // An acknowledgement in the capture may not have reached the sender. New data in the packet does not depend on that.
        let (is_acknowledged, is_bundled) = (copy.is_spurious, cause == Cause::Bundled);
        if copy.previous_at.is_some() && (is_bundled || !is_acknowledged) {
            (copy.cause, copy.confidence) = (cause, confidence);
            self.report.repair.bundled_late += if is_acknowledged { segments } else { 0 };
        }
        self.learn(copy, circumstances.continues_timeout());
    }

    /// Learns from a retransmission for later ones. One that continues a timer's repair does not prolong that.
    fn learn(&mut self, copy: &Retransmission, continues_timeout: bool) {
        let cause = copy.cause;
        if matches!(cause, Cause::Probe | Cause::Timeout) && !continues_timeout {
            self.repair.after_timer = Some(AfterTimer { cause, packet: copy.packet, until: self.highest });
        }
        self.repair.has_probed |= cause == Cause::Probe;
        match cause {
            Cause::Probe => self.repair.probe_end = Some(self.highest),
            Cause::Timeout | Cause::Fast => self.repair.probe_end = None,
            Cause::Bundled | Cause::Unknown => {}
        }
        if cause == Cause::Fast {
            self.repair.recovery.get_or_insert(self.highest);
        }
        self.repair.latest = Some((copy.packet, cause));
    }

    /// Counts a retransmission once its fate is known. An unnecessary copy that was not reported as a duplicate was lost.
    pub(super) fn judge(&mut self, pending: &Pending) {
        let Pending { copy, segments, is_reported } = pending;
        let is_bundled = copy.cause == Cause::Bundled;
        let (is_acknowledged, counts) = (self.is_acknowledged(copy.end + self.base), &mut self.report.repair);
        if copy.is_spurious {
            counts.spurious += segments;
            counts.spurious_bundled += if is_bundled { *segments } else { 0 };
        }
        if is_bundled && is_acknowledged && !is_reported {
            self.repair.bundled_unreported += segments;
        }
        if self.repair.reports_duplicates {
            counts.bundled_for_loss += std::mem::take(&mut self.repair.bundled_unreported);
        }
    }
}

impl Repair {
    /// Returns whether an acknowledgement immediately answers the packet that first carried this range, because that packet also carried a
    /// duplicate.
    pub(super) fn is_answer_to(&self, range: &Range, ack: &Ack<'_>, base: u64) -> bool {
        let is_reported = |copy: &Retransmission| {
            ack.duplicates.iter().any(|&(start, end)| copy.start + base < end && start < copy.end + base)
        };
        let in_same_packet =
            self.pending.iter().rev().map(|pending| &pending.copy).filter(|copy| copy.packet == range.first.packet);
        !ack.duplicates.is_empty() && in_same_packet.take(COPIES_JUDGED_MAX).any(is_reported)
    }

    /// Ends the episode of a probe, during which there is no other one, if an acknowledgement covers more than the
    /// probe, reports the probe as a duplicate, or has no news (RFC 8985 §7.4.2).
    pub(super) fn end_probe(&mut self, ack: &Ack<'_>, has_news: bool) {
        let is_over = |end: &u64| {
            let is_duplicate = ack.duplicates.iter().any(|(_, until)| until == end);
            ack.through > *end || (ack.through == *end && (is_duplicate || !has_news))
        };
        self.probe_end = self.probe_end.filter(|end| !is_over(end));
    }

    /// The receiver reported a duplicate: one of the copies was unnecessary, and arrived at least half a round trip ago.
    pub(super) fn received_twice(&mut self, start: u64, end: u64, at: Instant, rtt_min_ns: Option<u64>) {
        let age_ns = rtt_min_ns.unwrap_or(0) / 10 * 9;
        let overlaps = |p: &Pending| p.copy.start < end && p.copy.end > start && !p.is_reported;
        let fits = |p: &&mut Pending| overlaps(p) && ns_between(p.copy.at, at) >= age_ns;
        let fitting = self.pending.iter_mut().rev().find(fits);
        let found = match fitting {
            Some(pending) => Some(pending),
            None => self.pending.iter_mut().find(|pending| overlaps(pending)),
        };
        if let Some(pending) = found {
            self.reports_duplicates = true;
            (pending.is_reported, pending.copy.is_spurious) = (true, true);
        }
    }
}
