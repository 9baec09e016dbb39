//! The optional and variable-length parameters of control chunks (RFC 9260 §3.2.1, §3.3.2.1, §3.3.3.1, §3.3.5).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |             type              | length (header and value)     |
//! +-------------------------------+-------------------------------+
//! |                 value, padded to 4 bytes ...                  |
//! ```

use core::net::{Ipv4Addr, Ipv6Addr};

use super::UnknownAction;
use super::encode::Encoder;
use super::error::{Malformation, ParameterError};
use super::tlv::{Frame, kind_or_zero};

/// Parameter type numbers.
pub mod parameter_type {
    /// Heartbeat Info (RFC 9260 §3.3.5).
    pub const HEARTBEAT_INFO: u16 = 1;
    /// IPv4 Address (RFC 9260 §3.3.2.1.1).
    pub const IPV4_ADDRESS: u16 = 5;
    /// IPv6 Address (RFC 9260 §3.3.2.1.2).
    pub const IPV6_ADDRESS: u16 = 6;
    /// State Cookie (RFC 9260 §3.3.3.1.1).
    pub const STATE_COOKIE: u16 = 7;
    /// Unrecognized Parameter (RFC 9260 §3.3.3.1.2).
    pub const UNRECOGNIZED_PARAMETER: u16 = 8;
    /// Cookie Preservative (RFC 9260 §3.3.2.1.3).
    pub const COOKIE_PRESERVATIVE: u16 = 9;
    /// Host Name Address, deprecated (RFC 9260 §3.3.2.1.4).
    pub const HOST_NAME_ADDRESS: u16 = 11;
    /// Supported Address Types (RFC 9260 §3.3.2.1.5).
    pub const SUPPORTED_ADDRESS_TYPES: u16 = 12;
    /// ECN Capable (RFC 4960 appendix A; RFC 9260 §3.3.2 reserves it).
    pub const ECN_CAPABLE: u16 = 0x8000;
    /// Zero Checksum Acceptable (RFC 9653 §4).
    pub const ZERO_CHECKSUM_ACCEPTABLE: u16 = 0x8001;
    /// Supported Extensions (RFC 5061 §4.2.7).
    pub const SUPPORTED_EXTENSIONS: u16 = 0x8008;
    /// Forward-TSN-Supported (RFC 3758 §3.1).
    pub const FORWARD_TSN_SUPPORTED: u16 = 0xc000;
}

use parameter_type as kind;

