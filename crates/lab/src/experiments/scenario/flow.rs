//! Flows that are alike: which stack carries them, what their applications write, and when.

use std::ops::Range;
use std::sync::LazyLock;

use festina_models::host::Host;
use festina_models::sctp_host::{SctpHost, SctpSender};
use festina_models::tcp::{CongestionControl, SendBufferLimit, TcpConfig};
use festina_models::tcp_host::{TcpHost, TcpSender};
use festina_models::udp_host::{DATAGRAM_BYTES_MAX, UdpHost};
use festina_models::workload::{Greedy, OnOff, Periodic, Workload};
use festina_netsim::{NodeId, RandomStream};
use festina_sctp::{Carrier, Config};
use festina_units::{ByteCount, Duration, Instant, duration};

use super::key;
use crate::experiment::Objection;
use crate::experiments::bulk::flow as bulk;
use crate::plan::Point;

/// What applications write.
pub(super) const WORKLOADS: &[&str] = &["thin", "greedy", "on-off"];
pub(super) const GREEDY: &str = "greedy";
pub(super) const ON_OFF: &str = "on-off";

pub(super) const UDP: &str = "udp";
const KINDS_OF_TCP: [&str; 4] = ["tcp-new-reno", "tcp-sack", "tcp-cubic", "tcp-linux"];

/// Bytes of the IPv4 and TCP headers in a packet of full size.
const TCP_HEADERS_BYTES: u32 = 40;
/// Bytes of the timestamps option.
const TIMESTAMPS_BYTES: u32 = 12;
/// What a greedy application writes at once over TCP, which is a stream.
const TCP_WRITE: ByteCount = ByteCount::from_bytes(64 << 10);

static STACKS: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| bulk::sctp_names().into_iter().chain(KINDS_OF_TCP).chain([UDP]).collect());

/// The names of all stacks.
pub(super) fn stacks() -> &'static [&'static str] {
    &STACKS
}

/// Flows that are alike.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) name: &'static str,
    pub(super) count: u32,
    transport: Transport,
    workload: Workload,
    /// When the first begins.
    start: Duration,
    /// When all end.
    stop: Duration,
    stagger: Duration,
    spread: Duration,
}

#[derive(Clone, Debug)]
enum Transport {
    Sctp(Box<Config>),
    Tcp(Box<TcpConfig>),
    Udp,
}

impl Group {
    /// The flows `name` of a point.
    ///
    /// # Errors
    /// What makes no sense about them.
    pub(super) fn of(point: &Point, name: &'static str) -> Result<Self, Objection> {
        let key = |of: &str| key("flows", name, of);
        let objection = |of: &str, problem: &str| Objection { parameter: key(of), problem: problem.to_owned() };
        let [start, stop, stagger, spread, interval, on_mean, off_mean] =
            ["start", "stop", "stagger", "spread", "interval", "on", "off"].map(|of| point.duration(&key(of)));
        let (stack, ecn) = (point.choice(&key("stack")), point.choice(&key("ecn")) == "on");
        let size = point.bytes(&key("size"));
        let transport = Transport::of(stack, ecn, point.bytes(&key("buffer")));
        let workload = match point.choice(&key("workload")) {
            GREEDY => Workload::Greedy(Greedy { size: transport.greedy_write() }),
            ON_OFF => Workload::OnOff(OnOff { on_mean, off_mean, interval, size }),
            _ => Workload::Periodic(Periodic { interval, size }),
        };
        let stop = if stop.is_zero() { point.duration("duration") } else { stop };
        let group = Self {
            name,
            count: u32::try_from(point.count(&key("count"))).unwrap_or(u32::MAX),
            transport,
            workload,
            start,
            stop,
            stagger,
            spread,
        };
        match group.transport {
            Transport::Udp if ecn => Err(objection("ecn", "UDP does not react to marks; expected \"off\"")),
            Transport::Udp if group.is_greedy() => Err(objection(
                "workload",
                "a greedy flow waits for room, and UDP never lets it wait; expected \"thin\" or \"on-off\"",
            )),
            _ if matches!(group.workload, Workload::OnOff(_)) && on_mean.is_zero() => {
                Err(objection("on", "a burst takes time; expected more than 0ms"))
            }
            _ if stop <= group.latest_start() => Err(objection(
                "start",
                "the last of these flows would begin when all have ended; expected an earlier start",
            )),
            _ => Ok(group),
        }
    }

