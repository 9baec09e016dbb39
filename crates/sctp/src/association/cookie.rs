//! The state cookie: everything a listener must know to build an association, kept by the peer instead of by the listener (RFC 9260 §5.1.3 to
//! §5.1.5).
//!
//! The cookie is short, since an INIT ACK goes to an unverified address. Fields that the packet with COOKIE ECHO repeats (this side's tag, the ports
//! and the source's IP address, unless the peer has others) are signed but not contained. This side's first TSN is derived from its tag.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |        time of the INIT ACK, in µs modulo 2^48 ...            |
//! +-------------------------------+---------------+---------------+
//! |         ... time              |   Y   |prolong|  extensions   |
//! +-------------------------------+---------------+---------------+
//! |                     tie-tags, 0 for none                      |
//! +---------------------------------------------------------------+
//! |                        the peer's tag                         |
//! +===============================================================+
//! |                     the peer's first TSN                      |
//! +---------------------------------------------------------------+
//! |                  the peer's receive window                    |
//! +-------------------------------+-------------------------------+
//! |   the peer's outbound streams |    the peer's inbound streams |
//! +-------------------------------+-------------------------------+
//! |     list of the peer's other addresses, 8 to 136 bytes        |
//! +---------------------------------------------------------------+
//! |  if it has any: where the INIT ACK went, as an IPv6 address   |
//! +---------------------------------------------------------------+
//! |                        MAC, 16 bytes                          |
//! ```
//!
//! Y is the four highest of the twelve bits of the extensions. [`AddressBook`] describes the list of addresses. A peer with a single address names
//! none, and its cookie has 52 bytes.
//!
//! The part above the double line is encrypted with a key stream that the MAC selects, so that a cookie reveals nothing about this side's clock.

use core::num::NonZeroU32;
use std::net::{IpAddr, SocketAddr};

use bytes::{Buf, BufMut};
use festina_units::{Duration, Instant};

use super::addresses::{AddressBook, LIST_BYTES_MAX};
use super::context::{Context, Ports, Purpose, address_words};
use super::extensions::Extensions;
use crate::wire::Tsn;

/// Length of the encrypted part: the time, two single bytes, tie-tags and the peer's tag.
const SECRET_BYTES: usize = TIME_BYTES + 1 + 1 + 4 + 4;
/// Length of the part before the addresses: after the secret part three u32.
const BODY_BYTES: usize = SECRET_BYTES + 3 * 4;
/// Length of the longest signed data: the body, the addresses, the tag, the ports and an IP address as IPv6.
const SIGNED_BYTES_MAX: usize = BODY_BYTES + LIST_BYTES_MAX + 4 + 2 * 2 + 16;
/// Length of the time.
const TIME_BYTES: usize = 6;
/// The bits of a time in µs that a cookie holds: 9 years, after which cookies are long stale.
const TIME_MASK: u64 = (1 << (8 * TIME_BYTES)) - 1;
/// The bits of its byte that encode the extension of the cookie's lifetime.
const STEPS_MASK: u8 = 0x0f;
/// The bits above them are the highest ones of the extensions.
const STEPS_BITS: u32 = STEPS_MASK.count_ones();
/// Cookies are prolonged in steps of this.
const PROLONGATION_STEP: Duration = Duration::from_secs(4);
/// A cookie is prolonged by at most this at the peer's wish (RFC 9260 §3.3.2.1.3).
pub(crate) const PROLONGED_MAX: Duration = Duration::from_secs(60);
/// Lifetime of a signing key (RFC 9260 §5.1.3 suggests an hour).
const KEY_PERIOD: Duration = Duration::from_secs(3_600);

const _: () =
    assert!(PROLONGED_MAX.as_millis() / PROLONGATION_STEP.as_millis() <= STEPS_MASK as u128, "four bits hold it");