/// A parameter, as read from a chunk or as given to be written into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter<'a> {
    /// Heartbeat Info: opaque data of the sender of the HEARTBEAT.
    HeartbeatInfo(&'a [u8]),
    /// An address of the sending endpoint.
    Ipv4(Ipv4Addr),
    /// An address of the sending endpoint.
    Ipv6(Ipv6Addr),
    /// The State Cookie of an INIT ACK.
    StateCookie(&'a [u8]),
    /// A parameter of the INIT that its receiver did not know, complete with its header.
    UnrecognizedParameter(&'a [u8]),
    /// Requested extension of the State Cookie's lifetime in milliseconds.
    CookiePreservative(u32),
    /// A host name, terminating zero included. Deprecated: it must be answered by an ABORT.
    HostName(&'a [u8]),
    /// The types of address parameters that the sender can use.
    SupportedAddressTypes(TypeList<'a>),
    /// The chunk types of the extensions that the sender supports, one byte each.
    SupportedExtensions(&'a [u8]),
    /// The sender takes packets with a checksum of zero where another method finds errors: its number (RFC 9653 §4).
    ZeroChecksumAcceptable(u32),
    /// The sender supports partial reliability.
    ForwardTsnSupported,
    /// The sender takes part in Explicit Congestion Notification.
    EcnCapable,
    /// Any other type.
    Unknown(UnknownParameter<'a>),
}

/// A parameter of a type that this crate does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownParameter<'a> {
    /// Its type number.
    pub parameter_type: u16,
    /// Its value, without padding. A report to the peer quotes the whole parameter: [`Parameter::append_to`].
    pub value: &'a [u8],
}

/// The parameters at the end of a chunk, in order. The walk ends after the first that cannot be read.
#[derive(Clone, Copy, Debug)]
pub struct Parameters<'a> {
    rest: &'a [u8],
}

/// A list of 16-bit parameter type numbers in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeList<'a> {
    entries: &'a [[u8; 2]],
}

impl<'a> Parameter<'a> {
    fn read(frame: &Frame<'a>) -> Result<Self, Malformation> {
        Ok(match frame.kind_u16() {
            kind::HEARTBEAT_INFO => Self::HeartbeatInfo(frame.value),
            kind::IPV4_ADDRESS => Self::Ipv4(Ipv4Addr::from(*frame.exactly::<4>()?)),
            kind::IPV6_ADDRESS => Self::Ipv6(Ipv6Addr::from(*frame.exactly::<16>()?)),
            kind::STATE_COOKIE => Self::StateCookie(frame.value),
            kind::UNRECOGNIZED_PARAMETER => Self::UnrecognizedParameter(frame.value),
            kind::COOKIE_PRESERVATIVE => Self::CookiePreservative(u32::from_be_bytes(*frame.exactly()?)),
            kind::HOST_NAME_ADDRESS => Self::HostName(frame.value),
            kind::SUPPORTED_ADDRESS_TYPES => Self::SupportedAddressTypes(
                TypeList::from_bytes(frame.value).ok_or(Malformation::HalfEntry { length: frame.bytes.len() })?,
            ),
            kind::SUPPORTED_EXTENSIONS => Self::SupportedExtensions(frame.value),
            kind::ZERO_CHECKSUM_ACCEPTABLE => Self::ZeroChecksumAcceptable(u32::from_be_bytes(*frame.exactly()?)),
            kind::FORWARD_TSN_SUPPORTED => {
                frame.exactly::<0>()?;
                Self::ForwardTsnSupported
            }
            kind::ECN_CAPABLE => {
                frame.exactly::<0>()?;
                Self::EcnCapable
            }
            parameter_type => Self::Unknown(UnknownParameter { parameter_type, value: frame.value }),
        })
    }

    /// Its type number.
    #[must_use]
    pub const fn parameter_type(&self) -> u16 {
        match self {
            Self::HeartbeatInfo(_) => kind::HEARTBEAT_INFO,
            Self::Ipv4(_) => kind::IPV4_ADDRESS,
            Self::Ipv6(_) => kind::IPV6_ADDRESS,
            Self::StateCookie(_) => kind::STATE_COOKIE,
            Self::UnrecognizedParameter(_) => kind::UNRECOGNIZED_PARAMETER,
            Self::CookiePreservative(_) => kind::COOKIE_PRESERVATIVE,
            Self::HostName(_) => kind::HOST_NAME_ADDRESS,
            Self::SupportedAddressTypes(_) => kind::SUPPORTED_ADDRESS_TYPES,
            Self::SupportedExtensions(_) => kind::SUPPORTED_EXTENSIONS,
            Self::ZeroChecksumAcceptable(_) => kind::ZERO_CHECKSUM_ACCEPTABLE,
            Self::ForwardTsnSupported => kind::FORWARD_TSN_SUPPORTED,
            Self::EcnCapable => kind::ECN_CAPABLE,
            Self::Unknown(unknown) => unknown.parameter_type,
        }
    }

    pub(super) fn write(&self, encoder: &mut Encoder<'_>) {
        encoder.frame(self.parameter_type().to_be_bytes(), |encoder| match self {
            Self::Ipv4(address) => encoder.put(&address.octets()),
            Self::Ipv6(address) => encoder.put(&address.octets()),
            Self::CookiePreservative(increment_ms) => encoder.put(&increment_ms.to_be_bytes()),
            Self::ZeroChecksumAcceptable(method) => encoder.put(&method.to_be_bytes()),
            Self::SupportedAddressTypes(types) => encoder.put(types.as_bytes()),
            Self::HeartbeatInfo(value)
            | Self::StateCookie(value)
            | Self::UnrecognizedParameter(value)
            | Self::HostName(value)
            | Self::SupportedExtensions(value)
            | Self::Unknown(UnknownParameter { value, .. }) => encoder.put(value),
            Self::ForwardTsnSupported | Self::EcnCapable => {}
        });
    }

    /// Appends the parameter to `buffer`, complete with header and padding: for the causes that quote parameters.
    /// False, with nothing written, if it is too long for its 16-bit length.
    pub fn append_to(&self, buffer: &mut Vec<u8>) -> bool {
        let base = buffer.len();
        let mut encoder = Encoder::new(buffer, base);
        self.write(&mut encoder);
        let fits = encoder.finish();
        if !fits {
            buffer.truncate(base);
        }
        fits
    }
}

impl UnknownParameter<'_> {
    /// What RFC 9260 §3.2.1 asks the receiver to do about it.
    #[must_use]
    pub const fn action(&self) -> UnknownAction {
        UnknownAction::from_first_byte(self.parameter_type.to_be_bytes()[0])
    }
}

impl<'a> Parameters<'a> {
    /// Walks `bytes`, which hold complete parameters: also for the causes that quote parameters.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Parameters<'a> {
    type Item = Result<Parameter<'a>, ParameterError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let parameter_type = kind_or_zero(self.rest);
        let result = Frame::split(self.rest).and_then(|(frame, rest)| {
            self.rest = rest;
            Parameter::read(&frame)
        });
        Some(result.map_err(|kind| {
            self.rest = &[];
            ParameterError { parameter_type, kind }
        }))
    }
}

impl core::iter::FusedIterator for Parameters<'_> {}

impl<'a> TypeList<'a> {
    /// IPv4 and IPv6, for Supported Address Types.
    pub const IPV4_AND_IPV6: TypeList<'static> =
        TypeList { entries: &[kind::IPV4_ADDRESS.to_be_bytes(), kind::IPV6_ADDRESS.to_be_bytes()] };
    /// The State Cookie alone, for Missing Mandatory Parameter.
    pub const STATE_COOKIE: TypeList<'static> = TypeList { entries: &[kind::STATE_COOKIE.to_be_bytes()] };

    /// A list of entries that are already in network byte order.
    #[must_use]
    pub const fn new(entries: &'a [[u8; 2]]) -> Self {
        Self { entries }
    }

    /// A list from wire bytes; `None` if there is half an entry.
    #[must_use]
    pub const fn from_bytes(bytes: &'a [u8]) -> Option<Self> {
        match bytes.as_chunks() {
            (entries, []) => Some(Self { entries }),
            _ => None,
        }
    }

    /// The list as on the wire.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.entries.as_flattened()
    }

    /// The type numbers in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u16> + use<'a> {
        self.entries.iter().map(|&entry| u16::from_be_bytes(entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(bytes: &[u8]) -> Result<Parameter<'_>, ParameterError> {
        let mut parameters = Parameters::new(bytes);
        let first = parameters.next().expect("there is one");
        assert_eq!(parameters.next(), None);
        first
    }

    #[test]
    fn every_parameter_has_the_bytes_of_its_diagram() {
        let ipv6 = [0, 6, 0, 20, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        let unknown = [0xc0, 0x10, 0, 5, 7, 0, 0, 0];
        for (parameter, bytes) in [
            (Parameter::HeartbeatInfo(&[1, 2]), &[0, 1, 0, 6, 1, 2, 0, 0][..]),
            (Parameter::Ipv4(Ipv4Addr::new(192, 0, 2, 1)), &[0, 5, 0, 8, 192, 0, 2, 1]),
            (Parameter::Ipv6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1)), &ipv6),
            (Parameter::StateCookie(&[1, 2, 3, 4]), &[0, 7, 0, 8, 1, 2, 3, 4]),
            (Parameter::UnrecognizedParameter(&unknown[..5]), &[0, 8, 0, 9, 0xc0, 0x10, 0, 5, 7, 0, 0, 0]),
            (Parameter::CookiePreservative(1000), &[0, 9, 0, 8, 0, 0, 3, 232]),
            (Parameter::HostName(b"a.b\0"), &[0, 11, 0, 8, b'a', b'.', b'b', 0]),
            (Parameter::SupportedAddressTypes(TypeList::IPV4_AND_IPV6), &[0, 12, 0, 8, 0, 5, 0, 6]),
            (Parameter::SupportedExtensions(&[0xc0, 64]), &[0x80, 8, 0, 6, 0xc0, 64, 0, 0]),
            (Parameter::ForwardTsnSupported, &[0xc0, 0, 0, 4]),
            (Parameter::EcnCapable, &[0x80, 0, 0, 4]),
            (Parameter::Unknown(UnknownParameter { parameter_type: 0xc010, value: &[7] }), &unknown),
        ] {
            let mut written = Vec::new();
            assert!(parameter.append_to(&mut written));
            assert_eq!(written, bytes);
            assert_eq!(only(bytes), Ok(parameter));
        }
    }

    #[test]
    fn every_wrong_length_of_a_fixed_parameter_is_rejected() {
        for (parameter_type, expected) in [(5, 8), (6, 20), (9, 8), (0x8000, 4), (0xc000, 4)] {
            for length in (4..24).filter(|&length| length != expected) {
                let mut bytes = vec![0; usize::from(length)];
                bytes[..2].copy_from_slice(&u16::to_be_bytes(parameter_type));
                bytes[2..4].copy_from_slice(&u16::to_be_bytes(length));
                let kind = Malformation::WrongLength { length: bytes.len(), expected: usize::from(expected) };
                assert_eq!(only(&bytes), Err(ParameterError { parameter_type, kind }));
            }
        }
    }

    #[test]
    fn half_an_address_type_is_rejected() {
        let kind = Malformation::HalfEntry { length: 7 };
        assert_eq!(only(&[0, 12, 0, 7, 0, 5, 0]), Err(ParameterError { parameter_type: 12, kind }));
    }

    #[test]
    fn the_walk_ends_at_a_malformed_parameter() {
        for (tail, parameter_type, kind) in [
            (&[0][..], 0, Malformation::HeaderTruncated { available: 1 }),
            (&[0, 7, 0], 7, Malformation::HeaderTruncated { available: 3 }),
            (&[0, 7, 0, 3, 0, 0, 0, 0], 7, Malformation::LengthBelowHeader { length: 3 }),
            (&[0, 7, 0, 6, 1], 7, Malformation::LengthBeyondEnd { length: 6, available: 5 }),
        ] {
            let bytes = [&[0xc0, 0, 0, 4], tail].concat();
            let error = ParameterError { parameter_type, kind };
            assert!(Parameters::new(&bytes).eq([Ok(Parameter::ForwardTsnSupported), Err(error)]));
        }
    }

    #[test]
    fn the_two_highest_bits_of_the_type_say_what_to_do_about_an_unknown_parameter() {
        for (first_byte, action) in [
            (0x3f, UnknownAction::Stop),
            (0x40, UnknownAction::StopAndReport),
            (0xbf, UnknownAction::Skip),
            (0xff, UnknownAction::SkipAndReport),
        ] {
            let bytes = [first_byte, 1, 0, 5, 9, 0, 0, 0];
            let Ok(Parameter::Unknown(unknown)) = only(&bytes) else { panic!("known") };
            assert_eq!(unknown.value, &[9]);
            assert_eq!(unknown.action(), action);
        }
    }

    #[test]
    fn a_value_too_long_for_its_length_field_is_not_written() {
        let mut buffer = vec![1];
        assert!(!Parameter::StateCookie(&vec![0; 0xffff - 3]).append_to(&mut buffer));
        assert_eq!(buffer, [1]);
        assert!(Parameter::StateCookie(&vec![0; 0xffff - 4]).append_to(&mut buffer));
    }
}
