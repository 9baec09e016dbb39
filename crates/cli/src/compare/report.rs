//! The outcomes as a table, for readers.

use std::time::Duration;

use super::outcome::Outcome;

/// The columns by group. The first column is the profile's name.
pub(super) const GROUPS: [(&str, &[&str]); 4] = [
    ("", &["profile", "messages"]),
    ("delivery delay in ms", &["mean", "p50", "p90", "p99", "p99.9", "max"]),
    ("sent", &["packets", "bytes"]),
    ("retransmissions", &["timeout", "fast", "bundled", "probe", "spurious"]),
];

/// What stands for a value that there is none of.
const NOTHING: &str = "-";

/// One row per outcome, with the cells of [`GROUPS`].
pub(super) fn rows(outcomes: &[Outcome]) -> Vec<Vec<String>> {
    outcomes.iter().map(row).collect()
}

fn row(outcome: &Outcome) -> Vec<String> {
    let delays = &outcome.delays;
    let sent = &outcome.sent;
    let quantile = |share| delays.quantile(share);
    let counts = |counts: &[u64]| counts.iter().map(u64::to_string).collect::<Vec<_>>();
    let mut row = vec![outcome.profile.name().to_owned()];
    row.push(arrived(outcome));
    row.extend(
        [delays.mean(), quantile(0.5), quantile(0.9), quantile(0.99), quantile(0.999), delays.max()].map(milliseconds),
    );
    row.extend(counts(&[sent.packets, sent.bytes, sent.timeout, sent.fast, sent.bundled, sent.probe]));
    row.push(share(sent.spurious, sent.retransmissions()));
    row
}

/// The table as text of fixed width, with two lines of headings.
pub(crate) fn table(outcomes: &[Outcome]) -> String {
    let headings: Vec<String> =
        GROUPS.iter().flat_map(|(_, columns)| columns.iter()).map(ToString::to_string).collect();
    let mut lines = vec![headings];
    lines.extend(rows(outcomes));
    let columns = lines.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|column| lines.iter().filter_map(|line| line.get(column)).map(String::len).max().unwrap_or(0))
        .collect();
    let body = lines.iter().map(|line| text_line(line, &widths));
    std::iter::once(group_line(&widths)).chain(body).collect::<Vec<_>>().join("\n")
}

/// Between columns.
const GAP: usize = 2;

/// Each group's name in the middle of a line over its columns.
fn group_line(widths: &[usize]) -> String {
    let mut widths = widths.iter();
    let mut line = String::new();
    for (index, (name, columns)) in GROUPS.iter().enumerate() {
        let width: usize = widths.by_ref().take(columns.len()).sum::<usize>() + GAP * (columns.len() - 1);
        let gap = if index == 0 { 0 } else { GAP };
        let name = if name.is_empty() { String::new() } else { format!("{:-^width$}", format!(" {name} ")) };
        line += &format!("{:gap$}{name:width$}", "");
    }
    line
}

fn text_line(cells: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (index, (cell, width)) in cells.iter().zip(widths).enumerate() {
        if index == 0 {
            line += &format!("{cell:<width$}");
        } else {
            line += &format!("{:GAP$}{cell:>width$}", "");
        }
    }
    line
}

/// How many messages arrived, and of how many if not all did.
fn arrived(outcome: &Outcome) -> String {
    let (sent, delivered) = (outcome.messages_sent, outcome.messages_delivered());
    if sent == delivered { sent.to_string() } else { format!("{delivered}/{sent}") }
}

/// Three digits are enough, and nothing is rounded to the left of the decimal point.
fn milliseconds(delay: Option<Duration>) -> String {
    let delay_ms = delay.map(|delay| delay.as_secs_f64() * 1000.0);
    delay_ms.map_or(NOTHING.to_owned(), |delay_ms| {
        let decimals = usize::from(delay_ms < 99.95);
        format!("{delay_ms:.decimals$}")
    })
}

/// What stands out, in one sentence.
pub(crate) fn finding(outcomes: &[Outcome]) -> String {
    let each = outcomes.iter().filter_map(|outcome| Some((outcome.profile, outcome.delays.quantile(0.99)?)));
    let delays: Vec<String> =
        each.map(|(profile, p99)| format!("{} ms with {profile}", milliseconds(Some(p99)))).collect();
    match delays.split_last() {
        Some((only, [])) => format!("One message in a hundred took longer than {only}."),
        Some((last, others)) => {
            format!("One message in a hundred took longer than {} and {last}.", others.join(", "))
        }
        None => "No message arrived.".to_owned(),
    }
}

/// `part` of `whole` in per cent.
fn share(part: u64, whole: u64) -> String {
    match (part * 1_000).checked_div(whole) {
        Some(per_mille) => format!("{}.{}%", per_mille / 10, per_mille % 10),
        None => NOTHING.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use festina::Profile;
    use festina_lab::statistics::DelayStatistics;

    use super::*;
    use crate::compare::outcome::{SentTotals, example};

    #[test]
    fn every_row_has_a_cell_for_every_column_and_all_lines_are_equally_long() {
        let nothing = Outcome {
            messages_sent: 0,
            delays: DelayStatistics::new(),
            sent: SentTotals::default(),
            ..example(Profile::Rfc9260)
        };
        let outcomes = [example(Profile::Festina), nothing];
        let columns: usize = GROUPS.iter().map(|(_, columns)| columns.len()).sum();
        assert!(rows(&outcomes).iter().all(|row| row.len() == columns));
        let table = table(&outcomes);
        let lengths: Vec<usize> = table.lines().map(str::len).collect();
        assert_eq!(lengths.len(), 4);
        assert!(lengths.iter().all(|length| *length == lengths[0]), "{table}");
    }

    #[test]
    fn the_finding_names_every_profile() {
        assert_eq!(
            finding(&[example(Profile::Rfc9260), example(Profile::Festina)]),
            "One message in a hundred took longer than 990 ms with rfc9260 and 990 ms with festina."
        );
        assert_eq!(
            finding(&[example(Profile::Festina)]),
            "One message in a hundred took longer than 990 ms with festina."
        );
    }

    #[test]
    fn the_finding_leaves_out_profiles_of_which_nothing_arrived() {
        let nothing = Outcome { delays: DelayStatistics::new(), ..example(Profile::Rfc9260) };
        assert_eq!(finding(std::slice::from_ref(&nothing)), "No message arrived.");
        assert_eq!(finding(&[nothing, example(Profile::Festina)]), finding(&[example(Profile::Festina)]));
    }

    #[test]
    fn the_spurious_share_is_of_all_retransmissions() {
        assert_eq!(share(5, 100), "5.0%");
        assert_eq!(share(1, 3), "33.3%");
        assert_eq!(share(0, 0), "-");
    }
}
