//! Two endpoints, plain, encrypted or both, and an attacker who loses, repeats, changes and invents datagrams in the names of the peer and of strangers.
//!
//! For any input: nothing panics, each call releases a bounded number of datagrams of bounded size, strangers get at most three times the bytes that
//! they sent, no timer that was handled is still due, each message arrives at most once, and 10 minutes after the end both endpoints are empty.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use arbitrary::Arbitrary;
use bytes::BytesMut;
use festina_endpoint::endpoint::{AssociationId, EndpointEvent, Setup};
use festina_endpoint::{Datagram, Endpoint, Protocols};
use festina_sctp::{Config, Context, Message, Ports};
use festina_secure::{Connect, HalfOpenLimits, Listener};
use festina_units::{Duration, EcnCodepoint, Instant};
use rustls::pki_types::ServerName;

use crate::read;
use crate::secure::tls;

/// Datagrams that one call may release.
const BURST_MAX: usize = 200;
/// Longest datagram.
const DATAGRAM_BYTES_MAX: usize = 1_232;
/// Operations of one input.
const OPERATIONS_MAX: usize = 200;
/// Associations of one input.
const ASSOCIATIONS_MAX: u16 = 8;
/// Turns that waiting handshakes may need.
const TURNS_MAX: usize = 64;
const PORT: u16 = 5_000;

#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Encrypted,
    PlainToBoth,
    EncryptedToBoth,
}

#[derive(Arbitrary, Debug)]
enum Operation {
    Begin,
    Send {
        association: u8,
        is_answer: bool,
    },
    /// The next datagram to that side arrives, the given number of times.
    Deliver {
        to_server: bool,
        times: u8,
    },
    Lose {
        to_server: bool,
    },
    /// It arrives with one byte changed, and the genuine one after it.
    Change {
        to_server: bool,
        at: u16,
        mask: u8,
    },
    /// A copy arrives from a stranger's address.
    Copy {
        to_server: bool,
        host: u8,
    },
    /// These bytes arrive from the peer's address, or from a stranger's.
    Invent {
        to_server: bool,
        host: Option<u8>,
        bytes: Vec<u8>,
    },
    Wait {
        milliseconds: u16,
    },
    Shutdown {
        association: u8,
        by_server: bool,
    },
}

#[derive(Arbitrary, Debug)]
struct Plan {
    kind: Kind,
    operations: Vec<Operation>,
}

struct Side {
    endpoint: Endpoint,
    associations: Vec<AssociationId>,
    /// Messages by association.
    delivered: BTreeMap<AssociationId, BTreeSet<Vec<u8>>>,
    sent: u32,
    /// Datagrams in transit to this side.
    arriving: VecDeque<Vec<u8>>,
    /// Bytes from and to strangers, by address.
    strangers: BTreeMap<SocketAddr, [usize; 2]>,
}

struct World {
    kind: Kind,
    now: Instant,
    begun: u16,
    /// The client and the server.
    sides: [Side; 2],
}

fn address(of_server: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, of_server as u8], 9_899))
}

fn stranger(host: u8) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, host % 4 + 1], 7))
}

impl World {
    fn new(kind: Kind) -> Self {
        let sides = [0_usize, 1].map(|at| {
            let mut config = Config::default();
            config.limits.packet_bytes_max = DATAGRAM_BYTES_MAX - festina_secure::OVERHEAD_BYTES;
            let context = Context::new(config, [at as u8 + 1; 16]).unwrap();
            let protocols = match (kind, at) {
                (Kind::Plain, _) | (Kind::PlainToBoth, 0) => Protocols::Plain,
                (Kind::Encrypted, _) | (Kind::EncryptedToBoth, 0) => Protocols::Encrypted,
                _ => Protocols::Both,
            };
            let listener = (protocols != Protocols::Plain).then(|| {
                Listener::new(&context, Arc::clone(&tls().1), [at as u8; 32], HalfOpenLimits::default()).unwrap()
            });
            let cpu_time = || Duration::ZERO;
            let mut endpoint = Endpoint::new(Setup { context, protocols, listener, secret: [3; 16], cpu_time });
            endpoint.listen(PORT).unwrap();
            Side {
                endpoint,
                associations: Vec::new(),
                delivered: BTreeMap::new(),
                sent: 0,
                arriving: VecDeque::new(),
                strangers: BTreeMap::new(),
            }
        });
        Self { kind, now: Instant::from_secs(3_600), begun: 0, sides }
    }

    fn begin(&mut self) {
        if self.begun >= ASSOCIATIONS_MAX {
            return;
        }
        self.begun += 1;
        let ports = Ports { local: 6_000 + self.begun, peer: PORT };
        let client = &mut self.sides[0];
        let begun = match self.kind {
            Kind::Plain | Kind::PlainToBoth => {
                client.endpoint.connect_plain(self.now, address(1), ports, self.begun.into())
            }
            Kind::Encrypted | Kind::EncryptedToBoth => {
                let server_name = ServerName::try_from("fuzz.test").unwrap();
                let random = [self.begun as u8; 16];
                let request = Connect {
                    tls: &tls().0,
                    resumption: None,
                    server_name,
                    remote: address(1),
                    ports,
                    token: &[],
                    random,
                    known: None,
                };
                client.endpoint.connect(self.now, request)
            }
        };
        client.associations.push(begun.unwrap());
        self.drain(0);
    }

    fn arrive(&mut self, at: usize, from: SocketAddr, bytes: &[u8]) {
        if from != address(1 - at) {
            self.sides[at].strangers.entry(from).or_default()[0] += bytes.len();
        }
        let packet = BytesMut::from(bytes);
        let datagram = Datagram { from, source: None, ecn: EcnCodepoint::NotCapable, packet };
        self.sides[at].endpoint.handle_datagram(self.now, datagram);
        self.drain(at);
    }

