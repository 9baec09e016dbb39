//! Random walks: two endpoints, a bad link, random actions. In all of them every message arrives once, whole and in order,
//! and nothing gets stuck.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use festina_netsim::{
    GilbertElliott, Jitter, JitterShape, LinkConfig, LossModel, QueueLimit, RandomStream, Reordering,
};
use festina_recovery::redundancy::Redundancy;
use festina_recovery::{Mechanisms, Profile};
use festina_sctp::{
    Carrier, ClosedReason, Config, CongestionControl, Event, Message, SendBufferPolicy, SendError, SendErrorKind,
};
use festina_units::{Bandwidth, ByteCount, Duration, Probability};

use crate::pair::Pair;
use crate::seeds;

/// Fewer walks need not meet each fault.
pub(crate) const WALKS_MIN: u64 = 260;

/// Returns the seeds of one of the test functions that share all walks and run side by side. A failure prints its seed; replay it with
/// `TEST_SEEDS=17..18 cargo test -p festina-sctp --test core of_the_seeds`.
pub(crate) fn part(number: u64, parts: u64) -> Range<u64> {
    let Range { start, end } = seeds::extent(0..WALKS_MIN * parts, 0..4 * WALKS_MIN * parts);
    let first_of = |number| start + (end - start) * number / parts;
    first_of(number)..first_of(number + 1)
}

/// What happened in a walk, so that the test can say that each fault was really met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Met {
    lost: u64,
    queue_dropped: u64,
    reordered: u64,
    duplicated: u64,
    corrupted: u64,
    blocked: u64,
    retransmitted: u64,
    timeouts: u64,
    fast: u64,
    copies: u64,
    fragmented: u64,
    collisions: u64,
    messages: u64,
    too_large: u64,
    ecn: MetEcn,
}

/// The same of explicit congestion notification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct MetEcn {
    marked: u64,
    reported: u64,
    dropped: u64,
}

impl Met {
    fn add(&mut self, other: &Self) {
        self.lost += other.lost;
        self.queue_dropped += other.queue_dropped;
        self.reordered += other.reordered;
        self.duplicated += other.duplicated;
        self.corrupted += other.corrupted;
        self.blocked += other.blocked;
        self.retransmitted += other.retransmitted;
        self.timeouts += other.timeouts;
        self.fast += other.fast;
        self.copies += other.copies;
        self.fragmented += other.fragmented;
        self.collisions += other.collisions;
        self.messages += other.messages;
        self.too_large += other.too_large;
        self.ecn.marked += other.ecn.marked;
        self.ecn.reported += other.ecn.reported;
        self.ecn.dropped += other.ecn.dropped;
    }
}

struct Walk {
    random: RandomStream,
    /// Draws MTUs, if packets may grow.
    mtus: Option<RandomStream>,
    pair: Pair,
    sent: [Vec<Message>; 2],
    /// How many events each side had when a message was last refused for want of room.
    refused_at: [Option<usize>; 2],
    met: Met,
    sends_left: u32,
    /// The smaller of the two receive buffers: the longest message that both take.
    message_bytes_max: u64,
}

pub(crate) fn percent(percent: u64) -> Probability {
    Probability::from_ppb(u32::try_from(percent * 10_000_000).unwrap())
}

pub(crate) fn link(random: &mut RandomStream) -> LinkConfig {
    let delay = Duration::from_millis(random.below(150));
    let loss = match random.below(4) {
        0 => LossModel::None,
        1 => LossModel::Independent(percent(random.below(21))),
        2 => LossModel::Independent(percent(random.below(5))),
        _ => LossModel::GilbertElliott(GilbertElliott {
            mean_good: Duration::from_millis(400 + random.below(2_000)),
            mean_bad: Duration::from_millis(1 + random.below(300)),
            loss_in_good: Probability::ZERO,
            loss_in_bad: Probability::ONE,
        }),
    };
    let slow = random.below(2) == 0;
    LinkConfig {
        rate: slow.then(|| Bandwidth::from_bits_per_second(200_000 + random.below(5_000_000))),
        delay,
        jitter: Jitter {
            shape: if random.below(3) == 0 {
                JitterShape::Uniform { range: Duration::from_millis(1 + random.below(40)) }
            } else {
                JitterShape::None
            },
            keeps_order: random.below(2) == 0,
        },
        queue: QueueLimit::packets(4 + usize::try_from(random.below(60)).unwrap()),
        loss,
        reordering: Reordering {
            probability: percent(random.below(10)),
            hold_back: Duration::from_millis(random.below(60)),
        },
        duplication: percent(random.below(10)),
        corruption: percent(random.below(5)),
        ..LinkConfig::default()
    }
}

