//! Measurements over a real kernel, from `validation/linux-thin.toml`.

use std::sync::LazyLock;

use festina_units::Duration;
use serde::Deserialize;

/// The recorded numbers.
pub(super) static RECORDED: LazyLock<Recorded> = LazyLock::new(|| {
    let text = include_str!("../../../../../validation/linux-thin.toml");
    toml::from_str(text).expect("the recorded numbers are a part of this program and have its form")
});

/// The whole file.
#[derive(Debug, Deserialize)]
pub(super) struct Recorded {
    /// Which quantiles were taken.
    quantiles: Vec<f64>,
    /// Which delays the shares of late messages are for.
    later_than_ms: Vec<u64>,
    run: Vec<Run>,
}

/// One stack at one kind of loss.
#[derive(Debug, Deserialize)]
pub(super) struct Run {
    stack: String,
    loss: String,
    /// Messages whose delay was measured.
    pub(super) messages: u64,
    pub(super) mean_ms: f64,
    quantiles_ms: Vec<f64>,
    later_percent: Vec<f64>,
    pub(super) counters: Counters,
}

/// What the sender itself counted.
#[derive(Debug, Deserialize)]
pub(super) struct Counters {
    pub(super) data_segments: u64,
    pub(super) fast: u64,
    pub(super) timeouts: u64,
    /// TCP only.
    pub(super) probes: Option<u64>,
}

impl Recorded {
    /// The run of `stack` at `loss`, if there was one.
    pub(super) fn run(&self, stack: &str, loss: &str) -> Option<&Run> {
        self.run.iter().find(|run| run.stack == stack && run.loss == loss)
    }

    /// The quantile `quantile` of `run`, in ms.
    pub(super) fn quantile_ms(&self, run: &Run, quantile: f64) -> Option<f64> {
        let taken = self.quantiles.iter().position(|&taken| taken == quantile)?;
        run.quantiles_ms.get(taken).copied()
    }

    /// Each delay, in ms, with the share of messages of `run` that took longer, from 0 to 1.
    pub(super) fn shares_later(&self, run: &Run) -> impl Iterator<Item = (f64, f64)> {
        let delays_ms = self.later_than_ms.iter().map(|&ms| Duration::from_millis(ms).as_secs_f64() * 1e3);
        delays_ms.zip(run.later_percent.iter().map(|percent| percent / 100.0))
    }

    /// The share of messages of `run` that took longer than `than_ms`, from 0 to 1.
    pub(super) fn share_later(&self, run: &Run, than_ms: u64) -> Option<f64> {
        let taken = self.later_than_ms.iter().position(|&taken| taken == than_ms)?;
        run.later_percent.get(taken).map(|percent| percent / 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorded_numbers_are_whole_and_fall_from_one_delay_to_the_next() {
        for run in &RECORDED.run {
            assert_eq!(run.quantiles_ms.len(), RECORDED.quantiles.len(), "{} {}", run.stack, run.loss);
            assert_eq!(run.later_percent.len(), RECORDED.later_than_ms.len(), "{} {}", run.stack, run.loss);
            assert!(run.quantiles_ms.is_sorted() && run.later_percent.iter().rev().is_sorted());
            assert!(run.messages > 100_000 && run.counters.data_segments > run.messages / 2);
            assert!(RECORDED.run(&run.stack, &run.loss).is_some_and(|found| found.mean_ms == run.mean_ms));
        }
        assert!(RECORDED.run("tcp", "2%").is_none());
    }
}
