//! What a capture's thin flows would have seen with another transport.
//!
//! ```text
//!  capture ──> thin flows: writes, copies, acknowledgements ──> paths: round-trip time, loss, bursts
//!                                   │                                     │
//!                                   └──────> simulator, each transport <──┘
//!                                                     │
//!       the capture's own delays <── compared with ── what captures of the simulated flows show
//! ```
//!
//! The transport that the flows had is simulated first, and its simulated captures are read by the same analysis as the real one. The losses
//! are corrected until both show the same retransmissions and acknowledgements. How well the delays then agree says how far the
//! prediction can be trusted.

mod certainty;
mod flow;
mod path;
mod replay;

use std::time::Duration;

use festina_models::packet::UDP_HEADER_BYTES;
use festina_trace::{Cause, Histogram};

pub use certainty::Certainty;
use flow::Shown;
pub use flow::{ThinFlow, ThinFlows};
pub use path::PathEstimate;
use replay::{FlowOnPath, Losses, Transport};

use crate::count::as_f64;
use crate::figure::{DelayDistribution, Figure};
use crate::scenario::StreamRun;
use festina_models::statistics::DelayStatistics;

/// The row of Festina as it is shipped.
pub const FESTINA: &str = "SCTP, festina";
/// Writes that are simulated at least with each transport, so that the rare delays are more than chance.
const WRITES_WANTED: u64 = 50_000;
const RUNS_MAX: u64 = 20;
/// Writes that are simulated at most in a run: those of the flows that come first.
const WRITES_MAX: u64 = 500_000;

/// What became of the writes with one transport.
#[derive(Clone, Debug)]
pub struct Fate {
    /// Which.
    pub name: &'static str,
    /// From each write to its delivery in order, of all runs.
    pub delays: DelayStatistics,
    /// The longest delay of each run.
    worst: Vec<Duration>,
    /// Writes that were not delivered within ten minutes, of all runs.
    pub undelivered: u64,
    packets: u64,
    bytes: u64,
    runs: u64,
}

/// How the delays to acknowledgement of the simulated flows compare with those of the capture.
#[derive(Clone, Debug)]
pub struct Agreement {
    /// The transport that explains the capture best.
    pub name: &'static str,
    /// Of the capture.
    pub capture_ns: Histogram,
    /// Certainty of the capture's 99th percentile; `None` if it has no delays.
    pub capture_p99: Option<Certainty>,
    /// Of all simulated captures.
    pub simulated_ns: Histogram,
    /// The 99th percentile of each run, in nanoseconds.
    pub p99_ns: Vec<u64>,
    /// Retransmissions of each write in the capture and simulated, by cause in the order of [`Cause::ALL`](festina_trace::Cause::ALL).
    pub by_cause: [[f64; Cause::ALL.len()]; 2],
    /// Of them those that were not needed.
    pub spurious: [f64; 2],
}

/// Prediction of a capture's thin flows with other transports.
#[derive(Clone, Debug)]
pub struct WhatIf {
    /// The flows that were simulated.
    pub flows: u64,
    /// Thin flows that were not, because there were too many.
    pub flows_beyond: u64,
    /// Their writes.
    pub writes: u64,
    /// The shortest, the median and the longest round-trip time of their paths.
    pub rtt: [Duration; 3],
    /// The share of the senders' and of the receivers' packets that is lost.
    pub loss: [f64; 2],
    /// Mean length of bursts of losses, if they are not single; of several protocols the longest.
    pub burst: Option<Duration>,
    /// Number of simulations of each.
    pub runs: u64,
    /// For each protocol of the capture.
    pub agreements: Vec<Agreement>,
    /// The flows with their present transport.
    pub present: Fate,
    /// The same flows with other transports.
    pub alternatives: Vec<Fate>,
}

/// Flows of one protocol, explained.
struct Explained {
    flows: Vec<FlowOnPath>,
    transport: Transport,
    losses: Losses,
}

