//! R15's log lines with real sockets: UDP, the kernel's TCP, associations of the library, and relay and collector, compared with the simulator.
//!
//! - [`course`]: the lines of a run, when the application had each, and when it arrived
//! - [`receiver`], [`sender`]: the parts of the hosts
//! - [`rivals`]: greedy TCP flows
//! - [`checks`]: those of the simulated experiment, and our own

mod checks;
mod course;
mod receiver;
mod rivals;
mod sender;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use festina_emulate::TunCounters;
use festina_emulate::hosts::Hosts;
use festina_lab::assumption::{Assumption, chosen};
use festina_lab::evidence::declared;
use festina_lab::experiment::{Check, Description, Experiment, Objection};
use festina_lab::experiments::{self, log_lines};
use festina_lab::figure::Figure;
use festina_lab::plan::{Kind, Parameter, Point};
use festina_lab::samples::Samples;
use festina_lab::summary::{PointSummary, Results};
use festina_netsim::LinkConfig;

use super::{comparison, hosts, lateness};
use course::Course;

/// Relay and collector of `festina syslog`, which the simulator does not have.
const RELAY: &str = "festina-syslog";
const FESTINA: &str = "festina";
const TCP_THIN: &str = "tcp-thin";
const UDP: &str = "udp";
/// What carries the lines.
const SENDERS: [&str; 8] = [UDP, "tcp", TCP_THIN, "sctp", "pr-sctp", "pr-sctp+nr-sack", FESTINA, RELAY];

/// Parameters of the simulation that have one value here.
const FIXED: [(&str, &str); 3] = [("hops", "1"), ("nagle", "off"), ("fault", "none")];

/// The rivals have filled the queue by then.
const LEAD_WITH_RIVALS: Duration = Duration::from_secs(10);
/// Relay and collector have connected by then.
const LEAD_ALONE: Duration = Duration::from_secs(3);
/// Time after the last line for lines that have not arrived.
const DRAIN_MAX: Duration = Duration::from_secs(60);

/// An experiment on log lines, with the parameters and checks of the simulated one.
#[derive(Clone, Copy)]
pub(super) struct LogLines {
    simulated: &'static dyn Experiment,
    plan: &'static str,
}

impl LogLines {
    pub(super) const LOSS: Self = Self {
        simulated: &experiments::Syslog::LOSS,
        plan: include_str!("../../../../experiments/real/r15-syslog-loss.toml"),
    };
    pub(super) const TRACE: Self = Self {
        simulated: &experiments::Syslog::TRACE,
        plan: include_str!("../../../../experiments/real/r15-syslog-trace.toml"),
    };
    pub(super) const CONGESTION: Self = Self {
        simulated: &experiments::Syslog::CONGESTION,
        plan: include_str!("../../../../experiments/real/r15-syslog-congestion.toml"),
    };
    pub(super) const ALL: [Self; 3] = [Self::LOSS, Self::TRACE, Self::CONGESTION];
}

