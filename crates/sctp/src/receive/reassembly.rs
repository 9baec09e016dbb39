//! Fragments become messages (RFC 9260 §6.9): those of one message have consecutive TSNs, from the B bit to the E bit.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::cost::{FRAGMENT_BYTES_MIN, Fill, RUN_BYTES, packet_bytes};
use super::parts::Parts;
use super::tracker::Spot;
use crate::config::Limits;
use crate::message::ReceivedMessage;
use crate::wire::{Data, Ssn, StreamId};

const BEGINS_INSIDE: &str = "a message begins before the one before it has ended";
const NO_BEGINNING: &str = "a fragment follows the end of a message without beginning one";
const MIXED: &str = "the fragments of a message differ in stream, stream sequence number or U bit";
const TOO_LONG: &str = "a message is longer than this endpoint accepts";

/// Messages of which fragments are missing.
///
/// Time: a fragment in order is appended to the head; any other costs a search among the runs, and joining two runs moves the
/// parts of the shorter one. Memory: everything in here counts towards the receive window, as allocated.
#[derive(Debug)]
pub(super) struct Reassembly {
    /// The run that ends at the cumulative TSN: it has its beginning and lacks its end.
    head: Option<Box<Run>>,
    /// All others, by their first TSN. Each has a missing TSN as a neighbour, so there are at most twice as many as the
    /// tracker has ranges.
    runs: BTreeMap<u64, Box<Run>>,
    bytes: usize,
    message_bytes_max: u32,
    /// Small fragments are gathered in buffers of this size.
    gather_bytes: u32,
}

/// Consecutive fragments of one message.
#[derive(Debug)]
struct Run {
    first: u64,
    fragments: u64,
    parts: Parts,
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
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            head: None,
            runs: BTreeMap::new(),
            bytes: 0,
            message_bytes_max: u32::try_from(limits.message_bytes_max.min(limits.receive_buffer_bytes))
                .unwrap_or(u32::MAX),
            gather_bytes: u32::try_from(limits.receive_buffer_bytes / 16)
                .map_or(4_096, |bytes| bytes.clamp(256, 4_096)),
        }
    }

    /// What is held, as allocated.
    #[inline]
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Takes a chunk that holds a whole message: it must not lie between the fragments of another.
    ///
    /// # Errors
    /// It does, or it is too long.
    #[inline]
    pub(super) fn check_whole(&self, spot: Spot, data: &Data<'_>) -> Result<(), &'static str> {
        if data.payload.len() > self.message_bytes_max as usize {
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

    /// Takes a fragment. Returns the message that it completes.
    ///
    /// # Errors
    /// It contradicts its neighbours, or the message grows too long.
    pub(super) fn take(
        &mut self,
        spot: Spot,
        data: &Data<'_>,
        packet: &Bytes,
        fill: Fill,
    ) -> Result<Option<Assembled>, &'static str> {
        self.check_neighbours(spot, data)?;
        let below = if data.beginning { None } else { self.remove_before(spot) };
        let mut run = match below {
            Some(run) => {
                run.check_same(data.stream, data.unordered, data.ssn)?;
                run
            }
            None => Box::new(Run::new(spot.tsn, data)),
        };
        run.push(data, packet, fill, self.gather_bytes as usize);
        if !data.end
            && let Some(above) = self.remove(spot.tsn + 1)
        {
            run.join(*above, self.gather_bytes as usize)?;
        }
        if run.parts.len() > self.message_bytes_max as usize {
            return Err(TOO_LONG);
        }
        if run.begins && run.ends {
            return Ok(Some(run.assemble()));
        }
        self.bytes += run.cost_bytes();
        if spot.is_next {
            self.head = Some(run);
        } else {
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
            let head = self.head.take()?;
            self.bytes -= head.cost_bytes();
            return Some(head);
        }
        let (&first, below) = self.runs.range(..spot.tsn).next_back()?;
        if below.next_tsn() == spot.tsn { self.remove(first) } else { None }
    }

    fn remove(&mut self, first: u64) -> Option<Box<Run>> {
        let run = self.runs.remove(&first)?;
        self.bytes -= run.cost_bytes();
        Some(run)
    }

    /// The cumulative TSN has moved up: a run that it has reached becomes the head.
    #[inline]
    pub(super) fn advance(&mut self, cumulative: u64) {
        if let Some((&first, _)) = self.runs.first_key_value()
            && first <= cumulative
        {
            self.head = self.runs.remove(&first);
        }
    }
}

impl Run {
    /// A run that still lacks its fragment.
    fn new(tsn: u64, data: &Data<'_>) -> Self {
        let message =
            ReceivedMessage { payload: Bytes::new(), stream: data.stream, ppid: data.ppid, unordered: data.unordered };
        Self {
            first: tsn,
            fragments: 0,
            parts: Parts::default(),
            begins: data.beginning,
            ends: false,
            ssn: data.ssn,
            message,
        }
    }

    fn next_tsn(&self) -> u64 {
        self.first + self.fragments
    }

    fn cost_bytes(&self) -> usize {
        RUN_BYTES + self.parts.held_bytes()
    }

    /// Checks that a neighbour belongs to the same message. The SSN of an unordered one has no meaning.
    fn check_same(&self, stream: StreamId, unordered: bool, ssn: Ssn) -> Result<(), &'static str> {
        let same =
            self.message.stream == stream && self.message.unordered == unordered && (unordered || self.ssn == ssn);
        if same { Ok(()) } else { Err(MIXED) }
    }

    fn push(&mut self, data: &Data<'_>, packet: &Bytes, fill: Fill, gather_bytes: usize) {
        let len = data.payload.len();
        if len < FRAGMENT_BYTES_MIN {
            self.parts.gather(data.payload, gather_bytes);
        } else if fill.has_room_for_slice(len, packet.len()) {
            self.parts.push(packet.slice_ref(data.payload), packet_bytes(packet.len()));
        } else {
            self.parts.push(Bytes::copy_from_slice(data.payload), len);
        }
        self.fragments += 1;
        self.ends = data.end;
    }

    /// Appends the run above.
    fn join(&mut self, above: Self, gather_bytes: usize) -> Result<(), &'static str> {
        self.check_same(above.message.stream, above.message.unordered, above.ssn)?;
        self.parts.append(above.parts, gather_bytes);
        self.fragments += above.fragments;
        self.ends = above.ends;
        Ok(())
    }

    /// One copy into one buffer of just the right size.
    fn assemble(self) -> Assembled {
        let payload = self.parts.concatenate();
        Assembled { message: ReceivedMessage { payload, ..self.message }, ssn: self.ssn }
    }
}