    /// Packets whose messages all flows of the group note, at most; greedy flows note none.
    pub(super) fn noted_packets(&self) -> u64 {
        let nanos = duration::saturating_nanos;
        let writing = nanos(self.stop.saturating_sub(self.start));
        let (messages, size) = match &self.workload {
            Workload::Periodic(Periodic { interval, size }) => (writing / nanos(*interval).max(1), size),
            Workload::OnOff(OnOff { on_mean, off_mean, interval, size }) => {
                let [on, all] = [nanos(*on_mean), nanos(*on_mean + *off_mean)].map(u128::from);
                let bursting = u128::from(writing) * on / all.max(1);
                (u64::try_from(bursting).unwrap_or(u64::MAX) / nanos(*interval).max(1), size)
            }
            _ => return 0,
        };
        let packets = size.bytes().div_ceil(bulk::MESSAGE_BYTES.into()).max(1);
        messages.saturating_mul(packets).saturating_mul(self.count.into())
    }

    /// The sum of the flows' buffers at one end.
    pub(super) fn buffer_bytes(&self) -> u64 {
        let buffer = match &self.transport {
            Transport::Sctp(config) => config.limits.send_buffer_bytes as u64,
            Transport::Tcp(config) => config.receive_buffer_bytes,
            Transport::Udp => 0,
        };
        buffer.saturating_mul(self.count.into())
    }

    fn latest_start(&self) -> Duration {
        self.start + self.stagger * (self.count - 1) + self.spread
    }

    /// Whether the application writes as much as it can; such a flow has no delays.
    pub(super) fn is_greedy(&self) -> bool {
        matches!(self.workload, Workload::Greedy(_))
    }

    /// The hosts of each flow, in the order of `pairs`; they note what happens to messages if `is_logging`.
    pub(super) fn hosts(&self, pairs: &[[NodeId; 2]], seed: u64, is_logging: bool) -> Vec<Host> {
        let starts = self.starts(seed);
        pairs.iter().zip(starts).flat_map(|(&pair, start)| self.pair(pair, seed, start, is_logging)).collect()
    }

    /// When each flow begins.
    fn starts(&self, seed: u64) -> impl Iterator<Item = Instant> {
        let mut starts = RandomStream::new(seed, &format!("starts of {}", self.name));
        let spread_ns = duration::saturating_nanos(self.spread);
        (0..self.count).map(move |number| {
            Instant::ZERO + self.start + self.stagger * number + Duration::from_nanos(starts.below(spread_ns))
        })
    }

    /// How many messages the applications have within `span`, whether or not a connection comes up.
    pub(super) fn messages_due(&self, pairs: &[[NodeId; 2]], seed: u64, span: &Range<Instant>) -> u64 {
        let due = |(&[from, to], start): (&[NodeId; 2], Instant)| {
            let (mut source, bytes_max) = match &self.transport {
                Transport::Sctp(config) => {
                    let sender = self.sctp_sender(to, start, config);
                    (sender.source(from, seed, 0), sender.message_bytes_max as u64)
                }
                Transport::Tcp(config) => (self.tcp_sender(to, start, config).source(from, seed, 0), u64::MAX),
                Transport::Udp => {
                    let writing = start..Instant::ZERO + self.stop;
                    (UdpHost::first_source(from, seed, &self.workload, &writing), DATAGRAM_BYTES_MAX.into())
                }
            };
            let writes = std::iter::from_fn(|| source.take_due(span.end)).filter(|(at, _)| span.contains(at));
            writes.map(|(_, write)| write.size.bytes().div_ceil(bytes_max.max(1))).sum::<u64>()
        };
        pairs.iter().zip(self.starts(seed)).map(due).sum()
    }

