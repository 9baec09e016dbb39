//! An IP packet as a packet of a link: its flow, and the ECN field that a queue marks (RFC 3168).

use festina_netsim::LinkPacket;
use festina_units::ByteCount;

/// A packet on the links between TUN devices: a whole IP packet.
#[derive(Debug, Clone)]
pub(super) struct IpPacket {
    pub(super) bytes: Vec<u8>,
}

const ECN_MASK: u8 = 0b11;
const NOT_ECN_CAPABLE: u8 = 0b00;
const CONGESTION_EXPERIENCED: u8 = 0b11;

/// The version of IP, as far as it matters here.
enum Version {
    V4,
    V6,
}

impl IpPacket {
    fn version(&self) -> Option<Version> {
        match self.bytes.first()? >> 4 {
            4 => Some(Version::V4),
            6 => Some(Version::V6),
            _ => None,
        }
    }

    fn ecn(&self) -> Option<u8> {
        let second = self.bytes.get(1)?;
        match self.version()? {
            Version::V4 => Some(second & ECN_MASK),
            Version::V6 => Some((second >> 4) & ECN_MASK),
        }
    }

    /// Returns the bytes that identify the flow: addresses, protocol, and ports if they are at their place.
    fn flow_key(&self) -> Option<[&[u8]; 3]> {
        let bytes = &self.bytes;
        let (protocol, addresses, ports_at) = match self.version()? {
            Version::V4 => {
                let header_bytes = usize::from(bytes.first()? & 0xf) * 4;
                // Only the first fragment has ports, so ports do not distinguish fragments.
                let fragment = u16::from_be_bytes(*bytes.get(6..)?.first_chunk()?) & 0x3fff;
                (9, 12..20, (fragment == 0).then_some(header_bytes))
            }
            Version::V6 => (6, 8..40, Some(40)),
        };
        let ports = ports_at.and_then(|at| bytes.get(at..at + 4)).unwrap_or_default();
        Some([bytes.get(protocol..=protocol)?, bytes.get(addresses)?, ports])
    }
}

impl LinkPacket for IpPacket {
    fn size(&self) -> ByteCount {
        self.bytes.size()
    }

    fn corrupt(&mut self, entropy: u64) {
        self.bytes.corrupt(entropy);
    }

    fn flow(&self) -> u64 {
        let key = self.flow_key().unwrap_or_default();
        key.iter()
            .flat_map(|part| part.iter())
            .fold(FNV_BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
    }

    fn is_ecn_capable(&self) -> bool {
        self.ecn().is_some_and(|ecn| ecn != NOT_ECN_CAPABLE)
    }

    fn mark_congestion(&mut self) {
        let version = self.version();
        let Some([first, second, ..]) = self.bytes.first_chunk_mut::<2>() else { return };
        let before = u16::from_be_bytes([*first, *second]);
        match version {
            Some(Version::V4) => {
                *second |= CONGESTION_EXPERIENCED;
                let after = u16::from_be_bytes([*first, *second]);
                if let Some(checksum) = self.bytes.get_mut(10..12).and_then(|bytes| bytes.first_chunk_mut()) {
                    *checksum = updated_checksum(u16::from_be_bytes(*checksum), before, after).to_be_bytes();
                }
            }
            // IPv6 has no checksum.
            Some(Version::V6) => *second |= CONGESTION_EXPERIENCED << 4,
            None => {}
        }
    }
}

// The parameters of FNV-1a, a hash that is the same everywhere.
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// The Internet checksum of a header after one word has changed (RFC 1624, equation 3).
fn updated_checksum(checksum: u16, before: u16, after: u16) -> u16 {
    !ones_complement_sum(ones_complement_sum(!checksum, !before), after)
}

fn ones_complement_sum(a: u16, b: u16) -> u16 {
    let (sum, carries) = a.overflowing_add(b);
    sum + u16::from(carries)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet of 24 bytes: a header with its checksum, and ports.
    fn ipv4(ecn: u8, source_port: u16) -> IpPacket {
        let mut bytes = vec![0x45, 0xb8 | ecn, 0, 24, 0, 7, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let checksum = !header_sum(&bytes);
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        bytes.extend(source_port.to_be_bytes());
        bytes.extend([0, 80]);
        IpPacket { bytes }
    }

    fn ipv6(ecn: u8) -> IpPacket {
        let mut bytes = vec![0; 44];
        (bytes[0], bytes[1]) = (0x60, ecn << 4);
        IpPacket { bytes }
    }

    /// The ones' complement sum of a header, which is 0xffff if its checksum is right (RFC 1071).
    fn header_sum(bytes: &[u8]) -> u16 {
        let sum: u32 = bytes.as_chunks().0.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
        u16::try_from((sum & 0xffff) + (sum >> 16)).expect("ten words carry little")
    }

    #[test]
    fn a_mark_sets_both_bits_and_the_checksum_stays_right() {
        for ecn in [1, 2, 3] {
            let mut packet = ipv4(ecn, 1);
            assert!(packet.is_ecn_capable());
            packet.mark_congestion();
            assert_eq!(packet.bytes[1], 0xbb, "the DSCP stays");
            assert_eq!(header_sum(&packet.bytes[..20]), 0xffff);
            let mut packet = ipv6(ecn);
            assert!(packet.is_ecn_capable());
            packet.mark_congestion();
            assert_eq!(packet.bytes[..2], [0x60, 0x30]);
        }
    }

    #[test]
    fn what_is_not_capable_of_ecn_is_told_apart() {
        assert!(!ipv4(0, 1).is_ecn_capable());
        assert!(!ipv6(0).is_ecn_capable());
        assert!(!IpPacket { bytes: vec![0xff, 0xff] }.is_ecn_capable());
        assert!(!IpPacket { bytes: Vec::new() }.is_ecn_capable());
    }

    #[test]
    fn ports_make_flows_and_fragments_have_none() {
        assert_eq!(ipv4(0, 1).flow(), ipv4(2, 1).flow());
        assert_ne!(ipv4(0, 1).flow(), ipv4(0, 2).flow());
        let fragment = |port| {
            let mut packet = ipv4(0, port);
            packet.bytes[7] = 1;
            packet.flow()
        };
        assert_eq!(fragment(1), fragment(2));
    }

    #[test]
    fn no_packet_is_too_short() {
        for length in 0..24 {
            for whole in [ipv4(1, 1), ipv6(1)] {
                let mut packet = IpPacket { bytes: whole.bytes[..length].to_vec() };
                packet.flow();
                packet.is_ecn_capable();
                packet.mark_congestion();
                assert_eq!(packet.size(), ByteCount::from_len(length));
            }
        }
    }
}
