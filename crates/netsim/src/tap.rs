//! Watching packets enter and leave links, for captures.

use festina_units::Instant;

use crate::link::Admission;
use crate::topology::LinkId;

/// Is shown the packets of the links that it watches. It cannot change what happens.
///
/// A capture that wants each packet once, at the place where a capture of a real interface would see it, writes what is
/// [`offered`](Self::offered) or what is [`delivered`](Self::delivered).
pub trait Tap<P> {
    /// Whether to be shown the packets of `link`. It costs one copy per packet.
    fn watches(&self, link: LinkId) -> bool;

    /// A packet was offered to the link, which took it or not. `packet` is as the sender sent it. A queue with active
    /// management may drop a packet that was accepted; then it is not delivered.
    fn offered(&mut self, now: Instant, link: LinkId, packet: &P, admission: Admission);

    /// A packet has arrived at the end of the link, perhaps marked or damaged, perhaps for the second time.
    fn delivered(&mut self, now: Instant, link: LinkId, packet: &P);
}

/// Watches nothing, and costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NoTap;

impl<P> Tap<P> for NoTap {
    fn watches(&self, _link: LinkId) -> bool {
        false
    }

    fn offered(&mut self, _now: Instant, _link: LinkId, _packet: &P, _admission: Admission) {}

    fn delivered(&mut self, _now: Instant, _link: LinkId, _packet: &P) {}
}

/// A tap that may be absent.
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
