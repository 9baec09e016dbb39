//! `r12-fig3`: the inefficiency of FORWARD-TSN by message size (R12 §III-C, Fig. 3).

use super::r12::{self, OF_2012, r12_network, r12_senders};
use crate::assumption::Assumption;
use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::{Check, Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Parameter, Point};
use crate::samples::Samples;
use crate::summary::{Repeated, Results};

/// "No significant change": within so large a share. The bound is ours.
const UNCHANGED: f64 = 0.15;

/// The delay of important messages by message size and share.
#[derive(Clone, Copy, Debug)]
pub struct R12Fig3;

impl Experiment for R12Fig3 {
    fn description(&self) -> Description {
        Description {
            name: "r12-fig3",
            title: "Average delay of important messages by their size and share",
            reference: "Rajiullah and Brunstrom 2012, Fig. 3 (section III-C)",
            about: concat!(r12_network!(), "\n\n", r12_senders!()),
            plan: include_str!("../../../../experiments/r12-fig3.toml"),
            question: "How long do important messages take with the sender of 2012, by the size and the mixture of the messages?",
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
        vec![
            worst_check(results),
            size_check(results),
            overhead_check(results),
            sizes_check(results),
            normal_check(results),
        ]
    }

    fn beside_delays(&self) -> &'static [&'static str] {
        r12::BESIDE_DELAYS
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let by_sizes = |sizes: &String| {
            let title = format!("Important messages beside TCP, sizes {sizes}");
            r12::chart(results, &title, |summary| {
                let point = summary.point();
                let is_shown = point.choice("sizes") == sizes && point.choice("sender") == OF_2012;
                is_shown.then(|| format!("mean size {}", point.bytes("size")))
            })
        };
        let senders = r12::chart_by_sender(results, "Important messages beside TCP by sender, 72 bytes", |point| {
            point.bytes("size").bytes() == 72 && point.choice("sizes") == "fixed"
        });
        r12::values(results, "sizes").iter().filter_map(by_sizes).chain(senders).collect()
    }
}

fn average<'r>(results: &'r Results, sizes: &str, size: &str, important: &str) -> Option<&'r Repeated> {
    let settings = [("sender", OF_2012), ("sizes", sizes), ("size", size), ("important", important)];
    r12::average_at(results, &settings)
}

fn ratio(over: Option<&Repeated>, under: Option<&Repeated>) -> Option<Estimate> {
    Estimate::ratio(over?, under?)
}

fn worst_check(results: &Results) -> Check {
    let worst = average(results, "fixed", "72B", "50%");
    let mut evidence = Evidence::new();
    for size in r12::values(results, "size") {
        for important in r12::values(results, "important") {
            if (size.as_str(), important.as_str()) != ("72B", "50%") {
                let over = ratio(worst, average(results, "fixed", &size, &important));
                evidence.cell(format!("over {size}, {important}:"), over, Bound::MoreThan(1.0));
            }
        }
    }
    evidence.check("The average delay is highest with 72 bytes and 50% important messages (fixed sizes).").id("worst")
}

/// "The results for normal messages are very similar" (§III-C): within a quarter. The bound is ours.
fn normal_check(results: &Results) -> Check {
    let mut evidence = Evidence::new();
    for summary in results.matching(&[("sender", OF_2012), ("sizes", "fixed")]) {
        let mean = |series: &str| summary.series().get(series).map(crate::summary::SeriesSummary::mean_s);
        let Some(normal) = mean(r12::NORMAL).filter(|normal| !normal.values().is_empty()) else { continue };
        let over = ratio(Some(normal), mean(r12::IMPORTANT));
        evidence.cell(
            format!("normal over important at {}:", results.plan().label(summary.point())),
            over,
            Bound::about(1.0, 0.25),
        );
    }
    evidence.check("Normal messages have the average delay of important ones: within a quarter.").id("normal-similar")
}

fn size_check(results: &Results) -> Check {
    let mut evidence = Evidence::new();
    for pair in r12::values(results, "size").windows(2) {
        for important in r12::values(results, "important") {
            let [small, large] = [&pair[0], &pair[1]].map(|size| average(results, "fixed", size, &important));
            let what = format!("{} over {}, {important}:", pair[0], pair[1]);
            evidence.cell(what, ratio(small, large), Bound::MoreThan(1.0));
        }
    }
    evidence.check("The larger the messages, the lower their average delay (fixed sizes).").id("size")
}

fn overhead_check(results: &Results) -> Check {
    let mut evidence = Evidence::new();
    for sizes in ["fixed", "normal"] {
        let [small, large] = ["72B", "716B"].map(|size| average(results, sizes, size, "100%"));
        evidence.cell(format!("72B over 716B, {sizes}:"), ratio(small, large), Bound::MoreThan(1.0));
    }
    evidence
        .check("If all messages are important, the smallest take longer than the largest: more headers.")
        .id("overhead")
}

fn sizes_check(results: &Results) -> Check {
    let mut evidence = Evidence::new();
    for size in r12::values(results, "size") {
        for important in r12::values(results, "important") {
            let [normal, fixed] = ["normal", "fixed"].map(|sizes| average(results, sizes, &size, &important));
            let over = ratio(normal, fixed).map(|ratio| ratio.plus(-1.0));
            evidence.cell(format!("{size}, {important}: more by"), over, Bound::Within(-UNCHANGED, UNCHANGED));
        }
    }
    evidence.check("Normally distributed sizes change nothing significantly: within 15%.").id("normal-sizes")
}
