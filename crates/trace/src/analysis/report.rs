//! The report on one stream.

use std::net::{IpAddr, SocketAddr};

use festina_units::{Duration, Instant};

use super::cause::{Cause, Confidence};
use super::outstanding::Range;
use super::slow_start::SlowStart;
use crate::histogram::Histogram;
use crate::protocol::Protocol;

/// One direction of a conversation: its packets and their fate. Durations within histograms are nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamReport {
    /// Counts the streams of a capture from 1, in the order of their first data.
    pub id: u64,
    /// The transport protocol.
    pub protocol: Protocol,
    /// The sender.
    pub source: SocketAddr,
    /// The receiver.
    pub destination: SocketAddr,
    /// SCTP was encapsulated in UDP (RFC 6951); the ports are those of SCTP.
    pub in_udp: bool,
    /// In SCTP, the pairs of addresses that its packets with data went between, the first [`PATHS_MAX`] of them.
    pub paths: Vec<PathTraffic>,
    /// Packets with data, P10 Table 1.
    pub traffic: TrafficStatistics,
    /// For how long the stream was thin.
    pub thinness: Thinness,
    /// Round-trip times from data to acknowledgement, for data sent only once.
    pub rtt_ns: Histogram,
    /// Retransmissions.
    pub repair: RepairStatistics,
    /// The delays of the application's writes.
    pub delays: DelayStatistics,
    /// The beginning of the stream.
    pub slow_start: SlowStart,
}

/// Maximum number of [`StreamReport::paths`]: eight addresses of each end.
pub const PATHS_MAX: usize = 64;

/// What one path has carried of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathTraffic {
    /// The sender's address.
    pub source: IpAddr,
    /// The receiver's address.
    pub destination: IpAddr,
    /// Packets with data.
    pub packets: u64,
    /// Bytes of IP payload, headers of the transport included.
    pub bytes: u64,
    /// Chunks that were sent for the first time.
    pub chunks_first: u64,
    /// Chunks that had been sent before, by any path.
    pub chunks_again: u64,
}

impl StreamReport {
    /// Counts a packet with chunks that are sent for the first time, or again. Returns the place of its path, or the first place of all further ones.
    pub(super) fn count_path(
        &mut self,
        [source, destination]: [IpAddr; 2],
        bytes: u64,
        [first, again]: [u64; 2],
    ) -> u8 {
        let known = self.paths.iter().position(|path| (path.source, path.destination) == (source, destination));
        if known.is_none() && self.paths.len() < PATHS_MAX {
            let empty = PathTraffic { source, destination, packets: 0, bytes: 0, chunks_first: 0, chunks_again: 0 };
            self.paths.push(empty);
        }
        let path = match known {
            Some(at) => self.paths.get_mut(at),
            None => self.paths.last_mut().filter(|path| path.packets == 0),
        };
        if let Some(path) = path {
            path.packets += 1;
            path.bytes += bytes;
            path.chunks_first += first;
            path.chunks_again += again;
        }
        const { assert!(PATHS_MAX < u8::MAX as usize) };
        u8::try_from(known.unwrap_or(self.paths.len())).unwrap_or(u8::MAX)
    }
}

/// Packets that carry data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrafficStatistics {
    /// The number of the first in the file.
    pub first_packet: u64,
    /// When the first was seen.
    pub first_at: Instant,
    /// When the last was seen.
    pub last_at: Instant,
    /// Bytes of the transport's payload in each.
    pub payload_bytes: Histogram,
    /// From each to the next.
    pub gaps_ns: Histogram,
    /// Bytes of IP payload, headers of the transport included.
    pub bytes: u64,
    /// Bytes of payload, in SCTP chunks, that the receiver acknowledged and no packet of the capture carried.
    pub unseen_bytes: u64,
    /// TCP's keep-alives of one byte and its probes of a closed window (RFC 9293 §3.8.4, §3.8.6.1). They count nowhere else.
    pub probes: u64,
}

impl TrafficStatistics {
    /// From the first packet with data to the last.
    pub fn duration(&self) -> Duration {
        self.last_at.saturating_duration_since(self.first_at)
    }

    /// Packets per second; `None` with fewer than two.
    #[expect(clippy::cast_precision_loss, reason = "for reports")]
    pub fn packets_per_s(&self) -> Option<f64> {
        let seconds = self.duration().as_secs_f64();
        (seconds > 0.0).then(|| self.payload_bytes.count().saturating_sub(1) as f64 / seconds)
    }