/// An association that exists only in a cookie as yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cookie {
    /// When the INIT ACK left, in whole µs.
    pub(crate) created_at: Instant,
    /// Extension of the configured lifetime, at most [`PROLONGED_MAX`] and in whole steps.
    pub(crate) prolonged: Duration,
    /// Tags of the new association: this side's and the peer's.
    pub(crate) tags: Tags,
    /// Tie-tags of the association that existed when the INIT came, or none (RFC 9260 §5.2.2).
    pub(crate) tie_tags: Option<TieTags>,
    /// The parameters of the peer's INIT.
    pub(crate) peer: PeerParameters,
    /// The addresses that the INIT named besides [`address`](Self::address).
    pub(crate) addresses: AddressBook,
    /// SCTP ports.
    pub(crate) ports: Ports,
    /// Where the INIT ACK went, and as a rule the INIT came from. The UDP port is left out, since a NAT may change it before the COOKIE ECHO (RFC 6951 §5.4).
    pub(crate) address: IpAddr,
}

/// Properties of a packet with COOKIE ECHO that its cookie is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bearer {
    /// The packet's verification tag.
    pub(crate) tag: u32,
    /// The packet's ports, as this side sees them.
    pub(crate) ports: Ports,
    /// The packet's source.
    pub(crate) address: IpAddr,
}

/// The two tie-tags of RFC 9260 §5.2.2 as one: only this side ever compares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TieTags(NonZeroU32);

impl TieTags {
    /// What stands for the association with these tags in cookies, without giving its tags away.
    pub(crate) fn of(context: &Context, tags: Tags) -> Self {
        let hash = context.derive_u32(Purpose::TieTags, &[tags.local.into(), tags.peer.into()]);
        Self(NonZeroU32::new(hash).unwrap_or(NonZeroU32::MIN))
    }

    /// Identifies an association that is being opened with this tag. Its cookies contain its own tag and are valid for it alone: another association
    /// created from one later would have the same tag and TSNs.
    pub(crate) fn of_opening(context: &Context, local_tag: u32) -> Self {
        Self::of(context, Tags { local: local_tag, peer: 0 })
    }
}

/// Returns the first TSN of the association with this local tag. It is as unguessable as the tag (RFC 9260 §5.3.1) and need not be stored.
pub(crate) fn first_tsn(context: &Context, local_tag: u32) -> Tsn {
    Tsn(context.derive_u32(Purpose::InitialTsn, &[local_tag.into()]))
}

/// A pair of verification tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tags {
    /// This side's tag, in packets that it receives.
    pub(crate) local: u32,
    /// The peer's tag, in packets that it receives.
    pub(crate) peer: u32,
}

impl Tags {
    /// Whether ABORT or SHUTDOWN COMPLETE carries the right tag, wherever it stands in the packet: the own one, or with the T bit the peer's
    /// (RFC 9260 §8.5.1 B, C).
    pub(crate) fn fit_end(self, tag: u32, tag_reflected: bool) -> bool {
        if tag_reflected { tag == self.peer && tag != 0 } else { tag == self.local }
    }
}

/// The parameters of the peer's INIT or INIT ACK, apart from its tag.
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
}

/// The result of checking an echoed cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CookieVerdict {
    /// Not a cookie that this endpoint made.
    Forged,
    /// Genuine, but stale by this duration.
    Stale(Cookie, Duration),
    /// Genuine and in time.
    Valid(Cookie),
}

impl Cookie {
    /// The signed bytes that go into INIT ACK.
    pub(crate) fn seal(&self, context: &Context) -> Vec<u8> {
        let mut body = [0; BODY_BYTES];
        let mut rest = &mut body[..];
        rest.put_uint(microseconds(self.created_at) & TIME_MASK, TIME_BYTES);
        let [high, extensions] = self.peer.extensions.bits().to_be_bytes();
        rest.put_u8(prolongation_steps(self.prolonged) | high << STEPS_BITS);
        rest.put_u8(extensions);
        rest.put_u32(self.tie_tags.map_or(0, |TieTags(tags)| tags.get()));
        rest.put_u32(self.tags.peer);
        rest.put_u32(self.peer.first_tsn.0);
        rest.put_u32(self.peer.a_rwnd);
        rest.put_u16(self.peer.outbound_streams);
        rest.put_u16(self.peer.inbound_streams);
        let bearer = Bearer { tag: self.tags.local, ports: self.ports, address: self.address };
        let mut addresses = Vec::new();
        self.addresses.append_to(&mut addresses);
        let mac = mac(context, self.created_at, (&body, &addresses), &bearer);
        encrypt(context, mac, &mut body);
        let home = if self.addresses.as_slice().is_empty() { &[][..] } else { &as_ipv6(self.address) };
        [&body[..], &addresses, home, &mac.to_be_bytes()].concat()
    }

