//! The outcomes as bars of text, and a remark about a busy machine: both for a terminal.

use std::time::Duration;

use super::outcome::Outcome;
use super::report::milliseconds;

/// Columns of the longest bar. With the name of a profile it fits on a terminal.
const COLUMNS: u128 = 60;
/// The parts of a bar: up to the delay of this share of the messages it consists of this character.
const PARTS: [(f64, char); 3] = [(0.5, '='), (0.99, '-'), (0.999, '.')];

/// If one timer in a hundred fires later than this, the machine was too busy for its 99th percentiles. Timers have slots of a millisecond.
const TIMERS_LATE_MAX: Duration = Duration::from_millis(5);

/// A bar per profile, and a line that explains them. Empty if nothing arrived.
pub(crate) fn bars(outcomes: &[Outcome]) -> String {
    let width = outcomes.iter().map(|outcome| outcome.profile.name().len()).max().unwrap_or(0);
    let longest = outcomes.iter().filter_map(|outcome| outcome.delays.quantile(0.999)).max();
    let Some(longest) = longest.filter(|longest| !longest.is_zero()) else { return String::new() };
    let line = |outcome: &Outcome| {
        let mut bar = String::new();
        for (share, part) in PARTS {
            let delay = outcome.delays.quantile(share).unwrap_or_default();
            let columns = (delay.as_nanos() * COLUMNS).div_ceil(longest.as_nanos());
            while (bar.len() as u128) < columns {
                bar.push(part);
            }
        }
        format!("{:width$}  {bar}\n", outcome.profile.name())
    };
    let scale = milliseconds(Some(longest));
    let legend = format!("0 to {scale} ms: === half of the messages have arrived, --- 99%, ... 99.9%\n");
    outcomes.iter().map(line).chain([legend]).collect()
}

/// A remark if the machine was so busy that measured delays are too long.
pub(crate) fn busy_note(outcomes: &[Outcome]) -> Option<String> {
    let late = outcomes.iter().filter_map(|outcome| outcome.timers.quantile(0.99)).max();
    let late = late.filter(|late| *late > TIMERS_LATE_MAX)?;
    Some(format!(
        "This machine was busy: one timer in a hundred fired more than {} ms late. The measured delays are too long by as much; simulated ones are not \
         affected.",
        milliseconds(Some(late))
    ))
}

#[cfg(test)]
mod tests {
    use festina_models::statistics::DelayStatistics;
    use festina_sctp::Profile;

    use super::*;
    use crate::compare::outcome::example;

    fn delays(ms: &[u64]) -> DelayStatistics {
        let mut delays = DelayStatistics::new();
        ms.iter().for_each(|ms| delays.record(Duration::from_millis(*ms)));
        delays
    }

    #[test]
    fn bars_end_at_the_percentiles_and_fit_on_a_terminal() {
        let short = Outcome { delays: delays(&[50]), ..example(Profile::Festina) };
        let nothing = Outcome { delays: delays(&[]), ..example(Profile::Rack) };
        let text = bars(&[example(Profile::Rfc9260), short, nothing.clone()]);
        let lines: Vec<&str> = text.lines().collect();
        // Half of 1 to 1,000 ms is 500, and 99 % are within 990.
        assert_eq!(lines[0], format!("rfc9260  {}{}", "=".repeat(31), "-".repeat(29)), "{text}");
        assert_eq!((lines[1], lines[2], lines.len()), ("festina  ====", "rack     ", 4), "{text}");
        assert!(lines[3].starts_with("0 to 999 ms: ") && lines.iter().all(|line| line.len() <= 80), "{text}");
        assert_eq!(bars(&[nothing]), "");
    }

    #[test]
    fn a_machine_whose_timers_are_late_is_called_busy() {
        let with = |ms: u64| Outcome { timers: delays(&[ms]), ..example(Profile::Festina) };
        assert_eq!(busy_note(&[example(Profile::Festina), with(2)]), None);
        let note = busy_note(&[with(2), with(40)]).expect("it is busy");
        assert!(note.contains("more than 40.0 ms late"), "{note}");
    }
}
