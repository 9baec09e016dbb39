//! Serial numbers as they stand on the wire, and their unwrapping to 64 bits (RFC 9260 §1.6).
//!
//! The rest of the core compares plain `u64` values: a number from the wire is unwrapped once, next to a value that is
//! already known, and wrapped again when it is sent.

use core::fmt;

/// A Transmission Sequence Number as carried in a packet: 32 bits, wrapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tsn(pub u32);

/// A Stream Sequence Number as carried in a packet: 16 bits, wrapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ssn(pub u16);

/// A Message Identifier as carried in a packet: 32 bits, wrapping (RFC 8260 §2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mid(pub u32);

/// A Stream Identifier. Not a serial number: it never wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u16);

impl From<u16> for StreamId {
    fn from(stream: u16) -> Self {
        Self(stream)
    }
}

impl PartialEq<u16> for StreamId {
    fn eq(&self, stream: &u16) -> bool {
        self.0 == *stream
    }
}

impl Tsn {
    /// The `u64` that is congruent to this TSN modulo 2^32 and nearest to `near`.
    ///
    /// At the exact middle the lower candidate is taken. Where the nearest would lie outside of `u64`, the next one
    /// inside is.
    #[inline]
    #[must_use]
    pub const fn unwrap(self, near: u64) -> u64 {
        let distance = self.0.wrapping_sub(Self::wrap(near).0).cast_signed();
        step(near, distance as i64, 1 << 32)
    }

    /// The low 32 bits of an unwrapped TSN.
    #[inline]
    #[must_use]
    pub const fn wrap(unwrapped: u64) -> Self {
        Self((unwrapped & 0xffff_ffff) as u32)
    }
}

impl Ssn {
    /// The `u64` that is congruent to this SSN modulo 2^16 and nearest to `near`; ties and ends as in [`Tsn::unwrap`].
    #[inline]
    #[must_use]
    pub const fn unwrap(self, near: u64) -> u64 {
        let distance = self.0.wrapping_sub(Self::wrap(near).0).cast_signed();
        step(near, distance as i64, 1 << 16)
    }

    /// The low 16 bits of an unwrapped SSN.
    #[inline]
    #[must_use]
    pub const fn wrap(unwrapped: u64) -> Self {
        Self((unwrapped & 0xffff) as u16)
    }
}

/// `near + distance`, moved by one whole `modulus` where that would leave the range of `u64`.
#[inline]
const fn step(near: u64, distance: i64, modulus: u64) -> u64 {
    match near.checked_add_signed(distance) {
        Some(value) => value,
        // Leaving the range at the bottom means `near` is small, at the top that it is large: neither sum can overflow.
        None if distance < 0 => near.wrapping_add_signed(distance).wrapping_add(modulus),
        None => near.wrapping_add_signed(distance).wrapping_sub(modulus),
    }
}

impl fmt::Display for Tsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Mid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Ssn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_stream_is_compared_with_its_number() {
        assert!(StreamId(7) == 7 && StreamId(7) != 8);
    }

    #[test]
    fn a_tsn_unwraps_forwards_across_the_wrap() {
        assert_eq!(Tsn(2).unwrap(0x1_ffff_fffe), 0x2_0000_0002);
    }

    #[test]
    fn a_tsn_unwraps_backwards_across_the_wrap() {
        assert_eq!(Tsn(0xffff_fffe).unwrap(0x2_0000_0002), 0x1_ffff_fffe);
    }

    #[test]
    fn a_tsn_exactly_half_way_counts_as_old() {
        assert_eq!(Tsn(0x8000_0000).unwrap(0x1_0000_0000), 0x8000_0000);
        assert_eq!(Tsn(0x7fff_ffff).unwrap(0x1_0000_0000), 0x1_7fff_ffff);
    }

    #[test]
    fn unwrapping_near_zero_stays_congruent_instead_of_underflowing() {
        assert_eq!(Tsn(0xffff_ffff).unwrap(0), 0xffff_ffff);
        assert_eq!(Ssn(0xffff).unwrap(0), 0xffff);
    }

    #[test]
    fn unwrapping_near_the_maximum_stays_congruent_instead_of_overflowing() {
        assert_eq!(Tsn(3).unwrap(u64::MAX), u64::MAX - 0xffff_fffc);
        assert_eq!(Ssn(3).unwrap(u64::MAX), u64::MAX - 0xfffc);
    }

    #[test]
    fn an_ssn_unwraps_in_both_directions() {
        assert_eq!(Ssn(1).unwrap(0x1_ffff), 0x2_0001);
        assert_eq!(Ssn(0xffff).unwrap(0x2_0001), 0x1_ffff);
    }

    proptest! {
        #[test]
        fn wrapping_undoes_unwrapping(tsn: u32, ssn: u16, near: u64) {
            prop_assert_eq!(Tsn::wrap(Tsn(tsn).unwrap(near)), Tsn(tsn));
            prop_assert_eq!(Ssn::wrap(Ssn(ssn).unwrap(near)), Ssn(ssn));
        }

        #[test]
        fn unwrapping_finds_every_value_within_half_the_space(near in 1u64 << 40..1 << 50, offset in -(1i64 << 31)..1i64 << 31) {
            let value = near.wrapping_add_signed(offset);
            prop_assert_eq!(Tsn::wrap(value).unwrap(near), value);
        }

        #[test]
        fn ssn_unwrapping_finds_every_value_within_half_the_space(near in 1u64 << 40..1 << 50, offset in -(1i64 << 15)..1i64 << 15) {
            let value = near.wrapping_add_signed(offset);
            prop_assert_eq!(Ssn::wrap(value).unwrap(near), value);
        }
    }
}
