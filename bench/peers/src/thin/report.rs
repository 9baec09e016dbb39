//! The document.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use super::contender::{Contender, Promise, Role};
use super::record::Record;
use super::run::Task;
use super::verdict::{self, FIRST_RATIO_MAX, Relation, Verdict};

/// The name of the files about a round-trip time, without their ending.
#[must_use]
pub fn stem(rtt_ms: u64) -> String {
    format!("thin-peers-{rtt_ms}ms")
}

/// The document in Markdown: what [`Record`]s of one round-trip time say.
#[must_use]
pub fn markdown(contenders: &[Contender], records: &[Record]) -> String {
    Report { contenders, records, text: String::new() }.write()
}

struct Report<'a> {
    contenders: &'a [Contender],
    records: &'a [Record],
    text: String,
}

impl<'a> Report<'a> {
    fn write(mut self) -> String {
        self.introduction();
        self.verdict();
        self.not_dominated();
        for interval in self.intervals() {
            self.stream_table(interval);
        }
        self.first_table();
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

    fn intervals(&self) -> BTreeSet<Duration> {
        self.tasks().iter().filter_map(|task| task.interval).collect()
    }

    fn losses(&self) -> BTreeSet<u32> {
        self.tasks().iter().map(|task| task.loss_percent).collect()
    }

    fn find(&self, name: &str, task: Task) -> Option<&'a Record> {
        self.records.iter().find(|record| record.task == task && record.contender == name)
    }

