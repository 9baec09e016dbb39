//! `p10-fig4`: the RTO that a thin stream's sender calculates against the one that its path calls for (P10 §5.2, Fig. 4).

use std::time::Duration;

use festina_recovery::rtt::RttEstimator;
use festina_units::{ByteCount, Instant, Probability};

use crate::assumption::{Assumption, chosen, stated};
use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::{Check, Description, Experiment};
use crate::figure::{Axis, Curve, Figure, Unit};
use crate::plan::{Kind, Parameter, Point};
use crate::samples::{Sample, Samples};
use crate::scenario::{Fault, Group, Readings, Stack, StreamRecord, ThinStream};
use crate::summary::{PointSummary, Repeated, Results};

const CALCULATED: &str = "calculated RTO";
const ACTUAL: &str = "actual RTO";
/// By how much a measured round-trip time is above that of the network.
const EXCESS: &str = "excess of the measured round-trip time";
/// How long lksctp delays a SACK.
const LKSCTP_SACK_DELAY: Duration = Duration::from_millis(200);
const RTO_MAX: Duration = Duration::from_secs(60);
/// How much of a run the figure shows.
const SHOWN: Duration = Duration::from_secs(60);
/// When the application begins (see [`ThinStream`]).
const STARTS_AT: Instant = Instant::from_secs(20);

/// Calculated and actual RTO with and without delayed SACKs.
#[derive(Clone, Copy, Debug)]
pub struct P10Fig4;

