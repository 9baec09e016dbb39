//! Common parts of the experiments on log lines (R15, Papers IV to VII): the senders, the lines, and the measured values.

mod checks;
mod figures;
pub mod real;

use festina_models::sctp_host::{Delivery, Important};
use festina_models::tcp::{Nagle, Switches, TcpConfig};
use festina_models::workload::Poisson;
use festina_netsim::QueueLimit;
use festina_recovery::Profile;
use festina_sctp::Config;
use festina_units::{Bandwidth, ByteCount, Duration, Probability};

use super::r12;
use crate::assumption::{Assumption, chosen, stated};
use crate::count::as_f64;
use crate::plan::{Kind, Parameter, Point};
use crate::samples::Samples;
use crate::scenario::Fault;
use crate::scenario::contended::{Contended, tcp_of_2012};
use crate::scenario::log_lines::{Carrier, LineBursts, LineFate, LineModel, LogLines};

pub(super) use checks::{Scope, average};
pub(super) use figures::{OverLoss, bars, over_loss};

/// From when the application has a line to its delivery, of all lines that are delivered.
pub(super) const ALL: &str = "all";
/// The same of the important ones.
pub(super) const IMPORTANT: &str = "important";
/// The same of the others.
pub(super) const NORMAL: &str = "normal";
/// Shares of these that were not delivered.
pub(super) const ALL_LOST: &str = "lost %";
pub(super) const IMPORTANT_LOST: &str = "important lost %";
pub(super) const NORMAL_LOST: &str = "normal lost %";
/// How many important lines were not delivered.
pub(super) const IMPORTANT_LOST_COUNT: &str = "important lines lost";
/// How many of the others were not.
pub(super) const NORMAL_LOST_COUNT: &str = "normal lines lost";
const LINES: &str = "lines";
const DROPPED: &str = "packets dropped %";
const TCP_RATE: &str = "TCP Mbit/s";

/// Numbers shown next to the delays of a point.
pub(super) const BESIDE_DELAYS: &[&str] = &[IMPORTANT_LOST, NORMAL_LOST, DROPPED];

pub(super) const UDP: &str = "udp";
/// TCP as it was when R15 measured.
pub(super) const TCP: &str = "tcp";
/// The best that Linux's TCP does for thin streams.
pub(super) const TCP_THIN: &str = "tcp-thin";
/// The sender of R12 with everything reliable.
pub(super) const SCTP: &str = "sctp";
/// The same with normal lines that expire.
pub(super) const PR_SCTP: &str = "pr-sctp";
/// The same with what R12 proposes.
pub(super) const NR_SACK: &str = "pr-sctp+nr-sack";
pub(super) const FESTINA: &str = "festina";
/// PR-SCTP with E-FORWARD-TSN, without and with NR-SACK, and Festina with it.
const ENHANCED: &str = "pr-sctp+e-forward-tsn";
const BOTH: &str = "pr-sctp+both";
const FESTINA_ENHANCED: &str = "festina+e-forward-tsn";

pub(super) const SENDERS: &[&str] =
    &[UDP, TCP, TCP_THIN, SCTP, PR_SCTP, NR_SACK, FESTINA, ENHANCED, BOTH, FESTINA_ENHANCED];

const ON: &str = "on";
const SWITCH: &[&str] = &[ON, "off"];
const NORMALLY: &str = "normal";
const SIZES: &[&str] = &["fixed", NORMALLY];

/// UDP and TCP are called PR-SCTP and NR-SACK, and the other way round.
const SWAPPED: &str = "swapped";
/// Important lines are sent as normal ones, and normal ones as important.
const CLASSES_SWAPPED: &str = "classes-swapped";
/// The network loses nothing, and nothing else crosses it.
const LOSSLESS: &str = "lossless";
/// SCTP never takes a chunk for lost by reports.
const NO_FAST_RETRANSMIT: &str = "no-fast-retransmit";
const FAULTS: &[&str] = &["none", SWAPPED, CLASSES_SWAPPED, LOSSLESS, NO_FAST_RETRANSMIT];

/// A load of one is this share of the bottleneck, as in R12: what each of five flows gets.
const FAIR_SHARE: f64 = 0.2;

