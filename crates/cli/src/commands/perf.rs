//! `festina perf`: the throughput of a path, and the delay of a concurrent thin stream.
//!
//! - [`hello`]: what the two ends say to each other
//! - [`serve`]: the server
//! - [`plan`]: a measurement, its plan and its results
//! - [`measure`]: the client; [`tally`]: the counters of its tasks
//! - [`report`]: the results, for people and for programs

mod hello;
mod measure;
mod plan;
mod report;
mod serve;
mod tally;

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use festina::ConnectOptions;

use super::recording::PcapArgs;
use super::{AlsoArgs, RecoveryArgs, ViaArgs};
use crate::address::{self, HostPort};
use crate::args;
use crate::keys::ServerTrustArgs;

/// A bulk message's bounds in bytes.
const MESSAGE_BYTES_MIN: u32 = 1;
const MESSAGE_BYTES_MAX: u32 = 1 << 20;
/// More associations would measure the machine and not the path.
const PARALLEL_MAX: i64 = 128;

const EXAMPLES: &str = "\
Examples:
  festina perf -s                              a server on every address, UDP port 9899
  festina perf -c 192.0.2.7                    ten seconds towards it
  festina perf -c 192.0.2.7 -R -P 4 -i 1s      from it, on four associations, with a line each second
  festina perf -c 192.0.2.7 --bidir --json     both ways at the same time, for programs

A thin stream also sends 100 bytes every 20 ms and has them sent back: first alone, for --idle, and then together with the \
load. The grade depends on how much the load adds to the median: A+ below 5 ms, A below 30, B below 60, C below 200, D below \
400, else F. A bad grade means that a queue on the path is too long.";

/// Arguments of `festina perf`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, group(clap::ArgGroup::new("role").required(true).args(["server", "client"])))]
pub(crate) struct PerfArgs {
    /// Wait for clients and serve their requests
    #[arg(short, long, conflicts_with_all = ["time", "parallel", "length", "reverse", "bidir", "interval", "json", "idle", "fingerprint", "ca", "via"])]
    server: bool,
    /// Measure the path to this server: HOST, HOST:PORT or [IPV6]:PORT; the UDP port is 9899 by default
    #[arg(short, long, value_name = "HOST:PORT", value_parser = address::peer, conflicts_with = "also")]
    client: Option<HostPort>,
    /// Where the server listens: ADDRESS:PORT, or :PORT for every address
    #[arg(short = 'B', long, value_name = "ADDRESS:PORT", default_value = ":9899", conflicts_with = "client")]
    bind: HostPort,
    /// Exit when the first client has left
    #[arg(short = '1', long, conflicts_with = "client")]
    one_off: bool,
    /// How long to send at full speed
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = seconds)]
    time: Duration,
    /// Number of associations that load the path in each direction
    #[arg(short = 'P', long, value_name = "NUMBER", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=PARALLEL_MAX))]
    parallel: u16,
    /// Size of a message of the load, 1 to 1048576 bytes
    #[arg(short, long, value_name = "SIZE", default_value = "8192")]
    #[arg(value_parser = args::size(MESSAGE_BYTES_MIN..=MESSAGE_BYTES_MAX))]
    length: u32,
    /// The server sends, the client receives
    #[arg(short = 'R', long)]
    reverse: bool,
    /// Both send
    #[arg(long, conflicts_with = "reverse")]
    bidir: bool,
    /// Interval between intermediate results
    #[arg(short, long, value_name = "TIME", value_parser = seconds)]
    interval: Option<Duration>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// How long to measure the thin stream alone, before the load
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = seconds)]
    idle: Duration,
    /// Give up if the server does not answer the first message, or nothing more at the end, for this time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = args::positive_duration)]
    timeout: Duration,
    #[command(flatten)]
    endpoint: EndpointArgs,
}

/// Settings of the endpoints of either role.
#[derive(Debug, Args)]
struct EndpointArgs {
    #[command(flatten)]
    others: AlsoArgs,
    #[command(flatten)]
    own: ViaArgs,
    #[command(flatten)]
    recovery: RecoveryArgs,
    #[command(flatten)]
    trust: ServerTrustArgs,
    #[command(flatten)]
    pcap: PcapArgs,
}

/// Serves until interrupted, or measures and prints the result.
pub(crate) async fn run(arguments: PerfArgs) -> Result<()> {
    let transport = arguments.endpoint.recovery.transport();
    let Some(host) = &arguments.client else {
        let (config, fingerprint) = arguments.endpoint.trust.identity().of_server(transport)?;
        let recording = arguments.endpoint.pcap.begin()?;
        let config = arguments.endpoint.others.named(config);
        let security = (recording.with_secrets_of_server(config), fingerprint);
        let served = serve::run(&arguments.bind, security, arguments.one_off, &recording).await;
        recording.finish()?;
        return served;
    };
    let addresses = host.resolve_all().await?;
    let options = ConnectOptions::default().handshake_timeout(arguments.timeout);
    let mut client = arguments.endpoint.trust.client(transport, options, host)?;
    let plan = plan::Plan {
        patience: arguments.timeout,
        upload: !arguments.reverse,
        download: arguments.reverse || arguments.bidir,
        parallel: arguments.parallel,
        message_bytes: arguments.length,
        idle: arguments.idle,
        time: arguments.time,
        interval: arguments.interval,
    };
    let recording = arguments.endpoint.pcap.begin()?;
    client.config = recording.with_secrets_of_client(client.config);
    let measured = measure::run(&plan, addresses, (client, arguments.endpoint.own), &recording).await;
    recording.finish()?;
    let result = measured.context("the measurement failed")?;
    report::print(&plan, &result, arguments.json).await?;
    if result.loaded_for.is_zero() {
        bail!("interrupted before the load began");
    }
    let arrived = [(plan.upload, "there"), (plan.download, "back")].into_iter().zip(result.bytes);
    if let Some(((_, way), _)) = arrived.into_iter().find(|((is_planned, _), bytes)| *is_planned && *bytes == 0)
        && result.is_whole
    {
        bail!("nothing of the load arrived {way}");
    }
    Ok(())
}

/// Reads a duration above zero; a number without a unit is in seconds, as iperf's users write it.
fn seconds(text: &str) -> Result<Duration, String> {
    if text.parse::<u32>().is_ok() {
        args::positive_duration(&format!("{text}s"))
    } else {
        args::positive_duration(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_a_unit_is_in_seconds() {
        assert_eq!(seconds("10"), Ok(Duration::from_secs(10)));
        assert_eq!(seconds("250ms"), Ok(Duration::from_millis(250)));
        assert!(seconds("0").is_err() && seconds("ten").is_err());
    }
}
