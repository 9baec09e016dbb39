//! Published statements that survive under each reading of points that the papers leave open.

use std::fmt::Write as _;

use crate::experiment::{Check, Experiment, Verdict};
use crate::experiments;
use crate::plan::{Plan, PlanError, PlanFile, Scale, Value};
use crate::scenario::{Readings, TimerFix};

/// The experiments whose statements are counted: those of P06 and P10 with the readings as parameters.
pub const EXPERIMENTS: &[&str] = &[
    "p06-table2",
    "p06-table3",
    "p10-fig4",
    "p10-fig8a",
    "p10-fig8b",
    "p10-fig9",
    "p10-fig10",
    "p10-fig11",
    "p10-fig12",
    "p10-fig13",
];

/// What statements compare although it is swept one at a time.
const COMPARED: [&str; 4] = ["rtt", "rate", "transport", "bundling"];
/// What statements compare of experiments that have more: the senders of R12 and R15.
const STATED: [(&str, &str); 8] = [
    ("r12-fig3", "sender = [\"2012\"]\n"),
    ("r12-fig4", "sender = [\"2012\"]\n"),
    ("r12-fig7", "sender = [\"2012\", \"2012+nr-sack\"]\n"),
    ("r15-buffering", "sender = [\"2012\"]\n"),
    ("r15-parking-lot", "sender = [\"2012\", \"2012+nr-sack\"]\nimportant = [\"50%\"]\n"),
    ("r15-syslog-congestion", "sender = [\"tcp\", \"sctp\", \"pr-sctp\", \"pr-sctp+nr-sack\"]\n"),
    ("r15-syslog-loss", "sender = [\"udp\", \"tcp\", \"sctp\", \"pr-sctp\", \"pr-sctp+nr-sack\"]\n"),
    ("r15-syslog-trace", "sender = [\"udp\", \"tcp\", \"sctp\", \"pr-sctp\", \"pr-sctp+nr-sack\"]\n"),
];
/// The case of Fig. 8(a).
const FIG_8A: &str = "rtt = \"100ms\"\nloss = \"5%\"\ninterval = \"250ms\"\n";

/// One way to read the papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combination {
    /// Which round-trip times are measured.
    pub rtt_samples: &'static str,
    /// Which SACKs restart the timer.
    pub timer_restart: &'static str,
    /// The fix of the timer.
    pub timer_fix: &'static str,
    /// Delay of SACKs.
    pub sack_delay: &'static str,
}

impl Combination {
    /// All of them, the default first.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for &rtt_samples in Readings::RTT_SAMPLES {
            for &timer_restart in Readings::RESTARTS {
                for timer_fix in
                    TimerFix::NAMES.iter().copied().filter(|fix| ["with-min-rto", "as-worded"].contains(fix))
                {
                    for sack_delay in ["200ms", "0s"] {
                        all.push(Self { rtt_samples, timer_restart, timer_fix, sack_delay });
                    }
                }
            }
        }
        all
    }

    /// As a folder's name.
    pub fn name(&self) -> String {
        format!("{}-{}-{}-{}", self.rtt_samples, self.timer_restart, self.timer_fix, self.sack_delay)
    }

    /// Whether each of these words is one of its readings.
    pub fn has(&self, words: &[String]) -> bool {
        let all = [self.rtt_samples, self.timer_restart, self.timer_fix, self.sack_delay];
        words.iter().all(|word| all.contains(&word.as_str()))
    }

    /// Returns the plan of an experiment under these readings. Parameters that statements compare stay swept, such as the delay of SACKs in p10-fig4.
    /// Parameters swept one at a time to show their influence keep their first value, and p10-fig8a shrinks to the case of the figure.
    ///
    /// # Errors
    /// If the experiment does not have these parameters.
    pub fn plan(&self, experiment: &dyn Experiment, scale: Scale) -> Result<Plan, PlanError> {
        let mut settings = format!(
            "rtt_samples = \"{}\"\ntimer_restart = \"{}\"\ntimer_fix = \"{}\"\n",
            self.rtt_samples, self.timer_restart, self.timer_fix
        );
        if experiment.name() != "p10-fig4" {
            let _ = writeln!(settings, "sack_delay = \"{}\"", self.sack_delay);
        }
        if experiment.name() == "p10-fig8a" {
            settings += FIG_8A;
        }
        compared(experiment, scale, settings)
    }
}

