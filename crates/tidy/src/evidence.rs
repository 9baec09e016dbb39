//! The tests that show what the tables of a document state.

use std::collections::BTreeSet;

use crate::tree::File;

/// Complains about a section whose tables differ from their list of tests.
///
/// The list of a section `## Title` is a table under `### Tests: Title`. It repeats the first cell of each row. The second cell names tests in backticks, or
/// has a reason that begins with "by construction: ".
#[must_use]
pub fn unshown(file: &File, sections: &[&str], tests: &BTreeSet<String>) -> Vec<String> {
    let mut complaints = Vec::new();
    for section in sections {
        let stated = rows(&file.text, &format!("## {section}"));
        let shown = rows(&file.text, &format!("### Tests: {section}"));
        let first = |rows: &[Row<'_>]| rows.iter().map(|(first, _)| (*first).to_owned()).collect::<Vec<_>>();
        if stated.is_empty() || first(&stated) != first(&shown) {
            let [stated, shown] = [first(&stated), first(&shown)];
            complaints.push(format!("{}: the rows of \"{section}\" are {stated:?}, their tests {shown:?}", file.path));
        }
        for (row, cell) in shown {
            let names: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
            if names.is_empty() && !cell.starts_with("by construction: ") {
                complaints.push(format!("{}: no test shows the row \"{row}\" of \"{section}\"", file.path));
            }
            let unknown = names.into_iter().filter(|name| !tests.contains(*name));
            complaints.extend(unknown.map(|name| format!("{}: there is no test {name}", file.path)));
        }
    }
    complaints
}

/// The first cell of a row, and the rest.
type Row<'t> = (&'t str, &'t str);

/// The rows of the tables below a heading, up to the next heading, without those that name the columns.
fn rows<'t>(text: &'t str, heading: &str) -> Vec<Row<'t>> {
    let lines = text.lines().skip_while(|line| *line != heading).skip(1).take_while(|line| !line.starts_with('#'));
    let cells = |line: &'t str| line.strip_prefix('|')?.strip_suffix('|')?.split_once('|');
    let mut rows = Vec::new();
    for line in lines {
        match cells(line) {
            // The row above is the head of a table.
            Some((first, _)) if first.starts_with("---") => drop(rows.pop()),
            Some((first, rest)) => rows.push((first.trim(), rest.trim())),
            None => {}
        }
    }
    rows
}

/// Collects the names of the test functions in a Rust file.
#[must_use]
pub fn tests(file: &File) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut is_test = false;
    for line in file.text.lines().map(str::trim_start) {
        if let Some((_, rest)) = line.split_once("fn ").filter(|(before, _)| before.is_empty() || before.ends_with(' '))
        {
            let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
            if std::mem::take(&mut is_test) {
                names.insert(name.to_owned());
            }
        } else if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else {
            is_test &= line.starts_with("#[") || line.starts_with("//");
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    const TABLES: &str = "## Attacks\n\n| attack | effect |\n|---|---|\n| read | no |\n| write | no |\n\n## Tests\n\n";

    #[test]
    fn only_functions_with_the_attribute_are_tests() {
        let source = "#[test]\nfn one() {}\nfn helper() {}\n#[tokio::test]\n/// Why.\nasync fn two() {}\n#[test]\nconst X: u8 = 1;\nfn x() {}";
        let names: Vec<String> = tests(&file("a.rs", source)).into_iter().collect();
        assert_eq!(names, ["one", "two"]);
    }

    #[test]
    fn every_row_needs_a_test_that_exists_or_a_reason() {
        let tests = BTreeSet::from(["one".to_owned()]);
        let of = |list: &str| {
            let text = format!("{TABLES}### Tests: Attacks\n\n| row | shown by |\n|---|---|\n{list}");
            unshown(&file("a.md", &text), &["Attacks"], &tests)
        };
        assert_eq!(of("| read | `one` |\n| write | by construction: it is encrypted |\n"), Vec::<String>::new());
        assert_eq!(of("| read | `one`, `two` |\n| write | `one` |\n"), ["a.md: there is no test two"]);
        assert_eq!(
            of("| read | `one` |\n| write | soon |\n"),
            ["a.md: no test shows the row \"write\" of \"Attacks\""]
        );
        assert_eq!(of("| read | `one` |\n").len(), 1, "a row is missing");
        assert_eq!(unshown(&file("a.md", TABLES), &["Attacks"], &tests).len(), 1);
        assert_eq!(unshown(&file("a.md", ""), &["Attacks"], &tests).len(), 1, "the section was renamed");
    }
}
