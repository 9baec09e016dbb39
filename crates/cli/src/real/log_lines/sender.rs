//! The host that sends the lines.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use festina::{Association, ClientConfig, Endpoint, Message};
use festina_emulate::hosts::Hosts;
use festina_lab::experiments::log_lines;
use festina_lab::plan::Point;
use festina_syslog::config::RelayConfig;
use festina_syslog::relay::RunningRelay;
use festina_units::duration;
use socket2::SockRef;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::super::hosts::server_address;
use super::course::Course;
use super::receiver::{self, PORT, Receiver, over_udp};
use super::{DRAIN_MAX, LEAD_ALONE, LEAD_WITH_RIVALS, TCP_THIN, dropped, rivals};
use crate::compare::rig::connect_and_warm_up;

/// An attempt to connect that has taken so long is given up for a new one.
const ATTEMPT_MAX: Duration = Duration::from_secs(8);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Packets in flight have arrived after this time.
const SETTLE: Duration = Duration::from_secs(1);

/// How a host sends.
enum Kind {
    Udp,
    Tcp { congestion: &'static [u8], is_thin: bool },
    Association { config: Box<ClientConfig>, lifetimes: [Option<Duration>; 2] },
    Relay { config: Box<RelayConfig> },
}

/// The sender of a run.
pub(super) struct Sender {
    kind: Kind,
    rivals: u64,
}

/// A sender that is connected.
enum Carrier {
    Udp(UdpSocket),
    Tcp(TcpStream),
    Association { association: Association, lifetimes: [Option<Duration>; 2], _endpoint: Endpoint },
    Relay { relay: RunningRelay, socket: UdpSocket },
}

impl Sender {
    pub(super) fn new(point: &Point, receiver: &Receiver) -> Result<Self> {
        let kind = match &receiver.kind {
            receiver::Kind::Udp => Kind::Udp,
            receiver::Kind::Tcp => {
                let is_thin = point.choice("sender") == TCP_THIN;
                Kind::Tcp { congestion: if is_thin { b"cubic" } else { b"reno" }, is_thin }
            }
            receiver::Kind::Association(_) => {
                let association = log_lines::association(point).context("it is one")?;
                let config = Box::new(ClientConfig::plain().with_transport(over_udp(association.sender)));
                Kind::Association { config, lifetimes: association.lifetimes }
            }
            receiver::Kind::Collector(scratch) => {
                let lifetime = duration::display(point.duration("lifetime"));
                let text = format!(
                    "state = {:?}\ncollector = \"{}\"\n[[input]]\nkind = \"udp\"\nlisten = \"127.0.0.1:0\"\n\
                     [[rule]]\nseverity = \"emerg..err\"\nreliable = true\n[[rule]]\nlifetime = \"{lifetime}\"\npriority = 1\n\
                     [security]\nplain = true",
                    scratch.path().join("relay"),
                    server_address(PORT)
                );
                Kind::Relay { config: Box::new(RelayConfig::parse("relay.toml", &text)?) }
            }
        };
        Ok(Self { kind, rivals: point.count("flows") })
    }

    /// Sends all lines, and waits until they are settled. Returns the share of packets that the bottleneck dropped meanwhile.
    pub(super) async fn run(&self, course: Arc<Course>, hosts: &Hosts) -> Result<f64> {
        let mut carrier = self.kind.connect().await?;
        let [begins, ends] = course.begin_after(if self.rivals > 0 { LEAD_WITH_RIVALS } else { LEAD_ALONE });
        let mut flows = rivals::start(self.rivals, ends);
        sleep_until(begins).await;
        let before = hosts.counters();
        let (lines_in, mut lines) = mpsc::unbounded_channel();
        let sending = async {
            while let Some(number) = lines.recv().await {
                carrier.send(&course, number).await?;
            }
            anyhow::Ok(())
        };
        let ((), sent) = tokio::join!(course.write(lines_in), sending);
        sent.context("cannot send a line")?;
        let dropped = dropped(&before, &hosts.counters());
        while let Some(flow) = flows.join_next().await {
            flow.context("a task failed")??;
        }
        carrier.settle(&course).await;
        Ok(dropped)
    }
}

impl Kind {
    async fn connect(&self) -> Result<Carrier> {
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let remote = server_address(PORT);
        Ok(match self {
            Self::Udp => {
                let socket = UdpSocket::bind(any).await?;
                socket.connect(remote).await?;
                Carrier::Udp(socket)
            }
            Self::Tcp { congestion, is_thin } => {
                let stream = TcpStream::connect(remote).await?;
                stream.set_nodelay(true)?;
                SockRef::from(&stream).set_tcp_congestion(congestion)?;
                SockRef::from(&stream).set_tcp_thin_linear_timeouts(*is_thin)?;
                Carrier::Tcp(stream)
            }
            Self::Association { config, lifetimes } => {
                let endpoint = Endpoint::client(any, config.as_ref().clone()).await?;
                let warm_up = Message::new("w").unordered();
                let association = connect_and_warm_up(&endpoint, remote, ATTEMPT_MAX, &warm_up).await?;
                Carrier::Association { association, lifetimes: *lifetimes, _endpoint: endpoint }
            }
            Self::Relay { config } => {
                let relay = RunningRelay::start(config.as_ref().clone(), Arc::new(|_: &str| {})).await?;
                let input = relay.inputs().first().copied().flatten().context("the relay does not listen")?;
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
                socket.connect(input).await?;
                Carrier::Relay { relay, socket }
            }
        })
    }
}

impl Carrier {
    async fn send(&mut self, course: &Course, number: usize) -> Result<()> {
        let text = course.text(number);
        match self {
            // A full queue of the host is a loss like any other.
            Self::Udp(socket) => drop(socket.send(&text).await),
            Self::Tcp(stream) => stream.write_all(&text).await?,
            Self::Association { association, lifetimes, .. } => {
                let message = Message::new(text).unordered();
                let lifetime = lifetimes[usize::from(!course.is_important(number))];
                let message = lifetime.map_or(message.clone(), |lifetime| message.with_lifetime(lifetime));
                association.send(message).await?;
            }
            Self::Relay { socket, .. } => drop(socket.send(&text[..text.len() - 1]).await?),
        }
        Ok(())
    }

    /// Waits until all lines have arrived or never will.
    async fn settle(self, course: &Course) {
        let deadline = Instant::now() + DRAIN_MAX;
        match self {
            Self::Udp(_) => {}
            Self::Tcp(_stream) => {
                while !course.have_all_arrived() && Instant::now() < deadline {
                    sleep(POLL_INTERVAL).await;
                }
            }
            Self::Association { association, .. } => {
                // Messages that are still missing then count as lost.
                let _ = timeout(DRAIN_MAX, association.drained()).await;
            }
            Self::Relay { relay, .. } => {
                sleep(SETTLE).await;
                relay.stop(DRAIN_MAX).await;
            }
        }
        sleep(SETTLE).await;
    }
}
