//! Table 2 beside ours, and what §6.4 says in words.

use crate::experiment::{Check, Comparison};
use crate::statistics::DelayStatistics;
use crate::summary::PointSummary;

use super::setups::Setup;

/// How far quantiles may lie apart where the paper calls the set-ups equal: the width of a line in its figure.
const ALIKE_MS: f64 = 5.0;
const CLOCKS: &str = "the paper's clocks were not in step: its average holds an unknown offset";
const TIMER_FIX: &str = "the fix alone saves at most the time from a timer's start to the next SACK, a round trip and the SACK's delay \
                         (321 ms), and only if that SACK acknowledges something; the shorter minimum RTO saves 600 ms or more each time. \
                         Together, as the paper's section 5.2 has them, they are the main cause";
const LENGTH_OF_THE_TAIL: &str = "a maximum is a single packet's fate, and the real path's bursts are unknown";

pub(super) fn comparisons(point: &PointSummary) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for setup in Setup::published() {
        let Some(row) = setup.table_2() else { continue };
        let arrival = point.series().get(&setup.arrival()).map(|series| series.all());
        let mean_ms = arrival.and_then(DelayStatistics::mean).map(ms);
        let max_ms = arrival.and_then(DelayStatistics::max).map(ms);
        let beyond_ms = max_ms.zip(mean_ms).map(|(max_ms, mean_ms)| max_ms - mean_ms);
        let value = |name: &str| point.values().get(name).and_then(|value| value.mean());
        let mut add = |what: &str, unit, published, measured, why: Option<&str>| {
            let what = format!("{what}, {}", setup.name());
            comparisons.push(Comparison { what, unit, published, measured, why: why.map(str::to_owned) });
        };
        let given = Some("the loss of the path is given, and each machine lost more or less of it by chance");
        add("loss rate", "%", row.loss_percent, value(&setup.loss()), given);
        add("spurious retransmissions", "%", row.spurious_percent, value(&setup.spurious()), spurious_reason(setup));
        add("average latency", "ms", row.mean_ms, mean_ms, Some(CLOCKS));
        add("maximum latency", "ms", row.max_ms, max_ms, Some(CLOCKS));
        let published = row.max_ms - row.mean_ms;
        add("maximum less average", "ms", published, beyond_ms, Some(LENGTH_OF_THE_TAIL));
    }
    comparisons.push(Comparison {
        what: "share of the gain lost without the timer fix (the paper: it is the main cause)".to_owned(),
        unit: "%",
        published: 50.0,
        measured: Ablation::of(point).map(|ablation| ablation.lost_without(Setup::WithoutTimerFix) * 100.0),
        why: Some(TIMER_FIX.to_owned()),
    });
    comparisons
}

fn spurious_reason(setup: Setup) -> Option<&'static str> {
    match setup {
        Setup::Modified => {
            Some("how often a delayed SACK misses the short timeout hangs on the gaps in the real trace")
        }
        _ => Some("a few hundred packets; they hang on lost SACKs, and the loss of the way back is not stated"),
    }
}

pub(super) fn checks(point: &PointSummary) -> Vec<Check> {
    let measured: Vec<(Setup, &DelayStatistics)> =
        Setup::published().filter_map(|setup| Some((setup, point.series().get(&setup.arrival())?.all()))).collect();
    vec![
        alike_check(&measured),
        averages_check(&measured),
        maximum_check(&measured),
        tail_check(&measured),
        spurious_check(point),
        section_5_2_check(point),
    ]
}

fn alike_check(measured: &[(Setup, &DelayStatistics)]) -> Check {
    let apart_ms = [0.5, 0.9, 0.99, 0.999].map(|quantile| spread(measured, |delays| delays.quantile(quantile).map(ms)));
    let worst = apart_ms.into_iter().fold(0.0, f64::max);
    Check::new(
        "Up to 0.999 the distributions are the same within 5 ms.",
        worst <= ALIKE_MS,
        format!("50, 90, 99 and 99.9% lie at most {} ms apart", apart_ms.map(|ms| format!("{ms:.1}")).join(", ")),
    )
}

fn averages_check(measured: &[(Setup, &DelayStatistics)]) -> Check {
    let apart_ms = spread(measured, |delays| delays.mean().map(ms));
    Check::new(
        "The averages lie at most 2 ms apart, as in Table 2.",
        apart_ms <= 2.0,
        format!("they lie {apart_ms:.2} ms apart"),
    )
}

