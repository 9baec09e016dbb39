//! Endpoints in the simulator.

use std::collections::BTreeMap;

use bytes::BytesMut;
use festina_netsim::{Duplex, LinkConfig, LinkPacket, LossModel, Node, NodeId, SimPacket, Simulation, Topology};
use festina_secure::HalfOpenLimits;
use festina_units::{ByteCount, EcnCodepoint, Probability};
use rustls::ClientConfig;

use super::*;
use crate::handshakes::tests::{PORT, configs};

const SERVER: &str = "10.0.0.1:9899";
const CLIENT: &str = "10.0.0.2:9899";
const MESSAGES: usize = 3;

/// A datagram in the simulator.
#[derive(Clone)]
struct Flying {
    to: NodeId,
    bytes: Vec<u8>,
}

impl LinkPacket for Flying {
    fn size(&self) -> ByteCount {
        ByteCount::from_bytes(self.bytes.len() as u64 + 28)
    }

    fn corrupt(&mut self, entropy: u64) {
        let at = usize::try_from(entropy).unwrap() % self.bytes.len();
        self.bytes[at] ^= 1;
    }
}

impl SimPacket for Flying {
    fn destination(&self) -> NodeId {
        self.to
    }
}

/// An endpoint with its application.
struct Host {
    endpoint: Endpoint,
    peer: NodeId,
    peer_address: SocketAddr,
    now: Instant,
    /// Associations that a client has yet to begin, one each 5 ms, encrypted by these settings or plain.
    to_begin: u64,
    next_at: Option<Instant>,
    tls: Option<Arc<ClientConfig>>,
    /// Messages received, by association.
    received: BTreeMap<AssociationId, usize>,
    bytes_sent: u64,
    ended: usize,
}

impl Host {
    fn new(
        endpoint: Endpoint,
        peer: NodeId,
        peer_address: &str,
        to_begin: u64,
        tls: Option<Arc<ClientConfig>>,
    ) -> Self {
        let next_at = (to_begin > 0).then_some(Instant::from_secs(1));
        Self {
            endpoint,
            peer,
            peer_address: peer_address.parse().unwrap(),
            now: Instant::ZERO,
            to_begin,
            next_at,
            tls,
            received: BTreeMap::new(),
            bytes_sent: 0,
            ended: 0,
        }
    }

    fn begin(&mut self, now: Instant) {
        let number = self.to_begin;
        let ports = Ports { local: 1_000 + u16::try_from(number).unwrap(), peer: PORT };
        let mut random = [7; 16];
        random[..8].copy_from_slice(&number.to_be_bytes());
        random[8..].copy_from_slice(&(number + 1_000_000).to_be_bytes());
        let id = match &self.tls {
            None => self.endpoint.connect_plain(now, self.peer_address, ports, number),
            Some(tls) => {
                let (server_name, remote) = ("server.test".try_into().unwrap(), self.peer_address);
                let request =
                    Connect { tls, resumption: None, server_name, remote, ports, token: &[], random, known: None };
                self.endpoint.connect(now, request)
            }
        };
        let id = id.unwrap();
        for _ in 0..MESSAGES {
            self.endpoint.change(id, |core| core.send(now, Message::new(vec![0; 100])).unwrap());
        }
        self.to_begin -= 1;
        self.next_at = (self.to_begin > 0).then(|| now + Duration::from_millis(5));
    }

    fn attend(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                EndpointEvent::Accepted(id) => {
                    assert_eq!(self.endpoint.accept(PORT), Some(id));
                }
                EndpointEvent::Association(id, _) => {
                    while self.endpoint.poll_message(id).is_some() {
                        *self.received.entry(id).or_default() += 1;
                    }
                    // The client ends when all is acknowledged, the server when all has arrived.
                    if self.received.get(&id) == Some(&MESSAGES) {
                        let now = self.now;
                        self.endpoint.change(id, |core| core.shutdown(now));
                    }
                }
                EndpointEvent::Ended { messages, .. } => {
                    assert!(messages.is_empty(), "all were taken");
                    self.ended += 1;
                }
                EndpointEvent::Early(..) => panic!("there is no session to resume"),
            }
        }
    }
}

