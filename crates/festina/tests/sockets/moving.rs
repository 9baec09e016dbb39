//! A peer behind a NAT whose UDP port changes (RFC 6951 §5.4), and clients that change networks.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use festina::lower::{LowerLayer, Received, Transmit};
use festina::{
    ConnectOptions, DEFAULT_SCTP_PORT, Endpoint, Event, MemoryNetwork, MemorySocket, Message, PathId, Transport,
};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

use crate::encrypted::configs;
use crate::support::{Pair, endpoint, endpoint_with, in_time, pair_between, pair_with, until};

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

/// Both sides send numbered messages at 30 Hz, while the socket of one is replaced after each of `moves`. Returns the longest delay of a message.
async fn stream_over(pair: &Pair, moves: &[(&Endpoint, SocketAddr)]) -> Duration {
    const COUNT: u32 = 60;
    let send = async |association: &festina::Association| {
        for number in 0..COUNT {
            let at = festina::now().as_nanos();
            let message = [&number.to_be_bytes()[..], &at.to_be_bytes()].concat();
            association.send(Message::new(message)).await.unwrap();
            tokio::time::sleep(Duration::from_millis(33)).await;
        }
    };
    let receive = async |association: &festina::Association| {
        let mut longest = 0;
        for number in 0..COUNT {
            let message = association.recv().await.unwrap().unwrap().into_payload();
            assert_eq!(message[..4], number.to_be_bytes(), "each once and in order");
            longest = longest.max(festina::now().as_nanos() - u64::from_be_bytes(message[4..].try_into().unwrap()));
        }
        Duration::from_nanos(longest)
    };
    let change = async {
        for &(endpoint, address) in moves {
            tokio::time::sleep(Duration::from_millis(500)).await;
            endpoint.rebind(address).unwrap();
        }
    };
    let all = async {
        tokio::join!(send(&pair.client), send(&pair.server), receive(&pair.client), receive(&pair.server), change)
    };
    let ((), (), one, other, ()) = in_time(all).await;
    one.max(other)
}

#[tokio::test]
async fn an_encrypted_association_moves_with_the_socket_of_its_client_in_the_middle_of_a_stream() {
    let (client, server) = configs();
    let pair = pair_with(client, server).await;
    let other = if cfg!(target_os = "linux") { "127.0.0.2:0" } else { "127.0.0.1:0" };
    let new = [other, "127.0.0.1:0"].map(|address| (&pair.client_endpoint, address.parse().unwrap()));
    let longest = stream_over(&pair, &new).await;
    println!("longest delay {longest:?}");
    until("the server has followed", || pair.server.remote_addr() == pair.client_endpoint.local_addr()).await;
    let mut moves = 0;
    while let Ok(Some(event)) = tokio::time::timeout(Duration::from_millis(10), pair.server.event()).await {
        moves += usize::from(matches!(event, Event::PeerMoved { .. }));
    }
    // Both within 600 ms may count as one.
    assert!((1..=2).contains(&moves), "{moves} moves");
    assert!(longest < Duration::from_secs(1), "{longest:?}");
}

#[tokio::test]
async fn an_encrypted_client_follows_its_server_to_another_address_in_the_middle_of_a_stream() {
    let (client, server) = configs();
    let pair = pair_with(client, server).await;
    let new = if cfg!(target_os = "linux") { "127.0.0.3:0" } else { "127.0.0.1:0" };
    let longest = stream_over(&pair, &[(&pair.server_endpoint, new.parse().unwrap())]).await;
    println!("longest delay {longest:?}");
    let remote = pair.server_endpoint.local_addr();
    until("the client has followed", || pair.client.remote_addr() == remote).await;
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    let moved = |event| event == Some(Event::PeerMoved { path: PathId::PRIMARY, remote });
    in_time(async { while !moved(pair.client.event().await) {} }).await;
    // And both at once, one after the other.
    for _ in 0..3 {
        pair.client_endpoint.rebind("127.0.0.1:0".parse().unwrap()).unwrap();
        until("the server has followed", || pair.server.remote_addr() == pair.client_endpoint.local_addr()).await;
        pair.server_endpoint.rebind("127.0.0.1:0".parse().unwrap()).unwrap();
        until("the client has followed", || pair.client.remote_addr() == pair.server_endpoint.local_addr()).await;
    }
    in_time(pair.client.send("still here")).await.unwrap();
    assert_eq!(in_time(pair.server.recv()).await.unwrap().unwrap().payload(), "still here");
}

