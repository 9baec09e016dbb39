//! Limits the unrepeated lines in flight, so that they build no network queue ahead of the important lines.
//!
//! Loss-based congestion control fills the queue of a slow link until packets are lost, and every important line then waits for the whole queue. So
//! this window follows the delay instead, in the manner of LEDBAT (RFC 6817): it grows while the round trip is close to its minimum and shrinks when
//! it exceeds one and a half times the minimum. It also yields to any other traffic that fills the queue, because unrepeated lines may be late or
//! lost.

use crate::transport;

/// The smallest window: a packet.
const WINDOW_BYTES_MIN: u64 = 1_200;

/// Initial window. RFC 6928 allows less polite senders ten packets, but on a slow link that important lines nearly fill, four packets take a second
/// to drain.
const WINDOW_BYTES_START: u64 = WINDOW_BYTES_MIN;

/// Maximum window: more would not fit into the send buffer.
const WINDOW_BYTES_MAX: u64 = 3 << 20;

/// A queue of this many microseconds is harmless for any round trip.
const QUEUE_US_HARMLESS: u64 = 10_000;

/// A message in flight for this many microseconds more than the shortest round trip need not be queued: a peer may take [`transport::SACK_DELAY_US`]
/// of them to acknowledge it.
const AGE_US_HARMLESS: u64 = QUEUE_US_HARMLESS + transport::SACK_DELAY_US;

/// How long the shortest round trip stays valid without a similar sample, in microseconds.
const MEMORY_US: u64 = 60_000_000;

/// Fresh lines then pause until no shorter round trip was seen for this many times the apparent queue: a link that important lines fill to nine
/// tenths takes ten times the length of a queue to drain it.
const TRIAL_QUEUES: u64 = 20;

/// Round trips for which the trial also has to last; each moves srtt by an eighth.
const TRIAL_ROUNDS: u64 = 16;

/// Maximum length of the pause in microseconds.
const TRIAL_US_MAX: u64 = 5_000_000;

/// Interval between fresh packets during a pause, in microseconds: even the smallest window would fill a slow link.
const REST_US: u64 = 1_000_000;

/// The interval doubles during a pause, up to this value, in microseconds.
const REST_US_MAX: u64 = 8_000_000;

/// The window grows only if at most one message in four was abandoned during the round.
const GIVEN_UP_ONE_IN: u64 = 4;

/// The shortest round trip of the path.
///
/// If it was not seen for [`MEMORY_US`], there is a standing queue or the path has become longer. From outside both look alike, and a sender that
/// mistakes a queue for a longer path lets it grow again and again. So a trial begins: for [a while](TRIAL_QUEUES) fresh lines pause, and the
/// shortest round trip meanwhile becomes the new reference.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ShortestRoundTrip {
    shortest_us: Option<u64>,
    /// When a round trip was last about as short.
    seen_us: u64,
    trial: Option<Trial>,
}

/// A time during which fresh lines pause.
#[derive(Clone, Copy, Debug)]
struct Trial {
    began_us: u64,
    shortest_us: u64,
    /// When that was seen.
    seen_us: u64,
    /// The trial ends when this much time has passed since.
    quiet_us: u64,
}

impl Trial {
    fn ends_us(&self) -> u64 {
        (self.seen_us + self.quiet_us).min(self.began_us + TRIAL_US_MAX)
    }
}

impl ShortestRoundTrip {
    /// The shortest round trip in microseconds, if any was measured.
    pub(super) fn us(&self) -> Option<u64> {
        self.shortest_us
    }

    /// Whether a queue takes longer than half of the shortest round trip.
    pub(super) fn is_too_long(&self, queue_us: u64) -> bool {
        queue_us > QUEUE_US_HARMLESS.max(self.us().unwrap_or_default() / 2)
    }

    /// Whether the age of an unacknowledged message shows that it is queued, or that it was lost and nothing was acknowledged since.
    pub(super) fn is_too_old(&self, age_us: u64) -> bool {
        self.us().is_some_and(|shortest| age_us > shortest + AGE_US_HARMLESS.max(shortest / 2))
    }

    /// Whether fresh lines pause, to measure the round trip without them.
    pub(super) fn is_on_trial(&self) -> bool {
        self.trial.is_some()
    }

