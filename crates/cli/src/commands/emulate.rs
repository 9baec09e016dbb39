//! `festina emulate`: emulated networks.

mod capture;
mod live;
mod report;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod tun;
mod udp;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use festina_emulate::RunningProxy;
use festina_netsim::LinkConfig;

use self::report::Way;
use crate::args;
use crate::capture::CaptureFile;
use crate::link::{BackArgs, LinkArgs};

/// How often the emulator is asked whether it still lives.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The kinds of emulated networks.
#[derive(Debug, Subcommand)]
pub(crate) enum EmulateCommand {
    /// Forward UDP datagrams late, out of order or not at all; needs no privileges
    Udp(Box<udp::UdpArgs>),
    /// Join two TUN devices by a bad network, for the kernel's TCP and any other program; needs root's privileges
    #[cfg(target_os = "linux")]
    Tun(Box<tun::TunArgs>),
    /// Run commands on two temporary hosts with an emulated network between them
    #[cfg(target_os = "linux")]
    Run(Box<run::RunArgs>),
    #[cfg(target_os = "linux")]
    #[command(name = FIRST_PROCESS, hide = true)]
    FirstProcess(run::FirstProcessArgs),
}

/// By which name `run` starts a part of itself.
#[cfg(target_os = "linux")]
const FIRST_PROCESS: &str = "run-first-process";

/// Runs the part that must precede other threads; some commands end with it.
pub(crate) fn without_threads(command: &EmulateCommand) -> Option<Result<()>> {
    match command {
        #[cfg(target_os = "linux")]
        EmulateCommand::Run(_) => run::prepare().err().map(Err),
        #[cfg(target_os = "linux")]
        EmulateCommand::FirstProcess(arguments) => Some(run::first_process(arguments)),
        _ => None,
    }
}

/// Emulates until interrupted or the time is over, then prints the report.
pub(crate) async fn run(command: EmulateCommand) -> Result<()> {
    match command {
        EmulateCommand::Udp(arguments) => udp::run(*arguments).await,
        #[cfg(target_os = "linux")]
        EmulateCommand::Tun(arguments) => tun::run(*arguments).await,
        #[cfg(target_os = "linux")]
        EmulateCommand::Run(arguments) => run::run(*arguments).await,
        #[cfg(target_os = "linux")]
        EmulateCommand::FirstProcess(arguments) => run::first_process(&arguments),
    }
}

/// What ended an emulation.
#[derive(Clone, Copy, Debug)]
enum End {
    Interrupted,
    TimeIsOver,
    Failed,
}

/// The emulated network and the duration.
#[derive(Debug, Args)]
struct NetworkArgs {
    /// End after this time instead of on Ctrl-C
    #[arg(long, value_name = "TIME", value_parser = args::positive_duration)]
    time: Option<Duration>,
    /// Seed of the network's random numbers: the same seed loses the same packets
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Record every packet in this file, as pcapng, as seen at both ends
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    #[command(flatten)]
    link: LinkArgs,
    #[command(flatten)]
    back: BackArgs,
}

impl NetworkArgs {
    /// The links there and back.
    fn links(&self) -> Result<(LinkConfig, LinkConfig)> {
        let back = self.back.over(&self.link);
        let round_trip = self.link.delay + back.delay;
        Ok((self.link.config(round_trip)?, back.config(round_trip)?))
    }

    /// A capture file with these interfaces: where the way there begins, and where it ends. `None` if none is wanted.
    fn capture(&self, ends: [&str; 2]) -> Result<Option<CaptureFile>> {
        CaptureFile::create(self.pcap.as_deref(), &ends)
    }

    /// Returns when interrupted, when the time is over, or when the emulator has failed. Meanwhile a terminal shows what the
    /// network does, if it is to be shown.
    async fn wait_for_the_end(
        &self,
        network: &impl Emulation,
        is_shown: bool,
        interruption: impl Future<Output = ()>,
    ) -> End {
        let time_is_over = async {
            match self.time {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        let failed = async {
            let mut live = live::Live::new(is_shown);
            while !network.has_failed() {
                live.show(network.ways(), CHECK_INTERVAL);
                tokio::time::sleep(CHECK_INTERVAL).await;
            }
        };
        tokio::select! {
            () = interruption => End::Interrupted,
            () = time_is_over => End::TimeIsOver,
            () = failed => End::Failed,
        }
    }
}

/// A running network.
trait Emulation {
    /// Whether it has ended by itself.
    fn has_failed(&self) -> bool;

    /// What both links have done so far.
    fn ways(&self) -> [Way; 2];
}

impl Emulation for RunningProxy {
    fn has_failed(&self) -> bool {
        self.has_failed()
    }

    fn ways(&self) -> [Way; 2] {
        let counters = self.counters();
        [
            Way { link: counters.forward, passage: counters.forward_passage },
            Way { link: counters.backward, passage: counters.backward_passage },
        ]
    }
}

#[cfg(target_os = "linux")]
impl Emulation for festina_emulate::RunningTunPair {
    fn has_failed(&self) -> bool {
        self.has_failed()
    }

    fn ways(&self) -> [Way; 2] {
        report::ways(&self.counters())
    }
}

#[cfg(target_os = "linux")]
impl Emulation for festina_emulate::hosts::Hosts {
    fn has_failed(&self) -> bool {
        self.has_failed()
    }

    fn ways(&self) -> [Way; 2] {
        report::ways(&self.counters())
    }
}
