//! The packets of the simulated network.

use bytes::Bytes;
use festina_netsim::{LinkPacket, NodeId, SimPacket};
use festina_units::{ByteCount, EcnCodepoint, Instant};

use crate::tcp::Segment;

/// Bytes of an IPv4 header without options.
pub const IPV4_HEADER_BYTES: usize = 20;
/// Bytes of a UDP header.
pub const UDP_HEADER_BYTES: usize = 8;

/// A packet with the addresses of its IP header and the simulation's metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// The host that sent it.
    pub source: NodeId,
    /// The host that it is addressed to.
    pub destination: NodeId,
    /// Identifies its flow, in one direction only; a fair queue separates flows by it.
    pub flow: u64,
    /// Number of the packet among those of its sender and flow, from zero. It is not part of the packet: a receiver
    /// uses it to identify the transmission. Copies made by a link share it.
    pub serial: u64,
    /// The ECN field.
    pub ecn: EcnCodepoint,
    /// The payload of the IP packet.
    pub payload: Payload,
}

/// The payload of the IP packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// An SCTP packet, bytes as on the wire, directly over IP as in the papers.
    Sctp(Bytes),
    /// A UDP datagram of an encrypted association, bytes as on the wire.
    Secure(Bytes),
    /// A UDP datagram.
    Udp(Datagram),
    /// A TCP segment. It is by far the largest of the four, and a packet is moved a dozen times on each hop.
    Tcp(Box<TcpPacket>),
}

/// A TCP segment of the model with its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpPacket {
    /// The segment of the model. [`Packet::ecn`] is the ECN field that counts on arrival.
    pub segment: Segment,
    /// Port of the sending host.
    pub source_port: u16,
    /// Port of the receiving host.
    pub destination_port: u16,
    /// Whether it has a bit error, so that the checksum will not match.
    pub is_corrupted: bool,
}

/// A UDP datagram, reduced to its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// User data.
    pub bytes: u32,
    /// When the sending application wrote it.
    pub sent_at: Instant,
    /// Whether it has a bit error, so that the checksum will not match.
    pub is_corrupted: bool,
}

impl LinkPacket for Packet {
    fn size(&self) -> ByteCount {
        match &self.payload {
            Payload::Sctp(bytes) => IPV4_HEADER + ByteCount::from_len(bytes.len()),
            Payload::Secure(bytes) => IPV4_HEADER + UDP_HEADER + ByteCount::from_len(bytes.len()),
            Payload::Udp(datagram) => IPV4_HEADER + UDP_HEADER + ByteCount::from_bytes(u64::from(datagram.bytes)),
            Payload::Tcp(tcp) => tcp.segment.size(),
        }
    }

    /// Flips one bit of the IP payload. A packet with a damaged IP header would be lost.
    fn corrupt(&mut self, entropy: u64) {
        match &mut self.payload {
            Payload::Sctp(bytes) | Payload::Secure(bytes) => {
                let mut damaged = bytes.to_vec();
                damaged.corrupt(entropy);
                *bytes = Bytes::from(damaged);
            }
            Payload::Udp(datagram) => datagram.is_corrupted = true,
            Payload::Tcp(tcp) => tcp.is_corrupted = true,
        }
    }

    fn flow(&self) -> u64 {
        self.flow
    }

    fn is_ecn_capable(&self) -> bool {
        self.ecn != EcnCodepoint::NotCapable
    }

    fn mark_congestion(&mut self) {
        self.ecn = EcnCodepoint::CongestionExperienced;
    }
}

impl SimPacket for Packet {
    fn destination(&self) -> NodeId {
        self.destination
    }
}

const IPV4_HEADER: ByteCount = ByteCount::from_bytes(IPV4_HEADER_BYTES as u64);
const UDP_HEADER: ByteCount = ByteCount::from_bytes(UDP_HEADER_BYTES as u64);

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(payload: Payload) -> Packet {
        Packet { source: NodeId(0), destination: NodeId(1), flow: 7, serial: 0, ecn: EcnCodepoint::NotCapable, payload }
    }

    #[test]
    fn the_size_counts_the_headers() {
        assert_eq!(packet(Payload::Sctp(Bytes::from_static(&[0; 100]))).size(), ByteCount::from_bytes(120));
        assert_eq!(packet(Payload::Secure(Bytes::from_static(&[0; 100]))).size(), ByteCount::from_bytes(128));
        let datagram = Datagram { bytes: 100, sent_at: Instant::ZERO, is_corrupted: false };
        assert_eq!(packet(Payload::Udp(datagram)).size(), ByteCount::from_bytes(128));
    }

    #[test]
    fn damage_flips_one_bit_of_this_copy_only() {
        let intact = packet(Payload::Sctp(Bytes::from_static(&[0; 4])));
        let mut damaged = intact.clone();
        damaged.corrupt(9);
        assert_eq!(damaged.payload, Payload::Sctp(Bytes::from_static(&[0, 2, 0, 0])));
        assert_eq!(intact.payload, Payload::Sctp(Bytes::from_static(&[0; 4])));
    }

    #[test]
    fn only_a_capable_transport_is_marked_instead_of_dropped() {
        let mut packet = packet(Payload::Sctp(Bytes::new()));
        assert!(!packet.is_ecn_capable());
        packet.ecn = EcnCodepoint::Capable;
        assert!(packet.is_ecn_capable());
        packet.mark_congestion();
        assert_eq!(packet.ecn, EcnCodepoint::CongestionExperienced);
    }
}
