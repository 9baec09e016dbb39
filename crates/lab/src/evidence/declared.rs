//! Judges the checks that a plan declares.

use super::{Estimate, Evidence, Judgement};
use crate::count::as_f64;
use crate::experiment::Check;
use crate::plan::{DeclaredCell, DeclaredCheck, Expression, Measured, Operation, Point, Statistic};
use crate::summary::{PointSummary, Repeated, Results, SeriesSummary};

/// The most names that a message lists.
const NAMES_MAX: usize = 60;

/// The checks of the plan, judged. Where nothing `is_random`, one run is exact.
pub fn checks(results: &Results, is_random: &dyn Fn(&Point) -> bool) -> Vec<Check> {
    results.plan().checks().iter().map(|check| judged(results, check, is_random)).collect()
}

fn judged(results: &Results, declared: &DeclaredCheck, is_random: &dyn Fn(&Point) -> bool) -> Check {
    let DeclaredCheck { says, id, under, cells, is_of_mean } = declared;
    let (mut evidence, mut unknown, mut found) = (Evidence::new(), None, Vec::new());
    for declared in cells {
        let cell = Cell { results, declared, measured: declared.number.measured(), is_random, at: None, runs_each: 1 };
        let cell = Cell { runs_each: cell.runs_for_quantiles(), ..cell };
        if cell.measured.iter().any(|measured| cell.find(measured).is_some() || cell.names_another(measured)) {
            unknown = unknown.or_else(|| cell.measured.iter().find(|measured| !cell.is_known(measured)).copied());
            found.push(cell);
        }
    }
    if *is_of_mean {
        add_mean(&found, &mut evidence);
    } else {
        found.iter().for_each(|cell| cell.add_to(&mut evidence));
    }
    let check = match unknown {
        Some(measured) => Check::skipped(says.clone(), lacking(results, measured)),
        None => evidence.check(says.clone()),
    };
    let check = check.id(id.clone());
    if under.is_empty() { check } else { check.under(under) }
}

/// Adds the geometric mean of the numbers of all cells in each repetition.
fn add_mean(cells: &[Cell<'_>], evidence: &mut Evidence) {
    let Some(first) = cells.first() else { return };
    let logarithm = |cell: &Cell<'_>| match cell.value(&cell.declared.number)? {
        Number::Each(values) => Some(values.map(f64::ln)),
        _ => None,
    };
    let logarithms: Option<Vec<Repeated>> = cells.iter().map(logarithm).collect();
    let sum = logarithms.into_iter().flatten().reduce(|sum, next| sum.zip_with(&next, |one, other| one + other));
    let mean = sum.and_then(|sum| Estimate::of(&sum.map(|sum| (sum / as_f64(cells.len())).exp())));
    let name = format!("geometric mean of the ratios of {} cells:", cells.len());
    evidence.cell(name, mean, first.declared.bound);
}

/// A calculated number.
enum Number {
    Constant(f64),
    Each(Repeated),
    Estimate(Estimate),
}

/// A cell and all that it measures.
struct Cell<'r> {
    results: &'r Results,
    declared: &'r DeclaredCell,
    measured: Vec<&'r Measured>,
    is_random: &'r dyn Fn(&Point) -> bool,
    /// The point of all numbers, regardless of their settings.
    at: Option<&'r PointSummary>,
    /// Number of runs over which each quantile is taken.
    runs_each: u32,
}

/// Minimum number of groups of runs over which quantiles of rare delays are taken.
const GROUPS_MIN: u32 = 4;

impl<'r> Cell<'r> {
    fn add_to(&self, evidence: &mut Evidence) {
        let bound = self.declared.bound;
        let pair = match &self.declared.number {
            Expression::Ratio(pair) => [self.value(&pair[0]), self.value(&pair[1])],
            _ => [None, None],
        };
        let name = self.name(&pair);
        if let [Some(Number::Each(over)), Some(Number::Each(under))] = &pair
            && over == under
            && !self.is_exact()
            && bound.judge(&Estimate::exact(1.0)) != Judgement::Holds
        {
            // What tells both apart never came into play.
            evidence.left_out(format!("{} (every run is the same with both)", self.name(&[None, None])));
            return;
        }
        let estimate = match self.value(&self.declared.number) {
            None => None,
            Some(Number::Constant(value)) => Some(Estimate::exact(value)),
            Some(Number::Each(values)) => Estimate::of(&values),
            Some(Number::Estimate(estimate)) => Some(estimate),
        };
        let estimate = estimate.filter(|estimate| estimate.mean.is_finite());
        let exact = |estimate: Estimate| if self.is_exact() { Estimate::exact(estimate.mean) } else { estimate };
        match estimate {
            Some(estimate) => evidence.cell_over(self.runs_each, name, exact(estimate), bound),
            None => evidence.lacks(name, self.runs_with_data()),
        }
    }

