//! From a captured packet to its transport: link, IP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::read::{CapturedPacket, ReadError};

/// What follows the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transport<'a> {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// The number of the protocol: 6 is TCP, 17 UDP, 132 SCTP.
    pub(crate) protocol: u8,
    /// Header and payload, as far as they were captured.
    pub(crate) bytes: &'a [u8],
    /// How long header and payload were on the link.
    pub(crate) len: usize,
}

/// The kinds of links that are known.
mod link {
    pub(super) const NULL: u16 = 0;
    pub(super) const ETHERNET: u16 = 1;
    /// Bare IP; some systems write the number that they use internally.
    pub(super) const RAW: [u16; 3] = [12, 14, 101];
    pub(super) const LOOP: u16 = 108;
    pub(super) const LINUX_COOKED: u16 = 113;
    pub(super) const IPV4: u16 = 228;
    pub(super) const IPV6: u16 = 229;
    pub(super) const LINUX_COOKED_2: u16 = 276;
}

/// VLAN tags and IPv6 extension headers in a row that are looked through.
const NESTING_MAX: usize = 8;

/// The transport inside of a packet; `None` if it is no IP packet, or not the first fragment of one.
pub(crate) fn transport<'a>(packet: &CapturedPacket<'a>) -> Result<Option<Transport<'a>>, ReadError> {
    let data = packet.data;
    let ip = match packet.link_type {
        link::NULL | link::LOOP => data.get(4..),
        link::ETHERNET => ethernet(data),
        link_type if link::RAW.contains(&link_type) => Some(data),
        link::IPV4 | link::IPV6 => Some(data),
        link::LINUX_COOKED => data.get(16..),
        link::LINUX_COOKED_2 => data.get(20..),
        link_type => return Err(ReadError::LinkType { link_type }),
    };
    let Some(ip) = ip else {
        return Ok(None);
    };
    let missing = usize::try_from(packet.original_bytes).unwrap_or(usize::MAX).saturating_sub(data.len());
    Ok(match ip.first().map(|first| first >> 4) {
        Some(4) => ipv4(ip, missing),
        Some(6) => ipv6(ip),
        _ => None,
    })
}

/// What follows the Ethernet header and VLAN tags.
fn ethernet(data: &[u8]) -> Option<&[u8]> {
    const VLAN_TAGS: [u16; 2] = [0x8100, 0x88a8];
    const IP: [u16; 2] = [0x0800, 0x86dd];
    let mut rest = data.get(12..)?;
    for _ in 0..NESTING_MAX {
        let (ether_type, behind) = rest.split_first_chunk::<2>()?;
        let ether_type = u16::from_be_bytes(*ether_type);
        if !VLAN_TAGS.contains(&ether_type) {
            return IP.contains(&ether_type).then_some(behind);
        }
        rest = behind.get(2..)?;
    }
    None
}

/// `missing` bytes were not captured.
fn ipv4(ip: &[u8], missing: usize) -> Option<Transport<'_>> {
    let header = ip.first_chunk::<20>()?;
    let header_len = usize::from(header[0] & 0x0f) * 4;
    let fragment_offset = u16::from_be_bytes([header[6] & 0x1f, header[7]]);
    if header_len < 20 || fragment_offset != 0 {
        return None;
    }
    let total_len = match u16::from_be_bytes([header[2], header[3]]) {
        // Captured before the network card cut it into segments.
        0 => ip.len().saturating_add(missing),
        total_len => usize::from(total_len),
    };
    let [source, destination] = [&header[12..16], &header[16..20]]
        .map(|address| IpAddr::from(address.first_chunk::<4>().copied().map_or(Ipv4Addr::UNSPECIFIED, Ipv4Addr::from)));
    let len = total_len.checked_sub(header_len)?;
    let bytes = ip.get(header_len..)?;
    let bytes = bytes.get(..len).unwrap_or(bytes);
    Some(Transport { source, destination, protocol: header[9], bytes, len })
}

