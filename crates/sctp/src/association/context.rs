//! What all associations of an endpoint share: the settings and one secret.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use festina_recovery::Mechanisms;
use festina_units::Instant;

use super::homes::{Multihoming, MultihomingError};
use super::siphash::Key;
use crate::config::{Config, ConfigError, SackPolicy};
use crate::wire::Parameter;

/// The two SCTP port numbers of an association, as this side sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ports {
    /// This side's SCTP port.
    pub local: u16,
    /// The peer's SCTP port.
    pub peer: u16,
}

/// What all associations of an endpoint share. Tags, initial TSNs, heartbeat nonces and cookies all come from its secret, so
/// the core needs no source of random numbers: the same secret and the same calls give the same bytes.
#[derive(Debug)]
pub struct Context {
    config: Config,
    /// Default mechanisms, shared until an association changes them.
    mechanisms: Arc<Mechanisms>,
    key: Key,
    multihoming: Option<Multihoming>,
    /// How many addresses the endpoint had at first.
    addresses_at_first: usize,
}

/// Keeps values derived for different purposes apart.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    LocalTag = 1,
    InitialTsn = 2,
    TieTags = 3,
    HeartbeatNonce = 4,
    HeartbeatJitter = 5,
    CookieKey = 6,
    CookieCipher = 7,
    RetrySpread = 8,
    ProbeNonce = 9,
    NumberBelow = 10,
}

impl Context {
    /// Checks the settings and stores them with the endpoint's 128-bit secret.
    ///
    /// # Errors
    /// A setting is out of range.
    pub fn new(mut config: Config, secret: [u8; 16]) -> Result<Arc<Self>, ConfigError> {
        config.validate()?;
        let limits = &mut config.limits;
        limits.inbound_streams = limits.inbound_streams.min(limits.inbound_streams_affordable(config.interleaving));
        let mechanisms = Arc::new(config.mechanisms);
        Ok(Arc::new(Self { config, mechanisms, key: Key::new(secret), multihoming: None, addresses_at_first: 0 }))
    }

    /// As [`new`](Self::new), for associations with a path to each of several addresses of the peer.
    ///
    /// # Errors
    /// A setting is out of range, or an address is not usable.
    pub fn multihomed(
        config: Config,
        secret: [u8; 16],
        multihoming: Multihoming,
    ) -> Result<Arc<Self>, MultihomingError> {
        multihoming.validate()?;
        let single = Self::new(config, secret)?;
        let (config, mechanisms) = (single.config.clone(), Arc::clone(&single.mechanisms));
        let addresses_at_first = multihoming.addresses.len();
        Ok(Arc::new(Self { config, mechanisms, key: single.key, multihoming: Some(multihoming), addresses_at_first }))
    }

    /// Returns the same context of an endpoint that has these addresses now.
    #[must_use]
    pub fn with_addresses(&self, addresses: &[IpAddr]) -> Arc<Self> {
        let (config, mechanisms) = (self.config.clone(), Arc::clone(&self.mechanisms));
        let with = |multihoming: &Multihoming| Multihoming { addresses: addresses.to_vec(), ..multihoming.clone() };
        let (key, multihoming) = (self.key, self.multihoming.as_ref().map(with));
        Arc::new(Self { config, mechanisms, key, multihoming, addresses_at_first: self.addresses_at_first })
    }

    /// The same context with other timers and limits: see [`set_timing`](super::Association::set_timing).
    pub(super) fn with_timing(&self, config: &Config) -> Result<Arc<Self>, ConfigError> {
        let Config { mechanisms, timers, retries, peer_timeout, sack, .. } = config.clone();
        let sack = SackPolicy { peer_batches: self.config.sack.peer_batches, ..sack };
        let config = Config { mechanisms, timers, retries, peer_timeout, sack, ..self.config.clone() };
        config.validate()?;
        let (key, multihoming) = (self.key, self.multihoming.clone());
        let addresses_at_first = self.addresses_at_first;
        Ok(Arc::new(Self { config, mechanisms: Arc::new(mechanisms), key, multihoming, addresses_at_first }))
    }

