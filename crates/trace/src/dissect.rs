//! From a captured packet to its transport: link, IP with its fragments, and tunnels of IP in IP, GRE, VXLAN, Geneve and GTP.

mod decryption;
mod fragments;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use decryption::{Decrypter, decrypted};
pub(crate) use decryption::{Encryption, SCTP_OVER_UDP_PORT};
use fragments::{Added, Fragment, Fragments, Key};

pub use decryption::Decryption;

use crate::bytes::{u16_at, u32_at};
use crate::read::{CapturedPacket, ReadError};

/// The data after the IP header.
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
    pub(crate) encryption: Encryption,
    /// IPv4's identification; `None` if it is zero, as in packets with the flag DF, or in IPv6.
    pub(crate) identification: Option<u16>,
    /// The place of the data in its packet, if it is a fragment.
    fragment: Option<Fragment>,
}

/// The supported link types.
mod link {
    pub(super) const NULL: u16 = 0;
    pub(super) const ETHERNET: u16 = 1;
    /// PPP, without and with the framing of HDLC, and in PPPoE.
    pub(super) const PPP: [u16; 2] = [9, 50];
    pub(super) const PPP_ETHER: u16 = 51;
    /// Bare IP; some systems write the number that they use internally.
    pub(super) const RAW: [u16; 3] = [12, 14, 101];
    pub(super) const CISCO_HDLC: u16 = 104;
    pub(super) const LOOP: u16 = 108;
    pub(super) const LINUX_COOKED: u16 = 113;
    pub(super) const IPV4: u16 = 228;
    pub(super) const IPV6: u16 = 229;
    pub(super) const LINUX_COOKED_2: u16 = 276;
}

/// Maximum number of VLAN tags, MPLS labels, IPv6 extension headers or tunnels in a row.
const NESTING_MAX: usize = 8;

/// The contents of a captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dissected<'a> {
    /// A transport, the innermost if IP packets are nested.
    Transport(Transport<'a>),
    /// A fragment whose packet is not complete yet.
    Fragment,
    /// A duplicate of a fragment.
    Again,
    /// No IP packet.
    Other,
}

/// Dissects the packets of a capture, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Dissector {
    fragments: Fragments,
    /// The packet that the latest fragment completed.
    whole: Vec<u8>,
    decrypter: Option<Decrypter>,
}

impl Dissector {
    /// Decrypts associations as well.
    pub(crate) fn with_decryption(decryption: Option<Decryption>) -> Self {
        Self { decrypter: decryption.map(Decrypter::new), ..Self::default() }
    }

    /// Returns the payload of a packet.
    pub(crate) fn dissect<'a>(&'a mut self, packet: &CapturedPacket<'a>) -> Result<Dissected<'a>, ReadError> {
        let missing = usize::try_from(packet.original_bytes).unwrap_or(usize::MAX).saturating_sub(packet.data.len());
        if let Some(decrypter) = &mut self.decrypter {
            decrypter.add_keys(packet.secrets);
        }
        let Some(found) = network(packet)?.and_then(|ip| ip_packet(ip, missing)).map(|ip| innermost(ip, missing))
        else {
            return Ok(Dissected::Other);
        };
        let Some(fragment) = found.fragment else {
            return Ok(Dissected::Transport(decrypted(&mut self.decrypter, found)));
        };
        let Transport { source, destination, protocol, .. } = found;
        let key = Key { source, destination, protocol, identification: fragment.identification };
        let len = match self.fragments.add(key, fragment, found.len, found.bytes, packet.at) {
            Added::Complete { len, bytes } => {
                self.whole = bytes;
                len
            }
            Added::Incomplete => return Ok(Dissected::Fragment),
            Added::Superfluous => return Ok(Dissected::Again),
            Added::Invalid => return Ok(Dissected::Other),
        };
        let whole = Transport { bytes: &self.whole, len, fragment: None, ..found };
        let whole = if source.is_ipv6() { behind_extensions(whole) } else { Some(whole) };
        // Fragments of fragments are ignored.
        let Some(whole) = whole.map(|whole| innermost(whole, 0)).filter(|whole| whole.fragment.is_none()) else {
            return Ok(Dissected::Other);
        };
        Ok(Dissected::Transport(decrypted(&mut self.decrypter, whole)))
    }

    /// The capture has ended: fragments whose packets are incomplete are given up.
    pub(crate) fn finish(&mut self) {
        self.fragments.finish();
    }

