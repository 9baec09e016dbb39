//! Arrival times from a capture at the receiver, on the clock of the capture at the sender.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::io::Read;
use std::ops::Range;

use festina_units::Instant;

use super::estimate::Unwrap;
use super::headers::{Sctp, Tcp};
use super::homes::Homes;
use super::opening::{Opening, first_number};
use super::packet::{Content, Key, Parsed, parse};
use crate::dissect::{Decryption, Dissected, Dissector};
use crate::error::ReadError;
use crate::read::{CapturedPacket, PacketReader};

/// Maximum number of parts with data and of acknowledgements, of all streams together, which take less than a gigabyte.
const ENTRIES_MAX: usize = 1 << 23;
/// A stream takes as much memory as this many of them.
const STREAM_ENTRIES: usize = 16;
/// Maximum number of connections without data whose first numbers are known. Beyond it all of these are forgotten: data then
/// shows which connection it is.
const OPENINGS_MAX: usize = 1 << 16;
/// A connection of the sender's capture is searched for among this many of the receiver's, between the same ends.
const SEARCHED_MAX: usize = 1_024;

/// The contents of a capture at the receiver.
///
/// ```no_run
/// use std::fs::File;
/// use festina_trace::{Analyser, ReceiverSide};
///
/// let mut receiver = ReceiverSide::read(File::open("receiver.pcap")?)?;
/// receiver.align(File::open("sender.pcap")?)?;
/// let analyser = Analyser::default().with_receiver(receiver);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct ReceiverSide {
    decryption: Option<Decryption>,
    connections: HashMap<Key, VecDeque<Connection>>,
    /// The latest connections, if they have no data yet.
    openings: HashMap<Key, Opening>,
    entries: usize,
}

/// One of the successive connections between the same ends.
#[derive(Debug)]
struct Connection {
    opening: Opening,
    streams: [Option<Box<Arrivals>>; 2],
    /// The numbers of its packets in the sender's capture, which also holds packets of others.
    packets: Option<Range<u64>>,
}

/// The latest connection between two ends in the sender's capture.
#[derive(Debug)]
struct Followed {
    opening: Opening,
    first_packet: u64,
    /// Where it is among the receiver's connections.
    index: Option<usize>,
    /// Those of them before this one are over.
    next: usize,
}

/// The arrived and acknowledged data of one stream.
#[derive(Debug, Default)]
struct Arrivals {
    unwrap: Unwrap,
    parts: Vec<Arrival>,
    /// When a part that begins with this number first arrived, and when an acknowledgement up to this number was first
    /// sent.
    first_arrival: HashMap<u32, Instant>,
    first_ack: HashMap<u32, Instant>,
    /// Differences of the clocks seen with data and with acknowledgements: receiver less sender, sender less receiver.
    data_ns: Vec<i64>,
    acks_ns: Vec<i64>,
    /// The end of the data in the sender's capture. Data that begins below was sent before, so it gives no information
    /// about the clocks.
    sent: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Arrival {
    start: u64,
    end: u64,
    at: Instant,
    /// Of SCTP: the stream within the association.
    ordered_in: Option<u16>,
}

impl ReceiverSide {
    /// Reads a capture that was made at the receiver.
    ///
    /// # Errors
    /// If the capture cannot be read to its end, or has more than eight million packets with data or acknowledgements. Each
    /// stream counts as 16 of them.
    pub fn read(source: impl Read) -> Result<Self, ReadError> {
        let mut side = Self::default();
        side.read_all(source)?;
        Ok(side)
    }

    /// As [`read`](Self::read), and decrypts associations in both captures. If the capture is damaged, everything before the
    /// damage is returned with the error.
    pub fn read_decrypting(source: impl Read, decryption: Decryption) -> (Self, Result<(), ReadError>) {
        let mut side = Self { decryption: Some(decryption), ..Self::default() };
        let result = side.read_all(source);
        (side, result)
    }

    fn read_all(&mut self, source: impl Read) -> Result<(), ReadError> {
        walk(source, self.decryption.clone(), |packet, parsed| self.add(packet.at, parsed))
    }

