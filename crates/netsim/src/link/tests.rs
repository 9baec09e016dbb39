use festina_units::{Bandwidth, Probability};

use super::*;
use crate::loss::LossModel;
use crate::queue::{CoDelConfig, PieConfig, QueueDiscipline, QueueLimit};
use crate::rate_trace::RateTrace;

const MS: Duration = Duration::from_millis(1);

/// A packet identified by its number, of any size.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Numbered {
    number: u64,
    bytes: u64,
    is_damaged: bool,
}

impl LinkPacket for Numbered {
    fn size(&self) -> ByteCount {
        ByteCount::from_bytes(self.bytes)
    }

    fn corrupt(&mut self, _entropy: u64) {
        self.is_damaged = true;
    }
}

fn packet(number: u64, bytes: u64) -> Numbered {
    Numbered { number, bytes, is_damaged: false }
}

fn link(config: LinkConfig) -> Link<Numbered> {
    Link::new(config, 7, "link")
}

/// Delivers everything, going from deadline to deadline.
fn drain(link: &mut Link<Numbered>) -> Vec<(Instant, Numbered)> {
    let mut arrivals = Vec::new();
    while let Some(deadline) = link.poll_deadline() {
        while let Some(arrival) = link.poll_timed_delivery(deadline) {
            arrivals.push(arrival);
        }
    }
    arrivals
}

/// Offers `count` packets of 1000 bytes, one per millisecond, and takes deliveries as they arrive.
fn run(config: LinkConfig, count: u64) -> (Vec<(Instant, Numbered)>, LinkCounters) {
    let mut link = link(config);
    let mut arrivals = Vec::new();
    for number in 0..count {
        let now = Instant::from_millis(number);
        while let Some(arrival) = link.poll_timed_delivery(now) {
            arrivals.push(arrival);
        }
        link.send(now, packet(number, 1_000));
    }
    arrivals.extend(drain(&mut link));
    assert_eq!(link.packets_inside(), 0);
    (arrivals, link.counters())
}

fn numbers(arrivals: &[(Instant, Numbered)]) -> Vec<u64> {
    arrivals.iter().map(|(_, packet)| packet.number).collect()
}

/// Every impairment at once.
pub(crate) fn hostile() -> LinkConfig {
    LinkConfig {
        rate: Some(Bandwidth::from_bits_per_second(9_000_000)),
        delay: 50 * MS,
        jitter: Jitter { shape: JitterShape::Normal { std_dev: 5 * MS }, keeps_order: false },
        queue: QueueLimit::packets(4),
        loss: LossModel::Independent(Probability::from_percent(5)),
        reordering: Reordering { probability: Probability::from_percent(10), hold_back: 20 * MS },
        duplication: Probability::from_percent(3),
        corruption: Probability::from_percent(2),
        ..LinkConfig::default()
    }
}

#[test]
fn a_perfect_link_delivers_at_once() {
    let mut link = link(LinkConfig::default());
    let now = Instant::from_millis(3);
    assert_eq!(link.send(now, packet(0, 100)), Admission::Accepted);
    assert_eq!(link.poll_deadline(), Some(now));
    assert_eq!(link.poll_delivery(now), Some(packet(0, 100)));
    assert_eq!(link.poll_delivery(now), None);
    assert_eq!(link.poll_deadline(), None);
}

#[test]
fn the_delay_is_exact_to_the_nanosecond() {
    let delay = Duration::from_nanos(50_000_001);
    let mut link = link(LinkConfig { delay, ..LinkConfig::default() });
    link.send(Instant::from_millis(2), packet(0, 100));
    let arrival = Instant::from_millis(2) + delay;
    assert_eq!(link.poll_deadline(), Some(arrival));
    assert_eq!(link.poll_delivery(arrival - Duration::from_nanos(1)), None);
    assert_eq!(link.poll_delivery(arrival), Some(packet(0, 100)));
}

