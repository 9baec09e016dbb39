//! Encrypted associations over loopback and over a network in memory.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use festina::security::{ClientSecurity, Fingerprint, Identity, ServerSecurity, Trust};
use festina::{
    Association, ClientConfig, ClosedReason, ConnectOptions, DEFAULT_SCTP_PORT, Direction, Endpoint, EndpointConfig,
    ListenOptions, MemoryNetwork, Message, ReceivedStats, SentStats, ServerConfig, StreamId,
};

use crate::support::{Pair, endpoint_with, in_time, pair_between, pair_with, until};

pub(crate) const SERVER: &str = "10.0.0.1:9899";
pub(crate) const CLIENT: &str = "10.0.0.2:9899";

/// Settings of a server with a new key, and the fingerprint of its certificate.
pub(crate) fn server_settings() -> (ServerSecurity, Fingerprint) {
    let identity = Identity::self_signed("server.test").unwrap();
    let fingerprint = identity.fingerprint();
    (ServerSecurity::new(identity), fingerprint)
}

pub(crate) fn trusting(fingerprint: Fingerprint) -> ClientSecurity {
    fingerprint.into()
}

/// Security of a client or of a server.
pub(crate) trait Side {
    type Config;
    fn config(self) -> Self::Config;
}

impl Side for ClientSecurity {
    type Config = ClientConfig;

    fn config(self) -> ClientConfig {
        ClientConfig::new(self)
    }
}

impl Side for ServerSecurity {
    type Config = ServerConfig;

    fn config(self) -> ServerConfig {
        ServerConfig::new(self)
    }
}

pub(crate) fn with<S: Side>(security: S) -> S::Config {
    security.config()
}

/// Settings of a client and of the server that it trusts.
pub(crate) fn configs() -> (ClientConfig, ServerConfig) {
    let (server, fingerprint) = server_settings();
    (with(trusting(fingerprint)), with(server))
}

pub(crate) async fn encrypted_pair() -> Pair {
    let (client, server) = configs();
    pair_with(client, server).await
}

async fn pair_over(network: &MemoryNetwork) -> Pair {
    let (client, server) = configs();
    let bind = async |address: &str, config: EndpointConfig| {
        Endpoint::bind_on(network.bind(address.parse().unwrap()).unwrap(), config).await.unwrap()
    };
    let (client, server) = (bind(CLIENT, client.into()).await, bind(SERVER, server.into()).await);
    pair_between(client, server, SERVER.parse().unwrap()).await
}

async fn exchange(one: &Association, other: &Association, count: u32) {
    let send = async |from: &Association| {
        for number in 0..count {
            from.send(Message::new(number.to_be_bytes().to_vec()).on_stream(7)).await.unwrap();
        }
    };
    let receive = async |at: &Association| {
        for number in 0..count {
            let message = at.recv().await.unwrap().unwrap();
            assert_eq!((&message.payload()[..], message.stream()), (&number.to_be_bytes()[..], StreamId(7)));
        }
    };
    tokio::join!(send(one), send(other), receive(one), receive(other));
}

#[tokio::test]
async fn messages_cross_both_ways_over_loopback_and_both_sides_end_in_good_order() {
    let (server, fingerprint) = server_settings();
    let client_identity = Identity::self_signed("client.test").unwrap();
    let client = trusting(fingerprint).with_identity(client_identity.clone());
    let server = server.with_client_trust(Trust::fingerprints([client_identity.fingerprint()]));
    let alpn = ["game/2", "game/1"];
    let pair = in_time(pair_with(with(client.with_alpn(alpn)), with(server.with_alpn(alpn)))).await;
    in_time(async {
        exchange(&pair.client, &pair.server, 500).await;
        assert!(pair.client.is_encrypted() && pair.server.is_encrypted());
        assert_eq!(pair.client.peer_identity().unwrap().fingerprint(), fingerprint);
        let seen = pair.server.peer_identity().unwrap();
        assert_eq!(seen.fingerprint(), client_identity.fingerprint());
        assert!(seen.chain_der().eq(client_identity.chain_der()));
        assert_eq!(pair.server.alpn().unwrap(), b"game/2");
        assert!(pair.client.update_keys());
        exchange(&pair.client, &pair.server, 50).await;
        let (ended, received) = tokio::join!(pair.server.shutdown(), pair.client.recv());
        ended.unwrap();
        assert_eq!(received, Ok(None));
        // Associations that still answer late packets do not hold up the end of the endpoints.
        tokio::join!(pair.client_endpoint.close(), pair.server_endpoint.close());
    })
    .await;
}

