//! A peer behind a NAT whose UDP port changes (RFC 6951 §5.4), and clients that change networks.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use festina::lower::{LowerLayer, Received, Transmit};
use festina::{ConnectOptions, DEFAULT_SCTP_PORT, Endpoint, Event, MemoryNetwork, MemorySocket, Message, PathId};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

use crate::encrypted::configs;
use crate::support::{endpoint, endpoint_with, in_time, pair_between, until};

/// Passes datagrams between one client and a server. A socket that is sent to it takes the place of the one that the server
/// sees.
struct Nat {
    address: SocketAddr,
    outside: mpsc::Sender<UdpSocket>,
}

impl Nat {
    async fn new(server: SocketAddr, mut outside: UdpSocket) -> Self {
        let inside = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = inside.local_addr().unwrap();
        let (sender, mut receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            let mut client = None;
            let (mut there, mut back) = (vec![0; 65_536], vec![0; 65_536]);
            loop {
                tokio::select! {
                    received = inside.recv_from(&mut there) => {
                        let (len, from) = received.unwrap();
                        client = Some(from);
                        outside.send_to(&there[..len], server).await.unwrap();
                    }
                    received = outside.recv_from(&mut back) => {
                        let (len, _) = received.unwrap();
                        inside.send_to(&back[..len], client.unwrap()).await.unwrap();
                    }
                    socket = receiver.recv() => match socket {
                        Some(socket) => outside = socket,
                        None => return,
                    },
                }
            }
        });
        Self { address, outside: sender }
    }
}

async fn socket_at(address: &str) -> UdpSocket {
    UdpSocket::bind(address).await.unwrap()
}

async fn connect(client: &Endpoint, nat: &Nat) -> festina::Association {
    let options = ConnectOptions::default().local_port(7_000);
    in_time(client.connect_with(nat.address, options)).await.unwrap()
}

#[tokio::test]
async fn an_association_follows_its_peer_to_another_udp_port_and_leaves_the_old_one_to_others() {
    let server = endpoint().await;
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    let old = socket_at("127.0.0.1:0").await;
    let old_address = old.local_addr().unwrap().to_string();
    let nat = Nat::new(server.local_addr(), old).await;
    let client = endpoint().await;
    let first = connect(&client, &nat).await;
    let at_server = in_time(listener.accept()).await.unwrap();
    assert_eq!(at_server.remote_addr().to_string(), old_address);

    let new = socket_at("127.0.0.1:0").await;
    let new_address = new.local_addr().unwrap();
    nat.outside.send(new).await.unwrap();
    in_time(first.send(Message::new("from elsewhere"))).await.unwrap();
    assert_eq!(in_time(at_server.recv()).await.unwrap().unwrap().payload(), "from elsewhere");
    assert_eq!(at_server.remote_addr(), new_address);
    in_time(at_server.send(Message::new("to there"))).await.unwrap();
    assert_eq!(in_time(first.recv()).await.unwrap().unwrap().payload(), "to there");

    // Another client may now have the old UDP port, with the same SCTP ports.
    let other_nat = Nat::new(server.local_addr(), socket_at(&old_address).await).await;
    let other_client = endpoint().await;
    let second = connect(&other_client, &other_nat).await;
    let also_at_server = in_time(listener.accept()).await.unwrap();
    in_time(second.send(Message::new("newcomer"))).await.unwrap();
    assert_eq!(in_time(also_at_server.recv()).await.unwrap().unwrap().payload(), "newcomer");

    in_time(first.shutdown()).await.unwrap();
    in_time(second.shutdown()).await.unwrap();
    until("both are gone", || server.stats().associations == 0).await;
}

/// The second address is another loopback address where the system has more than one.
#[tokio::test]
async fn an_encrypted_association_follows_its_client_to_another_address_and_reports_it() {
    let (client_config, server_config) = configs();
    let server = endpoint_with(server_config).await;
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    let nat = Nat::new(server.local_addr(), socket_at("127.0.0.1:0").await).await;
    let client = endpoint_with(client_config).await;
    let at_client = connect(&client, &nat).await;
    let at_server = in_time(listener.accept()).await.unwrap();
    for new in [if cfg!(target_os = "linux") { "127.0.0.2:0" } else { "127.0.0.1:0" }, "127.0.0.1:0"] {
        let new = socket_at(new).await;
        let new_address = new.local_addr().unwrap();
        nat.outside.send(new).await.unwrap();
        in_time(at_client.send(Message::new("from elsewhere"))).await.unwrap();
        assert_eq!(in_time(at_server.recv()).await.unwrap().unwrap().payload(), "from elsewhere");
        loop {
            if in_time(at_server.event()).await == Some(Event::PeerMoved { path: PathId::PRIMARY, remote: new_address })
            {
                break;
            }
        }
        assert_eq!(at_server.remote_addr(), new_address);
        in_time(at_server.send(Message::new("to there"))).await.unwrap();
        assert_eq!(in_time(at_client.recv()).await.unwrap().unwrap().payload(), "to there");
    }
    in_time(at_client.shutdown()).await.unwrap();
    until("it is gone", || server.stats().associations == 0).await;
}

/// A socket on the unspecified address, whose host loses an address.
#[derive(Debug)]
struct Roaming {
    below: MemorySocket,
    has_moved: Arc<AtomicBool>,
}

impl Roaming {
    const OLD: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
}

impl LowerLayer for Roaming {
    fn local_addr(&self) -> SocketAddr {
        "0.0.0.0:9899".parse().unwrap()
    }

    fn peer_address(&self, remote: SocketAddr) -> Result<SocketAddr, &'static str> {
        Ok(remote)
    }

    fn try_send(&self, packets: &Transmit<'_>) -> io::Result<()> {
        if self.has_moved.load(Ordering::Relaxed) && packets.source == Some(Self::OLD) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.below.try_send(packets)
    }

    fn try_receive(&self, buffers: &mut [IoSliceMut<'_>], incoming: &mut [Received]) -> io::Result<usize> {
        let count = self.below.try_receive(buffers, incoming)?;
        if !self.has_moved.load(Ordering::Relaxed) {
            incoming.iter_mut().take(count).for_each(|incoming| incoming.to = Some(Self::OLD));
        }
        Ok(count)
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.below.poll_readable(context)
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.below.poll_writable(context)
    }
}

#[tokio::test]
async fn an_encrypted_client_on_the_unspecified_address_goes_on_when_its_address_disappears() {
    let (network, has_moved) = (MemoryNetwork::new(), Arc::<AtomicBool>::default());
    let bind = |address: &str| network.bind(address.parse().unwrap()).unwrap();
    let (client_config, server_config) = configs();
    let below = Roaming { below: bind("10.0.0.2:9899"), has_moved: has_moved.clone() };
    let client = Endpoint::bind_on(below, client_config).await.unwrap();
    let server = Endpoint::bind_on(bind("10.0.0.1:9899"), server_config).await.unwrap();
    let pair = pair_between(client, server, "10.0.0.1:9899".parse().unwrap()).await;
    in_time(async {
        pair.server.send("to the old network").await.unwrap();
        assert_eq!(pair.client.recv().await.unwrap().unwrap().payload(), "to the old network");
        has_moved.store(true, Ordering::Relaxed);
        pair.client.send("from the new network").await.unwrap();
        assert_eq!(pair.server.recv().await.unwrap().unwrap().payload(), "from the new network");
    })
    .await;
}
