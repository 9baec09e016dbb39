//! One bulk transfer by one stack, for a profiler: `cargo run --release -p festina-bench-peers --example transfer -- --help`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use festina_bench_peers::Stack;
use festina_bench_peers::measure::{BulkSample, Path, Wire, bulk, keep_freed_memory};
use festina_bench_peers::stack::{DcSctp, Festina, RtcSctp, SctpProto};

/// One bulk transfer by one stack over one path.
#[derive(Parser)]
struct Arguments {
    /// The stack whose name begins with this
    #[arg(long, value_name = "NAME", default_value = "festina")]
    stack: String,
    /// direct, 20ms, 20ms-loss or 20ms-reordering
    #[arg(long, value_name = "NAME", default_value = "20ms")]
    path: String,
    /// Time from one end of the wire to the other, instead of the path's
    #[arg(long, value_name = "MICROSECONDS")]
    delay: Option<u64>,
    /// Receiver window, instead of the path's
    #[arg(long, value_name = "KIB")]
    window: Option<u32>,
    /// Size of each message
    #[arg(long, value_name = "BYTES", default_value_t = 1_200)]
    message: usize,
    /// CPU time of the transfer
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 1_000)]
    cpu: u64,
}

/// [`bulk`] of one stack.
type Transfer = fn(&Path, usize, u64, Duration) -> Result<BulkSample, String>;

fn stack(name: &str) -> Option<Transfer> {
    let stacks: [(&str, Transfer); 4] = [
        (Festina::NAME, bulk::<Festina>),
        (RtcSctp::NAME, bulk::<RtcSctp>),
        (DcSctp::NAME, bulk::<DcSctp>),
        (SctpProto::NAME, bulk::<SctpProto>),
    ];
    stacks.into_iter().find(|(known, _)| known.starts_with(name)).map(|(_, transfer)| transfer)
}

fn path(arguments: &Arguments) -> Option<Path> {
    let found = Path::all().into_iter().find(|path| path.name == arguments.path)?;
    let delayed = |wire: Wire| Wire { delay: arguments.delay.map_or(wire.delay, Duration::from_micros), ..wire };
    let mut path = Path { wire: found.wire.map(delayed), ..found };
    if let Some(kib) = arguments.window {
        path.settings.receive_window_bytes = kib << 10;
    }
    Some(path)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    keep_freed_memory();
    let (Some(transfer), Some(path)) = (stack(&arguments.stack), path(&arguments)) else {
        eprintln!("error: no such stack or no such path");
        return ExitCode::from(2);
    };
    match transfer(&path, arguments.message, 1, Duration::from_millis(arguments.cpu)) {
        Ok(sample) => {
            println!(
                "{} messages, {:.3} CPU-s/GB, {:.0} messages/s per core, {:?} of virtual time, goodput {:?} MB/s, packets per message {:?}",
                sample.messages,
                sample.cpu_seconds_per_gigabyte(),
                sample.messages_per_cpu_second(),
                sample.time,
                sample.goodput_megabytes_per_second(),
                sample.packets_per_message()
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
