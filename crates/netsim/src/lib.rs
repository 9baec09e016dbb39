//! A deterministic network simulator: links, queues, topologies, and the events that drive hosts on them.
//!
//! The simulator uses no clock, socket or protocol: time, seed and packets come in, packets and the next deadline come
//! out. The same seed gives the same result, packet for packet, on every machine.
//!
//! The simulator, from the outside in:
//!
//! - [`simulation`]: [`Simulation`] drives the [`Node`]s of a topology, one event for each packet and hop
//! - [`topology`]: hosts, routers and links as a list; [`Topology::path`], [`Topology::dumbbell`]
//! - [`probe`]: queue lengths, drops and throughput over time
//! - [`tap`]: observes packets in transit, for captures
//! - `kernel`: the agenda of deadlines
//!
//! The parts of a link, which the `emulate` crate also runs on a real clock:
//!
//! - [`link`]: one direction of a network path, from [`LinkConfig`] to [`Link`]
//! - [`queue`]: the queue in front of a link's transmitter: its limits, and which packets are marked or dropped
//! - [`rate_trace`]: a rate that changes over time, from a file in Mahimahi's format or generated
//! - [`loss`]: which packets a link loses
//! - [`random`]: named random streams and the distributions that links draw from
//!
//! Two hosts, a sender and a receiver, on a link that loses the second packet:
//!
//! ```
//! use festina_netsim::{Duplex, LinkConfig, LinkPacket, LossModel, Node, NodeId, SimPacket, Simulation, Topology};
//! use festina_units::{ByteCount, Duration, Instant};
//!
//! #[derive(Clone)]
//! struct Packet(NodeId);
//!
//! impl LinkPacket for Packet {
//!     fn size(&self) -> ByteCount {
//!         ByteCount::from_bytes(1_250)
//!     }
//!     fn corrupt(&mut self, _entropy: u64) {}
//! }
//!
//! impl SimPacket for Packet {
//!     fn destination(&self) -> NodeId {
//!         self.0
//!     }
//! }
//!
//! #[derive(Default)]
//! struct Host {
//!     outbox: Vec<Packet>,
//!     arrivals: Vec<Instant>,
//! }
//!
//! impl Node<Packet> for Host {
//!     fn handle_packet(&mut self, now: Instant, _packet: Packet) {
//!         self.arrivals.push(now);
//!     }
//!     fn handle_timeout(&mut self, _now: Instant) {}
//!     fn poll_transmit(&mut self, _now: Instant) -> Option<Packet> {
//!         self.outbox.pop()
//!     }
//!     fn poll_deadline(&self) -> Option<Instant> {
//!         None
//!     }
//! }
//!
//! let hop = LinkConfig {
//!     rate: Some("10Mbit/s".parse()?),
//!     delay: Duration::from_millis(50),
//!     loss: LossModel::Exact(vec![1]),
//!     ..LinkConfig::default()
//! };
//! let path = Topology::path(&[Duplex::symmetric(hop)]);
//! let sender = Host { outbox: vec![Packet(path.receiver); 3], ..Host::default() };
//!
//! let mut simulation = Simulation::new(path.topology, vec![sender, Host::default()], 1);
//! simulation.run_until(Instant::from_secs(1));
//! assert_eq!(simulation.node(path.receiver).arrivals, [Instant::from_millis(51), Instant::from_millis(53)]);
//! assert_eq!(simulation.link_counters(path.forward[0]).lost, 1);
//! # Ok::<(), festina_units::ParseError>(())
//! ```
#![forbid(unsafe_code)]

mod kernel;
pub mod link;
pub mod loss;
pub mod networks;
pub mod probe;
pub mod queue;
pub mod random;
pub mod rate_trace;
pub mod simulation;
pub mod tap;
pub mod topology;

pub use link::{Admission, Jitter, JitterShape, Link, LinkConfig, LinkCounters, LinkPacket, Reordering};
pub use loss::{GilbertElliott, LossModel, PacketGilbertElliott};
pub use networks::{Datagram, Networks};
pub use probe::{QueueProbeId, QueueSample, ThroughputProbeId, ThroughputSeries};
pub use queue::{CoDelConfig, DredConfig, FqCoDelConfig, PieConfig, QueueDiscipline, QueueLimit, RedConfig};
pub use random::RandomStream;
pub use rate_trace::{MadeTrace, RateTrace};
pub use simulation::{Node, SimPacket, Simulation, SimulationCounters};
pub use tap::{NoTap, Tap};
pub use topology::{Dumbbell, Duplex, LinkId, NodeId, Path, Topology};