    fn subject(&self, task: Task) -> Option<&'a Record> {
        let subject = self.contenders.iter().find(|contender| contender.role == Role::Subject)?;
        self.find(subject.name, task)
    }

    /// Festina's record and a peer's, at each stream that both were measured at.
    fn pairs(&self, peer: &'a Contender) -> impl Iterator<Item = (&'a Record, &'a Record)> {
        let streams = self.tasks().into_iter().filter(|task| task.interval.is_some());
        streams.filter_map(|task| Some((self.subject(task)?, self.find(peer.name, task)?)))
    }

    fn peers(&self) -> impl Iterator<Item = &'a Contender> + use<'a> {
        self.contenders.iter().filter(|contender| contender.role == Role::Peer)
    }

    fn introduction(&mut self) {
        let Some(any) = self.records.first() else { return };
        let rtt_ms = any.task.round_trip.as_millis();
        let name = stem(u64::try_from(rtt_ms).unwrap_or(0));
        let most =
            |records: &mut dyn Iterator<Item = &Record>| records.map(|record| record.messages).max().unwrap_or(0);
        let messages = most(&mut self.records.iter().filter(|record| record.task.interval.is_some()));
        let first = most(&mut self.records.iter().filter(|record| record.task.interval.is_none()));
        self.line(format_args!(
            "# Thin streams beside other stacks, round trip {rtt_ms} ms\n\n\
             `cargo run --release -p festina-bench-peers -- thin --rtt {rtt_ms} --out docs` wrote this document, \
             [all figures]({name}.csv) and the picture. Do not edit it; a test holds it to the figures.\n\n\
             Messages of 100 bytes go one way, one each IAT. Packets take {} ms each way, and each is lost with the same \
             probability in either direction, independently; all stacks meet the same losses. A delay lasts from the application's \
             write to the delivery, in order where the stack promises that. Bytes are those of both ends for each message, with \
             the headers of IPv4 and UDP; SCTP is over UDP, without DTLS, as is Festina unless it is called secure; QUIC is encrypted. {messages} messages a \
             row; {first} connections for the first message. The clock is virtual. Delays in ms.\n\n\
             ![Bytes and percentiles of each stack, one panel for each IAT and loss]({name}.svg)\n",
            any.task.round_trip.as_millis() / 2
        ));
    }

    fn verdict(&mut self) {
        self.line(format_args!(
            "## Verdict\n\n\
             The goal: at each IAT and loss, `festina`'s p99 and p99.9 are below the peer's for at most {} times its bytes, or the same \
             (within 1 ms) for fewer bytes. Undecided: the bounds of 95 % confidence overlap.\n\n\
             | peer | holds | undecided | broken |\n|---|---|---|---|",
            verdict::BYTES_RATIO_MAX
        ));
        let mut all = [0; 3];
        for peer in self.peers() {
            let mut counts = [0; 3];
            for (own, other) in self.pairs(peer) {
                counts[verdict::of(own, other) as usize] += 1;
            }
            if counts == [0; 3] {
                continue;
            }
            self.line(format_args!("| `{}` | {} | {} | {} |", peer.name, counts[0], counts[1], counts[2]));
            (0..3).for_each(|index| all[index] += counts[index]);
        }
        self.line(format_args!("| all | {} | {} | {} |", all[0], all[1], all[2]));
        let overall = match all {
            [_, 0, 0] => Verdict::Holds,
            [_, _, 0] => Verdict::Undecided,
            _ => Verdict::Broken,
        };
        self.line(format_args!("\n**Streams: the goal {}.**\n", sentence(overall)));
        self.first_verdict();
    }

    /// The first message, against each setting of QUIC.
    fn first_verdict(&mut self) {
        let quic: Vec<&Contender> = self.contenders.iter().filter(|other| other.is_quic()).collect();
        let mut rows = Vec::new();
        let mut worst = Verdict::Holds;
        for task in self.tasks().into_iter().filter(|task| task.interval.is_none() && task.loss_percent > 0) {
            let Some(own) = self.subject(task) else { continue };
            for contender in &quic {
                let Some(other) = self.find(contender.name, task) else { continue };
                let verdict = verdict::of_first(own.delay.p99, other.delay.p99);
                if contender.role == Role::Peer {
                    worst = worst.max(verdict);
                }
                let ratio = own.delay.p99.ms / other.delay.p99.ms;
                let word = if contender.role == Role::Peer { verdict.word() } else { "reference" };
                rows.push(format!("| {} % | `{}` | {ratio:.2} | {word} |", task.loss_percent, contender.name));
            }
        }
        self.line(format_args!(
            "The goal for the first message, from `connect` to delivery: p99 at most {FIRST_RATIO_MAX} of QUIC's.\n\n\
             | loss | QUIC | `festina`'s p99 as a share of its | verdict |\n|---|---|---|---|\n{}\n\n\
             **First message: the goal {}.**\n",
            rows.join("\n"),
            sentence(worst)
        ));
    }

    fn not_dominated(&mut self) {
        self.line(format_args!(
            "## Peers that are not dominated\n\n\
             The brackets list each delay that is not clearly lower (`festina`'s, the peer's), and the bytes as a multiple of the peer's if they \
             exceed the limit. At 1 % loss the 99th percentile lies on the edge between lost and unharmed messages, so no number of \
             messages decides it.\n\n\
             | IAT, loss | broken | undecided |\n|---|---|---|"
        ));
        for task in self.tasks() {
            let (Some(interval), Some(own)) = (task.interval, self.subject(task)) else { continue };
            let listed = |wanted: Verdict| {
                let rivals = self.peers().filter_map(|peer| self.find(peer.name, task));
                let rivals = rivals.filter(|rival| verdict::of(own, rival) == wanted);
                rivals
                    .map(|rival| format!("`{}` ({})", rival.contender, reason(own, rival)))
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            let (broken, undecided) = (listed(Verdict::Broken), listed(Verdict::Undecided));
            self.line(format_args!(
                "| {} ms, {} % | {broken} | {undecided} |",
                interval.as_millis(),
                task.loss_percent
            ));
        }
        self.line(format_args!(""));
    }

    fn stream_table(&mut self, interval: Duration) {
        self.line(format_args!("## IAT {} ms\n\np99 / p99.9, bytes of both ends\n", interval.as_millis()));
        self.table(Some(interval), |record| {
            format!("{} / {}, {:.0}", ms(record.delay.p99.ms), ms(record.delay.p999.ms), record.cost.bytes_of_both())
        });
    }

    fn first_table(&mut self) {
        self.line(format_args!("## First message\n\nFrom `connect` to delivery: median / mean / p99 / p99.9\n"));
        self.table(None, |record| {
            let delay = &record.delay;
            [delay.p50_ms, delay.mean_ms, delay.p99.ms, delay.p999.ms].map(ms).join(" / ")
        });
    }

    fn table(&mut self, interval: Option<Duration>, cell: fn(&Record) -> String) {
        let losses = self.losses();
        let heads: String = losses.iter().map(|loss| format!(" {loss} % |")).collect();
        self.line(format_args!("| stack |{heads}\n|---|{}", "---|".repeat(losses.len())));
        for contender in self.contenders {
            let with = |loss_percent: &u32| {
                let same = |task: &Task| task.interval == interval && task.loss_percent == *loss_percent;
                self.records.iter().find(|record| same(&record.task) && record.contender == contender.name)
            };
            let records: Vec<Option<&Record>> = losses.iter().map(with).collect();
            if records.iter().any(Option::is_some) {
                let cells: String =
                    records.iter().map(|record| format!(" {} |", record.map_or(String::new(), cell))).collect();
                self.line(format_args!("| `{}` |{cells}", contender.name));
            }
        }
        self.line(format_args!(""));
    }

    fn settings(&mut self) {
        self.line(format_args!("## The stacks and their settings\n\n| name | stack | settings | |\n|---|---|---|---|"));
        for contender in self.contenders {
            let promise = match contender.promise {
                Promise::Ordered => "in order",
                Promise::Unordered => "without order",
                Promise::Unreliable => "unreliable",
            };
            let role = match contender.role {
                Role::Subject => ", judged",
                Role::Peer => "",
                Role::Reference => ", reference",
            };
            self.line(format_args!(
                "| `{}` | {} | {} | {promise}{role} |",
                contender.name, contender.stack, contender.settings
            ));
        }
        self.line(format_args!(""));
    }

    fn failures(&mut self) {
        let failed: Vec<&Record> = self.records.iter().filter(|record| !record.failures.is_empty()).collect();
        if failed.is_empty() {
            return;
        }
        self.line(format_args!("## What failed\n\nMessages that never came count as infinitely late.\n"));
        for record in failed {
            let at = match record.task.interval {
                Some(interval) => format!("IAT {} ms", interval.as_millis()),
                None => "first message".to_owned(),
            };
            self.line(format_args!(
                "- `{}`, {at}, {} %: {}",
                record.contender, record.task.loss_percent, record.failures
            ));
        }
    }
}

