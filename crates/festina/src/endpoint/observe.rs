//! Shows packets to whoever wants to record them.

use std::fmt;
use std::net::SocketAddr;
use std::sync::OnceLock;

use festina_sctp::Direction;
use festina_units::Instant;

use crate::clock;

/// A packet that an endpoint has sent or received.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SeenPacket<'a> {
    /// Which way it went.
    pub direction: Direction,
    /// Where the other end is.
    pub remote: SocketAddr,
    /// When it was handed to the system or taken from it, on the clock of [`now`](crate::now).
    pub at: Instant,
    /// The SCTP packet, without IP and UDP headers.
    pub bytes: &'a [u8],
}

type Observer = Box<dyn Fn(SeenPacket<'_>) + Send + Sync>;

/// The one who is shown packets, if there is one.
#[derive(Default)]
pub(crate) struct Observation(OnceLock<Observer>);

impl Observation {
    /// Has the observer shown packets from now on. Returns whether there was none before.
    pub(crate) fn begin(&self, observer: impl Fn(SeenPacket<'_>) + Send + Sync + 'static) -> bool {
        self.0.set(Box::new(observer)).is_ok()
    }

    /// Shows packets that lie one behind the other, all of this size but the last.
    #[inline]
    pub(crate) fn show(&self, direction: Direction, remote: SocketAddr, packets: &[u8], packet_bytes: usize) {
        if let Some(observer) = self.0.get() {
            let at = clock::now();
            packets.chunks(packet_bytes.max(1)).for_each(|bytes| observer(SeenPacket { direction, remote, at, bytes }));
        }
    }
}

impl fmt::Debug for Observation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Observation").field(&self.0.get().is_some()).finish()
    }
}
