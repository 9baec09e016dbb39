//! Whether Festina's default beats a peer at one task.
//!
//! The goal: at each percentile less delay than the peer at no more than 1.1 times its bytes, or the same delay for fewer bytes.

use super::delays::Percentile;
use super::record::Record;

/// Most bytes of both ends for less delay, as a multiple of the peer's.
pub const BYTES_RATIO_MAX: f64 = 1.1;
/// Delays that differ by less are the same, in ms: the clock of some stacks is no finer.
const SAME_MS: f64 = 1.0;
/// The first message may take this share of QUIC's time at most, at the 99th percentile.
pub const FIRST_RATIO_MAX: f64 = 0.35;

/// Whether the goal holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It does.
    Holds,
    /// The bounds of the delays overlap; more messages would tell.
    Undecided,
    /// It does not.
    Broken,
}

/// How one percentile compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Festina's is lower, beyond doubt.
    Lower,
    /// They are the same.
    Same,
    /// The bounds overlap.
    Unclear,
    /// Festina's is higher, beyond doubt.
    Higher,
}

impl Verdict {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Undecided => "undecided",
            Verdict::Broken => "broken",
        }
    }
}

/// How Festina's percentile compares with a peer's.
#[must_use]
pub fn relation(own: Percentile, peer: Percentile) -> Relation {
    if (own.ms - peer.ms).abs() < SAME_MS || own.ms == peer.ms {
        Relation::Same
    } else if own.high_ms < peer.low_ms {
        Relation::Lower
    } else if own.low_ms > peer.high_ms {
        Relation::Higher
    } else {
        Relation::Unclear
    }
}

/// Festina's bytes as a multiple of the peer's.
#[must_use]
pub fn bytes_ratio(own: &Record, peer: &Record) -> f64 {
    own.cost.bytes_of_both() / peer.cost.bytes_of_both()
}

/// Judges one percentile.
#[must_use]
pub fn judge(relation: Relation, bytes_ratio: f64) -> Verdict {
    let is_affordable = bytes_ratio <= BYTES_RATIO_MAX;
    match relation {
        Relation::Lower if is_affordable => Verdict::Holds,
        Relation::Same if bytes_ratio < 1.0 => Verdict::Holds,
        Relation::Unclear if is_affordable => Verdict::Undecided,
        _ => Verdict::Broken,
    }
}

/// Judges both percentiles; the worse one counts.
#[must_use]
pub fn of(own: &Record, peer: &Record) -> Verdict {
    let ratio = bytes_ratio(own, peer);
    let p99 = judge(relation(own.delay.p99, peer.delay.p99), ratio);
    p99.max(judge(relation(own.delay.p999, peer.delay.p999), ratio))
}

/// Judges the first message against QUIC's: its 99th percentile is at most [`FIRST_RATIO_MAX`] of that.
#[must_use]
pub fn of_first(own: Percentile, quic: Percentile) -> Verdict {
    if own.high_ms <= FIRST_RATIO_MAX * quic.low_ms {
        Verdict::Holds
    } else if own.low_ms > FIRST_RATIO_MAX * quic.high_ms {
        Verdict::Broken
    } else {
        Verdict::Undecided
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percentile(low_ms: f64, ms: f64, high_ms: f64) -> Percentile {
        Percentile { ms, low_ms, high_ms }
    }

    #[test]
    fn delays_are_lower_only_if_their_bounds_do_not_overlap() {
        let own = percentile(100.0, 110.0, 120.0);
        assert_eq!(relation(own, percentile(125.0, 130.0, 140.0)), Relation::Lower);
        assert_eq!(relation(own, percentile(115.0, 130.0, 140.0)), Relation::Unclear);
        assert_eq!(relation(own, percentile(80.0, 90.0, 95.0)), Relation::Higher);
        assert_eq!(relation(own, percentile(100.0, 110.9, 140.0)), Relation::Same);
        let never = percentile(f64::INFINITY, f64::INFINITY, f64::INFINITY);
        assert_eq!((relation(own, never), relation(never, never)), (Relation::Lower, Relation::Same));
    }

    #[test]
    fn less_delay_may_cost_a_tenth_more_bytes_and_the_same_delay_must_cost_fewer() {
        assert_eq!(judge(Relation::Lower, 1.1), Verdict::Holds);
        assert_eq!(judge(Relation::Lower, 1.11), Verdict::Broken);
        assert_eq!(judge(Relation::Same, 0.99), Verdict::Holds);
        assert_eq!(judge(Relation::Same, 1.0), Verdict::Broken);
        assert_eq!(judge(Relation::Unclear, 1.0), Verdict::Undecided);
        assert_eq!(judge(Relation::Unclear, 1.2), Verdict::Broken);
        assert_eq!(judge(Relation::Higher, 0.1), Verdict::Broken);
    }

    #[test]
    fn the_first_message_is_judged_by_its_bounds() {
        let quic = percentile(900.0, 1_000.0, 1_100.0);
        assert_eq!(of_first(percentile(200.0, 250.0, 300.0), quic), Verdict::Holds);
        assert_eq!(of_first(percentile(200.0, 250.0, 320.0), quic), Verdict::Undecided);
        assert_eq!(of_first(percentile(390.0, 400.0, 410.0), quic), Verdict::Broken);
    }
}
