//! `r12-sequences`: how a sender moves its peer past lost messages, packet by packet (R12 §IV-B, Fig. 5 and 6).

mod scene;

use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::{Check, Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::summary::Results;
use scene::{Case, Scene};

/// Round trips from the repair of the loss to when the sender knows that everything is settled.
const ROUND_TRIPS: &str = "round trips to recover";
const FORWARD_TSNS: &str = "FORWARD-TSN sent";
/// 1 if the packets of the repair are those of the figure.
const AS_DRAWN: &str = "as in the paper's figure";

const OFF: &str = "off";
const ON: &str = "on";

/// The two cases with and without NR-SACK.
#[derive(Clone, Copy, Debug)]
pub struct R12Sequences;

impl Experiment for R12Sequences {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/r12-sequences.toml")).description
    }

    fn run(&self, point: &Point, _seed: u64) -> Samples {
        let scene = scene(point);
        let run = scene.run();
        let mut samples = Samples::new();
        samples.set(FORWARD_TSNS, crate::count::as_f64(run.forwards().count()));
        if let Some(published) = scene.published() {
            samples.set(AS_DRAWN, f64::from(u8::from(run.repairs() == published)));
        }
        if let Some(recovery) = run.recovery() {
            samples.set(ROUND_TRIPS, recovery.as_secs_f64() / point.duration("rtt").as_secs_f64());
        }
        samples
    }

    fn is_random(&self, _point: &Point) -> bool {
        false
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        let of = |case, nr_sack, value| exact(results, case, nr_sack, value);
        let mut evidence = Evidence::new();
        for case in ["fig5", "fig6"] {
            for nr_sack in [OFF, ON] {
                evidence.cell(format!("{case}, NR-SACK {nr_sack}:"), of(case, nr_sack, AS_DRAWN), Bound::MoreThan(0.5));
            }
        }
        let mut checks = vec![evidence.check("The packets of the repair are those that R12 describes.").id("packets")];
        for (case, least, statement) in [
            ("fig5", 1.0, "Case 1: NR-SACK saves a round trip."),
            ("fig6", 2.0, "Case 2: NR-SACK saves two round trips."),
        ] {
            let saved = of(case, OFF, ROUND_TRIPS).zip(of(case, ON, ROUND_TRIPS));
            let mut evidence = Evidence::new();
            // Delays are exact, so a round trip is one but for rounding.
            evidence.cell("saved:", saved.map(|(off, on)| off.plus(-on.mean)), Bound::MoreThan(least - 0.01));
            checks.push(evidence.check(statement).id(format!("{case}-gain")));
        }
        checks.extend(scenarios(results));
        checks
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        results.points().iter().map(|summary| scene(summary.point()).figure()).collect()
    }
}

/// How many messages each of R12's scenarios loses.
const SCENARIOS: [(&str, [u32; 3]); 2] = [("burst", [4, 8, 12]), ("apart", [2, 3, 4])];

/// What §III-A says of both scenarios, and §IV-B of runs of losses.
fn scenarios(results: &Results) -> Vec<Check> {
    let trips = |case: &str, nr_sack| exact(results, case, nr_sack, ROUND_TRIPS);
    let less =
        |one: Option<Estimate>, other: Option<Estimate>| one.zip(other).map(|(one, other)| one.plus(-other.mean));
    let gain = |case: &str| less(trips(case, OFF), trips(case, ON));
    let (mut faster, mut grows, mut gains) = (Evidence::new(), Evidence::new(), Evidence::new());
    for (scenario, counts) in SCENARIOS {
        let name = |count: u32| format!("{scenario}-{count}");
        for count in counts {
            let reliable = trips(&format!("{scenario}-{count}-reliable"), OFF);
            let slower = less(trips(&name(count), OFF), reliable);
            faster.cell(
                format!("{}, round trips more than if all are reliable:", name(count)),
                slower,
                Bound::MoreThan(0.99),
            );
        }
        for pair in counts.windows(2) {
            let more = less(trips(&name(pair[1]), OFF), trips(&name(pair[0]), OFF));
            grows.cell(
                format!("round trips from {} to {}:", name(pair[0]), name(pair[1])),
                more,
                Bound::MoreThan(0.01),
            );
            if scenario == "burst" {
                let more = less(gain(&name(pair[1])), gain(&name(pair[0])));
                gains.cell(
                    format!("round trips saved, {} less {}:", name(pair[1]), name(pair[0])),
                    more,
                    Bound::MoreThan(0.01),
                );
            }
        }
    }
    let mut one = Evidence::new();
    for case in ["unreliable-4", "unreliable-12"] {
        one.cell(
            format!("FORWARD-TSN sent, {case}:"),
            exact(results, case, OFF, FORWARD_TSNS),
            Bound::about(1.0, 0.01),
        );
    }
    vec![
        one.check("If all lost messages are unreliable, one FORWARD-TSN passes over them.").id("one-forward-tsn"),
        faster.check("If all messages are reliable, recovery takes at least a round trip less.").id("reliable-faster"),
        grows.check("The more messages are lost, the longer recovery takes.").id("grows"),
        gains.check("The longer the run of lost messages, the more round trips NR-SACK saves.").id("gain-grows"),
    ]
}

fn scene(point: &Point) -> Scene {
    Scene {
        case: Case::of(point),
        nr_sack: point.choice("nr_sack") == ON,
        enhanced: point.choice("enhanced") == ON,
        rtt: point.duration("rtt"),
    }
}

fn exact(results: &Results, case: &str, nr_sack: &str, value: &str) -> Option<Estimate> {
    let summary = results.matching(&[("case", case), ("nr_sack", nr_sack), ("enhanced", OFF)]).next()?;
    summary.values().get(value)?.mean().map(Estimate::exact)
}
