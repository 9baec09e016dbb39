//! The server on a temporary host behind an emulated network, and the relays that lead the browser to it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use festina_emulate::hosts::{Hosts, SERVER};
use festina_emulate::{RunningProxy, TunError, UdpProxy};
use festina_netsim::LinkConfig;
use festina_web::{WebConfig, WebEndpoint};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::server::Server;
use super::{Emulated, SEED, WebArgs};

/// The port of the page on the server's host.
const PORT: u16 = 80;

/// The network and the relays, which end with this.
pub(super) struct Path {
    _hosts: Arc<Hosts>,
    _datagrams: RunningProxy,
    connections: AbortHandle,
}

impl Drop for Path {
    fn drop(&mut self) {
        self.connections.abort();
    }
}

/// Opens the server and leads the listener's connections, and the datagrams to the same address, to it. Returns the listener and the reason if
/// this system or user may have no such network.
pub(super) async fn open(
    arguments: &WebArgs,
    listener: TcpListener,
) -> Result<Result<(Server, Path), (TcpListener, TunError)>> {
    let hosts = match Hosts::create((arguments.link()?, arguments.link()?), SEED, None) {
        Ok(hosts) => Arc::new(hosts),
        Err(reason) => return Ok(Err((listener, reason))),
    };
    let address = listener.local_addr()?;
    let runtime = Handle::current();
    let config = WebConfig::default().with_public_address(address);
    let (pages, endpoint) = hosts.server().run(|| {
        runtime.block_on(async {
            let pages = TcpListener::bind(SocketAddr::new(SERVER.ipv4.into(), PORT)).await?;
            anyhow::Ok((pages, WebEndpoint::bind(SocketAddr::new(SERVER.ipv4.into(), 0), config).await?))
        })
    })??;
    let plain = LinkConfig::default();
    let proxy = UdpProxy::bind(address, endpoint.local_addr(), plain.clone(), plain, SEED)
        .with_context(|| format!("cannot listen on {address}"))?;
    // The sockets towards the server belong to the namespace that the proxy's thread is started in.
    let datagrams = hosts.client().run(|| proxy.spawn())??;
    let connections = tokio::spawn(relay(listener, hosts.clone())).abort_handle();
    let server = Server::new(arguments, pages, endpoint, Emulated::Everything);
    Ok(Ok((server, Path { _hosts: hosts, _datagrams: datagrams, connections })))
}

/// Leads each connection to the page on the server's host.
async fn relay(listener: TcpListener, hosts: Arc<Hosts>) {
    loop {
        match listener.accept().await {
            Ok((browser, _)) => drop(tokio::spawn(lead(browser, hosts.clone()))),
            // There may be descriptors again later.
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
        }
    }
}

async fn lead(mut browser: TcpStream, hosts: Arc<Hosts>) -> io::Result<()> {
    let socket = hosts.client().run(TcpSocket::new_v4)??;
    let mut server = socket.connect(SocketAddr::new(SERVER.ipv4.into(), PORT)).await?;
    browser.set_nodelay(true)?;
    server.set_nodelay(true)?;
    tokio::io::copy_bidirectional(&mut browser, &mut server).await?;
    Ok(())
}
