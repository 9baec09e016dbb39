//! Checks the offers in the peer's INIT or INIT ACK (RFC 9260 §3.2.2, §3.3.2, §3.3.3, §5.1.1, §5.1.2).

use std::net::IpAddr;

use bytes::Bytes;
use festina_units::Duration;

use super::addresses::{AddressBook, named, parameter_of};
use super::cookie::PeerParameters;
use crate::config::Config;
use crate::wire::{Cause, Framing, Init, Parameter, TypeList, UnknownParameter, chunk_type};

/// Smallest receive window that an INIT or INIT ACK may offer.
const A_RWND_MIN_BYTES: u32 = 1_500;
/// Maximum bytes of the peer's parameters that are repeated to it. Even if each is four bytes long and gets a header of four more, they fit into the
/// smallest permitted packet together with the cookie of a peer that names no addresses.
const REPORT_BYTES_MAX: usize = 120;
/// A Host Name Address parameter without its name.
const EMPTY_HOST_NAME: [u8; 4] = [0, 11, 0, 4];

/// Chunk types of extensions that this crate does not read.
const AUTH: u8 = 0x0f;
const ASCONF: u8 = 0xc1;

/// The number of DTLS among the methods that find errors (RFC 9653 §4).
const DTLS: u32 = 1;

/// Represents [`Extensions::SPARSE_SACK`] in the list of chunk types. No chunk has this type; a receiver would skip it (RFC 9260 §3.2).
const SPARSE_SACK: u8 = 0xb5;

/// Each extension with its chunk type and name, in the order of the bits of [`Extensions`].
const KNOWN: [(u8, &str); 9] = [
    (chunk_type::FORWARD_TSN, "FORWARD-TSN"),
    (chunk_type::I_DATA, "I-DATA"),
    (chunk_type::RE_CONFIG, "RE-CONFIG"),
    (chunk_type::NR_SACK, "NR-SACK"),
    (AUTH, "AUTH"),
    (ASCONF, "ASCONF"),
    (chunk_type::I_FORWARD_TSN, "I-FORWARD-TSN"),
    (SPARSE_SACK, "SPARSE-SACK"),
    (chunk_type::ENHANCED_FORWARD_TSN, "E-FORWARD-TSN"),
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

    /// A checksum of zero is taken, since packets travel within DTLS (RFC 9653). No chunk announces it but a parameter of its own.
    pub const ZERO_CHECKSUM: Self = Self(512);

    /// Explicit congestion notification: ECNE and CWR (RFC 4960 appendix A). A parameter of its own announces it.
    pub const ECN: Self = Self(1024);

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
        Self(ecn | checksum | Self::FORWARD_TSN.0 | Self::RE_CONFIG.0 | nr_sack | enhanced | interleaving | sparse)
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

    fn insert_chunk_type(&mut self, chunk_type: u8) {
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

/// An INIT or INIT ACK that was found good.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PeerInit {
    /// Its initiate tag.
    pub(crate) tag: u32,
    /// The peer's announced parameters.
    pub(crate) parameters: PeerParameters,
    /// The addresses that it names besides its source.
    pub(crate) addresses: AddressBook,
    /// The state cookie (INIT ACK only).
    pub(crate) cookie: Option<Bytes>,
    /// Extension of the cookie's lifetime that the peer asks for (INIT only).
    pub(crate) cookie_preservative: Duration,
    /// Parameters to report as unrecognized, each as it came, padded.
    pub(crate) unrecognized: Vec<Vec<u8>>,
}

/// A fault of an INIT or INIT ACK that prevents the association.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum InitFault {
    /// The initiate tag is 0, so there is no tag for a reply.
    NoTag,
    /// It wants or allows no streams.
    NoStreams,
    /// It offers a receive window below 1,500 bytes. Associations that exist are left alone (RFC 9260 §3.3.2, §3.3.3).
    WindowTooSmall,
    /// A parameter contradicts its own length.
    MalformedParameter,
    /// It names a host instead of an address: the whole parameter, but without a name that is very long.
    HostName(Vec<u8>),
    /// An INIT ACK without a state cookie.
    NoCookie,
    /// The cookie of an INIT ACK does not fit into any packet.
    CookieTooLong,
}

impl InitFault {
    /// Returns the error cause for the ABORT.
    pub(crate) fn cause(&self) -> Cause<'_> {
        match self {
            Self::NoTag | Self::NoStreams | Self::WindowTooSmall => Cause::InvalidMandatoryParameter,
            Self::MalformedParameter => Cause::ProtocolViolation(b"malformed parameter"),
            Self::HostName(parameter) => Cause::UnresolvableAddress(parameter),
            Self::NoCookie => Cause::MissingMandatoryParameter(TypeList::STATE_COOKIE),
            Self::CookieTooLong => Cause::ProtocolViolation(b"the state cookie fits into no packet"),
        }
    }
}

