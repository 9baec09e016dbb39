//! The controller in closed form, and in a loop with a buffer that drains at a given rate.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const BUDGET: Duration = Duration::from_millis(50);

fn full(cwnd_packets: u32) -> Window {
    Window { cwnd_packets, outstanding_packets: cwnd_packets, sacked_packets: 0 }
}

fn ms(millis: u64) -> Option<Duration> {
    Some(Duration::from_millis(millis))
}

#[test]
fn a_and_b_put_just_the_budget_behind_a_full_window() {
    let budget = DelayBudget::new(BUDGET);
    let chosen = |cwnd, rtt_ms| {
        let MinBuf { windows, extra_packets } = budget.min_buf(cwnd, ms(rtt_ms));
        (windows, extra_packets)
    };
    // Half of a window, one and a half, four windows.
    assert_eq!(chosen(20, 100), (1, 10));
    assert_eq!(chosen(30, 100), (1, 15));
    assert_eq!(chosen(10, 40), (2, 2));
    assert_eq!(chosen(8, 12), (5, 1));
    // A packet would wait longer than that.
    assert_eq!(chosen(1, 400), (1, 0));
    assert_eq!(chosen(3, 400), (1, 0));
}

#[test]
fn before_the_first_rtt_only_a_free_window_takes_data() {
    let budget = DelayBudget::new(BUDGET);
    assert_eq!(budget.unsent_packets_max(full(10), None, None), 0);
    assert_eq!(budget.unsent_packets_max(Window { outstanding_packets: 9, ..full(10) }, None, None), 1);
}

#[test]
fn a_cut_of_the_window_lowers_the_limit_at_once() {
    let budget = DelayBudget::new(BUDGET);
    let before = budget.unsent_packets_max(full(40), ms(100), None);
    assert_eq!(before, 20);
    let after = Window { cwnd_packets: 20, outstanding_packets: 20, sacked_packets: 0 };
    assert_eq!(budget.unsent_packets_max(after, ms(100), None), 10);
}

#[test]
fn a_window_that_the_receiver_keeps_closed_is_not_filled_up_with_data_that_waits() {
    let budget = DelayBudget::new(BUDGET);
    // The receiver admits 10 of 40 packets: not the free window but the budget is all that may wait.
    let window = Window { cwnd_packets: 40, outstanding_packets: 10, sacked_packets: 0 };
    assert_eq!(budget.unsent_packets_max(window, ms(100), None), 20);
}

#[test]
fn nothing_is_added_to_what_is_late_already() {
    let budget = DelayBudget::new(BUDGET);
    assert_eq!(budget.unsent_packets_max(full(20), ms(100), ms(50)), 10);
    assert_eq!(budget.unsent_packets_max(full(20), ms(100), ms(51)), 0);
}

#[test]
fn the_share_falls_with_late_packets_to_its_floor_and_rises_again() {
    let mut budget = DelayBudget::new(BUDGET);
    assert_eq!((budget.share_ppm(), budget.is_exhausted()), (1_000_000, false));
    budget.packets_left(Duration::from_millis(51), 1);
    assert!(budget.share_ppm() < 1_000_000);
    budget.packets_left(Duration::from_secs(9), 100);
    assert_eq!((budget.share_ppm(), budget.is_exhausted()), (62_500, true));
    budget.packets_left(BUDGET, 960);
    assert_eq!(budget.share_ppm(), 1_000_000);
}

/// A sender that writes whenever it may. Every packet leaves when its turn comes, at `slowness_percent` of the window's own rate.
struct Loop {
    budget: DelayBudget,
    now_ns: u64,
    next_departure_ns: u64,
    written: VecDeque<u64>,
    waits_ns: Vec<u64>,
    exhausted: bool,
}

impl Loop {
    fn new() -> Self {
        let (written, waits_ns) = (VecDeque::new(), Vec::new());
        Self { budget: DelayBudget::new(BUDGET), now_ns: 0, next_departure_ns: 0, written, waits_ns, exhausted: false }
    }

