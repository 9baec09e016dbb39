//! Conservation of packets: no link creates packets or loses them uncounted.

use std::rc::Rc;

use festina_netsim::{
    Admission, CoDelConfig, DredConfig, FqCoDelConfig, GilbertElliott, Jitter, JitterShape, Link, LinkConfig,
    LinkPacket, LossModel, PieConfig, QueueDiscipline, QueueLimit, RateTrace, RedConfig, Reordering,
};
use festina_units::{Bandwidth, ByteCount, Duration, Instant, Probability};
use proptest::prelude::*;

/// A packet whose existence can be counted from outside.
#[derive(Debug, Clone)]
struct Token {
    bytes: u64,
    flow: u64,
    is_ecn_capable: bool,
    is_marked: bool,
    /// Held for its reference count only.
    _alive: Rc<()>,
}

impl LinkPacket for Token {
    fn size(&self) -> ByteCount {
        ByteCount::from_bytes(self.bytes)
    }

    fn corrupt(&mut self, _entropy: u64) {
        self.bytes ^= 1;
    }

    fn flow(&self) -> u64 {
        self.flow
    }

    fn is_ecn_capable(&self) -> bool {
        self.is_ecn_capable
    }

    fn mark_congestion(&mut self) {
        assert!(self.is_ecn_capable);
        self.is_marked = true;
    }
}

fn discipline() -> impl Strategy<Value = QueueDiscipline> {
    prop_oneof![
        Just(QueueDiscipline::DropTail),
        Just(QueueDiscipline::Red(RedConfig { weight_log2: 2, ..RedConfig::default() })),
        Just(QueueDiscipline::Dred(DredConfig::goel_2002(ByteCount::from_bytes(5_000)))),
        Just(QueueDiscipline::Pie(PieConfig::default())),
        Just(QueueDiscipline::CoDel(CoDelConfig::default())),
        Just(QueueDiscipline::FqCoDel(FqCoDelConfig { queue_count: 4, ..FqCoDelConfig::default() })),
    ]
}

fn loss() -> impl Strategy<Value = LossModel> {
    prop_oneof![
        Just(LossModel::None),
        Just(LossModel::Independent(Probability::from_percent(10))),
        Just(LossModel::Replay(vec![true, false, false])),
        Just(LossModel::Exact(vec![0, 3, 50])),
        Just(LossModel::GilbertElliott(GilbertElliott {
            mean_good: Duration::from_millis(50),
            mean_bad: Duration::from_millis(10),
            loss_in_good: Probability::ZERO,
            loss_in_bad: Probability::ONE,
        })),
    ]
}

/// Usually none; otherwise up to a few opportunities per millisecond, with silences.
fn trace() -> impl Strategy<Value = Option<RateTrace>> {
    let trace = prop::collection::vec(0_u32..30, 1..60).prop_map(|gaps| {
        let mut now = 0;
        let lines = gaps.into_iter().map(|gap| {
            now += gap.saturating_sub(20);
            format!("{now}\n")
        });
        let text: String = lines.collect();
        RateTrace::parse(&(text + &format!("{}\n", now + 1))).expect("its times never fall")
    });
    prop_oneof![3 => Just(None), 1 => trace.prop_map(Some)]
}

prop_compose! {
    fn config()(
        (rate_kbps, trace) in (prop::option::of(500_u64..20_000), trace()),
        delay_ms in 0_u64..60,
        jitter_ms in 0_u64..30,
        keeps_order: bool,
        is_normal: bool,
        packets in 0_usize..40,
        bytes in prop_oneof![Just(u64::MAX), 0_u64..40_000],
        discipline in discipline(),
        mtu in prop::option::of(900_u64..1_500),
        loss in loss(),
        percents in (0_u32..20, prop_oneof![Just(0_u32), 1_u32..20], 0_u32..20),
    ) -> LinkConfig {
        let spread = Duration::from_millis(jitter_ms);
        LinkConfig {
            rate: rate_kbps.map(|kbps| Bandwidth::from_bits_per_second(kbps * 1_000)),
            trace,
            delay: Duration::from_millis(delay_ms),
            jitter: Jitter {
                shape: if is_normal {
                    JitterShape::Normal { std_dev: spread }
                } else {
                    JitterShape::Uniform { range: spread }
                },
                keeps_order,
            },
            queue: QueueLimit { packets, bytes: ByteCount::from_bytes(bytes), may_exceed: false },
            discipline,
            mtu: mtu.map(ByteCount::from_bytes),
            loss,
            reordering: Reordering {
                probability: Probability::from_percent(percents.0),
                hold_back: Duration::from_millis(15),
            },
            duplication: Probability::from_percent(percents.1),
            corruption: Probability::from_percent(percents.2),
        }
    }
}

/// Packets observed by the test, compared with the link's own counters.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    delivered: u64,
    marked: u64,
    lost: u64,
    refused: u64,
    too_large: u64,
}

impl Seen {
    fn take_arrivals(&mut self, link: &mut Link<Token>, now: Instant) {
        while let Some((at, packet)) = link.poll_timed_delivery(now) {
            assert!(at <= now);
            self.delivered += 1;
            self.marked += u64::from(packet.is_marked);
        }
    }
}

