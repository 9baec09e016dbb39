//! A server that sends flows, each to a client of its own over a path of its own, and what captures at both ends show.

use std::io;
use std::net::IpAddr;

use festina_models::host::Host;
use festina_models::packet::Packet;
use festina_models::record::Truth;
use festina_models::tcp::TcpConfig;
use festina_models::tcp_host::{TcpHost, TcpSender, observe};
use festina_models::udp_host::UdpHost;
use festina_models::workload::{Replay, Workload};
use festina_netsim::{Duplex, NodeId, Simulation, Topology};
use festina_trace::PcapngWriter;
use festina_units::{ByteCount, Duration, Instant};

use crate::capture::Capture;

/// After the last write the network runs empty in steps of this size.
const DRAIN_STEP: Duration = Duration::from_secs(10);
/// Time after which undelivered messages count as lost for good.
const DRAIN_MAX: Duration = Duration::from_secs(600);

/// The address of the first client in captures; those of the others follow.
const FIRST_CLIENT: u32 = 0x0a00_0002;

/// Packets with their times: each a whole IP packet.
pub(crate) type Packets = Vec<(Instant, Vec<u8>)>;

/// The transport of the server.
#[derive(Clone, Debug)]
pub(crate) enum Carrier {
    /// Datagrams.
    Udp,
    /// The TCP model: how the server is set, and how its clients are.
    Tcp {
        /// The side that writes.
        server: Box<TcpConfig>,
        /// The side that reads.
        client: Box<TcpConfig>,
    },
}

impl Carrier {
    /// TCP with the same settings at both ends.
    pub(crate) fn tcp(config: TcpConfig) -> Self {
        Self::Tcp { server: Box::new(config), client: Box::new(config) }
    }
}

/// A flow.
#[derive(Clone, Debug)]
pub(crate) struct ServedFlow {
    /// When the connection opens.
    pub(crate) connects_at: Instant,
    /// When the first write may be.
    pub(crate) starts_at: Instant,
    /// Writes, each with its time after the start and its size.
    pub(crate) writes: Vec<(Duration, ByteCount)>,
    /// The path, away from the server.
    pub(crate) path: Duplex,
}

/// A server and its flows.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) carrier: Carrier,
    pub(crate) flows: Vec<ServedFlow>,
}

/// What became of the flows.
#[derive(Debug)]
pub(crate) struct ServerRun {
    /// The truth about each flow; empty of those that never connected, and of datagrams.
    pub(crate) truths: Vec<Truth>,
    /// The capture at the server.
    pub(crate) at_server: Packets,
    /// What all clients would have captured, by one clock.
    pub(crate) at_clients: Packets,
}

impl Server {
    /// Runs all flows until everything is delivered, ten minutes after the last write at the latest. The same seed gives the same run.
    ///
    /// # Panics
    /// If a flow's writes are not in order or one is empty: that is a bug of the experiment.
    pub(crate) fn run(&self, seed: u64) -> ServerRun {
        let mut topology = Topology::new();
        let server = topology.host("server");
        let clients: Vec<NodeId> = (1..=self.flows.len())
            .zip(&self.flows)
            .map(|(number, flow)| {
                let client = topology.host(&format!("client{number}"));
                topology.duplex(server, client, flow.path.clone());
                client
            })
            .collect();
        let capture = Capture::of(&topology);
        let hosts = self.hosts(server, &clients, seed);
        let mut simulation: Simulation<Packet, Host, Capture> = Simulation::with_tap(topology, hosts, seed, capture);
        let last = self.flows.iter().filter_map(|flow| Some(flow.starts_at + flow.writes.last()?.0)).max();
        let ends_at = last.unwrap_or(Instant::ZERO);
        let mut drained = Duration::ZERO;
        let truths = loop {
            drained += DRAIN_STEP;
            simulation.run_until(ends_at + drained);
            let truths: Vec<Truth> = clients.iter().map(|&client| truth(&simulation, server, client)).collect();
            let is_delivered = |truth: &Truth| truth.messages.iter().all(|message| message.delivered_at.is_some());
            if truths.iter().all(is_delivered) || drained >= DRAIN_MAX {
                break truths;
            }
        };
        let capture = simulation.into_tap();
        let seen = |node| capture.seen_by(node).expect("simulated packets fit into IP");
        let mut at_clients: Packets = clients.iter().flat_map(|&client| seen(client)).collect();
        at_clients.sort_by_key(|(at, _)| *at);
        ServerRun { truths, at_server: seen(server), at_clients }
    }

