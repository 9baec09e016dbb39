//! The kernel's TCP over two TUN devices that the emulator joins. This requires privileges, so these tests do nothing
//! for ordinary users, except in continuous integration.

mod kernel;

use std::io::ErrorKind;
use std::time::Duration;

use festina_emulate::{MTU_BYTES, Namespace, TunEnd, TunError, TunPair};
use festina_netsim::{CoDelConfig, DredConfig, LinkConfig, LossModel, QueueDiscipline, QueueLimit};
use festina_units::{Bandwidth, ByteCount};
use kernel::{CLIENT, Network, SERVER, Segment, now};

/// One-way delay.
const DELAY: Duration = Duration::from_millis(20);
/// Tolerance for a busy machine.
const PATIENCE: Duration = Duration::from_millis(100);
const SEGMENT_BYTES: usize = 1_448;

/// `None` if this user may not make TUN devices, or the system has none.
fn network(forward: LinkConfig, backward: LinkConfig) -> Option<Network> {
    match Network::new(forward, backward) {
        Ok(network) => Some(network),
        Err(error) if is_for_want_of_privilege(&error) => {
            assert!(std::env::var_os("CI").is_none(), "continuous integration has the privilege: {error:?}");
            println!("{error}: nothing to test");
            None
        }
        Err(error) => panic!("{error:?}"),
    }
}

fn is_for_want_of_privilege(error: &TunError) -> bool {
    match error {
        TunError::NoPrivilege { .. } | TunError::NoTun => true,
        TunError::System(source) => source.kind() == ErrorKind::PermissionDenied,
        _ => false,
    }
}

fn delayed() -> LinkConfig {
    LinkConfig { delay: DELAY, ..LinkConfig::default() }
}

/// 10 Mbit/s with room for a bandwidth-delay product of packets.
fn bottleneck() -> LinkConfig {
    let rate = Some(Bandwidth::from_bits_per_second(10_000_000));
    LinkConfig { rate, queue: QueueLimit::packets(34), ..delayed() }
}

fn lossy(lost: Vec<u64>) -> LinkConfig {
    LinkConfig { loss: LossModel::Exact(lost), ..delayed() }
}

#[test]
fn a_ping_takes_the_delay_of_both_links() {
    let Some(network) = network(delayed(), LinkConfig { delay: DELAY * 2, ..delayed() }) else { return };
    let mut times = network.ping(21);
    times.sort();
    assert!(times[0] >= DELAY * 3, "{times:?}");
    assert!(times[0] < DELAY * 3 + Duration::from_millis(5), "the best of many tolerates a busy machine: {times:?}");
    let counters = network.stop();
    assert_eq!((counters.forward.delivered, counters.backward.delivered), (21, 21));
    assert_eq!((counters.lateness.count, counters.send_failed), (42, 0));
}

/// Runs greedy flows for a few seconds and returns each one's share of the bottleneck.
fn shares(flows: usize, congestion: &str) -> Option<Vec<f64>> {
    const SECONDS: u32 = 5;
    let network = network(bottleneck(), bottleneck())?;
    let bytes = network.greedy(flows, congestion, Duration::from_secs(SECONDS.into()));
    assert!(network.stop().forward.queue_dropped > 0, "loss-based controllers fill the queue");
    Some(bytes.iter().map(|&bytes| bytes as f64 * 8.0 / (f64::from(SECONDS) * 10e6)).collect())
}

#[test]
fn a_greedy_flow_fills_the_bottleneck() {
    let Some(shares) = shares(1, "reno") else { return };
    // At most 1,448 of 1,500 bytes of a packet are data. The first losses cost some time.
    assert!((0.75..0.98).contains(&shares[0]), "{shares:?}");
}

#[test]
fn four_greedy_flows_fill_the_bottleneck_and_none_starves() {
    let Some(shares) = shares(4, "cubic") else { return };
    assert!((0.75..0.98).contains(&shares.iter().sum()), "{shares:?}");
    // After a few seconds shares are not even yet.
    assert!(shares.iter().all(|&share| share > 0.05), "{shares:?}");
}

#[test]
fn a_marking_queue_slows_a_flow_that_is_capable_of_ecn_without_dropping() {
    let discipline = QueueDiscipline::CoDel(CoDelConfig::default());
    // Slow start overshoots before marks take effect: there must be room for that.
    let marking = LinkConfig { discipline, queue: QueueLimit::packets(1_000), ..bottleneck() };
    let Some(network) = network(marking, bottleneck()) else { return };
    network.set("net/ipv4/tcp_ecn", "1").expect("the kernel knows ECN");
    let bytes = network.greedy(1, "reno", Duration::from_secs(4));
    assert!(bytes[0] > 2_500_000, "marked packets have good checksums, else they would be lost: {bytes:?}");
    let counters = network.stop().forward;
    assert!(counters.congestion_marked > 0, "{counters:?}");
    assert_eq!(counters.queue_dropped, 0, "{counters:?}");
}

#[test]
fn derivative_random_drop_marks_what_exceeds_the_product_of_rate_and_delay() {
    let product = ByteCount::from_bytes(50_000);
    let discipline = QueueDiscipline::Dred(DredConfig::goel_2002(product));
    let marking = LinkConfig { discipline, queue: QueueLimit::packets(1_000), ..bottleneck() };
    let Some(network) = network(marking, bottleneck()) else { return };
    network.set("net/ipv4/tcp_ecn", "1").expect("the kernel knows ECN");
    let bytes = network.greedy(1, "reno", Duration::from_secs(4));
    assert!(bytes[0] > 2_500_000, "{bytes:?}");
    let counters = network.stop();
    assert!(counters.forward.congestion_marked > 0, "{counters:?}");
    assert!(counters.forward_passage.queue_bytes_max > product, "{counters:?}");
}

