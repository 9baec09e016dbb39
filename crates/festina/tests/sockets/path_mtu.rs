//! Paths that carry smaller packets than the endpoint sends, in network namespaces with a small MTU.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;

use festina::{Event, Message, ServerConfig, Transport};
use festina_emulate::{Namespace, RunningTunPair, TunEnd, TunPair};
use festina_netsim::LinkConfig;
use tokio::runtime::Handle;

use crate::encrypted;
use crate::support::{Open, Pair, endpoint_with, in_time, pair_between, pair_with, until};

/// Runs a test in a namespace whose loopback device carries IP packets of up to 1,200 bytes.
fn with_small_mtu(test: impl AsyncFnOnce() + Send) {
    with_mtu(1_200, test);
}

fn set_mtu(mtu: u32) -> bool {
    let set = Command::new("ip").args(["link", "set", "lo", "mtu", &mtu.to_string()]).status();
    set.is_ok_and(|status| status.success())
}

/// Runs a test in a namespace whose loopback device carries IP packets of up to this size; without the privilege it is skipped.
pub(crate) fn with_mtu(mtu: u32, test: impl AsyncFnOnce() + Send) {
    let made = Namespace::fresh().and_then(|namespace| {
        namespace.run(|| {
            if !set_mtu(mtu) {
                println!("skipped: cannot set the MTU of a loopback device");
                return;
            }
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(in_time(test()));
        })
    });
    if let Err(error) = made {
        println!("skipped: no network namespace: {error}");
    }
}

#[test]
fn messages_pass_a_path_that_is_too_small_for_the_packets_and_later_packets_are_smaller() {
    with_small_mtu(async || {
        let pair = pair_with(ServerConfig::plain(), ServerConfig::plain()).await;
        // Enough for trains of packets in one call, which are refused as a whole.
        for size in [3_000, 200_000, 3_000] {
            pair.client.send(Message::new(vec![7; size])).await.unwrap();
            assert_eq!(pair.server.recv().await.unwrap().unwrap().payload().len(), size);
        }
        pair.client.drained().await.unwrap();
        let mut limits = Vec::new();
        while let Some(event) = pair.client.try_event() {
            if let Event::PacketSizeLimited { packet_bytes_max, .. } = event {
                limits.push(packet_bytes_max);
            }
        }
        // 1,200 bytes without the headers of IPv4 and UDP.
        assert_eq!(limits, [1_172]);
        assert_eq!(pair.client.stats().sent.timeouts, 0, "no refused packet counts as lost");
        assert_eq!(pair.client_endpoint.stats().send_errors, 0);
    });
}

#[test]
fn a_destination_without_a_route_fails_at_once_with_the_cause() {
    with_small_mtu(async || {
        let any = festina::Endpoint::server("0.0.0.0:0".parse().unwrap(), ServerConfig::plain()).await.unwrap();
        let error = any.connect("192.0.2.1:9899").await.unwrap_err();
        assert!(matches!(error, festina::ConnectError::CannotSend { .. }), "{error:?}");
        assert!(error.to_string().starts_with("cannot send to 192.0.2.1:9899: Network is unreachable"), "{error}");
        let bound = endpoint_with(ServerConfig::plain()).await;
        let broadcast = bound.connect("127.255.255.255:9899").await.unwrap_err();
        assert!(broadcast.to_string().contains("Permission denied"), "{broadcast}");
    });
}

/// Sends in both directions until the packets of both ends have this size.
async fn grows_to(pair: &Pair, bytes: u64) {
    let (client, server) = (&pair.client, &pair.server);
    let exchange = async |from: &festina::Association, to: &festina::Association| {
        from.send(Message::new(vec![7; 100_000])).await.unwrap();
        assert_eq!(to.recv().await.unwrap().unwrap().payload().len(), 100_000);
    };
    exchange(client, server).await;
    exchange(server, client).await;
    until("packets are larger", || [client, server].iter().all(|end| end.stats().packet_bytes_max == bytes)).await;
    exchange(client, server).await;
}

#[test]
fn packets_grow_to_what_the_device_carries_and_shrink_with_it() {
    for (mtu, plain_bytes, encrypted_bytes) in [(1_500, 1_472, 1_456), (9_000, 8_972, 8_956)] {
        with_mtu(mtu, async || {
            let transport = || Transport::default().with_packet_bytes_max(8_972);
            let config = || ServerConfig::plain().with_transport(transport());
            let pair = pair_with(config(), config()).await;
            grows_to(&pair, plain_bytes).await;
            assert_eq!(pair.client.stats().sent.timeouts, 0);
            let (client, server) = encrypted::configs();
            let (client, server) = (client.with_transport(transport()), server.with_transport(transport()));
            grows_to(&pair_with(client, server).await, encrypted_bytes).await;
            assert!(set_mtu(1_400));
            grows_to(&pair, 1_372).await;
        });
    }
}