    /// In the order in which [`run`](Self::run) adds them to the topology.
    fn hosts(&self, server: NodeId, clients: &[NodeId], seed: u64) -> Vec<Host> {
        let flows = || clients.iter().zip(&self.flows);
        let workload = |flow: &ServedFlow| {
            let writes = Replay::new(flow.writes.iter().copied());
            Workload::Replay(writes.expect("a flow's writes are in order, and none is empty"))
        };
        match &self.carrier {
            Carrier::Udp => {
                let sending = flows().fold(UdpHost::new(server, seed), |host, (&client, flow)| {
                    host.with_flow(client, &workload(flow), flow.starts_at, None)
                });
                let reading = clients.iter().map(|&client| Host::from(UdpHost::new(client, seed)));
                std::iter::once(Host::from(sending)).chain(reading).collect()
            }
            Carrier::Tcp { server: sends, client: reads } => {
                let sending = flows().fold(TcpHost::new(server, seed).logging(), |host, (&client, flow)| {
                    host.with_sender(TcpSender {
                        connects_at: flow.connects_at,
                        starts_at: flow.starts_at,
                        ..TcpSender::new(client, **sends, workload(flow))
                    })
                });
                let reading =
                    clients.iter().map(|&client| Host::from(TcpHost::new(client, seed).logging().listening(**reads)));
                std::iter::once(Host::from(sending)).chain(reading).collect()
            }
        }
    }
}

fn truth(simulation: &Simulation<Packet, Host, Capture>, server: NodeId, client: NodeId) -> Truth {
    match (simulation.node(server), simulation.node(client)) {
        (Host::Tcp(sender), Host::Tcp(receiver)) => {
            observe(sender, receiver).pop().map(|record| record.truth).unwrap_or_default()
        }
        _ => Truth::default(),
    }
}

/// Which client, counted from zero, has this address in captures.
pub(crate) fn client_at(address: IpAddr) -> Option<usize> {
    let IpAddr::V4(address) = address else { return None };
    usize::try_from(address.to_bits().checked_sub(FIRST_CLIENT)?).ok()
}

/// Packets as a capture file in memory.
///
/// # Errors
/// If a time lies beyond what a file can hold.
pub(crate) fn capture_file(packets: &Packets) -> io::Result<Vec<u8>> {
    let mut writer = PcapngWriter::new(Vec::new())?;
    let interface = writer.add_interface("host")?;
    for (at, packet) in packets {
        writer.write_packet(interface, *at, packet, None)?;
    }
    writer.finish()
}

#[cfg(test)]
mod tests {
    use festina_netsim::LinkConfig;
    use festina_trace::{Analyser, Finding, Protocol, StreamReport, analyse};

    use super::*;

    fn flow(rtt_ms: u64, bytes: &[u64]) -> ServedFlow {
        let link = LinkConfig { delay: Duration::from_millis(rtt_ms) / 2, ..LinkConfig::default() };
        let second = Duration::from_secs(1);
        let writes = bytes.iter().zip(0..).map(|(bytes, number)| (second * number, ByteCount::from_bytes(*bytes)));
        ServedFlow {
            connects_at: Instant::ZERO,
            starts_at: Instant::from_secs(2),
            writes: writes.collect(),
            path: Duplex::symmetric(link),
        }
    }

    fn streams(packets: &Packets) -> Vec<StreamReport> {
        let file = capture_file(packets).expect("memory does not fail");
        let mut streams = Vec::new();
        let (_, result) = analyse(file.as_slice(), Analyser::default(), |finding| {
            if let Finding::Stream(stream) = finding {
                streams.push(*stream);
            }
        });
        result.expect("a sound capture");
        streams
    }

    #[test]
    fn the_capture_at_the_server_has_every_flow_with_the_round_trip_of_its_own_path() {
        let flows = vec![flow(20, &[100, 200]), flow(300, &[50])];
        let run = Server { carrier: Carrier::tcp(TcpConfig::linux()), flows }.run(1);
        let sizes = |truth: &Truth| truth.messages.iter().map(|message| message.bytes).collect::<Vec<_>>();
        assert_eq!(run.truths.iter().map(sizes).collect::<Vec<_>>(), [vec![100, 200], vec![50]]);
        let found = streams(&run.at_server);
        let seen: Vec<_> = found.iter().map(|it| (it.traffic.payload_bytes.count(), it.rtt_ns.min())).collect();
        assert_eq!(seen, [(2, Some(20_000_000)), (1, Some(300_000_000))]);
        let clients: Vec<_> = found.iter().map(|it| client_at(it.destination.ip())).collect();
        assert_eq!(clients, [Some(0), Some(1)]);
        assert_eq!(streams(&run.at_clients).len(), 2);
    }

    #[test]
    fn datagrams_leave_when_they_are_written() {
        let run = Server { carrier: Carrier::Udp, flows: vec![flow(20, &[100, 200, 300])] }.run(1);
        let found = streams(&run.at_server);
        let [stream] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((stream.protocol, stream.traffic.payload_bytes.count()), (Protocol::Udp, 3));
        assert_eq!(stream.traffic.gaps_ns.max(), Some(1_000_000_000));
        assert!(run.truths.iter().all(|truth| truth.messages.is_empty()));
    }
}
