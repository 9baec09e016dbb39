//! Error causes, carried by ERROR and ABORT (RFC 9260 §3.3.10). Framed like parameters, numbered apart.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |             code              | length (header and value)     |
//! +-------------------------------+-------------------------------+
//! |            information, padded to 4 bytes ...                 |
//! ```

use super::encode::Encoder;
use super::error::{CauseError, Malformation};
use super::parameter::TypeList;
use super::serial::{StreamId, Tsn};
use super::tlv::{Frame, kind_or_zero};

/// An error cause, as read from an ERROR or ABORT or as given to be written into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause<'a> {
    /// 1: DATA arrived on a stream that does not exist.
    InvalidStreamIdentifier(StreamId),
    /// 2: an INIT or INIT ACK lacked parameters of these types.
    MissingMandatoryParameter(TypeList<'a>),
    /// 3: a genuine State Cookie arrived too late.
    StaleCookie {
        /// How late, in microseconds, rounded up; zero where the sender does not say.
        staleness_us: u32,
    },
    /// 4: the sender has run out of something.
    OutOfResource,
    /// 5: the complete address parameter that the sender cannot use.
    UnresolvableAddress(&'a [u8]),
    /// 6: the complete chunk whose type the sender does not know.
    UnrecognizedChunkType(&'a [u8]),
    /// 7: a mandatory field of INIT or INIT ACK has an invalid value.
    InvalidMandatoryParameter,
    /// 8: the complete parameters of an INIT ACK whose types the sender does not know; see [`Parameters::new`].
    ///
    /// [`Parameters::new`]: super::Parameters::new
    UnrecognizedParameters(&'a [u8]),
    /// 9: the DATA chunk with this TSN has no payload.
    NoUserData(Tsn),
    /// 10: a COOKIE ECHO arrived in state SHUTDOWN-ACK-SENT.
    CookieReceivedWhileShuttingDown,
    /// 11: the complete parameters of the addresses that an INIT for an existing association tried to add.
    RestartWithNewAddresses(&'a [u8]),
    /// 12: the application aborted, for this reason.
    UserInitiatedAbort(&'a [u8]),
    /// 13: the receiver broke the protocol, with more information at the sender's discretion.
    ProtocolViolation(&'a [u8]),
    /// Any other code.
    Unknown {
        /// The cause code.
        code: u16,
        /// The information, without padding.
        value: &'a [u8],
    },
}

/// The error causes of an ERROR or ABORT, in order. The walk ends after the first that cannot be read.
#[derive(Clone, Copy, Debug)]
pub struct Causes<'a> {
    rest: &'a [u8],
}

impl<'a> Cause<'a> {
    fn read(frame: &Frame<'a>) -> Result<Self, Malformation> {
        let value = frame.value;
        Ok(match frame.kind_u16() {
            1 => {
                let &[high, low, _, _] = frame.exactly()?;
                Self::InvalidStreamIdentifier(StreamId(u16::from_be_bytes([high, low])))
            }
            2 => Self::MissingMandatoryParameter(read_missing(frame)?),
            3 => Self::StaleCookie { staleness_us: u32::from_be_bytes(*frame.exactly()?) },
            4 => frame.exactly::<0>().map(|_| Self::OutOfResource)?,
            5 => Self::UnresolvableAddress(value),
            6 => Self::UnrecognizedChunkType(value),
            7 => frame.exactly::<0>().map(|_| Self::InvalidMandatoryParameter)?,
            8 => Self::UnrecognizedParameters(value),
            9 => Self::NoUserData(Tsn(u32::from_be_bytes(*frame.exactly()?))),
            10 => frame.exactly::<0>().map(|_| Self::CookieReceivedWhileShuttingDown)?,
            11 => Self::RestartWithNewAddresses(value),
            12 => Self::UserInitiatedAbort(value),
            13 => Self::ProtocolViolation(value),
            code => Self::Unknown { code, value },
        })
    }

    /// Its cause code.
    #[must_use]
    pub const fn code(&self) -> u16 {
        match self {
            Self::InvalidStreamIdentifier(_) => 1,
            Self::MissingMandatoryParameter(_) => 2,
            Self::StaleCookie { .. } => 3,
            Self::OutOfResource => 4,
            Self::UnresolvableAddress(_) => 5,
            Self::UnrecognizedChunkType(_) => 6,
            Self::InvalidMandatoryParameter => 7,
            Self::UnrecognizedParameters(_) => 8,
            Self::NoUserData(_) => 9,
            Self::CookieReceivedWhileShuttingDown => 10,
            Self::RestartWithNewAddresses(_) => 11,
            Self::UserInitiatedAbort(_) => 12,
            Self::ProtocolViolation(_) => 13,
            Self::Unknown { code, .. } => *code,
        }
    }

    pub(super) fn write(&self, encoder: &mut Encoder<'_>) {
        encoder.frame(self.code().to_be_bytes(), |encoder| match self {
            Self::InvalidStreamIdentifier(StreamId(stream)) => {
                encoder.put(&stream.to_be_bytes());
                encoder.put(&[0, 0]);
            }
            Self::MissingMandatoryParameter(types) => {
                // A list too long to count in 32 bits overflows the cause's own length as well, which is reported.
                let count = u32::try_from(types.iter().len()).unwrap_or(u32::MAX);
                encoder.put(&count.to_be_bytes());
                encoder.put(types.as_bytes());
            }
            Self::StaleCookie { staleness_us: number } | Self::NoUserData(Tsn(number)) => {
                encoder.put(&number.to_be_bytes());
            }
            Self::UnresolvableAddress(value)
            | Self::UnrecognizedChunkType(value)
            | Self::UnrecognizedParameters(value)
            | Self::RestartWithNewAddresses(value)
            | Self::UserInitiatedAbort(value)
            | Self::ProtocolViolation(value)
            | Self::Unknown { value, .. } => encoder.put(value),
            Self::OutOfResource | Self::InvalidMandatoryParameter | Self::CookieReceivedWhileShuttingDown => {}
        });
    }
}

fn read_missing<'a>(frame: &Frame<'a>) -> Result<TypeList<'a>, Malformation> {
    let length = frame.bytes.len();
    let (&count, list) = frame.at_least::<4>()?;
    let types = TypeList::from_bytes(list).ok_or(Malformation::HalfEntry { length })?;
    let count = usize::try_from(u32::from_be_bytes(count)).unwrap_or(usize::MAX);
    if types.iter().len() != count {
        return Err(Malformation::WrongLength { length, expected: count.saturating_mul(2).saturating_add(8) });
    }
    Ok(types)
}

impl<'a> Causes<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Causes<'a> {
    type Item = Result<Cause<'a>, CauseError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let code = kind_or_zero(self.rest);
        let result = Frame::split(self.rest).and_then(|(frame, rest)| {
            self.rest = rest;
            Cause::read(&frame)
        });
        Some(result.map_err(|kind| {
            self.rest = &[];
            CauseError { code, kind }
        }))
    }
}

impl core::iter::FusedIterator for Causes<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::chunk_bytes;
    use crate::wire::{ChunkOut, Parameter, Parameters};

    fn only(bytes: &[u8]) -> Result<Cause<'_>, CauseError> {
        let mut causes = Causes::new(bytes);
        let first = causes.next().expect("there is one");
        assert_eq!(causes.next(), None);
        first
    }

    #[test]
    fn every_cause_has_the_bytes_of_its_diagram() {
        let types = TypeList::new(&[[0, 7], [0x80, 8]]);
        for (cause, bytes) in [
            (Cause::InvalidStreamIdentifier(StreamId(0x0304)), &[0, 1, 0, 8, 3, 4, 0, 0][..]),
            (Cause::MissingMandatoryParameter(types), &[0, 2, 0, 12, 0, 0, 0, 2, 0, 7, 0x80, 8]),
            (Cause::MissingMandatoryParameter(TypeList::STATE_COOKIE), &[0, 2, 0, 10, 0, 0, 0, 1, 0, 7, 0, 0]),
            (Cause::StaleCookie { staleness_us: 0x0102_0304 }, &[0, 3, 0, 8, 1, 2, 3, 4]),
            (Cause::OutOfResource, &[0, 4, 0, 4]),
            (Cause::UnresolvableAddress(&[0, 11, 0, 5, 0]), &[0, 5, 0, 9, 0, 11, 0, 5, 0, 0, 0, 0]),
            (Cause::UnrecognizedChunkType(&[0xc7, 1, 0, 4]), &[0, 6, 0, 8, 0xc7, 1, 0, 4]),
            (Cause::InvalidMandatoryParameter, &[0, 7, 0, 4]),
            (Cause::UnrecognizedParameters(&[0xc7, 1, 0, 4]), &[0, 8, 0, 8, 0xc7, 1, 0, 4]),
            (Cause::NoUserData(Tsn(0x0102_0304)), &[0, 9, 0, 8, 1, 2, 3, 4]),
            (Cause::CookieReceivedWhileShuttingDown, &[0, 10, 0, 4]),
            (Cause::RestartWithNewAddresses(&[0, 5, 0, 8, 192, 0, 2, 1]), &[0, 11, 0, 12, 0, 5, 0, 8, 192, 0, 2, 1]),
            (Cause::UserInitiatedAbort(b"why"), &[0, 12, 0, 7, b'w', b'h', b'y', 0]),
            (Cause::ProtocolViolation(b"what"), &[0, 13, 0, 8, b'w', b'h', b'a', b't']),
            (Cause::Unknown { code: 0x0101, value: &[5] }, &[1, 1, 0, 5, 5, 0, 0, 0]),
        ] {
            let written = chunk_bytes(|builder| builder.chunk(&ChunkOut::Error { causes: &[cause] }));
            assert_eq!(&written[4..], bytes);
            assert_eq!(only(bytes), Ok(cause));
        }
    }

    #[test]
    fn every_wrong_length_of_a_fixed_cause_is_rejected() {
        for (code, expected) in [(1, 8), (3, 8), (4, 4), (7, 4), (9, 8), (10, 4)] {
            for length in (4..16u8).filter(|&length| usize::from(length) != expected) {
                let mut bytes = vec![0; usize::from(length)];
                bytes[1] = code;
                bytes[3] = length;
                let kind = Malformation::WrongLength { length: bytes.len(), expected };
                assert_eq!(only(&bytes), Err(CauseError { code: u16::from(code), kind }));
            }
        }
    }

    #[test]
    fn missing_parameters_must_be_as_many_as_counted() {
        for (bytes, kind) in [
            (&[0, 2, 0, 6, 0, 0][..], Malformation::TooShort { length: 6, minimum: 8 }),
            (&[0, 2, 0, 10, 0, 0, 0, 2, 0, 7], Malformation::WrongLength { length: 10, expected: 12 }),
            (&[0, 2, 0, 10, 0, 0, 0, 0, 0, 7], Malformation::WrongLength { length: 10, expected: 8 }),
            (&[0, 2, 0, 9, 0, 0, 0, 1, 0], Malformation::HalfEntry { length: 9 }),
        ] {
            assert_eq!(only(bytes), Err(CauseError { code: 2, kind }));
        }
    }

    #[test]
    fn quoted_addresses_can_be_read_as_parameters() {
        let mut quoted = Vec::new();
        let addresses = [Parameter::Ipv4([192, 0, 2, 1].into()), Parameter::Ipv6([1; 16].into())];
        assert!(addresses.iter().all(|address| address.append_to(&mut quoted)));
        let cause = Cause::RestartWithNewAddresses(&quoted);
        let written = chunk_bytes(|builder| builder.chunk(&ChunkOut::Error { causes: &[cause] }));
        let Ok(Cause::RestartWithNewAddresses(value)) = only(&written[4..]) else { panic!("another cause") };
        assert!(Parameters::new(value).eq(addresses.map(Ok)));
    }
}
