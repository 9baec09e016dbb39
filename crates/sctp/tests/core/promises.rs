//! The promises of partial reliability over any link: random walks with every policy, with and without stream resets.
//!
//! - Messages reported as abandoned unsent were never sent and never arrive.
//! - Nothing leaves for the first time after its lifetime, unless the sender looks at lifetimes before retransmissions only, or before
//!   transmissions and a part of the message was sent. Nothing is retransmitted after it, unless the sender waits for overdue acknowledgements.
//!   Nothing leaves more often than its limit allows.
//! - Every reliable message arrives once and in order, and every other one at most once and in order.
//! - Every message is reported once: delivered or abandoned. The counters say the same, and add up.

mod departures;
mod fault;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use festina_netsim::RandomStream;
use festina_sctp::{
    AbandonReason, Abandoned, ClosedReason, Direction, Event, Expiry, Message, ReconfigureError, SendError,
    SendErrorKind, StreamId, StreamScheduler,
};
use festina_units::{Duration, Instant};

use crate::pair::{Host, Pair};
use crate::random_walk::{WALKS_MIN, config, link, part, payload};
use departures::departures;
use fault::Fault;

const STREAMS: u16 = 5;
const SCHEDULERS: [StreamScheduler; 6] = [
    StreamScheduler::FirstComeFirstServed,
    StreamScheduler::RoundRobin,
    StreamScheduler::RoundRobinPerPacket,
    StreamScheduler::Priority,
    StreamScheduler::FairCapacity,
    StreamScheduler::WeightedFairQueueing,
];

/// What happened in a walk, so that the test can say that each policy was really met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Met {
    messages: u64,
    delivered: u64,
    expired: Abandoned,
    exhausted: Abandoned,
    evicted: Abandoned,
    replaced: Abandoned,
    forward_tsns: u64,
    resets: u64,
    fragmented: u64,
    interleaved: u64,
    /// Walks in which chunks that lie apart are passed over.
    enhanced: u64,
}

/// The promises for a message.
#[derive(Debug)]
struct Promise {
    message: Message,
    expires_at: Instant,
    is_reliable: bool,
}

struct Walk {
    random: RandomStream,
    pair: Pair,
    sent: [Vec<Promise>; 2],
    sends_left: u32,
    message_bytes_max: u64,
    met: Met,
    fault: Option<Fault>,
    /// When each host looks at lifetimes.
    expiries: [Expiry; 2],
    /// When streams are reset, if they are.
    resets: Option<RandomStream>,
}

fn index_of(random: &mut RandomStream, below: u64) -> usize {
    usize::try_from(random.below(below)).unwrap()
}

impl Walk {
    fn new(seed: u64) -> Self {
        Self::looking(seed, [Expiry::AtOnce; 2])
    }

    fn looking(seed: u64, expiries: [Expiry; 2]) -> Self {
        let mut random = RandomStream::new(seed, "promises");
        let mut configs = [config(&mut random), config(&mut random)];
        let links = [link(&mut random), link(&mut random)];
        let interleaving = random.below(3) == 0;
        let is_enhanced = seed & 2 != 0;
        for (config, expiry) in configs.iter_mut().zip(expiries) {
            config.message_events = true;
            config.partial_reliability.expiry = expiry;
            config.interleaving = interleaving;
            config.partial_reliability.enhanced_forward_tsn = is_enhanced;
            config.scheduler = SCHEDULERS[index_of(&mut random, SCHEDULERS.len() as u64)];
        }
        let message_bytes_max =
            configs.iter().map(|config| config.limits.message_bytes_max as u64).min().unwrap_or_default();
        let mut pair = Pair::new(configs, links.clone(), seed);
        pair.watch_round_trips(&links);
        for host in &mut pair.hosts {
            host.kept = Some(Vec::new());
        }
        let sends_left = u32::try_from(20 + random.below(100)).unwrap();
        let met = Met { interleaved: u64::from(interleaving), enhanced: u64::from(is_enhanced), ..Met::default() };
        Self {
            random,
            pair,
            sent: [Vec::new(), Vec::new()],
            sends_left,
            message_bytes_max,
            met,
            fault: None,
            expiries,
            resets: None,
        }
    }

    fn patient(seed: u64) -> Self {
        Self::looking(seed, [Expiry::WhenOverdue; 2])
    }

