//! IP packets around the transport packets of a capture.
//!
//! The headers are those of a plain sender: no options, hop limit 64, never fragmented, and right
//! checksums (RFC 791, RFC 8200, RFC 768).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use festina_units::EcnCodepoint;

/// The reason why a payload could not be put into an IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncapsulationError {
    /// The caller mixed an IPv4 address with an IPv6 address.
    #[error("{from} and {to} are not of the same address family")]
    MixedFamilies {
        /// The source address.
        from: IpAddr,
        /// The destination address.
        to: IpAddr,
    },
    /// The caller's payload is longer than the length field of a header can state.
    #[error("{payload_bytes} bytes of payload are too long for one IP packet")]
    TooLong {
        /// The payload's length.
        payload_bytes: usize,
    },
    /// The caller's TCP options are longer than a header can be.
    #[error("{options_bytes} bytes of TCP options are more than 40")]
    OptionsTooLong {
        /// Their length, padding included.
        options_bytes: usize,
    },
}

/// Puts an SCTP packet directly into an IP packet (protocol 132) with this ECN field.
///
/// # Errors
/// If the addresses are of different families or the packet is too long.
pub fn encapsulate_sctp(
    from: IpAddr,
    to: IpAddr,
    ecn: EcnCodepoint,
    sctp_packet: &[u8],
) -> Result<Vec<u8>, EncapsulationError> {
    const PROTOCOL_SCTP: u8 = 132;
    Addresses::of_one_family(from, to)?.encapsulate(PROTOCOL_SCTP, ecn, &[sctp_packet])
}

