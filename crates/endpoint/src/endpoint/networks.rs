//! A client with two networks and a server with one address, in virtual time.

use bytes::BytesMut;
use festina_netsim::{Link, LinkConfig, LinkPacket, LossModel};
use festina_sctp::Multihoming;
use festina_secure::HalfOpenLimits;
use festina_units::{ByteCount, EcnCodepoint, Probability};
use rustls::ClientConfig;

use super::*;
use crate::handshakes::tests::{PORT, configs};

const SECOND: Duration = Duration::from_secs(1);
/// Between two messages.
const INTERVAL: Duration = Duration::from_millis(50);
/// One way, on either network.
const DELAY: Duration = Duration::from_millis(50);

fn own(network: u8) -> IpAddr {
    IpAddr::from([10, 0, network, 2])
}

fn server() -> SocketAddr {
    "10.0.9.1:9899".parse().unwrap()
}

#[derive(Clone)]
struct Flying(Vec<u8>);

impl LinkPacket for Flying {
    fn size(&self) -> ByteCount {
        ByteCount::from_bytes(self.0.len() as u64 + 28)
    }

    fn corrupt(&mut self, _entropy: u64) {}
}

/// The two hosts.
struct World {
    now: Instant,
    /// Client and server.
    ends: [Endpoint; 2],
    ids: [Option<AssociationId>; 2],
    /// `links[network][host]` carries the datagrams of that host.
    links: [[Link<Flying>; 2]; 2],
    sent_at: [Vec<Instant>; 2],
    /// Delays of the messages of each host.
    delays: [Vec<Duration>; 2],
    events: [Vec<Event>; 2],
}

fn links(loss: Probability, seed: u64) -> [Link<Flying>; 2] {
    let config = LinkConfig { delay: DELAY, loss: LossModel::Independent(loss), ..LinkConfig::default() };
    ["there", "back"].map(|name| Link::new(config.clone(), seed, name))
}

/// An endpoint whose associations have several paths if it is given addresses, perhaps none.
fn endpoint(
    addresses: Option<Vec<IpAddr>>,
    host: u8,
    tls: Option<Arc<rustls::ServerConfig>>,
    is_encrypted: bool,
) -> Endpoint {
    let mut config = sctp::Config::default();
    if is_encrypted {
        config.limits.packet_bytes_max -= festina_secure::OVERHEAD_BYTES;
    }
    let context = match addresses {
        Some(addresses) => {
            let multihoming = Multihoming { addresses, ..Multihoming::default() };
            sctp::Context::multihomed(config, [host; 16], multihoming).unwrap()
        }
        None => sctp::Context::new(config, [host; 16]).unwrap(),
    };
    let listener =
        tls.map(|tls| festina_secure::Listener::new(&context, tls, [3; 32], HalfOpenLimits::default()).unwrap());
    let protocols = if is_encrypted { Protocols::Encrypted } else { Protocols::Plain };
    Endpoint::new(Setup { context, protocols, listener, secret: [host; 16], cpu_time: || Duration::ZERO })
}

impl World {
    /// The server uses all addresses of its clients, or follows them.
    fn new(is_encrypted: bool, follows: bool, loss: Probability, seed: u64) -> Self {
        let (client_tls, server_tls): (Arc<ClientConfig>, _) = configs();
        let client = endpoint(Some(vec![own(0), own(1)]), 1, None, is_encrypted);
        let mut server_end = endpoint((!follows).then(Vec::new), 2, is_encrypted.then_some(server_tls), is_encrypted);
        server_end.listen(PORT).unwrap();
        let mut world = Self {
            now: Instant::from_secs(1),
            ends: [client, server_end],
            ids: [None, None],
            links: [0, 1].map(|network| links(loss, seed + network)),
            sent_at: [Vec::new(), Vec::new()],
            delays: [Vec::new(), Vec::new()],
            events: [Vec::new(), Vec::new()],
        };
        let ports = Ports { local: 5_001, peer: PORT };
        let (now, remote) = (world.now, server());
        let [client, _] = &mut world.ends;
        world.ids[0] = Some(if is_encrypted {
            let random = std::array::from_fn(|at| seed.to_be_bytes()[at % 8].wrapping_mul(31).wrapping_add(at as u8));
            let (tls, server_name) = (&client_tls, "server.test".try_into().unwrap());
            let request =
                Connect { tls, resumption: None, server_name, remote, ports, token: &[], random, known: None };
            client.connect(now, request).unwrap()
        } else {
            client.connect_plain(now, remote, ports, seed).unwrap()
        });
        world.run_for(SECOND * 5);
        assert!(world.ids[1].is_some());
        world
    }

