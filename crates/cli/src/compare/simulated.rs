//! The comparison in the simulator: the same core, the same messages over the same kind of network, in virtual
//! time. Differences are due to sockets, threads and clocks.

use std::time::Duration;

use anyhow::{Context as _, Result};
use festina::{Instant, Transport};
use festina_models::host::Host;
use festina_models::packet::{Packet, UDP_HEADER_BYTES};
use festina_models::sctp_host::{AssociationRecord, SctpHost, SctpSender, observe};
use festina_models::statistics::DelayStatistics;
use festina_models::workload::{Replay, Workload};
use festina_netsim::{Duplex, LinkId, NodeId, Path, RandomStream, Simulation, Topology};
use festina_sctp::Profile;
use festina_units::ByteCount;
use tokio::task::JoinSet;

use super::progress::Progress;
use super::recorder::HEADER_BYTES;
use super::scenario::{BREATH, HANDSHAKE_MAX, HANDSHAKE_SPACING, POLL_INTERVAL, SETTLE_MAX, Scenario};
use super::totals::{Cost, SentTotals};

/// How often each profile is simulated, each time with another seed: one comparison has but a few messages beyond its
/// 99.9th percentile, so it takes several to tell what to expect of it.
const RUNS_MAX: u64 = 10;
/// No more messages than this are simulated for a profile, which bounds time and memory.
const MESSAGES_MAX: u64 = 1_000_000;

/// Each write is up to this much late, as those of the real senders are, whose timers have slots of a
/// millisecond. Without that, a timeout of one second and the fourth message after a lost one, which come in either order
/// over real sockets, would always come at the same time: a phase effect.
const WRITE_LATENESS_MAX: Duration = Duration::from_millis(1);

/// What the simulator says about one profile.
#[derive(Clone, Debug)]
pub(crate) struct Simulated {
    /// How many runs there were, each as large as the comparison itself.
    pub(crate) runs: u32,
    /// The delays of the messages of all runs.
    pub(crate) delays: DelayStatistics,
    /// The least and the largest 99th percentile of a run.
    pub(crate) p99: Option<(Duration, Duration)>,
    /// The least and the largest 99.9th percentile of a run.
    pub(crate) p999: Option<(Duration, Duration)>,
    /// What the clients of all runs sent while messages were measured.
    sent: SentTotals,
    /// What both ends of all runs sent in that time.
    cost: Cost,
}

impl Simulated {
    /// What a run sent on average.
    pub(crate) fn sent_per_run(&self) -> SentTotals {
        self.sent / self.runs.into()
    }

    /// What both ends sent in a run on average.
    pub(crate) fn cost_per_run(&self) -> Cost {
        self.cost / self.runs.into()
    }

    /// How many messages arrived in a run on average.
    pub(crate) fn messages_per_run(&self) -> u64 {
        self.delays.count().checked_div(self.runs.into()).unwrap_or(0)
    }

    fn of(runs: &[Run]) -> Option<Self> {
        let (sent, cost) = (SentTotals::default(), Cost::default());
        let mut all = Self { runs: 0, delays: DelayStatistics::new(), p99: None, p999: None, sent, cost };
        for run in runs {
            all.runs += 1;
            all.delays.merge(&run.delays);
            all.sent += run.sent;
            all.cost += run.cost;
            widen(&mut all.p99, run.delays.quantile(0.99));
            widen(&mut all.p999, run.delays.quantile(0.999));
        }
        (all.runs > 0).then_some(all)
    }
}

fn widen(range: &mut Option<(Duration, Duration)>, value: Option<Duration>) {
    let Some(value) = value else { return };
    *range = Some(range.map_or((value, value), |(low, high)| (low.min(value), high.max(value))));
}

/// Simulates the scenario for each of its profiles, in their order. `None` where the scenario is too large for that.
pub(super) async fn simulate(scenario: &Scenario, progress: &Progress) -> Result<Vec<Option<Simulated>>> {
    let runs = MESSAGES_MAX.checked_div(scenario.messages()).unwrap_or(0).min(RUNS_MAX);
    progress.stage("simulating the same", Some((runs * scenario.profiles.len() as u64, "runs")));
    let mut done = 0;
    let mut all = Vec::new();
    for profile in &scenario.profiles {
        let mut running = JoinSet::new();
        for number in 0..runs {
            let (scenario, profile) = (scenario.clone(), *profile);
            running.spawn_blocking(move || run(&scenario, profile, scenario.seed.wrapping_add(number)));
        }
        let mut runs = Vec::new();
        while let Some(run) = running.join_next().await {
            runs.push(run.context("a simulation failed")??);
            done += 1;
            progress.reached(done);
        }
        all.push(Simulated::of(&runs));
    }
    Ok(all)
}

