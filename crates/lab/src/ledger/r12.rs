//! What Rajiullah and Brunstrom 2012 say.

use super::Tested::{Checks, Not};
use super::{Paper, Statement, Tested};

const fn says(section: &'static str, says: &'static str, tested: Tested) -> Statement {
    Statement { paper: Paper::R12, section, says, tested, cause: "" }
}

pub(super) const STATEMENTS: &[Statement] = &[
    says(
        "§III-C, Fig. 3a",
        "With the sender of 2012 the average delay falls as messages grow.",
        Checks("r12-fig3", &["size"]),
    ),
    says(
        "§III-C, Fig. 3a; R15 §6, Papers V and VI",
        "The average delay is highest with messages of 72 bytes of which half are important.",
        Checks("r12-fig3", &["worst"]),
    ),
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
    ).because(
        "With half of the messages important it takes 17 ± 3% longer than with 1%, and no more than 6 ± 3% longer than with all: what is \
     important is sent again, and what is not is given up.",
    ),
    says(
        "§III-C, Fig. 4b",
        "At 716 bytes the delay grows with the share of important messages.",
        Checks("r12-fig4", &["growth"]),
    ),
    says(
        "§III-C, Fig. 4b",
        "At 716 bytes and 80% load the sender can hardly keep up.",
        Checks("r12-fig4", &["overload"]),
    ),
    says(
        "§III-C",
        "Results for normal messages are very similar.",
        Not("no check; the reports have the delays of both"),
    ),
    says(
        "§IV-B, Fig. 5 and 6",
        "The sequences of packets in both cases (Fig. 5: one round trip sooner), with and without NR-SACK.",
        Checks("r12-sequences", &["packets", "fig5-gain"]),
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
        "§IV-B",
        "NR-SACK saves the more, the longer the run of lost messages.",
        Checks("r12-sequences", &["gain-grows"]),
    ),
    says("§IV-B, Fig. 6", "NR-SACK recovers two round trips sooner.", Checks("r12-sequences", &["fig6-gain"])).because(
        "The packets are those of Fig. 6, drawn and counted one by one. They save one round trip.",
    ),
    says(
        "§IV-C, Fig. 7a; R15 §5",
        "At 72 bytes, 30% load and 1% important messages, NR-SACK lowers the average delay by over 75%.",
        Checks("r12-fig7", &["gain-1%"]),
    ).because(
        "The gain is 26 ± 4% with what FreeBSD 8.2's sources do and the paper does not mention: what has expired is given up as soon as \
     it is missing, without a cut of the window, and an application may have 3,200 chunks or 233,016 bytes unacknowledged, by default \
     with 4 GB. If the sender looks at lifetimes before retransmissions only, it is 34%. Three more things of those sources were \
     tried: all of them together give 22%. With 512 chunks, which that kernel has with less than 96 MB of memory or by a setting, \
     they give 77% (docs/lab.md). Of Nagle's rule and of how Dummynet counts bytes it depends more than of all these.",
    ),
    says(
        "§IV-C, Fig. 7a",
        "With 50% important messages, by over 65%.",
        Checks("r12-fig7", &["gain-50%"]),
    ).because(
        "The gain is 44 ± 5%, read as for 1%; with the three things more it is 57%, and 78% with 512 chunks.",
    ),
    says("§IV-C, Fig. 7a", "There is no gain from 348 bytes on.", Checks("r12-fig7", &["large"])),
    says("§IV-C, Fig. 7b", "NR-SACK gains at other loads, too.", Checks("r12-fig7", &["loads"])),
    says(
        "§IV-C, Fig. 7b",
        "With NR-SACK the delay grows with the share of important messages.",
        Checks("r12-fig7", &["growth"]),
    ).because(
        "It grows up to a half, at 30% load by 40 ± 6% and 35 ± 8%. Where all messages are important it is lower again, at 45% load by 21 \
     ± 5%, as it is with the sender of 2012: nothing is abandoned then, and no FORWARD-TSN takes a round trip.",
    ),
    says(
        "§IV-C, Fig. 7b",
        "If all messages are important, both coincide.",
        Checks("r12-fig7", &["coincide"]),
    ),
    says(
        "§IV-C",
        "Dropping expired messages from the send buffer lowers the delay, and leaves the gain of NR-SACK.",
        Not("no sender does it without NR-SACK"),
    ),
];
