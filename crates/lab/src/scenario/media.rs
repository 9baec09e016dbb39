//! A media stream over TCP, or over Festina, while elephants, mice and constant bit rate come and go: G02 §3.1, §3.2 and §4.1.
//!
//! ```text
//! media server ───┐                      ┌── media client
//! cross traffic ──┼─ left ──────── right ┼── elephants' and mice's receivers
//! constant rate ──┘     bottleneck       └── datagrams' receiver
//! ```

use festina_models::host::Host;
use festina_models::packet::Packet;
use festina_models::record::MessageRecord;
use festina_models::sctp_host::{SctpHost, SctpSender};
use festina_models::tcp::{SendBufferLimit, TcpConfig};
use festina_models::tcp_host::{TcpHost, TcpSender};
use festina_models::udp_host::UdpHost;
use festina_models::workload::{Cbr, Greedy, Mice, Workload};
use festina_netsim::{DredConfig, LinkConfig, NodeId, QueueDiscipline, QueueLimit, RandomStream, Simulation};
use festina_sctp::{Config, SendBufferPolicy};
use festina_units::{Bandwidth, ByteCount, Duration, Instant};

use super::bottleneck::Bottleneck;
use super::{StreamRecord, WebTraffic};

/// The payload of a packet of every TCP here, and the size of the media application's writes.
const MESSAGE_BYTES: u64 = 1_448;
/// With its headers.
const PACKET_BYTES: u64 = 1_500;
/// The same without the IPv4 header.
const SCTP_PACKET_BYTES_MAX: usize = 1_480;
/// The fewest packets that a queue holds.
const QUEUE_PACKETS_MIN: u64 = 4;
/// With marks the queue ends that many bandwidth-delay products on: DRED keeps it below two.
const MARKING_QUEUE_BDPS: u64 = 4;
/// Payload of a datagram.
const DATAGRAM_BYTES: u64 = 1_000;
/// The profile counts in eightieths.
const PARTS: u32 = 80;
/// Start and end of each kind of cross traffic.
const ELEPHANTS: [u32; 2] = [5, 60];
const MICE: [u32; 2] = [20, 75];
const CONSTANT: [u32; 2] = [40, 75];

/// What carries the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// TCP, with this limit of the media server's send buffer.
    Tcp(SendBufferLimit),
    /// An association with the profile `festina`. With [`SendBufferPolicy::Fixed`] its send buffer holds as many packets as those of the cross
    /// traffic. Its server writes as soon as there is room.
    Festina(SendBufferPolicy),
}

/// The stream and its surroundings.
#[derive(Clone, Debug)]
pub struct MediaProfile {
    /// What carries the stream.
    pub media: Media,
    /// The bottleneck's rate.
    pub rate: Bandwidth,
    /// The round-trip time when nothing waits.
    pub rtt: Duration,
    /// Queue limit of the bottleneck without marks, in parts per million of the bandwidth-delay product.
    pub queue_ppm: u64,
    /// Whether routers mark (DRED) and ends understand it (ECN).
    pub marks: bool,
    /// Time between the wake-up of the server and its write.
    pub wake_up: Duration,
    /// Duration of the whole profile.
    pub duration: Duration,
    /// What else crosses the bottleneck.
    pub cross: CrossTraffic,
}

/// The traffic that crosses the bottleneck together with the stream.
#[derive(Clone, Copy, Debug)]
pub struct CrossTraffic {
    /// Streams that always have something to send.
    pub elephants: u32,
    /// Repeated short transfers.
    pub mice: u32,
    /// Each of them.
    pub mouse: ByteCount,
    /// Constant bit rate, in parts per million of the bottleneck.
    pub constant_ppm: u64,
    /// Send buffer of each elephant.
    pub send_buffer: ByteCount,
    /// Each flow starts within this time of its turn, at random.
    pub spread: Duration,
}

/// Results of a run.
#[derive(Clone, Debug)]
pub struct MediaRun {
    /// Each message that arrived.
    pub messages: Vec<MessageRecord>,
    /// Payload that the media client read, by part of the profile.
    pub media_bytes: Vec<u64>,
    /// What elephants, mice and constant bit rate received, by part of the profile.
    pub cross_bytes: Vec<[u64; 3]>,
    /// Packets that the bottleneck dropped or marked, of those offered.
    pub dropped_packets: u64,
    /// See above.
    pub marked_packets: u64,
    /// See above.
    pub offered_packets: u64,
}

/// Where a message's time went (G02 §4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// From the write to the first transmission.
    pub sender: Duration,
    /// From there to the first arrival.
    pub network: Duration,
    /// From there until it could be read.
    pub receiver: Duration,
}

