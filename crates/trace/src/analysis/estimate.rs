//! Round-trip times, and the timers that a sender derives from them.

use festina_units::{Duration, Instant};

use super::cause::Timers;
use crate::histogram::Histogram;

/// SRTT and RTTVAR (RFC 6298 §2).
#[derive(Clone, Debug, Default)]
pub(super) struct RoundTrips {
    pub(super) samples_ns: Histogram,
    srtt_ns: u64,
    variance_ns: u64,
    /// Samples from acknowledgements that their receiver did not delay.
    prompt_ns: Histogram,
    /// Duration of the handshake, which no delayed acknowledgement prolongs.
    handshake_ns: Option<u64>,
    /// Duration of both halves of the handshake: the whole round trip, regardless of the place of the capture.
    whole_ns: Option<u64>,
    /// Data seen before this time may be a retransmission of data sent before the capture began.
    from: Instant,
}

/// In a conversation whose beginning was not captured, samples begin after this time.
const UNSURE_NS: u64 = 1_000_000_000;

/// The floor of the timeout: with Linux's TCP that of its variance, with SCTP of the whole.
const TCP_VARIANCE_FLOOR_NS: u64 = 200_000_000;
const SCTP_RTO_FLOOR_NS: u64 = 1_000_000_000;

/// With at least this many undelayed round trips, the shortest are the path's own.
const PROMPT_MIN: u64 = 32;
/// A smaller percentage of samples looks too short, because the capture lacks the packet that was answered.
const SHORTEST_PERCENT: f64 = 3.0;

/// No round trip takes longer than an hour; clocks that jump do.
const SAMPLE_NS_MAX: u64 = 3_600_000_000_000;

impl RoundTrips {
    /// The stream begins.
    pub(super) fn begin(&mut self, at: Instant, handshake_ns: Option<u64>, whole_ns: Option<u64>, is_whole: bool) {
        (self.handshake_ns, self.whole_ns) = (handshake_ns, whole_ns);
        let unsure_ns = if is_whole { 0 } else { UNSURE_NS };
        self.from = Instant::from_nanos(at.as_nanos().saturating_add(unsure_ns));
    }

    /// Returns the time after its transmission within which data cannot be acknowledged.
    pub(super) fn too_soon_ns(&self) -> Option<u64> {
        if let Some(prompt) = self.shortest_prompt_ns() {
            return Some(self.handshake_ns.map_or(prompt, |handshake| handshake.min(prompt)) / 16 * 15);
        }
        match (self.handshake_ns, self.samples_ns.min()) {
            (Some(handshake), sample) => Some(handshake.min(sample.unwrap_or(handshake)) / 4 * 3),
            // All samples may have been prolonged by delayed acknowledgements.
            (None, sample) => sample.map(|sample| sample / 5),
        }
    }

    /// Data sent once at `sent_at` was acknowledged.
    pub(super) fn record(&mut self, sent_at: Instant, acknowledged_at: Instant) {
        if sent_at < self.from {
            return;
        }
        let sample_ns = ns_between(sent_at, acknowledged_at).min(SAMPLE_NS_MAX);
        if self.samples_ns.count() == 0 {
            (self.srtt_ns, self.variance_ns) = (sample_ns, sample_ns / 2);
        } else {
            self.variance_ns = (3 * self.variance_ns + self.srtt_ns.abs_diff(sample_ns)) / 4;
            self.srtt_ns = (7 * self.srtt_ns + sample_ns) / 8;
        }
        self.samples_ns.record(sample_ns);
    }

    /// Returns a lower bound of the round trip between sender and receiver. Near the receiver, samples show only the
    /// way to it.
    pub(super) fn path_ns(&self) -> u64 {
        const UNKNOWN_NS: u64 = 3_000_000;
        self.whole_ns.unwrap_or(UNKNOWN_NS).max(self.samples_ns.min().unwrap_or(0))
    }

    /// Data sent at `sent_at`, and possibly retransmitted, was acknowledged as soon as it arrived.
    pub(super) fn record_prompt(&mut self, sent_at: Instant, acknowledged_at: Instant) {
        if sent_at >= self.from {
            self.prompt_ns.record(ns_between(sent_at, acknowledged_at).min(SAMPLE_NS_MAX));
        }
    }

    fn shortest_prompt_ns(&self) -> Option<u64> {
        let is_enough = self.prompt_ns.count() >= PROMPT_MIN;
        self.prompt_ns.percentile(SHORTEST_PERCENT).filter(|_| is_enough)
    }

    /// Returns the shortest sample so far.
    pub(super) fn min_ns(&self) -> Option<u64> {
        self.samples_ns.min().into_iter().chain(self.shortest_prompt_ns()).min()
    }

    pub(super) fn timers(&self, is_tcp: bool) -> Timers {
        let ns = Duration::from_nanos;
        if self.samples_ns.count() == 0 {
            let initial = Duration::from_secs(1);
            return Timers { rtt_min: Duration::ZERO, srtt: Duration::ZERO, rto: initial };
        }
        let variance_ns = 4 * self.variance_ns;
        let rto_ns = match is_tcp {
            true => self.srtt_ns + variance_ns.max(TCP_VARIANCE_FLOOR_NS),
            false => (self.srtt_ns + variance_ns).max(SCTP_RTO_FLOOR_NS),
        };
        Timers { rtt_min: ns(self.samples_ns.min().unwrap_or(0)), srtt: ns(self.srtt_ns), rto: ns(rto_ns) }
    }
}

/// Converts sequence numbers of 32 bits to numbers that do not wrap around, near the highest one seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unwrap {
    highest: Option<u64>,
}

impl Unwrap {
    /// Room below the first number seen, for earlier data.
    const START: u64 = 1 << 32;

    /// Begins near an unwrapped number.
    pub(super) fn at(number: u64) -> Self {
        Self { highest: Some(number) }
    }

    /// Returns the unwrapped number, or `None` before the first one seen.
    #[expect(clippy::cast_possible_truncation, reason = "the low half is what the wire has")]
    pub(super) fn near(self, number: u32) -> Option<u64> {
        let highest = self.highest?;
        Some(highest.saturating_add_signed(i64::from(number.wrapping_sub(highest as u32).cast_signed())))
    }

    /// Returns the unwrapped number and remembers it.
    pub(super) fn see(&mut self, number: u32) -> u64 {
        let unwrapped = self.near(number).unwrap_or(Self::START + u64::from(number));
        self.highest = Some(self.highest.map_or(unwrapped, |highest| highest.max(unwrapped)));
        unwrapped
    }
}

/// Returns the nanoseconds from `earlier` to `later`, or 0 if they are the other way round.
pub(super) fn ns_between(earlier: Instant, later: Instant) -> u64 {
    later.as_nanos().saturating_sub(earlier.as_nanos())
}
