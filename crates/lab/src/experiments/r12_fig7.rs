//! `r12-fig7`: what NR-SACK does for messages of mixed importance (R12 §IV, Fig. 7).

use super::r12::{self, FESTINA, LATE_BINDING, NR_SACK, OF_2012, r12_network, r12_senders};
use crate::assumption::{Assumption, stated};
use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::{Check, Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Kind, Parameter, Point};
use crate::samples::Samples;
use crate::summary::Results;

/// What R12 names: share of important messages, and by how much NR-SACK lowers their delay at least.
const REDUCTIONS: [(&str, f64); 2] = [("1%", 0.75), ("50%", 0.65)];
/// "Coincide": within so large a share. The bound is ours.
const COINCIDE: f64 = 0.05;
/// A smaller gain is none. The bound is ours.
const NO_GAIN: f64 = 0.05;
/// The sizes from which on R12 finds no gain.
const LARGE: [&str; 2] = ["348B", "716B"];
const SMALL: &str = "72B";
const BASE_LOAD: &str = "30%";

/// The delay of important messages with and without NR-SACK.
#[derive(Clone, Copy, Debug)]
pub struct R12Fig7;

impl Experiment for R12Fig7 {
    fn description(&self) -> Description {
        Description {
            name: "r12-fig7",
            title: "Average delay of important messages with and without NR-SACK",
            reference: "Rajiullah and Brunstrom 2012, Fig. 7 (section IV-C)",
            about: concat!(r12_network!(), "\n\n", r12_senders!()),
            plan: include_str!("../../../../experiments/r12-fig7.toml"),
            question: "How much sooner do important messages arrive if the sender passes over what NR-SACK says the receiver has for good?",
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        let mut parameters = r12::parameters();
        let about = "whether messages that expire in the send buffer never leave";
        parameters.push(Parameter { name: LATE_BINDING, about, kind: Kind::Choice(r12::SWITCH) });
        parameters
    }

    fn assumptions(&self) -> Vec<Assumption> {
        let mut assumptions = r12::assumptions();
        assumptions.push(stated(LATE_BINDING, "§IV-C: FreeBSD 8.2 does not drop them, and it would help"));
        assumptions
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        r12::run(point, seed)
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        let mut checks: Vec<Check> =
            REDUCTIONS.iter().map(|(important, least)| reduction_check(results, important, *least)).collect();
        checks.push(coincidence_check(results));
        checks.push(growth_check(results));
        checks.push(size_check(results));
        checks.push(small_check(results));
        checks.push(load_check(results));
        checks.push(late_binding_check(results));
        checks.push(festina_check(results));
        checks
    }

    fn beside_delays(&self) -> &'static [&'static str] {
        r12::BESIDE_DELAYS
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let figure = |size: &str, load: &str| {
            let title = format!("Important messages beside TCP: mean size {size}, load {load}");
            r12::chart(results, &title, |summary| {
                let point = summary.point();
                let is = |name: &str, value: &str| point.value(name).is_some_and(|it| it.to_string() == value);
                (is("size", size) && is("load", load) && is(LATE_BINDING, "off"))
                    .then(|| point.choice("sender").to_owned())
            })
        };
        let mut figures = Vec::new();
        for size in r12::values(results, "size") {
            figures.extend(loads(results, &size).iter().filter_map(|load| figure(&size, load)));
        }
        figures
    }
}

/// By how much the second sender is below the first, as a share of the first.
fn reduction(results: &Results, cell: &[(&str, &str)], [from, to]: [&str; 2]) -> Option<Estimate> {
    let of = |sender| r12::average_at(results, &[cell, &[("sender", sender)]].concat());
    let ratio = Estimate::ratio(of(to)?, of(from)?)?;
    Some(ratio.times(-1.0).plus(1.0))
}

fn reduction_check(results: &Results, important: &str, least: f64) -> Check {
    let statement = format!(
        "At 72 bytes, {BASE_LOAD} load and {important} important messages, NR-SACK lowers their average delay by more than {:.0}%.",
        least * 100.0
    );
    let mut evidence = Evidence::new();
    let cell = [("size", SMALL), ("load", BASE_LOAD), ("important", important)];
    let reduction = reduction(results, &cell, [OF_2012, NR_SACK]);
    evidence.cell("lower by a share of", reduction, Bound::MoreThan(least));
    evidence.check(statement).id(format!("gain-{important}"))
}

fn coincidence_check(results: &Results) -> Check {
    let mut evidence = Evidence::new();
    for size in r12::values(results, "size") {
        for load in loads(results, &size) {
            let cell = [("size", size.as_str()), ("load", load.as_str()), ("important", "100%")];
            let difference = reduction(results, &cell, [OF_2012, NR_SACK]);
            evidence.cell(format!("{size} at {load}: lower by"), difference, Bound::Within(-COINCIDE, COINCIDE));
        }
    }
    evidence
        .check("If all messages are important, the delays with and without NR-SACK coincide: within 5%.")
        .id("coincide")
}

