//! The window on links with a queue, with and without other traffic.

use super::*;

const PMDCS: usize = 1_200;
const RTO: Duration = Duration::from_secs(1);
const BASE: Duration = Duration::from_millis(80);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A path of this controller on which time goes by.
struct Rig {
    path: Background,
    now: Instant,
}

impl Rig {
    /// Clocks may begin at any time: that of the sockets begins after an hour.
    fn new() -> Self {
        Self { path: Background::new(PMDCS), now: Instant::from_secs(3_600) }
    }

    /// One round with at most `used` bytes in flight, which takes this long; returns the bytes carried.
    fn round_using(&mut self, used: usize, rtt: Duration) -> usize {
        let (sent_at, packets) = (self.now, used.min(self.path.cwnd()).div_ceil(PMDCS).max(1));
        (1..=packets).for_each(|packet| self.path.on_sent(PMDCS, packet * PMDCS));
        self.now += rtt;
        for left in (1..=packets).rev() {
            // One chunk is timed.
            let rtt = (left == packets).then_some(rtt);
            let (now, in_flight_before) = (self.now, left * PMDCS);
            self.path.on_ack(&Ack { sent_at: Some(sent_at), rtt, ..ack(now, in_flight_before) });
        }
        self.now += Duration::from_nanos(1);
        packets * PMDCS
    }

    fn round(&mut self, rtt: Duration) -> usize {
        self.round_using(usize::MAX, rtt)
    }

    /// A link of `rate` bytes per second behind an endless queue. Others take `others` of the rate. Returns the longest queueing delay after the
    /// first seconds, and the bytes carried.
    fn link(&mut self, rate: u64, base: Duration, others: u64, time: Duration) -> (Duration, u64) {
        let (begun, mut carried, mut longest) = (self.now, 0, Duration::ZERO);
        let free = rate.saturating_sub(others).max(1);
        while self.now - begun < time {
            // Bytes in transit on the link do not queue.
            let queued = (self.path.cwnd() as u64).saturating_sub(free * u64::from(base.subsec_millis()) / 1_000);
            let delay = Duration::from_micros(queued * 1_000_000 / free);
            if self.now - begun > ms(5_000) {
                longest = longest.max(delay);
            }
            carried += self.round(base + delay) as u64;
        }
        (longest, carried)
    }
}

fn ack(now: Instant, in_flight_before: usize) -> Ack {
    Ack {
        now,
        bytes: PMDCS,
        in_flight_before,
        sent_at: None,
        rtt: None,
        srtt: Some(BASE),
        in_fast_recovery: false,
        cumulative_advanced: true,
        all_acked: in_flight_before <= PMDCS,
    }
}

#[test]
fn a_link_is_used_without_a_standing_queue() {
    for (rate, base) in [(31_250, BASE), (125_000, BASE), (1_250_000, ms(20)), (12_500_000, ms(10))] {
        let (queue, carried) = Rig::new().link(rate, base, 0, ms(60_000));
        assert!(queue <= QUEUE_HARMLESS.max(base / 2) * 2, "{rate}: {queue:?}");
        assert!(carried * 10 >= rate * 60 * 7, "{rate}: {carried}");
    }
}

#[test]
fn the_window_doubles_until_the_first_late_round_trip_and_a_second_one_drains_the_queue() {
    let mut rig = Rig::new();
    (0..4).for_each(|_| {
        rig.round(BASE);
    });
    assert_eq!(rig.path.cwnd(), 16 * PMDCS);
    rig.round(ms(615));
    assert_eq!(rig.path.cwnd(), 16 * PMDCS, "a busy machine looks like that");
    rig.round(ms(615));
    // A link of 250 kbit/s holds 2,500 bytes, and takes 0.6 s for the window.
    assert!(rig.path.cwnd() <= 2_500, "{}", rig.path.cwnd());
    let cwnd = rig.path.cwnd();
    rig.round(BASE);
    assert_eq!(rig.path.cwnd(), cwnd + PMDCS);
}

