//! Two associations, a script of messages and losses, and the packets on the wire.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use festina_recovery::Profile;
use festina_sctp::wire::{self, Chunk};
use festina_sctp::{Association, Config, Context, Expiry, Incoming, Listener, Message, PartialReliability, Ports};
use festina_units::{Duration, EcnCodepoint, Instant};

use crate::figure::{Color, Figure, Happening, Marker, PlotPoint, PointSeries, TimeSequence};
use crate::plan::Point;

const PORT: u16 = 5000;
/// By then the handshake is over.
const BEGINS_AT: Instant = Instant::from_secs(2);
/// Between packets: about what one of them takes on the 10 Mbit/s of the paper, and nothing beside a round trip.
const SPACING: Duration = Duration::from_micros(100);
/// Nothing happens any more after so long.
const LASTS: Duration = Duration::from_secs(8);
const MESSAGE_BYTES: usize = 72;
/// Expires before its loss is known.
const LIFETIME: Duration = Duration::from_millis(20);

/// Which losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    /// R12's Fig. 5: of five messages the second and the fourth.
    Fig5,
    /// R12's Fig. 6: a packet of six messages of mixed reliability.
    Fig6,
    /// R12's first scenario (§III-A): a lost packet with this number of messages; every second one expires, or none does.
    Burst(u32, bool),
    /// A lost packet with this number of messages, which all expire.
    Unreliable(u32),
    /// R12's second scenario: this number of lost packets with one message each, with one that arrives between them; all expire, or none.
    Apart(u32, bool),
}

impl Case {
    pub(super) fn of(point: &Point) -> Self {
        let name = point.choice("case");
        let expires = !name.ends_with("-reliable");
        let count = name.split('-').nth(1).and_then(|count| count.parse().ok()).unwrap_or_default();
        match name.split('-').next() {
            Some("burst") => Self::Burst(count, expires),
            Some("unreliable") => Self::Unreliable(count),
            Some("apart") => Self::Apart(count, expires),
            Some("fig5") => Self::Fig5,
            _ => Self::Fig6,
        }
    }

    /// The messages by packet. Three packets that arrive follow the lost ones.
    fn packets(self) -> Vec<Vec<u32>> {
        let alone = |messages: std::ops::RangeInclusive<u32>| messages.map(|message| vec![message]);
        match self {
            Self::Fig5 => alone(1..=5).collect(),
            Self::Fig6 => [vec![11], (12..=17).collect()].into_iter().chain(alone(18..=20)).collect(),
            Self::Burst(count, _) | Self::Unreliable(count) => {
                [vec![1], (2..=count + 1).collect()].into_iter().chain(alone(count + 2..=count + 4)).collect()
            }
            Self::Apart(count, _) => alone(1..=2 * count + 3).collect(),
        }
    }

    /// Whether the packet that begins with this message is lost.
    fn loses(self, first: u32) -> bool {
        match self {
            Self::Fig5 => [2, 4].contains(&first),
            Self::Fig6 => first == 12,
            Self::Burst(..) | Self::Unreliable(_) => first == 2,
            Self::Apart(count, _) => first.is_multiple_of(2) && first <= 2 * count,
        }
    }

    fn expires(self, message: u32) -> bool {
        match self {
            Self::Fig5 => [2, 4].contains(&message),
            Self::Fig6 => [12, 14, 16].contains(&message),
            Self::Burst(count, expires) => expires && message.is_multiple_of(2) && message <= count + 1,
            Self::Unreliable(count) => (2..=count + 1).contains(&message),
            Self::Apart(_, expires) => expires && self.loses(message),
        }
    }

    fn first(self) -> u32 {
        self.packets()[0][0]
    }
}

/// What a run is of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    pub(super) case: Case,
    pub(super) nr_sack: bool,
    /// E-FORWARD-TSN in place of FORWARD-TSN.
    pub(super) enhanced: bool,
    pub(super) rtt: Duration,
}

/// What the sender sent: messages by their numbers in R12's figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// Up to where its peer is to go.
    pub(super) forward: Option<u32>,
    /// The messages that E-FORWARD-TSN passes over.
    pub(super) apart: Vec<u32>,
    pub(super) data: Vec<u32>,
}

