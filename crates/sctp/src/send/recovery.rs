//! What the loss-recovery decisions of `festina_recovery` are made from: the measurements, the profile and the state of recovery.

use festina_recovery::Mechanisms;
use festina_recovery::backoff::ExpirySeries;
use festina_recovery::loss_timer::timeout_interval;
use festina_recovery::profile::Rules;
use festina_recovery::rtt::RttEstimator;
use festina_recovery::thin::ThinDetector;
use festina_units::{Duration, Instant};

use crate::config::Config;
use crate::wire::Sack;

/// Gap ack blocks that the thin-stream detector is shown; a stream with more of them is not thin.
const BLOCKS_SHOWN_MAX: usize = 64;

/// Packets in flight for which memory is kept while nothing is outstanding.
const PACKETS_KEPT: usize = 4;

/// Measurements and mechanisms of the one path.
#[derive(Debug)]
pub(super) struct Recovery {
    mechanisms: Mechanisms,
    rto_max: Duration,
    pub(super) rtt: RttEstimator,
    pub(super) series: ExpirySeries,
    pub(super) detector: ThinDetector,
    /// The most packets that were in flight since the detector last gave memory back.
    packets_max: usize,
    thin: bool,
    /// The peer's window is being probed: the standard's rules hold, so that probes back off (RFC 9260 §6.1 rule A).
    window_probing: bool,
}

impl Recovery {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            mechanisms: config.mechanisms,
            rto_max: config.timers.rto_max,
            rtt: RttEstimator::new(config.timers.rto_initial),
            series: ExpirySeries::default(),
            detector: ThinDetector::new(),
            packets_max: 0,
            thin: false,
            window_probing: false,
        }
    }

    /// Forgets what was measured (RFC 9260 §5.2.4.1).
    pub(super) fn reset(&mut self, rto_initial: Duration) {
        self.rtt = RttEstimator::new(rto_initial);
        self.series = ExpirySeries::default();
        self.detector = ThinDetector::new();
        self.window_probing = false;
    }

    pub(super) fn mechanisms(&self) -> &Mechanisms {
        &self.mechanisms
    }

    pub(super) fn set_mechanisms(&mut self, mechanisms: &Mechanisms) {
        self.mechanisms = *mechanisms;
    }

    /// Judges anew which rules hold.
    pub(super) fn refresh(&mut self, window_probing: bool) {
        self.thin = self.detector.is_thin(self.mechanisms.thin_detection, self.rtt.srtt());
        self.window_probing = window_probing;
    }

    /// Whether the stream was thin when last judged.
    pub(super) fn is_thin(&self) -> bool {
        self.thin
    }

    /// The rules that hold now.
    pub(super) fn rules(&self) -> &Rules {
        if self.window_probing { &Rules::RFC9260 } else { self.mechanisms.rules(self.thin) }
    }

    /// The retransmission timeout, backoff included.
    pub(super) fn rto(&self) -> Duration {
        timeout_interval(self.rules(), &self.rtt, &self.series, self.rto_max)
    }

    /// Takes an unambiguous round-trip time; backing off ends (RFC 9260 §6.3.3).
    pub(super) fn sample(&mut self, rtt: Duration) {
        self.rtt.sample(rtt);
        self.series.measured();
    }

    /// T3-rtx expired after `waited`. An expiry that does not back off is no step of an exponential backoff either: a stream that
    /// ceases to be thin begins its backing off then (P10 §5.3).
    pub(super) fn timed_out(&mut self, waited: Duration) {
        if self.rules().backoff.is_linear(&self.series) {
            self.series.probed(waited);
        } else {
            self.series.timed_out(waited);
        }
    }

    /// A packet with DATA left.
    pub(super) fn packet_sent(&mut self, now: Instant, tsn_highest: u64, has_new_data: bool) {
        self.detector.packet_sent(now, tsn_highest, has_new_data);
        self.packets_max = self.packets_max.max(self.detector.in_flight());
    }

    /// Nothing is outstanding: memory that a thin stream does not need is given back.
    pub(super) fn shrink(&mut self) {
        if self.packets_max > PACKETS_KEPT {
            self.detector.shrink();
            self.packets_max = 0;
        }
    }

    /// The stream is idle: gives back even what a thin stream needs.
    pub(super) fn give_back_memory(&mut self) {
        self.detector.shrink();
        self.packets_max = 0;
    }

    /// Shows the thin-stream detector a SACK that has been applied.
    pub(super) fn observe_sack(&mut self, sack: &Sack<'_>, cumulative: u64) {
        let blocks = sack.gap_ack_blocks();
        if blocks.len() == 0 {
            self.detector.sack(cumulative, &[]);
            return;
        }
        let mut shown = [(0, 0); BLOCKS_SHOWN_MAX];
        let mut count = 0;
        for (slot, (start, end)) in shown.iter_mut().zip(blocks) {
            *slot = (cumulative + u64::from(start), cumulative + u64::from(end));
            count += 1;
        }
        self.detector.sack(cumulative, shown.get(..count).unwrap_or_default());
    }
}