    /// Fragments that were given up so far.
    pub(crate) fn given_up(&self) -> u64 {
        self.fragments.given_up()
    }

    /// Packets of encrypted associations that could not be decrypted so far.
    pub(crate) fn closed(&self) -> u64 {
        self.decrypter.as_ref().map_or(0, Decrypter::closed)
    }
}

/// Returns the IP packet behind the header of the link, or `None` if there is none.
fn network<'a>(packet: &CapturedPacket<'a>) -> Result<Option<&'a [u8]>, ReadError> {
    let data = packet.data;
    let typed = |type_at: usize, len: usize| behind_ether_type(u16_at(data, type_at)?, data.get(len..)?);
    Ok(match packet.link_type {
        link::NULL | link::LOOP => data.get(4..),
        link::ETHERNET => ethernet(data),
        link_type if link::RAW.contains(&link_type) => Some(data),
        link_type if link::PPP.contains(&link_type) => ppp(data),
        link::PPP_ETHER => data.get(PPPOE_BYTES..).and_then(ppp),
        link::CISCO_HDLC => typed(2, 4),
        link::IPV4 | link::IPV6 => Some(data),
        link::LINUX_COOKED => typed(14, 16),
        link::LINUX_COOKED_2 => typed(0, 20),
        link_type => return Err(ReadError::LinkType { link_type, offset: packet.offset }),
    })
}

/// Returns the transport inside all tunnels, or the fragment that must be reassembled first.
fn innermost(mut found: Transport<'_>, missing: usize) -> Transport<'_> {
    for _ in 0..NESTING_MAX {
        if found.fragment.is_some() {
            break;
        }
        let Some(inner) = tunnelled(&found).and_then(|inner| ip_packet(inner, missing)) else {
            break;
        };
        found = inner;
    }
    found
}

/// Returns the data after an IP header of either version.
fn ip_packet(ip: &[u8], missing: usize) -> Option<Transport<'_>> {
    match ip.first()? >> 4 {
        4 => ipv4(ip, missing),
        6 => ipv6(ip, missing),
        _ => None,
    }
}

/// Returns the IP packet inside a tunnel's packet: IP in IP (RFC 2003, RFC 2473), GRE (RFC 2784, RFC 2890), VXLAN (RFC
/// 7348), Geneve (RFC 8926) or GTP-U (3GPP TS 29.281 §5).
fn tunnelled<'a>(outer: &Transport<'a>) -> Option<&'a [u8]> {
    const IP_IN_IP: [u8; 2] = [4, 41];
    const GRE: u8 = 47;
    const UDP: u8 = 17;
    const VXLAN_PORT: [u8; 2] = 4789u16.to_be_bytes();
    const UDP_AND_VXLAN_BYTES: usize = 16;
    const GENEVE_PORT: [u8; 2] = 6081u16.to_be_bytes();
    const GTP_PORT: [u8; 2] = 2152u16.to_be_bytes();
    const UDP_BYTES: usize = 8;

    match outer.protocol {
        protocol if IP_IN_IP.contains(&protocol) => Some(outer.bytes),
        GRE => gre(outer.bytes),
        UDP if outer.bytes.get(2..4) == Some(&VXLAN_PORT) => {
            // Of VXLAN's flags only the one for the network identifier must be set.
            let has_identifier = outer.bytes.get(8)? & 0x08 != 0;
            has_identifier.then(|| outer.bytes.get(UDP_AND_VXLAN_BYTES..).and_then(ethernet)).flatten()
        }
        UDP if outer.bytes.get(2..4) == Some(&GENEVE_PORT) => {
            let header = outer.bytes.get(UDP_BYTES..)?;
            // Version 0, and the length of the options in words.
            let options_bytes = 4 * usize::from(*header.first().filter(|first| **first < 0x40)?);
            behind_ether_type(u16_at(header, 2)?, header.get(8 + options_bytes..)?)
        }
        UDP if outer.bytes.get(2..4) == Some(&GTP_PORT) => gtp(outer.bytes.get(UDP_BYTES..)?),
        _ => None,
    }
}

/// Returns the user's packet behind a GTP-U header of version 1.
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

