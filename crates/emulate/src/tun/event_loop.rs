//! The thread that moves packets between TUN devices and links on time.

use std::io::{self, ErrorKind};

use festina_units::Instant;
use rustix::event::{PollFd, PollFlags};
use tun_rs::SyncDevice;

use super::packet::IpPacket;
use super::{TunCounters, TunTap, TunTapRecord};
use crate::clock::Clock;
use crate::passage::MeasuredLink;
use crate::tap::{Direction, TapEvent};
use crate::timing::{be_punctual, sharpen_timers, timeout_until};
use crate::worker::Strings;

/// Maximum number of packets read from one device before due deliveries are made.
const RECEIVE_BATCH_MAX: usize = 64;

/// No IP packet is longer.
const PACKET_BYTES_MAX: usize = 65_535;

/// The emulator's thread: waits for packets and deadlines, and passes packets on when they are due.
pub(super) struct EventLoop {
    forward: Way,
    backward: Way,
    tap: Option<TunTap>,
    /// Counters that the links do not have themselves.
    counters: TunCounters,
    strings: Strings<TunCounters>,
    buffer: Vec<u8>,
}

/// One direction. A device is the entrance of one and the exit of the other.
struct Way {
    direction: Direction,
    entrance: SyncDevice,
    link: MeasuredLink<IpPacket>,
}

/// The events that ended the wait.
#[derive(Default)]
struct Ready {
    stop: bool,
    left: bool,
    right: bool,
}

impl EventLoop {
    /// `left` and `right` must not block.
    pub(super) fn new(
        (left, right): (SyncDevice, SyncDevice),
        (forward, backward): (MeasuredLink<IpPacket>, MeasuredLink<IpPacket>),
        strings: Strings<TunCounters>,
    ) -> Self {
        Self {
            forward: Way { direction: Direction::Forward, entrance: left, link: forward },
            backward: Way { direction: Direction::Backward, entrance: right, link: backward },
            tap: None,
            counters: TunCounters::default(),
            strings,
            buffer: vec![0; PACKET_BYTES_MAX],
        }
    }

    pub(super) fn set_tap(&mut self, tap: TunTap) {
        self.tap = Some(tap);
    }

    /// Runs until it is stopped.
    ///
    /// # Errors
    /// If waiting or receiving fails for a reason that will not pass by itself.
    pub(super) fn run(&mut self, clock: Clock) -> io::Result<()> {
        sharpen_timers();
        be_punctual();
        let outcome = self.work(clock);
        self.publish();
        outcome
    }

    fn work(&mut self, clock: Clock) -> io::Result<()> {
        loop {
            self.deliver_due(clock);
            self.publish();
            let ready = self.wait(clock)?;
            if ready.stop {
                return Ok(());
            }
            // Packets that were due before the wait ended precede those that have just arrived.
            self.deliver_due(clock);
            if ready.left {
                self.forward.receive(clock, &mut self.buffer, &mut self.tap)?;
            }
            if ready.right {
                self.backward.receive(clock, &mut self.buffer, &mut self.tap)?;
            }
        }
    }

    /// Sleeps until a packet arrives, a link has to be polled, or the emulator is stopped.
    fn wait(&self, clock: Clock) -> io::Result<Ready> {
        let mut fds = [
            PollFd::new(&self.strings.stop_requested, PollFlags::IN),
            PollFd::new(&self.forward.entrance, PollFlags::IN),
            PollFd::new(&self.backward.entrance, PollFlags::IN),
        ];
        let deadlines = [self.forward.link.poll_deadline(), self.backward.link.poll_deadline()];
        let timeout = deadlines.into_iter().flatten().min().map(|deadline| timeout_until(deadline, clock.now()));
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(Ready::default()),
            Ok(_) => {
                let [stop, left, right] = fds.map(|fd| !fd.revents().is_empty());
                Ok(Ready { stop, left, right })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Sends on all packets that have arrived at the far end of either link.
    fn deliver_due(&mut self, clock: Clock) {
        let now = clock.now();
        let Self { forward, backward, tap, counters, .. } = self;
        forward.deliver(now, clock, &backward.entrance, tap, counters);
        backward.deliver(now, clock, &forward.entrance, tap, counters);
    }

    fn publish(&mut self) {
        self.counters.forward = self.forward.link.counters();
        self.counters.backward = self.backward.link.counters();
        self.counters.forward_passage = self.forward.link.passage();
        self.counters.backward_passage = self.backward.link.passage();
        *self.strings.published.lock() = self.counters;
    }
}

impl Way {
    fn receive(&mut self, clock: Clock, buffer: &mut [u8], tap: &mut Option<TunTap>) -> io::Result<()> {
        for _ in 0..RECEIVE_BATCH_MAX {
            let len = match self.entrance.recv(buffer) {
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let packet = buffer.get(..len).unwrap_or_default();
            let at = clock.now();
            let admission = self.link.send(at, IpPacket { bytes: packet.to_vec() });
            if let Some(tap) = tap {
                let at = clock.unix_time(at);
                tap(TunTapRecord { at, direction: self.direction, packet, event: TapEvent::Offered(admission) });
            }
        }
        Ok(())
    }

    /// Hands the packets that have arrived by `now` to the device at the far end.
    fn deliver(
        &mut self,
        now: Instant,
        clock: Clock,
        exit: &SyncDevice,
        tap: &mut Option<TunTap>,
        counters: &mut TunCounters,
    ) {
        while let Some((due_at, packet)) = self.link.poll_timed_delivery(now) {
            let sent = exit.send(&packet.bytes).is_ok();
            let at = clock.now();
            counters.lateness.note(at - due_at);
            counters.send_failed += u64::from(!sent);
            if let Some(tap) = tap.as_mut().filter(|_| sent) {
                let (at, direction, packet) = (clock.unix_time(at), self.direction, &packet.bytes[..]);
                tap(TunTapRecord { at, direction, packet, event: TapEvent::Delivered });
            }
        }
    }
}
