//! A client and a server without a network.

use bytes::BytesMut;
use festina_secure::HalfOpenLimits;
use festina_units::EcnCodepoint;
use rustls::{ClientConfig, ServerConfig};

use super::super::*;
use crate::handshakes::tests::{PORT, configs};

pub(super) const CLIENT: &str = "10.0.0.2:9899";
pub(super) const SERVER: &str = "10.0.0.1:9899";
/// Turns within which all must come to rest.
pub(super) const TURNS_MAX: usize = 10_000;

pub(super) fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

pub(super) fn endpoint(
    protocols: Protocols,
    admission: &sctp::Admission,
    secret: u8,
    tls: Option<Arc<ServerConfig>>,
) -> Endpoint {
    let config = sctp::Config { admission: admission.clone(), ..sctp::Config::default() };
    let context = sctp::Context::new(config, [secret; 16]).unwrap();
    let listener = tls.map(|tls| {
        let listener = festina_secure::Listener::new(&context, tls, [secret; 32], HalfOpenLimits::default()).unwrap();
        let provider = rustls::crypto::ring::default_provider();
        let key = festina_secure::reset::ResetKey::new(&provider, b"a key", address(SERVER)).unwrap();
        listener.with_resets(key)
    });
    Endpoint::new(Setup { context, protocols, listener, secret: [secret; 16], cpu_time: || Duration::ZERO })
}

pub(super) fn give(now: Instant, to: &mut Endpoint, from: SocketAddr, bytes: &[u8]) {
    let packet = BytesMut::from(bytes);
    to.handle_datagram(now, Datagram { from, source: None, ecn: EcnCodepoint::NotCapable, packet });
}

pub(super) fn take(now: Instant, from: &mut Endpoint) -> Vec<(SocketAddr, Vec<u8>)> {
    let next = || {
        let mut bytes = Vec::new();
        let (transmit, _) = from.poll_transmit(now, &mut bytes)?;
        Some((transmit.destination, bytes))
    };
    std::iter::from_fn(next).collect()
}

/// A client and a server.
pub(super) struct World {
    pub(super) now: Instant,
    pub(super) ends: [Endpoint; 2],
    pub(super) events: [Vec<EndpointEvent>; 2],
    pub(super) tls: Option<Arc<ClientConfig>>,
    pub(super) begun: u64,
}

impl World {
    pub(super) fn new(is_encrypted: bool) -> Self {
        Self::with(is_encrypted, &sctp::Admission::default())
    }

    pub(super) fn with(is_encrypted: bool, admission: &sctp::Admission) -> Self {
        let protocols = if is_encrypted { Protocols::Encrypted } else { Protocols::Plain };
        let (client, server) = configs();
        let mut server = endpoint(protocols, admission, 1, is_encrypted.then_some(server));
        server.listen(PORT).unwrap();
        let ends = [endpoint(protocols, admission, 2, None), server];
        let (events, tls) = ([Vec::new(), Vec::new()], is_encrypted.then_some(client));
        Self { now: Instant::from_secs(3_600), ends, events, tls, begun: 0 }
    }

    pub(super) fn connect(&mut self, local: u16) -> AssociationId {
        self.connect_to(SERVER, local)
    }

    pub(super) fn connect_to(&mut self, remote: &str, local: u16) -> AssociationId {
        self.try_connect(remote, Ports { local, peer: PORT }).unwrap()
    }

    pub(super) fn try_connect(&mut self, remote: &str, ports: Ports) -> Result<AssociationId, BeginError> {
        self.begun += 1;
        let remote = address(remote);
        match &self.tls {
            None => self.ends[0].connect_plain(self.now, remote, ports, self.begun),
            Some(tls) => {
                let mut random = [7; 16];
                random[..8].copy_from_slice(&self.begun.to_be_bytes());
                random[8..].copy_from_slice(&(self.begun + 1_000_000).to_be_bytes());
                let server_name = "server.test".try_into().unwrap();
                let request =
                    Connect { tls, resumption: None, server_name, remote, ports, token: &[], random, known: None };
                self.ends[0].connect(self.now, request)
            }
        }
    }

