//! What an emulated network did, as a table or as JSON.

use std::time::Duration;

use festina_emulate::{Lateness, Passage};
use festina_netsim::LinkCounters;
use serde::Serialize;

/// What both links did.
#[derive(Debug)]
pub(super) struct Report {
    /// What the network joins.
    pub(super) title: String,
    pub(super) there: Way,
    pub(super) back: Way,
    pub(super) lateness: Lateness,
    /// Further remarks, one line each.
    pub(super) notes: Vec<String>,
}

/// The counters of one link.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Way {
    pub(super) link: LinkCounters,
    pub(super) passage: Passage,
}

impl Report {
    /// What the network between two TUN devices did.
    #[cfg(target_os = "linux")]
    pub(super) fn of_devices(title: String, counters: &festina_emulate::TunCounters) -> Self {
        let mut notes = Vec::new();
        if counters.send_failed > 0 {
            notes.push(format!("{} packets were refused by a device", counters.send_failed));
        }
        let [there, back] = ways(counters);
        Self { title, there, back, lateness: counters.lateness, notes }
    }

    /// The report as it was asked for, without a line feed at its end.
    pub(super) fn render(&self, as_json: bool) -> serde_json::Result<String> {
        if as_json { serde_json::to_string_pretty(&ReportJson::of(self)) } else { Ok(self.text()) }
    }

    /// A table, and sentences below it.
    fn text(&self) -> String {
        let mut text = format!("{:<22}{:>14}{:>14}", self.title, "there", "back");
        for (name, value) in ROWS {
            let [there, back] = [&self.there, &self.back].map(value);
            text += &format!("\n{name:<22}{there:>14}{back:>14}");
        }
        text += &format!("\n{}", lateness_text(&self.lateness));
        if !self.lateness.is_tolerable() {
            text += &format!("\n{}", warning(&self.lateness));
        }
        for note in &self.notes {
            text += &format!("\n{note}");
        }
        text
    }
}

/// What the links between two TUN devices did.
#[cfg(target_os = "linux")]
pub(super) fn ways(counters: &festina_emulate::TunCounters) -> [Way; 2] {
    [
        Way { link: counters.forward, passage: counters.forward_passage },
        Way { link: counters.backward, passage: counters.backward_passage },
    ]
}

/// A line of the table: its label, and its value for one direction.
type Row = (&'static str, fn(&Way) -> String);

const ROWS: [Row; 15] = [
    ("packets offered", |way| way.link.offered.to_string()),
    ("bytes offered", |way| way.link.offered_bytes.bytes().to_string()),
    ("packets delivered", |way| way.link.delivered.to_string()),
    ("bytes delivered", |way| way.link.delivered_bytes.bytes().to_string()),
    ("lost", |way| way.link.lost.to_string()),
    ("dropped by the queue", |way| way.link.queue_dropped.to_string()),
    ("marked by the queue", |way| way.link.congestion_marked.to_string()),
    ("reordered", |way| way.link.reordered.to_string()),
    ("duplicated", |way| way.link.duplicated.to_string()),
    ("corrupted", |way| way.link.corrupted.to_string()),
    ("longest queue, packets", |way| way.passage.queue_packets_max.to_string()),
    ("longest queue, bytes", |way| way.passage.queue_bytes_max.bytes().to_string()),
    ("least delay, ms", |way| delay(way, way.passage.delay_min)),
    ("mean delay, ms", |way| delay(way, way.passage.delay_mean())),
    ("most delay, ms", |way| delay(way, way.passage.delay_max)),
];

/// A delay of delivered packets, if there are any.
fn delay(way: &Way, time: Duration) -> String {
    if way.passage.arrived == 0 { "-".to_owned() } else { milliseconds(time) }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.3}", as_milliseconds(time))
}

fn lateness_text(lateness: &Lateness) -> String {
    if lateness.count == 0 {
        return "nothing was delivered".to_owned();
    }
    let [mean_us, most_us, max_us] =
        [lateness.mean(), lateness.quantile(990), lateness.max].map(|time| time.as_micros());
    format!("delivered {mean_us} us late on average, at most {most_us} us for 99 of 100, {max_us} us at worst")
}

/// The warning that times cannot be trusted.
fn warning(lateness: &Lateness) -> String {
    let share = lateness.intolerable as f64 * 100.0 / lateness.count.max(1) as f64;
    format!(
        "this machine could not keep up: {share:.1} % of the packets were delivered more than {} ms late, so differences of up to \
         {} ms mean nothing here; give it less to do, or the network less to carry",
        milliseconds(Lateness::TOLERABLE),
        milliseconds(lateness.max),
    )
}