/// Puts a payload, such as an SCTP packet (RFC 6951), into a UDP datagram and that into an IP packet.
///
/// # Errors
/// If the addresses are of different families or the payload is too long.
pub fn encapsulate_udp(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Result<Vec<u8>, EncapsulationError> {
    const PROTOCOL_UDP: u8 = 17;
    let addresses = Addresses::of_one_family(from.ip(), to.ip())?;
    let too_long = EncapsulationError::TooLong { payload_bytes: payload.len() };
    let len = u16::try_from(payload.len() + UDP_HEADER_BYTES).map_err(|_| too_long)?;
    let mut header = Vec::with_capacity(UDP_HEADER_BYTES);
    for field in [from.port(), to.port(), len] {
        header.extend(field.to_be_bytes());
    }
    let mut checksum = addresses.pseudo_header(PROTOCOL_UDP, len);
    checksum.add(&header);
    checksum.add(payload);
    // Zero would mean that there is no checksum; its other form in ones' complement is sent instead.
    let checksum = match checksum.value() {
        0 => u16::MAX,
        sum => sum,
    };
    header.extend(checksum.to_be_bytes());
    addresses.encapsulate(PROTOCOL_UDP, EcnCodepoint::NotCapable, &[&header, payload]).map_err(|_| too_long)
}

pub(crate) const UDP_HEADER_BYTES: usize = 8;
const IPV4_HEADER_BYTES: usize = 20;
const IPV6_HEADER_BYTES: usize = 40;
const HOP_LIMIT: u8 = 64;

/// Source and destination.
pub(crate) enum Addresses {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

impl Addresses {
    pub(crate) fn of_one_family(from: IpAddr, to: IpAddr) -> Result<Self, EncapsulationError> {
        match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => Ok(Self::V4(from, to)),
            (IpAddr::V6(from), IpAddr::V6(to)) => Ok(Self::V6(from, to)),
            _ => Err(EncapsulationError::MixedFamilies { from, to }),
        }
    }

    /// The header for `protocol` with this ECN field, followed by the parts of the payload.
    pub(crate) fn encapsulate(
        &self,
        protocol: u8,
        ecn: EcnCodepoint,
        parts: &[&[u8]],
    ) -> Result<Vec<u8>, EncapsulationError> {
        let payload_bytes = parts.iter().map(|part| part.len()).sum();
        let too_long = EncapsulationError::TooLong { payload_bytes };
        let mut packet = match self {
            Self::V4(from, to) => {
                let total_len = u16::try_from(payload_bytes + IPV4_HEADER_BYTES);
                ipv4_header(*from, *to, protocol, ecn, total_len.map_err(|_| too_long)?)
            }
            Self::V6(from, to) => {
                let payload_len = u16::try_from(payload_bytes);
                ipv6_header(*from, *to, protocol, ecn, payload_len.map_err(|_| too_long)?)
            }
        };
        for part in parts {
            packet.extend(*part);
        }
        Ok(packet)
    }

    /// Returns the sum over the fields that a transport checksum covers besides the segment itself.
    pub(crate) fn pseudo_header(&self, protocol: u8, segment_len: u16) -> InternetChecksum {
        let mut checksum = InternetChecksum::default();
        match self {
            Self::V4(from, to) => {
                checksum.add(&from.octets());
                checksum.add(&to.octets());
            }
            Self::V6(from, to) => {
                checksum.add(&from.octets());
                checksum.add(&to.octets());
            }
        }
        checksum.add(&[0, protocol]);
        checksum.add(&segment_len.to_be_bytes());
        checksum
    }
}

fn ipv4_header(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, ecn: EcnCodepoint, total_len: u16) -> Vec<u8> {
    const VERSION_AND_HEADER_WORDS: u8 = 0x45;
    const IDENTIFICATION: [u8; 2] = [0, 0];
    const DONT_FRAGMENT: [u8; 2] = [0x40, 0];

    let total_len = total_len.to_be_bytes();
    let mut before_checksum = Vec::with_capacity(IPV4_HEADER_BYTES);
    before_checksum.extend([VERSION_AND_HEADER_WORDS, ecn.bits()]);
    before_checksum.extend(total_len);
    before_checksum.extend(IDENTIFICATION);
    before_checksum.extend(DONT_FRAGMENT);
    before_checksum.extend([HOP_LIMIT, protocol]);

    let mut checksum = InternetChecksum::default();
    checksum.add(&before_checksum);
    checksum.add(&from.octets());
    checksum.add(&to.octets());

    let mut header = before_checksum;
    header.extend(checksum.value().to_be_bytes());
    header.extend(from.octets());
    header.extend(to.octets());
    header
}

fn ipv6_header(from: Ipv6Addr, to: Ipv6Addr, protocol: u8, ecn: EcnCodepoint, payload_len: u16) -> Vec<u8> {
    const VERSION: u8 = 0x60;

    let mut header = Vec::with_capacity(IPV6_HEADER_BYTES);
    // The traffic class, whose lower end is ECN, begins in the middle of the first byte.
    header.extend([VERSION, ecn.bits() << 4, 0, 0]);
    header.extend(payload_len.to_be_bytes());
    header.extend([protocol, HOP_LIMIT]);
    header.extend(from.octets());
    header.extend(to.octets());
    header
}

/// The ones' complement sum of RFC 1071.
#[derive(Default)]
pub(crate) struct InternetChecksum {
    sum: u64,
}

impl InternetChecksum {
    /// Adds bytes; an odd number of them is padded with zero: only the last call may
    /// have an odd number.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let (words, odd) = bytes.as_chunks::<2>();
        for word in words {
            self.sum += u64::from(u16::from_be_bytes(*word));
        }
        if let [last] = odd {
            self.sum += u64::from(*last) << 8;
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the carries have been folded into the low 16 bits")]
    pub(crate) fn value(&self) -> u16 {
        let mut sum = self.sum;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4_A: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    const V4_B: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
    const V6_A: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
    const V6_B: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2));

    /// Returns the receiver's sum over data that contains its checksum: zero if it is correct.
    fn receiver_sum(parts: &[&[u8]]) -> u16 {
        let mut checksum = InternetChecksum::default();
        for part in parts {
            checksum.add(part);
        }
        checksum.value()
    }

    #[test]
    fn the_checksum_matches_the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(receiver_sum(&[&bytes]), !0xddf2);
        assert_eq!(receiver_sum(&[&[0x12, 0x34, 0x56]]), !(0x1234 + 0x5600));
    }

    #[test]
    fn an_ipv4_packet_has_its_ecn_field_length_protocol_and_checksum() {
        let packet = encapsulate_sctp(V4_A, V4_B, EcnCodepoint::Capable, &[7; 12]).expect("short");
        assert_eq!(packet.len(), 32);
        assert_eq!(packet[2..4], [0, 32]);
        assert_eq!((packet[1], packet[9]), (0b10, 132));
        assert_eq!(packet[12..20], [192, 0, 2, 1, 192, 0, 2, 2]);
        assert_eq!(packet[20..], [7; 12]);
        assert_eq!(receiver_sum(&[&packet[..20]]), 0);
    }

    #[test]
    fn an_ipv6_packet_has_its_ecn_field_length_and_protocol() {
        let packet = encapsulate_sctp(V6_A, V6_B, EcnCodepoint::CongestionExperienced, &[7; 12]).expect("short");
        assert_eq!(packet.len(), 52);
        assert_eq!(packet[..8], [0x60, 0x30, 0, 0, 0, 12, 132, 64]);
        assert_eq!(packet[40..], [7; 12]);
    }

    #[test]
    fn a_udp_datagram_has_its_ports_length_and_checksum() {
        for (from, to, ip_header_bytes) in [(V4_A, V4_B, 20), (V6_A, V6_B, 40)] {
            let addresses = Addresses::of_one_family(from, to).expect("one family");
            let (from, to) = (SocketAddr::new(from, 9899), SocketAddr::new(to, 9900));
            let packet = encapsulate_udp(from, to, b"odd").expect("short");
            let datagram = &packet[ip_header_bytes..];
            assert_eq!(datagram[..6], [0x26, 0xab, 0x26, 0xac, 0, 11]);
            assert_eq!(datagram[8..], *b"odd");
            let mut checksum = addresses.pseudo_header(17, 11);
            checksum.add(datagram);
            assert_eq!(checksum.value(), 0);
        }
    }

    #[test]
    fn a_udp_checksum_is_never_zero() {
        let from = SocketAddr::new(V4_A, 0);
        let to = SocketAddr::new(V4_B, 0);
        let without = encapsulate_udp(from, to, &[0, 0]).expect("short");
        // A payload equal to the checksum of the rest makes the sum all ones.
        let packet = encapsulate_udp(from, to, &without[26..28]).expect("short");
        assert_eq!(packet[26..28], [0xff, 0xff]);
    }

    #[test]
    fn mixed_families_are_refused() {
        let error = encapsulate_sctp(V4_A, V6_B, EcnCodepoint::NotCapable, &[]).expect_err("mixed");
        assert_eq!(error.to_string(), "192.0.2.1 and 2001:db8::2 are not of the same address family");
    }

    #[test]
    fn the_longest_payload_fits_and_the_next_does_not() {
        let bytes = vec![0; 65_536];
        let v4_max = 65_535 - 20;
        assert!(encapsulate_sctp(V4_A, V4_B, EcnCodepoint::Capable, &bytes[..v4_max]).is_ok());
        assert_eq!(
            encapsulate_sctp(V4_A, V4_B, EcnCodepoint::Capable, &bytes[..=v4_max]),
            Err(EncapsulationError::TooLong { payload_bytes: v4_max + 1 })
        );
        assert!(encapsulate_sctp(V6_A, V6_B, EcnCodepoint::CongestionExperienced, &bytes[..65_535]).is_ok());
        assert!(encapsulate_sctp(V6_A, V6_B, EcnCodepoint::CongestionExperienced, &bytes).is_err());
        let (from, to) = (SocketAddr::new(V4_A, 1), SocketAddr::new(V4_B, 2));
        assert!(encapsulate_udp(from, to, &bytes[..v4_max - 8]).is_ok());
        let too_long = v4_max - 7;
        assert_eq!(
            encapsulate_udp(from, to, &bytes[..too_long]),
            Err(EncapsulationError::TooLong { payload_bytes: too_long })
        );
    }
}