    /// Number of runs over which each quantile of the cell has a delay beyond it. 1 if every run has, if the runs do not suffice, and if the cell
    /// has other measures: the maximum of several runs, for example, is not that of one.
    fn runs_for_quantiles(&self) -> u32 {
        let runs = self.measured.iter().map(|measured| match measured.statistic {
            Statistic::Quantile(quantile) if self.declared.delays_min > 0 => {
                let (delays, repetitions) = self.delays(measured)?;
                let runs = f64::from(repetitions) / beyond(quantile, delays);
                (1..=repetitions / GROUPS_MIN).find(|each| f64::from(*each) >= runs)
            }
            _ => None,
        });
        runs.reduce(|one, other| Some(one?.max(other?))).flatten().unwrap_or(1)
    }

    /// Number of delays of a series in all runs, and of runs.
    fn delays(&self, measured: &Measured) -> Option<(u64, u32)> {
        let summary = self.find(measured)?;
        Some((summary.series().get(&measured.name)?.all().count(), summary.repetitions()))
    }

    /// Number of runs that would have enough delays of each series; `None` if there is a series without any, or no lack of delays.
    fn runs_with_data(&self) -> Option<f64> {
        let runs = self.measured.iter().map(|measured| {
            let (delays, repetitions) = self.delays(measured)?;
            let of_mean = as_f64(self.declared.delays_min) / as_f64(delays);
            let of_quantile = match measured.statistic {
                Statistic::Quantile(quantile) => f64::from(GROUPS_MIN) / beyond(quantile, delays),
                _ => 0.0,
            };
            Some(f64::from(repetitions) * of_mean.max(of_quantile))
        });
        let all = self.measured.iter().filter_map(|measured| self.find(measured)).map(PointSummary::repetitions);
        runs.reduce(|one, other| Some(one?.max(other?)))
            .flatten()
            .filter(|runs| all.max().is_some_and(|all| *runs > f64::from(all)))
    }

    /// The cell's name with the means of both numbers of a ratio; without the part in brackets if there are none.
    fn name(&self, pair: &[Option<Number>; 2]) -> String {
        let name = &self.declared.name;
        let Some((before, (inner, behind))) =
            name.split_once('[').and_then(|(before, rest)| Some((before, rest.split_once(']')?)))
        else {
            return name.clone();
        };
        let mean = |number: &Option<Number>| match number {
            Some(Number::Each(values)) => values.mean(),
            _ => None,
        };
        match (mean(&pair[0]), mean(&pair[1])) {
            (Some(over), Some(under)) => {
                let inner = inner.replace("{over}", &format!("{over:.0}")).replace("{under}", &format!("{under:.0}"));
                format!("{before}{inner}{behind}")
            }
            _ => format!("{before}{behind}"),
        }
    }

    fn value(&self, expression: &Expression) -> Option<Number> {
        Some(match expression {
            Expression::Number(number) => Number::Constant(*number),
            Expression::Measured(measured) => Number::Each(self.repeated(self.find(measured)?, measured)?),
            Expression::Ratio(pair) => match [self.value(&pair[0])?, self.value(&pair[1])?] {
                [Number::Each(over), Number::Each(under)] => Number::Estimate(Estimate::ratio(&over, &under)?),
                [over, under] => combined(Operation::Over, over, under)?,
            },
            Expression::Total(of) => match self.value(of)? {
                Number::Each(values) => Number::Constant(values.sum()),
                other => other,
            },
            Expression::Everywhere(of) => Number::Constant(self.everywhere(of)),
            Expression::Function(function, of) => match self.value(of)? {
                Number::Constant(number) => Number::Constant(function.of(number)),
                Number::Each(values) => Number::Each(values.map(|value| function.of(value))),
                Number::Estimate(_) => return None,
            },
            Expression::Arithmetic(operation, pair) => {
                if *operation == Operation::Over && self.is_of_too_few(&pair[1]) {
                    return None;
                }
                combined(*operation, self.value(&pair[0])?, self.value(&pair[1])?)?
            }
        })
    }

