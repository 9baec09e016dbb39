//! Evidence of repetitions for a statement: an estimate with its interval, a bound, and a judgement.
//!
//! - [`Estimate`] is a mean with its 95% interval, also of paired differences and ratios
//! - [`Bound`] is the bound of a statement; [`Bound::judge`] applies it
//! - [`Evidence`] collects the cells of one statement into a [`Check`]
//! - [`declared`] judges the checks of plans
//! - [`table`] judges counts and means of a published table

pub mod declared;
pub mod table;

use crate::count::as_f64;
use crate::experiment::{Check, Verdict};
use crate::summary::{Repeated, half_width_95, widening};

/// The mean of a number over the repetitions, and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of its 95% interval (Student's t); `None` if there was one repetition, which says nothing about chance.
    pub half_width: Option<f64>,
    /// Number of repetitions.
    pub repetitions: usize,
}

impl Estimate {
    /// A number in which nothing is random.
    pub fn exact(value: f64) -> Self {
        Self { mean: value, half_width: Some(0.0), repetitions: 1 }
    }

    /// The mean of a number; `None` if no repetition has it.
    pub fn of(values: &Repeated) -> Option<Self> {
        Self::of_values(values.values())
    }

    /// Returns the mean of paired differences: how much larger one number is than another in the same repetition, times `factor`. Repetitions without
    /// either number are ignored.
    pub fn difference(one: &Repeated, factor: f64, other: &Repeated) -> Option<Self> {
        let differences: Vec<f64> = one.paired(other).map(|(one, other)| one - factor * other).collect();
        Self::of_values(&differences)
    }

    /// Returns the ratio of two means, with an interval from the paired residuals. Repetitions without either number are ignored. `None` if the
    /// denominator is zero on average.
    pub fn ratio(over: &Repeated, under: &Repeated) -> Option<Self> {
        let pairs: Vec<(f64, f64)> = over.paired(under).collect();
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / as_f64(pairs.len());
        let base = mean(&mut pairs.iter().map(|(_, under)| *under));
        if pairs.is_empty() || base == 0.0 {
            return None;
        }
        let ratio = mean(&mut pairs.iter().map(|(over, _)| *over)) / base;
        let residuals: Vec<f64> = pairs.iter().map(|(over, under)| over - ratio * under).collect();
        let half_width = half_width_95(&residuals).map(|half| half / base.abs());
        Some(Self { mean: ratio, half_width, repetitions: pairs.len() })
    }

    /// The mean of plain numbers, one per repetition.
    pub fn of_values(values: &[f64]) -> Option<Self> {
        let repetitions = values.len();
        let mean = values.iter().sum::<f64>() / as_f64(repetitions);
        (repetitions > 0).then(|| Self { mean, half_width: half_width_95(values), repetitions })
    }

    /// The same in another unit, or of opposite sign.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self { mean: self.mean * factor, half_width: self.half_width.map(|half| half * factor.abs()), ..self }
    }

    /// The same plus a constant.
    #[must_use]
    pub fn plus(self, constant: f64) -> Self {
        Self { mean: self.mean + constant, ..self }
    }

    /// Both ends of the interval.
    pub fn interval(&self) -> Option<[f64; 2]> {
        self.half_width.map(|half| [self.mean - half, self.mean + half])
    }
}

/// As `1.189 ± 0.04 (n = 5)`.
impl std::fmt::Display for Estimate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mean = number(self.mean);
        match self.half_width {
            Some(half) if self.repetitions > 1 => write!(f, "{mean} ± {} (n = {})", number(half), self.repetitions),
            Some(_) => write!(f, "{mean} (exact)"),
            None => write!(f, "{mean} (one run, no interval)"),
        }
    }
}

/// Three or four digits that matter.
fn number(value: f64) -> String {
    let decimals = match value.abs() {
        magnitude if magnitude >= 100.0 || magnitude == 0.0 => 0,
        magnitude if magnitude >= 10.0 => 1,
        magnitude if magnitude >= 1.0 => 2,
        _ => 3,
    };
    // Zero has no sign.
    format!("{:.decimals$}", value + 0.0)
}

/// The bound that a statement sets for a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// It lies below.
    LessThan(f64),
    /// It lies above.
    MoreThan(f64),
    /// It lies between both, which count: equal within a margin.
    Within(f64, f64),
}

