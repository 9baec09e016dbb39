//! Festina over real sockets beside QUIC's datagrams and the kernel's TCP: round trips of a small message, and messages per second. Both
//! ends are in this process and talk over loopback.
#![forbid(unsafe_code)]

mod bulk;
mod channel;
mod clocks;
mod crowd;
mod moves;
mod ping;

use std::time::Duration;

use clap::Parser;
use hdrhistogram::Histogram;
use tokio::runtime::{Builder, Runtime};

use crate::bulk::bulk;
use crate::channel::{Failure, Festina, FestinaBatches, FestinaEncrypted, Quinn, Tcp, Transport};
use crate::ping::ping;

/// Bytes of a message that goes there and back.
const PING_BYTES: usize = 100;

/// Bytes of messages that only go there.
const BULK_BYTES: [usize; 2] = [1_200, 64];

/// Round trips and throughput of festina, of quinn's datagrams and of the kernel's TCP, in turn.
#[derive(Parser)]
struct Arguments {
    /// Seconds of each measurement
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Rounds; each measures every transport once
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Tasks that send at the same time when throughput is measured
    #[arg(long, default_value_t = 1)]
    senders: usize,
    /// Only "ping", only "bulk", "crowd": very many associations in two processes, or "moves": a client whose address changes
    #[arg(long, default_value = "")]
    work: String,
    /// Only the transports whose name contains this text, or is this text if one is
    #[arg(long, default_value = "")]
    only: String,
    /// Only the runtimes whose name contains this text
    #[arg(long, default_value = "")]
    runtime: String,
    /// Bytes of a message, instead of 1,200 and 64
    #[arg(long)]
    bytes: Option<usize>,
    /// Associations of the crowd
    #[arg(long, default_value_t = 100_000)]
    associations: usize,
    /// MTU of the path, up to which festina and quinn look for larger packets; 9000 for instance
    #[arg(long)]
    mtu: Option<u16>,
    /// Also print what the transports say of themselves
    #[arg(long)]
    details: bool,
}

impl Arguments {
    fn picks(&self, name: &str) -> bool {
        let is_name = [Festina::NAME, FestinaBatches::NAME, FestinaEncrypted::NAME, Quinn::NAME, Tcp::NAME]
            .contains(&self.only.as_str());
        if is_name { name == self.only } else { name.contains(&self.only) }
    }
}

/// A kind of tokio runtime, by its name.
type Kind = (&'static str, fn() -> std::io::Result<Runtime>);

/// The runtimes that everything is measured in.
const RUNTIMES: [Kind; 2] = [
    ("current-thread", || Builder::new_current_thread().enable_all().build()),
    ("multi-thread (2)", || Builder::new_multi_thread().worker_threads(2).enable_all().build()),
];

fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    let [_, (_, build)] = RUNTIMES;
    channel::set_mtu(arguments.mtu);
    match arguments.work.as_str() {
        "crowd" => {
            let duration = Duration::from_secs_f64(arguments.seconds);
            return build()?.block_on(crowd::crowd(arguments.associations, duration));
        }
        "moves" => return build()?.block_on(moves::moves(Duration::from_secs_f64(arguments.seconds))),
        crowd::LISTEN => return build()?.block_on(crowd::listen(arguments.associations)),
        _ => {}
    }
    for (name, build) in RUNTIMES.iter().filter(|(name, _)| name.contains(&arguments.runtime)) {
        if "ping".contains(&arguments.work) {
            println!("{PING_BYTES} bytes there and back, {name}");
            println!("{:>18} {:>12} {:>9} {:>9} {:>15}", "", "round trips", "p50 us", "p99 us", "CPU us per trip");
            measure_pings(*build, &arguments)?;
        }
        let sizes = arguments.bytes.map_or(BULK_BYTES.to_vec(), |bytes| vec![bytes]);
        for message_bytes in sizes.into_iter().filter(|_| "bulk".contains(&arguments.work)) {
            println!("{message_bytes} bytes there, {} tasks send, {name}", arguments.senders);
            println!("{:>18} {:>12} {:>23} {:>9} {:>14}", "", "messages/s", "range", "CPU s/GB", "CPU us/message");
            measure_bulk(*build, message_bytes, &arguments)?;
        }
    }
    Ok(())
}

