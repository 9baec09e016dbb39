//! Analysis of the streams of a capture: whether they are thin, their losses, retransmissions with their causes, and the cost.
//!
//! Packets are passed in one by one, in the order of their file. Findings are returned, the last ones after
//! [`Analyser::finish`]. Memory is bounded by the number of live conversations: one that is silent for
//! [`AnalyserOptions::idle_max`], or the longest silent one if there are too many, is retired, which is also a finding.
//!
//! Causes and delays are judged from the sender's side, so a capture made there is the most exact. One from the middle
//! of the path still shows all retransmissions, but its delays lack the way between sender and capture. Retransmissions of data
//! that was lost in front of the capture have an [unknown cause](Cause::Unknown).

#[cfg(feature = "arrow")]
pub mod batch;
mod cause;
pub mod columns;
mod estimate;
mod headers;
mod homes;
mod opening;
mod order;
mod outstanding;
mod packet;
mod receiver;
mod report;
mod slow_start;
mod stream;
mod table;
mod thin;

use std::collections::VecDeque;
use std::io::Read;

use festina_units::{Duration, Instant};

pub use cause::{Cause, Confidence};
pub use receiver::ReceiverSide;
pub use report::{
    COPIES_MAX, DelayStatistics, OutOfOrder, PATHS_MAX, PathTraffic, RepairStatistics, Retransmission, StreamReport,
    Thinness, TrafficStatistics, WORST_MAX, Write,
};

pub use slow_start::{SlowStart, SlowStartExit};

use estimate::Unwrap;
use headers::{Sctp, Tcp};
use homes::Homes;
pub(crate) use homes::{Resolver, Way};
use opening::{Opening, first_number};
use order::Sightings;
use outstanding::Copy;
use packet::{Content, Parsed, parse};
use stream::{Ack, SegmentSize, Sent, Stream};
use table::{Conversation, Heard, Slot, Table};

use crate::dissect::{Decryption, Dissected, Dissector};
use crate::error::ReadError;
use crate::protocol::Protocol;
use crate::read::{CapturedPacket, PacketReader};

/// How a capture is analysed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnalyserOptions {
    /// Conversations that are silent for longer are retired.
    pub idle_max: Duration,
    /// Every write, every retransmission and every packet out of order is a finding of its own.
    pub details: bool,
}

impl Default for AnalyserOptions {
    /// Ten minutes, as the longest backoff of TCP takes two; no details.
    fn default() -> Self {
        Self { idle_max: Duration::from_secs(600), details: false }
    }
}

/// A finding of the analysis.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Finding {
    /// A write was acknowledged. Only with [`AnalyserOptions::details`].
    Write(Write),
    /// A retransmission, once its fate is known. Only with [`AnalyserOptions::details`].
    Retransmission(Retransmission),
    /// Data was seen in an order other than that of its sequence numbers, without being retransmitted. Only with
    /// [`AnalyserOptions::details`].
    OutOfOrder(OutOfOrder),
    /// A stream has ended, with its conversation or with the capture. After its writes and retransmissions.
    Stream(Box<StreamReport>),
}

/// Numbers of packets read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Packets.
    pub packets: u64,
    /// Packets that are not TCP, UDP or SCTP, from a type of link that is not supported, or without their headers, and
    /// fragments of incomplete packets.
    pub packets_other: u64,
    /// Duplicate packets of TCP and SCTP: the same number in IPv4, the same transport header. They are ignored.
    pub packets_again: u64,
    /// Packets of encrypted associations that could not be decrypted. They count as UDP.
    pub packets_encrypted: u64,
    /// Conversations that began.
    pub conversations: u64,
    /// Conversations without a byte of data.
    pub conversations_without_data: u64,
    /// Conversations that were retired because they were silent, or because there were too many.
    pub conversations_retired: u64,
    /// Streams with data.
    pub streams: u64,
    /// Streams of TCP and SCTP that have ended without an acknowledgement in the capture. Their packets in flight and their
    /// delays are unknown.
    pub streams_one_way: u64,
    /// Streams whose acknowledged data is partly missing in the capture ([`TrafficStatistics::unseen_bytes`]).
    pub streams_incomplete: u64,
    /// Streams captured behind their losses ([`RepairStatistics::is_behind_loss`]).
    pub streams_behind_loss: u64,
}

