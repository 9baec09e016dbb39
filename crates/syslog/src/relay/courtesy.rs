//! How much of what is not repeated may be under way, so that no queue builds up in the network in front of the important lines.
//!
//! Congestion control fills the queue of a slow link until packets are lost, and every important line then waits as long as the queue takes.
//! So the window here follows the delay instead, in the manner of LEDBAT (RFC 6817): it grows while the round trip is about as short as
//! it ever was, and shrinks when it is half as long again. It gives way to any other traffic that fills the queue, too: these lines may
//! be late or missing, others not.

use crate::transport;

/// The smallest window: a packet.
const WINDOW_BYTES_MIN: u64 = 1_200;

/// The first window (RFC 6928 allows ten packets to those who give way less): on a slow link that important lines nearly fill, four packets
/// take a second to go away.
const WINDOW_BYTES_START: u64 = WINDOW_BYTES_MIN;

/// The largest: more would be the send buffer's.
const WINDOW_BYTES_MAX: u64 = 3 << 20;

/// A queue of this many microseconds does no harm, however short the round trip is.
const QUEUE_US_HARMLESS: u64 = 10_000;

/// A message that is under way for this many microseconds more than the shortest round trip need not wait in a queue: a peer may take
/// [`transport::SACK_DELAY_US`] of them to acknowledge it.
const AGE_US_HARMLESS: u64 = QUEUE_US_HARMLESS + transport::SACK_DELAY_US;

/// How long the shortest round trip is remembered, at least, in microseconds; at most twice that.
const MEMORY_US: u64 = 60_000_000;

/// While important lines wait in a queue, others leave this far apart, in microseconds: even the smallest window would fill a slow link.
const REST_US: u64 = 1_000_000;

/// The window grows only if at most one message in four was given up during the round.
const GIVEN_UP_ONE_IN: u64 = 4;

/// The shortest round trip of the last minutes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ShortestRoundTrip {
    before_us: Option<u64>,
    now_us: Option<u64>,
    since_us: u64,
}

impl ShortestRoundTrip {
    /// The shortest one, if any was measured, in microseconds.
    pub(super) fn us(&self) -> Option<u64> {
        self.now_us.into_iter().chain(self.before_us).min()
    }

    /// Whether a queue takes longer than half of the shortest round trip.
    pub(super) fn is_too_long(&self, queue_us: u64) -> bool {
        queue_us > QUEUE_US_HARMLESS.max(self.us().unwrap_or_default() / 2)
    }

    /// Whether a message that is under way for so long waits in a queue, or was lost and nothing was acknowledged since.
    pub(super) fn is_too_old(&self, age_us: u64) -> bool {
        self.us().is_some_and(|shortest| age_us > shortest + AGE_US_HARMLESS.max(shortest / 2))
    }

    /// Takes a round trip and how much it varies, and returns how much longer it is than the shortest even when it is short; all in
    /// microseconds. A queue that stands makes all round trips longer, a machine that is busy only some.
    pub(super) fn excess_us(&mut self, rtt_us: u64, variation_us: u64, at_us: u64) -> u64 {
        if at_us.abs_diff(self.since_us) >= MEMORY_US {
            (self.before_us, self.now_us, self.since_us) = (self.now_us, None, at_us);
        }
        let shortest = self.now_us.map_or(rtt_us, |shortest| shortest.min(rtt_us));
        self.now_us = Some(shortest);
        let shortest = self.before_us.map_or(shortest, |before| before.min(shortest));
        rtt_us.saturating_sub(variation_us).saturating_sub(shortest)
    }
}

