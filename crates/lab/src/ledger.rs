//! The quantitative statements of the papers, each with the experiment that tests it and the result.
//!
//! A statement without an experiment stays in the list, as not tested.

mod checks;
mod measured;
pub mod page;
pub mod row;
mod statements;

use std::fmt::Write as _;

use checks::by_checks;
pub use row::Row;

use serde::{Deserialize, Serialize};

use crate::experiment::{Check, Experiment};
use crate::experiments;
use crate::plan::{Plan, Scale};
use crate::readings;
use crate::scoreboard::{Entry, Published};
use crate::store::Fnv1a;

/// A paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Paper {
    /// Pedersen, Griwodz and Halvorsen 2006.
    P06,
    /// Petlund et al. 2010.
    P10,
    /// Rajiullah and Brunstrom 2012.
    R12,
    /// Rajiullah 2015.
    R15,
    /// Goel et al. 2002.
    G02,
}

impl Paper {
    /// All papers of the ledger.
    pub const ALL: [Self; 5] = [Self::P06, Self::P10, Self::R12, Self::R15, Self::G02];
}

/// What a paper says.
#[derive(Clone, Copy, Debug)]
pub struct Statement {
    /// Which paper.
    pub paper: Paper,
    /// Where.
    pub section: &'static str,
    /// In our words.
    pub says: &'static str,
    /// What tests it.
    pub tested: Tested,
    /// Why it is broken, if a run has shown that; empty otherwise.
    pub cause: &'static str,
    /// Why it is undecided, where the numbers do not tell; empty otherwise.
    pub reason: &'static str,
    /// Its figures on the page of its paper, if it is one of the paper's main claims.
    pub headline: Option<Headline>,
}

/// The figures of a main claim of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Headline {
    /// The published figure; empty if the paper has none.
    pub published: &'static str,
    /// The words in front of our figure in the evidence of the statement; empty if the verdict is all.
    pub label: &'static str,
    /// What follows our figure, such as ` ms`; empty if `label` stands in front of it.
    pub unit: &'static str,
}

impl Headline {
    /// Our figure from the evidence of the statement, without the number of runs; empty if it is not there.
    fn ours(&self, evidence: &str) -> String {
        let Some((_, rest)) = evidence.split_once(self.label).filter(|_| !self.label.is_empty()) else {
            return String::new();
        };
        let item = rest.split(';').next().unwrap_or_default();
        let item = item.rsplit_once(" published, ").map_or(item, |(_, ours)| ours);
        let item = item.split(" (").next().unwrap_or_default();
        let figure = item.trim_matches([':', ' ']);
        if self.unit.is_empty() {
            format!("{} {figure}", self.label)
        } else {
            format!("{figure}{}", self.unit.trim_end())
        }
    }
}

