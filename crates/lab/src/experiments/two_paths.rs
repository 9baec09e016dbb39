//! `paths`, `common-loss`, `multipath-games` and `handover`: a thin stream between two hosts on two networks, with loss on each or both and outages of the
//! first. `destinations`: the same with the rules of P06 and P10 for several destinations.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use festina_models::packet::{IPV4_HEADER_BYTES, UDP_HEADER_BYTES};
use festina_netsim::{Datagram, GilbertElliott, LinkConfig, LossModel, Networks, Node, RandomStream};
use festina_sctp::recovery::profile::Destinations;
use festina_sctp::{
    Association, Config, Context, Incoming, Listener, Message, Multihoming, PathPolicy, Ports, Profile,
};
use festina_units::{Duration, EcnCodepoint, Instant, Probability};

use crate::count::as_f64;
use crate::experiment::{Description, Experiment};
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scenario::fate::{BYTES_SENT, DELIVERED, DELIVERY, MESSAGES, PACKETS_SENT};

/// The series of the longest delay of the messages sent in and after each outage.
const LONGEST: &str = "longest of an outage";
/// When messages begin, and for how long the rest is waited for.
const WARM_UP: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(200);
/// From one outage to the next, and from the beginning of such a time to its outage.
const PERIOD: Duration = Duration::from_secs(60);
const OUTAGE_AT: Duration = Duration::from_secs(20);
/// Messages sent until then after an outage belong to it.
const AFTERMATH: Duration = Duration::from_secs(5);
const PORTS: Ports = Ports { local: 10_000, peer: 5_000 };

/// A thin stream over two networks.
#[derive(Clone, Copy, Debug)]
pub struct TwoPaths {
    plan: &'static str,
}

impl TwoPaths {
    /// Independent loss on both networks.
    pub const PATHS: Self = Self { plan: include_str!("../../../../experiments/paths.toml") };
    /// The published detectors and retransmissions.
    pub const DESTINATIONS: Self = Self { plan: include_str!("../../../../experiments/destinations.toml") };
    /// Times in which both lose everything.
    pub const COMMON_LOSS: Self = Self { plan: include_str!("../../../../experiments/common-loss.toml") };
    /// Equal and unequal access networks.
    pub const GAMES: Self = Self { plan: include_str!("../../../../experiments/multipath-games.toml") };
    /// Outages of the first network.
    pub const HANDOVER: Self = Self { plan: include_str!("../../../../experiments/handover.toml") };
}

impl Experiment for TwoPaths {
    fn description(&self) -> Description {
        definition::of(self.plan).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let mut scene = Scene::new(point, seed);
        scene.run(point);
        let mut samples = scene.samples();
        if published(point.choice("sharing")).is_some() {
            scene.networks.host(0).again.add_to(&mut samples);
        }
        samples
    }

    fn beside_delays(&self) -> &'static [&'static str] {
        &[BYTES_SENT]
    }
}

/// The conditions on both networks from a time on.
type Conditions = (Instant, [Duration; 2], [Probability; 2]);

/// The course of `experiments/traces/walk.csv`, again each minute, until `ends_at`. Its beginning holds from the start.
fn walk([starts_at, began_at, ends_at]: [Instant; 3]) -> VecDeque<Conditions> {
    let text = include_str!("../../../../experiments/traces/walk.csv");
    let rows = text.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    let conditions = rows.map(|row| {
        let [from, wifi, wifi_loss, lte, lte_loss] = row.split(',').collect::<Vec<_>>().try_into().ok()?;
        let ms = |text: &str| text.parse().map(Duration::from_millis).ok();
        Some((ms(from)?, [ms(wifi)?, ms(lte)?], [wifi_loss.parse().ok()?, lte_loss.parse().ok()?]))
    });
    let conditions: Vec<_> = conditions.collect::<Option<_>>().expect("the file is sound");
    let minutes = core::iter::successors(Some(began_at), |minute| Some(*minute + PERIOD));
    let changes = minutes
        .flat_map(|minute| conditions.iter().map(move |&(from, delays, losses)| (minute + from, delays, losses)));
    let mut changes: VecDeque<_> = changes.take_while(|change| change.0 < ends_at).collect();
    changes[0].0 = starts_at;
    changes
}