    /// Bits per second, transport headers included; `None` with fewer than two packets.
    #[expect(clippy::cast_precision_loss, reason = "for reports")]
    pub fn bits_per_s(&self) -> Option<f64> {
        let seconds = self.duration().as_secs_f64();
        (seconds > 0.0).then(|| 8.0 * self.bytes as f64 / seconds)
    }
}

/// How long a stream was thin between its first and last packet with data. Empty until an acknowledgement was seen: a capture
/// of one direction does not show when data arrives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thinness {
    /// The whole time.
    pub total_ns: u64,
    /// Thin by the detector of P10 §5.1: segments or chunks in flight ≤ (3 + 1) / (1 − loss rate).
    pub thin_ns: u64,
    /// Fewer than four in flight, Linux's rule.
    pub few_ns: u64,
    /// Segments or chunks in flight whenever data was sent, including these.
    pub in_flight: Histogram,
}

impl Thinness {
    /// Returns the share of time that the stream was thin; `None` with a single packet.
    pub fn share_thin(&self) -> Option<f64> {
        share(self.thin_ns, self.total_ns)
    }

    /// The share of time with fewer than four packets in flight.
    pub fn share_few(&self) -> Option<f64> {
        share(self.few_ns, self.total_ns)
    }
}

#[expect(clippy::cast_precision_loss, reason = "for reports")]
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Maximum number of copies that is counted separately; more count as this number.
pub const COPIES_MAX: usize = 8;

/// Retransmissions by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairStatistics {
    /// Segments or chunks sent for the first time. A packet that the network card cuts into segments behind the capture counts
    /// as these, here and below.
    pub first_copies: u64,
    /// Retransmissions by cause, in the order of [`Cause::ALL`].
    pub by_cause: [u64; Cause::ALL.len()],
    /// The unnecessary ones among them, as proven by the receiver or the timing.
    pub spurious: u64,
    /// The [bundled](Cause::Bundled) ones among the unnecessary ones.
    pub spurious_bundled: u64,
    /// Bundled copies that show a loss: their data was acknowledged, and their receiver, which reports duplicates, did not report these. Either the
    /// copy was lost, or an earlier one. 0 while the receiver has not reported any duplicate.
    pub bundled_for_loss: u64,
    /// Bundled copies of data that the capture shows as acknowledged before. A capture at the sender has hardly any.
    pub bundled_late: u64,
    /// Packets seen in an order other than that of their sequence numbers.
    pub out_of_order: u64,
    /// How many segments or chunks were sent once, twice and so on.
    pub sent_times: [u64; COPIES_MAX],
    /// Chunks of SCTP messages that the sender abandoned before they were known to have arrived (RFC 3758). They have no
    /// delays.
    pub abandoned: u64,
}

impl RepairStatistics {
    /// All retransmissions.
    pub fn retransmissions(&self) -> u64 {
        self.by_cause.iter().sum()
    }

    fn by(&self, cause: Cause) -> u64 {
        Cause::ALL.iter().zip(self.by_cause).filter(|(known, _)| **known == cause).map(|(_, count)| count).sum()
    }

    /// Returns whether most retransmissions have an [unknown](Cause::Unknown) cause or are [late](Self::bundled_late): the capture was made
    /// behind the place where packets are lost, for instance at the receiver. Its delays lack the way to it.
    pub fn is_behind_loss(&self) -> bool {
        2 * (self.by(Cause::Unknown) + self.bundled_late) > self.retransmissions()
    }

    /// Returns the number of retransmissions that answered a supposed loss in error: the unnecessary ones without bundled copies, which answer nothing.
    pub fn spurious_repairs(&self) -> u64 {
        self.spurious.saturating_sub(self.spurious_bundled)
    }

    /// Returns the share of lost copies in all copies: the path's loss, as far as the sender repaired it. Each needed retransmission shows one loss.
    /// `None` if no data was sent, and behind the losses of a sender that bundles copies: a copy that replaces a lost one looks like new data there.
    pub fn loss(&self) -> Option<f64> {
        let repairs = (self.retransmissions() - self.by(Cause::Bundled)).saturating_sub(self.spurious_repairs());
        if self.is_behind_loss() && repairs < self.bundled_late {
            return None;
        }
        share(repairs + self.bundled_for_loss, self.first_copies + self.retransmissions())
    }

    pub(super) fn count(&mut self, cause: Cause, segments: u64) {
        if let Some(at) = Cause::ALL.iter().position(|known| *known == cause) {
            self.by_cause[at] += segments;
        }
    }

