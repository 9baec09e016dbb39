//! Which rules hold: the profile, the thin-stream detector, and whether the peer's window is being probed.

use std::sync::Arc;

use festina_recovery::Mechanisms;
use festina_recovery::loss_rate::KnownLoss;
use festina_recovery::profile::{ImmediateSack, Rules};
use festina_recovery::redundancy::Redundancy;
use festina_recovery::thin::{ThinDetection, ThinDetector};
use festina_units::{Duration, Instant};

use crate::wire::{Sack, gap_ack_block};

/// Gap ack blocks that the thin-stream detector is shown; a stream with more of them is not thin.
const BLOCKS_SHOWN_MAX: usize = 64;

/// Few enough gap ack blocks that room for all of [`BLOCKS_SHOWN_MAX`] would cost more than the rest of the work.
const FEW_BLOCKS: usize = 4;

/// Above this number of outstanding chunks a stream is not thin, regardless of the detector. Some rules of thin streams look at each of them for
/// every packet, and a peer that holds back its cumulative TSN ack can make the list long.
const OUTSTANDING_THIN_MAX: usize = 2_048;

/// Packets in flight for which memory is kept while nothing is outstanding.
const PACKETS_KEPT: u32 = 4;

/// DATA that may leave at once over a path that nothing is known of: ten packets (RFC 6928), of 1,460 bytes each.
const FIRST_FLIGHT_BYTES_MAX: u32 = 14_600;

/// Outstanding data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outstanding {
    pub(super) chunks: usize,
    /// Bytes of the chunks in flight or marked as lost.
    pub(super) bytes: usize,
    /// Nothing waits behind it.
    pub(super) is_all: bool,
}

/// The profile and what decides between its rule sets.
#[derive(Debug)]
pub(super) struct RuleBook {
    mechanisms: Arc<Mechanisms>,
    detector: ThinDetector,
    /// The most packets that were in flight since the detector last gave memory back.
    packets_max: u32,
    thin: bool,
    /// Judged when a packet with new data left, and not since.
    judged_at_sending: bool,
    /// Bytes of new DATA that ever left, as far as that matters.
    new_bytes: u32,
    /// The peer computes lost chunks from sums.
    pub(super) peer_decodes: bool,
    /// The standard's rules hold, so that probes of the window back off (RFC 9260 §6.1 rule A).
    probing_window: bool,
    /// The loss estimate before the copy state was allocated. It takes no extra space here.
    pub(super) known_loss: KnownLoss,
}

impl RuleBook {
    pub(super) fn new(mechanisms: Arc<Mechanisms>) -> Self {
        Self {
            mechanisms,
            detector: ThinDetector::new(),
            packets_max: 0,
            thin: false,
            judged_at_sending: false,
            new_bytes: 0,
            peer_decodes: false,
            probing_window: false,
            known_loss: KnownLoss::default(),
        }
    }

    pub(super) fn mechanisms(&self) -> &Mechanisms {
        &self.mechanisms
    }

    pub(super) fn set_mechanisms(&mut self, mechanisms: &Mechanisms) {
        self.mechanisms = Arc::new(*mechanisms);
    }

    /// Returns the redundancy that the mechanisms ask for, as far as the peer knows its means.
    pub(super) fn redundancy(&self) -> Redundancy {
        let asked = self.mechanisms.redundancy;
        if self.peer_decodes { asked } else { asked.without_code() }
    }

    /// Returns whether the mechanisms ask for anything that depends on the measured loss: copies, or SACKs where they are needed.
    pub(super) fn needs_account(&self) -> bool {
        self.mechanisms.redundancy != Redundancy::Off || self.mechanisms.thin.immediate_sack == ImmediateSack::Needed
    }

    /// Re-evaluates the rules for this outstanding data.
    pub(super) fn judge(&mut self, probing_window: bool, outstanding: Outstanding, srtt: Option<Duration>) {
        let detection = self.mechanisms.thin_detection;
        self.thin = outstanding.chunks <= OUTSTANDING_THIN_MAX
            && (self.detector.is_thin(detection, srtt) || self.is_end_of_first_flight(detection, outstanding));
        self.probing_window = probing_window;
        self.judged_at_sending = false;
    }

    /// Returns whether everything ever written fitted into the first flight, and the remaining data is no more than a light stream has in flight.
    /// Such a flow is harmless even if it began fast, and no later data would reveal its losses.
    fn is_end_of_first_flight(&self, detection: ThinDetection, outstanding: Outstanding) -> bool {
        let ThinDetection::Light { bytes_max, .. } = detection else { return false };
        self.fits_first_flight(outstanding.is_all)
            && outstanding.bytes <= usize::try_from(bytes_max).unwrap_or(usize::MAX)
    }

