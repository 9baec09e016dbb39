//! What other paths than that of new data carry of it: repairs and copies.
//!
//! A packet of one path may leave by another. To the sender it is a packet of its own path, whose timers and window go on. Whether its acknowledgement
//! answers for that path is shown by the path on which it came, since a peer sends SACKs where data last came from (RFC 9260 §6.4).

use festina_units::Instant;

use super::Association;
use super::homes::PathPolicy;
use crate::error::ProtocolViolation;
use crate::outstanding::Acknowledgement;
use crate::path_id::PathId;
use crate::send::{Errand, outstanding_tsns};

/// The packets of the path of new data that leave by another.
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
    /// The first packet with chunks that may be lost leaves by the helper, and the second by the path of new data; or the other way round.
    pub(super) is_helper_first: bool,
    /// The next one leaves by the path whose turn is second, until all chunks below this TSN are acknowledged. A later acknowledgement says nothing of
    /// the repair, and the path whose turn is first may have failed.
    second_to: Option<u64>,
    /// The next TSN when a packet last left by another path, until all below are acknowledged.
    strayed_to: Option<u64>,
    /// A packet that leaves next.
    copy: Option<(PathId, Vec<u8>)>,
    /// The bytes of copies since then.
    copied: (Instant, usize),
}

impl Sharing {
    pub(super) fn new(policy: PathPolicy) -> Self {
        Self {
            policy,
            is_primary_chosen: false,
            preferred: PathId::PRIMARY,
            helper: None,
            copier: None,
            is_helper_first: true,
            second_to: None,
            strayed_to: None,
            copy: None,
            copied: (Instant::ZERO, 0),
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
        !self.paths.of(id).heartbeat_ready() && !self.control.wants_packet()
    }

    /// Returns the path that a packet built on this path leaves by, and keeps a copy if another leaves as well.
    pub(super) fn share(&mut self, now: Instant, id: PathId, errand: Errand, packet: &[u8]) -> PathId {
        let (is_thin, next_tsn) = (self.paths.of(id).sending.is_thin(), outstanding_tsns(&self.sender).end);
        let data_path = self.paths.primary().sending.id();
        let Some(sharing) = self.paths.sharing_mut() else { return id };
        if id != data_path {
            // Chunks that the helper has not brought leave by the path of new data.
            return if errand.sends_again() && sharing.helper == Some(id) { data_path } else { id };
        }
        if let Some(helper) = sharing.helper.filter(|_| errand.sends_again()) {
            let is_second = sharing.second_to.take().is_some();
            if !is_second {
                sharing.second_to = Some(next_tsn);
            }
            if sharing.is_helper_first != is_second {
                sharing.strayed_to = Some(next_tsn);
                return helper;
            }
            return id;
        }
        let copies = errand.sends_new() && (is_thin || sharing.policy == PathPolicy::Both);
        if let Some(copier) = sharing.copier.filter(|_| copies) {
            self.copy(now, next_tsn, copier, packet);
        }
        id
    }

    /// A packet is about to be built on this path. Chunks that it sends again may have left by another, whose acknowledgement then answers for neither.
    pub(super) fn note_errand(&mut self, id: PathId, errand: Errand) {
        let next_tsn = outstanding_tsns(&self.sender).end;
        if errand.is_due()
            && !self.paths.carries_new_data(id)
            && let Some(sharing) = self.paths.sharing_mut()
        {
            sharing.strayed_to = Some(next_tsn);
        }
    }

    fn copy(&mut self, now: Instant, next_tsn: u64, copier: PathId, packet: &[u8]) {
        let sending = &self.paths.of(copier).sending;
        let (cwnd_bytes, round_trip) = (sending.cwnd_bytes(), sending.srtt().unwrap_or(sending.rto()));
        let Some(sharing) = self.paths.sharing_mut() else { return };
        let (since, bytes) = &mut sharing.copied;
        if now.saturating_duration_since(*since) >= round_trip {
            (*since, *bytes) = (now, 0);
        }
        if *bytes + packet.len() <= cwnd_bytes {
            *bytes += packet.len();
            sharing.strayed_to = Some(next_tsn);
            sharing.copy = Some((copier, packet.to_vec()));
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
        }
        let answered = sender.acknowledge(now, paths, acknowledgement, events)?;
        for id in paths.ids().filter(|id| answered.contains(*id)) {
            // The packet that was answered may have left by another path.
            paths.answered(now, if has_strayed { came_by } else { id }, events);
        }
        let first_tsn = outstanding_tsns(sender).start;
        if let Some(others) = &mut paths.others {
            others.sharing.strayed_to.take_if(|strayed_to| *strayed_to <= first_tsn);
            others.sharing.second_to.take_if(|second_to| *second_to <= first_tsn);
        }
        Ok(())
    }
}