    /// Each host looks at lifetimes at a time of its own.
    fn mixed(seed: u64) -> Self {
        let all = Expiry::all();
        let nth = |index: u64| all.clone().nth(usize::try_from(index).unwrap()).unwrap();
        let count = all.clone().count() as u64;
        Self::looking(seed, [nth(seed % count), nth(seed / count % count)])
    }

    fn with_resets(seed: u64) -> Self {
        Self { resets: Some(RandomStream::new(seed, "resets")), ..Self::patient(seed) }
    }

    fn with(fault: Fault, seed: u64) -> Self {
        Self { fault: Some(fault), ..Self::new(seed) }
    }

    fn run(mut self) -> (Met, [u64; 2]) {
        self.pair.connect(0, 1);
        while self.sends_left > 0 {
            self.reset();
            match self.random.below(20) {
                0..=11 => self.send(),
                12 => {
                    let (index, stream) = (index_of(&mut self.random, 2), self.random.below(STREAMS.into()));
                    let value = u16::try_from(self.random.below(4)).unwrap();
                    if let Some(association) = &mut self.pair.hosts[index].association {
                        association.set_stream_value(StreamId(u16::try_from(stream).unwrap()), value);
                    }
                }
                13..=17 => {
                    let time = Duration::from_micros(self.random.below(300_000));
                    self.pair.run_for(time);
                }
                _ => {
                    let index = index_of(&mut self.random, 2);
                    let host = &mut self.pair.hosts[index];
                    host.reads = !host.reads;
                    self.pair.drain(index);
                }
            }
        }
        self.finish();
        for index in 0..2 {
            self.check(index);
        }
        (self.met, [self.pair.hosts[0].trace, self.pair.hosts[1].trace])
    }

    /// A message with any combination of policies.
    fn message(&mut self, from: usize) -> Message {
        let random = &mut self.random;
        let len = match random.below(20) {
            0 => 1_000 + random.below(40_000),
            1..=4 => 300 + random.below(2_000),
            _ => 8 + random.below(200),
        };
        let len = len.min(self.message_bytes_max);
        self.met.fragmented += u64::from(len > 1_500);
        let index = self.sent[from].len();
        let mut message = Message::new(payload(from, index, usize::try_from(len).unwrap()))
            .on_stream(u16::try_from(random.below(STREAMS.into())).unwrap())
            .with_ppid(u32::try_from(index).unwrap());
        if random.below(4) == 0 {
            message = message.unordered();
        }
        if random.below(3) == 0 {
            message = message.with_lifetime(Duration::from_micros(random.below(400_000)));
        }
        if random.below(8) == 0 {
            message = message.with_deadline(self.pair.now + Duration::from_micros(random.below(400_000)));
        }
        if random.below(4) == 0 {
            message = message.with_max_retransmissions(u16::try_from(random.below(3)).unwrap());
        }
        if random.below(4) == 0 {
            message = message.with_priority(u16::try_from(random.below(4)).unwrap());
        }
        if random.below(6) == 0 {
            message = message.replacing(random.below(2));
        }
        message
    }

    fn send(&mut self) {
        let from = index_of(&mut self.random, 2);
        let (now, message) = (self.pair.now, self.message(from));
        let Some(association) = &mut self.pair.hosts[from].association else {
            return self.pair.run_for(Duration::from_millis(100));
        };
        let given = self.fault.map_or_else(|| message.clone(), |fault| fault.of(&message));
        match association.send(now, given) {
            Ok(id) => {
                assert_eq!(id.0, self.sent[from].len() as u64);
                let of_lifetime = message.lifetime().map(|lifetime| now + lifetime);
                let expires_at = Instant::earliest([of_lifetime, message.deadline()]);
                let is_reliable = expires_at.is_none()
                    && message.max_retransmissions().is_none()
                    && message.priority().is_none()
                    && message.key().is_none();
                let expires_at = expires_at.unwrap_or(Instant::MAX);
                self.sent[from].push(Promise { message, expires_at, is_reliable });
                self.sends_left -= 1;
            }
            Err(SendError { kind: SendErrorKind::BufferFull, .. }) => {
                if self.random.below(2) == 0 {
                    self.pair.run_for(Duration::from_millis(50));
                }
                self.sends_left = self.sends_left.saturating_sub(u32::from(self.random.below(4) == 0));
            }
            Err(SendError { kind: SendErrorKind::StreamResetting, .. }) => self.pair.run_for(Duration::from_millis(20)),
            Err(SendError { kind: SendErrorKind::NoSuchStream { .. }, .. }) => {}
            Err(error) => panic!("{error}: {:#?}", self.pair.hosts[from]),
        }
        self.pair.drain(from);
    }

