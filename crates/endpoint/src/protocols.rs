//! Which packets an endpoint takes for plain SCTP and which for protected datagrams.

use festina_sctp::wire::{Packet, chunk_type};
use festina_secure::wire::{Header, has_first_byte, is_short, read_header};

/// The protocols of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocols {
    /// Plain SCTP.
    Plain,
    /// Protected datagrams.
    Encrypted,
    /// Encrypted, and plain SCTP of clients. The first byte of a plain packet is that of its source port, so it may be any: a packet is protected if
    /// it has the connection ID of an association or of a handshake, or a long header of this version. All others are plain.
    Both,
}

impl Protocols {
    /// Whether a packet of an association is taken for a protected one, unless none is found.
    pub fn expects_protected(self, packet: &[u8]) -> bool {
        match self {
            Self::Plain => false,
            Self::Encrypted => true,
            Self::Both => has_first_byte(packet),
        }
    }

    /// Whether a packet without an association is left to the handshakes.
    pub fn expects_handshake(self, packet: &[u8]) -> bool {
        match self {
            Self::Plain => false,
            Self::Encrypted => true,
            Self::Both => matches!(read_header(packet), Ok(Header::Long(_))),
        }
    }
}

/// Ports and verification tag, or the connection ID: packets from one address in which they are the same belong to one association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    is_protected: bool,
    bytes: [u8; 8],
}

impl Tag {
    /// Reads the tag of a packet; `None` if the packet is too short.
    pub fn of(packet: &[u8], protocols: Protocols) -> Option<Self> {
        let is_protected = protocols.expects_protected(packet);
        let rest = packet.get(usize::from(is_protected)..)?;
        rest.first_chunk().map(|bytes| Self { is_protected, bytes: *bytes })
    }

    /// The tag of a packet that is found by its tag alone: its first chunk is DATA, SACK or one of their kind, or stands in front of them (ECNE, CWR). Of
    /// protected packets, those with a short header are found by their connection ID alone.
    pub fn of_ordinary(packet: &[u8], protocols: Protocols) -> Option<Self> {
        let tag = Self::of(packet, protocols)?;
        let is_ordinary = if tag.is_protected {
            is_short(packet)
        } else {
            matches!(
                Packet::first_chunk_type(packet),
                Some(
                    chunk_type::DATA
                        | chunk_type::I_DATA
                        | chunk_type::SACK
                        | chunk_type::NR_SACK
                        | chunk_type::ECNE
                        | chunk_type::CWR
                )
            )
        };
        is_ordinary.then_some(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_packet_does_not_have_the_tag_of_a_protected_one() {
        let (id, other) = ([1, 2, 3, 4, 5, 6, 7, 8], [9; 32]);
        let (protected, plain) = ([&[0x60][..], &id, &other].concat(), [&id[..], &other].concat());
        assert_eq!(
            Tag::of(&protected, Protocols::Both).unwrap().bytes,
            Tag::of(&plain, Protocols::Both).unwrap().bytes
        );
        assert_ne!(Tag::of(&protected, Protocols::Both), Tag::of(&plain, Protocols::Both));
        assert_eq!(Tag::of(&protected[..8], Protocols::Both), None);
    }
}