/// Returns the part of an experiment's own plan that statements use: parameters of P06 and P10 that the plan sweeps one at a time, to show their
/// influence, keep their first value, and those of R12 and R15 have the papers' senders alone.
///
/// # Errors
/// None for the plans of the experiments, which a test verifies.
pub fn plan_of_statements(experiment: &dyn Experiment, scale: Scale) -> Result<Plan, PlanError> {
    // What these three sweep is judged by their checks.
    let judges_all = ["p10-fig4", "p10-fig8a", "p10-fig9"].contains(&experiment.name());
    if let Some((name, settings)) = STATED.iter().find(|(name, _)| *name == experiment.name()) {
        return PlanFile::parse("statements", &with_settings(name, settings))?.plan(experiment, scale);
    }
    if EXPERIMENTS.contains(&experiment.name()) && !judges_all {
        compared(experiment, scale, String::new())
    } else {
        Ok(Plan::own(experiment, scale))
    }
}

/// The plan with these settings, and the first values of all else that is swept one at a time and compared by no statement.
fn compared(experiment: &dyn Experiment, scale: Scale, mut settings: String) -> Result<Plan, PlanError> {
    let own = Plan::own(experiment, scale);
    let is_shown_only = |name: &&str| !COMPARED.contains(name) && !settings.contains(&format!("{name} ="));
    let shown_only: Vec<&str> = own.one_at_a_time().iter().flatten().copied().filter(is_shown_only).collect();
    for (name, values) in own.sweep().iter().filter(|(name, _)| shown_only.contains(name)) {
        if let Some(first) = values.first() {
            let quotes = if matches!(first, Value::Count(_)) { "" } else { "\"" };
            let _ = writeln!(settings, "{name} = {quotes}{first}{quotes}");
        }
    }
    PlanFile::parse("readings", &with_settings(experiment.name(), &settings))?.plan(experiment, scale)
}

/// A plan that differs from the experiment's own by these settings, at either scale.
fn with_settings(name: &str, settings: &str) -> String {
    format!("experiment = \"{name}\"\n[parameters]\n{settings}[quick.parameters]\n{settings}")
}

/// The experiments of [`EXPERIMENTS`].
pub fn experiments() -> Vec<&'static dyn Experiment> {
    EXPERIMENTS.iter().filter_map(|name| experiments::find(name)).collect()
}

/// The checks of an experiment under a combination.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The combination.
    pub combination: Combination,
    /// The experiment.
    pub experiment: &'static str,
    /// Results of its checks.
    pub checks: Vec<Check>,
}

/// The verdict on each statement under each combination, as tab-separated values. A cell is empty if the statement was not tested.
pub fn table(outcomes: &[Outcome]) -> String {
    let combinations: Vec<Combination> =
        Combination::all().into_iter().filter(|it| outcomes.iter().any(|outcome| outcome.combination == *it)).collect();
    let names = combinations.iter().map(Combination::name);
    let head: Vec<String> = ["experiment", "statement"].into_iter().map(str::to_owned).chain(names).collect();
    let mut text = head.join("\t") + "\n";
    for (experiment, statement) in statements(outcomes) {
        let verdicts = combinations.iter().map(|combination| {
            let of = outcomes.iter().find(|it| it.combination == *combination && it.experiment == experiment);
            let check = of.and_then(|outcome| outcome.checks.iter().find(|check| check.statement == statement));
            check.map_or("", |check| word(&check.verdict))
        });
        let cells: Vec<&str> = [experiment, statement].into_iter().chain(verdicts).collect();
        let _ = writeln!(text, "{}", cells.join("\t"));
    }
    text
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Skipped(_) => "",
        verdict => verdict.word(),
    }
}

