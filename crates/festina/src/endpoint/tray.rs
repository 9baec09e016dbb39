//! What several associations have to send leaves together.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use festina_units::{Duration, Instant};

use super::lock;
use super::outbox::Outbox;
use super::socket::{Blocked, Socket};

/// Time after which the next packet of a busy thread sends the waiting ones along.
const WAIT_MAX: Duration = Duration::from_micros(50);

/// An endpoint-wide send queue: packets that the driver has gathered in a turn, packets of threads that write to many associations of one peer, and
/// packets that did not fit into the socket buffer.
///
/// While an association has packets here, its later ones go here too, so that none overtakes another. The association's lock is taken before the
/// tray's.
#[derive(Debug)]
pub(crate) struct Tray {
    contents: Mutex<Contents>,
    /// The number of the present filling, which ends when everything has left. Changes only under the lock of the contents.
    filling: AtomicU64,
    /// The socket had no room.
    blocked: AtomicBool,
}

#[derive(Debug, Default)]
struct Contents {
    outbox: Outbox,
    /// When the filling began.
    since: Instant,
}

/// The tray, locked.
#[derive(Debug)]
pub(crate) struct Filling<'t> {
    contents: MutexGuard<'t, Contents>,
    tray: &'t Tray,
}

impl Default for Tray {
    fn default() -> Self {
        Self { contents: Mutex::default(), filling: AtomicU64::new(NOWHERE + 1), blocked: AtomicBool::new(false) }
    }
}

/// The number of the filling of those that have nothing in the tray.
pub(crate) const NOWHERE: u64 = 0;

impl Tray {
    /// Returns whether this filling is still unsent. The caller holds the lock of the association whose packets are in it.
    pub(crate) fn holds(&self, filling: u64) -> bool {
        self.filling.load(Ordering::Acquire) == filling
    }

    /// Returns whether the socket had no room.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Acquire)
    }

    pub(crate) fn open(&self) -> Filling<'_> {
        Filling { contents: lock(&self.contents), tray: self }
    }

    /// Sends everything.
    pub(crate) fn flush(&self, socket: &Socket) -> Result<(), Blocked> {
        self.open().flush(socket)
    }

    /// Sends everything, without an attempt if there was no room the last time. Returns whether nothing is left.
    pub(crate) fn flush_unless_blocked(&self, socket: &Socket) -> bool {
        !self.is_blocked() && self.flush(socket).is_ok()
    }
}

impl Filling<'_> {
    /// Where packets are put.
    pub(crate) fn outbox(&mut self) -> &mut Outbox {
        &mut self.contents.outbox
    }

    /// Records that packets were put here at `now`. Returns the number of the filling, and whether these packets began it.
    pub(crate) fn note(&mut self, now: Instant, was_empty: bool) -> (u64, bool) {
        if self.contents.outbox.is_empty() {
            return (NOWHERE, false);
        }
        if was_empty {
            self.contents.since = now;
        }
        (self.tray.filling.load(Ordering::Relaxed), was_empty)
    }

    /// Returns whether the first packet has waited long enough for others.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.contents.since) > WAIT_MAX
    }

    /// Sends everything.
    pub(crate) fn flush(&mut self, socket: &Socket) -> Result<(), Blocked> {
        if self.contents.outbox.is_empty() {
            return Ok(());
        }
        let flushed = self.contents.outbox.flush(socket);
        self.end(flushed)
    }

    /// Keeps packets for which the socket had no room. Returns the number of the filling.
    pub(crate) fn keep(&mut self, outbox: &mut Outbox) -> u64 {
        self.contents.outbox.take_over(outbox);
        self.tray.blocked.store(true, Ordering::Release);
        self.tray.filling.load(Ordering::Relaxed)
    }

    fn end(&self, flushed: Result<(), Blocked>) -> Result<(), Blocked> {
        self.tray.blocked.store(flushed.is_err(), Ordering::Release);
        if flushed.is_ok() {
            self.tray.filling.fetch_add(1, Ordering::Release);
        }
        flushed
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use festina_sctp::Transmit;
    use festina_units::EcnCodepoint;

    use super::*;
    use crate::endpoint::socket::ANY_BINDING;

    fn push(outbox: &mut Outbox, destination: SocketAddr) {
        outbox.buffer().extend_from_slice(b"packet");
        outbox.push(&Transmit::new(destination, 6, EcnCodepoint::NotCapable), (None, ANY_BINDING), 1);
    }

    #[tokio::test]
    async fn a_filling_ends_when_everything_has_left() {
        let socket =
            Socket::bind_udp(&*crate::runtime::Tokio::current().unwrap(), (Ipv4Addr::LOCALHOST, 0).into(), &[])
                .unwrap();
        let destination = socket.local_addr();
        let (tray, now) = (Tray::default(), Instant::from_secs(1));
        let fill = || {
            let mut filling = tray.open();
            let was_empty = filling.outbox().is_empty();
            push(filling.outbox(), destination);
            filling.note(now, was_empty)
        };
        let (first, begins) = fill();
        assert!(begins && tray.holds(first) && !tray.holds(NOWHERE));
        assert_eq!(fill(), (first, false));
        // A socket that the runtime has not looked at yet refuses to send, just as a full one does.
        assert!(tray.flush(&socket).is_err());
        assert!(tray.is_blocked() && tray.holds(first), "nothing has left");
        assert!(!tray.flush_unless_blocked(&socket), "there is no attempt before there is room");
        std::future::poll_fn(|context| socket.poll_writable(context)).await.unwrap();
        tray.flush(&socket).unwrap();
        assert!(!tray.is_blocked() && !tray.holds(first));
        assert_eq!(tray.open().note(now, true), (NOWHERE, false), "it is empty");
        let (second, begins) = fill();
        assert!(begins && second != first && tray.holds(second));
    }

    #[tokio::test]
    async fn what_the_socket_had_no_room_for_is_kept_until_it_has() {
        let socket =
            Socket::bind_udp(&*crate::runtime::Tokio::current().unwrap(), (Ipv4Addr::LOCALHOST, 0).into(), &[])
                .unwrap();
        let (tray, mut outbox) = (Tray::default(), Outbox::default());
        push(&mut outbox, socket.local_addr());
        let kept = tray.open().keep(&mut outbox);
        assert!(outbox.is_empty() && tray.is_blocked() && tray.holds(kept));
        std::future::poll_fn(|context| socket.poll_writable(context)).await.unwrap();
        tray.flush(&socket).unwrap();
        assert!(!tray.holds(kept));
        assert_eq!(socket.counters.packets_sent.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn the_first_packet_waits_no_longer_than_it_may() {
        let (tray, now) = (Tray::default(), Instant::from_secs(1));
        let mut filling = tray.open();
        push(filling.outbox(), (Ipv4Addr::LOCALHOST, 1).into());
        filling.note(now, true);
        assert!(!filling.is_due(now + WAIT_MAX));
        let later = now + WAIT_MAX + Duration::from_nanos(1);
        assert!(filling.is_due(later));
        filling.note(later, false);
        assert!(filling.is_due(later), "a second packet does not make the first wait anew");
    }
}