/// Maximum number of list entries of all streams together: outstanding data and undecided retransmissions, which take 130
/// megabytes. Beyond it, streams with more than a few forget their oldest.
const HELD_MAX: usize = 1 << 20;

/// Analyses the packets of a capture.
#[derive(Debug, Default)]
pub struct Analyser {
    options: AnalyserOptions,
    table: Table,
    sightings: Sightings,
    homes: Homes,
    receiver: Option<ReceiverSide>,
    dissector: Dissector,
    scratch: Sctp,
    sink: Sink,
    summary: Summary,
    /// List entries of all streams.
    held: usize,
}

/// Findings that were not returned yet.
#[derive(Debug, Default)]
struct Sink {
    findings: VecDeque<Finding>,
    details: bool,
}

impl Sink {
    fn write(&mut self, write: &Write) {
        if self.details {
            self.findings.push_back(Finding::Write(*write));
        }
    }

    fn retransmission(&mut self, retransmission: &Retransmission) {
        if self.details {
            self.findings.push_back(Finding::Retransmission(*retransmission));
        }
    }

    fn out_of_order(&mut self, late: OutOfOrder) {
        if self.details {
            self.findings.push_back(Finding::OutOfOrder(late));
        }
    }

    fn stream(&mut self, report: StreamReport) {
        self.findings.push_back(Finding::Stream(Box::new(report)));
    }
}

/// A stream that has not ended.
#[derive(Clone, Copy, Debug)]
pub struct LiveStream<'a>(&'a Stream);

impl LiveStream<'_> {
    /// The report so far, without round-trip times and without undecided retransmissions.
    pub fn report(&self) -> &StreamReport {
        &self.0.report
    }

    /// Round-trip times so far, in nanoseconds.
    pub fn rtt_ns(&self) -> &crate::Histogram {
        &self.0.round_trips.samples_ns
    }
}

/// Analyses a capture from its beginning to its end. `each` gets the findings. If the capture is damaged, the part
/// before the damage is analysed, and the error is returned with the summary. Packets from types of links that are not
/// supported count as [`Summary::packets_other`]; if there are no others, that is an error.
pub fn analyse(
    source: impl Read,
    mut analyser: Analyser,
    mut each: impl FnMut(Finding),
) -> (Summary, Result<(), ReadError>) {
    let read = || {
        let mut reader = PacketReader::new(source)?;
        while let Some(packet) = reader.next_packet()? {
            analyser.handle_packet(&packet);
            while let Some(finding) = analyser.poll_finding() {
                each(finding);
            }
        }
        Ok(())
    };
    let result = read();
    analyser.finish();
    let result = result.and_then(|()| analyser.dissector.link_error());
    while let Some(finding) = analyser.poll_finding() {
        each(finding);
    }
    (analyser.summary(), result)
}

impl Analyser {
    /// Creates an analyser.
    pub fn new(options: AnalyserOptions) -> Self {
        Self { options, sink: Sink { details: options.details, ..Sink::default() }, ..Self::default() }
    }

    /// Adds delays to delivery, from a capture at the receiver, which must be [aligned](ReceiverSide::align).
    #[must_use]
    pub fn with_receiver(mut self, receiver: ReceiverSide) -> Self {
        self.receiver = Some(receiver);
        self
    }

    /// Decrypts associations. Their bytes count as on the link.
    #[must_use]
    pub fn with_decryption(mut self, decryption: Decryption) -> Self {
        self.dissector = Dissector::with_decryption(Some(decryption));
        self
    }

