//! One lost message, packet by packet.

use std::collections::BTreeMap;

use festina_models::packet::Packet;
use festina_models::record::Truth;
use festina_models::thin_stream::StreamRun;
use festina_netsim::{Admission, LinkId, LossModel, NodeId, Tap};
use festina_units::{Duration, Instant};

use super::NOTHING;
use super::job::{Job, ms};

/// Why a message is sent again, by number.
pub(crate) const CAUSES: [&str; 5] = ["timeout", "fast", "bundled", "probe", "copy"];
/// Which message is lost: by then the round-trip time is well known.
const LOST: u32 = 60;
/// Messages before it that are shown.
const LEAD: u32 = 2;
/// How long messages are written afterwards: longer than any sender needs.
const AFTERMATH: Duration = Duration::from_secs(10);
/// How long the path loses everything that leaves.
const INSTANT: Duration = Duration::from_micros(100);
const SEED: u64 = 1;

/// As [`super::sequence`] describes.
pub(crate) fn sequence(job: &Job) -> Option<Vec<f64>> {
    let after = AFTERMATH.as_millis().div_ceil(u128::from(job.interval_ms.max(1)));
    let mut stream = job.lossless(LOST + u32::try_from(after).ok()?)?;
    // Up to the loss the run is the same as without it.
    let run = stream.try_run(SEED)?;
    let lost_at = run.record.truth().messages.iter().find(|message| message.sequence == LOST)?.left_at?;
    stream.forward.loss = LossModel::Outages([lost_at..lost_at + INSTANT].into());
    let (StreamRun { record, .. }, seen) = stream.run_with(SEED, |_| Seen::default())?;
    let truth = record.truth();
    let lost = truth.messages.iter().find(|message| message.sequence == LOST)?;
    let zero = lost.sent_at;
    let [writer, _] = stream.ends();
    let until = lost.delivered_at? + 2 * stream.forward.delay;
    let since = |at: Instant| ms(at.saturating_duration_since(zero)) - ms(zero.saturating_duration_since(at));
    let mut values = vec![ms(lost.delay()?)];
    let from = zero - LEAD * job.interval();
    for packet in seen.packets.values().filter(|packet| (from..=until).contains(&packet.at)) {
        let is_data = packet.from == writer;
        let cause = is_data.then(|| cause_at(truth, packet.at)).flatten();
        values.extend([
            if is_data { 0.0 } else { 1.0 },
            since(packet.at),
            packet.arrived_at.map_or(NOTHING, since),
            cause.unwrap_or(NOTHING),
        ]);
    }
    Some(values)
}

/// The number of the cause for which a message was sent again at this time.
fn cause_at(truth: &Truth, at: Instant) -> Option<f64> {
    use festina_sctp::RetransmissionCause::{Bundled, Copy, Fast, Probe, ReportedBundled, Timeout};
    let resent = truth.retransmissions.iter().find(|resent| resent.at == at)?;
    match resent.cause {
        Timeout => Some(0.0),
        Fast => Some(1.0),
        ReportedBundled | Bundled => Some(2.0),
        Probe => Some(3.0),
        Copy => Some(4.0),
        _ => None,
    }
}

/// All packets of both directions.
#[derive(Default)]
struct Seen {
    /// By the order in which they were sent; a sender numbers the packets of each flow.
    packets: BTreeMap<usize, SeenPacket>,
    numbers: BTreeMap<(NodeId, u64, u64), usize>,
}

struct SeenPacket {
    from: NodeId,
    at: Instant,
    arrived_at: Option<Instant>,
}

impl Tap<Packet> for Seen {
    fn watches(&self, _link: LinkId) -> bool {
        true
    }

    fn offered(&mut self, now: Instant, _link: LinkId, packet: &Packet, _admission: Admission) {
        let number = self.packets.len();
        self.numbers.insert((packet.source, packet.flow, packet.serial), number);
        self.packets.insert(number, SeenPacket { from: packet.source, at: now, arrived_at: None });
    }

    fn delivered(&mut self, now: Instant, _link: LinkId, packet: &Packet) {
        let number = self.numbers.get(&(packet.source, packet.flow, packet.serial));
        if let Some(seen) = number.and_then(|number| self.packets.get_mut(number)) {
            seen.arrived_at.get_or_insert(now);
        }
    }
}
