//! What the client's tasks count, while others read it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use festina_models::statistics::DelayStatistics;

/// The measurements so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Bytes of the load that have arrived at the server.
    there: AtomicU64,
    /// Bytes of the load that have arrived at the client.
    back: AtomicU64,
    times: Mutex<Times>,
}

/// How long the thin stream's messages took there and back.
#[derive(Debug, Default)]
struct Times {
    phase: Phase,
    idle: Stream,
    loaded: Stream,
    /// Those since they were last asked for.
    recent: DelayStatistics,
}

/// The thin stream in one phase.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    /// Messages sent.
    pub(super) sent: u64,
    /// The times of those that came back.
    pub(super) times: DelayStatistics,
}

/// The part of a measurement in which a message of the thin stream was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// Without load.
    #[default]
    Idle,
    /// Under load.
    Loaded,
    /// No more are sent; those under way still count when they come back.
    Over,
}

impl Stream {
    /// Messages that did not come back.
    pub(super) fn missing(&self) -> u64 {
        self.sent.saturating_sub(self.times.count())
    }

    /// The time in which this share of all messages sent came back; `None` if fewer did. Missing messages count as later than all others: they are not
    /// a random choice but the slowest ones.
    pub(super) fn quantile(&self, share: f64) -> Option<Duration> {
        let share_of_returned = share * self.sent as f64 / self.times.count() as f64;
        (share_of_returned <= 1.0).then(|| self.times.quantile(share_of_returned))?
    }

    /// The longest time; `None` if messages are missing.
    pub(super) fn max(&self) -> Option<Duration> {
        (self.missing() == 0).then(|| self.times.max())?
    }
}

impl Tally {
    pub(super) fn arrived_there(&self, bytes: u64) {
        self.there.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn arrived_back(&self, bytes: u64) {
        self.back.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that have arrived at the server and at the client.
    pub(super) fn bytes(&self) -> [u64; 2] {
        [&self.there, &self.back].map(|bytes| bytes.load(Ordering::Relaxed))
    }

    /// Enters this phase.
    pub(super) fn enter(&self, phase: Phase) {
        let mut times = self.times();
        times.phase = phase;
        times.recent = DelayStatistics::default();
    }

    /// Counts a message of the thin stream, if one is due now, and returns the phase to which it belongs.
    pub(super) fn thin_sent(&self) -> Option<Phase> {
        let mut times = self.times();
        let phase = times.phase;
        times.stream(phase)?.sent += 1;
        Some(phase)
    }

    /// A message of the thin stream has come back that was sent in this phase.
    pub(super) fn thin_returned(&self, phase: Phase, time: Duration) {
        let mut times = self.times();
        if let Some(stream) = times.stream(phase) {
            stream.times.record(time);
        }
        times.recent.record(time);
    }

    /// The thin stream without load and under load.
    pub(super) fn streams(&self) -> [Stream; 2] {
        let times = self.times();
        [times.idle.clone(), times.loaded.clone()]
    }

    /// The median of the times since this was last asked for.
    pub(super) fn take_recent_median(&self) -> Option<Duration> {
        std::mem::take(&mut self.times().recent).quantile(0.5)
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        // Nothing is left half done in there.
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Times {
    fn stream(&mut self, phase: Phase) -> Option<&mut Stream> {
        match phase {
            Phase::Idle => Some(&mut self.idle),
            Phase::Loaded => Some(&mut self.loaded),
            Phase::Over => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_messages_count_as_the_slowest() {
        let mut stream = Stream { sent: 100, ..Stream::default() };
        (1..=50).for_each(|ms| stream.times.record(Duration::from_millis(ms)));
        let whole = stream.times.quantile(1.0);
        assert_eq!((stream.quantile(0.5), stream.quantile(0.51), stream.max()), (whole, None, None));
        assert_eq!(stream.missing(), 50);
        stream.sent = 50;
        assert_eq!((stream.quantile(0.99), stream.max()), (stream.times.quantile(0.99), whole));
        assert_eq!(Stream::default().quantile(0.5), None);
    }

    #[test]
    fn a_message_belongs_to_the_phase_in_which_it_was_sent() {
        let tally = Tally::default();
        let before = tally.thin_sent().expect("one is to be sent");
        tally.enter(Phase::Loaded);
        let after = tally.thin_sent().expect("one is to be sent");
        tally.enter(Phase::Over);
        assert_eq!(tally.thin_sent(), None);
        tally.thin_returned(after, Duration::from_millis(30));
        tally.thin_returned(before, Duration::from_millis(10));
        let [idle, loaded] = tally.streams();
        assert_eq!((idle.sent, loaded.sent), (1, 1));
        assert_eq!(idle.times.max(), Some(Duration::from_millis(10)));
        assert_eq!(loaded.times.max(), Some(Duration::from_millis(30)));
        assert!(tally.take_recent_median().is_some());
        assert_eq!(tally.take_recent_median(), None);
    }
}