impl WhatIf {
    /// Simulates the flows. The same flows and the same seed give the same answer. `None` if there are no flows.
    pub fn of(mut flows: Vec<ThinFlow>, seed: u64) -> Option<Self> {
        let found = flows.len();
        let mut writes = 0;
        flows.retain(|flow| {
            writes += flow.writes();
            writes <= WRITES_MAX
        });
        let (kept, writes) = (flows.len(), flows.iter().map(ThinFlow::writes).sum::<u64>());
        if kept == 0 {
            return None;
        }
        let groups = explain(flows, seed);
        let runs = WRITES_WANTED.div_ceil(writes.max(1)).min(RUNS_MAX);
        let mut present = Fate::new(match groups.as_slice() {
            [only] => only.transport.name,
            _ => "present transports",
        });
        let others = replay::alternatives().into_iter().filter(|transport| transport.name != present.name);
        let alternatives = others.map(|transport| {
            let mut fate = Fate::new(transport.name);
            fate.run(&groups, |_| &transport.stack, runs, seed);
            fate
        });
        let alternatives: Vec<Fate> = alternatives.collect();
        present.run(&groups, |group| &group.transport.stack, runs, seed);
        Some(Self {
            flows: u64::try_from(kept).unwrap_or(u64::MAX),
            flows_beyond: u64::try_from(found - kept).unwrap_or(u64::MAX),
            writes,
            rtt: round_trips(&groups),
            loss: losses(&groups),
            burst: groups.iter().filter_map(|group| group.losses.burst).max(),
            runs,
            agreements: groups.iter().map(|group| Agreement::of(group, runs, seed)).collect(),
            present,
            alternatives,
        })
    }

    /// What Festina would change, in a sentence.
    pub fn sentence(&self) -> String {
        let p99 = |fate: &Fate| fate.delays.quantile(0.99).unwrap_or_default().as_secs_f64() * 1e3;
        let festina = self.alternatives.iter().find(|fate| fate.name == FESTINA);
        let Some(festina) = festina else { return format!("These flows have {FESTINA} already.") };
        if self.loss == [0.0; 2] {
            return "Nothing was lost, so another transport has nothing to gain.".to_owned();
        }
        let (now, then) = (p99(&self.present), p99(festina));
        let cost = 100.0 * (festina.bytes_per_run() / self.present.bytes_per_run().max(1.0) - 1.0);
        let cost = format!("{:.0} % {} bytes", cost.abs(), if cost < 0.0 { "fewer" } else { "more" });
        format!(
            "With {FESTINA}, one write in a hundred would take longer than {then:.0} ms, instead of {now:.0} ms with {}, for {cost}.",
            self.present.name
        )
    }

    /// For each delay the share of writes that took longer, with each transport.
    pub fn figure(&self, title: &str) -> Figure {
        let mut figure = DelayDistribution::new(title, "simulated, to delivery in order");
        for fate in self.rows() {
            figure.curve(fate.name, &fate.delays);
        }
        figure.figure()
    }

    /// The transport that the flows have, and the others that they could have.
    pub fn rows(&self) -> impl Iterator<Item = &Fate> {
        std::iter::once(&self.present).chain(&self.alternatives)
    }
}

fn explain(flows: Vec<ThinFlow>, seed: u64) -> Vec<Explained> {
    let paths = path::estimate(&flows);
    let mut flows: Vec<FlowOnPath> = flows.into_iter().zip(paths).collect();
    flows.sort_by_key(|(flow, _)| (flow.report.protocol, flow.report.id));
    let groups = flows.chunk_by(|(one, _), (other, _)| one.report.protocol == other.report.protocol);
    groups
        .map(|flows| {
            let (transport, losses) = replay::explained(flows, seed);
            Explained { flows: flows.to_vec(), transport, losses }
        })
        .collect()
}

fn round_trips(groups: &[Explained]) -> [Duration; 3] {
    let mut rtts: Vec<Duration> = groups.iter().flat_map(|group| &group.flows).map(|(_, path)| path.rtt).collect();
    rtts.sort_unstable();
    let at = |index: usize| rtts.get(index).copied().unwrap_or_default();
    [at(0), at(rtts.len() / 2), at(rtts.len().saturating_sub(1))]
}

/// The mean of all copies that were offered, there and back.
fn losses(groups: &[Explained]) -> [f64; 2] {
    let [mut weight, mut there, mut back] = [0.0; 3];
    for group in groups {
        for (flow, path) in &group.flows {
            let writes = as_f64(flow.writes());
            weight += writes;
            there += writes * path.loss * group.losses.factor;
            back += writes * group.losses.back;
        }
    }
    [there, back].map(|sum| sum / f64::max(weight, 1.0))
}

impl Fate {
    fn new(name: &'static str) -> Self {
        let (delays, worst) = (DelayStatistics::new(), Vec::new());
        Self { name, delays, worst, undelivered: 0, packets: 0, bytes: 0, runs: 0 }
    }

