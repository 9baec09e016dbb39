//! The same streams in the simulator.

use std::time::Duration;

use festina_lab::plan::Point;
use festina_lab::scenario::{Stack, ThinStream};
use festina_models::statistics::DelayStatistics;
use festina_models::tcp::TcpConfig;
use festina_models::workload::{Replay, Workload};
use festina_netsim::RandomStream;

use super::{LEAD, Streams, profile};

/// A hair above a whole number of the kernel's ticks, as in any real network: see the experiment `linux-thin`.
const RTT_MORE: Duration = Duration::from_micros(2);
/// How late an application writes at most, after its timer.
const WRITE_LATENESS_NS: u64 = 1_000_000;

/// The delays of all messages, but for the one with which each stream warms up.
pub(super) fn delays(point: &Point, streams: &Streams, seed: u64) -> DelayStatistics {
    let mut random = RandomStream::new(seed, "real/thin-latency");
    let size = point.bytes("size");
    let loss = point.probability("loss");
    let rtt = point.duration("rtt") + RTT_MORE;
    let duration = LEAD + point.duration("duration") + streams.interval;
    let mut delays = DelayStatistics::new();
    for stream in 0..streams.count {
        let mut writes = vec![(Duration::ZERO, size)];
        for message in 0..streams.messages_each {
            let late = Duration::from_nanos(random.below(WRITE_LATENESS_NS));
            let at = LEAD + streams.due_at(stream, message) + late;
            // An application that is late with one message is late with the next.
            writes.push((at.max(writes.last().map_or(Duration::ZERO, |(before, _)| *before)), size));
        }
        let replay = Replay::new(writes).expect("writes come in order, and none is empty");
        let mut simulated =
            ThinStream::periodic(stack(point), streams.interval, size, duration, rtt).with_loss(loss, loss);
        simulated.workload = Workload::Replay(replay);
        if let Some(run) = simulated.try_run(random.below(u64::MAX)) {
            let messages = run.record.truth().messages.iter().skip(1);
            messages.filter_map(|message| message.delay()).for_each(|delay| delays.record(delay));
        }
    }
    delays
}

fn stack(point: &Point) -> Stack {
    let mut tcp = TcpConfig::linux();
    match point.choice("sender") {
        "tcp" => {}
        "tcp-thin" => tcp.switches.thin_linear_timeouts = true,
        "tcp-thin-rto-min-50ms" => {
            tcp.switches.thin_linear_timeouts = true;
            tcp.rto.min = Duration::from_millis(50);
        }
        sender => return Stack::sctp(profile(sender).mechanisms(), point.duration("sack_delay")),
    }
    Stack::tcp(tcp)
}
