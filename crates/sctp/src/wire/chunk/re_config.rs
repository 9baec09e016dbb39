//! RE-CONFIG: one or two requests or responses that change streams (RFC 6525 §3.1, §4).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |     0x82      |               |   length                      |
//! +---------------+---------------+-------------------------------+
//! |  parameter type, 13 to 18     |   parameter length            |
//! +-------------------------------+-------------------------------+
//! |      request number, or response number in a response         |
//! +---------------------------------------------------------------+
//! |      what the parameter is about, padded to 4 bytes ...       |
//! ```

use super::unknown::UnknownChunk;
use crate::wire::encode::Encoder;
use crate::wire::error::{Malformation, ParameterError};
use crate::wire::serial::{StreamId, Tsn};
use crate::wire::tlv::{Frame, kind_or_zero};

const OUTGOING_RESET: u16 = 13;
const INCOMING_RESET: u16 = 14;
const NUMBERS_RESET: u16 = 15;
const RESPONSE: u16 = 16;
const ADD_OUTGOING: u16 = 17;
const ADD_INCOMING: u16 = 18;

/// A RE-CONFIG chunk, as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReConfig<'a> {
    /// The whole chunk without padding.
    bytes: &'a [u8],
}

/// A parameter of RE-CONFIG, as read or as given to be written. Request numbers count up from the first TSN of their sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReConfigParameter<'a> {
    /// The sender resets its outgoing streams to 0 (RFC 6525 §4.1).
    OutgoingReset {
        /// The request's number.
        request: u32,
        /// The number of the peer's request that this one answers, or that of its last one.
        response: u32,
        /// The last TSN that carries a number from before.
        last_tsn: Tsn,
        /// The streams; none stands for all.
        streams: StreamList<'a>,
    },
    /// The receiver is asked to reset its outgoing streams (§4.2).
    IncomingReset {
        /// The request's number.
        request: u32,
        /// The streams; none stands for all.
        streams: StreamList<'a>,
    },
    /// All numbers restart, TSNs among them (§4.3).
    NumbersReset {
        /// The request's number.
        request: u32,
    },
    /// What became of a request (§4.4).
    Response {
        /// The request's number.
        response: u32,
        /// The result, see [`ReConfigResult`].
        result: u32,
        /// The next TSNs of the responder and of the requester; only after a reset of all numbers.
        next_tsns: Option<(Tsn, Tsn)>,
    },
    /// The sender wants more outgoing streams (§4.5).
    AddOutgoing {
        /// The request's number.
        request: u32,
        /// Number of streams to add.
        streams: u16,
    },
    /// The receiver is asked for more outgoing streams (§4.6).
    AddIncoming {
        /// The request's number.
        request: u32,
        /// Number of streams to add.
        streams: u16,
    },
    /// Any other type: it and all later parameters are ignored.
    Unknown {
        /// Its type.
        parameter_type: u16,
    },
}

/// Stream identifiers in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamList<'a> {
    entries: &'a [[u8; 2]],
}

/// What became of a request (RFC 6525 §4.4, Table 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReConfigResult {
    /// 0: there was nothing to do.
    NothingToDo,
    /// 1: done.
    Performed,
    /// 2: the other side does not want it.
    Denied,
    /// 3: a stream does not exist.
    WrongStream,
    /// 4: another request has to be answered first.
    AlreadyInProgress,
    /// 5: the request number is not the next one.
    BadSequenceNumber,
    /// 6: it will be done once all earlier data has arrived.
    InProgress,
    /// Any other number.
    Other(u32),
}

impl ReConfigResult {
    /// The result of a number on the wire.
    #[must_use]
    pub const fn from_number(number: u32) -> Self {
        match number {
            0 => Self::NothingToDo,
            1 => Self::Performed,
            2 => Self::Denied,
            3 => Self::WrongStream,
            4 => Self::AlreadyInProgress,
            5 => Self::BadSequenceNumber,
            6 => Self::InProgress,
            other => Self::Other(other),
        }
    }

