//! The tables of the documents that follow from the ledger: headline claims on the page of each paper, and their number.

use super::row::Row;
use super::{Headline, Paper, Statement, statements};

/// What stands in front of a generated table, and behind it.
const MARKS: [&str; 2] = ["<!-- by festina lab ledger -->\n", "<!-- end -->\n"];

/// The command that gives a row, up to the name of its experiment.
const COMMAND: &str = "festina lab ledger --only";

/// The headline claims of a paper, each with its row.
pub fn headlines(rows: &[Row], paper: Paper) -> Vec<(Headline, &Row)> {
    let of = |statement: &&Statement| statement.paper == paper;
    let row = |statement: &Statement| Some((statement.headline?, rows.iter().find(|row| row.is_of(statement))?));
    statements().filter(of).filter_map(row).collect()
}

/// The headline claims of a paper as a table: the claim, both figures, the verdict and the command.
pub fn headline_table(rows: &[Row], paper: Paper) -> String {
    let head = format!("| claim (section) | paper | ours | verdict | `{COMMAND}` |\n|---|---|---|---|---|\n");
    headlines(rows, paper).into_iter().fold(head, |text, (headline, row)| {
        let command = match row.command() {
            none if none.is_empty() => "-".to_owned(),
            command => format!("`{}`", command.trim_start_matches(COMMAND).trim_start()),
        };
        let cell = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        let published = cell(headline.published.to_owned());
        let ours = cell(headline.ours(&row.ours));
        // Remarks of ours in brackets, and further sections and figures, are in the ledger.
        let claim = row.statement.split(". (").next().unwrap_or_default().trim_end_matches('.');
        let section = row.section.split([',', ';']).next().unwrap_or_default();
        text + &format!("| {claim} ({section}) | {published} | {ours} | **{}** | {command} |\n", row.verdict)
    })
}

/// How many headline claims and statements of each paper there are, and have each of three verdicts.
pub fn count_table(rows: &[Row]) -> String {
    const WORDS: [&str; 3] = ["holds", "broken", "undecided"];
    let counts = |verdicts: &[&str]| {
        let [holds, broken, undecided] = WORDS.map(|word| verdicts.iter().filter(|verdict| **verdict == word).count());
        format!("{} | {holds} | {broken} | {undecided}", verdicts.len())
    };
    let mut text =
        "| paper | main claims | hold | broken | undecided | statements | hold | broken | undecided |\n".to_owned();
    text += "|---|---|---|---|---|---|---|---|---|\n";
    let mut all = (Vec::new(), Vec::new());
    for paper in Paper::ALL {
        let claims: Vec<&str> = headlines(rows, paper).iter().map(|(_, row)| row.verdict.as_str()).collect();
        let of = rows.iter().filter(|row| row.paper == paper);
        let statements: Vec<&str> = of.map(|row| row.verdict.as_str()).collect();
        text += &format!("| {paper:?} | {} | {} |\n", counts(&claims), counts(&statements));
        all.0.extend(claims);
        all.1.extend(statements);
    }
    text + &format!("| all | {} | {} |\n", counts(&all.0), counts(&all.1))
}

/// Every generated table, with the page on which it stands, relative to the folder of documents.
pub fn tables(rows: &[Row]) -> Vec<(String, String)> {
    let page = |paper| (format!("papers/{}.md", format!("{paper:?}").to_lowercase()), headline_table(rows, paper));
    let counts = ("ledger.md".to_owned(), count_table(rows));
    std::iter::once(counts).chain(Paper::ALL.into_iter().map(page)).collect()
}

/// Returns the document with another table between its marks; `None` if it has no marks.
pub fn with_table(document: &str, table: &str) -> Option<String> {
    let [begins, ends] = MARKS;
    let (before, rest) = document.split_once(begins)?;
    let (_, after) = rest.split_once(ends)?;
    Some(format!("{before}{begins}\n{table}\n{ends}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_paper_has_five_to_ten_headline_claims() {
        for paper in Paper::ALL {
            let count = statements().filter(|it| it.paper == paper && it.headline.is_some()).count();
            assert!((5..=10).contains(&count), "{paper:?}: {count}");
        }
    }

    #[test]
    fn the_table_between_the_marks_of_a_document_is_replaced_and_nothing_else() {
        let [begins, ends] = MARKS;
        let document = format!("before\n{begins}\nold\n\n{ends}after\n");
        let new = with_table(&document, "new\n").expect("it has the marks");
        assert_eq!(new, document.replace("old", "new"));
        assert_eq!(with_table("no marks", "new\n"), None);
    }

    #[test]
    fn a_headline_shows_the_number_behind_its_words() {
        let figure = |label, unit, ours: &str| Headline { published: "", label, unit }.ours(ours);
        let number = "1 met; RTT 400ms, share: 65.5 % published, 63.6 ± 0.158 (n = 60) measured";
        assert_eq!(figure("RTT 400ms, share", " %", number), "63.6 ± 0.158 %");
        let check = "by the text: holds, mean of the 1st 200 over 825 ms, 0.242 ± 0.001 (n = 12); mean of the 2nd 352 over 1193 ms";
        assert_eq!(figure("mean of the 1st", " ", check), "200 over 825 ms, 0.242 ± 0.001");
        assert_eq!(figure("mean of the 2nd", "", check), "mean of the 2nd 352 over 1193 ms");
        assert_eq!(figure("mean of the 3rd", "", check), "");
        assert_eq!(figure("", "", check), "");
    }
}