    /// Either side resets a stream, or requests a reset of one or all.
    fn reset(&mut self) {
        let Some(random) = &mut self.resets else { return };
        if random.below(8) > 0 {
            return;
        }
        let (index, stream) = (index_of(random, 2), StreamId(u16::try_from(random.below(STREAMS.into())).unwrap()));
        let (whose, all) = (random.below(3), random.below(10) == 0);
        let streams = if all { &[][..] } else { &[stream] };
        let now = self.pair.now;
        if let Some(association) = &mut self.pair.hosts[index].association {
            let asked = if whose == 0 {
                association.request_reset(now, streams)
            } else {
                association.reset_streams(now, streams)
            };
            let is_wrong = !matches!(
                asked,
                Ok(()) | Err(ReconfigureError::NotEstablished | ReconfigureError::NoSuchStream { .. })
            );
            assert!(!is_wrong, "{asked:?}");
            self.pair.drain(index);
        }
    }

    /// Both sides read all that comes and end in good order.
    fn finish(&mut self) {
        self.pair.run_until(|pair| pair.hosts.iter().all(|host| host.association.is_some()));
        for index in 0..2 {
            self.pair.hosts[index].reads = true;
            self.pair.drain(index);
        }
        let pending = |host: &Host| {
            let stats = host.association.as_ref().map(|association| association.stats()).unwrap_or_default();
            assert_eq!(
                stats.sent.messages,
                stats.sent.messages_acked + stats.sent.messages_abandoned + stats.path.messages_pending
            );
            stats.path.messages_pending
        };
        self.pair.run_until(|pair| pair.hosts.iter().all(|host| pending(host) == 0));
        for index in 0..2 {
            let now = self.pair.now;
            self.pair.hosts[index].association().shutdown(now);
            self.pair.drain(index);
        }
        self.pair.run_until(|pair| pair.hosts.iter().all(|host| host.closed().is_some()));
        for host in &self.pair.hosts {
            assert_eq!(host.closed(), Some(&ClosedReason::Shutdown), "{host:#?}");
        }
    }

    fn check(&mut self, from: usize) {
        let (host, peer, sent) = (&self.pair.hosts[from], &self.pair.hosts[1 - from], &self.sent[from]);
        let Fates { delivered, abandoned } = fates(&host.events);
        let departures = departures(host.kept.as_deref().unwrap_or_default());
        let arrived = check_arrivals(peer, sent);
        for (number, promise) in sent.iter().enumerate() {
            let fate = (delivered.contains(&number), abandoned.get(&number));
            let left_at = departures.latest_first.get(&number);
            match fate {
                (true, None) => assert!(arrived.contains(&number), "{number} was reported as delivered"),
                (false, Some((_, sent))) => {
                    assert!(!promise.is_reliable, "{number} is reliable and was abandoned");
                    assert_eq!(*sent, left_at.is_some(), "{number} was abandoned, {fate:?}");
                    assert!(*sent || !arrived.contains(&number), "{number} was abandoned unsent and arrived");
                }
                _ => panic!("message {number} of {from} has the fates {fate:?}: {promise:?}"),
            }
            let expiry = self.expiries[from];
            let left_at = match expiry {
                Expiry::BeforeTransmission => departures.begun.get(&number),
                Expiry::BeforeRetransmission | Expiry::WhenMissing => None,
                _ => left_at,
            };
            let is_on_time = left_at.is_none_or(|&left_at| left_at < promise.expires_at);
            assert!(is_on_time, "{number} left late: {left_at:?}, {promise:?}");
            let again_at = departures.latest_again.get(&number);
            let is_on_time =
                expiry == Expiry::WhenOverdue || again_at.is_none_or(|&again_at| again_at < promise.expires_at);
            assert!(is_on_time, "{number} left late again: {again_at:?}, {promise:?}");
            let limit = promise.message.max_retransmissions().map_or(usize::MAX, |limit| usize::from(limit) + 1);
            let most = departures.most.get(&number).copied().unwrap_or_default();
            assert!(most <= limit, "{number} left {most} times, its limit is {limit}");
        }
        self.check_counters(from, &abandoned, delivered.len());
    }