    /// The next datagrams of a side.
    pub(super) fn take(&mut self, side: usize) -> Vec<Vec<u8>> {
        let taken = take(self.now, &mut self.ends[side]).into_iter().map(|(_, bytes)| bytes).collect();
        self.events[side].extend(std::iter::from_fn(|| self.ends[side].poll_event()));
        taken
    }

    /// A datagram of the other side arrives.
    pub(super) fn give(&mut self, side: usize, bytes: &[u8]) {
        give(self.now, &mut self.ends[side], address([SERVER, CLIENT][side]), bytes);
    }

    /// Carries all datagrams until both sides are silent.
    pub(super) fn carry(&mut self) {
        for _ in 0..TURNS_MAX {
            let packets = [0, 1].map(|side| self.take(side));
            let is_due = |end: &Endpoint| end.poll_deadline(self.now).is_some_and(|at| at <= self.now);
            let due = [is_due(&self.ends[0]), is_due(&self.ends[1])];
            if packets.iter().all(Vec::is_empty) && due == [false; 2] {
                return;
            }
            for side in [0, 1] {
                packets[1 - side].iter().for_each(|packet| self.give(side, packet));
                if due[side] {
                    self.ends[side].handle_timeout(self.now);
                }
            }
        }
        panic!("the endpoints never come to rest");
    }

    /// Lets time pass. Returns how often a timer was due.
    pub(super) fn pass(&mut self, time: Duration) -> usize {
        let until = self.now + time;
        for turn in 0..TURNS_MAX {
            self.carry();
            let deadlines = [0, 1].map(|side| self.ends[side].poll_deadline(self.now));
            let Some(next) = Instant::earliest(deadlines).filter(|next| *next <= until) else {
                self.now = until;
                return turn;
            };
            assert!(next > self.now, "a timer is always due");
            self.now = next;
            for side in [0, 1] {
                if deadlines[side].is_some_and(|at| at <= next) {
                    self.ends[side].handle_timeout(next);
                }
            }
        }
        panic!("timers are due again and again");
    }

    pub(super) fn send(&mut self, side: usize, id: AssociationId, text: &'static str) {
        let now = self.now;
        self.ends[side].change(id, |core| core.send(now, Message::new(text)).unwrap()).unwrap();
    }

    /// The text of the next message.
    pub(super) fn message(&mut self, side: usize, id: AssociationId) -> Option<String> {
        let message = self.ends[side].poll_message(id)?;
        Some(String::from_utf8(message.payload().to_vec()).unwrap())
    }

    pub(super) fn accepted(&self) -> Vec<AssociationId> {
        let accepted = self.events[1].iter().filter_map(|event| match event {
            EndpointEvent::Accepted(id) => Some(*id),
            _ => None,
        });
        accepted.collect()
    }

    pub(super) fn ended(&self, side: usize) -> Vec<AssociationId> {
        let ended = self.events[side].iter().filter_map(|event| match event {
            EndpointEvent::Ended { association, .. } => Some(*association),
            _ => None,
        });
        ended.collect()
    }

    /// A client that the server has accepted, as both sides name it.
    pub(super) fn pair(&mut self, local: u16) -> [AssociationId; 2] {
        let near = self.connect(local);
        self.carry();
        let far = self.ends[1].accept(PORT).unwrap();
        assert!(self.accepted().contains(&far));
        [near, far]
    }

    /// Both sides talk to each other.
    pub(super) fn talk(&mut self, [near, far]: [AssociationId; 2]) {
        self.send(0, near, "there");
        self.send(1, far, "and back");
        self.pass(Duration::from_secs(5));
        assert_eq!(self.message(1, far).as_deref(), Some("there"));
        assert_eq!(self.message(0, near).as_deref(), Some("and back"));
    }

    pub(super) fn is_empty(&self, side: usize) -> bool {
        let Endpoint { house, .. } = &self.ends[side];
        house.residents.is_empty() && house.deadlines.is_empty() && house.demux.all().is_empty()
    }

    pub(super) fn assert_forgotten(&mut self) {
        for side in [0, 1] {
            assert!(self.is_empty(side), "side {side}: {} associations", self.ends[side].house.residents.len());
            assert_eq!(self.ends[side].poll_deadline(self.now), None, "side {side}");
        }
    }
}
