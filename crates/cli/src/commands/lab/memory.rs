//! Warnings about plans that take much memory: one before the start, by an estimate from the plan's numbers, and one while it runs, by measuring the
//! process, for plans that the estimate misses.

use std::fs;
use std::num::NonZero;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use festina_lab::experiment::Experiment;
use festina_lab::memory;
use festina_lab::plan::Plan;
use festina_units::ByteCount;

use crate::output;

/// How often the process is measured.
const INTERVAL: Duration = Duration::from_millis(100);
/// The warning comes at this much memory, or at half of the available memory if that is less.
const WARNING_BYTES: u64 = 2 << 30;

/// The warning before the start comes from this estimate on.
const ANNOUNCED_BYTES: u64 = 1 << 30;

/// Warns of a plan that may take much memory when `jobs` runs, or one per processor, are under way.
pub(super) fn announce(experiment: &dyn Experiment, plan: &Plan, jobs: Option<usize>) {
    let Some((point, one)) = memory::largest(experiment, plan) else { return };
    let runs = plan.points().len() * plan.repetitions_of(&point) as usize;
    let together = jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZero::get)).min(runs);
    let all = ByteCount::from_bytes(one.bytes().saturating_mul(together as u64));
    if all.bytes() > ANNOUNCED_BYTES {
        let [all, one] = [all, one].map(memory::display);
        let label = plan.label(&point);
        output::notice(&format!(
            "warning: this plan may take about {all} of memory: {one} for a run of {label}, {together} at a time (--jobs)"
        ));
    }
}

/// Warns once as long as it lives.
pub(super) struct Watch {
    _ends: Sender<()>,
}

/// Warns when this process takes much memory, on systems that tell.
pub(super) fn watch() -> Watch {
    let limit = available().map_or(WARNING_BYTES, |available| WARNING_BYTES.min(available / 2));
    watch_at(limit, resident, |bytes| {
        output::notice(&format!(
            "warning: this plan takes {} of memory so far; fewer --jobs, shorter runs or smaller queues need less",
            ByteCount::from_bytes(bytes >> 20 << 20)
        ));
    })
}

fn watch_at(
    limit: u64,
    resident: impl Fn() -> Option<u64> + Send + 'static,
    warn: impl FnOnce(u64) + Send + 'static,
) -> Watch {
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || {
        while let Some(bytes) = resident() {
            if bytes > limit {
                return warn(bytes);
            }
            if ended.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    });
    Watch { _ends: sender }
}

/// Bytes of physical memory that this process takes.
fn resident() -> Option<u64> {
    kibibytes(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// Bytes of physical memory that could be had.
fn available() -> Option<u64> {
    kibibytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn a_process_that_grows_beyond_the_limit_is_told_of_once() {
        static MEASURED: AtomicU64 = AtomicU64::new(0);
        let (sender, warnings) = mpsc::channel();
        let growing = || Some(MEASURED.fetch_add(1, Ordering::Relaxed));
        let watch = watch_at(2, growing, move |bytes| sender.send(bytes).expect("the test waits"));
        assert_eq!(warnings.recv(), Ok(3));
        assert!(warnings.recv().is_err(), "the thread has ended");
        drop(watch);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn linux_tells_how_much_memory_there_is() {
        assert!(resident().is_some_and(|bytes| bytes > 1 << 20));
        assert!(available().is_some_and(|bytes| bytes > 1 << 20));
        assert_eq!(kibibytes("VmRSS:\t  12 kB\n", "VmRSS:"), Some(12_288));
        assert_eq!(kibibytes("VmRSS:\t-\n", "VmRSS:"), None);
    }
}