#[test]
fn the_rate_is_obeyed_exactly() {
    let mut link = link(LinkConfig {
        rate: Some(Bandwidth::from_bits_per_second(8_000_000)),
        delay: 10 * MS,
        ..LinkConfig::default()
    });
    for number in 0..100 {
        link.send(Instant::ZERO, packet(number, 1_000));
    }
    let arrivals = drain(&mut link);
    for (number, (at, _)) in (1..).zip(&arrivals) {
        assert_eq!(*at, Instant::from_millis(number + 10));
    }
    assert_eq!(arrivals.len(), 100);
}

#[test]
fn being_polled_late_does_not_change_the_times() {
    let config =
        LinkConfig { rate: Some(Bandwidth::from_bits_per_second(8_000_000)), delay: 10 * MS, ..LinkConfig::default() };
    let mut link = link(config);
    link.send(Instant::ZERO, packet(0, 1_000));
    link.send(Instant::ZERO, packet(1, 1_000));
    let late = Instant::from_secs(1);
    assert_eq!(link.poll_timed_delivery(late), Some((Instant::from_millis(11), packet(0, 1_000))));
    assert_eq!(link.poll_timed_delivery(late), Some((Instant::from_millis(12), packet(1, 1_000))));
}

#[test]
fn a_clock_that_goes_backwards_is_ignored() {
    let mut link = link(LinkConfig { delay: 10 * MS, ..LinkConfig::default() });
    assert_eq!(link.poll_delivery(Instant::from_millis(100)), None);
    link.send(Instant::from_millis(50), packet(0, 1));
    assert_eq!(link.poll_deadline(), Some(Instant::from_millis(110)));
}

#[test]
fn the_packet_in_transmission_does_not_count_towards_the_queue() {
    let mut link = link(LinkConfig {
        rate: Some(Bandwidth::from_bits_per_second(8_000_000)),
        queue: QueueLimit::packets(2),
        ..LinkConfig::default()
    });
    let outcomes: Vec<_> = (0..4).map(|number| link.send(Instant::ZERO, packet(number, 1_000))).collect();
    assert_eq!(outcomes, [Admission::Accepted, Admission::Accepted, Admission::Accepted, Admission::QueueDropped]);
    assert_eq!(link.queue_packets(), 2);
    assert_eq!(link.queue_bytes(), ByteCount::from_bytes(2_000));
    let after_one = Instant::from_millis(1);
    assert_eq!(link.send(after_one, packet(4, 1_000)), Admission::Accepted);
    assert_eq!(numbers(&drain(&mut link)), [0, 1, 2, 4]);
}

#[test]
fn a_queue_in_bytes_drops_packets_that_do_not_fit() {
    let mut link = link(LinkConfig {
        rate: Some(Bandwidth::from_bits_per_second(8_000_000)),
        queue: QueueLimit::bytes(ByteCount::from_bytes(1_500)),
        ..LinkConfig::default()
    });
    for (number, bytes) in (0..).zip([1_000, 1_000, 600, 500]) {
        link.send(Instant::ZERO, packet(number, bytes));
    }
    assert_eq!(numbers(&drain(&mut link)), [0, 1, 3]);
    assert_eq!(link.counters().queue_dropped, 1);
}

#[test]
fn a_rate_of_zero_delivers_nothing_and_fills_the_queue() {
    let mut link = link(LinkConfig {
        rate: Some(Bandwidth::from_bits_per_second(0)),
        queue: QueueLimit::packets(1),
        ..LinkConfig::default()
    });
    for number in 0..3 {
        link.send(Instant::ZERO, packet(number, 1));
    }
    assert_eq!(link.poll_delivery(Instant::from_secs(1_000_000)), None);
    assert_eq!(link.counters().queue_dropped, 1);
    assert_eq!(link.packets_inside(), 2);
}

