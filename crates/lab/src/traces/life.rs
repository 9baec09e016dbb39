//! The life of a stream around its longest delay, packet by packet.

use festina_trace::analysis::{Retransmission, Write};
use festina_trace::{Cause, Finding, StreamReport};
use festina_units::{Duration, Instant};

use super::ends;
use crate::figure::{Figure, Happening, TimeSequence};

/// Time drawn before and after the longest delay.
const AROUND: Duration = Duration::from_secs(2);
/// Writes and retransmissions that are drawn.
const EVENTS_MAX: usize = 400;

/// What happened to a stream around its longest delay: the analysis of the same capture, with details, is fed to it.
#[derive(Debug)]
pub struct Life {
    stream: u64,
    title: String,
    from: Instant,
    to: Instant,
    writes: Vec<Write>,
    retransmissions: Vec<Retransmission>,
}

impl Life {
    /// The life of a stream; `None` if no delay of it is known.
    pub fn of(stream: &StreamReport) -> Option<Self> {
        let worst = stream.delays.worst.first()?;
        let from = Instant::from_nanos(worst.sent_at.as_nanos().saturating_sub(nanos(AROUND)));
        let to = Instant::from_nanos(worst.acknowledged_at.as_nanos().saturating_add(nanos(AROUND)));
        let (writes, retransmissions) = (Vec::new(), Vec::new());
        Some(Self { stream: stream.id, title: ends(stream), from, to, writes, retransmissions })
    }

    /// Takes a finding if it is about this stream and this time.
    pub fn take(&mut self, finding: &Finding) {
        let within = |at: Instant| (self.from..=self.to).contains(&at);
        match finding {
            Finding::Write(write)
                if write.stream == self.stream && within(write.sent_at) && self.writes.len() < EVENTS_MAX =>
            {
                self.writes.push(*write);
            }
            Finding::Retransmission(copy)
                if copy.stream == self.stream && within(copy.at) && self.retransmissions.len() < EVENTS_MAX =>
            {
                self.retransmissions.push(*copy);
            }
            _ => {}
        }
    }

    /// Returns whether the first retransmission of a write was not needed: its first copy was not lost.
    fn is_needless(&self, write: &Write) -> bool {
        let covers = |copy: &&Retransmission| copy.start < write.end && write.end <= copy.end;
        let first = self.retransmissions.iter().filter(covers).min_by_key(|copy| copy.ordinal);
        first.is_some_and(|copy| copy.ordinal == 1 && copy.is_spurious)
    }

    /// Writes upwards, time across.
    pub fn figure(&self) -> Figure {
        let mut writes = self.writes.clone();
        writes.sort_by_key(|write| (write.end, write.sent_at));
        let mut figure = TimeSequence::new("The longest delay of a stream", &self.title, "write");
        let since = |at: Instant| at.saturating_duration_since(self.from);
        figure.count_from(Duration::ZERO, "time from two seconds before the write that took longest");
        let numbered = || (1u64..).zip(&writes);
        for (number, write) in numbered() {
            let is_lost = write.copies > 1 && !self.is_needless(write);
            let happening = if is_lost { Happening::Lost } else { Happening::Sent };
            figure.packet(since(write.sent_at), number, happening);
        }
        for copy in &self.retransmissions {
            if let Some((number, _)) = numbered().find(|(_, write)| copy.start < write.end && write.end <= copy.end) {
                let happening = match (copy.cause, copy.is_spurious) {
                    (Cause::Bundled, _) => Happening::Copied,
                    (_, true) => Happening::Spurious,
                    _ => Happening::Retransmitted,
                };
                figure.packet(since(copy.at), number, happening);
            }
        }
        let mut acknowledged: Vec<(Instant, u64)> =
            numbered().map(|(number, write)| (write.acknowledged_at, number)).collect();
        acknowledged.sort_unstable();
        for (at, number) in acknowledged {
            figure.acknowledged(since(at), number);
        }
        figure.figure()
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