    /// Takes a round trip and its variation, and returns by how much even short round trips exceed the shortest; all in microseconds. A standing
    /// queue lengthens all round trips, a busy machine only some.
    pub(super) fn excess_us(&mut self, rtt_us: u64, variation_us: u64, at_us: u64) -> u64 {
        let shortest = self.shortest_us.map_or(rtt_us, |shortest| shortest.min(rtt_us));
        let excess_us = rtt_us.saturating_sub(variation_us).saturating_sub(shortest);
        self.shortest_us = Some(shortest);
        if excess_us <= QUEUE_US_HARMLESS {
            (self.seen_us, self.trial) = (at_us, None);
        } else if let Some(trial) = &mut self.trial {
            if rtt_us < trial.shortest_us {
                (trial.shortest_us, trial.seen_us) = (rtt_us, at_us);
            }
            if at_us >= trial.ends_us() {
                (self.shortest_us, self.seen_us, self.trial) = (Some(trial.shortest_us), at_us, None);
            }
        } else if at_us.abs_diff(self.seen_us) >= MEMORY_US {
            let quiet_us = (excess_us * TRIAL_QUEUES).max(rtt_us * TRIAL_ROUNDS);
            self.trial = Some(Trial { began_us: at_us, shortest_us: rtt_us, seen_us: at_us, quiet_us });
        }
        excess_us
    }
}

/// Inputs of a window update.
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
    /// Bytes in flight.
    pub(super) used_bytes: u64,
    /// The transport's congestion window. Bytes far beyond it would wait in the transport, where they can no longer be reordered or dropped.
    pub(super) cwnd_bytes: u64,
    /// Messages handed over so far, those of them that arrived, and those abandoned.
    pub(super) messages: [u64; 3],
    pub(super) at_us: u64,
}

/// A window that follows the delay.
#[derive(Clone, Copy, Debug)]
pub(super) struct DelayWindow {
    window_bytes: u64,
    /// No queue was seen yet: the window doubles.
    starts: bool,
    changed_us: u64,
    /// The message that ends the present round. Time is not enough: while packets wait in a queue, no round trip is measured.
    round_ends: u64,
    /// Numbers of arrived and abandoned messages at the start of the present round.
    round_began: [u64; 2],
    left_us: u64,
    rest_us: u64,
}

impl DelayWindow {
    pub(super) fn new() -> Self {
        let (changed_us, round_ends, round_began, left_us) = (0, 0, [0; 2], 0);
        let (window_bytes, starts, rest_us) = (WINDOW_BYTES_START, true, REST_US);
        Self { window_bytes, starts, changed_us, round_ends, round_began, left_us, rest_us }
    }

    /// Returns the bytes that may be in flight.
    pub(super) fn window_bytes(&self) -> u64 {
        self.window_bytes
    }

    /// Whether nothing may be sent now. Fresh lines pause while important lines wait in a queue, and during a [trial](ShortestRoundTrip::is_on_trial)
    /// of the shortest round trip.
    pub(super) fn rests(&self, makes_room: bool, at_us: u64) -> bool {
        makes_room && at_us.abs_diff(self.left_us) < self.rest_us
    }

    /// Records that a fresh packet was sent.
    pub(super) fn left(&mut self, makes_room: bool, at_us: u64) {
        self.left_us = at_us;
        self.rest_us = if makes_room { REST_US_MAX.min(2 * self.rest_us) } else { REST_US };
    }

