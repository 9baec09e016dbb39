//! The senders side by side under the same conditions, and what R15 says of them as checks.

use super::Family;
use crate::count::as_f64;
use crate::evidence::{Bound, Estimate, Evidence, Judgement};
use crate::experiment::Check;
use crate::scoreboard::Entry;
use crate::summary::{PointSummary, Repeated, Results};

/// What R15 found "in almost all cases" holds in at least this share of ours. The bound is ours.
pub(crate) const ALMOST_ALL: f64 = 0.9;
/// Delays that lie closer together count as equal, in milliseconds: less than any network's clock tells.
const EQUAL_MS: f64 = 0.5;
/// A sender is as fast as another if it is slower by less than this share. The bound is ours.
const AS_FAST: f64 = 0.02;
/// How many cases are named where a statement does not hold.
const NAMED_MAX: usize = 6;

/// A delay of each sender in each case: under each combination of the other parameters.
pub(crate) struct Cases<'a> {
    what: &'static str,
    is_random: bool,
    cases: Vec<Case<'a>>,
}

/// One combination, and the delay of each sender.
pub(crate) struct Case<'a> {
    pub(crate) point: &'a PointSummary,
    label: String,
    is_random: bool,
    delays: Vec<(&'static str, Repeated)>,
}

/// Where a sender stands among others in a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing<'n> {
    /// It is faster than each of them.
    Best,
    /// None is faster. The first list is as fast; the second does not differ measurably.
    Tie(Vec<&'n str>, Vec<&'n str>),
    /// These are faster.
    Worse(Vec<&'n str>),
}

impl Case<'_> {
    /// The combination in words.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// Each sender with its mean delay in milliseconds, in the order of the plan.
    pub(crate) fn delays_ms(&self) -> impl Iterator<Item = (&'static str, Estimate)> {
        self.delays.iter().filter_map(|(name, delays)| {
            let estimate = Estimate::of(delays)?;
            Some((*name, if self.is_random { estimate } else { Estimate::exact(estimate.mean) }))
        })
    }

    /// The mean delays of two senders in milliseconds.
    pub(crate) fn pair_ms(&self, [one, other]: [&str; 2]) -> Option<[f64; 2]> {
        Some([self.delay(one)?.mean()?, self.delay(other)?.mean()?])
    }

    fn delay(&self, sender: &str) -> Option<&Repeated> {
        self.delays.iter().find(|(name, _)| *name == sender).map(|(_, delays)| delays)
    }

    /// How many milliseconds one sender is slower than another: of paired repetitions, or exactly if nothing is random.
    fn slower_ms(&self, [one, other]: [&str; 2]) -> Option<Estimate> {
        let difference = Estimate::difference(self.delay(one)?, 1.0, self.delay(other)?)?;
        Some(if self.is_random { difference } else { Estimate::exact(difference.mean) })
    }

    /// Whether one sender is strictly slower than another.
    fn is_slower(&self, pair: [&str; 2]) -> Option<Judgement> {
        Some(Bound::MoreThan(EQUAL_MS).judge(&self.slower_ms(pair)?))
    }

    /// Whether one sender is shown to be as fast as another: slower by less than [`AS_FAST`] of the other's delay, if at all.
    fn is_as_fast(&self, pair: [&str; 2]) -> Option<bool> {
        let bound = (self.pair_ms(pair)?[1] * AS_FAST).max(EQUAL_MS);
        Some(Bound::LessThan(bound).judge(&self.slower_ms(pair)?) == Judgement::Holds)
    }

    /// Where a sender stands among `others`; `None` if one of them is missing.
    pub(crate) fn standing<'n>(&self, sender: &str, others: &[&'n str]) -> Option<Standing<'n>> {
        let (mut faster, mut equal, mut open) = (Vec::new(), Vec::new(), Vec::new());
        for &other in others {
            match (self.is_slower([sender, other])?, self.is_slower([other, sender])?) {
                (Judgement::Holds, _) => faster.push(other),
                (_, Judgement::Holds) => {}
                _ if self.is_as_fast([sender, other])? => equal.push(other),
                _ => open.push(other),
            }
        }
        Some(match (faster.is_empty(), equal.is_empty() && open.is_empty()) {
            (false, _) => Standing::Worse(faster),
            (true, false) => Standing::Tie(equal, open),
            (true, true) => Standing::Best,
        })
    }
}

