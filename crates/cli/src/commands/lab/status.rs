//! `festina lab status`: how far a submitted plan is.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use festina_lab::runner::{self, Status, WorkerStatus};

use super::sweep;
use crate::output;

/// Further workers are only counted.
const WORKERS_MAX: usize = 20;

/// Arguments of `festina lab status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The folder that `festina lab submit` printed
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Prints the number of finished runs, and who works on the others.
pub(super) fn run(arguments: &StatusArgs) -> Result<()> {
    let job = sweep::open(&arguments.folder, None)?;
    let store = &job.options.store;
    let status = Status::of(job.experiment, &job.plan, store, runner::CODE_VERSION)
        .with_context(|| format!("cannot read {}", output::name(store)))?;
    output::print(&text(&status))
}

fn text(status: &Status) -> String {
    let Status { finished, claimed, total, workers } = status;
    let free = total.saturating_sub(finished + claimed);
    let mut lines = vec![format!("runs: {finished} of {total} finished, {claimed} under way, {free} free")];
    lines.extend(workers.iter().take(WORKERS_MAX).map(line));
    if let Some(others) = workers.len().checked_sub(WORKERS_MAX).filter(|others| *others > 0) {
        lines.push(format!("and {others} other workers"));
    }
    lines.join("\n")
}

fn line(worker: &WorkerStatus) -> String {
    let WorkerStatus { host, process, done, silent } = worker;
    let sign = match silent {
        Some(silent) => format!("sign of life {} s ago", silent.as_secs()),
        None => "sign of life unknown: the folder cannot be written".to_owned(),
    };
    format!("worker {process} on {host}: {done} finished, {sign}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn many_workers_are_counted_and_not_listed() {
        let worker = |process| WorkerStatus {
            host: "node1".to_owned(),
            process,
            done: 3,
            silent: (process > 0).then(|| Duration::from_millis(4_900)),
        };
        let status = Status { finished: 5, claimed: 2, total: 10, workers: (0..23).map(worker).collect() };
        let text = text(&status);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 22);
        assert_eq!(lines[0], "runs: 5 of 10 finished, 2 under way, 3 free");
        assert_eq!(lines[1], "worker 0 on node1: 3 finished, sign of life unknown: the folder cannot be written");
        assert_eq!(lines[2], "worker 1 on node1: 3 finished, sign of life 4 s ago");
        assert_eq!(lines[21], "and 3 other workers");
    }
}
