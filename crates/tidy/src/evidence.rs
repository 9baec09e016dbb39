//! The tests that show what the tables of a document state.

use std::collections::BTreeSet;

use crate::tree::File;

/// Complains about sections of a page whose tables differ from the list of their tests.
///
/// The list is a table with tabs. Each line has a section, the first cell of a row, the names of its tests, and a note. The note of a row without tests
/// begins with "by construction: ".
#[must_use]
pub fn unshown(page: &File, list: &File, sections: &[&str], tests: &BTreeSet<String>) -> Vec<String> {
    let mut complaints = Vec::new();
    let lines = list.text.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>());
    let lines: Vec<[&str; 4]> = lines.filter_map(|cells| cells.try_into().ok()).collect();
    for section in sections {
        let stated = rows(&page.text, &format!("## {section}"));
        let shown: Vec<&str> = lines.iter().filter(|[of, ..]| of == section).map(|[_, row, ..]| *row).collect();
        if stated.is_empty() || stated != shown {
            complaints.push(format!("{}: the rows of \"{section}\" are {stated:?}, in the list {shown:?}", page.path));
        }
    }
    for [section, row, names, note] in &lines {
        if !sections.contains(section) {
            complaints.push(format!("{}: there is no section \"{section}\"", list.path));
        }
        if names.is_empty() && !note.starts_with("by construction: ") {
            complaints.push(format!("{}: no test shows the row \"{row}\" of \"{section}\"", list.path));
        }
        let unknown = names.split(' ').filter(|name| !name.is_empty() && !tests.contains(*name));
        complaints.extend(unknown.map(|name| format!("{}: there is no test {name}", list.path)));
    }
    complaints
}

/// The first cells of the tables below a heading, up to the next heading, without those that name the columns.
fn rows<'t>(text: &'t str, heading: &str) -> Vec<&'t str> {
    let lines = text.lines().skip_while(|line| *line != heading).skip(1).take_while(|line| !line.starts_with('#'));
    let first = |line: &'t str| line.strip_prefix('|')?.strip_suffix('|')?.split('|').next();
    let mut rows = Vec::new();
    for line in lines {
        match first(line) {
            // The row above is the head of a table.
            Some(cell) if cell.starts_with("---") => drop(rows.pop()),
            Some(cell) => rows.push(cell.trim()),
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

    const PAGE: &str = "## Attacks\n\n| attack | effect |\n|---|---|\n| read | no |\n| write | no |\n\n## Tests\n\n";

    #[test]
    fn only_functions_with_the_attribute_are_tests() {
        let source = "#[test]\nfn one() {}\nfn helper() {}\n#[tokio::test]\n/// Why.\nasync fn two() {}\n#[test]\nconst X: u8 = 1;\nfn x() {}";
        let names: Vec<String> = tests(&file("a.rs", source)).into_iter().collect();
        assert_eq!(names, ["one", "two"]);
    }

    #[test]
    fn every_row_needs_a_test_that_exists_or_a_reason() {
        let tests = BTreeSet::from(["one".to_owned()]);
        let of = |page: &str, lines: &[&str]| {
            let list = format!("section\trow\ttests\tnote\n{}\n", lines.join("\n"));
            unshown(&file("a.md", page), &file("a.tsv", &list), &["Attacks"], &tests)
        };
        let [read, write] = ["Attacks\tread\tone\t", "Attacks\twrite\t\tby construction: it is encrypted"];
        assert_eq!(of(PAGE, &[read, write]), Vec::<String>::new());
        assert_eq!(of(PAGE, &["Attacks\tread\tone two\t", "Attacks\twrite\tone\t"]), ["a.tsv: there is no test two"]);
        assert_eq!(
            of(PAGE, &[read, "Attacks\twrite\t\tsoon"]),
            ["a.tsv: no test shows the row \"write\" of \"Attacks\""]
        );
        assert_eq!(of(PAGE, &[read, write, "Other\tread\tone\t"]), ["a.tsv: there is no section \"Other\""]);
        assert_eq!(of(PAGE, &[read]).len(), 1, "a row is missing");
        assert_eq!(of(PAGE, &[read, "Attacks\twrite\tone"]).len(), 1, "a column is missing");
        assert_eq!(of("", &[]).len(), 1, "the section was renamed");
    }
}
