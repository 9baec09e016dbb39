//! `festina emulate`: be a bad network.

#[cfg(target_os = "linux")]
mod tun;
mod udp;

use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use festina_emulate::Lateness;
use festina_netsim::{LinkConfig, LinkCounters};

use crate::link::{BackArgs, LinkArgs};
use crate::{args, signal};

/// How often the emulator is asked whether it still lives.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// What kind of network to be.
#[derive(Debug, Subcommand)]
pub(crate) enum EmulateCommand {
    /// Pass UDP datagrams on, late, out of order or not at all; needs no privilege
    Udp(Box<udp::UdpArgs>),
    /// Join two TUN devices: a bad network for the kernel's TCP and any other program; needs root's privileges
    #[cfg(target_os = "linux")]
    Tun(Box<tun::TunArgs>),
}

/// Emulates until interrupted or the time is over, then prints what was done.
pub(crate) async fn run(command: EmulateCommand) -> Result<()> {
    match command {
        EmulateCommand::Udp(arguments) => udp::run(*arguments).await,
        #[cfg(target_os = "linux")]
        EmulateCommand::Tun(arguments) => tun::run(*arguments).await,
    }
}

/// The network that is emulated, whatever it joins, and for how long.
#[derive(Debug, Args)]
struct NetworkArgs {
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

impl NetworkArgs {
    /// The links there and back.
    fn links(&self) -> Result<(LinkConfig, LinkConfig)> {
        Ok((self.link.config()?, self.back.over(&self.link).config()?))
    }

    /// Returns when interrupted, when the time is over, or when the emulator has failed.
    async fn wait_for_the_end(&self, has_failed: impl Fn() -> bool) {
        let time_is_over = async {
            match self.time {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        let failed = async {
            while !has_failed() {
                tokio::time::sleep(CHECK_INTERVAL).await;
            }
        };
        tokio::select! {
            () = signal::interrupted() => {}
            () = time_is_over => {}
            () = failed => {}
        }
    }
}

/// What both links did, as a table.
fn table(title: &str, links: [&LinkCounters; 2]) -> String {
    let both = |count: fn(&LinkCounters) -> u64| links.map(|link| count(link).to_string());
    let rows: [(&str, [String; 2]); 10] = [
        ("packets offered", both(|link| link.offered)),
        ("bytes offered", both(|link| link.offered_bytes.bytes())),
        ("packets delivered", both(|link| link.delivered)),
        ("bytes delivered", both(|link| link.delivered_bytes.bytes())),
        ("lost", both(|link| link.lost)),
        ("dropped by the queue", both(|link| link.queue_dropped)),
        ("marked by the queue", both(|link| link.congestion_marked)),
        ("reordered", both(|link| link.reordered)),
        ("duplicated", both(|link| link.duplicated)),
        ("corrupted", both(|link| link.corrupted)),
    ];
    let mut text = format!("{title:<22}{:>14}{:>14}", "there", "back");
    for (name, [there, back]) in rows {
        text += &format!("\n{name:<22}{there:>14}{back:>14}");
    }
    text
}

fn lateness_text(lateness: &Lateness) -> String {
    let (mean_us, max_us) = (lateness.mean().as_micros(), lateness.max.as_micros());
    format!("delivered {mean_us} us late on average, {max_us} us at worst")
}