    /// Finds the connections of the capture that was made at the sender, and compares the clocks with it: the smallest delays
    /// of both directions are assumed to be equal. If there are many, the third percentile is used, because packets missing in
    /// one capture make others look faster than they were.
    ///
    /// # Errors
    /// If the capture cannot be read to its end.
    pub fn align(&mut self, sender: impl Read) -> Result<(), ReadError> {
        let mut followed = HashMap::new();
        let result = walk(sender, self.decryption.clone(), |packet, parsed| {
            self.compare(&mut followed, packet, parsed);
            Ok(())
        });
        for connections in self.connections.values_mut() {
            connections.retain(|connection| connection.packets.is_some());
        }
        result
    }

    fn add(&mut self, at: Instant, parsed: &Parsed<'_>) -> Result<(), ReadError> {
        let Parsed { key, from, ref content, .. } = *parsed;
        self.open(key, from, content);
        for (start, end, ordered_in) in parts(content) {
            let stream = self.stream(key, from);
            let from = stream.unwrap.see(start);
            let to = from + u64::from(end.wrapping_sub(start));
            let is_new = match stream.first_arrival.entry(start) {
                Entry::Vacant(vacant) => {
                    vacant.insert(at);
                    true
                }
                Entry::Occupied(_) => stream.parts.last().is_some_and(|last| to > last.end),
            };
            if is_new {
                stream.parts.push(Arrival { start: from, end: to, at, ordered_in });
                self.entries += 1;
            }
        }
        let latest = self.connections.get_mut(&key).and_then(VecDeque::back_mut);
        if let (Some(through), Some(stream)) =
            (acknowledged(content), latest.and_then(|l| l.streams[1 - from].as_mut()))
            && let Entry::Vacant(vacant) = stream.first_ack.entry(through)
        {
            vacant.insert(at);
            self.entries += 1;
        }
        if self.entries > ENTRIES_MAX {
            return Err(ReadError::TooMuch { what: "packets with data or acknowledgements", max: ENTRIES_MAX });
        }
        Ok(())
    }

    /// Handles a packet that opens or accepts a connection. Without data it takes no more memory than the list of openings.
    fn open(&mut self, key: Key, from: usize, content: &Content<'_>) {
        if first_number(content).is_none() {
            return;
        }
        let latest = self.connections.get_mut(&key).and_then(VecDeque::back_mut).map(|latest| &mut latest.opening);
        match self.openings.get_mut(&key).or(latest).filter(|latest| !latest.is_ended_by(from, content)) {
            Some(latest) => latest.hear(from, content),
            None => {
                let mut opening = Opening::default();
                opening.hear(from, content);
                if self.openings.len() >= OPENINGS_MAX {
                    self.openings.clear();
                }
                self.openings.insert(key, opening);
            }
        }
    }

    /// Returns the stream of the latest connection.
    fn stream(&mut self, key: Key, from: usize) -> &mut Arrivals {
        let opening = self.openings.remove(&key);
        let connections = self.connections.entry(key).or_default();
        if opening.is_some() || connections.is_empty() {
            let opening = opening.unwrap_or_default();
            connections.push_back(Connection { opening, streams: [None, None], packets: None });
        }
        let latest = connections.back_mut().expect("there is one now");
        latest.opening.has_data[from] = true;
        latest.streams[from].get_or_insert_with(|| {
            self.entries += STREAM_ENTRIES;
            Box::default()
        })
    }

    fn compare(&mut self, followed: &mut HashMap<Key, Followed>, packet: &CapturedPacket<'_>, parsed: &Parsed<'_>) {
        let Parsed { key, from, ref content, .. } = *parsed;
        let Some(connections) = self.connections.get_mut(&key) else { return };
        let sender = followed.entry(key).or_insert_with(|| Followed::new(packet.number, 0));
        if sender.opening.is_ended_by(from, content) {
            let before = sender.index.and_then(|index| connections.get_mut(index));
            if let Some(packets) = before.and_then(|before| before.packets.as_mut()) {
                packets.end = packet.number;
            }
            *sender = Followed::new(packet.number, sender.next);
        }
        sender.opening.hear(from, content);
        sender.opening.has_data[from] |= parts(content).next().is_some();
        if let Some(connection) = sender.find(connections, from, content) {
            connection.compare(packet.at, from, content);
        }
    }