#[tokio::test]
async fn a_server_follows_the_socket_of_an_idle_client() {
    for is_encrypted in [true, false] {
        let pair = if is_encrypted {
            let (client, server) = configs();
            pair_with(client, server).await
        } else {
            crate::support::pair().await
        };
        let before = pair.client_endpoint.local_addr();
        pair.client_endpoint.rebind("127.0.0.1:0".parse().unwrap()).unwrap();
        let after = pair.client_endpoint.local_addr();
        assert_ne!(before, after);
        until("it has followed", || pair.server.remote_addr() == after).await;
        in_time(pair.server.send("to the new socket")).await.unwrap();
        assert_eq!(in_time(pair.client.recv()).await.unwrap().unwrap().payload(), "to the new socket");
        drop(std::net::UdpSocket::bind(before).expect("the old socket is closed"));
    }
}

/// DHCP has given the host another address. The server keeps its own, though it is lost as well.
#[cfg(target_os = "linux")]
#[test]
fn a_client_whose_own_address_is_gone_takes_another_of_this_host_and_a_server_does_not() {
    crate::path_mtu::with_mtu(1_500, async || {
        let address = |change: &str, host: u8| {
            let arguments = format!("address {change} 10.9.0.{host}/32 dev lo");
            let changed = std::process::Command::new("ip").args(arguments.split(' ')).status();
            assert!(changed.unwrap().success(), "{arguments}");
        };
        address("add", 1);
        address("add", 2);
        let (client, server) = configs();
        let at = |host: u8| SocketAddr::from(([10, 9, 0, host], 0));
        let server = Endpoint::server(at(2), server).await.unwrap();
        let client = Endpoint::client(at(1), client).await.unwrap();
        let remote = server.local_addr();
        let pair = pair_between(client, server, remote).await;
        let before = pair.client_endpoint.local_addr();
        address("del", 1);
        pair.client.send("after the change").await.unwrap();
        assert_eq!(in_time(pair.server.recv()).await.unwrap().unwrap().payload(), "after the change");
        let after = pair.client_endpoint.local_addr();
        assert!(after.ip() != before.ip() && after.port() == before.port(), "{before} {after}");
        until("the server has followed", || pair.server.remote_addr() == after).await;

        // The client has the server's address as well, since both are on one host.
        address("add", 3);
        address("del", 2);
        pair.server.send("lost").await.unwrap();
        until("the system has refused", || pair.server_endpoint.stats().send_errors > 0).await;
        assert_eq!(pair.server_endpoint.local_addr(), remote);
    });
}

#[tokio::test]
async fn a_socket_stays_if_the_new_address_cannot_be_bound() {
    let pair = crate::support::pair().await;
    let (taken, before) = (pair.server_endpoint.local_addr(), pair.client_endpoint.local_addr());
    let refused = pair.client_endpoint.rebind(taken).unwrap_err();
    assert!(refused.to_string().contains(&taken.to_string()), "{refused}");
    assert_eq!(pair.client_endpoint.local_addr(), before);
    in_time(pair.client.send("from the old socket")).await.unwrap();
    assert_eq!(in_time(pair.server.recv()).await.unwrap().unwrap().payload(), "from the old socket");
    assert_eq!(pair.server.remote_addr(), before);
    in_time(pair.client_endpoint.close()).await;
    assert!(pair.client_endpoint.rebind("127.0.0.1:0".parse().unwrap()).is_err(), "it is closed");
}