/// What the window follows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) rtt_us: u64,
    /// The [shortest](ShortestRoundTrip).
    pub(super) shortest_us: u64,
    /// Whether the queue is [too long](ShortestRoundTrip::is_too_long).
    pub(super) too_long: bool,
    /// Whether the last message that arrived was [too old](ShortestRoundTrip::is_too_old) by then.
    pub(super) took_long: bool,
    /// Whether important messages are under way on this path: then the window does not double.
    pub(super) has_others: bool,
    /// What is under way.
    pub(super) used_bytes: u64,
    /// Bytes that the transport lets be under way. What is far beyond it waits where nobody can change his mind about it.
    pub(super) cwnd_bytes: u64,
    /// Messages handed over so far, those among them that arrived, and those that were given up.
    pub(super) messages: [u64; 3],
    pub(super) at_us: u64,
}

/// A window that follows the delay.
#[derive(Clone, Copy, Debug)]
pub(super) struct Courtesy {
    window_bytes: u64,
    /// No queue was seen yet: the window doubles.
    starts: bool,
    changed_us: u64,
    /// The message that ends the present round. Time alone says nothing: while packets wait in a queue, no round trip is measured.
    round_ends: u64,
    /// How many had arrived and were given up when the present round began.
    round_began: [u64; 2],
    left_us: u64,
}

impl Courtesy {
    pub(super) fn new() -> Self {
        let (changed_us, round_ends, round_began, left_us) = (0, 0, [0; 2], 0);
        Self { window_bytes: WINDOW_BYTES_START, starts: true, changed_us, round_ends, round_began, left_us }
    }

    /// Bytes that may be under way.
    pub(super) fn window_bytes(&self) -> u64 {
        self.window_bytes
    }

    /// Whether nothing is to leave now, `others_wait` being that important lines wait in a queue.
    pub(super) fn rests(&self, others_wait: bool, at_us: u64) -> bool {
        others_wait && at_us.abs_diff(self.left_us) < REST_US
    }

    /// Something leaves.
    pub(super) fn left(&mut self, at_us: u64) {
        self.left_us = at_us;
    }

