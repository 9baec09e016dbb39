//! The messages of the comparison, and what the receiver saw of them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use festina::Message;
use festina_models::statistics::DelayStatistics;
use tokio::time::Instant;

/// A message begins with its association's number, its sequence number and the time it was sent.
pub(crate) const HEADER_BYTES: usize = 16;

/// The sequence number of the message that warms an association up. It is not recorded.
pub(crate) const WARM_UP: u32 = u32::MAX;

/// Records the messages that arrive over associations or connections of one kind. Sender and receiver are in one process and read one clock, so that
/// the one-way delay is exact.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// What the times in messages count from.
    epoch: Instant,
    messages_per_association: u64,
    arrivals: Mutex<Arrivals>,
}

/// The messages that have arrived.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    /// The delays of all messages that have arrived.
    pub(crate) delays: DelayStatistics,
    /// Messages that arrived twice or were never sent; there must be none.
    pub(crate) unexpected: u64,
    /// How late the timers of the senders fired.
    pub(crate) timers: DelayStatistics,
    /// Whether each message has arrived, association by association.
    arrived: Vec<bool>,
}

impl Recorder {
    pub(crate) fn new(epoch: Instant, associations: u32, messages_per_association: u64) -> Self {
        let messages = u64::from(associations).saturating_mul(messages_per_association);
        let arrived = vec![false; usize::try_from(messages).unwrap_or(usize::MAX)];
        let (delays, timers) = (DelayStatistics::new(), DelayStatistics::new());
        let arrivals = Arrivals { delays, unexpected: 0, timers, arrived };
        Self { epoch, messages_per_association, arrivals: Mutex::new(arrivals) }
    }

    /// A message of `size` bytes that says that it is sent now.
    pub(crate) fn message(&self, association: u32, sequence: u32, size: usize) -> Message {
        let mut message = BytesMut::with_capacity(size);
        message.put_u32(association);
        message.put_u32(sequence);
        message.put_u64(self.now_ns());
        message.resize(size, 0);
        Message::new(message)
    }

    /// Records that a message has arrived now.
    pub(crate) fn record(&self, mut message: Bytes) {
        let now_ns = self.now_ns();
        let header = (message.try_get_u32(), message.try_get_u32(), message.try_get_u64());
        let (Ok(association), Ok(sequence), Ok(sent_at_ns)) = header else {
            self.lock().unexpected += 1;
            return;
        };
        if sequence == WARM_UP {
            return;
        }
        let index = u64::from(association)
            .checked_mul(self.messages_per_association)
            .and_then(|first| first.checked_add(sequence.into()))
            .and_then(|index| usize::try_from(index).ok());
        let mut arrivals = self.lock();
        match index.and_then(|index| arrivals.arrived.get_mut(index)) {
            Some(arrived) if !*arrived => {
                *arrived = true;
                arrivals.delays.record(Duration::from_nanos(now_ns.saturating_sub(sent_at_ns)));
            }
            _ => arrivals.unexpected += 1,
        }
    }

    /// Records how late the timer of a sender fired.
    pub(crate) fn note_timer(&self, lateness: Duration) {
        self.lock().timers.record(lateness);
    }

    /// How many messages have arrived.
    pub(crate) fn delivered(&self) -> u64 {
        self.lock().delays.count()
    }

    /// A copy of all that has been recorded.
    pub(crate) fn arrivals(&self) -> Arrivals {
        self.lock().clone()
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Arrivals> {
        // Nothing that holds the lock can fail halfway.
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_counts_once_and_strangers_are_told_apart() {
        let recorder = Recorder::new(Instant::now(), 2, 3);
        let message = recorder.message(1, 2, 100);
        assert_eq!(message.payload().len(), 100);
        recorder.record(message.payload().clone());
        assert_eq!((recorder.delivered(), recorder.arrivals().unexpected), (1, 0));
        recorder.record(message.into_payload());
        recorder.record(recorder.message(2, 0, 16).into_payload());
        recorder.record(Bytes::from_static(b"short"));
        assert_eq!((recorder.delivered(), recorder.arrivals().unexpected), (1, 3));
    }

    #[test]
    fn warming_up_is_not_recorded() {
        let recorder = Recorder::new(Instant::now(), 1, 1);
        recorder.record(recorder.message(0, WARM_UP, 16).into_payload());
        assert_eq!((recorder.delivered(), recorder.arrivals().unexpected), (0, 0));
    }
}