    /// No more copies of this range are expected.
    pub(super) fn ended(&mut self, range: &Range) {
        self.sent_times[COPIES_MAX.min(range.copies as usize) - 1] += range.segments;
        self.abandoned += u64::from(range.is_abandoned);
    }
}

/// The delays of the application's writes, from their first transmission.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DelayStatistics {
    /// To the acknowledgement: in TCP of all bytes up to its end, in SCTP of its last chunk.
    pub acknowledged_ns: Histogram,
    /// To the delivery in order at the receiver, if its side was captured as well.
    pub delivered_ns: Histogram,
    /// The writes that took longest, the longest first, at most [`WORST_MAX`].
    pub worst: Vec<Write>,
}

/// How many of the longest delays of a stream are kept.
pub const WORST_MAX: usize = 8;

impl DelayStatistics {
    pub(super) fn record(&mut self, write: Write) {
        self.acknowledged_ns.record(ns(write.acknowledged()));
        if let Some(delivered) = write.delivered() {
            self.delivered_ns.record(ns(delivered));
        }
        let at = self.worst.partition_point(|worse| worse.delay() >= write.delay());
        if at < WORST_MAX {
            self.worst.truncate(WORST_MAX - 1);
            if self.worst.is_empty() {
                // Most streams of a capture with very many of them write once.
                self.worst.reserve_exact(1);
            }
            self.worst.insert(at, write);
        }
    }

    /// Returns the delays to delivery if they are known, else those to acknowledgement.
    pub fn best_known_ns(&self) -> &Histogram {
        if self.delivered_ns.count() > 0 { &self.delivered_ns } else { &self.acknowledged_ns }
    }
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A write of the application, as far as packets show it: an SCTP message, a TCP segment, or full TCP segments in a row
/// and the one that ends them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The stream's [`StreamReport::id`].
    pub stream: u64,
    /// Where its last part ends in the stream: offset of TCP bytes from the first that was seen, or TSNs from the first, exclusive.
    pub end: u64,
    /// Payload bytes of its last part.
    pub bytes: u32,
    /// Time of the first transmission of its first part.
    pub sent_at: Instant,
    /// The number of that packet in the file.
    pub sent_packet: u64,
    /// How often its last part was sent.
    pub copies: u32,
    /// When the acknowledgement was seen.
    pub acknowledged_at: Instant,
    /// The number of that packet in the file.
    pub acknowledged_packet: u64,
    /// When all of it, and all before it, was at the receiver, by the clock of the sender's capture.
    pub delivered_at: Option<Instant>,
}

impl Write {
    /// From the first transmission to the acknowledgement.
    pub fn acknowledged(&self) -> Duration {
        self.acknowledged_at.saturating_duration_since(self.sent_at)
    }

    /// From the first transmission to the delivery in order.
    pub fn delivered(&self) -> Option<Duration> {
        self.delivered_at.map(|at| at.saturating_duration_since(self.sent_at))
    }

    /// The delay to delivery if it is known, else to acknowledgement.
    pub fn delay(&self) -> Duration {
        self.delivered().unwrap_or_else(|| self.acknowledged())
    }
}

/// A retransmitted segment or chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retransmission {
    /// The stream's [`StreamReport::id`].
    pub stream: u64,
    /// Where it begins in the stream, counted as [`Write::end`].
    pub start: u64,
    /// Where it ends, exclusive.
    pub end: u64,
    /// 1 for the first retransmission, 2 for the second.
    pub ordinal: u32,
    /// When the first copy was sent; `None` if the capture does not contain it.
    pub first_at: Option<Instant>,
    /// When the copy before this one was sent, if the capture contains it.
    pub previous_at: Option<Instant>,
    /// When this copy was sent.
    pub at: Instant,
    /// Its packet's number in the file.
    pub packet: u64,
    /// The cause.
    pub cause: Cause,
    /// The confidence in the cause.
    pub confidence: Confidence,
    /// Whether it is proven that an earlier copy arrived.
    pub is_spurious: bool,
}

/// Data first seen behind later data of the stream, too soon for a retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfOrder {
    /// The stream's [`StreamReport::id`].
    pub stream: u64,
    /// Where it begins in the stream, counted as [`Write::end`].
    pub start: u64,
    /// Where it ends, exclusive.
    pub end: u64,
    /// When it was seen.
    pub at: Instant,
    /// Its packet's number in the file.
    pub packet: u64,
}