pub(crate) fn pick<T: Copy>(random: &mut RandomStream, of: &[T]) -> T {
    of[usize::try_from(random.below(of.len() as u64)).unwrap()]
}

/// A profile, or the rules of one for thick streams and those of another for thin ones; and any redundancy.
pub(crate) fn mechanisms(random: &mut RandomStream) -> Mechanisms {
    let mut mechanisms = pick(random, Profile::all()).mechanisms();
    if random.below(2) == 0 {
        mechanisms.thin_detection = Profile::Festina.mechanisms().thin_detection;
        mechanisms.normal = pick(random, Profile::all()).mechanisms().normal;
    }
    // A code needs two ends that know it.
    let codes = random.below(2) == 0;
    mechanisms.redundancy = if codes { Redundancy::ADAPTIVE } else { pick(random, &Redundancy::NAMED) };
    mechanisms
}

const SEND_BUFFERS: [SendBufferPolicy; 5] = [
    SendBufferPolicy::Fixed,
    SendBufferPolicy::Fixed,
    SendBufferPolicy::FollowsWindow { windows: 1, extra_packets: 0 },
    SendBufferPolicy::FollowsWindow { windows: 2, extra_packets: 3 },
    SendBufferPolicy::Target(Duration::from_millis(30)),
];

pub(crate) fn config(random: &mut RandomStream) -> Config {
    let mut config = Config { mechanisms: mechanisms(random), ..Config::default() };
    config.congestion = pick(random, CongestionControl::all());
    config.limits.packet_bytes_max = usize::try_from(400 + random.below(1_100)).unwrap();
    config.limits.receive_buffer_bytes = usize::try_from(2_000 + random.below(60_000)).unwrap();
    config.limits.send_buffer_bytes = usize::try_from(2_000 + random.below(60_000)).unwrap();
    config.limits.send_low_water_bytes = config.limits.send_buffer_bytes / 4;
    config.limits.message_bytes_max = config.limits.receive_buffer_bytes;
    config.limits.outbound_streams = u16::try_from(1 + random.below(40)).unwrap();
    config.sack.delay = Duration::from_millis(random.below(300));
    config.sack.every_packets = u8::try_from(1 + random.below(3)).unwrap();
    // Heavy loss must not be taken for a dead peer.
    config.retries.association_max = 1_000;
    config.retries.init_max = 1_000;
    config.peer_timeout = None;
    config.timers.shutdown_guard = Some(Duration::from_secs(3_600));
    config.timers.shutdown_stall = Duration::from_secs(3_600);
    config.message_events = random.below(2) == 0;
    config.limits.send_buffer = pick(random, &SEND_BUFFERS);
    config
}

/// A payload that says which message it is and whose every byte depends on that.
pub(crate) fn payload(from: usize, index: usize, len: usize) -> Bytes {
    let stamp = (index as u64) << 1 | from as u64;
    let mut state = stamp.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes: Vec<u8> = (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        })
        .collect();
    bytes[..8].copy_from_slice(&stamp.to_le_bytes());
    Bytes::from(bytes)
}

/// The same with ECN, on both sides mostly. Drawn apart, as are the routers, so that the rest of a walk does not depend on it.
pub(crate) fn offering_ecn(seed: u64, configs: [Config; 2]) -> [Config; 2] {
    let mut random = RandomStream::new(seed, "ecn");
    configs.map(|config| Config { carrier: Carrier { ecn: random.below(4) > 0, ..Carrier::default() }, ..config })
}

/// Routers that mark some packets, all or none, and on some paths drop those that are capable of it.
pub(crate) fn set_routers(seed: u64, pair: &mut Pair) {
    let mut random = RandomStream::new(seed, "marks");
    pair.routers.marks = percent(pick(&mut random, &[0, 1, 5, 30, 100]));
    pair.routers.drops = percent(pick(&mut random, &[0, 0, 0, 10, 100]));
}

/// The path of what a host sends drops larger packets from now on. Those that are not searched for pass.
fn set_mtu(mtus: &mut Option<RandomStream>, pair: &mut Pair, host: usize) {
    if let Some(mtus) = mtus {
        let least = pair.hosts[host].context.config().limits.packet_bytes_max as u64;
        let mtu = pick(mtus, &[least, 1_280, 1_400, 1_452, 1_500, 9_000]).max(least);
        pair.links[host].set_mtu(Some(ByteCount::from_bytes(mtu)));
    }
}

