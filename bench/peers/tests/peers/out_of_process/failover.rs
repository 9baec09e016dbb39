//! Associations with two addresses at both ends, with usrsctp: the network of the first fails for three seconds.
//!
//! The addresses are 127.0.0.1 and ::1, the only two from which any machine's usrsctp can send without privileges. A relay between the ends stands
//! for both networks: it keeps the IP addresses and changes the UDP ports.

#[path = "../../../../../crates/festina/examples/failover/exchange.rs"]
mod exchange;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use festina::{Association, ConnectOptions, Endpoint, ServerConfig};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use exchange::{Plan, exchange};

use super::{Loss, Program, SCTP_PORT, in_time, one_in, programs};

/// The same at both ends. The network of the first fails.
const ADDRESSES: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
const DELAY: Duration = Duration::from_millis(50);
const PLAN: Plan = Plan { count: 300, interval: Duration::from_millis(50) };
const OUTAGE_BEGINS: Duration = Duration::from_secs(4);
const OUTAGE: Duration = Duration::from_secs(3);

/// How late a message may be without further loss and with 5 % each way, as it is sent by Festina and by usrsctp.
///
/// Festina suspects the path after a probe without answer. usrsctp has no potentially failed state: it sends new data by the path until T3-rtx has
/// expired six times, after 1, 3, 7 s and so on, and only repairs by the other. So a message sent just after the first expiry waits for 2 s. Where
/// repairs are lost as well, it can be the next expiry, 4 s later.
const LATEST: [(u64, [Duration; 2]); 2] = [
    (0, [Duration::from_millis(800), Duration::from_millis(3_500)]),
    (20, [Duration::from_millis(1_500), Duration::from_millis(8_000)]),
];

/// Both ends send through it: on each network to its socket of the other end, whose UDP port is the same on both.
struct Relay {
    /// Ports for Festina and for the peer.
    ports: [u16; 2],
    is_down: Arc<AtomicBool>,
    running: JoinSet<()>,
}

impl Relay {
    async fn start(festina_port: u16, peer_port: u16, one_lost_in: u64, seed: u64) -> io::Result<Self> {
        let (is_down, mut running) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
        let (for_festina, for_peer) = (pair().await?, pair().await?);
        let ports = [for_festina[0].local_addr()?.port(), for_peer[0].local_addr()?.port()];
        for network in 0..2 {
            let down = if network == 0 { Arc::clone(&is_down) } else { Arc::default() };
            let (near, far) = (&for_festina[network], &for_peer[network]);
            let to = |port| SocketAddr::new(ADDRESSES[network], port);
            let loss = |way| one_in(one_lost_in, seed * 4 + network as u64 * 2 + way);
            running.spawn(carry(Arc::clone(near), Arc::clone(far), to(peer_port), loss(0), Arc::clone(&down)));
            running.spawn(carry(Arc::clone(far), Arc::clone(near), to(festina_port), loss(1), down));
        }
        Ok(Self { ports, is_down, running })
    }
}