/// The addresses that an INIT from `source` would add to an association with the `known` ones, as the error cause lists them (RFC 9260 §5.2.2).
pub(crate) fn new_addresses(init: &Init<'_>, source: IpAddr, known: impl Fn(IpAddr) -> bool) -> Vec<u8> {
    let mut list = Vec::new();
    let all = [(source, parameter_of(source.to_canonical()))].into_iter().chain(named(init, source));
    for (_, parameter) in all.filter(|&(address, _)| !known(address)) {
        parameter.append_to(&mut list);
        if list.len() >= REPORT_BYTES_MAX {
            break;
        }
    }
    list
}

/// Which of the two chunks is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InitKind {
    Init,
    InitAck,
}

impl PeerInit {
    /// Checks the fixed part and walks the parameters of a chunk that came from `source`.
    pub(crate) fn read(init: &Init<'_>, kind: InitKind, source: IpAddr) -> Result<Self, InitFault> {
        if init.initiate_tag == 0 {
            return Err(InitFault::NoTag);
        }
        if init.outbound_streams == 0 || init.inbound_streams == 0 {
            return Err(InitFault::NoStreams);
        }
        if init.a_rwnd < A_RWND_MIN_BYTES {
            return Err(InitFault::WindowTooSmall);
        }
        let mut peer = Self {
            tag: init.initiate_tag,
            parameters: PeerParameters {
                a_rwnd: init.a_rwnd,
                outbound_streams: init.outbound_streams,
                inbound_streams: init.inbound_streams,
                first_tsn: init.initial_tsn,
                extensions: Extensions::default(),
            },
            addresses: AddressBook::read(init, source),
            cookie: None,
            cookie_preservative: Duration::ZERO,
            unrecognized: Vec::new(),
        };
        for parameter in init.parameters() {
            let parameter = parameter.map_err(|_| InitFault::MalformedParameter)?;
            if !peer.read_parameter(&parameter, kind)? {
                break;
            }
        }
        if kind == InitKind::InitAck && peer.cookie.is_none() {
            return Err(InitFault::NoCookie);
        }
        Ok(peer)
    }

