//! The longest delay of the paper by itself: six losses of one segment in a row.

use std::sync::Arc;

use festina_netsim::LossModel;
use festina_units::{ByteCount, Duration, Instant};

use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::Check;
use crate::scenario::{Group, Readings, ThinStream};

/// The longest delay of the capture (§3.1).
const LONGEST_S: f64 = 67.0;
/// A stream loses its packets from here on, when its round-trip time is known.
const LOST_FROM: Instant = Instant::from_secs(30);
/// Round-trip times of the game (P06 §2), and how long all is lost: six copies of a message, and not the seventh.
const CASES: [(Duration, Duration, Bound); 2] = [
    (Duration::from_millis(250), Duration::from_secs(20), Bound::LessThan(LONGEST_S)),
    (Duration::from_secs(1), Duration::from_secs(50), Bound::MoreThan(LONGEST_S)),
];
/// Number of losses in a row (§3.1).
const LOSSES: f64 = 6.0;

/// "67 seconds, caused by six consecutive losses of the same segment, handled by timeout retransmission with exponentially increasing RTO" (§3.1).
pub(super) fn check() -> Check {
    let mut evidence = Evidence::new();
    for (rtt, outage, bound) in CASES {
        let (delay_s, copies) = lost_most(rtt, outage);
        let what = format!("round-trip time {} ms:", rtt.as_millis());
        evidence.cell(format!("losses in a row, {what}"), Some(Estimate::exact(copies)), Bound::about(LOSSES, 0.01));
        evidence.cell(format!("delay in s, {what}"), Some(Estimate::exact(delay_s)), bound);
    }
    evidence
        .check(
            "A message that TCP loses six times in a row takes less than 67 s at the game's mean round-trip time of 250 ms, and more at \
             its longest, 1 s.",
        )
        .id("six-losses")
}

/// The delay in seconds of the message that was lost most often, and how often that was. Later ones wait for the window to open as well.
fn lost_most(rtt: Duration, outage: Duration) -> (f64, f64) {
    let stack = Group::NewReno.stack(&Readings::DEFAULT, Duration::ZERO);
    let (interval, size) = (Duration::from_millis(250), ByteCount::from_bytes(100));
    let mut stream = ThinStream::periodic(stack, interval, size, Duration::from_secs(60), rtt);
    stream.forward.loss = LossModel::Outages(Arc::from([LOST_FROM..LOST_FROM + outage]));
    let run = stream.run(1);
    let messages = run.record.truth().messages.iter();
    let lost = messages.max_by_key(|message| message.delivered_by).expect("the stream has messages");
    let delay_s = lost.delay().map_or(f64::INFINITY, |delay| delay.as_secs_f64());
    (delay_s, lost.delivered_by.map_or(0.0, f64::from))
}

#[cfg(test)]
mod tests {
    use crate::experiment::Verdict;

    #[test]
    fn six_losses_in_a_row_explain_the_longest_delay_of_the_game() {
        let check = super::check();
        assert!(matches!(check.verdict, Verdict::Holds(_)), "{check:?}");
    }
}
