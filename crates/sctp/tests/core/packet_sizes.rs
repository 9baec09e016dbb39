//! Larger packets where the path carries them, in virtual time (RFC 8899).

use bytes::Bytes;
use festina_netsim::{Link, LinkConfig, LinkPacket, LossModel};
use festina_sctp::wire::chunk_type;
use festina_sctp::{
    Association, Config, Context, Event, Fragmentation, Incoming, Listener, Message, Ports, Profile, StreamId,
};
use festina_units::{ByteCount, Duration, EcnCodepoint, Instant, Probability};

use crate::pair::{CLIENT_PORT, SERVER_PORT};

/// Headers of IPv4 and UDP.
const HEADER_BYTES: usize = 28;
/// One way.
const DELAY: Duration = Duration::from_millis(25);

/// A packet, and whether IP cuts it into fragments.
#[derive(Clone, Debug)]
struct Parcel(Vec<u8>, bool);

impl LinkPacket for Parcel {
    fn size(&self) -> ByteCount {
        let bytes = HEADER_BYTES + self.0.len();
        ByteCount::from_bytes(if self.1 { bytes.min(1_280) } else { bytes } as u64)
    }

    fn corrupt(&mut self, _entropy: u64) {}
}

/// A client, a server, and a path between them.
struct Hosts {
    now: Instant,
    ends: [Option<Association>; 2],
    listener: Listener,
    links: [Link<Parcel>; 2],
    /// Sizes of the client's probes.
    probes: Vec<usize>,
    /// When the client's packets became smaller, and to what.
    reductions: Vec<(Instant, usize)>,
    delivered: u32,
}

fn config(profile: Profile) -> Config {
    let mut config = Config { mechanisms: profile.mechanisms(), ..Config::default() };
    config.limits.packet_bytes_searched_max = Some(9_000 - HEADER_BYTES);
    config
}

fn links(mtu: u64, percent: u32) -> [Link<Parcel>; 2] {
    let loss = LossModel::Independent(Probability::from_percent(percent));
    let config = LinkConfig { delay: DELAY, loss, mtu: Some(ByteCount::from_bytes(mtu)), ..LinkConfig::default() };
    [1, 2].map(|seed| Link::new(config.clone(), seed, "path"))
}

impl Hosts {
    fn new(config: &Config, mtu: u64, percent: u32) -> Self {
        let [client, server] = [1, 2].map(|secret| Context::new(config.clone(), [secret; 16]).unwrap());
        let mut listener = Listener::new(&server);
        listener.listen(SERVER_PORT);
        let (now, ports) = (Instant::from_secs(1), Ports { local: CLIENT_PORT, peer: SERVER_PORT });
        let client = Association::connect(now, &client, "192.0.2.2:9899".parse().unwrap(), ports, 1);
        let (ends, links) = ([Some(client), None], links(mtu, percent));
        let (probes, reductions) = (Vec::new(), Vec::new());
        let mut hosts = Self { now, ends, listener, links, probes, reductions, delivered: 0 };
        hosts.drain(0);
        hosts.run_for(Duration::from_secs(20));
        hosts
    }

    fn client(&mut self) -> &mut Association {
        self.ends[0].as_mut().unwrap()
    }

    fn size(&mut self) -> usize {
        usize::try_from(self.client().stats().packet_bytes_max).unwrap()
    }

    fn drain(&mut self, host: usize) {
        let Some(association) = &mut self.ends[host] else { return };
        let mut packet = Vec::new();
        while let Some(transmit) = association.poll_transmit(self.now, &mut packet) {
            let packet = std::mem::take(&mut packet);
            if packet[12] == chunk_type::HEARTBEAT && packet.get(28) == Some(&chunk_type::PAD) {
                assert_eq!(transmit.fragmentation, Fragmentation::Never);
                self.probes.push(packet.len());
            }
            self.links[host].send(self.now, Parcel(packet, transmit.fragmentation == Fragmentation::Needed));
        }
        while association.poll_message().is_some() {
            self.delivered += 1;
        }
        while let Some(event) = association.poll_event() {
            if let Event::PacketSizeLimited { packet_bytes_max, .. } = event {
                self.reductions.push((self.now, packet_bytes_max));
            }
            assert!(!matches!(event, Event::Closed(_)), "{event:?}");
        }
    }