fn measure_pings(build: fn() -> std::io::Result<Runtime>, arguments: &Arguments) -> Result<(), Failure> {
    let mut pings = [Pings::of::<Festina>(), Pings::of::<FestinaEncrypted>(), Pings::of::<Quinn>(), Pings::of::<Tcp>()];
    for _ in 0..arguments.rounds {
        for pings in pings.iter_mut().filter(|pings| arguments.picks(pings.name)) {
            (pings.add)(pings, &build()?, arguments)?;
        }
    }
    for Pings { name, times, cpu, remarks, .. } in pings.iter().filter(|pings| !pings.times.is_empty()) {
        let (p50, p99) = (times.value_at_quantile(0.5), times.value_at_quantile(0.99));
        println!(
            "{name:>18} {:>12} {:>9.1} {:>9.1} {:>15.1}",
            times.len(),
            microseconds(Duration::from_nanos(p50)),
            microseconds(Duration::from_nanos(p99)),
            per(microseconds(*cpu), times.len()),
        );
        print_remarks(remarks, arguments);
    }
    Ok(())
}

/// The round trips of one transport.
struct Pings {
    name: &'static str,
    add: fn(&mut Pings, &Runtime, &Arguments) -> Result<(), Failure>,
    times: Histogram<u64>,
    cpu: Duration,
    remarks: Vec<String>,
}

impl Pings {
    fn of<T: Transport>() -> Self {
        let times = Histogram::new(3).expect("three digits are allowed");
        Self { name: T::NAME, add: Self::add::<T>, times, cpu: Duration::ZERO, remarks: Vec::new() }
    }

    fn add<T: Transport>(&mut self, runtime: &Runtime, arguments: &Arguments) -> Result<(), Failure> {
        let measured = runtime.block_on(ping::<T>(PING_BYTES, Duration::from_secs_f64(arguments.seconds)))?;
        self.times.add(&measured.times)?;
        self.cpu += measured.cpu;
        self.remarks.push(measured.remark);
        Ok(())
    }
}

/// What one transport carried, round by round.
struct Rates {
    name: &'static str,
    add: fn(&mut Rates, &Runtime, usize, &Arguments) -> Result<(), Failure>,
    per_second: Vec<f64>,
    messages: u64,
    cpu: Duration,
    remarks: Vec<String>,
}

impl Rates {
    fn of<T: Transport>() -> Self {
        let (per_second, remarks) = (Vec::new(), Vec::new());
        Self { name: T::NAME, add: Self::add::<T>, per_second, messages: 0, cpu: Duration::ZERO, remarks }
    }

    fn add<T: Transport>(&mut self, runtime: &Runtime, bytes: usize, arguments: &Arguments) -> Result<(), Failure> {
        let duration = Duration::from_secs_f64(arguments.seconds);
        let carried = runtime.block_on(bulk::<T>(bytes, arguments.senders, duration))?;
        self.per_second.push(1.0 / per(carried.wall.as_secs_f64(), carried.messages));
        self.messages += carried.messages;
        self.cpu += carried.cpu;
        self.remarks.push(carried.remark);
        Ok(())
    }
}

fn measure_bulk(build: fn() -> std::io::Result<Runtime>, bytes: usize, arguments: &Arguments) -> Result<(), Failure> {
    let mut rates = [
        Rates::of::<Festina>(),
        Rates::of::<FestinaBatches>(),
        Rates::of::<FestinaEncrypted>(),
        Rates::of::<Quinn>(),
        Rates::of::<Tcp>(),
    ];
    for _ in 0..arguments.rounds {
        for rates in rates.iter_mut().filter(|rates| arguments.picks(rates.name)) {
            (rates.add)(rates, &build()?, bytes, arguments)?;
        }
    }
    for Rates { name, per_second, messages, cpu, remarks, .. } in &mut rates {
        per_second.sort_unstable_by(f64::total_cmp);
        let (Some(least), Some(most)) = (per_second.first(), per_second.last()) else { continue };
        let median = per_second.get(per_second.len() / 2).copied().unwrap_or_default();
        let cpu_us = per(microseconds(*cpu), *messages);
        let cpu_per_gb = per(cpu_us * 1e3, bytes as u64);
        println!("{name:>18} {median:>12.0} {least:>11.0}-{most:<11.0} {cpu_per_gb:>9.2} {cpu_us:>14.2}");
        print_remarks(remarks, arguments);
    }
    Ok(())
}

fn print_remarks(remarks: &[String], arguments: &Arguments) {
    for remark in remarks.iter().filter(|remark| arguments.details && !remark.is_empty()) {
        println!("{:>18} {remark}", "");
    }
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[expect(clippy::cast_precision_loss, reason = "a report")]
fn per(amount: f64, count: u64) -> f64 {
    amount / count.max(1) as f64
}
