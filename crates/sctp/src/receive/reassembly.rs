//! Fragments become messages (RFC 9260 §6.9): those of one message have consecutive TSNs, from the B bit to the E bit.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::tracker::Spot;
use super::window::CHUNK_OVERHEAD_BYTES;
use crate::message::ReceivedMessage;
use crate::wire::{Data, Ssn, StreamId};

/// Added to twice the largest message: what a message under assembly may take, overhead of its fragments included.
const ASSEMBLY_ALLOWANCE_BYTES: usize = 64 << 10;

const BEGINS_INSIDE: &str = "a message begins before the one before it has ended";
const NO_BEGINNING: &str = "a fragment follows the end of a message without beginning one";
const MIXED: &str = "the fragments of a message differ in stream, stream sequence number or U bit";
const TOO_LONG: &str = "a message is longer than this endpoint accepts";
const TOO_FRAGMENTED: &str = "a message has too many small fragments";

/// Messages of which fragments are missing.
///
/// Time: a fragment in order is appended to the head; any other costs a search among the runs, and joining two runs moves the
/// shorter one. Memory: the runs count towards the receive window; the head has a bound of its own,
/// `2 * message_bytes_max` + 64 KiB with the overhead of its fragments.
#[derive(Debug)]
pub(super) struct Reassembly {
    /// The run that ends at the cumulative TSN: it has its beginning and lacks its end.
    head: Option<Box<Run>>,
    /// All others, by their first TSN. Each has a missing TSN as a neighbour, so there are at most twice as many as the
    /// tracker has ranges.
    runs: BTreeMap<u64, Box<Run>>,
    runs_bytes: usize,
    message_bytes_max: usize,
}

/// Consecutive fragments of one message.
#[derive(Debug)]
struct Run {
    first: u64,
    parts: VecDeque<Bytes>,
    bytes: usize,
    begins: bool,
    ends: bool,
    ssn: Ssn,
    /// The message so far, but for its payload. The PPID is that of the lowest fragment.
    message: ReceivedMessage,
}

/// A message that is whole now.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Assembled {
    pub(super) message: ReceivedMessage,
    pub(super) ssn: Ssn,
}

impl Reassembly {
    pub(super) fn new(message_bytes_max: usize) -> Self {
        Self { head: None, runs: BTreeMap::new(), runs_bytes: 0, message_bytes_max }
    }

    /// What is held apart from the head, with the overhead of each fragment.
    #[inline]
    pub(super) fn runs_bytes(&self) -> usize {
        self.runs_bytes
    }

    /// Takes a chunk that holds a whole message: it must not lie between the fragments of another.
    ///
    /// # Errors
    /// It does, or it is too long.
    #[inline]
    pub(super) fn check_whole(&self, spot: Spot, data: &Data<'_>) -> Result<(), &'static str> {
        if data.payload.len() > self.message_bytes_max {
            return Err(TOO_LONG);
        }
        self.check_outside(spot)
    }

    /// Checks that a chunk, of which nothing is kept, does not lie between the fragments of a message.
    ///
    /// # Errors
    /// It does.
    #[inline]
    pub(super) fn check_outside(&self, spot: Spot) -> Result<(), &'static str> {
        if self.head.is_none() && self.runs.is_empty() {
            return Ok(());
        }
        if self.is_open_before(spot) {
            Err(BEGINS_INSIDE)
        } else if self.is_open_after(spot) {
            Err(NO_BEGINNING)
        } else {
            Ok(())
        }
    }

    /// Whether the TSN before is a fragment that is not the last of its message.
    fn is_open_before(&self, spot: Spot) -> bool {
        if spot.is_next {
            return self.head.is_some();
        }
        let below = self.runs.range(..spot.tsn).next_back();
        below.is_some_and(|(_, run)| run.next_tsn() == spot.tsn && !run.ends)
    }

    /// Whether the TSN after is a fragment that is not the first of its message.
    fn is_open_after(&self, spot: Spot) -> bool {
        spot.after_received && self.runs.get(&(spot.tsn + 1)).is_some_and(|run| !run.begins)
    }