#[test]
fn one_queue_shrinks_the_window_once() {
    let mut rig = Rig::new();
    rig.path.cwnd = 100 * PMDCS;
    rig.round(BASE);
    rig.round(ms(130));
    rig.round(ms(130));
    let cwnd = rig.path.cwnd();
    assert!((60 * PMDCS..=140 * PMDCS).contains(&cwnd), "{cwnd}");
    // Their packets were sent before the window shrank.
    let late = Ack { sent_at: Some(rig.now - ms(100)), rtt: Some(ms(130)), ..ack(rig.now, 50 * PMDCS) };
    (0..4).for_each(|_| rig.path.on_ack(&late));
    assert_eq!(rig.path.cwnd(), cwnd);
}

#[test]
fn others_who_fill_the_queue_get_the_link() {
    let mut rig = Rig::new();
    (0..10).for_each(|_| {
        rig.round(BASE);
    });
    for _ in 0..100 {
        rig.round(ms(200));
    }
    assert_eq!(rig.path.cwnd(), PMDCS);
}

#[test]
fn a_window_that_is_not_used_or_not_measured_does_not_grow() {
    let mut rig = Rig::new();
    for _ in 0..100 {
        rig.round_using(PMDCS, BASE);
    }
    assert_eq!(rig.path.cwnd(), 2 * PMDCS);
    for _ in 0..100 {
        rig.path.on_sent(PMDCS, 2 * PMDCS);
        let sent_at = rig.now;
        rig.now += BASE;
        rig.path.on_ack(&Ack { sent_at: Some(sent_at), ..ack(rig.now, 2 * PMDCS) });
    }
    assert_eq!(rig.path.cwnd(), 2 * PMDCS);
}

#[test]
fn losses_leave_four_packets_marks_and_timeouts_one() {
    let mut rig = Rig::new();
    rig.path.cwnd = 10 * PMDCS;
    rig.path.on_congestion(CongestionSign::Loss);
    assert_eq!(rig.path.cwnd(), 7 * PMDCS);
    (0..9).for_each(|_| rig.path.on_congestion(CongestionSign::Loss));
    assert_eq!(rig.path.cwnd(), 4 * PMDCS);
    (0..9).for_each(|_| rig.path.on_congestion(CongestionSign::EcnMark));
    assert_eq!(rig.path.cwnd(), PMDCS);
    rig.path.on_congestion(CongestionSign::Loss);
    assert_eq!(rig.path.cwnd(), PMDCS, "a loss raises no window");
    rig.path.cwnd = 20 * PMDCS;
    rig.path.on_congestion(CongestionSign::Timeout { one_packet: true, in_fast_recovery: false });
    assert_eq!((rig.path.cwnd(), rig.path.ssthresh()), (PMDCS, 10 * PMDCS));
    assert!(rig.path.allows(0) && !rig.path.allows(1));
    rig.round(BASE);
    assert!(rig.path.allows(1));
}

#[test]
fn an_idle_sender_begins_with_four_packets_at_most() {
    let mut rig = Rig::new();
    rig.path.cwnd = 50 * PMDCS;
    rig.path.on_idle(rig.now, ms(900), RTO);
    assert_eq!(rig.path.cwnd(), 50 * PMDCS);
    rig.path.on_idle(rig.now, RTO, RTO);
    assert_eq!(rig.path.cwnd(), 4 * PMDCS);
}

#[test]
fn a_path_that_has_become_longer_is_believed_after_ten_minutes() {
    let mut rig = Rig::new();
    rig.round(ms(10));
    let changed = rig.now;
    while rig.now - changed < ms(290_000) {
        rig.round(ms(50));
    }
    assert_eq!(rig.path.cwnd(), PMDCS, "it may be a queue");
    while rig.now - changed < ms(605_000) {
        rig.round(ms(50));
    }
    assert!(rig.path.cwnd() > 10 * PMDCS, "{}", rig.path.cwnd());
}
