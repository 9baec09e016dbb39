//! The subcommand `changing`: thin streams over a path whose delay changes, beside peers whose timers are set for its mean.

use std::fs;
use std::io;
use std::num::NonZero;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use festina_bench_peers::thin::contender::{self, Contender, Means, Promise, Role};
use festina_bench_peers::thin::record::{self, Record};
use festina_bench_peers::thin::task::{Scale, Task};
use festina_bench_peers::thin::{measure_over_changes, plot, report, weather};

use crate::thin_command::write_document;

/// Thin streams over a path whose round trip changes between 40 and 200 ms, with jitter, reordering and a queue, in virtual time
#[derive(clap::Args)]
pub(crate) struct ChangingArguments {
    /// Times between two writes in ms
    #[arg(long, value_name = "MS,MS", value_delimiter = ',', default_values_t = [33, 250])]
    iat: Vec<u64>,
    /// Packets lost in each direction in percent
    #[arg(long, value_name = "PERCENT,PERCENT", value_delimiter = ',', default_values_t = [0, 1, 5])]
    loss: Vec<u32>,
    /// Only the contenders whose name contains one of these texts
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// A twentieth of the messages: to see that it works, not for numbers to quote
    #[arg(long)]
    quick: bool,
    /// Also write thin-peers-changing.csv and .svg into this folder, and the document about all such files
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Measure nothing, but write document and figure from the CSV file that is in the folder
    #[arg(long, requires = "out", conflicts_with_all = ["iat", "loss", "only", "quick"])]
    render: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &ChangingArguments) -> io::Result<()> {
    if !arguments.render {
        let mut records = measured(arguments);
        print!("{}", table(&records));
        let Some(folder) = &arguments.out else { return Ok(()) };
        fs::create_dir_all(folder)?;
        if !arguments.only.is_empty() && folder.join(record::CHANGING_FILE).exists() {
            let old = record::over_changes(folder)?;
            record::check_scale(&old, scale(arguments)).map_err(io::Error::other)?;
            records = record::merge(old, &records, &contender::all());
        }
        fs::write(folder.join(record::CHANGING_FILE), record::to_csv(&records))?;
    }
    let Some(folder) = &arguments.out else { return Ok(()) };
    // The rounded values of the file, so that the figure can be checked against it.
    let figure = plot::svg(report::CHANGING_HEADING, &record::over_changes(folder)?);
    fs::write(folder.join("thin-peers-changing.svg"), figure)?;
    write_document(folder)
}

fn measured(arguments: &ChangingArguments) -> Vec<Record> {
    let mut contenders = contender::all();
    contenders.retain(|contender| is_compared(contender) && is_chosen(contender, &arguments.only));
    let task = |interval_ms: &u64, loss_percent: &u32| Task {
        round_trip: weather::MEAN_ROUND_TRIP,
        interval: Some(Duration::from_millis(*interval_ms)),
        loss_percent: *loss_percent,
    };
    let tasks: Vec<Task> =
        arguments.iat.iter().flat_map(|interval| arguments.loss.iter().map(move |loss| task(interval, loss))).collect();
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    measure_over_changes(&contenders, &tasks, scale(arguments), threads)
}

fn scale(arguments: &ChangingArguments) -> Scale {
    let messages = if arguments.quick { 50 } else { 1_000 };
    Scale { connections: 20, messages, first_messages: 0 }
}

fn is_chosen(contender: &Contender, only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|text| contender.name.contains(text.as_str()))
}

/// Festina's default, plain and encrypted, and the reliable peers that run in this process.
fn is_compared(contender: &Contender) -> bool {
    let is_festina = contender.role == Role::Subject || contender.name == "festina-secure";
    let is_peer = contender.role == Role::Peer && contender.promise == Promise::Ordered;
    matches!(contender.means, Means::Here(_)) && (is_festina || is_peer)
}

fn table(records: &[Record]) -> String {
    let mut text = String::from(
        "| IAT, loss | stack | mean | p50 | p99 | p99.9 | packets there, back | bytes |\n|---|---|---|---|---|---|---|---|\n",
    );
    for Record { contender, task, delay, cost, failures, .. } in records {
        let interval_ms = task.interval.unwrap_or_default().as_millis();
        let [there, back] = cost.packets;
        text += &format!(
            "| {interval_ms} ms, {} % | `{contender}` | {:.1} | {:.1} | {:.0} | {:.0} | {there:.2}, {back:.2} | {:.0} |{failures}\n",
            task.loss_percent,
            delay.mean_ms,
            delay.p50_ms,
            delay.p99.ms,
            delay.p999.ms,
            cost.bytes_of_both(),
        );
    }
    text
}
