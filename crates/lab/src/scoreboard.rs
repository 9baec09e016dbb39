//! Published numbers and inequalities, and ours.

use crate::count::as_f64;
use crate::evidence::table::OneRun;
use crate::evidence::{Bound, Estimate, Judgement};
use crate::summary::Repeated;

/// A published number counts as met if ours differs by at most this share of it.
pub const MARGIN: f64 = 0.25;

/// A published result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Published {
    /// A number.
    Value(f64),
    /// A number of one run, and half the width of the interval that holds 95% of such runs, by ours.
    OneRun(f64, f64),
    /// An inequality, such as "less than 1".
    Inequality(Bound),
}

/// Whether a published number counts for the score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It does.
    Scored,
    /// A parameter was chosen so that it comes out; which and how. It is shown only.
    Fitted(&'static str),
    /// The model cannot show it; why.
    NotTested(String),
}

/// A published number or inequality, and our measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Name of the number, such as `mean waiting time, load 50%`.
    pub what: String,
    /// The unit of both, empty if they have none.
    pub unit: &'static str,
    /// The published result.
    pub published: Published,
    /// Our measurement; `None` if this run has none.
    pub measured: Option<Estimate>,
    /// Distance of the published number from the mean of our runs, in standard deviations, if a single run was published.
    pub z: Option<f64>,
    /// Whether it counts.
    pub standing: Standing,
    /// Why the two differ, as far as known.
    pub why: Option<String>,
    /// If a single run was published, the share of our runs that lie at least as far from their mean on its side.
    as_extreme: Option<f64>,
    /// The interval that is judged, if not that of `measured`: ours over the published number with the chance of both.
    judged: Option<(Estimate, Bound)>,
}

impl Entry {
    /// A published number, met if the whole interval of ours lies within a quarter of it.
    pub fn value(what: impl Into<String>, unit: &'static str, published: f64, measured: Option<Estimate>) -> Self {
        Self::new(what.into(), unit, Published::Value(published), measured)
    }

    /// A published inequality, met if the whole interval of ours is on its side.
    pub fn inequality(what: impl Into<String>, unit: &'static str, bound: Bound, measured: Option<Estimate>) -> Self {
        Self::new(what.into(), unit, Published::Inequality(bound), measured)
    }

    /// A number of a single published run, which varies by chance as ours do.
    pub fn one_run(what: impl Into<String>, unit: &'static str, published: f64, ours: Option<&Repeated>) -> Self {
        let beside = ours.and_then(|ours| OneRun::of(published, ours));
        let shown = beside
            .map_or(Published::Value(published), |beside| Published::OneRun(published, beside.published_half_width));
        Self {
            z: beside.map(|beside| beside.z),
            as_extreme: ours.and_then(|ours| as_extreme(ours, published)),
            judged: beside.map(|beside| (beside.ratio, Bound::about(1.0, MARGIN))),
            ..Self::new(what.into(), unit, shown, ours.and_then(Estimate::of))
        }
    }

    fn new(what: String, unit: &'static str, published: Published, measured: Option<Estimate>) -> Self {
        let standing = Standing::Scored;
        Self { what, unit, published, measured, z: None, standing, why: None, as_extreme: None, judged: None }
    }

    /// Says why both differ.
    #[must_use]
    pub fn because(self, why: impl Into<String>) -> Self {
        Self { why: Some(why.into()), ..self }
    }

    /// States to which result a parameter was fitted: the entry is shown, not scored.
    #[must_use]
    pub fn fitted(self, how: &'static str) -> Self {
        Self { standing: Standing::Fitted(how), ..self }
    }

    /// Says why the model cannot show it.
    #[must_use]
    pub fn impossible(self, why: impl Into<String>) -> Self {
        Self { standing: Standing::NotTested(why.into()), ..self }
    }

    /// What our interval says about it; `None` if it was not measured, or the model cannot show it.
    pub fn judgement(&self) -> Option<Judgement> {
        self.judgement_one_of(1)
    }

