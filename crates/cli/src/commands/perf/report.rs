//! The results of a measurement, for people and for programs.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use super::plan::{Measured, Plan, THIN_BYTES, THIN_INTERVAL};
use super::tally::{Stream, Tally};
use crate::output;

/// What the load may add to the median of the thin stream's times, for each grade; more is an F.
const GRADES: [(&str, Duration); 5] = [
    ("A+", Duration::from_millis(5)),
    ("A", Duration::from_millis(30)),
    ("B", Duration::from_millis(60)),
    ("C", Duration::from_millis(200)),
    ("D", Duration::from_millis(400)),
];

/// Prints the result.
pub(super) async fn print(plan: &Plan, measured: &Measured, as_json: bool) -> Result<()> {
    let text = match as_json {
        true => serde_json::to_string_pretty(&ResultJson::of(plan, measured))?,
        false => text(plan, measured),
    };
    output::print_in_turn(text).await
}

/// The line for one interval: its start and end, counted from the beginning of the load, and the byte counts at both.
pub(super) fn interval_line([from, until]: [Duration; 2], [before, now]: [[u64; 2]; 2], tally: &Tally) -> String {
    let rates = [0, 1].map(|way| megabits(now[way].saturating_sub(before[way]), until.saturating_sub(from)));
    let median = tally.take_recent_median().map_or("-".to_owned(), milliseconds);
    format!(
        "{:>6.2} to {:>6.2} s: there {:.2} Mbit/s, back {:.2} Mbit/s, thin stream {median} ms",
        from.as_secs_f64(),
        until.as_secs_f64(),
        rates[0],
        rates[1]
    )
}

fn text(plan: &Plan, measured: &Measured) -> String {
    let [there, back] = measured.bytes.map(|bytes| megabits(bytes, measured.loaded_for));
    let mut text = format!(
        "{}: {} association{} {} with messages of {} bytes for {:.1} s",
        measured.remote,
        plan.parallel,
        if plan.parallel == 1 { "" } else { "s" },
        match (plan.upload, plan.download) {
            (true, true) => "each way",
            (true, false) => "there",
            _ => "back",
        },
        plan.message_bytes,
        measured.loaded_for.as_secs_f64(),
    );
    if plan.upload {
        text += &format!("\nthere {there:>10.2} Mbit/s  {:>14} bytes arrived", measured.bytes[0]);
        text += &format!(", {} retransmissions", measured.retransmissions);
    }
    if plan.download {
        text += &format!("\nback  {back:>10.2} Mbit/s  {:>14} bytes arrived", measured.bytes[1]);
    }
    let interval_ms = THIN_INTERVAL.as_millis();
    text += &format!("\n\n{THIN_BYTES} bytes there and back every {interval_ms} ms, in milliseconds");
    text += &format!(
        "\n{:<14}{:>9}{:>9}{:>10}{:>10}{:>10}{:>10}",
        "", "messages", "missing", "median", "p90", "p99", "most"
    );
    for (name, stream) in ["without load", "under load"].iter().zip(&measured.thin) {
        let quantile = |share| stream.quantile(share).map_or("-".to_owned(), milliseconds);
        let (most, missing) = (stream.max().map_or("-".to_owned(), milliseconds), stream.missing());
        let [median, p90, p99] = [0.5, 0.9, 0.99].map(quantile);
        text += &format!("\n{name:<14}{:>9}{missing:>9}{median:>10}{p90:>10}{p99:>10}{most:>10}", stream.sent);
    }
    text += &match added(&measured.thin) {
        Some(added) => {
            let grade = output::coloured(grade(added), verdict(added));
            format!("\nthe load adds {} ms to the median: bufferbloat grade {grade}", milliseconds(added))
        }
        None => "\ntoo little came back for a bufferbloat grade".to_owned(),
    };
    text
}

/// What the load has added to the median.
fn added([idle, loaded]: &[Stream; 2]) -> Option<Duration> {
    Some(loaded.quantile(0.5)?.saturating_sub(idle.quantile(0.5)?))
}