/// The packets on the wire, by the time at the sender.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    sent: Vec<(Instant, Sent, bool)>,
    /// The cumulative TSN of each answer.
    settled: Vec<(Instant, u32)>,
    last: u32,
    first_flight: usize,
}

impl Run {
    /// Packets of the repair: all behind those that carry messages for the first time.
    fn repair(&self) -> &[(Instant, Sent, bool)] {
        self.sent.get(self.first_flight..).unwrap_or_default()
    }

    /// Returns the contents of these packets.
    pub(super) fn repairs(&self) -> Vec<Sent> {
        self.repair().iter().map(|(_, sent, _)| sent.clone()).collect()
    }

    pub(super) fn forwards(&self) -> impl Iterator<Item = u32> {
        self.sent.iter().filter_map(|(_, sent, _)| sent.forward.or(sent.apart.last().copied()))
    }

    /// From the first packet of the repair to the answer that settles everything.
    pub(super) fn recovery(&self) -> Option<Duration> {
        let (begins_at, ..) = self.repair().first()?;
        let (ends_at, _) = self.settled.iter().find(|(_, settled)| *settled >= self.last)?;
        Some(ends_at.saturating_duration_since(*begins_at))
    }
}

impl Scene {
    /// What R12's figure shows of the repair; `None` if it has none of this case. It draws no E-FORWARD-TSN: one packet settles either case.
    pub(super) fn published(self) -> Option<Vec<Sent>> {
        let forward = |to| Sent { forward: Some(to), ..Sent::default() };
        let first = Sent { data: vec![13, 15, 17], ..forward(12) };
        let apart = |apart, data| vec![Sent { forward: None, apart, data }];
        Some(match (self.case, self.nr_sack) {
            (Case::Fig5, _) if self.enhanced => apart(vec![2, 4], vec![]),
            (Case::Fig6, _) if self.enhanced => apart(vec![12, 14, 16], vec![13, 15, 17]),
            (Case::Fig5, false) => vec![forward(2), forward(4)],
            (Case::Fig5, true) => vec![forward(5)],
            (Case::Fig6, false) => vec![first, forward(14), forward(16)],
            // "A message number above 18": all that has arrived by then.
            (Case::Fig6, true) => vec![first, forward(20)],
            _ => return None,
        })
    }

    fn config(self) -> Config {
        let partial_reliability = PartialReliability {
            expiry: Expiry::BeforeRetransmission,
            nr_sack: self.nr_sack,
            enhanced_forward_tsn: self.enhanced,
        };
        let mut config = Config { partial_reliability, ..Config::published(Profile::Rfc9260) };
        config.timers.heartbeat_interval = None;
        // Each packet is answered at once: a delayed answer would add its delay to the round trips that are counted.
        config.sack.delay = Duration::ZERO;
        config.sack.every_packets = 1;
        config
    }

    /// Runs the script to its end.
    pub(super) fn run(self) -> Run {
        Wire::new(self).run()
    }

