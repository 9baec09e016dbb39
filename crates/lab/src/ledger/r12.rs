//! What Rajiullah and Brunstrom 2012 say.

use super::Tested::Checks;
use super::{Paper, Statement, Tested};

const fn says(section: &'static str, says: &'static str, tested: Tested) -> Statement {
    Statement { paper: Paper::R12, section, says, tested, cause: "", headline: None }
}

pub(super) const STATEMENTS: &[Statement] = &[
    says(
        "§III-C, Fig. 3a",
        "With the sender of 2012 the average delay falls as messages grow.",
        Checks("r12-fig3", &["size"]),
    ),
    says(
        "§III-C, Fig. 3a; R15 §6, Papers V and VI",
        "The average delay is highest if messages have 72 bytes and half of them are important.",
        Checks("r12-fig3", &["worst"]),
    )
    .headline("", "over 72B, 1%", " times that of 1 % important"),
    says(
        "§III-C, Fig. 3b",
        "Normally distributed sizes change nothing significantly.",
        Checks("r12-fig3", &["normal-sizes"]),
    ),
    says(
        "§III-C, Fig. 3",
        "If all messages are important, small ones take longer: more headers.",
        Checks("r12-fig3", &["overhead"]),
    ),
    says(
        "§III-C, Fig. 4a",
        "At 72 bytes the delay is considerably higher at every load but 15% if half of the messages are important.",
        Checks("r12-fig4", &["half"]),
    ),
    says(
        "§III-C, Fig. 4a",
        "At 72 bytes and 15% load the inefficiency has no effect.",
        Checks("r12-fig4", &["low-load"]),
    )
    .headline("", "50% over 1%", " times"),
    says(
        "§III-C, Fig. 4b",
        "At 716 bytes the delay grows with the share of important messages.",
        Checks("r12-fig4", &["growth"]),
    ),
    says(
        "§III-C, Fig. 4b",
        "At 716 bytes and 80% load the sender can hardly keep up.",
        Checks("r12-fig4", &["overload"]),
    )
    .headline("", "logarithm of the last third over the first, 80% load", ""),
    says("§III-C", "Results for normal messages are very similar.", Checks("r12-fig3", &["normal-similar"])),
    says(
        "§IV-B, Fig. 5 and 6",
        "The sequences of packets in both cases (Fig. 5: one round trip sooner), with and without NR-SACK.",
        Checks("r12-sequences", &["packets", "fig5-gain"]),
    ),
    says(
        "§III-A",
        "If all lost messages are unreliable, a single FORWARD-TSN passes over them.",
        Checks("r12-sequences", &["one-forward-tsn"]),
    ),
    says(
        "§III-A",
        "The delay by FORWARD-TSN grows with the number of lost messages, in a row and one by one.",
        Checks("r12-sequences", &["grows"]),
    ),
    says(
        "§III-A",
        "If all messages are reliable, as with SCTP, recovery is at least one round trip faster.",
        Checks("r12-sequences", &["reliable-faster"]),
    ),
    says(
        "§IV-B, Fig. 6",
        "NR-SACK recovers two round trips sooner. (The packets of the paper's own Fig. 6 save one.)",
        Checks("r12-sequences", &["fig6-gain"]),
    )
    .headline("2 round trips", "saved", " round trip"),
    says(
        "§IV-B",
        "NR-SACK saves the more, the longer the run of lost messages.",
        Checks("r12-sequences", &["gain-grows"]),
    ),
    says(
        "§IV-C, Fig. 7a; R15 §5",
        "At 72 bytes, 30% load and 1% important messages, NR-SACK lowers the average delay by over 75%.",
        Checks("r12-fig7", &["gain-1%"]),
    )
    .headline("over 75 %", "lower by a share of", "").because(
        "The limit of unacknowledged chunks: with `unacknowledged = 512` instead of the 3,200 of FreeBSD 8.2's sources the gain is 80 ± 2% (8 runs, docs/lab.md).",
    ),
    says(
        "§IV-C, Fig. 7a",
        "At 72 bytes, 30% load and 50% important messages, by over 65%.",
        Checks("r12-fig7", &["gain-50%"]),
    )
    .headline("over 65 %", "lower by a share of", "").because("The limit of unacknowledged chunks: with `unacknowledged = 512` the gain is 80 ± 5% (8 runs, docs/lab.md)."),
    says("§IV-C, Fig. 7a", "NR-SACK gains nothing from 348 bytes on.", Checks("r12-fig7", &["large"]))
    .headline("", "348B, 10%: lower by", " "),
    says("§IV-C, Fig. 7a", "Below 348 bytes NR-SACK gains.", Checks("r12-fig7", &["small-gain"])),
    says("§IV-C, Fig. 7b", "NR-SACK gains at other loads, too.", Checks("r12-fig7", &["loads"])),
    says(
        "§IV-C, Fig. 7b",
        "With NR-SACK the delay grows with the share of important messages.",
        Checks("r12-fig7", &["growth"]),
    ),
    says(
        "§IV-C, Fig. 7b",
        "If all messages are important, the delays with and without NR-SACK coincide.",
        Checks("r12-fig7", &["coincide"]),
    ),
    says(
        "§IV-C",
        "Dropping expired messages from the send buffer lowers the delay, and leaves the gain of NR-SACK.",
        Checks("r12-fig7", &["late-binding"]),
    ),
];