/// Ten small messages, one each 100 ms, so that the round-trip time is known, and then `bytes` bytes.
fn after_warm_up(bytes: usize) -> Vec<(Duration, usize)> {
    let mut writes: Vec<_> = (0..10).map(|number| (Duration::from_millis(100) * number, 100)).collect();
    writes.push((Duration::from_millis(1_000), bytes));
    writes
}

/// The SYN, the acknowledgement of the answer, and the small messages come before.
const PACKETS_BEFORE: u64 = 12;

/// Returns the time of each retransmission since the first transmission.
fn retransmissions(segments: &[Segment]) -> Vec<Duration> {
    let earlier = |index: usize| segments[..index].iter().find(|other| other.sequence == segments[index].sequence);
    (0..segments.len()).filter_map(|index| Some(segments[index].at - earlier(index)?.at)).collect()
}

/// Loses these packets, counted from the first after the small messages, and returns the times of the retransmissions.
fn resent(bytes: usize, lost: &[u64], probes: &str) -> Option<Vec<Duration>> {
    let lost = lost.iter().map(|number| PACKETS_BEFORE + number).collect();
    let network = network(lossy(lost), delayed())?;
    network.set("net/ipv4/tcp_early_retrans", probes).expect("the kernel knows tail loss probes");
    let segments = network.scripted("cubic", &after_warm_up(bytes), Duration::from_millis(300));
    network.stop();
    Some(retransmissions(&segments))
}

#[test]
fn without_probes_a_lost_tail_waits_for_the_retransmission_timer_which_backs_off() {
    let Some(resent) = resent(100, &[0, 1], "0") else { return };
    let [first, second] = resent[..] else { panic!("two transmissions were lost: {resent:?}") };
    // Linux: the smoothed round-trip time and at least 200 ms.
    let rto = DELAY * 2 + Duration::from_millis(200);
    assert!((rto..rto + PATIENCE).contains(&first), "{resent:?}");
    assert!((rto * 2..rto * 2 + PATIENCE).contains(&(second - first)), "{resent:?}");
}

#[test]
fn a_lost_flight_is_probed_after_two_round_trips() {
    let Some(resent) = resent(3 * SEGMENT_BYTES, &[0, 1, 2], "3") else { return };
    assert!((DELAY * 4..DELAY * 4 + PATIENCE).contains(&resent[0]), "{resent:?}");
}

#[test]
fn a_loss_in_the_middle_is_repaired_after_one_round_trip() {
    let Some(resent) = resent(8 * SEGMENT_BYTES, &[2], "3") else { return };
    let [only] = resent[..] else { panic!("one segment was lost: {resent:?}") };
    assert!((DELAY * 2..DELAY * 2 + PATIENCE).contains(&only), "{resent:?}");
}

#[test]
fn the_end_takes_the_devices_away_and_is_prompt() {
    let hour = LinkConfig { delay: Duration::from_secs(3_600), ..LinkConfig::default() };
    let Some(network) = network(hour, delayed()) else { return };
    let devices = |network: &Network| network.on_client(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
    assert!(devices(&network).expect("readable").contains("near"));
    let socket = network.on_client(|| std::net::UdpSocket::bind((CLIENT, 0))).expect("the address is there");
    socket.send_to(b"late", (SERVER, 9)).expect("there is a route");
    while network.counters().forward.offered == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let began_at = now();
    let (client, counters) = network.stop_pair();
    // Not after the link's delay of an hour.
    assert!(began_at.elapsed() < Duration::from_secs(60));
    assert_eq!((counters.forward.offered, counters.forward.delivered), (1, 0));
    let left = client.run(|| std::fs::read_to_string("/proc/thread-self/net/dev")).expect("the namespace remains");
    assert!(!left.expect("readable").contains("near"));
}

#[test]
fn an_ipv6_address_can_be_used_as_soon_as_the_device_is_there() {
    let addresses = ["fd77::1", "fd77::2"].map(|text| text.parse().expect("an address"));
    for _ in 0..20 {
        let hosts = [Namespace::fresh(), Namespace::fresh()];
        if let [Err(error), _] | [_, Err(error)] = &hosts {
            assert!(std::env::var_os("CI").is_none(), "continuous integration has the privilege: {error:?}");
            println!("{error}: nothing to test");
            return;
        }
        let [left, right] = hosts.map(|host| host.expect("both are there"));
        let end = |namespace: &Namespace, address, ipv6| TunEnd {
            device: "v6".to_owned(),
            namespace: namespace.try_clone().ok(),
            address,
            prefix_bits: 24,
            ipv6: Some((ipv6, 64)),
        };
        let ends = (end(&left, CLIENT, addresses[0]), end(&right, SERVER, addresses[1]));
        let pair =
            TunPair::create(&ends.0, &ends.1, MTU_BYTES, (delayed(), delayed()), 1).expect("the devices are made");
        let bound = right.run(|| std::net::UdpSocket::bind((addresses[1], 0))).expect("the namespace can be entered");
        bound.expect("the address is there");
        drop(pair);
    }
}

#[test]
fn names_that_are_in_use_or_too_long_are_refused() {
    let Some(network) = network(delayed(), delayed()) else { return };
    let refused = network.on_client(|| {
        ["near", "a name of many letters"].map(|device| {
            let end =
                |address| TunEnd { device: device.to_owned(), namespace: None, address, prefix_bits: 24, ipv6: None };
            TunPair::create(&end(CLIENT), &end(SERVER), MTU_BYTES, (delayed(), delayed()), 1).err()
        })
    });
    assert!(matches!(&refused[0], Some(TunError::Exists { device }) if device == "near"), "{refused:?}");
    assert!(matches!(&refused[1], Some(TunError::Device { .. })), "{refused:?}");
}
