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

    /// Begins a stage of this many messages, or of unknown length.
    pub(super) fn stage(&self, name: &'static str, messages: Option<u64>) {
        let template = match messages {
            Some(_) => "{spinner} {msg} [{bar:40}] {pos}/{len} messages, {elapsed}",
            None => "{spinner} {msg}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style.progress_chars("=> "));
        }
        self.bar.set_length(messages.unwrap_or(0));
        self.bar.set_message(name);
    }

    /// Reports the number of messages that have arrived.
    pub(super) fn reached(&self, messages: u64) {
        self.bar.set_position(messages);
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
