//! Opens packets of both directions with the secrets of a key log, for analysers of captures.
//!
//! A [`Reader`] follows all associations of a capture whose handshake it has seen: the hello connects their packets with their secrets.

mod key_log;
mod keys;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

pub use rustls::Side;

use crate::channel::spare_in;
use crate::messages;
use crate::parameters::{FURTHER_IDS_MAX, Parameters, read_ids};
use crate::reassembly::Reassembly;
use crate::wire::{
    ConnectionId, Frame, Frames, Header, HeaderError, LONG_HEADER_BYTES, Level, LongHeader, SHORT_HEADER_BYTES,
    read_header,
};
use key_log::{Secret, Session};
use keys::Direction;

pub use key_log::KeyLog;
pub use keys::Suites;

/// Associations that are followed at a time; of more, the one without an authentic packet for the longest is forgotten.
const CONNECTIONS_MAX: usize = 4_096;
/// Connection IDs that one association has been given for moves. Of more, the oldest is forgotten: each side uses at most three.
const SPARES_MAX: usize = 8;
/// Connection IDs of one association: the client's, the original one, one for each server association that copies of the hello begin, those for further
/// addresses of both sides, and those for moves.
const IDS_MAX: usize = 8 + 2 * FURTHER_IDS_MAX + SPARES_MAX;
/// Handshake bytes of each side that are kept: a client's hello, or the beginning of a server's answer.
const HANDSHAKE_BYTES_MAX: usize = 8 << 10;
/// Packets of one datagram that are read. Endpoints give Linux at most as many to segment.
const PACKETS_MAX: usize = 64;

/// The contents of a datagram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Seen {
    /// It does not belong to this format, or to an association whose handshake was not seen.
    Foreign,
    /// No packet in it could be decrypted, perhaps because the capture has only a part of it, or no secrets of its association are known.
    Closed,
    /// The side that sent it, and the SCTP ports of sender and receiver, which are zero if the hello did not state them.
    Opened(Side, [u16; 2]),
}

/// Opens the packets of all associations in a capture.
#[derive(Debug)]
pub struct Reader {
    suites: &'static Suites,
    keys: KeyLog,
    /// By the number of their first packet.
    connections: BTreeMap<u64, Connection>,
    /// The association of each latest packet.
    latest: BTreeMap<u64, u64>,
    /// Authentic packets so far.
    packets: u64,
    /// The association, and the side that receives packets with this ID.
    ids: BTreeMap<ConnectionId, (u64, Side)>,
}

/// One association.
#[derive(Debug)]
struct Connection {
    ids: Vec<ConnectionId>,
    /// Those of them for moves, the oldest first.
    spares: VecDeque<ConnectionId>,
    /// The number of the latest authentic packet.
    latest: u64,
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

    fn insert(&mut self, offset: u16, bytes: &[u8]) {
        if self.pending.insert(offset.into(), bytes).is_ok() {
            self.text.extend_from_slice(self.pending.read());
        }
    }
}

impl Connection {
    fn new() -> Self {
        Self {
            ids: Vec::new(),
            spares: VecDeque::new(),
            latest: 0,
            random: None,
            ports: None,
            keys: [const { [const { None }; 4] }; 2],
            hello: Some(Handshake::new()),
            answer: Some(Handshake::new()),
            inits: [Vec::new(), Vec::new()],
        }
    }

    /// Reads the frames of a packet. The first message is parsed once, when it is complete. Returns connection IDs for further addresses of the sender, and
    /// its spare.
    fn frames(&mut self, level: Level, sender: Side, payload: &[u8]) -> (Vec<ConnectionId>, Option<ConnectionId>) {
        let none = (Vec::new(), None);
        if (level, sender) == (Level::Handshake, Side::Client) {
            return Frames(payload).map_while(Result::ok).fold(none, |(further, spare), frame| match frame {
                Frame::Addresses { ids, .. } => (read_ids(ids).unwrap_or_default(), spare),
                Frame::Spare(id) => (further, Some(id)),
                _ => (further, spare),
            });
        }
        let place = match (level, sender) {
            (Level::Initial, Side::Client) => &mut self.hello,
            (Level::Handshake, Side::Server) => &mut self.answer,
            _ => return none,
        };
        let Some(handshake) = place else { return none };
        for frame in Frames(payload).map_while(Result::ok) {
            if let Frame::Fragment { offset, bytes } = frame {
                handshake.insert(offset, bytes);
            }
        }
        let text = &handshake.text;
        let parameters = match sender {
            Side::Client => {
                self.random = self.random.or_else(|| messages::client_random(text));
                messages::is_complete(text).then(|| messages::client_parameters(text))
            }
            Side::Server => messages::is_complete(text).then(|| messages::server_parameters(text)),
        };
        let Some(parameters) = parameters else { return none };
        *place = None;
        let Some(Parameters { init, ports, further_ids, spare, .. }) = parameters else { return none };
        self.inits[index(sender)] = init;
        self.ports = if sender == Side::Client { ports } else { self.ports };
        (further_ids.unwrap_or_default(), spare.map(|spare| spare.id))
    }

