//! Fragments become messages (RFC 9260 §6.9): those of one message have consecutive TSNs, from the B bit to the E bit.

use std::collections::BTreeMap;

use crate::receive::assembly::order::Number;
use crate::receive::assembly::ready::Ready;
use crate::receive::assembly::run::Run;
use crate::receive::assembly::{Piece, Place, SkipsSoFar};
use crate::receive::tracker::Spot;
use crate::wire::{Data, Ssn, StreamId};

const BEGINS_INSIDE: &str = "a message begins before the one before it has ended";
const NO_BEGINNING: &str = "a fragment follows the end of a message without beginning one";

/// Messages that lack fragments.
///
/// Time: a fragment in order is appended to the head; any other costs a search among the runs, and joining two runs moves the
/// parts of the shorter one. Memory: everything in here counts towards the receive window, as allocated;
/// [`Ready`] holds the count.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    /// The run that ends at the cumulative TSN: its beginning has arrived but not its end.
    head: Option<Box<Run>>,
    /// All others, by their first TSN. Each that is not abandoned has a missing TSN as a neighbour, so there are at most twice as many as the tracker
    /// has ranges.
    runs: BTreeMap<u64, Box<Run>>,
    /// The highest TSN that was skipped, or dropped because it continues a message whose beginning was skipped. Later fragments may continue the same
    /// message. 0 before the first.
    skipped: u64,
}

