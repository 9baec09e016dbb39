//! Retransmissions, counted and timed by ordinal, cause and need.

use std::collections::BTreeSet;

use festina_models::record::{RetransmissionRecord, Truth};
use festina_sctp::RetransmissionCause;
use festina_units::Instant;

use crate::count::as_f64;
use crate::samples::{Sample, Samples};
use crate::summary::{PointSummary, Repeated, SeriesSummary};

/// Number of retransmissions of the chunk so far, including this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordinal {
    /// Its first retransmission.
    First,
    /// Its second.
    Second,
    /// Its third.
    Third,
    /// A later one.
    Later,
}

impl Ordinal {
    /// All, in their order.
    pub const ALL: [Self; 4] = [Self::First, Self::Second, Self::Third, Self::Later];

    /// Which one `number` is, the first retransmission being number 1.
    pub fn of(number: u32) -> Self {
        match number {
            0 | 1 => Self::First,
            2 => Self::Second,
            3 => Self::Third,
            _ => Self::Later,
        }
    }

    /// `1st`, `2nd`, `3rd` or `later`.
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "1st",
            Self::Second => "2nd",
            Self::Third => "3rd",
            Self::Later => "later",
        }
    }
}

/// The causes in the order of Pedersen et al. 2006, Table 2, and the one that is younger than the table.
pub const CAUSES: [RetransmissionCause; 5] = [
    RetransmissionCause::Timeout,
    RetransmissionCause::Fast,
    RetransmissionCause::ReportedBundled,
    RetransmissionCause::Bundled,
    RetransmissionCause::Probe,
];

/// Returns the papers' name of a cause.
pub fn cause_name(cause: RetransmissionCause) -> &'static str {
    match cause {
        RetransmissionCause::Timeout => "timeout",
        RetransmissionCause::Fast => "fast retransmit",
        RetransmissionCause::ReportedBundled => "reported lost and bundled",
        RetransmissionCause::Bundled => "unsolicited bundling",
        RetransmissionCause::Probe => "probe",
        _ => "other",
    }
}

/// Adds the retransmissions of a stream to the measurements of a run, each with the time since the chunk's first transmission. Every single one is
/// kept; [`tally_retransmissions`] is for streams with very many.
///
/// Read them with [`Retransmissions`].
pub fn record_retransmissions(truth: &Truth, samples: &mut Samples) {
    add(truth, samples, |samples, series, retransmission| {
        samples.record(series, Sample { sent_at: retransmission.first_sent_at, delay: delay(retransmission) });
    });
}

/// As [`record_retransmissions`], but into histograms.
pub fn tally_retransmissions(truth: &Truth, samples: &mut Samples) {
    add(truth, samples, |samples, series, retransmission| samples.tally(series, delay(retransmission)));
}

fn delay(retransmission: &RetransmissionRecord) -> std::time::Duration {
    retransmission.at.saturating_duration_since(retransmission.first_sent_at)
}

/// Adds one series for all causes together, one for each cause, and the number of spurious ones of each.
fn add(truth: &Truth, samples: &mut Samples, mut sample: impl FnMut(&mut Samples, &str, &RetransmissionRecord)) {
    let mut spurious = [[0u32; CAUSES.len()]; Ordinal::ALL.len()];
    for retransmission in &truth.retransmissions {
        let ordinal = Ordinal::of(retransmission.ordinal);
        sample(samples, &series(ordinal), retransmission);
        sample(samples, &series_by(ordinal, retransmission.cause), retransmission);
        if let Some(cause) = CAUSES.iter().position(|cause| *cause == retransmission.cause) {
            spurious[ordinal as usize][cause] += u32::from(retransmission.is_spurious());
        }
    }
    for (ordinal, counts) in Ordinal::ALL.into_iter().zip(spurious) {
        for (cause, count) in CAUSES.into_iter().zip(counts) {
            if count > 0 {
                samples.set(&spurious_value(ordinal, cause), f64::from(count));
            }
        }
    }
}

fn series(ordinal: Ordinal) -> String {
    format!("{} retransmission", ordinal.name())
}

fn series_by(ordinal: Ordinal, cause: RetransmissionCause) -> String {
    format!("{} retransmission by {}", ordinal.name(), cause_name(cause))
}

fn spurious_value(ordinal: Ordinal, cause: RetransmissionCause) -> String {
    format!("spurious {}", series_by(ordinal, cause))
}

