//! Machines that replay the same game traffic at the same time over one path to one receiver: P10 §6.4.
//!
//! ```text
//! machine 1 ──┐
//! machine 2 ──┼─ campus ───── receiver
//! machine n ──┘        path
//! ```

use std::collections::BTreeMap;

use festina_models::host::Host;
use festina_models::packet::Packet;
use festina_models::record::Truth;
use festina_models::sctp_host::{SctpHost, SctpSender, observe};
use festina_models::workload::{Application, Replay, Workload};
use festina_netsim::{Admission, Duplex, LinkConfig, LinkId, NodeId, Simulation, Tap, Topology};
use festina_sctp::Config;
use festina_units::{ByteCount, Duration, Instant};

/// Time within which associations start, one after the other.
const CONNECT_SPREAD: Duration = Duration::from_secs(5);
/// Writing begins long after the handshakes, so that a lost INIT delays no message.
const STARTS_AT: Instant = Instant::from_secs(20);
/// After the last write the network runs empty in steps of this size.
const DRAIN_STEP: Duration = Duration::from_secs(10);
/// Number of gaps of a burst: at the mean gap of 632 ms (P10 Table 1) about ten seconds.
const GAPS_OF_A_BURST: usize = 16;
/// Time after which unacknowledged messages count as lost for good.
const DRAIN_MAX: Duration = Duration::from_secs(600);

/// The traffic of a game, sent by several machines over the same path.
#[derive(Clone, Debug)]
pub struct GameReplay {
    /// How the SCTP of each machine is set.
    pub machines: Vec<Config>,
    /// How the SCTP of the receiver is set.
    pub receiver: Config,
    /// Number of players: each machine has an association for each.
    pub players: u32,
    /// Duration of the traffic.
    pub duration: Duration,
    /// Whether short gaps follow each other.
    pub is_bursty: bool,
    /// The path, the same each way.
    pub path: LinkConfig,
}

/// What became of the packets of one machine.
#[derive(Clone, Debug)]
pub struct MachineRun {
    /// The truth about each association.
    pub associations: Vec<Truth>,
    /// Packets that it sent, handshakes and heartbeats included.
    pub packets_sent: u64,
    /// Packets of these that the path lost.
    pub packets_lost: u64,
}

impl GameReplay {
    /// Runs the replay until all is acknowledged (ten minutes after the last write at the latest); one result per machine. The
    /// same seed gives the same run.
    ///
    /// # Panics
    /// If a setting of the core is out of range: that is a bug of the experiment.
    pub fn run(&self, seed: u64) -> Vec<MachineRun> {
        let mut topology = Topology::new();
        let campus = topology.router("campus");
        let receiver = topology.host("receiver");
        let (path, _) = topology.duplex(campus, receiver, Duplex::symmetric(self.path.clone()));
        let machines: Vec<NodeId> = (1..=self.machines.len())
            .map(|number| {
                let machine = topology.host(&format!("machine{number}"));
                topology.duplex(machine, campus, Duplex::default());
                machine
            })
            .collect();
        let hosts = self.hosts(receiver, &machines, seed);
        let counter = Counter { path, packets: BTreeMap::new() };
        let mut simulation: Simulation<Packet, Host, Counter> = Simulation::with_tap(topology, hosts, seed, counter);
        let mut drained = Duration::ZERO;
        while drained < DRAIN_MAX {
            drained += DRAIN_STEP;
            simulation.run_until(STARTS_AT + self.duration + drained);
            if machines.iter().all(|&machine| is_acknowledged(simulation.node(machine))) {
                break;
            }
        }
        let result = |&machine: &NodeId| {
            let ends = [machine, receiver].map(|node| simulation.node(node).as_sctp());
            let [Some(from), Some(to)] = ends else { unreachable!("all hosts speak SCTP") };
            let (packets_sent, packets_lost) = simulation.tap().packets.get(&machine).copied().unwrap_or_default();
            let associations = observe(from, to).into_iter().map(|record| record.truth).collect();
            MachineRun { associations, packets_sent, packets_lost }
        };
        machines.iter().map(result).collect()
    }

    /// In the order in which [`run`](Self::run) adds them to the topology.
    fn hosts(&self, receiver: NodeId, machines: &[NodeId], seed: u64) -> Vec<Host> {
        let host = |node, config: &Config| {
            let config = Config { message_events: true, ..config.clone() };
            SctpHost::new(node, seed, config).expect("the experiment's settings are within their ranges")
        };
        let players: Vec<SctpSender> = (0..self.players)
            .map(|player| SctpSender {
                connects_at: Instant::ZERO + CONNECT_SPREAD * player / self.players,
                starts_at: STARTS_AT,
                ..SctpSender::new(receiver, self.traffic_of(player, seed))
            })
            .collect();
        let mut hosts = vec![Host::from(host(receiver, &self.receiver).listening())];
        hosts.extend(self.machines.iter().zip(machines).map(|(config, &node)| {
            Host::from(players.iter().fold(host(node, config), |host, player| host.with_sender(player)))
        }));
        hosts
    }