/// The loads that there are with messages of a size.
fn loads(results: &Results, size: &str) -> Vec<String> {
    let loads = r12::values(results, "load");
    loads.into_iter().filter(|load| results.matching(&[("size", size), ("load", load)]).next().is_some()).collect()
}

fn growth_check(results: &Results) -> Check {
    let mut evidence = Evidence::new();
    let shares = r12::values(results, "important");
    for load in loads(results, SMALL) {
        for pair in shares.windows(2) {
            let at = |important: &str| {
                let settings =
                    [("sender", NR_SACK), ("size", SMALL), ("load", load.as_str()), ("important", important)];
                r12::average_at(results, &settings)
            };
            let growth = at(&pair[1]).zip(at(&pair[0])).and_then(|(more, less)| Estimate::ratio(more, less));
            let what = format!("load {load}, {} over {}:", pair[1], pair[0]);
            evidence.cell(what, growth, Bound::MoreThan(1.0));
        }
    }
    evidence
        .check("With NR-SACK and 72 bytes, the average delay grows with the share of important messages.")
        .id("growth")
}

fn size_check(results: &Results) -> Check {
    let mut evidence = Evidence::new();
    for size in LARGE {
        for important in r12::values(results, "important") {
            let cell = [("size", size), ("load", BASE_LOAD), ("important", important.as_str())];
            let gain = reduction(results, &cell, [OF_2012, NR_SACK]);
            evidence.cell(format!("{size}, {important}: lower by"), gain, Bound::LessThan(NO_GAIN));
        }
    }
    evidence.check("From 348 bytes on, NR-SACK gains nothing: less than 5%.").id("large")
}

/// "When message sizes become smaller than 348 bytes, PR-SCTP with NR-SACKs starts to show gain" (§IV-C): with fewer than all important.
fn small_check(results: &Results) -> Check {
    let mut evidence = Evidence::new();
    for size in r12::values(results, "size").into_iter().filter(|size| !LARGE.contains(&size.as_str())) {
        for important in r12::values(results, "important").into_iter().filter(|share| share != "100%") {
            let cell = [("size", size.as_str()), ("load", BASE_LOAD), ("important", important.as_str())];
            let gain = reduction(results, &cell, [OF_2012, NR_SACK]);
            evidence.cell(format!("{size}, {important}: lower by"), gain, Bound::MoreThan(0.0));
        }
    }
    evidence.check("Below 348 bytes NR-SACK gains.").id("small-gain")
}

/// "Dropping expired messages from the send buffer will improve PR-SCTP performance in general, our optimization will not be affected" (§IV-C).
fn late_binding_check(results: &Results) -> Check {
    let mut evidence = Evidence::new();
    for important in ["1%", "50%"] {
        let cell = [("size", SMALL), ("load", BASE_LOAD), ("important", important)];
        let of = |sender, late| {
            r12::average_at(results, &[cell.as_slice(), &[("sender", sender), (LATE_BINDING, late)]].concat())
        };
        let [plain, late, both] =
            [(OF_2012, "off"), (OF_2012, "on"), (NR_SACK, "on")].map(|(sender, late)| of(sender, late));
        for (what, from, to) in [("late binding", plain, late), ("NR-SACK beside it", late, both)] {
            let ratio = to.zip(from).and_then(|(to, from)| Estimate::ratio(to, from));
            evidence.cell(format!("{what}, {important}: ratio"), ratio, Bound::LessThan(1.0));
        }
    }
    evidence
        .check("Without messages that expired in the send buffer the delay is lower, and NR-SACK lowers it further.")
        .id("late-binding")
}

fn load_check(results: &Results) -> Check {
    let mut evidence = Evidence::new();
    for load in loads(results, SMALL) {
        let cell = [("size", SMALL), ("load", load.as_str()), ("important", "50%")];
        let gain = reduction(results, &cell, [OF_2012, NR_SACK]);
        evidence.cell(format!("load {load}: lower by"), gain, Bound::MoreThan(0.0));
    }
    evidence
        .check(
            "At 72 bytes NR-SACK lowers the average delay at other loads, too, half of the messages being important.",
        )
        .id("loads")
}

fn festina_check(results: &Results) -> Check {
    let mut evidence = Evidence::new();
    for size in r12::values(results, "size") {
        for load in loads(results, &size) {
            for important in r12::values(results, "important") {
                let cell = [("size", size.as_str()), ("load", load.as_str()), ("important", important.as_str())];
                let gain = reduction(results, &cell, [NR_SACK, FESTINA]);
                evidence.cell(format!("{size}, load {load}, {important}: lower by"), gain, Bound::MoreThan(0.0));
            }
        }
    }
    evidence.check("Festina's own: all of it together is faster than the sender that R12 proposes, in every cell.")
}