/// The report for programs. Times say their units, and are null if nothing was delivered; a delay runs from one end of the network to the other.
#[derive(Serialize)]
struct ReportJson<'a> {
    network: &'a str,
    there: WayJson,
    back: WayJson,
    lateness: LatenessJson,
    notes: &'a [String],
}

#[derive(Serialize)]
struct WayJson {
    packets_offered: u64,
    bytes_offered: u64,
    packets_delivered: u64,
    bytes_delivered: u64,
    lost: u64,
    queue_dropped: u64,
    queue_marked: u64,
    reordered: u64,
    duplicated: u64,
    corrupted: u64,
    queue_packets_max: usize,
    queue_bytes_max: u64,
    delay_ms_min: Option<f64>,
    delay_ms_mean: Option<f64>,
    delay_ms_max: Option<f64>,
}

#[derive(Serialize)]
struct LatenessJson {
    deliveries: u64,
    ms_mean: Option<f64>,
    /// To the end of a step.
    ms_p99: Option<f64>,
    ms_max: Option<f64>,
    intolerable: u64,
    kept_up: bool,
}

impl<'a> ReportJson<'a> {
    fn of(report: &'a Report) -> Self {
        let Report { title, there, back, lateness, notes } = report;
        let ms = |time| (lateness.count > 0).then(|| as_milliseconds(time));
        Self {
            network: title,
            there: WayJson::of(there),
            back: WayJson::of(back),
            lateness: LatenessJson {
                deliveries: lateness.count,
                ms_mean: ms(lateness.mean()),
                ms_p99: ms(lateness.quantile(990)),
                ms_max: ms(lateness.max),
                intolerable: lateness.intolerable,
                kept_up: lateness.is_tolerable(),
            },
            notes,
        }
    }
}

impl WayJson {
    fn of(way: &Way) -> Self {
        let Way { link, passage } = way;
        let ms = |time| (passage.arrived > 0).then(|| as_milliseconds(time));
        Self {
            packets_offered: link.offered,
            bytes_offered: link.offered_bytes.bytes(),
            packets_delivered: link.delivered,
            bytes_delivered: link.delivered_bytes.bytes(),
            lost: link.lost,
            queue_dropped: link.queue_dropped,
            queue_marked: link.congestion_marked,
            reordered: link.reordered,
            duplicated: link.duplicated,
            corrupted: link.corrupted,
            queue_packets_max: passage.queue_packets_max,
            queue_bytes_max: passage.queue_bytes_max.bytes(),
            delay_ms_min: ms(passage.delay_min),
            delay_ms_mean: ms(passage.delay_mean()),
            delay_ms_max: ms(passage.delay_max),
        }
    }
}

fn as_milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lateness: Lateness) -> Report {
        let (there, back) = (Way::default(), Way::default());
        Report { title: "a to b".to_owned(), there, back, lateness, notes: vec!["a note".to_owned()] }
    }

    #[test]
    fn a_machine_that_was_too_slow_is_told_so_in_words() {
        let late = Lateness {
            count: 200,
            total: Duration::from_millis(100),
            max: Duration::from_millis(12),
            intolerable: 50,
            ..Lateness::default()
        };
        let text = report(late).text();
        assert!(text.contains("25.0 % of the packets were delivered more than 0.500 ms late"), "{text}");
        assert!(text.ends_with("a note"), "{text}");
        assert!(!report(Lateness { intolerable: 2, ..late }).text().contains("keep up"));
        let json = report(late).render(true).expect("plain numbers");
        assert!(json.contains("\"kept_up\": false") && json.contains("\"ms_max\": 12.0"), "{json}");
    }

    #[test]
    fn packets_that_were_not_delivered_have_no_delays() {
        let mut report = report(Lateness::default());
        report.there.link.offered = 3;
        let json: serde_json::Value = serde_json::from_str(&report.render(true).expect("plain numbers")).expect("JSON");
        for (part, names) in [
            ("there", ["delay_ms_min", "delay_ms_mean", "delay_ms_max"]),
            ("lateness", ["ms_mean", "ms_p99", "ms_max"]),
        ] {
            assert!(names.iter().all(|name| json[part].get(*name).is_some_and(serde_json::Value::is_null)), "{json}");
        }
        let text = report.text();
        assert!(text.contains("nothing was delivered"), "{text}");
        let delays: Vec<&str> = text.lines().filter(|line| line.contains(" delay, ms")).collect();
        assert!(
            delays.len() == 3 && delays.iter().all(|line| line.split_whitespace().rev().take(2).eq(["-", "-"])),
            "{text}"
        );
    }
}
