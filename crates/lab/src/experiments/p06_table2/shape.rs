//! What §3 of Pedersen et al. 2006 says about Table 2 in words.

use festina_sctp::RetransmissionCause::{self, Bundled, Fast, Timeout};

use super::Base;
use super::published::TABLE;
use crate::experiment::Check;
use crate::experiments::p06::Quantity;
use crate::scenario::{Ordinal, Retransmissions};

/// By so many percentage points a share may differ by chance.
const CHANCE: f64 = 3.0;
/// More than this share is nearly all.
const NEARLY_ALL: f64 = 0.8;

pub(super) fn checks(base: &Base<'_>) -> Vec<Check> {
    vec![
        goes_one_way(
            base,
            "The longer the round-trip time, the smaller the share of timeouts.",
            Timeout,
            std::cmp::Ordering::is_ge,
        ),
        goes_one_way(
            base,
            "The longer the round-trip time, the larger the share of unsolicited bundling.",
            Bundled,
            std::cmp::Ordering::is_le,
        ),
        timeouts_become_fewer(base),
        timeouts_dominate(base),
        bundling_dominates(base),
        above_a_second(base),
        fast_retransmissions_are_rare(base),
    ]
}

/// Whether a share goes one way from each round-trip time to the next, and by more than chance from the first to the last.
fn goes_one_way(
    base: &Base<'_>,
    statement: &str,
    cause: RetransmissionCause,
    goes: impl Fn(std::cmp::Ordering) -> bool,
) -> Check {
    let Some(shares) = base.over_rtts(Quantity::Share, cause) else { return skipped(statement) };
    let differs = |before: f64, after: f64| (before - after).abs() > CHANCE;
    let ordered = |before: &f64, after: &f64| goes(before.total_cmp(after));
    let steps = shares.windows(2).all(|pair| ordered(&pair[0], &pair[1]) || !differs(pair[0], pair[1]));
    let ends =
        shares.first().zip(shares.last()).is_some_and(|(first, last)| ordered(first, last) && differs(*first, *last));
    Check::new(statement, steps && ends, percents(&shares))
}

fn timeouts_become_fewer(base: &Base<'_>) -> Check {
    let statement =
        "The number of timeouts falls as well: it is smallest at the longest round-trip time and largest at 0.";
    let Some(numbers) = base.over_rtts(Quantity::Number, Timeout) else { return skipped(statement) };
    let [Some(first), Some(last)] = [numbers.first(), numbers.last()] else { return skipped(statement) };
    let holds = numbers.iter().all(|number| (last..=first).contains(&number)) && last < first;
    let seen: Vec<String> = numbers.iter().map(|number| format!("{number:.0}")).collect();
    Check::new(statement, holds, format!("{} in each run", seen.join(", ")))
}

fn timeouts_dominate(base: &Base<'_>) -> Check {
    let statement = "At a round-trip time of 0 most first retransmissions are timeouts.";
    let share = base.at(TABLE[0].0).and_then(|summary| Quantity::Share.measured(summary, Timeout));
    let Some(share) = share else { return skipped(statement) };
    Check::new(statement, share > 50.0, percents(&[share]))
}

fn bundling_dominates(base: &Base<'_>) -> Check {
    let statement =
        "At 400 ms most first retransmissions are unsolicited bundling, and nearly all of these are spurious.";
    let first = base.at(TABLE[3].0).map(Retransmissions::of);
    let shares = first.and_then(|first| {
        Some([first.share_by(Ordinal::First, Bundled)?, first.spurious_share_by(Ordinal::First, Bundled)?])
    });
    let Some([share, spurious]) = shares else { return skipped(statement) };
    let seen = format!("{:.1}% of all, of which {:.1}% are spurious", share * 100.0, spurious * 100.0);
    Check::new(statement, share > 0.5 && spurious > NEARLY_ALL, seen)
}

fn above_a_second(base: &Base<'_>) -> Check {
    let statement = "With an RTO.Min of 1 s timeouts and fast retransmissions take more than a second on average.";
    let means = [Timeout, Fast].map(|cause| base.over_rtts(Quantity::Mean, cause));
    let [Some(timeouts), Some(fast)] = means else { return skipped(statement) };
    let all: Vec<f64> = timeouts.into_iter().chain(fast).collect();
    let seen: Vec<String> = all.iter().map(|mean| format!("{mean:.0}")).collect();
    Check::new(statement, all.iter().all(|mean| *mean >= 1000.0), format!("means of {} ms", seen.join(", ")))
}

fn fast_retransmissions_are_rare(base: &Base<'_>) -> Check {
    let statement = "Hardly any first retransmission is a fast one: fewer than one in seven.";
    let Some(shares) = base.over_rtts(Quantity::Share, Fast) else { return skipped(statement) };
    Check::new(statement, shares.iter().all(|share| *share < 100.0 / 7.0), percents(&shares))
}

fn skipped(statement: &str) -> Check {
    Check::skipped(statement, "not all round-trip times of the table were run")
}

fn percents(shares: &[f64]) -> String {
    let seen: Vec<String> = shares.iter().map(|share| format!("{share:.1}%")).collect();
    format!("{} in the order of the round-trip time", seen.join(", "))
}