    fn check_counters(&mut self, from: usize, abandoned: &BTreeMap<usize, (AbandonReason, bool)>, delivered: usize) {
        let association = self.pair.hosts[from].association.as_ref().unwrap();
        let stats = association.stats();
        assert_eq!(stats.sent.messages, self.sent[from].len() as u64);
        assert_eq!(stats.sent.messages_acked, delivered as u64);
        assert_eq!(stats.sent.messages_abandoned, abandoned.len() as u64);
        assert_eq!(stats.path.messages_pending, 0);
        let count = |reason: AbandonReason| {
            let of = |was_sent: bool| abandoned.values().filter(|fate| **fate == (reason, was_sent)).count() as u64;
            Abandoned { unsent: of(false), sent: of(true) }
        };
        let met = &mut self.met;
        for (counted, reason, sum) in [
            (stats.abandoned.expired, AbandonReason::Expired, &mut met.expired),
            (stats.abandoned.retransmissions_exhausted, AbandonReason::RetransmissionsExhausted, &mut met.exhausted),
            (stats.abandoned.evicted, AbandonReason::Evicted, &mut met.evicted),
            (stats.abandoned.replaced, AbandonReason::Replaced, &mut met.replaced),
        ] {
            assert_eq!(counted, count(reason), "{reason:?}");
            add(sum, counted);
        }
        let by_stream = (0..STREAMS).map(|stream| association.abandoned_on(StreamId(stream)).total());
        let mut sum = Abandoned::default();
        by_stream.for_each(|each| add(&mut sum, each));
        assert_eq!(stats.abandoned.total(), sum);
        let is_reset = |event: &&Event| matches!(event, Event::StreamsReset { direction: Direction::Inbound, .. });
        met.resets += self.pair.hosts[from].events.iter().filter(is_reset).count() as u64;
        met.messages += stats.sent.messages;
        met.delivered += stats.sent.messages_acked;
        met.forward_tsns += stats.sent.forward_tsns;
    }
}

fn add(sum: &mut Abandoned, other: Abandoned) {
    sum.unsent += other.unsent;
    sum.sent += other.sent;
}

/// The events that the application received.
#[derive(Debug, Default)]
struct Fates {
    delivered: BTreeSet<usize>,
    abandoned: BTreeMap<usize, (AbandonReason, bool)>,
}

fn fates(events: &[Event]) -> Fates {
    let mut fates = Fates::default();
    let number = |id: u64| usize::try_from(id).unwrap();
    for event in events {
        match *event {
            Event::MessageDelivered { id, .. } => {
                assert!(fates.delivered.insert(number(id.0)), "{id:?} was delivered twice");
            }
            Event::MessagesAbandoned { first, last, reason, sent, .. } => {
                for id in first.0..=last.0 {
                    let before = fates.abandoned.insert(number(id), (reason, sent));
                    assert_eq!(before, None, "message {id} was abandoned twice");
                }
            }
            _ => {}
        }
    }
    fates
}

/// Messages come once, undamaged and in order, and no reliable one is missing. Which came.
fn check_arrivals(peer: &Host, sent: &[Promise]) -> BTreeSet<usize> {
    let mut arrived = BTreeSet::new();
    let mut last_of_stream = BTreeMap::new();
    for message in &peer.received {
        let number = usize::try_from(message.ppid()).unwrap();
        assert!(arrived.insert(number), "message {number} came twice");
        let original = &sent[number].message;
        assert_eq!(*message.payload(), original.payload(), "message {number} is damaged");
        assert_eq!((message.stream(), message.is_unordered()), (original.stream(), original.is_unordered()));
        if !message.is_unordered() {
            let last = last_of_stream.insert(message.stream(), (number, original.key()));
            assert!(
                last.is_none_or(|(last, key)| last < number || key.is_some()),
                "message {number} came after {last:?}"
            );
        }
    }
    for (number, promise) in sent.iter().enumerate().filter(|(_, promise)| promise.is_reliable) {
        assert!(arrived.contains(&number), "message {number} is reliable and did not come: {promise:?}");
    }
    arrived
}