    /// The sum over all points.
    fn everywhere(&self, of: &Expression) -> f64 {
        let at = |point| match (Cell { at: Some(point), measured: Vec::new(), ..*self }).value(of) {
            Some(Number::Each(values)) => values.sum(),
            _ => 0.0,
        };
        self.results.points().iter().map(at).sum()
    }

    fn find(&self, measured: &Measured) -> Option<&'r PointSummary> {
        if self.at.is_some() {
            return self.at;
        }
        let settings = measured.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let settings: Vec<(&str, &str)> = settings.collect();
        self.results.matching(&settings).next()
    }

    /// Whether the check names a value that the plan does not have. Combinations of the plan's values that it leaves out belong to no cell.
    fn names_another(&self, measured: &Measured) -> bool {
        measured.settings.iter().any(|(name, value)| {
            let swept = self.results.plan().sweep().iter().find(|(known, _)| known == name);
            !swept.is_some_and(|(_, values)| values.iter().any(|known| known.to_string() == *value))
        })
    }

    fn repeated(&self, summary: &PointSummary, measured: &Measured) -> Option<Repeated> {
        let series = summary.series().get(&measured.name);
        let number = summary.values().get(&measured.name);
        // Zero in repetitions that have none.
        let or_zero = |values: Option<&Repeated>| -> Repeated {
            let at = |repetition| values.and_then(|values| values.at(repetition)).unwrap_or_default();
            (0..summary.repetitions()).map(at).collect()
        };
        match measured.statistic {
            Statistic::Value => return number.cloned(),
            Statistic::OrZero => return Some(or_zero(number)),
            Statistic::Count => return Some(or_zero(series.map(SeriesSummary::counts))),
            Statistic::Sum => {
                let counts = or_zero(series.map(SeriesSummary::counts));
                return Some(
                    counts.zip_with(&or_zero(series.map(SeriesSummary::mean_s)), |count, mean| count * mean * 1e3),
                );
            }
            Statistic::Mean | Statistic::Quantile(_) | Statistic::Max => {}
        }
        let series = series.filter(|series| self.are_enough(series, summary, measured.statistic))?;
        let of_groups;
        let seconds = match measured.statistic {
            Statistic::Mean => series.mean_s(),
            Statistic::Quantile(quantile) if self.runs_each > 1 => {
                of_groups = series.quantile_of_groups_s(quantile, self.runs_each, summary.repetitions())?;
                &of_groups
            }
            Statistic::Quantile(quantile) => series.quantile_s(quantile)?,
            _ => series.max_s(),
        };
        Some(seconds.map(|seconds| seconds * 1e3)).filter(|values| !values.values().is_empty())
    }

    /// Whether a series has as many delays as the check demands, and for a quantile one beyond it in each repetition.
    fn are_enough(&self, series: &SeriesSummary, summary: &PointSummary, statistic: Statistic) -> bool {
        let (count, least) = (series.all().count(), self.declared.delays_min);
        let beyond = match statistic {
            Statistic::Quantile(quantile) => f64::from(self.runs_each) * beyond(quantile, count),
            _ => f64::INFINITY,
        };
        least == 0 || (count >= least && beyond >= f64::from(summary.repetitions()))
    }

    /// Whether a share has fewer delays as a whole than the check demands.
    fn is_of_too_few(&self, whole: &Expression) -> bool {
        let Expression::Measured(measured) = whole else { return false };
        let series = self.find(measured).and_then(|summary| summary.series().get(&measured.name));
        let count = series.map_or(0, |series| series.all().count());
        measured.statistic == Statistic::Count && count < self.declared.delays_min
    }

    /// Whether nothing is random at the points of all numbers.
    fn is_exact(&self) -> bool {
        let points = self.measured.iter().filter_map(|measured| self.find(measured));
        points.map(PointSummary::point).all(|point| !(self.is_random)(point))
    }

    /// Whether any point has measured something of this name.
    fn is_known(&self, measured: &Measured) -> bool {
        self.results.points().iter().any(|summary| match measured.statistic {
            Statistic::Value => summary.values().contains_key(&measured.name),
            Statistic::OrZero | Statistic::Count | Statistic::Sum => true,
            _ => summary.series().contains_key(&measured.name),
        })
    }
}

/// Number of delays beyond a quantile.
fn beyond(quantile: f64, delays: u64) -> f64 {
    (1.0 - quantile) * as_f64(delays) + 1e-6
}