/// How a statement is tested.
#[derive(Clone, Copy, Debug)]
pub enum Tested {
    /// By the checks of an experiment with these ids.
    Checks(&'static str, &'static [&'static str]),
    /// By the published numbers of an experiment whose names contain this.
    Numbers(&'static str, &'static str),
    /// By arithmetic with numbers of the paper.
    Arithmetic(&'static [Sum]),
    /// By nothing that counts, since a parameter was chosen by this result; which.
    Fitted(&'static str),
    /// By nothing; why.
    Not(&'static str),
}

impl Tested {
    fn experiment(self) -> Option<&'static str> {
        match self {
            Self::Checks(experiment, _) | Self::Numbers(experiment, _) => Some(experiment),
            Self::Arithmetic(_) | Self::Fitted(_) | Self::Not(_) => None,
        }
    }
}

/// A number of a paper that follows from others of it.
#[derive(Clone, Copy, Debug)]
pub struct Sum {
    /// Its name and how it is calculated.
    pub what: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// As the paper has it.
    pub published: f64,
    /// As it is calculated.
    pub calculated: f64,
    /// The maximum difference, such as half of the last digit.
    pub within: f64,
}

impl Sum {
    fn holds(&self) -> bool {
        (self.calculated - self.published).abs() <= self.within
    }
}

/// Every statement, in the order of the papers.
pub fn statements() -> impl Iterator<Item = &'static Statement> {
    statements::ALL.iter()
}

/// The experiments that test statements, in the order of the ledger.
pub fn experiments() -> Vec<&'static dyn Experiment> {
    let mut found: Vec<&'static dyn Experiment> = Vec::new();
    for name in statements().filter_map(|statement| statement.tested.experiment()) {
        if let Some(experiment) = experiments::find(name).filter(|_| found.iter().all(|known| known.name() != name)) {
            found.push(experiment);
        }
    }
    found
}

/// What an experiment came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its name.
    pub experiment: &'static str,
    /// How much of it was run, such as `quick` or `5 runs`; empty if all of it was.
    pub extent: String,
    /// Its [probe](crate::runner::probe).
    pub probe: String,
    /// Its checks.
    pub checks: Vec<Check>,
    /// Its published numbers.
    pub scoreboard: Vec<Entry>,
}

/// Every verdict of a statement.
pub const VERDICTS: [&str; 5] = ["holds", "broken", "undecided", "fitted", "not tested"];

/// The result of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// `holds`, `broken`, `undecided`, `fitted` or `not tested`.
    pub verdict: &'static str,
    /// The evidence: our numbers, with the published ones if there are any.
    pub seen: String,
    /// Why a broken one is, as far as a run has shown it, or `unknown`; empty if it is not broken.
    pub cause: String,
    /// Why an undecided one is: the number of runs that would decide, or why none would; empty if it is not undecided.
    pub reason: String,
}

impl Statement {
    /// Its result, from the experiments that were run.
    pub fn finding(&self, outcomes: &[Outcome]) -> Finding {
        let outcome = |name| outcomes.iter().find(|outcome| outcome.experiment == name);
        let decided = |(verdict, seen)| (verdict, seen, String::new());
        let (verdict, seen, reason) = match self.tested {
            Tested::Arithmetic(sums) => decided(by_arithmetic(sums)),
            Tested::Fitted(how) => decided(("fitted", how.to_owned())),
            Tested::Not(why) => decided(("not tested", why.to_owned())),
            Tested::Checks(name, ids) => {
                let checks = outcome(name).into_iter().flat_map(|outcome| &outcome.checks);
                let checks: Vec<&Check> = checks.filter(|check| ids.contains(&check.id.as_str())).collect();
                by_checks(&checks)
            }
            Tested::Numbers(name, part) => {
                let entries = outcome(name).into_iter().flat_map(|outcome| &outcome.scoreboard);
                by_numbers(&entries.filter(|entry| entry.what.contains(part)).collect::<Vec<_>>())
            }
        };
        let (verdict, reason) = match (verdict, measured::verdict(self)) {
            (simulated, real @ ("holds" | "broken"))
                if ["holds", "broken"].contains(&simulated) && real != simulated =>
            {
                ("undecided", format!("{simulated} if simulated, {real} over real sockets"))
            }
            _ => (verdict, reason),
        };
        Finding { verdict, seen, cause: self.told_cause(verdict).to_owned(), reason: self.told_reason(verdict, reason) }
    }

    /// Why a statement with this verdict is undecided: the words of the statement, else those that follow from the numbers.
    fn told_reason(&self, verdict: &str, from_numbers: String) -> String {
        match verdict {
            "undecided" if self.reason.is_empty() => from_numbers,
            "undecided" => self.reason.to_owned(),
            _ => String::new(),
        }
    }

