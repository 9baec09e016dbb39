//! What the peer's INIT or INIT ACK offers, checked (RFC 9260 §3.2.2, §3.3.2, §3.3.3, §5.1.1, §5.1.2).

use bytes::Bytes;
use festina_units::Duration;

use super::cookie::PeerParameters;
use crate::wire::{Cause, Init, Parameter, TypeList, UnknownParameter};

/// Smallest receive window that an INIT or INIT ACK may offer.
const A_RWND_MIN_BYTES: u32 = 1_500;
/// At most so many bytes of unrecognized parameters are reported back, so that a report fits beside a cookie.
const REPORT_BYTES_MAX: usize = 512;

/// Protocol extensions, as a peer's Supported Extensions parameter (RFC 5061 §4.2.7) lists them by chunk type.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Extensions(u8);

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

    /// Whether all of `other` are in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    fn insert_chunk_type(&mut self, chunk_type: u8) {
        self.0 |= match chunk_type {
            0xc0 => Self::FORWARD_TSN.0,
            0x40 => Self::I_DATA.0,
            0x82 => Self::RE_CONFIG.0,
            0x10 => Self::NR_SACK.0,
            0x0f => Self::AUTH.0,
            0xc1 => Self::ASCONF.0,
            _ => 0,
        };
    }
}

impl core::fmt::Debug for Extensions {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let names = ["FORWARD-TSN", "I-DATA", "RE-CONFIG", "NR-SACK", "AUTH", "ASCONF"];
        let set = names.iter().enumerate().filter(|(bit, _)| self.0 & (1 << bit) != 0);
        formatter.debug_set().entries(set.map(|(_, name)| name)).finish()
    }
}

/// An INIT or INIT ACK that was found good.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PeerInit {
    /// Its initiate tag.
    pub(crate) tag: u32,
    /// What it says of itself.
    pub(crate) parameters: PeerParameters,
    /// The state cookie (INIT ACK only).
    pub(crate) cookie: Option<Bytes>,
    /// By how much the peer asks to prolong the cookie's life (INIT only).
    pub(crate) cookie_preservative: Duration,
    /// Parameters to report as unrecognized, each as it came, padded.
    pub(crate) unrecognized: Vec<Vec<u8>>,
}

/// Why an INIT or INIT ACK leads to no association.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum InitRefusal<'a> {
    /// Its initiate tag is 0: nobody can be answered.
    NoTag,
    /// Answer with ABORT to this tag, for this cause.
    Abort {
        /// The initiate tag of the refused chunk.
        tag: u32,
        /// What is wrong with it.
        cause: Cause<'a>,
    },
    /// Answer with ABORT to this tag, but keep the state of any association (RFC 9260 §3.3.2, §3.3.3).
    WindowTooSmall {
        /// The initiate tag of the refused chunk.
        tag: u32,
    },
}

impl InitRefusal<'_> {
    /// The ABORT that answers: its verification tag and its cause.
    pub(crate) fn answer(&self) -> Option<(u32, Cause<'_>)> {
        match self {
            Self::NoTag => None,
            Self::Abort { tag, cause } => Some((*tag, *cause)),
            Self::WindowTooSmall { tag } => Some((*tag, Cause::InvalidMandatoryParameter)),
        }
    }

    /// The association that the chunk was meant for goes on.
    pub(crate) fn leaves_state(&self) -> bool {
        matches!(self, Self::WindowTooSmall { .. })
    }
}

/// Which of the two chunks is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InitKind {
    Init,
    InitAck,
}

