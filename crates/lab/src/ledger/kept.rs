//! Rows of an earlier ledger, for statements whose experiments were not run again.

use super::{Finding, Paper, Statement, Tested, VERDICTS};

/// What an earlier ledger says of each statement.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
struct Row {
    paper: Paper,
    section: String,
    says: String,
    by: String,
    finding: Finding,
}

impl Kept {
    /// The rows of a page that [`document`](super::document) wrote. Lines that are no row of a paper's table are passed over.
    pub fn parse(page: &str) -> Self {
        let mut paper = None;
        let mut rows = Vec::new();
        for line in page.lines() {
            if let Some(title) = line.strip_prefix("## ") {
                paper = Paper::ALL.into_iter().find(|paper| paper.title() == title);
            }
            rows.extend(paper.and_then(|paper| Row::parse(paper, line)));
        }
        Self { rows }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none: the page is no ledger.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// What the page says of the `nth` statement with the same words, counted from 0: the cell that names what tests it, and the finding.
    /// `None` if there is no such row, or if another experiment tested the statement then.
    pub(super) fn of(&self, statement: &Statement, nth: usize) -> Option<(&str, &Finding)> {
        let is_same =
            |row: &&Row| row.paper == statement.paper && row.section == statement.section && row.says == statement.says;
        let row = self.rows.iter().filter(is_same).nth(nth)?;
        let name = match statement.tested {
            Tested::Checks(name, _) | Tested::Numbers(name, _) => name,
            Tested::Fitted(_) | Tested::Not(_) => return None,
        };
        row.by.starts_with(&format!("`{name}`")).then_some((row.by.as_str(), &row.finding))
    }
}

impl Row {
    fn parse(paper: Paper, line: &str) -> Option<Self> {
        let mut cells = cells(line)?;
        // What real sockets say is recorded elsewhere; earlier pages did not show it.
        cells.truncate(6);
        let [section, says, by, verdict, seen, cause] = <[String; 6]>::try_from(cells).ok()?;
        let verdict = VERDICTS.into_iter().find(|known| verdict == format!("**{known}**"))?;
        Some(Self { paper, section, says, by, finding: Finding { verdict, seen, cause } })
    }
}

/// The cells of a row of a table; a vertical line that belongs to a cell has a backslash before it.
fn cells(line: &str) -> Option<Vec<String>> {
    const ESCAPED: &str = "\u{0}";
    let line = line.replace("\\|", ESCAPED);
    let inner = line.strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(|cell| cell.trim().replace(ESCAPED, "|")).collect())
}

#[cfg(test)]
mod tests {
    use super::super::{Outcome, document, statements};
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
    fn what_was_not_run_keeps_its_row_and_what_was_run_again_gets_a_new_one() {
        let [first, second] = ["r15-congestion", "p10-fig11"].map(|name| outcome(name, &Verdict::Holds));
        let before = document(&[first.clone(), second], &Kept::default(), "once");
        let again = outcome("p10-fig11", &Verdict::Undecided);
        let after = document(std::slice::from_ref(&again), &Kept::parse(&before), "twice");
        let whole = document(&[first, again], &Kept::default(), "twice");
        let note = " The rows of all other experiments are those of the page before it.";
        assert!(after.contains(note) && !whole.contains(note));
        assert_eq!(after.replace(note, ""), whole);
        assert!(after.contains("`r15-congestion` (quick) | **holds** | r15-congestion \\| seen"), "{after}");
    }

    #[test]
    fn a_page_that_is_no_ledger_has_no_rows_and_words_that_changed_find_none() {
        assert!(Kept::parse("# A page\n\n| a | b |\n|---|---|\n| 1 | 2 |\n").is_empty());
        let page = document(&[outcome("p10-fig11", &Verdict::Holds)], &Kept::default(), "once");
        let kept = Kept::parse(&page);
        assert_eq!(kept.len(), statements().count());
        let tested = |it: &&Statement| matches!(it.tested, Tested::Checks("p10-fig11", _));
        let statement = *statements().find(tested).expect("it tests one");
        assert!(kept.of(&statement, 0).is_some());
        assert!(kept.of(&Statement { says: "Something else.", ..statement }, 0).is_none());
        let other = Tested::Checks("p10-fig12", &[]);
        assert!(kept.of(&Statement { tested: other, ..statement }, 0).is_none(), "another experiment says nothing");
    }
}
