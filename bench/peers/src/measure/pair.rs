//! Two endpoints of one association, and the path between them.

use std::time::Duration;

use super::path::{Path, Pipe, Wire};
use crate::peer::{Message, Peer, SendError, Stack};

/// Packets handed over between two polls of the receiver's output on a path without a wire; on a wire, packets that arrive between two polls by the
/// application.
pub const BATCH_PACKETS: usize = 32;

/// Virtual time without any delivery after which a transfer counts as stalled.
pub const STALL_TIME: Duration = Duration::from_secs(60);

/// Turns without any packet after which a transfer counts as stalled.
const IDLE_TURNS_MAX: u32 = 1_000;
/// Turns without a delivery after which a transfer is declared stuck.
const VAIN_TURNS_MAX: u32 = 1_000_000;

/// Two endpoints of one association.
pub(super) struct Pair<P> {
    pub(super) near: P,
    pub(super) far: P,
    pub(super) now: Duration,
    /// The pipes to the far and to the near endpoint.
    pub(super) pipes: Option<[Pipe; 2]>,
    progress: Progress,
}

/// Events since the last delivery.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    last_delivery: Duration,
    idle_turns: u32,
    turns: u32,
}

impl<P: Peer> Pair<P> {
    /// An association over a path that does what `wire` says once it is established; without a wire, packets are handed over at
    /// once. The error says why it could not be established.
    pub(super) fn connect<S: Stack<Peer = P>>(
        stack: &mut S,
        wire: Option<Wire>,
        seed: u64,
        now: Duration,
    ) -> Result<Self, String> {
        let pipe = |wire: Wire, name| Pipe::new(wire.delay, seed, name);
        let pipes = wire.map(|wire| [pipe(wire, "to the far end"), pipe(wire, "to the near end")]);
        let progress = Progress { last_delivery: now, ..Progress::default() };
        let mut pair = Pair { near: stack.client(now), far: stack.server(now), now, pipes, progress };
        while !(pair.near.is_connected() && pair.far.is_connected()) {
            pair.turn_or_wait()?;
        }
        if let (Some(pipes), Some(wire)) = (&mut pair.pipes, wire) {
            pipes.iter_mut().for_each(|pipe| pipe.impair(wire));
        }
        pair.delivered();
        Ok(pair)
    }

    /// An association over `path`.
    pub(super) fn over<S: Stack<Peer = P>>(path: &Path, seed: u64) -> Result<Self, String> {
        Pair::connect(&mut S::new(&path.settings), path.wire, seed, Duration::ZERO)
    }

    /// Sends up to `send_max` messages from the near to the far endpoint, until at least `deliver_min` have been delivered. Returns the number
    /// delivered, or the reason that stopped the transfer.
    pub(super) fn transfer(&mut self, message: &Message, send_max: u64, deliver_min: u64) -> Result<u64, String> {
        let (mut sent, mut delivered) = (0, 0);
        while delivered < deliver_min {
            while sent < send_max {
                match self.near.send(self.now, message) {
                    Ok(()) => sent += 1,
                    Err(SendError::WouldBlock) => break,
                    Err(error @ SendError::Refused(_)) => return Err(error.to_string()),
                }
            }
            self.turn_or_wait()?;
            let before = delivered;
            while let Some(received) = self.far.receive(self.now) {
                if received.payload.len() != message.payload.len() {
                    return Err(format!("a message of {} bytes was delivered", received.payload.len()));
                }
                delivered += 1;
            }
            if delivered > before {
                self.delivered();
            }
        }
        Ok(delivered)
    }

    /// Keeps the send buffer full for a multiple of `time`, until at least `deliver_min` messages have been delivered. Returns the number delivered,
    /// or the reason that stopped the transfer.
    pub(super) fn stream(&mut self, message: &Message, deliver_min: u64, time: Duration) -> Result<u64, String> {
        let mut delivered = 0;
        while delivered < deliver_min {
            let until = self.now + time;
            delivered += self.transfer(message, u64::MAX, 1)?;
            while self.now < until {
                delivered += self.transfer(message, u64::MAX, 1)?;
            }
        }
        Ok(delivered)
    }

