//! Assembles fragments to messages and puts messages in the order of their streams. [`Framing`] determines how a chunk names its place:
//!
//! - `traditional`: DATA, whose fragments have consecutive TSNs (RFC 9260 §6.5, §6.6, §6.9), and FORWARD-TSN (RFC 3758 §3.6)
//! - `interleaved`: I-DATA, whose fragments name message and place (RFC 8260 §2.2), and I-FORWARD-TSN (§2.3)
//! - `order`: which message of a stream is due, in either framing
//! - `ready`: the queue to the application
//! - `run`, `parts`: consecutive fragments of one message
//! - `cost`: the memory counted towards the receive buffer, and the choice between slice and copy

use bytes::Bytes;

use self::cost::Fill;
use self::interleaved::Interleaved;
use self::ready::Ready;
use self::traditional::Traditional;
use super::tracker::Spot;
use crate::message::ReceivedMessage;
use crate::wire::{Data, Framing, IData, SkippedMessage, SkippedRun, Ssn, StreamId, Tsn};

pub(super) mod cost;
mod interleaved;
mod order;
mod parts;
pub(super) mod ready;
mod run;
mod traditional;
mod unread;

const TOO_LONG: &str = "a message is longer than this endpoint accepts";

/// A DATA or I-DATA chunk, as read.
pub(super) trait Piece {
    fn tsn(&self) -> Tsn;
    fn stream(&self) -> StreamId;
    /// SSN or MID.
    fn number(&self) -> u32;
    fn ppid(&self) -> u32;
    fn unordered(&self) -> bool;
    fn beginning(&self) -> bool;
    fn end(&self) -> bool;
    fn immediate(&self) -> bool;
    fn payload(&self) -> &[u8];
    /// Appends the form in which it is summed.
    fn write_symbol(&self, symbol: &mut Vec<u8>);

    /// Adds the piece to the assembly. Complete messages that are due go to `ready`.
    ///
    /// # Errors
    /// It contradicts others, its message is too long, or the other framing was agreed on.
    fn enter(&self, assembly: &mut Assembly, place: &Place<'_>, ready: &mut Ready) -> Result<(), &'static str>;

    /// Its message with this payload.
    #[inline]
    fn message(&self, payload: Bytes) -> ReceivedMessage {
        ReceivedMessage { payload, stream: self.stream(), ppid: self.ppid(), unordered: self.unordered(), restarts: 0 }
    }
}

/// Where a piece lies, and how full the receive buffer is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'p> {
    pub(super) spot: &'p Spot,
    /// The packet that holds the payload.
    pub(super) packet: &'p Bytes,
    pub(super) fill: Fill,
    pub(super) skips_so_far: SkipsSoFar,
    /// The peer may abandon messages.
    pub(super) may_skip: bool,
    /// The largest message that is taken.
    pub(super) message_bytes_max: u32,
}

/// What the peer has abandoned so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SkipsSoFar {
    None,
    /// All that was missing up to a TSN.
    UpToTsn,
    /// Chunks that lie apart as well: a fragment without its beginning may belong to one of their messages.
    Apart,
}

