//! The protocol extensions that a side supports and announces.

use crate::config::Config;
use crate::wire::{Framing, Parameter, chunk_type};

/// Chunk types of extensions that this crate does not read.
const AUTH: u8 = 0x0f;
const ASCONF: u8 = 0xc1;

/// The number of DTLS among the methods that find errors (RFC 9653 §4).
pub(super) const DTLS: u32 = 1;

/// Represents [`Extensions::SPARSE_SACK`] in the list of chunk types. No chunk has this type; a receiver would skip it (RFC 9260 §3.2).
const SPARSE_SACK: u8 = 0xb5;

/// Each extension with its chunk type and name, in the order of the bits of [`Extensions`].
const KNOWN: [(u8, &str); 10] = [
    (chunk_type::FORWARD_TSN, "FORWARD-TSN"),
    (chunk_type::I_DATA, "I-DATA"),
    (chunk_type::RE_CONFIG, "RE-CONFIG"),
    (chunk_type::NR_SACK, "NR-SACK"),
    (AUTH, "AUTH"),
    (ASCONF, "ASCONF"),
    (chunk_type::I_FORWARD_TSN, "I-FORWARD-TSN"),
    (SPARSE_SACK, "SPARSE-SACK"),
    (chunk_type::ENHANCED_FORWARD_TSN, "E-FORWARD-TSN"),
    (chunk_type::REPAIR, "REPAIR"),
];

/// Protocol extensions, as a peer's Supported Extensions parameter (RFC 5061 §4.2.7) lists them by chunk type.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Extensions(u16);

impl Extensions {
    /// Partial reliability: FORWARD-TSN (RFC 3758).
    pub const FORWARD_TSN: Self = Self(1);
    /// Message interleaving: I-DATA (RFC 8260).
    pub const I_DATA: Self = Self(2);
    /// Stream reconfiguration: RE-CONFIG (RFC 6525).
    pub const RE_CONFIG: Self = Self(4);
    /// Non-renegable acknowledgement: NR-SACK.
    pub const NR_SACK: Self = Self(8);
    /// Chunk authentication: AUTH (RFC 4895).
    pub const AUTH: Self = Self(16);
    /// Address reconfiguration: ASCONF (RFC 5061).
    pub const ASCONF: Self = Self(32);
    /// Partial reliability with I-DATA: I-FORWARD-TSN (RFC 8260).
    pub const I_FORWARD_TSN: Self = Self(64);

    /// A private extension ([`SackPolicy::peer_batches`](crate::SackPolicy::peer_batches)): this side paces its packets and counts acknowledged bytes,
    /// so one SACK may answer a batch of packets.
    pub const SPARSE_SACK: Self = Self(128);

    /// Festina's own: abandoned chunks that may lie apart are passed over together (E-FORWARD-TSN).
    pub const ENHANCED_FORWARD_TSN: Self = Self(256);

    /// Festina's own: lost chunks are computed from weighted sums (REPAIR). Announced if redundancy may use them
    /// ([`Budget::code`](festina_recovery::redundancy::Budget::code)).
    pub const REPAIR: Self = Self(512);

    /// A checksum of zero is taken, since packets travel within DTLS (RFC 9653). No chunk announces it but a parameter of its own.
    pub const ZERO_CHECKSUM: Self = Self(1024);

    /// Explicit congestion notification: ECNE and CWR (RFC 4960 appendix A). A parameter of its own announces it.
    pub const ECN: Self = Self(2048);

    /// Whether all of `other` are in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) const fn bits(self) -> u16 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// Extensions that this side supports and announces.
    pub(crate) const fn own(config: &Config) -> Self {
        let interleaving = if config.interleaving { Self::I_DATA.0 | Self::I_FORWARD_TSN.0 } else { 0 };
        // One SACK for many packets would leave a controller with a burst limit waiting (RFC 9260 §6.1 rule D). Whether others pace is known only
        // once they are created.
        let paces = config.congestion.is_always_paced();
        let sparse = if config.sack.peer_batches && paces { Self::SPARSE_SACK.0 } else { 0 };
        let nr_sack = if config.partial_reliability.nr_sack { Self::NR_SACK.0 } else { 0 };
        let enhanced = if config.partial_reliability.enhanced_forward_tsn { Self::ENHANCED_FORWARD_TSN.0 } else { 0 };
        let checksum = if config.carrier.protected_by_dtls { Self::ZERO_CHECKSUM.0 } else { 0 };
        let ecn = if config.carrier.ecn { Self::ECN.0 } else { 0 };
        let repair = if config.mechanisms.redundancy.codes() { Self::REPAIR.0 } else { 0 };
        Self(
            repair
                | ecn
                | checksum
                | Self::FORWARD_TSN.0
                | Self::RE_CONFIG.0
                | nr_sack
                | enhanced
                | interleaving
                | sparse,
        )
    }

    /// What both sides support, and may use.
    pub(crate) const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The chunk that carries user messages where both sides support these.
    pub(crate) const fn framing(self) -> Framing {
        if self.contains(Self::I_DATA) { Framing::IData } else { Framing::Data }
    }

