//! When to acknowledge (RFC 9260 §6.2, §6.7).
//!
//! First deviation: packets without new data (duplicates or dropped chunks) are not always answered at once. With many gaps a SACK fills a packet,
//! and a forger or a broken peer would draw 38 bytes with each byte that it sends. Such a SACK waits until it has at most three times the bytes that
//! it answers, or for the delay. With 16 gaps and packets of 32 bytes it is still sent at once; with packets of 411 bytes it always is.
//!
//! Second deviation, for peers that have asked for it in the handshake ([`SPARSE_SACK`](crate::Extensions::SPARSE_SACK)): packets received in one
//! batch, all at the same instant, may have one SACK for [`BATCH_PACKETS_MAX`] of them, instead of one for every second (a SHOULD of RFC 9260 §6.2).
//! The rest at the end of the batch is due at that same instant, so nothing is acknowledged later. Up to four packets at one instant are answered as
//! in the standard, and so are thin streams, gaps, duplicates and the I bit.

use festina_units::{Duration, Instant, OptionalInstant};

use crate::config::SackPolicy;
use crate::wire::Tsn;

/// Maximum number of duplicate TSNs to report; further ones still trigger a SACK at once, but are not listed in it.
pub(super) const DUPLICATES_MAX: usize = 64;

/// Maximum size of an immediate SACK without news, as a multiple of the packets that it answers.
const REPEAT_FACTOR_MAX: u32 = 3;

/// Packets of one batch that one SACK answers at most.
const BATCH_PACKETS_MAX: u8 = 16;

/// This many packets at the same instant are no batch, unless the ones before were: a thin stream has no more in flight.
const THIN_PACKETS_MAX: u8 = 4;

/// This many packets are answered as in the standard before any batch has fewer SACKs: the first flights grow with each SACK, and the loss of one
/// of a few would cost a probe.
const USUAL_PACKETS_MIN: u8 = 64;

/// The shortest wait of a SACK that reports nothing new and is longer than that.
const REPEAT_DELAY_MIN: Duration = Duration::from_millis(20);

/// Common header, chunk header and the fixed fields of a SACK (RFC 9260 §3.1, §3.3.4).
const SACK_BYTES_MIN: usize = 28;

/// A gap ack block, or a duplicate TSN.
const SACK_ENTRY_BYTES: usize = 4;

/// Collects the DATA chunks of a packet, decides once per packet, and runs the delay timer.
#[derive(Debug)]
pub(super) struct SackSchedule {
    /// Maximum delay of a SACK, and of packets with DATA before one. Not as a whole policy, which would take more memory.
    delay: Duration,
    every_packets: u8,
    /// When to stop delaying.
    deadline: OptionalInstant,
    /// Seen since the last SACK, in the order of arrival.
    duplicates: Vec<Tsn>,
    packet: PacketSeen,
    /// Packets with DATA since the last SACK.
    packets: u8,
    /// Bytes of these packets.
    packet_bytes: u32,
    packet_bytes_max: u32,
    wanted: bool,
    /// Nothing has been acknowledged yet.
    first: bool,
    batch: Batch,
}

/// Packets that came one after the other at the same instant.
#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    /// The peer asked for fewer SACKs.
    is_agreed: bool,
    /// Packets of the association so far; stops at 255.
    packets_ever: u8,
    /// Packets so far; stops at 255.
    packets: u8,
    /// Packets of the one before.
    packets_before: u8,
    at: Instant,
}

impl Batch {
    /// A packet with DATA came.
    #[inline]
    fn arrived(&mut self, now: Instant) {
        if self.at != now {
            (self.packets_before, self.packets, self.at) = (self.packets, 0, now);
        }
        self.packets = self.packets.saturating_add(1);
        self.packets_ever = self.packets_ever.saturating_add(1);
    }

    /// Returns whether the SACK for the last packet may wait for the end of the batch.
    #[inline]
    fn goes_on(self) -> bool {
        self.is_agreed
            && self.packets_ever > USUAL_PACKETS_MIN
            && self.packets.max(self.packets_before) > THIN_PACKETS_MAX
    }
}

/// Summary of the DATA chunks of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PacketSeen {
    data: bool,
    new: bool,
    duplicate: bool,
    dropped: bool,
    immediate: bool,
    gap: bool,
    bytes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Nothing,
    Now,
    Delay(Duration),
    /// At this instant, when all that has come by then is known.
    BatchEnd,
}

