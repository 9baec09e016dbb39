//! Networks of addresses, as in `192.0.2.0/24`.

use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use thiserror::Error;

/// A network: all addresses that share a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// IPv4 addresses are mapped.
    prefix: u128,
    mask: u128,
    is_ipv4: bool,
}

/// A text is neither an address nor a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NetworkError {
    /// The part before the slash.
    #[error("must be an IP address or a network, as in \"192.0.2.0/24\"")]
    Address,
    /// The part behind it.
    #[error("the prefix length must be between 0 and {0}")]
    Bits(u8),
    /// Bits behind the prefix.
    #[error("the address has bits set after its prefix of {0} bits")]
    Rest(u8),
}

fn bits_of(address: IpAddr) -> (u128, bool) {
    match address.to_canonical() {
        IpAddr::V4(address) => (address.to_ipv6_mapped().to_bits(), true),
        IpAddr::V6(address) => (address.to_bits(), false),
    }
}

impl Network {
    /// Returns whether the address is in this network. IPv4 addresses mapped to IPv6 count as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (bits, is_ipv4) = bits_of(address);
        is_ipv4 == self.is_ipv4 && bits & self.mask == self.prefix
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| NetworkError::Address)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits: u8 = bits.map_or(Ok(most), str::parse).map_err(|_| NetworkError::Bits(most))?;
        if bits > most {
            return Err(NetworkError::Bits(most));
        }
        let fixed = u32::from(bits) + u32::from(128 - most);
        let mask = u128::MAX.checked_shl(128 - fixed).unwrap_or(0);
        let (prefix, is_ipv4) = match address {
            IpAddr::V4(address) => (address.to_ipv6_mapped(), true),
            // A network of mapped addresses is one of IPv4 only as a whole.
            IpAddr::V6(address) => (address, fixed >= 96 && address.to_ipv4_mapped().is_some()),
        };
        let prefix = Ipv6Addr::to_bits(prefix);
        if prefix & !mask != 0 {
            return Err(NetworkError::Rest(bits));
        }
        Ok(Self { prefix, mask, is_ipv4 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_the_addresses_with_its_prefix_and_no_others() {
        for (network, inside, outside) in [
            ("192.0.2.0/24", "192.0.2.255", "192.0.3.0"),
            ("192.0.2.0/24", "::ffff:192.0.2.7", "::192.0.2.7"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("0.0.0.0/0", "255.1.2.3", "2001:db8::1"),
            ("::/0", "2001:db8::1", "192.0.2.1"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("::ffff:192.0.2.0/120", "192.0.2.9", "192.0.3.9"),
            ("::1", "::1", "::2"),
        ] {
            let network: Network = network.parse().expect("a network");
            assert!(network.contains(inside.parse().expect("an address")), "{network:?} {inside}");
            assert!(!network.contains(outside.parse().expect("an address")), "{network:?} {outside}");
        }
    }

    #[test]
    fn texts_that_name_no_network_are_refused() {
        for (text, error) in [
            ("here", NetworkError::Address),
            ("192.0.2.0/33", NetworkError::Bits(32)),
            ("192.0.2.0/", NetworkError::Bits(32)),
            ("::/129", NetworkError::Bits(128)),
            ("192.0.2.1/24", NetworkError::Rest(24)),
        ] {
            assert_eq!(text.parse::<Network>(), Err(error), "{text}");
        }
    }
}
