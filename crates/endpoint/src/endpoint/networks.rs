//! A client with two networks and a server with one address, in virtual time.

use bytes::BytesMut;
use festina_netsim::{Datagram as Flying, LinkConfig, LossModel, Networks, Node};
use festina_sctp::Multihoming;
use festina_secure::HalfOpenLimits;
use festina_units::{EcnCodepoint, Probability};
use rustls::ClientConfig;

use super::*;
use crate::handshakes::tests::{PORT, configs};

const SECOND: Duration = Duration::from_secs(1);
/// Between two messages.
const INTERVAL: Duration = Duration::from_millis(50);
/// One way, on either network.
const DELAY: Duration = Duration::from_millis(50);

fn own(network: usize) -> IpAddr {
    IpAddr::from([10, 0, u8::from(network == 1), 2])
}

fn server() -> SocketAddr {
    "10.0.9.1:9899".parse().unwrap()
}

/// A host, client or server.
struct Host {
    index: usize,
    now: Instant,
    endpoint: Endpoint,
    id: Option<AssociationId>,
    /// When it sent its messages, and when those of the other arrived.
    sent_at: Vec<Instant>,
    received_at: Vec<Instant>,
    events: Vec<Event>,
}

impl Node<Flying> for Host {
    fn handle_packet(&mut self, now: Instant, datagram: Flying) {
        let Flying { addresses: [from, to], bytes, .. } = datagram;
        let (ecn, packet) = (EcnCodepoint::NotCapable, BytesMut::from(&bytes[..]));
        self.endpoint.handle_datagram(now, Datagram { from, source: Some(to.ip()), ecn, packet });
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Flying> {
        self.now = now;
        let mut bytes = Vec::new();
        if let Some((transmit, source)) = self.endpoint.poll_transmit(now, &mut bytes) {
            let address = if self.index == 0 { source.unwrap() } else { transmit.destination.ip() };
            let (network, client) = (usize::from(address == own(1)), SocketAddr::new(address, 9_899));
            let addresses = if self.index == 0 { [client, server()] } else { [server(), client] };
            return Some(Flying { network, addresses, bytes, is_fragmented: false });
        }
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                EndpointEvent::Accepted(_) => self.id = self.endpoint.accept(PORT),
                EndpointEvent::Association(_, event) => self.events.push(event),
                _ => {}
            }
        }
        while let Some(message) = self.endpoint.poll_message(self.id?) {
            let number = u32::from_be_bytes(message.payload()[..4].try_into().unwrap()) as usize;
            assert_eq!(number, self.received_at.len(), "each once and in order");
            self.received_at.push(now);
        }
        None
    }

    fn poll_deadline(&self) -> Option<Instant> {
        self.endpoint.poll_deadline(self.now)
    }
}

/// The two hosts.
struct World {
    networks: Networks<Host>,
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
        let host = |index, endpoint| {
            let (sent_at, received_at, events) = (Vec::new(), Vec::new(), Vec::new());
            Host { index, now: Instant::ZERO, endpoint, id: None, sent_at, received_at, events }
        };
        let link = LinkConfig { delay: DELAY, loss: LossModel::Independent(loss), ..LinkConfig::default() };
        let hosts = [host(0, client), host(1, server_end)];
        let mut networks = Networks::new(hosts, &[link.clone(), link], seed);
        let (now, remote, ports) = (Instant::from_secs(1), server(), Ports { local: 5_001, peer: PORT });
        networks.run_until(now);
        let client = networks.host_mut(0);
        client.id = Some(if is_encrypted {
            let mut random = [7; 16];
            random[..8].copy_from_slice(&seed.to_be_bytes());
            let (tls, server_name) = (&client_tls, "server.test".try_into().unwrap());
            let request =
                Connect { tls, resumption: None, server_name, remote, ports, token: &[], random, known: None };
            client.endpoint.connect(now, request).unwrap()
        } else {
            client.endpoint.connect_plain(now, remote, ports, seed).unwrap()
        });
        networks.run_for(SECOND * 5);
        assert!(networks.host(1).id.is_some());
        Self { networks }
    }

    fn send(&mut self, host: usize) {
        let (now, host) = (self.networks.now(), self.networks.host_mut(host));
        let number = u32::try_from(host.sent_at.len()).unwrap();
        let message = Message::new([&number.to_be_bytes()[..], &[7; 96]].concat());
        host.sent_at.push(now);
        host.endpoint.change(host.id.unwrap(), |core| core.send(now, message).unwrap());
    }

    fn stream(&mut self, time: Duration) {
        let end = self.networks.now() + time;
        while self.networks.now() < end {
            (0..2).for_each(|host| self.send(host));
            self.networks.run_for(INTERVAL);
        }
    }

    fn cut(&mut self, network: usize, is_cut: bool, loss: Probability) {
        let loss = LossModel::Independent(if is_cut { Probability::ONE } else { loss });
        self.networks.change(network, |link| link.set_loss(loss.clone()));
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
    let first = [0, 1].map(|host| world.networks.host(host).sent_at.len());
    world.cut(0, true, loss);
    world.stream(SECOND * 3);
    world.cut(0, false, loss);
    world.stream(SECOND * 10);
    world.networks.run_for(SECOND * 60);
    let moves = world.networks.host(1).events.iter().filter(|event| matches!(event, Event::PeerMoved { .. })).count();
    // With loss the handshake may have ended on the other network.
    assert!(loss != Probability::ZERO || (moves > 0) == (is_encrypted && follows), "{moves} moves");
    [0, 1].map(|host| {
        let [sender, receiver] = [host, 1 - host].map(|host| world.networks.host(host));
        assert_eq!(receiver.received_at.len(), sender.sent_at.len());
        let delays = receiver.received_at.iter().zip(&sender.sent_at).map(|(at, sent_at)| *at - *sent_at);
        delays.skip(first[host]).max().unwrap().as_millis()
    })
}