#[tokio::test]
async fn a_lossy_network_delivers_everything_once_and_in_order() {
    for seed in 1..4_u32 {
        let packets = AtomicU32::new(seed);
        let network = MemoryNetwork::with_filter(move |_, _, _| {
            let number = packets.fetch_add(1, Ordering::Relaxed);
            number.wrapping_mul(0x9e37_79b9).rotate_left(9) % 100 >= 15
        });
        let pair = in_time(pair_over(&network)).await;
        in_time(async {
            exchange(&pair.client, &pair.server, 300).await;
            pair.client.send(vec![7; 200_000]).await.unwrap();
            assert_eq!(pair.server.recv().await.unwrap().unwrap().into_payload(), vec![7; 200_000]);
            let (ended, _) = tokio::join!(pair.client.shutdown(), pair.server.closed());
            ended.unwrap();
        })
        .await;
    }
}

#[tokio::test]
async fn large_messages_leave_in_trains_within_the_packet_limit() {
    let pair = in_time(encrypted_pair()).await;
    let largest = Arc::new(AtomicU32::new(0));
    let seen = largest.clone();
    pair.client_endpoint.observe(move |packet| {
        if packet.direction == Direction::Outbound {
            seen.fetch_max(packet.bytes.len().try_into().unwrap(), Ordering::Relaxed);
        }
    });
    in_time(async {
        for _ in 0..20 {
            pair.client.send(vec![7; 200_000]).await.unwrap();
            assert_eq!(pair.server.recv().await.unwrap().unwrap().into_payload(), vec![7; 200_000]);
        }
    })
    .await;
    // Chunks have multiples of four bytes.
    assert!((1_249..=1_252).contains(&largest.load(Ordering::Relaxed)), "datagrams fill the limit and keep it");
    let stats = pair.client_endpoint.stats();
    if cfg!(target_os = "linux") {
        assert!(stats.send_calls * 2 < stats.packets_sent, "{stats:?}");
    }
}

#[tokio::test]
async fn no_payload_is_on_the_wire_in_clear() {
    const SECRET: &[u8] = b"the queen of hearts is in the left hand";
    let wire: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let tap = wire.clone();
    let network = MemoryNetwork::with_filter(move |_, _, packet| {
        tap.lock().unwrap().push(packet.to_vec());
        true
    });
    let pair = in_time(pair_over(&network)).await;
    let holds = |wire: &[Vec<u8>]| {
        wire.iter().any(|packet| packet.windows(8).any(|part| SECRET.windows(8).any(|secret| secret == part)))
    };
    in_time(async {
        for association in [&pair.client, &pair.server] {
            association.send(SECRET).await.unwrap();
        }
        assert_eq!(pair.server.recv().await.unwrap().unwrap().into_payload(), SECRET);
        assert_eq!(pair.client.recv().await.unwrap().unwrap().into_payload(), SECRET);
        pair.client.abort(str::from_utf8(SECRET).unwrap());
        assert!(matches!(pair.server.closed().await, ClosedReason::AbortedByPeer { .. }));
    })
    .await;
    let wire = std::mem::take(&mut *wire.lock().unwrap());
    assert!(wire.len() > 5 && !holds(&wire));
    // The same exchange without encryption shows that the search finds something.
    let plain: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let tap = plain.clone();
    let network = MemoryNetwork::with_filter(move |_, _, packet| {
        tap.lock().unwrap().push(packet.to_vec());
        true
    });
    let bind = async |address: &str| {
        let lower = network.bind(address.parse().unwrap()).unwrap();
        Endpoint::bind_on(lower, ServerConfig::plain()).await.unwrap()
    };
    let pair = in_time(pair_between(bind(CLIENT).await, bind(SERVER).await, SERVER.parse().unwrap())).await;
    in_time(pair.client.send(SECRET)).await.unwrap();
    assert!(!pair.client.is_encrypted());
    assert!(holds(&plain.lock().unwrap()));
}