    /// Why a statement with this verdict is broken, as far as a run has shown it; empty if it is not.
    fn told_cause(&self, verdict: &str) -> &'static str {
        match verdict {
            "broken" if self.cause.is_empty() => "unknown",
            "broken" => self.cause,
            _ => "",
        }
    }

    /// The mark of a result: the probe of the experiment's code and, if the plan declares the statement's checks, a digest of them.
    fn mark(&self, probe: &str) -> String {
        let Tested::Checks(name, ids) = self.tested else { return probe.to_owned() };
        let plan = experiments::find(name).and_then(|it| readings::plan_of_statements(it, Scale::Full).ok());
        let mut hash = Fnv1a::default();
        let checks = plan.iter().flat_map(Plan::checks).filter(|check| ids.contains(&check.id.as_str()));
        let empty = hash.value();
        checks.for_each(|it| hash.add(format!("{:?}", (&it.under, &it.cells, it.is_of_mean)).as_bytes()));
        if hash.value() == empty { probe.to_owned() } else { format!("{probe}-{:016x}", hash.value()) }
    }

    fn row(&self, outcome: Option<&Outcome>, finding: Finding) -> Row {
        let of = |text: fn(&Outcome) -> &String| outcome.map_or(String::new(), |outcome| text(outcome).clone());
        Row {
            paper: self.paper,
            section: self.section.to_owned(),
            statement: self.says.to_owned(),
            experiment: self.tested.experiment().unwrap_or_default().to_owned(),
            extent: of(|outcome| &outcome.extent),
            verdict: finding.verdict.to_owned(),
            ours: finding.seen,
            cause: finding.cause,
            reason: finding.reason,
            real_sockets: measured::verdict(self).to_owned(),
            probe: outcome.map_or(String::new(), |outcome| self.mark(&outcome.probe)),
        }
    }
}

/// Whether numbers of a paper agree with each other.
fn by_arithmetic(sums: &[Sum]) -> (&'static str, String) {
    let verdict = if sums.iter().all(Sum::holds) { "holds" } else { "broken" };
    let seen = |sum: &Sum| {
        let Sum { what, unit, published, calculated, .. } = sum;
        format!("{what}: {published} {unit} published, {calculated:.4} {unit} calculated")
    };
    (verdict, sums.iter().map(seen).collect::<Vec<_>>().join("; "))
}

/// What several published numbers come to: a verdict and the numbers. A number of a single published run that no number of our runs could decide counts
/// for its statement if it is one that such runs give by chance, and at least as many others are met.
fn by_numbers(entries: &[&Entry]) -> (&'static str, String, String) {
    let scored = entries.iter().filter(|entry| entry.judgement().is_some() && entry.word() != "fitted").count();
    let word = |entry: &Entry| match entry.word_one_of(scored) {
        "undecided" if entry.is_within_chance() => "within chance",
        word => word,
    };
    let count = |wanted: &str| entries.iter().filter(|entry| word(entry) == wanted).count();
    let kinds = ["met", "missed", "within chance", "undecided", "fitted", "not tested"];
    let counts = kinds.iter().map(|kind| format!("{} {kind}", count(kind))).filter(|it| !it.starts_with("0 "));
    let mut seen = counts.collect::<Vec<_>>().join(", ");
    let differ = entries.iter().any(|entry| word(entry) != word(entries[0]));
    for entry in entries {
        let Entry { what, unit, published, measured, .. } = entry;
        let published = match published {
            Published::Value(value) | Published::OneRun(value, _) => value.to_string(),
            Published::Inequality(bound) => bound.to_string(),
        };
        let ours = measured.map_or_else(|| "nothing".to_owned(), |ours| ours.to_string());
        let word = if differ { format!("{}: ", word(entry)) } else { String::new() };
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        let _ = write!(seen, "; {word}{what}: {published}{unit} published, {ours} measured");
    }
    let verdict = match () {
        () if count("missed") > 0 => "broken",
        () if count("undecided") > 0 || count("within chance") > count("met") => "undecided",
        () if count("met") > 0 => "holds",
        () if count("fitted") > 0 => "fitted",
        () => "not tested",
    };
    let is_open = |entry: &&&Entry| verdict == "undecided" && entry.word_one_of(scored) == "undecided";
    let open = || entries.iter().filter(is_open);
    let runs = open().map(|entry| entry.runs_to_decide(scored)).reduce(|one, other| Some(one?.max(other?)));
    let reason = match runs {
        None => String::new(),
        Some(Some(runs)) => format!("about {runs} runs would decide"),
        Some(None) if open().any(|entry| entry.stays_undecided()) => {
            "the paper has a single run, and such runs differ too much".to_owned()
        }
        Some(None) => "more runs would not decide".to_owned(),
    };
    (verdict, seen, reason)
}

