//! What other paths than that of new data carry of it: repairs and copies.
//!
//! A packet of the path of new data may leave by another as well. The sender knows nothing of that copy. Whether an acknowledgement answers for the path of
//! new data is shown by the path on which it came, since a peer sends SACKs where data last came from (RFC 9260 §6.4). A copy arrives twice in the
//! eyes of the peer: the first report of a duplicate of its chunks is left out.

use std::collections::VecDeque;

use festina_units::Instant;

use super::Association;
use super::homes::PathPolicy;
use super::packet::header_to;
use crate::error::ProtocolViolation;
use crate::outstanding::{Acknowledgement, DUPLICATES_READ_MAX};
use crate::path_id::PathId;
use crate::send::{Errand, on_the_way_bytes, outstanding_tsns};
use crate::wire::{COMMON_HEADER_BYTES, Chunk, Packet, Tsn};

/// Maximum number of chunks whose copies on other paths are remembered. A thin stream has fewer in flight.
const COPIED_MAX: usize = 64;

/// The packets of the path of new data that leave by another as well.
#[derive(Debug)]
pub(super) struct Sharing {
    pub(super) policy: PathPolicy,
    /// The application has chosen the primary path.
    pub(super) is_primary_chosen: bool,
    /// The path that carries new data if all are active and none was chosen.
    pub(super) preferred: PathId,
    /// The path that carries repairs.
    pub(super) helper: Option<PathId>,
    /// The path that carries copies.
    pub(super) copier: Option<PathId>,
    /// An odd number of packets with chunks that may be lost have left since the last answer. The helper carries every second one, from the first on.
    is_odd: bool,
    /// The next TSN when a packet last left by another path, until all below are acknowledged.
    strayed_to: Option<u64>,
    /// A packet that leaves next.
    copy: Option<(PathId, Vec<u8>)>,
    /// The bytes of copies since then.
    copied: (Instant, usize),
    /// The last chunks that another path carried as well, once for each copy that was not reported as a duplicate.
    copied_tsns: VecDeque<Tsn>,
}

impl Sharing {
    pub(super) fn new(policy: PathPolicy) -> Self {
        Self {
            policy,
            is_primary_chosen: false,
            preferred: PathId::PRIMARY,
            helper: None,
            copier: None,
            is_odd: false,
            strayed_to: None,
            copy: None,
            copied: (Instant::ZERO, 0),
            copied_tsns: VecDeque::new(),
        }
    }

    /// By how many times the round trip of a path with repairs may be longer; `None` if the policy has none.
    pub(super) fn slower_max(&self) -> Option<u32> {
        (self.policy != PathPolicy::PrimaryOnly).then_some(2)
    }

    /// As [`slower_max`](Self::slower_max), for copies.
    pub(super) fn copies_slower_max(&self) -> Option<u32> {
        match self.policy {
            PathPolicy::PrimaryOnly | PathPolicy::Repairs => None,
            PathPolicy::Copies => Some(4),
            PathPolicy::Both => Some(u32::MAX),
        }
    }

    /// The peer reports a chunk as a duplicate. Returns whether that may be its copy on another path, which says nothing of this one.
    fn take_copied(&mut self, tsn: Tsn) -> bool {
        let at = self.copied_tsns.iter().position(|&copied| copied == tsn);
        at.is_some_and(|at| self.copied_tsns.remove(at).is_some())
    }

    /// Nothing more leaves by this path.
    pub(super) fn forget(&mut self, id: PathId) {
        self.copy.take_if(|(path, _)| *path == id);
    }

    /// Something was acknowledged.
    pub(super) fn answered(&mut self) {
        self.is_odd = false;
    }
}

impl Association {
    /// Takes the copy of the packet before out of the queue.
    pub(super) fn write_copy(&mut self, buffer: &mut Vec<u8>) -> Option<(PathId, usize)> {
        let (path, packet) = self.paths.others.as_mut()?.sharing.copy.take()?;
        buffer.extend_from_slice(&packet);
        Some((path, packet.len()))
    }

    /// Returns whether the next packet on this path may leave by another: it holds nothing that is meant for this one.
    pub(super) fn may_stray(&self, id: PathId) -> bool {
        let (is_data_path, path) = (self.paths.carries_new_data(id), self.paths.of(id));
        is_data_path && !path.heartbeat_ready() && !self.control.wants_packet()
    }

    /// Keeps a copy of a packet that was built on the path of new data, if another path carries one as well.
    pub(super) fn share(&mut self, now: Instant, id: PathId, errand: Errand, has_header: bool, packet: &[u8]) {
        let is_thin = self.paths.of(id).sending.is_thin();
        let Some(sharing) = self.paths.sharing_mut() else { return };
        if errand.sends_again(is_thin) {
            sharing.is_odd = !sharing.is_odd;
            if let Some(carrier) = sharing.helper.filter(|_| sharing.is_odd) {
                self.copy(now, carrier, usize::MAX, has_header, packet);
            }
        } else if errand.sends_new()
            && (is_thin || sharing.policy == PathPolicy::Both)
            && let Some(carrier) = sharing.copier
        {
            let room_bytes = if is_thin { usize::MAX } else { self.unused_window_bytes(id) };
            self.copy(now, carrier, room_bytes, has_header, packet);
        }
    }

