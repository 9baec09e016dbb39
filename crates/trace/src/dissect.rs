//! From a captured packet to its transport: link, IP, and tunnels of IP in IP, GRE, VXLAN and GTP.

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
    /// IPv4's identification; `None` if it is zero, as of packets that nobody may cut, or of IPv6.
    pub(crate) identification: Option<u16>,
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

/// VLAN tags, IPv6 extension headers or tunnels in a row that are looked through.
const NESTING_MAX: usize = 8;

/// The transport inside of a packet, the innermost if IP packets are nested; `None` if it is no IP packet, or not the first fragment of
/// one.
pub(crate) fn transport<'a>(packet: &CapturedPacket<'a>) -> Result<Option<Transport<'a>>, ReadError> {
    let data = packet.data;
    let ip = match packet.link_type {
        link::NULL | link::LOOP => data.get(4..),
        link::ETHERNET => ethernet(data),
        link_type if link::RAW.contains(&link_type) => Some(data),
        link::IPV4 | link::IPV6 => Some(data),
        link::LINUX_COOKED => data.get(16..),
        link::LINUX_COOKED_2 => data.get(20..),
        link_type => return Err(ReadError::LinkType { link_type, offset: packet.offset }),
    };
    let missing = usize::try_from(packet.original_bytes).unwrap_or(usize::MAX).saturating_sub(data.len());
    let Some(mut found) = ip.and_then(|ip| ip_packet(ip, missing)) else {
        return Ok(None);
    };
    for _ in 0..NESTING_MAX {
        let Some(inner) = tunnelled(&found).and_then(|inner| ip_packet(inner, missing)) else {
            break;
        };
        found = inner;
    }
    Ok(Some(found))
}

/// What follows an IP header of either version.
fn ip_packet(ip: &[u8], missing: usize) -> Option<Transport<'_>> {
    match ip.first()? >> 4 {
        4 => ipv4(ip, missing),
        6 => ipv6(ip),
        _ => None,
    }
}

/// The IP packet inside of a tunnel's: IP in IP (RFC 2003, RFC 2473), GRE (RFC 2784, RFC 2890), VXLAN (RFC 7348) or GTP-U (3GPP TS 29.281 §5).
fn tunnelled<'a>(outer: &Transport<'a>) -> Option<&'a [u8]> {
    const IP_IN_IP: [u8; 2] = [4, 41];
    const GRE: u8 = 47;
    const UDP: u8 = 17;
    const VXLAN_PORT: [u8; 2] = 4789u16.to_be_bytes();
    const UDP_AND_VXLAN_BYTES: usize = 16;
    const GTP_PORT: [u8; 2] = 2152u16.to_be_bytes();
    const UDP_BYTES: usize = 8;

    match outer.protocol {
        protocol if IP_IN_IP.contains(&protocol) => Some(outer.bytes),
        GRE => gre(outer.bytes),
        UDP if outer.bytes.get(2..4) == Some(&VXLAN_PORT) => {
            // Of VXLAN's flags only the one that says that there is a network identifier must be set.
            let has_identifier = outer.bytes.get(8)? & 0x08 != 0;
            has_identifier.then(|| outer.bytes.get(UDP_AND_VXLAN_BYTES..).and_then(ethernet)).flatten()
        }
        UDP if outer.bytes.get(2..4) == Some(&GTP_PORT) => gtp(outer.bytes.get(UDP_BYTES..)?),
        _ => None,
    }
}

/// The user's packet behind a GTP-U header of version 1.
fn gtp(bytes: &[u8]) -> Option<&[u8]> {
    const VERSION_AND_KIND: u8 = 0xf0;
    const VERSION_1: u8 = 0x30;
    const EXTENSION_SEQUENCE_NUMBER: u8 = 0x07;
    const HAS_EXTENSION: u8 = 0x04;
    const USER_PACKET: u8 = 0xff;

    let header = bytes.first_chunk::<8>()?;
    if header[0] & VERSION_AND_KIND != VERSION_1 || header[1] != USER_PACKET {
        return None;
    }
    if header[0] & EXTENSION_SEQUENCE_NUMBER == 0 {
        return bytes.get(8..);
    }
    let mut rest = bytes.get(12..)?;
    let mut has_extension = header[0] & HAS_EXTENSION != 0 && *bytes.get(11)? != 0;
    for _ in 0..NESTING_MAX {
        if !has_extension {
            return Some(rest);
        }
        let words = usize::from(*rest.first()?);
        let end = (4 * words).checked_sub(1)?;
        has_extension = *rest.get(end)? != 0;
        rest = rest.get(end + 1..)?;
    }
    None
}

/// What follows a GRE header of version 0.
fn gre(bytes: &[u8]) -> Option<&[u8]> {
    const ETHERNET_BRIDGED: u16 = 0x6558;
    const VERSION: u8 = 0x07;
    const CHECKSUM_KEY_SEQUENCE: [u8; 3] = [0x80, 0x20, 0x10];

    let header = bytes.first_chunk::<4>()?;
    if header[1] & VERSION != 0 {
        return None;
    }
    let options = CHECKSUM_KEY_SEQUENCE.into_iter().filter(|flag| header[0] & flag != 0).count();
    let rest = bytes.get(4 + 4 * options..)?;
    match u16::from_be_bytes([header[2], header[3]]) {
        ETHERNET_BRIDGED => ethernet(rest),
        ether_type => ETHER_TYPES_OF_IP.contains(&ether_type).then_some(rest),
    }
}

