//! One type for all kinds of hosts, so that a simulation is compiled for one node type and makes no virtual calls.

use festina_netsim::Node;
use festina_units::Instant;

use crate::packet::Packet;
use crate::sctp_host::SctpHost;
use crate::tcp_host::TcpHost;
use crate::udp_host::UdpHost;

/// A host of any kind.
#[derive(Debug)]
pub enum Host {
    /// SCTP associations over the shipped core.
    Sctp(Box<SctpHost>),
    /// Datagrams.
    Udp(UdpHost),
    /// TCP connections of the model.
    Tcp(Box<TcpHost>),
}

impl Host {
    /// Returns the SCTP host, if it is one.
    #[must_use]
    pub fn as_sctp(&self) -> Option<&SctpHost> {
        match self {
            Self::Sctp(host) => Some(host),
            _ => None,
        }
    }

    /// Returns the UDP host, if it is one.
    #[must_use]
    pub fn as_udp(&self) -> Option<&UdpHost> {
        match self {
            Self::Udp(host) => Some(host),
            _ => None,
        }
    }

    /// Returns the TCP host, if it is one.
    #[must_use]
    pub fn as_tcp(&self) -> Option<&TcpHost> {
        match self {
            Self::Tcp(host) => Some(host),
            _ => None,
        }
    }
}

impl From<SctpHost> for Host {
    fn from(host: SctpHost) -> Self {
        Self::Sctp(Box::new(host))
    }
}

impl From<TcpHost> for Host {
    fn from(host: TcpHost) -> Self {
        Self::Tcp(Box::new(host))
    }
}

impl From<UdpHost> for Host {
    fn from(host: UdpHost) -> Self {
        Self::Udp(host)
    }
}

impl Node<Packet> for Host {
    fn start(&mut self, now: Instant) {
        match self {
            Self::Sctp(host) => host.start(now),
            Self::Udp(host) => host.start(now),
            Self::Tcp(host) => host.start(now),
        }
    }

    fn handle_packet(&mut self, now: Instant, packet: Packet) {
        match self {
            Self::Sctp(host) => host.handle_packet(now, packet),
            Self::Udp(host) => host.handle_packet(now, packet),
            Self::Tcp(host) => host.handle_packet(now, packet),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        match self {
            Self::Sctp(host) => host.handle_timeout(now),
            Self::Udp(host) => host.handle_timeout(now),
            Self::Tcp(host) => host.handle_timeout(now),
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        match self {
            Self::Sctp(host) => host.poll_transmit(now),
            Self::Udp(host) => host.poll_transmit(now),
            Self::Tcp(host) => host.poll_transmit(now),
        }
    }

    fn poll_deadline(&self) -> Option<Instant> {
        match self {
            Self::Sctp(host) => host.poll_deadline(),
            Self::Udp(host) => host.poll_deadline(),
            Self::Tcp(host) => host.poll_deadline(),
        }
    }
}
