//! The proxy between real sockets on the loopback interface.

use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use festina_emulate::{Direction, ProxyCounters, RunningProxy, TapEvent, UdpProxy};
use festina_netsim::{Admission, LinkConfig, LossModel, QueueLimit, RateTrace};
use festina_units::{Bandwidth, ByteCount, Duration, Probability};

/// Maximum time of any wait.
const PATIENCE: Duration = Duration::from_secs(60);
const SILENCE: Duration = Duration::from_millis(300);

#[expect(clippy::disallowed_methods, reason = "these tests measure on a real clock")]
fn now() -> StdInstant {
    StdInstant::now()
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind(loopback()).expect("a loopback socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    socket
}

fn addr(socket: &UdpSocket) -> SocketAddr {
    socket.local_addr().expect("a bound socket has an address")
}

/// A client that talks to the proxy, the server behind it, and the proxy.
struct Setup {
    client: UdpSocket,
    server: UdpSocket,
    proxy: RunningProxy,
}

fn setup(forward: LinkConfig, backward: LinkConfig) -> Setup {
    let server = socket();
    let proxy = UdpProxy::bind(loopback(), addr(&server), forward, backward, 7)
        .and_then(UdpProxy::spawn)
        .expect("the proxy starts");
    let client = socket();
    client.connect(proxy.local_addr()).expect("loopback can be connected to");
    Setup { client, server, proxy }
}

fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = [0; 2_048];
    let (len, from) = socket.recv_from(&mut buffer).expect("a datagram in time");
    (buffer[..len].to_vec(), from)
}

/// Returns everything received until nothing has arrived for a while.
fn receive_until_silence(socket: &UdpSocket) -> Vec<Vec<u8>> {
    socket.set_read_timeout(Some(SILENCE)).expect("a timeout can be set");
    let mut buffer = [0; 2_048];
    let mut received = Vec::new();
    while let Ok(len) = socket.recv(&mut buffer) {
        received.push(buffer[..len].to_vec());
    }
    received
}

fn delay(duration: Duration) -> LinkConfig {
    LinkConfig { delay: duration, ..LinkConfig::default() }
}

/// Waits until the proxy has been offered `count` datagrams by clients.
fn wait_for_offers(proxy: &RunningProxy, count: u64) -> ProxyCounters {
    let start = now();
    loop {
        let counters = proxy.counters();
        if counters.forward.offered >= count {
            return counters;
        }
        assert!(start.elapsed() < PATIENCE, "{counters:?}");
        thread::sleep(StdDuration::from_millis(1));
    }
}

#[test]
fn datagrams_pass_unchanged_in_both_directions() {
    let Setup { client, server, proxy } = setup(LinkConfig::default(), LinkConfig::default());
    for payload in [&b"hello"[..], &[], &[0xff; 1_472]] {
        client.send(payload).expect("sent");
        let (received, upstream) = receive(&server);
        assert_eq!(received, payload);
        server.send_to(payload, upstream).expect("sent");
        let (answer, from) = receive(&client);
        assert_eq!(answer, payload);
        assert_eq!(from, proxy.local_addr());
    }
    let counters = proxy.stop().expect("no error");
    assert_eq!(counters.forward.delivered, 3);
    assert_eq!(counters.forward.offered_bytes, ByteCount::from_bytes(5 + 1_472 + 3 * 28));
    assert_eq!(counters.backward.delivered, 3);
    assert_eq!(counters.clients, 1);
    assert_eq!(counters.send_failed + counters.refused, 0);
}

#[test]
fn the_delay_of_each_direction_is_respected() {
    let Setup { client, server, proxy } = setup(delay(Duration::from_millis(20)), delay(Duration::from_millis(5)));
    let mut there = Vec::new();
    let mut back = Vec::new();
    // A few are enough, but on a busy machine many may be needed until one is not held up. The typical error is well
    // below a millisecond.
    let start = now();
    let in_time = |delays: &[Duration], most_ms| delays.iter().any(|delay| *delay < Duration::from_millis(most_ms));
    while there.len() < 21 || !(in_time(&there, 25) && in_time(&back, 10)) {
        assert!(start.elapsed() < PATIENCE, "{there:?} {back:?}");
        let sent = now();
        client.send(b"ping").expect("sent");
        let (_, upstream) = receive(&server);
        there.push(sent.elapsed());
        let answered = now();
        server.send_to(b"pong", upstream).expect("sent");
        receive(&client);
        back.push(answered.elapsed());
    }
    there.sort();
    back.sort();
    assert!(there[0] >= Duration::from_millis(20), "{there:?}");
    assert!(back[0] >= Duration::from_millis(5), "{back:?}");
    let counters = proxy.stop().expect("no error");
    assert!(counters.lateness.mean() > Duration::ZERO);
    assert!(counters.lateness.mean() <= counters.lateness.max);
}

