//! Thin-stream detection: the detector of P10 §5.1 with its packets-in-flight list and its loss-rate estimator.

use std::collections::VecDeque;

use festina_units::{Duration, Instant};

use crate::rate::RateMeter;

/// Maximum number of packets in the in-flight list. More than [`THIN_PACKETS_MAX`] in flight is thick by any rule.
const IN_FLIGHT_MAX: usize = 64;

/// Upper bound of the dynamic limit, so that a loss rate near one does not make every stream thin.
const THIN_PACKETS_MAX: u64 = 8;

/// Number of sending times kept: one more than [`THIN_PACKETS_MAX`], to detect that the limit is exceeded.
const RECENT_MAX: usize = 9;

/// Gap reports after which a packet counts as lost (P10 §5.1).
const MISSING_REPORTS_OF_A_LOSS: u8 = 3;

/// Outcomes after which the loss-rate counters are halved.
const LOSS_WINDOW_PACKETS: u32 = 256;

/// Deliveries assumed at the start by the loss-rate estimator, so that a first loss is not "100 %".
const LOSS_PRIOR_PACKETS: u32 = 16;

/// The rule for classifying a stream as thin.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ThinDetection {
    /// No stream is thin.
    Never,
    /// Thin iff fewer than `in_flight_below` packets are in flight (P06 §4.1: the reports that fast
    /// retransmit needs; Linux TCP: 4).
    Static {
        /// The number of packets in flight that makes a stream thick.
        in_flight_below: u8,
    },
    /// Thin iff `in_flight <= (pttfr + 1) / (1 - lossrate)` (P10 Fig. 3).
    Dynamic {
        /// Packets required to trigger a fast retransmission: 3 in P10.
        pttfr: u8,
    },
    /// As `Dynamic`, but counts the packets with new data sent during the SRTT up to the latest such packet instead of
    /// those in flight.
    ///
    /// Without loss the two numbers are the same. In an outage the packets in flight pile up and would make a thin
    /// stream thick just when it needs help; the data that the application sends per round trip does not change. Nor
    /// does a thick stream become thin because a loss has stopped it: it is judged by its earlier rate. Without an
    /// RTT sample the packets in flight are counted. The rule is Festina's own.
    DynamicRate {
        /// Packets required to trigger a fast retransmission.
        pttfr: u8,
    },
    /// As `DynamicRate`; in addition a stream is thin if it sends at most `bytes_max` bytes of new data per SRTT, in
    /// any number of packets.
    ///
    /// P10 counts packets, because later packets report the loss of earlier ones. But the stream also waits for those
    /// reports, and for the timeout if a retransmission is lost. A stream is harmless because of its low number of
    /// bytes. RFC 9260 never halves the window below four packets (§7.2.3), so a single loss does not slow down a
    /// stream with no more than the initial window in flight. The rule is Festina's own.
    Light {
        /// Packets required to trigger a fast retransmission.
        pttfr: u8,
        /// Bytes of new data per SRTT.
        bytes_max: u32,
    },
}

/// Counts the packets in flight and decides whether the stream is thin.
///
/// Packets are identified by their highest TSN ("unwrapped" to `u64`; any increasing sequence number will do). One
/// detector serves a path, or an association with all its paths (P06 §4.1). It records the data for every [`ThinDetection`], so
/// the rule can change during the lifetime of the association. Memory is limited to 64 packets; older ones are
/// forgotten first.
#[derive(Clone, Debug, Default)]
pub struct ThinDetector {
    in_flight: VecDeque<Packet>,
    /// Whether the list may be out of TSN order: a packet was sent whose highest TSN is not above that of the previous
    /// one.
    has_retransmissions: bool,
    loss: LossRate,
    recent: RecentSends,
    new_data: RateMeter,
}

#[derive(Copy, Clone, Debug)]
struct Packet {
    tsn_highest: u64,
    missing_reports: u8,
    /// The path that it left by: 0 for that of this detector.
    path: u8,
}

impl Packet {
    /// Processes a SACK that reports the TSN of this packet or a higher one. Returns whether the packet leaves the
    /// list.
    fn is_acked(&mut self, cumulative_tsn: u64, gap_acked: &[(u64, u64)], loss: &mut LossRate) -> bool {
        let acked = self.tsn_highest <= cumulative_tsn || is_covered(gap_acked, self.tsn_highest);
        if acked {
            loss.left(self.missing_reports);
        } else {
            self.missing_reports = self.missing_reports.saturating_add(1);
            if self.missing_reports == MISSING_REPORTS_OF_A_LOSS {
                loss.count(true);
            }
        }
        acked
    }
}