fn grade(added: Duration) -> &'static str {
    GRADES.iter().find(|(_, below)| added < *below).map_or("F", |(grade, _)| grade)
}

/// Returns the verdict that the colour of the grade shows.
fn verdict(added: Duration) -> output::Verdict {
    match grade(added) {
        "A+" | "A" => output::Verdict::Good,
        "B" | "C" => output::Verdict::Doubtful,
        _ => output::Verdict::Bad,
    }
}

fn megabits(bytes: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { bytes as f64 * 8.0 / 1e6 / time.as_secs_f64() }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1e3)
}

/// The result for programs; missing values are null.
#[derive(Serialize)]
struct ResultJson {
    server: String,
    associations_each_way: u16,
    message_bytes: u32,
    loaded_s: f64,
    there: Option<LoadJson>,
    back: Option<LoadJson>,
    retransmissions: u64,
    thin_idle: ThinJson,
    thin_loaded: ThinJson,
    added_ms: Option<f64>,
    grade: Option<&'static str>,
}

#[derive(Serialize)]
struct LoadJson {
    bytes: u64,
    bits_per_second: f64,
}

/// Times there and back, of all messages sent: null if the time is unknown because messages are missing.
#[derive(Serialize)]
struct ThinJson {
    sent: u64,
    returned: u64,
    ms_p50: Option<f64>,
    ms_p90: Option<f64>,
    ms_p99: Option<f64>,
    ms_max: Option<f64>,
}

impl ResultJson {
    fn of(plan: &Plan, measured: &Measured) -> Self {
        let load = |way: usize| {
            let bytes = measured.bytes.get(way).copied().unwrap_or_default();
            LoadJson { bytes, bits_per_second: megabits(bytes, measured.loaded_for) * 1e6 }
        };
        let [idle, loaded] = &measured.thin;
        let added = added(&measured.thin);
        Self {
            server: measured.remote.to_string(),
            associations_each_way: plan.parallel,
            message_bytes: plan.message_bytes,
            loaded_s: measured.loaded_for.as_secs_f64(),
            there: plan.upload.then(|| load(0)),
            back: plan.download.then(|| load(1)),
            retransmissions: measured.retransmissions,
            thin_idle: ThinJson::of(idle),
            thin_loaded: ThinJson::of(loaded),
            added_ms: added.map(output::json_ms),
            grade: added.map(grade),
        }
    }
}

impl ThinJson {
    fn of(stream: &Stream) -> Self {
        let quantile = |share| stream.quantile(share).map(output::json_ms);
        Self {
            sent: stream.sent,
            returned: stream.times.count(),
            ms_p50: quantile(0.5),
            ms_p90: quantile(0.9),
            ms_p99: quantile(0.99),
            ms_max: stream.max().map(output::json_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grade_follows_what_the_load_adds() {
        for (added_ms, expected) in [(0, "A+"), (4, "A+"), (5, "A"), (59, "B"), (60, "C"), (399, "D"), (400, "F")] {
            assert_eq!(grade(Duration::from_millis(added_ms)), expected, "{added_ms}");
        }
    }

    #[test]
    fn without_an_answer_to_half_of_the_messages_there_is_no_grade() {
        assert_eq!(added(&[Stream::default(), Stream::default()]), None);
        let mut stream = Stream { sent: 4, ..Stream::default() };
        (0..2).for_each(|_| stream.times.record(Duration::from_millis(1)));
        assert_eq!(added(&[stream.clone(), stream.clone()]), Some(Duration::ZERO));
        let after_a_death = Stream { sent: 5, ..stream.clone() };
        assert_eq!(added(&[stream, after_a_death]), None);
    }

    #[test]
    fn a_rate_is_in_megabits_a_second() {
        assert_eq!(megabits(1_250_000, Duration::from_secs(1)), 10.0);
        assert_eq!(megabits(1, Duration::ZERO), 0.0);
    }
}