impl Reassembly {
    /// Checks that a piece that is no fragment does not lie between the fragments of a message.
    ///
    /// # Errors
    /// It does.
    #[inline]
    pub(super) fn check_outside(
        &mut self,
        spot: Spot,
        may_skip: bool,
        ready: &mut Ready,
    ) -> Result<Option<Skipped>, &'static str> {
        if self.head.is_none() && self.runs.is_empty() {
            return Ok(None);
        }
        let skipped = self.give_up_before(spot, may_skip, ready)?;
        if self.is_open_after(spot) { Err(NO_BEGINNING) } else { Ok(skipped) }
    }

    /// Whether the TSN before is a fragment that is not the last of its message.
    fn is_open_before(&self, spot: Spot) -> bool {
        if spot.is_next {
            return self.head.is_some();
        }
        let below = self.runs.range(..spot.tsn).next_back();
        below.is_some_and(|(_, run)| run.next() == spot.tsn && !run.ends && !run.given_up)
    }

    /// Whether the TSN after is a fragment that is not the first of its message.
    fn is_open_after(&self, spot: Spot) -> bool {
        spot.after_received && self.runs.get(&(spot.tsn + 1)).is_some_and(|run| !run.begins)
    }

    /// Takes a fragment. Returns the message that it completes, and the one before it if that is abandoned.
    ///
    /// # Errors
    /// It contradicts its neighbours, or the message grows too long.
    pub(super) fn take(
        &mut self,
        piece: &Data<'_>,
        place: &Place<'_>,
        ready: &mut Ready,
    ) -> Result<(Option<Run>, Option<Skipped>), &'static str> {
        let spot = *place.spot;
        if !piece.beginning() && (self.skipped == spot.tsn - 1 || self.follows_skipped(place)) {
            self.drop_fragment(ready, spot.tsn, piece.end());
            return Ok((None, None));
        }
        let Neighbours { skipped, given_up } = self.check_neighbours(spot, piece, place.may_skip, ready)?;
        let below = if piece.beginning() { None } else { self.remove_before(spot, ready) };
        let mut run = match below {
            Some(run) => {
                run.check_same(piece)?;
                run
            }
            None => Box::new(Run::new(spot.tsn, piece)),
        };
        run.push(piece, place);
        if !piece.end()
            && let Some(above) = self.remove(spot.tsn + 1, ready)
        {
            run.join(*above, place)?;
        }
        run.given_up |= given_up;
        place.check_length(run.payload_bytes())?;
        if run.is_whole() {
            return Ok((Some(*run), skipped));
        }
        ready.hold_more(run.cost_bytes());
        // The cumulative TSN passes abandoned messages at once.
        if spot.is_next && !run.given_up {
            self.head = Some(run);
        } else {
            self.runs.insert(run.first, run);
        }
        Ok((None, skipped))
    }

    /// A TSN that has arrived but is in no run is the end of a message, seen from above, and the beginning of one, seen from
    /// below. So both neighbours determine the bits of this piece.
    fn check_neighbours(
        &mut self,
        spot: Spot,
        piece: &Data<'_>,
        may_skip: bool,
        ready: &mut Ready,
    ) -> Result<Neighbours, &'static str> {
        let mut found = Neighbours::default();
        if spot.before_received {
            if piece.beginning() {
                found.skipped = self.give_up_before(spot, may_skip, ready)?;
            } else if !self.is_open_before(spot) {
                return Err(NO_BEGINNING);
            }
        }
        if spot.after_received {
            match (self.is_open_after(spot), piece.end()) {
                (true, true) => return Err(NO_BEGINNING),
                (false, false) if may_skip => found.given_up = true,
                (false, false) => return Err(BEGINS_INSIDE),
                _ => {}
            }
        }
        Ok(found)
    }

    /// Returns whether the previous chunk may have been skipped with its message: no held message continues behind it.
    fn follows_skipped(&self, place: &Place<'_>) -> bool {
        let spot = *place.spot;
        place.skips_so_far == SkipsSoFar::Apart && spot.before_received && !self.is_open_before(spot)
    }

    fn remove_before(&mut self, spot: Spot, ready: &mut Ready) -> Option<Box<Run>> {
        if spot.is_next {
            let head = self.head.take()?;
            ready.hold_less(head.cost_bytes());
            return Some(head);
        }
        let (&first, below) = self.runs.range(..spot.tsn).next_back()?;
        if below.next() == spot.tsn { self.remove(first, ready) } else { None }
    }

    fn remove(&mut self, first: u64, ready: &mut Ready) -> Option<Box<Run>> {
        let run = self.runs.remove(&first)?;
        ready.hold_less(run.cost_bytes());
        Some(run)
    }

    /// The cumulative TSN has moved up: a run that it has reached becomes the head, or is dropped if it is abandoned. Returns one that is dropped;
    /// call until it returns `None`.
    #[inline]
    pub(super) fn advance(&mut self, cumulative: u64, ready: &mut Ready) -> Option<Skipped> {
        while let Some((&first, _)) = self.runs.first_key_value()
            && first <= cumulative
        {
            let run = self.runs.remove(&first)?;
            if run.given_up {
                ready.hold_less(run.cost_bytes());
                return Some(Skipped::of(&run));
            }
            self.head = Some(run);
        }
        None
    }

    /// Drops messages that lack a TSN up to `new_cumulative` (RFC 3758 §3.6), and one that lacks only later ones if its stream has
    /// skipped it. Costs as much as is dropped.
    pub(super) fn forward(
        &mut self,
        new_cumulative: u64,
        skipped: &(impl Iterator<Item = (StreamId, Ssn)> + Clone),
        ready: &mut Ready,
    ) {
        self.skipped = new_cumulative;
        self.drop_head(ready);
        let next = new_cumulative + 1;
        while let Some((&first, run)) = self.runs.first_key_value()
            && first <= next
        {
            let is_complete_so_far = run.begins && run.next() >= next;
            if is_complete_so_far && (first == next || !run.is_skipped_by(skipped.clone())) {
                return;
            }
            if let Some(run) = self.remove(first, ready) {
                self.skip_run(&run);
            }
            if is_complete_so_far {
                return;
            }
        }
    }

    /// The chunks from `first` to `last` were abandoned with all that is outstanding of their messages: drops the fragments of these. `is_next`:
    /// no TSN below is missing. Costs as much as is dropped.
    pub(super) fn pass_over(&mut self, first: u64, last: u64, is_next: bool, ready: &mut Ready) {
        if is_next {
            self.drop_head(ready);
        }
        let below = self.runs.range(..first).next_back().map(|(&below, run)| (below, run.next(), run.ends));
        if let Some((below, next, ends)) = below
            && (next > first || next == first && !ends)
        {
            self.remove(below, ready);
        }
        while let Some((&start, run)) = self.runs.range(first..=last + 1).next()
            && (start <= last || !run.begins)
        {
            self.remove(start, ready);
        }
    }

    /// A fragment after a dropped run continues its message, unless that has ended.
    fn skip_run(&mut self, run: &Run) {
        let last = run.next() - 1;
        if last > self.skipped && !run.ends && !run.given_up {
            self.skipped = last;
        }
    }

    /// Drops a fragment of a message whose beginning was skipped, with its held fragments above.
    fn drop_fragment(&mut self, ready: &mut Ready, tsn: u64, is_end: bool) {
        if is_end {
            return;
        }
        self.skipped = tsn;
        if self.runs.get(&(tsn + 1)).is_some_and(|above| !above.begins)
            && let Some(above) = self.remove(tsn + 1, ready)
        {
            self.skip_run(&above);
        }
    }

    /// Abandons an unfinished message before the beginning of another. A peer that may skip messages may have abandoned the rest of one before it had
    /// TSNs; Linux does, contrary to RFC 3758 §3.5 A3. Returns it if all its chunks have arrived; otherwise it waits for them.
    ///
    /// # Errors
    /// There is one, and the peer may not skip messages.
    fn give_up_before(
        &mut self,
        spot: Spot,
        may_skip: bool,
        ready: &mut Ready,
    ) -> Result<Option<Skipped>, &'static str> {
        if !self.is_open_before(spot) {
            return Ok(None);
        }
        if !may_skip {
            return Err(BEGINS_INSIDE);
        }
        if !spot.is_next {
            if let Some((_, below)) = self.runs.range_mut(..spot.tsn).next_back() {
                below.given_up = true;
            }
            return Ok(None);
        }
        let skipped = self.head.as_deref().map(Skipped::of);
        self.drop_head(ready);
        Ok(skipped)
    }

    fn drop_head(&mut self, ready: &mut Ready) {
        if let Some(head) = self.head.take() {
            ready.hold_less(head.cost_bytes());
        }
    }
}

/// Information from a fragment's neighbours.
#[derive(Clone, Copy, Debug, Default)]
struct Neighbours {
    /// The message before it is abandoned.
    skipped: Option<Skipped>,
    /// Its own message is abandoned, since another begins directly after it.
    given_up: bool,
}

/// A message that will not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Skipped {
    pub(super) stream: StreamId,
    pub(super) number: u32,
    pub(super) unordered: bool,
}

impl Skipped {
    fn of(run: &Run) -> Self {
        Self { stream: run.message.stream, number: run.number, unordered: run.message.unordered }
    }
}

impl Run {
    /// Whether it belongs to an ordered message that was skipped.
    fn is_skipped_by(&self, mut skipped: impl Iterator<Item = (StreamId, Ssn)>) -> bool {
        let message = &self.message;
        !message.unordered
            && skipped.any(|(stream, ssn)| stream == message.stream && ssn.0.above(u16::of(self.number)) < u16::SPAN)
    }
}
