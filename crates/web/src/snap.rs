//! The handshake of SCTP within offer and answer (SNAP, draft-hancke-tsvwg-snap), which saves two round trips: `a=sctp-init` holds each side's INIT
//! chunk, and both sides are established when DTLS is.
//!
//! The association is made by the endpoint above, which knows only packets. So the browser's INIT is handed to it at once, the INIT ACK with which it
//! answers becomes the answer's INIT, and its cookie comes back to it when DTLS has proved who the browser is. Until then it keeps no state.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::sdp::SCTP_PORT;

const INIT: u8 = 1;
pub(crate) const INIT_ACK: u8 = 2;
const COOKIE_ECHO: u8 = 10;
pub(crate) const COOKIE_ACK: u8 = 11;
const STATE_COOKIE: u16 = 7;
pub(crate) const COMMON_HEADER_BYTES: usize = 12;
const CHUNK_HEADER_BYTES: usize = 4;
/// Header, tag, window, streams and first TSN of an INIT and of its answer.
const INIT_BYTES: usize = 20;
/// A browser's INIT is 30 bytes long.
const INIT_BYTES_MAX: usize = 512;

/// The state of a peer whose offer had an INIT.
#[derive(Debug, Default)]
pub(crate) enum Snap {
    /// The offer had none, or nothing came of it.
    #[default]
    Off,
    /// The offer's INIT, as a packet.
    Offered(Vec<u8>),
    /// The endpoint is asked.
    Asked,
    /// The packet that establishes the association.
    Answered(Vec<u8>),
}

impl Snap {
    /// Reads the attribute of an offer.
    pub(crate) fn offered(attribute: Option<&str>) -> Self {
        let chunk =
            attribute.filter(|text| text.len() <= INIT_BYTES_MAX * 2).and_then(|text| STANDARD.decode(text).ok());
        match chunk.as_deref() {
            Some(chunk @ [INIT, _, high, low, ..])
                if (INIT_BYTES..=INIT_BYTES_MAX).contains(&chunk.len())
                    && usize::from(u16::from_be_bytes([*high, *low])) == chunk.len() =>
            {
                Self::Offered(packet(0, chunk))
            }
            _ => Self::Off,
        }
    }

    /// Takes the INIT ACK, and returns the attribute of the answer.
    pub(crate) fn take_answer(&mut self, packet_bytes: &[u8]) -> Option<String> {
        let chunk = packet_bytes.get(COMMON_HEADER_BYTES..)?;
        if !matches!(self, Self::Asked) || chunk.first() != Some(&INIT_ACK) {
            return None;
        }
        let length = usize::from(u16::from_be_bytes([*chunk.get(2)?, *chunk.get(3)?]));
        let chunk = chunk.get(..length)?;
        let mut init = chunk.get(..INIT_BYTES)?.to_vec();
        let mut cookie = None;
        let mut rest = chunk.get(INIT_BYTES..)?;
        while let [kind_high, kind_low, high, low, ..] = *rest {
            let bytes = usize::from(u16::from_be_bytes([high, low]));
            let value = rest.get(CHUNK_HEADER_BYTES..bytes)?;
            if u16::from_be_bytes([kind_high, kind_low]) == STATE_COOKIE {
                cookie = Some(value);
            } else {
                // The last one is not padded.
                init.resize(init.len().next_multiple_of(4), 0);
                init.extend_from_slice(rest.get(..bytes)?);
            }
            rest = rest.get(bytes.next_multiple_of(4)..).unwrap_or_default();
        }
        let tag = u32::from_be_bytes(init.get(4..8)?.try_into().ok()?);
        init[0] = INIT;
        let length = u16::try_from(init.len()).ok()?;
        init[2..4].copy_from_slice(&length.to_be_bytes());
        let cookie = cookie?;
        let length = u16::try_from(CHUNK_HEADER_BYTES + cookie.len()).ok()?;
        let echo = [&[COOKIE_ECHO, 0], &length.to_be_bytes()[..], cookie].concat();
        *self = Self::Answered(packet(tag, &echo));
        Some(STANDARD.encode(init))
    }
}

/// A packet with one chunk, as the browser would send it.
fn packet(tag: u32, chunk: &[u8]) -> Vec<u8> {
    let port = SCTP_PORT.to_be_bytes();
    let mut bytes = [&port[..], &port, &tag.to_be_bytes(), &[0; 4], chunk].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let checksum = festina_code::crc32c::checksum(&bytes);
    bytes[8..COMMON_HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chromium 156's.
    const OFFERED: &str = "AQAAHhqkNS0AUAAA/////45sT+bAAAAEgAgABoLA";

    fn asked() -> Snap {
        assert!(
            matches!(Snap::offered(Some(OFFERED)), Snap::Offered(packet) if packet.len() == 44 && packet[4..8] == [0; 4])
        );
        Snap::Asked
    }

    #[test]
    fn the_answer_has_what_the_init_ack_has_but_its_cookie() {
        let parameters =
            [&[0x80, 8, 0, 6, 0x82, 0xC0, 0, 0][..], &[0, 7, 0, 9, 1, 2, 3, 4, 5, 0, 0, 0], &[0xC0, 0, 0, 4]].concat();
        let fields = [&[9, 9, 9, 9][..], &[0, 1, 0, 0, 0, 5, 0, 6, 7, 7, 7, 7]].concat();
        let length = u8::try_from(4 + fields.len() + parameters.len()).unwrap_or(0);
        let ack = [&[0; COMMON_HEADER_BYTES][..], &[INIT_ACK, 0, 0, length], &fields, &parameters].concat();
        let mut snap = asked();
        let attribute = snap.take_answer(&ack).expect("an INIT ACK");
        let init = STANDARD.decode(attribute).expect("it is written here");
        let expected = [&[INIT, 0, 0, 32][..], &fields, &[0x80, 8, 0, 6, 0x82, 0xC0, 0, 0, 0xC0, 0, 0, 4]].concat();
        assert_eq!(init, expected);
        let Snap::Answered(echo) = snap else { panic!("{snap:?}") };
        assert_eq!(echo[4..8], [9; 4]);
        assert_eq!(echo[COMMON_HEADER_BYTES..], [COOKIE_ECHO, 0, 0, 9, 1, 2, 3, 4, 5, 0, 0, 0]);
    }

    #[test]
    fn what_is_no_init_is_ignored() {
        for text in
            ["", "AQAA", "AgAAHhqkNS0AUAAA/////45sT+bAAAAEgAgABoLA", "AQAAHxqkNS0AUAAA/////45sT+bAAAAEgAgABoLA", "?"]
        {
            assert!(matches!(Snap::offered(Some(text)), Snap::Off), "{text}");
        }
        assert!(matches!(Snap::offered(Some(&"A".repeat(4_000))), Snap::Off));
        // A cut INIT ACK, one without a cookie, other packets.
        for packet in [&[0; 12][..], &[0; 40], &[&[0; 12][..], &[INIT_ACK, 0, 0, 20], &[0; 16]].concat()] {
            let mut snap = asked();
            assert_eq!(snap.take_answer(packet), None);
            assert!(matches!(snap, Snap::Asked));
        }
    }
}
