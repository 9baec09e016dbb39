//! `replay`: the traffic of a capture over a path with losses, for every sender alike.

use festina_models::tcp::TcpConfig;
use festina_models::workload::{self, Application, Workload};
use festina_netsim::{LinkConfig, LossModel, RandomStream};
use festina_recovery::Profile;
use festina_trace::Flow;
use festina_units::Duration;

use crate::capture::Capture;
use crate::count::as_f64;
use crate::experiment::{Description, Experiment};
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::scenario::{Captured, Stack, ThinStream};

const DELIVERY: &str = "delivery";
const MESSAGES: &str = "messages";
const DELIVERED: &str = "delivered";
const PACKETS_SENT: &str = "packets sent";

const TCP: &str = "tcp-new-reno";

/// A replay of the writes of a capture's applications.
#[derive(Clone, Copy, Debug)]
pub struct Replay;

impl Experiment for Replay {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/replay.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let mut samples = Samples::new();
        let [mut messages, mut delivered, mut packets] = [0u64; 3];
        for (stream, seed) in streams(point, seed) {
            let run = stream.run(seed);
            for message in &run.record.truth().messages {
                messages += 1;
                if let Some(delay) = message.delay() {
                    delivered += 1;
                    samples.tally(DELIVERY, delay);
                }
            }
            packets += run.packets_sent;
        }
        samples.set(MESSAGES, as_f64(messages));
        samples.set(DELIVERED, as_f64(delivered));
        samples.set(PACKETS_SENT, as_f64(packets));
        samples
    }

    fn capture(&self, point: &Point, seed: u64) -> Option<Capture> {
        streams(point, seed).next().map(|(stream, seed)| stream.capture(seed))
    }
}

/// A stream for each flow, and the seed of its path.
fn streams(point: &Point, seed: u64) -> impl Iterator<Item = (ThinStream, u64)> {
    let workloads: Vec<Workload> = match point.recording("capture") {
        Some(recording) => recording.flows().iter().take(flow_count(point)).map(replayed).collect(),
        None => vec![Workload::Application(Application::AnarchyOnline); flow_count(point)],
    };
    let link = LinkConfig {
        delay: point.duration("rtt") / 2,
        loss: LossModel::Independent(point.probability("loss")),
        ..LinkConfig::default()
    };
    let (stack, duration) = (stack(point), point.duration("duration"));
    workloads.into_iter().enumerate().map(move |(number, workload)| {
        let (forward, backward) = (link.clone(), link.clone());
        let stream = ThinStream { stack: stack.clone(), workload, duration, forward, backward };
        (stream, RandomStream::new(seed, &format!("flow {number}")).bits())
    })
}

fn flow_count(point: &Point) -> usize {
    usize::try_from(point.count("flows")).unwrap_or(usize::MAX)
}

fn replayed(flow: &Flow) -> Workload {
    let begin = flow.writes.first().map_or(Duration::ZERO, |write| write.at);
    let writes = flow.writes.iter().map(|write| (write.at.saturating_sub(begin), write.size));
    Workload::Replay(workload::Replay::new(writes).expect("a flow's writes are in order, and none is empty"))
}

fn stack(point: &Point) -> Stack {
    match point.choice("sender") {
        TCP => Stack::tcp(TcpConfig::new_reno()),
        name => {
            let profile: Profile = name.parse().expect("the other senders are profiles");
            Stack::sctp(profile.mechanisms(), point.duration("sack_delay"))
        }
    }
}