impl Experiment for P10Fig4 {
    fn description(&self) -> Description {
        Description {
            name: "p10-fig4",
            title: "Calculated and actual RTO of a thin stream, with and without delayed SACKs",
            reference: "Petlund et al. 2010, Fig. 4 (section 5.2); Pedersen et al. 2006, Fig. 3",
            about: "A thin stream over lksctp with an RTO.Min of 200 ms and no other modification, over a path that loses packets each \
         way. Whenever its sender measures a round-trip \
         time, the RTO that it calculates is noted: this is the calculated RTO. The actual RTO is what the same \
         estimator, in exact arithmetic, makes of the round-trip time that the network had, which a sender would measure if SACKs \
         were neither delayed nor lost.\n\n\
         The paper's text gives no numbers and does not say what its axes are. Its caption speaks of the difference \
         between calculated and measured RTO values, section 5.2 of the calculated RTO, greatly reduced without SACK delay (part \
         b) due to a lower measured RTT, and of delayed SACKs that weigh more when RTO.Min is low (part a). So the axes were most probably \
         an RTO over time or over samples, and the two curves of each part are the two values defined above; Pedersen et al. show the same \
         two parts. The round-trip time, the loss and the stream of that figure are not stated either; here the round-trip time is that of \
         Table 3 of Pedersen et al., at which RTO.Min hides nothing.\n\n\
         Without loss the calculated RTO is steady, so its spread is due to losses: the SACK of a message behind a lost one is \
         not delayed, which makes a sample that is 200 ms below the others, and a lost SACK makes one that is an interval \
         above. Both raise the variance, and with it the RTO. Even at rest it stays above the actual one, as that kernel \
         averaged in whole ticks of 4 ms.",
            plan: include_str!("../../../../experiments/p10-fig4.toml"),
            question: "How far is the RTO that a thin stream's sender calculates from the one that its path calls for?",
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        let parameter = |name, about, kind| Parameter { name, about, kind };
        let ms = Duration::from_millis;
        let loss = Kind::Probability(Probability::ZERO..=Probability::from_percent(50));
        let size = Kind::Bytes(ByteCount::from_bytes(1)..=ByteCount::from_bytes(1_000));
        let mut parameters = vec![
            parameter("sack_delay", "how long the receiver delays a SACK", Kind::Duration(ms(0)..=ms(500))),
            parameter("rtt", "the round-trip time of the network", Kind::Duration(ms(1)..=ms(10_000))),
            parameter("loss", "how probably a packet is lost, each way", loss),
            parameter(
                "lost",
                "what of it is lost: data, SACKs, both or neither",
                Kind::Choice(&["both", "none", "data", "sacks"]),
            ),
            parameter("rto_min", "the sender's RTO.Min", Kind::Duration(ms(1)..=ms(10_000))),
            parameter("interval", "how often the application writes", Kind::Duration(ms(1)..=ms(60_000))),
            parameter("size", "the size of a message", size),
            parameter("duration", "for how long it writes", Kind::Duration(ms(1_000)..=ms(86_400_000))),
        ];
        parameters.extend(Readings::parameters());
        parameters
    }

    fn assumptions(&self) -> Vec<Assumption> {
        let mut assumptions = vec![
            stated("sack_delay", "§5.2: with and without; §4: 200 ms"),
            chosen("rtt", "that of P06 Table 3, at which RTO.Min hides nothing"),
            chosen("loss", "that of §6.1; the paper tells none for this figure"),
            chosen("lost", "P06 §3.2 speaks of a lost message and of a lost SACK"),
            stated("rto_min", "§5.2: 200 ms; §4: 1000 ms"),
            stated("interval", "§4: no more than 4 packets every second"),
            stated("size", "Fig. 8: 100 bytes"),
            chosen("duration", "long enough for some hundred losses"),
        ];
        assumptions.extend(Readings::ASSUMPTIONS);
        assumptions
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let mut samples = Samples::new();
        for Calculated { at, calculated, actual, excess } in trace(point, seed) {
            for (name, delay) in [(CALCULATED, calculated), (ACTUAL, actual), (EXCESS, excess)] {
                samples.record(name, Sample { sent_at: at, delay });
            }
        }
        samples
    }

    /// The text has no number to compare with.
    fn checks(&self, results: &Results) -> Vec<Check> {
        let pair = pair(results, "both", "200ms");
        vec![
            is_measured_too_long(pair),
            weighs_more_with_a_low_minimum(pair, self::pair(results, "both", "1s")),
            is_greatly_reduced(pair),
            is_mostly_too_long(pair),
            is_unstable(pair),
            follows_losses(results),
        ]
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let plan = results.plan();
        let first_seed = plan.repetition_seed(0);
        let curves: Vec<[Curve; 2]> =
            results.points().iter().map(|summary| over_time(&trace(summary.point(), first_seed))).collect();
        let rtos_ms = curves.iter().flatten().flat_map(|curve| &curve.points).map(|(_, rto_ms)| *rto_ms);
        // One scale for all parts, so that they can be compared.
        let highest_ms = rtos_ms.fold(0.0, f64::max);
        let part = |(summary, curves): (&PointSummary, [Curve; 2])| {
            let x = Axis::from_zero("seconds since the stream began", SHOWN.as_secs_f64(), Unit::Number);
            let y = Axis::from_zero("RTO", highest_ms, Unit::Milliseconds);
            let conditions = format!("{}; the first minute of the first run", plan.label(summary.point()));
            Figure { curves: curves.into(), ..Figure::new(plan.title(), &conditions, x, y) }
        };
        results.points().iter().zip(curves).map(part).collect()
    }
}

/// An RTO that was calculated, and what the path called for at that time.
struct Calculated {
    at: Instant,
    calculated: Duration,
    actual: Duration,
    /// By how much the sample is above the round-trip time of the network.
    excess: Duration,
}

/// What the sender calculated at a point, in the order of its samples.
fn trace(point: &Point, seed: u64) -> Vec<Calculated> {
    let [rtt, interval, duration] = ["rtt", "interval", "duration"].map(|name| point.duration(name));
    let loss = point.probability("loss");
    let readings = Readings::of(point);
    // With the receivers mistaken for each other, the one that is to delay its SACKs does not, and the other does.
    let sack_delay = match point.duration("sack_delay") {
        delay if readings.fault != Fault::Swapped => delay,
        Duration::ZERO => LKSCTP_SACK_DELAY,
        _ => Duration::ZERO,
    };
    let mut stack = Group::ModMinRto.stack(&readings, sack_delay);
    if let Stack::Sctp { sender, .. } = &mut stack {
        sender.mechanisms.thin.rto_min = point.duration("rto_min");
    }
    let stream = ThinStream::periodic(stack, interval, point.bytes("size"), duration, rtt);
    let lost = |names: [&str; 2]| if names.contains(&point.choice("lost")) { loss } else { Probability::ZERO };
    let StreamRecord::Sctp(record) = stream.with_loss(lost(["both", "data"]), lost(["both", "sacks"])).run(seed).record
    else {
        unreachable!("the stack is SCTP")
    };
    let rto_min = point.duration("rto_min");
    let mut network = RttEstimator::new(rto_min);
    let sampled = record.rtt_samples.iter().filter(|sample| sample.at >= STARTS_AT);
    let calculated = sampled.map(|sample| {
        network.sample(rtt);
        let (actual, excess) = (network.rto(rto_min, RTO_MAX), sample.sample.saturating_sub(rtt));
        Calculated { at: sample.at, calculated: sample.rto, actual, excess }
    });
    calculated.collect()
}

/// The first minute of a trace. An RTO holds until the next one is calculated, so the curves are steps.
fn over_time(trace: &[Calculated]) -> [Curve; 2] {
    let mut curves = [CALCULATED, ACTUAL].map(|name| Curve { name: name.to_owned(), points: Vec::new() });
    for step in trace {
        let since_start = step.at.saturating_duration_since(STARTS_AT);
        if since_start > SHOWN {
            break;
        }
        for (curve, rto) in curves.iter_mut().zip([step.calculated, step.actual]) {
            if let Some((_, before_ms)) = curve.points.last().copied() {
                curve.points.push((since_start.as_secs_f64(), before_ms));
            }
            curve.points.push((since_start.as_secs_f64(), rto.as_secs_f64() * 1e3));
        }
    }
    curves
}

/// Delayed and undelayed SACKs under the same conditions.
#[derive(Clone, Copy)]
struct Pair<'r> {
    delayed: &'r PointSummary,
    undelayed: &'r PointSummary,
}

