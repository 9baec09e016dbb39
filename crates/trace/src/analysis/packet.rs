//! A captured packet as part of a conversation.

use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

use festina_sctp::wire::Packet;

use super::headers::{Sctp, Tcp};
use crate::bytes::u16_at;
use crate::dissect::{Encryption, SCTP_OVER_UDP_PORT, Transport};
use crate::ip::UDP_HEADER_BYTES;
use crate::protocol::Protocol;

/// One end of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct End {
    pub(super) address: IpAddr,
    pub(super) port: u16,
    /// The port of UDP if SCTP is inside, else 0.
    pub(super) udp_port: u16,
}

impl End {
    pub(super) fn socket(self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }

    fn ports(self) -> u32 {
        u32::from(self.port) << 16 | u32::from(self.udp_port)
    }

    fn address_bits(self) -> u128 {
        match self.address {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        }
    }
}

/// The two ends of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) protocol: Protocol,
    /// In ascending order.
    pub(super) ends: [End; 2],
}

impl Hash for Key {
    /// The table is queried for every packet, and few large words are the fastest to hash. Protocols between the same
    /// ends share a hash.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [first, second] = self.ends;
        let ports = u64::from(first.ports()) << 32 | u64::from(second.ports());
        if let (IpAddr::V4(first), IpAddr::V4(second)) = (first.address, second.address) {
            let addresses = u64::from(first.to_bits()) << 32 | u64::from(second.to_bits());
            state.write_u128(u128::from(addresses) << 64 | u128::from(ports));
        } else {
            state.write_u128(first.address_bits());
            state.write_u128(second.address_bits());
            state.write_u64(ports);
        }
    }
}

/// The contents of a packet.
pub(super) enum Content<'s> {
    Tcp(Tcp),
    Sctp(&'s Sctp),
    Udp { payload_bytes: u32 },
}

/// A packet of a conversation.
pub(super) struct Parsed<'s> {
    pub(super) key: Key,
    /// Which of the ends sent it.
    pub(super) from: usize,
    /// Where it came from and went to, which in an association of several paths may be other addresses than those of its ends.
    pub(super) source: End,
    pub(super) destination: End,
    pub(super) content: Content<'s>,
    /// Transport header and payload.
    pub(super) transport_bytes: u64,
    /// IPv4's identification, if there is one.
    pub(super) identification: Option<u16>,
    /// The header's beginning, as far as it was captured.
    pub(super) header: &'s [u8],
}

/// `None` if it is of another protocol, or its header was not captured. Chunks are read into `scratch`.
pub(super) fn parse<'s>(transport: &Transport<'s>, scratch: &'s mut Sctp) -> Option<Parsed<'s>> {
    const TCP: u8 = 6;
    const UDP: u8 = 17;
    const SCTP: u8 = 132;

    let ports = |bytes: &[u8]| u16_at(bytes, 0).zip(u16_at(bytes, 2));
    let outer = ports(transport.bytes)?;
    let inner = transport.bytes.get(UDP_HEADER_BYTES..).unwrap_or_default();
    let (protocol, ports, udp_ports, content) = match transport.protocol {
        TCP => (Protocol::Tcp, outer, (0, 0), Content::Tcp(Tcp::parse(transport)?)),
        SCTP => {
            scratch.read(transport.bytes, transport.len);
            (Protocol::Sctp, outer, (0, 0), Content::Sctp(scratch))
        }
        UDP if holds_sctp(transport.encryption, outer, inner) => {
            scratch.read(inner, transport.len.saturating_sub(UDP_HEADER_BYTES));
            (Protocol::Sctp, ports(inner)?, outer, Content::Sctp(scratch))
        }
        UDP => {
            let payload_bytes = u32::try_from(transport.len.saturating_sub(UDP_HEADER_BYTES)).ok()?;
            (Protocol::Udp, outer, (0, 0), Content::Udp { payload_bytes })
        }
        _ => return None,
    };
    let hidden_bytes = if let Encryption::Removed { bytes } = transport.encryption { bytes } else { 0 };
    let source = End { address: transport.source, port: ports.0, udp_port: udp_ports.0 };
    let destination = End { address: transport.destination, port: ports.1, udp_port: udp_ports.1 };
    let from = usize::from(source > destination);
    let ends = if from == 0 { [source, destination] } else { [destination, source] };
    Some(Parsed {
        key: Key { protocol, ends },
        from,
        source,
        destination,
        content,
        transport_bytes: (transport.len + hidden_bytes) as u64,
        identification: transport.identification,
        header: transport.bytes,
    })
}

fn holds_sctp(encryption: Encryption, ports: (u16, u16), payload: &[u8]) -> bool {
    match encryption {
        Encryption::Removed { .. } => true,
        Encryption::Kept => false,
        Encryption::None => is_sctp(ports, payload),
    }
}

/// Returns whether a UDP payload is an SCTP packet: by its port or, at any other port, by a correct checksum and chunks
/// that end with the payload.
fn is_sctp(ports: (u16, u16), payload: &[u8]) -> bool {
    const CHUNKS_MAX: usize = 64;
    const COMMON_HEADER_BYTES: usize = 12;

    if [ports.0, ports.1].contains(&SCTP_OVER_UDP_PORT) {
        return payload.len() >= COMMON_HEADER_BYTES;
    }
    let mut rest = payload.get(COMMON_HEADER_BYTES..).unwrap_or_default();
    for _ in 0..CHUNKS_MAX {
        let Some(len) = u16_at(rest, 2).map(usize::from).filter(|len| *len >= 4) else { return false };
        match rest.get(len.next_multiple_of(4)..) {
            Some([]) => return Packet::parse(payload).is_ok(),
            Some(behind) => rest = behind,
            None => return false,
        }
    }
    false
}
