//! When the next packet may leave: packets are spread over the round trip instead of leaving as bursts.
//!
//! A leaky bucket in time. Each packet takes the time that its bytes need at the rate. A sender may run ahead of the rate by
//! [`BURST_PACKETS`], or by [`BURST_TIME`] if that is more; then it waits until a packet may leave, or [`QUANTUM`] of packets if that is
//! more, so that a fast path does not need a timer for each packet.

use festina_units::{Duration, Instant};

/// Packets that leave without waiting after a pause: the initial window of RFC 6928.
const BURST_PACKETS: u64 = 10;

/// The same at high rates, as time at the rate: a timer that is a millisecond late costs nothing.
const BURST_TIME: Duration = Duration::from_millis(2);

/// Data sent per timer at high rates, as time at the rate. Linux's TCP sends as much (`sk_pacing_shift`).
const QUANTUM: Duration = Duration::from_millis(1);

/// The rate at which packets may be sent: `bytes` in each `per`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacingRate {
    /// Bytes of DATA chunks; 0 counts as 1.
    pub bytes: u64,
    /// The time that they take.
    pub per: Duration,
    /// Bytes of a full packet; up to ten packets may be sent at once.
    pub packet_bytes: usize,
}

impl PacingRate {
    /// Returns the transmission time of `bytes`.
    fn time_for(self, bytes: u64) -> Duration {
        let per_ns = u64::try_from(self.per.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(bytes.saturating_mul(per_ns) / self.bytes.max(1))
    }
}

/// Spreads the packets of one path.
#[derive(Debug, Default)]
pub(crate) struct Pacer {
    /// When all that has left would have left at the rate.
    drained_at: Instant,
    /// Nothing leaves before.
    resumes_at: Option<Instant>,
}

impl Pacer {
    /// A packet left.
    pub(super) fn sent(&mut self, now: Instant, bytes: usize, rate: PacingRate) {
        self.drained_at = self.drained_at.max(now).saturating_add(rate.time_for(bytes as u64));
        let packet = rate.time_for(rate.packet_bytes as u64);
        let ahead = self.drained_at.saturating_duration_since(now);
        if ahead.saturating_add(packet) <= BURST_TIME {
            self.resumes_at = None;
            return;
        }
        let burst = rate.time_for(BURST_PACKETS.saturating_mul(rate.packet_bytes as u64)).max(BURST_TIME);
        let is_full = ahead.saturating_add(packet) > burst;
        self.resumes_at = is_full.then(|| {
            let wait = ahead.saturating_add(packet.max(QUANTUM)).saturating_sub(burst);
            now.saturating_add(wait.max(Duration::from_nanos(1)))
        });
    }

    /// Returns whether a packet may leave.
    pub(super) fn allows(&self, now: Instant) -> bool {
        self.resumes_at.is_none_or(|at| at <= now)
    }

    /// When the next packet may be sent, if none may be sent now.
    pub(super) fn resumes_at(&self) -> Option<Instant> {
        self.resumes_at
    }

    /// The wait may be over.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.resumes_at.take_if(|at| *at <= now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: usize = 1_000;

    fn rate(bytes_per_ms: u64) -> PacingRate {
        PacingRate { bytes: bytes_per_ms * 40, per: Duration::from_millis(40), packet_bytes: PACKET }
    }

    /// When each of `count` packets leaves that are ready at once.
    fn departures(pacer: &mut Pacer, rate: PacingRate, mut now: Instant, count: usize) -> Vec<Instant> {
        let mut departures = Vec::new();
        while departures.len() < count {
            if pacer.allows(now) {
                pacer.sent(now, PACKET, rate);
                departures.push(now);
            } else {
                let at = pacer.resumes_at().expect("it waits for a time");
                assert!(at > now, "the deadline lies ahead");
                now = at;
                pacer.handle_timeout(now);
                assert!(pacer.allows(now));
            }
        }
        departures
    }

    #[test]
    fn ten_packets_leave_at_once_and_the_others_at_the_rate() {
        let departures = departures(&mut Pacer::default(), rate(500), Instant::from_secs(1), 31);
        assert!(departures[..10].iter().all(|&at| at == Instant::from_secs(1)));
        for pair in departures[9..].windows(2) {
            assert_eq!(pair[1] - pair[0], Duration::from_millis(2));
        }
    }

    #[test]
    fn a_fast_path_sends_a_millisecond_of_packets_per_deadline() {
        let departures = departures(&mut Pacer::default(), rate(100 * PACKET as u64), Instant::from_secs(1), 1_200);
        for (number, at) in departures.iter().enumerate() {
            // Two milliseconds' worth at once, then one each millisecond.
            let millis = (number as u64 / 100).saturating_sub(1);
            assert_eq!(*at - departures[0], Duration::from_millis(millis), "packet {number}");
        }
    }

    #[test]
    fn time_without_packets_is_not_saved_up_beyond_the_burst() {
        let mut pacer = Pacer::default();
        departures(&mut pacer, rate(500), Instant::from_secs(1), 5);
        let later = departures(&mut pacer, rate(500), Instant::from_secs(100), 31);
        assert_eq!(later.iter().filter(|&&at| at == later[0]).count(), 10);
    }

    #[test]
    fn extreme_rates_neither_overflow_nor_stop_for_ever() {
        for (bytes, per) in [(0, Duration::MAX), (u64::MAX, Duration::ZERO)] {
            let rate = PacingRate { bytes, per, packet_bytes: PACKET };
            let mut pacer = Pacer::default();
            for _ in 0..20 {
                pacer.sent(Instant::from_secs(1), PACKET, rate);
            }
        }
    }
}
