//! `festina web`: a page that shows how late messages from and to a server are, over data channels and over a WebSocket.

#[cfg(target_os = "linux")]
mod hosts;
mod server;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use festina_emulate::{RunningProxy, UdpProxy};
use festina_netsim::LinkConfig;
use festina_units::Probability;
use festina_web::{WebConfig, WebEndpoint};
use tokio::net::TcpListener;

use self::server::Server;
use crate::usage::UsageError;
use crate::{args, link, output, signal};

const EXAMPLES: &str = "\
Examples:
  festina web                                then open http://127.0.0.1:8080
  festina web --delay 20ms --loss 1%
  festina web --delay 0ms --loss 0%          without an emulated network

The server is on a temporary host behind an emulated network with this delay and loss each way, as for `festina emulate run`. Everything \
between the page and the server passes it: the page itself, the offer, the WebSocket's TCP and the data channels' UDP. The kernel sends and \
repairs the TCP in front of the network and behind it, and hands it to the browser over loopback. This needs Linux, and root, or user \
namespaces and access to /dev/net/tun; otherwise only the data channels pass an emulated network, and the page has no WebSocket. Firefox \
makes no data channels to loopback addresses: give --listen another address of this machine for it.";

/// Seed of the network's random numbers.
const SEED: u64 = 1;

/// Arguments of `festina web`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WebArgs {
    /// Where the browser finds the page, by TCP, and the data channels, by UDP
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// One-way propagation delay
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = args::any_duration)]
    delay: Duration,
    /// Share of packets lost, each way
    #[arg(long, value_name = "SHARE", default_value = "5%")]
    loss: Probability,
    /// Lose packets in bursts of this mean length instead of singly; --loss remains the average share
    #[arg(long, value_name = "TIME", value_parser = args::positive_duration)]
    burst: Option<Duration>,
}

impl WebArgs {
    fn is_direct(&self) -> bool {
        self.delay.is_zero() && self.loss == Probability::ZERO
    }

    fn link(&self) -> Result<LinkConfig, UsageError> {
        let loss = link::loss_model(self.loss, self.burst)?;
        Ok(LinkConfig { delay: self.delay, loss, ..LinkConfig::default() })
    }
}

/// What the page passes through, for as long as this lives.
#[expect(dead_code, reason = "each part runs until it is dropped")]
enum Path {
    Direct,
    Proxy(RunningProxy),
    #[cfg(target_os = "linux")]
    Hosts(hosts::Path),
}

/// What passes the emulated network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Emulated {
    Nothing,
    Datagrams,
    Everything,
}

/// Takes the privileges of a user namespace. Without them the data channels alone pass an emulated network.
pub(crate) fn without_threads(arguments: &WebArgs) -> Option<Result<()>> {
    #[cfg(target_os = "linux")]
    if !arguments.is_direct() {
        let _ = festina_emulate::hosts::gain_privilege();
    }
    #[cfg(not(target_os = "linux"))]
    let _ = arguments;
    None
}

/// Serves the page until interrupted.
pub(crate) async fn run(arguments: WebArgs) -> Result<()> {
    if arguments.listen.ip().is_unspecified() {
        return Err(UsageError::new("--listen takes an address that the browser can reach, not all addresses").into());
    }
    let interruption = signal::interruption();
    let (server, address, path) = open(&arguments).await?;
    output::print_in_turn(format!("http://{address}")).await?;
    output::notice(&match path {
        Path::Direct => "no network is emulated".to_owned(),
        _ => format!(
            "open it in a browser; {} each way, {} lost",
            festina_units::duration::display(arguments.delay),
            arguments.loss
        ),
    });
    server.serve(interruption).await
}

/// Opens the server and the network in front of it. Returns the page's address, too.
async fn open(arguments: &WebArgs) -> Result<(Server, SocketAddr, Path)> {
    let listener = TcpListener::bind(arguments.listen).await;
    let listener = listener.with_context(|| format!("cannot listen on {}", arguments.listen))?;
    let address = listener.local_addr()?;
    if arguments.is_direct() {
        let endpoint = WebEndpoint::bind(address, WebConfig::default()).await?;
        return Ok((Server::new(arguments, listener, endpoint, Emulated::Nothing), address, Path::Direct));
    }
    #[cfg(target_os = "linux")]
    let listener = match hosts::open(arguments, listener).await? {
        Ok((server, path)) => return Ok((server, address, Path::Hosts(path))),
        Err((listener, reason)) => {
            output::notice(&format!("only data channels pass the emulated network: {reason}"));
            listener
        }
    };
    // The proxy has the page's port, so the endpoint takes any.
    let endpoint = SocketAddr::new(address.ip(), 0);
    let endpoint = WebEndpoint::bind(endpoint, WebConfig::default().with_public_address(address)).await?;
    let links = (arguments.link()?, arguments.link()?);
    let proxy = UdpProxy::bind(address, endpoint.local_addr(), links.0, links.1, SEED)?.spawn()?;
    Ok((Server::new(arguments, listener, endpoint, Emulated::Datagrams), address, Path::Proxy(proxy)))
}