#[test]
fn a_link_without_rate_limits_the_packets_it_holds() {
    let mut link = link(LinkConfig { delay: Duration::from_secs(1), ..LinkConfig::default() });
    for number in 0..PROPAGATING_PACKETS_MAX as u64 {
        assert_eq!(link.send(Instant::ZERO, packet(number, 0)), Admission::Accepted);
    }
    assert_eq!(link.send(Instant::ZERO, packet(0, 0)), Admission::QueueDropped);
}

#[test]
fn lost_packets_take_their_time_on_the_transmitter() {
    let mut link = link(LinkConfig {
        rate: Some(Bandwidth::from_bits_per_second(8_000_000)),
        loss: LossModel::Exact(vec![0]),
        ..LinkConfig::default()
    });
    assert_eq!(link.send(Instant::ZERO, packet(0, 1_000)), Admission::Lost);
    assert_eq!(link.send(Instant::ZERO, packet(1, 1_000)), Admission::Accepted);
    assert_eq!(drain(&mut link), [(Instant::from_millis(2), packet(1, 1_000))]);
    assert_eq!(link.counters().lost, 1);
}

#[test]
fn uniform_jitter_stays_within_its_range() {
    let (arrivals, counters) = run(
        LinkConfig {
            delay: 50 * MS,
            jitter: Jitter { shape: JitterShape::Uniform { range: 10 * MS }, keeps_order: false },
            ..LinkConfig::default()
        },
        10_000,
    );
    let delays: Vec<Duration> = arrivals.iter().map(|(at, packet)| *at - Instant::from_millis(packet.number)).collect();
    let shortest = delays.iter().min().copied().expect("there are arrivals");
    let longest = delays.iter().max().copied().expect("there are arrivals");
    assert!(shortest >= 40 * MS && shortest < 41 * MS, "{shortest:?}");
    assert!(longest <= 60 * MS && longest > 59 * MS, "{longest:?}");
    let mean_us = (delays.iter().sum::<Duration>() / 10_000).as_micros();
    assert!((49_800..50_200).contains(&mean_us), "{mean_us}");
    assert!(counters.reordered > 1_000, "{counters:?}");
}

#[test]
fn jitter_that_keeps_the_order_is_first_in_first_out() {
    let (arrivals, counters) = run(
        LinkConfig {
            delay: 50 * MS,
            jitter: Jitter { shape: JitterShape::Normal { std_dev: 20 * MS }, keeps_order: true },
            ..LinkConfig::default()
        },
        10_000,
    );
    assert_eq!(numbers(&arrivals), (0..10_000).collect::<Vec<_>>());
    assert_eq!(counters.reordered, 0);
}

#[test]
fn jitter_beyond_the_delay_delivers_at_once_but_not_before() {
    let (arrivals, _) = run(
        LinkConfig {
            delay: MS,
            jitter: Jitter { shape: JitterShape::Uniform { range: 10 * MS }, keeps_order: false },
            ..LinkConfig::default()
        },
        1_000,
    );
    let sent = |packet: &Numbered| Instant::from_millis(packet.number);
    assert!(arrivals.iter().all(|(at, packet)| *at >= sent(packet)));
    assert!(arrivals.iter().any(|(at, packet)| *at == sent(packet)));
}

#[test]
fn only_held_back_packets_are_overtaken() {
    let config = LinkConfig {
        delay: 50 * MS,
        jitter: Jitter { shape: JitterShape::None, keeps_order: true },
        reordering: Reordering { probability: Probability::from_percent(10), hold_back: Duration::from_micros(3_500) },
        ..LinkConfig::default()
    };
    let (arrivals, counters) = run(config, 10_000);
    let held_back =
        arrivals.iter().filter(|(at, packet)| *at - Instant::from_millis(packet.number) > 50 * MS).count() as u64;
    assert!((900..1_100).contains(&held_back), "{held_back}");
    // All are overtaken except those whose three successors were held back as well.
    assert!(counters.reordered <= held_back);
    assert!(counters.reordered > held_back * 98 / 100);
}