fn walk_all(seeds: Range<u64>, walk: fn(u64) -> Walk) {
    let mut met = Met::default();
    let mut failed = Vec::new();
    let are_few = seeds.end - seeds.start < WALKS_MIN;
    for seed in seeds {
        match std::panic::catch_unwind(|| walk(seed).run()) {
            Ok((walk, _)) => {
                met.resets += walk.resets;
                for (sum, other) in [
                    (&mut met.expired, walk.expired),
                    (&mut met.exhausted, walk.exhausted),
                    (&mut met.evicted, walk.evicted),
                    (&mut met.replaced, walk.replaced),
                ] {
                    add(sum, other);
                }
                met.messages += walk.messages;
                met.delivered += walk.delivered;
                met.forward_tsns += walk.forward_tsns;
                met.fragmented += walk.fragmented;
                met.interleaved += walk.interleaved;
                met.enhanced += u64::from(walk.enhanced > 0 && walk.forward_tsns > 0);
            }
            Err(_) => failed.push(seed),
        }
    }
    assert!(failed.is_empty(), "seeds {failed:?} failed");
    println!("{met:?}");
    if are_few {
        return;
    }
    let has_resets = walk(0).resets.is_some();
    assert_eq!(met.resets > 0, has_resets, "{met:?}");
    for (what, count) in [
        ("expired unsent", met.expired.unsent),
        ("expired on its way", met.expired.sent),
        ("exhausted", met.exhausted.sent),
        ("evicted unsent", met.evicted.unsent),
        ("evicted on its way", met.evicted.sent),
        ("replaced unsent", met.replaced.unsent),
        ("replaced on its way", met.replaced.sent),
        ("delivered", met.delivered),
        ("skipped", met.forward_tsns),
        ("fragmented", met.fragmented),
        ("interleaved", met.interleaved),
        ("skipped apart", met.enhanced),
    ] {
        assert!(count > 0, "no walk in which anything was {what}: {met:?}");
    }
}

#[test]
fn promises_hold_over_any_link_first_quarter_of_the_seeds() {
    walk_all(part(0, 4), Walk::new);
}

#[test]
fn promises_hold_over_any_link_second_quarter_of_the_seeds() {
    walk_all(part(1, 4), Walk::new);
}

#[test]
fn promises_hold_over_any_link_third_quarter_of_the_seeds() {
    walk_all(part(2, 4), Walk::new);
}

#[test]
fn promises_hold_over_any_link_fourth_quarter_of_the_seeds() {
    walk_all(part(3, 4), Walk::new);
}

#[test]
fn promises_hold_where_the_sender_waits_for_overdue_answers_first_half_of_the_seeds() {
    walk_all(part(0, 2), Walk::patient);
}

#[test]
fn promises_hold_where_the_sender_waits_for_overdue_answers_second_half_of_the_seeds() {
    walk_all(part(1, 2), Walk::patient);
}

#[test]
fn promises_hold_whenever_the_senders_look_at_lifetimes_first_half_of_the_seeds() {
    walk_all(part(0, 2), Walk::mixed);
}

#[test]
fn promises_hold_whenever_the_senders_look_at_lifetimes_second_half_of_the_seeds() {
    walk_all(part(1, 2), Walk::mixed);
}

/// Lifetimes end, and the remaining chunks in flight have timers that were due before.
#[test]
fn no_timer_stays_due_when_lifetimes_end() {
    for seed in [5_864, 7_857, 9_437] {
        Walk::new(seed).run();
    }
}

#[test]
fn promises_hold_where_streams_are_reset_first_half_of_the_seeds() {
    walk_all(part(0, 2), Walk::with_resets);
}

#[test]
fn promises_hold_where_streams_are_reset_second_half_of_the_seeds() {
    walk_all(part(1, 2), Walk::with_resets);
}

/// What the oracle says of a walk, if anything.
fn finding(walk: Walk) -> Option<String> {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| walk.run())).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    Some(text.unwrap_or_else(|| panic.downcast_ref::<&str>().copied().unwrap_or_default().to_owned()))
}

#[test]
fn a_sender_that_breaks_a_promise_is_noticed() {
    for fault in [Fault::LifetimesIgnored, Fault::LimitsIgnored, Fault::ReliableAbandoned] {
        let findings: Vec<_> = (0..20).filter_map(|seed| finding(Walk::with(fault, seed))).collect();
        let noticed = findings.iter().filter(|finding| finding.contains(fault.finding())).count();
        assert!(noticed >= 5 && noticed == findings.len(), "{fault:?} in {noticed} walks: {findings:#?}");
    }
}

#[test]
fn the_same_seed_keeps_its_promises_with_the_same_packets() {
    for seed in [3, 77] {
        assert_eq!(Walk::new(seed).run(), Walk::new(seed).run());
    }
}