/// The number that [`note_waits`] sets.
pub const WAITS: &str = "second wait over first";

/// Notes the second wait over the first of chunks that were sent again by two timeouts in a row, in the mean. Nothing if there are none.
pub fn note_waits(truth: &Truth, samples: &mut Samples) {
    let timeouts = |ordinal: u32| {
        let of = move |record: &&RetransmissionRecord| {
            record.ordinal == ordinal && record.cause == RetransmissionCause::Timeout
        };
        truth.retransmissions.iter().filter(of)
    };
    let first: BTreeSet<(u32, Instant, Instant)> =
        timeouts(1).map(|record| (record.chunk, record.first_sent_at, record.at)).collect();
    let in_a_row = timeouts(2).filter(|it| first.contains(&(it.chunk, it.first_sent_at, it.previous_sent_at)));
    let ratios: Vec<f64> = in_a_row
        .map(|it| (it.at - it.previous_sent_at).as_secs_f64() / (it.previous_sent_at - it.first_sent_at).as_secs_f64())
        .collect();
    if !ratios.is_empty() {
        samples.set(WAITS, ratios.iter().sum::<f64>() / as_f64(ratios.len()));
    }
}

/// The retransmissions of all repetitions of a point together.
#[derive(Clone, Copy, Debug)]
pub struct Retransmissions<'a> {
    summary: &'a PointSummary,
}

impl<'a> Retransmissions<'a> {
    /// The values recorded or tallied at a point.
    pub fn of(summary: &'a PointSummary) -> Self {
        Self { summary }
    }

    /// The delays of all causes together; `None` if there was none.
    pub fn delays(self, ordinal: Ordinal) -> Option<&'a SeriesSummary> {
        self.summary.series().get(&series(ordinal))
    }

    /// The delays of those with one cause; `None` if there was none.
    pub fn delays_by(self, ordinal: Ordinal, cause: RetransmissionCause) -> Option<&'a SeriesSummary> {
        self.summary.series().get(&series_by(ordinal, cause))
    }

    /// Number of retransmissions.
    pub fn count(self, ordinal: Ordinal) -> u64 {
        self.delays(ordinal).map_or(0, |delays| delays.all().count())
    }

    /// Number of retransmissions with one cause.
    pub fn count_by(self, ordinal: Ordinal, cause: RetransmissionCause) -> u64 {
        self.delays_by(ordinal, cause).map_or(0, |delays| delays.all().count())
    }

    /// Which share of them had one cause; `None` if there was none at all.
    pub fn share_by(self, ordinal: Ordinal, cause: RetransmissionCause) -> Option<f64> {
        ratio(as_f64(self.count_by(ordinal, cause)), self.count(ordinal))
    }

    /// Which share of those with one cause was spurious; `None` if there was none.
    pub fn spurious_share_by(self, ordinal: Ordinal, cause: RetransmissionCause) -> Option<f64> {
        ratio(self.spurious_by(ordinal, cause), self.count_by(ordinal, cause))
    }

    /// Number of retransmissions with one of these causes in each repetition; `None` if there was none at all.
    pub fn counts_in_each(self, ordinal: Ordinal, causes: &[RetransmissionCause]) -> Option<Repeated> {
        let all = self.delays(ordinal)?.counts();
        let by: Vec<&Repeated> =
            causes.iter().filter_map(|cause| Some(self.delays_by(ordinal, *cause)?.counts())).collect();
        Some(all.with_each(|repetition, _| by.iter().filter_map(|counts| counts.at(repetition)).sum()))
    }

    /// Which share of them had one of these causes in each repetition; `None` if there was none at all.
    pub fn share_in_each(self, ordinal: Ordinal, causes: &[RetransmissionCause]) -> Option<Repeated> {
        let all = self.delays(ordinal)?.counts();
        Some(self.counts_in_each(ordinal, causes)?.zip_with(all, |part, all| part / all))
    }

    fn spurious_by(self, ordinal: Ordinal, cause: RetransmissionCause) -> f64 {
        self.summary.values().get(&spurious_value(ordinal, cause)).map_or(0.0, Repeated::sum)
    }
}

fn ratio(part: f64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part / as_f64(whole))
}

#[cfg(test)]
mod tests {
    use festina_models::record::Necessity;
    use festina_units::{Duration, Instant};

    use super::*;
    use crate::experiments::Md1;
    use crate::plan::{Plan, Scale};

