//! One stack at one task in virtual time.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use festina_units::Probability;

use super::contender::{Connect, Contender, Ends, Means, Promise};
use super::program;
use super::task::{HEADER_BYTES, Outcome, Scale, Task, phase};
use super::weather::{self, Weather};
use crate::measure::{Pipe, Wire};
use crate::peer::{Message, SendError};

/// User data of each message, in bytes; its number stands in the first eight.
pub const MESSAGE_BYTES: usize = 100;
/// How long the wire is watched after the last delivery, for acknowledgements and needless repetitions.
const TAIL: Duration = Duration::from_secs(2);
/// Virtual time without any delivery after which a connection counts as stalled.
const STALL: Duration = Duration::from_secs(120);
/// Events at one instant after which a connection is declared stuck.
const EVENTS_AT_ONCE_MAX: u32 = 100_000;

/// Lets a contender do a task.
#[must_use]
pub fn run(contender: &Contender, task: Task, scale: Scale) -> Outcome {
    let prepare = match contender.means {
        Means::Here(prepare) => prepare,
        Means::Pion(settings) => return program::run(settings(task.round_trip), task, scale),
    };
    let mut connect = prepare(task.round_trip);
    let connections = if task.interval.is_some() { scale.connections } else { scale.first_messages };
    let wire =
        Wire { delay: task.round_trip / 2, loss: Probability::from_percent(task.loss_percent), ..Wire::default() };
    let mut outcome = Outcome::default();
    for seed in 1..=connections {
        let mut connection = Connection::new(connect(seed), wire, seed);
        let done = match task.interval {
            Some(interval) => connection.stream(interval, scale.messages, contender.promise),
            None => connection.first_message(),
        };
        outcome.failures.extend(done.err());
        connection.add_to(&mut outcome);
    }
    outcome
}

/// Lets a contender that runs in this process send a stream over a path that changes. Its delays are what exceeds the route's own at the
/// time of the write; its settings are those for the mean round trip.
#[must_use]
pub fn run_over_changes(prepare: fn(Duration) -> Connect, promise: Promise, task: Task, scale: Scale) -> Outcome {
    let mut connect = prepare(weather::MEAN_ROUND_TRIP);
    let wire = weather::wire(Probability::from_percent(task.loss_percent));
    let mut outcome = Outcome::default();
    for seed in 1..=scale.connections {
        let mut connection = Connection::new(connect(seed), wire, seed);
        connection.weather = Some([true, false].map(|is_there| Weather::new(seed, is_there)));
        let interval = task.interval.unwrap_or_default();
        outcome.failures.extend(connection.stream(interval, scale.messages, promise).err());
        connection.add_to(&mut outcome);
    }
    outcome
}

/// One association, the wire, and the fate of the messages.
struct Connection {
    ends: Ends,
    pipes: [Pipe; 2],
    wire: Wire,
    /// There and back, on a path that changes.
    weather: Option<[Weather; 2]>,
    phase: f64,
    now: Duration,
    events_at_once: u32,
    last_progress: Duration,
    /// Packets and bytes before the first message.
    before: [(u64, u64); 2],
    /// When each message was written, and when it was delivered.
    written: Vec<Duration>,
    delivered: Vec<Option<Duration>>,
    count_delivered: u64,
}

impl Connection {
    fn new(ends: Ends, wire: Wire, seed: u64) -> Self {
        Connection {
            ends,
            pipes: ["there", "back"].map(|name| Pipe::new(wire.delay, seed, name)),
            wire,
            weather: None,
            phase: phase(seed),
            now: Duration::ZERO,
            events_at_once: 0,
            last_progress: Duration::ZERO,
            before: [(0, 0); 2],
            written: Vec::new(),
            delivered: Vec::new(),
            count_delivered: 0,
        }
    }

    /// Connects without loss, then sends one message each `interval`. The handshake is another task.
    fn stream(&mut self, interval: Duration, messages: u64, promise: Promise) -> Result<(), String> {
        while !self.ends.iter().all(|end| end.is_connected()) {
            self.drain();
            self.advance(None)?;
        }
        self.drain();
        self.impair();
        // Stacks with a clock of their own must not always be asked at the same beat of it.
        let start = self.now + interval.mul_f64(self.phase);
        let (mut waiting, mut next, mut end) = (VecDeque::new(), start, None);
        loop {
            while (self.written.len() as u64) < messages && next <= self.now {
                waiting.push_back(self.write(next, promise));
                next += interval;
            }
            self.send(&mut waiting)?;
            self.drain();
            self.receive(promise)?;
            let all_written = self.written.len() as u64 == messages;
            if all_written && (self.count_delivered == messages || promise == Promise::Unreliable) {
                end.get_or_insert(self.now + TAIL);
            }
            if end.is_some_and(|end| end <= self.now) {
                return Ok(());
            }
            self.advance(end.or((!all_written).then_some(next)))?;
        }
    }