fn combined(operation: Operation, one: Number, other: Number) -> Option<Number> {
    use Number::{Constant, Each, Estimate};
    Some(match [one, other] {
        [Constant(one), Constant(other)] => Constant(operation.of(one, other)),
        // Repetitions in which nothing is divided by nothing have no number.
        [Each(one), Each(other)] => {
            Each(one.zip_with(&other, |one, other| operation.of(one, other)).only(|number| !number.is_nan()))
        }
        [Each(one), Constant(other)] => Each(one.map(|one| operation.of(one, other))),
        [Constant(one), Each(other)] => Each(other.map(|other| operation.of(one, other))),
        [Estimate(estimate), Constant(number)] => Estimate(match operation {
            Operation::Plus => estimate.plus(number),
            Operation::Minus => estimate.plus(-number),
            Operation::Times => estimate.times(number),
            Operation::Over => estimate.times(1.0 / number),
        }),
        [Constant(number), Estimate(estimate)] => Estimate(match operation {
            Operation::Plus => estimate.plus(number),
            Operation::Minus => estimate.times(-1.0).plus(number),
            Operation::Times => estimate.times(number),
            Operation::Over => return None,
        }),
        [Estimate(_), _] | [_, Estimate(_)] => return None,
    })
}

fn lacking(results: &Results, measured: &Measured) -> String {
    let names = |summary: &PointSummary| -> Vec<String> {
        match measured.statistic {
            Statistic::Value => summary.values().keys().cloned().collect(),
            _ => summary.series().keys().cloned().collect(),
        }
    };
    let mut names: Vec<String> = results.points().iter().flat_map(names).collect();
    names.sort_unstable();
    names.dedup();
    names.truncate(NAMES_MAX);
    let kind = if measured.statistic == Statistic::Value { "number" } else { "series of delays" };
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    format!("no {kind} is called '{}'; measured: {names}", measured.name)
}

#[cfg(test)]
mod tests {
    use festina_units::{Duration, Instant};

    use super::*;
    use crate::experiment::Verdict;
    use crate::experiments::Md1;
    use crate::plan::{PlanFile, Scale};
    use crate::samples::{Sample, Samples};

    /// Judges the last check of a plan of `md1` with loads of 50% and 90%. Each of three runs has a number around ten times the load, and a delay.
    fn judged(check: &str) -> Check {
        let text = format!(
            "experiment = \"md1\"\nrepetitions = 3\nparameters.load = [\"50%\", \"90%\"]\n[[check]]\nsays = \"It is so.\"\n{check}"
        );
        let file = PlanFile::parse("my.toml", &text).expect("a sound plan");
        let plan = file.plan(&Md1, Scale::Full).expect("a sound plan");
        let summaries = plan.points().into_iter().map(|point| {
            let load = point.probability("load").as_fraction();
            let mut summary = PointSummary::new(point);
            for run in [0.9, 1.0, 1.1] {
                let mut samples = Samples::new();
                samples.set("number", load * 10.0 * run);
                if run > 1.0 {
                    samples.set("rare", 1.0);
                }
                let delay = Duration::from_secs_f64(load * run);
                samples.record("delay", Sample { sent_at: Instant::ZERO, delay });
                summary.add(&samples);
            }
            summary
        });
        let summaries = summaries.collect();
        checks(&Results::new(plan, summaries), &|_| true).pop().expect("a check")
    }

    fn seen(check: &str) -> (&'static str, String) {
        let check = judged(check);
        (check.verdict.word(), check.verdict.seen().to_owned())
    }

    #[test]
    fn a_declared_check_is_judged_by_the_interval_over_the_repetitions() {
        let (word, text) = seen("each = { load = \"all\" }\ntest = \"'number' < 10\"\n");
        assert_eq!(word, "undecided");
        assert!(
            text.contains("holds: load 50%: 5.00 ± 1.24 (n = 3); undecided: load 90%: 9.00 ± 2.24 (n = 3)"),
            "{text}"
        );
        let paired = "test = \"ratio('number'{load=90%}, 'number'{load=50%}) within 1% of 1.8\"\ncell = \"x[ {over} over {under},]\"\n";
        assert_eq!(seen(paired), ("holds", "x 9 over 5, 1.80 ± 0 (n = 3)".to_owned()));
        assert_eq!(seen("test = \"'number'{load=50%} > 8\"\n").0, "broken");
        assert_eq!(seen("test = \"ratio('number', 'number') < 1\"\n").0, "not tested", "nothing tells both apart");
        assert_eq!(seen("test = \"ratio('number', 'number') < 1.1\"\n").0, "holds", "they are as good");
    }