    /// Its number on the wire.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::NothingToDo => 0,
            Self::Performed => 1,
            Self::Denied => 2,
            Self::WrongStream => 3,
            Self::AlreadyInProgress => 4,
            Self::BadSequenceNumber => 5,
            Self::InProgress => 6,
            Self::Other(number) => number,
        }
    }

    /// Returns whether the request is in effect now.
    #[must_use]
    pub const fn is_success(self) -> bool {
        matches!(self, Self::NothingToDo | Self::Performed)
    }
}

impl<'a> ReConfig<'a> {
    pub(in crate::wire) fn read(frame: &Frame<'a>) -> Self {
        Self { bytes: frame.bytes }
    }

    /// The parameters in order. The walk ends after the first that cannot be read.
    #[must_use]
    pub fn parameters(&self) -> ReConfigParameters<'a> {
        ReConfigParameters { rest: self.bytes.get(4..).unwrap_or_default() }
    }

    /// The chunk for a receiver that has not agreed on stream reconfiguration.
    #[must_use]
    pub const fn as_unknown(&self) -> UnknownChunk<'a> {
        UnknownChunk::new(self.bytes)
    }
}

/// The parameters of a RE-CONFIG chunk; see [`ReConfig::parameters`].
#[derive(Clone, Copy, Debug)]
pub struct ReConfigParameters<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for ReConfigParameters<'a> {
    type Item = Result<ReConfigParameter<'a>, ParameterError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let parameter_type = kind_or_zero(self.rest);
        let result = Frame::split(self.rest).and_then(|(frame, rest)| {
            self.rest = rest;
            ReConfigParameter::read(&frame)
        });
        if !matches!(result, Ok(parameter) if !matches!(parameter, ReConfigParameter::Unknown { .. })) {
            self.rest = &[];
        }
        Some(result.map_err(|kind| ParameterError { parameter_type, kind }))
    }
}

impl core::iter::FusedIterator for ReConfigParameters<'_> {}

fn number([a, b, c, d]: [u8; 4]) -> u32 {
    u32::from_be_bytes([a, b, c, d])
}

impl<'a> ReConfigParameter<'a> {
    fn read(frame: &Frame<'a>) -> Result<Self, Malformation> {
        Ok(match frame.kind_u16() {
            OUTGOING_RESET => {
                let (&[r0, r1, r2, r3, a0, a1, a2, a3, t0, t1, t2, t3], streams) = frame.at_least::<12>()?;
                Self::OutgoingReset {
                    request: number([r0, r1, r2, r3]),
                    response: number([a0, a1, a2, a3]),
                    last_tsn: Tsn(number([t0, t1, t2, t3])),
                    streams: StreamList::read(frame, streams)?,
                }
            }
            INCOMING_RESET => {
                let (&request, streams) = frame.at_least::<4>()?;
                Self::IncomingReset { request: number(request), streams: StreamList::read(frame, streams)? }
            }
            NUMBERS_RESET => Self::NumbersReset { request: number(*frame.exactly::<4>()?) },
            RESPONSE => Self::read_response(frame)?,
            ADD_OUTGOING => {
                let (request, streams) = read_addition(frame)?;
                Self::AddOutgoing { request, streams }
            }
            ADD_INCOMING => {
                let (request, streams) = read_addition(frame)?;
                Self::AddIncoming { request, streams }
            }
            parameter_type => Self::Unknown { parameter_type },
        })
    }

    fn read_response(frame: &Frame<'a>) -> Result<Self, Malformation> {
        let (&[r0, r1, r2, r3, c0, c1, c2, c3], rest) = frame.at_least::<8>()?;
        let next_tsns = match *rest {
            [] => None,
            [s0, s1, s2, s3, n0, n1, n2, n3] => Some((Tsn(number([s0, s1, s2, s3])), Tsn(number([n0, n1, n2, n3])))),
            _ => return Err(Malformation::WrongLength { length: frame.bytes.len(), expected: 12 }),
        };
        Ok(Self::Response { response: number([r0, r1, r2, r3]), result: number([c0, c1, c2, c3]), next_tsns })
    }

