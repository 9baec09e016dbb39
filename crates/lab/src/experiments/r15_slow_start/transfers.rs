//! Transfers of all sizes from one server: what the closed form gives, what the simulator did, and what its capture shows.

use festina_models::record::Truth;
use festina_models::tcp::TcpConfig;
use festina_netsim::{Duplex, LinkConfig, LossModel, QueueLimit, RandomStream};
use festina_recovery::send_buffer::SendBufferLimit;
use festina_trace::analysis::{SlowStart, SlowStartExit};
use festina_trace::{Analyser, Finding, analyse};
use festina_units::{ByteCount, Duration, Instant, Probability};

use super::{LOSSY, OTHER_WINDOW, config, is_fast};
use crate::plan::Point;
use crate::scenario::CaptureFlaw;
use crate::scenario::server::{Carrier, ServedFlow, Server, capture_file, client_at};

/// The smallest transfer, and how many powers of two larger the largest is.
const LEAST_BYTES: f64 = 1_000.0;
const DOUBLINGS: f64 = 13.966;
/// Room for the largest transfer at once.
const BUFFER_BYTES: u64 = 1 << 30;
/// The handshake is over when a transfer begins.
const STARTS_AT: Instant = Instant::from_secs(10);
/// Transfers begin one after the other.
const APART: Duration = Duration::from_millis(37);

/// A transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    pub(super) bytes: u64,
    /// Rounds by the closed form.
    pub(super) by_form: u32,
    /// Whether its last round fits into the path and its queue, by the closed form.
    pub(super) fits: bool,
    /// Rounds that the simulator took, from when the last byte arrived.
    pub(super) simulated: Option<u32>,
    /// Rounds as the capture shows them, if it shows that the transfer ended within slow start.
    pub(super) read: Option<u32>,
    /// What the first round must have, and what the capture shows.
    pub(super) first_round: u64,
    pub(super) first_round_read: Option<u64>,
    /// From the write to the delivery.
    pub(super) time: Option<Duration>,
}

/// The transfers of a point.
pub(super) fn fates(point: &Point, seed: u64) -> Vec<Fate> {
    let fault = point.choice("fault");
    let window_segments = u32::try_from(point.count("initial_window")).unwrap_or(u32::MAX);
    let config = TcpConfig {
        initial_window_segments: if fault == OTHER_WINDOW { window_segments + 2 } else { window_segments },
        receive_buffer_bytes: BUFFER_BYTES,
        send_buffer: SendBufferLimit::Bytes(BUFFER_BYTES),
        ..config(point.choice("stack"))
    };
    let sizes = sizes(point, seed);
    let path = path(point);
    let flows = (0_u32..).zip(&sizes).map(|(number, &bytes)| ServedFlow {
        connects_at: Instant::ZERO + APART * number,
        starts_at: STARTS_AT + APART * number,
        writes: vec![(Duration::ZERO, ByteCount::from_bytes(bytes))],
        path: path.clone(),
    });
    let run = Server { carrier: Carrier::tcp(config), flows: flows.collect() }.run(seed);
    let packets = CaptureFlaw::named(fault).map_or(run.at_server.clone(), |flaw| flaw.in_packets(run.at_server));
    let file = capture_file(&packets).expect("memory does not fail");
    let mut begins: Vec<Option<SlowStart>> = vec![None; sizes.len()];
    let (_, result) = analyse(file.as_slice(), Analyser::default(), |finding| {
        if let Finding::Stream(stream) = finding
            && let Some(place) = client_at(stream.destination.ip()).and_then(|client| begins.get_mut(client))
        {
            *place = Some(stream.slow_start);
        }
    });
    result.expect("a sound capture");
    let window = u64::from(window_segments) * u64::from(config.mss_bytes);
    let transfers = sizes.iter().zip(&run.truths).zip(begins);
    transfers.map(|((&bytes, truth), begin)| fate(point, bytes, window, truth, begin.as_ref())).collect()
}

fn fate(point: &Point, bytes: u64, window: u64, truth: &Truth, begin: Option<&SlowStart>) -> Fate {
    let rtt = point.duration("rtt");
    let by_form = SlowStart::rounds_of(bytes, window);
    let last_window = window.saturating_mul(1 << by_form.saturating_sub(1));
    let time = truth.messages.first().and_then(|message| message.delay());
    let begin = begin.filter(|begin| begin.is_whole);
    Fate {
        bytes,
        by_form,
        fits: last_window <= 2 * product_bytes(point),
        simulated: time.map(|time| rounds_in(time, rtt)),
        read: begin
            .filter(|begin| begin.exit() == SlowStartExit::Ended)
            .and_then(|begin| u32::try_from(begin.round_bytes.len()).ok()),
        first_round: bytes.min(window),
        first_round_read: begin.and_then(SlowStart::initial_window_bytes),
        time,
    }
}

/// The last byte arrives half a round trip after its round began; what the path takes to send counts as no round.
fn rounds_in(time: Duration, rtt: Duration) -> u32 {
    let halves = u32::try_from(2 * time.as_nanos() / rtt.as_nanos().max(1)).unwrap_or(u32::MAX);
    halves.div_ceil(2).max(1)
}

/// Sizes, with the same number in each decade.
fn sizes(point: &Point, seed: u64) -> Vec<u64> {
    let mut random = RandomStream::new(seed, "sizes");
    let size = |_| {
        let place = crate::count::as_f64(random.below(1_000_000)) / 1e6;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 16 MB")]
        let bytes = (LEAST_BYTES * (DOUBLINGS * place).exp2()) as u64;
        bytes
    };
    (0..point.count("transfers")).map(size).collect()
}

/// What fits into a round trip.
fn product_bytes(point: &Point) -> u64 {
    let bits = u128::from(point.bandwidth("rate").bits_per_second()) * point.duration("rtt").as_nanos() / 1_000_000_000;
    u64::try_from(bits / 8).unwrap_or(u64::MAX / 4)
}

fn path(point: &Point) -> Duplex {
    // On a fast path nothing shall ever be dropped.
    let queue_bytes = if is_fast(point) { BUFFER_BYTES } else { product_bytes(point) };
    let loss = match point.choice("fault") {
        LOSSY => LossModel::Independent(Probability::from_percent(1)),
        _ => LossModel::None,
    };
    let link = LinkConfig {
        rate: Some(point.bandwidth("rate")),
        delay: point.duration("rtt") / 2,
        queue: QueueLimit::bytes(ByteCount::from_bytes(queue_bytes)),
        ..LinkConfig::default()
    };
    Duplex { forward: LinkConfig { loss, ..link.clone() }, backward: link }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_those_of_the_delivery_of_the_last_byte() {
        let ms = Duration::from_millis;
        for (time_ms, rounds) in [(50, 1), (99, 1), (150, 2), (153, 2), (249, 2), (250, 3), (1_050, 11)] {
            assert_eq!(rounds_in(ms(time_ms), ms(100)), rounds, "{time_ms}");
        }
    }
}
