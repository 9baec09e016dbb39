//! Estimates the path of a capture's thin flows: round-trip time and loss.

use festina_netsim::{GilbertElliott, Jitter, JitterShape, LinkConfig, LossModel};
use festina_units::{Duration, Probability};

use super::flow::ThinFlow;
use crate::count::as_f64;

/// Less variation than this share of the round-trip time is none.
const JITTER_SHARE_MIN: f64 = 0.02;
/// No more than half of all packets are taken for lost.
pub(super) const LOSS_MAX: f64 = 0.5;

/// The path of one flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathEstimate {
    /// The usual round-trip time.
    pub rtt: Duration,
    /// Maximum deviation of each one-way delay from half the round trip.
    pub jitter: Duration,
    /// The share of the sender's packets that is lost: between the flow's own and that of all flows, the closer to its own the better
    /// its own is known.
    pub loss: f64,
}

/// The path of each flow.
pub(super) fn estimate(flows: &[ThinFlow]) -> Vec<PathEstimate> {
    let losses = shrunk(&flows.iter().map(losses_of).collect::<Vec<_>>());
    flows.iter().zip(losses).map(|(flow, loss)| PathEstimate { loss, ..round_trip(flow) }).collect()
}

fn losses_of(flow: &ThinFlow) -> (f64, f64) {
    let repair = &flow.report.repair;
    let copies = as_f64(repair.first_copies + repair.retransmissions());
    (repair.loss().unwrap_or(0.0) * copies, copies)
}

/// One-way delays that deviate uniformly by up to `r` add up to a round trip between `m - 2r` and `m + 2r`, a quarter of them below `m - 0.586 r`.
/// The longer half is ignored, because delayed acknowledgements prolong it.
fn round_trip(flow: &ThinFlow) -> PathEstimate {
    let rtt_ns = &flow.report.rtt_ns;
    let (least, quarter) = (as_f64(rtt_ns.min().unwrap_or(0)), as_f64(rtt_ns.percentile(25.0).unwrap_or(0)));
    let range = (quarter - least) / (2.0 - 0.586);
    let is_steady = range < JITTER_SHARE_MIN * quarter;
    let (rtt, jitter) = if is_steady { (quarter, 0.0) } else { (quarter + 0.586 * range, range) };
    let duration = |ns: f64| Duration::from_secs_f64(ns.max(0.0) / 1e9);
    PathEstimate { rtt: duration(rtt), jitter: duration(jitter), loss: 0.0 }
}

/// Moves each share towards that of all by as much as chance explains how they differ (the method of moments for a beta distribution of
/// shares).
fn shrunk(counts: &[(f64, f64)]) -> Vec<f64> {
    let total: f64 = counts.iter().map(|(_, of)| of).sum();
    let mean = counts.iter().map(|(lost, _)| lost).sum::<f64>() / total.max(1.0);
    let share = |&(lost, of): &(f64, f64)| lost / of.max(1.0);
    let spread: f64 = counts.iter().map(|count| count.1 * (share(count) - mean).powi(2)).sum();
    let by_chance = (as_f64(counts.len()) - 1.0) * mean * (1.0 - mean);
    let weight = total - counts.iter().map(|(_, of)| of * of).sum::<f64>() / total.max(1.0);
    let variance = if weight > 0.0 { ((spread - by_chance) / weight).max(0.0) } else { 0.0 };
    let of_its_own = |of: f64| {
        let sampling = mean * (1.0 - mean) / of.max(1.0);
        if variance > 0.0 { variance / (variance + sampling) } else { 0.0 }
    };
    counts.iter().map(|count| mean + of_its_own(count.1) * (share(count) - mean)).collect()
}

impl PathEstimate {
    /// One way of the path, on which this share of the packets is lost.
    pub(super) fn link(&self, loss: f64, burst: Option<Duration>) -> LinkConfig {
        let loss = probability(loss);
        let in_bursts = burst.and_then(|burst| GilbertElliott::bursts(loss, burst)).map(LossModel::GilbertElliott);
        let shape = match self.jitter {
            Duration::ZERO => JitterShape::None,
            range => JitterShape::Uniform { range },
        };
        LinkConfig {
            delay: self.rtt / 2,
            jitter: Jitter { shape, keeps_order: true },
            loss: in_bursts.unwrap_or(LossModel::Independent(loss)),
            ..LinkConfig::default()
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 0.5 billion")]
fn probability(share: f64) -> Probability {
    Probability::from_ppb((share.clamp(0.0, LOSS_MAX) * 1e9) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_that_chance_explains_are_all_the_same_and_others_stay_apart() {
        let alike = shrunk(&[(5.0, 100.0), (6.0, 100.0), (4.0, 100.0)]);
        assert!(alike.iter().all(|share| (share - 0.05).abs() < 1e-9), "{alike:?}");
        let apart = shrunk(&[(0.0, 1_000.0), (200.0, 1_000.0)]);
        assert!(apart[0] < 0.01 && apart[1] > 0.19, "{apart:?}");
        assert!(shrunk(&[(3.0, 100.0)]).iter().all(|share| (share - 0.03).abs() < 1e-9));
        assert!(shrunk(&[]).is_empty());
    }
}
