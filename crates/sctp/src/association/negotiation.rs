//! Checks the offers in the peer's INIT or INIT ACK (RFC 9260 §3.2.2, §3.3.2, §3.3.3, §5.1.1, §5.1.2).

use std::net::IpAddr;

use bytes::Bytes;
use festina_units::Duration;

use super::addresses::{AddressBook, named, parameter_of};
use super::cookie::PeerParameters;
use super::extensions::{DTLS, Extensions};
use crate::wire::{Cause, Init, Parameter, TypeList, UnknownParameter, chunk_type};

/// Smallest receive window that an INIT or INIT ACK may offer.
const A_RWND_MIN_BYTES: u32 = 1_500;
/// Maximum bytes of the peer's parameters that are repeated to it. Even if each is four bytes long and gets a header of four more, they fit into the
/// smallest permitted packet together with the cookie of a peer that names no addresses.
const REPORT_BYTES_MAX: usize = 120;
/// A Host Name Address parameter without its name.
const EMPTY_HOST_NAME: [u8; 4] = [0, 11, 0, 4];

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
            Parameter::ZeroChecksumAcceptable(DTLS) => self.parameters.extensions.insert(Extensions::ZERO_CHECKSUM),
            Parameter::EcnCapable => self.parameters.extensions.insert(Extensions::ECN),
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