#[test]
fn the_share_of_losses_is_right_and_the_counters_add_up() {
    let lossy = LinkConfig { loss: LossModel::Independent(Probability::from_percent(20)), ..LinkConfig::default() };
    let Setup { client, server, proxy } = setup(lossy, LinkConfig::default());
    let mut received = Vec::new();
    // In batches that fit into any socket's buffer, so that only the link loses datagrams.
    for batch in 0..40u32 {
        for number in 0..50 {
            client.send(&(batch * 50 + number).to_be_bytes()).expect("sent");
        }
        let link = wait_for_offers(&proxy, u64::from(batch + 1) * 50).forward;
        for _ in received.len() as u64..link.offered - link.lost {
            received.push(receive(&server).0);
        }
    }
    let counters = proxy.stop().expect("no error");
    assert!((320..480).contains(&counters.forward.lost), "{counters:?}");
    assert_eq!(counters.forward.delivered, received.len() as u64);
    assert_eq!(counters.forward.delivered + counters.forward.lost, counters.forward.offered);
    assert!(received.is_sorted(), "a plain link keeps the order");
}

#[test]
fn the_rate_limits_and_the_queue_overflows() {
    let slow = LinkConfig {
        // One datagram of 100 + 28 bytes per 10 ms.
        rate: Some(Bandwidth::from_bits_per_second(102_400)),
        queue: QueueLimit::packets(4),
        ..LinkConfig::default()
    };
    let Setup { client, server, proxy } = setup(slow, LinkConfig::default());
    let start = now();
    let mut sent = 0;
    // If the machine pauses the client, the proxy transmits some datagrams meanwhile.
    while proxy.counters().forward.queue_dropped == 0 {
        for _ in 0..10 {
            client.send(&[0; 100]).expect("sent");
        }
        sent += 10;
        wait_for_offers(&proxy, sent);
    }
    for _ in 0..5 {
        receive(&server);
    }
    assert!(start.elapsed() >= Duration::from_millis(50));
    let counters = proxy.stop().expect("no error");
    // Five fit.
    assert!((1..=sent - 5).contains(&counters.forward.queue_dropped), "{counters:?}");
}

#[test]
fn each_client_gets_its_own_answers() {
    let Setup { client: first, server, proxy } = setup(LinkConfig::default(), LinkConfig::default());
    let second = socket();
    second.connect(proxy.local_addr()).expect("connected");
    first.send(b"first").expect("sent");
    second.send(b"second").expect("sent");
    let mut upstreams = Vec::new();
    for _ in 0..2 {
        let (payload, upstream) = receive(&server);
        server.send_to(&payload, upstream).expect("sent");
        upstreams.push(upstream);
    }
    assert_ne!(upstreams[0], upstreams[1]);
    assert_eq!(receive(&first).0, b"first");
    assert_eq!(receive(&second).0, b"second");
    assert_eq!(proxy.stop().expect("no error").clients, 2);
}

#[test]
fn the_tap_sees_every_datagram_and_its_fate() {
    let server = socket();
    let (records, tapped) = mpsc::channel();
    let lossy = LinkConfig { loss: LossModel::Exact(vec![1]), ..LinkConfig::default() };
    let proxy = UdpProxy::bind(loopback(), addr(&server), lossy, LinkConfig::default(), 7)
        .expect("bound")
        .with_tap(Box::new(move |record| {
            records
                .send((
                    record.event,
                    record.direction,
                    record.source(),
                    record.destination(),
                    record.payload.to_vec(),
                    record.at,
                ))
                .expect("the test is listening");
        }))
        .spawn()
        .expect("started");
    let client = socket();
    client.connect(proxy.local_addr()).expect("connected");
    client.send(b"0").expect("sent");
    let (_, upstream) = receive(&server);
    client.send(b"1").expect("sent");
    wait_for_offers(&proxy, 2);
    server.send_to(b"2", upstream).expect("sent");
    receive(&client);
    proxy.stop().expect("no error");

    let (here, there) = (addr(&client), addr(&server));
    let seen: Vec<_> = tapped.iter().collect();
    let expected = [
        (TapEvent::Offered(Admission::Accepted), Direction::Forward, b"0"),
        (TapEvent::Delivered, Direction::Forward, b"0"),
        (TapEvent::Offered(Admission::Lost), Direction::Forward, b"1"),
        (TapEvent::Offered(Admission::Accepted), Direction::Backward, b"2"),
        (TapEvent::Delivered, Direction::Backward, b"2"),
    ];
    assert_eq!(seen.len(), expected.len());
    for (seen, (event, direction, payload)) in seen.iter().zip(expected) {
        let (source, destination) = match direction {
            Direction::Forward => (here, there),
            Direction::Backward => (there, here),
        };
        assert_eq!(seen.0, event);
        assert_eq!(seen.1, direction);
        assert_eq!((seen.2, seen.3), (source, destination));
        assert_eq!(seen.4, payload);
    }
    assert!(seen.is_sorted_by_key(|record| record.5));
}