/// Returns the data after a GRE header of version 0.
fn gre(bytes: &[u8]) -> Option<&[u8]> {
    const VERSION: u8 = 0x07;
    const CHECKSUM_KEY_SEQUENCE: [u8; 3] = [0x80, 0x20, 0x10];

    let header = bytes.first_chunk::<4>()?;
    if header[1] & VERSION != 0 {
        return None;
    }
    let options = CHECKSUM_KEY_SEQUENCE.into_iter().filter(|flag| header[0] & flag != 0).count();
    let rest = bytes.get(4 + 4 * options..)?;
    behind_ether_type(u16_at(header, 2)?, rest)
}

/// Returns the IP packet in an Ethernet frame.
fn ethernet(data: &[u8]) -> Option<&[u8]> {
    behind_ether_type(u16_at(data, 12)?, data.get(14..)?)
}

const PPPOE_BYTES: usize = 6;

/// Returns the IP packet behind a field with this EtherType. Tags, labels or another header may come first.
fn behind_ether_type(mut ether_type: u16, mut rest: &[u8]) -> Option<&[u8]> {
    const IP: [u16; 2] = [0x0800, 0x86dd];
    const VLAN_TAGS: [u16; 4] = [0x8100, 0x88a8, 0x9100, 0x9200];
    const MPLS: [u16; 2] = [0x8847, 0x8848];
    const PPPOE_SESSION: u16 = 0x8864;
    const ETHERNET_BRIDGED: u16 = 0x6558;
    /// Smaller values are the length of an 802.3 frame, or Linux's number for one.
    const ETHER_TYPE_MIN: u16 = 0x0600;
    /// Service access points and control of 802.2, and SNAP's organisation for EtherTypes.
    const SNAP: &[u8] = &[0xaa, 0xaa, 3, 0, 0, 0];

    for _ in 0..NESTING_MAX {
        let type_at = match ether_type {
            ip if IP.contains(&ip) => return Some(rest),
            mpls if MPLS.contains(&mpls) => return behind_labels(rest),
            PPPOE_SESSION => return ppp(rest.get(PPPOE_BYTES..)?),
            ETHERNET_BRIDGED => 12,
            tag if VLAN_TAGS.contains(&tag) => 2,
            ..ETHER_TYPE_MIN if rest.starts_with(SNAP) => SNAP.len(),
            _ => return None,
        };
        ether_type = u16_at(rest, type_at)?;
        rest = rest.get(type_at + 2..)?;
    }
    None
}

/// Returns the IP packet behind labels of MPLS (RFC 3032 §2.1). They do not state the protocol; [`ip_packet`] looks at
/// its version.
fn behind_labels(mut rest: &[u8]) -> Option<&[u8]> {
    const BOTTOM_OF_STACK: u8 = 1;
    for _ in 0..NESTING_MAX {
        let (label, behind) = rest.split_first_chunk::<4>()?;
        if label[2] & BOTTOM_OF_STACK != 0 {
            return Some(behind);
        }
        rest = behind;
    }
    None
}

/// Returns the IP packet in a frame of PPP (RFC 1661 §2, RFC 1662 §3.1), whose fields may be compressed.
fn ppp(frame: &[u8]) -> Option<&[u8]> {
    const ADDRESS_AND_CONTROL: &[u8] = &[0xff, 3];
    const IPV4: u16 = 0x21;
    const IPV6: u16 = 0x57;
    let frame = frame.strip_prefix(ADDRESS_AND_CONTROL).unwrap_or(frame);
    let first = *frame.first()?;
    // The last byte of a protocol's number is odd.
    let (protocol, rest) =
        if first & 1 == 1 { (first.into(), frame.get(1..)?) } else { (u16_at(frame, 0)?, frame.get(2..)?) };
    [IPV4, IPV6].contains(&protocol).then_some(rest)
}

/// `missing` bytes were not captured.
fn ipv4(ip: &[u8], missing: usize) -> Option<Transport<'_>> {
    let header = ip.first_chunk::<20>()?;
    let header_len = usize::from(header[0] & 0x0f) * 4;
    if header_len < 20 {
        return None;
    }
    let offset = 8 * usize::from(u16::from_be_bytes([header[6] & 0x1f, header[7]]));
    let number = u16::from_be_bytes([header[4], header[5]]);
    let fragment = Fragment { identification: number.into(), offset, is_last: header[6] & 0x20 == 0 };
    let fragment = Some(fragment).filter(|fragment| !fragment.is_whole());
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
    let identification = Some(number).filter(|number| *number != 0);
    Some(Transport {
        source,
        destination,
        protocol: header[9],
        bytes,
        len,
        encryption: Encryption::None,
        identification,
        fragment,
    })
}

