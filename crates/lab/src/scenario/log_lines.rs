//! Log lines of two classes, important and normal, over any transport: the traffic of R15's Papers IV to VII.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use festina_models::host::Host;
use festina_models::record::Truth;
use festina_models::sctp_host::{self, Delivery, SctpSender};
use festina_models::tcp::TcpConfig;
use festina_models::tcp_host::{self, TcpHost, TcpSender};
use festina_models::udp_host::UdpHost;
use festina_models::workload::{Poisson, Replay, Workload};
use festina_netsim::{NodeId, RandomStream};
use festina_sctp::Config;
use festina_units::{ByteCount, Duration, Instant, Probability};

use super::contended::{Contended, ContendedRun, STARTS_AT};
use super::mixture::{has_settled_all, noting};

/// How lines come about: at random times, in bursts if there are some.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineModel {
    /// Times and sizes outside bursts.
    pub(crate) lines: Poisson,
    /// How probably a line outside bursts is important.
    pub(crate) important: Probability,
    pub(crate) bursts: Option<LineBursts>,
}

/// Times at which there are more lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineBursts {
    /// Mean length of calm periods, exponentially distributed.
    pub(crate) calm_mean: Duration,
    /// Duration of each burst.
    pub(crate) lasting: Duration,
    /// Factor of the line rate during a burst.
    pub(crate) factor: u32,
    /// How probably one of these is important.
    pub(crate) important: Probability,
}

/// A line that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// When the application has it, counted from the first possible time.
    pub at: Duration,
    /// Its length.
    pub size: ByteCount,
    /// Its class.
    pub is_important: bool,
}

/// A time of calm or a burst.
#[derive(Clone, Copy, Debug)]
struct Phase {
    begins_at: Duration,
    /// The model's own time at the beginning and at the end. During a burst it runs faster than the clock.
    pace_before: Duration,
    pace_after: Duration,
    speed: u32,
    important: Probability,
}

impl LineModel {
    /// The lines of the time `lasting`, which the seed determines.
    pub(crate) fn lines(&self, seed: u64, lasting: Duration) -> Vec<Line> {
        let writes = Workload::Poisson(self.lines).writes(seed, "log lines");
        let mut classes = RandomStream::new(seed, "log lines/classes");
        let mut phases = RandomStream::new(seed, "log lines/phases");
        let mut phase = self.calm(Duration::ZERO, Duration::ZERO, &mut phases);
        let mut lines = Vec::new();
        for write in writes {
            while write.at > phase.pace_after {
                phase = self.after(phase, &mut phases);
            }
            let at = phase.begins_at + (write.at - phase.pace_before) / phase.speed;
            if at >= lasting {
                break;
            }
            lines.push(Line { at, size: write.size, is_important: classes.chance(phase.important) });
        }
        lines
    }

    fn calm(&self, begins_at: Duration, pace_before: Duration, phases: &mut RandomStream) -> Phase {
        let lasting = self.bursts.map(|bursts| phases.exponential(bursts.calm_mean));
        let pace_after = lasting.map_or(Duration::MAX, |lasting| pace_before + lasting);
        Phase { begins_at, pace_before, pace_after, speed: 1, important: self.important }
    }

    fn after(&self, phase: Phase, phases: &mut RandomStream) -> Phase {
        let begins_at = phase.begins_at + (phase.pace_after - phase.pace_before) / phase.speed;
        let pace_before = phase.pace_after;
        match self.bursts {
            Some(bursts) if phase.speed == 1 && bursts.factor > 1 => Phase {
                begins_at,
                pace_before,
                pace_after: pace_before + bursts.lasting * bursts.factor,
                speed: bursts.factor,
                important: bursts.important,
            },
            _ => self.calm(begins_at, pace_before, phases),
        }
    }
}

/// What carries the lines.
#[derive(Clone, Debug)]
pub(crate) enum Carrier {
    /// A datagram for each line (RFC 5426).
    Udp,
    /// All on one connection; a line arrived when its last byte could be read.
    Tcp(Box<TcpConfig>),
    /// All on one association, each a message.
    Sctp {
        /// The side that writes.
        sender: Box<Config>,
        /// The side that reads.
        receiver: Box<Config>,
        /// Delivery guarantee of each class.
        delivery: Delivery,
    },
}

