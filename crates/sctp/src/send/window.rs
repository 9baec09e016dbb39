//! The peer's receive window (RFC 9260 §6.2.1), and probing for one that is closed (RFC 9260 §6.1 rule A).
//!
//! Fragments are cut to the packet and never to the window, and nothing but a probe leaves that the window cannot hold: that keeps the
//! silly window syndrome away.

use core::num::NonZeroU32;

use festina_units::Instant;

/// The peer's receive window.
#[derive(Debug)]
pub(super) struct PeerWindow {
    /// The last advertised a_rwnd. The window is this less all data in flight, so that the rules B to D of RFC 9260 §6.2.1 need no arithmetic of
    /// their own.
    told_bytes: u32,
    /// The second in which an acknowledgement first showed it closed, counted from 1, unless a later one showed it open. Every association has this,
    /// hence a small number.
    closed_in: Option<NonZeroU32>,
    state: WindowState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WindowState {
    /// Nothing waits for the window alone.
    Idle,
    /// Everything is acknowledged and the next chunk does not fit into the window: a probe is due at the deadline.
    Closed { deadline: Instant },
    /// One chunk may leave regardless of the window.
    ProbeDue,
    /// That chunk, with this TSN, is outstanding. `answered`: a SACK has come since it was last sent.
    Probing { tsn: u64, answered: bool },
}

impl PeerWindow {
    pub(super) fn new(told_bytes: u32) -> Self {
        Self { told_bytes, closed_in: None, state: WindowState::Idle }
    }

    /// The peer advertised its window.
    pub(super) fn told(&mut self, bytes: u32) {
        self.told_bytes = bytes;
    }

    /// The available part of the window.
    pub(super) fn available_bytes(&self, in_flight_payload_bytes: usize) -> usize {
        usize::try_from(self.told_bytes).unwrap_or(usize::MAX).saturating_sub(in_flight_payload_bytes)
    }

    /// Returns whether a chunk of new data may leave.
    pub(super) fn allows(&self, payload_bytes: usize, in_flight_payload_bytes: usize) -> bool {
        self.state == WindowState::ProbeDue || payload_bytes <= self.available_bytes(in_flight_payload_bytes)
    }

    /// Nothing is outstanding and the next chunk waits for the window (`blocked`), or not. The first probe follows one RTO later,
    /// at `first_probe_at`.
    pub(super) fn update(&mut self, blocked: bool, first_probe_at: impl FnOnce() -> Instant) {
        match (self.state, blocked) {
            (WindowState::Idle, true) => self.state = WindowState::Closed { deadline: first_probe_at() },
            (WindowState::Closed { .. } | WindowState::ProbeDue, false) => self.state = WindowState::Idle,
            _ => {}
        }
    }

    /// When to probe.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.state {
            WindowState::Closed { deadline } => Some(deadline),
            _ => None,
        }
    }

    /// Returns whether the deadline has come.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> bool {
        let due = self.deadline().is_some_and(|deadline| deadline <= now);
        if due {
            self.state = WindowState::ProbeDue;
        }
        due
    }

    /// A chunk of new data left; it was the probe if one was due.
    pub(super) fn sent_new(&mut self, tsn: u64) {
        if self.state == WindowState::ProbeDue {
            self.state = WindowState::Probing { tsn, answered: false };
        }
    }

    /// The TSN of a probe that is outstanding.
    pub(super) fn probe(&self) -> Option<u64> {
        match self.state {
            WindowState::Probing { tsn, .. } => Some(tsn),
            _ => None,
        }
    }

    /// A SACK came, after which everything below `first_tsn` is acknowledged.
    pub(super) fn handle_sack(&mut self, first_tsn: u64) {
        if let WindowState::Probing { tsn, answered } = &mut self.state {
            *answered = true;
            if *tsn < first_tsn {
                self.state = WindowState::Idle;
            }
        }
    }

    /// An acknowledgement was handled to its end, and the state follows from it: the window is closed if it holds nothing, or less than the next chunk.
    pub(super) fn note_closed(&mut self, now: Instant) {
        if self.told_bytes > 0 && self.state == WindowState::Idle {
            self.closed_in = None;
        } else if self.closed_in.is_none() {
            let second = (now - Instant::ZERO).as_secs();
            self.closed_in = Some(NonZeroU32::MIN.saturating_add(u32::try_from(second).unwrap_or(u32::MAX)));
        }
    }

    /// The second in which an acknowledgement first showed the window closed, if it still is.
    pub(super) fn closed_since(&self) -> Option<Instant> {
        self.closed_in.map(|second| Instant::from_secs(u64::from(second.get()) - 1))
    }

    /// The window opened, and the probe is retransmitted as ordinary data.
    pub(super) fn opened(&mut self) {
        self.state = WindowState::Idle;
    }

    /// The TSN of a probe that is outstanding and has been answered since it was last sent: the peer lives, and is merely full.
    pub(super) fn answered_probe(&self) -> Option<u64> {
        match self.state {
            WindowState::Probing { tsn, answered: true } => Some(tsn),
            _ => None,
        }
    }

    /// T3-rtx expired for an answered probe, which is retransmitted.
    pub(super) fn probe_again(&mut self) {
        if let WindowState::Probing { answered, .. } = &mut self.state {
            *answered = false;
        }
    }
}
