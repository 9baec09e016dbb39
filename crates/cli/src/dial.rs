//! Connects to a host that may have several addresses.

use std::net::SocketAddr;

use anyhow::{Result, anyhow};
use festina::{Association, ConnectError, Endpoint};
use tokio::sync::OnceCell;

use crate::address;
use crate::keys::Client;

/// Connects to the first of a host's addresses that answers (Happy Eyeballs, RFC 8305).
pub(crate) struct Dialer {
    client: Client,
    /// Endpoints for IPv4 and IPv6, opened on first use.
    endpoints: [OnceCell<Endpoint>; 2],
}

impl Dialer {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, endpoints: Default::default() }
    }

    /// Makes an association with one of these addresses, remembers the key of a new server, and calls `on_open` for each endpoint before it is used for the first time.
    ///
    /// # Errors
    /// The error of the first address if none answers.
    pub(crate) async fn connect(
        &self,
        addresses: &[SocketAddr],
        on_open: impl Fn(&Endpoint),
    ) -> Result<(Endpoint, Association)> {
        let mut ways = Vec::new();
        let mut problem = None;
        for &remote in addresses {
            let open = || async {
                let opened = Endpoint::bind(address::unspecified_for(remote), self.client.config.clone()).await;
                opened.inspect(&on_open)
            };
            match self.endpoints[usize::from(remote.is_ipv6())].get_or_try_init(open).await {
                Ok(endpoint) => ways.push((remote, endpoint.clone())),
                // A host without one of the families reaches the peer by the other.
                Err(error) => problem = Some(error),
            }
        }
        if let Some(problem) = problem.filter(|_| ways.is_empty()) {
            return Err(problem.into());
        }
        let raced = address::race(&ways, |(remote, endpoint)| {
            let options = self.client.options.clone();
            async move {
                let association = endpoint.connect_with(remote, options).await.map_err(with_advice)?;
                Ok((endpoint, association))
            }
        });
        let (endpoint, association) = raced.await.map_err(|error| self.client.explain(error))?;
        self.client.met(&association)?;
        Ok((endpoint, association))
    }

    /// The endpoints that have been opened.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.endpoints.iter().filter_map(OnceCell::get)
    }
}

/// Adds advice to the error of a peer that did not answer.
fn with_advice(error: ConnectError) -> anyhow::Error {
    match error {
        ConnectError::Timeout { remote, .. } => {
            let port = remote.port();
            anyhow!("{error}: is a listener running there, and do firewalls pass UDP port {port} in both directions?")
        }
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::{Ipv4Addr, UdpSocket};

    use festina::{Config, DEFAULT_SCTP_PORT};

    use super::*;

    #[tokio::test]
    async fn the_second_address_is_reached_although_the_first_one_is_silent() {
        let mute = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback is free");
        let server = Endpoint::bind((Ipv4Addr::LOCALHOST, 0).into(), Config::plain()).await.expect("loopback is free");
        let listener = server.listen(DEFAULT_SCTP_PORT).expect("the port is free");
        let addresses = [mute.local_addr().expect("bound"), server.local_addr()];
        let dialer = Dialer::new(Client::plain(Config::plain()));
        let opened = Cell::new(0);
        let (_, association) =
            dialer.connect(&addresses, |_| opened.set(opened.get() + 1)).await.expect("the second answers");
        assert_eq!((association.remote_addr(), opened.get()), (server.local_addr(), 1));
        listener.accept().await.expect("it has been reached");
        assert_eq!(dialer.endpoints().count(), 1);
    }
}