impl Walk {
    fn new(seed: u64) -> Self {
        let mut random = RandomStream::new(seed, "walk");
        let configs = [config(&mut random), config(&mut random)];
        let links = [link(&mut random), link(&mut random)];
        let message_bytes_max =
            configs.iter().map(|config| config.limits.message_bytes_max as u64).min().unwrap_or_default();
        let mut mtus = Some(RandomStream::new(seed, "mtu")).filter(|_| seed.is_multiple_of(3));
        let mut configs = offering_ecn(seed, configs);
        for config in &mut configs {
            config.limits.packet_bytes_searched_max = mtus.as_mut().map(|mtus| pick(mtus, &[1_472, 8_972]));
        }
        let mut pair = Pair::new(configs, links.clone(), seed);
        pair.watch_round_trips(&links);
        (0..2).for_each(|host| set_mtu(&mut mtus, &mut pair, host));
        set_routers(seed, &mut pair);
        let sends_left = u32::try_from(20 + random.below(100)).unwrap();
        Self {
            random,
            mtus,
            pair,
            sent: [Vec::new(), Vec::new()],
            refused_at: [None; 2],
            met: Met::default(),
            sends_left,
            message_bytes_max,
        }
    }

    fn run(mut self) -> (Met, [u64; 2]) {
        self.pair.connect(0, 1);
        if self.random.below(6) == 0 {
            self.met.collisions += 1;
            self.pair.connect(1, 2);
        }
        while self.sends_left > 0 {
            self.act();
        }
        for host in &mut self.pair.hosts {
            host.reads = true;
        }
        (0..2).for_each(|index| self.pair.drain(index));
        let expected = [self.sent[1].len(), self.sent[0].len()];
        self.pair.run_until(|pair| (0..2).all(|index| pair.hosts[index].received.len() >= expected[index]));
        self.finish();
        self.check();
        self.count();
        (self.met, [self.pair.hosts[0].trace, self.pair.hosts[1].trace])
    }

    fn act(&mut self) {
        if self.mtus.as_mut().is_some_and(|mtus| mtus.below(20) == 0) {
            set_mtu(&mut self.mtus, &mut self.pair, usize::from(self.sends_left.is_multiple_of(2)));
        }
        match self.random.below(10) {
            0..=5 => self.send(),
            6..=7 => {
                let time = Duration::from_micros(self.random.below(300_000));
                self.pair.run_for(time);
            }
            8 => {
                let index = usize::try_from(self.random.below(2)).unwrap();
                let host = &mut self.pair.hosts[index];
                host.reads = !host.reads;
                self.pair.drain(index);
            }
            _ => {
                let index = usize::try_from(self.random.below(2)).unwrap();
                let mechanisms = mechanisms(&mut self.random);
                let now = self.pair.now;
                if let Some(association) = &mut self.pair.hosts[index].association {
                    association.set_mechanisms(now, mechanisms);
                    self.pair.drain(index);
                }
            }
        }
    }

    fn send(&mut self) {
        let from = usize::try_from(self.random.below(2)).unwrap();
        let len = match self.random.below(20) {
            0 => 1_000 + self.random.below(40_000),
            1..=4 => 300 + self.random.below(2_000),
            _ => 8 + self.random.below(200),
        };
        let len = len.min(self.message_bytes_max);
        let index = self.sent[from].len();
        let mut message = Message::new(payload(from, index, usize::try_from(len).unwrap()))
            .on_stream(u16::try_from(self.random.below(5)).unwrap())
            .with_ppid(u32::try_from(index).unwrap());
        if self.random.below(4) == 0 {
            message = message.unordered();
        }
        let now = self.pair.now;
        let Some(association) = &mut self.pair.hosts[from].association else {
            self.pair.run_for(Duration::from_millis(100));
            return;
        };
        match association.send(now, message) {
            Ok(_) => {
                let message = self.next_message(from, index, len);
                self.sent[from].push(message);
                self.sends_left -= 1;
                self.met.fragmented += u64::from(len > 1_500);
            }
            Err(SendError { kind: SendErrorKind::BufferFull, .. }) => {
                self.met.blocked += 1;
                self.refused_at[from] = Some(self.pair.hosts[from].events.len());
                self.pair.run_for(Duration::from_millis(50));
                self.sends_left = self.sends_left.saturating_sub(u32::from(self.random.below(4) == 0));
            }
            Err(SendError { kind: SendErrorKind::NoSuchStream { .. }, .. }) => {}
            Err(error) => panic!("{error}: {:#?}", self.pair.hosts[from]),
        }
        self.pair.drain(from);
    }

    /// The message as it must arrive (its stream and order are checked apart).
    fn next_message(&self, from: usize, index: usize, len: u64) -> Message {
        Message::new(payload(from, index, usize::try_from(len).unwrap()))
    }

    fn finish(&mut self) {
        let now = self.pair.now;
        let first = usize::try_from(self.random.below(2)).unwrap();
        self.pair.hosts[first].association().shutdown(now);
        self.pair.drain(first);
        if self.random.below(3) == 0 {
            self.pair.hosts[1 - first].association().shutdown(now);
            self.pair.drain(1 - first);
        }
        self.pair.run_until(|pair| pair.hosts.iter().all(|host| host.closed().is_some()));
        for host in &self.pair.hosts {
            assert_eq!(host.closed(), Some(&ClosedReason::Shutdown), "{host:#?}");
        }
    }

