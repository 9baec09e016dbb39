//! The addresses of this endpoint, and the settings of several paths.

use std::net::IpAddr;

use thiserror::Error;

use super::addresses::{is_link_local_ipv6, is_unicast, parameter_of};
use crate::config::ConfigError;
use crate::path_id::PATHS_MAX;
use crate::wire::Parameter;

/// Settings of an endpoint whose associations have several paths.
///
/// A path leads to each address that the peer names in its INIT or INIT ACK, as far as `paths_max` allows. An address is confirmed by a heartbeat
/// before anything else is sent to it (RFC 9260 §5.4). Data leaves by the primary path, and by another while that one does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multihoming {
    /// The addresses of this endpoint, at most 8. If there are two or more, INIT and INIT ACK name them: loopback and IPv6 link-local ones only
    /// to a peer with such an address, and no more than the answer to an unproven address may hold. Addresses of the peer are used if this list is
    /// empty or has one of the same family.
    pub addresses: Vec<IpAddr>,
    /// Maximum number of paths of an association, from 1 to 8.
    pub paths_max: usize,
    /// Number of consecutive timeouts that leave a path active (PFMR, RFC 7829). Above it the path is potentially failed: data leaves by an active path
    /// instead, and heartbeats are sent every RTO until one is answered. `None` turns this off: then data leaves by the primary path until
    /// `retries.path_max` is exceeded, for about a minute (RFC 9260 §8.2).
    ///
    /// With 0, the default, a probe of a thin stream that is not answered within about a round trip counts as a timeout.
    pub suspected_above: Option<u32>,
    /// How the paths share the work.
    pub policy: PathPolicy,
}

/// How several active paths share the packets of an association.
///
/// Except for [`PrimaryOnly`](Self::PrimaryOnly), new data leaves by the path with the shortest round trip, unless a primary path
/// [was chosen](crate::Association::set_primary) or the primary one is at most an eighth slower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathPolicy {
    /// All data leaves by the primary path while it answers (RFC 9260 §6.4).
    PrimaryOnly,
    /// Chunks of a thin stream that may be lost are sent again by two paths: each packet leaves by the path of new data, and every second one, from the
    /// first on, by another path as well. A path whose round trip is more than twice as long is left out: the fast path repairs sooner.
    #[default]
    Repairs,
    /// As [`Repairs`](Self::Repairs), and each packet with new data of a thin stream is sent by another path as well, unless its round trip is more than
    /// four times as long. At most a congestion window of such copies is sent in a round trip.
    Copies,
    /// As [`Copies`](Self::Copies), for any round trip and for all streams. Copies of a stream that is not thin leave as far as they and the data in flight
    /// fit into the congestion window.
    Both,
}

impl PathPolicy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::PrimaryOnly, Self::Repairs, Self::Copies, Self::Both];

    /// Returns its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PrimaryOnly => "primary",
            Self::Repairs => "repairs",
            Self::Copies => "copies",
            Self::Both => "both",
        }
    }
}

festina_units::text_is_name!(
    PathPolicy,
    PathPolicy::ALL.into_iter(),
    /// Caller: text that is not the name of a [`PathPolicy`].
    UnknownPathPolicy,
    "path policy"
);

impl Default for Multihoming {
    fn default() -> Self {
        Self { addresses: Vec::new(), paths_max: PATHS_MAX, suspected_above: Some(0), policy: PathPolicy::default() }
    }
}

/// Caller: an endpoint cannot have these addresses or paths.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MultihomingError {
    /// A setting is out of range.
    #[error(transparent)]
    OutOfRange(#[from] ConfigError),
    /// The address is not that of a single host, or is an IPv4 address written as an IPv6 one (RFC 9260 §3.3.2.1.2).
    #[error("{0} cannot be one of several addresses of an endpoint")]
    UnusableAddress(IpAddr),
    /// The address is there twice.
    #[error("the address {0} is named twice")]
    Repeated(IpAddr),
}

impl Multihoming {
    /// Checks these settings, as [`Context::multihomed`](crate::Context::multihomed) does.
    ///
    /// # Errors
    /// A setting is out of range, or an address is not usable.
    pub fn validate(&self) -> Result<(), MultihomingError> {
        ConfigError::check("addresses", self.addresses.len(), 0, PATHS_MAX)?;
        ConfigError::check("paths_max", self.paths_max, 1, PATHS_MAX)?;
        for (at, &address) in self.addresses.iter().enumerate() {
            if !is_unicast(address) || address.to_canonical() != address {
                return Err(MultihomingError::UnusableAddress(address));
            }
            if self.addresses.iter().take(at).any(|&earlier| earlier == address) {
                return Err(MultihomingError::Repeated(address));
            }
        }
        Ok(())
    }

    /// Returns whether packets can be sent to an address of this family.
    pub(super) fn reaches(&self, address: IpAddr) -> bool {
        self.addresses.is_empty() || self.addresses.iter().any(|own| own.is_ipv4() == address.is_ipv4())
    }

    /// The parameters that name this endpoint's addresses, if it has several, to a peer at this address, up to `bytes_max` bytes of them.
    pub(super) fn named_to(&self, peer: IpAddr, bytes_max: usize) -> impl Iterator<Item = Parameter<'static>> {
        let mut room_bytes = if self.addresses.len() > 1 { bytes_max } else { 0 };
        self.reachable_from(peer).map_while(move |address| {
            room_bytes = room_bytes.checked_sub(if address.is_ipv4() { 8 } else { 20 })?;
            Some(parameter_of(address))
        })
    }

    /// This endpoint's addresses that a peer at this address may reach.
    pub(super) fn reachable_from(&self, peer: IpAddr) -> impl Iterator<Item = IpAddr> {
        let peer = peer.to_canonical();
        let fits = move |address: &IpAddr| {
            (!address.is_loopback() || peer.is_loopback())
                && (!is_link_local_ipv6(*address) || is_link_local_ipv6(peer))
        };
        self.addresses.iter().copied().filter(fits)
    }
}