impl Node<Flying> for Host {
    fn handle_packet(&mut self, now: Instant, packet: Flying) {
        self.now = now;
        let packet = BytesMut::from(&packet.bytes[..]);
        let datagram = Datagram { from: self.peer_address, source: None, ecn: EcnCodepoint::NotCapable, packet };
        self.endpoint.handle_datagram(now, datagram);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        if self.next_at.is_some_and(|at| at <= now) {
            self.begin(now);
        }
        self.endpoint.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Flying> {
        let mut bytes = Vec::new();
        loop {
            if self.endpoint.poll_transmit(now, &mut bytes).is_some() {
                self.bytes_sent += bytes.len() as u64;
                return Some(Flying { to: self.peer, bytes });
            }
            let before = self.endpoint.house.events.len();
            self.attend();
            if before == 0 {
                return None;
            }
        }
    }

    fn poll_deadline(&self) -> Option<Instant> {
        Instant::earliest([self.next_at, self.endpoint.poll_deadline(self.now)])
    }
}

/// What became of a host's associations.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    /// Messages received, by association.
    received: BTreeMap<AssociationId, usize>,
    ended: usize,
    bytes_sent: u64,
}

/// Runs this many associations over a path of 50 ms that loses a packet of 20. Returns the outcomes of client and server.
fn run(associations: u64, is_encrypted: bool) -> [Outcome; 2] {
    let loss = LossModel::Independent(Probability::from_percent(5));
    let link = LinkConfig { delay: Duration::from_millis(50), loss, ..LinkConfig::default() };
    let path = Topology::path(&[Duplex { forward: link.clone(), backward: link }]);
    let (client_tls, server_tls) = configs();
    let admission = sctp::Admission {
        associations_max: 2_000,
        associations_per_address_max: 2_000,
        accept_queue_max: 2_000,
        ..sctp::Admission::default()
    };
    let config = sctp::Config { admission, ..sctp::Config::default() };
    let endpoint = |secret, server: Option<Arc<rustls::ServerConfig>>| {
        let context = sctp::Context::new(config.clone(), [secret; 16]).unwrap();
        let listener = server.map(|server| {
            festina_secure::Listener::new(&context, server, [secret; 32], HalfOpenLimits::default()).unwrap()
        });
        let protocols = if is_encrypted { Protocols::Encrypted } else { Protocols::Plain };
        Endpoint::new(Setup { context, protocols, listener, secret: [secret; 16], cpu_time: || Duration::ZERO })
    };
    let mut server = endpoint(1, is_encrypted.then_some(server_tls));
    server.listen(PORT).unwrap();
    let client = Host::new(endpoint(2, None), path.receiver, SERVER, associations, is_encrypted.then_some(client_tls));
    let server = Host::new(server, path.sender, CLIENT, 0, None);
    let (near, far) = (path.sender, path.receiver);
    let mut simulation: Simulation<Flying, Host> = Simulation::new(path.topology, vec![client, server], 1);
    simulation.run_until(Instant::from_secs(120));
    [near, far].map(|node| {
        let host = simulation.node(node);
        assert!(host.endpoint.is_empty() && host.endpoint.house.residents.is_empty(), "{}", host.endpoint.len());
        Outcome { received: host.received.clone(), ended: host.ended, bytes_sent: host.bytes_sent }
    })
}

#[test]
fn a_thousand_encrypted_associations_deliver_all_messages_over_a_lossy_path_and_end() {
    let [client, server] = run(1_000, true);
    assert_eq!(server.received.len(), 1_000);
    assert!(server.received.values().all(|&messages| messages == MESSAGES));
    assert_eq!((client.ended, server.ended), (1_000, 1_000));
}

#[test]
fn plain_associations_send_the_same_bytes_in_each_run() {
    let [one, other] = [run(100, false), run(100, false)];
    assert_eq!(one[1].received.len(), 100);
    assert_eq!(one, other);
}