/// The points with and without delay under the same conditions.
fn pair<'r>(results: &'r Results, lost: &str, rto_min: &str) -> Option<Pair<'r>> {
    let is_delayed = |summary: &&PointSummary| !summary.point().duration("sack_delay").is_zero();
    let conditions = [("lost", lost), ("rto_min", rto_min)];
    let points = || results.matching(&conditions);
    let (delayed, undelayed) = (points().find(is_delayed)?, points().find(|summary| !is_delayed(summary))?);
    Some(Pair { delayed, undelayed })
}

/// Each of both points with its name.
fn both(pair: Option<Pair<'_>>) -> [(&'static str, Option<&PointSummary>); 2] {
    [("with delayed SACKs", pair.map(|pair| pair.delayed)), ("without", pair.map(|pair| pair.undelayed))]
}

/// A number of a series in each repetition.
fn each<'r>(summary: Option<&'r PointSummary>, series: &str, which: Which) -> Option<&'r Repeated> {
    let series = summary?.series().get(series)?;
    match which {
        Which::Mean => Some(series.mean_s()),
        Which::Median => series.quantile_s(0.5),
        Which::Longest => Some(series.max_s()),
    }
}

/// A statistic of a series.
#[derive(Clone, Copy)]
enum Which {
    Mean,
    Median,
    Longest,
}

fn ratio(over: Option<&Repeated>, under: Option<&Repeated>) -> Option<Estimate> {
    Estimate::ratio(over?, under?)
}

