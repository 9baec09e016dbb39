//! `festina trace what-if`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use festina_lab::traces::{Agreement, Certainty, Fate, ThinFlows, WhatIf};
use festina_trace::{AnalyserOptions, Histogram, analyse};
use serde_json::{Value, json};

use super::keys::KeysArgs;
use super::thin::open;
use crate::compare::report::milliseconds;
use crate::output;

pub(crate) const EXAMPLES: &str = "\
Examples:
  festina trace what-if capture.pcapng                 a sentence and a table
  festina trace what-if capture.pcapng --svg what.svg  and a figure
  festina trace what-if capture.pcapng --json | jq '.transports[].p99_ms'

What the applications of the capture's thin TCP and SCTP streams wrote is sent once more in the simulator, over paths with the round-trip \
times and losses that the capture shows. The capture must have been made at the sender or close to it.";

/// Arguments of `festina trace what-if`.
#[derive(Debug, Args)]
pub(crate) struct WhatIfArgs {
    /// The capture; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write the figure
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print a JSON document instead of text
    #[arg(long)]
    json: bool,
    /// What the simulated paths lose is drawn from this number: the same seed loses the same packets
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    keys: KeysArgs,
}

/// Analyses the capture and simulates its thin flows. The readable part of a damaged one counts, and the command fails at the end.
pub(crate) fn run(arguments: &WhatIfArgs) -> Result<()> {
    let name = output::name(&arguments.file);
    let analyser = arguments.keys.read()?.analyser(AnalyserOptions { details: true, ..AnalyserOptions::default() });
    let mut flows = ThinFlows::default();
    let (summary, result) = analyse(open(&arguments.file)?, analyser, |finding| flows.take(finding));
    super::warn_unread(&arguments.file, &summary);
    let other = flows.streams_other();
    let Some(answer) = WhatIf::of(flows.finish(), arguments.seed) else {
        result.map_err(anyhow::Error::from).with_context(|| name.clone())?;
        bail!(
            "{name}: none of {other} streams with data is thin, has ten acknowledged writes and was captured in front of its losses; \
             `festina trace thin {name}` describes them"
        );
    };
    if arguments.json {
        output::print(&format!("{:#}", document(&arguments.file.display().to_string(), &answer)))?;
    } else {
        output::print(&text(&name, &answer, other))?;
    }
    if let Some(path) = &arguments.svg {
        figure(path, &name, &answer)?;
    }
    result.map_err(anyhow::Error::from).with_context(|| name)
}

fn figure(path: &Path, name: &str, answer: &WhatIf) -> Result<()> {
    let svg = answer.figure(&format!("What if? {name}")).to_svg()?;
    std::fs::write(path, svg).with_context(|| format!("cannot write {}", path.display()))
}

fn text(name: &str, answer: &WhatIf, other: u64) -> String {
    let WhatIf { flows, flows_beyond, writes, rtt, loss, burst, runs, .. } = answer;
    let mut text = format!("{name}\n{flows} thin streams, {writes} writes; {other} other streams are left out\n");
    if *flows_beyond > 0 {
        let _ = writeln!(text, "{flows_beyond} more thin streams are left out, which would take too long");
    }
    let [least, median, most] = rtt.map(ms);
    let burst = burst.map_or("singly".to_owned(), |burst| format!("{} ms bursts", ms(burst)));
    let [there, back] = loss.map(|share| 100.0 * share);
    let _ = writeln!(
        text,
        "round trip {median} ms ({least} to {most}), loss {there:.1} % there, {back:.1} % back, {burst}\n"
    );
    let _ = writeln!(text, "{}\n", answer.sentence().replace(", instead of", ",\ninstead of"));
    let _ = writeln!(
        text,
        "{:25}{:>8}{:>8}{:>8}{:>8}{:>10}{:>11}",
        "to delivery, in ms", "median", "p99", "p99.9", "worst", "packets", "kB"
    );
    for fate in answer.rows() {
        let _ = writeln!(text, "{}", row(fate));
    }
    let _ = writeln!(text, "\nmeans of {runs} runs, both ends; worst: in the median run\n");
    let _ = writeln!(
        text,
        "{:25}{:>8}{:>8}{:>8}{:>8}{:>21}",
        "to acknowledgement, in ms", "median", "p99", "p99.9", "worst", "resent"
    );
    for agreement in &answer.agreements {
        text += &comparison(agreement);
    }
    text + "resent: of a hundred writes by timeout/fast/as a probe/needlessly"
}

fn row(fate: &Fate) -> String {
    let delay = |share| milliseconds(fate.delays.quantile(share));
    let mut row =
        format!("{:25}{:>8}{:>8}{:>8}{:>8}", fate.name, delay(0.5), delay(0.99), delay(0.999), ms(fate.worst()));
    let _ = write!(row, "{:>10.0}{:>11.1}", fate.packets_per_run(), fate.bytes_per_run() / 1e3);
    if fate.undelivered > 0 {
        let _ = write!(row, "\n  {} writes were not delivered within ten minutes", fate.undelivered);
    }
    row
}