impl ThinDetector {
    /// Creates a detector without packets.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records that a packet with data was sent at `now`; `tsn_highest` is its highest TSN, `has_new_data` is false for
    /// a pure retransmission.
    pub fn packet_sent(&mut self, now: Instant, tsn_highest: u64, has_new_data: bool) {
        if self.in_flight.len() == IN_FLIGHT_MAX {
            self.in_flight.pop_front();
        }
        self.push(tsn_highest, 0);
        if has_new_data {
            self.recent.push(now);
        }
    }

    /// Records a packet with data that left by another path of the association, numbered from 1 on. It counts as in
    /// flight (P06 §4.1), and not towards the rate of this path.
    pub fn packet_sent_elsewhere(&mut self, tsn_highest: u64, path: u8) {
        if self.in_flight.len() == IN_FLIGHT_MAX {
            self.in_flight.pop_front();
        }
        self.push(tsn_highest, path);
    }

    fn push(&mut self, tsn_highest: u64, path: u8) {
        self.has_retransmissions |= self.in_flight.back().is_some_and(|before| tsn_highest <= before.tsn_highest);
        self.in_flight.push_back(Packet { tsn_highest, missing_reports: 0, path });
    }

    /// Returns the highest TSN of the latest packet in flight.
    #[must_use]
    pub fn latest(&self) -> Option<u64> {
        self.in_flight.back().map(|packet| packet.tsn_highest)
    }

    /// Records that the packet of the last [`Self::packet_sent`] contained `bytes` bytes of new data. Only
    /// [`ThinDetection::Light`] uses this, and only with an RTT sample.
    pub fn new_data_sent(&mut self, now: Instant, bytes: u32, srtt: Option<Duration>) {
        if let Some(srtt) = srtt {
            self.new_data.sent(now, bytes, srtt);
        }
    }

    /// Processes a SACK: `cumulative_tsn` and the gap ack blocks as inclusive TSN ranges, ascending and above it.
    ///
    /// A packet leaves the list when its highest TSN is acknowledged; a packet whose highest TSN is in a gap of three
    /// SACKs counts as lost but stays, since it may still arrive (P06 §4.1, P10 §5.1).
    pub fn sack(&mut self, cumulative_tsn: u64, gap_acked: &[(u64, u64)]) {
        while let Some(packet) = self.in_flight.front()
            && packet.tsn_highest <= cumulative_tsn
        {
            self.loss.left(packet.missing_reports);
            self.in_flight.pop_front();
        }
        self.has_retransmissions &= !self.in_flight.is_empty();
        let Some(&(_, gap_acked_tsn_highest)) = gap_acked.last() else {
            // Only retransmissions can be behind a packet with a higher TSN: for a thick stream in order the work ends
            // here.
            if self.has_retransmissions {
                let loss = &mut self.loss;
                self.in_flight.retain(|packet| {
                    let acked = packet.tsn_highest <= cumulative_tsn;
                    if acked {
                        loss.left(packet.missing_reports);
                    }
                    !acked
                });
                self.has_retransmissions = !self.in_flight.iter().is_sorted_by(|a, b| a.tsn_highest < b.tsn_highest);
            }
            return;
        };
        let is_above = |packet: &Packet| packet.tsn_highest > gap_acked_tsn_highest;
        if self.has_retransmissions {
            let loss = &mut self.loss;
            self.in_flight.retain_mut(|packet| is_above(packet) || !packet.is_acked(cumulative_tsn, gap_acked, loss));
            self.has_retransmissions = !self.in_flight.iter().is_sorted_by(|a, b| a.tsn_highest < b.tsn_highest);
            return;
        }
        // Most packets of a thick stream are above the reported range. Of the others only the missing ones stay.
        let (mut reported, mut missing) = (0, 0);
        while let Some(packet) = self.in_flight.get_mut(reported)
            && !is_above(packet)
        {
            if !packet.is_acked(cumulative_tsn, gap_acked, &mut self.loss) {
                self.in_flight.swap(missing, reported);
                missing += 1;
            }
            reported += 1;
        }
        self.in_flight.drain(missing..reported);
    }

    /// Returns whether no packet in flight has its highest TSN at or below `tsn`, if that is cheap to determine.
    #[must_use]
    pub fn is_above(&self, tsn: u64) -> bool {
        !self.has_retransmissions && self.in_flight.front().is_none_or(|packet| packet.tsn_highest > tsn)
    }

    /// Processes an expiry of the retransmission timer. Outstanding packets are no longer in flight (RFC 9260 §6.3.3
    /// marks them for retransmission). They do not count as lost: a timeout does not prove a loss.
    pub fn timed_out(&mut self) {
        self.timed_out_elsewhere(0);
    }

    /// As [`Self::timed_out`], for a path whose packets [`Self::packet_sent_elsewhere`] has recorded.
    pub fn timed_out_elsewhere(&mut self, path: u8) {
        self.in_flight.retain(|packet| packet.path != path);
        self.has_retransmissions &= !self.in_flight.is_empty();
    }