impl<'a> Cases<'a> {
    /// By the means of a series over repetitions. A mean of fewer than `delays_min` tells nothing and is left out.
    pub(crate) fn of(results: &'a Results, series: &'static str, delays_min: u64) -> Self {
        Self::new(results, series, delays_min, true)
    }

    /// As [`of`](Self::of), where nothing is random.
    pub(crate) fn exact(results: &'a Results, series: &'static str) -> Self {
        Self::new(results, series, 1, false)
    }

    fn new(results: &'a Results, series: &'static str, delays_min: u64, is_random: bool) -> Self {
        let swept: Vec<&str> = results.plan().swept().filter(|name| *name != "sender").collect();
        let mut cases: Vec<Case<'a>> = Vec::new();
        for point in results.points() {
            let Some(delays) = point.series().get(series).filter(|delays| delays.all().count() >= delays_min) else {
                continue;
            };
            let delays = delays.mean_s().map(|seconds| seconds * 1e3);
            let values = swept.iter().filter_map(|name| Some(format!("{name} {}", point.point().value(name)?)));
            let mut label = values.collect::<Vec<_>>().join(", ");
            if label.is_empty() {
                "the only conditions".clone_into(&mut label);
            }
            let sender = point.point().choice("sender");
            match cases.iter_mut().find(|case| case.label == label) {
                Some(case) => case.delays.push((sender, delays)),
                None => cases.push(Case { point, label, is_random, delays: vec![(sender, delays)] }),
            }
        }
        Self { what: series, is_random, cases }
    }

    /// Only those that fulfil a condition.
    pub(crate) fn only(mut self, condition: impl Fn(&PointSummary) -> bool) -> Self {
        self.cases.retain(|case| condition(case.point));
        self
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Case<'a>> {
        self.cases.iter()
    }

    /// "All three enhancements outperform the standard TCP", and what came after them.
    pub(crate) fn standard_checks(&self, family: &Family) -> Vec<Check> {
        family.mechanisms().iter().map(|sender| self.standard_check(family, sender)).collect()
    }

    /// That a sender is faster than the standard on average over the cases.
    pub(crate) fn standard_check(&self, family: &Family, sender: &str) -> Check {
        let Self { what, .. } = self;
        let statement = format!("{}: {sender} is on average faster than {} ({what}).", family.name, family.standard);
        let mut evidence = Evidence::new();
        let slower: Vec<&str> = self
            .cases
            .iter()
            .filter(|case| case.is_slower([sender, family.standard]) == Some(Judgement::Holds))
            .map(Case::label)
            .collect();
        let mut seen = format!("slower in {} of {} cases", slower.len(), self.cases.len());
        if !slower.is_empty() {
            seen += &format!(" ({})", named(&slower));
        }
        evidence.cell(
            format!("{seen}; ratio of the means"),
            self.ratio([sender, family.standard]),
            Bound::LessThan(1.0),
        );
        evidence.check(statement).id(family.id(&format!("{sender}-outperforms")))
    }

    /// "The relative gain using TLP and RTOR is scenario dependent."
    pub(crate) fn dependence_check(&self, family: &Family) -> Check {
        let Family { name, rtor, tlp, .. } = family;
        let statement =
            format!("{name}: whether {rtor} or {tlp} is faster depends on the case: each is in some ({}).", self.what);
        let count = |pair, wanted| self.cases.iter().filter(|case| case.is_slower(pair) == Some(wanted)).count();
        let [restart, probe] = [count([tlp, rtor], Judgement::Holds), count([rtor, tlp], Judgement::Holds)];
        let all = self.cases.iter().filter(|case| case.is_slower([tlp, rtor]).is_some()).count();
        if all < 2 {
            return Check::skipped(statement, if all == 0 { LACKING } else { "there is one case only" })
                .id(family.id("depends"));
        }
        let mut evidence = Evidence::new();
        let judgement = match (restart > 0 && probe > 0, restart + probe == all) {
            (true, _) => Judgement::Holds,
            (false, true) => Judgement::Broken,
            (false, false) => Judgement::Undecided,
        };
        evidence.judged(judgement, format!("{rtor} in {restart}, {tlp} in {probe} of {all} cases"));
        evidence.check(statement).id(family.id("depends"))
    }

