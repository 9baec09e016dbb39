//! TCP and UDP hosts in the simulator.

use std::time::Duration;

use festina_models::host::Host;
use festina_models::packet::Packet;
use festina_models::record::Necessity;
use festina_models::tcp::{DelayedAck, RtoConfig, TcpConfig};
use festina_models::tcp_host::{TcpHost, TcpRecord, TcpSender, observe};
use festina_models::udp_host::UdpHost;
use festina_models::workload::{Cbr, Greedy, Mice, Periodic, Trigger, Web, Workload};
use festina_netsim::{Duplex, LinkConfig, LossModel, NodeId, QueueLimit, Simulation, Topology};
use festina_sctp::RetransmissionCause;
use festina_units::{Bandwidth, ByteCount, Instant, Probability};

const SEED: u64 = 1;

/// A path of 50 ms each way.
fn link(loss: LossModel, rate: Option<Bandwidth>) -> Duplex {
    Duplex::symmetric(LinkConfig {
        delay: Duration::from_millis(50),
        queue: QueueLimit::packets(100),
        loss,
        rate,
        ..LinkConfig::default()
    })
}

/// Both hosts of a path after a run.
struct Ran {
    simulation: Simulation<Packet, Host>,
    sender: NodeId,
    receiver: NodeId,
}

impl Ran {
    fn new(
        hop: Duplex,
        end: Instant,
        sending: impl FnOnce(NodeId, NodeId) -> Host,
        receiving: impl FnOnce(NodeId) -> Host,
    ) -> Self {
        let path = Topology::path(&[hop]);
        let (sender, receiver) = (path.sender, path.receiver);
        let hosts = vec![sending(sender, receiver), receiving(receiver)];
        let mut simulation = Simulation::new(path.topology, hosts, SEED);
        simulation.run_until(end);
        Self { simulation, sender, receiver }
    }

    fn tcp(&self) -> (&TcpHost, &TcpHost) {
        let host = |node| self.simulation.node(node).as_tcp().expect("both hosts speak TCP");
        (host(self.sender), host(self.receiver))
    }
}

/// Sends one workload over TCP until `stops_at`, and lets the network run empty.
fn run_tcp(hop: Duplex, config: TcpConfig, workload: &Workload, flows: usize, stops_at: Instant) -> Ran {
    Ran::new(
        hop,
        stops_at + Duration::from_secs(600),
        |node, peer| {
            let mut host = TcpHost::new(node, SEED).logging();
            for _ in 0..flows {
                let sender = TcpSender::new(peer, config, workload.clone());
                host = host.with_sender(TcpSender { stops_at: Some(stops_at), ..sender });
            }
            host.into()
        },
        |node| TcpHost::new(node, SEED).logging().listening(config).into(),
    )
}

fn thin_records(config: TcpConfig) -> Vec<TcpRecord> {
    let thin = Workload::Periodic(Periodic { interval: Duration::from_millis(250), size: ByteCount::from_bytes(100) });
    let loss = LossModel::Independent(Probability::from_percent(5));
    let ran = run_tcp(link(loss, None), config, &thin, 64, Instant::from_secs(21));
    let (sender, receiver) = ran.tcp();
    observe(sender, receiver)
}

#[test]
fn a_thin_stream_over_lossy_new_reno_is_delivered_whole_and_recovers_by_timeout() {
    let records = thin_records(TcpConfig { delayed_ack: DelayedAck::OFF, ..TcpConfig::new_reno() });
    assert_eq!(records.len(), 64);
    let mut delays: Vec<Duration> = Vec::new();
    for record in &records {
        assert_eq!(record.truth.messages.len(), 80);
        delays.extend(record.truth.messages.iter().map(|message| message.delay().expect("delivered")));
        assert_eq!(record.truth.first_transmissions, 80);
        let sent_again = record.truth.retransmissions.len() as u64;
        let counters = record.sender;
        let counted = counters.retransmitted_timeout + counters.retransmitted_fast + counters.retransmitted_probe;
        assert!(sent_again >= counted, "each retransmitted segment ends at least one message");
        assert_eq!(counted == 0, sent_again == 0);
    }
    delays.sort_unstable();
    assert_eq!(delays[delays.len() / 2], Duration::from_millis(50));
    // The RTO is at least 200 ms; with 5 % loss more than one message in a hundred waits for it.
    let p99 = delays[delays.len() * 99 / 100];
    assert!((Duration::from_millis(250)..Duration::from_millis(1_500)).contains(&p99), "{p99:?}");
    let needed = records.iter().flat_map(|record| &record.truth.retransmissions).filter(|resent| !resent.is_spurious());
    let lost_share_permille = needed.count() * 1_000 / delays.len();
    assert!((40..70).contains(&lost_share_permille), "{lost_share_permille}: each lost copy is replaced by one");
}