    fn ports(&self, sender: Side) -> [u16; 2] {
        let (client, server) = self.ports.unwrap_or_default();
        if sender == Side::Client { [client, server] } else { [server, client] }
    }
}

/// The end of a packet with a short header. A datagram that was captured before the system segments it (UDP GSO) holds several packets for the
/// same receiver.
fn short_end(bytes: &[u8], id: ConnectionId) -> usize {
    let mut behind = bytes.windows(SHORT_HEADER_BYTES).enumerate().skip(SHORT_HEADER_BYTES);
    let next = behind.find(|(_, header)| header.ends_with(&id.0) && read_header(header).is_ok());
    next.map_or(bytes.len(), |(at, _)| at)
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
        Self { suites, keys, connections: BTreeMap::new(), latest: BTreeMap::new(), packets: 0, ids: BTreeMap::new() }
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
            let header = match read_header(rest) {
                Ok(header) => header,
                // A long header without its whole packet: the capture has only the beginning.
                Err(HeaderError::Truncated) if seen == Seen::Foreign && rest.len() >= LONG_HEADER_BYTES => {
                    return Seen::Closed;
                }
                Err(_) => break,
            };
            let end = match header {
                Header::Long(LongHeader { length, .. }) => LONG_HEADER_BYTES + length,
                Header::Short(id) => short_end(rest, id),
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

    /// The number of the association of the latest packet that was opened: that of its first packet.
    #[must_use]
    pub fn latest_association(&self) -> Option<u64> {
        self.latest.last_key_value().map(|(_, number)| *number)
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
            && let Some((_, silent)) = self.latest.pop_first()
            && let Some(silent) = self.connections.remove(&silent)
        {
            for id in &silent.ids {
                self.ids.remove(id);
            }
        }
        let number = self.packets + 1;
        self.connections.insert(number, connection);
        self.know(number, header.destination, Side::Server);
        self.take(number, Side::Client, Header::Long(header), &payload, chunks)
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

    /// Remembers an ID that the receiver may use from a move on.
    fn know_spare(&mut self, number: u64, id: ConnectionId, receiver: Side) {
        let Some(connection) = self.connections.get_mut(&number).filter(|_| !self.ids.contains_key(&id)) else {
            return;
        };
        if connection.spares.len() >= SPARES_MAX
            && let Some(oldest) = connection.spares.pop_front()
        {
            connection.ids.retain(|id| *id != oldest);
            self.ids.remove(&oldest);
        }
        connection.spares.push_back(id);
        self.know(number, id, receiver);
    }

    /// Takes the contents of an opened packet.
    fn take(&mut self, number: u64, sender: Side, header: Header, payload: &[u8], chunks: &mut Vec<u8>) -> Seen {
        if let Header::Long(header) = header {
            self.know(number, header.source, sender);
        }
        let Some(connection) = self.connections.get_mut(&number) else { return Seen::Foreign };
        self.packets += 1;
        self.latest.remove(&connection.latest);
        self.latest.insert(self.packets, number);
        connection.latest = self.packets;
        let (further, spare) = match header {
            Header::Short(_) => {
                chunks.extend_from_slice(payload);
                (Vec::new(), spare_in(payload))
            }
            Header::Long(header) => {
                let given = connection.frames(header.level, sender, payload);
                let holds_init = match sender {
                    Side::Client => header.level == Level::Initial,
                    Side::Server => header.level == Level::Handshake,
                };
                if holds_init {
                    chunks.extend_from_slice(&connection.inits[index(sender)]);
                }
                given
            }
        };
        let ports = connection.ports(sender);
        // Anyone can open Initial packets; without secrets nothing else of the association can be read.
        let has_secrets = connection.random.is_some_and(|random| self.keys.session(&random).is_some());
        for id in further {
            self.know(number, id, sender);
        }
        if let Some(spare) = spare {
            self.know_spare(number, spare, sender);
        }
        if has_secrets {
            Seen::Opened(sender, ports)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complete_message_without_parameters_is_parsed_once() {
        let mut hello = vec![1, 0, 0, 80, 3, 3];
        hello.resize(4 + 80, 7);
        let mut payload = Vec::new();
        for (offset, bytes) in [(50, &hello[50..]), (0, &hello[..40])] {
            Frame::Fragment { offset, bytes }.write(&mut payload);
        }
        let mut connection = Connection::new();
        connection.frames(Level::Initial, Side::Client, &payload);
        assert_eq!((connection.random, connection.hello.is_some()), (Some([7; 32]), true));
        let (mut last, mut answer) = (Vec::new(), Vec::new());
        Frame::Fragment { offset: 40, bytes: &hello[40..50] }.write(&mut last);
        connection.frames(Level::Initial, Side::Client, &last);
        Frame::Fragment { offset: 0, bytes: &[8, 0, 0, 2, 0, 0] }.write(&mut answer);
        connection.frames(Level::Handshake, Side::Server, &answer);
        assert!(connection.hello.is_none() && connection.answer.is_none());
    }
}
