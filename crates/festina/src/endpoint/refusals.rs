//! Packets that the operating system refused to send for a reason that no retransmission removes.

use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::lock;

/// Refusals that wait for the driver. Later ones are dropped: the next packet to the same destination is refused again.
const REFUSALS_MAX: usize = 64;

/// Why the system refused to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The packet is too large for the path.
    TooLarge {
        /// The largest SCTP packet that fits.
        packet_bytes_max: usize,
    },
    /// This host cannot send to the destination at all: there is no route, or it may not send there.
    NoWay {
        kind: io::ErrorKind,
        /// The system's text.
        cause: String,
    },
}

impl Refusal {
    /// The refusal behind an error that will come again with every packet to the same destination, if it is one.
    pub(crate) fn lasting(error: &io::Error) -> Option<Self> {
        use io::ErrorKind::{AddrNotAvailable, HostUnreachable, InvalidInput, NetworkUnreachable};
        let lasts = matches!(error.kind(), AddrNotAvailable | HostUnreachable | InvalidInput | NetworkUnreachable)
            // Not EPERM, by which a firewall may drop single packets.
            || error.raw_os_error() == Some(code::ACCESS);
        lasts.then(|| Self::NoWay { kind: error.kind(), cause: error.to_string() })
    }
}

/// Returns whether a packet was refused because of its size.
pub(crate) fn is_too_large(error: &io::Error) -> bool {
    error.raw_os_error() == Some(code::TOO_LARGE)
}

/// The system's error numbers that have no [`io::ErrorKind`] of their own.
#[cfg(any(target_os = "linux", target_os = "android"))]
mod code {
    pub(super) const ACCESS: i32 = 13;
    pub(super) const TOO_LARGE: i32 = 90;
}

#[cfg(windows)]
mod code {
    pub(super) const ACCESS: i32 = 10_013;
    pub(super) const TOO_LARGE: i32 = 10_040;
}

#[cfg(not(any(target_os = "linux", target_os = "android", windows)))]
mod code {
    pub(super) const ACCESS: i32 = 13;
    pub(super) const TOO_LARGE: i32 = 40;
}

/// Refusals that the driver has not passed on to the associations yet.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    is_waiting: AtomicBool,
    waiting: Mutex<Vec<(SocketAddr, Refusal)>>,
}

impl Refusals {
    pub(crate) fn note(&self, destination: SocketAddr, refusal: Refusal) {
        let mut waiting = lock(&self.waiting);
        let entry = (destination, refusal);
        if waiting.len() < REFUSALS_MAX && !waiting.contains(&entry) {
            waiting.push(entry);
            self.is_waiting.store(true, Ordering::Release);
        }
    }

    /// Returns whether there is something to pass on.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::Acquire)
    }

    pub(crate) fn take(&self) -> Vec<(SocketAddr, Refusal)> {
        let mut waiting = lock(&self.waiting);
        self.is_waiting.store(false, Ordering::Release);
        std::mem::take(&mut *waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_refusals_that_wait_is_bounded() {
        let refusals = Refusals::default();
        assert!(!refusals.is_waiting() && refusals.take().is_empty());
        for port in (1..1_000).chain(1..1_000) {
            let refusal = Refusal::TooLarge { packet_bytes_max: 500 };
            refusals.note(([127, 0, 0, 1], port).into(), refusal);
        }
        assert!(refusals.is_waiting());
        let taken = refusals.take();
        assert_eq!(taken.len(), REFUSALS_MAX);
        assert!(!refusals.is_waiting() && refusals.take().is_empty());
    }

    #[test]
    fn errors_of_one_packet_are_no_refusals() {
        for kind in [io::ErrorKind::ConnectionRefused, io::ErrorKind::Interrupted, io::ErrorKind::OutOfMemory] {
            assert_eq!(Refusal::lasting(&kind.into()), None);
        }
        assert!(Refusal::lasting(&io::Error::from_raw_os_error(code::ACCESS)).is_some());
        assert!(Refusal::lasting(&io::ErrorKind::NetworkUnreachable.into()).is_some());
        assert!(is_too_large(&io::Error::from_raw_os_error(code::TOO_LARGE)));
    }
}