impl Split {
    /// The split of a message that arrived.
    pub fn of(message: &MessageRecord) -> Option<Self> {
        let (left, arrived, delivered) = (message.left_at?, message.arrived_at?, message.delivered_at?);
        Some(Self {
            sender: left.saturating_duration_since(message.sent_at),
            network: arrived.saturating_duration_since(left),
            receiver: delivered.saturating_duration_since(arrived),
        })
    }

    /// All of it.
    pub fn total(&self) -> Duration {
        self.sender + self.network + self.receiver
    }
}

/// Where everything is.
struct Layout {
    network: Bottleneck,
    media: [NodeId; 2],
    cross: NodeId,
    sinks: [NodeId; 2],
    datagrams: [NodeId; 2],
}

impl MediaProfile {
    /// Runs the profile. The same seed gives the same run.
    pub fn run(&self, seed: u64) -> MediaRun {
        let Layout { network, media, cross, sinks, datagrams } = self.layout();
        let link = network.link;
        let tcp = self.tcp(SendBufferLimit::Bytes(self.cross.send_buffer.bytes()));
        let [server, client] = self.media_hosts(media, tcp, seed);
        let hosts = vec![
            server,
            client,
            Host::from(self.cross_host(cross, sinks, tcp, seed)),
            Host::from(TcpHost::new(sinks[0], seed).listening(tcp)),
            Host::from(TcpHost::new(sinks[1], seed).listening(tcp)),
            Host::from(self.constant_host(datagrams, seed)),
            Host::from(UdpHost::new(datagrams[1], seed)),
        ];
        let mut simulation: Simulation<Packet, Host> = Simulation::new(network.topology, hosts, seed);
        let (mut media_bytes, mut cross_bytes) = (Vec::new(), Vec::new());
        let (mut media_before, mut cross_before) = (0, [0; 3]);
        for part in 1..=PARTS {
            simulation.run_until(self.at(part));
            let tcp_bytes = |node| simulation.node(node).as_tcp().map_or(0, |host| host.totals().bytes_received);
            let udp = simulation.node(datagrams[1]).as_udp().map_or(0, |host| host.received_from(datagrams[0]).bytes);
            let media_now = match simulation.node(media[1]).as_sctp() {
                Some(host) => host.received(0).bytes,
                None => tcp_bytes(media[1]),
            };
            media_bytes.push(media_now - media_before);
            media_before = media_now;
            let now = [tcp_bytes(sinks[0]), tcp_bytes(sinks[1]), udp];
            cross_bytes.push([now[0] - cross_before[0], now[1] - cross_before[1], now[2] - cross_before[2]]);
            cross_before = now;
        }
        let counters = simulation.link_counters(link);
        let records = StreamRecord::observe(simulation.node(media[0]), simulation.node(media[1]));
        let messages = records.into_iter().flat_map(|record| record.truth().messages.clone());
        MediaRun {
            messages: messages.filter(|message| message.delivered_at.is_some()).collect(),
            media_bytes,
            cross_bytes,
            dropped_packets: counters.queue_dropped,
            marked_packets: counters.congestion_marked,
            offered_packets: counters.offered,
        }
    }

    /// The end of a part of the profile.
    fn at(&self, parts: u32) -> Instant {
        Instant::ZERO + self.duration * parts / PARTS
    }

    /// The server of the stream and its client.
    fn media_hosts(&self, [server, client]: [NodeId; 2], tcp: TcpConfig, seed: u64) -> [Host; 2] {
        let policy = match self.media {
            Media::Tcp(limit) => {
                let sender = self.sender(client, self.tcp(limit), Instant::ZERO);
                let sender = TcpSender { stops_at: Some(self.at(PARTS)), ..sender };
                let server = TcpHost::new(server, seed).logging().waking_after(self.wake_up).with_sender(sender);
                return [Host::from(server), Host::from(TcpHost::new(client, seed).logging().listening(tcp))];
            }
            Media::Festina(policy) => policy,
        };
        let host = |node| SctpHost::new(node, seed, self.festina(policy)).expect("the settings are in range");
        let workload = Workload::Greedy(Greedy { size: ByteCount::from_bytes(MESSAGE_BYTES) });
        let sender = SctpSender {
            starts_at: Instant::ZERO,
            stops_at: Some(self.at(PARTS)),
            message_bytes_max: usize::try_from(MESSAGE_BYTES).unwrap_or(usize::MAX),
            ..SctpSender::new(client, workload)
        };
        [Host::from(host(server).with_sender(&sender)), Host::from(host(client).listening())]
    }