    fn check(&self) {
        for index in 0..2 {
            let (received, sent) = (&self.pair.hosts[index].received, &self.sent[1 - index]);
            assert_eq!(received.len(), sent.len(), "messages lost or duplicated");
            if let Some(refused_at) = self.refused_at[index] {
                let is_told = self.pair.hosts[index].events[refused_at..].contains(&Event::Writable);
                assert!(is_told, "a message was refused, and no event reports that there is room again");
            }
            let mut seen = vec![false; sent.len()];
            let mut last_of_stream = BTreeMap::new();
            for message in received {
                let number = usize::try_from(message.ppid()).unwrap();
                assert!(!core::mem::replace(&mut seen[number], true), "message {number} came twice");
                assert_eq!(*message.payload(), sent[number].payload(), "message {number} is damaged");
                if !message.is_unordered() {
                    let last = last_of_stream.insert(message.stream(), number);
                    assert!(last.is_none_or(|last| last < number), "message {number} came after {last:?}");
                }
            }
        }
    }

    fn count(&mut self) {
        for counters in self.pair.link_counters() {
            self.met.lost += counters.lost;
            self.met.queue_dropped += counters.queue_dropped;
            self.met.reordered += counters.reordered;
            self.met.duplicated += counters.duplicated;
            self.met.corrupted += counters.corrupted;
            self.met.too_large += counters.too_large;
        }
        for host in &self.pair.hosts {
            let stats = host.association.as_ref().map(|association| association.stats().sent).unwrap_or_default();
            self.met.retransmitted += stats.retransmitted.total();
            self.met.timeouts += stats.timeouts;
            self.met.fast += stats.retransmitted.fast;
            self.met.copies += stats.retransmitted.copies;
            self.met.ecn.reported += stats.marks_reported;
        }
        self.met.ecn.marked += self.pair.routers.marked;
        self.met.ecn.dropped += self.pair.routers.dropped;
        self.met.messages += self.pair.hosts.iter().map(|host| host.received.len() as u64).sum::<u64>();
    }
}

fn walk_all(seeds: Range<u64>) {
    let mut met = Met::default();
    let mut failed = Vec::new();
    let are_few = seeds.end - seeds.start < WALKS_MIN;
    for seed in seeds {
        match std::panic::catch_unwind(|| Walk::new(seed).run()) {
            Ok((walk, [there, back])) => {
                // Equal lines before and after a change show that it moved code only.
                println!("walk {seed}: {there:016x} {back:016x}, {walk:?}");
                met.add(&walk);
            }
            Err(_) => failed.push(seed),
        }
    }
    assert!(failed.is_empty(), "seeds {failed:?} failed");
    if are_few {
        return;
    }
    let Met { lost, queue_dropped, reordered, duplicated, corrupted, blocked, .. } = met;
    for (what, count) in [
        ("lost", lost),
        ("dropped by a queue", queue_dropped),
        ("reordered", reordered),
        ("duplicated", duplicated),
        ("corrupted", corrupted),
        ("refused by a full send buffer", blocked),
        ("retransmitted", met.retransmitted),
        ("retransmitted by timeout", met.timeouts),
        ("retransmitted fast", met.fast),
        ("copied in a packet of its own", met.copies),
        ("fragmented", met.fragmented),
        ("dropped for its size", met.too_large),
        ("opened from both sides", met.collisions),
        ("marked", met.ecn.marked),
        ("reported as marked", met.ecn.reported),
        ("dropped for its ECN field", met.ecn.dropped),
    ] {
        assert!(count > 0, "no walk in which anything was {what}: {met:?}");
    }
}

#[test]
fn messages_arrive_once_whole_and_in_order_over_any_link_first_quarter_of_the_seeds() {
    walk_all(part(0, 4));
}

#[test]
fn messages_arrive_once_whole_and_in_order_over_any_link_second_quarter_of_the_seeds() {
    walk_all(part(1, 4));
}

#[test]
fn messages_arrive_once_whole_and_in_order_over_any_link_third_quarter_of_the_seeds() {
    walk_all(part(2, 4));
}

#[test]
fn messages_arrive_once_whole_and_in_order_over_any_link_fourth_quarter_of_the_seeds() {
    walk_all(part(3, 4));
}

#[test]
fn the_same_seed_gives_the_same_packets_at_the_same_times() {
    for seed in [3, 77, 1_234] {
        assert_eq!(Walk::new(seed).run(), Walk::new(seed).run());
    }
    assert_ne!(Walk::new(3).run().1, Walk::new(4).run().1);
}