    /// The game server's traffic to one player: the same from every machine.
    fn traffic_of(&self, player: u32, seed: u64) -> Workload {
        let writes = Workload::Application(Application::AnarchyOnline).writes(seed, &format!("player {player}"));
        let writes = writes.take_while(|write| write.at < self.duration).map(|write| (write.at, write.size));
        let writes: Vec<(Duration, ByteCount)> = writes.collect();
        let writes = if self.is_bursty { in_bursts(&writes) } else { writes };
        Workload::Replay(Replay::new(writes).expect("times rise and no write of the generator is empty"))
    }
}

/// The same gaps in another order: each block of them rises, so that short ones follow each other and a long one ends them. Their distribution stays.
fn in_bursts(writes: &[(Duration, ByteCount)]) -> Vec<(Duration, ByteCount)> {
    let times = || writes.iter().map(|(at, _)| *at);
    let mut gaps: Vec<Duration> = times().skip(1).zip(times()).map(|(at, before)| at - before).collect();
    gaps.chunks_mut(GAPS_OF_A_BURST).for_each(<[Duration]>::sort_unstable);
    let first = times().next().unwrap_or_default();
    let later = gaps.into_iter().scan(first, |at, gap| {
        *at += gap;
        Some(*at)
    });
    std::iter::once(first).chain(later).zip(writes.iter().map(|(_, size)| *size)).collect()
}

/// Whether all that a machine's associations have written was acknowledged.
fn is_acknowledged(host: &Host) -> bool {
    let Some(host) = host.as_sctp() else { return true };
    let mut stats = (0..host.association_count()).filter_map(|association| host.stats(association));
    stats.all(|stats| stats.sent.messages_acked == stats.sent.messages)
}

/// Counts the packets that each machine sent over the path, and those lost.
#[derive(Debug)]
struct Counter {
    path: LinkId,
    packets: BTreeMap<NodeId, (u64, u64)>,
}

impl Tap<Packet> for Counter {
    fn watches(&self, link: LinkId) -> bool {
        link == self.path
    }

    fn offered(&mut self, _now: Instant, _link: LinkId, packet: &Packet, admission: Admission) {
        let (sent, lost) = self.packets.entry(packet.source).or_default();
        *sent += 1;
        *lost += u64::from(admission != Admission::Accepted);
    }

    fn delivered(&mut self, _now: Instant, _link: LinkId, _packet: &Packet) {}
}

#[cfg(test)]
mod tests {
    use festina_netsim::LossModel;
    use festina_recovery::Profile;
    use festina_units::Probability;

    use super::*;

    fn replay(loss: LossModel) -> GameReplay {
        GameReplay {
            machines: vec![Config::published(Profile::Rfc9260), Config::published(Profile::Petlund2010)],
            receiver: Config::default(),
            players: 3,
            duration: Duration::from_secs(600),
            is_bursty: false,
            path: LinkConfig { delay: Duration::from_millis(60), loss, ..LinkConfig::default() },
        }
    }

    #[test]
    fn every_machine_sends_the_same_messages_and_without_loss_all_arrive_after_the_path_delay() {
        let runs = replay(LossModel::None).run(1);
        let [one, other] = runs.as_slice() else { panic!("there are two machines") };
        let messages = |run: &MachineRun| -> Vec<_> {
            run.associations
                .iter()
                .flat_map(|truth| &truth.messages)
                .map(|message| (message.due_at, message.bytes))
                .collect()
        };
        assert_eq!(messages(one), messages(other));
        // 1.58 messages a second for each of three players.
        assert!((2_500..3_200).contains(&messages(one).len()), "{}", messages(one).len());
        for message in runs.iter().flat_map(|run| &run.associations).flat_map(|truth| &truth.messages) {
            let arrived_at = message.arrived_at.expect("nothing is lost");
            assert_eq!(arrived_at - message.sent_at, Duration::from_millis(60));
        }
        assert!(runs.iter().all(|run| run.packets_lost == 0));
    }

    #[test]
    fn bursts_have_the_gaps_and_sizes_of_the_traffic_in_another_order() {
        let write = |(at_s, bytes)| (Duration::from_secs(at_s), ByteCount::from_bytes(bytes));
        let writes: Vec<_> = [(1, 10), (6, 20), (7, 30), (9, 40)].map(write).to_vec();
        assert_eq!(in_bursts(&writes), [(1, 10), (2, 20), (4, 30), (9, 40)].map(write));
        assert!(in_bursts(&[]).is_empty());
        let [independent, bursty] = [false, true].map(|is_bursty| {
            let Workload::Replay(replay) = (GameReplay { is_bursty, ..replay(LossModel::None) }).traffic_of(0, 1)
            else {
                panic!("it is recorded")
            };
            let times: Vec<Duration> = Workload::Replay(replay).writes(1, "").map(|write| write.at).collect();
            times.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>()
        });
        assert_ne!(independent, bursty);
        let sorted = |mut gaps: Vec<Duration>| {
            gaps.sort_unstable();
            gaps
        };
        assert_eq!(sorted(independent), sorted(bursty));
    }

    #[test]
    fn losses_are_counted_and_repaired() {
        for run in replay(LossModel::Independent(Probability::from_percent(5))).run(2) {
            let messages: Vec<_> = run.associations.iter().flat_map(|truth| &truth.messages).collect();
            assert!(messages.iter().all(|message| message.arrived_at.is_some()));
            assert!(messages.iter().all(|message| message.arrived_at <= message.delivered_at));
            let permille = run.packets_lost * 1_000 / run.packets_sent;
            assert!((30..70).contains(&permille), "{permille}");
        }
    }
}
