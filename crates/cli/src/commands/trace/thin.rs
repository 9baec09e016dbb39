//! `festina trace thin`.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use festina_lab::traces::{Life, Totals, TracePage};
use festina_trace::analysis::Summary;
use festina_trace::analysis::columns::{csv_header, csv_line, json_line};
use festina_trace::{AnalyserOptions, Finding, ReadError, ReceiverSide, StreamReport, analyse};

use super::keys::{Keys, KeysArgs};
use super::parquet::ParquetFile;
use super::table::{Ports, text};
use crate::args;
use crate::input::Stream;
use crate::output;
use crate::usage::UsageError;

pub(crate) const EXAMPLES: &str = "\
Examples:
  festina trace thin capture.pcapng                  tables on the terminal
  festina trace thin capture.pcap.gz --html t.html   figures, and packet diagrams of the worst streams
  festina trace thin sender.pcap --receiver receiver.pcap    delays to delivery too
  tcpdump -w - | festina trace thin - --csv all.csv  every stream as a row
  festina trace thin capture.pcap --json | jq 'select(.delivery_max_ms > 500)'
  festina trace thin capture.pcap --keys keys.log    the secrets of encrypted associations are in a key log
  festina trace thin --interface eth0                the current traffic, until Ctrl-C

Captures are pcap or pcapng, bare or compressed by gzip or zstd. Encrypted associations are decrypted if the capture holds their handshake, \
whole packets, and their secrets, as those that --pcap writes do. Delays are best seen in a capture that was made at the sender.";

/// Streams that are kept for tables and pages; of more, those with the longest delays.
const STREAMS_KEPT_MAX: usize = 10_000;
/// Streams whose life is drawn.
const LIVES_MAX: usize = 3;

/// Arguments of `festina trace thin`.
#[derive(Debug, Args)]
pub(crate) struct ThinArgs {
    /// The captures; - is standard input
    #[arg(value_name = "FILE", required_unless_present = "interface")]
    files: Vec<PathBuf>,
    /// Instead of a capture: the current traffic of a network interface of this machine; needs CAP_NET_RAW
    #[arg(long, value_name = "NAME", conflicts_with_all = ["files", "receiver", "keys"])]
    pub(super) interface: Option<String>,
    /// With --interface: end after this time instead of on Ctrl-C
    #[arg(long, value_name = "TIME", requires = "interface", value_parser = args::positive_duration)]
    pub(super) time: Option<Duration>,
    /// With --interface: time between two tables
    #[arg(long, value_name = "TIME", requires = "interface", default_value = "1s", value_parser = args::positive_duration)]
    pub(super) interval: Duration,
    /// A capture of the same packets at the receiver, for delays to delivery
    #[arg(long, value_name = "FILE")]
    receiver: Option<PathBuf>,
    /// Write a row per stream as CSV; - is standard output, which then holds nothing else
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Print an object of JSON per stream and line, and nothing else; with --interface also at each interval
    #[arg(long, conflicts_with = "csv")]
    pub(super) json: bool,
    /// Write a row per stream as Parquet, if this was built with the feature parquet
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    /// Write a page with figures
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// How many streams the tables show
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(super) top: usize,
    #[command(flatten)]
    keys: KeysArgs,
}

/// Analyses each capture. The readable part of a damaged one counts, and the command fails at the end.
pub(crate) fn run(arguments: &ThinArgs) -> Result<()> {
    let is_stdin = |path: &PathBuf| path.as_os_str() == "-";
    if arguments.receiver.is_some() && (arguments.files.len() != 1 || arguments.files.iter().any(is_stdin)) {
        return Err(
            UsageError::new("--receiver needs one capture of the sender, which is a file: it is read twice").into()
        );
    }
    if arguments.html.is_some() && arguments.files.len() != 1 {
        return Err(UsageError::new("--html shows one capture; run once for each").into());
    }
    let keys = arguments.keys.read()?;
    let mut rows = Rows::new(arguments)?;
    let mut failures = Vec::new();
    for path in &arguments.files {
        if let Err(error) = one(arguments, path, &keys, &mut rows) {
            if output::is_closed_pipe(&error) {
                return Err(error);
            }
            failures.push(output::causes(&error));
        }
    }
    rows.finish()?;
    if failures.is_empty() { Ok(()) } else { Err(anyhow!(failures.join("; "))) }
}

fn one(arguments: &ThinArgs, path: &Path, keys: &Keys, rows: &mut Rows) -> Result<()> {
    let mut analyser = keys.analyser(AnalyserOptions::default());
    let mut failures = Vec::new();
    if let Some(receiver) = &arguments.receiver {
        // Everything before its damage is used.
        let (mut side, result) = ReceiverSide::read_decrypting(open(receiver)?, keys.0.clone());
        failures.extend(failure(receiver, result));
        // Damage of the sender's capture is reported when it is analysed.
        let _ = side.align(open(path)?);
        analyser = analyser.with_receiver(side);
    }
    let mut kept = Kept::default();
    let mut written = Ok(());
    let (summary, result) = analyse(open(path)?, analyser, |finding| {
        if let Finding::Stream(stream) = finding {
            if written.is_ok() {
                written = rows.write(&stream);
            }
            kept.add(*stream);
        }
    });
    written?;
    kept.sort();
    // A file that is not a capture has no report.
    let is_read = result.is_ok() || summary.packets > 0;
    failures.extend(failure(path, result));
    let problem = (!failures.is_empty()).then(|| failures.join("; "));
    if is_read && !rows.owns_stdout {
        output::print(&text(&kept.page(&output::name(path), summary, &[], None), &kept.ports, arguments.top))?;
    } else {
        super::warn_unread(path, &summary);
    }
    if let Some(html) = &arguments.html {
        page((path, keys), html, summary, &kept, problem.as_deref())?;
    }
    problem.map_or(Ok(()), |problem| Err(anyhow!(problem)))
}

