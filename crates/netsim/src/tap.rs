//! Observation of packets that enter and leave links, for captures.

use festina_units::Instant;

use crate::link::Admission;
use crate::topology::LinkId;

/// Observes the packets of selected links. It cannot influence the simulation.
///
/// A capture that needs each packet once, where a capture on a real interface would see it, uses either
/// [`offered`](Self::offered) or [`delivered`](Self::delivered).
pub trait Tap<P> {
    /// Returns whether to observe the packets of `link`. It costs one copy per packet.
    fn watches(&self, link: LinkId) -> bool;

    /// Called when a packet was offered to the link, with its fate. `packet` is as sent by the sender. A queue with
    /// active management may drop a packet that was accepted; then it is not delivered.
    fn offered(&mut self, now: Instant, link: LinkId, packet: &P, admission: Admission);

    /// Called when a packet has arrived at the end of the link, possibly marked or damaged, possibly as a duplicate.
    fn delivered(&mut self, now: Instant, link: LinkId, packet: &P);
}

/// Observes nothing, at no cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NoTap;

impl<P> Tap<P> for NoTap {
    fn watches(&self, _link: LinkId) -> bool {
        false
    }

    fn offered(&mut self, _now: Instant, _link: LinkId, _packet: &P, _admission: Admission) {}

    fn delivered(&mut self, _now: Instant, _link: LinkId, _packet: &P) {}
}

/// An optional tap.
impl<P, T: Tap<P>> Tap<P> for Option<T> {
    fn watches(&self, link: LinkId) -> bool {
        self.as_ref().is_some_and(|tap| tap.watches(link))
    }

    fn offered(&mut self, now: Instant, link: LinkId, packet: &P, admission: Admission) {
        if let Some(tap) = self {
            tap.offered(now, link, packet, admission);
        }
    }

    fn delivered(&mut self, now: Instant, link: LinkId, packet: &P) {
        if let Some(tap) = self {
            tap.delivered(now, link, packet);
        }
    }
}