    fn pair(&self, [from, to]: [NodeId; 2], seed: u64, starts_at: Instant, is_logging: bool) -> [Host; 2] {
        let stops_at = Some(Instant::ZERO + self.stop);
        match &self.transport {
            Transport::Sctp(config) => {
                let sender = self.sctp_sender(to, starts_at, config);
                let config = Config { message_events: is_logging, ..Config::clone(config) };
                let host = |node| SctpHost::new(node, seed, config.clone()).expect("a plan's values are within ranges");
                [host(from).with_sender(&sender).into(), host(to).listening().into()]
            }
            Transport::Tcp(config) => {
                let host =
                    |node| if is_logging { TcpHost::new(node, seed).logging() } else { TcpHost::new(node, seed) };
                let sender = self.tcp_sender(to, starts_at, config);
                [host(from).with_sender(sender).into(), host(to).listening(**config).into()]
            }
            Transport::Udp => {
                let receiver = UdpHost::new(to, seed);
                let receiver = if is_logging { receiver.logging() } else { receiver };
                [UdpHost::new(from, seed).with_flow(to, &self.workload, starts_at, stops_at).into(), receiver.into()]
            }
        }
    }

    fn sctp_sender(&self, peer: NodeId, starts_at: Instant, config: &Config) -> SctpSender {
        SctpSender {
            connects_at: starts_at,
            starts_at,
            stops_at: Some(Instant::ZERO + self.stop),
            message_bytes_max: config.limits.message_bytes_max,
            ..SctpSender::new(peer, self.workload.clone())
        }
    }

    fn tcp_sender(&self, peer: NodeId, starts_at: Instant, config: &TcpConfig) -> TcpSender {
        let (workload, stops_at) = (self.workload.clone(), Some(Instant::ZERO + self.stop));
        TcpSender { peer, config: *config, workload, connects_at: starts_at, starts_at, stops_at }
    }
}

impl Transport {
    fn of(stack: &str, ecn: bool, buffer: ByteCount) -> Self {
        let tcp = |config: TcpConfig| {
            let options_bytes = if config.timestamps { TIMESTAMPS_BYTES } else { 0 };
            Self::Tcp(Box::new(TcpConfig {
                mss_bytes: bulk::PACKET_BYTES - TCP_HEADERS_BYTES - options_bytes,
                receive_buffer_bytes: config.receive_buffer_bytes.max(buffer.bytes()),
                send_buffer: SendBufferLimit::Bytes(buffer.bytes()),
                ecn,
                ..config
            }))
        };
        match stack {
            UDP => Self::Udp,
            "tcp-new-reno" => tcp(TcpConfig::new_reno()),
            "tcp-sack" => tcp(TcpConfig::sack()),
            "tcp-cubic" => tcp(TcpConfig { congestion: CongestionControl::Cubic, ..TcpConfig::sack() }),
            "tcp-linux" => tcp(TcpConfig::linux()),
            name => {
                let buffer_bytes = usize::try_from(buffer.bytes()).unwrap_or(usize::MAX);
                let carrier = Carrier { ecn, ..Carrier::default() };
                Self::Sctp(Box::new(Config { carrier, ..bulk::sctp_config(name, buffer_bytes) }))
            }
        }
    }

    /// What a greedy application writes at once: over SCTP a message that fills a packet.
    fn greedy_write(&self) -> ByteCount {
        match self {
            Self::Sctp(_) => ByteCount::from_bytes(bulk::MESSAGE_BYTES.into()),
            Self::Tcp(_) | Self::Udp => TCP_WRITE,
        }
    }
}