/// Describes why a capture was not read to its end.
fn failure(path: &Path, result: Result<(), ReadError>) -> Option<String> {
    let error = result.err().map(|error| anyhow::Error::from(error).context(path.display().to_string()));
    error.as_ref().map(output::causes)
}

/// Opens a capture. Ctrl-C ends one that another program writes, and the packets so far are analysed.
pub(super) fn open(path: &Path) -> Result<Box<dyn Read>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(Stream::new(io::stdin())));
    }
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let is_regular = file.metadata().is_ok_and(|file| file.is_file());
    Ok(if is_regular { Box::new(file) } else { Box::new(Stream::new(file)) })
}

/// What the end of a live look leaves: tables unless rows have standard output, and the page.
pub(super) fn conclude(arguments: &ThinArgs, name: &str, summary: Summary, mut kept: Kept, rows: Rows) -> Result<()> {
    kept.sort();
    if rows.owns_stdout {
        super::warn_unread(Path::new(name), &summary);
    } else {
        output::print(&text(&kept.page(name, summary, &[], None), &kept.ports, arguments.top))?;
    }
    rows.finish()?;
    match &arguments.html {
        Some(html) => write_page(html, &kept.page(name, summary, &[], None)),
        None => Ok(()),
    }
}

/// Writes the page; the capture is read again for the packet diagrams of its worst streams.
fn page((path, keys): (&Path, &Keys), html: &Path, summary: Summary, kept: &Kept, problem: Option<&str>) -> Result<()> {
    let mut lives: Vec<Life> = kept.streams.iter().take(LIVES_MAX).filter_map(Life::of).collect();
    if path.as_os_str() != "-" {
        let analyser = keys.analyser(AnalyserOptions { details: true, ..AnalyserOptions::default() });
        let (_, _) = analyse(open(path)?, analyser, |finding| {
            for life in &mut lives {
                life.take(&finding);
            }
        });
    } else {
        lives.clear();
    }
    let title = path.display().to_string();
    write_page(html, &kept.page(&title, summary, &lives, problem))
}

fn write_page(html: &Path, page: &TracePage<'_>) -> Result<()> {
    std::fs::write(html, page.html()?).with_context(|| format!("cannot write {}", html.display()))
}

/// The streams with the longest delays, and sums over all.
#[derive(Default)]
pub(super) struct Kept {
    streams: Vec<StreamReport>,
    totals: Totals,
    ports: Ports,
}

impl Kept {
    pub(super) fn add(&mut self, stream: StreamReport) {
        self.totals.add(&stream);
        self.ports.add(&stream);
        self.streams.push(stream);
        if self.streams.len() >= 2 * STREAMS_KEPT_MAX {
            self.sort();
            self.streams.truncate(STREAMS_KEPT_MAX);
        }
    }

    /// Sorts the streams by their longest delays.
    fn sort(&mut self) {
        self.streams.sort_by_key(|stream| (std::cmp::Reverse(stream.delays.best_known_ns().max()), stream.id));
    }

    fn page<'a>(
        &'a self,
        title: &'a str,
        summary: Summary,
        lives: &'a [Life],
        problem: Option<&'a str>,
    ) -> TracePage<'a> {
        TracePage { title, summary, totals: &self.totals, streams: &self.streams, lives, problem }
    }
}

/// Where rows go.
pub(super) struct Rows {
    sink: Option<Box<dyn io::Write>>,
    parquet: Option<ParquetFile>,
    is_json: bool,
    pub(super) owns_stdout: bool,
    target: String,
}

impl Rows {
    pub(super) fn new(arguments: &ThinArgs) -> Result<Self> {
        let target =
            arguments.csv.as_ref().map_or_else(|| "standard output".to_owned(), |path| path.display().to_string());
        let to_stdout = arguments.json || arguments.csv.as_ref().is_some_and(|path| path.as_os_str() == "-");
        let sink: Option<Box<dyn io::Write>> = match &arguments.csv {
            _ if to_stdout => Some(Box::new(BufWriter::new(io::stdout()))),
            Some(path) => {
                Some(Box::new(BufWriter::new(File::create(path).with_context(|| format!("cannot write {target}"))?)))
            }
            None => None,
        };
        let parquet = arguments.parquet.as_deref().map(ParquetFile::create).transpose()?;
        let mut rows = Self { sink, parquet, is_json: arguments.json, owns_stdout: to_stdout, target };
        if arguments.csv.is_some() {
            rows.line(&csv_header())?;
        }
        Ok(rows)
    }

    pub(super) fn write(&mut self, stream: &StreamReport) -> Result<()> {
        if let Some(parquet) = &mut self.parquet {
            parquet.write(stream)?;
        }
        let line = if self.is_json { json_line } else { csv_line };
        if self.sink.is_some() { self.line(&line(stream)) } else { Ok(()) }
    }

    pub(super) fn line(&mut self, line: &str) -> Result<()> {
        let Some(sink) = &mut self.sink else { return Ok(()) };
        if self.owns_stdout {
            output::is_used();
        }
        writeln!(sink, "{line}").with_context(|| format!("cannot write {}", self.target))
    }

    /// Flushes the rows, for programs that read along.
    pub(super) fn flush(&mut self) -> Result<()> {
        let Some(sink) = &mut self.sink else { return Ok(()) };
        sink.flush().with_context(|| format!("cannot write {}", self.target))
    }

    fn finish(mut self) -> Result<()> {
        self.flush()?;
        self.parquet.map_or(Ok(()), ParquetFile::finish)
    }
}
