//! Measurements on a host's kernel, from `validation/host-tcp.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

/// The recorded numbers.
pub(super) static RECORDED: LazyLock<Recorded> = LazyLock::new(|| {
    let text = include_str!("../../../../../validation/host-tcp.toml");
    toml::from_str(text).expect("the recorded numbers are a part of this program and have its form")
});

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recorded {
    /// The kernel's release.
    pub(super) kernel: String,
    /// The delay of the emulated links, one way.
    pub(super) delay_ms: u64,
    /// How exact the emulation was.
    pub(super) accuracy: Accuracy,
    pub(super) greedy: Vec<Greedy>,
    pub(super) script: Vec<Script>,
}

/// How exact the emulation was.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Accuracy {
    /// A ping's time beyond the delay both ways: median, 99%, most.
    pub(super) rtt_error_us: [u64; 3],
    /// How late packets were delivered on average.
    pub(super) delivered_late_by_mean_us: u64,
}

/// Greedy flows through a bottleneck.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Greedy {
    pub(super) congestion: String,
    pub(super) flows: usize,
    pub(super) seconds: u64,
    pub(super) rate_mbit_s: u64,
    pub(super) queue_packets: usize,
    /// Of each repetition and flow.
    pub(super) goodput_mbit_s: Vec<Vec<f64>>,
    /// Of each repetition.
    pub(super) queue_dropped: Vec<f64>,
}

/// One connection that loses certain packets.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Script {
    pub(super) name: String,
    /// Whether the kernel might send tail loss probes.
    pub(super) probes: bool,
    /// When, in ms, and how many bytes.
    pub(super) writes: Vec<(u64, u64)>,
    /// The packets that were lost, counted from the SYN.
    pub(super) lost: Vec<u64>,
    /// Of each retransmission, how long after the first transmission it left: least, median and most.
    pub(super) resent_ms: Vec<[f64; 3]>,
}

impl Greedy {
    /// The name of the scenario.
    pub(super) fn name(&self) -> String {
        format!("{}-{}", self.congestion, self.flows)
    }

    /// All flows together, the mean over the repetitions.
    pub(super) fn total_mbit_s(&self) -> f64 {
        mean(self.goodput_mbit_s.iter().map(|flows| flows.iter().sum()))
    }

    /// Jain's index of fairness, the mean over the repetitions.
    pub(super) fn jain(&self) -> f64 {
        mean(self.goodput_mbit_s.iter().map(|flows| jain(flows)))
    }

    /// Packets that the queue dropped, the mean over the repetitions.
    pub(super) fn dropped(&self) -> f64 {
        mean(self.queue_dropped.iter().copied())
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

/// Jain's index of fairness: one if all get the same, one n-th if one of n gets all (Jain, Chiu and Hawe 1984).
pub(super) fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    let count: f64 = shares.iter().map(|_| 1.0).sum();
    sum * sum / (count * squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_shares_have_an_index_of_one_and_a_monopoly_one_of_its_share() {
        assert!((jain(&[2.0; 4]) - 1.0).abs() < 1e-12);
        assert!((jain(&[3.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
    }

    #[test]
    fn the_recorded_numbers_are_complete() {
        let recorded = &*RECORDED;
        assert!(recorded.greedy.iter().all(|greedy| greedy.goodput_mbit_s.len() == greedy.queue_dropped.len()));
        assert!(recorded.greedy.iter().flat_map(|greedy| &greedy.goodput_mbit_s).all(|flows| !flows.is_empty()));
        for script in &recorded.script {
            assert!(script.resent_ms.len() >= script.lost.len(), "{}: lost packets are retransmitted", script.name);
            assert!(script.resent_ms.iter().all(|span| span.is_sorted()), "{}", script.name);
        }
    }
}
