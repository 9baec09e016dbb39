//! `festina tunnel`: carries the datagrams or connections of unmodified programs.
//!
//! - [`udp`] and [`tcp`]: both ends of a tunnel for either
//! - [`exit`]: the end that connects to the destinations
//! - [`losses`]: counts of lost datagrams, forgotten clients and refused connections

mod exit;
mod losses;
mod tcp;
mod udp;

use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use festina::{Association, ConnectOptions, Message, PeerRestart, StreamScheduler, Transport};

use super::{AlsoArgs, RecoveryArgs, ViaArgs, say_goodbye};
use crate::address::{self, HostPort};
use crate::args;
use crate::dial::Dialer;
use crate::keys::{AdmissionArgs, ServerTrustArgs};

const EXAMPLES: &str = "\
Examples:
  on the client's host:   festina key
  on the server's host:   festina tunnel exit --to 127.0.0.1:7777 --allow sha256:...
  on the client's host:   festina tunnel udp --listen 127.0.0.1:7777 --to server.example
                          or, for a server that speaks TCP, tunnel tcp with the same flags
  and then let the client talk to 127.0.0.1:7777

The exit admits only the clients of --allow; `festina key` prints the fingerprint to add.

What helps whom: a thin stream over TCP, on a path that loses packets, gets its lost messages back sooner. Datagrams that would \
be lost arrive late instead, which helps only programs that do not send them again themselves. Where nothing is lost, and for \
bulk data, a tunnel only costs.";

/// The ends of tunnels.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum TunnelCommand {
    /// Carry UDP datagrams to the exit, over one association
    Udp(UdpArgs),
    /// Carry TCP connections to the exit, over one association
    Tcp(EntranceArgs),
    /// Forward data of tunnels to its destination
    Exit(ExitArgs),
}

/// Where a tunnel begins, and where its other end is.
#[derive(Debug, Args)]
pub(crate) struct EntranceArgs {
    /// Where programs send to: ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: HostPort,
    /// Where `festina tunnel exit` listens: HOST or HOST:PORT, where PORT is the UDP port, by default 9899
    #[arg(long, value_name = "HOST:PORT", value_parser = address::peer)]
    to: HostPort,
    /// Give up if the exit does not answer the first message within this time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = args::positive_duration)]
    timeout: Duration,
    #[command(flatten)]
    own: ViaArgs,
    #[command(flatten)]
    recovery: RecoveryArgs,
    #[command(flatten)]
    trust: ServerTrustArgs,
}

/// Arguments of `festina tunnel udp`.
#[derive(Debug, Args)]
pub(crate) struct UdpArgs {
    #[command(flatten)]
    entrance: EntranceArgs,
    /// Abandon a datagram that has not been delivered within this time, which includes the time until the exit is reached
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = args::positive_duration)]
    lifetime: Duration,
    #[command(flatten)]
    seats: SeatArgs,
}

/// The size of the tables of clients.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct SeatArgs {
    /// Programs that may use a tunnel for datagrams at the same time; a new one replaces the one that has been idle for longest
    #[arg(long, value_name = "NUMBER", default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    clients_max: u32,
}

impl SeatArgs {
    fn count(self) -> usize {
        usize::try_from(self.clients_max).unwrap_or(usize::MAX)
    }
}

/// Arguments of `festina tunnel exit`.
#[derive(Debug, Args)]
pub(crate) struct ExitArgs {
    /// Where tunnels end: ADDRESS:PORT, or :PORT for every address
    #[arg(long, value_name = "ADDRESS:PORT", default_value = ":9899")]
    listen: HostPort,
    #[command(flatten)]
    others: AlsoArgs,
    /// The server to which programs connect
    #[arg(long, value_name = "HOST:PORT", value_parser = address::peer)]
    to: HostPort,
    /// Abandon a datagram that cannot be sent on within this time, and an answer that has not been delivered within it
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = args::positive_duration)]
    lifetime: Duration,
    #[command(flatten)]
    seats: SeatArgs,
    #[command(flatten)]
    recovery: RecoveryArgs,
    #[command(flatten)]
    admission: AdmissionArgs,
}

/// Runs a tunnel until interrupted.
pub(crate) async fn run(command: TunnelCommand) -> Result<()> {
    match command {
        TunnelCommand::Udp(arguments) => udp::run(arguments).await,
        TunnelCommand::Tcp(arguments) => tcp::run(arguments).await,
        TunnelCommand::Exit(arguments) => exit::run(arguments).await,
    }
}

/// What a tunnel carries; its first message says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Udp,
    Tcp,
}

impl Kind {
    const fn hello(self) -> &'static [u8] {
        match self {
            Self::Udp => b"FTN1 udp",
            Self::Tcp => b"FTN2 tcp",
        }
    }

    fn of(hello: &[u8]) -> Option<Self> {
        [Self::Udp, Self::Tcp].into_iter().find(|kind| kind.hello() == hello)
    }
}

/// Settings of both ends. A tunnel belongs to one session of its peer. The connections of one share the association's buffer, which is large enough for
/// all their [windows](tcp), and take turns, so that those with much to send do not delay the others.
fn tunnelling(transport: Transport) -> Transport {
    transport
        .with_peer_restart(PeerRestart::End)
        .with_scheduler(StreamScheduler::RoundRobin)
        .with_interleaving(true)
        .with_send_buffer_bytes(tcp::CONNECTIONS_MAX * tcp::WINDOW_BYTES)
}

/// The way from an entrance to its exit.
struct Way {
    kind: Kind,
    dialer: Dialer,
    to: HostPort,
    timeout: Duration,
}

impl Way {
    /// # Errors
    /// If the keys cannot be read.
    fn new(kind: Kind, arguments: &EntranceArgs) -> Result<Self> {
        let (to, timeout) = (arguments.to.clone(), arguments.timeout);
        let options = ConnectOptions::default().handshake_timeout(timeout);
        // Datagrams have no use for interleaving, which costs 4 bytes per packet.
        let transport = tunnelling(arguments.recovery.transport()).with_interleaving(kind == Kind::Tcp);
        let client = arguments.trust.client(transport, options, &to)?;
        Ok(Self { kind, dialer: Dialer::new(client).via(&arguments.own.via), to, timeout })
    }

    /// Makes an association with the exit, at the first of its addresses that answers, and states its purpose.
    async fn open(&self) -> Result<Association> {
        // The exit may have moved.
        let addresses = self.to.resolve_all().await?;
        let (_, association) = self.dialer.connect(&addresses, |_| {}).await?;
        association.send(Message::new(self.kind.hello())).await?;
        Ok(association)
    }

    /// Ends all associations in good order, but does not wait for ever.
    async fn leave(&self) {
        for endpoint in &self.dialer.endpoints() {
            say_goodbye(endpoint).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_message_says_what_a_tunnel_carries() {
        for kind in [Kind::Udp, Kind::Tcp] {
            assert_eq!(Kind::of(kind.hello()), Some(kind));
        }
        assert_eq!(Kind::of(b"FTN1 sctp"), None);
        assert_eq!(Kind::of(b""), None);
    }
}