/// Incomplete messages, and those that wait for an earlier one of their stream. [`Ready`] counts their memory.
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

    /// Takes a piece of a stream that does not exist: nothing of it is kept.
    ///
    /// # Errors
    /// It lies between the fragments of a message.
    pub(super) fn take_outside(&mut self, spot: Spot, may_skip: bool, ready: &mut Ready) -> Result<(), &'static str> {
        match self {
            Self::Traditional(traditional) => traditional.take_outside(spot, may_skip, ready),
            Self::Interleaved(_) => Ok(()),
        }
    }

    /// The cumulative TSN has moved up to `cumulative`.
    #[inline]
    pub(super) fn advance(&mut self, cumulative: u64, ready: &mut Ready) {
        if let Self::Traditional(traditional) = self {
            traditional.advance(cumulative, ready);
        }
    }

    /// Whether a message that came whole could be fetched at once.
    pub(super) fn is_due(&self, piece: &impl Piece) -> bool {
        let (stream, number) = (piece.stream(), piece.number());
        piece.unordered()
            || match self {
                Self::Traditional(traditional) => traditional.is_next(stream, number),
                Self::Interleaved(interleaved) => interleaved.is_next(stream, number),
            }
    }

    /// Skips missing chunks up to `new_cumulative`, which is `passed` TSNs further on, and over the ordered messages listed, as far
    /// as `inbound_streams` go (RFC 3758 §3.6). Does nothing in the other framing, where each message is listed.
    pub(super) fn forward(
        &mut self,
        (new_cumulative, passed): (u64, u64),
        inbound_streams: u16,
        streams: impl Iterator<Item = (StreamId, Ssn)> + Clone,
        ready: &mut Ready,
    ) {
        if let Self::Traditional(traditional) = self {
            let streams = streams.filter(|(stream, _)| stream.0 < inbound_streams);
            traditional.forward((new_cumulative, passed), streams, ready);
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

    /// The missing chunks from `first` to `last` were abandoned: drops the fragments of their messages. `is_next`: no TSN below is missing. With
    /// I-DATA the messages are named ([`skip_runs`](Self::skip_runs)).
    pub(super) fn pass_over(&mut self, first: u64, last: u64, is_next: bool, ready: &mut Ready) {
        if let Self::Traditional(traditional) = self {
            traditional.pass_over((first, last), is_next, ready);
        }
    }

    /// Skips these messages alone, as far as `inbound_streams` go: earlier messages of their streams may still come.
    pub(super) fn skip_runs(
        &mut self,
        inbound_streams: u16,
        runs: impl Iterator<Item = SkippedRun>,
        ready: &mut Ready,
    ) {
        for run in runs.filter(|run| run.stream.0 < inbound_streams) {
            match self {
                Self::Traditional(_) if run.unordered => {}
                Self::Traditional(traditional) => traditional.order_mut().skip(&run, ready),
                Self::Interleaved(interleaved) => interleaved.skip(&run, ready),
            }
        }
    }

    /// Resets the stream: numbering restarts at 0, and waiting messages are released.
    pub(super) fn reset_stream(&mut self, stream: StreamId, ready: &mut Ready) {
        match self {
            Self::Traditional(traditional) => traditional.order_mut().reset(stream, ready),
            Self::Interleaved(interleaved) => interleaved.reset_stream(stream, ready),
        }
    }

    /// As [`reset_stream`](Self::reset_stream), all streams.
    pub(super) fn reset_all_streams(&mut self, ready: &mut Ready) {
        match self {
            Self::Traditional(traditional) => traditional.order_mut().reset_all(ready),
            Self::Interleaved(interleaved) => interleaved.reset_all_streams(ready),
        }
    }

    /// Maximum growth of the tables of streams when messages of `streams.0` streams are skipped, of `streams.1` in all.
    pub(super) fn forward_growth_bytes_max(&self, streams: (usize, u16)) -> usize {
        match self {
            Self::Traditional(traditional) => traditional.forward_growth_bytes_max(streams),
            Self::Interleaved(interleaved) => interleaved.forward_growth_bytes_max(streams),
        }
    }
}

impl Place<'_> {
    /// Whether the peer has abandoned messages.
    #[inline]
    fn has_skipped(&self) -> bool {
        self.skips_so_far != SkipsSoFar::None
    }

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

impl Piece for Data<'_> {
    #[inline]
    fn tsn(&self) -> Tsn {
        self.tsn
    }

    #[inline]
    fn stream(&self) -> StreamId {
        self.stream
    }

    #[inline]
    fn number(&self) -> u32 {
        self.ssn.0.into()
    }

    #[inline]
    fn ppid(&self) -> u32 {
        self.ppid
    }

    #[inline]
    fn unordered(&self) -> bool {
        self.unordered
    }

    #[inline]
    fn beginning(&self) -> bool {
        self.beginning
    }

    #[inline]
    fn end(&self) -> bool {
        self.end
    }

    #[inline]
    fn immediate(&self) -> bool {
        self.immediate
    }

    fn write_symbol(&self, symbol: &mut Vec<u8>) {
        self.header().write_symbol(self.payload, symbol);
    }

    #[inline]
    fn payload(&self) -> &[u8] {
        self.payload
    }

    #[inline]
    fn enter(&self, assembly: &mut Assembly, place: &Place<'_>, ready: &mut Ready) -> Result<(), &'static str> {
        match assembly {
            Assembly::Traditional(traditional) => traditional.take(self, place, ready),
            Assembly::Interleaved(_) => Err("DATA where I-DATA was agreed on"),
        }
    }
}

impl Piece for IData<'_> {
    #[inline]
    fn tsn(&self) -> Tsn {
        self.tsn
    }

    #[inline]
    fn stream(&self) -> StreamId {
        self.stream
    }

    #[inline]
    fn number(&self) -> u32 {
        self.mid.0
    }

    #[inline]
    fn ppid(&self) -> u32 {
        IData::ppid(self).unwrap_or(0)
    }

    #[inline]
    fn unordered(&self) -> bool {
        self.unordered
    }

    #[inline]
    fn beginning(&self) -> bool {
        self.beginning
    }

    #[inline]
    fn end(&self) -> bool {
        self.end
    }

    #[inline]
    fn immediate(&self) -> bool {
        self.immediate
    }

    fn write_symbol(&self, symbol: &mut Vec<u8>) {
        self.header().write_symbol(self.payload(), symbol);
    }

    #[inline]
    fn payload(&self) -> &[u8] {
        IData::payload(self)
    }

    #[inline]
    fn enter(&self, assembly: &mut Assembly, place: &Place<'_>, ready: &mut Ready) -> Result<(), &'static str> {
        match assembly {
            Assembly::Interleaved(interleaved) => interleaved.take(self, place, ready),
            Assembly::Traditional(_) => Err("I-DATA where DATA was agreed on"),
        }
    }
}
