use festina_units::{Duration, Probability};

use super::*;

/// An item identified by its flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Item {
    flow: u64,
    is_capable: bool,
    is_marked: bool,
}

pub(super) fn item(is_capable: bool) -> Item {
    Item { flow: 0, is_capable, is_marked: false }
}

fn of_flow(flow: u64) -> Item {
    Item { flow, is_capable: false, is_marked: false }
}

impl Queueable for Item {
    fn flow(&self) -> u64 {
        self.flow
    }

    fn is_ecn_capable(&self) -> bool {
        self.is_capable
    }

    fn mark_congestion(&mut self) {
        self.is_marked = true;
    }
}

const fn size(bytes: u64) -> ByteCount {
    ByteCount::from_bytes(bytes)
}

fn queue(limit: QueueLimit, discipline: QueueDiscipline) -> Queue<Item> {
    Queue::new(limit, discipline, Some(Bandwidth::from_bits_per_second(12_000_000)), 1, "queue")
}

#[test]
fn a_queue_in_packets_ignores_sizes() {
    let mut queue = queue(QueueLimit::packets(2), QueueDiscipline::DropTail);
    assert!(queue.offer(Instant::ZERO, size(1_000_000), of_flow(1)).is_ok());
    assert!(queue.offer(Instant::ZERO, size(0), of_flow(2)).is_ok());
    assert_eq!(queue.offer(Instant::ZERO, size(0), of_flow(3)), Err(of_flow(3)));
    assert_eq!(queue.pop(Instant::ZERO), Some((size(1_000_000), of_flow(1))));
    assert!(queue.offer(Instant::ZERO, size(u64::MAX), of_flow(4)).is_ok());
    assert_eq!(queue.len(), 2);
}

#[test]
fn a_queue_in_bytes_may_exceed_its_limit_by_the_last_packet_and_then_drops_small_ones_too() {
    for (may_exceed, admitted) in [(false, [true, false, true, true]), (true, [true, true, false, false])] {
        let limit = QueueLimit { may_exceed, ..QueueLimit::bytes(size(100)) };
        let mut queue = queue(limit, QueueDiscipline::DropTail);
        let taken = [60, 90, 10, 20].map(|bytes| queue.offer(Instant::ZERO, size(bytes), of_flow(bytes)).is_ok());
        assert_eq!(taken, admitted);
    }
    assert_eq!(
        QueueLimit::bytes_as_dummynet(size(100)),
        QueueLimit { may_exceed: true, ..QueueLimit::bytes(size(100)) }
    );
}

#[test]
fn a_queue_in_bytes_may_be_filled_to_the_brim() {
    let mut queue = queue(QueueLimit::bytes(size(100)), QueueDiscipline::DropTail);
    assert!(queue.offer(Instant::ZERO, size(60), of_flow(1)).is_ok());
    assert!(queue.offer(Instant::ZERO, size(41), of_flow(2)).is_err());
    assert!(queue.offer(Instant::ZERO, size(40), of_flow(3)).is_ok());
    assert_eq!(queue.bytes(), size(100));
    assert_eq!(queue.pop(Instant::ZERO), Some((size(60), of_flow(1))));
    assert_eq!(queue.pop(Instant::ZERO), Some((size(40), of_flow(3))));
    assert_eq!(queue.pop(Instant::ZERO), None);
    assert_eq!(queue.bytes(), ByteCount::ZERO);
}

#[test]
fn a_signal_marks_ecn_capable_items_and_drops_others() {
    let config = DredConfig { probability_min: Probability::ONE, ..DredConfig::goel_2002(size(10)) };
    let mut queue = queue(QueueLimit::default(), QueueDiscipline::Dred(config));
    assert!(queue.offer(Instant::ZERO, size(11), item(true)).is_ok());
    assert_eq!(queue.offer(Instant::ZERO, size(1), item(false)), Err(item(false)));
    assert!(queue.offer(Instant::ZERO, size(1), item(true)).is_ok());
    assert_eq!(queue.marked(), 1);
    assert_eq!(queue.pop(Instant::ZERO).map(|(_, item)| item.is_marked), Some(false));
    assert_eq!(queue.pop(Instant::ZERO).map(|(_, item)| item.is_marked), Some(true));
}

#[test]
fn every_discipline_lets_a_lone_packet_pass() {
    for discipline in disciplines() {
        let mut queue = queue(QueueLimit::packets(10), discipline);
        for second in 0..1_000 {
            let now = Instant::from_secs(second);
            assert_eq!(queue.pass(now, size(1_500), item(false)), Ok((size(1_500), item(false))), "{discipline:?}");
        }
    }
}

fn disciplines() -> [QueueDiscipline; 6] {
    [
        QueueDiscipline::DropTail,
        QueueDiscipline::Red(RedConfig::default()),
        QueueDiscipline::Dred(DredConfig::goel_2002(size(15_000))),
        QueueDiscipline::Pie(PieConfig::default()),
        QueueDiscipline::CoDel(CoDelConfig::default()),
        QueueDiscipline::FqCoDel(FqCoDelConfig::default()),
    ]
}