/// The senders in words, for the experiments' `about`.
macro_rules! syslog_senders {
    () => {
        "udp has a datagram for each line. tcp is New Reno with SACK and timestamps; Nagle's rule, FreeBSD's default when R15 measured, is off in the plan (nagle); tcp-thin is \
         Linux 6.1 (CUBIC, RACK, tail loss probes) without Nagle's rule and with linear timeouts of thin streams. sctp is the sender that R12's \
         experiments model, FreeBSD 8.2, with all lines reliable: the papers measured that one, and comparing PR-SCTP with lksctp would compare two \
         kernels. pr-sctp is the same with normal lines that have a lifetime, while important ones are reliable; pr-sctp+nr-sack adds what R12 \
         proposes. festina is Festina as it comes, with the same lifetimes. pr-sctp+e-forward-tsn has E-FORWARD-TSN in place of FORWARD-TSN, \
         pr-sctp+both has NR-SACK as well, and festina+e-forward-tsn is festina with that chunk. All of SCTP is unordered. Every sender gets the same lines at the same \
         times. A delay counts from when the application has the line to its delivery, over the lines that are delivered; a sender that \
         gives up late lines has lower delays for that alone, so the share of lost lines is shown with them."
    };
}
pub(super) use syslog_senders;

pub(super) fn parameters() -> Vec<Parameter> {
    let parameter = |name, about, kind| Parameter { name, about, kind };
    let ms = Duration::from_millis;
    let bytes = ByteCount::from_bytes;
    let share = || Kind::Probability(Probability::ZERO..=Probability::ONE);
    let rates = Bandwidth::from_bits_per_second(100_000)..=Bandwidth::from_bits_per_second(1_000_000_000);
    vec![
        parameter("sender", "what carries the lines", Kind::Choice(SENDERS)),
        parameter("size", "the mean length of a line", Kind::Bytes(bytes(1)..=bytes(720))),
        parameter("sizes", "whether all are equal or normally distributed", Kind::Choice(SIZES)),
        parameter("important", "the share of important lines", share()),
        parameter("load", "the lines' bytes outside bursts, as a share of a fifth of the rate", share()),
        parameter("lifetime", "how long a normal line is worth sending", Kind::Duration(ms(1)..=ms(600_000))),
        parameter("duration", "for how long lines are written", Kind::Duration(ms(1_000)..=ms(3_600_000))),
        parameter("burst_every", "how long it is calm on average", Kind::Duration(ms(100)..=ms(3_600_000))),
        parameter("burst", "how long a burst lasts", Kind::Duration(ms(1)..=ms(600_000))),
        parameter(
            "burst_factor",
            "how many times as many lines come in a burst; 1: there are none",
            Kind::Count(1..=100),
        ),
        parameter("burst_important", "the share of important lines in bursts", share()),
        parameter("rate", "the rate of each bottleneck, each way", Kind::Bandwidth(rates)),
        parameter("queue", "how many bytes may wait in front of it", Kind::Bytes(bytes(3_000)..=bytes(1 << 30))),
        parameter(
            "buffering",
            "whether the queue counts bytes, or packets of 1,500 bytes",
            Kind::Choice(r12::BUFFERING),
        ),
        parameter("loss", "how probably the bottleneck loses a packet by chance, each way", share()),
        parameter("rtt", "the round-trip time without queues", Kind::Duration(ms(1)..=ms(2_000))),
        parameter("flows", "greedy TCP flows over each bottleneck", Kind::Count(0..=1_000)),
        parameter("hops", "bottlenecks in a row", Kind::Count(1..=16)),
        parameter(
            "nagle",
            "whether tcp and the senders of 2012 wait until a packet is full while something is outstanding",
            Kind::Choice(SWITCH),
        ),
        parameter("fault", "a deliberate fault, to see whether the checks notice it", Kind::Choice(FAULTS)),
    ]
}