    /// As [`judgement`](Self::judgement), as one of `numbers` in a statement that is broken if any of them is ([`Bound::judge_one_of`]).
    fn judgement_one_of(&self, numbers: usize) -> Option<Judgement> {
        let (estimate, bound) = self.estimate()?;
        Some(match bound.judge_one_of(numbers, &estimate) {
            // Counts of few events have no normal distribution.
            Judgement::Broken if self.is_seen() => Judgement::Undecided,
            judgement => judgement,
        })
    }

    /// The judged estimate and its bound; `None` if it was not measured, or the model cannot show it.
    fn estimate(&self) -> Option<(Estimate, Bound)> {
        let measured = self.measured.filter(|_| !matches!(self.standing, Standing::NotTested(_)))?;
        Some(self.judged.unwrap_or_else(|| match self.published {
            Published::Value(value) | Published::OneRun(value, _) => (measured, Bound::about(value, MARGIN)),
            Published::Inequality(bound) => (measured, bound),
        }))
    }

    /// Estimates how many runs would decide it, as one of `numbers`, if it is undecided; `None` if no number would.
    pub fn runs_to_decide(&self, numbers: usize) -> Option<f64> {
        let (estimate, bound) = self.estimate().filter(|_| !self.stays_undecided())?;
        bound.runs_to_decide_one_of(numbers, &estimate)
    }

    /// Whether some of our runs, one in a hundred at least, are as far from their mean as the published one.
    fn is_seen(&self) -> bool {
        self.as_extreme.is_some_and(|share| share >= 0.01)
    }

    /// Returns whether no number of our runs could decide it, because the paper has a single run.
    pub fn stays_undecided(&self) -> bool {
        let Some((ratio, bound)) = self.judged.filter(|_| self.word() == "undecided") else { return false };
        // The rest of the interval without the randomness of our mean.
        let of_mean = 1.0 + 1.0 / as_f64(ratio.repetitions);
        let half_width = ratio.half_width.map(|half| half / of_mean.sqrt());
        self.is_seen() || bound.judge(&Estimate { half_width, ..ratio }) == Judgement::Undecided
    }

    /// Returns whether it [stays undecided](Self::stays_undecided) and the published run lies where nearly all runs like ours do.
    pub fn is_within_chance(&self) -> bool {
        /// In standard deviations. Of 20 numbers of a true statement one lies beyond in one of 19 cases.
        const NEARLY_ALL: f64 = 3.0;
        self.stays_undecided() && (self.is_seen() || self.z.is_some_and(|z| z.abs() <= NEARLY_ALL))
    }

    /// The judgement in one word, as reports have it.
    pub fn word(&self) -> &'static str {
        self.word_one_of(1)
    }

    /// As `word`, as one of `numbers` in a statement that is broken if any of them is.
    pub fn word_one_of(&self, numbers: usize) -> &'static str {
        match (&self.standing, self.judgement_one_of(numbers)) {
            (Standing::NotTested(_), _) | (_, None) => "not tested",
            (Standing::Fitted(_), _) => "fitted",
            (Standing::Scored, Some(Judgement::Holds)) => "met",
            (Standing::Scored, Some(Judgement::Broken)) => "missed",
            (Standing::Scored, Some(Judgement::Undecided)) => "undecided",
        }
    }

    /// Ours over the published number, less one; `None` for inequalities, and if either is missing or zero was published.
    pub fn deviation(&self) -> Option<f64> {
        let (Published::Value(value) | Published::OneRun(value, _)) = self.published else { return None };
        let deviation = match self.measured?.mean {
            mean if mean == value => 0.0,
            mean => mean / value - 1.0,
        };
        Some(deviation).filter(|deviation| deviation.is_finite())
    }
}