    fn deliver(&mut self, host: usize, packet: &Bytes) {
        let (from, now) = (format!("192.0.2.{}:9899", 2 - host).parse().unwrap(), self.now);
        if let Some(association) = &mut self.ends[host] {
            association.handle_packet(now, from, EcnCodepoint::NotCapable, packet).unwrap();
        } else {
            let mut reply = Vec::new();
            match self.listener.handle_packet(now, from, packet, &|_| false, &mut reply) {
                Incoming::Accepted(association) => self.ends[host] = Some(*association),
                Incoming::Reply => drop(self.links[host].send(now, Parcel(reply, false))),
                other => panic!("{other:?}"),
            }
        }
        self.drain(host);
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let timers = self.ends.iter().flatten().filter_map(Association::poll_deadline);
            let next = self.links.iter().filter_map(Link::poll_deadline).chain(timers).min();
            let Some(next) = next.filter(|&next| next <= end) else { break };
            self.now = self.now.max(next);
            for host in 0..2 {
                while let Some(Parcel(packet, _)) = self.links[host].poll_delivery(self.now) {
                    self.deliver(1 - host, &packet.into());
                }
            }
            for host in 0..2 {
                let association = self.ends[host].as_mut();
                if let Some(association) =
                    association.filter(|end| end.poll_deadline().is_some_and(|at| at <= self.now))
                {
                    association.handle_timeout(self.now);
                    self.drain(host);
                    let deadline = self.ends[host].as_ref().and_then(Association::poll_deadline);
                    assert!(deadline.is_none_or(|at| at > self.now), "a timer that was handled is still due");
                }
            }
        }
        self.now = end;
    }

    /// Sends a message of this size in each interval, and returns their number.
    fn stream(&mut self, bytes: usize, interval: Duration, time: Duration) -> u32 {
        let (end, mut count) = (self.now + time, 0);
        while self.now < end {
            let now = self.now;
            self.client().send(now, Message::new(vec![7; bytes]).on_stream(StreamId(1))).unwrap();
            self.drain(0);
            self.run_for(interval);
            count += 1;
        }
        count
    }
}

const STREAMS: [(usize, Duration); 3] =
    [(3_000, Duration::from_millis(100)), (5_000, Duration::from_millis(50)), (2_000, Duration::from_millis(300))];

#[test]
fn the_usual_sizes_are_found_with_six_probes() {
    for mtu in [1_280, 1_400, 1_420, 1_450, 1_492, 1_500, 9_000] {
        for overhead_bytes in [0, 15] {
            let mut config = config(Profile::Festina);
            config.carrier.overhead_bytes = overhead_bytes;
            config.limits.packet_bytes_searched_max = Some(9_000 - HEADER_BYTES - overhead_bytes);
            let room = usize::try_from(mtu).unwrap() - overhead_bytes;
            let mut hosts = Hosts::new(&config, room as u64, 0);
            let right = (room - HEADER_BYTES) & !3;
            while hosts.size() < right {
                hosts.stream(10_000, Duration::from_millis(10), Duration::from_millis(10));
                assert!(hosts.probes.len() <= 6, "{mtu}: {:?}", hosts.probes);
            }
            hosts.stream(10_000, Duration::from_millis(100), Duration::from_secs(60));
            assert_eq!((hosts.size(), &hosts.reductions[..]), (right, &[][..]), "{mtu}: {:?}", hosts.probes);
            println!("{mtu} with {overhead_bytes}: {:?}", hosts.probes);
        }
    }
}