#[test]
fn the_same_seed_gives_the_same_tcp_records() {
    assert_eq!(thin_records(TcpConfig::linux()), thin_records(TcpConfig::linux()));
}

#[test]
fn web_clients_open_a_connection_for_each_response_and_every_byte_arrives() {
    let web = Workload::Web(Web::default());
    let (starts_at, stops_at) = (Instant::from_secs(1), Instant::from_secs(61));
    let rate = Bandwidth::from_bits_per_second(10_000_000);
    let loss = LossModel::Independent(Probability::from_percent(1));
    let ran = run_tcp(link(loss, Some(rate)), TcpConfig::sack(), &web, 20, stops_at);
    let writes = (0..20).flat_map(|flow| {
        let name = format!("tcp host {}/flow {flow}", ran.sender.0);
        web.writes(SEED, &name).take_while(|write| starts_at + write.at < stops_at)
    });
    let (count, bytes) = writes.fold((0, 0), |(count, bytes), write| (count + 1, bytes + write.size.bytes()));
    let (sender, receiver) = ran.tcp();
    assert_eq!((sender.totals().opened, sender.totals().finished, sender.totals().failed), (count, count, 0));
    assert_eq!((receiver.totals().finished, receiver.totals().bytes_received), (count, bytes));
    assert!((1_600..2_100).contains(&count), "20 clients, 60 s, 655 ms: {count}");
}

#[test]
fn a_mouse_begins_its_next_transfer_when_the_last_one_is_over() {
    let mouse = Workload::Mice(Mice::default());
    assert_eq!(mouse.trigger(), Trigger::Drained);
    let ran = run_tcp(link(LossModel::None, None), TcpConfig::new_reno(), &mouse, 1, Instant::from_secs(11));
    let (sender, receiver) = ran.tcp();
    let totals = sender.totals();
    assert_eq!(totals.opened, totals.finished);
    assert_eq!(receiver.totals().bytes_received, totals.opened * 20_000);
    // Handshake, three rounds of slow start from three segments, the end: at least 400 ms, less than 1 s.
    assert!((10..=25).contains(&totals.opened), "{totals:?}");
}

#[test]
fn an_elephant_fills_the_bottleneck() {
    let rate = Bandwidth::from_bits_per_second(10_000_000);
    let greedy = Workload::Greedy(Greedy { size: ByteCount::from_bytes(10_000) });
    let ran = Ran::new(
        link(LossModel::None, Some(rate)),
        Instant::from_secs(61),
        |node, peer| TcpHost::new(node, SEED).with_sender(TcpSender::new(peer, TcpConfig::sack(), greedy)).into(),
        |node| TcpHost::new(node, SEED).listening(TcpConfig::sack()).into(),
    );
    let bits_per_second = ran.tcp().1.totals().bytes_received * 8 / 60;
    assert!((8_000_000..9_740_000).contains(&bits_per_second), "{bits_per_second}");
}

