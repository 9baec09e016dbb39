//! What became of the messages and chunks of a stream, counted: for experiments that compare senders.

use festina_models::packet::UDP_HEADER_BYTES;
use festina_models::record::{MessageRecord, Necessity, RetransmissionRecord};
use festina_sctp::RetransmissionCause;
use festina_units::Duration;
use serde_json::{Value, json};

use super::StreamRun;
use crate::count::as_f64;
use crate::figure::Happening;
use crate::samples::Samples;
use crate::summary::PointSummary;

/// The series of delivery delays: from the application's write to the receiving application.
pub(crate) const DELIVERY: &str = "delivery";
/// Number of messages written.
pub(crate) const MESSAGES: &str = "messages";
/// Number of messages that arrived.
pub(crate) const DELIVERED: &str = "delivered";
/// Number of packets sent by the sender.
pub(crate) const PACKETS_SENT: &str = "packets sent";
/// Number of spurious retransmissions: those triggered by a timer, a probe or a report of loss. Excludes copies of chunks in packets sent for another
/// reason, and those that a profile sends on purpose.
pub(crate) const SPURIOUS: &str = "spurious";
/// Number of these that the sender could not know to be spurious, because the acknowledgements had been lost.
pub(crate) const SPURIOUS_UNAVOIDABLE: &str = "spurious unavoidable";

/// Number of proactive copies of chunks: bundled with others in a packet, or in packets of their own.
pub(crate) const COPIES: &str = "copies";
/// Bytes of the packets that the sender sent, IP headers included.
pub(crate) const BYTES_SENT: &str = "bytes sent";
/// Number of packets sent by the receiver.
pub(crate) const PACKETS_RETURNED: &str = "packets returned";
pub(crate) const BYTES_RETURNED: &str = "bytes returned";
/// What both ends sent for one message, handshake and heartbeats included; bytes with UDP headers too.
pub(crate) const PACKETS_EACH: &str = "packets per message";
pub(crate) const BYTES_EACH: &str = "bytes per message";

/// All of these of one run.
pub(crate) fn samples(run: &StreamRun) -> Samples {
    let truth = run.record.truth();
    let mut samples = Samples::new();
    for delay in truth.messages.iter().filter_map(|message| message.delay()) {
        samples.tally(DELIVERY, delay);
    }
    let delivered = truth.messages.iter().filter(|message| message.delivered_at.is_some()).count();
    let is_copy = |cause: RetransmissionCause| cause.is_bundled() || cause == RetransmissionCause::Copy;
    let copies = truth.retransmissions.iter().filter(|resent| is_copy(resent.cause)).count();
    let spurious = truth.retransmissions.iter().filter(|resent| resent.is_spurious() && !is_copy(resent.cause));
    let unavoidable = spurious.clone().filter(|resent| resent.necessity == Necessity::AcknowledgementLost);
    samples.set(MESSAGES, as_f64(truth.messages.len()));
    samples.set(DELIVERED, as_f64(delivered));
    samples.set(SPURIOUS, as_f64(spurious.count()));
    samples.set(SPURIOUS_UNAVOIDABLE, as_f64(unavoidable.count()));
    samples.set(COPIES, as_f64(copies));
    samples.set(PACKETS_SENT, as_f64(run.packets_sent));
    samples.set(BYTES_SENT, as_f64(run.bytes_sent));
    samples.set(PACKETS_RETURNED, as_f64(run.packets_returned));
    samples.set(BYTES_RETURNED, as_f64(run.bytes_returned));
    let packets = run.packets_sent + run.packets_returned;
    let bytes = run.bytes_sent + run.bytes_returned + packets * UDP_HEADER_BYTES as u64;
    let messages = as_f64(truth.messages.len().max(1));
    samples.set(PACKETS_EACH, as_f64(packets) / messages);
    samples.set(BYTES_EACH, as_f64(bytes) / messages);
    samples
}

/// The sum of a number over all repetitions.
pub(crate) fn total(summary: &PointSummary, name: &str) -> f64 {
    summary.values().get(name).map_or(0.0, |value| value.values().iter().sum())
}

/// A delay in milliseconds, for the rows of a report.
pub(crate) fn ms(delay: Option<Duration>) -> Option<f64> {
    delay.map(|delay| delay.as_secs_f64() * 1e3)
}

/// Mean, quantiles and maximum of a series in milliseconds, for the rows of a report; nulls if it has no delays.
pub(crate) fn delays_row(summary: &PointSummary, series: &str) -> Value {
    let delays = summary.series().get(series).map(|series| series.all());
    let quantile = |quantile| ms(delays.and_then(|delays| delays.quantile(quantile)));
    json!({
        "mean": ms(delays.and_then(|delays| delays.mean())),
        "p50": quantile(0.5),
        "p99": quantile(0.99),
        "p99_9": quantile(0.999),
        "max": ms(delays.and_then(|delays| delays.max())),
    })
}

/// The kind of a message's first transmission in a figure.
pub(crate) fn of_message(message: &MessageRecord) -> Happening {
    if message.delivered_by == Some(0) { Happening::Sent } else { Happening::Lost }
}

/// The kind of a retransmission in a figure.
pub(crate) fn of_retransmission(resent: &RetransmissionRecord) -> Happening {
    let is_copy = resent.cause.is_bundled() || resent.cause == RetransmissionCause::Copy;
    match (resent.arrived_at, resent.is_spurious()) {
        (None, true) if is_copy => Happening::CopyLost,
        (None, _) => Happening::RetransmissionLost,
        (Some(_), false) => Happening::Retransmitted,
        (Some(_), true) if is_copy => Happening::Copied,
        (Some(_), true) => Happening::Spurious,
    }
}
