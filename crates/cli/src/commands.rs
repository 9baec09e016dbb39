//! One file per subcommand: its arguments and its behaviour.

pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod emulate;
pub(crate) mod key;
pub(crate) mod lab;
pub(crate) mod listen;
mod manual;
pub(crate) mod perf;
pub(crate) mod ping;
mod reception;
pub(crate) mod recording;
#[cfg(target_os = "linux")]
pub(crate) mod sctp;
pub(crate) mod send;
pub(crate) mod syslog;
pub(crate) mod tcp_proxy;
pub(crate) mod tcp_watch;
pub(crate) mod trace;
pub(crate) mod tunnel;
#[cfg(feature = "web")]
pub(crate) mod web;

use std::net::IpAddr;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use festina::{
    Association, ClosedReason, CongestionControl, ConnectOptions, Endpoint, PathPolicy, Profile, ReceivedMessage,
    Redundancy, ServerConfig, Transport,
};

use self::recording::{PcapArgs, Recording};
use crate::address::{self, HostPort};
use crate::args;
use crate::dial::Dialer;
use crate::keys::ServerTrustArgs;

/// The subcommands.
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
    /// Run unmodified programs with SCTP sockets, without the kernel's SCTP
    #[cfg(target_os = "linux")]
    #[command(subcommand)]
    Sctp(sctp::SctpCommand),
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
    /// Serve a page that shows the delays of messages to a browser through an emulated network
    #[cfg(feature = "web")]
    Web(web::WebArgs),
    /// Print the fingerprint of this user's key, or forget a peer's
    Key(key::KeyArgs),
    /// Print a script that completes this command line in a shell
    Completions(completions::CompletionsArgs),
    /// Write manual pages, one for each subcommand
    Man(manual::ManArgs),
}

/// As many paths as an association can have.
const PATHS_MAX: usize = 8;
/// Time limit for the shutdown of a command whose peer no longer answers.
const GOODBYE_MAX: Duration = Duration::from_secs(2);

/// Silence after which a peer counts as unreachable. The six minutes of RFC 9260 are too long for someone at a prompt.
const PEER_TIMEOUT: Duration = Duration::from_secs(60);

/// Range of packet sizes, which [`Transport`] checks as well.
const PACKET_BYTES_MIN: usize = 384;
const PACKET_BYTES_MAX: usize = 65_480;

/// Maximum size of a message of this command in bytes.
fn message_bytes_max() -> usize {
    Transport::default().message_bytes_max()
}

/// Settings of this command's endpoints.
#[derive(Debug, Args)]
pub(crate) struct RecoveryArgs {
    #[arg(long, value_name = "NAME", default_value_t = Profile::default())]
    #[arg(help = format!("How this side recovers from packet loss: {}", args::one_of(Profile::all())))]
    profile: Profile,
    #[arg(long, value_name = "NAME", default_value_t = Transport::default().congestion())]
    #[arg(help = format!("Congestion control: {}", args::one_of(CongestionControl::all())))]
    congestion: CongestionControl,
    #[arg(long, value_name = "NAME")]
    #[arg(help = format!("Proactive copies or a code against loss: {}; without it as the profile does", args::one_of(&Redundancy::NAMED)))]
    redundancy: Option<Redundancy>,
    #[arg(long, value_name = "NAME", default_value_t = PathPolicy::default())]
    #[arg(help = format!("What several paths carry while all of them answer: {}", args::one_of(&PathPolicy::ALL)))]
    path_policy: PathPolicy,
    /// Maximum time that a message waits in the send buffer before its first transmission, for instance 50ms; unlimited without it
    #[arg(long, alias = "target", value_name = "TIME", value_parser = args::positive_duration)]
    send_delay: Option<Duration>,
    /// Maximum size of packets sent, without IP and UDP headers: 384 to 65480 bytes, by default what fits into 1280 with these headers. Larger ones are sent only
    /// where probes find that the path carries them, 1472 for instance or 8972 where the MTU is 9000. An encrypted peer needs the option as well
    #[arg(long, value_name = "SIZE", value_parser = args::size(PACKET_BYTES_MIN..=PACKET_BYTES_MAX))]
    packet_size: Option<usize>,
}

impl RecoveryArgs {
    fn transport(&self) -> Transport {
        let transport = Transport::default()
            .with_profile(self.profile)
            .with_congestion(self.congestion)
            .with_send_delay(self.send_delay)
            .with_peer_timeout(PEER_TIMEOUT)
            .with_paths_max(PATHS_MAX)
            .with_path_policy(self.path_policy);
        let transport = match self.redundancy {
            Some(redundancy) => transport.with_redundancy(redundancy),
            None => transport,
        };
        match self.packet_size {
            Some(bytes) => transport.with_packet_bytes_max(bytes),
            None => transport,
        }
    }
}

