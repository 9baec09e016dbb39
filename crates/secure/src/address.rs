//! Tokens that prove an address (RFC 9000 §8.1.2): a server gives one to a client in a retry and keeps nothing.

use std::net::{IpAddr, SocketAddr};

use festina_units::Instant;
use rustls::crypto::CryptoProvider;
use rustls::crypto::tls13::{Hkdf, OkmBlock};

use crate::record::initial_suite;
use crate::wire::{CONNECTION_ID_BYTES, ConnectionId};

/// How long one epoch lasts. A token is good for the rest of its epoch and the next one.
const EPOCH_SECONDS: u64 = 32;
/// Length of the MAC in a token.
const MAC_BYTES: usize = 16;
/// Length of a token: the low byte of its epoch and the MAC.
pub(crate) const TOKEN_BYTES: usize = 1 + MAC_BYTES;

/// The purpose of a MAC, so that none can be used for another one.
#[derive(Clone, Copy)]
enum Purpose {
    Token = 1,
    ConnectionId = 2,
    Reset = 4,
}

/// Makes and checks the tokens of one endpoint, and derives its connection IDs.
pub(crate) struct Proofs {
    hkdf: &'static dyn Hkdf,
    key: OkmBlock,
}

impl Proofs {
    /// `None` if the provider lacks `TLS13_AES_128_GCM_SHA256`.
    pub(crate) fn new(provider: &CryptoProvider, secret: [u8; 32]) -> Option<Self> {
        Some(Self { hkdf: initial_suite(provider)?.hkdf_provider, key: OkmBlock::new(&secret) })
    }

    /// Returns the token for an address and a connection ID that the client chose.
    pub(crate) fn token(&self, now: Instant, from: SocketAddr, original: ConnectionId) -> [u8; TOKEN_BYTES] {
        self.token_of(epoch(now), from, original)
    }

    /// Returns whether a token was made for this address and connection ID in this epoch or the last one. The MACs are
    /// compared in constant time.
    pub(crate) fn is_valid(&self, now: Instant, from: SocketAddr, original: ConnectionId, token: &[u8]) -> bool {
        let Ok(token) = <&[u8; TOKEN_BYTES]>::try_from(token) else { return false };
        let current = epoch(now);
        let [claimed, ..] = *token;
        let Some(epoch) = [Some(current), current.checked_sub(1)].into_iter().flatten().find(|at| low(*at) == claimed)
        else {
            return false;
        };
        let expected = self.token_of(epoch, from, original);
        let difference = expected.iter().zip(token).fold(0, |sum, (one, other)| sum | (one ^ other));
        core::hint::black_box(difference) == 0
    }

    /// Returns an unpredictable connection ID.
    pub(crate) fn connection_id(&self, counter: u64, original: ConnectionId) -> ConnectionId {
        let mac = self.mac(Purpose::ConnectionId, &[&counter.to_be_bytes(), &original.0]);
        let mut id = [0; CONNECTION_ID_BYTES];
        id.copy_from_slice(&mac[..CONNECTION_ID_BYTES]);
        ConnectionId(id)
    }

    /// Unpredictable bytes for a stateless reset.
    pub(crate) fn reset_bytes(&self, counter: u64) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (part, half) in bytes.chunks_exact_mut(MAC_BYTES).enumerate() {
            half.copy_from_slice(&self.mac(Purpose::Reset, &[&counter.to_be_bytes(), &part.to_be_bytes()]));
        }
        bytes
    }

    fn token_of(&self, epoch: u64, from: SocketAddr, original: ConnectionId) -> [u8; TOKEN_BYTES] {
        let ip = match from.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let parts: [&[u8]; 4] = [&epoch.to_be_bytes(), &ip.octets(), &from.port().to_be_bytes(), &original.0];
        let mut token = [low(epoch); TOKEN_BYTES];
        token[1..].copy_from_slice(&self.mac(Purpose::Token, &parts));
        token
    }

    fn mac(&self, purpose: Purpose, parts: &[&[u8]]) -> [u8; MAC_BYTES] {
        let message = [&[purpose as u8], &parts.concat()[..]].concat();
        let tag = self.hkdf.hmac_sign(&self.key, &message);
        let mut mac = [0; MAC_BYTES];
        mac.copy_from_slice(&tag.as_ref()[..MAC_BYTES]);
        mac
    }
}

fn epoch(now: Instant) -> u64 {
    now.as_nanos() / 1_000_000_000 / EPOCH_SECONDS
}

fn low(epoch: u64) -> u8 {
    let [.., low] = epoch.to_be_bytes();
    low
}

impl core::fmt::Debug for Proofs {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_struct("Proofs").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::provider;

    #[test]
    fn a_token_is_good_for_its_address_its_connection_and_two_epochs() {
        let proofs = Proofs::new(&provider(), [7; 32]).unwrap();
        let from = SocketAddr::from(([192, 0, 2, 1], 9_899));
        let id = ConnectionId([1; 8]);
        let token = proofs.token(Instant::from_secs(40), from, id);
        for (seconds, is_valid) in [(40, true), (95, true), (96, false), (20, false), (40 + 256 * 32, false)] {
            assert_eq!(proofs.is_valid(Instant::from_secs(seconds), from, id, &token), is_valid, "after {seconds} s");
        }
        let now = Instant::from_secs(40);
        for other in [SocketAddr::from(([192, 0, 2, 2], 9_899)), SocketAddr::from(([192, 0, 2, 1], 9_898))] {
            assert!(!proofs.is_valid(now, other, id, &token), "{other}");
        }
        assert!(!proofs.is_valid(now, from, ConnectionId([2; 8]), &token));
        let others = Proofs::new(&provider(), [8; 32]).unwrap();
        assert!(!others.is_valid(now, from, id, &token), "another endpoint's");
        for bit in 0..TOKEN_BYTES * 8 {
            let mut changed = token;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!proofs.is_valid(now, from, id, &changed), "bit {bit}");
        }
    }
}