    fn retransmission(
        ordinal: u32,
        cause: RetransmissionCause,
        at_ms: u64,
        necessity: Necessity,
    ) -> RetransmissionRecord {
        RetransmissionRecord {
            chunk: 0,
            sequence: 0,
            ordinal,
            cause,
            first_sent_at: Instant::from_millis(1_000),
            previous_sent_at: Instant::from_millis(1_000),
            at: Instant::from_millis(at_ms),
            arrived_at: None,
            necessity,
        }
    }

    fn truth() -> Truth {
        use RetransmissionCause::{Bundled, Fast, Timeout};
        let retransmissions = vec![
            retransmission(1, Timeout, 2_000, Necessity::Needed),
            retransmission(1, Bundled, 1_200, Necessity::EarlierCopyArrived),
            retransmission(1, Bundled, 1_300, Necessity::EarlierCopyUnderWay),
            retransmission(1, Bundled, 1_400, Necessity::Needed),
            retransmission(2, Fast, 4_000, Necessity::Needed),
            retransmission(9, Timeout, 9_000, Necessity::Needed),
        ];
        Truth { retransmissions, ..Truth::default() }
    }

    /// Two repetitions of a point that measured the same.
    fn summary(add: impl Fn(&Truth, &mut Samples)) -> PointSummary {
        let mut samples = Samples::new();
        add(&truth(), &mut samples);
        let mut summary = PointSummary::new(Plan::own(&Md1, Scale::Quick).points()[0].clone());
        summary.add(&samples);
        summary.add(&samples);
        summary
    }

    #[test]
    fn retransmissions_are_told_apart_by_ordinal_cause_and_need() {
        for summary in [summary(record_retransmissions), summary(tally_retransmissions)] {
            let all = Retransmissions::of(&summary);
            assert_eq!(Ordinal::ALL.map(|ordinal| all.count(ordinal)), [8, 2, 0, 2]);
            assert_eq!(all.count_by(Ordinal::First, RetransmissionCause::Bundled), 6);
            assert_eq!(all.share_by(Ordinal::First, RetransmissionCause::Bundled), Some(0.75));
            let spurious = |cause| all.spurious_share_by(Ordinal::First, cause);
            assert_eq!(spurious(RetransmissionCause::Timeout), Some(0.0));
            assert!(spurious(RetransmissionCause::Bundled).is_some_and(|share| (share - 2.0 / 3.0).abs() < 1e-12));
            assert_eq!(spurious(RetransmissionCause::Fast), None);
            assert_eq!(all.share_by(Ordinal::Third, RetransmissionCause::Fast), None);
        }
    }

    #[test]
    fn delays_run_from_the_first_transmission_of_the_chunk() {
        let summary = summary(record_retransmissions);
        let all = Retransmissions::of(&summary);
        let ms = Duration::from_millis;
        let bundled = all.delays_by(Ordinal::First, RetransmissionCause::Bundled).map(SeriesSummary::all);
        assert_eq!(bundled.and_then(|delays| Some((delays.min()?, delays.mean()?))), Some((ms(200), ms(300))));
        let first = all.delays(Ordinal::First).map(SeriesSummary::all);
        assert_eq!(first.and_then(|delays| delays.max()), Some(ms(1_000)));
    }

    #[test]
    fn waits_are_those_of_two_timeouts_in_a_row() {
        use RetransmissionCause::{Fast, Timeout};
        let at = |ms| Instant::from_millis(ms);
        let again = |chunk, cause, before_ms, at_ms| RetransmissionRecord {
            chunk,
            previous_sent_at: at(before_ms),
            ..retransmission(2, cause, at_ms, Necessity::Needed)
        };
        let first = |chunk, cause| RetransmissionRecord { chunk, ..retransmission(1, cause, 2_000, Necessity::Needed) };
        let retransmissions = vec![
            first(0, Timeout),
            first(1, Fast),
            first(2, Timeout),
            again(0, Timeout, 2_000, 4_000),
            again(1, Timeout, 2_000, 9_000),
            again(2, Fast, 2_000, 9_000),
        ];
        let mut samples = Samples::new();
        note_waits(&Truth { retransmissions, ..Truth::default() }, &mut samples);
        assert_eq!(samples.values().get(WAITS), Some(&2.0));
    }

    #[test]
    fn what_comes_after_the_third_retransmission_is_later() {
        assert_eq!([1, 2, 3, 4, 99].map(|number| Ordinal::of(number).name()), ["1st", "2nd", "3rd", "later", "later"]);
    }
}
