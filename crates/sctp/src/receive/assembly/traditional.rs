//! Messages in DATA chunks (RFC 9260 §6.5, §6.6, §6.9), which may be abandoned (RFC 3758 §3.6).

mod reassembly;

use self::reassembly::{Reassembly, Skipped};
use super::order::Order;
use super::ready::Ready;
use super::{Piece, Place};
use crate::receive::tracker::Spot;
use crate::wire::{Data, Ssn, StreamId};

/// Fragments by TSN, and order by SSN.
#[derive(Debug, Default)]
pub(in crate::receive) struct Traditional {
    reassembly: Reassembly,
    order: Order<u16>,
}

impl Traditional {
    #[inline]
    pub(super) fn take(&mut self, piece: &Data<'_>, place: &Place<'_>, ready: &mut Ready) -> Result<(), &'static str> {
        if piece.beginning() && piece.end() {
            place.check_length(piece.payload().len())?;
            let skipped = self.reassembly.check_outside(*place.spot, place.may_skip, ready)?;
            self.skip(skipped, ready);
            return self.order.take(piece, place, ready);
        }
        let (whole, skipped) = self.reassembly.take(piece, place, ready)?;
        self.skip(skipped, ready);
        match whole {
            Some(run) => {
                let number = run.number;
                self.order.take_assembled(run.assemble(), number, place.has_skipped(), ready)
            }
            None => Ok(()),
        }
    }

    /// Releases messages that waited for an abandoned one.
    #[inline]
    fn skip(&mut self, skipped: Option<Skipped>, ready: &mut Ready) {
        if let Some(Skipped { stream, number, unordered: false }) = skipped {
            self.order.forward(stream, number, ready);
        }
    }

    pub(super) fn take_outside(&mut self, spot: Spot, may_skip: bool, ready: &mut Ready) -> Result<(), &'static str> {
        let skipped = self.reassembly.check_outside(spot, may_skip, ready)?;
        self.skip(skipped, ready);
        Ok(())
    }

    #[inline]
    pub(super) fn advance(&mut self, cumulative: u64, ready: &mut Ready) {
        while let Some(skipped) = self.reassembly.advance(cumulative, ready) {
            self.skip(Some(skipped), ready);
        }
    }

    /// Whether the message of this number is the next of its stream.
    pub(super) fn is_next(&self, stream: StreamId, number: u32) -> bool {
        self.order.is_next(stream, number)
    }

    pub(super) fn order_mut(&mut self) -> &mut Order<u16> {
        &mut self.order
    }

    pub(super) fn forward_growth_bytes_max(&self, streams: (usize, u16)) -> usize {
        self.order.growth_bytes_max(streams)
    }

    /// Drops the fragments held of messages with a chunk from `first` to `last`; `is_next` if no TSN below is missing.
    pub(super) fn pass_over(&mut self, (first, last): (u64, u64), is_next: bool, ready: &mut Ready) {
        self.reassembly.pass_over(first, last, is_next, ready);
    }

    /// Skips missing chunks up to `new_cumulative`, which is `passed` TSNs further on, and over the ordered messages listed.
    pub(super) fn forward(
        &mut self,
        (new_cumulative, passed): (u64, u64),
        streams: impl Iterator<Item = (StreamId, Ssn)> + Clone,
        ready: &mut Ready,
    ) {
        self.reassembly.forward(new_cumulative, &streams, ready);
        for (stream, ssn) in streams {
            self.order.forward_over(stream, ssn.0.into(), passed, ready);
        }
    }
}
