//! The requirements of the standards, their tests, and the deviations that a page states.

use std::collections::BTreeSet;

use crate::tree::File;

/// Columns of the table: the document, its section, the level, the requirement, the names of tests, a note.
const COLUMNS: [&str; 6] = ["document", "section", "level", "requirement", "tests", "note"];

/// Notes that stand in for tests. The page explains them.
const NOTES: [&str; 8] = [
    "every packet",
    "single-homed",
    "by the driver",
    "by the user",
    "by construction: ",
    "not applicable: ",
    DEVIATES,
    NOT_OFFERED,
];
const DEVIATES: &str = "deviates: ";
const NOT_OFFERED: &str = "not offered: ";

/// Documents by whose number or name a test's name may begin, followed by a section.
const MARKS: [&str; 8] = ["rfc9260_", "rfc3758_", "rfc7496_", "rfc8260_", "rfc6525_", "rfc3168_", "rfc9653_", "s"];

/// Complains about rows of the table without a test that exists or a note, and about tests named after a section that no row names.
#[must_use]
pub fn untested(table: &File, tests: &BTreeSet<String>) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut named = BTreeSet::new();
    for (number, row) in rows(table) {
        let place = format!("{}:{number}", table.path);
        let Ok([document, _, _, requirement, names, note]) = <[&str; 6]>::try_from(row) else {
            complaints.push(format!("{place}: a row has the columns {COLUMNS:?}"));
            continue;
        };
        if document.is_empty() || requirement.is_empty() {
            complaints.push(format!("{place}: the document or the requirement is missing"));
        }
        if !note.is_empty() && !NOTES.iter().any(|known| note.starts_with(known)) {
            complaints.push(format!("{place}: a note begins with one of {NOTES:?}"));
        }
        if names.is_empty() && note.is_empty() {
            complaints.push(format!("{place}: neither a test nor a note"));
        }
        let unknown = names.split(' ').filter(|name| !name.is_empty() && !tests.contains(*name));
        complaints.extend(unknown.map(|name| format!("{place}: there is no test {name}")));
        named.extend(names.split(' '));
    }
    let missing = tests.iter().filter(|name| is_marked(name) && !named.contains(name.as_str()));
    complaints.extend(missing.map(|name| format!("{}: no row names the test {name}", table.path)));
    complaints
}

/// Complains about deviations that the page or the table has and the other has not. The page lists those of a document under
/// `### Deviations: DOCUMENT`, in tables whose first cell has the sections, separated by semicolons.
#[must_use]
pub fn undocumented(table: &File, page: &File) -> Vec<String> {
    let deviates = |note: &str| note.starts_with(DEVIATES) || note.starts_with(NOT_OFFERED);
    let stated: BTreeSet<String> = rows(table)
        .filter(|(_, row)| row.last().is_some_and(|note| deviates(note)) && row.len() == COLUMNS.len())
        .map(|(_, row)| format!("{} §{}", row[0], row[1]))
        .collect();
    let written = deviations(&page.text);
    let difference = |a: &BTreeSet<String>, b: &BTreeSet<String>, path: &str| -> Vec<String> {
        a.difference(b).map(|section| format!("{path}: the deviation from {section} is missing")).collect()
    };
    [difference(&stated, &written, &page.path), difference(&written, &stated, &table.path)].concat()
}

/// The rows below the head, with their line numbers.
fn rows(table: &File) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let lines = table.text.lines().enumerate().skip(1);
    lines.map(|(index, line)| (index + 1, line.split('\t').collect()))
}

fn is_marked(name: &str) -> bool {
    let section = MARKS.iter().find_map(|mark| name.strip_prefix(mark));
    name.starts_with("nr_sack_") || section.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn deviations(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut document = "";
    for line in page.lines() {
        if line.starts_with('#') {
            document = line.strip_prefix("### Deviations: ").unwrap_or_default();
        }
        let cell = line.strip_prefix("| ").and_then(|rest| rest.split_once(" |")).map(|(cell, _)| cell);
        if let Some(cell) = cell.filter(|cell| !document.is_empty() && *cell != "§") {
            found.extend(cell.split("; ").map(|section| format!("{document} §{section}")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "document\tsection\tlevel\trequirement\ttests\tnote\n";

    fn table(rows: &str) -> File {
        File { path: "c.tsv".to_owned(), text: format!("{HEAD}{rows}") }
    }

    #[test]
    fn a_requirement_has_tests_that_exist_or_a_note() {
        let tests = ["s3_a", "rfc9260_1_b", "nr_sack_c", "sorted", "rfc9260_and_others"].map(str::to_owned).into();
        let all = "RFC 9260\t3\tMUST\tr\ts3_a rfc9260_1_b\t\nNR-SACK\t\t\tr\tnr_sack_c\tevery packet\n";
        let of = |row: &str| untested(&table(&format!("{all}{row}")), &tests);
        assert_eq!(of("RFC 9260\t1\tMUST\tr\t\tsingle-homed\n"), Vec::<String>::new());
        for row in [
            "RFC 9260\t1\tMUST\tr\t\t\n",
            "RFC 9260\t1\tMUST\tr\tgone\t\n",
            "RFC 9260\t1\tMUST\tr\t\tlater\n",
            "RFC 9260\t1\tMUST\t\ts3_a\t\n",
            "RFC 9260\t1\tMUST\tr\n",
        ] {
            assert_eq!(of(row).len(), 1, "{row}");
        }
        assert_eq!(untested(&table(""), &tests).len(), 3, "marked tests are missing");
    }

    #[test]
    fn deviations_are_the_same_in_table_and_page() {
        let table = table(
            "RFC 9260\t4 (3), 5.1\t\tr\t\tdeviates: so\nRFC 9260\t6\t\tr\t\tnot offered: x\nRFC 9260\t7\t\tr\tt\t\n",
        );
        let page = |rows: &str| File {
            path: "c.md".to_owned(),
            text: format!("## D\n| 9 | no |\n### Deviations: RFC 9260\n\n| § | Festina |\n|---|---|\n{rows}"),
        };
        assert_eq!(undocumented(&table, &page("| 4 (3), 5.1; 6 | so |\n")), Vec::<String>::new());
        assert_eq!(
            undocumented(&table, &page("| 6 | so |\n")),
            ["c.md: the deviation from RFC 9260 §4 (3), 5.1 is missing"]
        );
        assert_eq!(
            undocumented(&table, &page("| 4 (3), 5.1; 6; 7 | so |\n")),
            ["c.tsv: the deviation from RFC 9260 §7 is missing"]
        );
    }
}
