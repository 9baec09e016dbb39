//! COOKIE ECHO and COOKIE ACK: the handshake's last two chunks (RFC 9260 §3.3.11, §3.3.12).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |      10       |               |          4 + cookie           |
//! +---------------+---------------+-------------------------------+
//! |            cookie, exactly as the INIT ACK had it ...         |
//!
//! +---------------+---------------+-------------------------------+
//! |      11       |               |               4               |
//! +---------------+---------------+-------------------------------+
//! ```

use crate::wire::tlv::Frame;

/// The cookie, which only its author can judge.
pub(in crate::wire) fn read_echo<'a>(frame: &Frame<'a>) -> &'a [u8] {
    frame.value
}

#[cfg(test)]
mod tests {
    use crate::wire::tests::{build_and_parse, malformation};
    use crate::wire::{Chunk, ChunkOut, Malformation};

    #[test]
    fn a_cookie_echo_is_the_cookie_behind_a_chunk_header() {
        let cookie = &[1, 2, 3, 4, 5][..];
        let parsed = build_and_parse(&ChunkOut::CookieEcho(cookie), &[10, 0, 0, 9, 1, 2, 3, 4, 5, 0, 0, 0]);
        assert_eq!(parsed, Chunk::CookieEcho(cookie));
    }

    #[test]
    fn a_cookie_ack_is_a_bare_header() {
        assert_eq!(build_and_parse(&ChunkOut::CookieAck, &[11, 0, 0, 4]), Chunk::CookieAck);
        let error = Malformation::WrongLength { length: 5, expected: 4 };
        assert_eq!(malformation(&[11, 0, 0, 5, 0, 0, 0, 0]), error);
    }
}
