//! Endpoints with several addresses: a path to each address of the peer.

use std::collections::BTreeSet;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use festina::lower::{LowerLayer, Received, Several, Transmit};
use festina::{
    Association, BindError, ClientConfig, DEFAULT_SCTP_PORT, Endpoint, Event, MemoryNetwork, MemorySocket, Message,
    PathId, PathPolicy, PathState, ServerConfig, Transport,
};

use crate::support::{Pair, endpoint_with, in_time, pair_between, until};

/// The addresses of client and server, on two networks.
const ADDRESSES: [[&str; 2]; 2] = [["10.0.0.2:9899", "10.0.1.2:9899"], ["10.0.0.1:9899", "10.0.1.1:9899"]];

fn address(host: usize, network: usize) -> SocketAddr {
    ADDRESSES[host][network].parse().unwrap()
}

/// Settings of a client and a server.
fn configs(is_encrypted: bool) -> (ClientConfig, ServerConfig) {
    if !is_encrypted {
        return (ClientConfig::plain(), ServerConfig::plain());
    }
    let identity = festina::security::Identity::self_signed("two.example").unwrap();
    (ClientConfig::new(identity.fingerprint()), ServerConfig::new(identity))
}

/// Two hosts with two addresses each.
async fn pair_over(network: &MemoryNetwork, is_encrypted: bool) -> Pair {
    let lower = |host: usize| {
        let lower = |place| network.bind(address(host, place)).unwrap();
        Several::new(lower(0), vec![Box::new(lower(1))])
    };
    let transport = Transport::default().with_path_policy(PathPolicy::PrimaryOnly);
    let (client, server) = configs(is_encrypted);
    let client = Endpoint::bind_on(lower(0), client.with_transport(transport.clone())).await.unwrap();
    let server = Endpoint::bind_on(lower(1), server.with_transport(transport)).await.unwrap();
    let pair = pair_between(client, server, address(1, 0)).await;
    until("both paths are active", || [&pair.client, &pair.server].iter().all(|end| states(end) == ACTIVE)).await;
    pair
}

const ACTIVE: [PathState; 2] = [PathState::Active; 2];

fn states(association: &Association) -> Vec<PathState> {
    association.paths().iter().map(|path| path.state).collect()
}

#[tokio::test]
async fn each_address_of_the_peer_is_a_path_that_leaves_from_the_address_on_its_network() {
    for is_encrypted in [false, true] {
        each_address_is_a_path(is_encrypted).await;
    }
}

async fn each_address_is_a_path(is_encrypted: bool) {
    let ways = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = Arc::clone(&ways);
    let network = MemoryNetwork::with_filter(move |from, to, _| {
        seen.lock().unwrap().insert((from, to));
        true
    });
    let pair = in_time(pair_over(&network, is_encrypted)).await;
    let expected = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(host, way)| (address(host, way), address(1 - host, way)));
    assert_eq!(*ways.lock().unwrap(), BTreeSet::from(expected));
    let remotes: Vec<SocketAddr> = pair.client.paths().iter().map(|path| path.remote).collect();
    assert_eq!(remotes, [address(1, 0), address(1, 1)]);
    assert_eq!(pair.client.path_stats().len(), 2);
    in_time(async {
        let confirmed = |event| matches!(event, Some(Event::PathConfirmed { remote, .. }) if remote == address(1, 1));
        while !confirmed(pair.client.event().await) {}
    })
    .await;
    assert_eq!(pair.server_endpoint.local_addrs(), [address(1, 0), address(1, 1)]);
}

#[tokio::test]
async fn messages_cross_by_the_other_network_while_the_first_is_down() {
    for is_encrypted in [false, true] {
        messages_cross_by_the_other(is_encrypted).await;
    }
}

