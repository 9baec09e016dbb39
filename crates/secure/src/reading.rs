//! Opens packets of both directions with the secrets of a key log, for analysers of captures.
//!
//! A [`Reader`] follows all associations of a capture whose handshake it has seen: the hello connects their packets with their secrets.

mod key_log;
mod keys;
mod messages;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use rustls::Side;

use crate::parameters::Parameters;
use crate::reassembly::Reassembly;
use crate::wire::{
    ConnectionId, Frame, Frames, Header, LONG_HEADER_BYTES, Level, LongHeader, SHORT_HEADER_BYTES, read_header,
};
use key_log::{Secret, Session};
use keys::Direction;

pub use key_log::KeyLog;
pub use keys::Suites;

/// Associations that are followed at a time; of more, the one that began first is forgotten.
const CONNECTIONS_MAX: usize = 4_096;
/// Connection IDs of one association: the client's, the server's and the original one.
const IDS_MAX: usize = 8;
/// Handshake bytes of each side that are kept: a client's hello, or the beginning of a server's answer.
const HANDSHAKE_BYTES_MAX: usize = 8 << 10;
/// Packets of one datagram that are read.
const PACKETS_MAX: usize = 16;

/// The contents of a datagram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Seen {
    /// It does not belong to this format, or to an association whose handshake was not seen.
    Foreign,
    /// No packet in it could be decrypted, or no secrets of its association are known.
    Closed,
    /// The side that sent it, and the SCTP ports of sender and receiver, which are zero if the hello did not state them.
    Opened(Side, [u16; 2]),
}

/// Opens the packets of all associations in a capture.
#[derive(Debug)]
pub struct Reader {
    suites: &'static Suites,
    keys: KeyLog,
    /// By the order in which they began.
    connections: BTreeMap<u64, Connection>,
    begun: u64,
    /// The association, and the side that receives packets with this ID.
    ids: BTreeMap<ConnectionId, (u64, Side)>,
}

/// One association.
#[derive(Debug)]
struct Connection {
    ids: Vec<ConnectionId>,
    random: Option<[u8; 32]>,
    ports: Option<(u16, u16)>,
    /// Keys of each level and of established associations, for packets of the client and of the server.
    keys: [[Option<Direction>; 4]; 2],
    /// Handshake bytes of the client's hello, and of the server's messages behind its hello.
    hello: Option<Handshake>,
    answer: Option<Handshake>,
    /// The INIT chunks of client and server.
    inits: [Vec<u8>; 2],
}

/// Handshake bytes in order.
#[derive(Debug)]
struct Handshake {
    pending: Reassembly,
    text: Vec<u8>,
}

impl Handshake {
    fn new() -> Self {
        Self { pending: Reassembly::new(HANDSHAKE_BYTES_MAX), text: Vec::new() }
    }

    fn insert(&mut self, offset: u16, bytes: &[u8]) -> &[u8] {
        if self.pending.insert(offset.into(), bytes).is_ok() {
            self.text.extend_from_slice(self.pending.read());
        }
        &self.text
    }
}

impl Connection {
    fn new() -> Self {
        Self {
            ids: Vec::new(),
            random: None,
            ports: None,
            keys: [const { [const { None }; 4] }; 2],
            hello: Some(Handshake::new()),
            answer: Some(Handshake::new()),
            inits: [Vec::new(), Vec::new()],
        }
    }

    /// Reads the frames of a packet.
    fn frames(&mut self, level: Level, sender: Side, payload: &[u8]) {
        for frame in Frames(payload).map_while(Result::ok) {
            let Frame::Fragment { offset, bytes } = frame else { continue };
            let parameters = match (level, sender) {
                (Level::Initial, Side::Client) => {
                    let Some(hello) = &mut self.hello else { continue };
                    let text = hello.insert(offset, bytes);
                    self.random = self.random.or_else(|| messages::client_random(text));
                    messages::client_parameters(text)
                }
                (Level::Handshake, Side::Server) => {
                    let Some(answer) = &mut self.answer else { continue };
                    messages::server_parameters(answer.insert(offset, bytes))
                }
                _ => continue,
            };
            if let Some(parameters) = parameters {
                self.learn(sender, parameters);
            }
        }
    }

    fn learn(&mut self, sender: Side, parameters: Parameters) {
        match sender {
            Side::Client => (self.hello, self.ports) = (None, parameters.ports),
            Side::Server => self.answer = None,
        }
        self.inits[index(sender)] = parameters.init;
    }

    fn ports(&self, sender: Side) -> [u16; 2] {
        let (client, server) = self.ports.unwrap_or_default();
        if sender == Side::Client { [client, server] } else { [server, client] }
    }
}

fn index(side: Side) -> usize {
    usize::from(side == Side::Server)
}

fn other(side: Side) -> Side {
    if side == Side::Client { Side::Server } else { Side::Client }
}

impl Reader {
    /// Makes a reader with these secrets.
    #[must_use]
    pub fn new(suites: &'static Suites, keys: KeyLog) -> Self {
        Self { suites, keys, connections: BTreeMap::new(), begun: 0, ids: BTreeMap::new() }
    }

    /// Adds the lines of a key log, as [`KeyLog::add`].
    pub fn add_keys(&mut self, text: &[u8]) {
        self.keys.add(text);
    }

