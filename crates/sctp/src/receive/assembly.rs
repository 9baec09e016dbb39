//! Fragments become messages, and messages come in the order of their streams. [`Framing`] says how a chunk names its place:
//!
//! - `traditional`: DATA, whose fragments have consecutive TSNs (RFC 9260 §6.5, §6.6, §6.9), and FORWARD-TSN (RFC 3758 §3.6)
//! - `interleaved`: I-DATA, whose fragments name message and place (RFC 8260 §2.2), and I-FORWARD-TSN (§2.3)
//! - `order`: which message of a stream is due, in either framing
//! - `ready`: the queue to the application
//! - `run`, `parts`: consecutive fragments of one message
//! - `cost`: what counts towards the receive buffer, and what may be a slice of its packet

use bytes::Bytes;

use self::cost::Fill;
use self::interleaved::Interleaved;
use self::ready::Ready;
use self::traditional::Traditional;
use super::tracker::Spot;
use crate::wire::{Data, Framing, IData, SkippedMessage, Ssn, StreamId, Tsn};

pub(super) mod cost;
mod interleaved;
mod order;
mod parts;
pub(super) mod ready;
mod run;
mod traditional;

const TOO_LONG: &str = "a message is longer than this endpoint accepts";

/// A chunk of either framing, as read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    pub(super) tsn: Tsn,
    pub(super) stream: StreamId,
    /// SSN or MID.
    pub(super) number: u32,
    /// Its place within the message (I-DATA only).
    pub(super) fsn: u32,
    pub(super) ppid: u32,
    pub(super) unordered: bool,
    pub(super) beginning: bool,
    pub(super) end: bool,
    pub(super) immediate: bool,
    pub(super) payload: &'a [u8],
}

/// Where a piece lies, and how full the receive buffer is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'p> {
    pub(super) spot: Spot,
    /// The packet that holds the payload.
    pub(super) packet: &'p Bytes,
    pub(super) fill: Fill,
    /// The peer has abandoned messages before.
    pub(super) has_skipped: bool,
    /// The largest message that is taken.
    pub(super) message_bytes_max: u32,
}

/// Messages that are not whole, and those that wait for an earlier one of their stream.
#[derive(Debug)]
pub(super) enum Assembly {
    Traditional(Traditional),
    /// Apart, since few associations agree on it.
    Interleaved(Box<Interleaved>),
}

impl Assembly {
    pub(super) fn new(framing: Framing) -> Self {
        match framing {
            Framing::Data => Self::Traditional(Traditional::default()),
            Framing::IData => Self::Interleaved(Box::default()),
        }
    }

    pub(super) fn framing(&self) -> Framing {
        match self {
            Self::Traditional(_) => Framing::Data,
            Self::Interleaved(_) => Framing::IData,
        }
    }

    /// Takes a new piece. What is whole and due goes to `ready`.
    ///
    /// # Errors
    /// It contradicts others, or its message is too long.
    #[inline]
    pub(super) fn take(&mut self, piece: &Piece<'_>, place: &Place<'_>, ready: &mut Ready) -> Result<(), &'static str> {
        match self {
            Self::Traditional(traditional) => traditional.take(piece, place, ready),
            Self::Interleaved(interleaved) => interleaved.take(piece, place, ready),
        }
    }

    /// Takes a piece of a stream that does not exist: nothing of it is kept.
    ///
    /// # Errors
    /// It lies between the fragments of a message.
    pub(super) fn take_outside(&mut self, spot: Spot) -> Result<(), &'static str> {
        match self {
            Self::Traditional(traditional) => traditional.take_outside(spot),
            Self::Interleaved(_) => Ok(()),
        }
    }

    /// The cumulative TSN has moved up to `cumulative`.
    #[inline]
    pub(super) fn advance(&mut self, cumulative: u64) {
        if let Self::Traditional(traditional) = self {
            traditional.advance(cumulative);
        }
    }

    /// Whether a message that came whole could be fetched at once.
    pub(super) fn is_due(&self, piece: &Piece<'_>) -> bool {
        match self {
            Self::Traditional(traditional) => traditional.is_due(piece),
            Self::Interleaved(interleaved) => interleaved.is_due(piece),
        }
    }

    /// What is held, as allocated, but for what [`Ready`] counts.
    #[inline]
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            Self::Traditional(traditional) => traditional.held_bytes(),
            Self::Interleaved(interleaved) => interleaved.held_bytes(),
        }
    }

    /// Passes over what is missing up to `new_cumulative` and over the ordered messages listed, as far as `inbound_streams` go
    /// (RFC 3758 §3.6). Does nothing in the other framing, where each message is listed.
    pub(super) fn forward(
        &mut self,
        new_cumulative: u64,
        inbound_streams: u16,
        streams: impl Iterator<Item = (StreamId, Ssn)> + Clone,
        ready: &mut Ready,
    ) {
        if let Self::Traditional(traditional) = self {
            traditional.forward(new_cumulative, streams.filter(|(stream, _)| stream.0 < inbound_streams), ready);
        }
    }

    /// Passes over the messages listed, as far as `inbound_streams` go (RFC 8260 §2.3).
    pub(super) fn forward_interleaved(
        &mut self,
        inbound_streams: u16,
        streams: impl Iterator<Item = SkippedMessage>,
        ready: &mut Ready,
    ) {
        if let Self::Interleaved(interleaved) = self {
            interleaved.forward(streams.filter(|skipped| skipped.stream.0 < inbound_streams), ready);
        }
    }

    /// By how much skipping messages may make the tables of streams grow, at most.
    pub(super) fn forward_growth_bytes_max(&self, inbound_streams: u16) -> usize {
        let per_stream = match self {
            Self::Traditional(_) => size_of::<u16>(),
            Self::Interleaved(_) => 2 * size_of::<u32>(),
        };
        per_stream * (usize::from(inbound_streams) + 1)
    }
}

impl Place<'_> {
    /// Checks the length of a message so far.
    #[inline]
    fn check_length(&self, message_bytes: usize) -> Result<(), &'static str> {
        if message_bytes > self.message_bytes_max as usize { Err(TOO_LONG) } else { Ok(()) }
    }

    /// The size of the buffers in which small fragments are gathered.
    fn gather_bytes(&self) -> usize {
        (self.fill.buffer_bytes / 16).clamp(256, 4_096)
    }
}

impl<'a> From<&Data<'a>> for Piece<'a> {
    #[inline]
    fn from(data: &Data<'a>) -> Self {
        Self {
            tsn: data.tsn,
            stream: data.stream,
            number: data.ssn.0.into(),
            fsn: 0,
            ppid: data.ppid,
            unordered: data.unordered,
            beginning: data.beginning,
            end: data.end,
            immediate: data.immediate,
            payload: data.payload,
        }
    }
}

impl<'a> From<&IData<'a>> for Piece<'a> {
    fn from(data: &IData<'a>) -> Self {
        Self {
            tsn: data.tsn,
            stream: data.stream,
            number: data.mid.0,
            fsn: data.fsn(),
            ppid: data.ppid().unwrap_or(0),
            unordered: data.unordered,
            beginning: data.beginning,
            end: data.end,
            immediate: data.immediate,
            payload: data.payload(),
        }
    }
}
