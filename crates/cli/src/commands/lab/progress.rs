//! The progress of a run: a bar on a terminal, elsewhere a line at times, and the state of an interrupted one.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use festina_lab::runner::{self, Progress};
use festina_units::Instant;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::task::JoinHandle;

use crate::{output, signal};

/// Time between two lines without a terminal.
const INTERVAL: Duration = Duration::from_secs(10);

/// Time to give up claims.
const LEAVE_MAX: Duration = Duration::from_secs(1);

/// Shows the progress of a run until it is dropped.
pub(super) struct Shown {
    bar: ProgressBar,
    lines: Option<Mutex<Lines>>,
    latest: Arc<Mutex<Option<Progress>>>,
    has_told_of_others: AtomicBool,
    interruption: JoinHandle<()>,
}

impl Shown {
    /// Begins to show the progress of an experiment whose finished runs go to `store`. The caller is inside a runtime.
    pub(super) fn new(experiment: &'static str, store: PathBuf) -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:40}] {pos}/{len} runs, {elapsed}, {eta} left") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(experiment);
        let latest: Arc<Mutex<Option<Progress>>> = Arc::default();
        let interruption = tokio::spawn({
            let (bar, latest, interruption) = (bar.clone(), Arc::clone(&latest), signal::interruption());
            async move {
                interruption.await;
                bar.finish_and_clear();
                let runs = match *latest.lock().unwrap_or_else(PoisonError::into_inner) {
                    Some(Progress { done, total, .. }) => format!("{done} of {total} runs are"),
                    None => "no run is".to_owned(),
                };
                let store = store.display();
                // A file server that does not answer must not keep the process.
                let _ = tokio::time::timeout(LEAVE_MAX, tokio::task::spawn_blocking(runner::leave)).await;
                let state =
                    format!("interrupted: {runs} finished and kept in {store}; the same command continues after them");
                output::notice(&state);
                output::all_noticed().await;
                // Neither must a reader that takes nothing.
                let printed = tokio::task::spawn_blocking(move || output::print_failure(&state));
                let _ = tokio::time::timeout(LEAVE_MAX, printed).await;
                process::exit(signal::exit_code());
            }
        });
        let lines = (!io::stderr().is_terminal()).then(|| Mutex::new(Lines::new(experiment, festina::now())));
        Self { bar, lines, latest, has_told_of_others: AtomicBool::new(false), interruption }
    }

    /// Shows that another run is finished.
    pub(super) fn set(&self, progress: Progress) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress);
        self.bar.set_length(progress.total.try_into().unwrap_or(u64::MAX));
        self.bar.set_position(progress.done.try_into().unwrap_or(u64::MAX));
        if progress.awaited > 0 && !self.has_told_of_others.swap(true, Ordering::Relaxed) {
            output::notice(&format!(
                "waiting for other processes, which compute the last runs ({}); one that is silent for a minute loses its own",
                progress.awaited
            ));
        }
        let lines = self.lines.as_ref().map(|lines| lines.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(line) = lines.and_then(|mut lines| lines.line(progress, festina::now())) {
            output::notice(&line);
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.interruption.abort();
        self.bar.finish_and_clear();
    }
}

/// Lines at intervals.
struct Lines {
    experiment: &'static str,
    begun: Instant,
    latest: Instant,
}

impl Lines {
    fn new(experiment: &'static str, now: Instant) -> Self {
        Self { experiment, begun: now, latest: now }
    }

    /// Returns the line that is due, if one is.
    fn line(&mut self, Progress { done, total, .. }: Progress, now: Instant) -> Option<String> {
        if now.saturating_duration_since(self.latest) < INTERVAL {
            return None;
        }
        self.latest = now;
        let seconds = now.saturating_duration_since(self.begun).as_secs();
        Some(format!("{}: {done} of {total} runs after {seconds} s", self.experiment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_every_ten_seconds() {
        let begun = Instant::from_secs(1);
        let mut lines = Lines::new("md1", begun);
        let due = (1..=40).zip(1..).filter_map(|(done, second)| {
            lines.line(Progress { done, total: 40, awaited: 0 }, begun + Duration::from_secs(second))
        });
        let due: Vec<String> = due.collect();
        assert_eq!(due.len(), 4, "{due:?}");
        assert_eq!(due.first().map(String::as_str), Some("md1: 10 of 40 runs after 10 s"));
    }
}