async fn messages_cross_by_the_other(is_encrypted: bool) {
    let is_down = Arc::new(AtomicBool::new(false));
    let down = Arc::clone(&is_down);
    let network =
        MemoryNetwork::with_filter(move |_, to, _| !(down.load(Ordering::Relaxed) && to.ip() == address(1, 0).ip()));
    let pair = in_time(pair_over(&network, is_encrypted)).await;
    let echo = async |number: u32| {
        let begun = festina::now();
        pair.client.send(Message::new(number.to_be_bytes().to_vec())).await.unwrap();
        assert_eq!(pair.server.recv().await.unwrap().unwrap().into_payload(), number.to_be_bytes().to_vec());
        festina::now() - begun
    };
    in_time(async {
        for number in 0..20 {
            echo(number).await;
        }
        is_down.store(true, Ordering::Relaxed);
        for number in 20..40 {
            // T3-rtx alone would take a second, and a minute until another path is used.
            assert!(echo(number).await < Duration::from_secs(20));
        }
    })
    .await;
    let carries: Vec<bool> = pair.client.paths().iter().map(|path| path.carries_data).collect();
    assert_eq!(carries, [false, true]);
    is_down.store(false, Ordering::Relaxed);
    until("the first path is used again", || pair.client.paths()[0].carries_data).await;
    let second = pair.client.paths()[1].id;
    assert!(pair.client.set_primary_path(second) && pair.client.paths()[1].carries_data);
    assert!(pair.client.set_primary_path(PathId::PRIMARY));
}

/// A socket whose network takes no packet while `is_stuck`.
#[derive(Debug)]
struct Stuck {
    lower: MemorySocket,
    is_stuck: Arc<AtomicBool>,
}

impl LowerLayer for Stuck {
    fn local_addr(&self) -> SocketAddr {
        self.lower.local_addr()
    }

    fn peer_address(&self, remote: SocketAddr) -> Result<SocketAddr, &'static str> {
        self.lower.peer_address(remote)
    }

    fn try_send(&self, packets: &Transmit<'_>) -> io::Result<()> {
        if self.is_stuck.load(Ordering::Relaxed) {
            Err(io::ErrorKind::WouldBlock.into())
        } else {
            self.lower.try_send(packets)
        }
    }

    fn try_receive(&self, buffers: &mut [IoSliceMut<'_>], incoming: &mut [Received]) -> io::Result<usize> {
        self.lower.try_receive(buffers, incoming)
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.lower.poll_readable(context)
    }

    fn poll_writable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_stuck.load(Ordering::Relaxed) { Poll::Pending } else { Poll::Ready(Ok(())) }
    }
}

#[tokio::test]
async fn a_network_whose_socket_is_full_holds_back_no_other() {
    let (network, is_stuck) = (MemoryNetwork::new(), Arc::new(AtomicBool::new(false)));
    let bind = async |host: usize| {
        let [first, second] = [0, 1].map(|place| network.bind(address(host, place)).unwrap());
        let is_stuck = if host == 0 { Arc::clone(&is_stuck) } else { Arc::default() };
        let lower = Several::new(Stuck { lower: first, is_stuck }, vec![Box::new(second)]);
        Endpoint::bind_on(lower, ServerConfig::plain()).await.unwrap()
    };
    let pair = in_time(pair_between(bind(0).await, bind(1).await, address(1, 0))).await;
    until("both paths are active", || [&pair.client, &pair.server].iter().all(|end| states(end) == ACTIVE)).await;
    is_stuck.store(true, Ordering::Relaxed);
    for number in 0..20_u8 {
        pair.client.send(Message::new(vec![number])).await.unwrap();
        assert_eq!(in_time(pair.server.recv()).await.unwrap().unwrap().into_payload(), [number].as_slice());
    }
    assert!(pair.client.paths()[1].carries_data);
}