    /// Returns when each part of a stream was delivered, whose first packet has this number in the sender's capture. Those of
    /// connections before are dropped.
    pub(super) fn take(&mut self, key: Key, from: usize, packet: u64) -> Option<Deliveries> {
        let connections = self.connections.get_mut(&key)?;
        while connections.front()?.packets.as_ref()?.end <= packet {
            connections.pop_front();
        }
        let first =
            connections.front_mut().filter(|first| first.packets.as_ref().is_some_and(|p| p.contains(&packet)))?;
        let stream = first.streams[from].take()?;
        let offset_ns = (least(&stream.data_ns)? - least(&stream.acks_ns)?) / 2;
        let parts = stream.in_order(offset_ns);
        Some(Deliveries { unwrap: Unwrap::at(parts.first()?.end), parts })
    }
}

impl Followed {
    fn new(first_packet: u64, next: usize) -> Self {
        Self { opening: Opening::default(), first_packet, index: None, next }
    }

    /// Returns the same connection of the receiver's: with the same first number or, if numbers are unknown, with the same
    /// data.
    fn find<'c>(
        &mut self,
        connections: &'c mut VecDeque<Connection>,
        from: usize,
        content: &Content<'_>,
    ) -> Option<&'c mut Connection> {
        if self.index.is_none() {
            let searched = self.next..connections.len().min(self.next.saturating_add(SEARCHED_MAX));
            let pairs = |connection: &Connection| {
                let [ours, theirs] = [self.opening.initial, connection.opening.initial];
                [0, 1].map(|end| ours[end].zip(theirs[end]))
            };
            let is_same = |connection: &Connection| pairs(connection).into_iter().flatten().any(|(a, b)| a == b);
            let has_data = |connection: &Connection| {
                let arrived = connection.streams[from].as_ref().map(|stream| &stream.first_arrival);
                pairs(connection).into_iter().flatten().all(|(a, b)| a == b)
                    && parts(content).any(|(start, ..)| arrived.is_some_and(|arrived| arrived.contains_key(&start)))
            };
            let found = connections.range(searched.clone()).position(is_same);
            let found = found.or_else(|| connections.range(searched).position(has_data));
            self.index = Some(self.next + found?);
            self.next += found? + 1;
            let connection = connections.get_mut(self.next - 1)?;
            connection.packets = Some(self.first_packet..u64::MAX);
        }
        connections.get_mut(self.index?)
    }
}

impl Connection {
    /// Compares the clocks by a packet in the sender's capture.
    fn compare(&mut self, at: Instant, from: usize, content: &Content<'_>) {
        let difference =
            |later: Instant, earlier: Instant| later.as_nanos().wrapping_sub(earlier.as_nanos()).cast_signed();
        if let Some(stream) = &mut self.streams[from] {
            // Lower data in the same packet may be a later copy.
            let highest = parts(content).reduce(|a, b| if b.1.wrapping_sub(a.1).cast_signed() > 0 { b } else { a });
            let new = highest
                .filter(|(start, ..)| stream.sent.is_none_or(|sent| start.wrapping_sub(sent).cast_signed() >= 0));
            if let Some((start, end, _)) = new {
                // The first may be a later copy itself.
                let is_first = stream.sent.replace(end).is_none();
                if !is_first && let Some(arrived) = stream.first_arrival.remove(&start) {
                    stream.data_ns.push(difference(arrived, at));
                }
            }
        }
        if let (Some(through), Some(stream)) = (acknowledged(content), &mut self.streams[1 - from])
            && let Some(left) = stream.first_ack.remove(&through)
        {
            stream.acks_ns.push(difference(at, left));
        }
    }
}

/// Returns the third percentile, or the smallest of few.
fn least(differences_ns: &[i64]) -> Option<i128> {
    let mut sorted = differences_ns.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() * 3 / 100).copied().map(i128::from)
}

impl Arrivals {
    /// Returns the parts in order, each with the time at which it and all data before it, in SCTP of the same stream, had
    /// arrived.
    fn in_order(self, offset_ns: i128) -> Vec<Delivered> {
        let mut parts = self.parts;
        parts.sort_by_key(|part| (part.end, part.at));
        // A later part may contain an earlier one.
        let mut from = u64::MAX;
        for part in parts.iter_mut().rev() {
            from = from.min(part.start);
            part.start = from;
        }
        parts.dedup_by_key(|part| part.end);
        let shift = |at: Instant| {
            let ns = (i128::from(at.as_nanos()) - offset_ns).clamp(0, i128::from(u64::MAX));
            Instant::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
        };
        let mut latest: HashMap<Option<u16>, Instant> = HashMap::new();
        let in_order = |part: &Arrival| {
            let is_alone = part.ordered_in.is_none() && part.end - part.start == 1;
            let latest = latest.entry(part.ordered_in).or_insert(part.at);
            *latest = if is_alone { part.at } else { part.at.max(*latest) };
            Delivered { from: part.start, end: part.end, at: shift(*latest) }
        };
        parts.iter().map(in_order).collect()
    }
}