#[tokio::test]
async fn the_first_of_several_addresses_is_replaced_and_later_associations_learn_it() {
    for is_encrypted in [false, true] {
        let network = MemoryNetwork::new();
        let bind = |address: &str| network.bind(address.parse().unwrap()).unwrap();
        let lower = |host: u8| {
            let [first, second] = [0, 1].map(|place| bind(&format!("10.0.{place}.{host}:9899")));
            festina::lower::Several::new(first, vec![Box::new(second)])
        };
        let (client, server) =
            if is_encrypted { configs() } else { (festina::ClientConfig::plain(), festina::ServerConfig::plain()) };
        let client = Endpoint::bind_on(lower(2), client).await.unwrap();
        let server = Endpoint::bind_on(lower(1), server).await.unwrap();
        let pair = pair_between(client, server, "10.0.0.1:9899".parse().unwrap()).await;
        let active = |association: &festina::Association| {
            association.paths().iter().all(|path| path.state == festina::PathState::Active)
        };
        until("all paths are active", || active(&pair.client) && active(&pair.server)).await;
        let endpoint = &pair.client_endpoint;
        for refused in ["10.0.1.2:0", "10.0.0.1:0", "0.0.0.0:0"] {
            assert!(endpoint.rebind(refused.parse().unwrap()).is_err(), "{refused}");
        }
        endpoint.rebind("10.0.0.3:0".parse().unwrap()).unwrap();
        let locals = endpoint.local_addrs().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(locals, ["10.0.0.3:9899", "10.0.1.2:9899"]);
        in_time(pair.client.send("on")).await.unwrap();
        assert_eq!(in_time(pair.server.recv()).await.unwrap().unwrap().payload(), "on");
        let (near, far) =
            in_time(async { tokio::join!(endpoint.connect("10.0.0.1:9899"), pair.listener.accept()) }).await;
        let (near, far) = (near.unwrap(), far.unwrap());
        until("the addresses are known", || far.paths().len() == 2 && active(&far)).await;
        assert_eq!(far.paths()[0].remote.to_string(), "10.0.0.3:9899");
        drop(near);
        // A server's new address, too.
        pair.server_endpoint.rebind("10.0.0.4:0".parse().unwrap()).unwrap();
        let (near, _far) =
            in_time(async { tokio::join!(endpoint.connect("10.0.1.1:9899"), pair.listener.accept()) }).await;
        let near = near.unwrap();
        until("the new address is known", || {
            near.paths().iter().any(|path| path.remote.to_string() == "10.0.0.4:9899")
        })
        .await;
    }
}

#[tokio::test]
async fn a_server_that_forbids_moves_drops_packets_from_elsewhere_and_counts_them() {
    for is_encrypted in [true, false] {
        let (client, server) =
            if is_encrypted { configs() } else { (festina::ClientConfig::plain(), festina::ServerConfig::plain()) };
        let pair = pair_with(client, server.with_transport(Transport::default().with_peer_moves(false))).await;
        in_time(pair.client.send("from the old socket")).await.unwrap();
        assert_eq!(in_time(pair.server.recv()).await.unwrap().unwrap().payload(), "from the old socket");
        let (before, dropped) = (pair.client_endpoint.local_addr(), pair.server_endpoint.stats().packets_dropped);
        pair.client_endpoint.rebind("127.0.0.1:0".parse().unwrap()).unwrap();
        in_time(pair.client.send("from the new one")).await.unwrap();
        until("packets are dropped", || pair.server_endpoint.stats().packets_dropped >= dropped + 3).await;
        assert!(pair.server.try_recv().is_err());
        assert_eq!(pair.server.remote_addr(), before);
        // The client is given its old port again.
        pair.client_endpoint.rebind(before).unwrap();
        assert_eq!(in_time(pair.server.recv()).await.unwrap().unwrap().payload(), "from the new one");
    }
}
