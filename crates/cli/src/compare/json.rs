//! The outcomes as JSON, for programs.

use std::time::Duration;

use festina_models::statistics::DelayStatistics;
use serde::Serialize;

use super::outcome::Outcome;
use super::scenario::Scenario;
use super::simulated::Simulated;
use super::totals::{Cost, SentTotals};
use crate::link;

/// The scenario and the outcomes as one JSON document without a line feed at its end.
pub(crate) fn document(scenario: &Scenario, outcomes: &[Outcome], complete: bool) -> serde_json::Result<String> {
    serde_json::to_string_pretty(&Document {
        complete,
        scenario: ScenarioJson::of(scenario),
        results: outcomes.iter().map(ResultJson::of).collect(),
    })
}

#[derive(Serialize)]
struct Document {
    /// False if the user ended the comparison early.
    complete: bool,
    scenario: ScenarioJson,
    results: Vec<ResultJson>,
}

/// The parameters of the run; absent limits are null.
#[derive(Serialize)]
struct ScenarioJson {
    profiles: Vec<&'static str>,
    congestion: Option<&'static str>,
    associations: u32,
    message_bytes: u32,
    interval_ms: f64,
    duration_ms: f64,
    drain_ms: f64,
    rtt_ms: f64,
    loss_each_way: f64,
    burst_ms: Option<f64>,
    jitter_ms: f64,
    rate_bits_per_second: Option<u64>,
    queue: Option<String>,
    sack_delay_ms: f64,
    seed: u64,
}

impl ScenarioJson {
    fn of(scenario: &Scenario) -> Self {
        Self {
            profiles: scenario.profiles.iter().map(|profile| profile.name()).collect(),
            congestion: scenario.congestion.map(|congestion| congestion.name()),
            associations: scenario.associations,
            message_bytes: scenario.size,
            interval_ms: milliseconds(scenario.interval),
            duration_ms: milliseconds(scenario.duration),
            drain_ms: milliseconds(scenario.drain),
            rtt_ms: milliseconds(scenario.rtt),
            loss_each_way: scenario.loss.as_fraction(),
            burst_ms: scenario.burst.map(milliseconds),
            jitter_ms: milliseconds(scenario.jitter),
            rate_bits_per_second: scenario.rate.map(|rate| rate.bits_per_second()),
            queue: scenario.rate.map(|_| link::queue_text(scenario.queue)),
            sack_delay_ms: milliseconds(scenario.sack_delay),
            seed: scenario.seed,
        }
    }
}

#[derive(Serialize)]
struct ResultJson {
    profile: &'static str,
    messages_sent: u64,
    messages_delivered: u64,
    delivery_ms: DeliveryJson,
    packets_sent: u64,
    bytes_sent: u64,
    cost: CostJson,
    retransmissions: RetransmissionsJson,
    spurious_retransmissions: u64,
    /// How late the timers of the senders fired: the error of the machine. Null if nothing was sent.
    timers_late_ms_p99: Option<f64>,
    simulated: Option<SimulatedJson>,
}

/// The same in the simulator: delays of the messages of all runs, counts per run. Null if the scenario is too large.
#[derive(Serialize)]
struct SimulatedJson {
    runs: u32,
    messages_delivered: u64,
    delivery_ms: DeliveryJson,
    /// Of single runs, the least and the largest.
    p99_range_ms: Option<[f64; 2]>,
    p99_9_range_ms: Option<[f64; 2]>,
    packets_sent: u64,
    bytes_sent: u64,
    cost: CostJson,
    retransmissions: RetransmissionsJson,
    spurious_retransmissions: u64,
}

/// What both ends sent while messages were measured, all bytes with the headers of SCTP, UDP and IPv4; per message null if there is
/// none.
#[derive(Serialize)]
struct CostJson {
    packets_there: u64,
    packets_back: u64,
    bytes_there: u64,
    bytes_back: u64,
    packets_per_message: Option<f64>,
    bytes_per_message: Option<f64>,
}

/// Null if nothing arrived.
#[derive(Serialize)]
struct DeliveryJson {
    mean: Option<f64>,
    p50: Option<f64>,
    p90: Option<f64>,
    p99: Option<f64>,
    p99_9: Option<f64>,
    max: Option<f64>,
}

#[derive(Serialize)]
struct RetransmissionsJson {
    timeout: u64,
    fast: u64,
    bundled: u64,
    probe: u64,
    copy: u64,
}

impl DeliveryJson {
    fn of(delays: &DelayStatistics) -> Self {
        let percentile = |share| delays.quantile(share).map(milliseconds);
        Self {
            mean: delays.mean().map(milliseconds),
            p50: percentile(0.5),
            p90: percentile(0.9),
            p99: percentile(0.99),
            p99_9: percentile(0.999),
            max: delays.max().map(milliseconds),
        }
    }
}

