//! Early fast retransmit as in FreeBSD's SCTP from 2005 to 2011: a timer of about a round trip that retransmits while
//! the window is not full, without the consequences of a timeout.
//!
//! 1. After each DATA chunk sent and each SACK received: [`timer_runs`]; if so, (re)start the timer with [`delay`],
//!    otherwise stop it. There is one timer per destination.
//! 2. When it expires: walk the outstanding chunks from the newest to the oldest and mark those that [`Marking::mark`]
//!    selects for retransmission, until it returns stop. Skip chunks already marked, acknowledged or abandoned.
//! 3. If anything was marked ([`Marking::has_marked`]): send it, as far as the window allows, then apply
//!    [`window_after`]. In either case return to 1.
//!
//! As each transmission restarts the timer, it expires on a stream that sends more often than the delay (four times a
//! second, by default) only when the stream pauses.
//!
//! The stack's mechanism was off by default (`net.inet.sctp.early_fast_retran`); P10 §2 and §6.4 measure it enabled.

use festina_units::{Duration, Instant};

/// Default minimum of the delay (`early_fast_retran_msec`).
pub const DELAY_MIN_DEFAULT: Duration = Duration::from_millis(250);

/// Lowest configurable minimum.
pub const DELAY_MIN: Duration = Duration::from_millis(20);

/// Returns whether the timer runs after a DATA chunk was sent or a SACK received: something is outstanding and the
/// window is not full, so that fewer SACKs can arrive than fast retransmit may need.
#[must_use]
pub fn timer_runs(outstanding_chunks: usize, in_flight_bytes: u64, cwnd_bytes: u64) -> bool {
    outstanding_chunks > 0 && in_flight_bytes < cwnd_bytes
}

/// Returns the delay of the timer: SRTT + 2·RTTVAR, or a quarter of RTO.Initial before the first measurement; at least
/// `floor`, which is at least [`DELAY_MIN`].
///
/// The arithmetic is the stack's, in whole milliseconds: it keeps 8·SRTT and 4·RTTVAR, and computes half of the sum of
/// a quarter of each.
#[must_use]
pub fn delay(srtt: Option<Duration>, rttvar: Option<Duration>, rto_initial: Duration, floor: Duration) -> Duration {
    let millis = match srtt.zip(rttvar) {
        Some((srtt, rttvar)) => {
            let (scaled_srtt, scaled_rttvar) =
                (srtt.saturating_mul(8).as_millis(), rttvar.saturating_mul(4).as_millis());
            ((scaled_srtt >> 2) + scaled_rttvar) >> 1
        }
        None => (rto_initial / 4).as_millis(),
    };
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)).max(floor).max(DELAY_MIN)
}

/// An outstanding chunk.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When it was last sent.
    pub sent: Instant,
    /// Its size.
    pub bytes: u64,
}

/// The treatment of a chunk in the walk.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum MarkStep {
    /// Mark it for retransmission.
    Mark,
    /// Skip it: it was sent too recently.
    Pass,
    /// Stop: the marked chunks already exceed the window.
    Stop,
}

/// The walk over the outstanding chunks after the timer has expired.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Marking {
    sent_before: Instant,
    room_bytes: u64,
    marked_bytes: u64,
}

impl Marking {
    /// Starts the walk after an expiry at `now` of a timer that had been running for `delay`.
    #[must_use]
    pub fn new(now: Instant, delay: Duration, in_flight_bytes: u64, cwnd_bytes: u64) -> Self {
        Self { sent_before: now - delay, room_bytes: cwnd_bytes.saturating_sub(in_flight_bytes), marked_bytes: 0 }
    }

    /// Decides about the next chunk, from the newest to the oldest. The chunk that exceeds the window is still marked;
    /// the one after it is not.
    pub fn mark(&mut self, chunk: Sent) -> MarkStep {
        if self.marked_bytes > self.room_bytes {
            MarkStep::Stop
        } else if chunk.sent < self.sent_before {
            self.marked_bytes = self.marked_bytes.saturating_add(chunk.bytes);
            MarkStep::Mark
        } else {
            MarkStep::Pass
        }
    }

    /// Returns whether anything was marked.
    #[must_use]
    pub fn has_marked(&self) -> bool {
        self.marked_bytes > 0
    }
}