/// Sockets on both addresses with one port.
async fn pair() -> io::Result<[Arc<UdpSocket>; 2]> {
    loop {
        let first = UdpSocket::bind((ADDRESSES[0], 0)).await?;
        let port = first.local_addr()?.port();
        match UdpSocket::bind((ADDRESSES[1], port)).await {
            Ok(second) => return Ok([Arc::new(first), Arc::new(second)]),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
}

/// Carries one direction of a network.
async fn carry(from: Arc<UdpSocket>, out: Arc<UdpSocket>, to: SocketAddr, mut is_lost: Loss, down: Arc<AtomicBool>) {
    let (entrance, mut exit) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let deliver = async {
        while let Some((due, packet)) = exit.recv().await {
            sleep_until(due).await;
            // A refused packet is lost.
            let _unsent = out.send_to(&packet, to).await;
        }
    };
    let take = async {
        let mut buffer = vec![0; 65_536];
        loop {
            let Ok((len, _)) = from.recv_from(&mut buffer).await else { continue };
            let packet = buffer[..len].to_vec();
            if !is_lost(&packet)
                && !down.load(Ordering::Relaxed)
                && entrance.send((Instant::now() + DELAY, packet)).is_err()
            {
                break;
            }
        }
    };
    tokio::join!(deliver, take);
}

/// Messages go both ways during the outage. `case` tells cases apart that run at once.
async fn the_first_network_fails(festina_connects: bool, (one_lost_in, latest): (u64, [Duration; 2]), case: u16) {
    let Some(programs) = programs() else { return };
    let others = [ADDRESSES[1]];
    let local = SocketAddr::new(ADDRESSES[0], 0);
    // A server can connect, too.
    let endpoint = Endpoint::server(local, ServerConfig::plain().with_other_addresses(others)).await;
    let endpoint = endpoint.expect("IPv4 and IPv6 loopback are free");
    // usrsctp binds the port itself. Systems choose ports above 32,767 for sockets that ask for any, so it is free.
    let peer_port = 20_000 + u16::try_from(std::process::id() % 2_000).expect("it is small") * 4 + case;
    let relay = Relay::start(endpoint.local_addr().port(), peer_port, one_lost_in, u64::from(case)).await;
    let mut relay = relay.expect("loopback is free");
    let [festina_side, peer_side] = relay.ports;
    let numbers = [u128::from(PLAN.count), PLAN.interval.as_millis(), peer_port.into(), peer_side.into()];
    let [count, interval, peer_port, peer_side] = numbers.map(|number| number.to_string());
    let listener = endpoint.listen(SCTP_PORT).expect("the port is free");
    let role = if festina_connects { "server" } else { "client" };
    let arguments = [role, "127.0.0.1,::1", "127.0.0.1", &count, &interval, &peer_port, &peer_side];
    let mut program = Program::start(&programs.join("usrsctp-failover"), &arguments);
    let association = if festina_connects {
        assert_eq!(program.line(), "LISTENING");
        let options = ConnectOptions::default().peer_port(SCTP_PORT);
        endpoint.connect_with(SocketAddr::new(ADDRESSES[0], festina_side), options).await.expect("the peer answers")
    } else {
        let association = listener.accept().await.expect("the endpoint is open");
        assert_eq!(program.line(), "CONNECTED");
        association
    };
    let (longest, carried) = tokio::join!(exchange(&association, PLAN), outage(&association, &relay.is_down));
    let from_usrsctp = longest.expect("every message of usrsctp arrives");
    assert!(carried, "the second network has carried the messages");
    if festina_connects {
        association.shutdown().await.expect("the peer shuts down gracefully");
    } else {
        association.closed().await;
    }
    let line = tokio::task::spawn_blocking(move || program.line()).await.expect("it does not panic");
    let prefix = format!("OK n={} longest_ms=", PLAN.count);
    let from_festina = line.strip_prefix(&prefix).and_then(|text| text.parse::<f64>().ok());
    let from_festina = Duration::from_secs_f64(from_festina.unwrap_or_else(|| panic!("usrsctp said: {line}")) / 1e3);
    println!(
        "one packet in {one_lost_in} lost, Festina connects {festina_connects}: longest delay of a message of Festina {} ms, of usrsctp {} ms",
        from_festina.as_millis(),
        from_usrsctp.as_millis()
    );
    assert!(from_festina <= latest[0] && from_usrsctp <= latest[1], "at most {latest:?}");
    relay.running.shutdown().await;
}

/// Takes the first network down for a while. Returns whether Festina has used the second one then.
async fn outage(association: &Association, is_down: &AtomicBool) -> bool {
    sleep(OUTAGE_BEGINS).await;
    is_down.store(true, Ordering::Relaxed);
    sleep(OUTAGE).await;
    let carried = association.paths().iter().any(|path| path.remote.is_ipv6() && path.carries_data);
    is_down.store(false, Ordering::Relaxed);
    carried
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_to_and_from_usrsctp_survive_an_outage_of_the_first_network() {
    let mut running = JoinSet::new();
    for (case, (conditions, festina_connects)) in
        (0..).zip(LATEST.into_iter().flat_map(|conditions| [true, false].map(|connects| (conditions, connects))))
    {
        running.spawn(in_time(the_first_network_fails(festina_connects, conditions, case)));
    }
    while let Some(ended) = running.join_next().await {
        ended.expect("all messages arrive");
    }
}