/// The address of a host on a network.
fn address(host: usize, network: usize) -> SocketAddr {
    let prefix = if network == 0 { [192, 0, 2] } else { [198, 51, 100] };
    SocketAddr::from(([prefix[0], prefix[1], prefix[2], u8::from(host == 1) + 1], 9_899))
}

/// When messages began, and when networks carry nothing.
#[derive(Clone)]
struct Outages {
    began_at: Instant,
    /// Of the first network.
    outage: Duration,
    /// Both networks lose everything in these times.
    common: Arc<[Range<Instant>]>,
}

impl Outages {
    /// The number of the outage that a time lies in, or in whose aftermath.
    fn number(&self, at: Instant, aftermath: Duration) -> Option<u128> {
        let since = at.saturating_duration_since(self.began_at).as_nanos();
        let into = u64::try_from(since % PERIOD.as_nanos()).map_or(PERIOD, Duration::from_nanos);
        let is_within = (OUTAGE_AT..OUTAGE_AT + self.outage + aftermath).contains(&into);
        (is_within && !self.outage.is_zero()).then_some(since / PERIOD.as_nanos())
    }

    fn is_down(&self, network: usize, now: Instant) -> bool {
        let next = self.common.partition_point(|burst| burst.end <= now);
        self.common.get(next).is_some_and(|burst| burst.contains(&now))
            || network == 0 && self.number(now, Duration::ZERO).is_some()
    }
}

/// Client or server.
struct Host {
    index: usize,
    association: Option<Association>,
    listener: Listener,
    /// An answer without an association.
    reply: Option<Datagram>,
    outages: Outages,
    /// When each message arrived.
    received: BTreeMap<usize, Instant>,
    again: Again,
}

impl Host {
    fn new(index: usize, context: &Arc<Context>, outages: Outages) -> Self {
        let mut listener = Listener::new(context);
        listener.listen(PORTS.peer);
        let (received, again) = (BTreeMap::new(), Again::default());
        Self { index, association: None, listener, reply: None, outages, received, again }
    }

    fn datagram(&self, network: usize, bytes: Vec<u8>) -> Datagram {
        let addresses = [self.index, 1 - self.index].map(|host| address(host, network));
        Datagram { network, addresses, bytes, is_fragmented: false }
    }
}

