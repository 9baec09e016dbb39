//! `festina emulate`: be a bad network.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use festina_emulate::{ProxyCounters, RunningProxy, UdpProxy};
use festina_netsim::LinkCounters;

use crate::address::HostPort;
use crate::link::{BackArgs, LinkArgs};
use crate::{args, output, signal};

/// How often the proxy is asked whether it still lives.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

const EXAMPLES: &str = "\
Examples:
  festina emulate udp --listen 127.0.0.1:9000 --to 127.0.0.1:9899 --delay 50ms --loss 5%
  festina emulate udp --listen :9000 --to game.example:7777 --rate 1Mbit/s --back-rate 8Mbit/s
  festina emulate udp --listen 127.0.0.1:9000 --to 127.0.0.1:9899 --loss 1% --burst 200ms --time 30s

What holds for the way there (from the clients to --to) holds for the way back too, unless a flag says otherwise. \
On Ctrl-C, or after --time, it prints what it did.";

/// What kind of network to be.
#[derive(Debug, Subcommand)]
pub(crate) enum EmulateCommand {
    /// Pass UDP datagrams on, late, out of order or not at all; needs no privilege
    Udp(Box<UdpArgs>),
}

/// Arguments of `festina emulate udp`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UdpArgs {
    /// Where clients send to
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: HostPort,
    /// Where their datagrams go
    #[arg(long, value_name = "HOST:PORT")]
    to: HostPort,
    /// End after this time instead of on Ctrl-C
    #[arg(long, value_name = "TIME", value_parser = args::positive_duration)]
    time: Option<Duration>,
    /// The same seed loses the same packets
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    link: LinkArgs,
    #[command(flatten)]
    back: BackArgs,
}

/// Emulates until interrupted or the time is over, then prints what was done.
pub(crate) async fn run(command: EmulateCommand) -> Result<()> {
    let EmulateCommand::Udp(arguments) = command;
    let forward = arguments.link.config()?;
    let backward = arguments.back.over(&arguments.link).config()?;
    let listen = arguments.listen.resolve().await?;
    let target = arguments.to.resolve().await?;
    let proxy = UdpProxy::bind(listen, target, forward, backward, arguments.seed)
        .and_then(UdpProxy::spawn)
        .with_context(|| format!("cannot listen on {listen}"))?;
    output::notice(&format!("{} leads to {target}", proxy.local_addr()));
    wait_for_the_end(&proxy, arguments.time).await;
    let counters = proxy.stop().context("the proxy failed")?;
    output::print(&summary(&counters, target))?;
    Ok(())
}

/// Returns when interrupted, when the time is over, or when the proxy has failed.
async fn wait_for_the_end(proxy: &RunningProxy, time: Option<Duration>) {
    let time_is_over = async {
        match time {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    let failed = async {
        while !proxy.has_failed() {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    };
    tokio::select! {
        () = signal::interrupted() => {}
        () = time_is_over => {}
        () = failed => {}
    }
}

fn summary(counters: &ProxyCounters, target: SocketAddr) -> String {
    let rows: Vec<(&str, [String; 2])> = vec![
        ("packets offered", both(counters, |link| link.offered)),
        ("bytes offered", both(counters, |link| link.offered_bytes.bytes())),
        ("packets delivered", both(counters, |link| link.delivered)),
        ("bytes delivered", both(counters, |link| link.delivered_bytes.bytes())),
        ("lost", both(counters, |link| link.lost)),
        ("dropped by the queue", both(counters, |link| link.queue_dropped)),
        ("reordered", both(counters, |link| link.reordered)),
        ("duplicated", both(counters, |link| link.duplicated)),
        ("corrupted", both(counters, |link| link.corrupted)),
    ];
    let mut text = format!("{:<22}{:>14}{:>14}", format!("to {target}"), "there", "back");
    for (name, [there, back]) in rows {
        text += &format!("\n{name:<22}{there:>14}{back:>14}");
    }
    text += &format!(
        "\n{} clients; delivered {} us late on average, {} us at worst",
        counters.clients,
        counters.lateness_mean().as_micros(),
        counters.lateness_max.as_micros(),
    );
    if counters.refused > 0 || counters.send_failed > 0 {
        let ProxyCounters { refused, send_failed, .. } = counters;
        text += &format!("\n{refused} datagrams of too many clients ignored; {send_failed} could not be sent on");
    }
    text
}

fn both(counters: &ProxyCounters, count: impl Fn(&LinkCounters) -> u64) -> [String; 2] {
    [&counters.forward, &counters.backward].map(|link| count(link).to_string())
}
