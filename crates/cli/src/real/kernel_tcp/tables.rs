//! Tables 1 to 3 of G02 with the kernel's own TCP. All three show the same runs.

use std::sync::LazyLock;
use std::time::Duration;

use festina_lab::assumption::{Assumption, chosen, fitted, stated};
use festina_lab::experiment::{Check, Description, Experiment, Objection};
use festina_lab::experiments::g02::mice::{BY_SHARE, objection};
use festina_lab::figure::{DelayDistribution, Figure, Threshold};
use festina_lab::plan::{Kind, Parameter, Point};
use festina_lab::samples::Samples;
use festina_lab::summary::{PointSummary, Results};
use festina_units::{Bandwidth, ByteCount, Probability};

use super::super::lateness;
use super::{
    CONGESTIONS, LATENCY, MEAN_MS, MICE_SHARE, SENDER_P90_MS, STREAMS, THROUGHPUT, WITHIN_200, cell, checks, mice,
    network,
};

/// The tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables;

static ABOUT: LazyLock<String> = LazyLock::new(|| {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "The kernel's own TCP, Linux {}, between two hosts on this machine: network namespaces that exist for the time of a run, joined by \
         an emulated network. A program writes packets as fast as its send buffer takes them, through a bottleneck that 15 elephants, \
         mice of 20 KB and constant bit rate come to share and leave again. There are as many mice as take about 30% of the \
         bottleneck, as the paper tuned them (mice_by). Measured is the time from the write to the read. std has the \
         kernel's own send buffer, which is megabytes today; m10, m13, m20 and target are limited by festina-minbuf, target to 50 ms in \
         the buffer; lowat-16k and lowat-128k have TCP_NOTSENT_LOWAT alone. The cross traffic has CUBIC and the kernel's send buffers.\n\n\
         Only data that is read before the profile ends counts. Packets that are in the buffer then are missing in latency and \
         throughput; with std these are seconds' worth.\n\n\
         The emulator says how late it delivered packets. Where more than one in a hundred was more than 0.5 ms late, in any run, \
         nothing is decided.",
        release.trim()
    )
});

impl Experiment for Tables {
    fn description(&self) -> Description {
        Description {
            name: "g02-tables",
            title: "Latency and throughput of kernel TCP",
            reference: "Goel et al. 2002, Tables 1 to 3 (§4.1, §4.2)",
            about: ABOUT.as_str(),
            plan: include_str!("../../../../../experiments/real/g02-tables.toml"),
            question: "What do latency and throughput of the kernel's TCP become when its send buffer follows cwnd or keeps a time?",
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        let parameter = |name, about, kind| Parameter { name, about, kind };
        let ms = Duration::from_millis;
        let rates = Bandwidth::from_bits_per_second(1_000_000)..=Bandwidth::from_bits_per_second(200_000_000);
        let share = |percent| Probability::from_percent(1)..=Probability::from_percent(percent);
        let bytes = ByteCount::from_bytes(100)..=ByteCount::from_bytes(10_000_000);
        vec![
            parameter("congestion", "the media stream's congestion control", Kind::Choice(&CONGESTIONS)),
            parameter("rate", "how fast the bottleneck is", Kind::Bandwidth(rates)),
            parameter("rtt", "the round-trip time when nothing waits", Kind::Duration(ms(1)..=ms(1_000))),
            parameter("stream", "how the media stream's send buffer is limited", Kind::Choice(&STREAMS)),
            parameter("queue", "queue limit, as a share of the bandwidth-delay product", Kind::Probability(share(100))),
            parameter("duration", "how long the profile lasts", Kind::Duration(ms(500)..=ms(3_600_000))),
            parameter("elephants", "how many there are", Kind::Count(0..=1_000)),
            parameter(
                "mice_by",
                "share: as many mice as take about 30% of the bottleneck; count: the number in mice",
                Kind::Choice(&[BY_SHARE, "count"]),
            ),
            parameter("mice", "how many there are, if mice_by is count", Kind::Count(0..=1_000)),
            parameter("mouse", "what each of them transfers", Kind::Bytes(bytes)),
            parameter("constant", "the share of the rate that constant bit rate takes", Kind::Probability(share(90))),
            parameter("spread", "within which time flows of a kind begin", Kind::Duration(ms(1)..=ms(10_000))),
        ]
    }

    fn assumptions(&self) -> Vec<Assumption> {
        vec![
            chosen("stream", "not in the paper").of(&["target", "lowat-16k", "lowat-128k"]),
            stated("stream", "§2.2: the streams that the paper compares"),
            chosen("congestion", "one of this kernel's; that of 2002 had New Reno with SACK"),
            stated("rate", "§3.2: 12 and 30 Mbit/s"),
            stated("rtt", "§3.2: 25, 50 and 100 ms"),
            fitted("queue", "in the simulator, the mean latency of MIN_BUF(1,0), Table 2"),
            stated("duration", "§4.1: about 80 s"),
            stated("elephants", "§4.1: 15"),
            stated("mice_by", "§4.1: as many as take about 30% of the bandwidth").of(&[BY_SHARE]),
            chosen("mice_by", "to measure the share of other numbers").of(&["count"]),
            stated("mice", "§4.1: 40 for each of two receivers, at 30 Mbit/s and 100 ms"),
            stated("mouse", "§4.1: 20 KB"),
            stated("constant", "§4.1: 10%"),
            chosen("spread", "flows do not begin at the same instant"),
            chosen("the cross traffic has CUBIC and the kernel's send buffers", "the default of Linux")
                .beside_the_plan(),
        ]
    }

    /// # Panics
    /// If the system refuses: call [`cell::measure`] for the reason.
    fn run(&self, point: &Point, seed: u64) -> Samples {
        cell::measure(point, seed).unwrap_or_else(|error| panic!("{error:#}"))
    }

    fn objection(&self, point: &Point) -> Option<Objection> {
        objection(mice::count(point))
    }

    fn beside_delays(&self) -> &'static [&'static str] {
        &[WITHIN_200, MEAN_MS, THROUGHPUT, SENDER_P90_MS, MICE_SHARE, lateness::P99_MS]
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        checks::checks(results)
    }

    /// A distribution for each network and congestion control.
    fn figures(&self, results: &Results) -> Vec<Figure> {
        let points = results.points();
        points.chunk_by(|one, next| network(one) == network(next)).map(|streams| figure(results, streams)).collect()
    }
}

fn figure(results: &Results, streams: &[PointSummary]) -> Figure {
    let place = streams.first().map(network).unwrap_or_default();
    let mut distribution = DelayDistribution::new(&format!("Latency: {place}"), &results.plan().conditions());
    for limit_ms in [200, 500] {
        distribution.threshold(Threshold::new(Duration::from_millis(limit_ms), &format!("{limit_ms} ms")));
    }
    for summary in streams {
        if let Some(series) = summary.series().get(LATENCY) {
            distribution.curve(summary.point().choice("stream"), series.all());
        }
    }
    distribution.figure()
}
