//! A client and a server with a link in each direction, in virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::BytesMut;
use festina_netsim::{Link, LinkConfig, LinkPacket};
use festina_sctp::{Association, Config, Context, Event, Message, PathKnowledge, Ports, ReceivedMessage};
use festina_secure::reset::ResetKey;
use festina_secure::sessions::{Resumption, ServerSessions};
use festina_secure::wire::{ConnectionId, destination_id};
use festina_secure::{Connect, DatagramDropped, HalfOpenLimits, Hello, Incoming, Listener, Path, SecureAssociation};
use festina_units::{ByteCount, Duration, EcnCodepoint, Instant};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::middlebox::{Fault, Middlebox};

pub(crate) const NAME: &str = "server.test";
pub(crate) const PORTS: Ports = Ports { local: 5_001, peer: 5_000 };

/// A datagram, where it comes from and where it goes.
#[derive(Clone, Debug)]
pub(crate) struct Datagram(pub(crate) Vec<u8>, pub(crate) SocketAddr, pub(crate) SocketAddr);

impl LinkPacket for Datagram {
    fn size(&self) -> ByteCount {
        ByteCount::from_bytes(self.0.len() as u64)
    }

    fn corrupt(&mut self, entropy: u64) {
        if let Some(bit) = entropy.checked_rem(self.0.len() as u64 * 8) {
            self.0[usize::try_from(bit / 8).unwrap()] ^= 1 << (bit % 8);
        }
    }
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// A self-signed certificate with its key.
pub(crate) fn certificate(name: &str) -> Certificate {
    certificate_with(name, &rcgen::PKCS_ECDSA_P256_SHA256)
}

pub(crate) type Certificate = (CertificateDer<'static>, PrivateKeyDer<'static>);

pub(crate) fn certificate_with(name: &str, algorithm: &'static rcgen::SignatureAlgorithm) -> Certificate {
    let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
    let certificate = rcgen::CertificateParams::new([name.to_owned()]).unwrap().self_signed(&key).unwrap();
    (certificate.der().clone(), key.serialize_der().try_into().unwrap())
}

/// Settings of a client that trusts one certificate, and of a server that has it.
pub(crate) fn tls() -> (Arc<ClientConfig>, Arc<ServerConfig>) {
    let (client, server) = tls_settings();
    (Arc::new(client), Arc::new(server))
}

/// The same with signatures of constant length, so that runs differ in no packet's size.
pub(crate) fn tls_of_constant_length() -> (Arc<ClientConfig>, Arc<ServerConfig>) {
    let (client, server) = tls_settings_with(&provider(), certificate_with(NAME, &rcgen::PKCS_ED25519));
    (Arc::new(client), Arc::new(server))
}

pub(crate) fn tls_settings() -> (ClientConfig, ServerConfig) {
    tls_settings_with(&provider(), certificate(NAME))
}

pub(crate) fn tls_settings_with(
    provider: &Arc<CryptoProvider>,
    (certificate, key): Certificate,
) -> (ClientConfig, ServerConfig) {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let versions = &[&rustls::version::TLS13];
    let client = ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions).unwrap();
    let mut client = client.with_root_certificates(roots).with_no_client_auth();
    let server = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions).unwrap();
    let mut server = server.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    client.alpn_protocols = vec![b"festina-test".to_vec()];
    server.alpn_protocols = vec![b"festina-test".to_vec()];
    (client, server)
}

/// The same with session resumption and early data.
pub(crate) fn tls_early() -> (Arc<ClientConfig>, Arc<ServerConfig>) {
    let (mut client, mut server) = tls_settings();
    client.enable_early_data = true;
    server.max_early_data_size = u32::MAX;
    server.session_storage = Arc::new(ServerSessions::new(64));
    (Arc::new(client), Arc::new(server))
}

/// A server's association and its results.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) association: SecureAssociation,
    pub(crate) received: Vec<ReceivedMessage>,
    pub(crate) early: Vec<Message>,
    pub(crate) hello: Option<Hello>,
}

/// How the server behaves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Server {
    /// The code by which it refuses every hello.
    pub(crate) refuses: Option<u16>,
    /// Half-open associations that it pretends to have in addition to its own.
    pub(crate) other_half_open: usize,
    /// It leaves all hellos undecided.
    pub(crate) holds: bool,
}

