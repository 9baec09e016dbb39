//! What limits the packets of one path: congestion window, burst limit, packet sizes.

use festina_recovery::undo::Window;

use super::flight::Flight;
use crate::config::Config;
use crate::congestion::Congestion;
use crate::outstanding::{CHUNKS_MAX, Tally};
use crate::path_id::PathId;
use crate::wire::{COMMON_HEADER_BYTES, Framing};

/// What limits the packets of one path.
#[derive(Debug)]
pub(super) struct PathLimits {
    pub(super) id: PathId,
    pub(super) duties: Duties,
    pub(super) congestion: Congestion,
    pub(super) burst: Burst,
    pub(super) sizes: PacketSizes,
}

/// The data that a path carries; both unless there are other paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Duties {
    /// New data (RFC 9260 §6.4).
    pub(crate) new_data: bool,
    /// Chunks that were lost, on whichever path (RFC 9260 §6.4.1).
    pub(crate) lost: bool,
    /// Its packets ask for their SACK, so that it comes on this path before a copy draws it on another.
    pub(crate) asks: bool,
}

impl Duties {
    /// Those of the only path.
    pub(crate) const ALL: Self = Self { new_data: true, lost: true, asks: false };
}

impl PathLimits {
    /// The chunks in flight on the path.
    pub(super) fn in_flight(&self, flight: &Flight) -> Tally {
        *flight.ledger.in_flight_by_path().of(self.id)
    }

    /// Payload bytes of the next new chunk in an empty packet.
    pub(super) fn next_piece_bytes(&self, flight: &Flight) -> Option<usize> {
        flight.next_piece_bytes(self.sizes.payload())
    }

    /// Returns whether a packet that leaves now may hold new data, if nothing lost is left to be sent (RFC 9260 §6.1 rules A, B, D).
    pub(super) fn allows_new_data(&self, flight: &Flight) -> bool {
        self.next_piece_bytes(flight).is_some_and(|bytes| {
            self.duties.new_data
                && self.burst.packets_left > 0
                && flight.ledger.len() < CHUNKS_MAX
                && self.congestion.allows(flight.ledger.on_the_way_bytes(self.id))
                && flight.window.allows(bytes, flight.ledger.in_flight().payload_bytes)
        })
    }

    /// Returns whether the peer's window takes the next new chunk.
    pub(super) fn fits_window(&self, flight: &Flight) -> bool {
        let in_flight_bytes = flight.ledger.in_flight().payload_bytes;
        self.next_piece_bytes(flight).is_some_and(|bytes| flight.window.allows(bytes, in_flight_bytes))
    }

    /// Returns whether new data still fits into the peer's window after all lost chunks are retransmitted.
    pub(super) fn fits_window_behind_lost(&self, flight: &Flight) -> bool {
        let (lost, in_flight) = (flight.ledger.lost(), flight.ledger.in_flight());
        let outstanding_bytes = in_flight.payload_bytes + lost.payload_bytes;
        let fits = |bytes| flight.window.allows(bytes, outstanding_bytes);
        lost.chunks == 0 || self.next_piece_bytes(flight).is_some_and(fits)
    }

    /// Number of packets that the queued data would fill.
    pub(super) fn unsent_packets(&self, flight: &Flight) -> u32 {
        u32::try_from(flight.buffer.queued_bytes().div_ceil(self.sizes.payload().max(1))).unwrap_or(u32::MAX)
    }

    /// The congestion window as it is.
    pub(super) fn window(&self) -> Window {
        Window { cwnd_bytes: self.congestion.cwnd() as u64, ssthresh_bytes: self.congestion.ssthresh() as u64 }
    }
}

/// What fits into a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketSizes {
    /// PMDCS: bytes of DATA chunks, headers included (RFC 9260 §2.3).
    pub(super) chunks: u32,
    /// The chunk that messages leave in.
    pub(super) framing: Framing,
    /// The part of the initial cwnd that depends on the address family (RFC 9260 §7.2.1).
    pub(super) initial_window: u16,
    /// Bytes of DATA chunks in the largest packet that may be searched for.
    pub(super) ceiling: u32,
}

impl PacketSizes {
    pub(super) fn new(packet_bytes_max: usize, initial_window: u16) -> Self {
        let chunks = chunks_in(packet_bytes_max);
        Self { chunks, framing: Framing::Data, initial_window, ceiling: chunks }
    }

    /// Allows the search for larger packets.
    pub(super) fn searching_to(self, packet_bytes_max: Option<usize>) -> Self {
        Self { ceiling: packet_bytes_max.map_or(self.chunks, chunks_in).max(self.chunks), ..self }
    }

    /// Bytes of a whole packet.
    pub(super) fn packet(self) -> usize {
        self.chunks() + COMMON_HEADER_BYTES
    }

    /// Messages leave in this chunk.
    pub(super) fn set_framing(&mut self, framing: Framing) {
        self.framing = framing;
    }

    pub(super) fn chunks(self) -> usize {
        usize::try_from(self.chunks).unwrap_or(usize::MAX)
    }

    /// Payload of the one chunk that fills a packet.
    pub(super) fn payload(self) -> usize {
        self.chunks().saturating_sub(self.framing.header_bytes())
    }
}

/// Bytes of DATA chunks in a packet of this size.
pub(super) fn chunks_in(packet_bytes: usize) -> u32 {
    u32::try_from(packet_bytes.saturating_sub(COMMON_HEADER_BYTES)).unwrap_or(u32::MAX) & !3
}

/// Max.Burst: maximum packets with new data that one event may release (RFC 9260 §6.1 rule D).
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    packets_max: u32,
    pub(super) packets_left: u32,
}

impl Burst {
    /// A path that is paced needs no other limit.
    pub(super) fn new(config: &Config, congestion: &Congestion) -> Self {
        let packets_max = if congestion.is_paced() { u32::MAX } else { config.limits.burst_packets_max.max(1) };
        Self { packets_max, packets_left: packets_max }
    }

    pub(super) fn restart(&mut self) {
        self.packets_left = self.packets_max;
    }

    /// Applies the release of an acknowledgement or an expiry.
    pub(super) fn release(&mut self, release: Release) {
        match release {
            Release::Same => {}
            Release::Usual => self.restart(),
            Release::Packets(packets) => self.packets_left = packets.min(self.packets_max),
        }
    }

    /// A packet with new data left.
    pub(super) fn spend(&mut self) {
        self.packets_left = self.packets_left.saturating_sub(1);
    }
}

/// Maximum packets of new data that the event releases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Release {
    /// No more than before.
    Same,
    /// The default of any event.
    #[default]
    Usual,
    /// This many.
    Packets(u32),
}