#[test]
fn constant_bit_rate_over_udp_arrives_at_its_rate_less_what_is_lost() {
    let cbr =
        Workload::Cbr(Cbr { rate: Bandwidth::from_bits_per_second(1_000_000), size: ByteCount::from_bytes(1_250) });
    let loss = LossModel::Independent(Probability::from_percent(10));
    let ran = Ran::new(
        link(loss, None),
        Instant::from_secs(120),
        |node, peer| {
            UdpHost::new(node, SEED).with_flow(peer, &cbr, Instant::ZERO, Some(Instant::from_secs(100))).into()
        },
        |node| UdpHost::new(node, SEED).into(),
    );
    let host = |node| ran.simulation.node(node).as_udp().expect("both hosts speak UDP");
    assert_eq!(host(ran.sender).sent(), (10_000, 12_500_000));
    let received = host(ran.receiver).received_from(ran.sender);
    assert!((8_850..9_150).contains(&received.datagrams), "{received:?}");
    assert_eq!(received.bytes, received.datagrams * 1_250);
    assert_eq!(received.delay_max, Duration::from_millis(50));
    assert_eq!(received.delay_sum, Duration::from_millis(50 * received.datagrams));
}

#[test]
#[should_panic(expected = "no feedback")]
fn udp_cannot_be_greedy() {
    let greedy = Workload::Greedy(Greedy { size: ByteCount::from_bytes(1) });
    let _ = UdpHost::new(NodeId(0), SEED).with_flow(NodeId(1), &greedy, Instant::ZERO, None);
}

#[test]
fn a_large_write_becomes_several_datagrams() {
    let large = Workload::Periodic(Periodic { interval: Duration::from_secs(1), size: ByteCount::from_bytes(3_000) });
    let ran = Ran::new(
        link(LossModel::None, None),
        Instant::from_secs(10),
        |node, peer| {
            UdpHost::new(node, SEED).with_flow(peer, &large, Instant::ZERO, Some(Instant::from_secs(1))).into()
        },
        |node| UdpHost::new(node, SEED).into(),
    );
    let received = ran.simulation.node(ran.receiver).as_udp().expect("UDP").received_from(ran.sender);
    assert_eq!((received.datagrams, received.bytes), (3, 3_000));
}

#[test]
fn a_lost_segment_is_retransmitted_because_it_must_and_a_lost_acknowledgement_makes_it_spurious() {
    // SYN and ACK come first: the only message is the client's third packet, and its ACK the server's second.
    let run = |forth: Vec<u64>, back: Vec<u64>| {
        let link = |lost| LinkConfig {
            delay: Duration::from_millis(50),
            loss: LossModel::Exact(lost),
            ..LinkConfig::default()
        };
        let hop = Duplex { forward: link(forth), backward: link(back) };
        let once = Periodic { interval: Duration::from_secs(10), size: ByteCount::from_bytes(100) };
        let config = TcpConfig { delayed_ack: DelayedAck::OFF, ..TcpConfig::new_reno() };
        let ran = run_tcp(hop, config, &Workload::Periodic(once), 1, Instant::from_secs(2));
        let (sender, receiver) = ran.tcp();
        observe(sender, receiver).pop().expect("one flow").truth
    };
    let truth = run(vec![2], vec![]);
    let [resent] = &truth.retransmissions[..] else { panic!("{truth:?}") };
    assert_eq!((resent.necessity, resent.cause), (Necessity::Needed, RetransmissionCause::Timeout));
    assert_eq!((truth.messages[0].delivered_by, truth.duplicates_arrived), (Some(1), 0));
    let truth = run(vec![], vec![1]);
    let [resent] = &truth.retransmissions[..] else { panic!("{truth:?}") };
    assert_eq!(resent.necessity, Necessity::AcknowledgementLost);
    assert_eq!((truth.messages[0].delivered_by, truth.duplicates_arrived), (Some(0), 1));
}

#[test]
fn a_sender_whose_connection_failed_writes_no_more() {
    let thin = Workload::Periodic(Periodic { interval: Duration::from_millis(250), size: ByteCount::from_bytes(100) });
    // From the client's twentieth packet on nothing gets through.
    let config = TcpConfig { delayed_ack: DelayedAck::OFF, ..TcpConfig::new_reno() };
    let rto = RtoConfig { retries_max: 3, ..config.rto };
    let hop = link(LossModel::Exact((20..400).collect()), None);
    let ran = run_tcp(hop, TcpConfig { rto, ..config }, &thin, 1, Instant::from_secs(60));
    let (sender, _) = ran.tcp();
    let counters = sender.counters(0).expect("the connection is kept");
    assert_eq!(counters.timeouts, 4, "the fourth timeout in a row was one too many");
    assert!(counters.data_segments < 40);
}
