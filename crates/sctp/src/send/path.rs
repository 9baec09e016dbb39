//! The sender's state of each path to the peer: repair, congestion window, burst limit, packet sizes.
//!
//! It contains no addresses and no heartbeats, which belong to the association. State shared by all paths, such as the ledger, the messages and the
//! peer's window, belongs to the [`Sender`](super::Sender).

use std::sync::Arc;

use festina_recovery::Mechanisms;
use festina_recovery::early_copy::{EarlyCopies, KnownRoundTrip, Pace};
use festina_recovery::loss_rate::KnownLoss;
use festina_recovery::rtt::AssumedRoundTrip;
use festina_units::{Duration, Instant};

use super::backlog::Surroundings;
use super::marking::Marking;
use super::queue::SendBuffer;
use super::repair::{Release, Repair, Verdict, View, WindowVerdict};
use super::window::PeerWindow;
use crate::config::{Config, PACKET_BYTES_MIN};
use crate::congestion::{Ack, Congestion};
use crate::outstanding::{Ledger, PathId};
use crate::wire::{COMMON_HEADER_BYTES, Framing};

/// The sending side of one path.
#[derive(Debug)]
pub(crate) struct SendPath {
    pub(super) id: PathId,
    pub(super) repair: Repair,
    pub(super) congestion: Congestion,
    pub(super) burst: Burst,
    pub(super) sizes: PacketSizes,
    /// Once both ends have agreed to ECN.
    pub(super) marking: Option<Marking>,
    /// When DATA last left; the start, if it never did.
    pub(super) last_sent_at: Instant,
}

/// The paths of an association as its sender sees them.
pub(crate) trait SendPaths {
    /// The path that new data is sent on.
    fn primary(&mut self) -> &mut SendPath;

    /// The path with this number, or the primary path if there is none.
    fn of(&mut self, id: PathId) -> &mut SendPath;

    /// All paths.
    fn all(&mut self) -> impl Iterator<Item = &mut SendPath>;
}

/// Effect of an event on the congestion window before repair judges it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pressure {
    /// Nothing.
    None,
    /// An acknowledgement.
    Acked(Ack),
    /// New data comes after nothing was in flight for `idle` (RFC 9260 §7.2.1).
    Idle { now: Instant, idle: Duration, rto: Duration },
}

/// What fits into a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketSizes {
    /// PMDCS: bytes of DATA chunks, headers included (RFC 9260 §2.3).
    chunks: u32,
    /// The chunk that messages leave in.
    pub(super) framing: Framing,
    /// The part of the initial cwnd that depends on the address family (RFC 9260 §7.2.1).
    pub(super) initial_window: u16,
}

impl PacketSizes {
    fn new(packet_bytes_max: usize, initial_window: u16) -> Self {
        let chunks = u32::try_from(packet_bytes_max.saturating_sub(COMMON_HEADER_BYTES)).unwrap_or(u32::MAX) & !3;
        Self { chunks, framing: Framing::Data, initial_window }
    }

