//! The outcomes as a table, for readers.

use std::ops::Range;
use std::time::Duration;

use festina_models::statistics::DelayStatistics;

use super::outcome::Outcome;
use super::totals::SentTotals;

/// The columns by group. The first column is the profile's name.
pub(super) const GROUPS: [(&str, &[&str]); 4] = [
    ("", &["profile", "messages"]),
    ("delivery delay in ms", &["mean", "p50", "p90", "p99", "p99.9", "max"]),
    ("a message costs", &["there", "back", "bytes"]),
    ("retransmissions", &["timeout", "fast", "bundled", "probe", "copy", "spurious"]),
];

/// The text has two tables, so that both fit on a terminal of 80 columns. Which columns each has, counted over all [`GROUPS`].
const TEXT_TABLES: [&[Range<usize>]; 2] = [&[0..1, 2..11], &[0..2, 11..17]];

/// What the columns of costs hold.
pub(crate) const COST_NOTE: &str = "A message costs packets there and back and bytes of both, UDP and IP included.";

/// The placeholder for a missing value.
const NOTHING: &str = "-";

/// A row of the table.
pub(super) struct Row {
    /// Whether it says what the simulator makes of the scenario of the row above.
    pub(super) is_simulated: bool,
    /// One for each column of [`GROUPS`].
    pub(super) cells: Vec<String>,
}

/// One row per outcome, and below it one for the simulator.
pub(super) fn rows(outcomes: &[Outcome]) -> Vec<Row> {
    outcomes.iter().flat_map(|outcome| std::iter::once(measured_row(outcome)).chain(simulated_row(outcome))).collect()
}

fn measured_row(outcome: &Outcome) -> Row {
    let name = outcome.profile.name().to_owned();
    let cost = outcome.cost.per_message(outcome.messages_sent);
    let cells = cells(name, arrived(outcome), &outcome.delays, cost, &outcome.sent);
    Row { is_simulated: false, cells }
}

fn simulated_row(outcome: &Outcome) -> Option<Row> {
    let simulated = outcome.simulated.as_ref()?;
    let messages = simulated.messages_per_run();
    let cost = simulated.cost_per_run().per_message(messages);
    let name = "simulated".to_owned();
    let cells = cells(name, messages.to_string(), &simulated.delays, cost, &simulated.sent_per_run());
    Some(Row { is_simulated: true, cells })
}

fn cells(
    name: String,
    messages: String,
    delays: &DelayStatistics,
    cost: Option<[f64; 3]>,
    sent: &SentTotals,
) -> Vec<String> {
    let quantile = |share| delays.quantile(share);
    let times = [delays.mean(), quantile(0.5), quantile(0.9), quantile(0.99), quantile(0.999), delays.max()];
    let counts = [sent.timeout, sent.fast, sent.bundled, sent.probe, sent.copy];
    let mut cells = vec![name, messages];
    cells.extend(times.map(milliseconds));
    cells.extend(match cost {
        Some([there, back, bytes]) => [format!("{there:.2}"), format!("{back:.2}"), format!("{bytes:.0}")],
        None => [NOTHING; 3].map(str::to_owned),
    });
    cells.extend(counts.map(|count| count.to_string()));
    cells.push(share(sent.spurious, sent.retransmissions()));
    cells
}

/// The tables as text of fixed width, each with two lines of headings.
pub(crate) fn tables(outcomes: &[Outcome]) -> String {
    let headings: Vec<String> =
        GROUPS.iter().flat_map(|(_, columns)| columns.iter()).map(ToString::to_string).collect();
    let mut lines = vec![headings];
    lines.extend(rows(outcomes).into_iter().map(|mut row| {
        if let Some(name) = row.cells.first_mut().filter(|_| row.is_simulated) {
            name.insert_str(0, "  ");
        }
        row.cells
    }));
    TEXT_TABLES.map(|columns| table(&lines, columns)).join("\n\n")
}

/// One table with some of the columns.
fn table(lines: &[Vec<String>], columns: &[Range<usize>]) -> String {
    let picked: Vec<usize> = columns.iter().cloned().flatten().collect();
    let pick =
        |line: &Vec<String>| -> Vec<String> { picked.iter().filter_map(|column| line.get(*column)).cloned().collect() };
    let lines: Vec<Vec<String>> = lines.iter().map(pick).collect();
    let width = |column| lines.iter().filter_map(|line| line.get(column)).map(String::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..picked.len()).map(width).collect();
    let body = lines.iter().map(|line| text_line(line, &widths));
    std::iter::once(group_line(&picked, &widths)).chain(body).collect::<Vec<_>>().join("\n")
}

/// Between columns.
const GAP: usize = 2;

