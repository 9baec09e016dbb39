//! What Pedersen et al. 2006 say.

use super::Tested::{Checks, Fitted, Not, Numbers};
use super::{Paper, Statement, Tested};

const TRACE: &str = "the trace of the game is not public";

const fn says(section: &'static str, says: &'static str, tested: Tested) -> Statement {
    Statement { paper: Paper::P06, section, says, tested, cause: "" }
}

pub(super) const STATEMENTS: &[Statement] = &[
    says(
        "§2, Fig. 1, Table 1",
        "Round trips of the game take somewhat above 250 ms on average and up to one second, a stream sends fewer \
         than 4 packets of 120 bytes a second, slightly less than 1% is lost, a message takes up to 67 s; 1,855 s \
         and 0.194 Mbit/s in all.",
        Not(TRACE),
    ),
    says(
        "§1, §4",
        "lksctp does not meet RFC 2719, by which signalling is answered within 500 to 1200 ms.",
        Checks("p06-table2", &["rfc-2719"]),
    ),
    says("§3.1", "SCTP takes four reports of a loss to send a chunk again.", Checks("p06-table2", &["four-reports"])),
    says(
        "§3.1, Fig. 2",
        "Timeouts of SCTP in a row do not grow exponentially as TCP's do.",
        Checks("p06-table2", &["no-exponential-growth"]),
    ),
    says(
        "§3.2",
        "With RTO.Min at 1000 ms retransmissions take more than 1000 ms on average.",
        Checks("p06-table2", &["above-a-second"]),
    ),
    says(
        "§3.2, §3.4",
        "Timeouts are the most frequent reason for retransmissions.",
        Checks("p06-table2", &["timeouts-dominate"]),
    ),
    says("§3.2", "With TCP New Reno most retransmissions are timeouts, too.", Checks("p06-table2", &["tcp-times-out"])),
    says("§3.2", "TCP's RTO is more stable than SCTP's, which is too high.", Checks("p06-table2", &["steadier-rto"])),
    says("§3.2", "Combinations of SACK and FACK make no difference to TCP.", Checks("p06-table2", &["variants-alike"])),
    says(
        "§3.2",
        "Measured round-trip times are 200 ms too high, since SACKs are delayed.",
        Checks("p10-fig4", &["200-ms-too-high"]),
    ),
    says(
        "§3.2",
        "A lost message brings the RTO nearer to the round-trip time, a lost SACK makes it grow.",
        Checks("p10-fig4", &["follows-losses"]),
    ),
    says(
        "§3.3, Table 2",
        "Unsolicited bundling grows considerably with the round-trip time.",
        Checks("p06-table2", &["bundling-grows"]),
    ),
    says(
        "§3.3",
        "At 400 ms 65.5% of all retransmissions are unsolicited bundling.",
        Fitted("`after_timeout`, which P06 leaves open, was chosen by the shares at 400 ms"),
    ),
    says("§3.3", "Nearly all of these are spurious.", Checks("p06-table2", &["bundling-spurious"])),
    says(
        "§3.3",
        "The number of timeouts falls with the round-trip time (the paper: linearly, which is not tested), and so does their share.",
        Checks("p06-table2", &["fewer-timeouts", "smaller-share"]),
    ),
    says(
        "§3.3",
        "Bundling hides some losses from the receiver, which shortens delays.",
        Checks("p06-table2", &["bundling-hides"]),
    ),
    says("§3.4", "lksctp performs worse than TCP.", Checks("p06-table2", &["worse-than-tcp"])),
    says("§3.1, Table 2", "Numbers, shares and delays at a round-trip time of 0.", Numbers("p06-table2", "RTT 0s")),
    says("§3.1, Table 2", "Numbers, shares and delays at 100 ms.", Numbers("p06-table2", "RTT 100ms")),
    says("§3.1, Table 2", "Numbers, shares and delays at 200 ms.", Numbers("p06-table2", "RTT 200ms")),
    says("§3.1, Table 2", "Numbers, shares and delays at 400 ms.", Numbers("p06-table2", "RTT 400ms")),
    says(
        "§4.2.1, Fig. 3; P10 §5.2, Fig. 4(b)",
        "Without SACK delay the calculated RTO is greatly reduced.",
        Checks("p10-fig4", &["greatly-reduced"]),
    )
    .because(
        "Ambiguous samples, which both papers have: with `rtt_samples = \"karn\"` it is 0.618 ± 0.007, and holds.",
    ),
    says("§4.3; P10 §5.4", "Fast retransmissions hardly ever appear.", Checks("p06-table2", &["fast-rare"]))
        .because("Ambiguous samples, which both papers have: with `rtt_samples = \"karn\"` (60 runs) it is 4.4 to 8.1%, and holds."),
    says(
        "§4.5, Table 3",
        "Lower RTO and fast retransmission on the first report: drastically more fast ones.",
        Checks("p06-table3", &["fast-explodes"]),
    )
    .because("Ambiguous samples: with `rtt_samples = \"karn\"` (20 runs) it is 9.32 ± 0.74 times as many, and holds."),
    says("§4.5, Table 3", "The same: fewer timeouts.", Checks("p06-table3", &["fewer-timeouts"])),
    says(
        "§4.5, Fig. 4",
        "The same: a large reduction of the mean delay, for any number of retransmissions.",
        Checks("p06-table3", &["large-reduction"]),
    ),
    says(
        "§4.5, Table 3",
        "The modified timer restart reduces the delay further.",
        Checks("p06-table3", &["each-step-both", "each-step-timeouts"]),
    )
    .because(
        "Ambiguous samples together with the fix as worded: with `rtt_samples = \"karn\"` or `timer_fix = \"with-min-rto\"` (20 runs of each) every step \
         lowers the delay, and it holds.",
    ),
    says("§4.5, Table 3", "It adds a few retransmissions.", Checks("p06-table3", &["restart-adds"]))
        .because("The fix as worded: with `timer_fix = \"with-min-rto\"` (20 runs) it is 1.21 ± 0.02 times as many, and holds."),
    says("§4.5, Table 3", "Without SACK delay nearly all are timeouts.", Checks("p06-table3", &["timeouts-remain"]))
        .because("Ambiguous samples: with `rtt_samples = \"karn\"` (20 runs) none is fast, and it holds."),
    says("§4.5", "Without SACK delay several are spurious.", Checks("p06-table3", &["several-spurious"])),
    says("§4.5", "All enhancements reduce the large maxima greatly.", Checks("p06-table3", &["maxima-fall"])),
    says("§4.5, Table 3", "The numbers of the first step.", Numbers("p06-table3", "reduced-rto-and-fr,")),
    says("§4.5, Table 3", "The numbers with the modified timer restart.", Numbers("p06-table3", "mod-timer-restart,")),
    says("§4.5, Table 3", "The numbers without SACK delay.", Numbers("p06-table3", "no-sack-delay,")),
    says(
        "§5",
        "Without SACK delay and with the lower RTO.Min retransmissions come 1000 ms earlier.",
        Checks("p06-table3", &["second-earlier"]),
    ),
    says("§5; P10 §8", "The RTO is highly unstable, and remains so.", Checks("p10-fig4", &["unstable"])),
];