/// Where values come from that all of the experiments have; what an experiment says of its own values comes before.
pub(super) fn assumptions(own: &[Assumption]) -> Vec<Assumption> {
    let mut assumptions = own.to_vec();
    assumptions.extend([
        stated("sender", "§5 and §6, Papers IV to VII: UDP, TCP, SCTP, PR-SCTP without and with NR-SACK")
            .of(&[UDP, TCP, SCTP, PR_SCTP, NR_SACK]),
        chosen(
            "sender",
            "what TCP can do for thin streams today, Festina, and E-FORWARD-TSN, beside what the papers compare",
        ),
        chosen("sizes", "equal unless a paper says otherwise"),
        chosen("load", "the papers' loads are not in the text; R12 names 15%, 30% and 80%"),
        chosen("lifetime", "100 ms is what R12 §III-B gives normal messages; R15 does not tell its own"),
        chosen("duration", "long enough for thousands of lines a run"),
        chosen("burst_every", "R15 says nothing of how often bursts come"),
        chosen("burst", "R15 says nothing of how long bursts last"),
        chosen("burst_factor", "R15 says nothing of how high bursts are; 1 has none"),
        chosen("burst_important", "without effect where there are no bursts"),
        chosen("rate", "R15 does not tell its own; R12 §III-B has 10 Mbps"),
        chosen("queue", "R15 does not tell its own; R12 §III-B has 73 KB"),
        chosen(
            "buffering",
            "R12 §III-B counts bytes, which the last packet may exceed in Dummynet; its default is in packets",
        ),
        chosen("loss", "R15 does not tell its rates of loss, nor whether both ways lose"),
        chosen("rtt", "R15 does not tell its own; R12 §III-B has 80 ms"),
        chosen("flows", "R15 does not tell how many compete; R12 §III-B has four"),
        chosen("hops", "R15 says nothing of its parking lot in text"),
        chosen(
            "nagle",
            "as R12 is read: what bundles messages is a queue in the send buffer; the systems' default is on",
        ),
        chosen("fault", "wrong on purpose, for tests of the checks").of(&FAULTS_ON_PURPOSE),
        chosen("fault", "nothing is wrong on purpose"),
        chosen(
            "important lines are reliable",
            "§5: \"reliable delivery of high priority log messages\"; how is not said",
        )
        .beside_the_plan(),
        chosen("unordered", "R12 §III-B, since log lines do not depend on each other").beside_the_plan(),
        chosen("framing", "lines of TCP carry no length of their own").beside_the_plan(),
    ]);
    assumptions
}

const FAULTS_ON_PURPOSE: [&str; 4] = [SWAPPED, CLASSES_SWAPPED, LOSSLESS, NO_FAST_RETRANSMIT];

/// What carries the lines of a point.
fn carrier(point: &Point) -> Carrier {
    let fault = point.choice("fault");
    let sender = match (point.choice("sender"), fault) {
        (UDP, SWAPPED) => PR_SCTP,
        (PR_SCTP, SWAPPED) => UDP,
        (TCP, SWAPPED) => NR_SACK,
        (NR_SACK, SWAPPED) => TCP,
        (sender, _) => sender,
    };
    let has_nagle = point.choice("nagle") == ON;
    let nagle = if has_nagle { Nagle::Rfc1122 } else { Nagle::Off };
    match sender {
        UDP => Carrier::Udp,
        TCP => {
            Carrier::Tcp(Box::new(TcpConfig { switches: Switches { nagle, ..Switches::default() }, ..tcp_of_2012() }))
        }
        TCP_THIN => {
            let switches = Switches { thin_linear_timeouts: true, ..TcpConfig::linux().switches };
            Carrier::Tcp(Box::new(TcpConfig { switches, ..TcpConfig::linux() }))
        }
        _ => {
            let [mut sending, receiving] = ends(sender);
            let is_festina = matches!(sender, FESTINA | FESTINA_ENHANCED);
            if !is_festina {
                r12::limit_as_freebsd(&mut sending, point.bytes("size"));
            }
            if fault == NO_FAST_RETRANSMIT {
                sending.mechanisms = Fault::NoFastRetransmit.in_mechanisms(sending.mechanisms);
            }
            let is_gathering = has_nagle && !is_festina;
            let [important, normal] = lifetimes(sender, point.duration("lifetime"), fault == CLASSES_SWAPPED);
            let delivery = Delivery {
                unordered: true,
                lifetime: normal,
                // The list of lines says which are important, so the share is not used.
                important: Some(Important { share: Probability::ZERO, lifetime: important }),
                gathers: is_gathering.then_some(r12::CHUNK_BYTES_MAX),
                replaces: false,
            };
            Carrier::Sctp { sender: Box::new(sending), receiver: Box::new(receiving), delivery }
        }
    }
}

/// How long an important and a normal line are worth sending.
fn lifetimes(sender: &str, lifetime: Duration, are_swapped: bool) -> [Option<Duration>; 2] {
    match (sender, are_swapped) {
        (SCTP, _) => [None, None],
        (_, false) => [None, Some(lifetime)],
        (_, true) => [Some(lifetime), None],
    }
}

