//! Paths to several addresses of the peer, their confirmation and their failure (RFC 9260 §5.1.2, §5.4, §6.4, §8.2; RFC 7829).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use festina_units::{Duration, Instant, OptionalInstant};

use super::Association;
use super::extensions::Extensions;
use super::path::{Path, initial_window_bytes};
use super::paths::{HEARTBEAT_PACKET_BYTES, PathState};
use super::state::State;
use crate::path_id::PathId;
use crate::send::{FlightAgain, SendPath, TimerExpiry};

/// Maximum bytes sent to unconfirmed addresses, as a multiple of the bytes received: no more than to the source of an INIT.
const UNCONFIRMED_BYTES_FACTOR: u64 = 3;

/// Between probes of an address that has answered none, at most. So two sides whose network was down at first find each other at last.
const UNCONFIRMED_PAUSE_MAX: Duration = Duration::from_secs(3_600);

/// Maximum bytes that a layer below adds to a packet if it protects them.
const PROTECTION_BYTES_MAX: u64 = 20;

/// One of an association's paths, as [`Association::paths`] describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathStatus {
    /// The path.
    pub id: PathId,
    /// Its destination.
    pub remote: SocketAddr,
    /// Whether it may be used.
    pub state: PathState,
    /// Consecutive timeouts and unanswered heartbeats.
    pub errors: u32,
    /// Whether new data leaves by it.
    pub carries_data: bool,
}

impl Association {
    /// Returns the state of each path, the path of the handshake first. [`path_stats`](Self::path_stats) has the gauges of their senders, in the same
    /// order.
    pub fn paths(&self) -> impl Iterator<Item = PathStatus> {
        self.paths.iter().map(|path| PathStatus {
            id: path.sending.id(),
            remote: path.remote,
            state: self.paths.state_of(path),
            errors: path.errors(),
            carries_data: path.sending.duties().new_data,
        })
    }

    /// Returns the path to this address of the peer, if there is one. Its port may be another.
    #[inline]
    pub fn path_to(&self, address: IpAddr) -> Option<PathId> {
        self.paths.to(SocketAddr::new(address, 0))
    }

    /// Returns the address of a path; that of the first for a path that is no more.
    #[inline]
    pub fn destination(&self, path: PathId) -> SocketAddr {
        self.paths.of(path).remote
    }

    /// Returns the path that control chunks leave by.
    pub fn usual_path(&self) -> PathId {
        self.paths.repairs()
    }

    /// Returns whether the peer has answered on a path; that of the first for a path that is no more.
    #[inline]
    pub fn is_confirmed(&self, path: PathId) -> bool {
        self.paths.of(path).is_confirmed()
    }

    /// Returns whether packets of the established association from here are to be dropped, because the peer may not move
    /// ([`PeerRequests::moves`](crate::PeerRequests::moves)): from another port of a path's address, or from an address of no path if that `counts_elsewhere`.
    #[inline]
    pub fn forbids_source(&self, from: SocketAddr, counts_elsewhere: bool) -> bool {
        from != self.remote() && !self.context.config().peer_requests.moves && self.is_move(from, counts_elsewhere)
    }

    #[cold]
    fn is_move(&self, from: SocketAddr, counts_elsewhere: bool) -> bool {
        let port_differs = self.path_to(from.ip()).map(|path| self.destination(path).port() != from.port());
        self.state.sends_data() && port_differs.unwrap_or(counts_elsewhere)
    }

    /// Returns how often in a row the only path has failed, on an endpoint with several addresses: if there are more failures than before, the caller sends from another
    /// address, and calls [`rebind`](Self::rebind).
    #[inline]
    pub fn failures_of_only_path(&self) -> Option<u32> {
        self.paths.others.as_ref().filter(|others| others.is_empty())?;
        Some(self.paths.first().errors())
    }