proptest! {
    #[test]
    fn every_offered_or_copied_packet_is_accounted_for(
        config in config(),
        seed: u64,
        sends in prop::collection::vec((0_u64..4_000, 1_u64..1_500, 0_u64..6, any::<bool>()), 1..400),
    ) {
        let alive = Rc::new(());
        let is_plain = config.loss == LossModel::None && config.duplication == Probability::ZERO;
        let mut link = Link::new(config, seed, "link");
        let mut seen = Seen::default();
        let mut now = Instant::ZERO;
        for (pause_us, bytes, flow, is_ecn_capable) in &sends {
            now += Duration::from_micros(*pause_us);
            seen.take_arrivals(&mut link, now);
            let token = Token {
                bytes: *bytes,
                flow: *flow,
                is_ecn_capable: *is_ecn_capable,
                is_marked: false,
                _alive: alive.clone(),
            };
            match link.send(now, token) {
                Admission::Accepted => {}
                Admission::Lost => seen.lost += 1,
                Admission::QueueDropped => seen.refused += 1,
                Admission::TooLarge => seen.too_large += 1,
            }
            // Copies are made late, and lost packets that still wait do not count as inside.
            let held = u64::try_from(Rc::strong_count(&alive)).unwrap() - 1;
            prop_assert!(held <= link.packets_inside() + seen.lost);
        }
        while let Some(deadline) = link.poll_deadline() {
            seen.take_arrivals(&mut link, deadline);
        }
        let counters = link.counters();
        prop_assert_eq!(Rc::strong_count(&alive), 1);
        prop_assert_eq!(link.packets_inside(), 0);
        prop_assert_eq!(link.queue_packets(), 0);
        prop_assert_eq!(link.queue_bytes(), ByteCount::ZERO);
        prop_assert_eq!(counters.offered, sends.len() as u64);
        prop_assert_eq!(counters.delivered, seen.delivered);
        prop_assert_eq!(counters.lost, seen.lost);
        prop_assert_eq!(counters.too_large, seen.too_large);
        if is_plain {
            prop_assert_eq!(counters.congestion_marked, seen.marked);
        }
        prop_assert!(counters.queue_dropped >= seen.refused);
        let accounted = counters.delivered + counters.lost + counters.queue_dropped + counters.too_large;
        prop_assert_eq!(counters.offered + counters.duplicated, accounted);
    }

    #[test]
    fn no_packet_arrives_before_the_deadline_and_rare_polling_changes_nothing(
        config in config(),
        sends in prop::collection::vec((0_u64..4_000, 1_u64..1_500), 1..200),
    ) {
        let arrivals = |polls_often: bool| {
            let mut link: Link<Token> = Link::new(config.clone(), 9, "link");
            let mut arrivals = Vec::new();
            let mut take_next = |link: &mut Link<Token>, deadline| {
                if let Some((at, packet)) = link.poll_timed_delivery(deadline) {
                    assert!(at == deadline || !polls_often, "the deadline was {deadline} instead of {at}");
                    arrivals.push((at, packet.bytes, packet.is_marked));
                }
            };
            let mut now = Instant::ZERO;
            for (pause_us, bytes) in &sends {
                now += Duration::from_micros(*pause_us);
                while let Some(deadline) = link.poll_deadline().filter(|deadline| polls_often && *deadline <= now) {
                    take_next(&mut link, deadline);
                }
                let is_ecn_capable = *bytes % 2 == 0;
                let flow = *bytes % 5;
                let token = Token { bytes: *bytes, flow, is_ecn_capable, is_marked: false, _alive: Rc::new(()) };
                link.send(now, token);
            }
            while let Some(deadline) = link.poll_deadline() {
                take_next(&mut link, deadline);
            }
            arrivals
        };
        prop_assert_eq!(arrivals(true), arrivals(false));
    }
}

#[test]
fn a_managed_link_marks_an_ecn_capable_overload_and_counts_the_marks() {
    let config = LinkConfig {
        rate: Some(Bandwidth::from_bits_per_second(8_000_000)),
        discipline: QueueDiscipline::CoDel(CoDelConfig::default()),
        ..LinkConfig::default()
    };
    let mut link = Link::new(config, 1, "link");
    let mut seen = Seen::default();
    let token = Token { bytes: 1_000, flow: 1, is_ecn_capable: true, is_marked: false, _alive: Rc::new(()) };
    for number in 0..2_000 {
        let now = Instant::from_micros(900 * number);
        seen.take_arrivals(&mut link, now);
        assert_eq!(link.send(now, token.clone()), Admission::Accepted);
    }
    while let Some(deadline) = link.poll_deadline() {
        seen.take_arrivals(&mut link, deadline);
    }
    assert!(seen.marked > 10, "{}", seen.marked);
    assert_eq!(link.counters().congestion_marked, seen.marked);
    assert_eq!((seen.delivered, link.counters().queue_dropped), (2_000, 0));
}