    fn run(&mut self, packets: u32, cwnd: u32, rtt: Duration, slowness_percent: u64) {
        let gap_ns = saturating_nanos(rtt) / u64::from(cwnd) * slowness_percent / 100;
        for _ in 0..packets {
            // A packet that leaves at once is written at least.
            let unsent_max = self.budget.unsent_packets_max(full(cwnd), Some(rtt), None).max(1);
            while (self.written.len() as u64) < unsent_max {
                self.written.push_back(self.now_ns);
            }
            self.next_departure_ns = self.next_departure_ns.max(self.now_ns) + gap_ns;
            self.now_ns = self.next_departure_ns;
            let wait_ns = self.now_ns - self.written.pop_front().expect("a packet was written");
            self.waits_ns.push(wait_ns);
            self.budget.packets_left(Duration::from_nanos(wait_ns), 1);
            self.exhausted |= self.budget.is_exhausted();
        }
    }

    fn late(&self) -> usize {
        let budget_ns = saturating_nanos(BUDGET);
        self.waits_ns.iter().filter(|&&wait_ns| wait_ns > budget_ns).count()
    }
}

#[test]
fn at_a_steady_rate_nothing_is_late_and_the_budget_is_used() {
    let mut buffer = Loop::new();
    buffer.run(2_000, 20, Duration::from_millis(100), 100);
    assert_eq!(buffer.late(), 0);
    let last = *buffer.waits_ns.last().expect("packets left");
    assert!(last >= saturating_nanos(BUDGET) * 9 / 10, "{last}");
}

#[test]
fn a_rate_below_a_window_per_round_trip_is_learned() {
    let mut buffer = Loop::new();
    buffer.run(20_000, 40, Duration::from_millis(100), 300);
    assert!(!buffer.exhausted && buffer.late() <= 20_000 / 20 + 48, "{}", buffer.late());
    // The budget is still used: more than half of it, though only a third of the nominal rate leaves.
    let last = *buffer.waits_ns.last().expect("packets left");
    assert!(last > saturating_nanos(BUDGET) / 2, "{last}");
}

#[test]
fn after_a_slow_time_the_whole_budget_is_used_again() {
    let mut buffer = Loop::new();
    buffer.run(3_000, 40, Duration::from_millis(100), 400);
    assert!(buffer.budget.share_ppm() < 500_000, "{}", buffer.budget.share_ppm());
    buffer.run(1_500, 40, Duration::from_millis(100), 100);
    assert_eq!(buffer.budget.share_ppm(), 1_000_000);
}

#[test]
fn a_budget_below_the_time_of_one_packet_is_reported_as_exhausted() {
    let mut buffer = Loop::new();
    buffer.run(200, 1, Duration::from_millis(400), 100);
    assert!(buffer.exhausted);
}

proptest! {
    #[test]
    fn at_most_a_twentieth_is_late_whatever_the_rates_do(
        phases in prop::collection::vec((20_u32..2_000, 10_u32..200, 10_u64..200, 50_u64..250), 1..12),
    ) {
        let (mut buffer, mut last_cut) = (Loop::new(), 0);
        for (packets, cwnd, rtt_ms, slowness_percent) in phases {
            buffer.run(packets, cwnd, Duration::from_millis(rtt_ms), slowness_percent);
            last_cut += packets as usize;
            let bound = last_cut / 20 + 48;
            prop_assert!(buffer.exhausted || buffer.late() <= bound, "{} of {last_cut}", buffer.late());
        }
    }

    #[test]
    fn whatever_is_measured_at_most_a_million_packets_wait(
        budget_ns in any::<u64>(),
        cwnd in any::<u32>(),
        srtt_ns in any::<u64>(),
        waits in prop::collection::vec((any::<u64>(), any::<u32>()), 0..20),
    ) {
        let mut budget = DelayBudget::new(Duration::from_nanos(budget_ns));
        for (wait_ns, packets) in waits {
            budget.packets_left(Duration::from_nanos(wait_ns), packets);
            prop_assert!((62_500..=1_000_000).contains(&budget.share_ppm()));
            let unsent = budget.unsent_packets_max(full(cwnd), Some(Duration::from_nanos(srtt_ns)), None);
            prop_assert!(unsent <= 1 << 20, "{unsent}");
        }
    }
}