    /// Takes a fragment; `payload` is what is kept of it. Returns the message that it completes.
    ///
    /// # Errors
    /// It contradicts its neighbours, or the message grows too long.
    pub(super) fn take(
        &mut self,
        spot: Spot,
        data: &Data<'_>,
        payload: Bytes,
    ) -> Result<Option<Assembled>, &'static str> {
        self.check_neighbours(spot, data)?;
        let below = if data.beginning { None } else { self.remove_before(spot) };
        let mut run = match below {
            Some(mut run) => {
                run.push(data, payload)?;
                run
            }
            None => Box::new(Run::new(spot.tsn, data, payload)),
        };
        if !data.end
            && let Some(above) = self.remove(spot.tsn + 1)
        {
            run.join(*above)?;
        }
        run.check_size(self.message_bytes_max)?;
        if run.begins && run.ends {
            return Ok(Some(run.assemble()));
        }
        if spot.is_next {
            self.head = Some(run);
        } else {
            self.runs_bytes += run.cost_bytes();
            self.runs.insert(run.first, run);
        }
        Ok(None)
    }

    /// A TSN that has arrived but is in no run is the end of a message, seen from above, and the beginning of one, seen from
    /// below. So both neighbours tell what this chunk's bits must be.
    fn check_neighbours(&self, spot: Spot, data: &Data<'_>) -> Result<(), &'static str> {
        if spot.before_received {
            match (self.is_open_before(spot), data.beginning) {
                (true, true) => return Err(BEGINS_INSIDE),
                (false, false) => return Err(NO_BEGINNING),
                _ => {}
            }
        }
        if spot.after_received {
            match (self.is_open_after(spot), data.end) {
                (true, true) => return Err(NO_BEGINNING),
                (false, false) => return Err(BEGINS_INSIDE),
                _ => {}
            }
        }
        Ok(())
    }

    fn remove_before(&mut self, spot: Spot) -> Option<Box<Run>> {
        if spot.is_next {
            return self.head.take();
        }
        let (&first, below) = self.runs.range(..spot.tsn).next_back()?;
        if below.next_tsn() == spot.tsn { self.remove(first) } else { None }
    }

    fn remove(&mut self, first: u64) -> Option<Box<Run>> {
        let run = self.runs.remove(&first)?;
        self.runs_bytes -= run.cost_bytes();
        Some(run)
    }

    /// The cumulative TSN has moved up: a run that it has reached becomes the head.
    #[inline]
    pub(super) fn advance(&mut self, cumulative: u64) {
        if let Some((&first, _)) = self.runs.first_key_value()
            && first <= cumulative
        {
            self.head = self.remove(first);
        }
    }
}

impl Run {
    fn new(tsn: u64, data: &Data<'_>, payload: Bytes) -> Self {
        let message =
            ReceivedMessage { payload: Bytes::new(), stream: data.stream, ppid: data.ppid, unordered: data.unordered };
        let bytes = payload.len();
        let parts = VecDeque::from([payload]);
        Self { first: tsn, parts, bytes, begins: data.beginning, ends: data.end, ssn: data.ssn, message }
    }

    fn next_tsn(&self) -> u64 {
        self.first + self.parts.len() as u64
    }

    fn cost_bytes(&self) -> usize {
        self.bytes + self.parts.len() * CHUNK_OVERHEAD_BYTES
    }

    fn check_size(&self, message_bytes_max: usize) -> Result<(), &'static str> {
        if self.bytes > message_bytes_max {
            Err(TOO_LONG)
        } else if self.cost_bytes() > 2 * message_bytes_max + ASSEMBLY_ALLOWANCE_BYTES {
            Err(TOO_FRAGMENTED)
        } else {
            Ok(())
        }
    }

    /// Checks that a neighbour belongs to the same message. The SSN of an unordered one has no meaning.
    fn check_same(&self, stream: StreamId, unordered: bool, ssn: Ssn) -> Result<(), &'static str> {
        let same =
            self.message.stream == stream && self.message.unordered == unordered && (unordered || self.ssn == ssn);
        if same { Ok(()) } else { Err(MIXED) }
    }

    fn push(&mut self, data: &Data<'_>, payload: Bytes) -> Result<(), &'static str> {
        self.check_same(data.stream, data.unordered, data.ssn)?;
        self.bytes += payload.len();
        self.parts.push_back(payload);
        self.ends = data.end;
        Ok(())
    }

    /// Appends the run above.
    fn join(&mut self, mut above: Self) -> Result<(), &'static str> {
        self.check_same(above.message.stream, above.message.unordered, above.ssn)?;
        if self.parts.len() >= above.parts.len() {
            self.parts.append(&mut above.parts);
        } else {
            while let Some(part) = self.parts.pop_back() {
                above.parts.push_front(part);
            }
            self.parts = above.parts;
        }
        self.bytes += above.bytes;
        self.ends = above.ends;
        Ok(())
    }

    /// One copy into one buffer of just the right size.
    fn assemble(self) -> Assembled {
        let mut payload = Vec::with_capacity(self.bytes);
        for part in &self.parts {
            payload.extend_from_slice(part);
        }
        Assembled { message: ReceivedMessage { payload: payload.into(), ..self.message }, ssn: self.ssn }
    }
}
