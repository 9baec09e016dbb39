//! Stateless resets (RFC 9000 §10.3): a server that has lost its state answers packets of old connections by a token that only their clients know, so
//! that these end at once.

use core::net::{IpAddr, SocketAddr};

use rustls::crypto::CryptoProvider;
use rustls::crypto::tls13::{Hkdf, OkmBlock};

use crate::parameters::ResetToken;
use crate::record::initial_suite;
use crate::wire::{ConnectionId, is_short};

/// Length of a reset: that of a packet with a short acknowledgement.
const RESET_BYTES: usize = 42;
/// The shortest reset: a first byte, a connection ID, a number, and the token. A shorter datagram is not answered, so resets of resets end.
const RESET_BYTES_MIN: usize = 27;
const TOKEN_BYTES: usize = size_of::<ResetToken>();

/// Derives the tokens of a server, the same ones after a restart with the same private key and address.
pub struct ResetKey {
    hkdf: &'static dyn Hkdf,
    key: OkmBlock,
    /// The socket has several addresses, so that other hosts may have one like it.
    is_wildcard: bool,
}

impl ResetKey {
    /// Derives the key from the server's private key. The address of its socket is part of it: another server with the same private key must not reveal
    /// the tokens of this one (RFC 9000 §21.11). `None` if the provider lacks `TLS13_AES_128_GCM_SHA256`.
    #[must_use]
    pub fn new(provider: &CryptoProvider, private_key: &[u8], socket: SocketAddr) -> Option<Self> {
        let hkdf = initial_suite(provider)?.hkdf_provider;
        let expander = hkdf.extract_from_secret(Some(b"festina stateless reset"), private_key);
        let key = expander.expand_block(&[&octets(socket.ip()), &socket.port().to_be_bytes()]);
        Some(Self { hkdf, key, is_wildcard: socket.ip().is_unspecified() })
    }

    /// The token of a connection whose client writes to this connection ID, at this address of a server that has several. `None` if it is not known which.
    pub(crate) fn token(&self, id: ConnectionId, local: Option<IpAddr>) -> Option<ResetToken> {
        if self.is_wildcard && local.is_none() {
            return None;
        }
        let mut message = id.0.to_vec();
        message.extend(local.into_iter().flat_map(octets));
        let tag = self.hkdf.hmac_sign(&self.key, &message);
        let mut token = [0; TOKEN_BYTES];
        token.copy_from_slice(&tag.as_ref()[..TOKEN_BYTES]);
        Some(token)
    }
}

impl core::fmt::Debug for ResetKey {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_struct("ResetKey").finish_non_exhaustive()
    }
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// Appends a reset, which looks like a packet with a short header. It is shorter than the datagram that it answers. Returns `false`, without effect, if
/// that cannot be.
pub(crate) fn write_reset(reply: &mut Vec<u8>, answered_bytes: usize, random: [u8; 32], token: ResetToken) -> bool {
    let bytes = RESET_BYTES.min(answered_bytes.saturating_sub(1));
    let Some(random) = random.get(..bytes.saturating_sub(TOKEN_BYTES)).filter(|_| bytes >= RESET_BYTES_MIN) else {
        return false;
    };
    let start = reply.len();
    reply.extend_from_slice(random);
    if let Some(first) = reply.get_mut(start) {
        *first = 0b0110_0000 | *first & 0b1_1111;
    }
    reply.extend_from_slice(&token);
    true
}

/// Returns the last bytes of a datagram that may be a reset.
#[must_use]
pub fn token_of(datagram: &[u8]) -> Option<ResetToken> {
    datagram.last_chunk().copied().filter(|_| is_short(datagram) && datagram.len() >= RESET_BYTES_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::provider;

    const ID: ConnectionId = ConnectionId([1; 8]);

    #[test]
    fn a_token_follows_from_private_key_socket_connection_and_address() {
        let socket = SocketAddr::from(([0, 0, 0, 0], 9_899));
        let token = |private_key: &[u8], socket, id, local| {
            ResetKey::new(&provider(), private_key, socket).unwrap().token(id, local)
        };
        let local = Some(IpAddr::from([192, 0, 2, 1]));
        let first = token(b"key", socket, ID, local);
        assert_eq!(token(b"key", socket, ID, local), first, "also after a restart");
        for other in [
            token(b"yek", socket, ID, local),
            token(b"key", SocketAddr::from(([0, 0, 0, 0], 9_898)), ID, local),
            token(b"key", SocketAddr::from(([192, 0, 2, 1], 9_899)), ID, local),
            token(b"key", socket, ConnectionId([2; 8]), local),
            token(b"key", socket, ID, Some(IpAddr::from([192, 0, 2, 2]))),
        ] {
            assert_ne!(other, first);
        }
        assert_eq!(token(b"key", socket, ID, None), None, "another host may be bound to the same address");
        assert!(token(b"key", SocketAddr::from(([192, 0, 2, 1], 9_899)), ID, None).is_some());
    }

    #[test]
    fn a_reset_looks_like_a_short_packet_and_is_shorter_than_the_one_that_it_answers() {
        for answered in 0..2_000 {
            let mut reply = vec![9];
            let is_written = write_reset(&mut reply, answered, [0xff; 32], [7; 16]);
            assert_eq!(is_written, answered > RESET_BYTES_MIN, "{answered}");
            let reset = &reply[1..];
            assert!(reset.len() < answered.max(1) && reset.len() <= RESET_BYTES);
            assert_eq!(token_of(reset), is_written.then_some([7; 16]));
            assert!(!is_written || is_short(reset));
        }
    }
}
