//! The state cookie: everything a listener must know to build an association, kept by the peer instead of by the listener
//! (RFC 9260 §5.1.3 to §5.1.5).

use std::net::{IpAddr, SocketAddr};

use bytes::{BufMut, Bytes};
use festina_units::{Duration, Instant};

use super::context::{Context, Ports};
use super::negotiation::{AddressFilter, Extensions};
use crate::wire::Tsn;

/// Length of the MAC in bytes.
const MAC_BYTES: usize = 16;
/// Length of the signed part: 4 u64, 5 u32, 6 u16, an IP address as IPv6 and a byte of extensions.
const BODY_BYTES: usize = 4 * 8 + 5 * 4 + 6 * 2 + 16 + 1;
/// Length of the whole cookie.
pub(crate) const COOKIE_BYTES: usize = BODY_BYTES + MAC_BYTES;
/// How long one signing key is used (RFC 9260 §5.1.3 suggests an hour).
const KEY_PERIOD: Duration = Duration::from_secs(3_600);

/// An association that exists only in a cookie as yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cookie {
    /// When the INIT ACK left.
    pub(crate) created_at: Instant,
    /// How long after that the cookie is good.
    pub(crate) lifetime: Duration,
    /// Tags of the new association: this side's and the peer's.
    pub(crate) tags: Tags,
    /// Tie-tags of the association that existed when the INIT came, or none (RFC 9260 §5.2.2).
    pub(crate) tie_tags: Option<Tags>,
    /// First TSN of this side.
    pub(crate) local_first_tsn: Tsn,
    /// What the peer's INIT said.
    pub(crate) peer: PeerParameters,
    /// SCTP ports.
    pub(crate) ports: Ports,
    /// Where the INIT came from.
    pub(crate) remote: SocketAddr,
}

/// A pair of verification tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tags {
    /// This side's tag, in packets that it receives.
    pub(crate) local: u32,
    /// The peer's tag, in packets that it receives.
    pub(crate) peer: u32,
}

/// What a peer says of itself in its INIT or INIT ACK, beside its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerParameters {
    /// Its receive window in bytes.
    pub(crate) a_rwnd: u32,
    /// Streams that it wants to send on.
    pub(crate) outbound_streams: u16,
    /// Streams that it accepts.
    pub(crate) inbound_streams: u16,
    /// Its first TSN.
    pub(crate) first_tsn: Tsn,
    /// Extensions that it supports.
    pub(crate) extensions: Extensions,
    /// Its addresses.
    pub(crate) addresses: AddressFilter,
}

/// What came of checking a cookie that a peer echoed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CookieVerdict {
    /// Not a cookie that this endpoint made.
    Forged,
    /// Genuine but outlived by so much.
    Stale(Cookie, Duration),
    /// Genuine and in time.
    Valid(Cookie),
}

impl Cookie {
    /// The signed bytes that go into INIT ACK.
    pub(crate) fn seal(&self, context: &Context) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(COOKIE_BYTES);
        bytes.put_u64(self.created_at.as_nanos());
        bytes.put_u64(nanoseconds(self.lifetime));
        let tie_tags = self.tie_tags.unwrap_or(Tags { local: 0, peer: 0 });
        for tag in [self.tags.local, self.tags.peer, tie_tags.local, tie_tags.peer] {
            bytes.put_u32(tag);
        }
        bytes.put_u64(u64::from(self.local_first_tsn.0) << 32 | u64::from(self.peer.first_tsn.0));
        bytes.put_u64(self.peer.addresses.bits());
        bytes.put_u32(self.peer.a_rwnd);
        let ip = match self.remote.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        bytes.put_u16(self.peer.outbound_streams);
        bytes.put_u16(self.peer.inbound_streams);
        bytes.put_u16(self.ports.local);
        bytes.put_u16(self.ports.peer);
        bytes.put_u16(self.remote.port());
        bytes.put_u16(u16::from(self.remote.is_ipv4()));
        bytes.put_slice(&ip.octets());
        bytes.put_u8(self.peer.extensions.bits());
        debug_assert_eq!(bytes.len(), BODY_BYTES);
        let mac = mac(context, self.created_at, &bytes);
        bytes.put_u128(mac);
        bytes
    }

    /// Checks what a peer echoed (RFC 9260 §5.1.5, steps 1, 2 and 4). The MAC is compared in constant time.
    pub(crate) fn open(context: &Context, now: Instant, bytes: &[u8]) -> CookieVerdict {
        let Some((body, &claimed)) = bytes.split_last_chunk::<MAC_BYTES>() else {
            return CookieVerdict::Forged;
        };
        let Some(cookie) = Self::read(body) else {
            return CookieVerdict::Forged;
        };
        if !equal_in_constant_time(mac(context, cookie.created_at, body), u128::from_be_bytes(claimed)) {
            return CookieVerdict::Forged;
        }
        let age = now.saturating_duration_since(cookie.created_at);
        match age.checked_sub(cookie.lifetime) {
            Some(staleness) if !staleness.is_zero() => CookieVerdict::Stale(cookie, staleness),
            _ => CookieVerdict::Valid(cookie),
        }
    }

    fn read(body: &[u8]) -> Option<Self> {
        if body.len() != BODY_BYTES {
            return None;
        }
        let mut body = Bytes::copy_from_slice(body);
        let mut reader = Reader(&mut body);
        let created_at = Instant::from_nanos(reader.u64()?);
        let lifetime = Duration::from_nanos(reader.u64()?);
        let tags = Tags { local: reader.u32()?, peer: reader.u32()? };
        let tie_tags = Tags { local: reader.u32()?, peer: reader.u32()? };
        let local_first_tsn = Tsn(reader.u32()?);
        let first_tsn = Tsn(reader.u32()?);
        let addresses = AddressFilter::from_bits(reader.u64()?);
        let a_rwnd = reader.u32()?;
        let (outbound_streams, inbound_streams) = (reader.u16()?, reader.u16()?);
        let ports = Ports { local: reader.u16()?, peer: reader.u16()? };
        let (port, is_ipv4) = (reader.u16()?, reader.u16()? == 1);
        let ip = std::net::Ipv6Addr::from(reader.u128()?);
        let ip = if is_ipv4 { IpAddr::V4(ip.to_ipv4_mapped()?) } else { IpAddr::V6(ip) };
        let extensions = Extensions::from_bits(reader.u8()?);
        Some(Self {
            created_at,
            lifetime,
            tags,
            tie_tags: (tie_tags.local != 0 || tie_tags.peer != 0).then_some(tie_tags),
            local_first_tsn,
            peer: PeerParameters { a_rwnd, outbound_streams, inbound_streams, first_tsn, extensions, addresses },
            ports,
            remote: SocketAddr::new(ip, port),
        })
    }
}

