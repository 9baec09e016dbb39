//! When packets leave: what a change of the core does with the packets that it made possible.
//!
//! | change | packets | until |
//! |---|---|---|
//! | a message while the core may not send | stay in the core | its timer, which is set already |
//! | from the ninth message on, with gaps of at most 20 us | stay in the core, so that messages share packets | 64 messages, 48 kB, 50 us, or the driver |
//! | any change while another thread waits for the lock | stay in the core | that thread has the lock, or 64 changes |
//! | a message after eight turns of this thread between associations of one peer, with such gaps | go to the tray, so that packets share system calls | 50 us, or the driver |
//! | received packets and timers | go to the tray | the end of the driver's turn |
//! | any other | leave at once, in groups of at most 65 kB | |
//!
//! Packets behind others in the tray, and those for which the socket has no room, go to the tray in any case.

use std::cell::Cell;
use std::net::SocketAddr;

use festina_units::{Duration, Instant};

/// Time after which a call no longer belongs to the same run.
const GAP_MAX: Duration = Duration::from_micros(20);

/// Calls at the start of a run whose packets leave at once.
const LONE_MAX: u32 = 8;

/// Messages held at most.
const HELD_MAX: u32 = 64;

/// Bytes of messages held at most: about as many as one system call carries.
const HELD_BYTES_MAX: usize = 48_000;

/// Time after which the next message takes the held ones along.
const WAIT_MAX: Duration = Duration::from_micros(50);

/// Changes in a row whose packets may be left to the next holder of the lock.
const LEFT_MAX: u32 = 64;

/// How packets leave the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To the socket.
    Direct,
    /// To the tray, with those of other associations of the same peer.
    WithOthers,
    /// To the tray, until the end of the driver's turn.
    WithDriver,
}

impl Way {
    /// The way of a message that this thread has handed to an association.
    pub(super) fn of_message(now: Instant, association: u64, remote: SocketAddr) -> Self {
        thread_local! {
            static RUSH: Cell<Rush> = Cell::default();
        }
        let mut rush = RUSH.get();
        let is_long = rush.is_long(now, association, remote);
        RUSH.set(rush);
        if is_long { Self::WithOthers } else { Self::Direct }
    }
}

/// What takes held packets along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// The association's timer.
    Timer,
    Driver,
}

/// What an association remembers to decide when its packets leave.
#[derive(Debug, Default)]
pub(super) struct Departure {
    /// Changes whose packets were left to the next holder of the lock, since the core was last asked.
    left: u32,
    /// The core had nothing to send when it was last asked.
    silent: bool,
    /// Since then the only changes were new messages, and the timer is set to the time at which packets may be sent.
    pub(super) stalled: bool,
    /// The driver knows that this association has something to send.
    awaits_driver: bool,
    burst: Burst,
}

impl Departure {
    /// Counts a message. Returns until when its packets are held, if they are. `timer` is when the association's timer fires.
    #[inline]
    pub(super) fn holds(&mut self, now: Instant, bytes: usize, timer: Instant) -> Option<Until> {
        if self.stalled && now < timer {
            return Some(Until::Timer);
        }
        self.burst.holds(now, bytes).then_some(Until::Driver)
    }

    /// Leaves packets to the next holder of the lock. Returns `false` after [`LEFT_MAX`] times.
    pub(super) fn leaves_to_successor(&mut self) -> bool {
        self.stalled = false;
        self.left += 1;
        self.left < LEFT_MAX
    }

    /// The core was asked for all packets that it may send now. It is `silent` if it had none.
    pub(super) fn asked(&mut self, silent: bool) {
        self.left = 0;
        self.burst.release();
        self.silent = silent;
    }

    /// Follows [`Departure::asked`] at the end of a change. Returns whether the timer is right as it is: neither this change nor the one before did
    /// anything but add a message that cannot leave yet.
    pub(super) fn keeps_timer(&mut self, is_message: bool) -> bool {
        let is_stalled = is_message && self.silent;
        std::mem::replace(&mut self.stalled, is_stalled) && is_stalled
    }

    /// Returns whether the driver is to be asked to send, because it does not know yet.
    pub(super) fn asks_driver(&mut self) -> bool {
        !std::mem::replace(&mut self.awaits_driver, true)
    }

    pub(super) fn driver_came(&mut self) {
        self.awaits_driver = false;
    }

    /// Has the next message wait, however long earlier ones have waited.
    #[cfg(test)]
    pub(super) fn make_busy(&mut self) {
        self.burst = Burst { run: Run { last_at: Instant::MAX, calls: LONE_MAX }, ..Burst::default() };
    }
}

