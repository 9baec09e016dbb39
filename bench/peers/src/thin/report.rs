//! The document: a short comparison of the stacks. The CSV files have all figures.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use super::contender::{Contender, Role};
use super::record::Record;
use super::task::Task;
use super::verdict::{self, BYTES_RATIO_MAX, FIRST_RATIO_MAX, Relation, Verdict};
use super::weather;

/// Name of the document.
pub const DOCUMENT: &str = "thin-peers.md";
/// Streams that the document shows: the time between two writes and the loss in percent.
const SHOWN: [(Duration, u32); 2] = [(Duration::from_millis(20), 5), (Duration::from_millis(250), 5)];
/// The same over the path that changes.
const SHOWN_CHANGING: [(Duration, u32); 3] =
    [(Duration::from_millis(33), 5), (Duration::from_millis(250), 0), (Duration::from_millis(250), 5)];
/// Contenders that the document shows, by default and tuned.
const SHOWN_CONTENDERS: [&str; 19] = [
    "festina",
    "festina-secure",
    "quinn",
    "quinn-tuned",
    "noq",
    "noq-tuned",
    "kcp-normal",
    "kcp-best",
    "enet",
    "enet-tuned",
    "dcsctp",
    "dcsctp-tuned",
    "rtc-sctp",
    "sctp-proto",
    "sctp-proto-tuned",
    "sctp-proto-hasty",
    "pion",
    "pion-tuned",
    "pion-hasty",
];

/// Returns the name of the files with the figures of a round-trip time, without their ending.
#[must_use]
pub fn stem(rtt_ms: u128) -> String {
    format!("thin-peers-{rtt_ms}ms")
}

/// Returns the heading of the figure of a round-trip time.
#[must_use]
pub fn heading(rtt_ms: u128) -> String {
    format!("round trip {rtt_ms} ms")
}

/// The heading of the figure of the path that changes.
pub const CHANGING_HEADING: &str = "round trip 40 to 200 ms, a queue, jitter and reordering";

/// Returns the document in Markdown, from the [`Record`]s of one or more round-trip times and those over the path that changes.
#[must_use]
pub fn markdown(contenders: &[Contender], records: &[Record], changing: &[Record]) -> String {
    Report { contenders, records, changing, text: String::new() }.write()
}

struct Report<'a> {
    contenders: &'a [Contender],
    records: &'a [Record],
    changing: &'a [Record],
    text: String,
}

/// Streams that meet the goal, are undecided, miss it only by their bytes, and miss it by a delay.
#[derive(Default)]
struct Tally([usize; 4]);

impl Tally {
    fn add(&mut self, own: &Record, peer: &Record) {
        let is_later = [(own.delay.p99, peer.delay.p99), (own.delay.p999, peer.delay.p999)]
            .map(|(own, peer)| matches!(verdict::relation(own, peer), Relation::Higher | Relation::Unclear))
            .contains(&true);
        let place = match verdict::of(own, peer) {
            Verdict::Holds => 0,
            Verdict::Undecided => 1,
            Verdict::Broken if !is_later => 2,
            Verdict::Broken => 3,
        };
        self.0[place] += 1;
    }

    fn cells(&self) -> String {
        self.0.map(|count| format!(" {count} |")).concat()
    }
}

impl<'a> Report<'a> {
    fn write(mut self) -> String {
        self.introduction();
        self.streams();
        self.over_changes();
        self.goal();
        self.first_message();
        self.settings();
        self.failures();
        self.text
    }

    fn line(&mut self, content: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{content}").expect("writing to a String cannot fail");
    }

    fn tasks(&self) -> BTreeSet<Task> {
        self.records.iter().map(|record| record.task).collect()
    }

    /// The longest first.
    fn round_trips(&self) -> Vec<Duration> {
        let all: BTreeSet<Duration> = self.records.iter().map(|record| record.task.round_trip).collect();
        all.into_iter().rev().collect()
    }