/// The judgement of an estimate against a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The whole interval meets the bound.
    Holds,
    /// The whole interval violates it.
    Broken,
    /// The interval reaches over the bound, or there is none.
    Undecided,
}

impl Judgement {
    /// As `holds`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Broken => "broken",
            Self::Undecided => "undecided",
        }
    }
}

impl Bound {
    /// Equal to `value` within a share of it.
    pub fn about(value: f64, margin: f64) -> Self {
        let width = (value * margin).abs();
        Self::Within(value - width, value + width)
    }

    /// Judges one of `cells` of a statement that is broken if any of them is. The interval is widened, so that at most one in twenty sets of runs
    /// shows a broken cell of a true statement, regardless of the number of cells. For the judgement that all cells hold no widening is needed.
    pub fn judge_one_of(self, cells: usize, estimate: &Estimate) -> Judgement {
        let factor = widening(estimate.repetitions, cells);
        let wider = Estimate { half_width: estimate.half_width.map(|half| half * factor), ..*estimate };
        match (self.judge(estimate), self.judge(&wider)) {
            (Judgement::Broken, Judgement::Broken) => Judgement::Broken,
            (Judgement::Broken, _) => Judgement::Undecided,
            (judgement, _) => judgement,
        }
    }

    /// Judges by the whole interval.
    pub fn judge(self, estimate: &Estimate) -> Judgement {
        let Some([low, high]) = estimate.interval() else { return Judgement::Undecided };
        let (meets, violates) = match self {
            Self::LessThan(bound) => (high < bound, low >= bound),
            Self::MoreThan(bound) => (low > bound, high <= bound),
            Self::Within(from, to) => (from <= low && high <= to, high < from || to < low),
        };
        match (meets, violates) {
            (true, _) => Judgement::Holds,
            (_, true) => Judgement::Broken,
            _ => Judgement::Undecided,
        }
    }
}

/// More runs than this are not worth a prediction.
const RUNS_PREDICTED_MAX: f64 = 10_000.0;

impl Bound {
    /// Estimates how many runs would decide an undecided estimate, one of `cells` of a statement; `None` if 10,000 would not.
    pub(crate) fn runs_to_decide_one_of(self, cells: usize, estimate: &Estimate) -> Option<f64> {
        let may_hold = self.judge(&Estimate::exact(estimate.mean)) == Judgement::Holds;
        let factor = if may_hold { 1.0 } else { widening(estimate.repetitions, cells) };
        self.runs_to_decide(estimate, estimate.half_width? * factor)
    }

    /// Estimates how many runs would decide, if their mean and spread stayed as they are: the interval shrinks with the root of their number. Rounded
    /// to two digits; `None` if 10,000 runs would not decide.
    fn runs_to_decide(self, estimate: &Estimate, half_width: f64) -> Option<f64> {
        let distance = match self {
            Self::LessThan(bound) | Self::MoreThan(bound) => (estimate.mean - bound).abs(),
            Self::Within(from, to) => (estimate.mean - from).abs().min((estimate.mean - to).abs()),
        };
        rounded(as_f64(estimate.repetitions) * (half_width / distance).powi(2))
    }
}

/// A predicted number of runs, rounded up to two digits; `None` if it is not worth a prediction.
fn rounded(runs: f64) -> Option<f64> {
    let unit = 10f64.powf((runs.log10().floor() - 1.0).max(0.0));
    let runs = (runs / unit).ceil() * unit;
    (runs <= RUNS_PREDICTED_MAX).then_some(runs)
}

/// As `< 1`.
impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::LessThan(bound) => write!(f, "< {}", number(*bound)),
            Self::MoreThan(bound) => write!(f, "> {}", number(*bound)),
            Self::Within(from, to) => write!(f, "{} to {}", number(*from), number(*to)),
        }
    }
}

/// A statement is undecided if more than one in this many of its cells has no data.
const LEFT_OUT_MAX: usize = 3;

/// Statements with more cells list only those that do not hold.
const CELLS_LISTED_MAX: usize = 40;

/// A cell of a statement.
#[derive(Clone, Debug)]
struct Cell {
    /// Text of the observation.
    seen: String,
    /// The estimate and its bound, or a direct judgement.
    found: Result<(Estimate, Bound), Judgement>,
    /// Number of runs that each number of the estimate is taken over.
    runs_each: u32,
}

/// A cell that could not be tested.
#[derive(Clone, Debug)]
struct LeftOut {
    what: String,
    /// Number of runs that would have enough data, if that can be estimated.
    runs: Option<f64>,
}

