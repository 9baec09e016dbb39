//! Explicit congestion notification over real sockets: the codepoints that routers see, and the reactions of both ends to marks.

use std::io::{IoSliceMut, Read};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use festina::{Endpoint, Message, ServerConfig, Transport};
use nix::sys::socket::{setsockopt, sockopt::ReceiveTimestampns};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};

use crate::forged::init;
use crate::support::{Pair, in_time, pair_between, until};

/// A router that marks all ECN-capable packets. It ends with the test.
struct Router {
    address: SocketAddr,
    seen: Arc<Seen>,
}

/// Datagrams that came through.
#[derive(Debug, Default)]
struct Seen {
    capable: AtomicUsize,
    incapable: AtomicUsize,
}

impl Router {
    /// Forwards datagrams between `server` and the sender of the first one.
    fn to(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind((server.ip(), 0)).unwrap();
        let router = Self { address: socket.local_addr().unwrap(), seen: Arc::default() };
        let state = UdpSocketState::new(UdpSockRef::from(&socket)).unwrap();
        // With timestamps the ECN field of a train of datagrams is cut off, as in the endpoint's own socket.
        setsockopt(&socket, ReceiveTimestampns, &false).unwrap();
        let seen = Arc::downgrade(&router.seen);
        std::thread::spawn(move || {
            let (mut buffer, mut client) = (vec![0; 1 << 16], None);
            while let Some(seen) = seen.upgrade() {
                let mut metas = [RecvMeta::default()];
                let received = state.recv(UdpSockRef::from(&socket), &mut [IoSliceMut::new(&mut buffer)], &mut metas);
                if received.is_err() {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                let [meta] = metas;
                if meta.addr != server {
                    client = Some(meta.addr);
                }
                let Some(destination) = (if meta.addr == server { client } else { Some(server) }) else { continue };
                let counter = if meta.ecn.is_some() { &seen.capable } else { &seen.incapable };
                counter.fetch_add(meta.len.div_ceil(meta.stride.max(1)), Ordering::Relaxed);
                // Trains are sent as trains, since their control data needs room in addition to the ECN field.
                let transmit = Transmit {
                    destination,
                    ecn: meta.ecn.map(|_| EcnCodepoint::Ce),
                    contents: &buffer[..meta.len],
                    segment_size: (meta.stride < meta.len).then_some(meta.stride),
                    src_ip: None,
                };
                // Packets that exceed the socket's buffer are lost, as on any router.
                let _ = state.try_send(UdpSockRef::from(&socket), &transmit);
            }
        });
        router
    }

    fn capable(&self) -> usize {
        self.seen.capable.load(Ordering::Relaxed)
    }
}

async fn pair_behind_router(client: ServerConfig, server: ServerConfig, address: &str) -> (Pair, Router) {
    let bind = async |config| Endpoint::server(address.parse().unwrap(), config).await.unwrap();
    let (client, server) = (bind(client).await, bind(server).await);
    let router = Router::to(server.local_addr());
    let address = router.address;
    (pair_between(client, server, address).await, router)
}

async fn exchange(pair: &Pair) {
    in_time(async {
        let bulk = vec![0x5a; 200_000];
        pair.client.send(Message::new(bulk.clone())).await.unwrap();
        assert!(pair.server.recv().await.unwrap().unwrap().into_payload() == bulk, "the message arrived damaged");
        for _ in 0..5 {
            pair.server.send(Message::new("state")).await.unwrap();
            assert_eq!(pair.client.recv().await.unwrap().unwrap().payload(), "state");
        }
    })
    .await;
}

#[tokio::test]
async fn packets_with_data_are_marked_on_the_way_and_both_ends_hear_of_it() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        if UdpSocket::bind(address).is_err() {
            println!("no {address} on this machine: nothing to test");
            continue;
        }
        let (pair, router) = pair_behind_router(ServerConfig::plain(), ServerConfig::plain(), address).await;
        exchange(&pair).await;
        let [client, server] = [&pair.client, &pair.server].map(festina::Association::stats);
        assert!(server.received.packets_marked > 100, "{address}: {server:?}");
        assert!(client.received.packets_marked > 0, "{address}: {client:?}");
        assert!(client.sent.marks_reported > 0 && client.path.ssthresh_bytes < u64::MAX, "{address}: {client:?}");
        // Handshake and SACKs.
        assert!(router.seen.incapable.load(Ordering::Relaxed) > 10, "{address}: {:?}", router.seen);
        assert!(pair.server_endpoint.stats().datagrams_congestion_marked >= server.received.packets_marked);
    }
}

