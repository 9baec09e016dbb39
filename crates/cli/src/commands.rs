//! One file per subcommand: its arguments and its behaviour.

pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod emulate;
pub(crate) mod lab;
pub(crate) mod listen;
pub(crate) mod perf;
pub(crate) mod ping;
mod reception;
pub(crate) mod recording;
pub(crate) mod send;
pub(crate) mod syslog;
pub(crate) mod tcp_proxy;
pub(crate) mod tcp_watch;
pub(crate) mod trace;
pub(crate) mod tunnel;

use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::Args;
use festina::{Association, Config, CongestionControl, ConnectError, ConnectOptions, Endpoint, Profile};

use self::recording::{PcapArgs, Recording};
use crate::address::{self, HostPort};
use crate::args::{self, Command};

/// How long the end of a command may take when the peer does not answer any more.
const GOODBYE_MAX: Duration = Duration::from_secs(2);

/// How long a peer may be silent, with any profile: the six minutes that RFC 9260 proposes are too long for someone who waits for the
/// prompt.
const PEER_TIMEOUT: Duration = Duration::from_secs(60);

/// The most bytes that one message of this command may have.
fn message_bytes_max() -> usize {
    Config::default().message_bytes_max()
}

/// How this command's endpoints behave.
#[derive(Debug, Args)]
pub(crate) struct RecoveryArgs {
    #[arg(long, value_name = "NAME", default_value_t = Profile::default())]
    #[arg(help = format!("How this side recovers from packet loss: {}", args::one_of(Profile::all())))]
    profile: Profile,
    #[arg(long, value_name = "NAME", help = congestion_help())]
    congestion: Option<CongestionControl>,
    /// Maximum time that a message waits here before its first transmission, for instance 50ms; without it, as long as the send buffer
    /// holds it
    #[arg(long, alias = "target", value_name = "TIME", value_parser = args::positive_duration)]
    send_delay: Option<Duration>,
}

fn congestion_help() -> String {
    let (choices, profile) = (args::one_of(CongestionControl::all()), Profile::default());
    let default = Config::with_profile(profile).congestion();
    format!(
        "Congestion control, {choices}; the profile's own if left out, which is \
         {default} with {profile}"
    )
}

impl RecoveryArgs {
    fn config(&self) -> Config {
        let config = Config::with_profile(self.profile);
        let congestion = self.congestion.unwrap_or(config.congestion());
        config.with_congestion(congestion).with_send_delay(self.send_delay).with_peer_timeout(PEER_TIMEOUT)
    }
}

/// The command that this one ran has ended with this exit code, which is passed on. It has said itself what there was to say.
#[derive(Debug)]
pub(crate) struct EndedWith(pub(crate) u8);

impl std::fmt::Display for EndedWith {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ended with exit code {}", self.0)
    }
}

impl std::error::Error for EndedWith {}

/// Runs the part of the command that must precede other threads. Returns the outcome if that was all.
pub(crate) fn without_threads(command: &Command) -> Option<Result<()>> {
    match command {
        Command::Emulate(command) => emulate::without_threads(command),
        Command::Lab(command) => lab::without_threads(command),
        _ => None,
    }
}

/// Does what the command line asks for.
pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::Listen(arguments) => listen::run(arguments).await,
        Command::Send(arguments) => send::run(arguments).await,
        Command::Ping(arguments) => ping::run(arguments).await,
        Command::Tunnel(command) => tunnel::run(command).await,
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Man(arguments) => completions::write_manual(&arguments),
        Command::Perf(arguments) => perf::run(*arguments).await,
        Command::Emulate(command) => emulate::run(command).await,
        Command::Compare(arguments) => compare::run(arguments).await,
        Command::Lab(command) => lab::run(command),
        Command::TcpProxy(arguments) => tcp_proxy::run(arguments).await,
        Command::TcpWatch(arguments) => tcp_watch::run(arguments).await,
        Command::Syslog(command) => syslog::run(command).await,
        Command::Trace(command) => trace::run(command).await,
    }
}

/// How a peer is reached.
#[derive(Debug, Args)]
pub(crate) struct PeerArgs {
    /// The peer: HOST, HOST:PORT or [IPV6]:PORT, where PORT is the UDP port, 9899 if left out
    address: HostPort,
    /// The peer's SCTP port
    #[arg(short, long, value_name = "PORT", default_value_t = festina::DEFAULT_SCTP_PORT)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    #[command(flatten)]
    recovery: RecoveryArgs,
    /// Give up if the peer does not answer for this time: at the start, not at all, or not ping's last message
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = args::positive_duration)]
    timeout: Duration,
    #[command(flatten)]
    pcap: PcapArgs,
}

impl PeerArgs {
    /// Makes an association with the peer from an endpoint of its own, which ends with the last handle. The recording is to be finished.
    async fn connect(&self, message_events: bool) -> Result<(Endpoint, Association, Recording)> {
        let recording = self.pcap.begin()?;
        let remote = self.address.resolve().await?;
        let config = self.recovery.config().with_message_events(message_events);
        let endpoint = Endpoint::bind(address::unspecified_for(remote), config).await?;
        recording.watch(&endpoint);
        let options = ConnectOptions::default().peer_port(self.port).handshake_timeout(self.timeout);
        match endpoint.connect_with(remote, options).await {
            Ok(association) => Ok((endpoint, association, recording)),
            Err(error) => {
                // Why there is no answer is what the recording is for.
                recording.finish()?;
                Err(with_advice(error))
            }
        }
    }
}

/// Says of a peer that did not answer what to look at.
fn with_advice(error: ConnectError) -> anyhow::Error {
    match error {
        ConnectError::Timeout { remote, .. } => {
            let port = remote.port();
            anyhow!("{error}: does anybody listen there, and do firewalls let UDP port {port} through, both ways?")
        }
        error => error.into(),
    }
}

/// Ends all associations in good order, but does not wait for ever.
async fn say_goodbye(endpoint: &Endpoint) {
    // A peer that does not answer will notice by itself.
    let _ = tokio::time::timeout(GOODBYE_MAX, endpoint.close()).await;
}