    /// Bytes of a whole packet.
    fn packet(self) -> usize {
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

/// Max.Burst: maximum packets with new data that one event may release (RFC 9260 §6.1 rule D).
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    packets_max: u32,
    pub(super) packets_left: u32,
}

impl Burst {
    /// A path that is paced needs no other limit.
    fn new(config: &Config, congestion: &Congestion) -> Self {
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

impl SendPath {
    /// A path that nothing has left by; `mechanisms` stand in for those of `config`. The initial cwnd of the standard depends on the
    /// address family by `initial_window_bytes` (RFC 9260 §7.2.1).
    pub(crate) fn new(
        now: Instant,
        id: PathId,
        config: &Config,
        mechanisms: Arc<Mechanisms>,
        initial_window_bytes: u16,
    ) -> Self {
        let sizes = PacketSizes::new(config.limits.packet_bytes_max, initial_window_bytes);
        let congestion = Congestion::new(config.congestion, sizes.chunks(), sizes.initial_window.into());
        Self {
            id,
            repair: Repair::new(config, mechanisms),
            burst: Burst::new(config, &congestion),
            congestion,
            sizes,
            marking: None,
            last_sent_at: now,
        }
    }

    /// The peer restarted: discards all measurements (RFC 9260 §5.2.4.1).
    pub(crate) fn reset_for_restart(&mut self, now: Instant, config: &Config) {
        self.repair = Repair::new(config, Arc::new(*self.repair.mechanisms()));
        self.congestion = Congestion::new(config.congestion, self.sizes.chunks(), self.sizes.initial_window.into());
        self.burst.restart();
        self.marking = None;
        self.last_sent_at = now;
    }

    /// The peer moved to another address: discards all measurements. Timers of chunks in flight continue.
    pub(crate) fn forget_path(&mut self, config: &Config, initial_window_bytes: u16, assumed: AssumedRoundTrip) {
        self.repair.forget_path(assumed);
        // Whether this path passes ECN is unknown.
        self.marking = self.marking.as_ref().map(|_| Marking::begin());
        self.sizes.initial_window = initial_window_bytes;
        self.congestion = Congestion::new(config.congestion, self.sizes.chunks(), initial_window_bytes.into());
        self.burst.restart();
    }

    #[inline]
    pub(crate) fn id(&self) -> PathId {
        self.id
    }

    /// Returns the largest packet that new messages are cut to.
    pub(crate) fn packet_bytes_max(&self) -> usize {
        self.sizes.packet()
    }

    /// Lowers the packet size, but not below the minimum setting. Returns false if it is already no larger.
    ///
    /// The congestion window keeps counting in the original size, which the packets in flight still have.
    pub(crate) fn limit_packet_bytes(&mut self, bytes: usize) -> bool {
        let limited = PacketSizes::new(bytes.max(PACKET_BYTES_MIN), self.sizes.initial_window);
        if limited.chunks >= self.sizes.chunks {
            return false;
        }
        self.sizes.chunks = limited.chunks;
        true
    }

    /// Both ends support ECN, and the handshake is complete: packets become ECN-capable.
    pub(crate) fn begin_marking(&mut self) {
        self.marking = Some(Marking::begin());
    }

    /// Nothing will be repaired any more.
    pub(crate) fn stop(&mut self) {
        self.repair.stop();
    }

    /// Gives back memory. Nothing may be outstanding.
    pub(super) fn give_back_memory(&mut self) {
        self.repair.give_back_memory();
        self.congestion.give_back_memory();
    }

    /// The loss-recovery mechanisms.
    pub(crate) fn mechanisms(&self) -> &Mechanisms {
        self.repair.mechanisms()
    }

    /// A packet with data of the peer came.
    #[inline]
    pub(crate) fn peer_data_came(&mut self, now: Instant) {
        self.repair.peer_data_came(now);
    }

    /// The retransmission timeout, backoff included.
    pub(crate) fn rto(&self) -> Duration {
        self.repair.rto()
    }

    /// Returns whether control chunks are repeated ahead of their timers.
    pub(crate) fn copies_control_early(&self) -> bool {
        self.mechanisms().early_copies != EarlyCopies::Off
    }

    /// Spacing of early copies of a control chunk sent now, if there are any.
    pub(crate) fn control_pace(&self) -> Option<Pace> {
        self.pace(KnownRoundTrip::by(self.repair.rtt()))
    }

    /// The same if an answer came just now and the round trip lies between these bounds. Unless the round trip that is known lies
    /// between them, the longest possible one is assumed until one is measured.
    pub(crate) fn bounded_control_pace(&mut self, (shortest, longest): (Duration, Duration)) -> Option<Pace> {
        if !self.copies_control_early() {
            return None;
        }
        if self.repair.rtt().srtt().is_some_and(|srtt| (shortest..=longest).contains(&srtt)) {
            return self.control_pace();
        }
        self.repair.assume_round_trip_one_of(shortest, longest);
        self.pace(KnownRoundTrip::AtLeast(shortest))
    }

    fn pace(&self, known: KnownRoundTrip) -> Option<Pace> {
        let Mechanisms { early_copies, redundancy, .. } = *self.mechanisms();
        early_copies.pace(known, redundancy)
    }

    /// Returns the round-trip estimate, unless nothing was measured.
    pub(crate) fn measured_round_trip(&self) -> Option<AssumedRoundTrip> {
        let rtt = self.repair.rtt();
        rtt.rtt_latest().and_then(|_| AssumedRoundTrip::by(rtt))
    }

    /// New data follows after `silence` without a packet on this path. The standard keeps its estimate (RFC 9260 §6.3.1).
    pub(crate) fn was_silent(&mut self, silence: Duration) {
        if self.copies_control_early() {
            self.repair.was_silent(silence);
        }
    }

    /// The peer has just answered: ends a T3-rtx wait that an outage backed off.
    pub(crate) fn shorten_timeout(&mut self, now: Instant) {
        self.repair.shorten_timeout(now);
    }

    /// Takes a round trip for granted until one is measured.
    pub(crate) fn assume_round_trip(&mut self, assumed: AssumedRoundTrip) {
        self.repair.assume_round_trip(assumed);
    }

    /// Returns the estimated loss.
    pub(crate) fn known_loss(&self) -> KnownLoss {
        self.repair.known_loss()
    }

    /// Takes this loss for granted until another is seen. Before the first data.
    pub(crate) fn assume_loss(&mut self, known: KnownLoss) {
        self.repair.assume_loss(known);
    }

    /// How much later than SRTT recently reordered packets arrived, if there were any.
    pub(crate) fn known_lateness(&self, now: Instant) -> Option<Duration> {
        self.repair.known_lateness(now)
    }

    /// Assumes that packets are reordered and arrive up to `lateness` later than SRTT.
    pub(crate) fn assume_lateness(&mut self, now: Instant, lateness: Duration) {
        self.repair.assume_lateness(now, lateness);
    }

    /// What repair sees of the rooms around.
    pub(super) fn view<'s>(&'s self, buffer: &'s SendBuffer, window: &'s PeerWindow) -> View<'s> {
        let Self { id, congestion, sizes, burst, .. } = self;
        View { path: *id, buffer, window, congestion, sizes: *sizes, burst_packets: burst.packets_left }
    }