    fn festina(&self, send_buffer: SendBufferPolicy) -> Config {
        let mut config = Config { message_events: true, peer_timeout: None, ..Config::default() };
        config.limits.send_buffer = send_buffer;
        config.limits.packet_bytes_max = SCTP_PACKET_BYTES_MAX;
        if send_buffer == SendBufferPolicy::Fixed {
            // Each message counts 128 bytes more.
            let bytes = self.cross.send_buffer.bytes() / MESSAGE_BYTES * (MESSAGE_BYTES + 128);
            config.limits.send_buffer_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            config.limits.send_low_water_bytes = usize::try_from(bytes - MESSAGE_BYTES).unwrap_or(usize::MAX);
        }
        config
    }

    /// TCP of the time, SACK with New Reno (§3: all streams use SACK).
    fn tcp(&self, send_buffer: SendBufferLimit) -> TcpConfig {
        TcpConfig { send_buffer, ecn: self.marks, ..WebTraffic::sack_new_reno() }
    }

    fn sender(&self, peer: NodeId, config: TcpConfig, at: Instant) -> TcpSender {
        let workload = Workload::Greedy(Greedy { size: ByteCount::from_bytes(MESSAGE_BYTES) });
        TcpSender { peer, config, workload, connects_at: at, starts_at: at, stops_at: None }
    }

    fn layout(&self) -> Layout {
        let bdp_bytes =
            u64::try_from(u128::from(self.rate.bits_per_second()) * self.rtt.as_nanos() / (8 * 1_000_000_000));
        let bdp_bytes = bdp_bytes.unwrap_or(u64::MAX / MARKING_QUEUE_BDPS);
        let packets = |bytes: u64| usize::try_from((bytes / PACKET_BYTES).max(QUEUE_PACKETS_MIN)).unwrap_or(usize::MAX);
        let narrow = if self.marks {
            let dred = DredConfig::goel_2002(ByteCount::from_bytes(bdp_bytes));
            LinkConfig {
                queue: QueueLimit::packets(packets(MARKING_QUEUE_BDPS * bdp_bytes)),
                discipline: QueueDiscipline::Dred(dred),
                ..LinkConfig::default()
            }
        } else {
            let queue_bytes = u128::from(bdp_bytes) * u128::from(self.queue_ppm) / 1_000_000;
            let queue = QueueLimit::packets(packets(u64::try_from(queue_bytes).unwrap_or(u64::MAX)));
            LinkConfig { queue, ..LinkConfig::default() }
        };
        let mut network = Bottleneck::with_link(LinkConfig { rate: Some(self.rate), ..narrow });
        let (left, right) = (network.left, network.right);
        let media = [network.source("server", left), network.sink("client", right, self.rtt)];
        let cross = network.source("cross", left);
        let sinks = ["elephants", "mice"].map(|name| network.sink(name, right, self.rtt));
        let datagrams = [network.source("constant", left), network.sink("datagrams", right, self.rtt)];
        Layout { network, media, cross, sinks, datagrams }
    }

    fn cross_host(&self, node: NodeId, [elephants, mice]: [NodeId; 2], tcp: TcpConfig, seed: u64) -> TcpHost {
        let mut random = RandomStream::new(seed, "media/cross traffic");
        let spread_ns = u64::try_from(self.cross.spread.as_nanos()).unwrap_or(u64::MAX).max(1);
        let mut soon_after = |part: u32| self.at(part) + Duration::from_nanos(random.below(spread_ns));
        let mut host = TcpHost::new(node, seed);
        for _ in 0..self.cross.elephants {
            let elephant = self.sender(elephants, tcp, soon_after(ELEPHANTS[0]));
            host = host.with_sender(TcpSender { stops_at: Some(self.at(ELEPHANTS[1])), ..elephant });
        }
        for _ in 0..self.cross.mice {
            let mouse = self.sender(mice, tcp, soon_after(MICE[0]));
            let workload = Workload::Mice(Mice { size: self.cross.mouse });
            host = host.with_sender(TcpSender { workload, stops_at: Some(self.at(MICE[1])), ..mouse });
        }
        host
    }

    fn constant_host(&self, [from, to]: [NodeId; 2], seed: u64) -> UdpHost {
        let bits = u128::from(self.rate.bits_per_second()) * u128::from(self.cross.constant_ppm) / 1_000_000;
        let rate = Bandwidth::from_bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX).max(1));
        let workload = Workload::Cbr(Cbr { rate, size: ByteCount::from_bytes(DATAGRAM_BYTES) });
        let [starts_at, stops_at] = CONSTANT.map(|part| self.at(part));
        UdpHost::new(from, seed).with_flow(to, &workload, starts_at, Some(stops_at))
    }
}

#[cfg(test)]
mod tests {
    use festina_models::tcp::MinBuf;

    use super::*;

