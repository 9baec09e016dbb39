//! The writes of the applications in a capture: times and sizes of new data, flow by flow.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddr;

use festina_units::{ByteCount, Duration, Instant};

use crate::analysis::{Resolver, Way};
use crate::bytes::{u16_at, u32_at};
use crate::dissect::{Dissected, Dissector, Transport};
use crate::error::ReadError;
use crate::ip::UDP_HEADER_BYTES;
pub use crate::protocol::Protocol;
use crate::read::PacketReader;

/// Maximum number of flows, and of writes.
const FLOWS_MAX: usize = 1 << 20;
const WRITES_MAX: usize = 1 << 23;

/// One direction of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The transport protocol.
    pub protocol: Protocol,
    /// The sender.
    pub source: SocketAddr,
    /// The receiver.
    pub destination: SocketAddr,
    /// The application's writes, in the order of time. Never empty.
    pub writes: Vec<FlowWrite>,
}

/// New data in one packet, or in SCTP in one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowWrite {
    /// Time since the first packet of the capture.
    pub at: Duration,
    /// Size; at least one byte.
    pub size: ByteCount,
}

/// Reads a capture, pcap or pcapng, and returns the times and sizes of data for each flow with data, in the order of
/// their first data.
///
/// Data that was sent before is skipped: in TCP data below the highest sequence number sent, in SCTP chunks with a TSN
/// not above the highest. Several paths of an association are one flow, between the addresses of the first. So a replay sends the application's writes, as far as the packets show them, and not the
/// retransmissions of its transport.
///
/// # Errors
/// If this is no capture, or a damaged or excessively large one, or has only packets from types of links that are not supported.
pub fn read_flows(source: impl Read) -> Result<Vec<Flow>, ReadError> {
    let mut reader = PacketReader::new(source)?;
    let mut gatherer = Gatherer::default();
    let mut dissector = Dissector::default();
    while let Some(packet) = reader.next_packet()? {
        if let Dissected::Transport(transport) = dissector.dissect(&packet) {
            gatherer.add(packet.at, &transport)?;
        }
    }
    dissector.link_error()?;
    Ok(gatherer.finish())
}

#[derive(Default)]
struct Gatherer {
    index: BTreeMap<Way, usize>,
    flows: Vec<Gathered>,
    writes: usize,
    earliest: Option<Instant>,
    resolver: Resolver,
}

/// A flow and the first sequence number or TSN that has not been sent yet.
struct Gathered {
    way: Way,
    writes: Vec<(Instant, u32)>,
    next: Option<u32>,
}

impl Gatherer {
    fn add(&mut self, at: Instant, transport: &Transport<'_>) -> Result<(), ReadError> {
        self.earliest = Some(self.earliest.map_or(at, |earliest| earliest.min(at)));
        let Some(way) = self.resolver.way(transport) else { return Ok(()) };
        let flow = self.flow(way)?;
        let before = flow.writes.len();
        match way.protocol {
            Protocol::Tcp => tcp(flow, at, transport),
            Protocol::Udp => flow.write(at, transport.len.saturating_sub(UDP_HEADER_BYTES)),
            Protocol::Sctp => {
                let header_bytes = if way.is_in_udp { UDP_HEADER_BYTES } else { 0 };
                sctp(flow, at, transport.bytes.get(header_bytes..).unwrap_or_default());
            }
        }
        let added = flow.writes.len() - before;
        self.writes += added;
        if self.writes > WRITES_MAX {
            return Err(ReadError::TooMuch { what: "packets with data", max: WRITES_MAX });
        }
        Ok(())
    }

    fn flow(&mut self, way: Way) -> Result<&mut Gathered, ReadError> {
        let next = self.flows.len();
        let index = *self.index.entry(way).or_insert(next);
        if index == next {
            if next == FLOWS_MAX {
                return Err(ReadError::TooMuch { what: "flows", max: FLOWS_MAX });
            }
            self.flows.push(Gathered { way, writes: Vec::new(), next: None });
        }
        Ok(&mut self.flows[index])
    }

    fn finish(self) -> Vec<Flow> {
        let earliest = self.earliest.unwrap_or(Instant::ZERO);
        let mut flows: Vec<Gathered> = self.flows.into_iter().filter(|flow| !flow.writes.is_empty()).collect();
        for flow in &mut flows {
            // Captures of several interfaces are not always in order; the sort is stable for equal times.
            flow.writes.sort_by_key(|(at, _)| *at);
        }
        flows.sort_by_key(|flow| flow.writes.first().map(|(at, _)| *at));
        flows
            .into_iter()
            .map(|Gathered { way, writes, .. }| Flow {
                protocol: way.protocol,
                source: way.source,
                destination: way.destination,
                writes: writes
                    .into_iter()
                    .map(|(at, bytes)| FlowWrite {
                        at: at.saturating_duration_since(earliest),
                        size: ByteCount::from_bytes(u64::from(bytes)),
                    })
                    .collect(),
            })
            .collect()
    }
}

impl Gathered {
    fn write(&mut self, at: Instant, bytes: usize) {
        if let Ok(bytes @ 1..) = u32::try_from(bytes) {
            self.writes.push((at, bytes));
        }
    }
}

/// Records the part of a TCP segment above all data sent before (RFC 9293 §3.1).
fn tcp(flow: &mut Gathered, at: Instant, transport: &Transport<'_>) {
    const SYN: u8 = 2;
    const RST: u8 = 4;
    let bytes = transport.bytes;
    let (Some(sequence), Some(offset), Some(flags)) = (u32_at(bytes, 4), bytes.get(12), bytes.get(13)) else {
        return;
    };
    let header_bytes = usize::from(offset >> 4) * 4;
    let Some(len) = transport.len.checked_sub(header_bytes).and_then(|len| u32::try_from(len).ok()) else {
        return;
    };
    if flags & RST != 0 {
        return;
    }
    if flags & SYN != 0 {
        // A new connection between the same ports is counted separately.
        flow.next = Some(sequence.wrapping_add(1));
        return;
    }
    let end = sequence.wrapping_add(len);
    let new = end.wrapping_sub(flow.next.unwrap_or(sequence)).cast_signed();
    if let Ok(new @ 1..) = u32::try_from(new) {
        flow.write(at, new.min(len) as usize);
        flow.next = Some(end);
    }
}

/// Records the user data of DATA and I-DATA chunks above the highest TSN so far (RFC 9260 §3.3.1, RFC 8260 §2.1).
fn sctp(flow: &mut Gathered, at: Instant, packet: &[u8]) {
    const COMMON_HEADER_BYTES: usize = 12;
    const DATA: (u8, usize) = (0, 16);
    const INIT: u8 = 1;
    const I_DATA: (u8, usize) = (64, 20);

    let mut rest = packet.get(COMMON_HEADER_BYTES..).unwrap_or_default();
    while let (Some(chunk_type), Some(len)) = (rest.first(), u16_at(rest, 2)) {
        let len = usize::from(len);
        if len < 4 {
            return;
        }
        let header_bytes = [DATA, I_DATA].into_iter().find(|(known, _)| known == chunk_type).map(|(_, bytes)| bytes);
        if let (Some(header_bytes), Some(tsn)) = (header_bytes, u32_at(rest, 4)) {
            let is_new = flow.next.is_none_or(|next| tsn.wrapping_sub(next).cast_signed() >= 0);
            if is_new {
                flow.write(at, len.saturating_sub(header_bytes));
                flow.next = Some(tsn.wrapping_add(1));
            }
        } else if *chunk_type == INIT {
            flow.next = None;
        }
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests;
