//! Arrival times from a capture at the receiver, on the clock of the capture at the sender.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::Read;

use festina_units::Instant;

use super::estimate::Unwrap;
use super::headers::{Sctp, Tcp};
use super::packet::{Content, Key, parse};
use crate::dissect::{Decryption, Dissected, Dissector};
use crate::read::{PacketReader, ReadError};

/// Maximum number of arrivals, of all streams together: about 400 megabytes.
const ARRIVALS_MAX: usize = 1 << 23;

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
    streams: HashMap<(Key, usize), Arrivals>,
    arrivals: usize,
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
    /// If the capture cannot be read to its end, or has more than eight million packets with data.
    pub fn read(source: impl Read) -> Result<Self, ReadError> {
        Self::default().read_all(source)
    }

    /// As [`read`](Self::read), and decrypts associations in both captures.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_decrypting(source: impl Read, decryption: Decryption) -> Result<Self, ReadError> {
        Self { decryption: Some(decryption), ..Self::default() }.read_all(source)
    }

    fn read_all(mut self, source: impl Read) -> Result<Self, ReadError> {
        walk(source, self.decryption.clone(), |at, key, from, content| self.add(at, key, from, content))?;
        Ok(self)
    }

    /// Compares the clocks with those of the capture that was made at the sender: the smallest delays of both
    /// directions are assumed to be equal. If there are many, the third percentile is used, because packets missing in
    /// one capture make others look faster than they were.
    ///
    /// # Errors
    /// If the capture cannot be read to its end.
    pub fn align(&mut self, sender: impl Read) -> Result<(), ReadError> {
        walk(sender, self.decryption.clone(), |at, key, from, content| {
            self.compare(at, key, from, content);
            Ok(())
        })
    }

    fn add(&mut self, at: Instant, key: Key, from: usize, content: &Content<'_>) -> Result<(), ReadError> {
        let before = self.arrivals;
        let mut added = 0;
        let stream = self.streams.entry((key, from)).or_default();
        for (start, end, ordered_in) in parts(content) {
            let from = stream.unwrap.see(start);
            let to = from + u64::from(end.wrapping_sub(start));
            if let Entry::Vacant(vacant) = stream.first_arrival.entry(start) {
                vacant.insert(at);
                stream.parts.push(Arrival { start: from, end: to, at, ordered_in });
                added += 1;
            } else if stream.parts.last().is_some_and(|last| to > last.end) {
                stream.parts.push(Arrival { start: from, end: to, at, ordered_in });
                added += 1;
            }
        }
        if let Some(through) = acknowledged(content) {
            self.streams.entry((key, 1 - from)).or_default().first_ack.entry(through).or_insert(at);
        }
        self.arrivals = before + added;
        if self.arrivals > ARRIVALS_MAX {
            return Err(ReadError::TooMuch { what: "packets with data", max: ARRIVALS_MAX });
        }
        Ok(())
    }

    fn compare(&mut self, at: Instant, key: Key, from: usize, content: &Content<'_>) {
        let difference =
            |later: Instant, earlier: Instant| later.as_nanos().wrapping_sub(earlier.as_nanos()).cast_signed();
        if let Some(stream) = self.streams.get_mut(&(key, from)) {
            // Lower data in the same packet may be a later copy.
            let highest = parts(content).reduce(|a, b| if b.1.wrapping_sub(a.1).cast_signed() > 0 { b } else { a });
            let new = highest
                .filter(|(start, ..)| stream.sent.is_none_or(|sent| start.wrapping_sub(sent).cast_signed() >= 0));
            if let Some((start, end, _)) = new {
                // The first may be a later copy itself.
                let is_first = stream.sent.replace(end).is_none();
                if !is_first && let Some(&arrived) = stream.first_arrival.get(&start) {
                    stream.data_ns.push(difference(arrived, at));
                }
            }
        }
        if let (Some(through), Some(stream)) = (acknowledged(content), self.streams.get_mut(&(key, 1 - from)))
            && let Some(&left) = stream.first_ack.get(&through)
        {
            stream.acks_ns.push(difference(at, left));
        }
    }

    /// Returns when each part of a stream was delivered.
    pub(super) fn take(&mut self, key: Key, from: usize) -> Option<Deliveries> {
        let stream = self.streams.remove(&(key, from))?;
        let offset_ns = (least(&stream.data_ns)? - least(&stream.acks_ns)?) / 2;
        Some(Deliveries { ends: stream.in_order(offset_ns), unwrap: stream.unwrap })
    }
}

/// Returns the third percentile, or the smallest of few.
fn least(differences_ns: &[i64]) -> Option<i128> {
    let mut sorted = differences_ns.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() * 3 / 100).copied().map(i128::from)
}

impl Arrivals {
    /// Returns the ends of parts, each with the time at which it and all data before it, in SCTP of the same stream,
    /// had arrived.
    fn in_order(&self, offset_ns: i128) -> Vec<(u64, Instant)> {
        let mut parts = self.parts.clone();
        parts.sort_by_key(|part| (part.end, part.at));
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
            (part.end, shift(*latest))
        };
        parts.iter().map(in_order).collect()
    }
}

/// When the parts of one stream were delivered.
#[derive(Debug)]
pub(super) struct Deliveries {
    ends: Vec<(u64, Instant)>,
    unwrap: Unwrap,
}

impl Deliveries {
    /// When all up to `end` was delivered.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the other capture may have begun elsewhere: the low half is common"
    )]
    pub(super) fn of(&mut self, end: u64) -> Option<Instant> {
        let end = self.unwrap.near(end as u32)?;
        let index = self.ends.partition_point(|(known, _)| *known < end);
        let &(known, at) = self.ends.get(index)?;
        self.unwrap.see(known as u32);
        Some(at)
    }
}

/// Gives every packet of a conversation to `each`.
fn walk(
    source: impl Read,
    decryption: Option<Decryption>,
    mut each: impl FnMut(Instant, Key, usize, &Content<'_>) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let mut reader = PacketReader::new(source)?;
    let mut scratch = Sctp::default();
    let mut dissector = Dissector::with_decryption(decryption);
    while let Some(packet) = reader.next_packet()? {
        if let Dissected::Transport(transport) = dissector.dissect(&packet)
            && let Some(parsed) = parse(&transport, &mut scratch)
        {
            each(packet.at, parsed.key, parsed.from, &parsed.content)?;
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
