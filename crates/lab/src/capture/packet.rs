//! A packet of the models as the IP packet that it stands for.

use std::net::{Ipv4Addr, SocketAddr};

use festina_models::packet::{Packet, Payload, TcpPacket};
use festina_models::tcp::Segment;
use festina_netsim::NodeId;
use festina_trace::{EncapsulationError, TcpOption, TcpSegment, encapsulate_tcp, ip};
use festina_units::{EcnCodepoint, Instant};

/// Window scale. The model's windows have no 16-bit limit; the SYN announces the shift to readers of the capture.
const WINDOW_SHIFT: u8 = 7;

/// The UDP port of encrypted associations.
const SECURE_PORT: u16 = 9_899;

/// The whole packet, beginning with its IPv4 header.
pub(super) fn to_ip(packet: &Packet) -> Result<Vec<u8>, EncapsulationError> {
    let (from, to) = (address(packet.source), address(packet.destination));
    match &packet.payload {
        Payload::Sctp(bytes) => ip::encapsulate_sctp(from.into(), to.into(), packet.ecn, bytes),
        Payload::Secure(bytes) => {
            let [from, to] = [from, to].map(|address| SocketAddr::new(address.into(), SECURE_PORT));
            ip::encapsulate_udp(from, to, bytes)
        }
        Payload::Udp(datagram) => {
            let port = port_of_flow(packet.flow);
            let payload = vec![0; usize::try_from(datagram.bytes).unwrap_or(usize::MAX)];
            ip::encapsulate_udp(SocketAddr::new(from.into(), port), SocketAddr::new(to.into(), port), &payload)
        }
        Payload::Tcp(tcp) => {
            let payload = vec![0; usize::try_from(tcp.segment.length_bytes).unwrap_or(usize::MAX)];
            let options = options(&tcp.segment);
            let segment = TcpSegment { options: &options, payload: &payload, ..segment(tcp, packet.ecn) };
            let from = SocketAddr::new(from.into(), tcp.source_port);
            encapsulate_tcp(from, SocketAddr::new(to.into(), tcp.destination_port), &segment)
        }
    }
}

/// Each node has an address of its own in 10.0.0.0/8, the first 10.0.0.1.
fn address(node: NodeId) -> Ipv4Addr {
    const FIRST: u32 = 0x0a00_0001;
    Ipv4Addr::from_bits(FIRST.saturating_add(node.0 & 0x00ff_ffff))
}

/// Datagrams of the model have no ports; those of one flow shall be seen to belong together.
fn port_of_flow(flow: u64) -> u16 {
    const FIRST: u16 = 1_024;
    u16::try_from(flow % u64::from(u16::MAX - FIRST)).unwrap_or(0) + FIRST
}

/// A segment without options and payload.
fn segment(tcp: &TcpPacket, ecn: EcnCodepoint) -> TcpSegment<'static> {
    let Segment { sequence, flags, ack, window_bytes, .. } = tcp.segment;
    // A window in a SYN is never scaled (RFC 7323 §2.2).
    let shift = if flags.syn { 0 } else { WINDOW_SHIFT };
    TcpSegment {
        // The initial sequence number is zero, and on the wire the SYN takes it.
        sequence: if flags.syn { 0 } else { on_wire(sequence) },
        ack: flags.ack.then(|| on_wire(ack)),
        syn: flags.syn,
        fin: flags.fin,
        ece: flags.ece,
        cwr: flags.cwr,
        window: u16::try_from(window_bytes >> shift).unwrap_or(u16::MAX),
        ecn,
        ..TcpSegment::default()
    }
}

fn options(segment: &Segment) -> Vec<TcpOption> {
    let mut options = Vec::new();
    if let Some(syn) = segment.syn_options {
        options.push(TcpOption::MaximumSegmentSize(u16::try_from(syn.mss_bytes).unwrap_or(u16::MAX)));
        if syn.sack_permitted {
            options.push(TcpOption::SackPermitted);
        }
        options.push(TcpOption::WindowScale(WINDOW_SHIFT));
    }
    if let Some(timestamps) = segment.timestamps {
        let echo = timestamps.echo.map_or(0, milliseconds);
        options.push(TcpOption::Timestamps { value: milliseconds(timestamps.value), echo });
    }
    let blocks = segment.sack.as_slice().iter();
    options.extend(blocks.map(|(start, end)| TcpOption::SackBlock(on_wire(*start), on_wire(*end))));
    options
}

/// The model counts the bytes of the stream from zero; the SYN takes one number more.
#[expect(clippy::cast_possible_truncation, reason = "sequence numbers wrap around")]
fn on_wire(sequence: u64) -> u32 {
    sequence.wrapping_add(1) as u32
}

/// The clock of the timestamps option.
#[expect(clippy::cast_possible_truncation, reason = "timestamps wrap around")]
fn milliseconds(at: Instant) -> u32 {
    (at.as_nanos() / 1_000_000) as u32
}