    /// Checks an echoed cookie (RFC 9260 §5.1.5, steps 1 to 4). The MAC is compared in constant time. A peer with several addresses may echo it from any
    /// of them.
    pub(crate) fn open(context: &Context, now: Instant, bearer: &Bearer, echoed: &[u8]) -> CookieVerdict {
        let Some((body, addresses, home, claimed)) = split(echoed) else { return CookieVerdict::Forged };
        let home = home.unwrap_or(bearer.address);
        let signed = Bearer { address: home, ..*bearer };
        let mut body = *body;
        encrypt(context, claimed, &mut body);
        let mut cookie = Self::read(now, &signed, &body);
        if !equal_in_constant_time(mac(context, cookie.created_at, (&body, addresses), &signed), claimed) {
            return CookieVerdict::Forged;
        }
        let Some(addresses) = AddressBook::from_list(addresses) else { return CookieVerdict::Forged };
        if home.to_canonical() != bearer.address.to_canonical() && !addresses.contains(bearer.address) {
            return CookieVerdict::Forged;
        }
        cookie.addresses = addresses;
        let age = now.saturating_duration_since(cookie.created_at);
        match age.checked_sub(context.config().timers.cookie_lifetime + cookie.prolonged) {
            Some(staleness) if !staleness.is_zero() => CookieVerdict::Stale(cookie, staleness),
            _ => CookieVerdict::Valid(cookie),
        }
    }

    /// Reads a cookie without its addresses.
    fn read(now: Instant, bearer: &Bearer, body: &[u8; BODY_BYTES]) -> Self {
        let mut rest = &body[..];
        let created_at = latest_with(now, rest.get_uint(TIME_BYTES));
        let steps = rest.get_u8();
        let prolonged = PROLONGATION_STEP * (steps & STEPS_MASK).into();
        let extensions = Extensions::from_bits(u16::from_be_bytes([steps >> STEPS_BITS, rest.get_u8()]));
        let tie_tags = NonZeroU32::new(rest.get_u32()).map(TieTags);
        let tags = Tags { local: bearer.tag, peer: rest.get_u32() };
        let first_tsn = Tsn(rest.get_u32());
        let a_rwnd = rest.get_u32();
        let (outbound_streams, inbound_streams) = (rest.get_u16(), rest.get_u16());
        let peer = PeerParameters { a_rwnd, outbound_streams, inbound_streams, first_tsn, extensions };
        let (addresses, ports, address) = (AddressBook::default(), bearer.ports, bearer.address);
        Self { created_at, prolonged, tags, tie_tags, peer, addresses, ports, address }
    }
}

/// The parts of an echoed cookie: body, list of addresses, where the INIT ACK went if it says so, and MAC.
type Parts<'c> = (&'c [u8; BODY_BYTES], &'c [u8], Option<IpAddr>, u128);

fn split(echoed: &[u8]) -> Option<Parts<'_>> {
    let (body, rest) = echoed.split_first_chunk()?;
    let (list, claimed) = rest.split_last_chunk()?;
    let (list, home) = match list.split_last_chunk::<16>() {
        Some((list, home)) if list.first().is_some_and(|&count| count > 0) => {
            (list, Some(IpAddr::from(*home).to_canonical()))
        }
        _ => (list, None),
    };
    (list.len() <= LIST_BYTES_MAX).then_some((body, list, home, u128::from_be_bytes(*claimed)))
}

