//! `festina syslog`: lines of logs from relays to a collector.

mod demo;
mod status;

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use festina::security::Fingerprint;
use festina_syslog::collect::RunningCollector;
use festina_syslog::config::{COLLECTOR_TEMPLATE, CollectorConfig, ConfigError, RELAY_TEMPLATE, RelayConfig};
use festina_syslog::notice::Notice;
use festina_syslog::relay::{RunningRelay, take_new_identity};

use crate::args::{self, UsageError};
use crate::output;
use crate::signal::Hangups;

/// Subcommands of `festina syslog`.
#[derive(Debug, Subcommand)]
pub(crate) enum SyslogCommand {
    /// Receive lines from programs and send them to a collector
    Relay(RelayArgs),
    /// Receive lines from relays and write each of them once
    Collect(CollectArgs),
    /// Show on this machine what happens to lines of all severities on a bad network
    Demo(demo::DemoArgs),
    /// Print the counters of a relay or a collector
    Status(status::StatusArgs),
    /// Write a commented configuration file to begin with
    New(NewArgs),
}

/// The arguments of `festina syslog relay`.
#[derive(Debug, Args)]
pub(crate) struct RelayArgs {
    /// The configuration: TOML; `festina syslog new relay.toml` writes one
    file: PathBuf,
    /// Check the configuration and exit
    #[arg(long)]
    check_config: bool,
    /// Print the fingerprint of the relay's key, which is created if it is missing, and exit
    #[arg(long, conflicts_with = "check_config")]
    show_key: bool,
    /// Time limit for acknowledgements when stopped; unacknowledged lines stay in the spool
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = args::any_duration)]
    drain: Duration,
    /// First give the spool a new identity: for a restored or copied spool that the collector refuses. Lines that the collector already has are
    /// written again
    #[arg(long)]
    new_identity: bool,
}

/// The arguments of `festina syslog collect`.
#[derive(Debug, Args)]
pub(crate) struct CollectArgs {
    /// The configuration: TOML; `festina syslog new collect.toml` writes one
    file: PathBuf,
    /// Check the configuration and exit
    #[arg(long)]
    check_config: bool,
    /// Print the fingerprint of the collector's key, which is created if it is missing, and exit
    #[arg(long, conflicts_with = "check_config")]
    show_key: bool,
}

/// The arguments of `festina syslog new`.
#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// The file to write: for a collector if its name contains "collect", otherwise for a relay
    file: PathBuf,
}

/// Runs a subcommand.
pub(crate) async fn run(command: SyslogCommand) -> Result<()> {
    match command {
        SyslogCommand::Relay(arguments) => relay(arguments).await,
        SyslogCommand::Collect(arguments) => collect(arguments).await,
        SyslogCommand::Demo(arguments) => demo::run(arguments).await,
        SyslogCommand::Status(arguments) => status::run(&arguments).await,
        SyslogCommand::New(arguments) => new(&arguments.file),
    }
}

/// Says what happens on standard error.
fn notice() -> Notice {
    Arc::new(|text: &str| output::notice(text))
}

/// Reads a configuration. An invalid file is the caller's fault.
fn read<T>(file: &Path, parse: impl Fn(&str, &str) -> Result<T, ConfigError>) -> Result<T> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    parse(&file.display().to_string(), &text).map_err(|error| UsageError::new(error.to_string()).into())
}

async fn relay(arguments: RelayArgs) -> Result<()> {
    let config = read(&arguments.file, RelayConfig::parse)?;
    if arguments.show_key {
        return show_key(config.security.fingerprint(&config.state)?);
    }
    if arguments.check_config {
        config.check_files()?;
        return output::print(&format!("{} is right", output::name(&arguments.file)));
    }
    let (mut interruption, mut hangups) = (pin!(crate::signal::interruption()), Hangups::new());
    if arguments.new_identity {
        take_new_identity(&config)?;
    }
    let relay = RunningRelay::start(config, notice()).await?;
    tell_manager(&[sd_notify::NotifyState::Ready]);
    output::notice("the relay takes lines");
    loop {
        tokio::select! {
            () = &mut interruption => break,
            () = hangups.next() => match read(&arguments.file, RelayConfig::parse) {
                Ok(config) => {
                    relay.reload(config.policy).await;
                    output::notice("the rules are read again; other changes need a restart");
                }
                Err(error) => output::complain(&format!("{error}; the rules stay as they are")),
            },
        }
    }
    tell_manager(&[sd_notify::NotifyState::Stopping]);
    let last = relay.stop(arguments.drain).await;
    if last.spooled > 0 {
        output::notice(&format!("{} lines are in the spool and will be sent after the next start", last.spooled));
    }
    Ok(())
}

async fn collect(arguments: CollectArgs) -> Result<()> {
    let config = read(&arguments.file, CollectorConfig::parse)?;
    if arguments.show_key {
        return show_key(config.security.fingerprint(&config.state)?);
    }
    if arguments.check_config {
        config.check_files()?;
        return output::print(&format!("{} is right", output::name(&arguments.file)));
    }
    let (mut interruption, mut hangups) = (pin!(crate::signal::interruption()), Hangups::new());
    let collector = RunningCollector::start(config, notice()).await?;
    tell_manager(&[sd_notify::NotifyState::Ready]);
    output::notice(&format!("the collector listens on {}", collector.local_addr()));
    loop {
        tokio::select! {
            () = &mut interruption => break,
            () = hangups.next() => {
                collector.reopen_files();
                output::notice("the files are opened again; changes of the configuration need a restart");
            }
        }
    }
    tell_manager(&[sd_notify::NotifyState::Stopping]);
    collector.stop().await;
    Ok(())
}

fn show_key(fingerprint: Option<Fingerprint>) -> Result<()> {
    let fingerprint = fingerprint.context("the file says plain = true: there is no key")?;
    output::print(&format!("sha256:{fingerprint}"))
}

/// Notifies systemd, if it has started this process.
fn tell_manager(state: &[sd_notify::NotifyState<'_>]) {
    // Without systemd there is no receiver.
    let _ = sd_notify::notify(state);
}

fn new(file: &Path) -> Result<()> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let (template, kind) =
        if name.contains("collect") { (COLLECTOR_TEMPLATE, "collect") } else { (RELAY_TEMPLATE, "relay") };
    let written = std::fs::File::create_new(file).and_then(|mut file| {
        use std::io::Write as _;
        file.write_all(template.as_bytes())
    });
    written.with_context(|| format!("cannot write {}", file.display()))?;
    let file = file.display();
    output::notice(&format!(
        "{file} is written: edit it, then\n  festina syslog {kind} {file} --check-config\n  festina syslog {kind} {file}"
    ));
    Ok(())
}
