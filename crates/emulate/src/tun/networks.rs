//! Whether there is a route between two ends.

use std::net::IpAddr;

use super::{TunEnd, TunError};

/// Refuses addresses between which there would be no route.
pub(super) fn check(left: &TunEnd, right: &TunEnd) -> Result<(), TunError> {
    let ipv4 = [left, right].map(|end| (IpAddr::from(end.address), end.prefix_bits));
    check_family(ipv4)?;
    match (left.ipv6, right.ipv6) {
        (Some(left), Some(right)) => check_family([left, right].map(|(address, bits)| (IpAddr::from(address), bits))),
        _ => Ok(()),
    }
}

fn check_family([left, right]: [(IpAddr, u8); 2]) -> Result<(), TunError> {
    if left.0 == right.0 {
        return Err(TunError::SameAddress { address: left.0 });
    }
    let common = common_bits(left.0, right.0);
    if common >= left.1 && common >= right.1 {
        return Ok(());
    }
    let written = |(address, bits): (IpAddr, u8)| format!("{address}/{bits}");
    let advice = if common == 0 {
        "give both addresses the same first bits".to_owned()
    } else {
        format!("they share their first {common} bits, so write /{common} or less behind both, or change one of them")
    };
    Err(TunError::DifferentNetworks { left: written(left), right: written(right), advice })
}

/// Returns the number of leading bits that two addresses of one family share.
fn common_bits(a: IpAddr, b: IpAddr) -> u8 {
    let bits = match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => 0,
    };
    u8::try_from(bits).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(address: &str, ipv6: Option<&str>) -> TunEnd {
        fn split<A: std::str::FromStr>(text: &str) -> (A, u8) {
            let (address, bits) = text.split_once('/').expect("an address and bits");
            (address.parse().ok().expect("an address"), bits.parse().expect("bits"))
        }
        let (address, prefix_bits) = split(address);
        TunEnd { device: "x".to_owned(), namespace: None, address, prefix_bits, ipv6: ipv6.map(split) }
    }

    fn refusal(left: (&str, Option<&str>), right: (&str, Option<&str>)) -> Option<String> {
        check(&end(left.0, left.1), &end(right.0, right.1)).err().map(|error| error.to_string())
    }

    #[test]
    fn ends_of_one_network_are_joined() {
        assert_eq!(refusal(("10.77.0.1/24", None), ("10.77.0.2/24", None)), None);
        assert_eq!(refusal(("10.77.0.1/24", Some("fd77::1/64")), ("10.77.0.2/16", Some("fd77::2/48"))), None);
        assert_eq!(refusal(("10.77.0.1/24", Some("fd77::1/64")), ("10.77.0.2/24", None)), None);
    }

    #[test]
    fn ends_of_different_networks_are_refused_with_what_to_do() {
        let refused = refusal(("10.77.0.1/24", None), ("10.77.1.2/24", None)).expect("refused");
        assert!(refused.starts_with("10.77.0.1/24 and 10.77.1.2/24 are in different networks"), "{refused}");
        assert!(refused.contains("share their first 23 bits, so write /23 or less"), "{refused}");
        assert!(refusal(("10.77.0.1/16", None), ("10.77.1.2/24", None)).is_some(), "the right end would not answer");
        let refused = refusal(("10.77.0.1/24", None), ("192.168.0.2/24", None)).expect("refused");
        assert!(refused.contains("the same first bits"), "{refused}");
        let ipv6 = refusal(("10.77.0.1/24", Some("fd77::1/64")), ("10.77.0.2/24", Some("fd78::2/64")));
        assert!(ipv6.is_some_and(|refused| refused.contains("fd77::1/64 and fd78::2/64")));
    }

    #[test]
    fn the_same_address_twice_is_refused() {
        let refused = refusal(("10.77.0.1/24", None), ("10.77.0.1/24", None)).expect("refused");
        assert!(refused.contains("both ends have the address 10.77.0.1"), "{refused}");
    }
}
