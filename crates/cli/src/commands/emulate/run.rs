//! `festina emulate run`: commands on two hosts of their own with a bad network between them.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use festina_emulate::hosts::{self, CLIENT, Commands, Hosts, RunningCommands, SERVER};

use super::capture::tun_tap;
use super::report::Report;
use super::{End, NetworkArgs};
use crate::commands::{EndedWith, GOODBYE_MAX};
use crate::{output, signal};

/// As shells tell of a command that Ctrl-C has ended.
const EXIT_INTERRUPTED: u8 = 130;

const EXAMPLES: &str = "\
Examples:
  festina emulate run --rate 10Mbit/s --delay 40ms --server 'python3 -m http.server' \\
      -- curl -s -o /dev/null http://10.77.0.2:8000/
  festina emulate run --delay 25ms --loss 2% --server 'festina listen 10.77.0.2 --echo' \\
      --client 'festina ping $FESTINA_SERVER -c 100'
  festina emulate run --delay 50ms -- bash       a shell in front of the bad network, and in it:
    nsenter --net=$FESTINA_SERVER_NAMESPACE python3 -m http.server &      something behind it

The terminal is the commands': there is no live line, as the other emulations show. \
The client is 10.77.0.1 and fd77::1, the server 10.77.0.2 and fd77::2; FESTINA_CLIENT, FESTINA_SERVER, FESTINA_CLIENT6 and \
FESTINA_SERVER6 say so to the commands. There is no other network, neither the machine's nor the Internet. The client starts \
when the server listens, after ten seconds at the latest. When the client has ended, the server is ended, the network is \
removed, the report is printed on standard error, and the client's exit code is returned. However this command ends, nothing is \
left behind.

Without root's privileges the commands run in a user namespace, where they appear as root; the user must be able to open \
/dev/net/tun.";

/// Arguments of `festina emulate run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// The server's command, as a line for the shell
    #[arg(long, value_name = "LINE")]
    server: Option<OsString>,
    /// The client's command, as a line for the shell
    #[arg(long, value_name = "LINE", conflicts_with = "command", required_unless_present = "command")]
    client: Option<OsString>,
    /// Write the report on the network to this file instead of standard error
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    network: NetworkArgs,
    /// What runs in front of the network: a program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Arguments of the first process of the commands' process namespace.
#[derive(Debug, Args)]
pub(crate) struct FirstProcessArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    orders: Vec<OsString>,
}

/// Sees to it that the rest may be done, before there are threads.
pub(super) fn prepare() -> Result<()> {
    Ok(hosts::gain_privilege()?)
}

/// Starts the commands and waits for the client; the outcome is its exit code.
pub(super) fn first_process(arguments: &FirstProcessArgs) -> Result<()> {
    match hosts::first_process(&arguments.orders) {
        Ok(0) => Ok(()),
        Ok(code) => Err(EndedWith(code).into()),
        Err(error) => {
            let code = error.exit_code();
            output::complain(&output::causes(&error.into()));
            Err(EndedWith(code).into())
        }
    }
}

/// Runs the commands, prints what the network did, and ends as the client did.
pub(super) async fn run(arguments: RunArgs) -> Result<()> {
    // It is the commands'.
    output::is_used();
    let links = arguments.network.links()?;
    let capture = arguments.network.capture(["client", "server"])?;
    let hosts = Hosts::create(links, arguments.network.seed, capture.clone().map(tun_tap))?;
    let mut this_program = Command::new("/proc/self/exe");
    this_program.arg0("festina").args(["emulate", super::FIRST_PROCESS]);
    let interruption = signal::interruption();
    let running = hosts.run(this_program, &arguments.commands()).context("cannot run commands")?;
    let code = arguments.code_of(running, &hosts, interruption).await?;
    let counters = hosts.stop().context("the emulation failed")?;
    let report = Report::of_devices(format!("{} to {}", CLIENT.ipv4, SERVER.ipv4), &counters);
    crate::capture::finish(capture, arguments.network.pcap.as_deref())?;
    let is_silent = counters.forward.offered + counters.backward.offered == 0;
    let report = match arguments.network.json {
        false if is_silent => "no packet passed through the network".to_owned(),
        as_json => report.render(as_json)?,
    };
    match &arguments.report {
        Some(path) => {
            std::fs::write(path, report + "\n").with_context(|| format!("cannot write {}", path.display()))?;
        }
        None => report.lines().for_each(output::notice),
    }
    if code == 0 { Ok(()) } else { Err(EndedWith(code).into()) }
}

impl RunArgs {
    fn commands(&self) -> Commands {
        let client = match &self.client {
            Some(line) => ["sh".into(), "-c".into(), line.clone()].into(),
            None => self.command.clone(),
        };
        Commands { server: self.server.clone(), client }
    }

    /// The exit code to end with, when everything has ended.
    async fn code_of(
        &self,
        mut running: RunningCommands,
        hosts: &Hosts,
        interruption: impl Future<Output = ()>,
    ) -> Result<u8> {
        let ender = running.take_ender().context("the commands have already ended")?;
        let mut waiting = tokio::task::spawn_blocking(move || running.wait());
        let end = tokio::select! {
            code = &mut waiting => return Ok(code??),
            end = self.network.wait_for_the_end(hosts, false, interruption) => end,
        };
        if let End::Interrupted = end {
            // A terminal has interrupted the client as well, who may have something to say.
            if let Ok(code) = tokio::time::timeout(GOODBYE_MAX, &mut waiting).await {
                return Ok(code??);
            }
        }
        ender.kill();
        waiting.await??;
        match end {
            End::Interrupted => Ok(EXIT_INTERRUPTED),
            End::TimeIsOver => Ok(0),
            End::Failed => bail!("the network failed, so the commands were ended"),
        }
    }
}