/// The addresses in a cookie that may be forged, if its peer has several.
pub(crate) fn addresses_in(echoed: &[u8]) -> Vec<IpAddr> {
    let Some((_, list, Some(home), _)) = split(echoed) else { return Vec::new() };
    let others = AddressBook::from_list(list).unwrap_or_default();
    [&[home], others.as_slice()].concat()
}

/// Encrypts the secret part of a body, or decrypts it again. Two cookies with the same MAC are the same cookie, so that each key stream
/// is used for one text only.
fn encrypt(context: &Context, mac: u128, body: &mut [u8; BODY_BYTES]) {
    #[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
    let key_stream = context.derive(Purpose::CookieCipher, &[mac as u64, (mac >> 64) as u64]).to_be_bytes();
    for (byte, key) in body.iter_mut().zip::<[u8; SECRET_BYTES]>(key_stream) {
        *byte ^= key;
    }
}

/// Signs a body and the list of addresses after it, which is at most [`LIST_BYTES_MAX`] long. Everything else that is signed has a fixed length, so no
/// two cookies have the same signed bytes.
fn mac(context: &Context, created_at: Instant, (body, addresses): (&[u8; BODY_BYTES], &[u8]), bearer: &Bearer) -> u128 {
    let mut signed = [0; SIGNED_BYTES_MAX];
    let mut rest = &mut signed[..];
    rest.put_slice(body);
    rest.put_slice(addresses);
    rest.put_u32(bearer.tag);
    rest.put_u16(bearer.ports.local);
    rest.put_u16(bearer.ports.peer);
    let [ip_low, ip_high, _] = address_words(SocketAddr::new(bearer.address, 0));
    rest.put_u64(ip_high);
    rest.put_u64(ip_low);
    let unused_bytes = rest.len();
    let period = microseconds(created_at) / KEY_PERIOD.as_secs() / 1_000_000;
    context.cookie_key(period).hash(signed.get(..SIGNED_BYTES_MAX - unused_bytes).unwrap_or(&signed))
}

fn as_ipv6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// Returns the latest time up to `now` with these low bits in µs.
fn latest_with(now: Instant, low_bits: u64) -> Instant {
    let now_us = microseconds(now);
    let age_us = now_us.wrapping_sub(low_bits) & TIME_MASK;
    Instant::from_nanos(now_us.saturating_sub(age_us).saturating_mul(1_000))
}

fn prolongation_steps(prolonged: Duration) -> u8 {
    let steps = prolonged.min(PROLONGED_MAX).as_millis().div_ceil(PROLONGATION_STEP.as_millis());
    u8::try_from(steps).unwrap_or(u8::MAX)
}

/// Compares all bits regardless of the first ones, so that timing reveals nothing to a forger.
fn equal_in_constant_time(one: u128, other: u128) -> bool {
    core::hint::black_box(one ^ other) == 0
}

fn microseconds(time: Instant) -> u64 {
    time.as_nanos() / 1_000
}

#[cfg(test)]
mod tests {
    use super::super::addresses::ADDRESSES_MAX;
    use super::*;
    use crate::config::Config;

    fn cookie() -> Cookie {
        Cookie {
            created_at: Instant::from_secs(7_000),
            prolonged: Duration::from_secs(60),
            tags: Tags { local: 0x1234_5678, peer: 0x9abc_def0 },
            tie_tags: Some(TieTags(NonZeroU32::MAX)),
            peer: PeerParameters {
                a_rwnd: 131_072,
                outbound_streams: 10,
                inbound_streams: 65_535,
                first_tsn: Tsn(17),
                extensions: Extensions::from_bits(0xf05),
            },
            addresses: AddressBook::default(),
            ports: Ports { local: 5_000, peer: 5_001 },
            address: "192.0.2.7".parse().unwrap(),
        }
    }

    fn bearer(cookie: &Cookie) -> Bearer {
        Bearer { tag: cookie.tags.local, ports: cookie.ports, address: cookie.address }
    }

    fn context(secret: u8) -> std::sync::Arc<Context> {
        Context::new(Config::default(), [secret; 16]).unwrap()
    }