/// A part of a stream, and when it was delivered.
#[derive(Clone, Copy, Debug)]
struct Delivered {
    from: u64,
    end: u64,
    at: Instant,
}

/// When the parts of one stream were delivered.
#[derive(Debug)]
pub(super) struct Deliveries {
    parts: Vec<Delivered>,
    unwrap: Unwrap,
}

impl Deliveries {
    /// When all up to `end` was delivered; `None` if the capture does not contain the data before it.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the other capture may have begun elsewhere: the low half is common"
    )]
    pub(super) fn of(&mut self, end: u64) -> Option<Instant> {
        let end = self.unwrap.near(end as u32)?;
        let index = self.parts.partition_point(|part| part.end < end);
        let &Delivered { end: known, at, .. } = self.parts.get(index).filter(|part| part.from < end)?;
        self.unwrap.see(known as u32);
        Some(at)
    }
}

/// Gives every packet of a conversation to `each`.
fn walk(
    source: impl Read,
    decryption: Option<Decryption>,
    mut each: impl FnMut(&CapturedPacket<'_>, &Parsed<'_>) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let mut reader = PacketReader::new(source)?;
    let mut scratch = Sctp::default();
    let mut dissector = Dissector::with_decryption(decryption);
    let mut homes = Homes::default();
    while let Some(packet) = reader.next_packet()? {
        if let Dissected::Transport(transport) = dissector.dissect(&packet)
            && let Some(mut parsed) = parse(&transport, &mut scratch)
        {
            homes.resolve(&mut parsed);
            each(&packet, &parsed)?;
        }
    }
    dissector.link_error()
}

/// Returns the start and end of each part with data, and its stream in SCTP.
fn parts<'c>(content: &'c Content<'_>) -> impl Iterator<Item = (u32, u32, Option<u16>)> + 'c {
    let tcp = match content {
        Content::Tcp(tcp) if tcp.payload_bytes > 0 && !tcp.is_syn && !tcp.is_rst => {
            Some((tcp.sequence, tcp.sequence.wrapping_add(tcp.payload_bytes), Some(0)))
        }
        _ => None,
    };
    let chunks = match content {
        Content::Sctp(sctp) => sctp.data.as_slice(),
        _ => &[],
    };
    tcp.into_iter().chain(chunks.iter().map(|data| (data.tsn, data.tsn.wrapping_add(1), data.ordered_in)))
}

/// Returns the number up to which data is acknowledged, exclusive.
fn acknowledged(content: &Content<'_>) -> Option<u32> {
    match content {
        Content::Tcp(Tcp { ack, .. }) => *ack,
        Content::Sctp(sctp) => sctp.sack.as_ref().map(|sack| sack.cumulative.wrapping_add(1)),
        Content::Udp { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::{PcapngWriter, TcpSegment, encapsulate_tcp};

    #[test]
    fn data_and_acknowledgements_count_once_and_a_stream_as_sixteen() {
        let [client, server] = [1, 2].map(|host| SocketAddr::from(([10, 0, 0, host], 80)));
        let data = TcpSegment { sequence: 1, payload: &[0; 9], ..TcpSegment::default() };
        let ack = TcpSegment { sequence: 7, ack: Some(10), ..TcpSegment::default() };
        let mut writer = PcapngWriter::new(Vec::new()).expect("memory does not fail");
        let only = writer.add_interface("only").expect("written");
        for (from, to, segment) in [(client, server, &data), (server, client, &ack)].repeat(2) {
            let packet = encapsulate_tcp(from, to, segment).expect("short");
            writer.write_packet(only, Instant::ZERO, &packet, None).expect("written");
        }
        let side = ReceiverSide::read(writer.finish().expect("memory does not fail").as_slice()).expect("sound");
        assert_eq!(side.entries, 16 + 1 + 1);
    }
}