    /// Chooses the primary path (RFC 9260 §11.1.5), which new data leaves by while it is active. Returns `false`, without effect, unless there is such
    /// a path and its address is confirmed.
    pub fn set_primary(&mut self, path: PathId) -> bool {
        self.paths.set_primary(path)
    }

    /// This side sends from another address from now on to those of the peer's addresses for which `is_other_network` returns something. A heartbeat and
    /// the earliest data in flight leave there at once: the peer learns the address from them. On another network, window and loss are unknown, and the
    /// round trip is a guess until one is measured. With another port alone all measurements stay.
    pub fn rebind(&mut self, now: Instant, mut is_other_network: impl FnMut(IpAddr) -> Option<bool>) {
        if !self.state.sends_data() {
            return;
        }
        let Self { context, sender, paths, .. } = self;
        for path in paths.iter_mut().filter(|path| path.is_confirmed()) {
            let Some(is_other_network) = is_other_network(path.remote.ip()) else { continue };
            if is_other_network {
                path.forget(context.config());
                path.sending.shorten_timeout(now);
            }
            path.heartbeat_at_once();
            sender.repeat_flight(now, &mut path.sending, FlightAgain::Elsewhere { room_bytes: u16::MAX });
        }
    }

    /// Number of addresses in the peer's INIT or INIT ACK that were ignored: those of no single host, and those beyond the limit.
    pub fn addresses_ignored(&self) -> u16 {
        self.peer.addresses.ignored()
    }

    /// Opens a path to each address that the peer has named, in place of those to addresses of its earlier incarnation.
    pub(super) fn open_paths(&mut self, now: Instant) {
        self.paths.close_others();
        let Some(multihoming) = self.context.multihoming() else { return };
        let first = self.paths.first();
        let port = first.remote.port();
        let addresses = self.peer.addresses.as_slice().iter().copied();
        let usable = addresses.filter(|&address| multihoming.reaches(address) && !self.paths.lead_to(address));
        let numbered = (1..).map(PathId).zip(usable.take(multihoming.paths_max.saturating_sub(1)));
        let paths: Vec<_> = numbered
            .map(|(id, address)| {
                let remote = SocketAddr::new(written_as(first.remote.ip(), address), port);
                Path::unconfirmed(now, remote, self.fresh_sending(now, id, remote))
            })
            .collect();
        // A single path is supervised if it can lead over another network of this side.
        if !paths.is_empty() || multihoming.addresses.len() > 1 {
            self.paths.open(paths, multihoming);
        }
    }

    /// The sender's state of a new path.
    pub(super) fn fresh_sending(&self, now: Instant, id: PathId, remote: SocketAddr) -> SendPath {
        let mechanisms = Arc::new(*self.paths.first().sending.mechanisms());
        let mut sending = SendPath::new(now, id, self.context.config(), mechanisms, initial_window_bytes(remote));
        let agreed = self.peer.agreed;
        let (decodes, marks) = (agreed.contains(Extensions::REPAIR), agreed.contains(Extensions::ECN));
        self.sender.agree_on(&mut sending, decodes, marks);
        sending
    }

    /// Returns whether a heartbeat may leave on this path now.
    #[inline]
    pub(super) fn may_probe(&self, now: Instant, id: PathId) -> bool {
        let is_next = || self.next_probe().is_some_and(|(at, next)| next == id && at <= now);
        self.paths.of(id).is_confirmed() || is_next()
    }

    /// When the next unconfirmed address is probed: one of them for each RTO (HB.Max.Burst, RFC 9260 §5.4), and only as long as that does not exceed a
    /// multiple of the bytes that the peer has sent, so that it cannot use this side as an amplifier.
    #[inline]
    pub(super) fn next_probe(&self) -> Option<(Instant, PathId)> {
        let others = self.paths.others.as_ref()?;
        let received_bytes = self.counters.bytes_received.saturating_sub(others.probes.received_before);
        let allowed_bytes = received_bytes.saturating_mul(UNCONFIRMED_BYTES_FACTOR);
        if others.probes.bytes + self.probe_bytes() > allowed_bytes {
            return None;
        }
        let ready = self.paths.iter().filter(|path| !path.is_confirmed() && path.heartbeat_ready());
        Some((others.probes.next_at, ready.min_by_key(|path| path.errors())?.sending.id()))
    }