/// Lines from one machine to another.
#[derive(Clone, Debug)]
pub(crate) struct LogLines {
    pub(crate) carrier: Carrier,
    pub(crate) model: LineModel,
    /// Duration of the writing.
    pub(crate) duration: Duration,
    pub(crate) network: Contended,
}

/// How a line fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineFate {
    /// Its class.
    pub is_important: bool,
    /// From when the application had it to its delivery; `None` if it was never delivered.
    pub delay: Option<Duration>,
}

impl LogLines {
    /// Runs it until all lines are settled, or for too long. The same seed gives the same lines to every carrier.
    pub(crate) fn run(&self, seed: u64) -> ContendedRun<Vec<LineFate>> {
        let lines = self.model.lines(seed, self.duration);
        let bytes: u64 = lines.iter().map(|line| line.size.bytes()).sum();
        let hosts = |ends, stops_at| self.hosts(ends, seed, stops_at, &lines);
        let is_settled = |[sender, receiver]: [&Host; 2]| match receiver {
            Host::Udp(_) => true,
            Host::Tcp(receiver) => receiver.totals().bytes_received >= bytes,
            Host::Sctp(_) => has_settled_all(sender),
        };
        self.network.run(seed, self.duration, hosts, is_settled, |ends| fates(&lines, ends))
    }

    fn hosts(&self, [from, to]: [NodeId; 2], seed: u64, stops_at: Instant, lines: &[Line]) -> [Host; 2] {
        let written = Replay::new(lines.iter().map(|line| (line.at, line.size)));
        let workload = Workload::Replay(written.expect("lines come in order, and none is empty"));
        let (starts_at, stops_at) = (STARTS_AT, Some(stops_at));
        match &self.carrier {
            Carrier::Udp => {
                let sender = UdpHost::new(from, seed).with_flow(to, &workload, starts_at, stops_at);
                [sender.into(), UdpHost::new(to, seed).logging().into()]
            }
            Carrier::Tcp(config) => {
                let config = **config;
                let writing = TcpSender { peer: to, config, workload, connects_at: Instant::ZERO, starts_at, stops_at };
                let sender = TcpHost::new(from, seed).logging().with_sender(writing);
                [sender.into(), TcpHost::new(to, seed).logging().listening(config).into()]
            }
            Carrier::Sctp { sender, receiver, delivery } => {
                let important: Arc<[bool]> = lines.iter().map(|line| line.is_important).collect();
                let writing = SctpSender {
                    starts_at,
                    stops_at,
                    delivery: *delivery,
                    important: Some(important),
                    ..SctpSender::new(to, workload)
                };
                let sender = noting(from, seed, sender).with_sender(&writing);
                [sender.into(), noting(to, seed, receiver).listening().into()]
            }
        }
    }
}

/// How each line fared between both ends.
fn fates(lines: &[Line], ends: [&Host; 2]) -> Vec<LineFate> {
    let delays = match ends {
        [Host::Tcp(sender), Host::Tcp(receiver)] => {
            delays_of(tcp_host::observe(sender, receiver).pop().map(|record| record.truth))
        }
        [Host::Sctp(sender), Host::Sctp(receiver)] => {
            delays_of(sctp_host::observe(sender, receiver).pop().map(|record| record.truth))
        }
        [_, Host::Udp(receiver)] => delays_of_datagrams(lines, receiver),
        _ => Vec::new(),
    };
    // Lines that the application never wrote were not delivered either.
    let delays = delays.into_iter().chain(std::iter::repeat(None));
    lines.iter().zip(delays).map(|(line, delay)| LineFate { is_important: line.is_important, delay }).collect()
}

fn delays_of(truth: Option<Truth>) -> Vec<Option<Duration>> {
    let messages = truth.into_iter().flat_map(|truth| truth.messages);
    messages.map(|message| Some(message.delivered_at? - message.due_at)).collect()
}

