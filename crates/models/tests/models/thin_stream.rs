//! The shipped core in the simulator: 100 bytes every 250 ms on each of 64 associations over a path that takes 100 ms for a round
//! trip and loses 5 % of the packets each way, as `festina compare` does over real sockets.

use std::time::Duration;

use festina_models::host::Host;
use festina_models::packet::Packet;
use festina_models::record::Necessity;
use festina_models::sctp_host::{AssociationRecord, SctpHost, SctpSender, observe};
use festina_models::workload::{Greedy, Mice, Periodic, Workload};
use festina_netsim::{Duplex, GilbertElliott, LinkConfig, LossModel, NodeId, Path, Simulation, Topology};
use festina_sctp::{Config, Profile, RetransmissionCause, SackPolicy};
use festina_units::{ByteCount, Instant, Probability};

/// The parameters of a run.
struct Scenario {
    profile: Profile,
    loss: LossModel,
    associations: usize,
    workload: Workload,
    seconds: u64,
    sack: SackPolicy,
    seed: u64,
}

impl Scenario {
    /// The scenario of `festina compare`.
    fn compare(profile: Profile) -> Self {
        Self {
            profile,
            loss: LossModel::Independent(Probability::from_percent(5)),
            associations: 64,
            workload: thin(),
            seconds: 20,
            sack: SackPolicy::default(),
            seed: 1,
        }
    }

    fn simulation(&self) -> (Simulation<Packet, Host>, NodeId, NodeId) {
        let link = LinkConfig { delay: Duration::from_millis(50), loss: self.loss.clone(), ..LinkConfig::default() };
        let Path { topology, sender, receiver, .. } = Topology::path(&[Duplex::symmetric(link)]);
        let mut config = Config { message_events: true, ..Config::published(self.profile) };
        config.limits.send_buffer_bytes = 64 << 10;
        config.limits.send_low_water_bytes = 32 << 10;
        let mut client = SctpHost::new(sender, self.seed, config.clone()).expect("valid settings");
        for number in 0..self.associations {
            let mut flow = SctpSender::new(receiver, self.workload.clone());
            // Spread over the interval of the thin stream, so that nothing sends in lockstep.
            flow.starts_at = Instant::from_secs(10) + Duration::from_micros(3_906 * number as u64);
            flow.stops_at = Some(flow.starts_at + Duration::from_secs(self.seconds));
            client = client.with_sender(&flow);
        }
        let config = Config { sack: self.sack.clone(), ..config };
        let server = SctpHost::new(receiver, self.seed, config).expect("valid settings").listening();
        (Simulation::new(topology, vec![client.into(), server.into()], self.seed), sender, receiver)
    }

    fn run(&self) -> Vec<AssociationRecord> {
        let (mut simulation, sender, receiver) = self.simulation();
        // Beyond the end, with enough time for exponential backoff.
        simulation.run_until(Instant::from_secs(10 + self.seconds + 300));
        let host = |node| simulation.node(node).as_sctp().expect("both hosts speak SCTP");
        let records = observe(host(sender), host(receiver));
        assert_eq!(records.len(), self.associations);
        records
    }
}

fn thin() -> Workload {
    Workload::Periodic(Periodic { interval: Duration::from_millis(250), size: ByteCount::from_bytes(100) })
}

/// The delays of all messages in ms, sorted; every message must have one.
fn delays_ms(records: &[AssociationRecord]) -> Vec<u64> {
    let messages = records.iter().flat_map(|record| &record.truth.messages);
    let delay = |delay: Duration| u64::try_from(delay.as_millis()).expect("short");
    let mut delays: Vec<u64> =
        messages.map(|message| delay(message.delay().expect("every message is delivered"))).collect();
    delays.sort_unstable();
    delays
}

/// Runs the scenario of `festina compare` with a dozen seeds and compares the results with the figures in its README.
/// Each figure must be within the range of the seeds, give or take a tenth, and within the given per cent of their
/// median.
fn assert_agrees(profile: Profile, [p99_ms, p999_ms]: [u64; 2], [p99_percent, p999_percent]: [u64; 2]) {
    let (mut p99s, mut p999s) = (Vec::new(), Vec::new());
    for seed in 1..=12 {
        let delays = delays_ms(&Scenario { seed, ..Scenario::compare(profile) }.run());
        assert_eq!(delays.len(), 5_120);
        assert_eq!(delays[delays.len() / 2], 50, "half of the messages take the way and no more");
        p99s.push(delays[delays.len() * 99 / 100]);
        p999s.push(delays[delays.len() * 999 / 1_000]);
    }
    for (published, mut got, percent) in [(p99_ms, p99s, p99_percent), (p999_ms, p999s, p999_percent)] {
        got.sort_unstable();
        let (low, median, high) = (got[0], got[6], got[11]);
        assert!(low * 9 <= published * 10 && published * 10 <= high * 11, "{published} ms is none of {got:?}");
        assert!(median.abs_diff(published) * 100 <= published * percent, "{published} ms is far from {median} ms");
    }
}