impl Experiment for LogLines {
    fn description(&self) -> Description {
        Description {
            about: "The lines of the simulated experiment over real sockets, between two hosts on this machine: network namespaces that exist for the time of a run, \
         joined by an emulated network with the simulation's bottleneck, loss and round-trip time. udp sends a datagram for each line. tcp is the \
         kernel's TCP with Reno, and tcp-thin with CUBIC and linear timeouts of thin streams, both without Nagle's rule. sctp, pr-sctp and \
         pr-sctp+nr-sack are the simulation's models of FreeBSD 8.2, and festina is the library as it comes, all over UDP sockets of the library, \
         unencrypted. festina-syslog is a relay and a collector, unencrypted, to which the same lines go as datagrams on the sender's host: important \
         lines are reliable, the others have the plan's lifetime. Its delay ends when the line is in the collector's file. Competing TCP flows \
         are the kernel's, with Reno.\n\n\
         Each run is simulated as well. The simulation's tcp is New Reno of 2012 without loss probes, which the kernel's is not, and it has no relay.\n\n\
         The emulator says how late it delivered packets. If more than one in a hundred was more than 0.5 ms late, in any run, nothing about \
         delays is decided, nor any statement of the simulated experiment.",
            plan: self.plan,
            ..self.simulated.description()
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        let mut parameters = self.simulated.parameters();
        for parameter in parameters.iter_mut().filter(|parameter| parameter.name == "sender") {
            parameter.kind = Kind::Choice(&SENDERS);
        }
        parameters
    }

    fn objection(&self, point: &Point) -> Option<Objection> {
        let is_other = |(name, value): &(&str, &str)| point.value(name).is_none_or(|it| it.to_string() != *value);
        FIXED.into_iter().find(is_other).map(|(name, value)| Objection {
            parameter: name.to_owned(),
            problem: format!("with real sockets it can only be {value}"),
        })
    }

    fn assumptions(&self) -> Vec<Assumption> {
        let own = chosen("sender", "relay and collector, which the simulation does not have").of(&[RELAY]);
        [own].into_iter().chain(self.simulated.assumptions()).collect()
    }

    /// # Panics
    /// If the system refuses: call [`measure`](Self::measure) for the reason.
    fn run(&self, point: &Point, seed: u64) -> Samples {
        self.measure(point, seed).unwrap_or_else(|error| panic!("{error:#}"))
    }

    fn beside_delays(&self) -> &'static [&'static str] {
        &[log_lines::LOST[0], log_lines::LOST[1], log_lines::DROPPED_PERCENT, lateness::P99_MS]
    }

    fn all_checks(&self, results: &Results) -> Vec<Check> {
        let simulated = declared::checks(results, &|_| true).into_iter();
        let mut checks: Vec<Check> = simulated.map(|check| lateness::qualify(check, results.points())).collect();
        checks.extend(checks::own(results));
        checks
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        comparison::figures("Important log lines over real sockets", log_lines::SERIES[1], results, place)
    }
}

/// The conditions of a point in words, without its sender.
fn place(summary: &PointSummary) -> String {
    let text = |name| summary.point().value(name).map(|value| value.to_string()).unwrap_or_default();
    let [size, load, loss, flows] = ["size", "load", "loss", "flows"].map(text);
    format!("{size}, {load} load, {} important, {loss} loss, {flows} TCP flows", text("important"))
}

impl LogLines {
    /// Measures a point once, and simulates it.
    pub(super) fn measure(&self, point: &Point, seed: u64) -> Result<Samples> {
        let there = LinkConfig { delay: point.duration("rtt") / 2, ..log_lines::bottleneck(point) };
        let hosts = Hosts::create((there.clone(), there), seed, None)?;
        hosts::prepare(&hosts, &[])?;
        let course = Arc::new(Course::new(log_lines::lines(point, seed), point.duration("duration")));
        let receiver = receiver::Receiver::new(point)?;
        let sender = sender::Sender::new(point, &receiver)?;
        let serve = |ready, ended| receiver.run(Arc::clone(&course), ready, ended);
        let (rival_bytes, dropped) = hosts::on_both(&hosts, serve, || sender.run(Arc::clone(&course), &hosts))?;
        let lateness = hosts.stop().context("the emulation failed")?.lateness;
        ensure!(course.unexpected() == 0, "{} lines arrived twice or were never sent", course.unexpected());
        let mut samples = log_lines::samples(&course.fates());
        samples.set(log_lines::DROPPED_PERCENT, dropped * 100.0);
        samples.set(log_lines::TCP_MBITS, rival_bytes as f64 * 8.0 / 1e6 / course.lasts().as_secs_f64());
        lateness::note(&mut samples, &lateness);
        if point.choice("sender") != RELAY {
            let simulation = self.simulated.run(point, seed);
            comparison::add(&mut samples, &simulation, &log_lines::SERIES, &log_lines::LOST);
        }
        Ok(samples)
    }
}

/// The share of packets between two moments that found no room at the bottleneck.
fn dropped(before: &TunCounters, after: &TunCounters) -> f64 {
    let [before, after] = [before.forward, after.forward];
    (after.queue_dropped - before.queue_dropped) as f64 / (after.offered - before.offered).max(1) as f64
}