impl Cell {
    /// The judgement as one of this many cells.
    fn judgement(&self, cells: usize) -> Judgement {
        match &self.found {
            Ok((estimate, bound)) => bound.judge_one_of(cells, estimate),
            Err(judgement) => *judgement,
        }
    }

    /// Returns how many runs would decide, if the cell is undecided by an estimate; the inner `None` if they would not.
    fn runs_to_decide(&self, cells: usize) -> Option<Option<f64>> {
        let (estimate, bound) = self.found.as_ref().ok().filter(|_| self.judgement(cells) == Judgement::Undecided)?;
        let runs = bound.runs_to_decide_one_of(cells, estimate);
        Some(runs.and_then(|runs| rounded(runs * f64::from(self.runs_each))))
    }
}

/// The evidence for a statement, cell by cell.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    cells: Vec<Cell>,
    left_out: Vec<LeftOut>,
}

impl Evidence {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Judges a cell by an estimate; a cell without one is left out, and listed.
    pub fn cell(&mut self, what: impl Into<String>, estimate: Option<Estimate>, bound: Bound) {
        match estimate {
            Some(estimate) => self.cell_over(1, what, estimate, bound),
            None => self.left_out(what),
        }
    }

    /// Judges a cell by an estimate whose numbers are each taken over several runs.
    pub(crate) fn cell_over(&mut self, runs_each: u32, what: impl Into<String>, estimate: Estimate, bound: Bound) {
        let over = if runs_each > 1 { format!(", over {runs_each} runs each") } else { String::new() };
        let seen = format!("{} {estimate}{over}", what.into());
        self.cells.push(Cell { seen, found: Ok((estimate, bound)), runs_each });
    }

    /// Adds a cell whose judgement counts those of several estimates.
    pub fn judged(&mut self, judgement: Judgement, seen: impl Into<String>) {
        self.cells.push(Cell { seen: seen.into(), found: Err(judgement), runs_each: 1 });
    }

    /// Lists a cell that could not be tested, and why.
    pub fn left_out(&mut self, what: impl Into<String>) {
        self.lacks(what, None);
    }

    /// Lists a cell without enough data, and how many runs would have it, if that can be estimated.
    pub(crate) fn lacks(&mut self, what: impl Into<String>, runs: Option<f64>) {
        self.left_out.push(LeftOut { what: what.into(), runs });
    }

    /// Whether more of the cells are left out than a statement may lack.
    fn lacks_much(&self) -> bool {
        self.left_out.len() * LEFT_OUT_MAX > self.left_out.len() + self.cells.len()
    }

    /// The judgements of the cells.
    fn judgements(&self) -> impl Iterator<Item = Judgement> {
        self.cells.iter().map(|cell| cell.judgement(self.cells.len()))
    }

    /// The judgement of all cells together: broken if one is ([`Bound::judge_one_of`]), holds if all do and at most a third is left out.
    pub fn judgement(&self) -> Option<Judgement> {
        let any = |wanted| self.judgements().any(|judgement| judgement == wanted);
        match () {
            () if self.cells.is_empty() => None,
            () if any(Judgement::Broken) => Some(Judgement::Broken),
            () if any(Judgement::Undecided) || self.lacks_much() => Some(Judgement::Undecided),
            () => Some(Judgement::Holds),
        }
    }

    /// How many runs would have data for as many cells as a statement needs; `None` if it lacks few, the inner `None` if some have no estimate.
    fn runs_with_data(&self) -> Option<Option<f64>> {
        let mut runs: Vec<f64> = self.left_out.iter().map(|cell| cell.runs.unwrap_or(f64::INFINITY)).collect();
        runs.sort_by(f64::total_cmp);
        let may_lack = (runs.len() + self.cells.len()) / LEFT_OUT_MAX;
        let needed = runs.len().checked_sub(may_lack + 1)?;
        runs.get(needed).map(|runs| rounded(*runs))
    }

    /// How many runs would decide; empty if runs do not matter.
    fn what_would_decide(&self) -> String {
        let with_data = self.runs_with_data();
        if with_data == Some(None) {
            return format!("{} of {} cells lack data", self.left_out.len(), self.left_out.len() + self.cells.len());
        }
        let of_cells = self.cells.iter().filter_map(|cell| cell.runs_to_decide(self.cells.len()));
        match of_cells.chain(with_data).reduce(|one, other| Some(one?.max(other?))) {
            None => String::new(),
            Some(None) => "more runs would not decide".to_owned(),
            Some(Some(runs)) => format!("about {runs} runs would decide"),
        }
    }