// With 5,120 messages, five are beyond the 99.9 % quantile; under exponential backoff they lie seconds apart.
#[test]
fn the_standard_has_the_tail_that_it_has_over_real_sockets() {
    assert_agrees(Profile::Rfc9260, [1_101, 2_051], [5, 60]);
}

#[test]
fn petlund_2010_has_the_tail_that_it_has_over_real_sockets() {
    assert_agrees(Profile::Petlund2010, [400, 650], [15, 20]);
}

#[test]
fn festina_has_the_tail_that_it_has_over_real_sockets() {
    assert_agrees(Profile::Festina, [155, 188], [2, 5]);
}

#[test]
fn the_truth_adds_up_to_what_the_core_counts() {
    for &profile in Profile::all() {
        for delay_ms in [0, 200] {
            let every_packets = if delay_ms == 0 { 1 } else { 2 };
            let sack = SackPolicy { delay: Duration::from_millis(delay_ms), every_packets, ..SackPolicy::default() };
            let records = Scenario { sack, seconds: 30, ..Scenario::compare(profile) }.run();
            for record in &records {
                assert_adds_up(record);
            }
            assert!(records.iter().any(|record| !record.truth.retransmissions.is_empty()), "5 % are lost");
        }
    }
}

fn assert_adds_up(record: &AssociationRecord) {
    let (sender, receiver) = (&record.sender.sent, &record.receiver.received);
    let by_cause = |cause| {
        record.truth.retransmissions.iter().filter(|retransmission| retransmission.cause == cause).count() as u64
    };
    assert_eq!(by_cause(RetransmissionCause::Timeout), sender.retransmitted.timeout);
    assert_eq!(by_cause(RetransmissionCause::Fast), sender.retransmitted.fast);
    assert_eq!(by_cause(RetransmissionCause::ReportedBundled), sender.retransmitted.reported_bundled);
    assert_eq!(by_cause(RetransmissionCause::Bundled), sender.retransmitted.bundled);
    assert_eq!(by_cause(RetransmissionCause::Probe), sender.retransmitted.probe);
    assert_eq!(record.truth.first_transmissions, sender.chunks);
    assert_eq!(record.truth.messages.len() as u64, sender.messages);
    assert_eq!(record.truth.duplicates_arrived, receiver.duplicates);
    let delivered = record.truth.messages.iter().filter(|message| message.delivered_at.is_some()).count() as u64;
    assert_eq!(delivered, receiver.messages);
    // Each chunk is one message here. A chunk whose every copy but the last was lost needed each of its retransmissions.
    for message in &record.truth.messages {
        let of_message = record.truth.retransmissions.iter().filter(|resent| resent.sequence == message.sequence);
        let needed = of_message.clone().filter(|resent| resent.necessity == Necessity::Needed).count();
        let delivered_by = message.delivered_by.expect("delivered") as usize;
        assert!(delivered_by <= needed, "message {} arrived by {delivered_by}, needed {needed}", message.sequence);
        for (ordinal, resent) in (1..).zip(of_message) {
            assert_eq!(resent.ordinal, ordinal);
            assert!(resent.previous_sent_at <= resent.at && resent.first_sent_at <= resent.previous_sent_at);
        }
    }
}

#[test]
fn without_loss_and_sack_delay_nothing_is_sent_again_and_every_message_takes_the_way_only() {
    for &profile in Profile::all() {
        let sack = SackPolicy { delay: Duration::ZERO, every_packets: 1, ..SackPolicy::default() };
        let records = Scenario { sack, loss: LossModel::None, associations: 3, ..Scenario::compare(profile) }.run();
        assert!(delays_ms(&records).iter().all(|&delay| delay == 50), "{}", profile.name());
        assert!(
            records
                .iter()
                .all(|record| record.truth.retransmissions.is_empty() && record.truth.duplicates_arrived == 0)
        );
    }
}

