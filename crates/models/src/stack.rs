//! The transport under test: SCTP or TCP, with its settings at both ends.

use crate::host::Host;
use crate::record::Truth;
use crate::sctp_host::{self, AssociationRecord, SctpHost, SctpSender};
use crate::tcp::TcpConfig;
use crate::tcp_host::{self, TcpHost, TcpRecord, TcpSender};
use crate::workload::Workload;
use festina_netsim::NodeId;
use festina_recovery::{Mechanisms, Profile};
use festina_sctp::{Config, CongestionControl};
use festina_units::{Duration, Instant};

/// A transport and how both ends are set.
#[derive(Clone, Debug, PartialEq)]
pub enum Stack {
    /// The shipped SCTP core.
    Sctp {
        /// The side that writes.
        sender: Box<Config>,
        /// The side that reads; its SACK delay counts.
        receiver: Box<Config>,
    },
    /// The TCP model.
    Tcp {
        /// The side that writes.
        sender: Box<TcpConfig>,
        /// The side that reads; its delayed ACK counts.
        receiver: Box<TcpConfig>,
    },
}

/// What one host writes to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// The writes of the application.
    pub workload: Workload,
    /// Start of the handshake.
    pub connects_at: Instant,
    /// Start of the workload.
    pub starts_at: Instant,
    /// When the application stops writing.
    pub stops_at: Instant,
}

/// What happened on one association or connection.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamRecord {
    /// Over SCTP.
    Sctp(Box<AssociationRecord>),
    /// Over TCP.
    Tcp(Box<TcpRecord>),
}

impl Stack {
    /// SCTP whose sender recovers by `mechanisms` and whose receiver delays its SACKs by `sack_delay`, as the standard permits (every second packet
    /// is acknowledged at once); zero for no delay. All other settings are the core's defaults, and congestion control is that of the profile whose
    /// thick streams have these rules.
    pub fn sctp(mechanisms: Mechanisms, sack_delay: Duration) -> Self {
        let is_festina = mechanisms.normal == Profile::Festina.mechanisms().normal;
        let congestion = if is_festina { CongestionControl::Cubic } else { CongestionControl::Rfc9260 };
        let config = Config { mechanisms, congestion, message_events: true, peer_timeout: None, ..Config::default() };
        let mut receiver = config.clone();
        receiver.sack.delay = sack_delay;
        if sack_delay.is_zero() {
            receiver.sack.every_packets = 1;
        }
        Self::Sctp { sender: Box::new(config), receiver: Box::new(receiver) }
    }

    /// TCP with the same settings at both ends.
    pub fn tcp(config: TcpConfig) -> Self {
        Self::Tcp { sender: Box::new(config), receiver: Box::new(config) }
    }

    /// A host at `from` that writes, and one at `to` that reads, noting all that [`StreamRecord::observe`] needs.
    ///
    /// # Panics
    /// If a setting of the core is out of range: that is a bug of the experiment.
    pub fn hosts(&self, from: NodeId, to: NodeId, seed: u64, traffic: &Traffic) -> [Host; 2] {
        self.hosts_of_many(from, to, seed, std::slice::from_ref(traffic))
    }

    /// As [`hosts`](Self::hosts), with an association or connection for each of several streams.
    ///
    /// # Panics
    /// If a setting of the core is out of range, which is a bug of the experiment.
    pub fn hosts_of_many(&self, from: NodeId, to: NodeId, seed: u64, traffic: &[Traffic]) -> [Host; 2] {
        match self {
            Self::Sctp { sender, receiver } => {
                let host = |node, config: &Config| {
                    let config = Config { message_events: true, ..config.clone() };
                    SctpHost::new(node, seed, config).expect("the experiment's settings are within their ranges")
                };
                let writing = traffic.iter().fold(host(from, sender), |host, traffic| {
                    let Traffic { workload, connects_at, starts_at, stops_at } = traffic.clone();
                    let stops_at = Some(stops_at);
                    let begins = SctpSender { connects_at, starts_at, stops_at, ..SctpSender::new(to, workload) };
                    host.with_sender(&begins)
                });
                [Host::from(writing), Host::from(host(to, receiver).listening())]
            }
            Self::Tcp { sender, receiver } => {
                let writing = traffic.iter().fold(TcpHost::new(from, seed).logging(), |host, traffic| {
                    let Traffic { workload, connects_at, starts_at, stops_at } = traffic.clone();
                    let stops_at = Some(stops_at);
                    host.with_sender(TcpSender {
                        peer: to,
                        config: **sender,
                        workload,
                        connects_at,
                        starts_at,
                        stops_at,
                    })
                });
                [Host::from(writing), Host::from(TcpHost::new(to, seed).logging().listening(**receiver))]
            }
        }
    }
}

impl StreamRecord {
    /// What happened between two hosts of the same kind, one record per stream that was carried; none if the kinds
    /// differ. A packet still under way counts as lost, so let the network run empty first.
    pub fn observe(sender: &Host, receiver: &Host) -> Vec<Self> {
        match (sender, receiver) {
            (Host::Sctp(sender), Host::Sctp(receiver)) => {
                sctp_host::observe(sender, receiver).into_iter().map(|record| Self::Sctp(Box::new(record))).collect()
            }
            (Host::Tcp(sender), Host::Tcp(receiver)) => {
                tcp_host::observe(sender, receiver).into_iter().map(|record| Self::Tcp(Box::new(record))).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The truth about its messages and retransmissions.
    pub fn truth(&self) -> &Truth {
        match self {
            Self::Sctp(record) => &record.truth,
            Self::Tcp(record) => &record.truth,
        }
    }

    /// Whether every message was delivered.
    pub fn is_delivered(&self) -> bool {
        self.truth().messages.iter().all(|message| message.delivered_at.is_some())
    }
}
