//! One short flow whose last packets are lost.

use festina_models::host::Host;
use festina_models::packet::{Packet, Payload};
use festina_models::record::Truth;
use festina_netsim::{Admission, Duplex, LinkConfig, LinkId, LossModel, Simulation, Tap, Topology};
use festina_sctp::wire::{self, Chunk};
use festina_units::{Duration, Instant};

use crate::experiments::r15;
use crate::scenario::{Stack, StreamRecord, Traffic};

/// The handshake is over by then.
const STARTS_AT: Instant = Instant::from_secs(10);
/// Step of the simulation until everything is delivered and acknowledged.
const STEP: Duration = Duration::from_secs(5);
/// Number of steps after which an undelivered message counts as lost for good.
const STEPS_MAX: u32 = 24;

/// A number of full packets, written at once.
#[derive(Clone, Debug)]
pub(super) struct ShortFlow {
    pub(super) stack: Stack,
    pub(super) packets: u64,
    pub(super) rtt: Duration,
    pub(super) seed: u64,
}

/// What became of it.
#[derive(Clone, Debug)]
pub(super) struct FlowRun {
    pub(super) truth: Truth,
    /// Which packets on the link brought new data, counted from zero.
    fresh: Vec<u64>,
}

impl FlowRun {
    /// From the write to the delivery of all; `None` if something was not delivered.
    pub(super) fn completion(&self) -> Option<Duration> {
        let delays = self.truth.messages.iter().map(|message| Some(message.delivered_at? - message.due_at));
        delays.collect::<Option<Vec<_>>>()?.into_iter().max()
    }
}

impl ShortFlow {
    /// Runs it; the first copies of the last `lost` packets, or of all, are lost.
    pub(super) fn run(&self, lost: u64) -> FlowRun {
        let mut losses = Vec::new();
        let mut run = self.run_losing(&losses);
        // When a packet leaves hangs on the fate of those before it, but not on its own or later ones.
        for packet in self.packets.saturating_sub(lost)..self.packets {
            let position = usize::try_from(packet).ok().and_then(|packet| run.fresh.get(packet));
            losses.push(*position.expect("every packet leaves at least once"));
            run = self.run_losing(&losses);
        }
        run
    }

    fn run_losing(&self, losses: &[u64]) -> FlowRun {
        let link = |loss| LinkConfig { delay: self.rtt / 2, loss, ..LinkConfig::default() };
        let [forward, backward] = [LossModel::Exact(losses.to_vec()), LossModel::None].map(link);
        let path = Topology::path(&[Duplex { forward, backward }]);
        let bytes = r15::packet_bytes(&self.stack);
        let traffic = Traffic {
            workload: r15::writes(&[(Duration::ZERO, bytes * self.packets)], bytes),
            connects_at: Instant::ZERO,
            starts_at: STARTS_AT,
            stops_at: STARTS_AT + Duration::from_nanos(1),
        };
        let hosts = self.stack.hosts(path.sender, path.receiver, self.seed, &traffic).into();
        let tap = NewData { link: path.forward[0], offered: 0, next: None, fresh: Vec::new() };
        let mut simulation: Simulation<Packet, Host, NewData> =
            Simulation::with_tap(path.topology, hosts, self.seed, tap);
        for step in 1..=STEPS_MAX {
            simulation.run_until(STARTS_AT + STEP * step);
            let record = StreamRecord::observe(simulation.node(path.sender), simulation.node(path.receiver)).pop();
            if record.as_ref().is_some_and(StreamRecord::is_delivered) {
                break;
            }
        }
        let record = StreamRecord::observe(simulation.node(path.sender), simulation.node(path.receiver)).pop();
        let truth = record.map(|record| record.truth().clone()).unwrap_or_default();
        FlowRun { truth, fresh: simulation.into_tap().fresh }
    }
}

/// Notes which packets bring data that no packet before them brought.
#[derive(Debug)]
struct NewData {
    link: LinkId,
    offered: u64,
    /// The first byte of TCP or TSN of SCTP, unwrapped, that was not sent yet.
    next: Option<u64>,
    fresh: Vec<u64>,
}

impl NewData {
    /// The end of the data that a packet carries.
    fn end(&self, packet: &Packet) -> Option<u64> {
        match &packet.payload {
            Payload::Tcp(tcp) if tcp.segment.length_bytes > 0 => {
                Some(tcp.segment.sequence + u64::from(tcp.segment.length_bytes))
            }
            Payload::Sctp(bytes) => {
                let packet = wire::Packet::parse_unverified(bytes).ok()?;
                let tsns = packet.chunks().filter_map(|chunk| match chunk {
                    Ok(Chunk::Data(data)) => Some(data.tsn.unwrap(self.next.unwrap_or(1 << 32)) + 1),
                    _ => None,
                });
                tsns.max()
            }
            _ => None,
        }
    }
}

impl Tap<Packet> for NewData {
    fn watches(&self, link: LinkId) -> bool {
        link == self.link
    }

    fn offered(&mut self, _now: Instant, _link: LinkId, packet: &Packet, _admission: Admission) {
        let index = self.offered;
        self.offered += 1;
        if let Some(end) = self.end(packet)
            && self.next.is_none_or(|next| end > next)
        {
            self.next = Some(end);
            self.fresh.push(index);
        }
    }

    fn delivered(&mut self, _now: Instant, _link: LinkId, _packet: &Packet) {}
}

#[cfg(test)]
mod tests {
    use festina_models::tcp::TcpConfig;
    use festina_recovery::Profile;

    use super::*;

    #[test]
    fn the_first_copies_of_the_last_packets_are_lost_and_no_others() {
        let sctp = |profile: Profile| Stack::sctp(profile.mechanisms(), Duration::from_millis(200));
        for stack in [Stack::tcp(TcpConfig::sack()), sctp(Profile::Rfc9260), sctp(Profile::Festina)] {
            let flow = ShortFlow { stack, packets: 9, rtt: Duration::from_millis(100), seed: 1 };
            let without = flow.run(0);
            assert_eq!(without.fresh.len(), 9);
            for lost in 1..=4 {
                let run = flow.run(lost);
                let arrived_first = run.truth.messages.iter().map(|message| message.delivered_by == Some(0));
                let expected = (0..9).map(|packet| packet < 9 - lost);
                assert_eq!(arrived_first.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{lost} lost");
                assert!(run.completion() > without.completion());
            }
        }
    }

    #[test]
    fn a_flow_that_loses_every_first_copy_is_delivered_too() {
        let flow =
            ShortFlow { stack: Stack::tcp(TcpConfig::sack()), packets: 2, rtt: Duration::from_millis(100), seed: 1 };
        let run = flow.run(4);
        assert_eq!(run.fresh.len(), 2);
        assert!(run.completion() > Some(Duration::from_millis(300)));
    }
}