#[test]
fn a_server_that_is_not_there_stops_nothing() {
    let absent = addr(&socket());
    let proxy = UdpProxy::bind(loopback(), absent, LinkConfig::default(), LinkConfig::default(), 7)
        .and_then(UdpProxy::spawn)
        .expect("started");
    let client = socket();
    client.connect(proxy.local_addr()).expect("connected");
    for count in 1..=5 {
        client.send(b"anyone?").expect("sent");
        wait_for_offers(&proxy, count);
    }
    assert!(!proxy.has_failed());
    let server = UdpSocket::bind(absent).expect("the port is still free");
    server.set_read_timeout(Some(PATIENCE)).expect("set");
    client.send(b"now").expect("sent");
    assert_eq!(receive(&server).0, b"now");
    proxy.stop().expect("no error");
}

#[test]
fn an_address_that_refuses_is_followed_by_the_next_until_the_server_has_answered() {
    let (absent, server) = (socket(), socket());
    let perfect = LinkConfig::default();
    let proxy = UdpProxy::bind(loopback(), addr(&absent), perfect.clone(), perfect, 7).expect("bound");
    drop(absent);
    let proxy = proxy.with_other_targets(&[addr(&server)]).spawn().expect("started");
    let client = socket();
    client.connect(proxy.local_addr()).expect("connected");
    client.send(b"only one").expect("sent");
    let (received, upstream) = receive(&server);
    assert_eq!(received, b"only one");
    server.send_to(b"answer", upstream).expect("sent");
    assert_eq!(receive(&client).0, b"answer");
    // From now on the client stays with this address, and keeps its port.
    let there = addr(&server);
    drop(server);
    for count in 2..=5 {
        client.send(b"anyone?").expect("sent");
        wait_for_offers(&proxy, count);
    }
    let server = UdpSocket::bind(there).expect("the port is still free");
    server.set_read_timeout(Some(PATIENCE)).expect("set");
    client.send(b"now").expect("sent");
    assert_eq!(receive(&server), (b"now".to_vec(), upstream));
    proxy.stop().expect("no error");
}

#[test]
fn a_trace_begins_at_its_first_line() {
    // Opportunities for as long as this test may take, and then none for a week.
    let patience_ms = u32::try_from(PATIENCE.as_millis()).expect("a minute");
    let times_ms = (0..=patience_ms).chain([festina_netsim::rate_trace::TRACE_MILLIS_MAX]);
    let trace = RateTrace::parse(&times_ms.map(|ms| format!("{ms}\n")).collect::<String>()).expect("a trace");
    let link = LinkConfig { trace: Some(trace), ..LinkConfig::default() };
    let Setup { client, server, proxy } = setup(link, LinkConfig::default());
    client.send(b"early").expect("sent");
    assert_eq!(receive(&server).0, b"early");
    proxy.stop().expect("no error");
}

#[test]
fn stopping_is_prompt_even_while_datagrams_are_under_way() {
    let Setup { client, server, proxy } = setup(delay(Duration::from_secs(3_600)), LinkConfig::default());
    client.send(b"late").expect("sent");
    wait_for_offers(&proxy, 1);
    let start = now();
    let counters = proxy.stop().expect("no error");
    assert!(start.elapsed() < PATIENCE);
    assert_eq!((counters.forward.offered, counters.forward.delivered), (1, 0));
    assert!(receive_until_silence(&server).is_empty());
}

#[test]
fn dropping_the_proxy_frees_its_address() {
    let Setup { proxy, .. } = setup(LinkConfig::default(), LinkConfig::default());
    let address = proxy.local_addr();
    assert!(UdpSocket::bind(address).is_err());
    drop(proxy);
    UdpSocket::bind(address).expect("the port is free again");
}

#[test]
fn the_proxy_works_over_ipv6_where_there_is_ipv6() {
    let Ok(server) = UdpSocket::bind("[::1]:0") else {
        println!("skipped: this machine has no IPv6 loopback");
        return;
    };
    server.set_read_timeout(Some(PATIENCE)).expect("set");
    let listen = "[::1]:0".parse().expect("an address");
    let perfect = LinkConfig::default();
    let proxy =
        UdpProxy::bind(listen, addr(&server), perfect.clone(), perfect, 7).and_then(UdpProxy::spawn).expect("started");
    let client = UdpSocket::bind("[::1]:0").expect("bound");
    client.send_to(b"six", proxy.local_addr()).expect("sent");
    assert_eq!(receive(&server).0, b"six");
    let counters = proxy.stop().expect("no error");
    assert_eq!(counters.forward.offered_bytes, ByteCount::from_bytes(51));
}