    fn drain(&mut self, host: usize) {
        let mut datagram = Vec::new();
        while let Some((transmit, source)) = self.ends[host].poll_transmit(self.now, &mut datagram) {
            let address = if host == 0 { source.unwrap() } else { transmit.destination.ip() };
            let network = usize::from(address == own(1));
            self.links[network][host].send(self.now, Flying(std::mem::take(&mut datagram)));
        }
        while let Some(event) = self.ends[host].poll_event() {
            match event {
                EndpointEvent::Accepted(_) => self.ids[host] = self.ends[host].accept(PORT),
                EndpointEvent::Association(_, event) => self.events[host].push(event),
                _ => {}
            }
        }
        let Some(id) = self.ids[host] else { return };
        while let Some(message) = self.ends[host].poll_message(id) {
            let number = u32::from_be_bytes(message.payload()[..4].try_into().unwrap()) as usize;
            assert_eq!(number, self.delays[1 - host].len(), "each once and in order");
            self.delays[1 - host].push(self.now - self.sent_at[1 - host][number]);
        }
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        (0..2).for_each(|host| self.drain(host));
        loop {
            let links = self.links.iter().flatten().filter_map(Link::poll_deadline);
            let timers = self.ends.iter().filter_map(|end| end.poll_deadline(self.now));
            let Some(next) = links.chain(timers).min().filter(|&next| next <= end) else { break };
            self.now = self.now.max(next);
            for (network, host) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                while let Some(Flying(bytes)) = self.links[network][host].poll_delivery(self.now) {
                    let client = SocketAddr::new(own(u8::try_from(network).unwrap()), 9_899);
                    let (from, to) = if host == 0 { (client, server()) } else { (server(), client) };
                    let (ecn, packet) = (EcnCodepoint::NotCapable, BytesMut::from(&bytes[..]));
                    let datagram = Datagram { from, source: Some(to.ip()), ecn, packet };
                    self.ends[1 - host].handle_datagram(self.now, datagram);
                }
            }
            (0..2).for_each(|host| self.ends[host].handle_timeout(self.now));
            (0..2).for_each(|host| self.drain(host));
        }
        self.now = end;
    }

    fn send(&mut self, host: usize) {
        let number = u32::try_from(self.sent_at[host].len()).unwrap();
        let message = Message::new([&number.to_be_bytes()[..], &[7; 96]].concat());
        self.sent_at[host].push(self.now);
        let (id, now) = (self.ids[host].unwrap(), self.now);
        self.ends[host].change(id, |core| core.send(now, message).unwrap());
    }

    fn stream(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            (0..2).for_each(|host| self.send(host));
            self.run_for(INTERVAL);
        }
    }

    fn cut(&mut self, network: usize, is_cut: bool, loss: Probability) {
        self.links[network] = links(if is_cut { Probability::ONE } else { loss }, u64::from(is_cut) + 7);
    }
}

#[test]
fn a_client_leaves_a_network_that_fails_though_its_server_has_one_address() {
    for (is_encrypted, follows) in [(true, false), (true, true), (false, false)] {
        for percent in [0, 5] {
            let loss = Probability::from_percent(percent);
            let delays: Vec<_> = (1..=20).map(|seed| outage(is_encrypted, follows, loss, seed)).collect();
            let scene = format!("encrypted {is_encrypted}, followed {follows}, {percent} % loss");
            println!("{scene}: longest delays there and back in milliseconds {delays:?}");
            // One round trip of 100 ms and half a second.
            assert!(delays.iter().flatten().all(|&delay| delay <= 600), "{delays:?}");
        }
    }
}

/// Cuts the client's first network for three seconds. Returns the longest delay of a message in each direction, in milliseconds.
fn outage(is_encrypted: bool, follows: bool, loss: Probability, seed: u64) -> [u128; 2] {
    let mut world = World::new(is_encrypted, follows, loss, seed);
    world.stream(SECOND * 10);
    let first = [0, 1].map(|host| world.sent_at[host].len());
    world.cut(0, true, loss);
    world.stream(SECOND * 3);
    world.cut(0, false, loss);
    world.stream(SECOND * 10);
    world.run_for(SECOND * 60);
    let moves = world.events[1].iter().filter(|event| matches!(event, Event::PeerMoved { .. })).count();
    // With loss the handshake may have ended on the other network.
    assert!(loss != Probability::ZERO || (moves > 0) == (is_encrypted && follows), "{moves} moves");
    [0, 1].map(|host| {
        assert_eq!(world.delays[host].len(), world.sent_at[host].len());
        world.delays[host][first[host]..].iter().max().unwrap().as_millis()
    })
}