    /// Bytes of a packet with a heartbeat and nothing else. Those that a layer below adds to the packets of the peer do not count as received.
    pub(super) fn probe_bytes(&self) -> u64 {
        HEARTBEAT_PACKET_BYTES + if self.peer.out_of_band { PROTECTION_BYTES_MAX } else { 0 }
    }

    /// A timeout or a missed heartbeat on a path. Returns whether the peer counts as unreachable.
    pub(super) fn path_failed(&mut self, now: Instant, id: PathId) -> bool {
        let is_dead = self.paths.failed(now, id, self.context.config(), &mut self.events);
        if self.state.sends_data() && self.paths.is_suspected(id) {
            // Every RTO (RFC 7829 §3.2).
            self.paths.of_mut(id).heartbeat_at_once();
        }
        is_dead
    }

    /// Data was not acknowledged in time on one of several paths: another carries it on (RFC 9260 §6.4.1). Returns whether the peer counts as
    /// unreachable.
    pub(super) fn path_timed_out(&mut self, now: Instant, id: PathId, expiry: TimerExpiry) -> bool {
        if matches!(expiry, TimerExpiry::Timeout { .. }) {
            self.sender.count_elsewhere(now, &mut self.paths, id, true);
        }
        match expiry {
            TimerExpiry::Timeout { counts: true } => self.move_flight(now, id, true),
            TimerExpiry::Timeout { counts: false } => false,
            TimerExpiry::Probe => {
                let patience = self.paths.of(id).sending.patience().max(self.paths.detour(id));
                let is_strict =
                    self.context.multihoming().is_some_and(|multihoming| multihoming.suspected_above == Some(0));
                if let Some(others) = self.paths.others.as_mut().filter(|_| is_strict) {
                    others.silent_until.of_mut(id).get_or_insert(now + patience);
                }
                false
            }
        }
    }

    /// Paths that have not answered a probe in time have failed, if another is active. Returns whether the peer counts as unreachable.
    pub(super) fn silent_paths_failed(&mut self, now: Instant) -> bool {
        let mut is_dead = false;
        for id in self.paths.ids() {
            let Some(others) = &mut self.paths.others else { break };
            let silent_until = others.silent_until.of_mut(id);
            if silent_until.get().is_none_or(|at| now < at) {
                continue;
            }
            *silent_until = OptionalInstant::NONE;
            let loses_data = others.loses_data();
            let is_active = |path: &Path| self.paths.state_of(path) == PathState::Active;
            let is_only = self.failures_of_only_path().is_some();
            let is_another_active = self.paths.iter().any(|path| path.sending.id() != id && is_active(path));
            if is_only || is_another_active && !loses_data {
                if let Some(others) = self.paths.others.as_mut().filter(|_| !is_only) {
                    others.moves_in_vain += 1;
                }
                is_dead |= self.move_flight(now, id, false);
            }
        }
        is_dead
    }

    /// A path has failed: another takes over the chunks in flight on it. Returns whether the peer counts as unreachable.
    fn move_flight(&mut self, now: Instant, id: PathId, has_timed_out: bool) -> bool {
        let is_dead = self.path_failed(now, id);
        if self.paths.repairs() != id {
            self.sender.give_up_flight(now, &mut self.paths.of_mut(id).sending, has_timed_out);
        }
        is_dead
    }

    /// When several paths are looked at.
    #[cold]
    pub(super) fn supervision_deadline(&self) -> Option<Instant> {
        let silent_until = self.paths.others.iter().flat_map(|others| others.silent_until.iter());
        let probe_at = self.next_probe().map(|(at, _)| at);
        silent_until.filter_map(|at| at.get()).chain(probe_at).min()
    }

