//! Shutdown and abort of an association (RFC 9260 §9).

use festina_units::{Duration, Instant, OptionalInstant};

use super::Association;
use super::handshake::abort_packet;
use super::packet::{header_to, lone_packet};
use super::path::question_pause_max;
use super::reply::Due;
use super::retry::RetryTimer;
use super::state::{Drain, State};
use crate::config::Config;
use crate::error::{ClosedReason, PacketDropped};
use crate::event::Event;
use crate::outstanding::Acknowledgement;
use crate::path_id::PathId;
use crate::wire::{Cause, ChunkOut, Tsn};

/// Shutdown progress, kept in every state. It survives a restart of the peer, since the application still wants to end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ending {
    /// The application wants it.
    pub(super) requested: bool,
    /// When T5 expires, which began with the first SHUTDOWN.
    guard_at: OptionalInstant,
}

impl Association {
    /// Shuts down gracefully: queued messages are delivered first, and new ones are refused (RFC 9260 §9.2).
    pub fn shutdown(&mut self, now: Instant) {
        self.ending.requested = true;
        match self.state {
            State::CookieWait { .. } if self.sender.flight.is_drained() => self.close(ClosedReason::Shutdown),
            State::Established => {
                self.state = State::ShutdownPending { drain: self.new_drain(now) };
                self.sender.flight.closing();
                self.advance_shutdown(now);
            }
            _ => {}
        }
    }

    /// Moves on once nothing is outstanding any more.
    pub(super) fn advance_shutdown(&mut self, now: Instant) {
        if !self.sender.flight.is_drained() {
            if let State::ShutdownPending { drain } | State::ShutdownReceived { drain } = &mut self.state {
                let (_, unacked_bytes) = self.sender.flight.left_bytes();
                drain.update(now, unacked_bytes, self.context.config().timers.shutdown_stall);
            }
            return;
        }
        match self.state {
            State::ShutdownPending { .. } => {
                let guard = self.guard();
                self.ending.guard_at.get_or_insert(now + guard);
                let guard_at = self.ending.guard_at.get().unwrap_or(now + guard);
                self.state = State::ShutdownSent { t2: self.new_t2(now), guard_at };
                self.control.set(Due::SHUTDOWN);
            }
            State::ShutdownReceived { .. } => {
                self.state = State::ShutdownAckSent { t2: self.new_t2(now) };
                self.control.set(Due::SHUTDOWN_ACK);
            }
            _ => return,
        }
        for path in self.paths.iter_mut() {
            path.set_heartbeat(now, None);
        }
    }

    /// SHUTDOWN: the peer takes no more messages from its application.
    pub(super) fn handle_shutdown(&mut self, now: Instant, cumulative_tsn: Tsn) -> Result<(), PacketDropped> {
        let drain = match self.state {
            State::Closed | State::CookieWait { .. } | State::CookieEchoed { .. } => {
                return Err(PacketDropped::Unexpected("SHUTDOWN"));
            }
            State::Established => Some(self.new_drain(now)),
            State::ShutdownPending { drain } => Some(drain),
            State::ShutdownReceived { .. } => None,
            State::ShutdownSent { .. } => {
                self.state = State::ShutdownAckSent { t2: self.new_t2(now) };
                self.control.unset(Due::SHUTDOWN);
                self.control.set(Due::SHUTDOWN_ACK);
                return Ok(());
            }
            State::ShutdownAckSent { .. } => {
                self.control.set(Due::SHUTDOWN_ACK);
                return Ok(());
            }
        };
        if let Some(drain) = drain {
            self.state = State::ShutdownReceived { drain };
            self.sender.flight.closing();
            self.events.push(Event::PeerShutdown);
        }
        self.acknowledge(now, Acknowledgement::cumulative(cumulative_tsn));
        Ok(())
    }

