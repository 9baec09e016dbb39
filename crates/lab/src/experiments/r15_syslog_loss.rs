//! `r15-syslog-loss`: log lines of 250 bytes over a path that loses packets by chance (R15, Paper IV).

use super::r12;
use super::r15_syslog::{
    self, FESTINA, IMPORTANT, IMPORTANT_LOST, NORMAL, NORMAL_LOST, OverLoss, PR_SCTP, SCTP, Scope, TCP, TCP_THIN, UDP,
    over_loss,
};
use crate::evidence::Bound;
use crate::experiment::{Check, Description, Experiment};
use crate::figure::Figure;
use crate::plan::{Point, definition};
use crate::samples::Samples;
use crate::summary::{PointSummary, Results};

/// What of TCP's 99th percentile is left for Festina's important lines at 5% loss and 200 lines a second, at most: a goal of ours.
const LATE_MAX: f64 = 0.35;

/// Delay and loss of log lines by class and sender.
#[derive(Clone, Copy, Debug)]
pub struct R15SyslogLoss;

impl Experiment for R15SyslogLoss {
    fn description(&self) -> Description {
        definition::of(include_str!("../../../../experiments/r15-syslog-loss.toml")).description
    }

    fn run(&self, point: &Point, seed: u64) -> Samples {
        r15_syslog::run(point, seed)
    }

    fn checks(&self, results: &Results) -> Vec<Check> {
        let is_lossy = |summary: &PointSummary| r15_syslog::fraction(summary.point(), "loss") > 0.0;
        let scope = Scope { results, names: &["load", "loss"], is_meant: &is_lossy };
        let shorter = Bound::LessThan(1.0);
        let mut checks = vec![
            scope
                .average(
                    [PR_SCTP, TCP],
                    shorter,
                    "PR-SCTP's average delay is shorter than TCP's at every rate of loss.",
                )
                .id("below-tcp"),
            scope
                .average(
                    [PR_SCTP, SCTP],
                    shorter,
                    "PR-SCTP's average delay is shorter than SCTP's at every rate of loss.",
                )
                .id("below-sctp"),
            scope
                .loses_less([PR_SCTP, UDP], "PR-SCTP loses fewer lines than UDP at every rate of loss.")
                .id("fewer-than-udp"),
            scope.delivers_important("PR-SCTP delivers every important line.").id("important"),
            scope.udp_loses_important(),
        ];
        checks.extend(scope.own());
        let is_goal = |summary: &PointSummary| {
            let is = |name: &str, value: &str| summary.point().value(name).is_some_and(|it| it.to_string() == value);
            is("load", "20%") && is("loss", "5%")
        };
        let goal = Scope { is_meant: &is_goal, ..scope };
        checks.push(goal.late(
            FESTINA,
            &[TCP, TCP_THIN],
            LATE_MAX,
            "At 5% loss and 200 lines a second, Festina's 99th percentile of important lines is below 0.35 of TCP's.",
        ));
        checks.push(scope.loses_less([FESTINA, UDP], "Festina loses fewer lines than UDP at every rate of loss."));
        checks
    }

    fn beside_delays(&self) -> &'static [&'static str] {
        r15_syslog::BESIDE_DELAYS
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let shown = [
            OverLoss::Average(IMPORTANT),
            OverLoss::Average(NORMAL),
            OverLoss::Late(IMPORTANT),
            OverLoss::Percentage(IMPORTANT_LOST),
            OverLoss::Percentage(NORMAL_LOST),
        ];
        let mut figures = Vec::new();
        for load in r12::values(results, "load") {
            for what in shown {
                let title = format!("Log lines of 250 bytes at {load} load");
                let is_meant =
                    |summary: &PointSummary| summary.point().value("load").is_some_and(|it| it.to_string() == load);
                figures.extend(over_loss(results, &title, what, is_meant));
            }
        }
        figures
    }
}
