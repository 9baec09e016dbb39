//! When to acknowledge (RFC 9260 §6.2, §6.7).

use festina_units::Instant;

use crate::config::SackPolicy;
use crate::wire::Tsn;

/// How many duplicate TSNs wait to be reported; further ones still make the SACK leave at once, but are not named in it.
pub(super) const DUPLICATES_MAX: usize = 64;

/// Collects what a packet's DATA chunks were, decides once per packet, and holds the delay timer.
#[derive(Debug)]
pub(super) struct SackSchedule {
    policy: SackPolicy,
    /// When to stop delaying.
    deadline: Option<Instant>,
    /// Seen since the last SACK, in the order of arrival.
    duplicates: Vec<Tsn>,
    packet: PacketSeen,
    /// Packets with DATA since the last SACK.
    packets: u8,
    wanted: bool,
    /// Nothing has been acknowledged yet.
    first: bool,
}

/// What the DATA chunks of one packet were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PacketSeen {
    data: bool,
    new: bool,
    duplicate: bool,
    dropped: bool,
    immediate: bool,
    gap: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Nothing,
    Now,
    Delay,
}

/// `packets` counts this one; `first` tells that no SACK has left yet.
fn decide(seen: PacketSeen, packets: u8, first: bool, policy: &SackPolicy) -> Decision {
    if !seen.data {
        return Decision::Nothing;
    }
    let only_duplicates = seen.duplicate && !seen.new;
    let at_once = first || seen.immediate || seen.gap || seen.dropped || only_duplicates;
    if at_once || packets >= policy.every_packets || policy.delay.is_zero() { Decision::Now } else { Decision::Delay }
}

impl SackSchedule {
    pub(super) fn new(policy: &SackPolicy) -> Self {
        Self {
            policy: policy.clone(),
            deadline: None,
            duplicates: Vec::new(),
            packet: PacketSeen::default(),
            packets: 0,
            wanted: false,
            first: true,
        }
    }

    /// A DATA chunk has come; `gap` tells whether a TSN was missing just before.
    #[inline]
    pub(super) fn saw_data(&mut self, immediate: bool, gap: bool) {
        self.packet.data = true;
        self.packet.immediate |= immediate;
        self.packet.gap |= gap;
    }

    #[inline]
    pub(super) fn saw_new(&mut self) {
        self.packet.new = true;
    }

    pub(super) fn saw_duplicate(&mut self, tsn: Tsn) {
        self.packet.duplicate = true;
        if self.duplicates.len() < DUPLICATES_MAX {
            self.duplicates.push(tsn);
        }
    }

    pub(super) fn saw_dropped(&mut self) {
        self.packet.dropped = true;
    }

    /// The packet is over; `gap` tells whether a TSN is missing now.
    #[inline]
    pub(super) fn packet_done(&mut self, now: Instant, gap: bool) {
        let mut seen = std::mem::take(&mut self.packet);
        seen.gap |= gap;
        self.packets = self.packets.saturating_add(u8::from(seen.data));
        match decide(seen, self.packets, self.first, &self.policy) {
            Decision::Nothing => {}
            Decision::Now => self.wanted = true,
            Decision::Delay => self.deadline = self.deadline.or(Some(now + self.policy.delay)),
        }
    }

    pub(super) fn request(&mut self) {
        self.wanted = true;
    }

    #[inline]
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }

    #[inline]
    pub(super) fn is_useful(&self) -> bool {
        self.wanted || self.deadline.is_some()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) -> bool {
        let due = self.deadline.is_some_and(|deadline| deadline <= now);
        if due {
            self.deadline = None;
            self.wanted = true;
        }
        due
    }

    pub(super) fn duplicates(&self) -> impl Iterator<Item = Tsn> {
        self.duplicates.iter().copied()
    }

    /// A SACK has been written.
    pub(super) fn sent(&mut self) {
        self.deadline = None;
        self.duplicates = Vec::new();
        self.packets = 0;
        self.wanted = false;
        self.first = false;
    }
}
