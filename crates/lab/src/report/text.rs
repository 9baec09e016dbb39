//! The report for a terminal.

use std::fmt::Write as _;

use super::Report;
use super::document::{Compared, milliseconds};
use crate::experiment::Check;
use crate::summary::Repeated;

pub(super) fn text(report: &Report<'_>) -> String {
    let results = &report.results;
    let plan = results.plan();
    let mut text = format!("{}: {}\n{}\n", report.experiment.name(), plan.title(), plan.conditions());
    let _ = writeln!(text, "\n{}", super::summary::sentences(report).join(" "));
    let _ = writeln!(text, "\ndelays in ms; ± is the 95% confidence interval of the mean");
    let beside = report.experiment.beside_delays();
    let headings = ["point", "series", "delays", "mean", "±", "p50", "p99", "max"];
    let mut rows = vec![headings.iter().chain(beside).map(ToString::to_string).collect::<Vec<_>>()];
    for point in results.points() {
        for (name, series) in point.series() {
            let all = series.all();
            let delay = |delay: Option<_>| delay.map_or("-".to_owned(), |delay| number(milliseconds(delay)));
            let [mean, half_width] = estimate(series.mean_s(), 1_000.0);
            let quantiles = [0.5, 0.99].map(|quantile| delay(all.quantile(quantile)));
            let [median, late] = quantiles;
            let count = all.count().to_string();
            let mut row =
                vec![plan.label(point.point()), name.clone(), count, mean, half_width, median, late, delay(all.max())];
            let mean = |name: &&str| point.values().get(*name).and_then(Repeated::mean);
            row.extend(beside.iter().map(|name| mean(name).map_or("-".to_owned(), number)));
            rows.push(row);
        }
    }
    text += &table(&rows, 2);
    if report.experiment.lists_values() {
        text += &format!("\n{}", table(&value_rows(report), 2));
    }
    if !report.scoreboard.is_empty() {
        let _ = writeln!(text, "\npublished: {}", report.experiment.description().reference);
        let entries = report.scoreboard.iter().filter(|entry| entry.measured.is_some());
        let entries: Vec<Compared> = entries.map(Compared::of).collect();
        if !entries.is_empty() {
            text += &table(&comparison_rows(&entries), 1);
        }
        match report.scoreboard.len() - entries.len() {
            0 => {}
            others => {
                let _ = writeln!(text, "published numbers of points that were not run: {others}");
            }
        }
    }
    if !report.checks.is_empty() {
        let _ = write!(text, "\n{}", checks(&report.checks));
    }
    text.trim_end().to_owned()
}

/// A heading and a row per number of each point.
fn value_rows(report: &Report<'_>) -> Vec<Vec<String>> {
    let plan = report.results.plan();
    let mut rows = vec![["point", "number", "mean", "± 95%"].map(str::to_owned).to_vec()];
    for point in report.results.points() {
        rows.extend(point.values().iter().map(|(name, value)| {
            let [mean, half_width] = estimate(value, 1.0);
            vec![plan.label(point.point()), name.clone(), mean, half_width]
        }));
    }
    rows
}

pub(super) fn checks(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        let _ = writeln!(text, "{:<11}{} ({})", check.verdict.word(), check.statement, check.verdict.seen());
    }
    text.trim_end().to_owned()
}

/// A heading and a row per published number.
pub(super) fn comparison_rows(comparisons: &[Compared]) -> Vec<Vec<String>> {
    let heading = ["number", "published", "± one run", "ours", "± 95%", "n", "unit", "deviation", "z", ""];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for entry in comparisons {
        let optional = |value: Option<f64>| value.map_or(String::new(), number);
        let published = entry.published.map(number).or_else(|| entry.inequality().map(|bound| bound.to_string()));
        let runs = if entry.repetitions > 1 { entry.repetitions.to_string() } else { String::new() };
        rows.push(vec![
            entry.what.clone(),
            published.unwrap_or_default(),
            optional(entry.published_half_width),
            entry.measured.map_or("not run".to_owned(), number),
            optional(entry.half_width_95.filter(|_| entry.repetitions > 1)),
            runs,
            entry.unit.clone(),
            entry.deviation.map_or(String::new(), |deviation| format!("{:+.1}%", deviation * 100.0)),
            entry.z.map_or(String::new(), |z| format!("{z:+.1}")),
            entry.verdict.clone(),
        ]);
    }
    rows
}

/// Mean and half width of the confidence interval, times `factor`.
pub(super) fn estimate(repeated: &Repeated, factor: f64) -> [String; 2] {
    [repeated.mean(), repeated.half_width_95()]
        .map(|value| value.map_or("-".to_owned(), |value| number(value * factor)))
}

/// Four significant digits, without an exponent.
pub(super) fn number(value: f64) -> String {
    let magnitude = value.abs();
    let decimals = match magnitude {
        _ if magnitude == 0.0 => 0,
        _ if magnitude >= 1000.0 => 0,
        _ if magnitude >= 100.0 => 1,
        _ if magnitude >= 10.0 => 2,
        _ if magnitude >= 1.0 => 3,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

/// Columns aligned: the first `words` to the left, the others to the right.
fn table(rows: &[Vec<String>], words: usize) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            let _ =
                if column < words { write!(line, "{gap}{cell:<width$}") } else { write!(line, "{gap}{cell:>width$}") };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits_that_matter() {
        for (value, text) in [(0.0, "0"), (0.5, "0.5000"), (1.0, "1.000"), (-12.345, "-12.35"), (123_456.7, "123457")] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["name", "n"], ["ä", "1000"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows, 1), "name     n\nä     1000\n");
    }
}