#[test]
fn duplicates_arrive_right_after_their_originals() {
    let (arrivals, counters) =
        run(LinkConfig { delay: 50 * MS, duplication: Probability::from_percent(3), ..LinkConfig::default() }, 10_000);
    assert!((250..350).contains(&counters.duplicated), "{counters:?}");
    assert_eq!(counters.delivered, 10_000 + counters.duplicated);
    assert_eq!(counters.reordered, 0);
    let twins = arrivals.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert_eq!(twins as u64, counters.duplicated);
}

#[test]
fn corruption_damages_its_share() {
    let (arrivals, counters) =
        run(LinkConfig { corruption: Probability::from_percent(2), ..LinkConfig::default() }, 10_000);
    let damaged = arrivals.iter().filter(|(_, packet)| packet.is_damaged).count();
    assert!((150..250).contains(&damaged), "{damaged}");
    assert_eq!(damaged as u64, counters.corrupted);
}

#[test]
fn corruption_of_bytes_flips_exactly_one_bit() {
    for entropy in [0, 1, 77, 12_345_678, u64::MAX] {
        let mut bytes = vec![0u8; 13];
        LinkPacket::corrupt(&mut bytes, entropy);
        assert_eq!(bytes.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    }
    let mut empty = Vec::new();
    LinkPacket::corrupt(&mut empty, 5);
    assert!(empty.is_empty());
}

#[test]
fn every_impairment_happens_and_the_counters_add_up() {
    let (arrivals, counters) = run(hostile(), 10_000);
    assert_eq!(counters.offered, 10_000);
    assert_eq!(counters.offered_bytes, ByteCount::from_bytes(10_000_000));
    assert_eq!(counters.delivered, arrivals.len() as u64);
    assert_eq!(counters.delivered_bytes, ByteCount::from_bytes(counters.delivered * 1_000));
    assert_eq!(counters.offered + counters.duplicated, counters.delivered + counters.lost + counters.queue_dropped);
    for count in [counters.lost, counters.reordered, counters.duplicated, counters.corrupted] {
        assert!(count > 100, "{counters:?}");
    }
}

#[test]
fn an_overloaded_link_delivers_at_its_rate_and_drops_the_rest() {
    let config = LinkConfig {
        rate: Some(Bandwidth::from_bits_per_second(4_000_000)),
        queue: QueueLimit::packets(10),
        ..LinkConfig::default()
    };
    let (arrivals, counters) = run(config, 1_000);
    assert_eq!(counters.delivered, 500 + 10);
    assert_eq!(counters.queue_dropped, 490);
    let gaps_are_even = arrivals.windows(2).all(|pair| pair[1].0 - pair[0].0 == 2 * MS);
    assert!(gaps_are_even);
}

#[test]
fn the_same_seed_gives_the_same_result_and_another_seed_another() {
    let trace = |seed| {
        let mut link = Link::new(hostile(), seed, "link");
        for number in 0..1_000 {
            link.send(Instant::from_millis(number), packet(number, 500));
        }
        drain(&mut link)
    };
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
}

#[test]
fn links_with_different_names_lose_different_packets() {
    let fates = |name| {
        let mut link = Link::new(hostile(), 1, name);
        (0..200).map(|number| link.send(Instant::from_millis(number), packet(number, 10))).collect::<Vec<_>>()
    };
    assert_ne!(fates("forward"), fates("backward"));
}

#[test]
fn switching_one_impairment_on_does_not_shift_another() {
    let lost = |config| {
        let mut link = link(config);
        (0..2_000u64)
            .filter(|number| link.send(Instant::from_millis(*number), packet(*number, 10)) == Admission::Lost)
            .collect::<Vec<_>>()
    };
    let only_loss = LinkConfig { loss: hostile().loss, ..LinkConfig::default() };
    assert_eq!(lost(hostile()), lost(only_loss));
}

#[test]
fn a_new_loss_model_applies_from_the_next_packet_on() {
    let mut link = link(LinkConfig { delay: 10 * MS, ..LinkConfig::default() });
    let offer = |link: &mut Link<Numbered>, number| link.send(Instant::from_millis(number), packet(number, 100));
    assert_eq!(offer(&mut link, 0), Admission::Accepted);
    link.set_loss(LossModel::Independent(Probability::ONE));
    assert_eq!(link.config().loss, LossModel::Independent(Probability::ONE));
    assert_eq!(offer(&mut link, 1), Admission::Lost);
    link.set_loss(LossModel::Exact(vec![1]));
    assert_eq!(
        [2, 3, 4].map(|number| offer(&mut link, number)).map(|fate| fate == Admission::Lost),
        [false, true, false]
    );
    link.set_loss(LossModel::None);
    assert_eq!(offer(&mut link, 5), Admission::Accepted);
    assert_eq!(numbers(&drain(&mut link)), [0, 2, 4, 5]);
}

#[test]
fn a_new_loss_model_does_not_shift_other_impairments() {
    let arrivals = |change: bool| {
        let mut link = link(LinkConfig { loss: LossModel::None, ..hostile() });
        for number in 0..2_000 {
            if change && number % 500 == 250 {
                link.set_loss(LossModel::Independent(Probability::ZERO));
            }
            link.send(Instant::from_millis(number), packet(number, 500));
        }
        drain(&mut link)
    };
    assert_eq!(arrivals(true), arrivals(false));
}

#[test]
fn setting_the_same_loss_model_again_does_not_repeat_its_losses() {
    let mut link = link(LinkConfig::default());
    let mut round = || {
        link.set_loss(LossModel::Independent(Probability::from_percent(50)));
        (0..64).map(|number| link.send(Instant::from_millis(number), packet(number, 10))).collect::<Vec<_>>()
    };
    let (first, second) = (round(), round());
    assert_ne!(first, second);
    assert!(first.contains(&Admission::Lost) && second.contains(&Admission::Lost));
}

#[test]
fn a_new_delay_holds_for_the_packets_sent_from_then_on() {
    let mut link = link(LinkConfig { delay: 10 * MS, ..LinkConfig::default() });
    link.send(Instant::ZERO, packet(0, 100));
    link.set_delay(20 * MS);
    link.send(Instant::ZERO, packet(1, 100));
    let arrivals: Vec<_> = drain(&mut link).into_iter().map(|(at, packet)| (at, packet.number)).collect();
    assert_eq!(arrivals, [(Instant::from_millis(10), 0), (Instant::from_millis(20), 1)]);
}

#[test]
fn packets_larger_than_the_mtu_are_dropped_and_counted() {
    let config = LinkConfig { mtu: Some(ByteCount::from_bytes(1_500)), ..LinkConfig::default() };
    let mut link = link(config);
    assert_eq!(link.send(Instant::ZERO, packet(0, 1_500)), Admission::Accepted);
    assert_eq!(link.send(Instant::ZERO, packet(1, 1_501)), Admission::TooLarge);
    assert_eq!(numbers(&drain(&mut link)), [0]);
    assert_eq!(link.counters().too_large, 1);
    assert_eq!(link.packets_inside(), 0);
}

#[test]
fn a_managed_queue_keeps_the_delay_of_an_overload_near_its_target() {
    let overload = |discipline| {
        let config = LinkConfig {
            rate: Some(Bandwidth::from_bits_per_second(8_000_000)),
            discipline,
            queue: QueueLimit::packets(1_000),
            ..LinkConfig::default()
        };
        let mut link = link(config);
        let mut late_delays = Vec::new();
        for number in 0..60_000 {
            let now = Instant::from_micros(950 * number);
            while let Some((at, arrived)) = link.poll_timed_delivery(now) {
                if at > Instant::from_secs(40) {
                    late_delays.push((at - Instant::from_micros(950 * arrived.number)).as_millis());
                }
            }
            link.send(now, packet(number, 1_000));
        }
        late_delays.sort_unstable();
        (late_delays[late_delays.len() / 2], link.counters().queue_dropped)
    };
    let (unmanaged_ms, _) = overload(QueueDiscipline::DropTail);
    assert!(unmanaged_ms > 900, "{unmanaged_ms} ms");
    for discipline in [QueueDiscipline::CoDel(CoDelConfig::default()), QueueDiscipline::Pie(PieConfig::default())] {
        let (median_ms, dropped) = overload(discipline);
        assert!(median_ms < 40, "{discipline:?}: {median_ms} ms");
        // One packet in twenty is too many.
        assert!((2_000..5_000).contains(&dropped), "{discipline:?}: {dropped}");
    }
}

/// A link that follows a trace with these times in milliseconds.
fn traced(times_ms: &str, queue: QueueLimit, discipline: QueueDiscipline) -> Link<Numbered> {
    let text = times_ms.replace(' ', "\n");
    let trace = RateTrace::parse(&text).expect("it is a trace");
    link(LinkConfig { trace: Some(trace), delay: 10 * MS, queue, discipline, ..LinkConfig::default() })
}

#[test]
fn packets_are_sent_at_the_opportunities_of_a_trace() {
    let mut link = traced("3 3 7 20", QueueLimit::default(), QueueDiscipline::DropTail);
    for number in 0..4 {
        link.send(Instant::ZERO, packet(number, 1_504));
    }
    assert_eq!(link.queue_packets(), 4, "all wait for their opportunity");
    let arrivals: Vec<_> =
        drain(&mut link).into_iter().map(|(at, packet)| (at.as_nanos() / 1_000_000, packet.number)).collect();
    assert_eq!(arrivals, [(13, 0), (13, 1), (17, 2), (30, 3)]);
    // The next rounds begin at 20 and 40 ms; a packet offered at 41 ms has missed only the opportunities before that.
    link.send(Instant::from_millis(41), packet(4, 100));
    link.send(Instant::from_millis(43), packet(5, 100));
    link.send(Instant::from_millis(44), packet(6, 1_600));
    let arrivals: Vec<_> =
        drain(&mut link).into_iter().map(|(at, packet)| (at.as_nanos() / 1_000_000, packet.number)).collect();
    assert_eq!(arrivals, [(53, 4), (53, 5), (70, 6)], "the last one takes the opportunities of 47 and 60 ms");
}

#[test]
fn with_a_trace_the_queue_limit_includes_the_next_packet() {
    let mut link = traced("50", QueueLimit::packets(2), QueueDiscipline::DropTail);
    let admissions = [0, 1, 2].map(|number| link.send(Instant::ZERO, packet(number, 1_504)));
    assert_eq!(admissions, [Admission::Accepted, Admission::Accepted, Admission::QueueDropped]);
    assert_eq!(numbers(&drain(&mut link)), [0, 1]);
}

#[test]
fn queue_management_measures_the_wait_for_a_trace() {
    // 60 ms between opportunities: with two packets waiting the delay stays above CoDel's target.
    let mut link = traced("60", QueueLimit::default(), QueueDiscipline::CoDel(CoDelConfig::default()));
    let mut delivered = 0;
    for number in 0..40 {
        let now = Instant::from_millis(30 * number);
        while link.poll_delivery(now).is_some() {
            delivered += 1;
        }
        link.send(now, packet(number, 1_504));
    }
    assert!(link.counters().queue_dropped > 0);
    assert!((10..=20).contains(&delivered), "{delivered}");
    // After a long silence the state is that of an empty queue.
    let _ = drain(&mut link);
    let dropped = link.counters().queue_dropped;
    link.send(Instant::from_secs(100), packet(99, 1_504));
    assert_eq!(numbers(&drain(&mut link)), [99]);
    assert_eq!(link.counters().queue_dropped, dropped);
}