    /// The life of the messages.
    pub(super) fn figure(self) -> Figure {
        let run = self.run();
        let kind = |expires| if expires { "some have expired" } else { "all are reliable" };
        let (name, figure) = match self.case {
            Case::Fig5 => ("2 and 4 are lost and have expired".to_owned(), "Fig. 5"),
            Case::Fig6 => ("12 to 17 are lost; 13, 15 and 17 are reliable".to_owned(), "Fig. 6"),
            Case::Burst(count, expires) => {
                (format!("2 to {} are lost; {}", count + 1, kind(expires)), "first scenario")
            }
            Case::Unreliable(count) => (format!("2 to {} are lost; all have expired", count + 1), "first scenario"),
            Case::Apart(count, expires) => {
                (format!("{count} are lost one by one; {}", kind(expires)), "second scenario")
            }
        };
        let with = match (self.nr_sack, self.enhanced) {
            (false, false) => "with SACK",
            (true, false) => "with NR-SACK",
            (false, true) => "with SACK and E-FORWARD-TSN",
            (true, true) => "with NR-SACK and E-FORWARD-TSN",
        };
        let recovery = run.recovery().unwrap_or_default();
        let conditions = format!(
            "as R12's {figure}, round-trip time {} ms; settled {:.1} round trips after the repair began",
            self.rtt.as_millis(),
            recovery.as_secs_f64() / self.rtt.as_secs_f64()
        );
        let mut sequence = TimeSequence::new(&format!("{name}, {with}"), &conditions, "message");
        let zero = run.repair().first().map_or(BEGINS_AT, |(at, ..)| *at);
        let place = |at: Instant| at.saturating_duration_since(BEGINS_AT);
        sequence.count_from(place(zero), "time since the repair began");
        let mut forwards = Vec::new();
        for (index, (at, sent, is_lost)) in run.sent.iter().enumerate() {
            let again = index >= run.first_flight;
            let happening = match (again, is_lost) {
                (true, _) => Happening::Retransmitted,
                (false, true) => Happening::Lost,
                (false, false) => Happening::Sent,
            };
            for message in &sent.data {
                sequence.packet(place(*at), (*message).into(), happening);
            }
            forwards.extend(sent.forward.iter().chain(&sent.apart).map(|message| (place(*at), *message)));
        }
        for (at, settled) in &run.settled {
            sequence.acknowledged(place(*at), (*settled).into());
        }
        sequence.lasts_until(place(zero + recovery + self.rtt / 4));
        let mut figure = sequence.figure();
        let zero_s = place(zero).as_secs_f64();
        let points = forwards.into_iter().map(|(at, number)| PlotPoint {
            x: (at.as_secs_f64() - zero_s) * 1e3,
            y: number.into(),
            whisker: None,
        });
        let name = if self.enhanced { "E-FORWARD-TSN" } else { "FORWARD-TSN" };
        let forwards = PointSeries::new(name, points);
        figure.points.push(PointSeries {
            marker: Marker::Diamond,
            color: Some(Color::Pink),
            is_joined: false,
            ..forwards
        });
        figure
    }
}

/// Both ends and what travels between them.
struct Wire {
    scene: Scene,
    ends: [Option<Box<Association>>; 2],
    listener: Listener,
    /// By the time of arrival and the order of departure; to which end.
    travelling: BTreeMap<(Instant, u64), (usize, Bytes)>,
    departures: u64,
    first_tsn: Option<u32>,
    now: Instant,
    run: Run,
}

fn address(end: usize) -> SocketAddr {
    let host = u8::try_from(end + 1).unwrap_or(1);
    SocketAddr::from((Ipv4Addr::new(10, 0, 0, host), PORT))
}

impl Wire {
    fn new(scene: Scene) -> Self {
        let context =
            |secret| Context::new(scene.config(), [secret; 16]).expect("the settings are within their ranges");
        let (near, far) = (context(1), context(2));
        let mut listener = Listener::new(&far);
        listener.listen(PORT);
        let ports = Ports { local: PORT, peer: PORT };
        let now = Instant::from_secs(1);
        let sender = Association::connect(now, &near, address(1), ports, 1);
        let packets = scene.case.packets();
        let run = Run {
            last: packets.last().and_then(|packet| packet.last().copied()).unwrap_or_default(),
            first_flight: packets.len(),
            ..Run::default()
        };
        let ends = [Some(Box::new(sender)), None];
        Self { scene, ends, listener, travelling: BTreeMap::new(), departures: 0, first_tsn: None, now, run }
    }

    fn run(mut self) -> Run {
        let mut script = (0_u32..).zip(self.scene.case.packets());
        let mut next = script.next();
        loop {
            self.transmit();
            let written_at = next.as_ref().map(|(number, _)| BEGINS_AT + SPACING * *number);
            let arrival = self.travelling.first_key_value().map(|((at, _), _)| *at);
            let deadlines = self.ends.iter().flatten().filter_map(|end| end.poll_deadline());
            let Some(at) = deadlines.chain(written_at).chain(arrival).min().filter(|at| *at <= BEGINS_AT + LASTS)
            else {
                return self.run;
            };
            self.now = self.now.max(at);
            if let Some((_, messages)) = next.take_if(|_| written_at == Some(at)) {
                messages.into_iter().for_each(|message| self.write(message));
                next = script.next();
            } else if arrival == Some(at) {
                self.arrive();
            } else {
                self.ends.iter_mut().flatten().for_each(|end| end.handle_timeout(at));
            }
        }
    }

