//! Congestion controllers by name.

use super::custom::CustomController;

/// The congestion controller, which limits the bytes in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CongestionControl {
    /// RFC 9260 §7.2, with its initial window and its burst limit.
    Rfc9260,
    /// RFC 4960, the standard of 2007. As RFC 9260, but cwnd grows only with SACKs that move the Cumulative TSN Ack Point (§7.2.1, §7.2.2), so it
    /// does not grow while the sender waits for one chunk; and Max.Burst cuts it (§6.1 D).
    Rfc4960,
    /// CUBIC (RFC 9438) with HyStart++ (RFC 9406), paced, and with an initial window of ten packets (RFC 6928).
    Cubic,
    /// For background traffic: a window that follows the delay in the manner of LEDBAT (RFC 6817), paced, from one packet on. It yields to all
    /// other traffic: the window shrinks when round trips exceed the shortest one of the last minutes by more than half, and by more than 10 ms. Peers
    /// that delay acknowledgements by more than that slow it down; Festina's own profile requests them at once.
    Background,
    /// A controller from outside this crate.
    Custom(CustomController),
}

impl CongestionControl {
    /// Returns all controllers of this crate, the standard first.
    pub fn all() -> &'static [Self] {
        &[Self::Rfc9260, Self::Rfc4960, Self::Cubic, Self::Background]
    }

    /// Returns whether every path is paced, which is known only once it exists for controllers from outside this crate.
    #[must_use]
    pub const fn is_always_paced(self) -> bool {
        matches!(self, Self::Cubic | Self::Background)
    }

    /// Returns the name used on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rfc9260 => "rfc9260",
            Self::Rfc4960 => "rfc4960",
            Self::Cubic => "cubic",
            Self::Background => "background",
            Self::Custom(controller) => controller.name(),
        }
    }
}

festina_units::text_is_name!(
    CongestionControl,
    CongestionControl::all().iter().copied(),
    /// Caller: the text names no [`CongestionControl`] of this crate.
    UnknownCongestionControl,
    "congestion control"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_its_name_and_an_unknown_name_is_answered_with_all_of_them() {
        let error = "reno".parse::<CongestionControl>().expect_err("no such name").to_string();
        for choice in CongestionControl::all() {
            assert_eq!(choice.to_string().parse(), Ok(*choice));
            assert!(error.contains(choice.name()), "{error}");
        }
    }
}
