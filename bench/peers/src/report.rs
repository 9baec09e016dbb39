//! The table and the JSON document of the measurements.

use std::fmt::Write;

use serde::Serialize;

use crate::measure::{BulkSample, Path};

/// Median and extremes of repeated measurements of one quantity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Middle value; of an even number of values, the mean of the two in the middle.
    pub median: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

impl Summary {
    /// Sums `values` up; all zero if there are none.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) else {
            return Summary { median: 0.0, min: 0.0, max: 0.0 };
        };
        let (upper, lower) = (sorted.len() / 2, (sorted.len() - 1) / 2);
        Summary { median: f64::midpoint(sorted[lower], sorted[upper]), min, max }
    }

    /// Width of the range in percent of the median.
    #[must_use]
    pub fn spread_percent(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.max - self.min) / self.median * 100.0 }
    }
}

/// Bulk transfer of messages of one size by one stack over one path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bulk {
    /// Name of the path.
    pub path: String,
    /// The effects of the path on packets, and the buffer limits of the endpoints.
    pub description: String,
    /// Size of each message in bytes.
    pub message_bytes: usize,
    /// CPU seconds for 10^9 bytes of user data, both endpoints together.
    pub cpu_seconds_per_gigabyte: Summary,
    /// Messages for each second of CPU time, both endpoints together.
    pub messages_per_cpu_second: Summary,
    /// Heap allocations for each message, both endpoints together, if they could be counted.
    pub allocations_per_message: Option<f64>,
    /// User data delivered in virtual time, in 10^6 bytes for each second; `None` where no time passes.
    pub goodput_megabytes_per_second: Option<Summary>,
    /// Packets from the sender for each message, and back to it; `None` where they are not counted.
    pub packets_per_message: Option<[Summary; 2]>,
    /// Number of complete repetitions. The figures come from these alone.
    pub completed: usize,
    /// What stopped the others, each different reason once.
    pub failures: Vec<String>,
}

impl Bulk {
    /// Summarises the repetitions over `path`, each with its measurement or its error.
    #[must_use]
    pub fn of(
        path: &Path,
        message_bytes: usize,
        repetitions: &[Result<BulkSample, String>],
        allocations_per_message: Option<f64>,
    ) -> Self {
        let samples = || repetitions.iter().flatten();
        let mut failures: Vec<String> =
            repetitions.iter().filter_map(|repetition| repetition.as_ref().err().cloned()).collect();
        failures.sort_unstable();
        failures.dedup();
        let goodput: Vec<f64> = samples().filter_map(BulkSample::goodput_megabytes_per_second).collect();
        let packets: Vec<[f64; 2]> = samples().filter_map(BulkSample::packets_per_message).collect();
        let one_way = |way: usize| Summary::of(packets.iter().map(|both| both[way]));
        Bulk {
            path: path.name.into(),
            description: format!(
                "{}; receiver window {} KiB, send buffer {} KiB",
                path.description,
                path.settings.receive_window_bytes >> 10,
                path.settings.send_buffer_bytes >> 10
            ),
            message_bytes,
            cpu_seconds_per_gigabyte: Summary::of(samples().map(BulkSample::cpu_seconds_per_gigabyte)),
            messages_per_cpu_second: Summary::of(samples().map(BulkSample::messages_per_cpu_second)),
            allocations_per_message,
            goodput_megabytes_per_second: (!goodput.is_empty()).then(|| Summary::of(goodput)),
            packets_per_message: (!packets.is_empty()).then(|| [one_way(0), one_way(1)]),
            completed: samples().count(),
            failures,
        }
    }

    /// The cells of the table behind the name; words if no repetition went well.
    fn cells(&self, best: f64) -> String {
        if self.completed == 0 {
            return format!("  nothing to compare: {}", self.failures.join("; "));
        }
        let rate = self.messages_per_cpu_second;
        let optional = |value: Option<f64>, decimals| value.map_or("-".into(), |value| format!("{value:.decimals$}"));
        let packets = |way: usize| optional(self.packets_per_message.map(|both| both[way].median), 3);
        format!(
            "{:>12.3}{:>16.0}{:>9}{:>13}{:>14}{:>15}{:>10}{:>10}",
            self.cpu_seconds_per_gigabyte.median,
            rate.median,
            format!("{:.1}%", rate.spread_percent()),
            optional(self.allocations_per_message, 2),
            format!("{:.2}", ratio(rate.median, best)),
            optional(self.goodput_megabytes_per_second.map(|goodput| goodput.median), 2),
            packets(0),
            packets(1)
        )
    }