/// Each statement of each experiment once, in their order.
fn statements(outcomes: &[Outcome]) -> Vec<(&'static str, &str)> {
    let mut all: Vec<(&'static str, &str)> = Vec::new();
    for outcome in outcomes {
        for check in &outcome.checks {
            let row = (outcome.experiment, check.statement.as_str());
            if !all.contains(&row) {
                all.push(row);
            }
        }
    }
    all.sort_by_key(|(experiment, _)| EXPERIMENTS.iter().position(|name| name == experiment));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_can_be_run_under_every_combination() {
        for combination in Combination::all() {
            for experiment in experiments() {
                let plan = combination.plan(experiment, Scale::Quick).expect("it has the readings as parameters");
                let value = |point: &crate::plan::Point| point.choice("rtt_samples").to_owned();
                assert!(
                    plan.points().iter().all(|point| value(point) == combination.rtt_samples),
                    "{}",
                    experiment.name()
                );
            }
        }
        assert_eq!(experiments().len(), EXPERIMENTS.len());
    }

    #[test]
    fn a_plan_for_readings_sweeps_what_statements_compare_and_nothing_that_is_only_shown() {
        let swept = |name: &str| {
            let experiment = experiments::find(name).expect("the experiment is there");
            let plan = Combination::all()[0].plan(experiment, Scale::Full).expect("it makes sense");
            plan.swept().collect::<Vec<_>>()
        };
        assert_eq!(swept("p06-table2"), ["rtt", "transport", "bundling"]);
        assert_eq!(swept("p10-fig8a"), ["group"]);
        assert_eq!(swept("p10-fig12"), ["tested", "rate"]);
    }

    #[test]
    fn the_plan_of_statements_has_the_points_of_the_own_plan_that_they_compare() {
        for name in EXPERIMENTS.iter().chain(&["r15-web"]) {
            let experiment = experiments::find(name).expect("the experiment is there");
            for scale in [Scale::Quick, Scale::Full] {
                let plan = plan_of_statements(experiment, scale).expect("it makes sense");
                let own = Plan::own(experiment, scale);
                assert_eq!(plan.repetitions(), own.repetitions());
                assert!(plan.points().iter().all(|point| own.points().contains(point)), "{name}");
            }
        }
    }

    #[test]
    fn points_of_statements_are_run_as_often_as_the_own_plan_says() {
        for experiment in crate::ledger::experiments() {
            let plan = plan_of_statements(experiment, Scale::Full).expect("it makes sense");
            let own = Plan::own(experiment, Scale::Full);
            for point in plan.points() {
                let label = format!("{}: {}", experiment.name(), plan.label(&point));
                assert_eq!(plan.repetitions_of(&point), own.repetitions_of(&point), "{label}");
            }
        }
    }

    #[test]
    fn a_combination_is_chosen_by_its_words() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let count = |chosen: &[&str]| Combination::all().iter().filter(|it| it.has(&words(chosen))).count();
        assert_eq!([count(&[]), count(&["cumulative", "200ms"]), count(&["karn", "ambiguous"])], [16, 4, 0]);
    }

    #[test]
    fn a_row_has_the_verdict_under_each_combination() {
        let all = Combination::all();
        let outcome = |combination: Combination, holds: &[bool]| Outcome {
            combination,
            experiment: "p06-table2",
            checks: holds
                .iter()
                .enumerate()
                .map(|(index, holds)| Check::exact(index.to_string(), *holds, ""))
                .collect(),
        };
        let outcomes = [outcome(all[0], &[true, false]), outcome(all[3], &[true, true, false])];
        let expected = format!(
            "experiment\tstatement\t{}\t{}\np06-table2\t0\tholds\tholds\np06-table2\t1\tbroken\tholds\np06-table2\t2\t\tbroken\n",
            all[0].name(),
            all[3].name()
        );
        assert_eq!(table(&outcomes), expected);
    }
}
