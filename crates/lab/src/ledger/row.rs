//! Rows of the ledger as data: JSON, from which a later ledger keeps rows, and CSV.

use serde::{Deserialize, Serialize};

use super::{Paper, Statement};

/// A row of the ledger: a statement and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The paper.
    pub paper: Paper,
    /// Section, table or figure.
    pub section: String,
    /// The statement in our words.
    pub statement: String,
    /// The experiment that tests it; empty if none does.
    pub experiment: String,
    /// How much of the experiment was run, such as `quick` or `5 runs`; empty if all of it was.
    pub extent: String,
    /// One of [`VERDICTS`](super::VERDICTS).
    pub verdict: String,
    /// The evidence: our numbers, next to the published ones if there are any.
    pub ours: String,
    /// Why a broken statement is broken, or `unknown`.
    pub cause: String,
    /// Why an undecided statement is undecided: the number of runs that would decide, or why none would.
    pub reason: String,
    /// The verdict over real sockets; empty if there is none.
    pub real_sockets: String,
    /// The [probe](crate::runner::probe) of the experiment in the code that gave this result, and after a hyphen a digest of the checks that the plan
    /// declares for it; empty if it was not recorded.
    pub probe: String,
}

/// The rows of a ledger that [`to_json`] wrote.
///
/// # Errors
/// If the text has another form.
pub fn parse(json: &str) -> Result<Vec<Row>, serde_json::Error> {
    serde_json::from_str(json)
}

/// The rows as JSON: an array with one object per line.
///
/// # Panics
/// Never: rows hold text alone.
pub fn to_json(rows: &[Row]) -> String {
    let lines: Vec<String> = rows.iter().map(|row| serde_json::to_string(row).expect("a row is text")).collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}

/// The rows as comma-separated values (RFC 4180), after a line with the names of the columns.
pub fn to_csv(rows: &[Row]) -> String {
    let head = "paper,section,statement,experiment,extent,verdict,ours,cause,reason,real_sockets,probe\n".to_owned();
    rows.iter().fold(head, |text, row| {
        let Row { paper, section, statement, experiment, extent, verdict, ours, cause, reason, real_sockets, probe } =
            row;
        let paper = format!("{paper:?}");
        let cells = [&paper, section, statement, experiment, extent, verdict, ours, cause, reason, real_sockets, probe];
        text + &cells.map(|cell| quoted(cell)).join(",") + "\n"
    })
}

fn quoted(cell: &str) -> String {
    if cell.contains(['"', ',', '\n']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}

impl Row {
    /// Whether this is a row of the statement.
    pub(super) fn is_of(&self, statement: &Statement) -> bool {
        self.paper == statement.paper && self.section == statement.section && self.statement == statement.says
    }

    /// Whether other code, by the probe of its experiment, or other checks gave this result.
    pub fn is_older(&self, probe: &str) -> bool {
        super::statements().find(|it| self.is_of(it)).is_none_or(|statement| self.probe != statement.mark(probe))
    }

    /// The command that gives this result; empty if no experiment does.
    pub fn command(&self) -> String {
        let Self { experiment, extent, .. } = self;
        if experiment.is_empty() {
            return String::new();
        }
        let quick = if extent.starts_with("quick") { " --quick" } else { "" };
        let seeds = extent.strip_prefix("quick, ").unwrap_or(extent).strip_suffix(" runs");
        let seeds = seeds.map_or(String::new(), |runs| format!(" --seeds {runs}"));
        format!("festina lab ledger --only {experiment}{quick}{seeds}")
    }
}

/// The result of a statement in an earlier ledger, if the same experiment tests it: the `nth` row with its words, counted from 0.
pub(super) fn earlier<'r>(rows: &'r [Row], statement: &Statement, nth: usize) -> Option<&'r Row> {
    let row = rows.iter().filter(|row| row.is_of(statement)).nth(nth)?;
    statement.tested.experiment().filter(|name| *name == row.experiment).map(|_| row)
}

#[cfg(test)]
mod tests {
    use super::super::{Outcome, Tested, rows, statements};
    use super::*;
    use crate::experiment::{Check, Verdict};

    /// The experiment with one check for each statement that it tests by checks, all alike.
    fn outcome(experiment: &'static str, verdict: &dyn Fn(String) -> Verdict) -> Outcome {
        let mut checks = Vec::new();
        for statement in statements() {
            if let Tested::Checks(name, ids) = statement.tested {
                let ids = ids.iter().filter(|_| name == experiment);
                checks.extend(ids.map(|id| Check::judged("", verdict(format!("{experiment}, \"seen\""))).id(*id)));
            }
        }
        Outcome { experiment, extent: "quick".to_owned(), probe: "00ff".to_owned(), checks, scoreboard: Vec::new() }
    }

    #[test]
    fn statements_that_were_not_run_keep_their_results_and_the_others_get_new_ones() {
        let [first, second] = ["r15-congestion", "p10-fig11"].map(|name| outcome(name, &Verdict::Holds));
        let before = rows(&[first.clone(), second], &[]);
        let again = outcome("p10-fig11", &Verdict::Undecided);
        let kept = parse(&to_json(&before)).expect("it was written by this program");
        assert_eq!(kept, before);
        let after = rows(std::slice::from_ref(&again), &kept);
        assert_eq!(after, rows(&[first, again], &[]));
        let row = after.iter().find(|row| row.experiment == "r15-congestion").expect("it is kept");
        assert_eq!([row.extent.as_str(), row.verdict.as_str(), row.probe.as_str()], ["quick", "holds", "00ff"]);
        assert_eq!(row.command(), "festina lab ledger --only r15-congestion --quick");
        let quoted = "quick,holds,\"r15-congestion, \"\"seen\"\"";
        assert!(to_csv(&after).contains(quoted), "{}", to_csv(&after));
    }

    #[test]
    fn a_file_that_is_no_ledger_is_refused_and_words_that_changed_find_no_row() {
        assert!(parse("a\tb\n1\t2\n").is_err());
        assert!(parse("[{\"paper\":\"P06\"}]").is_err());
        let kept = rows(&[outcome("p10-fig11", &Verdict::Holds)], &[]);
        let tested = |it: &&Statement| matches!(it.tested, Tested::Checks("p10-fig11", _));
        let statement = *statements().find(tested).expect("it tests one");
        assert!(earlier(&kept, &statement, 0).is_some());
        assert!(earlier(&kept, &statement, 1).is_none());
        assert!(earlier(&kept, &Statement { says: "Something else.", ..statement }, 0).is_none());
        let other = Tested::Checks("p10-fig12", &[]);
        assert!(
            earlier(&kept, &Statement { tested: other, ..statement }, 0).is_none(),
            "another experiment says nothing"
        );
    }

    #[test]
    fn the_command_of_a_row_has_its_extent() {
        let mut row = rows(&[outcome("p10-fig11", &Verdict::Holds)], &[]).pop().expect("there are statements");
        row.experiment = "p10-fig11".to_owned();
        let command = |extent: &str| Row { extent: extent.to_owned(), ..row.clone() }.command();
        assert_eq!(command(""), "festina lab ledger --only p10-fig11");
        assert_eq!(command("4 runs"), "festina lab ledger --only p10-fig11 --seeds 4");
        assert_eq!(command("quick, 4 runs"), "festina lab ledger --only p10-fig11 --quick --seeds 4");
        assert_eq!(Row { experiment: String::new(), ..row.clone() }.command(), "");
    }
}
