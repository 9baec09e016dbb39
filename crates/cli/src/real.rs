//! `festina lab run --real`: experiments of the laboratory with real sockets on two temporary hosts that an emulated network joins.
//!
//! - [`kernel_tcp`]: Tables 1 to 3 of G02 with the kernel's TCP
//! - [`thin_latency`]: thin streams over the library and over the kernel's TCP, compared with the simulator
//! - [`log_lines`]: R15's log lines over UDP, TCP, associations of the library, and relay and collector, compared with the simulator
//! - [`hosts`]: a part of a measurement on each host; [`lateness`]: the emulator's error, and the verdicts that it rules out; [`comparison`]: measured
//!   and simulated delays in one figure
//!
//! The laboratory has no sockets. It plans, stores, judges and reports; its simulation is replaced by a measurement.
//!
//! Everything is in this process: namespaces without names, TUN devices and sockets, which the kernel removes when it ends,
//! even by a signal.

mod comparison;
mod hosts;
#[cfg(test)]
mod judged;
mod kernel_tcp;
mod lateness;
mod log_lines;
mod thin_latency;

use anyhow::{Context as _, Result};
use festina_lab::experiment::Experiment;
use festina_lab::plan::Point;
use festina_lab::samples::Samples;

use self::kernel_tcp::Tables;
use self::log_lines::LogLines;
use self::thin_latency::ThinLatency;

/// The experiments that can be measured with real sockets.
pub(crate) const ALL: &[&dyn Experiment] =
    &[&ThinLatency, &LogLines::LOSS, &LogLines::TRACE, &LogLines::CONGESTION, &Tables];

/// Returns the experiment with this name. The tables of G02 are views of the same runs.
pub(crate) fn find(name: &str) -> Option<&'static dyn Experiment> {
    let name = if kernel_tcp::NAMES.contains(&name) { Tables.name() } else { name };
    ALL.iter().copied().find(|experiment| experiment.name() == name)
}

/// The names of all that can be measured.
pub(crate) fn names() -> Vec<&'static str> {
    let others = ALL.iter().map(|experiment| experiment.name()).filter(|name| *name != Tables.name());
    others.chain(kernel_tcp::NAMES).collect()
}

/// Measures a point of an experiment once.
pub(crate) fn measure(experiment: &dyn Experiment, point: &Point, seed: u64) -> Result<Samples> {
    let name = experiment.name();
    if name == Tables.name() {
        return kernel_tcp::measure(point, seed);
    }
    if name == ThinLatency.name() {
        return thin_latency::measure(point, seed);
    }
    let lines = LogLines::ALL.into_iter().find(|lines| lines.name() == name);
    lines.with_context(|| format!("{name} has no measurement"))?.measure(point, seed)
}
