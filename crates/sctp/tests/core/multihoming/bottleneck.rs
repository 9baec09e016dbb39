//! A bulk transfer over two paths that share a bottleneck with one over a single path (the goals of RFC 6356 §1).

use festina_netsim::{Datagram, Link, LinkConfig, LinkPacket, LossModel, Node, PieConfig, QueueDiscipline, QueueLimit};
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

/// Whether both networks lead through one bottleneck, or each through its own. The second one has no competitor then.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bottleneck {
    Common,
    Separate,
}

/// Shares of 10 Mbit/s in percent that the first client gets of the competitor's bottleneck: of the messages delivered and of the bytes sent.
fn shares(multihoming: &Multihoming, bottleneck: Bottleneck, loss: Probability, seed: u64) -> [u64; 2] {
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
        loss: LossModel::Independent(loss),
        ..LinkConfig::default()
    };
    let mut bottlenecks = ["bottleneck", "other bottleneck"].map(|name| Link::new(config.clone(), seed, name));
    let link_of = |network| if bottleneck == Bottleneck::Common { 0 } else { network };
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
                let link = link_of(datagram.network);
                sent_bytes[client] += if link == 0 { datagram.size().bytes() } else { 0 };
                bottlenecks[link].send(now, Through { client, datagram });
            }
        }
        let now = clients[0].now();
        for link in &mut bottlenecks {
            while let Some(Through { client, datagram }) = link.poll_delivery(now) {
                clients[client].networks.host_mut(1).handle_packet(now, datagram);
            }
        }
    }
    let delivered = clients.each_ref().map(|networks| networks.delivered() as u64);
    [delivered, sent_bytes].map(|[first, second]| first * 100 / (first + second))
}

/// The means of four runs.
fn mean_shares(multihoming: &Multihoming, bottleneck: Bottleneck, loss: Probability) -> [u64; 2] {
    let shares = [1, 2, 3, 4].map(|seed| shares(multihoming, bottleneck, loss, seed));
    let means = [0, 1].map(|which| shares.iter().map(|shares| shares[which]).sum::<u64>() / 4);
    let (paths, policy) = (multihoming.paths_max, multihoming.policy);
    println!("{bottleneck:?}, {loss} lost, {paths} paths, {policy:?}: of messages and of bytes {means:?} {shares:?}");
    means
}

fn two_paths(policy: PathPolicy) -> Multihoming {
    Multihoming { policy, ..Multihoming::default() }
}

#[test]
fn bulk_over_two_paths_takes_no_more_of_a_shared_bottleneck_than_over_one() {
    let single = Multihoming { paths_max: 1, ..Multihoming::default() };
    let sharing = [PathPolicy::Repairs, PathPolicy::Copies, PathPolicy::Both].map(two_paths);
    for multihoming in [&single].into_iter().chain(&sharing) {
        let means = mean_shares(multihoming, Bottleneck::Common, Probability::ZERO);
        assert!(means.iter().all(|mean| (45..=55).contains(mean)), "{means:?}");
    }
}

/// Copies by the other network hide losses. Those of a transfer that fills its window would keep the window from being cut.
#[test]
fn bulk_whose_second_path_is_free_takes_no_more_of_the_first_than_over_one() {
    let both = two_paths(PathPolicy::Both);
    for loss in [0, 1] {
        let means = mean_shares(&both, Bottleneck::Separate, Probability::from_percent(loss));
        assert!(means.iter().all(|mean| (45..=55).contains(mean)), "{means:?}");
    }
}