    /// Analyses the next packet of the capture.
    pub fn handle_packet(&mut self, packet: &CapturedPacket<'_>) {
        let mut dissector = std::mem::take(&mut self.dissector);
        let mut scratch = std::mem::take(&mut self.scratch);
        self.summary.packets += 1;
        self.retire(packet.at);
        match dissector.dissect(packet) {
            Dissected::Transport(transport) => match parse(&transport, &mut scratch) {
                Some(parsed) => self.take_packet(packet, parsed),
                None => self.summary.packets_other += 1,
            },
            Dissected::Fragment => {}
            Dissected::Again => self.summary.packets_again += 1,
            Dissected::Other => self.summary.packets_other += 1,
        }
        (self.dissector, self.scratch) = (dissector, scratch);
    }

    /// The next finding.
    pub fn poll_finding(&mut self) -> Option<Finding> {
        self.sink.findings.pop_front()
    }

    /// Ends the capture: all live conversations become findings, in the order in which they began.
    pub fn finish(&mut self) {
        self.dissector.finish();
        for conversation in self.table.drain() {
            self.end(conversation);
        }
    }

    /// Returns the streams that have not ended, in no particular order: for live views.
    pub fn alive(&self) -> impl Iterator<Item = LiveStream<'_>> {
        self.table
            .iter()
            .flat_map(|conversation| conversation.streams.iter().flatten())
            .map(|stream| LiveStream(stream))
    }

    /// Returns the counts of packets read so far.
    pub fn summary(&self) -> Summary {
        let packets_other = self.summary.packets_other + self.dissector.given_up();
        let packets_encrypted = self.dissector.closed();
        Summary { conversations: self.table.begun(), packets_other, packets_encrypted, ..self.summary }
    }

    /// Ends conversations that were silent for too long, and makes room.
    fn retire(&mut self, now: Instant) {
        while let Some(oldest) = self.table.oldest()
            && (self.table.is_full() || now.saturating_duration_since(oldest.last_at) > self.options.idle_max)
        {
            if let Some(conversation) = self.table.pop_oldest() {
                self.summary.conversations_retired += 1;
                self.end(conversation);
            }
        }
    }

    fn end(&mut self, conversation: Conversation) {
        self.held -= conversation.held();
        let mut is_empty = true;
        for stream in conversation.streams.into_iter().flatten() {
            is_empty = false;
            self.summary.streams_one_way += u64::from(stream.is_one_way());
            self.summary.streams_incomplete += u64::from(stream.report.traffic.unseen_bytes > 0);
            self.summary.streams_behind_loss += u64::from(stream.report.repair.is_behind_loss());
            stream.finish(&mut self.sink);
        }
        self.summary.conversations_without_data += u64::from(is_empty);
    }

    fn take_packet(&mut self, packet: &CapturedPacket<'_>, mut parsed: Parsed<'_>) {
        // The capture may contain this packet already, if it was made at several places of the path.
        if parsed.key.protocol != Protocol::Udp && self.sightings.is_again(&parsed, packet.at) {
            self.summary.packets_again += 1;
            return;
        }
        if matches!(parsed.content, Content::Udp { payload_bytes: 0 }) {
            return;
        }
        self.homes.resolve(&mut parsed);
        let parsed = &parsed;
        let slot = self.hear(packet, parsed);
        self.held -= self.table.get_mut(slot).held();
        match &parsed.content {
            Content::Tcp(tcp) => self.tcp(slot, packet, parsed, tcp),
            Content::Sctp(sctp) => self.sctp(slot, packet, parsed, sctp),
            Content::Udp { payload_bytes } => {
                let stream = self.stream(slot, packet, parsed, 0);
                stream.packet(packet.at, *payload_bytes, parsed.transport_bytes);
            }
        }
        self.held += self.table.get_mut(slot).held();
    }

    /// Returns the conversation of the packet, which may begin a new one between the same ends.
    fn hear(&mut self, packet: &CapturedPacket<'_>, parsed: &Parsed<'_>) -> Slot {
        let slot = self.table.hear(parsed.key, packet.at);
        let known = self.table.get_mut(slot);
        let has_data = known.streams.each_ref().map(Option::is_some);
        if !(Opening { initial: known.initial, has_data }).is_ended_by(parsed.from, &parsed.content) {
            return slot;
        }
        if let Some(conversation) = self.table.remove(slot) {
            self.end(conversation);
        }
        self.table.hear(parsed.key, packet.at)
    }

    /// Returns the stream of the packet's sender. A new one begins with `start`.
    fn stream(&mut self, slot: Slot, packet: &CapturedPacket<'_>, parsed: &Parsed<'_>, start: u32) -> &mut Stream {
        let has_timestamps = matches!(parsed.content, Content::Tcp(Tcp { timestamps: Some(_), .. }));
        let receiver = &mut self.receiver;
        let summary = &mut self.summary;
        let may_grow = self.held < HELD_MAX;
        let conversation = self.table.get_mut(slot);
        let segment_size = SegmentSize::new(conversation.segment_bytes_max);
        let (initial, offers) = (conversation.initial[parsed.from], conversation.offers);
        let handshake_ns = conversation.answered_ns[parsed.from];
        let [ours, theirs] = conversation.answered_ns;
        let path_ns = ours.zip(theirs).map(|(ours, theirs)| ours.saturating_add(theirs));
        let stream = conversation.streams[parsed.from].get_or_insert_with(|| {
            summary.streams += 1;
            let mut unwrap = Unwrap::default();
            let is_tcp = parsed.key.protocol == Protocol::Tcp;
            let first = initial.map_or(start, |initial| initial.wrapping_add(u32::from(is_tcp)));
            let base = unwrap.see(first);
            let [source, destination] = [parsed.key.ends[parsed.from], parsed.key.ends[1 - parsed.from]];
            let report = StreamReport {
                id: summary.streams,
                protocol: parsed.key.protocol,
                source: source.socket(),
                destination: destination.socket(),
                in_udp: source.udp_port != 0,
                paths: Vec::new(),
                traffic: TrafficStatistics {
                    first_packet: packet.number,
                    first_at: packet.at,
                    last_at: packet.at,
                    ..TrafficStatistics::default()
                },
                thinness: Thinness::default(),
                rtt_ns: crate::Histogram::default(),
                repair: RepairStatistics::default(),
                delays: DelayStatistics::default(),
                slow_start: SlowStart::new(initial.is_some(), base),
            };
            let probes = if initial.is_some() { offers == [true, true] } else { has_timestamps };
            let mut stream = Stream::new(report, unwrap, base, is_tcp.then_some(probes), segment_size);
            stream.round_trips.begin(packet.at, handshake_ns, path_ns, initial.is_some());
            stream.deliveries =
                receiver.as_mut().and_then(|receiver| receiver.take(parsed.key, parsed.from, packet.number));
            Box::new(stream)
        });
        stream.may_grow(may_grow);
        stream
    }

    fn tcp(&mut self, slot: Slot, packet: &CapturedPacket<'_>, parsed: &Parsed<'_>, tcp: &Tcp) {
        let conversation = self.table.get_mut(slot);
        if tcp.is_syn {
            conversation.hear_handshake(parsed, packet.at);
            conversation.offers[parsed.from] = tcp.sack_permitted && tcp.timestamps.is_some();
            conversation.segment_bytes_max[parsed.from] = tcp.segment_bytes_max;
            return;
        }
        conversation.hear_handshake(parsed, packet.at);
        if tcp.is_rst {
            return;
        }
        let departure = conversation.identifications[parsed.from].see(parsed.identification);
        if let Some(ack) = tcp.ack {
            conversation.heard[parsed.from] = Some(Heard { ack, is_full: tcp.window == 0 });
        }
        if tcp.payload_bytes == 0 {
            conversation.announced[parsed.from] = Some((tcp.sequence, packet.at));
        } else if tcp.payload_bytes > 1 || !conversation.is_probe(parsed.from, tcp.sequence) {
            let announced = conversation.announced[parsed.from].take();
            let mut sink = std::mem::take(&mut self.sink);
            let stream = self.stream(slot, packet, parsed, tcp.sequence);
            if let Some((sequence, at)) = announced {
                stream.announced(sequence, at);
            }
            stream.packet(packet.at, tcp.payload_bytes, parsed.transport_bytes);
            let start = stream.unwrap.see(tcp.sequence);
            let end = start + u64::from(tcp.payload_bytes);
            let tsval = tcp.timestamps.map_or(0, |(value, _)| value);
            let copy = Copy { at: packet.at, packet: packet.number, tsval, path: 0 };
            let bytes = tcp.payload_bytes;
            let sent = Sent { copy, departure, start, end, bytes, is_with_new_data: false, framing: None };
            stream.sent(&sent, &mut sink);
            self.sink = sink;
        }
        let conversation = self.table.get_mut(slot);
        let (Some(ack), Some(stream)) = (tcp.ack, conversation.streams[1 - parsed.from].as_mut()) else { return };
        stream.tcp_ack(packet, tcp, ack, &mut self.sink);
    }

    fn sctp(&mut self, slot: Slot, packet: &CapturedPacket<'_>, parsed: &Parsed<'_>, sctp: &Sctp) {
        let conversation = self.table.get_mut(slot);
        conversation.hear_handshake(parsed, packet.at);
        // A packet's acknowledgement was written before its data.
        if let (Some(sack), Some(stream)) = (&sctp.sack, conversation.streams[1 - parsed.from].as_mut()) {
            stream.sctp_sack(packet, sack, sctp.data.is_empty(), &mut self.sink);
        }
        if let Some(stream) = conversation.streams[parsed.from].as_mut() {
            for &(start, end) in &sctp.abandoned {
                if let (Some(start), Some(end)) = (stream.unwrap.near(start), stream.unwrap.near(end)) {
                    stream.abandoned(start, end);
                }
            }
        }
        let Some(first) = sctp.data.first() else { return };
        let mut sink = std::mem::take(&mut self.sink);
        let stream = self.stream(slot, packet, parsed, first.tsn);
        let bytes = sctp.data.iter().map(|data| data.bytes).sum();
        stream.packet(packet.at, bytes, parsed.transport_bytes);
        let highest = stream.highest();
        let is_new = |stream: &mut Stream, tsn: u32| stream.unwrap.near(tsn).is_none_or(|tsn| tsn >= highest);
        let has_new = sctp.data.iter().any(|data| is_new(stream, data.tsn));
        let missing: Vec<bool> = match sctp.data.as_slice() {
            [_] => vec![false],
            several => several.iter().map(|data| stream.is_missing(data.tsn)).collect(),
        };
        let has_missing = missing.contains(&true);
        let first_count = sctp.data.iter().filter(|data| is_new(stream, data.tsn)).count() as u64;
        let counts = [first_count, sctp.data.len() as u64 - first_count];
        let addresses = [parsed.source.address, parsed.destination.address];
        let path = stream.report.count_path(addresses, parsed.transport_bytes, counts);
        let copy = Copy { at: packet.at, packet: packet.number, tsval: 0, path };
        for (data, is_missing) in sctp.data.iter().zip(missing) {
            let start = stream.unwrap.see(data.tsn);
            let is_with_new_data = start < highest && (has_new || has_missing || sctp.is_cut) && !is_missing;
            let framing = Some((data.is_beginning, data.is_end));
            let sent =
                Sent { copy, departure: None, start, end: start + 1, bytes: data.bytes, is_with_new_data, framing };
            stream.sent(&sent, &mut sink);
        }
        self.sink = sink;
    }
}

