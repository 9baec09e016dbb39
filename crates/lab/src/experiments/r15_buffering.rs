//! `r15-buffering`: what queues that count packets and what the headers of chunks do to small messages (R15 §3.6).

use super::r12::{self, OF_2012, r12_network, r12_senders};
use crate::assumption::Assumption;
use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::{Check, Comparison, Experiment};
use crate::figure::Figure;
use crate::plan::{Parameter, Point};
use crate::samples::Samples;
use crate::summary::{Repeated, Results};

/// Small messages in front of queues that count bytes or packets.
#[derive(Clone, Copy, Debug)]
pub struct R15Buffering;

impl Experiment for R15Buffering {
    fn name(&self) -> &'static str {
        "r15-buffering"
    }

    fn title(&self) -> &'static str {
        "Small messages in front of queues that count bytes or packets"
    }

    fn reference(&self) -> &'static str {
        "Rajiullah et al. 2015, §3.6"
    }

    fn about(&self) -> &'static str {
        concat!(
            "The queue of R12's bottleneck counts bytes, or as many packets of 1,500 bytes, whatever their sizes. With nagle off small messages \
             leave in small packets. How many of the messages are lost on their first way, and how many bytes does the sender send for each \
             byte of payload? For the rest:\n\n",
            r12_network!(),
            "\n\n",
            r12_senders!()
        )
    }

    fn plan(&self) -> &'static str {
        include_str!("../../../../experiments/r15-buffering.toml")
    }

    fn parameters(&self) -> Vec<Parameter> {
        r12::parameters()
    }

    fn assumptions(&self) -> Vec<Assumption> {
        r12::assumptions()
    }

    fn question(&self) -> &'static str {
        "What do queues that count packets, and headers of chunks, cost small messages?"
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        r12::run(point, seed)
    }

    fn comparisons(&self, _results: &Results) -> Vec<Comparison> {
        Vec::new()
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        let (mut small, mut headers) = (Evidence::new(), Evidence::new());
        for nagle in r12::values(results, "nagle") {
            let value = |size: &str, buffering: &str, name: &str| {
                let settings =
                    [("sender", OF_2012), ("nagle", nagle.as_str()), ("size", size), ("buffering", buffering)];
                results.matching(&settings).find_map(|summary| summary.values().get(name)).cloned()
            };
            if nagle == "off" {
                let [packets, bytes] = ["packets", "bytes"].map(|buffering| value("72B", buffering, r12::FIRST_LOST));
                small.cell("packets over bytes:", ratio(packets, bytes), Bound::MoreThan(1.0));
            }
            let [tiny, large] = ["72B", "716B"].map(|size| value(size, "bytes", r12::OVERHEAD));
            headers.cell(format!("nagle {nagle}, 72 over 716 bytes:"), ratio(tiny, large), Bound::MoreThan(1.0));
        }
        vec![
            small
                .check(
                    "Messages of 72 bytes in packets of their own are lost more often where the queue counts packets.",
                )
                .id("small-lost"),
            headers
                .check("Messages of 72 bytes cost more bytes for each byte of payload than those of 716.")
                .id("headers"),
        ]
    }

    fn beside_delays(&self) -> &'static [&'static str] {
        &[r12::FIRST_LOST, r12::OVERHEAD]
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let chart = r12::chart(results, "Important messages by the queue's measure", |summary| {
            let point = summary.point();
            let (size, nagle) = (point.bytes("size"), point.choice("nagle"));
            Some(format!("{size}, {} queue, nagle {nagle}", point.choice("buffering")))
        });
        chart.into_iter().collect()
    }
}

fn ratio(over: Option<Repeated>, under: Option<Repeated>) -> Option<Estimate> {
    Estimate::ratio(&over?, &under?)
}
