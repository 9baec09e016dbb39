//! `festina compare --state`: the thin streams as state updates, where only the newest matters. How old is the newest state that the
//! receiver has?
//!
//! It runs in the simulator alone: the shipped core, the scenario's network, virtual time.

mod shown;

use std::time::Duration;

use anyhow::Result;
use festina::{Instant, Redundancy, Transport};
use festina_models::host::Host;
use festina_models::packet::{Packet, UDP_HEADER_BYTES};
use festina_models::record::MessageRecord;
use festina_models::sctp_host::{Delivery, SctpHost, SctpSender, observe};
use festina_models::statistics::DelayStatistics;
use festina_models::workload::{Periodic, Workload};
use festina_netsim::{Duplex, Path, Simulation, Topology};
use festina_sctp::Profile;
use festina_units::ByteCount;
use tokio::task::JoinSet;

use super::scenario::{HANDSHAKE_SPACING, Scenario};
use super::totals::Cost;

pub(crate) use shown::{document, figure, page, text};

/// By then handshakes are over, also where the network loses much.
const STARTS_AT: Instant = Instant::from_secs(20);
/// The first updates warm the association up, as in the rest of the comparison, and do not count.
const WARM_UP: Duration = Duration::from_secs(2);
/// The age is looked at so often.
const TICK: Duration = Duration::from_millis(1);

/// How state is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Every update arrives, in order, with the standard's loss recovery.
    ReliableStandard,
    /// Every update arrives, in order, with Festina's loss recovery and without redundancy.
    Reliable,
    /// The same with Festina's redundancy.
    Redundancy,
    /// Each update is worth sending until the next one is due.
    Lifetime,
    /// Each update replaces the previous one.
    Replace,
}

impl Policy {
    /// In the order in which they are shown; the first is what the others are compared with.
    pub(crate) const ALL: [Self; 5] =
        [Self::ReliableStandard, Self::Reliable, Self::Redundancy, Self::Lifetime, Self::Replace];

    /// As tables and figures name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ReliableStandard => "reliable, rfc9260",
            Self::Reliable => "reliable",
            Self::Redundancy => "redundancy",
            Self::Lifetime => "lifetime",
            Self::Replace => "replace",
        }
    }

    fn transport(self, scenario: &Scenario) -> Transport {
        let profile = if self == Self::ReliableStandard { Profile::Rfc9260 } else { Profile::Festina };
        let transport = scenario.client_transport(profile);
        if self == Self::Redundancy {
            return transport;
        }
        transport.with_redundancy(Redundancy::Off)
    }

    /// Reliable updates are ordered, as streams are by default; state that may be abandoned need not wait for older state.
    fn delivery(self, scenario: &Scenario) -> Delivery {
        match self {
            Self::ReliableStandard | Self::Reliable | Self::Redundancy => Delivery::default(),
            Self::Lifetime => Delivery { unordered: true, lifetime: Some(scenario.interval), ..Delivery::default() },
            Self::Replace => Delivery { unordered: true, replaces: true, ..Delivery::default() },
        }
    }
}

/// The results of one policy.
#[derive(Clone, Debug)]
pub(crate) struct StateOutcome {
    pub(crate) policy: Policy,
    /// The age of the newest state that the receivers had, every millisecond from each first one on.
    pub(crate) ages: DelayStatistics,
    /// Updates that were written, and that arrived.
    pub(crate) written: u64,
    pub(crate) delivered: u64,
    /// What both ends sent while updates were written.
    pub(crate) cost: Cost,
}

impl StateOutcome {
    /// The 99th percentile of the age over that of another policy.
    pub(crate) fn p99_over(&self, other: &Self) -> Option<f64> {
        let [own, other] = [self, other].map(|outcome| outcome.ages.quantile(0.99));
        Some(own?.as_secs_f64() / other?.as_secs_f64())
    }

    /// Packets of the sending side for each update.
    pub(crate) fn packets_there(&self) -> Option<f64> {
        self.cost.per_message(self.written).map(|[there, _, _]| there)
    }
}

/// Runs the scenario with each policy, at the same time.
pub(crate) async fn run(scenario: &Scenario) -> Result<Vec<StateOutcome>> {
    let mut running = JoinSet::new();
    for (index, policy) in Policy::ALL.into_iter().enumerate() {
        let scenario = scenario.clone();
        running.spawn_blocking(move || anyhow::Ok((index, simulate(&scenario, policy)?)));
    }
    let mut outcomes = Vec::new();
    while let Some(outcome) = running.join_next().await {
        outcomes.push(outcome??);
    }
    outcomes.sort_by_key(|(index, _)| *index);
    Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
}