    /// Moves the window, once per round: when a round trip has gone by, and all is decided that was handed over at the last move. A window
    /// that was not used is no larger than twice what was. If the queue is too long, the window shrinks to what the path carries in its
    /// shortest round trip, so that a long queue is gone after one more.
    pub(super) fn move_window(&mut self, look: Look) {
        let [sent, arrived, given_up] = look.messages;
        if self.changed_us == 0 {
            // The first round begins. Nothing that was sent since says anything yet.
            (self.changed_us, self.round_ends, self.round_began) = (look.at_us, sent + 1, [arrived, given_up]);
            return;
        }
        if look.at_us.abs_diff(self.changed_us) < look.rtt_us || arrived + given_up < self.round_ends {
            return;
        }
        let [arrived_before, given_up_before] = self.round_began;
        let (arrives, fails) = (arrived.saturating_sub(arrived_before), given_up.saturating_sub(given_up_before));
        (self.changed_us, self.round_ends, self.round_began) = (look.at_us, sent, [arrived, given_up]);
        // Who gives up much asks for more than there is.
        let room = !look.took_long
            && fails * GIVEN_UP_ONE_IN <= arrives + fails
            && self.window_bytes < 2 * look.cwnd_bytes + WINDOW_BYTES_MIN;
        if look.too_long {
            self.starts = false;
            let carried = look.used_bytes.min(self.window_bytes).saturating_mul(look.shortest_us) / look.rtt_us.max(1);
            self.window_bytes = carried.min(self.window_bytes * 7 / 10).max(WINDOW_BYTES_MIN);
        } else if room && look.used_bytes + WINDOW_BYTES_MIN >= self.window_bytes {
            let more = if self.starts && !look.has_others {
                self.window_bytes
            } else {
                WINDOW_BYTES_MIN.max(self.window_bytes / 16)
            };
            self.window_bytes = (self.window_bytes + more).min(WINDOW_BYTES_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link that carries `rate` bytes per second behind a queue without end, and a sender that always uses its window. Returns the
    /// queueing delay at the end in microseconds, and the bytes carried.
    fn link(rate: u64, base_us: u64, others: u64, seconds: u64) -> (u64, u64) {
        let (mut courtesy, mut shortest) = (Courtesy::new(), ShortestRoundTrip::default());
        let (mut queue, mut carried) = (0, 0);
        // The handshake.
        shortest.excess_us(base_us, 0, 0);
        for step in 0..seconds * 1_000 {
            let at_us = step * 1_000;
            let in_flight = courtesy.window_bytes();
            // What the link holds by itself does not wait.
            let room = rate.saturating_sub(others) * base_us / 1_000_000;
            queue = in_flight.saturating_sub(room) + if others >= rate { (others - rate) * step / 1_000 } else { 0 };
            let queue_us = queue * 1_000_000 / rate;
            let rtt_us = base_us + queue_us;
            let excess_us = shortest.excess_us(rtt_us, 0, at_us);
            let too_long = shortest.is_too_long(excess_us);
            let round = Look {
                rtt_us,
                shortest_us: base_us,
                too_long,
                took_long: false,
                has_others: false,
                used_bytes: in_flight,
                cwnd_bytes: WINDOW_BYTES_MAX,
                messages: [step, step, 0],
                at_us,
            };
            courtesy.move_window(round);
            carried += in_flight.min(room + queue) * 1_000 / rtt_us;
        }
        (queue * 1_000_000 / rate, carried)
    }

    /// A round of a path of 80 ms.
    fn round(too_long: bool, used_bytes: u64, step: u64) -> Look {
        let rtt_us = 80_000;
        Look {
            rtt_us,
            shortest_us: rtt_us,
            too_long,
            took_long: false,
            has_others: false,
            used_bytes,
            cwnd_bytes: WINDOW_BYTES_MAX,
            messages: [step, step, 0],
            at_us: step * rtt_us,
        }
    }

    #[test]
    fn a_link_is_used_without_a_standing_queue() {
        for (rate, base_us) in [(31_250, 80_000), (125_000, 80_000), (1_250_000, 20_000), (12_500_000, 10_000)] {
            let (queue_us, carried) = link(rate, base_us, 0, 60);
            assert!(queue_us <= 2 * QUEUE_US_HARMLESS.max(base_us / 2), "{rate}: {queue_us} us");
            // A window of one packet is more than the slowest of these links needs.
            assert!(carried * 10 >= rate * 60 * 7, "{rate}: {carried}");
        }
    }

    #[test]
    fn a_queue_that_the_first_round_trips_built_is_gone_two_round_trips_after_it_was_seen() {
        let mut courtesy = Courtesy::new();
        (0..=5).for_each(|step| courtesy.move_window(round(false, u64::MAX / 2, step)));
        assert_eq!(courtesy.window_bytes(), 16 * WINDOW_BYTES_START);
        // A link of 250 kbit/s holds 2,500 bytes, and takes 0.6 s for that.
        courtesy.move_window(Look { rtt_us: 615_000, ..round(true, courtesy.window_bytes(), 25) });
        assert!(courtesy.window_bytes() <= 2_500);
    }

    #[test]
    fn the_window_does_not_grow_while_nothing_is_answered() {
        let mut courtesy = Courtesy::new();
        for step in 1..100 {
            courtesy.move_window(Look { messages: [step, 0, 0], ..round(false, courtesy.window_bytes(), step) });
        }
        assert_eq!(courtesy.window_bytes(), WINDOW_BYTES_START);
        courtesy.move_window(Look { messages: [200, 2, 0], ..round(false, courtesy.window_bytes(), 100) });
        assert_eq!(courtesy.window_bytes(), 2 * WINDOW_BYTES_START);
    }

    #[test]
    fn the_window_grows_neither_by_what_is_given_up_nor_beyond_what_the_transport_lets_leave() {
        let mut courtesy = Courtesy::new();
        for step in 1..100 {
            courtesy.move_window(Look { messages: [step, 0, step], ..round(false, courtesy.window_bytes(), step) });
        }
        assert_eq!(courtesy.window_bytes(), WINDOW_BYTES_START);
        for step in 100..200 {
            let look = round(false, courtesy.window_bytes(), step);
            courtesy.move_window(Look { cwnd_bytes: 600, messages: [step, step - 99, 99], ..look });
        }
        assert_eq!(courtesy.window_bytes(), 2 * WINDOW_BYTES_START);
        courtesy.move_window(Look { messages: [300, 200, 100], ..round(false, courtesy.window_bytes(), 300) });
        assert_eq!(courtesy.window_bytes(), 4 * WINDOW_BYTES_START);
    }

    #[test]
    fn the_window_does_not_grow_when_messages_take_long_though_the_transport_measures_no_round_trip() {
        let mut courtesy = Courtesy::new();
        for step in 0..100 {
            courtesy.move_window(Look { took_long: true, ..round(false, courtesy.window_bytes(), step) });
        }
        assert_eq!(courtesy.window_bytes(), WINDOW_BYTES_START);
    }

    #[test]
    fn beside_important_messages_the_window_does_not_double() {
        let mut courtesy = Courtesy::new();
        for step in 0..10 {
            courtesy.move_window(Look { has_others: true, ..round(false, courtesy.window_bytes(), step) });
        }
        assert!(courtesy.window_bytes() <= 10 * WINDOW_BYTES_MIN, "{}", courtesy.window_bytes());
    }

    #[test]
    fn while_important_lines_wait_others_leave_once_a_second() {
        let mut courtesy = Courtesy::new();
        courtesy.left(5_000_000);
        assert!(courtesy.rests(true, 5_900_000) && !courtesy.rests(true, 6_000_000));
        assert!(!courtesy.rests(false, 5_000_001));
    }

    #[test]
    fn whoever_fills_the_queue_makes_it_give_way() {
        let mut courtesy = Courtesy::new();
        for step in 0..100 {
            courtesy.move_window(round(true, courtesy.window_bytes(), step));
        }
        assert_eq!(courtesy.window_bytes(), WINDOW_BYTES_MIN);
    }

    #[test]
    fn a_sender_that_does_not_use_its_window_gets_no_larger_one() {
        let mut courtesy = Courtesy::new();
        for step in 0..100 {
            courtesy.move_window(round(false, WINDOW_BYTES_START, step));
        }
        assert_eq!(courtesy.window_bytes(), 4 * WINDOW_BYTES_START);
    }

    #[test]
    fn a_round_trip_that_varies_is_no_queue_and_the_first_one_which_may_be_anything_between_is_not_taken_for_shorter() {
        let mut shortest = ShortestRoundTrip::default();
        // The variation after one measurement is half of it (RFC 9260 §6.3.1 C2).
        assert_eq!(shortest.excess_us(80_000, 40_000, 0), 0);
        assert_eq!(shortest.excess_us(80_000, 1_000, 1_000_000), 0);
        assert_eq!(shortest.excess_us(110_000, 30_000, 2_000_000), 0);
        assert_eq!(shortest.excess_us(160_000, 5_000, 3_000_000), 75_000);
        assert!(shortest.is_too_long(41_000) && !shortest.is_too_long(40_000));
        assert!(shortest.is_too_old(120_001) && !shortest.is_too_old(120_000));
    }

    #[test]
    fn a_path_that_has_become_longer_is_believed_after_two_minutes() {
        let mut shortest = ShortestRoundTrip::default();
        assert_eq!(shortest.excess_us(10_000, 0, 0), 0);
        assert_eq!(shortest.excess_us(50_000, 0, 1_000_000), 40_000);
        assert_eq!(shortest.excess_us(50_000, 0, 61_000_000), 40_000);
        assert_eq!(shortest.excess_us(50_000, 0, 122_000_000), 0);
    }
}