    /// Takes one parameter in; `false` ends the walk (RFC 9260 §3.2.1, Table 3).
    fn read_parameter(&mut self, parameter: &Parameter<'_>, kind: InitKind) -> Result<bool, InitFault> {
        match parameter {
            Parameter::StateCookie(cookie) if kind == InitKind::InitAck => {
                self.cookie = Some(Bytes::copy_from_slice(cookie));
            }
            Parameter::CookiePreservative(milliseconds) if kind == InitKind::Init => {
                self.cookie_preservative = Duration::from_millis((*milliseconds).into());
            }
            Parameter::HostName(_) => {
                let mut bytes = Vec::new();
                if !parameter.append_to(&mut bytes) || bytes.len() > REPORT_BYTES_MAX {
                    bytes = EMPTY_HOST_NAME.to_vec();
                }
                return Err(InitFault::HostName(bytes));
            }
            Parameter::SupportedExtensions(chunk_types) => {
                for &chunk_type in *chunk_types {
                    self.parameters.extensions.insert_chunk_type(chunk_type);
                }
            }
            Parameter::ZeroChecksumAcceptable(DTLS) => self.parameters.extensions.0 |= Extensions::ZERO_CHECKSUM.0,
            Parameter::EcnCapable => self.parameters.extensions.0 |= Extensions::ECN.0,
            Parameter::ForwardTsnSupported => self.parameters.extensions.insert_chunk_type(chunk_type::FORWARD_TSN),
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
pub(super) mod tests {
    use super::*;
    use crate::CongestionControl;
    use crate::wire::{Chunk, ChunkOut, CommonHeader, InitOut, Packet, PacketBuilder, Tsn};

    const SOURCE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    /// The least that a peer may offer.
    pub(in crate::association) const INIT: InitOut<'static> = InitOut {
        initiate_tag: 7,
        a_rwnd: 1_500,
        outbound_streams: 1,
        inbound_streams: 2,
        initial_tsn: Tsn(9),
        parameters: &[],
    };

    /// Writes an INIT, and reads it back.
    pub(in crate::association) fn init_in<'b>(buffer: &'b mut Vec<u8>, init: InitOut<'_>) -> Init<'b> {
        let header = CommonHeader { source_port: 1, destination_port: 2, verification_tag: 0 };
        let mut packet = PacketBuilder::new(buffer, header, 65_480);
        assert!(packet.chunk(&ChunkOut::Init(init)));
        packet.finish();
        let Some(Ok(Chunk::Init(init))) = Packet::parse(buffer).unwrap().chunks().next() else { panic!("no INIT") };
        init
    }

    fn read(
        kind: InitKind,
        change: impl FnOnce(&mut InitOut<'_>),
        parameters: &[Parameter<'_>],
    ) -> Result<PeerInit, String> {
        let mut init = INIT;
        change(&mut init);
        let mut buffer = Vec::new();
        let init = init_in(&mut buffer, InitOut { parameters, ..init });
        PeerInit::read(&init, kind, SOURCE).map_err(|fault| format!("{fault:?}"))
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
    fn each_extension_has_the_bit_of_its_chunk_type() {
        for (constant, chunk_type) in [
            (Extensions::FORWARD_TSN, 0xc0),
            (Extensions::I_DATA, 0x40),
            (Extensions::RE_CONFIG, 0x82),
            (Extensions::NR_SACK, 0x10),
            (Extensions::AUTH, 0x0f),
            (Extensions::ASCONF, 0xc1),
            (Extensions::I_FORWARD_TSN, 0xc2),
        ] {
            let mut extensions = Extensions::default();
            extensions.insert_chunk_type(chunk_type);
            assert_eq!((extensions, extensions.chunk_types()), (constant, vec![chunk_type]));
        }
    }

    #[test]
    fn rfc3758_3_3_1_and_rfc8260_2_3_1_only_what_both_sides_support_is_used() {
        let mut config = Config::default();
        let interleaving = Extensions::from_bits(Extensions::I_DATA.0 | Extensions::I_FORWARD_TSN.0);
        let all = Extensions::from_bits(0x7f);
        assert_eq!(Extensions::own(&config).common(all).chunk_types(), [0xc0, 0x82, 0x10]);
        assert_eq!(Extensions::own(&config).common(interleaving).framing(), Framing::Data);
        config.interleaving = true;
        assert_eq!(Extensions::own(&config).common(all).chunk_types(), [0xc0, 0x40, 0x82, 0x10, 0xc2]);
        assert_eq!(Extensions::own(&config).common(interleaving).framing(), Framing::IData);
        assert_eq!(Extensions::own(&config).common(Extensions::FORWARD_TSN).framing(), Framing::Data);
    }

    #[test]
    fn no_private_extension_is_announced_unless_it_is_asked_for() {
        let private = [Extensions::SPARSE_SACK, Extensions::ENHANCED_FORWARD_TSN];
        let mut config = Config::default();
        let announced = |config: &Config| private.map(|extension| Extensions::own(config).contains(extension));
        assert_eq!(announced(&config), [false, false]);
        config.sack.peer_batches = true;
        assert_eq!(announced(&config), [true, false]);
        for unpaced in [CongestionControl::Rfc9260, CongestionControl::Rfc4960] {
            config.congestion = unpaced;
            assert_eq!(announced(&config), [false, false], "{unpaced}");
        }
    }

    #[test]
    fn rfc9260_3_3_2_an_init_with_tag_zero_is_discarded_in_silence() {
        assert_eq!(read(InitKind::Init, |init| init.initiate_tag = 0, &[]).unwrap_err(), "NoTag");
    }

    #[test]
    fn rfc9260_3_3_2_an_init_without_streams_or_with_a_window_below_1500_is_refused() {
        assert_eq!(read(InitKind::Init, |init| init.outbound_streams = 0, &[]).unwrap_err(), "NoStreams");
        assert_eq!(read(InitKind::Init, |init| init.inbound_streams = 0, &[]).unwrap_err(), "NoStreams");
        assert_eq!(read(InitKind::Init, |init| init.a_rwnd = 1_499, &[]).unwrap_err(), "WindowTooSmall");
    }

    #[test]
    fn rfc9260_3_3_10_5_a_host_name_is_refused_with_the_whole_parameter() {
        let fault = read(InitKind::Init, |_| {}, &[Parameter::HostName(b"host")]).unwrap_err();
        assert_eq!(fault, "HostName([0, 11, 0, 8, 104, 111, 115, 116])");
    }

    #[test]
    fn rfc9260_3_3_3_an_init_ack_needs_a_cookie() {
        assert_eq!(read(InitKind::InitAck, |_| {}, &[]).unwrap_err(), "NoCookie");
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
