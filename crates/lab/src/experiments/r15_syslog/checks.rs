//! Statements about log lines, each judged in every cell: the points that differ in the sender alone.

use super::{
    ALL, ALL_LOST, FESTINA, IMPORTANT, IMPORTANT_LOST_COUNT, NORMAL_LOST_COUNT, NR_SACK, PR_SCTP, SCTP, TCP, TCP_THIN,
    UDP,
};
use crate::count::as_f64;
use crate::evidence::{Bound, Estimate, Evidence};
use crate::experiment::Check;
use crate::scenario::fate::total;
use crate::summary::{PointSummary, Repeated, Results, SeriesSummary};

/// What statements speak of.
#[derive(Clone, Copy)]
pub(in crate::experiments) struct Scope<'a> {
    pub(in crate::experiments) results: &'a Results,
    /// The parameters that tell cells apart.
    pub(in crate::experiments) names: &'a [&'static str],
    /// Which points belong to a cell at all.
    pub(in crate::experiments) is_meant: &'a dyn Fn(&PointSummary) -> bool,
}

/// The settings that the points of a cell have in common.
pub(super) type Cell = Vec<(&'static str, String)>;

impl<'a> Scope<'a> {
    pub(super) fn cells(&self) -> Vec<Cell> {
        let mut cells: Vec<Cell> = Vec::new();
        for summary in self.results.points().iter().filter(|summary| (self.is_meant)(summary)) {
            let value = |name: &str| summary.point().value(name).map_or_else(String::new, |value| value.to_string());
            let cell: Cell = self.names.iter().map(|&name| (name, value(name))).collect();
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
        cells
    }

    /// The points of a cell, one for each sender.
    pub(super) fn points(&self, cell: &Cell) -> Vec<&'a PointSummary> {
        let settings: Vec<(&str, &str)> = cell.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.results.matching(&settings).collect()
    }

    /// The point of a sender in a cell.
    fn at(&self, cell: &Cell, sender: &str) -> Option<&'a PointSummary> {
        self.points(cell).into_iter().find(|summary| summary.point().choice("sender") == sender)
    }

    /// Judges how many times as large a number of one sender is as that of another.
    fn ratio(
        &self,
        [over, under]: [&str; 2],
        bound: Bound,
        value: impl Fn(&'a PointSummary) -> Option<&'a Repeated>,
    ) -> Evidence {
        let mut evidence = Evidence::new();
        for cell in self.cells() {
            let pair = self.at(&cell, over).and_then(&value).zip(self.at(&cell, under).and_then(&value));
            let ratio = pair.and_then(|(over, under)| Estimate::ratio(over, under));
            evidence.cell(format!("{}: ratio", words(&cell)), ratio, bound);
        }
        evidence
    }

    /// Judges how many lines of a sender were not delivered in all runs of a cell.
    fn lost(&self, evidence: &mut Evidence, sender: &str, counts: &[&str], bound: Bound) {
        for cell in self.cells() {
            let lost = |summary| counts.iter().map(|count| total(summary, count)).sum::<f64>();
            let lost = self.at(&cell, sender).map(lost).map(Estimate::exact);
            evidence.cell(format!("{sender}, {}: lost", words(&cell)), lost, bound);
        }
    }

    /// The average delay of one sender over that of another lies within a bound.
    pub(in crate::experiments) fn average(&self, senders: [&str; 2], bound: Bound, statement: &str) -> Check {
        self.ratio(senders, bound, average).check(statement)
    }

    /// A sender loses a smaller share of all lines than another.
    pub(in crate::experiments) fn loses_less(&self, senders: [&str; 2], statement: &str) -> Check {
        self.ratio(senders, Bound::LessThan(1.0), |summary| summary.values().get(ALL_LOST)).check(statement)
    }

    /// The average delay of one sender is shorter than that of another in the geometric mean over the cells.
    pub(in crate::experiments) fn shorter_in_general(&self, [over, under]: [&str; 2], statement: &str) -> Check {
        let logarithms = self.cells().into_iter().map(|cell| {
            let delay = |sender| self.at(&cell, sender).and_then(average);
            Some(delay(over)?.zip_with(delay(under)?, |over, under| (over / under).ln()))
        });
        let logarithms: Option<Vec<Repeated>> = logarithms.collect();
        let count = logarithms.as_ref().map_or(0, Vec::len);
        let sum = logarithms.into_iter().flatten().reduce(|sum, next| sum.zip_with(&next, |one, other| one + other));
        let mean = sum.and_then(|sum| Estimate::of(&sum.map(|sum| (sum / as_f64(count)).exp())));
        let mut evidence = Evidence::new();
        evidence.cell(format!("geometric mean of the ratios of {count} cells:"), mean, Bound::LessThan(1.0));
        evidence.check(statement)
    }

    /// PR-SCTP delivers every important line, with NR-SACK and without.
    pub(in crate::experiments) fn delivers_important(&self, statement: &str) -> Check {
        let mut evidence = Evidence::new();
        for sender in [PR_SCTP, NR_SACK] {
            self.lost(&mut evidence, sender, &[IMPORTANT_LOST_COUNT], Bound::LessThan(1.0));
        }
        evidence.check(statement)
    }

    /// UDP does not: it loses some in all cells together.
    pub(in crate::experiments) fn udp_loses_important(&self) -> Check {
        let cells = self.cells();
        let points: Vec<&PointSummary> = cells.iter().filter_map(|cell| self.at(cell, UDP)).collect();
        let lost = points.iter().map(|summary| total(summary, IMPORTANT_LOST_COUNT)).sum();
        let lost = (!points.is_empty()).then(|| Estimate::exact(lost));
        let mut evidence = Evidence::new();
        evidence.cell(format!("in {} cells: lost", points.len()), lost, Bound::MoreThan(0.0));
        evidence.check("UDP loses important lines.").id("udp-loses")
    }

    /// The 99th percentile of important lines of one sender is at most such a share of that of others.
    pub(in crate::experiments) fn late(&self, sender: &str, others: &[&str], share: f64, statement: &str) -> Check {
        let mut evidence = Evidence::new();
        for &other in others {
            for cell in self.cells() {
                let p99 = |sender| self.at(&cell, sender).and_then(late);
                let ratio = p99(sender).zip(p99(other)).and_then(|(ours, theirs)| Estimate::ratio(ours, theirs));
                evidence.cell(format!("{other}, {}: ratio", words(&cell)), ratio, Bound::LessThan(share));
            }
        }
        evidence.check(statement)
    }

    /// What R15 says of the delay of PR-SCTP with NR-SACK against those of TCP and SCTP.
    pub(in crate::experiments) fn nr_sack(&self) -> Vec<Check> {
        let shorter = |than, statement| self.average([NR_SACK, than], Bound::LessThan(1.0), statement);
        vec![
            shorter(TCP, "PR-SCTP with NR-SACK has a shorter average delay than TCP.").id("nr-sack-tcp"),
            shorter(SCTP, "PR-SCTP with NR-SACK has a shorter average delay than SCTP.").id("nr-sack-sctp"),
        ]
    }

    /// The same against PR-SCTP without, in each cell.
    pub(in crate::experiments) fn nr_sack_gains(&self) -> Check {
        let statement = "PR-SCTP with NR-SACK has a shorter average delay than PR-SCTP without.";
        self.average([NR_SACK, PR_SCTP], Bound::LessThan(1.0), statement).id("nr-sack-pr-sctp")
    }

    /// Which important lines are lost.
    pub(in crate::experiments) fn important_lines(&self) -> [Check; 2] {
        let statement = "PR-SCTP delivers every important line, with NR-SACK and without.";
        [self.delivers_important(statement).id("important"), self.udp_loses_important()]
    }

    /// What Festina demands of itself.
    pub(in crate::experiments) fn own(&self) -> Vec<Check> {
        let mut arrivals = Evidence::new();
        self.lost(&mut arrivals, FESTINA, &[IMPORTANT_LOST_COUNT], Bound::LessThan(1.0));
        for sender in [TCP_THIN, SCTP] {
            self.lost(&mut arrivals, sender, &[IMPORTANT_LOST_COUNT, NORMAL_LOST_COUNT], Bound::LessThan(1.0));
        }
        let important = |summary: &'a PointSummary| summary.series().get(IMPORTANT).map(SeriesSummary::mean_s);
        let sooner = Bound::LessThan(1.0);
        vec![
            arrivals.check("Festina loses no important line, and Linux's TCP and reliable SCTP lose none at all."),
            self.ratio([FESTINA, NR_SACK], sooner, important)
                .check("Festina's important lines arrive sooner on average than those of PR-SCTP with NR-SACK."),
            self.late(
                FESTINA,
                &[TCP_THIN],
                1.0,
                "Festina's important lines arrive sooner at the 99th percentile than those of Linux's TCP.",
            ),
        ]
    }
}

/// The average delay of all lines that were delivered, in seconds, once per repetition.
pub(in crate::experiments) fn average(summary: &PointSummary) -> Option<&Repeated> {
    summary.series().get(ALL).map(SeriesSummary::mean_s)
}

/// The 99th percentile of the delay of important lines, in seconds, once per repetition.
fn late(summary: &PointSummary) -> Option<&Repeated> {
    summary.series().get(IMPORTANT)?.quantile_s(0.99)
}

pub(super) fn words(cell: &Cell) -> String {
    cell.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}