fn simulate(scenario: &Scenario, policy: Policy) -> Result<StateOutcome> {
    let Path { topology, sender, receiver, .. } = Topology::path(&[Duplex::symmetric(scenario.link()?)]);
    // Only the cost of updates is counted.
    let logging = |transport: Transport| transport.with_heartbeat_interval(None).with_message_events(true).into_core();
    let mut client = SctpHost::new(sender, scenario.seed, logging(policy.transport(scenario)))?;
    let size = ByteCount::from_bytes(scenario.size.into());
    let workload = Workload::Periodic(Periodic { interval: scenario.interval, size });
    let measured_from = STARTS_AT + WARM_UP;
    let stops_at = measured_from + scenario.duration;
    for number in 0..scenario.associations {
        client = client.with_sender(&SctpSender {
            connects_at: Instant::ZERO + HANDSHAKE_SPACING * number,
            starts_at: STARTS_AT + scenario.offset(0, number),
            stops_at: Some(stops_at),
            message_bytes_max: usize::try_from(scenario.size)?,
            delivery: policy.delivery(scenario),
            ..SctpSender::new(receiver, workload.clone())
        });
    }
    let server = SctpHost::new(receiver, scenario.seed, logging(scenario.server_transport()))?.listening();
    let links = [(sender, receiver), (receiver, sender)]
        .map(|(from, to)| topology.route(from, to).expect("a path joins both ends")[0]);
    let mut simulation: Simulation<Packet, Host> =
        Simulation::new(topology, vec![client.into(), server.into()], scenario.seed);
    let cost = |simulation: &Simulation<Packet, Host>| {
        let [there, back] = links.map(|link| simulation.link_counters(link));
        Cost::of(&there, &back, UDP_HEADER_BYTES)
    };
    simulation.run_until(measured_from);
    let before = cost(&simulation);
    simulation.run_until(stops_at);
    let after = cost(&simulation);
    simulation.run_until(stops_at + scenario.drain);
    let host = |node| simulation.node(node).as_sctp().expect("both hosts speak SCTP");
    let (mut ages, mut written, mut delivered) = (DelayStatistics::new(), 0, 0);
    for record in observe(host(sender), host(receiver)) {
        let messages = &record.truth.messages;
        note_ages(messages, [measured_from, stops_at], &mut ages);
        let counted = || messages.iter().filter(|message| message.due_at >= measured_from);
        written += counted().count() as u64;
        delivered += counted().filter(|message| message.delivered_at.is_some()).count() as u64;
    }
    Ok(StateOutcome { policy, ages, written, delivered, cost: after - before })
}

/// Records how old the newest state is that the receiver has, tick by tick between two times, as soon as it has any.
fn note_ages(messages: &[MessageRecord], [from, end]: [Instant; 2], ages: &mut DelayStatistics) {
    let mut arrivals: Vec<(Instant, Instant)> =
        messages.iter().filter_map(|message| Some((message.delivered_at?, message.due_at))).collect();
    arrivals.sort_unstable();
    let Some(&(first_at, mut newest)) = arrivals.first() else { return };
    let mut now = first_at.max(from);
    let mut arrivals = arrivals.into_iter().peekable();
    while now < end {
        while let Some((_, due_at)) = arrivals.next_if(|(at, _)| *at <= now) {
            newest = newest.max(due_at);
        }
        ages.record(now - newest);
        now += TICK;
    }
}

#[cfg(test)]
mod tests {
    use festina_units::Probability;

    use super::*;
    use crate::compare::scenario::tests::default_scenario;

    fn brief() -> Scenario {
        let interval = Duration::from_millis(33);
        Scenario { associations: 8, duration: Duration::from_secs(20), interval, ..default_scenario() }
    }

    fn outcome(scenario: &Scenario, policy: Policy) -> StateOutcome {
        simulate(scenario, policy).expect("a sound scenario")
    }

    #[test]
    fn without_loss_the_newest_state_is_as_old_as_the_way_and_up_to_an_interval_more() {
        let scenario = Scenario { loss: Probability::ZERO, ..brief() };
        for policy in Policy::ALL {
            let StateOutcome { ages, written, .. } = outcome(&scenario, policy);
            let [min, max] = [ages.min(), ages.max()].map(|age| age.expect("there are ages").as_millis());
            assert!((50..=51).contains(&min) && (81..=83).contains(&max), "{policy:?}: {min} to {max} ms");
            assert!((8 * 606..=8 * 607).contains(&written), "{policy:?}: {written}");
        }
    }

    #[test]
    fn at_5_per_cent_loss_and_30_hz_replacing_keeps_state_young_at_no_more_packets_than_messages() {
        let [standard, replace] = [Policy::ReliableStandard, Policy::Replace].map(|policy| outcome(&brief(), policy));
        let ratio = replace.p99_over(&standard).expect("both have ages");
        assert!(ratio <= 0.6, "{ratio}");
        let packets = replace.packets_there().expect("there are messages");
        assert!(packets <= 1.0, "{packets}");
    }

    #[test]
    fn reliable_updates_arrive_all_and_the_same_seed_gives_the_same_ages() {
        let run = || outcome(&brief(), Policy::Reliable);
        let (first, second) = (run(), run());
        assert_eq!(first.delivered, first.written);
        assert_eq!((first.ages.mean(), first.cost), (second.ages.mean(), second.cost));
    }

    #[test]
    fn an_older_state_that_arrives_late_makes_nothing_younger_or_older() {
        let at = Instant::from_millis;
        let message = |sequence, due_ms, delivered_ms| MessageRecord {
            sequence,
            bytes: 1,
            due_at: at(due_ms),
            sent_at: at(due_ms),
            lifetime: None,
            left_at: None,
            arrived_at: None,
            delivered_at: Some(at(delivered_ms)),
            delivered_by: None,
        };
        let ages = |messages: &[MessageRecord]| {
            let mut ages = DelayStatistics::new();
            note_ages(messages, [at(0), at(40)], &mut ages);
            (ages.count(), ages.min(), ages.max())
        };
        let ms = |millis| Some(Duration::from_millis(millis));
        let in_order = [message(0, 0, 10), message(2, 20, 25)];
        assert_eq!(ages(&in_order), (30, ms(5), ms(24)));
        assert_eq!(ages(&[message(0, 0, 10), message(1, 10, 30), message(2, 20, 25)]), (30, ms(5), ms(24)));
    }
}