const ETHER_TYPES_OF_IP: [u16; 2] = [0x0800, 0x86dd];

/// What follows the Ethernet header and VLAN tags.
fn ethernet(data: &[u8]) -> Option<&[u8]> {
    const VLAN_TAGS: [u16; 2] = [0x8100, 0x88a8];
    let mut rest = data.get(12..)?;
    for _ in 0..NESTING_MAX {
        let (ether_type, behind) = rest.split_first_chunk::<2>()?;
        let ether_type = u16::from_be_bytes(*ether_type);
        if !VLAN_TAGS.contains(&ether_type) {
            return ETHER_TYPES_OF_IP.contains(&ether_type).then_some(behind);
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
    let identification = Some(u16::from_be_bytes([header[4], header[5]])).filter(|number| *number != 0);
    Some(Transport { source, destination, protocol: header[9], bytes, len, identification })
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
            _ => return Some(Transport { source, destination, protocol, bytes, len, identification: None }),
        };
        protocol = *bytes.first()?;
        bytes = bytes.get(extension_len..)?;
        len = len.checked_sub(extension_len)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use festina_units::{EcnCodepoint, Instant};
    use proptest::prelude::*;

    use super::*;
    use crate::ip;

    fn packet(link_type: u16, data: &[u8]) -> CapturedPacket<'_> {
        let original_bytes = u32::try_from(data.len()).expect("short");
        CapturedPacket { number: 1, offset: 24, at: Instant::ZERO, link_type, data, original_bytes }
    }

    fn bare(addresses: [&str; 2]) -> Vec<u8> {
        let [from, to] = addresses.map(|text| text.parse().expect("an address"));
        ip::encapsulate_sctp(from, to, EcnCodepoint::NotCapable, &[5; 30]).expect("short")
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
        assert!(error.to_string().contains("link type 105 cannot be read, first at byte 24"), "{error}");
    }

    /// `payload` as what follows an IPv4 header with this protocol.
    fn ipv4_with(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let [from, to] = ["198.51.100.1", "198.51.100.2"].map(|text| text.parse().expect("an address"));
        let mut packet = ip::encapsulate_sctp(from, to, EcnCodepoint::NotCapable, payload).expect("short");
        packet[9] = protocol;
        packet
    }

    #[test]
    fn tunnels_are_looked_through_however_they_are_nested() {
        let inner = bare(["192.0.2.1", "192.0.2.2"]);
        let ethernet = [[0; 12].as_slice(), &[0x08, 0x00], &inner].concat();
        let gre = [[0, 0, 0x08, 0].as_slice(), &inner].concat();
        let gre_with_all = [[0xb0, 0, 0x08, 0].as_slice(), &[1; 12], &inner].concat();
        let bridged = [[0x20, 0, 0x65, 0x58].as_slice(), &[1; 4], &ethernet].concat();
        let vxlan = [[0, 1, 0x12, 0xb5, 0, 0, 0, 0].as_slice(), &[8, 0, 0, 0, 0, 0, 7, 0], &ethernet].concat();
        let gtp = [[0, 1, 0x08, 0x68, 0, 0, 0, 0].as_slice(), &[0x30, 0xff, 0, 50, 0, 0, 0, 7], &inner].concat();
        let gtp_head = [0x36, 0xff, 0, 50, 0, 0, 0, 7, 0, 9, 0, 0x85];
        let gtp_with_all =
            [[0, 1, 0x08, 0x68, 0, 0, 0, 0].as_slice(), &gtp_head, &[1, 0, 9, 0xc0, 1, 0, 9, 0], &inner].concat();
        let tunnels = [
            ipv4_with(4, &inner),
            ipv4_with(41, &bare(["2001:db8::1", "2001:db8::2"])),
            ipv4_with(47, &gre),
            ipv4_with(47, &gre_with_all),
            ipv4_with(47, &bridged),
            ipv4_with(17, &vxlan),
            ipv4_with(17, &gtp),
            ipv4_with(17, &gtp_with_all),
            ipv4_with(4, &ipv4_with(17, &vxlan)),
        ];
        for (index, tunnel) in tunnels.iter().enumerate() {
            let found = transport(&packet(101, tunnel)).expect("known").expect("an IP packet");
            assert_eq!((found.protocol, found.bytes), (132, [5; 30].as_slice()), "tunnel {index}");
            assert!(!found.source.to_string().starts_with("198"), "tunnel {index}");
        }
        // What only looks like a tunnel stays what it is.
        let no_flag = [[0, 1, 0x12, 0xb5, 0, 0, 0, 0].as_slice(), &[0; 8], &ethernet].concat();
        let plain = ipv4_with(17, &no_flag);
        let found = transport(&packet(101, &plain)).expect("known").expect("an IP packet");
        assert_eq!(found.protocol, 17);
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
            protocol in prop::sample::select(vec![4u8, 17, 41, 47, 132]),
            data in proptest::collection::vec(any::<u8>(), 0..120),
        ) {
            let _ = transport(&packet(link_type, &data));
            let _ = transport(&packet(101, &ipv4_with(protocol, &data)));
        }
    }
}
