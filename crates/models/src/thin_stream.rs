//! One stream of small messages over one path.

use crate::host::Host;
use crate::packet::Packet;
use crate::workload::{Periodic, Workload};
use festina_netsim::{Duplex, LinkConfig, LossModel, NoTap, NodeId, Path, Simulation, Tap, Topology};
use festina_units::{ByteCount, Duration, Instant, Probability};

use crate::stack::{Stack, StreamRecord, Traffic};

/// Writing begins long after the handshake, so that a lost INIT or SYN delays no message.
const STARTS_AT: Instant = Instant::from_secs(20);
/// After the last write the network runs empty in steps of this size.
const DRAIN_STEP: Duration = Duration::from_secs(10);
/// Time after which undelivered messages count as lost for good.
const DRAIN_MAX: Duration = Duration::from_secs(600);

/// A stream over a path of one link each way; nothing else is on it.
#[derive(Clone, Debug)]
pub struct ThinStream {
    /// What carries it.
    pub stack: Stack,
    /// The writes of the application.
    pub workload: Workload,
    /// Duration of the writing.
    pub duration: Duration,
    /// The link that data takes.
    pub forward: LinkConfig,
    /// The link that acknowledgements take.
    pub backward: LinkConfig,
}

/// What became of it.
#[derive(Clone, Debug)]
pub struct StreamRun {
    /// The truth about its messages and retransmissions.
    pub record: StreamRecord,
    /// Packets that the sender sent, handshake and heartbeats included.
    pub packets_sent: u64,
    /// Their bytes, IP headers included.
    pub bytes_sent: u64,
    /// Packets that the receiver sent, handshake and heartbeats included.
    pub packets_returned: u64,
    /// Their bytes, IP headers included.
    pub bytes_returned: u64,
}

impl ThinStream {
    /// A write of `size` every `interval` for `duration` over a path with `rtt`, half of it each way, that loses nothing.
    pub fn periodic(stack: Stack, interval: Duration, size: ByteCount, duration: Duration, rtt: Duration) -> Self {
        let link = LinkConfig { delay: rtt / 2, ..LinkConfig::default() };
        Self {
            stack,
            workload: Workload::Periodic(Periodic { interval, size }),
            duration,
            forward: link.clone(),
            backward: link,
        }
    }

    /// Sets independent packet loss, with separate probabilities for data and for acknowledgements.
    #[must_use]
    pub fn with_loss(mut self, forward: Probability, backward: Probability) -> Self {
        self.forward.loss = LossModel::Independent(forward);
        self.backward.loss = LossModel::Independent(backward);
        self
    }

    /// Runs the stream until all is delivered (ten minutes after the last write at the latest). The same seed gives the
    /// same run.
    ///
    /// # Panics
    /// If no connection came about at all, which a path that loses everything would be needed for.
    pub fn run(&self, seed: u64) -> StreamRun {
        self.try_run(seed).expect("the connection came about")
    }

    /// Runs the stream as [`run`](Self::run) does; `None` if there was no connection, or if it was aborted.
    pub fn try_run(&self, seed: u64) -> Option<StreamRun> {
        self.run_with(seed, |_| NoTap).map(|(run, NoTap)| run)
    }

    /// The two ends of the path, writer and reader.
    pub fn ends(&self) -> [NodeId; 2] {
        let path = self.path();
        [path.sender, path.receiver]
    }

    fn path(&self) -> Path {
        Topology::path(&[Duplex { forward: self.forward.clone(), backward: self.backward.clone() }])
    }

    /// Runs the stream as [`try_run`](Self::try_run) does, with a tap on its links.
    pub fn run_with<T: Tap<Packet>>(&self, seed: u64, tap: impl FnOnce(&Topology) -> T) -> Option<(StreamRun, T)> {
        let path = self.path();
        let stops_at = STARTS_AT + self.duration;
        let traffic =
            Traffic { workload: self.workload.clone(), connects_at: Instant::ZERO, starts_at: STARTS_AT, stops_at };
        let [forward, backward] = [(path.sender, path.receiver), (path.receiver, path.sender)]
            .map(|(from, to)| path.topology.route(from, to).expect("a path joins both ends")[0]);
        let hosts = self.stack.hosts(path.sender, path.receiver, seed, &traffic).into();
        let tap = tap(&path.topology);
        let mut simulation: Simulation<Packet, Host, T> = Simulation::with_tap(path.topology, hosts, seed, tap);
        let mut drained = Duration::ZERO;
        let record = loop {
            drained += DRAIN_STEP;
            simulation.run_until(stops_at + drained);
            let record = StreamRecord::observe(simulation.node(path.sender), simulation.node(path.receiver)).pop();
            let is_done = record.as_ref().is_some_and(StreamRecord::is_delivered);
            if is_done || drained >= DRAIN_MAX {
                break record?;
            }
        };
        let run = StreamRun {
            record,
            packets_sent: simulation.link_counters(forward).offered,
            bytes_sent: simulation.link_counters(forward).offered_bytes.bytes(),
            packets_returned: simulation.link_counters(backward).offered,
            bytes_returned: simulation.link_counters(backward).offered_bytes.bytes(),
        };
        Some((run, simulation.into_tap()))
    }
}

#[cfg(test)]
mod tests {
    use crate::tcp::TcpConfig;
    use festina_recovery::Profile;

    use super::*;

    fn thin(stack: Stack) -> ThinStream {
        let ms = Duration::from_millis;
        ThinStream::periodic(stack, ms(250), ByteCount::from_bytes(100), Duration::from_secs(300), ms(100))
            .with_loss(Probability::from_percent(5), Probability::from_percent(5))
    }

    #[test]
    fn every_message_arrives_and_none_before_half_a_round_trip() {
        for stack in [
            Stack::sctp(Profile::Festina.mechanisms(), Duration::from_millis(200)),
            Stack::sctp(Profile::Rfc9260.mechanisms(), Duration::ZERO),
            Stack::tcp(TcpConfig::new_reno()),
        ] {
            let run = thin(stack).run(1);
            let truth = run.record.truth();
            assert_eq!(truth.messages.len(), 1_200);
            let delays: Vec<_> = truth.messages.iter().filter_map(|message| message.delay()).collect();
            assert_eq!(delays.len(), 1_200);
            assert_eq!(delays.iter().min(), Some(&Duration::from_millis(50)));
            assert!(delays.iter().max() > Some(&Duration::from_millis(100)), "some packet was lost");
            assert!(run.packets_sent >= 1_200 && run.packets_returned >= 600);
            assert!(!truth.retransmissions.is_empty());
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_run() {
        let stream = thin(Stack::sctp(Profile::Festina.mechanisms(), Duration::from_millis(200)));
        let [first, second, other] = [3, 3, 4].map(|seed| stream.run(seed).record);
        assert_eq!(first, second);
        assert_ne!(first, other);
    }
}
