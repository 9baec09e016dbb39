//! The chunks in flight on each path.

use crate::outstanding::chunk::Chunk;
use crate::outstanding::digest::Credit;
use crate::path_id::{Others, PathId, SparseByPath};

/// Number and size of the chunks in one state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) chunks: usize,
    /// Headers and padding included.
    pub(crate) bytes: usize,
    pub(crate) payload_bytes: usize,
}

impl Tally {
    pub(super) fn add(&mut self, chunk: &Chunk) {
        self.chunks += 1;
        self.bytes += chunk.bytes();
        self.payload_bytes += chunk.payload.len();
    }

    pub(super) fn remove(&mut self, chunk: &Chunk) {
        self.chunks -= 1;
        self.bytes -= chunk.bytes();
        self.payload_bytes -= chunk.payload.len();
    }
}

/// Number and size of the chunks in flight on each path. Those of paths other than the first are on the heap, once there are any.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    first: Tally,
    others: Option<Box<OnOthers>>,
}

#[derive(Debug, Default)]
struct OnOthers {
    tallies: Others<Tally>,
    /// Scratch space for the credits of an acknowledgement.
    credits: Option<Box<Others<Credit>>>,
}

impl Tallies {
    /// The chunks on this path.
    #[inline]
    pub(crate) fn of(&self, path: PathId) -> &Tally {
        if path == PathId::PRIMARY { &self.first } else { self.other(path) }
    }

    #[cold]
    fn other(&self, path: PathId) -> &Tally {
        const NONE: &Tally = &Tally { chunks: 0, bytes: 0, payload_bytes: 0 };
        let others = self.others.as_ref().zip(path.other());
        others.and_then(|(others, other)| others.tallies.get(other)).unwrap_or(NONE)
    }

    /// As [`of`](Self::of).
    #[inline]
    pub(super) fn of_mut(&mut self, path: PathId) -> &mut Tally {
        if path == PathId::PRIMARY { &mut self.first } else { self.other_mut(path) }
    }

    #[cold]
    fn other_mut(&mut self, path: PathId) -> &mut Tally {
        let others = self.others.get_or_insert_default();
        path.other().and_then(|other| others.tallies.get_mut(other)).unwrap_or(&mut self.first)
    }

    /// The chunks on all paths.
    #[inline]
    pub(super) fn sum(&self) -> Tally {
        let others = self.others.as_ref().map_or(&[][..], |others| &others.tallies);
        others.iter().fold(self.first, |sum, tally| Tally {
            chunks: sum.chunks + tally.chunks,
            bytes: sum.bytes + tally.bytes,
            payload_bytes: sum.payload_bytes + tally.payload_bytes,
        })
    }

    /// Notes in blank credits the bytes in flight on each path.
    #[inline]
    pub(super) fn begin_credits(&mut self, credits: &mut SparseByPath<Credit>) {
        credits.first.in_flight_bytes_before = self.first.bytes;
        if let Some(others) = &mut self.others {
            let OnOthers { tallies, credits: spare } = &mut **others;
            let credits = credits.others.insert(spare.take().unwrap_or_default());
            for (credit, tally) in credits.iter_mut().zip(tallies) {
                *credit = Credit::default();
                credit.in_flight_bytes_before = tally.bytes;
            }
        }
    }

    /// The credits are read: keeps their memory for the next acknowledgement.
    #[inline]
    pub(super) fn keep_credits(&mut self, credits: &mut SparseByPath<Credit>) {
        if let Some(others) = &mut self.others {
            others.credits = credits.others.take();
        }
    }
}