/// Returns the next message, or why the association has ended.
pub(crate) async fn next_message(association: &Association) -> Result<ReceivedMessage, ClosedReason> {
    association.recv().await?.ok_or(ClosedReason::Shutdown)
}

/// Exit code of a command that this one ran, to be passed on. That command has printed its own errors.
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
        #[cfg(feature = "web")]
        Command::Web(arguments) => web::without_threads(arguments),
        _ => None,
    }
}

/// Runs a subcommand. `definition` describes the whole command line, for completions and manual pages.
pub(crate) async fn run(command: Command, definition: fn() -> clap::Command) -> Result<()> {
    match command {
        Command::Listen(arguments) => listen::run(arguments).await,
        Command::Send(arguments) => send::run(arguments).await,
        Command::Ping(arguments) => ping::run(arguments).await,
        Command::Tunnel(command) => tunnel::run(command).await,
        #[cfg(target_os = "linux")]
        Command::Sctp(command) => sctp::run(command).await,
        Command::Key(arguments) => key::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments, definition()),
        Command::Man(arguments) => manual::write(&arguments, definition()),
        Command::Perf(arguments) => perf::run(*arguments).await,
        Command::Emulate(command) => emulate::run(command).await,
        Command::Compare(arguments) => compare::run(arguments).await,
        Command::Lab(command) => lab::run(command),
        Command::TcpProxy(arguments) => tcp_proxy::run(arguments).await,
        Command::TcpWatch(arguments) => tcp_watch::run(arguments).await,
        Command::Syslog(command) => syslog::run(command).await,
        Command::Trace(command) => trace::run(command).await,
        #[cfg(feature = "web")]
        Command::Web(arguments) => web::run(arguments).await,
    }
}

/// The addresses of a client.
#[derive(Clone, Debug, Args)]
pub(crate) struct ViaArgs {
    /// The own address to send from, instead of any; if repeated, the first one connects, and the peer learns all
    #[arg(long, value_name = "ADDRESS")]
    via: Vec<IpAddr>,
}

/// Further addresses of a server.
#[derive(Clone, Debug, Args)]
pub(crate) struct AlsoArgs {
    /// Another address to listen on, with the same port, which peers learn; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    also: Vec<IpAddr>,
}

impl AlsoArgs {
    fn named(&self, config: ServerConfig) -> ServerConfig {
        config.with_other_addresses(self.also.iter().copied())
    }
}

/// The peer and how to reach it.
#[derive(Debug, Args)]
pub(crate) struct PeerArgs {
    /// The peer: HOST, HOST:PORT or [IPV6]:PORT, where PORT is the UDP port, by default 9899
    #[arg(value_parser = address::peer)]
    address: HostPort,
    /// The peer's SCTP port
    #[arg(short, long, value_name = "PORT", default_value_t = festina::DEFAULT_SCTP_PORT)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    #[command(flatten)]
    own: ViaArgs,
    #[command(flatten)]
    recovery: RecoveryArgs,
    #[command(flatten)]
    trust: ServerTrustArgs,
    /// Give up if the peer does not answer the handshake, the first message or ping's last message within this time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = args::positive_duration)]
    timeout: Duration,
    #[command(flatten)]
    pcap: PcapArgs,
}

impl PeerArgs {
    /// Connects to the peer from an endpoint of its own. The caller must finish the recording.
    async fn connect(&self, message_events: bool) -> Result<(Endpoint, Association, Recording)> {
        let recording = self.pcap.begin()?;
        let addresses = self.address.resolve_all().await?;
        let transport = self.recovery.transport().with_message_events(message_events);
        let options = ConnectOptions::default().peer_port(self.port).handshake_timeout(self.timeout);
        let mut client = self.trust.client(transport, options, &self.address)?;
        client.config = recording.with_secrets_of_client(client.config);
        let dialer = Dialer::new(client).via(&self.own.via);
        let dialled = dialer.connect(&addresses, |endpoint| recording.watch(endpoint)).await;
        match dialled {
            Ok((endpoint, association)) => Ok((endpoint, association, recording)),
            Err(error) => {
                // The recording shows why there is no answer.
                recording.finish()?;
                Err(error)
            }
        }
    }
}

/// Shuts down all associations, within a time limit.
async fn say_goodbye(endpoint: &Endpoint) {
    // An unresponsive peer will notice by itself.
    let _ = tokio::time::timeout(GOODBYE_MAX, endpoint.close()).await;
}