    /// Connects, with loss, and sends one message as soon as the stack takes it.
    fn first_message(&mut self) -> Result<(), String> {
        self.impair();
        let mut waiting = VecDeque::from([self.write(self.now, Promise::Ordered)]);
        while self.count_delivered == 0 {
            // A stack may accept later messages that it refuses before it is connected.
            let sent = self.send(&mut waiting);
            if self.ends[0].is_connected() {
                sent?;
            }
            self.drain();
            self.receive(Promise::Ordered)?;
            if self.count_delivered == 0 {
                self.advance(None)?;
            }
        }
        Ok(())
    }

    /// From now on packets are lost, and count.
    fn impair(&mut self) {
        for (pipe, before) in self.pipes.iter_mut().zip(&mut self.before) {
            pipe.impair(self.wire);
            *before = (pipe.packets, pipe.bytes);
        }
        self.last_progress = self.now;
    }

    /// Notes that the application writes a message.
    fn write(&mut self, at: Duration, promise: Promise) -> Message {
        let mut payload = vec![0x5A; MESSAGE_BYTES];
        payload[..8].copy_from_slice(&(self.written.len() as u64).to_be_bytes());
        self.written.push(at);
        self.delivered.push(None);
        self.last_progress = self.now;
        Message { stream: 0, ppid: 53, unordered: promise != Promise::Ordered, payload: Bytes::from(payload) }
    }