    fn find(&self, name: &str, task: Task) -> Option<&'a Record> {
        self.records.iter().find(|record| record.task == task && record.contender == name)
    }

    fn subject(&self, task: Task) -> Option<&'a Record> {
        let subject = self.contenders.iter().find(|contender| contender.role == Role::Subject)?;
        self.find(subject.name, task)
    }

    fn peers(&self) -> impl Iterator<Item = &'a Contender> + use<'a> {
        self.contenders.iter().filter(|contender| contender.role == Role::Peer)
    }

    /// The contenders that the document shows and that were measured.
    fn shown(&self) -> Vec<&'a Contender> {
        let is_measured = |contender: &&Contender| self.records.iter().any(|it| it.contender == contender.name);
        let shown = self.contenders.iter().filter(|contender| SHOWN_CONTENDERS.contains(&contender.name));
        shown.filter(is_measured).collect()
    }

    fn introduction(&mut self) {
        let most =
            |records: &mut dyn Iterator<Item = &Record>| records.map(|record| record.messages).max().unwrap_or(0);
        let messages = most(&mut self.records.iter().filter(|record| record.task.interval.is_some()));
        let first = most(&mut self.records.iter().filter(|record| record.task.interval.is_none()));
        let round_trips = self.round_trips();
        let files: Vec<String> = round_trips
            .iter()
            .map(|it| {
                let (ms, name) = (it.as_millis(), stem(it.as_millis()));
                format!("{ms} ms ([figures]({name}.csv))")
            })
            .collect();
        self.line(format_args!(
            "# Thin streams: Festina and other stacks\n\n\
             This page compares the delay and the bytes of small messages over a path that loses packets. \
             `cargo run --release -p festina-bench-peers -- thin --rtt RTT --out docs` writes the files of a round-trip time, and this page about all. \
             Do not edit it: a test compares it with the files.\n\n\
            - **Path.** Round trips of {}. Each packet is lost with the same probability in either direction, independently. All stacks meet \
             the same losses, and the clock is virtual.\n\
             - **Messages.** 100 bytes in one direction, one each interval; {messages} for each figure, and {first} connections for the first message.\n\
             - **Delay.** From the write to the delivery in order, in ms.\n\
             - **Bytes.** Of both ends for each message, with the headers of IPv4 and UDP. QUIC and `festina-secure` are encrypted; \
             SCTP and `festina` are not.\n",
            files.join(" and "),
        ));
    }

    /// A table with all shown contenders.
    fn streams(&mut self) {
        let columns: Vec<Task> = self
            .round_trips()
            .into_iter()
            .flat_map(|round_trip| {
                SHOWN.map(|(interval, loss_percent)| Task { round_trip, interval: Some(interval), loss_percent })
            })
            .filter(|task| self.subject(*task).is_some())
            .collect();
        let heads: String = columns
            .iter()
            .map(|task| {
                let interval_ms = task.interval.unwrap_or_default().as_millis();
                format!(" RTT {} ms, interval {interval_ms} ms |", task.round_trip.as_millis())
            })
            .collect();
        self.line(format_args!(
            "## Delays and bytes at {} % loss\n\np99 / p99.9, bytes. Each stack by default and tuned for low delay:\n\n| stack |{heads}\n|---|{}",
            SHOWN[0].1,
            "---|".repeat(columns.len())
        ));
        for contender in self.shown() {
            let cell = |task: &Task| match self.find(contender.name, *task) {
                None => " |".to_owned(),
                Some(Record { delay, cost, .. }) => {
                    format!(" {} / {}, {:.0} |", ms(delay.p99.ms), ms(delay.p999.ms), cost.bytes_of_both())
                }
            };
            let cells: String = columns.iter().map(cell).collect();
            self.line(format_args!("| `{}` |{cells}", contender.name));
        }
        for rtt_ms in self.round_trips().iter().map(Duration::as_millis) {
            self.line(format_args!("\n![Delays and bytes by loss, round trip {rtt_ms} ms]({}.svg)", stem(rtt_ms)));
        }
    }

    /// The same contenders over the path that changes.
    fn over_changes(&mut self) {
        if self.changing.is_empty() {
            return;
        }
        self.line(format_args!(
            "\n## A path that changes\n\n\
             `cargo run --release -p festina-bench-peers -- changing --out docs` measures a path like that of a phone or behind a busy router \
             ([figures](thin-peers-changing.csv)): every 2 to 8 s another route with a round trip of 40 to 200 ms, \
             a queue of up to 80 ms on the way there in one second of ten, 0 to 10 ms of jitter, and 1 % of the packets 15 ms late. Tuned stacks are set for \
             the mean round trip, {} ms. A delay counts from the time that the route itself takes at the write. p99 / p99.9, bytes:\n",
            weather::MEAN_ROUND_TRIP.as_millis()
        ));
        let heads = SHOWN_CHANGING.map(|(interval, loss)| format!(" interval {} ms, {loss} % |", interval.as_millis()));
        self.line(format_args!("| stack |{}\n|---|---|---|---|", heads.concat()));
        for contender in self.shown() {
            let cells: Vec<String> = SHOWN_CHANGING
                .into_iter()
                .filter_map(|(interval, loss)| {
                    let is_it = |record: &&Record| {
                        let task = record.task;
                        record.contender == contender.name
                            && (task.interval, task.loss_percent) == (Some(interval), loss)
                    };
                    let Record { delay, cost, .. } = self.changing.iter().find(is_it)?;
                    Some(format!(" {} / {}, {:.0} |", ms(delay.p99.ms), ms(delay.p999.ms), cost.bytes_of_both()))
                })
                .collect();
            if !cells.is_empty() {
                self.line(format_args!("| `{}` |{}", contender.name, cells.concat()));
            }
        }
        self.line(format_args!("\n![Delays and bytes by loss](thin-peers-changing.svg)"));
    }

    /// How often the goal is met, by interval.
    fn goal(&mut self) {
        self.line(format_args!(
            "\n## The goal\n\n\
             At each interval and loss, p99 and p99.9 of `festina` are below those of each setting of each peer for at most {BYTES_RATIO_MAX} times \
             its bytes, or the same (within 1 ms) for fewer bytes. It is undecided if the bounds of 95 % confidence overlap. The table counts pairs of a \
             loss and a peer's setting. With `only more bytes` both delays are lower or the same:\n\n\
             | RTT, interval | met | undecided | missed: only more bytes | missed: a delay is not lower |\n|---|---|---|---|---|"
        ));
        let mut by_interval: Vec<((Duration, Duration), Tally)> = Vec::new();
        let mut all = Tally::default();
        for round_trip in self.round_trips() {
            for task in self.tasks().into_iter().filter(|task| task.round_trip == round_trip) {
                let (Some(interval), Some(own)) = (task.interval, self.subject(task)) else { continue };
                if by_interval.last().is_none_or(|(key, _)| *key != (round_trip, interval)) {
                    by_interval.push(((round_trip, interval), Tally::default()));
                }
                let Some((_, tally)) = by_interval.last_mut() else { continue };
                for peer in self.peers().filter_map(|peer| self.find(peer.name, task)) {
                    tally.add(own, peer);
                    all.add(own, peer);
                }
            }
        }
        for ((round_trip, interval), tally) in by_interval {
            let (rtt_ms, interval_ms) = (round_trip.as_millis(), interval.as_millis());
            self.line(format_args!("| {rtt_ms} ms, {interval_ms} ms |{}", tally.cells()));
        }
        self.line(format_args!("| all |{}", all.cells()));
        let verdict = match all.0 {
            [_, 0, 0, 0] => "Festina meets its goal.",
            [_, _, 0, 0] => "The goal is undecided.",
            _ => "Festina misses its goal.",
        };
        self.line(format_args!(
            "\n**{verdict}** At 1 % loss the 99th percentile lies between lost and other messages, so more messages would not decide it. \
             Without loss, a few bytes more than a peer count as missed.\n"
        ));
    }

    /// The first message, against QUIC.
    fn first_message(&mut self) {
        let is_shown = |contender: &&&Contender| contender.is_quic() || contender.role == Role::Subject;
        let shown = self.shown();
        let columns: Vec<&Contender> = shown.iter().filter(is_shown).copied().collect();
        let heads: String = columns.iter().map(|contender| format!(" `{}` |", contender.name)).collect();
        self.line(format_args!(
            "## The first message\n\n\
             p99 from `connect` to the delivery of the first message. The goal is at most {FIRST_RATIO_MAX} of QUIC's; the word says whether it is met:\n\n\
             | RTT, loss |{heads}\n|---|{}",
            "---|".repeat(columns.len())
        ));
        let mut worst = Verdict::Holds;
        for round_trip in self.round_trips() {
            let is_row =
                |task: &Task| task.round_trip == round_trip && task.interval.is_none() && task.loss_percent > 0;
            for task in self.tasks().into_iter().filter(is_row) {
                let Some(own) = self.subject(task) else { continue };
                let mut cells = String::new();
                for contender in &columns {
                    let Some(other) = self.find(contender.name, task) else {
                        cells += " |";
                        continue;
                    };
                    let p99_ms = ms(other.delay.p99.ms);
                    if contender.role == Role::Subject {
                        cells += &format!(" {p99_ms} |");
                    } else {
                        let verdict = verdict::of_first(own.delay.p99, other.delay.p99);
                        worst = worst.max(verdict);
                        cells += &format!(" {p99_ms}, {} |", word(verdict));
                    }
                }
                self.line(format_args!("| {} ms, {} % |{cells}", round_trip.as_millis(), task.loss_percent));
            }
        }
        self.line(format_args!("\n**The goal for the first message is {}.**\n", word(worst)));
    }

    /// Contenders with the same settings share a row.
    fn settings(&mut self) {
        let mut stacks: Vec<&str> = Vec::new();
        let mut rows: Vec<(&str, Vec<String>)> = Vec::new();
        for contender in self.shown() {
            if contender.role == Role::Peer && !stacks.contains(&contender.stack) {
                stacks.push(contender.stack);
            }
            let name = format!("`{}`", contender.name);
            match rows.iter_mut().find(|(settings, _)| *settings == contender.settings) {
                Some((_, names)) => names.push(name),
                None => rows.push((contender.settings, vec![name])),
            }
        }
        self.line(format_args!(
            "## Settings\n\nMeasured with {}. The files have more settings of some stacks, such as a stream for each message with QUIC; \
             [`contender.rs`](../bench/peers/src/thin/contender.rs) describes all.\n\n| name | settings |\n|---|---|",
            stacks.join(", ")
        ));
        for (settings, names) in rows {
            self.line(format_args!("| {} | {settings} |", names.join(", ")));
        }
    }

    fn failures(&mut self) {
        let failed: Vec<&Record> = self.records.iter().filter(|record| !record.failures.is_empty()).collect();
        if failed.is_empty() {
            return;
        }
        self.line(format_args!("\nFailed connections, whose missing messages count as infinitely late:\n"));
        for record in failed {
            let at = match record.task.interval {
                Some(interval) => format!("interval {} ms", interval.as_millis()),
                None => "first message".to_owned(),
            };
            let (rtt_ms, loss) = (record.task.round_trip.as_millis(), record.task.loss_percent);
            self.line(format_args!("- `{}`, RTT {rtt_ms} ms, {at}, {loss} %: {}", record.contender, record.failures));
        }
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "met",
        Verdict::Undecided => "undecided",
        Verdict::Broken => "missed",
    }
}