#[tokio::test]
async fn an_early_message_arrives_before_the_handshake_is_complete_and_is_delivered_once() {
    let (server, fingerprint) = server_settings();
    let server = endpoint_with(with(server.with_early_messages())).await;
    let client = endpoint_with(with(trusting(fingerprint))).await;
    let handled: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let sink = handled.clone();
    let handling = ListenOptions::default().on_early(move |request, message| {
        assert_eq!(request.token, b"ticket");
        sink.lock().unwrap().push(message.payload().to_vec());
    });
    let (waiting, handling) =
        (server.listen(DEFAULT_SCTP_PORT).unwrap(), server.listen_with(DEFAULT_SCTP_PORT + 1, handling).unwrap());
    let options = |text: &'static str| ConnectOptions::default().token("ticket").early_message(Message::new(text));
    in_time(async {
        // Without a ticket the message leaves as soon as the handshake allows.
        let (near, far) = tokio::join!(client.connect_with(server.local_addr(), options("first")), waiting.accept());
        let (near, far) = (near.unwrap(), far.unwrap());
        assert!(!near.is_resumed() && far.try_recv_early().is_none());
        assert_eq!(far.recv().await.unwrap().unwrap().payload(), "first");
        // The ticket has arrived by the time that an answer to a later message has.
        near.send("one").await.unwrap();
        far.recv().await.unwrap().unwrap();
        far.send("two").await.unwrap();
        near.recv().await.unwrap().unwrap();
        let again = async || {
            let (near, far) =
                tokio::join!(client.connect_with(server.local_addr(), options("second")), waiting.accept());
            (near.unwrap(), far.unwrap())
        };
        let (mut near, mut far) = again().await;
        while !near.is_resumed() {
            // The machine is so slow that no ticket had come.
            assert_eq!(far.recv().await.unwrap().unwrap().payload(), "second");
            (near, far) = again().await;
        }
        assert!(far.is_resumed());
        assert_eq!(far.try_recv_early().unwrap().payload(), "second");
        assert!(far.try_recv_early().is_none() && far.try_recv().is_err());
        assert_eq!(near.peer_identity().unwrap().fingerprint(), fingerprint, "it is kept with the session");
        let to_handler = options("third").peer_port(DEFAULT_SCTP_PORT + 1);
        let (near, far) = tokio::join!(client.connect_with(server.local_addr(), to_handler), handling.accept());
        let (near, far) = (near.unwrap(), far.unwrap());
        if near.is_resumed() {
            assert_eq!(*handled.lock().unwrap(), [b"third"]);
            assert!(far.try_recv_early().is_none());
        }
    })
    .await;
}

#[tokio::test]
async fn many_associations_share_a_port() {
    let (client, server) = configs();
    let (client, server) = (endpoint_with(client).await, endpoint_with(server).await);
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    let address = server.local_addr();
    let fars = tokio::spawn(async move {
        let mut fars = Vec::new();
        while fars.len() < 100 {
            fars.push(listener.accept().await.unwrap());
        }
        fars
    });
    let nears: Vec<_> = (0..100)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.connect(address).await.unwrap() })
        })
        .collect();
    in_time(async {
        let mut connected = Vec::new();
        for (number, near) in (0..100_u32).zip(nears) {
            let near = near.await.unwrap();
            near.send(number.to_be_bytes().to_vec()).await.unwrap();
            connected.push(near);
        }
        let mut numbers = Vec::new();
        for far in fars.await.unwrap() {
            numbers.push(u32::from_be_bytes(far.recv().await.unwrap().unwrap().payload()[..].try_into().unwrap()));
            drop(far);
        }
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..100));
        // The server's handles are gone: it ends all of them in good order.
        for near in connected {
            assert_eq!(near.closed().await, ClosedReason::Shutdown);
        }
    })
    .await;
    until("no association counts any more", || client.stats().associations + server.stats().associations == 0).await;
}

