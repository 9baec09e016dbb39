//! What Pedersen et al. 2006 say.

use super::Tested::{Arithmetic, Checks, Not, Numbers};
use super::{Paper, Statement, Sum, Tested};

const TRACE: &str = "the trace of the game is not public";

const fn says(section: &'static str, says: &'static str, tested: Tested) -> Statement {
    Statement { paper: Paper::P06, section, says, tested, cause: "", headline: None }
}

pub(super) const STATEMENTS: &[Statement] = &[
    says(
        "§2, Fig. 1, Table 1",
        "Round trips of the game take somewhat above 250 ms on average and up to one second, a stream sends fewer \
         than 4 packets of 120 bytes a second, slightly less than 1% is lost, a message takes up to 67 s.",
        Not(TRACE),
    ),
    says(
        "§2, Table 1",
        "The 372,711 packets and 44,974,424 bytes of 1,855 s are about 120 bytes a packet and 0.194 Mbit/s.",
        Arithmetic(&[
            Sum {
                what: "bytes over packets",
                unit: "B",
                published: 120.0,
                calculated: 44_974_424.0 / 372_711.0,
                within: 1.0,
            },
            Sum {
                what: "bits over seconds",
                unit: "Mbit/s",
                published: 0.194,
                calculated: 44_974_424.0 * 8.0 / 1_855.0 / 1e6,
                within: 0.000_5,
            },
        ]),
    ),
    says(
        "§1, §4",
        "lksctp does not meet RFC 2719, by which signalling is answered within 500 to 1200 ms.",
        Checks("p06-table2", &["rfc-2719"]),
    )
    .headline("1,200 ms at most", "ms at 100ms", " ms"),
    says("§3.1", "SCTP takes four reports of a loss to send a chunk again.", Checks("p06-table2", &["four-reports"])),
    says(
        "§3.1, Fig. 2",
        "Timeouts of SCTP in a row do not grow exponentially as TCP's do.",
        Checks("p06-table2", &["no-exponential-growth"]),
    )
    .headline("", "second wait over the first, SCTP at 100ms", ""),
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
    says("§3.2", "TCP's RTO is more stable than SCTP's, which is too high.", Checks("p06-table2", &["steadier-rto"]))
        .because("Karn's rule: with `rtt_samples = \"ambiguous\"` (60 runs), against the kernel's sources, the longest RTO over the median is 1.88 ± 0.21 times TCP's, and it holds."),
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
        "The number of chunks bundled unsolicited grows considerably with the round-trip time.",
        Checks("p06-table2", &["bundling-grows"]),
    ),
    says(
        "§3.3",
        "At 400 ms 65.5% of all retransmissions are unsolicited bundling.",
        Numbers("p06-table2", "RTT 400ms, unsolicited bundling, share"),
    )
    .headline("65.5 %", "unsolicited bundling, share", " %"),
    says("§3.3", "Nearly all of these are spurious.", Checks("p06-table2", &["bundling-spurious"])),
    says(
        "§3.3",
        "The number of timeouts falls linearly with the round-trip time.",
        Checks("p06-table2", &["linear"]),
    ),
    says(
        "§3.3, Table 2",
        "The share of timeouts falls with the round-trip time.",
        Checks("p06-table2", &["smaller-share"]),
    ),
    says(
        "§3.3",
        "Bundling hides some losses from the receiver, which shortens delays.",
        Checks("p06-table2", &["bundling-hides"]),
    ),
    says(
        "§3.4",
        "Bundling lowers the average delay of messages slightly.",
        Checks("p06-table2", &["bundling-average"]),
    ),
    says("§3.3, §3.4", "Bundling that hides losses makes the RTO grow.", Checks("p06-table2", &["bundling-rto"])),
    says("§3.4", "lksctp performs worse than TCP.", Checks("p06-table2", &["worse-than-tcp"]))
    .headline("", "TCP over lksctp at 100ms", " of its delay"),
    says("§3.1, Table 2", "Numbers, shares and delays at a round-trip time of 0.", Numbers("p06-table2", "RTT 0s")),
    says("§3.1, Table 2", "Numbers, shares and delays at 100 ms.", Numbers("p06-table2", "RTT 100ms")),
    says("§3.1, Table 2", "Numbers, shares and delays at 200 ms.", Numbers("p06-table2", "RTT 200ms")),
    says("§3.1, Table 2", "Numbers, shares and delays at 400 ms.", Numbers("p06-table2", "RTT 400ms")),
    says(
        "§4.2.1, Fig. 3; P10 §5.2, Fig. 4(b)",
        "Without SACK delay the calculated RTO is greatly reduced.",
        Checks("p10-fig4", &["greatly-reduced"]),
    ),
    says("§4.3; P10 §5.4", "Fast retransmissions hardly ever appear.", Checks("p06-table2", &["fast-rare"])),
    says(
        "§4.5, Table 3",
        "Lower RTO and fast retransmission on the first report: drastically more fast ones.",
        Checks("p06-table3", &["fast-explodes"]),
    ),
    says("§4.5, Table 3", "The same: fewer timeouts.", Checks("p06-table3", &["fewer-timeouts"])),
    says(
        "§4.5, Fig. 4",
        "Lower RTO and fast retransmission on the first report reduce the mean delay much, for any number of retransmissions.",
        Checks("p06-table3", &["large-reduction"]),
    )
    .headline("", "1st retransmission, ratio", " "),
    says(
        "§4.5, Table 3",
        "The modified timer restart reduces the delay further.",
        Checks("p06-table3", &["each-step-both", "each-step-timeouts"]),
    )
    .headline("0.93 of it", "mod-timer-restart over reduced-rto-and-fr", " "),
    says("§4.5, Table 3", "It adds a few retransmissions.", Checks("p06-table3", &["restart-adds"])),
    says("§4.5, Table 3", "Without SACK delay nearly all are timeouts.", Checks("p06-table3", &["timeouts-remain"])),
    says(
        "§4.5",
        "Without SACK delay there are several spurious retransmissions more.",
        Checks("p06-table3", &["several-spurious"]),
    ),
    says(
        "§4.5",
        "Without SACK delay and with the lower RTO.Min the delay falls hugely.",
        Checks("p06-table3", &["huge-impact"]),
    ),
    says(
        "§4.5, Table 3",
        "Timeouts and fast retransmissions together number 481, 619 and 634 after 301: each step adds some.",
        Numbers("p06-table3", ", both, number"),
    ),
    says("§4.5", "All enhancements reduce the large maxima greatly.", Checks("p06-table3", &["maxima-fall"])),
    says("§4.5, Table 3", "The numbers of the first step.", Numbers("p06-table3", "reduced-rto-and-fr,")),
    says("§4.5, Table 3", "The numbers with the modified timer restart.", Numbers("p06-table3", "mod-timer-restart,")),
    says("§4.5, Table 3", "The numbers without SACK delay.", Numbers("p06-table3", "no-sack-delay,")),
    says(
        "§5",
        "Without SACK delay and with the lower RTO.Min retransmissions come 1000 ms earlier.",
        Checks("p06-table3", &["second-earlier"]),
    )
    .headline("1,000 ms", "ms:", " ms"),
    says("§5; P10 §8", "The RTO is highly unstable, and remains so.", Checks("p10-fig4", &["unstable"])),
];
