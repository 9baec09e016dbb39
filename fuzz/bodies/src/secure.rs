//! A client, a listener and an attacker on the path between them: datagrams lost, repeated, reordered, changed, cut and
//! invented, in every state of the handshake and after it, while the client comes to other addresses. The attacker has the keys of Initial packets, as anyone has.
//!
//! For any input: nothing panics, each call releases a bounded number of datagrams of bounded size, answers to an
//! unproved address are at most three times as long as the datagrams received from it, no timer that was handled is
//! still due, and a server delivers only messages that its client sent, each once. Once both sides are authenticated and
//! nothing more is lost, all messages arrive.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use arbitrary::Arbitrary;
use bytes::BytesMut;
use festina_sctp::{Association, Config, Context, Message, Ports};
use festina_secure::wire::{ConnectionId, Header, Level, destination_id, read_header};
use festina_secure::{Connect, HalfOpenLimits, Incoming, Listener, SecureAssociation};
use festina_secure::{LongKeys, initial_keys};
use festina_units::{Duration, EcnCodepoint, Instant};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore, ServerConfig, Side};

use crate::read;

/// Longest datagram of either side.
const DATAGRAM_BYTES_MAX: usize = 1_232;
/// Datagrams that one call may release.
const BURST_MAX: usize = 200;
/// Time after which a side that hears nothing may give up.
const PATIENCE: Duration = Duration::from_secs(10);
/// Operations of one input.
const OPERATIONS_MAX: usize = 200;

#[derive(Arbitrary, Debug)]
enum Operation {
    /// The next datagram to that side arrives.
    Deliver {
        to_server: bool,
    },
    /// It arrives, and arrives again later.
    Repeat {
        to_server: bool,
    },
    /// It is lost.
    Lose {
        to_server: bool,
    },
    /// It is overtaken by all others.
    Delay {
        to_server: bool,
    },
    /// It arrives with one byte changed, and the genuine one after it.
    Change {
        to_server: bool,
        at: u16,
        mask: u8,
    },
    /// Its first bytes arrive, and the genuine one after them.
    Cut {
        to_server: bool,
        at: u16,
    },
    /// These bytes arrive, behind the front of a genuine datagram.
    Invent {
        to_server: bool,
        front: u8,
        bytes: Vec<u8>,
    },
    /// An Initial packet with the right keys and these frames arrives.
    Forge {
        to_server: bool,
        frames: Vec<u8>,
    },
    /// Time passes.
    Wait {
        milliseconds: u16,
    },
    Send {
        bytes: u16,
    },
    Answer,
    UpdateKeys {
        by_server: bool,
    },
    Shutdown,
    /// The client comes to another address.
    Move {
        host: u8,
        port: u16,
        /// It says so, with other connection IDs.
        is_known: bool,
    },
    /// The server comes to another socket and says so, but a NAT hides the new address.
    MoveServer,
}

#[derive(Arbitrary, Debug)]
struct Plan {
    is_loaded: bool,
    operations: Vec<Operation>,
}

struct World {
    now: Instant,
    client: SecureAssociation,
    client_address: SocketAddr,
    listener: Listener,
    servers: Vec<SecureAssociation>,
    /// Datagrams in transit to the client and to the server.
    ways: [VecDeque<Vec<u8>>; 2],
    /// The last genuine datagram to each side.
    last: [Vec<u8>; 2],
    original: ConnectionId,
    is_loaded: bool,
    sent: u16,
    is_ending: bool,
    waited: Duration,
    looks: u32,
    delivered: Vec<u16>,
    /// Bytes to the listener, and from associations that are not established.
    bytes: [usize; 2],
}

