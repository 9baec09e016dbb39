//! Measures the behaviour of this machine's kernel TCP behind an emulated network, for `validation/host-tcp.toml`,
//! which the laboratory's experiment `host-tcp` compares with the TCP model.
//!
//! ```sh
//! cargo build --release -p festina-emulate --example host_tcp
//! chrt --fifo 50 target/release/examples/host_tcp > validation/host-tcp.toml
//! ```
//!
//! It takes eleven minutes and needs root's privileges. `chrt` gives it priority over all other processes.

#[path = "../tests/emulate/tun/kernel.rs"]
mod kernel;

use std::collections::BTreeMap;
use std::time::Duration;

use festina_emulate::TunError;
use festina_netsim::{LinkConfig, LossModel, QueueLimit};
use festina_units::Bandwidth;
use kernel::{Network, Segment};

/// One-way delay.
const DELAY: Duration = Duration::from_millis(40);
const RATE_MBIT_S: u64 = 10;
const QUEUE_PACKETS: usize = 100;
const GREEDY_SECONDS: u64 = 30;
const GREEDY_REPETITIONS: usize = 3;
const SCRIPT_REPETITIONS: usize = 11;

fn main() -> Result<(), TunError> {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    println!("# How the TCP of a Linux kernel behaves behind an emulated network. Measured, not written by hand:");
    println!("#   cargo build --release -p festina-emulate --example host_tcp");
    println!("#   chrt --fifo 50 target/release/examples/host_tcp > validation/host-tcp.toml\n");
    println!("kernel = \"{}\"", kernel.trim().split('-').next().unwrap_or_default());
    println!("delay_ms = {}", DELAY.as_millis());
    print_lateness()?;
    println!(
        "\n# Greedy flows through a bottleneck, {} ms apart. Goodput of each flow in Mbit/s, a",
        kernel::STAGGER.as_millis()
    );
    println!("# list for each repetition.");
    for congestion in ["reno", "cubic"] {
        for flows in [1, 4] {
            measure_greedy(congestion, flows)?;
        }
    }
    println!(
        "\n# One connection that writes this many bytes at this time (ms) and loses these packets, counted from its SYN"
    );
    println!(
        "# as packet 0. `resent` tells of each packet that was lost when it was sent again, in ms after it was first sent"
    );
    println!("# (median of {SCRIPT_REPETITIONS}).");
    for script in scripts() {
        measure_script(&script)?;
    }
    Ok(())
}

/// Prints the accuracy of the emulator on this machine.
fn print_lateness() -> Result<(), TunError> {
    let link = LinkConfig { delay: DELAY, ..LinkConfig::default() };
    let network = Network::new(link.clone(), link)?;
    let mut errors: Vec<_> = network.ping(200).into_iter().map(|rtt| rtt.saturating_sub(DELAY * 2)).collect();
    errors.sort();
    let lateness = network.counters().lateness;
    println!("\n[accuracy]");
    println!("# Of a ping's time beyond the delay both ways, in microseconds: median, 99%, most of 200.");
    println!("rtt_error_us = [{}, {}, {}]", errors[99].as_micros(), errors[197].as_micros(), errors[199].as_micros());
    println!("delivered_late_by_mean_us = {}", lateness.mean().as_micros());
    Ok(())
}

fn measure_greedy(congestion: &str, flows: usize) -> Result<(), TunError> {
    let slow = LinkConfig {
        rate: Some(Bandwidth::from_bits_per_second(RATE_MBIT_S * 1_000_000)),
        delay: DELAY,
        queue: QueueLimit::packets(QUEUE_PACKETS),
        ..LinkConfig::default()
    };
    println!("\n[[greedy]]\ncongestion = \"{congestion}\"\nflows = {flows}\nseconds = {GREEDY_SECONDS}");
    println!("rate_mbit_s = {RATE_MBIT_S}\nqueue_packets = {QUEUE_PACKETS}\ngoodput_mbit_s = [");
    let mut dropped = Vec::new();
    for _ in 0..GREEDY_REPETITIONS {
        let network = Network::new(slow.clone(), slow.clone())?;
        let bytes = network.greedy(flows, congestion, Duration::from_secs(GREEDY_SECONDS));
        let goodputs = bytes.iter().map(|bytes| format!("{:.3}", *bytes as f64 * 8e-6 / GREEDY_SECONDS as f64));
        println!("    [{}],", goodputs.collect::<Vec<_>>().join(", "));
        dropped.push(network.stop().forward.queue_dropped.to_string());
    }
    println!("]\nqueue_dropped = [{}]", dropped.join(", "));
    Ok(())
}