    /// SHUTDOWN ACK: the peer has nothing more either.
    pub(super) fn handle_shutdown_ack(&mut self) -> Result<(), PacketDropped> {
        if !matches!(self.state, State::ShutdownSent { .. } | State::ShutdownAckSent { .. }) {
            return Err(PacketDropped::Unexpected("SHUTDOWN ACK"));
        }
        let complete = ChunkOut::ShutdownComplete { tag_reflected: false };
        let destination = self.paths.of(self.paths.answers()).remote;
        self.control.packet_to(Some(destination), lone_packet(header_to(self.ports, self.tags.peer), &complete));
        self.close(ClosedReason::Shutdown);
        Ok(())
    }

    /// SHUTDOWN COMPLETE: the peer has forgotten the association.
    pub(super) fn handle_shutdown_complete(&mut self) -> Result<(), PacketDropped> {
        if !matches!(self.state, State::ShutdownAckSent { .. }) {
            return Err(PacketDropped::Unexpected("SHUTDOWN COMPLETE"));
        }
        self.close(ClosedReason::Shutdown);
        Ok(())
    }

    /// The peer is alive while SHUTDOWN is outstanding: restarts T2 (RFC 9260 §9.2). DATA is answered with SHUTDOWN and a SACK, which reports gaps
    /// and duplicates.
    pub(super) fn hear_while_shutting_down(&mut self, now: Instant, path: PathId, had_data: bool) {
        let t2_anew = self.new_t2(now);
        if let State::ShutdownSent { t2, .. } = &mut self.state {
            *t2 = t2.restarted(t2_anew);
            self.paths.of_mut(path).answered(now, &mut self.events);
            if had_data {
                self.control.set(Due::SHUTDOWN);
                if let Some(receiver) = &mut self.receiver {
                    receiver.request_sack();
                }
            }
        }
    }

    /// An orderly end takes too long.
    pub(super) fn abort_shutdown(&mut self) {
        let cause = Cause::ProtocolViolation(b"shutdown did not finish in time");
        self.abort_with(cause, ClosedReason::ShutdownTimeout);
    }

    /// Ends the association with an ABORT with this cause.
    pub(super) fn abort_with(&mut self, cause: Cause<'_>, reason: ClosedReason) {
        if matches!(self.state, State::Closed) {
            return;
        }
        self.control.clear();
        // Before INIT ACK the peer's tag is unknown, and the peer does not know the association.
        if self.tags.peer != 0 {
            self.control.packet(abort_packet(header_to(self.ports, self.tags.peer), false, &[cause]));
        }
        self.close(reason);
    }

    /// Ends the association; complete packets may still be sent.
    pub(super) fn close(&mut self, reason: ClosedReason) {
        if matches!(self.state, State::Closed) {
            return;
        }
        self.state = State::Closed;
        self.control.clear();
        self.sender.flight.fail_all(&mut self.events);
        for path in self.paths.iter_mut() {
            path.sending.stop();
        }
        self.events.push(Event::Closed(reason));
    }

    fn new_drain(&self, now: Instant) -> Drain {
        let (left_bytes, unacked_bytes) = self.sender.flight.left_bytes();
        Drain::start(now, left_bytes, unacked_bytes, self.context.config().timers.shutdown_stall)
    }

    fn new_t2(&self, now: Instant) -> RetryTimer {
        let (sending, timers) = (&self.paths.primary().sending, &self.context.config().timers);
        let pace = sending.control_pace();
        // Early copies follow a round trip after the chunk, and T2 itself need be no quicker than RTO.Initial then.
        let rto = if pace.is_some() { sending.rto().max(timers.rto_initial) } else { sending.rto() };
        RetryTimer::start(now, rto.min(self.t2_pause_max())).with_copies(pace)
    }

    /// Where a time of silence ends the association, T2 asks several times until then.
    pub(super) fn t2_pause_max(&self) -> Duration {
        let Config { timers, peer_timeout, .. } = self.context.config();
        peer_timeout.map_or(timers.rto_max, |timeout| timers.rto_max.min(question_pause_max(timeout)))
    }

    fn guard(&self) -> Duration {
        let timers = &self.context.config().timers;
        timers.shutdown_guard.unwrap_or(timers.rto_max * 5)
    }
}