    /// Returns the number of packets in flight, at most 64.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns the estimated loss rate as (lost, all) packets; `all` is never zero.
    #[must_use]
    pub fn loss_rate(&self) -> (u32, u32) {
        (self.loss.lost, self.loss.all)
    }

    /// Returns whether the stream is thin by the rule `detection`. The answer changes only with
    /// [`Self::packet_sent`], [`Self::new_data_sent`], [`Self::sack`], [`Self::timed_out`] and the
    /// SRTT.
    #[must_use]
    pub fn is_thin(&self, detection: ThinDetection, srtt: Option<Duration>) -> bool {
        let in_flight = self.in_flight.len() as u64;
        match detection {
            ThinDetection::Never => false,
            ThinDetection::Static { in_flight_below } => in_flight < u64::from(in_flight_below),
            ThinDetection::Dynamic { pttfr } => in_flight <= self.limit(pttfr),
            ThinDetection::DynamicRate { pttfr } => match srtt {
                Some(srtt) => self.recent.at_most(self.limit(pttfr), srtt),
                None => in_flight <= self.limit(pttfr),
            },
            ThinDetection::Light { pttfr, bytes_max } => {
                let is_light = srtt.is_some_and(|srtt| !self.new_data.exceeds(bytes_max, srtt));
                is_light || self.is_thin(ThinDetection::DynamicRate { pttfr }, srtt)
            }
        }
    }

    /// Releases memory that an idle stream does not need.
    pub fn shrink(&mut self) {
        self.in_flight.shrink_to_fit();
    }

    fn limit(&self, pttfr: u8) -> u64 {
        limit(pttfr, self.loss.lost, self.loss.all)
    }
}

/// Returns the maximum number of packets of a thin stream: (pttfr + 1) / (1 - lost / all), rounded down and bounded.
fn limit(pttfr: u8, lost: u32, all: u32) -> u64 {
    let (packets, all) = (u64::from(pttfr) + 1, u64::from(all));
    if lost == 0 {
        return packets.min(THIN_PACKETS_MAX);
    }
    match all.saturating_sub(u64::from(lost)) {
        0 => THIN_PACKETS_MAX,
        delivered => (packets * all / delivered).min(THIN_PACKETS_MAX),
    }
}

fn is_covered(ranges: &[(u64, u64)], tsn: u64) -> bool {
    let after = ranges.partition_point(|&(first, _)| first <= tsn);
    after.checked_sub(1).and_then(|index| ranges.get(index)).is_some_and(|&(_, last)| tsn <= last)
}

/// The share of lost packets (P10 §5.1 defines "lost", not the window).
///
/// The window is ours: both counters are halved every 256 packets, so the estimate covers the last 128 to 256 outcomes,
/// and older ones with decreasing weight.
#[derive(Copy, Clone, Debug)]
struct LossRate {
    lost: u32,
    all: u32,
}

impl Default for LossRate {
    fn default() -> Self {
        Self { lost: 0, all: LOSS_PRIOR_PACKETS }
    }
}

impl LossRate {
    /// Counts a packet that an acknowledgement removed from the list. A packet that counted as lost stays lost: the
    /// acknowledgement answers its retransmission.
    fn left(&mut self, missing_reports: u8) {
        if missing_reports < MISSING_REPORTS_OF_A_LOSS {
            self.count(false);
        }
    }

    fn count(&mut self, lost: bool) {
        self.lost += u32::from(lost);
        self.all += 1;
        if self.all >= LOSS_WINDOW_PACKETS {
            self.lost /= 2;
            self.all /= 2;
        }
    }
}

/// Sending times of the last packets with new data.
#[derive(Copy, Clone, Debug, Default)]
struct RecentSends {
    times: [Instant; RECENT_MAX],
    sent: u64,
}

impl RecentSends {
    fn push(&mut self, now: Instant) {
        if let Some(slot) = self.times.get_mut(slot(self.sent)) {
            *slot = now;
            self.sent = self.sent.wrapping_add(1);
        }
    }

    /// Returns whether at most `limit` packets were sent during the `window` up to the latest of them.
    fn at_most(&self, limit: u64, window: Duration) -> bool {
        let at = |index: Option<u64>| index.and_then(|index| self.times.get(slot(index)));
        // The window holds too many iff the packet `limit` places before the latest is inside.
        let latest = at(self.sent.checked_sub(1));
        let limit_before = at(self.sent.checked_sub(limit + 1));
        latest
            .zip(limit_before)
            .is_none_or(|(latest, &limit_before)| latest.saturating_duration_since(limit_before) >= window)
    }
}

fn slot(index: u64) -> usize {
    usize::try_from(index % RECENT_MAX as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests;
