//! Progress on standard error, if that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const TICK: Duration = Duration::from_millis(100);

/// Shows how far the comparison is.
pub(super) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(super) fn new() -> Self {
        // The target prints nothing unless it is a terminal.
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        bar.enable_steady_tick(TICK);
        Self { bar }
    }

    /// Begins a stage of unknown length, or of this many messages or runs.
    pub(super) fn stage(&self, name: &'static str, length: Option<(u64, &str)>) {
        let template = match length {
            Some((_, unit)) => format!("{{spinner}} {{msg}} [{{bar:20}}] {{pos}}/{{len}} {unit}{{prefix}}"),
            None => "{spinner} {msg}".to_owned(),
        };
        self.bar.set_message(name);
        self.bar.set_prefix("");
        self.bar.set_position(0);
        self.bar.set_length(length.map_or(0, |(length, _)| length));
        if let Ok(style) = ProgressStyle::with_template(&template) {
            self.bar.set_style(style.progress_chars("=> "));
        }
    }

    /// Reports the messages that have arrived, or the runs that are done.
    pub(super) fn reached(&self, position: u64) {
        self.bar.set_position(position);
    }

    /// Reports how long the stage may still take.
    pub(super) fn left(&self, time: Duration) {
        self.bar.set_prefix(format!(", at most {} s left", time.as_secs() + 1));
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