    #[test]
    fn a_sealed_cookie_opens_to_what_it_held_for_ipv4_and_ipv6_and_without_tie_tags() {
        for address in ["192.0.2.7", "2001:db8::1"] {
            for tie_tags in [None, Some(TieTags(NonZeroU32::MIN))] {
                let cookie = Cookie { address: address.parse().unwrap(), tie_tags, ..cookie() };
                let sealed = cookie.seal(&context(1));
                let opened = Cookie::open(&context(1), Instant::from_secs(7_060), &bearer(&cookie), &sealed);
                assert_eq!(opened, CookieVerdict::Valid(cookie));
            }
        }
    }

    #[test]
    fn a_cookie_holds_the_other_addresses_of_the_peer_and_is_no_longer_for_a_peer_with_one() {
        let mut addresses = AddressBook::default();
        let mut lengths = Vec::new();
        for number in 0..=ADDRESSES_MAX as u128 {
            let cookie = Cookie { addresses: addresses.clone(), ..cookie() };
            let sealed = cookie.seal(&context(1));
            lengths.push(sealed.len());
            let opened = Cookie::open(&context(1), cookie.created_at, &bearer(&cookie), &sealed);
            assert_eq!(opened, CookieVerdict::Valid(cookie));
            let ipv6 = u128::from_be_bytes([0x20; 16]) + number;
            addresses.insert_first(if number == 1 { [192, 0, 2, 9].into() } else { IpAddr::V6(ipv6.into()) });
        }
        assert_eq!(lengths, [52, 84, 88, 104, 120, 136, 152, 168, 184]);
    }

    #[test]
    fn a_peer_with_several_addresses_may_echo_a_cookie_from_each_and_from_no_other() {
        for home in ["192.0.2.7", "2001:db8::1"] {
            let mut cookie = Cookie { address: home.parse().unwrap(), ..cookie() };
            cookie.addresses.insert_first("198.51.100.7".parse().unwrap());
            let (sealed, now) = (cookie.seal(&context(1)), cookie.created_at);
            let opened = |from: &str| {
                let bearer = Bearer { address: from.parse().unwrap(), ..bearer(&cookie) };
                Cookie::open(&context(1), now, &bearer, &sealed)
            };
            for from in [home, "198.51.100.7", "::ffff:198.51.100.7"] {
                assert_eq!(opened(from), CookieVerdict::Valid(cookie.clone()), "from {from}");
            }
            assert_eq!(opened("198.51.100.8"), CookieVerdict::Forged);
        }
    }

    #[test]
    fn rfc9260_5_1_5_a_cookie_with_any_bit_changed_or_any_byte_missing_is_forged() {
        for others in [&[][..], &["198.51.100.7", "2001:db8::7"]] {
            let mut cookie = cookie();
            for other in others {
                cookie.addresses.insert_first(other.parse().unwrap());
            }
            every_change_is_forged(&cookie);
        }
    }

    fn every_change_is_forged(cookie: &Cookie) {
        let (sealed, now, bearer) = (cookie.seal(&context(1)), cookie.created_at, bearer(cookie));
        for index in 0..sealed.len() {
            for bit in 0..8 {
                let mut changed = sealed.clone();
                changed[index] ^= 1 << bit;
                assert_eq!(Cookie::open(&context(1), now, &bearer, &changed), CookieVerdict::Forged, "byte {index}");
            }
            assert_eq!(Cookie::open(&context(1), now, &bearer, &sealed[..index]), CookieVerdict::Forged);
        }
        let longer = [&sealed[..], &[0]].concat();
        assert_eq!(Cookie::open(&context(1), now, &bearer, &longer), CookieVerdict::Forged);
    }

