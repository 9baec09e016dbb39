//! Measures Festina and its peers at the same work, in turn, and prints the comparison.

mod allocation;
mod changing_command;
#[cfg(target_os = "linux")]
mod multipath_command;
mod thin_command;

use std::io::Write;
use std::panic::{UnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use festina_bench_peers::Stack;
use festina_bench_peers::measure::{
    BulkSample, Path, allocations_per_message, bulk, idle_bytes_per_endpoint, keep_freed_memory,
};
use festina_bench_peers::report::{Bulk, Report, Row};
use festina_bench_peers::stack::{DcSctp, Festina, RtcSctp, SctpProto};

#[global_allocator]
static ALLOCATOR: allocation::CountingAllocator = allocation::CountingAllocator;

/// Sizes of the messages in bulk transfers, in bytes.
const MESSAGE_BYTES: [usize; 2] = [1_200, 64];

/// Messages in each direction before an association goes idle.
const MESSAGES_BEFORE_IDLE: u64 = 4;

/// The same bulk transfer and the same idle associations with every SCTP stack, in one process.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Also write the results as JSON to this file; "-" for standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// A tenth of the time and of the associations: to see that it works, not for numbers to quote
    #[arg(long, conflicts_with = "long")]
    quick: bool,
    /// Ten times the time: for numbers to quote
    #[arg(long)]
    long: bool,
    /// Only these paths, as the table names them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    path: Vec<String>,
    /// Only the stacks whose name contains this text
    #[arg(long, value_name = "NAME", default_value = "")]
    only: String,
}

/// Other comparisons.
#[derive(Subcommand)]
enum Command {
    Thin(thin_command::ThinArguments),
    Changing(changing_command::ChangingArguments),
    #[cfg(target_os = "linux")]
    Multipath(multipath_command::MultipathArguments),
}

/// The scale of a run.
struct Scale {
    repetitions: usize,
    cpu_per_repetition: Duration,
    idle_associations: usize,
}

impl Scale {
    fn of(arguments: &Arguments) -> Self {
        let scale = |repetitions, cpu_ms, idle_associations| Scale {
            repetitions,
            cpu_per_repetition: Duration::from_millis(cpu_ms),
            idle_associations,
        };
        match (arguments.quick, arguments.long) {
            (true, _) => scale(1, 10, 1_000),
            (false, false) => scale(7, 100, 10_000),
            (false, true) => scale(7, 1_000, 10_000),
        }
    }
}

/// Results of a stack for one path and message size, by repetition.
type Repetitions = Vec<Result<BulkSample, String>>;

/// [`allocations_per_message`] of one stack.
type CountAllocations = fn(&Path, usize, Duration, fn() -> u64) -> Result<f64, String>;

/// One stack's measurements as plain functions, so that different stacks fit in one list.
struct Contender {
    name: &'static str,
    subject: bool,
    remark: &'static str,
    bulk: fn(&Path, usize, u64, Duration) -> Result<BulkSample, String>,
    allocations: CountAllocations,
    idle: fn(usize, u64, fn() -> i64) -> f64,
}

impl Contender {
    fn of<S: Stack>(remark: &'static str) -> Self {
        Contender {
            name: S::NAME,
            subject: false,
            remark,
            bulk: bulk::<S>,
            allocations: allocations_per_message::<S>,
            idle: idle_bytes_per_endpoint::<S>,
        }
    }
}

