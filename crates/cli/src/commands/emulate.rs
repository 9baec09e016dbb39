//! `festina emulate`: be a bad network.

mod report;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod tun;
mod udp;

use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use festina_netsim::LinkConfig;

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
    /// Run commands on two hosts of their own with a bad network between them, and leave nothing behind
    #[cfg(target_os = "linux")]
    Run(Box<run::RunArgs>),
    #[cfg(target_os = "linux")]
    #[command(name = FIRST_PROCESS, hide = true)]
    FirstProcess(run::FirstProcessArgs),
}

/// By which name `run` starts a part of itself.
#[cfg(target_os = "linux")]
const FIRST_PROCESS: &str = "run-first-process";

/// Does what must be done before this process has threads; some commands end with it.
pub(crate) fn without_threads(command: &EmulateCommand) -> Option<Result<()>> {
    match command {
        #[cfg(target_os = "linux")]
        EmulateCommand::Run(_) => run::prepare().err().map(Err),
        #[cfg(target_os = "linux")]
        EmulateCommand::FirstProcess(arguments) => Some(run::first_process(arguments)),
        _ => None,
    }
}

/// Emulates until interrupted or the time is over, then prints what was done.
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
    async fn wait_for_the_end(&self, has_failed: impl Fn() -> bool) -> End {
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
            () = signal::interrupted() => End::Interrupted,
            () = time_is_over => End::TimeIsOver,
            () = failed => End::Failed,
        }
    }
}