/// The measurements of one run.
struct Run {
    delays: DelayStatistics,
    sent: SentTotals,
    cost: Cost,
}

/// Client and server, and the network between them.
struct Bench {
    simulation: Simulation<Packet, Host>,
    client: NodeId,
    server: NodeId,
    /// There and back.
    links: [LinkId; 2],
}

fn run(scenario: &Scenario, profile: Profile, seed: u64) -> Result<Run> {
    // The first pass only finds out when the last association is ready. Up to then the second goes the same way.
    let ready_at = Bench::new(scenario, profile, seed, None)?.run_handshakes(scenario);
    let start = ready_at + BREATH;
    let mut bench = Bench::new(scenario, profile, seed, Some(start))?;
    bench.simulation.run_until(ready_at);
    let (before, cost_before) = (bench.sent(scenario), bench.cost());
    bench.run_messages(scenario, start);
    let mut delays = DelayStatistics::new();
    for record in bench.records() {
        // The first message warmed the association up.
        for message in record.truth.messages.iter().skip(1) {
            if let Some(delivered_at) = message.delivered_at {
                delays.record(delivered_at - message.due_at);
            }
        }
    }
    Ok(Run { delays, sent: bench.sent(scenario) - before, cost: bench.cost() - cost_before })
}

impl Bench {
    /// Each association sends one message as soon as it can, and from `start` on, if there is one, those of the scenario.
    fn new(scenario: &Scenario, profile: Profile, seed: u64, start: Option<Instant>) -> Result<Self> {
        let Path { topology, sender, receiver, .. } = Topology::path(&[Duplex::symmetric(scenario.link()?)]);
        let logging = |transport: Transport| transport.with_message_events(true).into_core();
        let mut client = SctpHost::new(sender, seed, logging(scenario.client_transport(profile)))?;
        for number in 0..scenario.associations {
            let connects_at = Instant::ZERO + HANDSHAKE_SPACING * number;
            let first_at = start.map(|start| start - connects_at + scenario.offset(0, number));
            let mut lateness = RandomStream::new(seed, &format!("writes of association {number}"));
            let replay = Replay::new(writes(scenario, first_at, &mut lateness)).context("no messages")?;
            let sending = SctpSender::new(receiver, Workload::Replay(replay));
            let message_bytes_max = usize::try_from(scenario.size)?;
            client =
                client.with_sender(&SctpSender { connects_at, starts_at: connects_at, message_bytes_max, ..sending });
        }
        let server = SctpHost::new(receiver, seed, logging(scenario.server_transport()))?.listening();
        let links = [(sender, receiver), (receiver, sender)]
            .map(|(from, to)| topology.route(from, to).expect("a path joins both ends")[0]);
        let simulation = Simulation::new(topology, vec![client.into(), server.into()], seed);
        Ok(Self { simulation, client: sender, server: receiver, links })
    }

    /// Runs until every association has delivered its first message, and says when that was.
    fn run_handshakes(&mut self, scenario: &Scenario) -> Instant {
        self.run_until_delivered(scenario.associations.into(), Instant::ZERO, Instant::ZERO + HANDSHAKE_MAX)
    }

    /// Runs until every message has arrived and had a while to be acknowledged, or the time for that is over.
    fn run_messages(&mut self, scenario: &Scenario, start: Instant) {
        let expected = scenario.messages() + u64::from(scenario.associations);
        let deadline = start + scenario.duration + scenario.drain;
        let now = self.run_until_delivered(expected, start, deadline);
        self.simulation.run_until(deadline.min(now + SETTLE_MAX));
    }

    fn run_until_delivered(&mut self, messages: u64, mut now: Instant, deadline: Instant) -> Instant {
        while self.delivered() < messages && now < deadline {
            now = (now + POLL_INTERVAL).min(deadline);
            self.simulation.run_until(now);
        }
        now
    }

    fn host(&self, node: NodeId) -> &SctpHost {
        self.simulation.node(node).as_sctp().expect("both hosts speak SCTP")
    }