/// "A measurement that is 200 ms too high" (P06 §3.2), as most are: the median, within a tenth.
fn is_measured_too_long(pair: Option<Pair<'_>>) -> Check {
    let mut evidence = Evidence::new();
    for ((name, summary), bound) in both(pair).into_iter().zip([Bound::about(200.0, 0.1), Bound::Within(0.0, 20.0)]) {
        let excess = each(summary, EXCESS, Which::Median).and_then(|it| Estimate::of(&it.map(|seconds| seconds * 1e3)));
        evidence.cell(format!("ms above the round-trip time {name}:"), excess, bound);
    }
    evidence
        .check("With delayed SACKs the measured round-trip time is 200 ms too high, and without it is not.")
        .id("200-ms-too-high")
}

/// "As a consequence of reducing RTO.Min, the relative effect of delayed SACKs on the RTO calculation grows" (§5.2, Fig. 4(a)).
fn weighs_more_with_a_low_minimum(low: Option<Pair<'_>>, high: Option<Pair<'_>>) -> Check {
    let effect = |pair: Option<Pair<'_>>| {
        let [delayed, undelayed] = both(pair).map(|(_, summary)| each(summary, CALCULATED, Which::Mean));
        Some(delayed?.zip_with(undelayed?, |delayed, undelayed| delayed / undelayed))
    };
    let mut evidence = Evidence::new();
    let larger = effect(low).zip(effect(high)).and_then(|(low, high)| Estimate::ratio(&low, &high));
    evidence.cell("effect at 200 ms over that at 1 s:", larger, Bound::MoreThan(1.0));
    evidence.check("The lower RTO.Min, the more delayed SACKs raise the calculated RTO.").id("effect-grows")
}

/// "In case of a packet loss the RTO gets closer to the RTT. The second is the loss of a SACK. When this happens, the RTO grows" (P06 §3.2).
fn follows_losses(results: &Results) -> Check {
    let mean = |lost| each(pair(results, lost, "200ms").map(|pair| pair.delayed), CALCULATED, Which::Mean);
    let mut evidence = Evidence::new();
    evidence.cell("data lost over nothing lost:", ratio(mean("data"), mean("none")), Bound::LessThan(1.0));
    evidence.cell("SACKs lost over nothing lost:", ratio(mean("sacks"), mean("none")), Bound::MoreThan(1.0));
    evidence.check("Lost messages lower the RTO, and lost SACKs raise it.").id("follows-losses")
}

/// "Greatly reduced": to two thirds at most. The bound is ours.
fn is_greatly_reduced(pair: Option<Pair<'_>>) -> Check {
    let [delayed, undelayed] = both(pair).map(|(_, summary)| each(summary, CALCULATED, Which::Mean));
    let mut evidence = Evidence::new();
    evidence.cell("without over with SACK delay:", ratio(undelayed, delayed), Bound::LessThan(2.0 / 3.0));
    evidence
        .check("Without delayed SACKs the calculated RTO is greatly reduced: to two thirds at most.")
        .id("greatly-reduced")
}

/// "Too large an RTO for much of the connection's life" (P10 §4). The bound is ours.
fn is_mostly_too_long(pair: Option<Pair<'_>>) -> Check {
    let delayed = pair.map(|pair| pair.delayed);
    let [calculated, actual] = [CALCULATED, ACTUAL].map(|series| each(delayed, series, Which::Median));
    let mut evidence = Evidence::new();
    evidence.cell("medians, calculated over actual:", ratio(calculated, actual), Bound::MoreThan(1.5));
    evidence
        .check("With delayed SACKs the RTO is too long for much of the time: its median by a half.")
        .id("mostly-too-long")
}

/// "Highly unstable, and it remains unstable" (P10 §8). The bound is ours.
fn is_unstable(pair: Option<Pair<'_>>) -> Check {
    let mut evidence = Evidence::new();
    for (name, summary) in both(pair) {
        let [longest, median] = [Which::Longest, Which::Median].map(|which| each(summary, CALCULATED, which));
        evidence.cell(format!("longest over median {name}:"), ratio(longest, median), Bound::MoreThan(2.0));
    }
    evidence.check("The calculated RTO is unstable: its longest is twice its median.").id("unstable")
}
