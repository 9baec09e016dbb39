//! Measures Festina and its peers at the same work, in turn, and prints the comparison.

mod allocation;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use festina_bench_peers::Stack;
use festina_bench_peers::measure::{BulkSample, allocations_per_message, bulk, idle_bytes_per_endpoint};
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
struct Arguments {
    /// Also write the results as JSON to this file; "-" for standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// A tenth of the time and of the associations: to see that it works, not for numbers to quote
    #[arg(long)]
    quick: bool,
    /// Only the stacks whose name contains this text
    #[arg(long, value_name = "NAME", default_value = "")]
    only: String,
}

/// The scale of a run.
struct Scale {
    repetitions: usize,
    cpu_per_repetition: Duration,
    idle_associations: usize,
}

/// One stack's measurements as plain functions, so that different stacks fit in one list.
struct Contender {
    name: &'static str,
    subject: bool,
    remark: &'static str,
    bulk: fn(usize, Duration) -> BulkSample,
    allocations: fn(usize, fn() -> u64) -> f64,
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
    let scale = if arguments.quick {
        Scale { repetitions: 3, cpu_per_repetition: Duration::from_millis(100), idle_associations: 1_000 }
    } else {
        Scale { repetitions: 7, cpu_per_repetition: Duration::from_secs(1), idle_associations: 10_000 }
    };
    let mut contenders = contenders();
    contenders.retain(|contender| contender.name.contains(&arguments.only));
    if contenders.is_empty() {
        eprintln!("error: no stack's name contains {:?}", arguments.only);
        return ExitCode::from(2);
    }
    match publish(&measure(&contenders, &scale), arguments.json.as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Each round gives every stack its turn, so that a slow spell of the machine burdens all of them.
fn measure(contenders: &[Contender], scale: &Scale) -> Report {
    let mut samples = vec![[const { Vec::new() }; MESSAGE_BYTES.len()]; contenders.len()];
    for round in 1..=scale.repetitions {
        eprintln!("bulk transfer, round {round} of {}", scale.repetitions);
        for (contender, by_size) in contenders.iter().zip(&mut samples) {
            for (message_bytes, samples) in MESSAGE_BYTES.into_iter().zip(by_size) {
                samples.push((contender.bulk)(message_bytes, scale.cpu_per_repetition));
            }
        }
    }
    eprintln!("allocations, and memory of {} idle associations", scale.idle_associations);
    allocation::start_counting();
    let rows = contenders.iter().zip(&samples).map(|(contender, by_size)| row(contender, by_size, scale)).collect();
    allocation::stop_counting();
    Report { repetitions: scale.repetitions, idle_associations: scale.idle_associations, rows }
}

/// Sums up one stack's bulk transfers and takes the measurements that need the allocator to count.
fn row(contender: &Contender, samples: &[Vec<BulkSample>], scale: &Scale) -> Row {
    let summed_up = |(message_bytes, samples): (usize, &Vec<BulkSample>)| {
        Bulk::of(message_bytes, samples, (contender.allocations)(message_bytes, allocation::allocations))
    };
    let [fresh_bytes_per_endpoint, idle_bytes_per_endpoint] = [0, MESSAGES_BEFORE_IDLE]
        .map(|messages| (contender.idle)(scale.idle_associations, messages, allocation::live_bytes));
    Row {
        stack: contender.name.into(),
        subject: contender.subject,
        bulk: MESSAGE_BYTES.into_iter().zip(samples).map(summed_up).collect(),
        fresh_bytes_per_endpoint,
        idle_bytes_per_endpoint,
        remark: contender.remark.into(),
    }
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
