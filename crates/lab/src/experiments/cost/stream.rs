//! One run: a thin stream, and all that both ends send for it.

use std::ops::{AddAssign, Sub};

use festina_models::host::Host;
use festina_models::packet::{Packet, UDP_HEADER_BYTES};
use festina_models::workload::{Periodic, Workload};
use festina_netsim::{
    Duplex, GilbertElliott, LinkConfig, LinkCounters, LinkId, LossModel, NodeId, Simulation, Topology,
};
use festina_units::{ByteCount, Duration, Instant, Probability};

use crate::scenario::{Stack, StreamRecord, Traffic};

/// Writing begins when the handshake is long over, so that a lost INIT delays no message.
const STARTS_AT: Instant = Instant::from_secs(20);
/// Step of the simulation after the last write, while messages are in flight.
const DRAIN_STEP: Duration = Duration::from_secs(10);
/// Time after the last write at which an undelivered message counts as lost for good.
const DRAIN_MAX: Duration = Duration::from_secs(600);

/// A thin stream whose price is asked for.
#[derive(Clone, Debug)]
pub(super) struct Priced {
    pub(super) stack: Stack,
    pub(super) interval: Duration,
    pub(super) size: ByteCount,
    pub(super) rtt: Duration,
    /// What the links lose, each way.
    pub(super) loss: LossModel,
    /// Until then after the first write the links lose what `loss_before` says, and nothing counts.
    pub(super) warm_up: Duration,
    pub(super) loss_before: LossModel,
    /// For how long messages are written and counted after the warm-up.
    pub(super) duration: Duration,
}

/// What one end sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) packets: u64,
    /// With the headers of SCTP, UDP and IPv4.
    pub(super) bytes: u64,
}

/// The results of a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Price {
    /// When each message was due, counted from the end of the warm-up, and how long it took; `None` if it never arrived.
    pub(super) messages: Vec<(Duration, Option<Duration>)>,
    /// Everything that the sender and the receiver sent from the end of the warm-up to the last write: data, SACKs, probes, heartbeats.
    pub(super) there: Sent,
    pub(super) back: Sent,
}

impl Priced {
    /// Runs it until all is delivered (ten minutes after the last write at the latest). The same seed gives the same run.
    ///
    /// # Panics
    /// If no association came about at all, which a path that loses everything would be needed for.
    pub(super) fn run(&self, seed: u64) -> Price {
        let link = LinkConfig { delay: self.rtt / 2, loss: self.loss_before.clone(), ..LinkConfig::default() };
        let path = Topology::path(&[Duplex::symmetric(link)]);
        let ends = [path.sender, path.receiver];
        let links = [ends, [path.receiver, path.sender]]
            .map(|[from, to]| path.topology.route(from, to).expect("a path joins both ends")[0]);
        let counts_from = STARTS_AT + self.warm_up;
        let stops_at = counts_from + self.duration;
        let workload = Workload::Periodic(Periodic { interval: self.interval, size: self.size });
        let traffic = Traffic { workload, connects_at: Instant::ZERO, starts_at: STARTS_AT, stops_at };
        let hosts = self.stack.hosts(path.sender, path.receiver, seed, &traffic).into();
        let mut simulation: Simulation<Packet, Host> = Simulation::new(path.topology, hosts, seed);
        // A packet sent at the very end of the warm-up belongs to the first message that counts.
        simulation.run_until(counts_from - Duration::from_nanos(1));
        let before = links.map(|link| sent(&simulation, link));
        if self.loss != self.loss_before {
            links.into_iter().for_each(|link| simulation.set_loss(link, self.loss.clone()));
        }
        simulation.run_until(stops_at - Duration::from_nanos(1));
        let after = links.map(|link| sent(&simulation, link));
        let record = delivered(&mut simulation, ends, stops_at);
        let counted = record.truth().messages.iter().filter(|message| message.due_at >= counts_from);
        let messages = counted.map(|message| {
            let delay = message.delivered_at.map(|at| at.saturating_duration_since(message.due_at));
            (message.due_at.saturating_duration_since(counts_from), delay)
        });
        Price { messages: messages.collect(), there: after[0] - before[0], back: after[1] - before[1] }
    }
}

/// Independent losses, or none.
pub(super) fn independent(loss: Probability) -> LossModel {
    if loss > Probability::ZERO { LossModel::Independent(loss) } else { LossModel::None }
}

