//! The tail of the delivery delay under Festina, compared with the best that a sender can reach with an unmodified
//! receiver, which delays SACKs by 200 ms: the shipped core over a simulated path, one message of 100 bytes per
//! interval.

use std::time::Duration;

use festina_models::host::Host;
use festina_models::packet::Packet;
use festina_models::record::{Necessity, RetransmissionRecord};
use festina_models::sctp_host::{AssociationRecord, SctpHost, SctpSender, observe};
use festina_models::workload::{Periodic, Workload};
use festina_netsim::{
    Duplex, GilbertElliott, Jitter, JitterShape, LinkConfig, LossModel, Path, RandomStream, Reordering, Simulation,
    Topology,
};
use festina_recovery::redundancy::Redundancy;
use festina_sctp::{Config, Profile, RetransmissionCause};
use festina_units::{ByteCount, Instant, Probability};

/// A stream over a path, by default that of the comparisons: every 250 ms, round trip 100 ms, 5 % lost each way.
struct Scenario {
    profile: Profile,
    redundancy: Redundancy,
    interval: Duration,
    rtt: Duration,
    loss: LossModel,
    messages: u32,
    link: LinkConfig,
    /// Whether an association ends after a long silence of the peer, as by default in the profile.
    gives_up: bool,
}

/// The results of a run.
struct Outcome {
    /// Without those of the warm-up.
    delays: Vec<Duration>,
    messages: u64,
    packets: u64,
    packets_of_both: u64,
    bytes_of_both: u64,
    records: Vec<AssociationRecord>,
}

const SEEDS: u64 = 4;

/// IPv4 and UDP.
const LOWER_HEADERS_BYTES: u64 = 28;

/// Messages of each stream whose delays do not count: the sender learns how much is lost.
const WARM_UP_MESSAGES: usize = 250;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl Scenario {
    fn new(profile: Profile) -> Self {
        Self {
            profile,
            redundancy: profile.mechanisms().redundancy,
            interval: ms(250),
            rtt: ms(100),
            loss: LossModel::Independent(Probability::from_percent(5)),
            messages: 5_000,
            link: LinkConfig::default(),
            gives_up: true,
        }
    }

    fn every(interval_ms: u64) -> Self {
        Self { interval: ms(interval_ms), ..Self::new(Profile::Festina) }
    }

    fn run(&self) -> Outcome {
        let records: Vec<_> = (1..=SEEDS).flat_map(|seed| self.run_seed(seed, &self.loss)).collect();
        let messages = records.iter().flat_map(|record| record.truth.messages.iter().skip(WARM_UP_MESSAGES));
        let mut delays: Vec<_> = messages.map(|message| message.delay().expect("every message is delivered")).collect();
        delays.sort_unstable();
        let messages = records.iter().map(|record| record.truth.messages.len() as u64).sum();
        let (sent, answered) = (
            |record: &AssociationRecord| record.sender.sent.clone(),
            |record: &AssociationRecord| record.receiver.sent.clone(),
        );
        Outcome {
            delays,
            messages,
            packets: records.iter().map(|record| sent(record).packets).sum(),
            packets_of_both: records.iter().map(|record| sent(record).packets + answered(record).packets).sum(),
            bytes_of_both: records.iter().map(|record| sent(record).bytes + answered(record).bytes).sum(),
            records,
        }
    }

    fn run_seed(&self, seed: u64, loss: &LossModel) -> Vec<AssociationRecord> {
        let link = LinkConfig { delay: self.rtt / 2, loss: loss.clone(), ..self.link.clone() };
        let Path { topology, sender, receiver, .. } = Topology::path(&[Duplex::symmetric(link)]);
        let mut config = Config { message_events: true, ..Config::published(self.profile) };
        config.mechanisms.redundancy = self.redundancy;
        let mut server = Config { message_events: true, ..Config::default() };
        if !self.gives_up {
            (config.peer_timeout, server.peer_timeout) = (None, None);
        }
        let size = ByteCount::from_bytes(100);
        let mut flow = SctpSender::new(receiver, Workload::Periodic(Periodic { interval: self.interval, size }));
        // Slightly off the multiples of the round trip, so that no acknowledgement coincides with a message.
        flow.starts_at = Instant::from_secs(10);
        flow.stops_at = Some(flow.starts_at + self.interval * self.messages);
        let client = SctpHost::new(sender, seed, config).expect("valid settings").with_sender(&flow);
        let server = SctpHost::new(receiver, seed, server).expect("valid settings").listening();
        let mut simulation: Simulation<Packet, Host> =
            Simulation::new(topology, vec![client.into(), server.into()], seed);
        simulation.run_until(flow.starts_at + self.interval * self.messages + Duration::from_secs(200));
        let host = |node| simulation.node(node).as_sctp().expect("SCTP");
        observe(host(sender), host(receiver))
    }
}

