//! Estimates of the memory that a run takes, so that a plan that takes more than the machine has is noticed before it starts.

use festina_units::{ByteCount, duration};

use crate::count::as_f64;
use crate::experiment::Experiment;
use crate::plan::{Plan, Point, Value};

/// A plan with a point that is estimated to take more is refused.
pub const MEMORY_MAX: ByteCount = ByteCount::from_bytes(64 << 30);
/// Memory of a message that fits into a packet, in the logs of both hosts and the report. Measured: 315 bytes over SCTP, 420 over TCP, 45 over UDP.
pub const RECORD_BYTES: u64 = 512;

/// Parameters that state how many messages or packets are kept.
const COUNTS: [&str; 3] = ["messages", "packets", "trials"];
/// Parameters that state how far apart messages are.
const INTERVALS: [&str; 2] = ["interval", "iat"];
/// Parameters that state how many streams write at the same time.
const STREAMS: [&str; 2] = ["players", "streams"];

/// The estimate for an experiment whose parameters have the usual names: a record for each of the `messages`, or for one message each `interval` of
/// the `duration`, on each of the `streams`.
pub(crate) fn of_parameters(point: &Point) -> ByteCount {
    let time = |name: &str| match point.value(name) {
        Some(Value::Duration(time)) => Some(duration::saturating_nanos(time)),
        _ => None,
    };
    let count = |name: &&str| match point.value(name) {
        Some(Value::Count(count)) => Some(count),
        _ => None,
    };
    let counted = COUNTS.iter().find_map(count);
    let interval = || INTERVALS.iter().find_map(|name| time(name));
    let messages = counted.or_else(|| Some(time("duration")? / interval()?.max(1))).unwrap_or(0);
    let streams = STREAMS.iter().find_map(count).unwrap_or(1);
    ByteCount::from_bytes(messages.saturating_mul(streams).saturating_mul(RECORD_BYTES))
}

/// Writes an estimate with two digits, such as `4.3 GB`.
pub fn display(memory: ByteCount) -> String {
    let gigabytes = as_f64(memory.bytes()) / 1e9;
    if gigabytes < 10.0 { format!("{gigabytes:.1} GB") } else { format!("{gigabytes:.0} GB") }
}

/// The point of a plan whose run takes most memory, and the estimate.
pub fn largest(experiment: &dyn Experiment, plan: &Plan) -> Option<(Point, ByteCount)> {
    let estimated = plan.points().into_iter().map(|point| {
        let memory = experiment.memory(&point);
        (point, memory)
    });
    estimated.max_by_key(|(_, memory)| *memory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments;
    use crate::plan::{PlanFile, Scale};

    /// An estimate that is too high would warn of the laboratory's own plans, which run on small machines.
    #[test]
    fn no_plan_of_an_experiment_is_estimated_to_take_a_gibibyte() {
        for experiment in experiments::ALL {
            let (point, memory) = largest(*experiment, &Plan::own(*experiment, Scale::Full)).expect("it has points");
            assert!(memory.bytes() < 1 << 30, "{}: {memory} at {}", experiment.name(), point.line());
        }
    }

    #[test]
    fn a_day_of_messages_each_millisecond_is_a_record_for_each_of_them() {
        let experiment = experiments::ALL.iter().find(|one| one.name() == "p10-fig8a").expect("it is there");
        let text = "experiment = \"p10-fig8a\"\n[parameters]\nduration = \"86400s\"\ninterval = [\"1ms\", \"1s\"]\n";
        let plan =
            PlanFile::parse("p.toml", text).and_then(|file| file.plan(*experiment, Scale::Full)).expect("it is sound");
        let (point, memory) = largest(*experiment, &plan).expect("it has points");
        assert_eq!(memory.bytes(), 86_400_000 * RECORD_BYTES);
        assert!(point.line().contains("interval=1ms"), "{}", point.line());
    }
}