pub(crate) fn tls() -> &'static (Arc<ClientConfig>, Arc<ServerConfig>) {
    static TLS: OnceLock<(Arc<ClientConfig>, Arc<ServerConfig>)> = OnceLock::new();
    TLS.get_or_init(|| {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let certificate = rcgen::CertificateParams::new(["fuzz.test".to_owned()]).unwrap().self_signed(&key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = &[&rustls::version::TLS13];
        let client =
            ClientConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions).unwrap();
        let server = ServerConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
        let key = key.serialize_der().try_into().unwrap();
        let server = server.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap();
        (Arc::new(client.with_root_certificates(roots).with_no_client_auth()), Arc::new(server))
    })
}

fn address(server: bool) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, u8::from(server)], 9_899))
}

impl World {
    fn new(is_loaded: bool) -> Self {
        let mut config = Config::default();
        config.limits.packet_bytes_max = DATAGRAM_BYTES_MAX - festina_secure::OVERHEAD_BYTES;
        let contexts = [1, 2].map(|secret| Context::new(config.clone(), [secret; 16]).unwrap());
        let (client_tls, server_tls) = tls();
        let now = Instant::from_secs(1);
        let request = Connect {
            tls: client_tls,
            resumption: None,
            server_name: ServerName::try_from("fuzz.test").unwrap(),
            remote: address(true),
            ports: Ports { local: 1, peer: 2 },
            token: b"token",
            random: [7, 7, 7, 7, 7, 7, 7, 7, 9, 9, 9, 9, 9, 9, 9, 9],
            known: None,
        };
        Self {
            now,
            client: SecureAssociation::connect(now, &contexts[0], request).unwrap(),
            client_address: address(false),
            listener: Listener::new(&contexts[1], Arc::clone(server_tls), [3; 32], HalfOpenLimits::default()).unwrap(),
            servers: Vec::new(),
            ways: [VecDeque::new(), VecDeque::new()],
            last: [Vec::new(), Vec::new()],
            original: ConnectionId([9; 8]),
            is_loaded,
            sent: 0,
            is_ending: false,
            waited: Duration::ZERO,
            looks: 0,
            delivered: Vec::new(),
            bytes: [0, 0],
        }
    }

    fn drain(&mut self) {
        for server in [false, true] {
            let associations: &mut [SecureAssociation] =
                if server { &mut self.servers } else { std::slice::from_mut(&mut self.client) };
            for association in associations {
                if association.hello().is_some() {
                    association.admit(self.now);
                }
                for count in 0.. {
                    assert!(count < BURST_MAX, "a burst without end");
                    let mut datagram = Vec::new();
                    if association.poll_transmit(self.now, &mut datagram).is_none() {
                        break;
                    }
                    assert!(!datagram.is_empty() && datagram.len() <= DATAGRAM_BYTES_MAX);
                    if server && !association.is_established() {
                        self.bytes[1] += datagram.len();
                    }
                    self.last[usize::from(!server)] = datagram.clone();
                    self.ways[usize::from(!server)].push_back(datagram);
                }
                while association.poll_event().is_some() {}
                while let Some(message) = association.poll_message() {
                    assert!(association.is_established());
                    if server {
                        self.delivered.push(u16::from_be_bytes([message.payload()[0], message.payload()[1]]));
                    }
                }
                assert!(association.poll_early().is_none(), "no session was resumed");
            }
        }
        assert!(self.bytes[1] <= 3 * self.bytes[0], "{:?}", self.bytes);
    }

    fn arrive(&mut self, to_server: bool, datagram: &[u8]) {
        let datagram = BytesMut::from(datagram);
        let (now, from) = (self.now, if to_server { self.client_address } else { address(true) });
        if !to_server {
            let _dropped = self.client.handle_datagram(now, from, EcnCodepoint::NotCapable, datagram);
            return self.drain();
        }
        self.bytes[0] += datagram.len();
        let id = destination_id(&datagram).ok();
        let known = self.servers.iter_mut().find(|server| id.is_some_and(|id| server.takes(id, from)));
        if let Some(server) = known {
            let _dropped = server.handle_datagram(now, from, EcnCodepoint::NotCapable, datagram);
            return self.drain();
        }
        let mut reply = Vec::new();
        let half_open = if self.is_loaded { 64 } else { 0 };
        match self.listener.handle_datagram(now, from, datagram, half_open, &mut reply) {
            Incoming::Reply => {
                self.bytes[1] += reply.len();
                self.ways[0].push_back(reply);
            }
            Incoming::HalfOpen(server) if self.servers.len() < 8 => self.servers.push(*server),
            _ => {}
        }
        self.drain();
    }