impl Outcome {
    fn quantile_ms(&self, per_mille: usize) -> u128 {
        quantile(&self.delays, per_mille).as_millis()
    }

    /// p99 and p99.9.
    fn tail_ms(&self) -> [u128; 2] {
        [990, 999].map(|per_mille| self.quantile_ms(per_mille))
    }

    fn packets_per_thousand_messages(&self) -> u64 {
        self.packets * 1_000 / self.messages
    }

    fn retransmissions(&self) -> impl Iterator<Item = &RetransmissionRecord> {
        self.records.iter().flat_map(|record| &record.truth.retransmissions)
    }

    /// Returns the spurious retransmissions, except intended copies, that waiting for an answer would have avoided.
    fn avoidable_per_thousand_packets(&self) -> u64 {
        let avoidable = self.retransmissions().filter(|resent| {
            let known = resent.necessity != Necessity::AcknowledgementLost;
            let is_copy = resent.cause.is_bundled() || resent.cause == RetransmissionCause::Copy;
            !is_copy && resent.is_spurious() && known
        });
        avoidable.count() as u64 * 1_000 / self.packets
    }
}

fn quantile(sorted: &[Duration], per_mille: usize) -> Duration {
    sorted[sorted.len() * per_mille / 1_000]
}

#[test]
fn four_messages_a_second_over_5_percent_loss_arrive_within_158_and_165_ms_for_21_percent_more_packets() {
    let outcome = Scenario { messages: 15_000, ..Scenario::every(250) }.run();
    let [p99, p999] = outcome.tail_ms();
    assert!(p99 <= 158 && p999 <= 165, "{p99} and {p999} ms");
    assert!(outcome.packets_per_thousand_messages() <= 1_210, "{}", outcome.packets_per_thousand_messages());
    assert_eq!(outcome.avoidable_per_thousand_packets(), 0);
}

#[test]
fn denser_streams_repair_a_loss_with_their_next_packet_at_no_packet_more() {
    for (interval_ms, rtt_ms, p99_ms, p999_ms) in
        [(20, 100, 70, 90), (50, 100, 100, 150), (100, 100, 155, 260), (20, 400, 220, 245), (50, 200, 150, 200)]
    {
        let outcome = Scenario { rtt: ms(rtt_ms), ..Scenario::every(interval_ms) }.run();
        let [p99, p999] = outcome.tail_ms();
        assert!(p99 <= p99_ms && p999 <= p999_ms, "{interval_ms} ms over {rtt_ms} ms: {p99} and {p999} ms");
        assert!(outcome.packets_per_thousand_messages() <= 1_030, "{}", outcome.packets_per_thousand_messages());
        assert_eq!(outcome.avoidable_per_thousand_packets(), 0);
    }
}

/// Bytes and packets of both ends per thousand that RFC 9260 needs for the same messages.
fn cost_per_thousand(scenario: &Scenario) -> [u64; 2] {
    let outcome = scenario.run();
    let plain =
        Scenario { loss: scenario.loss.clone(), messages: scenario.messages, ..Scenario::new(Profile::Rfc9260) };
    let plain = Scenario { interval: scenario.interval, gives_up: scenario.gives_up, ..plain }.run();
    let ratio = |ours: u64, theirs: u64| ours * 1_000 / theirs;
    let bytes = |outcome: &Outcome| outcome.bytes_of_both + LOWER_HEADERS_BYTES * outcome.packets_of_both;
    [ratio(bytes(&outcome), bytes(&plain)), ratio(outcome.packets_of_both, plain.packets_of_both)]
}

#[test]
fn where_nothing_is_lost_a_message_costs_what_it_costs_with_the_standard_and_with_1_percent_twice_the_bytes() {
    for interval_ms in [10, 20, 50, 100, 250, 1_000] {
        let lossless = Scenario { loss: LossModel::None, gives_up: false, ..Scenario::every(interval_ms) };
        let [bytes, packets] = cost_per_thousand(&Scenario { messages: 1_000, ..lossless });
        assert!(bytes <= 1_020 && packets <= 1_050, "{interval_ms} ms: {bytes} and {packets}");
        let loss = LossModel::Independent(Probability::from_percent(1));
        let [bytes, packets] = cost_per_thousand(&Scenario { loss, gives_up: false, ..Scenario::every(interval_ms) });
        assert!(bytes <= 2_100 && packets <= 1_350, "{interval_ms} ms: {bytes} and {packets}");
    }
}

