//! Public reports of faults in other projects, with the verdict for Festina and the test that shows it.

use std::collections::BTreeSet;

use toml::{Table, Value};

use crate::tree::File;

const VERDICTS: [&str; 4] = ["fine", "fixed", "documented", "open"];

/// Complains about entries that are malformed or name no test that exists. An entry has `ids`, `kind`, `verdict`, and either `test` or `why` there is none.
#[must_use]
pub fn faults(file: &File, tests: &BTreeSet<String>) -> Vec<String> {
    let table: Table = match file.text.parse() {
        Ok(table) => table,
        Err(error) => return vec![format!("{}: {error}", file.path)],
    };
    let reports = table.get("reports").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if reports.is_empty() || table.len() > 1 {
        return vec![format!("{}: it has to hold the list `reports` and nothing else", file.path)];
    }
    let faults = reports.iter().enumerate().filter_map(|(index, report)| Some((index, fault(report, tests)?)));
    faults.map(|(index, fault)| format!("{}: report {}: {fault}", file.path, index + 1)).collect()
}

/// The first fault of an entry.
fn fault(report: &Value, tests: &BTreeSet<String>) -> Option<String> {
    let Some(report) = report.as_table() else { return Some("it is no table".to_owned()) };
    if let Some(key) = report.keys().find(|key| !["ids", "kind", "verdict", "test", "why"].contains(&key.as_str())) {
        return Some(format!("it has a field `{key}`"));
    }
    let text = |key: &str| report.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let ids = report.get("ids").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if ids.is_empty() || !ids.iter().all(|id| id.as_str().is_some_and(is_id)) {
        return Some("each of its `ids` has to be a repository, # and a number".to_owned());
    }
    if text("kind").is_none() {
        return Some("it has no `kind`".to_owned());
    }
    if !text("verdict").is_some_and(|verdict| VERDICTS.contains(&verdict)) {
        return Some(format!("its `verdict` is none of {VERDICTS:?}"));
    }
    match (text("test"), text("why")) {
        (Some(test), None) => (!tests.contains(test)).then(|| format!("there is no test {test}")),
        (None, Some(_)) => None,
        _ => Some("it needs either a `test` or the reason `why` there is none".to_owned()),
    }
}

fn is_id(id: &str) -> bool {
    let parts = id.rsplit_once('#');
    parts.is_some_and(|(name, number)| !name.is_empty() && number.parse::<u32>().is_ok())
}

/// Collects the names of the test functions in a Python file.
#[must_use]
pub fn python_tests(file: &File) -> BTreeSet<String> {
    let names =
        file.text.lines().filter_map(|line| line.trim_start().trim_start_matches("async ").strip_prefix("def "));
    let names = names.filter_map(|rest| rest.split('(').next()).filter(|name| name.starts_with("test_"));
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(text: &str) -> Vec<String> {
        let tests = BTreeSet::from(["one".to_owned()]);
        faults(&File { path: "r.toml".to_owned(), text: text.to_owned() }, &tests)
    }

    #[test]
    fn a_report_needs_an_id_a_verdict_and_a_test_that_exists_or_a_reason() {
        let of = |entry: &str| faults_of(&format!("reports = [{{ {entry} }}]"));
        const HEAD: &str = "ids = [\"a/b#1\"], kind = \"k\", verdict = \"fine\"";
        for sound in ["test = \"one\"", "why = \"tried\""] {
            assert_eq!(of(&format!("{HEAD}, {sound}")), Vec::<String>::new());
        }
        for (entry, fault) in [
            (format!("{HEAD}, test = \"two\""), "there is no test two"),
            (HEAD.to_owned(), "either"),
            (format!("{HEAD}, test = \"one\", why = \"x\""), "either"),
            (format!("{HEAD}, test = \"one\", note = \"x\""), "a field `note`"),
            (HEAD.replace("#1", "#x"), "`ids`"),
            (HEAD.replace("[\"a/b#1\"]", "[]"), "`ids`"),
            (HEAD.replace("\"k\"", "\"\""), "`kind`"),
            (HEAD.replace("fine", "good"), "`verdict`"),
        ] {
            assert!(matches!(&of(&entry)[..], [text] if text.contains(fault)), "{entry}: {:?}", of(&entry));
        }
    }

    #[test]
    fn a_file_without_reports_and_one_that_is_no_toml_are_faults() {
        for text in ["", "reports = []", "reports = [1]", "reports = [", "other = 1\nreports = [{}]"] {
            assert_eq!(faults_of(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn python_tests_are_functions_whose_names_say_so() {
        let text = "def test_a() -> None:\n    async def test_b():\ndef helper():\n# def test_c():";
        let names = python_tests(&File { path: "t.py".to_owned(), text: text.to_owned() });
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["test_a", "test_b"]);
    }
}
