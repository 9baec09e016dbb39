//! A bulk transfer over two paths that share a bottleneck with one over a single path (the goals of RFC 6356 §1).

use festina_netsim::{Datagram, Link, LinkConfig, LinkPacket, Node, PieConfig, QueueDiscipline, QueueLimit};
use festina_sctp::PathPolicy;
use festina_units::Bandwidth;

use super::*;

const MESSAGE_BYTES: usize = 1_000;
const STEP: Duration = Duration::from_millis(1);

/// A packet of one of two clients.
#[derive(Clone)]
struct Through {
    client: usize,
    datagram: Datagram,
}

impl LinkPacket for Through {
    fn size(&self) -> ByteCount {
        self.datagram.size()
    }

    fn corrupt(&mut self, _: u64) {}
}

/// Keeps the send buffer full.
fn feed(networks: &mut World) {
    while networks.send(MESSAGE_BYTES) {}
}

/// Shares of 10 Mbit/s in percent that the first client gets, of the messages delivered and of the bytes sent.
fn shares(multihoming: &Multihoming, seed: u64) -> [u64; 2] {
    let single = Multihoming { paths_max: 1, ..Multihoming::default() };
    let links = [20, 20].map(|ms| link(Duration::from_millis(ms), Probability::ZERO));
    let mut clients =
        [multihoming, &single].map(|multihoming| World::new(&Config::default(), Some(multihoming), &links, seed));
    let config = LinkConfig {
        rate: Some(Bandwidth::from_bits_per_second(10_000_000)),
        delay: Duration::from_millis(20),
        queue: QueueLimit::packets(100),
        // It drops at random, so that the phases of two periodic senders do not decide.
        discipline: QueueDiscipline::Pie(PieConfig::default()),
        ..LinkConfig::default()
    };
    let mut bottleneck = Link::new(config, seed, "bottleneck");
    clients.iter_mut().for_each(|networks| networks.networks.host_mut(0).outbox = Some(Vec::new()));
    let mut sent_bytes = [0; 2];
    let end = clients[0].now() + Duration::from_secs(30);
    for step in 0.. {
        if clients[0].now() >= end {
            break;
        }
        // Neither is always the first to find room in the queue.
        for client in [step % 2, (step + 1) % 2] {
            let networks = &mut clients[client];
            feed(networks);
            networks.run_for(STEP);
            let now = networks.now();
            for datagram in networks.networks.host_mut(0).outbox.as_mut().unwrap().drain(..) {
                sent_bytes[client] += datagram.size().bytes();
                bottleneck.send(now, Through { client, datagram });
            }
        }
        let now = clients[0].now();
        while let Some(Through { client, datagram }) = bottleneck.poll_delivery(now) {
            clients[client].networks.host_mut(1).handle_packet(now, datagram);
        }
    }
    let delivered = clients.each_ref().map(|networks| networks.delivered() as u64);
    [delivered, sent_bytes].map(|[first, second]| first * 100 / (first + second))
}

#[test]
fn bulk_over_two_paths_takes_no_more_of_a_shared_bottleneck_than_over_one_unless_all_is_copied() {
    let single = Multihoming { paths_max: 1, ..Multihoming::default() };
    let sharing = [PathPolicy::Repairs, PathPolicy::Copies, PathPolicy::Both];
    let sharing = sharing.map(|policy| Multihoming { policy, ..Multihoming::default() });
    for multihoming in [&single].into_iter().chain(&sharing) {
        let shares = [1, 2, 3, 4].map(|seed| shares(multihoming, seed));
        let mean = |which: usize| shares.iter().map(|shares| shares[which]).sum::<u64>() / 4;
        let means = [mean(0), mean(1)];
        println!("{} paths, {:?}: of messages and of bytes {means:?}", multihoming.paths_max, multihoming.policy);
        // The copies of a transfer are not coupled to its window, which no loss that they repair cuts.
        let most = if multihoming.policy == PathPolicy::Both { [60, 68] } else { [55, 55] };
        assert!(means[0] <= most[0] && means[1] <= most[1], "{means:?} {shares:?}");
    }
}
