//! The cells of Tables 1 to 3 of G02, and where a run's results have theirs.

use super::{MEAN_MS, THROUGHPUT, WITHIN_200, WITHIN_500};
use crate::evidence::Estimate;
use crate::summary::{PointSummary, Repeated, Results};

/// The kinds of streams, in the order of the tables; those from `target` on are ours.
pub(super) const KINDS: [&str; 8] = ["std", "m10", "m13", "m20", "target", "festina", "festina-m13", "festina-target"];

/// What a table reports of a stream at a rate and a round-trip time.
pub(super) struct Published {
    pub(super) rate: &'static str,
    pub(super) rtt: &'static str,
    pub(super) kind: &'static str,
    pub(super) within_200: f64,
    pub(super) within_500: f64,
    pub(super) mean_ms: f64,
    pub(super) throughput: f64,
}

type Numbers = (f64, f64, f64, f64);

/// A row of the three tables: 100, 50 and 25 ms.
const ROWS: [(&str, &str, [Numbers; 3]); 8] = [
    ("30Mbit/s", "std", [(0.73, 0.91, 226.31, 1.0), (0.72, 0.92, 218.84, 1.0), (0.84, 0.94, 138.61, 1.0)]),
    ("30Mbit/s", "m10", [(0.99, 1.0, 62.91, 0.66), (0.99, 1.0, 37.09, 0.71), (1.0, 1.0, 19.71, 0.76)]),
    ("30Mbit/s", "m13", [(0.98, 1.0, 76.19, 0.96), (0.99, 0.99, 51.54, 0.87), (0.99, 1.0, 28.29, 0.92)]),
    ("30Mbit/s", "m20", [(0.91, 0.99, 152.14, 1.02), (0.97, 0.99, 89.74, 1.13), (0.99, 1.0, 48.21, 0.91)]),
    ("12Mbit/s", "std", [(0.53, 0.80, 369.22, 1.0), (0.62, 0.88, 260.27, 1.0), (0.60, 0.86, 296.25, 1.0)]),
    ("12Mbit/s", "m10", [(0.98, 1.0, 69.73, 0.67), (0.99, 1.0, 38.50, 0.76), (0.99, 1.0, 25.94, 0.89)]),
    ("12Mbit/s", "m13", [(0.95, 0.99, 91.42, 0.92), (0.99, 1.0, 49.17, 1.06), (0.98, 1.0, 39.08, 1.08)]),
    ("12Mbit/s", "m20", [(0.86, 0.99, 162.26, 1.13), (0.97, 0.99, 87.90, 1.08), (0.98, 0.99, 61.31, 1.12)]),
];
const RTTS: [&str; 3] = ["100ms", "50ms", "25ms"];

/// All published cells, in the order of the tables.
pub(super) fn published() -> impl Iterator<Item = Published> {
    ROWS.iter().flat_map(|&(rate, kind, columns)| {
        RTTS.into_iter().zip(columns).map(move |(rtt, (within_200, within_500, mean_ms, throughput))| Published {
            rate,
            rtt,
            kind,
            within_200,
            within_500,
            mean_ms,
            throughput,
        })
    })
}

/// The streams of a run at one rate, round-trip time and kind of router.
pub(super) struct Cell<'a> {
    pub(super) name: String,
    kinds: [Option<&'a PointSummary>; KINDS.len()],
}

impl<'a> Cell<'a> {
    /// The cells of a run whose routers mark or do not, in the order of the plan, with the first queue of the plan.
    pub(super) fn all(results: &'a Results, marking: &str) -> Vec<Self> {
        Self::with(results, &[("marking", marking)])
    }

    fn with(results: &'a Results, wanted: &[(&str, &str)]) -> Vec<Self> {
        let mut cells: Vec<Self> = Vec::new();
        for rate in ["30Mbit/s", "12Mbit/s"] {
            for rtt in RTTS {
                let at = |kind| {
                    let settings = [&[("rate", rate), ("rtt", rtt), ("stream", kind)], wanted].concat();
                    results.matching(&settings).next()
                };
                let cell = Self { name: format!("{rate}, {rtt}"), kinds: KINDS.map(at) };
                if cell.kinds.iter().any(Option::is_some) {
                    cells.push(cell);
                }
            }
        }
        cells
    }

    pub(super) fn point(&self, kind: &str) -> Option<&'a PointSummary> {
        let index = KINDS.iter().position(|known| *known == kind)?;
        self.kinds[index]
    }

    pub(super) fn value(&self, kind: &str, name: &str) -> Option<&'a Repeated> {
        self.point(kind)?.values().get(name)
    }

    pub(super) fn estimate(&self, kind: &str, name: &str) -> Option<Estimate> {
        Estimate::of(self.value(kind, name)?)
    }

    /// How many times as large a number is for one stream as for another, in the same repetitions.
    pub(super) fn ratio(&self, [over, under]: [&str; 2], name: &str) -> Option<Estimate> {
        Estimate::ratio(self.value(over, name)?, self.value(under, name)?)
    }
}

/// Ours for a published cell.
pub(super) fn ours(results: &Results, cell: &Published) -> [Option<Estimate>; 4] {
    let cells = Cell::all(results, "off");
    let name = format!("{}, {}", cell.rate, cell.rtt);
    let Some(found) = cells.iter().find(|it| it.name == name) else { return [None; 4] };
    [
        found.estimate(cell.kind, WITHIN_200),
        found.estimate(cell.kind, WITHIN_500),
        found.estimate(cell.kind, MEAN_MS),
        found.ratio([cell.kind, "std"], THROUGHPUT),
    ]
}