    /// Opens a datagram and replaces `chunks` by its SCTP chunks. A packet of the handshake that holds the INIT of its sender gives this INIT.
    pub fn read(&mut self, datagram: &[u8], chunks: &mut Vec<u8>) -> Seen {
        chunks.clear();
        let (mut rest, mut seen) = (datagram, Seen::Foreign);
        for _ in 0..PACKETS_MAX {
            let Ok(header) = read_header(rest) else { break };
            let end = match header {
                Header::Long(LongHeader { length, .. }) => LONG_HEADER_BYTES + length,
                Header::Short(_) => rest.len(),
            };
            let Some((packet, behind)) = rest.split_at_checked(end) else { break };
            rest = behind;
            let opened = self.packet(header, packet, chunks);
            seen = match (seen, opened) {
                (Seen::Opened(..), _) => seen,
                (_, Seen::Foreign) if seen == Seen::Closed => seen,
                _ => opened,
            };
        }
        seen
    }

    fn packet(&mut self, header: Header, packet: &[u8], chunks: &mut Vec<u8>) -> Seen {
        let (number, sender) = match header {
            Header::Short(destination) => match self.ids.get(&destination) {
                Some((number, receiver)) => (*number, other(*receiver)),
                None => return Seen::Foreign,
            },
            Header::Long(header) => match self.find(header) {
                Some(found) => found,
                None if header.level == Level::Initial => return self.begin(header, packet, chunks),
                None => return Seen::Closed,
            },
        };
        let Some(connection) = self.connections.get_mut(&number) else { return Seen::Foreign };
        let session = connection.random.and_then(|random| self.keys.session(&random));
        let opened = open(self.suites, session, connection, sender, header, packet);
        let Some(payload) = opened else { return Seen::Closed };
        self.take(number, sender, header, &payload, chunks)
    }

    /// The association of a packet with a long header, and its sender.
    fn find(&self, header: LongHeader) -> Option<(u64, Side)> {
        let to = self.ids.get(&header.destination).map(|(number, receiver)| (*number, other(*receiver)));
        to.or_else(|| self.ids.get(&header.source).copied().filter(|_| header.level != Level::Early))
    }

    /// Begins an association if the packet is a client's first.
    fn begin(&mut self, header: LongHeader, packet: &[u8], chunks: &mut Vec<u8>) -> Seen {
        let mut connection = Connection::new();
        connection.keys = self.suites.initial(header.destination).map(|keys| [Some(keys), None, None, None]);
        let opened = open(self.suites, None, &mut connection, Side::Client, Header::Long(header), packet);
        let Some(payload) = opened else { return Seen::Closed };
        if self.connections.len() >= CONNECTIONS_MAX
            && let Some((_, oldest)) = self.connections.pop_first()
        {
            for id in &oldest.ids {
                self.ids.remove(id);
            }
        }
        self.begun += 1;
        self.connections.insert(self.begun, connection);
        self.know(self.begun, header.destination, Side::Server);
        self.take(self.begun, Side::Client, Header::Long(header), &payload, chunks)
    }

    /// Remembers an ID unless it belongs to another association.
    fn know(&mut self, number: u64, id: ConnectionId, receiver: Side) {
        if let (Some(connection), Entry::Vacant(place)) = (self.connections.get_mut(&number), self.ids.entry(id))
            && connection.ids.len() < IDS_MAX
        {
            place.insert((number, receiver));
            connection.ids.push(id);
        }
    }

    /// Takes the contents of an opened packet.
    fn take(&mut self, number: u64, sender: Side, header: Header, payload: &[u8], chunks: &mut Vec<u8>) -> Seen {
        if let Header::Long(header) = header {
            self.know(number, header.source, sender);
        }
        let Some(connection) = self.connections.get_mut(&number) else { return Seen::Foreign };
        match header {
            Header::Short(_) => chunks.extend_from_slice(payload),
            Header::Long(header) => {
                connection.frames(header.level, sender, payload);
                let holds_init = match sender {
                    Side::Client => header.level == Level::Initial,
                    Side::Server => header.level == Level::Handshake,
                };
                if holds_init {
                    chunks.extend_from_slice(&connection.inits[index(sender)]);
                }
            }
        }
        // Anyone can open Initial packets; without secrets nothing else of the association can be read.
        if connection.random.is_some_and(|random| self.keys.session(&random).is_some()) {
            Seen::Opened(sender, connection.ports(sender))
        } else {
            chunks.clear();
            Seen::Closed
        }
    }
}

/// Decrypts a packet. Keys that were not used before are made of the session's secrets.
fn open(
    suites: &Suites,
    session: Option<&Session>,
    connection: &mut Connection,
    sender: Side,
    header: Header,
    packet: &[u8],
) -> Option<Vec<u8>> {
    let (slot, number_at, secret) = match (header, sender) {
        (Header::Long(LongHeader { level: Level::Initial, .. }), _) => (0, LONG_HEADER_BYTES, None),
        (Header::Long(LongHeader { level: Level::Early, .. }), Side::Client) => {
            (1, LONG_HEADER_BYTES, Some(Secret::Early))
        }
        (Header::Long(LongHeader { level: Level::Early, .. }), Side::Server) => return None,
        (Header::Long(_), Side::Client) => (2, LONG_HEADER_BYTES, Some(Secret::ClientHandshake)),
        (Header::Long(_), Side::Server) => (2, LONG_HEADER_BYTES, Some(Secret::ServerHandshake)),
        (Header::Short(_), Side::Client) => (3, SHORT_HEADER_BYTES, Some(Secret::ClientTraffic)),
        (Header::Short(_), Side::Server) => (3, SHORT_HEADER_BYTES, Some(Secret::ServerTraffic)),
    };
    let keys = &mut connection.keys[index(sender)][slot];
    if let Some(keys) = keys {
        return keys.open(packet, number_at);
    }
    let secret = session?.get(secret?)?;
    for mut candidate in suites.candidates(secret) {
        if let Some(payload) = candidate.open(packet, number_at) {
            *keys = Some(candidate);
            return Some(payload);
        }
    }
    None
}