impl Conversation {
    /// Returns the number of list entries of both streams.
    fn held(&self) -> usize {
        self.streams.iter().flatten().map(|stream| stream.held()).sum()
    }

    /// Returns whether a segment of one byte carries no data of the application: it keeps an idle connection alive, or probes a closed window.
    fn is_probe(&mut self, from: usize, sequence: u32) -> bool {
        let heard = self.heard[1 - from];
        let stream = self.streams[from].as_mut();
        // Wireshark's definition: the byte before the next one, or the next one while the window is closed.
        if heard.is_some_and(|heard| heard.is_full && heard.ack == sequence) {
            stream.into_iter().for_each(|stream| stream.window_probe(sequence));
            return true;
        }
        match stream {
            Some(stream) => stream.keep_alive(sequence),
            None => {
                let next = self.announced[from].map(|(next, _)| next).or(heard.map(|heard| heard.ack));
                next == Some(sequence.wrapping_add(1))
            }
        }
    }

    /// Handles a packet that opens the conversation or accepts it, or a later one.
    fn hear_handshake(&mut self, parsed: &Parsed<'_>, at: Instant) {
        let (from, initial) = (parsed.from, first_number(&parsed.content));
        if let (Some(opened), None) = (self.opened_at[1 - from], self.answered_ns[1 - from]) {
            self.answered_ns[1 - from] = Some(estimate::ns_between(opened, at));
        }
        if initial.is_some() && self.streams[from].is_none() {
            self.opened_at[from] = Some(at);
            self.initial[from] = initial;
        }
    }
}