    /// Lets the timers that are due within `time` run out.
    pub(super) fn rest(&mut self, time: Duration) {
        let until = self.now + time;
        while self.turn() {}
        while let Some(at) = self.deadline()
            && at <= until
        {
            self.advance(at);
            while self.turn() {}
        }
        self.now = until;
        // Some stacks store events until they are polled.
        while self.near.receive(self.now).is_some() || self.far.receive(self.now).is_some() {}
    }

    fn delivered(&mut self) {
        self.progress = Progress { last_delivery: self.now, ..Progress::default() };
    }

    /// Moves packets, or otherwise time. Returns an error with the reason if the transfer has stopped.
    fn turn_or_wait(&mut self) -> Result<(), String> {
        self.progress.turns += 1;
        if self.progress.turns > VAIN_TURNS_MAX {
            return Err(self.complaint("busy without delivering anything"));
        }
        if self.turn() {
            self.progress.idle_turns = 0;
            return Ok(());
        }
        self.progress.idle_turns += 1;
        if let Some(error) = self.near.error().or_else(|| self.far.error()) {
            return Err(format!("ended: {error}"));
        }
        if self.near.is_closed() || self.far.is_closed() {
            return Err("ended without an error".into());
        }
        let Some(at) = self.deadline() else { return Err(self.complaint("nothing is left to happen")) };
        if self.progress.idle_turns >= IDLE_TURNS_MAX || at > self.progress.last_delivery + STALL_TIME {
            return Err(self.complaint("stalled"));
        }
        self.advance(at);
        Ok(())
    }

    fn complaint(&self, what: &str) -> String {
        format!("{what}; the last delivery was {:.1} s before", (self.now - self.progress.last_delivery).as_secs_f64())
    }

    /// Moves one batch in each direction. Returns whether any packet moved.
    fn turn(&mut self) -> bool {
        let Pair { near, far, now, pipes, .. } = self;
        let Some([to_far, to_near]) = pipes else {
            let there = hand_over(near, far, *now);
            let back = hand_over(far, near, *now);
            return there || back;
        };
        // Packets released by the application and the timers.
        let sent = drain(near, to_far, *now) | drain(far, to_near, *now);
        let there = deliver(to_far, far, to_near, *now);
        let back = deliver(to_near, near, to_far, *now);
        sent || there || back
    }

    fn deadline(&self) -> Option<Duration> {
        let arrivals = self.pipes.iter().flatten().filter_map(Pipe::next_arrival);
        arrivals.chain(self.near.deadline()).chain(self.far.deadline()).min()
    }

    fn advance(&mut self, to: Duration) {
        self.now = self.now.max(to);
        for peer in [&mut self.near, &mut self.far] {
            if self.pipes.is_none() || peer.deadline().is_some_and(|at| at <= self.now) {
                peer.handle_timeout(self.now);
            }
        }
    }
}

fn hand_over<P: Peer>(from: &mut P, to: &mut P, now: Duration) -> bool {
    for handed_over in 0..BATCH_PACKETS {
        match from.poll_packet(now) {
            Some(packet) => to.handle_packet(now, packet),
            None => return handed_over > 0,
        }
    }
    true
}

/// Puts all that `from` has to send into the pipe; whether that was anything.
fn drain<P: Peer>(from: &mut P, pipe: &mut Pipe, now: Duration) -> bool {
    let mut any = false;
    while let Some(packet) = from.poll_packet(now) {
        pipe.put(now, packet);
        any = true;
    }
    any
}

