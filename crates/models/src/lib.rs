//! The hosts of the simulator, and the workloads that their applications write.
//!
//! | module | contents |
//! |---|---|
//! | [`workload`] | the writes of applications: periodic, random, greedy, measured applications, replays |
//! | [`packet`] | the packets of the simulated network: SCTP packets byte for byte, TCP segments, datagrams |
//! | [`sctp_host`] | the shipped SCTP core as a host |
//! | [`tcp`] | a model of TCP with the papers' mechanisms as switches |
//! | [`tcp_host`] | that model as a host; web clients and mice open a connection for each transfer |
//! | [`udp_host`] | datagrams: cross traffic |
//! | [`host`] | one type for every kind of host |
//! | [`stack`] | a transport with the settings of both ends, as hosts |
//! | [`thin_stream`] | one stream of small messages over one path, and the truth about it |
//! | [`record`] | the ground truth about each message and each retransmission |
//! | [`statistics`] | the distribution of delays |
//!
//! The crate uses no clock and draws only from named streams of the simulation's seed. The same seed gives the same
//! records.
//!
//! A thin stream over a path that takes 50 ms each way and loses the seventh packet that the client sends:
//!
//! ```
//! use festina_models::host::Host;
//! use festina_models::packet::Packet;
//! use festina_models::sctp_host::{SctpHost, SctpSender, observe};
//! use festina_models::workload::{Periodic, Workload};
//! use festina_netsim::{Duplex, LinkConfig, LossModel, Simulation, Topology};
//! use festina_sctp::{Config, ConfigError, Profile};
//! use festina_units::{ByteCount, Duration, Instant};
//!
//! # fn main() -> Result<(), ConfigError> {
//! let back = LinkConfig { delay: Duration::from_millis(50), ..LinkConfig::default() };
//! let forth = LinkConfig { loss: LossModel::Exact(vec![6]), ..back.clone() };
//! let path = Topology::path(&[Duplex { forward: forth, backward: back }]);
//!
//! let seed = 1;
//! let config = Config { message_events: true, ..Config::published(Profile::Festina) };
//! let thin = Workload::Periodic(Periodic { interval: Duration::from_millis(250), size: ByteCount::from_bytes(100) });
//! let mut sender = SctpSender::new(path.receiver, thin);
//! sender.stops_at = Some(Instant::from_secs(5));
//! let client = SctpHost::new(path.sender, seed, config.clone())?.with_sender(&sender);
//! let server = SctpHost::new(path.receiver, seed, config)?.listening();
//! let (client_node, server_node) = (path.sender, path.receiver);
//!
//! let hosts = vec![Host::from(client), Host::from(server)];
//! let mut simulation: Simulation<Packet, Host> = Simulation::new(path.topology, hosts, seed);
//! simulation.run_until(Instant::from_secs(20));
//!
//! let host = |node| simulation.node(node).as_sctp().expect("both hosts speak SCTP");
//! let records = observe(host(client_node), host(server_node));
//! assert!(records[0].truth.messages.iter().all(|message| message.delivered_at.is_some()));
//! let [probe] = &records[0].truth.retransmissions[..] else { panic!("one packet was lost") };
//! assert!(!probe.is_spurious());
//! assert!(probe.at - probe.first_sent_at < Duration::from_millis(200));
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod agenda;
pub mod host;
pub mod packet;
pub mod record;
pub mod sctp_host;
pub mod stack;
pub mod statistics;
pub mod tcp;
pub mod tcp_host;
pub mod thin_stream;
pub mod udp_host;
pub mod workload;
