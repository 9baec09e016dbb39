//! Two applications that share an association: one that always has data to send, and a thin one.

use std::time::Duration;

use festina_models::host::Host;
use festina_models::packet::Packet;
use festina_models::sctp_host::{CompanionDelivery, SctpHost, SctpSender, companion_deliveries};
use festina_models::workload::{Greedy, Periodic, Workload};
use festina_netsim::{Duplex, LinkConfig, QueueLimit, Simulation, Topology};
use festina_sctp::{Config, StreamScheduler};
use festina_units::{Bandwidth, ByteCount, Instant};

/// Bytes that the link carries in a millisecond.
const BYTES_PER_MS: u64 = 125;

/// Returns the thin messages of ten seconds next to a greedy application over 1 Mbit/s and a round trip of 40 ms, and
/// the bytes delivered.
fn run(scheduler: StreamScheduler, send_buffer_bytes: usize) -> (Vec<CompanionDelivery>, u64) {
    let link = LinkConfig {
        rate: Some(Bandwidth::from_bits_per_second(8_000 * BYTES_PER_MS)),
        delay: Duration::from_millis(20),
        queue: QueueLimit::packets(10),
        ..LinkConfig::default()
    };
    let path = Topology::path(&[Duplex::symmetric(link)]);
    let mut config = Config { scheduler, ..Config::default() };
    config.limits.send_buffer_bytes = send_buffer_bytes;
    config.limits.send_low_water_bytes = send_buffer_bytes * 7 / 8;
    let greedy = Workload::Greedy(Greedy { size: ByteCount::from_bytes(1_000) });
    let thin = Periodic { interval: Duration::from_millis(100), size: ByteCount::from_bytes(100) };
    let sender = SctpSender {
        stops_at: Some(Instant::from_secs(11)),
        companion: Some(Workload::Periodic(thin)),
        ..SctpSender::new(path.receiver, greedy)
    };
    let client = SctpHost::new(path.sender, 1, config.clone()).expect("sound settings").with_sender(&sender);
    let server = SctpHost::new(path.receiver, 1, config).expect("sound settings").listening();
    let hosts = vec![Host::from(client), Host::from(server)];
    let mut simulation: Simulation<Packet, Host> = Simulation::new(path.topology, hosts, 1);
    simulation.run_until(Instant::from_secs(40));
    let host = |node| simulation.node(node).as_sctp().expect("both hosts speak SCTP");
    let (client, server) = (host(path.sender), host(path.receiver));
    (companion_deliveries(client, server), server.received(0).bytes)
}

fn delays(deliveries: &[CompanionDelivery]) -> Vec<Duration> {
    let delay = |delivery: &CompanionDelivery| delivery.delivered_at.expect("it is delivered") - delivery.due_at;
    deliveries.iter().map(delay).collect()
}

#[test]
fn each_message_of_the_second_application_counts_from_when_it_was_due_while_the_first_fills_the_link() {
    let (deliveries, bytes) = run(StreamScheduler::FirstComeFirstServed, 200_000);
    assert_eq!(deliveries.len(), 100);
    let due: Vec<Instant> = deliveries.iter().map(|delivery| delivery.due_at).collect();
    assert_eq!(due[..3], [1_000, 1_100, 1_200].map(Instant::from_millis));
    assert!(due.is_sorted());
    let waits = |delivery: &CompanionDelivery| {
        let left_at = delivery.left_at.expect("a delivered message was sent");
        assert!(delivery.due_at <= left_at && Some(left_at) < delivery.delivered_at, "{delivery:?}");
        left_at - delivery.due_at
    };
    let longest = deliveries.iter().map(waits).max().expect("there are messages");
    assert!(longest > Duration::from_millis(1_000), "most of the delay is spent in the sender: {longest:?}");
    // Ten seconds of the link, less headers.
    assert!((1_100_000..1_500_000).contains(&bytes), "{bytes}");
    // The buffer holds 1.6 s of the link, and nine tenths of it are payload.
    let late = delays(&deliveries)[50..].iter().copied().min().expect("there are messages");
    assert!(late > Duration::from_millis(1_000), "{late:?}");
}

#[test]
fn a_second_application_whose_stream_takes_its_turn_does_not_wait_for_what_the_first_has_queued() {
    let delay_max = |scheduler| delays(&run(scheduler, 60_000).0).into_iter().max().expect("there are messages");
    let [queued, in_turn] = [StreamScheduler::FirstComeFirstServed, StreamScheduler::RoundRobin].map(delay_max);
    assert!(in_turn < queued, "{in_turn:?} {queued:?}");
}