/// Reads big-endian integers; `None` at the end.
struct Reader<'a>(&'a mut Bytes);

macro_rules! read_integer {
    ($($name:ident -> $integer:ty),*) => {
        $(fn $name(&mut self) -> Option<$integer> {
            const LEN: usize = size_of::<$integer>();
            let bytes = self.0.first_chunk::<LEN>().copied()?;
            let _ = self.0.split_to(LEN);
            Some(<$integer>::from_be_bytes(bytes))
        })*
    };
}

impl Reader<'_> {
    read_integer!(u8 -> u8, u16 -> u16, u32 -> u32, u64 -> u64, u128 -> u128);
}

fn mac(context: &Context, created_at: Instant, body: &[u8]) -> u128 {
    let period = created_at.as_nanos() / nanoseconds(KEY_PERIOD);
    context.cookie_key(period).hash(body)
}

/// Looks at every bit whatever the first ones are, so that timing tells a forger nothing.
fn equal_in_constant_time(one: u128, other: u128) -> bool {
    core::hint::black_box(one ^ other) == 0
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn cookie() -> Cookie {
        Cookie {
            created_at: Instant::from_secs(7_000),
            lifetime: Duration::from_secs(60),
            tags: Tags { local: 0x1234_5678, peer: 0x9abc_def0 },
            tie_tags: Some(Tags { local: 3, peer: 4 }),
            local_first_tsn: Tsn(0xffff_fff0),
            peer: PeerParameters {
                a_rwnd: 131_072,
                outbound_streams: 10,
                inbound_streams: 65_535,
                first_tsn: Tsn(17),
                extensions: Extensions::from_bits(5),
                addresses: AddressFilter::from_bits(0x8000_0000_0000_0001),
            },
            ports: Ports { local: 5_000, peer: 5_001 },
            remote: "192.0.2.7:9899".parse().unwrap(),
        }
    }

    fn context(secret: u8) -> std::sync::Arc<Context> {
        Context::new(Config::default(), [secret; 16]).unwrap()
    }

    #[test]
    fn a_sealed_cookie_opens_to_what_it_held_for_ipv4_and_ipv6_and_without_tie_tags() {
        for remote in ["192.0.2.7:9899", "[2001:db8::1]:1"] {
            for tie_tags in [None, Some(Tags { local: 9, peer: 0 })] {
                let cookie = Cookie { remote: remote.parse().unwrap(), tie_tags, ..cookie() };
                let sealed = cookie.seal(&context(1));
                assert_eq!(sealed.len(), COOKIE_BYTES);
                let opened = Cookie::open(&context(1), Instant::from_secs(7_060), &sealed);
                assert_eq!(opened, CookieVerdict::Valid(cookie));
            }
        }
    }

    #[test]
    fn rfc9260_5_1_5_a_cookie_with_any_byte_changed_or_missing_is_forged() {
        let sealed = cookie().seal(&context(1));
        for index in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[index] ^= 1;
            assert_eq!(Cookie::open(&context(1), cookie().created_at, &changed), CookieVerdict::Forged, "byte {index}");
            assert_eq!(Cookie::open(&context(1), cookie().created_at, &sealed[..index]), CookieVerdict::Forged);
        }
        let longer = [&sealed[..], &[0]].concat();
        assert_eq!(Cookie::open(&context(1), cookie().created_at, &longer), CookieVerdict::Forged);
    }

    #[test]
    fn a_cookie_of_another_endpoint_is_forged() {
        let sealed = cookie().seal(&context(1));
        assert_eq!(Cookie::open(&context(2), cookie().created_at, &sealed), CookieVerdict::Forged);
    }

    #[test]
    fn rfc9260_5_1_5_a_cookie_past_its_lifetime_is_stale_by_the_difference() {
        let sealed = cookie().seal(&context(1));
        let late = Instant::from_secs(7_063);
        let verdict = Cookie::open(&context(1), late, &sealed);
        assert_eq!(verdict, CookieVerdict::Stale(cookie(), Duration::from_secs(3)));
    }

    #[test]
    fn rfc9260_5_1_3_the_signing_key_changes_every_hour() {
        let body = [0; BODY_BYTES];
        let first = mac(&context(1), Instant::from_secs(3_599), &body);
        assert_eq!(first, mac(&context(1), Instant::ZERO, &body));
        assert_ne!(first, mac(&context(1), Instant::from_secs(3_600), &body));
    }
}
