//! Congestion marks (RFC 3168), reported by ECNE and answered by CWR (RFC 4960 appendix A).
//!
//! The receiver of a marked packet puts an ECNE in front of every SACK until it is answered. The sender cuts its window once per round trip, and
//! answers each report with the next packet that it sends anyway. So marks cost no packets, except that the SACK with the first report is sent at
//! once.

use festina_units::EcnCodepoint;

use super::Association;
use super::extensions::Extensions;
use super::packet::Arrival;
use crate::stats::Stats;
use crate::wire::{Chunk, ChunkOut, Packet, PacketBuilder, Tsn};

/// Only associations that met a mark have this.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// To be reported with each SACK until the peer answers: the lowest TSN of the last packet that came with the mark.
    echo: Option<Tsn>,
    /// To be answered: the TSN of the peer's last report.
    answer: Option<Tsn>,
    /// Packets marked since that answer.
    packets_open: u32,
    packets_marked: u64,
    marks_reported: u64,
}

impl Association {
    /// The handshake is complete: if both ends support ECN, routers may mark data from the next packet on.
    pub(super) fn begin_marking(&mut self) {
        if self.peer.agreed.contains(Extensions::ECN) {
            self.paths.iter_mut().for_each(|path| path.sending.begin_marking());
        }
    }

    /// A packet with data came. Whether it bears the network's mark is looked at here.
    #[inline]
    pub(super) fn note_mark(&mut self, arrival: &Arrival<'_>) {
        if arrival.ecn == EcnCodepoint::CongestionExperienced && self.peer.agreed.contains(Extensions::ECN) {
            self.marked_packet_came(arrival);
        }
    }

    #[cold]
    fn marked_packet_came(&mut self, arrival: &Arrival<'_>) {
        let Some(receiver) = &mut self.receiver else { return };
        let Some(tsn) = lowest_tsn(arrival.bytes) else { return };
        let marks = self.control.new_marks();
        marks.packets_marked += 1;
        marks.packets_open = marks.packets_open.saturating_add(1);
        // Packets that were overtaken report nothing that is not reported already.
        let is_news = marks.echo.is_none_or(|echo| is_above(tsn, echo));
        if is_news && marks.echo.replace(tsn).is_none() {
            receiver.request_sack();
        }
    }

    /// ECNE: the network marked a packet of this side. A TSN that was never sent is passed over.
    pub(super) fn handle_ecne(&mut self, arrival: &mut Arrival<'_>, tsn: Tsn) {
        // One packet of the peer reports one mark, and each costs a judgement of all timers.
        if core::mem::replace(&mut arrival.had_ecne, true) {
            return;
        }
        if self.state.takes_sack() && self.sender.handle_mark(arrival.now, &mut self.paths, tsn) {
            let marks = self.control.new_marks();
            marks.answer = Some(tsn);
            marks.marks_reported += 1;
        }
    }

    /// Handles CWR: the peer has slowed down for marks up to this TSN.
    pub(super) fn handle_cwr(&mut self, tsn: Tsn) {
        if let Some(marks) = self.control.marks()
            && marks.echo.take_if(|echo| !is_above(*echo, tsn)).is_some()
        {
            marks.packets_open = 0;
        }
    }
}

impl Marks {
    pub(super) fn fill_stats(&self, stats: &mut Stats) {
        stats.received.packets_marked = self.packets_marked;
        stats.sent.marks_reported = self.marks_reported;
    }

    /// Nothing is to be reported or answered any more.
    pub(super) fn forget(&mut self) {
        (self.echo, self.answer, self.packets_open) = (None, None, 0);
    }

    /// Writes the answer that the peer waits for.
    pub(super) fn write_cwr(&mut self, packet: &mut PacketBuilder<'_>) {
        self.answer.take_if(|tsn| packet.chunk(&ChunkOut::Cwr(*tsn)));
    }

    /// Writes ECNE if a mark has to be reported. A SACK follows.
    pub(super) fn write_ecne(&self, packet: &mut PacketBuilder<'_>) {
        if let Some(tsn) = self.echo {
            packet.chunk(&ChunkOut::Ecne { tsn, packets: self.packets_open });
        }
    }
}

/// The lowest TSN of the DATA or I-DATA chunks in a packet that passed all checks.
fn lowest_tsn(packet: &[u8]) -> Option<Tsn> {
    let chunks = Packet::parse_unverified(packet).ok()?.chunks();
    let tsns = chunks.map_while(Result::ok).filter_map(|chunk| match chunk {
        Chunk::Data(data) => Some(data.tsn),
        Chunk::IData(data) => Some(data.tsn),
        _ => None,
    });
    tsns.reduce(|lowest, tsn| if is_above(lowest, tsn) { tsn } else { lowest })
}

/// Returns whether `one` comes behind `other` in serial order (RFC 9260 §1.5).
fn is_above(one: Tsn, other: Tsn) -> bool {
    one.0.wrapping_sub(other.0).cast_signed() > 0
}