fn sentence(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::Undecided => "is undecided",
        Verdict::Broken => "is broken",
    }
}

/// Why a peer is not dominated, in short.
fn reason(own: &Record, peer: &Record) -> String {
    let ratio = verdict::bytes_ratio(own, peer);
    let percentiles = [("p99", own.delay.p99, peer.delay.p99), ("p99.9", own.delay.p999, peer.delay.p999)];
    let mut reasons: Vec<String> = percentiles
        .iter()
        .filter_map(|(name, own, peer)| match verdict::relation(*own, *peer) {
            Relation::Higher | Relation::Unclear => Some(format!("{name} {}, {}", ms(own.ms), ms(peer.ms))),
            Relation::Lower | Relation::Same => None,
        })
        .collect();
    let is_same = percentiles.iter().any(|(_, own, peer)| verdict::relation(*own, *peer) == Relation::Same);
    if ratio > verdict::BYTES_RATIO_MAX || (is_same && ratio >= 1.0) {
        reasons.push(if ratio < 1.01 { format!("{ratio:.4}×") } else { format!("{ratio:.3}×") });
    }
    reasons.join("; ")
}

/// Milliseconds as they are written.
fn ms(value: f64) -> String {
    if value.is_infinite() { "never".to_owned() } else { format!("{value:.0}") }
}

#[cfg(test)]
mod tests {
    use super::super::run::Scale;
    use super::super::{contender, measure, plot, record};
    use super::*;

    #[test]
    fn every_contender_has_its_rows_and_its_marks_and_every_peer_a_verdict() {
        let task = |interval_ms: Option<u64>| Task {
            round_trip: Duration::from_millis(100),
            interval: interval_ms.map(Duration::from_millis),
            loss_percent: 5,
        };
        let scale = Scale { connections: 1, messages: 20, first_messages: 5 };
        let contenders = contender::all();
        let records = measure(&contenders, &[task(Some(50)), task(None)], scale, 2);
        let read = record::from_csv(&record::to_csv(&records)).expect("the records are sound");
        assert_eq!(read.len(), records.len());
        let (document, figure) = (markdown(&contenders, &read), plot::svg(&contenders, &read));
        for contender in &contenders {
            let rows = document.lines().filter(|line| line.starts_with(&format!("| `{}` |", contender.name))).count();
            let tables = read.iter().filter(|record| record.contender == contender.name).count();
            let verdicts = usize::from(contender.role == Role::Peer);
            assert_eq!(rows, tables + verdicts + 1, "{}", contender.name);
            let is_drawn =
                figure.contains(&format!(">{}<", contender.name)) || figure.contains(&format!(">{} (", contender.name));
            assert_eq!(is_drawn, contender.is_at(task(Some(50))), "{}", contender.name);
        }
        assert!(document.contains("**Streams: the goal ") && document.contains("**First message: the goal "));
    }
}