    fn write(&mut self, message: u32) {
        let lifetime = self.scene.case.expires(message).then_some(LIFETIME);
        let payload = Bytes::from(vec![0; MESSAGE_BYTES]);
        let message = Message::new(payload).unordered().with_lifetime(lifetime);
        if let Some(sender) = &mut self.ends[0] {
            sender.send(self.now, message).expect("the association is established and its buffer empty");
        }
    }

    fn transmit(&mut self) {
        for from in [0, 1] {
            loop {
                let mut buffer = Vec::new();
                let Some(end) = &mut self.ends[from] else { break };
                while end.poll_event().is_some() {}
                while end.poll_message().is_some() {}
                if end.poll_transmit(self.now, &mut buffer).is_none() {
                    break;
                }
                if from == 1 || !self.note_departure(&buffer) {
                    self.departures += 1;
                    let key = (self.now + self.scene.rtt / 2, self.departures);
                    self.travelling.insert(key, (1 - from, buffer.into()));
                }
            }
        }
    }

    /// Notes what the sender sends. Returns whether it is lost.
    fn note_departure(&mut self, bytes: &[u8]) -> bool {
        let packet = wire::Packet::parse_unverified(bytes).expect("the core writes whole headers");
        let mut sent = Sent::default();
        for chunk in packet.chunks().flatten() {
            match chunk {
                Chunk::Data(data) => sent.data.push(self.number(data.tsn.0)),
                Chunk::ForwardTsn(forward) => sent.forward = Some(self.number(forward.new_cumulative.0)),
                Chunk::EnhancedForwardTsn(forward) => {
                    let offsets = forward.blocks().flat_map(|(first, last)| first..=last);
                    let tsns = offsets.map(|offset| forward.cumulative.0.wrapping_add(offset.into()));
                    sent.apart.extend(tsns.map(|tsn| self.number(tsn)));
                }
                _ => {}
            }
        }
        if sent == Sent::default() {
            return false;
        }
        let is_first = self.run.sent.len() < self.run.first_flight;
        let is_lost = is_first && sent.data.first().is_some_and(|first| self.scene.case.loses(*first));
        self.run.sent.push((self.now, sent, is_lost));
        is_lost
    }

    /// The message with a TSN, as R12 counts.
    fn number(&mut self, tsn: u32) -> u32 {
        let first_tsn = *self.first_tsn.get_or_insert(tsn);
        tsn.wrapping_sub(first_tsn).wrapping_add(self.scene.case.first())
    }

    fn arrive(&mut self) {
        let Some((_, (to, bytes))) = self.travelling.pop_first() else { return };
        let from = address(1 - to);
        if to == 0 && self.first_tsn.is_some() {
            self.note_answer(&bytes);
        }
        match &mut self.ends[to] {
            Some(end) => end
                .handle_packet(self.now, from, EcnCodepoint::NotCapable, &bytes)
                .expect("the other end writes sound packets"),
            None => {
                let mut reply = Vec::new();
                match self.listener.handle_packet(self.now, from, &bytes, &|_| false, &mut reply) {
                    Incoming::Accepted(end) => self.ends[to] = Some(end),
                    _ => {
                        self.departures += 1;
                        let key = (self.now + self.scene.rtt / 2, self.departures);
                        self.travelling.insert(key, (1 - to, reply.into()));
                    }
                }
            }
        }
    }

    fn note_answer(&mut self, bytes: &[u8]) {
        let packet = wire::Packet::parse_unverified(bytes).expect("the core writes whole headers");
        for chunk in packet.chunks().flatten() {
            let cumulative = match chunk {
                Chunk::Sack(sack) => sack.cumulative_tsn,
                Chunk::NrSack(sack) => sack.cumulative_tsn,
                _ => continue,
            };
            let settled = self.number(cumulative.0);
            self.run.settled.push((self.now, settled));
        }
    }
}