impl Node<Datagram> for Host {
    fn handle_packet(&mut self, now: Instant, Datagram { network, addresses: [from, _], bytes, .. }: Datagram) {
        let packet = Bytes::from(bytes);
        if let Some(association) = &mut self.association {
            // The association counts packets without effect.
            let _dropped = association.handle_packet(now, from, EcnCodepoint::NotCapable, &packet);
            return;
        }
        let mut bytes = Vec::new();
        match self.listener.handle_packet(now, from, &packet, &|_| false, &mut bytes) {
            Incoming::Accepted(association) => self.association = Some(*association),
            Incoming::Reply => self.reply = Some(self.datagram(network, bytes)),
            _ => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(association) = &mut self.association {
            association.handle_timeout(now);
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        if let Some(reply) = self.reply.take() {
            return Some(reply);
        }
        let association = self.association.as_mut()?;
        let mut bytes = Vec::new();
        while let Some(transmit) = association.poll_transmit(now, &mut bytes) {
            let network = usize::from(transmit.destination.ip() != address(1 - self.index, 0).ip());
            self.again.note(network, &bytes);
            self.again.look(association);
            if !self.outages.is_down(network, now) {
                return Some(self.datagram(network, bytes));
            }
            bytes.clear();
        }
        while let Some(message) = association.poll_message() {
            let number = message.payload().first_chunk().map_or(u64::MAX, |number| u64::from_be_bytes(*number));
            self.received.insert(usize::try_from(number).unwrap_or(usize::MAX), now);
        }
        while association.poll_event().is_some() {}
        None
    }

    fn poll_deadline(&self) -> Option<Instant> {
        self.association.as_ref()?.poll_deadline()
    }
}

/// The two hosts, client first, on their networks.
struct Scene {
    networks: Networks<Host>,
    outages: Outages,
    /// When the conditions change, and into which.
    course: VecDeque<Conditions>,
    sent_at: Vec<Instant>,
}

/// What the client sends again, and what its detectors count.
#[derive(Debug, Default)]
struct Again {
    /// The highest TSN so far.
    highest: Option<u32>,
    /// Packets of data without anything new, by network.
    packets: [usize; 2],
    /// Looks at the detectors, those at which two paths counted differently, and those at which the stream was thin.
    looks: usize,
    apart: usize,
    thin: usize,
}

impl Again {
    fn note(&mut self, network: usize, packet: &[u8]) {
        let before = self.highest;
        let newest = tsns(packet).reduce(|one, other| if is_later(one, Some(other)) { one } else { other });
        let Some(newest) = newest else { return };
        if is_later(newest, before) {
            self.highest = Some(newest);
        } else {
            self.packets[network] += 1;
        }
    }

    fn look(&mut self, client: &Association) {
        let paths: Vec<_> = client.path_stats().collect();
        self.looks += 1;
        self.apart += usize::from(paths.windows(2).any(|pair| pair[0].in_flight_packets != pair[1].in_flight_packets));
        self.thin += usize::from(paths.iter().all(|path| path.thin));
    }

    fn add_to(&self, samples: &mut Samples) {
        let percent = |part: usize, all: usize| 100.0 * as_f64(part) / as_f64(all.max(1));
        let [first, second] = self.packets;
        samples.set("packets sent again", as_f64(first + second));
        samples.set("of these by the second network", percent(second, first + second));
        samples.set("paths count differently", percent(self.apart, self.looks));
        samples.set("thin", percent(self.thin, self.looks));
    }
}

/// The TSNs of a packet's DATA chunks.
fn tsns(packet: &[u8]) -> impl Iterator<Item = u32> {
    let mut chunks = packet.get(12..).unwrap_or_default();
    std::iter::from_fn(move || {
        let chunk = chunks;
        let &[kind, _, high, low, ..] = chunk else { return None };
        let length = usize::from(u16::from_be_bytes([high, low])).max(4);
        chunks = chunk.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(chunk.get(4..).and_then(<[u8]>::first_chunk).filter(|_| kind == 0).map(|tsn| u32::from_be_bytes(*tsn)))
    })
    .flatten()
}

fn is_later(tsn: u32, than: Option<u32>) -> bool {
    than.is_none_or(|than| tsn != than && tsn.wrapping_sub(than) < 1 << 31)
}

/// The profile of a publication, with its rules for several destinations, or without one of them.
fn published(sharing: &str) -> Option<Config> {
    let (paper, rule) = sharing.split_once('-').unwrap_or((sharing, ""));
    let profile = match paper {
        "p06" => Profile::Pedersen2006,
        "p10" => Profile::Petlund2010,
        _ => return None,
    };
    let mut config = Config::published(profile);
    let Destinations { detector_shared, repairs_elsewhere } = &mut config.mechanisms.destinations;
    *detector_shared &= rule != "apart";
    *repairs_elsewhere &= rule != "same";
    Some(config)
}

/// The settings of a way to use two networks.
fn settings(sharing: &str) -> (Config, Multihoming) {
    let default = Multihoming::default();
    let standard = Config::published(Profile::Rfc9260);
    if let Some(config) = published(sharing) {
        return (config, Multihoming { suspected_above: None, policy: PathPolicy::PrimaryOnly, ..default });
    }
    match sharing {
        "alone" => (Config::default(), Multihoming { paths_max: 1, ..default }),
        "rfc9260" => (standard, Multihoming { suspected_above: None, policy: PathPolicy::PrimaryOnly, ..default }),
        "rfc7829" => (standard, Multihoming { policy: PathPolicy::PrimaryOnly, ..default }),
        "copies" => (Config::default(), Multihoming { policy: PathPolicy::Copies, ..default }),
        "both" => (Config::default(), Multihoming { policy: PathPolicy::Both, ..default }),
        _ => (Config::default(), default),
    }
}

impl Scene {
    fn new(point: &Point, seed: u64) -> Self {
        let (config, multihoming) = settings(point.choice("sharing"));
        let context = |host: usize| {
            let addresses = vec![address(host, 0).ip(), address(host, 1).ip()];
            let multihoming = Multihoming { addresses, ..multihoming.clone() };
            Context::multihomed(config.clone(), [u8::from(host == 1) + 1; 16], multihoming)
                .expect("the settings are sound")
        };
        let mut round_trips = [point.duration("rtt"), point.duration("second_rtt")];
        if multihoming.paths_max == 1 {
            round_trips.sort_unstable();
        }
        let configs = round_trips.map(|round_trip| {
            let loss = LossModel::Independent(point.probability("loss"));
            LinkConfig { delay: round_trip / 2, loss, ..LinkConfig::default() }
        });
        let now = Instant::from_secs(1);
        let (began_at, ends_at) = (now + WARM_UP, now + WARM_UP + point.duration("duration") + PATIENCE);
        let common = GilbertElliott::bursts(point.probability("common"), point.duration("burst"));
        let common = common.map(|channel| channel.outages(ends_at, &mut RandomStream::new(seed, "common")));
        let outages = Outages { began_at, outage: point.duration("outage"), common: common.unwrap_or_default() };
        let contexts = [context(0), context(1)];
        let hosts = [0, 1].map(|host| Host::new(host, &contexts[host], outages.clone()));
        let mut networks = Networks::new(hosts, &configs, seed);
        networks.run_until(now);
        let client = Association::connect(now, &contexts[0], address(1, 0), PORTS, seed);
        networks.host_mut(0).association = Some(client);
        let course = if point.choice("course") == "walk" { walk([now, began_at, ends_at]) } else { VecDeque::new() };
        Self { networks, outages, course, sent_at: Vec::new() }
    }

    fn run(&mut self, point: &Point) {
        let (iat, size) = (point.duration("iat"), usize::try_from(point.bytes("size").bytes()).unwrap_or(usize::MAX));
        let ends_at = self.outages.began_at + point.duration("duration");
        let mut next_at = self.outages.began_at;
        while next_at < ends_at {
            self.advance_to(next_at);
            let number = u64::try_from(self.sent_at.len()).unwrap_or(u64::MAX);
            let mut payload = vec![0; size.max(8)];
            payload[..8].copy_from_slice(&number.to_be_bytes());
            self.sent_at.push(next_at);
            if let Some(client) = &mut self.networks.host_mut(0).association {
                // A message for which there is no room, or no association any more, counts as not delivered.
                let _refused = client.send(next_at, Message::new(payload));
            }
            next_at += iat;
        }
        self.advance_to(ends_at + PATIENCE);
    }

    fn advance_to(&mut self, end: Instant) {
        while self.course.front().is_some_and(|change| change.0 <= end)
            && let Some((at, delays, losses)) = self.course.pop_front()
        {
            self.networks.run_until(at - Duration::from_nanos(1));
            for network in 0..2 {
                self.networks.change(network, |link| {
                    link.set_delay(delays[network]);
                    link.set_loss(LossModel::Independent(losses[network]));
                });
            }
        }
        self.networks.run_until(end);
    }

    fn samples(&self) -> Samples {
        let mut samples = Samples::new();
        let mut longest = BTreeMap::<u128, Duration>::new();
        let received = &self.networks.host(1).received;
        for (number, at) in received {
            let Some(sent_at) = self.sent_at.get(*number) else { continue };
            let delay = *at - *sent_at;
            samples.tally(DELIVERY, delay);
            if let Some(outage) = self.outages.number(*sent_at, AFTERMATH) {
                let longest = longest.entry(outage).or_default();
                *longest = (*longest).max(delay);
            }
        }
        longest.values().for_each(|delay| samples.tally(LONGEST, *delay));
        samples.set(MESSAGES, as_f64(self.sent_at.len()));
        samples.set(DELIVERED, as_f64(received.len()));
        let sent = self.networks.host(0).association.as_ref().map(|client| client.stats().sent).unwrap_or_default();
        samples.set(PACKETS_SENT, as_f64(sent.packets));
        samples.set(BYTES_SENT, as_f64(sent.bytes + sent.packets * (UDP_HEADER_BYTES + IPV4_HEADER_BYTES) as u64));
        samples
    }
}