    /// Returns whether the chunk by which a peer is moved past abandoned messages may be used, with the framing that these ask for.
    pub(crate) const fn forwards(self) -> bool {
        match self.framing() {
            Framing::Data => self.contains(Self::FORWARD_TSN),
            Framing::IData => self.contains(Self::I_FORWARD_TSN),
        }
    }

    /// Returns whether abandoned chunks that lie apart may be passed over together.
    pub(crate) const fn forwards_apart(self) -> bool {
        self.forwards() && self.contains(Self::ENHANCED_FORWARD_TSN)
    }

    /// The chunk types, as Supported Extensions lists them.
    pub(crate) fn chunk_types(self) -> Vec<u8> {
        self.known().map(|(chunk_type, _)| chunk_type).collect()
    }

    /// Parameters of INIT or INIT ACK that announce extensions without a chunk type.
    pub(crate) fn announce_by_parameter<'a>(self) -> impl Iterator<Item = Parameter<'a>> {
        let checksum = self.contains(Self::ZERO_CHECKSUM).then_some(Parameter::ZeroChecksumAcceptable(DTLS));
        let ecn = self.contains(Self::ECN).then_some(Parameter::EcnCapable);
        checksum.into_iter().chain(ecn)
    }

    /// Returns the parameters of INIT or INIT ACK that announce extensions with these chunk types.
    pub(crate) fn announce(chunk_types: &[u8]) -> impl Iterator<Item = Parameter<'_>> {
        let forward = chunk_types.contains(&chunk_type::FORWARD_TSN).then_some(Parameter::ForwardTsnSupported);
        let list = (!chunk_types.is_empty()).then_some(Parameter::SupportedExtensions(chunk_types));
        forward.into_iter().chain(list)
    }

    fn known(self) -> impl Iterator<Item = (u8, &'static str)> {
        KNOWN.into_iter().enumerate().filter(move |(bit, _)| self.0 & (1 << bit) != 0).map(|(_, known)| known)
    }

    pub(super) fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub(super) fn insert_chunk_type(&mut self, chunk_type: u8) {
        if let Some(bit) = KNOWN.iter().position(|&(known, _)| known == chunk_type) {
            self.0 |= 1 << bit;
        }
    }
}

impl core::fmt::Debug for Extensions {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_set().entries(self.known().map(|(_, name)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use festina_recovery::Profile;
    use festina_recovery::redundancy::Redundancy;

    use super::*;
    use crate::CongestionControl;

    #[test]
    fn each_extension_has_the_bit_of_its_chunk_type() {
        for (constant, chunk_type) in [
            (Extensions::FORWARD_TSN, 0xc0),
            (Extensions::I_DATA, 0x40),
            (Extensions::RE_CONFIG, 0x82),
            (Extensions::NR_SACK, 0x10),
            (Extensions::AUTH, 0x0f),
            (Extensions::ASCONF, 0xc1),
            (Extensions::I_FORWARD_TSN, 0xc2),
            (Extensions::ENHANCED_FORWARD_TSN, 0xf5),
            (Extensions::REPAIR, 0xb6),
        ] {
            let mut extensions = Extensions::default();
            extensions.insert_chunk_type(chunk_type);
            assert_eq!((extensions, extensions.chunk_types()), (constant, vec![chunk_type]));
        }
    }

    #[test]
    fn rfc3758_3_3_1_and_rfc8260_2_3_1_only_what_both_sides_support_is_used() {
        let mut config = Config::default();
        let interleaving = Extensions(Extensions::I_DATA.0 | Extensions::I_FORWARD_TSN.0);
        let all = Extensions::from_bits(0x7f);
        assert_eq!(Extensions::own(&config).common(all).chunk_types(), [0xc0, 0x82, 0x10]);
        assert_eq!(Extensions::own(&config).common(interleaving).framing(), Framing::Data);
        config.interleaving = true;
        assert_eq!(Extensions::own(&config).common(all).chunk_types(), [0xc0, 0x40, 0x82, 0x10, 0xc2]);
        assert_eq!(Extensions::own(&config).common(interleaving).framing(), Framing::IData);
        assert_eq!(Extensions::own(&config).common(Extensions::FORWARD_TSN).framing(), Framing::Data);
    }

    #[test]
    fn private_extensions_are_announced_only_with_the_settings_that_use_them() {
        let private = [Extensions::SPARSE_SACK, Extensions::ENHANCED_FORWARD_TSN, Extensions::REPAIR];
        let mut config = Config::default();
        config.mechanisms.redundancy = Redundancy::ADAPTIVE_COPIES;
        let announced = |config: &Config| private.map(|extension| Extensions::own(config).contains(extension));
        assert_eq!(announced(&config), [false; 3]);
        config.mechanisms.redundancy = Redundancy::ADAPTIVE;
        assert_eq!(announced(&config), [false, false, true]);
        config.mechanisms.redundancy = Redundancy::Off;
        config.sack.peer_batches = true;
        assert_eq!(announced(&config), [true, false, false]);
        for unpaced in [CongestionControl::Rfc9260, CongestionControl::Rfc4960] {
            config.congestion = unpaced;
            assert_eq!(announced(&config), [false; 3], "{unpaced}");
        }
        for profile in Profile::all().iter().filter(|profile| **profile != Profile::Festina) {
            assert_eq!(announced(&Config::published(*profile)), [false; 3], "{profile}");
        }
    }
}