impl Stream {
    /// Returns whether the receiver has reported this TSN as missing.
    fn is_missing(&mut self, tsn: u32) -> bool {
        self.unwrap.near(tsn).is_some_and(|tsn| self.is_reported_missing(tsn))
    }

    /// A segment from the receiver acknowledges.
    fn tcp_ack(&mut self, packet: &CapturedPacket<'_>, tcp: &Tcp, ack: u32, sink: &mut Sink) {
        let Some(through) = self.unwrap.near(ack) else { return };
        let mut blocks = [(0, 0); 4];
        let mut duplicates: &[(u64, u64)] = &[];
        let mut len = 0;
        for (place, &(start, end)) in blocks.iter_mut().zip(tcp.blocks()) {
            *place = (self.unwrap.near(start).unwrap_or(0), self.unwrap.near(end).unwrap_or(0));
            len += 1;
        }
        let mut blocks = blocks.get(..len).unwrap_or_default();
        // A first block below the acknowledgement, or within the second, reports a duplicate (RFC 2883 §4).
        if let Some((&(start, end), rest)) = blocks.split_first() {
            let is_within = rest.first().is_some_and(|&(from, to)| from <= start && end <= to);
            if start < through || is_within {
                (duplicates, blocks) = blocks.split_at(1);
            }
        }
        let echo = tcp.timestamps.map(|(_, echo)| echo);
        let is_pure = tcp.payload_bytes == 0 && !tcp.is_fin;
        let ack = Ack { at: packet.at, packet: packet.number, through, blocks, duplicates, echo, is_pure };
        self.acknowledged(&ack, sink);
    }

    /// Handles a SACK.
    fn sctp_sack(&mut self, packet: &CapturedPacket<'_>, sack: &headers::Sack, is_pure: bool, sink: &mut Sink) {
        let Some(cumulative) = self.unwrap.near(sack.cumulative) else { return };
        let near = |tsn: u32| self.unwrap.near(tsn).unwrap_or(0);
        let blocks: Vec<(u64, u64)> = sack.gaps.iter().map(|&(start, end)| (near(start), near(end))).collect();
        let duplicates: Vec<(u64, u64)> = sack.duplicates.iter().map(|&tsn| (near(tsn), near(tsn) + 1)).collect();
        let ack = Ack {
            at: packet.at,
            packet: packet.number,
            through: cumulative + 1,
            blocks: &blocks,
            duplicates: &duplicates,
            echo: None,
            is_pure,
        };
        self.acknowledged(&ack, sink);
    }
}