    /// Judges a check of 40 runs with five delays each, of 1 to 5 ms.
    fn judged_of_rare(check: &str) -> Check {
        let text =
            format!("experiment = \"md1\"\nrepetitions = 40\n[[check]]\nsays = \"It is so.\"\ndelays_min = 5\n{check}");
        let file = PlanFile::parse("my.toml", &text).expect("a sound plan");
        let plan = file.plan(&Md1, Scale::Full).expect("a sound plan");
        let mut summary = PointSummary::new(plan.points()[0].clone());
        for run in 0..40 {
            let mut samples = Samples::new();
            for ms in 1..=5 {
                let delay = Duration::from_micros(1000 * ms + run);
                samples.record("rare", Sample { sent_at: Instant::ZERO, delay });
                (0..60).for_each(|_| samples.record("frequent", Sample { sent_at: Instant::ZERO, delay }));
            }
            summary.add(&samples);
        }
        checks(&Results::new(plan, vec![summary]), &|_| true).pop().expect("a check")
    }

    #[test]
    fn quantiles_of_rare_delays_are_taken_over_several_runs_or_it_is_said_how_many_are_missing() {
        // Ten delays have one beyond the 90%: two runs.
        let check = judged_of_rare("test = \"'rare'.p90 from 4.9 to 5.1\"\n");
        assert_eq!(check.verdict.word(), "holds");
        assert!(check.verdict.seen().ends_with("(n = 20), over 2 runs each"), "{}", check.verdict.seen());
        let check = judged_of_rare("test = \"ratio('rare'.p90, 'frequent'.p90) from 0.99 to 1.01\"\n");
        assert_eq!(check.verdict.word(), "holds", "of frequent ones it is the mean of as many runs");
        assert!(check.verdict.seen().contains("(n = 20), over 2 runs each"), "{}", check.verdict.seen());
        // A hundred are 20 runs, and four groups of them 80.
        let check = judged_of_rare("test = \"'rare'.p99 < 5\"\n");
        assert_eq!((check.verdict.word(), check.would_decide.as_str()), ("not tested", "about 80 runs would decide"));
        let check = judged_of_rare("test = \"'rare'.max < 6\"\n");
        assert!(check.verdict.seen().ends_with("(n = 40)"), "the maximum of several runs is not that of one");
    }

    #[test]
    fn delays_are_in_milliseconds_and_what_was_not_measured_can_be_zero() {
        assert_eq!(
            seen("test = \"'delay'.mean{load=50%} from 300 to 700\"\n"),
            ("holds", "measured: 500 ± 124 (n = 3)".to_owned())
        );
        assert_eq!(
            seen("test = \"total('delay'.count) from 3 to 3\"\n"),
            ("holds", "measured: 3.00 (exact)".to_owned())
        );
        assert_eq!(seen("test = \"total('rare'.orzero) from 1 to 1\"\n").0, "holds");
        assert_eq!(seen("test = \"'delay'.sum - 'delay'.mean from 0 to 0\"\n").0, "holds");
        assert_eq!(seen("delays_min = 4\ntest = \"'delay'.mean > 0\"\n").0, "not tested", "there are three");
        let twice = "test = \"1 - ratio(ln('number'), 2 * ln('number')) within 1% of 0.5\"\n";
        assert_eq!(seen(twice), ("holds", "measured: 0.500 ± 0 (n = 3)".to_owned()));
    }

    #[test]
    fn an_unknown_number_is_named_with_those_that_there_are() {
        let unknown = "no number is called 'nmber'; measured: number, rare".to_owned();
        assert_eq!(seen("test = \"'nmber' < 1\"\n"), ("not tested", unknown));
        let unknown = "no series of delays is called 'dely'; measured: delay".to_owned();
        assert_eq!(seen("test = \"'dely'.p99 < 1\"\n"), ("not tested", unknown));
        let verdict = judged("under = \"a reading\"\nid = \"x\"\nat = { load = \"60%\" }\ntest = \"'number' < 1\"\n");
        assert_eq!((verdict.id.as_str(), verdict.under), ("x", "a reading"));
        assert!(matches!(verdict.verdict, Verdict::Skipped(_)), "the plan has no such load");
    }
}