/// The share of runs that lie at least as far from their mean as a number on its side of it. `None` without a mean.
fn as_extreme(runs: &Repeated, number: f64) -> Option<f64> {
    let mean = runs.mean()?;
    let beyond = |run: f64| if number >= mean { run >= number } else { run <= number };
    let count = runs.values().iter().filter(|run| beyond(**run)).count();
    Some(as_f64(count) / as_f64(runs.values().len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(mean: f64, half_width: f64) -> Option<Estimate> {
        Some(Estimate { mean, half_width: Some(half_width), repetitions: 5 })
    }

    #[test]
    fn an_inequality_is_met_by_what_confirms_it_and_missed_by_what_contradicts_it() {
        let word = |mean| Entry::inequality("99% over mean", "", Bound::LessThan(1.0), estimate(mean, 0.02)).word();
        assert_eq!([0.58, 0.71, 1.189, 1.01].map(word), ["met", "met", "missed", "undecided"]);
    }

    #[test]
    fn a_number_that_was_fitted_or_that_the_model_cannot_show_is_not_scored() {
        let entry = Entry::value("share", "%", 5.0, estimate(5.0, 0.1));
        assert_eq!(entry.word(), "met");
        assert_eq!(entry.clone().fitted("the loss to this number").word(), "fitted");
        assert_eq!(entry.clone().impossible("hosts take no time").word(), "not tested");
        assert_eq!(Entry { measured: None, ..entry }.word(), "not tested");
    }

    #[test]
    fn a_rare_class_of_one_published_run_decides_nothing() {
        let rare: Repeated = [20.0, 40.0, 30.0, 25.0].into_iter().collect();
        let entry = Entry::one_run("number", "", 30.0, Some(&rare));
        assert_eq!(entry.word(), "undecided");
        assert!(entry.z.is_some_and(|z| z.abs() < 1.0));
        assert!(entry.stays_undecided(), "the published run alone varies by more than a quarter");
        assert!(entry.is_within_chance());
        // One event in the published run, and one in ten runs of ours.
        let single: Repeated = [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0].into_iter().collect();
        let entry = Entry::one_run("number", "", 1.0, Some(&single));
        assert_eq!((entry.word(), entry.is_within_chance()), ("undecided", true), "z {:?}", entry.z);
        assert_eq!(Entry::one_run("number", "", 3.0, Some(&single)).word(), "missed");
        let few: Repeated = [100.0, 108.0, 116.0].into_iter().collect();
        let entry = Entry::one_run("number", "", 100.0, Some(&few));
        assert_eq!((entry.word(), entry.stays_undecided()), ("undecided", true), "z {:?}", entry.z);
        let many: Repeated = [280.0, 290.0, 285.0, 275.0].into_iter().collect();
        assert_eq!(Entry::one_run("number", "", 282.0, Some(&many)).word(), "met");
        assert!(!Entry::one_run("number", "", 282.0, Some(&many)).is_within_chance(), "it is met");
        assert_eq!(Entry::one_run("number", "", 900.0, Some(&many)).word(), "missed");
    }

    #[test]
    fn a_number_is_missed_if_the_whole_interval_differs_by_more_than_a_quarter_either_way() {
        let word = |mean, half_width| Entry::value("", "ms", 100.0, estimate(mean, half_width)).word();
        assert_eq!(
            [75.0, 125.0, 74.0, 126.0, -100.0].map(|mean| word(mean, 0.0)),
            ["met", "met", "missed", "missed", "missed"]
        );
        assert_eq!((word(100.0, 30.0), word(140.0, 20.0)), ("undecided", "undecided"));
        let one_run = Estimate { mean: 100.0, half_width: None, repetitions: 1 };
        assert_eq!(Entry::value("", "ms", 100.0, Some(one_run)).word(), "undecided");
    }

    #[test]
    fn zero_is_met_by_zero_only() {
        let zero = |mean| Entry::value("", "", 0.0, Some(Estimate::exact(mean)));
        assert_eq!((zero(0.0).word(), zero(0.0).deviation()), ("met", Some(0.0)));
        assert_eq!((zero(1.0).word(), zero(1.0).deviation()), ("missed", None));
    }
}