/// The capture, the same simulated, and what to make of it.
fn comparison(agreement: &Agreement) -> String {
    let Agreement { name, capture_ns, simulated_ns, p99_ns, .. } = agreement;
    let mut text = String::new();
    for (which, (title, delays)) in [("the capture", capture_ns), (*name, simulated_ns)].into_iter().enumerate() {
        let [median, p99, p999, worst] = [50.0, 99.0, 99.9, 100.0].map(|percent| ns(delays, percent));
        let _ = write!(text, "{title:25}{median:>8}{p99:>8}{p999:>8}{worst:>8}");
        let shares = agreement.by_cause[which].iter().take(3).chain([&agreement.spurious[which]]);
        let shares: Vec<String> = shares.map(|share| format!("{:.1}", 100.0 * share)).collect();
        let _ = writeln!(text, "{:>21}", format!("{} %", shares.join("/")));
    }
    let off = agreement.deviation(99.0).map_or(0.0, |share| 100.0 * share);
    let trust = match agreement.is_close() {
        true if off.abs() <= 10.0 => "agrees",
        true => "chance can explain that",
        false => "mistrust the rows above",
    };
    let side = if off < 0.0 { "below" } else { "above" };
    let _ = writeln!(text, "the simulated p99 is {:.1} % {side} that of the capture: {trust}", off.abs());
    let span = |low: u64, high: u64| [low, high].map(|ns| ms(Duration::from_nanos(ns))).join(" to ");
    if let Some(Certainty { beyond, groups, interval_ns: (low, high) }) = agreement.capture_p99 {
        let _ = writeln!(
            text,
            "{beyond} writes of the capture took so long or longer, in {groups} groups:\nits path's own p99 may be {} ms",
            span(low, high)
        );
    }
    if let [least, .., most] = p99_ns.as_slice() {
        let _ = writeln!(text, "the runs span {} ms", span(*least, *most));
    }
    text
}

fn document(name: &str, answer: &WhatIf) -> Value {
    let WhatIf { flows, flows_beyond, writes, rtt, loss, burst, runs, .. } = answer;
    let number = |duration: Duration| duration.as_secs_f64() * 1e3;
    let of_ns = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e6);
    let transports: Vec<Value> = answer
        .rows()
        .map(|fate| {
            let delay = |share| fate.delays.quantile(share).map(number);
            json!({
                "name": fate.name, "p50_ms": delay(0.5), "p99_ms": delay(0.99), "p999_ms": delay(0.999),
                "worst_ms": number(fate.worst()), "packets": fate.packets_per_run(), "bytes": fate.bytes_per_run(),
                "undelivered": fate.undelivered,
            })
        })
        .collect();
    let baseline: Vec<Value> = answer
        .agreements
        .iter()
        .map(|agreement| {
            let of = |delays: &Histogram, which: usize| {
                let (by_cause, spurious) = (agreement.by_cause[which], agreement.spurious[which]);
                let delay = |percent| of_ns(delays.percentile(percent));
                json!({
                    "p50_ms": delay(50.0), "p99_ms": delay(99.0), "p999_ms": delay(99.9), "worst_ms": of_ns(delays.max()),
                    "timeouts_per_write": by_cause[0], "fast_per_write": by_cause[1], "probes_per_write": by_cause[2],
                    "spurious_per_write": spurious,
                })
            };
            let interval_ms = agreement.capture_p99.map(|Certainty { interval_ns: (low, high), .. }| {
                [low, high].map(|ns| of_ns(Some(ns)))
            });
            let runs_ms = [agreement.p99_ns.first(), agreement.p99_ns.last()].map(|ns| of_ns(ns.copied()));
            json!({
                "name": agreement.name,
                "capture": of(&agreement.capture_ns, 0),
                "simulated": of(&agreement.simulated_ns, 1),
                "p99_deviation": agreement.deviation(99.0),
                "writes_beyond_p99": agreement.capture_p99.map(|known| known.beyond),
                "groups_beyond_p99": agreement.capture_p99.map(|known| known.groups),
                "capture_p99_interval_ms": interval_ms,
                "simulated_p99_runs_ms": runs_ms,
            })
        })
        .collect();
    json!({
        "capture": name, "sentence": answer.sentence(), "flows": flows, "flows_beyond": flows_beyond, "writes": writes,
        "rtt_ms": rtt.map(number), "loss_there": loss[0], "loss_back": loss[1], "burst_ms": burst.map(number), "runs": runs,
        "transports": transports, "baseline": baseline,
    })
}

fn ms(duration: Duration) -> String {
    milliseconds(Some(duration))
}

fn ns(delays: &Histogram, percent: f64) -> String {
    milliseconds(delays.percentile(percent).map(Duration::from_nanos))
}
