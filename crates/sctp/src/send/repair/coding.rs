//! Sums of the last chunks of a thin stream (`festina_code`): which chunks are in them, and when they leave in REPAIR chunks.

use festina_code::{Encoder, WINDOW_MAX};
use festina_recovery::redundancy::{Code, RATE_PARTS};
use festina_units::{Duration, Instant, OptionalInstant};

use crate::outstanding::Chunk;
use crate::wire::{ChunkOut, FragmentHeader, PacketBuilder, Tsn};

/// Sums that may be owed at once.
const OWED_MAX: u32 = 4 * RATE_PARTS;

/// Reports of recovered chunks that may wait for their acknowledgement.
const RECOVERED_MAX: usize = 16;

/// The encoder of a path, from the first chunk that a code protects until no protection is needed.
#[derive(Debug, Default)]
pub(super) struct Coding {
    encoder: Encoder,
    /// The chunk that is taken, or the sum that is written.
    buffer: Vec<u8>,
    last_tsn: u64,
    /// The last chunk that sums protected and no copies.
    last_coded: u64,
    /// Sums that are owed for the packets that left, in parts of [`RATE_PARTS`].
    owed: u32,
    /// When they leave in a packet of their own.
    due_at: OptionalInstant,
    /// Mean time between packets with new chunks.
    gap: Duration,
    /// Packets to the last sum that is expected to repair a chunk.
    reach: u8,
    /// The same while copies protect the stream.
    last_reach: u8,
    /// Chunks that the peer has computed and not acknowledged yet.
    recovered: Vec<u64>,
}

impl Coding {
    /// A chunk leaves for the first time.
    pub(super) fn protect(&mut self, tsn: u64, header: &FragmentHeader, chunk: &Chunk) {
        self.buffer.clear();
        header.write_symbol(chunk.framing(), &chunk.payload, &mut self.buffer);
        self.encoder.push(tsn, &self.buffer);
        self.last_tsn = tsn;
    }

    /// A packet with new chunks left, `gap` behind the one before. If the sums ride in data, those for the last packet before a pause have none to ride
    /// in, and leave when the next packet is late.
    pub(super) fn packet_left(&mut self, now: Instant, code: Code, gap: Duration) {
        self.owed = (self.owed + code.rate).min(OWED_MAX);
        let is_due = code.own_packets && self.owed >= RATE_PARTS;
        self.due_at = if is_due { now } else { now + gap * 3 / 2 }.into();
        (self.gap, self.reach, self.last_reach) = (gap, code.reach, code.reach);
        self.last_coded = self.last_tsn;
    }

    /// A packet with new chunks left that copies protect. If a code takes their place, a sum of these chunks rides in the next one.
    pub(super) fn copied_packet_left(&mut self) {
        self.owed = RATE_PARTS;
        self.reach = 0;
        self.gap = Duration::ZERO;
        self.forgo();
    }

    /// The first chunk that copies may repair: sums had their chance to repair those before it.
    pub(super) fn copied_from(&self) -> u64 {
        self.last_coded.saturating_sub(u64::from(self.last_reach))
    }

    /// Time from a chunk to the last sum that is expected to repair it.
    pub(super) fn takes(&self) -> Duration {
        self.gap * self.reach.into()
    }

    /// By how much the acknowledgement of a repaired chunk may be late: its sum takes time, and a SACK may be lost, which the next one makes up for
    /// two packets later.
    pub(super) fn lateness(&self) -> Duration {
        self.takes() + self.gap * 2
    }

    /// When sums leave in a packet of their own.
    pub(super) fn due_at(&self) -> Option<Instant> {
        self.due_at.get()
    }

    /// The sums that are due are not to leave.
    pub(super) fn forgo(&mut self) {
        self.due_at = OptionalInstant::NONE;
    }

    /// Returns whether there is a chunk to repair; `is_missing`: the peer may lack this one, and is to have it.
    pub(super) fn has_missing(&self, is_missing: impl Fn(u64) -> bool) -> bool {
        self.last_tsns().any(is_missing)
    }

    /// Writes the sums that are owed, or one if none is and the packet is for them `alone`, as far as they fit into `room_bytes`. Returns their bytes.
    pub(super) fn write(
        &mut self,
        code: Code,
        is_missing: impl Fn(u64) -> bool,
        room_bytes: usize,
        alone: bool,
        packet: &mut PacketBuilder<'_>,
    ) -> usize {
        for tsn in self.last_tsns().filter(|&tsn| !is_missing(tsn)) {
            self.encoder.forget(tsn);
        }
        let room_bytes = room_bytes.min(packet.remaining());
        let sums = (self.owed / RATE_PARTS).max(alone.into());
        self.owed = if alone && self.owed < RATE_PARTS { 0 } else { self.owed % RATE_PARTS };
        self.forgo();
        let mut written = 0;
        for nth in 0..sums {
            self.buffer.clear();
            let Some(window) = self.encoder.repair(code.window(), &mut self.buffer) else { break };
            let remaining = packet.remaining();
            let repair = ChunkOut::Repair {
                first: Tsn::wrap(window.first),
                mask: window.mask,
                row: window.row,
                sum: &self.buffer,
            };
            // More sums than chunks say nothing new.
            let fits = written + self.buffer.len() + REPAIR_HEADER_BYTES <= room_bytes;
            if nth >= window.mask.count_ones() || !fits || !packet.chunk(&repair) {
                break;
            }
            written += remaining - packet.remaining();
        }
        written
    }

    /// The peer has computed an outstanding chunk.
    pub(super) fn recovered(&mut self, tsn: u64) {
        if self.recovered.len() < RECOVERED_MAX && !self.recovered.contains(&tsn) {
            self.recovered.push(tsn);
        }
    }

    /// Takes the chunks that the peer has computed and acknowledges now.
    pub(super) fn take_recovered(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.recovered)
    }

    /// The TSNs that the encoder may hold.
    fn last_tsns(&self) -> impl Iterator<Item = u64> + use<> {
        (self.last_tsn + 1).saturating_sub(WINDOW_MAX as u64)..=self.last_tsn
    }
}

/// Bytes of a REPAIR chunk before its sum, and of its longest padding.
const REPAIR_HEADER_BYTES: usize = 13;
