//! G02's statements on its tables and figures, and the requirements for a limit in time.

use super::cells::{Cell, KINDS, Published, ours, published};
use super::{MEAN_MS, Part};
use crate::count::as_f64;
use crate::evidence::{Bound, Estimate, Evidence, Judgement};
use crate::experiment::Check;
use crate::scoreboard::Entry;
use crate::summary::Results;

/// How far a share of Table 1 may be off: a quarter of it, and at least what rounding to two digits hides.
fn late_bound(published: f64) -> Bound {
    let margin = (published * 0.25).max(0.005);
    Bound::Within((published - margin).max(0.0), published + margin)
}

pub(super) fn scoreboard(part: Part, results: &Results) -> Vec<Entry> {
    let named = |cell: &Published, what: &str| format!("{what}: {}, {}, {}", cell.kind, cell.rate, cell.rtt);
    let entry = |cell: Published| {
        let [within_200, within_500, mean_ms, throughput] = ours(results, &cell);
        match part {
            Part::Table1 => {
                let late = |limit: &str, published: f64, within: Option<Estimate>| {
                    let what = named(&cell, &format!("share later than {limit} ms"));
                    let measured = within.map(|within| within.times(-1.0).plus(1.0));
                    Entry::inequality(what, "", late_bound(1.0 - published), measured)
                };
                vec![late("200", cell.within_200, within_200), late("500", cell.within_500, within_500)]
            }
            Part::Table2 => {
                let entry = Entry::value(named(&cell, "mean latency"), "ms", cell.mean_ms, mean_ms);
                vec![if cell.kind == "m10" { entry.fitted("the queue to this") } else { entry }]
            }
            Part::Table3 if cell.kind != "std" => {
                vec![Entry::value(named(&cell, "normalized throughput"), "", cell.throughput, throughput)]
            }
            _ => Vec::new(),
        }
    };
    published().flat_map(entry).collect()
}

/// The kinds of the paper whose buffer follows cwnd.
fn min_bufs() -> impl Iterator<Item = &'static str> {
    KINDS.into_iter().filter(|kind| kind.starts_with('m'))
}

/// "The deviation across runs is also much smaller" (§4.1), by the variances of the runs' means.
pub(super) fn steadier(results: &Results) -> Check {
    let cells = Cell::all(results, "off");
    let mut evidence = Evidence::new();
    for (cell, kind) in cells.iter().flat_map(|cell| min_bufs().map(move |kind| (cell, kind))) {
        let pair = cell.value(kind, MEAN_MS).zip(cell.value("std", MEAN_MS));
        let what = format!("{kind} over std at {}:", cell.name);
        match pair.and_then(|(ours, standard)| spread_ratio(ours.values(), standard.values())) {
            Some((ratio, judgement)) => evidence.judged(judgement, format!("{what} {ratio:.2}")),
            None => evidence.left_out(what),
        }
    }
    evidence.check("The mean latency varies less from run to run than standard TCP's.").id("steadier")
}

/// How many times as large the standard deviation of one set of runs is as that of another, and whether it is smaller, by the F distribution.
fn spread_ratio(ours: &[f64], others: &[f64]) -> Option<(f64, Judgement)> {
    use statrs::distribution::{ContinuousCDF as _, FisherSnedecor};
    use statrs::statistics::Statistics as _;
    let freedom = |values: &[f64]| as_f64(values.len()) - 1.0;
    let variances = FisherSnedecor::new(freedom(ours), freedom(others)).ok()?;
    let ratio = ours.variance() / others.variance();
    let below = variances.cdf(ratio);
    let judgement = match () {
        () if below < 0.025 => Judgement::Holds,
        () if below > 0.975 => Judgement::Broken,
        () => Judgement::Undecided,
    };
    ratio.is_finite().then(|| (ratio.sqrt(), judgement))
}
