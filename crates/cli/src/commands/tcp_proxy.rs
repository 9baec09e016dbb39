//! `festina tcp-proxy`: forwards TCP connections with short send buffers, for programs that cannot be changed.

mod relay;

use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use festina_minbuf::{MinBuf, SendBufferLimit};
use festina_units::Bandwidth;
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::relay::Relay;
use crate::{address, args, output, signal};

/// After an error of `accept`, such as too many open files, others may end in the meantime.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const EXAMPLES: &str = "\
Examples:
  festina tcp-proxy --listen 127.0.0.1:8000 --to media.example.org:554
  festina tcp-proxy --listen :8000 --to 127.0.0.1:554 --target 20ms     in front of a server
  festina tcp-proxy --listen :8000 --to 127.0.0.1:554 --min-buf 1,3     the limit of the publication

The proxy reads only as much as it can send at once, so that a program that writes too fast is held back. It cannot limit the \
program's own socket buffers on the way to the proxy. Ends on Ctrl-C. Linux 4.9 or later.";

/// Arguments of `festina tcp-proxy`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TcpProxyArgs {
    /// Where to accept connections: HOST:PORT, or :PORT for any address
    #[arg(long, value_name = "HOST:PORT")]
    listen: TcpAddress,
    /// Where to forward them
    #[arg(long, value_name = "HOST:PORT")]
    to: TcpAddress,
    /// Target for the wait of data in a send buffer
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = args::positive_duration)]
    target: Duration,
    /// Instead, limit send buffers to A congestion windows and B packets
    #[arg(long, value_name = "A,B", conflicts_with = "target")]
    min_buf: Option<MinBufArg>,
    /// Pace each connection at this rate
    #[arg(long, value_name = "RATE")]
    pace: Option<Bandwidth>,
    /// Maximum concurrent connections; further ones wait
    #[arg(long, value_name = "NUMBER", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    connections_max: u32,
    /// Give up connecting after this time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = args::positive_duration)]
    connect_timeout: Duration,
    /// Print nothing about connections that ended normally
    #[arg(long)]
    quiet: bool,
}

impl TcpProxyArgs {
    fn limit(&self) -> SendBufferLimit {
        match self.min_buf {
            Some(MinBufArg(min_buf)) => SendBufferLimit::MinBuf(min_buf),
            None => SendBufferLimit::Target(self.target),
        }
    }
}

/// Passes connections on until interrupted.
pub(crate) async fn run(arguments: TcpProxyArgs) -> Result<()> {
    // An unknown name is reported now instead of to the first client.
    arguments.to.resolve().await.context("cannot pass connections on")?;
    let listener = address::listen_tcp(&arguments.listen.0.parse()?).await?;
    let interruption = signal::interruption();
    output::notice(&format!("{} is passed on to {}", listener.local_addr()?, arguments.to));
    let proxy = Arc::new(Proxy {
        seats: Arc::new(Semaphore::new(usize::try_from(arguments.connections_max).unwrap_or(1))),
        arguments,
        served: AtomicU64::new(0),
    });
    tokio::select! {
        () = interruption => {}
        () = proxy.accept(&listener) => {}
    }
    output::notice(&format!("{} connections were forwarded", proxy.served.load(Ordering::Relaxed)));
    Ok(())
}

#[derive(Debug)]
struct Proxy {
    arguments: TcpProxyArgs,
    seats: Arc<Semaphore>,
    served: AtomicU64,
}

impl Proxy {
    /// Accepts as long as there are seats; others wait in the kernel's queue.
    async fn accept(self: &Arc<Self>, listener: &TcpListener) {
        loop {
            if self.seats.available_permits() == 0 {
                output::notice(&format!("{} connections are open, others wait", self.arguments.connections_max));
            }
            let Ok(seat) = Arc::clone(&self.seats).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((client, from)) => {
                    address::reset_when_dropped(&client);
                    tokio::spawn(Arc::clone(self).serve(client, address::canonical(from), seat));
                }
                Err(error) => {
                    output::complain(&format!("cannot accept a connection: {error}"));
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn serve(self: Arc<Self>, client: TcpStream, from: SocketAddr, seat: OwnedSemaphorePermit) {
        match self.relay(client).await {
            Ok(report) => {
                self.served.fetch_add(1, Ordering::Relaxed);
                if !self.arguments.quiet {
                    output::notice(&format!("{from}: {report}"));
                }
            }
            Err(error) => output::complain(&format!("{from}: {}", output::causes(&error))),
        }
        drop(seat);
    }

    async fn relay(&self, client: TcpStream) -> Result<String> {
        let Ok(upstream) = tokio::time::timeout(self.arguments.connect_timeout, self.connect()).await else {
            anyhow::bail!("{} does not answer", self.arguments.to);
        };
        let mut relay = Relay::new(client, upstream?, self.arguments.limit(), self.arguments.pace)?;
        relay.run().await?;
        Ok(relay.report())
    }

    async fn connect(&self) -> Result<TcpStream> {
        // The name may stand for other addresses than before.
        address::connect_tcp(&self.arguments.to.resolve().await?).await
    }
}

/// A host and a TCP port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TcpAddress(String);

impl FromStr for TcpAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let port = text.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        match port {
            Some(_) => Ok(Self(text.to_owned())),
            None => Err("it is not a host with a TCP port; write for example 127.0.0.1:8000".to_owned()),
        }
    }
}

impl std::fmt::Display for TcpAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl TcpAddress {
    /// Returns the addresses in the order in which to try them.
    async fn resolve(&self) -> Result<Vec<SocketAddr>> {
        let host = if self.0.starts_with(':') { "0.0.0.0" } else { "" };
        let found = lookup_host(format!("{host}{self}")).await;
        Ok(address::in_turn(found.with_context(|| format!("cannot find {self}"))?))
    }
}

/// A and B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MinBufArg(MinBuf);

impl FromStr for MinBufArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(',').and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
        match parts {
            Some((windows @ 1.., extra_packets)) => Ok(Self(MinBuf { windows, extra_packets })),
            _ => Err("it is no pair of A, 1 at least, and B; write for example 1,3".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_port_and_may_lack_a_host() {
        assert_eq!(":80".parse(), Ok(TcpAddress(":80".to_owned())));
        assert_eq!("[::1]:80".parse(), Ok(TcpAddress("[::1]:80".to_owned())));
        for bad in ["", "localhost", "localhost:", "a:70000", "::1]"] {
            assert!(bad.parse::<TcpAddress>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_is_one_at_least() {
        assert_eq!("1,3".parse(), Ok(MinBufArg(MinBuf { windows: 1, extra_packets: 3 })));
        for bad in ["0,3", "1", "1,", "-1,0", "1,3,4", "a,b"] {
            assert!(bad.parse::<MinBufArg>().is_err(), "{bad}");
        }
    }
}
