//! `r15-parking-lot`: messages of mixed importance through several bottlenecks in a row (R15, Paper VI §4.2.3).

use super::r12::{self, NR_SACK, OF_2012, r12_network, r12_senders};
use crate::assumption::Assumption;
use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::{Check, Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Parameter, Point};
use crate::samples::Samples;
use crate::summary::Results;

/// The delay of important messages behind one bottleneck and behind several.
#[derive(Clone, Copy, Debug)]
pub struct R15ParkingLot;

impl Experiment for R15ParkingLot {
    fn description(&self) -> Description {
        Description {
            name: "r15-parking-lot",
            title: "Average delay of important messages through several bottlenecks in a row",
            reference: "Rajiullah et al. 2015, concurrent flows (Paper VI of the thesis, §4.2.3)",
            about: concat!(
                "R15 tells that PR-SCTP was tried in a parking lot, and nothing of it in text: all but what R12 states is our choice. Bottlenecks \
             stand in a row, each with four TCP flows of its own, and the association crosses all of them. For the rest:\n\n",
                r12_network!(),
                "\n\n",
                r12_senders!()
            ),
            plan: include_str!("../../../../experiments/r15-parking-lot.toml"),
            question: "Does NR-SACK help important messages through several bottlenecks as it does through one?",
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
        let average = |sender: &str, hops: &str| {
            r12::average_at(results, &[("sender", sender), ("hops", hops), ("important", "50%")])
        };
        let (mut gains, mut costs) = (Evidence::new(), Evidence::new());
        let hops = r12::values(results, "hops");
        for hops in &hops {
            let pair = average(NR_SACK, hops).zip(average(OF_2012, hops));
            let ratio = pair.and_then(|(with, without)| Estimate::ratio(with, without));
            gains.cell(format!("{hops} bottlenecks, ratio:"), ratio, Bound::LessThan(1.0));
        }
        for pair in hops.windows(2) {
            let ratio = average(OF_2012, &pair[1]).zip(average(OF_2012, &pair[0]));
            let ratio = ratio.and_then(|(more, less)| Estimate::ratio(more, less));
            costs.cell(format!("{} over {} bottlenecks:", pair[1], pair[0]), ratio, Bound::MoreThan(1.0));
        }
        vec![
            gains.check("NR-SACK lowers the average delay behind any number of bottlenecks, half of the messages being important.").id("gains"),
            costs.check("The more bottlenecks, the higher the average delay."),
        ]
    }

    fn beside_delays(&self) -> &'static [&'static str] {
        r12::BESIDE_DELAYS
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let chart = r12::chart(results, "Important messages through bottlenecks in a row", |summary| {
            let point = summary.point();
            let hops = point.count("hops");
            Some(format!("{}, {hops} in a row", point.choice("sender")))
        });
        chart.into_iter().collect()
    }
}