    /// The check that a statement makes of it.
    pub fn check(self, statement: impl Into<String>) -> Check {
        let differ = self.judgements().any(|judgement| Some(judgement) != self.judgements().next());
        let is_long = self.cells.len() > CELLS_LISTED_MAX;
        let cells = self.cells.iter().zip(self.judgements());
        // Where there are many cells, those that hold are of no interest one by one.
        let listed = cells.filter(|(_, judgement)| !(is_long && *judgement == Judgement::Holds));
        let mut listed: Vec<String> = listed
            .map(
                |(Cell { seen, .. }, judgement)| {
                    if differ { format!("{}: {seen}", judgement.word()) } else { seen.clone() }
                },
            )
            .collect();
        let others = self.cells.len() - listed.len();
        if others > 0 {
            listed.push(if differ { format!("{others} more hold") } else { format!("in all {others} cells") });
        }
        let mut seen = listed.join("; ");
        let left_out = self.left_out.iter().map(|cell| cell.what.as_str()).collect::<Vec<_>>().join(", ");
        if !seen.is_empty() && !left_out.is_empty() {
            seen += &format!("; left out for want of data: {left_out}");
        }
        let verdict = match self.judgement() {
            None if left_out.is_empty() => Verdict::Skipped("this plan has no such point".to_owned()),
            None => Verdict::Skipped(format!("no data: {left_out}")),
            Some(Judgement::Holds) => Verdict::Holds(seen),
            Some(Judgement::Broken) => Verdict::Broken(seen),
            Some(Judgement::Undecided) => Verdict::Undecided(seen),
        };
        let would_decide = match verdict {
            Verdict::Undecided(_) | Verdict::Skipped(_) => self.what_would_decide(),
            _ => String::new(),
        };
        let verdict = match verdict {
            Verdict::Undecided(seen) if !would_decide.is_empty() => {
                Verdict::Undecided(format!("{would_decide}; {seen}"))
            }
            verdict => verdict,
        };
        Check { would_decide, ..Check::judged(statement, verdict) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeated(values: &[f64]) -> Repeated {
        values.iter().copied().collect()
    }

    fn judge(mean: f64, half_width: Option<f64>, bound: Bound) -> Judgement {
        bound.judge(&Estimate { mean, half_width, repetitions: 3 })
    }

    #[test]
    fn only_a_whole_interval_on_one_side_decides() {
        let below = Bound::LessThan(1.0);
        assert_eq!(judge(0.8, Some(0.1), below), Judgement::Holds);
        assert_eq!(judge(1.2, Some(0.1), below), Judgement::Broken);
        assert_eq!(judge(0.95, Some(0.1), below), Judgement::Undecided);
        assert_eq!(judge(1.2, Some(0.1), Bound::MoreThan(1.0)), Judgement::Holds);
        assert_eq!(judge(0.8, Some(0.1), Bound::MoreThan(1.0)), Judgement::Broken);
        for bound in [below, Bound::MoreThan(1.0), Bound::Within(0.0, 9.0)] {
            assert_eq!(judge(0.8, None, bound), Judgement::Undecided, "one run decides nothing");
        }
    }

    #[test]
    fn equal_is_what_lies_within_the_margin_as_a_whole_and_noise_is_not() {
        let equal = Bound::about(100.0, 0.1);
        assert_eq!(judge(104.0, Some(5.0), equal), Judgement::Holds);
        assert_eq!(judge(130.0, Some(5.0), equal), Judgement::Broken);
        assert_eq!(judge(112.0, Some(5.0), equal), Judgement::Undecided);
        assert_eq!(judge(106.3, Some(226.0), equal), Judgement::Undecided);
        assert_eq!(Bound::about(-100.0, 0.1), Bound::Within(-110.0, -90.0));
    }

    #[test]
    fn pairs_cancel_what_both_have_in_common() {
        let one = repeated(&[110.0, 312.0, 211.0]);
        let other = repeated(&[100.0, 300.0, 200.0]);
        let difference = Estimate::difference(&one, 1.0, &other).expect("there are pairs");
        assert!((difference.mean - 11.0).abs() < 1e-9);
        assert!(difference.half_width.expect("three pairs") < 3.0);
        let ratio = Estimate::ratio(&one, &other).expect("there are pairs");
        assert!((ratio.mean - 633.0 / 600.0).abs() < 1e-9);
        assert!(ratio.half_width.expect("three pairs") < 0.06, "{ratio}");
        assert_eq!(Estimate::ratio(&one, &repeated(&[0.0, 0.0, 0.0])), None);
    }

    #[test]
    fn an_undecided_check_says_how_many_runs_would_decide() {
        let seen = |cells: &[(f64, f64)]| {
            let mut evidence = Evidence::new();
            for (mean, half_width) in cells {
                let estimate = Estimate { mean: *mean, half_width: Some(*half_width), repetitions: 10 };
                evidence.cell("cell", Some(estimate), Bound::LessThan(1.0));
            }
            evidence.check("s").verdict.seen().to_owned()
        };
        // The interval of ten runs is twice as wide as the distance to the bound, so four times as many are needed.
        assert!(seen(&[(0.75, 0.5), (0.25, 0.125)]).starts_with("about 40 runs would decide; undecided: cell 0.750"));
        assert!(
            seen(&[(0.75, 0.5), (0.875, 0.5)]).starts_with("about 160 runs would decide; "),
            "the most that one needs"
        );
        assert!(seen(&[(0.999, 0.5), (0.75, 0.5)]).starts_with("more runs would not decide; "));
        assert!(seen(&[(1.25, 0.125)]).starts_with("cell 1.25"), "it is decided");
        // On the wrong side one of two cells needs a wider interval: 1.25 times as wide, 10 runs.
        assert!(
            seen(&[(0.25, 0.125), (1.5, 0.5)]).starts_with("about 15 runs would decide; "),
            "{}",
            seen(&[(0.25, 0.125), (1.5, 0.5)])
        );
        let within = Estimate { mean: 1.125, half_width: Some(0.5), repetitions: 10 };
        assert_eq!(Bound::Within(0.5, 1.25).runs_to_decide(&within, 0.5), Some(160.0), "the nearer end counts");
    }

    #[test]
    fn one_of_many_cells_breaks_a_statement_only_beyond_what_chance_does_to_one_of_so_many() {
        let verdict = |cells: usize, mean| {
            let mut evidence = Evidence::new();
            for number in 0..cells {
                let mean = if number == 0 { mean } else { 0.5 };
                let estimate = Estimate { mean, half_width: Some(0.1), repetitions: 30 };
                evidence.cell("cell", Some(estimate), Bound::LessThan(1.0));
            }
            evidence.judgement().expect("there are cells")
        };
        // One interval in twenty misses the truth. With ten, each is 1.49 times as wide (t of 29 at 0.9975 and at 0.975).
        assert_eq!([verdict(1, 1.12), verdict(10, 1.12)], [Judgement::Broken, Judgement::Undecided]);
        assert_eq!([verdict(10, 1.14), verdict(10, 1.16)], [Judgement::Undecided, Judgement::Broken]);
        assert_eq!(verdict(10, 0.88), Judgement::Holds, "that it holds takes the interval as it is");
    }

    #[test]
    fn one_broken_cell_breaks_a_statement_and_many_without_data_leave_it_undecided() {
        let cell = |evidence: &mut Evidence, mean| {
            evidence.cell("cell", Some(Estimate { mean, half_width: Some(0.1), repetitions: 4 }), Bound::LessThan(1.0));
        };
        let mut evidence = Evidence::new();
        assert!(matches!(evidence.clone().check("s").verdict, Verdict::Skipped(_)));
        cell(&mut evidence, 0.5);
        assert!(matches!(evidence.clone().check("s").verdict, Verdict::Holds(_)));
        evidence.cell("the third", None, Bound::LessThan(1.0));
        let Verdict::Undecided(seen) = evidence.clone().check("s").verdict else { panic!("a cell is missing") };
        assert!(seen.contains("left out for want of data: the third"), "{seen}");
        cell(&mut evidence, 0.4);
        let Verdict::Holds(seen) = evidence.clone().check("s").verdict else { panic!("one in three is missing") };
        assert!(seen.ends_with("left out for want of data: the third"), "it is listed: {seen}");
        cell(&mut evidence, 1.5);
        let Verdict::Broken(seen) = evidence.check("s").verdict else { panic!("a cell is broken") };
        assert!(seen.contains("holds: cell 0.500") && seen.contains("broken: cell 1.50"), "{seen}");
    }
}