#[test]
fn a_receiver_that_delays_its_sacks_makes_the_papers_quick_timers_retransmit_in_vain_and_the_others_not() {
    for &profile in Profile::all() {
        let records = Scenario { loss: LossModel::None, associations: 3, ..Scenario::compare(profile) }.run();
        let retransmissions: Vec<_> = records.iter().flat_map(|record| &record.truth.retransmissions).collect();
        let in_vain = matches!(profile, Profile::Pedersen2006 | Profile::Petlund2010 | Profile::Tlpr);
        assert_eq!(retransmissions.is_empty(), !in_vain, "{}", profile.name());
        assert!(retransmissions.iter().all(|resent| resent.is_spurious()));
    }
}

#[test]
fn a_retransmission_of_what_had_arrived_is_told_from_one_that_was_needed() {
    // The client's 4th packet is its 2nd message; that of the server after the handshake acknowledges the first one.
    let run = |forth: Vec<u64>, back: Vec<u64>| {
        let scenario = Scenario { associations: 1, seconds: 1, ..Scenario::compare(Profile::Rfc9260) };
        let link = |lost| LinkConfig {
            delay: Duration::from_millis(50),
            loss: LossModel::Exact(lost),
            ..LinkConfig::default()
        };
        let path = Topology::path(&[Duplex { forward: link(forth), backward: link(back) }]);
        let config = Config { message_events: true, ..Config::published(scenario.profile) };
        let mut flow = SctpSender::new(path.receiver, thin());
        flow.stops_at = Some(Instant::from_millis(1_100));
        let client = SctpHost::new(path.sender, 1, config.clone()).expect("valid").with_sender(&flow);
        let server = SctpHost::new(path.receiver, 1, config).expect("valid").listening();
        let mut simulation: Simulation<Packet, Host> =
            Simulation::new(path.topology, vec![client.into(), server.into()], 1);
        simulation.run_until(Instant::from_secs(20));
        let host = |node| simulation.node(node).as_sctp().expect("SCTP");
        let mut records = observe(host(path.sender), host(path.receiver));
        let record = records.pop().expect("one association");
        (record.truth.messages[0], record.truth.retransmissions)
    };
    // INIT and COOKIE ECHO come first: the only message is the third packet, and its SACK the third of the server.
    let (message, retransmissions) = run(vec![2], vec![]);
    assert_eq!((message.delivered_by, retransmissions.len()), (Some(1), 1));
    assert_eq!((retransmissions[0].necessity, retransmissions[0].ordinal), (Necessity::Needed, 1));
    assert_eq!(retransmissions[0].cause, RetransmissionCause::Timeout);
    let (message, retransmissions) = run(vec![], vec![2]);
    assert_eq!((message.delivered_by, retransmissions.len()), (Some(0), 1));
    assert_eq!(retransmissions[0].necessity, Necessity::AcknowledgementLost);
    assert!(retransmissions[0].is_spurious());
    let (message, retransmissions) = run(vec![2, 3], vec![]);
    assert_eq!((message.delivered_by, retransmissions.len()), (Some(2), 2));
    assert!(retransmissions.iter().all(|resent| resent.necessity == Necessity::Needed));
    assert_eq!((retransmissions[0].arrived_at, retransmissions[1].ordinal), (None, 2));
}

#[test]
fn the_same_seed_gives_the_same_records_and_another_seed_others() {
    let run = |seed| {
        let loss = LossModel::GilbertElliott(GilbertElliott {
            mean_good: Duration::from_millis(950),
            mean_bad: Duration::from_millis(50),
            loss_in_good: Probability::ZERO,
            loss_in_bad: Probability::ONE,
        });
        Scenario { seed, loss, associations: 8, seconds: 30, ..Scenario::compare(Profile::Festina) }.run()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn an_elephant_and_repeated_transfers_deliver_in_spite_of_losses() {
    for workload in [Workload::Greedy(Greedy { size: ByteCount::from_bytes(1_000) }), Workload::Mice(Mice::default())] {
        let scenario = Scenario {
            workload,
            loss: LossModel::Independent(Probability::from_percent(1)),
            associations: 2,
            seconds: 10,
            ..Scenario::compare(Profile::Rfc9260)
        };
        let records = scenario.run();
        let messages = delays_ms(&records).len();
        assert!(messages > 200, "{messages}");
        let last = records[0].truth.messages.last().expect("many messages");
        // A write that was begun in time may wait for room until after the end.
        assert!(last.due_at < Instant::from_secs(20) && last.due_at > Instant::from_secs(19), "{last:?}");
        assert!(records.iter().all(|record| record.sender.sent.retransmitted.total() > 0));
    }
}