#[tokio::test]
async fn a_client_that_lost_its_state_comes_back_from_the_same_ports() {
    let network = MemoryNetwork::new();
    let (client, server) = configs();
    let bind = async |address: &str, config: EndpointConfig| {
        Endpoint::bind_on(network.bind(address.parse().unwrap()).unwrap(), config).await.unwrap()
    };
    let server = bind(SERVER, server.into()).await;
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    let to: SocketAddr = SERVER.parse().unwrap();
    let options = || ConnectOptions::default().local_port(5_001);
    in_time(async {
        let first = {
            let runtime_of_its_own = tokio::task::spawn_blocking({
                let (network, client) = (network.clone(), client.clone());
                move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                    runtime.block_on(async {
                        let lower = network.bind(CLIENT.parse().unwrap()).unwrap();
                        let client = Endpoint::bind_on(lower, client).await.unwrap();
                        let association = client.connect_with(to, options()).await.unwrap();
                        association.send("before").await.unwrap();
                        association.drained().await.unwrap();
                        // The client dies without a word: its runtime goes away and takes the driver with it.
                        std::mem::forget(association);
                    });
                }
            });
            let far = listener.accept().await.unwrap();
            assert_eq!(far.recv().await.unwrap().unwrap().payload(), "before");
            runtime_of_its_own.await.unwrap();
            far
        };
        until("the dead client's address is free", || network.bind(CLIENT.parse().unwrap()).is_ok()).await;
        let client = bind(CLIENT, client.into()).await;
        let (near, far) = tokio::join!(client.connect_with(to, options()), listener.accept());
        let (near, far) = (near.unwrap(), far.unwrap());
        near.send("after").await.unwrap();
        assert_eq!(far.recv().await.unwrap().unwrap().payload(), "after");
        drop(first);
        exchange(&near, &far, 20).await;
    })
    .await;
}

#[tokio::test]
async fn a_lost_last_packet_of_the_end_is_answered_again() {
    // The server's ports never see the client's SHUTDOWN COMPLETE: after the close only what comes later passes.
    let closing = Arc::new(AtomicU32::new(0));
    let held = closing.clone();
    let network = MemoryNetwork::with_filter(move |from, _, _| {
        let is_client = from == CLIENT.parse::<SocketAddr>().unwrap();
        let count = held.load(Ordering::Relaxed);
        if !is_client || count == 0 {
            return true;
        }
        // The SHUTDOWN passes, the next packet, which completes the end, does not.
        held.store(count + 1, Ordering::Relaxed);
        count != 2
    });
    let pair = in_time(pair_over(&network)).await;
    in_time(async {
        exchange(&pair.client, &pair.server, 5).await;
        pair.client.drained().await.unwrap();
        pair.server.drained().await.unwrap();
        closing.store(1, Ordering::Relaxed);
        let (near, far) = tokio::join!(pair.client.shutdown(), pair.server.closed());
        near.unwrap();
        assert_eq!(far, ClosedReason::Shutdown);
    })
    .await;
}

#[tokio::test]
async fn both_ends_count_the_same_bytes_in_each_packet() {
    let pair = in_time(encrypted_pair()).await;
    in_time(exchange(&pair.client, &pair.server, 1)).await;
    let counted = || [&pair.client, &pair.server].map(|end| (end.stats().sent, end.stats().received));
    let on_the_way = |[(to_server, from_server), (to_client, from_client)]: [(SentStats, ReceivedStats); 2]| {
        let there = (to_server.bytes - from_client.bytes, to_server.packets - from_client.packets);
        let back = (to_client.bytes - from_server.bytes, to_client.packets - from_server.packets);
        (there, back)
    };
    // The handshake's chunks do not travel in packets of the core. What leaves later has the same size at both ends.
    let drained = async || {
        pair.client.drained().await.unwrap();
        pair.server.drained().await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
    };
    in_time(drained()).await;
    let before = on_the_way(counted());
    in_time(exchange(&pair.client, &pair.server, 50)).await;
    in_time(drained()).await;
    assert_eq!(on_the_way(counted()), before);
}

