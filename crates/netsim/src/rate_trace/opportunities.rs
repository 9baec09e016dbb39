//! The position of a transmitter in a trace.

use festina_units::{ByteCount, Duration, Instant, duration};

use super::{OPPORTUNITY_BYTES, RateTrace};

/// The next opportunity, and its unused part.
#[derive(Debug)]
pub(crate) struct Opportunities {
    trace: RateTrace,
    /// Start of the present round of the trace.
    round_began_at: Instant,
    index: usize,
    left_bytes: u64,
}

impl Opportunities {
    /// Returns the first opportunity of a trace that starts at time zero.
    pub(crate) fn new(trace: RateTrace) -> Self {
        Self { trace, round_began_at: Instant::ZERO, index: 0, left_bytes: OPPORTUNITY_BYTES }
    }

    /// Returns when the next opportunity is, or was.
    pub(crate) fn at(&self) -> Instant {
        self.round_began_at + Duration::from_millis(self.trace.opportunities_ms[self.index].into())
    }

    /// Skips all opportunities before `now`.
    pub(crate) fn skip_to(&mut self, now: Instant) {
        if self.at() >= now {
            return;
        }
        let period_ns = duration::saturating_nanos(self.trace.period());
        let elapsed_ns = now.as_nanos() - self.round_began_at.as_nanos();
        self.round_began_at += Duration::from_nanos(elapsed_ns / period_ns * period_ns);
        let offset_ns = elapsed_ns % period_ns;
        let times_ms = &self.trace.opportunities_ms;
        let index = times_ms.partition_point(|&time_ms| u64::from(time_ms) * 1_000_000 < offset_ns);
        // At the end of a round, the opportunities at the last time of the trace are still available.
        let is_end = offset_ns == 0 && self.round_began_at > Instant::ZERO;
        (self.index, self.left_bytes) = (index, OPPORTUNITY_BYTES);
        if is_end {
            self.round_began_at = self.round_began_at.saturating_sub(self.trace.period());
            let end_ms = self.trace.period_ms();
            self.index = self.trace.opportunities_ms.partition_point(|&time_ms| time_ms < end_ms);
        }
    }

    /// Takes as many opportunities as a packet of this size needs, and returns when its last byte is sent.
    pub(crate) fn take(&mut self, size: ByteCount) -> Instant {
        let mut missing_bytes = size.bytes();
        loop {
            let taken = missing_bytes.min(self.left_bytes);
            missing_bytes -= taken;
            self.left_bytes -= taken;
            let at = self.at();
            if self.left_bytes == 0 {
                self.advance();
            }
            if missing_bytes == 0 {
                return at;
            }
        }
    }

    fn advance(&mut self) {
        self.left_bytes = OPPORTUNITY_BYTES;
        self.index += 1;
        if self.index == self.trace.opportunities_ms.len() {
            self.index = 0;
            self.round_began_at += self.trace.period();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opportunities(text: &str) -> Opportunities {
        Opportunities::new(RateTrace::parse(text).expect("it is a trace"))
    }

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn packets_share_an_opportunity_and_large_ones_take_several() {
        let mut opportunities = opportunities("1\n4\n4\n9\n");
        let mut take = |bytes| opportunities.take(ByteCount::from_bytes(bytes));
        assert_eq!([take(700), take(804)], [ms(1), ms(1)]);
        assert_eq!(take(3_009), ms(9), "two at 4 ms, and a byte of the next");
        assert_eq!(take(1_503), ms(9));
        assert_eq!(take(1_504), ms(10), "the next round begins where the last one ended");
    }

    #[test]
    fn passing_time_uses_up_opportunities_over_any_number_of_rounds() {
        let text = "0\n3\n3\n7\n10\n";
        for round in [0, 1, 5, 1_000_000] {
            for (now, expected) in [(1, 3), (3, 3), (4, 7), (7, 7), (8, 10), (10, 10), (11, 13)] {
                let mut opportunities = opportunities(text);
                opportunities.take(ByteCount::from_bytes(100));
                opportunities.skip_to(ms(10 * round + now));
                assert_eq!(opportunities.at(), ms(10 * round + expected), "{round} {now}");
            }
        }
    }

    #[test]
    fn skipping_and_taking_agree() {
        let text = "0\n0\n2\n5\n5\n";
        for now in 1..40 {
            let (mut skips, mut walks) = (opportunities(text), opportunities(text));
            skips.skip_to(ms(now));
            while walks.at() < ms(now) {
                walks.advance();
            }
            for _ in 0..7 {
                let [skipped, walked] =
                    [&mut skips, &mut walks].map(|opportunities| opportunities.take(ByteCount::from_bytes(1_504)));
                assert_eq!(skipped, walked, "{now}");
            }
        }
    }
}