    fn send(&mut self, waiting: &mut VecDeque<Message>) -> Result<(), String> {
        while let Some(message) = waiting.front() {
            match self.ends[0].send(self.now, message) {
                Ok(()) => drop(waiting.pop_front()),
                Err(SendError::WouldBlock) => break,
                Err(error @ SendError::Refused(_)) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    /// Puts all that both ends have to send on the wire.
    fn drain(&mut self) {
        for (way, (end, pipe)) in self.ends.iter_mut().zip(&mut self.pipes).enumerate() {
            while let Some(packet) = end.poll_packet(self.now) {
                let extra = self.weather.as_mut().map_or(Duration::ZERO, |weather| weather[way].extra(self.now));
                pipe.put_late(self.now, packet, extra);
            }
        }
    }

    /// Records deliveries: each message once, and in order where that is promised.
    fn receive(&mut self, promise: Promise) -> Result<(), String> {
        while let Some(message) = self.ends[1].receive(self.now) {
            let number = message.payload.get(..8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
            let index = number.and_then(|number| usize::try_from(number).ok()).unwrap_or(usize::MAX);
            let Some(slot) = self.delivered.get_mut(index).filter(|_| message.payload.len() == MESSAGE_BYTES) else {
                return Err("received a message that was never written".into());
            };
            if slot.replace(self.now).is_some() {
                return Err(format!("message {index} came twice"));
            }
            if promise == Promise::Ordered && index as u64 != self.count_delivered {
                return Err(format!("message {index} came out of order"));
            }
            self.count_delivered += 1;
            self.last_progress = self.now;
        }
        Ok(())
    }

    /// Advances to the next event, at most to `until`, and handles it.
    fn advance(&mut self, until: Option<Duration>) -> Result<(), String> {
        if let Some(error) = self.ends.iter().find_map(|end| end.error()) {
            return Err(error);
        }
        if self.ends.iter().any(|end| end.is_closed()) {
            return Err("the connection ended".into());
        }
        let timers = self.ends.iter().filter_map(|end| end.deadline());
        let arrivals = self.pipes.iter().filter_map(Pipe::next_arrival);
        let Some(next) = timers.chain(arrivals).chain(until).min() else {
            return Err("nothing is left to happen".into());
        };
        let next = next.max(self.now);
        self.events_at_once = if next == self.now { self.events_at_once + 1 } else { 0 };
        if self.events_at_once > EVENTS_AT_ONCE_MAX {
            return Err("stuck: too many events at one instant".into());
        }
        if until.is_none() && next > self.last_progress + STALL {
            return Err(format!("nothing delivered for {} s", STALL.as_secs()));
        }
        self.now = next;
        for to in [1, 0] {
            while let Some(packet) = self.pipes[1 - to].take(self.now) {
                self.ends[to].handle_packet(self.now, packet);
                self.drain();
            }
        }
        for end in &mut self.ends {
            if end.deadline().is_some_and(|at| at <= self.now) {
                end.handle_timeout(self.now);
            }
        }
        Ok(())
    }

    fn add_to(&mut self, outcome: &mut Outcome) {
        let mut route = |at| self.weather.as_mut().map_or(Duration::ZERO, |weather| weather[0].delay(at));
        let delays = self.written.iter().zip(&self.delivered);
        outcome.delays.extend(
            delays.map(|(written, delivered)| delivered.map(|at| (at - *written).saturating_sub(route(*written)))),
        );
        outcome.messages += self.written.len() as u64;
        for way in 0..2 {
            let (packets, bytes) = (self.pipes[way].packets, self.pipes[way].bytes);
            let packets = packets - self.before[way].0;
            outcome.packets[way] += packets;
            outcome.bytes[way] += bytes - self.before[way].1 + packets * HEADER_BYTES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::contender::{At, Connect, Role};
    use super::*;
    use crate::peer::{AbortUnsupported, Peer};

    /// A stack that sends each message once and delivers each packet `copies` times.
    struct Bare {
        copies: usize,
        outgoing: VecDeque<Bytes>,
        received: VecDeque<Bytes>,
    }

    impl Peer for Bare {
        fn handle_packet(&mut self, _: Duration, packet: Bytes) {
            self.received.extend(vec![packet; self.copies]);
        }

        fn poll_packet(&mut self, _: Duration) -> Option<Bytes> {
            self.outgoing.pop_front()
        }

        fn deadline(&self) -> Option<Duration> {
            None
        }

        fn handle_timeout(&mut self, _: Duration) {}

        fn send(&mut self, _: Duration, message: &Message) -> Result<(), SendError> {
            self.outgoing.push_back(message.payload.clone());
            Ok(())
        }

        fn receive(&mut self, _: Duration) -> Option<Message> {
            let payload = self.received.pop_front()?;
            Some(Message { stream: 0, ppid: 53, unordered: true, payload })
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

    fn bare(copies: usize) -> Connect {
        let end = move || Box::new(Bare { copies, outgoing: VecDeque::new(), received: VecDeque::new() });
        Box::new(move |_| [end(), end()])
    }

    fn outcome(promise: Promise, loss_percent: u32, connect: fn(Duration) -> Connect) -> Outcome {
        let (name, stack, settings) = ("bare", "bare", "");
        let contender =
            Contender { name, stack, settings, promise, role: Role::Peer, at: At::Both, means: Means::Here(connect) };
        let (round_trip, interval) = (Duration::from_millis(100), Some(Duration::from_millis(20)));
        let scale = Scale { connections: 1, messages: 200, first_messages: 0 };
        run(&contender, Task { round_trip, interval, loss_percent }, scale)
    }

    #[test]
    fn a_message_takes_the_path_s_delay_and_costs_its_packet_with_the_headers() {
        let outcome = outcome(Promise::Ordered, 0, |_| bare(1));
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
        assert_eq!((outcome.messages, outcome.delays.delivered()), (200, 200));
        assert!((outcome.delays.mean_ms() - 50.0).abs() < 1e-9 && (outcome.delays.max_ms() - 50.0).abs() < 1e-9);
        assert_eq!((outcome.packets, outcome.bytes), ([200, 0], [200 * 128, 0]));
    }

    #[test]
    fn on_a_path_that_changes_only_queue_jitter_and_reordering_count() {
        let task = Task { round_trip: Duration::ZERO, interval: Some(Duration::from_millis(100)), loss_percent: 0 };
        let scale = Scale { connections: 2, messages: 1_000, first_messages: 0 };
        let outcome = run_over_changes(|_| bare(1), Promise::Unordered, task, scale);
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
        // The jitter's mean is 5 ms. A packet waits behind an earlier one, too, when the route gets shorter.
        let [median, most] = [0.5, 1.0].map(|share| outcome.delays.percentile(share).ms);
        assert!((4.0..8.0).contains(&median) && (85.0..180.0).contains(&most), "{median} {most}");
    }

    #[test]
    fn a_message_that_comes_twice_or_out_of_order_or_never_is_a_failure_unless_that_was_promised() {
        assert_eq!(outcome(Promise::Unordered, 0, |_| bare(2)).failures, ["message 0 came twice"]);
        let failure = outcome(Promise::Ordered, 10, |_| bare(1)).failures.concat();
        assert!(failure.ends_with("came out of order"), "{failure}");
        assert_eq!(outcome(Promise::Unordered, 10, |_| bare(1)).failures, ["nothing is left to happen"]);
        let unreliable = outcome(Promise::Unreliable, 10, |_| bare(1));
        assert!(unreliable.failures.is_empty() && (150..200).contains(&unreliable.delays.delivered()));
    }
}