    #[test]
    fn rfc9260_5_1_5_a_cookie_under_another_tag_from_other_ports_or_another_address_is_forged() {
        let (sealed, now, own) = (cookie().seal(&context(1)), cookie().created_at, bearer(&cookie()));
        let strangers = [
            Bearer { tag: own.tag ^ 1, ..own },
            Bearer { ports: Ports { local: 5_002, ..own.ports }, ..own },
            Bearer { ports: Ports { peer: 5_002, ..own.ports }, ..own },
            Bearer { ports: Ports { local: own.ports.peer, peer: own.ports.local }, ..own },
            Bearer { address: "192.0.2.8".parse().unwrap(), ..own },
        ];
        for stranger in strangers {
            let verdict = Cookie::open(&context(1), now, &stranger, &sealed);
            assert_eq!(verdict, CookieVerdict::Forged, "{stranger:?}");
        }
    }

    #[test]
    fn a_cookie_of_another_endpoint_is_forged() {
        let sealed = cookie().seal(&context(1));
        let verdict = Cookie::open(&context(2), cookie().created_at, &bearer(&cookie()), &sealed);
        assert_eq!(verdict, CookieVerdict::Forged);
    }

    #[test]
    fn rfc9260_5_1_5_a_cookie_past_its_lifetime_is_stale_by_the_difference() {
        let sealed = cookie().seal(&context(1));
        let late = cookie().created_at + Duration::from_secs(60) + cookie().prolonged + Duration::from_secs(3);
        let verdict = Cookie::open(&context(1), late, &bearer(&cookie()), &sealed);
        assert_eq!(verdict, CookieVerdict::Stale(cookie(), Duration::from_secs(3)));
    }

    #[test]
    fn a_wish_for_a_longer_life_is_rounded_up_and_bounded() {
        for (wished_ms, granted_ms) in [(0, 0), (1, 4_000), (4_000, 4_000), (59_900, 60_000), (9_000_000, 60_000)] {
            let cookie = Cookie { prolonged: Duration::from_millis(wished_ms), ..cookie() };
            let sealed = cookie.seal(&context(1));
            let verdict = Cookie::open(&context(1), cookie.created_at, &bearer(&cookie), &sealed);
            let CookieVerdict::Valid(opened) = verdict else { panic!("{verdict:?}") };
            assert_eq!(opened.prolonged, Duration::from_millis(granted_ms), "{wished_ms} ms");
        }
    }

    #[test]
    fn the_time_in_a_cookie_is_exact_to_a_microsecond_at_any_age_of_the_endpoint() {
        for secs in [0, 1, 3_599, 3_600, 281_474_976, 281_474_977, 18_000_000_000] {
            let created_at = Instant::from_secs(secs) + Duration::from_nanos(1_999);
            let cookie = Cookie { created_at, ..cookie() };
            let now = created_at + Duration::from_secs(59);
            let verdict = Cookie::open(&context(1), now, &bearer(&cookie), &cookie.seal(&context(1)));
            let CookieVerdict::Valid(opened) = verdict else { panic!("{secs} s: {verdict:?}") };
            assert_eq!(opened.created_at, Instant::from_secs(secs) + Duration::from_micros(1), "{secs} s");
        }
    }

    #[test]
    fn a_cookie_says_nothing_of_the_clock() {
        // In clear the high bits of two times a millisecond apart would be the same; of a cipher's about half are.
        let at = |ms| Cookie { created_at: Instant::from_millis(7_000_000 + ms), ..cookie() }.seal(&context(1));
        let same: u32 =
            (0..64_u64).map(|ms| (0..4).map(|byte| (at(ms)[byte] ^ at(ms + 1)[byte]).count_zeros()).sum::<u32>()).sum();
        let bits = 64 * 32;
        assert!((bits * 2 / 5..bits * 3 / 5).contains(&same), "{same} of {bits} bits are the same");
    }

    #[test]
    fn rfc9260_5_1_3_the_signing_key_changes_every_hour() {
        let (body, bearer) = ([0; BODY_BYTES], bearer(&cookie()));
        let mac = |secs| mac(&context(1), Instant::from_secs(secs), (&body, &[]), &bearer);
        assert_eq!(mac(3_599), mac(0));
        assert_ne!(mac(3_599), mac(3_600));
    }
}