#[test]
fn an_encrypted_peer_gets_no_larger_packets_than_it_asks_for() {
    with_mtu(9_000, async || {
        let (client, server) = encrypted::configs();
        let transport = Transport::default().with_packet_bytes_max(8_972);
        let pair = pair_with(client.with_transport(transport), server).await;
        let before = pair.client.stats().packet_bytes_max;
        grows_to(&pair, before).await;
        assert_eq!(before, 1_236);
    });
}

/// Two hosts and a router between them that says nothing of packets that it drops.
struct Routed {
    client: Namespace,
    router: Namespace,
    server: Namespace,
    _networks: [RunningTunPair; 2],
}

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 2, 1, 1);

fn join(left: (&Namespace, Ipv4Addr), right: (&Namespace, Ipv4Addr), mtu: u16) -> RunningTunPair {
    let [left, right] = [left, right].map(|(namespace, address)| TunEnd {
        device: format!("to{}", address.octets()[1]),
        namespace: Some(namespace.try_clone().unwrap()),
        address,
        prefix_bits: 24,
        ipv6: None,
    });
    let links = (LinkConfig::default(), LinkConfig::default());
    TunPair::create(&left, &right, mtu, links, 1).unwrap().spawn().unwrap()
}

fn ip(namespace: &Namespace, command: &str) {
    let status = || Command::new("ip").args(command.split(' ')).status().unwrap();
    assert!(namespace.run(status).unwrap().success(), "{command}");
}

impl Routed {
    /// The network of the server has this MTU. Without the privilege there is none.
    fn new(mtu: u16) -> Option<Self> {
        let fresh = [0, 1, 2].map(|_| Namespace::fresh());
        let [Ok(client), Ok(router), Ok(server)] = fresh else {
            println!("skipped: no network namespaces");
            return None;
        };
        let gates = [Ipv4Addr::new(10, 1, 1, 2), Ipv4Addr::new(10, 2, 1, 2)];
        let near = join((&client, CLIENT), (&router, gates[0]), 1_500);
        let far = join((&router, gates[1]), (&server, SERVER), mtu);
        ip(&client, "route add default via 10.1.1.2");
        ip(&server, "route add default via 10.2.1.2");
        let set = |setting: &str, value| std::fs::write(format!("/proc/sys/net/ipv4/{setting}"), value).unwrap();
        // An ICMP message in 277 hours.
        let settings = [("ip_forward", "1"), ("icmp_ratemask", "65535"), ("icmp_ratelimit", "1000000000")];
        router.run(|| settings.map(|(setting, value)| set(setting, value))).unwrap();
        Some(Self { client, router, server, _networks: [near, far] })
    }

    async fn pair(&self, client: impl Open + Send, server: impl Open + Send) -> Pair {
        let (runtime, at) = (Handle::current(), |address: Ipv4Addr| SocketAddr::from((address, 9_899)));
        let client = self.client.run(|| runtime.block_on(client.open(at(CLIENT)))).unwrap().unwrap();
        let server = self.server.run(|| runtime.block_on(server.open(at(SERVER)))).unwrap().unwrap();
        pair_between(client, server, at(SERVER)).await
    }
}

/// Runs a test with plain and with encrypted endpoints on both sides of a router. They allow packets for Ethernet.
fn with_router(mtu: u16, test: &impl AsyncFn(Pair, &Routed, u64)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let transport = || Transport::default().with_packet_bytes_max(1_472);
    for is_encrypted in [false, true] {
        let Some(routed) = Routed::new(mtu) else { return };
        runtime.block_on(in_time(async {
            let (client, server) = encrypted::configs();
            let (pair, overhead_bytes) = if is_encrypted {
                (routed.pair(client.with_transport(transport()), server.with_transport(transport())).await, 16)
            } else {
                let config = || ServerConfig::plain().with_transport(transport());
                (routed.pair(config(), config()).await, 0)
            };
            test(pair, &routed, overhead_bytes).await;
        }));
    }
}

async fn send_and_receive(pair: &Pair, count: usize) {
    for _ in 0..count {
        pair.client.send(Message::new(vec![7; 1_400])).await.unwrap();
        assert_eq!(pair.server.recv().await.unwrap().unwrap().payload().len(), 1_400);
    }
}

#[test]
fn larger_packets_than_the_default_are_sent_only_where_a_router_carries_them() {
    for mtu in [1_400_u16, 1_500] {
        with_router(mtu, &async |pair, _, overhead_bytes| {
            send_and_receive(&pair, 20).await;
            let found = u64::from(mtu) - 28 - overhead_bytes;
            until("the size is found", || pair.client.stats().packet_bytes_max == found).await;
            send_and_receive(&pair, 20).await;
            assert_eq!(pair.client.stats().sent.timeouts, 0, "{mtu}");
        });
    }
}

#[test]
fn messages_that_were_cut_for_a_larger_path_arrive() {
    with_router(1_500, &async |pair, routed, overhead_bytes| {
        send_and_receive(&pair, 20).await;
        until("the size is found", || pair.client.stats().packet_bytes_max == 1_472 - overhead_bytes).await;
        ip(&routed.router, "link set to2 mtu 1400");
        send_and_receive(&pair, 20).await;
        assert!(pair.client.stats().packet_bytes_max <= 1_372 - overhead_bytes);
    });
}