    /// The heads of [`Bulk::cells`].
    fn heads() -> String {
        format!(
            "{:>12}{:>16}{:>9}{:>13}{:>14}{:>15}{:>10}{:>10}",
            "CPU-s/GB", "msg/s per core", "spread", "allocs/msg", "x best peer", "goodput MB/s", "pkts/msg", "back/msg"
        )
    }
}

/// All that was measured of one stack.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Name and version.
    pub stack: String,
    /// It is Festina, which the others are compared with.
    pub subject: bool,
    /// One entry per path and message size.
    pub bulk: Vec<Bulk>,
    /// Live heap bytes of one endpoint of an association that has carried nothing and is at rest.
    pub fresh_bytes_per_endpoint: f64,
    /// The same after a few small messages in both directions, when it is idle again.
    pub idle_bytes_per_endpoint: f64,
    /// Facts needed to interpret the numbers.
    pub remark: String,
}

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Repetitions of each bulk measurement.
    pub repetitions: usize,
    /// Established associations in the memory measurement.
    pub idle_associations: usize,
    /// One row per stack.
    pub rows: Vec<Row>,
}

impl Report {
    /// The report as text: one table per figure, best stack first, then the remarks.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = format!(
            "Both endpoints in one thread, {} repetitions: median (range).\n\
             \"best peer\" is the best stack other than Festina; above 1.00 is better than it.\n\
             Goodput is in virtual time: a stack that is cheap because it stands still has little of it.\n",
            self.repetitions
        );
        for index in 0..self.rows.first().map_or(0, |row| row.bulk.len()) {
            self.bulk_table(&mut text, index);
        }
        self.idle_table(&mut text);
        text.push('\n');
        for row in self.rows.iter().filter(|row| !row.remark.is_empty()) {
            line(&mut text, format_args!("{}: {}", row.stack, row.remark));
        }
        text
    }

    fn bulk_table(&self, text: &mut String, index: usize) {
        let mut rows: Vec<(&Row, &Bulk)> =
            self.rows.iter().filter_map(|row| Some((row, row.bulk.get(index)?))).collect();
        let Some((_, first)) = rows.first() else { return };
        line(text, format_args!("\nbulk, ordered, reliable, {}-byte messages", first.message_bytes));
        line(text, format_args!("path {}: {}", first.path, first.description));
        rows.sort_by(|(_, a), (_, b)| b.messages_per_cpu_second.median.total_cmp(&a.messages_per_cpu_second.median));
        let best =
            rows.iter().find(|(row, _)| !row.subject).map_or(0.0, |(_, bulk)| bulk.messages_per_cpu_second.median);
        line(text, format_args!("{:<18}{}", "stack", Bulk::heads()));
        for (row, bulk) in rows {
            line(text, format_args!("{:<18}{}", row.stack, bulk.cells(best)));
            if bulk.completed > 0 && !bulk.failures.is_empty() {
                let (completed, of) = (bulk.completed, self.repetitions);
                line(text, format_args!("  only {completed} of {of} repetitions: {}", bulk.failures.join("; ")));
            }
        }
    }

    fn idle_table(&self, text: &mut String) {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by(|a, b| a.idle_bytes_per_endpoint.total_cmp(&b.idle_bytes_per_endpoint));
        let best = |bytes: fn(&Row) -> f64| {
            self.rows.iter().filter(|row| !row.subject).map(bytes).min_by(f64::total_cmp).unwrap_or(0.0)
        };
        let best_fresh = best(|row| row.fresh_bytes_per_endpoint);
        let best_idle = best(|row| row.idle_bytes_per_endpoint);
        line(
            text,
            format_args!(
                "\nidle associations: live heap bytes per endpoint ({} associations; without messages, and after some)",
                self.idle_associations
            ),
        );
        line(
            text,
            format_args!(
                "{:<20}{:>12}{:>14}{:>16}{:>14}",
                "stack", "no messages", "x best peer", "after messages", "x best peer"
            ),
        );
        for row in rows {
            line(
                text,
                format_args!(
                    "{:<20}{:>12.0}{:>14.2}{:>16.0}{:>14.2}",
                    row.stack,
                    row.fresh_bytes_per_endpoint,
                    ratio(best_fresh, row.fresh_bytes_per_endpoint),
                    row.idle_bytes_per_endpoint,
                    ratio(best_idle, row.idle_bytes_per_endpoint)
                ),
            );
        }
    }
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    writeln!(text, "{content}").expect("writing to a String cannot fail");
}

