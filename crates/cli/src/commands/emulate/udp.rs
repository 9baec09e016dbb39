//! `festina emulate udp`: a UDP proxy.

use anyhow::{Context as _, Result};
use clap::Args;
use festina_emulate::{ProxyCounters, UdpProxy};

use super::NetworkArgs;
use super::capture::udp_tap;
use super::report::{Report, Way};
use crate::address::HostPort;
use crate::{address, output, signal};

const EXAMPLES: &str = "\
Examples:
  festina emulate udp --listen 127.0.0.1:9000 --to 127.0.0.1:9899 --delay 50ms --loss 5%
  festina emulate udp --listen :9000 --to game.example:7777 --rate 1Mbit/s --back-rate 8Mbit/s
  festina emulate udp --listen 127.0.0.1:9000 --to 127.0.0.1:9899 --loss 1% --burst 200ms --time 30s

What holds for the way there (from the clients to --to) holds for the way back too, unless a flag says otherwise. \
On Ctrl-C, or after --time, it prints the report.";

/// Arguments of `festina emulate udp`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UdpArgs {
    /// Where clients send to
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: HostPort,
    /// Where their datagrams go. If the host has several addresses, each client uses the first that does not refuse
    #[arg(long, value_name = "HOST:PORT", value_parser = address::peer)]
    to: HostPort,
    #[command(flatten)]
    network: NetworkArgs,
}

/// Passes datagrams on until interrupted or the time is over, then prints the report.
pub(super) async fn run(arguments: UdpArgs) -> Result<()> {
    let (forward, backward) = arguments.network.links()?;
    let targets = arguments.to.resolve_all().await?;
    let (target, others) = targets.split_first().context("the server has no address")?;
    let capture = arguments.network.capture(["clients", "server"])?;
    let bind = async |address| {
        UdpProxy::bind(address, *target, forward.clone(), backward.clone(), arguments.network.seed)
            .with_context(|| format!("cannot listen on {address}"))
    };
    let mut proxy = address::open_to_listen(&arguments.listen, bind).await?.with_other_targets(others);
    if let Some(file) = &capture {
        proxy = proxy.with_tap(udp_tap(file.clone()));
    }
    let proxy = proxy.spawn().context("cannot start the emulation")?;
    let interruption = signal::interruption();
    output::notice(&format!("{} leads to {}", proxy.local_addr(), arguments.to));
    arguments.network.wait_for_the_end(&proxy, true, interruption).await;
    let counters = proxy.stop().context("the proxy failed")?;
    crate::capture::finish(capture, arguments.network.pcap.as_deref())?;
    output::print_in_turn(report(&counters, &arguments.to).render(arguments.network.json)?).await
}

fn report(counters: &ProxyCounters, target: &HostPort) -> Report {
    let ProxyCounters { clients, forgotten, refused, unreachable, send_failed, .. } = counters;
    let mut notes = vec![if *clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") }];
    if *forgotten > 0 {
        notes.push(format!("{forgotten} clients forgotten to make room for new ones"));
    }
    if *refused > 0 || *send_failed > 0 {
        notes.push(format!("{refused} datagrams of too many clients ignored; {send_failed} could not be sent on"));
    }
    if *unreachable > 0 {
        notes.push(format!("{unreachable} datagrams of new clients ignored: there was no route to {target}"));
    }
    Report {
        title: format!("to {target}"),
        there: Way { link: counters.forward, passage: counters.forward_passage },
        back: Way { link: counters.backward, passage: counters.backward_passage },
        lateness: counters.lateness,
        notes,
    }
}
