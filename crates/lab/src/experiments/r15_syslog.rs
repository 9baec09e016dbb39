//! `r15-syslog-loss`, `r15-syslog-trace` and `r15-syslog-congestion`: log lines as in R15, Papers IV to VII, over a path that loses packets, and beside TCP.

mod figures;
pub mod real;

use festina_models::sctp_host::{Delivery, Important};
use festina_models::tcp::{Switches, TcpConfig};
use festina_models::workload::Poisson;
use festina_netsim::QueueLimit;
use festina_recovery::Profile;
use festina_sctp::Config;
use festina_units::{ByteCount, Duration, Probability};

use super::r12;
use crate::count::as_f64;
use crate::experiment::{Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scenario::Fault;
use crate::scenario::contended::{Contended, tcp_of_2012};
use crate::scenario::log_lines::{Carrier, LineBursts, LineFate, LineModel, LogLines};
use crate::summary::Results;

/// From when the application has a line to its delivery, of all lines that are delivered.
const ALL: &str = "all";
/// The same of the important ones.
const IMPORTANT: &str = "important";
/// The same of the others.
const NORMAL: &str = "normal";
/// Shares of these that were not delivered.
const ALL_LOST: &str = "lost %";
const IMPORTANT_LOST: &str = "important lost %";
const NORMAL_LOST: &str = "normal lost %";
/// How many important lines were not delivered.
const IMPORTANT_LOST_COUNT: &str = "important lines lost";
/// How many of the others were not.
const NORMAL_LOST_COUNT: &str = "normal lines lost";
const LINES: &str = "lines";
const DROPPED: &str = "packets dropped %";
const TCP_RATE: &str = "TCP Mbit/s";

const UDP: &str = "udp";
/// TCP as it was when R15 measured.
const TCP: &str = "tcp";
/// The best that Linux's TCP does for thin streams.
const TCP_THIN: &str = "tcp-thin";
/// The sender of R12 with everything reliable.
const SCTP: &str = "sctp";
/// The same with normal lines that expire.
const PR_SCTP: &str = "pr-sctp";
/// The same with what R12 proposes.
const NR_SACK: &str = "pr-sctp+nr-sack";
const FESTINA: &str = "festina";
/// PR-SCTP with E-FORWARD-TSN, without and with NR-SACK, and Festina with it.
const ENHANCED: &str = "pr-sctp+e-forward-tsn";
const BOTH: &str = "pr-sctp+both";
const FESTINA_ENHANCED: &str = "festina+e-forward-tsn";

const ON: &str = "on";
const NORMALLY: &str = "normal";

/// UDP and TCP are called PR-SCTP and NR-SACK, and the other way round.
const SWAPPED: &str = "swapped";
/// Important lines are sent as normal ones, and normal ones as important.
const CLASSES_SWAPPED: &str = "classes-swapped";
/// The network loses nothing, and nothing else crosses it.
const LOSSLESS: &str = "lossless";
/// SCTP never takes a chunk for lost by reports.
const NO_FAST_RETRANSMIT: &str = "no-fast-retransmit";

/// A load of one is this share of the bottleneck, as in R12: what each of five flows gets.
const FAIR_SHARE: f64 = 0.2;

/// Delay and loss of log lines by class and sender.
#[derive(Clone, Copy, Debug)]
pub struct Syslog {
    plan: &'static str,
    /// Each combination of these parameters' values has a figure; if there are none, figures are over the rate of loss.
    figures: &'static [&'static str],
}

impl Syslog {
    /// `r15-syslog-loss`: lines of 250 bytes over a path that loses packets by chance (Paper IV).
    pub const LOSS: Self = Self { plan: include_str!("../../../../experiments/r15-syslog-loss.toml"), figures: &[] };
    /// `r15-syslog-trace`: lines as in an operational network, beside TCP flows (Papers V and VII).
    pub const TRACE: Self =
        Self { plan: include_str!("../../../../experiments/r15-syslog-trace.toml"), figures: &["size", "load"] };
    /// `r15-syslog-congestion`: beside TCP flows, through one bottleneck and through several in a row (Papers VI and VII).
    pub const CONGESTION: Self = Self {
        plan: include_str!("../../../../experiments/r15-syslog-congestion.toml"),
        figures: &["size", "important", "hops"],
    };
}

impl Experiment for Syslog {
    fn description(&self) -> Description {
        definition::of(self.plan).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        run(point, seed)
    }

    fn beside_delays(&self) -> &'static [&'static str] {
        &[IMPORTANT_LOST, NORMAL_LOST, DROPPED]
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        if self.figures.is_empty() { figures::over_loss(results) } else { figures::bars(results, self.figures) }
    }
}

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
    let nagle = point.choice("nagle") == ON;
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
            let is_gathering = nagle && !is_festina;
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
fn fraction(point: &Point, name: &str) -> f64 {
    f64::from(point.probability(name).ppb()) / 1e9
}

/// Runs a point.
fn run(point: &Point, seed: u64) -> Samples {
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