/// Returns cwnd and ssthresh in bytes after an early fast retransmission: cwnd minus one packet of `mtu_bytes`, as long
/// as one remains, and ssthresh just below it, so that the window grows linearly from there.
#[must_use]
pub fn window_after(cwnd_bytes: u64, ssthresh_bytes: u64, mtu_bytes: u64) -> (u64, u64) {
    let cwnd_bytes = if cwnd_bytes > mtu_bytes { cwnd_bytes - mtu_bytes } else { cwnd_bytes };
    let ssthresh_bytes = if cwnd_bytes < ssthresh_bytes { cwnd_bytes.saturating_sub(1) } else { ssthresh_bytes };
    (cwnd_bytes, ssthresh_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn measured(srtt: u64, rttvar: u64, floor: u64) -> Duration {
        delay(Some(ms(srtt)), Some(ms(rttvar)), ms(3_000), ms(floor))
    }

    #[test]
    fn the_delay_is_srtt_and_twice_rttvar() {
        assert_eq!(measured(400, 30, 250), ms(460));
        let odd = delay(Some(Duration::from_micros(400_600)), Some(Duration::from_micros(30_300)), ms(3_000), ms(250));
        assert_eq!(odd, ms(461));
    }

    #[test]
    fn the_delay_has_a_floor_and_the_floor_has_one() {
        assert_eq!(delay(Some(ms(100)), Some(ms(10)), ms(3_000), DELAY_MIN_DEFAULT), ms(250));
        assert_eq!(measured(100, 10, 0), ms(120));
        assert_eq!(measured(5, 1, 0), DELAY_MIN);
    }

    #[test]
    fn without_a_measurement_the_delay_is_a_quarter_of_the_initial_rto() {
        assert_eq!(delay(None, None, ms(3_000), DELAY_MIN_DEFAULT), ms(750));
    }

    #[test]
    fn the_timer_runs_while_something_is_outstanding_and_the_window_not_filled() {
        assert!(timer_runs(1, 100, 4_380));
        assert!(!timer_runs(0, 0, 4_380));
        assert!(!timer_runs(50, 4_380, 4_380));
    }

    #[test]
    fn only_chunks_older_than_the_delay_are_marked() {
        let mut marking = Marking::new(Instant::from_millis(1_000), ms(250), 300, 4_380);
        let chunk = |millis| Sent { sent: Instant::from_millis(millis), bytes: 100 };
        assert_eq!(marking.mark(chunk(900)), MarkStep::Pass);
        assert_eq!(marking.mark(chunk(750)), MarkStep::Pass);
        assert!(!marking.has_marked());
        assert_eq!(marking.mark(chunk(749)), MarkStep::Mark);
        assert!(marking.has_marked());
    }

    #[test]
    fn marking_stops_behind_the_chunk_that_exceeds_the_window() {
        let mut marking = Marking::new(Instant::from_millis(1_000), ms(250), 1_000, 1_250);
        let old = Sent { sent: Instant::ZERO, bytes: 100 };
        let steps: Vec<_> = (0..4).map(|_| marking.mark(old)).collect();
        assert_eq!(steps, [MarkStep::Mark, MarkStep::Mark, MarkStep::Mark, MarkStep::Stop]);
    }

    #[test]
    fn the_window_loses_one_packet_and_leaves_slow_start() {
        assert_eq!(window_after(6_000, 65_536, 1_500), (4_500, 4_499));
        assert_eq!(window_after(6_000, 3_000, 1_500), (4_500, 3_000));
        assert_eq!(window_after(1_500, 1_000, 1_500), (1_500, 1_000));
    }

    proptest! {
        #[test]
        fn no_numbers_overflow_and_no_window_grows_or_vanishes(
            srtt in any::<u64>(),
            rttvar in any::<u64>(),
            cwnd in 1..=u64::MAX,
            ssthresh in any::<u64>(),
            mtu in any::<u64>(),
        ) {
            let waits = delay(Some(Duration::new(srtt, 0)), Some(Duration::new(rttvar, 0)), ms(1), ms(0));
            prop_assert!(waits >= DELAY_MIN);
            let (cwnd_after, ssthresh_after) = window_after(cwnd, ssthresh, mtu);
            prop_assert!(cwnd_after >= 1 && cwnd_after <= cwnd && ssthresh_after <= ssthresh);
        }
    }
}
