//! The SCTP packets of encrypted associations, by the keys of the capture or of a key log.

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;

use festina_sctp::wire::{COMMON_HEADER_BYTES, Packet};
use festina_secure::reading::{KeyLog, Reader, Seen, Side, Suites};
use festina_secure::wire::{Header, HeaderError, read_header};

use super::Transport;
use crate::bytes::u16_at;
use crate::ip::UDP_HEADER_BYTES;

/// At this UDP port SCTP is assumed without further proof (RFC 6951 §6).
pub(crate) const SCTP_OVER_UDP_PORT: u16 = 9899;
const UDP: u8 = 17;
/// Encrypted packets do without a checksum.
const CHECKSUM: [u8; 4] = [0; 4];
/// Pairs of UDP addresses that are remembered because an encrypted handshake passed between them. Beyond it all are forgotten.
const PAIRS_MAX: usize = 4_096;

/// Two UDP addresses, the smaller one first.
type Pair = [(IpAddr, u16); 2];

/// Whether a packet belongs to an encrypted association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encryption {
    /// None is known.
    None,
    /// It could not be decrypted.
    Kept,
    /// It is an SCTP packet behind a UDP header. On the link it was longer by these bytes.
    Removed { bytes: usize },
}

/// How encrypted associations are read. The secrets of a capture count as well as those of the key log.
#[derive(Clone, Debug)]
pub struct Decryption {
    /// The cipher suites.
    pub suites: &'static Suites,
    /// Secrets that the capture does not hold itself.
    pub keys: KeyLog,
}

/// Decrypts the packets of a capture.
pub(super) struct Decrypter {
    reader: Reader,
    chunks: Vec<u8>,
    /// The latest SCTP packet behind its UDP header.
    packet: Vec<u8>,
    closed: u64,
    /// Between these an encrypted handshake passed.
    encrypted: HashSet<Pair>,
}

impl Decrypter {
    pub(super) fn new(Decryption { suites, keys }: Decryption) -> Self {
        Self {
            reader: Reader::new(suites, keys),
            chunks: Vec::new(),
            packet: Vec::new(),
            closed: 0,
            encrypted: HashSet::new(),
        }
    }

    pub(super) fn add_keys(&mut self, key_log: &[u8]) {
        self.reader.add_keys(key_log);
    }

    pub(super) fn closed(&self) -> u64 {
        self.closed
    }

    fn open<'a>(&'a mut self, found: Transport<'a>) -> Transport<'a> {
        let Some((header, payload)) = found.bytes.split_at_checked(UDP_HEADER_BYTES) else { return found };
        let seen = self.reader.read(payload, &mut self.chunks);
        if seen != Seen::Foreign && matches!(read_header(payload), Ok(Header::Long(_)) | Err(HeaderError::Truncated)) {
            if self.encrypted.len() >= PAIRS_MAX {
                self.encrypted.clear();
            }
            self.encrypted.extend(pair(&found));
        }
        let (tag, ports) = match seen {
            Seen::Foreign if !is_ciphertext(&found, payload, |pair| self.encrypted.contains(pair)) => return found,
            Seen::Foreign | Seen::Closed => {
                self.closed += 1;
                return Transport { encryption: Encryption::Kept, ..found };
            }
            Seen::Opened(sender, ports) => {
                // Nor do they have a verification tag: this one differs by association and by direction.
                let number = self.reader.latest_association().unwrap_or(0) << 1 | u64::from(sender == Side::Server);
                (number.to_be_bytes(), ports)
            }
        };
        self.packet.clear();
        self.packet.extend_from_slice(header);
        self.packet.extend(ports.into_iter().flat_map(u16::to_be_bytes));
        self.packet.extend(tag.iter().skip(4));
        self.packet.extend(CHECKSUM);
        self.packet.extend_from_slice(&self.chunks);
        let len = self.packet.len();
        let encryption = Encryption::Removed { bytes: found.len.saturating_sub(len) };
        Transport { bytes: &self.packet, len, encryption, ..found }
    }
}

fn pair(found: &Transport<'_>) -> Option<Pair> {
    let mut pair = [(found.source, u16_at(found.bytes, 0)?), (found.destination, u16_at(found.bytes, 2)?)];
    pair.sort_unstable();
    Some(pair)
}

/// Returns whether the payload would count as SCTP because of its port, but is a packet with a short header of an association whose handshake
/// was not captured, or not whole. `is_encrypted`: whether a handshake has passed between these addresses.
fn is_ciphertext(found: &Transport<'_>, payload: &[u8], is_encrypted: impl FnOnce(&Pair) -> bool) -> bool {
    if ![0, 2].iter().any(|at| u16_at(found.bytes, *at) == Some(SCTP_OVER_UDP_PORT))
        || !matches!(read_header(payload), Ok(Header::Short(_)))
    {
        return false;
    }
    if found.bytes.len() >= found.len {
        return Packet::parse(payload).is_err();
    }
    // Without its end the checksum cannot be verified. A handshake before it decides, and otherwise the first chunk, which must fit into the packet.
    if pair(found).is_some_and(|pair| is_encrypted(&pair)) {
        return true;
    }
    let chunks_max = found.len.saturating_sub(UDP_HEADER_BYTES + COMMON_HEADER_BYTES);
    u16_at(payload, COMMON_HEADER_BYTES + 2).is_some_and(|bytes| !(4..=chunks_max).contains(&bytes.into()))
}

impl fmt::Debug for Decrypter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Decrypter").field("closed", &self.closed).finish_non_exhaustive()
    }
}

/// Returns the SCTP packet of an encrypted association, and any other packet as it is.
pub(super) fn decrypted<'a>(decrypter: &'a mut Option<Decrypter>, found: Transport<'a>) -> Transport<'a> {
    match decrypter {
        Some(decrypter) if found.protocol == UDP => decrypter.open(found),
        _ => found,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use festina_sctp::wire::{ChunkOut, CommonHeader, PacketBuilder};

    use super::*;

    #[test]
    fn plain_sctp_and_ciphertext_are_distinguished() {
        let header = CommonHeader { source_port: 0x6123, destination_port: 9, verification_tag: 7 };
        let mut plain = Vec::new();
        let mut builder = PacketBuilder::new(&mut plain, header, 1_200);
        assert!(builder.chunk(&ChunkOut::CookieEcho(&[0xc0; 60])));
        builder.finish();
        let cipher = [&plain[..12], &[0xff; 64]].concat();
        for (payload, is_cipher) in [(plain, false), (cipher, true)] {
            for captured in [8 + 24, 8 + payload.len()] {
                for (port, expected) in [(9_899_u16, is_cipher), (9_898, false)] {
                    let bytes = [&40_000_u16.to_be_bytes(), &port.to_be_bytes()[..], &[0; 4], &payload].concat();
                    let found = Transport {
                        source: IpAddr::V4(Ipv4Addr::LOCALHOST),
                        destination: IpAddr::V4(Ipv4Addr::LOCALHOST),
                        protocol: UDP,
                        bytes: &bytes[..captured],
                        len: bytes.len(),
                        encryption: Encryption::None,
                        identification: None,
                        fragment: None,
                    };
                    let payload = &found.bytes[8..];
                    assert_eq!(is_ciphertext(&found, payload, |_| false), expected, "{captured} bytes, port {port}");
                    let cut = port == 9_899 && captured < bytes.len();
                    assert_eq!(
                        is_ciphertext(&found, payload, |_| true),
                        expected || cut,
                        "{captured} bytes, port {port}"
                    );
                }
            }
        }
    }
}