fn maximum_check(measured: &[(Setup, &DelayStatistics)]) -> Check {
    let maxima_ms: Vec<(Setup, f64)> =
        measured.iter().filter_map(|(setup, delays)| Some((*setup, ms(delays.max()?)))).collect();
    let lowest = maxima_ms.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map(|(setup, _)| *setup);
    let seen: Vec<String> = maxima_ms.iter().map(|(setup, max_ms)| format!("{} {max_ms:.0}", setup.name())).collect();
    let statement = "The modified lksctp has the lowest maximum.";
    Check::new(statement, lowest == Some(Setup::Modified), format!("in ms: {}", seen.join(", ")))
}

/// The paper: "a considerable number of packets with shorter latency".
fn tail_check(measured: &[(Setup, &DelayStatistics)]) -> Check {
    let mut seen = Vec::new();
    let mut holds = true;
    for quantile in [0.9995, 0.9998, 0.9999, 0.99999] {
        let at = |setup| {
            let (_, delays) = measured.iter().find(|(other, _)| *other == setup)?;
            delays.quantile(quantile).map(ms)
        };
        let modified_ms = at(Setup::Modified).unwrap_or(f64::INFINITY);
        let others = Setup::published().filter(|setup| *setup != Setup::Modified).filter_map(at);
        let others_ms = others.fold(f64::INFINITY, f64::min);
        holds &= modified_ms < others_ms;
        seen.push(format!("{modified_ms:.0} against {others_ms:.0} ms at {}", quantile * 100.0));
    }
    let statement = "In the tail beyond 0.999 the modified lksctp is earlier than every other set-up.";
    Check::new(statement, holds, seen.join(", ") + "%")
}

fn spurious_check(point: &PointSummary) -> Check {
    let of = |setup: Setup| point.values().get(&setup.spurious()).and_then(|value| value.mean());
    let modified = of(Setup::Modified).unwrap_or_default();
    let others = Setup::published().filter(|setup| *setup != Setup::Modified).filter_map(of).fold(0.0, f64::max);
    Check::new(
        "The modified lksctp retransmits in vain at least ten times as often as every other set-up.",
        modified >= 10.0 * others,
        format!("{modified:.3}% of packets against {others:.3}% at most"),
    )
}

/// What becomes of the gain without parts of the modifications. The gain is how much earlier, on average, a retransmission brought
/// a lost message.
struct Ablation {
    repair_ms: [f64; 6],
}

impl Ablation {
    const SETUPS: [Setup; 6] = [
        Setup::Lksctp,
        Setup::Modified,
        Setup::FixByAge,
        Setup::WithoutTimerFix,
        Setup::WithoutMinRto,
        Setup::WithoutEither,
    ];

    /// `None` if nothing was lost.
    fn of(point: &PointSummary) -> Option<Self> {
        let mean_ms = |setup: Setup| Some(ms(point.series().get(&setup.repair())?.all().mean()?));
        let mut repair_ms = [0.0; 6];
        for (repair_ms, setup) in repair_ms.iter_mut().zip(Self::SETUPS) {
            *repair_ms = mean_ms(setup)?;
        }
        Some(Self { repair_ms })
    }

    /// The share of the gain that is lost without a part.
    fn lost_without(&self, part: Setup) -> f64 {
        let [lksctp, modified, ..] = self.repair_ms;
        let of_part = Self::SETUPS.iter().zip(self.repair_ms).find(|(setup, _)| **setup == part);
        of_part.map_or(0.0, |(_, repair_ms)| (repair_ms - modified) / (lksctp - modified))
    }
}

fn section_5_2_check(point: &PointSummary) -> Check {
    let statement =
        "Most of the gain comes from section 5.2, the shorter minimum RTO with the fix of the timer's restart.";
    let Some(ablation) = Ablation::of(point) else { return Check::skipped(statement, "nothing was lost") };
    let repairs = Ablation::SETUPS.iter().zip(ablation.repair_ms);
    let seen: Vec<String> = repairs.map(|(setup, repair_ms)| format!("{repair_ms:.0} ms, {}", setup.name())).collect();
    let holds = ablation.lost_without(Setup::WithoutEither) > 0.5;
    Check::new(statement, holds, format!("until a retransmission brought a message, on average: {}", seen.join("; ")))
}

/// The difference of the largest and the smallest number.
fn spread(measured: &[(Setup, &DelayStatistics)], number: impl Fn(&DelayStatistics) -> Option<f64>) -> f64 {
    let numbers = measured.iter().filter_map(|(_, delays)| number(delays));
    let (low, high) = numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), n| (low.min(n), high.max(n)));
    (high - low).max(0.0)
}

fn ms(delay: std::time::Duration) -> f64 {
    delay.as_secs_f64() * 1e3
}
