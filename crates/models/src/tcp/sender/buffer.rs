//! The send buffer: its limit, and when a writer is woken.

use festina_recovery::send_buffer::{DelayBudget, SendBufferLimit, Waits, Window};
use festina_units::Instant;

use super::Sender;
use crate::tcp::event::TcpEvent;

/// The data written by the application.
#[derive(Clone, Debug, Default)]
pub(super) struct SendBuffer {
    pub(super) written: u64,
    /// A FIN follows the last byte.
    pub(super) closed: bool,
    /// A write was refused, at least in part.
    writer_waits: bool,
    /// With a limit in time.
    target: Option<Target>,
}

/// The state of a limit in time.
#[derive(Clone, Debug)]
struct Target {
    budget: DelayBudget,
    waits: Waits,
    /// Time of the latest call, which also counts as the time of a write.
    clock: Instant,
}

impl SendBuffer {
    pub(super) fn new(limit: SendBufferLimit) -> Self {
        let target = match limit {
            SendBufferLimit::Target(budget) => {
                let (budget, waits) = (DelayBudget::new(budget), Waits::new());
                Some(Target { budget, waits, clock: Instant::ZERO })
            }
            SendBufferLimit::Bytes(_) | SendBufferLimit::MinBuf(_) => None,
        };
        Self { target, ..Self::default() }
    }

    /// Sets the time to `now`, which applies to the next write.
    pub(super) fn advance(&mut self, now: Instant) {
        if let Some(target) = &mut self.target {
            target.clock = now;
        }
    }

    /// The stream up to offset `through` has been sent.
    fn sent(&mut self, now: Instant, through: u64, mss_bytes: u32) {
        let Some(target) = &mut self.target else { return };
        while let Some(wait) = target.waits.sent(now, through) {
            let packets = u32::try_from(wait.bytes.div_ceil(u64::from(mss_bytes.max(1)))).unwrap_or(u32::MAX);
            target.budget.packets_left(wait.waited, packets);
        }
    }
}

impl Sender {
    /// Takes as much of `bytes` as the send buffer admits and returns how much that is.
    pub(in crate::tcp) fn write(&mut self, bytes: u64) -> u64 {
        let taken = if self.buffer.closed { 0 } else { bytes.min(self.room()) };
        self.buffer.written += taken;
        self.buffer.writer_waits |= taken < bytes && !self.buffer.closed;
        if let Some(target) = self.buffer.target.as_mut().filter(|_| taken > 0) {
            target.waits.written(target.clock, self.buffer.written);
        }
        taken
    }

    /// Returns the room of the send buffer in bytes. For a limit in packets, outstanding data counts as sent; the tail
    /// that is not yet a segment may still be filled up to one.
    pub(in crate::tcp) fn room(&self) -> u64 {
        let window = Window {
            cwnd_packets: self.congestion.cwnd(),
            outstanding_packets: self.board.outstanding(),
            sacked_packets: self.board.sacked(),
        };
        let unsent_packets_max = match (self.config.send_buffer, &self.buffer.target) {
            (SendBufferLimit::MinBuf(min_buf), _) => min_buf.unsent_packets_max(window),
            (SendBufferLimit::Target(_), Some(target)) => {
                let oldest = target.waits.oldest(target.clock);
                target.budget.unsent_packets_max(window, self.timers.rtt.srtt(), oldest)
            }
            (SendBufferLimit::Bytes(limit), _) => return limit.saturating_sub(self.buffered()),
            (SendBufferLimit::Target(_), None) => 1,
        };
        (unsent_packets_max * u64::from(self.config.mss_bytes)).saturating_sub(self.unsent())
    }

    /// Wakes a waiting writer when there is room enough.
    pub(super) fn wake_writer(&mut self) {
        if !self.buffer.writer_waits {
            return;
        }
        let enough = match self.config.send_buffer {
            SendBufferLimit::Bytes(limit) => (limit / 3).max(1),
            SendBufferLimit::MinBuf(_) | SendBufferLimit::Target(_) => u64::from(self.config.mss_bytes),
        };
        if self.room() >= enough {
            self.buffer.writer_waits = false;
            self.events.push(TcpEvent::Writable);
        }
    }

    /// New data was sent. With a limit in time this makes room, since the limit counts only unsent data.
    pub(super) fn buffer_drained(&mut self, now: Instant) {
        if self.buffer.target.is_some() {
            self.buffer.sent(now, self.next, self.config.mss_bytes);
            self.wake_writer();
        }
    }
}