/// A client with two addresses whose first network fails: it loses all packets, or the system `refuses` to send.
async fn leaves_a_network_that_fails(is_encrypted: bool, refuses: bool) {
    let is_down = Arc::new(AtomicBool::new(false));
    let (down, away) = (Arc::clone(&is_down), address(0, 0));
    let network = MemoryNetwork::with_filter(move |from, to, _| {
        refuses || !(down.load(Ordering::Relaxed) && (from == away || to == away))
    });
    let [first, second] = [0, 1].map(|place| network.bind(address(0, place)).unwrap());
    let first = Unreachable { lower: first, is_down: if refuses { Arc::clone(&is_down) } else { Arc::default() } };
    let (client, server) = configs(is_encrypted);
    let server = server.with_transport(Transport::default().with_paths_max(if is_encrypted { 1 } else { 8 }));
    let client = Endpoint::bind_on(Several::new(first, vec![Box::new(second)]), client).await.unwrap();
    let server = Endpoint::bind_on(network.bind(address(1, 0)).unwrap(), server).await.unwrap();
    let pair = in_time(pair_between(client, server, address(1, 0))).await;
    if !is_encrypted {
        until("the second address is known", || states(&pair.server) == ACTIVE).await;
    }
    let echo = async |number: u8| {
        let begun = festina::now();
        pair.client.send(Message::new(vec![number])).await.unwrap();
        assert_eq!(pair.server.recv().await.unwrap().unwrap().into_payload(), [number].as_slice());
        pair.server.send(Message::new(vec![number])).await.unwrap();
        assert_eq!(pair.client.recv().await.unwrap().unwrap().into_payload(), [number].as_slice());
        festina::now() - begun
    };
    in_time(async {
        for number in 0..20 {
            echo(number).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        is_down.store(true, Ordering::Relaxed);
        let delay = echo(20).await;
        // Without another own address the association would wait until the network is back.
        assert!(delay < Duration::from_secs(5), "{delay:?}");
        println!("encrypted {is_encrypted}, refused {refuses}: {delay:?}");
        for number in 21..40 {
            echo(number).await;
        }
    })
    .await;
}

/// A socket whose network has no route while it `is_down`.
#[derive(Debug)]
struct Unreachable {
    lower: MemorySocket,
    is_down: Arc<AtomicBool>,
}

impl LowerLayer for Unreachable {
    fn local_addr(&self) -> SocketAddr {
        self.lower.local_addr()
    }

    fn peer_address(&self, remote: SocketAddr) -> Result<SocketAddr, &'static str> {
        self.lower.peer_address(remote)
    }

    fn try_send(&self, packets: &Transmit<'_>) -> io::Result<()> {
        match self.is_down.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::NetworkUnreachable.into()),
            false => self.lower.try_send(packets),
        }
    }

    fn try_receive(&self, buffers: &mut [IoSliceMut<'_>], incoming: &mut [Received]) -> io::Result<usize> {
        self.lower.try_receive(buffers, incoming)
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.lower.poll_readable(context)
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.lower.poll_writable(context)
    }
}

#[tokio::test]
async fn a_client_leaves_a_network_that_fails_though_its_server_has_one_address() {
    for is_encrypted in [true, false] {
        for refuses in [false, true] {
            leaves_a_network_that_fails(is_encrypted, refuses).await;
        }
    }
}