    fn delivered(&self) -> u64 {
        let server = self.host(self.server);
        (0..server.association_count()).map(|index| server.received(index).messages).sum()
    }

    fn sent(&self, scenario: &Scenario) -> SentTotals {
        let client = self.host(self.client);
        let mut sent = SentTotals::default();
        for stats in (0..scenario.associations).filter_map(|index| client.stats(usize::try_from(index).ok()?)) {
            sent += SentTotals::of(&stats);
        }
        sent
    }

    /// The simulated packets have an IP header, and no UDP header.
    fn cost(&self) -> Cost {
        let [there, back] = self.links.map(|link| self.simulation.link_counters(link));
        Cost::of(&there, &back, UDP_HEADER_BYTES)
    }

    fn records(&self) -> Vec<AssociationRecord> {
        observe(self.host(self.client), self.host(self.server))
    }
}

/// The message that warms an association up, and those of the scenario, the first at `first_at`.
fn writes(scenario: &Scenario, first_at: Option<Duration>, lateness: &mut RandomStream) -> Vec<(Duration, ByteCount)> {
    let size = ByteCount::from_bytes(scenario.size.into());
    let mut writes = vec![(Duration::ZERO, ByteCount::from_len(HEADER_BYTES))];
    let count = u32::try_from(scenario.messages_per_association()).unwrap_or(u32::MAX);
    for (first_at, number) in first_at.into_iter().flat_map(|first_at| (0..count).map(move |number| (first_at, number)))
    {
        let late_ns = lateness.below(festina_units::duration::saturating_nanos(WRITE_LATENESS_MAX));
        let at = first_at + scenario.interval * number + Duration::from_nanos(late_ns);
        // An application that is late with one message is late with the next.
        let at = at.max(writes.last().map_or(Duration::ZERO, |(before, _)| *before));
        writes.push((at, size));
    }
    writes
}

#[cfg(test)]
pub(super) mod tests {
    use festina_units::Probability;

    use super::*;
    use crate::compare::scenario::tests::default_scenario;

    fn brief() -> Scenario {
        Scenario { associations: 8, duration: Duration::from_secs(2), ..default_scenario() }
    }

    #[test]
    fn without_loss_every_message_takes_half_a_round_trip() {
        let scenario = Scenario { loss: Probability::ZERO, ..brief() };
        let run = run(&scenario, Profile::Festina, 1).expect("a sound scenario");
        assert_eq!(run.delays.count(), 64);
        assert!(run.delays.max().is_some_and(|max| max.as_millis() == 50), "{:?}", run.delays.max());
        assert_eq!(run.sent.retransmissions(), 0);
        assert!(run.sent.packets >= 64);
        assert_eq!(run.cost.packets_there, run.sent.packets);
        assert_eq!(run.cost.bytes_there, run.sent.bytes + 28 * run.sent.packets, "IPv4 has 20 bytes and UDP 8");
        assert!(run.cost.packets_back > 0);
    }

    #[test]
    fn the_same_seed_gives_the_same_run() {
        let figures = |seed| {
            let run = run(&brief(), Profile::Rfc9260, seed).expect("a sound scenario");
            (run.delays.mean(), run.sent)
        };
        assert_eq!(figures(1), figures(1));
        assert_ne!(figures(1), figures(2));
    }

    /// A run for each of these delays, with one message that took so long.
    pub(crate) fn simulated_example(delays_ms: &[u64]) -> Option<Simulated> {
        let run = |delay_ms: &u64| {
            let mut delays = DelayStatistics::new();
            delays.record(Duration::from_millis(*delay_ms));
            let cost = Cost { packets_there: *delay_ms, bytes_there: 200 * *delay_ms, ..Cost::default() };
            Run { delays, sent: SentTotals { packets: *delay_ms, ..SentTotals::default() }, cost }
        };
        Simulated::of(&delays_ms.iter().map(run).collect::<Vec<_>>())
    }

    #[test]
    fn runs_are_summed_up_and_their_percentiles_spanned() {
        let simulated = simulated_example(&[100, 300]).expect("two runs");
        assert_eq!((simulated.runs, simulated.messages_per_run(), simulated.sent_per_run().packets), (2, 1, 200));
        let (low, high) = simulated.p999.expect("there are delays");
        assert_eq!((low.as_millis(), high.as_millis()), (100, 300));
        assert!(Simulated::of(&[]).is_none());
    }
}