#[test]
fn streams_of_small_messages_send_no_probes() {
    let mut hosts = Hosts::new(&config(Profile::Festina), 9_000, 5);
    hosts.stream(400, Duration::from_millis(10), Duration::from_secs(60));
    assert_eq!((hosts.probes.len(), hosts.size()), (0, 1_232));
}

#[test]
fn an_hour_of_heavy_loss_reduces_no_size() {
    for profile in [Profile::Festina, Profile::Rfc9260] {
        let mut hosts = Hosts::new(&config(profile), 1_500, 0);
        hosts.stream(10_000, Duration::from_millis(100), Duration::from_secs(5));
        assert_eq!(hosts.size(), 1_472);
        hosts.links = links(1_500, 15);
        let before = hosts.probes.len();
        let count = hosts.stream(3_000, Duration::from_millis(250), Duration::from_secs(3_600));
        println!("{profile}: {} probes for {count} messages", hosts.probes.len() - before);
        assert_eq!((hosts.size(), &hosts.reductions[..]), (1_472, &[][..]));
    }
}

#[test]
fn a_path_that_carries_less_is_noticed_within_three_timeouts_and_everything_arrives() {
    for profile in [Profile::Festina, Profile::Rfc9260] {
        for (before, after) in [(1_500, 1_280), (9_000, 1_500)] {
            for (bytes, interval) in STREAMS {
                for percent in [0, 5] {
                    let case = format!("{profile}, {before} to {after}, {bytes} bytes, {percent} %");
                    let mut hosts = Hosts::new(&config(profile), before, 0);
                    let mut count = hosts.stream(bytes, interval, Duration::from_secs(5));
                    assert_eq!(hosts.size() + HEADER_BYTES, usize::try_from(before).unwrap(), "{case}");
                    let (rto, cut_at) = (hosts.client().stats().path.rto, hosts.now);
                    hosts.links = links(after, percent);
                    count += hosts.stream(bytes, interval, Duration::from_secs(20));
                    hosts.run_for(Duration::from_secs(60));
                    let &(noticed_at, _) = hosts.reductions.first().unwrap_or_else(|| panic!("{case}: not noticed"));
                    println!("{case}: after {:?} at an RTO of {rto:?}", noticed_at - cut_at);
                    assert!(noticed_at - cut_at <= rto * 3 + interval, "{case}");
                    assert_eq!(hosts.delivered, count, "{case}");
                    let (size, after) = (hosts.size() + HEADER_BYTES, usize::try_from(after).unwrap());
                    // Both probes of a size may be lost.
                    assert!(size == after || percent > 0 && size < after, "{case}: {size}");
                }
            }
        }
    }
}

#[test]
fn a_path_that_carries_less_is_noticed_though_no_message_lives_for_a_timeout() {
    let mut hosts = Hosts::new(&config(Profile::Rfc9260), 1_500, 0);
    hosts.stream(10_000, Duration::from_millis(100), Duration::from_secs(5));
    hosts.links = links(1_280, 0);
    for _ in 0..200 {
        let now = hosts.now;
        let message = Message::new(vec![7; 3_000]).with_lifetime(Duration::from_millis(80));
        hosts.client().send(now, message).unwrap();
        hosts.drain(0);
        hosts.run_for(Duration::from_millis(50));
    }
    assert_eq!(hosts.size(), 1_252);
}

#[test]
fn an_outage_reduces_no_size() {
    for seconds in [1, 3, 10] {
        let mut hosts = Hosts::new(&config(Profile::Festina), 1_500, 0);
        hosts.stream(3_000, Duration::from_millis(100), Duration::from_secs(5));
        hosts.links = links(1_500, 100);
        hosts.stream(3_000, Duration::from_millis(100), Duration::from_secs(seconds));
        hosts.links = links(1_500, 0);
        hosts.stream(3_000, Duration::from_millis(100), Duration::from_secs(30));
        assert_eq!((hosts.size(), &hosts.reductions[..]), (1_472, &[][..]), "{seconds} s");
    }
}