#[tokio::test]
async fn a_packet_from_udp_port_0_is_dropped_and_later_ones_are_marked_all_the_same() {
    use socket2::{Domain, Protocol, Socket, Type};

    let Ok(raw) = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP)) else {
        println!("no privilege to open a raw socket: nothing to test");
        return;
    };
    let (pair, _router) = pair_behind_router(ServerConfig::plain(), ServerConfig::plain(), "127.0.0.1:0").await;
    let (init, server) = (init(1), pair.server_endpoint.local_addr());
    let before = pair.server_endpoint.stats();
    // No checksum.
    let udp_bytes = u16::try_from(8 + init.len()).unwrap();
    let mut datagram: Vec<u8> = [0, server.port(), udp_bytes, 0].into_iter().flat_map(u16::to_be_bytes).collect();
    datagram.extend(init);
    raw.send_to(&datagram, &SocketAddr::new(server.ip(), 0).into()).unwrap();
    until("it is dropped", || pair.server_endpoint.stats().packets_dropped > before.packets_dropped).await;
    exchange(&pair).await;
    assert_eq!(pair.server_endpoint.stats().send_errors, 0, "it is not answered");
    assert!(pair.client.stats().received.packets_marked > 0);
}

#[tokio::test]
async fn nothing_is_capable_unless_both_ends_take_part() {
    let off =
        || ServerConfig::plain().with_transport(Transport::default().with_expert(|expert| expert.with_ecn(false)));
    for (client, server) in [(ServerConfig::plain(), off()), (off(), ServerConfig::plain())] {
        let (pair, router) = pair_behind_router(client, server, "127.0.0.1:0").await;
        exchange(&pair).await;
        assert_eq!(router.capable(), 0);
    }
    let (pair, router) = pair_behind_router(ServerConfig::plain(), ServerConfig::plain(), "127.0.0.1:0").await;
    exchange(&pair).await;
    assert!(router.capable() > 0);
}

#[tokio::test]
async fn directly_over_ip_packets_with_data_are_capable_too() {
    use socket2::{Domain, Protocol, SockAddr, Socket, Type};

    let Ok(tap) = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(132))) else {
        println!("no privilege to open a raw socket: nothing to test");
        return;
    };
    tap.bind(&SockAddr::from(SocketAddr::from(([127, 0, 0, 34], 0)))).unwrap();
    tap.set_nonblocking(true).unwrap();
    let bind = async |address: &str| Endpoint::bind_raw(address.parse().unwrap(), ServerConfig::plain()).await.unwrap();
    let (client, server) = (bind("127.0.0.33").await, bind("127.0.0.34").await);
    let pair = pair_between(client, server, "127.0.0.34:9899".parse().unwrap()).await;
    in_time(async {
        pair.client.send(Message::new("over IP alone")).await.unwrap();
        assert_eq!(pair.server.recv().await.unwrap().unwrap().payload(), "over IP alone");
    })
    .await;
    let mut seen = Vec::new();
    let mut buffer = [0; 2_048];
    while let Ok(len) = (&tap).read(&mut buffer) {
        let packet = &buffer[..len];
        seen.push((packet[20 + 12], packet[1] & 0b11));
    }
    let (data, others): (Vec<_>, Vec<_>) = seen.iter().partition(|(chunk_type, _)| *chunk_type == 0);
    assert!(!data.is_empty() && data.iter().all(|(_, ecn)| *ecn == 0b10), "{seen:?}");
    assert!(!others.is_empty() && others.iter().all(|(_, ecn)| *ecn == 0), "{seen:?}");
}