/// All is lost for `burst` on average, so often that the mean loss is `loss`.
pub(super) fn bursts(loss: Probability, burst: Duration) -> LossModel {
    if loss == Probability::ZERO {
        return LossModel::None;
    }
    LossModel::GilbertElliott(GilbertElliott {
        mean_good: burst.mul_f64(1.0 / loss.as_fraction() - 1.0),
        mean_bad: burst,
        loss_in_good: Probability::ZERO,
        loss_in_bad: Probability::ONE,
    })
}

fn sent(simulation: &Simulation<Packet, Host>, link: LinkId) -> Sent {
    Sent::of(&simulation.link_counters(link))
}

/// What became of the stream, once its last message has arrived or is given up.
fn delivered(simulation: &mut Simulation<Packet, Host>, [from, to]: [NodeId; 2], stops_at: Instant) -> StreamRecord {
    let mut drained = Duration::ZERO;
    loop {
        drained += DRAIN_STEP;
        simulation.run_until(stops_at + drained);
        let record = StreamRecord::observe(simulation.node(from), simulation.node(to)).pop();
        let is_done = record.as_ref().is_some_and(StreamRecord::is_delivered);
        if is_done || drained >= DRAIN_MAX {
            return record.expect("the association came about");
        }
    }
}

impl Sent {
    /// SCTP packets on a link; the simulated ones have an IPv4 header, and as they go over UDP they have its header too.
    pub(super) fn of(counters: &LinkCounters) -> Self {
        let packets = counters.offered;
        Self { packets, bytes: counters.offered_bytes.bytes() + packets * UDP_HEADER_BYTES as u64 }
    }
}

impl Sub for Sent {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { packets: self.packets - other.packets, bytes: self.bytes - other.bytes }
    }
}

impl AddAssign for Sent {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

#[cfg(test)]
mod tests {
    use festina_recovery::Profile;

    use super::*;

    fn priced(loss: LossModel) -> Priced {
        Priced {
            stack: Stack::sctp(Profile::Rfc9260.mechanisms(), Duration::from_millis(200)),
            interval: Duration::from_millis(50),
            size: ByteCount::from_bytes(100),
            rtt: Duration::from_millis(100),
            loss_before: loss.clone(),
            loss,
            warm_up: Duration::from_secs(10),
            duration: Duration::from_secs(100),
        }
    }

    #[test]
    fn without_loss_the_standard_costs_a_packet_per_message_and_a_sack_for_every_second_one() {
        let price = priced(LossModel::None).run(1);
        assert_eq!(price.messages.len(), 2_000);
        assert!(price.messages.iter().all(|(_, delay)| *delay == Some(Duration::from_millis(50))));
        // The receiver sends no data, so it asks by a heartbeat every half minute whether its path is there.
        let heartbeats = 4;
        // IPv4 20, UDP 8, SCTP 12, DATA 16 and 100 of payload; SACKs and heartbeats have 16.
        assert_eq!(price.there, Sent { packets: 2_000 + heartbeats, bytes: 2_000 * 156 + heartbeats * 56 });
        assert_eq!(price.back, Sent { packets: 1_000 + heartbeats, bytes: (1_000 + heartbeats) * 56 });
    }

    #[test]
    fn an_idle_path_costs_its_heartbeats() {
        let rare =
            Priced { interval: Duration::from_secs(90), duration: Duration::from_secs(900), ..priced(LossModel::None) };
        let price = rare.run(1);
        assert_eq!(price.messages.len(), 10);
        assert!(price.there.packets > 20, "{:?}", price.there);
    }

    #[test]
    fn losses_that_begin_after_the_warm_up_hit_nothing_before() {
        let loss = independent(Probability::from_percent(20));
        let changed = Priced { loss_before: LossModel::None, ..priced(loss.clone()) }.run(1);
        assert!(changed.messages.iter().any(|(_, delay)| *delay > Some(Duration::from_millis(50))));
        let first = changed.messages.first().expect("messages are counted");
        assert_eq!(first.0, Duration::ZERO);
        assert_ne!(changed, priced(loss).run(1));
    }

    #[test]
    fn bursts_lose_as_much_on_average_as_was_asked_for() {
        let LossModel::GilbertElliott(channel) = bursts(Probability::from_percent(5), Duration::from_millis(50)) else {
            panic!("losses come in bursts")
        };
        assert_eq!(channel.mean_loss(), Probability::from_percent(5));
        assert_eq!(bursts(Probability::ZERO, Duration::from_millis(50)), LossModel::None);
    }
}
