//! `festina emulate udp`: a UDP proxy.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use festina_emulate::{ProxyCounters, UdpProxy};

use super::{lateness_text, table, wait_for_the_end};
use crate::address::HostPort;
use crate::link::{BackArgs, LinkArgs};
use crate::{args, output};

const EXAMPLES: &str = "\
Examples:
  festina emulate udp --listen 127.0.0.1:9000 --to 127.0.0.1:9899 --delay 50ms --loss 5%
  festina emulate udp --listen :9000 --to game.example:7777 --rate 1Mbit/s --back-rate 8Mbit/s
  festina emulate udp --listen 127.0.0.1:9000 --to 127.0.0.1:9899 --loss 1% --burst 200ms --time 30s

What holds for the way there (from the clients to --to) holds for the way back too, unless a flag says otherwise. \
On Ctrl-C, or after --time, it prints what it did.";

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

/// Passes datagrams on until interrupted or the time is over, then prints what was done.
pub(super) async fn run(arguments: UdpArgs) -> Result<()> {
    let forward = arguments.link.config()?;
    let backward = arguments.back.over(&arguments.link).config()?;
    let listen = arguments.listen.resolve().await?;
    let target = arguments.to.resolve().await?;
    let proxy = UdpProxy::bind(listen, target, forward, backward, arguments.seed)
        .and_then(UdpProxy::spawn)
        .with_context(|| format!("cannot listen on {listen}"))?;
    output::notice(&format!("{} leads to {target}", proxy.local_addr()));
    wait_for_the_end(|| proxy.has_failed(), arguments.time).await;
    let counters = proxy.stop().context("the proxy failed")?;
    output::print(&summary(&counters, target))?;
    Ok(())
}

fn summary(counters: &ProxyCounters, target: SocketAddr) -> String {
    let ProxyCounters { clients, refused, send_failed, .. } = counters;
    let table = table(&format!("to {target}"), [&counters.forward, &counters.backward]);
    let mut text = format!("{table}\n{clients} clients; {}", lateness_text(&counters.lateness));
    if *refused > 0 || *send_failed > 0 {
        text += &format!("\n{refused} datagrams of too many clients ignored; {send_failed} could not be sent on");
    }
    text
}
