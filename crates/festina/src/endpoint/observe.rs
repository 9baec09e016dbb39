//! Calls an observer for each packet, for instance to record it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, OnceLock};

use festina_sctp::Direction;
use festina_units::{Instant, Preview};

use super::lock;
use crate::{clock, program};

/// A packet that an endpoint has sent or received.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct SeenPacket<'a> {
    /// Which way it went.
    pub direction: Direction,
    /// Where the other end is.
    pub remote: SocketAddr,
    /// The own address that it left from or came to, where the endpoint knows it: always if it has several.
    pub local: Option<IpAddr>,
    /// When it was handed to the system or taken from it, on the clock of [`now`](crate::now).
    pub at: Instant,
    /// The SCTP packet, without IP and UDP headers. On an encrypted endpoint, the datagram with protected packets.
    pub bytes: &'a [u8],
}

impl fmt::Debug for SeenPacket<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { direction, remote, local, at, bytes } = self;
        formatter
            .debug_struct("SeenPacket")
            .field("direction", direction)
            .field("remote", remote)
            .field("local", local)
            .field("at", at)
            .field("bytes", &Preview(bytes))
            .finish()
    }
}

type Observer = Box<dyn Fn(SeenPacket<'_>) + Send + Sync>;

/// The observer, if there is one.
#[derive(Default)]
pub(crate) struct Observation {
    observer: OnceLock<Observer>,
    /// Held from before packets leave until they are shown, so that no answer is shown before them.
    order: Mutex<()>,
}

/// Packets that are about to leave, with an observer to be shown them.
pub(crate) struct Sending<'a> {
    observer: &'a Observer,
    at: Instant,
    _order: MutexGuard<'a, ()>,
}

impl Observation {
    /// Has the observer shown packets from now on. Returns whether there was none before.
    pub(crate) fn begin(&self, observer: impl Fn(SeenPacket<'_>) + Send + Sync + 'static) -> bool {
        self.observer.set(Box::new(observer)).is_ok()
    }

    /// Packets are about to be handed to the system. `None` without an observer.
    #[inline]
    pub(crate) fn sending(&self) -> Option<Sending<'_>> {
        let observer = self.observer.get()?;
        let order = lock(&self.order);
        Some(Sending { observer, at: clock::now(), _order: order })
    }

    /// Shows a packet that came.
    #[inline]
    pub(crate) fn received(&self, remote: SocketAddr, local: Option<IpAddr>, bytes: &[u8]) {
        if let Some(observer) = self.observer.get() {
            let _order = lock(&self.order);
            let packet = SeenPacket { direction: Direction::Inbound, remote, local, at: clock::now(), bytes };
            program::call("observer", (), || observer(packet));
        }
    }
}

impl Sending<'_> {
    /// They have left: shows them. They lie one behind the other, all of this size but the last.
    pub(crate) fn left(self, (remote, local): (SocketAddr, Option<IpAddr>), packets: &[u8], packet_bytes: usize) {
        let (direction, at) = (Direction::Outbound, self.at);
        let show = |bytes| {
            program::call("observer", (), || (self.observer)(SeenPacket { direction, remote, local, at, bytes }));
        };
        packets.chunks(packet_bytes.max(1)).for_each(show);
    }
}

impl fmt::Debug for Observation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Observation").field(&self.observer.get().is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_answer_is_shown_behind_what_it_answers_though_it_came_before_the_sender_could_say_so() {
        let observation = Arc::new(Observation::default());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let book = Arc::clone(&seen);
        assert!(observation.begin(move |packet| lock(&book).push((packet.direction, packet.at))));
        let remote = SocketAddr::from(([192, 0, 2, 1], 9_899));
        let sending = observation.sending().expect("there is an observer");
        let driver = Arc::clone(&observation);
        let answer = std::thread::spawn(move || driver.received(remote, None, &[1; 20]));
        std::thread::sleep(Duration::from_millis(50));
        sending.left((remote, None), &[2; 30], 20);
        answer.join().expect("it is shown");
        let seen = lock(&seen);
        let directions: Vec<_> = seen.iter().map(|&(direction, _)| direction).collect();
        assert_eq!(directions, [Direction::Outbound, Direction::Outbound, Direction::Inbound]);
        assert!(seen.is_sorted_by_key(|&(_, at)| at));
    }
}