    /// Returns whether everything ever written fitted into the first flight; `is_all` if the queue is empty.
    fn fits_first_flight(&self, is_all: bool) -> bool {
        is_all && self.new_bytes <= FIRST_FLIGHT_BYTES_MAX
    }

    /// Returns whether the stream was thin when last judged.
    pub(super) fn is_thin(&self) -> bool {
        self.thin
    }

    /// The rules that hold now.
    pub(super) fn rules(&self) -> &Rules {
        if self.probing_window { &Rules::RFC9260 } else { self.mechanisms.rules(self.thin) }
    }

    /// Returns whether the peer's closed window is being probed.
    pub(super) fn is_probing_window(&self) -> bool {
        self.probing_window
    }

    /// RTO.Min of the stream. A probe of the peer's window backs off by the standard's rules, but from this.
    pub(super) fn rto_min(&self) -> Duration {
        self.mechanisms.rules(self.thin).rto_min
    }

    /// A packet left, with `new_bytes` of new DATA.
    pub(super) fn packet_sent(&mut self, now: Instant, tsn_highest: u64, new_bytes: usize, srtt: Option<Duration>) {
        self.detector.packet_sent(now, tsn_highest, new_bytes > 0);
        self.packets_max = self.packets_max.max(self.packets_in_flight());
        if new_bytes > 0 {
            self.new_bytes = self.new_bytes.saturating_add(u32::try_from(new_bytes).unwrap_or(u32::MAX));
            self.detector.new_data_sent(now, u32::try_from(new_bytes).unwrap_or(u32::MAX), srtt);
        }
    }

    /// The last judgement was made because a packet left; the detector has seen this instant only if it held new data.
    pub(super) fn judged_at_sending(&mut self, has_new_data: bool) {
        self.judged_at_sending = has_new_data;
    }

    /// Returns whether another packet needs no judgement: one more at the same instant makes no stream thin, unless it may be the end of a first
    /// flight.
    pub(super) fn stays_thick(&self, same_instant: bool, is_all: bool) -> bool {
        let is_judged = same_instant && self.judged_at_sending && !self.thin && !self.probing_window;
        is_judged && !self.fits_first_flight(is_all)
    }

    /// Packets in flight.
    pub(super) fn packets_in_flight(&self) -> u32 {
        u32::try_from(self.detector.in_flight()).unwrap_or(u32::MAX)
    }

    /// T3-rtx expired.
    pub(super) fn timed_out(&mut self) {
        self.detector.timed_out();
    }

    /// Shows the detector an acknowledgement that has been applied.
    pub(super) fn acknowledged(&mut self, sack: Option<&Sack<'_>>, cumulative: u64) {
        let gaps = sack.map_or(&[][..], |sack| sack.gap_ack_block_bytes());
        let gaps = gaps.get(..BLOCKS_SHOWN_MAX).unwrap_or(gaps);
        let Some(highest) = gaps.last().map(|&gap| cumulative + u64::from(gap_ack_block(gap).1)) else {
            return self.detector.sack(cumulative, &[]);
        };
        if self.detector.is_above(cumulative) && self.detector.is_above(highest) {
            // A thick stream: only later packets are remembered.
            return;
        }
        match gaps.len() {
            ..=FEW_BLOCKS => self.show::<FEW_BLOCKS>(cumulative, gaps),
            _ => self.show::<BLOCKS_SHOWN_MAX>(cumulative, gaps),
        }
    }

    /// Shows the detector these gap ack blocks, `N` at most.
    fn show<const N: usize>(&mut self, cumulative: u64, gaps: &[[u8; 4]]) {
        let mut shown = [(0, 0); N];
        for (slot, &gap) in shown.iter_mut().zip(gaps) {
            let (start, end) = gap_ack_block(gap);
            *slot = (cumulative + u64::from(start), cumulative + u64::from(end));
        }
        self.detector.sack(cumulative, shown.get(..gaps.len()).unwrap_or_default());
    }

    /// Nothing is outstanding: gives back memory that a thin stream does not need.
    pub(super) fn shrink(&mut self) {
        if self.packets_max > PACKETS_KEPT {
            self.give_back_memory();
        }
    }

    /// Gives back even the memory that a thin stream needs.
    pub(super) fn give_back_memory(&mut self) {
        self.detector.shrink();
        self.packets_max = 0;
    }
}

impl super::Repair {
    /// The thin-stream detector, for packets on other paths of the association.
    pub(in crate::send) fn detector(&mut self) -> &mut ThinDetector {
        &mut self.book.detector
    }
}
