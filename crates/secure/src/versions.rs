//! Version negotiation: the answer to a long header of an unknown version (RFC 8999 §6).

use crate::foreign::Foreign;
use crate::wire::{CONNECTION_ID_BYTES, ConnectionId, Header, Level, LongHeader, VERSION, read_header};

/// Longest connection ID of any version (RFC 8999 §5.1).
const ANY_ID_BYTES_MAX: usize = 255;
/// Maximum number of versions read from one packet.
const VERSIONS_MAX: usize = 16;
/// QUIC version 1 (RFC 9000 §15).
const QUIC_V1: u32 = 1;

/// The "version" in the answer of an endpoint for plain SCTP: `SCTP`.
const PLAIN_SCTP: u32 = 0x5343_5450;

/// A list of versions that a peer offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions(pub(crate) Vec<u32>);

impl Versions {
    /// Returns the other protocol that the list stands for, if it names one.
    #[must_use]
    pub fn foreign(&self) -> Option<Foreign> {
        self.0.iter().find_map(|&version| match version {
            PLAIN_SCTP => Some(Foreign::Sctp),
            QUIC_V1 => Some(Foreign::Quic),
            _ => None,
        })
    }
}

impl core::fmt::Display for Versions {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for (at, &version) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { ", " };
            let name = match version {
                QUIC_V1 => " (QUIC)",
                PLAIN_SCTP => " (SCTP without encryption)",
                _ => "",
            };
            write!(formatter, "{separator}{version:#010x}{name}")?;
        }
        Ok(())
    }
}

/// Appends the answer to a datagram with a long header of an unknown version. Returns `false`, without effect, if the datagram has none, or is
/// itself such an answer.
#[must_use]
pub(crate) fn write_versions(datagram: &[u8], reply: &mut Vec<u8>) -> bool {
    let Some((version, destination, source)) = split(datagram).map(|(version, ids, _)| (version, ids.0, ids.1)) else {
        return false;
    };
    if version == 0 || version == VERSION {
        return false;
    }
    write_list(reply, [source, destination], VERSION);
    true
}

/// Appends the answer of an endpoint for plain SCTP to a client's hello, so that the client reports the mismatch at once. The answer is shorter than
/// the datagram. Returns `false`, without effect, if the datagram is no hello.
#[must_use]
pub fn write_plain_sctp(datagram: &[u8], reply: &mut Vec<u8>) -> bool {
    let Ok(Header::Long(LongHeader { level: Level::Initial, destination, source, .. })) = read_header(datagram) else {
        return false;
    };
    let start = reply.len();
    write_list(reply, [&source.0, &destination.0], PLAIN_SCTP);
    let is_shorter = reply.len() - start < datagram.len();
    if !is_shorter {
        reply.truncate(start);
    }
    is_shorter
}

fn write_list(reply: &mut Vec<u8>, ids: [&[u8]; 2], version: u32) {
    reply.push(0b1100_0000);
    reply.extend_from_slice(&0_u32.to_be_bytes());
    for id in ids {
        reply.push(u8::try_from(id.len()).unwrap_or(u8::MAX));
        reply.extend_from_slice(id);
    }
    reply.extend_from_slice(&version.to_be_bytes());
}

/// Reads the answer to a client's packet from `source` to `destination`. It is not authenticated.
#[must_use]
pub(crate) fn read_versions(datagram: &[u8], source: ConnectionId, destination: ConnectionId) -> Option<Versions> {
    let (version, ids, list) = split(datagram)?;
    if version != 0 || ids != (&source.0[..], &destination.0[..]) || list.len() % 4 != 0 {
        return None;
    }
    let versions = list.as_chunks().0.iter().take(VERSIONS_MAX).map(|bytes| u32::from_be_bytes(*bytes)).collect();
    // A server that knew this version would not have answered so (RFC 9000 §6.2).
    Some(Versions(versions)).filter(|Versions(versions)| !versions.is_empty() && !versions.contains(&VERSION))
}

/// Version, connection IDs of destination and source, and the rest.
type AnyLongHeader<'a> = (u32, (&'a [u8], &'a [u8]), &'a [u8]);

fn split(datagram: &[u8]) -> Option<AnyLongHeader<'_>> {
    let (&first, rest) = datagram.split_first()?;
    // RFC 7983 assigns 192 to 255 to no protocol.
    if first < 0b1100_0000 {
        return None;
    }
    let (version, rest) = rest.split_first_chunk()?;
    let (destination, rest) = split_id(rest)?;
    let (source, rest) = split_id(rest)?;
    Some((u32::from_be_bytes(*version), (destination, source), rest))
}

fn split_id(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(length).min(ANY_ID_BYTES_MAX))
}

const _: () = assert!(CONNECTION_ID_BYTES <= ANY_ID_BYTES_MAX, "RFC 8999 §5.1");

#[cfg(test)]
mod tests {
    use super::*;

    const TO: ConnectionId = ConnectionId([1; 8]);
    const FROM: ConnectionId = ConnectionId([2; 8]);

    #[test]
    fn an_unknown_version_is_answered_by_the_known_one_and_never_longer_than_it_came() {
        let hello = [&[0xc1, 0, 0, 0, 9, 8][..], &TO.0, &[3], b"abc", &[0; 40]].concat();
        let mut reply = Vec::new();
        assert!(write_versions(&hello, &mut reply));
        let expected = [&[0xc0, 0, 0, 0, 0, 3][..], b"abc", &[8], &TO.0, b"FST\x01"].concat();
        assert_eq!(reply, expected);
        assert!(!write_versions(&reply, &mut Vec::new()), "answers are not answered");
        for cut in 0..17 {
            assert!(!write_versions(&hello[..cut], &mut Vec::new()), "{cut}");
        }
    }

    #[test]
    fn an_endpoint_for_plain_sctp_answers_a_hello_with_its_own_name_and_nothing_else() {
        let mut hello = Vec::new();
        crate::wire::write_long_header(&mut hello, Level::Initial, TO, FROM, 0, 200);
        hello.extend_from_slice(&[0; 216]);
        let mut answer = Vec::new();
        assert!(write_plain_sctp(&hello, &mut answer));
        let versions = read_versions(&answer, FROM, TO).unwrap();
        assert_eq!(versions.to_string(), "0x53435450 (SCTP without encryption)");
        for other in [&answer[..], &hello[..40], &[0; 60]] {
            assert!(!write_plain_sctp(other, &mut Vec::new()));
        }
    }

    #[test]
    fn only_an_answer_to_this_client_that_does_not_list_its_version_counts() {
        let answer = |list: &[u8]| [&[0xff, 0, 0, 0, 0, 8][..], &FROM.0, &[8], &TO.0, list].concat();
        let versions = read_versions(&answer(&[0, 0, 0, 1, 0xab, 0xcd, 0, 0]), FROM, TO).unwrap();
        assert_eq!(versions.to_string(), "0x00000001 (QUIC), 0xabcd0000");
        assert_eq!(read_versions(&answer(&[0, 0, 0, 1]), TO, FROM), None, "other connection IDs");
        assert_eq!(read_versions(&answer(b"FST\x01"), FROM, TO), None, "a forgery");
        assert_eq!(read_versions(&answer(b""), FROM, TO), None);
        assert_eq!(read_versions(&answer(b"abc"), FROM, TO), None);
    }
}