/// The server sends from the address that its peer writes to. Other hosts cannot change it.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_forged_packet_does_not_choose_the_address_that_answers_leave_from() {
    use festina_secure::wire::{Header, Level, read_header};
    use festina_secure::{LongKeys, initial_keys};

    let (client, server) = configs();
    let server = Endpoint::server("0.0.0.0:0".parse().unwrap(), server).await.unwrap();
    let port = server.local_addr().port();
    let client = endpoint_with(client).await;
    let seen = Arc::new(Mutex::new(Vec::<(Direction, SocketAddr, Vec<u8>)>::new()));
    let tap = seen.clone();
    client.observe(move |packet| tap.lock().unwrap().push((packet.direction, packet.remote, packet.bytes.to_vec())));
    let pair = in_time(pair_between(client, server, SocketAddr::from(([127, 0, 0, 1], port)))).await;
    in_time(exchange(&pair.client, &pair.server, 1)).await;
    let header = |direction| {
        let seen = seen.lock().unwrap();
        let (_, _, bytes) = seen.iter().find(|(at, ..)| *at == direction).unwrap();
        match read_header(bytes).unwrap() {
            Header::Long(header) => header,
            Header::Short(_) => panic!("a packet of the handshake begins with a long header"),
        }
    };
    let (hello, answer) = (header(Direction::Outbound), header(Direction::Inbound));
    let provider = rustls::crypto::ring::default_provider();
    let keys = initial_keys(&provider, hello.destination, rustls::Side::Client).unwrap();
    let (mut keys, mut forged) = (LongKeys::stateless(Level::Initial, keys, 0_u8), Vec::new());
    keys.seal(&mut forged, answer.source, hello.source, &[0; 40]).unwrap();
    let received = pair.server_endpoint.stats().packets_received;
    let attacker = loopback_socket().await;
    attacker.send_to(&forged, SocketAddr::from(([127, 0, 0, 2], port))).await.unwrap();
    until("the forged packet was received", || pair.server_endpoint.stats().packets_received > received).await;
    seen.lock().unwrap().clear();
    in_time(async {
        pair.server.send("from where?").await.unwrap();
        assert_eq!(pair.client.recv().await.unwrap().unwrap().payload(), "from where?");
    })
    .await;
    let seen = seen.lock().unwrap();
    let mut sources = seen.iter().filter(|(direction, ..)| *direction == Direction::Inbound);
    assert!(sources.all(|(_, remote, _)| remote.ip() == std::net::Ipv4Addr::LOCALHOST), "{seen:?}");
}

#[tokio::test]
async fn a_copied_hello_that_arrives_first_does_not_take_the_clients_place() {
    let (client_config, server_config) = configs();
    let server = endpoint_with(server_config).await;
    let listener = server.listen(DEFAULT_SCTP_PORT).unwrap();
    let client = endpoint_with(client_config).await;
    let (relay, attacker) = (loopback_socket().await, loopback_socket().await);
    let (to, at) = (server.local_addr(), relay.local_addr().unwrap());
    let (attack, relayed) = (Arc::new(attacker), Arc::new(relay));
    let passing = tokio::spawn(async move {
        let (mut buffer, mut client) = ([0; 2_048], None);
        loop {
            let (len, from) = relayed.recv_from(&mut buffer).await.unwrap();
            if from == to {
                relayed.send_to(&buffer[..len], client.unwrap()).await.unwrap();
                continue;
            }
            if client.is_none() {
                attack.send_to(&buffer[..len], to).await.unwrap();
                let mut answer = [0; 2_048];
                attack.recv_from(&mut answer).await.unwrap();
            }
            client = Some(from);
            relayed.send_to(&buffer[..len], to).await.unwrap();
        }
    });
    in_time(async {
        let association = client.connect(at).await.unwrap();
        association.send("genuine").await.unwrap();
        assert_eq!(listener.accept().await.unwrap().recv().await.unwrap().unwrap().payload(), "genuine");
    })
    .await;
    passing.abort();
}

async fn loopback_socket() -> tokio::net::UdpSocket {
    tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap()
}
