//! Replays the applications' writes with one transport or another, over paths like those of the capture.

use festina_models::tcp::{DelayedAck, TcpConfig};
use festina_models::workload::{Replay, Workload};
use festina_recovery::{Mechanisms, Profile, redundancy::Redundancy};
use festina_trace::{Analyser, AnalyserOptions, CapturedPacket, Protocol};
use festina_units::{ByteCount, Duration, Instant};
use rayon::prelude::*;

use super::flow::{Shown, ThinFlow, ThinFlows};
use super::path::{LOSS_MAX, PathEstimate};
use crate::scenario::{Captured, Stack, StreamRun, ThinStream};

/// RFC 9260's usual delay of a SACK, that of `festina compare` too.
const SACK_DELAY: Duration = Duration::from_millis(200);
/// The application continues for this long after its last write.
const AFTERWARDS: Duration = Duration::from_secs(1);
/// Number of corrections of the losses by their simulation, and how many of the last ones count.
const CORRECTIONS: u64 = 8;
const CORRECTIONS_COUNTED: u64 = 4;
/// Each correction goes so far of the way: less than all of it, as each simulation has its own chance.
const CORRECTION_SHARE: f64 = 0.7;
/// Writes of a simulation that a correction is made by.
const CORRECTION_WRITES: u64 = 20_000;
/// Bursts are assumed if losses directly after a loss exceed the rate of single losses by this many standard deviations.
const EVIDENCE_MIN: f64 = 3.0;
/// Range of burst lengths that is searched, and the number of its bisections.
const BURSTS: [f64; 2] = [1e-3, 10.0];
const BURST_STEPS: u64 = 8;
const BURST_ROUNDS: u32 = 2;
/// Bare IP packets, in the tcpdump group's list.
const LINK_TYPE_RAW: u16 = 101;

/// A flow and its path.
pub(super) type FlowOnPath = (ThinFlow, PathEstimate);

/// A transport under its name.
#[derive(Clone, Debug)]
pub(super) struct Transport {
    pub(super) name: &'static str,
    pub(super) stack: Stack,
}

/// How the paths of all flows deviate from what their own senders' retransmissions say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Losses {
    /// Multiplies the loss of each flow: some retransmissions are called needed that were not.
    pub(super) factor: f64,
    /// The share of the receivers' packets that is lost.
    pub(super) back: f64,
    pub(super) burst: Option<Duration>,
}

/// What flows of this kind may have been sent with. One of them explains the capture best.
pub(super) fn present(protocol: Protocol) -> Vec<Transport> {
    if protocol == Protocol::Tcp {
        let linux = Box::new(TcpConfig::linux());
        let delaying = Box::new(TcpConfig { delayed_ack: DelayedAck::default(), ..TcpConfig::linux() });
        return vec![
            Transport { name: "TCP, Linux", stack: Stack::Tcp { sender: linux.clone(), receiver: linux.clone() } },
            Transport {
                name: "TCP, Linux, every second segment acknowledged",
                stack: Stack::Tcp { sender: linux, receiver: delaying },
            },
        ];
    }
    let profiles = [
        ("SCTP, rfc9260", Profile::Rfc9260),
        ("SCTP, lksctp-2006", Profile::Lksctp2006),
        (super::FESTINA, Profile::Festina),
    ];
    let profiles = profiles.map(|(name, profile)| Transport { name, stack: sctp(profile.mechanisms()) });
    profiles.into_iter().chain([copying()]).collect()
}

/// Festina with copies of messages.
fn copying() -> Transport {
    let mechanisms = Mechanisms { redundancy: Redundancy::ADAPTIVE_SPACED, ..Profile::Festina.mechanisms() };
    Transport { name: "SCTP, festina, copies", stack: sctp(mechanisms) }
}

/// Transports to compare with.
pub(super) fn alternatives() -> Vec<Transport> {
    let linux = Transport { name: "TCP, Linux", stack: Stack::tcp(TcpConfig::linux()) };
    let sctp = [("SCTP, rfc9260", Profile::Rfc9260), (super::FESTINA, Profile::Festina)];
    let sctp = sctp.map(|(name, profile)| Transport { name, stack: self::sctp(profile.mechanisms()) });
    std::iter::once(linux).chain(sctp).chain([copying()]).collect()
}

fn sctp(mechanisms: Mechanisms) -> Stack {
    Stack::sctp(mechanisms, SACK_DELAY)
}

fn stream((flow, path): &FlowOnPath, losses: Losses, stack: &Stack) -> ThinStream {
    let begin = flow.writes.first().map_or(Instant::ZERO, |(at, _)| *at);
    let writes = flow.writes.iter().map(|(at, bytes)| (*at - begin, ByteCount::from_bytes(*bytes)));
    let duration = flow.writes.last().map_or(Duration::ZERO, |(at, _)| *at - begin) + AFTERWARDS;
    let replay = Replay::new(writes).expect("a flow's writes are in order, and none is empty");
    ThinStream {
        stack: stack.clone(),
        workload: Workload::Replay(replay),
        duration,
        forward: path.link(path.loss * losses.factor, losses.burst),
        backward: path.link(losses.back, losses.burst),
    }
}

/// Simulates all flows, several at a time; `None` if there was no connection or if it was aborted. The n-th of them has the n-th seed from `seed` on.
pub(super) fn runs(flows: &[FlowOnPath], losses: Losses, stack: &Stack, seed: u64) -> Vec<Option<StreamRun>> {
    (seed..)
        .zip(flows)
        .collect::<Vec<_>>()
        .into_par_iter()
        .map(|(seed, flow)| stream(flow, losses, stack).try_run(seed))
        .collect()
}