/// `packets` counts this one, and `batch` as well; `is_excessive`: the SACK would report nothing new and be much longer than what
/// it answers.
fn decide(
    seen: PacketSeen,
    packets: u8,
    batch: Batch,
    is_excessive: bool,
    delay: Duration,
    every_packets: u8,
) -> Decision {
    if !seen.data {
        return Decision::Nothing;
    }
    if is_excessive {
        return Decision::Delay(delay.max(REPEAT_DELAY_MIN));
    }
    let only_duplicates = seen.duplicate && !seen.new;
    let is_usual = every_packets > 1 && !delay.is_zero();
    if seen.immediate || seen.gap || seen.dropped || only_duplicates || !is_usual {
        Decision::Now
    } else if packets < every_packets {
        Decision::Delay(delay)
    } else if batch.goes_on() && packets < BATCH_PACKETS_MAX {
        Decision::BatchEnd
    } else {
        Decision::Now
    }
}

impl SackSchedule {
    pub(super) fn new(policy: &SackPolicy, packet_bytes_max: usize) -> Self {
        Self {
            delay: policy.delay,
            every_packets: policy.every_packets,
            deadline: OptionalInstant::NONE,
            duplicates: Vec::new(),
            packet: PacketSeen::default(),
            packets: 0,
            packet_bytes: 0,
            packet_bytes_max: u32::try_from(packet_bytes_max).unwrap_or(u32::MAX),
            wanted: false,
            first: true,
            batch: Batch::default(),
        }
    }

    pub(super) fn set_policy(&mut self, policy: &SackPolicy) {
        (self.delay, self.every_packets) = (policy.delay, policy.every_packets);
    }

    /// Whether the peer takes one SACK for a batch of packets well.
    pub(super) fn answer_batches(&mut self, is_agreed: bool) {
        self.batch.is_agreed = is_agreed;
    }

    /// A DATA chunk or its like has come in a packet of this size; `gap`: a TSN was missing just before.
    #[inline]
    pub(super) fn saw_data(&mut self, immediate: bool, gap: bool, packet_bytes: usize) {
        self.packet.bytes = u32::try_from(packet_bytes).unwrap_or(u32::MAX);
        self.packet.data = true;
        self.packet.immediate |= immediate;
        self.packet.gap |= gap;
    }

    #[inline]
    pub(super) fn saw_new(&mut self) {
        self.packet.new = true;
    }

    pub(super) fn saw_duplicate(&mut self, tsn: Tsn) {
        self.packet.duplicate = true;
        if self.duplicates.len() < DUPLICATES_MAX {
            self.duplicates.push(tsn);
        }
    }

    /// A FORWARD-TSN that is out of date: the last SACK may have been lost (RFC 3758 §3.6).
    pub(super) fn saw_old_forward(&mut self) {
        self.packet.duplicate = true;
    }

    pub(super) fn saw_dropped(&mut self) {
        self.packet.dropped = true;
    }

    /// Ends the packet; `gaps` is the number of gap ack blocks to report now.
    #[inline]
    pub(super) fn packet_done(&mut self, now: Instant, gaps: usize) {
        let mut seen = std::mem::take(&mut self.packet);
        seen.gap |= gaps > 0;
        self.packets = self.packets.saturating_add(u8::from(seen.data));
        self.packet_bytes = self.packet_bytes.saturating_add(seen.bytes);
        // The first SACK of all does not wait.
        seen.immediate |= self.first;
        if seen.data {
            self.batch.arrived(now);
        }
        let is_excessive = !seen.new && self.is_excessive(gaps);
        match decide(seen, self.packets, self.batch, is_excessive, self.delay, self.every_packets) {
            Decision::Nothing => {}
            Decision::Now => self.wanted = true,
            Decision::BatchEnd => self.deadline = now.into(),
            Decision::Delay(delay) => self.deadline.get_or_insert(now + delay),
        }
    }

    /// Whether a SACK now would be much longer than the packets that it answers.
    #[inline]
    fn is_excessive(&self, gaps: usize) -> bool {
        let bytes = SACK_BYTES_MIN + SACK_ENTRY_BYTES * (gaps + self.duplicates.len());
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.packet_bytes_max);
        bytes > self.packet_bytes.saturating_mul(REPEAT_FACTOR_MAX)
    }

    pub(super) fn request(&mut self) {
        self.wanted = true;
    }

    #[inline]
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }

    #[inline]
    pub(super) fn is_useful(&self) -> bool {
        self.wanted || self.deadline.is_some()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline.get()
    }

    /// Makes a SACK due when its timer has expired. Returns whether it waited for a packet that did not come, rather than for the end of a batch.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> bool {
        let Some(deadline) = self.deadline.get().filter(|&deadline| deadline <= now) else { return false };
        self.deadline = OptionalInstant::NONE;
        self.wanted = true;
        deadline > self.batch.at
    }

    pub(super) fn duplicates(&self) -> impl Iterator<Item = Tsn> {
        self.duplicates.iter().copied()
    }

    /// A SACK has been written.
    pub(super) fn sent(&mut self) {
        self.deadline = OptionalInstant::NONE;
        self.duplicates = Vec::new();
        self.packets = 0;
        self.packet_bytes = 0;
        self.wanted = false;
        self.first = false;
    }
}