/// The settings of both ends of an association.
fn ends(sender: &str) -> [Config; 2] {
    match sender {
        FESTINA | FESTINA_ENHANCED => [(), ()].map(|()| {
            let mut config = Config { peer_timeout: None, ..Config::published(Profile::Festina) };
            config.partial_reliability.enhanced_forward_tsn = sender == FESTINA_ENHANCED;
            r12::limit(&mut config);
            config
        }),
        NR_SACK => r12::ends(r12::NR_SACK),
        ENHANCED => r12::ends(r12::ENHANCED),
        BOTH => r12::ends(r12::BOTH),
        _ => r12::ends(r12::OF_2012),
    }
}

/// How the lines of a point come about.
fn model(point: &Point) -> LineModel {
    let (size, rate) = (point.bytes("size"), point.bandwidth("rate"));
    let load_bps = fraction(point, "load") * as_f64(rate.bits_per_second()) * FAIR_SHARE;
    let is_fixed = point.choice("sizes") != NORMALLY;
    let factor = u32::try_from(point.count("burst_factor")).unwrap_or(u32::MAX);
    LineModel {
        lines: Poisson {
            interval_mean: Duration::from_secs_f64(as_f64(size.bytes() * 8) / load_bps.max(1.0)),
            size,
            size_deviation: if is_fixed { ByteCount::ZERO } else { ByteCount::from_bytes(size.bytes() / 3) },
        },
        important: point.probability("important"),
        bursts: (factor > 1).then(|| LineBursts {
            calm_mean: point.duration("burst_every"),
            lasting: point.duration("burst"),
            factor,
            important: point.probability("burst_important"),
        }),
    }
}

/// A share of a point.
pub(super) fn fraction(point: &Point, name: &str) -> f64 {
    f64::from(point.probability(name).ppb()) / 1e9
}

/// Runs a point.
pub(super) fn run(point: &Point, seed: u64) -> Samples {
    let mut network = r12::network(point, point.probability("loss"));
    if point.choice("fault") == LOSSLESS {
        let queue = QueueLimit::bytes(ByteCount::from_bytes(1 << 30));
        network = Contended { loss: Probability::ZERO, greedy: 0, queue, ..network };
    }
    let lines =
        LogLines { carrier: carrier(point), model: model(point), duration: point.duration("duration"), network };
    let run = lines.run(seed);
    let mut samples = samples(&run.observed);
    samples.set(DROPPED, run.dropped * 100.0);
    samples.set(TCP_RATE, run.tcp_bps / 1e6);
    samples
}

/// The delays and losses of lines.
fn samples(observed: &[LineFate]) -> Samples {
    let mut samples = Samples::new();
    for fate in observed {
        if let Some(delay) = fate.delay {
            samples.tally(if fate.is_important { IMPORTANT } else { NORMAL }, delay);
            samples.tally(ALL, delay);
        }
    }
    let mut classes = [(IMPORTANT_LOST, IMPORTANT_LOST_COUNT), (NORMAL_LOST, NORMAL_LOST_COUNT)].map(ClassCount::new);
    for fate in observed {
        classes[usize::from(!fate.is_important)].add(fate);
    }
    for ClassCount { lost_share, lost_count, lines, lost } in classes {
        samples.set(lost_share, as_f64(lost) / as_f64(lines.max(1)) * 100.0);
        samples.set(lost_count, as_f64(lost));
    }
    let lost: u64 = classes.iter().map(|class| class.lost).sum();
    samples.set(ALL_LOST, as_f64(lost) / as_f64(observed.len().max(1)) * 100.0);
    samples.set(LINES, as_f64(observed.len()));
    samples
}

/// How many lines of a class there were, and how many were not delivered; and what both numbers are called.
#[derive(Clone, Copy, Debug)]
struct ClassCount {
    lost_share: &'static str,
    lost_count: &'static str,
    lines: u64,
    lost: u64,
}

impl ClassCount {
    fn new((lost_share, lost_count): (&'static str, &'static str)) -> Self {
        Self { lost_share, lost_count, lines: 0, lost: 0 }
    }

    fn add(&mut self, fate: &LineFate) {
        self.lines += 1;
        self.lost += u64::from(fate.delay.is_none());
    }
}
