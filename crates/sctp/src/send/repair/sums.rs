//! Sums of chunks as the sender sees them: when chunks are protected, and which the peer may lack.

use festina_units::{Duration, Instant};

use super::redundancy::RedundancyAccount;
use super::{PathLimits, Purpose, Repair};
use crate::outstanding::{ChunkState, Ledger};
use crate::send::flight::Flight;
use crate::wire::{FragmentHeader, PacketBuilder};

impl Repair {
    /// A chunk leaves for the first time, and is protected if the stream is thin.
    #[inline]
    pub(in crate::send) fn protect(&mut self, now: Instant, tsn: u64, header: &FragmentHeader, ledger: &Ledger) {
        if let Some((redundancy, srtt)) = self.coded()
            && let Some(chunk) = ledger.get(tsn)
        {
            redundancy.protect(now, srtt, tsn, header, chunk);
        }
    }

    /// Writes the sums that are owed into a packet with new data, or alone. Returns their bytes.
    #[inline]
    pub(in crate::send) fn write_sums(
        &mut self,
        now: Instant,
        with_new_data: bool,
        flight: &Flight,
        limits: &PathLimits,
        packet: &mut PacketBuilder<'_>,
    ) -> usize {
        let Some((redundancy, srtt)) = self.coded() else { return 0 };
        let way = srtt / 2;
        let new_bytes = with_new_data.then(|| flight.buffer.queued_chunk_bytes_max(limits.sizes.framing));
        redundancy.write_sums(now, srtt, |tsn| is_missing(flight, tsn, now, way), new_bytes, packet)
    }

    /// The account and the round trip of a thin stream whose chunks a code may protect.
    #[inline]
    fn coded(&mut self) -> Option<(&mut RedundancyAccount, Duration)> {
        let redundancy = self.redundancy.as_mut().filter(|redundancy| redundancy.codes)?;
        self.rtt.srtt().filter(|_| self.book.is_thin()).map(|srtt| (&mut **redundancy, srtt))
    }

    /// A packet with sums alone left.
    pub(in crate::send) fn on_sums_left(&mut self, now: Instant, bytes: usize) {
        self.owed.paid(Purpose::Sums);
        if let (Some(redundancy), Some(srtt)) = (&mut self.redundancy, self.rtt.srtt()) {
            redundancy.sums_left(now, bytes, srtt);
        }
    }

    /// The peer has computed an outstanding chunk, which it is about to acknowledge. It says nothing of the round trip.
    pub(in crate::send) fn on_recovered(&mut self, tsn: u64) {
        if self.round_trip.timed_tsn() == Some(tsn) {
            self.round_trip.forget();
        }
        self.redundancy.iter_mut().for_each(|redundancy| redundancy.recovered(tsn));
    }

    /// Time from a chunk to the last sum that is expected to repair it.
    pub(in crate::send) fn sums_take(&self) -> Duration {
        let redundancy = self.redundancy.as_ref().filter(|redundancy| redundancy.codes && self.is_thin());
        redundancy.map_or(Duration::ZERO, |redundancy| redundancy.sums_take())
    }

    /// By how much a probe is to wait longer than its `timeout`: a sum may repair the chunk until then, or acknowledgements are only late.
    pub(in crate::send) fn probe_delay(&self, timeout: Duration) -> Duration {
        let Some(redundancy) = self.redundancy.as_ref().filter(|_| self.is_thin()) else { return Duration::ZERO };
        let sums = if redundancy.codes { redundancy.sums_lateness() } else { Duration::ZERO };
        sums + redundancy.probe_delay(timeout, self.rtt.srtt().unwrap_or_default())
    }
}

/// Returns whether the peer may lack a chunk, and is to have it ahead of a retransmission.
pub(super) fn is_missing(flight: &Flight, tsn: u64, now: Instant, way: Duration) -> bool {
    flight.ledger.get(tsn).is_some_and(|chunk| {
        matches!(chunk.state, ChunkState::InFlight | ChunkState::Lost(_)) && flight.is_worth_protecting(chunk, now, way)
    })
}