/// Offers 1500 bytes per 0.9 ms to a queue that serves 1500 bytes per ms, and returns the maximum length.
#[test]
fn active_management_keeps_the_queue_of_an_overload_shorter_than_drop_tail() {
    for discipline in disciplines() {
        let mut queue = queue(QueueLimit::packets(1_000), discipline);
        let (mut arrival, mut departure) = (Instant::ZERO, Instant::ZERO);
        let (mut offered, mut refused, mut served, mut dropped) = (0, 0, 0, 0);
        let mut late_total = 0;
        while arrival < Instant::from_secs(60) {
            if arrival <= departure {
                offered += 1;
                refused += usize::from(queue.offer(arrival, size(1_500), item(false)).is_err());
                arrival += Duration::from_micros(900);
            } else {
                served += usize::from(queue.pop(departure).is_some());
                departure += Duration::from_millis(1);
            }
            dropped += queue.take_dropped().count();
            late_total += if arrival > Instant::from_secs(50) { queue.len() } else { 0 };
        }
        assert_eq!(offered, served + refused + dropped + queue.len(), "{discipline:?}");
        let late_mean = late_total / 21_111;
        let is_managed = discipline != QueueDiscipline::DropTail;
        assert_eq!(late_mean < 200, is_managed, "{discipline:?}: {late_mean} packets wait");
        assert!(served > 59_000, "{discipline:?}: the transmitter was idle, {served} served");
    }
}

#[test]
fn fair_queueing_serves_a_thin_flow_at_once_beside_a_thick_one() {
    let mut queue = queue(QueueLimit::packets(1_000), QueueDiscipline::FqCoDel(FqCoDelConfig::default()));
    for _ in 0..100 {
        assert!(queue.offer(Instant::ZERO, size(1_500), of_flow(1)).is_ok());
    }
    for _ in 0..10 {
        assert_eq!(queue.pop(Instant::ZERO).map(|(_, item)| item.flow), Some(1));
    }
    assert!(queue.offer(Instant::ZERO, size(100), of_flow(2)).is_ok());
    // The thick flow may use the rest of its quantum at most once.
    let next_two: Vec<_> = (0..2).filter_map(|_| queue.pop(Instant::ZERO)).map(|(_, item)| item.flow).collect();
    assert!(next_two.contains(&2), "{next_two:?}");
}

#[test]
fn fair_queueing_takes_a_flow_for_new_again_once_the_transmitter_was_idle() {
    let mut queue = queue(QueueLimit::packets(1_000), QueueDiscipline::FqCoDel(FqCoDelConfig::default()));
    for second in 0..2 {
        // Each uses all but 14 bytes of its quantum; a flow that were still listed would then be in debt.
        assert!(queue.pass(Instant::from_secs(second), size(1_500), of_flow(1)).is_ok());
    }
    assert!(queue.offer(Instant::from_secs(2), size(100), of_flow(1)).is_ok());
    assert!(queue.offer(Instant::from_secs(2), size(100), of_flow(2)).is_ok());
    assert_eq!(queue.pop(Instant::from_secs(2)).map(|(_, item)| item.flow), Some(1));
}

#[test]
fn fair_queueing_divides_by_bytes() {
    let mut queue = queue(QueueLimit::packets(10_000), QueueDiscipline::FqCoDel(FqCoDelConfig::default()));
    for _ in 0..1_000 {
        assert!(queue.offer(Instant::ZERO, size(1_500), of_flow(1)).is_ok());
        assert!(queue.offer(Instant::ZERO, size(300), of_flow(2)).is_ok());
    }
    let mut served = [0; 3];
    for _ in 0..600 {
        let (size, item) = queue.pop(Instant::ZERO).expect("there is more");
        served[usize::try_from(item.flow).expect("small")] += size.bytes();
    }
    assert!(served[1].abs_diff(served[2]) <= 3_100, "{served:?}");
}

#[test]
fn fair_queueing_makes_room_in_the_longest_queue() {
    let mut queue = queue(QueueLimit::packets(100), QueueDiscipline::FqCoDel(FqCoDelConfig::default()));
    assert!(queue.offer(Instant::ZERO, size(100), of_flow(2)).is_ok());
    for _ in 0..100 {
        assert!(queue.offer(Instant::ZERO, size(1_500), of_flow(1)).is_ok());
    }
    let dropped: Vec<_> = queue.take_dropped().map(|item| item.flow).collect();
    assert_eq!(dropped, [1; 50]);
    assert_eq!(queue.len(), 51);
    let flows: Vec<_> = std::iter::from_fn(|| queue.pop(Instant::ZERO)).map(|(_, item)| item.flow).collect();
    assert_eq!(flows.iter().filter(|flow| **flow == 2).count(), 1);
}

#[test]
fn marking_is_preferred_to_dropping_by_every_managed_discipline() {
    for discipline in disciplines().into_iter().skip(1) {
        let mut queue = queue(QueueLimit::packets(1_000), discipline);
        let mut offered_at = Instant::ZERO;
        for _ in 0..10_000 {
            offered_at += Duration::from_millis(1);
            // Keeps the queue at 17 packets and as many milliseconds, between calm and emergency.
            while queue.len() < 17 {
                assert!(queue.offer(offered_at, size(1_500), item(true)).is_ok(), "{discipline:?}");
            }
            queue.pop(offered_at);
        }
        assert!(queue.marked() > 0, "{discipline:?}");
        assert_eq!(queue.take_dropped().count(), 0, "{discipline:?}");
    }
}