fn contenders() -> Vec<Contender> {
    vec![
        Contender { subject: true, ..Contender::of::<Festina>("") },
        Contender::of::<RtcSctp>(""),
        Contender::of::<DcSctp>(
            "as shipped it writes every packet that it sends or receives as hexadecimal text (logging::log_packet in lib.rs, \
             called from socket/mod.rs) before it asks whether anyone logs; most of its CPU time goes there.",
        ),
        Contender::of::<SctpProto>(
            "sorts the TSNs of everything in flight each time a chunk is added (PayloadQueue::push in queue/payload_queue.rs).",
        ),
    ]
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match &arguments.command {
        Some(Command::Thin(thin)) => return exit_code(thin_command::run(thin)),
        Some(Command::Changing(changing)) => return exit_code(changing_command::run(changing)),
        #[cfg(target_os = "linux")]
        Some(Command::Multipath(multipath)) => return exit_code(multipath_command::run(multipath)),
        None => {}
    }
    keep_freed_memory();
    let scale = Scale::of(&arguments);
    let mut contenders = contenders();
    contenders.retain(|contender| contender.name.contains(&arguments.only));
    if contenders.is_empty() {
        eprintln!("error: no stack's name contains {:?}", arguments.only);
        return ExitCode::from(2);
    }
    let known = Path::all();
    if let Some(unknown) = arguments.path.iter().find(|name| known.iter().all(|path| path.name != name.as_str())) {
        let names: Vec<&str> = known.iter().map(|path| path.name).collect();
        eprintln!("error: no path is called {unknown:?}; there are {}", names.join(", "));
        return ExitCode::from(2);
    }
    let chosen = |path: &Path| arguments.path.is_empty() || arguments.path.iter().any(|name| name == path.name);
    let paths: Vec<Path> = known.into_iter().filter(chosen).collect();
    exit_code(publish(&measure(&contenders, &paths, &scale), arguments.json.as_deref()))
}

fn exit_code(result: std::io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Each round gives every stack its turn at each path and size, so that a slow spell of the machine burdens all of them.
fn measure(contenders: &[Contender], paths: &[Path], scale: &Scale) -> Report {
    let works: Vec<(&Path, usize)> =
        paths.iter().flat_map(|path| MESSAGE_BYTES.map(|message_bytes| (path, message_bytes))).collect();
    let mut samples = vec![vec![Repetitions::new(); works.len()]; contenders.len()];
    for round in 1..=scale.repetitions {
        eprintln!("bulk transfer, round {round} of {}", scale.repetitions);
        for (index, (path, message_bytes)) in works.iter().enumerate() {
            for (contender, by_work) in contenders.iter().zip(&mut samples) {
                // All stacks meet the same losses in the same round.
                let repetition = || (contender.bulk)(path, *message_bytes, round as u64, scale.cpu_per_repetition);
                by_work[index].push(catch(repetition));
            }
        }
    }
    eprintln!("allocations, and memory of {} idle associations", scale.idle_associations);
    allocation::start_counting();
    let rows =
        contenders.iter().zip(&samples).map(|(contender, by_work)| row(contender, &works, by_work, scale)).collect();
    allocation::stop_counting();
    Report { repetitions: scale.repetitions, idle_associations: scale.idle_associations, rows }
}

/// Sums up one stack's bulk transfers and takes the measurements that need the allocator to count.
fn row(contender: &Contender, works: &[(&Path, usize)], samples: &[Repetitions], scale: &Scale) -> Row {
    let summed_up = |(&(path, message_bytes), repetitions): (&(&Path, usize), &Repetitions)| {
        let cpu = scale.cpu_per_repetition;
        let allocations = catch(|| (contender.allocations)(path, message_bytes, cpu, allocation::allocations));
        Bulk::of(path, message_bytes, repetitions, allocations.ok())
    };
    let [fresh_bytes_per_endpoint, idle_bytes_per_endpoint] = [0, MESSAGES_BEFORE_IDLE]
        .map(|messages| (contender.idle)(scale.idle_associations, messages, allocation::live_bytes));
    Row {
        stack: contender.name.into(),
        subject: contender.subject,
        bulk: works.iter().zip(samples).map(summed_up).collect(),
        fresh_bytes_per_endpoint,
        idle_bytes_per_endpoint,
        remark: contender.remark.into(),
    }
}

/// Lets a stack that panics fail alone; its message is on standard error.
fn catch<T>(measure: impl FnOnce() -> Result<T, String> + UnwindSafe) -> Result<T, String> {
    catch_unwind(measure).unwrap_or_else(|_| Err("it panicked".into()))
}

fn publish(report: &Report, json: Option<&std::path::Path>) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match json {
        Some(path) if path.as_os_str() == "-" => writeln!(out, "{}", serde_json::to_string_pretty(report)?),
        Some(path) => {
            std::fs::write(path, serde_json::to_string_pretty(report)?)?;
            write!(out, "{}", report.table())
        }
        None => write!(out, "{}", report.table()),
    }
}