    pub(in crate::wire) fn write(&self, encoder: &mut Encoder<'_>) {
        encoder.frame(self.parameter_type().to_be_bytes(), |encoder| match *self {
            Self::OutgoingReset { request, response, last_tsn, streams } => {
                encoder.put(&request.to_be_bytes());
                encoder.put(&response.to_be_bytes());
                encoder.put(&last_tsn.0.to_be_bytes());
                encoder.put(streams.entries.as_flattened());
            }
            Self::IncomingReset { request, streams } => {
                encoder.put(&request.to_be_bytes());
                encoder.put(streams.entries.as_flattened());
            }
            Self::NumbersReset { request } => encoder.put(&request.to_be_bytes()),
            Self::Response { response, result, next_tsns } => {
                encoder.put(&response.to_be_bytes());
                encoder.put(&result.to_be_bytes());
                if let Some((own, peers)) = next_tsns {
                    encoder.put(&own.0.to_be_bytes());
                    encoder.put(&peers.0.to_be_bytes());
                }
            }
            Self::AddOutgoing { request, streams } | Self::AddIncoming { request, streams } => {
                encoder.put(&request.to_be_bytes());
                encoder.put(&streams.to_be_bytes());
                encoder.put(&[0, 0]);
            }
            Self::Unknown { .. } => {}
        });
    }

    /// Its type number.
    #[must_use]
    pub const fn parameter_type(&self) -> u16 {
        match *self {
            Self::OutgoingReset { .. } => OUTGOING_RESET,
            Self::IncomingReset { .. } => INCOMING_RESET,
            Self::NumbersReset { .. } => NUMBERS_RESET,
            Self::Response { .. } => RESPONSE,
            Self::AddOutgoing { .. } => ADD_OUTGOING,
            Self::AddIncoming { .. } => ADD_INCOMING,
            Self::Unknown { parameter_type } => parameter_type,
        }
    }
}

/// Request number and streams of a wish for more of them.
fn read_addition(frame: &Frame<'_>) -> Result<(u32, u16), Malformation> {
    let &[r0, r1, r2, r3, n0, n1, _, _] = frame.exactly::<8>()?;
    Ok((number([r0, r1, r2, r3]), u16::from_be_bytes([n0, n1])))
}

impl<'a> StreamList<'a> {
    /// No streams, which stands for all.
    pub const ALL: StreamList<'static> = StreamList { entries: &[] };

    fn read(frame: &Frame<'_>, bytes: &'a [u8]) -> Result<Self, Malformation> {
        Self::from_bytes(bytes).ok_or(Malformation::HalfEntry { length: frame.bytes.len() })
    }

    /// Takes identifiers of two bytes each, in network byte order; `None` if half of one is left over.
    #[must_use]
    pub fn from_bytes(bytes: &'a [u8]) -> Option<Self> {
        let (entries, rest) = bytes.as_chunks();
        rest.is_empty().then_some(Self { entries })
    }