/// Milliseconds as they are written.
fn ms(value: f64) -> String {
    if value.is_infinite() { "never".to_owned() } else { format!("{value:.0}") }
}

#[cfg(test)]
mod tests {
    use super::super::task::Scale;
    use super::super::{contender, measure, plot, record};
    use super::*;

    #[test]
    fn every_contender_has_its_marks_and_every_shown_one_its_rows() {
        let task = |interval_ms: Option<u64>| Task {
            round_trip: Duration::from_millis(100),
            interval: interval_ms.map(Duration::from_millis),
            loss_percent: 5,
        };
        let scale = Scale { connections: 1, messages: 20, first_messages: 5 };
        let contenders = contender::all();
        let records = measure(&contenders, &[task(Some(20)), task(None)], scale, 2);
        let read = record::from_csv(&record::to_csv(&records)).expect("the records are sound");
        assert_eq!(read.len(), records.len());
        let (document, figure) = (markdown(&contenders, &read, &read), plot::svg("", &read));
        for contender in &contenders {
            let is_shown = SHOWN_CONTENDERS.contains(&contender.name);
            let is_measured = read.iter().any(|record| record.contender == contender.name);
            let rows = document
                .lines()
                .filter(|line| line.starts_with(&format!("| `{}` | ", contender.name)) && line.contains(" / "));
            assert_eq!(rows.count() == 1, is_shown && is_measured, "{}", contender.name);
            let (_, settings) = document.split_once("\n## Settings\n").expect("the heading is there");
            assert_eq!(
                settings.contains(&format!("`{}`", contender.name)),
                is_shown && is_measured,
                "{}",
                contender.name
            );
            // A name for each of p99, p99.9 and bytes.
            let is_wanted = plot::DRAWN.iter().any(|(name, ..)| *name == contender.name);
            let names = figure.matches(&format!(">{}<", contender.name)).count();
            assert_eq!(names, if is_wanted { 3 } else { 0 }, "{}", contender.name);
        }
        let names: Vec<&str> = contenders.iter().map(|contender| contender.name).collect();
        let drawn = plot::DRAWN.map(|(name, ..)| name);
        assert!(SHOWN_CONTENDERS.iter().chain(&drawn).all(|name| names.contains(name)), "{names:?}");
        assert!(document.contains(" its goal.**") && document.contains("**The goal for the first message is "));
    }

    #[test]
    fn a_missed_goal_counts_by_its_reason() {
        let record = |p99_ms: f64, bytes: f64| {
            let percentile = super::super::delays::Percentile { ms: p99_ms, low_ms: p99_ms, high_ms: p99_ms };
            Record {
                contender: String::new(),
                task: Task { round_trip: Duration::ZERO, interval: None, loss_percent: 1 },
                messages: 1,
                delivered: 1,
                delay: record::Delay { p99: percentile, p999: percentile, ..record::Delay::default() },
                cost: record::Cost { bytes: [bytes, 0.0], ..record::Cost::default() },
                failures: String::new(),
            }
        };
        let mut tally = Tally::default();
        for peer in [record(200.0, 100.0), record(200.0, 50.0), record(50.0, 100.0), record(100.0, 100.0)] {
            tally.add(&record(100.0, 100.0), &peer);
        }
        assert_eq!(tally.0, [1, 0, 2, 1]);
    }
}