/// Gives `to` a batch of packets that have arrived and sends its answers. Returns whether there were any packets.
fn deliver<P: Peer>(pipe: &mut Pipe, to: &mut P, answers: &mut Pipe, now: Duration) -> bool {
    for delivered in 0..BATCH_PACKETS {
        let Some(packet) = pipe.take(now) else { return delivered > 0 };
        to.handle_packet(now, packet);
        drain(to, answers, now);
    }
    true
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::peer::{AbortUnsupported, Settings};
    use crate::stack::Festina;

    /// A stack that is connected from the start and never sends anything.
    struct Mute;

    impl Stack for Mute {
        type Peer = MutePeer;

        const NAME: &'static str = "mute";
        const ANSWERS_STRAYS: bool = false;
        const LATE_ABORT_IS_ERROR: bool = false;
        const SHUTDOWN_DRAINS: bool = false;
        const CAN_ABORT: bool = false;

        fn new(_: &Settings) -> Self {
            Mute
        }

        fn client(&mut self, _: Duration) -> MutePeer {
            MutePeer { now: Duration::ZERO }
        }

        fn server(&mut self, _: Duration) -> MutePeer {
            MutePeer { now: Duration::ZERO }
        }
    }

    /// It has a timer that is due each second.
    struct MutePeer {
        now: Duration,
    }

    impl Peer for MutePeer {
        fn handle_packet(&mut self, _: Duration, _: Bytes) {}

        fn poll_packet(&mut self, _: Duration) -> Option<Bytes> {
            None
        }

        fn deadline(&self) -> Option<Duration> {
            Some(self.now + Duration::from_secs(1))
        }

        fn handle_timeout(&mut self, now: Duration) {
            self.now = now;
        }

        fn send(&mut self, _: Duration, _: &Message) -> Result<(), SendError> {
            Err(SendError::WouldBlock)
        }

        fn receive(&mut self, _: Duration) -> Option<Message> {
            None
        }

        fn shutdown(&mut self, _: Duration) {}

        fn abort(&mut self, _: Duration) -> Result<(), AbortUnsupported> {
            Err(AbortUnsupported)
        }

        fn is_connected(&self) -> bool {
            true
        }

        fn is_closed(&self) -> bool {
            false
        }

        fn error(&self) -> Option<String> {
            None
        }
    }

    fn message() -> Message {
        Message { stream: 0, ppid: 53, unordered: false, payload: Bytes::from_static(&[0x5A; 1_200]) }
    }

    fn path(name: &str) -> Path {
        Path::all().into_iter().find(|path| path.name == name).expect("the path is measured")
    }

    #[test]
    fn a_stack_that_delivers_nothing_is_reported_after_a_minute_of_virtual_time() {
        let mut pair = Pair::over::<Mute>(&path("20ms"), 1).expect("it is connected from the start");
        let stopped = pair.transfer(&message(), u64::MAX, 1).expect_err("nothing is ever delivered");
        assert_eq!(stopped, "stalled; the last delivery was 60.0 s before");
    }

    #[test]
    fn a_window_of_messages_takes_one_round_trip() {
        let path = path("20ms");
        let mut pair = Pair::over::<Festina>(&path, 1).expect("it connects");
        // Slow start has ended after a second.
        pair.stream(&message(), 1, Duration::from_secs(1)).expect("nothing is lost");
        let delivered = pair.stream(&message(), 1, 10 * path.round_trip()).expect("nothing is lost");
        let window_messages = u64::from(path.settings.receive_window_bytes) / 1_200;
        assert!(
            (delivered / 10) <= window_messages && delivered / 10 >= window_messages / 2,
            "{delivered} in 10 round trips"
        );
    }

    #[test]
    fn what_a_wire_loses_is_sent_again() {
        let mut pair = Pair::over::<Festina>(&path("20ms-loss"), 1).expect("it connects");
        let delivered = pair.stream(&message(), 5_000, Duration::ZERO).expect("losses are repaired");
        let [to_far, _] = pair.pipes.as_ref().expect("the path has a wire");
        assert!(to_far.bytes > delivered * 1_212, "{} bytes for {delivered} messages", to_far.bytes);
    }
}
