//! `festina tunnel`: carries the datagrams or connections of unmodified programs.
//!
//! - [`udp`] and [`tcp`]: both ends of a tunnel for either
//! - [`exit`]: the end that connects to the destinations

mod exit;
mod tcp;
mod udp;

use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use festina::{Association, ConnectOptions, Message};

use super::{RecoveryArgs, say_goodbye};
use crate::address::HostPort;
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
    /// Carry TCP connections to the exit, each over an association of its own
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
    #[arg(long, value_name = "HOST:PORT")]
    to: HostPort,
    /// Give up if the exit does not answer the first message within this time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = args::positive_duration)]
    timeout: Duration,
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
    /// Abandon a datagram that has not been delivered within this time
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = args::positive_duration)]
    lifetime: Duration,
}

/// Arguments of `festina tunnel exit`.
#[derive(Debug, Args)]
pub(crate) struct ExitArgs {
    /// Where tunnels end: ADDRESS:PORT, or :PORT for every address
    #[arg(long, value_name = "ADDRESS:PORT", default_value = ":9899")]
    listen: HostPort,
    /// The server to which programs connect
    #[arg(long, value_name = "HOST:PORT")]
    to: HostPort,
    /// Abandon an answer to a datagram that has not been delivered within this time
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = args::positive_duration)]
    lifetime: Duration,
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
            Self::Tcp => b"FTN1 tcp",
        }
    }

    fn of(hello: &[u8]) -> Option<Self> {
        [Self::Udp, Self::Tcp].into_iter().find(|kind| kind.hello() == hello)
    }
}

/// The way from an entrance to its exit.
struct Way {
    dialer: Dialer,
    to: HostPort,
}

impl Way {
    /// # Errors
    /// If the exit's name does not resolve.
    async fn new(arguments: &EntranceArgs) -> Result<Self> {
        let to = arguments.to.clone();
        to.resolve_all().await?;
        let options = ConnectOptions::default().handshake_timeout(arguments.timeout);
        let client = arguments.trust.client(arguments.recovery.config(), options, &to)?;
        Ok(Self { dialer: Dialer::new(client), to })
    }

    /// Makes an association with the exit, at the first of its addresses that answers, and states its purpose.
    async fn open(&self, kind: Kind) -> Result<Association> {
        // The exit may have moved.
        let addresses = self.to.resolve_all().await?;
        let (_, association) = self.dialer.connect(&addresses, |_| {}).await?;
        association.send(Message::new(kind.hello())).await?;
        Ok(association)
    }

    /// Ends all associations in good order, but does not wait for ever.
    async fn leave(&self) {
        for endpoint in self.dialer.endpoints() {
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