    /// Takes all that a side has to send and to tell.
    fn drain(&mut self, at: usize) {
        let mut released = 0;
        loop {
            let mut bytes = Vec::new();
            if let Some((transmit, _)) = self.sides[at].endpoint.poll_transmit(self.now, &mut bytes) {
                released += 1;
                assert!(released <= BURST_MAX, "a burst");
                assert!(transmit.len == bytes.len() && bytes.len() <= DATAGRAM_BYTES_MAX, "{} bytes", bytes.len());
                if transmit.destination == address(1 - at) {
                    self.sides[1 - at].arriving.push_back(bytes);
                } else {
                    let [from, to] = self.sides[at].strangers.entry(transmit.destination).or_default();
                    *to += bytes.len();
                    assert!(*to <= 3 * *from, "{to} bytes for {from} of {}", transmit.destination);
                }
                continue;
            }
            let Side { endpoint, associations, delivered, .. } = &mut self.sides[at];
            while let Some(id) = endpoint.accept(PORT) {
                associations.push(id);
            }
            let mut is_quiet = true;
            while let Some(event) = endpoint.poll_event() {
                is_quiet = false;
                let EndpointEvent::Ended { association, messages, .. } = event else { continue };
                for message in messages {
                    let is_new = delivered.entry(association).or_default().insert(message.payload().to_vec());
                    assert!(is_new, "a message came twice");
                }
            }
            for id in &*associations {
                while let Some(message) = endpoint.poll_message(*id) {
                    is_quiet = false;
                    assert!(
                        delivered.entry(*id).or_default().insert(message.payload().to_vec()),
                        "a message came twice"
                    );
                }
            }
            if is_quiet {
                return;
            }
        }
    }

    /// Lets this much time pass, with the timers of both sides.
    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let due = self.sides.each_ref().map(|side| side.endpoint.poll_deadline(self.now));
            let next = Instant::earliest(due).filter(|at| *at <= end);
            self.now = next.unwrap_or(end).max(self.now);
            for at in 0..2 {
                let mut turns = 0;
                while self.sides[at].endpoint.poll_deadline(self.now).is_some_and(|due| due <= self.now) {
                    turns += 1;
                    assert!(turns <= TURNS_MAX, "a timer that was handled is still due");
                    self.sides[at].endpoint.handle_timeout(self.now);
                    self.drain(at);
                }
            }
            if next.is_none() {
                return;
            }
        }
    }

    fn run(&mut self, operation: Operation) {
        match operation {
            Operation::Begin => self.begin(),
            Operation::Send { association, is_answer } => {
                let side = &mut self.sides[usize::from(is_answer)];
                let Some(id) = pick(&side.associations, association) else { return };
                side.sent += 1;
                let message = Message::new(side.sent.to_be_bytes().to_vec());
                let now = self.now;
                side.endpoint.change(id, |core| core.send(now, message).is_ok());
                self.drain(usize::from(is_answer));
            }
            Operation::Deliver { to_server, times } => {
                let at = usize::from(to_server);
                let Some(bytes) = self.sides[at].arriving.pop_front() else { return };
                for _ in 0..=times % 3 {
                    self.arrive(at, address(1 - at), &bytes);
                }
            }
            Operation::Lose { to_server } => drop(self.sides[usize::from(to_server)].arriving.pop_front()),
            Operation::Change { to_server, at: place, mask } => {
                let at = usize::from(to_server);
                let Some(mut bytes) = self.sides[at].arriving.front().cloned() else { return };
                let place = usize::from(place) % bytes.len();
                bytes[place] ^= mask;
                self.arrive(at, address(1 - at), &bytes);
            }
            Operation::Copy { to_server, host } => {
                let at = usize::from(to_server);
                let Some(bytes) = self.sides[at].arriving.front().cloned() else { return };
                self.arrive(at, stranger(host), &bytes);
            }
            Operation::Invent { to_server, host, bytes } => {
                let at = usize::from(to_server);
                self.arrive(at, host.map_or(address(1 - at), stranger), &bytes);
            }
            Operation::Wait { milliseconds } => self.wait(Duration::from_millis(milliseconds.into())),
            Operation::Shutdown { association, by_server } => {
                let side = &mut self.sides[usize::from(by_server)];
                let Some(id) = pick(&side.associations, association) else { return };
                let now = self.now;
                side.endpoint.change(id, |core| core.shutdown(now));
                self.drain(usize::from(by_server));
            }
        }
    }

    /// Ends both sides.
    fn end(&mut self) {
        for at in 0..2 {
            self.sides[at].endpoint.end(self.now);
            self.drain(at);
        }
        self.wait(Duration::from_secs(600));
        for side in &self.sides {
            assert!(side.endpoint.is_empty(), "{} associations are left", side.endpoint.len());
            assert_eq!(side.endpoint.poll_deadline(self.now), None, "an empty endpoint waits for nothing");
        }
    }
}

fn pick(associations: &[AssociationId], number: u8) -> Option<AssociationId> {
    associations.get(usize::from(number) % associations.len().max(1)).copied()
}

/// Runs one input.
///
/// # Panics
/// If it breaks an invariant.
pub fn run(data: &[u8]) {
    let Some(plan) = read::<Plan>(data) else { return };
    let mut world = World::new(plan.kind);
    world.begin();
    for operation in plan.operations.into_iter().take(OPERATIONS_MAX) {
        world.run(operation);
    }
    world.end();
}