    /// Runs all flows this often. Each run has its own seed, which all transports have in common.
    fn run<'a>(
        &mut self,
        groups: &'a [Explained],
        stack: impl Fn(&'a Explained) -> &'a crate::scenario::Stack,
        runs: u64,
        seed: u64,
    ) {
        for run in 0..runs {
            let mut worst = Duration::ZERO;
            for group in groups {
                let seed = seed.wrapping_add(run << 32);
                let streams = replay::runs(&group.flows, group.losses, stack(group), seed);
                for ((flow, _), stream) in group.flows.iter().zip(streams) {
                    match stream {
                        Some(stream) => worst = worst.max(self.add(&stream)),
                        None => self.undelivered += flow.writes(),
                    }
                }
            }
            self.worst.push(worst);
        }
        self.runs += runs;
        self.worst.sort_unstable();
    }

    /// Adds a stream, and gives its longest delay.
    fn add(&mut self, run: &StreamRun) -> Duration {
        let mut worst = Duration::ZERO;
        for message in &run.record.truth().messages {
            match message.delivered_at {
                Some(at) => {
                    let delay = at - message.due_at;
                    self.delays.record(delay);
                    worst = worst.max(delay);
                }
                None => self.undelivered += 1,
            }
        }
        let packets = run.packets_sent + run.packets_returned;
        let is_sctp = matches!(run.record, crate::scenario::StreamRecord::Sctp(_));
        let udp_bytes = if is_sctp { u64::try_from(UDP_HEADER_BYTES).unwrap_or(0) } else { 0 };
        self.packets += packets;
        self.bytes += run.bytes_sent + run.bytes_returned + packets * udp_bytes;
        worst
    }

    /// The longest delay of a run, in the median of all runs.
    pub fn worst(&self) -> Duration {
        self.worst.get(self.worst.len() / 2).copied().unwrap_or_default()
    }

    /// Packets of both ends in a run, on average.
    pub fn packets_per_run(&self) -> f64 {
        as_f64(self.packets) / as_f64(self.runs.max(1))
    }

    /// Their bytes, with the headers of IP, and of UDP with SCTP.
    pub fn bytes_per_run(&self) -> f64 {
        as_f64(self.bytes) / as_f64(self.runs.max(1))
    }
}

impl Agreement {
    fn of(group: &Explained, runs: u64, seed: u64) -> Self {
        let capture = Shown::of(group.flows.iter().map(|(flow, _)| flow));
        let mut simulated = Shown::default();
        let mut p99_ns = Vec::new();
        for run in 0..runs {
            let shown = replay::shown(&group.flows, group.losses, &group.transport.stack, seed.wrapping_add(run << 32));
            p99_ns.extend(shown.delays_ns.percentile(99.0));
            simulated.merge(&shown);
        }
        p99_ns.sort_unstable();
        let per_write = |shown: &Shown, count: u64| as_f64(count) / as_f64(shown.writes.max(1));
        let both = [&capture, &simulated];
        Self {
            name: group.transport.name,
            capture_p99: certainty::of(group.flows.iter().map(|(flow, _)| flow.delays_ns.as_slice()), 0.99),
            by_cause: both.map(|shown| shown.by_cause.map(|count| per_write(shown, count))),
            spurious: both.map(|shown| per_write(shown, shown.spurious)),
            capture_ns: capture.delays_ns,
            simulated_ns: simulated.delays_ns,
            p99_ns,
        }
    }

    /// Returns how much the simulated percentile exceeds that of the capture, as a share of it.
    pub fn deviation(&self, percent: f64) -> Option<f64> {
        let [capture, simulated] = [&self.capture_ns, &self.simulated_ns].map(|delays| delays.percentile(percent));
        Some(as_f64(simulated?) / as_f64(capture?.max(1)) - 1.0)
    }

    /// Returns whether the simulated 99th percentile is within a tenth of that of the capture, or whether chance explains their difference: the runs
    /// overlap the capture's confidence interval.
    pub fn is_close(&self) -> bool {
        let is_within = self.deviation(99.0).is_some_and(|share| share.abs() <= 0.1);
        let overlaps = |known: Certainty| {
            let (low, high) = known.interval_ns;
            self.p99_ns.first().is_some_and(|least| *least <= high)
                && self.p99_ns.last().is_some_and(|most| low <= *most)
        };
        is_within || self.capture_p99.is_some_and(overlaps)
    }
}