    /// The part of the window of new data that nothing in flight uses. Copies of a transfer have to fit into it, so that the association takes no more of a
    /// bottleneck that its paths share than over one of them (the goals of RFC 6356 §1).
    fn unused_window_bytes(&self, id: PathId) -> usize {
        self.paths.of(id).sending.cwnd_bytes().saturating_sub(on_the_way_bytes(&self.sender, id))
    }

    /// A packet is about to be built on this path. Chunks that it sends again may have left by another, whose acknowledgement then answers for neither.
    pub(super) fn note_errand(&mut self, id: PathId, errand: Errand) {
        let next_tsn = outstanding_tsns(&self.sender).end;
        if errand.is_due()
            && !self.paths.carries_new_data(id)
            && let Some(sharing) = self.paths.sharing_mut()
            && sharing.policy != PathPolicy::PrimaryOnly
        {
            sharing.strayed_to = Some(next_tsn);
        }
    }

    /// Keeps a copy of a packet for another path, which carries at most a window and at most this room of them in a round trip.
    fn copy(&mut self, now: Instant, carrier: PathId, room_bytes: usize, has_header: bool, packet: &[u8]) {
        let (header, next_tsn) = (header_to(self.ports, self.tags.peer), outstanding_tsns(&self.sender).end);
        let sending = &self.paths.of(carrier).sending;
        let (most_bytes, round_trip) = (sending.cwnd_bytes().min(room_bytes), sending.srtt().unwrap_or(sending.rto()));
        let Some(sharing) = self.paths.sharing_mut() else { return };
        let (since, bytes) = &mut sharing.copied;
        if now.saturating_duration_since(*since) >= round_trip {
            (*since, *bytes) = (now, 0);
        }
        if *bytes + packet.len() <= most_bytes {
            *bytes += packet.len();
            sharing.strayed_to = Some(next_tsn);
            sharing.copy = Some((carrier, packet.to_vec()));
            let chunks = packet.get(if has_header { COMMON_HEADER_BYTES } else { 0 }..).unwrap_or_default();
            let tsns = Packet::of_chunks(header, chunks).chunks().filter_map(|chunk| match chunk {
                Ok(Chunk::Data(data)) => Some(data.tsn),
                Ok(Chunk::IData(data)) => Some(data.tsn),
                _ => None,
            });
            sharing.copied_tsns.extend(tsns);
            let excess = sharing.copied_tsns.len().saturating_sub(COPIED_MAX);
            sharing.copied_tsns.drain(..excess);
        }
    }

    /// Applies an acknowledgement of chunks on several paths.
    #[cold]
    #[inline(never)]
    pub(super) fn acknowledge_on_several(
        &mut self,
        now: Instant,
        acknowledgement: Acknowledgement<'_>,
    ) -> Result<(), ProtocolViolation> {
        let Self { sender, paths, events, .. } = self;
        let came_by = paths.others.as_ref().map_or(PathId::PRIMARY, |others| others.came_by);
        let has_strayed = paths.sharing_mut().is_some_and(|sharing| sharing.strayed_to.is_some());
        for path in paths.iter_mut() {
            path.sending.set_measures(!has_strayed || path.sending.id() == came_by);
            // Small packets of this path may be acknowledged together with large ones of another.
            if let Some(search) = path.sending.searching_mut() {
                search.doubt_acknowledgements(has_strayed);
            }
        }
        let has_duplicates = acknowledgement.sack.is_some_and(|sack| sack.duplicates().len() > 0);
        let mut kept = Vec::new();
        let sack = acknowledgement.sack.copied().map(|sack| {
            let Some(sharing) = paths.sharing_mut().filter(|sharing| !sharing.copied_tsns.is_empty()) else {
                return sack;
            };
            // One that is acknowledged only now was acknowledged before in a SACK that was lost, and the copy may yet be reported.
            let is_copy = |tsn| sender.is_acknowledged(tsn) && sharing.take_copied(tsn);
            sack.without_duplicates(DUPLICATES_READ_MAX, is_copy, &mut kept)
        });
        let acknowledgement = Acknowledgement { sack: sack.as_ref(), ..acknowledgement };
        let answered = sender.acknowledge(now, paths, acknowledgement, events)?;
        // A duplicate that another path reports later would settle the round trip of this one.
        for path in paths.iter_mut().filter(|path| has_strayed && path.sending.id() != came_by) {
            path.sending.leave_unsettled();
        }
        let has_answer = paths.ids().any(|id| answered.contains(id));
        for id in paths.ids().filter(|id| answered.contains(*id)) {
            // The packet that was answered may have left by another path.
            paths.answered(now, if has_strayed { came_by } else { id }, events);
        }
        // A copy was acknowledged first, and this answers the probe that followed.
        if has_duplicates && paths.others.as_mut().is_some_and(|others| others.silent_until.of_mut(came_by).is_some()) {
            paths.answered(now, came_by, events);
        }
        let first_tsn = outstanding_tsns(sender).start;
        if let Some(others) = &mut paths.others {
            if has_answer {
                others.moves_in_vain = 0;
            }
            others.sharing.strayed_to.take_if(|strayed_to| *strayed_to <= first_tsn);
        }
        Ok(())
    }
}