    fn profile(limit: SendBufferLimit, marks: bool) -> MediaProfile {
        over(Media::Tcp(limit), marks)
    }

    fn over(media: Media, marks: bool) -> MediaProfile {
        let cross = CrossTraffic {
            elephants: 5,
            mice: 20,
            mouse: ByteCount::from_bytes(20_000),
            constant_ppm: 100_000,
            send_buffer: ByteCount::from_bytes(65_160),
            spread: Duration::from_millis(100),
        };
        MediaProfile {
            media,
            rate: Bandwidth::from_bits_per_second(12_000_000),
            rtt: Duration::from_millis(50),
            queue_ppm: 500_000,
            marks,
            wake_up: Duration::ZERO,
            duration: Duration::from_secs(16),
            cross,
        }
    }

    #[test]
    fn a_messages_time_is_spent_in_sender_network_and_receiver() {
        let run = profile(SendBufferLimit::Bytes(65_160), false).run(1);
        assert!(run.messages.len() > 1_000 && run.dropped_packets > 0 && run.marked_packets == 0);
        for message in &run.messages {
            let split = Split::of(message).expect("it arrived");
            assert_eq!(Some(split.total()), message.delay());
            assert!(split.network >= Duration::from_millis(25));
        }
    }

    #[test]
    fn festina_carries_the_stream_too_and_its_buffer_may_follow_the_window() {
        let [fixed, follows, target] = [
            SendBufferPolicy::Fixed,
            SendBufferPolicy::FollowsWindow { windows: 1, extra_packets: 3 },
            SendBufferPolicy::Target(Duration::from_millis(50)),
        ]
        .map(|policy| over(Media::Festina(policy), false).run(1));
        let in_sender = |run: &MediaRun| {
            let mut splits: Vec<_> = run.messages.iter().filter_map(Split::of).map(|split| split.sender).collect();
            splits.sort_unstable();
            splits[splits.len() * 9 / 10]
        };
        let bytes = |run: &MediaRun| run.media_bytes.iter().sum::<u64>();
        assert!(bytes(&fixed) > 1_000_000);
        for less in [&follows, &target] {
            assert!(in_sender(less) <= Duration::from_millis(50), "{:?}", in_sender(less));
            assert!(in_sender(less) * 2 < in_sender(&fixed), "{:?} {:?}", in_sender(less), in_sender(&fixed));
            assert!(bytes(less) * 10 > bytes(&fixed) * 9, "{} {}", bytes(less), bytes(&fixed));
        }
    }

    #[test]
    fn a_late_wake_up_costs_a_buffer_of_one_window_throughput_and_a_larger_one_less() {
        let bytes = |windows, wake_up_ms| {
            let limit = SendBufferLimit::MinBuf(MinBuf { windows, extra_packets: 0 });
            let profile = MediaProfile { wake_up: Duration::from_millis(wake_up_ms), ..profile(limit, false) };
            profile.run(1).media_bytes.iter().sum::<u64>()
        };
        let (at_once, late, late_but_two) = (bytes(1, 0), bytes(1, 20), bytes(2, 20));
        assert!(late * 10 < at_once * 9 && late < late_but_two, "{at_once} {late} {late_but_two}");
    }

    #[test]
    fn each_kind_of_traffic_has_its_time() {
        let run = profile(SendBufferLimit::MinBuf(MinBuf::default()), false).run(1);
        let received = |kind: usize, parts: std::ops::Range<usize>| -> u64 {
            run.cross_bytes[parts].iter().map(|bytes| bytes[kind]).sum()
        };
        assert!(received(0, 0..5) == 0 && received(0, 6..20) > 0);
        assert!(received(1, 0..20) == 0 && received(1, 22..40) > 0);
        assert!(received(2, 0..40) == 0 && received(2, 42..75) > 0);
        // Elephants empty their buffers and are gone.
        assert!(received(0, 70..80) == 0, "{:?}", &run.cross_bytes[60..]);
        assert!(run.media_bytes.iter().sum::<u64>() > 1_000_000);
    }

    #[test]
    fn routers_that_mark_drop_less_than_others_and_the_same_seed_gives_the_same_run() {
        let marking = profile(SendBufferLimit::Bytes(65_160), true);
        let [first, second, other] = [1, 1, 2].map(|seed| marking.run(seed));
        let plain = profile(SendBufferLimit::Bytes(65_160), false).run(1);
        assert!(first.marked_packets > first.dropped_packets, "{} {}", first.marked_packets, first.dropped_packets);
        assert!(
            first.dropped_packets * 2 < plain.dropped_packets,
            "{} {}",
            first.dropped_packets,
            plain.dropped_packets
        );
        assert_eq!(first.messages, second.messages);
        assert_ne!(first.messages, other.messages);
    }
}
