//! How long experiments take, as `bench/lab/durations.py` has measured it.

/// First a line that says where it was measured, then the names of the columns, then a line for each experiment.
const TABLE: &str = include_str!("durations.csv");

/// CPU seconds with one thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Durations {
    pub(super) quick_s: f64,
    /// At the scale of the publication.
    pub(super) full_s: f64,
}

/// What an experiment takes; `None` if it was not measured.
pub(super) fn of(experiment: &str) -> Option<Durations> {
    TABLE.lines().skip(2).find_map(|line| {
        let mut cells = line.split(',');
        let is_it = cells.next()? == experiment;
        let mut seconds = || cells.next()?.parse().ok();
        is_it.then_some(Durations { quick_s: seconds()?, full_s: seconds()? })
    })
}

/// The processor that it was measured on.
pub(super) fn processor() -> &'static str {
    TABLE.lines().next().unwrap_or_default().trim_start_matches("# ")
}

/// A number of seconds with at most two digits.
pub(super) fn rounded(seconds: f64) -> String {
    let (minutes, hours) = (seconds / 60.0, seconds / 3_600.0);
    match () {
        () if seconds < 0.95 => "< 1 s".to_owned(),
        () if seconds < 99.5 => format!("{seconds:.0} s"),
        () if minutes < 99.5 => format!("{minutes:.0} min"),
        () => format!("{hours:.0} h"),
    }
}

#[cfg(test)]
mod tests {
    use festina_lab::experiments;

    use super::*;

    #[test]
    fn every_experiment_was_measured_and_the_table_has_no_other() {
        for experiment in experiments::ALL {
            let name = experiment.name();
            let durations = of(name).unwrap_or_else(|| panic!("measure it: bench/lab/durations.py {name}"));
            // Durations below the tenth that is written down have none.
            assert!(durations.quick_s >= 0.0 && durations.full_s >= 0.0, "{name}: {durations:?}");
        }
        assert_eq!(TABLE.lines().count(), 2 + experiments::ALL.len());
        assert_eq!(of("experiment"), None);
        assert!(!processor().is_empty());
    }

    #[test]
    fn a_duration_has_two_digits_and_the_unit_that_fits() {
        let cases =
            [(0.2, "< 1 s"), (0.96, "1 s"), (99.0, "99 s"), (100.0, "2 min"), (5_900.0, "98 min"), (6_000.0, "2 h")];
        for (seconds, expected) in cases {
            assert_eq!(rounded(seconds), expected);
        }
    }
}
