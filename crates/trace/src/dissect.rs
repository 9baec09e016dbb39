//! From a captured packet to its transport: link, IP with its fragments, and tunnels of IP in IP, GRE, VXLAN, Geneve and GTP.

mod decryption;
mod fragments;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use decryption::{Decrypter, decrypted};
pub(crate) use decryption::{Encryption, SCTP_OVER_UDP_PORT};
use fragments::{Added, Fragment, Fragments, Key};

pub use decryption::Decryption;

use crate::bytes::{u16_at, u32_at};
use crate::error::ReadError;
use crate::read::CapturedPacket;

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
    /// Whether a packet had a supported type of link, and the first that had another: its type and place.
    has_known_link: bool,
    unknown_link: Option<(u16, u64)>,
}

impl Dissector {
    /// Decrypts associations as well.
    pub(crate) fn with_decryption(decryption: Option<Decryption>) -> Self {
        Self { decrypter: decryption.map(Decrypter::new), ..Self::default() }
    }

    /// Returns the payload of a packet.
    pub(crate) fn dissect<'a>(&'a mut self, packet: &CapturedPacket<'a>) -> Dissected<'a> {
        let missing = usize::try_from(packet.original_bytes).unwrap_or(usize::MAX).saturating_sub(packet.data.len());
        if let Some(decrypter) = &mut self.decrypter {
            decrypter.add_keys(packet.secrets);
        }
        let Some(network) = network(packet) else {
            self.unknown_link.get_or_insert((packet.link_type, packet.offset));
            return Dissected::Other;
        };
        self.has_known_link = true;
        let Some(found) = network.and_then(|ip| ip_packet(ip, missing)).map(|ip| innermost(ip, missing)) else {
            return Dissected::Other;
        };
        let Some(fragment) = found.fragment else {
            return Dissected::Transport(decrypted(&mut self.decrypter, found));
        };
        let Transport { source, destination, protocol, .. } = found;
        let key = Key { source, destination, protocol, identification: fragment.identification };
        let len = match self.fragments.add(key, fragment, found.len, found.bytes, packet.at) {
            Added::Complete { len, bytes } => {
                self.whole = bytes;
                len
            }
            Added::Incomplete => return Dissected::Fragment,
            Added::Superfluous => return Dissected::Again,
            Added::Invalid => return Dissected::Other,
        };
        let whole = Transport { bytes: &self.whole, len, fragment: None, ..found };
        let whole = if source.is_ipv6() { behind_extensions(whole) } else { Some(whole) };
        // Fragments of fragments are ignored.
        let Some(whole) = whole.map(|whole| innermost(whole, 0)).filter(|whole| whole.fragment.is_none()) else {
            return Dissected::Other;
        };
        Dissected::Transport(decrypted(&mut self.decrypter, whole))
    }

    /// The capture has ended: fragments whose packets are incomplete are given up.
    pub(crate) fn finish(&mut self) {
        self.fragments.finish();
    }

    /// Returns an error if packets were captured, but none on a supported type of link.
    pub(crate) fn link_error(&self) -> Result<(), ReadError> {
        match self.unknown_link {
            Some((link_type, offset)) if !self.has_known_link => Err(ReadError::LinkType { link_type, offset }),
            _ => Ok(()),
        }
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

/// Returns the IP packet behind the header of the link, if there is one, or `None` if the type of link is not supported.
fn network<'a>(packet: &CapturedPacket<'a>) -> Option<Option<&'a [u8]>> {
    let data = packet.data;
    let typed = |type_at: usize, len: usize| behind_ether_type(u16_at(data, type_at)?, data.get(len..)?);
    Some(match packet.link_type {
        link::NULL | link::LOOP => data.get(4..),
        link::ETHERNET => ethernet(data),
        link_type if link::RAW.contains(&link_type) => Some(data),
        link_type if link::PPP.contains(&link_type) => ppp(data),
        link::PPP_ETHER => data.get(PPPOE_BYTES..).and_then(ppp),
        link::CISCO_HDLC => typed(2, 4),
        link::IPV4 | link::IPV6 => Some(data),
        link::LINUX_COOKED => typed(14, 16),
        link::LINUX_COOKED_2 => typed(0, 20),
        _ => return None,
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
mod tests;