    fn wait(&mut self, time: Duration) {
        self.waited += time;
        let limit = self.now + time;
        for _ in 0..100 {
            let deadlines = self.servers.iter().chain([&self.client]).filter_map(SecureAssociation::poll_deadline);
            let Some(next) = deadlines.min().filter(|next| *next <= limit) else { break };
            self.now = self.now.max(next);
            let state = |association: &SecureAssociation| {
                association
                    .association()
                    .map(Association::stats)
                    .map_or((0, true), |stats| (stats.sent.chunks, stats.path.thin))
            };
            let before: Vec<_> = self.servers.iter().chain([&self.client]).map(state).collect();
            for association in self.servers.iter_mut().chain([&mut self.client]) {
                association.handle_timeout(self.now);
            }
            self.drain();
            self.looks += 1;
            let looks_again = self.looks.is_multiple_of(4);
            for (association, before) in self.servers.iter_mut().chain([&mut self.client]).zip(before) {
                let (due, after) = (association.poll_deadline(), state(association));
                // With less new data than before a stream may become thin. By the rules of thin streams earlier data may be overdue.
                let became_thin = after.0 > before.0 && after.1 && !before.1;
                let is_due = due.is_some_and(|at| at <= self.now);
                assert!(became_thin || !is_due, "{due:?} at {:?} {association:#?}", self.now);
                if looks_again && !is_due {
                    // Nothing is due, so nothing may become due earlier. Not each time, because a look hides an earlier omission.
                    association.handle_timeout(self.now);
                    let then = association.poll_deadline();
                    assert_eq!(
                        Instant::earliest([due, then]),
                        due,
                        "became {then:?} at {:?} {association:#?}",
                        self.now
                    );
                }
            }
        }
        self.now = self.now.max(limit);
    }

    fn forge(&mut self, to_server: bool, frames: &[u8]) {
        let provider = tls().1.crypto_provider();
        let side = if to_server { Side::Client } else { Side::Server };
        let Some(keys) = initial_keys(provider, self.original, side) else { return };
        let mut keys = LongKeys::stateless(Level::Initial, keys, 0_u8);
        // The source that the other side uses, if it was seen.
        let seen = match read_header(&self.last[usize::from(to_server)]) {
            Ok(Header::Long(header)) => Some((header.destination, header.source)),
            _ => None,
        };
        let (to, from) = seen.unwrap_or((self.original, self.original));
        let mut datagram = Vec::new();
        if keys.seal(&mut datagram, to, from, frames).is_ok() {
            self.arrive(to_server, &datagram);
        }
    }