/// One verdict for several checks of a statement.
fn together(words: &[&'static str]) -> &'static str {
    let any = |wanted: &str| words.contains(&wanted);
    match () {
        () if words.is_empty() || words.iter().all(|word| *word == "not tested") => "not tested",
        () if any("broken") => "broken",
        () if any("undecided") || any("not tested") => "undecided",
        () => "holds",
    }
}

/// Statements that name a check or number that their experiment does not have, and checks with an id that no statement names.
pub fn complaints(outcomes: &[Outcome]) -> Vec<String> {
    let mut complaints = Vec::new();
    for outcome in outcomes {
        let of_experiment = || statements().filter(|it| it.tested.experiment() == Some(outcome.experiment));
        for statement in of_experiment() {
            match statement.tested {
                Tested::Checks(_, ids) => {
                    for id in ids.iter().filter(|id| !outcome.checks.iter().any(|check| check.id == **id)) {
                        complaints.push(format!("{}: no check has the id {id}", outcome.experiment));
                    }
                }
                Tested::Numbers(_, part) => {
                    if !outcome.scoreboard.iter().any(|entry| entry.what.contains(part)) {
                        complaints.push(format!("{}: no published number contains \"{part}\"", outcome.experiment));
                    }
                }
                Tested::Arithmetic(_) | Tested::Fitted(_) | Tested::Not(_) => {}
            }
        }
        let named =
            |id: &str| of_experiment().any(|it| matches!(it.tested, Tested::Checks(_, ids) if ids.contains(&id)));
        for Check { id, .. } in outcome.checks.iter().filter(|check| !check.id.is_empty() && !named(&check.id)) {
            complaints.push(format!("{}: no statement of the ledger names {id}", outcome.experiment));
        }
    }
    complaints
}

/// Every statement with its result: from its experiment if that was run, else from the rows of an earlier ledger.
pub fn rows(outcomes: &[Outcome], kept: &[Row]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for statement in statements() {
        let nth = rows.iter().filter(|row| row.is_of(statement)).count();
        let name = statement.tested.experiment();
        let ran = outcomes.iter().find(|outcome| Some(outcome.experiment) == name);
        let earlier = if ran.is_none() { row::earlier(kept, statement, nth) } else { None };
        let row = match earlier {
            // Causes and reasons may have become known since.
            Some(row) => Row {
                cause: statement.told_cause(&row.verdict).to_owned(),
                reason: statement.told_reason(&row.verdict, row.reason.clone()),
                ..row.clone()
            },
            None => statement.row(ran, statement.finding(outcomes)),
        };
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Verdict;

    #[test]
    fn every_statement_names_an_experiment_that_exists_or_says_why_none_does() {
        for statement in statements() {
            match statement.tested {
                Tested::Arithmetic(sums) => assert!(!sums.is_empty(), "{}", statement.says),
                Tested::Fitted(why) | Tested::Not(why) => assert!(!why.is_empty(), "{}", statement.says),
                tested => {
                    let name = tested.experiment().unwrap_or_default();
                    assert!(experiments::find(name).is_some(), "{name}: {}", statement.says);
                }
            }
        }
        // R15's classes are about flows of the Internet; ours cannot test them.
        let papers = ["p06-", "p10-", "r12-", "r15-", "g02-"];
        for experiment in experiments::ALL
            .iter()
            .filter(|it| papers.iter().any(|paper| it.name().starts_with(paper)) && it.name() != "r15-classes")
        {
            assert!(experiments().iter().any(|it| it.name() == experiment.name()), "{}", experiment.name());
        }
    }

    #[test]
    fn arithmetic_of_a_paper_can_be_wrong_and_is_computed_anew_although_an_earlier_ledger_is_kept() {
        let sum = Sum { what: "bytes in all", unit: "B", published: 120.0, calculated: 120.67, within: 1.0 };
        assert_eq!(by_arithmetic(&[sum]).0, "holds");
        let wrong = Sum { calculated: 121.5, ..sum };
        assert_eq!(by_arithmetic(&[sum, wrong]).0, "broken");
        let rows = rows(&[], &[]);
        let calculated = rows.iter().filter(|row| row.ours.ends_with(" calculated"));
        assert_eq!(calculated.count(), statements().filter(|it| matches!(it.tested, Tested::Arithmetic(_))).count());
    }

    #[test]
    fn a_statement_is_as_good_as_the_worst_of_its_checks() {
        assert_eq!(together(&["holds", "holds"]), "holds");
        assert_eq!(together(&["holds", "undecided", "broken"]), "broken");
        assert_eq!(together(&["holds", "not tested"]), "undecided");
        assert_eq!(together(&["not tested"]), "not tested");
        assert_eq!(together(&[]), "not tested");
    }

    #[test]
    fn a_statement_that_holds_under_one_reading_only_is_undecided_and_says_under_which() {
        let check = |under, holds| Check::exact("It is so.", holds, "5 ms").under(under);
        let [text, same, other] = [check("", true), check("lost = data", true), check("lost = both", false)];
        assert_eq!(by_checks(&[&text]), ("holds", "5 ms (exact)".to_owned(), String::new()));
        assert_eq!(by_checks(&[&text, &same]).0, "holds");
        let (verdict, seen, reason) = by_checks(&[&text, &same, &other]);
        assert_eq!(verdict, "undecided");
        assert_eq!(
            [seen.as_str(), reason.as_str()],
            [
                "by the text: holds, 5 ms (exact); lost = data: holds, 5 ms (exact); lost = both: broken, 5 ms (exact)",
                "turns with the reading of the paper: holds (by the text; lost = data), broken (lost = both)"
            ]
        );
        let skipped = Check::skipped("It is so.", "no data").under("lost = both");
        let (verdict, seen, reason) = by_checks(&[&text, &skipped]);
        assert_eq!(verdict, "undecided");
        assert_eq!(
            [seen.as_str(), reason.as_str()],
            ["by the text: holds, 5 ms (exact); without data for 1 readings", "lost = both: no data"]
        );
        assert_eq!(by_checks(&[]).0, "not tested");
    }

    #[test]
    fn a_row_is_older_if_its_checks_or_its_code_were_others() {
        let statement = statements().find(|it| it.says.starts_with("TCP's 1st and 2nd")).expect("it is listed");
        assert!(matches!(statement.tested, Tested::Checks("p10-fig8a", _)));
        let outcome = Outcome {
            experiment: "p10-fig8a",
            extent: String::new(),
            probe: "00ff".to_owned(),
            checks: Vec::new(),
            scoreboard: Vec::new(),
        };
        let row = statement.row(Some(&outcome), statement.finding(&[]));
        assert_eq!([row.is_older("00ff"), row.is_older("00fe")], [false, true]);
        let (probe, checks) = row.probe.split_once('-').expect("the plan declares the checks");
        assert_eq!(probe, "00ff");
        let other = checks.replace(&checks[..1], if checks.starts_with('0') { "1" } else { "0" });
        assert!(Row { probe: format!("00ff-{other}"), ..row }.is_older("00ff"));
    }

    #[test]
    fn an_undecided_statement_says_how_many_runs_would_decide_or_why_none_would() {
        let check = |mean, half_width, under| {
            let mut evidence = crate::evidence::Evidence::new();
            let estimate = crate::evidence::Estimate { mean, half_width: Some(half_width), repetitions: 10 };
            evidence.cell("cell", Some(estimate), crate::evidence::Bound::LessThan(1.0));
            evidence.check("It is so.").id("restart-adds").under(under)
        };
        let open = check(0.75, 0.5, "");
        assert_eq!(by_checks(&[&open]).2, "about 40 runs would decide");
        assert!(by_checks(&[&open]).1.starts_with("cell 0.750"), "the number of runs has a column of its own");
        assert_eq!(by_checks(&[&check(0.5, 0.1, ""), &open]).2, "about 40 runs would decide");
        let readings = [check(0.5, 0.1, ""), check(0.75, 0.5, "other")];
        assert_eq!(by_checks(&readings.each_ref()).2, "other: about 40 runs would decide");

        let statement = statements().find(|it| it.says.starts_with("Restarting the timer adds")).expect("it is listed");
        let outcome = |check| Outcome {
            experiment: "r15-tail-loss",
            extent: String::new(),
            probe: String::new(),
            checks: vec![check],
            scoreboard: Vec::new(),
        };
        let reason = |statement: &Statement, check| statement.finding(&[outcome(check)]).reason;
        assert_eq!(reason(statement, open.clone()), "about 40 runs would decide");
        let told = Statement { reason: "It is a tie.", ..*statement };
        assert_eq!([reason(&told, open), reason(&told, check(0.5, 0.1, ""))], ["It is a tie.", ""]);
    }

    #[test]
    fn a_broken_number_stands_beside_the_published_one_and_what_no_run_explains_is_unknown() {
        let entry = |what: &str, mean| {
            let ours = crate::evidence::Estimate { mean, half_width: Some(0.1), repetitions: 5 };
            Entry::value(what, "%", 5.0, Some(ours))
        };
        let (met, missed) = (entry("one", 5.1), entry("other", 9.0));
        let (verdict, seen, reason) = by_numbers(&[&met, &missed]);
        assert_eq!(verdict, "broken");
        assert_eq!(
            seen,
            "1 met, 1 missed; met: one: 5 % published, 5.10 ± 0.100 (n = 5) measured; \
             missed: other: 5 % published, 9.00 ± 0.100 (n = 5) measured"
        );
        assert_eq!(reason, "", "it is decided");

        // Just beyond a quarter, by less than chance does to one of ten.
        let ours = crate::evidence::Estimate { mean: 6.36, half_width: Some(0.1), repetitions: 30 };
        let beyond = Entry::value("last", "%", 5.0, Some(ours));
        let mut many = vec![&met; 9];
        many.push(&beyond);
        assert_eq!([by_numbers(&[&beyond]).0, by_numbers(&many).0], ["broken", "undecided"]);
        // A margin of 0.11 takes an interval wider by half, as one of ten, from 0.1 to below it.
        assert_eq!(by_numbers(&many).2, "about 55 runs would decide");

        let check = Check::exact("Restarting the timer adds nothing.", false, "no").id("restart-adds");
        let outcome = Outcome {
            experiment: "r15-tail-loss",
            extent: String::new(),
            probe: String::new(),
            checks: vec![check],
            scoreboard: Vec::new(),
        };
        let statement = statements().find(|it| it.says.starts_with("Restarting the timer adds")).expect("it is listed");
        let Finding { verdict, cause, .. } = statement.finding(&[outcome]);
        assert_eq!((verdict, cause.as_str()), ("broken", "unknown"));
    }

    #[test]
    fn what_names_no_check_and_what_is_named_by_none_is_complained_about() {
        let check = Check::judged("A thing that no paper says.", Verdict::Holds(String::new())).id("said-by-none");
        let outcome = Outcome {
            experiment: "p10-fig11",
            extent: String::new(),
            probe: String::new(),
            checks: vec![check],
            scoreboard: Vec::new(),
        };
        let complaints = complaints(&[outcome]);
        assert!(complaints.iter().any(|it| it.contains("no check has the id moment-to-moment")), "{complaints:?}");
        assert!(complaints.iter().any(|it| it.contains("names said-by-none")), "{complaints:?}");
    }
}
