//! Table 2 of Pedersen et al. 2006, and why ours differs where it does.

use festina_sctp::RetransmissionCause;
use festina_sctp::RetransmissionCause::{Bundled, Fast, ReportedBundled, Timeout};

use crate::experiments::p06::{Published, Quantity};

/// By round-trip time.
pub(super) const TABLE: [(&str, [Published; 4]); 4] = [
    (
        "0s",
        [
            line(Timeout, 282, 76.2, [999.1, 1256.6, 1005.5]),
            line(Fast, 24, 6.5, [1024.4, 1280.4, 1088.4]),
            line(ReportedBundled, 34, 9.2, [464.0, 744.0, 592.7]),
            line(Bundled, 30, 8.1, [231.8, 744.0, 274.7]),
        ],
    ),
    (
        "100ms",
        [
            line(Timeout, 275, 43.0, [1039.9, 1612.1, 1049.8]),
            line(Fast, 23, 3.6, [1126.5, 1386.2, 1173.1]),
            line(ReportedBundled, 27, 4.2, [460.0, 1356.1, 689.3]),
            line(Bundled, 314, 49.1, [15.3, 532.0, 51.2]),
        ],
    ),
    (
        "200ms",
        [
            line(Timeout, 266, 40.1, [996.2, 1460.1, 1144.6]),
            line(Fast, 35, 5.3, [1228.4, 1740.7, 1274.2]),
            line(ReportedBundled, 24, 3.6, [487.9, 976.0, 780.7]),
            line(Bundled, 338, 51.0, [28.0, 888.0, 172.8]),
        ],
    ),
    (
        "400ms",
        [
            line(Timeout, 242, 27.9, [1343.0, 1660.1, 1352.0]),
            line(Fast, 31, 3.6, [1427.2, 1943.6, 1496.2]),
            line(ReportedBundled, 26, 3.0, [780.0, 1430.1, 1011.1]),
            line(Bundled, 567, 65.5, [11.8, 832.0, 213.4]),
        ],
    ),
];

const fn line(cause: RetransmissionCause, number: u32, share: f64, [min, max, mean]: [f64; 3]) -> Published {
    Published { cause, number, share: Some(share), min_ms: min, max_ms: max, mean_ms: mean }
}

/// Parameters fitted to the shares of all classes at one round-trip time.
pub(super) fn fitted_shares(rtt: &str) -> Option<&'static str> {
    match rtt {
        "0s" => Some("loss, lost and after_timeout were chosen on these shares"),
        _ => None,
    }
}

/// Returns the parameter that was fitted to a number of the table.
pub(super) fn fitted(rtt: &str, cause: RetransmissionCause, quantity: Quantity) -> Option<&'static str> {
    match (rtt, cause, quantity) {
        ("0s", _, Quantity::Number | Quantity::Share) => Some(
            "the loss of 5% each way was chosen for the shares at a round-trip time of 0, the duration of 30 minutes for the numbers",
        ),
        ("0s", Timeout, Quantity::Min) => Some("the delay of hosts, 0.2 ms, was chosen on the shortest delays"),
        _ => None,
    }
}

/// Why a number is missed.
pub(super) fn why(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Number | Quantity::Share => {
            "The paper tells of one run, which has some thirty retransmissions of a rare class: one standard deviation is a fifth."
        }
        Quantity::Min | Quantity::Max => {
            "The extreme of a run is a single message of a rare kind: two losses in a row, or a SACK lost besides. Ours is the mean \
             of the extremes of all runs."
        }
        Quantity::Mean => "It rests on the few retransmissions of a rare class in one run.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_each_round_trip_time_are_those_of_the_numbers() {
        for (rtt, lines) in TABLE {
            let all: u32 = lines.iter().map(|line| line.number).sum();
            for line in lines {
                let share = f64::from(line.number) / f64::from(all) * 100.0;
                assert!(line.share.is_some_and(|told| (told - share).abs() < 0.11), "{rtt}, {:?}: {share}", line.cause);
            }
        }
    }

    #[test]
    fn every_mean_lies_between_its_extremes() {
        for line in TABLE.iter().flat_map(|(_, lines)| lines) {
            assert!(line.min_ms < line.mean_ms && line.mean_ms < line.max_ms, "{line:?}");
        }
    }
}
