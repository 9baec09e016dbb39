//! How well a capture knows a percentile of its delays.

use crate::count::as_f64;

/// A percentile of a capture, and where that of its path may lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Certainty {
    /// Writes that took at least as long.
    pub beyond: u64,
    /// Groups of neighbours among them, within their stream: a loss also delays later writes, so each group is about one loss.
    pub groups: u64,
    /// Where the percentile of the path lies with 95 % confidence, in nanoseconds: between these two of the capture's own delays.
    pub interval_ns: (u64, u64),
}

/// Computes the certainty from the delays of each stream, in the order of their writes; `None` if there are none. A group of writes counts as one
/// independent observation.
pub(super) fn of<'d>(streams: impl Iterator<Item = &'d [u64]> + Clone, share: f64) -> Option<Certainty> {
    let mut sorted: Vec<u64> = streams.clone().flatten().copied().collect();
    sorted.sort_unstable();
    let count = as_f64(u64::try_from(sorted.len()).ok()?);
    let limit = at(&sorted, share * count)?;
    let (mut beyond, mut groups) = (0, 0);
    for delays in streams {
        let mut was_beyond = false;
        for delay in delays {
            let is_beyond = *delay >= limit;
            beyond += u64::from(is_beyond);
            groups += u64::from(is_beyond && !was_beyond);
            was_beyond = is_beyond;
        }
    }
    let independent = count * as_f64(groups) / as_f64(beyond);
    let deviation = (share * (1.0 - share) / independent).sqrt();
    let [low, high] = [-1.96, 1.96].map(|by| at(&sorted, (share + by * deviation) * count));
    Some(Certainty { beyond, groups, interval_ns: (low?, high?) })
}

/// The value of this rank, counted from one; the nearest there is.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded by the number of values")]
fn at(sorted: &[u64], rank: f64) -> Option<u64> {
    sorted.get((rank.ceil().max(1.0) as usize - 1).min(sorted.len().checked_sub(1)?)).copied()
}

#[cfg(test)]
mod tests {
    use festina_netsim::RandomStream;

    use super::*;

    /// Delays of writes. Each loss delays `delayed_together` of them alike. The 99th percentile of the distribution is 990,000.
    fn drawn(seed: u64, writes: usize, delayed_together: usize) -> Vec<u64> {
        let mut random = RandomStream::new(seed, "delays");
        let values = (0..writes / delayed_together).map(|_| random.below(1_000_000));
        values.flat_map(|value| std::iter::repeat_n(value, delayed_together)).collect()
    }

    #[test]
    fn the_interval_holds_the_truth_as_often_as_it_says_also_if_a_loss_delays_several_writes() {
        for delayed_together in [1, 5] {
            let holds = |seed: &u64| {
                let delays = drawn(*seed, 4_000, delayed_together);
                let found = of([delays.as_slice()].into_iter(), 0.99).expect("there are delays");
                assert!(found.beyond >= 40, "{found:?}");
                (found.interval_ns.0..=found.interval_ns.1).contains(&990_000)
            };
            let held = (0..400).filter(holds).count();
            assert!((360..=396).contains(&held), "{held} of 400 with {delayed_together} delayed together");
        }
    }

    #[test]
    fn neighbours_of_one_stream_are_a_group_and_those_of_two_streams_are_not() {
        let delays = [1, 9, 9, 1, 1, 1, 1, 9, 1, 9];
        let (one, other) = delays.split_at(8);
        let found = of([one, other].into_iter(), 0.65).expect("there are delays");
        assert_eq!((found.beyond, found.groups), (4, 3));
        assert_eq!(of(std::iter::empty(), 0.99), None);
    }
}