/// Datagrams as an observer of all networks sees them.
#[derive(Default)]
pub(crate) struct Seen {
    /// The sides that sent them, in order.
    pub(crate) senders: Vec<usize>,
    /// Bytes sent to each address.
    pub(crate) sent_to: BTreeMap<SocketAddr, usize>,
    /// The connection IDs of packets from and to each address of the client.
    pub(crate) ids_at: BTreeMap<SocketAddr, BTreeSet<ConnectionId>>,
}

pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) client: SecureAssociation,
    pub(crate) client_events: Vec<Event>,
    pub(crate) client_received: Vec<ReceivedMessage>,
    pub(crate) listener: Listener,
    pub(crate) served: Vec<Served>,
    /// Where the client is, and the events of the server's associations.
    pub(crate) client_address: SocketAddr,
    pub(crate) server_events: Vec<Event>,
    /// `links[0]` carries the client's datagrams.
    pub(crate) links: [Link<Datagram>; 2],
    /// Datagrams that each side sent.
    pub(crate) sent: [Vec<Vec<u8>>; 2],
    pub(crate) seen: Seen,
    pub(crate) middlebox: Middlebox,
    pub(crate) dropped: [Vec<DatagramDropped>; 2],
    pub(crate) server: Server,
    buffer: Vec<u8>,
}

pub(crate) fn address(side: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, u8::try_from(side + 1).unwrap()], 9_899))
}

pub(crate) fn config() -> Config {
    let mut config = Config::default();
    config.timers.heartbeat_interval = None;
    config.limits.packet_bytes_max -= festina_secure::OVERHEAD_BYTES;
    config
}

/// Sixteen bytes that differ from seed to seed.
pub(crate) fn random(seed: u64) -> [u8; 16] {
    let [a, b] = [1, 2].map(|salt: u64| (seed ^ salt << 60).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    [a, b].concat().try_into().unwrap()
}

pub(crate) struct Setup<'a> {
    pub(crate) tls: &'a (Arc<ClientConfig>, Arc<ServerConfig>),
    pub(crate) links: [LinkConfig; 2],
    pub(crate) seed: u64,
    pub(crate) token: &'a [u8],
    pub(crate) known: Option<PathKnowledge>,
    pub(crate) limits: HalfOpenLimits,
    pub(crate) config: Config,
    /// The server's settings, if they differ.
    pub(crate) server_config: Option<Config>,
    /// The private key from which the tokens of resets follow.
    pub(crate) reset_secret: &'a [u8],
    pub(crate) resumption: Option<Resumption>,
    /// The server's settings for clients that want other keys.
    pub(crate) others: Vec<Arc<ServerConfig>>,
}

impl<'a> Setup<'a> {
    pub(crate) fn new(tls: &'a (Arc<ClientConfig>, Arc<ServerConfig>), link: LinkConfig, seed: u64) -> Self {
        let (links, limits) = ([link.clone(), link], HalfOpenLimits::default());
        Self {
            tls,
            links,
            seed,
            token: &[],
            known: None,
            limits,
            config: config(),
            server_config: None,
            reset_secret: &[],
            resumption: None,
            others: Vec::new(),
        }
    }
}