    /// Returns whether an unanswered heartbeat is followed by the next one at once, as long as its longer time limit allows: to learn whether an address
    /// is the peer's, or whether a path has failed.
    pub(super) fn probes_again(&self, id: PathId) -> bool {
        let path = self.paths.of(id);
        let is_new = !path.is_confirmed() && path.errors() <= self.context.config().retries.path_max;
        is_new || self.paths.is_suspected(id)
    }

    /// Returns whether a missed heartbeat is an error: not of one of several paths that has answered since, or the loss of its answer would leave the path.
    pub(super) fn heartbeat_counts(&self, id: PathId) -> bool {
        !self.paths.are_several() || !self.paths.of(id).has_answered_since_heartbeat()
    }

    /// After the first probes of an address that has answered none, each pause is twice as long as the one before. Returns whether that applies.
    pub(super) fn probes_rarely(&mut self, now: Instant, id: PathId) -> bool {
        let (interval, path_max) =
            (self.context.config().timers.heartbeat_interval, self.context.config().retries.path_max);
        let path = self.paths.of_mut(id);
        let Some(more) = path.errors().checked_sub(path_max + 1).filter(|_| !path.is_confirmed()) else { return false };
        let pause = interval.unwrap_or(UNCONFIRMED_PAUSE_MAX).saturating_mul(1 << more.min(16));
        path.rest(now, pause.min(UNCONFIRMED_PAUSE_MAX));
        true
    }

    /// A packet of the peer came on one of several paths. If its address is probed rarely, a probe follows at once.
    #[cold]
    pub(super) fn came_by(&mut self, id: PathId) {
        if let Some(others) = &mut self.paths.others {
            (others.came_by, others.answers) = (id, Some(id));
        }
        let path = self.paths.of_mut(id);
        if !path.is_confirmed() && path.errors() > self.context.config().retries.path_max && path.is_idle() {
            path.heartbeat_at_once();
        }
    }

    /// The paths to confirmed addresses.
    #[inline]
    pub(super) fn confirmed_paths(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().filter(|path| path.is_confirmed())
    }

    /// SHUTDOWN or SHUTDOWN ACK was not answered: the next one leaves by a path with fewer errors.
    pub(super) fn shutdown_timed_out(&mut self, now: Instant) {
        if self.paths.are_several() && self.state.expects_answers() {
            let is_answer = matches!(self.state, State::ShutdownAckSent { .. });
            let id = if is_answer { self.paths.answers() } else { self.paths.repairs() };
            if let Some(others) = &mut self.paths.others {
                others.answers = None;
            }
            self.paths.of_mut(id).failed(now, &self.context.config().retries, true);
            self.paths.assign();
        }
    }

    /// Returns whether the answer at the front of the queue leaves by this path.
    #[inline]
    pub(super) fn answers_on(&self, id: PathId) -> bool {
        self.control.first_reply().is_some_and(|reply| self.paths.answer_on(reply.path(), id))
    }
}

/// Returns the transport address of a peer at `address`, one of whose packets came from `source`: with the same port, and written in the same form.
pub fn transport_address(source: SocketAddr, address: IpAddr) -> SocketAddr {
    let is_source = source.ip().to_canonical() == address.to_canonical();
    // Its scope stays.
    if is_source { source } else { SocketAddr::new(written_as(source.ip(), address), source.port()) }
}

/// Writes an IPv4 address as an IPv6 one if `other` is written so.
pub(super) fn written_as(other: IpAddr, address: IpAddr) -> IpAddr {
    match (other, address) {
        (IpAddr::V6(other), IpAddr::V4(address)) if other.to_ipv4_mapped().is_some() => address.to_ipv6_mapped().into(),
        _ => address,
    }
}