    /// The parameters that name this endpoint's addresses to a peer at this address, up to `bytes_max` bytes of them.
    pub(super) fn named_to(&self, peer: IpAddr, bytes_max: usize) -> Vec<Parameter<'static>> {
        self.multihoming.iter().flat_map(|multihoming| multihoming.named_to(peer, bytes_max)).collect()
    }

    /// The settings of several paths, if associations may have them.
    pub(super) fn multihoming(&self) -> Option<&Multihoming> {
        self.multihoming.as_ref()
    }

    /// Returns how many addresses [`multihomed`](Self::multihomed) was given.
    pub fn addresses_at_first(&self) -> usize {
        self.addresses_at_first
    }

    /// Returns the addresses of the endpoint that [`multihomed`](Self::multihomed) or [`with_addresses`](Self::with_addresses) was given.
    pub fn addresses(&self) -> &[IpAddr] {
        self.multihoming.as_ref().map_or(&[], |multihoming| &multihoming.addresses)
    }

    /// Returns whether associations may have several paths.
    pub fn is_multihomed(&self) -> bool {
        self.multihoming.is_some()
    }

    /// The settings of the endpoint's associations.
    pub fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn mechanisms(&self) -> &Arc<Mechanisms> {
        &self.mechanisms
    }

    /// A value that only this context can compute, for one purpose and one input.
    pub(crate) fn derive(&self, purpose: Purpose, input: &[u64]) -> u128 {
        let mut message = [0; 64];
        message[0] = purpose as u8;
        let slots = message[8..].as_chunks_mut::<8>().0;
        debug_assert!(input.len() <= slots.len(), "every word must enter the hash");
        for (slot, word) in slots.iter_mut().zip(input) {
            *slot = word.to_le_bytes();
        }
        self.key.hash(&message)
    }

    /// 32 bits of [`Context::derive`].
    #[expect(clippy::cast_possible_truncation, reason = "the low bits of a hash are as good as all")]
    pub(crate) fn derive_u32(&self, purpose: Purpose, input: &[u64]) -> u32 {
        self.derive(purpose, input) as u32
    }

    /// By how many parts of 1,024 the pauses of T1 are longer than usual: see `Retries::spread`.
    pub(crate) fn retry_spread(&self, tag: u32, now: Instant) -> u8 {
        if !self.config().retries.spread {
            return 0;
        }
        let [parts, ..] = self.derive_u32(Purpose::RetrySpread, &[tag.into(), now.as_nanos()]).to_be_bytes();
        parts
    }

    /// The key that signs cookies made in one period; it changes with the period (RFC 9260 §5.1.3).
    pub(crate) fn cookie_key(&self, period: u64) -> Key {
        Key::from_u128(self.derive(Purpose::CookieKey, &[period]))
    }
}

/// An address as words to derive from.
pub(crate) fn address_words(address: SocketAddr) -> [u64; 3] {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    #[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
    let halves = (ip as u64, (ip >> 64) as u64);
    [halves.0, halves.1, u64::from(address.port())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_values_depend_on_secret_purpose_and_every_input_word() {
        let one = Context::new(Config::default(), [1; 16]).unwrap();
        let two = Context::new(Config::default(), [2; 16]).unwrap();
        let base = one.derive(Purpose::LocalTag, &[1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(base, one.derive(Purpose::LocalTag, &[1, 2, 3, 4, 5, 6, 7]));
        assert_ne!(base, two.derive(Purpose::LocalTag, &[1, 2, 3, 4, 5, 6, 7]));
        assert_ne!(base, one.derive(Purpose::InitialTsn, &[1, 2, 3, 4, 5, 6, 7]));
        for changed in 0..7 {
            let mut input = [1, 2, 3, 4, 5, 6, 7];
            input[changed] += 1;
            assert_ne!(base, one.derive(Purpose::LocalTag, &input), "word {changed}");
        }
    }

    #[test]
    fn a_context_refuses_settings_out_of_range_and_names_them() {
        let mut config = Config::default();
        config.limits.packet_bytes_max = 10;
        let error = Context::new(config, [0; 16]).unwrap_err();
        assert!(error.to_string().contains("packet_bytes_max is 10"), "{error}");
    }
}
