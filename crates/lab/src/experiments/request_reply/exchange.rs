//! One run: two hosts that write to each other, and all that they send for it.

use std::collections::BTreeMap;

use bytes::Bytes;
use festina_models::packet::{Packet, UDP_HEADER_BYTES};
use festina_netsim::{Duplex, LinkConfig, LossModel, NodeId, RandomStream, Simulation, Topology};
use festina_sctp::Config;
use festina_units::{Duration, Instant, Probability};

use super::peer::{Application, Log, Making, Peer};

/// Writing begins when the handshake is long over.
const STARTS_AT: Instant = Instant::from_secs(20);
/// Step of the simulation after the last write, while messages are in flight.
const DRAIN_STEP: Duration = Duration::from_secs(10);
/// Time after the last write at which an undelivered message counts as lost for good.
const DRAIN_MAX: Duration = Duration::from_secs(600);

/// Who writes when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// The server answers so long after each request; the answer calls for the next request.
    PingPong { thinking: Duration },
    /// Both write at this interval, neither in step with the other.
    BothWays { interval: Duration },
}

/// The parameters of one run.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    /// How both ends are set.
    pub(super) config: Config,
    pub(super) pattern: Pattern,
    /// Bytes of each message.
    pub(super) size: usize,
    pub(super) rtt: Duration,
    /// How probably a packet is lost, each way.
    pub(super) loss: Probability,
    /// How long messages are written before they count, and for how long they count.
    pub(super) warm_up: Duration,
    pub(super) duration: Duration,
}

/// The results of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Exchanged {
    /// How long each message of the client took, and each of the server; `None` if it never came.
    pub(super) messages: [Vec<Option<Duration>>; 2],
    /// From each request to its answer; empty if there are no answers.
    pub(super) exchanges: Vec<Option<Duration>>,
    /// Packets of both ends, for any purpose.
    pub(super) packets: [u64; 2],
    /// Their bytes, with the headers of SCTP, UDP and IPv4.
    pub(super) bytes: [u64; 2],
}

impl Exchange {
    /// Runs it until all has come (ten minutes after the last write at the latest). The same seed gives the same run.
    pub(super) fn run(&self, seed: u64) -> Exchanged {
        let loss = if self.loss > Probability::ZERO { LossModel::Independent(self.loss) } else { LossModel::None };
        let link = LinkConfig { delay: self.rtt / 2, loss, ..LinkConfig::default() };
        let path = Topology::path(&[Duplex::symmetric(link)]);
        let ends = [path.sender, path.receiver];
        let links = [ends, [path.receiver, path.sender]]
            .map(|[from, to]| path.topology.route(from, to).expect("a path joins both ends")[0]);
        let counts_from = STARTS_AT + self.warm_up;
        let stops_at = counts_from + self.duration;
        let peers = self.peers(ends, seed, stops_at);
        let mut simulation: Simulation<Packet, Peer> = Simulation::new(path.topology, peers.into(), seed);
        let just_before = |at: Instant| at - Duration::from_nanos(1);
        simulation.run_until(just_before(counts_from));
        let before = links.map(|link| simulation.link_counters(link));
        simulation.run_until(just_before(stops_at));
        let after = links.map(|link| simulation.link_counters(link));
        drain(&mut simulation, ends, stops_at);
        let [client, server] = ends.map(|end| simulation.node(end));
        let is_counted = |at: Instant| at >= counts_from;
        let messages =
            [[client, server], [server, client]].map(|[from, to]| delays(from.written(), to.received(), is_counted));
        let exchanges = match self.pattern {
            Pattern::PingPong { .. } => delays(client.written(), client.received(), is_counted),
            Pattern::BothWays { .. } => Vec::new(),
        };
        let packets = [0, 1].map(|end| after[end].offered - before[end].offered);
        let bytes = [0, 1].map(|end| {
            let bytes = after[end].offered_bytes.bytes() - before[end].offered_bytes.bytes();
            bytes + packets[end] * UDP_HEADER_BYTES as u64
        });
        Exchanged { messages, exchanges, packets, bytes }
    }