    /// "TLPR has the largest gain in almost all scenarios", by a reading of TLPR. An equal gain is the largest, too, in less than half of the cases.
    pub(crate) fn best_check(&self, family: &Family, (tlpr, reading): (&str, &'static str)) -> Check {
        let others = [family.standard, family.rtor, family.tlp];
        let statement = format!(
            "{}: {tlpr} is the fastest of {} and itself in almost all cases, {:.0}% ({}).",
            family.name,
            others.join(", "),
            ALMOST_ALL * 100.0,
            self.what
        );
        let standings: Vec<(&str, Standing<'_>)> =
            self.cases.iter().filter_map(|case| Some((case.label(), case.standing(tlpr, &others)?))).collect();
        let all = standings.len();
        if all == 0 {
            return Check::skipped(statement, LACKING).id(family.id("tlpr-best")).under(reading);
        }
        let of = |wanted: fn(&Standing<'_>) -> bool| -> Vec<&(&str, Standing<'_>)> {
            standings.iter().filter(|(_, standing)| wanted(standing)).collect()
        };
        let best = of(|standing| matches!(standing, Standing::Best)).len();
        let ties = of(|standing| matches!(standing, Standing::Tie(..)));
        let equal = of(|standing| matches!(standing, Standing::Tie(_, open) if open.is_empty())).len();
        let worse = of(|standing| matches!(standing, Standing::Worse(_)));
        let words = |standings: &[&(&str, Standing<'_>)]| {
            let words = standings.iter().map(|(label, standing)| match standing {
                Standing::Best => (*label).to_owned(),
                Standing::Tie(with, open) => {
                    format!("with {} at {label}", [&with[..], &open[..]].concat().join(" and "))
                }
                Standing::Worse(than) => format!("than {} at {label}", than.join(" and ")),
            });
            let words: Vec<String> = words.collect();
            named(&words.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let mut seen = format!(
            "best in {best}, tied in {} ({equal} as fast), worse in {} of {all} cases",
            ties.len(),
            worse.len()
        );
        if !worse.is_empty() {
            seen += &format!("; worse {}", words(&worse));
        }
        if !ties.is_empty() {
            seen += &format!("; tied {}", words(&ties));
        }
        let judgement = match () {
            () if as_share(best, all) >= ALMOST_ALL => Judgement::Holds,
            () if 2 * best > all && as_share(best + equal, all) >= ALMOST_ALL => Judgement::Holds,
            () if as_share(worse.len(), all) > 1.0 - ALMOST_ALL => Judgement::Broken,
            () if 2 * (equal + worse.len()) >= all => Judgement::Broken,
            // Where nothing is random a tie is one.
            () if !self.is_random => Judgement::Broken,
            () => Judgement::Undecided,
        };
        let mut evidence = Evidence::new();
        evidence.judged(judgement, seen);
        evidence.check(statement).id(family.id("tlpr-best")).under(reading)
    }

    /// Compares with a published number the reduction of a sender's mean delay over all cases, relative to the standard.
    pub(crate) fn saving(&self, what: &str, published: f64, family: &Family, sender: &str) -> Entry {
        let saved = self.ratio([sender, family.standard]).map(|ratio| ratio.times(-100.0).plus(100.0));
        let what = format!("{what}, {} ({sender} against {})", family.name, family.standard);
        Entry::value(what, "%", published, saved)
    }

    /// The mean delay of one sender over all cases that have both, over that of the other.
    fn ratio(&self, [one, other]: [&str; 2]) -> Option<Estimate> {
        let mut sums: Option<[Repeated; 2]> = None;
        for case in &self.cases {
            let (Some(one), Some(other)) = (case.delay(one), case.delay(other)) else { continue };
            sums = Some(match sums {
                None => [one.clone(), other.clone()],
                Some([ones, others]) => [ones.zip_with(one, |a, b| a + b), others.zip_with(other, |a, b| a + b)],
            });
        }
        let [one, other] = sums?;
        let ratio = Estimate::ratio(&one, &other)?;
        Some(if self.is_random { ratio } else { Estimate::exact(ratio.mean) })
    }
}

const LACKING: &str = "the plan has not these senders, or too few delays to tell";

/// The first of several names.
fn named(names: &[&str]) -> String {
    let mut text = names.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join("; ");
    if names.len() > NAMED_MAX {
        text += &format!("; and {} more", names.len() - NAMED_MAX);
    }
    text
}

/// How large a share of `all` it is.
pub(crate) fn as_share(of: usize, all: usize) -> f64 {
    as_f64(of) / as_f64(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::Md1;
    use crate::plan::{Plan, Scale};

    fn standing<'n>(is_random: bool, delays: &[(&'static str, &[f64])], others: &[&'n str]) -> Option<Standing<'n>> {
        let point = PointSummary::new(Plan::own(&Md1, Scale::Quick).points()[0].clone());
        let delays = delays.iter().map(|(name, values)| (*name, values.iter().copied().collect())).collect();
        Case { point: &point, label: String::new(), is_random, delays }.standing("a", others)
    }

    #[test]
    fn only_a_sender_that_is_faster_than_every_other_one_is_the_best() {
        let base: &[f64] = &[100.0, 300.0, 200.0, 400.0];
        let later: &[f64] = &[111.0, 309.0, 212.0, 408.0];
        let noisy: &[f64] = &[500.0, 300.0, 200.0, 400.0];
        assert_eq!(standing(true, &[("a", base), ("b", later)], &["b"]), Some(Standing::Best));
        assert_eq!(standing(true, &[("a", later), ("b", base)], &["b"]), Some(Standing::Worse(vec!["b"])));
        let tie = Some(Standing::Tie(Vec::new(), vec!["c"]));
        assert_eq!(standing(true, &[("a", base), ("b", later), ("c", noisy)], &["b", "c"]), tie, "noise is no win");
        assert_eq!(standing(true, &[("a", base)], &["b"]), None);
    }

    #[test]
    fn where_nothing_is_random_half_a_millisecond_decides_and_otherwise_one_run_does_not() {
        let one_run = |is_random, other: &'static [f64]| standing(is_random, &[("a", &[100.0]), ("b", other)], &["b"]);
        assert_eq!(one_run(false, &[100.6]), Some(Standing::Best));
        assert_eq!(one_run(false, &[100.4]), Some(Standing::Tie(vec!["b"], Vec::new())));
        assert_eq!(one_run(true, &[100.6]), Some(Standing::Tie(Vec::new(), vec!["b"])));
    }

    #[test]
    fn a_sender_that_is_merely_as_fast_as_another_in_half_of_the_cases_has_not_the_largest_gain() {
        let point = PointSummary::new(Plan::own(&Md1, Scale::Quick).points()[0].clone());
        let [fast, faster, slow] = [[100.0, 101.0, 99.0], [80.0, 81.0, 79.0], [200.0, 201.0, 199.0]];
        let verdict = |best: usize, equal: usize, worse: usize| {
            let tlpr = [vec![faster; best], vec![fast; equal], vec![slow; worse]].concat();
            let case = |own: [f64; 3]| {
                let others = ["tcp-standard", "tcp-rtor", "tcp-tlp"].map(|name| (name, fast));
                let delays = others.into_iter().chain([("tcp-tlpr", own)]);
                let delays = delays.map(|(name, values)| (name, values.into_iter().collect())).collect();
                Case { point: &point, label: String::new(), is_random: true, delays }
            };
            let cases = Cases { what: "delays", is_random: true, cases: tlpr.into_iter().map(case).collect() };
            let check = cases.best_check(&Family::TCP, ("tcp-tlpr", "a reading"));
            assert_eq!((check.id.as_str(), check.under), ("tlpr-best", "a reading"));
            check.verdict.word()
        };
        assert_eq!([verdict(9, 0, 1), verdict(6, 4, 0), verdict(8, 0, 2)], ["holds", "holds", "broken"]);
        assert_eq!([verdict(5, 5, 0), verdict(1, 4, 0)], ["broken", "broken"]);
    }
}
