//! A line that shows what an emulated network does now, while standard error is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::report::Way;

/// The line.
pub(super) struct Live {
    line: ProgressBar,
    before: Option<[Way; 2]>,
}

impl Live {
    /// Shows nothing yet, and never anything if it is not to be shown or if there is no terminal.
    pub(super) fn new(is_shown: bool) -> Self {
        let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let line = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            line.set_style(style);
        }
        Self { line, before: None }
    }

    /// Shows the present state, `since` after the previous one.
    pub(super) fn show(&mut self, now: [Way; 2], since: Duration) {
        if let Some(before) = &self.before {
            self.line.set_message(line(before, &now, since));
        }
        self.before = Some(now);
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.line.finish_and_clear();
    }
}

/// What happened in a time, in less than 80 columns.
fn line(before: &[Way; 2], now: &[Way; 2], since: Duration) -> String {
    let names = ["there", "back"];
    let ways = before.iter().zip(now).zip(names).map(|((before, now), name)| {
        let bytes = now.link.delivered_bytes.bytes().saturating_sub(before.link.delivered_bytes.bytes());
        let rate = bytes as f64 * 8.0 / 1e6 / since.as_secs_f64();
        let missing = now.link.lost + now.link.queue_dropped;
        format!("{name} {rate:.2} Mbit/s, {} wait, {missing} lost", now.passage.queue_packets)
    });
    ways.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use festina_units::ByteCount;

    use super::*;

    #[test]
    fn the_line_tells_the_rate_since_the_one_before() {
        let before = [Way::default(), Way::default()];
        let mut now = before;
        now[0].link.delivered_bytes = ByteCount::from_bytes(625_000);
        (now[0].link.lost, now[0].link.queue_dropped) = (3, 4);
        now[0].passage.queue_packets = 12;
        assert_eq!(
            line(&before, &now, Duration::from_millis(500)),
            "there 10.00 Mbit/s, 12 wait, 7 lost; back 0.00 Mbit/s, 0 wait, 0 lost"
        );
    }
}