/// A server on two loopback addresses, and the association of a client with these settings.
async fn with_client(
    others: [&str; 2],
    is_encrypted: bool,
    change: impl FnOnce(ClientConfig) -> ClientConfig,
) -> Option<(Pair, Vec<SocketAddr>)> {
    let parse = |address: &str| address.parse::<IpAddr>().unwrap();
    let (client, config) = configs(is_encrypted);
    let (client, config) = (change(client), config.with_other_addresses([parse(others[1])]));
    let server = match Endpoint::server((parse(others[0]), 0).into(), config).await {
        Ok(server) => server,
        Err(error) => {
            println!("skipped: {error}");
            return None;
        }
    };
    let client = Endpoint::client((parse(others[0]), 0).into(), client).await.unwrap();
    let (remote, all) = (server.local_addr(), server.local_addrs());
    Some((pair_between(client, server, remote).await, all))
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn sockets_on_two_addresses_share_a_port_and_carry_data_by_either() {
    for (second, is_encrypted) in [("127.0.0.2", false), ("::1", false), ("127.0.0.2", true), ("::1", true)] {
        let change = |client: ClientConfig| client.with_other_addresses([second.parse().unwrap()]);
        let Some((pair, locals)) = with_client(["127.0.0.1", second], is_encrypted, change).await else { continue };
        assert_eq!(locals[0].port(), locals[1].port());
        until("both paths are active", || [&pair.client, &pair.server].iter().all(|end| states(end) == ACTIVE)).await;
        let paths = pair.client.paths();
        assert_eq!(paths.iter().map(|path| path.remote).collect::<Vec<_>>(), locals);
        for path in paths {
            assert!(pair.client.set_primary_path(path.id));
            pair.client.send("either way").await.unwrap();
            assert_eq!(in_time(pair.server.recv()).await.unwrap().unwrap().payload(), "either way");
            in_time(pair.client.drained()).await.unwrap();
        }
        assert!(pair.client.path_stats().iter().all(|stats| stats.srtt.is_some()));
        in_time(pair.client.shutdown()).await.unwrap();
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_client_with_one_address_has_several_paths_if_it_asks_for_them() {
    for (paths_max, paths, is_encrypted) in [(None, 1, false), (None, 1, true), (Some(8), 2, false), (Some(8), 2, true)]
    {
        let transport = paths_max.map_or_else(Transport::default, |max| Transport::default().with_paths_max(max));
        let change = |client: ClientConfig| client.with_transport(transport);
        let (pair, _) = with_client(["127.0.0.1", "127.0.0.2"], is_encrypted, change).await.unwrap();
        assert_eq!(pair.client.paths().len(), paths);
        assert_eq!(pair.server.paths().len(), 1, "the client has named no other address");
        until("all paths are active", || states(&pair.client) == ACTIVE[..paths]).await;
    }
}

/// A report (mptcp_net-next#585): the INITs left by the first network alone.
#[tokio::test]
async fn a_client_whose_first_network_is_down_connects_by_the_other() {
    for is_encrypted in [false, true] {
        a_client_connects_by_the_other(is_encrypted).await;
    }
}

async fn a_client_connects_by_the_other(is_encrypted: bool) {
    let (client, listening) = configs(is_encrypted);
    let (first, second, server) = (address(0, 0), address(0, 1), "192.0.2.9:9899".parse().unwrap());
    let network = MemoryNetwork::with_filter(move |from, to, _| ![from, to].contains(&first));
    let lower = Several::new(network.bind(first).unwrap(), vec![Box::new(network.bind(second).unwrap())]);
    let client = Endpoint::bind_on(lower, client).await.unwrap();
    let listening = Endpoint::bind_on(network.bind(server).unwrap(), listening).await.unwrap();
    let pair = in_time(pair_between(client, listening, server)).await;
    pair.client.send(Message::new("hello")).await.unwrap();
    assert_eq!(in_time(pair.server.recv()).await.unwrap().unwrap().payload(), "hello");
}

#[tokio::test]
async fn an_address_that_no_host_can_have_is_refused() {
    for other in ["::ffff:127.0.0.1", "224.0.0.1", "0.0.0.0"] {
        let config = ServerConfig::plain().with_other_addresses([other.parse().unwrap()]);
        let error = Endpoint::server("127.0.0.1:0".parse().unwrap(), config).await.unwrap_err();
        assert!(matches!(error, BindError::Addresses(_) | BindError::Socket { .. }), "{error}");
    }
    let config = ServerConfig::plain().with_other_addresses(["127.0.0.1".parse().unwrap()]);
    let error = Endpoint::server("127.0.0.1:0".parse().unwrap(), config).await.unwrap_err();
    assert_eq!(error.to_string(), "the address 127.0.0.1 is named twice");
    let config = ServerConfig::plain().with_other_addresses((1..9).map(|last| IpAddr::from([127, 0, 1, last])));
    if cfg!(target_os = "linux") {
        let error = Endpoint::server("127.0.0.1:0".parse().unwrap(), config).await.unwrap_err();
        assert!(matches!(error, BindError::Config(_)), "{error}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_encrypted_server_answers_from_whichever_address_its_client_chose() {
    let identity = festina::security::Identity::self_signed("two.example").unwrap();
    let known = identity.fingerprint();
    let config = ServerConfig::new(identity).with_other_addresses(["127.0.0.2".parse().unwrap()]);
    let server = Endpoint::server("127.0.0.1:0".parse().unwrap(), config).await.unwrap();
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    for remote in server.local_addrs() {
        let client = Endpoint::client("127.0.0.1:0".parse().unwrap(), ClientConfig::new(known)).await.unwrap();
        let (near, far) = in_time(async { tokio::join!(client.connect(remote), listener.accept()) }).await;
        let (near, far) = (near.unwrap(), far.unwrap());
        far.send("from there").await.unwrap();
        assert_eq!(in_time(near.recv()).await.unwrap().unwrap().payload(), "from there");
        assert_eq!(near.remote_addr(), remote);
    }
}

/// A peer without scruples: an association of the core over a socket, which names the addresses of others as its own.
#[cfg(target_os = "linux")]
struct Hostile {
    socket: std::net::UdpSocket,
    association: festina_sctp::Association,
    bytes_sent: usize,
}

#[cfg(target_os = "linux")]
impl Hostile {
    fn new(server: SocketAddr, victims: &[IpAddr]) -> Self {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let addresses = [&[IpAddr::from([127, 0, 0, 1])], victims].concat();
        let multihoming = festina_sctp::Multihoming { addresses, ..Default::default() };
        let context = festina_sctp::Context::multihomed(festina_sctp::Config::default(), [7; 16], multihoming).unwrap();
        let ports = festina::Ports { local: 40_000, peer: DEFAULT_SCTP_PORT };
        let association = festina_sctp::Association::connect(festina::now(), &context, server, ports, 1);
        Self { socket, association, bytes_sent: 0 }
    }

    /// Receives and sends what there is.
    fn turn(&mut self) {
        let (now, mut buffer) = (festina::now(), [0; 2_000]);
        while let Ok((bytes, from)) = self.socket.recv_from(&mut buffer) {
            let packet = bytes::Bytes::copy_from_slice(&buffer[..bytes]);
            let _dropped = self.association.handle_packet(now, from, festina::EcnCodepoint::NotCapable, &packet);
        }
        if self.association.poll_deadline().is_some_and(|deadline| deadline <= now) {
            self.association.handle_timeout(now);
        }
        let mut packet = Vec::new();
        while let Some(transmit) = self.association.poll_transmit(now, &mut packet) {
            self.bytes_sent += packet.len();
            self.socket.send_to(&packet, transmit.destination).unwrap();
            packet.clear();
        }
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn addresses_of_others_that_a_peer_names_get_heartbeats_alone_and_few() {
    let transport = Transport::default().with_paths_max(8);
    let server = endpoint_with(ServerConfig::plain().with_transport(transport)).await;
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    let victims: Vec<IpAddr> = (1..8).map(|last| IpAddr::from([127, 0, 9, last])).collect();
    let mut hostile = Hostile::new(server.local_addr(), &victims);
    let port = hostile.socket.local_addr().unwrap().port();
    let sockets: Vec<_> = victims.iter().map(|victim| std::net::UdpSocket::bind((*victim, port)).unwrap()).collect();
    sockets.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
    let begun = festina::now();
    while festina::now() - begun < Duration::from_secs(4) {
        hostile.turn();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let association = in_time(listener.accept()).await.unwrap();
    assert_eq!(association.paths().len(), 8);
    let (mut buffer, mut packets, mut bytes) = ([0; 2_000], 0, 0);
    for socket in &sockets {
        while let Ok((len, _)) = socket.recv_from(&mut buffer) {
            assert_eq!((len, buffer[12]), (28, 4), "a heartbeat alone");
            (packets, bytes) = (packets + 1, bytes + len);
        }
    }
    assert!(packets > 0 && bytes <= 3 * hostile.bytes_sent, "{packets} packets, {} bytes sent", hostile.bytes_sent);
    assert!(association.paths().iter().skip(1).all(|path| path.state == PathState::Unconfirmed));
}