fn ratio(value: f64, reference: f64) -> f64 {
    if reference == 0.0 { 0.0 } else { value / reference }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn sample(messages: u64) -> BulkSample {
        let (cpu, time, packets) = (Duration::from_secs(1), Duration::from_secs(2), [messages, messages / 2]);
        BulkSample { messages, payload_bytes: messages * 1_000, cpu, time, packets }
    }

    fn row(stack: &str, subject: bool, messages: u64, idle: f64) -> Row {
        let sample = sample(messages);
        Row {
            stack: stack.into(),
            subject,
            bulk: vec![Bulk::of(&Path::direct(), 1_000, &[Ok(sample)], Some(1.0))],
            fresh_bytes_per_endpoint: idle / 2.0,
            idle_bytes_per_endpoint: idle,
            remark: String::new(),
        }
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        let summary = Summary::of([4.0, 1.0, 3.0, 2.0]);
        assert_eq!(summary, Summary { median: 2.5, min: 1.0, max: 4.0 });
        assert!((summary.spread_percent() - 120.0).abs() < 1e-9);
        assert_eq!(Summary::of([]), Summary { median: 0.0, min: 0.0, max: 0.0 });
    }

    #[test]
    fn cost_and_rate_are_derived_from_the_same_sample() {
        let bulk = &row("a", false, 2_000_000, 1.0).bulk[0];
        assert!((bulk.cpu_seconds_per_gigabyte.median - 0.5).abs() < 1e-9);
        assert!((bulk.messages_per_cpu_second.median - 2e6).abs() < 1e-6);
        assert_eq!(bulk.goodput_megabytes_per_second.map(|goodput| goodput.median), Some(1_000.0));
        assert_eq!(bulk.packets_per_message.map(|both| both.map(|way| way.median)), Some([1.0, 0.5]));
    }

    #[test]
    fn a_stack_that_stands_still_has_a_row_that_says_so() {
        let with = |repetitions: &[Result<BulkSample, String>]| {
            let bulk = vec![Bulk::of(&Path::direct(), 1_000, repetitions, None)];
            let rows = vec![row("ours", true, 300, 1.0), Row { bulk, ..row("other", false, 1, 1.0) }];
            Report { repetitions: repetitions.len(), idle_associations: 1, rows }.table()
        };
        let stalled = || Err("stalled".to_owned());
        let never = with(&[stalled(), stalled()]);
        assert!(never.contains("other               nothing to compare: stalled\n"), "{never}");
        let once = with(&[stalled(), Ok(sample(100))]);
        assert!(once.contains("  only 1 of 2 repetitions: stalled\n"), "{once}");
        assert!(once.lines().any(|line| line.starts_with("other") && line.contains(" 10000.000 ")), "{once}");
    }

    #[test]
    fn ratios_compare_with_the_best_stack_that_is_not_the_subject() {
        let rows =
            vec![row("slow", false, 100, 4_000.0), row("ours", true, 300, 1_000.0), row("quick", false, 200, 2_000.0)];
        let table = Report { repetitions: 1, idle_associations: 1, rows }.table();
        let ratios: Vec<Vec<&str>> = table
            .lines()
            .filter(|line| ["slow", "ours", "quick"].iter().any(|name| line.starts_with(name)))
            .map(|line| {
                let cells: Vec<&str> = line.split_whitespace().collect();
                // Behind the name, and from the right where no packets are counted.
                vec![cells[0], if cells.len() > 5 { cells[5] } else { cells[cells.len() - 1] }]
            })
            .collect();
        let (ours, quick, slow) = (["ours", "1.50"], ["quick", "1.00"], ["slow", "0.50"]);
        assert_eq!(ratios, [ours, quick, slow, ["ours", "2.00"], quick, slow]);
    }
}