/// The writes and the losses of a connection.
struct Script {
    name: &'static str,
    /// Whether the kernel may send tail loss probes.
    probes: bool,
    /// Time in ms and number of bytes.
    writes: Vec<(u64, usize)>,
    /// The packets that are lost, counted from the SYN.
    lost: Vec<u64>,
}

/// Small messages sent before the measurement, so that the round-trip time is known.
const WARM_UP: u64 = 8;
/// SYN, the acknowledgement of the answer, and the small messages.
const PACKETS_BEFORE: u64 = 2 + WARM_UP;
const WARM_UP_INTERVAL_MS: u64 = 200;
const SEGMENT_BYTES: usize = 1_448;

fn scripts() -> Vec<Script> {
    let script = |name, probes, segments: usize, lost: &[u64]| {
        let mut writes: Vec<_> = (0..WARM_UP).map(|number| (number * WARM_UP_INTERVAL_MS, 100)).collect();
        let bytes = if segments == 0 { 100 } else { segments * SEGMENT_BYTES };
        writes.push((WARM_UP * WARM_UP_INTERVAL_MS, bytes));
        let lost = lost.iter().map(|number| PACKETS_BEFORE + number).collect();
        Script { name, probes, writes, lost }
    };
    vec![
        script("timeouts", false, 0, &[0, 1, 2, 3]),
        script("lone-segment", true, 0, &[0]),
        script("lost-probe", true, 0, &[0, 1, 2]),
        script("lost-tail", true, 10, &[9]),
        script("lost-flight", true, 4, &[0, 1, 2, 3]),
        script("one-in-ten", true, 10, &[3]),
        script("two-in-ten", true, 10, &[3, 5]),
        script("two-behind", true, 4, &[1]),
    ]
}

fn measure_script(script: &Script) -> Result<(), TunError> {
    let back = LinkConfig { delay: DELAY, ..LinkConfig::default() };
    let forth = LinkConfig { loss: LossModel::Exact(script.lost.clone()), ..back.clone() };
    let writes: Vec<_> = script.writes.iter().map(|&(ms, bytes)| (Duration::from_millis(ms), bytes)).collect();
    let mut runs = Vec::new();
    for _ in 0..SCRIPT_REPETITIONS {
        let network = Network::new(forth.clone(), back.clone())?;
        let probes = if script.probes { "3" } else { "0" };
        network.set("net/ipv4/tcp_early_retrans", probes).map_err(TunError::System)?;
        runs.push(resent_ms(&network.scripted("cubic", &writes, Duration::from_millis(500))));
    }
    let writes: Vec<_> = script.writes.iter().map(|(ms, bytes)| format!("[{ms}, {bytes}]")).collect();
    let resent: Vec<_> = spans(&runs).iter().map(|span| format!("{span:?}")).collect();
    println!("\n[[script]]\nname = \"{}\"\nprobes = {}", script.name, script.probes);
    println!("writes = [{}]\nlost = {:?}", writes.join(", "), script.lost);
    println!("resent_ms = [{}]", resent.join(", "));
    Ok(())
}

/// The delays of all retransmissions, packet by packet and in order, in ms after the first transmission.
fn resent_ms(segments: &[Segment]) -> Vec<f64> {
    let mut first = BTreeMap::new();
    let mut resent = Vec::new();
    for segment in segments {
        match first.get(&segment.sequence) {
            None => {
                first.insert(segment.sequence, segment.at);
            }
            Some(first) => resent.push((segment.at - *first).as_secs_f64() * 1e3),
        }
    }
    resent
}

/// Returns the minimum, the median and the maximum at each place.
fn spans(runs: &[Vec<f64>]) -> Vec<[f64; 3]> {
    let places = runs.iter().map(Vec::len).max().unwrap_or(0);
    (0..places)
        .map(|place| {
            let mut values: Vec<f64> = runs.iter().filter_map(|run| run.get(place).copied()).collect();
            values.sort_by(f64::total_cmp);
            [0, values.len() / 2, values.len() - 1].map(|index| (values[index] * 10.0).round() / 10.0)
        })
        .collect()
}
