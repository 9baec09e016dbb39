//! `p10-fig14`: the same game traffic from access networks, with and without the modifications (P10 §6.4, Fig. 14).

use super::setups::{self, Setup};
use super::{BURSTS, P10Fig13, note, path};
use crate::assumption::{Assumption, chosen, stated};
use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::{Check, Description, Experiment};
use crate::figure::{DelayDistribution, Figure};
use crate::plan::{Parameter, Point};
use crate::samples::Samples;
use crate::scenario::{GameReplay, Readings};
use crate::summary::{Repeated, Results, SeriesSummary};

/// "On order of seconds": at least one.
const SECONDS_MS: f64 = 1_000.0;
/// The machines of the figure.
const MACHINES: [Setup; 2] = [Setup::Modified, Setup::Lksctp];

/// Game traffic from three access networks.
#[derive(Clone, Copy, Debug)]
pub struct P10Fig14;

impl Experiment for P10Fig14 {
    fn description(&self) -> Description {
        Description {
            name: "p10-fig14",
            title: "Game traffic from three access networks: arrival times with and without the modifications",
            reference: "Petlund et al. 2010, Fig. 14 (section 6.4)",
            about: "As p10-fig13, with modified and unmodified lksctp alone, over three paths in place of the paper's three providers. The paper gives \
                    neither their round-trip times nor their losses; all are chosen: one with 0.2% loss in bursts of 400 ms, one with more loss, \
                    and one with longer bursts.",
            plan: include_str!("../../../../../experiments/p10-fig14.toml"),
            question: "How much shorter are the longest delays with modified lksctp over paths with more or longer losses?",
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        P10Fig13.parameters()
    }

    fn assumptions(&self) -> Vec<Assumption> {
        let mut assumptions = vec![
            stated("players", "§6: approximately 170").of(&["170"]),
            chosen("players", "fewer, to save time"),
            chosen("duration", "shorter than the 12 hours of §6.4"),
            chosen("rtt", "not told"),
            chosen("gaps", "the order of the trace's gaps is not told"),
            chosen("jitter", "not told"),
            chosen("loss", "not told"),
            chosen("burst", "not told"),
            chosen("loss_in_burst", "not told"),
            stated("sack_delay", "§6.4: an unmodified lksctp receives; §4: 200 ms"),
        ];
        assumptions.extend(Readings::ASSUMPTIONS);
        assumptions
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        let readings = Readings::of(point);
        let replay = GameReplay {
            machines: MACHINES.iter().map(|setup| setup.config(&readings)).collect(),
            receiver: setups::receiver(point.duration("sack_delay")),
            players: u32::try_from(point.count("players")).unwrap_or(u32::MAX),
            duration: point.duration("duration"),
            is_bursty: point.choice("gaps") == BURSTS,
            path: path(point),
        };
        let mut samples = Samples::new();
        for (setup, run) in MACHINES.iter().zip(replay.run(seed)) {
            note(&mut samples, *setup, &run);
        }
        samples
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        let (mut tail, mut worst) = (Evidence::new(), Evidence::new());
        for point in results.points() {
            let earlier = |series: fn(Setup) -> String, of: fn(&SeriesSummary) -> &Repeated| {
                let ms = |setup| Some(of(point.series().get(&series(setup))?).map(|seconds| seconds * 1e3));
                Estimate::difference(&ms(Setup::Lksctp)?, 1.0, &ms(Setup::Modified)?)
            };
            let label = results.plan().label(point.point());
            let mean = earlier(Setup::repair, SeriesSummary::mean_s);
            tail.cell(format!("ms earlier on average, {label}:"), mean, Bound::MoreThan(0.0));
            let max = earlier(Setup::arrival, SeriesSummary::max_s);
            worst.cell(format!("ms less at most, {label}:"), max, Bound::MoreThan(SECONDS_MS));
        }
        vec![
            tail.check("Lost messages arrive earlier with modified lksctp over each path.").id("same-trends"),
            worst
                .check("The longest delay of half an hour is shorter by a second at least with modified lksctp over each path.")
                .id("worst-cases"),
        ]
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let mut tail = DelayDistribution::new(results.plan().title(), &results.plan().conditions());
        for point in results.points() {
            for setup in MACHINES {
                if let Some(arrival) = point.series().get(&setup.arrival()) {
                    let label = results.plan().label(point.point());
                    tail.curve(&format!("{}, {label}", setup.name()), arrival.all());
                }
            }
        }
        let mut tail = tail.figure();
        tail.y.label = "share of messages that arrive later".to_owned();
        vec![tail]
    }
}
