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

use anyhow::Result;
use clap::{Args, Subcommand};
use festina::{Association, Config, CongestionControl, ConnectOptions, Endpoint, Profile};

use self::recording::{PcapArgs, Recording};
use crate::address::HostPort;
use crate::args;
use crate::dial::Dialer;
use crate::keys::ServerTrustArgs;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Wait for peers and print their messages, like netcat
    Listen(listen::ListenArgs),
    /// Send lines or files as messages and print the answers
    Send(send::SendArgs),
    /// Measure the delay of messages to a peer
    Ping(ping::PingArgs),
    /// Measure the throughput of a path and the delay of a concurrent thin stream
    Perf(Box<perf::PerfArgs>),
    /// Carry the datagrams or connections of unmodified programs between two hosts
    #[command(subcommand)]
    Tunnel(tunnel::TunnelCommand),
    /// Emulate a network with delay, loss and limited rate
    #[command(subcommand)]
    Emulate(emulate::EmulateCommand),
    /// Compare loss-recovery profiles on thin streams over a lossy network
    Compare(compare::CompareArgs),
    /// Run published experiments and compare the results with the publication
    #[command(subcommand)]
    Lab(lab::LabCommand),
    /// Analyse the streams of packet captures
    #[command(subcommand)]
    Trace(trace::TraceCommand),
    /// Forward TCP connections with short send buffers
    TcpProxy(tcp_proxy::TcpProxyArgs),
    /// Show how long data waits in the kernel's send buffers
    TcpWatch(tcp_watch::TcpWatchArgs),
    /// Relay and collect log lines: the important ones reliably, the rest while they are fresh
    #[command(subcommand)]
    Syslog(syslog::SyslogCommand),
    /// Print a script that completes this command line in a shell
    Completions(completions::CompletionsArgs),
    /// Write manual pages, one for each subcommand
    Man(completions::ManArgs),
}

/// How long the end of a command may take when the peer does not answer any more.
const GOODBYE_MAX: Duration = Duration::from_secs(2);

/// How long a peer may be silent, with any profile: the six minutes that RFC 9260 proposes are too long for someone who waits for the
/// prompt.
const PEER_TIMEOUT: Duration = Duration::from_secs(60);

/// The bounds of a packet's size, which [`Config`] checks as well.
const PACKET_BYTES_MIN: usize = 384;
const PACKET_BYTES_MAX: usize = 65_480;

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
    /// The largest packet to send, without the headers of IP and UDP, for paths that carry less, or more, than the default fits into:
    /// 384 to 65480 bytes
    #[arg(long, value_name = "SIZE", default_value = "1232")]
    #[arg(value_parser = args::size(PACKET_BYTES_MIN..=PACKET_BYTES_MAX))]
    packet_size: usize,
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
        let config =
            config.with_congestion(congestion).with_send_delay(self.send_delay).with_peer_timeout(PEER_TIMEOUT);
        config.with_packet_bytes_max(self.packet_size)
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

/// Does what the command line asks for. `definition` describes all of it, for completions and manual pages.
pub(crate) async fn run(command: Command, definition: fn() -> clap::Command) -> Result<()> {
    match command {
        Command::Listen(arguments) => listen::run(arguments).await,
        Command::Send(arguments) => send::run(arguments).await,
        Command::Ping(arguments) => ping::run(arguments).await,
        Command::Tunnel(command) => tunnel::run(command).await,
        Command::Completions(arguments) => completions::run(&arguments, definition()),
        Command::Man(arguments) => completions::write_manual(&arguments, definition()),
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
    #[command(flatten)]
    trust: ServerTrustArgs,
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
        let addresses = self.address.resolve_all().await?;
        let config = self.recovery.config().with_message_events(message_events);
        let (config, acquaintance) = self.trust.of_client(config, &self.address.to_string())?;
        let options = ConnectOptions::default().peer_port(self.port).handshake_timeout(self.timeout);
        let dialer = Dialer::new(config, options);
        let dialled = dialer.connect(&addresses, |endpoint| recording.watch(endpoint)).await;
        match dialled {
            Ok((endpoint, association)) => {
                if let (Some(acquaintance), Some(peer)) = (acquaintance, association.peer_identity()) {
                    acquaintance.remember(peer.fingerprint())?;
                }
                Ok((endpoint, association, recording))
            }
            Err(error) => {
                // Why there is no answer is what the recording is for.
                recording.finish()?;
                Err(match acquaintance {
                    Some(acquaintance) => acquaintance.explain(error),
                    None => error,
                })
            }
        }
    }
}

/// Ends all associations in good order, but does not wait for ever.
async fn say_goodbye(endpoint: &Endpoint) {
    // A peer that does not answer will notice by itself.
    let _ = tokio::time::timeout(GOODBYE_MAX, endpoint.close()).await;
}