    /// The streams in the order received. Nothing is checked: they may be unknown or stand there twice.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = StreamId> + Clone + use<'a> {
        self.entries.iter().map(|&entry| StreamId(u16::from_be_bytes(entry)))
    }

    /// Returns whether it stands for all streams.
    #[must_use]
    pub const fn is_all(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{build_and_parse, parse_chunk};
    use crate::wire::{Chunk, ChunkOut};

    const STREAMS: StreamList<'static> = StreamList { entries: &[[0, 7], [1, 2]] };

    #[test]
    fn rfc6525_4_each_parameter_is_written_and_read() {
        let outgoing = ReConfigParameter::OutgoingReset { request: 1, response: 2, last_tsn: Tsn(3), streams: STREAMS };
        let next_tsns = Some((Tsn(9), Tsn(10)));
        for (parameter, bytes) in [
            (outgoing, &[0, 13, 0, 20, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 7, 1, 2][..]),
            (
                ReConfigParameter::IncomingReset { request: 4, streams: StreamList { entries: &[[0, 7]] } },
                &[0, 14, 0, 10, 0, 0, 0, 4, 0, 7],
            ),
            (ReConfigParameter::NumbersReset { request: 5 }, &[0, 15, 0, 8, 0, 0, 0, 5]),
            (
                ReConfigParameter::Response { response: 6, result: 1, next_tsns: None },
                &[0, 16, 0, 12, 0, 0, 0, 6, 0, 0, 0, 1],
            ),
            (
                ReConfigParameter::Response { response: 6, result: 1, next_tsns },
                &[0, 16, 0, 20, 0, 0, 0, 6, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 10],
            ),
            (ReConfigParameter::AddOutgoing { request: 7, streams: 258 }, &[0, 17, 0, 12, 0, 0, 0, 7, 1, 2, 0, 0]),
            (ReConfigParameter::AddIncoming { request: 8, streams: 3 }, &[0, 18, 0, 12, 0, 0, 0, 8, 0, 3, 0, 0]),
        ] {
            let length = u8::try_from(4 + bytes.len()).unwrap();
            let mut chunk = [&[0x82, 0, 0, length][..], bytes].concat();
            chunk.resize(chunk.len().next_multiple_of(4), 0);
            let read = build_and_parse(&ChunkOut::ReConfig(&[parameter]), &chunk);
            let Chunk::ReConfig(read) = read else { panic!("{read:?}") };
            assert!(read.parameters().eq([Ok(parameter)]));
        }
    }

    #[test]
    fn two_parameters_follow_each_other_padded() {
        let streams = StreamList { entries: &[[0, 7]] };
        let parameters = [
            ReConfigParameter::IncomingReset { request: 4, streams },
            ReConfigParameter::Response { response: 6, result: 2, next_tsns: None },
        ];
        let bytes =
            [&[0x82, 0, 0, 28, 0, 14, 0, 10, 0, 0, 0, 4, 0, 7, 0, 0][..], &[0, 16, 0, 12, 0, 0, 0, 6, 0, 0, 0, 2]];
        let read = build_and_parse(&ChunkOut::ReConfig(&parameters), &bytes.concat());
        let Chunk::ReConfig(read) = read else { panic!("{read:?}") };
        assert!(read.parameters().eq(parameters.map(Ok)));
    }

    #[test]
    fn a_parameter_that_is_cut_short_or_unknown_ends_the_walk() {
        for (bytes, is_unknown) in [
            (&[0, 13, 0, 8, 0, 0, 0, 1][..], false),
            (&[0, 13, 0, 17, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 7], false),
            (&[0, 14, 0, 9, 0, 0, 0, 1, 7], false),
            (&[0, 15, 0, 4], false),
            (&[0, 16, 0, 16, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0], false),
            (&[0, 17, 0, 8, 0, 0, 0, 1], false),
            (&[0, 18, 0, 16, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0], false),
            (&[0, 19, 0, 8, 0, 0, 0, 1], true),
        ] {
            let mut chunk = [&[0x82, 0, 0, 0][..], bytes].concat();
            chunk.resize(chunk.len().next_multiple_of(4), 0);
            chunk.extend([0, 15, 0, 8, 0, 0, 0, 5]);
            chunk[3] = u8::try_from(chunk.len()).unwrap();
            let Ok(Chunk::ReConfig(read)) = parse_chunk(&chunk) else { panic!("{bytes:?}") };
            let walk: Vec<_> = read.parameters().collect();
            assert_eq!(walk.len(), 1, "{bytes:?}");
            assert_eq!(walk[0].is_ok(), is_unknown, "{bytes:?}");
        }
    }

    #[test]
    fn every_result_has_its_number() {
        for number in 0..=9 {
            assert_eq!(ReConfigResult::from_number(number).number(), number);
            assert_eq!(ReConfigResult::from_number(number).is_success(), number < 2);
        }
    }
}
