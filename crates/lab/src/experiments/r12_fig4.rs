//! `r12-fig4`: the inefficiency of FORWARD-TSN by load (R12 §III-C, Fig. 4).

use super::r12::{self, OF_2012, r12_network, r12_senders};
use crate::assumption::Assumption;
use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::{Check, Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Parameter, Point};
use crate::samples::Samples;
use crate::summary::Results;

/// "Considerably higher": by a tenth. The bound is ours.
const CONSIDERABLY: f64 = 1.1;
/// A sender keeps up while its messages take at most this many times as long at the end of the run as at its beginning. The bound is ours.
const KEEPS_UP: f64 = 1.5;
/// "No effect": less than a tenth. The bound is ours.
const NO_EFFECT: f64 = 1.1;

/// The delay of important messages by load and share.
#[derive(Clone, Copy, Debug)]
pub struct R12Fig4;

impl Experiment for R12Fig4 {
    fn description(&self) -> Description {
        Description {
            name: "r12-fig4",
            title: "Average delay of important messages by load and share",
            reference: "Rajiullah and Brunstrom 2012, Fig. 4 (section III-C)",
            about: concat!(r12_network!(), "\n\n", r12_senders!()),
            plan: include_str!("../../../../experiments/r12-fig4.toml"),
            question: "From which load on does the mixture of messages delay important ones with the sender of 2012?",
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        r12::parameters()
    }

    fn assumptions(&self) -> Vec<Assumption> {
        r12::assumptions()
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        r12::run(point, seed)
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        vec![half_check(results), low_load_check(results), growth_check(results), overload_check(results)]
    }

    fn beside_delays(&self) -> &'static [&'static str] {
        r12::BESIDE_DELAYS
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let by_size = |size: &String| {
            let title = format!("Important messages beside TCP: mean size {size}");
            r12::chart(results, &title, |summary| {
                let point = summary.point();
                let is_shown = point.bytes("size").to_string() == *size && point.choice("sender") == OF_2012;
                is_shown.then(|| point.value("load").map_or_else(String::new, |load| format!("load {load}")))
            })
        };
        let by_sender = |load: &String| {
            let title = format!("Important messages beside TCP by sender: mean size 72 bytes, load {load}");
            r12::chart_by_sender(results, &title, |point| {
                point.bytes("size").bytes() == 72 && point.value("load").is_some_and(|value| value.to_string() == *load)
            })
        };
        let loads = r12::values(results, "load");
        let of_senders = loads.iter().filter_map(by_sender);
        r12::values(results, "size").iter().filter_map(by_size).chain(of_senders).collect()
    }
}

/// How many times as long important messages take with one share of them as with another.
fn ratio(results: &Results, size: &str, load: &str, [over, under]: [&str; 2]) -> Option<Estimate> {
    let of = |important| {
        let settings = [("sender", OF_2012), ("size", size), ("load", load), ("important", important)];
        r12::average_at(results, &settings)
    };
    Estimate::ratio(of(over)?, of(under)?)
}

fn half_check(results: &Results) -> Check {
    let mut evidence = Evidence::new();
    for load in r12::values(results, "load").iter().filter(|load| *load != "15%") {
        for other in ["1%", "100%"] {
            let over = ratio(results, "72B", load, ["50%", other]);
            evidence.cell(format!("load {load}, 50% over {other}:"), over, Bound::MoreThan(CONSIDERABLY));
        }
    }
    evidence.check(
        "At 72 bytes and every load above 15%, the average delay is considerably higher, by a tenth, if half of the messages are important.",
    ).id("half")
}

fn low_load_check(results: &Results) -> Check {
    let mut evidence = Evidence::new();
    for other in ["1%", "100%"] {
        let over = ratio(results, "72B", "15%", ["50%", other]);
        evidence.cell(format!("50% over {other}:"), over, Bound::Within(1.0 / NO_EFFECT, NO_EFFECT));
    }
    evidence.check("At 72 bytes and 15% load the mixture has no effect: less than a tenth.").id("low-load")
}

/// "The average message delay increases as the fraction of important messages increases", "particularly noticeable at higher loads" (§III-C): from the
/// smallest to the largest, since the steps at a low load are too small to tell.
fn growth_check(results: &Results) -> Check {
    let mut evidence = Evidence::new();
    for load in r12::values(results, "load") {
        let growth = ratio(results, "716B", &load, ["100%", "1%"]);
        evidence.cell(format!("load {load}, 100% over 1%:"), growth, Bound::MoreThan(1.0));
    }
    evidence
        .check("At 716 bytes the average delay is longer if all messages are important than if few are, at each load.")
        .id("growth")
}

/// "PR-SCTP can hardly keep up with the application send rate" in the 80% load case (§III-C): messages queue up while the run lasts.
fn overload_check(results: &Results) -> Check {
    let mut evidence = Evidence::new();
    for (load, bound) in [("80%", Bound::MoreThan(KEEPS_UP.ln())), ("30%", Bound::LessThan(KEEPS_UP.ln()))] {
        let settings = [("sender", OF_2012), ("size", "716B"), ("load", load), ("important", "100%")];
        let growth = results.matching(&settings).find_map(|summary| summary.values().get(r12::LAST_OVER_FIRST));
        // Single runs are far above the others.
        let growth = growth.and_then(|ratio| Estimate::of(&ratio.map(f64::ln)));
        evidence.cell(format!("logarithm of the last third over the first, {load} load:"), growth, bound);
    }
    evidence
        .check(
            "At 716 bytes and 80% load the sender does not keep up: of important messages, if all are, the last third takes more than one \
             and a half times as long as the first third in the geometric mean, and at 30% load it does not.",
        )
        .id("overload")
}
