//! `r15-buffering`: what queues that count packets and what the headers of chunks do to small messages (R15 §3.6).

use super::r12::{self, OF_2012, r12_network, r12_senders};
use crate::assumption::Assumption;
use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::{Check, Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Parameter, Point};
use crate::samples::Samples;
use crate::summary::{Repeated, Results};

/// "A large part": a quarter of the payload. The bound is ours.
const LARGE_PART: f64 = 1.25;

/// Small messages in front of queues that count bytes or packets.
#[derive(Clone, Copy, Debug)]
pub struct R15Buffering;

impl Experiment for R15Buffering {
    fn description(&self) -> Description {
        Description {
            name: "r15-buffering",
            title: "Small messages in front of queues that count bytes or packets",
            reference: "Rajiullah et al. 2015, §3.6",
            about: concat!(
                "The queue of R12's bottleneck is limited in bytes, or in packets of any size: as many as if all had 1,500 bytes. With nagle \
             off small messages \
             leave in small packets. How many packets are lost for each byte of payload, of these messages and of TCP's full packets, and how many bytes does the sender send for each \
             byte of payload? For the rest:\n\n",
                r12_network!(),
                "\n\n",
                r12_senders!()
            ),
            plan: include_str!("../../../../experiments/r15-buffering.toml"),
            question: "What do queues that count packets, and headers of chunks, cost small messages?",
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
        let (mut per_byte, mut headers) = (Evidence::new(), Evidence::new());
        for nagle in r12::values(results, "nagle") {
            let value = |size: &str, buffering: &str, name: &str| {
                let settings =
                    [("sender", OF_2012), ("nagle", nagle.as_str()), ("size", size), ("buffering", buffering)];
                results.matching(&settings).find_map(|summary| summary.values().get(name)).cloned()
            };
            if nagle == "off" {
                let [ours, theirs] =
                    [r12::LOSSES_PER_MB, r12::TCP_LOSSES_PER_MB].map(|name| value("72B", "packets", name));
                per_byte.cell("losses per byte, 72 bytes over TCP:", ratio(ours, theirs), Bound::MoreThan(1.0));
                let sent = value("72B", "bytes", r12::OVERHEAD).and_then(|sent| Estimate::of(&sent));
                headers.cell("bytes sent per byte of 72-byte messages:", sent, Bound::MoreThan(LARGE_PART));
            }
            let [tiny, large] = ["72B", "716B"].map(|size| value(size, "bytes", r12::OVERHEAD));
            headers.cell(format!("nagle {nagle}, 72 over 716 bytes:"), ratio(tiny, large), Bound::MoreThan(1.0));
        }
        vec![
            per_byte
                .check("Where queues count packets, messages of 72 bytes have more losses per byte than TCP's full packets.")
                .id("losses-per-byte"),
            headers
                .check("Messages of 72 bytes cost a quarter more bytes than their payload at least, and more than those of 716 do.")
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
            let is_shown = point.choice("sender") == OF_2012;
            is_shown.then(|| format!("{size}, {} queue, nagle {nagle}", point.choice("buffering")))
        });
        chart.into_iter().collect()
    }
}

fn ratio(over: Option<Repeated>, under: Option<Repeated>) -> Option<Estimate> {
    Estimate::ratio(&over?, &under?)
}