    fn peers(&self, [client, server]: [NodeId; 2], seed: u64, stops_at: Instant) -> [Peer; 2] {
        let mut random = RandomStream::new(seed, "request-reply");
        let applications = match self.pattern {
            Pattern::PingPong { thinking } => [
                Application::Asks { next_at: Some(STARTS_AT) },
                Application::Answers { after: thinking, due: Default::default() },
            ],
            Pattern::BothWays { interval } => [0, 1].map(|_| {
                let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
                let next_at = STARTS_AT + Duration::from_nanos(random.below(interval_ns));
                Application::Writes { interval, next_at }
            }),
        };
        let [asks, answers] = applications;
        let mut secret = || {
            let mut secret = [0; 16];
            for half in secret.as_chunks_mut::<8>().0 {
                *half = random.bits().to_le_bytes();
            }
            secret
        };
        let making = |application| Making {
            config: self.config.clone(),
            application,
            stops_at,
            payload: Bytes::from(vec![0; self.size]),
        };
        [Peer::client(client, server, secret(), making(asks)), Peer::server(server, client, secret(), making(answers))]
    }
}

/// Runs on until each end has all that the other wrote.
fn drain(simulation: &mut Simulation<Packet, Peer>, ends: [NodeId; 2], stops_at: Instant) {
    let mut drained = Duration::ZERO;
    while drained < DRAIN_MAX {
        drained += DRAIN_STEP;
        simulation.run_until(stops_at + drained);
        let [client, server] = ends.map(|end| simulation.node(end));
        let is_over = |from: &Peer, to: &Peer| from.written().len() == to.received().len();
        if is_over(client, server) && is_over(server, client) {
            return;
        }
    }
}

/// How long each message that counts took.
fn delays(written: &Log, received: &Log, is_counted: impl Fn(Instant) -> bool) -> Vec<Option<Duration>> {
    let received: BTreeMap<u32, Instant> = received.iter().copied().collect();
    let counted = written.iter().filter(|(_, at)| is_counted(*at));
    counted.map(|(number, at)| Some(received.get(number)?.saturating_duration_since(*at))).collect()
}

#[cfg(test)]
mod tests {
    use festina_recovery::Profile;

    use super::*;

    fn exchange(pattern: Pattern) -> Exchange {
        Exchange {
            config: Config::published(Profile::Rfc9260),
            pattern,
            size: 100,
            rtt: Duration::from_millis(100),
            loss: Probability::ZERO,
            warm_up: Duration::from_secs(1),
            duration: Duration::from_secs(20),
        }
    }

    #[test]
    fn an_answer_at_once_takes_its_acknowledgement_along() {
        let run = exchange(Pattern::PingPong { thinking: Duration::ZERO }).run(1);
        assert_eq!(run.exchanges.len(), 200);
        assert!(run.exchanges.iter().all(|delay| *delay == Some(Duration::from_millis(100))));
        assert_eq!(run.packets, [200, 200]);
        // IPv4 20, UDP 8, SCTP 12, SACK 16, DATA 16 and 100 of payload.
        assert_eq!(run.bytes, [200 * 172; 2]);
    }

    #[test]
    fn thinking_takes_its_time_and_every_message_half_a_round_trip() {
        let run = exchange(Pattern::PingPong { thinking: Duration::from_millis(25) }).run(1);
        assert_eq!(run.exchanges.len(), 160);
        assert!(run.exchanges.iter().all(|delay| *delay == Some(Duration::from_millis(125))));
        assert!(run.messages.iter().flatten().all(|delay| *delay == Some(Duration::from_millis(50))));
    }

    #[test]
    fn both_write_at_their_own_pace_and_all_comes_in_spite_of_losses() {
        let lossy = Exchange {
            loss: Probability::from_percent(10),
            ..exchange(Pattern::BothWays { interval: Duration::from_millis(100) })
        };
        let run = lossy.run(1);
        assert_eq!(run.messages.each_ref().map(Vec::len), [200, 200]);
        assert!(run.messages.iter().flatten().all(Option::is_some));
        assert!(run.messages.iter().flatten().any(|delay| *delay > Some(Duration::from_millis(50))));
        assert!(run.exchanges.is_empty());
        assert_eq!(run, lossy.run(1));
        assert_ne!(run, lossy.run(2));
    }
}