#[test]
fn messages_of_an_association_that_ended_before_they_were_taken_come_with_its_end() {
    let now = Instant::from_secs(3_600);
    let [mut client, mut server] = [1, 2].map(|secret| {
        let context = sctp::Context::new(sctp::Config::default(), [secret; 16]).unwrap();
        let (protocols, cpu_time) = (Protocols::Plain, || Duration::ZERO);
        Endpoint::new(Setup { context, protocols, listener: None, secret: [secret; 16], cpu_time })
    });
    server.listen(PORT).unwrap();
    let id = client.connect_plain(now, SERVER.parse().unwrap(), Ports { local: 1, peer: PORT }, 1).unwrap();
    client.change(id, |core| core.send(now, Message::new("the last word")).unwrap());
    client.change(id, |core| core.shutdown(now));
    let carry = |from: &mut Endpoint, at: &str, to: &mut Endpoint| {
        let mut bytes = Vec::new();
        let mut packets = 0;
        while from.poll_transmit(now, &mut bytes).is_some() {
            let packet = BytesMut::from(&std::mem::take(&mut bytes)[..]);
            let from = at.parse().unwrap();
            to.handle_datagram(now, Datagram { from, source: None, ecn: EcnCodepoint::NotCapable, packet });
            packets += 1;
        }
        packets
    };
    while carry(&mut client, CLIENT, &mut server) + carry(&mut server, SERVER, &mut client) > 0 {}
    let ends = std::iter::from_fn(|| server.poll_event()).filter_map(|event| match event {
        EndpointEvent::Ended { messages, .. } => Some(messages),
        _ => None,
    });
    let messages: Vec<_> = ends.flatten().map(|message| message.into_payload()).collect();
    assert_eq!(messages, ["the last word"]);
    assert_eq!((server.accept(PORT), server.len(), client.len()), (None, 0, 0));
}

/// Carries datagrams between a client at this address and a server until there are none.
fn settle(now: Instant, client: &mut Endpoint, at: &str, server: &mut Endpoint) {
    let carry = |from: &mut Endpoint, source: &str, to: &mut Endpoint, destination: &str| {
        let (mut bytes, mut packets) = (Vec::new(), 0);
        while let Some((transmit, _)) = from.poll_transmit(now, &mut bytes) {
            let packet = BytesMut::from(&std::mem::take(&mut bytes)[..]);
            let datagram =
                Datagram { from: source.parse().unwrap(), source: None, ecn: EcnCodepoint::NotCapable, packet };
            if transmit.destination == destination.parse().unwrap() {
                to.handle_datagram(now, datagram);
            }
            packets += 1;
        }
        packets
    };
    while carry(client, at, server, SERVER) + carry(server, SERVER, client, at) > 0 {}
}

#[test]
fn a_peer_that_restarts_from_another_address_that_it_has_named_continues_its_association() {
    const OTHER: &str = "10.1.0.2:9899";
    let now = Instant::from_secs(3_600);
    for paths_max in [1, 8] {
        let endpoint = |secret: u8, addresses: &[&str]| {
            let addresses = addresses.iter().map(|address| address.parse::<SocketAddr>().unwrap().ip()).collect();
            let multihoming = sctp::Multihoming { addresses, paths_max, ..sctp::Multihoming::default() };
            let context = sctp::Context::multihomed(sctp::Config::default(), [secret; 16], multihoming).unwrap();
            let (protocols, cpu_time) = (Protocols::Plain, || Duration::ZERO);
            Endpoint::new(Setup { context, protocols, listener: None, secret: [secret; 16], cpu_time })
        };
        let mut server = endpoint(1, &[]);
        server.listen(PORT).unwrap();
        let ports = Ports { local: 1, peer: PORT };
        let mut restarts = Vec::new();
        for (secret, at) in [(2, CLIENT), (3, OTHER), (4, CLIENT)] {
            let mut client = endpoint(secret, &[CLIENT, OTHER]);
            let id = client.connect_plain(now, SERVER.parse().unwrap(), ports, secret.into()).unwrap();
            settle(now, &mut client, at, &mut server);
            assert_eq!(
                client.association(id).map(|core| core.core().state()),
                Some(sctp::AssociationState::Established),
                "{at}"
            );
            let events = std::iter::from_fn(|| server.poll_event());
            let restarted =
                |event: &EndpointEvent| matches!(event, EndpointEvent::Association(_, Event::PeerRestarted));
            restarts.push(events.filter(restarted).count());
        }
        assert_eq!((server.len(), &restarts[..]), (1, &[0, 1, 1][..]), "{paths_max} paths");
        // A stranger that names an address of the peer is told that the association would get another, and changes nothing.
        let mut stranger = endpoint(5, &["10.9.0.9:9899", CLIENT]);
        let id = stranger.connect_plain(now, SERVER.parse().unwrap(), ports, 5).unwrap();
        settle(now, &mut stranger, "10.9.0.9:9899", &mut server);
        assert!(stranger.association(id).is_none_or(|core| core.core().state() != sctp::AssociationState::Established));
        assert_eq!(server.len(), 1);
    }
}