/// Each group's name in the middle of a line over those of its columns that were picked.
fn group_line(picked: &[usize], widths: &[usize]) -> String {
    let mut line = String::new();
    let mut first = 0;
    for (name, columns) in GROUPS {
        let group = first..first + columns.len();
        first = group.end;
        let members = picked.iter().zip(widths).filter(|(column, _)| group.contains(column));
        let widths: Vec<usize> = members.map(|(_, width)| *width).collect();
        let Some(gaps) = widths.len().checked_sub(1) else { continue };
        let width: usize = widths.iter().sum::<usize>() + GAP * gaps;
        let gap = if line.is_empty() { 0 } else { GAP };
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
pub(crate) fn milliseconds(delay: Option<Duration>) -> String {
    let delay_ms = delay.map(|delay| delay.as_secs_f64() * 1000.0);
    delay_ms.map_or(NOTHING.to_owned(), |delay_ms| {
        let decimals = usize::from(delay_ms < 99.95);
        format!("{delay_ms:.decimals$}")
    })
}

/// The main result, in one sentence.
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

/// What the simulator says to it, in a few sentences; nothing if it was not asked.
pub(crate) fn simulation_note(outcomes: &[Outcome]) -> Option<String> {
    let simulated: Vec<_> =
        outcomes.iter().filter_map(|outcome| Some((outcome, outcome.simulated.as_ref()?))).collect();
    let runs = simulated.first()?.1.runs;
    let mut outside = Vec::new();
    for (outcome, simulated) in &simulated {
        for (name, share, range) in [("p99", 0.99, simulated.p99), ("p99.9", 0.999, simulated.p999)] {
            let (Some(measured), Some((low, high))) = (outcome.delays.quantile(share), range) else { continue };
            if measured + slack(low) < low || measured > high + slack(high) {
                let [measured, low, high] = [measured, low, high].map(|delay| milliseconds(Some(delay)));
                outside.push(format!("{name} of {} ({measured} ms, simulated {low} to {high} ms)", outcome.profile));
            }
        }
    }
    let lead = format!("Simulated: the same core in virtual time, the mean of {runs} runs with other losses.");
    Some(match outside.split_last() {
        None => format!("{lead} Every measured p99 and p99.9 is within the range of these runs."),
        Some((only, [])) => format!("{lead} Not within the range of these runs: the measured {only}."),
        Some((last, others)) => {
            format!("{lead} Not within the range of these runs: the measured {} and {last}.", others.join(", "))
        }
    })
}

/// How much sockets, threads and timers may add to a delay without a remark: measured delays are hardly ever
/// equal to the simulated ones, and many simulated ones are equal to each other.
fn slack(delay: Duration) -> Duration {
    Duration::from_millis(1) + delay / 50
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
    use festina_sctp::Profile;

    use super::*;
    use crate::compare::outcome::example;
    use crate::compare::simulated::tests::simulated_example;

    #[test]
    fn every_row_has_a_cell_for_every_column_and_all_lines_are_equally_long() {
        let nothing = Outcome {
            messages_sent: 0,
            delays: DelayStatistics::new(),
            sent: SentTotals::default(),
            ..example(Profile::Rfc9260)
        };
        let outcomes = [example(Profile::Festina), nothing];
        let outcomes = outcomes.map(|outcome| Outcome { simulated: simulated_example(&[1, 3]), ..outcome });
        let columns: usize = GROUPS.iter().map(|(_, columns)| columns.len()).sum();
        assert!(rows(&outcomes).iter().all(|row| row.cells.len() == columns));
        let tables = tables(&outcomes);
        let tables: Vec<&str> = tables.split("\n\n").collect();
        assert_eq!(tables.len(), 2);
        for table in tables {
            let lengths: Vec<usize> = table.lines().map(str::len).collect();
            assert_eq!(lengths.len(), 6);
            assert!(lengths.iter().all(|length| *length == lengths[0]), "{table}");
        }
    }

    #[test]
    fn the_tables_fit_on_a_terminal_and_have_every_column() {
        let widest = |profile: &Profile| {
            let mut delays = example(*profile).delays;
            delays.record(Duration::from_secs(43));
            let simulated = simulated_example(&[30, 3]);
            Outcome { messages_sent: 5_120, delays, simulated, ..example(*profile) }
        };
        let outcomes: Vec<Outcome> = Profile::all().iter().map(widest).collect();
        let tables = tables(&outcomes);
        for line in tables.lines() {
            assert!(line.len() <= 80, "{} columns: {line}", line.len());
        }
        let words: Vec<&str> = tables.split_whitespace().collect();
        for column in GROUPS.iter().flat_map(|(_, columns)| columns.iter()) {
            assert!(words.contains(column), "{column}");
        }
    }

    #[test]
    fn a_message_costs_what_both_ends_sent_over_the_messages() {
        let row = &rows(&[example(Profile::Festina)])[0];
        // 1,101 and 901 packets and 221,767 bytes for 1,001 messages.
        assert_eq!(row.cells[8..11], ["1.10", "0.90", "222"]);
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
    fn the_note_names_what_lies_outside_of_the_simulation() {
        let with = |runs_ms: &[u64]| Outcome { simulated: simulated_example(runs_ms), ..example(Profile::Festina) };
        assert_eq!(simulation_note(&[example(Profile::Festina)]), None);
        let note = simulation_note(&[with(&[900, 1_100])]).expect("there are simulations");
        assert!(note.ends_with("Every measured p99 and p99.9 is within the range of these runs."), "{note}");
        let note = simulation_note(&[with(&[1_015, 1_100])]).expect("there are simulations");
        assert!(
            note.ends_with("these runs: the measured p99 of festina (990 ms, simulated 1015 to 1100 ms)."),
            "{note}"
        );
    }

    #[test]
    fn the_spurious_share_is_of_all_retransmissions() {
        assert_eq!(share(5, 100), "5.0%");
        assert_eq!(share(1, 3), "33.3%");
        assert_eq!(share(0, 0), "-");
    }
}
