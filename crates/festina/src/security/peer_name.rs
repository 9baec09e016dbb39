//! One spelling for each host, so that a peer that is written in another way is not trusted at its first use again.

use std::net::Ipv4Addr;

use crate::address::Zoned;

/// The canonical form of a peer's name. A name that ends with a port names a host: an IP address is written in its shortest form, and a host name in
/// lower case without the dot at its end. Other names are the application's own and stay as they are.
pub(super) fn canonical(name: &str) -> String {
    let host_and_port = name.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    let Some((host, port)) = host_and_port else { return name.to_owned() };
    let zoned = Zoned::of(host);
    let address = zoned.map_or_else(|| ipv4(host), |zoned| zoned.address.to_ipv4_mapped());
    match (address, zoned) {
        (Some(address), _) => format!("{address}:{port}"),
        (None, Some(zoned)) => format!("{zoned}:{port}"),
        (None, None) => format!("{}:{port}", host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()),
    }
}

/// Reads an IPv4 address as resolvers do: one to four numbers, the last one fills the rest, in decimal, octal (0) or hexadecimal (0x).
fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let numbers: Option<Vec<u32>> = text.split('.').map(number).collect();
    let (&last, heads) = numbers.as_deref().and_then(<[u32]>::split_last)?;
    let rest_bits = 32_u32.checked_sub(8 * u32::try_from(heads.len()).ok()?).filter(|bits| *bits > 0)?;
    if u64::from(last) >> rest_bits > 0 {
        return None;
    }
    let mut address = last;
    for (&head, place) in heads.iter().zip(1..) {
        address |= u32::from(u8::try_from(head).ok()?) << (32 - 8 * place);
    }
    Some(Ipv4Addr::from_bits(address))
}

fn number(text: &str) -> Option<u32> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, radix).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_has_one_spelling() {
        for (spelling, expected) in [
            ("LocalHost.:1", "localhost:1"),
            ("127.1:09", "127.0.0.1:9"),
            ("2130706433:1", "127.0.0.1:1"),
            ("0x7f.0.0.01:1", "127.0.0.1:1"),
            ("010.1.65535:1", "8.1.255.255:1"),
            ("[::ffff:192.0.2.1]:1", "192.0.2.1:1"),
            ("[2001:DB8:0:0::1]:1", "[2001:db8::1]:1"),
            ("[fe80::1%eth0]:1", "[fe80::1%eth0]:1"),
            ("[FE80:0::1%Eth0]:1", "[fe80::1%Eth0]:1"),
            ("1.2.3.4.5:1", "1.2.3.4.5:1"),
            ("1.256:1", "1.0.1.0:1"),
            ("256.1:1", "256.1:1"),
            ("1..2:1", "1..2:1"),
            ("4294967296:1", "4294967296:1"),
            ("Player One", "Player One"),
            ("Player:One", "Player:One"),
            ("A:65536", "A:65536"),
            (":1", ":1"),
        ] {
            assert_eq!(canonical(spelling), expected, "{spelling}");
            assert_eq!(canonical(expected), expected, "it stays the same");
        }
    }
}