impl RetransmissionsJson {
    fn of(sent: &SentTotals) -> Self {
        Self { timeout: sent.timeout, fast: sent.fast, bundled: sent.bundled, probe: sent.probe, copy: sent.copy }
    }
}

impl CostJson {
    fn of(cost: &Cost, messages: u64) -> Self {
        let Cost { packets_there, packets_back, bytes_there, bytes_back } = *cost;
        let each = cost.per_message(messages);
        Self {
            packets_there,
            packets_back,
            bytes_there,
            bytes_back,
            packets_per_message: each.map(|[there, back, _]| there + back),
            bytes_per_message: each.map(|[_, _, bytes]| bytes),
        }
    }
}

impl ResultJson {
    fn of(outcome: &Outcome) -> Self {
        Self {
            profile: outcome.profile.name(),
            messages_sent: outcome.messages_sent,
            messages_delivered: outcome.messages_delivered(),
            delivery_ms: DeliveryJson::of(&outcome.delays),
            packets_sent: outcome.sent.packets,
            bytes_sent: outcome.sent.bytes,
            cost: CostJson::of(&outcome.cost, outcome.messages_sent),
            retransmissions: RetransmissionsJson::of(&outcome.sent),
            spurious_retransmissions: outcome.sent.spurious,
            timers_late_ms_p99: outcome.timers.quantile(0.99).map(milliseconds),
            simulated: outcome.simulated.as_ref().map(SimulatedJson::of),
        }
    }
}

impl SimulatedJson {
    fn of(simulated: &Simulated) -> Self {
        let sent = simulated.sent_per_run();
        let range = |range: Option<(Duration, Duration)>| range.map(|(low, high)| [low, high].map(milliseconds));
        Self {
            runs: simulated.runs,
            messages_delivered: simulated.messages_per_run(),
            delivery_ms: DeliveryJson::of(&simulated.delays),
            p99_range_ms: range(simulated.p99),
            p99_9_range_ms: range(simulated.p999),
            packets_sent: sent.packets,
            bytes_sent: sent.bytes,
            cost: CostJson::of(&simulated.cost_per_run(), simulated.messages_per_run()),
            retransmissions: RetransmissionsJson::of(&sent),
            spurious_retransmissions: sent.spurious,
        }
    }
}

/// Milliseconds, to the microsecond.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use festina_sctp::Profile;
    use serde_json::Value;

    use super::*;
    use crate::compare::outcome::example;
    use crate::compare::scenario::tests::default_scenario;
    use crate::compare::simulated::tests::simulated_example;

    #[test]
    fn the_document_has_the_agreed_shape() {
        let text = document(&default_scenario(), &[example(Profile::Festina)], true).expect("serializable");
        let json: Value = serde_json::from_str(&text).expect("JSON");
        let result = &json["results"][0];
        assert_eq!((&json["complete"], &result["timers_late_ms_p99"]), (&true.into(), &Value::Null));
        assert_eq!(result["profile"], "festina");
        assert_eq!((&result["messages_sent"], &result["messages_delivered"]), (&1_001.into(), &1_000.into()));
        assert_eq!(result["delivery_ms"]["max"], 1_000.0);
        assert_eq!(result["delivery_ms"]["mean"], 500.5);
        assert_eq!(result["retransmissions"]["probe"], 10);
        assert_eq!(result["spurious_retransmissions"], 5);
        let cost = &result["cost"];
        assert_eq!((&cost["packets_there"], &cost["packets_back"]), (&1_101.into(), &901.into()));
        assert_eq!((&cost["bytes_there"], &cost["bytes_back"]), (&171_717.into(), &50_050.into()));
        assert_eq!(
            (&cost["packets_per_message"], &cost["bytes_per_message"]),
            (&2.0.into(), &(221_767.0 / 1_001.0).into())
        );
        assert_eq!(json["scenario"]["associations"], 64);
        assert_eq!(json["scenario"]["burst_ms"], Value::Null);
        assert_eq!(result["simulated"], Value::Null);
        let outcome = Outcome { simulated: simulated_example(&[10, 30]), ..example(Profile::Festina) };
        let text = document(&default_scenario(), &[outcome], false).expect("serializable");
        let json: Value = serde_json::from_str(&text).expect("JSON");
        let simulated = &json["results"][0]["simulated"];
        assert_eq!(json["complete"], false);
        assert_eq!((&simulated["runs"], &simulated["packets_sent"]), (&2.into(), &20.into()));
        assert_eq!(simulated["delivery_ms"]["mean"], 20.0);
        assert_eq!(
            (&simulated["cost"]["packets_there"], &simulated["cost"]["bytes_per_message"]),
            (&20.into(), &4_000.0.into())
        );
    }
}
