//! The first part of a report: question, answer, confidence, and assumptions.

use super::Report;
use super::html::table;
use crate::assumption::{Assumption, Origin, origin_of};
use crate::experiment::Verdict;
use crate::page::escape;

/// Three sentences.
pub(super) fn sentences(report: &Report<'_>) -> [String; 3] {
    let question = report.experiment.description().question;
    let asked = if question.is_empty() { format!("{}.", report.results.plan().title()) } else { question.to_owned() };
    [asked, came_out(report), how_sure(report)]
}

fn came_out(report: &Report<'_>) -> String {
    if report.checks.is_empty() && report.scoreboard.is_empty() {
        return "It states nothing that could hold or not: the figures and numbers speak for themselves.".to_owned();
    }
    let checks = |wanted: &str| report.checks.iter().filter(|check| check.verdict.word() == wanted).count();
    let numbers = |wanted: &str| report.scoreboard.iter().filter(|entry| entry.word() == wanted).count();
    let (held, broken, undecided, untested) =
        (checks("holds"), checks("broken"), checks("undecided"), checks("not tested"));
    let mut text = format!(
        "Of {} statements {held} hold, {broken} are contradicted, {undecided} are undecided and {untested} are not tested",
        report.checks.len()
    );
    let scored = ["met", "missed", "undecided"].map(numbers);
    if scored.iter().sum::<usize>() > 0 {
        let [met, missed, undecided] = scored;
        text +=
            &format!("; of the published numbers that count, {met} are met, {missed} missed and {undecided} undecided");
    }
    let first = report.checks.iter().find(|check| matches!(check.verdict, Verdict::Broken(_)));
    if let Some(first) = first {
        text += &format!(" (contradicted, for one: {})", first.statement.trim_end_matches('.'));
    }
    text + "."
}

fn how_sure(report: &Report<'_>) -> String {
    let runs = report.results.points().iter().map(|point| point.repetitions()).max().unwrap_or_default();
    let fitted = report.scoreboard.iter().filter(|entry| entry.word() == "fitted").count();
    if report.checks.is_empty() && report.scoreboard.is_empty() {
        return format!("Intervals are 95% intervals over up to {runs} runs of each point; one run has none.");
    }
    let sure = match runs {
        0 | 1 => "There is one run of each point, so chance is not known".to_owned(),
        runs => format!("Each verdict is that of the whole 95% interval over up to {runs} runs of each point"),
    };
    match fitted {
        0 => format!("{sure}."),
        1 => format!("{sure}; one published number is shown but not scored, since something was fitted to it."),
        fitted => {
            format!("{sure}; {fitted} published numbers are shown but not scored, since something was fitted to them.")
        }
    }
}

/// The values of the plan by source: fitted ones first.
pub(super) fn assumptions(report: &Report<'_>) -> String {
    let assumptions = report.experiment.assumptions();
    if assumptions.is_empty() {
        return String::new();
    }
    let mut rows: Vec<(Origin, String, String)> = Vec::new();
    for (name, values) in report.results.plan().sweep() {
        for value in values {
            let Some(origin) = origin_of(&assumptions, name, value) else { continue };
            match rows.iter_mut().find(|(known, subject, _)| *known == origin && subject == name) {
                Some((_, _, values)) => *values += &format!(", {value}"),
                None => rows.push((origin, (*name).to_owned(), value.to_string())),
            }
        }
    }
    let beside = assumptions.iter().filter(|assumption| !assumption.is_parameter);
    rows.extend(beside.map(|Assumption { subject, origin, .. }| (*origin, (*subject).to_owned(), String::new())));
    rows.sort_by_key(|(origin, ..)| match origin {
        Origin::Fitted(_) => 0,
        Origin::Chosen(_) => 1,
        Origin::Stated(_) => 2,
    });
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|(origin, subject, values)| [origin.word(), &subject, &values, origin.note()].map(escape).to_vec())
        .collect();
    let heading = ["", "parameter", "value", "source, reason, or result fitted to"].map(str::to_owned);
    format!("<h2>Assumptions</h2>\n{}", table(&heading, &rows, 4))
}