/// Calls in quick succession.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    last_at: Instant,
    /// Calls before the latest that count.
    calls: u32,
}

impl Run {
    /// Adds a call, which begins a new run if it `departs` from the last or comes late. Returns whether it may wait for the next.
    #[inline]
    fn is_long(&mut self, now: Instant, departs: bool, counts: bool) -> bool {
        let goes_on = !departs && now.saturating_duration_since(self.last_at) <= GAP_MAX;
        self.calls = if goes_on { self.calls.saturating_add(u32::from(counts)) } else { 0 };
        self.last_at = now;
        self.calls >= LONE_MAX
    }
}

/// Messages of one association in quick succession.
#[derive(Debug, Default)]
struct Burst {
    run: Run,
    held: u32,
    held_bytes: usize,
    /// When the first of those held came.
    held_since: Instant,
}

impl Burst {
    #[inline]
    fn holds(&mut self, now: Instant, bytes: usize) -> bool {
        if !self.run.is_long(now, false, true) {
            return false;
        }
        if self.held == 0 {
            self.held_since = now;
        }
        self.held += 1;
        self.held_bytes += bytes;
        self.held < HELD_MAX
            && self.held_bytes < HELD_BYTES_MAX
            && now.saturating_duration_since(self.held_since) <= WAIT_MAX
    }

    #[inline]
    fn release(&mut self) {
        (self.held, self.held_bytes) = (0, 0);
    }
}

/// A thread's turns between associations of one peer in quick succession.
#[derive(Clone, Copy, Debug, Default)]
struct Rush {
    run: Run,
    association: u64,
    remote: Option<SocketAddr>,
}

impl Rush {
    /// Adds a message to an association. Returns whether its packets may wait for those of others.
    fn is_long(&mut self, now: Instant, association: u64, remote: SocketAddr) -> bool {
        let (departs, turns) = (self.remote.replace(remote) != Some(remote), association != self.association);
        self.association = association;
        self.run.is_long(now, departs, turns)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_secs(1) + Duration::from_micros(micros)
    }

    fn peer(port: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, port).into()
    }

    #[test]
    fn messages_with_pauses_between_them_never_wait() {
        let mut burst = Burst::default();
        assert!((0..1_000).all(|number| !burst.holds(at(21 * number), 100)));
    }

    #[test]
    fn the_first_of_a_burst_leave_at_once_and_the_rest_in_groups() {
        let mut burst = Burst::default();
        let held: Vec<bool> = (0..200)
            .map(|_| {
                let holds = burst.holds(at(0), 100);
                if !holds {
                    burst.release();
                }
                holds
            })
            .collect();
        let left: Vec<usize> = (0..held.len()).filter(|&index| !held[index]).collect();
        assert_eq!(left, [0, 1, 2, 3, 4, 5, 6, 7, 71, 135, 199]);
    }

    #[test]
    fn large_messages_wait_for_fewer_others() {
        let mut burst = Burst::default();
        (0..LONE_MAX).for_each(|_| assert!(!burst.holds(at(0), 1_200)));
        let held = (0..100).take_while(|_| burst.holds(at(0), 1_200)).count();
        assert_eq!((held + 1) * 1_200, HELD_BYTES_MAX);
    }

    #[test]
    fn a_message_that_comes_late_in_a_slow_burst_takes_the_held_ones_along() {
        let mut burst = Burst::default();
        let held: Vec<bool> = (0..12).map(|number| burst.holds(at(20 * number), 100)).collect();
        assert_eq!(held[8..], [true, true, true, false]);
    }

    /// Returns how many of these messages may wait for those to other associations. Each has a time, an association and the port of its peer.
    fn waiting(messages: impl Iterator<Item = (u64, u64, u16)>) -> usize {
        let mut rush = Rush::default();
        messages.filter(|&(micros, association, port)| rush.is_long(at(micros), association, peer(port))).count()
    }

    #[test]
    fn messages_to_many_associations_of_one_peer_wait_after_the_first() {
        assert_eq!(waiting((0..100).map(|number| (20 * number, number, 1))), 100 - 8);
    }

    #[test]
    fn messages_to_one_association_to_many_peers_or_with_pauses_do_not() {
        assert_eq!(waiting((0..100).map(|number| (number, 1, 1))), 0);
        assert_eq!(waiting((0..100).map(|number| (number, number, (number % 2) as u16))), 0);
        assert_eq!(waiting((0..100).map(|number| (21 * number, number, 1))), 0);
    }
}