/// Simulates all flows and says what captures at their senders would show.
pub(super) fn shown(flows: &[FlowOnPath], losses: Losses, stack: &Stack, seed: u64) -> Shown {
    let seeded: Vec<_> = (seed..).zip(flows).collect();
    let captures: Vec<Vec<ThinFlow>> =
        seeded.into_par_iter().map(|(seed, flow)| captured(&stream(flow, losses, stack), seed)).collect();
    Shown::of(captures.iter().flatten())
}

fn captured(stream: &ThinStream, seed: u64) -> Vec<ThinFlow> {
    let Some((_, capture, [sender, _])) = stream.try_run_and_capture(seed) else { return Vec::new() };
    let packets = capture.seen_by(sender).expect("simulated packets fit into IP");
    let mut analyser = Analyser::new(AnalyserOptions { details: true, ..AnalyserOptions::default() });
    let mut flows = ThinFlows::any();
    for (number, (at, data)) in (1..).zip(&packets) {
        let original_bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let packet =
            CapturedPacket { number, offset: 0, at: *at, link_type: LINK_TYPE_RAW, data, original_bytes, secrets: &[] };
        analyser.handle_packet(&packet);
        while let Some(finding) = analyser.poll_finding() {
            flows.take(finding);
        }
    }
    analyser.finish();
    while let Some(finding) = analyser.poll_finding() {
        flows.take(finding);
    }
    flows.finish()
}

/// Returns the transport of the captured flows, and the losses for which its simulated captures agree with the real one.
pub(super) fn explained(flows: &[FlowOnPath], seed: u64) -> (Transport, Losses) {
    let capture = Shown::of(flows.iter().map(|(flow, _)| flow));
    let protocol = flows.first().map_or(Protocol::Tcp, |(flow, _)| flow.report.protocol);
    let some = part(flows, capture.writes);
    let explain = |transport: Transport| {
        let (losses, simulated) = corrected(&some, &capture, &transport.stack, None, seed);
        (distance(&capture, &simulated), transport, losses, simulated)
    };
    let explanations = present(protocol).into_iter().map(explain);
    let (_, transport, losses, simulated) =
        explanations.min_by(|a, b| a.0.total_cmp(&b.0)).expect("each protocol has a transport");
    let ((seen, seen_deviation), (single, deviation)) = (capture.loss_after_loss(), simulated.loss_after_loss());
    if seen - single <= EVIDENCE_MIN * seen_deviation.hypot(deviation) {
        return (transport, losses);
    }
    // The length of bursts and the loss rate depend on each other.
    let mut losses = losses;
    for _ in 0..BURST_ROUNDS {
        let burst = burst(&some, losses, &transport.stack, seen, seed);
        losses = corrected(&some, &capture, &transport.stack, Some(burst), seed).0;
    }
    (transport, losses)
}

/// Returns the mean length of bursts for which losses follow losses as often as in the capture.
fn burst(flows: &[FlowOnPath], losses: Losses, stack: &Stack, seen: f64, seed: u64) -> Duration {
    let [mut low, mut high] = BURSTS.map(f64::ln);
    for step in 0..BURST_STEPS {
        let middle = f64::midpoint(low, high);
        let burst = Some(Duration::from_secs_f64(middle.exp()));
        let simulated = shown(flows, Losses { burst, ..losses }, stack, seed + (step << 32));
        if simulated.loss_after_loss().0 < seen {
            low = middle;
        } else {
            high = middle;
        }
    }
    Duration::from_secs_f64(f64::midpoint(low, high).exp())
}

/// An evenly taken subset of the flows, small enough for a short simulation.
fn part(flows: &[FlowOnPath], writes: u64) -> Vec<FlowOnPath> {
    let step = usize::try_from(writes.div_ceil(CORRECTION_WRITES)).unwrap_or(usize::MAX).max(1);
    flows.iter().step_by(step).cloned().collect()
}

/// Simulates, compares with the capture, and corrects, several times.
fn corrected(
    flows: &[FlowOnPath],
    capture: &Shown,
    stack: &Stack,
    burst: Option<Duration>,
    seed: u64,
) -> (Losses, Shown) {
    let [mut factor, mut back] = [1.0, capture.loss().min(LOSS_MAX)];
    if !capture.shows_loss() || capture.has_copies() {
        // There is nothing to correct, or copies hide missing acknowledgements, and both directions are assumed to lose alike.
        let losses = Losses { factor, back, burst };
        return (losses, shown(flows, losses, stack, seed));
    }
    let [mut factors, mut backs] = [0.0, 0.0];
    let mut all = Shown::default();
    for correction in 0..CORRECTIONS {
        let simulated = shown(flows, Losses { factor, back, burst }, stack, seed + (correction << 32));
        if simulated.loss() > 0.0 {
            factor *= (capture.loss() / simulated.loss()).powf(CORRECTION_SHARE);
        }
        back = (back + CORRECTION_SHARE * (capture.silence() - simulated.silence())).clamp(0.0, LOSS_MAX);
        if correction >= CORRECTIONS - CORRECTIONS_COUNTED {
            factors += factor;
            backs += back;
            all.merge(&simulated);
        }
    }
    let counted = 1.0 / crate::count::as_f64(CORRECTIONS_COUNTED);
    (Losses { factor: factors * counted, back: backs * counted, burst }, all)
}

/// Returns the difference between the delays of two captures, on a logarithmic scale.
fn distance(one: &Shown, other: &Shown) -> f64 {
    let delay =
        |shown: &Shown, percent| crate::count::as_f64(shown.delays_ns.percentile(percent).unwrap_or(1).max(1)).ln();
    [50.0, 90.0, 99.0].iter().map(|percent| (delay(one, *percent) - delay(other, *percent)).abs()).sum()
}