    /// The inputs of the send buffer's backlog.
    pub(super) fn surroundings(&self, ledger: &Ledger) -> Surroundings {
        Surroundings {
            cwnd_bytes: self.congestion.cwnd(),
            outstanding_bytes: ledger.on_the_way_bytes(self.id) + ledger.lost().bytes,
            packet_bytes: self.sizes.chunks(),
            srtt: self.repair.rtt().srtt(),
        }
    }

    /// Repair and its view of the sender.
    pub(super) fn split<'s>(
        &'s mut self,
        buffer: &'s SendBuffer,
        window: &'s PeerWindow,
    ) -> (&'s mut Repair, View<'s>) {
        let Self { id, repair, congestion, sizes, burst, .. } = self;
        (repair, View { path: *id, buffer, window, congestion, sizes: *sizes, burst_packets: burst.packets_left })
    }

    /// The only place that changes cwnd, once per event: first the effect of the event itself (`pressure`), then the verdict of repair from `judge`
    /// (the note of RFC 9260 §7.2.4), then the end of fast recovery. Returns the verdict.
    pub(super) fn regulate(
        &mut self,
        pressure: Pressure,
        buffer: &SendBuffer,
        window: &PeerWindow,
        judge: impl FnOnce(&mut Repair, &View<'_>) -> Verdict,
    ) -> Verdict {
        let Self { id, repair, congestion, sizes, burst, .. } = self;
        match &pressure {
            Pressure::Acked(ack) => congestion.on_ack(ack),
            &Pressure::Idle { now, idle, rto } => congestion.on_idle(now, idle, rto),
            Pressure::None => {}
        }
        let view = View { path: *id, buffer, window, congestion, sizes: *sizes, burst_packets: burst.packets_left };
        let verdict = judge(repair, &view);
        burst.release(verdict.release);
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        match verdict.window {
            WindowVerdict::Keep => {}
            WindowVerdict::Cut(sign) => congestion.on_congestion(sign),
            WindowVerdict::Undo(window) => congestion.undo(bytes(window.cwnd_bytes), bytes(window.ssthresh_bytes)),
        }
        if matches!(&pressure, Pressure::Acked(ack) if ack.in_fast_recovery) && !repair.in_fast_recovery() {
            congestion.on_recovered();
        }
        verdict
    }
}
