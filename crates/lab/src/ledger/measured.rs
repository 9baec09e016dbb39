//! Verdicts of runs with real sockets, recorded in `validation/`.

use std::sync::LazyLock;

use serde::Deserialize;

use super::{Statement, Tested, together};

/// A run of an experiment with `--real`: its summary as `--json` prints it.
#[derive(Debug, Deserialize)]
struct Recorded {
    experiment: String,
    checks: Vec<Checked>,
}

#[derive(Debug, Deserialize)]
struct Checked {
    id: String,
    verdict: String,
}

/// All recorded runs of experiments that test statements, and the file of each in `validation/`.
static RECORDED: LazyLock<Vec<(Recorded, &str)>> = LazyLock::new(|| {
    let read = |text, file| (serde_json::from_str(text).expect("it is a part of this program and has its form"), file);
    vec![
        read(include_str!("../../../../validation/r15-syslog-loss-real.json"), "r15-syslog-loss-real.json"),
        read(include_str!("../../../../validation/r15-syslog-trace-real.json"), "r15-syslog-trace-real.json"),
        read(include_str!("../../../../validation/r15-syslog-congestion-real.json"), "r15-syslog-congestion-real.json"),
    ]
});

/// Verdicts of checks. An unknown one counts as not tested.
const VERDICTS: [&str; 4] = ["holds", "broken", "undecided", "not tested"];

/// The verdict of recorded runs with real sockets on a statement; empty if there is none.
pub(super) fn verdict(statement: &Statement) -> &'static str {
    let Tested::Checks(name, ids) = statement.tested else { return "" };
    let Some((recorded, _)) = RECORDED.iter().find(|(recorded, _)| recorded.experiment == name) else { return "" };
    let checks = recorded.checks.iter().filter(|check| ids.contains(&check.id.as_str()));
    let words: Vec<&'static str> = checks
        .map(|check| VERDICTS.into_iter().find(|known| *known == check.verdict).unwrap_or("not tested"))
        .collect();
    match together(&words) {
        "not tested" => "",
        verdict => verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::super::statements;
    use super::*;

    #[test]
    fn statements_about_log_lines_have_verdicts_of_real_sockets_and_no_others_have() {
        for statement in statements() {
            let is_measured = matches!(statement.tested, Tested::Checks(name, _) if name.starts_with("r15-syslog"));
            assert_eq!(!verdict(statement).is_empty(), is_measured, "{}", statement.says);
        }
    }

    #[test]
    fn each_recording_is_of_real_sockets_and_was_judged() {
        for (recorded, file) in RECORDED.iter() {
            assert!(file.starts_with(&recorded.experiment), "{file}");
            let words: Vec<&str> = recorded.checks.iter().map(|check| check.verdict.as_str()).collect();
            assert!(words.iter().all(|word| VERDICTS.contains(word)) && words.contains(&"holds"), "{file}: {words:?}");
        }
    }
}