    fn act(&mut self, operation: &Operation) {
        match operation {
            Operation::Deliver { to_server } => {
                if let Some(datagram) = self.ways[usize::from(*to_server)].pop_front() {
                    self.arrive(*to_server, &datagram);
                }
            }
            Operation::Repeat { to_server } => {
                if let Some(datagram) = self.ways[usize::from(*to_server)].front().cloned() {
                    self.arrive(*to_server, &datagram);
                }
            }
            Operation::Lose { to_server } => drop(self.ways[usize::from(*to_server)].pop_front()),
            Operation::Delay { to_server } => {
                let way = &mut self.ways[usize::from(*to_server)];
                if let Some(datagram) = way.pop_front() {
                    way.push_back(datagram);
                }
            }
            Operation::Change { to_server, at, mask } => {
                if let Some(mut datagram) = self.ways[usize::from(*to_server)].front().cloned() {
                    let at = usize::from(*at) % datagram.len();
                    datagram[at] ^= mask;
                    self.arrive(*to_server, &datagram);
                }
            }
            Operation::Cut { to_server, at } => {
                if let Some(mut datagram) = self.ways[usize::from(*to_server)].front().cloned() {
                    datagram.truncate(usize::from(*at) % datagram.len());
                    self.arrive(*to_server, &datagram);
                }
            }
            Operation::Invent { to_server, front, bytes } => {
                let last = &self.last[usize::from(*to_server)];
                let front = last.get(..usize::from(*front)).unwrap_or(last).to_vec();
                self.arrive(*to_server, &[&front[..], bytes].concat());
            }
            Operation::Forge { to_server, frames } => self.forge(*to_server, frames),
            Operation::Wait { milliseconds } => self.wait(Duration::from_millis((*milliseconds).into())),
            Operation::Send { bytes } => {
                let mut payload = vec![0; usize::from(*bytes % 3_000) + 2];
                payload[..2].copy_from_slice(&self.sent.to_be_bytes());
                if self.client.send(self.now, Message::new(payload)).is_ok() {
                    self.sent += 1;
                }
            }
            Operation::Answer => {
                for server in &mut self.servers {
                    let _refused = server.send(self.now, Message::new("answer"));
                }
            }
            Operation::UpdateKeys { by_server } => {
                let associations: &mut [SecureAssociation] =
                    if *by_server { &mut self.servers } else { std::slice::from_mut(&mut self.client) };
                for association in associations {
                    let _refused = association.update_keys();
                }
            }
            Operation::Shutdown => {
                self.is_ending = true;
                self.client.shutdown(self.now);
            }
            Operation::Move { host, port, is_known } => {
                self.client_address = SocketAddr::from(([198, 51, 100, *host], (*port).max(1)));
                self.rebind(*is_known, false);
            }
            Operation::MoveServer => self.rebind(false, true),
        }
        self.drain();
    }

    fn rebind(&mut self, client: bool, servers: bool) {
        let moving = client.then_some(&mut self.client).into_iter().chain(self.servers.iter_mut().filter(|_| servers));
        moving.for_each(|side| side.rebind(self.now, |_| Some(true)));
    }

    /// Both sides are authenticated and have not waited so long that one could have given up.
    fn is_open(&self) -> bool {
        let mut servers = self.servers.iter().filter_map(SecureAssociation::association);
        let is_open = |core: &Association| !core.is_closed();
        self.client.is_established()
            && self.client.association().is_some_and(is_open)
            && servers.any(is_open)
            && !self.is_ending
            && self.waited < PATIENCE
    }

    /// Nothing is lost any more, so everything is delivered.
    fn heal(&mut self) {
        for _ in 0..120 {
            while self.ways.iter().any(|way| !way.is_empty()) {
                for to_server in [false, true] {
                    self.act(&Operation::Deliver { to_server });
                }
            }
            if self.delivered.len() == usize::from(self.sent) {
                return;
            }
            self.wait(Duration::from_secs(1));
        }
        panic!("{} of {} messages arrived: {:#?}", self.delivered.len(), self.sent, self.client);
    }

    fn finish(&mut self) {
        if self.is_open() {
            self.heal();
        }
        let mut delivered = self.delivered.clone();
        delivered.sort_unstable();
        assert!(delivered.windows(2).all(|pair| pair[0] != pair[1]), "delivered twice: {:?}", self.delivered);
        assert!(delivered.iter().all(|number| *number < self.sent), "{:?} of {}", self.delivered, self.sent);
    }
}

/// Runs one input.
///
/// # Panics
/// If an invariant is broken.
pub fn run(data: &[u8]) {
    let Some(plan) = read::<Plan>(data) else { return };
    let mut world = World::new(plan.is_loaded);
    world.drain();
    for operation in plan.operations.iter().take(OPERATIONS_MAX) {
        world.act(operation);
    }
    world.finish();
}
