//! `festina trace slow-start`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use festina_lab::traces::ends;
use festina_trace::analysis::{SlowStart, SlowStartExit};
use festina_trace::{AnalyserOptions, Finding, StreamReport, analyse};
use serde_json::{Value, json};

use super::keys::{Keys, KeysArgs};
use super::thin::open;
use crate::output;

pub(crate) const EXAMPLES: &str = "\
Examples:
  festina trace slow-start capture.pcapng            how transfers begin, and what a larger window would save
  festina trace slow-start 2012.pcap 2024.pcap       a block for each file, to compare years
  festina trace slow-start capture.pcapng --json     an object per stream and line

Only streams whose connection begins in the capture count.";

/// Initial windows that are tried, as multiples of the one that was seen.
const LARGER: [u64; 3] = [2, 3, 10];
/// Streams of one file that are kept.
const STREAMS_MAX: usize = 1_000_000;

/// Arguments of `festina trace slow-start`.
#[derive(Debug, Args)]
pub(crate) struct SlowStartArgs {
    /// The captures; - is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print an object of JSON per stream and line, and nothing else
    #[arg(long)]
    json: bool,
    /// How many streams the table shows, those with the most rounds first
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    #[command(flatten)]
    keys: KeysArgs,
}

/// The data kept for a stream.
struct Begin {
    name: String,
    /// Bytes that left in slow start: all of them if the stream ended within it.
    bytes: u64,
    rtt_ns: Option<u64>,
    slow_start: SlowStart,
}

impl Begin {
    fn of(stream: &StreamReport) -> Option<Self> {
        let slow_start = &stream.slow_start;
        let whole = slow_start.is_whole && !slow_start.round_bytes.is_empty();
        whole.then(|| Self {
            name: ends(stream),
            bytes: slow_start.round_bytes.iter().sum(),
            rtt_ns: stream.rtt_ns.min(),
            slow_start: slow_start.clone(),
        })
    }

    fn window(&self) -> u64 {
        self.slow_start.initial_window_bytes().unwrap_or(0)
    }

    /// Round trips by the closed form, with a window `times` as large.
    fn rounds_with(&self, times: u64) -> u32 {
        SlowStart::rounds_of(self.bytes, self.window().saturating_mul(times))
    }

    /// A stream without a second round does not say how large its window was.
    fn fills_window(&self) -> bool {
        self.slow_start.round_bytes.len() > 1
    }
}

/// Analyses each capture. The readable part of a damaged one counts, and the command fails at the end.
pub(crate) fn run(arguments: &SlowStartArgs) -> Result<()> {
    let keys = arguments.keys.read()?;
    let mut failures = Vec::new();
    for (index, path) in arguments.files.iter().enumerate() {
        let (mut begins, mut other) = (Vec::new(), 0u64);
        let result = read(path, &keys, &mut begins, &mut other);
        if arguments.json {
            for begin in &begins {
                output::print(&line(path, begin).to_string())?;
            }
        } else {
            let gap = if index > 0 { "\n" } else { "" };
            output::print(&format!("{gap}{}", text(path, &mut begins, other, arguments.top)))?;
        }
        if let Err(error) = result {
            failures.push(output::causes(&error));
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(anyhow!(failures.join("; "))) }
}

fn read(path: &Path, keys: &Keys, begins: &mut Vec<Begin>, other: &mut u64) -> Result<()> {
    let analyser = keys.analyser(AnalyserOptions::default());
    let (summary, result) = analyse(open(path)?, analyser, |finding| {
        let Finding::Stream(stream) = finding else { return };
        match Begin::of(&stream) {
            Some(begin) if begins.len() < STREAMS_MAX => begins.push(begin),
            _ => *other += 1,
        }
    });
    super::warn_unread(path, &summary);
    result.map_err(anyhow::Error::from).with_context(|| path.display().to_string())
}

fn text(path: &Path, begins: &mut [Begin], other: u64, top: usize) -> String {
    let mut text =
        format!("{}\n{} streams from their beginning, {other} others are left out\n", output::name(path), begins.len());
    if begins.is_empty() {
        return text.trim_end().to_owned();
    }
    let share = |count: usize| 100.0 * count as f64 / begins.len() as f64;
    let with = |exit| begins.iter().filter(|begin| begin.slow_start.exit() == exit).count();
    for (exit, what) in SlowStartExit::ALL.into_iter().zip([
        "end within slow start",
        "leave it after a loss",
        "leave it because they do not send more in each round",
    ]) {
        let _ = writeln!(text, "{:5.1} % {what}", share(with(exit)));
    }
    text += &windows(begins);
    text += &savings(begins);
    begins.sort_by_key(|begin| std::cmp::Reverse((begin.slow_start.round_bytes.len(), begin.bytes)));
    let _ = writeln!(text, "\n   RTT min   bytes  window rounds form  exit       stream");
    for begin in begins.iter().take(top) {
        let (rounds, exit) = (begin.slow_start.round_bytes.len(), begin.slow_start.exit().name());
        let ms = begin.rtt_ns.map_or("-".to_owned(), |ns| format!("{:.1} ms", ns as f64 / 1e6));
        let _ = writeln!(
            text,
            "{ms:>10}{:>8}{:>8}{rounds:>7}{:>5}  {exit:9}  {}",
            begin.bytes,
            begin.window(),
            begin.rounds_with(1),
            begin.name
        );
    }
    text.trim_end().to_owned()
}

/// The initial windows of streams that say how large theirs was.
fn windows(begins: &[Begin]) -> String {
    let mut windows: Vec<u64> = begins.iter().filter(|begin| begin.fills_window()).map(Begin::window).collect();
    windows.sort_unstable();
    let at = |part: usize| windows.get(windows.len() * part / 10).copied().unwrap_or(0);
    match windows.last() {
        None => "no stream has a second round, so none says how large its initial window is\n".to_owned(),
        Some(most) => format!(
            "first round, of {} streams with a second one: median {} bytes, 10 % below {}, at most {most}\n",
            windows.len(),
            at(5),
            at(1)
        ),
    }
}

/// What larger windows would save for transfers that end within slow start, by the closed form.
fn savings(begins: &[Begin]) -> String {
    let ended: Vec<&Begin> = begins.iter().filter(|begin| begin.slow_start.exit() == SlowStartExit::Ended).collect();
    let mut text = String::new();
    if ended.is_empty() {
        return text;
    }
    let _ = writeln!(text, "for those that end within slow start, an initial window");
    for times in LARGER {
        let saved = |begin: &&Begin| begin.rounds_with(1) - begin.rounds_with(times).min(begin.rounds_with(1));
        let rounds: u32 = ended.iter().map(saved).sum();
        let ms: f64 = ended.iter().map(|begin| f64::from(saved(begin)) * begin.rtt_ns.unwrap_or(0) as f64 / 1e6).sum();
        let per = ended.len() as f64;
        let _ = writeln!(
            text,
            "  {times:>2} times as large would save {:.2} round trips or {:.1} ms on average",
            f64::from(rounds) / per,
            ms / per
        );
    }
    text
}

fn line(path: &Path, begin: &Begin) -> Value {
    let slow_start = &begin.slow_start;
    json!({
        "capture": path.display().to_string(), "stream": begin.name, "bytes_in_slow_start": begin.bytes,
        "initial_window_bytes": begin.window(), "round_bytes": slow_start.round_bytes, "rounds": slow_start.round_bytes.len(),
        "rounds_by_closed_form": begin.rounds_with(1), "exit": slow_start.exit().name(),
        "rtt_min_ms": begin.rtt_ns.map(|ns| ns as f64 / 1e6),
    })
}