fn ipv6(ip: &[u8]) -> Option<Transport<'_>> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const DESTINATION: u8 = 60;

    let (header, rest) = ip.split_first_chunk::<40>()?;
    let [source, destination] = [&header[8..24], &header[24..40]].map(|address| {
        IpAddr::from(address.first_chunk::<16>().copied().map_or(Ipv6Addr::UNSPECIFIED, Ipv6Addr::from))
    });
    let mut len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let mut bytes = rest.get(..len).unwrap_or(rest);
    let mut protocol = header[6];
    for _ in 0..NESTING_MAX {
        let extension_len = match protocol {
            HOP_BY_HOP | ROUTING | DESTINATION => 8 + 8 * usize::from(*bytes.get(1)?),
            FRAGMENT if u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]) >> 3 == 0 => 8,
            FRAGMENT => return None,
            _ => return Some(Transport { source, destination, protocol, bytes, len }),
        };
        protocol = *bytes.first()?;
        bytes = bytes.get(extension_len..)?;
        len = len.checked_sub(extension_len)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use festina_units::Instant;
    use proptest::prelude::*;

    use super::*;
    use crate::ip;

    fn packet(link_type: u16, data: &[u8]) -> CapturedPacket<'_> {
        let original_bytes = u32::try_from(data.len()).expect("short");
        CapturedPacket { at: Instant::ZERO, link_type, data, original_bytes }
    }

    fn bare(addresses: [&str; 2]) -> Vec<u8> {
        let [from, to] = addresses.map(|text| text.parse().expect("an address"));
        ip::encapsulate_sctp(from, to, &[5; 30]).expect("short")
    }

    #[test]
    fn ip_is_found_behind_every_known_link_header() {
        let bare = bare(["192.0.2.1", "192.0.2.2"]);
        let ethernet = [[0; 12].as_slice(), &[0x08, 0x00]].concat();
        let vlan = [[0; 12].as_slice(), &[0x81, 0x00, 0, 7, 0x08, 0x00]].concat();
        let links: [(u16, &[u8]); 9] = [
            (0, &[0; 4]),
            (1, &ethernet),
            (1, &vlan),
            (12, &[]),
            (101, &[]),
            (108, &[0; 4]),
            (113, &[0; 16]),
            (228, &[]),
            (276, &[0; 20]),
        ];
        for (link_type, header) in links {
            let data = [header, &bare].concat();
            let transport = transport(&packet(link_type, &data)).expect("a known link").expect("an IP packet");
            assert_eq!(
                (transport.protocol, transport.bytes, transport.len),
                (132, [5; 30].as_slice(), 30),
                "{link_type}"
            );
            assert_eq!(transport.source.to_string(), "192.0.2.1");
        }
        let error = transport(&packet(105, &bare)).expect_err("wireless frames");
        assert!(error.to_string().contains("link type 105"), "{error}");
    }

    #[test]
    fn ipv6_extensions_are_looked_through_and_later_fragments_left_out() {
        let plain = bare(["2001:db8::1", "2001:db8::2"]);
        let found = transport(&packet(101, &plain)).expect("known").expect("an IP packet");
        assert_eq!((found.destination.to_string().as_str(), found.len), ("2001:db8::2", 30));
        for (fragment_offset, is_found) in [(0, true), (8, false)] {
            // Destination options, then a fragment header.
            let mut extended = plain[..40].to_vec();
            extended[6] = 60;
            extended[5] = 30 + 16;
            extended.extend([44, 0, 0, 0, 0, 0, 0, 0, 132, 0, 0, fragment_offset, 0, 0, 0, 0]);
            extended.extend([5; 30]);
            let found = transport(&packet(101, &extended)).expect("known");
            assert_eq!(found.map(|found| (found.protocol, found.len)), is_found.then_some((132, 30)));
        }
    }

    #[test]
    fn padding_behind_the_packet_is_left_out_and_what_was_not_captured_counts() {
        let bare = bare(["192.0.2.1", "192.0.2.2"]);
        let padded = [bare.as_slice(), &[0; 9]].concat();
        assert_eq!(transport(&packet(101, &padded)).expect("known").expect("IP").bytes.len(), 30);
        let cut = transport(&packet(101, &bare[..25])).expect("known").expect("IP");
        assert_eq!((cut.bytes.len(), cut.len), (5, 30));
    }

    proptest! {
        #[test]
        fn arbitrary_packets_never_panic(
            link_type in prop::sample::select(vec![0u16, 1, 101, 113, 276]),
            data in proptest::collection::vec(any::<u8>(), 0..120),
        ) {
            let _ = transport(&packet(link_type, &data));
        }
    }
}
