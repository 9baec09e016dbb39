//! Results of an earlier ledger, for statements whose experiments were not run again.

use super::{Finding, HEAD, Paper, Statement, Tested, VERDICTS};

/// The results of an earlier ledger.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
struct Row {
    paper: Paper,
    section: String,
    says: String,
    experiment: String,
    extent: String,
    finding: Finding,
}

impl Kept {
    /// Reads a ledger that [`table`](super::table) wrote. Lines that are no row of a ledger are skipped.
    pub fn parse(ledger: &str) -> Self {
        Self { rows: ledger.lines().filter_map(Row::parse).collect() }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows: the file is no ledger.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the extent and the finding of the `nth` statement with the same words, counted from 0. `None` if there is no such row, or if another
    /// experiment tested the statement then.
    pub(super) fn of(&self, statement: &Statement, nth: usize) -> Option<(&str, &Finding)> {
        let is_same =
            |row: &&Row| row.paper == statement.paper && row.section == statement.section && row.says == statement.says;
        let row = self.rows.iter().filter(is_same).nth(nth)?;
        let name = match statement.tested {
            Tested::Checks(name, _) | Tested::Numbers(name, _) => name,
            Tested::Arithmetic(_) | Tested::Fitted(_) | Tested::Not(_) => return None,
        };
        (row.experiment == name).then_some((row.extent.as_str(), &row.finding))
    }
}

impl Row {
    fn parse(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.split('\t').collect();
        // The verdict over real sockets is recorded elsewhere.
        let [paper, section, says, experiment, extent, verdict, seen, cause, _] =
            <[&str; HEAD.len()]>::try_from(cells).ok()?;
        let paper = Paper::ALL.into_iter().find(|known| format!("{known:?}") == paper)?;
        let verdict = VERDICTS.into_iter().find(|known| *known == verdict)?;
        Some(Self {
            paper,
            section: section.to_owned(),
            says: says.to_owned(),
            experiment: experiment.to_owned(),
            extent: extent.to_owned(),
            finding: Finding { verdict, seen: seen.to_owned(), cause: cause.to_owned() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Outcome, statements, table};
    use super::*;
    use crate::experiment::{Check, Verdict};

    /// The experiment with one check for each statement that it tests by checks, all alike.
    fn outcome(experiment: &'static str, verdict: &dyn Fn(String) -> Verdict) -> Outcome {
        let mut checks = Vec::new();
        for statement in statements() {
            if let Tested::Checks(name, ids) = statement.tested {
                let ids = ids.iter().filter(|_| name == experiment);
                checks.extend(ids.map(|id| Check::judged("", verdict(format!("{experiment} | seen"))).id(*id)));
            }
        }
        Outcome { experiment, extent: "quick".to_owned(), checks, scoreboard: Vec::new() }
    }

    #[test]
    fn statements_that_were_not_run_keep_their_results_and_the_others_get_new_ones() {
        let [first, second] = ["r15-congestion", "p10-fig11"].map(|name| outcome(name, &Verdict::Holds));
        let before = table(&[first.clone(), second], &Kept::default());
        let again = outcome("p10-fig11", &Verdict::Undecided);
        let after = table(std::slice::from_ref(&again), &Kept::parse(&before));
        assert_eq!(after, table(&[first, again], &Kept::default()));
        assert!(after.contains("\tr15-congestion\tquick\tholds\tr15-congestion | seen"), "{after}");
    }

    #[test]
    fn a_file_that_is_no_ledger_has_no_rows_and_words_that_changed_find_none() {
        assert!(Kept::parse("a\tb\n1\t2\n").is_empty());
        let ledger = table(&[outcome("p10-fig11", &Verdict::Holds)], &Kept::default());
        let kept = Kept::parse(&ledger);
        assert_eq!(kept.len(), statements().count());
        let tested = |it: &&Statement| matches!(it.tested, Tested::Checks("p10-fig11", _));
        let statement = *statements().find(tested).expect("it tests one");
        assert!(kept.of(&statement, 0).is_some());
        assert!(kept.of(&Statement { says: "Something else.", ..statement }, 0).is_none());
        let other = Tested::Checks("p10-fig12", &[]);
        assert!(kept.of(&Statement { tested: other, ..statement }, 0).is_none(), "another experiment says nothing");
    }
}