/// Datagrams say when they were sent, and those of the same time keep their order.
fn delays_of_datagrams(lines: &[Line], receiver: &UdpHost) -> Vec<Option<Duration>> {
    let mut arrived: BTreeMap<Instant, VecDeque<Instant>> = BTreeMap::new();
    for arrival in receiver.arrivals() {
        arrived.entry(arrival.sent_at).or_default().push_back(arrival.arrived_at);
    }
    let delay = |line: &Line| {
        let due_at = STARTS_AT + line.at;
        Some(arrived.get_mut(&due_at)?.pop_front()? - due_at)
    };
    lines.iter().map(delay).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use festina_netsim::QueueLimit;
    use festina_sctp::Profile;
    use festina_units::Bandwidth;

    use super::super::contended::tcp_of_2012;
    use crate::count::as_f64;

    fn model(bursts: Option<LineBursts>) -> LineModel {
        let size = ByteCount::from_bytes(250);
        let lines = Poisson { interval_mean: Duration::from_millis(10), size, size_deviation: ByteCount::ZERO };
        LineModel { lines, important: Probability::from_percent(10), bursts }
    }

    fn share(lines: &[Line]) -> f64 {
        as_f64(lines.iter().filter(|line| line.is_important).count()) / as_f64(lines.len())
    }

    #[test]
    fn bursts_bring_as_many_more_lines_as_they_say_and_have_a_class_mix_of_their_own() {
        let lasting = Duration::from_secs(2_000);
        let even = model(None).lines(3, lasting);
        assert!((195_000..205_000).contains(&even.len()), "{}", even.len());
        assert!((0.09..0.11).contains(&share(&even)), "{}", share(&even));
        let bursts = LineBursts {
            calm_mean: Duration::from_secs(6),
            lasting: Duration::from_secs(2),
            factor: 5,
            important: Probability::ZERO,
        };
        let uneven = model(Some(bursts)).lines(3, lasting);
        // Bursts last a quarter of the time and have five times the rate: twice the lines in all, and 3/8 of them outside bursts.
        let times = as_f64(uneven.len()) / as_f64(even.len());
        assert!((1.85..2.15).contains(&times), "{times}");
        assert!((0.03..0.045).contains(&share(&uneven)), "{}", share(&uneven));
        assert!(uneven.windows(2).all(|pair| pair[0].at <= pair[1].at), "time goes on");
    }

    #[test]
    fn every_carrier_gets_the_same_lines_and_what_it_promises_to_deliver_arrives() {
        let network = Contended {
            hops: 1,
            rate: Bandwidth::from_bits_per_second(10_000_000),
            queue: QueueLimit::packets(50),
            loss: Probability::from_percent(10),
            rtt: Duration::from_millis(80),
            greedy: 0,
        };
        let important = Some(sctp_host::Important { share: Probability::ZERO, lifetime: None });
        let lifetime = Some(Duration::from_millis(100));
        let delivery = Delivery { unordered: true, lifetime, important, ..Delivery::default() };
        let config = Box::new(Config::published(Profile::Festina));
        let sctp = Carrier::Sctp { sender: config.clone(), receiver: config, delivery };
        let run = |carrier| {
            let duration = Duration::from_secs(20);
            LogLines { carrier, model: model(None), duration, network: network.clone() }.run(5).observed
        };
        let [udp, tcp, sctp] = [Carrier::Udp, Carrier::Tcp(Box::new(tcp_of_2012())), sctp].map(run);
        let classes = |fates: &[LineFate]| fates.iter().map(|fate| fate.is_important).collect::<Vec<_>>();
        assert_eq!(classes(&udp), classes(&tcp));
        assert_eq!(classes(&udp), classes(&sctp));
        let lost = |fates: &[LineFate], class| {
            fates.iter().filter(|fate| fate.is_important == class && fate.delay.is_none()).count()
        };
        assert!(lost(&udp, true) > 5 && lost(&udp, false) > 100, "UDP repairs nothing");
        assert_eq!([lost(&tcp, true), lost(&tcp, false), lost(&sctp, true)], [0, 0, 0]);
        assert!(lost(&sctp, false) < lost(&udp, false), "copies arrive within 100 ms");
        let soonest = udp.iter().filter_map(|fate| fate.delay).min().expect("most arrive");
        assert!((Duration::from_millis(40)..Duration::from_millis(42)).contains(&soonest), "{soonest:?}");
    }
}