    /// Updates the window once per round: when a round trip has passed and everything handed over at the last update is acknowledged or abandoned. An
    /// unused window is limited to twice the bytes used. If the queue is too long, the window shrinks to the path's rate times its shortest round
    /// trip, so that a long queue drains within one more.
    pub(super) fn move_window(&mut self, look: Look) {
        let [sent, arrived, given_up] = look.messages;
        if self.changed_us == 0 {
            // The first round begins. Nothing sent since is meaningful yet.
            (self.changed_us, self.round_ends, self.round_began) = (look.at_us, sent + 1, [arrived, given_up]);
            return;
        }
        if look.at_us.abs_diff(self.changed_us) < look.rtt_us || arrived + given_up < self.round_ends {
            return;
        }
        let [arrived_before, given_up_before] = self.round_began;
        let (arrives, fails) = (arrived.saturating_sub(arrived_before), given_up.saturating_sub(given_up_before));
        (self.changed_us, self.round_ends, self.round_began) = (look.at_us, sent, [arrived, given_up]);
        // A sender that abandons much exceeds the available rate.
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
    use std::collections::VecDeque;

    use super::*;

    /// A link that carries `rate` bytes per second behind a queue without end, and a sender that always uses its window. Returns the
    /// queueing delay at the end in microseconds, and the bytes carried.
    fn link(rate: u64, base_us: u64, others: u64, seconds: u64) -> (u64, u64) {
        let (mut window, mut shortest) = (DelayWindow::new(), ShortestRoundTrip::default());
        let (mut queue, mut carried) = (0, 0);
        // The handshake.
        shortest.excess_us(base_us, 0, 0);
        for step in 0..seconds * 1_000 {
            let at_us = step * 1_000;
            let in_flight = window.window_bytes();
            // Bytes in transit on the link do not queue.
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
            window.move_window(round);
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
        let mut window = DelayWindow::new();
        (0..=5).for_each(|step| window.move_window(round(false, u64::MAX / 2, step)));
        assert_eq!(window.window_bytes(), 16 * WINDOW_BYTES_START);
        // A link of 250 kbit/s holds 2,500 bytes, and takes 0.6 s for that.
        window.move_window(Look { rtt_us: 615_000, ..round(true, window.window_bytes(), 25) });
        assert!(window.window_bytes() <= 2_500);
    }

    #[test]
    fn the_window_does_not_grow_while_nothing_is_answered() {
        let mut window = DelayWindow::new();
        for step in 1..100 {
            window.move_window(Look { messages: [step, 0, 0], ..round(false, window.window_bytes(), step) });
        }
        assert_eq!(window.window_bytes(), WINDOW_BYTES_START);
        window.move_window(Look { messages: [200, 2, 0], ..round(false, window.window_bytes(), 100) });
        assert_eq!(window.window_bytes(), 2 * WINDOW_BYTES_START);
    }

    #[test]
    fn the_window_grows_neither_by_what_is_given_up_nor_beyond_what_the_transport_lets_leave() {
        let mut window = DelayWindow::new();
        for step in 1..100 {
            window.move_window(Look { messages: [step, 0, step], ..round(false, window.window_bytes(), step) });
        }
        assert_eq!(window.window_bytes(), WINDOW_BYTES_START);
        for step in 100..200 {
            let look = round(false, window.window_bytes(), step);
            window.move_window(Look { cwnd_bytes: 600, messages: [step, step - 99, 99], ..look });
        }
        assert_eq!(window.window_bytes(), 2 * WINDOW_BYTES_START);
        window.move_window(Look { messages: [300, 200, 100], ..round(false, window.window_bytes(), 300) });
        assert_eq!(window.window_bytes(), 4 * WINDOW_BYTES_START);
    }

    #[test]
    fn the_window_does_not_grow_when_messages_take_long_though_the_transport_measures_no_round_trip() {
        let mut window = DelayWindow::new();
        for step in 0..100 {
            window.move_window(Look { took_long: true, ..round(false, window.window_bytes(), step) });
        }
        assert_eq!(window.window_bytes(), WINDOW_BYTES_START);
    }

    #[test]
    fn beside_important_messages_the_window_does_not_double() {
        let mut window = DelayWindow::new();
        for step in 0..10 {
            window.move_window(Look { has_others: true, ..round(false, window.window_bytes(), step) });
        }
        assert!(window.window_bytes() <= 10 * WINDOW_BYTES_MIN, "{}", window.window_bytes());
    }

    #[test]
    fn while_important_lines_wait_others_leave_a_second_apart_and_then_ever_further() {
        let mut window = DelayWindow::new();
        window.left(false, 5_000_000);
        assert!(window.rests(true, 5_900_000) && !window.rests(true, 6_000_000));
        assert!(!window.rests(false, 5_000_001));
        window.left(true, 6_000_000);
        assert!(window.rests(true, 7_900_000) && !window.rests(true, 8_000_000));
        (0..9).for_each(|_| window.left(true, 8_000_000));
        assert!(window.rests(true, 15_900_000) && !window.rests(true, 16_000_000));
        window.left(false, 16_000_000);
        assert!(!window.rests(true, 17_000_000));
    }

    #[test]
    fn whoever_fills_the_queue_makes_it_give_way() {
        let mut window = DelayWindow::new();
        for step in 0..100 {
            window.move_window(round(true, window.window_bytes(), step));
        }
        assert_eq!(window.window_bytes(), WINDOW_BYTES_MIN);
    }

    #[test]
    fn a_sender_that_does_not_use_its_window_gets_no_larger_one() {
        let mut window = DelayWindow::new();
        for step in 0..100 {
            window.move_window(round(false, WINDOW_BYTES_START, step));
        }
        assert_eq!(window.window_bytes(), 4 * WINDOW_BYTES_START);
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
    fn a_path_that_has_become_longer_is_believed_when_fresh_lines_have_made_room_in_vain() {
        let mut shortest = ShortestRoundTrip::default();
        assert_eq!(shortest.excess_us(10_000, 0, 0), 0);
        assert_eq!(shortest.excess_us(50_000, 0, 59_000_000), 40_000);
        assert!(!shortest.is_on_trial());
        assert_eq!(shortest.excess_us(50_000, 0, 60_000_000), 40_000);
        assert!(shortest.is_on_trial());
        assert_eq!(shortest.excess_us(48_000, 0, 60_700_000), 38_000);
        assert_eq!(shortest.excess_us(49_000, 0, 61_400_000), 39_000);
        assert!(shortest.is_on_trial());
        assert_eq!(shortest.excess_us(49_000, 0, 61_500_000), 39_000);
        assert!(!shortest.is_on_trial());
        assert_eq!((shortest.us(), shortest.excess_us(50_000, 0, 62_000_000)), (Some(48_000), 2_000));
    }

    #[test]
    fn a_trial_ends_as_soon_as_a_round_trip_is_as_short_as_before() {
        let mut shortest = ShortestRoundTrip::default();
        shortest.excess_us(80_000, 0, 0);
        shortest.excess_us(300_000, 0, 60_000_000);
        assert!(shortest.is_on_trial());
        shortest.excess_us(89_000, 0, 61_000_000);
        assert!(!shortest.is_on_trial() && shortest.us() == Some(80_000));
        // It lasts for as many rounds as SRTT needs to come down.
        shortest.excess_us(115_000, 0, 121_000_000);
        shortest.excess_us(116_000, 0, 122_700_000);
        assert!(shortest.is_on_trial());
        shortest.excess_us(80_000, 0, 122_800_000);
        // The next one is a minute away.
        shortest.excess_us(300_000, 0, 182_000_000);
        assert!(!shortest.is_on_trial());
    }

    /// Simulates ten minutes of a link of 250 kbit/s and 80 ms with a queue of 20 packets. Important lines take a share of it, each in a packet of
    /// 340 bytes, and fresh ones fill their window. Returns the longest wait of an important line in each minute.
    fn ten_minutes_of_overload(percent: u64) -> Vec<u64> {
        const RATE: u64 = 31_250;
        let (mut window, mut shortest) = (DelayWindow::new(), ShortestRoundTrip::default());
        let (mut queue, mut srtt_us, mut owed) = (0_u64, 80_000, 0);
        let mut longest = vec![0; 10];
        // When fresh ones will have been answered for.
        let mut underway = VecDeque::new();
        let (mut sent, mut arrived, mut measured_us) = (0, 0, 0);
        for at_ms in 0..600_000_u64 {
            let at_us = 1_000_000_000 + at_ms * 1_000;
            queue = queue.saturating_sub(RATE / 1_000);
            owed += RATE * percent / 100;
            while owed >= 340 * 1_000 {
                (owed, queue) = (owed - 340 * 1_000, queue + 340);
            }
            queue = queue.min(20 * 340);
            let rtt_us = 80_000 + queue * 1_000_000 / RATE;
            if at_us >= measured_us {
                // RFC 9260 §6.3.1, C3 and C4.
                (srtt_us, measured_us) = ((srtt_us * 7 + rtt_us) / 8, at_us + rtt_us);
            }
            while underway.front().is_some_and(|&answered_us| answered_us <= at_us) {
                underway.pop_front();
                arrived += 1;
            }
            let excess_us = shortest.excess_us(srtt_us, 0, at_us);
            let too_long = shortest.is_too_long(excess_us) || shortest.is_too_old(rtt_us);
            let used_bytes = underway.len() as u64 * WINDOW_BYTES_MIN;
            window.move_window(Look {
                rtt_us,
                shortest_us: shortest.us().unwrap_or(rtt_us),
                too_long,
                took_long: shortest.is_too_old(rtt_us),
                has_others: true,
                used_bytes,
                cwnd_bytes: WINDOW_BYTES_MAX,
                messages: [sent, arrived, 0],
                at_us,
            });
            if !shortest.is_on_trial()
                && !window.rests(too_long, at_us)
                && used_bytes + WINDOW_BYTES_MIN <= window.window_bytes()
            {
                window.left(too_long, at_us);
                queue += WINDOW_BYTES_MIN;
                sent += 1;
                underway.push_back(at_us + rtt_us);
            }
            let minute = &mut longest[usize::try_from(at_ms / 60_000).unwrap_or_default()];
            *minute = (*minute).max(rtt_us - 80_000);
        }
        longest
    }

    #[test]
    fn a_queue_that_stands_for_minutes_is_not_taken_for_the_path() {
        for percent in [90, 94, 96] {
            let longest = ten_minutes_of_overload(percent);
            assert!(longest.iter().all(|&longest_us| longest_us <= 120_000), "{percent} %: {longest:?}");
        }
    }
}