impl World {
    pub(crate) fn new(setup: Setup<'_>) -> Self {
        let Setup { tls: (client_tls, server_tls), links, seed, token, known, limits, config, resumption, .. } = setup;
        let Setup { server_config, reset_secret, others, .. } = setup;
        let now = Instant::from_secs(1);
        let server_config = server_config.unwrap_or_else(|| config.clone());
        let contexts =
            [(config, 1), (server_config, 2)].map(|(config, secret)| Context::new(config, [secret; 16]).unwrap());
        let request = Connect {
            tls: client_tls,
            resumption: resumption.as_ref(),
            server_name: ServerName::try_from(NAME).unwrap(),
            remote: address(1),
            ports: PORTS,
            token,
            random: random(seed),
            known: known.as_ref(),
        };
        let client = SecureAssociation::connect(now, &contexts[0], request).unwrap();
        let listener = Listener::new(&contexts[1], Arc::clone(server_tls), [3; 32], limits).unwrap();
        let mut listener = listener.with_other_keys(others);
        if !reset_secret.is_empty() {
            listener = listener.with_resets(ResetKey::new(&provider(), reset_secret, address(1)).unwrap());
        }
        let [there, back] = links;
        Self {
            now,
            client,
            client_events: Vec::new(),
            client_received: Vec::new(),
            client_address: address(0),
            server_events: Vec::new(),
            listener,
            served: Vec::new(),
            links: [Link::new(there, seed, "there"), Link::new(back, seed, "back")],
            sent: [Vec::new(), Vec::new()],
            seen: Seen::default(),
            middlebox: Middlebox::default(),
            dropped: [Vec::new(), Vec::new()],
            server: Server::default(),
            buffer: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, payload: &[u8]) {
        self.client.send(self.now, Message::new(payload.to_vec())).unwrap();
    }

    pub(crate) fn core(&self) -> &Association {
        self.client.association().unwrap()
    }

    fn put(&mut self, side: usize, to: SocketAddr) {
        let local = self.client_address;
        self.put_from([local, address(1)][side], side, to);
    }

    fn put_from(&mut self, from: SocketAddr, side: usize, to: SocketAddr) {
        let datagram = std::mem::take(&mut self.buffer);
        self.sent[side].push(datagram.clone());
        self.seen.senders.push(side);
        *self.seen.sent_to.entry(to).or_default() += datagram.len();
        self.seen.ids_at.entry([from, to][side]).or_default().extend(destination_id(&datagram));
        self.pass_middlebox(side, Datagram(datagram, from, to));
    }

    fn pass_middlebox(&mut self, side: usize, mut datagram: Datagram) {
        let at = self.sent[side].len() - 1;
        let bytes = datagram.0.len();
        for &(_, _, fault) in self.middlebox.faults.iter().filter(|place| (place.0, place.1) == (side, at)) {
            match fault {
                Fault::Dropped => return,
                Fault::Doubled => drop(self.links[side].send(self.now, datagram.clone())),
                Fault::Late => {
                    return self.middlebox.late.push((self.now + Duration::from_millis(700), side, datagram));
                }
                Fault::Rebound => {
                    self.client_address.set_port(self.client_address.port() + 1);
                    datagram.1 = self.client_address;
                }
                Fault::Cut => datagram.0.truncate(bytes / 2),
                Fault::Corrupted => datagram.corrupt(at as u64 * 1_237),
            }
        }
        self.links[side].send(self.now, datagram);
    }

    fn send_late(&mut self) {
        for (_, side, datagram) in self.middlebox.late.extract_if(.., |late| late.0 <= self.now) {
            self.links[side].send(self.now, datagram);
        }
    }

    pub(crate) fn drain(&mut self) {
        while let Some(transmit) = self.client.poll_transmit(self.now, &mut self.buffer) {
            assert_eq!(transmit.len, self.buffer.len());
            self.put(0, transmit.destination);
        }
        while let Some(message) = self.client.poll_message() {
            self.client_received.push(message);
        }
        self.client_events.extend(std::iter::from_fn(|| self.client.poll_event()));
        for at in 0..self.served.len() {
            loop {
                let Served { association, received, early, hello } = &mut self.served[at];
                if let Some(asked) = association.hello().filter(|_| !self.server.holds) {
                    *hello = Some(asked.clone());
                    match self.server.refuses {
                        None => association.admit(self.now),
                        Some(code) => association.refuse(code),
                    }
                }
                early.extend(std::iter::from_fn(|| association.poll_early()));
                received.extend(std::iter::from_fn(|| association.poll_message()));
                self.server_events.extend(std::iter::from_fn(|| association.poll_event()));
                let Some(transmit) = association.poll_transmit(self.now, &mut self.buffer) else { break };
                assert_eq!(transmit.len, self.buffer.len());
                let source = association.source().unwrap_or(address(1).ip());
                let from = SocketAddr::new(source, address(1).port());
                self.put_from(from, 1, transmit.destination);
            }
        }
    }

    pub(crate) fn deliver(&mut self, side: usize, datagram: &[u8]) {
        self.deliver_from([address(1), self.client_address][side], side, datagram);
    }

    pub(crate) fn deliver_from(&mut self, from: SocketAddr, side: usize, datagram: &[u8]) {
        self.deliver_on((from, address(1).ip()), side, datagram);
    }

    /// The same for a datagram to any address of the server.
    pub(crate) fn deliver_on(&mut self, (from, local): (SocketAddr, IpAddr), side: usize, datagram: &[u8]) {
        let path = Path { remote: from, local: Some(local) };
        let (now, datagram) = (self.now, BytesMut::from(datagram));
        let result = if side == 0 {
            self.client.handle_datagram(now, from, EcnCodepoint::NotCapable, datagram)
        } else {
            let id = destination_id(&datagram).ok();
            let known = self.served.iter_mut().find(|served| id.is_some_and(|id| served.association.takes(id, from)));
            match known {
                Some(served) => served.association.handle_datagram(now, path, EcnCodepoint::NotCapable, datagram),
                None => self.listen(path, datagram),
            }
        };
        self.dropped[side].extend(result.err());
        self.drain();
    }

    fn listen(&mut self, path: Path, datagram: BytesMut) -> Result<(), DatagramDropped> {
        let half_open = self.served.iter().filter(|served| !served.association.is_established()).count();
        let mut reply = Vec::new();
        let (half_open, bytes) = (half_open + self.server.other_half_open, datagram.len());
        match self.listener.handle_datagram(self.now, path, datagram, half_open, &mut reply) {
            Incoming::Ignored(dropped) => return Err(dropped),
            Incoming::Reply => {
                assert!(reply.len() <= 3 * bytes);
                self.buffer = reply;
                self.put(1, path.remote);
            }
            Incoming::HalfOpen(association) => self.served.push(Served {
                association: *association,
                received: Vec::new(),
                early: Vec::new(),
                hello: None,
            }),
            other => panic!("{other:?}"),
        }
        Ok(())
    }

    fn next(&self) -> Option<Instant> {
        let links = self.links.iter().filter_map(Link::poll_deadline);
        let servers = self.served.iter().filter_map(|served| served.association.poll_deadline());
        let late = self.middlebox.late.iter().map(|late| late.0);
        links.chain(servers).chain(late).chain(self.client.poll_deadline()).min()
    }

    /// Advances to the next event, not beyond `limit`. Returns `false` if there is none until then.
    pub(crate) fn step(&mut self, limit: Instant) -> bool {
        self.drain();
        let Some(next) = self.next().filter(|&next| next <= limit) else {
            self.now = self.now.max(limit);
            return false;
        };
        self.now = self.now.max(next);
        self.send_late();
        for side in 0..2 {
            while let Some(Datagram(datagram, from, to)) = self.links[side].poll_delivery(self.now) {
                // Datagrams to an address that the client has left are lost, and its NAT drops those from others than the server's. Who only pretends
                // to be the server does not receive.
                if side == 0 && to == address(1) || (from, to) == (address(1), self.client_address) {
                    self.deliver_from(from, 1 - side, &datagram);
                }
            }
        }
        self.client.handle_timeout(self.now);
        for served in &mut self.served {
            served.association.handle_timeout(self.now);
        }
        self.drain();
        let now = self.now;
        self.served.retain(|served| served.association.is_established() || !served.association.is_finished(now));
        let client = self.client.poll_deadline();
        assert!(client.is_none_or(|at| at > now), "a timer that was handled is still due: {:#?}", self.client);
        true
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        let limit = self.now + time;
        while self.step(limit) {}
    }

    /// Runs until the condition holds. Returns whether it does within `time`, and the milliseconds since the start.
    pub(crate) fn run_until(&mut self, time: Duration, condition: impl Fn(&Self) -> bool) -> (bool, u64) {
        let limit = self.now + time;
        while !condition(self) && self.step(limit) {}
        (condition(self), (self.now.as_nanos() - Instant::from_secs(1).as_nanos()) / 1_000_000)
    }

    pub(crate) fn messages(&self) -> usize {
        self.served.iter().map(|served| served.received.len()).sum()
    }

    pub(crate) fn established(&self) -> Option<&Served> {
        self.served.iter().find(|served| served.association.is_established())
    }

    pub(crate) fn bytes_sent(&self, side: usize) -> usize {
        self.sent[side].iter().map(Vec::len).sum()
    }
}