impl PeerInit {
    /// Checks the fixed part and walks the parameters.
    pub(crate) fn read<'a>(init: &Init<'a>, kind: InitKind) -> Result<Self, InitRefusal<'a>> {
        let tag = init.initiate_tag;
        if tag == 0 {
            return Err(InitRefusal::NoTag);
        }
        let refuse = |cause| InitRefusal::Abort { tag, cause };
        if init.outbound_streams == 0 || init.inbound_streams == 0 {
            return Err(refuse(Cause::InvalidMandatoryParameter));
        }
        if init.a_rwnd < A_RWND_MIN_BYTES {
            return Err(InitRefusal::WindowTooSmall { tag });
        }
        let mut peer = Self {
            tag,
            parameters: PeerParameters {
                a_rwnd: init.a_rwnd,
                outbound_streams: init.outbound_streams,
                inbound_streams: init.inbound_streams,
                first_tsn: init.initial_tsn,
                extensions: Extensions::default(),
            },
            cookie: None,
            cookie_preservative: Duration::ZERO,
            unrecognized: Vec::new(),
        };
        for parameter in init.parameters() {
            let parameter = parameter.map_err(|_| refuse(Cause::ProtocolViolation(b"malformed parameter")))?;
            if !peer.read_parameter(&parameter, kind).map_err(refuse)? {
                break;
            }
        }
        if kind == InitKind::InitAck && peer.cookie.is_none() {
            return Err(refuse(Cause::MissingMandatoryParameter(TypeList::STATE_COOKIE)));
        }
        Ok(peer)
    }

    /// Takes one parameter in; `false` ends the walk (RFC 9260 §3.2.1, Table 3).
    fn read_parameter<'a>(&mut self, parameter: &Parameter<'a>, kind: InitKind) -> Result<bool, Cause<'a>> {
        match parameter {
            Parameter::StateCookie(cookie) if kind == InitKind::InitAck => {
                self.cookie = Some(Bytes::copy_from_slice(cookie));
            }
            Parameter::CookiePreservative(milliseconds) if kind == InitKind::Init => {
                self.cookie_preservative = Duration::from_millis((*milliseconds).into());
            }
            Parameter::HostName(name) => return Err(Cause::UnresolvableAddress(name)),
            Parameter::SupportedExtensions(chunk_types) => {
                for &chunk_type in *chunk_types {
                    self.parameters.extensions.insert_chunk_type(chunk_type);
                }
            }
            Parameter::ForwardTsnSupported => self.parameters.extensions.insert_chunk_type(0xc0),
            Parameter::Unknown(unknown) => return Ok(self.note_unknown(unknown)),
            _ => {}
        }
        Ok(true)
    }

    fn note_unknown(&mut self, unknown: &UnknownParameter<'_>) -> bool {
        let action = unknown.action();
        if action.reports() {
            let mut bytes = Vec::new();
            let reported: usize = self.unrecognized.iter().map(Vec::len).sum();
            if Parameter::Unknown(*unknown).append_to(&mut bytes) && reported + bytes.len() <= REPORT_BYTES_MAX {
                self.unrecognized.push(bytes);
            }
        }
        action.continues()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Chunk, ChunkOut, CommonHeader, InitOut, Packet, PacketBuilder, Tsn};

    fn read(kind: InitKind, change: impl FnOnce(&mut InitOut<'_>), parameters: &[Parameter<'_>]) -> Result<PeerInit, String> {
        let mut init = InitOut {
            initiate_tag: 7,
            a_rwnd: 1_500,
            outbound_streams: 1,
            inbound_streams: 2,
            initial_tsn: Tsn(9),
            parameters: &[],
        };
        change(&mut init);
        let init = InitOut { parameters, ..init };
        let mut buffer = Vec::new();
        let header = CommonHeader { source_port: 1, destination_port: 2, verification_tag: 0 };
        let mut packet = PacketBuilder::new(&mut buffer, header, 2_000);
        assert!(packet.chunk(&ChunkOut::Init(init)));
        packet.finish();
        let Some(Ok(Chunk::Init(init))) = Packet::parse(&buffer).unwrap().chunks().next() else { panic!("no INIT") };
        PeerInit::read(&init, kind).map_err(|refusal| format!("{refusal:?}"))
    }

    fn unknown(parameter_type: u16) -> Parameter<'static> {
        Parameter::Unknown(UnknownParameter { parameter_type, value: &[1, 2, 3] })
    }

    #[test]
    fn a_good_init_gives_its_parameters_and_extensions() {
        let parameters = [
            Parameter::SupportedExtensions(&[0xc0, 0x82, 0x77]),
            Parameter::CookiePreservative(250),
            Parameter::EcnCapable,
        ];
        let peer = read(InitKind::Init, |_| {}, &parameters).unwrap();
        assert_eq!((peer.tag, peer.parameters.a_rwnd, peer.parameters.first_tsn), (7, 1_500, Tsn(9)));
        assert_eq!(peer.cookie_preservative, Duration::from_millis(250));
        assert!(peer.parameters.extensions.contains(Extensions::FORWARD_TSN));
        assert!(!peer.parameters.extensions.contains(Extensions::I_DATA));
        assert_eq!(format!("{:?}", peer.parameters.extensions), r#"{"FORWARD-TSN", "RE-CONFIG"}"#);
    }

    #[test]
    fn rfc9260_3_3_2_an_init_with_tag_zero_is_discarded_in_silence() {
        assert_eq!(read(InitKind::Init, |init| init.initiate_tag = 0, &[]).unwrap_err(), "NoTag");
    }

    #[test]
    fn rfc9260_3_3_2_an_init_without_streams_or_with_a_window_below_1500_is_answered_with_abort() {
        let changes: [fn(&mut InitOut<'_>); 3] =
            [|init| init.outbound_streams = 0, |init| init.inbound_streams = 0, |init| init.a_rwnd = 1_499];
        for change in changes {
            let refusal = read(InitKind::Init, change, &[]).unwrap_err();
            assert!(["Abort { tag: 7, cause: InvalidMandatoryParameter }", "WindowTooSmall { tag: 7 }"].contains(&&*refusal), "{refusal}");
        }
    }

    #[test]
    fn rfc9260_5_1_2_a_host_name_is_answered_with_abort() {
        let refusal = read(InitKind::Init, |_| {}, &[Parameter::HostName(b"host")]).unwrap_err();
        assert!(refusal.contains("UnresolvableAddress"), "{refusal}");
    }

    #[test]
    fn rfc9260_3_3_3_an_init_ack_needs_a_cookie() {
        let refusal = read(InitKind::InitAck, |_| {}, &[]).unwrap_err();
        assert!(refusal.contains("MissingMandatoryParameter"), "{refusal}");
        let peer = read(InitKind::InitAck, |_| {}, &[Parameter::StateCookie(b"cookie")]).unwrap();
        assert_eq!(peer.cookie.as_deref(), Some(&b"cookie"[..]));
    }

    #[test]
    fn rfc9260_3_2_1_the_high_bits_of_an_unknown_parameter_say_stop_or_skip_and_whether_to_report() {
        for (parameter_type, goes_on, reported) in
            [(0x0123, false, 0), (0x4123, false, 1), (0x8123, true, 0), (0xc123, true, 1)]
        {
            let parameters = [unknown(parameter_type), Parameter::ForwardTsnSupported];
            let peer = read(InitKind::Init, |_| {}, &parameters).unwrap();
            assert_eq!(peer.parameters.extensions.contains(Extensions::FORWARD_TSN), goes_on, "{parameter_type:#x}");
            assert_eq!(peer.unrecognized.len(), reported, "{parameter_type:#x}");
        }
    }

    #[test]
    fn the_report_of_unknown_parameters_is_bounded() {
        let parameters = vec![unknown(0xc123); 200];
        let peer = read(InitKind::Init, |_| {}, &parameters).unwrap();
        assert_eq!(peer.unrecognized.len(), REPORT_BYTES_MAX / 8);
    }
}
