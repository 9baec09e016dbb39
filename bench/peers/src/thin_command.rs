//! The subcommand `thin`: thin streams with every stack.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, thread};

use festina_bench_peers::programs;
use festina_bench_peers::thin::contender::{self, Contender, Means};
use festina_bench_peers::thin::record::{self, Record};
use festina_bench_peers::thin::task::{Scale, Task};
use festina_bench_peers::thin::{measure, plot, report};

/// Thin streams over a path that loses packets, in virtual time
#[derive(clap::Args)]
pub(crate) struct ThinArguments {
    /// Round-trip time in ms
    #[arg(long, value_name = "MS", default_value_t = 100)]
    rtt: u64,
    /// Times between two writes in ms
    #[arg(long, value_name = "MS,MS", value_delimiter = ',', default_values_t = [10, 20, 50, 100, 250, 1_000])]
    iat: Vec<u64>,
    /// Packets lost in each direction in percent
    #[arg(long, value_name = "PERCENT,PERCENT", value_delimiter = ',', default_values_t = [0, 1, 2, 5, 10])]
    loss: Vec<u32>,
    /// Only the contenders whose name contains one of these texts; with --out, the file's other rows stay
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// A hundredth of the messages: to see that it works, not for numbers to quote
    #[arg(long, conflicts_with = "long")]
    quick: bool,
    /// Five times the messages
    #[arg(long)]
    long: bool,
    /// Threads that share the work, by default one per core. They do not change any figure
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,
    /// Write thin-peers-RTTms.csv and .svg into this folder, and thin-peers.md about all such files; without it the CSV is printed
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Measure nothing, but write document and figure from the CSV files that are in the folder
    #[arg(long, requires = "out", conflicts_with_all = ["iat", "loss", "only", "quick", "long", "threads"])]
    render: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &ThinArguments) -> io::Result<()> {
    let file = |folder: &Path, ending: &str| folder.join(format!("{}.{ending}", report::stem(arguments.rtt.into())));
    // Before the measurement, which takes long.
    arguments.out.as_deref().map_or(Ok(()), fs::create_dir_all)?;
    let csv = match &arguments.out {
        Some(folder) if arguments.render => fs::read_to_string(file(folder, "csv"))?,
        Some(folder) if !arguments.only.is_empty() && file(folder, "csv").exists() => {
            let old = record::from_csv(&fs::read_to_string(file(folder, "csv"))?).map_err(io::Error::other)?;
            record::check_scale(&old, scale(arguments)).map_err(io::Error::other)?;
            record::to_csv(&record::merge(old, &measured(arguments), &contender::all()))
        }
        _ => record::to_csv(&measured(arguments)),
    };
    let Some(folder) = &arguments.out else {
        print!("{csv}");
        return Ok(());
    };
    // Use the rounded values of the file, so that document and file agree.
    let records = record::from_csv(&csv).map_err(io::Error::other)?;
    fs::write(file(folder, "csv"), csv)?;
    fs::write(file(folder, "svg"), plot::svg(&report::heading(arguments.rtt.into()), &records))?;
    write_document(folder)
}

/// Writes the document about all files of a folder.
pub(crate) fn write_document(folder: &Path) -> io::Result<()> {
    let (fixed, changing) = (record::from_folder(folder)?, record::over_changes(folder)?);
    fs::write(folder.join(report::DOCUMENT), report::markdown(&contender::all(), &fixed, &changing))
}

fn measured(arguments: &ThinArguments) -> Vec<Record> {
    let mut contenders = contender::all();
    let is_chosen = |contender: &Contender| arguments.only.iter().any(|text| contender.name.contains(text));
    contenders.retain(|contender| arguments.only.is_empty() || is_chosen(contender));
    let needs_pion = |contender: &Contender| matches!(contender.means, Means::Pion(_));
    if contenders.iter().any(needs_pion)
        && let Err(error) = programs::folder("pion")
    {
        eprintln!("warning: pion is left out, since it cannot be built: {error}");
        contenders.retain(|contender| !needs_pion(contender));
    }
    let round_trip = Duration::from_millis(arguments.rtt);
    let task = |interval, loss_percent| Task { round_trip, interval, loss_percent };
    let tasks = |interval| arguments.loss.iter().map(move |&loss_percent| task(interval, loss_percent));
    let intervals = arguments.iat.iter().map(|&interval_ms| Some(Duration::from_millis(interval_ms)));
    let tasks: Vec<Task> = intervals.chain([None]).flat_map(tasks).collect();
    let cores = || thread::available_parallelism().map_or(1, NonZero::get);
    let threads = arguments.threads.unwrap_or_else(cores);
    measure(&contenders, &tasks, scale(arguments), threads)
}

fn scale(arguments: &ThinArguments) -> Scale {
    match (arguments.quick, arguments.long) {
        (true, _) => Scale { connections: 2, messages: 200, first_messages: 200 },
        (false, false) => Scale { connections: 20, messages: 1_000, first_messages: 12_000 },
        (false, true) => Scale { connections: 100, messages: 1_000, first_messages: 60_000 },
    }
}