/// `missing` bytes were not captured.
fn ipv6(ip: &[u8], missing: usize) -> Option<Transport<'_>> {
    let (header, rest) = ip.split_first_chunk::<40>()?;
    let [source, destination] = [&header[8..24], &header[24..40]].map(|address| {
        IpAddr::from(address.first_chunk::<16>().copied().map_or(Ipv6Addr::UNSPECIFIED, Ipv6Addr::from))
    });
    let len = match u16::from_be_bytes([header[4], header[5]]) {
        // A jumbogram, or captured before the network card cut it into segments.
        0 => rest.len().saturating_add(missing),
        len => usize::from(len),
    };
    let bytes = rest.get(..len).unwrap_or(rest);
    let found = Transport {
        source,
        destination,
        protocol: header[6],
        bytes,
        len,
        encryption: Encryption::None,
        identification: None,
        fragment: None,
    };
    behind_extensions(found)
}

/// Returns the data after IPv6's extension headers (RFC 8200 §4, RFC 4302 §2.2), or the fragment among them.
fn behind_extensions(mut found: Transport<'_>) -> Option<Transport<'_>> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const AUTHENTICATION: u8 = 51;
    const DESTINATION: u8 = 60;
    const MOBILITY: u8 = 135;

    for _ in 0..NESTING_MAX {
        let bytes = found.bytes;
        let extension_len = match found.protocol {
            HOP_BY_HOP | ROUTING | DESTINATION | MOBILITY => 8 + 8 * usize::from(*bytes.get(1)?),
            AUTHENTICATION => 8 + 4 * usize::from(*bytes.get(1)?),
            FRAGMENT => {
                let place = u16_at(bytes, 2)?;
                let (identification, offset) = (u32_at(bytes, 4)?, usize::from(place & !7));
                let fragment = Fragment { identification, offset, is_last: place & 1 == 0 };
                found.fragment = Some(fragment).filter(|fragment| !fragment.is_whole());
                8
            }
            _ => return Some(found),
        };
        found.protocol = *bytes.first()?;
        found.bytes = bytes.get(extension_len..)?;
        found.len = found.len.checked_sub(extension_len)?;
        if found.fragment.is_some() {
            return Some(found);
        }
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
        CapturedPacket { number: 1, offset: 24, at: Instant::ZERO, link_type, data, original_bytes, secrets: &[] }
    }

    fn transport<'a>(packet: &CapturedPacket<'a>) -> Result<Option<Transport<'a>>, ReadError> {
        let missing = usize::try_from(packet.original_bytes).expect("short") - packet.data.len();
        Ok(network(packet)?.and_then(|ip| ip_packet(ip, missing)).map(|ip| innermost(ip, missing)))
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
        let cooked = |tags: &[u8]| [[0; 14].as_slice(), tags, &[0x08, 0x00]].concat();
        let [cooked, cooked_vlan] = [cooked(&[]), cooked(&[0x81, 0, 0, 7])];
        let cooked_2 = |ether_type: [u8; 2], tags: &[u8]| [ether_type.as_slice(), &[0; 18], tags].concat();
        let [cooked_2, cooked_2_vlan] = [cooked_2([8, 0], &[]), cooked_2([0x88, 0xa8], &[0, 7, 0x81, 0, 0, 8, 8, 0])];
        let ethernet_with = |rest: &[u8]| [[0; 12].as_slice(), rest].concat();
        let snap = ethernet_with(&[0, 68, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0]);
        let mpls = ethernet_with(&[0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64]);
        let pppoe = ethernet_with(&[0x88, 0x64, 0x11, 0, 0, 7, 0, 52, 0, 0x21]);
        let links: [(u16, &[u8]); 18] = [
            (0, &[0; 4]),
            (1, &ethernet),
            (1, &vlan),
            (1, &snap),
            (1, &mpls),
            (1, &pppoe),
            (9, &[0xff, 3, 0, 0x21]),
            (9, &[0x21]),
            (51, &[0x11, 0, 0, 7, 0, 52, 0, 0x21]),
            (12, &[]),
            (101, &[]),
            (104, &[0x0f, 0, 8, 0]),
            (108, &[0; 4]),
            (113, &cooked),
            (113, &cooked_vlan),
            (228, &[]),
            (276, &cooked_2),
            (276, &cooked_2_vlan),
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

    /// `payload` as the data after an IPv4 header with this protocol.
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
        let geneve =
            [[0, 1, 0x17, 0xc1, 0, 0, 0, 0].as_slice(), &[1, 0, 0x65, 0x58, 0, 0, 7, 0], &[0; 4], &ethernet].concat();
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
            ipv4_with(17, &geneve),
            ipv4_with(17, &gtp),
            ipv4_with(17, &gtp_with_all),
            ipv4_with(4, &ipv4_with(17, &vxlan)),
        ];
        for (index, tunnel) in tunnels.iter().enumerate() {
            let found = transport(&packet(101, tunnel)).expect("known").expect("an IP packet");
            assert_eq!((found.protocol, found.bytes), (132, [5; 30].as_slice()), "tunnel {index}");
            assert!(!found.source.to_string().starts_with("198"), "tunnel {index}");
        }
        // Packets that only look like tunnels are not unwrapped.
        let no_flag = [[0, 1, 0x12, 0xb5, 0, 0, 0, 0].as_slice(), &[0; 8], &ethernet].concat();
        let plain = ipv4_with(17, &no_flag);
        let found = transport(&packet(101, &plain)).expect("known").expect("an IP packet");
        assert_eq!(found.protocol, 17);
    }

    #[test]
    fn ipv6_extensions_are_looked_through_and_fragments_known() {
        let plain = bare(["2001:db8::1", "2001:db8::2"]);
        let found = transport(&packet(101, &plain)).expect("known").expect("an IP packet");
        assert_eq!((found.destination.to_string().as_str(), found.len), ("2001:db8::2", 30));
        for (place, is_part) in [(0, false), (8, true), (1, true)] {
            // Destination options, then a fragment header.
            let mut extended = plain[..40].to_vec();
            extended[6] = 60;
            extended[5] = 30 + 16;
            extended.extend([44, 0, 0, 0, 0, 0, 0, 0, 132, 0, 0, place, 0, 0, 0, 9]);
            extended.extend([5; 30]);
            let found = transport(&packet(101, &extended)).expect("known").expect("an IP packet");
            assert_eq!((found.protocol, found.len, found.fragment.is_some()), (132, 30, is_part));
        }
        let mut jumbo = plain;
        jumbo[4..6].copy_from_slice(&[0, 0]);
        let found = transport(&packet(101, &jumbo)).expect("known").expect("an IP packet");
        assert_eq!((found.bytes.len(), found.len), (30, 30), "the length is left out of a large packet");
    }

    #[test]
    fn fragments_of_either_version_are_put_together() {
        let ipv4 = |place: [u8; 2], range: std::ops::Range<u8>| {
            let mut fragment = ipv4_with(17, &range.collect::<Vec<_>>());
            fragment[4..6].copy_from_slice(&[0, 7]);
            fragment[6..8].copy_from_slice(&place);
            fragment
        };
        let ipv6 = |place: u8, range: std::ops::Range<u8>| {
            let mut fragment = bare(["2001:db8::1", "2001:db8::2"])[..40].to_vec();
            (fragment[5], fragment[6]) = (8 + range.end - range.start, 44);
            fragment.extend([17, 0, 0, place, 0, 0, 0, 7]);
            fragment.extend(range);
            fragment
        };
        for [first, last] in [[ipv4([0x20, 0], 0..24), ipv4([0, 3], 24..30)], [ipv6(1, 0..24), ipv6(24, 24..30)]] {
            for [one, other] in [[&first, &last], [&last, &first]] {
                let mut dissector = Dissector::default();
                let dissected = dissector.dissect(&packet(101, one)).expect("known");
                assert_eq!(dissected, Dissected::Fragment);
                let Dissected::Transport(whole) = dissector.dissect(&packet(101, other)).expect("known") else {
                    panic!("it is complete");
                };
                let bytes: Vec<u8> = (0..30).collect();
                assert_eq!((whole.protocol, whole.len, whole.bytes), (17, 30, bytes.as_slice()));
            }
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
            link_type in prop::sample::select(vec![0u16, 1, 9, 51, 101, 104, 113, 276]),
            protocol in prop::sample::select(vec![4u8, 17, 41, 47, 132]),
            data in proptest::collection::vec(any::<u8>(), 0..120),
        ) {
            let mut dissector = Dissector::default();
            let _ = dissector.dissect(&packet(link_type, &data));
            let _ = dissector.dissect(&packet(101, &ipv4_with(protocol, &data)));
        }
    }
}