#[test]
fn no_profile_has_a_shorter_tail() {
    for (interval_ms, loss_percent) in [(20, 5), (50, 10), (100, 5), (250, 2)] {
        let tail = |profile| {
            let loss = LossModel::Independent(Probability::from_percent(loss_percent));
            Scenario {
                profile,
                loss,
                ..Scenario { redundancy: profile.mechanisms().redundancy, ..Scenario::every(interval_ms) }
            }
            .run()
            .tail_ms()
        };
        let festina = tail(Profile::Festina);
        for &profile in Profile::all() {
            let other = tail(profile);
            let worse = festina.iter().zip(other).any(|(ours, theirs)| *ours > theirs + 5);
            assert!(!worse, "{interval_ms} ms, {loss_percent} %: festina {festina:?}, {profile} {other:?}");
        }
    }
}

#[test]
fn a_second_packet_per_message_brings_the_tail_to_75_and_170_ms() {
    let spaced = Scenario { redundancy: Redundancy::SPACED, messages: 15_000, ..Scenario::every(250) };
    let outcome = spaced.run();
    let [p99, p999] = outcome.tail_ms();
    assert!(p99 <= 75 && p999 <= 170, "{p99} and {p999} ms");
    assert!(outcome.packets_per_thousand_messages() <= 2_150, "{}", outcome.packets_per_thousand_messages());
}

#[test]
fn in_bursts_of_loss_the_tail_stays_within_one_and_a_half_round_trips_of_what_the_path_allows() {
    for interval_ms in [250, 100, 20] {
        let scenario = Scenario { messages: 10_000, ..Scenario::every(interval_ms) };
        let channel = GilbertElliott {
            mean_good: ms(2 * 19 * interval_ms),
            mean_bad: ms(2 * interval_ms),
            loss_in_good: Probability::ZERO,
            loss_in_bad: Probability::ONE,
        };
        let (mut delays, mut floors) = (Vec::new(), Vec::new());
        for seed in 1..=SEEDS {
            let end = Instant::from_secs(10) + scenario.interval * scenario.messages + Duration::from_secs(200);
            let outages = channel.outages(end, &mut RandomStream::new(seed, "outages"));
            let records = scenario.run_seed(seed, &LossModel::Outages(outages.clone()));
            for message in records.iter().flat_map(|record| &record.truth.messages) {
                delays.push(message.delay().expect("every message is delivered"));
                let next = outages.partition_point(|outage| outage.end <= message.sent_at);
                let outage = outages.get(next).filter(|outage| outage.start <= message.sent_at);
                let good_at = outage.map_or(message.sent_at, |outage| outage.end);
                floors.push(good_at - message.sent_at + scenario.rtt / 2);
            }
        }
        delays.sort_unstable();
        floors.sort_unstable();
        for per_mille in [990, 999] {
            let (delay, floor) = (quantile(&delays, per_mille), quantile(&floors, per_mille));
            assert!(delay <= floor + scenario.rtt * 3 / 2, "{interval_ms} ms: {delay:?}, floor {floor:?}");
        }
    }
}

#[test]
fn jitter_and_reordering_cause_few_retransmissions_that_waiting_would_have_avoided() {
    let jitter = |keeps_order| LinkConfig {
        // 20 ms for the round trip.
        jitter: Jitter { shape: JitterShape::Normal { std_dev: Duration::from_micros(14_142) }, keeps_order },
        ..LinkConfig::default()
    };
    let reordering = LinkConfig {
        reordering: Reordering { probability: Probability::from_percent(1), hold_back: ms(30) },
        ..LinkConfig::default()
    };
    for (link, limit_per_mille) in [(jitter(true), 50), (jitter(false), 50), (reordering, 40)] {
        for interval_ms in [250, 50, 20] {
            let outcome = Scenario { link: link.clone(), ..Scenario::every(interval_ms) }.run();
            let avoidable = outcome.avoidable_per_thousand_packets();
            assert!(avoidable <= limit_per_mille, "{interval_ms} ms, {link:?}: {avoidable} per mille");
        }
    }
}

#[test]
fn an_outage_of_four_minutes_kills_no_association_not_even_with_timeouts_that_never_back_off() {
    let outage = Instant::from_secs(20)..Instant::from_secs(260);
    for &profile in Profile::all() {
        let scenario = Scenario { messages: 1_200, gives_up: false, ..Scenario::new(profile) };
        let records = scenario.run_seed(1, &LossModel::Outages([outage.clone()].into()));
        let messages = &records[0].truth.messages;
        assert!(messages.len() == 1_200 && messages.iter().all(|message| message.delivered_at.is_some()), "{profile}");
    }
}
